"""How sure a model may be where nobody measured it: from released sums, the law of their noise, and public rows.

All of it is post-processing (Dwork and Roth 2014, Proposition 2.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from pate.core.types import FloatArray
from pate.heads import DescentHead, LikelihoodHead
from pate.heads._moments import read_moments, softmax
from pate.recipes._answers import noise_temperature, tempered

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
