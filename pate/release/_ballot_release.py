"""What is public of a sum of ballots: noisy statistics, what their noise is, and what follows from both for free."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from pate.core.tensors import load_tensors, save_tensors
from pate.core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.mechanisms import GaussianSum
from pate.privacy.words import Guarantee
from pate.records import BallotFacts
from pate.statement.model import PrivacyStatement

_FORM = "ballot release 1"
#: Points of the quadrature over the label's own noise, and rows taken at once.
_NODES, _BLOCK = 101, 4096


@dataclass(frozen=True, eq=False)
class Decisions:
    """Labels of rows, and how sure they are given the noise that was added. Public.

    Attributes
    ----------
    labels : int64 array of shape (n,)
        Class indices: the largest score.
    lead : float64 array of shape (n,)
        By how much the largest score leads the second, in units of one ballot with |phi| = 1.
    standard_error : float64 array of shape (n,)
        Of the lead of one class over another: sigma |phi| sqrt 2.
    probability : float64 array of shape (n,)
        That the label is what the sum without noise would say, see :meth:`BallotRelease.decide`.
    scores : float64 array of shape (n, m)
    classes : tuple

    Examples
    --------
    >>> Decisions(np.array([1]), np.ones(1), np.ones(1), np.ones(1), np.ones((1, 2)), ("no", "yes")).values()
    ['yes']
    """

    labels: IntArray
    lead: FloatArray
    standard_error: FloatArray
    probability: FloatArray
    scores: FloatArray
    classes: tuple[Any, ...]

    def values(self) -> list[Any]:
        """Return the class values."""
        return [self.classes[i] for i in self.labels]


@dataclass(frozen=True, eq=False, repr=False)
class BallotRelease:
    """A sum of ballots with its noise: public, and whatever is computed from it and public rows costs nothing.

    Attributes
    ----------
    statistics : float64 array of shape (d, m)
        In units of one ballot with |phi| = 1 and the centred one-hot e_y - 1/m (a residual of length 1, for residual
        ballots); each row sums to zero, as centred ballots do (what the noise added there is taken off).
    sigma : float
        Standard deviation of the noise on every cell, in the same units, before rows were made to sum to zero: the
        noise that is left has covariance sigma^2 (I - 1 1'/m) along each row, independent between rows.
    facts : BallotFacts
    mechanism : GaussianSum
    guarantee : Guarantee
        Of the whole session, where it was one.
    statement : PrivacyStatement

    Examples
    --------
    >>> from pate import Budget, GaussianSum, RecordVoters, release_ballots
    >>> from pate.records import SignedSpace
    >>> X, y = np.repeat([[0.0, 1.0], [1.0, 0.0]], 300, axis=0), np.repeat([0, 1], 300)
    >>> voters = RecordVoters(None, SignedSpace().fit(X[::50]), classes=2)
    >>> release = release_ballots(voters.cast(X, y), GaussianSum(9.0), budget=Budget(1.0, 1e-5))
    >>> release.statistics.shape, release.n_units, release.decide(voters.transform([[0.1, 0.9]])).labels
    ((1, 2), 600, array([0]))
    """

    statistics: FloatArray
    sigma: float
    facts: BallotFacts
    mechanism: GaussianSum
    guarantee: Guarantee
    statement: PrivacyStatement

    @classmethod
    def of(
        cls, drawn: npt.ArrayLike, facts: BallotFacts, mechanism: GaussianSum, statement: PrivacyStatement
    ) -> BallotRelease:
        """Return the release of noisy whole numbers that are paid for and stored, with their statement's guarantee."""
        whole = np.asarray(drawn, dtype=np.float64).reshape(facts.n_components, facts.n_classes)
        statistics = whole / facts.scale
        statistics -= statistics.mean(axis=1, keepdims=True)
        sigma = mechanism.scale(facts.delta_squared) / facts.scale
        return cls(statistics, sigma, facts, mechanism, statement.guarantee, statement)

    @property
    def n_units(self) -> int:
        """Number of units; under add-or-remove adjacency the nominal one."""
        return self.facts.n

    @property
    def kind(self) -> str:
        """Of the space: "soft", "hard" or "signed"."""
        return self.facts.kind

    @property
    def clip(self) -> float | None:
        """Of residual ballots; None for class ballots."""
        return self.facts.clip

    @property
    def classes(self) -> tuple[Any, ...]:
        """Class values, in the order of the columns."""
        return self.facts.classes

    @property
    def space_fingerprint(self) -> str:
        """Of representation and space (``RecordVoters.fingerprint()``)."""
        return self.facts.space

    def decide(self, phi: npt.ArrayLike) -> Decisions:
        """Return the labels of public rows, their lead, its standard error and how probable they are. Free of cost.

        Parameters
        ----------
        phi : float array of shape (n, d)
            ``voters.transform(X)``.

        Returns
        -------
        Decisions

        Notes
        -----
        Scores are s = phi B; the noise in them is t (Z - mean Z) with t = sigma |phi| and Z standard normal in m
        dimensions, so the difference of two classes has standard error t sqrt 2. What the sum without noise would say
        is not known; the probability is that of the label's being its argmax when the noiseless scores are s - t Z
        (the posterior under a flat prior: the noise is symmetric), P(for all c: s_l - s_c >= t (Z_l - Z_c)) =
        integral of normal(z) prod over c != l of Phi((s_l - s_c)/t + z) dz, by Gauss-Hermite quadrature (to about 1e-6
        for two classes). For two classes it is Phi(lead / (t sqrt 2)). It speaks of the noise alone, not of whether
        the records' majority is right.

        Examples
        --------
        >>> import numpy as np
        >>> from pate import Budget, GaussianSum, RecordVoters, release_ballots
        >>> from pate.records import SignedSpace
        >>> X, y = np.repeat([[0.0, 1.0], [1.0, 0.0]], 300, axis=0), np.repeat([0, 1], 300)
        >>> voters = RecordVoters(None, SignedSpace().fit(X[::50]), classes=("no", "yes"))
        >>> ballots = voters.cast(X, np.array(["no", "yes"])[y])
        >>> release = release_ballots(ballots, GaussianSum(9.0), budget=Budget(1.0, 1e-5))
        >>> found = release.decide(voters.transform(X[[0, 599]]))
        >>> found.values(), bool((found.probability > 0.99).all())
        (['no', 'yes'], True)
        """
        rows = np.asarray(phi, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(self.statistics) or not np.isfinite(rows).all():
            raise InvalidInputError(
                f"phi must be finite numbers of shape (n, {len(self.statistics)}), got {rows.shape}. Use "
                "voters.transform(X)."
            )
        scores = rows @ self.statistics
        labels = scores.argmax(axis=1)
        error = self.sigma * np.sqrt(np.square(rows).sum(axis=1))
        lead = _gaps(scores, labels).min(axis=1, initial=np.inf)
        probability = probability_of(scores, labels, error)
        return Decisions(labels, lead, error * np.sqrt(2), probability, scores, self.classes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write statistics, facts and statement as one safetensors file; :meth:`load` reads it."""
        facts = {
            "facts": self.facts.to_dict(),
            "mechanism": asdict(self.mechanism),
            "statement": self.statement.to_dict(),
        }
        save_tensors(path, {"statistics": self.statistics}, facts, form=_FORM)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> BallotRelease:
        """Read a release that was saved; its statement is read strictly, and was altered where that fails.

        Classes come back as JSON has them (texts, truth values and numbers as they are).

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from pate import Budget, GaussianSum, RecordVoters, release_ballots
        >>> from pate.records import SignedSpace
        >>> voters = RecordVoters(None, SignedSpace().fit(np.eye(3)), classes=2)
        >>> release = release_ballots(voters.cast(np.eye(3), [0, 1, 1]), GaussianSum(9.0), budget=Budget(1.0, 1e-5))
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "release.safetensors"
        >>> release.save(path)
        >>> bool((BallotRelease.load(path).statistics == release.statistics).all())
        True
        """
        arrays, held = load_tensors(path, form=_FORM)
        try:
            facts = BallotFacts(**held["facts"])
            mechanism = GaussianSum(**held["mechanism"])
            statement = PrivacyStatement.from_dict(held["statement"])
            statistics = arrays["statistics"]
        except (KeyError, TypeError):
            raise InvalidInputError(f"path must be a saved BallotRelease, got {str(path)!r}.") from None
        if statistics.dtype != np.float64 or statistics.shape != (facts.n_components, facts.n_classes):
            raise InvalidInputError(f"path must be a saved BallotRelease, got {str(path)!r} with odd statistics.")
        sigma = mechanism.scale(facts.delta_squared) / facts.scale
        return cls(statistics, sigma, facts, mechanism, statement.guarantee, statement)

    def __repr__(self) -> str:
        clip = "" if self.clip is None else f", clip={self.clip:g}"
        return (
            f"BallotRelease(kind={self.kind!r}{clip}, shape={self.statistics.shape}, sigma={self.sigma:.4g}, "
            f"guarantee={self.guarantee})"
        )


def probability_of(scores: FloatArray, labels: IntArray, error: Any) -> FloatArray:
    """Return how probable it is that ``labels`` are the argmax of scores without their noise, shape (n,).

    Parameters
    ----------
    scores : float64 array of shape (n, m)
    labels : int64 array of shape (n,)
    error : float array of shape (n,), or float
        Standard deviation of the noise in every score of a row.
    """
    gaps, t = _gaps(scores, labels), np.broadcast_to(error, len(scores))
    parts = [_probability(gaps[i : i + _BLOCK], t[i : i + _BLOCK]) for i in range(0, len(scores), _BLOCK)]
    return np.concatenate([np.zeros(0), *parts])


def _gaps(scores: FloatArray, labels: IntArray) -> FloatArray:
    """Return by how much each label's score leads the others, shape (n, m); infinite for itself: Phi is 1 there."""
    every = np.arange(len(scores))
    rest = scores.copy()
    rest[every, labels] = -np.inf
    return np.asarray(scores[every, labels][:, None] - rest)


def _probability(gaps: FloatArray, error: FloatArray) -> FloatArray:
    """Return P(all c: gap_c + t (Z_c - Z_l) >= 0), shape (n,); ``gaps`` is infinite for the label itself."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    weights = weights / weights.sum()
    keep = weights > 1e-18
    nodes, weights = nodes[keep], weights[keep]
    with np.errstate(divide="ignore", invalid="ignore"):
        units = np.where(error[:, None] > 0, gaps / error[:, None], np.where(gaps > 0, np.inf, 0.0))
    total = np.zeros(len(gaps))
    for node, weight in zip(nodes, weights, strict=True):
        total += weight * ndtr(units + node).prod(axis=1)
    # Without noise and all equal (a zero direction), each class is as good as another.
    return np.where(error > 0, np.clip(total, 0.0, 1.0), np.where((gaps <= 0).any(axis=1), 1 / gaps.shape[1], 1.0))
