"""Record voters from public rows to a model: fit public maps, pay, cast, decide; one road for whoever asks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from threadpoolctl import threadpool_limits

from pate.core.seeds import training_seed
from pate.core.types import FloatArray, IntArray
from pate.exceptions import BudgetExceededError, InvalidInputError
from pate.heads import ForestHead, SelfTrainedHead
from pate.mechanisms import GaussianSum
from pate.privacy.cost import Charge
from pate.privacy.words import Guarantee
from pate.recipes._build import columns_before, make_head, make_space, next_head
from pate.recipes._facts import PublicFacts
from pate.recipes._recipe import Recipe
from pate.recipes._rule import choose
from pate.records import RecordVoters
from pate.records._maps import take
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

_SEED_PATH = (0x20B11C,)
#: Less than this share of the budget's mu is a residue of rounding, or as good as nothing.
_LEAST_LEFT = 0.01
#: Maps and heads are fitted on so many public rows at most: more cost time and memory, and hardly move them.
_MOST_ROWS = 20_000
#: Rows that are asked about at once.
_SLAB = 8192


class RecordModel(ClassifierMixin, BaseEstimator):
    """A public model of released ballots: raw rows in, probabilities out, for any row, for ever and for nothing.

    Attributes
    ----------
    voters : RecordVoters
        The public maps.
    head : Head
        Fitted on released ballots and public rows.
    columns : Representation or None
        What a head of columns sees of a row, beside its direction.
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

    def __init__(self, voters: RecordVoters, head: Any, columns: Representation | None = None) -> None:
        self.voters = voters
        self.head = head
        self.columns = columns

    @property
    def classes_(self) -> IntArray:
        """Class indices."""
        return np.arange(len(self.voters.classes), dtype=np.int64)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return probabilities of shape (n_rows, n_classes)."""
        n = int(np.shape(X)[0])
        parts = [self.head.predict_proba(self.asked(take(X, slab))) for slab in _slabs(n)]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.classes_)))

    def predict(self, X: Any) -> IntArray:
        """Return class indices of shape (n_rows,)."""
        return np.asarray(self.predict_proba(X).argmax(axis=1), dtype=np.int64)

    def asked(self, X: Any) -> FloatArray:
        """Return what the head is asked with."""
        return asked_with(
            self.head, *self.voters.represent(X), None if self.columns is None else self.columns.transform(X)
        )

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        for name in ("allow_nan", "categorical", "string"):  # its representation reads cell by cell
            setattr(tags.input_tags, name, True)
        return tags


def asked_with(head: Any, z: FloatArray, phi: FloatArray, columns: Any = None) -> FloatArray:
    """Return the representation or the direction, alone or beside the columns, as the head takes it.

    Examples
    --------
    >>> from pate.heads import LinearHead
    >>> asked_with(LinearHead.of([[1.0, 0.0]], (0, 1)), np.zeros((1, 3)), np.ones((1, 1)))
    array([[1.]])
    """
    takes = getattr(head, "takes", "phi")
    if takes == "phi and columns":
        return np.concatenate([phi, columns], axis=1)
    return phi if takes == "phi" else z


def some_rows(X_public: Any, random_state: int = 0) -> Any:
    """Return the public rows that maps and heads are fitted on: all, or 20,000 at random.

    Examples
    --------
    >>> some_rows(np.zeros((30_000, 1))).shape
    (20000, 1)
    """
    n = int(np.shape(X_public)[0])
    if n <= _MOST_ROWS:
        return X_public
    chosen = np.random.default_rng(training_seed(random_state, *_SEED_PATH)).permutation(n)[:_MOST_ROWS]
    return take(X_public, np.sort(chosen))


def _slabs(n: int) -> Iterator[IntArray]:
    for start in range(0, n, _SLAB):
        yield np.arange(start, min(start + _SLAB, n))


@dataclass(frozen=True, eq=False)
class RecordsPlan:
    """Ballots that will be cast, in which public space and at what price: nothing private was looked at.

    Attributes
    ----------
    recipe : Recipe
    facts : PublicFacts
        What it was chosen from.
    terms : ReleaseTerms
    voters : RecordVoters
    rows : array, DataFrame or texts
        All public rows.
    z, phi : float64 arrays of shape (at most 20,000, ...)
        Representation and directions of public rows, those that maps and heads are fitted on.
    columns : Representation or None
        The map to columns that trees learn from, where the recipe wants them.
    table : array or None
        Those columns of the rows of ``z``.
    n_units : int
    unit : {"record", "group"}

    Examples
    --------
    >>> RecordsPlan.__dataclass_params__.frozen
    True
    """

    recipe: Recipe
    facts: PublicFacts
    terms: ReleaseTerms
    voters: RecordVoters
    rows: Any
    z: FloatArray
    phi: FloatArray
    n_units: int
    unit: str
    columns: Representation | None = None
    table: FloatArray | None = None

    @classmethod
    def of(
        cls,
        terms: ReleaseTerms,
        X_public: Any,
        *,
        classes: Sequence[Any],
        n_units: int,
        unit: str,
        representation: Representation,
        kind: str = "table",
        recipe: Recipe | None = None,
        classes_inferred: bool = False,
        random_state: int = 0,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> RecordsPlan:
        """Choose the recipe, fit the ballots' space on public rows, and return the plan; nothing is spent.

        Parameters
        ----------
        terms : ReleaseTerms
        X_public : rows
        classes : sequence
        n_units : int
        unit : {"record", "group"}
        representation : Representation
            Fitted, see :func:`fitted_representation`.
        kind : {"table", "mixed", "image", "text"}
        recipe : Recipe or None
            None takes the rule's.
        classes_inferred : bool
        random_state : int
            Public.
        n_jobs : int or None
        verbose : bool
        """
        some = some_rows(X_public, random_state)
        z = np.asarray(representation.transform(some), dtype=np.float64)
        columns = columns_before(representation, some) if kind == "table" else None
        facts = PublicFacts(
            n_units=n_units,
            n_classes=len(classes),
            # The budget's, not what a ledger has left of it: the same plan again must find what it paid for.
            mu=1 / GaussianSum.for_budget(terms.budget).noise_multiplier,
            n_public=len(z),
            kind=kind,
            spectrum=tuple(np.sort(z.var(axis=0))[::-1].tolist()),
            columns=columns is not None,
        )
        chosen = choose(facts) if recipe is None else recipe
        if chosen.student == "forest" and columns is None:
            raise InvalidInputError(
                "recipe must have another student than 'forest': there are no columns for trees before this "
                "representation. Take 'ridge' or None."
            )
        # Threads add up centres in any order, and a ledger knows a space by its last bits.
        with threadpool_limits(1):
            space = make_space(chosen, z, random_state=random_state).fit(z)
        voters = RecordVoters(
            representation,
            space,
            classes=classes,
            classes_inferred=classes_inferred,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        columns = columns if chosen.student == "forest" else None
        table = None if columns is None else columns.transform(some)
        return cls(chosen, facts, terms, voters, X_public, z, space.transform(z), n_units, unit, columns, table)

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
            head.fit(rounds[0], self.phi)
            for later in self.recipe.rounds[1:]:
                assert later.clip is not None
                cast = voters.cast_residuals(X, y, head, clip=later.clip, groups=groups)
                rounds.append(session.ask(cast))
                head = next_head(head, rounds[-1], self.phi)
            charge = session.charge
        if self.recipe.student == "ridge":
            head = SelfTrainedHead().fit(head, asked_with(head, self.z, self.phi), features=self.z)
        elif self.table is not None:
            head = ForestHead().fit(head, self.phi, self.table)
        model = RecordModel(voters, head, self.columns)
        probability = model.predict_proba(self.rows)
        statement = evidence.told_of_records(rounds[-1].statement)
        if len(rounds) > 1:
            seen = "pate fitted it on the rounds released before and on the public rows, in this run"
            statement = statement.with_evidence("public model", seen)
        return RecordLabels.of(probability, tuple(rounds), charge, statement), model
