"""The schema of a table: learnt from public rows or declared in a file, and taken by every reader."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pate import Budget, DPSGDClassifier, InvalidInputError, PATEClassifier
from pate.cli._label import _ranges
from pate.data import Column, Schema, read_table
from pate.data._cells import private_cells

FILE = """
[[column]]
name = "age"
kind = "numeric"
range = [0, 120]

[[column]]
name = "town"
kind = "category"
categories = ["Oslo", "Rome"]
"""
RANGES = {"age": (0, 120), "town": ["Oslo", "Rome"]}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text(FILE)
    return path


NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def columns(draw, name):
    kind = draw(st.sampled_from(["numeric", "category", "text", "date:day-first", "date:declared"]))
    if kind == "category":
        return Column(name, kind, tuple(draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))))
    if kind == "text":
        return Column(name, kind)
    ends = draw(st.none() | st.tuples(FLOATS, FLOATS).map(sorted))
    special = draw(st.lists(FLOATS, max_size=2, unique=True)) if kind == "numeric" else ()
    return Column(name, kind, None, None if ends is None else tuple(ends), draw(st.booleans()), tuple(special))


@st.composite
def schemas(draw):
    rows = draw(st.sampled_from(["table", "array", "texts"]))
    if rows == "texts":
        return Schema((), rows)
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    return Schema(tuple(draw(columns(name)) for name in names), rows)


@given(schemas())
def test_a_file_gives_back_what_was_written(schema):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "schema.toml"
        schema.write(path)
        assert Schema.read(path) == schema
        assert hash(Schema.read(path)) == hash(schema)


def test_a_schema_is_learnt_from_public_rows_of_any_kind(tmp_path):
    rows = pd.DataFrame({
        "age": [20, 40, None], "height": [1.5, 1.5, np.nan], "town": ["Oslo", "Rome", "Oslo"],
        "note": [None, None, None], "smokes": [True, False, True],
    })  # fmt: skip
    assert Schema.learn(rows).columns == (
        Column("age", "numeric", range=(20, 40), integer=True),
        Column("height", "numeric", range=(1.5, 1.5)),
        Column("town", "category", ("Oslo", "Rome")),
        Column("note", "text"),
        Column("smokes", "numeric", range=(0, 1), integer=True),
    )
    array = Schema.learn(np.array([[1.0, 2.5], [3.0, -np.nan]]))
    assert array == Schema(
        (Column("x0", "numeric", range=(1, 3), integer=True), Column("x1", "numeric", range=(2.5, 2.5))), "array"
    )
    assert Schema.learn(np.array([[1, "a"], [2, "b"]], dtype=object)).kinds == {"x0": "numeric", "x1": "text"}
    assert Schema.learn(["a note", "another"]) == Schema((), "texts")
    many = pd.DataFrame({"name": [f"patient {i}" for i in range(300)]})
    assert Schema.learn(many).columns == (Column("name", "text"),)
    (tmp_path / "public.csv").write_text("seen,code\n3.1.1970,007\n14.1.1970,8\n")
    table = Schema.learn(read_table(tmp_path / "public.csv", text=["code"]))
    assert table.columns == (Column("seen", "date:day-first", range=(2, 13)), Column("code", "category", ("007", "8")))
    for odd in (np.zeros((3, 4, 4)), pd.DataFrame({"when": pd.to_datetime(["2020-01-01"])}), 7):
        with pytest.raises(InvalidInputError, match=r"X_public|'when'"):
            Schema.learn(odd)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        ({"range": (3, 1)}, "range of the column 'a' must be two numbers, the lower first, got .3.0, 1.0."),
        ({"range": (0, float("nan"))}, "range of the column 'a' must hold finite numbers, got nan"),
        ({"range": (0, 1, 2)}, "two numbers"),
        ({"range": 7}, "range of the column 'a' must be a list, got 7"),
        ({"range": (False, True)}, "finite numbers, got False"),
        ({"kind": "number"}, "kind of the column 'a' must be one of .*, got 'number'"),
        ({"kind": "category"}, "categories of the column 'a' must be listed"),
        ({"kind": "category", "categories": ()}, "must name one at least"),
        (
            {"kind": "category", "categories": ("x", "")},
            "categories of the column 'a' must be texts that are not empty",
        ),
        ({"kind": "category", "categories": ("x", "x")}, "categories of the column 'a' must differ, and 'x'"),
        ({"kind": "category", "categories": ("x", 1)}, "texts that are not empty, got 1"),
        ({"kind": "category", "categories": "xy"}, "must be a list, got 'xy'"),
        ({"categories": ("x", "y")}, "must be left out, as its kind is 'numeric'"),
        ({"kind": "text", "range": (0, 1)}, "must be left out, as its kind is 'text'"),
        ({"special": (1, 1)}, "special of the column 'a' must differ"),
        ({"kind": "date:declared", "special": (1,)}, "it is of numbers"),
        ({"integer": 1}, "integer of the column 'a' must be true or false, got 1"),
        ({"name": ""}, "the name of a column must be texts that are not empty, got ''"),
        ({"name": "\ud800"}, "the name of a column"),
    ],
)
def test_what_is_no_column_is_refused_by_name_and_value(made, text):
    with pytest.raises(InvalidInputError, match=text):
        Column(**{"name": "a", "kind": "numeric"} | made)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rows = 'table'", "columns must be one at least, got 0"),
        ("rows = 'texts'\n" + FILE, "columns must be none, as rows are texts, got 2"),
        ("rows = 'lists'\n" + FILE, "rows must be one of 'table', 'array', 'texts', got 'lists'"),
        (FILE + FILE, "the names of columns must differ, and 'age' stands there twice"),
        (FILE + "ranges = [0, 1]", "the column 'town' has the key 'ranges', .* Did you mean 'range'"),
        ("colum = 1\n" + FILE, "a schema has the key 'colum', which is none of rows, column. Did you mean 'column'"),
        ("[[column]]\nkind = 'numeric'", "the column 0 lacks 'name'"),
        ("column = 3", "column must be tables, got 3"),
        (FILE.replace("[0, 120]", "[120, 0]"), "range of the column 'age' must be two numbers, the lower first"),
        ("age = [0", "cannot be read"),
        (f"{'a.' * 300}a = 1", "more than 200 dots"),
    ],
)
def test_what_is_no_schema_is_refused_with_its_file(tmp_path, text, said):
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(InvalidInputError, match=f"the schema .*s.toml'.* {said}|the schema .*s.toml' {said}"):
        Schema.read(tmp_path / "s.toml")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        Schema.read(tmp_path / "none.toml")


def test_a_schema_says_little_of_itself_and_stays_as_it_is(file):
    schema = Schema.read(file)
    assert repr(schema) == "Schema(1 numeric, 1 category)"
    assert repr(Schema.declared([(0, 1)] * 3)) == "Schema(3 numeric, without names)"
    assert repr(Schema((), "texts")) == "Schema(texts)"
    with pytest.raises(AttributeError):
        schema.rows = "array"
    assert schema == Schema.declared(RANGES) == Schema.declared(schema, n_columns=2)


def test_declared_rows_need_ranges_and_categories_and_an_array_numbers():
    whole = Schema((Column("a", "numeric", range=(0, 2.4), integer=True),)).stand_ins()
    assert set(whole["a"]) == {0.0, 1.0, 2.0}
    odd_ones = (Column("a", "text"), Column("a", "numeric"), Column("a", "category", ("x",)))
    for odd, rows in (*((odd, "table") for odd in odd_ones), (Column("a", "category", ("x", "y")), "array")):
        with pytest.raises(InvalidInputError, match="schema of"):
            Schema((odd,), rows).stand_ins()
    with pytest.raises(InvalidInputError, match="each of the 3 columns, got 2"):
        Schema.declared(Schema.declared([(0, 1), (0, 1)]), n_columns=3)


def test_a_private_file_is_read_by_a_schema_each_cell_by_itself(tmp_path, file):
    (tmp_path / "private.csv").write_text("age;town;ill\n50;Oslo;no\nold;7;yes\n")
    with pytest.warns(match="'age' has 1 that are not"):
        table = read_table(tmp_path / "private.csv", target="ill", like=Schema.read(file))
    assert table.X["town"].tolist() == ["Oslo", "7"]
    assert np.array_equal(table.X["age"], [50.0, np.nan], equal_nan=True)
    dated = Schema((Column("born", "date:day-first"), Column("town", "text")))
    (tmp_path / "dated.csv").write_text("born,town\n3.1.1970,1\n1970-01-04,2\n")
    with pytest.warns(match="'born' has 1"):
        found = read_table(tmp_path / "dated.csv", like=dated).X
    assert np.array_equal(found["born"], [2.0, np.nan], equal_nan=True)
    assert found["town"].tolist() == ["1", "2"]
    with pytest.raises(InvalidInputError, match=r"like must be .* or a pate.data.Schema, got dict"):
        read_table(tmp_path / "dated.csv", like=RANGES)


def test_private_rows_are_read_by_a_schema(file):
    found, readable = private_cells(
        pd.DataFrame({"age": ["50", "old"], "town": ["x", "y"]}), texts=True, like=Schema.read(file)
    )
    assert np.array_equal(found["age"], [50.0, np.nan], equal_nan=True)
    assert readable.tolist() == [True, False]


def test_lists_of_images_stay_images_and_lists_of_rows_have_the_public_length():
    images = np.arange(24.0).reshape(2, 3, 4).tolist()
    for like in (images, np.array(images)):
        found, readable = private_cells(images, texts=False, like=like)
        assert found.tolist() == images
        assert readable.all()
    for like in ([[1, "a"], [2, "b"]], [[1, "a"], [2]], np.array([[1, "a"]], dtype=object)):
        found, readable = private_cells([[3, "c"], ["x", "d"], [4]], texts=True, like=like)
        assert found[:, 1].tolist() == ["c", "d", None]
        assert readable.tolist() == [True, False, False]


@pytest.mark.parametrize("of", [DPSGDClassifier, PATEClassifier])
def test_classifiers_without_public_rows_take_a_schema_for_declared_ranges(of, file):
    X = pd.DataFrame({"town": ["Oslo", "Rome"] * 20, "age": np.linspace(0, 99, 40)})
    given = {"budget": Budget(1.0, 1e-3), "classes": (0, 1), "noise_seed": 0, "random_state": 0}
    if of is PATEClassifier:
        X, given = X[["age", "town"]], given | {"voters": "dpsgd"}

    def said(schema):
        return of(**given).fit(X, np.arange(40) % 2, schema=schema).predict_proba(X[["age", "town"]])

    assert np.array_equal(said(RANGES), said(Schema.read(file)))


def test_the_command_line_takes_a_schema_file(file, tmp_path):
    assert _ranges(None, file) == Schema.declared(RANGES)
    with pytest.raises(InvalidInputError, match="--range says more than the schema"):
        _ranges(["height=0:3"], file)
    (tmp_path / "short.toml").write_text("column = [0, 3]")
    assert _ranges(None, tmp_path / "short.toml") == {"column": [0, 3]}


@pytest.mark.parametrize(("categories", "warned"), [(["False", "True"], False), (["no", "yes"], True)])
def test_truth_values_are_odd_only_where_the_schema_has_other_categories(categories, warned, tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("smokes,age\nTrue,50\nFalse,31\n,40\n")
    schema = Schema.declared({"smokes": categories, "age": (0, 120)})
    with warnings.catch_warnings(record=True, action="always") as told:
        table = read_table(path, like=schema)
    assert table.X["smokes"].tolist()[:2] == ["True", "False"]
    assert [("'smokes' holds numbers alone" in str(one.message)) for one in told] == [True] * warned
