"""What every command has in common: help, examples, JSON, quiet, version, and refusals in its own words."""

import json
import shlex
import subprocess
import sys

import numpy as np
import pytest
import typer
from test_cli import pate

from pate import Budget, GNMax, Ledger, __version__
from pate.cli import app
from pate.cli._app import EXAMPLES

GROUP = typer.main.get_command(app)


def commands():
    for name, command in GROUP.commands.items():
        if hasattr(command, "commands"):
            yield from ((f"{name} {inner}", held) for inner, held in command.commands.items())
        else:
            yield name, command


COMMANDS = dict(commands())


def test_every_command_has_examples_and_every_example_a_command():
    assert set(EXAMPLES) == set(COMMANDS)


@pytest.mark.few(6)
@pytest.mark.parametrize("name", COMMANDS)
def test_examples_are_in_the_help_and_are_read_as_they_stand(name):
    shown = pate(*name.split(), "-h").stdout
    assert shown == pate(*name.split(), "--help").stdout
    assert all(f"\n  {line}\n" in shown for line in EXAMPLES[name])
    for line in "\n".join(EXAMPLES[name]).replace("\\\n", " ").splitlines():
        words = shlex.split(line)
        n = len(name.split()) + 1
        assert words[:n] == ["pate", *name.split()]
        COMMANDS[name].make_context(name, words[n:])  # refuses what it does not know


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_how_it_speaks(name):
    options = {o for p in COMMANDS[name].params for o in p.opts}
    assert {"--quiet", "-q", "--verbose", "-v", "--json"} <= options


def test_version_and_module():
    assert pate("--version").stdout == f"pate {__version__}\n"
    done = subprocess.run([sys.executable, "-m", "pate", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"pate {__version__}\n"


def test_completion_is_offered():
    shown = pate("-h").stdout
    assert "--install-completion" in shown
    assert "--show-completion" in shown


def test_json_is_one_document_and_nothing_else(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", total=Budget(2.0, 1e-5))
    ledger.record(GNMax(40.0).charge(10), mechanism="GNMax(sigma=40.0)", n_queries=10)
    np.save(tmp_path / "votes.npy", [[98, 2], [5, 95]])
    how = ("--mechanism", "gnmax", "--sigma", 20, "--delta", 1e-5, "--no-pld")
    found = {
        "plan": pate("plan", "--epsilon", 1, "--classes", 3, "--records", 5000, "--public", 900, "--json"),
        "account": pate("account", tmp_path / "votes.npy", *how, "--json"),
        "show": pate("ledger", "show", ledger.path, "--json"),
        "verify": pate("ledger", "verify", ledger.path, "--json"),
        "remaining": pate("ledger", "remaining", ledger.path, "--json"),
    }
    read = {name: json.loads(done.stdout) for name, done in found.items()}
    assert read["verify"]["ok"] is True
    assert read["account"]["public"]["epsilon"] > 0
    assert "private" not in read["account"]
    revealed = json.loads(pate("account", tmp_path / "votes.npy", *how, "--json", "--reveal").stdout)
    assert revealed["private"]["data_dependent"]["kind"] in ("data-dependent", "public")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("lable", "no such command 'lable'. Did you mean 'label'? See pate -h."),
        ("label --epsilom 1", "there is no option --epsilom. Did you mean --epsilon"),
        ("plan --classes 3", "--epsilon is missing: give the budget, or --attacker N instead."),
        ("predict", "rows is missing. See pate predict -h."),
        ("plan --classes 3 --epsilon x", "--epsilon must be a number, got 'x'. See pate plan -h."),
        (
            "plan --classes=2.5 --epsilon 1 --records 9",
            "--classes must be a whole number, or names separated by commas, got '2.5'.",
        ),
        ("plan --classes 3 --epsilon 1 --kind foo", "--kind: 'foo' is not one of 'table', 'mixed'"),
        ("ledger shw x", "no such command 'shw'. Did you mean 'show'? See pate ledger -h."),
        ("account", "votes is missing"),
    ],
)
def test_a_misused_command_line_is_refused_in_one_line(line, text):
    done = pate(*line.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert text.lower() in done.stderr.lower()


def test_no_colours_where_there_is_no_terminal():
    assert "\x1b" not in pate("lable").stderr
