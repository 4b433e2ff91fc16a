"""Private selection: settings compared on the private data itself, at one price that is known beforehand."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from pate._core.checks import check_classes, check_int, check_real, quietly, shown
from pate._core.events import event, is_logged, unlogged
from pate._core.provenance import now
from pate._core.secret import global_generators
from pate._core.types import IntArray
from pate.data import has_texts, private_cells, read_rows, recognised_by
from pate.estimators.selection._contestant import (
    Candidate,
    Contestant,
    Facts,
    PATEContestant,
    PrivateRows,
    StatedContestant,
)
from pate.estimators.selection._statement import Price, find_price, mechanism_of, selection_statement
from pate.exceptions import InvalidInputError, NothingSelectedError, PateError
from pate.ledger import Ledger, Registration
from pate.models.students import copies
from pate.privacy.budget import Budget, check_budget
from pate.privacy.compose.repetitions import Repetitions
from pate.privacy.cost import Charge
from pate.privacy.noise.integers import uniform_below
from pate.privacy.noise.reals import rounded_up
from pate.privacy.noise.source import NoiseSource
from pate.privacy.words import Guarantee
from pate.records import BLOCK_ROWS, ask_alone, take
from pate.release import warn_if_weak
from pate.release.statement import count_selection, counted_elsewhere, join_kin
from pate.release.statement.fields import check_stated
from pate.release.statement.files import bind_statement
from pate.release.statement.model import PrivacyStatement
from pate.representations import is_known_throughout
from pate.teachers import Owners, class_indices, label_column, usable

# The runs themselves: the split, one run with its noisy score, and the best of them.

T = TypeVar("T")

#: A person's share of right answers is counted in this many parts, rounded down; a record's is all or nothing. Noisy
#: scores are whole numbers of such parts.
_PARTS = 1024


def split_units(n_units: int, n_held: int, source: NoiseSource) -> tuple[IntArray, IntArray]:
    """Return the units to train on and those held out, drawn at random without looking at any."""
    order = np.argsort(source.words(n_units), kind="stable")
    return np.sort(order[n_held:]), np.sort(order[:n_held])


def units_right(predicted: Any, held: PrivateRows) -> int:
    """Return for how many units, in parts of 1024, a model is right: one unit moves it by at most 1024.

    A person counts as the share of their records that are predicted right, rounded down to such parts.
    """
    right = np.asarray(np.asarray(predicted).reshape(len(held.y)) == held.y, dtype=np.int64)
    _, unit = np.unique(held.unit_of, return_inverse=True)
    return int((np.bincount(unit, weights=right).astype(np.int64) * _PARTS // np.bincount(unit)).sum())


def noisy_share(right: int, n_held: int, noise: float, source: NoiseSource) -> float:
    """Return the share of held-out units predicted right, with Gaussian noise (in units), rounded up exactly."""
    noisy = rounded_up(Fraction(right), scale=Fraction(noise) * _PARTS, grid=Fraction(1), source=source)
    return noisy / _PARTS / n_held


def draw_index(weights: Sequence[int], source: NoiseSource) -> int:
    """Return an index with probability in proportion to its whole-numbered weight, exactly."""
    return int(np.searchsorted(np.cumsum(weights), uniform_below([sum(weights)], source)[0], side="right"))


def best_of(n_runs: int, run: Callable[[], tuple[float, T] | None]) -> tuple[float, T] | None:
    """Return the best of so many runs and forget the others at once; None where none succeeded.

    Of equal scores the first is kept: runs are independent and alike, so that is as good as drawing lots.
    """
    found = (one for _ in range(n_runs) if (one := run()) is not None)
    return max(found, key=lambda one: one[0], default=None)


def _answers(contestant: Contestant, model: Any, held: PrivateRows) -> Any:
    """Return what a model says of each held-out record by itself; of one on which it raises, something that is wrong.

    Blocks of many records are for models that are known to take each by itself, where all keep their places.
    """
    known = contestant.rowwise or is_known_throughout(model)
    fresh = copies(contestant.asked(model), same=known)

    def ask(numbers: IntArray) -> Any:
        said = np.empty(len(numbers), dtype=object)
        said[:] = list(np.asarray(fresh().predict(take(held.X, numbers))).reshape(len(numbers)))
        return said

    found = np.full(len(held.y), np.nan, dtype=object)
    with global_generators():
        size = BLOCK_ROWS if known and not contestant.facts.grouped else 1
        ask_alone(ask, np.ones(len(held.y), dtype=bool), found, size=size)
    return found


def one_run(
    contestants: Sequence[Contestant],
    weights: Sequence[int],
    price: Price,
    trained: PrivateRows,
    held: PrivateRows,
    source: NoiseSource,
) -> tuple[float, tuple[int, Any]] | None:
    """Draw a candidate, fit it, score it: (noisy score, (which, model)); None where it failed, which is the lowest.

    Whatever a candidate says of a failure is dropped: it may quote private values.
    """
    which = draw_index(weights, source)
    contestant, noise = contestants[which], price.noises[which]
    # Drawn in any case, so that a failure changes nothing that comes after it.
    seed = int(source.words(1)[0] >> np.uint64(2)) if source.seeded else None
    model = contestant.made(noise, seed)
    with unlogged(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            own = trained.copied()  # what a run does to its rows no other run sees
            contestant.fit(model, own.X, own.y, own.groups)
            right = units_right(_answers(contestant, model, held), held)
        except Exception:
            return None
    contestant.check_spent(model, noise)
    return noisy_share(right, contestant.facts.n_held, price.score_noise, source), (which, model)


# What a private selection gives: the winner, and nothing of the others.


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """The result of :func:`private_select`: the winner, its name and its noisy score, all under one guarantee.

    Attributes
    ----------
    winner : fitted classifier
        Its ``statement_`` and ``guarantee_`` are the selection's.
    name : str
        Name of the candidate that won.
    score : float
        The winner's share of right answers on the held-out units, with its noise; may lie outside [0, 1]. The best of
        several noisy numbers is too good on average: for a fair one use other rows.
    score_noise : float
        Standard deviation of that noise, in the same unit. Public.
    guarantee : Guarantee
    statement : PrivacyStatement
    charge : Charge
        What the ledger was charged, if there is one.

    Examples
    --------
    >>> Selection.__dataclass_params__.frozen
    True
    """

    winner: Any
    name: str
    score: float
    score_noise: float
    guarantee: Guarantee
    statement: PrivacyStatement
    charge: Charge

    def __repr__(self) -> str:
        score = f"{self.score:.4g} +- {self.score_noise:.2g}"
        return f"Selection(name={self.name!r}, score={score}, guarantee={self.guarantee})"


@counted_elsewhere()  # how many runs there were is the secret that the price rests on
def private_select(
    candidates: Mapping[str, Any] | Sequence[Any],
    X: Any,
    y: Any,
    *,
    budget: Budget,
    classes: Any,
    X_public: Any = None,
    groups: Any = None,
    ledger: Ledger | None = None,
    mean_runs: float = 10.0,
    distribution: str = "poisson",
    weights: Sequence[int] | None = None,
    holdout: float = 0.2,
    score_noise: float | None = None,
    tuning: str = "",
    stated: Mapping[str, str] | None = None,
    noise_seed: int | None = None,
) -> Selection:
    """Tune hyperparameters on the private data itself, within one budget; only the best run is released.

    It makes a random number of runs, which stays secret. Each run draws a candidate, trains it on one part of the
    private units (records, or persons with ``groups``), and counts, with noise, how many of the held-out units it
    predicts right. Only the run with the best noisy score is kept. This costs a small multiple of one run, however many
    candidates there are. To try k settings and publish all results costs k runs; a choice by private results that is
    not accounted for has an unknown privacy cost.

    Parameters
    ----------
    candidates : mapping of str to classifier, or sequence of classifiers
        :class:`pate.DPSGDClassifier`, :class:`pate.PATEClassifier` (record voters, heads or shards), or
        :class:`pate.estimators.selection.Candidate` for any other with a price that you state. Names and settings are
        public. Their own ``budget`` is not used: the noise is chosen here, so that the whole selection fits ``budget``.
        A DP-SGD candidate keeps its own ``noise_multiplier`` if it has one, and a PATE candidate its ``mechanism``.
        What a DP-SGD candidate leaves to a recipe is planned once, before any cost is computed, from public facts and
        one run's share of the budget.
    X, y : rows and array-like of shape (n,)
        Private records and class values.
    budget : Budget
        The most that the whole selection may cost.
    classes : iterable
        Every class that could occur: public knowledge.
    groups : array-like of shape (n,) or None
        The person each record belongs to: then persons are protected, and each is trained on or held out as a whole.
        Every candidate's ``fit`` must take it.
    X_public : rows or None
        Public rows, for candidates that label them or fit a representation on them.
    ledger : Ledger or None
        The whole selection is charged there before the first fit. It must count in ``"renyi"`` or have no charge yet.
    mean_runs : float
        Mean number of runs, above 1. Two or three runs per candidate find the best one most of the time.
    distribution : {"poisson", "geometric", "logarithmic"}
        Distribution of the number of runs, see :class:`pate.privacy.compose.repetitions.Repetitions`. Poisson's varies
        least and usually costs least; with probability exp(-mean_runs) it is 0 and nothing is selected.
    weights : sequence of int or None
        Each candidate is drawn with a probability in proportion to its weight; public. None draws uniformly.
    holdout : float
        Share of the units that are held out for the scores; the winner has learnt from the others only.
    score_noise : float or None
        Standard deviation of the noise on the number of units predicted right. None takes the least noise that adds
        nothing to the candidates' own cost (a unit is trained on or scored, not both).
    tuning : str
        For the statement: what else was tuned on the private data.
    stated : mapping of str to str, or None
        What you vouch for in the statement; see :func:`pate.release_labels`.
    noise_seed : int or None
        For tests and experiments only: repeats all draws, and then nothing is private.

    Returns
    -------
    Selection
        The winner, its name, its noisy score, and one statement for all of it.

    Raises
    ------
    InvalidInputError
        A value is out of range, or a candidate cannot be fitted on made-up rows of the same kind; nothing was charged.
    BudgetExceededError
        The budget, or what is left in the ledger, does not buy it; nothing was charged.
    LedgerError
        The ledger could not be written, or is for other private data; nothing was trained.
    NothingSelectedError
        There was no run, or none succeeded. The selection is charged all the same.

    Notes
    -----
    **Guarantees.** The winner, its name and its score together are (epsilon, delta)-differentially private for one unit
    under replace-one adjacency: Papernot and Steinke 2022 ("Hyperparameter tuning with Renyi differential privacy"),
    Theorem 2 (geometric: Liu and Talwar 2019, "Private selection from private candidates"; logarithmic) and Theorem 6
    (Poisson). One run draws a candidate without looking at data, so it costs at most the Renyi curve of the most
    expensive candidate. A replaced unit stands either among those that train, which the model's cost covers, or among
    those that score, where it moves a count by at most 1, which the score's noise covers: the larger of the two counts,
    not their sum. The split is random, and neighbours are split alike.

    The price holds while **the number of runs is not known**: it is not kept, not shown, not written down (there is no
    progress bar for that reason), and the statement carries the time of the charge, not of the end. Who can watch how
    long it takes is outside the model.

    A run that raises on private rows counts as the lowest score and says nothing; what can fail for public reasons was
    tried before on made-up rows. Whether training *fails* is no private output of any mechanism here: the statement
    leaves that assumption open.

    **Interruptions.** A selection that is killed stays charged, and has no result. It cannot be resumed: the same call
    again draws everything again, and is charged again. To draw again for free would be wrong: a time limit kills those
    that make many runs, and the price holds for the stated law of their number only.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from pate import Budget, DPSGDClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> budget = Budget(8.0, 1e-4)
    >>> dpsgd = lambda rate: DPSGDClassifier(
    ...     "linear", budget=budget, epochs=3, learning_rate=rate, random_state=0
    ... )
    >>> both = {"fast": dpsgd(2.0), "slow": dpsgd(1e-4)}
    >>> found = private_select(
    ...     both, X / 16, y, budget=budget, classes=range(10), mean_runs=5
    ... )
    >>> (
    ...     found.name,
    ...     found.guarantee.epsilon <= 8.0,
    ...     found.winner.statement_ is found.statement,
    ... )
    ('fast', True, True)
    """
    budget, values = check_budget(budget), check_classes(classes)
    law = Repetitions(distribution, check_real("mean_runs", mean_runs, low=1, low_open=True))
    source = NoiseSource(noise_seed)
    if ledger is not None and not isinstance(ledger, Ledger):
        raise InvalidInputError(f"ledger must be a pate.Ledger or None, got {shown(ledger)}.")
    rows, labels, owners, n_units = _read(X, y, groups, values, X_public)
    facts = Facts(
        classes=values,
        unit="record" if groups is None else "group",
        n_units=n_units,
        n_held=_held(holdout, n_units),
        budget=budget,
        X_public=X_public,
        row_shape=tuple(rows.X.shape[1:]),
        law=law,
    )
    contestants = read_candidates(candidates, facts)
    for contestant in contestants:
        contestant.check_rows(rows)
    drawn = _weights(weights, len(contestants))
    known = {} if ledger is None else recognised_by(rows.X, labels, owners)
    data = Registration(facts.unit, values, n_units=n_units, **known)
    if ledger is not None:
        ledger.check(data)
    warn_if_weak(budget.delta, n_units, epsilon=budget.epsilon)
    price = find_price(contestants, law, budget, ledger=ledger, score_noise=score_noise)
    guarantee = price.whole.guarantee(budget.delta)

    def statement(**more: Any) -> Any:
        return selection_statement(
            contestants, drawn, price, facts, guarantee, seeded=source.seeded, tuning=tuning, **more
        )

    # What a person states is checked before anything is paid, and so is what a candidate cannot do at all.
    check_stated(stated, [a.name for a in statement(created=now()).assumptions if a.name != "noise"])
    for contestant, noise in zip(contestants, price.noises, strict=True):
        _rehearse(contestant, noise, rows.X)

    releases = _pay(ledger, price, contestants, drawn, facts, data, seeded=source.seeded)
    promised = replace(guarantee, kind="seeded") if source.seeded else guarantee
    count_selection((c.estimator for c in contestants), promised, facts.unit, price.whole, ledger=ledger)
    created = now()
    n_runs = law.draw(source)
    units, held_units = split_units(n_units, facts.n_held, source)
    trained, held = rows.of_units(units), rows.of_units(held_units)
    best = best_of(n_runs, lambda: one_run(contestants, drawn, price, trained, held, source))
    if best is None:
        raise NothingSelectedError(
            "nothing was selected: there was no run, or none that succeeded on the private rows; which of the two is "
            "not shown. The selection is paid for. Fit one candidate by itself on made-up rows of the same kind to see "
            "what it does there."
        )
    score, (which, model) = best
    if hasattr(model, "set_params"):
        model.set_params(**_own_settings(contestants[which], price.noises[which], ledger))
    made = statement(created=created, inner=contestants[which].rests_on(model), ledger=ledger, releases=releases)
    made = made.with_stated(stated)
    bind_statement(made, ledger)
    join_kin(model, contestants[which].estimator)
    contestants[which].sign(model, made, made.guarantee, price.whole)
    return Selection(
        winner=model,
        name=contestants[which].name,
        score=score,
        score_noise=price.score_noise / facts.n_held,
        guarantee=made.guarantee,
        statement=made,
        charge=price.whole,
    )


def read_candidates(candidates: Any, facts: Facts) -> tuple[Contestant, ...]:
    """Return the contestants by name, checked as far as public numbers go."""
    if isinstance(candidates, list | tuple):
        candidates = {f"candidate {i}": one for i, one in enumerate(candidates, start=1)}
    if not isinstance(candidates, Mapping) or not candidates:
        raise InvalidInputError(
            f"candidates must be a dictionary of names to classifiers, or a list of them, got {shown(candidates)}. For "
            'example {"slow": DPSGDClassifier(...), "fast": DPSGDClassifier(...)}.'
        )
    found = tuple(_contestant(name, one, facts) for name, one in candidates.items())
    for one in found:
        one.check_own()
    return found


def _contestant(name: Any, candidate: Any, facts: Facts) -> Contestant:
    if not isinstance(name, str) or not name.strip():
        raise InvalidInputError(f"candidates must have texts for names, got {shown(name)}.")
    if isinstance(candidate, Candidate):
        return StatedContestant(name, candidate.estimator, facts, candidate.charge)
    # By name, so that torch is imported only if it is needed.
    rooms = {kind.__module__.rpartition(".")[0] for kind in type(candidate).__mro__}
    if "pate.dpsgd" in rooms:
        from pate.estimators.selection._by_dpsgd import DPSGDContestant

        return DPSGDContestant(name, candidate, facts)
    if "pate.estimators" in rooms:
        return PATEContestant(name, candidate, facts)
    raise InvalidInputError(
        f"the candidate {name!r} must be a DPSGDClassifier, a PATEClassifier or "
        f"a pate.estimators.selection.Candidate(estimator, charge), got "
        f"{type(candidate).__name__}: no price is known of it."
    )


def _read(X: Any, y: Any, groups: Any, classes: tuple[Any, ...], X_public: Any) -> tuple[PrivateRows, Any, Any, int]:
    X, readable = quietly("X", private_cells, X, texts=True, like=X_public)
    rows = read_rows(X, objects=has_texts(X_public))
    n = int(rows.shape[0])
    labels = class_indices(label_column(y, n), classes)
    target = np.empty(n, dtype=object)
    target[:] = [classes[i] if i >= 0 else None for i in labels.tolist()]
    owners = Owners.of(groups, n)
    usable(classes, labels, readable, owners.known)
    if owners.codes is None or owners.ids is None:
        return PrivateRows(rows, target, None, np.arange(n)), labels, None, n
    # By number, so that what comes in (ids of any kind) is distinguished alike in every part.
    unit_of = np.where(owners.known, owners.codes, -1).astype(np.int64)
    return PrivateRows(rows, target, unit_of, unit_of), labels, owners.groups, len(owners.ids)


def _held(holdout: Any, n_units: int) -> int:
    share = check_real("holdout", holdout, low=0, high=1, low_open=True, high_open=True)
    held = round(share * n_units)
    if not 1 <= held <= n_units - 2:
        raise InvalidInputError(
            f"holdout must leave units on both sides, got {holdout!r} of {n_units} units. 0.2 is usual."
        )
    return held


def _weights(weights: Any, n: int) -> tuple[int, ...]:
    if weights is None:
        return (1,) * n
    if isinstance(weights, str) or not isinstance(weights, Sequence) or len(weights) != n:
        raise InvalidInputError(f"weights must be {n} whole numbers, one for each candidate, got {shown(weights)}.")
    return tuple(check_int("weights", weight, low=1, high=10**9) for weight in weights)


def _rehearse(contestant: Contestant, noise: float, rows: Any) -> None:
    """Find out on made-up rows what fails for public reasons: nothing private is in what is said."""
    try:
        with unlogged(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            contestant.rehearse(noise, rows)
    except PateError as error:
        raise InvalidInputError(
            f"the candidate {contestant.name!r} cannot be fitted, as it says of made-up rows: {error} Nothing was "
            "charged."
        ) from None
    except Exception as error:
        raise InvalidInputError(
            f"the candidate {contestant.name!r} fails on made-up rows of the same shape ({type(error).__name__}: "
            f"{error}). Nothing was charged."
        ) from error


def _pay(
    ledger: Ledger | None,
    price: Price,
    contestants: Sequence[Contestant],
    weights: Sequence[int],
    facts: Facts,
    data: Registration,
    *,
    seeded: bool,
) -> tuple[int, ...]:
    """Charge the whole selection, durably and before the first run: a constant that no run changes."""
    if ledger is None:
        if is_logged("release"):
            delta = facts.budget.delta
            event("release", "charged", kind="selection", epsilon=price.whole.guarantee(delta).epsilon, delta=delta)
        return ()
    ledger.open_total(ledger.total or facts.budget)
    release = ledger.record(
        price.whole,
        mechanism=mechanism_of(contestants, weights, price, facts),
        n_queries=0,
        facts={
            "distribution": price.law.distribution,
            "mean_runs": price.law.mean,
            "candidates": [c.name for c in contestants],
            "weights": list(weights),
            "n_held": facts.n_held,
            "score_noise": price.score_noise,
        },
        seeded=seeded,
        registration=data,
        kind="selection",
    )
    return (release,)


def _own_settings(contestant: Contestant, noise: float, ledger: Ledger | None) -> dict[str, Any]:
    """Return the winner's parameters that the selection said, as they were given, but for those it goes on saying.

    Fitted again it spends the whole budget, and charges it. What it did not say is left: it may be fitted (a pipeline's
    steps).
    """
    own, facts = contestant.estimator.get_params(), contestant.facts
    said = {"budget": facts.budget, "classes": facts.classes, "ledger": ledger, "noise_seed": None}
    given = {key: own[key] for key in contestant.said(noise, None)}
    return given | {key: value for key, value in said.items() if key in own}
