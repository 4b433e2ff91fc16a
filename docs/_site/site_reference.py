"""Pages of the API reference: one for each public package and module, with what it calls public."""

import inspect
import pkgutil
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pate

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
def homes() -> dict[str, str]:
    """Return the package in which each name is documented: the longest that has it, or ``pate``.

    Examples
    --------
    >>> homes()["private_select"], homes()["account"]
    ('pate.estimators.selection', 'pate')
    """
    return {name: package for package, names in packages().items() for name in names}


def _title(text: str, line: str) -> str:
    return f"{text}\n{line * len(text)}\n"


def _entry(package: str, name: str) -> str:
    value = getattr(import_module(package), name)
    if not callable(value):
        return f".. autodata:: {package}.{name}\n   :no-value:\n"
    if not inspect.isclass(value):
        return f".. autofunction:: {package}.{name}\n"
    return f".. autoclass:: {package}.{name}\n   :inherited-members: {BASES}\n"


def _line(module: ModuleType) -> str:
    return " ".join((inspect.getdoc(module) or "").split("\n\n")[0].split())


def _links(names: list[str], where: dict[str, str]) -> str:
    shown = [f":py:obj:`{name} <{where[name]}.{name}>`" for name in names]
    return ", ".join(shown) + "\n"


def pages() -> dict[str, str]:
    """Return the text of every page by its name, each object documented once.

    Examples
    --------
    >>> ".. autofunction:: pate.estimators.selection.private_select" in pages()["pate.estimators.selection"]
    True
    """
    where, made = homes(), {}
    for package, names in packages().items():
        here = [name for name in names if where[name] == package]
        there = [name for name in names if where[name] != package]
        made[package] = "\n".join(
            [
                _title(package, "="),
                f".. automodule:: {package}\n   :no-members:\n",
                *(["Documented with their own packages: " + _links(there, where)] if there else []),
                *(_entry(package, name) for name in here),
            ]
        )
    listed = [
        f":doc:`{package}`\n    {_line(import_module(package))}\n\n    {_links(names, where)}"
        for package, names in packages().items()
    ]
    contents = "\n".join(["\n.. toctree::\n   :hidden:\n", *(f"   {name}" for name in made)])
    made["index"] = _title("Public names", "=") + "\n" + "\n".join(listed) + contents + "\n"
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
    parts, where = node["reftarget"].split("."), homes()
    named = next((i for i, part in enumerate(parts) if part in where), None)
    if named is None:
        return None
    target = ".".join([where[parts[named]], *parts[named:]])
    return env.get_domain("py").resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, contnode)
