"""Whether what somebody brings maps each row by itself: tried on public and made-up rows before any private one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pate.core.checks import shown
from pate.data._door import is_sparse
from pate.exceptions import InvalidInputError
from pate.representations._text_cells import SparseCells, TextCells

_SEED = 0x0A9A


def as_vectors(name: str, output: Any, n_rows: int) -> npt.NDArray[Any]:
    """Return an output as finite rows of floats: a row that is not finite is zero throughout.

    Raises
    ------
    InvalidInputError
        It has another number of rows, or is none of numbers.
    """
    made = np.asarray(output.toarray() if is_sparse(output) else output)
    if made.ndim == 1 or len(made) != n_rows or made.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"{name} must return one vector of numbers per row: for {n_rows} rows it returned "
            f"{shown(made) if made.ndim == 0 else f'an array of {made.dtype} of shape {made.shape}'}."
        )
    made = made.reshape(n_rows, -1)
    if made.dtype not in (np.float32, np.float64):
        made = made.astype(np.float32 if made.dtype == np.float16 else np.float64)
    fine = np.isfinite(made).all(axis=1)
    return made if fine.all() else np.where(fine[:, None], made, made.dtype.type(0))


def check_rows_apart(name: str, block_map: Callable[[Any], npt.NDArray[Any]], cells: Any, rows: Any, size: int) -> int:
    """Refuse a map by which one row's vector hangs on another row; return how long the vectors are.

    A block of public rows is mapped twice, then with all rows but two exchanged for made-up ones (both must give the
    same bits), and in another order (the same numbers: their last bits may hang on the place, which is public).

    Raises
    ------
    InvalidInputError
        It is none, draws at random, or mixes rows (a mean over the batch, batch normalisation in training mode).
    """
    n = int(rows.shape[0])
    rng = np.random.default_rng(_SEED)
    block = cells.block(rows[np.arange(size) % n], 0, size)
    made = block_map(block)
    if not np.array_equal(made, block_map(block)):
        raise InvalidInputError(
            f"{name} gives other vectors for the same rows at every call. Switch off what it draws (dropout, sampling)."
        )
    if size > 1:
        kept = [0, size // 2]
        for others in _made_up(cells, size, rng):
            mixed = _exchanged(block, others, kept)
            if not np.array_equal(block_map(mixed)[kept], made[kept]):
                raise _mixes(name)
        order = rng.permutation(size)
        turned = block_map(block[order])
        scale = float(np.abs(made).max(initial=0.0))
        if not np.allclose(turned, made[order], rtol=1e-3, atol=1e-4 * scale):
            raise _mixes(name)
    return int(made.shape[1])


def _mixes(name: str) -> InvalidInputError:
    return InvalidInputError(
        f"{name} mixes rows: a row's vector changed with the rows beside it. One record would move all others' "
        "ballots. Take out what is computed over a batch, or pass one_by_one=True, which shows it one row at a time."
    )


def _made_up(cells: Any, size: int, rng: np.random.Generator) -> list[Any]:
    """Return blocks of rows within the public bounds, some at their very ends."""
    if isinstance(cells, TextCells):
        return [np.array([" ".join(rng.choice(["day", "night", "x" * 99], 9)) for _ in range(size)], dtype=object)]
    if isinstance(cells, SparseCells):
        shares = rng.random((size, cells.n_features)) * (rng.random((size, cells.n_features)) < 0.3)
        return [sparse.csr_array(shares * cells.largest)]
    length = cells.high - cells.low
    within = cells.low + rng.random((size, cells.n_features)) * length
    ends = np.where(rng.random((size, cells.n_features)) < 0.5, cells.low, cells.high)
    return [within, ends, np.tile(cells.fill, (size, 1))]


def _exchanged(block: Any, others: Any, kept: list[int]) -> Any:
    mixed: Any
    if is_sparse(block):
        mixed = others.tolil()
        for i in kept:
            mixed[[i]] = block[[i]]
        return sparse.csr_array(mixed)
    mixed = others.copy()
    mixed[kept] = block[kept]
    return mixed
