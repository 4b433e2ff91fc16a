"""What DP-SGD returns has seen no private row, and what it says of a row follows from that row alone."""

import io
import pickle
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from pate import Budget, DPSGDClassifier, DPSGDRegressor, PATEClassifier
from pate.dpsgd import SampledGaussian
from pate.dpsgd._measured import ask_module
from pate.exceptions import InvalidInputError
from pate.networks import RowByRow
from pate.representations import FromModule, FromTransformer

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 3)).astype("f4")
Y = (X[:, 0] > 0).astype(int)
MADE = []


class Keeps(nn.Module):
    """Keeps its rows in an attribute, a list that a hook's closure holds, a plain list of layers and a plain array."""

    def __init__(self, n_features=3, n_classes=2):
        super().__init__()
        self.inner = nn.Linear(n_features, n_classes)
        self.seen, self.rows, kept = None, [], []
        self.plain = [nn.Identity()]
        self.inner.register_forward_hook(lambda module, given, out: kept.append(given[0]))
        self.kept = kept

    def forward(self, x):
        self.seen = self.plain[0].seen = x
        self.rows.append(x)
        return self.inner(x)


def tensors_in(thing, found, seen):
    """Collect every tensor and array that can be reached, through closures and hooks too."""
    if id(thing) in seen or isinstance(thing, type | str | int | float):
        return
    seen[id(thing)] = thing
    if isinstance(thing, torch.Tensor):
        found.append(thing.detach().numpy())
    elif isinstance(thing, np.ndarray) and thing.dtype != object:
        found.append(thing)
    elif isinstance(thing, dict):
        for one in thing.values():
            tensors_in(one, found, seen)
    elif isinstance(thing, list | tuple | set):
        for one in thing:
            tensors_in(one, found, seen)
    for cell in getattr(thing, "__closure__", None) or ():
        tensors_in(cell.cell_contents, found, seen)
    if hasattr(thing, "__dict__"):
        tensors_in(vars(thing), found, seen)


def private_rows_in(thing, rows=X):
    found = []
    tensors_in(thing, found, {})
    raw = b"".join(np.ascontiguousarray(a, dtype="f4").tobytes() for a in found if a.dtype.kind == "f")
    return sum(row.tobytes() in raw for row in rows)


@pytest.mark.long
@pytest.mark.parametrize("measure", [True, "by class", False])
def test_a_fitted_classifier_holds_no_private_row(measure):
    how = {"classes": [0, 1], "epochs": 1, "expected_batch_size": 60, "measure": measure}
    seen = []
    callbacks = (lambda step: seen.append(step.module),)
    clf = DPSGDClassifier(Keeps, budget=Budget(8, 1e-4), callbacks=callbacks, **how).fit(X, Y)
    assert private_rows_in(clf) == 0
    assert private_rows_in(seen) == 0, "nor what callbacks are shown"
    clf.score(X, Y)
    file = io.BytesIO()
    torch.save(clf.module_.state_dict(), file)
    assert X[0].tobytes() not in file.getvalue()
    assert clf.module_.seen is None


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_a_fitted_regressor_holds_no_private_row():
    how = {"epochs": 1, "expected_batch_size": 60, "measure": True, "target_range": (-5, 5)}
    reg = DPSGDRegressor(Keeps, budget=Budget(8, 1e-4), **how).fit(X, X[:, 0])
    assert private_rows_in(reg) == 0
    reg.predict(X)
    assert reg.module_.seen is None


class Remembers(nn.Module):
    def forward(self, x):
        self.seen = x
        return torch.tanh(x)


class Scaler:
    """A transformer that keeps what it was shown, written without scikit-learn."""

    def fit(self, rows, y=None):
        self.fitted_ = True
        return self

    def get_params(self, deep=True):
        return {}

    def transform(self, rows):
        self.seen_ = np.array(rows)
        return np.tanh(self.seen_)


@pytest.mark.parametrize(
    "make", [lambda: FromModule(Remembers(), provenance="none"), lambda: FromTransformer(Scaler())]
)
def test_a_representation_of_the_users_holds_no_private_row(make):
    representation, public = make(), rng.normal(size=(100, 3)).astype("f4")
    clf = PATEClassifier(budget=Budget(8, 1e-4), classes=[0, 1], representation=representation)
    clf.fit(X, Y, X_public=public)
    assert private_rows_in(clf) == 0
    assert X[0].tobytes() not in pickle.dumps(clf)
    fitted = make().fit(public)
    fitted.transform(X)
    assert private_rows_in(fitted) == 0


class Uneven(nn.Module):
    """Takes the mean of large batches off their rows: no trial on a few rows shows it."""

    def __init__(self, n_features=3, n_classes=2):
        super().__init__()
        self.inner = nn.Linear(n_features, n_classes)

    def forward(self, x):
        return self.inner(x - x.mean(0) if x.shape[0] > 64 else x)


class Looks(Uneven):
    """The same, with code that looks at values: it cannot be run on rows side by side."""

    def forward(self, x):
        return super().forward(x) if float(x.sum()) < 1e5 else self.inner(x) * 0


@pytest.mark.parametrize("kind", [Uneven, Looks, nn.Linear])
def test_what_is_said_of_a_record_follows_from_that_record_alone(kind):
    module = kind(3, 2)
    other = X.copy()
    other[0] = 1e4
    usable = np.arange(len(X)) != 3
    a, b = (ask_module(module, rows, usable, size=128) for rows in (X, other))
    assert np.array_equal(a[1:], b[1:], equal_nan=True)
    assert not np.array_equal(a[0], b[0])
    assert np.isnan(a[3]).all()
    with torch.no_grad():
        alone = np.stack([module(torch.from_numpy(row[None]))[0].numpy() for row in X[usable]])
    assert np.allclose(a[usable], alone, atol=1e-6)


def test_a_prediction_follows_from_its_row_alone():
    how = {"classes": [0, 1], "epochs": 1, "expected_batch_size": 60, "measure": False, "random_state": 0}
    clf = DPSGDClassifier(Uneven, budget=Budget(8, 1e-4), **how).fit(X, Y)
    rows = np.concatenate([X, np.full((80, 3), 50.0, "f4")])
    assert np.allclose(clf.predict_proba(rows)[:120], clf.predict_proba(X), atol=1e-6)


def test_layers_that_are_known_are_run_on_all_rows_at_once(monkeypatch):
    monkeypatch.setattr("pate.networks._row_by_row.vmap", None)
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    ask = RowByRow.of(module, torch.zeros(1, 3))
    assert torch.allclose(ask(torch.from_numpy(X)), module(torch.from_numpy(X)), atol=1e-6)


class Beside(nn.Module):
    """Computes by numbers that are no parameter and no buffer, and differ each time."""

    def __init__(self, n_features, n_classes):
        super().__init__()
        self.inner = nn.Linear(n_features, n_classes)
        self.scale = torch.from_numpy(np.random.default_rng().normal(size=n_classes).astype("f4"))

    def forward(self, x):
        return self.inner(x) * self.scale


def test_a_module_that_cannot_be_made_again_is_refused():
    clf = DPSGDClassifier(Beside, budget=Budget(8, 1e-4), classes=[0, 1], expected_batch_size=60)
    with pytest.raises(InvalidInputError, match="parameters and buffers alone"):
        clf.fit(X, Y)


@pytest.mark.long
def test_a_factory_of_a_partial_gives_the_trained_parameters():
    how = {"classes": [0, 1], "epochs": 3, "expected_batch_size": 60, "measure": False, "noise_seed": 0}
    last = []
    make = partial(Uneven, n_classes=2)
    take = lambda step: last.append(step.module.inner.weight.clone())  # noqa: E731
    clf = DPSGDClassifier(make, budget=Budget(8, 1e-4), random_state=0, callbacks=(take,), **how).fit(X, Y)
    assert torch.equal(last[-1], clf.module_.inner.weight)
    assert not torch.equal(last[0], last[-1])


@pytest.mark.long
def test_a_parameter_that_is_one_number_is_trained():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.scale = nn.Linear(3, 2), nn.Parameter(torch.tensor(1.5))

        def forward(self, rows):
            return self.layer(rows) * self.scale

    X = np.random.default_rng(0).normal(size=(300, 3))
    clf = DPSGDClassifier(
        Scaled,
        budget=Budget(5.0, 1e-4),
        classes=[0, 1],
        random_state=0,
        mechanism=SampledGaussian(n_steps=2),
    )
    assert clf.fit(X, np.arange(300) % 2).module_.scale != 1.5
