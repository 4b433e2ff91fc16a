"""The tables and the picture of ``price_of_trust.py``, from its result alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from _page import NAMES, table
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from pate.privacy.convert import gdp_from_budget, gdp_to_epsilon
from pate.report.plots import COLOURS

PAGE = Path(__file__).parents[1] / "docs" / "federation.md"
#: Where what the engine takes stands, and what protecting whole institutions would cost.
DETAILS = PAGE.with_name("federation-noise.md")
#: Of ``benchmarks/federation.py``.
TIMES = Path(__file__).parents[1] / "benchmarks" / "results" / "federation.json"
BY = {"records": "record voters", "dpsgd": "DP-SGD"}
Told = Mapping[str, Any]


def _found(told: Told, where: str, what: str = "accuracy", **key: Any) -> dict[float, list[float]]:
    """Return the values of the rows with this key by epsilon."""
    found: dict[float, list[float]] = {}
    for row in sorted(told[where], key=lambda r: (r["epsilon"], r["seed"])):
        if key.items() <= row.items():
            found.setdefault(row["epsilon"], []).append(100 * row[what])
    return found


def _cells(told: Told, found: Mapping[float, list[float]]) -> list[str]:
    most = told["config"]["seeds"]
    cells = []
    for epsilon in _epsilons(told):
        values = found.get(epsilon, [])
        spread = f"±{np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
        short = f" ({len(values)})" if 0 < len(values) < most else ""
        cells.append(f"{np.mean(values):.2f}{spread}{short}" if values else "·")
    return cells


def _epsilons(told: Told) -> list[float]:
    return sorted({row["epsilon"] for row in told["votes"]})


def tables(told: Told) -> str:
    """Return a table for each data set as Markdown."""
    lines: list[str] = []
    for data in dict.fromkeys(row["data"] for row in told["facts"]):
        facts = [row for row in told["facts"] if row["data"] == data]
        if any(row["data"] == data for row in told["votes"]):
            lines += _section(told, data, facts)
    return "\n".join(lines).rstrip()


def summary(told: Told) -> str:
    """Return the ends of those tables for the chapter: one curator, the most sites that trust no one, each alone."""
    rows: list[list[str]] = []
    for data in dict.fromkeys(row["data"] for row in told["votes"]):
        k = max(row["k"] for row in told["alone"] if row["data"] == data)
        t = (k - 1) // 2
        rows.append([NAMES.get(data, data), *_row("one curator", 1.0, told, data=data, k=1)])
        for c, times in sorted(
            {(r["c"], r["times"]) for r in told["votes"] if (r["data"], r["k"], r["t"]) == (data, k, t)}
        ):
            name = f"{k} sites, t = {t}" + (f", c = {c}" if c > 1 else "")
            rows.append(["", *_row(name, times, told, data=data, k=k, t=t, c=c)])
        for by, words in BY.items():
            found = _found(told, "alone", data=data, k=k, by=by)
            rows.append(["", f"each of {k} alone: {words}", "", *_cells(told, found)])
            home = _found(told, "alone", "at_home", data=data, k=k, by=by)
            if home != found:  # where institutions' records were dealt out, their own rows are like all others
                rows.append(["", "the same, on its own test rows", "", *_cells(told, home)])
    head = ["data", "who learns", "noise ×", *(f"epsilon {e:g}" for e in _epsilons(told))]
    return "\n".join(table(head, rows)).rstrip()


def _section(told: Told, data: str, facts: list[dict[str, Any]]) -> list[str]:
    first, persons = facts[0], "persons_at" in facts[0]
    ends = [(f["k"], sorted({min(f["sites"]), max(f["sites"])})) for f in facts]
    sizes = "; ".join(f"{k} sites of {' to '.join(f'{n:,}' for n in end)}" for k, end in ends)
    lines = [
        f"**{NAMES.get(data, data)}**: {first['private']:,} private records ({sizes}), {first['public']:,} public and "
        f"{first['test']:,} test rows; the commonest class is {100 * first['commonest']:.1f}% of the test rows.",
        "",
    ]
    lines += _of_persons(told, first) if persons else []
    rows = [_row("one curator" + ("" if persons else ", or t = 0"), 1.0, told, data=data, k=1)]
    for k in [f["k"] for f in facts]:
        known = {(r["c"], r["t"]): r["times"] for r in told["votes"] if r["data"] == data and r["k"] == k}
        for (c, t), times in sorted(known.items()):
            if t or persons:
                name = f"{k}, t = {t}" + (f", c = {c}" if persons else "")
                rows.append(_row(name, times, told, data=data, k=k, t=t, c=c))
        for by, words in BY.items():
            found = _found(told, "alone", data=data, k=k, by=by)
            if found:
                rows.append([f"{k}, each alone: {words}", "", *_cells(told, found)])
                if persons:
                    home = _found(told, "alone", "at_home", data=data, k=k, by=by)
                    rows.append(["the same, own test rows", "", *_cells(told, home)])
    return [*lines, *table(["", "noise ×", *(f"epsilon {e:g}" for e in _epsilons(told))], rows)]


def _row(name: str, times: float, told: Told, **key: Any) -> list[str]:
    return [name, f"{times:.2f}", *_cells(told, _found(told, "votes", **key))]


def _of_persons(told: Told, first: Mapping[str, Any]) -> list[str]:
    """Say at how many sites persons really are, and what that means where fewer were declared."""
    at, delta = {int(n): count for n, count in first["persons_at"].items()}, told["config"]["delta"]
    everyone, half = sum(at.values()), gdp_from_budget(1.0, delta) / 2
    beyond = ", ".join(f"{n} sites {count:,}" for n, count in at.items() if n > 1)
    worst = max(at)
    return [
        f"Of {everyone:,} persons, {at[1]:,} are at one site, {beyond}, which no site knows. Where c = 2 is "
        f"declared and epsilon is 1, it is {gdp_to_epsilon(worst * half, delta):.2f} for a person at {worst}.",
        "",
    ]


def of_whole_institutions(told: Told) -> str:
    """Return what it costs to protect whole institutions, as Markdown."""
    rows = []
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in told.get("institutions", ()):
        found.setdefault((row["k"], row["n_queries"], row["sigma"]), []).append(row)
    for (k, n, sigma), of in sorted(found.items()):
        right = [f"{100 * np.mean([row[what] for row in of]):.1f}" for what in ("noiseless", "accuracy")]
        rows.append([str(k), str(n), f"{sigma:g}", *right, f"{of[0]['epsilon']:.1f}"])
    head = ["institutions", "answers", "sigma", "right without noise, %", "right, %", "epsilon of an institution"]
    return "\n".join(table(head, rows)).rstrip()


def of_engine(result: Told) -> str:
    """Return what secure sums and labels take, of ``benchmarks/federation.py``, as Markdown."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in result["rows"]:
        found.setdefault((row["parties"], row["tolerate"], row["what"]), {})[row["way"]] = row
    rows = []
    for (parties, t, what), ways in found.items():
        plain = [f"{ways[way]['s']:.2g}" if way in ways else "·" for way in ("MPyC, K=60", "in the clear")]
        own = ways["ours"]
        times = (f"{own[name]:.2g}" for name in ("start_s", "s"))
        rows.append([str(parties), str(t), what, *times, f"{own['bytes'] / 1e6:.2g}", *plain])
    asked = f"{result['config']['n_queries']} x {result['config']['n_classes']}"
    head = [
        "parties",
        "t",
        f"opened, {asked}",
        "start, s",
        "then, s",
        "MB a party",
        "MPyC as it comes, s",
        "no secrecy, s",
    ]
    return "\n".join(table(head, rows)).rstrip()


def picture(told: Told) -> Figure:
    """Return accuracy against epsilon, a panel for each data set: together, and alone."""
    names = [d for d in dict.fromkeys(row["data"] for row in told["facts"]) if _found(told, "votes", data=d)]
    figure = Figure(figsize=(4.2 * len(names), 3.9), layout="constrained")
    handles: dict[str, Any] = {}
    for ax, data in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        _panel(ax, told, data, handles)
    figure.legend(handles.values(), handles, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    return figure


def _panel(ax: Any, told: Told, data: str, handles: dict[str, Any]) -> None:
    k = max(row["k"] for row in told["alone"] or told["facts"] if row["data"] == data)
    most = (k - 1) // 2
    shown = (
        ("one curator", "votes", {"k": 1}, "series-0", "o"),
        ("sites together, t = 1", "votes", {"k": k, "t": 1, "c": 1}, "series-5", "s"),
        ("sites together, largest t below k/2", "votes", {"k": k, "t": most, "c": 1}, "series-2", "D"),
        ("the same, a person at up to 2 sites", "votes", {"k": k, "t": most, "c": 2}, "series-3", "v"),
        ("each site alone, record voters", "alone", {"k": k, "by": "records"}, "series-4", "^"),
        ("each site alone, DP-SGD", "alone", {"k": k, "by": "dpsgd"}, "series-1", "P"),
    )
    for name, where, key, colour, marker in shown:
        found = _found(told, where, data=data, **key)
        if found:
            mean, sd = ([f(v) for v in found.values()] for f in (np.mean, np.std))
            style = {"color": COLOURS[colour], "marker": marker, "markersize": 4.5, "linewidth": 1.5}
            handles[name] = ax.errorbar(list(found), mean, yerr=sd, label=name, capsize=2, **style)
    ax.set_xscale("log")
    ax.set_xticks(_epsilons(told))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.set_title(f"{NAMES.get(data, data)}, {k} sites", fontsize=10)
    ax.set_xlabel("ε (smaller is more private)", fontsize=8, color=COLOURS["soft"])
    ax.set_ylabel("accuracy, %", fontsize=8, color=COLOURS["soft"])
    ax.tick_params(labelsize=8, color=COLOURS["grid"], labelcolor=COLOURS["ink"])
    ax.grid(axis="y", color=COLOURS["grid"], linewidth=0.7)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
