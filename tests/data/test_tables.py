"""Tables from files, columns brought together, and the encoders."""

from __future__ import annotations

import gzip
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from pate.data import TableEncoder, align_columns, load_dataset, make_shard_encoder, read_table
from pate.exceptions import InvalidInputError

CSV = "age, town ,smokes,dose,patient,ill\n50,Oslo,True,1,p1,no\n?,,False,,p1,yes\n30,Rome,,3,p2,no\n"


def write(path: Path, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": [50.0, np.nan, 30.0],
            "town": ["Oslo", None, "Rome"],
            "smokes": [True, False, None],
            "dose": [1, None, 3],
            "patient": ["p1", "p1", "p2"],
            "ill": ["no", "yes", "no"],
        }
    )


def in_format(folder: Path, kind: str) -> Path:
    if kind == "parquet":
        frame().to_parquet(folder / "t.parquet")
        return folder / "t.parquet"
    return write(folder / f"t.{kind}", CSV)


# ------------------------------------------------------------------------------------------------------- reading


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet"])
def test_every_format_gives_the_same_table(kind, tmp_path):
    t = read_table(in_format(tmp_path, kind), target="ill", group="patient")
    expected = pd.DataFrame(
        {
            "age": [50.0, np.nan, 30.0],
            "town": np.array(["Oslo", np.nan, "Rome"], dtype=object),
            "smokes": [1.0, 0.0, np.nan],
            "dose": [1.0, np.nan, 3.0],
        }
    )
    expected["town"] = expected["town"].astype(object)
    pd.testing.assert_frame_equal(t.X, expected)
    assert t.y.tolist() == ["no", "yes", "no"]
    assert t.groups.tolist() == ["p1", "p1", "p2"]
    assert (t.y.dtype, t.groups.dtype) == (np.dtype(object), np.dtype(object))
    assert t.path == tmp_path / f"t.{kind}"


def test_without_roles_every_column_is_a_feature(tmp_path):
    t = read_table(write(tmp_path / "t.csv", CSV), drop=["patient", "town"])
    assert (t.y, t.groups) == (None, None)
    assert list(t.X.columns) == ["age", "smokes", "dose", "ill"]


def test_none_is_a_value_and_question_mark_is_not(tmp_path):
    t = read_table(write(tmp_path / "t.csv", "a,b\nNone,?\nNA,2\n"))
    assert t.X["a"].iloc[0] == "None"
    assert t.X["a"].isna().tolist() == [False, True]
    assert t.X["b"].isna().tolist() == [True, False]
    assert t.X["b"].dtype == np.float64


def test_quotes_blank_lines_byte_order_mark_and_windows_ends(tmp_path):
    text = '\ufeffa,b\r\n"x, y",1\r\n\r\n"two\r\nlines",2\r\n'
    t = read_table(write(tmp_path / "t.csv", text))
    assert list(t.X.columns) == ["a", "b"]
    assert t.X["b"].tolist() == [1, 2]
    assert t.X["a"].iloc[0] == "x, y"


def test_repr_shows_sizes_only(tmp_path):
    t = read_table(write(tmp_path / "t.csv", CSV), target="ill")
    assert repr(t) == "Table('t.csv', n=3, n_features=5, target=True, grouped=False)"


def test_npz_of_a_matrix(tmp_path):
    X = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    np.savez(tmp_path / "t.npz", X=X, y=[0, 1, 0], groups=["a", "a", "b"])
    for roles in ({}, {"target": "y", "group": "groups"}):
        t = read_table(tmp_path / "t.npz", **roles)
        np.testing.assert_array_equal(t.X.to_numpy(), X.reshape(3, 4))
        assert t.X.to_numpy().dtype == np.float64
        assert (t.y.tolist(), t.groups.tolist()) == ([0, 1, 0], ["a", "a", "b"])
    t = read_table(tmp_path / "t.npz", drop=["y", "groups"])
    assert (t.y, t.groups, t.X.shape) == (None, None, (3, 4))
    np.savez(tmp_path / "n.npz", X=X.reshape(3, 4), columns=list("abcd"))
    assert list(read_table(tmp_path / "n.npz").X.columns) == list("abcd")


def test_npz_of_columns(tmp_path):
    np.savez(tmp_path / "t.npz", age=[1.0, np.nan], town=["a", "b"], ill=[True, False])
    t = read_table(tmp_path / "t.npz", target="ill")
    assert t.X["town"].tolist() == ["a", "b"]
    assert t.y.tolist() == [True, False]


def test_parquet_with_a_named_index_and_many_types(tmp_path):
    df = pd.DataFrame(
        {
            "whole": pd.array([1, None], dtype="Int64"),
            "flag": pd.array([True, None], dtype="boolean"),
            "kind": pd.Categorical(["x", None]),
            "text": pd.array(["a", None], dtype="string"),
            "small": np.array([1, 2], dtype=np.int8),
            "mixed": [1, "b"],
        },
        index=pd.Index(["p1", "p2"], name="patient"),
    )
    df["mixed"] = df["mixed"].astype(str)
    df.to_parquet(tmp_path / "t.parquet")
    t = read_table(tmp_path / "t.parquet", group="patient")
    assert t.groups.tolist() == ["p1", "p2"]
    assert [c.kind for c in t.X.dtypes] == ["f", "f", "O", "O", "f", "O"]
    assert TableEncoder().fit_transform(t.X).shape[0] == 2


def bad_npz(folder, **arrays):
    np.savez(folder / "t.npz", **arrays)
    return folder / "t.npz"


def parquet(folder, **columns):
    pd.DataFrame(columns).to_parquet(folder / "t.parquet")
    return folder / "t.parquet"


def truncated(folder, kind):
    path = in_format(folder, kind)
    path.write_bytes(path.read_bytes()[: -6 if kind == "csv" else -20])
    return path


@pytest.mark.parametrize(
    ("make", "roles", "text"),
    [
        (lambda d: d / "none.csv", {}, "there is no file"),
        (lambda d: d, {}, "there is no Parquet file in the folder"),
        (lambda d: write(d / "t.xls", "x"), {}, r"path must end in .csv.* Save an old .xls as .xlsx"),
        (lambda d: write(d / "t.csv", ""), {}, "is empty"),
        (lambda d: write(d / "t.csv.gz", ""), {}, "is empty: there is no header line"),
        (lambda d: write(d / "t.csv", "a,b\n"), {}, "0 rows"),
        (lambda d: write(d / "t.csv", "a,b\n1,2\n3\n"), {}, "line 3: 1 cells where the header has 2"),
        (lambda d: write(d / "t.csv", "a,b\n1,2,3\n"), {}, "line 2: 3 cells"),
        (lambda d: write(d / "t.csv", 'a,b\n1,"no end\n'), {}, "not a readable CSV table"),
        (lambda d: write(d / "t.csv", b"a,b\n\x81\xfe,1\n"), {}, "is not cp1252 text"),
        (lambda d: write(d / "t.csv", "a,a\n1,2\n"), {}, "columns of the same name: 'a'"),
        (lambda d: write(d / "t.csv", ",a\n0,2\n"), {}, r"without a name.*drop=\['Unnamed: 0'\]"),
        (lambda d: write(d / "t.csv", "a,b\n1,inf\n"), {}, "column 'b' holds infinite"),
        (lambda d: write(d / "t.csv", CSV), {"target": "sick"}, "target column 'sick' is not in t.csv.*'ill'"),
        (lambda d: write(d / "t.csv", CSV), {"group": "who"}, "group column 'who' is not in"),
        (lambda d: write(d / "t.csv", CSV), {"drop": ["nope"]}, "drop column 'nope' is not in"),
        (lambda d: write(d / "t.csv", CSV), {"target": "ill", "drop": ["ill"]}, "'ill' has two roles"),
        (lambda d: write(d / "t.csv", CSV), {"target": "ill", "group": "ill"}, "'ill' has two roles"),
        (lambda d: write(d / "t.csv", CSV), {"target": "town"}, "target column 'town' has missing"),
        (lambda d: write(d / "t.csv", CSV), {"group": "dose"}, "group column 'dose' has missing"),
        (lambda d: write(d / "t.csv", "y\n1\n"), {"target": "y"}, "0 feature columns"),
        (lambda d: truncated(d, "csv"), {}, "cells where the header has"),
        (lambda d: truncated(d, "csv.gz"), {}, "not a readable CSV table"),
        (lambda d: truncated(d, "parquet"), {}, "not a readable Parquet table"),
        (lambda d: write(d / "t.parquet", "no"), {}, "not a readable Parquet table"),
        (lambda d: write(d / "t.npz", "no archive"), {}, "not a readable npz table"),
        (lambda d: bad_npz(d, X=np.zeros((2, 2), dtype=object)), {}, "not a readable npz table"),
        (lambda d: bad_npz(d, X=np.zeros((2, 2)), y=np.zeros(3)), {}, r"y \(3,\)"),
        (lambda d: bad_npz(d, X=np.zeros((2, 2)), other=np.zeros(2)), {}, "must hold X of shape"),
        (lambda d: bad_npz(d, X=np.zeros((2, 2)), columns=["a"]), {}, "1 names"),
        (lambda d: bad_npz(d, X=np.zeros((2, 2)), y=[0.0, np.nan]), {}, "'y' has missing"),
        (lambda d: bad_npz(d, a=np.zeros(2), b=np.zeros(3)), {}, "per column"),
        (lambda d: bad_npz(d), {}, "it holds nothing"),
        (lambda d: bad_npz(d, X=np.zeros((2, 2)), y=[0, 1]), {"target": "label"}, "target column 'label' is not"),
        (lambda d: parquet(d, when=pd.to_timedelta(["1h"])), {}, "'when' holds timedelta64.*neither numbers nor text"),
        (lambda d: parquet(d, nested=[[1, 2]]), {}, "'nested' holds"),
    ],
)
def test_bad_files_are_refused_by_name(make, roles, text, tmp_path):
    with pytest.raises(InvalidInputError, match=text):
        read_table(make(tmp_path), **roles)


def test_an_unnamed_column_can_be_dropped(tmp_path):
    t = read_table(write(tmp_path / "t.csv", ",a\n0,2\n"), drop="Unnamed: 0")
    assert list(t.X.columns) == ["a"]


def test_errors_quote_no_cell(tmp_path):
    secret = "Zaphod"
    for text in (f"a,b\n{secret},1,2\n", f'a,b\n"{secret},1\n', f"a,b\n{secret},inf\n"):
        with pytest.raises(InvalidInputError) as caught:
            read_table(write(tmp_path / "t.csv", text))
        chain = [caught.value, caught.value.__cause__]
        assert secret not in " ".join(map(str, chain))
    with pytest.raises(InvalidInputError) as caught:
        read_table(write(tmp_path / "t.csv", f"a,b\n{secret},\n"), target="b")
    assert secret not in str(caught.value)


# ------------------------------------------------------------------------------------------------------- aligning


def test_align_orders_and_drops():
    private = pd.DataFrame({"a": [1.0, np.nan], "b": ["x", "y"], "c": [1, 2]})
    public = pd.DataFrame({"c": [3.0], "ill": ["no"], "b": ["z"], "a": [2]})
    got = align_columns(private, public, drop=["ill", "not there either"])
    assert list(got.columns) == ["a", "b", "c"]
    assert list(public.columns) == ["c", "ill", "b", "a"]  # the caller's table is as it was


@pytest.mark.parametrize("blank", [[np.nan, np.nan], np.array([None, None], dtype=object)])
def test_an_empty_public_column_is_refused_whatever_the_private_one_holds(blank):
    """Load-bearing: else one private cell would decide how everybody's column is encoded."""
    public = pd.DataFrame({"a": [1.0, 2.0], "b": blank})
    said = set()
    for b in ([1.0, 2.0], ["x", "y"], [1.0, "x"], [np.nan, np.nan]):
        with pytest.raises(InvalidInputError, match=r"column 'b' is entirely empty: nothing public.*drop") as caught:
            align_columns(pd.DataFrame({"a": [1.0, 2.0], "b": b}), public)
        said.add(str(caught.value))
    assert len(said) == 1


def test_an_empty_private_column_must_be_of_the_public_kind():
    blank = pd.DataFrame({"a": [np.nan]})
    align_columns(blank, pd.DataFrame({"a": [1.0]}))
    with pytest.raises(InvalidInputError, match="'a' is empty, and so numeric in the private file and text in"):
        align_columns(blank, pd.DataFrame({"a": ["x"]}))


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz"])
def test_a_missing_cell_changes_no_columns_type(kind, tmp_path):
    """Load-bearing: columns are float64 or objects, anyone who's cell is missing, and other rows read the same."""
    whole = pd.DataFrame({"n": [1, 2, 3], "flag": [True, False, True], "small": np.array([1, 2, 3], dtype=np.int8)})
    whole["text"] = ["x", "y", "z"]
    if kind == "parquet":
        whole["code"] = pd.Categorical([1, 2, 3])
    holed = whole.astype(object).astype({"code": "category"} if "code" in whole else {})
    holed.iloc[0] = np.nan
    tables = []
    for i, frame in enumerate((whole, holed)):
        path = tmp_path / f"{i}.{kind}"
        if kind == "csv":
            frame.to_csv(path, index=False)
        elif kind == "parquet":
            frame.to_parquet(path)
        else:
            text = np.array(["", "y", "z"], dtype=str) if i else np.array(["x", "y", "z"])
            numeric = {c: frame[c].to_numpy(dtype=float if i else whole[c].dtype) for c in ("n", "flag", "small")}
            np.savez(path, text=text, **numeric)
        tables.append(read_table(path).X)
    for a, b in zip(tables[0].dtypes, tables[1].dtypes, strict=True):
        assert a == b
        assert a in (np.dtype(np.float64), np.dtype(object))
    pd.testing.assert_frame_equal(tables[0].iloc[1:], tables[1].iloc[1:])


def test_a_missing_cell_changes_no_other_encoding():
    encoder = TableEncoder().fit(
        pd.DataFrame({"n": [1, 2, 4], "code": pd.Categorical([1, 2, 2]), "f": [0.1, 0.2, 0.4]})
    )
    private = pd.DataFrame({"n": [1, 2, 3], "code": pd.Categorical([2, 1, 1]), "f": np.float32([0.3, 0.7, 0.9])})
    holed = pd.DataFrame(
        {"n": [np.nan, 2, 3], "code": pd.Categorical([None, 1, 1]), "f": np.float32([np.nan, 0.7, 0.9])}
    )
    np.testing.assert_array_equal(encoder.transform(private)[1:], encoder.transform(holed)[1:])


@pytest.mark.parametrize(
    ("public", "text"),
    [
        ({"a": [1.0]}, "it lacks 'b'[^;]*\\. Both"),
        ({"a": [1.0], "b": ["x"], "ill": ["no"]}, "it also has 'ill'"),
        ({"A": [1.0], "b": ["x"]}, "it lacks 'a'; it also has 'A'"),
        ({"a": ["much"], "b": ["x"]}, "'a' is numeric in the private file and text in the public one"),
        ({"a": [1.0], "b": [2.0]}, "'b' is text in the private file and numeric in the public one"),
    ],
)
def test_align_names_what_differs(public, text):
    with pytest.raises(InvalidInputError, match=text):
        align_columns(pd.DataFrame({"a": [1.0], "b": ["x"]}), pd.DataFrame(public))


# ------------------------------------------------------------------------------------------------------- encoding


@pytest.mark.few(20)
@parametrize_with_checks([TableEncoder()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def mixed(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "num": rng.normal(5, 3, n),
            "whole": rng.integers(0, 9, n),
            "flag": rng.integers(0, 2, n).astype(bool),
            "text": rng.choice(["a", "b", "c"], n),
            "cat": pd.Categorical(rng.choice(["u", "v"], n), categories=["u", "v", "never"]),
        }
    )
    X.loc[::7, "num"] = np.nan
    X["text"] = X["text"].astype(object).where(np.arange(n) % 5 > 0, np.nan)
    return X


def test_encoding_by_hand():
    public = mixed()
    encoder = TableEncoder().fit(public)
    got = encoder.transform(public)
    assert got.dtype == np.float32
    names = encoder.get_feature_names_out().tolist()
    assert names == [
        *("num", "whole", "flag", "missingindicator_num"),
        *("text_a", "text_b", "text_c", "text_nan", "cat_u", "cat_v"),
    ]
    filled = public["num"].fillna(public["num"].median())
    np.testing.assert_allclose(got[:, 0], (filled - filled.mean()) / filled.std(ddof=0), rtol=1e-5, atol=1e-5)
    flag = public["flag"].astype(float)
    np.testing.assert_allclose(got[:, 2], (flag - flag.mean()) / flag.std(ddof=0), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(got[:, names.index("text_b")], (public["text"] == "b").to_numpy())
    np.testing.assert_array_equal(got[:, names.index("text_nan")], public["text"].isna().to_numpy())


def test_encoding_a_row_looks_at_that_row_alone():
    encoder = TableEncoder().fit(mixed())
    private = mixed(50, seed=1)
    whole = encoder.transform(private)
    for i in (0, 3, 49):
        np.testing.assert_array_equal(encoder.transform(private.iloc[[i]])[0], whole[i])


def test_column_order_and_dtypes_of_missing_columns_do_not_matter():
    encoder = TableEncoder().fit(mixed())
    private = mixed(20, seed=2)
    np.testing.assert_array_equal(encoder.transform(private), encoder.transform(private[private.columns[::-1]]))
    private["text"] = np.nan  # float: pandas' type of an empty column
    private["num"] = np.array([None] * 20, dtype=object)
    assert np.isfinite(encoder.transform(private)).all()


def test_a_column_without_a_single_public_value():
    public = pd.DataFrame({"a": [np.nan] * 4, "b": np.array([None] * 4, dtype=object), "c": [1.0, 2.0, 3.0, 4.0]})
    encoder = TableEncoder().fit(public)
    got = encoder.transform(pd.DataFrame({"a": [1.0, np.nan], "b": ["x", None], "c": [np.nan, 1.0]}))
    assert np.isfinite(got).all()


def test_unseen_and_rare_categories():
    public = pd.DataFrame({"t": ["a"] * 50 + ["b"] * 40 + ["c", "d", "e"]})
    few = TableEncoder(max_categories=3).fit(public)
    np.testing.assert_array_equal(few.transform(pd.DataFrame({"t": ["a", "e", "new"]})), np.eye(3)[[0, 2, 2]])
    many = TableEncoder().fit(public)
    assert many.transform(pd.DataFrame({"t": ["new"]})).tolist() == [[0.0] * 5]
    wide = TableEncoder().fit(pd.DataFrame({"t": [f"id{i}" for i in range(500)]}))
    assert wide.transform(pd.DataFrame({"t": ["id3"]})).shape == (1, 50)


def test_arrays_of_numbers_and_of_objects():
    X = np.array([[1.0, np.nan], [3.0, 4.0]], dtype=np.float32)
    got = TableEncoder().fit_transform(X)
    assert (got.dtype, got.shape) == (np.dtype(np.float32), (2, 3))
    objects = np.array([[1, "a"], [2, "b"], [3, "a"]], dtype=object)
    encoder = TableEncoder().fit(objects)
    assert encoder.get_feature_names_out().tolist() == ["x0", "x1_a", "x1_b"]
    np.testing.assert_array_equal(encoder.transform(objects)[:, 1:], [[1, 0], [0, 1], [1, 0]])


def test_clone_and_pickle():
    encoder = TableEncoder(max_categories=7)
    assert clone(encoder).max_categories == 7
    fitted = encoder.fit(mixed())
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(mixed(9)), fitted.transform(mixed(9)))


@pytest.mark.parametrize(
    ("X", "text"),
    [
        (pd.DataFrame({"num": [1.0], "other": ["x"]}), "lacks 'text'; it also has 'other'"),
        (pd.DataFrame({"num": ["much"], "text": ["x"]}), r"columns \['num'\] are \['numeric'\]"),
        (pd.DataFrame({"num": [1.0], "text": [2.0]}), r"columns \['text'\] are \['text'\]"),
        (pd.DataFrame({"num": pd.to_datetime(["2020-01-01"]), "text": ["x"]}), "'num' holds datetime64"),
        (pd.DataFrame({"num": [], "text": []}), "one row and one column"),
    ],
)
def test_encoder_refuses_other_tables(X, text):
    encoder = TableEncoder().fit(pd.DataFrame({"num": [1.0, 2.0], "text": ["x", "y"]}))
    with pytest.raises(InvalidInputError, match=text):
        encoder.transform(X)


def test_bad_max_categories():
    with pytest.raises(InvalidInputError, match="max_categories"):
        TableEncoder(max_categories=1).fit([[1.0]])
    with pytest.raises(InvalidInputError, match="max_categories"):
        make_shard_encoder(pd.DataFrame({"a": [1.0]}), max_categories=0)
    with pytest.raises(InvalidInputError, match="X_public must be a DataFrame"):
        make_shard_encoder(np.zeros((2, 2)))


def test_shard_encoder_learns_in_the_shard_and_takes_only_the_schema():
    public = mixed()
    y = np.arange(60) % 2
    model = make_pipeline(make_shard_encoder(public), LogisticRegression())
    for seed in (3, 4):
        shard = mixed(60, seed=seed)
        shard["num"] = np.nan if seed == 4 else shard["num"]
        fitted = clone(model).fit(shard, y)
        assert set(fitted.predict(public)) <= {0, 1}
        imputer = fitted[0].named_transformers_["numeric"][0]
        expected = shard[["num", "whole"]].median().fillna(0).tolist()
        np.testing.assert_allclose(imputer.statistics_[:2], expected)
    assert not hasattr(model[0], "transformers_")
    # Nothing of ours is inside, so a checkpoint needs no trust in other code.
    parts = [model[0], *(t for _, t, _ in model[0].transformers), *model[0].transformers[0][1]]
    assert {type(p).__module__.split(".")[0] for p in parts} == {"sklearn"}


def test_a_shard_of_one_row_is_encoded():
    shard = mixed(1)
    assert np.isfinite(make_shard_encoder(mixed()).fit(shard).transform(mixed(30))).all()


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["adult", "diabetes130"])
def test_real_mixed_tables(name):
    home = os.environ.get("PATE_DATA_HOME")
    file = "adult.data.gz" if name == "adult" else "diabetes130.npz"
    if not home or not (Path(home) / file).is_file():
        pytest.skip(f"needs PATE_DATA_HOME with {file}")
    d = load_dataset(name, data_home=home, n_private=2000, n_public=1000)
    encoder = TableEncoder().fit(d.public.X)
    X = encoder.transform(d.private.X)
    assert np.isfinite(X).all()
    assert X.shape == (2000, len(encoder.get_feature_names_out()))
    model = LogisticRegression(C=0.01, tol=0.01).fit(X, d.private.y)
    test_rows, test_y = d.test.X[:3000], d.test.y[:3000]
    test_X = encoder.transform(test_rows)
    majority = np.bincount(test_y).max() / len(test_y)
    assert model.score(test_X, test_y) > majority + (0.05 if name == "adult" else 0.01)
    shard = d.private.X.iloc[:300]
    in_shard = make_pipeline(make_shard_encoder(d.public.X), LogisticRegression(C=0.01, tol=0.01))
    in_shard.fit(shard, d.private.y[:300])
    assert in_shard.score(test_rows, test_y) > majority - 0.15


def test_importing_the_package_is_light():
    code = "import sys, pate.data; print([m for m in ('pandas', 'sklearn', 'pooch', 'torch') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
    import pate.data

    assert set(pate.data.__all__) <= set(dir(pate.data))
    assert all(getattr(pate.data, name) is not None for name in pate.data.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        _ = pate.data.nothing


# Codes, and npy ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_columns_named_as_text_are_text(tmp_path, kind):
    frame = pd.DataFrame({"code": ["0250", "01", "250.0"] if kind == ".csv" else [250.0, 1.0, None], "age": [1, 2, 3]})
    path = tmp_path / f"t{kind}"
    frame.to_csv(path, index=False) if kind == ".csv" else frame.to_parquet(path, index=False)
    X = read_table(path, text=["code"]).X
    expected = ["0250", "01", "250.0"] if kind == ".csv" else ["250", "1"]
    assert X["code"].dropna().tolist() == expected
    assert X["code"].dtype == object
    assert X["age"].dtype == float
    assert read_table(path).X["code"].dtype == float
    with pytest.raises(InvalidInputError, match="text column 'kode' is not in"):
        read_table(path, text="kode")


def test_npy_of_numbers_and_of_fields(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(12).reshape(3, 2, 2))
    assert read_table(tmp_path / "a.npy").X.columns.tolist() == ["x0", "x1", "x2", "x3"]
    table = read_table(tmp_path / "a.npy", target="x3")
    assert table.y.tolist() == [3, 7, 11]
    fields = np.array([(1.5, "Oslo"), (2.5, "Rome")], dtype=[("age", "f8"), ("town", "U4")])
    np.save(tmp_path / "b.npy", fields)
    assert read_table(tmp_path / "b.npy").X["town"].tolist() == ["Oslo", "Rome"]
    for name, array in (("c", np.arange(3)), ("d", np.array([[1j]])), ("e", np.zeros((0, 3)))):
        np.save(tmp_path / f"{name}.npy", array)
        with pytest.raises(InvalidInputError):
            read_table(tmp_path / f"{name}.npy")
    np.save(tmp_path / "o.npy", np.array([[{}]]), allow_pickle=True)
    with pytest.raises(InvalidInputError, match="not a readable npy"):
        read_table(tmp_path / "o.npy")
