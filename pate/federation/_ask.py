"""The coordinator's side of a run: facts, a plan that all agree to, rounds of secure sums, the ordinary release."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from pate import __version__
from pate._core.checks import check_choice, check_classes, check_int, check_real
from pate._core.files import own_folder, read_json, write_json
from pate._core.secret import system_bytes
from pate.exceptions import BudgetExceededError, FederationError, InvalidInputError
from pate.federation._channel import Json, Refusal, Unanswered, as_told, call, rows_to_bytes
from pate.federation._config import Member, Members, bundle_of
from pate.federation._contract import Heard, Trust, check_tolerate
from pate.federation._plan import OPENS, Plan, mechanisms_of
from pate.federation._rounds import SitesPlan, took_part
from pate.federation._site import Run, Site
from pate.jobs import JobPlan, Learnt, LeavesModel, Pupil, check_id, in_planes, input_spec_of, read_public_alone
from pate.mechanisms import ANSWERED, GNMax, NoisyHistogram, SharedGNMax, rounds_charge
from pate.models.recipes import RecordModel
from pate.privacy.budget import Budget, check_budget
from pate.release import LabelRelease, Quote, RecordLabels, buy_labels, buy_shares, federation_statement

#: Seconds between two signs of life to the sites, and for requests that need no work.
_ALIVE, _SHORT = 10.0, 15.0
#: Seconds in which all engines must have connected.
_JOIN = 60.0
#: Seconds in which, after one failure, others are waited for: the first to be noticed need not be the cause.
_SETTLE = 2.0

#: Where the sites differ in what they say of themselves.
_REMEDY = {
    "pate": " Install the same version everywhere.",
    "unit": " Either every site names its column of persons (group in site.toml), or none does.",
    "classes": " All sites must name the same ones, in the same order (classes in site.toml).",
}
_README = (
    "What asks of this federation have opened: noisy sums, plans and the sites' public facts. The same ask again is\n"
    "answered from here, and costs nothing. Without this folder it is a new release, which the sites charge again.\n"
)


def ask(
    X_public: Any,
    *,
    sites: Members | str | os.PathLike[str],
    bundle: Any = None,
    tolerate: int,
    budget: Budget,
    checkpoint_dir: str | os.PathLike[str],
    classes: Any = None,
    opens: str = "ballots",
    sigma: float | None = None,
    recipients: Sequence[str] | None = None,
    max_sites_per_person: int = 1,
    own: Site | None = None,
    retry: bool = False,
    deadline: float = 600.0,
    agree_deadline: float = 3600.0,
    model_file: str | os.PathLike[str] | None = None,
    approve: Callable[[Plan], None] | None = None,
    taught: Callable[[SitesPlan, RecordModel], None] | None = None,
    record: str | os.PathLike[str] | None = None,
    say: Callable[[str], None] | None = None,
    verbose: bool = False,
    **options: Any,
) -> RecordLabels | LabelRelease:
    """Label public rows by records, or teachers, that stay at several institutions; only a noisy sum is revealed.

    All sites must be running (:class:`Site`, ``pate federation site``), agree to the plan, and stay until the end.

    Parameters
    ----------
    X_public : public rows
        For "ballots" they stay here: sites get public maps that were fitted on them, and sums so far. For "counts" and
        "labels" every site gets the rows, and its teachers vote on them.
    sites : Members, or path of a ``sites.toml``
        Who takes part, and where.
    bundle : path
        The folder with the coordinator's certificate, key and the authority's certificate.
    tolerate : int
        t: so many parties, the coordinator among them, may put together all that they saw, and learn no more than what
        is opened; below half of all parties. Noise of t sites is not counted.
    budget : Budget
        The most that it costs a unit at any site, against such a coalition.
    checkpoint_dir : path
        Where opened sums are kept (mode 0700). The same ask again is answered from there: no site is asked, nothing is
        charged.
    classes : iterable or None
        All classes that could occur, in order; None where the sites name them and all agree.
    opens : {"ballots", "counts", "labels"}
        Noisy sums of the records' ballots; noisy counts of teachers' votes; or labels alone, whose noisy counts nobody
        sees.
    sigma : float or None
        For "counts" and "labels": standard deviation, in votes, of the honest sites' noise. None: what the budget buys.
    recipients : sequence of str or None
        To whom sums or labels are opened, who asks among them; None: to who asks. Sites that are named keep what was
        opened to them, and the model of "ballots", in their own folder: it labels their private rows at home, free.
    max_sites_per_person : int
        A person may have records at so many sites, as the sites declare: it multiplies mu.
    own : Site or None
        If a site itself asks: its own :class:`Site`, which takes part. That site is then the coordinator, and
        ``bundle`` is its own.
    retry : bool
        Ask anew where an earlier ask of the same broke off after sites were charged: every site charges it again.
    deadline : float
        Seconds that one round may take: the slowest site's sums, and the secure sum.
    agree_deadline : float
        Seconds in which the sites, or their operators, must have agreed.
    model_file : path or None
        For "ballots": also write the model, which ``pate predict`` and :meth:`pate.PATEClassifier.load` read.
    approve : callable (Plan) -> None, or None
        Shown the plan before any site is: what it raises ends the ask, and only public facts were asked.
    taught : callable (SitesPlan, RecordModel) -> None, or None
        Given the plan of all rounds and the model, for "ballots".
    record : path or None
        A folder for all that the coordinator's engine sends and receives: to be looked at, for public data.
    say : callable (str) -> None, or None
        Told what happens; ``verbose=True`` writes it to standard error.
    **options
        For "ballots", of :class:`pate.models.recipes.Ask` and :class:`pate.PATEClassifier`: ``random_state``,
        ``representation``, ``recipe``, ``measure``, ``decide``, ``force``, ``image_shape``, ``stated`` and others.

    Returns
    -------
    RecordLabels, or LabelRelease for votes
        Its guarantee is against a coalition of t parties; the statement also says what others learn.

    Raises
    ------
    FederationError
        A site does not answer, has another certificate, refuses, or broke off: the text names it, and says which sites
        were charged. What was charged stays charged. Nothing was opened, or it is kept in ``checkpoint_dir``.
    BudgetExceededError
        The budget does not buy it; nothing was asked of the sites but public facts.
    InvalidInputError
        A bad parameter, such as too few sites for ``tolerate``.

    Examples
    --------
    >>> import tempfile
    >>> from pate import Budget
    >>> from pate.federation import init_federation, local_members
    >>> asks, three = local_members(3)
    >>> members, bundles = init_federation(
    ...     tempfile.mkdtemp() + "/cohort", coordinator=asks, sites=three
    ... )
    >>> ask(
    ...     [[0.0]],
    ...     sites=members,
    ...     bundle=bundles["registry"],
    ...     tolerate=2,
    ...     budget=Budget(1.0, 1e-5),
    ...     checkpoint_dir=tempfile.mkdtemp(),
    ... )
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: tolerate must be below half of the 4 parties (3 sites and who asks), got 2...
    """
    members = sites if isinstance(sites, Members) else Members.read(sites)
    check_choice("opens", opens, OPENS)
    check_budget(budget)
    names = [member.name for member in members.sites]
    if own is not None and own.name not in names:
        raise InvalidInputError(f"own must be one of the sites {', '.join(names)}, got {own.name!r}.")
    if own is None and bundle is None:
        raise InvalidInputError("bundle must be the folder of the coordinator's certificate, got None.")
    who = " and who asks" if own is None else ", one of which asks"
    check_tolerate(tolerate, len(names) + (own is None), f" ({len(names)} sites{who})")
    say = say or ((lambda text: print(text, file=sys.stderr)) if verbose else (lambda text: None))
    line = _Line(members, own, bundle, deadline, agree_deadline, record, approve, say)
    coordinator = line.coordinator
    if coordinator not in (recipients := tuple(recipients or (coordinator,))):
        raise InvalidInputError(f"recipients must have {coordinator!r}, who asks, among them, got {recipients!r}.")
    terms: dict[str, Any] = {
        "coordinator": coordinator, "recipients": recipients, "tolerate": tolerate,
        "max_sites_per_person": check_int("max_sites_per_person", max_sites_per_person, low=1),
    }  # fmt: skip
    given = None if classes is None else check_classes(classes)
    asked = [names, opens, sigma, repr(given), budget.epsilon, budget.delta]
    with _kept(checkpoint_dir, _digest([terms, asked])) as folder:
        facts = _Facts(line, folder, opens, given)
        if opens != "ballots":
            if options or model_file is not None:
                raise InvalidInputError(f"votes take no {', '.join(options) or 'model_file'}; opens='ballots' does.")
            return _votes(X_public, line, folder, facts, terms, opens, budget, sigma, retry)
        plan = SitesPlan.of(
            X_public, classes=facts.classes, budget=budget, n_units=facts.n_units, tolerate=tolerate, unit=facts.unit,
            max_sites_per_person=max_sites_per_person, **options,
        )  # fmt: skip
        agreed = plan.agreed(nonce="", coordinator=coordinator, sites=line.names, recipients=recipients)
        with _Session(line, folder, facts, agreed, retry) as session:
            release, model = plan.run(session)
            classifier = plan.classifier(model, release.statement)
            if taught is not None:
                taught(plan, model)
            if model_file is not None:
                classifier.save(model_file)
            if len(recipients) > 1 and not session.is_stored:
                with tempfile.TemporaryDirectory(prefix="pate-model-") as made:
                    classifier.save(Path(made) / "model.pate")
                    session.result = (Path(made) / "model.pate").read_bytes()
        return release


def _votes(
    X: Any, line: _Line, folder: Path, facts: _Facts, terms: dict[str, Any], opens: str, budget: Budget,
    sigma: float | None, retry: bool,
) -> LabelRelease:  # fmt: skip
    """Return the labels that teachers at all sites voted for: from opened noisy counts, or opened alone."""
    rows, n_queries, n_classes, labels = rows_to_bytes(X), len(X), len(facts.classes), opens == "labels"
    n_cells, moved = n_queries * n_classes, 2 if labels else 2 * n_queries
    among = {"n_sites": len(line.names)} | {name: terms[name] for name in ("tolerate", "max_sites_per_person")}
    noise, steps = 0.0 if sigma is None else check_real("sigma", sigma, low=1e-3) / moved**0.5, 1
    if labels:
        bought = buy_labels(budget, n_queries, sigma=sigma, n_classes=n_classes, **among)
        noise, steps = noise or bought.noise_multiplier * (1 + 1e-12), bought.steps_per_vote
    elif sigma is None:
        noise = buy_shares(budget, [1.0], n_cells=n_cells, **among)[0].noise_multiplier

    plan = Plan(
        nonce="", sites=line.names, n_units=facts.n_units, opens=opens, noise_multipliers=(noise,), n_cells=n_cells,
        classes=facts.classes, unit=facts.unit, queries=hashlib.sha256(rows).hexdigest(), steps_per_vote=steps, **terms,
    )  # fmt: skip
    (mechanism,) = mechanisms_of(plan)
    charge = rounds_charge([mechanism], n_cells)
    if not budget.allows(charge):
        raise BudgetExceededError(
            f"the budget {budget} does not buy {n_queries} queries by {mechanism}. Ask fewer, or leave sigma out: "
            "the budget then says it. Nothing was asked of the sites but public facts."
        )
    with _Session(line, folder, facts, plan, retry) as session:
        bound = mechanism.bound(moved, sum(facts.n_votes))
        found = session.round("votes", rows, n_cells=n_cells, mechanism_index=0, bound=bound)
        statement = federation_statement(
            [mechanism], session.took_part(max(facts.n_votes)), n_cells=n_cells, delta=budget.delta,
            n_queries=n_queries, unit=facts.unit, n_units=sum(facts.n_units),
        )  # fmt: skip
    # Readers of the result meet the noise of all sites; the price counts that of honest ones.
    all_noise = mechanism.total_scale(moved)
    counts = None if isinstance(mechanism, SharedGNMax) else mechanism.opened(found, (n_queries, n_classes), moved)
    chosen = np.asarray(found if counts is None else counts.argmax(axis=1), dtype=np.int64)
    return LabelRelease(
        labels=chosen, status=np.full(n_queries, ANSWERED, dtype="<U9"), classes=facts.classes,
        guarantee=statement.guarantee, statement=statement,
        mechanism=GNMax(all_noise) if labels else NoisyHistogram(all_noise),
        quote=Quote(n_queries, n_queries, charge, charge.guarantee(budget.delta)), noisy_counts=counts,
    )  # fmt: skip


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:24]


class _Declined(FederationError):
    """A site does not agree to a plan."""


class _Line:
    """How the coordinator reaches the sites: all at once, each within its deadline."""

    def __init__(
        self, members: Members, own: Site | None, bundle: Any, deadline: float, agree_deadline: float, record: Any,
        approve: Callable[[Plan], None] | None, say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.own, self.bundle = own, bundle_of(bundle) if own is None else own.bundle
        self.coordinator = members.coordinator.name if own is None else own.name
        self.deadline = check_real("deadline", deadline, low=0.1)
        self.agree_deadline = check_real("agree_deadline", agree_deadline, low=0.1)
        self.record, self.approve, self.say = record, approve or (lambda plan: None), say
        #: In the order of the parties: who asks is party 0, with data or without.
        self.sites = sorted(members.sites, key=lambda site: site.name != self.coordinator)
        self.names = tuple(site.name for site in self.sites)
        #: Of a secure sum.
        self.parties = [one.party for one in ([members.coordinator] if own is None else []) + self.sites]

    def facts(self) -> Json:
        """Return what all sites say of themselves now, in the order of the parties."""
        return self.everywhere("/facts", {}, deadline=_SHORT)

    def ask(self, site: Member, path: str, head: Json, data: bytes, deadline: float) -> Json:
        """Return one site's answer; a plan that it does not agree to is an error, which ends the wait for others."""
        if self.own is None or site.name != self.coordinator:
            answer = call(site, path, self.bundle, head, data, deadline=deadline)
        else:
            try:
                answer = self.own.answer(frozenset({site.name}), path, head, data)
            except Refusal as refused:
                raise (Heard if refused.heard else FederationError)(f"{site.name} refuses: {refused}") from None
        if path == "/plan" and answer.get("accepted") is not True:
            raise _Declined(f"{site.name} does not agree: {as_told(answer.get('reason'))}")
        return answer

    def everywhere(
        self, path: str, head: Json, data: bytes = b"", *, deadline: float,
        beside: Callable[[], Any] = lambda: None, broken: Callable[[], None] = lambda: None,
    ) -> Json:  # fmt: skip
        """Return all sites' answers, by name; ``beside`` is done meanwhile.

        Where one fails, ``broken`` is called at once, for the others to end too, and the likeliest cause is raised.
        """
        work = {site.name: _begun(self.ask, site, path, head, data, deadline) for site in self.sites}
        work[""] = _begun(beside)
        try:
            first, _ = wait(work.values(), return_when=FIRST_EXCEPTION)
            if any(one.exception() for one in first):
                broken()
                wait(work.values(), timeout=_SETTLE)
        except BaseException:  # Ctrl-C
            broken()
            raise
        failed = {name: error for name, one in work.items() if one.done() and (error := one.exception()) is not None}
        if not failed:
            return {site.name: work[site.name].result() for site in self.sites}

        def rank(name: str) -> tuple[int, bool]:
            """Sort the likeliest cause first: own faults, then what sites say of themselves, then of others."""
            late, error = work[name] not in first, failed[name]
            own_fault = isinstance(error, Unanswered) or not (late or isinstance(error, FederationError))
            kind = 0 if own_fault else 2 if isinstance(error, Heard) or not name else 1
            return kind, late  # which may follow from the first

        cause = failed[min(failed, key=rank)]
        if isinstance(cause, _Declined):  # all that have said so by now are named
            raise FederationError("; ".join(str(one) for one in failed.values() if isinstance(one, _Declined)) + ".")
        raise FederationError(str(cause)) if isinstance(cause, FederationError) else cause


def _begun(do: Callable[..., Any], *args: Any) -> Future[Any]:
    """Return what is being done in a thread of its own, for which the process does not wait when it ends."""
    found: Future[Any] = Future()

    def run() -> None:
        try:
            found.set_result(do(*args))
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return found


@contextmanager
def _kept(folder: str | os.PathLike[str], key: str) -> Iterator[Path]:
    """Hold the folder in which one ask keeps what it has opened: one process at a time."""
    import fcntl

    held = own_folder("checkpoint_dir", own_folder("checkpoint_dir", folder, _README) / key)
    with (held / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FederationError(
                f"another process asks the same, in {str(held)!r}. Wait for its result. Nothing was asked."
            ) from None
        yield held


def _read(path: Path) -> dict[str, Any] | None:
    return read_json(path, FederationError) if path.exists() else None


def _is_whole(run: dict[str, Any] | None) -> bool:
    return run is not None and len(run["opened"]) == len(run["plan"]["noise_multipliers"])


class _Facts:
    """What the sites say of themselves: public, and alike where it must be.

    They are asked now; where something was opened to the end here, it is what they said then (``stored``).
    """

    def __init__(self, line: _Line, folder: Path, opens: str, classes: tuple[Any, ...] | None) -> None:
        held = _read(folder / "facts.json") if any(_is_whole(_read(run)) for run in folder.glob("run-*.json")) else None
        self.stored = held is not None
        self.said = said = line.facts() if held is None else {name: held[name] for name in line.names}
        first = said[line.names[0]]
        alike = {
            "pate": __version__, "data": "records" if opens == "ballots" else "votes", "unit": first.get("unit"),
            "classes": first.get("classes") if classes is None else list(classes),
        }  # fmt: skip
        for name, one in said.items():
            if wrong := [fact for fact, wanted in {"name": name, **alike}.items() if one.get(fact) != wanted]:
                or_from = "" if name == line.names[0] else f", or from {line.names[0]},"
                raise FederationError(
                    f"{name} differs from what is asked{or_from} in its {', '.join(wrong)}: "
                    f"{as_told(one.get(wrong[0]))}, not {alike.get(wrong[0], name)}.{_REMEDY.get(wrong[0], '')} "
                    "Nothing was asked."
                )
            check_int(f"n_units of {name}", one.get("n_units"), low=1)
            check_int(f"n_votes of {name}", one.get("n_votes"), low=0)
        self.classes, self.unit = check_classes(first["classes"]), str(first["unit"])
        self.n_units, self.n_votes = (tuple(one[n] for one in said.values()) for n in ("n_units", "n_votes"))
        if not self.stored:
            units = (f"{name} ({n:,} units)" for name, n in zip(said, self.n_units, strict=True))
            line.say(f"{len(said)} sites answer: {', '.join(units)}")


def _as_charged(charged: Mapping[str, bool | None] | None) -> str:
    """Return in words which sites charged for a run that broke off; None where who asks was killed before it knew."""
    if charged is None:
        return "Which sites charged for it is not known here; who did keeps the charge (pate ledger show at the site)."
    by = {state: ", ".join(name for name, one in charged.items() if one is state) for state in (True, False, None)}
    unknown = f"; not known, as it does not answer: {by[None]}" if by[None] else ""
    return f"Charged, and stays so: {by[True] or 'none'}; not charged: {by[False] or 'none'}{unknown}."


class _Session:
    """Sites that agreed to a plan and answer its rounds; or what they once opened, read again."""

    def __init__(self, line: _Line, folder: Path, facts: _Facts, agreed: Plan, retry: bool) -> None:
        self._line, self._folder, self.result = line, folder, b""
        self._done = threading.Event()
        self.plan = replace(agreed, nonce=system_bytes(16).hex())
        self._head = {"digest": self.plan.digest}
        self._party = Run(self.plan)  # of who asks, unless that is a site, which has its own
        name = _digest({k: v for k, v in self.plan.to_dict().items() if k != "nonce"})
        self._path, n_rounds = folder / f"run-{name}.json", len(self.plan.noise_multipliers)
        held = _read(self._path)
        self.is_stored = _is_whole(held)
        if held is not None and self.is_stored:
            self._run, self.plan, self.trust = held, Plan.from_dict(held["plan"]), Trust(**held["trust"])
            line.say("this was asked before: answered from what was opened then. Nothing is asked, nothing charged.")
            return
        if held is not None and held["started"]:
            broken, charged = f"broke off after {len(held['opened'])} of {n_rounds} rounds", held.get("charged")
            if not retry:
                raise FederationError(
                    f"an earlier ask of the same {broken}, and a run cannot be taken up again. {_as_charged(charged)} "
                    "retry=True asks anew, with fresh noise, and every site charges the whole plan again. Nothing was "
                    "asked now."
                )
            line.say(f"asked anew: the earlier ask {broken}. {_as_charged(charged)} This one is charged too.")
            os.replace(self._path, folder / f"broken-{held['plan']['nonce']}.json")
        if facts.stored and line.facts() != facts.said:  # stored by another ask
            raise FederationError(f"sites have changed since {str(folder)!r} was begun. Name another checkpoint_dir.")
        write_json(folder / "facts.json", facts.said, mode=0o600)
        line.approve(self.plan)
        self._run = {"plan": self.plan.to_dict(), "started": False, "opened": [], "trust": None}
        try:
            self._agree()
        except BaseException as error:
            self._ended_by(error)
            raise

    def _keep(self) -> None:
        write_json(self._path, self._run, mode=0o600)

    def __enter__(self) -> _Session:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if self.is_stored:
            return
        if error is not None:
            self._ended_by(error)
            return
        self._done.set()
        try:
            self._line.everywhere("/end", self._head, self.result, deadline=_SHORT + 15, beside=self._party.end)
        except FederationError as late:  # all is opened and kept
            self._line.say(f"The result is whole, but: {late}")

    def _agree(self) -> None:
        line, plan = self._line, self.plan
        self._keep()
        line.say(f"asking {len(plan.sites)} sites to agree, and to charge {len(plan.noise_multipliers)} rounds each.")
        threading.Thread(target=self._keep_alive, daemon=True).start()  # an operator may take long to agree
        line.everywhere("/plan", {"plan": plan.to_dict()}, deadline=line.agree_deadline)
        joining = min(line.deadline, _JOIN)
        head = {"parties": [[party.name, party.host, party.port] for party in line.parties], "deadline": joining}
        mine = line.coordinator, line.parties, line.bundle, self._folder, joining, line.record
        self._everywhere("/join", head, b"", joining + _SHORT, lambda: self._party.join(*mine))
        self.trust = self._at_work.engine.trust
        self._run["trust"] = asdict(self.trust)
        line.say("all sites agreed, and their engines are connected.")

    @property
    def _at_work(self) -> Any:
        """The run of who asks, once all sites have agreed."""
        return self._party if self._line.own is None else self._line.own.at_work

    def _everywhere(self, path: str, head: Json, data: bytes, deadline: float, beside: Callable[[], Any]) -> None:
        """Do a step at all sites, and beside them at who asks, unless that is a site."""
        how: dict[str, Any] = {"beside": beside} if self._line.own is None else {}
        head = {**self._head, **head}
        self._line.everywhere(path, head, data, deadline=deadline, broken=self._break_off, **how)

    def round(self, kind: str, archive: bytes, *, n_cells: int, mechanism_index: int, bound: int) -> list[int]:
        """Return what is opened of all sites' sums with their noise: asked now, or stored before."""
        index, line, plan = mechanism_index, self._line, self.plan
        if self.is_stored:
            return [int(one) for one in self._run["opened"][index]]
        if index != len(self._run["opened"]):
            raise InvalidInputError("rounds are asked in order, each once.")
        if not self._run["started"]:  # from here on sites may be charged, whatever becomes of it
            self._run["started"] = True
            self._keep()

        head = {"index": index, "kind": kind, "bound": bound, "deadline": line.deadline}
        mine = None, n_cells, head, archive, line.deadline
        self._everywhere("/round", head, archive, line.deadline + _SHORT, lambda: self._party.open(*mine))
        found = self._at_work.opened[index]
        if found is None or len(found) != n_cells // (1 if plan.opens != "labels" else len(plan.classes)):
            raise FederationError("the secure sum opened another number of values than were asked.")
        self._run["opened"].append(found)
        self._keep()
        n, n_rounds = len(self._run["opened"]), len(plan.noise_multipliers)
        if n == 1 or 10 * n // n_rounds > 10 * (n - 1) // n_rounds:  # of many rounds eleven lines
            line.say(f"round {n} of {n_rounds} is opened.")
        return list(found)

    def took_part(self, most_units: int) -> Any:
        """Return who took part, and on what engine, for the statement."""
        return took_part(self.trust, self.plan.coordinator, self.plan.sites, self.plan.recipients, most_units)

    def _keep_alive(self) -> None:
        while not self._done.wait(_ALIVE):
            for site in self._line.sites:
                with suppress(FederationError):
                    self._line.ask(site, "/alive", self._head, b"", _SHORT)

    def _break_off(self) -> None:
        """End the run everywhere, at once, and learn who was charged; who does not hear it ends by its own deadline."""
        if self._done.is_set():
            return
        self._done.set()
        self._charged: dict[str, bool | None] = dict.fromkeys(self._line.names)

        def end(site: Member) -> None:
            with suppress(FederationError):
                self._charged[site.name] = self._line.ask(site, "/end", self._head, b"", _SHORT).get("charged") is True

        ends = [_begun(end, site) for site in self._line.sites]
        self._party.end()
        wait(ends, timeout=_SHORT + 1)

    def _ended_by(self, error: BaseException) -> None:
        """Break off, and say with the error what was spent."""
        self._break_off()
        states = set(self._charged.values())
        if True not in states and (None not in states or not self._run["started"]):
            spent = "No site was charged."
            self._run["started"] = False
        else:
            spent = _as_charged(self._charged)
            self._run["charged"] = self._charged
        self._line.say(spent)
        with suppress(OSError):  # a full disk hides neither who was charged nor why the run ended
            self._keep()
        if isinstance(error, FederationError):
            raise FederationError(f"{error} {spent}") from None
        error.add_note(spent)


# From a file of public rows: ``pate federation ask``.


class AskJob(LeavesModel):
    r"""The job behind ``pate federation ask``: label public rows in a file by records at several institutions.

    Parameters
    ----------
    public : path
        A table, or a flat folder of images, as for :class:`pate.jobs.LabelJob`.
    classes : iterable or None
        None: as the sites name them.
    keep_model : bool
        Whether :meth:`model` is to make a model.
    written : dict
        How the file is written: ``id``, ``drop``, ``text``, ``sep`` and others of :func:`pate.read_table`, or ``size``,
        ``resize`` and ``color`` of images.
    **asked
        See :func:`pate.federation.ask`: ``sites``, ``bundle``, ``tolerate``, ``budget``, ``folder`` and others.

    Raises
    ------
    InvalidInputError
        The file cannot be read; no site was asked.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> file = Path(tempfile.mkdtemp()) / "cohort.csv"
    >>> _ = file.write_text("age,id\n50,1\n60,2\n")
    >>> AskJob(file, written={"id": "id"}, sites="sites.toml").plan.n_public
    2
    """

    def __init__(
        self,
        public: str | os.PathLike[str],
        *,
        classes: Any = None,
        keep_model: bool = True,
        written: dict[str, Any] | None = None,
        **asked: Any,
    ) -> None:
        check_id((written or {}).get("id"), classes)
        self._source = source = read_public_alone(public, **(written or {}))
        self._door, self._asked = input_spec_of(source), {"classes": classes, **asked}
        self.plan = JobPlan(n_public=len(source.public), unit="")
        if keep_model:
            self._pupil = Pupil(None, None, None, self._door, "records", asked.get("random_state"))

    def run(self, *, approve: Callable[[Plan], None], say: Callable[[str], None], **more: Any) -> RecordLabels:
        """Ask the sites; ``approve`` is shown the plan before any of them is, and may raise."""
        made: list[Any] = []
        shape = self._source.image_shape
        rows = in_planes(self._source.public, shape)
        given = {**self._asked, "approve": approve, "say": say, "door": self._door, "image_shape": shape, **more}
        found: Any = ask(rows, taught=lambda *what: made.extend(what), **given)
        #: How the rounds were planned, by public facts.
        self.rounds_: SitesPlan = made[0]
        return self._released(Learnt(found, np.arange(self.plan.n_public), made[1]))
