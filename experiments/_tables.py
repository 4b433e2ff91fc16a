"""A result of several tables of rows, measured one by one, stored as they finish, and never measured twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pate.core.provenance import provenance

#: A row's table, what tells it from the others there, and what measures the rest of it.
Cell = tuple[str, dict[str, Any], Callable[[], dict[str, Any]]]


def filled(config: Any, tables: Iterable[str], cells: Iterable[Cell], result: Path | None) -> dict[str, Any]:
    """Measure what is missing in ``result`` under the same ``config`` (a dataclass), and return all rows."""
    stamp = provenance()  # before the result, which git knows too, is another
    told: dict[str, Any] = {"config": json.loads(json.dumps(asdict(config))), **{table: [] for table in tables}}
    told |= {"commits": [stamp.pop("commit")], **stamp}
    if result is not None and result.exists():
        stored = json.loads(result.read_text(encoding="utf-8"))
        if stored["config"] == told["config"]:
            told |= {table: stored[table] for table in tables}
            told["commits"] = list(dict.fromkeys([*stored["commits"], *told["commits"]]))
    for table, key, measure in cells:
        if not any(key.items() <= row.items() for row in told[table]):
            told[table].append({**key, **measure()})
            print(told[table][-1], flush=True)
            if result is not None:
                result.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return told
