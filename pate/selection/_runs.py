"""The runs themselves: the split, one run with its noisy score, and the best of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from pate.core.types import IntArray
from pate.data._door import is_frame
from pate.noise.integers import uniform_below
from pate.noise.reals import rounded_up
from pate.noise.source import NoiseSource
from pate.selection._contestant import Contestant
from pate.selection._price import Price
from pate.selection._rows import PrivateRows

T = TypeVar("T")

#: A person's share of right answers is counted in this many parts, rounded down; a record's is all or nothing. Noisy
#: scores are whole numbers of such parts.
_PARTS = 1024


def split_units(n_units: int, n_held: int, source: NoiseSource) -> tuple[IntArray, IntArray]:
    """Return the units to train on and those held out, drawn at random without looking at any."""
    order = np.argsort(source.words(n_units), kind="stable")
    return np.sort(order[n_held:]), np.sort(order[:n_held])


def units_right(predicted: Any, held: PrivateRows) -> int:
    """Return for how many units, in parts of 1024, a model is right: one unit moves it by at most 1024.

    A person counts as the share of their records that are told right, rounded down to such parts.
    """
    right = np.asarray(np.asarray(predicted).reshape(len(held.y)) == held.y, dtype=np.int64)
    _, unit = np.unique(held.unit_of, return_inverse=True)
    return int((np.bincount(unit, weights=right).astype(np.int64) * _PARTS // np.bincount(unit)).sum())


def noisy_share(right: int, n_held: int, noise: float, source: NoiseSource) -> float:
    """Return the share of held-out units that are told right, with Gaussian noise (in units), rounded up exactly."""
    noisy = rounded_up(Fraction(right), scale=Fraction(noise) * _PARTS, grid=Fraction(1), source=source)
    return noisy / _PARTS / n_held


def draw_index(weights: Sequence[int], source: NoiseSource) -> int:
    """Return an index with probability in proportion to its whole-numbered weight, exactly."""
    return int(np.searchsorted(np.cumsum(weights), uniform_below([sum(weights)], source)[0], side="right"))


def best_of(n_runs: int, run: Callable[[], tuple[float, T] | None]) -> tuple[float, T] | None:
    """Return the best of so many runs and forget the others at once; None where none succeeded.

    Of equal scores the first is kept: runs are independent and alike, so that is as good as drawing lots.
    """
    best: tuple[float, T] | None = None
    for _ in range(n_runs):
        found = run()
        if found is not None and (best is None or found[0] > best[0]):
            best = found
    return best


def _answers(contestant: Contestant, model: Any, held: PrivateRows) -> Any:
    """Return what a model says of held-out records; of one that it cannot be asked about, something that is wrong."""
    with suppress(Exception):
        return contestant.predicted(model, held.copied().X)
    said = np.full(len(held.y), np.nan, dtype=object)
    for i in range(len(said)):  # one by one: whatever it raises of a record is that record's own matter
        with suppress(Exception):
            said[i] = contestant.predicted(model, held.X.iloc[[i]] if is_frame(held.X) else held.X[[i]])[0]
    return said


def one_run(
    contestants: Sequence[Contestant],
    weights: Sequence[int],
    price: Price,
    trained: PrivateRows,
    held: PrivateRows,
    n_held: int,
    source: NoiseSource,
) -> tuple[float, tuple[int, Any]] | None:
    """Draw a candidate, fit it, score it: (noisy score, (which, model)); None where it failed, which is the lowest.

    Whatever a candidate says of a failure is dropped: it may quote private values.
    """
    which = draw_index(weights, source)
    contestant, noise = contestants[which], price.noises[which]
    # Drawn in any case, so that a failure changes nothing that comes after it.
    seed = int(source.words(1)[0] >> np.uint64(2)) if source.seeded else None
    model = contestant.made(noise, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            own = trained.copied()  # what a run does to its rows no other run sees
            contestant.fit(model, own.X, own.y, own.groups)
            right = units_right(_answers(contestant, model, held), held)
        except Exception:
            return None
    contestant.check_spent(model, noise)
    return noisy_share(right, n_held, price.score_noise, source), (which, model)
