"""Record voters from public rows to a model: fit public maps, pay, cast, decide; one road for whoever asks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from pate.core.types import FloatArray, IntArray
from pate.exceptions import BudgetExceededError
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
    open_ballot_session,
    share_rounds,
    stored_rounds,
)
from pate.release._door import sum_of_rounds
from pate.representations import Representation

#: Less than this share of the budget's mu is a residue of rounding, or as good as nothing.
_LEAST_LEFT = 0.01


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
    def stored(self) -> bool:
        """Whether the ledger was charged for this plan: then it goes on, or gives what it released, for nothing."""
        return stored_rounds(self.terms, self.shares, self.name) is not None

    @property
    def mechanisms(self) -> tuple[GaussianSum, ...]:
        """One per round: those that were paid for, else as many as budget and ledger buy.

        Raises
        ------
        BudgetExceededError
            The ledger has nothing left, or next to nothing: noise would drown whatever is cast.
        """
        terms, shares = self.terms, self.shares
        paid = stored_rounds(terms, shares, self.name)
        if paid is not None:
            return paid
        left = None if terms.ledger is None else terms.ledger.remaining(default_total=terms.budget)
        rounds = share_rounds(terms.budget, shares, left)
        bought, whole = (sum_of_rounds(r).mu_squared for r in (rounds, share_rounds(terms.budget, shares)))
        if bought < _LEAST_LEFT**2 * whole:
            raise BudgetExceededError(
                f"the ledger has less left than {_LEAST_LEFT:.0%} of what {terms.budget} buys: noise would drown all "
                "ballots. Nothing was spent. Ask for a budget that it has left, or raise the ledger's total."
            )
        return rounds

    @property
    def charge(self) -> Charge:
        """What all rounds cost together."""
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
        _ = self.mechanisms  # refused before anything is cast
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
        if len(rounds) > 1:
            seen = "pate fitted it on the rounds released before and on the public rows, in this run"
            statement = statement.with_evidence("public model", seen)
        return RecordLabels.of(probability, tuple(rounds), charge, statement), model
