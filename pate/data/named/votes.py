"""Published votes of a paper's teachers, by name: what its figures can be computed from again."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pate.core.checks import check_choice
from pate.data.named._fetch import Content, StoredFile, data_folder, load_file

_PAPERNOT = "https://github.com/npapernot/multiple-teachers-for-privacy/raw/master"
_MNIST_PARTS = (
    "mnist_250_teachers_labels.npy",
    "mnist_250_student_labels_lap_20.npy",
    "mnist_250_teachers_100_indices_used_by_student.npy",
)


@dataclass(frozen=True, eq=False, repr=False)
class PublishedVotes:
    """Votes that were published with a paper, and are nobody's secret any more.

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
    >>> PublishedVotes("made up", "two queries", np.eye(2, dtype=int), np.arange(2), np.arange(1))
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
    """Load the published votes of a paper's teachers, checked by their SHA-256.

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
