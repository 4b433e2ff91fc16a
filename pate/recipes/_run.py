"""Record voters from public rows to a model: fit public maps, pay, cast, decide; one road for whoever asks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from threadpoolctl import threadpool_limits

from pate.core.types import FloatArray, IntArray
from pate.heads import LikelihoodHead, SelfTrainedHead
from pate.mechanisms import GaussianSum
from pate.privacy.cost import Charge
from pate.privacy.words import Guarantee
from pate.recipes._build import make_head, make_space
from pate.recipes._recipe import Recipe
from pate.records import RecordVoters
from pate.release import (
    BallotRelease,
    Evidence,
    RecordLabels,
    ReleaseTerms,
    find_ballot_session,
    open_ballot_session,
    rounds_paid,
    share_rounds,
)
from pate.release._door import sum_of_rounds
from pate.representations import Representation


class RecordModel(ClassifierMixin, BaseEstimator):
    """A public model of released ballots: raw rows in, probabilities out, for any row, for ever and for nothing.

    Attributes
    ----------
    voters : RecordVoters
        The public maps.
    head : Head
        Fitted on released ballots and public rows.
    classes_ : int64 array of shape (n_classes,)
        Class *indices*, as of every student here.

    Examples
    --------
    >>> from pate.heads import LinearHead
    >>> from pate.records import SignedSpace
    >>> voters = RecordVoters(None, SignedSpace().fit(np.eye(3)), classes=("no", "yes"))
    >>> model = RecordModel(voters, LinearHead.of(np.eye(2), ("no", "yes")))
    >>> model.predict_proba(np.eye(3)).shape
    (3, 2)
    """

    def __init__(self, voters: RecordVoters, head: Any) -> None:
        self.voters = voters
        self.head = head

    @property
    def classes_(self) -> IntArray:
        """Class indices."""
        return np.arange(len(self.voters.classes), dtype=np.int64)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return probabilities of shape (n_rows, n_classes)."""
        return np.asarray(self.head.predict_proba(self.asked(X)))

    def predict(self, X: Any) -> IntArray:
        """Return class indices of shape (n_rows,)."""
        return np.asarray(self.predict_proba(X).argmax(axis=1), dtype=np.int64)

    def asked(self, X: Any) -> FloatArray:
        """Return what the head is asked with."""
        return asked_with(self.head, *self.voters.represent(X))

    def __sklearn_is_fitted__(self) -> bool:
        return True


def asked_with(head: Any, z: FloatArray, phi: FloatArray) -> FloatArray:
    """Return the representation or the direction, as the head takes it.

    Examples
    --------
    >>> from pate.heads import LinearHead
    >>> asked_with(LinearHead.of([[1.0, 0.0]], (0, 1)), np.zeros((1, 3)), np.ones((1, 1)))
    array([[1.]])
    """
    return phi if getattr(head, "takes", "phi") == "phi" else z


@dataclass(frozen=True, eq=False)
class RecordsPlan:
    """Ballots that will be cast, in which public space and at what price: nothing private was looked at.

    Attributes
    ----------
    recipe : Recipe
    terms : ReleaseTerms
    voters : RecordVoters
    z, phi : float64 arrays of shape (n_public, ...)
        The public rows' representation and directions.
    n_units : int
    unit : {"record", "group"}

    Examples
    --------
    >>> RecordsPlan.__dataclass_params__.frozen
    True
    """

    recipe: Recipe
    terms: ReleaseTerms
    voters: RecordVoters
    z: FloatArray
    phi: FloatArray
    n_units: int
    unit: str

    @classmethod
    def of(
        cls,
        recipe: Recipe,
        terms: ReleaseTerms,
        X_public: Any,
        *,
        classes: Sequence[Any],
        n_units: int,
        unit: str,
        representation: Representation,
        classes_inferred: bool = False,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> RecordsPlan:
        """Fit the ballots' space on the public rows, and return the plan; nothing is spent.

        Parameters
        ----------
        recipe : Recipe
        terms : ReleaseTerms
        X_public : rows
        classes : sequence
        n_units : int
        unit : {"record", "group"}
        representation : Representation
            Fitted, see :func:`fitted_representation`.
        """
        z = np.asarray(representation.transform(X_public), dtype=np.float64)
        # Threads add up centres in any order, and a ledger knows a space by its last bits.
        with threadpool_limits(1):
            space = make_space(recipe, z).fit(z)
        voters = RecordVoters(
            representation,
            space,
            classes=classes,
            classes_inferred=classes_inferred,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        z, phi = voters.represent(X_public)
        return cls(recipe, terms, voters, z, phi, n_units, unit)

    @property
    def shares(self) -> list[float]:
        """Of mu^2, round by round."""
        return [r.share for r in self.recipe.rounds]

    @property
    def is_paid(self) -> bool:
        """Whether the ledger holds this very session already: then it is taken up again, and nothing is charged."""
        return find_ballot_session(self.name, self.shares, self.terms) is not None

    @property
    def mechanisms(self) -> tuple[GaussianSum, ...]:
        """The noise of every round: as it was paid for, or as the budget (and what is left of it) buys it now."""
        row, ledger = find_ballot_session(self.name, self.shares, self.terms), self.terms.ledger
        if row is not None:
            return rounds_paid(row)
        left = None if ledger is None else ledger.remaining(default_total=self.terms.budget)
        return share_rounds(self.terms.budget, self.shares, left)

    @property
    def charge(self) -> Charge:
        """What all rounds cost together, whenever they are paid for."""
        return sum_of_rounds(self.mechanisms)

    @property
    def guarantee(self) -> Guarantee:
        """Of :attr:`charge`, at the budget's delta."""
        return self.charge.guarantee(self.terms.budget.delta)

    @property
    def name(self) -> str:
        """What the session is called in a ledger: the same plan again takes it up, or gives what it released."""
        told = f"{self.voters.fingerprint()} {self.recipe.rounds} {self.n_units} {self.unit}"
        return "records " + hashlib.sha256(told.encode()).hexdigest()[:32]

    def run(
        self, X: Any, y: Any, groups: Any = None, *, evidence: Evidence | None = None
    ) -> tuple[RecordLabels, RecordModel]:
        """Charge, cast every round, and return the labels of all public rows and the model.

        Parameters
        ----------
        X, y, groups
            Private records, class values and owners.
        evidence : Evidence or None

        Raises
        ------
        BudgetExceededError, LedgerError, InvalidInputError
            See :func:`pate.open_ballot_session` and :meth:`pate.RecordVoters.cast`.
        """
        evidence, terms, voters = evidence or Evidence(), self.terms, self.voters
        rounds: list[BallotRelease] = []
        ballots = voters.cast(X, y, groups)  # before anything is paid: what cannot be cast is found out here
        with open_ballot_session(
            terms.budget,
            shares=self.shares,
            classes=voters.classes,
            n_units=ballots.facts.n,
            unit=self.unit,
            fingerprint=ballots.registration().fingerprint,
            ledger=terms.ledger,
            name=None if terms.ledger is None else self.name,
            noise_seed=terms.noise_seed,
            tuning=terms.tuning,
            stated=terms.stated,
        ) as session:
            rounds.append(session.ask(ballots))
            head = make_head(self.recipe)
            if isinstance(head, LikelihoodHead):
                head.fit(rounds[0], self.phi, self.z)
            else:
                head.fit(rounds[0], self.phi)
            for later in self.recipe.rounds[1:]:
                assert later.clip is not None
                cast = voters.cast_residuals(X, y, head, clip=later.clip, groups=groups)
                rounds.append(session.ask(cast))
                head = head.updated(rounds[-1], self.phi)
            charge = session.charge
        if self.recipe.self_training:
            head = SelfTrainedHead().fit(head, asked_with(head, self.z, self.phi), features=self.z)
        model = RecordModel(voters, head)
        probability = np.asarray(head.predict_proba(asked_with(head, self.z, self.phi)))
        statement = evidence.told_of_records(rounds[-1].statement)
        return RecordLabels.of(probability, tuple(rounds), charge, statement), model
