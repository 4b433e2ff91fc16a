"""Former parameters of DPSGDClassifier are fields of values now, or arguments of fit, and still work."""

from __future__ import annotations

import copy
import inspect
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone

from pate import Budget, DPSGDClassifier
from pate.dpsgd import Canaries, Device, Optimizer, SampledGaussian
from pate.dpsgd._checkpoint import fingerprint_of
from pate.dpsgd._settings import determining, filled
from pate.dpsgd._values import KINDS, flat
from pate.exceptions import InvalidInputError
from pate.networks import MLP

X = np.random.default_rng(0).random((60, 4))
Y = np.arange(60) % 2
GIVEN = {"budget": Budget(2.0, 1e-3), "classes": [0, 1], "random_state": 0, "noise_seed": 0}
FORMER = {
    "module_kwargs": {"hidden": (4,)}, "optimizer": "sgd", "momentum": 0.5, "averaging": "ema", "n_steps": 3,
    "adjacency": "zero-out", "noise_multiplier": 5.0, "n_threads": 2, "expected_batch_size": 10,
}  # fmt: skip
NOW = {
    "optimizer": Optimizer("sgd", momentum=0.5, averaging="ema"), "device": Device(n_threads=2),
    "mechanism": SampledGaussian(adjacency="zero-out", n_steps=3, noise_multiplier=5.0), "expected_batch_size": 10,
}  # fmt: skip


def now():
    return DPSGDClassifier(partial(MLP, hidden=(4,)), **GIVEN, **NOW)


def former():
    with pytest.warns(DeprecationWarning, match="is deprecated: use") as said:
        clf = DPSGDClassifier(MLP, **GIVEN, **FORMER)
    assert len(said) == 7
    assert {one.filename for one in said} == {__file__}
    return clf


def test_the_signature_can_be_read():
    names = [*inspect.signature(DPSGDClassifier).parameters]
    assert len(names) == 23
    assert sorted(now().get_params()) == sorted(names)


def test_a_fit_by_former_names_is_the_very_same_one():
    one, other = former(), now()
    assert {k: v for k, v in one.get_params().items() if k in NOW} == NOW
    facts = [determining(filled(flat(clf)), (0, 1)) for clf in (one, other)]
    assert fingerprint_of(facts[0]) == fingerprint_of(facts[1])
    np.testing.assert_array_equal(clone(one).fit(X, Y).predict_proba(X), other.fit(X, Y).predict_proba(X))


def test_what_a_checkpoint_is_known_by_has_kept_its_names():
    """A file names its settings as the constructor's parameters were called when there were 37 of them."""
    known = determining(filled(flat(now())), (0, 1))
    assert sorted(known) == [
        "adjacency", "augmentation", "averaging", "budget", "canaries", "charged", "classes", "clipping", "epochs",
        "expected_batch_size", "image_shape", "learning_rate", "max_grad_norm", "max_physical_batch_size", "measure",
        "mechanism", "module", "module_kwargs", "momentum", "n_steps", "noise_multiplier", "noise_seed", "nominal_n",
        "on_exhausted", "optimizer", "random_state", "ranges", "recipe", "records_per_group", "sample_rate", "schedule",
    ]  # fmt: skip
    assert (known["module"], known["module_kwargs"], known["mechanism"]) == ("MLP", {"hidden": (4,)}, "poisson")


def test_former_names_are_read_and_set_with_a_warning():
    clf = now()
    for name, value in FORMER.items():
        if name not in ("optimizer", "expected_batch_size"):
            with pytest.warns(DeprecationWarning, match=name):
                assert getattr(clf, name) == value
    with pytest.warns(DeprecationWarning, match="momentum is deprecated: use optimizer=Optimizer"):
        clf.set_params(momentum=0.25)
    assert clf.optimizer == Optimizer("sgd", momentum=0.25, averaging="ema")
    with pytest.warns(DeprecationWarning, match="schedule is deprecated"):
        assert clf.set_params(optimizer="adam", schedule="cosine").optimizer == Optimizer("adam", schedule="cosine")
    with pytest.warns(DeprecationWarning, match="module_kwargs is deprecated: use module="):
        assert DPSGDClassifier("mlp", module_kwargs={"hidden": (3,)}, **GIVEN).module.keywords == {"hidden": (3,)}
    with pytest.raises(ValueError, match="Invalid parameter 'no_such'"):
        clf.set_params(no_such=1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("parameter", "field"), [(name, field) for name, kind in KINDS.items() for field in [*vars(kind())][1:]]
)
def test_a_value_and_a_former_name_beside_it_are_refused(parameter, field):
    value = KINDS[parameter]()
    with pytest.raises(InvalidInputError, match=f"{field} is the former name of {parameter}="):
        DPSGDClassifier("linear", **GIVEN, **{parameter: value, field: 1})
    with pytest.raises(InvalidInputError, match=f"{field} is the former name of {parameter}="):
        DPSGDClassifier("linear", **GIVEN).set_params(**{parameter: value, field: 1})


def test_what_fit_takes_now_may_still_be_said_before():
    with pytest.warns(DeprecationWarning, match="ranges is deprecated: use fit"):
        clf = DPSGDClassifier(**GIVEN, ranges=(0, 1))
    plain = DPSGDClassifier(**GIVEN).fit(X, Y, schema=(0, 1)).predict_proba(X)
    for one in (clf, clone(clf), copy.copy(clf)):
        np.testing.assert_array_equal(one.fit(X, Y).predict_proba(X), plain)
    with pytest.warns(DeprecationWarning, match="ranges is deprecated: use fit"):
        assert clf.ranges == (0, 1)
    with pytest.raises(InvalidInputError, match="schema is given to fit, and by its former name before"):
        clf.fit(X, Y, schema=(0, 2))
    with pytest.warns(DeprecationWarning, match="canaries is deprecated: use fit"):
        clf = now().set_params(canaries=Canaries(gradients=3))
    assert len(clf.fit(X, Y).canaries_.scores) == 3
