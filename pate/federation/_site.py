"""An institution's side of a run: it checks the plan, prices it for itself, pays its own ledger, adds its noise."""

from __future__ import annotations

import hashlib
import json
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pate import __version__
from pate._core.checks import check_choice, check_classes, check_int, check_real, shown
from pate._core.files import own_folder, write_bytes, write_json
from pate.exceptions import BudgetExceededError, FederationError, InvalidInputError, PateError
from pate.federation._channel import MOST_BYTES, Json, Names, Refusal, Server, as_told, rows_of
from pate.federation._config import SITES, Bundle, Members, bundle_of, names_in
from pate.federation._contract import Heard, Party, SecureAggregator
from pate.federation._mpyc import MPyCAggregator
from pate.federation._plan import OPENS, Plan, mechanisms_of
from pate.federation._records import SiteRecords, largest_total
from pate.ledger import Ledger, Registration
from pate.mechanisms import rounds_charge
from pate.privacy.budget import Budget, check_budget
from pate.privacy.convert import format_up
from pate.privacy.cost import Charge
from pate.privacy.words import Guarantee
from pate.records import RightFacts
from pate.release import ShareSession, open_shares
from pate.votes import Voter, Votes

#: Seconds in which answers go out that are being given when a site ends.
_LAST_ANSWERS = 3.0
#: What a site says of itself when it is at work, or has been: fixed texts, nothing private.
_OVER = "this plan was served or broken off before. Ask the coordinator for the stored result, or make a new plan"
_NO_PLAN = "it has agreed to no such plan"
_FAILED = "it failed at this step; its own operator sees why"
_SPENT = "what was paid for, or what is left of its budget, does not pay for this step"


@dataclass(frozen=True, kw_only=True)
class Consent:
    """The plans that an institution accepts without asking a person each time; it refuses all others.

    Attributes
    ----------
    max_epsilon, delta : float
        The most that one plan may cost a person or record here, against a coalition of as many parties as the plan
        withstands. The site works the cost out from the plan's noise; it believes no epsilon that it is sent.
    coordinators : tuple of str
        Who may ask, by the names in their certificates.
    recipients : tuple of str
        To whom a result may be opened.
    opens : tuple of {"ballots", "counts", "labels"}
        What may be opened: noisy sums of ballots, noisy counts of votes, labels alone.
    min_sites : int
        So many sites with data must take part.
    min_tolerate : int
        So many parties, the coordinator among them, may put together what they saw and must learn no more.
    max_sites_per_person : int
        A person's records may lie at so many sites: plans that count on fewer are refused.

    Examples
    --------
    >>> Consent(
    ...     max_epsilon=1.0,
    ...     delta=1e-6,
    ...     coordinators=("registry",),
    ...     recipients=("registry",),
    ... ).min_sites
    3
    """

    max_epsilon: float
    delta: float
    coordinators: tuple[str, ...]
    recipients: tuple[str, ...]
    opens: tuple[str, ...] = ("ballots",)
    min_sites: int = 3
    min_tolerate: int = 1
    max_sites_per_person: int = 1

    def __post_init__(self) -> None:
        check_real("max_epsilon", self.max_epsilon, low=0.0)
        check_real("delta", self.delta, low=0.0, high=1.0)
        for name, low in (("min_sites", 2), ("min_tolerate", 1), ("max_sites_per_person", 1)):
            check_int(name, getattr(self, name), low=low)
        for name in ("coordinators", "recipients", "opens"):
            if isinstance(getattr(self, name), str):
                raise InvalidInputError(f"{name} must be several texts, got one. Say ({getattr(self, name)!r},).")
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for one in self.opens:
            check_choice("opens", one, OPENS)

    def objection(self, plan: Plan, price: Guarantee) -> str:
        """Return why a plan at this price is beyond it, in public words; empty where it is within."""
        strangers = [name for name in plan.recipients if name not in self.recipients]
        c, counted = self.max_sites_per_person, plan.max_sites_per_person
        persons = f"a person may have records at {c} sites, and the plan counts on max_sites_per_person={counted}"
        found = (
            (plan.coordinator not in self.coordinators, f"{plan.coordinator!r} may not ask here"),
            (bool(strangers), f"results may not be opened to {', '.join(strangers)}"),
            (plan.opens not in self.opens, f"{plan.opens} may not be opened"),
            (len(plan.sites) < self.min_sites, f"{len(plan.sites)} sites are fewer than {self.min_sites}"),
            (plan.tolerate < self.min_tolerate, f"tolerate={plan.tolerate} is below {self.min_tolerate}"),
            (counted < c, persons),
            (not price.epsilon <= self.max_epsilon, f"it costs {_worded(price)}, above {self.max_epsilon:g}"),
        )
        return "; ".join(text for wrong, text in found if wrong)


class Run:
    """One plan at work at one party: agreed to, joined, then its rounds, in order and each once."""

    def __init__(self, plan: Plan, lock: threading.RLock | None = None, *, busy: bool = False) -> None:
        self.plan, self.lock, self.over = plan, lock or threading.RLock(), False
        self.engine: SecureAggregator | None = None
        #: By round, what was opened to this party; None where it is no recipient.
        self.opened: list[list[int] | None] = []
        # Of a site alone.
        self.busy, self.expires = busy, math.inf
        self.shares: ShareSession | None = None
        #: Numbers that its rounds have asked for.
        self.n_asked = 0

    def join(self, me: str, parties: list[Party], bundle: Bundle, folder: Path, deadline: float, record: Any) -> None:
        """Connect this party's engine with those of all other parties of the plan."""
        plan, names = self.plan, [party.name for party in parties]
        if names != [*(() if plan.coordinator in plan.sites else (plan.coordinator,)), *plan.sites]:
            raise Refusal("the parties must be those of the plan, in its order.")
        MPyCAggregator(
            parties, names.index(me), tolerate=plan.tolerate, **bundle._asdict(), folder=folder, record=record,
            receivers=[i for i, name in enumerate(names) if name in plan.recipients], compares=plan.opens == "labels",
            start_deadline=deadline, started=self._started,
        )  # fmt: skip

    def _started(self, engine: SecureAggregator) -> None:
        with self.lock:  # whoever ends the run from here on ends the engine
            self.engine = engine
            if self.over:
                engine.close()

    def open(self, values: list[int] | None, length: int, head: Json, data: bytes, deadline: float) -> list[int] | None:
        """Return what a round opens to this party: the sums, or the labels; None where others get it.

        Nothing leaves where another party has agreed to another plan, or was asked another round, than this one.
        """
        plan, engine = self.plan, self.engine
        said = [plan.digest, head["index"], head["kind"], head["bound"], hashlib.sha256(data).hexdigest()]
        about = hashlib.sha256(json.dumps(said).encode()).digest()
        given: dict[str, Any] = {"length": length, "bound": head["bound"], "deadline": deadline, "about": about}
        assert engine is not None
        if plan.opens == "labels":
            found: Any = engine.argmax(values, n_classes=len(plan.classes), **given)
        else:
            found = engine.sum(values, **given)
        self.opened.append(None if found is None else [int(one) for one in found])
        return self.opened[-1]

    def end(self) -> None:
        """End its engine, also one that is still being connected."""
        with self.lock:
            self.over = True
        if self.engine is not None:
            with suppress(PateError):
                self.engine.close()


class Site:
    """One institution of a federation: it answers a coordinator's plans; its records and teachers stay where they are.

    It sends public facts (number of units, their kind, classes, version) and, in a run to which it agreed, secret
    shares of its sums with its own noise in them, one to every party. Records, models, votes, its own sums and its
    noise do not leave, and no answer or log quotes them.

    Before its first share leaves, the site has charged its own ledger for the whole plan. What breaks off afterwards
    stays charged, and a plan is served once: asking again is a new plan with fresh noise, charged again.

    Parameters
    ----------
    name : str
        As its certificate says it.
    data : SiteRecords, tuple (X, y) or (X, y, groups), or a Voter
        Records that cast ballots, for plans that open "ballots"; or teachers that vote (whatever has ``classes_``,
        ``n_teachers`` and ``vote(X)``), for plans that open "counts" or "labels".
    ledger : Ledger
        The ledger of these records, kept by this site alone: :func:`pate.release.site_ledger`.
    budget : Budget
        The most that all plans together may ever cost a unit here: the ledger's total.
    bundle : path
        The folder with ``party.crt``, ``party.key`` and ``authority.crt``. Where ``sites.toml`` lies beside them, plans
        that name anybody else are refused.
    consent : Consent or None
        Plans within it are agreed to, all others refused.
    approve : callable (plan, price) -> bool, or None
        Asked for each plan, with ``consent`` for those within it; ``price`` is its Guarantee, worked out here.
    host : str
    port, engine_port : int
        Where it is asked, and where the engine of secure sums listens during a run (by default the next port).
    classes : sequence or None
        With (X, y): every class that could occur, public and the same at all sites. Other data have their own.
    unit : {"record", "group"}, n_units : int
        For a voter: the unit that one teacher's vote protects, and how many units there are (public).
    patience : float
        Seconds without a message from the coordinator after which the site drops a plan and is free again.
    deadline : float
        The most seconds that a round may take, whatever the coordinator says.
    say : callable (str) -> None, or None
        Told what happens, for the operator: who asks what, at which price, and what became of it.

    Raises
    ------
    InvalidInputError
        A parameter out of its range, or a name that is not the certificate's.

    Examples
    --------
    >>> Site.__doc__.splitlines()[0][:39]
    'One institution of a federation: it ans'
    """

    def __init__(
        self,
        name: str,
        data: Any,
        *,
        ledger: Ledger,
        budget: Budget,
        bundle: Any,
        consent: Consent | None = None,
        approve: Callable[[Plan, Guarantee], bool] | None = None,
        host: str = "127.0.0.1",
        port: int,
        engine_port: int | None = None,
        classes: Sequence[Any] | None = None,
        unit: str = "record",
        n_units: int | None = None,
        patience: float = 60.0,
        deadline: float = 3600.0,
        say: Callable[[str], None] | None = None,
    ) -> None:
        if consent is None and approve is None:
            raise InvalidInputError("consent= or approve= must be given: what this site agrees to, or who is asked.")
        self.bundle = bundle_of(bundle)
        if name not in (names := names_in(self.bundle.certificate)):
            raise InvalidInputError(
                f"name must be that of the certificate ({', '.join(sorted(names))}), got {shown(name)}. Take this "
                "site's own bundle."
            )
        who = Path(self.bundle.certificate).with_name(SITES)
        #: Nobody else may be counted among the sites: of a name that the coordinator made up it knows the noise.
        self._members = Members.read(who).names if who.exists() else None
        self.name, self.ledger, self.budget = name, ledger, check_budget(budget)
        self.consent, self._approve, self.host, self._tell = consent, approve, host, say or (lambda text: None)
        self.port, self.engine_port = check_int("port", port, low=1, high=65535), engine_port or port + 1
        self.patience = check_real("patience", patience, low=0.1)
        self.deadline = check_real("deadline", deadline, low=0.1)
        if isinstance(data, tuple):
            X, y, *groups = data
            data = SiteRecords(X, y, classes=classes, groups=groups[0] if groups else None)
        self._data: SiteRecords | _Teachers = data if isinstance(data, SiteRecords) else _Teachers(data, unit, n_units)
        if not all(isinstance(one, str | int | float) for one in self._data.classes):
            raise InvalidInputError("classes must be texts, numbers or truth values: they are sent as JSON.")
        #: For the engine's files, and what is opened to this site (mode 0700).
        self.folder = own_folder("ledger", Path(ledger.path).with_name(f"{Path(ledger.path).name}.federation"))
        #: The run at work, if there is one: its engine, and what its rounds opened to this very site.
        self.at_work: Run | None = None
        self._lock, self._stop, self._over = threading.RLock(), threading.Event(), set[str]()
        #: How many runs have ended, served or broken off.
        self.n_ended = 0

    def __repr__(self) -> str:
        return f"Site({self.name!r}, {self.host}:{self.port})"

    def _say(self, text: str) -> None:
        """Tell the operator; errors may quote what a coordinator sent, such as the host of an engine."""
        self._tell(as_told(text, 10_000))

    # Waiting to be asked.

    def serve(self, *, once: bool = False) -> None:
        """Answer until SIGTERM, Ctrl-C or :meth:`stop`; with ``once`` until one run has ended.

        Every process that was started, and the port, are given back before it returns.
        """
        try:
            server = Server(self.host, self.port, self.bundle, self.answer, self.admit)
        except OSError as error:
            raise InvalidInputError(
                f"port {self.port} of {self.host!r} cannot be listened on ({error.strerror}). Is it running already?"
            ) from None
        before, ended = None, self.n_ended
        if threading.current_thread() is threading.main_thread():
            before = signal.signal(signal.SIGTERM, lambda *_: self._stop.set())
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
        try:
            while not self._stop.wait(0.1) and not (once and self.n_ended > ended):
                self._give_up_silent()
        except KeyboardInterrupt:
            self._say("stopped.")
        finally:
            if before is not None:
                signal.signal(signal.SIGTERM, before)
            self._end(self.at_work)
            server.finish(_LAST_ANSWERS)
            self._stop.clear()

    def stop(self) -> None:
        """End :meth:`serve`, from another thread."""
        self._stop.set()

    def admit(self, caller: Names, path: str, head: Json) -> int:
        """Return how many bytes are read after a request's JSON: those of the coordinator of the run at work alone."""
        run = self.at_work
        due = run is not None and path in ("/round", "/end") and run.plan.coordinator in caller
        return MOST_BYTES if due and run is not None and run.plan.digest == head.get("digest") else 0

    def answer(self, caller: Names, path: str, head: Json, data: bytes) -> Json:
        """Answer one request of a party whose certificate has these names; a refusal's text is fixed and public."""
        known = {"/facts": self._facts, "/plan": self._plan, "/join": self._join, "/round": self._round}
        step = (known | {"/alive": self._alive, "/end": self._ended}).get(path)
        if step is None:
            raise Refusal("this version of pate knows no such request.")
        try:
            return step(caller, head, data)
        except Refusal as refused:
            if path != "/alive":  # one that was on its way when the run ended is no news
                self._say(f"refused: {refused}")
            raise
        except Exception as error:
            # Texts of this package quote no private value; of anything else only the kind is said, and only here.
            self._say(f"{path[1:]} failed: {error if isinstance(error, PateError) else type(error).__name__}")
            if isinstance(error, FederationError):  # of plans and rounds, in public words
                raise Refusal(str(error), heard=isinstance(error, Heard)) from None
            raise Refusal(f"{_SPENT if isinstance(error, BudgetExceededError) else _FAILED}.") from None

    # What may be asked, in the order of a run.

    def _facts(self, caller: Names, head: Json, data: bytes) -> Json:
        own = self._data
        kind, n_votes = ("votes", own.n_votes) if isinstance(own, _Teachers) else ("records", 0)
        public = {"n_units": own.n_units, "unit": own.unit, "classes": list(own.classes), "n_votes": n_votes}
        return {"name": self.name, "pate": __version__, "data": kind, **public}

    def _plan(self, caller: Names, head: Json, data: bytes) -> Json:
        try:
            plan = Plan.from_dict(head["plan"])
            if caller & {plan.coordinator, *plan.sites} != {plan.coordinator}:
                raise Refusal("a plan is taken from its coordinator alone.")
            charge = rounds_charge(mechanisms_of(plan), plan.n_cells)
            price = charge.guarantee(self.budget.delta if self.consent is None else self.consent.delta)
        except (KeyError, TypeError, InvalidInputError):
            raise Refusal("this is no plan that this version of pate can run.") from None
        self._give_up_silent()
        with self._lock:
            if self.at_work is not None:
                raise Refusal("it is at work on another ask. Ask again when that has ended.")
            if plan.digest in self._over or self.ledger.has_request(plan.digest):
                raise Refusal(f"{_OVER}.")
            self.at_work = run = Run(plan, self._lock, busy=True)
            run.expires = time.monotonic() + self.deadline + self.patience
        reason = _FAILED
        try:
            reason = self._objection(plan, charge, price)
        finally:
            run.busy, run.expires = False, time.monotonic() + self.patience
            if reason and self.at_work is run:  # it may have been ended meanwhile, and another begun
                self.at_work = None
        what = f"{plan.coordinator} asks for {plan.opens} among {len(plan.sites)} sites, at {_worded(price)} here"
        self._say(f"{what}: {f'refused, {reason}' if reason else 'agreed'}.")
        return {"accepted": not reason, "reason": reason}

    def _objection(self, plan: Plan, charge: Charge, price: Guarantee) -> str:
        """Return what in a plan is not as it is here, or beyond what is consented to; empty where it is all right."""
        own = self._data
        if plan.sites.count(self.name) != 1 or not len(plan.n_units) == len(plan.sites) == len(set(plan.sites)):
            return "it does not name this site once, with its number of units"
        if self._members is not None and not {plan.coordinator, *plan.sites} <= self._members:
            return "it names parties that are not in this site's sites.toml"
        found = (
            ("n_units", plan.n_units[plan.sites.index(self.name)] == own.n_units),
            ("unit", plan.unit == own.unit),
            ("classes", plan.classes == tuple(own.classes)),
            ("opens", (plan.opens == "ballots") == isinstance(own, SiteRecords)),
        )
        if wrong := [name for name, right in found if not right]:
            return f"the plan's {', '.join(wrong)} differ from this site's"
        if isinstance(own, SiteRecords) and (amiss := own.amiss(plan.columns)):
            self._say(f"plan failed: {amiss}.")
            return "its table lacks columns of the public rows, or has others; its own operator sees which"
        if beyond := "" if self.consent is None else self.consent.objection(plan, price):
            return beyond
        if not self.ledger.allows(charge, default_total=self.budget):
            return "what is left of its budget does not pay for this plan"
        return "" if self._approve is None or self._approve(plan, price) else "its operator declined"

    def _mine(self, caller: Names, head: Json) -> Run:
        """Return the run that is asked about, if this is its coordinator and it is the one that was agreed to."""
        run = self.at_work
        if run is None or run.plan.digest != head.get("digest") or run.plan.coordinator not in caller:
            ended = head.get("digest") in self._over
            raise Refusal(f"{_OVER if ended else _NO_PLAN}.", heard=ended)
        return run

    @contextmanager
    def _step(self, caller: Names, head: Json) -> Iterator[Run]:
        """Work at one step of the run that is asked about: one at a time, and what fails ends the run."""
        with self._lock:
            run = self._mine(caller, head)
            if run.busy:
                raise Refusal("it is still at the step before.")
            run.busy = True
            run.expires = time.monotonic() + self._seconds(head) + self.patience
        try:
            yield run
        except BaseException:
            self._end(run)
            raise
        finally:
            run.busy, run.expires = False, time.monotonic() + self.patience

    def _join(self, caller: Names, head: Json, data: bytes) -> Json:
        """Connect this site's engine with all others. Nothing is charged, nothing leaves."""
        with self._step(caller, head) as run:
            if run.engine is not None:
                raise Refusal("it has joined already.")
            try:
                parties = [Party(str(name), str(host), int(port)) for name, host, port in head["parties"]]
            except (KeyError, TypeError, ValueError):
                raise Refusal("the parties must be names, hosts and ports.") from None
            if any(party.name == self.name and party.port != self.engine_port for party in parties):
                raise Refusal("the parties name another port for this site's engine than its own.")
            run.join(self.name, parties, self.bundle, self.folder, self._seconds(head), record=None)
        return {}

    def _round(self, caller: Names, head: Json, data: bytes) -> Json:
        """Sum, pay (before the first round), add noise, and give it to the secure sum."""
        with self._step(caller, head) as run:
            if run.engine is None or head.get("index") != len(run.opened):
                raise Refusal("rounds are asked in order, each once, after all sites have joined.")
            bound = check_int("bound", head.get("bound"), low=1, high=1 << 200)
            # What is refused is refused by public facts, and before a private row is looked at; from the charge on no
            # answer depends on what the records hold.
            asked = self._data.asked(run.plan, str(head.get("kind")), data)
            if run.n_asked + (cells := _cells(asked, self._data.n_units)) > run.plan.n_cells:
                raise Refusal("it asks for more numbers than the plan names.")
            run.n_asked += cells
            if bound < self._least_bound(run, asked):
                raise Refusal("the bound is below what this site may add.")
            with self._lock:  # whoever ends the run from here on finds it charged
                if run.over:
                    raise Refusal(f"{_OVER}.", heard=True)
                if run.shares is None:
                    run.shares = self._paid(run.plan)
                    self._say(f"charged {_worded(run.shares.charge.guarantee(self.budget.delta))}.")
            sums = self._data.cast(asked, self._say)
            with self._lock:
                if run.over:
                    raise Refusal(f"{_OVER}.", heard=True)
                share = run.shares.share(sums)
            found = run.open(share, len(share), head, data, self._seconds(head))
            if found is not None:
                write_json(self.folder / f"{run.plan.digest}-{len(run.opened)}.json", found, mode=0o600)
        return {}

    def _least_bound(self, run: Run, asked: Any) -> int:
        mechanism = mechanisms_of(run.plan)[len(run.opened)]
        if isinstance(self._data, SiteRecords):
            return largest_total(mechanism, asked.facts(self._data.n_units).delta_squared, self._data.n_units)
        return mechanism.bound(2 * (1 if run.plan.opens == "labels" else len(asked)), self._data.n_votes)

    def _paid(self, plan: Plan) -> ShareSession:
        return open_shares(
            mechanisms_of(plan), data=self._data.registration(), budget=self.budget, ledger=self.ledger,
            request=plan.digest, n_cells=plan.n_cells, facts={"plan": plan.to_dict()},
        )  # fmt: skip

    def _alive(self, caller: Names, head: Json, data: bytes) -> Json:
        run = self._mine(caller, head)
        if not run.busy:  # a step at work has its own deadline
            run.expires = time.monotonic() + self.patience
        return {}

    def _ended(self, caller: Names, head: Json, data: bytes) -> Json:
        """End the run, whatever it is at; say whether this site was charged for it."""
        with suppress(Refusal):  # where there is no such run, there is nothing to end
            run = self._mine(caller, head)
            if data and self.name in run.plan.recipients and len(run.opened) == len(run.plan.noise_multipliers):
                write_bytes(self.folder / f"{run.plan.digest}.pate", data, mode=0o600)
            self._end(run)
        return {"charged": self.ledger.has_request(str(head.get("digest")))}

    # Ends.

    def _seconds(self, head: Json) -> float:
        said = head.get("deadline")
        return min(self.deadline, check_real("deadline", said, low=0.1)) if said is not None else self.deadline

    def _give_up_silent(self) -> None:
        run = self.at_work
        if run is not None and time.monotonic() > run.expires:
            why = "its step took longer than it may" if run.busy else f"{run.plan.coordinator} has fallen silent"
            self._say(f"{why}: its plan is given up.")
            self._end(run)

    def _end(self, run: Run | None) -> None:
        with self._lock:
            if run is None or run.over:
                return
            run.over = True
            self._over.add(run.plan.digest)
            if self.at_work is run:
                self.at_work = None
            self.n_ended += 1
        run.end()
        charged, n_rounds = True, len(run.plan.noise_multipliers)
        with suppress(PateError):
            charged = self.ledger.has_request(run.plan.digest)
        after = f"{len(run.opened)} of {n_rounds} rounds were opened" if charged else "nothing was charged"
        self._say(f"the run has ended; {after}.")


def _cells(asked: Any, n_units: int) -> int:
    """Return how many numbers a round opens, or compares; of votes :meth:`_Teachers.asked` has seen to it."""
    if not hasattr(asked, "facts"):
        return 0
    facts = asked.facts(n_units)
    return facts.n_cells if isinstance(facts, RightFacts) else facts.n_components * facts.n_classes


def _worded(price: Guarantee) -> str:
    return f"epsilon {format_up(price.epsilon)} at delta {price.delta:g}"


class _Teachers:
    """What a voter's votes are to a run: bound to the public rows, classes and units of the plan."""

    def __init__(self, voter: Any, unit: str, n_units: int | None) -> None:
        if not isinstance(voter, Voter):
            raise InvalidInputError(
                f"data must be SiteRecords, (X, y), (X, y, groups) or a voter with classes_, n_teachers and vote(X), "
                f"got {shown(voter)}."
            )
        cut = getattr(voter, "partition_", None)
        self.voter, self.classes, self.n_votes = voter, check_classes(voter.classes_), int(voter.n_teachers)
        self.unit = check_choice("unit", unit if cut is None else cut.unit, ("record", "group"))
        self.n_units = check_int("n_units", n_units if cut is None else cut.n_units, low=1)

    def registration(self) -> Registration:
        """Return these teachers' records as a ledger registers them."""
        mark = getattr(self.voter, "_fingerprint", None)
        return Registration(self.unit, self.classes, n_units=self.n_units, n_shards=self.n_votes, fingerprint=mark)

    def asked(self, plan: Plan, kind: str, data: bytes) -> Any:
        """Return the public rows that the plan names; no teacher is asked."""
        if hashlib.sha256(data).hexdigest() != plan.queries:
            raise Refusal("the rows to vote on are not those of the plan.")
        try:
            rows = rows_of(data)
            whole = np.ndim(rows) > 0 and len(rows) * len(self.classes) == plan.n_cells
        except Exception:  # whatever a crafted table or array makes of pandas and NumPy
            whole = False
        if not whole:
            raise Refusal("the rows to vote on cannot be read, or are more or fewer than the plan's.")
        return rows

    def cast(self, rows: Any, say: Callable[[str], object] = str) -> Votes:
        """Return the votes on public rows; no vote at all where that fails, of which ``say`` alone is told."""
        n, why = len(rows), "their votes are not for the rows, classes and units of the plan"
        try:
            votes = self.voter.vote(rows)
            if votes.classes_inferred or votes.partition_seeded:
                why = "their classes were read off private labels, or their shards cut by a known seed"
            known = (votes.classes, votes.unit, votes.n_queries, votes.n_teachers, votes.n_units or self.n_units)
            mine = (self.classes, self.unit, n, self.n_votes, self.n_units)
            if known == mine and not (votes.classes_inferred or votes.partition_seeded):
                return replace(votes, n_units=self.n_units)
        except Exception as error:
            why = str(error) if isinstance(error, PateError) else type(error).__name__
        say(f"the teachers' votes were not counted, and zeros were added in their place: {why}")
        none = np.zeros((n, len(self.classes)), dtype=np.int64)
        return Votes(none, None, self.n_votes, self.classes, self.unit, self.n_units)
