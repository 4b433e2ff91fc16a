"""Made comparisons in which the truth is known: contestants that are equal, or the first ahead by a known gap.

A world draws the right answers of one whole comparison, an array of booleans of shape (contestants, epsilons, repeats,
rows), and says how its repeats draw rows (``same_rows``, ``test_share``, ``groups``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

Rights = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Published:
    """All repeats have the same test rows; right answers follow from a latent score. Contestants are equal by symmetry.

    Rows are easy or hard for everybody (``row``) and for one contestant at all epsilons (``taste``); repeats go well
    or badly for everybody, for one contestant, and for one contestant at one epsilon (``repeat`` each).
    """

    n_rows: int = 1000
    row: float = 1.0
    taste: float = 0.3
    repeat: float = 0.03
    chance: float = 0.3
    #: How far the middle epsilon is above the threshold: 1.04 is right in 85% of rows, 1.645 in 95%.
    ease: float = 1.04
    #: Share of fits that go wrong, at every epsilon of their repeat, and how far.
    wrong: float = 0.0
    fall: float = 1.5
    #: The first contestant alone has fits that go wrong; the others lose as much on average, a little every time.
    lopsided: bool = False
    #: Rows of one person, who are easy or hard together.
    per_person: int = 1
    same_rows = True
    test_share = None

    @property
    def groups(self) -> npt.NDArray[np.int64] | None:
        return None if self.per_person == 1 else np.arange(self.n_rows) // self.per_person

    def draw(self, rng: np.random.Generator, k: int, e: int, j: int) -> Rights:
        """Return what is right."""

        def by_person(*shape: int) -> npt.NDArray[np.float64]:
            one = rng.standard_normal((*shape, -(-self.n_rows // self.per_person)))
            return np.repeat(one, self.per_person, axis=-1)[..., : self.n_rows]

        normal = rng.standard_normal
        luck = self.repeat * (normal((j, 1)) + normal((k, 1, j, 1)) + normal((k, e, j, 1)))
        if not self.lopsided:
            luck -= self.fall * (rng.random((k, 1, j, 1)) < self.wrong)
        level = self.ease + (np.linspace(-0.4, 0.4, e) if e > 1 else np.zeros(1))
        level = level * np.sqrt(self.row**2 + self.taste**2 + self.chance**2)
        chance = self.chance * normal((k, e, j, self.n_rows))
        right = level[:, None, None] + self.row * by_person() + self.taste * by_person(k, 1, 1) + luck + chance > 0
        if self.lopsided:
            lost = 0.3
            goes = np.where(np.arange(k)[:, None, None, None] > 0, self.wrong, rng.random((k, 1, j, 1)) < self.wrong)
            right &= rng.random(right.shape) >= lost * goes
        return right


@dataclass(frozen=True)
class Pool:
    """Every repeat cuts the same pool into training and test rows, and really learns: nearest class mean, noise added.

    Each contestant sees columns of its own, of the same law as the others' given the class: which of them does better
    on *this* pool is chance, and in truth none does. A smaller epsilon is more noise on the class means.
    """

    n_rows: int = 600
    test_share: float = 0.2
    n_columns: int = 6
    n_classes: int = 3
    apart: float = 0.7
    noise: float = 0.3
    groups = None
    same_rows = False

    def draw(self, rng: np.random.Generator, k: int, e: int, j: int) -> Rights:
        """Return what is right, from ``j`` cuts of a fresh pool."""
        X, y = self._rows(rng, k, self.n_rows)
        n_test = round(self.test_share * self.n_rows)
        orders = [rng.permutation(self.n_rows) for _ in range(j)]
        cuts = [self._fit(rng, X, y, order[n_test:], X[order[:n_test]], y[order[:n_test]], e) for order in orders]
        return np.stack(cuts, axis=2)

    def _rows(self, rng: np.random.Generator, k: int, n: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        # The same centres for all contestants: otherwise one would truly be ahead.
        centres = self.apart * rng.standard_normal((self.n_classes, 1, self.n_columns))
        y = rng.integers(0, self.n_classes, n)
        return centres[y] + rng.standard_normal((n, k, self.n_columns)), y

    def _fit(self, rng, X, y, train, X_test, y_test, e) -> Rights:  # type: ignore[no-untyped-def]
        one_hot = np.eye(self.n_classes)[y[train]]
        sums = np.tensordot(one_hot, X[train], axes=(0, 0)).transpose(1, 0, 2)
        means = (sums / np.maximum(one_hot.sum(axis=0), 1)[:, None])[:, None]
        noises = self.noise * (np.linspace(2.0, 0.5, e) if e > 1 else np.ones(1))
        noisy = means + noises[:, None, None] * rng.standard_normal((X.shape[1], e, *means.shape[2:]))
        scores = np.matmul(noisy, X_test.transpose(1, 2, 0)[:, None]) - (noisy**2).sum(axis=3)[..., None] / 2
        return np.asarray(scores.argmax(axis=2) == y_test)


@dataclass(frozen=True)
class Nearest(Pool):
    """As a pool, of learners that depend on single rows: the class of the nearest one. One epsilon, without noise."""

    def _fit(self, rng, X, y, train, X_test, y_test, e) -> Rights:  # type: ignore[no-untyped-def]
        found = [y[train][cdist(X_test[:, a], X[train, a]).argmin(axis=1)] == y_test for a in range(X.shape[1])]
        return np.repeat(np.stack(found)[:, None], e, axis=1)


@dataclass(frozen=True)
class Stumps(Pool):
    """As a pool of two classes, of learners that jump: the best threshold in the best column. One epsilon."""

    n_classes: int = 2

    def _fit(self, rng, X, y, train, X_test, y_test, e) -> Rights:  # type: ignore[no-untyped-def]
        found, steps = [], np.arange(len(train))
        for a in range(X.shape[1]):
            order = X[train, a].argsort(axis=0)
            ones = np.cumsum(y[train][order], axis=0)  # up to a row; above it are the others
            right = (steps[:, None] + 1 - ones) + (ones[-1] - ones)  # says 1 above
            flipped = len(train) - right
            best, column = np.unravel_index(np.maximum(right, flipped).argmax(), right.shape)
            above = X_test[:, a, column] > X[train, a][order[best, column], column]
            found.append((above if right[best, column] >= flipped[best, column] else ~above) == y_test)
        return np.repeat(np.stack(found)[:, None], e, axis=1)


@dataclass(frozen=True)
class TrainingPart(Pool):
    """The same learners, but published test rows: a repeat learns from another part of one training part."""

    n_published: int = 1000
    same_rows = True
    test_share: None = None  # type: ignore[assignment]
    left_out: float = 0.2

    def draw(self, rng: np.random.Generator, k: int, e: int, j: int) -> Rights:
        """Return what is right, from ``j`` draws of a fresh training part."""
        n = self.n_rows
        X, y = self._rows(rng, k, n + self.n_published)
        parts = [rng.permutation(n)[round(self.left_out * n) :] for _ in range(j)]
        return np.stack([self._fit(rng, X, y, part, X[n:], y[n:], e) for part in parts], axis=2)


def ahead_by(right: Rights, gap: float, at: int, rng: np.random.Generator) -> Rights:
    """Return the answers with the first contestant better by ``gap`` at one epsilon: some of its wrong ones right."""
    return _raised(right, gap * (np.arange(right.shape[1]) == at)[None], rng)


def tilted(right: Rights, slope: float, rng: np.random.Generator) -> Rights:
    """Return the answers of two contestants whose difference rises by ``slope`` from each epsilon to the next.

    It is zero half way between the middle epsilon and the next.
    """
    gaps = slope * (np.arange(right.shape[1]) - right.shape[1] // 2 - 0.5)
    return _raised(right, np.maximum([gaps, -gaps], 0), rng)


def _raised(right: Rights, gaps: npt.NDArray[np.float64], rng: np.random.Generator) -> Rights:
    """Return the answers with the first contestants better by so much at each epsilon, shape (some, epsilons)."""
    found, n = right.copy(), len(gaps)
    shares = gaps / (1 - right[:n].mean(axis=(2, 3)))
    if (shares > 1).any():
        raise ValueError("a contestant cannot be better by more than what it misses")
    found[:n] |= rng.random(right[:n].shape) < shares[:, :, None, None]
    return found
