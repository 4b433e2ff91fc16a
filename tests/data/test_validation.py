"""Validation of rows and labels: no error quotes a cell, and every place takes and refuses the same kinds."""

from __future__ import annotations

import datetime
import traceback
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

import pate
from pate import (
    Budget,
    InvalidInputError,
    PATEClassifier,
    PateError,
    TableEncoder,
    TeacherEnsemble,
    TorchTeacherEnsemble,
    Votes,
    account,
    partition,
    read_table,
)
from pate._core.checks import check_labels, encode_labels, quietly
from pate.data import align_columns, count_cross_shard_duplicates, make_shard_encoder, records_fingerprint
from pate.data._validation import by_name, read_numbers, read_rows
from pate.exceptions import CuratorWarning
from pate.jobs import LabelJob
from pate.mechanisms import GNMax
from pate.models.students import VoteSpreading, fit_student
from pate.networks import MLP
from pate.teachers import CallableTeachers, ensemble_curve

SECRET = "John Doe 078-05-1120"
N = 24
RICH = Budget(1e4, 1e-5)


class Shouts:
    """A cell that says its secret in every way in which a library may ask for it."""

    def __repr__(self):
        return SECRET

    def _no(self, *args):
        raise ValueError(f"could not convert {SECRET}")

    __float__ = __int__ = __index__ = __lt__ = __eq__ = __hash__ = __len__ = __array__ = __bool__ = _no


#: Cells that someone's record may hold by mistake.
POISON = {
    "text": lambda: SECRET,
    "bytes": lambda: SECRET.encode(),
    "list": lambda: [SECRET],
    "dict": lambda: {SECRET: 1},
    "tuple": lambda: (SECRET, 1),
    "set": lambda: {SECRET},
    "class": Shouts,
    "type": lambda: type(SECRET, (), {}),
    "series": lambda: pd.Series([SECRET]),
    "error": lambda: ValueError(SECRET),
}


def numbers(rng):
    return rng.normal(size=(N, 3)), np.arange(N) % 2


def placed(rng, form, cell):
    """Rows with the cell in a random place, in some form that people hand in."""
    X, _ = numbers(rng)
    i, j = rng.integers(0, N), rng.integers(0, 3)
    table = X.astype(object)
    table[i, j] = cell
    if form == "list":
        return table.tolist()
    if form == "frame":
        return pd.DataFrame(table.tolist(), columns=["age", "dose", "score"]).infer_objects()
    if form == "category":
        frame = pd.DataFrame(X, columns=["age", "dose", "score"])
        texts = ["x"] * N
        texts[i] = SECRET
        return frame.assign(town=pd.Categorical(texts))
    if form == "masked":
        return np.ma.array(table, mask=rng.random(table.shape) < 0.1)
    return table


def column(rng, cell):
    y = (np.arange(N) % 2).astype(object)
    y[rng.integers(0, N)] = cell
    return [y, y.tolist(), pd.Series(y), pd.Series(y, name=3), np.ma.array(y, mask=np.arange(N) == 0)][
        rng.integers(0, 5)
    ]


def encoded():
    return make_pipeline(OneHotEncoder(handle_unknown="ignore"), DecisionTreeClassifier())


def selecting():
    return make_pipeline(make_column_transformer((OneHotEncoder(), [0]), remainder="passthrough"), LogisticRegression())


ESTIMATORS = [LogisticRegression, GaussianNB, HistGradientBoostingClassifier, encoded, selecting]
PUBLIC = np.random.default_rng(1).normal(size=(8, 3))


def pate_fit(rng, X, y, groups):
    model = ESTIMATORS[rng.integers(0, len(ESTIMATORS))]()
    classes = [0, 1] if rng.random() < 0.7 else None
    clf = PATEClassifier(model, n_teachers=3, budget=RICH, classes=classes, queries=4, student=GaussianNB())
    clf.fit(X, y, X_public=PUBLIC, groups=groups)


def ensemble_fit(rng, X, y, groups):
    model = ESTIMATORS[rng.integers(0, len(ESTIMATORS))]()
    TeacherEnsemble(model, 3, classes=[0, 1] if rng.random() < 0.7 else None).fit(X, y, groups=groups).vote(PUBLIC)


def torch_fit(rng, X, y, groups):
    TorchTeacherEnsemble(MLP, 2, classes=[0, 1], epochs=1, device="cpu").fit(X, y, groups=groups)


def encoder_fit(rng, X, y, groups):
    TableEncoder().fit(X).transform(X)


def encoder_transform(rng, X, y, groups):
    frame = hasattr(X, "columns")
    TableEncoder().fit(pd.DataFrame(PUBLIC, columns=list(X.columns)[:3]) if frame else PUBLIC).transform(X)


def columns_alike(rng, X, y, groups):
    if hasattr(X, "columns"):
        make_shard_encoder(X)
        align_columns(X, pd.DataFrame(PUBLIC, columns=["age", "dose", "score"]))


def small_things(rng, X, y, groups):
    for read in (
        lambda: read_rows(X),
        lambda: read_numbers(X),
        lambda: check_labels("y", y, N),
        lambda: encode_labels("y", y, (0, 1)),
        lambda: encode_labels("y", y, ("a", "b")),
        lambda: partition(N, 3, groups=y if groups is None else groups),
        lambda: count_cross_shard_duplicates(X, partition(N, 3)),
        lambda: Votes.from_counts(X),
        lambda: Votes.from_labels(X, classes=3),
        lambda: account(X, GNMax(9.0), delta=1e-5),
        lambda: ensemble_curve([y, y], y, n_classes=2),
        lambda: VoteSpreading().fit(X, y),
        lambda: records_fingerprint(np.arange(N) % 2, y),
        lambda: CallableTeachers([lambda rows: [0] * len(rows)], classes=(0, 1)).vote(X),
    ):
        assert_silent(read)


TAKERS = [pate_fit, ensemble_fit, torch_fit, encoder_fit, encoder_transform, columns_alike, small_things]


def everything_said(error):
    """The traceback as it is printed, and every text in the chain of errors, printed or not."""
    said, seen = "".join(traceback.format_exception(error)), set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        said += f"\n{type(error).__name__}: {error.args!r} {error}"
        error = error.__cause__ or error.__context__
    return said


def assert_silent(call):
    """Whatever happens says nothing of the secret; returns the error, if there was one."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            call()
            error = None
        except Exception as caught:
            error = caught
    said = "" if error is None else everything_said(error)
    said += "".join(str(warning.message) for warning in heard)
    for word in ("John", "Doe", "078-05"):
        assert word not in said, said
    return error


@pytest.mark.few(2)
@pytest.mark.parametrize("taker", TAKERS, ids=lambda taker: taker.__name__)
@pytest.mark.parametrize("poison", POISON)
def test_no_error_quotes_a_private_cell(taker, poison):
    rng = np.random.default_rng([3, *poison.encode(), *taker.__name__.encode()])
    forms = ["list", "array", "frame", "category", "masked"]
    for place in ("X", "y", "groups", "X", "y"):
        cell = POISON[poison]()
        X, y = numbers(rng)
        groups = None
        if place == "X":
            X = placed(rng, forms[rng.integers(0, len(forms))], cell)
        elif place == "y":
            y = column(rng, cell)
        else:
            groups = column(rng, cell)
        error = assert_silent(lambda X=X, y=y, groups=groups: taker(rng, X, y, groups))
        assert error is None or isinstance(error, PateError), everything_said(error)


def test_the_fuzz_sees_a_quote():
    """A check that cannot fail would be none."""
    with pytest.raises(AssertionError):
        assert_silent(lambda: LogisticRegression().fit([[SECRET], ["1"]], [0, 1]))

    def chained():
        try:
            float(SECRET)
        except ValueError:
            raise InvalidInputError("withheld") from None

    with pytest.raises(AssertionError):
        assert_silent(chained)  # nothing printed, but a debugger would show it
    assert isinstance(assert_silent(lambda: quietly("X", float, SECRET)), InvalidInputError)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["age", "ill", "who"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_files_are_read_in_silence(tmp_path, name, suffix):
    frame = pd.DataFrame({"age": np.arange(40.0), "ill": np.arange(40) % 2, "who": np.arange(40)})
    public = tmp_path / "public.csv"
    frame[["age"]].iloc[::4].to_csv(public, index=False)
    frame[name] = frame[name].astype(object)
    frame.loc[17, name] = SECRET
    private = tmp_path / f"private{suffix}"
    if suffix == ".csv":
        frame.to_csv(private, index=False)
    else:
        frame.astype({name: str}).to_parquet(private)

    def run():
        job = LabelJob(
            private, public, target="ill", group="who", classes=[0, 1], budget=RICH, teacher="naive-bayes", n_teachers=3
        )
        job.run()

    assert assert_silent(run) is None  # one odd cell, class or name stops nothing
    assert_silent(lambda: read_table(private, target="ill", group="who"))


# Kinds of values, alike everywhere ----------------------------------------------------------------------------------

Y = np.arange(N) % 2
MASKED = np.ma.array(np.random.default_rng(0).normal(size=(N, 3)), mask=np.eye(N, 3, dtype=bool))
DATES = pd.date_range("2020-01-01", periods=N)


def kinds():
    X = np.random.default_rng(0).normal(size=(N, 3))
    frame = pd.DataFrame(X, columns=["age", "dose", "score"])
    table = X.astype(object)
    yield "complex array", X + 1j, "must hold real numbers"
    yield "complex cells", np.where(np.eye(N, 3) == 1, 2j, table), "must hold real numbers"
    yield "complex list", (X + 1j).tolist(), "must hold real numbers"
    yield "complex column", frame.assign(dose=X[:, 1] + 1j), "column 'dose' holds complex"
    yield "dates", np.tile(DATES.to_numpy()[:, None], 3), "datetime values.*days since"
    yield "spans", np.ones((N, 3), dtype="m8[s]"), "datetime values.*days since"
    dated = table.copy()
    dated[:, 1] = [d.to_pydatetime() for d in DATES]
    yield "date cells", dated, "datetime values.*days since"
    yield "date list", dated.tolist(), "datetime values.*days since"
    yield "date column", frame.assign(dose=DATES), "column 'dose' holds datetime64.*days since"
    yield "zoned column", frame.assign(dose=DATES.tz_localize("UTC")), "column 'dose' holds datetime64.*days since"
    yield "span column", frame.assign(dose=DATES - DATES[0]), "column 'dose' holds timedelta.*days since"
    yield "period column", frame.assign(dose=DATES.to_period("D")), "column 'dose' holds period.*days since"
    day = [datetime.date(2020, 1, 1)] * N
    yield "day column", frame.assign(dose=day), "column 'dose' holds date.*days since"
    yield "list column", frame.assign(dose=[[1.0]] * N), "column 'dose' holds mixed"
    yield "decimal column", frame.assign(dose=[Decimal(1)] * N), "column 'dose' holds decimal"
    yield "records", np.zeros(N, dtype=[("a", float), ("b", float)]), "dtype"
    yield "bytes", np.full((N, 3), b"1"), "dtype"
    yield "one axis", np.zeros(N), "Reshape your data"
    yield "ragged", [[1.0]] * (N - 1) + [[1.0, 2.0]], "rows of different lengths"
    yield "no rows", np.zeros((0, 3)), "has no rows"
    yield "no columns", np.zeros((N, 0)), "at least one row and one column"
    yield "same names", pd.DataFrame(X, columns=["a", "a", "b"]), "columns of the same name"


def like(X):
    """Public rows for a list, which has no width of its own."""
    return {"X_public": PUBLIC} if isinstance(X, list) else {}


TAKERS = {
    "PATEClassifier": lambda X: PATEClassifier(n_teachers=3, budget=RICH, classes=[0, 1]).fit(X, Y, X_public=PUBLIC),
    "PATEClassifier, public": lambda X: PATEClassifier(n_teachers=3, budget=RICH, classes=[0, 1]).fit(
        X if not hasattr(X, "columns") else pd.DataFrame(np.zeros((N, 3)), columns=X.columns), Y, X_public=X
    ),
    "TeacherEnsemble": lambda X: TeacherEnsemble(LogisticRegression(), 3, classes=[0, 1]).fit(X, Y, **like(X)),
    "TeacherEnsemble of pipelines": lambda X: TeacherEnsemble(encoded(), 3, classes=[0, 1]).fit(X, Y, **like(X)),
    "TeacherEnsemble.vote": lambda X: TeacherEnsemble(GaussianNB(), 3, classes=[0, 1]).fit(MASKED.data, Y).vote(X),
    "TorchTeacherEnsemble": lambda X: TorchTeacherEnsemble(MLP, 2, classes=[0, 1], epochs=1, device="cpu").fit(
        X, Y, **like(X)
    ),
    "CallableTeachers": lambda X: CallableTeachers([lambda rows: [0] * len(rows)], classes=(0, 1)).vote(X),
    "TableEncoder": lambda X: TableEncoder().fit(X),
    "TableEncoder.transform": lambda X: (
        TableEncoder()
        .fit(pd.DataFrame(MASKED.data, columns=["age", "dose", "score"]) if hasattr(X, "columns") else MASKED.data)
        .transform(X)
    ),
    "VoteSpreading": lambda X: VoteSpreading().fit(X, Y),
    "fit_student": lambda X: fit_student(GaussianNB(), read_rows(X), Y),
}


#: Odd cells, of a few records or of all: private records are read cell by cell, and those are left out.
FEW = (
    "complex cells", "complex list", "complex column", "date list", "date cells", "day column", "list column",
    "decimal column",
)  # fmt: skip
OF_PRIVATE_ROWS = ("PATEClassifier", "TeacherEnsemble", "TeacherEnsemble of pipelines", "TorchTeacherEnsemble")


@pytest.mark.few(2)
@pytest.mark.parametrize("taker", TAKERS)
def test_what_is_no_number_is_refused_in_the_same_words_everywhere(taker):
    private = taker in OF_PRIVATE_ROWS
    for kind, X, text in kinds():
        if taker.startswith("TableEncoder") and kind == "same names":
            continue  # an encoder names columns as its table does, and scikit-learn refuses the names itself
        if kind == "ragged" and private:
            continue  # the one row of another length is left out
        as_public = taker == "PATEClassifier" and kind.endswith(" column") and kind in FEW
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            if kind in FEW and private and not as_public:
                TAKERS[taker](X)
                assert any("records cannot be used" in str(one.message) for one in said), kind
                continue
            with pytest.raises(InvalidInputError, match="must be a DataFrame" if as_public else text):
                TAKERS[taker](X)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "X",
    [
        MASKED,
        np.ma.array(np.arange(3 * N).reshape(N, 3), mask=np.eye(N, 3, dtype=bool)),
        np.ma.array(MASKED.data.astype(object), mask=MASKED.mask),
        MASKED.filled(np.nan).tolist(),
        [[None if m else v for v, m in zip(*row, strict=True)] for row in zip(MASKED.data, MASKED.mask, strict=True)],
        pd.DataFrame(MASKED.filled(np.nan)).convert_dtypes(),
    ],
    ids=["floats", "whole numbers", "objects", "NaN in a list", "None in a list", "nullable"],
)
def test_what_is_masked_is_missing(X):
    """Never what stands behind the mask: refused (left out, if private) where nothing may be missing, else NaN."""
    with pytest.raises(InvalidInputError, match="NaN or infinity"):
        TAKERS["VoteSpreading"](X)
    for taker in ("TeacherEnsemble", "TorchTeacherEnsemble"):
        with pytest.warns(CuratorWarning, match="3 of 24 records cannot be used.*3 with a value that is missing"):
            TAKERS[taker](X)
    trees = TeacherEnsemble(HistGradientBoostingClassifier(max_iter=2), 2, classes=[0, 1], random_state=0)
    assert trees.fit(X, Y, **like(X)).vote(X).n_queries == N
    names = TableEncoder().fit(X).get_feature_names_out().tolist()
    assert sum("missingindicator" in name for name in names) == 3
    rows = read_numbers(X, missing=True)
    assert rows.dtype == np.float64
    assert np.array_equal(np.isnan(rows), MASKED.mask)


def test_one_masked_cell_changes_no_other_type():
    whole = np.arange(6).reshape(3, 2)
    bare, masked = np.ma.array(whole), np.ma.array(whole, mask=np.eye(3, 2, dtype=bool))
    assert read_rows(bare).dtype == read_rows(masked).dtype == np.float64
    assert read_rows([[1, 2]]).dtype == read_rows([[1, None]]).dtype == read_rows([[1.5, None]]).dtype


@pytest.mark.few(8)
@pytest.mark.parametrize(
    ("y", "text"),
    [
        (np.ma.array(Y, mask=np.arange(N) == 3), "masked cells"),
        (Y + 1j, "y holds complex"),
        (DATES.to_numpy(), "y holds datetime"),
        (DATES, "y holds datetime"),
        (list(DATES.to_pydatetime()), "y holds datetime"),
        ([0, None] * (N // 2), "missing values"),
        (pd.array([0, None] * (N // 2), dtype="Int64"), "missing values|NaN"),
        (np.where(Y, np.nan, 0.0), "NaN"),
        (np.zeros(N, dtype=[("a", int)]), "y holds structured"),
        ([[0]] * (N - 1) + [[1, 2]], "y"),
        ([{}] * N, "y holds dict"),
        (Y[:-1], "inconsistent numbers of samples"),
        (np.stack([Y, Y], axis=1), "y must have shape"),
    ],
)
@pytest.mark.parametrize("classes", [[0, 1], None])
@pytest.mark.filterwarnings("ignore::pate.exceptions.CuratorWarning", "ignore::pate.exceptions.StudentWarning")
def test_labels_are_refused_in_the_same_words_everywhere(y, text, classes):
    X = MASKED.data
    some = text in ("masked cells", "missing values", "missing values|NaN", "NaN", "y")
    makers = (
        lambda: PATEClassifier(n_teachers=3, budget=RICH, classes=classes).fit(X, y, X_public=PUBLIC),
        lambda: TeacherEnsemble(GaussianNB(), 3, classes=classes).fit(X, y),
        lambda: TorchTeacherEnsemble(MLP, 2, classes=classes, epochs=1, device="cpu").fit(X, y),
        lambda: VoteSpreading().fit(X, y),
    )
    for make in makers:
        if (some or isinstance(y, list)) and classes and make is not makers[-1]:
            make()  # cell by cell: who has no class is left out, though it were everybody
            continue
        with pytest.raises(InvalidInputError, match=text):
            make()


@pytest.mark.filterwarnings("ignore::pate.exceptions.StudentWarning")
def test_a_private_text_among_numbers_never_reaches_other_shards():
    """It would give every shard an array of objects; the public rows say that these are numbers."""
    X = MASKED.data.astype(object)
    X[5, 1] = "unknown"
    teachers = TeacherEnsemble(encoded(), 3, classes=[0, 1], random_state=0).fit(X.astype(str), Y)
    with pytest.warns(CuratorWarning, match="could not vote"):
        teachers.vote(PUBLIC)  # a whole table of texts; were it refused here, one record's text would decide that
    clf = PATEClassifier(encoded(), n_teachers=3, budget=RICH, classes=[0, 1], student=GaussianNB())
    with pytest.warns(CuratorWarning, match="1 of 24 records cannot be used"):
        clf.fit(X, Y, X_public=PUBLIC)


def test_objects_that_are_numbers_are_numbers():
    alike = {"classes": [0, 1], "random_state": 0, "partition_seed": 0}
    a = TeacherEnsemble(GaussianNB(), 3, **alike).fit(MASKED.data, Y).vote(PUBLIC)
    teachers = TeacherEnsemble(GaussianNB(), 3, **alike).fit(MASKED.data.astype(object), Y)
    b = teachers.vote(PUBLIC.astype(object))
    assert np.array_equal(a.labels, b.labels)
    assert a.query_hashes == b.query_hashes


@pytest.mark.parametrize(
    ("model", "takes"),
    [(GaussianNB(), False), (LogisticRegression(), True), (HistGradientBoostingClassifier(), False)],
)
def test_an_ensemble_says_which_rows_its_estimator_takes(model, takes):
    thin = sparse.csr_array(MASKED.data)
    for owner in (TeacherEnsemble(model, 3, classes=[0, 1]), PATEClassifier(model, classes=[0, 1])):
        assert owner.__sklearn_tags__().input_tags.sparse is takes
    assert owner.__sklearn_tags__().input_tags.allow_nan is isinstance(model, HistGradientBoostingClassifier)
    if not takes:
        with pytest.raises(InvalidInputError, match=f"must be dense for {type(model).__name__}, got a sparse matrix"):
            TeacherEnsemble(model, 3, classes=[0, 1]).fit(thin, Y)


def test_data_given_for_a_setting_are_not_quoted():
    """Arguments get mixed up: votes for a number of queries, labels for classes, rows for a mechanism."""
    votes = [[5, 3], ["Ms Smith", 2]]
    budget = pate.Budget(1.0, 1e-5)
    calls = [
        lambda: pate.quote(votes, pate.GNMax(sigma=5.0), budget=budget),
        lambda: pate.quote(np.array(votes, dtype=object), pate.GNMax(sigma=5.0), budget=budget),
        lambda: pate.release_labels(pate.Votes.from_counts([[5, 3]]), votes, budget=budget),
        lambda: pate.release_labels(pate.Votes.from_counts([[5, 3]]), pate.GNMax(sigma=5.0), budget=votes),
        lambda: pate.TeacherEnsemble(LogisticRegression(), n_teachers=2, classes=["Ms Smith", "Ms Smith", "no"]).fit(
            [[0.0]] * 4, [0] * 4
        ),
        lambda: pate.DPSGDClassifier("linear", budget=budget, learning_rate=votes).fit([[0.0]] * 4, [0] * 4),
    ]
    for call in calls:
        with pytest.raises(pate.InvalidInputError) as refused:
            call()
        assert "Smith" not in str(refused.value)


def test_other_columns_are_refused_and_named():
    table = pd.DataFrame({"b": [1.0], "a": [2.0]})
    assert by_name(table, ["a", "b"]).columns.tolist() == ["a", "b"]
    for known, found in (
        (["a"], "it also has 'b'"),
        (["a", "b", "c"], "it lacks 'c'"),
        (["a", "c"], "it lacks 'c'; it also has 'b'"),
    ):
        with pytest.raises(InvalidInputError, match=rf"the rows of fit: {found}\. Columns"):
            by_name(table, known)
    with pytest.raises(InvalidInputError, match="one is there twice"):
        by_name(table[["a", "b", "b"]], ["a", "b"])


def test_of_many_other_columns_the_first_are_named_and_numbers_as_they_are():
    pixels = pd.DataFrame(np.zeros((1, 30)))
    with pytest.raises(InvalidInputError, match=r"it lacks 30, 31\. Columns"):
        by_name(pixels, range(32))
    with pytest.raises(InvalidInputError, match=r"it lacks 30, 31, .*, 39 and 70 more\. Columns"):
        by_name(pixels, range(110))
    named = pixels.add_prefix("p")
    with pytest.raises(InvalidInputError, match=r"differ .*: it also has 'p0', .* 'p9' and 20 more\. Both"):
        align_columns(named[[]].assign(a=0.0), named.assign(a=0.0))
