"""Detect a shift between private and public rows: other units, a scaler on one side, other spellings of categories.

For the curator alone. Labels of rows in other units cost the whole budget and teach nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pate._core.curator import CuratorMessage, about_categories
from pate._core.files import let_go
from pate._core.types import FloatArray
from pate.data._columns import as_text, holds_numbers, numbers_in
from pate.data._validation import is_frame, is_sparse
from pate.exceptions import CovariateShiftWarning

#: Public rows that are any third of a population are at most three times as dense as it, in every place.
_DENSER = 3.0
#: So much of the public rows must be denser than that: chosen on development tables (docs/audit-faults.md).
_MOST = 0.4
#: Fewer rows say nothing.
_FEWEST = 20
#: So many rows of either side are looked at, evenly spread, in so many intervals of public quantiles.
_LOOKED_AT = 2_000
_INTERVALS = 20
#: A table that is larger than memory is gone over in so many parts.
_PARTS = 20
#: Wider rows (pixels, words) are looked at by brightness, contrast and largest value.
_WIDE = 256
_LISTED = 5
#: So many pairs of a public and a private row, of 100, that a line separates: chosen so that thirds of a population
#: along a direction are reported and random rows are not (docs/audit-faults.md); more by so many standard deviations.
_APART, _DEVIATIONS = 0.7, 4.0
#: So much of the mean variance is added to every direction's.
_RIDGE = 1.0

#: A column's name, and its values in public and in private rows.
_Pairs = list[tuple[str, npt.NDArray[Any], npt.NDArray[Any]]]


class Shift(NamedTuple):
    """A column that is shifted in the private rows.

    ``excess`` is how much of the public rows is denser than a third of a population could be, from 0 to 1; private
    values are about ``ratio`` times the public ones, None where that says nothing.
    """

    name: str
    excess: float
    ratio: float | None = None

    def __str__(self) -> str:
        if self.ratio is None or 0.8 < self.ratio < 1.25:
            return self.name
        return f"{self.name} (private values are about {self.ratio:.2g} times the public ones)"


def about_shift(private: Any, public: Any, *, image_shape: tuple[int, ...] | None = None) -> list[CuratorMessage]:
    """Return messages to the curator about columns that are shifted between private and public rows.

    Images (``image_shape``) are compared by brightness, contrast and largest pixel; texts are not compared.

    Notes
    -----
    A column is compared by E(P, Q) = sum over intervals of max(0, P - 3 Q), where P and Q are the shares of public and
    private rows (the hockey-stick divergence at factor 3; Sason and Verdu 2016). Whichever third of a population the
    public rows are, they are nowhere more than three times as dense as all of it, so that a biased choice of public
    rows alone gives about 0; rows in other units stand where hardly any private row does, and give up to 1. Intervals
    are quantiles of the public rows; of a column of texts, the categories that are frequent there.

    Where no column is shifted, all together may still be drawn otherwise, as the lowest third along a direction:
    a linear discriminant of ranks, fitted on every other row, is asked about the rest. It separates more than 70 of 100
    pairs of a public and a private row, or more than chance would in four standard deviations of the
    Mann-Whitney statistic, whichever is more (a classifier two-sample test: Lopez-Paz and Oquab 2017).

    **Guarantees.** What comes back is private. Nothing is changed, no random bit is taken, and no cell can stop it.
    """
    alike: list[CuratorMessage] = []
    try:
        with np.errstate(all="ignore"):
            pairs = _pairs(private, public, image_shape)
            for name, one, two in pairs:
                alike += about_categories(name, two.tolist(), set(one.tolist())) if one.dtype == object else []
            found, n_columns = _shifts(pairs), len(pairs)
            shown = sorted((shift for shift in found if shift.excess > _MOST), key=lambda shift: -shift.excess)
            if not shown:
                apart, by_chance = _separated(pairs)
                if apart <= max(_APART, by_chance):
                    return alike
                text = (
                    "the public rows are drawn otherwise than the private ones: by all their columns together one can "
                    f"say of {apart:.0%} of pairs, a public and a private row each, which is which (50% of rows drawn "
                    "alike). What is learnt by way of them may serve the private population badly. Take public rows "
                    "that are drawn as the private ones are, where there are any."
                )
                return [*alike, CuratorMessage(text, category=CovariateShiftWarning)]
    except Exception:  # an odd cell of one record may not stop a release, nor be quoted
        return alike
    of_all = "the one column" if n_columns == 1 else f"{len(shown)} of {n_columns} columns"
    more = f", and {len(shown) - _LISTED} more" if len(shown) > _LISTED else ""
    text = (
        f"{of_all} of the private rows {'has' if len(shown) == 1 or n_columns == 1 else 'have'} other values than in "
        f"the public ones: {', '.join(map(str, shown[:_LISTED]))}{more}. Are they in other units, scaled on one side "
        "only, or spelt otherwise? Then the labels would be useless, and the budget spent all the same. Give both "
        "sides in the same units; put a scaler inside the estimator, or fit it on the public rows and apply it to both."
    )
    return [*alike, CuratorMessage(text, category=CovariateShiftWarning)]


def _pairs(private: Any, public: Any, image_shape: Any) -> _Pairs:
    if min(np.shape(private)[0], np.shape(public)[0]) < _FEWEST or np.ndim(public) < 2:
        return []
    shown, held = _some(public), _some(private)
    wide = not is_frame(shown) and int(np.prod(shown.shape[1:])) > _WIDE
    if is_sparse(shown) or image_shape is not None or shown.ndim > 2 or wide:
        theirs = _summaries(held)
        return [(name, numbers, theirs[name]) for name, numbers in _summaries(shown).items()]
    return list(_columns(shown, held))


def _shifts(pairs: _Pairs) -> list[Shift]:
    found = []
    for name, one, two in pairs:
        if one.dtype == object:
            found.append(Shift(name, max(_excess(*_by_category(one, two)), _unseen(one, two))))
        else:
            # As float32: the type of one side must not make its values others.
            mine, yours = (side[np.isfinite(side)].astype(np.float32) for side in (one, two))
            if min(len(mine), len(yours)) >= _FEWEST:
                found.append(Shift(name, _excess(*_by_quantile(mine, yours)), _ratio(mine, yours)))
    return found


def _separated(pairs: _Pairs) -> tuple[float, float]:
    """Return the share of pairs of rows that a line separates rightly, and what chance may reach."""
    numbers = [(one, two) for _, one, two in pairs if one.dtype != object]
    if not numbers:
        return 0.5, 1.0
    n, n_held = (max(len(pair[i]) for pair in numbers) for i in (0, 1))
    columns = []
    for _, one, two in pairs:
        if (len(one), len(two)) != (n, n_held):  # texts with gaps
            continue
        columns += [_ranks(np.concatenate(both)) for both in _as_numbers(one, two)]
    x = np.stack([column for column in columns if column.any()] or [np.zeros(n + n_held)], axis=1)
    ours = np.arange(n + n_held) < n
    odd = np.concatenate([np.arange(n), np.arange(n_held)]) % 2 == 1
    found = []
    for asked in (odd, ~odd):
        seen, mine = x[~asked], ours[~asked]
        spread = np.atleast_2d(np.cov(seen, rowvar=False))
        spread += _RIDGE * np.trace(spread) / len(spread) * np.eye(len(spread)) + 1e-9 * np.eye(len(spread))
        scores = x[asked] @ np.linalg.solve(spread, seen[mine].mean(axis=0) - seen[~mine].mean(axis=0))
        found.append(_above(scores[ours[asked]], scores[~ours[asked]]))
    return float(np.mean(found)), 0.5 + _DEVIATIONS * float(np.sqrt((1 / n + 1 / n_held) / 12))


def _as_numbers(one: npt.NDArray[Any], two: npt.NDArray[Any]) -> list[tuple[FloatArray, FloatArray]]:
    """Return a column as it is, or whether it is each category that is frequent in public rows."""
    if one.dtype != object:
        return [(one.astype(np.float64), two.astype(np.float64))]
    mine, yours = one.astype(str), two.astype(str)
    return [((mine == name).astype(np.float64), (yours == name).astype(np.float64)) for name in _frequent(mine)]


def _frequent(texts: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the categories that are frequent in public rows."""
    names, counts = np.unique(texts, return_counts=True)
    return names[counts >= max(3, len(texts) / _INTERVALS)]


def _ranks(x: FloatArray) -> FloatArray:
    """Return ranks from -1/2 to 1/2, equal values alike; 0 of what is missing, and of a column of one value."""
    known = np.isfinite(x)
    ranks, values = np.zeros(len(x)), np.sort(x[known])
    if len(values):
        below = np.searchsorted(values, x[known], side="left") + np.searchsorted(values, x[known], side="right")
        ranks[known] = below / (2 * len(values)) - 0.5
    return ranks


def _above(one: FloatArray, two: FloatArray) -> float:
    """Return the share of pairs in which the first is larger; half of those that are equal."""
    values = np.sort(two)
    below = np.searchsorted(values, one, side="left") + np.searchsorted(values, one, side="right")
    return float(below.mean() / (2 * len(values)))


def _some(rows: Any) -> Any:
    """Return rows evenly spread over all."""
    rows = rows if is_frame(rows) or is_sparse(rows) else np.asarray(rows)
    n = rows.shape[0]
    if n <= _LOOKED_AT:
        return rows
    places = np.linspace(0, n - 1, _LOOKED_AT).astype(np.int64)
    if not is_frame(rows):
        return rows[places]
    import pandas as pd

    parts = []
    for part in np.array_split(places, _PARTS):
        parts.append(rows.iloc[part])
        let_go()
    return pd.concat(parts)


def _columns(public: Any, private: Any) -> Iterator[tuple[str, npt.NDArray[Any], npt.NDArray[Any]]]:
    import pandas as pd

    named = is_frame(public) and is_frame(private)
    sides = [rows if is_frame(rows) else pd.DataFrame(np.reshape(rows, (len(rows), -1))) for rows in (public, private)]
    for j, name in enumerate(sides[0].columns):
        one, two = (side[name] if named else side.iloc[:, j] for side in sides)
        said = repr(str(name)) if named else f"column {j}"
        one = one.infer_objects() if one.dtype == object else one
        if holds_numbers(one.dtype):
            yield said, numbers_in(one)[0].to_numpy(), numbers_in(two)[0].to_numpy()
        else:
            texts = [as_text(side.dropna()).to_numpy(dtype=object) for side in (one, two)]
            yield said, texts[0], texts[1]


def _summaries(rows: Any) -> dict[str, npt.NDArray[Any]]:
    """Return numbers that measure each row's brightness."""
    if is_sparse(rows):
        rows = rows.tocsr()
        n_cells, largest = np.diff(rows.indptr).astype(np.float64), abs(rows).max(axis=1).toarray().ravel()
        return {"how many cells are filled": n_cells, "the largest cell": largest}
    cells = np.asarray(rows, dtype=np.float64).reshape(len(rows), -1)
    return {"brightness": cells.mean(axis=1), "contrast": cells.std(axis=1), "the largest cell": cells.max(axis=1)}


def _by_quantile(public: npt.NDArray[Any], private: npt.NDArray[Any]) -> tuple[FloatArray, FloatArray]:
    """Return the shares of both in intervals of public quantiles; a value that many public rows have is one of them."""
    public = np.sort(public)
    k = int(np.clip(len(public) // 5, 2, _INTERVALS))
    marks = public[np.linspace(0, len(public) - 1, k + 1).astype(np.int64)]
    below = np.float32(-np.inf)
    common = marks[1:][marks[1:] == marks[:-1]]
    edges = np.unique(np.concatenate([[np.nextafter(marks[0], below)], marks, np.nextafter(common, below)]))
    one, two = (np.bincount(np.searchsorted(edges, x), minlength=len(edges) + 1) / len(x) for x in (public, private))
    return one, two


def _by_category(public: npt.NDArray[Any], private: npt.NDArray[Any]) -> tuple[FloatArray, FloatArray]:
    """Return the shares of both in categories that are frequent in public rows, and in all others together."""
    frequent, shares = _frequent(public.astype(str)), []
    for side in (public.astype(str), private.astype(str)):
        known = np.array([np.count_nonzero(side == name) for name in frequent], dtype=np.float64)
        shares.append(np.append(known, len(side) - known.sum()) / max(1, len(side)))
    return shares[0], shares[1]


def _unseen(public: npt.NDArray[Any], private: npt.NDArray[Any]) -> float:
    """Return the share of private cells of categories that no public row has, beyond what few rows leave out.

    A category that one public row has stands for those that none has (Good 1953).
    """
    names, counts = np.unique(public.astype(str), return_counts=True)
    unseen = ~np.isin(private.astype(str), names)
    return float(unseen.mean() - np.count_nonzero(counts == 1) / len(public)) if len(private) and len(public) else 0.0


def _excess(public: FloatArray, private: FloatArray) -> float:
    return float(np.maximum(0.0, public - _DENSER * private).sum())


def _ratio(public: npt.NDArray[Any], private: npt.NDArray[Any]) -> float | None:
    """Return how many times the public values the private ones are, where both lie on one side of 0."""
    one, two = (x[x != 0] for x in (public, private))
    if not (len(one) and len(two)) or min(one.min(), two.min()) < 0:
        return None
    return float(np.median(two) / np.median(one))
