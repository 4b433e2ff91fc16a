"""Arguments that many libraries take and this one does not, or takes otherwise: it works, or the error says how."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from pate import Budget, DPSGDClassifier, HeadTeacherEnsemble, PATEClassifier, TeacherEnsemble, TorchTeacherEnsemble
from pate._core.secret import training_seed
from pate.exceptions import InvalidInputError
from pate.networks import MLP
from pate.representations import PublicPCA

RNG = np.random.default_rng(0)
Y = np.arange(200) % 2
X = RNG.normal(size=(200, 6)) + 2 * Y[:, None] * (np.arange(6) < 3)
PUBLIC = RNG.normal(size=(40, 6)) + 1.0
SETTINGS = {"budget": Budget(1e3, 1e-3), "classes": [0, 1]}
WHO = {
    "records": PATEClassifier(**SETTINGS),
    "shards": PATEClassifier(LogisticRegression(), n_teachers=10, **SETTINGS),
    "heads": PATEClassifier(voters="heads", n_teachers=10, **SETTINGS),
    "DP-SGD": DPSGDClassifier("linear", expected_batch_size=20, **SETTINGS),
    "DP-SGD by a recipe": DPSGDClassifier(**SETTINGS),
    "teachers": TeacherEnsemble(LogisticRegression(), 5, classes=[0, 1]),
    "torch teachers": TorchTeacherEnsemble(MLP, 3, classes=[0, 1], device="cpu"),
    "head teachers": HeadTeacherEnsemble(PublicPCA(3).fit(PUBLIC), 5, classes=[0, 1]),
}


@pytest.mark.parametrize("name", WHO)
def test_a_generator_is_no_seed_and_the_error_makes_one_of_it(name):
    for generator, drawn in ((np.random.RandomState(0), "randint"), (np.random.default_rng(0), "integers")):
        clf = clone(WHO[name]).set_params(random_state=generator)
        with pytest.raises(InvalidInputError, match=rf"random_state=int\(rng\.{drawn}\(2\*\*31\)\)") as refused:
            clf.fit(X, Y, X_public=PUBLIC)
        assert "random_state must be a whole number >= 0" in str(refused.value)
    rng = np.random.default_rng(0)
    assert training_seed(int(rng.integers(2**31))) >= 0
    assert training_seed(np.int32(7)) == training_seed(7)


NO_ARRAYS = {
    "detach": torch.from_numpy(X).requires_grad_(),
    "float": torch.from_numpy(X).bfloat16(),
    "to_dense": torch.from_numpy(X).to_sparse(),
}


@pytest.mark.parametrize("step", NO_ARRAYS)
def test_a_tensor_that_numpy_cannot_read_is_refused_with_what_to_call_on_it(step):
    tensor = NO_ARRAYS[step]
    for name in ("X", "X_public", "y"):
        for learner in WHO.values():
            given = {"X": X, "y": Y, "X_public": PUBLIC} | {name: tensor if name != "y" else tensor[:, 0]}
            if name == "X_public" and not isinstance(learner, PATEClassifier):
                continue
            with pytest.raises(InvalidInputError, match=rf"^{name} is a torch tensor that .*Pass {name}\.{step}\(\)"):
                clone(learner).fit(**given)


class Two(torch.nn.Module):
    """Takes two inputs."""

    def __init__(self, n_classes):
        super().__init__()
        self.last = torch.nn.Linear(6, n_classes)

    def forward(self, left, right):
        return self.last(torch.cat([left, right], 1))


class Around(torch.nn.Module):
    """What the error says to do."""

    def __init__(self, n_classes):
        super().__init__()
        self.inner = Two(n_classes)

    def forward(self, x):
        return self.inner(x[:, :2], x[:, 2:])


@pytest.mark.parametrize("name", WHO)
def test_several_arrays_of_rows_are_refused_as_such(name):
    for several in ((X[:, :2], X[:, 2:]), {"left": X[:, :2], "right": X[:, 2:]}):
        with pytest.raises(InvalidInputError, match=r"X must be one array .*2 parts.* side by side, np.hstack"):
            clone(WHO[name]).fit(several, Y, X_public=PUBLIC)


@pytest.mark.long
def test_a_module_of_several_inputs_gets_them_in_one_row():
    for clf in (WHO["DP-SGD"], WHO["torch teachers"]):
        with pytest.raises(InvalidInputError, match=r"forward takes 2 inputs \(left, right\).*np\.hstack"):
            clone(clf).set_params(module=Two).fit(X, Y)
    clf = clone(WHO["DP-SGD"]).set_params(module=Around, random_state=0).fit(np.hstack([X[:, :2], X[:, 2:]]), Y)
    assert clf.score(X, Y) > 0.9


@pytest.mark.long
def test_sparse_rows_of_a_named_module_are_filled_in():
    dense = np.where(np.abs(X) > 0.5, X, 0.0)
    clf = clone(WHO["DP-SGD"]).set_params(random_state=0, noise_seed=1)
    for kind in (sparse.csr_matrix, sparse.coo_array):
        found = clone(clf).fit(kind(dense), Y)
        assert torch.equal(*(next(c.module_.parameters()) for c in (found, clone(clf).fit(dense, Y))))
        np.testing.assert_array_equal(found.predict_proba(kind(dense)), found.predict_proba(dense))
    assert found.score(dense, Y) > 0.9
    with pytest.raises(InvalidInputError, match=r"60,000 columns.*Leave module out and pass X_public.*TruncatedSVD"):
        clf.fit(sparse.csr_matrix((200, 60_000)), Y)
