"""The layers of docs/design.md, held apart: which module may import which, and what a light import may cost.

The one place where a new module gets its layer is ``LAYERS``.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from package_source import imports_in, trees

import pate

ROOT = Path(pate.__file__).parent
DESIGN = ROOT.parent / "docs" / "design.md"

#: Package (a module or package right under pate/) -> layer. A lower layer never imports an upper one.
LAYERS = {
    "_core": 0,
    "exceptions": 0,
    "privacy": 1,
    "data": 2,
    "ledger": 2,
    "networks": 2,
    "votes": 2,
    "mechanisms": 3,
    "representations": 3,
    "teachers": 4,
    "records": 5,
    "release": 6,
    "dpsgd": 7,
    "models": 7,
    "report": 7,
    "estimators": 8,
    "jobs": 9,
    "comparison": 9,
    "audit": 10,
    "federation": 10,
    "cli": 11,
}

#: Packages on one layer that may import each other, and why. Layer 0 is one toolbox.
NEIGHBOURS: dict[tuple[str, str], str] = {
    ("dpsgd", "models"): "a number that DP-SGD learnt to predict is written as a model file",
}

#: Folders with modules of their own, and modules right under pate/. One more is a decision: raise it with a reason.
MOST_PACKAGES = 50  # five of them folders of the audit

#: The only places that may import the heavy packages (some of them are still to be built).
ONLY_IN = {
    "torch": (
        "dpsgd",
        "networks",
        "teachers.torch",
        "models.students",
        "audit",
        "representations.images",
        "representations._module",
    ),
    "matplotlib": ("report.plots",),
    "typer": ("cli",),
}
PRIVACY_MAY_IMPORT = {"numpy", "scipy", "dp_accounting", *sys.stdlib_module_names}


@dataclass(frozen=True)
class Arrow:
    importer: str  # dotted, without the leading "pate."
    imported: str  # dotted, with it
    line: int
    named: str  # with the name that is taken from it, which may be a module too
    runtime: bool  # not for type checkers alone

    @property
    def package(self) -> str:
        return self.importer.split(".")[0]

    @property
    def imported_package(self) -> str | None:
        parts = self.imported.split(".")
        return parts[1] if parts[0] == "pate" and len(parts) > 1 else None

    def __str__(self) -> str:
        return f"pate.{self.importer}:{self.line} imports {self.imported}"


def module_name(path: Path, root: Path = ROOT) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def arrows_of(source: str | ast.AST, module: str, *, is_package: bool = False) -> Iterator[Arrow]:
    """Every import anywhere in a file: lazy ones and those for type checkers are arrows too."""
    package = f"pate.{module}" if is_package else f"pate.{module}".rpartition(".")[0]
    for node, runtime in imports_in(ast.parse(source) if isinstance(source, str) else source):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Arrow(module, alias.name, node.lineno, alias.name, runtime)
        else:
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            for alias in node.names:
                # "from pate.report import plots" names a package, "from pate.votes import Votes" is in one already.
                named = f"{base}.{alias.name}"
                yield Arrow(module, named if base == "pate" else base, node.lineno, named, runtime)


FILES = sorted(p for p in ROOT.rglob("*.py") if p not in (ROOT / "__init__.py", ROOT / "__main__.py"))


@cache
def arrows() -> list[Arrow]:
    """Every import in the package."""
    named = [(path, module_name(path)) for path in FILES]
    return [arrow for p, m in named for arrow in arrows_of(trees()[p], m, is_package=p.name == "__init__.py")]


def inner() -> list[Arrow]:
    return [a for a in arrows() if a.imported.split(".")[0] == "pate"]


def found_in(look: Callable[[ast.Module], list[str]]) -> dict[str, list[str]]:
    """Module -> what ``look`` finds in it, where it finds something."""
    return {module_name(path): found for path, tree in trees().items() if (found := look(tree))}


@cache
def lazy_names() -> dict[str, str]:
    """``pate.data.Schema`` -> ``pate.data.schema``: where a package's stub says that a name is loaded from."""
    found = {}
    for stub in ROOT.rglob("__init__.pyi"):
        package = ".".join(["pate", *stub.relative_to(ROOT).parent.parts])
        for node in ast.parse(stub.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.module:
                found |= {f"{package}.{alias.name}": f"{package}.{node.module}" for alias in node.names}
    return found


def needs_of(imports: Iterable[Arrow]) -> dict[str, set[str]]:
    """Module -> modules that it needs when it runs, now or in a call; those for type checkers alone are left out."""
    imports = [arrow for arrow in imports if arrow.runtime]
    modules = {f"pate.{arrow.importer}" for arrow in imports}
    needs: dict[str, set[str]] = {module: set() for module in modules}
    for arrow in imports:
        lazily = lazy_names().get(arrow.named, arrow.imported)
        needs[f"pate.{arrow.importer}"].add(arrow.named if arrow.named in modules else lazily)
    return needs


def circles(needs: dict[str, set[str]]) -> list[str]:
    """Every group of modules that need one another, as one line each."""
    reach = {start: reachable(start, needs) for start in needs}
    groups = {frozenset(b for b in reach[a] if a in reach.get(b, ())) for a in needs if a in reach[a]}
    return sorted(", ".join(sorted(group)) for group in groups)


def reachable(start: str, needs: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        fresh = needs.get(waiting.pop(), set()) - seen
        seen |= fresh
        waiting += fresh
    return seen


def upward(imports: list[Arrow]) -> list[str]:
    return [str(a) for a in imports if a.imported_package in LAYERS and LAYERS[a.imported_package] > LAYERS[a.package]]


def sideways(imports: list[Arrow]) -> list[Arrow]:
    return [
        a
        for a in imports
        if a.imported_package in LAYERS
        and a.imported_package != a.package
        and LAYERS[a.imported_package] == LAYERS[a.package] > 0
    ]


def test_every_package_has_a_layer_and_every_layer_a_package():
    packages = {module_name(path).split(".")[0] for path in FILES}
    assert packages - set(LAYERS) == set(), "give the new module its layer in LAYERS and in docs/design.md"
    assert set(LAYERS) - packages <= {"cli"}, "a package in LAYERS is gone"


def test_the_layers_are_those_of_the_design_page():
    """A package that the page's table names stands on the same layer here."""
    page = DESIGN.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| ([^|]+) \|", page, flags=re.MULTILINE)
    named = {name.strip("/"): int(layer) for layer, cell in rows for name in re.findall(r"`([a-z_]+/?)`", cell)}
    assert len(named) >= 15
    assert {n: f for n, f in named.items() if LAYERS.get(n) != f} == {}


@pytest.mark.long
def test_no_arrow_points_up():
    assert len(inner()) > 150
    assert upward(inner()) == []


@pytest.mark.long
@pytest.mark.sample
def test_packages_of_one_layer_do_not_import_each_other():
    across = sideways(inner())
    assert [str(a) for a in across if (a.package, a.imported_package) not in NEIGHBOURS] == []
    used = {(a.package, a.imported_package) for a in across}
    assert {pair for pair in NEIGHBOURS if pair not in used} == set(), "an allowance that is not needed any more"


def test_no_module_imports_through_the_public_face():
    """``from pate import GNMax`` inside the package would hide which layer is meant."""
    known = {*LAYERS, "__version__"}
    assert [str(a) for a in inner() if a.imported_package is None or a.imported_package not in known] == []


def test_no_modules_import_each_other_in_a_circle():
    """Lazy imports count: what needs itself cannot be read, tested or moved in part."""
    needs = needs_of(inner())
    assert sum(map(len, needs.values())) > 500
    assert circles(needs) == []


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (
            {"r.a": "from pate.r import b", "r.b": "from .c import x", "r.c": "def f():\n    import pate.r.a"},
            ["pate.r.a, pate.r.b, pate.r.c"],
        ),
        ({"r.a": "import pate.r.b", "r.b": "if TYPE_CHECKING:\n    from pate.r.a import x"}, []),
        (
            {"r.a": "import pate.b", "b": "if typing.TYPE_CHECKING:\n    1\nelse:\n    import pate.r.a"},
            ["pate.b, pate.r.a"],
        ),
        ({"r.a": "from pate.b import x", "b": "from pate.c import x", "c": "import numpy"}, []),
    ],
)
def test_the_reader_of_imports_sees_a_circle(files, found):
    assert circles(needs_of(a for name, source in files.items() for a in arrows_of(source, name))) == found


def test_the_tree_has_few_packages_and_modules_at_its_top():
    assert len({module_name(path).split(".")[0] for path in FILES}) <= 21


def test_packages_import_each_others_public_modules():
    """``_core`` is everybody's; of other packages a few private modules are named, where one name is two things."""
    private = [
        arrow
        for arrow in inner()
        if arrow.imported_package not in (None, "_core", arrow.package)
        and any(part.startswith("_") for part in arrow.imported.split("."))
    ]
    assert len(private) <= 12, [str(arrow) for arrow in private]


def test_packages_are_few():
    packages = {
        name if path.name == "__init__.py" else name.rpartition(".")[0] or name
        for path in FILES
        for name in [module_name(path)]
    }
    assert len(packages) <= MOST_PACKAGES, sorted(packages)


def test_the_tests_mirror_the_package():
    """``tests/ROOM/`` holds the tests of ``pate/ROOM``; kills, scripts, pages and faults have folders of their own."""
    folders = {path.parent.name for path in (ROOT.parent / "tests").glob("*/test_*.py")}
    assert folders - {"crash", "docs", "experiments", "mutants"} <= set(LAYERS), "a folder of tests without its package"


def test_files_of_tests_have_names_of_their_own():
    """Folders of tests are no packages: of two files with one name only one is collected, and the other is an error."""
    names = [path.name for path in (ROOT.parent / "tests").rglob("*.py") if path.name != "conftest.py"]
    assert sorted(n for n in set(names) if names.count(n) > 1) == []


def test_neighbours_do_not_import_in_circles():
    for a, b in NEIGHBOURS:
        assert (b, a) not in NEIGHBOURS


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from pate.release import quote", ["pate.release"]),
        ("def f():\n    import pate.cli", ["pate.cli"]),
        ("from .. import estimators", ["pate.estimators"]),
        ("from ..estimators import x", ["pate.estimators"]),
        ("from pate.votes import Votes\nimport numpy", []),
    ],
)
def test_the_reader_of_imports_sees_an_upward_arrow(source, found):
    imports = list(arrows_of(source, "data.tables"))
    assert [a.imported for a in imports if str(a) in upward(imports)] == found


@pytest.mark.parametrize("package", ONLY_IN)
def test_heavy_libraries_stay_in_their_packages(package):
    users = [a for a in arrows() if a.imported.split(".")[0] == package]
    assert users
    allowed = ONLY_IN[package]
    outside = [a for a in users if not any(a.importer == home or a.importer.startswith(home + ".") for home in allowed)]
    assert [str(a) for a in outside] == []


def test_privacy_needs_numbers_and_the_standard_library_only():
    mine = [a for a in arrows() if a.package == "privacy"]
    assert {a.imported.split(".")[0] for a in mine} >= {"numpy", "scipy", "pate"}
    for arrow in mine:
        package = arrow.imported_package
        ok = LAYERS[package] <= LAYERS["privacy"] if package else arrow.imported.split(".")[0] in PRIVACY_MAY_IMPORT
        assert ok, str(arrow)


@pytest.mark.long
@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import pate", ("numpy", "torch", "matplotlib", "sklearn", "pandas")),
        ("import pate.cli", ("torch", "opacus", "matplotlib", "sklearn", "pandas")),
        ("from pate import release_labels, Votes, GNMax, Ledger", ("torch", "matplotlib", "sklearn", "pandas")),
        ("from pate import PATEClassifier, load_dataset, Partition", ("torch", "opacus", "matplotlib")),
        ("import pate.dpsgd, pate.comparison.studies.run, pate.jobs", ("opacus", "matplotlib", "PIL", "pooch")),
    ],
)
def test_imports_are_light(statement, absent):
    code = f"{statement}\nimport sys\nprint([m for m in {absent!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_public_names_resolve_and_explain_themselves():
    unexplained = []
    for name in pate.__all__:
        value = getattr(pate, name)
        assert name in dir(pate)
        if inspect.isclass(value) or inspect.isfunction(value):
            _, _, example = (inspect.getdoc(value) or "").partition("Examples\n--------\n")
            unexplained += [] if ">>> " in example else [name]
    assert unexplained == [], "no doctest under Examples"


def test_an_unknown_public_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="PATE"):
        _ = pate.PATE


@pytest.mark.long
def test_packages_name_only_what_they_hold():
    for path in ROOT.rglob("__init__.py"):
        module = import_module(".".join(["pate", *path.relative_to(ROOT).parent.parts]))
        names = getattr(module, "__all__", [])
        assert len(set(names)) == len(names)
        assert [n for n in names if not hasattr(module, n)] == []


def array_aliases(tree: ast.Module) -> list[str]:
    return [ast.unparse(n) for n in tree.body if isinstance(n, ast.Assign) and "NDArray[" in ast.unparse(n.value)[:16]]


def test_arrays_are_named_in_one_place():
    assert {module: len(aliases) for module, aliases in found_in(array_aliases).items()} == {"_core.types": 5}


#: Loading by pickle runs whatever the file says.
_LOADERS = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
_LOADING = {"load", "loads", "Unpickler", "open"}


def unsafe_loads(tree: ast.AST) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            whole = f"{node.value.id}.{node.attr}"
            if (node.value.id in _LOADERS and node.attr in _LOADING) or node.attr == "read_pickle":
                found.append(whole)
        if isinstance(node, ast.ImportFrom) and node.module in _LOADERS:
            found += [f"from {node.module} import {a.name}" for a in node.names if a.name in _LOADING]
        if isinstance(node, ast.Call):
            where = ast.unparse(node.func)
            for keyword in node.keywords:
                if keyword.arg == "allow_pickle" and not is_false(keyword.value):
                    found.append(f"{where}(allow_pickle=...)")
            if where in ("np.load", "numpy.load") and not any(k.arg == "allow_pickle" for k in node.keywords):
                found.append(f"{where} without allow_pickle=False")
            if where == "torch.load" and not any(k.arg == "weights_only" for k in node.keywords):
                found.append(where)
    return found


def is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


@pytest.mark.long
def test_nothing_is_loaded_by_pickle():
    assert found_in(unsafe_loads) == {}


@pytest.mark.parametrize(
    "source",
    [
        "pickle.load(f)",
        "joblib.load(p)",
        "from pickle import loads",
        "np.load(p, allow_pickle=True)",
        "np.load(p)",
        "torch.load(p)",
        "pd.read_pickle(p)",
    ],
)
def test_the_reader_of_loads_sees_them(source):
    assert unsafe_loads(ast.parse(source))


#: Absolute paths of one machine. URLs and the roots of routes are not.
_MACHINE_PATH = re.compile(r"(?:^|[\s'\"=(:])(?:/(?:home|root|work|Users|mnt|opt|srv|tmp|usr|var)/|[A-Z]:\\)")


def machine_paths(tree: ast.AST) -> list[str]:
    texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return [t for t in texts if _MACHINE_PATH.search(t)]


@pytest.mark.long
def test_no_path_of_a_machine_is_written_down():
    assert found_in(machine_paths) == {}
    assert machine_paths(ast.parse("x = '/home/me/data'"))
    assert machine_paths(ast.parse(r"x = 'C:\\data'"))
    assert not machine_paths(ast.parse("x = 'https://host/home/me'"))


def called_in(tree: ast.AST) -> Iterator[str]:
    """Last names of what is called: ``c`` of ``a.b.c()``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            yield node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id


def callers_of(*names: str) -> set[str]:
    """Modules that call a function or a method of one of these names; packages, but for ``release``'s own modules."""
    found = found_in(lambda tree: [name for name in called_in(tree) if name in names])
    return {m if m.startswith("release.") else m.split(".")[0] for m in found}


@pytest.mark.long
def test_only_one_module_draws_noise_and_writes_charges():
    """Anyone who samples a mechanism or makes a noise source elsewhere would release past the budget."""
    # A source makes its own children. An audit samples made-up votes; the transaction makes a run of capped votes.
    # A private selection draws its runs and its split, and noises the scores that it has paid for. Rivals draw what
    # their own mechanisms priced, in no ledger's accounting unit. A game plays made-up releases that are not given out.
    assert callers_of("NoiseSource") == {
        "release._transaction",
        "audit",
        "comparison",
        "dpsgd",
        "estimators",
        "privacy",
    }
    assert callers_of("sample") == {"release._transaction", "audit", "mechanisms"}
    assert callers_of("release_smooth") == {"release._transaction", "audit"}
    # A gate pays from the ledger that it is given (Ledger.pay), before it tests.
    assert callers_of("record") == {"release._transaction", "ledger", "dpsgd", "estimators"}


#: What ``python -O`` leaves out may tell mypy that a name is not None, or of which type. It neither does nor checks.
_TOLD = re.compile(r"[\w.]+ is not None|isinstance\([\w.]+, [\w. |]+\)")


def asserts_more(tree: ast.AST) -> list[str]:
    asserted = [node for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    return [ast.unparse(one) for one in asserted if one.msg is not None or not _TOLD.fullmatch(ast.unparse(one.test))]


@pytest.mark.long
def test_nothing_rests_on_assert():
    assert found_in(asserts_more) == {}
    for doubtful in ("f(x)", "f(x) is not None", "x.made", "x in KNOWN", "x is not None, y", "isinstance(f(x), int)"):
        assert asserts_more(ast.parse(f"assert {doubtful}"))
