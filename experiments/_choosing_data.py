"""The data sets of ``choosing.py``: named ones as they are, thinned, cut into other classes, or with fewer records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from pate import Dataset, load_dataset
from pate.data import HeldOutRows, PrivateRows, PublicRows


@dataclass(frozen=True)
class Question:
    """One data set, what it stands for, and who is asked."""

    name: str
    about: str
    data: str
    n_public: int | None = None
    n_private: int | None = None
    #: "rare": each second class keeps a tenth of its rows, private, public and test; "two", "clusters": other classes.
    change: str = ""
    contestants: tuple[str, ...] = ("pate", "dpsgd", "majority")
    repeats: int = 5

    def load(self) -> Dataset:
        """Return the data set, which knows how another seed draws it."""
        plain = load_dataset(self.data)
        return self._made(0).drawn_by(self._made, redraws=plain.redraws, published=True, n_pool=plain.n_pool)

    def _made(self, seed: int) -> Dataset:
        data = load_dataset(self.data, random_state=seed, n_public=self.n_public, n_private=self.n_private)
        return CHANGES[self.change](data, seed) if self.change else data


def _rare(data: Dataset, seed: int) -> Dataset:
    """Thin every second class to a tenth: by the seed, but of a published test part always the same rows."""

    def kept(y: Any, seed: int) -> Any:
        return np.flatnonzero((y % 2 == 0) | (np.random.default_rng([seed, 0x7E9]).random(len(y)) < 0.1))

    private, public = kept(data.private.y, seed), kept(data.public.y_for_evaluation, seed + 1)
    return _rows(data, private, public, kept(data.test.y, 0))


def _two(data: Dataset, seed: int) -> Dataset:
    """Ask only whether the class is odd."""
    return _classes(data, ("even", "odd"), lambda X, y: y % 2)


def _clusters(data: Dataset, seed: int) -> Dataset:
    """Cut six classes into three clusters each and the others into two, by a fixed draw's public rows: 26 classes."""
    plain = load_dataset(data.name, random_state=0)
    X, y = plain.public.X, plain.public.y_for_evaluation
    cuts = {c: KMeans(3 if c < 6 else 2, n_init=2, random_state=0).fit(X[y == c]) for c in range(len(data.classes))}
    start = np.cumsum([0, *(cut.n_clusters for cut in cuts.values())])

    def renamed(X: Any, y: Any) -> Any:
        found = np.empty(len(y), dtype=np.int64)
        for c, cut in cuts.items():
            found[y == c] = start[c] + cut.predict(X[y == c])
        return found

    return _classes(data, tuple(range(int(start[-1]))), renamed)


CHANGES: dict[str, Callable[[Dataset, int], Dataset]] = {"rare": _rare, "two": _two, "clusters": _clusters}


def _classes(data: Dataset, classes: tuple[Any, ...], renamed: Callable[[Any, Any], Any]) -> Dataset:
    private, public, test = data.private, data.public, data.test
    return replace(
        data,
        classes=classes,
        private=PrivateRows(private.X, renamed(private.X, private.y), private.groups),
        public=PublicRows(public.X, renamed(public.X, public.y_for_evaluation)),
        test=HeldOutRows(test.X, renamed(test.X, test.y)),
    )


def _rows(data: Dataset, private: Any, public: Any, test: Any) -> Dataset:
    return replace(
        data,
        private=PrivateRows(data.private.X[private], data.private.y[private]),
        public=PublicRows(data.public.X[public], data.public.y_for_evaluation[public]),
        test=HeldOutRows(data.test.X[test], data.test.y[test]),
    )


_FAST = ("pate-fast", "dpsgd", "majority")
QUESTIONS = (
    Question("digits", "small images", "digits", n_public=400),
    Question("MNIST, fast", "images of strokes", "mnist", n_public=9_000, contestants=_FAST, repeats=3),
    Question("Fashion-MNIST, fast", "other images", "fashion_mnist", n_public=9_000, contestants=_FAST, repeats=3),
    Question("pendigits", "table of numbers", "pendigits"),
    Question("optdigits", "table of numbers", "optdigits"),
    Question("spambase", "table of long-tailed numbers", "spambase"),
    Question("Adult", "table with categories", "adult", n_public=8_000),
    Question("pendigits, 500 records", "few records", "pendigits", n_private=500),
    Question("pendigits, 2,000 records", "records in between", "pendigits", n_private=2_000),
    Question("Adult, 1,000 records", "few records", "adult", n_public=8_000, n_private=1_000),
    Question("Adult, 5,000 records", "records in between", "adult", n_public=8_000, n_private=5_000),
    Question("pendigits, 200 public rows", "few public rows", "pendigits", n_public=200),
    Question("pendigits, odd or even", "two classes", "pendigits", change="two"),
    Question("pendigits, 26 clusters", "many classes", "pendigits", change="clusters"),
    Question("pendigits, rare classes", "imbalance", "pendigits", change="rare"),
    Question("optdigits, rare classes", "imbalance", "optdigits", change="rare"),
    Question("Diabetes 130, by person", "persons with several records", "diabetes130", n_public=5_000),
)
