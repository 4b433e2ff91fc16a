"""Cells of ``accuracy_vs_epsilon.py``: computed one by one, appended as they finish, never computed twice."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from _methods import METHODS, ON_ROWS, REFUSALS, WITHOUT_EPSILON, DataSpec, Problem
from sklearn.metrics import accuracy_score, balanced_accuracy_score, roc_auc_score

import pate
from pate import Budget
from pate._core.provenance import provenance

KEY = ("data", "protocol", "method", "epsilon", "seed")
#: The rooms of pate that a method runs through.
_GROUND = {"core", "data", "mechanisms", "noise", "privacy"}
_MAPS = {"core", "data", "recipes", "representations"}
_SHARDS = _GROUND | _MAPS | {"estimator", "heads", "records", "release", "students", "teachers"}
_DPSGD = _GROUND | {"dpsgd", "networks", "studies/config.py"}
_ROOMS = {
    "representation": _MAPS,
    "dp-sgd": _DPSGD,
    "dp-sgd-representation": _DPSGD | _MAPS,
    "dp-sgd-best": _DPSGD | _MAPS,
}
_NAMES = {method: made.__name__ for method, made in METHODS.items()}


@dataclass(frozen=True)
class Config:
    """What is computed. Everything here is fixed before the private rows are looked at."""

    data: tuple[DataSpec, ...] = (
        DataSpec("digits", n_public=400),
        DataSpec("pendigits"),
        DataSpec("optdigits"),
        DataSpec("spambase"),
        DataSpec("adult", n_public=8_000),
        DataSpec("diabetes130"),
        DataSpec("mnist", "paper"),
        DataSpec("mnist", "standard", n_public=9_000),
        DataSpec("fashion_mnist", "paper"),
        DataSpec("fashion_mnist", "standard", n_public=20_000),
    )
    methods: tuple[str, ...] = tuple(METHODS)
    epsilons: tuple[float, ...] = (0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0)
    delta: float = 1e-5
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)


#: Does it run? Methods that are done in seconds, on the smallest data.
SMOKE = Config(
    data=(DataSpec("digits", n_public=200, n_private=600), DataSpec("pendigits", n_public=200, n_private=800)),
    methods=("records", "records-head", "shards", "dp-sgd", "no-privacy"),
    epsilons=(0.5, 2.0),
    seeds=(0,),
)

Cell = tuple[DataSpec, str, float | None, int]


def cells(config: Config) -> Iterator[Cell]:
    """Return all cells: seed by seed, so that an unfinished sweep has a little of everything."""
    for seed in config.seeds:
        for spec in config.data:
            for method in config.methods:
                for epsilon in (None,) if method in WITHOUT_EPSILON else config.epsilons:
                    yield spec, method, epsilon, seed


def key_of(spec: DataSpec, method: str, epsilon: float | None, seed: int) -> tuple[Any, ...]:
    return spec.name, spec.protocol, method, epsilon, seed


def row_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in KEY)


def _without_words(node: ast.AST) -> ast.AST:
    """Empty the docstrings in a tree: comments, docstrings and layout count for nothing."""
    for part in ast.walk(node):
        body = getattr(part, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            first.value.value = ""
    return node


@cache
def _digest_of(file: Path) -> str:
    """Digest what a module does."""
    return hashlib.sha256(ast.dump(_without_words(ast.parse(file.read_text(encoding="utf-8")))).encode()).hexdigest()


@cache
def _digest_of_function(file: Path, name: str) -> str:
    """Digest what a function of a script does: itself and what it leads to in the same file, nothing beside it."""
    found: dict[str, ast.AST] = {}
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom | ast.Import):
            for alias in node.names:
                found[(alias.asname or alias.name).split(".")[0]] = ast.Constant(
                    f"{getattr(node, 'module', None)} {alias.name}"
                )
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = _without_words(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {part.id: node for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
    reached, ahead = set(), {name}
    while ahead:
        here = ahead.pop()
        reached.add(here)
        names = {part.id for part in ast.walk(found[here]) if isinstance(part, ast.Name)}
        ahead |= (names & set(found)) - reached
    text = "\n".join(f"{known} {ast.dump(found[known])}" for known in sorted(reached))
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def code_of(method: str) -> str:
    """Return the digest of the code that a method's numbers come from: cells of other code are computed again."""
    root, rooms = Path(pate.__file__).parent, _ROOMS.get(method, _SHARDS)
    digest = hashlib.sha256()
    if method in METHODS:
        file = Path(__file__).with_name("_methods.py")
        digest.update(_digest_of_function(file, _NAMES[method]).encode())
    for file in sorted(root.rglob("*.py")):
        inside = file.relative_to(root)
        if inside.parts[0] in rooms or inside.as_posix() in rooms:
            digest.update(f"{inside.as_posix()} {_digest_of(file)}\n".encode())
    return digest.hexdigest()


def read_rows(files: Iterable[Path]) -> list[dict[str, Any]]:
    """Return the rows of these files; a last line that was cut off by a kill is passed over."""
    rows = []
    for file in files:
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        for number, line in enumerate(lines, 1):
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError:
                if number < len(lines) and line.strip():
                    raise SystemExit(f"{file} is damaged in line {number}: mend it, or take it away.") from None
    return rows


def append_row(file: Path, row: Mapping[str, Any]) -> None:
    """Add one line, whole, after mending the end of a file whose last line was cut off."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab+") as handle:
        size = handle.seek(0, os.SEEK_END)
        if size:
            handle.seek(size - 1)
            if handle.read(1) != b"\n":
                handle.seek(0)
                handle.truncate(handle.read().rfind(b"\n") + 1)
        handle.write((json.dumps(row, sort_keys=True) + "\n").encode())
        handle.flush()
        os.fsync(handle.fileno())


def settings_of(config: Config, spec: DataSpec) -> dict[str, Any]:
    """Return what a cell depends on beside its key and the code."""
    return {"delta": config.delta, **{k: v for k, v in asdict(spec).items() if k.startswith("n_")}}


def done(rows: Iterable[Mapping[str, Any]], config: Config) -> set[tuple[Any, ...]]:
    """Return the keys of cells that need no computing: finished or refused, by the code and settings of now."""
    settings = {spec.label: settings_of(config, spec) for spec in config.data}
    return {
        row_key(row)
        for row in rows
        if "failed" not in row
        and row["method"] in METHODS
        and row["code"] == code_of(row["method"])
        and row["config"] == settings.get(f"{row['data']}/{row['protocol']}")
    }


def measure(problem: Problem, method: str, epsilon: float | None, delta: float) -> dict[str, Any]:
    """Compute one cell."""
    test, maps = problem.data.test.y, code_of("representation")
    if method not in ON_ROWS:  # found or fitted before the clock is started: methods and epsilons share it
        problem.representation(maps)
    budget, mapped, start = Budget(epsilon or 1.0, delta), problem.mapping_seconds, time.perf_counter()
    fit = METHODS[method](problem, budget, maps)
    seconds = time.perf_counter() - start - (problem.mapping_seconds - mapped)
    found = {
        "accuracy": float(accuracy_score(test, fit.labels)),
        "balanced_accuracy": float(balanced_accuracy_score(test, fit.labels)),
        "auc": _auc(test, fit.probabilities),
        "seconds": round(seconds, 3),
        "representation_seconds": round(problem.representation_seconds + problem.mapping_seconds, 3),
        "settings": fit.settings,
        "guarantee": {"epsilon": fit.guarantee.epsilon, "delta": fit.guarantee.delta},
    }
    return {"code": code_of(method), **found}


def _auc(test: Any, probabilities: Any) -> float | None:
    """Area under the curve; of more than two classes the mean over each class against the rest."""
    if probabilities is None or not np.isfinite(probabilities).all():
        return None
    if probabilities.shape[1] == 2:
        return float(roc_auc_score(test, probabilities[:, 1]))
    return float(np.mean([roc_auc_score(test == c, probabilities[:, c]) for c in np.unique(test)]))


def run(config: Config, folder: Path, *, say: Any = print) -> bool:
    """Compute what is missing, cell by cell; return whether nothing failed."""
    file, fine = folder / "cells.jsonl", True
    rows = read_rows([file])
    have = done(rows, config)
    todo = [cell for cell in cells(config) if key_of(*cell) not in have]
    say(f"{len(todo)} of {sum(1 for _ in cells(config))} cells to compute, into {file}")
    spent: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if "seconds" in row:
            spent.setdefault((row["data"], row["method"]), []).append(row["seconds"])
    problem: Problem | None = None
    stamp = provenance()
    for place, (spec, method, epsilon, seed) in enumerate(todo):
        row: dict[str, Any] = dict(zip(KEY, key_of(spec, method, epsilon, seed), strict=True))
        try:
            if problem is None or (problem.spec, problem.seed) != (spec, seed):
                problem = None  # one at a time in memory
                problem = Problem(spec, seed, folder)
            row |= measure(problem, method, epsilon, config.delta)
            spent.setdefault((spec.name, method), []).append(row["seconds"])
            result = f"{100 * row['accuracy']:.2f}% in {row['seconds']:.1f} s"
        except REFUSALS as refusal:
            row |= {"code": code_of(method), "refused": str(refusal)}
            result = f"refused: {refusal}"
        except Exception as error:  # a sweep of days goes on; what failed is reported, and tried again next time
            row |= {"code": code_of(method), "failed": f"{type(error).__name__}: {error}"}
            fine, result = False, f"FAILED: {row['failed']}"
        if problem is not None:
            data = problem.data
            sizes = {"n_private": len(data.private.y), "n_test": len(data.test.y)}
            row |= sizes | {"n_public": len(data.public.y_for_evaluation), "kind": problem.kind}
            row["commonest"] = float(np.bincount(data.test.y).max() / len(data.test.y))
        row |= {"config": settings_of(config, spec), "commit": stamp["commit"], "created": provenance()["created"]}
        append_row(file, row)
        name = f"{spec.label} {method} {'' if epsilon is None else f'{epsilon:g} '}seed {seed}"
        say(f"[{place + 1}/{len(todo)}] {name}: {result}. {_left(todo[place + 1 :], spent)}")
    return fine


def _left(todo: list[Cell], spent: Mapping[tuple[str, str], list[float]]) -> str:
    """Return the time left, by what like cells took; unknown ones count as the mean of all."""
    known = [s for seconds in spent.values() for s in seconds]
    if not todo or not known:
        return ""
    mean = sum(known) / len(known)
    each = {name: sum(s) / len(s) for name, s in spent.items()}
    seconds = sum(each.get((spec.name, method), mean) for spec, method, _, _ in todo)
    unknown = len({(spec.name, method) for spec, method, _, _ in todo} - set(each))
    guess = f", {unknown} kinds of cell guessed" if unknown else ""
    return f"Left: about {seconds / 60:.0f} min{guess}"
