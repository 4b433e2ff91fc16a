"""From cells to means: what ``accuracy_vs_epsilon.py`` stores."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from _sweep import Config, cells, key_of, row_key

from pate._core.provenance import provenance

MEASURES = ("accuracy", "balanced_accuracy", "auc", "seconds")


def mean_and_deviation(values: Iterable[float | None]) -> dict[str, float | int | None]:
    """Return mean, standard deviation between seeds (None of one) and number."""
    known = [v for v in values if v is not None]
    if not known:
        return {"mean": None, "sd": None, "n": 0}
    return {"mean": statistics.fmean(known), "sd": statistics.stdev(known) if len(known) > 1 else None, "n": len(known)}


def latest(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[Any, ...], Mapping[str, Any]]:
    """Return the last word on every cell; a failure takes nothing back."""
    found: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for row in rows:
        key = row_key(row)
        if "failed" not in row or key not in found:
            found[key] = row
    return found


def merged(new: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the new summary with what the stored one says of methods and data sets that it has nothing of."""

    def of(entry: Mapping[str, Any]) -> tuple[Any, ...]:
        return entry["data"], entry["protocol"], entry.get("method")

    fresh = {of(entry) for entry in new["summary"]}
    results = {**stored, **{key: new[key] for key in ("created", "commit", "versions")}}
    for table in ("summary", "refused", "failed", "missing"):
        results[table] = [e for e in stored[table] if of(e) not in fresh] + [e for e in new[table] if of(e) in fresh]
    results["commits"] = sorted({*stored["commits"], *new["commits"]})
    return results


def summarise(rows: Iterable[Mapping[str, Any]], config: Config) -> dict[str, Any]:
    """Return means by data set, protocol, method and epsilon, with what is missing and where all of it comes from."""
    known = latest(rows)
    wanted = {key_of(*cell) for cell in cells(config)}
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for key in sorted(wanted & set(known), key=lambda k: (*k[:3], k[3] or 0.0, k[4])):
        groups.setdefault(key[:4], []).append(known[key])
    summary, refused, failed = [], [], []
    for key, members in groups.items():
        named = dict(zip(("data", "protocol", "method", "epsilon"), key, strict=True))
        good = [row for row in members if "accuracy" in row]
        for row in members:
            if "refused" in row:
                refused.append({**named, "seed": row["seed"], "why": row["refused"]})
            if "failed" in row:
                failed.append({**named, "seed": row["seed"], "why": row["failed"]})
        if good:
            measured = {name: mean_and_deviation(row[name] for row in good) for name in MEASURES}
            summary.append(
                {
                    **named,
                    **measured,
                    "seeds": [row["seed"] for row in good],
                    "settings": sorted({row["settings"] for row in good}),
                    "guarantee_epsilon": max(row["guarantee"]["epsilon"] for row in good),
                    "code": sorted({row["code"][:12] for row in good}),
                }
            )
    problems = []
    for spec in config.data:
        found = (k for k in wanted & set(known) if k[:2] == (spec.name, spec.protocol) and "commonest" in known[k])
        of = [known[k] for k in sorted(found, key=lambda k: (k[4], k[2], k[3] or 0.0))]  # seeds differ a little
        if of:
            sizes = {name: of[0][name] for name in ("n_private", "n_public", "n_test", "kind")}
            by_seed = {row["seed"]: row for row in of}
            common = mean_and_deviation(row["commonest"] for row in by_seed.values())["mean"]
            times = mean_and_deviation(
                max((r["representation_seconds"] for r in of if r["seed"] == s and "accuracy" in r), default=None)
                for s in by_seed
            )
            shown = {"commonest": common, "representation_seconds": times["mean"]}
            problems.append({"data": spec.name, "protocol": spec.protocol, **sizes, **shown})
    return {
        **provenance(),
        "commits": sorted({str(known[k].get("commit")) for k in wanted & set(known)}),
        "seeds": list(config.seeds),
        "epsilons": list(config.epsilons),
        "methods": list(config.methods),
        "delta": config.delta,
        "problems": problems,
        "summary": summary,
        "refused": refused,
        "failed": failed,
        "missing": _missing(config, known),
    }


def _missing(config: Config, known: Mapping[tuple[Any, ...], Any]) -> list[dict[str, Any]]:
    """Return how many cells are not there yet, by data set and method."""
    counts: dict[tuple[str, str, str], list[int]] = {}
    for cell in cells(config):
        key = key_of(*cell)
        counts.setdefault(key[:3], [0, 0])[0] += 1
        counts[key[:3]][1] += key not in known
    return [
        {"data": data, "protocol": protocol, "method": method, "missing": missing, "of": of}
        for (data, protocol, method), (of, missing) in counts.items()
        if missing
    ]
