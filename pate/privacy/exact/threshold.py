"""The threshold test folded into the divergence of Confident-GNMax: one mechanism of m + 1 outcomes.

With s, s' the probabilities of answering under n and n', and K = exp((a - 1) D) - 1 of the label alone,

    K_joint = s^a s'^(1 - a) K + [s' g_a(log s / s') + (1 - s') g_a(log (1 - s) / (1 - s'))],

all terms >= 0. Whether the largest count falls, stays or rises depends on the neighbour, and so do s' and K.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pate.core.types import FloatArray
from pate.privacy.exact.noise import ThresholdTest
from pate.privacy.exact.orders import log_terms

__all__ = ["JoinTables", "join_tables"]


@dataclass(frozen=True)
class JoinTables:
    """log factor and log addend of K, each (n_tops, 3, 2, n_orders).

    Axes: the largest count minus ``low``; its change plus 1; forward or reverse; order.
    """

    low: int
    log_factor: FloatArray
    log_addend: FloatArray


def join_tables(test: ThresholdTest, low: int, high: int, orders: FloatArray) -> JoinTables:
    """Tabulate for largest counts from ``low`` to ``high``.

    Examples
    --------
    >>> tables = join_tables(ThresholdTest(200.0, 150.0), 200, 200, np.array([2.0]))
    >>> np.exp(tables.log_factor[0, :, 0, 0]).round(4)
    array([0.5027, 0.5   , 0.4974])
    """
    tops = np.arange(low, high + 1)
    shape = (len(tops), 3, 2, len(orders))
    factor, addend = np.empty(shape), np.full(shape, -np.inf)
    answer, refuse = test.log_answer(tops), test.log_refuse(tops)
    for change in (-1, 0, 1):
        more, less = test.log_answer_ratio(tops, change), test.log_refuse_ratio(tops, change)
        for k, order in enumerate(orders):
            factor[:, change + 1, 0, k] = answer + (1 - order) * more
            factor[:, change + 1, 1, k] = answer + order * more
            if change:
                addend[:, change + 1, 0, k] = np.logaddexp(
                    answer + more + log_terms(order, -more), refuse + less + log_terms(order, -less)
                )
                addend[:, change + 1, 1, k] = np.logaddexp(
                    answer + log_terms(order, more), refuse + log_terms(order, less)
                )
    return JoinTables(low, factor, addend)
