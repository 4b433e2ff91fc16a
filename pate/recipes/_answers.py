"""How a public model's probabilities become its answers: how sure it is, and how a class is taken. All of it free.

What is done here with released numbers and public rows is post-processing (Dwork and Roth 2014, Proposition 2.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from pate.core.checks import check_choice, check_real
from pate.core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.heads._moments import as_sure, softmax

#: How a class is taken: the likeliest one, or the one that is likeliest beside how likely it usually is.
DECISIONS = ("likeliest", "balanced")
#: No model is said to be surer than this on average, nor less sure than guessing and this much more.
_SUREST, _ABOVE_GUESSING = 0.99, 0.01
#: Shares of classes are drawn towards equal ones by this much: a class that nearly never shows is not taken everywhere.
_TO_EQUAL = 0.1
#: Probabilities below it count as this.
_LEAST = 1e-300


class Answers(ClassifierMixin, BaseEstimator):
    """What a public model answers, by its own probabilities; a mixin.

    Its logits are divided by ``temperature`` before they are told as probabilities; no class is taken by it. Its own
    probabilities are divided by ``weights``, if there are any, before the largest one is taken.
    """

    temperature: float
    weights: tuple[float, ...]

    def untempered(self, X: Any) -> FloatArray:
        """Return its own probabilities of shape (n_rows, n_classes)."""
        raise NotImplementedError

    def predict_proba(self, X: Any) -> FloatArray:
        """Return probabilities of shape (n_rows, n_classes)."""
        return tempered(self.untempered(X), self.temperature)

    def predict(self, X: Any) -> IntArray:
        """Return class indices of shape (n_rows,)."""
        return decided(self.untempered(X), self.weights)

    @property
    def decides(self) -> tuple[str, ...]:
        """Lines that say how classes are taken; none where the likeliest one is."""
        if not self.weights:
            return ()
        return (f"decides: balanced, probabilities divided by {', '.join(f'{w:.3g}' for w in self.weights)}",)

    def answering(self) -> dict[str, Any]:
        """Return what :func:`read_answering` reads."""
        return {"temperature": self.temperature, "weights": list(self.weights)}


def read_answering(told: Mapping[str, Any], n_classes: int) -> dict[str, Any]:
    """Return temperature and weights of a model file; of one without them, those that change nothing."""
    temperature, weights = told.get("temperature", 1.0), told.get("weights", [])
    if not isinstance(weights, list) or len(weights) not in (0, n_classes):
        raise InvalidInputError("the model's weights are not those of its classes. Ask for the file as it was made.")
    return {
        "temperature": check_real("the model's temperature", temperature, low=0, low_open=True),
        "weights": tuple(check_real("the model's weights", weight, low=0, low_open=True) for weight in weights),
    }


def tempered(probability: FloatArray, temperature: float) -> FloatArray:
    """Return the probabilities whose logits are divided by the temperature."""
    if temperature == 1 or not probability.size:
        return probability
    return softmax(np.log(np.maximum(probability, _LEAST)) / temperature)


def decided(probability: FloatArray, weights: tuple[float, ...] = ()) -> IntArray:
    """Return the class index of every row whose probability, divided by the class's weight, is largest."""
    odds = probability / np.asarray(weights) if weights else probability
    return np.asarray(odds.argmax(axis=1), dtype=np.int64)


def balancing(probability: FloatArray, temperature: float = 1.0) -> tuple[float, ...]:
    """Return the weights of balanced decisions: the mean probability of each class over the public rows.

    To divide by shares is what the best classifier of balanced accuracy does: it takes the class of the largest
    p(class | row)/p(class). The shares are drawn a tenth of the way to equal ones, and raised to the temperature, as
    :func:`decided` divides probabilities that no temperature was taken of.

    ``probability`` is untempered; ``temperature`` known before any accuracy is measured, so that what is measured is
    what is decided.
    """
    m = probability.shape[1]
    shares = tempered(probability, temperature).mean(axis=0)
    shares = (1 - _TO_EQUAL) * shares + _TO_EQUAL / m
    return tuple(float(share) for share in shares**temperature)


def temperature_as_measured(probability: FloatArray, said: IntArray, accuracy: float) -> float:
    """Return the temperature at which the probability of what is said is on average what was measured.

    Over the public rows: it rests on their being drawn as the private ones were.

    ``probability`` (n_public, n_classes) is untempered; ``said`` holds class indices.
    """
    if not len(probability):
        return 1.0
    wanted = min(max(accuracy, 1 / probability.shape[1] + _ABOVE_GUESSING), _SUREST)
    times = as_sure(np.log(np.maximum(probability, _LEAST)), wanted, said)
    return float(f"{1 / times:.6g}")


def noise_temperature(head: Any, phi: FloatArray) -> float:
    """Return the temperature for the noise in a head's logits, where that is known; 1 where it is not.

    sqrt(1 + pi s^2/8), with s^2 the noise variance of the difference of two logits: the mean of the logistic function
    over Gaussian logits is close to that of the mean logit divided by it (MacKay, "The evidence framework applied to
    classification networks", Neural Computation 4, 1992).
    """
    variance: Callable[[FloatArray], float] | None = getattr(head, "logit_variance", None)
    return 1.0 if variance is None else float(f"{math.sqrt(1 + math.pi * variance(phi) / 8):.6g}")


def check_decide(decide: Any) -> str:
    """Return how classes are taken, if it is one of the ways there are."""
    return check_choice("decide", decide, DECISIONS)
