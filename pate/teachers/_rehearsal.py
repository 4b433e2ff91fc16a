"""A teacher trained on rows that are nobody's: what cannot work for anybody is refused before private data is touched.

Later nobody's failure stops anything (:mod:`pate.teachers._failed`), so a wrong setting has to show here. Every way of
making rows up is a guess at what the estimator needs: one that works is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pate.core.seeds import training_seed
from pate.exceptions import InvalidInputError
from pate.teachers._rows import is_frame, is_sparse, is_texts, take_rows

_SEED_PATH = 0x7E57
#: Rows that are tried first: quick, and enough for most.
_FEW = 100
_WORDS = ("day", "night", "well", "ill", "rest", "more", "less", "none")


def rehearse(
    work: Callable[[Any, npt.NDArray[np.int64]], Any],
    like: Any,
    *,
    n_rows: int,
    n_classes: int,
    quoted: bool = False,
    public: bool = False,
) -> None:
    """Run ``work(rows, labels)`` on made-up records until it goes through once.

    Parameters
    ----------
    work : callable
    like : array, DataFrame, sparse matrix or texts
        Rows whose number and kinds of columns the made-up ones take; no value of theirs is looked at.
    n_rows : int
        As many as a shard has.
    n_classes : int
    quoted : bool
        Whether the words of an exception may be shown: of code that is known to hold no data of its own.
    public : bool
        Whether ``like`` may be looked at: then its own rows are tried first.

    Raises
    ------
    InvalidInputError
        It failed each time, or named a parameter that is wrong.
    """
    if n_rows < 2:
        return  # every shard holds a single class: such a teacher says it always
    reason = ""
    for n in sorted({min(_FEW, n_rows), n_rows}):
        for rows in _made_up(like, n, public=public):
            for k in dict.fromkeys([min(n_classes, n), 2]):
                try:
                    work(rows, np.arange(n, dtype=np.int64) % k)
                    return
                except Exception as error:
                    name = type(error).__name__
                    wrong_setting = name == "InvalidParameterError"  # whose words are about public parameters
                    said = quoted or wrong_setting or isinstance(error, InvalidInputError)
                    reason = f"{name}: {error}" if said else f"{name} (in words that are withheld)"
                    if wrong_setting:
                        raise InvalidInputError(f"the estimator cannot be trained: {reason}") from None
    if is_frame(like) and not public and not _all_numbers(like):
        return  # what its columns of text must look like, nobody can guess
    rows = "public rows with made-up classes" if public else "made-up rows of the shape that a shard has"
    raise InvalidInputError(
        f"the estimator cannot be trained on {n_rows} {rows}: {reason}. No private record was looked at: it would fail "
        "for every shard. Mend its settings, or take fewer teachers (larger shards)."
    )


def _made_up(like: Any, n: int, *, public: bool) -> Iterator[Any]:
    """Yield tables of ``n`` rows: public ones, then numbers between 0 and 1, then small whole numbers."""
    if public:
        yield take_rows(like, np.arange(n, dtype=np.int64) % like.shape[0])
    rng = np.random.default_rng(training_seed(0, _SEED_PATH))
    if is_texts(like):
        texts = np.empty(n, dtype=object)
        texts[:] = [" ".join(rng.choice(_WORDS, 6)) for _ in range(n)]
        yield texts
        return
    shape = (n, *like.shape[1:])
    for numbers in (rng.random(shape), rng.integers(0, 10, shape).astype(np.float64)):
        if is_frame(like):
            yield _frame(like, numbers)
        elif is_sparse(like):
            yield sparse.csr_array(numbers.astype(like.dtype))
        else:
            yield numbers.astype(like.dtype if like.dtype.kind in "fO" else np.float64)


def _frame(like: Any, numbers: npt.NDArray[np.float64]) -> Any:
    import pandas as pd

    columns: dict[int, Any] = {}
    for j, kind in enumerate(like.dtypes):
        words = np.array(_WORDS, dtype=object)[(numbers[:, j] * len(_WORDS)).astype(int) % len(_WORDS)]
        if isinstance(kind, pd.CategoricalDtype):
            columns[j] = pd.Categorical(words)
        else:
            values = numbers[:, j] if kind == np.float64 else words
            columns[j] = pd.Series(values, dtype=kind if kind != object else None)  # noqa: E721
    frame = pd.DataFrame(columns)
    frame.columns = like.columns
    return frame


def _all_numbers(frame: Any) -> bool:
    return all(kind == np.float64 for kind in frame.dtypes)
