"""What DP-SGD of a planned recipe ends in: a linear model of public maps, as arrays alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.tensors import load_tensors, save_tensors
from pate.core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.recipes._answers import Answers, read_answering
from pate.recipes._model import slabs
from pate.records._maps import take
from pate.representations import Representation, load

_FORM, _WEIGHTS = "linear model 1", "weights.safetensors"


class MappedLinear(Answers):
    """Public maps, one behind the other, then a linear model: raw rows in, probabilities out.

    Parameters
    ----------
    maps : tuple of Representation
        Fitted on public rows or constants; empty where rows are taken as they are.
    coef : float32 array of shape (n_classes, n_features)
        Of the logits.
    temperature, weights
        As of :class:`RecordModel`.

    Attributes
    ----------
    classes_ : int64 array of shape (n_classes,)
        Class *indices*, as of every student here.

    Examples
    --------
    >>> MappedLinear((), np.eye(2, dtype=np.float32)).predict(np.array([[0.2, 0.1], [0.0, 3.0]]))
    array([0, 1])
    """

    def __init__(
        self,
        maps: tuple[Representation, ...],
        coef: npt.NDArray[np.float32],
        *,
        temperature: float = 1.0,
        weights: tuple[float, ...] = (),
    ) -> None:
        self.maps = maps
        self.coef = coef
        self.temperature = temperature
        self.weights = weights

    @property
    def classes_(self) -> IntArray:
        """Class indices."""
        return np.arange(len(self.coef), dtype=np.int64)

    def untempered(self, X: Any) -> FloatArray:
        """Return the trained weights' own probabilities of shape (n_rows, n_classes)."""
        n = int(np.shape(X)[0])
        parts = [self._asked(take(X, slab)) for slab in slabs(n)]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.coef)))

    def _asked(self, rows: Any) -> FloatArray:
        for each in self.maps:
            rows = each.vectors(rows)
        seen = np.asarray(rows, dtype=np.float32).astype(np.float64)
        logits = seen @ self.coef.astype(np.float64).T
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        for name in ("allow_nan", "categorical", "string"):  # its maps read cell by cell
            setattr(tags.input_tags, name, True)
        return tags


def keep_linear(model: MappedLinear, folder: Path) -> dict[str, Any]:
    """Write a model into a folder, and return what :func:`read_linear` needs to know besides.

    Raises
    ------
    InvalidInputError
        A map of it is somebody's own class, which no file can hold.
    """
    for i, each in enumerate(model.maps):
        each.save(folder / _map(i))
    save_tensors(folder / _WEIGHTS, {"coef": model.coef}, {}, form=_FORM)
    return {"maps": [each.fingerprint() for each in model.maps], **model.answering()}


def read_linear(folder: Path, told: Any, *, module: Any = None) -> MappedLinear:
    """Return the model that :func:`keep_linear` wrote; it answers with the very same numbers.

    Parameters
    ----------
    folder : path
    told : dict
        What it returned.
    module : torch module, or list of them
        Of the caller's own representation, see :func:`pate.representations.load`.

    Raises
    ------
    InvalidInputError
        The parts are damaged, or not those that belong together.
    """
    known = told["maps"]
    maps = tuple(load(folder / _map(i), module=module if i == 0 else None) for i in range(len(known)))
    coef = load_tensors(folder / _WEIGHTS, form=_FORM)[0]["coef"]
    wide = maps[-1].n_features_out_ if maps else coef.shape[-1]
    fine = coef.ndim == 2 and coef.dtype == np.float32 and coef.shape[1] == wide and np.isfinite(coef).all()
    if not fine or [each.fingerprint() for each in maps] != known:
        raise InvalidInputError("the model's maps and weights are not those that were saved.")
    return MappedLinear(maps, coef, **read_answering(told, len(coef)))


def made_of_linear(model: MappedLinear) -> tuple[str, ...]:
    """Return in lines what a model is made of."""
    n_classes, n_features = model.coef.shape
    return (
        *(f"rows: {each.provenance_}" for each in model.maps),
        f"weights: {n_classes} classes by {n_features} features, trained by DP-SGD",
        *model.decides,
    )


def _map(i: int) -> str:
    return f"map{i}.safetensors"
