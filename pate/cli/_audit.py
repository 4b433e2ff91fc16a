"""``pate audit``: test the privacy claim of a release by attacks on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pate.cli import _options as o
from pate.cli._app import answer, command_line, free_folder, say, say_json, show_table, was_given
from pate.exceptions import InvalidInputError

#: Exit codes: a claim was refuted; nothing could be tried, which is no claim that stood.
_REFUTED, _NOTHING_TRIED = 1, 3
_VOTES = (".npy", ".npz", ".csv")


def audit(
    context: typer.Context,
    target: Annotated[
        Path,
        typer.Argument(
            help="A run's folder, a model file (.pate), a statement (.json), votes (.npy, .npz, .csv) with a "
            "--mechanism, or a job file (.toml, as pate label --config takes; of pate train with ranges = 'FILE', "
            "without public) to be replayed on its private table."
        ),
    ],
    mechanism: o.MechanismName = None,
    sigma: o.Sigma = None,
    scale: o.Scale = None,
    threshold: o.Threshold = None,
    sigma_threshold: o.SigmaThreshold = None,
    max_answers: o.MaxAnswers = None,
    delta: o.Delta = o.DELTA,
    epsilon: float | None = o.setting(
        "The claimed epsilon of the release, at --delta; if left out, the mechanism's own cost.", o.PRIVACY
    ),
    kind: o.VoteKind = None,
    key: o.VoteKey = None,
    teachers: int | None = o.setting("What every row of counts must sum to.", o.VOTES),
    classes: int | None = o.setting("Number of classes; needed for labels.", o.VOTES),
    rows: int | None = o.setting("Use the first queries only.", o.VOTES),
    canary: Path | None = o.setting(
        "Votes on the same queries with one person's data changed: how well that pair can be distinguished.", o.VOTES
    ),
    published: bool = o.setting(
        "The data are public or made up: the results need not stay inside.", o.PRIVATE, default=False
    ),
    releases: int | None = o.setting("Most releases drawn per histogram of votes; default: 20,000.", o.RUN),
    runs: int | None = o.setting(
        "Most runs of the distinguishing game for each of the two data sets; default: 200 to 2,000.", o.RUN
    ),
    pairs: int | None = o.setting("Pairs of data sets that a job is replayed on; default: one of each kind.", o.RUN),
    out: Path | None = o.setting(
        "Folder for audit.html and audit.json; TARGET.audit, with a number where that is taken.", o.OUTPUT
    ),
    cite: Path | None = o.setting(
        "Write the statement again to this .json file, with what was tried and whether the claim stood.", o.OUTPUT
    ),
) -> None:
    """Test the privacy claim of a release by attacks; exit code 1 if it is refuted, 3 if nothing could be tried."""
    from dataclasses import replace

    from pate._core.curator import need
    from pate._core.files import check_can_write, write_json

    what = _what(target)
    _heeded(context, what)
    if what == "votes" and mechanism is None:
        raise InvalidInputError(
            "--mechanism is missing: votes alone release nothing. Say --mechanism gnmax --sigma 40."
        )
    if cite is not None and (cite.suffix != ".json" or cite.exists()):
        raise InvalidInputError(f"--cite must be a new .json file, got {str(cite)!r}. Name another.")
    need("matplotlib", extra="plots", why="The audit's page")
    named = target.resolve()
    if not named.name:
        raise InvalidInputError(f"{str(target)!r} is no run's folder. Name one.")
    beside = named if target.name in ("", "..") else target
    goal = free_folder(beside.with_name(f"{beside.stem}.audit")) if out is None else out
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InvalidInputError(f"--out {str(out)!r} is taken. Results are never overwritten: name another folder.")
    check_can_write("out", goal / "audit.json")
    if cite is not None:
        if cite.resolve().is_relative_to(goal.resolve()):
            raise InvalidInputError(
                f"--cite must lie outside of the audit's folder {str(goal)!r}, got {str(cite)!r}. Name another place."
            )
        check_can_write("cite", cite)
    how: dict[str, Any] = {"max_releases": releases, "n_runs": runs}
    statement: Any = None
    if what == "votes":
        from pate.audit import audit_votes
        from pate.jobs.vote_files import read_votes

        read: dict[str, Any] = {"kind": kind, "key": key, "n_teachers": teachers, "classes": classes, "rows": rows}
        held = read_votes(target, **read)
        other = None if canary is None else read_votes(canary, **read)
        if not published:
            say(_PRIVATE)
        found = audit_votes(
            held, o.chosen_mechanism(mechanism, sigma, scale, threshold, sigma_threshold), delta=delta,
            max_answers=max_answers, claim=None if epsilon is None else (epsilon, delta), canary=other,
            published=published, **how,
        )  # fmt: skip
    elif what == "job":
        found = _replayed(target, pairs, published=published)
    else:
        from pate.audit import audit_statement

        statement = _statement(target, what)
        if cite is not None and statement.seeded:
            raise InvalidInputError(
                "--cite says nothing of a statement of seeded noise: it promises nothing. Leave it out."
            )
        found = audit_statement(statement, **how)
    found = replace(found, title=f"{found.title}: {named.name}", command=command_line())
    # A statement that holds no more audits is refused before anything is written.
    citing = None if cite is None else statement.with_audits([found]).to_dict()
    found.save(goal)
    if cite is not None:
        write_json(cite, citing)
    _print_audit(found, goal, cite)
    if found.refuted:
        raise typer.Exit(_REFUTED)
    if not found.results and not found.citations:
        raise typer.Exit(_NOTHING_TRIED)


_PRIVATE = (
    "An audit of private data is itself an access to private data: what it finds goes to audit.sensitive.html alone, "
    "for its owner's eyes (--published says that the data are public)."
)
#: Options that are only for one kind of target.
_OF_VOTES = ("mechanism", "sigma", "scale", "threshold", "sigma_threshold", "max_answers", "delta", "epsilon", "kind",
             "key", "teachers", "classes", "rows", "canary")  # fmt: skip
_NOT_HEEDED = {
    "votes": ("pairs", "cite"),
    "job": (*_OF_VOTES, "releases", "runs", "cite"),
    "statement": (*_OF_VOTES, "pairs", "published"),
}
_CALLED = {"votes": "votes", "job": "a job file", "statement": "what has a statement"}


def _what(target: Path) -> str:
    """Return what is to be audited: votes, a job, or what has a statement."""
    if not target.exists():
        raise InvalidInputError(f"there is no file or folder {str(target)!r}. Check the name.")
    if target.is_dir() or target.suffix in (".pate", ".json"):
        return "statement"
    if target.suffix in _VOTES:
        return "votes"
    if target.suffix == ".toml":
        return "job"
    raise InvalidInputError(
        f"TARGET must be a run's folder, a .pate or .json file, votes ({', '.join(_VOTES)}) or a .toml job file, got "
        f"{target.name!r}."
    )


def _heeded(context: typer.Context, what: str) -> None:
    """Refuse options that would be silently ignored."""
    for name in _NOT_HEEDED[what]:
        if was_given(context, name):
            raise InvalidInputError(f"--{name.replace('_', '-')} has no effect on {_CALLED[what]}. Leave it out.")


def _statement(target: Path, what: str) -> Any:
    from pate.models.file import read_model
    from pate.release.statement.files import read_statement

    if target.suffix == ".pate" and target.is_file():
        return read_model(target).statement
    file = target / "statement.json" if target.is_dir() else target
    if not file.is_file():
        raise InvalidInputError(
            f"{str(target)!r} holds no statement.json, as the folder of pate run and pate demo does. Name the "
            "statement's own file."
        )
    return read_statement(file)


def _replayed(target: Path, n_pairs: int | None, *, published: bool) -> Any:
    from pate.audit import audit_job
    from pate.cli._label import LabelOptions
    from pate.cli._options import read_job_file, uses_of

    uses = uses_of(LabelOptions)
    held = read_job_file(target, uses)
    given: dict[str, Any] = {name: Path(v) if uses[name].kind is Path else v for name, v in held.items()}
    if "size" in given:
        given["size"] = o.Size.parse(given["size"])
    if "epsilon" not in given:
        raise InvalidInputError(f"{target.name} must hold epsilon: the noise of a job follows from its budget.")
    options = LabelOptions(**{"out": Path("labels.csv"), **given, "checkpoints": False})
    if options.private is None or (options.public is None and options.range is None and options.ranges is None):
        raise InvalidInputError(
            f"{target.name} must name private, and public (or ranges, a schema's file, as pate train takes): a job is "
            "replayed on a private table."
        )
    if not published:
        say(_PRIVATE)
    say("Replaying the job: all of it runs for every pair, with recorded noise. Nothing is released or charged.")
    return audit_job(options.arguments(), n_pairs=n_pairs, published=published)


def _print_audit(found: Any, goal: Path, cite: Path | None) -> None:
    document = found.to_dict()
    say_json({**document, "refuted": found.refuted, "folder": goal, "cited_in": cite})
    heading, *lines = found.table()
    show_table(found.title, heading, lines, texts=True)
    answer(found.summary())
    for text in found.left_out:
        say(f"Not tried: {text}")
    if cite is not None:
        answer(f"Wrote {cite}")
    answer(f"Open {goal / 'audit.html'}.")
    if found.sensitive:
        answer(f"{goal / 'audit.sensitive.html'} is for its owner alone, and not for publication.")
