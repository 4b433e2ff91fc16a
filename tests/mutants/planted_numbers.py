"""Faults of sums of vectors, of numeric targets and of synthetic rows: one unit moves more than is paid for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
from wall import Mutant
from wall_looks import Scores, by_game, by_pairs, by_replay, by_sums, by_textbook

from pate import Budget, PATERegressor
from pate.audit.laws._votes import VectorRounds, _rounds
from pate.data import Schema, copula
from pate.mechanisms import GaussianSum
from pate.models import _numbers, _regression, _synthetic
from pate.models._synthetic import SyntheticPlan
from pate.privacy.noise.source import NoiseSource
from pate.records import Units, VectorFacts, _vectors, count_cells, sum_alone, sum_squares
from pate.records.ballot_sum import GRID
from pate.release import ReleaseTerms, open_ballot_session

N, LOW, HIGH = 120, -20.0, 20.0
BUDGET = Budget(50.0, 1e-5)
Data = tuple[Any, ...]
SAID = {"what": "", "query": ""}


def world(seed: int) -> Data:
    """Private rows, their numbers and their owners, three records each; made up. One person's lie at an end."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 3))
    y = 3 * X[:, 0] + rng.normal(size=N)
    y[6:9] = LOW
    return X, y, np.repeat(np.arange(N // 3), 3)


def public() -> np.ndarray:
    return world(999)[0][:25]


def opposite(data: Data) -> Data:
    """All numbers of one person are at the other end of their range."""
    X, y, groups = data
    return X, np.where(groups == groups[7], HIGH, y), groups


def at_the_ends(data: Data) -> Data:
    """One record lies beyond the ends of all columns."""
    X, y, groups = data
    X = X.copy()
    X[7] *= -50
    return X, y, groups


def other_end(data: Data) -> Data:
    """One number is at the other end of its range."""
    X, y, groups = data
    y = y.copy()
    y[7] = HIGH
    return X, y, groups


def missing(data: Data) -> Data:
    """One record has no number."""
    X, y, groups = data
    y = y.copy()
    y[7] = np.nan
    return X, y, groups


def numbers(X, y, groups=None, *, bounds=(LOW, HIGH)):
    """The honest regression: rounds on training records, interval and errors on held-out ones."""
    reg = PATERegressor(BUDGET, target_range=bounds, force=True)
    return reg.fit(X, y, X_public=public(), groups=groups).predict(public(), return_interval=True)


def rows_of(schema: Schema, X: Any, y: Any, groups: Any = None) -> Any:
    """Both noisy sums over a schema, and the synthetic rows that are drawn from them."""
    n, unit = (len(X), "record") if groups is None else (len(np.unique(groups)), "group")
    terms = ReleaseTerms(budget=BUDGET)
    plan = SyntheticPlan.of(terms, schema, classes=(0, 1), n_units=n, unit=unit, random_state=0, force=True)
    codes = copula.cell_codes(X, schema, plan.cells)
    units = Units.with_labels((np.asarray(y) > 0).astype(np.int64), groups, classes=(0, 1))
    with open_ballot_session(
        BUDGET, shares=_synthetic.SHARES, classes=(0, 1), n_units=n, unit=unit, force=True,
        fingerprint=units.unit_owners.fingerprint(), split_into=9,
    ) as session:  # fmt: skip
        return plan._drawn(session, units, codes)


RANGES = [(-4.0, 4.0)] * 3


def synthetic(X, y, groups=None):
    return rows_of(Schema.declared(RANGES, n_columns=3), X, y, groups)


def planted(pipeline: Callable[..., Any], *where: Any) -> Callable[..., Any]:
    """A pipeline that runs while something is patched: (object, name, what) each."""

    def run(X, y, groups=None):
        with ExitStack() as stack:
            for place, name, made in where:
                stack.enter_context(patch.object(place, name, made))
            return pipeline(X, y, groups)

    return run


# ---- sensitivities, clips and persons ----


def signed(X, y, groups=None):
    """The sum of residuals alone, cut to the clip."""
    return sum_alone(Units.of(y), y[:, None], clip=0.1, **SAID)


def products(X, y, groups=None):
    """The second moment of rows, cut to norm 2."""
    return sum_squares(Units.of(y), X, bound=2.0, **SAID)


def cells(X, y, groups=None):
    """A histogram of persons."""
    units = Units.of(y, groups)
    return count_cells(units, units.cells([LOW, 0.0, HIGH]), [2], **SAID)


COUNTED, HELD_OUT = count_cells, _vectors.held_out_units


def charged_as_counts(**said: Any) -> VectorFacts:
    """Signed sums have the sensitivity of counts, 2 b: right for cells, and half of 4 b."""
    return VectorFacts(**{**said, "kind": "counts"})


def per_column(rows: Any, most: int, unit: float) -> Any:
    """Every number is cut to the bound by itself, and so the norm is not."""
    return np.trunc(np.clip(np.nan_to_num(rows), -1.0, 1.0) * most).astype(np.int64)


def scores_uncut(codes: Any, marginals: Any) -> Any:
    return np.column_stack([score[codes[:, j]] for j, score in enumerate(marginals.scores)])


def not_divided(units: Units, *args: Any, **said: Any) -> Any:
    """Each of a person's records counts as if it were one's only one; the facts say that persons are protected."""
    counted = COUNTED(replace(units, owners=None), *args, **said)
    return replace(counted, sums=counted.sums * GRID, facts=COUNTED(units, *args, **said).facts)


BY_COLUMN = ((_vectors, "_certified", per_column), (copula, "normal_scores", scores_uncut))
#: Where the pipelines look for it.
WHOLE = [(place, "count_cells", not_divided) for place in (_regression, _synthetic)]


def not_divided_cells(X, y, groups=None):
    units = Units.of(y, groups)
    return not_divided(units, units.cells([LOW, 0.0, HIGH]), [2], **SAID)


# ---- parts ----


def both_train(self: Units, name: str) -> Any:
    """Held-out records also train."""
    usable = np.isfinite(self.values)
    return usable & self.held_out if name == "held out" else usable


#: A secret by which the record that changes is held out.
HOLDS_OUT = next(
    secret
    for secret in (bytes([i]) * 32 for i in range(99))
    if _vectors.held_out_units(N, 0.5, None, None, secret=secret)[7]
)


def last_places(n: int, share: float, codes: Any, ids: Any, *, secret: bytes) -> Any:
    """The last records of the file are held out, as a split without shuffling does."""
    return np.arange(n) >= n - round(share * n)


def sorted_file(held_out: Callable[..., Any]) -> Scores:
    """A histogram of either part of a sorted file, in which the first record becomes the last one: all others move up.

    The attacker expects that it leaves the training records, and one other comes to them from those held out.
    """
    files = np.array([0.0, 1, 1, 1, 1, 1, 1, 1]), np.array([1.0, 1, 1, 1, 1, 1, 1, 2])

    def scores(world: int, n: int, source: NoiseSource) -> np.ndarray:
        found = []
        with patch.object(_vectors, "held_out_units", held_out):
            for _ in range(n):
                units = Units.of(files[world], share=0.5)
                parts = [
                    count_cells(units, units.cells(np.arange(-0.5, 3)), [3], part=part, **SAID)
                    for part in ("training", "held out")
                ]
                trains, kept = (HALF_NOISE.sample(one.sums, one.delta_squared, source)[0] for one in parts)
                found.append(trains[1] - trains[0] + kept[2] - kept[1])
        return np.array(found)

    return scores


#: Cells are noised in whole numbers.
HALF_NOISE = GaussianSum(noise_multiplier=0.5)
SORTED = tuple((sorted_file(held_out), HALF_NOISE.charge(1)) for held_out in (HELD_OUT, last_places))


def two_parts(X, y, groups=None):
    """A histogram of either part, each charged beside the other: a record is in one of them."""
    units = Units.of(y, share=0.5, secret=HOLDS_OUT)
    said = {"n_units": units.n, "fingerprint": units.unit_owners.fingerprint(), "force": True, "n_held_out": 1}
    with open_ballot_session(Budget(1.0, 1e-5), shares=[1.0, 1.0], classes=None, **said) as session:
        for part in ("training", "held out"):
            session.ask_vectors(count_cells(units, units.cells([LOW, 0.0, HIGH]), [2], part=part, **SAID))


# ---- what is read off the data without noise ----


def own_range(X, y, groups=None):
    """The target's range is the smallest and the largest private number."""
    return numbers(X, y, groups, bounds=(float(np.nanmin(y)), float(np.nanmax(y))))


def own_schema(X, y, groups=None):
    """Columns' ranges are those of the private rows."""
    ranges = [(float(low), float(high)) for low, high in zip(X.min(axis=0), X.max(axis=0), strict=True)]
    return rows_of(Schema.declared(ranges, n_columns=3), X, y, groups)


def own_bins(X, y, groups=None):
    """Bins end at the quantiles of the private numbers."""
    honest = _numbers.Zoom.bins

    def bins(self: Any, n_bins: int, n: int) -> Any:
        made = honest(self, n_bins, n)
        return replace(made, edges=np.quantile(y, np.linspace(0, 1, len(made.means) + 1)[1:-1]))

    with patch.object(_numbers.Zoom, "bins", bins):
        return numbers(X, y, groups)


def known_alone(X, y, groups=None):
    """Records without a number are dropped before they are counted."""
    known = np.isfinite(y)
    return numbers(X[known], y[known], None if groups is None else groups[known])


# ---- noise ----


def one_noise(counts: Any) -> Any:
    """All rounds of a session have the noise of the first."""
    drawn: dict[Any, Any] = {}
    honest = GaussianSum.sample

    def sample(self: GaussianSum, sums: Any, delta_squared: int, noise: Any) -> Any:
        if (id(noise), sums.shape) not in drawn:
            found = honest(self, sums, delta_squared, noise)
            drawn[id(noise), sums.shape] = noise, (found - sums) / self.scale(delta_squared)
        return sums + np.rint(drawn[id(noise), sums.shape][1] * self.scale(delta_squared))

    with patch.object(GaussianSum, "sample", sample):
        return _rounds(ROUNDS, counts, NoiseSource())


ROUNDS = VectorRounds(Budget(1.0, 1e-5))


def _both(pipeline: Any, summed: Any, *where: Any, change: Any) -> dict[str, Any]:
    faulty = planted(pipeline, *where)
    return {
        "pair": by_sums(summed, planted(summed, *where), world, change),
        "replay": by_replay(pipeline, faulty, world, change),
    }


def _replayed(honest: Any, faulty: Any, change: Any = other_end) -> dict[str, Any]:
    return {"replay": by_replay(honest, faulty, world, change)}


LOOKS = "scripts that read ranges or bins off the table that they protect"
MUTANTS = (
    Mutant(
        "signed sums charged as counts",
        "sensitivity of add-or-remove under replace-one",
        _both(numbers, signed, (_vectors, "VectorFacts", charged_as_counts), change=other_end),
    ),
    Mutant(
        "numbers cut one by one where their norm is charged",
        "gradients and scores clipped per coordinate",
        _both(synthetic, products, *BY_COLUMN, change=at_the_ends),
    ),
    Mutant(
        "a person's records counted one by one",
        "histograms of visits stated per patient",
        {
            "pair": by_sums(cells, not_divided_cells, world, opposite),
            "replay": by_replay(numbers, planted(numbers, *WHOLE), world, opposite, people=True),
        },
    ),
    Mutant(
        "held-out records that also train",
        "validation sets that are cut from the training table and left in it",
        _replayed(two_parts, planted(two_parts, (Units, "part", both_train))),
    ),
    Mutant(
        "the last records of a sorted file held out",
        "splits without shuffling",
        {"game": by_game(*SORTED, most=2_000)},
        tried={"textbook": by_textbook(*SORTED, most=2_000)},
        blind={"replay": "the secret of the cut is held fixed in both runs"},
    ),
    Mutant("the target's range is its smallest and largest number", LOOKS, _replayed(numbers, own_range)),
    Mutant("a schema's ranges are those of the private rows", LOOKS, _replayed(synthetic, own_schema, at_the_ends)),
    Mutant("bins at the quantiles of private numbers", LOOKS, _replayed(numbers, own_bins)),
    Mutant(
        "records without a number dropped before they are counted",
        "dropna before everything else",
        _replayed(numbers, known_alone, missing),
    ),
    Mutant(
        "one noise for all rounds of a session",
        "generators that are seeded anew in every round",
        {"law": by_pairs(ROUNDS, one_noise, most=3_000)},
    ),
)
