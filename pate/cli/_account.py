"""``pate plan``: what a budget buys; ``pate account``: the privacy cost of a vote matrix made elsewhere."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from pate.cli import _options as o
from pate.cli._app import answer, manner, say_json, show_table
from pate.exceptions import InvalidInputError


def _votes(value: Path) -> Path:
    """Refuse a file that holds no votes before other options are asked for."""
    from pate.jobs.vote_files import check_vote_file

    check_vote_file(value)
    return value


def account(
    votes: Annotated[Path, typer.Argument(help="Votes: .npy, .npz or .csv.", callback=_votes)],
    delta: o.Delta,
    mechanism: o.NamedMechanism,
    sigma: o.Sigma = None,
    scale: o.Scale = None,
    threshold: o.Threshold = None,
    sigma_threshold: o.SigmaThreshold = None,
    max_answers: o.MaxAnswers = None,
    kind: o.VoteKind = None,
    key: o.VoteKey = None,
    teachers: int | None = o.setting("What every row of counts must sum to.", o.VOTES),
    classes: int | None = o.setting("Number of classes; needed for labels.", o.VOTES),
    rows: int | None = o.setting("Use the first queries only.", o.VOTES),
    sanitise: str | None = o.setting(
        "Also give a publishable bound (gnmax, confident-gnmax): 'usual' settings, or ORDER,BETA,NOISE[,DELTA0] of "
        "smooth sensitivity, chosen without the votes; DELTA0, a tenth of delta if left out, is its part of delta. "
        "Needs --ledger.",
        o.PRIVACY,
    ),
    ledger: Path | None = o.setting(
        "Ledger of the private data, which is charged for the sanitised number and stores it.", o.PRIVACY
    ),
    new_ledger: float | None = o.setting(
        "Make that ledger, with this total epsilon (at --delta), counted in Renyi divergence.",
        o.PRIVACY,
        "--new-ledger",
    ),
    pld: bool | None = o.setting(
        "Compose privacy loss distributions too; default: where it takes seconds.", o.RUN, "--pld/--no-pld"
    ),
    reveal: bool = o.setting("Also print data-dependent costs, which are private.", o.OUTPUT, default=False),
    plot: Path | None = o.setting(
        "Draw epsilon against the number of queries into this .png or .svg; needs --reveal.", o.OUTPUT
    ),
) -> None:
    """Compute the privacy cost of a vote matrix under a mechanism."""
    from pate._core.checks import check_int
    from pate._core.curator import need
    from pate._core.files import atomic_path, check_can_write
    from pate.jobs.vote_files import read_votes
    from pate.release.account import account as account_votes

    if plot is not None and not reveal:
        raise InvalidInputError("--plot draws numbers that are functions of the votes. Say --reveal if that is meant.")
    if sanitise is None and (ledger is not None or new_ledger is not None):
        raise InvalidInputError(
            "--ledger and --new-ledger are for --sanitise only: nothing else is released here. Leave them out."
        )
    if sanitise is not None and ledger is None:
        raise InvalidInputError(
            "--sanitise needs --ledger FILE, the ledger of these private data: the number is drawn once, charged and "
            "stored there. Add --new-ledger EPSILON, its total, if there is none yet."
        )
    if plot is not None and plot.suffix not in (".png", ".svg"):
        raise InvalidInputError(f"--plot must end in .png or .svg, got {plot.name!r}.")
    if plot is not None:
        need("matplotlib", extra="plots", why="--plot")
        check_can_write("--plot", plot)

    ask = (lambda q: str(typer.prompt(f"{q} [counts/labels]", err=True))) if sys.stdin.isatty() else None
    matrix = read_votes(votes, kind=kind, key=key, n_teachers=teachers, classes=classes, rows=None, ask=ask)
    whole = matrix
    if rows is not None:
        rows = check_int("rows", rows, low=1, remedy="Leave it out to use all queries.")
        matrix = matrix.take(range(min(rows, matrix.n_queries)))
    chosen = o.chosen_mechanism(mechanism, sigma, scale, threshold, sigma_threshold)
    how: bool | str = "auto" if pld is None else pld
    smooth = None if sanitise is None else _smooth(sanitise, delta)
    book = None if ledger is None or sanitise is None else _budget_backend(ledger, new_ledger, delta, votes, whole)
    report = account_votes(matrix, chosen, delta=delta, max_answers=max_answers, pld=how, sanitise=smooth, ledger=book)
    what = f"{matrix.n_queries} queries, {matrix.n_classes} classes, {matrix.n_teachers} teachers, {chosen}"
    sizes = {name: getattr(matrix, name) for name in ("n_queries", "n_classes", "n_teachers")}
    if not say_json({**sizes, "mechanism": str(chosen), **report.to_dict(include_sensitive=reveal)}):
        _print_costs(report, what, reveal=reveal)
    if plot is not None:
        from pate.release.account import cost_by_queries
        from pate.report.plots import cost_curves, figure_to_png, figure_to_svg

        curves = cost_by_queries(matrix, chosen, delta=delta, max_answers=max_answers, pld=how)
        warning = "SENSITIVE: all curves but the public one are functions of the votes; do not publish them"
        axes = cost_curves(curves.reveal(), ylabel=f"ε at δ = {delta:g}", title=warning)
        with atomic_path(plot, mode=0o600) as path:
            path.write_bytes(figure_to_png(axes) if plot.suffix == ".png" else figure_to_svg(axes).encode())
        answer(f"{plot} is sensitive: only its public curve may be published.")


def _print_costs(report: Any, what: str, *, reveal: bool) -> None:
    from pate.privacy.convert import format_up
    from pate.release.account import PRIVATE, USES

    answer(what)
    answer(f"public            {report.public}")
    answer(f"                  {USES['public']}")
    if report.sanitised is not None:
        answer(f"sanitised         {report.sanitised}")
        answer(f"                  {USES['sanitised']}")
    for name in PRIVATE:
        wrapped = getattr(report, name)
        if wrapped is None:
            continue
        title = f"{name.replace('_', '-'):<17} "
        if not reveal:
            answer(f"{title}hidden: it is a function of the votes; --reveal prints it")
            continue
        answer(f"{title}{wrapped.reveal()}")
        if name == "data_dependent":
            for guarantee in report.exact.reveal().values():
                answer(f"                  by {guarantee.method}: {format_up(guarantee.epsilon, 6)}")
        answer(f"                  {USES[name]}")
    if reveal:
        answer(f"expected answers  {report.expected_answers.reveal():.1f} (private)")


def _smooth(text: str, delta: float) -> Any:
    from pate.privacy.publish.smooth_sensitivity import SmoothSensitivity

    if text == "usual":
        return SmoothSensitivity.usual(delta)
    try:
        order, beta, noise_scale, *rest = (float(part) for part in text.split(","))
        (delta0,) = rest or [delta / 10]
    except ValueError:
        raise InvalidInputError(
            f"--sanitise must be 'usual', ORDER,BETA,NOISE or ORDER,BETA,NOISE,DELTA0 such as 8,0.0125,4,1e-6, got "
            f"{text!r}."
        ) from None
    return SmoothSensitivity(order=order, beta=beta, noise_scale=noise_scale, delta0=delta0)


def _budget_backend(path: Path, new: float | None, delta: float, file: Path, votes: Any) -> Any:
    """Return the ledger that pays; a new one, for the whole file's votes, only where none beside it knows them."""
    # The mean of numbers drawn in many ledgers would reveal the exact one.
    from pate.data import votes_fingerprint
    from pate.jobs import find_ledger
    from pate.ledger import Ledger, Registration
    from pate.privacy.budget import Budget

    if new is None:
        if not path.exists():
            raise InvalidInputError(
                f"there is no ledger {str(path)!r}. Add --new-ledger EPSILON, its total, to make it."
            )
        return Ledger(path)
    if path.exists():
        raise InvalidInputError(f"the ledger {str(path)!r} exists, and has its total. Leave --new-ledger out.")
    records = votes_fingerprint(votes.counts, votes.n_teachers)
    found = find_ledger(records, file.absolute().parent, path.absolute().parent)
    if found is not None:
        raise InvalidInputError(
            f"{file} holds the votes of the ledger {str(found)!r}. Another ledger would grant its whole budget once "
            f"more. Pass --ledger {shlex.quote(str(found))} without --new-ledger."
        )
    book = Ledger(path, total=Budget(new, delta), currency="renyi")
    book.register(
        Registration(votes.unit, votes.classes, n_units=votes.n_units, n_shards=votes.n_teachers, fingerprint=records)
    )
    return book


def plan(
    classes: str = o.setting("How many classes there are, or their names by commas.", o.PRIVATE, default=o.MISSING),
    epsilon: float | None = o.setting(o.EPSILON_TEXT, o.PRIVACY),
    attacker: float | None = o.setting(
        "Instead of --epsilon: of 100 guesses by an attacker who knows everything except which of two records was "
        "used, how many may be right; pure guessing is right 50 times.",
        o.PRIVACY,
    ),
    delta: o.Delta = o.DELTA,
    records: int | None = o.setting("Number of private records (of persons, if --group).", o.PRIVATE),
    commonest: o.Commonest = None,
    best: float | None = o.setting(
        "Share of right labels that a model without privacy would reach, if publicly known.", o.PRIVATE
    ),
    public: str | None = o.setting(
        "Number of public rows; or the public table, or folder of images, itself.", o.PUBLIC
    ),
    kind: Literal["table", "mixed", "image", "text"] | None = o.setting(
        "Of the data, where --public is a number; mixed is a table with categories.", o.PUBLIC
    ),
    drop: list[str] | None = o.setting(
        "Columns of the public table that the private one will lack.", o.PUBLIC, **o.AS_NAMES
    ),
    queries: int | None = o.setting("How many public rows teachers on shards would be asked about.", o.NOISE),
    teachers: str | None = o.setting(
        "Numbers of teachers, separated by commas; default: as many as it takes.", o.TEACHERS
    ),
    max_answers: int | None = o.setting("Cap on answers of confident-gnmax; default: half.", o.NOISE),
    right: float = o.setting("Probability of a right answer behind the gap.", o.NOISE, default=0.99),
    ledger: Path | None = o.setting("Also respect what is left in this ledger, in its accounting unit.", o.PRIVACY),
) -> None:
    """Recommend settings for a budget and say what to expect, without reading private data."""
    from pate.estimators.plan import plan as make_plan
    from pate.ledger import Ledger
    from pate.privacy.budget import Budget

    if attacker is None:
        if epsilon is None:
            raise InvalidInputError("--epsilon is missing: give the budget, or --attacker N instead.")
        budget = Budget(epsilon, delta)
    elif epsilon is None:
        budget = Budget.for_attacker(attacker, delta)
    else:
        raise InvalidInputError(
            "--epsilon and --attacker must not both be given: each determines the other. Leave one out."
        )
    try:
        numbers = None if teachers is None else [int(k) for k in teachers.split(",")]
    except ValueError:
        raise InvalidInputError(f"--teachers must be whole numbers separated by commas, got {teachers!r}.") from None
    named = o.whole_or_names(classes)
    if not isinstance(named, int) and len(named) < 2:
        raise InvalidInputError(f"--classes must be a whole number, or names separated by commas, got {classes!r}.")
    rows = _public_rows(public, kind, drop)
    if rows and records is None:
        raise InvalidInputError("--records must be given beside --public: how many private records there are.")
    if not rows and queries is None:
        raise InvalidInputError(
            "--public is missing: say how many public rows there are (or --queries N, for teachers on shards)."
        )
    done = make_plan(
        budget,
        n_queries=queries,
        n_classes=named if isinstance(named, int) else len(named),
        n_records=records,
        **rows,
        commonest=commonest,
        best=best,
        n_teachers=numbers,
        max_answers=max_answers,
        right=right,
        ledger=None if ledger is None else Ledger(ledger),
        words={
            "classes": None if isinstance(named, int) else named,
            "public": public if "X_public" in rows else None,
            "ledger": ledger,
        },
    )
    if say_json(done.to_dict()):
        return
    answer(done.title)
    if done.recommendation is not None:
        answer(done.recommendation.text())
    heading, body = done.columns()
    if body:
        show_table("Teachers on shards", heading, body)
    if body or manner.verbose:
        for line in done.advice():
            answer(f"- {line}")


def _public_rows(public: str | None, kind: str | None, drop: list[str] | None) -> dict[str, Any]:
    """Return what the plan takes of public rows: their number, or the rows."""
    if public is None:
        return {}
    if public.strip().lstrip("-").isdecimal():
        if drop:
            raise InvalidInputError("--drop is for a public table. Name it by --public FILE, or leave --drop out.")
        return {"n_public": int(public), "kind": kind or "table"}
    if kind is not None:
        raise InvalidInputError("--kind is seen from the public rows where --public names them. Leave it out.")
    from pate.jobs import read_public

    rows, image_shape = read_public(public, drop=drop or ())
    return {"X_public": rows, "image_shape": image_shape}
