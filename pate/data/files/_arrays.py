"""Tables from arrays: npz and npy files to columns."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pate.data.files._npz import read_npy as read_npy_array
from pate.data.files._npz import read_npz
from pate.exceptions import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd


_REMEDY = "It may be truncated, or hold Python objects: save plain arrays."
#: A few bytes of an archive can hold an array of a row and a billion columns, each of which would get a name.
_MOST_COLUMNS = 100_000
#: Between two dates there are no more.
_MOST_DAYS, _MOST_MONTHS = 3_652_059, 119_988


def is_matrix(frame: pd.DataFrame) -> bool:
    """Return whether the columns come from an array ``X`` with ``y`` and ``groups`` beside it."""
    return bool(frame.attrs.get("matrix"))


def read_npy(path: Path) -> pd.DataFrame:
    """Return the columns of an npy file: x0, x1, ..., or the fields of a structured array."""
    import pandas as pd

    array = read_npy_array(path, what="npy array", remedy=_REMEDY)
    names = array.dtype.names
    if names and array.ndim == 1 and all(array.dtype[name].shape == () for name in names):
        return pd.DataFrame({name: _in_time(array[name]) for name in names})
    if array.ndim < 2 or array.dtype.kind not in "biufUS":
        raise InvalidInputError(
            f"{path} must hold numbers or text of shape (n, ...), or a structured array of shape (n,), got shape "
            f"{array.shape}. Save one row per record."
        )
    X = _flat(array, path)
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])


def _flat(X: npt.NDArray[Any], path: Path) -> npt.NDArray[Any]:
    """Return rows of shape (n, n_features), if there are any and not too many features to name."""
    n_features = int(np.prod(X.shape[1:]))
    if not X.size or n_features > _MOST_COLUMNS:
        raise InvalidInputError(
            f"{path} holds X of shape {X.shape}. It needs a row and a feature at least, and at most {_MOST_COLUMNS} "
            "features: is the first axis that of the rows?"
        )
    return X.reshape(len(X), n_features)


def read_npz_table(path: Path) -> pd.DataFrame:
    """Return the columns of an npz file: those of ``X`` with ``y`` and ``groups``, or one array per column."""
    import pandas as pd

    arrays = read_npz(path, what="npz table", remedy=_REMEDY)
    if "X" in arrays and arrays["X"].ndim >= 2:
        X = _flat(arrays.pop("X"), path)
        names = [str(n) for n in arrays.pop("columns", [f"x{j}" for j in range(X.shape[1])])]
        odd = sorted(set(arrays) - {"y", "groups"})
        if odd or len(names) != X.shape[1] or any(a.shape != (len(X),) for a in arrays.values()):
            raise InvalidInputError(
                f"{path} must hold X of shape (n, ...), and may hold y and groups of shape (n,) and columns (one name "
                f"per feature); it holds X of {len(X)} rows and {X.shape[1]} features, {len(names)} names, and "
                f"{', '.join(f'{k} {a.shape}' for k, a in arrays.items()) or 'nothing else'}. Save those arrays alone."
            )
        frame = pd.concat([pd.DataFrame(X, columns=names), pd.DataFrame(arrays)], axis=1)
        frame.attrs["matrix"] = True
        return frame
    shapes = {a.shape for a in arrays.values()}
    if len(shapes) != 1 or any(len(s) != 1 for s in shapes):
        raise InvalidInputError(
            f"{path} must hold X of shape (n, n_features), or one array of shape (n,) per column; it holds "
            f"{', '.join(f'{k} {a.shape}' for k, a in arrays.items()) or 'nothing'}. Save the arrays by those names."
        )
    return pd.DataFrame({name: _in_time(array) for name, array in arrays.items()})


def _in_time(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array of dates without those that Python has no date for: pandas would refuse all, and quote one."""
    unit = np.datetime_data(array.dtype)[0] if array.dtype.kind in "mM" else ""
    if unit not in ("Y", "M", "W", "D", "h", "m", "s", "ms", "us"):
        return array
    first: Any = np.datetime64("0001-01-02")
    last: Any = np.datetime64("9999-12-30")
    if array.dtype.kind == "m":
        last = np.timedelta64(_MOST_MONTHS, "M") if unit in "YM" else np.timedelta64(_MOST_DAYS, "D")
        first = -last
    # Bounds in the array's own unit: to bring it to a finer one may take more than 64 bits.
    fine = (array >= first.astype(array.dtype)) & (array <= last.astype(array.dtype))
    return np.where(fine, array, np.array("NaT", dtype=array.dtype))


def matrix_roles(
    names: Collection[str], target: str | None, group: str | None, drop: Collection[str]
) -> tuple[str | None, str | None]:
    """In an npz of X, y and groups the last two are never features, named or not."""
    there = [name for name in names if name not in drop]
    y, groups = ("y" if "y" in there else None), ("groups" if "groups" in there else None)
    return (y if target is None else target), (groups if group is None else group)
