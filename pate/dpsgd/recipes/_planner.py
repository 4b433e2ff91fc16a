"""Which recipe, and with which numbers: from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pate.core.checks import check_choice, check_int
from pate.data._columns import heavy_tailed, of_one_unit
from pate.data._door import is_frame, is_sparse, is_texts, read_rows
from pate.dpsgd._calibration import ADJACENCIES
from pate.dpsgd.recipes._presets import DPSGDRecipe, recipe
from pate.exceptions import InvalidInputError
from pate.privacy.budget import Budget
from pate.privacy.convert import gdp_from_budget

# What a recipe may be chosen from: facts that are public before any private record is read.

KINDS = ("table", "mixed", "image", "features")
SCALES = ("common", "apart", "heavy")
#: Record gradients of a linear model in about a minute of one core.
LINEAR_GRADIENTS = 4_000_000
#: Smaller images are tables of pixels.
_SMALL_IMAGE = 16


@dataclass(frozen=True)
class TrainingFacts:
    """The public facts that a recipe is chosen from; nothing here may be counted on private cells.

    Parameters
    ----------
    kind : {"table", "mixed", "image", "features"}
        ``table``: all columns are numbers; ``mixed``: some are categories; ``features``: rows of a representation.
    n_units : int
        Private records, or persons: their true number where it is public (replace-one, zero-out), else the nominal one.
    n_classes : int
    budget : Budget
    n_public : int
        Public rows; 0 where there are none.
    row_shape : tuple of int
        Shape of one row; of images (height, width) or (channels, height, width).
    scale : {"common", "apart", "heavy"}
        Of public columns of numbers: of one unit (as pixels are), of several, or with long tails.
    adjacency : {"replace-one", "add-or-remove", "zero-out"}
    most_gradients : int
        The limit on computing: gradients of single records in all steps together. The default is about a minute of one
        core for a linear model of some hundred columns.
    declared : bool
        Whether a person declared the ranges of the columns, which then stand in for public rows.

    Raises
    ------
    InvalidInputError
        A value out of its range.

    Examples
    --------
    >>> facts = TrainingFacts("image", 51_000, 10, Budget(1.0, 1e-5), n_public=9_000, row_shape=(28, 28))
    >>> round(facts.evidence), round(facts.mu, 3)
    (967, 0.268)
    """

    kind: str
    n_units: int
    n_classes: int
    budget: Budget
    n_public: int = 0
    row_shape: tuple[int, ...] = ()
    scale: str = "apart"
    adjacency: str = "replace-one"
    most_gradients: int = LINEAR_GRADIENTS
    declared: bool = False

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        check_int("n_units", self.n_units, low=1)
        check_int("n_classes", self.n_classes, low=2)
        if not isinstance(self.budget, Budget):
            raise InvalidInputError(
                f"budget must be a pate.Budget, got {type(self.budget).__name__}. Pass Budget(epsilon=1.0, delta=1e-5)."
            )
        check_int("n_public", self.n_public, low=0)
        check_choice("scale", self.scale, SCALES)
        check_choice("adjacency", self.adjacency, ADJACENCIES)
        check_int("most_gradients", self.most_gradients, low=1)

    @property
    def mu(self) -> float:
        """What may be spent in Gaussian differential privacy, for one record that is replaced by another.

        Where neighbours differ in one record's presence a gradient moves the sum by C, not by 2 C: the same budget
        is worth twice the mu.
        """
        twice = 1.0 if self.adjacency == "replace-one" else 2.0
        return twice * gdp_from_budget(self.budget.epsilon, self.budget.delta)

    @property
    def evidence(self) -> float:
        """A class's share of the records over the noise, n mu / (sqrt(2) m): as record voters count it."""
        return self.n_units * self.mu / (self.n_classes * math.sqrt(2))


def facts_of(
    row_shape: tuple[int, ...],
    X_public: Any = None,
    *,
    n_units: int,
    n_classes: int,
    budget: Budget,
    image_shape: tuple[int, ...] | None = None,
    adjacency: str = "replace-one",
    most_gradients: int = LINEAR_GRADIENTS,
    given: bool = False,
) -> TrainingFacts:
    """Return the facts of a data set: the shape of its rows, and what its public rows look like.

    Parameters
    ----------
    row_shape : tuple of int
        Shape of one private row: of a table (columns,), of images as they are handed over.
    X_public : rows or None
    n_units, n_classes, budget, adjacency, most_gradients
        See :class:`TrainingFacts`.
    image_shape : tuple or None
        Of flattened images.
    given : bool
        Whether there is a representation already: rows are then its features.

    Raises
    ------
    InvalidInputError
        Texts or sparse rows, which need a representation of the caller's.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> facts = facts_of((3,), X, n_units=1000, n_classes=2, budget=Budget(1.0, 1e-5))
    >>> facts.kind, facts.n_public, facts.scale
    ('table', 50, 'common')
    """
    shape = tuple(int(n) for n in (image_shape if image_shape is not None else row_shape))
    n_public, kind, scale = 0, "table", "apart"
    if X_public is not None:
        rows = read_rows(X_public, name="X_public")
        n_public = int(np.shape(rows)[0])
        if not given:
            if is_texts(rows) or is_sparse(rows):
                raise InvalidInputError(
                    "X_public holds texts or sparse rows, which no module sees as they are. Say given=True, and pass a "
                    "representation, such as pate.representations.TextMap()."
                )
            numbers = _numbers(rows)
            kind = "mixed" if numbers is None else "table"
            scale = "apart" if numbers is None else _scale_of(numbers)
    if given:
        kind = "features"
    elif len(shape) > 1 and min(shape[-2:]) >= _SMALL_IMAGE:
        kind = "image"
    return TrainingFacts(kind, n_units, n_classes, budget, n_public, shape, scale, adjacency, most_gradients)


def _numbers(rows: Any) -> Any:
    """Return public rows as float64 of shape (n, columns), or None where some columns are categories."""
    if is_frame(rows):
        if any(column.dtype.kind not in "biuf" for _, column in rows.items()):
            return None
        rows = rows.to_numpy(dtype=np.float64, na_value=np.nan)
    if rows.dtype.kind == "O":
        return None
    flat = np.asarray(rows, dtype=np.float64).reshape(len(rows), -1)
    few = [len(np.unique(column[~np.isnan(column)])) <= 2 for column in flat.T]
    # Columns of two values are categories that somebody encoded, or pixels of a border.
    return None if np.ndim(rows) == 2 and np.mean(few) > 0.5 else flat


def _scale_of(rows: Any) -> str:
    return "common" if of_one_unit(rows) else "heavy" if heavy_tailed(rows) else "apart"


#: Up to so many records every step takes all of them: exact Gaussian differential privacy, and no sampling to pay for.
_ALL = 8192
#: Steps of a linear model: over all records, and in epochs of large batches.
_STEPS, _EPOCHS = 40, 40
#: Below this noise multiplier a sampled step is overcharged (Sander et al. 2023: keep q sqrt(T) / sigma, enlarge q).
_LEAST_SIGMA = 2.0
#: Components: so many at this evidence, and a power of it.
_FEW, _AT, _POWER = 17.0, 20.0, 0.75
_LEAST_COMPONENTS = 16
_MOST_COMPONENTS = {"scattering": 256, "kernel": 256, "encoded": 100, "given": 400}
#: Networks need more steps than linear models do.
_NETWORK_STEPS = 600


def choose_recipe(
    facts: TrainingFacts, name: str | DPSGDRecipe | None = None, *, numbers: Mapping[str, Any] | None = None
) -> DPSGDRecipe:
    """Return the recipe for these facts, with every number filled in.

    Parameters
    ----------
    facts : TrainingFacts
    name : str, DPSGDRecipe or None
        Of a preset, or a recipe, whose open numbers are filled in. None chooses: images with public rows ``linear``,
        without ``linear-group-norm``; tables of numbers with public rows ``tabular-kernel``, with categories
        ``tabular-logistic``, with declared ranges ``declared``, without anything public ``unit-rows``; features of a
        representation ``pretrained``.
    numbers : mapping or None
        Fields that are fixed already; the others follow from them.

    Returns
    -------
    DPSGDRecipe
        Its ``reasons`` say what was chosen, and why.

    Raises
    ------
    InvalidInputError
        The preset needs public rows, images, or what else these facts do not have.

    Notes
    -----
    Batch and steps: as long as noise is large, only q sqrt(T) / sigma is charged, so q and T buy the same: a large
    batch in few steps. Full batches where that is cheap (exactly accounted); else 8,192, and more where ``sigma`` would
    fall below 2, where sampling is overcharged (Sander, Stock, Sablayrolles, ICML 2023, *TAN without a burn*). Where
    computing is short, the run is shorter, not the batch smaller. The learning rate follows from the noise that a logit
    can bear (:class:`DPSGDRecipe`), so it grows with n mu.

    Examples
    --------
    >>> from pate import Budget
    >>> facts = TrainingFacts("table", 1_038, 10, Budget(1.0, 1e-5), n_public=400, row_shape=(64,), scale="common")
    >>> chosen = choose_recipe(facts)
    >>> chosen.name, chosen.n_components, chosen.expected_batch_size, chosen.epochs
    ('tabular-kernel', 17, 1038, 40)
    """
    chosen = name if isinstance(name, DPSGDRecipe) else recipe(_named(facts) if name is None else name)
    chosen = replace(chosen, **(numbers or {}))
    _check(chosen, facts)
    reasons = [("recipe", _why(facts) if name is None else "as asked")]
    components = _components(chosen, facts)
    if components is not None:
        reasons.append(
            ("components", f"{components} for evidence {facts.evidence:.3g} and {facts.n_public} public rows")
        )
    batch, steps = _sizes(chosen, facts)
    n = facts.n_units
    epochs = max(1, round(steps / -(-n // batch)))
    steps = epochs * -(-n // batch)
    reasons.append(
        ("batch", f"{batch} of {n} records in {steps} steps" + (", all in every step" if batch == n else ""))
    )
    rate = chosen.learning_rate
    if rate is None:
        travel = chosen.logit_noise * n * facts.mu / 2
        rate = travel * (1 - chosen.momentum) / (chosen.max_grad_norm * steps)
        moved = "a logit of a row of norm 1" if chosen.module == "linear" else "a weight"
        reasons.append(("learning rate", f"{rate:.3g}: all noise moves {moved} by about {chosen.logit_noise:g}"))
    return replace(
        chosen,
        n_components=components,
        expected_batch_size=batch,
        epochs=epochs,
        learning_rate=rate,
        reasons=tuple(reasons),
    )


def _named(facts: TrainingFacts) -> str:
    if facts.kind == "features":
        return "pretrained"
    if facts.kind == "image":
        return "linear" if facts.n_public > _LEAST_COMPONENTS else "linear-group-norm"
    if facts.declared:
        return "declared"
    if facts.n_public <= 2:
        return "unit-rows"
    return "tabular-logistic" if facts.kind == "mixed" else "tabular-kernel"


def _why(facts: TrainingFacts) -> str:
    said = f"{facts.n_public} public rows" if facts.n_public else "no public rows"
    if facts.declared:
        said = "declared ranges"
    return f"{facts.kind}, {said}"


def _check(chosen: DPSGDRecipe, facts: TrainingFacts) -> None:
    needs_images = chosen.representation in ("scattering", "group-norm") or chosen.name in ("tempered-cnn", "resnet")
    if needs_images and facts.kind != "image":
        raise InvalidInputError(
            f"recipe {chosen.name!r} is for images of at least 16 pixels a side, got rows of shape {facts.row_shape}. "
            "Pass image_shape=, or leave the recipe to be chosen."
        )
    if chosen.representation in ("scattering", "kernel", "encoded") and facts.n_public <= 2:
        raise InvalidInputError(
            f"recipe {chosen.name!r} needs public rows, got {facts.n_public}. Pass X_public=, or leave the recipe to "
            "be chosen."
        )
    if facts.declared and facts.kind not in ("table", "mixed"):
        raise InvalidInputError(
            "ranges is for tables: pixels of images are taken to lie between 0 and 1, and a representation says itself "
            "what it takes. Leave it out."
        )
    if (chosen.representation == "declared") != facts.declared:
        raise InvalidInputError(
            f"recipe {chosen.name!r} {'has no use for ranges=' if facts.declared else 'needs ranges='}. "
            "Leave the recipe to be chosen, or take 'declared' with ranges={'age': (0, 120), ...}."
        )
    if chosen.representation == "given" and facts.kind != "features":
        raise InvalidInputError(f"recipe {chosen.name!r} needs representation=. Pass one of pate.representations.")


def _components(chosen: DPSGDRecipe, facts: TrainingFacts) -> int | None:
    most = _MOST_COMPONENTS.get(chosen.representation or "")
    if most is None or facts.n_public <= 2:
        return None
    if chosen.n_components is not None:
        return min(chosen.n_components, max(1, facts.n_public // 2))
    by_evidence = _FEW * (facts.evidence / _AT) ** _POWER
    return max(1, min(most, facts.n_public // 2, max(_LEAST_COMPONENTS, round(by_evidence))))


def _sizes(chosen: DPSGDRecipe, facts: TrainingFacts) -> tuple[int, int]:
    """Return batch and steps."""
    n, linear = facts.n_units, chosen.module == "linear"
    batch = chosen.expected_batch_size
    if linear:
        batch = batch or min(n, _ALL)
        steps = _STEPS if batch == n else (chosen.epochs or _EPOCHS) * -(-n // batch)
    else:
        batch = batch or min(n, max(256, n // 25))
        steps = _NETWORK_STEPS if chosen.epochs is None else chosen.epochs * -(-n // batch)
    steps = max(1, min(steps, facts.most_gradients // batch))
    if chosen.expected_batch_size is None:
        # In the limit sigma = 2 q sqrt(T) / mu: the rate at which it is large enough.
        enough = math.ceil(n * _LEAST_SIGMA * facts.mu / (2 * math.sqrt(steps)))
        if enough > batch:
            batch = min(n, enough)
            steps = max(1, min(steps, facts.most_gradients // batch))
    return batch, steps
