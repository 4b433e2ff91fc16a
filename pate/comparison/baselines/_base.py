"""What all baselines share: validation of rows, a public map, a student of released labels, the statement."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pate._core.checks import check_int
from pate._core.frames import plain_column, plain_rows
from pate._core.types import FloatArray, IntArray
from pate.data import check_public_rows, flat_rows
from pate.data.queries import select_queries
from pate.estimators import ByRecords, any_rows, digest_of
from pate.exceptions import InvalidInputError
from pate.mechanisms import Draw
from pate.models.recipes import fitted_representation, kind_of, some_rows
from pate.models.students import make_student, mapped_student, try_student
from pate.privacy.budget import Budget, check_budget
from pate.privacy.cost import Charge
from pate.privacy.noise.source import NoiseSource
from pate.privacy.words import Guarantee
from pate.release import ReleasedLabels, doubted, warn_if_weak, warn_of_doubts
from pate.release.statement.model import Assumption, PrivacyStatement, made_statement
from pate.representations import Representation
from pate.teachers import ShardEnsemble, hash_rows, units_of

_NOISE = "the operating system's cryptographic generator, for the noise and whatever else is drawn"
#: The least number of public rows that a map is fitted on.
FEWEST_PUBLIC = 20


@dataclass(frozen=True, eq=False, repr=False)
class Task:
    """The input of a baseline's mechanism: public facts and rows, and validated private rows.

    Attributes
    ----------
    budget : Budget
    n_units : int
        Public under replace-one adjacency.
    unit : {"record", "group"}
    n_classes : int
    n_public : int
    X, y, groups
        Private: records, their class values, their owners or None.
    rows : public rows
    representation : Representation
        Fitted on public rows.
    z_public : float64 array of shape (n_public, d)
    """

    budget: Budget
    n_units: int
    unit: str
    n_classes: int
    n_public: int
    X: Any
    y: Any
    groups: Any
    rows: Any
    representation: Representation
    z_public: FloatArray


@dataclass(frozen=True)
class Priced:
    """The plan of a baseline: how many public rows it asks about, the guarantee, and how to draw the labels.

    Attributes
    ----------
    n_queries : int
    guarantee : Guarantee
        Fixed before any record is read.
    draw : callable
        Takes the positions of the public rows to ask about and a noise source; reads the records, returns the labels.
    state : callable
        Takes the guarantee, returns the statement.
    charge : Charge or None
        None where no charge describes it.
    """

    n_queries: int
    guarantee: Guarantee
    draw: Callable[[IntArray, NoiseSource], Draw]
    state: Callable[[Guarantee], PrivacyStatement]
    charge: Charge | None = None


@dataclass(eq=False, repr=False, kw_only=True)
class Said:
    """What is said to any baseline; each tells what its own are."""

    budget: Budget | None = None
    classes: Any = None
    student: Any = None
    n_queries: int | None = None
    random_state: int | None = None
    noise_seed: int | None = None
    tuning: str = ""
    overlap_is_public: bool = False
    stated: Mapping[str, str] | None = None
    representation: Any = None
    image_shape: Any = None
    verbose: bool = False


class Baseline(Said, ByRecords):
    """Abstract base of the baselines: label public rows privately, then train a student on the labels."""

    #: No baseline can be charged to a ledger: see docs/baselines.md.
    ledger: Any = None
    _map: Representation

    def _overlap_is_public(self) -> bool:
        return self.overlap_is_public

    @abstractmethod
    def _price(self, task: Task) -> Priced:
        """Return the plan, which depends on public facts alone."""

    def who_votes(self) -> str:
        """Return ``"records"``: rows of any kind are accepted, and a public map is applied to each."""
        return "records"

    def fit(self, X: Any, y: Any, *, X_public: Any = None, groups: Any = None) -> Baseline:
        """Spend the budget on labels of public rows, and train the student on them."""
        budget = check_budget(self.budget)
        if X_public is None:
            raise InvalidInputError(
                "X_public must be the public rows to label, got None. Pass fit(X, y, X_public=...)."
            )
        same, X, X_public = X is X_public, plain_rows(X), plain_rows(X_public, name="X_public")
        y, groups = plain_column(y), plain_column(groups, name="groups")
        rows, records, y = self._read(X, y, X_public)
        if not self.overlap_is_public:
            check_public_rows(records, records if same else rows, groups)
        n_units, unit = units_of(groups, records.shape[0])
        n_public = int(rows.shape[0])
        if n_public < FEWEST_PUBLIC:
            raise InvalidInputError(
                f"X_public must have at least {FEWEST_PUBLIC} rows, got {n_public}: they make the map on which records "
                "are compared."
            )
        self._map = self._fitted_map(rows)
        z = self._map.transform(flat_rows(rows))
        task = Task(budget, n_units, unit, len(self.classes_), n_public, records, y, groups, rows, self._map, z)
        priced = self._price(task)
        queries = select_queries(
            z, priced.n_queries, strategy="auto", random_state=self._query_seed(rows), one_scale=True
        )
        student, _ = self._student(any_rows(self.classes), rows, False)
        try_student(student, z, n_classes=task.n_classes, queries=queries, n_answers=len(queries))
        warn_if_weak(budget.delta, n_units, epsilon=budget.epsilon)

        source = NoiseSource(self.noise_seed)
        promised = replace(priced.guarantee, kind="seeded") if source.seeded else priced.guarantee
        statement = priced.state(promised)  # invalid ``stated`` is refused before anything is drawn
        self._spend(promised, unit, priced.charge)
        drawn = priced.draw(queries, source)
        statement = self._told(statement)
        classes = tuple(self.classes_.tolist())
        self.release_: Any = doubted(ReleasedLabels(drawn.labels, drawn.status, classes, promised, statement))
        self.statement_, self.queries_ = self.release_.statement, queries
        self._asked = digest_of(hash_rows(rows.iloc[queries] if hasattr(rows, "iloc") else rows[queries]))
        self.__dict__.pop("student_", None)
        self._learn(student, z, self._map)
        warn_of_doubts(self.statement_)
        return self

    def _fitted_map(self, rows: Any) -> Representation:
        seed = 0 if self.random_state is None else check_int("random_state", self.random_state, low=0) % 2**32
        return fitted_representation(
            kind_of(rows, self._image_shape()),
            flat_rows(some_rows(rows, seed)),
            representation=self.representation,
            image_shape=self._image_shape(),
            random_state=seed,
            verbose=self.verbose,
        )

    def _statement_of(
        self, task: Task, promised: Guarantee, *, kept_back: str, assumptions: Sequence[Assumption], **fields: Any
    ) -> PrivacyStatement:
        """Return the statement, with the parts that all baselines share."""
        seeded = promised.kind == "seeded"
        classes_read = ("the set of classes, which was read off the private labels",) if self.classes is None else ()
        return made_statement(
            unit=task.unit,
            n_units=task.n_units,
            guarantee=promised,
            noise_source=_NOISE,
            seeded=seeded,
            covered=(
                "the released labels and everything computed from them and from public data (a student, metrics)",
            ),
            not_covered=(
                kept_back,
                "whether it failed, and how long it took",
                "other releases from the same private data",
                *classes_read,
            ),
            assumptions=tuple(assumptions),
            tuning=self.tuning,
            **fields,
        )

    def _asked_about(self, task: Task, n_queries: int) -> int:
        """Return how many rows to ask about: as given, else by the rule; at most all public rows."""
        if self.n_queries is None:
            return min(n_queries, task.n_public)
        return check_int(
            "n_queries", self.n_queries, low=1, high=task.n_public, remedy="There are no more public rows."
        )

    def _ensemble(self, X_public: Any = None) -> ShardEnsemble:
        return any_rows(self.classes)

    def _student(self, teachers: ShardEnsemble, X_public: Any, noisy_counts: bool) -> tuple[Any, Any]:
        if self.student is None:
            return mapped_student(int(X_public.shape[0]), noisy_counts=True), self._map
        return make_student(self.student), self._map
