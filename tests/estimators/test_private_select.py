"""Private selection as it runs: what is charged and when, what gets out, what is refused."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from typing import ClassVar

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from pate import Budget, Charge, Ledger, private_select
from pate.estimators.selection import Candidate
from pate.estimators.selection import _select as runs
from pate.estimators.selection._contestant import PrivateRows
from pate.exceptions import BudgetExceededError, InvalidInputError, LedgerError, NothingSelectedError
from pate.privacy import select_best
from pate.privacy.noise.source import NoiseSource
from pate.release.statement.files import check_against_ledger
from pate.release.statement.model import PrivacyStatement

BUDGET = Budget(2.0, 1e-4)
SOME = Charge.gaussian(sensitivity=1.0, sigma=20.0)
X = np.random.default_rng(0).normal(size=(400, 3))
Y = (X[:, 0] > 0).astype(int)


class Fixed(ClassifierMixin, BaseEstimator):
    """Says right in a given share of rows; remembers nothing. Raises on rows that are not made up, where asked to."""

    fitted: ClassVar[list[str]] = []

    def __init__(self, word="x", right=0.5, fails=False, classes=None):
        self.word, self.right, self.fails, self.classes = word, right, fails, classes

    def fit(self, X, y, groups=None):
        Fixed.fitted.append(self.word)
        if self.fails and len(X) and float(X[0, 0]) == float(X[0, 1]):  # only private rows of one test are like that
            raise ValueError("Ms Smith")
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X):
        said = (X[:, 0] > 0).astype(int)
        wrong = np.abs(1000 * X[:, 1]) % 1 >= self.right  # by that row alone
        return np.where(wrong, 1 - said, said)


def candidates(**rights):
    return {name: Candidate(Fixed(name, right), SOME) for name, right in rights.items()}


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger.sqlite", total=Budget(4.0, 1e-4), currency="renyi")


def test_the_best_of_several_wins_and_everything_says_the_whole_price():
    found = private_select(candidates(a=0.2, b=0.9, c=0.4), X, Y, budget=BUDGET, classes=[0, 1])
    assert found.name == "b"
    assert found.winner.word == "b"
    assert abs(found.score - 0.9) < 6 * found.score_noise + 0.12
    assert found.winner.statement_ is found.statement
    assert found.winner.guarantee_ == found.guarantee
    assert 0.5 < found.guarantee.epsilon <= BUDGET.epsilon
    assert found.statement.guarantee == found.guarantee
    assert found.charge.guarantee(1e-4) == found.guarantee
    assert PrivacyStatement.from_dict(found.statement.to_dict()) == found.statement
    assert found.statement.n_units == 400
    assert not found.statement.seeded
    assert "poisson of mean 10" in found.statement.mechanism
    assert "320 units" in found.statement.mechanism


def test_the_price_is_that_of_the_dearest_candidate_by_the_theorem():
    dear = Charge.gaussian(sensitivity=1.0, sigma=9.0)
    both = {"cheap": Candidate(Fixed(), SOME), "dear": Candidate(Fixed(), lambda n: dear if n == 320 else SOME)}
    found = private_select(
        both, X, Y, budget=BUDGET, classes=[0, 1], distribution="geometric", mean_runs=7.0, score_noise=30.0
    )
    assert found.charge == select_best(dear, mean_runs=7.0, shape=1.0)


def test_the_ledger_is_charged_once_and_before_the_first_fit(ledger):
    class Spy(Fixed):
        def fit(self, X, y, groups=None):
            seen.append((len(ledger.releases()), len(X)))
            return super().fit(X, y)

    seen: list[tuple[int, int]] = []
    found = private_select({"a": Candidate(Spy(), SOME)}, X, Y, budget=BUDGET, classes=[0, 1], ledger=ledger)
    assert seen[0][0] == 0
    assert len(seen) > 2
    assert {charged for charged, _ in seen[1:]} == {1}
    (row,) = ledger.releases()
    assert (row.kind, row.charge, row.n_queries) == ("selection", found.charge, 0)
    assert "candidates: a:" in row.mechanism
    assert row.facts["candidates"] == ["a"]
    assert found.statement.ledger_releases == (1,)
    assert found.statement.ledger_head == ledger.head_of([1])
    assert ledger.verify().ok


def test_a_killed_selection_stays_charged(ledger):
    class Killed(Fixed):
        def fit(self, X, y, groups=None):
            if ledger.releases():
                raise KeyboardInterrupt
            return super().fit(X, y)

    with pytest.raises(KeyboardInterrupt):
        private_select({"a": Candidate(Killed(), SOME)}, X, Y, budget=BUDGET, classes=[0, 1], ledger=ledger)
    assert len(ledger.releases()) == 1


@pytest.mark.parametrize("law", ["poisson", "geometric", "logarithmic"])
def test_a_run_that_fails_loses_and_says_nothing(law):
    private = X.copy()
    private[:, 1] = private[:, 0]
    both = {"bad": Candidate(Fixed("bad", 1.0, fails=True), SOME), "good": Candidate(Fixed("good", 0.6), SOME)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = private_select(
            both, private, Y, budget=BUDGET, classes=[0, 1], distribution=law, mean_runs=60.0, noise_seed=1
        )
    assert found.name == "good"
    assert "Smith" not in found.statement.text()
    with pytest.raises(NothingSelectedError) as caught:
        private_select({"bad": both["bad"]}, private, Y, budget=BUDGET, classes=[0, 1], distribution=law)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "Smith" not in str(caught.value)


@pytest.mark.long
def test_no_run_at_all_looks_like_no_success(ledger):
    """A Poisson number may be 0: nothing is selected, and the price was paid."""
    outcomes = []
    for seed in range(24):
        try:
            private_select(
                candidates(a=0.5), X, Y, budget=BUDGET, classes=[0, 1], mean_runs=1.5, noise_seed=seed, holdout=0.1
            )
            outcomes.append(True)
        except NothingSelectedError:
            outcomes.append(False)
    assert 1 <= outcomes.count(False) <= 14  # exp(-1.5) = .22 of 24


def test_the_number_of_runs_is_nowhere_in_what_gets_out(ledger, monkeypatch, capfd):
    """The price holds while it is unknown: two numbers of runs, one text."""
    texts = []
    for n in (3, 17):
        monkeypatch.setattr("pate.privacy.compose.repetitions.Repetitions.draw", lambda self, source, n=n: n)
        Fixed.fitted.clear()
        found = private_select(candidates(a=0.5), X, Y, budget=BUDGET, classes=[0, 1])
        assert len(Fixed.fitted) == n + 1
        said = found.statement.to_dict()
        for key in ("created", "digest", "commit"):
            said.pop(key)
        texts.append((said, sorted(vars(found)), sorted(vars(found.winner))))
    assert texts[0] == texts[1]
    assert capfd.readouterr() == ("", "")


def test_the_statement_is_dated_by_the_charge_and_not_by_the_end(monkeypatch):
    times = iter([f"2026-01-01T00:00:{i:02d}+00:00" for i in range(60)])
    monkeypatch.setattr("pate.estimators.selection._select.now", lambda: next(times))
    found = private_select(candidates(a=0.5), X, Y, budget=BUDGET, classes=[0, 1])
    assert found.statement.created == "2026-01-01T00:00:01+00:00"


def test_no_row_is_trained_on_and_scored():
    marked = np.hstack([np.arange(400.0)[:, None], X[:, 1:]])
    seen: dict[str, set[float]] = {"fit": set(), "predict": set()}

    class Spy(Fixed):
        def fit(self, X, y, groups=None):
            if set(X[:, 0]) <= set(range(400)):  # not the rehearsal
                seen["fit"] |= set(X[:, 0])
            return super().fit(X, y)

        def predict(self, X):
            if set(X[:, 0]) <= set(range(400)):
                seen["predict"] |= set(X[:, 0])
            return super().predict(X)

    private_select({"a": Candidate(Spy(), SOME)}, marked, Y, budget=BUDGET, classes=[0, 1], holdout=0.25)
    assert (len(seen["fit"]), len(seen["predict"])) == (300, 100)  # all runs on one split
    assert seen["fit"].isdisjoint(seen["predict"])


def test_no_run_sees_what_another_one_wrote_into_its_rows():
    seen: list[tuple[float, float]] = []

    class Writes(Fixed):
        def fit(self, X, y, groups=None):
            seen.append((float(np.abs(X).max()), float(np.mean(y))))
            super().fit(X, y)
            X *= 10
            y[:] = 0
            return self

        def predict(self, X):
            said = super().predict(X)
            X *= -1
            return said

    settings = {"budget": BUDGET, "classes": [0, 1], "distribution": "geometric", "mean_runs": 30.0, "noise_seed": 2}
    found = private_select({"a": Candidate(Writes(right=0.9), SOME)}, X, Y, score_noise=9.0, **settings)
    assert len(seen) > 3
    assert len(set(seen[1:])) == 1  # the first is the rehearsal
    assert 0.5 < found.score < 1.3


def test_the_winner_keeps_nothing_of_the_rows_it_was_scored_on():
    class Keeps(Fixed):
        def predict(self, X):
            self.asked = X
            return super().predict(X)

    found = private_select({"a": Candidate(Keeps(), SOME)}, X, Y, budget=BUDGET, classes=[0, 1])
    assert not hasattr(found.winner, "asked")


def test_a_pipeline_wins_fitted_and_says_its_own_settings():
    clf = make_pipeline(FunctionTransformer(), Fixed(), verbose=True)
    found = private_select({"a": Candidate(clf, SOME)}, X, Y, budget=BUDGET, classes=[0, 1])
    assert found.winner.predict(X[:2]).shape == (2,)
    assert found.winner.verbose is True
    assert not hasattr(clf[-1], "classes_")


@pytest.mark.few(6)
@pytest.mark.parametrize("key", ["ledger", "noise_seed", "checkpoint", "checkpoint_dir", "callbacks", "canaries"])
@pytest.mark.parametrize("inside", [False, True])
def test_nothing_inside_a_candidate_may_count_its_runs(key, inside, ledger):
    """However deep: a ledger there would be charged by the rehearsal, and then once a run."""

    class Own(Fixed):
        def __init__(
            self, ledger=None, noise_seed=None, checkpoint=None, checkpoint_dir=None, callbacks=(), canaries=None
        ):
            super().__init__()
            self.ledger, self.noise_seed, self.checkpoint = ledger, noise_seed, checkpoint
            self.checkpoint_dir, self.callbacks, self.canaries = checkpoint_dir, callbacks, canaries

    values = {"ledger": ledger, "noise_seed": 3, "callbacks": [print]}
    for own, refused in (({}, False), ({key: values.get(key, "kept")}, True)):
        clf = make_pipeline(FunctionTransformer(), Own(**own)) if inside else Own(**own)
        with pytest.raises(InvalidInputError, match=key) if refused else nullcontext():
            private_select({"a": Candidate(clf, SOME)}, X, Y, budget=BUDGET, classes=[0, 1])
    assert ledger.releases() == []


@pytest.mark.long
def test_scores_have_the_noise_that_is_paid_for():
    source = NoiseSource(8)
    drawn = np.array([runs.noisy_share(700 * 1024, 1000, 4.0, source) for _ in range(1500)]) * 1000 - 700
    assert stats.kstest(drawn, stats.norm(0, 4).cdf).pvalue > 1e-3
    assert len(set(drawn)) > 1000
    found = private_select(candidates(a=0.5), X, Y, budget=BUDGET, classes=[0, 1], score_noise=25.0)
    assert found.score_noise == 25.0 / 80


def test_persons_are_split_trained_and_scored_as_one():
    owners = np.repeat(np.arange(100), 4)

    class Seen(Fixed):
        def fit(self, X, y, groups=None):
            if len(X) == 320:
                parts.append(np.bincount(groups, minlength=100))
            return super().fit(X, y)

    parts: list[np.ndarray] = []
    found = private_select(
        {"a": Candidate(Seen(), SOME)}, X, Y, budget=BUDGET, classes=[0, 1], groups=[f"p{i}" for i in owners]
    )
    assert parts
    assert all(set(part.tolist()) == {0, 4} and (part == 4).sum() == 80 for part in parts)
    assert found.statement.unit == "group"
    assert found.statement.n_units == 100


def test_one_person_moves_the_score_by_one_at_most():
    held = lambda y: PrivateRows(X[:9], np.asarray(y), None, np.array([0] * 7 + [1, 2]))  # noqa: E731
    right = runs.units_right(np.zeros(9), held([0] * 9)), runs.units_right(np.zeros(9), held([1] * 7 + [0, 0]))
    assert right == (3 * 1024, 2 * 1024)
    assert runs.units_right(np.zeros(9), held([0, 0, 0, 1, 1, 1, 1, 0, 0])) == 2 * 1024 + 3 * 1024 // 7


def test_seeded_draws_repeat_and_nothing_is_private_then(ledger):
    a, b = (
        private_select(candidates(a=0.5, b=0.52), X, Y, budget=BUDGET, classes=[0, 1], noise_seed=7, ledger=book)
        for book in (None, ledger)
    )
    assert (a.name, a.score) == (b.name, b.score)
    assert a.guarantee.kind == "seeded"
    assert a.statement.seeded
    assert ledger.releases()[0].seeded
    assert a.statement.curve == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"candidates": {}}, "candidates"),
        ({"candidates": {"a": Fixed()}}, "no price is known"),
        ({"candidates": {"": Candidate(Fixed(), SOME)}}, "names"),
        ({"candidates": {"a": Candidate(Fixed(classes=[0, 1, 2]), SOME)}}, "classes of the candidate 'a'"),
        ({"classes": [0]}, "classes"),
        ({"mean_runs": 1.0}, "mean_runs"),
        ({"mean_runs": 1e5}, "mean"),
        ({"distribution": "fixed"}, "distribution"),
        ({"weights": [1, 2]}, "weights"),
        ({"weights": [0.5]}, "weights"),
        ({"holdout": 1.0}, "holdout"),
        ({"holdout": 1e-4}, "holdout"),
        ({"score_noise": 0.0}, "score_noise"),
        ({"stated": {"nonsense": "x"}}, "stated"),
        ({"ledger": "ledger.sqlite"}, "ledger"),
        ({"candidates": {"a": Candidate(Fixed(), Charge.at_order(0.1, order=8.0, delta0=1e-6))}}, "delta0"),
    ],
)
def test_what_is_refused_before_anything_is_charged_or_fitted(change, said):
    settings = {"candidates": candidates(a=0.5), "budget": BUDGET, "classes": [0, 1], **change}
    Fixed.fitted.clear()
    with pytest.raises(InvalidInputError, match=said):
        private_select(settings.pop("candidates"), X, Y, **settings)
    assert Fixed.fitted == []


def test_a_new_ledger_counts_in_what_a_selection_can_pay(tmp_path):
    book = Ledger(tmp_path / "new.sqlite")
    found = private_select(candidates(a=0.5), X, Y, budget=BUDGET, classes=[0, 1], ledger=book)
    assert book.total == BUDGET
    assert book.remaining().currency.startswith("renyi:")
    check_against_ledger(found.statement, book.path)


def test_what_the_budget_or_the_ledger_does_not_buy(ledger, tmp_path):
    dear = {"a": Candidate(Fixed(), Charge.gaussian(sensitivity=1.0, sigma=0.5))}
    with pytest.raises(BudgetExceededError, match=r"'a' among 10 runs.*epsilon"):
        private_select(dear, X, Y, budget=BUDGET, classes=[0, 1], ledger=ledger)
    gdp = Ledger(tmp_path / "gdp.sqlite", total=BUDGET, currency="gdp")
    with pytest.raises(BudgetExceededError, match="currency='renyi'"):
        private_select(candidates(a=0.5), X, Y, budget=BUDGET, classes=[0, 1], ledger=gdp)
    assert ledger.releases() == []
    assert gdp.releases() == []


def test_a_ledger_of_other_records_is_refused(ledger):
    private_select(candidates(a=0.5), X, Y, budget=Budget(0.9, 1e-4), classes=[0, 1], ledger=ledger)
    with pytest.raises(LedgerError):
        private_select(candidates(a=0.5), X, 1 - Y, budget=Budget(0.9, 1e-4), classes=[0, 1], ledger=ledger)
    assert len(ledger.releases()) == 1


class Together(Fixed):
    """Takes the mean off the rows of a large batch, raises on a large number, and keeps what it is asked."""

    def predict(self, X):
        if (X > 1e5).any():
            raise ValueError("Ms Smith")
        self.seen_ = np.array(X)
        return ((X - X.mean(0) if len(X) > 64 else X)[:, 0] > 0).astype(int)


def test_each_held_out_record_is_asked_by_itself():
    rows = X.copy()
    rows[:5], rows[5:10] = 1e4, 1e6  # the one moves a batch's mean, the other raises
    found = private_select({"a": Candidate(Together("a"), SOME)}, rows, Y, budget=BUDGET, classes=[0, 1])
    assert found.score > 0.9 - 6 * found.score_noise
    assert not hasattr(found.winner, "seen_")
    (scores,) = [one for one in found.statement.assumptions if one.name == "scores"]
    assert (scores.by, "asked by itself, of a fresh copy" in scores.how) == ("pate", True)
