"""What people use instead: diffprivlib, DP-EBM, labels by hand, beside our defaults on the same rows.

    pip install "scikit-learn<1.8" diffprivlib==0.6.6 interpret-core==0.7.8  # in an environment of its own, with pate
    PATE_DATA_HOME=... python experiments/alternatives.py            # half an hour of one core, then the page
    PATE_DATA_HOME=... python experiments/alternatives.py --develop  # what settings of theirs were chosen from
    python experiments/alternatives.py --page                        # docs/alternatives.md from the stored JSON
    python experiments/alternatives.py --smoke                       # does it run?

diffprivlib 0.6.6 fails to import beside the newest scikit-learn (1.9.1). The data and their splits are those of
``choosing.py``. Whatever another library must be told of the data (norms, bounds, classes) comes from public rows, and
a warning of theirs that privacy is violated ends the run. Finished fits stay in WORK (a killed run goes on);
experiments/results/alternatives.json is written after every question.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from _alternatives_page import write_page
from _choosing_data import QUESTIONS, Question
from _tables import written
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.decomposition import PCA
from sklearn.preprocessing import OneHotEncoder

from pate import Budget, ComparisonReport, compare, load_dataset
from pate._core.provenance import provenance
from pate.comparison.contestants import named
from pate.comparison.contract import Contestant, Setting, Tuning

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "experiments" / "results" / "alternatives.json"
PAGE = ROOT / "docs" / "alternatives.md"
INSTALL = 'pip install "scikit-learn<1.8" diffprivlib==0.6.6 interpret-core==0.7.8'
PACKAGES = ("diffprivlib", "interpret-core")
EPSILONS = (0.5, 1.0, 3.0)
DELTA = 1e-5
ASKED = ("digits", "spambase", "Adult", "pendigits, odd or even", "pendigits", "optdigits")
#: Chosen on the splits of ``--develop``, for all data alike.
TAIL, COMPONENTS_OF_TWO, COMPONENTS_OF_MORE = 0.05, 8, 4
#: name -> private, public rows of a development split of the training part
TRAINING = {"optdigits": (2_400, 600), "pendigits": (5_000, 1_000), "spambase": (2_400, 500), "adult": (15_000, 5_000)}
TAILS, COMPONENTS, NORMS = (0.0, 0.01, 0.05), (None, 4, 8, 16, 32), ("largest", "median")  # None: all of them
#: Their classifiers' own default is 100 steps of L-BFGS; the proof is about the minimum.
_STEPS = 1_000
_MISSING = "missing"


class PublicColumns:
    """What public rows say of columns: the range between two quantiles, the median, the categories.

    A column of numbers is clipped to its range, a missing cell of it is the median; a category that no public row has
    is none.
    """

    def __init__(self, X_public: Any, *, tail: float) -> None:
        table = self.table(X_public)
        self.numbers = [c for c in table if pd.api.types.is_numeric_dtype(table[c].dtype)]
        self.texts = [c for c in table if c not in self.numbers]
        values = table[self.numbers].to_numpy(float)
        self.fill = np.nanmedian(values, axis=0)
        self.low, high = np.nanquantile(values, [tail, 1 - tail], axis=0)
        self.high = np.where(high > self.low, high, self.low + 1.0)
        self.encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(table[self.texts])
        self.width = len(self.numbers) + sum(map(len, self.encoder.categories_))

    @staticmethod
    def table(X: Any) -> pd.DataFrame:
        """Return rows as a table of numbers and texts."""
        if isinstance(X, pd.DataFrame):
            texts = [c for c in X if not pd.api.types.is_numeric_dtype(X[c].dtype)]
            return X.assign(**{c: X[c].astype(object).fillna(_MISSING).astype(str) for c in texts})
        flat = np.asarray(X, dtype=float).reshape(len(X), -1)
        return pd.DataFrame(flat, columns=[f"column {i}" for i in range(flat.shape[1])])

    def clipped(self, X: Any) -> pd.DataFrame:
        """Return the table in its own units."""
        table = self.table(X)
        values = table[self.numbers].to_numpy(float)
        values = np.clip(np.where(np.isnan(values), self.fill, values), self.low, self.high)
        return table.assign(**dict(zip(self.numbers, values.T, strict=True)))

    def unit(self, X: Any) -> npt.NDArray[np.float64]:
        """Return numbers in [0, 1], then a column of zeros and ones for each category."""
        table = self.clipped(X)
        values = (table[self.numbers].to_numpy(float) - self.low) / (self.high - self.low)
        return np.hstack([values, self.encoder.transform(table[self.texts])]) if self.texts else values


@contextmanager
def no_leak() -> Iterator[None]:
    """Turn a library's warning that privacy is violated into an error, and drop all others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message="(?is).*privacy")
        yield


class Outside(ClassifierMixin, BaseEstimator):
    """A classifier of another library, told of public rows what it must know of the data; abstract."""

    def __init__(self, *, budget: Budget, classes: Any) -> None:
        self.budget = budget
        self.classes = classes

    def fit(self, X: Any, y: Any, *, X_public: Any) -> Self:
        """Prepare rows by the public ones alone, and fit the library's classifier."""
        self.classes_ = np.asarray(self.classes)
        self._learn(X_public)
        with no_leak():
            self.model_ = self._fitted(self._rows(X), np.asarray(y))
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the class of every row."""
        return np.asarray(self.model_.predict(self._rows(X)))


class Logistic(Outside):
    """diffprivlib's logistic regression as its notebook calls it: columns scaled to [0, 1], the norm given."""

    def _learn(self, X_public: Any) -> None:
        self.columns_ = PublicColumns(X_public, tail=0.0)
        self._take_norm(X_public, "largest")

    def _take_norm(self, X_public: Any, which: str) -> None:
        norms = np.linalg.norm(self._rows(X_public), axis=1)
        self.norm_ = float(norms.max() if which == "largest" else np.median(norms))

    def _rows(self, X: Any) -> Any:
        return self.columns_.unit(X)

    def _fitted(self, X: Any, y: Any) -> Any:
        from diffprivlib.models import LogisticRegression

        self.settings_ = f"LogisticRegression(data_norm={self.norm_:.3g}, max_iter={_STEPS}) on {X.shape[1]} columns"
        model = LogisticRegression(epsilon=self.budget.epsilon, data_norm=self.norm_, max_iter=_STEPS)
        return model.fit(X, y)


class LogisticOfComponents(Logistic):
    """The same on the first components of a PCA of public rows, clipped to their median norm."""

    tail, n_components, norm = TAIL, 0, "median"

    def _learn(self, X_public: Any) -> None:
        self.columns_ = PublicColumns(X_public, tail=self.tail)
        by_rule = COMPONENTS_OF_TWO if len(self.classes_) == 2 else COMPONENTS_OF_MORE
        n = by_rule if self.n_components == 0 else self.n_components
        self.pca_ = PCA(n, svd_solver="full").fit(self.columns_.unit(X_public))
        self._take_norm(X_public, self.norm)

    def _rows(self, X: Any) -> Any:
        return self.pca_.transform(self.columns_.unit(X))


class Forest(Outside):
    """diffprivlib's random forest by its defaults, bounds and classes given."""

    tail = TAIL

    def _learn(self, X_public: Any) -> None:
        self.columns_ = PublicColumns(X_public, tail=self.tail)

    def _rows(self, X: Any) -> Any:
        return self.columns_.unit(X)

    def _fitted(self, X: Any, y: Any) -> Any:
        from diffprivlib.models import RandomForestClassifier

        model = RandomForestClassifier(epsilon=self.budget.epsilon, bounds=(0.0, 1.0), classes=self.classes_)
        self.settings_ = f"RandomForestClassifier(bounds=(0, 1), classes=...) on {X.shape[1]} columns"
        return model.fit(X, y)


class Boosting(Outside):
    """DP-EBM by its defaults, bounds and types of columns given; of two classes only."""

    tail = TAIL

    def _learn(self, X_public: Any) -> None:
        self.columns_ = PublicColumns(X_public, tail=self.tail)

    def _rows(self, X: Any) -> Any:
        return self.columns_.clipped(X)

    def _fitted(self, X: Any, y: Any) -> Any:
        from interpret.privacy import DPExplainableBoostingClassifier

        known, ranges = self.columns_, zip(self.columns_.low, self.columns_.high, strict=True)
        self.settings_ = "DPExplainableBoostingClassifier(privacy_bounds=..., feature_types=...)"
        return DPExplainableBoostingClassifier(
            epsilon=self.budget.epsilon,
            delta=self.budget.delta,
            feature_types=["continuous" if c in known.numbers else "nominal" for c in X],
            privacy_bounds=dict(zip(known.numbers, ranges, strict=True)),
            n_jobs=1,
        ).fit(X, y)


def _made(setting: Setting, *, kind: type[Outside]) -> Outside:
    return kind(budget=setting.budget, classes=setting.classes)


_ON = "two splits each of the training parts of optdigits, pendigits, spambase and Adult (spambase's rows are shared)"
_SEES = "private rows and labels; of public rows ranges and categories"
THEIRS = tuple(
    Contestant(name, partial(_made, kind=kind), side="other", tuning=tuning, sees=sees)
    for name, kind, tuning, sees in (
        ("diffprivlib-logistic", Logistic, Tuning("as in its notebook", 0), _SEES),
        (
            "diffprivlib-logistic-pca",
            LogisticOfComponents,
            Tuning(f"{COMPONENTS_OF_TWO} components of public rows ({COMPONENTS_OF_MORE} of many classes)", 48, _ON),
            "private rows and labels; of public rows ranges, categories and components",
        ),
        ("diffprivlib-forest", Forest, Tuning("its defaults, bounds by public quantiles", 3, _ON), _SEES),
        ("dp-ebm", Boosting, Tuning("its defaults, bounds by public quantiles", 3, _ON), _SEES),
    )
)
_TWO_CLASSES = ("dp-ebm",)
_OURS = ("pate", "confident-gnmax", "dpsgd")
_REFERENCES = ("public-labels-100", "no-privacy")


def contestants(n_classes: int) -> tuple[Contestant, ...]:
    """Return who takes part: DP-EBM knows two classes only."""
    theirs = (c for c in THEIRS if n_classes == 2 or c.name not in _TWO_CLASSES)
    return (*named(_OURS), *theirs, *named(_REFERENCES))


def asked(question: Question, work: Path, *, n_repeats: int, n_jobs: int) -> dict[str, Any]:
    """Return what came of one comparison, for the JSON."""
    data = question.load()
    folder = work / re.sub(r"[^a-z0-9]+", "-", question.name.lower()).strip("-")
    report: ComparisonReport = compare(
        contestants(len(data.classes)),
        data,
        budgets=[Budget(e, DELTA) for e in EPSILONS],
        n_repeats=n_repeats,
        n_jobs=n_jobs,
        out=folder,
        verbose=True,
    )
    figures = report.to_dict()
    kept = ("contestant", "epsilon", "repeat", "accuracy", "balanced_accuracy", "settings", "refused")
    return {
        "name": question.name,
        "about": question.about,
        "n_private": len(data.private.y),
        "n_public": len(data.public.y_for_evaluation),
        "n_test": len(data.test.y),
        "n_classes": len(data.classes),
        "repeats": n_repeats,
        "rows": [{key: row.get(key) for key in kept} for row in figures["rows"]],
        **{key: figures[key] for key in ("created", "commit", "versions")},
        "finished_at": provenance()["commit"],
        "packages": {name: version(name) for name in PACKAGES},
    }


def develop() -> list[dict[str, Any]]:
    """Return accuracies of settings of theirs on splits of training parts."""
    found = []
    for data, seed in ((data, seed) for data in TRAINING for seed in (100, 101)):
        X, y, X_public, X_test, y_test = _training_split(data, seed)
        classes = np.unique(y)
        tried = [(LogisticOfComponents, {"tail": t, "n_components": k, "norm": n})
                 for t in TAILS for k in COMPONENTS for n in NORMS]  # fmt: skip
        tried += [(Forest, {"tail": t}) for t in TAILS]
        tried += [(Boosting, {"tail": t}) for t in TAILS if len(classes) == 2]
        for kind, settings in tried:
            if settings.get("n_components") and settings["n_components"] >= PublicColumns(X_public, tail=0.0).width:
                continue
            for epsilon in EPSILONS:
                model = type(kind.__name__, (kind,), settings)(budget=Budget(epsilon, DELTA), classes=classes)
                accuracy = float(np.mean(model.fit(X, y, X_public=X_public).predict(X_test) == y_test))
                row = {"data": data, "seed": seed, "kind": kind.__name__, "settings": settings, "epsilon": epsilon}
                found.append({**row, "accuracy": round(accuracy, 5)})
        print("developed on", data, seed, flush=True)
    return found


def _training_split(data: str, seed: int) -> tuple[Any, ...]:
    d = load_dataset(data, random_state=100)
    X: Any = pd.concat([PublicColumns.table(part.X) for part in (d.private, d.public)], ignore_index=True)
    y = np.concatenate([d.private.y, d.public.y_for_evaluation])
    a, b = TRAINING[data]
    mixed = np.random.default_rng(seed).permutation(len(y))
    i, j, k = np.split(mixed, [a, a + b])
    return X.iloc[i], y[i], X.iloc[j], X.iloc[k], y[k]


def unsaid() -> dict[str, list[str]]:
    """Return what each library warns of when it is told nothing of the data."""
    from diffprivlib.models import LogisticRegression, RandomForestClassifier
    from interpret.privacy import DPExplainableBoostingClassifier
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    told = {
        "diffprivlib-logistic": LogisticRegression(),
        "diffprivlib-forest": RandomForestClassifier(),
        "dp-ebm": DPExplainableBoostingClassifier(n_jobs=1, max_rounds=1),
    }
    found = {}
    for name, model in told.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(X, y)
        texts = (" ".join(str(w.message).split()) for w in caught)
        found[name] = list(dict.fromkeys(text.split(". ")[0] for text in texts if "privacy" in text.lower()))
    return found


def curvature(*, norm: float = 10.0, near: float = 0.1, n_fits: int = 20_000) -> dict[str, float]:
    """Fit diffprivlib's logistic regression on two rows of which one is long; replacing it by 0 moves more than its ε.

    With the row x = (norm,) of class 1 the coefficient f solves b = -(l'(f) norm + f) for the noise b, and so db/df is
    up to norm^2 / 4 + 1: its density at 0 is so many times that of the noise at norm / 2. With 0 in its place f = -b:
    the share near 0 is known exactly. At ε = 2 log(1 + norm / 4) + 0.1 the noise is what 0.1 buys (Chaudhuri et al.
    2011, Theorem 9, would take 2 log(1 + norm^2 / 4)).
    """
    from diffprivlib.models import LogisticRegression

    spent = 0.1
    epsilon = 2 * math.log1p(norm / 4) + spent
    X, y = np.array([[norm], [0.0]]), np.array([1, 0])
    model = LogisticRegression(epsilon=epsilon, data_norm=norm, fit_intercept=False, max_iter=_STEPS, tol=1e-10)
    with no_leak():
        found = sum(abs(float(model.fit(X, y).coef_[0, 0])) < near for _ in range(n_fits))
    share = -math.expm1(-near * spent / (2 * norm))
    return {
        "norm": norm, "near": near, "epsilon": epsilon, "n_fits": n_fits, "found": found,
        "of_neighbour": share * n_fits, "allowed": math.exp(epsilon) * share * n_fits,
    }  # fmt: skip


def check_packages() -> None:
    """End with what to install, unless the other libraries are there."""
    missing = []
    for name in PACKAGES:
        try:
            version(name)
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        raise SystemExit(f"{', '.join(missing)} must be installed to run this comparison: {INSTALL}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="QUESTION", choices=ASKED)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "alternatives", help="where finished fits stay")
    parser.add_argument("--jobs", type=int, default=1, help="fits side by side")
    parser.add_argument("--page", action="store_true", help="the page from the stored JSON")
    parser.add_argument("--develop", action="store_true", help="what settings of theirs were chosen from, and a check")
    parser.add_argument("--smoke", action="store_true", help="theirs alone, on 500 records; nothing is stored")
    args = parser.parse_args()
    if args.page:
        write_page(json.loads(RESULT.read_text(encoding="utf-8")), PAGE)
        return
    check_packages()
    if args.smoke:
        smoke()
        return
    stored = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {"delta": DELTA, "questions": []}
    taken = {"tail": TAIL, "components_of_two": COMPONENTS_OF_TWO, "components_of_more": COMPONENTS_OF_MORE}
    stored |= {"install": INSTALL, "unsaid": unsaid(), "taken": taken}
    if args.develop:
        stored |= {"development": develop(), "curvature": curvature()}
        RESULT.write_text(written(stored), encoding="utf-8")
        return
    by_name = {question.name: question for question in QUESTIONS}
    for name in args.only or ASKED:
        done = {q["name"]: q for q in stored["questions"]}
        done[name] = asked(by_name[name], args.work, n_repeats=args.repeats, n_jobs=args.jobs)
        stored["questions"] = [done[name] for name in ASKED if name in done]
        RESULT.write_text(written(stored), encoding="utf-8")
    write_page(stored, PAGE)


def smoke() -> None:
    """Fit each of theirs once, on few records of two classes."""
    data = Question("smoke", "", "spambase", n_private=500, change="").load()
    budgets = [Budget(EPSILONS[-1], DELTA)]
    with tempfile.TemporaryDirectory() as folder:
        print(compare(THEIRS, data, budgets=budgets, n_repeats=1, out=Path(folder) / "smoke"))


if __name__ == "__main__":
    main()
