"""Record voters, heads and teachers on shards as candidates."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pate.data import check_public_rows
from pate.exceptions import InvalidInputError
from pate.privacy.budget import Budget
from pate.privacy.convert import gdp_to_epsilon
from pate.privacy.cost import Charge
from pate.privacy.words import Guarantee
from pate.release import RecordLabels, quote
from pate.selection._contestant import Contestant, PrivateRows, public_in_turn
from pate.statement.model import Assumption, PrivacyStatement


@dataclass(frozen=True, eq=False)
class PATEContestant(Contestant):
    """A :class:`pate.PATEClassifier`, whoever votes; its noise is 1/mu, which gives the budget of one run.

    Where it calibrates its noise to a budget, all that it releases is Gaussian and costs at most the budget's mu^2;
    with a ``mechanism`` of its own it costs what :func:`pate.quote` says.
    """

    least = 0.01

    def __post_init__(self) -> None:
        if self.estimator.who_votes() == "dpsgd":
            raise InvalidInputError(
                f"the candidate {self.name!r} must not have voters='dpsgd'. Pass a DPSGDClassifier."
            )
        if self.facts.X_public is None:
            raise InvalidInputError(f"X_public must be given, as the candidate {self.name!r} labels public rows.")

    @property
    def rowwise(self) -> bool:  # type: ignore[override]
        return self.estimator.student is None and self._who() == "records"

    def _who(self) -> str:
        """Return who votes in every run: a rule that chose by the budget of each would make runs of two prices."""
        found = self.estimator.who_votes()
        return "records" if found == "auto" else found

    @property
    def fixed(self) -> bool:
        return self.estimator.mechanism is not None

    def budget(self, noise: float) -> Budget:
        """Return the budget of one run: with a mechanism of its own only the most that its answers may cost."""
        if self.fixed:
            return self.facts.budget
        delta = self.facts.budget.delta
        return Budget(gdp_to_epsilon(1 / noise, delta), delta)

    def charge(self, noise: float) -> Charge:
        budget, own = self.budget(noise), self.estimator.mechanism
        if own is None:
            return Charge.gaussian(sensitivity=math.sqrt(budget.mu_squared) * (1 + 1e-12), sigma=1.0)
        asked = self.estimator.n_queries or int(np.shape(self.facts.X_public)[0])
        return quote(
            asked,
            own,
            budget=budget,
            max_answers=self.estimator.max_answers,
            on_exhausted=self.estimator.on_exhausted,
        ).charge

    def settings(self, noise: float) -> dict[str, Any]:
        # Private rows are looked for among the public ones once, before the charge: no run may hang on what is found.
        # Nor is a candidate measured by itself: the selection scores it.
        return {"budget": self.budget(noise), "overlap_is_public": True, "voters": self._who(), "measure": False}

    def fit(self, model: Any, X: Any, y: Any, groups: Any) -> None:
        model.fit(X, y, X_public=self.facts.X_public, groups=groups)

    def spent(self, model: Any) -> Charge:
        release = model.release_
        return release.charge if isinstance(release, RecordLabels) else release.quote.charge

    def words(self, noise: float) -> str:
        own = self.estimator.mechanism
        how = f"mu = {1 / noise:.6g} (Gaussian)" if own is None else repr(own)
        return f"PATE, {self._who()} vote, {how}"

    def verify(self, noise: float) -> str:
        if self.estimator.mechanism is None:
            return f"Charge.gaussian(sensitivity=1, sigma={1 / math.sqrt(self.charge(noise).mu_squared)!r})"
        return f"pate.quote of {self.estimator.mechanism!r} with {self.budget(noise)!r}"

    def rehearse(self, noise: float, rows: Any) -> None:
        X, y, groups = public_in_turn(self.facts.n_trained, self.facts)
        model = self.made(noise, 0)
        self.fit(model, X, y, groups)
        self.check_spent(model, noise)
        self.predicted(model, X[:2])

    def check_rows(self, rows: PrivateRows) -> None:
        public = self.check_columns(rows)
        if not self.estimator.overlap_is_public:
            check_public_rows(rows.X, public, rows.groups)

    def rests_on(self, model: Any) -> tuple[Assumption, ...]:
        found = super().rests_on(model)
        if self.estimator.overlap_is_public:
            return found
        looked = "pate looked for private rows among them; what it found is not told here"
        return tuple(replace(a, how=looked, by="nobody") if a.name == "public rows" else a for a in found)

    def sign(self, model: Any, statement: PrivacyStatement, guarantee: Guarantee, whole: Charge) -> None:
        said: dict[str, Any] = {"statement": statement, "guarantee": guarantee}
        if isinstance(model.release_, RecordLabels):
            rounds = tuple(replace(one, **said) for one in model.release_.rounds)
            model.release_ = replace(model.release_, rounds=rounds, charge=whole, **said)
        else:
            price = replace(model.release_.quote, charge=whole, guarantee=guarantee)
            model.release_ = replace(model.release_, quote=price, **said)
        model.statement_ = statement
        model.guarantee_ = guarantee
