"""Votes that papers published: by name, checked, and as accounting takes them."""

from __future__ import annotations

import io

import numpy as np
import pytest

from pate import Votes
from pate.data import list_votes, load_votes
from pate.data._named import _fetch, datasets
from pate.exceptions import DatasetNotFoundError, InvalidInputError


def test_the_papers_mnist_votes(data_home, mnist2018_counts):
    found = load_votes("papernot_mnist", data_home=data_home, download=False)
    np.testing.assert_array_equal(found.counts, mnist2018_counts)
    assert (found.counts.sum(axis=1) == 250).all()
    assert Votes.from_counts(found.counts).n_teachers == 250
    assert found.student_labels.shape == (9000,)
    assert len(set(found.student_indices.tolist())) == 100
    # Released by noise, but mostly the plurality's.
    assert 0.9 < (found.student_labels == found.counts.argmax(axis=1)).mean() < 1


def test_without_the_file_the_address_is_given(tmp_path):
    with pytest.raises(DatasetNotFoundError, match="npapernot/multiple-teachers-for-privacy"):
        load_votes("papernot_mnist", data_home=tmp_path, download=False)


def test_other_contents_are_refused(tmp_path):
    np.savez(tmp_path / "pate2018_mnist_votes.npz", counts=np.eye(2, dtype=np.uint8))
    with pytest.raises(InvalidInputError, match="SHA-256 differs"):
        load_votes("papernot_mnist", data_home=tmp_path, download=False)


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(InvalidInputError, match=list_votes()[0]):
        load_votes("papernot_svhn")


def npy(array, **kwargs):
    file = io.BytesIO()
    np.save(file, array, **kwargs)
    return file.getvalue()


def test_what_is_downloaded_is_counted_and_never_unpickled(monkeypatch, tmp_path):
    parts = {
        "mnist_250_teachers_labels.npy": npy(np.array([[1, 2], [1, 3]])),
        "mnist_250_student_labels_lap_20.npy": npy(np.array([1, 3])),
        "mnist_250_teachers_100_indices_used_by_student.npy": npy(np.array([0])),
    }
    monkeypatch.setattr(_fetch, "_download", lambda url, member, *, as_is: parts[member])
    # Counted, and then refused: these are not the published votes.
    with pytest.raises(DatasetNotFoundError, match="differs from the published data"):
        load_votes("papernot_mnist", data_home=tmp_path)
    assert datasets.published_contents(list(parts.values()))["counts"].tolist()[0] == [0, 2] + [0] * 8
    parts["mnist_250_teachers_labels.npy"] = npy(np.array([print], dtype=object), allow_pickle=True)
    with pytest.raises(DatasetNotFoundError, match="allow_pickle"):
        load_votes("papernot_mnist", data_home=tmp_path)
