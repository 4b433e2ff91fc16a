"""Use the user's own scikit-learn transformer as a representation."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from types import FunctionType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_selector
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from pate._core.checks import shown
from pate._core.estimators import pack_estimator, unpack_estimator
from pate.data import holds_numbers, is_frame, is_sparse, is_texts, read_rows
from pate.exceptions import InvalidInputError
from pate.representations._base import BLOCK, Representation
from pate.representations._cells import NumberCells, SparseCells, TextCells, ask_block

# Whether the user's map treats each row by itself: tried on public and made-up rows before any private one.

_SEED = 0x0A9A


def as_vectors(name: str, output: Any, n_rows: int, width: int) -> npt.NDArray[Any]:
    """Return an output as finite rows of floats: a row that is not finite is zero throughout."""
    made = np.asarray(output.toarray() if is_sparse(output) else output)
    if made.ndim == 1 or len(made) != n_rows or made.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"{name} must return one vector of numbers per row: for {n_rows} rows it returned "
            f"{shown(made) if made.ndim == 0 else f'an array of {made.dtype} of shape {made.shape}'}."
        )
    made = made.reshape(n_rows, -1)
    if width and made.shape[1] != width:
        raise InvalidInputError(f"{name} must return vectors of one length, {width}, got {made.shape[1]}.")
    if made.dtype not in (np.float32, np.float64):
        made = made.astype(np.float32 if made.dtype == np.float16 else np.float64)
    fine = np.isfinite(made).all(axis=1)
    return made if fine.all() else np.where(fine[:, None], made, made.dtype.type(0))


def check_rows_apart(name: str, block_map: Callable[[Any], npt.NDArray[Any]], cells: Any, rows: Any, size: int) -> int:
    """Refuse a map by which one row's vector depends on another row; return how long the vectors are.

    A block of public rows is mapped twice, then with all rows but two exchanged for made-up ones (both must give the
    same bits), and in another order (the same numbers: their last bits may depend on the place, which is public).

    Refuses one that draws at random, or mixes rows (a mean over the batch, batch normalisation in training mode).
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
        fixed = [0, size // 2]
        for others in _made_up(cells, size, rng):
            mixed = _exchanged(block, others, fixed)
            if not np.array_equal(block_map(mixed)[fixed], made[fixed]):
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


def _exchanged(block: Any, others: Any, fixed: list[int]) -> Any:
    mixed: Any
    if is_sparse(block):
        mixed = others.tolil()
        for i in fixed:
            mixed[[i]] = block[[i]]
        return sparse.csr_array(mixed)
    mixed = others.copy()
    mixed[fixed] = block[fixed]
    return mixed


# Which code is known to treat each row by itself.

#: Parts of scikit-learn whose classes predict each row from that row and the fitted state: not those that are random in
#: ``predict``, or iterate over all rows together.
_ROW_BY_ROW = frozenset(
    (
        "calibration", "compose", "discriminant_analysis", "dummy", "ensemble", "feature_extraction",
        "feature_selection", "frozen", "impute", "kernel_approximation", "linear_model", "model_selection",
        "multiclass", "multioutput", "naive_bayes", "neighbors", "neural_network", "pipeline", "preprocessing",
        "random_projection", "semi_supervised", "svm", "tree",
    )
)  # fmt: skip
_OF_OTHER_PARTS = frozenset(("PCA", "IncrementalPCA", "KernelPCA", "TruncatedSVD", "KMeans", "MiniBatchKMeans"))
_NOT = frozenset(("IterativeImputer", "KNNImputer"))
#: Random strategies of DummyClassifier.
_DRAWN = ("uniform", "stratified")
#: Values that run no code: those of any other type (a metric's object, a user's vocabulary) may look at other rows.
_VALUES = (type(None), bool, int, float, complex, str, bytes, slice, np.ndarray, *{*np.sctypeDict.values()})
#: Types that a parameter such as ``dtype`` names.
_TYPES = frozenset((bool, int, float, str, object, *np.sctypeDict.values()))
#: Where scikit-learn's own code stands that ``fit`` alone calls: scores by which columns are chosen, and splits.
_OF_FIT = ("sklearn.feature_selection._univariate_selection", "sklearn.feature_selection._mutual_info")
_SPLITS = "sklearn.model_selection._split"


def is_known_throughout(student: Any) -> bool:
    """Whether all parts of a student are pate's or scikit-learn's code that predicts each row by itself."""
    if isinstance(student, Representation):
        own = type(student).__module__.startswith("pate.") and getattr(student, "own_", True)
        return (
            own and not isinstance(student, Brought) and all(map(is_known_throughout, getattr(student, "parts_", ())))
        )
    package, part = [*type(student).__module__.split("."), ""][:2]
    name = type(student).__name__
    listed = (part in _ROW_BY_ROW or name in _OF_OTHER_PARTS) and name not in _NOT
    if package != "pate" and not (package == "sklearn" and listed):
        return False
    own = isinstance(student, FunctionTransformer) and student.func is not None
    if own and (student.kw_args or not isinstance(student.func, np.ufunc)):
        return False
    if isinstance(student, DummyClassifier) and student.strategy in _DRAWN:
        return False
    params = student.get_params(deep=False) if hasattr(student, "get_params") else {}
    return all(map(_is_known, params.values()))


def _is_known(value: Any) -> bool:
    if type(value) is dict:
        return all(map(_is_known, (*value, *value.values())))
    if type(value) in (list, tuple, set, frozenset):
        return all(map(_is_known, value))
    if isinstance(value, type):
        return value in _TYPES
    if isinstance(value, np.ufunc):  # number by number, where it is compiled
        return value.nin == value.nout == 1 and value.signature is None and value.types != ["O->O"]
    if hasattr(value, "fit") or hasattr(value, "transform"):
        return is_known_throughout(value)
    if type(value) in (make_column_selector, FunctionType):
        return type(value) is make_column_selector or value.__module__ in _OF_FIT
    if type(value) is np.ndarray and value.dtype.hasobject:
        return all(map(_is_known, value.flat))
    return type(value) in _VALUES or type(value).__module__ == _SPLITS


_KINDS: dict[str, Any] = {"numbers": NumberCells, "sparse": SparseCells, "texts": TextCells}
_LONGEST = 300


def check_provenance(provenance: Any, *, needed: bool) -> str:
    """Return what a person says of where something comes from: one line."""
    said = provenance.strip() if isinstance(provenance, str) else None
    if said is None or len(said) > _LONGEST or not said.isprintable():
        raise InvalidInputError(
            f"provenance must be one line of at most {_LONGEST} characters, got {shown(provenance)}."
        )
    if needed and not said:
        raise InvalidInputError(
            "provenance must say on which data it was fitted: it stands in the statement. It must not have seen the "
            'private rows. Pass provenance="ImageNet, torchvision resnet18", say.'
        )
    return said


class AnyCells:
    """Chooses by the public rows what reads rows: numbers, sparse rows or texts."""

    @staticmethod
    def learn(X: Any) -> Any:
        """Learn from public rows."""
        rows = read_rows(X, name="X_public")
        kind = "sparse" if is_sparse(rows) else "texts" if is_texts(rows) else "numbers"
        if kind == "numbers" and is_frame(X) and X.shape[1] == 1 and not holds_numbers(X.dtypes.iloc[0]):
            kind = "texts"
        return _KINDS[kind].learn(X)

    @staticmethod
    def restore(arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> Any:
        """Return the reader that a file describes."""
        kind = "numbers" if "names" in words else "sparse" if "largest" in words else "texts"
        return _KINDS[kind].restore(arrays, words)


class Brought(Representation):
    """A map of the user's, tested on public rows for whether it maps each row by itself; abstract."""

    one_by_one: bool
    batch_size: int = BLOCK
    #: Of vectors, whatever rows there are.
    _dtype: Any = np.float64

    @property
    def exact_(self) -> bool:  # type: ignore[override]
        """Whether a row's place shows in no bit of its vector."""
        return self._block_rows == 1

    @property
    def _block_rows(self) -> int:  # type: ignore[override]
        return 1 if self.one_by_one else int(self.batch_size)

    def _disposable(self) -> Brought:
        apart = copy.copy(self)
        for name in {"module_", "transformer_"} & set(vars(self)):
            setattr(apart, name, copy.deepcopy(getattr(self, name)))
        return apart

    def _mapped(self, rows: Any, start: int, size: int) -> npt.NDArray[Any]:
        # A row on which the user's code raises is the zero vector, and no other row's matter.
        block, found = self.cells_.block(rows, start, size), np.zeros((size, self.n_features_out_), self._dtype)
        ask_block(lambda at: self._map(block[at]), 0, np.arange(size), size, found)
        return found

    def _try(self, name: str, rows: Any, block_map: Callable[[Any], npt.NDArray[Any]]) -> None:
        """Check that no row's vector depends on another row, and set the length of vectors."""
        self.n_features_out_, size = 0, 1 if self.one_by_one else int(self.batch_size)
        self.n_features_out_ = check_rows_apart(name, block_map, self.cells_, rows, size)


@dataclass(repr=False, eq=False)
class FromTransformer(Brought):
    """Use your own scikit-learn transformer as a representation: fitted beforehand, or to be fitted on public rows.

    Parameters
    ----------
    transformer : scikit-learn transformer or pipeline
        One that is fitted is taken as it is; any other is fitted, a copy of it, on public rows alone.
    provenance : str
        On what a fitted one was fitted, or an encoder that one calls was trained (a ``FunctionTransformer`` learns
        nothing, its function may have): it stands in the statement, marked as the person's own word.
    one_by_one : bool
        Show it one row at a time: slower, but every vector is then the same to the last bit at any place,
        which add-or-remove adjacency needs. So it is in any case where some of its code is not scikit-learn's, and
        might look at other rows.

    Attributes
    ----------
    transformer_ : the fitted transformer

    Notes
    -----
    Rows of numbers (a DataFrame's with their names), sparse rows and texts are taken; before mixed tables put a
    :class:`TableMap`. Missing cells are filled and all are clipped to the public range before the transformer sees
    them. One that mixes rows is refused when fitted; whether it ever saw private rows cannot be tested. A row on which
    it raises is the zero vector.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> FromTransformer(StandardScaler()).fit(X).provenance_
    'FromTransformer: StandardScaler fitted on 50 public rows'
    >>> FromTransformer(StandardScaler().fit(X), provenance="our public test bench").fit(
    ...     X
    ... ).provenance_
    'FromTransformer: StandardScaler, fitted beforehand on: our public test bench (as stated by the person)'
    """

    _reader = AnyCells
    _passing: ClassVar[tuple[str, ...]] = ("transformer",)

    transformer: Any
    _: KW_ONLY
    provenance: str = ""
    one_by_one: bool = False

    def __sklearn_clone__(self) -> FromTransformer:
        # What is fitted stays so: it is given, and not learnt here.
        return FromTransformer(copy.deepcopy(self.transformer), provenance=self.provenance, one_by_one=self.one_by_one)

    def _check(self) -> None:
        if isinstance(self.transformer, type) or not (
            hasattr(self.transformer, "fit") and hasattr(self.transformer, "transform")
        ):
            raise InvalidInputError(
                f"transformer must be a scikit-learn transformer, got {shown(self.transformer)}. It has fit and "
                "transform: TruncatedSVD(64), say."
            )
        if isinstance(self.transformer, Representation):
            raise InvalidInputError("transformer is a representation already. Use it as it is.")
        check_provenance(self.provenance, needed=self._is_fitted())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        with suppress(Exception):  # a transformer without tags
            taken = get_tags(self.transformer).input_tags.sparse
            tags.input_tags.sparse = isinstance(self.cells_, SparseCells) if hasattr(self, "provenance_") else taken
        return tags

    def _is_fitted(self) -> bool:
        try:
            if not get_tags(self.transformer).requires_fit:
                return False  # it learns nothing when fitted
            check_is_fitted(self.transformer)
        except (NotFittedError, TypeError, AttributeError):
            return False
        return True

    def _learn(self, rows: Any) -> None:
        self.given_ = self._is_fitted()
        if self.given_:
            self.transformer_ = copy.deepcopy(self.transformer)
        else:
            self.transformer_ = clone(self.transformer)
            n = int(rows.shape[0])
            self.transformer_.fit(self._shown(self.cells_.block(rows, 0, n)))
        self.hash_ = _hash(_as_saved(self.transformer_))
        self._try("transformer", rows, self._map)

    @property
    def _block_rows(self) -> int:  # type: ignore[override]
        alone = self.one_by_one or not is_known_throughout(getattr(self, "transformer_", self.transformer))
        return 1 if alone else BLOCK

    def _shown(self, block: Any) -> Any:
        names = getattr(self.cells_, "names", None)
        if names is None:
            return block
        import pandas as pd

        return pd.DataFrame(block, columns=list(names))

    def _map(self, block: Any) -> npt.NDArray[Any]:
        # What code that is not known keeps of a row reaches no other: it is shown to a copy.
        known = is_known_throughout(self.transformer_)
        found = (self.transformer_ if known else copy.deepcopy(self.transformer_)).transform(self._shown(block))
        return as_vectors("transformer", found, int(block.shape[0]), self.n_features_out_).astype(np.float64)

    def _provenance(self) -> str:
        name, fitted = type(self.transformer).__name__, self._is_fitted()
        said = check_provenance(self.provenance, needed=fitted)
        if fitted:
            return f"FromTransformer: {name}, fitted beforehand on: {said} (as stated by the person)"
        made = f"FromTransformer: {name} fitted on {self.n_public_:,} public rows"
        return f"{made}, with what was trained on: {said} (as stated by the person)" if said else made

    def _given(self) -> str:
        return _hash(self.transformer)

    def _state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        return {}, {"hash": self.hash_, "given": self.given_}

    def _sealed(self) -> dict[str, npt.NDArray[Any]]:
        return {"skops": np.frombuffer(_packed(self.transformer_), dtype=np.uint8)}

    @classmethod
    def _empty(cls, settings: dict[str, Any], parts: tuple[Representation, ...], modules: list[Any]) -> Any:
        if parts or set(settings) != {"provenance", "one_by_one"}:
            raise ValueError("other settings")
        return cls(None, **settings)

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> None:
        self.transformer_ = unpack_estimator(arrays["skops"].tobytes())
        self.hash_, self.given_ = str(words["hash"]), bool(words["given"])
        if _hash(self.transformer_) != self.hash_:
            raise ValueError("another transformer")
        # What was fitted here on public rows may be fitted again; what was given stays as it is.
        self.transformer = copy.deepcopy(self.transformer_) if self.given_ else clone(self.transformer_)
        self._check()


def _hash(transformer: Any) -> str:
    """Return a digest of a transformer's whole state; the text is written and hashed, never read back."""
    import joblib

    try:
        return str(joblib.hash(transformer))
    except Exception as error:  # what cannot be serialised: a lambda, an open file
        raise InvalidInputError(
            f"transformer cannot be identified by its content ({type(error).__name__}): it holds a lambda, say. Use "
            "named functions, and scikit-learn's own parts."
        ) from None


def _as_saved(transformer: Any) -> Any:
    """Return a transformer as a file gives it back, so that its digest is that of the one in a file; else itself."""
    try:
        return unpack_estimator(_packed(transformer))
    except InvalidInputError:  # it cannot be saved, and is used without
        return transformer


def _packed(transformer: Any) -> bytes:
    return pack_estimator(
        transformer,
        refusal=f"{type(transformer).__name__} cannot be saved in a file",
        remedy="Fit it again where it is needed, or use one made of scikit-learn's own parts.",
    )
