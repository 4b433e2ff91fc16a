"""The base class of heads, their input, and heads with logits linear in the ballot space."""

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
from pate.representations import OwnProduct, own_product


class ReleasedBallots(Protocol):
    """The public numbers of a ballot release that a head is fitted on.

    Attributes
    ----------
    statistics : float64 array of shape (n_components, n_classes)
        The noisy sum of the ballots phi (x) (e_y - 1/m), its mean over the classes projected off.
    sigma : float
        Standard deviation of the noise in every cell, before that projection.
    n_units : int
        The public number of records or persons that cast a ballot.
    classes : sequence
        Class values, in the order of the columns.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> release: ReleasedBallots = SimpleNamespace(
    ...     statistics=[[1.0, -1.0]], sigma=1.0, n_units=2, classes=(0, 1)
    ... )
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
    """Checked numbers of a release, per ballot: ``mean`` is M = E[phi (e_y - 1/m)] plus noise of ``noise`` a cell.

    ``mean`` (n_components, n_classes) has rows that sum to 0, ``noise`` is before that projection; ``phi`` (n_public,
    n_components); ``kind`` is "soft", "hard", "signed" or "residual", "" where it is unknown.
    """

    mean: FloatArray
    noise: float
    n_units: int
    classes: tuple[Any, ...]
    phi: FloatArray
    kind: str

    @property
    def n_classes(self) -> int:
        """The number of classes, columns of ``mean``."""
        return len(self.classes)


def public_rows(phi: Any, n_components: int, *, name: str = "phi_public", least: int = 1) -> FloatArray:
    """Check public rows, and return them as float64 of shape (n_rows, n_components)."""
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
    """Check a release and public rows ``phi_public`` (n_public, n_components), and return moments per ballot."""
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
    """Return the clip of a release of residual ballots; refuse class ballots."""
    clip = getattr(release, "clip", None)
    if clip is None:
        raise InvalidInputError("release must be of residual ballots (voters.cast_residuals), got class ballots.")
    return float(clip)


def softmax(logits: FloatArray) -> FloatArray:
    """Return the probabilities of every row."""
    # C order, so that a row is summed in the same order for any memory layout.
    odds = np.exp(np.ascontiguousarray(logits - logits.max(axis=1, keepdims=True)))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def as_sure(scores: FloatArray, wanted: float, decisions: IntArray | None = None) -> float:
    """Return t for which the mean largest entry of softmax(t scores) is ``wanted``, or as near as possible.

    Shapes: ``scores`` (n_rows, n_classes), ``decisions`` (n_rows,), in place of the largest entries.
    """
    at = scores.argmax(axis=1) if decisions is None else decisions
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
#: Heads of earlier versions that are read as linear heads.
_FORMER = ("MomentLogisticHead",)


class Head(BaseEstimator):
    """Base class of heads: classifiers computed from noisy sums of ballots and public rows, at no further privacy cost.

    A *ballot* is one private record's vote, a vector of bounded length (docs/records.md). Whatever is computed from a
    release and public rows alone costs no privacy: post-processing, Dwork & Roth, "The Algorithmic Foundations of
    Differential Privacy" (2014), Proposition 2.1. A head has the guarantee of its release.

    A head of your own (docs/extend.md) says :meth:`fit`, :meth:`decision_function` and ``fitted_arrays``.

    Attributes
    ----------
    classes_ : tuple
        Class values, in the order of the columns.
    n_components_ : int
    fitted_arrays, fitted_scalars : tuple of str
        The fitted attributes on which its answers depend: arrays, and numbers or texts. A file holds them, and
        :meth:`fingerprint` covers them.
    exact_ : bool
        Whether a row's probabilities are the same to the last bit for any place and any other rows, as they should be
        for a head that residuals are cast under (:meth:`pate.RecordVoters.cast_residuals`).
    own_ : bool
        Whether its answers are computed by pate's own code alone.
    risk_ : float or None
        Stein's estimate of the risk, 0 for guessing at random; None where there is none.

    Examples
    --------
    >>> issubclass(LinearHead, Head)
    True
    """

    #: Name in a saved file -> class.
    _kinds: ClassVar[dict[str, type[Head]]] = {}
    fitted_arrays: ClassVar[tuple[str, ...]] = ()
    fitted_scalars: ClassVar[tuple[str, ...]] = ()
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
        """Fit on a release and public rows."""

    @abstractmethod
    def decision_function(self, phi: Any) -> FloatArray:
        """Return logits of shape (n_rows, n_classes): their softmax is :meth:`predict_proba`."""

    def predict_proba(self, phi: Any) -> FloatArray:
        """Return probabilities of shape (n_rows, n_classes)."""
        return softmax(self.decision_function(phi))

    def prepared(self, unit: float = 1.0) -> Callable[[FloatArray], FloatArray]:
        """Return a function from finite rows, in multiples of ``unit``, a power of two, to their probabilities.

        They equal those of :meth:`predict_proba` to the last bit, as long as the head is unchanged; work that depends
        on the head alone is done once.
        """
        return partial(_asked, self, unit)

    def predict(self, phi: Any) -> IntArray:
        """Return class indices of shape (n_rows,)."""
        return np.asarray(self.decision_function(phi).argmax(axis=1), dtype=np.int64)

    def fingerprint(self) -> str:
        """Return a digest of all that its answers depend on; it identifies ballots of its residuals. Public."""
        self._check_named()
        facts = {"kind": type(self).__name__, "classes": [str(c) for c in self.classes_], **self._decisive()}
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
        for name in self.fitted_arrays:
            array = np.ascontiguousarray(getattr(self, name), dtype="<f8")
            digest.update(f"\n{name} {array.shape} ".encode() + array.tobytes())
        return digest.hexdigest()

    def _check_named(self) -> None:
        check_is_fitted(self, "classes_")
        if not self.fitted_arrays:  # all fits would have one fingerprint, and their files would be empty
            raise InvalidInputError(
                f"fitted_arrays of {type(self).__name__} must name the fitted arrays that its answers depend on, got "
                '(). Write fitted_arrays = ("coef_",), say.'
            )

    def _decisive(self) -> dict[str, Any]:
        """Return the plain values, beside the arrays, that answers depend on."""
        found = {name: getattr(self, name, None) for name in self.fitted_scalars}
        return {k: v if v is None or isinstance(v, str) else float(v).hex() for k, v in found.items()}

    def _rows(self, phi: Any) -> FloatArray:
        check_is_fitted(self, "classes_")
        return public_rows(phi, self.n_components_, name="phi", least=0)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the head as one safetensors file, without the data that it was fitted on.

        Parameters
        ----------
        path : path
        """
        self._check_named()
        facts = {
            "kind": type(self).__name__,
            "parameters": self.get_params(deep=False),
            "classes": list(self.classes_),
            "scalars": {name: getattr(self, name) for name in self.fitted_scalars},
        }
        save_tensors(path, {name: getattr(self, name) for name in self.fitted_arrays}, facts, form=_FORM)


def load_head(path: str | os.PathLike[str]) -> Head:
    """Read a head from a file that :meth:`Head.save` wrote.

    Raises
    ------
    InvalidInputError
        The file is not a head of this version.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "head.safetensors"
    >>> LinearHead.of(np.eye(2), ("no", "yes")).save(path)
    >>> load_head(path).predict([[0.0, 1.0]])
    array([1])
    """
    arrays, facts = load_tensors(path, form=_FORM)
    former = facts.get("kind") in _FORMER
    kind = LinearHead if former else Head._kinds.get(facts.get("kind", ""))
    if kind is None or set(arrays) != set(kind.fitted_arrays) or set(facts["scalars"]) != set(kind.fitted_scalars):
        raise InvalidInputError(f"{str(path)!r} is not a head of this version of pate. Pass a file that save wrote.")
    head = kind(**({} if former else facts["parameters"]))
    head.classes_ = tuple(facts["classes"])
    for name, value in [*arrays.items(), *facts["scalars"].items()]:
        setattr(head, name, value)
    return head


class LinearHead(Head):
    """A fitted head whose logits are linear: ``phi @ coef_``.

    Attributes
    ----------
    coef_ : float64 array of shape (n_components, n_classes)

    Examples
    --------
    >>> LinearHead.of([[2.0, -2.0]], ("a", "b")).predict_proba([[0.5]]).round(3)
    array([[0.881, 0.119]])
    """

    fitted_arrays: ClassVar[tuple[str, ...]] = ("coef_",)
    fitted_scalars: ClassVar[tuple[str, ...]] = ("risk_", "lambda_", "n_effective_")
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
        """The number of components of the ballot space."""
        return len(self.coef_)

    def fit(self, release: ReleasedBallots, phi_public: Any) -> Self:
        """Refuse: coefficients are given to :meth:`of`."""
        raise InvalidInputError("a LinearHead holds given coefficients. Fit a LeastSquaresHead instead.")

    def decision_function(self, phi: Any) -> FloatArray:
        """Return logits of shape (n_rows, n_classes)."""
        return own_product(self._rows(phi), self.coef_)

    def prepared(self, unit: float = 1.0) -> Callable[[FloatArray], FloatArray]:
        """Return a function from rows in multiples of ``unit`` to probabilities, see :meth:`Head.prepared`."""
        plain = type(self).decision_function is LinearHead.decision_function
        if not plain:
            return super().prepared(unit)
        return partial(_softmax_of, OwnProduct(self.coef_ * unit))  # a power of two rounds nothing in the weights


def _asked(head: Head, unit: float, rows: FloatArray) -> FloatArray:
    return head.predict_proba(rows * unit)


def _softmax_of(product: OwnProduct, rows: FloatArray) -> FloatArray:
    return softmax(product(rows))
