"""Tables as people's programs write them: encodings, thousands, empty columns; ``label``, ``train`` and ``predict``."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from test_cli import pate

from pate import InvalidInputError, read_table
from pate.exceptions import CuratorWarning

N = 900
SCHEMA = """
[[column]]
name = "town"
kind = "category"
categories = ["Köln", "Zürich"]

[[column]]
name = "age"
kind = "numeric"
range = [0, 120]
"""


@pytest.fixture
def towns(tmp_path):
    """Files in which the town decides, with a letter beyond ASCII in each."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"town": rng.choice(["Köln", "Zürich"], N), "age": rng.integers(18, 90, N)})
    frame["ill"] = np.where(frame["town"] == "Köln", "ja", "öfter")
    frame[:700].to_csv(tmp_path / "private.csv", index=False, encoding="cp1252")
    rows = frame[700:].drop(columns="ill")
    rows.to_csv(tmp_path / "public.csv", index=False, encoding="cp1252")
    for name in ("cp1252", "utf-8", "utf-8-sig", "utf-16"):
        rows.to_csv(tmp_path / f"rows {name}.csv", index=False, encoding=name)
    (tmp_path / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    return tmp_path


GIVEN = ("--private", "private.csv", "--target", "ill", "--classes", "ja,öfter", "--epsilon", 4, "--delta", 1e-4)


@pytest.mark.long
@pytest.mark.parametrize("how", ["label", "train"])
def test_predict_finds_the_encoding_of_its_rows(towns, how):
    if how == "label":
        done = pate("label", *GIVEN, "--public", "public.csv", "--out", "m.csv", cwd=towns)
    else:
        more = ("--schema", "schema.toml", "--encoding", "cp1252", "--model", "m.pate")
        done = pate("train", *GIVEN, *more, cwd=towns)
    assert done.returncode == 0, done.stderr
    expected = np.where(pd.read_csv(towns / "rows utf-8.csv")["town"] == "Köln", "ja", "öfter")
    made = []
    for name in ("cp1252", "utf-8", "utf-8-sig", "utf-16"):
        done = pate("predict", f"rows {name}.csv", "--model", "m.pate", "--out", f"{name}.csv", cwd=towns)
        assert done.returncode == 0, done.stderr
        assert "letters of another encoding" not in done.stderr
        made.append((towns / f"{name}.csv").read_bytes())
        assert (pd.read_csv(towns / f"{name}.csv")["label"] == expected).mean() > 0.95
    assert len(set(made)) == 1
    # A model in any encoding: the file's own bytes say that it is UTF-8, unless a person says otherwise.
    done = pate(
        "predict", "rows cp1252.csv", "--model", "m.pate", "--out", "said.csv", "--encoding", "cp1250", cwd=towns
    )
    assert done.returncode == 0
    assert (towns / "said.csv").read_bytes() == made[0]  # ö and ü stand at the same places there


@pytest.mark.long
def test_one_broken_letter_of_a_utf8_file_does_not_change_the_others(towns):
    for name in ("private", "public"):
        text = (towns / f"{name}.csv").read_bytes().decode("cp1252")
        (towns / f"{name}.csv").write_text(text, encoding="utf-8")
    assert pate("label", *GIVEN, "--public", "public.csv", "--out", "m.csv", cwd=towns).returncode == 0
    text = (towns / "rows utf-8.csv").read_bytes()
    (towns / "broken.csv").write_bytes(text + b"K\xf6ln,40\n")
    (towns / "other.csv").write_bytes(text.decode().encode("mac_roman"))
    for name in ("rows utf-8.csv", "broken.csv"):
        assert pate("predict", name, "--model", "m.pate", "--out", f"p {name}", cwd=towns).returncode == 0
    whole, broken = (pd.read_csv(towns / f"p {name}") for name in ("rows utf-8.csv", "broken.csv"))
    pd.testing.assert_frame_equal(broken[:-1], whole)
    done = pate("predict", "other.csv", "--model", "m.pate", "--encoding", "mac_roman", "--out", "o.csv", cwd=towns)
    assert done.returncode == 0
    pd.testing.assert_frame_equal(pd.read_csv(towns / "o.csv"), whole)


# Marks between thousands -------------------------------------------------------------------------------------------


def with_marks(values, mark, decimal="."):
    return [f"{value:,.1f}".replace(",", "T").replace(".", decimal).replace("T", mark) for value in values]


@pytest.fixture
def pay(tmp_path):
    """Pay with marks between thousands, which decides; ``plain`` files hold the same numbers without them."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"pay": rng.integers(1_000, 90_000, N) / 2, "age": rng.integers(18, 90, N)})
    frame["ill"] = np.where(frame["pay"] > 22_000, "yes", "no")
    for mark, decimal, sep in ((",", ".", ","), (".", ",", ";"), ("", ".", ",")):
        made = frame.assign(pay=with_marks(frame["pay"], mark, decimal))
        name = {",": "comma", ".": "point", "": "plain"}[mark]
        made[:700].to_csv(tmp_path / f"{name}.private.csv", index=False, sep=sep)
        made[700:].drop(columns="ill").to_csv(tmp_path / f"{name}.public.csv", index=False, sep=sep)
    (tmp_path / "schema.toml").write_text(
        '[[column]]\nname = "age"\nkind = "numeric"\nrange = [0, 120]\n'
        '[[column]]\nname = "pay"\nkind = "numeric"\nrange = [0, 60000]\n'
    )
    return tmp_path


def of(name, *more):
    return ("--private", f"{name}.private.csv", "--epsilon", 4, "--delta", 1e-4, *more)


CLASSES = ("--target", "ill", "--classes", "no,yes")


@pytest.mark.long
def test_thousands_are_named_with_the_option_and_nothing_is_spent(pay):
    for name, mark, many in (("comma", ",", "commas"), ("point", ".", "points")):
        done = pate("label", *of(name, *CLASSES), "--public", f"{name}.public.csv", "--out", "l.csv", cwd=pay)
        assert done.returncode == 2
        assert f"'pay' holds numbers with {many} between thousands, as 5,993 has. Say --thousands {mark}" in done.stderr
        assert "if they are no numbers, --text pay" in done.stderr
    assert not list(pay.glob("*.sqlite"))
    done = pate("label", *of("comma", *CLASSES), "--public", "comma.public.csv", "--thousands", ",", "--decimal", ",",
                "--out", "l.csv", cwd=pay)  # fmt: skip
    assert "--thousands must be another mark than --decimal, got ',' for both" in done.stderr


@pytest.mark.long
@pytest.mark.parametrize(("name", "mark"), [("comma", ","), ("point", ".")])
def test_label_and_predict_read_thousands_as_the_plain_numbers(pay, name, mark):
    for one, said in ((name, ("--thousands", mark)), ("plain", ())):
        done = pate("label", *of(one, *CLASSES), *said, "--public", f"{one}.public.csv", "--out", f"{one}.csv",
                    "--ledger", "all.sqlite", cwd=pay)  # fmt: skip
        assert done.returncode == 0, done.stderr
        done = pate("predict", f"{one}.public.csv", "--model", f"{one}.pate", "--out", f"{one}.p.csv", cwd=pay)
        assert done.returncode == 0, done.stderr
    # The same records to the ledger: the second release is the first one, free.
    assert (pay / f"{name}.csv").read_bytes() == (pay / "plain.csv").read_bytes()
    assert (pay / f"{name}.p.csv").read_bytes() == (pay / "plain.p.csv").read_bytes()
    expected = np.where(pd.read_csv(pay / "plain.public.csv")["pay"] > 22_000, "yes", "no")
    assert (pd.read_csv(pay / f"{name}.p.csv")["label"] == expected).mean() > 0.9


@pytest.mark.long
def test_train_and_numbers_read_thousands(pay):
    schema = ("--schema", "schema.toml", "--model", "m.pate")
    done = pate("train", *of("comma", *CLASSES), *schema, "--plan", cwd=pay)
    assert "'pay' has 691 that are not what the public rows have in it" in done.stderr  # all from 1,000 on
    assert "some look like 5,993: what stands between thousands must be said, --thousands" in done.stderr
    done = pate("train", *of("comma", *CLASSES), *schema, "--thousands", ",", "--plan", cwd=pay)
    assert done.returncode == 0, done.stderr
    assert "'pay' has" not in done.stderr
    number = ("--target", "pay", "--numeric", "--range", "0,60000", "--only-common", "--out", "n.csv", "--force",
              "--public", "ages.csv", "--ledger", "n.sqlite", "--new-ledger", "--plan")  # fmt: skip
    pd.read_csv(pay / "plain.public.csv")[["age"]].to_csv(pay / "ages.csv", index=False)
    done = pate("label", *of("comma", *number), cwd=pay)
    assert "9 of 700 records (1.3%) vote: 691 without a number" in done.stderr
    assert "numbers of the target: some look like 5,993" in done.stderr
    done = pate("label", *of("comma", *number), "--thousands", ",", cwd=pay)
    assert done.returncode == 0, done.stderr
    assert "without a number" not in done.stderr


MARKED = [
    ('pay,b\n"5.993,5",1\n"1.234.567,5",2\n"7,5",3\n', ".", [5993.5, 1234567.5, 7.5]),
    ('pay,b\n"5,993",1\n"12,345,678.5",2\n7,3\n', ",", [5993, 12345678.5, 7]),
    ("pay;b\n5.993;1\n12.345.678,25;2\n7;3\n", ".", [5993, 12345678.25, 7]),
    ("pay;b\n5\u2019993;1\n12'345;2\n7.5;3\n", "apostrophe", [5993, 12345, 7.5]),
    ("pay;b\n5 993;1\n12\u00a0345\u202f678,5;2\n7;3\n", "space", [5993, 12345678.5, 7]),
]


@pytest.mark.parametrize(("text", "mark", "values"), MARKED)
def test_every_mark_is_found_in_public_rows_and_read_cell_by_cell_in_private_ones(tmp_path, text, mark, values):
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInputError, match=rf"'pay' holds numbers with .* between thousands.*thousands='{mark}'"):
        read_table(tmp_path / "a.csv", **({"decimal": ","} if mark == "space" else {}))
    decimal = {"decimal": ","} if mark == "space" else {}
    shown = read_table(tmp_path / "a.csv", thousands=mark, **decimal)
    assert shown.X["pay"].tolist() == values
    assert shown.X["b"].tolist() == [1, 2, 3]
    # Of a private table each cell by itself: one that is no number of this form is missing, and changes no other.
    first = text.splitlines()[1][:-2].strip('"')
    (tmp_path / "b.csv").write_text(text.replace(first, first.replace("993", "99")), encoding="utf-8")
    with pytest.warns(CuratorWarning, match="'pay' has 1 that"):
        held = read_table(tmp_path / "b.csv", like=shown)
    assert np.isnan(held.X["pay"][0])
    assert held.X["pay"].tolist()[1:] == values[1:]


@pytest.mark.parametrize(
    ("text", "said", "cells"),
    [
        ('pay,b\n"1,234.5",1\n', {"thousands": ","}, [1234.5]),
        ('pay,b\n"1.234,5",1\n"7,5",2\n', {"thousands": "."}, [1234.5, 7.5]),
        ("pay;b\n0,125;1\n0,5;2\n", {}, [0.125, 0.5]),
        ("pay;b\n5.993;1.5\n8.123;2.5\n", {}, [5.993, 8.123]),  # decimals of three digits
        ("pay;b\n5,993;1,5\n8,123;2,5\n", {}, [5.993, 8.123]),  # another column shows decimal commas
        ("pay;b\n5,993;1\n8,123;2\n", {"decimal": ","}, [5.993, 8.123]),
        ('pay,b\n"5,993",1\nmany,2\n', {}, ["5,993", "many"]),
        ('pay,b\n"5,993",1\n', {"drop": ["pay"]}, None),
        ('pay,b\n"5,993",1\n', {"id": "pay"}, None),
        ('pay,b\n"5,993",1\n', {"text": ["pay"]}, ["5,993"]),
        ("pay,b\n1,234\n8,123\n", {}, [1, 8]),
    ],
)
def test_what_is_no_thousands_is_read_as_before(tmp_path, text, said, cells):
    (tmp_path / "a.csv").write_text(text)
    found = read_table(tmp_path / "a.csv", **said)
    assert cells is None or found.X["pay"].tolist() == cells


# Empty columns -----------------------------------------------------------------------------------------------------

EMPTY = "column 'spare' is entirely empty in public.csv, and so left out: nothing public says whether it holds numbers"


@pytest.fixture
def spare(tmp_path):
    """A column that decides, and is empty in the public file; ``less`` files lack it."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 90, N), "bmi": rng.normal(25, 3, N).round(2)})
    frame["spare"] = (frame["age"] > 50).astype(int)
    frame["ill"] = np.where(frame["age"] > 50, "yes", "no")
    frame["old"] = np.where(frame["age"] > 70, "yes", "no")
    frame[:700].to_csv(tmp_path / "private.csv", index=False)
    frame[700:].assign(spare=None).drop(columns=["ill", "old"]).to_csv(tmp_path / "public.csv", index=False)
    frame[700:][["age", "bmi"]].to_csv(tmp_path / "less.public.csv", index=False)
    return tmp_path


@pytest.mark.long
@pytest.mark.parametrize(
    "way",
    [
        ("--target", "ill", "--classes", "no,yes", "--drop", "old"),
        ("--target", "age", "--numeric", "--range", "0,100", "--only-common", "--force"),
    ],
    ids=["records", "numbers"],
)
def test_an_empty_public_column_is_left_out_of_both_with_a_warning(spare, way):
    given = (
        "label",
        "--public",
        "public.csv",
        *way,
        "--epsilon",
        4,
        "--delta",
        1e-4,
        "--ledger",
        "l.sqlite",
        "--verbose",
    )
    done = pate(*given, "--private", "private.csv", "--out", "l.csv", cwd=spare)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(EMPTY) == 1
    assert "spare: left out (it is empty in the public file)" in done.stdout
    # What the private column holds changes nothing: what was paid for is given again.
    pd.read_csv(spare / "private.csv").assign(spare="something else").to_csv(spare / "other.csv", index=False)
    done = pate(*given, "--private", "other.csv", "--out", "again.csv", cwd=spare)
    assert done.returncode == 0, done.stderr
    assert (spare / "again.csv").read_bytes() == (spare / "l.csv").read_bytes()
    for rows in ("public.csv", "less.public.csv"):
        done = pate("predict", rows, "--model", "l.pate", "--out", f"p.{rows}", cwd=spare)
        assert done.returncode == 0, done.stderr
    assert (spare / "p.public.csv").read_bytes() == (spare / "p.less.public.csv").read_bytes()


@pytest.mark.long
def test_public_rows_of_votes_may_have_an_empty_column(spare):
    pd.read_csv(spare / "public.csv")[:40].to_csv(spare / "public.csv", index=False)
    high = np.where(pd.read_csv(spare / "public.csv")["age"] > 50, 95, 5)
    np.save(spare / "votes.npy", np.column_stack([100 - high, high]))
    given = ("--votes", "votes.npy", "--classes", "no,yes", "--epsilon", 4, "--delta", 1e-4, "--out", "l.csv")
    done = pate("label", *given, "--public", "public.csv", "--new-ledger", cwd=spare)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(EMPTY) == 1
    assert pate("predict", "less.public.csv", "--model", "l.pate", "--out", "p.csv", cwd=spare).returncode == 0
    done = pate("plan", "--epsilon", 4, "--classes", "no,yes", "--records", 1000, "--public", "public.csv", cwd=spare)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(EMPTY) == 1
