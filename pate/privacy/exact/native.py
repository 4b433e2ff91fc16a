"""The compiled kernel, when it was built; `pate` works without it, about ten times slower here."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pate._core.types import FloatArray
from pate.privacy.exact._histograms import Groups, most_classes
from pate.privacy.exact._log_space import Join, JoinTables
from pate.privacy.exact._pair_law import MAX_LOG_POWER, MIN_LOG_PROBABILITY, MIN_RATIO
from pate.privacy.exact._quadrature import SUM_ERROR, OrderPlan, laplace_nodes, trapezoid_tables
from pate.privacy.exact.noise import GaussianNoise, LaplaceNoise

__all__ = ["available", "maxima"]


#: A plain shared library, the same for every version of Python: ``setup.py`` builds it beside this file.
_FILE = Path(__file__).with_name("_native.dll" if sys.platform == "win32" else "_native.so")
_INT, _DOUBLE, _POINTER = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
_SUM = 6
#: What becomes of a histogram: the proof of its error needs a finer rule; or it needs the log-space engine.
INEXACT, LOST = 1, 2
_BASES = {1.0: 0, 1.25: 1, 1.5: 2, 1.75: 3, 2.0: 4}


class _Task(ctypes.Structure):
    """Mirror of ``task`` in _native.c."""

    _fields_ = (
        *[(name, _INT) for name in ("n", "n_groups_max", "n_nodes_max")],
        *[(name, _POINTER) for name in ("offsets", "values", "sizes", "table", "start", "length")],
        *[(name, _INT) for name in ("stride", "per_count", "low")],
        ("step", _DOUBLE),
        ("strip", _POINTER),
        *[(name, _DOUBLE) for name in ("log_strip", "sum_error")],
        *[(name, _POINTER) for name in ("node_offsets", "node_x", "node_weight")],
        ("scale", _DOUBLE),
        *[(name, _INT) for name in ("n_nodes", "n_orders")],
        *[(name, _POINTER) for name in ("alphas", "kinds", "left", "right", "output")],
        *[(name, _DOUBLE) for name in ("max_order", "ratio_low", "max_log_power", "min_log_prob", "far")],
        *[(name, _POINTER) for name in ("factor", "addend")],
        *[(name, _INT) for name in ("join_low", "per_group")],
        *[(name, _POINTER) for name in ("out", "flags")],
    )


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL | None:
    if os.environ.get("PATE_NO_NATIVE"):
        return None
    try:
        library = ctypes.CDLL(str(_FILE))
        library.pate_noisy_max.argtypes = [ctypes.POINTER(_Task)]
        library.pate_task_size.restype = _INT
        matches = library.pate_task_size() == ctypes.sizeof(_Task)
    except (OSError, AttributeError):
        return None
    return library if matches else None


def available() -> bool:
    """Whether the compiled kernel is there (the environment variable PATE_NO_NATIVE hides it).

    Examples
    --------
    >>> isinstance(available(), bool)
    True
    """
    return _library() is not None


def maxima(
    groups: Groups,
    noise: GaussianNoise | LaplaceNoise,
    plan: OrderPlan,
    join: Join | None,
    *,
    per_group: bool,
    finer: int,
) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """Return K (rows, 2, n_orders), a row per group or per histogram, and of each histogram 0, INEXACT or LOST."""
    n = len(groups)
    out = np.zeros((len(groups.values) if per_group else n, 2, plan.n_orders))
    flags = np.full(n, LOST, dtype=np.int64)
    library = _library()
    if library is None or not n:
        return out, flags
    task = _Task()
    keep: list[npt.NDArray[Any]] = []

    def put(name: str, array: npt.ArrayLike, dtype: type) -> None:
        contiguous: npt.NDArray[Any] = np.ascontiguousarray(array, dtype=dtype)
        keep.append(contiguous)
        setattr(task, name, contiguous.ctypes.data)

    task.n, task.n_groups_max = n, int(groups.n_groups.max())
    for name in ("offsets", "values", "sizes"):
        put(name, getattr(groups, name), np.int64)
    if isinstance(noise, GaussianNoise):
        top, bottom = groups.values[groups.offsets[:-1]], groups.values[groups.offsets[1:] - 1]
        tables = trapezoid_tables(top, bottom, most_classes(groups), noise, finer=finer)
        if tables is None:
            return out, flags
        for name in ("start", "length"):
            put(name, getattr(tables, name), np.int64)
        put("table", tables.table, np.float64)
        task.stride, task.per_count, task.low = tables.stride, tables.per_count, tables.low
        task.step, task.n_nodes_max = tables.step, int(tables.length.max())
        if tables.strip is not None:
            put("strip", tables.strip, np.float64)
            task.log_strip = tables.log_strip
    else:
        offsets, x, weights = _all_nodes(groups, noise)
        put("node_offsets", offsets, np.int64)
        put("node_x", x, np.float64)
        put("node_weight", weights, np.float64)
        task.scale, task.n_nodes_max = noise.scale, int(np.diff(offsets).max())
    task.n_nodes, task.n_orders = len(plan.alphas), plan.n_orders
    put("alphas", plan.alphas, np.float64)
    kinds = [_SUM if left >= 0 else _BASES.get(a, 5) for a, left in zip(plan.alphas, plan.left, strict=True)]
    put("kinds", kinds, np.int64)
    for name in ("left", "right", "output"):
        put(name, getattr(plan, name), np.int64)
    task.max_order, task.ratio_low = max(plan.alphas), MIN_RATIO
    task.max_log_power, task.min_log_prob = MAX_LOG_POWER, MIN_LOG_PROBABILITY
    task.far, task.sum_error = 45 * noise.scale, SUM_ERROR
    if join is not None:
        assert isinstance(join, JoinTables)  # offsets are numpy's
        with np.errstate(over="ignore", under="ignore"):
            put("factor", np.exp(join.log_factor), np.float64)
            put("addend", np.exp(join.log_addend), np.float64)
        task.join_low = join.low
    task.per_group, task.out, task.flags = int(per_group), out.ctypes.data, flags.ctypes.data
    if library.pate_noisy_max(ctypes.byref(task)):
        raise MemoryError("the compiled accounting kernel could not get its working memory")
    return out, flags


def _all_nodes(groups: Groups, noise: LaplaceNoise) -> tuple[npt.NDArray[np.int64], FloatArray, FloatArray]:
    """Laplace nodes of histograms with different numbers of groups, in their order."""
    n_groups = groups.n_groups
    lengths = np.zeros(len(groups), dtype=np.int64)
    found = []
    for g in np.unique(n_groups):
        members = np.flatnonzero(n_groups == g)
        flat = groups.offsets[members][:, None] + np.arange(g)
        nodes = laplace_nodes(groups.values[flat], groups.sizes[flat], noise)
        lengths[members] = np.diff(nodes.offsets)
        found.append((members, nodes))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    x, weights = np.empty(offsets[-1]), np.empty(offsets[-1])
    for members, nodes in found:
        to = np.repeat(offsets[members] - nodes.offsets[:-1], lengths[members]) + np.arange(nodes.offsets[-1])
        x[to], weights[to] = nodes.x, nodes.weights
    return offsets, x, weights
