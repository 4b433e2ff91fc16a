"""Model files are read strictly: whatever is not as it was written is refused in one line, and nothing is built."""

from __future__ import annotations

import datetime
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from pate import Budget, InvalidInputError, PATEClassifier
from pate._core.estimators import unpack_estimator
from pate.models.file import _DATE, InputSpec, Manifest, _facts, read_model, write_page
from pate.models.students._serialised import TYPES


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    X, y = np.arange(40.0).reshape(40, 1), np.repeat(["no", "yes"], 20)
    clf = PATEClassifier(KNeighborsClassifier(1), n_teachers=4, budget=Budget(1e4, 1e-5), classes=["no", "yes"],
                         student="decision-tree", random_state=0)  # fmt: skip
    path = tmp_path_factory.mktemp("model") / "model.pate"
    clf.fit(X, y, X_public=X[::4] + 0.5).save(path)
    return path


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def written(path, held, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in held:
            archive.writestr(zipfile.ZipInfo(name, _DATE), data, compress_type=compression)
    return path


def with_manifest(held, change):
    """The members with another manifest, whose digests fit."""
    said = json.loads(held["manifest.json"])
    said["files"] = {name: _facts(data) for name, data in held.items() if name != "manifest.json"}
    change(said)
    return {**held, "manifest.json": json.dumps(said).encode()}


def edited_statement(held):
    said = json.loads(held["statement.json"])
    said["guarantee"]["epsilon"] = 0.1
    return with_manifest({**held, "statement.json": json.dumps(said).encode()}, lambda said: None)


DAMAGES = {
    "truncated": lambda held, whole: whole[: len(whole) // 2],
    "empty": lambda held, whole: b"",
    "a pickle": lambda held, whole: b"\x80\x04cos\nsystem\n.",
    "a flipped byte": lambda held, whole: whole[:200] + bytes([whole[200] ^ 1]) + whole[201:],
    "an edited statement": lambda held, whole: edited_statement(held),
    "another part": lambda held, whole: {**held, "student.skops": b"PK"},
    "one part more": lambda held, whole: {**held, "extra.safetensors": b""},
    "one part less": lambda held, whole: {n: d for n, d in held.items() if n != "student.skops"},
    "a path": lambda held, whole: {**held, "../../etc/cron.safetensors": b""},
    "code": lambda held, whole: {**held, "run.py": b"import os"},
    "no manifest": lambda held, whole: {n: d for n, d in held.items() if n != "manifest.json"},
    "no statement": lambda held, whole: {n: d for n, d in held.items() if n != "statement.json"},
    "a manifest that is no JSON": lambda held, whole: {**held, "manifest.json": b"{"},
    "a manifest that is a list": lambda held, whole: {**held, "manifest.json": b"[]"},
    "a name twice": lambda held, whole: {**held, "manifest.json": b'{"format": 1, "format": 2}'},
    "a deep one": lambda held, whole: {**held, "manifest.json": b"[" * 100_000},
    "a later format": lambda held, whole: with_manifest(held, lambda said: said.update(format="pate-model-2")),
    "an unknown entry": lambda held, whole: with_manifest(held, lambda said: said.update(more=1)),
    "an unknown kind": lambda held, whole: with_manifest(held, lambda said: said.update(kind="oracle")),
    "odd settings": lambda held, whole: with_manifest(held, lambda said: said.update(settings={"voters": "gods"})),
    "odd rows": lambda held, whole: with_manifest(held, lambda said: said["rows"].update(n_features=-1)),
    "rows of no kind": lambda held, whole: with_manifest(held, lambda said: said["rows"].update(kind=["table"])),
    "odd columns": lambda held, whole: with_manifest(held, lambda said: said["rows"].update(columns=[1])),
    "odd classes": lambda held, whole: with_manifest(held, lambda said: said["classes"].update(values=[[1], [2]])),
    "one class": lambda held, whole: with_manifest(held, lambda said: said["classes"].update(values=["no"])),
    "classes of another type": lambda held, whole: with_manifest(
        held, lambda said: said["classes"].update(dtype="<M8")
    ),
    "classes of wide texts": lambda held, whole: with_manifest(
        held, lambda said: said["classes"].update(dtype="<U30000000")
    ),
    "a number between texts": lambda held, whole: with_manifest(held, lambda said: said.update(kind="numbers")),
    "deep colours": lambda held, whole: with_manifest(
        held, lambda said: said["rows"].update(color=json.loads("[" * 900 + "]" * 900))
    ),
    "classes cut short": lambda held, whole: with_manifest(held, lambda said: said["classes"].update(dtype="<U1")),
}


@pytest.mark.few(5)
@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_not_as_it_was_written_is_refused_in_one_line(name, saved, tmp_path):
    made = DAMAGES[name](members(saved), saved.read_bytes())
    file = tmp_path / "model.pate"
    if isinstance(made, bytes):
        file.write_bytes(made)
    else:
        written(file, made.items())
    with pytest.raises(InvalidInputError, match="is not an intact model file") as caught:
        PATEClassifier.load(file)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == [file]


def test_the_damages_are_what_is_refused(saved, tmp_path):
    again = written(tmp_path / "model.pate", members(saved).items())
    assert PATEClassifier.load(again).predict([[1.0], [39.0]]).tolist() == ["no", "yes"]
    held = with_manifest(members(saved), lambda said: None)
    assert PATEClassifier.load(written(tmp_path / "b.pate", held.items())).predict([[1.0]]).tolist() == ["no"]


def test_compressed_members_are_refused_so_no_small_file_holds_a_large_one(saved, tmp_path):
    held = {**members(saved), "bomb.safetensors": bytes(50_000_000)}
    file = written(tmp_path / "model.pate", held.items(), zipfile.ZIP_DEFLATED)
    assert file.stat().st_size < 1_000_000
    with pytest.raises(InvalidInputError, match="compressed or encrypted"):
        read_model(file)


def test_members_that_claim_to_be_larger_than_the_file_are_refused(saved, tmp_path):
    held = members(saved)
    written(tmp_path / "model.pate", held.items())
    data = (tmp_path / "model.pate").read_bytes()
    at = data.rindex(b"PK\x01\x02")  # the last member's entry in the directory: its two sizes
    data = data[: at + 20] + (10**9).to_bytes(4, "little") * 2 + data[at + 28 :]
    (tmp_path / "model.pate").write_bytes(data)
    with pytest.raises(InvalidInputError, match="claim to be larger"):
        read_model(tmp_path / "model.pate")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_that_stands_twice_is_refused(saved, tmp_path):
    held = list(members(saved).items())
    with pytest.raises(InvalidInputError, match="two of one name"):
        read_model(written(tmp_path / "model.pate", [*held, held[0]]))


def skops_of(thing):
    import skops.io as sio

    return sio.dumps(thing)


def test_types_that_are_not_safe_are_not_built(saved, tmp_path):
    from functools import partial

    from sklearn.preprocessing import FunctionTransformer

    held = {**members(saved), "student.skops": skops_of(FunctionTransformer(partial(print, "harm")))}
    file = written(tmp_path / "model.pate", with_manifest(held, lambda said: None).items())
    with pytest.raises(InvalidInputError, match=r"not safe to read.*UntrustedTypes|UntrustedTypes.*not safe to read"):
        PATEClassifier.load(file)


def test_a_student_whose_inner_archive_swells_is_refused(saved, tmp_path):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", b" " * 10_000_000)
    held = {**members(saved), "student.skops": made.getvalue()}
    file = written(tmp_path / "model.pate", with_manifest(held, lambda said: None).items())
    with pytest.raises(InvalidInputError, match="the student cannot be built"):
        PATEClassifier.load(file)


def test_a_student_whose_arrays_are_read_again_and_again_is_refused(saved, tmp_path):
    with zipfile.ZipFile(io.BytesIO(members(saved)["student.skops"])) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    array = {"__class__": "ndarray", "__module__": "numpy", "__loader__": "NdArrayNode", "type": "numpy", "file": "a"}
    said = json.loads(held["schema.json"])
    said["content"]["content"]["more"] = {
        "__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": [array] * 99,
    }  # fmt: skip
    made, packed = io.BytesIO(), io.BytesIO()
    np.save(packed, np.zeros(9999))
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in {**held, "a": packed.getvalue(), "schema.json": json.dumps(said).encode()}.items():
            archive.writestr(name, data)
    with pytest.raises(ValueError, match="more than they are"):
        unpack_estimator(made.getvalue(), trusted=TYPES)


def test_there_is_no_such_file_and_a_folder_is_none(tmp_path):
    for path in (tmp_path / "no.pate", tmp_path):
        with pytest.raises(InvalidInputError, match="there is no model file"):
            read_model(path)


# The page and its facts ---------------------------------------------------------------------------------------------


def test_text_page_and_json_say_what_it_is_and_what_it_cost(saved, tmp_path):
    file = read_model(saved)
    for text in (file.text(), file.html()):
        for words in ("DecisionTreeClassifier", "no, yes (texts)", "rows of 1 number", file.sha256[:20],
                      "no private row, vote"):  # fmt: skip
            assert words in " ".join(text.split())
    assert file.statement.headline.split(",")[0] in " ".join(file.text().split())
    assert max(map(len, file.text().splitlines())) <= 24 + 84 + 20
    said = json.loads(json.dumps(file.to_dict()))
    assert said["statement"]["digest"] == file.statement.digest
    assert said["file"] == {"bytes": saved.stat().st_size, "sha256": file.sha256}
    write_page(file, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == file.html()
    with pytest.raises(InvalidInputError, match="never overwritten"):
        write_page(file, tmp_path / "page.html")


def test_what_a_person_named_is_text_on_the_page(saved):
    spec = InputSpec(kind="table", n_features=1, columns=(("<script>x", "numeric"),))
    manifest = Manifest(kind="student", classes=("<b>", "&"), dtype="<U3", door=spec, made_of=("<i>",))
    file = read_model(saved)
    object.__setattr__(file, "manifest", manifest)
    for markup in ("<script>", "<b>", "<i>"):
        assert markup not in file.html()


def test_no_text_in_a_file_clears_the_screen_or_turns_a_line_around(saved):
    spec = InputSpec(kind="table", n_features=1, columns=(("\x1b[2J", "numeric"),))
    classes = ("\x1b[1A\x1b[2K", "\u202e8")
    manifest = Manifest(kind="student", classes=classes, dtype="<U8", door=spec, made_of=("\x9b2J",), pate="\x07")
    file = read_model(saved)
    object.__setattr__(file, "manifest", manifest)
    for page in (file.text(), file.html()):
        assert not set(page) & set("\x07\x1b\x9b\u202e")


def test_classes_that_json_does_not_hold_are_refused():
    days = np.array([datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)], dtype=object)
    with pytest.raises(InvalidInputError, match="got date"):
        Manifest.of_classes(days, kind="student", door=InputSpec(kind="texts"))


def test_no_file_is_left_behind_of_what_is_unpacked(saved):
    with read_model(saved).unpacked() as folder:
        assert sorted(p.name for p in folder.iterdir()) == ["student.skops"]
        assert folder.stat().st_mode & 0o077 == 0
    assert not Path(folder).exists()
