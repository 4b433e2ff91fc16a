"""Whatever a page tells people to type works: Python is run, commands are run or read by the command line itself.

Examples with ``>>>`` are doctests (``--doctest-glob=*.md``); here is the rest. A snippet that cannot run here has a
line ``<!-- not run: REASON -->`` before it, and must compile all the same.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import re
import shlex
import sys
import types
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import pate
from pate.cli import app

ROOT = Path(pate.__file__).parents[1]
DOCTESTED = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OTHERS = sorted({*ROOT.glob("*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("benchmarks/*/README.md")} - set(DOCTESTED))
PAGES = [*DOCTESTED, *OTHERS]
FENCE = re.compile(r"(?:^<!-- not run: (?P<why>[^\n]+) -->\n\n)?^```(?P<kind>\S*)\n(?P<text>.*?)^```$", re.M | re.S)
INDENTED = re.compile(r"^    (pate (?:[^\n]|\\\n)+?(?:(?<=\\)\n[^\n]+)*)$", re.M)
GROUP = typer.main.get_command(app)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page; ``prints`` is the text block that stands right below it, if one does."""

    kind: str
    text: str
    why: str | None
    prints: str | None


def blocks(page: str) -> list[Block]:
    found = list(FENCE.finditer(page))
    below = [b if not page[a.end() : b.start()].strip() and b["kind"] == "text" else None for a, b in pairwise(found)]
    texts = [None if text is None else text["text"] for text in (*below, None)]
    return [Block(a["kind"], a["text"], a["why"], prints) for a, prints in zip(found, texts, strict=False)]


NUMBER = re.compile(r"\d+(?:\.\d+)?")
#: Noise is drawn anew each time: how far a printed number may lie from the page's, as a share of it.
APART = 0.15


def differs(printed: str, shown: str) -> bool:
    """Whether words differ, or numbers by more than noise explains."""
    if NUMBER.sub("0", printed).split() != NUMBER.sub("0", shown).split():
        return True
    numbers = zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=True)
    return any(abs(float(a) - float(b)) > APART * float(b) for a, b in numbers)


def test_a_page_whose_output_differs_is_found():
    assert not differs("0.91 with privacy\nnoise 12", "0.88 with  privacy\nnoise 12\n")
    assert differs("0.91 with privacy", "0.91 without privacy")
    assert differs("0.61 with privacy", "0.91 with privacy")


def lines(text: str) -> list[str]:
    """Commands as a shell sees them: a backslash goes on with the next line, two blanks and # begin a comment."""
    joined = re.sub(r"\s*\\\n\s*", " ", text).splitlines()
    bare = (re.sub(r"(^|\s{2,})#.*", "", line) for line in joined)
    return [part.strip() for line in bare for part in line.split("&&") if part.strip()]


def commands_of(page: str) -> list[str]:
    """Every ``pate ...`` line of a page, in fences or indented; what stands within a sentence is an excerpt."""
    fenced = [line for block in blocks(page) if block.kind == "sh" for line in lines(block.text)]
    plain = FENCE.sub("", page)
    indented = [line for found in INDENTED.findall(plain) for line in lines(found)]
    spoken = [f"{line} ..." for found in re.findall(r"`(pate [a-z][^`\n]*)`", plain) for line in lines(found)]
    return [line for line in [*fenced, *indented, *spoken] if line.startswith("pate ")]


def written_out(line: str) -> list[str]:
    """A line with every ``[--may-be]`` left out, and put in; of ``a | b`` each."""
    line = re.sub(r"\s{2,}.*", "", line)  # a second column says what it does
    parts = re.split(r"\[([^\[\]]*(?:\[[^\]]*\])?[^\[\]]*)\]", line)
    choices = [[part] for part in parts]
    choices[1::2] = [["", *re.sub(r"[\[\]]", "", part).split(" | ")] for part in parts[1::2]]
    lines = ["".join(choice) for choice in itertools.product(*choices)]
    found = []
    for one in lines:
        either = re.search(r"(\S+(?: \| \S+)+)", one)
        found += [one.replace(either[1], word) for word in either[1].split(" | ")] if either else [one]
    return found


def refusal(line: str) -> str | None:
    """What the command line says against a command; nothing where it would run it. Dots stand for other options."""
    words = shlex.split(line)[1:]
    command, name = GROUP, "pate"
    while hasattr(command, "commands") and words[0] != "...":
        name, *words = words
        if name not in command.commands:
            return f"no command {name}"
        command = command.commands[name]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    unknown = [word for word in words if word.startswith("-") and word not in known | {"-h", "--help"}]
    if unknown:
        return f"no option {unknown[0]}"
    if "..." in words:
        return None
    try:
        command.make_context(name, words)
    except Exception as refused:  # of whichever click typer has
        return str(refused) or type(refused).__name__
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_pages_are_read_as_they_stand(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job = {"private": "a.csv", "target": "ill", "public": "b.csv", "epsilon": 1, "out": "labels.csv"}
    (tmp_path / "job.toml").write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in job.items()))
    found = {one: refusal(one) for line in commands_of(page.read_text(encoding="utf-8")) for one in written_out(line)}
    assert {line: wrong for line, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize(
    ("page", "wrong"),
    [
        ("    pate label --privat a.csv --epsilon 1 --out l.csv\n", "no option --privat"),
        ("    pate labels\n", "no command labels"),
        ("Say `pate ledger shows`.", "no command shows"),
        ("```sh\npate account votes.npy \\\n    --sigma x --delta 1e-5\n```\n", "--sigma"),
        ("    pate ledger show | verify FILE\n", None),
        ("    pate show labels.pate [--json | --out page.html]   # and so on\n", None),
    ],
)
def test_the_reader_of_commands_sees_what_is_wrong(page, wrong):
    said = [refusal(one) for line in commands_of(page) for one in written_out(line)]
    assert said
    assert [text for text in said if text] == [] if wrong is None else wrong in " ".join(filter(None, said))


def python_of(page: str) -> list[Block]:
    return [block for block in blocks(page) if block.kind == "python" and ">>>" not in block.text]


def marked(*long: str) -> list:
    """All pages; these take longer."""
    marks = [pytest.mark.long, pytest.mark.sample]
    return [pytest.param(page, marks=marks if page.name in long else []) for page in PAGES]


@pytest.mark.parametrize("page", marked("extend.md"), ids=lambda page: str(page.relative_to(ROOT)))
def test_python_in_pages_runs(page, tmp_path, monkeypatch):
    """Blocks without >>>, those of a page one after the other; with it they are doctests, and none is skipped."""
    text = page.read_text(encoding="utf-8")
    assert "+SKIP" not in text, "say '<!-- not run: REASON -->' and take the >>> away"
    assert page in DOCTESTED or not re.search(r"^ *>>> ", text, flags=re.M), "examples of this page are not run"
    assert {block.kind for block in blocks(text)} <= {"", "python", "sh", "text", "toml", "json"}
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("page")  # as a reader's script: what it defines is found by its name
    monkeypatch.setitem(sys.modules, "page", module)
    for block in python_of(text):
        name = f"{page.name}: {block.text.splitlines()[0]}"
        code = compile(block.text, name, "exec", dont_inherit=True)  # with no future of this file
        if not block.why:
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(code, module.__dict__)
            assert block.prints is None or not differs(printed.getvalue(), block.prints), printed.getvalue()


@pytest.mark.parametrize("page", marked("start.md", "persons.md"), ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_fences_run(page, tmp_path, monkeypatch):
    """After the page's Python, as a reader would: in one folder, each ending well, and what they name is there."""
    text = page.read_text(encoding="utf-8")
    run = [block for block in blocks(text) if block.kind == "sh" and not block.why]
    if not run:
        return
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for block in python_of(text):
        exec(block.text, names)
    for block in run:
        printed = [text for line in lines(block.text) for text in output_of(line).splitlines()]
        for shown in (block.prints or "").splitlines():
            begins = (" ".join(text.split()[: len(shown.split())]).rstrip(";") for text in printed)
            assert not all(differs(text, shown) for text in begins), f"{shown!r} is not in\n" + "\n".join(printed)

    if page.name == "start.md":
        assert missing_of_the_table(text) == []


def output_of(line: str) -> str:
    """Run a command, which must end well and write what it names, and return what it prints."""
    program, *words = shlex.split(line)
    assert program == "pate", f"{line}: say '<!-- not run: REASON -->'"
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, f"{line}\n{done.output}"
    out = words[words.index("--out") + 1] if "--out" in words else None
    assert out is None or Path(out).is_file() != ("--plan" in words)
    return done.output


def missing_of_the_table(text: str) -> list[str]:
    """Files that the table in docs/start.md names and that are not there; `.txt` is the one before, ending so."""
    rows = re.findall(r"^\| (`[^|]+?) \|", text, flags=re.M)
    assert len(rows) == 5
    missing, last = [], Path()
    for name in (name for row in rows for name in re.findall(r"`([^`]+)`", row)):
        last = last.with_suffix(name) if name.startswith(".") else Path(name)
        missing += [] if last.exists() else [str(last)]
    return missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_scripts_and_targets_that_pages_name_are_there(page):
    text = page.read_text(encoding="utf-8")
    scripts = re.findall(
        r"\b(?:python|pytest)(?: -m slow)?(?: -s)? ((?:experiments|benchmarks|tests)/[\w/]+\.py)", text
    )
    assert [name for name in scripts if not (ROOT / name).exists()] == []
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M)
    typed = re.findall(r"^    make ([\w-]+)|`make ([\w-]+)", text, flags=re.M)
    assert {first or second for first, second in typed} <= set(targets)
