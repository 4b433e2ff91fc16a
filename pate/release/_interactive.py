"""Interactive-GNMax: in rounds, teachers are asked for what a public student of the earlier answers does not know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pate._core.checks import check_int, check_real, shown
from pate._core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.mechanisms import ANSWERED, NOT_ASKED, REFUSED, ConfidentGNMax
from pate.release._labels import LabelRelease
from pate.release._release_labels import check_votes
from pate.release._session import LabelSession
from pate.votes import ABSTAIN, Votes

#: The status of a row that teachers refused and the public student labelled by itself.
REINFORCED = "reinforced"

#: Votes between the two thresholds, whose difference is in every offset (:mod:`pate.privacy.offsets`).
_FARTHEST = 2.0**29

#: From labels so far, (n_queries,) with ABSTAIN where there is none, to a public student's probabilities, (n_queries,
#: n_classes), for all rows.
Learn = Callable[[IntArray], npt.ArrayLike]


@dataclass(frozen=True, eq=False, repr=False)
class InteractiveRelease(LabelRelease):
    """Labels of several rounds: teachers' noisy answers, and a public student's own, which are marked.

    Attributes
    ----------
    labels : int64 array of shape (n_queries,)
        Reinforced ones too.
    status : array of str, shape (n_queries,)
        ``"answered"``, ``"refused"``, ``"not asked"`` or ``"reinforced"``: refused by the teachers' test, and labelled
        by the student, which was sure. Such a label tells a student nothing but that no teacher's vote contradicted it
        enough: it is self-training, and no answer (``answered``, ``n_answered``).

    Examples
    --------
    >>> issubclass(InteractiveRelease, LabelRelease)
    True
    """

    @property
    def answered(self) -> npt.NDArray[np.bool_]:
        """Mask of the rows that teachers answered, shape (n_queries,)."""
        return np.asarray(self.status == ANSWERED)

    @property
    def reinforced(self) -> npt.NDArray[np.bool_]:
        """Mask of the rows with a label of the student's own, shape (n_queries,)."""
        return np.asarray(self.status == REINFORCED)


def label_interactively(
    session: LabelSession,
    votes: Votes,
    learn: Learn,
    *,
    n_rounds: int = 4,
    later_threshold: float | None = None,
    sure: float = 0.9,
) -> InteractiveRelease:
    """Label public rows by Interactive-GNMax, in rounds, at the price of a session of Confident-GNMax.

    Source: Papernot et al. 2018, Algorithm 2. In the first round a row is answered where the largest count passes the
    test. In later rounds a public student, which learns from the labels so far, gives probabilities p, and a row is
    answered where max (count - k p), for k teachers, passes: where teachers know better. A row that does not pass is
    labelled by the student if it is sure, and marked ``"reinforced"``.

    Parameters
    ----------
    session : LabelSession
        Of :class:`pate.ConfidentGNMax` without offsets of its own; all that is asked here is paid for with it.
    votes : Votes
        On all rows, in the order in which they are asked. **Sensitive.**
    learn : callable
        Takes the labels so far, shape (n_queries,), -1 where there is none, and returns probabilities of shape
        (n_queries, n_classes) for all rows. It may use released labels and public data, never votes.
    n_rounds : int
        Rows are asked in so many parts, as equal as can be; 1 is plain Confident-GNMax.
    later_threshold : float or None
        Votes that max (count - k p) must reach after the first round. None: half of what the first round takes, since
        the student's share is taken off. Public, as the session's threshold is.
    sure : float
        A student's largest probability above which it labels a refused row itself; 1: never.

    Returns
    -------
    InteractiveRelease
        Its quote, guarantee and statement are the whole session's; guarantee and statement are of the ledger's total
        where answers come that other releases stored. Rows that the session could not pay for are ``"not asked"``.

    Guarantees
    ----------
    The session's: replace-one, both directions, fully adaptive. The offsets k p are functions of released labels and
    public data, and whatever they are, a test costs the same certified constant and an answer another; the number of
    answers is capped. Whether a row is reinforced follows from its refusal and from p, and costs nothing more. **No
    data-dependent figure holds for such a run**: its offsets depend on earlier answers, and the sum of costs along the
    path that was taken is no theorem (docs/public-curve.md).

    Raises
    ------
    InvalidInputError
        A session of another mechanism, other votes, or a student whose probabilities are none; rounds before that are
        paid for and stored.
    LedgerError
        As of :meth:`LabelSession.ask`.

    Examples
    --------
    >>> from pate import Budget, ConfidentGNMax, Votes, open_session
    >>> mechanism = ConfidentGNMax(threshold=80, sigma_threshold=4, sigma=2)
    >>> session = open_session(
    ...     mechanism, n_queries=4, n_teachers=100, classes=2, budget=Budget(30.0, 1e-5)
    ... )
    >>> votes = Votes.from_counts([[99, 1], [1, 99], [98, 2], [3, 97]])
    >>> def learn(labels):  # a student that takes everything for class 0
    ...     return np.tile([0.95, 0.05], (len(labels), 1))
    >>> found = label_interactively(session, votes, learn, n_rounds=2)
    >>> found.status.tolist(), found.labels.tolist(), found.n_answered
    (['answered', 'answered', 'reinforced', 'answered'], [0, 1, 0, 1], 3)
    """
    mechanism = session.mechanism
    if not isinstance(mechanism, ConfidentGNMax) or mechanism.offsets is not None:
        raise InvalidInputError(f"session must be one of ConfidentGNMax without offsets, got one of {mechanism}.")
    check_votes(votes)
    n_rounds = check_int("n_rounds", n_rounds, low=1)
    sure = check_real("sure", sure, low=0, high=1)
    later = mechanism.threshold / 2 if later_threshold is None else check_real("later_threshold", later_threshold)
    if n_rounds > 1 and abs(mechanism.threshold - later) > _FARTHEST:  # before a round is asked and paid for
        raise InvalidInputError(
            f"later_threshold must be within 2^29 votes of the session's threshold of {mechanism.threshold:g}, got "
            f"{later:g}. Say what max (count - k p) must reach."
        )
    labels = np.full(votes.n_queries, ABSTAIN, dtype=np.int64)
    status = np.full(votes.n_queries, NOT_ASKED, dtype="<U10")
    last: LabelRelease | None = None
    sources: set[int] = set()
    for rows in np.array_split(np.arange(votes.n_queries), n_rounds):
        # Nothing is left: only what was stored before is still answered, such as rounds of a session taken up again.
        if last is not None and (not len(rows) or not (session.n_left or votes.query_hashes)):
            break
        p: FloatArray | None = None
        offsets: FloatArray | None = None
        if last is not None:
            p = _probabilities(learn(labels.copy()), votes)[rows]
            # A threshold of ``later`` is the session's, with the difference in every offset.
            offsets = votes.n_teachers * p - (mechanism.threshold - later)
        found = session.ask(votes.take(rows), on_exhausted="abstain", offsets=offsets)
        sources.update(found.statement.ledger_releases)
        labels[rows], status[rows] = found.labels, found.status
        if last is None or (found.status != NOT_ASKED).any():  # else it shows nothing, and no offsets
            last = found
        if p is not None:
            own = rows[(found.status == REFUSED) & (p.max(axis=1) > sure)]
            labels[own], status[own] = p.argmax(axis=1)[np.isin(rows, own)], REINFORCED
    assert last is not None
    if len(sources) > 1:  # a round took stored answers of another release: asked together, all are stored by now
        last = session.ask(votes, on_exhausted="abstain")
    statement = last.statement
    if n_own := int((status == REINFORCED).sum()):
        said = f"{n_own} refused rows carry a public student's own label, marked {REINFORCED}"
        statement = replace(statement, released=f"{statement.released}; {said}")
    session.bind(statement)
    return InteractiveRelease(
        labels, status, last.classes, last.guarantee, statement, mechanism, last.quote, None, last.counts
    )


def _probabilities(found: npt.ArrayLike, votes: Votes) -> FloatArray:
    try:
        p = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError):
        p = np.zeros(0)
    shape = votes.n_queries, votes.n_classes
    if p.shape != shape or not ((p >= 0) & (p <= 1)).all() or (np.abs(p.sum(axis=1) - 1) > 1e-6).any():
        raise InvalidInputError(
            f"learn must return probabilities of shape {shape}, whose rows sum to 1, got {shown(found)}. Rounds before "
            "this one are paid for and stored."
        )
    return p
