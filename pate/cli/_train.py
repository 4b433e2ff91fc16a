"""``pate train``: a model of private records where there are no public rows, from a schema of their columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import typer

from pate.cli import _options as o
from pate.cli._app import (
    answer,
    in_own_words,
    manner,
    say,
    say_json,
    show_progress,
    to_predict,
)
from pate.cli._label import agreed, target_range
from pate.exceptions import InvalidInputError

_DECLINED = 1


def _check_target(numeric: bool, classes: list[str] | None, given: list[str] | None) -> None:
    """Refuse classes of a number, and a target of which nothing is said."""
    if numeric and classes is not None:
        raise InvalidInputError("--classes must be left out with --numeric: the target is a number. Keep one of both.")
    if numeric and not given:
        raise InvalidInputError("--range is missing: with --numeric say what the target lies between, --range 0,5000.")
    if not numeric and given:
        raise InvalidInputError(
            "--range is of a numeric target: say --numeric too. What columns hold stands in --schema."
        )
    if not numeric and classes is None:
        raise InvalidInputError(
            "--classes is missing: name every class that could occur, --classes no,yes. Where the target is a number, "
            "say --numeric --range LOW,HIGH."
        )


def train(
    private: Path = o.setting("Private table.", o.PRIVATE, default=o.MISSING),
    schema: Path = o.setting(
        "What the columns of the private table hold: a .toml file, as pate schema drafts one.",
        o.PUBLIC,
        default=o.MISSING,
    ),
    target: str = o.setting("Column of the classes, or of the numbers.", o.PRIVATE, default=o.MISSING),
    classes: list[str] | None = o.setting(
        "Every class that could occur, by commas. Public knowledge.", o.PRIVATE, **o.AS_NAMES
    ),
    numeric: bool = o.setting(
        "The target is a number between the two of --range LOW,HIGH, from public knowledge; DP-SGD learns it.",
        o.PRIVATE,
        default=False,
    ),
    range: list[str] | None = o.setting(
        "With --numeric: what the target lies between, 0,5000.", o.PRIVATE, metavar="LOW,HIGH"
    ),
    epsilon: o.Epsilon = o.MISSING,  # type: ignore[assignment]
    delta: o.Delta = o.DELTA,
    model: Path = o.setting("Model file to write, .pate; must not exist.", o.OUTPUT, default=o.MISSING),
    keep_rows: Path | None = o.setting(
        "Also write the synthetic rows on which records voted, with the model's labels: a CSV file. They are nobody's "
        "records: they were drawn from a few noisy sums.",
        o.OUTPUT,
    ),
    group: str | None = o.setting(
        "Column with the id of the person each row belongs to: protects people, not rows.", o.PRIVATE
    ),
    sep: str | None = o.setting(
        "What separates the cells of a CSV file: one character, or tab; default: as its header line shows.", o.TABLES
    ),
    encoding: str | None = o.setting("Encoding of a CSV file, such as cp1252; default: UTF-8.", o.TABLES),
    decimal: Literal[".", ","] | None = o.setting("Decimal sign of a CSV file; default: a point.", o.TABLES),
    thousands: o.Thousands = None,
    sheet: str | None = o.setting("Which sheet of an Excel workbook that has several.", o.TABLES),
    ledger: Path | None = o.setting(
        "Ledger of all releases from this private data; default: PRIVATE.ledger.sqlite, beside it.", o.PRIVACY
    ),
    new_ledger: bool = o.setting(
        "Start a ledger: nothing was released from these private data before.", o.PRIVACY, default=False
    ),
    force: bool = o.setting("Go on although the model is expected to be useless.", o.RUN, default=False),
    yes: bool = o.setting(
        "Spend without asking; otherwise you are asked on a terminal.", o.RUN, "--yes", "-y", default=False
    ),
    plan: bool = o.setting("Only show what would be done and spent.", o.RUN, default=False),
) -> None:
    """Train a model on private records alone: on synthetic rows of a schema, or by DP-SGD where those are worse."""
    from pate._core.files import check_can_write
    from pate.data import Schema, beside
    from pate.jobs import LabelJob, NumberTrainingJob, check_new_files
    from pate.models.file import check_model_path
    from pate.privacy.budget import Budget

    _check_target(numeric, classes, range)
    check_model_path(model, name="--model")
    paths = check_new_files(model)  # the model and the statement beside it
    if keep_rows is not None and (keep_rows.exists() or keep_rows in paths):
        raise InvalidInputError(
            f"--keep-rows {str(keep_rows)!r} exists, or is written by --model. Results are never overwritten: name "
            "another file."
        )
    if keep_rows is not None:
        check_can_write("--keep-rows", keep_rows)
    said: dict[str, Any] = {
        "schema": Schema.read(schema),
        "target": target,
        "budget": Budget(epsilon, delta),
        "group": group,
        "ledger": beside(private, ".ledger.sqlite") if ledger is None else ledger,
        "new_ledger": new_ledger,
        "verbose": show_progress(),
        "sep": sep,
        "encoding": encoding,
        "decimal": decimal,
        "thousands": thousands,
        "sheet": sheet,
    }
    job: Any
    said["checkpoint_dir"] = None if plan else model.with_name(model.stem + ".private")
    if numeric:
        job = NumberTrainingJob(private, target_range=target_range(range, None), force=force, **said)
    else:
        job = LabelJob(private, classes=classes, force=force, **said)
    if keep_rows is not None and not job.draws_rows:
        raise InvalidInputError("--keep-rows must be left out: DP-SGD learns here, and no rows are drawn.")
    messages = job.check_records()
    planned = {"plan": dict(job.plan.lines()), "will_spend": job.plan.guarantee.to_dict(), "paid": job.plan.is_paid}
    (answer if plan else say)(f"Plan\n{in_own_words(job.plan.text(brief=not manner.verbose), manner.options)}")
    if plan:
        say_json(planned)
        return
    if not (yes or agreed(job.plan, messages)):
        raise typer.Exit(_DECLINED)
    release = job.run()
    statement = release.statement_ if numeric else release.statement
    written = job.write(release, model)
    answer(f"A model was trained. {statement.headline}")
    for found in (statement.measured, statement.errors):
        if found is not None:
            answer(f"The model is {found}.")
    job.model(release).save(model)
    written.append(model)
    if keep_rows is not None:
        written.append(job.write_rows(release, keep_rows))
        answer(f"{keep_rows.name} holds {release.n_queries} synthetic rows with the model's labels: nobody's records.")
    job.finish()
    answer("Wrote " + ", ".join(map(str, written)) + f"; {to_predict(model)}")
    say_json({**planned, "statement": statement.to_dict(), "files": written})
