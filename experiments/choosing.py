"""When does PATE win, and when DP-SGD? One comparison per question, then docs/choosing.md and docs/pate-or-dpsgd.md.

    PATE_DATA_HOME=... python experiments/choosing.py                    # all questions (an hour or two), then the page
    python experiments/choosing.py --only digits "Adult, 1,000 records"
    python experiments/choosing.py --page                                # the page from the stored JSON
    python experiments/choosing.py --smoke

Every contestant has its own public rule, with nothing else said; split, partition, noise and training are drawn by
every repeat. Finished fits stay in WORK (a killed run goes on); experiments/results/choosing.json is written after
every question.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import tempfile
from pathlib import Path
from typing import Any

from _choosing_data import QUESTIONS, Question
from _choosing_page import write_chapter, write_page

from pate import Budget, ComparisonReport, compare
from pate.comparison.contestants import named

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "experiments" / "results" / "choosing.json"
PAGE = ROOT / "docs" / "choosing.md"
CHAPTER = ROOT / "docs" / "pate-or-dpsgd.md"
EPSILONS = (0.1, 0.5, 1.0, 3.0)
DELTA = 1e-5


def asked(question: Question, work: Path, *, n_jobs: int, smoke: bool) -> dict[str, Any]:
    """Return what came of one comparison, for the JSON."""
    data = question.load()
    folder = work / re.sub(r"[^a-z0-9]+", "-", question.name.lower()).strip("-")
    epsilons = EPSILONS[2:3] if smoke else EPSILONS
    if (folder / "results.json").exists():  # all fits are there: what is said of them, by the rule as it is now
        report = ComparisonReport.load(folder)
    else:
        report = compare(
            named(question.contestants),
            data,
            budgets=[Budget(e, DELTA) for e in epsilons],
            n_repeats=2 if smoke else question.repeats,
            n_jobs=n_jobs,
            out=folder,
            verbose=True,
        )
    figures = report.to_dict()
    return {
        "name": question.name,
        "about": question.about,
        "data": question.data,
        "change": question.change,
        "n_private": len(data.private.y),
        "n_units": len(data.private.y) if data.private.groups is None else len(set(data.private.groups.tolist())),
        "n_public": len(data.public.y_for_evaluation),
        "n_test": len(data.test.y),
        "n_classes": len(data.classes),
        "repeats": question.repeats,
        **{key: figures[key] for key in ("bands", "side_verdicts", "crossings", "rule", "redraws")},
        "balanced": _balanced(figures["rows"]),
        **{key: figures[key] for key in ("created", "commit", "versions")},
    }


def _balanced(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the mean balanced and worst-class accuracy by contestant and epsilon."""
    found: dict[tuple[str, float | None], list[dict[str, Any]]] = {}
    for row in rows:
        if row.get("balanced_accuracy") is not None:
            found.setdefault((row["contestant"], row["epsilon"]), []).append(row)
    return [
        {
            "contestant": name,
            "epsilon": epsilon,
            "balanced": round(statistics.fmean(r["balanced_accuracy"] for r in members), 5),
            "worst": round(statistics.fmean(r["worst_class_accuracy"] for r in members), 5),
        }
        for (name, epsilon), members in found.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="QUESTION", choices=[q.name for q in QUESTIONS])
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "choosing", help="where finished fits stay")
    parser.add_argument("--jobs", type=int, default=1, help="fits side by side")
    parser.add_argument("--page", action="store_true", help="the page from the stored JSON")
    parser.add_argument("--smoke", action="store_true", help="digits, one epsilon, two repeats; nothing is stored")
    args = parser.parse_args()
    if args.smoke:
        with tempfile.TemporaryDirectory() as work:
            print(json.dumps(asked(QUESTIONS[0], Path(work), n_jobs=args.jobs, smoke=True)["side_verdicts"], indent=1))
        return
    stored = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {"delta": DELTA, "questions": []}
    if not args.page:
        for question in QUESTIONS:
            if args.only and question.name not in args.only:
                continue
            done = {q["name"]: q for q in stored["questions"]}
            done[question.name] = asked(question, args.work, n_jobs=args.jobs, smoke=False)
            stored["questions"] = [done[q.name] for q in QUESTIONS if q.name in done]
            RESULT.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    write_page(stored, PAGE)
    write_chapter(stored, CHAPTER)


if __name__ == "__main__":
    main()
