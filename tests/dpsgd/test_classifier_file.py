"""A classifier that DP-SGD trained by a recipe is kept in a file, which PATEClassifier reads."""

from __future__ import annotations

import numpy as np
import pytest

from pate import Budget, DPSGDClassifier, InvalidInputError, PATEClassifier
from pate.exceptions import RunFolderError
from pate.models.file import read_model

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (600, 3))
Y = np.where(X[:, 0] > 0, "yes", "no")


def made(**options):
    return DPSGDClassifier(budget=Budget(4.0, 1e-4), classes=["no", "yes"], epochs=2, random_state=0, **options)


@pytest.mark.parametrize("public", [{"schema": (-1, 1)}, {"X_public": RNG.uniform(-1, 1, (100, 3))}])
def test_a_file_predicts_the_same_and_has_the_statement(tmp_path, public):
    clf = made().fit(X, Y, **public)
    clf.save(tmp_path / "m.pate")
    got = PATEClassifier.load(tmp_path / "m.pate")
    assert np.array_equal(got.predict(X), clf.predict(X))
    np.testing.assert_allclose(got.predict_proba(X), clf.predict_proba(X), atol=1e-5)
    assert got.statement_ == clf.statement_
    assert "DP-SGD" in read_model(tmp_path / "m.pate").text()
    with pytest.raises(RunFolderError):
        clf.save(tmp_path / "m.pate")


def test_a_module_of_ones_own_is_in_no_file_nor_a_model_that_fit_did_not_make(tmp_path):
    clf = made(module="linear").fit(X, Y)
    with pytest.raises(InvalidInputError, match="module must be None for a model file"):
        clf.save(tmp_path / "m.pate")
    clf = made().fit(X, Y, schema=(-1, 1))
    del clf._door  # as pate.private_select leaves it
    with pytest.raises(InvalidInputError, match="save needs a model that fit made"):
        clf.save(tmp_path / "m.pate")
