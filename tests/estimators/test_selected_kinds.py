"""Private selection by kind of candidate: DP-SGD, record voters, teachers on shards."""

from __future__ import annotations

import copy
import math

import dp_accounting as dpa
import numpy as np
import pytest
import torch
from dp_accounting import pld
from dpsgd_steps import by_value
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from pate import (
    Budget,
    Charge,
    DPSGDClassifier,
    GNMax,
    Ledger,
    PATEClassifier,
    Queries,
    TeacherEnsemble,
    private_select,
)
from pate.dpsgd.mechanisms import Shape
from pate.dpsgd.mechanisms._ftrl import BandedFTRL
from pate.estimators.selection._statement import worst_of
from pate.exceptions import InvalidInputError, PateError
from pate.privacy import from_dp_event, select_best
from pate.privacy.convert import DEFAULT_ORDERS, gdp_to_delta

BUDGET = Budget(2.0, 1e-4)
X = np.random.default_rng(0).normal(size=(400, 3))
Y = (X[:, 0] > 0).astype(int)


class Keeping(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.last = torch.nn.Linear(3, 2), None

    def forward(self, x):
        self.last = x
        return self.linear(x)


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger.sqlite", total=Budget(4.0, 1e-4), currency="renyi")


@pytest.mark.long
def test_persons_of_dpsgd_are_sampled_by_their_number():
    clf = DPSGDClassifier("linear", budget=BUDGET, epochs=1, expected_batch_size=20)
    found = private_select(
        {"a": clf}, X, Y, budget=BUDGET, classes=[0, 1], groups=np.repeat(np.arange(100), 4), distribution="geometric"
    )
    assert (found.winner.sample_rate_, found.winner.n_steps_) == (20 / 80, 4)
    assert found.statement.unit == "group"


@pytest.mark.long
def test_a_run_that_cost_more_than_its_price_is_never_released(monkeypatch):
    """Whatever made it so: what the fitted model says of itself is compared with what was paid."""
    clf = DPSGDClassifier("linear", budget=BUDGET, epochs=1, expected_batch_size=64)
    real = DPSGDClassifier.fit

    def longer(self, X, y, groups=None):
        return real(self.set_params(epochs=2), X, y)

    monkeypatch.setattr(DPSGDClassifier, "fit", longer)
    with pytest.raises(PateError, match="cost more than its price"):
        private_select({"a": clf}, X, Y, budget=BUDGET, classes=[0, 1], mean_runs=5, distribution="geometric")


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"noise_seed": 3}, "noise_seed"),
        ({"adjacency": "add-or-remove", "nominal_n": 400}, "nominal_n"),
        ({"adjacency": "add-or-remove"}, "replace-one"),
        ({"expected_batch_size": 1000}, "expected_batch_size"),
        ({"epochs": -1}, "epochs"),
        ({"checkpoint_dir": "run"}, "checkpoint_dir"),
        ({"callbacks": [print]}, "callbacks"),
        ({"on_exhausted": "stop"}, "on_exhausted"),
        ({"mechanism": "unknown"}, "mechanism"),
        ({"module": "no-such-module"}, "cannot be fitted"),
    ],
)
def test_a_dpsgd_candidate_that_cannot_run_is_refused_for_nothing(settings, said, ledger):
    module = settings.pop("module", "linear")
    clf = DPSGDClassifier(module, budget=BUDGET, **by_value(**{"expected_batch_size": 64, "epochs": 1, **settings}))
    with pytest.raises(InvalidInputError, match=said):
        private_select({"a": clf}, X, Y, budget=BUDGET, classes=[0, 1], ledger=ledger)
    assert ledger.releases() == []


@pytest.mark.long
def test_no_run_begins_where_another_one_ended_and_none_keeps_its_rows():
    """A function may hand out its modules again, and a module keep what it was asked: no run does, nor the winner."""
    pool = [Keeping(), Keeping()]
    before = [copy.deepcopy(module.state_dict()) for module in pool]
    made: list[int] = []

    def module(n_features, n_classes):
        made.append(1)
        return pool[len(made) % 2]

    clf = DPSGDClassifier(module, budget=BUDGET, epochs=1, expected_batch_size=64)
    found = private_select({"a": clf}, X, Y, budget=BUDGET, classes=[0, 1], mean_runs=5, distribution="geometric")
    assert all(torch.equal(own.state_dict()[k], old[k]) for own, old in zip(pool, before, strict=True) for k in old)
    assert found.winner.module_.last is None
    assert not torch.equal(found.winner.module_.linear.weight, pool[0].linear.weight)


@pytest.mark.parametrize(
    "clf",
    [
        PATEClassifier(n_teachers=9, checkpoint_dir="kept"),
        PATEClassifier(TeacherEnsemble(LogisticRegression(), 9, checkpoint_dir="kept")),
    ],
)
def test_no_run_may_leave_its_teachers_to_the_next(clf):
    with pytest.raises(InvalidInputError, match="checkpoint_dir"):
        private_select({"a": clf}, X, Y, X_public=X[:50] + 1, budget=BUDGET, classes=[0, 1])


def test_private_rows_that_no_run_could_take_are_refused_for_nothing(ledger):
    """A run on them would only lose, in silence, and be paid for."""
    records = {"a": PATEClassifier()}
    with pytest.raises(InvalidInputError, match="columns of X"):
        private_select(records, X, Y, X_public=X[:, :2], budget=BUDGET, classes=[0, 1], ledger=ledger)
    with pytest.raises(InvalidInputError, match="most of the public rows"):
        private_select(records, X, Y, X_public=X[:80], budget=BUDGET, classes=[0, 1], ledger=ledger)
    assert ledger.releases() == []


@pytest.mark.long
def test_a_second_selection_gets_what_is_left(ledger):
    """Calibrated candidates take more noise where the ledger has less."""
    clf = DPSGDClassifier("linear", budget=BUDGET, epochs=1, expected_batch_size=64)
    ask = lambda: private_select(  # noqa: E731
        {"a": clf}, X, Y, budget=Budget(3.5, 1e-4), classes=[0, 1], ledger=ledger, distribution="geometric"
    )
    first, second = ask(), ask()
    assert second.winner.noise_multiplier_ > first.winner.noise_multiplier_
    assert ledger.used_fraction > 0.999
    assert ledger.verify().ok


DIGITS = load_digits(return_X_y=True)


@pytest.mark.long
def test_dpsgd_settings_on_digits_from_the_ledger_to_the_statement(ledger):
    images, digits = DIGITS[0] / 16, DIGITS[1]
    made = lambda rate, epochs: DPSGDClassifier(  # noqa: E731
        "linear", budget=Budget(99.0, 1e-4), learning_rate=rate, epochs=epochs, random_state=0
    )
    both = {"sane": made(1.0, 4), "tiny steps": made(1e-5, 4)}
    found = private_select(
        both, images, digits, budget=Budget(4.0, 1e-4), classes=range(10), ledger=ledger, mean_runs=5.0
    )
    assert found.name == "sane"
    assert found.winner.score(images, digits) > 0.5
    assert found.winner.module_ is not None
    assert found.winner.budget == Budget(4.0, 1e-4)
    assert found.winner.mechanism == "poisson"
    assert found.winner.ledger is ledger
    assert [r.kind for r in ledger.releases()] == ["selection"]
    assert {"sampling", "clipping", "selection", "held-out units"} <= {a.name for a in found.statement.assumptions}
    # As the statement tells the reader to: the same number again.
    n, b = 1438, 256
    step = dpa.PoissonSampledDpEvent(b / n, dpa.GaussianDpEvent(found.winner.noise_multiplier_))
    one = from_dp_event(dpa.SelfComposedDpEvent(step, 4 * -(-n // b)))
    noise = found.score_noise * (len(digits) - n)
    score = Charge.gaussian(sensitivity=1.0, sigma=noise)
    accountant = pld.PLDAccountant(dpa.NeighboringRelation.REPLACE_ONE, 1e-3)
    accountant.compose(dpa.SelfComposedDpEvent(step, 4 * -(-n // b)))
    assert "PLDAccountant(REPLACE_ONE, 0.001)" in found.statement.verify
    epsilons = [math.log(1 + 1 / (a - 1)) for a in DEFAULT_ORDERS]
    deltas = [accountant.get_delta(e) + 64 * 24 * 2.0**-53 for e in epsilons]
    deltas = [max(d, gdp_to_delta(1 / noise, e)) for d, e in zip(deltas, epsilons, strict=True)]
    again = select_best(worst_of([one, score]), mean_runs=5.0, shape=np.inf, deltas=deltas)
    assert again.guarantee(1e-4).epsilon == pytest.approx(found.guarantee.epsilon, rel=1e-6)
    assert found.guarantee.epsilon > 3.9


@pytest.mark.long
def test_record_voters_beside_dpsgd_on_digits():
    images, digits = DIGITS[0] / 16, DIGITS[1]
    public, private = slice(0, 300), slice(300, 1300)
    both = {
        "records": PATEClassifier(image_shape=(8, 8), random_state=0),
        "DP-SGD": DPSGDClassifier("linear", budget=BUDGET, learning_rate=1e-4, epochs=1),
    }
    found = private_select(
        both,
        images[private],
        digits[private],
        X_public=images[public],
        budget=Budget(8.0, 1e-4),
        classes=range(10),
        mean_runs=2.0,
        distribution="geometric",
        noise_seed=2,
        weights=[3, 1],
    )
    assert found.name == "records"
    assert found.winner.score(images[private], digits[private]) > 0.8
    release = found.winner.release_
    assert release.statement is found.statement
    assert release.charge == found.charge
    assert all(one.statement is found.statement and one.guarantee == found.guarantee for one in release.rounds)
    assert found.winner.statement_ is found.statement
    assert {a.name: a.by for a in found.statement.assumptions}["public rows"] == "nobody"
    assert found.winner.stated is None


@pytest.mark.long
def test_teachers_on_shards_with_a_mechanism_of_their_own():
    both = {
        "few": PATEClassifier(n_teachers=20, mechanism=GNMax(sigma=15.0), queries=5),
        "more": PATEClassifier(n_teachers=20, queries=Queries(20, force=True)),
    }
    found = private_select(
        both, X, Y, X_public=X[:60] + 0.01, budget=Budget(6.0, 1e-4), classes=[0, 1], mean_runs=3.0, noise_seed=1
    )
    release = found.winner.release_
    assert release.quote.charge == found.charge
    assert release.guarantee == found.guarantee
    with pytest.raises(InvalidInputError, match="X_public"):
        private_select(both, X, Y, budget=BUDGET, classes=[0, 1])


@pytest.mark.long
def test_every_mechanism_and_clipping_has_its_own_price():
    made = lambda **given: DPSGDClassifier("linear", budget=BUDGET, epochs=2, expected_batch_size=80, **given)  # noqa: E731
    both = {"sgd": made(clipping="quantile"), "ftrl": made(mechanism=BandedFTRL(n_bands=2))}
    found = private_select(both, X, Y, budget=Budget(6.0, 1e-4), classes=[0, 1], weights=[1, 40], noise_seed=1)
    assert found.name == "ftrl"
    assert "DP-FTRL, 8 steps" in found.statement.mechanism
    assert "quantile" in found.statement.mechanism
    price = BandedFTRL(n_bands=2).charge(found.winner.noise_multiplier_, Shape(320, 0.25, 8, 80))
    assert all(one <= whole for one, whole in zip(price.rdp, found.charge.rdp, strict=True))
