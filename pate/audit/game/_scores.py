"""How one run becomes one number: the higher, the more it looks like the second world."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pate.core.checks import shown
from pate.core.types import FloatArray
from pate.exceptions import InvalidInputError

#: Of outputs in the two worlds to an array with one row per run.
Scorer = Callable[[Any, Any, Any], FloatArray]


def is_learnt(score: Any) -> bool:
    """Return whether the score is a classifier, which must be trained on runs of its own."""
    return (isinstance(score, str) and score == "classifier") or hasattr(score, "predict_proba")


def said(score: Any) -> str:
    """Return the score in words."""
    if isinstance(score, str):
        return {"likelihood": "the log likelihood ratio", "classifier": "a classifier trained on half of the runs"}[
            score
        ]
    name = getattr(score, "__name__", type(score).__name__)
    return (
        f"a classifier ({name}) trained on half of the runs" if is_learnt(score) else f"a function of the user ({name})"
    )


def scorer(score: Any, release: Any) -> Callable[[Any, Any, Any, bool], FloatArray]:
    """Return what turns outputs into an array with one row per run: a score, or the features of a classifier.

    Raises
    ------
    InvalidInputError
        "likelihood" for a release that knows none, or something that is no score.
    """
    if isinstance(score, str) and score == "likelihood":
        if not callable(getattr(release, "log_ratio", None)):
            raise InvalidInputError(
                "score='likelihood' needs a release with log_ratio(outputs, D, D_prime), such as MechanismRelease. "
                "Pass a function of one output, or score='classifier'."
            )
        return _Likelihood(release)
    if is_learnt(score):
        return _features
    if callable(score):
        return _Own(score)
    raise InvalidInputError(
        f"score must be 'likelihood', 'classifier', a function of an output or a classifier, got {shown(score)}."
    )


class _Likelihood:
    def __init__(self, release: Any) -> None:
        self._release = release

    def __call__(self, outputs: Any, D: Any, D_prime: Any, batched: bool) -> FloatArray:
        whole = outputs if batched else np.stack([np.asarray(output) for output in outputs])
        return np.asarray(self._release.log_ratio(whole, D, D_prime), dtype=np.float64)


class _Own:
    def __init__(self, score: Callable[[Any], Any]) -> None:
        self._score = score

    def __call__(self, outputs: Any, D: Any, D_prime: Any, batched: bool) -> FloatArray:
        found = self._score(outputs) if batched else [self._score(output) for output in outputs]
        return np.asarray(found, dtype=np.float64)


def _features(outputs: Any, D: Any, D_prime: Any, batched: bool) -> FloatArray:
    rows = [np.asarray(output, dtype=np.float64).ravel() for output in outputs]
    if len({len(row) for row in rows}) > 1:
        raise InvalidInputError("a classifier needs outputs of one size. Pass a score of your own, score=function.")
    return np.stack(rows)


def trained(score: Any, out: FloatArray, in_: FloatArray, seed: int) -> Callable[[FloatArray], FloatArray]:
    """Return the log odds of the second world, as a classifier learnt them from runs that are used for nothing else.

    ``"classifier"``: a logistic regression or a forest, whichever has the better cross-validated likelihood there.
    """
    from sklearn.base import clone
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = np.concatenate([out, in_]), np.repeat([0, 1], [len(out), len(in_)])
    if isinstance(score, str):
        candidates = [
            make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
            RandomForestClassifier(200, min_samples_leaf=5, random_state=seed),
        ]
        folds = min(5, len(out), len(in_))
        means = [cross_val_score(c, X, y, scoring="neg_log_loss", cv=folds).mean() for c in candidates]
        chosen = candidates[int(np.argmax(means))]
    else:
        chosen = clone(score)
    model = chosen.fit(X, y)

    def score_of(rows: FloatArray) -> FloatArray:
        p = np.clip(model.predict_proba(rows)[:, 1], 1e-15, 1 - 1e-15)
        return np.asarray(np.log(p) - np.log1p(-p))

    return score_of
