"""Plan, from public rows, what :class:`pate.DPSGDClassifier` trains on: recipe, representation and settings."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD

from pate._core.checks import shown
from pate.data import is_frame, is_sparse, is_text_column, is_texts, read_rows
from pate.data.schema import MOST_VALUES, Schema
from pate.dpsgd._optimizers import Optimizer
from pate.dpsgd._units import ImageAugmentation
from pate.dpsgd._values import with_arguments
from pate.dpsgd.recipes._planner import LINEAR_GRADIENTS, DPSGDRecipe, TrainingFacts, choose_recipe, facts_of
from pate.exceptions import InvalidInputError
from pate.privacy.budget import Budget
from pate.representations import (
    AboveLeast,
    FromTransformer,
    GroupedRows,
    PublicPCA,
    PublicScale,
    RandomFourier,
    Representation,
    TableMap,
    TextMap,
    UnitRows,
    chain,
    combine,
)

#: Random features, and the width of their kernel in median distances of public rows.
_FOURIER, _BANDWIDTH = 1000, 0.55
#: ... of rows made up within declared ranges, which stand further apart; and what share of a row's length the kernel
#: of numbers has, with what is looked at from the beginning of ranges, and that alone.
_FEWER, _IN_RANGES, _KERNEL, _AMOUNTS = 512, 0.5, 0.75, 0.25
#: ... of rows of norm 1, in distances of random ones, which are about the root of 2; and how many those are.
_ON_SPHERE, _MADE_UP = 0.28, 256
#: Where so many columns have one range, the share of what takes rows for as long as the range is wide; and of the rest,
#: which takes rows of norm 1, that of their kernel. Chosen on pendigits and optdigits, ranges up to 16 times too wide.
_OF_ONE_UNIT, _AS_WIDE, _OF_NORM_ONE = 4, 0.25, 2 / 3
#: Channels of scattering are normed in groups of so many.
_CHANNELS_TOGETHER = 3
_SPARSE_COMPONENTS = 256
#: Where nothing public says how large numbers are.
_ANY_SIZE = 1e6


@dataclass(frozen=True)
class RecipePlan:
    """A recipe that is ready to train: its representation is fitted on public rows or constants, on nothing private.

    Attributes
    ----------
    recipe : DPSGDRecipe
        Every number filled in.
    facts : TrainingFacts
    maps : tuple of Representation
        Fitted, applied one behind the other; empty where the module sees rows as they are.
    given : bool
        Whether the first of ``maps`` is the caller's.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from pate import Budget, DPSGDClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> budget = Budget(3.0, 1e-5)
    >>> plan = RecipePlan.of((64,), X[:400], n_units=1000, n_classes=10, budget=budget)
    >>> plan.recipe.name, plan.transform(X[:2]).shape
    ('tabular-kernel', (2, 35))
    >>> clf = DPSGDClassifier(budget=budget, classes=range(10), **plan.settings())
    >>> bool(
    ...     clf.fit(plan.transform(X[400:1400]), y[400:1400]).score(
    ...         plan.transform(X[1400:]), y[1400:]
    ...     )
    ...     > 0.7
    ... )
    True
    """

    recipe: DPSGDRecipe
    facts: TrainingFacts
    maps: tuple[Representation, ...]
    given: bool = False

    @classmethod
    def of(
        cls,
        row_shape: tuple[int, ...],
        X_public: Any = None,
        *,
        n_units: int,
        n_classes: int,
        budget: Budget,
        name: str | DPSGDRecipe | None = None,
        representation: Representation | None = None,
        image_shape: tuple[int, ...] | None = None,
        adjacency: str = "replace-one",
        most_gradients: int = LINEAR_GRADIENTS,
        random_state: int = 0,
        numbers: Mapping[str, Any] | None = None,
        fit: Callable[[Representation], Representation] | None = None,
        ranges: Any = None,
    ) -> RecipePlan:
        """Choose the recipe and fit its representation.

        Parameters
        ----------
        row_shape : tuple of int
            Shape of the private rows; nothing else about them is used.
        X_public : rows or None
            Public rows, without labels.
        n_units, n_classes, budget, adjacency, most_gradients
            See :class:`TrainingFacts`.
        name, numbers
            See :func:`choose_recipe`.
        representation : Representation or None
            The caller's own: taken as it is where it is fitted, fitted on ``X_public`` otherwise. None: what the
            recipe says; of texts and sparse rows what record voters take (:class:`pate.representations.TextMap`, the
            largest components).
        image_shape : tuple or None
            Of flattened images: (height, width) or (channels, height, width).
        random_state : int
            Public: of random features.
        fit : callable or None
            Fits the recipe's own representation on ``X_public``, or finds it where it was; None fits it here.
        ranges : mapping, sequence, Schema or None
            Ranges of the columns, declared by a person: the representation then follows from them, and ``X_public`` is
            not looked at. See :class:`pate.DPSGDClassifier`.

        Raises
        ------
        InvalidInputError
            The recipe does not go with these rows.
        """
        if ranges is not None:
            X_public = Schema.declared(ranges, n_columns=int(np.prod(row_shape))).stand_ins()
        first = _of_texts(X_public, random_state) if representation is None else representation
        facts = facts_of(
            row_shape,
            X_public,
            n_units=n_units,
            n_classes=n_classes,
            budget=budget,
            image_shape=image_shape,
            adjacency=adjacency,
            most_gradients=most_gradients,
            given=first is not None,
        )
        if ranges is not None:
            facts = replace(facts, n_public=0, declared=True)
        recipe = choose_recipe(facts, name, numbers=numbers)
        maps = _fitted(recipe, facts, X_public, first, random_state, fit or (lambda rep: rep.fit(X_public)))
        return cls(recipe, facts, maps, given=representation is not None)

    def transform(self, X: Any) -> npt.NDArray[Any]:
        """Return what the module sees of these rows, float32 of shape (n, n_features); each row by itself."""
        for each in self.maps:
            X = each.vectors(X)
        return np.asarray(X, dtype=np.float32)

    def settings(self) -> Mapping[str, Any]:
        """Return the recipe as keyword arguments of :class:`pate.DPSGDClassifier`, ``module`` included."""
        found = dict(self.by_name())
        of_optimizer = {name: found.pop(name) for name in ("momentum", "schedule", "averaging") if name in found}
        found["optimizer"] = Optimizer(found["optimizer"], **of_optimizer)
        found["module"] = with_arguments(found["module"], found.pop("module_kwargs"))
        return found

    def by_name(self) -> Mapping[str, Any]:
        """Return all settings of a run that the recipe says, each by its own name.

        Averaging, schedule and augmentation stand there only where the recipe asks for any.
        """
        r = self.recipe
        more = {"averaging": (r.averaging, None), "schedule": (r.schedule, "constant")}
        found: dict[str, Any] = {name: value for name, (value, plain) in more.items() if value != plain}
        if r.augmentation > 1:
            found["augmentation"] = ImageAugmentation(self.facts.row_shape, multiplicity=r.augmentation)
        names = ("expected_batch_size", "epochs", "learning_rate", "optimizer", "momentum", "max_grad_norm")
        return {
            **found,
            "module": r.module,
            "module_kwargs": dict(r.module_kwargs) or None,
            **{name: getattr(r, name) for name in names},
        }


def _fitted(
    recipe: DPSGDRecipe,
    facts: TrainingFacts,
    X_public: Any,
    given: Representation | None,
    random_state: int,
    fit: Callable[[Representation], Representation],
) -> tuple[Representation, ...]:
    kind, last = recipe.representation, UnitRows(constant=recipe.constant)
    if given is not None:
        return _after(given, X_public, last)
    if kind is None:
        return ()
    if kind == "unit-rows":
        return (_of_any_size(int(np.prod(facts.row_shape)), last),)
    if kind == "group-norm":
        return _normed_in_groups(facts, last)
    if kind == "declared":
        return (_within_ranges(X_public, last, random_state),)
    pca = PublicPCA(recipe.n_components, alpha=recipe.alpha)
    if kind == "scattering":
        from pate.representations.images import Scattering

        return (fit(chain(Scattering(image_shape=facts.row_shape), PublicScale(0.5), pca, last)),)
    if kind == "kernel":
        fourier = RandomFourier(_FOURIER, bandwidth=_BANDWIDTH, random_state=random_state)
        if facts.scale == "common":
            return (fit(chain(fourier, pca, last)),)
        table = TableMap(numeric=["quantile" if facts.scale == "heavy" else "standard"])
        return (fit(chain(table, fourier, pca, last)),)
    if TableMap().fit(X_public).n_features_out_ < (recipe.n_components or 1):
        pca = PublicPCA(None, alpha=recipe.alpha)
    return (fit(chain(TableMap(), pca, last)),)


def _of_texts(X_public: Any, random_state: int) -> Representation | None:
    """Return the map of texts or sparse rows where none is named, None for all other rows."""
    if X_public is None:
        return None
    rows = read_rows(X_public, name="X_public")
    if is_texts(rows) or is_text_column(rows):
        return TextMap()
    if not is_sparse(rows):
        return None
    return FromTransformer(TruncatedSVD(min(_SPARSE_COMPONENTS, *rows.shape), random_state=random_state))


def _after(given: Any, X_public: Any, last: UnitRows) -> tuple[Representation, ...]:
    """Return the caller's representation, and rows of norm 1 after it."""
    if not isinstance(given, Representation):
        raise InvalidInputError(
            f"representation must be one of pate.representations, got {shown(given)}. Wrap a transformer in "
            "FromTransformer, a torch module in FromModule."
        )
    if not hasattr(given, "n_features_out_"):
        if X_public is None:
            raise InvalidInputError("representation is not fitted, and there are no public rows. Pass X_public=.")
        given = clone(given).fit(X_public)
    else:
        given = copy.copy(given)  # the caller may fit theirs again without effect here
    if X_public is None:
        return given, _wide(given.n_features_out_, last)
    return given, last.fit(given.vectors(X_public))


def _wide(n_columns: int, map_: Any) -> Any:
    """Fit a map of rows whose columns may have any size: nothing public says how large they are."""
    return map_.fit(np.array([-_ANY_SIZE, _ANY_SIZE])[:, None] * np.ones(n_columns))


def _within_ranges(rows: Any, last: UnitRows, random_state: int) -> Representation:
    """Return columns scaled to their declared ranges and clipped there, beside a kernel of them.

    ``rows`` are made up: evenly spread over each range, so that the share of those below a number is its place there.
    Numbers are looked at from the middle of their range; where most are amounts, from its beginning too, as of long
    tails next to all stand there. A kernel is for numbers: categories are distinguished without one.

    Rows may stand much closer together than made-up ones. Of columns of one range, most of the map is therefore of rows
    of norm 1: it is the same however wide a range from 0 is, or one around 0.
    """
    columns = chain(TableMap(numeric=["quantile"], max_categories=MOST_VALUES), PublicScale(0.0))
    given = [rows[name].to_numpy() for name in rows] if is_frame(rows) else list(rows.T)
    ranges = [(column.min(), column.max()) for column in given if column.dtype.kind == "f"]
    lows, numbers = [low for low, _ in ranges], len(ranges) / rows.shape[1]
    amounts = _AMOUNTS * numbers if np.mean([low >= 0 for low in lows] or [0]) > 0.5 else 0.0
    kernel = _KERNEL * numbers - amounts
    fourier = RandomFourier(_FEWER, bandwidth=_IN_RANGES, random_state=random_state)
    parts = [
        (UnitRows(), 1 - _KERNEL * numbers),
        (chain(AboveLeast(), UnitRows()), amounts),
        (chain(fourier, PublicScale(0.0), UnitRows()), kernel),
    ]
    if numbers == 1 and len(ranges) >= _OF_ONE_UNIT and len(set(ranges)) == 1:
        parts = _whatever_the_width(parts, random_state)
    there = [(part, weight) for part, weight in parts if weight > 0]
    both = combine(*(part for part, _ in there), weights=[weight for _, weight in there])
    return chain(columns, both, last).fit(rows)


def _whatever_the_width(parts: list[tuple[Any, float]], random_state: int) -> list[tuple[Any, float]]:
    """Return parts of :func:`_within_ranges`, most of whose weight goes to rows of norm 1 and a kernel of those."""
    (middle, a), (beginning, b), (kernel, c) = ((part, _AS_WIDE * weight) for part, weight in parts)
    rest = 1 - _AS_WIDE
    one, width = (1 - _OF_NORM_ONE) * rest, _ON_SPHERE
    if b > 0:  # made-up rows of norm 1 stand half as far apart, seen from the beginning of their range
        beginning, b, start, width = beginning, b + one, beginning, 2 * _ON_SPHERE
    else:
        a, start = a + one, middle
    fourier = RandomFourier(_FEWER, bandwidth=width, random_state=random_state)
    near = chain(start, fourier, PublicScale(0.0), UnitRows())
    return [(middle, a), (beginning, b), (kernel, c), (near, _OF_NORM_ONE * rest)]


def _normed_in_groups(facts: TrainingFacts, last: UnitRows) -> tuple[Representation, ...]:
    """Return scattering that constants fix: where public images would say the range of pixels, it is [0, 1]."""
    from pate.representations.images import Scattering

    blank = np.array([0.0, 1.0])[:, None] * np.ones(int(np.prod(facts.row_shape)))
    scattering = Scattering(image_shape=facts.row_shape).fit(blank)
    d, groups = scattering.n_features_out_, GroupedRows(scattering.map_shape_[0] // _CHANNELS_TOGETHER)
    return scattering, _wide(d, groups), _wide(d, last)


def _of_any_size(n_columns: int, last: UnitRows) -> Representation:
    """Return rows of norm 1 beside a kernel of them, whose width needs no public row: they lie on one sphere."""
    rows = _ANY_SIZE * np.random.default_rng(0).normal(size=(_MADE_UP, n_columns))
    kernel = chain(UnitRows(), RandomFourier(_FEWER, bandwidth=_ON_SPHERE))
    return chain(combine(UnitRows(), kernel, weights=[1.0, 1.0]), last).fit(rows)
