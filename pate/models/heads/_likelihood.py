"""Heads that maximise the likelihood of all released noisy sums."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from scipy.optimize import minimize

from pate._core.checks import check_classes, check_int, check_real
from pate._core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.models.heads._linear import Head, Moments, ReleasedBallots, clip_of, public_rows, read_moments, softmax
from pate.records import fingerprint_of, is_own
from pate.records.spaces import BallotSpace
from pate.representations import own_product

#: The constant feature: smaller than the others, as sums of centred directions hold little information on it.
_CONST = 0.2


@dataclass(frozen=True, eq=False)
class _Round:
    """One release: its sums, their inverse variances, and the public rows that model them.

    ``asked`` and ``scales`` are of residual rounds: the probabilities of the model then, and the factor by which the
    residual of a record of each class was clipped.
    """

    sums: FloatArray
    weights: FloatArray
    phi: FloatArray
    per_row: float
    asked: FloatArray | None = None
    scales: FloatArray | None = None

    def votes(self, p: FloatArray) -> FloatArray:
        """Return the mean ballot of records with these probabilities, per public row; times phi it gives their sums."""
        if self.asked is None or self.scales is None:
            r = p - 1 / p.shape[1]
        else:
            r = p * self.scales
            r -= self.asked * r.sum(axis=1, keepdims=True)
        r *= self.per_row
        return r

    def back(self, g: FloatArray) -> FloatArray:
        """Return the transpose of :meth:`votes` (of its linear part)."""
        g = self.per_row * g
        if self.asked is None or self.scales is None:
            return g
        g -= (self.asked * g).sum(axis=1, keepdims=True)
        g *= self.scales
        return g


def _misfit(rounds: list[_Round], p: FloatArray) -> tuple[float, FloatArray]:
    """Return half the squared, weighted misfit of rounds on the same public rows, and its gradient in ``p``."""
    phi, m = rounds[0].phi, p.shape[1]
    # One product for all rounds; transposed, as a thin matrix is faster in front.
    expected = np.concatenate([one.votes(p) for one in rounds], axis=1).T @ phi
    gaps = [e.T - one.sums for one, e in zip(rounds, expected.reshape(len(rounds), m, -1), strict=True)]
    pulls = [one.weights[:, None] * gap for one, gap in zip(rounds, gaps, strict=True)]
    value = 0.5 * sum(float((pull * gap).sum()) for pull, gap in zip(pulls, gaps, strict=True))
    found = phi @ np.concatenate(pulls, axis=1)
    slope = np.zeros_like(p)
    for i, one in enumerate(rounds):
        slope += one.back(found[:, i * m : (i + 1) * m])
    return value, slope


class LikelihoodHead(Head):
    """Softmax regression on public features, fitted by maximum likelihood to the released noisy sums.

    With p(x) = softmax(psi(x) W) the records' sums have the expectation n E_pub[phi (p - 1/m)], and for a round of
    residuals of a public model q, clipped to C, n E_pub[phi (s p - q <s, p>)] with s_c = min(1, C/|e_c - q|): the
    effect of clipping is modelled. W maximises the Gaussian likelihood of all rounds and a Gaussian prior on
    W: unlike least squares it keeps probabilities in the simplex, and the model's features may differ from the
    ballots' space.

    The noise's variance is known; to it is added what sampling n records and modelling them by N public rows adds,
    n (1 + n/N) E_pub[phi_j^2] (1 - 1/m)/m per cell. Rows that are not drawn alike (covariate shift) bias it. All of it
    is post-processing, and free: Dwork & Roth (2014), Proposition 2.1.

    Parameters
    ----------
    tau : float
        Standard deviation of the prior on each weight; features beside phi are scaled to a total public variance of 1.
    max_iter : int
        Steps of L-BFGS.

    Attributes
    ----------
    coef_ : float64 array of shape (n_features + 1, n_classes)
        The last row is the constant.
    scale_, constant_ : float
        The factor of features, and the constant feature beside them; 1 and 0 where the model predicts from phi.
    takes : {"phi", "representation"}
        The input of :meth:`predict_proba`, see :meth:`fit`.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> release = SimpleNamespace(
    ...     statistics=[[30.0, -30.0], [-20.0, 20.0]],
    ...     sigma=2.0,
    ...     n_units=100,
    ...     classes=(0, 1),
    ... )
    >>> LikelihoodHead().fit(release, [[1.0, 0.0], [0.0, 1.0]]).predict(
    ...     [[1.0, 0.0], [0.0, 1.0]]
    ... )
    array([0, 1])
    """

    fitted_arrays: ClassVar[tuple[str, ...]] = ("coef_",)
    fitted_scalars: ClassVar[tuple[str, ...]] = ("scale_", "constant_", "takes", "n_components_")
    exact_: ClassVar[bool] = True

    coef_: FloatArray
    scale_: float
    constant_: float
    takes: str
    risk_ = None
    #: Given logits of the public rows, to which the head's are a correction.
    _offset: FloatArray = np.zeros((1, 1))

    def __init__(self, *, tau: float = 2.0, max_iter: int = 150) -> None:
        self.tau = tau
        self.max_iter = max_iter

    def fit(self, release: ReleasedBallots, phi_public: Any, features: Any = None) -> Self:
        """Fit on the first release, of class ballots, and public rows.

        ``phi_public`` (n_public, n_components) are the rows in the ballots' space; ``features`` (n_public, n_features)
        the same rows' representation, from which the model then predicts (None: phi). Inputs that do not match, or a
        setting out of range, are an InvalidInputError.
        """
        check_real("tau", self.tau, low=0, low_open=True)
        check_int("max_iter", self.max_iter, low=1)
        moments = read_moments(release, phi_public)
        if getattr(release, "clip", None) is not None:
            raise InvalidInputError("release must be of class ballots; residual ones go to updated(release, ...).")
        self.takes = "phi" if features is None else "representation"
        z = moments.phi if features is None else _rows_of(features, len(moments.phi))
        self.n_components_, self.classes_ = z.shape[1], moments.classes
        # Directions have length 1 already, and their space may have a constant component.
        self.scale_ = 1.0 if features is None else 1 / float(np.sqrt(max(z.var(axis=0).sum(), 1e-12)))
        self.constant_ = 0.0 if features is None else _CONST
        self._features = z
        variance = (1 - 1 / moments.n_classes) / moments.n_classes
        self._rounds = [_round(moments, variance)]
        self.coef_ = self._likeliest(np.zeros((z.shape[1] + 1, moments.n_classes)), self._offset, self.tau)
        return self

    def updated(self, release: ReleasedBallots, phi_public: Any) -> LikelihoodHead:
        """Return the head after one more round, of residuals under *this* head (``cast_residuals``).

        The ballots may be in another space; ``phi_public`` (n_public, n_components) are the rows given to :meth:`fit`
        in it. A release of class ballots, and a head read from a file, which stores no rounds, are refused
        (InvalidInputError).
        """
        clip = clip_of(release)
        self._check_rounds()
        moments = read_moments(release, phi_public)
        if len(moments.phi) != len(self._features):
            raise InvalidInputError(
                f"phi_public must be of the {len(self._features)} rows that fit was given, got {len(moments.phi)}."
            )
        asked = self._public_probabilities()
        length = np.sqrt(np.maximum(1 - 2 * asked + (asked**2).sum(axis=1, keepdims=True), 1e-12))
        scales = np.minimum(1.0, clip / length)
        spread = (asked * (scales * length) ** 2).sum(axis=1).mean() / moments.n_classes
        new = type(self)(**self.get_params(deep=False))
        for name in ("takes", "n_components_", "classes_", "scale_", "constant_", "_offset"):
            setattr(new, name, getattr(self, name))
        new._features, new._rounds = self._features, [*self._rounds, _round(moments, float(spread), asked, scales)]
        new.coef_ = new._likeliest(self.coef_, new._offset, new.tau)
        return new

    def correction(self, logits: Any, *, tau: float) -> FloatArray:
        """Return the V for which logits ``logits + phi V`` maximise the likelihood of all released rounds.

        ``logits`` (n_public, n_classes) are another public model's, of the public rows given to :meth:`fit`; ``tau`` is
        the standard deviation of the prior on each entry of V (n_features, n_classes). Other rows, and a head read from
        a file, are refused (InvalidInputError).
        """
        check_real("tau", tau, low=0, low_open=True)
        self._check_rounds()
        given = _rows_of(logits, len(self._features), name="logits")
        if given.shape[1] != len(self.classes_):
            raise InvalidInputError(f"logits must be of {len(self.classes_)} classes, got {given.shape[1]}.")
        found = self._likeliest(np.zeros_like(self.coef_), given, tau)
        return np.asarray(self.scale_ * found[:-1])

    def decision_function(self, phi: Any) -> FloatArray:
        """Return logits of rows, given as in :attr:`takes`, shape (n_rows, n_classes)."""
        return self._product(self._rows(phi))

    def _product(self, rows: FloatArray) -> FloatArray:
        return own_product(rows, self.scale_ * self.coef_[:-1]) + self.constant_ * self.coef_[-1]

    def _check_rounds(self) -> None:
        if not hasattr(self, "_rounds"):
            raise InvalidInputError("this head was read from a file, which stores no rounds. Fit it again.")

    def _public_probabilities(self) -> FloatArray:
        return self.predict_proba(self._features)

    def _likeliest(self, start: FloatArray, before: FloatArray, tau: float) -> FloatArray:
        """Return the weights that, added to the logits ``before``, maximise the likelihood of the released sums."""
        psi = np.concatenate([self.scale_ * self._features, np.full((len(self._features), 1), self.constant_)], axis=1)
        shape = (psi.shape[1], len(self.classes_))
        spaces = {id(one.phi): one.phi for one in self._rounds}
        together = [[one for one in self._rounds if one.phi is phi] for phi in spaces.values()]

        def loss(flat: FloatArray) -> tuple[float, FloatArray]:
            w = flat.reshape(shape)
            p = softmax(before + psi @ w)
            value, slope = float((w**2).sum()) / (2 * tau**2), np.zeros_like(p)
            for alike in together:
                more, back = _misfit(alike, p)
                value, slope = value + more, slope + back
            slope = p * (slope - (p * slope).sum(axis=1, keepdims=True))
            return value, ((slope.T @ psi).T + w / tau**2).ravel()

        found = minimize(
            loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": self.max_iter, "maxcor": 20}
        )
        return np.asarray(found.x).reshape(shape)


def _rows_of(features: Any, n_rows: int, *, name: str = "features") -> FloatArray:
    z = np.asarray(features)
    if z.ndim != 2 or len(z) != n_rows:
        raise InvalidInputError(f"{name} must be of the same {n_rows} public rows, got shape {z.shape}.")
    return public_rows(z, z.shape[1], name=name)


def _round(moments: Moments, variance: float, asked: Any = None, scales: Any = None) -> _Round:
    """Return a round; ``variance`` is that of a cell of one record's ballot, for |phi| = 1."""
    n, rows = moments.n_units, len(moments.phi)
    sampled = n * (1 + n / rows) * variance * np.square(moments.phi).mean(axis=0)
    weights = 1 / np.maximum((n * moments.noise) ** 2 + sampled, 1e-12)
    return _Round(n * moments.mean, weights, moments.phi, n / rows, asked, scales)


# A public model, corrected by residual rounds.


class CorrectedHead(LikelihoodHead):
    """A public model's logits plus a correction, linear in the ballots' directions, fitted on rounds of residuals.

    Starts as the model itself; each :meth:`LikelihoodHead.updated` takes the likeliest correction given all noisy sums,
    with a Gaussian prior of ``tau`` around none. It is for a student, which is public, as it is trained on public rows
    and released values: records then vote with their residuals under it, in a space of its features (post-processing,
    and one more Gaussian sum of residuals).

    Parameters
    ----------
    space : fitted ballot space
        The space of the residuals. Takes the same rows as this head.
    tau : float
    max_iter : int

    Attributes
    ----------
    coef_, classes_
        See :class:`LikelihoodHead`.

    Examples
    --------
    >>> from pate.records import SignedSpace
    >>> z = np.array(
    ...     [[0.3, 2.0, -2.0], [-0.4, -1.0, 1.0], [0.9, 3.0, 0.0]]
    ... )  # a feature, and logits of two classes
    >>> head = CorrectedHead.of(SignedSpace(1).fit(z), z, ("no", "yes"))
    >>> head.predict(z).tolist(), head.takes
    ([0, 1, 0], 'representation')
    """

    def __init__(self, space: BallotSpace | None = None, *, tau: float = 1.0, max_iter: int = 60) -> None:
        super().__init__(tau=tau, max_iter=max_iter)
        self.space = space

    @property
    def own_(self) -> bool:  # type: ignore[override]
        """Whether the space is pate's own; another one may read other rows of a block."""
        return self.space is not None and is_own(self.space, ".records")

    @property
    def exact_(self) -> bool:  # type: ignore[override]
        """Whether a row's probabilities are the same to the last bit wherever it stands, which depends on the space."""
        return self.own_ and bool(getattr(self.space, "exact_", False))

    @classmethod
    def of(cls, space: BallotSpace, z_public: Any, classes: Sequence[Any], *, tau: float = 1.0) -> Self:
        """Return the head before any correction.

        ``z_public`` (n_public, n_features + n_classes) are public rows as the fitted space takes them: the last columns
        are the model's logits. Inputs that do not match are an InvalidInputError.
        """
        head = cls(space, tau=check_real("tau", tau, low=0, low_open=True))
        head.classes_ = tuple(check_classes(classes))
        rows = np.asarray(z_public)
        z = public_rows(rows, rows.shape[-1], name="z_public")
        m = len(head.classes_)
        if z.shape[1] < m:
            raise InvalidInputError(f"z_public must end in the logits of {m} classes, got {z.shape[1]} columns.")
        head._features = space.transform(z)
        head.n_components_, head.takes, head.scale_, head.constant_ = z.shape[1], "representation", 1.0, 0.0
        head._offset = z[:, -m:]
        head._rounds = []
        head.coef_ = np.zeros((space.n_components_ + 1, m))
        return head

    def fit(self, release: Any, phi_public: Any, features: Any = None) -> NoReturn:
        """Refuse: this head starts from a public model, see :meth:`of`."""
        raise InvalidInputError("a corrected head starts from a public model. Call CorrectedHead.of.")

    def decision_function(self, phi: Any) -> FloatArray:
        """Return logits of rows ``z`` as :meth:`of` takes them, shape (n_rows, n_classes)."""
        z = self._rows(phi)
        assert self.space is not None
        return z[:, -len(self.classes_) :] + self._product(self.space.transform(z))

    def save(self, path: str | os.PathLike[str]) -> NoReturn:
        """Refuse: the space and the corrected model are not part of it."""
        raise InvalidInputError(
            "a corrected head cannot be saved without the model that it corrects. Save the whole model."
        )

    def _decisive(self) -> dict[str, Any]:
        return super()._decisive() | {"space": fingerprint_of(self.space)}

    def _public_probabilities(self) -> FloatArray:
        return softmax(self._offset + self._product(self._features))
