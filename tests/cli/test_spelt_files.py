"""Files that spell one text in several ways: headers, categories, classes and ids are compared as texts are."""

from __future__ import annotations

import unicodedata

import numpy as np
import pandas as pd
import pytest
from test_cli import pate

from pate import InvalidInputError
from pate.data import TableEncoder, align_columns, read_both, read_table
from pate.exceptions import CuratorWarning

N, N_PUBLIC = 400, 40


def nfd(text):
    return unicodedata.normalize("NFD", text)


def respelt(cells):
    ways = (str, nfd, lambda text: f"{text} ", lambda text: f"\u00a0{text}\u2003")
    return [ways[i % 4](cell) for i, cell in enumerate(cells)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("spelt"), np.random.default_rng(0)
    frame = pd.DataFrame({"\u00e2ge": rng.normal(50, 10, N + N_PUBLIC).round(3)})
    frame["town"] = rng.choice(["Malm\u00f6", "Oslo"], len(frame))
    frame["g\u00e9nie"] = np.where(frame["\u00e2ge"] > 50, "oui", "n\u00e9")
    frame["who"] = [f"Zo\u00eb {i // 2}" for i in range(len(frame))]
    frame[:N].to_csv(folder / "one.csv", index=False)
    frame[N:].drop(columns=["g\u00e9nie", "who"]).to_csv(folder / "public.csv", index=False)
    other = frame[:N].assign(**{name: respelt(frame[name][:N]) for name in ("town", "g\u00e9nie", "who")})
    other = other.set_axis(respelt(["x", *frame.columns])[1:], axis=1)
    other.to_csv(folder / "other.csv", index=False)
    other.to_excel(folder / "other.xlsx", index=False)
    other.to_parquet(folder / "other.parquet")
    return folder


@pytest.mark.filterwarnings("ignore::pate.exceptions.CuratorWarning")
@pytest.mark.parametrize("kind", ["csv", "xlsx", "parquet"])
def test_private_files_read_alike_however_they_are_spelt(files, kind):
    one, other = (
        read_both(files / name, files / "public.csv", target=target, group="who ").private
        for name, target in (("one.csv", "g\u00e9nie"), (f"other.{kind}", nfd("g\u00e9nie")))
    )
    pd.testing.assert_frame_equal(one.X, other.X, check_dtype=False)
    assert one.groups.tolist() == other.groups.tolist()


@pytest.mark.filterwarnings("ignore::pate.exceptions.CuratorWarning")
def test_a_large_parquet_file_is_read_by_blocks_under_names_as_they_are_compared(files, tmp_path, monkeypatch):
    monkeypatch.setattr("pate.data._files._arrow.WHOLE_BYTES", 0)
    held = pd.read_parquet(files / "other.parquet").iloc[:, [0, 2, 3]]
    held.to_parquet(tmp_path / "p.parquet")
    one = read_table(files / "one.csv", target="g\u00e9nie", group="who", drop=["town"])
    other = read_table(tmp_path / "p.parquet", target="g\u00e9nie", group="who", like=one)
    assert other.X["\u00e2ge"].tolist() == one.X["\u00e2ge"].tolist()
    assert other.groups.tolist() == one.groups.tolist()


def test_what_was_joined_is_told_of_public_columns_to_all_and_of_private_ones_to_the_curator(files, tmp_path):
    public = pd.read_csv(files / "public.csv")
    public.assign(town=respelt(public["town"])).to_csv(tmp_path / "public.csv", index=False)
    with pytest.warns(CuratorWarning) as warned:
        pair = read_both(files / "other.csv", tmp_path / "public.csv", target="g\u00e9nie", group="who")
    joined = "in several spellings (outer blanks, Unicode form), read as one"
    (use,) = (use for use in pair.columns if use.name == "town")
    assert str(use) == f"town: 2 categories (it has 2 texts {joined})"
    said = "\n".join(str(one.message) for one in warned)
    for column, n in (("'town'", 2), ("the column 'g\u00e9nie'", 2), ("the column 'who'", 200)):
        assert f"{column} has {n} texts {joined}" in said
    assert "Oslo" not in said


@pytest.mark.parametrize("suffix", ["csv", "xlsx", "parquet"])
def test_headers_that_are_equal_are_refused_with_the_reason(tmp_path, suffix):
    frame = pd.DataFrame({"\u00e9": [1.0], "e\u0301 ": [2.0], "a": ["x"]})
    write = getattr(frame, {"csv": "to_csv", "xlsx": "to_excel", "parquet": "to_parquet"}[suffix])
    write(tmp_path / f"t.{suffix}", index=False)
    with pytest.raises(InvalidInputError, match=r"of the same name: '\u00e9' \(compared in NFC"):
        read_table(tmp_path / f"t.{suffix}")
    with pytest.raises(InvalidInputError, match=r"of the same name \(compared in NFC"):
        TableEncoder().fit(frame)


def test_columns_of_two_tables_are_aligned_by_names_as_they_are_compared():
    found = align_columns(pd.DataFrame({"a ": [1.0], "b": ["x"]}), pd.DataFrame({"b\n": ["y"], "a": [2.0]}))
    assert found.columns.tolist() == ["a ", "b"]


@pytest.mark.long
def test_label_knows_the_same_records_and_predict_the_same_columns(files, tmp_path):
    def run(*words, name):
        done = pate(
            "label", "--private", files / name, "--public", files / "public.csv", "--epsilon", 8, "--delta", "1e-4",
            "--ledger", tmp_path / "ledger", "--classes", nfd("oui,n\u00e9"), "--target", nfd("g\u00e9nie"),
            "--group", "who", *words, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done

    run("--out", "one.csv", name="one.csv")
    again = run("--out", "other.csv", name="other.csv")
    assert "will spend nothing more" in again.stdout
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "other.csv").read_bytes()
    done = pate(
        "predict", files / "other.csv", "--model", "one.pate", "--id", " who", "--out", "said.csv", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    said, truth = (pd.read_csv(path) for path in (tmp_path / "said.csv", files / "one.csv"))
    assert (said["label"].map(lambda one: unicodedata.normalize("NFC", one)) == truth["g\u00e9nie"]).mean() > 0.9


@pytest.mark.long
def test_train_knows_the_same_records(files, tmp_path):
    (tmp_path / "s.toml").write_text(
        '[[column]]\nname = "a\u0302ge"\nkind = "numeric"\nrange = [0, 120]\n'
        '[[column]]\nname = "town"\nkind = "category"\ncategories = ["Oslo ", "Malmo\u0308"]\n', encoding="utf-8"
    )  # fmt: skip
    for name in ("one.csv", "other.csv"):
        done = pate(
            "train", "--private", files / name, "--schema", "s.toml", "--target", "g\u00e9nie ", "--group", "who",
            "--classes", "oui,n\u00e9", "--epsilon", 8, "--delta", "1e-4", "--ledger", tmp_path / "ledger", "--model",
            f"{name}.pate", "--yes", cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "count as missing" not in done.stderr
    assert "will spend nothing more" in done.stdout
