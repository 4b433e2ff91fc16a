"""Rows of development tables, results that are measured row by row and kept, and pages that are made of them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pate import load_dataset
from pate._core.provenance import provenance

#: A row's table, what tells it from the others there, and what measures the rest of it.
Cell = tuple[str, dict[str, Any], Callable[[], dict[str, Any]]]


def rows_of(name: str, against: str, folder: Path | None) -> tuple[Any, npt.NDArray[Any]]:
    """Return all rows and labels of a development table, or whether a label is ``against``."""
    path = None if folder is None else folder / f"{name}.csv.gz"
    if path is not None and path.exists():
        table = pd.read_csv(path)
        y = table.pop("target").to_numpy()
        X: Any = table["review"].fillna("").to_numpy(dtype=object) if list(table.columns) == ["review"] else table
    else:
        data = load_dataset(name, random_state=100)
        X, y = data.private.X, np.asarray(data.private.y)
    return X, (y.astype(str) == against).astype(int) if against else y


def taken(X: Any, rows: npt.NDArray[Any]) -> Any:
    """Return these rows."""
    return X.iloc[rows].reset_index(drop=True) if hasattr(X, "iloc") else X[rows]


def filled(config: Any, tables: Iterable[str], cells: Iterable[Cell], result: Path | None) -> dict[str, Any]:
    """Measure what is missing in ``result`` under the same ``config`` (a dataclass), and return all rows."""
    stamp = provenance()  # before the result, which git knows too, is another
    results: dict[str, Any] = {"config": json.loads(json.dumps(asdict(config))), **{table: [] for table in tables}}
    results |= {"commits": [stamp.pop("commit")], **stamp}
    if result is not None and result.exists():
        stored = json.loads(result.read_text(encoding="utf-8"))
        if stored["config"] == results["config"]:
            results |= {table: stored.get(table, []) for table in tables}
            results["commits"] = list(dict.fromkeys([*stored["commits"], *results["commits"]]))
    for table, key, measure in cells:
        if not any(key.items() <= row.items() for row in results[table]):
            results[table].append({**key, **measure()})
            print(results[table][-1], flush=True)
            if result is not None:
                result.write_text(written(results), encoding="utf-8")
    return results


def written(results: dict[str, Any]) -> str:
    """Return JSON with a line for each row of a table."""
    parts = []
    for key, value in results.items():
        rows = isinstance(value, list) and all(isinstance(row, dict) for row in value)
        text = "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]" if rows and value else json.dumps(value)
        parts.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def write_page(page: Path, name: str, made: str) -> None:
    """Put what was made between the page's marks of that name."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, first, rest = page.read_text(encoding="utf-8").partition(begin)
    _, last, after = rest.partition(end)
    if not first or not last:
        raise SystemExit(f"{page} must have the lines {begin} and {end}.")
    page.write_text(f"{before}{begin}\n{made}\n{end}{after}", encoding="utf-8")


def by_command_line(
    doc: str,
    cells: Callable[[Any], Iterable[Cell]],
    table: Callable[[dict[str, Any]], str],
    *,
    config: Any,
    smoke: Any,
    result: Path,
    page: Path,
) -> None:
    """Measure an experiment's rows; ``--smoke``: a few of them, which are printed; ``--table``: the page's table."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="does it run?")
    parser.add_argument("--table", action="store_true", help="the page's table from the stored result alone")
    given = parser.parse_args()
    if given.table:
        write_page(page, "table", table(json.loads(result.read_text(encoding="utf-8"))))
    elif given.smoke:
        print(table(filled(smoke, ("rows",), cells(smoke), None)))
    else:
        filled(config, ("rows",), cells(config), result)
