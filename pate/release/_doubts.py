"""Whether released labels look bad: said at once, by what is public already, with what helps.

All of it follows from released numbers and public rows, so that it is free and may be published (post-processing; Dwork
and Roth 2014, Proposition 2.1).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import TypeVar

import numpy as np

from pate.exceptions import ResultWarning
from pate.release._labels import ModelLabels, RecordLabels, ReleasedLabels
from pate.release._measured import ReleasedCounts
from pate.statement.doubts import Doubt
from pate.statement.measured import MeasuredAccuracy
from pate.statement.model import PrivacyStatement
from pate.statement.plain import as_plain_text

_Labels = TypeVar("_Labels", bound=ReleasedLabels)

#: A map of fewer public rows costs several points (docs/records.md).
FEW_PUBLIC = 100
#: Labels per class without which a class that nobody named says nothing.
_LABELS_PER_CLASS = 5
_LISTED = 5
#: A noisy class count says something above so many standard deviations.
_TOLD = 4.0


def doubted(
    release: _Labels,
    *,
    n_map: int | None = None,
    commonest: float | None = None,
    cells: ReleasedCounts | None = None,
) -> _Labels:
    """Return the release whose statement says what speaks against relying on its labels.

    Parameters
    ----------
    release : ReleasedLabels
    n_map : int or None
        Public rows that made the map by which the model reads rows; None: no public rows made one.
    commonest : float or None
        Share of the commonest class, as a person stated it.
    cells : ReleasedCounts or None
        Right and wrong by class, where that was measured: they tell the commonest class's share before all else does.

    Examples
    --------
    >>> from pate import Budget, GNMax, Votes, release_labels
    >>> votes = Votes.from_counts([[90, 8, 2]] * 15, classes=["no", "yes", "?"])
    >>> release = doubted(release_labels(votes, GNMax(sigma=2.0), budget=Budget(40.0, 1e-5)))
    >>> print(release.statement.doubts[0])
    2 of 3 classes are never named by the 15 released labels ('yes', '?'): more records or a larger budget may help.
    """
    found = (_few(n_map), _unnamed(release), _below(release, commonest, cells))
    doubts = tuple(one for one in found if one is not None)
    return replace(release, statement=replace(release.statement, doubts=doubts)) if doubts else release


def tell_doubts(statement: PrivacyStatement, *, stacklevel: int = 2) -> None:
    """Warn of every doubt of a statement.

    Warns
    -----
    ResultWarning
        One for each.

    Examples
    --------
    >>> from pate import Budget, GNMax, Votes, release_labels
    >>> votes = Votes.from_counts([[9, 1]])
    >>> sure = release_labels(votes, GNMax(sigma=9.0), budget=Budget(2.0, 1e-5)).statement
    >>> tell_doubts(sure) is None, sure.doubts
    (True, ())
    """
    for doubt in statement.doubts:
        warnings.warn(str(doubt), ResultWarning, stacklevel=stacklevel + 1)


def _few(n_map: int | None) -> Doubt | None:
    if n_map is None or n_map >= FEW_PUBLIC:
        return None
    text = (
        f"only {n_map} public rows make the map by which the model reads every row: with {FEW_PUBLIC} public rows or "
        "more it would be right more often."
    )
    return Doubt(kind="few public rows", sentence=text)


def _unnamed(release: ReleasedLabels) -> Doubt | None:
    m, labels = len(release.classes), release.labels[release.answered]
    missing = np.setdiff1d(np.arange(m), labels)
    if len(labels) < _LABELS_PER_CLASS * m or not len(missing):
        return None
    names = ", ".join(as_plain_text(repr(release.classes[i]))[:40] for i in missing[:_LISTED].tolist())
    more = f" and {len(missing) - _LISTED} more" if len(missing) > _LISTED else ""
    helps = "more records, a larger budget or decide='balanced'"
    if not isinstance(release, RecordLabels):
        helps = "more records or a larger budget"
    text = (
        f"{len(missing)} of {m} classes {'is' if len(missing) == 1 else 'are'} never named by the {len(labels):,} "
        f"released labels ({names}{more}): {helps} may help."
    )
    return Doubt(kind="classes never named", sentence=text)


def _below(release: ReleasedLabels, commonest: float | None, cells: ReleasedCounts | None) -> Doubt | None:
    told = release.statement.measured
    share, how = _commonest(release, commonest, cells)
    if told is None or share is None or told.estimate > share:
        return None
    text = (
        f"the model is right on {told.estimate:.1%}, {_how_far(told, share)} the {share:.1%} that always naming the "
        f"commonest class would reach ({how}): take more records, a larger budget or fewer classes."
    )
    return Doubt(kind="below the commonest", sentence=text)


def _how_far(told: MeasuredAccuracy, share: float) -> str:
    return "below" if told.high < share else "which is not above"


def _commonest(
    release: ReleasedLabels, commonest: float | None, cells: ReleasedCounts | None
) -> tuple[float | None, str]:
    """Return the share of the commonest class, as well as anybody knows it who knows only what is public."""
    if cells is not None:
        m = len(release.classes)
        counts = cells.noisy[:m] + cells.noisy[m:]
        total = float(cells.facts.n or counts.sum())
        if counts.max() > _TOLD * math.sqrt(2) * cells.sigma and total > 0:
            return min(1.0, float(counts.max()) / total), "by the noisy counts of each class"
    if commonest is not None:
        return commonest, "as stated"
    if isinstance(release, ModelLabels) and len(release.probability):
        return float(release.probability.mean(axis=0).max()), "by the released labels' mean probabilities"
    return None, ""
