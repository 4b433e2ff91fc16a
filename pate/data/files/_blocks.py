"""A private table of numbers that is larger than memory: its cells on disk, in a file that nobody else can open."""

from __future__ import annotations

import mmap
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pate.data._columns import ids_of, labels_of, owners_of
from pate.data._like import column_like, odd_cells, tell_curator

if TYPE_CHECKING:
    import pandas as pd


#: Files that are mapped into memory at present.
_MAPPED: weakref.WeakSet[Any] = weakref.WeakSet()


def let_go() -> None:
    """Give back the pages of mapped tables that were looked at; who looks again gets them again.

    The system would do so too, where memory is short; here a process is as small as it says.
    """
    if hasattr(mmap, "MADV_DONTNEED"):
        for one in list(_MAPPED):
            one.madvise(mmap.MADV_DONTNEED)


def any_mapped() -> bool:
    """Whether a private table lies on disk already, for want of memory."""
    return bool(_MAPPED)


def mapped(file: Any) -> mmap.mmap:
    """Return what was written to an open file, to be read through memory; it outlives the file's own handle."""
    file.flush()
    made = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    _MAPPED.add(made)
    return made


def take_blocks(
    blocks: Callable[..., Iterator[pd.DataFrame]],
    file: str,
    features: list[str],
    roles: Mapping[str, str | None],
    kinds: Mapping[str, str],
) -> tuple[pd.DataFrame, Any, Any, Any] | None:
    """Read a private table of numbers some rows at a time: every cell by itself, as if it were read as a whole.

    Returns (X, y, groups, ids), ``X`` a DataFrame over a file that is mapped into memory, page by page as it is looked
    at (:func:`let_go`). The file has no name, so that it is gone with the process, however that ends; it lies where
    temporary files do (``TMPDIR``). None where a feature is text, or there are no rows: it is then read as a whole.
    """
    import pandas as pd

    if any(kinds.get(name, "text") == "text" for name in features):
        return None
    labels, owners, ids = ([], [], [])  # type: tuple[list[Any], list[Any], list[Any]]
    n_odd: Counter[str] = Counter()
    there: dict[str, pd.Series] = {}
    n = 0
    with tempfile.TemporaryFile() as kept:
        for block in blocks():
            frame = block.reset_index(drop=True)
            made = np.empty((len(frame), len(features)))
            for j, name in enumerate(features):
                column, odd = column_like(name, frame[name], kinds[name])
                made[:, j] = column.to_numpy()
                n_odd[name] += odd
                if name not in there or not there[name].notna().any():
                    there[name] = column
            kept.write(made.tobytes())
            n += len(frame)
            labels.append(labels_of(frame, roles.get("target"), strict=False, spelt=False))
            owners.append(owners_of(frame, roles.get("group"), strict=False))
            ids.append(ids_of(frame, roles.get("id")))
        if not n:
            return None
        cells = np.frombuffer(mapped(kept), dtype=np.float64).reshape(n, len(features))
    if n_odd.total():
        tell_curator(file, [odd_cells(name, there[name], odd) for name, odd in n_odd.items() if odd])
    X = pd.DataFrame(cells, columns=features, copy=False)
    y, groups, known = (None if parts[0] is None else np.concatenate(parts) for parts in (labels, owners, ids))
    return X, y, groups, known
