"""Canaries for auditing one run: each is included by a coin toss and gets a score from which to guess the toss.

Steinke, Nasr and Jagielski, *Privacy auditing with one (1) training run*, 2023: with many canaries one run is many
games, and how many coins can be guessed bounds epsilon from below. Here are the hooks, canaries in and scores out; the
bound is the auditor's.

A canary is a unit beside the private ones: sampled like them and clipped like them, so it weakens no one's
guarantee. One whose coin fell on the other side is never in a step, however it is sampled: the neighbours are those of
zero-out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from pate._core.checks import check_int
from pate._core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.privacy.noise.source import NoiseSource

#: Rows and class indices.
Marked = tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]


@dataclass(frozen=True)
class Canaries:
    """Canaries for an audit of one DP-SGD run: artificial records or gradients, each included by a coin toss.

    Parameters
    ----------
    gradients : int
        So many canaries are gradients: of the clipping norm along one weight each (Dirac canaries; Nasr et al. 2023),
        the strongest there are. They are scored by how far all released sums went their way.
    X : array of shape (m, ...) or None
        Records instead, like those of ``fit``. They are scored by their loss under the model that is released.
    y : array of shape (m,) or None
        Their classes.

    Raises
    ------
    InvalidInputError
        Neither, or both.

    Examples
    --------
    >>> Canaries(gradients=100).n
    100
    >>> Canaries()
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: canaries must be gradients=, or X= and y=, ...
    """

    gradients: int = 0
    X: Any = field(default=None, repr=False)
    y: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_int("gradients", self.gradients, low=0)
        if (self.X is None) != (self.y is None) or (self.gradients > 0) == (self.X is not None):
            raise InvalidInputError(
                "canaries must be gradients=, or X= and y=, one of the two. Pass Canaries(gradients=1000), for one."
            )

    @property
    def n(self) -> int:
        """How many there are."""
        return self.gradients or len(self.y)


@dataclass(frozen=True)
class CanaryScores:
    """The result of canaries in one run: which were included, and a score of each for :func:`pate.audit.one_run`.

    Attributes
    ----------
    included : bool array of shape (m,)
        How the coins fell: what is to be guessed.
    scores : float64 array of shape (m,)
        The higher, the likelier it was in; functions of what the run released.

    Examples
    --------
    >>> CanaryScores(np.array([True, False]), np.array([2.0, 0.5]))
    CanaryScores(m=2)
    """

    included: npt.NDArray[np.bool_]
    scores: FloatArray

    def __repr__(self) -> str:
        return f"CanaryScores(m={len(self.scores)})"


def add_canaries(
    marked: Marked | tuple[()],
    features: npt.NDArray[np.float32],
    labels: npt.NDArray[np.int64],
    owners: npt.NDArray[np.int64] | None,
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64], npt.NDArray[np.int64] | None]:
    """Return rows, classes and owners with those of record canaries behind them, each a unit of its own."""
    if not marked:
        return features, labels, owners
    X, y = marked
    if owners is not None:
        owners = np.concatenate([owners, owners.max() + 1 + np.arange(len(y))])
    return np.concatenate([features, X]), np.concatenate([labels, y]), owners


class CanaryRun:
    """The canaries of one run."""

    def __init__(
        self, canaries: Canaries, n_units: int, parameters: Sequence[nn.Parameter], source: NoiseSource
    ) -> None:
        self.canaries, self.n_units = canaries, n_units
        self.included = (source.words(canaries.n) >> np.uint64(63)).astype(bool)
        self._sums = torch.zeros(canaries.gradients, dtype=torch.float64)
        if canaries.gradients:
            sizes = [p.numel() for p in parameters]
            if canaries.gradients > sum(sizes):
                raise InvalidInputError(
                    f"canaries must be at most as many as the {sum(sizes)} trainable weights, got "
                    f"{canaries.gradients} gradients. Pass fewer."
                )
            order = np.argsort(source.words(sum(sizes)), kind="stable")[: canaries.gradients]
            self._which = torch.as_tensor(order)
            self._signs = torch.as_tensor((source.words(canaries.n) & np.uint64(1)).astype(np.float64) * 2 - 1)

    def split(self, batch: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the units of a step whose rows there are, and the numbers of its gradient canaries."""
        ours = batch >= self.n_units
        marks = batch[ours] - self.n_units
        marks = marks[self.included[marks]]
        if self.canaries.gradients:
            return batch[~ours], marks
        return np.concatenate([batch[~ours], marks + self.n_units]), marks[:0]

    def add(self, total: Sequence[torch.Tensor], marks: npt.NDArray[np.int64], max_norm: float) -> None:
        """Add the gradients of a step's canaries, each ``max_norm`` long, to the sum."""
        if len(marks):
            flat = torch.zeros(sum(t.numel() for t in total), dtype=torch.float64)
            at = torch.as_tensor(marks)
            flat[self._which[at]] = self._signs[at] * max_norm
            for whole, part in zip(total, flat.split([t.numel() for t in total]), strict=True):
                whole += part.view_as(whole).to(whole.device)

    def observe(self, noisy: Sequence[torch.Tensor], max_norm: float) -> None:
        """Update the scores by a step's released sum."""
        if self.canaries.gradients:
            flat = torch.cat([part.detach().cpu().flatten() for part in noisy])
            self._sums += flat[self._which] * self._signs / max_norm

    def scores(self, model: Any, labels: npt.NDArray[np.int64]) -> CanaryScores:
        """Return the scores.

        Shapes: ``labels`` (m,).
        """
        if self.canaries.gradients:
            return CanaryScores(self.included, self._sums.numpy())
        right = model.predict_proba(self.canaries.X)[np.arange(len(labels)), labels]
        return CanaryScores(self.included, np.log(np.maximum(right, np.finfo(np.float64).tiny)))

    def state_dict(self) -> dict[str, Any]:
        """Return what has been seen so far."""
        return {"sums": self._sums.clone()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self._sums.copy_(state["sums"])
