"""DP-SGD as a candidate of a private selection: its price, its noise and its run."""

from __future__ import annotations

import copy
import hashlib
import math
import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import dp_accounting
import numpy as np
import numpy.typing as npt
from dp_accounting import pld

from pate._core.checks import check_real
from pate._core.types import FloatArray
from pate.dpsgd import (
    SMALLEST_NOISE_MULTIPLIER,
    SampledGaussian,
    check_apart,
    check_recipe,
    check_settings,
    filled,
    fit_privately,
    flat,
    is_planned,
    read_clipping,
    read_mechanism,
    read_records,
    resolve,
    shape_of,
    valued,
)
from pate.dpsgd.mechanisms import PoissonSGD, Shape, TrainingMechanism
from pate.dpsgd.recipes import RecipePlan
from pate.estimators.selection._contestant import Contestant, PrivateRows, made_up, public_in_turn
from pate.estimators.selection._statement import share_of
from pate.exceptions import InvalidInputError
from pate.privacy.budget import MOST_EPSILON, Budget
from pate.privacy.convert import DEFAULT_ORDERS
from pate.privacy.cost import Charge
from pate.privacy.losses import discretization_interval, rounding_slack
from pate.records import own_throughout


@dataclass(frozen=True, eq=False)
class DPSGDContestant(Contestant):
    """A :class:`pate.DPSGDClassifier`, whatever its mechanism; its noise is the noise multiplier.

    What a fit costs is its mechanism's own charge, for the shape that its own settings give on the training part. What
    a candidate leaves to a recipe is planned once, before any price, of public facts: the shape of a row, the number of
    units that train, the classes, the public rows, and the share of the budget that one run has. All runs keep to it.
    """

    least = SMALLEST_NOISE_MULTIPLIER

    @property
    def rowwise(self) -> bool:  # type: ignore[override]
        recipe_plan = self.planned[1]
        return recipe_plan is None or all(map(own_throughout, recipe_plan.maps))

    @cached_property
    def own(self) -> Any:
        return flat(self.estimator)

    @property
    def fixed(self) -> bool:
        return self.own.noise_multiplier is not None

    @cached_property
    def planned(self) -> tuple[Any, RecipePlan | None]:
        """The settings of every run, with nothing open, and the recipe's plan where there is one."""
        if not is_planned(self.estimator):
            return filled(self.own), None
        own = copy.copy(self.own)
        own.budget = share_of(self.facts.law, self.facts.budget)
        return resolve(
            own,
            self.facts.row_shape,
            self.facts.X_public,
            n_units=self.facts.n_trained,
            n_classes=len(self.facts.classes),
        )

    @cached_property
    def _mapping_once(self) -> RecipePlan | None:
        """The plan as runs use it: they see the same rows, which are mapped once."""
        recipe_plan = self.planned[1]
        return None if recipe_plan is None else MappingOnce(recipe_plan.recipe, recipe_plan.facts, recipe_plan.maps)

    @property
    def run(self) -> Any:
        """A classifier in which nothing is open; it is not the one that is fitted."""
        return self.planned[0]

    @cached_property
    def shape(self) -> Shape:
        """The public numbers of one fit, on the training part."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # delta is the selection's, which has said so
            return shape_of(self.run, self.facts.n_trained)

    @property
    def mechanism(self) -> TrainingMechanism:
        """What samples, adds noise and knows its price; chosen once, so that what is priced is what runs."""
        found = read_mechanism(self.run, self.shape)
        found.check(self.shape, "replace-one")
        return found

    def _sigma(self, noise: float) -> float:
        given = self.own.noise_multiplier
        return noise if given is None else check_real("noise_multiplier", given, low=0, low_open=True)

    def charge(self, noise: float) -> Charge:
        return self.mechanism.charge(self._sigma(noise), self.shape)

    def deltas(self, noise: float) -> FloatArray:
        known = super().deltas(noise)
        if not self._has_loss_distribution:
            return known
        shape = self.shape
        return np.minimum(
            known, _by_loss_distribution(self._sigma(noise), shape.sample_rate, shape.n_steps, self._grid)
        )

    @property
    def _has_loss_distribution(self) -> bool:
        return type(self.mechanism) is PoissonSGD and self.shape.sample_rate < 1

    @property
    def _grid(self) -> float:
        return discretization_interval(self.facts.budget.epsilon / 4, self.shape.n_steps)

    def settings(self, noise: float) -> dict[str, Any]:
        # What is charged is the mechanism's curve; the run's own budget only must not be in the way.
        whatever = Budget(MOST_EPSILON, self.facts.budget.delta)
        own = {"mechanism": self.mechanism, "noise_multiplier": self._sigma(noise)}
        said = valued(SampledGaussian, self.estimator.mechanism, **own)
        return {"mechanism": said, "budget": whatever, "measure": False}  # the mechanism is all that is charged

    def spent(self, model: Any) -> Charge:
        done = replace(self.shape, sample_rate=model.sample_rate_, n_steps=model.n_steps_)
        return self.mechanism.charge(model.noise_multiplier_, done)

    def words(self, noise: float) -> str:
        clipped, recipe_plan = read_clipping(self.estimator.clipping, self.run.max_grad_norm).words(), self.planned[1]
        recipe = "" if recipe_plan is None else f"recipe {recipe_plan.recipe.name!r} of public facts, "
        return (
            f"{recipe}{self.mechanism.name}, {self.shape.n_steps} steps, {self.mechanism.words(self.shape)}, "
            f"{clipped}, noise multiplier {self._sigma(noise):.6g}"
        )

    def verify(self, noise: float) -> str:
        sigma, shape = self._sigma(noise), self.shape
        deltas = f" (delta: also PLDAccountant(REPLACE_ONE, {self._grid:g}), plus {rounding_slack(shape.n_steps):.3g})"
        return f"{self.mechanism!r}.charge({sigma!r}, {shape!r}){deltas if self._has_loss_distribution else ''}"

    def rehearse(self, noise: float, rows: Any) -> None:
        # One step, on a batch of made-up rows: what the module cannot do it cannot do there either.
        n, recipe_plan = max(2, self.shape.expected_batch_size), self.planned[1]
        public = recipe_plan is not None and self.facts.X_public is not None  # of the kinds that its maps know
        X, y, groups = public_in_turn(n, self.facts) if public else made_up(rows, n, self.facts)
        once = replace(self.settings(noise)["mechanism"], mechanism="poisson", n_steps=1)
        model = self.made(noise, 0, epochs=1, expected_batch_size=len(y), mechanism=once)
        self.fit(model, X, y, groups)
        self.predicted(model, X[:2])

    def check_own(self) -> None:
        super().check_own()
        check_recipe(self.own)
        check_settings(filled(self.own))
        if self.own.on_exhausted != "raise":
            raise InvalidInputError(
                f"on_exhausted of the candidate {self.name!r} must be 'raise': all runs are priced as a whole."
            )

    def check_rows(self, rows: PrivateRows) -> None:
        if not is_planned(self.estimator):
            read_records(self.made(1.0, None), rows.X, rows.y, self.facts.classes)
        elif self.facts.X_public is not None:
            check_apart(rows.X, self.check_columns(rows))

    def fit(self, model: Any, X: Any, y: Any, groups: Any) -> None:
        if self._mapping_once is None:
            super().fit(model, X, y, groups)
            return
        # By the plan that was priced, whatever budget the run itself is given.
        owners = groups if self.facts.grouped else None
        model._take(fit_privately(model, X, y, groups=owners, recipe_plan=self._mapping_once))
        model._method = self.planned[1]  # the other keeps private rows

    def asked(self, model: Any) -> Any:
        asked = copy.deepcopy(model)
        asked._method = self._mapping_once
        return asked


@dataclass(frozen=True, eq=False, repr=False)
class MappingOnce(RecipePlan):
    """A recipe's plan that remembers what it made of arrays: **sensitive** once it has mapped private rows."""

    seen: dict[Any, Any] = field(default_factory=dict)

    def transform(self, X: Any) -> npt.NDArray[Any]:
        """Return what the module sees of these rows, an array of the caller's own."""
        if not isinstance(X, np.ndarray) or X.dtype.kind == "O":
            return super().transform(X)
        key = X.shape, X.dtype.str, hashlib.sha256(np.ascontiguousarray(X).tobytes()).digest()
        if key not in self.seen:
            self.seen[key] = super().transform(X)
        return self.seen[key].copy()


@lru_cache(maxsize=128)
def _by_loss_distribution(sigma: float, rate: float, n_steps: int, grid: float) -> FloatArray:
    """Return the deltas of a run at the epsilons of Poisson's price, by its privacy loss distribution.

    The theorem asks for an (epsilon, delta) of one run, however it is known; the dominating pair is that of
    :mod:`pate.dpsgd._calibration`, and what its Fourier transform may lose is added.
    """
    step = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(sigma))
    accountant = pld.PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE, value_discretization_interval=grid)
    accountant.compose(dp_accounting.SelfComposedDpEvent(step, n_steps))
    found = [accountant.get_delta(math.log1p(1 / (order - 1))) for order in DEFAULT_ORDERS]
    return np.asarray(found, dtype=np.float64) + rounding_slack(n_steps)
