"""The contract of heads, what they are fitted on, and those whose logits are linear in the ballot space."""

from __future__ import annotations

import hashlib
import json
import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from scipy.optimize import brentq
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from pate._core.checks import check_classes, check_int, check_real, shown
from pate._core.tensors import load_tensors, save_tensors
from pate._core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.representations._exact import OwnProduct, own_product


class ReleasedBallots(Protocol):
    """The public numbers of a ballot release that a head reads, and nothing else of it.

    Attributes
    ----------
    statistics : float64 array of shape (n_components, n_classes)
        The noisy sum of the ballots phi (x) (e_y - 1/m), its mean over the classes projected off.
    sigma : float
        Standard deviation of the noise in every cell, before that projection.
    n_units : int
        How many records or persons cast a ballot, a public number.
    classes : sequence
        Class values, in the order of the columns.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> release: ReleasedBallots = SimpleNamespace(statistics=[[1.0, -1.0]], sigma=1.0, n_units=2, classes=(0, 1))
    >>> read_moments(release, [[1.0]]).n_classes
    2
    """

    @property
    def statistics(self) -> FloatArray: ...
    @property
    def sigma(self) -> float: ...
    @property
    def n_units(self) -> int: ...
    @property
    def classes(self) -> Sequence[Any]: ...


@dataclass(frozen=True)
class Moments:
    """Checked numbers of a release, per ballot: ``mean`` is M + noise of ``noise`` a cell, with M = E[phi (e_y - 1/m)].

    ``mean`` (n_components, n_classes) has rows that sum to 0, ``noise`` is before that projection; ``phi`` (n_public,
    n_components); ``kind`` is "soft", "hard", "signed" or "residual", "" where it is not told.
    """

    mean: FloatArray
    noise: float
    n_units: int
    classes: tuple[Any, ...]
    phi: FloatArray
    kind: str

    @property
    def n_classes(self) -> int:
        """Columns of ``mean``."""
        return len(self.classes)


def public_rows(phi: Any, n_components: int, *, name: str = "phi_public", least: int = 1) -> FloatArray:
    """Return public rows as a float64 array of shape (n_rows, n_components)."""
    rows = np.asarray(phi)
    if rows.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"{name} must hold numbers, got {shown(phi)} of {rows.dtype}. Transform the rows first."
        )
    if rows.ndim != 2 or rows.shape[1] != n_components or rows.shape[0] < least:
        raise InvalidInputError(
            f"{name} must have shape (n_rows, {n_components}), as the ballots have, got {rows.shape}. "
            "Transform the public rows by the space that the ballots were cast in."
        )
    rows = rows.astype(np.float64, copy=False)
    if not np.isfinite(rows).all():
        raise InvalidInputError(f"{name} holds NaN or infinity. A ballot space gives finite rows: transform by it.")
    return rows


def read_moments(release: ReleasedBallots, phi_public: Any) -> Moments:
    """Check what was released against public rows ``phi_public`` of shape (n_public, n_components)."""
    missing = [name for name in ("statistics", "sigma", "n_units", "classes") if not hasattr(release, name)]
    if missing:
        raise InvalidInputError(
            f"release must be a BallotRelease, got {shown(release)} without {', '.join(missing)}. "
            "Pass what release_ballots returned: a head is fitted on public numbers only."
        )
    classes = check_classes(release.classes)
    sums = np.asarray(release.statistics, dtype=np.float64)
    if sums.ndim != 2 or sums.shape[1] != len(classes) or not len(sums) or not np.isfinite(sums).all():
        raise InvalidInputError(
            f"release.statistics must be finite, of shape (n_components, {len(classes)}), got {sums.shape}."
        )
    n_units = check_int("release.n_units", release.n_units, low=1)
    sigma = check_real("release.sigma", release.sigma, low=0)
    phi = public_rows(phi_public, len(sums))
    mean = (sums - sums.mean(axis=1, keepdims=True)) / n_units
    return Moments(mean, sigma / n_units, n_units, classes, phi, str(getattr(release, "kind", "")))


def clip_of(release: ReleasedBallots) -> float:
    """Return to which norm the residual ballots of a release were clipped; refuse class ballots."""
    clip = getattr(release, "clip", None)
    if clip is None:
        raise InvalidInputError("release must be of residual ballots (voters.cast_residuals), got class ballots.")
    return float(clip)


def softmax(logits: FloatArray) -> FloatArray:
    """Return the probabilities of every row."""
    # Row after row in memory: then a row's sum is added in one order, whatever layout it came in.
    odds = np.exp(np.ascontiguousarray(logits - logits.max(axis=1, keepdims=True)))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def as_sure(scores: FloatArray, wanted: float, said: IntArray | None = None) -> float:
    """Return t such that softmax(t scores) has its largest entry at ``wanted`` on average, as near as can be.

    Shapes: ``scores`` (n_rows, n_classes), ``said`` (n_rows,).
    """
    at = scores.argmax(axis=1) if said is None else said
    rows = np.arange(len(scores))

    def gap(log_t: float) -> float:
        return float(softmax(float(np.exp(log_t)) * scores)[rows, at].mean()) - wanted

    low, high = -7.0, 7.0
    if gap(low) >= 0:
        return float(np.exp(low))
    if gap(high) <= 0:
        return float(np.exp(high))
    return float(np.exp(brentq(gap, low, high, xtol=1e-6)))


_FORM = "head 1"
#: Heads of earlier versions, of whose answers the coefficients are all.
_FORMER = ("MomentLogisticHead",)


class Head(BaseEstimator):
    """What is fitted on released ballots and public rows, and then answers for any row, for ever and for nothing.

    Whatever is computed from a release and public rows alone costs no privacy: post-processing, Dwork & Roth, "The
    Algorithmic Foundations of Differential Privacy" (2014), Proposition 2.1. A head's guarantee is the release's.

    Attributes
    ----------
    classes_ : tuple
        Class values, in the order of the columns.
    n_components_ : int
    exact_ : bool
        Whether a row's probabilities are the same to the last bit wherever it stands, beside whatever rows: what casts
        residuals (:meth:`pate.RecordVoters.cast_residuals`) should be.
    own_ : bool
        Whether nobody else's code has a part in its answers.
    risk_ : float or None
        Stein's estimate of the risk, of which zero is what guessing at random has; None where there is none.

    Examples
    --------
    >>> issubclass(LinearHead, Head)
    True
    """

    #: Name in a saved file -> class.
    _kinds: ClassVar[dict[str, type[Head]]] = {}
    #: Fitted attributes that are arrays, and those that go into JSON.
    _arrays: ClassVar[tuple[str, ...]] = ()
    _scalars: ClassVar[tuple[str, ...]] = ()
    #: A row's probabilities are the same to the last bit wherever it stands (see pate.representations._exact).
    exact_: ClassVar[bool] = False
    own_: ClassVar[bool] = True

    classes_: tuple[Any, ...]
    n_components_: int

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        Head._kinds[cls.__name__] = cls

    @abstractmethod
    def fit(self, release: ReleasedBallots, phi_public: Any) -> Self:
        """Fit on what was released and on public rows."""

    @abstractmethod
    def decision_function(self, phi: Any) -> FloatArray:
        """Return logits of shape (n_rows, n_classes): their softmax is :meth:`predict_proba`."""

    def predict_proba(self, phi: Any) -> FloatArray:
        """Return probabilities of shape (n_rows, n_classes)."""
        return softmax(self.decision_function(phi))

    def prepared(self, unit: float = 1.0) -> Callable[[FloatArray], FloatArray]:
        """Return what gives the probabilities of finite rows in multiples of ``unit``, a power of two.

        They are those of :meth:`predict_proba` to the last bit, as long as the head stays as it is; what hangs on the
        head alone is worked out once.
        """
        return partial(_asked, self, unit)

    def predict(self, phi: Any) -> IntArray:
        """Return class indices of shape (n_rows,)."""
        return np.asarray(self.decision_function(phi).argmax(axis=1), dtype=np.int64)

    def fingerprint(self) -> str:
        """Return a digest of what decides its answers: what ballots of its residuals are recognised by. Public."""
        check_is_fitted(self, "classes_")
        told = {"kind": type(self).__name__, "classes": [str(c) for c in self.classes_], **self._decisive()}
        digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode())
        for name in self._arrays:
            array = np.ascontiguousarray(getattr(self, name), dtype="<f8")
            digest.update(f"\n{name} {array.shape} ".encode() + array.tobytes())
        return digest.hexdigest()

    def _decisive(self) -> dict[str, Any]:
        """Return the plain values that decide answers beside the arrays."""
        found = {name: getattr(self, name, None) for name in self._scalars}
        return {k: v if v is None or isinstance(v, str) else float(v).hex() for k, v in found.items()}

    def _rows(self, phi: Any) -> FloatArray:
        check_is_fitted(self, "classes_")
        return public_rows(phi, self.n_components_, name="phi", least=0)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the head as one safetensors file; what it was fitted on beyond its own state is not kept.

        Parameters
        ----------
        path : path
        """
        check_is_fitted(self, "classes_")
        told = {
            "kind": type(self).__name__,
            "parameters": self.get_params(deep=False),
            "classes": list(self.classes_),
            "scalars": {name: getattr(self, name) for name in self._scalars},
        }
        save_tensors(path, {name: getattr(self, name) for name in self._arrays}, told, form=_FORM)


def load_head(path: str | os.PathLike[str]) -> Head:
    """Return a head that :meth:`Head.save` wrote.

    Raises
    ------
    InvalidInputError
        The file is no head.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "head.safetensors"
    >>> LinearHead.of(np.eye(2), ("no", "yes")).save(path)
    >>> load_head(path).predict([[0.0, 1.0]])
    array([1])
    """
    arrays, told = load_tensors(path, form=_FORM)
    former = told.get("kind") in _FORMER
    kind = LinearHead if former else Head._kinds.get(told.get("kind", ""))
    if kind is None or set(arrays) != set(kind._arrays) or set(told["scalars"]) != set(kind._scalars):
        raise InvalidInputError(f"{str(path)!r} is no head of this version. Pass what save wrote.")
    head = kind(**({} if former else told["parameters"]))
    head.classes_ = tuple(told["classes"])
    for name, value in [*arrays.items(), *told["scalars"].items()]:
        setattr(head, name, value)
    return head


class LinearHead(Head):
    """A fitted head whose logits are ``phi @ coef_``: what every linear head is, and what rounds return.

    Attributes
    ----------
    coef_ : float64 array of shape (n_components, n_classes)

    Examples
    --------
    >>> LinearHead.of([[2.0, -2.0]], ("a", "b")).predict_proba([[0.5]]).round(3)
    array([[0.881, 0.119]])
    """

    _arrays: ClassVar[tuple[str, ...]] = ("coef_",)
    _scalars: ClassVar[tuple[str, ...]] = ("risk_", "lambda_", "n_effective_")
    exact_: ClassVar[bool] = True

    coef_: FloatArray
    risk_: float | None = None
    lambda_: float | None = None
    n_effective_: float | None = None

    @classmethod
    def of(cls, coef: Any, classes: tuple[Any, ...]) -> LinearHead:
        """Return the head with these coefficients."""
        head = LinearHead()
        head.coef_, head.classes_ = np.asarray(coef, dtype=np.float64), tuple(classes)
        return head

    @property
    def n_components_(self) -> int:  # type: ignore[override]
        """Columns of the ballot space."""
        return len(self.coef_)

    def fit(self, release: ReleasedBallots, phi_public: Any) -> Self:
        """Refuse: coefficients are given, or come from a head that is fitted."""
        raise InvalidInputError("a LinearHead holds coefficients that are there. Fit LeastSquaresHead instead.")

    def decision_function(self, phi: Any) -> FloatArray:
        """Return logits of shape (n_rows, n_classes)."""
        return own_product(self._rows(phi), self.coef_)

    def prepared(self, unit: float = 1.0) -> Callable[[FloatArray], FloatArray]:
        """Return what answers rows in multiples of ``unit``, see :meth:`Head.prepared`."""
        plain = type(self).decision_function is LinearHead.decision_function
        if not plain:
            return super().prepared(unit)
        return partial(_softmax_of, OwnProduct(self.coef_ * unit))  # a power of two rounds nothing in the weights


def _asked(head: Head, unit: float, rows: FloatArray) -> FloatArray:
    return head.predict_proba(rows * unit)


def _softmax_of(product: OwnProduct, rows: FloatArray) -> FloatArray:
    return softmax(product(rows))
