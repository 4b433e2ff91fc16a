"""What a user set, checked before anything private is looked at, and the public numbers that follow from it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

from pate._core.checks import check_choice, check_int, check_real
from pate.dpsgd._calibration import ADJACENCIES, SMALLEST_NOISE_MULTIPLIER
from pate.dpsgd._canaries import Canaries
from pate.dpsgd._optimizers import (
    OPTIMIZERS,
    SCHEDULES,
    Averaging,
    ExponentialAveraging,
    LearningRateSchedule,
    TailAveraging,
)
from pate.dpsgd._units import ImageAugmentation
from pate.dpsgd.clipping import AutomaticClipping, Clipping, FlatClipping, PerLayerClipping, QuantileClipping
from pate.dpsgd.mechanisms import BandedFTRL, PoissonSGD, Shape, TrainingMechanism, choose_bands
from pate.dpsgd.recipes import DPSGDRecipe, RecipePlan
from pate.exceptions import InvalidInputError
from pate.ledger import Ledger
from pate.privacy.budget import Budget
from pate.release import warn_if_weak

# What a run is set to: what its user said, then what the recipe says, then plain defaults. ``said`` is
# what :func:`pate.dpsgd._values.flat` returns.

#: Defaults for a module that the user names, with nothing else set.
PLAIN: dict[str, Any] = {
    "module_kwargs": None,
    "max_grad_norm": 1.0,
    "epochs": 20,
    "expected_batch_size": 256,
    "learning_rate": 0.25,
    "optimizer": "sgd",
    "momentum": 0.9,
    "schedule": "constant",
    "averaging": None,
    "augmentation": None,
}
#: What a recipe's own numbers follow from, and a user may fix.
_NUMBERS = ("expected_batch_size", "epochs", "learning_rate", "max_grad_norm", "momentum")


def is_planned(said: Any) -> bool:
    """Whether a recipe sets what its user leaves open."""
    return said.module is None or said.recipe is not None


def filled(said: Any, settings: dict[str, Any] | None = None) -> Any:
    """Return a copy of settings in which nothing is open: what was said, then these, then the plain ones."""
    found = copy.copy(said)
    for name, value in (PLAIN | (settings or {})).items():
        if getattr(said, name) is None:
            setattr(found, name, value)
    return found


def check_recipe(said: Any) -> None:
    """Refuse a recipe beside a module, and what goes with recipes alone."""
    if said.recipe is not None and said.module is not None:
        raise InvalidInputError(
            "module must be None where recipe= is given: the recipe says what is trained. Leave one of them out, or "
            "pass pate.dpsgd.recipes.DPSGDRecipe('mine', module=...)."
        )
    if not is_planned(said) and said.representation is not None:
        raise InvalidInputError(
            "representation must be None where module is named: a module sees rows as they are. Leave the module out, "
            "or map the rows beforehand."
        )
    if said.ranges is not None and (not is_planned(said) or said.representation is not None):
        raise InvalidInputError(
            "schema must be None where module or representation is named: it is what a recipe makes its own map of. "
            "Leave one of them out."
        )
    if is_planned(said) and said.sample_rate is not None and said.expected_batch_size is None:
        raise InvalidInputError(
            "expected_batch_size must be given with sample_rate=, got None: without it a recipe cannot tell for how "
            "many records it plans. Pass it, or nominal_n."
        )
    if not (said.recipe is None or isinstance(said.recipe, str | DPSGDRecipe)):
        raise InvalidInputError(
            f"recipe must be a name, a pate.dpsgd.recipes.DPSGDRecipe or None, got {said.recipe!r}. "
            "pate.dpsgd.recipes.named_recipes() has the names."
        )


def resolve(
    said: Any, row_shape: tuple[int, ...], X_public: Any, *, n_units: int, n_classes: int
) -> tuple[Any, RecipePlan | None]:
    """Return a copy of settings in which nothing is open, and the plan of the recipe if there is one."""
    if not is_planned(said):
        return filled(said), None
    plan = RecipePlan.of(
        row_shape,
        X_public,
        n_units=_nominal(said, n_units),
        n_classes=n_classes,
        budget=said.budget,
        name=said.recipe,
        representation=said.representation,
        image_shape=None if said.image_shape is None else tuple(said.image_shape),
        adjacency=said.adjacency,
        numbers={name: getattr(said, name) for name in _NUMBERS if getattr(said, name) is not None},
        ranges=said.ranges,
    )
    return along(said, plan), plan


def along(said: Any, plan: RecipePlan) -> Any:
    """Return a copy of settings in which nothing is open: what was said, the plan's, then the plain ones."""
    resolved = filled(said, dict(plan.by_name()))
    resolved.module = plan.recipe.module
    return resolved


def determining(run: Any, classes: tuple[Any, ...]) -> dict[str, Any]:
    """Return what the steps of a run follow from, but for the data: a checkpoint of another one is not taken up."""
    elsewhere = {"checkpoint_dir", "callbacks", "verbose", "ledger", "device", "n_threads", "module", "representation"}
    elsewhere |= {"stated", "force"}  # of the statement alone, and of whether to begin
    if getattr(run, "bounds", None) is None:  # of classes: as before there were numbers
        elsewhere.add("bounds")
    settings = {name: value for name, value in vars(run).items() if name not in elsewhere}
    module = run.module if isinstance(run.module, str) else getattr(run.module, "__qualname__", "")
    return {**settings, "module": module, "classes": repr(classes), "charged": run.ledger is not None}


def _bands(said: Any, shape: Shape | None) -> TrainingMechanism:
    if shape is None:
        return BandedFTRL(1)
    momentum = said.momentum if said.optimizer == "sgd" else 0.0
    return choose_bands(said.budget, shape, adjacency=said.adjacency, momentum=momentum)


MECHANISMS: dict[str, Callable[[Any, Shape | None], TrainingMechanism]] = {
    "poisson": lambda said, shape: PoissonSGD(),
    "ftrl": _bands,
}
CLIPPINGS = {
    "flat": FlatClipping,
    "per-layer": PerLayerClipping,
    "automatic": AutomaticClipping,
    "quantile": QuantileClipping,
}
AVERAGINGS: dict[str, type[Any]] = {"ema": ExponentialAveraging, "tail": TailAveraging}
_ROLES = ("check", "epsilon", "charge", "batches", "noise", "words", "theorem", "verify", "mu", "prefixes")


def _read(name: str, value: Any, known: Any, roles: tuple[str, ...], other: str, *args: Any, **how: Any) -> Any:
    """Return what ``known`` makes under a name, or the object given, if it has these roles."""
    if isinstance(value, str):
        return known[check_choice(name, value, known)](*args, **how)
    if isinstance(value, type) or not all(hasattr(value, role) for role in roles):
        raise InvalidInputError(f"{name} must be {', '.join(map(repr, known))} or {other}, got {value!r}.")
    return value


def read_mechanism(said: Any, shape: Shape | None = None) -> TrainingMechanism:
    """Return the mechanism of a run by its name, or the one given; without ``shape`` it is only looked at."""
    other = "an object of pate.dpsgd.mechanisms, such as PoissonSGD()"
    return _read("mechanism", said.mechanism, MECHANISMS, _ROLES, other, said, shape)


def read_clipping(clipping: Any, max_grad_norm: float) -> Clipping:
    """Return a clipping by its name, with the norm given, or the one given."""
    other = "an object of pate.dpsgd.clipping, such as QuantileClipping()"
    return _read("clipping", clipping, CLIPPINGS, ("start", "words"), other, max_norm=float(max_grad_norm))


def read_schedule(schedule: Any) -> LearningRateSchedule:
    """Return a learning rate schedule by its name, or the one given."""
    kinds = {name: partial(LearningRateSchedule, name) for name in SCHEDULES}
    return _read("schedule", schedule, kinds, ("factor", "apply"), "a LearningRateSchedule")


def read_averaging(averaging: Any) -> Averaging | None:
    """Return an average of weights by its name, the one given, or None."""
    other = "an ExponentialAveraging, a TailAveraging or None"
    return None if averaging is None else _read("averaging", averaging, AVERAGINGS, ("share",), other)


def check_settings(said: Any) -> None:
    """Refuse what cannot be meant."""
    if not isinstance(said.budget, Budget):
        raise InvalidInputError(
            f"budget must be a pate.Budget, got {type(said.budget).__name__}. Pass Budget(epsilon=1.0, delta=1e-5)."
        )
    check_real("max_grad_norm", said.max_grad_norm, low=0, low_open=True)
    check_real("learning_rate", said.learning_rate, low=0, low_open=True)
    check_real("momentum", said.momentum, low=0, high=1, high_open=True)
    read_clipping(said.clipping, said.max_grad_norm)
    read_schedule(said.schedule)
    read_averaging(said.averaging)
    for name in ("epochs", "expected_batch_size", "records_per_group"):
        check_int(name, getattr(said, name), low=1)
    for name in ("max_physical_batch_size", "n_steps", "n_threads", "nominal_n"):
        if getattr(said, name) is not None:
            check_int(name, getattr(said, name), low=1)
    check_choice("optimizer", said.optimizer, OPTIMIZERS)
    check_choice("adjacency", said.adjacency, ADJACENCIES)
    check_choice("on_exhausted", said.on_exhausted, ("raise", "stop"))
    read_mechanism(said)
    if said.random_state is not None:
        check_int("random_state", said.random_state, low=0)
    if said.noise_multiplier is not None:
        check_real("noise_multiplier", said.noise_multiplier, low=SMALLEST_NOISE_MULTIPLIER)
    elif said.on_exhausted == "stop":
        raise InvalidInputError(
            "on_exhausted='stop' needs noise_multiplier=: without one the noise is chosen so that the budget pays for "
            "all steps. Pass a noise multiplier, or leave on_exhausted at 'raise'."
        )
    if said.sample_rate is not None:
        check_real("sample_rate", said.sample_rate, low=0, high=1, low_open=True)
    _check_adjacency(said)
    for callback in said.callbacks:
        if not callable(callback):
            raise InvalidInputError(f"callbacks must be functions of a TrainingStep, got {callback!r}.")
    kinds = {"augmentation": ImageAugmentation, "canaries": Canaries, "ledger": Ledger}
    for name, kind in kinds.items():
        if not isinstance(given := getattr(said, name), (kind, type(None))):
            path = f"pate.{'' if kind is Ledger else 'dpsgd.'}{kind.__name__}"
            raise InvalidInputError(f"{name} must be a {path} or None, got a {type(given).__name__}.")


def _check_adjacency(said: Any) -> None:
    numbers = said.nominal_n is not None, said.sample_rate is not None
    if said.adjacency == "add-or-remove":
        if sum(numbers) != 1:
            got = "both" if all(numbers) else "none"
            raise InvalidInputError(
                "nominal_n or sample_rate must be given for adjacency='add-or-remove', one of the two, got "
                f"{got}: neighbours differ in the number of records, so the sampling rate, "
                "the steps and what the statement says of them must follow from public numbers. Pass about how many "
                "records there are, known without counting these, or a rate; or take adjacency='zero-out'."
            )
    elif any(numbers):
        name = "nominal_n" if numbers[0] else "sample_rate"
        raise InvalidInputError(
            f"{name} is for adjacency='add-or-remove', got it with {said.adjacency!r}, under which the number of "
            f"records is public itself. Leave it at None{'' if numbers[0] else ' and set expected_batch_size'}."
        )
    if said.adjacency != "replace-one" and said.ledger is not None:
        raise InvalidInputError(
            f"ledger must be None for adjacency={said.adjacency!r}: a ledger adds up replace-one costs. Use "
            "adjacency='replace-one'."
        )


def _nominal(said: Any, n_units: int) -> int:
    """Return the number of units that neighbours agree on: the true one, or what a rate or its user says."""
    if said.sample_rate is not None:
        return max(1, round(said.expected_batch_size / said.sample_rate))
    return n_units if said.nominal_n is None else int(said.nominal_n)


def shape_of(said: Any, n_units: int, unit: str = "record") -> Shape:
    """Return the public numbers of the run: rate and steps from a number of units that neighbours agree on."""
    batch, nominal = int(said.expected_batch_size), _nominal(said, n_units)
    many = {"record": "records", "group": "persons"}[unit]
    if said.sample_rate is None:
        remedy = (
            f"There are {n_units} private {many}, and a step cannot expect more than all of them."
            if said.nominal_n is None
            else f"A step cannot expect more {many} than nominal_n."
        )
        check_int("expected_batch_size", batch, low=1, high=nominal, remedy=remedy)
    rate = batch / nominal if said.sample_rate is None else float(said.sample_rate)
    warn_if_weak(said.budget.delta, nominal, epsilon=said.budget.epsilon)
    n_steps = said.epochs * -(-nominal // batch) if said.n_steps is None else int(said.n_steps)
    return Shape(nominal, rate, n_steps, batch)
