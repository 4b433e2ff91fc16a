"""How sure a model says it is, and which class it takes: by released and public numbers alone."""

import numpy as np
import pytest

from pate import InvalidInputError
from pate.models.heads import DescentHead
from pate.models.heads._linear import as_sure, softmax
from pate.models.recipes._model import (
    balancing,
    decided,
    noise_temperature,
    read_answering,
    temperature_as_measured,
    tempered,
)

RNG = np.random.default_rng(0)
LOGITS = 4 * RNG.normal(size=(400, 3))
P = softmax(LOGITS)


@pytest.mark.parametrize("accuracy", [0.4, 0.6, 0.9, 0.98])
def test_the_mean_of_what_is_said_is_what_was_measured_and_no_class_changes(accuracy):
    said = decided(P)
    t = temperature_as_measured(P, said, accuracy)
    scaled = tempered(P, t)
    assert scaled.max(axis=1).mean() == pytest.approx(accuracy, abs=1e-4)
    assert (decided(scaled) == said).all()
    assert np.allclose(scaled, softmax(LOGITS / t))


@pytest.mark.parametrize(("accuracy", "largest"), [(0.0, 1 / 3 + 0.01), (1.0, 0.99)])
def test_the_mean_largest_probability_is_between_guessing_and_99_in_100(accuracy, largest):
    t = temperature_as_measured(P, decided(P), accuracy)
    assert tempered(P, t).max(axis=1).mean() == pytest.approx(largest, abs=1e-4)


def test_a_temperature_of_one_and_no_rows_change_no_bit():
    assert tempered(P, 1.0) is P
    assert temperature_as_measured(P[:0], decided(P[:0]), 0.5) == 1.0


def test_probabilities_that_are_zero_or_one_have_a_temperature_too():
    sure = np.eye(3)[RNG.integers(3, size=50)]
    t = temperature_as_measured(sure, decided(sure), 0.8)
    assert np.isfinite(tempered(sure, t)).all()
    assert (decided(tempered(sure, t)) == decided(sure)).all()


def test_of_decisions_that_are_not_the_likeliest_their_own_probability_counts():
    weights = balancing(P)
    said = decided(P, weights)
    t = temperature_as_measured(P, said, 0.7)
    assert tempered(P, t)[np.arange(len(P)), said].mean() == pytest.approx(0.7, abs=1e-4)
    assert as_sure(LOGITS, 2.0, said) == pytest.approx(np.exp(7))  # as near as can be


def test_rare_classes_are_taken_more_often_and_equal_ones_as_before():
    rare = softmax(LOGITS - np.array([0.0, 0.0, 3.0]))
    before, after = (np.bincount(decided(rare, w), minlength=3) for w in ((), balancing(rare)))
    assert after[2] > before[2]
    assert (decided(P, (1 / 3,) * 3) == decided(P)).all()


def test_weights_decide_as_tempered_probabilities_over_shares_do():
    t, m = 1.7, 3
    shares = 0.9 * tempered(P, t).mean(axis=0) + 0.1 / m
    assert (decided(P, balancing(P, t)) == (tempered(P, t) / shares).argmax(axis=1)).all()


def test_the_noise_of_a_descent_is_that_of_the_difference_of_two_logits():
    released = type("Released", (), {"n_units": 900, "classes": (0, 1, 2), "clip": 0.1, "sigma": 30.0})
    phi = RNG.normal(size=(300, 8))
    phi /= np.linalg.norm(phi, axis=1, keepdims=True)
    found, signal = [], 1e4 * RNG.normal(size=(8, 3))  # so much more than the noise that next to nothing is shrunk
    for noise in (0.0, *30.0 * RNG.normal(size=(300, 8, 3))):
        released.statistics = signal + noise
        head = DescentHead(n_rounds=1, constant=False).start(8, (0, 1, 2)).updated(released)
        logits = phi @ head.coef_
        found.append(logits[:, 0] - logits[:, 1])
    off = np.square(np.array(found[1:]) - found[0]).mean()
    assert off == pytest.approx(head.logit_variance(phi), rel=0.1)
    assert noise_temperature(head, phi) > 1


@pytest.mark.parametrize(
    "settings",
    [{"temperature": 0.0}, {"temperature": "2"}, {"weights": [0.5]}, {"weights": [0.5, -1.0]}, {"weights": 3}],
)
def test_a_file_with_other_settings_is_refused(settings):
    with pytest.raises(InvalidInputError, match="the model's"):
        read_answering(settings, 2)
