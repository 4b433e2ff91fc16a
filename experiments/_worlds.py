"""Made comparisons in which the truth is known: contestants that are equal, or one ahead by a known gap.

A world gives the right answers of one whole comparison, an array of booleans of shape (contestants, epsilons, repeats,
rows), and says how its repeats draw rows (``same_rows``, ``test_share``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Published:
    """All repeats have the same test rows; right answers follow from a latent score. Contestants are equal by symmetry.

    Rows are easy or hard for everybody (``row``) and for one contestant at all epsilons (``taste``); repeats go well
    or badly for everybody, for one contestant, and for one contestant at one epsilon (``repeat`` each).
    """

    n_rows: int = 1000
    row: float = 1.0
    taste: float = 0.3
    repeat: float = 0.1
    chance: float = 0.5
    #: Share of fits that go wrong, at every epsilon of their repeat, and how far.
    wrong: float = 0.0
    fall: float = 1.5
    #: Points by which the first contestant is ahead.
    gap: float = 0.0
    same_rows = True
    test_share = None

    def draw(self, rng: np.random.Generator, k: int, e: int, j: int) -> npt.NDArray[np.bool_]:
        """Return what is right; the middle epsilon has an accuracy of about 85%."""
        normal = rng.standard_normal
        row, taste = self.row * normal(self.n_rows), self.taste * normal((k, 1, 1, self.n_rows))
        luck = self.repeat * (normal((j, 1)) + normal((k, 1, j, 1)) + normal((k, e, j, 1)))
        luck -= self.fall * (rng.random((k, 1, j, 1)) < self.wrong)
        scale = np.sqrt(self.row**2 + self.taste**2 + self.chance**2)
        level = scale * (1.04 + np.linspace(-0.4, 0.4, e) if e > 1 else np.array([1.04]))
        chance = self.chance * normal((k, e, j, self.n_rows), dtype=np.float32)
        right = level[:, None, None] + row + taste + luck + chance > 0
        if self.gap:  # rows that are wrong become right, each with the chance that makes up the gap on average
            missed = 1 - right.mean()
            right[0] |= rng.random(right[0].shape) < self.gap / missed
        return right


@dataclass(frozen=True)
class Pool:
    """Every repeat cuts the same pool into training and test rows, and really learns: nearest class mean, noise added.

    Each contestant sees columns of its own, all columns have the same law: which contestant is better on *this* pool is
    chance, and in truth none is. A smaller epsilon is more noise on the class means.
    """

    n_rows: int = 600
    test_share: float = 0.2
    n_columns: int = 6
    n_classes: int = 3
    apart: float = 0.7
    noise: float = 0.3
    #: Test rows of their own, the same for all repeats, instead of a part of the pool.
    n_published: int = 0

    @property
    def same_rows(self) -> bool:
        return self.n_published > 0

    def draw(self, rng: np.random.Generator, k: int, e: int, j: int) -> npt.NDArray[np.bool_]:
        """Return what is right, from ``j`` cuts of a fresh pool."""
        m, d, n = self.n_classes, self.n_columns, self.n_rows
        n_test = self.n_published or round(self.test_share * n)
        y = rng.integers(0, m, n + self.n_published)
        centres = self.apart * rng.standard_normal((m, 1, d))  # the same for all, or one would truly be ahead
        X = centres[y] + rng.standard_normal((len(y), k, d))
        noises = self.noise * (np.linspace(2.0, 0.5, e) if e > 1 else np.ones(1))
        right = np.empty((k, e, j, n_test), dtype=bool)
        one_hot = np.eye(m)[y]
        for repeat in range(j):
            order = rng.permutation(n)
            train = order[round(self.test_share * n) :]
            test = np.arange(n, len(y)) if self.n_published else order[:n_test]
            sums = np.einsum("nm,nkd->kmd", one_hot[train], X[train], optimize=True)
            means = sums / one_hot[train].sum(axis=0)[:, None]
            noisy = means[:, None] + noises[:, None, None] * rng.standard_normal((k, e, m, d))
            scores = np.matmul(noisy, X[test].transpose(1, 2, 0)[:, None]) - (noisy**2).sum(axis=3)[..., None] / 2
            right[:, :, repeat] = scores.argmax(axis=2) == y[test]
        return right
