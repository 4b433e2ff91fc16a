"""``pate label``: files in, labels out."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from pate.cli import _options as o
from pate.cli._app import answer, in_own_words, say, say_json
from pate.cli._label_options import LabelOptions
from pate.cli._options import takes_options, uses_of
from pate.cli._output import complain, confirmed, is_interactive, manner, show_progress
from pate.exceptions import InvalidInputError

# ``pate predict``: what a model says of any rows; free, however often it is asked.


def predict(
    rows: Annotated[Path, typer.Argument(help="Table with the model's columns, or flat folder of images.")],
    model: Annotated[Path, o.option("Model file that pate label wrote, such as labels.pate.", o.MODEL)],
    out: Annotated[Path, o.option("CSV file to write; must not exist.", o.OUTPUT)],
    id: Annotated[str | None, o.option("Column of ids, which stand beside the predictions.", o.TABLES)] = None,
    sep: Annotated[
        str | None, o.option("What parts the cells of a CSV file: one character, or tab; seen.", o.TABLES)
    ] = None,
    encoding: Annotated[str | None, o.option("How its letters are written; UTF-8.", o.TABLES)] = None,
    decimal: Annotated[
        Literal[".", ","] | None,
        o.option("What stands before its decimals; as in the model's own public table.", o.TABLES),
    ] = None,
    sheet: Annotated[str | None, o.option("Which sheet of an Excel workbook that has several.", o.TABLES)] = None,
    resize: Annotated[bool, o.option("Bring images to the model's size and colour.", o.IMAGES, "--resize")] = False,
    proba: Annotated[bool, o.option("Also write one column of probabilities per class.", o.OUTPUT, "--proba")] = False,
    safe_csv: Annotated[
        bool, o.option("An apostrophe before cells that a spreadsheet would run as a formula.", o.OUTPUT, "--safe-csv")
    ] = False,
) -> None:
    """Predict the classes of further rows by a model; this spends nothing."""
    from pate.jobs import predict_file

    done = predict_file(
        model, rows, out, id=id, proba=proba, sep=sep, encoding=encoding, decimal=decimal, sheet=sheet, resize=resize,
        safe_csv=safe_csv,
    )  # fmt: skip
    if done.left_out:
        say(f"Left out, as the model does not ask for them: {', '.join(done.left_out)}")
    say_json(
        {
            "rows": done.n_rows,
            "left_out": done.left_out,
            "guarantee": done.headline,
            "measured": done.measured or None,
            "file": done.path,
        }
    )
    answer(f"{done.n_rows} rows predicted; nothing was spent. The model's own guarantee: {done.headline}")
    if done.measured:
        answer(f"The model was measured: {done.measured}.")
    answer(f"Wrote {done.path}")


# ``pate show``: what a model file is, and its statement.


def show(
    model: Annotated[Path, typer.Argument(help="Model file, such as labels.pate.")],
    out: Annotated[
        Path | None, o.option("Write the page to this .html or .txt file; must not exist.", o.OUTPUT)
    ] = None,
) -> None:
    """Check a model file, and show what it is and what its release cost; nothing in it is run."""
    from pate.model import read_model, write_page

    file = read_model(model)
    if out is not None:
        write_page(file, out)
    say_json({**file.to_dict(), "page": out})
    answer(file.text().rstrip() if out is None else f"Wrote {out}")


#: What a person who is asked and says no ends with.
_DECLINED = 1


@takes_options(LabelOptions)
def label(context: typer.Context, options: LabelOptions) -> None:
    """Label public rows with what private records, or teachers of theirs, say, within a budget."""
    _check_way_in(context, options)
    from pate.jobs import LabelJob, VoteJob, check_new_files, check_proba
    from pate.privacy.convert import format_up

    check_new_files(options.out, model=not options.no_model)
    arguments = options.arguments()
    kept = options.out.with_name(options.out.stem + ".private")
    new = not kept.exists()
    job: Any = LabelJob(**arguments, verbose=show_progress()) if options.way == "private" else VoteJob(**arguments)
    if options.proba:
        check_proba(job.plan)
    told = job.check_records() if options.way == "private" else ()
    planned = {"plan": dict(job.plan.lines()), "will_spend": job.plan.guarantee.to_dict(), "paid": job.plan.is_paid}
    if options.plan:
        say_json(planned)
        answer(f"Plan\n{in_own_words(job.plan.text(), manner.options)}")
        return
    say(f"Plan\n{in_own_words(job.plan.text(), manner.options)}")
    if not (options.yes or job.plan.is_paid) and is_interactive():
        for one in told:
            if one.quoting:  # private values: for a terminal alone
                complain(one.quoting, "yellow")
        above = " See the warnings above." if told else ""
        spent = f"epsilon {format_up(job.plan.guarantee.epsilon)} of what these private data may ever give"
        if not confirmed(f"This spends {spent}, for good.{above} Go on?"):
            complain(
                "Nothing was spent. --plan shows the plan alone; pate plan says what other settings give.", "yellow"
            )
            if new:  # maps of public rows alone: nobody goes on with them
                shutil.rmtree(kept, ignore_errors=True)
            raise typer.Exit(_DECLINED)
    release = job.run()
    paths = job.write(release, options.out, proba=options.proba, safe_csv=options.safe_csv)
    answered = f"{release.n_answered} of {release.n_queries} questions answered."
    if job.plan.n_public == 0:
        answered = "There are no public rows to label: the model is what was learnt."
    answer(f"{answered} {release.statement.headline}")
    if (measured := release.statement.measured) is not None:
        for line in (f"The model is {measured}.", *(f"Of class {one}" for one in measured.by_class)):
            answer(line)
    for doubt in release.statement.doubts:
        answer(f"Doubt: {doubt}")
    answer("Wrote " + ", ".join(str(p) for p in paths))
    if job.keeps_model:
        model = options.out.with_name(options.out.stem + ".pate")
        job.model(release).save(model)
        paths.append(model)
        answer(f"Wrote {model}, the model: pate predict ROWS.csv --model {model} --out predictions.csv")
    if options.way == "private":
        job.finish()
    done = {"answered": release.n_answered, "queries": release.n_queries}
    say_json({**planned, **done, "statement": release.statement.to_dict(), "files": paths})


def _check_way_in(context: typer.Context, options: LabelOptions) -> None:
    """Refuse options that would be passed over in silence: a --group that is not heeded protects nobody."""
    if options.private is not None and options.votes is not None:
        raise InvalidInputError("--private and --votes are two ways in: teachers here, or votes cast elsewhere.")
    for name, use in uses_of(type(options)).items():
        source = context.get_parameter_source(name)
        given = source is not None and source.name != "DEFAULT"  # on the command line, or in a configuration file
        if given and use.way not in ("", options.way):
            here = {"votes": "votes cast elsewhere (--votes)", "private": "teachers trained here (--private)"}
            raise InvalidInputError(f"--{name.replace('_', '-')} says nothing about {here[options.way]}. Leave it out.")
    ranged = options.ranges is not None or options.range is not None
    alone = options.public is None and not ranged and not options.is_folder
    if options.way == "private" and (options.private is None or alone):
        if options.private is None:
            raise InvalidInputError("--private is missing: name private and public data, or --votes cast elsewhere.")
        raise InvalidInputError(
            "--public is missing: a table with the same features (no labels) whose rows are nobody's secret, such as "
            "an open data set, records released by consent, or rows that a simulation makes; never rows of --private. "
            "Where there is none, declare what its columns hold, --range age=0:120 --range sex=male,female (or "
            "--ranges FILE): DP-SGD then learns from the private table alone. See docs/how-to.md, 'Find public rows, "
            "or do without'."
        )
    named = options.classes is not None or options.classes_file is not None
    if options.way == "private" and named == options.classes_from_private:
        raise InvalidInputError(
            "--classes-from-private is for who names no classes. Leave it out."
            if named
            else "--classes is missing: name every class that could occur (--classes no,yes, or --classes-file). "
            "--classes-from-private reads them off the private labels instead: every value that occurs there becomes "
            "public, exactly, and the statement says so."
        )
