"""SVHN and CIFAR-10 from small made-up files in their formats: read, checked, and taken by anyone who learns."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import pickle
import tarfile

import numpy as np
import pytest
from scipy.io import savemat
from sklearn.linear_model import LogisticRegression

from pate import Budget, DPSGDClassifier, GNMax, PATEClassifier, Queries, load_dataset, release_labels
from pate.comparison.studies.run import examples_of
from pate.data._named import _fetch, datasets
from pate.exceptions import DatasetNotFoundError, InvalidInputError
from pate.models.students import ImageStudent
from pate.networks import SmallCNN
from pate.representations.images import Scattering
from pate.teachers.torch import TorchTeacherEnsemble

N_TRAIN, N_TEST = 60, 30


def planes(n, seed):
    """Images (n, 3, 32, 32) whose class is seen: class c has c bright rows of its own colour channel."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 10
    X = rng.integers(0, 40, (n, 3, 32, 32), dtype=np.uint8)
    for image, label in zip(X, y, strict=True):
        image[label % 3, 3 * label : 3 * label + 3] = 250
    return X, y


def mat(X, y):
    file = io.BytesIO()
    savemat(file, {"X": X.transpose(2, 3, 1, 0), "y": np.where(y == 0, 10, y)[:, None].astype(np.uint8)})
    return file.getvalue()


def tar(members):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


def binary(X, y):
    return np.column_stack([y.astype(np.uint8), X.reshape(len(X), -1)]).tobytes()


def files_of(name):
    (X, y), (Xt, yt) = planes(N_TRAIN, 0), planes(N_TEST, 1)
    if name == "svhn":
        return {"train_32x32.mat": mat(X, y), "test_32x32.mat": mat(Xt, yt)}
    batches = {
        f"cifar-10-batches-bin/data_batch_{i + 1}.bin": binary(X[12 * i : 12 * i + 12], y[12 * i : 12 * i + 12])
        for i in range(5)
    }
    others = {"cifar-10-batches-bin/test_batch.bin": binary(Xt, yt), "cifar-10-batches-bin/readme.html": b"hello"}
    return {"cifar-10-binary.tar.gz": tar(batches | others)}


def place(monkeypatch, folder, name, files):
    """Put the files there, and let the data set know their digests."""
    source = datasets.SOURCES[name]
    known = tuple(dataclasses.replace(f, sha256=hashlib.sha256(files[f.name]).hexdigest()) for f in source.files)
    monkeypatch.setitem(datasets.SOURCES, name, dataclasses.replace(source, files=known))
    for file, data in files.items():
        (folder / file).write_bytes(data)


@pytest.mark.parametrize("name", ["svhn", "cifar10"])
def test_pixels_and_labels_come_out_as_they_went_in(name, monkeypatch, tmp_path):
    place(monkeypatch, tmp_path, name, files_of(name))
    d = load_dataset(name, protocol="paper", data_home=tmp_path, download=False)
    (X, y), (Xt, yt) = planes(N_TRAIN, 0), planes(N_TEST, 1)
    assert (d.image_shape, d.kind, len(d.classes)) == ((3, 32, 32), "image", 10)
    np.testing.assert_array_equal(np.rint(d.private.X.reshape(-1, 3, 32, 32) * 255), X)
    np.testing.assert_array_equal(d.private.y, y)
    seen = np.concatenate([d.public.X, d.test.X])
    np.testing.assert_array_equal(np.rint(seen * 255).reshape(-1, 3, 32, 32), Xt)
    np.testing.assert_array_equal(np.concatenate([d.public.y_for_evaluation, d.test.y]), yt)


def test_cifar_10_may_be_written_with_a_dash(monkeypatch, tmp_path):
    place(monkeypatch, tmp_path, "cifar10", files_of("cifar10"))
    assert load_dataset("CIFAR-10", data_home=tmp_path).name == "cifar10"


@pytest.mark.parametrize("name", ["svhn", "cifar10"])
def test_a_file_that_is_not_the_published_one_is_refused_before_it_is_read(name, monkeypatch, tmp_path):
    for file, data in files_of(name).items():
        (tmp_path / file).write_bytes(data)
    monkeypatch.setitem(
        datasets.SOURCES,
        name,
        dataclasses.replace(datasets.SOURCES[name], build=lambda contents: pytest.fail("it was read")),
    )
    with pytest.raises(InvalidInputError, match="SHA-256 differs"):
        load_dataset(name, data_home=tmp_path, download=False)


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"data_batch_1.bin": b"x" * 3073}, "lacks data_batch_2.bin"),
        ({"data_batch_1.bin": b"x" * 3000}, "records of 3073 bytes"),
        ({"data_batch_1.bin": b""}, "records of 3073 bytes"),
        ({"data_batch_1": pickle.dumps(print)}, "lacks data_batch_1.bin"),  # the Python version: never unpickled
    ],
)
def test_another_archive_is_refused(members, text, monkeypatch, tmp_path):
    place(monkeypatch, tmp_path, "cifar10", {"cifar-10-binary.tar.gz": tar(members)})
    with pytest.raises(InvalidInputError, match=text):
        load_dataset("cifar10", data_home=tmp_path)


def test_a_mat_of_other_shapes_is_refused(monkeypatch, tmp_path):
    files = files_of("svhn")
    X, y = planes(N_TRAIN, 0)
    place(monkeypatch, tmp_path, "svhn", files | {"train_32x32.mat": mat(X, y[:-1])})
    with pytest.raises(InvalidInputError, match=r"X of shape \(32, 32, 3, n\)"):
        load_dataset("svhn", data_home=tmp_path)


@pytest.mark.parametrize("right", [True, False])
def test_a_download_is_kept_as_it_came_if_it_is_the_published_one(right, monkeypatch, tmp_path):
    files = files_of("cifar10")
    place(monkeypatch, tmp_path, "cifar10", files)
    (file,) = files
    (tmp_path / file).unlink()
    asked = []

    def fetch(url, member, *, as_is):
        asked.append((url, member, as_is))
        return files[file] if right else files[file] + b"\0"

    monkeypatch.setattr(_fetch, "_download", fetch)
    if right:
        assert len(load_dataset("cifar10", data_home=tmp_path).test.y) == N_TEST
        assert (tmp_path / file).read_bytes() == files[file]
    else:
        with pytest.raises(DatasetNotFoundError, match="differs from the published data"):
            load_dataset("cifar10", data_home=tmp_path)
        assert list(tmp_path.iterdir()) == []
    assert asked == [(f"https://www.cs.toronto.edu/~kriz/{file}", file, True)]


@pytest.fixture
def colours(monkeypatch, tmp_path):
    place(monkeypatch, tmp_path, "svhn", files_of("svhn"))
    return load_dataset("svhn", data_home=tmp_path, n_public=20)


@pytest.mark.long
def test_teachers_release_and_student_take_colours(colours):
    d = colours
    teachers = TorchTeacherEnsemble(SmallCNN, 2, classes=range(10), epochs=1, device="cpu", random_state=0)
    votes = teachers.fit(d.private.X, d.private.y).vote(d.public.X)
    release = release_labels(votes, GNMax(sigma=1.0), budget=Budget(500.0, 1e-5))
    shown = examples_of(release, d, np.arange(20))
    assert {len(e.image) for e in shown} == {32}
    assert {len(line) for e in shown for line in e.image} == {32}
    student = ImageStudent(d.image_shape, epochs=1, batch_size=10, random_state=0, device="cpu")
    assert student.fit(d.public.X, release.labels).predict(d.test.X).shape == (N_TEST,)
    assert student.image_shape_ == (3, 32, 32)


@pytest.mark.long
@pytest.mark.parametrize(("module", "shape"), [("linear", (3072,)), (SmallCNN, (3, 32, 32))])
def test_dp_sgd_takes_colours_flat_and_as_images(colours, module, shape):
    d = colours
    clf = DPSGDClassifier(
        module, budget=Budget(8.0, 1e-2), classes=range(10), epochs=1, expected_batch_size=20, random_state=0
    )
    clf.fit(d.private.X.reshape(-1, *shape), d.private.y)
    assert clf.predict_proba(d.test.X.reshape(-1, *shape)).shape == (N_TEST, 10)


@pytest.mark.long
def test_representations_and_pate_take_colours(colours):
    d = colours
    # The mean over the image of each of 3 x 81 maps: colours are kept apart.
    seen = Scattering(image_shape=d.image_shape).fit(d.public.X)
    assert seen.image_shape_ == (3, 32, 32)
    grey = Scattering(image_shape=(32, 32)).fit(d.public.X[:, :1024])
    assert seen.transform(d.test.X[:2]).shape[1] == 3 * grey.transform(d.test.X[:2, :1024]).shape[1]
    clf = PATEClassifier(
        LogisticRegression(),
        budget=Budget(8.0, 1e-2),
        classes=range(10),
        n_teachers=2,
        queries=Queries(20, force=True),
        random_state=0,
    )
    images = d.private.X.reshape(-1, *d.image_shape), d.public.X.reshape(-1, *d.image_shape)
    clf.fit(images[0], d.private.y, X_public=images[1])
    assert clf.predict(d.test.X.reshape(-1, *d.image_shape)).shape == (N_TEST,)
