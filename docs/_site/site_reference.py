"""Pages of the API reference: one for each public package and module, and a first page with every name by its task."""

import inspect
import pkgutil
import re
import textwrap
from functools import cache
from importlib import import_module
from pathlib import Path

from site_tasks import TASKS

import pate

#: Marks of reStructuredText that are none in these docstrings: |x|, n_rows_, a lone *shape.
MARKS = re.compile(r"(?<!\\)(?:\||(?<=\w)_(?!\w)|(?<![\w*])\*(?=\w)(?![^*]*\*))")
#: Commands are no API.
LEFT_OUT = {"pate.cli"}
#: Classes of others, whose members are not listed again in ours.
BASES = (
    "BaseEstimator, ClassifierMixin, TransformerMixin, Module, Optimizer, Exception, Protocol, dict, tuple, str, int"
)
#: Modules of their own that people import from.
MODULES = (
    "pate.comparison.contestants",
    "pate.comparison.contract",
    "pate.exceptions",
    "pate.models.file",
    "pate.data.queries",
    "pate.report.plots",
    "pate.audit.testing",
)


INTRODUCTION = """\
Everything that you can import, by what you want to do. Within a task, the names that you import from ``pate`` itself
come first; the heading above each table says where to import from. :doc:`Concepts </docs/concepts>` explains the terms
(record voters, ballots, ledger, statement), with a glossary.
"""


@cache
def packages() -> dict[str, list[str]]:
    """Return the public names of every public package and module that has some.

    Examples
    --------
    >>> packages()["pate.estimators.selection"]
    ['Candidate', 'Selection', 'private_select']
    """
    names = [found.name for found in pkgutil.walk_packages(pate.__path__, "pate.") if found.ispkg]
    public = [
        n
        for n in ["pate", *sorted([*names, *MODULES])]
        if n not in LEFT_OUT and not any(p[0] == "_" for p in n.split("."))
    ]
    found = {name: sorted(getattr(import_module(name), "__all__", [])) for name in public}
    return {name: [n for n in listed if not n.startswith("_")] for name, listed in found.items() if listed}


@cache
def home(package: str, name: str) -> str:
    """Return the package in which a name of a package is documented: the last that gives it to the same thing.

    Examples
    --------
    >>> home("pate", "private_select"), home("pate", "account"), home("pate", "Plan")
    ('pate.estimators.selection', 'pate', 'pate')
    """
    value = getattr(import_module(package), name)
    having = [p for p, names in packages().items() if name in names and getattr(import_module(p), name) is value]
    return having[-1]


@cache
def homes() -> dict[str, str]:
    """Return where each name is documented; of one that has two meanings, the first.

    Examples
    --------
    >>> homes()["private_select"], homes()["account"]
    ('pate.estimators.selection', 'pate')
    """
    return {name: home(package, name) for package, names in reversed(packages().items()) for name in names}


def by_task() -> dict[str, list[tuple[str, str]]]:
    """Return the package and the name of everything public, by task.

    Examples
    --------
    >>> by_task()["Federation"][0]
    ('pate.federation', 'Plan')
    """
    found = {}
    for task, names in TASKS.items():
        split = [name.rpartition(".") for name in names.split()]
        found[task] = [(home(f"pate.{where}", name) if where else homes()[name], name) for where, _, name in split]
    return found


def _title(text: str, line: str) -> str:
    return f"{text}\n{line * len(text)}\n"


def _entry(package: str, name: str) -> str:
    value = getattr(import_module(package), name)
    if not callable(value):
        return f".. autodata:: {package}.{name}\n   :no-value:\n"
    if not inspect.isclass(value):
        return f".. autofunction:: {package}.{name}\n"
    return f".. autoclass:: {package}.{name}\n   :inherited-members: {BASES}\n"


def _line(value: object) -> str:
    """Return the first paragraph of a docstring; of data, which have none of their own, the value."""
    if not (callable(value) or inspect.ismodule(value)):
        return f"``{textwrap.shorten(repr(value), 60, placeholder=' ...')}``"
    parts = re.split(r"(`+[^`]*`+)", " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split()))
    parts[::2] = [MARKS.sub(r"\\\g<0>", part) for part in parts[::2]]
    return "".join(parts)


def _link(package: str, name: str) -> str:
    return f":py:obj:`{name} <{package}.{name}>`"


def _table(rows: list[tuple[str, str]]) -> str:
    cells = "".join(f"   * - {left}\n     - {right}\n" for left, right in rows)
    return f".. list-table::\n   :class: names\n   :widths: 35 65\n\n{cells}"


def _parts(names: list[tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
    """Return names by where they are imported from: first ``pate`` itself, then its packages."""
    parts: dict[str, list[tuple[str, str]]] = {}
    for where, name in names:
        top = name in pate.__all__ and home("pate", name) == where
        parts.setdefault("pate" if top else where, []).append((where, name))
    return {key: parts[key] for key in sorted(parts, key=lambda key: key != "pate")}


def _first(names: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the names of a task by which a reader knows it: those of ``pate`` itself, else the first ones."""
    return (_parts(names).get("pate") or names)[:5]


def pages() -> dict[str, str]:
    """Return the text of every page by its name, each object documented once.

    Examples
    --------
    >>> ".. autofunction:: pate.estimators.selection.private_select" in pages()[
    ...     "pate.estimators.selection"
    ... ]
    True
    """
    made = {}
    for package, names in packages().items():
        here = [name for name in names if home(package, name) == package]
        there = [_link(home(package, name), name) for name in names if name not in here]
        made[package] = "\n".join(
            [
                _title(package, "="),
                f".. automodule:: {package}\n   :no-members:\n",
                *(["Described on the pages of their own packages: " + ", ".join(there) + "\n"] if there else []),
                *(_entry(package, name) for name in here),
            ]
        )
    found = by_task()
    labels = {task: f"task-{i}" for i, task in enumerate([*found, "Packages"])}
    contents = [
        (f":ref:`{task} <{labels[task]}>`", ", ".join(_link(*n) for n in _first(names)))
        for task, names in found.items()
    ]
    contents += [(f":ref:`Packages <{labels['Packages']}>`", "every package and public module, with all that it holds")]
    index = [_title("Public names by task", "="), INTRODUCTION, _table(contents)]
    for task, names in found.items():
        index += [f".. _{labels[task]}:\n", _title(task, "-")]
        for heading, part in _parts(names).items():
            rows = [(_link(where, name), _line(getattr(import_module(where), name))) for where, name in part]
            index += [f".. rubric:: {heading}\n", _table(rows)]
    index += [f".. _{labels['Packages']}:\n", _title("Packages", "-")]
    index += [_table([(f":doc:`{name}`", _line(import_module(name))) for name in made])]
    index += [".. toctree::\n   :hidden:\n", *(f"   {name}" for name in made)]
    made["index"] = "\n".join(index) + "\n"
    return made


def write(folder: Path) -> None:
    """Write the pages; one that has not changed keeps its time, so that it is not built again."""
    folder.mkdir(exist_ok=True)
    made = {folder / f"{name}.rst": text for name, text in pages().items()}
    for old in set(folder.glob("*.rst")) - set(made):
        old.unlink()
    for path, text in made.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def by_last_name(app: object, env: object, node: object, contnode: object) -> object:
    """Find ``pate.Votes`` where it is documented, whichever of its places a docstring names."""
    if node.get("refdomain") != "py":
        return None
    parts = node["reftarget"].split(".")
    named = next((i for i, part in enumerate(parts) if part in homes()), None)
    if named is None:
        return None
    package, name = ".".join(parts[:named]), parts[named]
    where = home(package, name) if name in packages().get(package, ()) else homes()[name]
    target = ".".join([where, *parts[named:]])
    return env.get_domain("py").resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, contnode)
