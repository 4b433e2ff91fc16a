"""The worst neighbour of given votes: every query's one vote moved where it tells most, by the exact law."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pate.core.checks import check_real
from pate.core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.mechanisms import ExactLaw, Mechanism
from pate.privacy.exact import per_teacher_rdp, vote_groups
from pate.privacy.exact.histograms import distinct_histograms, group_counts
from pate.privacy.exact.noise import ThresholdTest
from pate.privacy.exact.pair_law import PairLaw, all_laws
from pate.votes import Votes

__all__ = ["tie", "worst_neighbour"]


def tie(n_teachers: int, n_classes: int) -> tuple[IntArray, IntArray]:
    """Return votes that nobody cast, two classes as equal as can be, and the same with one vote moved across.

    Examples
    --------
    >>> [votes.tolist() for votes in tie(5, 3)]
    [[[3, 2, 0]], [[2, 3, 0]]]
    """
    votes = np.zeros((1, n_classes), dtype=np.int64)
    votes[0, :2] = (n_teachers + 1) // 2, n_teachers // 2
    moved = votes.copy()
    moved[0, :2] += (-1, 1)
    return votes, moved


def worst_neighbour(votes: Votes, mechanism: Mechanism, *, order: float = 8.0, reverse: bool = False) -> IntArray:
    """Return counts that differ by one teacher's votes, as far from these as the exact law can tell.

    Parameters
    ----------
    votes : Votes
        **Sensitive**. With teachers' labels one teacher is replaced, the one whose votes cost most; with counts alone
        one vote of every query.
    mechanism : GNMax, LNMax or ConfidentGNMax
    order : float
        The Renyi order by which "far" is meant, above 1.
    reverse : bool
        How far the neighbour is from these votes, not these from the neighbour. One direction for all queries: what is
        far forwards in one and backwards in another adds up to less.

    Returns
    -------
    int64 array of shape (n_queries, n_classes)
        **Sensitive**.

    Raises
    ------
    InvalidInputError
        A mechanism without an exact law, teachers who abstain, or fewer than two classes.
    """
    if not isinstance(mechanism, ExactLaw):
        raise InvalidInputError(f"worst_neighbour needs a mechanism with an exact law, got {mechanism!r}.")
    order = check_real("order", order, low=1, low_open=True)
    counts = np.asarray(votes.counts, dtype=np.int64)
    if (counts.sum(axis=1) != votes.n_teachers).any():
        raise InvalidInputError("votes must be one of every teacher in every query. Leave out who abstains.")
    found = distinct_histograms(counts)
    groups = group_counts(found.rows)
    law = mechanism.exact_parameters()
    # Of each distinct histogram and group that loses a vote: the group that gains it, and how far that is.
    gains = np.zeros(len(groups.values), dtype=np.int64)
    far = np.full(len(groups.values), -np.inf)
    for index, values, pair in all_laws(groups, law["noise"]):
        moved = _distance(values[:, 0], pair, law["threshold"], order if reverse else 1 - order)
        places = groups.offsets[index][:, None] + np.arange(values.shape[1])
        gains[places], far[places] = moved.argmax(axis=2), moved.max(axis=2)
    losers = _losers(votes, mechanism, order, reverse)
    out = counts.copy()
    for q, row in enumerate(found.inverse):
        span = slice(groups.offsets[row], groups.offsets[row + 1])
        if losers is None:
            lose = int(far[span].argmax())
            loser = int(np.flatnonzero(counts[q] == groups.values[span][lose])[0])
        else:
            loser = int(losers[q])
            lose = int(np.flatnonzero(groups.values[span] == counts[q, loser])[0])
        gain = groups.values[span][gains[span][lose]]
        (others,) = np.nonzero((counts[q] == gain) & (np.arange(counts.shape[1]) != loser))
        out[q, loser] -= 1
        out[q, others[0]] += 1
    return out


def _losers(votes: Votes, mechanism: ExactLaw, order: float, reverse: bool) -> npt.NDArray[np.integer] | None:
    """Return the class that the most costly teacher voted for in every query; None where nobody's labels are known."""
    if votes.labels is None:
        return None
    cost = per_teacher_rdp(vote_groups(votes.labels, counts=votes.counts), [order], **mechanism.exact_parameters())
    return np.asarray(votes.labels)[int(cost[:, 0, int(reverse)].argmax())]


def _distance(top: IntArray, pair: PairLaw, threshold: ThresholdTest | None, power: float) -> FloatArray:
    """Return log E[(P'/P)^power] under P, (B, G, G) by losing and gaining group; -inf where nothing can move."""
    with np.errstate(under="ignore", over="ignore", divide="ignore"):
        logs = np.where(pair.weight > 0, power * pair.log_ratio, -np.inf)
        peak = np.maximum(logs.max(axis=1), 0.0)
        found = np.log((pair.weight * np.exp(logs - peak[:, None])).sum(axis=1)) + peak
        if threshold is not None:
            found = _joined(found, top, pair.change, threshold, power)
    return np.where(pair.valid, found, -np.inf)


def _joined(
    inner: FloatArray, top: IntArray, change: npt.NDArray[np.int8], threshold: ThresholdTest, power: float
) -> FloatArray:
    """Fold the threshold test into the moment of the label."""
    answer, refuse = threshold.log_answer(top)[:, None, None], threshold.log_refuse(top)[:, None, None]
    more, less = np.zeros_like(inner), np.zeros_like(inner)
    for step in (-1, 1):
        more = np.where(change == step, threshold.log_answer_ratio(top, step)[:, None, None], more)
        less = np.where(change == step, threshold.log_refuse_ratio(top, step)[:, None, None], less)
    return np.logaddexp(answer + power * more + inner, refuse + power * less)
