"""Record voters across sites: the coordinator's plan, and its rounds, each answered by one sum over all sites.

What is opened is a sum of bounded ballots with the noise of all sites. Head, student, residual rounds, accuracy and
model are computed from it and from public rows: post-processing (Dwork and Roth 2014, Proposition 2.1), the same code
as for records in one place. Rounds that are chosen by what earlier ones gave compose: mu^2 adds up (Dong, Roth, Su
2022, Corollary 3.3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np

from pate._core.checks import check_classes, check_int
from pate._core.types import FloatArray
from pate.estimators import Ask, PATEClassifier, measured_with, plan_records, public_rows
from pate.exceptions import InvalidInputError
from pate.federation._archive import Question
from pate.federation._contract import Trust, check_tolerate
from pate.federation._plan import Plan
from pate.federation._records import SiteRecords, largest_total
from pate.mechanisms import GaussianSum, SharedGaussian, rounds_charge
from pate.models.file import InputSpec, Manifest
from pate.models.recipes import PublicFacts, Recipe, RecordModel, RecordsPlan, Round, choose, most_student_components
from pate.privacy.budget import Budget, check_budget
from pate.privacy.cost import Charge
from pate.records import BallotFacts, RecordVoters, RightFacts
from pate.release import (
    BallotRelease,
    Evidence,
    FederationFacts,
    RecordLabels,
    ReleasedCounts,
    ReleaseTerms,
    ShareSession,
    buy_shares,
    check_ballots_stated,
    federation_statement,
    open_shares,
    warn_if_weak,
)
from pate.release.statement.model import PrivacyStatement


class RoundSession(Protocol):
    """Sites that agreed to a plan and answer its rounds, in order, each once."""

    trust: Trust

    def round(self, kind: str, archive: bytes, *, n_cells: int, mechanism_index: int, bound: int) -> Sequence[int]:
        """Return the opened total of all sites' sums and shares of noise, in steps of the mechanism's lattice.

        Parameters
        ----------
        kind : {"ballots", "right"}
        archive : bytes
            For :meth:`pate.federation.SiteRecords.sums`, at every site.
        n_cells : int
            So many numbers.
        mechanism_index : int
            Of the plan's mechanisms.
        bound : int
            The total is never beyond it.
        """

    def took_part(self, most_units: int) -> FederationFacts:
        """Return who took part, and on what engine; ``most_units`` is the largest number of units at one site."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SitesPlan:
    """A plan for record voters at several institutions (sites): public maps, recipe, the noise of every round. Public.

    Attributes
    ----------
    ballots : RecordsPlan
        The ordinary plan of record voters; it expects the noise of all sites.
    mechanisms : tuple of SharedGaussian
        The mechanism of each round. Its cost counts the noise of honest sites only.
    n_units : tuple of int
        Of each site.
    door : InputSpec
        What a row is.

    Examples
    --------
    >>> plan = SitesPlan.of(
    ...     np.random.default_rng(0).normal(size=(50, 3)),
    ...     classes=(0, 1),
    ...     budget=Budget(3.0, 1e-5),
    ...     n_units=[300] * 5,
    ...     tolerate=2,
    ... )
    >>> plan.charge.guarantee(1e-5).epsilon <= 3.0, plan.mechanisms[0].n_honest
    (True, 3)
    """

    ballots: RecordsPlan
    mechanisms: tuple[SharedGaussian, ...]
    n_units: tuple[int, ...]
    door: InputSpec

    @classmethod
    def of(
        cls,
        X_public: Any,
        *,
        classes: Any,
        budget: Budget,
        n_units: Sequence[int],
        tolerate: int,
        unit: str = "record",
        max_sites_per_person: int = 1,
        door: InputSpec | None = None,
        image_shape: tuple[int, ...] | None = None,
        measure: bool | str | None = None,
        stated: Mapping[str, str] | None = None,
        tuning: str = "",
        rule: Callable[[PublicFacts], Recipe] = choose,
        recipe: Recipe | None = None,
        **asked: Any,
    ) -> Self:
        """Fit the public maps and price all rounds by public facts; nothing is spent.

        Parameters
        ----------
        X_public : public rows, as :meth:`pate.PATEClassifier.fit` takes them
        classes : iterable
            Every class that could occur: public.
        budget : Budget
            The most that it may cost a unit, against a coalition of ``tolerate`` parties.
        n_units : sequence of int
            Records (persons) of each site: public.
        tolerate : int
            So many parties may put together all that they have, the coordinator among them: below half of all. 0 is for
            experiments.
        unit : {"record", "group"}
        max_sites_per_person : int
            A person may have records at so many sites.
        door : InputSpec or None
            What a row is; None: by ``X_public``.
        image_shape, measure, stated, tuning, rule, recipe
            As of :class:`pate.PATEClassifier` and :class:`pate.models.recipes.RecordsPlan`.
        **asked
            More of :class:`pate.models.recipes.Ask`: representation, random_state, decide, force, verbose and others.

        Raises
        ------
        InvalidInputError
            A bad parameter, too few public rows, or a representation that is not pate's own: sites run none of
            anybody else's code.
        BudgetExceededError, NotWorthwhileError
            The budget buys nothing, or nothing of use.
        """
        counts = tuple(check_int(f"n_units[{i}]", n, low=1) for i, n in enumerate(n_units))
        rows, found = public_rows(X_public, image_shape=image_shape)
        door = found if door is None else door
        check_budget(budget)
        if tolerate != 0:  # for experiments; who asks may be no site
            check_tolerate(tolerate, len(counts) + 1, f" ({len(counts)} sites and who asks)")
        warn_if_weak(budget.delta, sum(counts), epsilon=budget.epsilon)
        of_sites: Any = {"n_sites": len(counts), "tolerate": tolerate, "max_sites_per_person": max_sites_per_person}
        one = SharedGaussian(1.0, **of_sites)
        shape = door.image_shape if image_shape is None else image_shape
        ask = Ask(
            classes=check_classes(classes), n_units=sum(counts), unit=unit, image_shape=shape,
            measure=measured_with(measure, None), **asked,
        )  # fmt: skip
        terms = ReleaseTerms(budget=budget, tuning=tuning, stated=check_ballots_stated(stated, residual=True))
        # A person at several sites moves a sum further, so that there is more noise for the same price.
        ratio = max_sites_per_person * math.sqrt(one.n_sites / one.n_honest)
        ballots = plan_records(rows, terms, ask, rule=rule, recipe=recipe, noise_ratio=ratio)
        if not ballots.voters.own_maps:
            raise InvalidInputError(
                "representation must be one of pate.representations, as sites run no code of others: no FromModule and "
                "no FromTransformer. Leave it out, or represent the rows at every site beforehand."
            )
        mechanisms = buy_shares(budget, ballots.shares, n_cells=_cells(ballots), **of_sites)
        return cls(ballots=ballots, mechanisms=mechanisms, n_units=counts, door=door)

    @property
    def n_cells(self) -> int:
        """So many numbers are opened over all rounds, at most."""
        return _cells(self.ballots)

    @property
    def classes(self) -> tuple[Any, ...]:
        """Every class that could occur."""
        return self.ballots.classes

    @property
    def unit(self) -> str:
        """What is protected: "record", or "group" for persons."""
        return self.ballots.unit

    @cached_property
    def representation(self) -> str:
        """Fingerprint of the public maps by which sites are asked first."""
        return self.ballots.voters.fingerprint()

    @property
    def charge(self) -> Charge:
        """What all rounds cost a unit, seen by the coalition."""
        return rounds_charge(self.mechanisms, self.n_cells)

    def agreed(self, *, nonce: str, coordinator: str, sites: Sequence[str], recipients: Sequence[str]) -> Plan:
        """Return the terms to which every site is asked to agree."""
        one = self.mechanisms[0]
        return Plan(
            nonce=nonce, coordinator=coordinator, sites=tuple(sites), n_units=self.n_units,
            recipients=tuple(recipients), opens="ballots", tolerate=one.tolerate,
            noise_multipliers=tuple(m.noise_multiplier for m in self.mechanisms), n_cells=self.n_cells,
            classes=self.classes, unit=self.unit, max_sites_per_person=one.max_sites_per_person,
            representation=self.representation,
            columns=tuple(map(str, self.door.names)) if self.door.kind == "table" else (),
        )  # fmt: skip

    def run(
        self, session: RoundSession, *, evidence: Evidence | None = None, commonest: float | None = None
    ) -> tuple[RecordLabels, RecordModel]:
        """Ask every round of the sites, and return the labels of all public rows and the model.

        ``evidence`` and ``commonest`` are those of :meth:`pate.models.recipes.RecordsPlan.run`.
        """
        return self.ballots.learn(SitesRounds(self, session), evidence=evidence, commonest=commonest)

    def classifier(self, model: RecordModel, statement: PrivacyStatement) -> PATEClassifier:
        """Return a classifier around the model, to predict with and to save: every site may have the file.

        It labels a site's own private rows at home, at no cost (``pate predict``).
        """
        classes = np.asarray(self.ballots.classes)
        kind = {"kind": "records", "door": self.door, "settings": {"voters": "records"}}
        return PATEClassifier._of_student(model, Manifest.of_classes(classes, **kind), statement)


def _cells(ballots: RecordsPlan) -> int:
    """Return how many numbers all rounds open at most: a student's space may have fewer components."""
    m = len(ballots.classes)
    later = most_student_components(len(ballots.z), m)
    cells = [(later if one.of_student else ballots.phi.shape[1]) * m for one in ballots.recipe.rounds]
    return sum(cells) + sum((1, 2 * m)[: len(ballots.measured_shares)])


class SitesRounds:
    """The rounds of a plan, answered by sites: :class:`pate.models.recipes.Rounds`."""

    def __init__(self, plan: SitesPlan, session: RoundSession) -> None:
        self._plan, self._session = plan, session
        self._sent: set[str] = set()
        self._facts: list[BallotFacts | RightFacts] = []

    @property
    def charge(self) -> Charge:
        """The cost of all rounds together, seen by the coalition."""
        return self._plan.charge

    def swift(self, voters: RecordVoters) -> bool:
        """Whether a round shows no progress of its own: none does, as the sites do the work."""
        return True

    def ask(self, voters: RecordVoters, head: Any, asked: Round) -> BallotRelease:
        """Open the sum of all sites' ballots."""
        model = None if asked.clip is None else RecordModel(voters, head)
        drawn, about = self._opened(kind="ballots", voters=voters, model=model, clip=asked.clip)
        return BallotRelease.of(drawn, **about)

    def measure(self, model: RecordModel) -> list[ReleasedCounts]:
        """Open how many records of all sites the model is right about."""
        found, text = [], self._plan.ballots.answered
        for by_class in (False, True)[: len(self._plan.ballots.measured_shares)]:
            drawn, about = self._opened(kind="right", voters=model.voters, model=model, by_class=by_class, text=text)
            found.append(ReleasedCounts.of(drawn, **about))
        return found

    def _opened(self, **asked: Any) -> tuple[FloatArray, dict[str, Any]]:
        """Return what all sites' sum opened, and about it: facts, what is charged for, all noise, the statement."""
        plan, question = self._plan, Question(unit=self._plan.unit, door=self._plan.door, **asked)
        facts, space = question.facts(sum(plan.n_units)), question.space
        shape = (facts.n_components, facts.n_classes) if isinstance(facts, BallotFacts) else (facts.n_cells, 1)
        index, moved = len(self._facts), facts.delta_squared
        mechanism = plan.mechanisms[index]
        self._facts.append(facts)
        total = self._session.round(
            question.kind, question.to_bytes(maps=space not in self._sent), n_cells=math.prod(shape),
            mechanism_index=index, bound=largest_total(mechanism, moved, facts.n),
        )  # fmt: skip
        self._sent.add(space)
        priced = GaussianSum(mechanism.noise_multiplier / mechanism.max_sites_per_person)
        about = {"facts": facts, "mechanism": priced, "scale": mechanism.total_scale(moved)}
        return mechanism.opened(total, shape, moved), {**about, "statement": self._statement()}

    def _statement(self) -> PrivacyStatement:
        plan, terms = self._plan, self._plan.ballots.terms
        return federation_statement(
            plan.mechanisms, self._session.took_part(max(plan.n_units)), n_cells=plan.n_cells,
            delta=terms.budget.delta, facts=self._facts, tuning=terms.tuning, stated=terms.stated,
        )  # fmt: skip


def took_part(
    trust: Trust, coordinator: str, sites: tuple[str, ...], recipients: tuple[str, ...], most_units: int
) -> FederationFacts:
    """Return who took part, and on what engine, for the statement."""
    return FederationFacts(
        engine=trust.engine, coordinator=coordinator, sites=sites, recipients=recipients, most_units=most_units,
        drop_outs=trust.drop_outs, active=trust.active,
    )  # fmt: skip


class LocalSites:
    """Several sites simulated in one process, for tests and experiments: same noise as a federation, no secrecy.

    Whoever runs it holds all records and adds the sums openly (trust t = 0). The released sum has exactly the
    distribution that it has in a real run, each site's share of noise included.

    Parameters
    ----------
    plan : SitesPlan
    sites : sequence of SiteRecords
        In the plan's order.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(2, size=1_050)
    >>> X = rng.normal(size=(1_050, 3)) + 3 * y[:, None]
    >>> sites = [SiteRecords(X[i:1_000:5], y[i:1_000:5], classes=(0, 1)) for i in range(5)]
    >>> plan = SitesPlan.of(
    ...     X[1_000:],
    ...     classes=(0, 1),
    ...     budget=Budget(3.0, 1e-5),
    ...     n_units=[200] * 5,
    ...     tolerate=2,
    ... )
    >>> labels, model = plan.run(LocalSites(plan, sites))
    >>> labels.guarantee.epsilon <= 3.0, bool((labels.labels == y[1_000:]).mean() > 0.9)
    (True, True)
    """

    trust = Trust(engine="none: sums of one process, added in the clear", tolerate=0)

    def __init__(self, plan: SitesPlan, sites: Sequence[SiteRecords]) -> None:
        found = tuple(site.n_units for site in sites)
        if found != plan.n_units:
            raise InvalidInputError(f"sites must have n_units {plan.n_units}, as planned, got {found}.")
        self._plan, self._sites = plan, tuple(sites)
        how: dict[str, Any] = {"request": "sites of one process", "ledger": None, "without_ledger": True}
        how |= {"budget": plan.ballots.terms.budget, "n_cells": plan.n_cells}
        opened = [open_shares(plan.mechanisms, data=site.registration(), **how) for site in sites]
        self.shares: tuple[ShareSession, ...] = tuple(opened)

    def round(self, kind: str, archive: bytes, *, n_cells: int, mechanism_index: int, bound: int) -> Sequence[int]:
        """Return the sum of all sites' sums and shares of noise."""
        sums = [site.sums(self._plan, kind, archive) for site in self._sites]
        given = [shares.share(one) for shares, one in zip(self.shares, sums, strict=True)]
        return [sum(cell) for cell in zip(*given, strict=True)]

    def took_part(self, most_units: int) -> FederationFacts:
        """Return who took part: nobody but this process."""
        here, names = "this process", tuple(f"part {i + 1}" for i in range(len(self._sites)))
        return took_part(self.trust, here, names, (here,), most_units)
