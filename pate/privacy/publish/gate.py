"""Propose, test, release: a data-dependent cost with an epsilon that is a constant known before the run.

Propose a cost tau. Let f_d(D) bound the Renyi cost of all the queries together, both directions, for every data set
within d teachers of D (:mod:`.tail_bound`), and Gamma(D) the largest d with f_d(D) <= tau. A neighbour D'
has f_{d-1}(D') <= f_d(D), so Gamma moves by at most 1 with a data set's neighbour. Test Gamma + N(0, w^2) against w
Phi^-1(1 - delta0); answer the queries only if it passes.

Proof of the guarantee. The test's bit is a function of Gamma + N(0, w^2): RDP order/(2 w^2). If Gamma(D) >= 0, or
Gamma(D') >= 0, then f_0 there is at most tau and bounds the queries' cost between D and D' in both directions, so bit
and answers together cost tau + order/(2 w^2). If both are negative, either passes with probability at most delta0;
off that event only the bit (or the fallback, which costs at most tau too) is seen. Hence (epsilon, delta - delta0) of
the sum, plus delta0.

Generalised propose-test-release: Redberg, Zhu, Wang 2023. Gamma is computed on a lattice of d that has 1 as a
multiple, so that it is attained; one step more is charged for rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from pate._core.checks import check_real
from pate.exceptions import InvalidInputError, PateError
from pate.privacy.budget import Budget
from pate.privacy.compose.calibrate import BudgetBackend
from pate.privacy.convert import DEFAULT_ORDERS, check_delta, check_orders, delta_left, rdp_to_epsilon
from pate.privacy.cost import Charge
from pate.privacy.noise import real_at_least
from pate.privacy.noise.source import NoiseSource
from pate.privacy.public_curve import rho_star, threshold_rho_star
from pate.privacy.publish.tail_bound import QueryScores, TailBound, outcome_scores
from pate.privacy.words import Guarantee

T = TypeVar("T")

_STEPS_PER_TEACHER = 1024
#: One lattice step for rounding.
_SENSITIVITY = 1 + 1 / _STEPS_PER_TEACHER
#: Gamma is clipped to this many widths either side, which keeps it Lipschitz.
_CLIP_WIDTHS = 40


def query_scores(
    counts: npt.ArrayLike, sigma: float, *, threshold: float | None = None, sigma_threshold: float | None = None
) -> QueryScores:
    """Return the scores Phi^-1(p) of the exact law of every query; private numbers.

    Parameters
    ----------
    counts : array-like of shape (n_queries, n_classes), or anything with such ``counts``
    sigma, threshold, sigma_threshold : float
        In votes; with a threshold it is Confident-GNMax.
    """
    # Not at the top: the exact law is the heavier module of the two, and this one is read by `import pate.privacy`.
    from pate.privacy.exact import GaussianNoise, log_probs

    check_together(threshold, sigma_threshold)
    votes = np.asarray(getattr(counts, "counts", counts))
    law = log_probs(votes, noise=GaussianNoise(sigma))
    if threshold is None or sigma_threshold is None:
        return outcome_scores(law)
    return outcome_scores(law, (votes.max(axis=1) - threshold) / sigma_threshold)


def check_together(threshold: float | None, sigma_threshold: float | None) -> None:
    """Refuse half of a threshold test."""
    if (threshold is None) != (sigma_threshold is None):
        raise InvalidInputError("threshold and sigma_threshold belong together: pass both or neither.")


class PTRGate:
    """A one-shot gate: all queries of a batch are answered at a proposed cost, or none is.

    Parameters
    ----------
    sigma : float
        Standard deviation of the continuous Gaussian noise on every count of GNMax, in votes.
    order : float
        Renyi order.
    tau : float
        Proposed Renyi cost at ``order`` of all the queries together.
    width : float
        Standard deviation of the test's noise, in teachers.
    delta : float
        Of the whole guarantee.
    delta0 : float
        The part of delta for passing where the proposal is wrong; below ``delta``.
    threshold, sigma_threshold : float or None
        Those of Confident-GNMax, in votes.
    public : float or None
        Public cost of one query at ``order``, as ``mechanism.public_rdp([order])[0]``; None takes the Gaussian one.

    Guarantees
    ----------
    :attr:`guarantee` is a constant of these parameters, true for every data set under replace-one adjacency, both
    directions. It needs: continuous Gaussian noise; a batch (the queries are fixed before the test and do not depend
    on the answers); the parameters, ``tau`` above all, chosen without looking at the votes (from other data, or from
    a planned consensus); and a fallback, if any, that costs at most ``tau`` at ``order`` (:meth:`fallback_queries`).
    Each gate tests once; several gates for several batches compose by adding their :attr:`charge`.
    """

    def __init__(
        self,
        *,
        sigma: float,
        order: float,
        tau: float,
        width: float,
        delta: float,
        delta0: float,
        threshold: float | None = None,
        sigma_threshold: float | None = None,
        public: float | None = None,
    ) -> None:
        self.sigma = check_real("sigma", sigma, low=0, low_open=True)
        self.order = check_real("order", order, low=1, low_open=True)
        self.tau = check_real("tau", tau, low=0, low_open=True)
        self.width = check_real("width", width, low=0, low_open=True, remedy="In teachers, such as 4.")
        self.delta = check_delta(delta)
        self.delta0 = check_real(
            "delta0", delta0, low=0, high=self.delta, low_open=True, high_open=True, remedy="Take a tenth of delta."
        )
        check_together(threshold, sigma_threshold)
        self.threshold = None if threshold is None else check_real("threshold", threshold)
        self.sigma_threshold = sigma_threshold
        _check_public(public, self.order, self.sigma, sigma_threshold)
        self._bound = TailBound(sigma=self.sigma, order=self.order, sigma_threshold=sigma_threshold, public=public)
        self._passed: bool | None = None
        self._seeded = False
        #: The gate's number in a ledger, if it was charged there.
        self.release: int | None = None

    def __repr__(self) -> str:
        state = "not tested" if self._passed is None else "passed" if self._passed else "refused"
        return (
            f"PTRGate(sigma={self.sigma:g}, order={self.order:g}, tau={self.tau:g}, width={self.width:g}, "
            f"delta={self.delta:g}, delta0={self.delta0:g}: {state})"
        )

    @property
    def passed(self) -> bool | None:
        """Whether the test passed, None before it; this bit is paid for and may be published."""
        return self._passed

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of test and answers (or fallback) together: a constant known before the run."""
        cost = self.tau + self._test_cost(self.order)
        epsilon, order = rdp_to_epsilon([cost], delta_left(self.delta, self.delta0), orders=[self.order])
        return Guarantee(
            epsilon=epsilon,
            delta=self.delta,
            kind="seeded" if self._seeded else "public",
            method=f"ptr, tau {self.tau:g}, width {self.width:g}, delta0 {self.delta0:g}",
            order=order,
            adaptivity="fixed queries",
        )

    @property
    def charge(self) -> Charge:
        """The cost of test and answers (or fallback) together: a Renyi curve up to the gate's order, and its delta0."""
        if self._seeded:
            raise InvalidInputError("a cost must be of real noise; this gate was tested with a seed.")
        orders = tuple(sorted({a for a in (*DEFAULT_ORDERS, self.order) if a <= self.order}))
        return Charge(math.inf, tuple(self.rdp(orders).tolist()), orders=orders, delta0=self.delta0)

    def _test_cost(self, order: float) -> float:
        return order * (_SENSITIVITY / self.width) ** 2 / 2

    def rdp(self, orders: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the Renyi curve of test and answers, for composition; it holds with probability 1 - delta0.

        Parameters
        ----------
        orders : array-like of shape (n_orders,)

        Returns
        -------
        array of shape (n_orders,)
            Infinite above the gate's order; below it Renyi divergences only fall.
        """
        alphas = check_orders(orders)
        return np.where(alphas <= self.order, self.tau + alphas * self._test_cost(1.0), np.inf)

    def fallback_queries(self, public: float | None = None) -> int:
        """Return how many queries a fallback may answer at the public cost ``public`` each, at no further charge."""
        each = self._bound.cap if public is None else check_real("public", public, low=0, low_open=True)
        return math.floor(self.tau / each * (1 + 1e-12))

    def test(self, counts: npt.ArrayLike, noise: NoiseSource, *, ledger: BudgetBackend | None = None) -> bool:
        """Test once whether the proposal holds with a margin; the answer is the only thing that leaves.

        Parameters
        ----------
        counts : array-like of shape (n_queries, n_classes), or anything with such ``counts``
            All the votes of the batch.
        noise : NoiseSource
        ledger : Ledger (or another BudgetBackend) or None
            Charge the whole gate there, test and answers, before the test's noise is drawn; :attr:`release` is then
            the number under which the answers can be stored (:meth:`pate.Ledger.add_answers`).
        """
        return self._tested(counts, counts, noise, ledger)

    def _tested(self, counts: npt.ArrayLike, votes: Any, noise: NoiseSource, ledger: BudgetBackend | None) -> bool:
        """Test ``counts``; ``votes`` are what they were copied from, and know whose they are."""
        if self._passed is not None or self.release is not None:
            raise PateError("this gate has been used: a second test would cost a second time. Make a new PTRGate.")
        scores = query_scores(counts, self.sigma, threshold=self.threshold, sigma_threshold=self.sigma_threshold)
        gamma = safe_distance(scores, self._bound, self.tau, limit=_CLIP_WIDTHS * self.width)
        if ledger is not None:
            self.release = ledger.pay(
                self.charge,
                what=repr(self).partition(":")[0] + ")",
                kind="gate",
                total=Budget(self.guarantee.epsilon, self.delta),
                votes=votes,
                n_queries=len(scores.answers),
                seeded=noise.seeded,
                open_ended=True,
            )
        self._seeded = noise.seeded
        # Gamma is a whole number of lattice steps: the bit is decided as for real noise.
        cut = -self.width * float(ndtri(self.delta0)) * (1 + 1e-12)
        steps = np.array([round(gamma * _STEPS_PER_TEACHER)])
        self._passed = bool(
            real_at_least(
                steps, threshold=cut * _STEPS_PER_TEACHER, scale=self.width * _STEPS_PER_TEACHER, source=noise
            )[0]
        )
        return self._passed

    def run(
        self,
        counts: npt.ArrayLike,
        noise: NoiseSource,
        release: Callable[[npt.NDArray[Any]], T],
        *,
        fallback: Callable[[npt.NDArray[Any]], T] | None = None,
        ledger: BudgetBackend | None = None,
    ) -> T | None:
        """Test ``counts``, then release from the very same counts, or fall back.

        Parameters
        ----------
        counts : array-like of shape (n_queries, n_classes), or anything with such ``counts``
        noise : NoiseSource
        release : callable
            Given the counts: GNMax (or Confident-GNMax) with the gate's noise, one answer a query.
        fallback : callable or None
            Given the counts when refused; must cost at most ``tau`` at ``order``. None releases nothing.
        ledger : Ledger or None
            As for :meth:`test`.
        """
        # Our own copy: what is tested is what is released.
        own = np.array(getattr(counts, "counts", counts))
        own.setflags(write=False)
        if self._tested(own, counts, noise, ledger):
            return release(own)
        return None if fallback is None else fallback(own)


def _check_public(public: float | None, order: float, sigma: float, sigma_threshold: float | None) -> None:
    """Refuse a public cost below the certified one: it would cap every query's bound below the truth."""
    if public is None:
        return
    least = float(rho_star([order], sigma)[0])
    if sigma_threshold is not None:
        least += float(threshold_rho_star([order], sigma_threshold)[0])
    remedy = "It is the mechanism's own public_rdp([order]); None takes the Gaussian cost."
    check_real("public", public, low=least * (1 - 1e-9), remedy=remedy)


def safe_distance(scores: QueryScores, bound: TailBound, tau: float, *, limit: float) -> float:
    """Return Gamma: the largest d, in steps of 1/1024 teacher, with f_d <= tau, within +-limit. A private number."""
    low, high = -math.ceil(limit * _STEPS_PER_TEACHER), math.ceil(limit * _STEPS_PER_TEACHER)

    def holds(step: int) -> bool:
        return float(bound.cost(scores, step / _STEPS_PER_TEACHER).sum()) <= tau

    if holds(high):
        return high / _STEPS_PER_TEACHER
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    # low itself may fail at the lower end: clipping keeps the Lipschitz constant.
    return low / _STEPS_PER_TEACHER


def ptr(
    counts: npt.ArrayLike, sigma: float, *, noise: NoiseSource, ledger: BudgetBackend | None = None, **proposal: Any
) -> PTRGate:
    """Make a :class:`PTRGate` and test ``counts`` with it; see there for the parameters and the guarantee.

    All parameters (``proposal``: tau, order, width, delta, delta0, threshold, sigma_threshold, public) are chosen
    without looking at the votes. With ``ledger`` the gate is charged there first.
    """
    gate = PTRGate(sigma=sigma, **proposal)
    gate.test(counts, noise, ledger=ledger)
    return gate
