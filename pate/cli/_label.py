"""``pate label`` labels public rows; ``pate predict`` and ``pate show`` use the model that it writes.

A field of :class:`LabelOptions` is an option of the command, a key of the job file and what a job is given: its type,
help, group, allowed words and default stand here and nowhere else.
"""

from __future__ import annotations

import inspect
import shlex
import shutil
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from pate.cli import _options as o
from pate.cli._app import (
    answer,
    complain,
    confirmed,
    in_own_words,
    is_interactive,
    manner,
    now_called,
    say,
    say_json,
    show_progress,
    to_predict,
    was_given,
)
from pate.exceptions import InvalidInputError

# ``pate predict``: what a model says of any rows; free, however often it is asked.


def predict(
    rows: Annotated[Path, typer.Argument(help="Table with the model's columns, or flat folder of images.")],
    model: Path = o.setting("Model file that pate label wrote, such as labels.pate.", o.MODEL, default=o.MISSING),
    out: Path = o.setting("CSV file to write; must not exist.", o.OUTPUT, default=o.MISSING),
    id: str | None = o.setting("Column of ids, which stand beside the predictions.", o.TABLES),
    sep: str | None = o.setting(
        "What separates the cells of a CSV file: one character, or tab; default: as its header line shows.", o.TABLES
    ),
    encoding: str | None = o.setting(
        "Encoding of a CSV file; default: UTF-8 if it is, else as the model's own table was.", o.TABLES
    ),
    decimal: Literal[".", ","] | None = o.setting(
        "Decimal sign of a CSV file; default: that of the model's own public table.", o.TABLES
    ),
    thousands: o.Thousands = None,
    sheet: str | None = o.setting("Which sheet of an Excel workbook that has several.", o.TABLES),
    resize: bool = o.setting("Bring images to the model's size and colour.", o.IMAGES, default=False),
    proba: bool = o.setting("Also write one column of probabilities per class.", o.OUTPUT, default=False),
    raw_csv: bool = o.setting(
        "No apostrophe before texts that a spreadsheet would run as a formula.", o.OUTPUT, default=False
    ),
) -> None:
    """Predict the classes of rows by a released model; this spends no budget."""
    from pate.jobs import predict_file

    done = predict_file(
        model, rows, out, id=id, proba=proba, sep=sep, encoding=encoding, decimal=decimal, thousands=thousands,
        sheet=sheet, resize=resize,
        raw_csv=raw_csv,
    )  # fmt: skip
    if done.left_out:
        say(f"Columns left out, as the model does not use them: {', '.join(done.left_out)}")
    say_json(
        {
            "rows": done.n_rows,
            "left_out": done.left_out,
            "guarantee": done.headline,
            "measured": done.measured or None,
            "doubts": list(done.doubts),
            "file": done.path,
        }
    )
    answer(f"{done.n_rows} rows predicted; nothing was spent. The model's own guarantee: {done.headline}")
    if done.measured:
        answer(f"The model was measured: {done.measured}.")
    for doubt in done.doubts:
        complain(f"Of the model: {doubt}", "yellow")
    answer(f"Wrote {done.path}")


# ``pate show``: what a model file is, and its statement.


def show(
    model: Annotated[Path, typer.Argument(help="Model file, such as labels.pate.")],
    out: Path | None = o.setting("Write the page to this .html or .txt file; must not exist.", o.OUTPUT),
) -> None:
    """Check a model file and show what it is and what it cost; no code in it is run."""
    from pate.models.file import read_model, write_page

    file = read_model(model)
    if out is not None:
        write_page(file, out)
    say_json({**file.to_dict(), "page": out})
    answer(file.text().rstrip() if out is None else f"Wrote {out}")


# ``pate label``.


def _take_config(context: typer.Context, value: Path | None) -> Path | None:
    """Let a file's options stand in for those that the command line leaves out."""
    if value is not None:
        context.default_map = {**(context.default_map or {}), **o.read_job_file(value, o.uses_of(LabelOptions))}
    return value


@dataclass(frozen=True, kw_only=True)
class LabelOptions:
    """The options of ``pate label``."""

    private: Path | None = o.setting(
        "Private table: CSV, Parquet (or a folder of it), xlsx, npz, npy, duckdb:FILE?table=NAME, sqlite:...; or "
        "folder of images, one sub-folder per class.",
        o.PRIVATE,
    )
    target: str | None = o.setting(
        "Column of the classes; folders of images have none. Several labels, a column of 0/1, no/yes or false/true "
        "each: A,B,C.",
        o.PRIVATE,
    )
    numeric: bool = o.setting(
        "The target is a number between LOW and HIGH of --range LOW,HIGH, which are public knowledge. Written are its "
        "value and the low and high end of a 90% interval.",
        o.PRIVATE,
        default=False,
        argument=None,
        way="numbers",
    )
    classes: list[str] | None = o.setting(
        "Every class that could occur, separated by commas; or --classes once for each. From public knowledge.",
        o.PRIVATE,
        **o.AS_NAMES,
    )
    classes_file: Path | None = o.setting(
        "Instead of --classes: a text file with one class per line, which may have commas in it.",
        o.PRIVATE,
        argument="classes",
        rare=True,
    )
    classes_from_private: bool = o.setting(
        "Instead of --classes: every value that private labels have becomes public; the statement says so.",
        o.PRIVATE,
        default=False,
        argument=None,
        way="private",
        not_in_file="it publishes what private labels hold, which is for a person to say each time. Say "
        "--classes-from-private on the command line",
        rare=True,
    )
    commonest: o.Commonest = None
    group: str | None = o.setting(
        "Column with the id of the person each row belongs to: protects people, not rows. For images: prefix, the "
        "part of a file's name before _.",
        o.PRIVATE,
    )
    public: Path | None = o.setting(
        "Public table with the same features, or folder of images without sub-folders.", o.PUBLIC
    )
    range: list[str] | None = o.setting(
        "What a column may hold, where there is no public table: age=0:120, or sex=male,female; once for each "
        "column. From public knowledge, never read off the private table. Records then vote on synthetic rows, or "
        "DP-SGD trains a model, as --plan says; columns without a range are left out. With --numeric: what the "
        "target lies between, 0,5000.",
        o.PUBLIC,
        metavar="COLUMN=LOW:HIGH|A,B,...",
        argument="schema",
    )
    ranges: Path | None = o.setting(
        "The same in a TOML or JSON file: age = [0, 120], sex = ['male', 'female']; or a schema of the columns, as "
        "pate.data.Schema.write makes one.",
        o.PUBLIC,
        argument="schema",
        rare=True,
    )
    overlap_is_public: bool = o.setting(
        "You state that the public rows are public, even where they are also private rows.",
        o.PUBLIC,
        default=False,
        rare=True,
    )
    preprocess: Literal["public", "shard", "none"] = o.setting(
        "Where scaling and encoding are learnt: from public rows, in each shard, or nowhere.",
        o.PUBLIC,
        default="public",
        rare=True,
    )
    max_categories: int = o.setting(
        "One text column becomes at most so many columns, for its most frequent values in the public rows.",
        o.PUBLIC,
        default=50,
        rare=True,
    )

    id: str | None = o.setting(
        "Column of ids, in either file: not a feature; the public ones are written beside the labels.", o.TABLES
    )
    drop: list[str] = o.setting(
        "Columns to leave out of either file, separated by commas.", o.TABLES, default=o.Names(), **o.AS_NAMES
    )
    text: list[str] = o.setting(
        "Columns to read as text although they look like numbers, such as codes; separated by commas.",
        o.TABLES,
        default=o.Names(),
        **o.AS_NAMES,
    )
    only_common: bool = o.setting("Leave out columns that are in one file only.", o.TABLES, default=False, rare=True)
    sep: str | None = o.setting(
        "What separates the cells of a CSV file: one character, or tab; default: as the header line shows.",
        o.TABLES,
        rare=True,
    )
    encoding: str | None = o.setting(
        "Encoding of the CSV files, such as cp1252; default: as is found in the public one, for both.",
        o.TABLES,
        rare=True,
    )
    decimal: Literal[".", ","] | None = o.setting(
        "Decimal sign of the CSV files; default: as in the public one.", o.TABLES, rare=True
    )
    thousands: o.Thousands = None
    dates: Literal["auto", "day-first", "month-first", "text"] = o.setting(
        "Columns of dates become days; how 1/2/2020 is meant, or that dates stay text.",
        o.TABLES,
        default="auto",
        rare=True,
    )
    sheet: str | None = o.setting("Which sheet to read of an Excel workbook that has several.", o.TABLES, rare=True)

    size: o.Size | None = o.setting("Size of all images; default: that of the public ones.", o.IMAGES, **o.AS_SIZE)
    resize: bool = o.setting(
        "Resize images of another size; without it they are refused.", o.IMAGES, default=False, rare=True
    )
    color: Literal["grey", "rgb"] | None = o.setting("Convert all images to grey or colour.", o.IMAGES, rare=True)

    votes: Path | None = o.setting(
        "Instead of --private: votes cast elsewhere, npy, npz or csv; labels (teachers x rows, indices into "
        "--classes) or counts (rows x classes). With --public, one row for each query, the ledger knows "
        "which rows were asked about before.",
        o.VOTES,
    )
    kind: o.VoteKind = None
    key: o.VoteKey = None
    unit: Literal["record", "group"] = o.setting(
        "What is protected: record, or group (all records of a person, which one teacher's shard must hold).",
        o.VOTES,
        default="record",
        rare=True,
    )
    units: int | None = o.setting(
        "Number of private records, or of persons with --unit group, if known.", o.VOTES, argument="n_units", rare=True
    )

    voters: Literal["auto", "records", "heads", "shards", "dpsgd"] | None = o.setting(
        "Who votes: records (every private record, on all public rows), heads (small linear models, each on a shard "
        "of the records) or shards (teachers, each on a shard); or dpsgd: nobody votes, DP-SGD trains a model. "
        "Default: auto, which is records, or dpsgd with fewer than 20 public rows; shards if an option about "
        "teachers, queries or noise is given.",
        o.TEACHERS,
    )
    teachers: int | None = o.setting(
        "Number of teachers, each on a disjoint shard of the private data; default 100; for heads one per 15 "
        "records, at least 10 and at most 1000.",
        o.TEACHERS,
        argument="n_teachers",
        way="private",
    )
    teacher: str | None = o.setting(
        "logistic-regression, random-forest, hist-gradient-boosting, mlp, svm, knn, decision-tree, naive-bayes, "
        "torch-mlp, torch-small-cnn, ...; or package.module:attribute with --allow-import.",
        o.TEACHERS,
    )
    allow_import: bool = o.setting(
        "Import the teacher's module. This runs its code: only if you trust it.",
        o.TEACHERS,
        default=False,
        not_in_file="it lets code run, and a file that is passed on must not decide that. Say --allow-import on "
        "the command line",
        rare=True,
    )
    partition_seed: o.PartitionSeed = None
    checkpoints: bool = o.setting(
        "Store what was trained in OUT.private, so that a killed run can continue.",
        o.TEACHERS,
        default=True,
        argument="checkpoint_dir",
        rare=True,
    )

    epsilon: o.Epsilon
    delta: o.Delta = o.DELTA
    tiers: str | None = o.setting(
        "Where not all records allow the same: the column of the private table with their tiers, and an epsilon for "
        "each; --epsilon is the largest. Who is in which tier is public.",
        o.PRIVACY,
        metavar="COLUMN:TIER=EPSILON,...",
        rare=True,
    )
    ledger: Path | None = o.setting(
        "Ledger of all releases from this private data; default: PRIVATE.ledger.sqlite, beside it. With --votes it "
        "must exist, or give --new-ledger.",
        o.PRIVACY,
    )
    accounting_unit: str | None = o.setting(
        "What a new ledger counts in, which cannot be changed later: gdp, renyi, renyi:ORDER or pure; if left out, "
        "the one that is cheapest for the first release.",
        o.PRIVACY,
        rare=True,
    )
    new_ledger: bool = o.setting(
        "Start a ledger: nothing was released from these private data before.",
        o.PRIVACY,
        default=False,
        not_in_file="it grants a whole budget once more, which is for a person to say each time. Say --new-ledger "
        "on the command line",
    )

    mechanism: o.MechanismName = None
    sigma: o.Sigma = None
    scale: o.Scale = None
    threshold: o.Threshold = None
    sigma_threshold: o.SigmaThreshold = None
    queries: o.Queries = None
    select: Literal["auto", "random", "first", "spread", "cluster", "uncertain"] = o.setting(
        "How these rows are chosen, from public information alone; cluster is for many rows, uncertain asks in rounds, "
        "where a student of the labels so far is least sure.",
        o.NOISE,
        default="auto",
    )
    rounds: int | None = o.setting("Rounds of --select uncertain; default: 5.", o.NOISE, rare=True)
    gap: o.Gap = None
    max_answers: o.MaxAnswers = None
    on_exhausted: o.OnExhausted = "raise"

    tuning: o.Tuning = ""
    dataset_name: str | None = o.setting("What the private data are.", o.STATEMENT, argument="stated")
    organisation: str | None = o.setting("Who holds them.", o.STATEMENT, argument="stated")
    purpose: str | None = o.setting("What the labels are for.", o.STATEMENT, argument="stated")
    stated: list[str] | None = o.setting(
        "How you ensured one of the statement's assumptions, such as 'one person=patients are unique by their number'. "
        "An assumption that is neither stated nor checked by pate is listed as open. May be given several times.",
        o.STATEMENT,
        metavar="NAME=TEXT",
        argument="stated",
    )

    decide: Literal["likeliest", "balanced"] = o.setting(
        "Which class a row gets: the likeliest, or (balanced) the one whose probability is largest relative to its "
        "mean over the public rows, for balanced accuracy where classes are of unequal size.",
        o.MODEL,
        default="likeliest",
    )
    measure: Literal["yes", "no", "by-class"] | None = o.setting(
        "Whether the model's accuracy on the private records is measured, by a noisy count for 4% of the budget; "
        "by-class also recall, for 4% more. Default: yes where the noise is below +-5 percentage points.",
        o.MODEL,
    )
    student: str | None = o.setting(
        "The classifier that learns from the labels and is saved as the model: logistic-regression, random-forest, "
        "vote-spreading, image, ...; default: the strongest for such data. With --select uncertain it "
        "also chooses the rows.",
        o.MODEL,
    )
    no_model: bool = o.setting(
        "Write labels alone, and no OUT.pate beside them.", o.MODEL, default=False, argument="keep_model"
    )

    out: Path = o.setting(
        "CSV file to write; must not exist. Missing folders are made.", o.OUTPUT, default=MISSING, argument=None
    )
    proba: bool = o.setting("Also write one column of probabilities per class.", o.OUTPUT, default=False, argument=None)
    raw_csv: bool = o.setting(
        "No apostrophe before texts that a spreadsheet would run as a formula (pate reads them without it).",
        o.OUTPUT,
        default=False,
        argument=None,
        rare=True,
    )

    config: Path | None = o.setting(
        "TOML file with any of these options; the command line wins. Its paths start at its own folder.",
        o.RUN,
        callback=_take_config,
        is_eager=True,
        argument=None,
        not_in_file="a file names no other file. Put all options into one",
    )
    force: bool = o.setting("Go on although the labels are expected to be useless.", o.RUN, default=False)
    yes: bool = o.setting(
        "Spend without asking; otherwise you are asked on a terminal.",
        o.RUN,
        "--yes",
        "-y",
        default=False,
        argument=None,
        not_in_file="it says that a person saw the price. Say --yes on the command line",
    )
    plan: bool = o.setting("Only show what would be done and spent.", o.RUN, default=False, argument=None)
    seed: o.Seed = 0
    jobs: o.Jobs = o.JOBS

    help_all: bool = o.setting(
        "Show all options, also those that few need.", o.SCREEN, default=False, callback=o.help_all, is_eager=True,
        argument=None, not_in_file="it is for the command line alone",
    )  # fmt: skip

    anyway: bool = o.former("force", default=False)
    ledger_currency: str | None = o.former("accounting_unit")

    def __post_init__(self) -> None:
        """Bring names to one form (what reads the command line gives lists), and read options by their former names."""
        for name, use in o.uses_of(type(self)).items():
            if use.now:
                value = now_called(name, getattr(self, name), use.now, getattr(self, use.now))
                object.__setattr__(self, use.now, value)
        for name in ("drop", "text"):
            object.__setattr__(self, name, o.Names(getattr(self, name)))

    @property
    def way(self) -> str:
        """The way in: votes cast elsewhere, private data with classes, or private data with numbers."""
        if self.votes is not None:
            return "votes"
        return "numbers" if self.numeric else "several" if len(self._targets) > 1 else "private"

    @property
    def _targets(self) -> tuple[str, ...]:
        """The columns of the labels, where there are several."""
        return o.Names.of([self.target or ""])

    @property
    def job(self) -> Any:
        """The class of the job of this way in."""
        from pate.jobs import LabelJob, NumberJob, SeveralLabelsJob, VoteJob

        return {"private": LabelJob, "numbers": NumberJob, "several": SeveralLabelsJob, "votes": VoteJob}[self.way]

    @property
    def is_folder(self) -> bool:
        """Whether the private data are a folder of images."""
        from pate.data import is_table

        return self.private is not None and not is_table(self.private)

    def heeds(self, use: o.Use) -> bool:
        """Return whether this way in heeds an option: its job takes what is made of it, where nothing else is said."""
        if use.way or use.argument is None:
            return use.way in ("", self.way)
        if self.numeric and use.argument == "schema":
            return True  # of the target
        return use.argument in inspect.signature(self.job).parameters

    def arguments(self) -> dict[str, Any]:
        """Return what a job of this way in is given: ``options.job(**arguments)``."""
        named = {use.argument: getattr(self, name) for name, use in o.uses_of(type(self)).items() if self.heeds(use)}
        made = self._made()
        if self.numeric:
            del named["schema"]
            named["target_range"] = None
        return {argument: made.get(argument, value) for argument, value in named.items() if argument is not None}

    def _made(self) -> dict[str, Any]:
        """Return the arguments that are more than one option's value as it stands."""
        from pate.privacy.budget import Budget

        named = {"dataset": self.dataset_name, "organisation": self.organisation, "purpose": self.purpose}
        noise = (self.mechanism, self.sigma, self.scale, self.threshold, self.sigma_threshold)
        keeps = self.checkpoints and not self.plan
        tiers, budget = _tiers(self.tiers, Budget(self.epsilon, self.delta))
        made = {
            "budget": budget,
            "tiers": tiers,
            "mechanism": o.chosen_mechanism(*noise),
            "classes": self.classes if self.classes_file is None else _classes_in(self.classes_file, self.classes),
            "stated": what_is_stated(self.stated, **named),
            "schema": None if self.numeric else _ranges(self.range, self.ranges),
            "target_range": target_range(self.range, self.ranges) if self.numeric else None,
            "keep_model": not self.no_model,
            "measure": measured(self.measure),
            "checkpoint_dir": self.out.with_name(self.out.stem + ".private") / "teachers" if keeps else None,
        }
        if self.way == "several":
            made["target"] = self._targets
        if self.private is not None and self.ledger is None:
            from pate.data import beside

            made["ledger"] = beside(self.private, ".ledger.sqlite")
        return made


def measured(said: str | None) -> bool | str | None:
    """Return what --measure is to Python."""
    words: dict[str, bool | str] = {"yes": True, "no": False, "by-class": "by class"}
    return words.get(said or "")


def _tiers(said: str | None, whole: Any) -> tuple[str | None, Any]:
    """Return the column of the tiers and their budgets; without tiers the budget of all."""
    if said is None:
        return None, whole
    from pate.privacy.budget import Budget

    column, _, pairs = said.rpartition(":")
    parts = [(name.strip(), sign, value) for name, sign, value in (pair.partition("=") for pair in pairs.split(","))]
    try:
        found = {name: Budget(float(value), whole.delta) for name, sign, value in parts}
    except ValueError:
        found = {}
    if not column or len(found) != len(parts):
        raise InvalidInputError(
            f"--tiers must be COLUMN:TIER=EPSILON,..., each tier once and each epsilon above 0, got {said[:60]!r}. Say "
            "--tiers contract:gold=3,basic=1."
        )
    if (most := max(budget.epsilon for budget in found.values())) != whole.epsilon:
        raise InvalidInputError(
            f"--epsilon must be the largest of --tiers, {most:g}, got {whole.epsilon:g}: it is what the release "
            f"is known by. Say --epsilon {most:g}."
        )
    return column, found


def _classes_in(path: Path, classes: list[str] | None) -> list[str]:
    """Return the lines of a file of classes."""
    if classes is not None:
        raise InvalidInputError("--classes and --classes-file both name the classes. Keep one.")
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError):
        raise InvalidInputError(
            f"--classes-file {str(path)!r} cannot be read as UTF-8 text. Write one class a line."
        ) from None
    return [line.strip() for line in lines if line.strip()]


def target_range(given: list[str] | None, path: Path | None) -> tuple[float, float]:
    """Return the two numbers that a numeric target lies between."""
    if path is not None:
        raise InvalidInputError("--ranges is of columns, not of a numeric target. Leave it out; say --range LOW,HIGH.")
    if len(given or ()) > 1:
        raise InvalidInputError(
            f"--range must be given once with --numeric, got {len(given or ())} of them: it is of the target. Keep one."
        )
    return o.low_high(",".join(given or ()), "--numeric")


def _ranges(pairs: list[str] | None, path: Path | None) -> Any:
    """Return what a person declared of columns: each once."""
    found: dict[str, Any] = {} if path is None else _ranges_in(path)
    tables = found.get("column")
    if path is not None and isinstance(tables, list) and any(isinstance(table, dict) for table in tables):
        from pate.data import Schema

        if pairs:
            raise InvalidInputError(f"--range says more than the schema {path.name!r}. Declare all columns there.")
        return Schema.read(path)
    for pair in pairs or ():
        name, sign, values = pair.partition("=")
        name = name.strip()
        if not sign or not name or name in found:
            wrong = "is declared twice" if name in found else "has no column" if sign else "has no = in it"
            raise InvalidInputError(
                f"--range must be COLUMN=LOW:HIGH or COLUMN=A,B,..., each once; {pair[:60]!r} {wrong}. Say --range "
                "age=0:120, and each column once."
            )
        low, colon, high = values.partition(":")
        try:
            found[name] = [float(low), float(high)] if colon else None
        except ValueError:
            found[name] = None
        if colon and found[name] is not None and found[name][0] >= found[name][1]:
            raise InvalidInputError(
                f"--range must have the lower number first, got {pair[:60]!r}. Say --range "
                f"{shlex.quote(name)}=LOW:HIGH."
            )
        if found[name] is None:
            found[name] = list(o.Names.of([values]))
    return found or None


def _ranges_in(path: Path) -> dict[str, Any]:
    """Return the ranges in a TOML or JSON file."""
    from pate._core.files import parse_json, parse_toml

    kind = path.suffix.lower()
    if kind not in (".toml", ".json"):
        raise InvalidInputError(
            f"--ranges must end in .toml or .json, got {path.name!r}. See --range for single columns."
        )
    try:
        text = path.read_text(encoding="utf-8-sig")
        held = parse_json(text.encode()) if kind == ".json" else parse_toml(text)
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or error
        raise InvalidInputError(f"--ranges {str(path)!r} cannot be read: {why}. Write COLUMN = [LOW, HIGH].") from None
    if not isinstance(held, dict):
        raise InvalidInputError(f"--ranges {str(path)!r} must map columns to ranges. Write COLUMN = [LOW, HIGH].")
    return held


def what_is_stated(pairs: list[str] | None, **named: str | None) -> dict[str, str]:
    """Return what a person states: each name once, in their words."""
    found = {name: text for name, text in named.items() if text is not None}
    for pair in pairs or ():
        name, sign, text = pair.partition("=")
        name = name.strip()
        if not sign or name in found:
            wrong = "is stated twice" if sign else "has no = in it"
            raise InvalidInputError(f"--stated must be NAME=TEXT, each name once; {name[:60]!a} {wrong}.")
        found[name] = text.strip()
    return found


#: What a person who is asked and says no ends with.
_DECLINED = 1


def agreed(plan: Any, messages: tuple[Any, ...]) -> bool:
    """Say what a plan spends, and ask the person at the terminal, if one sits there and it is not paid for."""
    if plan.is_paid or not is_interactive():
        return True
    from pate.privacy.convert import format_up

    for one in messages:
        if one.quoting:  # private values: for a terminal alone
            complain(one.quoting, "yellow")
    spent = f"This spends epsilon {format_up(plan.guarantee.epsilon)}, which cannot be undone. {plan.total}".strip()
    if confirmed(f"{spent}\n{'See the warnings above. ' if messages else ''}Go on?"):
        return True
    complain("Nothing was spent. --plan shows the plan alone; pate plan says what other settings give.", "yellow")
    return False


@o.takes_options(LabelOptions)
def label(context: typer.Context, options: LabelOptions) -> None:
    """Label public rows by what private records show, within a privacy budget."""
    _check_way_in(context, options)
    from pate.jobs import check_new_files, check_proba

    check_new_files(options.out, model=not options.no_model)
    arguments = options.arguments()
    stored = options.out.with_name(options.out.stem + ".private")
    new = not stored.exists()
    job: Any = options.job(**arguments, **({} if options.way == "votes" else {"verbose": show_progress()}))
    if options.proba:
        check_proba(job.plan)
    messages = () if options.way == "votes" else job.check_records()
    planned = {"plan": dict(job.plan.lines()), "will_spend": job.plan.guarantee.to_dict(), "paid": job.plan.is_paid}
    plan = job.plan.text(brief=not manner.verbose)
    if plan != job.plan.text():
        plan += "\n(--verbose also says what becomes of every column, and why)"
    (answer if options.plan else say)(f"Plan\n{in_own_words(plan, manner.options)}")
    if options.plan:
        say_json(planned)
        return
    if manner.quiet and job.plan.caution and not job.plan.is_paid:  # else the plan says it
        complain(f"warning: {in_own_words(job.plan.caution, manner.options)} See pate label --plan.", "yellow")
    if not (options.yes or agreed(job.plan, messages)):
        if new:  # maps of public rows alone: no later run uses them
            shutil.rmtree(stored, ignore_errors=True)
        raise typer.Exit(_DECLINED)
    release = job.run()
    paths = job.write(release, options.out, proba=options.proba, raw_csv=options.raw_csv)
    n_answered = getattr(release, "n_answered", release.n_queries)
    answered = f"{n_answered} of {release.n_queries} questions answered."
    if options.numeric:
        answered = f"Values of {release.n_queries} public rows."
    if options.way == "several":
        answered = f"{len(release.names)} labels of {release.n_queries} public rows."
    if job.plan.n_public == 0:
        answered = "There are no public rows to label: the model is what was learnt."
    answer(f"{answered} {release.statement.headline}")
    answer_quality(release.statement)
    answer("Wrote " + ", ".join(str(p) for p in paths))
    if job.keeps_model:
        model = options.out.with_name(options.out.stem + ".pate")
        job.model(release).save(model)
        paths.append(model)
        answer(f"Wrote {model}, the model: {to_predict(model)}")
    if options.way != "votes":
        job.finish()
    done = {"answered": n_answered, "queries": release.n_queries}
    say_json({**planned, **done, "statement": release.statement.to_dict(), "files": paths})
    told = job.write_account(options.out) if options.way in ("private", "votes") else None
    if told and not manner.quiet:
        complain(told.text, "yellow")
        if is_interactive() and not manner.json:  # the number is for a terminal alone
            complain(told.quoting, "yellow")


def answer_quality(statement: Any) -> None:
    """Print what is known of how good released labels and their model are; of its doubts the release warned."""
    if (measured := statement.measured) is not None:
        for line in (f"The model is {measured}.", *(f"Of class {one}" for one in measured.by_class)):
            answer(line)
    if (errors := statement.errors) is not None:
        answer(f"The model is {errors}.")
    if (quality := statement.quality) is not None:
        answer(f"The model is {quality}.")
        for one in quality.labels:
            answer(f"Label {one}")


def _check_way_in(context: typer.Context, options: LabelOptions) -> None:
    """Refuse options that would be silently ignored: an ignored --group would protect no one."""
    if options.private is not None and options.votes is not None:
        raise InvalidInputError(
            "--private and --votes must not both be given: the private records are here, or votes were cast elsewhere."
            " Keep one."
        )
    for name, use in o.uses_of(type(options)).items():
        if was_given(context, name) and not options.heeds(use):
            here = {
                "votes": "votes cast elsewhere (--votes)",
                "private": "a run on private data (--private)",
                "numbers": "a numeric target (--numeric)",
                "several": "several labels (--target A,B)",
            }
            raise InvalidInputError(f"--{name.replace('_', '-')} has no effect on {here[options.way]}. Leave it out.")
    ranged = options.ranges is not None or options.range is not None
    alone = options.public is None and not ranged and not options.is_folder
    if options.way in ("numbers", "several") and options.private is not None and options.public is None:
        how = "--numeric" if options.numeric else "several labels (--target A,B)"
        raise InvalidInputError(
            f"--public is missing: with {how} private records vote on public rows, a table with the same features."
            + " Where there is none, DP-SGD learns within a schema: pate train --numeric --range LOW,HIGH "
            "--schema FILE." * options.numeric
        )
    if options.way != "votes" and (options.private is None or alone):
        if options.private is None:
            raise InvalidInputError("--private is missing: name private and public data, or --votes cast elsewhere.")
        raise InvalidInputError(
            "--public is missing: a table with the same features (no labels) whose rows are public, such as "
            "an open data set, records released by consent, or rows that a simulation makes; never rows of --private. "
            "Where there is none, declare what its columns hold, --range age=0:120 --range sex=male,female (or "
            "--ranges FILE): records then vote on synthetic rows, or DP-SGD learns from the private table alone. See "
            "docs/public-rows.md."
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
