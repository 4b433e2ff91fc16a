"""Named data sets, cut into a private, a public and a test part."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from pate.core.checks import check_choice, check_int
from pate.core.seeds import training_seed
from pate.core.types import IndexArray
from pate.data.named._fetch import data_folder, load_file
from pate.data.named._formats import Raw
from pate.data.named._sources import SOURCES
from pate.data.named.dataset import SEED_PATH, Dataset, Draw, HeldOutRows, PrivateRows, PublicRows
from pate.exceptions import InvalidInputError

#: Share of a set without a published test part that becomes one.
_TEST_SHARE = 0.2
#: ``standard``: share of the training rows that becomes public (9,000 of MNIST's 60,000, as many as in the papers).
_PUBLIC_SHARE = 0.15
#: ``paper``: the first so many test rows are public, and this share of a smaller test part.
_PAPER_PUBLIC, _PAPER_SHARE = 9_000, 0.9


@dataclass(frozen=True)
class _Named:
    """A call of :func:`load_dataset`, to be made again with another seed."""

    name: str
    options: tuple[tuple[str, Any], ...]

    def __call__(self, random_state: int) -> Dataset:
        return load_dataset(self.name, random_state=random_state, **dict(self.options))


def list_datasets() -> tuple[str, ...]:
    """Return the names :func:`load_dataset` knows.

    Examples
    --------
    >>> list_datasets()
    ('digits', 'mnist', 'fashion_mnist', 'adult', 'diabetes130', ..., 'spambase', 'svhn', 'cifar10')
    """
    return tuple(SOURCES)


def check_dataset(name: str, value: Any, *, remedy: str) -> str:
    """Return the name of a data set as this package writes it; refuse one that it does not know."""
    key = value.replace("-", "_").lower().replace("cifar_10", "cifar10") if isinstance(value, str) else value
    return check_choice(name, key, SOURCES, remedy=remedy)


def load_dataset(
    name: str,
    *,
    protocol: str = "standard",
    data_home: str | os.PathLike[str] | None = None,
    random_state: int | None = 0,
    download: bool = True,
    n_public: int | None = None,
    n_private: int | None = None,
) -> Dataset:
    """Load a data set by name and cut it into private, public and test rows.

    Parameters
    ----------
    name : str
        One of :func:`list_datasets`; ``fashion-mnist``, ``cifar-10`` are understood too.
    protocol : {"standard", "paper"}
        ``standard``: private and public rows are cut at random from the training set (public: 15% unless ``n_public``
        says otherwise), and test is the whole test set. ``paper``, as in the PATE papers: private is the whole
        training set, public the first 9,000 test rows in their published order (the first 90% of a test set of
        fewer than 10,000 rows), test the remaining test rows. Where no test set was published (digits, spambase,
        diabetes130), a random 20% stands for it in both.
    data_home : path or None
        Folder of the files; None takes the environment variable ``PATE_DATA_HOME``, else the platform's cache folder.
    random_state : int or None
        Seed of the cuts; None draws from the operating system.
    download : bool
        Whether a missing file may be fetched from its canonical source into the folder.
    n_public : int or None
        How many public rows. ``paper`` takes the first ones.
    n_private : int or None
        Keep only so many private rows, chosen at random.

    Returns
    -------
    Dataset

    Raises
    ------
    DatasetNotFoundError
        The file is absent and was not downloaded; the text names it, the folder, the variable and the URL.
    InvalidInputError
        An unknown name, a damaged file, or more rows asked for than there are.

    Notes
    -----
    **Guarantees.** Private, public and test rows are disjoint. In ``diabetes130``, where a patient has several rows,
    they are disjoint by *patient*, and ``private.groups`` says whose row each is. The cuts look at the number of rows
    and at whose they are, never at features or labels.

    Examples
    --------
    >>> d = load_dataset("digits", n_public=100, n_private=1000)
    >>> d.private.X.shape, d.private.X.dtype, d.public, d.test
    ((1000, 64), dtype('float32'), PublicRows(n=100), HeldOutRows(n=359))
    """
    source = SOURCES[check_dataset("name", name, remedy="For your own files use pate.data.read_table.")]
    check_choice("protocol", protocol, ["standard", "paper"])
    for label, value in (("n_public", n_public), ("n_private", n_private)):
        if value is not None:
            check_int(label, value, low=1)
    folder = data_folder(data_home)
    raw = source.build([load_file(f, dataset=source.name, folder=folder, download=download) for f in source.files])
    rng = np.random.default_rng(training_seed(random_state, *SEED_PATH))
    train, test = _train_and_test(raw, rng)
    cut = _cut_paper if protocol == "paper" else _cut_standard
    private, public, test, text = cut(raw, train, test, n_public, n_private)
    if raw.n_train is None:
        text += f" (No test set was published: a random {_TEST_SHARE:.0%} stands for it.)"
    if raw.groups is not None:
        text += " The three share no person."
    options = {"protocol": protocol, "data_home": data_home, "n_public": n_public, "n_private": n_private}
    fixed = protocol == "paper" and n_private is None
    redraws = "all rows" if raw.n_train is None else "nothing" if fixed else "training rows"
    again = _Named(source.name, tuple({**options, "download": download}.items()))
    n_pool = len(raw.y) if raw.n_train is None else raw.n_train
    return Dataset(
        name=source.name,
        protocol=protocol,
        kind=source.kind,
        classes=source.classes,
        image_shape=source.image_shape,
        description=f"{source.title}. Protocol {protocol}: {text}",
        private=PrivateRows(
            _features(raw, private), raw.y[private], None if raw.groups is None else raw.groups[private]
        ),
        public=PublicRows(_features(raw, public), raw.y[public]),
        test=HeldOutRows(_features(raw, test), raw.y[test], None if raw.groups is None else raw.groups[test]),
    ).with_draw(Draw(again, redraws, published=True, n_pool=n_pool))


def _features(raw: Raw, rows: IndexArray) -> Any:
    if hasattr(raw.X, "iloc"):
        return raw.X.iloc[rows].reset_index(drop=True)
    X = np.take(raw.X, rows, axis=0).astype(np.float32)
    if raw.scale is not None:
        X /= np.float32(raw.scale)
    return X


def _random_order(raw: Raw, n: int, rng: np.random.Generator) -> IndexArray:
    """Return the first ``n`` rows in random order; rows of a group stand together, groups in random order."""
    if raw.groups is None:
        return rng.permutation(n)
    unit = np.unique(raw.groups[:n], return_inverse=True)[1]
    return np.argsort(rng.permutation(unit.max() + 1)[unit], kind="stable")


def _whole_groups(raw: Raw, order: IndexArray, n: int) -> int:
    """Return the smallest number >= ``n`` of leading rows that splits no group."""
    if raw.groups is not None:
        while 0 < n < len(order) and raw.groups[order[n]] == raw.groups[order[n - 1]]:
            n += 1
    return n


def _train_and_test(raw: Raw, rng: np.random.Generator) -> tuple[IndexArray, IndexArray]:
    """Return the training rows in random order, and the test rows (in published order where there is one)."""
    n = len(raw.y)
    if raw.n_train is not None:
        return _random_order(raw, raw.n_train, rng), np.arange(raw.n_train, n)
    order = _random_order(raw, n, rng)
    end = _whole_groups(raw, order, round(_TEST_SHARE * n))
    return order[end:], order[:end]


def _cut_standard(
    raw: Raw, train: IndexArray, test: IndexArray, n_public: int | None, n_private: int | None
) -> tuple[IndexArray, IndexArray, IndexArray, str]:
    size = round(_PUBLIC_SHARE * len(train)) if n_public is None else n_public
    end = _whole_groups(raw, train, size)
    left = len(train) - end
    if left < (n_private or 1):
        raise InvalidInputError(
            f"n_public={size} and n_private={n_private or 'the rest'} do not fit into the {len(train)} training rows. "
            "Lower one of them."
        )
    # Public from the front, private from the back: asking for fewer of one leaves the other as it was.
    private = train[len(train) - (n_private or left) :]
    text = (
        f"private = {len(private):,} and public = {size:,} other rows cut at random from the training set of "
        f"{len(train):,}, test = the whole test set of {len(test):,}."
    )
    return private, train[:size], test, text


def _cut_paper(
    raw: Raw, train: IndexArray, test: IndexArray, n_public: int | None, n_private: int | None
) -> tuple[IndexArray, IndexArray, IndexArray, str]:
    size = min(_PAPER_PUBLIC, round(_PAPER_SHARE * len(test)))
    if n_public is not None and n_public > size:
        raise InvalidInputError(
            f"n_public must be at most {size} in the paper protocol of this data set, got {n_public}. "
            "Ask for fewer, or use protocol='standard'."
        )
    if n_private is not None and n_private > len(train):
        raise InvalidInputError(
            f"n_private must be at most the number of training rows ({len(train)}), got {n_private}. Ask for fewer."
        )
    # Published order, as the papers' teachers saw it, unless fewer rows are wanted.
    private = np.sort(train) if n_private is None else train[len(train) - n_private :]
    held_out = test[_whole_groups(raw, test, size) :]
    public = test[: size if n_public is None else n_public]
    text = (
        f"private = {len(private):,} of the {len(train):,} training rows, public = the first {len(public):,} test "
        f"rows, test = the last {len(held_out):,} of {len(test):,} test rows."
    )
    return private, public, held_out, text
