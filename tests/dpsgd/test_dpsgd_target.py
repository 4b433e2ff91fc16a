"""What DPSGDRegressor asks of private numbers beside gradients: its price, its sensitivity, and what it is good for."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from pate import Budget, DPSGDRegressor, Ledger, PATERegressor
from pate.dpsgd import SampledGaussian
from pate.dpsgd import _target as target
from pate.dpsgd._target import MeasuredNumber, TargetScale, TargetSums, shares_of, with_sums
from pate.dpsgd.mechanisms import PoissonSGD, Shape
from pate.exceptions import CuratorWarning, InvalidInputError, NotWorthwhileError, ResultWarning, RunFolderError
from pate.jobs import predict_file
from pate.mechanisms import GaussianSum
from pate.models.file import read_model
from pate.privacy.convert import gdp_from_budget, gdp_to_epsilon
from pate.privacy.noise.source import NoiseSource
from pate.records import N_CELLS, Bins, Zoom, tails

BUDGET = Budget(3.0, 1e-5)
MU = gdp_from_budget(BUDGET.epsilon, BUDGET.delta)
SHARES = shares_of(2_500 * MU)
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(3_000, 3)).astype(np.float32)
Y = 40 + 20 * X[:, 0] + RNG.normal(size=len(X))


def made(**more):
    return DPSGDRegressor(**{"budget": BUDGET, "target_range": (0, 100), "noise_seed": 1, "random_state": 1} | more)


def fitted(**more):
    return made(**more).fit(X[:2500], Y[:2500], schema=(-1, 1))


# The price.


def test_training_histograms_and_sums_cost_the_budget_and_no_more():
    statement = fitted(noise_seed=None).statement_
    reg = fitted()
    steps = 4 * reg.n_steps_ / reg.noise_multiplier_**2  # every record in every step, two clipping norms apart
    whole = steps + math.fsum(share * MU**2 for share in SHARES)
    assert gdp_to_epsilon(math.sqrt(whole), BUDGET.delta) == pytest.approx(reg.guarantee_.epsilon, rel=1e-6)
    assert 0.999 * BUDGET.epsilon < reg.guarantee_.epsilon <= BUDGET.epsilon
    assert statement.mu == pytest.approx(math.sqrt(whole), rel=1e-6)
    for share in SHARES:
        assert f"{1 / (math.sqrt(share) * MU):.6g}" in statement.mechanism


def test_less_evidence_takes_a_larger_share_and_little_of_the_budget():
    shares = [sum(shares_of(10.0**k)) for k in range(2, 7)]
    assert shares == sorted(shares, reverse=True)
    assert (max(shares), min(shares)) == (pytest.approx(0.305), pytest.approx(0.125))


def test_with_poisson_samples_what_is_asked_beside_training_takes_its_part():
    settings = {"epochs": 3, "expected_batch_size": 100}
    with_asking, without = (made(measure=measure, **settings).fit(X, Y, schema=(-1, 1)) for measure in (True, False))
    assert with_asking.noise_multiplier_ > without.noise_multiplier_
    assert with_asking.guarantee_.epsilon <= BUDGET.epsilon
    assert without.measured_ is None


def test_a_ledger_is_charged_once_for_all(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", total=Budget(4.0, 1e-5), currency="gdp")
    reg = fitted(ledger=ledger, noise_seed=None)
    (row,) = ledger.releases()
    assert row.charge.mu_squared == pytest.approx(reg.statement_.mu**2, rel=1e-6)
    assert "histograms of the target" in row.mechanism


# The sensitivity: what a replaced record moves, of exact sums under one and the same noise.


class Kept:
    """Stands for a checkpoint: keeps what was drawn."""

    arrays = ()

    def __init__(self):
        self.facts, self.drawn = {}, []

    def counts(self, of, draw):
        self.drawn = draw()
        return self.drawn


@pytest.fixture
def asked(monkeypatch):
    """The exact sums of these records, of what is fixed otherwise by released numbers."""
    monkeypatch.setattr(target, "_drawn", lambda paid, found: [float(x) for x in found.sums.ravel()])
    monkeypatch.setattr(TargetScale, "shrunk", lambda self, moments, error, n: self)
    monkeypatch.setattr(target, "tails", lambda counts, sigma, n, tail: (-1.0, 1.0))
    monkeypatch.setattr(target.Zoom, "updated", lambda self, counts, sigma, n: replace(self, counts=np.ones(64)))
    module = torch.nn.Linear(3, 1, bias=False)
    module.weight.data.fill_(0.5)
    scale = TargetScale(0.0, 1000.0, 40.0, 30.0, Bins(np.zeros(1), np.zeros(2), np.zeros(2), 40.0, 100.0, 1.0))

    def ask(values, rows, owners):
        kept, rounds = Kept(), tuple(GaussianSum(3.0) for _ in SHARES)
        monkeypatch.setattr(TargetScale, "found", classmethod(lambda cls, zoom, n, bounds: scale))
        sums = TargetSums(MeasuredNumber(PoissonSGD(), rounds), values, owners, NoiseSource(5), kept)
        sums.scale((0.0, 1000.0))
        sums.errors(scale, module.eval(), rows, np.isfinite(values))
        cuts = np.cumsum([target.N_MOMENTS, N_CELLS])
        found = [*kept.facts["histograms"], *np.split(kept.drawn, cuts)]
        return [np.array(each) for each in found]

    return ask


@pytest.mark.parametrize("owners", [None, np.arange(400) // 4])
def test_a_replaced_unit_moves_every_sum_by_no_more_than_it_is_priced_at(owners, asked):
    before = asked(Y[:400], X[:400], owners)
    scale, reached = 1 if owners is None else 2**16, np.zeros(7)
    of = slice(8, 9) if owners is None else slice(8, 12)
    for number in (0.0, 1000.0, -1e9, 47.0, np.nan):
        values, rows = Y[:400].copy(), X[:400].copy()
        values[of], rows[of] = number, 1.0
        after = asked(values, rows, owners)
        count, vector = math.sqrt(2) * scale, 2 * 2**16  # vectors of one length
        most = np.array([*[count] * 4, vector, count, vector])
        moved = np.array([np.linalg.norm(a - b) for a, b in zip(before, after, strict=True)])
        assert (moved <= most * (1 + 1e-9)).all()
        reached = np.maximum(reached, moved / most)
    assert (reached[[0, 1, 2, 3, 5]] > (0.999 if owners is None else 0.7)).all()  # a person of several cells moves less
    assert reached[4] > 0.4
    assert reached[6] > 0.3


def test_what_cannot_be_used_contributes_nothing(asked):
    values, rows = Y[:400].copy(), X[:400].copy()
    values[8] = np.nan
    other = rows.copy()
    other[8] = 9.0
    for a, b in zip(asked(values, rows, None), asked(values, other, None), strict=True):
        assert np.array_equal(a, b)


# When it is asked.


@pytest.mark.parametrize(
    ("settings", "n", "wanted"),
    [
        ({}, 3_000, True),
        ({}, math.ceil(200 / MU), True),
        ({"measure": False}, 3_000, False),
        ({"measure": True, "force": True}, 30, True),
        ({"mechanism": SampledGaussian(noise_multiplier=9.0)}, 3_000, False),
        ({"mechanism": SampledGaussian(adjacency="zero-out")}, 3_000, False),
        ({"target_range": (1e75, 2e75)}, 3_000, False),
        ({"target_range": (1.0, 1.0 + 1e-9)}, 3_000, False),
    ],
)
def test_public_numbers_decide_whether_it_is_asked(settings, n, wanted):
    from pate.dpsgd import flat

    found = with_sums(flat(made(**settings)), PoissonSGD(), Shape(n, 1.0, 40, n))
    assert isinstance(found, MeasuredNumber) == wanted


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"measure": "by class"}, "measure must be True, False or None"),
        ({"measure": True, "mechanism": SampledGaussian(adjacency="zero-out")}, "measure must be None or False"),
        ({"measure": True, "target_range": (1.0, 1.0 + 1e-9)}, "measure must be None or False"),
    ],
)
def test_what_cannot_be_asked_is_refused(settings, message):
    with pytest.raises(InvalidInputError, match=message):
        fitted(**settings)


def test_too_few_records_are_refused_before_anything_is_charged(tmp_path):
    ledger, n = Ledger(tmp_path / "l.sqlite", total=Budget(4.0, 1e-5)), math.floor(200 / MU)
    few = made(ledger=ledger, noise_seed=None)
    for groups, units in ((None, n), (np.arange(n) // 2, -(-n // 2))):
        with pytest.raises(NotWorthwhileError, match=rf"^{units} records .* Nothing was spent"):
            few.fit(X[:n], Y[:n], groups=groups, schema=(-1, 1))
    assert ledger.releases() == []


def test_by_force_few_records_give_no_interval_and_no_r2_and_the_statement_says_so():
    n = math.floor(100 / MU)
    with pytest.warns() as seen:
        reg = made(target_range=(0, 1_000), force=True).fit(X[:n], Y[:n], schema=(-1, 1))
    value, low, high = reg.predict(X[:9], return_interval=True)
    assert np.isfinite(value).all()
    assert np.isnan([low, high]).all()
    assert any("R2 is not known" in str(one.message) for one in seen)
    assert "no interval" in {doubt.kind for doubt in reg.statement_.doubts}
    assert "R2 not known" in str(reg.measured_)


# Towards the mean.


def scale_of(variance=100.0):
    return TargetScale(0.0, 100.0, 40.0, 30.0, Bins(np.zeros(1), np.zeros(2), np.zeros(2), 40.0, variance, 0.0))


def test_without_noise_the_model_is_stretched_by_least_squares():
    u = RNG.normal(size=4_000)
    t = 0.2 + 0.7 * u + 0.1 * RNG.normal(size=4_000)
    found = scale_of().shrunk(np.array([t.mean(), u.mean(), (t * u).mean(), (u * u).mean()]), 0.0, 10**9)
    slope, intercept = np.polyfit(u, t, 1)
    assert found.slope == pytest.approx(30 * slope, rel=1e-6)
    assert found.intercept == pytest.approx(40 + 10 * intercept, rel=1e-6)


def test_what_noise_may_have_made_is_the_mean():
    for both in (-0.5, 0.0, 0.09):
        found = scale_of().shrunk(np.array([0.3, 0.0, both, 0.5]), 0.1, 10**9)
        assert (found.slope, found.intercept) == (0.0, 43.0)
    assert 0 < scale_of().shrunk(np.array([0.0, 0.0, 0.2, 0.5]), 0.1, 10**9).slope < 30 * 0.4


def test_a_model_of_noise_becomes_the_mean():
    """On average; R2 was down to -9 with so wide a range."""
    found: list[float] = []
    n, y = math.ceil(250 / MU), RNG.permutation(Y)
    for seed in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResultWarning)
            reg = made(target_range=(0, 400), noise_seed=seed).fit(X[:n], y[:n], schema=(-1, 1))
        found.append(reg.score(X[n:], y[n:]))
    assert np.mean(found) > -0.1


# What it is good for.


def test_with_few_records_a_wide_range_is_looked_through_too():
    """By default; n mu is 550 here, and R2 was far below 0 while histograms began at 1,000."""
    n = math.ceil(550 / MU)
    for seed in (1, 2, 3):
        reg = made(target_range=(-2_000, 3_000), noise_seed=seed).fit(X[:n], Y[:n], schema=(-1, 1))
        assert reg.score(X[2500:], Y[2500:]) > 0.6


@pytest.mark.parametrize("wide", [1, 10, 100])
def test_a_range_that_is_too_wide_costs_little(wide):
    reg = fitted(target_range=(0, 100 * wide))
    assert reg.score(X[2500:], Y[2500:]) > 0.9
    value, low, high = reg.predict(X[2500:], return_interval=True)
    inside = ((low <= Y[2500:]) & (Y[2500:] <= high)).mean()
    assert 0.8 < inside <= 1.0
    assert reg.measured_.r2 == pytest.approx(reg.score(X[2500:], Y[2500:]), abs=0.1)
    assert not reg.measured_.held_out
    assert "that it learnt from" in reg.statement_.text()
    assert np.array_equal(value, reg.predict(X[2500:]))


def test_without_the_search_it_ruins_the_model():
    assert fitted(target_range=(0, 10_000), measure=False).score(X[2500:], Y[2500:]) < 0


def test_a_model_of_noise_is_doubted():
    with pytest.warns(ResultWarning, match="no better than the mean"):
        reg = made(measure=True).fit(X, RNG.permutation(Y), schema=(-1, 1))
    assert reg.statement_.doubts[0].kind == "no better than the mean"


def test_persons_are_asked_as_one(tmp_path):
    reg = made().fit(X, Y, groups=np.arange(len(X)) // 2, schema=(-1, 1))
    assert reg.measured_.unit == "group"
    assert reg.measured_.n == len(X) // 2


def test_the_scale_of_a_stated_range_is_what_it_was():
    scale = TargetScale.stated((0.0, 120.0))
    assert scale.numbers(np.array([-9.0, -1.0, 0.0, 0.5, 9.0])).tolist() == [0.0, 0.0, 60.0, 90.0, 120.0]
    assert scale.scaled([-5.0, 60.0, np.nan])[:2].tolist() == [-1.0, 0.0]


# Checkpoints: histograms are drawn once.


def test_a_run_that_is_taken_up_keeps_its_histograms(tmp_path):
    seen = []

    def dies(now):
        seen.append(now.step)
        if len(seen) == 3:
            raise KeyboardInterrupt

    settings = {"noise_seed": None, "checkpoint_dir": tmp_path / "run", "epochs": 2, "expected_batch_size": 500}
    with pytest.raises(KeyboardInterrupt):
        fitted(callbacks=[dies], **settings)
    from pate._core.tensors import load_tensors
    from pate.dpsgd import FILE, FORM

    held = load_tensors(tmp_path / "run" / FILE, form=FORM)[1]["histograms"]
    scale = fitted(**settings)._scale
    kept = Kept()
    kept.facts["histograms"], kept.arrays = held, ("some",)
    rounds = tuple(GaussianSum(1 / (math.sqrt(share) * MU)) for share in SHARES)
    sums = TargetSums(MeasuredNumber(PoissonSGD(), rounds), Y[:2500], None, NoiseSource(), kept)
    told = sums.scale((0.0, 100.0))
    assert (scale.low, scale.high, scale.centre, scale.half) == (told.low, told.high, told.centre, told.half)
    kept.facts.clear()
    kept.facts["step"] = 1  # before the first step they are drawn again, by the run's own key
    with pytest.raises(InvalidInputError, match="histograms of the target are not there"):
        sums.scale((0.0, 100.0))


def test_a_run_is_not_taken_up_with_numbers_that_a_wide_range_makes_alike(tmp_path):
    def dies(now):
        raise KeyboardInterrupt

    wide = {"target_range": (0, 1e9), "checkpoint_dir": tmp_path / "run", "epochs": 2, "expected_batch_size": 500}
    kinds = [Y[:2500], np.minimum(Y[:2500] + 0.25, 60.0)]
    scaled = [TargetScale.stated((0.0, 1e9)).scaled(y) for y in kinds]
    assert (scaled[0] == scaled[1]).mean() > 0.5
    near = np.where(scaled[0] == scaled[1], kinds[1], kinds[0])
    assert not np.array_equal(near, kinds[0])
    with pytest.raises(KeyboardInterrupt):
        made(callbacks=[dies], **wide).fit(X[:2500], kinds[0], schema=(-1, 1))
    with pytest.raises(InvalidInputError, match="holds another run"):
        made(**wide).fit(X[:2500], near, schema=(-1, 1))
    made(**wide).fit(X[:2500], kinds[0], schema=(-1, 1))


# What is stated, and the file.


def test_what_a_person_states_stands_in_the_statement():
    stated = {"tuning": "nothing", "purpose": "planning", "target range": "by law"}
    statement = fitted(stated=stated).statement_
    assert (statement.tuning, statement.purpose) == ("nothing", "planning")
    assert {a.name: a.how for a in statement.assumptions}["target range"].endswith("by law")


def test_what_nobody_can_state_is_refused_before_anything_is_charged(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", total=Budget(4.0, 1e-5))
    for wrong in ({"noise": "mine"}, {"classes": "all"}, {"purpose": " "}):
        with pytest.raises(InvalidInputError, match="stated"):
            fitted(stated=wrong, ledger=ledger, noise_seed=None)
    assert ledger.releases() == []


def test_a_model_file_predicts_the_same(tmp_path):
    reg = fitted()
    reg.save(tmp_path / "m.pate")
    got = PATERegressor.load(tmp_path / "m.pate")
    for a, b in zip(reg.predict(X, return_interval=True), got.predict(X, return_interval=True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    assert got.statement_ == reg.statement_
    assert got.measured_ == reg.measured_
    assert "DP-SGD" in read_model(tmp_path / "m.pate").text()
    with pytest.raises(RunFolderError):
        reg.save(tmp_path / "m.pate")
    got.save(tmp_path / "n.pate")
    assert read_model(tmp_path / "n.pate").parts == read_model(tmp_path / "m.pate").parts


def test_a_file_answers_for_a_table_with_dates_and_texts(tmp_path):
    rows = pd.DataFrame({"a": X[:, 0], "town": np.where(X[:, 1] > 0, "Oslo", "Rome")})
    schema = {"a": (-1, 1), "town": ["Oslo", "Rome"]}
    reg = made().fit(rows, Y, schema=schema)
    reg.save(tmp_path / "m.pate")
    rows[:5].to_csv(tmp_path / "rows.csv", index=False)
    predict_file(tmp_path / "m.pate", tmp_path / "rows.csv", tmp_path / "out.csv")
    found = pd.read_csv(tmp_path / "out.csv")
    np.testing.assert_allclose(found["value"], reg.predict(rows[:5]), rtol=1e-4)
    assert (found["low"] < found["value"]).all()


def test_a_module_of_ones_own_is_in_no_file(tmp_path):
    reg = made(module="linear").fit(X, Y)
    with pytest.raises(InvalidInputError, match="module must be None for a model file"):
        reg.save(tmp_path / "m.pate")


def test_a_file_that_was_altered_is_refused(tmp_path):
    from pate.models import read_mapped_number

    reg = fitted()
    reg.save(tmp_path / "m.pate")
    file = read_model(tmp_path / "m.pate")
    for wrong in ({"scale": [1.0, 0.0, 0.0, 1.0]}, {"scale": [0.0, 1.0]}, {"interval": [1.0]}):
        with file.unpacked() as folder, pytest.raises(InvalidInputError, match="not those that were saved"):
            read_mapped_number(folder, {**file.manifest.parts, **wrong})


def test_a_record_without_a_number_is_warned_of():
    y = Y.copy()
    y[5] = np.nan
    with pytest.warns(CuratorWarning, match="1 with no number"):
        assert made().fit(X, y, schema=(-1, 1)).measured_ is not None


def test_a_spread_that_drowned_in_noise_is_taken_for_its_error():
    """Once in 500 draws the range stays wide; the spread came out 28 where 209 is right, and R2 as -3.9 for .97."""
    counts = np.zeros(64)
    counts[5], counts[63] = 3010.0, -10.0  # far from all records noise took some away
    zoom = Zoom(0.0, 6250.0, counts=counts, precision=1e-2)
    made = TargetScale.found(zoom, 3000, (0.0, 1e5))
    assert made.bins.variance < made.bins.variance_error
    assert made.half == pytest.approx(min(3 * math.sqrt(made.bins.variance_error), 3125.0))
    assert made.unit >= math.sqrt(made.bins.variance_error)


def test_a_tail_in_the_last_cell_has_no_end_that_could_be_stated():
    counts = np.zeros(N_CELLS)
    counts[N_CELLS // 2] = 1000.0
    assert tails(counts, 1.0, 1000, 0.05) is not None
    counts[0] = 100.0
    assert tails(counts, 1.0, 1100, 0.05) is None
