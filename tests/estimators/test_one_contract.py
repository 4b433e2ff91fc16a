"""One contract: the same rows, whatever holds them, give the same votes and predictions from anyone who takes rows."""

import warnings
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from pate_of import pate_of
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from pate import (
    Budget,
    CallableTeachers,
    DPSGDClassifier,
    HeadTeacherEnsemble,
    Queries,
    RecordVoters,
    TeacherEnsemble,
    TorchTeacherEnsemble,
)
from pate.exceptions import InvalidInputError
from pate.networks import MLP
from pate.records import SignedSpace
from pate.representations import TableMap, TextMap

pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

RNG = np.random.default_rng(0)
N, M = 120, 30
Y, Y_PUBLIC = RNG.integers(2, size=N), RNG.integers(2, size=M)
X = (RNG.normal(size=(N, 3)) + 2 * Y[:, None]).round(2)
X_PUBLIC = (RNG.normal(size=(M, 3)) + 2 * Y_PUBLIC[:, None]).round(2)
NAMES = ["a", "b", "c"]
BUDGET = Budget(20.0, 1e-4)


def mixed(rows):
    return pd.DataFrame({"a": rows[:, 0], "town": np.where(rows[:, 1] > 1, "Oslo", "Rome"), "c": rows[:, 2]})


def words(rows):
    return [f"{'good fine' if row[0] > 1 else 'bad poor'} note of {row[1]} and {row[2]}" for row in rows]


def images(*shape):
    pattern = np.linspace(-0.2, 0.2, int(np.prod(shape)))
    return lambda rows: (rows[:, :1] / 8 + 0.4 + rows[:, 1:2] * pattern).reshape(len(rows), *shape)


TABLES = {
    "list": lambda rows: rows.tolist(),
    "pandas": lambda rows: pd.DataFrame(rows, columns=NAMES),
    "pandas nullable": lambda rows: pd.DataFrame(rows, columns=NAMES).astype("Float64"),
    "pandas on arrow": lambda rows: pd.DataFrame(rows, columns=NAMES).astype("float64[pyarrow]"),
    "polars": lambda rows: pl.DataFrame(rows, schema=NAMES),
    "arrow": lambda rows: pa.table({name: rows[:, j] for j, name in enumerate(NAMES)}),
    "arrow batch": lambda rows: pa.record_batch({name: rows[:, j] for j, name in enumerate(NAMES)}),
}
MIXED = {
    "polars": lambda rows: pl.from_pandas(mixed(rows)),
    "arrow": lambda rows: pa.Table.from_pandas(mixed(rows)),
    "pandas objects": lambda rows: mixed(rows).astype({"town": object}),
}
TEXTS = {
    "array": lambda rows: np.array(words(rows)),
    "series": lambda rows: pd.Series(words(rows)),
    "polars": lambda rows: pl.Series(words(rows)),
    "arrow": lambda rows: pa.chunked_array([words(rows)]),
}


def pate_by(**said):
    return pate_of(
        budget=BUDGET,
        classes=[0, 1],
        random_state=0,
        noise_seed=0,
        stated={"overlap is public": "yes"},
        queries=Queries(force=True),
        **said,
    )


def dpsgd(module, **said):
    return DPSGDClassifier(
        module, budget=BUDGET, classes=[0, 1], random_state=0, noise_seed=0, expected_batch_size=32, epochs=2, **said
    )


def classified(clf, hold, *, with_public=True):
    """Return probabilities of public rows, and check what the rest of the contract says of them."""
    public = {"X_public": hold(X_PUBLIC)} if with_public else {}
    found = clf.fit(hold(X), Y, **public).predict_proba(hold(X_PUBLIC))
    assert (clf.predict(hold(X_PUBLIC)) == clf.classes_[found.argmax(axis=1)]).all()
    assert clf.score(hold(X_PUBLIC), Y_PUBLIC) == (clf.predict(hold(X_PUBLIC)) == Y_PUBLIC).mean()
    return found


def voted(teachers, hold, **public):
    return teachers.fit(hold(X), Y, **public).vote(hold(X_PUBLIC)).counts


def cast(rep, hold):
    rep = rep.fit(hold(X_PUBLIC))
    voters = RecordVoters(rep, SignedSpace().fit(rep.transform(hold(X_PUBLIC))), classes=[0, 1])
    return np.r_[voters.cast(hold(X), Y).sums.ravel(), voters.transform(hold(X_PUBLIC)).ravel()]


def called(hold):
    def size(rows):
        return rows.shape[0] if hasattr(rows, "shape") else len(rows)

    return (
        CallableTeachers([lambda r: [0] * size(r), lambda r: [1] * size(r)], classes=[0, 1]).vote(hold(X_PUBLIC)).counts
    )


ENSEMBLE = {"classes": [0, 1], "random_state": 0, "partition_seed": 0}
WHO = {
    "records": lambda hold: classified(pate_by(), hold),
    "shards": lambda hold: classified(pate_by(estimator=GaussianNB(), n_teachers=5, partition_seed=0), hold),
    "heads": lambda hold: classified(pate_by(voters="heads", n_teachers=10, partition_seed=0), hold),
    "dp-sgd": lambda hold: classified(dpsgd("linear"), hold, with_public=False),
    "dp-sgd planned": lambda hold: classified(dpsgd(None), hold),
    "teachers": lambda hold: voted(TeacherEnsemble(GaussianNB(), 5, **ENSEMBLE), hold),
    "torch": lambda hold: voted(TorchTeacherEnsemble(MLP, 3, epochs=1, device="cpu", **ENSEMBLE), hold),
    "head teachers": lambda hold: voted(
        HeadTeacherEnsemble(TableMap().fit(hold(X_PUBLIC)), 10, **ENSEMBLE), hold, X_public=hold(X_PUBLIC)
    ),
    "record voters": lambda hold: cast(TableMap(), hold),
    "callables": called,
}


#: Those that take a while to fit are shown one kind of each.
SLOW = ("records", "heads", "dp-sgd planned", "dp-sgd")


def pairs(takers, kinds, *, few):
    return [(who, kind) for who in takers for kind in kinds if who not in SLOW or kind in few]


@pytest.fixture(scope="module")
def expected():
    """What plain NumPy rows give, once for each."""
    known = {}

    def of(who, run, hold):
        if who not in known:
            known[who] = run(hold)
        return known[who]

    return of


@pytest.mark.few(3)
@pytest.mark.parametrize(("who", "kind"), pairs(WHO, TABLES, few=("polars",)))
def test_the_same_table_gives_the_same(who, kind, expected):
    if who in ("teachers", "torch") and kind == "list":  # no public rows say how wide a list's rows are
        with pytest.raises(InvalidInputError, match="declared width"):
            WHO[who](TABLES[kind])
        return
    plain = expected(who, WHO[who], lambda rows: rows)
    np.testing.assert_array_equal(WHO[who](TABLES[kind]), plain)


@pytest.mark.few(1)
@pytest.mark.parametrize("who", ["records", "shards", "heads", "teachers", "callables", "dp-sgd planned"])
def test_sparse_rows_are_taken(who):
    plain = sparse_run(who, sparse.csr_matrix)
    np.testing.assert_array_equal(sparse_run(who, sparse.coo_array), plain)


def sparse_run(who, hold):
    run = {
        "shards": lambda hold: classified(
            pate_by(estimator=LogisticRegression(), n_teachers=5, partition_seed=0), hold
        ),
        "teachers": lambda hold: voted(TeacherEnsemble(LogisticRegression(), 5, **ENSEMBLE), hold),
    }.get(who, WHO[who])
    return run(hold)


@pytest.mark.long
def test_sparse_rows_are_refused_with_the_remedy_or_filled_in():
    with pytest.raises(InvalidInputError, match=r"must be dense for .*X\.toarray\(\)"):
        WHO["torch"](sparse.csr_array)
    np.testing.assert_array_equal(WHO["dp-sgd"](sparse.csr_array), WHO["dp-sgd"](np.asarray))


ENCODED = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
WHO_MIXED = {
    "records": WHO["records"],
    "heads": WHO["heads"],
    "shards": lambda hold: classified(pate_by(estimator=ENCODED, n_teachers=5, partition_seed=0), hold),
    "dp-sgd planned": WHO["dp-sgd planned"],
    "teachers": lambda hold: voted(TeacherEnsemble(ENCODED, 5, **ENSEMBLE), hold),
    "head teachers": WHO["head teachers"],
    "record voters": WHO["record voters"],
    "callables": called,
}


@pytest.mark.few(2)
@pytest.mark.parametrize(("who", "kind"), pairs(WHO_MIXED, MIXED, few=("arrow",)))
def test_mixed_tables_give_the_same(who, kind, expected):
    plain = expected(f"{who} mixed", WHO_MIXED[who], mixed)
    np.testing.assert_array_equal(WHO_MIXED[who](MIXED[kind]), plain)


@pytest.mark.parametrize("who", ["torch", "dp-sgd"])
def test_texts_are_refused_with_the_remedy_where_numbers_are_needed(who):
    """A column of texts is a record's own matter beside numbers: of a table, none can be used."""
    with pytest.raises(InvalidInputError, match=r"must hold numbers for .*TextMap makes numbers of"):
        WHO[who](TEXTS["polars"])
    with warnings.catch_warnings(record=True) as said, suppress(InvalidInputError):
        warnings.simplefilter("always")
        WHO[who](MIXED["polars"])
    assert any("NO RECORD IS LEFT" in str(one.message) for one in said)


def texted(who, hold):
    from sklearn.feature_extraction.text import TfidfVectorizer

    model = make_pipeline(TfidfVectorizer(), LogisticRegression())
    run = {
        "shards": lambda hold: classified(pate_by(estimator=model, n_teachers=5, partition_seed=0), hold),
        "teachers": lambda hold: voted(TeacherEnsemble(model, 5, **ENSEMBLE), hold),
        "record voters": lambda hold: cast(TextMap(), hold),
    }.get(who, WHO[who])
    return run(hold)


OF_TEXTS = ("records", "shards", "heads", "dp-sgd planned", "teachers", "record voters", "callables")


@pytest.mark.few(2)
@pytest.mark.parametrize(("who", "kind"), pairs(OF_TEXTS, TEXTS, few=("polars",)))
def test_texts_give_the_same(who, kind, expected):
    plain = expected(f"{who} texts", lambda hold: texted(who, hold), words)
    np.testing.assert_array_equal(texted(who, TEXTS[kind]), plain)


def test_dp_sgd_on_texts_needs_public_ones():
    with pytest.raises(InvalidInputError, match="neither public rows nor a schema"):
        dpsgd(None).fit(words(X), Y)


OF_IMAGES = ("records", "shards", "heads", "dp-sgd planned", "dp-sgd", "teachers", "torch", "record voters")


@pytest.mark.few(1)
@pytest.mark.parametrize(("who", "shape"), pairs(OF_IMAGES, [(8, 8), (1, 8, 8)], few=[(8, 8)]))
def test_images_are_as_flattened_ones_of_a_given_shape(who, shape):
    hold = images(*shape)

    def flat(rows):
        return hold(rows).reshape(len(rows), -1)

    shaped = {
        "records": lambda hold: classified(pate_by(image_shape=shape), hold),
        "heads": lambda hold: classified(
            pate_by(image_shape=shape, voters="heads", n_teachers=10, partition_seed=0), hold
        ),
        "dp-sgd planned": lambda hold: classified(dpsgd(None, image_shape=shape), hold),
    }
    run = WHO[who]
    np.testing.assert_allclose(run(hold), shaped.get(who, run)(flat), atol=1e-6)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "make", [lambda: pate_by(), lambda: pate_by(estimator=GaussianNB(), n_teachers=5), lambda: dpsgd(None)]
)
def test_images_of_another_shape_are_refused(make):
    rows, public = images(4, 16)(X), images(8, 8)(X_PUBLIC)
    with pytest.raises(InvalidInputError, match=r"rows of shape \(.*\), as the others"):
        make().fit(rows, Y, X_public=public)
    clf = make().fit(images(8, 8)(X), Y, X_public=public)
    with pytest.raises(InvalidInputError, match=r"must have rows of shape \(8, 8\)"):
        clf.predict(images(4, 16)(X_PUBLIC))
    with pytest.raises(InvalidInputError, match="channels last"):
        make().fit(images(8, 8, 3)(X), Y, X_public=images(8, 8, 3)(X_PUBLIC))


LABELS = {
    "list": lambda y: y.tolist(),
    "series": pd.Series,
    "nullable": lambda y: pd.Series(y).astype("Int64"),
    "polars": pl.Series,
    "arrow": pa.array,
    "truth": lambda y: y.astype(bool),
    "polars truth": lambda y: pl.Series(y.astype(bool)),
}
WORDS = {
    "list": list,
    "objects": lambda y: y.astype(object),
    "categories": lambda y: pd.Series(y).astype("category"),
    "polars": pl.Series,
    "polars categories": lambda y: pl.Series(y).cast(pl.Categorical),
    "arrow": lambda y: pa.array(y.tolist()),
}
TAKERS = {
    "records": lambda y, classes: pate_by().set_params(classes=classes).fit(X, y, X_public=X_PUBLIC),
    "shards": lambda y, classes: (
        pate_by(estimator=GaussianNB(), n_teachers=5, partition_seed=0)
        .set_params(classes=classes)
        .fit(X, y, X_public=X_PUBLIC)
    ),
    "dp-sgd": lambda y, classes: dpsgd("linear").set_params(classes=classes).fit(X, y),
}


@pytest.mark.few(1)
@pytest.mark.parametrize(("who", "kind"), pairs(TAKERS, LABELS, few=("polars", "polars truth")))
def test_labels_of_any_kind_are_the_same_labels(who, kind, expected):
    plain = expected(f"{who} labels", lambda y: TAKERS[who](y, [0, 1]).predict(X_PUBLIC), Y)
    classes = [False, True] if "truth" in kind else [0, 1]
    found = TAKERS[who](LABELS[kind](Y), classes)
    assert (found.predict(X_PUBLIC) == plain).all()
    assert found.classes_.tolist() == classes


@pytest.mark.few(1)
@pytest.mark.parametrize(("who", "kind"), pairs(TAKERS, WORDS, few=("polars categories",)))
def test_labels_that_are_words(who, kind, expected):
    plain = expected(f"{who} labels", lambda y: TAKERS[who](y, [0, 1]).predict(X_PUBLIC), Y)
    found = TAKERS[who](WORDS[kind](np.array(["no", "yes"])[Y]), ["no", "yes"]).predict(X_PUBLIC)
    assert (found == np.array(["no", "yes"])[plain]).all()


@pytest.mark.few(1)
@pytest.mark.parametrize(("who", "hold"), pairs(TAKERS, [list, pd.Series, pl.Series, pa.array], few=[pl.Series]))
def test_owners_of_any_kind(who, hold, expected):
    people = np.array([f"p{i // 2}" for i in range(N)])
    made = {
        "records": lambda g: pate_by().fit(X, Y, X_public=X_PUBLIC, groups=g),
        "shards": lambda g: pate_by(estimator=GaussianNB(), n_teachers=5, partition_seed=0).fit(
            X, Y, X_public=X_PUBLIC, groups=g
        ),
        "dp-sgd": lambda g: dpsgd("linear").fit(X, Y, groups=g),
    }[who]
    plain = expected(f"{who} owners", lambda g: made(g).predict_proba(X_PUBLIC), people)
    np.testing.assert_array_equal(made(hold(people.tolist())).predict_proba(X_PUBLIC), plain)


@pytest.mark.few(1)
@pytest.mark.parametrize("who", ["records", "shards", "dp-sgd planned"])
def test_columns_are_known_by_name(who):
    clf = {
        "records": pate_by,
        "shards": lambda: pate_by(estimator=GaussianNB(), n_teachers=5),
        "dp-sgd planned": lambda: dpsgd(None),
    }[who]()
    private, public = TABLES["polars"](X), TABLES["arrow"](X_PUBLIC)
    clf.fit(private, Y, X_public=public)
    assert clf.feature_names_in_.tolist() == NAMES
    assert clf.n_features_in_ == 3
    swapped = TABLES["polars"](X_PUBLIC).select(["b", "a", "c"])
    assert clf.predict(swapped).tolist() == clf.predict(public).tolist()
    with pytest.raises(InvalidInputError, match="other columns than"):
        clf.predict(TABLES["polars"](X_PUBLIC).rename({"a": "z"}))


def test_ensembles_and_voters_take_columns_in_any_order():
    teachers = TeacherEnsemble(GaussianNB(), 5, **ENSEMBLE).fit(TABLES["polars"](X), Y)
    swapped = TABLES["polars"](X_PUBLIC).select(["b", "c", "a"])
    assert (teachers.vote(swapped).counts == teachers.vote(TABLES["arrow"](X_PUBLIC)).counts).all()
    rep = TableMap().fit(TABLES["arrow"](X_PUBLIC))
    np.testing.assert_array_equal(rep.transform(swapped), rep.transform(TABLES["pandas"](X_PUBLIC)))


def test_no_private_cell_changes_how_others_are_read():
    """A missing cell makes a column of objects in pandas, and none in a table whose types are declared."""
    whole = pl.DataFrame({"a": [True, False] * 20, "b": range(40)})
    holed = pl.DataFrame({"a": [None, *[False, True] * 19, False], "b": [*range(39), None]})
    read = [TeacherEnsemble(make_pipeline(GaussianNB()), 2, **ENSEMBLE).read_private(t).rows for t in (whole, holed)]
    assert [r.dtypes.tolist() for r in read] == [[np.dtype(float)] * 2] * 2
    assert (read[0].iloc[3:39].to_numpy() == read[1].iloc[3:39].to_numpy()).sum() >= 36


@pytest.mark.parametrize("who", ["records", "teachers", "torch", "dp-sgd", "callables", "record voters"])
@pytest.mark.parametrize(
    ("odd", "words"),
    [
        (lambda rows: pl.DataFrame(rows, schema=NAMES).lazy(), r"Pass X(_public)?\.collect\(\)"),
        (lambda rows: pa.table({"seen": pa.array([0] * len(rows), pa.date32())}), "column 'seen' holds date32"),
        (lambda rows: pl.DataFrame({"many": [[1, 2]] * len(rows)}), "column 'many' holds .*list"),
    ],
)
def test_what_is_no_table_of_numbers_and_texts_is_refused_by_name(who, odd, words):
    with pytest.raises(InvalidInputError, match=words) as caught:
        WHO[who](odd)
    assert "\n" not in str(caught.value)


@pytest.mark.long
def test_set_output_names_the_columns_of_maps_and_breaks_no_classifier():
    from pate import TableEncoder

    for made in (TableMap(), TableEncoder()):
        named = (
            made.set_output(transform="pandas").fit(TABLES["polars"](X_PUBLIC)).transform(TABLES["polars"](X_PUBLIC))
        )
        assert list(named.columns) == made.get_feature_names_out().tolist()
        polar = made.set_output(transform="polars").transform(TABLES["arrow"](X_PUBLIC))
        assert isinstance(polar, pl.DataFrame)
        np.testing.assert_array_equal(polar.to_numpy(), named.to_numpy())
    import sklearn

    for who in ("records", "heads"):
        plain = WHO[who](TABLES["pandas"])
        with sklearn.config_context(transform_output="polars"):
            np.testing.assert_array_equal(WHO[who](TABLES["pandas"]), plain)


def test_a_table_without_names_goes_with_one_that_has_some():
    clf = pate_by().fit(TABLES["polars"](X), Y, X_public=TABLES["polars"](X_PUBLIC))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*valid feature names")
        assert (clf.predict(X_PUBLIC) == clf.predict(TABLES["arrow"](X_PUBLIC))).all()
