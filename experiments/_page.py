"""The page and the picture of ``accuracy_vs_epsilon.py``, from its JSON alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from pate.report.plots import COLOURS, figure_to_png

NAMES = {
    "digits": "digits", "pendigits": "pendigits", "optdigits": "optdigits", "spambase": "spambase", "adult": "Adult",
    "diabetes130": "Diabetes 130", "mnist": "MNIST", "fashion_mnist": "Fashion-MNIST",
}  # fmt: skip
#: Published and own earlier figures: (accuracy, epsilon or None without privacy, where from).
_P2018 = "Papernot et al. 2018 (PATE), data-dependent epsilon"
_OWN_DPSGD = "linear DP-SGD on scattering features with public PCA, best of a dozen settings; measured in this project"
_DIGITS = "DP-SGD's best in this project, chosen on test rows"
ANCHORS: dict[str, tuple[tuple[float, float | None, str], ...]] = {
    "mnist": (
        (98.5, 1.97, _P2018),
        (98.8, 0.47, "as reported in the literature; accounting not checked here"),
        (99.1, 0.1, "a claim in the literature; accounting not checked here"),
        (98.04, 1.0, _OWN_DPSGD),
        (98.67, 3.0, _OWN_DPSGD),
    ),
    "fashion_mnist": ((86.1, 2.7, "DP-SGD, as reported in the literature"), (88.35, 1.0, _OWN_DPSGD),
                      (89.25, 3.0, _OWN_DPSGD)),
    "adult": ((83.7, 1.90, _P2018), (86.2, None, "no privacy")),
    "digits": ((83.8, 1.0, _DIGITS), (92.7, 3.0, _DIGITS)),
}  # fmt: skip
#: What a reader must know of where a data set's figures come from.
NOTES = {
    "fashion_mnist": "Fitted before the head that teaches the network had a constant coordinate "
    "(docs/record-recipes.md): a fit takes 20 minutes, and these were not fitted again.",
}
#: What was to be reached, set before the sweep: (epsilon, accuracy); None: ahead of DP-SGD at epsilon <= 1.
TARGETS: dict[tuple[str, str], tuple[tuple[float, float], ...] | None] = {
    ("mnist", "paper"): ((0.02, 98.3), (0.05, 99.0), (0.5, 99.2)),
    ("mnist", "standard"): ((0.02, 98.3), (0.05, 99.0), (0.5, 99.2)),
    ("fashion_mnist", "standard"): ((0.1, 84.0), (0.5, 87.5), (2.0, 90.0)),
    ("adult", "standard"): ((0.05, 84.5), (0.1, 85.3), (0.5, 85.8)),
    ("digits", "standard"): ((0.5, 91.0), (1.0, 93.5), (3.0, 96.5)),
    **{(name, "standard"): None for name in ("optdigits", "pendigits", "spambase", "diabetes130")},
}
OURS = ("records", "records-head")
BASELINES = ("dp-sgd", "dp-sgd-representation", "dp-sgd-best")
#: Adult, spambase: two classes; Diabetes 130: three, of which one is rare.
WITH_AUC = ("adult", "spambase", "diabetes130")
_STYLE = {
    "records": ("series-0", "o"), "records-head": ("series-5", "s"), "heads": ("series-2", "D"),
    "shards": ("series-4", "^"), "pate-2018": ("soft", "v"), "dp-sgd": ("series-1", "P"),
    "dp-sgd-representation": ("series-3", "X"), "dp-sgd-best": ("ink", "p"),
}  # fmt: skip

Summary = Mapping[str, Any]


def find(summary: Summary, problem: Mapping[str, Any], method: str, epsilon: float | None) -> Mapping[str, Any] | None:
    """Return the row of one method and epsilon, if it is there."""
    wanted = (problem["data"], problem["protocol"], method, epsilon)
    rows = (r for r in summary["summary"] if (r["data"], r["protocol"], r["method"], r["epsilon"]) == wanted)
    return next(rows, None)


def _number(row: Mapping[str, Any] | None, measure: str, n_seeds: int, *, times: float = 100.0, digits: int = 2) -> str:
    if row is None or row[measure]["mean"] is None:
        return "·"
    got = row[measure]
    text = f"{times * got['mean']:.{digits}f}"
    text += f" ± {times * got['sd']:.{digits}f}" if got["sd"] is not None else ""
    return text if got["n"] == n_seeds else f"{text} ({got['n']})"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines] + [""]


def _measured(summary: Summary, problem: Mapping[str, Any], measure: str) -> list[str]:
    epsilons, n = summary["epsilons"], len(summary["seeds"])
    rows = []
    for method in summary["methods"]:
        if method == "no-privacy":
            continue
        cells = [_number(find(summary, problem, method, e), measure, n) for e in epsilons]
        if set(cells) != {"·"}:
            rows.append([method, *cells])
    without = _number(find(summary, problem, "no-privacy", None), measure, n)
    if without != "·":
        rows.append([f"*no privacy*: {without}", *[""] * len(epsilons)])
    return table(["", *[f"{e:g}" for e in epsilons]], rows) if rows else ["Nothing is there yet.", ""]


def verdicts(summary: Summary, problem: Mapping[str, Any]) -> list[list[str]]:
    """Return what was to be reached, and whether it is: a row for each target."""
    key, n, rows = (problem["data"], problem["protocol"]), len(summary["seeds"]), []
    if key not in TARGETS:
        return []
    targets = TARGETS[key]
    for epsilon in [e for e in summary["epsilons"] if e <= 1] if targets is None else [e for e, _ in targets]:
        if targets is not None:
            bar: float | None = dict(targets)[epsilon]
            goal = f"{bar:g}"
        else:
            baselines = [find(summary, problem, name, epsilon) for name in BASELINES]
            means = [100 * row["accuracy"]["mean"] for row in baselines if row is not None]
            bar = max(means, default=None)
            goal = "DP-SGD's best, unknown yet" if bar is None else f"over {bar:.2f}"
            goal += (
                "" if len(means) == len(BASELINES) or bar is None else f" ({len(means)} of {len(BASELINES)} baselines)"
            )
        rows.append([f"{epsilon:g}", goal, *[_verdict(find(summary, problem, m, epsilon), bar, n) for m in OURS]])
    return rows


def _verdict(row: Mapping[str, Any] | None, bar: float | None, n_seeds: int) -> str:
    if row is None or bar is None:
        return "not there yet"
    mean, n = 100 * row["accuracy"]["mean"], row["accuracy"]["n"]
    text = f"**reached**: {mean:.2f}" if mean >= bar else f"missed by {bar - mean:.2f}: {mean:.2f}"
    return text if n == n_seeds else f"{text} ({n} of {n_seeds} seeds)"


def _section(summary: Summary, problem: Mapping[str, Any]) -> list[str]:
    name, protocol = problem["data"], problem["protocol"]
    lines = [f"## {NAMES.get(name, name)}, {protocol} protocol", ""]
    fitted = problem["representation_seconds"]
    times = "" if fitted is None else f" Fitting the representation and mapping rows: {fitted:.0f} s."
    lines += [
        f"{problem['n_private']:,} private records, {problem['n_public']:,} public rows, {problem['n_test']:,} test "
        f"rows; the commonest class is {100 * problem['commonest']:.1f}% of the test rows.{times}",
        "",
        *([NOTES[name], ""] if name in NOTES else []),
        *_measured(summary, problem, "accuracy"),
    ]
    if name in WITH_AUC:
        of = ", mean over each class against the rest" if name == "diabetes130" else ""
        lines += [f"Area under the ROC curve{of} (%):", "", *_measured(summary, problem, "auc"),
                  "Balanced accuracy (%):", "", *_measured(summary, problem, "balanced_accuracy")]  # fmt: skip
    rows = verdicts(summary, problem)
    if rows:
        lines += ["Targets:", "", *table(["epsilon", "to reach", *OURS], rows)]
    if name in ANCHORS:
        cells = [[f"{a:g}", "none" if e is None else f"{e:g}", source] for a, e, source in ANCHORS[name]]
        lines += ["Anchors:", "", *table(["accuracy", "epsilon", "source"], cells)]
    return lines


def _seconds(summary: Summary) -> list[str]:
    methods = [m for m in summary["methods"] if any(r["method"] == m for r in summary["summary"])]
    rows = []
    for p in summary["problems"]:
        cells = []
        for m in methods:
            known = [r["seconds"]["mean"] for r in summary["summary"]
                     if (r["data"], r["protocol"], r["method"]) == (p["data"], p["protocol"], m)]  # fmt: skip
            cells.append(f"{sum(known) / len(known):.1f}" if known else "·")
        rows.append([f"{NAMES.get(p['data'], p['data'])}, {p['protocol']}", *cells])
    return table(["", *methods], rows)


def _gaps(summary: Summary) -> list[str]:
    lines: list[str] = []
    if summary["missing"]:
        by_data: dict[str, list[str]] = {}
        for m in summary["missing"]:
            stored = f"{m['method']} {m['missing']} of {m['of']}"
            by_data.setdefault(f"{m['data']}/{m['protocol']}", []).append(stored)
        rows = [[data, ", ".join(stored)] for data, stored in by_data.items()]
        lines += ["Cells that are not computed yet:", "", *table(["data", "missing"], rows)]
    for kind in ("refused", "failed"):
        counts: dict[tuple[str, str], list[float]] = {}
        for row in summary[kind]:
            about = (f"{row['data']}/{row['protocol']}, {row['method']}", str(row["why"]).splitlines()[0])
            counts.setdefault(about, []).append(row["epsilon"] or 0.0)
        if counts:
            rows = [[a, ", ".join(f"{e:g}" for e in sorted(set(es))), why.replace("|", "/")]
                    for (a, why), es in counts.items()]  # fmt: skip
            lines += [f"Cells that were {kind}:" if kind == "refused" else "Cells that failed:", ""]
            lines += table(["cell", "epsilon", "why"], rows)
    mixed = sorted({f"{r['data']}/{r['protocol']} {r['method']}" for r in summary["summary"] if len(r["code"]) > 1})
    if mixed:
        lines += [f"Seeds computed by different code: {', '.join(mixed)}.", ""]
    return lines or ["Every cell is there.", ""]


def write_page(summary: Summary, picture: str | None) -> str:
    """Return the page; what is missing is said, and counts for nothing."""
    n = len(summary["seeds"])
    lines = [
        "# Accuracy against epsilon",
        "",
        "Generated by `experiments/accuracy_vs_epsilon.py` from `experiments/results/accuracy_vs_epsilon.json`: no "
        "figure here is typed by hand, but for the anchors and the targets.",
        "",
        f"Accuracy on the test rows in %, mean ± standard deviation of {n} seed{'s' * (n > 1)}; a number in brackets "
        f"says how many seeds are there where fewer are. Public epsilon (nothing data-dependent) at delta "
        f"{summary['delta']:g}, replace-one; one record is protected, in Diabetes 130 one person. Every seed draws "
        "split, representation, noise and student; the `paper` protocol's split is published, and is the same for "
        "all seeds. Every cell is a fit of its own with the whole budget.",
        "",
        "Methods: `records` is `PATEClassifier(budget=...)` with nothing else said; `records-head` is the same "
        "without anybody who learns from its head; `heads` is "
        '`voters="heads"`; `shards` is `PATEClassifier(LogisticRegression())`; `pate-2018` is 250 teachers and '
        "Confident-GNMax with the 2018 paper's noise (logistic regressions for its networks, random forests on Adult), "
        "as many questions as the public budget buys; `dp-sgd` is this project's default for the kind of data "
        "(Diabetes 130: on one record of each person); `dp-sgd-representation` is linear DP-SGD on the records' own "
        "representation; `dp-sgd-best` is the best of six settings of both, chosen on the test rows in its "
        "favour; *no privacy* is `records` at an epsilon that promises nothing.",
        "",
        "No setting was chosen on these test rows. The rules of records, heads and shards were chosen on splits of "
        "training parts (docs/research-log.md), `dp-sgd` by the data's kind.",
        "",
    ]
    if picture is not None:
        lines += [f"![Accuracy against epsilon by data set]({picture})", ""]
    for problem in summary["problems"]:
        lines += _section(summary, problem)
    if summary["summary"]:
        lines += ["## Seconds", "", "Of one fit and its answers, mean over epsilons and seeds; the representation, "
                  "which is fitted once for all methods and epsilons, apart.", "", *_seconds(summary)]  # fmt: skip
    lines += ["## What is missing", "", *_gaps(summary)]
    versions = ", ".join(f"{name} {v}" for name, v in summary["versions"].items())
    commits = ", ".join(c[:12] + ("-dirty" if c.endswith("-dirty") else "") for c in summary["commits"])
    lines += ["## Where it comes from", "",
              f"Written {summary['created']}; cells of commit {commits or 'none'}; seeds "
              f"{', '.join(map(str, summary['seeds']))}; {versions}."]  # fmt: skip
    return "\n".join(lines) + "\n"


def draw(summary: Summary) -> bytes | None:
    """Return the picture as PNG: a panel for each data set; None where there is nothing to draw."""
    drawable = [p for p in summary["problems"] if any(_line(summary, p, m) for m in _STYLE)]
    if not drawable:
        return None
    columns = min(2, len(drawable))
    n_rows = -(-len(drawable) // columns)
    figure = Figure(figsize=(4.6 * columns, 2.9 * n_rows + 0.8), layout="constrained")
    grid = figure.subplots(n_rows, columns, squeeze=False)
    handles: dict[str, Any] = {}
    for ax, problem in zip(grid.flat, drawable, strict=False):
        _panel(ax, summary, problem, handles)
    for ax in list(grid.flat)[len(drawable) :]:
        ax.set_visible(False)
    figure.legend(handles.values(), handles, loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    return figure_to_png(figure, dpi=110)


def _line(summary: Summary, problem: Mapping[str, Any], method: str) -> list[tuple[float, float, float]]:
    found = [(e, find(summary, problem, method, e)) for e in summary["epsilons"]]
    return [(e, 100 * r["accuracy"]["mean"], 100 * (r["accuracy"]["sd"] or 0.0)) for e, r in found if r is not None]


def _panel(ax: Any, summary: Summary, problem: Mapping[str, Any], handles: dict[str, Any]) -> None:
    for method, (colour, marker) in _STYLE.items():
        points = _line(summary, problem, method)
        if points:
            x, mean, sd = zip(*points, strict=True)
            style = {"color": COLOURS[colour], "marker": marker, "markersize": 4.5, "linewidth": 1.5}
            handles[method] = ax.plot(x, mean, label=method, zorder=3, **style)[0]
            low, high = ([m + sign * s for m, s in zip(mean, sd, strict=True)] for sign in (-1, 1))
            ax.fill_between(x, low, high, color=COLOURS[colour], alpha=0.15, linewidth=0, zorder=2)
    without = find(summary, problem, "no-privacy", None)
    if without is not None:
        level = 100 * without["accuracy"]["mean"]
        handles["no privacy"] = ax.axhline(level, color=COLOURS["reference"], linestyle="--", linewidth=1.2, zorder=1)
    published = [(e, a) for a, e, _ in ANCHORS.get(problem["data"], ()) if e is not None]
    if published:
        x, y = zip(*published, strict=True)
        handles["anchor"] = ax.scatter(x, y, marker="*", s=45, color=COLOURS["ink"], zorder=4)
    targets = TARGETS.get((problem["data"], problem["protocol"]))
    if targets:
        x, y = zip(*targets, strict=True)
        handles["target"] = ax.scatter(x, y, marker="_", s=140, color=COLOURS["ink"], linewidths=1.6, zorder=4)
    ax.set_xscale("log")
    ax.set_xlim(summary["epsilons"][0] / 1.25, summary["epsilons"][-1] * 1.25)
    ax.set_xticks(summary["epsilons"])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.tick_params(labelsize=8, color=COLOURS["grid"], labelcolor=COLOURS["ink"])
    ax.set_title(f"{NAMES.get(problem['data'], problem['data'])}, {problem['protocol']}", fontsize=10)
    ax.set_xlabel("ε (smaller is more private)", fontsize=8, color=COLOURS["soft"])
    ax.set_ylabel("accuracy, %", fontsize=8, color=COLOURS["soft"])
    ax.grid(axis="y", color=COLOURS["grid"], linewidth=0.7)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
