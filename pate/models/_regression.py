"""Plans of private regression on record voters: public map, price, rounds, and the model of a number that they give."""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_limits

from pate._core.progress import track
from pate._core.recorder import playing
from pate._core.secret import beside_ledger, fresh_secret, from_seed, stored_secret
from pate._core.tensors import load_tensors, save_tensors
from pate._core.types import FloatArray
from pate.exceptions import CuratorWarning, InvalidInputError, NotWorthwhileError
from pate.ledger import Ledger
from pate.mechanisms import GaussianSum
from pate.models._numbers import Bins, NumbersModel, NumbersPlan
from pate.models.file import InputSpec, Manifest, check_model_path, write_model
from pate.models.recipes import (
    MappedLinear,
    RecordModel,
    fitted_representation,
    keep_linear,
    keep_record_model,
    kind_of,
    make_space,
    narrowed,
    public_variances,
    read_linear,
    read_record_model,
    some_rows,
)
from pate.privacy.words import Guarantee
from pate.records import (
    BLOCK_ROWS,
    HeldRecords,
    RecordVoters,
    Units,
    VectorSum,
    count_cells,
    cut_of,
    slabs,
    sum_alone,
    sum_residuals,
    sum_vectors,
    take,
)
from pate.records.ballot_sum import GRID
from pate.release import (
    BallotSession,
    Evidence,
    PricedRounds,
    ReleaseTerms,
    buy_rounds,
    open_on_terms,
)
from pate.release.statement.fields import MeasuredErrors
from pate.release.statement.files import bind_released
from pate.release.statement.model import PrivacyStatement
from pate.representations import Representation

#: Rows that are predicted at once.
_SLAB = 8192


class AnswersNumbers(BaseEstimator):
    """Values and 90% intervals of a public model of a number, at no cost; a mixin."""

    low: float
    high: float

    def _answer(self, rows: Any) -> FloatArray:
        """Return value, lower and upper end for a slab of raw rows."""
        raise NotImplementedError

    def answer(self, X: Any) -> FloatArray:
        """Return value, lower and upper end for each row, shape (n_rows, 3)."""
        parts = [self._answer(take(X, np.arange(a, b))) for a, b in slabs(int(np.shape(X)[0]), _SLAB)]
        return np.concatenate([np.zeros((0, 3)), *parts])

    def predict(self, X: Any) -> FloatArray:
        """Return the value for each row, shape (n_rows,)."""
        return self.answer(X)[:, 0]

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        for name in ("allow_nan", "categorical", "string"):  # public maps read cell by cell
            setattr(tags.input_tags, name, True)
        return tags


@dataclass(repr=False, eq=False)
class RegressionModel(AnswersNumbers):
    """A public model of a number made from released sums of record voters; ``voters`` hold the public maps."""

    voters: RecordVoters
    numbers: NumbersModel

    @property
    def low(self) -> float:  # type: ignore[override]
        """The lower end of the range that was found."""
        return self.numbers.low

    @property
    def high(self) -> float:  # type: ignore[override]
        """The upper end."""
        return self.numbers.high

    def _answer(self, rows: Any) -> FloatArray:
        phi = self.voters.transform(rows)
        return np.column_stack([self.numbers.predict(phi), *self.numbers.interval(phi)])


@dataclass(repr=False, eq=False)
class MappedNumber(AnswersNumbers):
    """A linear model of a number after a chain of public maps, trained by DP-SGD.

    ``coef``, float32 of shape (1, n_features), gives (value - centre)/half; values lie in [low, high], and nine in ten
    numbers between value + interval[0] and value + interval[1] within ``bounds``, the stated range, where that was
    measured.

    Examples
    --------
    >>> model = MappedNumber(
    ...     (), np.ones((1, 1), dtype=np.float32), 0.0, 100.0, 40.0, 20.0, (-5.0, 6.0)
    ... )
    >>> model.answer(np.array([[0.5], [9.0]])).tolist()
    [[50.0, 45.0, 56.0], [100.0, 95.0, 106.0]]
    """

    maps: tuple[Representation, ...]
    coef: Any
    low: float
    high: float
    centre: float
    half: float
    interval: tuple[float, float] | None = None
    bounds: tuple[float, float] = (-np.inf, np.inf)

    def _answer(self, rows: Any) -> FloatArray:
        for each in self.maps:
            rows = each.vectors(rows)
        seen = np.asarray(rows, dtype=np.float32).astype(np.float64)
        value = (self.centre + self.half * (seen * self.coef[0].astype(np.float64)).sum(axis=1)).clip(
            self.low, self.high
        )
        ends = (np.nan, np.nan) if self.interval is None else self.interval
        return np.column_stack([value, *((value + end).clip(*self.bounds) for end in ends)])


@dataclass(frozen=True, eq=False, repr=False)
class NumberRelease:
    """Released values of public rows, with their intervals and what they cost: public.

    Attributes
    ----------
    values, low, high : float64 arrays of shape (n_public,)
        Value and ends of the 90% interval.
    guarantee : Guarantee
    statement : PrivacyStatement
        Its ``errors`` say how far the model is off.

    Examples
    --------
    >>> NumberRelease.__dataclass_params__.frozen
    True
    """

    values: FloatArray
    low: FloatArray
    high: FloatArray
    guarantee: Guarantee
    statement: PrivacyStatement

    def __repr__(self) -> str:
        return f"NumberRelease({len(self.values)} rows, {self.guarantee})"

    @property
    def n_queries(self) -> int:
        """The number of public rows."""
        return len(self.values)

    def to_frame(self) -> Any:
        """Return a DataFrame with the columns value, low and high, of six digits."""
        return as_frame(np.column_stack([self.values, self.low, self.high]))


def as_frame(answers: FloatArray) -> Any:
    """Return values and ends of intervals, shape (n_rows, 3), as a DataFrame of six digits."""
    import pandas as pd

    scale = 10.0 ** (5 - np.floor(np.log10(np.maximum(np.abs(answers), 1e-300))))
    rounded = np.where(answers == 0, 0.0, np.round(answers * scale) / scale)
    return pd.DataFrame(rounded, columns=["value", "low", "high"])


@dataclass(frozen=True, eq=False, kw_only=True)
class RegressionPlan(PricedRounds):
    """A plan of rounds for a numeric target, with its public space and price, made without reading private data.

    ``numbers`` says what is asked; ``rows`` are the public rows, and ``phi`` the directions of those that maps are
    fitted on (at most 20,000).
    """

    numbers: Any
    terms: ReleaseTerms
    voters: RecordVoters
    rows: Any
    phi: FloatArray
    unit: str
    force: bool = False
    verbose: bool = False
    #: What the session is called in a ledger.
    _called: ClassVar[str] = "numbers"

    @classmethod
    def of(
        cls,
        terms: ReleaseTerms,
        X_public: Any,
        *,
        bounds: tuple[float, float],
        n_units: int,
        unit: str,
        representation: Representation | None = None,
        image_shape: tuple[int, ...] | None = None,
        random_state: int = 0,
        force: bool = False,
        verbose: bool = False,
    ) -> RegressionPlan:
        """Fit the public maps and choose all rounds by public facts; nothing is spent.

        Parameters
        ----------
        terms : ReleaseTerms
        X_public : public rows
        bounds : (float, float)
            The stated range of the target; numbers outside count as its ends.
        n_units : int
            Records (persons, where ``unit`` is "group"): public.
        representation, image_shape
            See :func:`pate.models.recipes.fitted_representation`.
        force : bool
            Go on where the mean of all records may predict as well.

        Raises
        ------
        NotWorthwhileError
            Too few records for this budget.
        InvalidInputError
            A range that is none, or too few public rows.
        BudgetExceededError
            Nothing is left in the ledger, or next to nothing.
        """
        how: dict[str, Any] = {
            "representation": representation,
            "image_shape": image_shape,
            "random_state": random_state,
        }
        planned = partial(NumbersPlan, *bounds, n_units=n_units)
        return cls._of(planned, terms, X_public, unit=unit, force=force, verbose=verbose, **how)

    @classmethod
    def _of(
        cls,
        planned: Callable[..., Any],
        terms: ReleaseTerms,
        X_public: Any,
        *,
        unit: str,
        representation: Representation | None,
        image_shape: tuple[int, ...] | None,
        random_state: int,
        force: bool,
        verbose: bool,
    ) -> Self:
        """Fit the public maps; ``planned`` chooses all rounds by public facts."""
        some, kind = some_rows(X_public, random_state), kind_of(X_public, image_shape)
        seen = fitted_representation(
            kind, some, representation=representation, image_shape=image_shape, random_state=random_state,
            verbose=verbose,
        )  # fmt: skip
        z = np.asarray(seen.transform(some), dtype=np.float64)
        # Of the whole budget, not of the rest in a ledger: the same plan must be recognised when it is run again.
        numbers = planned(
            mu=1 / GaussianSum.for_budget(terms.budget).noise_multiplier,
            n_public=len(z),
            kind=kind,
            spectrum=public_variances(z, some),
        )
        if numbers.doubt is not None and not force:
            raise NotWorthwhileError(f"{numbers.doubt} Or say force=True (--force). Nothing was spent.")
        seen = narrowed(seen, numbers.recipe.n_components)
        z = np.ascontiguousarray(z[:, : seen.n_features_out_])
        with threadpool_limits(1):  # threads add in any order, and a ledger identifies a space by its last bits
            space = make_space(numbers.recipe, z, random_state=random_state).fit(z)
        voters = RecordVoters(seen, space, classes=getattr(numbers, "n_bins", 2), verbose=verbose)
        made = cls(
            numbers=numbers, terms=terms, voters=voters, rows=X_public, phi=space.transform(z), unit=unit,
            force=force, verbose=verbose,
        )  # fmt: skip
        _ = made.mechanisms  # refused before anything is read
        made.warn_if_short()
        return made

    @property
    def shares(self) -> tuple[float, ...]:  # type: ignore[override]
        """Shares of mu^2, round by round; those of held-out units come last, and sum to 1 by themselves."""
        return (*self.numbers.shares, *self.numbers.held_out_shares)

    @property
    def n_held_out(self) -> int:  # type: ignore[override]
        """The number of rounds that held-out units are asked in."""
        return len(self.numbers.held_out_shares)

    def _bought(self) -> tuple[GaussianSum, ...]:
        budget, ledger = self.terms.budget, self.terms.ledger
        return buy_rounds(
            budget, self.shares, ledger, n_units=self.numbers.n_units, force=True, n_held_out=self.n_held_out
        )

    @property
    def name(self) -> str:  # type: ignore[override]
        """The session's name in a ledger: the same plan, run again, resumes the session or repeats its release."""
        secret = self._secret(kept=True)
        cut = "" if secret is None else cut_of(self._share, secret, grouped=self.unit == "group")
        text = f"{self.voters.fingerprint()} {self.numbers!r} {self.unit} {cut}"
        return f"{self._called} " + hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def _share(self) -> float:
        return self.numbers.n_held_out / self.numbers.n_units

    def _secret(self, *, kept: bool = False) -> bytes | None:
        """Return the secret by which records are held out: the ledger's, so that a resumed run finds the same ones.

        ``kept``: None where there is none yet.
        """
        terms = self.terms
        if terms.noise_seed is not None:  # nothing is private then
            return from_seed(terms.noise_seed)
        if terms.ledger is None or playing() is not None:
            return None if kept else fresh_secret()
        path = beside_ledger(terms.ledger.path)
        return None if kept and not path.exists() else stored_secret(path)

    def run(
        self, X: Any, y: Any, *, groups: Any = None, evidence: Evidence | None = None
    ) -> tuple[NumberRelease, RegressionModel]:
        """Charge the budget, ask every round, and return the values of all public rows and the model.

        Parameters
        ----------
        X, y, groups : private records, their numbers, and their owners
            A record whose number or owner cannot be read contributes nothing; one whose row cannot be read has no
            direction, and says something of numbers alone.
        evidence : Evidence or None
            What the caller saw to, for the statement.

        Raises
        ------
        BudgetExceededError, LedgerError, InvalidInputError
            As of :func:`pate.open_ballot_session`.
        """
        units = Units.of(y, groups, share=self._share, secret=self._secret())
        state, statement = self._played(units, X, y, groups)
        assert state.model is not None
        assert state.errors is not None
        evidence = evidence or Evidence()
        errors = MeasuredErrors(**asdict(state.errors), unit=self.unit)
        statement = evidence.message_of_model(
            replace(statement, errors=errors, doubts=errors.doubts(interval=state.model.scores is not None))
        )
        model = RegressionModel(self.voters, state.model)
        value, low, high = model.answer(self.rows).T
        return NumberRelease(value, low, high, statement.guarantee, statement), model

    def _played(
        self, units: Units, X: Any, y: Any, groups: Any, *, classes: tuple[str, ...] | None = None
    ) -> tuple[Any, PrivacyStatement]:
        """Charge the budget and ask every round; ``classes`` are labels, None where the target is a number."""
        plan = self.numbers
        if (units.n, units.unit) != (plan.n_units, self.unit):
            raise InvalidInputError("X and y must be of as many units as the plan was made for. Make another plan.")
        with ExitStack() as stack:
            session = stack.enter_context(
                open_on_terms(
                    self.terms,
                    self.name,
                    shares=self.shares,
                    classes=classes,
                    n_units=units.n,
                    unit=units.unit,
                    fingerprint=units.unit_owners.fingerprint(),
                    force=True,
                    n_held_out=self.n_held_out,
                )
            )
            session.binds = False  # only the last statement is released
            stack.enter_context(threadpool_limits(1))  # thin products: threads would only wait for each other
            return self._asked(session, units, X, y, groups)

    def _asked(self, session: BallotSession, units: Units, X: Any, y: Any, groups: Any) -> tuple[Any, PrivacyStatement]:
        """Ask all rounds, and return what is known after the last one and the statement of all."""
        state, records = self.numbers.start(self.phi), None
        rounds = range(len(self.shares))
        for _ in track(rounds, total=len(rounds), label="rounds", show=self.verbose and not units.unit_owners.grouped):
            ask = state.ask
            assert ask is not None
            if records is None and ask.step not in ("range", "prevalences"):  # bins are known: records are mapped once
                records = self._hold(X, units, state, groups)
            release = session.ask_vectors(self._summed(ask, units, records, state, y))
            clipped = ("residuals", "errors", "prevalences")
            unit = ask.bound if ask.step in clipped else 1.0  # their sums are in units of the clip
            state = state.updated(release.statistics.reshape(ask.shape) * unit, sigma=release.sigma * unit)
        return state, release.statement

    def _hold(self, X: Any, units: Units, state: Any, groups: Any) -> tuple[RecordVoters, HeldRecords]:
        """Return the records with their directions, and voters whose classes are the bins of the target."""
        assert state.model is not None
        voters = _voters_of(self.voters, len(state.model.bins.means))
        voters.verbose = self.verbose
        usable = units.part("all")
        bins = np.where(usable, state.model.bins.of(np.where(usable, units.values, 0.0)), -1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CuratorWarning)  # of numbers the caller warned, and bins are not the user's
            return voters, voters.hold(X, bins, groups=groups)

    def _summed(
        self, ask: Any, units: Units, records: tuple[RecordVoters, HeldRecords] | None, state: Any, y: Any
    ) -> VectorSum:
        """Return the exact sum of what records contribute to this round."""
        part = "held out" if ask.held_out else "training"
        said: dict[str, Any] = {"part": part, "what": _WORDS[ask.step], "query": f"{self.name} {state.n_rounds}"}
        if ask.step == "range":
            votes = ask.votes(np.zeros((len(units.values), 0)), units.values)
            return count_cells(units, votes.argmax(axis=1)[:, None], [ask.shape[0]], own=True, **said)
        assert records is not None
        voters, held = records
        if ask.step == "bins":
            assert state.model is not None
            del said["query"]
            return sum_residuals(units, voters, held, state.model.head, clip=ask.bound, **said)
        votes = contributions(held, ask.votes, units.values, width=ask.shape[-1] if ask.step != "residuals" else 1)
        # Of persons, who may have more records or fewer, a record's place may differ between neighbours.
        said["own"] = voters.own_maps and (self.unit == "record" or voters.exact_maps)
        if ask.step == "interval":
            return count_cells(units, votes.argmax(axis=1)[:, None], [ask.shape[0]], **said)
        if ask.step == "residuals":
            return sum_vectors(units, held, votes, clip=ask.bound, **said)
        return sum_alone(units, votes, clip=ask.bound, **said)


#: What each step's sums are, for a statement.
_WORDS = {
    "range": "a histogram of the target",
    "bins": "residuals of the target's bins under the model so far",
    "residuals": "residuals of the target under the model so far",
    "interval": "a histogram of how far the model is off",
    "errors": "absolute and squared errors of the model",
}


def contributions(
    held: HeldRecords, votes: Callable[[FloatArray, FloatArray], FloatArray], values: FloatArray, *, width: int
) -> FloatArray:
    """Return what a public function of a record's direction and number gives, shape (n, width): **sensitive**.

    Records are asked about in blocks of one fixed shape, so that no record's answer depends on another.
    """
    found, start = np.zeros((len(values), width)), 0
    assert held.order is not None
    for piece in held.pieces:
        index = held.order[start : start + len(piece.labels)]
        start += len(index)
        for a, b in slabs(len(index), BLOCK_ROWS):
            rows = np.concatenate([np.arange(a, b), np.full(BLOCK_ROWS - (b - a), a)])
            asked = votes(piece.p[rows].astype(np.float64) / GRID, values[index[rows]])
            found[index[a:b]] = asked[: b - a]
    return found


# The models as files, and back.


def keep_mapped_number(model: MappedNumber, folder: Path) -> dict[str, Any]:
    """Write a linear model of a number into a folder, and return the facts that its reader needs besides."""
    facts = keep_linear(MappedLinear(model.maps, model.coef), folder)
    scale = [model.low, model.high, model.centre, model.half]
    return {**facts, "scale": scale, "interval": list(model.interval or ()), "bounds": list(model.bounds)}


def read_mapped_number(folder: Path, facts: Any, *, module: Any = None) -> MappedNumber:
    """Return the model that :func:`keep_mapped_number` wrote; it predicts exactly the same numbers."""
    held = read_linear(folder, facts, module=module)
    scale, interval = [float(x) for x in facts["scale"]], tuple(float(x) for x in facts["interval"])
    bounds = tuple(float(x) for x in facts["bounds"])
    fine = len(scale) == 4 and scale[0] < scale[1] and len(interval) in (0, 2) and len(held.coef) == 1
    if not fine or len(bounds) != 2 or not np.isfinite([*scale, *interval, *bounds]).all():
        raise InvalidInputError("the model's numbers are not those that were saved. Fetch the file again.")
    low, high, centre, half = scale
    return MappedNumber(held.maps, held.coef, low, high, centre, half, interval or None, bounds)


def made_of_mapped_number(model: MappedNumber) -> tuple[str, ...]:
    """Return the parts of a linear model of a number, one line each."""
    return (
        *(f"rows: {each.provenance_}" for each in model.maps),
        f"weights: {model.coef.shape[1]} features, trained by DP-SGD",
        f"values: from {model.low:.6g} to {model.high:.6g}, around {model.centre:.6g}",
    )


_FILE, _FORM = "numbers.safetensors", "model of a number 1"


def keep_regression(model: RegressionModel, folder: Path) -> dict[str, Any]:
    """Write a model into a folder, and return the facts that :func:`read_regression` needs besides."""
    m, b = model.numbers, model.numbers.bins
    facts = {
        "low": m.low,
        "high": m.high,
        "bounds": list(m.bounds),
        "scores": list(m.scores or ()),
        "of_all": [b.mean, b.variance, b.variance_error],
    }
    arrays = {"weights": m.weights, "edges": b.edges, "means": b.means, "variances": b.variances}
    save_tensors(folder / _FILE, arrays, facts, form=_FORM)
    return keep_record_model(RecordModel(_voters_of(model.voters, len(b.means)), m.head), folder)


def read_regression(folder: Path, facts: Any, *, module: Any = None) -> RegressionModel:
    """Return the model that :func:`keep_regression` wrote; it predicts exactly the same numbers."""
    arrays, known = load_tensors(folder / _FILE, form=_FORM)
    n, scores, bounds = len(arrays["means"]), *(tuple(map(float, known[name])) for name in ("scores", "bounds"))
    held = read_record_model(folder, facts, tuple(range(n)), module=module)
    bins = Bins(arrays["edges"], arrays["means"], arrays["variances"], *map(float, known["of_all"]))
    d = held.voters.space.n_components_
    shapes = [arrays[name].shape for name in ("weights", "edges", "means", "variances")]
    numbers = [*arrays.values(), np.array([known["low"], known["high"], *scores, *bounds])]
    if (
        shapes != [(d,), (n - 1,), (n,), (n,)]
        or len(scores) not in (0, 2)
        or len(bounds) != 2
        or not all(np.isfinite(a).all() for a in numbers)
    ):
        raise InvalidInputError("the model's numbers are not those that were saved. Fetch the file again.")
    ends: Any = scores or None
    made = NumbersModel(bins, held.head, arrays["weights"], float(known["low"]), float(known["high"]), ends, bounds)
    return RegressionModel(held.voters, made)


def made_of_regression(model: RegressionModel) -> tuple[str, ...]:
    """Return the parts of a model of a number, one line each."""
    seen = getattr(model.voters.representation, "provenance_", None)
    return (
        *((f"rows: {seen}",) if seen else ()),
        f"directions: {model.voters.space.provenance_}",
        f"values: the mean over {len(model.numbers.bins.means)} bins of the target, from {model.numbers.low:.6g} to "
        f"{model.numbers.high:.6g}, corrected by its residuals",
    )


def write_number(
    path: str | os.PathLike[str],
    model: AnswersNumbers,
    door: InputSpec,
    statement: PrivacyStatement,
    ledger: Ledger | None,
) -> None:
    """Write a model of a number, what rows it takes and its statement to one file; a ledger that paid is told."""
    said: dict[str, Any] = {"classes": (model.low, model.high), "dtype": "<f8", "door": door}
    if isinstance(model, MappedNumber):
        said |= {"kind": "dpsgd-number", "made_of": made_of_mapped_number(model)}
        write_kept(path, partial(keep_mapped_number, model), statement, ledger, **said)
        return
    assert isinstance(model, RegressionModel)
    said |= {"kind": "numbers", "made_of": made_of_regression(model)}
    write_kept(path, partial(keep_regression, model), statement, ledger, **said)


def write_kept(
    path: str | os.PathLike[str],
    keep: Callable[[Path], dict[str, Any]],
    statement: PrivacyStatement,
    ledger: Ledger | None,
    **said: Any,
) -> None:
    """Write what ``keep`` puts into a folder to one model file; ``said`` is of its manifest, ``ledger`` what paid."""
    check_model_path(path)
    with tempfile.TemporaryDirectory(prefix="pate-model-") as name:
        folder = Path(name)
        manifest = Manifest(parts=keep(folder), **said)
        held = {part.name: part.read_bytes() for part in folder.iterdir()}
    paid = ledger if statement.ledger_releases else None
    write_model(path, manifest, statement, held, before=partial(bind_released, paid, ()))


def _voters_of(voters: RecordVoters, n_bins: int) -> RecordVoters:
    return RecordVoters(voters.representation, voters.space, classes=n_bins)
