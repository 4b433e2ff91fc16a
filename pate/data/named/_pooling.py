"""Parts of a data set, put together and cut anew in the same sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.exceptions import InvalidInputError

Part = tuple[Any, npt.NDArray[np.int64]]


def cut_anew(parts: Sequence[Part], rng: np.random.Generator) -> list[Part]:
    """Return parts of the sizes and types of ``parts``, of the same rows in another order.

    Raises
    ------
    InvalidInputError
        The rows of the parts are not of one kind.
    """
    rows, y = _together([X for X, _ in parts]), np.concatenate([labels for _, labels in parts])
    order = rng.permutation(len(y))
    ends = np.cumsum([len(labels) for _, labels in parts])
    return [(_taken(rows, order[end - len(labels) : end]), y[order[end - len(labels) : end]])
            for end, (_, labels) in zip(ends, parts, strict=True)]  # fmt: skip


def _together(parts: list[Any]) -> Any:
    first = parts[0]
    if hasattr(first, "columns"):
        import pandas as pd

        if any(list(part.columns) != list(first.columns) for part in parts):
            raise InvalidInputError("private, public and test rows must have the same columns to be pooled.")
        return pd.concat(parts, ignore_index=True)
    if hasattr(first, "tocsr"):
        from scipy.sparse import vstack

        return vstack(parts, format="csr")
    if isinstance(first, list | tuple):
        return [row for part in parts for row in part]
    try:
        return np.concatenate(parts)
    except ValueError:
        raise InvalidInputError("private, public and test rows must be alike in shape to be pooled.") from None


def _taken(rows: Any, order: npt.NDArray[np.int64]) -> Any:
    if hasattr(rows, "iloc"):
        return rows.iloc[order].reset_index(drop=True)
    return [rows[i] for i in order] if isinstance(rows, list) else rows[order]
