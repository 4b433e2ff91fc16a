"""An upper bound on the cost of noisy-max answers that moves slowly with the votes.

For any event A of the noisy counts N(n, sigma^2 I) let v_A(n) = Phi^-1(Pr_n[A]) be its *score*.

Lemma 1 (Lipschitz). |v_A(n') - v_A(n)| <= |n' - n| / sigma. By the Neyman-Pearson lemma no test of N(n, sigma^2 I)
against N(n', sigma^2 I) does better than the half-space orthogonal to n' - n, and for that one Phi^-1 of its
probability moves by exactly |n' - n| / sigma; the same for the complement of A. One replaced vote: mu =
sqrt(2)/sigma; d teachers: d mu.

Lemma 2 (bystanders). For the event "class j wins" and a vote moved from u to b, neither of them j, the score moves by
at most mu/2. The gradient g of v_j has |g| <= 1 (Lemma 1), entries that sum to 0 (adding a constant to all counts
changes nothing), g_j >= 0 and the others <= 0. Hence |g_i| <= g_j and g_i^2 + g_j^2 <= 1, so |g_i| <= 1/sqrt(2), and
|g_b - g_u| <= max(|g_b|, |g_u|) <= 1/sqrt(2) at every point between n and n'.

Lemma 3 (terms). exp((a-1) D_a(P || P')) - 1 = sum_j T(P_j, P'_j), each term at most psi_s(v_j) when the score of j
moves by at most s, in both directions (:mod:`pate.privacy.publish.term_tables`).

Bound. Over the two classes {u, b} that a vote can touch, max of psi_mu(v_u) + psi_mu(v_b) + sum of psi_{mu/2} of the
others. It is symmetric in the classes, so only the sorted scores matter, and order statistics are as Lipschitz as the
scores. For data sets d teachers away each psi is replaced by the lesser of its largest value on (-inf, v + d mu] and
on [v - d mu, inf) (first form), or the losers' probabilities are at most c_k = Phi(v_k + d mu) each and Phi(r + d mu)
together, r the score of "not the most likely class" (second form). With H a concave, nondecreasing majorant of psi as
a function of p, the largest sum of H under these is water-filling; the touched loser is the one with the largest cap,
by exchange, once the surplus H_mu - H_{mu/2} is replaced by its running maximum. Every step only grows with d and
with the scores, so n' at d - 1 is never above n at d, for every real d, negative ones too.

Confident-GNMax answers with probability s = Phi(t), t = (max n - T)/sigma_1, which moves by 1/sigma_1:
exp((a-1) D) - 1 <= s^a s'^(1-a) K_label + K_test, each factor bounded by its largest value in reach.

Continuous Gaussian noise only: discrete Gaussian noise has no Lemma 1 with the same constant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp, ndtr, ndtri_exp

from pate.core.checks import check_real
from pate.core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.privacy.publish.term_tables import LOG_SLACK, SCORE_SLACK, TermTable, answer_weights, loser_tables, term_table

#: Ways to split the losers' mass; queries at once.
_SPLITS = 16
_CHUNK = 1 << 14


@dataclass(frozen=True, repr=False)
class QueryScores:
    """Scores Phi^-1 of the outcomes of queries: private numbers, not shown.

    Attributes
    ----------
    answers : (n_queries, n_classes)
        Of the classes, in decreasing order.
    rest : (n_queries,)
        Of "not the most likely class".
    test : (n_queries,) or None
        Of "answered", (max n - T) / sigma_1, where there is a threshold.
    """

    answers: FloatArray
    rest: FloatArray
    test: FloatArray | None = None

    def __repr__(self) -> str:
        return f"QueryScores({len(self.rest)} queries)"


def outcome_scores(log_probs: npt.ArrayLike, test: npt.ArrayLike | None = None) -> QueryScores:
    """Return the scores of exact laws.

    Parameters
    ----------
    log_probs : array-like of shape (n_queries, n_classes)
        Natural logs of the law of the noisy maximum; each row is a whole law.
    test : array-like of shape (n_queries,) or None
        Score of passing the threshold test.

    Returns
    -------
    QueryScores
        In standard deviations. The most likely class is taken from the sum of the others where that keeps more digits.

    Examples
    --------
    >>> scores = outcome_scores(np.log([[0.5, 0.5], [1e-9, 1 - 1e-9]]))
    >>> scores.answers.round(4) + 0.0
    array([[ 0.    ,  0.    ],
           [ 5.9978, -5.9978]])
    """
    log_p = np.atleast_2d(np.asarray(log_probs, dtype=np.float64))
    if log_p.ndim != 2 or log_p.shape[1] < 2 or np.isnan(log_p).any():
        raise InvalidInputError(f"log_probs must have shape (n_queries, n_classes >= 2), got {log_p.shape}.")
    log_p = np.minimum(-np.sort(-log_p, axis=1), 0.0)
    answers = np.asarray(ndtri_exp(log_p))
    rest = np.asarray(ndtri_exp(np.minimum(logsumexp(log_p[:, 1:], axis=1), 0.0)))
    answers[:, 0] = np.where(rest < 0, -rest, answers[:, 0])
    return QueryScores(answers, rest, None if test is None else np.asarray(test, dtype=np.float64))


@dataclass(frozen=True)
class TailBound:
    """A bound on the cost of noisy-max queries, for all data sets within so many teachers, in O(1) a query.

    Parameters
    ----------
    sigma : float
        Standard deviation of the continuous Gaussian noise on every count, in votes.
    order : float
        Renyi order, above 1.
    sigma_threshold : float or None
        Standard deviation of the noise of Confident-GNMax's test, in votes; None for GNMax.
    public : float or None
        Public cost of one query at this order, a constant; None takes the Gaussian one.

    Guarantees
    ----------
    Adjacency replace-one (one vote a query is replaced). ``cost(outcome_scores(law), d)`` with d >= 0 bounds both
    directions of the Renyi divergence between any data set within d teachers of this one and any neighbour of it.
    ``cost(scores, d)`` grows with d, and that of a neighbour at d - 1 is at most that of this one at d, for all
    real d. Proof: module docstring. The values depend on the votes: they are private numbers.

    Raises
    ------
    InvalidInputError
        A noise is not positive, or the order not above 1.

    Examples
    --------
    >>> bound = TailBound(sigma=40.0, order=8.0)
    >>> scores = outcome_scores(np.log([[1 - 1e-4, 1e-4], [0.5, 0.5]]))
    >>> bound.cost(scores, [0.0, 20.0]).round(5)
    array([[...e-05, ...e-03],
           [...]])
    """

    sigma: float
    order: float
    sigma_threshold: float | None = None
    public: float | None = None

    def __post_init__(self) -> None:
        check_real("sigma", self.sigma, low=0, low_open=True)
        check_real("order", self.order, low=1, low_open=True)
        if self.sigma_threshold is not None:
            check_real("sigma_threshold", self.sigma_threshold, low=0, low_open=True)
        if self.public is not None:
            check_real("public", self.public, low=0)

    @property
    def cap(self) -> float:
        """The public cost of one query at ``order``."""
        if self.public is not None:
            return self.public
        test = 0.0 if self.sigma_threshold is None else self.sigma_threshold**-2
        return self.order * (self.shift**2 + test) / 2

    @property
    def shift(self) -> float:
        """mu: how far one teacher can move the score of a class, in standard deviations."""
        return math.sqrt(2) / self.sigma

    def cost(self, scores: QueryScores, distance: npt.ArrayLike = 0.0) -> FloatArray:
        """Bound the Renyi cost of every query at this order, both directions.

        Parameters
        ----------
        scores : QueryScores
        distance : float or array-like of shape (n_distances,)
            Number of changed teachers; real, negative allowed.

        Returns
        -------
        array of shape (n_queries,) or (n_distances, n_queries)

        Examples
        --------
        >>> TailBound(sigma=40.0, order=8.0).cost(outcome_scores(np.log([[0.5, 0.5]])), 0).round(4)
        array([0.0034])
        """
        distances = np.atleast_1d(np.asarray(distance, dtype=np.float64))
        out = np.empty((len(distances), len(scores.rest)))
        for k, d in enumerate(distances):
            for start in range(0, len(scores.rest), _CHUNK):
                part = slice(start, start + _CHUNK)
                out[k, part] = self._cost(
                    scores.answers[part],
                    scores.rest[part],
                    None if scores.test is None else scores.test[part],
                    float(d),
                )
        return np.asarray(out[0] if np.ndim(distance) == 0 else out)

    def _cost(self, v: FloatArray, rest: FloatArray, test: FloatArray | None, d: float) -> FloatArray:
        move = d * self.shift
        touched, aside = (_in_reach(term_table(shift, self.order), v, move) for shift in (self.shift, self.shift / 2))
        touched = np.maximum(touched, aside)
        log_k = np.minimum(_first_form(touched, aside), self._second_form(touched, aside, v, rest, move))
        if (test is None) != (self.sigma_threshold is None):
            raise InvalidInputError("scores and bound disagree about the threshold test.")
        if test is not None and self.sigma_threshold is not None:
            one = 1 / self.sigma_threshold
            table = term_table(one, self.order)
            log_test = np.logaddexp(_in_reach(table, test, d * one), _in_reach(table, -test, d * one))
            # The first of the pair may be the neighbour, one teacher further.
            weight = answer_weights(one, self.order).up_to(test + (d + 1) * one)
            log_k = np.logaddexp(weight + log_k, log_test)
        rdp = np.logaddexp(0.0, log_k) / (self.order - 1)
        return np.asarray(np.minimum(rdp * (1 + LOG_SLACK), self.cap))

    def _second_form(
        self, touched: FloatArray, aside: FloatArray, v: FloatArray, rest: FloatArray, move: float
    ) -> FloatArray:
        p, low, high, log_scale = loser_tables(self.shift, self.shift / 2, self.order)
        caps = ndtr(v[:, 1:] + move + SCORE_SLACK)
        mass = ndtr(rest + move + SCORE_SLACK)
        best = np.zeros(len(v))
        for k in range(_SPLITS):
            # The touched loser has at most this much, the others share what is left.
            first = np.interp(np.minimum(mass * ((k + 1) / _SPLITS), caps[:, 0]), p, high)
            best = np.maximum(best, first + _water_fill(caps[:, 1:], mass * (1 - k / _SPLITS), p, low))
        # The second touched class: the leader, or a loser with at most half of the mass.
        surplus = np.zeros(len(v))
        if v.shape[1] > 2:
            half = np.minimum(mass / 2, caps[:, 1])
            surplus = np.interp(half, p, high) - np.interp(half, p, low)
        with np.errstate(under="ignore"):
            leader = np.logaddexp(aside[:, 0], np.log(np.maximum(surplus, 1e-300)) + log_scale)
        return np.asarray(np.logaddexp(np.log(best) + log_scale, np.maximum(touched[:, 0], leader)))


def _in_reach(table: TermTable, scores: FloatArray, move: float) -> FloatArray:
    return np.minimum(table.up_to(scores + move), table.from_(scores - move))


def _first_form(touched: FloatArray, aside: FloatArray) -> FloatArray:
    """Log of max over pairs of classes, relative to the largest term: orders times log-ratios pass 700."""
    scale = touched.max(axis=1, keepdims=True)
    with np.errstate(under="ignore"):
        extra = np.exp(touched - scale) - np.exp(aside - scale)
        two = np.partition(extra, -2, axis=1)[:, -2:].sum(axis=1)
        return np.asarray(scale[:, 0] + np.log(np.exp(aside - scale).sum(axis=1) + two))


def _water_fill(caps: FloatArray, mass: FloatArray, p: FloatArray, values: FloatArray) -> FloatArray:
    """Largest sum of a concave, nondecreasing table over parts below decreasing ``caps`` that add up to ``mass``."""
    n = caps.shape[1]
    if not n:
        return np.zeros(len(caps))
    smallest = np.concatenate([np.zeros((len(caps), 1)), np.cumsum(caps[:, :0:-1], axis=1)], axis=1)
    level = ((mass[:, None] - smallest) / np.arange(n, 0, -1)).max(axis=1)
    return np.asarray(np.interp(np.minimum(caps, level[:, None]), p, values).sum(axis=1))
