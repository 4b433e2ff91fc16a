"""Plans of record voters, from public rows to a model: fit public maps, charge, cast ballots, fit the head."""

from __future__ import annotations

import hashlib
import math
import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from pate._core.checks import check_int
from pate._core.files import any_mapped
from pate._core.progress import timed, track
from pate._core.secret import training_seed
from pate._core.types import FloatArray
from pate.exceptions import CuratorWarning, InvalidInputError
from pate.mechanisms import GaussianSum
from pate.models.heads import CorrectedHead, DescentHead, ForestHead, Head, LikelihoodHead, SelfTrainedHead
from pate.models.recipes._build import columns_before, make_head, make_space, narrowed
from pate.models.recipes._model import (
    RecordModel,
    asked_with,
    balancing,
    check_decide,
    decided,
    noise_temperature,
    public_variances,
    some_rows,
    temperature_as_measured,
    tempered,
    unmeasured_temperature,
)
from pate.models.recipes._rule import PublicFacts, Recipe, Round, check_recipe, choose
from pate.privacy.cost import Charge
from pate.privacy.tiers import WHOLE
from pate.records import (
    MOST_HELD_BYTES,
    BallotSum,
    HeldRecords,
    RecordVoters,
    RightCounts,
    Tiers,
    UnitTiers,
    count_right,
)
from pate.records.spaces import SoftSpace
from pate.release import (
    BallotRelease,
    BallotSession,
    Evidence,
    PricedRounds,
    RecordLabels,
    ReleasedCounts,
    ReleaseTerms,
    buy_rounds,
    doubted,
    measured_accuracy,
    measured_shares,
    open_on_terms,
    sum_of_rounds,
)
from pate.representations import Representation, n_rows
from pate.teachers import class_indices, label_column

if TYPE_CHECKING:
    from pate.models.students._features import StudentFeatures


# The student of images, trained on a head's labels, and the space of the ballots that correct it.

#: Centres per class of the space of its features, public rows per centre at least, and centres per ballot.
_CENTRES, _ROWS_PER_CENTRE, _NEAREST = 15, 10, 5
#: The first generation's share of the epochs, and how many generations follow, by the kind of public images.
_SHORTER = 0.6
_LATER = {"glyphs": 2, "mild": 1}
#: Settings by the kind of public images.
_SETTINGS: dict[str, dict[str, Any]] = {
    "glyphs": {"augmentation": 1.0, "trust": 2.0, "trust_from": 0.25},
    "mild": {"augmentation": 0.5, "trust": 1.0, "trust_from": 0.4},
}


def image_student(
    X_public: Any,
    targets: FloatArray,
    image_shape: tuple[int, ...] | None,
    *,
    random_state: int = 0,
    checkpoint_dir: str | os.PathLike[str] | None = None,
    verbose: bool = False,
) -> StudentFeatures:
    """Train generations of image students on the targets, and return the features of the last one.

    ``targets`` has shape (n_public, n_classes). An interrupted training in ``checkpoint_dir`` is resumed. Settings
    depend on the kind of public images.
    """
    from pate.models.students import ImageStudent
    from pate.models.students._features import StudentFeatures
    from pate.representations.images import views_of

    kind = views_of(X_public, image_shape)
    settings = _SETTINGS[kind]
    last = ImageStudent(verbose=verbose, **settings)
    # The first one takes the answers as they are, and is trained too briefly to memorise the wrong ones.
    short = max(1, round(_SHORTER * last._epochs(int(np.shape(X_public)[0]))))
    generations = [clone(last).set_params(epochs=short, trust=0.0), *(clone(last) for _ in range(_LATER[kind]))]
    for i, student in enumerate(generations):
        student.set_params(random_state=training_seed(random_state, i))
        if checkpoint_dir is not None:
            student.set_params(checkpoint_dir=_moved(Path(checkpoint_dir), i + 1))
    return StudentFeatures(generations, targets, image_shape=image_shape).fit(X_public)


def _moved(folder: Path, generation: int) -> Path:
    """Return the folder of a generation; a file of an earlier version is moved into it, and so reused."""
    from pate.models.students._image import FILE

    found, old = folder / str(generation), folder.with_name(f"{folder.name}.safetensors.{generation}")
    if old.exists():
        found.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.replace(old, found / FILE)
    return found


def most_student_components(n_public: int, n_classes: int) -> int:
    """Return how many components the space of a student of so many public rows has at most."""
    return max(2, min(_CENTRES * n_classes, n_public // _ROWS_PER_CENTRE))


def student_space(z: FloatArray, n_classes: int, *, random_state: int = 0) -> SoftSpace:
    """Return the space of residual ballots on a student's features, unfitted."""
    n = most_student_components(len(z), n_classes)
    return SoftSpace(n, max(1, min(_NEAREST, n - 1)), n_dims=z.shape[1] - n_classes, random_state=random_state)


_Learning = TypeVar("_Learning", LikelihoodHead, DescentHead)


class Rounds(Protocol):
    """Who answers the rounds of a plan: records at hand, or sites that each keep their own.

    ``charge`` is the cost of all rounds together; it is paid before the first answer.
    """

    @property
    def charge(self) -> Charge: ...

    def ask(self, voters: RecordVoters, head: Head, asked: Round) -> BallotRelease:
        """Release the next sum of ballots: of the records' classes, or of their residuals under the head."""

    def measure(self, model: RecordModel) -> list[ReleasedCounts]:
        """Release how many records the model is right about, as was paid for: the count, and cells by class."""

    def swift(self, voters: RecordVoters) -> bool:
        """Whether a round by these voters shows no progress of its own."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Ask:
    """The settings of a plan for records or DP-SGD, as in :class:`pate.PATEClassifier`.

    ``n_units``, the number of private records or persons, is public under replace-one adjacency; so are ``tiers``, and
    ``of_tiers``, what they say of units, where each tier has a budget of its own.
    """

    classes: tuple[Any, ...]
    n_units: int
    unit: str
    classes_inferred: bool = False
    representation: Representation | None = None
    image_shape: tuple[int, ...] | None = None
    random_state: int | None = None
    n_jobs: int | None = None
    checkpoint_dir: str | os.PathLike[str] | None = None
    verbose: bool = False
    force: bool = False
    measure: bool | str | None = None
    decide: str = "likeliest"
    tiers: Tiers | None = None
    of_tiers: UnitTiers | None = None

    @property
    def weight(self) -> int:
        """What all units weigh together, as a number of units of weight 1: it is what noise is to be compared with."""
        if self.of_tiers is None:
            return self.n_units
        return max(1, round(sum(weight * n for _, weight, n in self.of_tiers.facts) / WHOLE))

    @property
    def seed(self) -> int:
        """The seed of public maps and training."""
        return 0 if self.random_state is None else check_int("random_state", self.random_state, low=0) % 2**32


@dataclass(frozen=True, eq=False, kw_only=True)
class RecordsPlan(PricedRounds, Ask):
    """A plan for record voters: public maps, rounds of ballots and their cost, made without reading private data.

    A *ballot* is one record's vote, a vector of bounded length. ``z`` and ``phi`` are representation and directions of
    the public rows that maps and heads are fitted on (at most 20,000 of ``rows``); ``columns`` is the map to columns
    for trees, where the recipe has them, and ``table`` those columns. ``force`` allows rounds with more noise than all
    ballots together. The parts of mu^2 in ``measured_shares`` measure the accuracy in the end, by the count and by
    cells by class; empty: not measured. ``noise_ratio`` is the standard deviation of the noise that is added over that
    of the noise that is charged for: above 1 among sites, of which some are trusted with no noise.

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
    columns: Representation | None = None
    table: FloatArray | None = None
    measured_shares: tuple[float, ...] = ()
    session: BallotSession | None = None
    noise_ratio: float = 1.0

    @classmethod
    def of(
        cls,
        terms: ReleaseTerms,
        X_public: Any,
        *,
        representation: Representation,
        kind: str = "table",
        recipe: Recipe | None = None,
        rule: Callable[[PublicFacts], Recipe] = choose,
        session: BallotSession | None = None,
        noise_ratio: float = 1.0,
        **asked: Any,
    ) -> RecordsPlan:
        """Choose the recipe, fit the ballots' space on public rows, and return the plan; nothing is spent.

        ``representation`` is fitted (:func:`fitted_representation`); a ``recipe`` of None is chosen by the rule from
        public facts. All other settings are those of :class:`Ask`: ``classes``, ``n_units`` and ``unit`` at least.
        ``measure`` decides whether the accuracy is measured on the records in the end; None: where noise alone leaves
        an interval of less than five points to either side (:func:`pate.release.measured_shares`). ``decide`` is
        "likeliest", or "balanced": the class whose probability is largest relative to its mean over the public rows.
        Where a ``session`` is given, its last round pays for all of this plan's (:meth:`BallotSession.split`), after
        the rounds before it gave the public rows. A student of images is stored in ``checkpoint_dir`` while it trains,
        so that an interrupted run resumes with identical results. Refuses a recipe that does not fit these rows, or
        whose rounds could not all be run.
        """
        ask = Ask(**asked)
        check_decide(ask.decide)
        if recipe is not None:
            check_recipe(recipe)
        some = some_rows(X_public, ask.seed)
        z = np.asarray(representation.transform(some), dtype=np.float64)
        # Of the whole budget, not of the rest in a ledger: the same plan must be recognised when it is run again.
        paying = GaussianSum.for_budget(terms.budget) if session is None else session.mechanisms[-1]
        mu = 1 / (paying.noise_multiplier * noise_ratio)
        measuring = measured_shares(ask.measure, n=ask.weight, mu=mu)
        facts = PublicFacts(
            n_units=ask.weight,
            n_classes=len(ask.classes),
            mu=mu * math.sqrt(1 - math.fsum(measuring)),
            n_public=len(z),
            kind=_kind_for_rule(kind, some, ask.image_shape),
            spectrum=public_variances(z, some),
        )
        chosen = rule(facts) if recipe is None else recipe
        if chosen.student == "image" and kind != "image":
            raise InvalidInputError(f"recipe must have another student than 'image': these rows are of kind {kind!r}.")
        trees = chosen.student == "forest" and kind == "table"
        columns = columns_before(representation, some) if trees else None
        if chosen.student == "forest" and columns is None:
            raise InvalidInputError(
                "recipe must have another student than 'forest', which needs a table and its default representation. "
                "Take 'ridge' or None."
            )
        if chosen.prior_scale is None and chosen.student is None:  # else the head or its student uses all of z
            representation = narrowed(representation, chosen.n_components)
            z = np.ascontiguousarray(z[:, : representation.n_features_out_])
        # Threads sum centres in any order, and a ledger identifies a space by its last bits.
        with threadpool_limits(1):
            space = make_space(chosen, z, random_state=ask.seed).fit(z)
        options = {name: getattr(ask, name) for name in ("classes", "classes_inferred", "n_jobs", "verbose")}
        return cls(
            **vars(replace(ask, random_state=ask.seed, representation=representation)),
            recipe=chosen,
            facts=facts,
            terms=terms,
            voters=RecordVoters(representation, space, **options),
            rows=X_public,
            z=z,
            phi=space.transform(z),
            columns=columns,
            table=None if columns is None else columns.vectors(some),
            measured_shares=measuring,
            session=session,
            noise_ratio=noise_ratio,
        )

    @property
    def shares(self) -> list[float]:  # type: ignore[override]
        """Shares of mu^2, round by round; those that measure accuracy come last."""
        shares = [r.share for r in self.recipe.rounds]
        rest = (1 - math.fsum(self.measured_shares)) / math.fsum(shares)
        return [*(share * rest for share in shares), *self.measured_shares] if self.measured_shares else shares

    @property
    def mechanisms(self) -> tuple[GaussianSum, ...]:
        """The mechanism of each round, those that measure accuracy last: of the session, if there is one."""
        if self.session is not None:
            return self.session.mechanisms[-len(self.shares) :]
        return super().mechanisms

    def _bought(self) -> tuple[GaussianSum, ...]:
        # Against more noise than is paid for, as few units as these outvote as much.
        n_measured, n_units = len(self.measured_shares), max(1, round(self.weight / self.noise_ratio))
        budget, ledger = self.terms.budget, self.terms.ledger
        return buy_rounds(budget, self.shares, ledger, n_units=n_units, force=self.force, n_measured=n_measured)

    @property
    def mu(self) -> float:
        """What ballots can tell at the noise in them, without measuring accuracy, as Gaussian differential privacy.

        It is their cost, where all noise is charged for.
        """
        cast = self.mechanisms[: len(self.recipe.rounds)]
        return math.sqrt(math.fsum(m.noise_multiplier**-2 for m in cast)) / self.noise_ratio

    @property
    def name(self) -> str:  # type: ignore[override]
        """The session's name in a ledger: the same plan, run again, resumes the session or repeats its release."""
        text = f"{self.voters.fingerprint()} {self.recipe.rounds} {self.n_units} {self.unit}"
        if self.measured_shares:
            text += f" measured {self.measured_shares}"
            if self.decide != "likeliest":  # the counts are of this model's decisions
                text += f" {self.decide}"
        if self.recipe.student == "image":
            text += f" {self.random_state}"
        if self.of_tiers is not None:
            text += f" {self.of_tiers.facts}"
        return "records " + hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def answered(self) -> str:
        """What identifies the model that records are counted about, beside what this session released."""
        return f"{self.name} {self.recipe.student} {self.recipe.prior_scale} {self.decide}"

    def run(
        self,
        X: Any,
        y: Any,
        *,
        groups: Any = None,
        evidence: Evidence | None = None,
        commonest: float | None = None,
    ) -> tuple[RecordLabels, RecordModel]:
        """Charge the budget, cast every round, and return the labels of all public rows and the model.

        ``commonest`` is the share of the commonest class, if stated: labels that are no better cause a warning.
        Raises as :func:`pate.open_ballot_session` and :meth:`pate.RecordVoters.cast` do.
        """
        if self.session is not None:
            self.session.split(self.shares)
        _ = self.mechanisms  # refused before anything is cast
        with _AtHand(self, X, y, groups) as source:
            return self.learn(source, evidence=evidence, commonest=commonest)

    def learn(
        self, source: Rounds, *, evidence: Evidence | None = None, commonest: float | None = None
    ) -> tuple[RecordLabels, RecordModel]:
        """Ask for every round of whoever answers them, and return the labels of all public rows and the model."""
        evidence, voters = evidence or Evidence(), self.voters
        rounds: list[BallotRelease] = []
        start = make_head(self.recipe, voters.space, voters.classes)
        rounds.append(source.ask(voters, start, self.recipe.rounds[0]))
        corrected = partial(self._corrected, source, rounds)
        with threadpool_limits(1):  # thin products: threads would only wait for each other
            first = start.fit if self.recipe.rounds[0].clip is None else start.updated
            head = corrected(first(rounds[0], self.phi), voters, self.phi)
        model = self._with_student(head, partial(corrected, of_student=True))
        found = model.untempered(self.rows)
        model.temperature = noise_temperature(head, self.phi)
        if self.decide == "balanced":
            model.weights = balancing(found, model.temperature)
        counts = source.measure(model) if self.measured_shares else []
        charge = source.charge
        labels = decided(found, model.weights)
        paid = rounds[-1].statement
        if counts and counts[-1].statement is not None:
            cost = sum_of_rounds(self.mechanisms[-len(counts) :]).mu_squared
            share = math.fsum(self.measured_shares) if self.session is None else cost / charge.mu_squared
            accuracy = measured_accuracy(counts, mu=self.mu, share=share)
            paid = replace(counts[-1].statement, measured=accuracy)
            model.temperature = temperature_as_measured(found, labels, accuracy.estimate)
        elif self.recipe.student != "image" and not measured_shares(None, n=self.weight, mu=self.mu):
            # Decisions are fixed: no class changes.
            seen = model.head.predict_proba(asked_with(model.head, self.z, self.phi, self.table))
            with threadpool_limits(1):
                model.temperature = unmeasured_temperature(head, rounds, self.phi, seen)
        statement = evidence.message_of_model(paid)
        # A student read from the file of an earlier run was not fitted in this one.
        if (len(rounds) > 1 or counts) and not getattr(model.voters.representation, "resumed_", False):
            seen = "pate fitted it on the rounds released before and on the public rows, in this run"
            statement = statement.with_evidence("public model", seen)
        probability = tempered(found, model.temperature)
        release = RecordLabels.of(probability, tuple(rounds), charge, statement, labels=labels)
        cells = counts[1] if len(counts) > 1 else None
        balanced, n_map = self.decide == "balanced", self.facts.n_public
        return doubted(release, n_map=n_map, commonest=commonest, cells=cells, balanced=balanced), model

    def _corrected(
        self,
        source: Rounds,
        asked: list[BallotRelease],
        head: _Learning,
        voters: RecordVoters,
        phi: FloatArray,
        *,
        of_student: bool = False,
    ) -> _Learning:
        """Return the head after the next rounds of residuals: all that are of the student, or all that are not."""
        rounds = self.recipe.rounds
        left = list(takewhile(lambda later: later.of_student == of_student, rounds[len(asked) :]))
        for later in track(left, total=len(left), label="rounds", show=source.swift(voters) and voters.verbose):
            voters.step = f"round {len(asked) + 1} of {len(rounds)}"
            asked.append(source.ask(voters, head, later))
            head = head.updated(asked[-1], phi)
        return head

    def _with_student(self, head: LikelihoodHead | DescentHead, corrected: Callable[..., CorrectedHead]) -> RecordModel:
        """Return the model of the head, or of its student, which rounds of residuals may correct."""
        if self.recipe.student == "image":
            return self._image_model(head, corrected)
        final: Head = head
        if self.recipe.student == "ridge":
            final = SelfTrainedHead().fit(head, asked_with(head, self.z, self.phi), features=self.z)
        elif self.table is not None:
            final = ForestHead().fit(head, self.phi, self.table)
        return RecordModel(self.voters, final, self.columns)

    def _image_model(self, head: LikelihoodHead | DescentHead, corrected: Callable[..., CorrectedHead]) -> RecordModel:
        some = some_rows(self.rows, self.seed)
        targets = head.predict_proba(asked_with(head, self.z, self.phi))
        with timed("training"):
            maps = image_student(
                some, targets, self.image_shape, random_state=self.seed,
                checkpoint_dir=self._student_dir(targets), verbose=self.verbose,
            )  # fmt: skip
        z = np.asarray(maps.transform(some), dtype=np.float64)
        with threadpool_limits(1):
            space = student_space(z, self.facts.n_classes, random_state=self.seed).fit(z)
        own = self.voters
        voters = RecordVoters(
            maps, space, classes=own.classes, classes_inferred=own.classes_inferred, verbose=own.verbose
        )
        start = CorrectedHead.of(space, z, own.classes)
        return RecordModel(voters, corrected(start, voters, phi=space.transform(z)))

    def _student_dir(self, targets: FloatArray) -> Path | None:
        """Return the folder for a student of these targets; other noise gives another folder.

        By default it is beside the ledger: repeating the release needs the same student, and another number of threads,
        or a GPU, would train another.
        """
        ledger, folder = self.terms.ledger, self.checkpoint_dir
        if folder is None:
            if ledger is None:
                return None
            folder = Path(ledger.path).with_name(Path(ledger.path).name + ".students")
        digest = hashlib.sha256(self.name.encode() + np.ascontiguousarray(targets).tobytes()).hexdigest()[:16]
        return Path(folder) / f"student-{digest}"


class _AtHand:
    """Records at hand answer: they are mapped once, where memory allows it, and pay once the first ballots are cast."""

    def __init__(self, plan: RecordsPlan, X: Any, y: Any, groups: Any) -> None:
        self._plan, self._own, self._exit = plan, (X, y, groups, plan.tiers), ExitStack()
        # Every round casts the same directions: rows are mapped once, where memory allows it.
        self._held = held_where_it_fits(plan.voters, X, y, groups, plan.tiers) if len(plan.recipe.rounds) > 1 else None
        self._session: BallotSession | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._exit.close()

    @property
    def charge(self) -> Charge:
        assert self._session is not None
        return self._session.charge

    def swift(self, voters: RecordVoters) -> bool:
        return self._held is not None and voters is self._plan.voters

    def ask(self, voters: RecordVoters, head: Head, asked: Round) -> BallotRelease:
        records = (self._held, None, None, None) if self.swift(voters) else self._own
        if self._session is None:  # before anything is charged, so that errors in casting cost nothing
            ballots = cast_round(voters, records, head, asked.clip)
            self._session = self._opened(ballots)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CuratorWarning)  # the first round warned
                ballots = cast_round(voters, records, head, asked.clip)
        return self._session.ask(ballots)

    def _opened(self, ballots: BallotSum) -> BallotSession:
        """Return the session that was given, which stays open, or a new one."""
        plan, session = self._plan, self._plan.session
        if session is None:
            opened = open_on_terms(
                plan.terms,
                plan.name,
                shares=plan.shares,
                classes=plan.voters.classes,
                n_units=ballots.facts.n,
                unit=plan.unit,
                fingerprint=ballots.registration().fingerprint,
                force=plan.force,
                n_measured=len(plan.measured_shares),
                tiers=ballots.unit_owners.tiers,
            )
            session = self._exit.enter_context(opened)
        session.binds = False  # only the last statement is released
        return session

    def measure(self, model: RecordModel) -> list[ReleasedCounts]:
        plan, (X, y, groups, tiers) = self._plan, self._own
        assert self._session is not None
        known = self._held if model.takes_held(self._held, plan.voters) else X
        cells = (False, True)[: len(plan.measured_shares)]
        counts = counted_right(model, known, y, groups=groups, tiers=tiers, text=plan.answered, by_class=cells)
        return [self._session.measure(right) for right in counts]


def held_where_it_fits(
    voters: RecordVoters, X: Any, y: Any, groups: Any, tiers: Tiers | None = None
) -> HeldRecords | None:
    """Return the records with stored directions, where memory allows it; ballots are the same to the last bit.

    For a table on disk they are stored on disk; for any other each round computes them again.
    """
    fits = 4 * n_rows(X) * int(voters.space.n_components_) <= MOST_HELD_BYTES
    if not (fits or any_mapped()):
        return None
    return voters.hold(X, y, groups=groups, tiers=tiers, on_disk=not fits)


def cast_round(voters: RecordVoters, records: tuple[Any, ...], head: Any, clip: float | None) -> BallotSum:
    """Return the ballots of a round: of the records' classes, or of their residuals under the head."""
    X, y, groups, tiers = records
    if clip is None:
        return voters.cast(X, y, groups=groups, tiers=tiers)
    return voters.cast_residuals(X, y, head, clip=clip, groups=groups, tiers=tiers)


def counted_right(
    model: RecordModel, known: Any, y: Any, *, groups: Any, tiers: Tiers | None, text: str, by_class: Sequence[bool]
) -> list[RightCounts]:
    """Count the records, held ones perhaps, that the model is right about; ``text`` identifies it."""
    voters = model.voters
    with threadpool_limits(1):
        answers = model.answers(known, verbose=voters.verbose and groups is None)
    labels = class_indices(label_column(y, len(answers)), voters.classes)
    own = model.own(unit="record" if groups is None else "group")
    about = {"classes": voters.classes, "groups": groups, "tiers": tiers, "model": text, "own": own}
    return [count_right(answers, labels, by_class=cells, **about) for cells in by_class]


def _kind_for_rule(kind: str, X_public: Any, image_shape: tuple[int, ...] | None) -> str:
    """Return the kind of data for the rule, in which images made of strokes are ``"glyph"``."""
    if kind != "image":
        return kind
    from pate.representations.images import views_of

    return "glyph" if views_of(X_public, image_shape) == "glyphs" else "image"
