"""Recipes of DP-SGD by name, and which one, with which numbers, by public facts alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pate._core.checks import check_choice, check_int, check_real
from pate.data import are_components, heavy_tailed, is_frame, is_sparse, is_texts, of_one_unit, read_rows
from pate.dpsgd._calibration import ADJACENCIES
from pate.dpsgd._optimizers import OPTIMIZERS, SCHEDULES
from pate.exceptions import InvalidInputError
from pate.privacy.budget import Budget
from pate.privacy.convert import gdp_from_budget

# A recipe of DP-SGD: every setting of a training, and where it comes from.

REPRESENTATIONS = ("scattering", "group-norm", "kernel", "encoded", "declared", "unit-rows", "given")
AVERAGING = ("tail", "ema")


@dataclass(frozen=True)
class DPSGDRecipe:
    """A recipe of DP-SGD: model, representation and settings. The planner chooses each number that is None.

    Parameters
    ----------
    name : str
    representation : {"scattering", "group-norm", "kernel", "encoded", "declared", "unit-rows", "given"} or None
        What the module sees of a row: a map that public rows (``group-norm``: constants) fix; ``given`` is the caller's
        own; None leaves rows as they are. See :meth:`RecipePlan.of`.
    module : str or callable
        What :class:`pate.DPSGDClassifier` takes.
    module_kwargs : mapping
    n_components, alpha, constant : int or None, float, float
        Of the representation: how many components, how far they are whitened
        (:class:`pate.representations.PublicPCA`), and the constant coordinate beside them
        (:class:`pate.representations.UnitRows`).
    expected_batch_size, epochs : int or None
    learning_rate : float or None
        None: so that noise moves a logit as far as ``logit_noise`` says.
    logit_noise : float
        Standard deviation that all steps together may give to a logit of a row of norm 1 by a linear model (to a weight
        by any): ``learning_rate`` is
        ``logit_noise (1 - momentum) n mu / (2 C T)``, for n records, T steps and mu the budget in Gaussian differential
        privacy (replace-one; twice that where a record is added or removed). In the limit of many steps the
        gradients' noise sums up to that, whatever batch and steps are.
    optimizer : {"sgd", "adam", "adam-bc"}
    momentum : float
    max_grad_norm : float
        C.
    averaging : {"tail", "ema"} or None
    schedule : {"constant", "linear", "cosine"}
    augmentation : int
        Changed copies of a record whose gradients are averaged before they are clipped (De et al. 2022); 1 is the
        record alone, as in all presets.
    source : str
        Paper or measurement.
    reasons : tuple of (str, str)
        What the planner chose, and why.

    Raises
    ------
    InvalidInputError
        A value out of its range.

    Examples
    --------
    >>> DPSGDRecipe(
    ...     "mine", module="tanh-mlp", source="my own", learning_rate=0.5
    ... ).averaging is None
    True
    >>> DPSGDRecipe("mine", module="linear", source="my own", max_grad_norm=0)
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: max_grad_norm must be a finite number > 0, got 0. ...
    """

    name: str
    module: str | Callable[..., Any]
    source: str
    representation: str | None = None
    module_kwargs: Mapping[str, Any] = field(default_factory=dict)
    n_components: int | None = None
    alpha: float = 0.8
    constant: float = 0.0
    expected_batch_size: int | None = None
    epochs: int | None = None
    learning_rate: float | None = None
    logit_noise: float = 1.0
    optimizer: str = "sgd"
    momentum: float = 0.9
    max_grad_norm: float = 1.0
    averaging: str | None = None
    schedule: str = "constant"
    augmentation: int = 1
    reasons: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.representation is not None:
            check_choice("representation", self.representation, REPRESENTATIONS)
        if not (isinstance(self.module, str) or callable(self.module)):
            raise InvalidInputError(
                f"module must be a name or make a module, got {self.module!r}. Pass 'linear', a class or a function."
            )
        for name in ("n_components", "expected_batch_size", "epochs"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), low=1)
        if self.learning_rate is not None:
            check_real("learning_rate", self.learning_rate, low=0, low_open=True)
        check_real("alpha", self.alpha, low=0, high=1)
        check_real("constant", self.constant, low=0, high=1, high_open=True)
        check_real("logit_noise", self.logit_noise, low=0, low_open=True)
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_real("momentum", self.momentum, low=0, high=1, high_open=True)
        check_real(
            "max_grad_norm", self.max_grad_norm, low=0, low_open=True, remedy="Gradients are clipped to this L2 norm."
        )
        if self.averaging is not None:
            check_choice("averaging", self.averaging, AVERAGING)
        check_choice("schedule", self.schedule, SCHEDULES)
        check_int("augmentation", self.augmentation, low=1)

    def __str__(self) -> str:
        return "\n".join([f"{self.name}: {self.source}", *(f"{what}: {why}" for what, why in self.reasons)])


_FEATURES = "Rahimi and Recht, NIPS 2007, for the features"
#: Where presets come from: papers, and our own splits (seeds from 100 on; docs/dpsgd-recipes.md).
_SOURCES = {
    "linear": "Tramer and Boneh, ICLR 2021: linear on wavelet scattering; its components by public rows: ours",
    "linear-group-norm": "Tramer and Boneh, ICLR 2021: linear on wavelet scattering in normed groups, no public rows",
    "tempered-cnn": "Papernot et al., AAAI 2021: tempered sigmoids; clipping and training length of Tramer and Boneh",
    "resnet": "De et al. 2022: group norm, large batches, moving average of the weights; one copy of each record",
    "tabular-mlp": "Papernot et al., AAAI 2021, for the bounded activation",
    "tabular-kernel": f"{_FEATURES}; few components and few, full steps by our own splits",
    "tabular-logistic": "Bassily et al., FOCS 2014, for private logistic regression by noisy gradients; our own splits",
    "declared": f"{_FEATURES}, beside the columns themselves; scales as declared: ours",
    "unit-rows": f"{_FEATURES}, beside rows of norm 1: what is left without public rows",
    "pretrained": "Tramer and Boneh, ICLR 2021; De et al. 2022: a linear head on frozen features learnt elsewhere",
}
_LINEAR: dict[str, Any] = {"module": "linear", "module_kwargs": {"bias": False}, "max_grad_norm": 0.1}
_WIDER = _LINEAR | {"max_grad_norm": 0.2}
_NETWORK: dict[str, Any] = {"max_grad_norm": 0.1, "logit_noise": 0.05}
_NUMBERS: dict[str, dict[str, Any]] = {
    "linear": _LINEAR | {"representation": "scattering", "n_components": 256, "alpha": 0.65},
    "linear-group-norm": _LINEAR | {"representation": "group-norm", "epochs": 30, "logit_noise": 2.0},
    "tempered-cnn": _NETWORK | {"module": "tanh-cnn"},
    "resnet": _NETWORK | {"module": "small-resnet", "module_kwargs": {"norm": "group"}, "averaging": "ema"},
    "tabular-mlp": _NETWORK | {"module": "tanh-mlp", "representation": "encoded", "logit_noise": 0.1},
    "tabular-kernel": _WIDER | {"representation": "kernel", "alpha": 0.7, "constant": 0.2, "logit_noise": 1.6},
    "tabular-logistic": _LINEAR | {"representation": "encoded", "alpha": 0.65, "constant": 0.3, "max_grad_norm": 0.3},
    "declared": _WIDER | {"representation": "declared", "constant": 0.3, "logit_noise": 1.6},
    "unit-rows": _WIDER | {"representation": "unit-rows", "constant": 0.3, "logit_noise": 1.6},
    "pretrained": _LINEAR | {"representation": "given", "constant": 0.3},
}
_BY_NAME = {name: DPSGDRecipe(name, source=_SOURCES[name], **numbers) for name, numbers in _NUMBERS.items()}


def named_recipes() -> tuple[str, ...]:
    """Return the names that :func:`recipe` knows.

    Examples
    --------
    >>> "tempered-cnn" in named_recipes()
    True
    """
    return tuple(_BY_NAME)


def recipe(name: str) -> DPSGDRecipe:
    """Return a recipe (a preset of DP-SGD) by its name; change it with :func:`dataclasses.replace`.

    =================== =============================================================================================
    linear              images, public rows: linear on components of wavelet scattering (Tramer and Boneh 2021)
    linear-group-norm   images, no public rows: scattering, normed in groups (Tramer and Boneh 2021)
    tempered-cnn        a small tanh network on pixels (Papernot et al. 2021)
    resnet              residual network with group norm, moving average (De et al. 2022)
    tabular-kernel      tables of numbers, public rows: linear on few components of a Gaussian kernel
    tabular-logistic    tables with categories, public rows: logistic on their encoded columns
    tabular-mlp         a tanh network on encoded columns
    declared            tables without public rows whose ranges a person declared: columns and a kernel of them
    unit-rows           tables without public rows: logistic on rows of norm 1 and a kernel of them
    pretrained          linear on a frozen representation or module of the caller's
    =================== =============================================================================================

    Raises
    ------
    InvalidInputError
        No preset has this name.

    Examples
    --------
    >>> recipe("linear").max_grad_norm
    0.1
    >>> recipe("best")
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: recipe must be one of 'linear', ..., got 'best'. ...
    """
    return _BY_NAME[check_choice("recipe", name, tuple(_BY_NAME))]


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
        1 where a number is predicted.
    budget : Budget
    n_public : int
        Public rows; 0 where there are none.
    row_shape : tuple of int
        Shape of one row; of images (height, width) or (channels, height, width).
    scale : {"common", "apart", "heavy"}
        The scale of the public columns of numbers: one common unit (as for pixels, and for principal components),
        several units, or long tails.
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
    >>> facts = TrainingFacts(
    ...     "image", 51_000, 10, Budget(1.0, 1e-5), n_public=9_000, row_shape=(28, 28)
    ... )
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
        check_int("n_classes", self.n_classes, low=1)
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
        is as useful as twice the mu.
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
    """Return the public facts that a recipe is chosen from: the shape of the rows, and what the public rows look like.

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
            if numbers is None:
                kind = "mixed"
            else:
                scale = "common" if of_one_unit(numbers) else "heavy" if heavy_tailed(numbers) else "apart"
                if scale == "apart" and are_components(numbers):
                    scale = "common"
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
    # Columns of two values are categories that were encoded, or pixels of a border.
    return None if np.ndim(rows) == 2 and np.mean(few) > 0.5 else flat


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
#: Where a linear model predicts a number in [-1, 1], and how fast it learns at most: steps of the squared error on rows
#: of norm 1 diverge from 2 (1 + momentum) on. Chosen on seed 100 of experiments/dpsgd_numbers.py.
_OF_A_NUMBER: dict[str, Any] = {"max_grad_norm": 0.2, "logit_noise": 0.1, "averaging": "tail"}
_FASTEST = 1.5
#: Networks need more steps than linear models do.
_NETWORK_STEPS = 600


def choose_recipe(
    facts: TrainingFacts, name: str | DPSGDRecipe | None = None, *, numbers: Mapping[str, Any] | None = None
) -> DPSGDRecipe:
    """Choose a recipe of DP-SGD, with all its settings, from public facts; its ``reasons`` say why.

    Parameters
    ----------
    facts : TrainingFacts
    name : str, DPSGDRecipe or None
        A preset's name, or a recipe; numbers that it leaves open are filled in. None chooses: images with public rows
        ``linear``, without ``linear-group-norm``; tables of numbers with public rows ``tabular-kernel``, with
        categories ``tabular-logistic``, with declared ranges ``declared``, without anything public ``unit-rows``;
        features of a representation ``pretrained``.
    numbers : mapping or None
        Fields that are fixed already; the others follow from them.

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
    can bear (:class:`DPSGDRecipe`), so it grows with n mu. Presets of linear models have other numbers where a number
    is predicted (``n_classes=1``): a wider clipping, the mean of the last weights, and a most rapid learning rate.

    Examples
    --------
    >>> from pate import Budget
    >>> facts = TrainingFacts(
    ...     "table",
    ...     1_038,
    ...     10,
    ...     Budget(1.0, 1e-5),
    ...     n_public=400,
    ...     row_shape=(64,),
    ...     scale="common",
    ... )
    >>> chosen = choose_recipe(facts)
    >>> chosen.name, chosen.n_components, chosen.expected_batch_size, chosen.epochs
    ('tabular-kernel', 17, 1038, 40)
    """
    chosen = name if isinstance(name, DPSGDRecipe) else recipe(_named(facts) if name is None else name)
    of_a_number = facts.n_classes == 1 and chosen.module == "linear" and not isinstance(name, DPSGDRecipe)
    chosen = replace(chosen, **((_OF_A_NUMBER if of_a_number else {}) | dict(numbers or {})))
    _check(chosen, facts)
    seen = "declared ranges" if facts.declared else f"{facts.n_public or 'no'} public rows"
    reasons = [("recipe", f"{facts.kind}, {seen}" if name is None else "as asked")]
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
        why = f"all noise moves {moved} by about {chosen.logit_noise:g}"
        if of_a_number and rate > _FASTEST:
            rate, why = _FASTEST, "noise would allow more, steps of the squared error do not"
        reasons.append(("learning rate", f"{rate:.3g}: {why}"))
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
            "schema is for tables: pixels of images are taken to lie between 0 and 1, and a representation says itself "
            "what it takes. Leave it out."
        )
    if (chosen.representation == "declared") != facts.declared:
        raise InvalidInputError(
            f"recipe {chosen.name!r} {'has no use for schema=' if facts.declared else 'needs schema='}. "
            "Leave the recipe to be chosen, or take 'declared' with schema={'age': (0, 120), ...}."
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
