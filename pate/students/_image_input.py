"""What an image student is given, checked at the door."""

from __future__ import annotations

from typing import Any

import numpy as np

from pate.core.checks import check_int, check_labels, shown
from pate.core.types import FloatArray
from pate.data._door import read_numbers
from pate.exceptions import InvalidInputError, SensitiveValueError
from pate.representations._private import private_kind
from pate.votes import ABSTAIN


def read_shape(given: Any, found: tuple[int, ...]) -> tuple[int, int, int]:
    """Return (channels, height, width) of the images, as given or as they are."""
    from pate.networks import square_image_shape

    if given is not None:
        if not isinstance(given, list | tuple) or len(given) not in (2, 3):
            raise InvalidInputError(f"image_shape must be (channels, height, width), got {shown(given)}.")
        sides = tuple(check_int(f"image_shape[{i}]", side, low=1) for i, side in enumerate(given))
        shape = sides if len(sides) == 3 else (1, *sides)
    elif len(found) == 2:
        shape = square_image_shape(found[1])
    elif len(found) in (3, 4):
        shape = tuple(found[1:]) if len(found) == 4 else (1, *found[1:])
    else:
        raise InvalidInputError(f"X must be images of shape (channels, height, width) or flat ones, got {found[1:]}.")
    if min(shape[1:]) < 4:
        raise InvalidInputError(f"image_shape must have at least 4 pixels each way, got {shape}.")
    return (shape[0], shape[1], shape[2])


def read_targets(y: Any, weights: Any, n_rows: int, label_error: float) -> tuple[FloatArray, FloatArray]:
    """Return probabilities and weights; rows without an answer are even, and of weight 0."""
    table = np.asarray(y)
    if table.ndim == 2:
        table = read_numbers(y, name="y", user="ImageStudent", missing=True).astype(np.float64)
        if len(table) != n_rows or table.shape[1] < 2:
            raise InvalidInputError(
                f"y must have shape ({n_rows}, n_classes), the probabilities of every public row, got {table.shape}."
            )
        answered = ~np.isnan(table).any(axis=1)
        sums = table[answered].sum(axis=1, keepdims=True)
        if (table[answered] < 0).any() or (sums <= 0).any():
            raise InvalidInputError(
                "y must hold probabilities >= 0 with a sum > 0 in each row, NaN rows where there is no answer. A "
                "head's predict_proba gives them; scores are none."
            )
        even = np.full_like(table, 1 / table.shape[1])
        even[answered] = table[answered] / sums
        table = even
    else:
        labels = check_labels("y", y, n_rows)
        if labels.dtype.kind not in "iu" or (labels < ABSTAIN).any():
            raise InvalidInputError(
                "y must hold released class indices 0, 1, ..., and -1 where there is no answer, as whole numbers. "
                "release.labels has them; release.values() has the class values."
            )
        answered = labels != ABSTAIN
        n_classes = max(2, int(labels.max(initial=0)) + 1)
        table = np.full((n_rows, n_classes), 1 / n_classes)
        table[answered] = label_error / n_classes + (1 - label_error) * np.eye(n_classes)[labels[answered]]
    if weights is None:
        given = np.ones(n_rows)
    else:
        given = (
            read_numbers(np.reshape(weights, (-1, 1)), name="weights", user="ImageStudent").ravel().astype(np.float64)
        )
        if len(given) != n_rows or (given < 0).any() or (given > 1).any():
            raise InvalidInputError(f"weights must be {n_rows} numbers from 0 to 1, one per public row.")
    given = given * answered
    if not given.any():
        raise InvalidInputError("y must hold at least one answer of weight > 0, got none. Ask about more public rows.")
    return table, given


def refuse_private(name: str, value: Any) -> None:
    private = private_kind(value)
    if private is not None:
        raise SensitiveValueError(
            f"{name} must be public, got a {private}. A student sees public rows and what was released alone."
        )
