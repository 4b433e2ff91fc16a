"""DP-SGD and counts of right answers: one price for both, never below that of either, and sound for any sampling."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from dpsgd_steps import by_value

from pate import Budget, DPSGDClassifier, GaussianSum, InvalidInputError, Ledger
from pate.dpsgd import SampledGaussian
from pate.dpsgd._calibration import ADJACENCIES, dpsgd_epsilon
from pate.dpsgd._measured import Measured, ask_module
from pate.dpsgd.mechanisms import PoissonSGD, Shape
from pate.estimators._by_dpsgd import Ask, plan_training
from pate.exceptions import CuratorWarning
from pate.privacy.convert import gdp_to_epsilon
from pate.privacy.losses import needs_tilt, rounding_slack
from pate.release import ReleaseTerms

RNG = np.random.default_rng(0)
Y = RNG.integers(2, size=2_000)
X = RNG.normal(size=(2_000, 3)) + 2 * Y[:, None]
BUDGET = Budget(1.0, 1e-5)


def fitted(*, groups=None, **settings):
    settings = {"budget": BUDGET, "classes": [0, 1], "n_steps": 10, "expected_batch_size": 500} | settings
    return DPSGDClassifier("linear", **by_value(**settings)).fit(X, Y, groups=groups)


@pytest.mark.few(2)
@pytest.mark.parametrize("adjacency", ["replace-one", "add-or-remove", "zero-out"])
@pytest.mark.parametrize("sigma", [1.0, 5.0, 20.0])
def test_a_count_beside_next_to_no_training_costs_what_its_gaussian_costs(adjacency, sigma):
    """Cross-check of dp_accounting's pairs: sensitivity 1 and noise sigma are (1/sigma)-GDP, under any adjacency."""
    found = dpsgd_epsilon(1e6, beside=sigma, delta=1e-5, sample_rate=0.5, n_steps=1, adjacency=adjacency)
    wanted = gdp_to_epsilon(1 / sigma, 1e-5)
    assert wanted <= found < wanted * 1.01 + 1e-3


@pytest.mark.parametrize("adjacency", ["replace-one", "add-or-remove"])
@pytest.mark.parametrize("rate", [1.0, 0.1])
@pytest.mark.parametrize("delta", [1e-5, 1e-12])
def test_both_together_cost_more_than_training_and_no_less_than_the_count(adjacency, rate, delta):
    training = {"delta": delta, "sample_rate": rate, "n_steps": 40, "adjacency": adjacency, "interval": 1e-3}
    alone = dpsgd_epsilon(8.0, **training)
    both = dpsgd_epsilon(8.0, beside=4.0, **training)
    assert both > max(alone, gdp_to_epsilon(1 / 4.0, delta) * (1 - 1e-9))
    assert dpsgd_epsilon(8.0, beside=2.0, **training) > both
    upper = gdp_to_epsilon(math.sqrt((2 if adjacency == "replace-one" else 1) ** 2 * 40 / 64 + 1 / 16), delta)
    if rate == 1:
        assert both == pytest.approx(upper, rel=1e-6)


@pytest.mark.parametrize("adjacency", ["replace-one", "add-or-remove"])
@pytest.mark.parametrize(("sigma", "delta", "n_steps"), [(4.0, 1e-9, 2000), (0.7, 1e-8, 3000)])
def test_where_rounding_counts_a_count_is_composed_of_tilted_losses_too(adjacency, sigma, delta, n_steps):
    """Cross-check: dp_accounting's distributions, composed by hand, at a delta where their rounding is small yet."""
    assert needs_tilt(n_steps + 1, delta)
    relation = ADJACENCIES[adjacency]
    grid = {"value_discretization_interval": 1e-3}
    steps = from_gaussian_mechanism(6.0, sampling_prob=0.05, neighboring_relation=relation, **grid)
    theirs = steps.self_compose(n_steps).compose(from_gaussian_mechanism(sigma, **grid))
    training = {"delta": delta, "sample_rate": 0.05, "n_steps": n_steps, "adjacency": adjacency, "interval": 1e-3}
    ours = dpsgd_epsilon(6.0, beside=sigma, **training)
    # Where rounding is paid for by hand, from above; without it, from below but for what rounding may hide.
    slack = rounding_slack(n_steps + 1)
    assert theirs.get_epsilon_for_delta(delta + slack) * (1 - 1e-5) <= ours
    assert ours <= theirs.get_epsilon_for_delta(delta - slack) * (1 + 1e-5)
    assert ours > gdp_to_epsilon(1 / sigma, delta)


@pytest.mark.parametrize("sigma", [0.7, 3.0, 50.0])
def test_where_rounding_counts_a_count_beside_next_to_no_training_costs_its_gaussian(sigma):
    found = dpsgd_epsilon(1e6, beside=sigma, delta=1e-11, sample_rate=0.5, n_steps=100)
    wanted = gdp_to_epsilon(1 / sigma, 1e-11)
    assert wanted <= found < wanted * 1.001


def test_sampled_training_and_a_count_are_no_less_than_without_pessimism():
    """A lower bound by hand: the composition at sampling rate q dominates the count composed with no step at all."""
    both = Measured(PoissonSGD(), (GaussianSum(6.0),))
    shape = Shape(1_000, 0.2, 30, 200)
    found = both.epsilon(4.0, shape, delta=1e-5, adjacency="replace-one", interval=1e-3)
    assert found < both.charge(4.0, shape).guarantee(1e-5).epsilon * 1.01  # Renyi and mu^2 allow more
    assert both.charge(4.0, shape).mu_squared == pytest.approx(
        PoissonSGD().charge(4.0, shape).mu_squared + 1 / 36, rel=1e-12
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "settings",
    [{"n_steps": 5, "expected_batch_size": 2_000}, {}, {"adjacency": "add-or-remove", "nominal_n": 2_000},
     {"adjacency": "zero-out"}, {"measure": "by class"}],
    ids=["full", "sampled", "add-or-remove", "zero-out", "by class"],
)  # fmt: skip
def test_training_and_measuring_stay_within_the_budget(settings):
    clf = fitted(measure=settings.get("measure", True), **{k: v for k, v in settings.items() if k != "measure"})
    estimate = clf.measured_
    assert clf.guarantee_.epsilon <= 1.0
    assert clf.guarantee_.epsilon > 0.98
    assert abs(estimate.counted - clf.score(X, Y)) < 6 * estimate.sigma / 2_000 * 1.5 + 0.01
    assert clf.statement_.measured == estimate
    assert len(estimate.by_class) == (2 if "measure" in settings else 0)
    assert (estimate.n is None) == (settings.get("adjacency") == "add-or-remove")
    assert clf.noise_multiplier_ > fitted(measure=False, **{k: v for k, v in settings.items() if k != "measure"}
                                          ).noise_multiplier_  # fmt: skip


@pytest.mark.parametrize(("adjacency", "factor"), [("add-or-remove", 2), ("zero-out", 1)])
def test_what_replace_one_would_say_has_the_counts_in_it(adjacency, factor):
    """Golden: in full batches all is Gaussian; one unit for another moves a sum by two norms, such counts by sqrt 2."""
    nominal = {"nominal_n": 2_000} if adjacency == "add-or-remove" else {}
    clf = fitted(measure=True, n_steps=5, expected_batch_size=2_000, adjacency=adjacency, **nominal)
    mu = math.sqrt(4 * 5 / clf.noise_multiplier_**2 + factor / clf.measured_.sigma**2)
    other = float(clf.statement_.accounting.split("that would be ")[1].split(" at delta")[0])
    assert other == pytest.approx(gdp_to_epsilon(mu, 1e-5), rel=2e-3)


def test_persons_count_as_one_each():
    groups = np.arange(2_000) // 2
    clf = fitted(groups=groups, measure=True, expected_batch_size=1_000, n_steps=5)
    right = (clf.predict(X) == Y).reshape(1_000, 2).mean()
    assert (clf.measured_.unit, clf.measured_.n) == ("group", 1_000)
    assert abs(clf.measured_.counted - right) < 6 * clf.measured_.sigma / 1_000


def test_the_ledger_is_charged_for_both_at_once(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", total=BUDGET)
    clf = fitted(measure=True, ledger=ledger, expected_batch_size=2_000, n_steps=5)
    (row,) = ledger.releases()
    training = PoissonSGD().charge(clf.noise_multiplier_, Shape(2_000, 1.0, 5, 2_000)).mu_squared
    assert row.charge.mu_squared == pytest.approx(training + clf.measured_.sigma**-2, rel=1e-9)
    assert row.charge.mu_squared <= BUDGET.mu_squared


@pytest.mark.long
def test_by_default_public_numbers_decide():
    assert fitted().measured_ is not None  # 2,000 records: two points of noise
    assert DPSGDClassifier(
        "linear", budget=BUDGET, classes=[0, 1], mechanism=SampledGaussian(n_steps=5), expected_batch_size=100
    ).fit(
        X[:300], Y[:300]
    ).measured_ is None  # fmt: skip
    assert fitted(noise_multiplier=50.0).measured_ is None
    with pytest.raises(InvalidInputError, match="measure must be"):
        fitted(measure="yes")


def planned(folder, *, decide="likeliest", ledger=None):
    public = np.random.default_rng(5).normal(size=(200, 3)) + np.eye(3)[0]
    terms = ReleaseTerms(budget=BUDGET, ledger=ledger)
    ask = Ask(
        classes=(0, 1), n_units=len(X), unit="record", random_state=0, checkpoint_dir=folder, measure=True,
        decide=decide,
    )  # fmt: skip
    return plan_training(public, terms, ask, row_shape=(3,), like=public)


@pytest.mark.long
def test_a_run_that_is_taken_up_shows_the_same_counts_and_no_others(tmp_path):
    """Other noise on the same counts, or the same noise on those of another model, would not be paid for."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    first = planned(tmp_path / "run", ledger=ledger).run(X, Y)[0].statement
    again = planned(tmp_path / "run", ledger=ledger).run(X, Y)[0].statement
    assert again.measured == first.measured
    assert len(ledger.releases()) == 1
    with pytest.raises(InvalidInputError, match="measured with other decisions"):
        planned(tmp_path / "run", decide="balanced", ledger=ledger).run(X, Y)
    planned(tmp_path / "run", ledger=ledger).run(X, Y)[2].remove()
    assert not list((tmp_path / "run").iterdir())
    other = planned(tmp_path / "run").run(X, Y)[0].statement
    assert other.measured != first.measured  # another run, other noise: paid for by itself


class Odd(torch.nn.Module):
    """Raises, with the number in its words, where a row has one above 90."""

    def __init__(self, n_features, n_classes):
        super().__init__()
        self.linear = torch.nn.Linear(n_features, n_classes)

    def forward(self, x):
        if (x > 90).any():
            raise ValueError(f"secret {x[x > 90]}")
        return self.linear(x)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:module cannot be run on records side by side")
def test_a_record_that_is_not_usable_is_not_asked_and_nothing_that_is_raised_is_shown():
    rows, y = X.astype(np.float32), Y.copy()
    rows[7, 0], y[7] = 97.125, 5  # of no class
    kept = {"budget": BUDGET, "classes": [0, 1], "n_steps": 5, "expected_batch_size": 500, "measure": True}
    with pytest.warns(CuratorWarning):
        clf = DPSGDClassifier(partial(Odd, n_features=3, n_classes=2), **by_value(**kept)).fit(rows, y)
    assert clf.measured_ is not None
    module = Odd(3, 2)
    found = ask_module(module, rows[:20], np.ones(20, bool), size=1024)
    assert np.isnan(found[7]).all(), "one that it raises on has no answer"
    others = np.arange(20) != 7
    with torch.no_grad():
        assert np.allclose(found[others], module(torch.from_numpy(rows[:20][others])).numpy())


@pytest.mark.long
def test_a_record_without_an_owner_is_no_further_person():
    owners = (np.arange(len(X)) // 2).astype(object)
    clf = fitted(groups=owners, measure=True, records_per_group=2)
    owners[5] = None
    with pytest.warns(CuratorWarning):
        other = fitted(groups=owners, measure=True, records_per_group=2)
    assert clf.measured_.n == other.measured_.n == clf.statement_.n_units == 1_000
