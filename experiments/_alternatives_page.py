"""The page of ``alternatives.py``, from its JSON alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

#: Contestant -> what it is, in the order of the tables.
NAMES = {
    "pate": "records vote (`pate`, the default)",
    "confident-gnmax": "teachers on shards (`confident-gnmax`)",
    "dpsgd": "DP-SGD (`dpsgd`)",
    "diffprivlib-logistic": "diffprivlib, logistic regression",
    "diffprivlib-logistic-pca": "the same on public components",
    "diffprivlib-forest": "diffprivlib, random forest",
    "dp-ebm": "DP-EBM (interpret)",
    "public-labels-100": "100 public rows labelled by hand",
    "no-privacy": "an ordinary model, no privacy",
}
_FOR_TWO = "dp-ebm"
#: Of settings that were tried.
_SHOWN = 5
_INTRODUCTION = """\
# What people use instead, measured

Other libraries' private classifiers beside our defaults, on the same private, public and test rows.
`experiments/alternatives.py` writes this page from `experiments/results/alternatives.json`; no figure is typed by hand:

    {install}
    PATE_DATA_HOME=... python experiments/alternatives.py

Data and splits are those of [PATE or DP-SGD, measured](choosing.md), each question is a \
[comparison](comparison.md), and every repeat draws split, training and noise again. (diffprivlib 0.6.6 does not \
import beside scikit-learn 1.9, hence an environment of its own.)

## Who promises what

| method | ε is for | δ | must be told | read beside the budget |
| --- | --- | --- | --- | --- |
{promises}

Must be told: here by public rows. The accuracies below are at each method's own ε, **for its own adjacency**. \
For a replaced record read the forest and DP-EBM a column further to the right: what they reach at 0.5 costs an \
ε of 1.

Their ε is taken at its word, and was not audited, but for one thing seen on reading diffprivlib 0.6.6. \
`LogisticRegression` pays for curvature by `data_norm`, where the proof has its square, and leaves the intercept \
out of the regulariser, where the proof has it in; for rows longer than 1 **its ε is not what it says**. On two rows, \
of norm {norm:g} and 0, at ε = {epsilon:.3f}, without intercept, {found} of {n_fits:,} fits had a coefficient within \
{near:g} of 0. With 0 in place of the long row {of_neighbour:.1f} are expected, so that ε allows {allowed:.0f}.

**As an honest user.** diffprivlib's notebook puts `MinMaxScaler` into the pipeline: it is fitted on private \
rows, which no budget counts and nothing warns of. Here ranges, quantiles, categories and components come from \
public rows, and a warning of theirs about privacy would have ended the run. Told nothing, they warn:
"""
_PROMISES = (
    ("records, shards, DP-SGD (pate)", "a **replaced** record", "1e-5", "`classes`", "nothing"),
    (
        "diffprivlib `LogisticRegression`",
        "a **replaced** record (objective perturbation, Chaudhuri et al. 2011)",
        "0",
        "`data_norm`, the scale of columns",
        "which classes there are; the number of records",
    ),
    (
        "diffprivlib `RandomForestClassifier`",
        "not said; the noise is that for a record **added or removed**. A replaced one: 2ε",
        "0",
        "`bounds`, `classes`",
        "the number of records",
    ),
    (
        "DP-EBM, `DPExplainableBoostingClassifier` (Nori et al. 2021)",
        "the noise is that for a record **added or removed**. A replaced one: 2ε, (1 + e^ε)δ",
        "1e-5",
        "`privacy_bounds`, `feature_types`",
        "which two classes there are (it takes no more); the number of records",
    ),
    ("100 labels by hand", "no private record is read", "", "the labels", "nothing"),
)
_SHORT = """\
## In short

Mean accuracy in % over the questions of two classes ({two}) and of ten ({ten}); in brackets on how many of them a \
method's mean is the best of all private ones. {repeats} repeats show no small difference.
"""
_ONE_BY_ONE = """\
## Question by question

Mean accuracy ± standard deviation over the repeats in %; the best private mean in bold.
"""
_SETTINGS = """\
## How theirs were set

By their defaults (10 trees of depth 5; 300 rounds; C = 1) but for what they must be told. That was chosen on \
two splits each of training parts, for all data alike: *tail* is the share of public rows cut off at either end \
of a column's range, *norm* the largest or the median of public rows, longer ones being clipped. Taken: tail \
{tail:g}, the median, {components_of_more} components ({components_of_two} of two classes). Logistic regression as in \
its notebook (the range and the largest norm of public rows) had nothing chosen. Mean accuracy in % over ε; of \
logistic regression the best {shown} of those that every data set has columns for.
"""


def _mean(question: Mapping[str, Any], name: str, epsilon: float) -> list[float]:
    """Return a contestant's accuracies in percent; references have no epsilon."""
    rows = [row for row in question["rows"] if row["contestant"] == name and row["epsilon"] in (epsilon, None)]
    return [100 * row["accuracy"] for row in rows if row["accuracy"] is not None]


def best(question: Mapping[str, Any], epsilon: float) -> str:
    """Return the private contestant with the best mean."""
    private = {row["contestant"] for row in question["rows"] if row["epsilon"] == epsilon}
    return max(private, key=lambda name: fmean(_mean(question, name, epsilon) or [0.0]))


def _cell(question: Mapping[str, Any], name: str, epsilon: float, *, bold: bool) -> str:
    values = _mean(question, name, epsilon)
    if not values:
        return "two classes only" if name == _FOR_TWO and question["n_classes"] > 2 else "·"
    text = f"{fmean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")
    return f"**{text}**" if bold else text


def epsilons(stored: Mapping[str, Any]) -> list[float]:
    """Return the epsilons measured."""
    return sorted({row["epsilon"] for q in stored["questions"] for row in q["rows"]} - {None})


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table in Markdown, and an empty line."""
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)] + [""]


def accuracies(stored: Mapping[str, Any]) -> list[str]:
    """Return the accuracies of every question."""
    lines, levels = [], epsilons(stored)
    for question in stored["questions"]:
        sizes = [f"{question[key]:,} {what}" for key, what in (
            ("n_private", "private"), ("n_public", "public"), ("n_test", "test rows"), ("n_classes", "classes"),
            ("repeats", "repeats"))]  # fmt: skip
        lines += [f"### {question['name']}", "", f"{', '.join(sizes)}.", ""]
        first = {epsilon: best(question, epsilon) for epsilon in levels}
        rows = [[words, *(_cell(question, name, e, bold=name == first[e]) for e in levels)]
                for name, words in NAMES.items()]  # fmt: skip
        lines += table(["", *(f"ε = {epsilon:g}" for epsilon in levels)], rows)
    return lines


def short(stored: Mapping[str, Any]) -> list[str]:
    """Return each method's mean over the questions of two classes and of more, and how often it is best."""
    levels, rows = epsilons(stored), []
    for name, words in NAMES.items():
        for two in (True, False):
            asked = [q for q in stored["questions"] if (q["n_classes"] == 2) == two]
            asked = [q for q in asked if any(row["contestant"] == name for row in q["rows"])]
            if not asked:
                continue
            cells = []
            for epsilon in levels:
                ahead = sum(name == best(q, epsilon) for q in asked)
                mean = fmean(fmean(_mean(q, name, epsilon)) for q in asked)
                cells.append(f"{mean:.1f}" + (f" ({ahead} of {len(asked)})" if ahead else ""))
            rows.append([words, "two" if two else "ten", *cells])
    return table(["", "classes", *(f"ε = {epsilon:g}" for epsilon in levels)], rows)


def development(stored: Mapping[str, Any]) -> list[str]:
    """Return the settings of theirs that were tried, best first, by the mean over data and epsilon."""
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row in stored["development"]:
        said = ", ".join(f"{key} {value}" for key, value in row["settings"].items())
        found.setdefault((row["kind"], said), {}).setdefault(row["data"], []).append(100 * row["accuracy"])
    data = list(dict.fromkeys(row["data"] for row in stored["development"]))
    rows = []
    for kind in dict.fromkeys(kind for kind, _ in found):
        mine = {said: of for (which, said), of in found.items() if which == kind}
        most = max(map(len, mine.values()))
        mine = {said: of for said, of in mine.items() if len(of) == most}  # 16 components need more than 16 columns
        for said in sorted(mine, key=lambda said: -fmean(map(fmean, mine[said].values())))[:_SHOWN]:
            rows.append([kind, said, *(f"{fmean(mine[said][d]):.1f}" if d in mine[said] else "·" for d in data)])
    return table(["", "settings", *data], rows)


def page(stored: Mapping[str, Any]) -> str:
    """Return the page in Markdown."""
    questions = stored["questions"]
    promises = "\n".join(f"| {' | '.join(cells)} |" for cells in _PROMISES)
    lines = [_INTRODUCTION.format(install=stored["install"], promises=promises, **stored["curvature"])]
    lines += [f"- {NAMES[name]}: {'; '.join(texts)}." for name, texts in stored["unsaid"].items()]
    named = {words: "; ".join(q["name"] for q in questions if (q["n_classes"] == 2) == two)
             for words, two in (("two", True), ("ten", False))}  # fmt: skip
    repeats = "-".join(map(str, sorted({q["repeats"] for q in questions})))
    lines += ["", _SHORT.format(**named, repeats=repeats), *short(stored), _ONE_BY_ONE, *accuracies(stored)]
    lines += [_SETTINGS.format(**stored["taken"], shown=_SHOWN), *development(stored)]
    versions = {**questions[0]["versions"], **questions[0]["packages"]}
    commits = ", ".join(
        dict.fromkeys((q[key] or "unknown")[:12] for q in questions for key in ("commit", "finished_at"))
    )
    lines += [f"Versions: {', '.join(f'{name} {value}' for name, value in versions.items())}. Commits: {commits}."]
    return "\n".join(lines).rstrip() + "\n"


def write_page(stored: Mapping[str, Any], path: Path) -> None:
    """Write the page."""
    path.write_text(page(stored), encoding="utf-8")
