"""A data set cut into private, public and test rows, and how another seed cuts it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from pate._core.checks import check_choice, check_int
from pate._core.secret import training_seed
from pate.exceptions import InvalidInputError

# Parts of a data set, put together and cut again in the same sizes.

Part = tuple[Any, npt.NDArray[Any]]


def cut_again(parts: Sequence[Part], rng: np.random.Generator) -> list[Part]:
    """Return parts of the sizes and types of ``parts``, of the same rows in another order."""
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


#: The place of cuts in the tree of training seeds.
SEED_PATH = (0xDA7A,)
#: What another draw of a data set draws.
REDRAWS = ("all rows", "training rows", "nothing")


@dataclass(frozen=True, eq=False, repr=False)
class PrivateRows:
    """The private rows of a :class:`Dataset`, which are to be protected: **sensitive**.

    Attributes
    ----------
    X : float32 array of shape (n, n_features), or DataFrame of n rows
    y : int64 array of shape (n,)
        Class indices; float64 numbers where the data set has a ``target_range``.
    groups : int64 array of shape (n,) or None
        The owner of each row, where one person has several.

    Examples
    --------
    >>> PrivateRows(
    ...     np.zeros((2, 3), dtype=np.float32), y=np.array([0, 1]), groups=np.array([7, 7])
    ... )
    PrivateRows(n=2, grouped=True)
    """

    X: Any
    y: npt.NDArray[np.int64]
    groups: npt.NDArray[np.int64] | None = None

    def __repr__(self) -> str:
        return f"PrivateRows(n={len(self.X)}, grouped={self.groups is not None})"


@dataclass(frozen=True, eq=False, repr=False)
class PublicRows:
    """Unlabelled rows that may be shown to anyone.

    Attributes
    ----------
    X : float32 array of shape (n, n_features), or DataFrame of n rows
    y_for_evaluation : int64 array of shape (n,)
        The true classes, to measure the released labels with. A student that sees them has cheated.

    Examples
    --------
    >>> PublicRows(np.zeros((2, 3), dtype=np.float32), y_for_evaluation=np.array([0, 1]))
    PublicRows(n=2)
    """

    X: Any
    y_for_evaluation: npt.NDArray[np.int64]

    def __repr__(self) -> str:
        return f"PublicRows(n={len(self.X)})"


@dataclass(frozen=True, eq=False, repr=False)
class HeldOutRows:
    """Labelled rows that are used for evaluation only.

    Attributes
    ----------
    X : float32 array of shape (n, n_features), or DataFrame of n rows
    y : int64 array of shape (n,)
        Class indices.
    groups : int64 array of shape (n,) or None
        The owner of each row, where one person has several: how precise a measured accuracy is depends on it.

    Examples
    --------
    >>> HeldOutRows(np.zeros((2, 3), dtype=np.float32), y=np.array([0, 1]))
    HeldOutRows(n=2)
    """

    X: Any
    y: npt.NDArray[np.int64]
    groups: npt.NDArray[np.int64] | None = None

    def __repr__(self) -> str:
        return f"HeldOutRows(n={len(self.X)})"


@dataclass(frozen=True)
class Draw:
    """How another seed draws a data set, and what that draw is from."""

    make: Callable[[int], Dataset] | None = None
    redraws: str = "nothing"
    published: bool = False
    n_pool: int | None = None
    #: Whether public rows, which another seed draws, decide how the same test rows are written as numbers.
    recoded: bool = False


#: What a data set may hold.
KINDS = ("image", "table")


def _missing(name: str, kind: str) -> NoReturn:
    raise InvalidInputError(f"{name} must be a pate.data.{kind}, got none. Pass Dataset(..., {name}={kind}(...)).")


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A data set with private, public and test rows; :func:`load_dataset` returns one, or build it from your own data.

    A name, the classes and the three parts are enough (docs/extend.md).

    Attributes
    ----------
    name, protocol, description : str
        How it was cut (``"own"`` if nothing else is said), and a sentence for reports.
    kind : str
        ``"image"`` or ``"table"``; by itself it is images where ``image_shape`` is said.
    classes : tuple
        The public class values; labels are indices into it. Empty where the target is a number.
    image_shape : tuple of int or None
        What the flattened images are: (height, width), in colour (channels, height, width).
    private : PrivateRows
    public : PublicRows
    test : HeldOutRows
    target_range : (float, float) or None
        For a numeric target: its least and largest value, from public knowledge. None for classes.

    Examples
    --------
    >>> from pate import load_dataset
    >>> load_dataset("digits")
    Dataset('digits', protocol='standard', kind='image', n_classes=10, n_private=1222, n_public=216, n_test=359)
    """

    name: str
    protocol: str = "own"
    kind: str = ""
    classes: tuple[Any, ...] = ()
    image_shape: tuple[int, ...] | None = None
    description: str = ""
    private: PrivateRows = field(default_factory=partial(_missing, "private", "PrivateRows"))
    public: PublicRows = field(default_factory=partial(_missing, "public", "PublicRows"))
    test: HeldOutRows = field(default_factory=partial(_missing, "test", "HeldOutRows"))
    target_range: tuple[float, float] | None = None
    _draw: Draw = field(default_factory=Draw, init=False)

    def __post_init__(self) -> None:
        kind = self.kind or ("table" if self.image_shape is None else "image")
        object.__setattr__(self, "kind", check_choice("kind", kind, KINDS))

    @property
    def published(self) -> bool:
        """Whether its private rows are published, so that nothing made from them is secret."""
        return self._draw.published

    @property
    def redraws(self) -> str:
        """What :meth:`redrawn` draws: ``"all rows"``, ``"training rows"`` (test is published) or ``"nothing"``."""
        return self._draw.redraws

    @property
    def test_redrawn(self) -> bool:
        """Whether :meth:`redrawn` draws the test rows, too, so that those of two draws overlap."""
        return self.redraws == "all rows"

    @property
    def n_pool(self) -> int:
        """Rows that a draw is cut from: all there are where test rows are drawn, else the training rows."""
        if self._draw.n_pool is not None:
            return self._draw.n_pool
        return len(self.private.y) + len(self.public.y_for_evaluation) + (len(self.test.y) if self.test_redrawn else 0)

    def redrawn(self, random_state: int) -> Dataset:
        """Return the data set as another seed draws it; itself where ``redraws`` is ``"nothing"``.

        Parameters
        ----------
        random_state : int
            For a named one, what :func:`load_dataset` takes.

        Raises
        ------
        InvalidInputError
            The draw is not what ``redraws`` and ``n_pool`` say of it.

        Examples
        --------
        >>> from pate import load_dataset
        >>> digits = load_dataset("digits")
        >>> bool(
        ...     (
        ...         digits.redrawn(5).test.y == load_dataset("digits", random_state=5).test.y
        ...     ).all()
        ... )
        True
        """
        check_int("random_state", random_state, low=0)
        make = self._draw.make
        if make is None or self.redraws == "nothing":
            return self
        drawn = make(random_state)
        if self.test_redrawn:
            _check_pool(self.n_pool, len(drawn.test.y))
        elif not self._same_test(drawn):
            raise InvalidInputError(
                f"redraws={self.redraws!r} says that every draw has the same test rows in the same order, and the draw "
                f"of seed {random_state} has others. Say drawn_by(..., redraws='all rows'), or leave test rows alone."
            )
        return drawn

    def _same_test(self, drawn: Dataset) -> bool:
        ours, theirs = self.test, drawn.test
        same = _equal(ours.y, theirs.y) and _equal(ours.groups, theirs.groups)
        return same and (self._draw.recoded or _equal(ours.X, theirs.X))

    def drawn_by(
        self,
        make: Callable[[int], Dataset],
        *,
        redraws: str = "all rows",
        published: bool = False,
        n_pool: int | None = None,
    ) -> Dataset:
        """Return the data set with a function of your own that redraws it.

        Unless ``redraws`` is ``"nothing"``, you declare by this that no one's privacy is at stake: a private row of one
        draw is a public or a test row of another, and no guarantee protects it there.

        Parameters
        ----------
        make : function of a seed that returns a Dataset
            It must return data of the same classes and columns.
        redraws : {"all rows", "training rows", "nothing"}
            With ``"training rows"`` test rows have to be the same to the last value, in the same order.
        published : bool
            You say that the private rows are published: what is measured on them is then no secret.
        n_pool : int or None
            Rows that a draw is cut from, more than its test rows; None: as many as the three parts have (without
            ``"all rows"``: two).

        Raises
        ------
        InvalidInputError
            ``make`` is no function, another word for ``redraws``, or a pool of test rows alone.

        Examples
        --------
        >>> from pate import load_dataset
        >>> few = load_dataset("digits", n_private=300)
        >>> few.drawn_by(
        ...     lambda seed: load_dataset("digits", n_private=300, random_state=seed)
        ... ).published
        False
        """
        if not callable(make):
            raise InvalidInputError(f"make must be a function of a seed that returns a Dataset, got {make!r}.")
        check_choice("redraws", redraws, REDRAWS)
        if n_pool is not None:
            check_int("n_pool", n_pool, low=1)
            if redraws == "all rows":
                _check_pool(n_pool, len(self.test.y))
        return self.with_draw(Draw(make, redraws, published, n_pool))

    def pooled(self) -> Dataset:
        """Return the data set with a draw that mixes the rows of all three parts.

        You declare by this that no one's privacy is at stake: a private row of one draw is a public or a test row of
        another, and no guarantee protects it there.

        Raises
        ------
        InvalidInputError
            A person owns several private rows: the owners of the other rows are unknown.

        Examples
        --------
        >>> mine = Dataset(
        ...     "mine",
        ...     classes=(0, 1),
        ...     private=PrivateRows([[1.0], [2.0]], np.array([0, 1])),
        ...     public=PublicRows([[3.0]], np.array([1])),
        ...     test=HeldOutRows([[4.0]], np.array([1])),
        ... )
        >>> mine.redraws, mine.pooled().redraws, mine.pooled().n_pool
        ('nothing', 'all rows', 4)
        """
        if self.private.groups is not None:
            raise InvalidInputError(
                "a data set with groups cannot be pooled: the owners of public and test rows are unknown, and a "
                "person may not stand in two parts. Say how another seed draws it: drawn_by(make)."
            )
        return self.with_draw(Draw(_Pooled(self), "all rows"))

    def with_draw(self, draw: Draw) -> Dataset:
        """Return the data set with another draw function."""
        copy = replace(self)
        object.__setattr__(copy, "_draw", draw)
        return copy

    def __repr__(self) -> str:
        numbers = self.target_range is not None
        what = f"target_range={self.target_range}" if numbers else f"n_classes={len(self.classes)}"
        return (
            f"Dataset({self.name!r}, protocol={self.protocol!r}, kind={self.kind!r}, "
            f"{what}, n_private={len(self.private.y)}, "
            f"n_public={len(self.public.y_for_evaluation)}, n_test={len(self.test.y)})"
        )


def _check_pool(n_pool: int, n_test: int) -> None:
    if n_test >= n_pool:
        raise InvalidInputError(
            f"n_pool must be more than the test rows of every draw, got {n_pool} for {n_test} test rows. It is all "
            "rows that private, public and test rows are drawn from: drawn_by(make, n_pool=...)."
        )


def _equal(one: Any, other: Any) -> bool:
    if one is other or one is None or other is None:
        return one is other
    if hasattr(one, "columns") or hasattr(other, "columns"):
        return type(one) is type(other) and bool(one.equals(other))
    if hasattr(one, "nnz"):  # sparse
        return type(one) is type(other) and one.shape == other.shape and (one != other).nnz == 0
    one, other = np.asarray(one), np.asarray(other)
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"))


@dataclass(frozen=True)
class _Pooled:
    data: Dataset

    def __call__(self, random_state: int) -> Dataset:
        data, rng = self.data, np.random.default_rng(training_seed(random_state, *SEED_PATH))
        parts = [(data.private.X, data.private.y), (data.public.X, data.public.y_for_evaluation)]
        private, public, test = cut_again([*parts, (data.test.X, data.test.y)], rng)
        return replace(
            data, private=PrivateRows(*private), public=PublicRows(*public), test=HeldOutRows(*test)
        ).with_draw(data.pooled()._draw)
