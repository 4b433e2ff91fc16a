"""Tables of other libraries become pandas' by their declared types, never by their cells."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest

from pate._core.frames import plain_column, plain_rows
from pate.exceptions import InvalidInputError

pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")


def test_declared_types_say_what_columns_become():
    table = pl.DataFrame(
        {"whole": [1, 2], "holed": [1, None], "truth": [True, None], "text": ["x", None], "none": [None, None]}
    ).with_columns(
        pl.col("text").cast(pl.Categorical).alias("category"),
        pl.col("text").cast(pl.Enum(["x", "y"])).alias("enum"),
        pl.col("whole").cast(pl.Decimal(10, 2)).alias("decimal"),
        pl.col("whole").cast(pl.Float32).alias("single"),
    )
    found = plain_rows(table)
    kinds = {name: str(kind) for name, kind in found.dtypes.items()}
    assert kinds == {
        "whole": "int64",
        "holed": "float64",
        "truth": "float64",
        "text": "object",
        "none": "float64",
        "category": "category",
        "enum": "category",
        "decimal": "float64",
        "single": "float32",
    }
    assert found["text"].tolist()[0] == "x"
    assert found["text"].isna().tolist() == [False, True]
    assert found["category"].isna().tolist() == found["enum"].isna().tolist() == [False, True]


def test_a_pandas_index_in_an_arrow_table_is_no_feature():
    table = pa.Table.from_pandas(pd.DataFrame({"a": [1, 2]}, index=[7, 9]))
    assert len(table.schema.names) == 2
    assert plain_rows(table).columns.tolist() == ["a"]


def test_whatever_speaks_arrow_is_taken():
    class Stream:
        def __init__(self, table):
            self.table = table

        def __arrow_c_stream__(self, requested_schema=None):
            return self.table.__arrow_c_stream__(requested_schema)

    assert plain_rows(Stream(pa.table({"a": [1, 2]}))).to_dict("list") == {"a": [1, 2]}


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (pl.DataFrame({"t": [dt.date(2020, 1, 1)]}), "column 't' holds date32"),
        (pl.DataFrame({"t": [dt.timedelta(1)]}), "column 't' holds duration"),
        (pl.DataFrame({"t": [[1, 2]]}), "column 't' holds large_list"),
        (pl.DataFrame({"t": [b"bytes"]}), "column 't' holds large_binary"),
        (pa.table([pa.array([1]), pa.array([2])], names=["t", "t"]), "columns of the same name"),
        (pl.DataFrame({"t": [1]}).lazy(), r"polars LazyFrame, which holds no rows .* Pass X\.collect\(\)"),
    ],
)
def test_what_is_neither_number_nor_text_is_refused_by_name(table, words):
    with pytest.raises(InvalidInputError, match=words) as caught:
        plain_rows(table)
    assert "2020" not in str(caught.value)


@pytest.mark.parametrize("given", [None, [1], (1,), np.ones(2), pd.Series([1]), pd.DataFrame({"a": [1]}), "a"])
def test_other_things_are_left_as_they_are(given):
    assert plain_rows(given) is given
    assert plain_column(given) is given


@pytest.mark.parametrize(
    ("column", "cells"),
    [
        (pl.Series(["a", None]), ["a", None]),
        (pl.Series([1, None]), [1, None]),
        (pl.Series([True, False]), [True, False]),
        (pl.Series(["a", "b"]).cast(pl.Categorical), ["a", "b"]),
        (pa.chunked_array([["a"], ["b"]]), ["a", "b"]),
        (pa.array([2, 3], pa.int8()), [2, 3]),
    ],
)
def test_a_cell_of_a_column_changes_no_other(column, cells):
    found = plain_column(column).tolist()
    assert found == cells
    assert [type(cell) for cell in found] == [type(cell) for cell in cells]


def test_nothing_is_imported_for_it():
    import subprocess
    import sys

    code = (
        "import sys; from pate._core.frames import plain_rows, plain_column; plain_rows([[1]]); plain_column([1]);"
        "assert not {'polars', 'pyarrow', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
