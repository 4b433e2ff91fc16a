"""A candidate of a private selection: a private fit whose price is known beforehand from public numbers.

Record voters, heads and teachers on shards, and classifiers whose price somebody states; DP-SGD is in ``_by_dpsgd``.
"""

from __future__ import annotations

import copy
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sized
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone

from pate._core.checks import shown
from pate._core.types import FloatArray, IntArray
from pate.data import by_name, check_public_rows, is_frame, is_sparse, read_rows
from pate.estimators._public_rows import OVERLAP
from pate.estimators._queries import Queries
from pate.exceptions import InvalidInputError, PateError
from pate.privacy.budget import Budget
from pate.privacy.compose.repetitions import Repetitions, deltas_of
from pate.privacy.convert import DEFAULT_ORDERS, gdp_to_epsilon
from pate.privacy.cost import Charge, check_charge
from pate.privacy.words import Guarantee
from pate.records import own_throughout, take
from pate.release import RecordLabels, quote
from pate.release.statement.model import Assumption, PrivacyStatement

# The public numbers of one private selection: what every price and every check follows from.


@dataclass(frozen=True)
class Facts:
    """What is public before anything is trained; under replace-one adjacency neighbours agree on all of it.

    Units are records, or persons where groups are given; ``n_held`` of them are held out to score. ``row_shape`` is
    that of one private row, ``law`` that of the number of runs.
    """

    classes: tuple[Any, ...]
    unit: str
    n_units: int
    n_held: int
    budget: Budget
    X_public: Any = None
    row_shape: tuple[int, ...] = ()
    law: Repetitions = field(default_factory=partial(Repetitions, "poisson", 10.0))

    @property
    def n_trained(self) -> int:
        """Units that every run trains on."""
        return self.n_units - self.n_held

    @property
    def grouped(self) -> bool:
        """Whether a unit is a person with all records."""
        return self.unit == "group"


# Private records as a selection holds them.


@dataclass(frozen=True, eq=False, repr=False)
class PrivateRows:
    """Private records, read and checked: **sensitive**.

    ``y`` has class values, None for a record that has none of the classes; ``unit_of`` the unit of every record, 0 to
    n_units - 1.
    """

    X: Any
    y: npt.NDArray[Any]
    groups: npt.NDArray[Any] | None
    unit_of: IntArray

    def of_units(self, units: IntArray) -> PrivateRows:
        """Return the records of these units, in the file's order."""
        places = np.flatnonzero(np.isin(self.unit_of, units))
        owners = None if self.groups is None else self.groups[places]
        return PrivateRows(take(self.X, places), self.y[places], owners, self.unit_of[places])

    def copied(self) -> PrivateRows:
        """Return the same records in arrays of their own, for a caller that may write into them."""
        return self.of_units(self.unit_of)


#: A run may cost this much more than was said of it, relative: rounding.
_ROUNDING = 1e-8
#: What no part of a candidate may say, and what it must be instead: a ledger would be charged run by run, a checkpoint
#: hands one run's work to the next, callbacks and canaries see the losers, and a known seed is no noise.
_NOT_ITS_OWN = {
    **dict.fromkeys(("ledger", "noise_seed", "nominal_n", "checkpoint_dir", "checkpoint", "canaries"), "None"),
    "callbacks": "empty",
}


@dataclass(frozen=True, eq=False)
class Candidate:
    """A private classifier of another package as a candidate of :func:`private_select`, at a cost that you state.

    :class:`pate.DPSGDClassifier` and :class:`pate.PATEClassifier` know their own cost: pass them as they are.

    Parameters
    ----------
    estimator : classifier
        With ``fit(X, y)`` (and ``groups``, where groups are given) and ``predict(X)``; cloned for every run.
    charge : Charge, or function of the number of units trained on that returns one
        What one ``fit`` costs for one unit, under replace-one adjacency. Nobody but you vouches for it.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> Candidate(
    ...     DummyClassifier(strategy="constant", constant=0), Charge.zero()
    ... ).charge.pure
    0.0
    """

    estimator: Any
    charge: Charge | Callable[[int], Charge]

    def __post_init__(self) -> None:
        if not (hasattr(self.estimator, "fit") and hasattr(self.estimator, "predict")):
            raise InvalidInputError(f"estimator must have fit and predict, got {shown(self.estimator)}.")
        if not callable(self.charge):
            check_charge(self.charge)


@dataclass(frozen=True, eq=False)
class Contestant(ABC):
    """One candidate as the selection sees it.

    ``noise`` is what its cost falls with, in units of its own; a candidate that is ``fixed`` has one cost.
    ``estimator`` is as it was given, and never fitted.
    """

    name: str
    estimator: Any
    facts: Facts

    #: The least noise that is tried.
    least = 1e-3
    #: Whether what a fitted one says of a row depends on no other row, by code of this package.
    rowwise = False

    @property
    def own(self) -> Any:
        """What has the candidate's settings as attributes."""
        return self.estimator

    @property
    @abstractmethod
    def fixed(self) -> bool:
        """Whether the cost is given, and no noise changes it."""

    @abstractmethod
    def charge(self, noise: float) -> Charge:
        """Return what one fit costs at most, under replace-one adjacency."""

    @abstractmethod
    def settings(self, noise: float) -> dict[str, Any]:
        """Return the parameters that make a fit cost that."""

    @abstractmethod
    def spent(self, model: Any) -> Charge:
        """Return what a fitted model says it cost."""

    @abstractmethod
    def words(self, noise: float) -> str:
        """Return one fit in words, for statement and ledger."""

    @abstractmethod
    def verify(self, noise: float) -> str:
        """Return how a reader computes the charge."""

    @abstractmethod
    def rehearse(self, noise: float, rows: Any) -> None:
        """Fit and ask a model on made-up rows of the kind of ``rows`` (whose cells are not looked at)."""

    def sign(self, model: Any, statement: PrivacyStatement, guarantee: Guarantee, whole: Charge) -> None:
        """Put the selection's statement in the place of the model's own, which is of one run."""
        model.statement_, model.guarantee_ = statement, guarantee

    def made(self, noise: float, noise_seed: int | None, **settings: Any) -> Any:
        """Return an unfitted classifier for one run."""
        model = clone(self.estimator) if isinstance(self.estimator, BaseEstimator) else copy.deepcopy(self.estimator)
        given = self.said(noise, noise_seed) | settings
        return model.set_params(**given) if given else model

    def said(self, noise: float, noise_seed: int | None) -> dict[str, Any]:
        """Return the parameters that are the selection's to say; nothing shows a run, however deep inside."""
        known = self.estimator.get_params() if hasattr(self.estimator, "get_params") else {}
        said = {"classes": self.facts.classes, "noise_seed": noise_seed, "ledger": None, **self.settings(noise)}
        silent = {key: False for key in known if key.rpartition("__")[2] == "verbose"}
        return silent | {key: value for key, value in said.items() if key in known}

    def predicted(self, model: Any, X: Any) -> Any:
        """Return what a fitted model says of rows."""
        return self.asked(model).predict(X)

    def asked(self, model: Any) -> Any:
        """Return a copy to be asked, for a model may keep what it was asked."""
        return copy.deepcopy(model)

    def deltas(self, noise: float) -> FloatArray:
        """Return a delta of one fit at every epsilon that Poisson's price asks for, shape (n_orders,)."""
        return deltas_of(at_default_orders(self.charge(noise)))

    def fit(self, model: Any, X: Any, y: Any, groups: Any) -> None:
        """Fit an unfitted classifier, on whatever rows."""
        if self.facts.grouped:
            model.fit(X, y, groups=groups)
        else:
            model.fit(X, y)

    def check_rows(self, rows: PrivateRows) -> None:  # noqa: B027  most take any rows
        """Refuse private rows that no run could take, as a fit by itself would before it costs anything."""

    def check_columns(self, rows: PrivateRows) -> Any:
        """Return the public rows, read; refuse those of other columns than the private ones have."""
        public = read_rows(self.facts.X_public, name="X_public")
        if is_frame(rows.X):
            public = by_name(public, rows.X.columns, name="X_public", other="X")
        named = is_frame(rows.X) and is_frame(public)
        columns = [list(one.columns) if named else one.shape[1:] for one in (rows.X, public)]
        if is_sparse(rows.X) != is_sparse(public):
            raise InvalidInputError(f"X_public must be sparse where X is, and dense where it is, for {self.name!r}.")
        if columns[0] != columns[1]:
            raise InvalidInputError(
                f"X_public must have the columns of X, in their order, for the candidate {self.name!r}: rows of "
                f"{columns[1]}, not {columns[0]}."
            )
        return public

    def rests_on(self, model: Any) -> tuple[Assumption, ...]:
        """Return what a fitted model's own statement assumes."""
        statement = getattr(model, "statement_", None)
        return statement.assumptions if isinstance(statement, PrivacyStatement) else ()

    def check_spent(self, model: Any, noise: float) -> None:
        """Refuse a model whose own account says more than was paid: public numbers, so this tells nothing."""
        paid, spent = self.charge(noise), self.spent(model)
        if not (spent.rdp_at(paid.orders) <= np.array(paid.rdp) * (1 + _ROUNDING)).all():
            raise PateError(
                f"the candidate {self.name!r} cost more than its price, which was computed from public numbers before. "
                "That is an error of this package or of the candidate's settings; nothing is released."
            )

    def check_own(self) -> None:
        """Refuse settings that are the selection's to say."""
        say = "Leave it out of the candidate: private_select says it for all of them."
        deep = self.estimator.get_params() if hasattr(self.estimator, "get_params") else {}
        for key, value in ({key: getattr(self.own, key, None) for key in _NOT_ITS_OWN} | deep).items():
            kind = key.rpartition("__")[2]
            none = value is None or (kind == "callbacks" and isinstance(value, Sized) and not len(value))
            if kind in _NOT_ITS_OWN and not none:
                raise InvalidInputError(
                    f"{key} of the candidate {self.name!r} must be {_NOT_ITS_OWN[kind]}: runs that lose are paid for "
                    "as a whole, leave nothing, and nobody may count them. Leave it out of the candidate."
                )
        if getattr(self.own, "adjacency", "replace-one") != "replace-one":
            raise InvalidInputError(
                f"adjacency of the candidate {self.name!r} must be 'replace-one': training and held-out parts are cut "
                "by their number, which must be public."
            )
        classes = getattr(self.estimator, "classes", None)
        if classes is not None and tuple(classes) != self.facts.classes:
            raise InvalidInputError(f"classes of the candidate {self.name!r} must be those of private_select. {say}")
        if self.facts.grouped and "groups" not in inspect.signature(self.estimator.fit).parameters:
            raise InvalidInputError(
                f"the candidate {self.name!r} must take groups= in fit, as groups are given: it protects single records"
                " only. Leave it out."
            )


@dataclass(frozen=True, eq=False)
class StatedContestant(Contestant):
    """A :class:`Candidate`: its price is what somebody says it is."""

    stated: Charge | Callable[[int], Charge]
    fixed = True

    def charge(self, noise: float) -> Charge:
        said = self.stated(self.facts.n_trained) if callable(self.stated) else self.stated
        return check_charge(said)

    def settings(self, noise: float) -> dict[str, Any]:
        return {}

    def spent(self, model: Any) -> Charge:
        return self.charge(1.0)

    def fit(self, model: Any, X: Any, y: Any, groups: Any) -> None:
        # Its author may know no rule for records without a class.
        known = np.array([value is not None for value in y.tolist()], dtype=bool)
        super().fit(model, take(X, known), np.asarray(y[known].tolist()), None if groups is None else groups[known])

    def words(self, noise: float) -> str:
        return f"{type(self.estimator).__name__}, at a price that the curator states"

    def verify(self, noise: float) -> str:
        return "the price that the curator states"

    def rehearse(self, noise: float, rows: Any) -> None:
        X, y, groups = made_up(rows, self.facts.n_trained, self.facts)
        model = self.made(noise, 0)
        self.fit(model, X, y, groups)
        np.asarray(self.predicted(model, X)).reshape(len(y))


def at_default_orders(charge: Charge) -> Charge:
    """Return a cost with its curve at :data:`pate.privacy.convert.DEFAULT_ORDERS`."""
    if charge.orders == DEFAULT_ORDERS:
        return charge
    return replace(charge, rdp=tuple(charge.rdp_at(DEFAULT_ORDERS).tolist()), orders=DEFAULT_ORDERS)


def made_up(rows: Any, n: int, facts: Facts) -> tuple[Any, Any, Any]:
    """Return n made-up rows of the shape and columns of ``rows``, class values in turn and owners in turn."""
    shape = (n, *rows.shape[1:])
    drawn = np.random.default_rng(0).normal(size=shape)
    X: Any = drawn
    if hasattr(rows, "columns"):
        import pandas as pd

        X = pd.DataFrame(drawn, columns=rows.columns)
    elif getattr(rows.dtype, "kind", "O") == "f" and isinstance(rows, np.ndarray):
        X = drawn.astype(rows.dtype)
    values = np.empty(n, dtype=object)
    values[:] = [facts.classes[i % len(facts.classes)] for i in range(n)]
    y = np.asarray(values.tolist()) if len({type(c) for c in facts.classes}) == 1 else values
    return X, y, np.arange(n) if facts.grouped else None


def public_in_turn(n: int, facts: Facts) -> tuple[Any, Any, Any]:
    """Return n of the public rows, in turn, in place of private ones, with made-up class values and owners."""
    public = facts.X_public
    _, y, groups = made_up(np.zeros((1, 1)), n, facts)
    places = np.arange(n) % int(np.shape(public)[0])
    return (take(public, places) if hasattr(public, "shape") else [public[i] for i in places]), y, groups


@dataclass(frozen=True, eq=False)
class PATEContestant(Contestant):
    """A :class:`pate.PATEClassifier` of any method; its noise is 1/mu, which gives the budget of one run.

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
        own = own_throughout(self.estimator.representation)
        return own and self.estimator.student is None and self._who() == "records"

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
        asked = Queries.of(self.estimator.queries)
        return quote(
            asked.n or int(np.shape(self.facts.X_public)[0]),
            own,
            budget=budget,
            max_answers=asked.max_answers,
            on_exhausted=asked.on_exhausted,
        ).charge

    def settings(self, noise: float) -> dict[str, Any]:
        # Private rows are looked for among the public ones once, before the charge: no run may depend on what is found.
        # Nor is a candidate measured by itself: the selection scores it.
        stated = {**(self.estimator.stated or {}), OVERLAP: "yes"}
        return {"budget": self.budget(noise), "stated": stated, "voters": self._who(), "measure": False}

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
        if not self.estimator._overlap_is_public():
            check_public_rows(rows.X, public, rows.groups)

    def rests_on(self, model: Any) -> tuple[Assumption, ...]:
        found = super().rests_on(model)
        if self.estimator._overlap_is_public():
            return found
        looked = "pate looked for private rows among them; what it found is not stated here"
        return tuple(replace(a, how=looked, by="nobody") if a.name == "public rows" else a for a in found)

    def sign(self, model: Any, statement: PrivacyStatement, guarantee: Guarantee, whole: Charge) -> None:
        said: dict[str, Any] = {"statement": statement, "guarantee": guarantee}
        if isinstance(model.release_, RecordLabels):
            rounds = tuple(replace(one, **said) for one in model.release_.rounds)
            model.release_ = replace(model.release_, rounds=rounds, charge=whole, **said)
        else:
            price = replace(model.release_.quote, charge=whole, guarantee=guarantee)
            model.release_ = replace(model.release_, quote=price, **said)
        super().sign(model, statement, guarantee, whole)
