"""What is installed: every file of the package, and of other packages what is asked for and no less."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache
from importlib import import_module
from importlib.metadata import distributions, packages_distributions
from pathlib import Path

import pytest
from package_source import imports_in, trees
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import pate
from pate._core.curator import need
from pate._core.provenance import package_versions
from pate.exceptions import MissingExtraError, PateError
from pate.privacy.exact import native

ROOT = Path(pate.__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
EXTRAS = PROJECT["optional-dependencies"]
#: Extras that are a person's own choice: pate imports none of these packages.
CHOSEN = {"dask", "docs", "ray", "boosters", "crosscheck", "search"}
packages_by_module = cache(packages_distributions)
#: Imported by no module, and why it is asked for.
UNSEEN: dict[str, str] = {}


def names_of(lines):
    """Packages that requirement lines ask for, by their one name; extras of pate within them are looked up."""
    found = set()
    for line in lines:
        asked = Requirement(line)
        if asked.name == PROJECT["name"]:
            found |= names_of(inner for extra in asked.extras for inner in EXTRAS[extra])
        else:
            found.add(canonicalize_name(asked.name))
    return found


def imports_of(tree):
    """Top-level modules that a file imports, now or in a call, but for what serves type checkers alone."""
    for node, runtime in imports_in(tree):
        if not runtime:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").split(".")[0]


def asked_in(tree):
    """(module, extra) of every call of ``need`` in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", None)) == "need":
            extra = next((k.value for k in node.keywords if k.arg == "extra"), None)
            if isinstance(extra, ast.Constant) and isinstance(node.args[0], ast.Constant):
                yield node.args[0].value, extra.value


def packages_of(module):
    return {canonicalize_name(name) for name in packages_by_module().get(module, [module])}


@cache
def imported():
    """Path -> modules of other packages that it imports."""
    ours = {*sys.stdlib_module_names, "pate"}
    return {path: {m for m in imports_of(tree) if m not in ours} for path, tree in trees().items()}


@cache
def asked():
    """Path -> (module, extra) of what it asks for by name."""
    return {path: list(asked_in(tree)) for path, tree in trees().items()}


@pytest.mark.long
def test_what_is_imported_is_asked_for_in_pyproject():
    """By every installation, or by an extra that the file itself (or its package's first lines) asks for by name."""
    required = names_of(PROJECT["dependencies"])
    assert len(set().union(*imported().values())) > 10
    wrong = []
    for path, modules in imported().items():
        named = dict([*asked()[path], *asked()[path.with_name("__init__.py")]])
        for module in modules:
            packages = packages_of(module)
            if not packages & (required | names_of(EXTRAS.get(named.get(module), []))):
                wrong.append(f"{path.relative_to(ROOT)} imports {module}")
    assert wrong == []


def test_what_is_asked_for_is_imported():
    there = {package for modules in imported().values() for module in modules for package in packages_of(module)}
    wanted = names_of(PROJECT["dependencies"])
    assert wanted - there == set(UNSEEN)
    for extra in set(EXTRAS) - CHOSEN - {"all", "dev"}:
        assert names_of(EXTRAS[extra]) & there, f"nothing in pate imports what the extra {extra} brings"


def test_every_extra_that_is_asked_for_exists():
    calls = [call for found in asked().values() for call in found]
    assert {extra for _, extra in calls} >= {"plots", "parquet", "images", "datasets"}
    for module, extra in calls:
        assert packages_of(module) & names_of(EXTRAS[extra]), (module, extra)


def test_all_and_dev_hold_the_extras():
    alone = set(EXTRAS) - CHOSEN - {"all", "dev", "federation"}  # one institution needs none of it
    assert names_of(EXTRAS["all"]) == names_of(line for extra in alone for line in EXTRAS[extra])
    assert names_of(EXTRAS["dev"]) >= names_of(EXTRAS["all"]) | names_of(EXTRAS["dask"])


@pytest.mark.parametrize("module", ["matplotlib", "PIL", "pyarrow", "pooch"])
def test_a_package_that_is_missing_is_named_with_its_line(module, monkeypatch):
    extra = next(extra for found in asked().values() for m, extra in found if m == module)
    need(module, extra=extra, why="This")
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not there
    with pytest.raises(MissingExtraError, match=re.escape(f'pip install "pate-privacy[{extra}]"')) as caught:
        need(module, extra=extra, why="This")
    assert isinstance(caught.value, PateError)
    assert {"PIL": "pillow"}.get(module, module) in str(caught.value)


def test_nothing_is_trained_or_written_for_a_report_that_cannot_be_made(tmp_path, monkeypatch):
    from pate.comparison.studies import run

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(run, "load_dataset", lambda *a, **k: pytest.fail("rows were read"))
    config = run.RunConfig(dataset="digits", budget=pate.Budget(1.0, 1e-5), dpsgd="none")
    with pytest.raises(MissingExtraError, match="plots"):
        run.run_experiment(config, out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("module", "read"),
    [
        ("pyarrow", lambda folder: pate.read_table(folder / "a.parquet")),
        ("PIL", lambda folder: pate.data.read_images(folder)),
        ("pooch", lambda folder: pate.load_dataset("mnist", data_home=folder)),
    ],
)
def test_readers_name_the_extra_that_they_miss(module, read, tmp_path, monkeypatch):
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match="pip install"):
        read(tmp_path)


def test_every_file_of_the_package_is_in_the_wheel():
    """Templates, tables, the mark of typed packages: whatever is no Python, but for the kernel and its source."""
    folder = ROOT / "pate"
    patterns = PYPROJECT["tool"]["setuptools"]["package-data"]["pate"]
    listed = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    there = {path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    there = {path for path in there if path.suffix not in {".py", ".c", ".so", ".dll"}}
    assert len(there) > 10
    assert sorted(str(path.relative_to(folder)) for path in there - listed) == []
    packages = {path.parent for path in trees()}
    assert {path.parent / "__init__.py" for path in trees()} <= set(trees()), "a folder of modules that is no package"
    assert folder in packages


def test_the_metadata_is_whole():
    assert PROJECT["name"] == "pate-privacy"
    assert PROJECT["requires-python"] == ">=3.11"
    assert PROJECT["license"] == "Apache-2.0"
    assert (ROOT / PROJECT["readme"]).is_file()
    assert {"Typing :: Typed", "Programming Language :: Python :: 3.11"} <= set(PROJECT["classifiers"])
    assert not [c for c in PROJECT["classifiers"] if c.startswith("License ::")], "an expression says it already"
    assert len(PROJECT["keywords"]) >= 5
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert set(PROJECT["urls"].values()) <= set(re.findall(r"url: (\S+)", cited))
    assert f"version: {pate.__version__}\n" in cited


def test_the_version_stands_in_one_place():
    """What is built takes it from the source, so that a checkout that nobody installed knows it too."""
    assert PROJECT["dynamic"] == ["version"]
    module, _, name = PYPROJECT["tool"]["setuptools"]["dynamic"]["version"]["attr"].rpartition(".")
    assert getattr(import_module(module), name) == pate.__version__ == package_versions()["pate"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", pate.__version__)


def test_an_editable_installation_is_a_plain_path():
    """Type checkers follow one; they see nothing behind a finder of setuptools' own, which is a line of code."""
    found = distributions(name=PROJECT["name"])  # an .egg-info in the checkout may be another one
    installed = [[one.locate_file(file) for file in one.files or () if file.suffix == ".pth"] for one in found]
    if not any(installed):
        pytest.skip("this checkout is not installed, or not editable")
    for name in next(filter(None, installed)):  # the first that Python finds: others may be of borrowed packages
        assert Path(Path(name).read_text(encoding="utf-8").strip()).resolve() == ROOT.resolve()


def test_the_source_distribution_names_what_the_repository_has():
    """`graft` and `include` of what is not there would go unseen."""
    for line in (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines():
        word, *names = line.split()
        for name in names if word in ("include", "graft") else ():
            assert list(ROOT.glob(name)), f"MANIFEST.in names {name}"


@pytest.mark.skipif(not native.available(), reason="not built")
def test_the_kernel_knows_nothing_of_python():
    assert native._FILE.name in ("_native.so", "_native.dll")
    assert b"PyModule" not in native._FILE.read_bytes()
    source = native._FILE.with_name("_native.c").read_text(encoding="utf-8")
    assert "Python.h" not in source
