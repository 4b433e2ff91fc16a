"""Groups of related parameters of :class:`pate.DPSGDClassifier`, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

from pate._core.moved import Former
from pate.dpsgd._optimizers import Optimizer
from pate.dpsgd.mechanisms import TrainingMechanism
from pate.exceptions import InvalidInputError
from pate.networks import make_module
from pate.records import NUMBER, check_bounds


@dataclass(frozen=True)
class SampledGaussian:
    """The settings of DP-SGD that decide its cost: how records are sampled for a step, and how much noise is added.

    Parameters
    ----------
    mechanism : {"poisson", "ftrl"} or an object of :mod:`pate.dpsgd.mechanisms`
        How records are sampled for a step, which noise is added, and what both cost. "ftrl" correlates the noise of
        several steps; how many is chosen by public numbers: :func:`pate.dpsgd.mechanisms.choose_bands`.
    adjacency : {"replace-one", "add-or-remove", "zero-out"}
        Replace-one, as everywhere in this package, gives epsilons that compare with PATE's. Most published DP-SGD
        epsilons are for add-or-remove, and smaller at the same noise: the statement says by how much. Zero-out (a
        record counts for nothing, but keeps its place) has the epsilons of add-or-remove, with a public number of
        records.
    nominal_n : int or None
        For add-or-remove: a public number of records (persons), from which sampling rate and steps follow. Neighbours
        differ in the true number, which is then not used.
    sample_rate : float or None
        For add-or-remove, instead of ``nominal_n``.
    n_steps : int or None
        Instead of ``epochs``.
    records_per_group : int
        With ``groups``: a person who is in a step contributes the gradient of the mean loss of at most so many of their
        records, drawn anew in every step.
    noise_multiplier : float or None
        Standard deviation of the noise, in units of ``max_grad_norm``. None takes the least noise the budget allows. A
        number is checked against the budget.
    on_exhausted : {"raise", "stop"}
        If ``noise_multiplier`` is too small for all steps: refuse, or stop before the step that would exceed the budget
        (known before the first one).

    Notes
    -----
    The name is that of Mironov, Talwar and Zhang, *Renyi differential privacy of the sampled Gaussian mechanism*, 2019.
    Values are checked by ``fit``.

    Examples
    --------
    >>> SampledGaussian(adjacency="add-or-remove", nominal_n=1000).mechanism
    'poisson'
    """

    mechanism: str | TrainingMechanism = "poisson"
    adjacency: str = "replace-one"
    nominal_n: int | None = None
    sample_rate: float | None = None
    n_steps: int | None = None
    records_per_group: int = 8
    noise_multiplier: float | None = None
    on_exhausted: str = "raise"


@dataclass(frozen=True)
class Device:
    """The device, threads and memory that torch uses; they change results only by rounding.

    Parameters
    ----------
    name : str
        Torch's name of the device; ``"auto"`` takes a CUDA device if there is one.
    n_threads : int or None
        CPU threads of torch during fit and predict. One is fastest for small modules, by far if other processes use the
        same cores; None leaves torch's setting.
    max_physical_batch_size : int or None
        Records whose gradients are computed at once. None takes what fits in some 100 MB, on a GPU four times as many.

    Examples
    --------
    >>> Device("auto", n_threads=None)
    Device(name='auto', n_threads=None, max_physical_batch_size=None)
    """

    name: str = "cpu"
    n_threads: int | None = 1
    max_physical_batch_size: int | None = None


#: Parameter -> its values; a plain one stands for the first field of such.
KINDS: dict[str, type[Any]] = {"optimizer": Optimizer, "mechanism": SampledGaussian, "device": Device}


def valued(kind: type[Any], given: Any, **changes: Any) -> Any:
    """Return what is given for a parameter as a value of its kind: what is none is its first field."""
    value = given if isinstance(given, kind) else kind(given)
    return replace(value, **changes) if changes else value


def _fields_of(parameter: str) -> dict[str, Former]:
    """Return the former parameters that are fields of a parameter's value now."""
    kind = KINDS[parameter]

    def of(field: str) -> Former:
        return Former(
            f"{parameter}={kind.__name__}({field}=...)",
            parameter,
            lambda given, value: valued(kind, kind() if given is None else given, **{field: value}),
            lambda given: getattr(valued(kind, given), field),
            lambda given: isinstance(given, kind),
        )

    return {field.name: of(field.name) for field in fields(kind)[1:]}


def with_arguments(module: Any, keywords: Any) -> Any:
    """Return a module, or a maker of it, with these arguments; as it is without."""
    return partial(make_module(module), **keywords) if keywords else module


#: Former parameters of DP-SGD's estimators.
FORMER: dict[str, str | Former] = {
    **{name: former for parameter in KINDS for name, former in _fields_of(parameter).items()},
    "module_kwargs": Former(
        "module=functools.partial(...)",
        "module",
        with_arguments,
        lambda module: getattr(module, "keywords", None),
        lambda module: isinstance(module, partial),
    ),
    "ranges": Former("fit(X, y, schema=...)"),
    "canaries": Former("fit(X, y, canaries=...)"),
}


def flat(clf: Any, *, schema: Any = None, canaries: Any = None) -> SimpleNamespace:
    """Return all that a fit is set to, fields of values and arguments of fit too, each by its name.

    ``bounds`` is the stated range of a number that is predicted, None for classes.
    """
    before = clf.__dict__.get("_former", {})
    # What an estimator of numbers has none of.
    absent = {"classes": NUMBER, "augmentation": None, "measure": None, "stated": None, "force": False}
    found = SimpleNamespace(**(absent | clf.get_params(deep=False)))
    found.bounds = check_bounds(clf.target_range) if hasattr(clf, "target_range") else None
    for name, old, value in (("schema", "ranges", schema), ("canaries", "canaries", canaries)):
        if value is not None and before.get(old) is not None:
            raise InvalidInputError(f"{name} is given to fit, and by its former name before. Keep that of fit.")
        setattr(found, old, before.get(old) if value is None else value)
    for parameter, kind in KINDS.items():
        first, *rest = vars(valued(kind, getattr(clf, parameter))).items()
        vars(found).update({parameter: first[1], **dict(rest)})
    found.module_kwargs = None
    if isinstance(clf.module, partial) and not clf.module.args:
        found.module, found.module_kwargs = clf.module.func, clf.module.keywords or None
    return found
