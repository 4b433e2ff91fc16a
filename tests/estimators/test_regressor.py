"""PATERegressor: what it predicts, what it costs, what it says, and what it refuses before anything is spent."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import pate.estimators._regressor
from pate import Budget, BudgetExceededError, GaussianSum, InvalidInputError, Ledger, PATERegressor
from pate.exceptions import CuratorWarning, LedgerError, NotWorthwhileError, ResultWarning
from pate.records import _vectors as vectors
from pate.release import BallotSession

pytestmark = pytest.mark.filterwarnings("ignore::pate.exceptions.CuratorWarning")

RNG = np.random.default_rng(0)
N = 600
X = RNG.normal(size=(1000, 3))
Y = 10 * X[:, 0] + RNG.normal(size=1000)
PUBLIC, TEST, TEST_Y = X[N : N + 100], X[N + 100 :], Y[N + 100 :]
X, Y = X[:N], Y[:N]
BUDGET = Budget(4.0, 1e-5)
WHOLE = GaussianSum.for_budget(BUDGET).noise_multiplier ** -2


def regressor(**options):
    return PATERegressor(**({"budget": BUDGET, "target_range": (-100, 100)} | options))


def fitted(**options):
    return regressor(**options).fit(X, Y, X_public=PUBLIC)


@pytest.fixture(scope="module")
def plain():
    return fitted()


@pytest.fixture(scope="module")
def rich():
    """Of a budget at which 600 records show where a twentieth of the errors ends."""
    return fitted(budget=Budget(10.0, 1e-5))


def test_it_learns_and_says_how_well(plain):
    assert plain.score(TEST, TEST_Y) > 0.6
    assert plain.predict(TEST).shape == (len(TEST),)
    errors, truth = plain.measured_, np.abs(plain.predict(TEST) - TEST_Y).mean()
    assert abs(errors.mae - truth) < 4 * errors.mae_error + 0.5
    assert errors.unit == "record"
    statement = plain.statement_
    assert (statement.unit, statement.n_units, statement.seeded) == ("record", N, False)
    assert 3.99 < statement.guarantee.epsilon <= 4
    assert statement.errors == errors
    by = {a.name: a.by for a in statement.assumptions}
    assert by["own row only"] == "pate"
    assert "McSherry 2009" in statement.accounting
    assert "a secret order of places" in statement.mechanism


def test_public_rows_that_are_private_ones_are_refused_in_words_that_it_takes():
    with pytest.raises(InvalidInputError, match=r"say so: stated=\{'overlap is public': 'yes'\}\. Nothing"):
        regressor().fit(X, Y, X_public=X[:200])


def test_intervals_hold_what_they_say(rich, plain):
    assert np.isnan(plain.predict(TEST, return_interval=True)[1:]).all()
    assert "no interval" in [doubt.kind for doubt in plain.statement_.doubts]
    value, low, high = rich.predict(TEST, return_interval=True)
    assert np.array_equal(value, rich.predict(TEST))
    assert (low <= value).all()
    assert (value <= high).all()
    assert ((low <= TEST_Y) & (high >= TEST_Y)).mean() > 0.8
    release = rich.release_
    assert np.array_equal(release.values, rich.predict(PUBLIC))
    assert release.to_frame().columns.tolist() == ["value", "low", "high"]
    assert release.n_queries == len(PUBLIC)


def test_a_saved_one_predicts_the_very_same(rich, tmp_path):
    path = tmp_path / "price.pate"
    rich.save(path)
    again = PATERegressor.load(path)
    for one, other in zip(
        again.predict(TEST, return_interval=True), rich.predict(TEST, return_interval=True), strict=True
    ):
        assert np.array_equal(one, other)
    assert again.measured_ == rich.measured_
    # Every number in the file is of released sums: the range that was stated or found, never the largest record.
    assert again.target_range[1] not in (Y.max(), Y.min())
    with pytest.raises(InvalidInputError):
        again.predict(TEST[:, :2])


def test_a_clone_is_unfitted():
    other = clone(regressor(noise_seed=3))
    assert other.get_params()["noise_seed"] == 3
    assert not any(name.endswith("_") for name in vars(other))


@pytest.mark.long
def test_persons_are_protected_whole():
    groups = np.arange(N) // 2
    reg = regressor(budget=Budget(8.0, 1e-5)).fit(X, Y, X_public=PUBLIC, groups=groups)
    assert (reg.statement_.unit, reg.statement_.n_units, reg.measured_.unit) == ("group", N // 2, "group")
    assert reg.score(TEST, TEST_Y) > 0.3  # of 300 persons
    assert next(a.by for a in reg.statement_.assumptions if a.name == "own row only") == "pate"


@pytest.mark.long
def test_tables_with_categories_and_missing_cells():
    town = np.where(X[:, 1] > 0, "Oslo", "Rome")
    frame = pd.DataFrame({"size": X[:, 0], "town": town})
    frame.loc[::20, "town"] = None
    public = pd.DataFrame({"size": PUBLIC[:, 0], "town": np.where(PUBLIC[:, 1] > 0, "Oslo", "Rome")})
    reg = regressor().fit(frame, pd.Series(Y), X_public=public)
    assert reg.feature_names_in_.tolist() == ["size", "town"]
    assert reg.score(pd.DataFrame({"size": TEST[:, 0], "town": "Oslo"}), TEST_Y) > 0.5


# scikit-learn's contract


class PublicIsPrivate(PATERegressor):
    """For scikit-learn's checks, which know no public rows: the private ones stand in."""

    def fit(self, X, y=None):
        return super().fit(X, y, X_public=X)


@pytest.mark.long
def test_scikit_learn_checks(monkeypatch):
    monkeypatch.setattr(pate.estimators._public_rows, "FEWEST_PUBLIC", 1)  # the checks have a handful of rows
    estimator = PublicIsPrivate(
        Budget(100.0, 1e-5), target_range=(-1000, 1000), stated={"overlap is public": "yes"}, noise_seed=0,
        random_state=0, force=True,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_fail=None, on_skip=None)
    odd = {r["check_name"]: (r["status"], str(r["exception"])) for r in results if r["status"] != "passed"}
    # A private cell that is no number refuses nothing: it would tell of one record.
    assert set(odd) <= {"check_array_api_input", "check_supervised_y_no_nan"}, odd
    assert {"check_regressors_train", "check_estimators_pickle"} <= {r["check_name"] for r in results}
    assert len(results) >= 45


# The ledger


def test_the_same_fit_again_is_free_and_equal_and_other_numbers_are_refused(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "l.sqlite", total=Budget(9.0, 1e-5))
    first, again = (fitted(ledger=ledger) for _ in range(2))
    assert [row.charge.mu_squared for row in ledger.releases()] == [pytest.approx(WHOLE)]
    assert np.array_equal(first.predict(TEST), again.predict(TEST))
    assert first.measured_ == again.measured_
    monkeypatch.setattr(BallotSession, "ask_vectors", lambda *_: pytest.fail("a round was asked"))
    with pytest.raises(LedgerError):
        regressor(ledger=ledger).fit(X, np.where(np.arange(N) == 0, 50.0, Y), X_public=PUBLIC)
    assert len(ledger.releases()) == 1


def test_a_fit_that_was_killed_between_rounds_goes_on(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "l.sqlite", total=BUDGET)
    real, asked, held = BallotSession.ask_vectors, [], []

    def stopped(self, given):
        held.append(given.facts.cut)
        if len(asked) == 7:
            raise KeyboardInterrupt
        asked.append(real(self, given).statistics)
        return real(self, given)

    monkeypatch.setattr(BallotSession, "ask_vectors", stopped)
    with pytest.raises(KeyboardInterrupt):
        fitted(ledger=ledger)
    found = []

    def kept(self, given):
        held.append(given.facts.cut)
        found.append(real(self, given))
        return found[-1]

    monkeypatch.setattr(BallotSession, "ask_vectors", kept)
    assert fitted(ledger=ledger).score(TEST, TEST_Y) > 0.6
    assert all(np.array_equal(a, b.statistics) for a, b in zip(asked, found, strict=False))
    assert len(ledger.releases()) == 1
    assert len(set(held)) == 1  # the same records were held out


@pytest.mark.long
def test_rows_in_another_order_are_no_end_of_a_fit_that_was_killed(tmp_path, monkeypatch):
    """Places are held out: who trained before the kill would be held out after it, and pay twice for one charge."""
    few = np.sort(np.arange(N) % 3).astype(float)  # sorted by them, whatever the order of rows of equal ones
    order = np.lexsort((X[:, 1], few))

    def fit(order):
        model = regressor(ledger=Ledger(tmp_path / "l.sqlite", total=BUDGET), target_range=(0, 3))
        return model.fit(X[order], few[order], X_public=PUBLIC)

    real = BallotSession.ask_vectors

    def killed(self, given):
        if given.facts.part == "held out":
            raise KeyboardInterrupt
        return real(self, given)

    with monkeypatch.context() as m:
        m.setattr(BallotSession, "ask_vectors", killed)
        with pytest.raises(KeyboardInterrupt):
            fit(np.arange(N))
    with pytest.raises(LedgerError, match="records that trained would be held out"):
        fit(order)
    fit(np.arange(N))
    fit(order)  # all was drawn: it is given again
    assert len(Ledger(tmp_path / "l.sqlite").releases()) == 1


def test_without_the_secret_of_the_cut_nothing_is_resumed(tmp_path):
    """Other records would be held out: some would be in both parts, for one price."""
    ledger = Ledger(tmp_path / "l.sqlite", total=BUDGET)
    fitted(ledger=ledger)
    (tmp_path / "l.sqlite.shards.key").unlink()
    with pytest.raises(BudgetExceededError):
        fitted(ledger=ledger)


# Refused, and nothing is spent


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"budget": None}, "budget must be"),
        ({"target_range": None}, r"target_range must be \(low, high\)"),
        ({"target_range": (100, 0)}, "must have the lower number first"),
        ({"target_range": (5, 5)}, "must have the lower number first"),
        ({"target_range": (0, np.inf)}, "two finite numbers"),
        ({"target_range": (0, 1, 2)}, "two finite numbers"),
        ({"target_range": "0,9"}, "two finite numbers"),
        ({"random_state": -1}, "random_state"),
        ({"stated": {"disjoint shards": "mine"}}, "stated"),
    ],
)
def test_bad_parameters(options, text, no_sums):
    with pytest.raises(InvalidInputError, match=text):
        fitted(**options)


@pytest.fixture
def no_sums(monkeypatch):
    monkeypatch.setattr(vectors.VectorSum, "__post_init__", lambda self: pytest.fail("records were asked"))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"X_public": None}, "X_public must be public rows"),
        ({"X_public": PUBLIC[:19]}, "X_public must have at least 20 rows"),
        ({"X_public": PUBLIC[:, :2]}, "X"),
        ({"y": Y[:-1]}, "as many rows"),
        ({"y": Y.astype(str)}, "y must hold numbers"),
        ({"y": np.stack([Y, Y], axis=1)}, "one number for each record"),
        ({"y": np.full(N, np.datetime64("2020"))}, "y must hold numbers"),
        ({"y": None}, "y"),
        ({"X_public": X[:100]}, "most of the public rows stand among the private records"),
    ],
)
def test_bad_input(given, text, no_sums):
    given = {"X": X, "y": Y, "X_public": PUBLIC} | given
    with pytest.raises(InvalidInputError, match=text):
        regressor().fit(**given)


def test_too_few_records_for_the_budget_unless_forced(no_sums):
    with pytest.raises(NotWorthwhileError, match=r"too few to predict a number better than its mean.*force=True"):
        fitted(budget=Budget(0.1, 1e-5))
    with pytest.raises(pytest.fail.Exception, match="records were asked"):
        fitted(budget=Budget(0.1, 1e-5), force=True)


@pytest.mark.filterwarnings("default::pate.exceptions.CuratorWarning")
def test_odd_cells_of_the_target_are_told_the_curator_alone():
    odd = Y.astype(object)
    odd[0], odd[1], odd[2], odd[3] = None, "n/a", np.inf, 10**400
    with pytest.warns(CuratorWarning, match="596 of 600 records.* vote: 4 without a number"):
        reg = regressor().fit(X, odd, X_public=PUBLIC)
    assert "596" not in reg.statement_.text()
    assert reg.statement_.n_units == N


def test_a_model_that_is_not_told_from_the_mean_says_so():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(700, 2)), rng.normal(size=700)
    reg = PATERegressor(Budget(3.0, 1e-4), target_range=(-5, 5), noise_seed=0)
    with pytest.warns(ResultWarning, match="no better than the mean of all records: its R2"):
        reg.fit(X[:600], y[:600], X_public=X[600:])
    assert [doubt.kind for doubt in reg.statement_.doubts] == ["no better than the mean", "no interval"]
    assert "errors above" in str(reg.measured_)
    sure = PATERegressor(Budget(50.0, 1e-4), target_range=(-5, 5), noise_seed=0)
    assert sure.fit(X[:600], X[:600, 0], X_public=X[600:]).statement_.doubts == ()
