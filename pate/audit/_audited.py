"""Audit one release with all audits that apply: a mechanism, votes under it, a statement, or a job."""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pate._core.checks import check_int, check_real, shown
from pate._core.secret import beside_ledger
from pate._core.types import IntArray
from pate.audit._claims import Claim
from pate.audit._pair import bounds_picture, even_places, laws_of, pair, worst_neighbour
from pate.audit._report import Audit
from pate.data import Schema, Table, read_both, read_table
from pate.data.schema import DATE, NUMERIC, declared_by_name
from pate.exceptions import InvalidInputError
from pate.jobs import LabelJob, NumberJob
from pate.mechanisms import ExactLaw, GaussianSum, Mechanism, read_mechanisms
from pate.privacy.budget import Budget
from pate.privacy.convert import check_delta, gdp_to_epsilon
from pate.privacy.cost import Charge
from pate.privacy.words import Guarantee
from pate.records import check_bounds, read_target
from pate.release.account import account
from pate.release.statement.fields import LAYERS
from pate.release.statement.model import PrivacyStatement
from pate.report.audit_result import AuditResult, Figure, Picture
from pate.votes import Votes, as_votes

__all__ = ["audit_job", "audit_mechanism", "audit_statement", "audit_votes", "tie", "worst_neighbour"]


def tie(n_teachers: int, n_classes: int) -> tuple[IntArray, IntArray]:
    """Return made-up votes in which two classes tie, and the same with one vote moved."""
    rest = [0] * (n_classes - 2)
    votes = np.array([[(n_teachers + 1) // 2, n_teachers // 2, *rest]], dtype=np.int64)
    return votes, votes + np.array([-1, 1, *rest])


#: A game draws about so many answers in each world, in so many runs at least and at most.
_ANSWERS, _FEWEST, _MOST = 200_000, 200, 2_000
#: A statement from elsewhere may name any size.
_MOST_CLASSES, _MOST_VOTES = 100_000, 50_000_000
#: Relative rounding allowed where numbers are compared.
_MARGIN = 1e-9
#: A Renyi order by which neighbours are worst, beside that of the price.
_ORDER = 2.0
_NO_RECORDS = "no private records were given, and a finished release cannot be trained again."


@dataclass
class _Tried:
    """Results as they come, and what could not be tried."""

    results: list[AuditResult] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def add(self, layer: str, run: Callable[[], AuditResult]) -> None:
        try:
            self.results.append(run())
        except InvalidInputError as error:
            self.left_out.append(f"{layer}: {error}")

    def take(self, found: Audit, layers: Collection[str] = LAYERS) -> None:
        self.results += [r for r in found.results if r.layer in layers]
        self.left_out += found.left_out

    def audit(self, title: str, description: str = "") -> Audit:
        left_out = tuple(dict.fromkeys(self.left_out))
        return Audit(title=title, description=description, results=tuple(self.results), left_out=left_out)


def audit_mechanism(
    mechanism: Mechanism | GaussianSum,
    *,
    n_queries: int = 1,
    max_answers: int | None = None,
    claim: Any = None,
    delta: float = 1e-5,
    n_teachers: int = 250,
    n_classes: int = 10,
    false_alarms: float = 1e-6,
    max_releases: int | None = None,
    n_runs: int | None = None,
) -> Audit:
    """Audit a mechanism without any data: test its noise, and its cost on the made-up votes that reveal most.

    Layer "law": many releases are drawn and compared with the exact distribution of outcomes (the mechanism's *law*),
    and noise is tested for re-use. For the other two layers votes are made up, with a tie of two classes in every
    query. Layer "pair": the exact divergence between these votes and a neighbour is computed. Layer "game": an attacker
    tries to tell the two apart from many releases. Nothing in it is private.

    Parameters
    ----------
    mechanism : Mechanism or GaussianSum
    n_queries, max_answers : int
        Number of queries, and the most answers, of the release whose cost is audited.
    claim : Claim, Guarantee, Budget, Charge, (epsilon, delta) or None
        The claim to test; None: what the mechanism charges.
    delta : float
    n_teachers, n_classes : int
        Number of teachers and classes of the made-up votes.
    false_alarms : float
        The probability, at most, that a layer which draws releases refutes a true claim.
    max_releases : int or None
        The most releases drawn for each vote histogram in layer "law".
    n_runs : int or None
        Runs of layer "game" on each of the two neighbours; None takes 200 to 2,000, fewer if there are many queries.

    Raises
    ------
    InvalidInputError
        A setting out of range.

    Examples
    --------
    >>> from pate import GNMax
    >>> found = audit_mechanism(
    ...     GNMax(4.0), n_queries=9, n_teachers=20, n_classes=3, max_releases=500, n_runs=50
    ... )
    >>> found.refuted, [r.layer for r in found.results]
    (False, ['law', 'law', 'pair', 'game'])
    """
    from pate.audit import game, independence, law
    from pate.audit._game import MechanismRelease

    n_queries, delta = check_int("n_queries", n_queries, low=1), check_delta(delta)
    check_real("false_alarms", false_alarms, low=0, high=1, low_open=True, high_open=True)
    for name, most in (("max_releases", max_releases), ("n_runs", n_runs)):
        if most is not None:
            check_int(name, most, low=4)
    check_int("n_teachers", n_teachers, low=1)
    check_int("n_classes", n_classes, low=2, high=_MOST_CLASSES)
    if n_queries * n_classes > _MOST_VOTES:
        raise InvalidInputError(
            f"n_queries must be at most {_MOST_VOTES // n_classes:,} for {n_classes:,} classes, got {n_queries:,}. "
            "Audit fewer."
        )
    if claim is not None:
        claim = _of_any_votes(claim)
    tried = _Tried()
    drawn: dict[str, Any] = {"false_alarms": false_alarms}
    if max_releases is not None:
        drawn["max_releases"] = max_releases
    tried.add("law", lambda: law(mechanism, n_classes=n_classes, **drawn))
    tried.add("law", lambda: independence(mechanism, **drawn))
    if isinstance(mechanism, GaussianSum):
        tried.left_out.append(
            "pair, game: a Gaussian sum has the same divergence for every pair at its sensitivity: its cost."
        )
        return tried.audit(f"Audit of {mechanism}")
    ours, theirs = (np.repeat(votes, n_queries, axis=0) for votes in tie(n_teachers, n_classes))
    whole = f"{mechanism}, {n_queries:,} queries"
    same: dict[str, Any] = {"delta": delta, "published": True}

    def on_tie() -> AuditResult:
        made = pair(ours, theirs, mechanism, max_answers=max_answers, claim=claim, **same)
        words = f"a made-up tie of {n_teachers:,} votes, {n_queries:,} times, one vote moved; exact laws"
        return replace(made, target=whole, tried=words, figures=_of(made, "a tie"))

    def played() -> AuditResult:
        runs = min(max(_ANSWERS // n_queries, _FEWEST), _MOST) if n_runs is None else n_runs
        promised = mechanism.charge(n_queries) if claim is None else claim
        release: Any = MechanismRelease(mechanism)  # type: ignore[arg-type]  # it refuses other mechanisms
        made = game(release, ours, theirs, claim=promised, n_runs=runs, batch=min(runs, 250),
                    false_alarms=false_alarms, target=whole, **same)  # fmt: skip
        return replace(made, figures=_of(made, "a tie"))

    tried.add("pair", on_tie)
    if max_answers is not None and max_answers < n_queries:
        tried.left_out.append("game: a run that stops after so many answers has no likelihood here.")
    else:
        tried.add("game", played)
    return tried.audit(f"Audit of {mechanism}")


def _of_any_votes(claim: Any) -> Claim:
    """Return a claim that made-up votes may refute."""
    made = Claim.of(claim)
    if made.sensitive or (isinstance(claim, Guarantee) and claim.kind == "sanitised"):
        raise InvalidInputError(
            "claim must hold whatever the votes are: a data-dependent or sanitised guarantee is about given votes, "
            "and made-up ones would refute a true one. Leave it out; pate.audit.pair compares given votes with it."
        )
    return made


def _of(result: AuditResult, whom: str) -> tuple[Figure, ...]:
    return tuple(replace(f, of=f.of or whom) for f in result.figures)


def audit_votes(
    votes: Votes | npt.ArrayLike,
    mechanism: Mechanism,
    *,
    delta: float = 1e-5,
    max_answers: int | None = None,
    claim: Any = None,
    canary: Votes | npt.ArrayLike | None = None,
    published: bool = False,
    false_alarms: float = 1e-6,
    max_releases: int | None = None,
    n_runs: int | None = None,
) -> Audit:
    """Audit a mechanism on given votes: :func:`audit_mechanism`, and a check that three bounds are in the right order.

    The order is pair <= data-dependent <= public: the exact divergence of these votes and their worst neighbour
    (:func:`pate.audit._audited.worst_neighbour`), the bound over all neighbours of :func:`pate.account`, and the price
    that holds whatever the votes are. If either inequality is violated, the claim is refuted.

    Parameters
    ----------
    votes : Votes, or counts of shape (n_queries, n_classes)
        **Sensitive**: an audit of private votes is itself an access to private data.
    mechanism : Mechanism
    delta, max_answers, claim, false_alarms, max_releases, n_runs : as in audit_mechanism
    canary : Votes, counts or None
        Votes on the same queries with one unit's data changed: the exact divergence of that pair is computed.
    published : bool
        The votes are public or made up: the result is then not sensitive.

    Raises
    ------
    InvalidInputError
        Invalid votes or mechanism, a canary of other queries, classes or teachers.

    Examples
    --------
    >>> from pate import GNMax
    >>> found = audit_votes(
    ...     [[18, 2, 0], [10, 9, 1]], GNMax(4.0), max_releases=500, n_runs=50
    ... )
    >>> (
    ...     found.refuted,
    ...     [r.layer for r in found.results if r.sensitive],
    ...     found.public().sensitive,
    ... )
    (False, ['pair'], False)
    """
    held = as_votes(votes)
    if not isinstance(mechanism, Mechanism):
        raise InvalidInputError(f"mechanism must be a mechanism such as GNMax(sigma=40), got {shown(mechanism)}.")
    of_held = {name: getattr(held, name) for name in ("n_queries", "n_teachers", "n_classes")}
    tried = _Tried()
    tried.take(audit_mechanism(
        mechanism, max_answers=max_answers, claim=claim, delta=delta, false_alarms=false_alarms,
        max_releases=max_releases, n_runs=n_runs, **of_held,
    ))  # fmt: skip
    if isinstance(mechanism, ExactLaw):
        # An error, not a note in left_out: the reason is a fact about the votes, and left_out is public.
        tried.results.append(_chain(held, mechanism, delta, max_answers, published))
    else:
        tried.left_out.append(
            f"pair: {mechanism} has the same divergence for every pair, whatever the votes: its cost."
        )
    if canary is not None:
        other = as_votes(canary)
        # Whether private votes break a chosen claim is one bit about them for each claim that is tried: they are
        # compared with the mechanism's own cost, and the tie, which is not secret, with the claim.
        against = claim if published else None
        made = pair(held, other, mechanism, delta=delta, max_answers=max_answers, claim=against, published=published)
        words = "the given canary: votes with one unit's data changed; exact laws"
        tried.results.append(
            replace(made, target="the given votes and canary", tried=words, figures=_of(made, "canary"))
        )
    tried.left_out += [f"replay: {_NO_RECORDS}", f"attack: {_NO_RECORDS}"]
    said = f"{held.n_queries:,} queries, {held.n_classes} classes, {held.n_teachers:,} teachers, {mechanism}."
    return tried.audit("Audit of votes", said)


def _chain(votes: Votes, mechanism: Any, delta: float, max_answers: int | None, published: bool) -> AuditResult:
    """Check that epsilon of the worst neighbour <= data-dependent bound <= public epsilon, for given votes."""
    begun = perf_counter()
    report = account(votes, mechanism, delta=delta, max_answers=max_answers)
    exact, public = report.exact.reveal(), report.public.epsilon
    if not exact:
        raise InvalidInputError(
            "votes must have a vote of every teacher in every query: no exact bound is known where teachers abstain. "
            "Audit the mechanism alone (audit_mechanism)."
        )
    inner = report.data_dependent.reveal().epsilon
    theirs = _worst(votes, mechanism, exact["rdp"].order, delta, max_answers)
    found = pair(votes, theirs, mechanism, delta=delta, max_answers=max_answers, published=True)
    reached = found["epsilon of the pair"]
    low = reached.value or 0.0
    chain = (("the epsilon of the pair", low), ("the data-dependent bound", inner), ("the public price", public))
    wrong = [
        f"{one} is {a:.6g}, above {other}, {b:.6g}" for (one, a), (other, b) in pairwise(chain) if a > b * (1 + _MARGIN)
    ]
    return AuditResult(
        layer="pair",
        target=f"the given votes, {mechanism}",
        claim="epsilon of a pair of data sets <= the data-dependent bound <= the public epsilon",
        tried=f"the worst neighbour of the given votes on {votes.n_queries:,} queries, by exact laws",
        refuted=bool(wrong or found.refuted),
        finding="; ".join(wrong) or f"epsilon {low:.4g} of {inner:.4g} (data-dependent) and {public:.4g} (public)",
        false_alarms=0.0,
        seconds=perf_counter() - begun,
        limits="Of these votes and this neighbour of theirs alone, for queries fixed beforehand.",
        figures=(
            Figure(name="public epsilon", value=public),
            Figure(name="data-dependent epsilon", value=inner),
            replace(reached, of="the worst neighbour of the votes"),
        ),
        picture=_growing(votes, theirs, mechanism, delta, max_answers),
        settings={"delta": delta, "max_answers": max_answers, "n_queries": votes.n_queries},
        sensitive=not published,
    )


def _worst(votes: Votes, mechanism: Any, order: float | None, delta: float, max_answers: int | None) -> Votes:
    """Return the neighbour of largest epsilon among those that are worst at some orders, in either direction."""
    found: dict[float, Votes] = {}
    for at in dict.fromkeys([_ORDER, order or _ORDER]):
        for reverse in (False, True):
            moved = worst_neighbour(votes, mechanism, order=at, reverse=reverse)
            other = Votes.from_counts(moved, n_teachers=votes.n_teachers, classes=votes.classes)
            laws, _ = laws_of(votes, other, mechanism, max_answers)
            found.setdefault(laws.epsilon(delta).epsilon[0], other)
    return found[max(found)]


def _growing(votes: Votes, theirs: Votes, mechanism: Any, delta: float, max_answers: int | None) -> Picture:
    from pate.audit._canaries import along

    places = even_places(votes.n_queries)
    worst, inner, public = along(votes, theirs, mechanism, delta, max_answers, places)
    return bounds_picture(places, {"data-dependent": inner, "the worst neighbour": worst}, public)


# A statement -----------------------------------------------------------------------------------------------------

#: How a statement's recipe names queries and cap, and a round of ballots.
_ASKED = re.compile(r"\.charge\((\d+), (None|\d+)\)")
_ROUNDS = re.compile(r"(\d+)/(\d[\d.eE+-]*)\^2")
_EITHER_PART = " (training units) and "
_VOTERS = re.compile(r"(\d[\d,]*) teachers, (\d[\d,]*) classes")


def audit_statement(
    statement: PrivacyStatement,
    *,
    false_alarms: float = 1e-6,
    max_releases: int | None = None,
    n_runs: int | None = None,
) -> Audit:
    """Audit a privacy statement: test its mechanism's noise, and its epsilon on the made-up votes that reveal most.

    It needs no private data and reveals nothing about them. The tests are those of :func:`audit_mechanism`.

    Parameters
    ----------
    statement : PrivacyStatement
    false_alarms, max_releases, n_runs : as in audit_mechanism

    Examples
    --------
    >>> from pate import Budget, GNMax, release_labels
    >>> s = release_labels(
    ...     Votes.from_counts([[18, 2]] * 9), GNMax(sigma=4.0), budget=Budget(9.0, 1e-5)
    ... ).statement
    >>> [
    ...     (r.layer, r.refuted)
    ...     for r in audit_statement(s, max_releases=500, n_runs=50).results
    ... ]
    [('law', False), ('law', False), ('pair', False), ('game', False)]
    """
    g, tried = statement.guarantee, _Tried()
    some: dict[str, Any] = {"false_alarms": false_alarms, "max_releases": max_releases}
    voters = _VOTERS.search(statement.mechanism)
    n_teachers, n_classes = (int(t.replace(",", "")) for t in voters.groups()) if voters else (250, 10)
    asked = _ASKED.search(statement.verify)
    sized: dict[str, Any] = {"n_teachers": n_teachers, "n_classes": n_classes, "n_runs": n_runs, **some}
    for mechanism in read_mechanisms(statement.mechanism):
        if asked is None or g.kind == "sanitised":
            why = f"of {mechanism} the statement does not say how many queries were asked."
            if g.kind == "sanitised":
                why = "the claim is sanitised: it is about the votes that were cast, not about made-up ones."
            tried.left_out.append(f"pair, game: {why}")
            tried.take(audit_mechanism(mechanism, **sized), ["law"])
        else:
            cap = None if asked[2] == "None" else int(asked[2])
            asked_for: dict[str, Any] = {"n_queries": int(asked[1]), "max_answers": cap}
            tried.take(audit_mechanism(mechanism, claim=g, delta=g.delta, **asked_for, **sized))
    if statement.mechanism.startswith("GaussianSum"):
        _sums(statement, tried, some)
    if not tried.results:
        tried.left_out.append(
            "law: the statement names no mechanism whose law is known here. For one of your own: audit_mechanism."
        )
    if statement.seeded:
        tried.left_out.append("The statement is of seeded noise: nothing is private, whatever is found here.")
    tried.left_out += [f"replay: {_NO_RECORDS}", f"attack: {_NO_RECORDS}"]
    # What was released was not examined, and a statement that cites the audit is about that.
    tried.results = [
        replace(r, tried=f"{r.tried}; on new releases, not what was released") if r.layer in ("law", "game") else r
        for r in tried.results
    ]
    title = f"Audit of a statement of {statement.created[:10]}" if statement.created else "Audit of a statement"
    return tried.audit(title, statement.headline)


def _sums(statement: PrivacyStatement, tried: _Tried, some: dict[str, Any]) -> None:
    """Audit rounds of noisy sums of ballots: the law of each, and epsilon in closed form."""
    from pate.audit import law
    from pate.audit.laws._votes import VectorRounds

    # Of a session whose last rounds are asked of held-out units, the rounds of either part.
    parts = [
        [GaussianSum(float(value)) for times, value in _ROUNDS.findall(said) for _ in range(int(times))]
        for said in statement.verify.split(_EITHER_PART)
    ]
    for mechanism in dict.fromkeys(chain(*parts)):
        tried.results += audit_mechanism(mechanism, **some).results
    if len(parts) > 1:
        g = statement.guarantee
        most = {name: value for name, value in some.items() if value is not None}
        tried.add("law", lambda: law(VectorRounds(Budget(g.epsilon, g.delta)), **most))
    tried.results += [_closed_form(statement, rounds, len(parts) > 1) for rounds in parts if rounds]


def _closed_form(statement: PrivacyStatement, rounds: Sequence[GaussianSum], of_a_part: bool) -> AuditResult:
    g = statement.guarantee
    total = Charge.total([(m.charge(1), n) for m, n in Counter(rounds).items()]).mu_squared
    value = gdp_to_epsilon(total**0.5, g.delta)
    wrong = value * (1 - 1e-6) > g.epsilon
    part = ", asked of one part of the units" if of_a_part else ""
    return AuditResult(
        layer="pair",
        target=f"{len(rounds)} noisy sum{'s' * (len(rounds) > 1)} of ballots{part}",
        claim=str(Claim.of(g)),
        tried=f"made-up ballots{part}, as far apart as one unit can move them in every round; closed form",
        refuted=wrong,
        finding=f"epsilon {value:.6g} at delta {g.delta:g} of the {g.epsilon:.6g} that are claimed",
        false_alarms=0.0,
        limits="That a ballot moves the sum no further than its bound"
        + (", and that no unit is in both parts," if of_a_part else "")
        + " is shown by replay, not here.",
        figures=(Figure(name="public epsilon", value=g.epsilon), Figure(name="epsilon of the pair", value=value)),
    )


# Replay of a job on its own private table: same recipe, neighbouring records, nothing released.

#: Arguments of a job that say how tables are read, and how a private one is.
_READING = ("id", "only_common", "sep", "encoding", "decimal", "thousands", "sheet", "dates")
_ALONE = ("id", "sep", "encoding", "decimal", "thousands", "sheet")
#: Arguments that a replay overrides: nothing outside is written, and everything runs in this process.
_OWN = {"ledger": None, "new_ledger": False, "verbose": False, "force": True}
#: ... where the target is no number, and where there are public rows.
_OWN_CLASSES = {"checkpoint_dir": None, "n_jobs": 1}
_OWN_PUBLIC = {"keep_model": False, "overlap_is_public": True}


def audit_job(
    arguments: Mapping[str, Any],
    *,
    n_pairs: int | None = None,
    published: bool = False,
    random_state: int | None = None,
) -> Audit:
    """Replay a job on pairs of neighbouring private tables with the same random bits, and compare internal states.

    Every pair trains the job's teachers (or casts its ballots) again. The job runs as it is, on copies of the table in
    a temporary folder, with a ledger there: nothing is charged to the real one, and nothing is released. **It reads the
    private table many times, and what it finds is private.**

    Parameters
    ----------
    arguments : mapping
        The arguments of :class:`pate.jobs.LabelJob`, or of :class:`pate.jobs.NumberJob` if there is a ``target_range``.
        Tables only, no folders of images. Without ``public``, a ``schema`` describes the columns. Ledger and
        checkpoints are not used.
    n_pairs : int or None
        How many pairs; None: one of each kind of neighbour.
    published : bool
        The private table is public or made up.
    random_state : int or None
        As in :func:`pate.audit.replay_search`.

    Raises
    ------
    InvalidInputError
        A folder of images, no target, or files that do not fit.

    Examples
    --------
    >>> from pate import Budget
    >>> folder = Path(tempfile.mkdtemp())
    >>> rows = pd.DataFrame({"age": np.arange(120) % 60, "ill": ["no", "yes"] * 60})
    >>> rows.to_csv(folder / "private.csv", index=False)
    >>> (rows[["age"]].iloc[::4] + 0.5).to_csv(folder / "public.csv", index=False)
    >>> job = {
    ...     "private": folder / "private.csv",
    ...     "public": folder / "public.csv",
    ...     "target": "ill",
    ...     "classes": ["no", "yes"],
    ...     "budget": Budget(1.0, 1e-4),
    ...     "n_teachers": 10,
    ...     "n_queries": 5,
    ...     "force": True,
    ... }
    >>> audit_job(job, n_pairs=2, published=True).refuted
    False
    """
    from pate.audit.replays import replay_search

    given = {**arguments}
    private, public, target, group = (given.pop(name, None) for name in ("private", "public", "target", "group"))
    if target is None or any(Path(str(p)).is_dir() for p in (private, public)):
        raise InvalidInputError("target must name a column of a private table: folders of images are not replayed.")
    bounds, classes = given.get("target_range"), given.get("classes")
    a_job: Any = LabelJob if bounds is None else NumberJob
    reading = {name: given.pop(name) for name in _READING if name in given}
    drop, text = given.pop("drop", ()), given.pop("text", ())
    held: dict[str, Any] = {**given, **_OWN, **(_OWN_CLASSES if bounds is None else {})}
    if public is None:
        held["schema"], table = _by_schema(private, given.get("schema"), reading, target=target, group=group)
    else:
        tables = read_both(private, public, target=target, group=group, drop=drop, text=text, **reading)
        texts = [name for name, kind in tables.public.kinds.items() if kind == "text"]
        table, held = tables.private, {**held, **_OWN_PUBLIC, "text": texts}
    names, y = list(table.X.columns), table.y
    if bounds is not None:  # numbers move from one end of their range to the other
        y, classes = read_target(y, written=table.format), check_bounds(bounds)
    # Columns of the table must not be overwritten.
    label, owner = (_free_name(word, names) for word in ("target", "group"))
    held["target"] = label

    with tempfile.TemporaryDirectory(prefix="pate-audit-") as name:
        folder = Path(name)
        if public is not None:
            _write(tables.public.X, folder / "public.csv")
            held["public"] = folder / "public.csv"

        def job(X: Any, y: Any, groups: Any = None) -> Any:
            place = Path(tempfile.mkdtemp(dir=folder))
            private, ledger = place / "private.csv", place / "ledger.sqlite"
            owners = {} if groups is None else {owner: np.asarray(groups)}
            _write(pd.DataFrame(X, columns=names).assign(**{label: np.asarray(y)}, **owners), private)
            try:
                return a_job(private, **{**held, "ledger": ledger, "group": owner if owners else None}).run()
            finally:
                beside_ledger(ledger).unlink(missing_ok=True)
                os.unlink(private)

        found = replay_search(job, table.X, y, groups=table.groups, classes=classes, n_pairs=n_pairs,
                              published=published, random_state=random_state)  # fmt: skip
    pairs = "a pair of each kind" if n_pairs is None else f"up to {n_pairs} pairs"
    words = f"{pairs} of neighbouring tables, inner states compared"
    # How many pairs there were, and which, follows from the private table, so that it must not be cited.
    renamed = replace(found, target="the job", tried=f"the job replayed on {words}")
    left = ("law, pair, game: audit what the job released (its statement), or the votes.",)
    said = "The job's recipe on its private table."
    return Audit(title="Audit of a job", description=said, results=(renamed,), left_out=left)


def _by_schema(private: Any, declared: Any, reading: Mapping[str, Any], **roles: Any) -> tuple[Schema, Table]:
    """Return a schema whose dates are numbers of days, and the private table that it describes, read so."""
    schema = declared_by_name(declared)
    if schema is None:
        raise InvalidInputError(
            "public must name the public table of a job, or schema must say what its columns hold (--ranges): no other "
            "job is replayed."
        )
    table = read_table(private, like=schema, **{name: reading[name] for name in _ALONE if name in reading}, **roles)
    # Columns that are not there, the job refuses in its own words.
    rows = table.X[[name for name in schema.names if name in table.X.columns]]
    days = (replace(one, kind=NUMERIC) if one.kind.startswith(DATE) else one for one in schema.columns)
    return replace(schema, columns=tuple(days)), replace(table, X=rows)


def _free_name(word: str, taken: list[Any]) -> str:
    while word in map(str, taken):
        word += "_"
    return word


def _write(rows: pd.DataFrame, path: Path) -> None:
    rows.to_csv(path, index=False)
    path.chmod(0o600)
