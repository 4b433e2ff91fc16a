"""DPSGDRegressor: a loss of numbers on the classifier's engine, at the classifier's price."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from pate import Budget, DPSGDClassifier, DPSGDRegressor, Ledger
from pate.dpsgd import SampledGaussian
from pate.dpsgd._checks import try_module
from pate.dpsgd._run import build_engine
from pate.dpsgd.engines import PerRecordEngine
from pate.dpsgd.engines._engine import check_promise, loss_gradient, record_loss
from pate.estimators import registration_of_numbers
from pate.exceptions import CuratorWarning, InvalidInputError, LedgerError
from pate.networks import Linear

BUDGET = Budget(3.0, 1e-4)
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(1_500, 3)).astype(np.float32)
Y = 40 + 20 * X[:, 0] + RNG.normal(size=len(X))
ENGINES = [lambda: build_engine("linear", 3, 1), lambda: PerRecordEngine(nn.Linear(3, 1))]


def made(**more):
    return DPSGDRegressor(**{"budget": BUDGET, "target_range": (0, 100), "noise_seed": 1, "random_state": 1} | more)


def test_the_gradient_of_the_loss_is_that_of_autograd():
    outputs, numbers = torch.randn(7, 1, dtype=torch.float64, requires_grad=True), torch.randn(7, dtype=torch.float64)
    record_loss(outputs, numbers).sum().backward()
    torch.testing.assert_close(loss_gradient(outputs.detach(), numbers), outputs.grad)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_sums_clipped_gradients_of_the_squared_error(engine):
    engine = engine()
    rows, numbers = torch.from_numpy(X[:9]), torch.linspace(-1, 1, 9)
    found = engine.clipped_sum(rows, numbers, 0.3, seed=0)
    wanted = [torch.zeros_like(p, dtype=torch.float64) for p in engine.module.parameters()]
    for row, number in zip(rows, numbers, strict=True):
        loss = (engine.module(row[None])[0, 0] - number).square() / 2
        each = [g.double() for g in torch.autograd.grad(loss, list(engine.module.parameters()))]
        norm = torch.cat([g.flatten() for g in each]).norm()
        for whole, g in zip(wanted, each, strict=True):
            whole += g * min(1.0, 0.3 / max(float(norm), 1e-9))
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_replaced_record_moves_the_sum_by_twice_the_norm_at_most(engine):
    engine = engine()
    rows, numbers = torch.from_numpy(X[:9]), torch.linspace(-1, 1, 9)
    whole = torch.cat([g.flatten() for g in engine.clipped_sum(rows, numbers, 0.1, seed=0)])
    for number in (-1e30, 1.0, 1e30, torch.inf, torch.nan):
        others, targets = rows.clone(), numbers.clone()
        others[4], targets[4] = -1e3, number
        moved = torch.cat([g.flatten() for g in engine.clipped_sum(others, targets, 0.1, seed=0)]) - whole
        assert float(moved.norm()) <= 0.2 * (1 + 1e-3)


def test_the_promise_is_tried_on_numbers():
    class Generous(PerRecordEngine):
        def clipped_sum(self, X, y, clip, **options):
            return [9 * part for part in super().clipped_sum(X, y, clip, **options)]

    linear = nn.Linear(4, 1)
    trial = try_module(linear, (4,), 1)
    check_promise(PerRecordEngine(linear), trial)
    with pytest.raises(InvalidInputError, match="clipping norm"):
        check_promise(Generous(linear), trial)


@pytest.mark.parametrize("groups", [None, np.arange(len(X)) // 3])
def test_the_price_is_the_classifiers(groups):
    settings = {"budget": BUDGET, "epochs": 3, "expected_batch_size": 100, "max_grad_norm": 0.5, "noise_seed": 1}
    reg = DPSGDRegressor("linear", target_range=(0, 100), measure=False, **settings).fit(X, Y, groups=groups)
    clf = DPSGDClassifier("linear", classes=[0, 1], measure=False, **settings).fit(X, Y > 40, groups=groups)
    assert reg.noise_multiplier_ == clf.noise_multiplier_
    assert reg.guarantee_ == clf.guarantee_
    assert reg.statement_.mechanism == clf.statement_.mechanism
    assert reg.statement_.unit == clf.statement_.unit


def test_it_predicts_within_the_range_and_a_seeded_fit_repeats():
    first = made().fit(X[:1200], Y[:1200], schema=(-1, 1))
    again = made().fit(X[:1200], Y[:1200], schema=(-1, 1))
    found = first.predict(X[1200:])
    assert np.array_equal(found, again.predict(X[1200:]))
    assert first.score(X[1200:], Y[1200:]) > 0.5
    tight = made(target_range=(39, 41)).fit(X[:1200], Y[:1200], schema=(-1, 1)).predict(X)
    assert tight.min() >= 39
    assert tight.max() <= 41


def test_public_rows_make_the_map():
    reg = made().fit(X[:1000], Y[:1000], X_public=X[1000:1200])
    assert reg.recipe_.name == "tabular-kernel"
    assert reg.score(X[1200:], Y[1200:]) > 0.3


@pytest.mark.parametrize(
    ("bounds", "message"),
    [((100, 0), "lower number first"), (None, "target_range"), ((0, np.nan), "target_range"), ("ab", "target_range")],
)
def test_a_range_that_is_none_is_refused_in_one_line(bounds, message):
    with pytest.raises(InvalidInputError, match=message) as caught:
        made(target_range=bounds).fit(X, Y, schema=(-1, 1))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("y", [np.array(["many"] * len(X)), np.zeros((len(X), 2)), np.zeros(len(X) - 1), None])
def test_a_target_that_holds_no_numbers_is_refused(y):
    with pytest.raises(InvalidInputError) as caught:
        made().fit(X, y, schema=(-1, 1))
    assert "\n" not in str(caught.value)


def test_a_record_without_a_number_contributes_nothing_and_refuses_nothing():
    y = Y.copy()
    y[5] = np.nan
    with pytest.warns(CuratorWarning, match="1 with no number"):
        found = made().fit(X, y, schema=(-1, 1)).predict(X[:50])
    odd = X.copy()
    odd[5] = 1.0
    with pytest.warns(CuratorWarning):
        again = made().fit(odd, y, schema=(-1, 1)).predict(X[:50])
    assert np.array_equal(found, again)


def test_the_number_of_records_stays_hidden_under_add_or_remove():
    settings = SampledGaussian(adjacency="add-or-remove", nominal_n=1500)
    with pytest.raises(InvalidInputError, match="not shown") as caught:
        made(mechanism=settings).fit(X, Y[:-1], schema=(-1, 1))
    assert "1499" not in str(caught.value)


def test_the_statement_says_the_range_and_no_classes():
    statement = made(noise_seed=None).fit(X, Y, schema=(-1, 1)).statement_
    said = {a.name: a for a in statement.assumptions}
    assert "0 to 100" in said["target range"].claim
    assert said["target range"].by == "curator"
    assert "classes" not in said
    assert "regressor" in statement.released


def test_a_ledger_pays_and_knows_the_records(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", total=Budget(4.0, 1e-4), currency="renyi")
    reg = made(ledger=ledger, noise_seed=None).fit(X, Y, schema=(-1, 1))
    assert reg.statement_.ledger_releases == (1,)
    ledger.check(registration_of_numbers(X, Y, None, n_units=len(X), unit="record"))  # as PATERegressor says of them
    with pytest.raises(LedgerError):
        made(ledger=ledger, noise_seed=None).fit(X[:1000], Y[:1000], schema=(-1, 1))


@parametrize_with_checks(
    [
        DPSGDRegressor(
            "linear",
            budget=Budget(100.0, 1e-4),
            target_range=(-3, 3),
            mechanism=SampledGaussian(noise_multiplier=0.8),
            expected_batch_size=1,
            epochs=4,
            learning_rate=0.004,
            noise_seed=1,
        )
    ],
    expected_failed_checks=lambda estimator: (
        dict.fromkeys(
            ("check_dtype_object", "check_estimators_nan_inf", "check_supervised_y_no_nan"),
            "a private record that cannot be used contributes nothing, and refuses nothing",
        )
        | {"check_regressors_train": "a list declares no width, and private rows may not say one: arrays are asked for"}
    ),
)
@pytest.mark.few(5)
@pytest.mark.filterwarnings("ignore::pate.exceptions.PateWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_a_linear_model_of_rows_of_norm_one_has_hubers_loss():
    """What ``record_loss`` says of clipping."""
    engine = build_engine(Linear, 3, 1, {"bias": False})
    rows = torch.nn.functional.normalize(torch.from_numpy(X[:50]), dim=1)
    numbers = torch.linspace(-1, 1, 50)
    (found,) = engine.clipped_sum(rows, numbers, 0.2, seed=0)
    torch.testing.assert_close(found[0], (-numbers.clamp(-0.2, 0.2)).double() @ rows.double(), rtol=1e-4, atol=1e-4)
