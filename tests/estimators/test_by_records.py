"""PATEClassifier with nothing said: every record votes. What is released, what it costs, what one record can change."""

from __future__ import annotations

import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from pate_of import pate_of
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_estimator

import pate.estimators._by_dpsgd
from pate import (
    Budget,
    BudgetExceededError,
    Charge,
    InvalidInputError,
    Ledger,
    PATEClassifier,
    PATEMultilabelClassifier,
    PATERegressor,
    PrivacyLeakWarning,
)
from pate.exceptions import PrivacyParameterWarning
from pate.models.recipes import RecordModel
from pate.records import RecordVoters
from pate.records.ballot_sum import GRID, quantised, quantised_residuals
from pate.release import BallotSession, RecordLabels
from pate.representations import PublicPCA

#: Of records that cannot be used the curator is warned; tests/estimators/test_unusable_records.py looks at that.
pytestmark = pytest.mark.filterwarnings("ignore::pate.exceptions.CuratorWarning")

DIGITS, TRUTH = load_digits(return_X_y=True)
DIGITS = DIGITS / 16
X, Y, PUBLIC, TEST, TEST_Y = DIGITS[:1000], TRUTH[:1000], DIGITS[1000:1300], DIGITS[1300:], TRUTH[1300:]
ONE = Budget(1.0, 1e-5)


def classifier(**options):
    return pate_of(**({"budget": ONE, "classes": range(10), "image_shape": (8, 8)} | options))


def blobs(n, seed, centres=((-3.0, 0.0), (3.0, 0.0), (0.0, 5.0))):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, len(centres), n)
    return np.asarray(centres)[y] + 0.7 * rng.normal(size=(n, 2)), y


SMALL, SMALL_Y = blobs(500, 0)
SMALL_PUBLIC, _ = blobs(80, 1)
SMALL_TEST, SMALL_TEST_Y = blobs(200, 2)


def small(**options):
    return pate_of(**({"budget": ONE, "classes": range(3)} | options))


# Rows of every kind --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(8, 9), (1, 28, 28)])
def test_a_shape_with_another_number_of_pixels_is_refused_however_small(shape):
    with pytest.raises(InvalidInputError, match=r"pixels, the public rows have 64"):
        classifier(image_shape=shape).fit(X, Y, X_public=PUBLIC)


@pytest.mark.parametrize("shape", [64, (8,), (0, 64), "8x8"])
def test_a_shape_that_is_none_is_refused(shape):
    with pytest.raises(InvalidInputError, match=r"image_shape must be \(height, width\)"):
        classifier(image_shape=shape).fit(X, Y, X_public=PUBLIC)


def test_images():
    clf = classifier().fit(X, Y, X_public=PUBLIC)
    release = clf.release_
    assert isinstance(release, RecordLabels)
    assert isinstance(clf.student_, RecordModel)
    assert clf.score(TEST, TEST_Y) > 0.75
    assert clf.queries_.tolist() == list(range(300))
    assert release.labels.shape == (300,)
    assert (release.n_queries, release.n_answered) == (300, 300)
    assert np.array_equal(release.labels, clf.predict(PUBLIC))  # digits: index and value coincide
    p = clf.predict_proba(TEST)
    assert p.shape == (len(TEST), 10)
    assert np.allclose(p.sum(axis=1), 1)
    assert np.array_equal(p.argmax(axis=1), clf.predict(TEST))


def people(n, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "age": rng.normal(50, 10, n),
        "town": pd.Categorical(rng.choice(["Oslo", "Rome", "Kyiv"], n)),
        "job": rng.choice(["cook", "clerk"], n).astype(object),
        "income": rng.normal(size=n),
    })  # fmt: skip
    y = np.where(frame["age"] + 15 * (frame["town"] == "Rome") > 55, "yes", "no")
    frame.loc[rng.random(n) < 0.05, "income"] = np.nan
    frame.loc[rng.random(n) < 0.05, "job"] = None
    return frame, y


@pytest.mark.few(1)
@pytest.mark.filterwarnings("ignore:No record is of the class 'perhaps'")
@pytest.mark.parametrize("classes", [["no", "yes"], ["yes", "perhaps", "no"]])
def test_tables_with_categories_and_missing_cells(classes):
    (private, y), (public, _), (test, truth) = people(1500, 0), people(200, 1), people(300, 2)
    clf = PATEClassifier(budget=ONE, classes=classes).fit(private, y, X_public=public)
    assert clf.score(test, truth) > 0.8
    assert clf.feature_names_in_.tolist() == ["age", "town", "job", "income"]
    assert clf.classes_.tolist() == classes
    assert set(clf.release_.values()) <= set(classes)
    with pytest.raises(ValueError, match="other columns than the rows of fit"):
        clf.predict(test.rename(columns={"age": "years"}))


def test_more_than_enough_budget_for_a_mixed_table():
    """Several rounds with the head that two classes have."""
    (private, y), (public, _), (test, truth) = people(1500, 0), people(200, 1), people(300, 2)
    clf = PATEClassifier(budget=Budget(50.0, 1e-5), classes=["no", "yes"]).fit(private, y, X_public=public)
    assert len(clf.release_.rounds) > 1
    assert clf.score(test, truth) > 0.8


def test_texts():
    rng = np.random.default_rng(0)

    def notes(n):
        y = rng.integers(0, 2, n)
        words = (["great", "thanks", "perfect", "quick"], ["broken", "refund", "late", "missing"])
        return [" ".join(rng.choice(words[label], 3)) for label in y], y

    (private, y), (public, _), (test, truth) = notes(800), notes(100), notes(100)
    clf = PATEClassifier(budget=ONE, classes=[0, 1]).fit(private, y, X_public=public)
    assert clf.score(test, truth) > 0.9
    assert clf.predict_proba(test).shape == (100, 2)
    with pytest.raises(InvalidInputError, match="of one kind"):
        clf.predict(np.zeros((3, 2)))


def test_sparse_rows():
    from scipy import sparse

    clf = small().fit(sparse.csr_array(SMALL), SMALL_Y, X_public=sparse.csr_array(SMALL_PUBLIC))
    assert clf.score(sparse.coo_array(SMALL_TEST), SMALL_TEST_Y) > 0.8


def test_groups_are_protected_whole():
    groups = np.arange(1000) // 4
    clf = classifier().fit(X, Y, X_public=PUBLIC, groups=groups)
    assert (clf.statement_.unit, clf.statement_.n_units) == ("group", 250)
    assert clf.release_.guarantee.epsilon <= 1.0
    assert clf.score(TEST, TEST_Y) > 0.3


def test_a_representation_of_ones_own():
    clf = small(representation=PublicPCA(2)).fit(SMALL, SMALL_Y, X_public=SMALL_PUBLIC)
    assert clf.score(SMALL_TEST, SMALL_TEST_Y) > 0.9
    assert "PublicPCA" in clf.statement_.mechanism
    with pytest.raises(InvalidInputError, match="representation must be a representation"):
        small(representation=LogisticRegression()).fit(SMALL, SMALL_Y, X_public=SMALL_PUBLIC)


# scikit-learn's contract ---------------------------------------------------------------------------------------


class PublicIsPrivate(PATEClassifier):
    """For scikit-learn's checks, which know no public rows: the private ones stand in."""

    def fit(self, X, y=None):
        return super().fit(X, y, X_public=X)


@pytest.mark.long
def test_scikit_learn_checks(monkeypatch):
    monkeypatch.setattr(pate.estimators._by_dpsgd, "FEWEST_PUBLIC", 1)  # the checks have a handful of rows
    estimator = PublicIsPrivate(
        stated={"overlap is public": "yes"}, budget=Budget(100.0, 1e-5), noise_seed=0, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_fail=None, on_skip=None)
    odd = {r["check_name"]: (r["status"], str(r["exception"])) for r in results if r["status"] != "passed"}
    assert set(odd) <= {"check_array_api_input"}, odd
    names = {r["check_name"] for r in results}
    assert {"check_estimators_pickle", "check_classifiers_train", "check_estimator_sparse_array"} <= names
    assert len(results) >= 50


@pytest.mark.long
def test_parameters_go_round_and_a_clone_is_unfitted():
    clf = small(representation=PublicPCA(2), noise_seed=1, random_state=3).fit(SMALL, SMALL_Y, X_public=SMALL_PUBLIC)
    assert clf.get_params()["representation__n_components"] == 2
    other = clone(clf)
    assert not any(name.endswith("_") for name in vars(other))
    assert not hasattr(clf.representation, "n_features_out_")  # cloned, never fitted
    other.fit(SMALL, SMALL_Y, X_public=SMALL_PUBLIC)
    assert np.array_equal(other.predict_proba(SMALL_TEST), clf.predict_proba(SMALL_TEST))


def test_pickle_of_a_fitted_one(tmp_path):
    clf = small(ledger=Ledger(tmp_path / "l.sqlite")).fit(SMALL, SMALL_Y, X_public=SMALL_PUBLIC)
    again = pickle.loads(pickle.dumps(clf))
    assert np.array_equal(again.predict_proba(SMALL_TEST), clf.predict_proba(SMALL_TEST))
    assert again.statement_ == clf.statement_
    assert np.array_equal(again.release_.labels, clf.release_.labels)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"budget": None}, r"budget must be pate.Budget\(epsilon, delta\), got None"),
        ({"voters": "everybody"}, "voters must be one of"),
        ({"voters": "records", "n_teachers": 9}, "voters='records' cannot go with n_teachers"),
        ({"random_state": -1}, "random_state"),
        ({"student": "oracle"}, "student must be one of"),
        ({"stated": {"disjoint shards": "mine"}}, "stated has the unknown entry"),
    ],
)
def test_bad_parameters_are_refused_before_anything_is_cast(options, text, monkeypatch):
    monkeypatch.setattr(RecordVoters, "cast", lambda *_, **__: pytest.fail("ballots were cast"))
    with pytest.raises(InvalidInputError, match=text):
        small(**options).fit(SMALL, SMALL_Y, X_public=SMALL_PUBLIC)


def test_too_few_public_rows_are_refused():
    with pytest.raises(InvalidInputError, match="X_public must have at least 20 rows"):
        small(voters="records").fit(SMALL, SMALL_Y, X_public=SMALL_PUBLIC[:19])


# What is said of it --------------------------------------------------------------------------------------------


def assumption(clf, name):
    return next(a for a in clf.statement_.assumptions if a.name == name)


@pytest.mark.long
def test_the_statement_says_what_is_true():
    clf = small(tuning="nothing").fit(SMALL, SMALL_Y, X_public=SMALL_PUBLIC)
    s = clf.statement_
    assert len(clf.release_.rounds) == 40
    (shape,) = {r.statistics.shape for r in clf.release_.rounds}
    assert s.released == f"40 noisy {shape[0]} x 3 sums of residual ballots clipped to 0.1, in a signed space"
    assert "(40 times)" in s.mechanism
    assert (s.unit, s.n_units, s.seeded, s.tuning) == ("record", 500, False, "nothing")
    assert s.guarantee == clf.release_.guarantee
    assert "no cost that looks at the data is lower for a Gaussian sum" in s.accounting
    assert "fitted on 80 public rows" in s.mechanism
    assert "shard" not in s.text()
    assert "teacher" not in s.text()
    assert assumption(clf, "own row only").by == "pate"
    assert (
        assumption(clf, "public rows").how == "pate looked for private rows among them; what it found is not told here"
    )
    assert (assumption(clf, "classes").by, assumption(clf, "classes").how) == ("curator", "they were named beforehand")
    declared = small(stated={"overlap is public": "yes"}).fit(SMALL, SMALL_Y, X_public=SMALL_PUBLIC)
    assert assumption(declared, "public rows").by == "curator"
    assert small(noise_seed=0).fit(SMALL, SMALL_Y, X_public=SMALL_PUBLIC).statement_.headline.startswith("not private")


def test_classes_left_out_are_a_leak_and_the_statement_says_so():
    with pytest.warns(PrivacyLeakWarning, match="read off the private labels and becomes public"):
        clf = small(classes=None).fit(SMALL, SMALL_Y, X_public=SMALL_PUBLIC)
    assert "the set of classes, which was read off the private labels" in clf.statement_.not_covered
    assert not any(a.name == "classes" for a in clf.statement_.assumptions)


@pytest.mark.few(1)
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 3.0])
@pytest.mark.parametrize("with_groups", [False, True])
def test_the_price_stays_within_the_budget_and_is_in_the_ledger(tmp_path, epsilon, with_groups):
    ledger = Ledger(tmp_path / "l.sqlite")
    groups = np.arange(500) // 2 if with_groups else None
    clf = small(budget=Budget(epsilon, 1e-5), ledger=ledger).fit(SMALL, SMALL_Y, X_public=SMALL_PUBLIC, groups=groups)
    assert clf.release_.guarantee.epsilon <= epsilon
    assert clf.statement_.guarantee.epsilon > 0.999 * epsilon  # and is not wasted
    assert [row.charge for row in ledger.releases()] == [clf.release_.charge]
    # The price again, from the noise that is on what was released: mu^2 = sum of (Delta / sigma)^2.
    deltas = {"soft": 2**0.5, "signed": 2 * (1 - 1 / 3) ** 0.5}
    clips = [r.clip and math.floor(r.clip * GRID) / GRID for r in clf.release_.rounds]  # as cut to the grid
    each = zip(clips, clf.release_.rounds, strict=True)
    mu_squared = sum(((2 * clip if clip else deltas[r.kind]) / r.sigma) ** 2 for clip, r in each)
    if clf.measured_ is not None:
        mu_squared += clf.measured_.sigma**-2  # of a count that one unit moves by one
    assert clf.release_.charge.mu_squared == pytest.approx(mu_squared, rel=1e-9)
    assert Charge.gaussian(sensitivity=1.0, sigma=mu_squared**-0.5).guarantee(1e-5).epsilon <= epsilon * (1 + 1e-5)
    before = ledger.spent
    clf.predict(SMALL_TEST)
    assert ledger.spent == before


# The ledger ----------------------------------------------------------------------------------------------------


def never(*_, **__):
    raise AssertionError("ballots were cast")


@pytest.mark.long
def test_the_same_fit_again_is_free_and_nothing_else_is(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "l.sqlite", total=ONE)
    fits = [small(ledger=ledger).fit(SMALL, SMALL_Y, X_public=SMALL_PUBLIC) for _ in range(3)]
    assert len(ledger.releases()) == 1
    for again in fits[1:]:
        for one, other in zip(fits[0].release_.rounds, again.release_.rounds, strict=True):
            assert np.array_equal(one.statistics, other.statistics)
        assert np.array_equal(again.predict_proba(SMALL_TEST), fits[0].predict_proba(SMALL_TEST))
        assert again.release_.guarantee == fits[0].release_.guarantee
    # another student of the same release is free, too
    small(ledger=ledger, student="knn").fit(SMALL, SMALL_Y, X_public=SMALL_PUBLIC)
    assert len(ledger.releases()) == 1
    # whatever was not paid for finds the budget spent, before a ballot is cast
    monkeypatch.setattr(RecordVoters, "cast", never)
    for options in ({"budget": Budget(0.5, 1e-5)}, {"random_state": 9, "representation": PublicPCA(1)}):
        with pytest.raises(BudgetExceededError, match=r"less left than 1%|no amount of noise"):
            small(ledger=ledger, **options).fit(SMALL, SMALL_Y, X_public=SMALL_PUBLIC)
    assert len(ledger.releases()) == 1


@pytest.mark.long
def test_another_budget_is_charged(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", total=Budget(3.0, 1e-5))
    for epsilon in (1.0, 0.5, 1.0):
        small(ledger=ledger, budget=Budget(epsilon, 1e-5)).fit(SMALL, SMALL_Y, X_public=SMALL_PUBLIC)
    assert len(ledger.releases()) == 2
    assert ledger.spent <= 3.0


def test_a_ledger_of_other_records_is_refused(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", total=Budget(3.0, 1e-5))
    small(ledger=ledger).fit(SMALL, SMALL_Y, X_public=SMALL_PUBLIC)
    with pytest.raises(Exception, match=r"another private data set|other private records|registered"):
        small(ledger=ledger, budget=Budget(0.5, 1e-5)).fit(SMALL, 2 - SMALL_Y, X_public=SMALL_PUBLIC)
    assert len(ledger.releases()) == 1


@pytest.mark.long
@pytest.mark.parametrize("rounds", [0, 1])
def test_a_stopped_fit_goes_on(tmp_path, monkeypatch, rounds):
    """It was charged, and perhaps one round was released: the next fit takes that up and pays nothing."""
    ledger = Ledger(tmp_path / "l.sqlite", total=Budget(8.0, 1e-5))
    options = {"ledger": ledger, "budget": Budget(8.0, 1e-5)}
    real, asked = BallotSession.ask, []

    def stopped(self, ballots):
        if len(asked) == rounds:
            raise KeyboardInterrupt
        asked.append(real(self, ballots))
        return asked[-1]

    monkeypatch.setattr(BallotSession, "ask", stopped)
    first = small(**options)
    with pytest.raises(KeyboardInterrupt):
        first.fit(SMALL, SMALL_Y, X_public=SMALL_PUBLIC)
    assert not hasattr(first, "release_")
    assert len(ledger.releases()) == 1
    monkeypatch.undo()
    second = small(**options).fit(SMALL, SMALL_Y, X_public=SMALL_PUBLIC)
    assert len(second.release_.rounds) > 1
    for before, after in zip(asked, second.release_.rounds, strict=False):
        assert np.array_equal(before.statistics, after.statistics)
    assert len(ledger.releases()) == 1
    assert second.release_.guarantee.epsilon <= 8.0
    third = small(**options).fit(SMALL, SMALL_Y, X_public=SMALL_PUBLIC)
    assert np.array_equal(third.release_.labels, second.release_.labels)


# What one record can change ------------------------------------------------------------------------------------


@pytest.fixture
def cast(monkeypatch):
    """Every sum of ballots that was cast, in order."""
    seen, real = [], RecordVoters._cast

    def spy(self, *given):
        seen.append(real(self, *given))
        return seen[-1]

    monkeypatch.setattr(RecordVoters, "_cast", spy)
    return seen


def firsts(cast):
    """Return the first sums of two fits that cast equally often."""
    return cast[0], cast[len(cast) // 2]


def public_things(clf, plan):
    """Everything that was fixed before a private record was read."""
    return (
        plan.recipe, plan.facts, plan.voters.representation.fingerprint(), plan.voters.fingerprint(), plan.name,
        plan.shares, plan.mechanisms, plan.unit, clf.queries_.tolist(), clf.release_.charge.mu_squared,
    )  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("row", "label"), [([2.5, 0.3], 1), ([1e300, -1e300], 0), ([0.0, 5.0], 1)])
def test_neighbours_have_equal_maps_and_differ_in_one_ballot(cast, row, label):
    other, other_y = SMALL.copy(), SMALL_Y.copy()
    other[7], other_y[7] = row, label
    plans = []
    for rows, y in ((SMALL, SMALL_Y), (other, other_y)):
        clf = small(noise_seed=4)
        plan, votes = clf.fit_keeping(rows, y, X_public=SMALL_PUBLIC)
        assert votes is None
        plans.append((clf, plan))
    (a, plan), (b, twin) = plans
    assert public_things(a, plan) == public_things(b, twin)
    assert np.array_equal(plan.z, twin.z)
    assert np.array_equal(plan.phi, twin.phi)
    assert a.statement_.released == b.statement_.released
    first, second = firsts(cast)

    def ballot(x, y):
        phi = plan.voters.space.transform(plan.voters.representation.transform(np.array([x], dtype=float)))
        nothing_known = np.full((1, 3), 1 / 3)
        r = quantised_residuals(nothing_known, np.array([y]), 0.1)
        return quantised(phi, plan.voters.space.kind).T @ r

    moved = second.sums - first.sums
    assert np.array_equal(moved, ballot(row, label) - ballot(SMALL[7], SMALL_Y[7]))
    assert 0 < int((moved.astype(object) ** 2).sum()) <= first.facts.delta_squared
    # the same noise on both: what is released differs by that ballot, up to the grid
    released = b.release_.rounds[0].statistics - a.release_.rounds[0].statistics
    assert np.abs(released - moved / 2**32).max() < 1e-3


ODD = {
    "missing cell": lambda X, y, g: X.__setitem__((7, 0), np.nan),
    "infinite cell": lambda X, y, g: X.__setitem__((7, 1), np.inf),
    "odd label": lambda X, y, g: y.__setitem__(7, "a secret"),
    "missing label": lambda X, y, g: y.__setitem__(7, None),
    "no owner": lambda X, y, g: g.__setitem__(7, None),
}


@pytest.mark.long
@pytest.mark.parametrize("odd", ODD)
def test_an_odd_record_changes_its_own_ballot_alone(cast, odd):
    """Nothing is raised, and the other records' ballots are what they were."""
    groups = (np.arange(500) // 2).astype(object) if odd == "no owner" else None
    plain = small(noise_seed=4)
    plan, _ = plain.fit_keeping(SMALL, SMALL_Y, X_public=SMALL_PUBLIC, groups=groups)
    rows, y = SMALL.copy(), SMALL_Y.astype(object)
    owners = None if groups is None else groups.copy()
    ODD[odd](rows, y, owners)
    clf = small(noise_seed=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        twin, _ = clf.fit_keeping(rows, y, X_public=SMALL_PUBLIC, groups=owners)
    assert plan.voters.fingerprint() == twin.voters.fingerprint()
    assert (plan.recipe, plan.n_units) == (twin.recipe, twin.n_units)
    first, second = firsts(cast)
    assert 0 < int(((second.sums - first.sums).astype(object) ** 2).sum()) <= first.facts.delta_squared
    assert "secret" not in clf.statement_.text() + repr(clf.release_)


def towns(numbers, town):
    rows = np.empty((len(numbers), 3), dtype=object)
    rows[:, 0], rows[:, 2] = numbers.T
    rows[:, 1] = [town(i) for i in range(len(numbers))]
    return rows


NAMES = [lambda i: "abc"[i % 3], lambda i: i % 3, lambda i: i % 3 == 0, lambda i: None]
KINDS = {"array": np.asarray, "list": lambda rows: rows.tolist(), "frame": pd.DataFrame,
         "typed frame": lambda rows: pd.DataFrame(rows).infer_objects()}  # fmt: skip


@pytest.mark.few(1)
@pytest.mark.parametrize("private", [0, 1, 2, 3], ids=["texts", "numbers", "truths", "none"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_cell_decides_what_a_column_is(cast, kind, private):
    """Not even of a column in which private rows hold another kind than public ones: no error comes or goes."""
    public, rows = KINDS[kind](towns(SMALL_PUBLIC, NAMES[0])), towns(SMALL[:300], NAMES[private])

    def first_sum(rows):
        cast.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            small(noise_seed=4).fit(KINDS[kind](rows), SMALL_Y[:300], X_public=public)
        return firsts(cast)[0]

    first = first_sum(rows)
    for cell in ("a", 1.0, {}, None, b"a"):
        other = rows.copy()
        other[7, 1] = cell
        second = first_sum(other)
        assert int(((second.sums - first.sums).astype(object) ** 2).sum()) <= first.facts.delta_squared


def test_nothing_private_is_reachable(cast):
    clf = classifier().fit(X, Y, X_public=PUBLIC)
    kept = pickle.dumps(clf)
    for secret in (*(c.sums for c in cast), X, X[17]):
        assert np.ascontiguousarray(secret).tobytes() not in kept
    assert (
        np.ascontiguousarray(clf.release_.rounds[0].statistics).tobytes() in kept
    )  # the search does find what is there


# Students ------------------------------------------------------------------------------------------------------


def test_a_named_student_learns_from_the_labels():
    clf = small(student="decision-tree").fit(SMALL, SMALL_Y, X_public=SMALL_PUBLIC)
    assert type(clf.student_).__name__ == "DecisionTreeClassifier"
    assert clf.score(SMALL_TEST, SMALL_TEST_Y) > 0.8
    release = clf.release_
    clf.set_params(student=LogisticRegression()).refit_student(SMALL_PUBLIC)
    assert isinstance(clf.student_, LogisticRegression)
    assert clf.release_ is release
    assert isinstance(clf.set_params(student=None).refit_student(SMALL_PUBLIC).student_, RecordModel)
    with pytest.raises(InvalidInputError, match="must be the rows that fit was given"):
        clf.refit_student(SMALL_PUBLIC + 1)
    p = clf.predict_proba(SMALL_TEST)
    assert np.allclose(p.sum(axis=1), 1)


@pytest.mark.long
def test_what_speaks_of_shards_means_shards():
    for options in ({"n_teachers": 9}, {"estimator": LogisticRegression()}, {"voters": "shards"}):
        clf = small(budget=Budget(1e3, 1e-5), force=True, **options).fit(SMALL, SMALL_Y, X_public=SMALL_PUBLIC)
        assert not isinstance(clf.release_, RecordLabels)
        assert "teacher" in clf.statement_.text()


def test_public_rows_that_all_become_the_same_are_refused_column_by_column():
    X = pd.DataFrame({"code": [f"c{i}" for i in range(200)], "site": "Bonn"})
    y = np.arange(200) % 2
    given = {"budget": Budget(1.0, 1e-5)}
    for model, target in (
        (PATEClassifier(classes=[0, 1], **given), y),
        (PATERegressor(target_range=(0, 1), **given), y),
        (PATEMultilabelClassifier(**given), np.c_[y, 1 - y]),
    ):
        text = r"same numbers, .*: 'code' is left out, as each of its 40 categories is in one row only; 'site' is the"
        with pytest.raises(InvalidInputError, match=text):
            model.fit(X, target, X_public=X.iloc[:40].replace("c", "d", regex=True))


def test_an_epsilon_above_what_the_ledger_has_left_takes_the_rest_and_warns_first(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", total=Budget(0.5, 1e-5))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(450, 3))
    y = (X[:, 0] > 0).astype(int)
    asked = PATEClassifier(budget=Budget(0.8, 1e-5), ledger=ledger, classes=[0, 1])
    text = r"epsilon = 0\.8 was asked for, .* buys this release only epsilon = 0\.5 .*all that is left"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(PrivacyParameterWarning, match=text):
            asked.fit(X[:400], y[:400], X_public=X[400:])
    assert not ledger.releases()  # nothing was spent when it warned
    with pytest.warns(PrivacyParameterWarning, match=text):
        asked.fit(X[:400], y[:400], X_public=X[400:])
    assert 0.499 < asked.statement_.guarantee.epsilon <= 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyParameterWarning)
        asked.fit(X[:400], y[:400], X_public=X[400:])  # paid: the same again, without a word
    assert len(ledger.releases()) == 1
