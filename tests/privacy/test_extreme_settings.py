"""Numbers that may be published, at settings where floats overflow: never NaN, never less for more."""

from __future__ import annotations

import ast
import contextlib
import math
import warnings
from pathlib import Path

import numpy as np
import pytest

import pate
from pate import Budget, GNMax
from pate._core.checks import largest_of, least_of
from pate.audit.replays import _compare
from pate.audit.replays._trace import Event
from pate.dpsgd._calibration import dpsgd_epsilon
from pate.dpsgd.mechanisms import PoissonSGD, Shape, TruncatedPoissonSGD
from pate.exceptions import InvalidInputError
from pate.privacy import Charge, Guarantee, calibrate, select_best
from pate.privacy.convert import gdp_from_budget, gdp_to_delta, gdp_to_epsilon
from pate.privacy.exact import GaussianNoise, ThresholdTest, exact_divergences
from pate.privacy.noise.source import NoiseSource
from pate.privacy.public_curve import rho_star, threshold_rho_star, vote_cap_rho_star
from pate.privacy.publish.gate import PTRGate, query_scores
from pate.privacy.publish.smooth_sensitivity import (
    ROUNDING,
    SmoothSensitivity,
    discounted_maximum,
    gnss_rdp,
    query_cap,
    release_smooth,
    smooth_bound,
)
from pate.privacy.publish.tail_bound import TailBound
from pate.privacy.sampled_votes import sampled_votes_epsilon

ROOT = Path(pate.__file__).parent
#: A threshold test with next to no noise: weights of answers are beyond floats from 80 votes on.
STEEP = {"order": 8.0, "beta": 0.0125, "threshold": 90.0, "sigma_threshold": 0.18}
NEIGHBOURS = [[99, 1, 0], [74, 13, 13]], [[99, 1, 0], [75, 13, 12]]


@pytest.fixture(autouse=True)
def _no_number_overflows_unnoticed():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


# ---- what is no number ----


def test_what_is_no_number_is_refused_wherever_it_stands():
    for values in ((math.nan, 1.0), (1.0, math.nan), (0.0, np.float64("nan"), math.inf)):
        for extreme in (largest_of, least_of):
            with pytest.raises(InvalidInputError, match="came out as no number"):
                extreme(*values)
    assert (largest_of(1.0, math.inf, -2.0), least_of(1.0, math.inf, -2.0)) == (math.inf, -2.0)
    with pytest.raises(InvalidInputError, match="came out as no number"):
        discounted_maximum(iter([np.array([0.1]), np.array([math.nan])]), 0.5, 1.0, 2)
    for epsilon, delta in ((math.nan, 1e-5), (1.0, math.nan)):
        with pytest.raises(InvalidInputError, match="came out as no number"):
            Guarantee(epsilon=epsilon, delta=delta, kind="public", method="gdp")


def test_a_sum_of_gradients_that_is_no_number_has_moved_too_far():
    def step(sums):
        return Event("dpsgd", "engine", {"clipping norm": 1.0, "step": 0}, {"sums": np.array(sums)})

    allowed, moved = _compare.Allowed(1, 1, None, "replace-one"), _compare.Moved()
    assert _compare._steps(step([0.0, 0.5]), step([0.0, 1.0]), allowed, moved) == []
    assert _compare._steps(step([0.0, math.nan]), step([0.0, 1.0]), allowed, moved) != []
    assert moved.most == math.inf


#: Where costs are compared. There ``max`` and ``min`` are for whole numbers, whose names or shapes say so.
COSTS = [
    *(f"privacy/{name}" for name in ("publish", "public_curve", "compose")),
    *(f"privacy/{name}.py" for name in ("convert", "cost", "losses", "sampled_votes", "words")),
    *(f"privacy/exact/{name}.py" for name in ("_composition", "_pld", "sampled_gaussian")),
    *(
        "ledger/_rows.py",
        "dpsgd/_calibration.py",
        "dpsgd/mechanisms",
        "estimators/selection/_statement.py",
        "release/statement/plain.py",
    ),
]
_WHOLE = {"len", "int", "round", "ceil", "floor", "isqrt"}


def whole(node: ast.expr) -> bool:
    """Whether a whole number is written there: the other arguments of a max or min are then whole as well."""
    name = getattr(node, "id", getattr(node, "attr", ""))
    match node:
        case ast.Constant(value=int()):
            return node.value != 0  # zero is what costs are compared with
        case ast.Name() | ast.Attribute():
            return name.startswith("n_")
        case ast.Call(func=function):
            called = getattr(function, "id", getattr(function, "attr", ""))
            return called in _WHOLE or (called in ("max", "min") and any(map(whole, node.args)))
        case ast.BinOp(left=left, right=right, op=op):
            return isinstance(op, ast.FloorDiv) or (not isinstance(op, ast.Div) and (whole(left) or whole(right)))
    return False


def compares_costs(source: str) -> list[int]:
    """The lines where a builtin max or min, called or passed on, may be of costs; nanmax and fmax always are."""
    tree = ast.parse(source)
    fine = {id(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call) and any(map(whole, n.args))}
    named = [n for n in ast.walk(tree) if getattr(n, "id", "") in ("max", "min") and id(n) not in fine]
    skipping = ("fmax", "fmin", "nanmax", "nanmin", "nanargmax", "nanargmin")
    return sorted(n.lineno for n in [*named, *(n for n in ast.walk(tree) if getattr(n, "attr", "") in skipping)])


def test_costs_are_compared_by_what_refuses_no_number():
    files = [
        f for name in COSTS for f in ([ROOT / name] if name.endswith(".py") else sorted((ROOT / name).glob("*.py")))
    ]
    assert len(files) > 25
    found = [f"{f.relative_to(ROOT)}:{line}" for f in files for line in compares_costs(f.read_text(encoding="utf-8"))]
    assert found == [], "largest_of and least_of (pate._core.checks) refuse NaN; max and min pass it over"


def test_the_reader_of_comparisons_sees_them():
    assert compares_costs("best = max(best, 2.0)\nmap(min, a, b)\nnp.fmax(a, b)\nmax(0, cost)") == [1, 2, 3, 4]
    assert (
        compares_costs("max(1, k)\nmin(cap, n_queries)\nmax(len(x), y)\nlargest_of(a, b)\nx.max()\nmin(2**i, k)") == []
    )


# ---- a publishable bound ----


@pytest.mark.long
def test_the_smooth_bound_of_a_steep_threshold_saturates():
    """Where nothing is known of a change, it is all that a query may cost: not nothing."""
    most = 2 * query_cap(8.0, 1.0, 0.18)
    for votes in NEIGHBOURS:
        value, sensitivity = smooth_bound(votes, 1.0, **STEEP)
        assert value <= most * (1 + 1e-8)
        assert most <= sensitivity <= most * (1 + 1e-6)
        done = release_smooth(votes, 1.0, noise_scale=4.0, delta=1e-5, noise=NoiseSource(), **STEEP)
        assert done.epsilon > 260, "beyond the public cost of all queries, where it is cut"


def histograms(n: int, m: int) -> list[tuple[int, ...]]:
    return [(n,)] if m == 1 else [(k, *rest) for k in range(n + 1) for rest in histograms(n - k, m - 1)]


def smooth_everywhere(sigma: float, n: int, m: int, how: dict[str, float]) -> bool:
    """Hold value and sensitivity of every histogram against all its neighbours; False where settings are refused."""
    counts, found = histograms(n, m), {}
    for votes in counts:
        try:
            found[votes] = smooth_bound([votes], sigma, **how)
        except InvalidInputError:
            assert votes == counts[0], "what is refused depends on no vote"
            return False
    test = ThresholdTest(how["threshold"], how["sigma_threshold"]) if "threshold" in how else None
    exact = exact_divergences(np.array(counts), [how["order"]], noise=GaussianNoise(sigma), threshold=test).per_query()
    for votes, truth in zip(counts, exact[:, 0], strict=True):
        value, sensitivity = found[votes]
        assert truth <= value * (1 + 1e-8) + 1e-12
        assert value <= query_cap(how["order"], sigma, how.get("sigma_threshold")) * (1 + 1e-8)
        assert 0 < sensitivity < math.inf
        for a in range(m):
            for b in range(m):
                if a != b and votes[a]:
                    other = tuple(v - (i == a) + (i == b) for i, v in enumerate(votes))
                    assert abs(value - found[other][0]) <= min(sensitivity, found[other][1])
                    assert abs(math.log(sensitivity / found[other][1])) <= how["beta"] + 8 * ROUNDING
    return True


def extreme_settings(rng: np.random.Generator) -> tuple[float, int, int, dict[str, float]]:
    """Noise of a hundredth of a vote to hundreds, orders to 500, beta to its limit, thresholds all pass or none."""

    def between(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(math.log(low), math.log(high))))

    n, m, order = int(rng.integers(1, 9)), int(rng.integers(2, 5)), 1 + between(1e-3, 500)
    how = {"order": order, "beta": math.log(order / (order - 1)) / 2 * float(rng.choice([1e-4, 0.01, 0.1, 0.999]))}
    if rng.random() < 0.75:
        how["threshold"] = float(rng.choice([-100, 0, n / 2, n, 3 * n, 1e6]))
        how["sigma_threshold"] = between(0.005, 1e3)
    return between(0.05, 300), n, m, how


@pytest.mark.long
def test_value_and_sensitivity_of_all_neighbours_at_extreme_settings():
    steep = {"order": 8.0, "beta": 0.0125, "threshold": 28.0, "sigma_threshold": 0.18}
    assert smooth_everywhere(1.0, 20, 2, steep)
    assert smooth_everywhere(*extreme_settings(np.random.default_rng(6)))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_value_and_sensitivity_of_all_neighbours_at_many_extreme_settings():
    rng = np.random.default_rng(4)
    assert sum(smooth_everywhere(*extreme_settings(rng)) for _ in range(300)) > 150


# ---- everything else that is published ----


def at_most(less: object, more: object, rel: float = 1e-9, margin: float = 0.0) -> None:
    """Both are numbers, not negative, and the first is no more than the second (but for margins upwards)."""
    low, high = np.asarray(less, dtype=np.float64), np.asarray(more, dtype=np.float64)
    assert (low >= 0).all(), low
    assert (high >= 0).all(), high
    assert (low <= high * (1 + rel) + margin).all(), (low, high)


def fuzz(rng: np.random.Generator, times: int) -> int:
    """More noise and more delta never cost more; more queries, larger orders and more runs never less."""

    def between(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(math.log(low), math.log(high))))

    orders, priced = 1 + np.geomspace(1e-3, 1e6, 25), 0
    for _ in range(times):
        sigma, more, cap = between(1e-12, 1e12), 1 + between(1e-9, 10), int(between(1, 1e6))
        for curve in (rho_star, threshold_rho_star):
            at_most(curve(orders, sigma * more), curve(orders, sigma))
            at_most(curve(orders, sigma)[:-1], curve(orders, sigma)[1:])
        at_most(vote_cap_rho_star(orders, sigma, cap), vote_cap_rho_star(orders, sigma, cap + 1))
        delta, n = between(1e-300, 0.5), int(between(1, 1e15))
        sigma = between(1e-3, 1e90)
        for charge, quieter in (
            (Charge.gaussian_argmax(sigma), Charge.gaussian_argmax(sigma * more)),
            (Charge.threshold_test(sigma), Charge.threshold_test(sigma * more)),
            (Charge.gaussian(sensitivity=1.0, sigma=sigma), Charge.gaussian(sensitivity=1.0, sigma=sigma * more)),
        ):
            at_most(quieter.rdp, charge.rdp)
            at_most(charge.rdp[:-1], charge.rdp[1:])
            at_most(quieter.mu_squared, charge.mu_squared)
            try:
                epsilon = (charge * n).guarantee(delta).epsilon
            except InvalidInputError:
                continue  # nothing finite is known
            priced += 1
            at_most((quieter * n).guarantee(delta).epsilon, epsilon)
            at_most(epsilon, (charge * (n + n // 10 + 1)).guarantee(delta).epsilon)
            at_most((charge * n).guarantee(min(0.9, delta * 3)).epsilon, epsilon)
            for shape in (0.0, 1.0, math.inf):
                runs = [select_best(charge * n, mean_runs=mean, shape=shape).rdp for mean in (8.0, 12.0)]
                at_most(charge.rdp, runs[0])
                at_most(*runs, rel=1e-6)
        mu, epsilon = between(1e-200, 1e150), between(1e-200, 1e6)
        at_most(gdp_to_epsilon(mu, delta), gdp_to_epsilon(mu * more, delta))
        at_most(gdp_to_delta(mu, 1.5 * epsilon), gdp_to_delta(mu, epsilon), rel=1e-7)
        at_most(gdp_to_delta(mu, epsilon * 1e100), 1.0)
        at_most(gdp_from_budget(epsilon, delta), gdp_from_budget(1.5 * epsilon, delta))
        order, scale = 1 + between(1e-6, 1e4), between(1e-3, 1e6)
        limit = math.log(order / (order - 1)) / 2
        for beta in (0.0, 0.01 * limit, 0.9 * limit, limit * (1 - 1e-15), limit):
            with contextlib.suppress(InvalidInputError):  # beyond its limit, or too near for rounding
                at_most(gnss_rdp(0.9 * beta, scale, order), gnss_rdp(beta, scale, order), rel=1e-7)
                how = SmoothSensitivity(order=order, beta=beta, noise_scale=scale, delta0=delta / 2)
                at_most(how.cost.rdp[:-1], how.cost.rdp[1:], rel=1e-6)
                assert how.price > 0
        test = {"threshold": between(1, 1e4), "sigma_threshold": between(1e-3, 1e6)} if rng.random() < 0.5 else {}
        sigma, delta0 = between(1e-3, 1e6), delta * between(1e-6, 0.9)
        made = {"sigma": sigma, "order": order, "tau": between(1e-9, 1e4), "width": between(1e-6, 1e6), **test}
        gate = PTRGate(delta=delta, delta0=delta0, **made)
        at_most(
            gate.guarantee.epsilon,
            PTRGate(delta=delta, delta0=delta0, **made | {"tau": 2 * made["tau"]}).guarantee.epsilon,
        )
        at_most(gate.charge.rdp[:-1], gate.charge.rdp[1:])
    return priced


def test_charges_gates_and_prices_at_extreme_settings():
    assert fuzz(np.random.default_rng(0), 12) > 12


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_charges_gates_and_prices_at_many_extreme_settings():
    assert fuzz(np.random.default_rng(1), 2_000) > 2_000


def fuzz_bounds(rng: np.random.Generator, times: int) -> None:
    """The bound that gates test and what is calibrated: numbers, growing with distance, within the public cost."""
    for _ in range(times):
        sigma, order = float(10 ** rng.uniform(-1.3, 2.5)), float(1 + 10 ** rng.uniform(-2, 2.5))
        test = {"threshold": 4.0, "sigma_threshold": float(10 ** rng.uniform(-2, 3))} if rng.random() < 0.5 else {}
        scores = query_scores([[6, 0, 0], [3, 3, 0], [2, 2, 2]], sigma, **test)
        bound = TailBound(sigma=sigma, order=order, sigma_threshold=test.get("sigma_threshold"))
        cost = bound.cost(scores, np.array([-50.0, -1.0, 0.0, 1.0, 50.0]))
        at_most(cost[:-1], cost[1:])
        at_most(cost, bound.cap)
        budget = Budget(float(10 ** rng.uniform(-6, 5)), float(10 ** rng.uniform(-100, -2)))
        n = int(10 ** rng.uniform(0, 6))
        found = calibrate(GNMax(sigma=1.0), budget, n_queries=n)
        assert budget.allows(found.charge(n))


@pytest.mark.long
def test_bounds_of_gates_and_calibrated_noise_at_extreme_settings():
    fuzz_bounds(np.random.default_rng(3), 2)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_bounds_of_gates_and_calibrated_noise_at_many_extreme_settings():
    fuzz_bounds(np.random.default_rng(5), 200)


def fuzz_sampled(rng: np.random.Generator, times: int, most_steps: float) -> None:
    """Amplified costs: DP-SGD, cut batches, sampled votes. Grids of losses cost up to half a percent."""

    def between(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(math.log(low), math.log(high))))

    for _ in range(times):
        q, sigma = float(rng.choice([1.0, 0.5, between(1e-7, 1.0)])), between(0.005, 1e4)
        steps, delta = int(between(1, most_steps)), between(1e-12, 0.09)
        run = {"delta": delta, "sample_rate": q, "n_steps": steps, "interval": 1e-2}
        run["adjacency"] = str(rng.choice(["replace-one", "add-or-remove"]))
        epsilon = dpsgd_epsilon(sigma, **run)
        at_most(dpsgd_epsilon(1.5 * sigma, **run), epsilon, rel=6e-3, margin=1e-9)
        at_most(epsilon, dpsgd_epsilon(sigma, **run | {"n_steps": 2 * steps}), rel=6e-3, margin=1e-9)
        n = int(between(2, 1e5))
        batch = int(max(1, min(n, q * n)))
        shape = Shape(n, batch / n, steps, batch)
        cut = TruncatedPoissonSGD(batch + 3)
        for mechanism in (PoissonSGD(), cut):
            epsilons = [
                mechanism.epsilon(s, shape, delta=delta, adjacency="replace-one", interval=1e-2)
                for s in (1.5 * sigma, sigma)
            ]
            at_most(*epsilons, rel=6e-3, margin=1e-9)
        votes = {"sample_rate": q, "n_queries": steps, "delta": max(delta, 1e-9)}
        loud = max(sigma, 0.1)
        epsilons = [sampled_votes_epsilon(sigma=s, interval=1e-2, **votes) for s in (1.5 * loud, loud)]
        at_most(*epsilons, rel=6e-3, margin=1e-9)


def test_sampled_costs_at_extreme_settings():
    fuzz_sampled(np.random.default_rng(6), 2, 30)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_sampled_costs_at_many_extreme_settings():
    fuzz_sampled(np.random.default_rng(7), 60, 3e3)
