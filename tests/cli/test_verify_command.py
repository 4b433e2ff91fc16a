"""The officer's path: README's own commands on README's own release, honest files, and whatever an editor might do."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shlex
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import pate
from pate._core.files import write_json
from pate.cli import app
from pate.exceptions import LedgerError
from pate.ledger import Ledger, verify_ledger
from pate.ledger._chain import COLUMNS, Entry, canonical, key_path
from pate.ledger._entries import make_seal
from pate.ledger._files import signature
from pate.ledger._store import SCHEMA
from pate.models.file import read_model, write_model
from pate.release.statement.files import read_statement

#: A release is made by the command for nearly each of them.
pytestmark = pytest.mark.long

ROOT = Path(pate.__file__).parent.parent
README, TOUR = ((ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/tour.md"))
LEDGER = "patients.csv.ledger.sqlite"
RELEASED = ("labels.csv", "labels.pate", "labels.statement.json", "labels.statement.html", "labels.statement.txt")


def readme(begins: str) -> list[str]:
    """Return the one command of README, else of the tour, that begins so, its comment cut off, lines joined."""
    for page in (README, TOUR):
        lines = [line for line in page.replace("\\\n", " ").splitlines() if line.strip().startswith(begins)]
        if lines:
            break
    (found,) = lines
    return shlex.split(found.partition("  # ")[0].partition("   #")[0])


def run(words: list[str], code: int = 0) -> str:
    there = [part for word in words[1:] for part in (sorted(map(str, Path().glob(word))) if "*" in word else [word])]
    done = CliRunner().invoke(app, there)
    if done.exit_code != code:
        raise AssertionError(f"{shlex.join(there)} ended with {done.exit_code}: {done.output} {done.exception!r}")
    return done.output


def tables() -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.normal(50, 10, 1460).round(6), "bmi": rng.normal(25, 3, 1460).round(6)})
    rows[1400:].to_csv("cohort.csv", index=False)
    private = rows[:1400].assign(ill=np.where(rows.age[:1400] > 50, "yes", "no"), patient_id=np.arange(1400) // 2)
    private.to_csv("patients.csv", index=False)
    high = rng.binomial(100, np.where(rows.age[1400:] > 50, 0.9, 0.1))
    np.save("votes.npy", np.column_stack([100 - high, high]))


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """README's default: records vote, persons are protected; the release is made once for all tests."""
    folder = tmp_path_factory.mktemp("release")
    with contextlib.chdir(folder):
        tables()
        run(readme("pate label --private"))
    return folder


def check_officer(ledger: str = LEDGER) -> None:
    """Run what README tells an officer to run, on honest files."""
    for begins in ("pate verify labels.csv", "pate statement labels.statement.json --ledger"):
        said = run([word.replace(LEDGER, ledger) for word in readme(begins)])
        assert "PRIVACY STATEMENT" in said or said.count(": as released: ") == len(RELEASED)
    assert read_model("labels.pate").statement.to_dict() == read_statement("labels.statement.json").to_dict()
    assert run(["pate", "ledger", "verify", ledger, *RELEASED]).count(": as released: ") == len(RELEASED)


@pytest.mark.long
@pytest.mark.sample
@pytest.mark.sample
def test_readmes_default_is_accepted_by_readmes_own_commands(release):
    with contextlib.chdir(release):
        check_officer()
        found = json.loads(run(["pate", "verify", *RELEASED, "--ledger", LEDGER, "--json"]))
    assert found["ok"]
    assert {file["status"] for file in found["files"]} == {"as released"}


def test_a_release_made_twice_is_known_twice_and_under_any_name(release, tmp_path):
    with contextlib.chdir(release):
        run([*readme("pate label --private")[:-1], str(tmp_path / "again.csv")])  # free: from the ledger
        assert len(Ledger(LEDGER).releases()) == 1
    for name in RELEASED:
        shutil.copy(release / name, tmp_path / f"copy{Path(name).suffix}")
    files = [path for path in tmp_path.iterdir() if path.is_file()]
    assert len(files) == 10
    assert verify_ledger(release / LEDGER, files=files).as_released
    # Written again, with other spaces: a statement is what it says.
    (tmp_path / "lean.json").write_text(json.dumps(json.loads((release / RELEASED[2]).read_text())))
    assert verify_ledger(release / LEDGER, files=[tmp_path / "lean.json"]).as_released
    # The page again, from the statement, is the page that was released; a translation's is not.
    with contextlib.chdir(tmp_path):
        run(["pate", "statement", "lean.json", "--out", "page.html"])
    assert verify_ledger(release / LEDGER, files=[tmp_path / "page.html"]).as_released


BAYES = ["--teacher", "naive-bayes", "--teachers", "60", "--jobs", "1"]
#: What is said beside README's own words.
KINDS = {
    "README's forests": ("pate label --private", ["--teacher", "random-forest", "--teachers", "100", "--jobs", "1"]),
    "teachers on shards": ("pate label --private", BAYES),
    "rounds of queries": ("pate label --private", [*BAYES, "--select", "uncertain", "--rounds", "2"]),
    "votes": ("pate label --votes", ["--delta", "1e-5", "--out", "labels.csv"]),
}


def test_the_forests_are_readmes():
    assert set(KINDS["README's forests"][1]) > set(readme("pate label ... --teacher")[3:-2])


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] if "forests" in kind else []) for kind in KINDS]
)
def test_every_kind_of_label_job_is_accepted(kind, tmp_path):
    begins, more = KINDS[kind]
    with contextlib.chdir(tmp_path):
        tables()
        run([*readme(begins), *more])
        check_officer("votes.npy.ledger.sqlite" if kind == "votes" else LEDGER)


# Whatever an editor might do ---------------------------------------------------------------------------------------


def edited(folder: Path, change) -> None:
    """Edit a statement as a person who has read the code: bounds, headline and digest fit again."""
    path = folder / "labels.statement.json"
    write_json(path, change(read_statement(path)).to_dict())


def said(**changes):
    return lambda folder: edited(folder, lambda s: replace(s, **changes))


def text(name: str, old: str, new: str):
    def change(folder: Path) -> None:
        path = folder / name
        before = path.read_text(encoding="utf-8")
        assert old in before
        path.write_text(before.replace(old, new, 1), encoding="utf-8")

    return change


def rows(change):
    def edit(folder: Path) -> None:
        lines = (folder / "labels.csv").read_text().splitlines(keepends=True)
        (folder / "labels.csv").write_text("".join(change(lines)))

    return edit


def model(change_statement=lambda s: s, change_parts=lambda parts: parts):
    """Write a whole model again, with digests of its own."""

    def edit(folder: Path) -> None:
        path = folder / "labels.pate"
        held = read_model(path)
        path.unlink()
        write_model(path, held.manifest, change_statement(held.statement), change_parts(dict(held.parts)))

    return edit


def flipped(lines: list[str]) -> list[str]:
    return [lines[0], re.sub("no|yes", lambda word: {"no": "yes", "yes": "no"}[word[0]], lines[1], count=1), *lines[2:]]


def nudged(parts: dict[str, bytes]) -> dict[str, bytes]:
    name = max(parts, key=lambda part: len(parts[part]))
    return parts | {name: parts[name][:-1] + bytes([parts[name][-1] ^ 1])}


def less(s):
    return replace(s, guarantee=replace(s.guarantee, epsilon=s.guarantee.epsilon / 10))


def closed(s):
    return replace(s, assumptions=tuple(replace(a, by="pate", how="seen to") for a in s.assumptions))


STATEMENT = "labels.statement.json"
#: What is done -> the file that must be called changed, and what is said of it.
EDITS = {
    "a smaller epsilon": (lambda f: edited(f, less), STATEMENT, "guarantee.epsilon"),
    "another threat model": (said(threat_model="anybody, the curator too"), STATEMENT, "its threat_model differs"),
    "other words on what was released": (said(released="one number"), STATEMENT, "its released differs"),
    "open assumptions closed": (lambda f: edited(f, closed), STATEMENT, r"assumptions\..* differ"),
    "no assumptions": (said(assumptions=()), STATEMENT, r"its assumptions, assumptions\..* differ"),
    "the hash of other labels": (said(label_file_sha256="ab" * 32), STATEMENT, "its label_file_sha256 differs"),
    "another file's name": (said(label_file="other.csv"), STATEMENT, "its label_file differs"),
    "another source of noise": (said(noise_source="a quantum computer"), STATEMENT, "its noise_source differs"),
    "text after the mechanism": (
        lambda f: edited(f, lambda s: replace(s, mechanism=s.mechanism + "; and more noise")),
        STATEMENT,
        "its mechanism differs",
    ),
    "a smaller mu": (said(mu=0.001), STATEMENT, r"its .*\bmu\b.* differ"),
    "another curve": (said(curve=((1e-6, 0.001),)), STATEMENT, r"its .*\bcurve\b.* differ"),
    "records instead of persons": (said(unit="record"), STATEMENT, "headline, meaning.text, unit differ"),
    "more units": (said(n_units=10**6), STATEMENT, r"its .*\bn_units\b.* differ"),
    "tuning that was charged": (said(tuning="all of it charged"), STATEMENT, "its tuning differs"),
    "another time": (said(created="1999-01-01T00:00:00+00:00"), STATEMENT, "its created differs"),
    "another release's number": (said(ledger_releases=(2,)), STATEMENT, "its ledger_releases differs"),
    "another head": (said(ledger_head="ab" * 32), STATEMENT, "its ledger_head differs"),
    "a word, and no new digest": (text(STATEMENT, "operating system", "operating SYSTEM"), STATEMENT, "noise"),
    "a number beyond all": (
        text(STATEMENT, '"n_units": 700', '"n_units": 1e999'), STATEMENT, "it can no longer be read as what it was",
    ),
    "an entry twice": (
        text(STATEMENT, '"n_units": 700', '"n_units": 700, "n_units": 700'), STATEMENT, "it can no longer be read",
    ),
    "half a statement": (
        lambda f: (f / STATEMENT).write_text((f / STATEMENT).read_text()[:900]),
        STATEMENT,
        "it can no longer be read as what it was",
    ),
    "a label flipped": (rows(flipped), "labels.csv", "its content differs"),
    "a row dropped": (rows(lambda lines: lines[:-1]), "labels.csv", "its content differs"),
    "a row twice": (rows(lambda lines: [*lines, lines[-1]]), "labels.csv", "its content differs"),
    "rows in another order": (rows(lambda lines: [lines[0], *lines[:0:-1]]), "labels.csv", "its content differs"),
    "a confidence": (rows(lambda lines: [*lines[:-1], lines[-1].replace("0.", "0.9")]), "labels.csv", "content"),
    "the model's statement": (
        model(lambda s: replace(s, threat_model="nobody")), "labels.pate", r"statement.json threat_model differ",
    ),
    "the model's epsilon": (model(less), "labels.pate", "statement.json guarantee.epsilon"),
    "the model's numbers": (model(change_parts=nudged), "labels.pate", r"safetensors differ"),
    "a byte of the model": (
        lambda f: (f / "labels.pate").write_bytes((f / "labels.pate").read_bytes()[:-1]), "labels.pate", "no longer",
    ),
    "the page's epsilon": (
        text("labels.statement.html", "epsilon = 1 ", "epsilon = 0.1 "), "labels.statement.html", "its content differs",
    ),
    "the page's script": (text("labels.statement.html", "</body>", "<script></script></body>"),
                          "labels.statement.html", "its content differs"),
    "the text's unit": (text("labels.statement.txt", "group", "record"), "labels.statement.txt", "its content differs"),
}  # fmt: skip


@pytest.mark.sample
def test_every_edit_is_refused_by_name(release, tmp_path):
    for name, (edit, file, what) in EDITS.items():
        folder = tmp_path / name
        folder.mkdir()
        for one in RELEASED:
            shutil.copy(release / one, folder)
        edit(folder)
        found = {
            Path(one.file).name: one
            for one in verify_ledger(release / LEDGER, files=[folder / one for one in RELEASED]).files
        }
        print(f"{name} | {file} | {found[file].why.partition('; compared')[0]}")
        assert found[file].status == "changed", name
        assert re.search(what, found[file].why.partition("; compared")[0]), (name, found[file].why)
        assert all(one.ok for other, one in found.items() if other != file), name
        # Under another name, too: a statement or a model is known by the release's head in it.
        (folder / file).rename(folder / f"renamed{Path(file).suffix}")
        (again,) = verify_ledger(release / LEDGER, files=[folder / f"renamed{Path(file).suffix}"]).files
        assert not again.ok, name
    assert len(EDITS) >= 20
    with contextlib.chdir(folder):  # the last one's, by the command
        shutil.copy("renamed.txt", "labels.statement.txt")
        said = run(["pate", "verify", *RELEASED, "--ledger", str(release / LEDGER)], code=1)
        assert said.count("labels.statement.txt: CHANGED: its content differs") == 1
        said = run(["pate", "verify", "renamed.txt", "labels.csv", "--ledger", str(release / LEDGER)], code=3)
        assert "renamed.txt: unknown: no file of this name or content was bound by this ledger" in said


def test_the_statement_command_refuses_what_verify_calls_changed(release, tmp_path):
    for one in RELEASED:
        shutil.copy(release / one, tmp_path)
    edited(tmp_path, lambda s: replace(s, noise_source="a quantum computer"))
    done = CliRunner().invoke(app, ["statement", str(tmp_path / STATEMENT), "--ledger", str(release / LEDGER)])
    assert "its noise_source differs" in str(done.exception)


# Without the ledger ------------------------------------------------------------------------------------------------

ONLY = "what was charged for them, and what all releases together spent: only the ledger shows that (--ledger)."


@pytest.mark.sample
def test_who_has_the_released_files_alone_compares_them_with_their_statement(release, tmp_path):
    public = [one for one in RELEASED if one != "labels.pate"]
    with contextlib.chdir(release):
        said = run(["pate", "verify", *public])
        assert said.count(": as stated: ") == 4
        assert ONLY in said
        digest = hashlib.sha256(Path("labels.csv").read_bytes()).hexdigest()
        assert f"labels.csv: as stated: its SHA-256, {digest}, is that of the statement's labels.csv" in said
        found = json.loads(run(["pate", "verify", "labels.pate", STATEMENT, "--json"], code=3))
        assert [one["status"] for one in found["files"]] == ["unknown", "as stated"]
        done = CliRunner().invoke(app, ["verify", "labels.csv"])
        assert "labels.statement.json) must be among the files where no ledger is" in str(done.exception)
        done = CliRunner().invoke(app, ["verify", STATEMENT, "--head", "ab"])
        assert "--head is compared with a ledger" in str(done.exception)
    for name, (edit, file, _) in EDITS.items():
        folder = tmp_path / name
        folder.mkdir()
        for one in RELEASED:
            shutil.copy(release / one, folder)
        edit(folder)
        with contextlib.chdir(folder):
            said = run(["pate", "verify", *RELEASED], code=3 if name == "the model's numbers" else 1)
            assert f"{file}: CHANGED" in said or file in (STATEMENT, "labels.pate"), name
    with contextlib.chdir(tmp_path):
        # A statement in a model vouches for nothing beside itself, whatever the model is called.
        shutil.copy(release / "labels.pate", "labels.zip")
        shutil.copy(release / "labels.pate", "model.csv")
        assert run(["pate", "verify", "labels.zip", "model.csv", str(release / STATEMENT)], code=3).count("nknown") == 2
        done = CliRunner().invoke(app, ["verify", "labels.zip"])
        assert "must be among the files where no ledger is" in str(done.exception)
        # the statement of another file
        Path("other.csv").write_text("row,label\n0,yes\n")
        said = run(["pate", "verify", "other.csv", str(release / STATEMENT)], code=1)
    assert f"and the statement is of labels.csv, SHA-256 {digest}: edited, or of another release" in said


# The ledger itself -----------------------------------------------------------------------------------------------


def rewritten(path: Path, change) -> None:
    """Make a whole new chain, as anybody who reads the code can: ``change`` maps an entry's fields to others."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        triggers = [sql for sql in SCHEMA.values() if " TRIGGER " in sql]
        for sql in triggers:
            connection.execute(f"DROP TRIGGER {sql.split()[2]}")
        previous = None
        for row in connection.execute(f"SELECT {COLUMNS} FROM entries ORDER BY seq").fetchall():
            entry = Entry(*row[:-1])
            if previous is not None:
                entry = replace(entry, previous=previous)
            entry = change(entry)
            previous = entry.digest
            connection.execute(
                "UPDATE entries SET body = ?, previous = ?, digest = ? WHERE seq = ?",
                (entry.body, entry.previous, previous, entry.seq),
            )
        connection.execute("UPDATE meta SET value = ? WHERE key = 'seal'", (make_seal(connection, path),))
        for sql in triggers:
            connection.execute(sql)


@pytest.fixture
def forged(release, tmp_path):
    """A ledger and labels as a forger has them: all files but the key."""
    shutil.copy(release / LEDGER, tmp_path / LEDGER)
    shutil.copy(release / "labels.csv", tmp_path)
    rows(flipped)(tmp_path)
    old, new = (hashlib.sha256((f / "labels.csv").read_bytes()).hexdigest() for f in (release, tmp_path))
    return tmp_path, old, new


def test_without_the_key_no_ledger_can_be_made_that_passes(release, forged):
    folder, old, new = forged
    path, labels = folder / LEDGER, folder / "labels.csv"
    rewritten(path, lambda entry: replace(entry, body=entry.body.replace(old, new)))
    whole = verify_ledger(path, files=[labels])
    assert whole.ok  # without the key the chain alone says nothing
    assert whole.files[0].status == "unknown"
    assert "who has no key could have written such a ledger" in whole.files[0].why
    assert verify_ledger(path, head=Ledger(release / LEDGER).head).problems  # the noted head is not in it
    shutil.copy(key_path(release / LEDGER), key_path(path))
    found = verify_ledger(path, files=[labels])
    assert any("was not written with the key beside the ledger" in problem for problem in found.problems)
    assert (found.files[0].status, found.files[0].why) == ("unknown", "the ledger itself is not verified")
    # An entry that binds the forged file, of a key of the forger's own.
    shutil.copy(release / LEDGER, path)
    key = key_path(path).read_text()
    key_path(path).write_text("ab" * 32)
    with pytest.raises(LedgerError, match="not the one of its registration"):
        Ledger(path).bind(labels)

    def signed(entry: Entry) -> Entry:
        body = json.loads(entry.body.replace(old, new))
        if "bound" in body:
            body["mac"] = signature(
                bytes.fromhex("ab" * 32), body["bound"], entry.release, entry.created, entry.previous
            )
        return replace(entry, body=canonical(body))

    rewritten(path, signed)
    key_path(path).write_text(key)
    found = verify_ledger(path, files=[labels])
    assert not found.ok
    assert not found.files[0].ok


def test_a_copy_without_its_key_proves_what_a_noted_head_covers(release, tmp_path):
    shutil.copy(release / LEDGER, tmp_path / LEDGER)
    noted = Ledger(release / LEDGER).head
    for head, status, code in ((None, "unknown", 3), (noted, "as released", 0), ("ab" * 32, "unknown", 1)):
        found = verify_ledger(tmp_path / LEDGER, head=head, files=[release / "labels.csv"])
        assert found.files[0].status == status
        more = [] if head is None else ["--head", head]
        run(["pate", "verify", str(release / "labels.csv"), "--ledger", str(tmp_path / LEDGER), *more], code)


@pytest.mark.long
def test_files_of_a_release_that_bound_none_are_unknown_until_bound(tmp_path, monkeypatch):
    """As in ledgers of earlier versions."""
    with contextlib.chdir(tmp_path), monkeypatch.context() as patched:
        patched.setattr(Ledger, "bind", lambda *_, **__: "")
        tables()
        run(readme("pate label --private"))
    with contextlib.chdir(tmp_path):
        verify = readme("pate verify labels.csv")
        said = run(verify, code=3)
        assert said.count("it may be of release 1, for which no file was bound (an earlier pate bound none)") == 5
        assert "unknown: no file of this name" in str(
            CliRunner().invoke(app, ["statement", "labels.statement.json", "--ledger", LEDGER]).exception
        )
        head = Ledger(LEDGER).head_of([1])
        run(["pate", "ledger", "bind", LEDGER, *RELEASED])
        run(verify)
        assert Ledger(LEDGER).head_of([1]) == head  # what is bound later leaves a release's head as it was
        assert Ledger(LEDGER).remaining().n_releases == 1
