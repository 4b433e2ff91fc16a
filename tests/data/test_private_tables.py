"""Private files, read as the public one has its columns: a record's cells are its own matter, whatever they are."""

from __future__ import annotations

import csv
import re
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pate import Budget, NoisyHistogram
from pate.data import TableEncoder, align_columns, read_table
from pate.data._columns import as_number, column_like
from pate.exceptions import CuratorWarning, InvalidInputError, PateWarning
from pate.jobs import LabelJob

LIKE = pd.DataFrame({"age": [40.5, np.nan], "town": ["Oslo", "Rome"], "smokes": [1.0, 0.0], "code": ["01", "V7"]})
PEOPLE = [["50.1", "Oslo", "True", "01", "no", "007"], ["0.1", "?", "False", "1", "yes", "7.0"],
          ["3e-1", "None", "true", "V7", "no", "8"]]  # fmt: skip
HEADER = ["age", "town", "smokes", "code", "ill", "who"]


def private_csv(folder, rows):
    with (folder / "p.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([HEADER, *rows])
    return folder / "p.csv"


def parquet(folder, **columns):
    pd.DataFrame(columns).to_parquet(folder / "t.parquet")
    return folder / "t.parquet"


def npz(folder, **columns):
    np.savez(folder / "t.npz", **columns)
    return folder / "t.npz"


def test_a_private_file_has_the_public_ones_columns(tmp_path):
    t = read_table(private_csv(tmp_path, PEOPLE), target="ill", group="who", like=LIKE)
    assert t.X["age"].tolist() == [50.1, 0.1, 0.3]
    assert t.X["smokes"].tolist() == [1.0, 0.0, 1.0]
    assert t.X["code"].tolist() == ["01", "1", "V7"]
    assert t.X["town"].isna().tolist() == [False, True, False]
    assert (t.y.tolist(), t.groups.tolist()) == (["no", "yes", "no"], ["7", "7", "8"])
    assert align_columns(t.X, LIKE).columns.tolist() == HEADER[:4]


@pytest.mark.long
@settings(max_examples=150)
@given(
    row=st.integers(0, 2),
    column=st.integers(0, 5),
    cell=st.one_of(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8),
        st.sampled_from(["?", "NA", "inf", "1e999", "1_0", "nan", "0x1", "1" * 23, "9007199254740993", "true", "1,5"]),
        st.sampled_from(["", " ", " 3 ", "2020-01-01 00:00", "-", '"', "007", "1j"]),
    ),
)
def test_one_cell_of_a_private_file_is_its_own_rows_matter(row, column, cell, tmp_path_factory):
    """Whatever stands in it, the file is read, and the other rows to the last bit as without it."""
    folder = tmp_path_factory.getbasetemp()
    rows = [list(person) for person in PEOPLE]
    rows[row][column] = cell
    tables = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CuratorWarning)
        for people in (PEOPLE, rows):
            tables.append(read_table(private_csv(folder, people), target="ill", group="who", like=LIKE))
    usual, changed = tables
    rest = [i for i in range(3) if i != row]
    pd.testing.assert_frame_equal(usual.X.iloc[rest], changed.X.iloc[rest], check_exact=True)
    assert usual.y[rest].tolist() == changed.y[rest].tolist()
    assert usual.groups[rest].tolist() == changed.groups[rest].tolist()
    assert np.isfinite(changed.X["age"].dropna()).all()
    encoder = TableEncoder().fit(align_columns(changed.X, LIKE))
    np.testing.assert_array_equal(*[encoder.transform(table.X)[rest] for table in tables])


def test_the_curator_gets_one_warning_of_odd_cells_that_quotes_none(tmp_path):
    rows = [
        ["John Doe", "x", "maybe", "9", "no", "1"],
        ["inf", "y", "", "8", "no", "2"],
        ["?", "z", "1", "7", "no", "3"],
    ]
    with pytest.warns(CuratorWarning) as said:
        read_table(private_csv(tmp_path, rows), target="ill", group="who", like=LIKE)
    (message,) = [str(w.message) for w in said]
    assert "'age' has 2 that are not what the public rows have in it, which count as missing, and so it is" in message
    assert "'smokes' has 1 that" in message
    assert "'code' holds numbers alone" in message
    assert not {"John", "Doe", "maybe", "inf"} & set(re.findall(r"\w+", message))


def test_the_warning_of_odd_cells_names_the_first_columns_alone(tmp_path):
    names = [f"c{i}" for i in range(30)]
    pd.DataFrame({name: ["x", "y"] for name in names} | {"ill": ["no", "yes"]}).to_csv(tmp_path / "a.csv", index=False)
    with pytest.warns(CuratorWarning) as said:
        read_table(tmp_path / "a.csv", target="ill", like=pd.DataFrame({name: [1.0, 2.0] for name in names}))
    (message,) = [str(w.message) for w in said]
    assert [name for name in names if repr(name) in message] == names[:5]
    assert "is it another column?; and 25 columns more. (This is private" in message


def test_one_missing_id_or_class_does_not_round_the_others(tmp_path):
    """Read as pandas does, a hole made floats of the column, and large whole numbers equal."""
    people = [2**62 + 1, 2**62 + 2, 2**62 + 3]
    seen = []
    for hole in (False, True):
        ids = pa.array([None if hole else 0, *people], type=pa.int64())
        pq.write_table(pa.table({"age": [1.0, 2, 3, 4], "who": ids, "ill": ids}), tmp_path / "t.parquet")
        t = read_table(tmp_path / "t.parquet", target="ill", group="who", like=LIKE[["age"]])
        seen.append((t.y[1:].tolist(), t.groups[1:].tolist()))
        assert (t.y[0], t.groups[0]) == ((None, None) if hole else (0, "0"))
    assert seen == [(people, list(map(str, people)))] * 2


@pytest.mark.parametrize("kind", [".parquet", ".npz"])
def test_typed_private_files_are_read_like_the_public_one(tmp_path, kind):
    """Numbers kept as texts are numbers, codes kept as numbers are texts, and a declared type is a fact of the file."""
    columns = {"age": ["50", "old", "1.5"], "code": [250.0, 1.0, 2.5]}
    path = parquet(tmp_path, **columns) if kind == ".parquet" else npz(tmp_path, **columns)
    with pytest.warns(CuratorWarning, match="'age' has 1 .*'code' holds numbers alone"):
        X = read_table(path, like=LIKE[["age", "code"]]).X
    assert X["age"].tolist()[::2] == [50.0, 1.5]
    assert X["code"].tolist() == ["250", "1", "2.5"]
    dates = np.array(["2020-01-01"], dtype="M8[ns]")
    path = parquet(tmp_path, age=dates) if kind == ".parquet" else npz(tmp_path, age=dates)
    with pytest.raises(InvalidInputError, match="'age' holds datetime64"):
        read_table(path, like=LIKE[["age"]])


def test_what_a_private_file_is_to_be_like_is_a_table_with_names(tmp_path):
    path = private_csv(tmp_path, PEOPLE)
    with pytest.raises(InvalidInputError, match=r"like must be the public rows as a DataFrame.*got ndarray"):
        read_table(path, like=LIKE.to_numpy())
    with pytest.raises(InvalidInputError, match="like has columns of the same name"):
        read_table(path, like=pd.concat([LIKE, LIKE], axis=1))


def test_a_private_table_read_otherwise_is_refused_for_whole_columns_alone():
    """Its kinds are what pandas made of all its cells: one text among numbers decides nothing here either."""
    public = pd.DataFrame({"age": [40.0, 60.0]})
    private = pd.DataFrame({"age": np.array(["50", "John Doe", "60"], dtype=object)})
    encoder = TableEncoder().fit(align_columns(private, public))
    with pytest.warns(CuratorWarning, match="X, cells of columns: 'age' has 1 that are not") as said:
        encoded = encoder.transform(private)
    assert "Doe" not in str(said[0].message)
    np.testing.assert_array_equal(encoded[[0, 2]], encoder.transform(pd.DataFrame({"age": [50.0, 60.0]})))
    texts = pd.DataFrame({"age": ["John Doe"]})
    for refuse in (lambda: align_columns(texts, public), lambda: encoder.transform(texts)):
        with pytest.raises(InvalidInputError, match="'age'") as caught:
            refuse()
        assert "Doe" not in str(caught.value)


# --- one record in a file, and everybody else's teachers --------------------------------------------------------------

K, N, ROW = 5, 80, 17
ODD = {
    "text among numbers": ("dose", "John Doe"),
    "infinity": ("dose", "inf"),
    "a number that no float holds": ("dose", "1" + "0" * 400),
    "missing number": ("dose", ""),
    "number among texts": ("town", "7"),
    "missing text": ("town", ""),
    "no label": ("ill", ""),
    "another class": ("ill", "maybe"),
    "a number as label": ("ill", "1"),
    "no owner": ("who", ""),
    "another owner": ("who", "John Doe"),
}


def job_of(path, public, **options):
    defaults = {
        "target": "ill",
        "group": "who",
        "classes": ["no", "yes"],
        "budget": Budget(1e6, 1e-4),
        "mechanism": NoisyHistogram(1.0),
        "n_queries": 20,
        "n_teachers": K,
        "partition_seed": 3,
        "random_state": 0,
    }
    return LabelJob(path, public, **(defaults | options))


@pytest.mark.few(1)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("preprocess", ["public", "shard"])
@pytest.mark.parametrize("odd", ODD)
def test_one_odd_record_moves_its_own_teacher_and_no_bit_of_the_others(tmp_path, odd, preprocess, suffix):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "dose": rng.random(N) * 10.0 ** rng.integers(-9, 9, N),
            "town": rng.choice(["Oslo", "Rome", "01"], N),
            "ill": rng.choice(["no", "yes"], N),
            "who": [str(2**60 + i) for i in range(N)],
        }
    ).astype(str)
    public = tmp_path / "public.csv"
    rows = pd.DataFrame({"dose": rng.random(40), "town": rng.choice(["Oslo", "Rome"], 40)})
    rows.to_csv(public, index=False)
    jobs, answered = [], []
    for cell in (None, ODD[odd][1]):
        table = frame.copy()
        if cell is not None:
            table.loc[ROW, ODD[odd][0]] = cell or None
        path = tmp_path / f"{len(jobs)}{suffix}"
        if suffix == ".csv":
            table.to_csv(path, index=False)
        else:
            whole = odd not in ("text among numbers", "infinity", "a number that no float holds") or cell is None
            table.astype({"dose": float if whole else str}).to_parquet(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PateWarning)
            jobs.append(job_of(path, public, preprocess=preprocess))
            answered.append(jobs[-1].run().n_answered)
    assert answered == [20, 20]
    rest = np.arange(N) != ROW
    pd.testing.assert_frame_equal(*[work._source.X[rest] for work in jobs], check_exact=True)
    shards = [work._method.teachers.partition_.assignment for work in jobs]
    assert (shards[0][rest] == shards[1][rest]).all()
    others = [i for i in range(K) if i not in (shards[0][ROW], shards[1][ROW])]
    assert len(others) >= K - 2
    for i in others:  # the estimators themselves, to the last bit: what is learnt, not just what is said of it
        last = [work._method.teachers.teachers_[i] for work in jobs]
        weights = [model[-1].coef_ if preprocess == "shard" else model.coef_ for model in last]
        assert weights[0].tobytes() == weights[1].tobytes()


@pytest.mark.long
@settings(max_examples=200)
@given(
    cell=st.one_of(
        st.text(max_size=6),
        st.floats().map(repr),
        st.sampled_from([" 1_0", "1_0", "TRUE", " true ", "٣", "1e5 ", "0x1", "Infinity", "nan", "?", "+1.", "1 2"]),
    )
)
def test_a_cell_of_a_column_of_numbers_is_read_as_numbers_are_by_itself(cell):
    found, n_odd = column_like("a", pd.Series(["1", cell], dtype=object), "numeric")
    number = as_number(cell)
    assert found[0] == 1.0
    assert found[1] == number or (np.isnan(found[1]) and not np.isfinite(number))
    assert n_odd == (not np.isfinite(number))
