"""Named data sets, cut into a private, a public and a test part, and published votes."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pate._core.checks import check_bounds, check_choice, check_int
from pate._core.secret import training_seed
from pate._core.types import IndexArray
from pate.data._files.tables import read_table
from pate.data._named._fetch import (
    ADULT_CLASSES,
    DIABETES_CLASSES,
    Content,
    Raw,
    StoredFile,
    adult_rows,
    cifar10_rows,
    data_folder,
    diabetes_contents,
    diabetes_rows,
    digits_rows,
    idx_contents,
    load_file,
    spambase_contents,
    spambase_rows,
    svhn_rows,
    text_contents,
    train_test_contents,
    train_test_rows,
)
from pate.data._named.dataset import SEED_PATH, Dataset, Draw, HeldOutRows, PrivateRows, PublicRows
from pate.exceptions import InvalidInputError

# The named data sets: what each is, its files and where those come from.

_UCI = "https://archive.ics.uci.edu"
_UCI_OLD = f"{_UCI}/ml/machine-learning-databases"
_SVHN = "http://ufldl.stanford.edu/housenumbers"
_MNIST = ("https://storage.googleapis.com/cvdf-datasets/mnist", "https://ossci-datasets.s3.amazonaws.com/mnist")
_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
_DIGITS = tuple(range(10))
_THINGS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_CLOTHES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
_IDX_NAMES = tuple(f"{part}-{what}-ubyte.gz" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1"))

#: SHA-256 of what each file holds. Of SVHN and CIFAR-10 it is that of the file as published, whose MD5 torchvision
#: (e26dedcc434d2e4c54c9b2d4a06d8373, eb5a983be6a315427106f1b164d9cef3) and CIFAR-10's page
#: (c32a1d4ab5d03f1284b67883e8d87530, its binary version without pickle) give.
_SHA256 = {
    "mnist.npz": "8fc8fc4f0343f34ece1fcfdfb65f0801fac48030ce7c70e62bbb62f64ee2e65b",
    "fashion_mnist.npz": "37e5852d33933792bfddacf387e185c9c3d87fa20c45417517512181f092a44a",
    "adult.data.gz": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test.gz": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    "diabetes130.npz": "d39dbdc99aa5a9b80fb570e0177a249c97ce90b8a8936d14dca846ee7371c9bd",
    "optdigits.npz": "e88278db6c56ddf0774d5b3402406d6bf2f02c8c57a36b11caf2d63a19e7c107",
    "pendigits.npz": "ddbdd647c737dbecf235bc266657cb9473515c8ff0df59e2b2da139cfcfdd517",
    "spambase.npz": "d75300ecaffc558991feb08033e5c656ea6ec0e4071521384cd382e30e79a1fd",
    "train_32x32.mat": "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
    "test_32x32.mat": "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
    "cifar-10-binary.tar.gz": "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
}

Origin = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Source:
    """A data set by name: what it is, its files and how to read them; images have a shape, tables have none."""

    name: str
    title: str
    classes: tuple[Any, ...]
    files: tuple[StoredFile, ...]
    build: Callable[[Sequence[Content]], Raw]
    image_shape: tuple[int, ...] | None = None

    @property
    def kind(self) -> str:
        """``"image"`` or ``"table"``."""
        return "table" if self.image_shape is None else "image"


def _mirror(base: str, *names: str) -> Origin:
    return tuple((f"{base}/{name}", name) for name in names)


def _archive(url: str, *members: str) -> Origin:
    return tuple((url, member) for member in members)


def _uci(folder: str, archive: str, *members: str) -> tuple[Origin, Origin]:
    """Return where UCI has some files: one by one at its old place, in an archive at its new one."""
    return _mirror(f"{_UCI_OLD}/{folder}", *members), _archive(f"{_UCI}/static/public/{archive}.zip", *members)


def _made(name: str, convert: Callable[[Sequence[bytes]], Content], *origins: Origin) -> StoredFile:
    return StoredFile(name, _SHA256[name], origins, convert)


def _digits(name: str, archive: str) -> tuple[StoredFile]:
    return (_made(f"{name}.npz", train_test_contents, *_uci(name, archive, f"{name}.tra", f"{name}.tes")),)


def _as_published(base: str, name: str) -> StoredFile:
    return StoredFile(name, _SHA256[name], (_mirror(base, name),), text_contents, as_is=True)


_ADULT = tuple(_made(f"{n}.gz", text_contents, *_uci("adult", "2/adult", n)) for n in ("adult.data", "adult.test"))
_HOSPITALS = (
    _archive(f"{_UCI}/static/public/296/diabetes+130-us+hospitals+for+years+1999-2008.zip", "diabetic_data.csv"),
    _archive(f"{_UCI_OLD}/00296/dataset_diabetes.zip", "diabetic_data.csv"),
)
_MNIST_FILE = _made("mnist.npz", idx_contents, *(_mirror(base, *_IDX_NAMES) for base in _MNIST))
_FASHION_FILE = _made("fashion_mnist.npz", idx_contents, _mirror(_FASHION, *_IDX_NAMES))
_SPAMBASE_FILE = _made("spambase.npz", spambase_contents, *_uci("spambase", "94/spambase", "spambase.data"))
_OPTDIGITS = _digits("optdigits", "80/optical+recognition+of+handwritten+digits")
_PENDIGITS = _digits("pendigits", "81/pen+based+recognition+of+handwritten+digits")
_SVHN_FILES = tuple(_as_published(_SVHN, f"{part}_32x32.mat") for part in ("train", "test"))
_CIFAR_FILE = _as_published("https://www.cs.toronto.edu/~kriz", "cifar-10-binary.tar.gz")
_STAYS_FILE = _made("diabetes130.npz", diabetes_contents, *_HOSPITALS)
_FASHION_TITLE = "Fashion-MNIST articles of clothing, 28 x 28"
_STAYS_TITLE = "UCI Diabetes 130-US hospitals: readmission, several stays a patient"
_SPAM = ("not spam", "spam")
_ALL = (
    Source("digits", "handwritten digits, 8 x 8 (bundled with scikit-learn)", _DIGITS, (), digits_rows, (8, 8)),
    Source("mnist", "MNIST handwritten digits, 28 x 28", _DIGITS, (_MNIST_FILE,), train_test_rows(255.0), (28, 28)),
    Source("fashion_mnist", _FASHION_TITLE, _CLOTHES, (_FASHION_FILE,), train_test_rows(255.0), (28, 28)),
    Source("adult", "UCI Adult: income above 50K a year, from a census", ADULT_CLASSES, _ADULT, adult_rows),
    Source("diabetes130", _STAYS_TITLE, DIABETES_CLASSES, (_STAYS_FILE,), diabetes_rows),
    Source("optdigits", "UCI optical digits, 8 x 8", _DIGITS, _OPTDIGITS, train_test_rows(16.0), (8, 8)),
    Source("pendigits", "UCI pen digits: eight pen positions a digit", _DIGITS, _PENDIGITS, train_test_rows(None)),
    Source("spambase", "UCI Spambase: word frequencies of e-mail", _SPAM, (_SPAMBASE_FILE,), spambase_rows),
    Source(
        "svhn", "SVHN house numbers, cropped digits in colour, 32 x 32", _DIGITS, _SVHN_FILES, svhn_rows, (3, 32, 32)
    ),
    Source("cifar10", "CIFAR-10 photographs in colour, 32 x 32", _THINGS, (_CIFAR_FILE,), cifar10_rows, (3, 32, 32)),
)
#: The named data sets, by name.
SOURCES: dict[str, Source] = {source.name: source for source in _ALL}


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
    """Return the names that :func:`load_dataset` knows.

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
    target: str | None = None,
    target_range: Any = None,
) -> Dataset:
    """Load a data set by name and cut it into private, public and test rows.

    Parameters
    ----------
    name : str
        A name of :func:`list_datasets`; ``fashion-mnist`` and ``cifar-10`` are understood too. With ``target`` it may
        also be a table of your own, a path as :func:`pate.data.read_table` takes it. It is cut at random, and
        differently with another seed: use it only for data that need no privacy (:meth:`Dataset.pooled`).
    protocol : {"standard", "paper"}
        ``standard``: private and public rows are cut at random from the training set (public: 15% unless ``n_public``
        says otherwise), and test is the whole test set. ``paper``, as in the PATE papers: private is the whole
        training set, public the first 9,000 test rows in their published order (the first 90% of a test set of
        fewer than 10,000 rows), test the remaining test rows. Where no test set was published (digits, spambase,
        diabetes130), a random 20% stands for it in both.
    data_home : path or None
        Folder of the files; None takes the environment variable ``PATE_DATA_HOME``, else the platform's cache folder.
    random_state : int or None
        Seed of the random cuts; None draws it from the operating system.
    download : bool
        Whether a missing file may be fetched from its canonical source into the folder.
    n_public : int or None
        How many public rows. ``paper`` takes the first ones.
    n_private : int or None
        Keep only so many private rows, chosen at random.
    target : str or None
        A numeric column to predict in place of the classes; the classes become the column ``label``.
    target_range : (float, float) or None
        The least and the largest value of the target, from public knowledge; needed with ``target``.

    Returns
    -------
    Dataset

    Raises
    ------
    DatasetNotFoundError
        The file is absent and was not downloaded; the text names it, the folder, the variable and the URL.
    InvalidInputError
        An unknown name, a damaged file, or more rows asked for than there are; a target without a range, one that is no
        column of numbers, or one with cells that are none.

    Notes
    -----
    **Guarantees.** Private, public and test rows are disjoint. In ``diabetes130``, where a patient has several rows,
    they are disjoint by *patient*, and ``private.groups`` holds the owner of each. The cuts use the number of rows
    and their owners, never features or labels.

    **Sets.** Rows of a published training and test set, and what a row is:

    - ``digits``: 1,797; 8 x 8 pixels; scikit-learn has it
    - ``mnist``, ``fashion_mnist``: 60,000 + 10,000; 28 x 28 pixels
    - ``svhn``: 73,257 + 26,032, ``cifar10``: 50,000 + 10,000; 3 x 32 x 32 pixels
    - ``optdigits``: 3,823 + 1,797; 8 x 8 pixels. ``pendigits``: 7,494 + 3,498; 16 numbers
    - ``adult``: 32,561 + 16,281; 6 numbers, 8 categories; 2 classes
    - ``diabetes130``: 101,766 of 71,518 patients; 8 numbers, 39 categories; 3 classes
    - ``spambase``: 4,601; 57 numbers; 2 classes

    Images come flattened, as float32 in [0, 1], row by row, in colour the red plane first; tables with categories as a
    DataFrame, the others as float32 arrays. Labels are indices into ``classes``.

    Examples
    --------
    >>> d = load_dataset("digits", n_public=100, n_private=1000)
    >>> d.private.X.shape, d.private.X.dtype, d.public, d.test
    ((1000, 64), dtype('float32'), PublicRows(n=100), HeldOutRows(n=359))
    """
    bounds = check_numeric(target, target_range)
    source = _source(name, target)
    check_choice("protocol", protocol, ["standard", "paper"])
    for label, value in (("n_public", n_public), ("n_private", n_private)):
        if value is not None:
            check_int(label, value, low=1)
    folder = data_folder(data_home)
    raw = source.build([load_file(f, dataset=source.name, folder=folder, download=download) for f in source.files])
    raw = raw if target is None else _numbers(raw, source, target)
    rng = np.random.default_rng(training_seed(random_state, *SEED_PATH))
    train, test = _train_and_test(raw, rng)
    cut = _cut_paper if protocol == "paper" else _cut_standard
    private, public, test, text = cut(raw, train, test, n_public, n_private)
    if raw.n_train is None:
        text += f" (No test set was published: a random {_TEST_SHARE:.0%} stands for it.)"
    if raw.groups is not None:
        text += " The three share no person."
    if target is not None:
        text += f" The target is the number {target!r}" + (", and the class is a column." if source.classes else ".")
    options: dict[str, Any] = {
        "protocol": protocol,
        "data_home": data_home,
        "n_public": n_public,
        "n_private": n_private,
    }
    options |= {} if target is None else {"target": target, "target_range": bounds}
    fixed = protocol == "paper" and n_private is None
    redraws = "all rows" if raw.n_train is None else "nothing" if fixed else "training rows"
    again = _Named(name, tuple({**options, "download": download}.items()))
    n_pool = len(raw.y) if raw.n_train is None else raw.n_train
    return Dataset(
        name=source.name if target is None else f"{source.name} ({target})",
        protocol=protocol,
        kind=source.kind,
        classes=source.classes if target is None else (),
        image_shape=source.image_shape,
        description=f"{source.title}. Protocol {protocol}: {text}",
        private=PrivateRows(
            _features(raw, private), raw.y[private], None if raw.groups is None else raw.groups[private]
        ),
        public=PublicRows(_features(raw, public), raw.y[public]),
        test=HeldOutRows(_features(raw, test), raw.y[test], None if raw.groups is None else raw.groups[test]),
        target_range=bounds,
    ).with_draw(Draw(again, redraws, published=source.name in SOURCES, n_pool=n_pool))


def check_numeric(target: str | None, target_range: Any) -> tuple[float, float] | None:
    """Return the range of a numeric target; None where there is none, and classes are predicted."""
    if target is None and target_range is not None:
        raise InvalidInputError(
            "target must name the column of numbers that target_range is of, got None. Leave the range out for classes."
        )
    if target is not None and target_range is None:
        raise InvalidInputError(
            f"target_range must be said beside target={target!r}, got None: two numbers that it lies between, from "
            "public knowledge, such as 0,5000."
        )
    return None if target is None else check_bounds(target_range)


def own_table(name: Any) -> bool:
    """Whether a name is a path of a table, not that of a data set."""
    return isinstance(name, os.PathLike) or (isinstance(name, str) and (":" in name or bool(Path(name).suffix)))


def _source(name: Any, target: str | None) -> Source:
    """Return the named data set, or one that is a table of one's own."""
    if target is not None and own_table(name):
        stem = Path(str(name).partition("?")[0]).name
        return Source(stem, f"The table {stem}", (), (), lambda _: _own_rows(name))
    return SOURCES[check_dataset("name", name, remedy="For your own files use pate.data.read_table.")]


def _own_rows(path: Any) -> Raw:
    X = read_table(path).X
    return Raw(X, np.zeros(len(X)))


def _numbers(raw: Raw, source: Source, target: str) -> Raw:
    """Return the rows with a column of numbers as their target; the class becomes a column."""
    columns = list(getattr(raw.X, "columns", ()))
    numeric = [name for name in columns if raw.X[name].dtype.kind in "fiu"]
    if target not in numeric:
        has = ", ".join(map(repr, numeric[:20])) or "none"
        kind = "a column of text" if target in columns else "no column of it"
        raise InvalidInputError(
            f"target must be a column of numbers of {source.name} ({has}), got {target!r}, {kind}. Clean its cells, or "
            "name another."
        )
    X = raw.X.copy()
    y = X.pop(target).to_numpy(dtype=np.float64)
    if not np.isfinite(y).all():
        n_without = int((~np.isfinite(y)).sum())
        raise InvalidInputError(
            f"target {target!r} must have a number in every row, and {n_without:,} of {len(y):,} have "
            "none: such a row cannot be tested. Leave those rows out of the table."
        )
    if source.classes:
        X["label"] = np.array(source.classes, dtype=object)[raw.y]
        X["label"] = X["label"].astype("category")
    return replace(raw, X=X, y=y)


def _features(raw: Raw, rows: IndexArray) -> Any:
    if hasattr(raw.X, "iloc"):
        return raw.X.iloc[rows].reset_index(drop=True)
    X = np.take(raw.X, rows, axis=0).astype(np.float32)
    if raw.scale is not None:
        X /= np.float32(raw.scale)
    return X


def _random_order(raw: Raw, n: int, rng: np.random.Generator) -> IndexArray:
    """Return the first ``n`` rows in random order; rows of a group are adjacent, groups in random order."""
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


# Published votes of a paper's teachers, by name: what its figures can be computed from again.

_PAPERNOT = "https://github.com/npapernot/multiple-teachers-for-privacy/raw/master"
_MNIST_PARTS = (
    "mnist_250_teachers_labels.npy",
    "mnist_250_student_labels_lap_20.npy",
    "mnist_250_teachers_100_indices_used_by_student.npy",
)


@dataclass(frozen=True, eq=False, repr=False)
class PublishedVotes:
    """Votes of teachers that were published with a paper, and are therefore public.

    Attributes
    ----------
    name, description : str
    counts : int64 array of shape (n_queries, n_classes)
        How many teachers voted for each class: what :meth:`pate.Votes.from_counts` takes.
    student_labels : int64 array of shape (n_queries,)
        The labels that were released, by noise of the paper's.
    student_indices : int64 array
        The queries that the paper's student asked.

    Examples
    --------
    >>> PublishedVotes(
    ...     "made up", "two queries", np.eye(2, dtype=int), np.arange(2), np.arange(1)
    ... )
    PublishedVotes('made up', n_queries=2, n_classes=2, n_teachers=1)
    """

    name: str
    description: str
    counts: npt.NDArray[np.int64]
    student_labels: npt.NDArray[np.int64]
    student_indices: npt.NDArray[np.int64]

    def __repr__(self) -> str:
        n_queries, n_classes = self.counts.shape
        n_teachers = int(self.counts[:1].sum())
        return f"PublishedVotes({self.name!r}, n_queries={n_queries}, n_classes={n_classes}, n_teachers={n_teachers})"


def published_contents(parts: Sequence[bytes]) -> Content:
    """Count the teachers' labels of the published files; nothing is unpickled."""
    labels, released, indices = (np.load(io.BytesIO(part), allow_pickle=False) for part in parts)
    counts = np.stack([(labels == c).sum(axis=0) for c in range(10)], axis=1)
    return {
        "counts": counts.astype(np.uint8),
        "lap20_labels": released.astype(np.int16),
        "student_indices": indices.astype(np.int16),
    }


#: Votes by name: what they are, and their file.
_VOTES = {
    "papernot_mnist": (
        "250 teachers of Papernot et al. (2017, 2018) on the first 9,000 test images of MNIST, the labels of Lap(20), "
        "and the 100 queries of the 2017 student",
        StoredFile(
            "pate2018_mnist_votes.npz",
            "563afd7efd314f9e3c454adf91189a9bfa455e4886922a688284c7af5e9d7dd5",
            (tuple((f"{_PAPERNOT}/{name}", name) for name in _MNIST_PARTS),),
            published_contents,
        ),
    )
}


def list_votes() -> tuple[str, ...]:
    """Return the names that :func:`load_votes` knows.

    Examples
    --------
    >>> list_votes()
    ('papernot_mnist',)
    """
    return tuple(_VOTES)


def load_votes(name: str, *, data_home: str | os.PathLike[str] | None = None, download: bool = True) -> PublishedVotes:
    """Load the votes of teachers that were published with a paper; the file's SHA-256 is checked.

    Parameters
    ----------
    name : str
        One of :func:`list_votes`.
    data_home : path or None
        Folder of the files, as in :func:`pate.load_dataset`.
    download : bool
        Whether a missing file may be fetched from where the authors published it.

    Returns
    -------
    PublishedVotes

    Raises
    ------
    DatasetNotFoundError
        The file is absent and was not downloaded; the text names it, the folder and the address.
    InvalidInputError
        An unknown name, or a file that holds something else.

    Examples
    --------
    >>> load_votes("mnist")
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: name must be one of 'papernot_mnist', got 'mnist'...
    """
    description, stored = _VOTES[check_choice("name", name, _VOTES)]
    found = load_file(stored, dataset=name, folder=data_folder(data_home), download=download)
    return PublishedVotes(
        name,
        description,
        found["counts"].astype(np.int64),
        found["lap20_labels"].astype(np.int64),
        found["student_indices"].astype(np.int64),
    )
