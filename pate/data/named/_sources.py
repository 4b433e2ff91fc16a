"""The named data sets: what each is, its files and where those come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pate.data.named._fetch import Content, StoredFile
from pate.data.named._formats import (
    ADULT_CLASSES,
    DIABETES_CLASSES,
    Raw,
    adult_rows,
    cifar10_rows,
    diabetes_contents,
    diabetes_rows,
    digits_rows,
    idx_contents,
    spambase_contents,
    spambase_rows,
    svhn_rows,
    text_contents,
    train_test_contents,
    train_test_rows,
)

_UCI = "https://archive.ics.uci.edu"
_UCI_OLD = f"{_UCI}/ml/machine-learning-databases"
_SVHN = "http://ufldl.stanford.edu/housenumbers"
_DIGIT_CLASSES = tuple(range(10))
_CIFAR_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_FASHION_CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


@dataclass(frozen=True)
class Source:
    """A data set by name: what it is, its files and how to read them."""

    name: str
    title: str
    kind: str
    classes: tuple[Any, ...]
    files: tuple[StoredFile, ...]
    build: Callable[[Sequence[Content]], Raw]
    image_shape: tuple[int, ...] | None = None


_IDX_NAMES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)


def _mirror(base: str, *names: str) -> tuple[tuple[str, str], ...]:
    return tuple((f"{base}/{name}", name) for name in names)


def _archive(url: str, *members: str) -> tuple[tuple[str, str], ...]:
    return tuple((url, member) for member in members)


def _digit_file(
    name: str, sha256: str, number: int, slug: str
) -> tuple[StoredFile]:  # optdigits and pendigits look alike
    members = (f"{name}.tra", f"{name}.tes")
    origins = (
        _mirror(f"{_UCI_OLD}/{name}", *members),
        _archive(f"{_UCI}/static/public/{number}/{slug}.zip", *members),
    )
    return (StoredFile(f"{name}.npz", sha256, origins, train_test_contents),)


def _adult_file(member: str, sha256: str) -> StoredFile:
    origins = (
        _mirror(f"{_UCI_OLD}/adult", member),
        _archive(f"{_UCI}/static/public/2/adult.zip", member),
    )
    return StoredFile(f"{member}.gz", sha256, origins, text_contents)


def _file_as_it_is(base: str, name: str, sha256: str) -> StoredFile:
    """Return a file that is kept as published: the digest is of the file, and nothing is converted."""
    return StoredFile(name, sha256, (_mirror(base, name),), text_contents, as_is=True)


#: The named data sets, by name.
SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        Source(
            "digits",
            "handwritten digits, 8 x 8 (bundled with scikit-learn)",
            "image",
            _DIGIT_CLASSES,
            (),
            digits_rows,
            (8, 8),
        ),
        Source(
            "mnist",
            "MNIST handwritten digits, 28 x 28",
            "image",
            _DIGIT_CLASSES,
            (
                StoredFile(
                    "mnist.npz",
                    "8fc8fc4f0343f34ece1fcfdfb65f0801fac48030ce7c70e62bbb62f64ee2e65b",
                    (
                        _mirror("https://storage.googleapis.com/cvdf-datasets/mnist", *_IDX_NAMES),
                        _mirror("https://ossci-datasets.s3.amazonaws.com/mnist", *_IDX_NAMES),
                    ),
                    idx_contents,
                ),
            ),
            train_test_rows(255.0),
            (28, 28),
        ),
        Source(
            "fashion_mnist",
            "Fashion-MNIST articles of clothing, 28 x 28",
            "image",
            _FASHION_CLASSES,
            (
                StoredFile(
                    "fashion_mnist.npz",
                    "37e5852d33933792bfddacf387e185c9c3d87fa20c45417517512181f092a44a",
                    (_mirror("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com", *_IDX_NAMES),),
                    idx_contents,
                ),
            ),
            train_test_rows(255.0),
            (28, 28),
        ),
        Source(
            "adult",
            "UCI Adult: income above 50K a year, from a census",
            "table",
            ADULT_CLASSES,
            (
                _adult_file("adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),
                _adult_file("adult.test", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"),
            ),
            adult_rows,
        ),
        Source(
            "diabetes130",
            "UCI Diabetes 130-US hospitals: readmission, several stays a patient",
            "table",
            DIABETES_CLASSES,
            (
                StoredFile(
                    "diabetes130.npz",
                    "d39dbdc99aa5a9b80fb570e0177a249c97ce90b8a8936d14dca846ee7371c9bd",
                    (
                        _archive(
                            f"{_UCI}/static/public/296/diabetes+130-us+hospitals+for+years+1999-2008.zip",
                            "diabetic_data.csv",
                        ),
                        _archive(f"{_UCI_OLD}/00296/dataset_diabetes.zip", "diabetic_data.csv"),
                    ),
                    diabetes_contents,
                ),
            ),
            diabetes_rows,
        ),
        Source(
            "optdigits",
            "UCI optical digits, 8 x 8",
            "image",
            _DIGIT_CLASSES,
            _digit_file(
                "optdigits",
                "e88278db6c56ddf0774d5b3402406d6bf2f02c8c57a36b11caf2d63a19e7c107",
                80,
                "optical+recognition+of+handwritten+digits",
            ),
            train_test_rows(16.0),
            (8, 8),
        ),
        Source(
            "pendigits",
            "UCI pen digits: eight pen positions a digit",
            "table",
            _DIGIT_CLASSES,
            _digit_file(
                "pendigits",
                "ddbdd647c737dbecf235bc266657cb9473515c8ff0df59e2b2da139cfcfdd517",
                81,
                "pen+based+recognition+of+handwritten+digits",
            ),
            train_test_rows(None),
        ),
        Source(
            "spambase",
            "UCI Spambase: word frequencies of e-mail",
            "table",
            ("not spam", "spam"),
            (
                StoredFile(
                    "spambase.npz",
                    "d75300ecaffc558991feb08033e5c656ea6ec0e4071521384cd382e30e79a1fd",
                    (
                        _mirror(f"{_UCI_OLD}/spambase", "spambase.data"),
                        _archive(f"{_UCI}/static/public/94/spambase.zip", "spambase.data"),
                    ),
                    spambase_contents,
                ),
            ),
            spambase_rows,
        ),
        Source(
            "svhn",
            "SVHN house numbers, cropped digits in colour, 32 x 32",
            "image",
            _DIGIT_CLASSES,
            # The files whose MD5 torchvision has: e26dedcc434d2e4c54c9b2d4a06d8373, eb5a983be6a315427106f1b164d9cef3.
            (
                _file_as_it_is(
                    _SVHN, "train_32x32.mat", "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8"
                ),
                _file_as_it_is(
                    _SVHN, "test_32x32.mat", "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b"
                ),
            ),
            svhn_rows,
            (3, 32, 32),
        ),
        Source(
            "cifar10",
            "CIFAR-10 photographs in colour, 32 x 32",
            "image",
            _CIFAR_CLASSES,
            # The binary version (no pickle), whose MD5 its page gives: c32a1d4ab5d03f1284b67883e8d87530.
            (
                _file_as_it_is(
                    "https://www.cs.toronto.edu/~kriz",
                    "cifar-10-binary.tar.gz",
                    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                ),
            ),
            cifar10_rows,
            (3, 32, 32),
        ),
    )
}
