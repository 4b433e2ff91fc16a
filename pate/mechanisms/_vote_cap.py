"""VoteCap: teachers that vote at most so many times and abstain otherwise; the whole run has one public cost."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import ClassVar, NoReturn

import numpy as np
import numpy.typing as npt

from pate._core.checks import check_int
from pate.exceptions import InvalidInputError, SensitiveValueError
from pate.mechanisms._base import Draw, Noisy
from pate.mechanisms._noisy_max import GNMax
from pate.privacy.convert import DEFAULT_ORDERS
from pate.privacy.cost import Charge
from pate.privacy.noise.source import NoiseSource
from pate.privacy.public_curve import vote_cap_rho_star
from pate.privacy.words import Sensitive
from pate.votes import ABSTAIN


@dataclass(frozen=True)
class VoteCap(Noisy):
    """GNMax in which each teacher votes on at most ``max_votes`` queries; the cost does not grow with more queries.

    A teacher may abstain (its vote is then the zero vector) by any rule on its own shard and on what was released
    before. The whole run costs as much as ``max_votes`` answers, however many queries are asked: use it if teachers
    often abstain.

    Parameters
    ----------
    max_votes : int
        The cap B, the same public number for every teacher.
    sigma : float
        Standard deviation of the noise on every count, in votes.

    Guarantees
    ----------
    Replace-one, both directions, fully adaptive, unlimited queries. Whether a teacher votes depends on its own shard
    and the transcript only, so on every transcript two neighbours' histograms differ by the one changed teacher: by
    0, e_b, -e_u or e_b - e_u, of squared length [it votes in D] + [it votes in D'], in all at most 2 B. Bounded for
    each pair and surely, this is what the fully adaptive filters need: the run is sqrt(2 B)/sigma-GDP (Smith and
    Thakurta 2022) and has Renyi divergence at most alpha B / sigma^2 (Feldman and Zrnic 2021, Theorem 3.1); since
    only winners are released, the certified :func:`pate.privacy.public_curve.vote_cap_rho_star` is lower still.
    What is *not* sound, and cannot be asked for here, is to retire teachers by their data-dependent losses: those
    depend on the other teachers' votes, so one replaced person would retire others.

    Raises
    ------
    InvalidInputError
        The cap is not a whole number >= 1 or sigma is not positive.

    Examples
    --------
    >>> VoteCap(max_votes=147, sigma=64.0).charge().guarantee(1e-5).epsilon < 0.9
    True
    """

    max_votes: int
    sigma: float
    family: ClassVar[str] = "vote-cap"

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_votes", check_int("max_votes", self.max_votes, low=1))
        super().__post_init__()

    def charge(self, n_queries: int | None = None, max_answers: int | None = None) -> Charge:
        """Return the worst-case cost of a whole run, with any number of queries.

        Parameters
        ----------
        n_queries : int or None
            A run declared to end after so few queries costs no more than that many votes; None means no such end.
        max_answers : int or None
            Every query is answered, so this ends the run like ``n_queries``.

        Returns
        -------
        Charge
            mu^2 = 2 B / sigma^2, and at most alpha B / sigma^2 at Renyi order alpha.
        """
        votes = self.max_votes
        for name, end in (("n_queries", n_queries), ("max_answers", max_answers)):
            if end is not None:
                votes = min(votes, check_int(name, end, low=0))
        if votes == 0:
            return Charge.zero()
        curve = vote_cap_rho_star(DEFAULT_ORDERS, self.sigma, votes)
        return Charge(2.0 * votes / self.sigma**2, tuple(curve.tolist()))

    def session(self, *, n_teachers: int, n_classes: int, noise: NoiseSource) -> VoteCapSession:
        """Return a run that counts the teachers' votes; :func:`pate.release.open_vote_cap` charges for it."""
        return VoteCapSession(self, n_teachers=n_teachers, n_classes=n_classes, noise=noise)


class VoteCapSession:
    """One run of a :class:`VoteCap`: it counts how often each teacher has voted, which is **sensitive**.

    A vote beyond its teacher's cap is dropped silently. How many teachers are left is not shown, and queries are still
    answered when none is left. It cannot be copied or pickled, and a forked process cannot use its copy: that would
    spend the caps twice.

    Parameters
    ----------
    mechanism : VoteCap
    n_teachers, n_classes : int
        Public and fixed for the run.
    noise : NoiseSource

    Examples
    --------
    >>> run = VoteCap(max_votes=2, sigma=1.0).session(
    ...     n_teachers=100, n_classes=2, noise=NoiseSource(0)
    ... )
    >>> run.ask([[0, 1]] * 100).labels
    array([0, 1])
    """

    def __init__(self, mechanism: VoteCap, *, n_teachers: int, n_classes: int, noise: NoiseSource) -> None:
        self.mechanism = mechanism
        self.n_teachers = check_int("n_teachers", n_teachers, low=1)
        self.n_classes = check_int("n_classes", n_classes, low=2)
        self._noise = noise
        self._cast = Sensitive(np.zeros(self.n_teachers, dtype=np.int64), "number of votes cast by each teacher")
        self._one_at_a_time = threading.Lock()
        self._process = os.getpid()

    def ask(self, labels: npt.ArrayLike) -> Draw:
        """Release the noisy winner of each query and count the votes cast.

        Parameters
        ----------
        labels : array-like of shape (n_teachers, n_queries)
            Class indices, ``ABSTAIN`` (-1) where a teacher does not vote. Queries are taken in order. Whether a
            teacher abstains may depend on its own shard and on earlier answers, never on other teachers' votes.

        Returns
        -------
        Draw
            Every query is answered, by noise alone when no teacher votes.

        Raises
        ------
        InvalidInputError
            Wrong shape, labels that are neither class indices nor ABSTAIN, or a copy of the session in a forked
            process; nothing was released.
        """
        self._check_process()
        array = np.asarray(labels)
        if array.dtype.kind not in "iu" or array.ndim != 2 or array.shape[0] != self.n_teachers:
            raise InvalidInputError(
                f"labels must be whole numbers of shape ({self.n_teachers}, n_queries), got dtype {array.dtype} and "
                f"shape {array.shape}. Each row is one teacher; write -1 where it abstains."
            )
        if array.size and (array.min() < ABSTAIN or array.max() >= self.n_classes):
            raise InvalidInputError(
                f"labels must be class indices 0 .. {self.n_classes - 1}, or -1 to abstain; some are neither."
            )
        with self._one_at_a_time:
            # Counted before the noise is drawn: an interrupted release has spent its votes.
            counts = self._count(array.astype(np.int64))
            return GNMax(self.mechanism.sigma).sample(counts, self._noise)

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise InvalidInputError(
                "this run was opened in another process, which may be asking too: both together would spend the "
                "teachers' votes twice. Ask there, or open (and pay for) another run here."
            )

    def _count(self, labels: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return counts of shape (n_queries, n_classes) of the votes within the caps, and remember them."""
        votes = labels != ABSTAIN
        cast = self._cast.reveal()
        within = votes & (cast[:, None] + votes.cumsum(axis=1) <= self.mechanism.max_votes)
        cast += within.sum(axis=1)
        n_queries = labels.shape[1]
        cells = (labels + self.n_classes * np.arange(n_queries))[within]
        return np.bincount(cells, minlength=n_queries * self.n_classes).reshape(n_queries, self.n_classes)

    def __repr__(self) -> str:
        return (
            f"VoteCapSession({self.mechanism}, n_teachers={self.n_teachers}, n_classes={self.n_classes}, "
            "votes cast=<sensitive>)"
        )

    def __reduce__(self) -> NoReturn:
        raise SensitiveValueError(
            "a VoteCapSession cannot be copied or pickled: a copy would spend the caps twice and hold private counts. "
            "Keep one session for the whole run."
        )
