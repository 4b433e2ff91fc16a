"""``pate federation``: labels and models from records that stay at several institutions."""

from __future__ import annotations

import shlex
import typing
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Literal

import typer

from pate.cli import _options as o
from pate.cli._app import (
    answer,
    command_line,
    complain,
    confirmed,
    free_folder,
    is_interactive,
    say,
    say_json,
    show_progress,
    show_table,
)
from pate.cli._label import LabelOptions, answer_quality, measured, what_is_stated
from pate.exceptions import FederationError, InvalidInputError

app = typer.Typer(
    cls=o.CommandGroup,
    help="Labels and models from records that stay at several institutions: only noisy sums leave them.",
    no_args_is_help=True,
)

#: What a person who is asked and says no ends with.
_DECLINED = 1


def _as_label(name: str) -> Any:
    """Return the option of ``pate label`` of that name."""
    (found,) = [f for f in fields(LabelOptions) if f.name == name]
    return o.field(default=found.default, metadata=found.metadata)


# ``pate federation init``: certificates and files for everybody.


def init(
    out: Path = o.setting("Folder to make; absent or empty.", o.OUTPUT, default=MISSING),
    coordinator: str = o.setting(
        "Who asks: a name, and where the sites reach it; the port given and the next are taken.",
        o.RUN,
        default="registry@127.0.0.1:0",
        metavar="NAME@HOST:PORT",
    ),
    site: list[str] = o.setting(
        "A site, likewise; once for each, two at least.", o.RUN, default=(), metavar="NAME@HOST:PORT"
    ),
    sites: int | None = o.setting("Instead of all these: so many sites on this machine, at free ports.", o.RUN),
) -> None:
    """Make certificates and configuration files for the institutions of a federation."""
    from pate.federation import Member, init_federation, local_members

    if (sites is None) != bool(site):
        raise InvalidInputError(
            "--site must be said once for each site, or --sites N for N sites on this machine: one of both, got "
            f"{'both' if site else 'none'}."
        )
    if sites is None:
        asks, others = Member.parse("--coordinator", coordinator), [Member.parse("--site", text) for text in site]
    else:
        asks, others = local_members(sites)
    members, bundles = init_federation(out, coordinator=asks, sites=others)
    for one in members.sites:
        write_site_file(bundles[one.name])
    say_json({"sites": out / "sites.toml", "authority": out / "authority", "bundles": bundles})
    answer(
        f"Wrote {out / 'sites.toml'}: who takes part, public. Everybody compares its authority, {members.authority}."
    )
    answer(f"Wrote a bundle for each institution, to be handed over safely: {', '.join(map(str, bundles.values()))}.")
    answer(
        f"Keep {out / 'authority'} offline: whoever has its key can pass for any institution. No run needs it. Next, "
        "at each site: fill in site.toml of its bundle, then pate federation site --config site.toml."
    )


def write_site_file(bundle: Path, **said: Any) -> Path:
    """Write the ``site.toml`` of a bundle: what is said, and every other key as a comment."""
    from pate._core.files import write_text

    lines = ["# The configuration of a site: pate federation site --config site.toml. Paths start at this folder.", ""]
    for one, use in zip(fields(SiteOptions), o.uses_of(SiteOptions).values(), strict=True):
        if not use.not_in_file:
            key, value = one.name.replace("_", "-"), said.get(one.name, one.default)
            text = _toml(use.kind, None if value is MISSING else value)
            lines += [f"# {one.metadata['option'].help}", f"{'' if one.name in said else '# '}{key} = {text}", ""]
    write_text(bundle / "site.toml", "\n".join(lines))
    return bundle / "site.toml"


def _toml(kind: Any, value: Any) -> str:
    """Return a value as TOML has it; of none one that shows what would stand there."""
    import json

    if value is None:
        shown = "grey" if typing.get_origin(kind) is Literal else "28x28" if kind is o.Size else ""
        value = {int: 1, float: 1.0}.get(kind, [] if kind == list[str] else shown)
    listed = isinstance(value, tuple | list)
    return json.dumps(list(value) if listed else str(value) if isinstance(value, Path) else value)


# ``pate federation site``: one institution, which waits to be asked.


def _take_config(context: typer.Context, value: Path | None) -> Path | None:
    """Let a file's options stand in for those that the command line leaves out."""
    if value is not None:
        found = o.read_job_file(value, o.uses_of(SiteOptions))
        found.setdefault("bundle", str(value.parent))
        context.default_map = {**(context.default_map or {}), **found}
    return value


@dataclass(frozen=True, kw_only=True)
class SiteOptions:
    """The options of ``pate federation site``, and the keys of its file."""

    private: Path | None = o.setting(
        "Private table of this site: CSV, Parquet, xlsx, npz, ...; or folder of images, one sub-folder per class.",
        o.PRIVATE,
    )
    target: str | None = o.setting("Column of the classes.", o.PRIVATE)
    group: str | None = o.setting(
        "Column with the id of the person each row belongs to: protects people, not rows.", o.PRIVATE
    )
    classes: list[str] | None = o.setting(
        "Every class that could occur, in the order that all sites agreed on. Public knowledge.",
        o.PRIVATE,
        **o.AS_NAMES,
    )
    id: str | None = o.setting("Column of ids: not a feature.", o.TABLES)
    drop: list[str] = _as_label("drop")
    sep: str | None = _as_label("sep")
    encoding: str | None = _as_label("encoding")
    decimal: str | None = o.setting("Decimal sign of a CSV file: . or ,", o.TABLES)
    thousands: str | None = o.setting("Between thousands of a CSV file: , . apostrophe or space", o.TABLES)
    sheet: str | None = _as_label("sheet")
    size: o.Size | None = o.setting("Size of all images, as the public ones have it.", o.IMAGES, **o.AS_SIZE)
    color: Literal["grey", "rgb"] | None = o.setting("Colour of all images, as the public ones have it.", o.IMAGES)
    max_sites_per_person: int = o.setting(
        "At so many sites one person may have records, as far as you know: that multiplies what it costs.",
        o.PRIVATE,
        default=1,
    )

    ledger: Path | None = o.setting(
        "Ledger of all releases from this private data; default: PRIVATE.ledger.sqlite, beside it.", o.PRIVACY
    )
    total_epsilon: float | None = o.setting(
        "What all runs together may cost this site's people, above 0; fixed when the ledger is begun.", o.PRIVACY
    )
    total_delta: float = o.setting("Probability of exceeding it.", o.PRIVACY, default=o.DELTA)
    max_epsilon: float | None = o.setting(
        "Standing consent: a run that costs this site at most so much goes on without a question. Without it every run "
        "is asked about.",
        o.PRIVACY,
    )
    min_tolerate: int = o.setting(
        "Standing consent: a run is protected against so many parties together, at least.", o.PRIVACY, default=1
    )
    min_sites: int = o.setting("Standing consent: so many sites take part at least.", o.PRIVACY, default=3)
    recipients: list[str] = o.setting(
        "Standing consent: who may receive the result; default: the coordinator alone.",
        o.PRIVACY,
        default=o.Names(),
        **o.AS_NAMES,
    )

    bundle: Path | None = o.setting("Folder with this site's certificate, key and sites.toml.", o.RUN)
    config: Path | None = o.setting(
        "TOML file with any of these options, as pate federation init wrote it; the command line wins.",
        o.RUN,
        callback=_take_config,
        is_eager=True,
        not_in_file="a file names no other file. Put all options into one",
    )
    yes: bool = o.setting(
        "Agree without asking: to every run that the ledger can pay, within a standing consent where there is one.",
        o.RUN,
        "--yes",
        "-y",
        default=False,
        not_in_file="it agrees to whatever is asked. Write a standing consent, or say --yes on the command line",
    )
    once: bool = o.setting("End after one run.", o.RUN, default=False, not_in_file="it is for the command line alone")


#: How the private data are written, as ``SiteRecords.of_file`` takes it.
_WRITTEN = ("target", "group", "id", "drop", "sep", "encoding", "decimal", "thousands", "sheet", "size", "color")


def _site_of(options: SiteOptions) -> Any:
    """Return the site that the options describe, or say which of them is missing or wrong."""
    from pate.data import beside
    from pate.federation import Consent, Members, Site, SiteRecords
    from pate.privacy.budget import Budget
    from pate.release import site_ledger

    for name in ("private", "classes", "total_epsilon", "bundle"):
        if getattr(options, name) is None:
            key = name.replace("_", "-")
            raise InvalidInputError(f"--{key} is missing: write {key} = ... into site.toml, or say it here.")
    if not (options.yes or options.max_epsilon is not None or is_interactive()):
        raise InvalidInputError(
            "--max-epsilon is missing, and there is no terminal at which somebody could be asked: write a standing "
            "consent into site.toml (max-epsilon and the keys beside it), or say --yes."
        )
    bundle = Path(options.bundle or "")
    members = Members.read(bundle / "sites.toml")
    me = members.own(bundle)
    budget = Budget(float(options.total_epsilon or 0), options.total_delta)
    private = Path(options.private or "")
    written = {name: value for name in _WRITTEN if (value := getattr(options, name))}
    records = SiteRecords.of_file(private, classes=options.classes, verbose=show_progress(), **written)
    ledger = site_ledger(beside(private, ".ledger.sqlite") if options.ledger is None else options.ledger, budget)
    consent = None
    if options.max_epsilon is not None:
        consent = Consent(
            max_epsilon=options.max_epsilon,
            delta=options.total_delta,
            coordinators=(members.coordinator.name,),
            recipients=tuple(options.recipients) or (members.coordinator.name,),
            min_sites=options.min_sites,
            min_tolerate=options.min_tolerate,
            max_sites_per_person=options.max_sites_per_person,
        )
    return Site(
        me.name, records, ledger=ledger, budget=budget, bundle=bundle, host=me.host, port=me.port,
        engine_port=me.engine_port, say=lambda text: _tell(f"{me.name}: {text}"), consent=consent,
        approve=lambda plan, price: _agrees(options, ledger, plan, price),
    )  # fmt: skip


def _tell(text: str) -> None:
    """Say what happens at a site; what failed is said with ``--quiet`` too, as nobody else learns why."""
    if " failed: " in text:
        complain(f"warning: {text}", "yellow")
    else:
        say(text)


def _agrees(options: SiteOptions, ledger: Any, plan: Any, price: Any) -> bool:
    """Show what a run would do and cost here; ask the person at the terminal, unless they have said yes before."""
    from pate.federation import plan_lines

    if plan.max_sites_per_person < options.max_sites_per_person:
        complain(
            f"refused: the plan counts on {plan.max_sites_per_person} sites a person, and --max-sites-per-person is "
            f"{options.max_sites_per_person} here.",
            "yellow",
        )
        return False
    left = ledger.remaining()
    assert left.total is not None  # a site's ledger has one from the beginning
    lines = [
        *plan_lines(plan, price.delta),
        ("left here", f"{left.fraction_left:.1%} of epsilon {left.total.epsilon:g}"),
    ]
    say("Asked:\n" + lined(lines))
    if options.yes or options.max_epsilon is not None:
        return True
    question = "This is charged to this site's ledger, and cannot be undone. Agree?"
    return confirmed(question, patiently=True)


def lined(lines: list[tuple[str, str]]) -> str:
    """Return named lines under one another."""
    return "\n".join(f"  {name:<12}" + text.replace("\n", "\n" + " " * 14) for name, text in lines)


@o.takes_options(SiteOptions)
def site(context: typer.Context, options: SiteOptions) -> None:
    """Take part for one institution: wait to be asked, show the cost, agree or refuse, and add what leaves it."""
    one = _site_of(options)
    say(
        f"{one.name} waits at {one.host}:{one.port}; Ctrl-C ends it. Until a run is agreed to, nothing leaves but how "
        "many records there are."
    )
    one.serve(once=options.once)
    left = one.ledger.remaining()
    say_json({"site": one.name, "runs": one.n_ended, "ledger": one.ledger.path, "remaining": left.to_dict()})
    answer(
        f"{one.name} ended after {one.n_ended} run{'s' * (one.n_ended != 1)}. What leaves in a run: secret shares of "
        f"its sums with its own noise in them. {left.fraction_left:.1%} of its budget is left (pate ledger show "
        f"{shlex.quote(str(one.ledger.path))})."
    )


# ``pate federation ask``: the coordinator.


@dataclass(frozen=True, kw_only=True)
class AskOptions:
    """The options of ``pate federation ask``; those of ``pate label`` mean the same here."""

    public: Path = o.setting("Public table, or flat folder of images.", o.PUBLIC, default=MISSING)
    classes: list[str] | None = o.setting(
        "Every class that could occur, in order; default: as the sites name them.", o.PUBLIC, **o.AS_NAMES
    )
    id: str | None = _as_label("id")
    drop: list[str] = _as_label("drop")
    text: list[str] = _as_label("text")
    sep: str | None = _as_label("sep")
    encoding: str | None = _as_label("encoding")
    decimal: Literal[".", ","] | None = _as_label("decimal")
    thousands: o.Thousands = None
    dates: Literal["auto", "day-first", "month-first", "text"] = _as_label("dates")
    sheet: str | None = _as_label("sheet")
    size: o.Size | None = _as_label("size")
    resize: bool = _as_label("resize")
    color: Literal["grey", "rgb"] | None = _as_label("color")

    bundle: Path = o.setting("Folder with the coordinator's certificate and key.", o.RUN, default=MISSING)
    sites: Path | None = o.setting("Who takes part: a sites.toml; default: that of the bundle.", o.RUN)
    tolerate: int = o.setting(
        "So many parties, the coordinator among them, may put together all that they saw, and learn nothing but the "
        "result; below half of all. Their noise is not counted.",
        o.PRIVACY,
        default=MISSING,
    )
    max_sites_per_person: int = o.setting(
        "A person may have records at so many sites, as the sites declare: that multiplies the cost.",
        o.PRIVACY,
        default=1,
    )
    epsilon: o.Epsilon
    delta: o.Delta = o.DELTA
    recipients: list[str] = o.setting(
        "Sites that get the result too, to label their own rows at home.", o.PRIVACY, default=o.Names(), **o.AS_NAMES
    )

    tuning: o.Tuning = ""
    dataset_name: str | None = _as_label("dataset_name")
    organisation: str | None = _as_label("organisation")
    purpose: str | None = _as_label("purpose")
    stated: list[str] | None = _as_label("stated")
    decide: Literal["likeliest", "balanced"] = _as_label("decide")
    measure: Literal["yes", "no", "by-class"] | None = _as_label("measure")
    no_model: bool = _as_label("no_model")

    out: Path = _as_label("out")
    proba: bool = _as_label("proba")
    raw_csv: bool = _as_label("raw_csv")
    folder: Path | None = o.setting(
        "Where the released noisy sums are stored, so that the same ask again is free; default: "
        "PUBLIC.federation, beside it.",
        o.RUN,
        argument="checkpoint_dir",
    )
    deadline: float = o.setting("Seconds that one round may take, at the slowest site.", o.RUN, default=600.0)
    agree_deadline: float = o.setting("Seconds in which all sites must have agreed.", o.RUN, default=3600.0)
    retry: bool = o.setting(
        "Ask again what broke off after sites were charged: every site charges the whole plan once more.",
        o.RUN,
        default=False,
    )
    force: bool = _as_label("force")
    yes: bool = _as_label("yes")
    plan: bool = _as_label("plan")
    seed: o.Seed = 0

    def job(self) -> Any:
        """Return what reads the file and asks."""
        from pate.data import beside, is_table
        from pate.federation import AskJob, Members
        from pate.privacy.budget import Budget

        members = Members.read(self.bundle / "sites.toml" if self.sites is None else self.sites)
        if (me := members.own(self.bundle)) != members.coordinator:
            raise InvalidInputError(
                f"--bundle must be that of the coordinator, {members.coordinator.name}, got {me.name}'s. A site that "
                "asks itself does so in Python: docs/federation.md."
            )

        names = _TABLE if is_table(self.public) else _IMAGES
        for name in (*_TABLE, *_IMAGES):
            if name not in names and getattr(self, name) not in (None, False, "auto", o.Names()):
                other = "tables" if name in _TABLE else "folders of images"
                raise InvalidInputError(f"--{name} is for {other}. Leave it out.")
        stated = {"dataset": self.dataset_name, "organisation": self.organisation, "purpose": self.purpose}
        return AskJob(
            self.public,
            classes=self.classes,
            keep_model=not self.no_model,
            written={name: getattr(self, name) for name in names},
            sites=members,
            bundle=self.bundle,
            tolerate=self.tolerate,
            max_sites_per_person=self.max_sites_per_person,
            budget=Budget(self.epsilon, self.delta),
            recipients=(me.name, *self.recipients),
            checkpoint_dir=beside(self.public, ".federation") if self.folder is None else self.folder,
            deadline=self.deadline,
            agree_deadline=self.agree_deadline,
            retry=self.retry,
            measure=measured(self.measure),
            decide=self.decide,
            tuning=self.tuning,
            stated=what_is_stated(self.stated, **stated),
            force=self.force,
            random_state=self.seed,
        )


#: How public rows are written.
_TABLE = ("id", "drop", "text", "sep", "encoding", "decimal", "thousands", "dates", "sheet")
_IMAGES = ("size", "resize", "color")


@o.takes_options(AskOptions)
def ask(context: typer.Context, options: AskOptions) -> None:
    """Label public rows by records that stay at the sites; the price is shown before any of them is asked to agree."""
    from pate.federation import plan_lines
    from pate.jobs import check_new_files

    check_new_files(options.out, model=not options.no_model)
    job = options.job()
    planned: dict[str, Any] = {}

    def approve(plan: Any) -> None:
        lines = plan_lines(plan, options.delta)
        planned.update(plan=dict(lines), terms=plan.to_dict())
        (answer if options.plan else say)("Plan\n" + lined(lines))
        if options.plan:
            say_json(planned)
            raise typer.Exit
        if options.yes or not is_interactive():
            return
        if not confirmed("The sites charge this to their people's budgets; it cannot be undone. Ask them?"):
            complain("Nothing was spent, and no site was asked to agree. --plan shows the plan alone.", "yellow")
            raise typer.Exit(_DECLINED)

    try:
        release = job.run(approve=approve, say=say)
    except KeyboardInterrupt as stop:  # that it may be taken up again is not true of sites
        told = " ".join(getattr(stop, "__notes__", ())) or "No site was charged by this command."
        raise FederationError(f"interrupted. {told}") from None
    paths = job.write(release, options.out, proba=options.proba, raw_csv=options.raw_csv)
    answer(f"Labels of {release.n_queries} public rows. {release.statement.headline}")
    answer_quality(release.statement)
    answer("Wrote " + ", ".join(map(str, paths)))
    if job.keeps_model:
        model = options.out.with_name(options.out.stem + ".pate")
        job.model(release).save(model)
        paths.append(model)
        answer(f"Wrote {model}, the model: every site may have it, and label its own rows at home (pate predict).")
    say_json({**planned, "queries": release.n_queries, "statement": release.statement.to_dict(), "files": paths})


# ``pate federation demo``: all of it on one machine.


def demo(
    sites: int = o.setting("How many.", o.RUN, default=10),
    tolerate: int | None = o.setting(
        "So many parties may put together all that they saw, and learn no more than what is released; default: a third "
        "of the sites.",
        o.PRIVACY,
    ),
    epsilon: o.Epsilon = 3.0,
    out: Path = o.setting(
        "Folder for all files; a number is appended when it is taken.", o.OUTPUT, default=Path("runs/federation")
    ),
) -> None:
    """Run a federation on this machine with scikit-learn's digits, and draw what each viewer saw."""
    from pate._core.curator import need

    need("matplotlib", extra="plots", why="Its picture")
    from pate.federation import init_federation, local_members, viewers_of
    from pate.federation.demo import TARGET, DemoData, accuracies, running_sites, what_was_seen
    from pate.privacy.budget import Budget
    from pate.report import write_viewers

    folder, t = free_folder(out), max(1, sites // 3) if tolerate is None else tolerate
    asks, others = local_members(sites)
    members, bundles = init_federation(folder, coordinator=asks, sites=others)
    data = DemoData(sites)
    cohort = data.write(folder, [bundles[one.name] for one in others])
    classes = [str(digit) for digit in range(10)]
    said = {"private": Path("records.csv"), "target": TARGET, "classes": classes, "total_epsilon": epsilon}
    configs = {one: write_site_file(bundles[one.name], **said, max_epsilon=epsilon) for one in others}
    say(
        f"{sites} sites, each with about {len(data.parts[0])} of scikit-learn's digits, and {asks.name}, who asks them "
        f"to label {cohort}: epsilon {epsilon:g} against any {t} of them. Programs, certificates and engine are the "
        "real ones."
    )
    options = AskOptions(
        public=cohort, bundle=bundles[asks.name], tolerate=t, epsilon=epsilon, out=folder / "labels.csv", yes=True,
        classes=classes, deadline=60.0, agree_deadline=60.0,
    )  # fmt: skip
    plans: list[Any] = []
    job, record = options.job(), folder / "received"
    record.mkdir(mode=0o700)
    with running_sites(configs):
        say("All sites are running.")
        release = job.run(approve=plans.append, say=say, record=record)
    paths = [*job.write(release, options.out), folder / "labels.pate"]
    model = job.model(release)
    model.save(paths[-1])
    rows = accuracies(data, Budget(epsilon, options.delta), model)
    panels = what_was_seen(data, members, plans[0], job.rounds_, release, record)
    page = folder / "federation.html"
    write_viewers(
        page,
        title=f"{sites} sites, one model: what each viewer saw",
        lines=_DEMO_LINES,
        panels=panels,
        columns=classes,
        caption=_DEMO_CAPTION.format(t=t, more=t + 1, site=others[0].name),
        viewers=[(f"{others[0].name} itself", _OWN, "none"), *viewers_of(plans[0], options.delta)],
        accuracies=rows,
        command=command_line(),
    )
    say_json({"accuracies": rows, "statement": release.statement.to_dict(), "files": [*paths, page]})
    show_table("Right on test rows", ("who learnt", "guarantee", "right"), [(a, b, f"{c:.1%}") for a, b, c in rows])
    answer(release.statement.headline)
    answer(f"Open {page}: what each viewer saw. All files are in {folder}.")


_DEMO_LINES = (
    "Each site holds records of its own. They vote at home on public maps; each site adds its share of the noise and "
    "deals the result out in secret shares, one to every party; only the sum of all sites is put together again.",
    "Everything here was made by the programs that a real federation runs, on one machine. The data are public "
    "(scikit-learn's digits), so that this page may show what nobody but a site itself ever sees.",
)
#: Of a site that is no recipient.
_OWN = "its own records, ballots and noise, and one share from each other party; not the result"
_DEMO_CAPTION = (
    "The first of all rounds. A row is a direction of the public map (on the right: a public row), a column a digit; a "
    "square is as large as the number, orange below zero, each picture by its own scale. Second: what the engine "
    "really received; 1 and -1 are the ends of the field that it computes in. The shares of any {t} parties together "
    "are uniform whatever the ballots are. {more} of them would give away what {site} put in: its ballots and noise."
)

#: In the order of ``pate federation --help``.
COMMANDS = (init, site, ask, demo)
