"""An example that cannot fail is decoration: every doctest says what comes out of it, and public names have one."""

from __future__ import annotations

import ast
import doctest
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from package_source import trees

import pate

ROOT = Path(pate.__file__).parent
PACKAGES = sorted(".".join(["pate", *p.relative_to(ROOT).parent.parts]) for p in ROOT.rglob("__init__.py"))


def examples(text: str | None) -> list[doctest.Example]:
    return doctest.DocTestParser().get_examples(inspect.cleandoc(text)) if text else []


def asserts(found: list[doctest.Example]) -> bool:
    """An expected line, or an expected exception, that something else than this could contradict."""
    return any(
        not example.options.get(doctest.SKIP, False) and (example.exc_msg or example.want.replace("...", "").strip())
        for example in found
    )


def silent(tree: ast.Module) -> Iterator[str]:
    """Names of the definitions in a file with an example that asserts nothing."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found = examples(ast.get_docstring(node, clean=False))
            if found and not asserts(found):
                yield getattr(node, "name", "the module")


def public_names() -> list[tuple[str, str]]:
    return [(package, name) for package in PACKAGES for name in getattr(import_module(package), "__all__", [])]


@pytest.mark.long
def test_every_example_says_what_comes_out():
    assert sum(">>> " in path.read_text(encoding="utf-8") for path in trees()) > 100
    found = {str(path.relative_to(ROOT)): list(silent(tree)) for path, tree in trees().items()}
    assert {path: names for path, names in found.items() if names} == {}


def test_every_public_object_has_an_example_that_can_fail():
    values = {name: getattr(import_module(package), name) for package, name in public_names()}
    objects = {name: value for name, value in values.items() if inspect.isclass(value) or inspect.isfunction(value)}
    assert len(objects) > 200
    assert [name for name, value in objects.items() if not asserts(examples(value.__doc__))] == []


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (">>> f()", ["f"]),
        (">>> f()\n    ...", ["f"]),
        (">>> f()  # doctest: +SKIP\n    1", ["f"]),
        (">>> x = 1\n    >>> f()", ["f"]),
        (">>> f()\n    1", []),
        (">>> f()\n    Traceback (most recent call last):\n    ValueError: no", []),
        (">>> x = f()\n    >>> x\n    Votes(...)", []),
        ("No example at all.", []),
    ],
)
def test_the_reader_of_examples_sees_the_silent_ones(body, found):
    source = f'def f():\n    """Do it.\n\n    Examples\n    --------\n    {body}\n    """\n'
    assert list(silent(ast.parse(source))) == found
