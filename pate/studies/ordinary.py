"""A good ordinary model by kind of data: what is reached without any privacy."""

from __future__ import annotations

from typing import Any

from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

#: A kernel machine on more rows takes longer than everything else together.
LARGE = 20_000


def ordinary_model(kind: str, n_records: int, *, seed: int) -> Any:
    """Return an unfitted model of a kind that is usual for such data: boosted trees on tables, else a kernel machine.

    Of more than 20,000 images, a network of one layer.

    Parameters
    ----------
    kind : {"table", "image"}
    n_records : int
    seed : int
    """
    if kind == "table":
        return HistGradientBoostingClassifier(random_state=seed)
    return SVC() if n_records <= LARGE else MLPClassifier((128,), max_iter=15, random_state=seed)
