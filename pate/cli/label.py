"""``pate label``: files in, labels out."""

from __future__ import annotations

import shutil
from typing import Any

import typer

from pate.cli._app import answer, say, say_json
from pate.cli._declared import takes_options, uses_of
from pate.cli._label_options import LabelOptions
from pate.cli._output import complain, confirmed, is_interactive, manner, show_progress
from pate.cli._words import in_own_words
from pate.exceptions import InvalidInputError

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
