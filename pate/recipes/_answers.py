"""How a public model's probabilities become its answers: how sure it is, and how a class is taken. All of it free.

What is done here with released numbers and public rows is post-processing (Dwork and Roth 2014, Proposition 2.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from pate.core.checks import check_choice, check_real
from pate.core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.heads import DescentHead, LikelihoodHead
from pate.heads._moments import as_sure, read_moments, softmax

#: How a class is taken: the likeliest one, or the one that is likeliest beside how likely it usually is.
DECISIONS = ("likeliest", "balanced")
#: No model is said to be surer than this on average, nor less sure than guessing and this much more.
_SUREST, _ABOVE_GUESSING = 0.99, 0.01
#: Shares of classes are drawn towards equal ones by this much: a class that nearly never shows is not taken everywhere.
_TO_EQUAL = 0.1
#: Probabilities below it count as this.
_LEAST = 1e-300


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


# How sure a model may be where nobody measured it: from released sums, the law of their noise, and public rows.

#: What is believed of the logarithm of a temperature before any sum is seen: mean, standard deviation, and its range.
_USUAL, _SPREAD, _FAR = 0.4, 0.5, 2.5


def unmeasured_temperature(head: Any, rounds: Sequence[Any], phi: FloatArray, probability: FloatArray) -> float:
    """Return the temperature at which public rows, were they labelled by the model, would give the sums released.

    Records voted with their labels: what they gave, held against the model's own logits, says how often these are
    right. Noise in the sums has gone into the model too; what that adds is known, and taken off. The temperature is the
    likeliest for what is left, given its noise and a belief: about 1.5, within a factor of 1.6 two times of three. The
    belief was chosen on development tables (``experiments/defaults.py``), and is no theorem. It rests on public rows
    that are drawn as the private ones are.

    For sums in which noise is large, where accuracy is not worth measuring. Where it is small, later rounds take back
    what noise and sampling did to earlier ones: what is taken off is then too much, and the temperature too high.

    ``head`` is the one before any student; ``phi`` (n_public, n_components) are public rows in the ballots' space,
    ``probability`` (n_public, n_classes) what the model says of them, untempered. Of a head of another kind:
    :func:`noise_temperature`.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> phi, head = np.array([[1.0], [-1.0]]), DescentHead(n_rounds=1, constant=False).start(1, (0, 1))
    >>> for said in (90.0, 9.0):
    ...     ballots = SimpleNamespace(statistics=[[said, -said]], sigma=4.0, n_units=2_000, classes=(0, 1), clip=0.1)
    ...     made = head.updated(ballots)
    ...     print(unmeasured_temperature(made, [ballots], phi, made.predict_proba(phi)))
    1.49
    12.2
    """
    if not len(phi):
        return 1.0
    if isinstance(head, DescentHead):
        unlikely = _of_steps(head, rounds, phi)
    elif isinstance(head, LikelihoodHead) and len(rounds) == 1 and rounds[0].clip is None:
        unlikely = _of_ballots(rounds[0], phi, probability)
    else:
        return noise_temperature(head, phi)

    def loss(log_t: float) -> float:
        return unlikely(math.exp(log_t)) + ((log_t - _USUAL) / _SPREAD) ** 2

    found = minimize_scalar(loss, bounds=(-_FAR, _FAR), method="bounded", options={"xatol": 1e-4})
    return float(f"{math.exp(found.x):.3g}")  # no more digits than the last bits of sums leave alone


def _of_steps(head: DescentHead, rounds: Sequence[Any], phi: FloatArray) -> Callable[[float], float]:
    """Return how unlikely the sum over records of <logits, what they voted> is, by temperature."""
    logits, n = phi @ head.coef_, rounds[0].n_units
    then = head.start(len(head.coef_), head.classes_)
    gives, length = np.zeros_like(logits), 0.0  # of a row, were it of that class, in all rounds
    for one in rounds:
        asked = softmax(phi @ then.coef_)
        apart = np.sqrt(np.maximum(1 - 2 * asked + np.square(asked).sum(axis=1, keepdims=True), 1e-12))
        step = head.step(one.sigma, one.clip, n)
        gives += step * np.minimum(1.0, one.clip / apart) * (logits - (asked * logits).sum(axis=1, keepdims=True))
        length += step * one.clip
        then = then.updated(one)
    agreement, variance = head.agreement()
    # The records that made the weights are those that are asked: what each adds to its own answer.
    agreement -= n * length**2 * float(np.square(phi * np.sqrt(head.left())).sum(axis=1).mean())
    variance += n * float(gives.var(axis=0).mean())

    def unlikely(t: float) -> float:
        expected = n * float((softmax(logits / t) * gives).sum(axis=1).mean())
        return (agreement - expected) ** 2 / max(variance, 1e-12)

    return unlikely


def _of_ballots(release: Any, phi: FloatArray, probability: FloatArray) -> Callable[[float], float]:
    """Return how unlikely the sums of class ballots are, by temperature: as :class:`LikelihoodHead` has it."""
    moments = read_moments(release, phi)
    n, m, rows = moments.n_units, moments.n_classes, len(phi)
    sampled = (1 + n / rows) * (1 - 1 / m) / (m * n) * np.square(phi).mean(axis=0)
    weights = 1 / np.maximum(moments.noise**2 + sampled, 1e-12 / n**2)

    def unlikely(t: float) -> float:
        gap = phi.T @ (tempered(probability, t) - 1 / m) / rows - moments.mean
        return float((weights[:, None] * np.square(gap)).sum())

    return unlikely
