"""A process that may open hardly any file: a clear refusal or the whole work, nothing half charged, nothing lost."""

from __future__ import annotations

import os
import resource
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

import pate
from pate.exceptions import PateError

RNG = np.random.default_rng(0)
VOTES = replace(
    pate.Votes.from_labels(RNG.integers(0, 2, (60, 20)), classes=("a", "b"), n_units=600),
    query_hashes=tuple(f"{i:032x}" for i in range(20)),
)


@contextmanager
def only(n_free):
    """Leave so many files that may be opened besides those that are open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        held = [stack.enter_context(open(os.devnull, "rb")) for _ in range(40)]  # so that no lower number is free
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(one.fileno() for one in held) + 1 + n_free, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def outcome(work, n_free):
    with only(n_free):
        try:
            return work()
        except PateError as error:
            return str(error)


def released(path):
    budget = pate.Budget(20.0, 1e-5)
    return pate.release_labels(VOTES, pate.GNMax(sigma=20.0), budget=budget, ledger=pate.Ledger(path)).labels.tolist()


@pytest.mark.parametrize("n_free", range(5))
def test_a_release_is_refused_uncharged_or_charged_once_and_kept(tmp_path, n_free):
    released(tmp_path / "imports-all.sqlite")
    found, ledger = outcome(lambda: released(tmp_path / "l.sqlite"), n_free), pate.Ledger(tmp_path / "l.sqlite")
    if n_free < 3:  # file, key and journal
        assert "Nothing was charged" in found
        assert "open" in found
        assert not ledger.releases()
    again = released(tmp_path / "l.sqlite")
    assert n_free < 3 or found == again
    assert len(ledger.releases()) == 1
    assert ledger.verify().problems == ()


@pytest.mark.long
@pytest.mark.parametrize("n_free", range(3))
def test_teachers_are_refused_or_kept(tmp_path, n_free):
    X = RNG.normal(size=(60, 2))
    teachers = pate.TeacherEnsemble(GaussianNB(), 5, classes=(0, 1), random_state=0, checkpoint_dir=tmp_path / "kept")
    pate.TeacherEnsemble(GaussianNB(), 5, classes=(0, 1), checkpoint_dir=tmp_path / "imports").fit(X, X[:, 0] > 0)
    found = outcome(lambda: teachers.fit(X, X[:, 0] > 0), n_free)
    if n_free == 0:
        assert "checkpoint_dir must be a folder that can be made and written to" in found
        assert "Too many open files" in found
    assert teachers.fit(X, X[:, 0] > 0).n_resumed_ == (5 if n_free else 0)
