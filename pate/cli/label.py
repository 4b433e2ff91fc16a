"""``pate label``: files in, labels out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pate.cli._app import (
    Delta,
    Epsilon,
    Gap,
    Jobs,
    MaxAnswers,
    MechanismName,
    OnExhausted,
    PartitionSeed,
    Queries,
    Scale,
    Seed,
    Sigma,
    SigmaThreshold,
    Teachers,
    Threshold,
    Tuning,
    chosen_mechanism,
    say,
)
from pate.exceptions import InvalidInputError


class Names(tuple[str, ...]):
    """Names as a command line gives them, ``a,b``, or a configuration file, ``['a', 'b']``.

    Examples
    --------
    >>> Names.parse("no, yes"), Names.parse(["a,b", "c"])
    (('no', 'yes'), ('a,b', 'c'))
    """

    __slots__ = ()

    @classmethod
    def parse(cls, value: Any) -> Names:
        """Return the names in a text or a list."""
        return cls(value if not isinstance(value, str) else (part.strip() for part in value.split(",") if part.strip()))


class Size(tuple[int, int]):
    """Width and height, such as ``28x28``.

    Examples
    --------
    >>> Size.parse("28x20")
    (28, 20)
    """

    __slots__ = ()

    @classmethod
    def parse(cls, value: Any) -> Size:
        """Return the two numbers in a text."""
        if not isinstance(value, str):
            return cls(value)
        width, _, height = value.lower().partition("x")
        if not (width.strip().isdecimal() and height.strip().isdecimal()):
            raise InvalidInputError(f"size must be WIDTHxHEIGHT such as 28x28, got {value!r}.")
        return cls((int(width), int(height)))


def _take_config(context: typer.Context, value: Path | None) -> Path | None:
    """Let a file's options stand in for those that the command line leaves out."""
    if value is not None:
        from pate.jobs import read_job_file

        context.default_map = {**(context.default_map or {}), **read_job_file(value)}
    return value


def _size(value: Any) -> Size:
    try:
        return Size.parse(value)
    except InvalidInputError as error:  # some versions of click tell of any ValueError in words of their own
        raise typer.BadParameter(str(error)) from None


def _names(text: str) -> Any:
    return typer.Option(help=text, parser=Names.parse, metavar="A,B,...")


def label(
    context: typer.Context,
    epsilon: Epsilon,
    out: Annotated[Path, typer.Option(help="CSV file to write; must not exist. Missing folders are made.")],
    private: Annotated[
        Path | None,
        typer.Option(help="Private table (CSV, csv.gz, Parquet, npz, npy), or folder of one sub-folder per class."),
    ] = None,
    public: Annotated[
        Path | None, typer.Option(help="Public table with the same features, or flat folder of images.")
    ] = None,
    votes: Annotated[
        Path | None,
        typer.Option(
            help="Instead of --private: votes cast elsewhere, npy, npz or csv; labels (teachers x rows, "
            "indices into --classes) or counts (rows x classes). With --public, line for line, the ledger knows rows."
        ),
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="With --votes: labels or counts, where the file's shape does not tell.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="With --votes: which array of an .npz, where it has several.")] = None,
    unit: Annotated[str, typer.Option(help="With --votes: what one teacher's shard holds whole: record or group.")] = (
        "record"
    ),
    units: Annotated[int | None, typer.Option(help="With --votes: how many of them there are, if known.")] = None,
    target: Annotated[str | None, typer.Option(help="Column of the classes; folders of images have none.")] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="TOML file with any of these options; the command line wins. Its paths start at its own folder.",
            callback=_take_config,
            is_eager=True,
        ),
    ] = None,
    classes: Annotated[
        Names | None,
        _names("Every class that could occur, by commas. Public knowledge: left out, it is read off and leaks."),
    ] = None,
    delta: Delta = 1e-5,
    teachers: Teachers = 100,
    group: Annotated[
        str | None,
        typer.Option(
            help="Column that says whose row it is: protects people, not rows. For images: prefix, the file name's "
            "part before _."
        ),
    ] = None,
    drop: Annotated[Names | None, _names("Columns to leave out, separated by commas.")] = None,
    text: Annotated[Names | None, _names("Columns of codes: text even where they look like numbers.")] = None,
    teacher: Annotated[
        str,
        typer.Option(
            help="logistic-regression, random-forest, hist-gradient-boosting, mlp, svm, knn, decision-tree, "
            "naive-bayes, torch-mlp, torch-small-cnn, ...; or package.module:attribute with --allow-import."
        ),
    ] = "logistic-regression",
    allow_import: Annotated[
        bool,
        typer.Option("--allow-import", help="Import the teacher's module. This runs its code: only if you trust it."),
    ] = False,
    mechanism: MechanismName = None,
    sigma: Sigma = None,
    scale: Scale = None,
    threshold: Threshold = None,
    sigma_threshold: SigmaThreshold = None,
    queries: Queries = None,
    select: Annotated[
        str,
        typer.Option(
            help="How they are chosen, from public information alone: random, first, spread, cluster (for many rows), "
            "or uncertain: in rounds, where a student of the labels so far is least sure."
        ),
    ] = "random",
    rounds: Annotated[int | None, typer.Option(help="Rounds of --select uncertain; 5 when left out.")] = None,
    student: Annotated[str | None, typer.Option(help="Student of --select uncertain; logistic-regression.")] = None,
    gap: Gap = None,
    max_answers: MaxAnswers = None,
    on_exhausted: OnExhausted = "raise",
    preprocess: Annotated[
        str, typer.Option(help="Scaling and encoding learnt from: public rows, shard, or none.")
    ] = "public",
    max_categories: Annotated[
        int, typer.Option(help="Most columns that one text column becomes, by what is frequent in public rows.")
    ] = 50,
    size: Annotated[
        Size | None,
        typer.Option(help="Size of all images; the public ones' when left out.", parser=_size, metavar="WxH"),
    ] = None,
    resize: Annotated[bool, typer.Option("--resize", help="Bring other images to that size, not refuse them.")] = False,
    color: Annotated[str | None, typer.Option(help="grey or rgb: bring all images to that.")] = None,
    overlap_is_public: Annotated[
        bool,
        typer.Option("--overlap-is-public", help="You say that the public rows are public, wherever they also stand."),
    ] = False,
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="Ledger of the private data, under whatever names they come; default: PRIVATE.ledger.sqlite, beside "
            "it. For --votes it must be there, or --new-ledger be said."
        ),
    ] = None,
    ledger_currency: Annotated[
        str | None,
        typer.Option(
            help="What a new ledger counts in, for good: gdp, renyi, renyi:ORDER or pure; left out, whichever buys "
            "most of the first release's kind.",
        ),
    ] = None,
    new_ledger: Annotated[
        bool,
        typer.Option("--new-ledger", help="Start a ledger: nothing was released from these private data before."),
    ] = False,
    checkpoints: Annotated[
        bool, typer.Option(help="Keep finished teachers in OUT.private, so that a killed run goes on.")
    ] = True,
    seed: Seed = 0,
    partition_seed: PartitionSeed = None,
    jobs: Jobs = -1,
    tuning: Tuning = "",
    dataset_name: Annotated[str | None, typer.Option(help="For the statement: what the private data are.")] = None,
    organisation: Annotated[str | None, typer.Option(help="For the statement: who holds them.")] = None,
    purpose: Annotated[str | None, typer.Option(help="For the statement: what the labels are for.")] = None,
    state: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=TEXT",
            help="For the statement: how you ensured one of its assumptions, such as 'one person=patients are unique "
            "by their number'. What nobody states and pate did not see to is open. May be given several times.",
        ),
    ] = None,
    safe_csv: Annotated[
        bool, typer.Option("--safe-csv", help="An apostrophe before cells that a spreadsheet would run as a formula.")
    ] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Only say what would be done and spent.")] = False,
) -> None:
    """Label public rows with what teachers learn from private ones, within a budget."""
    _check_way_in(context, votes is not None)
    from pate.jobs import LabelJob, VoteJob, check_new_files
    from pate.privacy.budget import Budget

    check_new_files(out)
    common: dict[str, Any] = {
        "classes": classes,
        "budget": Budget(epsilon, delta),
        "mechanism": chosen_mechanism(mechanism, sigma, scale, threshold, sigma_threshold),
        "n_queries": queries,
        "select": select,
        "gap": gap,
        "max_answers": max_answers,
        "on_exhausted": on_exhausted,
        "ledger_currency": ledger_currency,
        "random_state": seed,
        "tuning": tuning,
        "stated": _stated(state, dataset=dataset_name, organisation=organisation, purpose=purpose),
    }
    if votes is not None:
        if private is not None:
            raise InvalidInputError("--private and --votes are two ways in: teachers here, or votes cast elsewhere.")
        _finish(
            VoteJob(
                votes,
                public=public,
                kind=kind,
                key=key,
                unit=unit,
                n_units=units,
                ledger=ledger,
                new_ledger=new_ledger,
                **common,
            ),
            out,
            plan,
            safe_csv,
        )
        return
    if private is None or public is None:
        missing = "--private" if private is None else "--public"
        raise InvalidInputError(f"{missing} is missing: name private and public data, or --votes cast elsewhere.")
    job = LabelJob(
        private,
        public,
        target=target,
        group=group,
        drop=drop or (),
        text=text or (),
        teacher=teacher,
        allow_import=allow_import,
        n_teachers=teachers,
        rounds=rounds,
        student=student,
        preprocess=preprocess,
        max_categories=max_categories,
        size=size,
        resize=resize,
        color=color,
        overlap_is_public=overlap_is_public,
        ledger=ledger or private.with_name(private.name + ".ledger.sqlite"),
        new_ledger=new_ledger,
        partition_seed=partition_seed,
        checkpoint_dir=out.with_name(out.stem + ".private") / "teachers" if checkpoints and not plan else None,
        n_jobs=jobs,
        verbose=True,
        **common,
    )
    _finish(job, out, plan, safe_csv)


def _stated(pairs: list[str] | None, **named: str | None) -> dict[str, str]:
    """Return what a person states: each name once, in their words."""
    found = {name: text for name, text in named.items() if text is not None}
    for pair in pairs or ():
        name, sign, text = pair.partition("=")
        name = name.strip()
        if not sign or name in found:
            wrong = "is stated twice" if sign else "has no = in it"
            raise InvalidInputError(f"--state must be NAME=TEXT, each name once; {name[:60]!a} {wrong}.")
        found[name] = text.strip()
    return found


#: What is said about teachers here, and what about votes cast elsewhere.
_OF_TEACHERS = [
    "target",
    "group",
    "drop",
    "text",
    "teacher",
    "allow_import",
    "teachers",
    "rounds",
    "student",
    "preprocess",
    "max_categories",
    "size",
    "resize",
    "color",
    "overlap_is_public",
    "checkpoints",
    "partition_seed",
    "jobs",
]
_OF_VOTES = ("kind", "key", "unit", "units")


def _check_way_in(context: typer.Context, votes: bool) -> None:
    """Refuse options that would be passed over in silence: a --group that is not heeded protects nobody."""
    for name in _OF_TEACHERS if votes else _OF_VOTES:
        source = context.get_parameter_source(name)
        if source is not None and source.name != "DEFAULT":  # the command line, or a configuration file
            option = "--" + name.replace("_", "-")
            here = "votes cast elsewhere (--votes)" if votes else "teachers trained here (--private)"
            raise InvalidInputError(f"{option} says nothing about {here}. Leave it out.")


def _finish(job: Any, out: Path, plan: bool, safe_csv: bool) -> None:
    say(f"Plan\n{job.plan.text()}")
    if plan:
        return
    release = job.run()
    paths = job.write(release, out, safe_csv=safe_csv)
    say(f"{release.n_answered} of {release.n_queries} questions answered. {release.statement.headline}")
    say("Wrote " + ", ".join(str(p) for p in paths))
