"""Games: how many runs it takes to see that noise is too small, and that dropping teachers by their cost leaks.

    python experiments/audit_games.py            # some minutes of one core
    python experiments/audit_games.py --smoke    # does it run?

A power is the share of games, played with fresh noise, in which the claim is refuted at a false alarm rate of 1e-6, at
the last look of `pate.audit.game`, which spends half of that; beside it the textbook's bound on (epsilon, 1e-5) from
the same runs, and the honest mechanism. False alarms are counted at larger rates, at a claim's exact worst case.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld

from pate import Charge, GNMax
from pate._core.provenance import provenance
from pate.audit import Claim, game
from pate.audit._bounds import curve_test, epsilon_bound
from pate.audit._game import MechanismRelease, NoisySum

RESULT = Path(__file__).parents[1] / "experiments" / "results" / "audit_games.json"
#: E1: 250 teachers, a filter by teacher on exact costs at order 8, and so many later queries.
ORDER, BUDGET, LATER, SIGMA = 8.0, 3.170e-3, 20, 40.0


@dataclass(frozen=True)
class Config:
    """What is played, how often."""

    games: int = 40
    mu: float = 3.0
    factors: tuple[float, ...] = (1.0, 0.95, 0.9, 0.8)
    histogram_runs: tuple[int, ...] = (1000, 2000, 3000, 4000)
    tie: tuple[tuple[float, int], ...] = ((1.0, 1), (4.0, 10), (4.0, 30), (40.0, 1000), (40.0, 3000))
    tie_runs: tuple[int, ...] = (5000, 10_000, 20_000)
    filter_runs: tuple[int, ...] = (25, 50)
    honest_games: int = 2000
    honest_runs: tuple[int, ...] = (50, 1000)
    honest_rates: tuple[float, ...] = (0.1, 0.05, 0.01, 0.001)
    false_alarms: float = 1e-6
    seed: int = 31


SMOKE = Config(games=2, factors=(1.0, 0.9), histogram_runs=(200,), tie=((1.0, 1),), tie_runs=(200,), filter_runs=(25,),
               honest_games=20, honest_runs=(50,))  # fmt: skip


def filtered(votes: np.ndarray, seed: int, size: int) -> np.ndarray:
    """Release E1: teachers whose exact cost of the first query exceeds their budget vote no more; 20 queries follow."""
    counts = np.bincount(votes[0], minlength=10)
    spent = {u: cost(tuple(counts), u) for u in np.unique(votes[0])}
    kept = np.array([spent[u] <= BUDGET for u in votes[0]])
    later = np.bincount(votes[1][kept], minlength=10)
    return MechanismRelease(GNMax(SIGMA))(np.tile(later, (LATER, 1)), seed, size)


def cost(counts: tuple[int, ...], u: int) -> float:
    """Return the largest Renyi divergence, over both directions and all changes, of a teacher who votes ``u``."""
    found = []
    for b in set(range(len(counts))) - {u}:
        other = np.array(counts)
        other[u] -= 1
        other[b] += 1
        p, q = (GNMax(SIGMA).log_probs([row])[0] for row in (counts, other))
        found += [np.log(np.exp(ORDER * x + (1 - ORDER) * y).sum()) / (ORDER - 1) for x, y in ((p, q), (q, p))]
    return max(found)


def filter_worlds() -> tuple[np.ndarray, np.ndarray]:
    """Return (first votes, later votes) of 250 teachers: 125 against 125, and 126 against 124 by one teacher's vote."""
    first, later = np.repeat([0, 1], [126, 124]), np.repeat([0, 1], [126, 124])
    tied = first.copy()
    tied[0] = 1
    return np.array([tied, later]), np.array([first, later])


def tie_claim(sigma: float, n_queries: int) -> tuple[Claim, np.ndarray, np.ndarray]:
    """Return the exact curve of n labels at the tie against one vote moved, and both counts."""
    D, D_prime = np.array([[125, 125, *[0] * 8]]), np.array([[124, 126, *[0] * 8]])
    p, q = (dict(enumerate(GNMax(sigma).log_probs(c)[0].tolist())) for c in (D, D_prime))
    one = pld.from_two_probability_mass_functions(p, q, symmetric=False, value_discretization_interval=1e-4)
    return Claim.of(one.self_compose(n_queries)), D, D_prime


def powers(
    play: Callable[[int, np.random.Generator], tuple[np.ndarray, np.ndarray]],
    claim: Claim,
    sizes: tuple[int, ...],
    config: Config,
    path: tuple[int, ...],
) -> Iterator[dict[str, Any]]:
    """Yield, for each number of runs, how often the claim is refuted; honest share of alpha for the last look."""
    for n in sizes:
        rng = np.random.default_rng([config.seed, n, *path])
        begun, refuted, usual = time.perf_counter(), 0, 0
        for _ in range(config.games):
            out, in_ = play(n, rng)
            refuted += curve_test(out, in_, claim).p_value <= config.false_alarms / 2
            bound = epsilon_bound(out, in_, delta=1e-5, level=1 - config.false_alarms, method="clopper-pearson")
            usual += bound > claim.epsilon(1e-5)
        seconds = (time.perf_counter() - begun) / config.games
        yield {
            "runs": n,
            "games": config.games,
            "power": refuted / config.games,
            "power of Clopper-Pearson at delta 1e-5": usual / config.games,
            "seconds per game": round(seconds, 4),
        }


def tables(config: Config) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every row with its table's name."""
    gaussian = Claim.of(
        pld.from_gaussian_mechanism(1 / config.mu, value_discretization_interval=1e-3)  # the claim's own PLD
    )
    for i, factor in enumerate(config.factors):
        release = NoisySum(factor / config.mu)

        def play(n: int, rng: np.random.Generator, release: NoisySum = release) -> tuple[np.ndarray, np.ndarray]:
            outputs = (release(np.full(1, world), int(rng.integers(2**62)), n) for world in (0.0, 1.0))
            out, in_ = (release.log_ratio(o, np.zeros(1), np.ones(1)) for o in outputs)
            return out, in_

        for row in powers(play, gaussian, config.histogram_runs, config, (0, i)):
            yield "histogram", {"mu": config.mu, "sigma x": factor, **row}
    for j, (sigma, n_queries) in enumerate(config.tie):
        claim, D, D_prime = tie_claim(sigma, n_queries)
        ratio = (GNMax(sigma).log_probs(D_prime) - GNMax(sigma).log_probs(D))[0]
        for i, factor in enumerate((1.0, 0.9)):
            laws = [np.exp(GNMax(factor * sigma).log_probs(c)[0]) for c in (D, D_prime)]

            # Drawn by the exact law: thousands of queries in thousands of runs.
            def labels(
                n: int, rng: np.random.Generator, laws: Any = laws, k: int = n_queries, ratio: np.ndarray = ratio
            ) -> tuple[np.ndarray, np.ndarray]:
                out, in_ = (rng.multinomial(k, law / law.sum(), n) @ np.where(law > 0, ratio, 0.0) for law in laws)
                return out, in_

            for row in powers(labels, claim, config.tie_runs, config, (1, j, i)):
                stored = {"sigma": sigma, "queries": n_queries, "sigma x": factor, "epsilon": claim.epsilon(1e-5)}
                yield "GNMax at the tie", {**stored, **row}
    worlds = filter_worlds()
    claim = Claim.of(Charge.at_order(BUDGET, order=ORDER))

    def answers(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        out, in_ = (zeros(filtered(world, int(rng.integers(2**62)), n)) for world in worlds)
        return out, in_

    for row in powers(answers, claim, config.filter_runs, config, (2,)):
        yield "E1", {"order": ORDER, "budget": BUDGET, "later queries": LATER, **row}


def honest(config: Config) -> Iterator[dict[str, Any]]:
    """Yield how often a true claim is refuted, at its exact worst case."""
    gaussian, response = Claim.gaussian(1.0), Claim.of((1.0, 0.01))

    def normals(rng: np.random.Generator, n: int, mu: float) -> np.ndarray:
        return rng.normal(mu, 1, n)

    def responses(rng: np.random.Generator, n: int, bit: float) -> np.ndarray:
        kept = np.where(rng.random(n) < 1 / (1 + math.exp(-1.0)), bit, 1 - bit)
        return np.where(rng.random(n) < 0.01, 3 * bit - 1, kept)

    for name, draw, claim in (("1-GDP", normals, gaussian), ("randomised response", responses, response)):
        for n in config.honest_runs:
            rng = np.random.default_rng([config.seed, n, 3])
            p = [curve_test(draw(rng, n, 0.0), draw(rng, n, 1.0), claim).p_value for _ in range(config.honest_games)]
            rates = {f"refuted at {rate:g}": float(np.mean(np.array(p) <= rate)) for rate in config.honest_rates}
            yield {"claim": name, "runs": n, "games": config.honest_games, **rates}


def zeros(labels: np.ndarray) -> np.ndarray:
    """Score E1's answers: how often class 0 was answered."""
    return (labels == 0).sum(axis=-1).astype(float)


def whole_games(config: Config) -> Iterator[dict[str, Any]]:
    """Yield what `pate.audit.game` itself says, once each, from samples of the mechanisms: and when it stopped."""
    how: dict[str, Any] = {"random_state": config.seed, "published": True, "false_alarms": config.false_alarms}
    n = max(config.histogram_runs)
    for factor in (1.0, 0.9):
        release, worlds = NoisySum(factor / config.mu), (np.zeros(1), np.ones(1))
        found = game(release, *worlds, claim=Claim.gaussian(config.mu), n_runs=n, batch=min(n, 500), **how)
        yield {"game": "histogram", "sigma x": factor, **said(found)}
    sigma, n_queries = config.tie[0]
    claim, D, D_prime = tie_claim(sigma, n_queries)
    for factor in (1.0, 0.9):
        weak = GNMax(factor * sigma)
        n = max(config.tie_runs)
        rows = tuple(np.tile(c, (n_queries, 1)) for c in (D, D_prime))
        ratio = MechanismRelease(GNMax(sigma)).log_ratio
        found = game(
            MechanismRelease(weak),
            *rows,
            claim=claim,
            score=lambda outputs, rows=rows, ratio=ratio: ratio(outputs, *rows),
            n_runs=n,
            batch=min(n, 1000),
            **how,
        )
        yield {"game": "GNMax at the tie", "sigma": sigma, "sigma x": factor, **said(found)}
    n, charge = max(config.filter_runs), Charge.at_order(BUDGET, order=ORDER)
    found = game(filtered, *filter_worlds(), claim=charge, score=zeros, n_runs=n, batch=n, **how)
    yield {"game": "E1", **said(found)}


def said(found: Any) -> dict[str, Any]:
    """Return what matters of a result."""
    names = ("p-value of the claimed curve", "claimed epsilon", "lower bound on epsilon", "lower bound on mu")
    figures = {name: found[name].value for name in names}
    return {"refuted": found.refuted, "runs": found.settings["runs looked at"], **figures, "seconds": found.seconds}


def run(config: Config, result: Path | None) -> dict[str, Any]:
    """Play everything and return all rows."""
    stored: dict[str, Any] = {"config": json.loads(json.dumps(asdict(config))), **provenance()}
    parts = (("whole games", whole_games(config)), ("false alarms", honest(config)))
    for table, row in chain(((name, row) for name, rows in parts for row in rows), tables(config)):
        stored.setdefault(table, []).append(row)
        print(table, row, flush=True)
    if result is not None:
        result.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    return stored


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="two games of each kind: does it run?")
    smoke = parser.parse_args().smoke
    assert math.isfinite(cost((126, 124, *[0] * 8), 0))
    run(SMOKE if smoke else Config(), None if smoke else RESULT)


if __name__ == "__main__":
    main()
