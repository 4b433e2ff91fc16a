"""The package's own files as syntax trees, read once for all tests that look at them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pate

PACKAGE = Path(pate.__file__).parent


@cache
def trees() -> dict[Path, ast.Module]:
    """Every file of the package, parsed."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def imports_in(tree: ast.AST, *, runtime: bool = True) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Every import anywhere in a file, and whether it happens when the code runs (not for type checkers alone).

    Imports are statements, so expressions are not entered: that is most of a tree.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, runtime
        elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            yield from imports_in(ast.Module(node.body, []), runtime=False)
            yield from imports_in(ast.Module(node.orelse, []), runtime=runtime)
        elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from imports_in(node, runtime=runtime)
