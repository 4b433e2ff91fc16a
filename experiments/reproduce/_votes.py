"""Votes that were published with the papers, but without a checksum: the curator of this folder puts them in place.

The archive :data:`ARCHIVE` (a tar.gz, named by download.py of the 2018 paper's code) holds svhn_250_teachers.npy and
adult_250_teachers.npy: counts of shape (n_queries, n_classes). Unpack them into the folder that PATE_DATA_HOME names.
"""

from __future__ import annotations

import numpy as np
from _table import NotRun

from pate.data._named._fetch import data_folder

N_TEACHERS = 250
ARCHIVE = "https://storage.googleapis.com/pate-votes/votes.gz"


def published_counts(name: str) -> np.ndarray:
    """Return counts of shape (n_queries, n_classes), checked to be counts of 250 teachers."""
    path = data_folder() / f"{name}.npy"
    if not path.is_file():
        raise NotRun(f"not run: put {path.name} of {ARCHIVE} into PATE_DATA_HOME")
    counts = np.load(path, allow_pickle=False)
    whole = counts.ndim == 2 and (counts >= 0).all() and (counts.sum(axis=1) == N_TEACHERS).all()
    if not whole or (counts != np.rint(counts)).any():
        raise NotRun(f"not run: {path.name} does not hold counts of {N_TEACHERS} teachers")
    return counts.astype(np.int64)
