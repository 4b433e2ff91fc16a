"""Turn tables and texts into numbers, using public rows alone and no labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pate._core.checks import check_choice, check_int, check_real, shown
from pate._core.types import FloatArray
from pate.data import hardly_varies
from pate.exceptions import InvalidInputError
from pate.representations._base import Representation
from pate.representations._cells import MISSING, RARE, TableCells, TextCells

# Scales that public rows fix: columns by their spread, and rows of one length.

#: Added to the variance of a group, as in group normalisation.
_EPSILON = 1e-5
#: A column's spread counts as at least this share of the mean spread: what hardly varies is not blown up.
_LEAST = 1e-3


def _blocks(scale: Representation, rows: Any) -> Iterator[FloatArray]:
    """Yield public rows as numbers, block by block: never more of them than a block at a time."""
    n, size = int(rows.shape[0]), scale._block_rows
    for start in range(0, n, size):
        yield scale.cells_.block(rows, start, min(size, n - start))


@dataclass(repr=False, eq=False)
class PublicScale(Representation):
    """Subtract each column's public mean and divide by a power of its public standard deviation.

    Parameters
    ----------
    power : float
        0 leaves the scale as it is, 1 makes all spreads alike, 1/2 is between: of wavelet scattering it lets the quiet
        maps be heard without letting them speak alone.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(2000, 2)) * [100.0, 1.0]
    >>> PublicScale(0.5).fit(X).transform(X).std(axis=0).round(0)
    array([10.,  1.])
    """

    exact_ = True
    _arrays = ("mean", "scale")
    power: float = 0.5

    def _check(self) -> None:
        check_real("power", self.power, low=0, high=1, remedy="0 leaves the scale, 1 makes all spreads alike.")

    def _learn(self, rows: Any) -> None:
        n, d = rows.shape
        total, squares = np.zeros(d), np.zeros(d)
        for block in _blocks(self, rows):
            total += block.sum(axis=0)
        self.mean_ = total / n
        for block in _blocks(self, rows):
            squares += ((block - self.mean_) ** 2).sum(axis=0)
        spread = np.sqrt(squares / n)
        floor = _LEAST * spread.mean()
        spread = np.maximum(spread, floor) if floor > 0 else np.ones(d)
        self.scale_ = spread ** -float(self.power)
        self.n_features_out_ = d

    def _map(self, block: FloatArray) -> FloatArray:
        return (block - self.mean_) * self.scale_

    def _fits(self) -> bool:
        return bool(self.mean_.shape == self.scale_.shape == (self.n_features_out_,))


class AboveLeast(Representation):
    """Subtract each column's smallest public value and clip at 0: for amounts, the distance from the smallest.

    Examples
    --------
    >>> AboveLeast().fit(np.array([[2.0, 0.0], [5.0, 1.0]])).transform(
    ...     np.array([[3.0, -1.0]])
    ... )
    array([[1., 0.]])
    """

    exact_ = True
    _arrays = ("least",)

    def _learn(self, rows: Any) -> None:
        self.least_ = np.min([block.min(axis=0) for block in _blocks(self, rows)], axis=0)
        self.n_features_out_ = int(rows.shape[1])

    def _map(self, block: FloatArray) -> FloatArray:
        return np.maximum(block - self.least_, 0.0)

    def _fits(self) -> bool:
        return bool(self.least_.shape == (self.n_features_out_,))


@dataclass(repr=False, eq=False)
class UnitRows(Representation):
    """Divide each row by its own L2 norm and add a constant column; a row of zeros keeps only the constant.

    The largest norm of a linear model's gradient is then known before any record is read: sqrt(2), for the
    cross-entropy of a softmax. Public rows determine only the range of the columns.

    Parameters
    ----------
    constant : float
        A last coordinate of this value, the others being scaled so that the row has norm 1: a bias that a linear model
        pays for with ``constant**2`` of its gradient. 0 adds no coordinate.

    Examples
    --------
    >>> X = np.array([[3.0, 4.0], [0.0, 0.0], [0.0, 5.0]])
    >>> UnitRows().fit(X).transform(X).tolist()
    [[0.6, 0.8], [0.0, 0.0], [0.0, 1.0]]
    >>> UnitRows(constant=0.6).fit(X).transform(X)[2].tolist()
    [0.0, 0.8, 0.6]
    """

    exact_ = True
    _: KW_ONLY
    constant: float = 0.0

    def _check(self) -> None:
        check_real("constant", self.constant, low=0, high=1, high_open=True, remedy="The row's norm is 1 with it.")

    def _learn(self, rows: Any) -> None:
        self.n_features_out_ = int(rows.shape[1]) + (self.constant > 0)

    def _map(self, block: FloatArray) -> FloatArray:
        # By its largest number first: squares then neither overflow nor vanish.
        largest = np.abs(block).max(axis=1, keepdims=True)
        made = block / np.where(largest > 0, largest, 1.0)
        squares = np.zeros(len(block))
        for column in made.T:
            squares += column * column
        made /= np.sqrt(np.where(squares > 0, squares, 1.0))[:, None]
        if not self.constant:
            return made
        made *= np.sqrt(1.0 - self.constant**2)
        return np.column_stack([made, np.full(len(made), float(self.constant))])


@dataclass(repr=False, eq=False)
class GroupedRows(Representation):
    """Group normalisation: cut each row into groups of columns, and scale each group to mean 0 and variance 1.

    Of features and without weights (Wu and He, ECCV 2018), as Tramer and Boneh (ICLR 2021) do with wavelet scattering
    if there are no public rows. Public rows determine only the range of the columns.

    Parameters
    ----------
    n_groups : int
        Divides the number of columns.

    Examples
    --------
    >>> X = np.array([[0.0, 2.0, 50.0, 70.0], [1.0, 1.0, 5.0, 5.0]])
    >>> GroupedRows(2).fit(X).transform(X).round(3).tolist()
    [[-1.0, 1.0, -1.0, 1.0], [0.0, 0.0, 0.0, 0.0]]
    """

    exact_ = True
    n_groups: int = 1

    def _check(self) -> None:
        check_int("n_groups", self.n_groups, low=1)

    def _learn(self, rows: Any) -> None:
        d = int(rows.shape[1])
        if d % self.n_groups:
            raise InvalidInputError(
                f"n_groups must divide the number of columns, {d}, got {self.n_groups}. Groups have one size."
            )
        self.n_features_out_ = d

    def _map(self, block: FloatArray) -> FloatArray:
        groups = block.reshape(len(block), self.n_groups, -1)
        size = groups.shape[2]
        mean = np.zeros(groups.shape[:2])
        for i in range(size):
            mean += groups[:, :, i]
        apart = groups - (mean / size)[:, :, None]
        squares = np.zeros(groups.shape[:2])
        for i in range(size):
            squares += apart[:, :, i] * apart[:, :, i]
        apart /= np.sqrt(squares / size + _EPSILON)[:, :, None]
        return apart.reshape(block.shape)


_ENCODINGS = ("standard", "quantile", "thermometer", "common")
#: A standardised number counts as at most this many deviations.
_CLIP = 4.0
#: Where the public distribution of a column is written down.
_KNOTS = 129


@dataclass(repr=False, eq=False)
class TableMap(Representation):
    """Turn the columns of a table into numbers of comparable scale, fitted on public rows.

    Columns of numbers become one or several columns, with a total variance of about 1:

    - ``"standard"``: minus the public median, divided by (public interquartile range / 1.349), clipped at 4;
    - ``"quantile"``: the share of public cells below the number;
    - ``"common"``: minus the public median, divided by one scale for all columns (the root of their mean public
      variance), clipped at 4: for columns of one unit, such as pixels; only on its own;
    - ``"thermometer"``: for each two neighbouring of ``n_bins`` public quantiles, how far the number lies between them,
      from 0 to 1 (piecewise linear encoding, Gorishniy et al., NeurIPS 2022): a model that is linear in it can fit a
      nonlinear effect of a column.

    A missing number becomes the public median; if public cells were missing, an indicator column is added. A column
    whose public numbers are one number but for rounding (a range of at most 1e-13 of it) is left out. Categories: one
    column each for the ``max_categories`` most frequent public ones, one for all others if some were left out, and one
    for missing cells if there were some.

    Parameters
    ----------
    numeric : list of {"standard", "quantile", "thermometer"}, or ["common"]
        How a column of numbers is encoded: one or several of these, side by side.
    n_bins : int
        Number of bins of a thermometer encoding, at least 2.
    max_categories : int
        At least 2.

    Notes
    -----
    Each cell is mapped by itself, so a row's vector is the same to the last bit wherever the row stands. An infinite or
    huge number becomes the end of its column's range; a text among numbers counts as missing.

    Examples
    --------
    >>> import pandas as pd
    >>> public = pd.DataFrame(
    ...     {"age": [20.0, 40.0, 60.0, 30.0], "town": ["Oslo", "Rome", "Oslo", "Rome"]}
    ... )
    >>> table = TableMap(numeric=["standard"]).fit(public)
    >>> table.transform(
    ...     pd.DataFrame({"age": [35.0, None, 1e300], "town": ["Rome", "Kyiv", None]})
    ... ).round(2)
    array([[0., 0., 1.],
           [0., 0., 0.],
           [4., 0., 0.]])
    """

    _reader = TableCells
    exact_ = True
    _: KW_ONLY
    numeric: Any = ("quantile", "thermometer")
    n_bins: int = 16
    max_categories: int = 50

    def _check(self) -> None:
        check_int("n_bins", self.n_bins, low=2)
        check_int("max_categories", self.max_categories, low=2)
        if not isinstance(self.numeric, list | tuple) or not self.numeric:
            allowed = ", ".join(map(repr, _ENCODINGS))
            raise InvalidInputError(f"numeric must be a list of some of {allowed}, got {shown(self.numeric)}.")
        for name in self.numeric:
            check_choice("numeric", name, _ENCODINGS)
        if "common" in self.numeric and len(self.numeric) > 1:
            raise InvalidInputError(f"numeric must be ['common'] alone, or without it, got {shown(self.numeric)}.")

    def _learn(self, rows: Any) -> None:
        known = self.cells_.categories
        self._encodings = tuple(dict.fromkeys(self.numeric))
        cells = (np.asarray(rows[:, j], dtype=np.float64) for j in range(len(known)))
        self.columns_ = [self._column(column, names, rows.dtype) for column, names in zip(cells, known, strict=True)]
        if self._encodings == ("common",):
            self._in_one_unit(rows)
        self.n_features_out_ = self._width()
        if not self.n_features_out_:
            raise InvalidInputError(
                "X_public has no column that distinguishes rows: numbers that are all one, or texts that stand there "
                "once each. Give a column with more to say."
            )

    def _in_one_unit(self, rows: Any) -> None:
        """Give all columns of numbers that vary the same scale."""
        varying = [j for j, column in enumerate(self.columns_) if len(column.get("knots", ()))]
        with np.errstate(all="ignore"):
            cells = np.clip(np.asarray(rows[:, varying], dtype=np.float64), -1e150, 1e150)
            scale = float(np.sqrt(np.nanvar(cells, axis=0).mean())) if varying else 1.0
        for j in varying:
            self.columns_[j]["scale"][1] = scale if 0 < scale < np.inf else 1.0

    def _column(self, cells: FloatArray, known: tuple[str, ...] | None, dtype: Any) -> dict[str, FloatArray]:
        if known is not None:
            n_kept = min(len(known), self.max_categories)
            rest = bool(((cells >= n_kept) | (cells == RARE)).any())
            return {"kept": np.array([n_kept, rest, (cells == MISSING).any()], dtype=np.float64)}
        there = np.sort(np.clip(cells[~np.isnan(cells)], -1e150, 1e150))
        absent = np.array([float(np.isnan(cells).any() and len(there) > 0)])
        if not len(there) or hardly_varies(there[0], there[-1], dtype):  # else scaling would blow up rounding
            return {"scale": np.zeros(2), "absent": absent} | {name: np.zeros(0) for name in ("knots", "ranks", "bins")}
        low, middle, high = np.quantile(there, [0.25, 0.5, 0.75])
        scale = (high - low) / 1.349 or float(there.std()) or 1.0
        knots = np.unique(np.quantile(there, np.linspace(0, 1, _KNOTS), method="nearest"))
        ranks = (np.searchsorted(there, knots, "left") + np.searchsorted(there, knots, "right")) / (2.0 * len(there))
        found = {"scale": np.array([middle, scale]), "knots": knots, "ranks": ranks, "bins": _bins(there, self.n_bins)}
        return found | {"absent": absent}

    def _width(self) -> int:
        return sum(self._column_width(column) for column in self.columns_)

    def _column_width(self, column: dict[str, FloatArray]) -> int:
        if "kept" in column:
            return int(column["kept"].sum())
        width = int(column["absent"][0])
        if len(column["knots"]):
            width += sum(len(column["bins"]) - 1 if name == "thermometer" else 1 for name in self._encodings)
        return width

    def _map(self, block: FloatArray) -> FloatArray:
        made = np.zeros((len(block), self.n_features_out_))
        place = 0
        for j, column in enumerate(self.columns_):
            width = self._column_width(column)
            target = made[:, place : place + width]
            place += width
            if "kept" in column:
                _one_hot(block[:, j], column["kept"], target)
            elif width:
                self._write_numbers(block[:, j], column, target)
        return made

    def _write_numbers(self, cells: FloatArray, column: dict[str, FloatArray], target: FloatArray) -> None:
        missing = np.isnan(cells)
        if column["absent"][0]:
            target[:, -1] = missing
        if not len(column["knots"]):
            return
        middle, scale = column["scale"]
        cells = np.clip(np.where(missing, middle, cells), -1e150, 1e150)
        share = len(self._encodings) ** -0.5
        at = 0
        for name in self._encodings:
            if name in ("standard", "common"):
                target[:, at] = np.clip((cells - middle) / scale, -_CLIP, _CLIP) * share
                at += 1
            elif name == "quantile":  # of variance 1/12 between 0 and 1
                target[:, at] = (np.interp(cells, column["knots"], column["ranks"]) - 0.5) * (12.0**0.5 * share)
                at += 1
            else:
                bins = column["bins"]
                steps = (cells[:, None] - bins[:-1]) / np.diff(bins)
                width = len(bins) - 1
                target[:, at : at + width] = np.clip(steps, 0.0, 1.0) * ((6.0 / max(width, 2)) ** 0.5 * share)
                at += width

    def _state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        arrays = {f"{j}.{name}": array for j, column in enumerate(self.columns_) for name, array in column.items()}
        return arrays, {}

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> None:
        self._encodings = tuple(dict.fromkeys(self.numeric))
        self.columns_ = [{} for _ in self.cells_.categories]
        for name, array in arrays.items():
            if array.dtype != np.float64 or array.ndim != 1 or not np.isfinite(array).all():
                raise ValueError("not a column")
            j, _, part = name.partition(".")
            self.columns_[int(j)][part] = array
        if not all(map(_is_column, self.columns_, self.cells_.categories)) or self._width() != self.n_features_out_:
            raise ValueError("not a column")


def _is_column(column: dict[str, FloatArray], known: tuple[str, ...] | None) -> bool:
    """Whether these are the arrays of a column: of categories, or of numbers whose steps rise."""
    if known is not None:  # how many categories have a column, and whether the rest, and missing cells, have one
        kept = column["kept"].tolist() if set(column) == {"kept"} else []
        return len(kept) == 3 and kept[0] in range(len(known) + 1) and {*kept[1:]} <= {0.0, 1.0}
    fine = set(column) == {"scale", "knots", "ranks", "bins", "absent"} and len(column["scale"]) == 2
    varies = fine and len(column["knots"]) > 0  # a column that does not is left out
    fine = fine and (column["scale"][1] > 0 or not varies) and column["absent"].tolist() in ([0.0], [1.0])
    rises = fine and all(bool((np.diff(column[name]) > 0).all()) for name in ("knots", "bins"))
    return rises and column["knots"].shape == column["ranks"].shape and (len(column["bins"]) > 0) == varies


def _bins(there: FloatArray, n_bins: int) -> FloatArray:
    """Return the ends of a thermometer's steps: values that many rows hold, and quantiles of all others."""
    values, counts = np.unique(there, return_counts=True)
    heavy = counts > len(there) / n_bins
    others = there[~np.isin(there, values[heavy])]
    quantiles = np.quantile(others, np.linspace(0, 1, n_bins + 1), method="nearest") if len(others) else others
    return np.unique(np.concatenate([values[heavy], quantiles]))


def _one_hot(codes: FloatArray, kept: FloatArray, target: FloatArray) -> None:
    n_kept, rest, missing = int(kept[0]), bool(kept[1]), bool(kept[2])
    own = np.flatnonzero((codes >= 0) & (codes < n_kept))
    target[own, codes[own].astype(np.int64)] = 1.0
    if rest:
        target[(codes >= n_kept) | (codes == RARE), n_kept] = 1.0
    if missing:
        target[codes == MISSING, -1] = 1.0


# Texts as vectors: term frequencies weighted by public rarity, reduced by the singular vectors of public texts.


@dataclass(repr=False, eq=False)
class TextMap(Representation):
    """Turn texts into vectors by latent semantic analysis: TF-IDF over the public vocabulary, then a truncated SVD.

    (Deerwester et al., J. Am. Soc. Inf. Sci. 1990.) The vocabulary is that of the public texts: a word that none of
    them has is ignored. Hashing words instead would only add collisions.

    Parameters
    ----------
    n_components : int
        The most components; fewer if the public texts span fewer.
    analyzer : {"word", "char_wb"}
        Words, or sequences of characters within words (for short texts and unusual spelling).
    ngram_range : (int, int)
        Shortest and longest sequence of words or characters.
    max_features : int
        The number of terms that are used: the most frequent ones.
    random_state : int
        Seed of the randomised decomposition, which is public.

    Attributes
    ----------
    vocabulary_ : list of str
        Terms that occur in at least two public texts (in one, if no two texts share a term).

    Notes
    -----
    A text without any known term, and a row that is not a text, becomes the zero vector.

    Examples
    --------
    >>> notes = [
    ...     "the ship sails north",
    ...     "the ship sails south",
    ...     "rain in the north",
    ...     "rain in the south",
    ...     "no ship",
    ... ]
    >>> text = TextMap(3).fit(notes)
    >>> z = text.transform(["a ship, it sails", "rain", "Ms Smith"])
    >>> z.shape, bool(z[0] @ z[1] < 0.5), z[2].tolist()
    ((3, 3), True, [0.0, 0.0, 0.0])
    """

    _reader = TextCells
    exact_ = True
    _arrays = ("idf", "components")
    n_components: int = 256
    _: KW_ONLY
    analyzer: str = "word"
    ngram_range: Any = (1, 2)
    max_features: int = 50_000
    random_state: int = 0

    def _check(self) -> None:
        check_int("n_components", self.n_components, low=1)
        check_choice("analyzer", self.analyzer, ["word", "char_wb"])
        check_int("max_features", self.max_features, low=2)
        check_int("random_state", self.random_state, low=0)
        runs = self.ngram_range
        if not isinstance(runs, list | tuple) or len(runs) != 2:
            raise InvalidInputError(f"ngram_range must be two whole numbers such as (1, 2), got {shown(runs)}.")
        low = check_int("ngram_range[0]", runs[0], low=1)
        check_int("ngram_range[1]", runs[1], low=low)

    def _counter(self, **options: Any) -> Any:
        from sklearn.feature_extraction.text import CountVectorizer

        if self.analyzer == "word":
            options["token_pattern"] = r"(?u)\b\w+\b"
        return CountVectorizer(
            analyzer=self.analyzer,
            ngram_range=(int(self.ngram_range[0]), int(self.ngram_range[1])),
            strip_accents="unicode",
            dtype=np.float64,
            **options,
        )

    def _learn(self, rows: Any) -> None:
        from sklearn.decomposition import TruncatedSVD

        try:
            counter = self._counter(min_df=2, max_features=self.max_features).fit(rows)
        except ValueError:  # no two texts share a term
            try:
                counter = self._counter(max_features=self.max_features).fit(rows)
            except ValueError:
                raise InvalidInputError("X_public holds no words. Pass texts, one per row.") from None
        self.vocabulary_ = counter.get_feature_names_out().tolist()
        counts = counter.transform(rows)
        n = counts.shape[0]
        frequency = np.bincount(counts.indices, minlength=counts.shape[1])
        self.idf_ = np.log((1.0 + n) / (1.0 + frequency)) + 1.0  # as scikit-learn's, smooth
        self._counter_ = self._counter(vocabulary=self.vocabulary_)
        weighted = self._weighted(rows)
        k = min(int(self.n_components), min(weighted.shape))
        if k < min(weighted.shape):
            found = TruncatedSVD(k, random_state=self.random_state).fit(weighted)
            values, components = found.singular_values_, found.components_
        else:
            values, components = np.linalg.svd(weighted.toarray(), full_matrices=False)[1:]
        # Beyond the public texts' rank (as numpy's matrix_rank has it) a component is rounding.
        least = values.max() * max(weighted.shape) * np.finfo(np.float64).eps
        k = max(1, int((values[:k] > least).sum()))
        self.components_: FloatArray = np.ascontiguousarray(components[:k].T, dtype=np.float64)
        self.n_features_out_ = k

    def _weighted(self, texts: Any) -> Any:
        from sklearn.preprocessing import normalize

        counts = self._counter_.transform(texts).tocsr()
        counts.sort_indices()
        counts.data = (1.0 + np.log(counts.data)) * self.idf_[counts.indices]
        return normalize(counts)

    def _map(self, block: Any) -> npt.NDArray[Any]:
        return np.asarray(self._weighted(block) @ self.components_)

    def _state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        return super()._state()[0], {"vocabulary": self.vocabulary_}

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> None:
        self.vocabulary_ = [str(word) for word in words["vocabulary"]]
        self._counter_ = self._counter(vocabulary=self.vocabulary_)
        super()._restore(arrays, words)

    def _fits(self) -> bool:
        n = len(self.vocabulary_)
        alike = self.components_.shape == (n, self.n_features_out_) and self.idf_.shape == (n,)
        return alike and n == len(set(self.vocabulary_))
