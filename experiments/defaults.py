"""What both defaults reach on known tables, and what they say of themselves: record voters beside DP-SGD.

    PATE_DATA_HOME=... python experiments/defaults.py --tables FOLDER   # an hour and more; one that was cut off goes on
    python experiments/defaults.py --page                                # the tables of docs/record-recipes.md
    PATE_DATA_HOME=... python experiments/defaults.py --smoke           # does it run?

FOLDER has development tables (CSV, a column ``target``). Public rows are drawn at random, many or few, or from a third
of all rows alone: that which is lowest along a principal direction of the standardised numbers. Private and test rows
come from everywhere. Nothing is set but budget, classes and who votes. The rule of record voters was chosen on these
tables: figures of development, not of tables that nobody had seen.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from _tables import Cell, filled, rows_of, taken, write_page
from sklearn.metrics import roc_auc_score

from pate import Budget, PATEClassifier, Queries
from pate.exceptions import CovariateShiftWarning
from pate.models.recipes._model import balancing, decided, noise_temperature
from pate.release import _measured as law

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "experiments" / "results" / "defaults.json"
WORDS = {"random": "at random", "first": "lowest third along the first principal direction",
         "second": "lowest third along the second"}  # fmt: skip


@dataclass(frozen=True)
class Config:
    """Fixed before any row is looked at."""

    #: Table, class that is separated from the rest (or none).
    tables: tuple[tuple[str, str], ...] = (
        ("vowel", ""), ("pima", ""), ("german", ""), ("churn", ""), ("credit", ""), ("income", ""), ("reviews", ""),
        ("adult", ""), ("spambase", ""), ("optdigits", ""), ("pendigits", ""), ("optdigits", "8"), ("pendigits", "9"),
        ("vowel", "hid"),
    )  # fmt: skip
    #: How public rows are drawn, and how many.
    draws: tuple[tuple[str, int], ...] = (
        ("random", 1000), ("random", 100), ("random", 30), ("first", 1000), ("second", 1000)
    )  # fmt: skip
    epsilons: tuple[float, ...] = (1.0, 0.3, 3.0, 8.0, 0.1)
    seeds: tuple[int, ...] = (100, 101, 102, 103, 104)
    delta: float = 1e-5
    most_private: int = 6_000
    #: The rarest class of an imbalanced table has less than this share.
    rare: float = 0.25


def cut(X: Any, how: str, n_public: int, seed: int) -> tuple[npt.NDArray[Any], ...]:
    """Return the numbers of private, public and test rows."""
    n, rng = len(X), np.random.default_rng(seed)
    test, rest = np.split(rng.permutation(n), [min(2_000, n // 4)])
    pool = rest
    if how != "random":
        numbers = X.select_dtypes("number").to_numpy(float) if isinstance(X, pd.DataFrame) else np.asarray(X, float)
        Z = numbers[rest]
        Z = np.nan_to_num((Z - np.nanmean(Z, axis=0)) / (np.nanstd(Z, axis=0) + 1e-9))
        along = Z @ np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)[2][["first", "second"].index(how)]
        pool = rest[along <= np.quantile(along, 1 / 3)]
    public = pool[: min(n_public, len(rest) // 4)]
    return rng.permutation(np.setdiff1d(rest, public)), public, test


def calibration_error(p: npt.NDArray[Any], codes: npt.NDArray[Any], bins: int = 15) -> float:
    """Return the mean over bins, by their rows, of how far sureness is from accuracy (Guo et al., ICML 2017)."""
    sure, right = p.max(axis=1), p.argmax(axis=1) == codes
    at = np.minimum((sure * bins).astype(int), bins - 1)
    return float(sum(abs(sure[at == b].sum() - right[at == b].sum()) for b in range(bins)) / len(p))


def balanced(said: npt.NDArray[Any], codes: npt.NDArray[Any]) -> float:
    """Return the mean recall of the classes."""
    return float(np.mean([(said[codes == code] == code).mean() for code in np.unique(codes)]))


def measured(table: tuple[str, str], how: str, n_public: int, epsilon: float, seed: int, who: str, folder: Any,
             config: Config) -> dict[str, Any]:  # fmt: skip
    """Return what one fit says of the test rows, and of itself."""
    X, y = rows_of(*table, folder)
    values, codes = np.unique(y, return_inverse=True)
    private, public, test = cut(X, how, n_public, seed)
    private = private[: config.most_private]
    clf = PATEClassifier(
        budget=Budget(epsilon, config.delta),
        classes=range(len(values)),
        voters=who,
        noise_seed=seed,
        random_state=seed,
        stated={"overlap is public": "yes"},
        queries=Queries(force=True),
    )
    with warnings.catch_warnings(record=True) as stored:
        warnings.simplefilter("always")
        plan, _ = clf.fit_keeping(taken(X, private), codes[private], X_public=taken(X, public))
        p = clf.predict_proba(taken(X, test))
    truth, said = codes[test], p.argmax(axis=1)
    found: dict[str, Any] = {
        "n": len(private), "n_public": len(public), "m": len(values), "n_test": len(test),
        "commonest": float(np.bincount(truth).max() / len(truth)),
        "rarest": float(np.bincount(codes).min() / len(codes)),
        "accuracy": float((said == truth).mean()), "balanced": balanced(said, truth),
        "auc": float(roc_auc_score(truth, p[:, 1])) if len(values) == 2 else None,
        "error": calibration_error(p, truth),
        "doubts": [doubt.kind for doubt in clf.statement_.doubts],
        "shift": any(issubclass(w.category, CovariateShiftWarning) for w in stored),
        "measured": None,
    }  # fmt: skip
    if clf.measured_ is not None:
        seen = clf.measured_
        found["measured"] = [seen.estimate, seen.low, seen.high, seen.counted, seen.correction, seen.sigma]
    if who == "records":
        found["mu"] = plan.mu
        model = clf.student_
        rows, own = (clf._check_rows(taken(X, i), model) for i in (test, public))
        before = model.untempered(rows)
        weights = balancing(model.untempered(own), noise_temperature(model.head, plan.phi))
        found["untempered"] = calibration_error(before, truth)
        found["decide_balanced"] = balanced(decided(before, weights), truth)
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in found.items()}


def cells(config: Config, folder: Path | None) -> Iterator[Cell]:
    """Yield every fit."""
    for seed in config.seeds:
        for epsilon in config.epsilons:
            for name, against in config.tables:
                for how, n_public in config.draws:
                    if how != "random" and name in ("income", "reviews"):
                        continue  # no numbers: there is no direction
                    for who in ("records", "dpsgd"):
                        key = {"table": name, "against": against, "public": how, "asked": n_public, "epsilon": epsilon}
                        todo = partial(measured, (name, against), how, n_public, epsilon, seed, who, folder, config)
                        yield "rows", {**key, "seed": seed, "voters": who}, todo


KEY = ["public", "asked", "epsilon", "table", "against", "seed"]


def pairs(stored: dict[str, Any]) -> pd.DataFrame:
    """Return accuracies in %, a column a method, of fits that both made."""
    D = pd.DataFrame(stored["rows"])
    both: pd.DataFrame = 100 * D.pivot_table(index=KEY, columns="voters", values="accuracy").dropna()
    return both.reset_index()


def _line(words: str, q: pd.DataFrame) -> str:
    """Return one row: the regret is against the better method of a cell by its mean over seeds, not of each fit.

    The better of two single fits is mostly the luckier one: a method would have regret against its own second draw.
    """
    tables = q.groupby(["table", "against"])
    cells = q.groupby(["public", "asked", "epsilon", "table", "against"])[["records", "dpsgd"]].mean()
    ahead, regret = cells.records - cells.dpsgd, cells.max(axis=1) - cells.records
    errors = [s.groupby(["table", "against"]).mean().sem() for s in (ahead, regret)]
    return (
        f"| {words} | {tables.ngroups} | {len(q)} | {q.records.mean():.1f} | {q.dpsgd.mean():.1f} | "
        f"{ahead.mean():+.1f} ± {errors[0]:.1f} | {regret.mean():.1f} ± {errors[1]:.1f} |"
    )


def by_public_rows(stored: dict[str, Any]) -> str:
    """Return the table of both methods, by public rows and epsilon: means over tables, standard errors over them."""
    both = pairs(stored)
    lines = [
        "| public rows, epsilon | tables | fits of each | records | DP-SGD | records ahead by | regret of records |"
    ]
    lines.append("|---|---|---|---|---|---|---|")
    for how, asked in dict.fromkeys(map(tuple, stored["config"]["draws"])):
        drawn = both[(both.public == how) & (both.asked == asked)]
        for epsilon in sorted(drawn.epsilon.unique()):
            lines.append(_line(f"{asked:,} {WORDS[how]}, {epsilon:g}", drawn[drawn.epsilon == epsilon]))
    if len(both):
        lines.append(_line("all", both))
    return "\n".join(lines)


def by_table(stored: dict[str, Any]) -> str:
    """Return how far records are ahead of DP-SGD on each table with most public rows, by epsilon."""
    both = pairs(stored)
    asked = max(a for _, a in stored["config"]["draws"])
    q = both[(both.public == "random") & (both.asked == asked)]
    q = q.assign(table=[f"{t}, {a} or not" if a else t for t, a in zip(q.table, q.against, strict=True)])
    ahead = (q.records - q.dpsgd).groupby([q.table, q.epsilon]).mean().unstack()
    lines = ["| table | " + " | ".join(f"{e:g}" for e in ahead.columns) + " |", "|---" * (len(ahead.columns) + 1) + "|"]
    lines += [f"| {name} | " + " | ".join(f"{v:+.1f}" for v in row) + " |" for name, row in ahead.iterrows()]
    level = (ahead >= -1).mean()
    return "\n".join([*lines, "| not more than a point behind | " + " | ".join(f"{v:.0%}" for v in level) + " |"])


def imbalanced(stored: dict[str, Any]) -> str:
    """Return what both reach on imbalanced tables, beside the commonest class, with most public rows at random."""
    D = pd.DataFrame(stored["rows"])
    asked = max(a for _, a in stored["config"]["draws"])
    D = D[(D.public == "random") & (D.asked == asked) & (D.m == 2) & (D.rarest < stored["config"]["rare"])]
    lines = ["| epsilon | who | fits | accuracy | commonest class | a point below it | AUC | balanced accuracy |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for (epsilon, who), q in D.groupby(["epsilon", "voters"], sort=True):
        below = (q.accuracy < q.commonest - 0.01).mean()
        lines.append(
            f"| {epsilon:g} | {who} | {len(q)} | {100 * q.accuracy.mean():.1f} | {100 * q.commonest.mean():.1f} | "
            f"{below:.0%} | {q.auc.mean():.3f} | {100 * q.balanced.mean():.1f} |"
        )
    return "\n".join(lines)


def of_itself(stored: dict[str, Any]) -> str:
    """Return how true what a fit says of itself is: measured accuracy, sureness, and warnings."""
    D = pd.DataFrame(stored["rows"])
    seen = D[D.measured.notna()]
    seen = seen.assign(**{name: [m[i] for m in seen.measured] for i, name in enumerate(("estimate", "low", "high"))})
    own = 1.96 * np.sqrt(seen.accuracy * (1 - seen.accuracy) / seen.n_test)  # a test part is a sample too
    low, high = (
        seen.estimate - side * np.hypot(seen.estimate - end, own) for side, end in ((1, seen.low), (-1, seen.high))
    )
    held, half = (low <= seen.accuracy) & (seen.accuracy <= high), 100 * (seen.high - seen.low) / 2
    lines = ["| what | of which fits | fits | figure |", "|---|---|---|---|"]
    for who in ("records", "dpsgd"):
        # Public rows of a third leave private rows that are drawn otherwise than test rows: nothing is said of those.
        q = (seen.voters == who) & (seen.public == "random")
        told_of = f"{who}, public rows at random"
        lines.append(f"| 95% interval of measured accuracy holds | {told_of} | {q.sum()} | {held[q].mean():.3f} |")
        q = (seen.voters == who) & (seen.epsilon == 1) & (seen.n >= 3000)
        words = f"{who}, epsilon 1, 3,000 records or more"
        lines.append(f"| median half-width in points | {words} | {q.sum()} | {half[q].median():.1f} |")
    size, half_at = refitted(stored)
    shipped = f"size {law.SIZE:g}, half {law._HALF:g}; these fits give {size:g}, {half_at:g}"
    lines.append(f"| constants of the correction | records, public rows at random | | {shipped} |")
    r = D[(D.voters == "records") & (D.public == "random")]
    for words, q in (("measured", r[r.measured.notna()]), ("not measured", r[r.measured.isna()])):
        error = f"{100 * q.untempered.mean():.1f} before, {100 * q.error.mean():.1f} after"
        lines.append(f"| calibration error in points | records, public rows at random, {words} | {len(q)} | {error} |")
    r = D[D.voters == "records"]
    for words, q in (("at random", r[r.public == "random"]), ("of a third", r[r.public != "random"])):
        lines.append(
            f"| warned that public rows stand elsewhere | public rows {words} | {len(q)} | {q['shift'].mean():.1%} |"
        )
    return "\n".join(lines)


def refitted(stored: dict[str, Any]) -> tuple[float, float]:
    """Return the constants (size, half) of :func:`pate.release.corrected` that come nearest to these fits.

    By least squares over the fits of record voters on public rows at random: counted - correction against test rows.
    """
    D = pd.DataFrame(stored["rows"])
    D = D[D.measured.notna() & (D.voters == "records") & (D.public == "random")]
    if not len(D):
        return math.nan, math.nan
    evidence = D.n * D.mu / (D.m * math.sqrt(2))
    d = (law._COMPONENTS * (evidence / 20) ** law._POWER).clip(law._FEWEST, law._MOST)
    spread = np.sqrt(D.accuracy * (1 - D.accuracy) * d * (D.m - 1) / D.n)
    off = np.array([m[3] for m in D.measured]) - D.accuracy
    tried = [(s, h) for h in (5.0, 10.0, 20.0, 40.0, 80.0) for s in np.arange(0, 0.61, 0.02)]
    size, half = min(tried, key=lambda t: float(((off - t[0] * spread * evidence / (evidence + t[1])) ** 2).mean()))
    return round(float(size), 2), half


def of_probabilities(stored: dict[str, Any]) -> str:
    """Return what calibration and balanced decisions come to, in two sentences."""
    D = pd.DataFrame(stored["rows"])
    D = D[(D.voters == "records") & (D.public == "random")]
    seen = D.measured.notna()
    error = [f"from {100 * q.untempered.mean():.1f} to {100 * q.error.mean():.1f}" for q in (D[seen], D[~seen])]
    rare = D[(D.m == 2) & (D.rarest < stored["config"]["rare"])]
    found = f"from {100 * rare.balanced.mean():.1f} to {100 * rare.decide_balanced.mean():.1f}"
    return (
        f"On development tables, epsilon .1 to 8, public rows at random, the expected calibration error went "
        f"{error[0]} points where accuracy was measured, and {error[1]} where it was not. On those of two unequal "
        f'classes `decide="balanced"` takes balanced accuracy {found} (`experiments/defaults.py`).'
    )


def decisions(stored: dict[str, Any]) -> str:
    """Return the balanced accuracy of both decisions on imbalanced tables, with most public rows at random."""
    D = pd.DataFrame(stored["rows"])
    asked = max(a for _, a in stored["config"]["draws"])
    D = D[(D.public == "random") & (D.asked == asked) & (D.m == 2) & (D.rarest < stored["config"]["rare"])]
    heads = ("epsilon", "records, likeliest", "records, balanced", "DP-SGD, likeliest", "AUC: records, DP-SGD")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for epsilon, q in D.groupby("epsilon", sort=True):
        r, d = (q[q.voters == who].mean(numeric_only=True) for who in ("records", "dpsgd"))
        told = [f"{100 * value:.1f}" for value in (r.balanced, r.decide_balanced, d.balanced)]
        lines.append(f"| {epsilon:g} | {' | '.join(told)} | {r.auc:.3f}, {d.auc:.3f} |")
    return "\n".join(lines)


def by_draw(stored: dict[str, Any]) -> str:
    """Return the mean accuracy by how public rows were drawn: of all tables, and of those that have a direction."""
    both = pairs(stored)
    epsilons = [e for e in sorted(stored["config"]["epsilons"]) if 0.3 <= e <= 3]
    there = set(both[both.public != "random"].table)
    lines = ["| public rows | tables | " + " | ".join(f"epsilon {e:g}" for e in epsilons) + " |"]
    lines.append("|---" * (len(epsilons) + 2) + "|")
    draws = [(how, asked, set(both.table)) for how, asked in stored["config"]["draws"] if how == "random"]
    draws += [(how, asked, there) for how, asked in stored["config"]["draws"] if asked == draws[0][1]]
    for how, asked, tables in draws:
        q = both[(both.public == how) & (both.asked == asked) & both.table.isin(tables)]
        means = [q[q.epsilon == e][["records", "dpsgd"]].mean() for e in epsilons]
        line = " | ".join(f"{m.records:.1f} ({m.dpsgd:.1f})" for m in means)
        lines.append(f"| {asked:,} {WORDS[how]} | {q.groupby(['table', 'against']).ngroups} | {line} |")
    return "\n".join(lines)


RECIPES, RECORDS = ROOT / "docs" / "record-recipes.md", ROOT / "docs" / "records.md"
TABLES = {
    "defaults": (RECIPES, by_public_rows), "by-table": (RECIPES, by_table), "imbalanced": (RECIPES, imbalanced),
    "of-itself": (RECIPES, of_itself), "of-probabilities": (RECORDS, of_probabilities),
    "decisions": (ROOT / "docs" / "imbalance.md", decisions), "draws": (ROOT / "docs" / "public-rows.md", by_draw),
}  # fmt: skip


def main() -> None:
    """Measure what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, help="folder of development tables")
    parser.add_argument("--page", action="store_true", help="the page from the stored result alone")
    parser.add_argument("--smoke", action="store_true", help="does it run?")
    given = parser.parse_args()
    if given.smoke:
        config = Config(
            tables=(("pendigits", "9"),), draws=(("random", 60), ("first", 60)), seeds=(100,), epsilons=(1.0,),
            most_private=300,
        )  # fmt: skip
        stored = filled(config, ["rows"], cells(config, None), None)
        print("\n\n".join(table(stored) for _, table in TABLES.values()))
        return
    if not given.page:
        config = Config()
        filled(config, ["rows"], cells(config, given.tables), RESULT)
    stored = json.loads(RESULT.read_text(encoding="utf-8"))
    for name, (page, table) in TABLES.items():
        write_page(page, name, table(stored))


if __name__ == "__main__":
    main()
