"""The design page's list of what an epsilon rests on: its modules are there, and as long as it says."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

import pate

ROOT = Path(pate.__file__).parent
PAGE = (ROOT.parent / "docs" / "design.md").read_text(encoding="utf-8").partition("## What an epsilon rests on")[2]
ROWS = re.findall(r"^\| [^|]+ \| ((?:`[\w/]+`(?:, )?)+) \| (\d+) \|", PAGE, flags=re.MULTILINE)
_BLANK = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(source: str) -> int:
    """Lines that hold code: no docstring, comment or blank line."""
    held: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _BLANK:
            held |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            held -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(held)


def test_code_lines_are_neither_docstrings_nor_comments():
    assert code_lines('"""A\nB."""\n\n# c\nx = (\n    1\n)\n\n\ndef f():\n    """D."""\n    return x\n') == 5


@pytest.mark.parametrize(("modules", "lines"), ROWS)
def test_each_row_names_modules_and_their_lines(modules, lines):
    files = [ROOT / f"{name}.py" for name in re.findall(r"`([\w/]+)`", modules)]
    counted = sum(code_lines(file.read_text(encoding="utf-8")) for file in files)
    assert int(lines) == pytest.approx(counted, rel=0.1)


def test_what_the_page_says_of_a_federation_names_all_of_its_modules_and_no_other():
    whole = (ROOT.parent / "docs" / "design.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"^\| \d+ \| `federation/` \| ([^|]+) \|", whole, flags=re.MULTILINE)
    there = {file.stem for file in (ROOT / "federation").glob("*.py")} - {"__init__"}
    assert set(re.findall(r"`(\w+)`", row)) == there
    (rests,) = re.findall(r"and in `federation/` on (.+?) and on MPyC itself", whole)
    assert set(re.findall(r"`(\w+)`", rests)) <= there


def test_the_whole_is_what_the_page_says():
    assert len(ROWS) == 8
    said = int(re.search(r"About ([\d,]+) lines of code", PAGE)[1].replace(",", ""))
    assert said == pytest.approx(sum(int(lines) for _, lines in ROWS), rel=0.02)
