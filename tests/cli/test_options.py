"""An option is written once: the command line, the job file and the job all read one declaration."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
import typing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from test_cli import pate
from typer.testing import CliRunner

from pate import Budget, GNMax, InvalidInputError, quote
from pate.cli import _account as account
from pate.cli import _experiment as experiment
from pate.cli import _label as label_command
from pate.cli import _options as shared
from pate.cli import app
from pate.cli._app import as_command, in_own_words
from pate.cli._label import LabelOptions
from pate.cli._options import (
    _KINDS,
    DELTA,
    IMAGES,
    MODEL,
    NOISE,
    OUTPUT,
    PRIVACY,
    PRIVATE,
    PUBLIC,
    RUN,
    SCREEN,
    STATEMENT,
    TABLES,
    TEACHERS,
    VOTES,
    GroupedCommand,
    annotated,
    option,
    read_job_file,
    takes_options,
    uses_of,
)
from pate.comparison.run import compare_on
from pate.comparison.studies.config import MODULES, RunConfig
from pate.data import load_dataset
from pate.data._files.images import COLORS
from pate.data.queries import STRATEGIES
from pate.jobs import CHOICES, PREPROCESSING, LabelJob, VoteJob
from pate.jobs._request import UNITS
from pate.jobs.vote_files import read_votes
from pate.mechanisms import named_mechanisms
from pate.models.recipes import PublicFacts, choose

DEFAULTS = {field.name: field.default for field in fields(LabelOptions)}
NAMES = [field.name for field in fields(LabelOptions)]
JOBS = {"private": LabelJob, "votes": VoteJob}
#: What the command says to every job itself, and what a command line may not say.
NOT_OPTIONS = {"private": {"verbose", "noise_seed"}, "votes": {"n_teachers", "noise_seed"}}
#: The command takes every core; a job in Python leaves that to joblib.
OTHER_DEFAULTS = {"jobs"}


def flag(name):
    return "--" + name.replace("_", "-")


def minimal(way, **given):
    ways_in = {"private": {"private": Path("p.csv"), "public": Path("u.csv")}, "votes": {"votes": Path("v.npy")}}
    return LabelOptions(**{"epsilon": 1.0, "out": Path("labels.csv"), **ways_in[way], **given})


def toml(values):
    texts = {k: json.dumps(str(v) if isinstance(v, Path) else list(v) if isinstance(v, tuple) else v)
             for k, v in values.items()}  # fmt: skip
    return "\n".join(f"{k.replace('_', '-')} = {text}" for k, text in texts.items())


@pytest.fixture
def asked(monkeypatch):
    """The options that ``pate label`` was given, of a command that stops there."""
    found = []
    monkeypatch.setattr(label_command, "_check_way_in", lambda context, options: found.append(options) or stop())
    return found


def stop():
    raise typer.Exit


# One declaration ------------------------------------------------------------------------------------------------


def test_every_field_is_an_option_with_a_help_in_a_group():
    (command,) = [c for c in typer.main.get_command(app).commands.values() if c.name == "label"]
    assert len(NAMES) > 50
    for name in NAMES:
        (parameter,) = [p for p in command.params if p.name == name]
        assert flag(name) in parameter.opts, name
        assert parameter.help, name
        assert parameter.rich_help_panel in vars(shared).values(), name


def test_every_field_is_a_key_of_the_job_file_or_says_why_not(tmp_path):
    """A value of no known kind: the key is known, whatever else is said of it."""
    uses = uses_of(LabelOptions)
    for name in NAMES:
        (tmp_path / "job.toml").write_text(f"{name} = 1979-05-27")
        said = f"must not hold '{name}'" if uses[name].not_in_file else f"{name} must be "
        with pytest.raises(InvalidInputError, match=said):
            read_job_file(tmp_path / "job.toml", uses)


@pytest.mark.parametrize("way", JOBS)
def test_every_field_is_an_argument_of_the_job_and_every_argument_a_field(way):
    taken = set(inspect.signature(JOBS[way]).parameters)
    assert set(minimal(way).arguments()) == taken - NOT_OPTIONS[way]
    uses = uses_of(LabelOptions).items()
    none_of_the_jobs = {name for name, use in uses if use.argument is None and not use.now}
    assert none_of_the_jobs == {"out", "proba", "raw_csv", "config", "plan", "yes", "classes_from_private", "help_all",
                                "numeric"}  # fmt: skip


@pytest.mark.few(1)
@pytest.mark.parametrize("way", JOBS)
def test_defaults_are_those_of_the_job(way):
    parameters = inspect.signature(JOBS[way]).parameters
    compared = 0
    for field in fields(LabelOptions):
        use = uses_of(LabelOptions)[field.name]
        argument = use.argument
        if use.argument is None or not minimal(way).heeds(use) or argument in minimal(way)._made():
            continue
        if parameters[argument].default is not inspect.Parameter.empty and field.name not in OTHER_DEFAULTS:
            assert field.default == parameters[argument].default, field.name
            compared += 1
    assert compared >= {"private": 20, "votes": 12}[way]


def test_what_several_options_make_together_is_made():
    """None of them is handed on raw in place of the argument that they make."""
    arguments = [use.argument for use in uses_of(LabelOptions).values() if use.argument is not None]
    shared_arguments = {argument for argument in arguments if arguments.count(argument) > 1}
    assert shared_arguments == {"budget", "classes", "mechanism", "schema", "stated"}
    made = minimal("private", mechanism="gnmax", sigma=7.0, purpose="why", stated=["a=b"]).arguments()
    assert (made["mechanism"], made["stated"]) == (GNMax(7.0), {"purpose": "why", "a": "b"})
    assert shared_arguments <= set(minimal("votes")._made())


def test_what_is_left_out_is_given_to_the_job_as_its_own_defaults():
    """Options that make one argument together: nothing said is the job's default too, but for the ledger's place."""
    made = minimal("private").arguments()
    assert (made["mechanism"], made["stated"], made["budget"]) == (None, {}, Budget(1.0, DELTA))
    assert made["ledger"] == Path("p.csv.ledger.sqlite")
    assert made["checkpoint_dir"] == Path("labels.private/teachers")
    assert minimal("private", checkpoints=False).arguments()["checkpoint_dir"] is None
    assert minimal("private", plan=True).arguments()["checkpoint_dir"] is None
    assert minimal("private", ledger=Path("mine")).arguments()["ledger"] == Path("mine")
    assert minimal("votes").arguments()["ledger"] is None  # beside the votes


def test_a_new_option_touches_one_place(tmp_path):
    """One field more, and it is on the command line, in its group, in the job file, and handed to the job."""

    @dataclass(frozen=True, kw_only=True)
    class More(LabelOptions):
        most_seconds: Annotated[int, option("Stop after so long.", "Patience", argument="limit", way="private")] = 60

    globals()["Annotated"], globals()["More"] = Annotated, More
    found = []

    @takes_options(More)
    def command(context: Any, options: Any) -> None:
        found.append(options)

    small = typer.Typer(rich_markup_mode=None)
    small.command(cls=GroupedCommand)(command)
    helped = CliRunner().invoke(small, ["--help"]).stdout
    assert "Patience:\n  --most-seconds" in helped
    done = CliRunner().invoke(small, ["--epsilon", "1", "--out", "a.csv", "--most-seconds", "7"])
    assert (done.exit_code, found[0].arguments()["limit"]) == (0, 7)
    assert "limit" not in More(epsilon=1.0, out=Path("a"), votes=Path("v")).arguments()
    (tmp_path / "job.toml").write_text("most-seconds = 8")
    assert read_job_file(tmp_path / "job.toml", uses_of(More)) == {"most_seconds": 8}
    (tmp_path / "job.toml").write_text("most-second = 8")
    with pytest.raises(InvalidInputError, match="Did you mean 'most-seconds'"):
        read_job_file(tmp_path / "job.toml", uses_of(More))


# Words that are allowed -----------------------------------------------------------------------------------------


def words(annotation):
    base = typing.get_args(annotation)[0] if typing.get_origin(annotation) is Annotated else annotation
    inner = [kind for kind in typing.get_args(base) if typing.get_origin(kind) is typing.Literal]
    return typing.get_args(inner[0] if inner else base)


def test_words_are_those_that_the_package_knows():
    label = {name: words(said) for name, said in annotated(LabelOptions).items()}
    run, asks = (typing.get_type_hints(f, include_extras=True) for f in (experiment.run, account.account))
    assert set(label["select"]) == set(CHOICES)
    assert label["preprocess"] == PREPROCESSING
    assert label["unit"] == UNITS
    assert set(label["color"]) == set(COLORS)
    assert label["mechanism"] == words(asks["mechanism"]) == words(run["mechanism"]) == named_mechanisms()
    assert set(words(run["select"])) == set(STRATEGIES)
    assert words(run["dpsgd"]) == MODULES


def refusal(call, *arguments, **options):
    with pytest.raises(InvalidInputError) as caught:
        call(*arguments, **options)
    return re.findall(r"'([^']+)'", str(caught.value).split("got")[0])


def test_words_are_those_that_lower_floors_refuse_all_others_for(tmp_path):
    label = {name: words(said) for name, said in annotated(LabelOptions).items()}
    terms = {"budget": Budget(1.0, 1e-5), "on_exhausted": "?"}
    assert refusal(quote, 1, GNMax(40.0), **terms) == list(label["on_exhausted"])
    (tmp_path / "v.csv").write_text("1,2\n2,1\n")
    assert refusal(read_votes, tmp_path / "v.csv", kind="?") == list(label["kind"])
    protocol = typing.get_type_hints(experiment.compare, include_extras=True)["protocol"]
    assert refusal(load_dataset, "digits", protocol="?") == list(words(protocol))


@pytest.mark.few(8)
@pytest.mark.parametrize(
    ("name", "word"),
    [(n, w) for n, said in annotated(LabelOptions).items() for w in words(said) if isinstance(w, str)],
)
def test_each_word_is_taken(asked, name, word):
    done = pate("label", "--epsilon", 1, "--out", "a.csv", flag(name), word)
    assert done.returncode == 0, done.stderr
    assert getattr(asked[0], name) == word


@pytest.mark.parametrize(
    ("command", "name"),
    [
        *[("label", n) for n in ("mechanism", "select", "on-exhausted", "preprocess", "color", "unit", "kind")],
        *[("run", n) for n in ("mechanism", "select", "on-exhausted", "dpsgd", "protocol")],
        ("account", "mechanism"),
        ("account", "kind"),
        ("compare", "protocol"),
    ],
)
def test_another_word_is_refused_before_anything_is_read(command, name):
    """Whatever else is wrong (here: nothing that is needed is there), the word is."""
    start = {"account": ["nowhere.npy", "--delta", 1e-5, "--mechanism", "gnmax"]}.get(command, ["--out", "a"])
    done = pate(command, *start, f"--{name}", "other")
    assert done.returncode == 2
    assert f"--{name}" in done.stderr
    assert "'other' is not one of" in done.stderr
    assert "Value error" not in done.stderr
    assert "Traceback" not in done.stderr


# Help -----------------------------------------------------------------------------------------------------------


def groups_of(text):
    """Return the options below each heading."""
    found: dict[str, list[str]] = {}
    for line in text.partition("\nExamples:")[0].splitlines():
        if line and not line.startswith((" ", "Usage")):
            found[line.rstrip(":")] = []
        elif match := re.match(r"  (?:-[a-z], )?(--[a-z-]+)", line):
            found[list(found)[-1]].append(match[1])
    return found


#: Options of the command that are no job's.
SPOKEN = ["--help-all", "--quiet", "--verbose", "--json", "--help"]


def test_help_has_the_common_options_and_says_where_the_others_are():
    """What few need is shown by --help-all alone; it works all the same, and comes back as it was."""
    every, common = (groups_of(pate("label", how).stdout) for how in ("--help-all", "--help"))
    assert list(common) == list(every)
    shown = [name for names in common.values() for name in names]
    assert 40 <= len(shown) <= 45
    assert set(SPOKEN) <= set(shown)
    for name in ("private", "target", "classes", "public", "epsilon", "delta", "out", "voters", "plan", "config"):
        assert flag(name) in shown
    for group, names in common.items():  # in the same order
        assert names == [name for name in every[group] if name in names]
    rare = {name for names in every.values() for name in names} - set(shown)
    assert {"--partition-seed", "--accounting-unit", "--max-categories"} <= rare
    assert "--sigma-threshold" in pate("run", "--help").stdout  # a command with fewer options hides none


def test_help_has_every_option_once_and_every_group():
    groups = groups_of(pate("label", "--help-all").stdout)
    order = [PRIVATE, PUBLIC, TABLES, IMAGES, VOTES, TEACHERS, PRIVACY, NOISE, STATEMENT, MODEL, OUTPUT, RUN, SCREEN]
    assert list(groups) == order
    options = [name for names in groups.values() for name in names]
    shown = {flag(name) for name, use in uses_of(LabelOptions).items() if not use.now}
    assert sorted(options) == sorted(shown | set(SPOKEN))
    assert groups[PRIVACY] == ["--epsilon", "--delta", "--tiers", "--ledger", "--accounting-unit", "--new-ledger"]
    assert max(len(names) for names in groups.values()) <= 12


@pytest.mark.parametrize("command", ["demo", "run", "account", "plan", "compare", "statement", "predict", "show"])
def test_help_of_other_commands_is_in_groups_too(command):
    text = pate(command, "--help").stdout
    (found,) = [c for c in typer.main.get_command(app).commands.values() if c.name == command]
    options = [next(o for o in p.opts if o.startswith("--")) for p in found.params if p.param_type_name == "option"]
    groups = groups_of(text)
    assert sorted(name for names in groups.values() for name in names) == sorted([*options, "--help"])
    assert set(groups) - {"Arguments"} <= {
        PRIVATE,
        PUBLIC,
        TABLES,
        IMAGES,
        VOTES,
        TEACHERS,
        PRIVACY,
        NOISE,
        STATEMENT,
        MODEL,
        OUTPUT,
        RUN,
        SCREEN,
    }
    assert len(groups) > 1


def test_help_loads_nothing_heavy():
    code = (
        "import sys\nfrom pate.cli import main\nsys.argv = ['pate', 'label', '--help']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "heavy = ('numpy', 'scipy', 'pandas', 'sklearn', 'torch', 'matplotlib', 'dp_accounting')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


# Former names --------------------------------------------------------------------------------------------------


def test_former_names_of_options_are_read_with_a_remark(tmp_path, asked):
    (tmp_path / "job.toml").write_text(toml({"epsilon": 1.0, "out": "l.csv", "anyway": True, "ledger_currency": "gdp"}))
    line = ["--epsilon", 1, "--out", "l.csv", "--anyway", "--ledger-currency", "gdp"]
    for options in (["--config", "job.toml"], line):
        done = pate("label", *options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "--anyway is deprecated: it is now called --force" in done.stderr
        assert "--ledger-currency is deprecated: it is now called --accounting-unit" in done.stderr
    assert [(one.force, one.accounting_unit) for one in asked] == [(True, "gdp")] * 2


def test_a_former_name_beside_another_value_of_the_present_one_is_refused():
    with pytest.raises(InvalidInputError, match="--ledger-currency is the former name of --accounting-unit"):
        minimal("private", ledger_currency="gdp", accounting_unit="renyi")


def test_an_unknown_option_of_a_file_is_not_answered_by_a_former_name(tmp_path):
    (tmp_path / "job.toml").write_text("anyways = true")
    with pytest.raises(InvalidInputError) as caught:
        read_job_file(tmp_path / "job.toml", uses_of(LabelOptions))
    assert "anyway," not in str(caught.value)
    assert "'anyway'" not in str(caught.value)


# The job file ---------------------------------------------------------------------------------------------------


def test_a_file_of_all_defaults_reads_back_equal(tmp_path, asked):
    plain = LabelOptions(epsilon=1.0, out=tmp_path / "labels.csv")
    held = {
        name: getattr(plain, name)
        for name, key in uses_of(LabelOptions).items()
        if not key.not_in_file and getattr(plain, name) is not None
    }
    (tmp_path / "job.toml").write_text(toml(held))
    assert len(held) >= 19
    for options in (["--config", "job.toml"], ["--epsilon", 1, "--out", tmp_path / "labels.csv"]):
        done = pate("label", *options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    from_file, from_line = asked
    assert {n for n in NAMES if getattr(from_file, n) != getattr(from_line, n)} == {"config"}
    assert all(getattr(from_line, n) == getattr(plain, n) for n in NAMES)


#: A value of each kind that is no option's default.
OF_KIND = {Path: Path("some/where"), str: "a text", float: 0.25, int: 7, bool: True, list[str]: ["a=b", "c=d"],
           shared.Size: "28x20"}  # fmt: skip


def other_value(key):
    allowed = typing.get_args(key.kind) if typing.get_origin(key.kind) is typing.Literal else ()
    return allowed[-1] if allowed else OF_KIND[key.kind]


def test_every_option_means_the_same_in_a_file_and_on_the_command_line(tmp_path, asked):
    """Every option at once, each with a value of its own: both roads lead to equal options."""
    keys = {name: key for name, key in uses_of(LabelOptions).items() if not key.not_in_file}
    values = {name: other_value(key) for name, key in keys.items()}
    values["checkpoints"] = False
    (tmp_path / "job.toml").write_text(toml(values))
    assert pate("label", "--config", "job.toml", cwd=tmp_path).returncode == 0
    line: list[Any] = []
    for name, value in values.items():
        if isinstance(value, bool):
            line += [flag(name) if value else f"--no-{name}"]
        elif isinstance(value, list):
            line += [part for one in value for part in (flag(name), one)]
        else:
            line += [flag(name), value]
    done = pate("label", *line, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    from_file, from_line = asked
    for name, key in keys.items():
        held, typed = getattr(from_file, name), getattr(from_line, name)
        if key.kind is Path:  # a file's paths start at its folder, the command line's where one stands
            assert (held, typed) == (Path(values[name]), Path(values[name])), name
        else:
            assert held == typed, name
        assert held != DEFAULTS[name], name


@pytest.mark.parametrize(
    ("line", "file", "names"),
    [
        (["a,b , c"], None, ("a", "b", "c")),
        (["a,b", "c"], ["a,b", "c"], ("a,b", "c")),
        (None, ["a,b"], ("a,b",)),
    ],
)
@pytest.mark.parametrize("name", ["classes", "drop", "text"])
def test_names_are_parted_by_commas_or_given_again(tmp_path, asked, name, line, file, names):
    """What has a comma in it is said by giving the option more than once, or in a file's list."""
    if line is not None:
        given = [part for one in line for part in (flag(name), one)]
        assert pate("label", "--epsilon", 1, "--out", "l.csv", *given, cwd=tmp_path).returncode == 0
    if file is not None:
        (tmp_path / "job.toml").write_text(f'epsilon = 1\nout = "l.csv"\n{name} = {json.dumps(file)}')
        assert pate("label", "--config", "job.toml", cwd=tmp_path).returncode == 0
    assert {tuple(getattr(options, name)) for options in asked} == {names}


@pytest.mark.parametrize("empty", ["", " , "])
def test_no_name_at_all_is_refused(tmp_path, asked, empty):
    """It would mean the default, which is not what was written."""
    done = pate("label", "--epsilon", 1, "--out", "l.csv", "--classes", empty, cwd=tmp_path)
    assert done.returncode == 2
    assert f"got no name in {empty!r}" in done.stderr
    done = pate("compare", "--dataset", "digits", "--contestants", empty, "--out", "run", cwd=tmp_path)
    assert done.returncode == 2
    assert not asked
    assert not (tmp_path / "run").exists()


def test_every_type_of_option_is_one_that_a_file_can_hold():
    """An option of a new type needs a line in the reader: it is not passed over."""
    kinds = {key.kind for key in uses_of(LabelOptions).values() if typing.get_origin(key.kind) is not typing.Literal}
    assert kinds == set(OF_KIND) == set(_KINDS)


# Other commands -------------------------------------------------------------------------------------------------


def defaults(command):
    """The defaults of a command's options, as they are typed."""
    return {name: parameter.default for name, parameter in inspect.signature(as_command(command)).parameters.items()}


def test_defaults_of_run_and_compare_are_those_of_their_functions():
    """Commands take every core."""
    names = {"teachers": "n_teachers", "queries": "n_queries", "repeats": "n_repeats", "public": "n_public",
             "private": "n_private", "seed": "random_state"}  # fmt: skip
    for command, target, own in (
        (experiment.run, RunConfig, {"jobs"}),
        (experiment.compare, compare_on, {"jobs"}),
    ):
        theirs = inspect.signature(target).parameters
        differ = {
            name: (default, theirs[names.get(name, name)].default)
            for name, default in defaults(command).items()
            if name not in own
            and names.get(name, name) in theirs
            and inspect.Parameter.empty not in (default, theirs[names.get(name, name)].default)
            and default != theirs[names.get(name, name)].default
        }
        assert differ == {}, command.__name__
    assert defaults(account.plan)["delta"] == DELTA


def test_an_option_is_called_as_its_argument_is_but_for_n():
    """``--teachers`` is ``n_teachers``; what is made of several options, or goes by another word, stands here."""
    named = {name: use.argument for name, use in uses_of(LabelOptions).items() if use.argument is not None}
    other = {name: argument for name, argument in named.items() if argument not in (name, f"n_{name}")}
    of_several = {
        name for name, argument in other.items() if argument in ("budget", "classes", "mechanism", "schema", "stated")
    }
    assert set(other) - of_several == {"checkpoints", "no_model", "seed"}
    assert named["stated"] == "stated"
    assert named["overlap_is_public"] == "overlap_is_public"
    assert named["jobs"] == "n_jobs"


@pytest.mark.parametrize("kind", ["table", "glyph", "image"])
def test_reasons_of_the_rule_for_records_are_english_also_where_a_word_is_an_options_name(kind):
    reasons = choose(PublicFacts(2_000, 3, 0.3, 700, kind)).reasons
    options = {f.name: "--" + f.name.replace("_", "-") for f in fields(LabelOptions)}
    for reason in ("\n".join(map(" ".join, reasons)), *map(" ".join, reasons)):
        assert in_own_words(reason, options) == reason
