"""Who takes part: contestants by the contract, and plain classifiers that become such."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sklearn.base import clone

from pate.comparison.contract import Contestant, Setting, Tuning
from pate.estimator import PATEClassifier
from pate.exceptions import InvalidInputError
from pate.report.rows import Entrant
from pate.studies.folders import plain_repr

#: Whoever knows these can repeat the noise, or the cut.
_SECRETS = ("noise_seed", "partition_seed")


@dataclass(frozen=True)
class Given:
    """A classifier somebody set up, as what makes a contestant: the same at every budget."""

    model: Any

    def __call__(self, setting: Setting) -> Any:
        takes = self.model.get_params(deep=False)
        parameters = {"budget": setting.budget, "random_state": setting.seed, "noise_seed": setting.noise_seed}
        return clone(self.model).set_params(**{k: v for k, v in parameters.items() if k in takes})


def entrants_of(contestants: Any) -> tuple[Contestant, ...]:
    """Return who takes part, in their order.

    Parameters
    ----------
    contestants : mapping of name to classifier or Contestant, or sequence of Contestants

    Raises
    ------
    InvalidInputError
        Nobody, a name twice, or something that cannot take part.
    """
    if isinstance(contestants, Mapping):
        found = tuple(_contestant(name, given) for name, given in contestants.items())
    elif isinstance(contestants, Sequence) and all(isinstance(c, Contestant) for c in contestants):
        found = tuple(contestants)
    else:
        found = ()
    if not found:
        raise InvalidInputError(
            f"contestants must be a mapping with at least one name and classifier, or a list of Contestants, got "
            f"{contestants!r}. Pass {{'PATE': PATEClassifier(...), 'DP-SGD': DPSGDClassifier(...)}}."
        )
    names = [c.name for c in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidInputError(f"contestants must have names of their own, got {twice[0]!r} twice. Rename one.")
    if all(c.role != "private" for c in found):
        raise InvalidInputError(
            "contestants must have at least one of role 'private': floors and ceilings have no epsilon. Add a method."
        )
    return found


def described(contestant: Contestant) -> Entrant:
    """Return what a reader is told of a contestant."""
    told, given = contestant.tuning, isinstance(contestant.make, Given)
    return Entrant(
        name=contestant.name,
        role=contestant.role,
        side=contestant.side,
        sees=contestant.sees,
        rule=told.rule,
        n_tried=None if told == Tuning() else told.n_tried,
        tried_on=told.on,
        made_of=plain_repr(_without_seeds(contestant.make.model)) if given else None,  # type: ignore[attr-defined]
    )


def _without_seeds(model: Any) -> Any:
    """Return a copy without the seeds of noise and shards, to be shown."""
    copy = clone(model)
    parameters = copy.get_params()
    found = [name for name, value in parameters.items() if value is not None and name.split("__")[-1] in _SECRETS]
    return copy.set_params(**dict.fromkeys(found))


def _contestant(name: Any, given: Any) -> Contestant:
    if not isinstance(name, str) or not name.strip():
        raise InvalidInputError(f"contestants must have text as names, got {name!r}.")
    if isinstance(given, Contestant):
        return replace(given, name=name)
    if isinstance(given, type) or not all(hasattr(given, m) for m in ("fit", "predict", "get_params", "set_params")):
        raise InvalidInputError(
            f"contestants[{name!r}] must be a scikit-learn classifier (fit, predict, get_params, set_params) or a "
            f"Contestant, got {given!r}."
        )
    takes = given.get_params(deep=False)
    if "budget" not in takes:
        remedy = "Only classifiers that take a budget compare at one epsilon; wrap yours in one that does."
        if hasattr(given, "steps"):
            remedy = (
                "A Pipeline fits its other steps on the private rows outside any budget: put them inside "
                "PATEClassifier(make_pipeline(...)), or transform the data beforehand by what public rows teach."
            )
        raise InvalidInputError(
            f"contestants[{name!r}] must have a parameter named budget, and {type(given).__name__} has none. {remedy}"
        )
    if takes.get("ledger") is not None:
        raise InvalidInputError(
            f"contestants[{name!r}] must not have a ledger: it would give the answers of one fit to the next, "
            "and charge them all to one budget. Pass ledger=None."
        )
    return Contestant(name, Given(given), side=_side(given))


def _side(given: Any) -> str:
    if isinstance(given, PATEClassifier):
        return "PATE"
    dpsgd = any(base.__module__.startswith("pate.dpsgd") for base in type(given).__mro__)
    return "DP-SGD" if dpsgd else "other"
