"""Releasing a sum of ballots: one charge, one Gaussian, and everything after it is free."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pate.core.checks import shown
from pate.exceptions import InvalidInputError, LedgerError
from pate.ledger import Ledger
from pate.mechanisms import GaussianSum
from pate.privacy.budget import Budget
from pate.records import BallotFacts, BallotSum, RightFacts
from pate.release._ballot_release import BallotRelease
from pate.release._ballot_statement import ballot_statement, check_ballots_stated
from pate.release._door import Door
from pate.release._quote import warn_if_weak
from pate.release._terms import ReleaseTerms
from pate.statement.files import bind_statement


def release_ballots(
    ballots: BallotSum,
    mechanism: GaussianSum,
    *,
    budget: Budget,
    ledger: Ledger | None = None,
    name: str = "",
    noise_seed: int | None = None,
    tuning: str = "",
    stated: Mapping[str, str] | None = None,
) -> BallotRelease:
    """Charge for one sum of ballots, add its noise, and return what is public of it.

    Parameters
    ----------
    ballots : BallotSum
        Of :meth:`pate.RecordVoters.cast`.
    mechanism : GaussianSum
        ``GaussianSum.for_budget(budget)`` spends all of it.
    budget : Budget
        The most this release may cost.
    ledger : Ledger or None
        Also stay within its total; charge and statistics are stored there, together, before anything is returned. The
        same request again gives the stored statistics, free of cost.
    name : str
        Part of the request: the same ballots under another name are noised, and paid for, again.
    noise_seed : int or None
        For tests only: the statement then says that nothing is private.
    tuning : str
        What was tuned on the private data, for the statement.
    stated : mapping of str to str, or None
        What a person states for the statement, such as ``{"public rows": "a census of 1990"}``.

    Returns
    -------
    BallotRelease

    Guarantees
    ----------
    One unit (a record, or a person with all their records) replaced, or added or removed, as the ballots' adjacency
    says: 1/noise_multiplier-GDP, see :class:`pate.GaussianSum` and :mod:`pate.records.ballots`. The request is
    recognised by public facts (space, kind, clip, classes, unit, mechanism, name) in a ledger of these very records.
    Those are recognised by labels and owners: after features were corrected the stored statistics are given again, as
    the statement then says. ``name=`` pays for new ones.

    Raises
    ------
    BudgetExceededError
        The budget, or what is left in the ledger, does not buy it; nothing was spent.
    InvalidInputError
        A bad parameter.
    LedgerError
        The ledger is for another private data set, or could not be written.

    Examples
    --------
    >>> import numpy as np
    >>> from pate import RecordVoters
    >>> from pate.records import SignedSpace
    >>> voters = RecordVoters(None, SignedSpace().fit(np.eye(3)), classes=2)
    >>> ballots = voters.cast(np.eye(3), [0, 1, 1])
    >>> release_ballots(ballots, GaussianSum(9.0), budget=Budget(0.1, 1e-5))
    Traceback (most recent call last):
    pate.exceptions.BudgetExceededError: the budget Budget(epsilon=0.1, delta=1e-05) does not buy GaussianSum...
    >>> print(release_ballots(ballots, GaussianSum(9.0), budget=Budget(1.0, 1e-5)).guarantee)
    (0.382099, 1e-05)-DP, public, by gdp, adjacency replace-one, both directions, adaptive
    """
    check_ballots(ballots)
    if not isinstance(mechanism, GaussianSum):
        raise InvalidInputError(f"mechanism must be GaussianSum(noise_multiplier), got {shown(mechanism)}.")
    terms = ReleaseTerms(budget=budget, ledger=ledger, noise_seed=noise_seed, tuning=tuning, stated=stated)
    facts = ballots.facts
    said = check_ballots_stated(stated, residual=facts.clip is not None)
    warn_if_weak(budget.delta, facts.n, epsilon=budget.epsilon)
    door = Door(terms, ballots.registration())
    request = request_of(facts, mechanism, name, seeded=terms.seeded)
    row = None if ledger is None else ledger.find(request)
    if row is None or ledger is None:
        noisy, release = door.ballots(mechanism, ballots, facts.to_dict(), request=request)
        drawn, charge, seeded = noisy.ravel().tolist(), mechanism.charge(1), terms.seeded
    else:
        drawn, release = list(stored_statistics(ledger, request, row.id)), row.id
        charge, seeded = row.charge, row.seeded
        # Under a revised ledger the records may be others by now; what was released was of so many.
        facts = facts_of(row.facts["ballots"], facts.classes)
    statement = ballot_statement(
        [facts], [mechanism], charge, terms, stated=said, release=release, seeded=seeded, earlier=row is not None
    )
    bind_statement(statement, ledger)
    return BallotRelease.of(drawn, facts, mechanism, statement)


def check_ballots(ballots: object) -> BallotSum:
    """Return ``ballots`` if they are a sum of ballots."""
    if not isinstance(ballots, BallotSum):
        raise InvalidInputError(f"ballots must be a BallotSum, got {shown(ballots)}. RecordVoters.cast makes it.")
    return ballots


def request_of(facts: BallotFacts, mechanism: GaussianSum, name: str, *, seeded: bool) -> str:
    """Return what a release of ballots is recognised by: public facts alone, but for the number of units.

    Which records they are the ledger knows, which is registered to them.
    """
    if not isinstance(name, str):
        raise InvalidInputError(f"name must be a text, got {shown(name)}.")
    known = {
        k: v
        for k, v in facts.to_dict().items()
        if k not in ("n", "provenance", "own_maps", "own_model", "classes_inferred")
    }
    parts = ["ballots 1", known, repr(mechanism.noise_multiplier), name, seeded]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def facts_of(held: Mapping[str, Any], classes: tuple[Any, ...]) -> BallotFacts:
    """Return stored facts as they were; classes as they are given now (JSON has no others than plain ones)."""
    try:
        return BallotFacts(**{**held, "classes": classes})
    except TypeError:
        raise LedgerError("the ledger holds a sum of ballots that pate did not write. Restore it.") from None


def right_request_of(facts: RightFacts, name: str, *, seeded: bool) -> str:
    """Return what counts of right answers are recognised by in a ledger: public facts alone."""
    known = {k: v for k, v in facts.to_dict().items() if k not in ("n", "own")}
    return hashlib.sha256(json.dumps(["right 1", known, name, seeded], sort_keys=True).encode()).hexdigest()


def right_facts_of(held: Mapping[str, Any], classes: tuple[Any, ...]) -> RightFacts:
    """Return stored facts of counts as they were; classes as they are given now."""
    try:
        return RightFacts(**{**held, "classes": classes})
    except TypeError:
        raise LedgerError("the ledger holds counts of right answers that pate did not write. Restore it.") from None


def stored_statistics(ledger: Ledger, request: str, release: int) -> tuple[float, ...]:
    """Return the noisy sums that a release stored, in whole numbers' units, row by row."""
    answer = ledger.stored([request], GaussianSum.family, release=release).get(request)
    if answer is None or answer.noisy_counts is None:
        raise LedgerError(f"release {release} of the ledger {str(ledger.path)!r} lacks its statistics. Restore it.")
    return answer.noisy_counts
