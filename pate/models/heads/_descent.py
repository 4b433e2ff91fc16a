"""A head fitted in many rounds: each noisy sum of clipped residuals is one step of gradient descent."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np

from pate._core.checks import check_int, check_real
from pate._core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.models.heads._linear import LinearHead, ReleasedBallots, clip_of

#: Components are shrunk in groups: so many of the largest first, then twice as many each time.
_FIRST_GROUP = 4
#: Share of a James-Stein shrinkage that is applied; all of it would lose weak signals that many groups share.
_SHRUNK_BY = 0.75
#: The most that a round moves a weight, if all records agree: with little noise steps get no longer than this.
_LONGEST = 200.0
#: A group's steps are halved when two sums in a row point against each other by more than so many standard deviations
#: of the noise: such steps overshoot, and would go on to and fro.
_AGAINST = 4.0


class DescentHead(LinearHead):
    """Softmax regression by gradient descent: each step uses one released noisy sum of the records' clipped residuals.

    In every round each record votes with its residual, how far the model so far is off for it: phi(x) (x) clip_C(e_y -
    p(x)), with this head's probabilities p so far. The released sum moves the weights. The fixed point is where the
    clipped residuals of the *private* records cancel. Public rows matter only for the map phi, so they may be few, or
    drawn from another distribution. With a small clip C nearly every residual has full norm, at a sensitivity of 2C (C
    where one record is added or removed).

    Round k of K with noise sigma_k moves the weights by ``logit_noise`` / (sigma_k sqrt K) times its sum, and less
    where there is hardly any noise: that of all rounds together is at most ``logit_noise`` on every weight, and on the
    logit of a row of length 1, for any budget, clip and shares. Where few directions carry all rows, such steps may
    overshoot: a group of components whose sums turn round halves its steps from then on (as in Rprop, Riedmiller and
    Braun, ICNN 1993, by groups). The known variance shrinks the weights: group by group
    of components (the largest first, and the constant by itself) by most of what a positive-part James-Stein
    estimate takes off (Efron and Morris, JASA 68, 1973).

    Rounds chosen by what earlier ones gave compose: mu^2 adds up (Dong, Roth & Su, "Gaussian Differential Privacy",
    JRSS B 84, 2022, Corollary 2); steps and shrinking are post-processing (Dwork & Roth 2014, Proposition 2.1). It
    resembles DP-SGD on all records at once (Bassily, Smith & Thakurta, FOCS 2014).

    Parameters
    ----------
    n_rounds : int
        K.
    logit_noise : float
    constant : bool
        The last component of the ballots' space is a constant.

    Attributes
    ----------
    coef_ : float64 array of shape (n_components, n_classes)
        The shrunk weights, which give the logits.
    sum_ : float64 array of shape (n_components, n_classes)
        The sum of all steps so far.
    n_seen_ : int
        The number of rounds so far.
    variance_ : float
        Variance of the noise in each entry of ``sum_``, before its rows are centred.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> head = DescentHead(n_rounds=2, constant=False).start(1, (0, 1))
    >>> for votes in ([[4.0, -4.0]], [[2.0, -2.0]]):
    ...     head = head.updated(
    ...         SimpleNamespace(
    ...             statistics=votes, sigma=4.0, n_units=100, classes=(0, 1), clip=0.1
    ...         )
    ...     )
    >>> head.predict_proba([[1.0]]).round(3)
    array([[0.906, 0.094]])
    """

    fitted_arrays: ClassVar[tuple[str, ...]] = ("coef_", "sum_")
    fitted_scalars: ClassVar[tuple[str, ...]] = ("n_seen_", "variance_")

    sum_: FloatArray
    n_seen_: int
    variance_: float
    #: Of the last round: its sums, and the factor of each component's steps. No file keeps them.
    _last: FloatArray | None = None
    _pace: FloatArray | None = None

    def __init__(self, *, n_rounds: int = 40, logit_noise: float = 1.6, constant: bool = True) -> None:
        self.n_rounds = n_rounds
        self.logit_noise = logit_noise
        self.constant = constant

    def start(self, n_components: int, classes: tuple[Any, ...]) -> Self:
        """Return the head before the first round: every class is as probable.

        Raises
        ------
        InvalidInputError
            A setting out of range.
        """
        check_int("n_rounds", self.n_rounds, low=1)
        check_real("logit_noise", self.logit_noise, low=0, low_open=True)
        new = type(self)(**self.get_params(deep=False))
        new.classes_, new.n_seen_, new.variance_ = tuple(classes), 0, 0.0
        new.coef_ = np.zeros((check_int("n_components", n_components, low=1), len(new.classes_)))
        new.sum_ = new.coef_.copy()
        return new

    def fit(self, release: ReleasedBallots, phi_public: Any) -> Self:
        """Refuse: this head is fitted round by round, by :meth:`start` and :meth:`updated`."""
        raise InvalidInputError("a DescentHead learns round by round. Call start(n_components, classes), then updated.")

    def updated(self, release: ReleasedBallots, phi_public: Any = None) -> Self:
        """Return the head after one more round, a release of ``voters.cast_residuals(X, y, this_head, clip=...)``.

        A release of class ballots, of other classes or another space, or one round too many is an InvalidInputError.
        """
        sums = np.asarray(release.statistics, dtype=np.float64)
        clip = clip_of(release)
        if tuple(release.classes) != self.classes_ or sums.shape != self.sum_.shape:
            raise InvalidInputError("head and release must have one space and the same classes in the same order.")
        if self.n_seen_ >= self.n_rounds:
            raise InvalidInputError(f"this head has had its {self.n_rounds} rounds. Make it with a larger n_rounds.")
        sigma = check_real("release.sigma", release.sigma, low=0)
        step = self.step(sigma, clip, check_int("release.n_units", release.n_units, low=1))
        sums = sums - sums.mean(axis=1, keepdims=True)
        new = self.start(len(self.sum_), self.classes_)
        new._last, new._pace = sums, self._paced(sums, sigma)
        new.sum_ = self.sum_ + step * new._pace[:, None] * sums
        new.n_seen_, new.variance_ = self.n_seen_ + 1, self.variance_ + (step * sigma) ** 2
        new.coef_ = new.sum_ * new.left()[:, None]
        return new

    def step(self, sigma: float, clip: float, n_units: int) -> float:
        """Return the step length, a factor of a round's sums; ``sigma`` is the noise in each of them."""
        longest = _LONGEST / (n_units * clip)
        return min(longest, self.logit_noise / (sigma * math.sqrt(self.n_rounds))) if sigma > 0 else longest

    def _paced(self, sums: FloatArray, sigma: float) -> FloatArray:
        """Return the factor of each component's next step: halved for groups whose sums turned round."""
        pace = np.ones(len(sums)) if self._pace is None else self._pace.copy()
        if self._last is not None:
            for group in _groups(len(sums), constant=self.constant):
                now, before = sums[group], self._last[group]
                noise = sigma * math.sqrt(float(np.square(now).sum() + np.square(before).sum()))
                if float((now * before).sum()) < -_AGAINST * noise:
                    pace[group] /= 2
        return pace

    def agreement(self) -> tuple[float, float]:
        """Return <W, S> minus the expected contribution of noise, and its variance by noise; S sums all steps. Public.

        The weights W = g(S) are a function of S: noise of variance v in S adds v div g on average (Stein, Annals of
        Statistics 9, 1981; the derivative of the shrinking itself is left out).

        Examples
        --------
        >>> from types import SimpleNamespace
        >>> head = DescentHead(n_rounds=1, constant=False).start(1, (0, 1))
        >>> release = SimpleNamespace(
        ...     statistics=[[9.0, -9.0]], sigma=4.0, n_units=100, classes=(0, 1), clip=0.1
        ... )
        >>> [round(value, 1) for value in head.updated(release).agreement()]
        [21.6, 56.9]
        """
        left, m = self.left(), self.sum_.shape[1]
        found = float((self.coef_ * self.sum_).sum()) - self.variance_ * (m - 1) * float(left.sum())
        return found, self.variance_ * float(np.square(self.coef_).sum())

    def logit_variance(self, phi: Any) -> float:
        """Return the variance by noise of the difference of two logits, the mean over these rows. Public.

        Examples
        --------
        >>> from types import SimpleNamespace
        >>> head = DescentHead(n_rounds=1, constant=False).start(1, (0, 1))
        >>> release = SimpleNamespace(
        ...     statistics=[[9.0, -9.0]], sigma=4.0, n_units=100, classes=(0, 1), clip=0.1
        ... )
        >>> round(head.updated(release).logit_variance([[1.0]]), 2)  # of 2 * 1.6^2, shrunk
        4.39
        """
        seen = np.asarray(phi, dtype=np.float64) * self.left()
        return 2 * self.variance_ * float(np.square(seen).sum(axis=1).mean()) if len(seen) else 0.0

    def left(self) -> FloatArray:
        """Return the factor by which the weights of each component are shrunk, from .25 to 1. Public."""
        d, m = self.sum_.shape
        left = np.ones(d)
        for group in _groups(d, constant=self.constant):
            noise = self.variance_ * (group.stop - group.start) * (m - 1)
            size = float(np.square(self.sum_[group]).sum())
            if noise > 0:
                left[group] = 1 - _SHRUNK_BY * (noise / size if noise < size else 1.0)
        return left


def _groups(d: int, *, constant: bool) -> Iterator[slice]:
    """Yield the groups of components that are shrunk together."""
    last = d - 1 if constant and d > 1 else d
    start = 0
    while start < last:
        stop = min(last, max(start + _FIRST_GROUP, 2 * start))
        yield slice(start, stop)
        start = stop
    if last < d:
        yield slice(last, d)
