"""Noisy-max mechanisms: only the winning class is released."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

import numpy as np
import numpy.typing as npt

from pate._core.checks import check_choice, check_int, check_real
from pate.exceptions import InvalidInputError
from pate.mechanisms._base import VOTE_L2_SENSITIVITY, Draw, Mechanism, all_answered, capped
from pate.privacy.convert import DEFAULT_ORDERS, check_orders
from pate.privacy.cost import Charge
from pate.privacy.noise import real_argmax, real_at_least, rounded_counts
from pate.privacy.noise.source import NoiseSource
from pate.privacy.offsets import check_offsets, margins_of
from pate.privacy.public_curve import rho_star, threshold_rho_star

if TYPE_CHECKING:
    from pate.privacy.exact import GaussianNoise, LaplaceNoise, ThresholdTest

# The exact law of a noisy maximum and its divergences, as methods of the mechanisms that have one.


class ExactParameters(TypedDict):
    """What the functions of :mod:`pate.privacy.exact` need to know of a mechanism."""

    noise: GaussianNoise | LaplaceNoise
    threshold: ThresholdTest | None


class ExactLaw(ABC):
    """Mixin of mechanisms that release only the winning class and whose outcome probabilities are known exactly.

    Guarantees
    ----------
    Adjacency: one vote is replaced. Every number here is a function of the votes, hence private: only the curator may
    call methods of this class on votes.

    Examples
    --------
    >>> from pate import GNMax, NoisyHistogram
    >>> (
    ...     isinstance(GNMax(sigma=40.0), ExactLaw),
    ...     isinstance(NoisyHistogram(sigma=40.0), ExactLaw),
    ... )
    (True, False)
    """

    @abstractmethod
    def exact_parameters(self) -> ExactParameters:
        """Return noise and threshold test, as keyword arguments for :mod:`pate.privacy.exact`."""

    def exact_rdp(self, counts: npt.ArrayLike, orders: npt.ArrayLike = DEFAULT_ORDERS) -> npt.NDArray[np.float64]:
        """Return the exact Renyi divergence of each query: the largest over all neighbours and both directions.

        Source: the project's accounting page, sections A and C; :mod:`pate.privacy.exact`. For
        :class:`~pate.ConfidentGNMax` it is the divergence of the joint mechanism of n_classes + 1 outcomes.

        Parameters
        ----------
        counts : int array of shape (n_queries, n_classes)
            Votes per class. **Sensitive**, and so is what is returned.
        orders : array-like of shape (n_orders,)
            Renyi orders above 1.

        Returns
        -------
        array of shape (n_queries, n_orders)
            In nats, accurate to 1e-9 relative. Sums over fixed queries bound the run; for a guarantee pass
            them through :func:`pate.privacy.exact.upper_bound`, as :func:`pate.account` does.

        Raises
        ------
        InvalidInputError
            Counts that are not whole numbers >= 0 of at least two classes, or orders not above 1.
        """
        from pate.privacy.exact import exact_rdp

        return exact_rdp(counts, orders, **self.exact_parameters())

    def log_probs(self, counts: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the exact log probability of every outcome.

        Parameters
        ----------
        counts : int array of shape (n_queries, n_classes)
            **Sensitive**, and so is what is returned.

        Returns
        -------
        array of shape (n_queries, n_classes), or (n_queries, n_classes + 1) for a mechanism that may refuse
            Natural logarithms; the refusal stands last. Good to 1e-12 relative in the probabilities.

        Raises
        ------
        InvalidInputError
            Counts that are not whole numbers >= 0 of at least two classes.
        """
        from pate.privacy.exact import log_probs

        return log_probs(counts, **self.exact_parameters())


@dataclass(frozen=True)
class GNMax(ExactLaw, Mechanism):
    """GNMax: release the class with the most votes after Gaussian noise (Papernot et al. 2018, Section 4.1).

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise on every count, in votes.

    Guarantees
    ----------
    Adjacency replace-one: two counts move by one, L2 sensitivity sqrt(2). n queries, also when chosen adaptively, are
    (alpha, n rho*(alpha))-RDP, rho* certified at about two thirds of alpha/sigma^2 (docs/public-curve.md), and
    sqrt(2 n)/sigma-GDP; the lesser epsilon counts. The noise is sampled as exact real numbers:
    :mod:`pate.privacy.noise`.

    Raises
    ------
    InvalidInputError
        sigma is not a positive number.

    Examples
    --------
    >>> GNMax(sigma=40.0).charge(300).guarantee(1e-5).epsilon.__round__(4)
    2.1211
    """

    sigma: float
    family: ClassVar[str] = "gnmax"

    def exact_parameters(self) -> ExactParameters:
        """Return noise and threshold test, as keyword arguments for :mod:`pate.privacy.exact`."""
        from pate.privacy.exact import GaussianNoise

        return {"noise": GaussianNoise(self.sigma), "threshold": None}

    def charge(self, n_queries: int, max_answers: int | None = None) -> Charge:
        """Return the worst-case cost of ``n_queries`` answers; there are no refusals to save by a cap."""
        asked, _ = self._asked(n_queries, max_answers)
        return Charge.gaussian_argmax(self.sigma) * asked

    def public_rdp(self, orders: npt.ArrayLike = DEFAULT_ORDERS) -> npt.NDArray[np.float64]:
        """Return rho*(alpha), the certified Renyi divergence of one query, shape (n_orders,), at any orders."""
        return rho_star(check_orders(orders), self.sigma)

    def sample(self, counts: npt.NDArray[np.int64], noise: NoiseSource, *, max_answers: int | None = None) -> Draw:
        """Draw one label per query.

        Parameters
        ----------
        counts : int array of shape (n_queries, n_classes)
        noise : NoiseSource
        max_answers : int or None
            Queries beyond the first ``max_answers`` are not asked.
        """
        labels = real_argmax(counts, scale=self.sigma, source=noise)
        return capped(np.ones(len(counts), dtype=bool), labels, max_answers)


@dataclass(frozen=True)
class LNMax(ExactLaw, Mechanism):
    """LNMax: release the class with the most votes after Laplace noise (Papernot et al. 2017; their gamma is 1/scale).

    Parameters
    ----------
    scale : float
        Scale b of the noise on every count, in votes; its standard deviation is b sqrt(2).

    Guarantees
    ----------
    Adjacency replace-one: two counts move by one each, so a query is (2/scale, 0)-DP; n queries compose by pure
    composition, by RDP (Mironov 2017, Proposition 6) or by the dominating Gaussian, whichever is least.

    Raises
    ------
    InvalidInputError
        scale is not a positive number.

    Examples
    --------
    >>> LNMax(scale=20.0).charge(1).pure
    0.1
    """

    scale: float
    family: ClassVar[str] = "lnmax"
    noise_fields: ClassVar[tuple[str, ...]] = ("scale",)

    def exact_parameters(self) -> ExactParameters:
        """Return noise and threshold test, as keyword arguments for :mod:`pate.privacy.exact`."""
        from pate.privacy.exact import LaplaceNoise

        return {"noise": LaplaceNoise(self.scale), "threshold": None}

    def charge(self, n_queries: int, max_answers: int | None = None) -> Charge:
        """Return the worst-case cost of ``n_queries`` answers."""
        asked, _ = self._asked(n_queries, max_answers)
        return Charge.laplace(shifts=(1.0, 1.0), scale=self.scale) * asked

    def sample(self, counts: npt.NDArray[np.int64], noise: NoiseSource, *, max_answers: int | None = None) -> Draw:
        """Draw one label per query; see :meth:`GNMax.sample`."""
        labels = real_argmax(counts, scale=self.scale, source=noise, noise="laplace")
        return capped(np.ones(len(counts), dtype=bool), labels, max_answers)


@dataclass(frozen=True)
class ConfidentGNMax(ExactLaw, Mechanism):
    """Confident-GNMax: answer a query by GNMax only if its largest count, with noise, reaches a threshold.

    Source: Papernot et al. 2018, Algorithm 1. The test adds N(0, sigma_threshold^2) to the *true* largest count.

    Parameters
    ----------
    threshold : float
        Votes the largest count must reach; chosen without looking at the votes.
    sigma_threshold : float
        Standard deviation of the noise of the test, in votes.
    sigma : float
        Standard deviation of the noise of the answer, in votes.
    offsets : sequence of float or None
        One public number of votes for each class, which the test takes off its count: a class with a negative offset
        passes with fewer votes. Kept as multiples of 2^-20 votes. From a public prior, from labels that were released
        before, or from counts that were paid for; **never from the votes themselves**, such as their rates by class:
        that is a release of its own, which nothing here charges. Offsets of single queries are given where they are
        asked (:meth:`pate.release.LabelSession.ask`): with k p of a public student's probabilities p that is
        Interactive-GNMax (Algorithm 2 of the same paper).

    Guarantees
    ----------
    Adjacency replace-one. Every query asked pays the test (sensitivity 1: of all counts less their offsets one falls by
    1 and one rises by 1, so the largest moves by at most 1), every answer pays GNMax
    (sensitivity sqrt(2)): n asked with at most c answers are (alpha, n rho1(alpha) + c rho*(alpha))-RDP by the
    certified costs of the test and of the argmax (docs/public-curve.md), and sqrt(n/sigma_threshold^2 + 2c/sigma^2)-
    GDP. The number of answers is random, so c is a cap declared before the run and the whole cap is charged: then the
    cost is below one constant at every order, on every transcript, which is what adaptive composition needs.

    Raises
    ------
    InvalidInputError
        A noise that is not positive, a threshold that is not a number, or offsets that are not a number for each class.

    Examples
    --------
    >>> m = ConfidentGNMax(threshold=200, sigma_threshold=150, sigma=40)
    >>> m.charge(640, max_answers=300).guarantee(1e-5).epsilon.__round__(3)
    2.212

    Offsets cost nothing more:

    >>> fair = ConfidentGNMax(
    ...     threshold=200, sigma_threshold=150, sigma=40, offsets=(15, 0, -22)
    ... )
    >>> fair.charge(640, max_answers=300) == m.charge(640, max_answers=300)
    True
    """

    threshold: float
    sigma_threshold: float
    sigma: float
    offsets: tuple[float, ...] | None = None
    family: ClassVar[str] = "confident-gnmax"
    may_refuse: ClassVar[bool] = True
    noise_fields: ClassVar[tuple[str, ...]] = ("sigma_threshold", "sigma")

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "threshold", check_real("threshold", self.threshold))
        if self.offsets is not None:
            held = check_offsets(self.offsets)
            if isinstance(held[0], tuple):
                raise InvalidInputError(
                    "offsets must be one number for each class, got some for each query. Give those where the queries "
                    "are asked: session.ask(votes, offsets=...). They may follow from earlier answers, so no figure at "
                    "given votes (pate.account) is for them."
                )
            object.__setattr__(self, "offsets", held)

    def __repr__(self) -> str:
        # What there was before offsets is written as it was: by it a ledger finds what it holds.
        names = ("threshold", "sigma_threshold", "sigma", *(() if self.offsets is None else ("offsets",)))
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def check_classes(self, n_classes: int) -> None:
        """Refuse offsets of another number of classes."""
        if self.offsets is not None and len(self.offsets) != n_classes:
            raise InvalidInputError(
                f"offsets must be one number for each of the {n_classes} classes, got {len(self.offsets)}."
            )

    def exact_parameters(self) -> ExactParameters:
        """Return noise and threshold test, as keyword arguments for :mod:`pate.privacy.exact`."""
        from pate.privacy.exact import GaussianNoise, ThresholdTest

        return {
            "noise": GaussianNoise(self.sigma),
            "threshold": ThresholdTest(self.threshold, self.sigma_threshold, self.offsets),
        }

    def charge(self, n_queries: int, max_answers: int | None = None) -> Charge:
        """Return the worst-case cost of ``n_queries`` tests and ``max_answers`` answers (None: all answered)."""
        asked, answered = self._asked(n_queries, max_answers)
        return Charge.threshold_test(self.sigma_threshold) * asked + Charge.gaussian_argmax(self.sigma) * answered

    def public_rdp(self, orders: npt.ArrayLike = DEFAULT_ORDERS) -> npt.NDArray[np.float64]:
        """Return the certified Renyi divergence of one query tested and answered, shape (n_orders,), at any orders."""
        alphas = check_orders(orders)
        return np.asarray(threshold_rho_star(alphas, self.sigma_threshold) + rho_star(alphas, self.sigma))

    def sample(
        self,
        counts: npt.NDArray[np.int64],
        noise: NoiseSource,
        *,
        max_answers: int | None = None,
        offsets: npt.ArrayLike | None = None,
    ) -> Draw:
        """Draw a label or a refusal per query, stopping after ``max_answers`` answers.

        ``offsets`` of shape (n_queries, n_classes) are of these queries alone, in place of the mechanism's own.
        """
        held = self.offsets if offsets is None else check_offsets(offsets)
        top = (counts if held is None else margins_of(counts, held)).max(axis=1)
        passed = real_at_least(top, threshold=self.threshold, scale=self.sigma_threshold, source=noise)
        return capped(passed, real_argmax(counts, scale=self.sigma, source=noise), max_answers)


@dataclass(frozen=True)
class NoisyHistogram(Mechanism):
    """Release all vote counts of a query, with Gaussian noise on the count of every class.

    Argmax, abstaining on small gaps, class offsets, soft labels and tuning all of these on the released counts are
    post-processing and cost nothing: see :meth:`pate.LabelRelease.decide`.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise on every count, in votes.

    Guarantees
    ----------
    Adjacency replace-one: n queries are exactly sqrt(2 n)/sigma-GDP, fully adaptive (Dong, Roth, Su 2022). A
    Gaussian's divergence does not depend on where it sits, so no data-dependent cost is lower.

    Raises
    ------
    InvalidInputError
        sigma is not a positive number.

    Examples
    --------
    >>> NoisyHistogram(sigma=64.0).charge(147).guarantee(1e-5).epsilon.__round__(5)
    0.99943
    """

    sigma: float
    family: ClassVar[str] = "noisy-histogram"
    #: Released counts are the real ones rounded to multiples of this (post-processing): the low bits of floating-point
    #: noise, by which the true count could be recognised (Mironov 2012), are never there. See :attr:`grid`.
    GRID: ClassVar[float] = 2.0**-10

    @property
    def grid(self) -> float:
        """What released counts are multiples of, in votes: ``GRID``, or some sigma 2^-16 where that is more."""
        return max(self.GRID, 2.0 ** (math.frexp(self.sigma)[1] - 16))

    def charge(self, n_queries: int, max_answers: int | None = None) -> Charge:
        """Return the worst-case cost of releasing ``n_queries`` noisy histograms."""
        asked, _ = self._asked(n_queries, max_answers)
        return Charge.gaussian(sensitivity=VOTE_L2_SENSITIVITY, sigma=self.sigma) * asked

    def public_rdp(self, orders: npt.ArrayLike = DEFAULT_ORDERS) -> npt.NDArray[np.float64]:
        """Return alpha/sigma^2, the exact Renyi divergence of one query, shape (n_orders,), at any orders."""
        return np.asarray(check_orders(orders) / self.sigma**2)

    def sample(self, counts: npt.NDArray[np.int64], noise: NoiseSource, *, max_answers: int | None = None) -> Draw:
        """Draw a noisy histogram per query and its argmax."""
        noisy = rounded_counts(counts, scale=self.sigma, grid=self.grid, source=noise)
        if max_answers is None or max_answers >= len(counts):
            return all_answered(noisy.argmax(axis=1), noisy)
        draw = capped(np.ones(len(counts), dtype=bool), noisy.argmax(axis=1), max_answers)
        noisy[max_answers:] = np.nan
        return Draw(draw.labels, draw.status, noisy)


@dataclass(frozen=True)
class NoisyBallots(NoisyHistogram):
    """For several labels: release, with noise, how many teachers vote for each label, if each votes for only a few.

    Source: Dziedzic et al. (PoPETs 2023), votes clipped to L2 norm tau, with tau^2 = ``most_labels`` and votes of 0 and
    1. The counts are of :class:`pate.votes.BallotVotes`, which :func:`pate.release.clipped_votes` makes.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise on every count, in votes.
    most_labels : int
        The most labels that one teacher says yes to in one row: a public number, the same for all.

    Guarantees
    ----------
    Adjacency replace-one: two ballots v, v' of at most t ones have |v - v'|^2 <= |v|^2 + |v'|^2 <= 2 t, as no entry is
    negative; two of t ones that share none reach it. n rows are exactly sqrt(2 t n)/sigma-GDP, fully adaptive (Dong,
    Roth, Su 2022), however many labels there are. With L labels, votes by label cost L n/sigma^2 at the same noise on
    each number of yes votes (:func:`pate.release.label_votes`): 2 t > L is refused.

    Raises
    ------
    InvalidInputError
        sigma is not a positive number, or most_labels not a whole number >= 1.

    Examples
    --------
    >>> NoisyBallots(sigma=40.0, most_labels=2).charge(100).mu_squared
    0.25
    """

    most_labels: int
    family: ClassVar[str] = "noisy-ballots"

    def __post_init__(self) -> None:
        object.__setattr__(self, "most_labels", check_int("most_labels", self.most_labels, low=1))
        super().__post_init__()

    def check_classes(self, n_classes: int) -> None:
        """Refuse so few labels that votes by label cost less."""
        if 2 * self.most_labels > n_classes:
            raise InvalidInputError(
                f"most_labels must be at most half the number of labels, {n_classes}, got {self.most_labels}: votes "
                "by label (pate.release.label_votes, NoisyHistogram) say more and cost less."
            )

    def charge(self, n_queries: int, max_answers: int | None = None) -> Charge:
        """Return the worst-case cost of ``n_queries`` rows: mu^2 = 2 most_labels n_queries/sigma^2."""
        return super().charge(n_queries, max_answers) * self.most_labels

    def public_rdp(self, orders: npt.ArrayLike = DEFAULT_ORDERS) -> npt.NDArray[np.float64]:
        """Return alpha most_labels/sigma^2, the exact Renyi divergence of one row, shape (n_orders,), at any orders."""
        return super().public_rdp(orders) * self.most_labels


# Mechanisms by name, for the command line, and by what a statement says of them.


_NUMBERS = r"[\d.eE+-]+|\([\d.eE+, -]*\)"
_WRITTEN = re.compile(rf"\b(NoisyHistogram|ConfidentGNMax|GNMax|LNMax)\(((?:\w+=(?:{_NUMBERS})(?:, )?)+)\)")
_PARAMETER = re.compile(rf"(\w+)=({_NUMBERS})")
_PARAMETERS: dict[str, tuple[type[Mechanism], tuple[str, ...]]] = {
    "histogram": (NoisyHistogram, ("sigma",)),
    "gnmax": (GNMax, ("sigma",)),
    "lnmax": (LNMax, ("scale",)),
    "confident-gnmax": (ConfidentGNMax, ("threshold", "sigma_threshold", "sigma")),
}


def named_mechanisms() -> tuple[str, ...]:
    """Return the names that :func:`make_mechanism` knows.

    Examples
    --------
    >>> named_mechanisms()
    ('histogram', 'gnmax', 'lnmax', 'confident-gnmax')
    """
    return tuple(_PARAMETERS)


#: What may be left out.
_OPTIONAL = {"confident-gnmax": ("offsets",)}


def make_mechanism(name: str, **parameters: Any) -> Mechanism:
    """Return a mechanism by its name, made from its own parameters.

    Parameters
    ----------
    name : str
    **parameters : float, sequence of float, or None
        ``sigma``, ``scale``, ``threshold``, ``sigma_threshold``, and ``offsets`` where there are some; None counts as
        not given.

    Raises
    ------
    InvalidInputError
        An unknown name, a parameter missing, or one that this mechanism does not have.

    Examples
    --------
    >>> make_mechanism("gnmax", sigma=40.0)
    GNMax(sigma=40.0)
    >>> make_mechanism("confident-gnmax", sigma=40.0)
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: mechanism 'confident-gnmax' needs threshold, sigma_threshold, sigma; ...
    """
    kind, needed = _PARAMETERS[check_choice("mechanism", name, _PARAMETERS)]
    given = {k: v for k, v in parameters.items() if v is not None}
    own = (*needed, *_OPTIONAL.get(name, ()))
    missing, foreign = [k for k in needed if k not in given], [k for k in given if k not in own]
    if missing or foreign:
        parts = ([f"missing: {', '.join(missing)}"] if missing else []) + (
            [f"not for it: {', '.join(foreign)}"] if foreign else []
        )
        raise InvalidInputError(f"mechanism {name!r} needs {', '.join(needed)}; {'; '.join(parts)}.")
    return kind(**given)


def read_mechanisms(text: str) -> list[Mechanism]:
    """Return the mechanisms that a text names as Python writes them, each once; nothing is run.

    Examples
    --------
    >>> read_mechanisms(
    ...     "GNMax(sigma=40.0), 250 teachers, 10 classes; LNMax(scale=20.0), 50 teachers"
    ... )
    [GNMax(sigma=40.0), LNMax(scale=20.0)]
    >>> read_mechanisms("GNMax(sigma=high)")
    []
    >>> said = "ConfidentGNMax(threshold=9.0, sigma_threshold=2.0, sigma=1.0, offsets={})"
    >>> read_mechanisms(said.format("(1.5, -2.0)"))[0].offsets
    (1.5, -2.0)
    """
    kinds = {kind.__name__: name for name, (kind, _) in _PARAMETERS.items()}
    found: dict[Mechanism, None] = {}
    for kind, inside in _WRITTEN.findall(text):
        try:
            given = {name: _number(said) for name, said in _PARAMETER.findall(inside)}
            found[make_mechanism(kinds[kind], **given)] = None
        except ValueError:  # no numbers, or not this mechanism's (an InvalidInputError is one)
            continue
    return list(found)


def _number(said: str) -> float | tuple[float, ...]:
    if not said.startswith("("):
        return float(said)
    return tuple(float(part) for part in said[1:-1].split(",") if part.strip())
