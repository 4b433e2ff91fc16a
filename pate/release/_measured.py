"""What noisy counts of right answers say of a model's accuracy: the correction, the interval, and when it is useful.

A model learns from the records that it is then measured on. Differential privacy bounds how much too good that looks,
and does not make it nothing; the correction here is what development tables showed: its constants are fitted, and how
often the interval holds is measured, by ``experiments/defaults.py``. All of it is post-processing of the
released counts and of public numbers (Dwork and Roth 2014, Proposition 2.1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from pate._core.checks import check_int
from pate._core.curator import warn
from pate._core.types import FloatArray
from pate.exceptions import InvalidInputError, ResultWarning
from pate.mechanisms import GaussianSum
from pate.records import RightFacts
from pate.records.ballot_sum import GRID
from pate.release._labels import ModelLabels, RecordLabels, ReleasedLabels
from pate.release.statement.fields import ClassRecall, Doubt, MeasuredAccuracy
from pate.release.statement.model import PrivacyStatement
from pate.release.statement.plain import as_plain_text

#: Part of mu^2 that the count costs, and the cells by class again.
SHARE = 0.04
#: Measured by default, if noise alone leaves an interval of less than this to either side.
USEFUL = 0.05
#: Of the interval: 95%.
LEVEL, _QUANTILE = 0.95, 1.959963984540054
#: A class is reported where its noisy count is more than so many standard deviations of the noise in it (two cells).
#: The correction is SIZE sqrt(a (1 - a) d (m - 1)/n) E/(E + _HALF); so large is its own uncertainty as a part of it.
SIZE, _HALF, _SPREAD = 0.2, 20.0, 1 / 1.5
#: Of a student of labels that teachers gave, whom a record reaches through the vote of one teacher alone.
SIZE_OF_LABELS = 0.03
#: Components d = _COMPONENTS (E/20)^.75, at least and at most so many: what a model of E can have learnt.
_COMPONENTS, _POWER, _FEWEST, _MOST = 17.0, 0.75, 16.0, 256.0


@dataclass(frozen=True, eq=False)
class ReleasedCounts:
    """Counts of right answers with their noise: public.

    Attributes
    ----------
    facts : RightFacts
    noisy : float64 array of shape (n_cells,)
        In units.
    sigma : float
        Standard deviation of the noise on each.
    statement : PrivacyStatement or None
        Of all that was paid with them.

    Examples
    --------
    >>> facts = RightFacts(
    ...     by_class=False, classes=(0, 1), unit="record", adjacency="replace-one", n=9
    ... )
    >>> found = ReleasedCounts.of([2.0 * GRID], facts, GaussianSum(3.0), None)
    >>> found.noisy, found.sigma
    (array([2.]), 3.0)
    """

    facts: RightFacts
    noisy: FloatArray
    sigma: float
    statement: PrivacyStatement | None = None

    @classmethod
    def of(
        cls,
        drawn: npt.ArrayLike,
        facts: RightFacts,
        mechanism: GaussianSum,
        statement: PrivacyStatement | None,
        *,
        scale: float | None = None,
    ) -> ReleasedCounts:
        """Return the release of noisy whole numbers that are paid for and stored; ``scale`` as for ballots."""
        noisy = np.asarray(drawn, dtype=np.float64).ravel() / GRID
        scale = mechanism.scale(facts.delta_squared) if scale is None else scale
        return cls(facts, noisy, scale / GRID, statement)


def correction(accuracy: float, *, n: int, n_classes: int, mu: float, size: float = SIZE) -> float:
    """Return by how much a model looks too good on the records that it learnt from.

    b = s sqrt(a (1 - a) d (m - 1)/n) E/(E + 20), with evidence E = n mu/(m sqrt 2) and d components: sampling error of
    d (m - 1) numbers per record, of which little was learnt where noise was large. A law fitted to development tables,
    not a theorem.
    """
    n, m = check_int("n", n, low=1), check_int("n_classes", n_classes, low=2)
    a = min(max(accuracy, 0.0), 1.0)
    evidence = n * mu / (m * math.sqrt(2))
    d = min(max(_COMPONENTS * (evidence / 20) ** _POWER, _FEWEST), _MOST)
    found = size * math.sqrt(a * (1 - a) * d * (m - 1) / n) * evidence / (evidence + _HALF)
    return min(found, a - min(a, 1 / m))  # never below guessing


def check_measure(measure: Any) -> bool | str | None:
    """Return ``measure`` if it is one of those there are.

    Examples
    --------
    >>> check_measure("by class")
    'by class'
    >>> check_measure(1)
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: measure must be None, True, False or 'by class', got 1. ...
    """
    if measure is None or isinstance(measure, bool) or (isinstance(measure, str) and measure == "by class"):
        return measure
    raise InvalidInputError(
        f"measure must be None, True, False or 'by class', got {measure!r}. None measures accuracy where that is worth "
        "its price."
    )


def noise_half_width(n: int, mu: float, share: float = SHARE) -> float:
    """Return the half width that noise alone gives a measured accuracy: 1.96/(n mu sqrt(share))."""
    return _QUANTILE / (n * mu * math.sqrt(share))


def measured_shares(measure: bool | str | None, *, n: int, mu: float) -> tuple[float, ...]:
    """Return the parts of mu^2 that measuring takes: none, the count's, or the count's and the cells'.

    A public decision, by numbers that are known before any record is read.

    Examples
    --------
    >>> measured_shares(None, n=300, mu=0.268), measured_shares(None, n=3_000, mu=0.268)
    ((), (0.04,))
    >>> measured_shares("by class", n=300, mu=0.268)
    (0.04, 0.04)
    """
    measure = check_measure(measure)
    if measure is None:
        measure = noise_half_width(n, mu) < USEFUL
    if not measure:
        return ()
    return (SHARE, SHARE) if measure == "by class" else (SHARE,)


def measured_accuracy(
    counts: Sequence[ReleasedCounts], *, mu: float, share: float, size: float = SIZE
) -> MeasuredAccuracy:
    """Return the accuracy of a model, its interval and recall by class, from released noisy counts; costs no privacy.

    Parameters
    ----------
    counts : sequence of ReleasedCounts
        The count, and perhaps the cells by class.
    mu : float
        What the model cost, for the correction.
    share : float
        Part of mu^2 that the counts cost.
    size : float
        See :func:`correction`.

    Notes
    -----
    The estimate is a - b, a the noisy share and b the correction; its variance sigma^2/n^2 + a (1 - a)/n + (b/1.5)^2
    adds noise, the sample that the records are of what comes later, and the spread of the correction. Under
    add-or-remove a = R/(R + W) of noisy right and wrong counts, whose noise has variance
    sigma^2 (a^2 + (1 - a)^2)/(R + W)^2 (to first order). A class is reported where its noisy count exceeds
    4 sqrt 2 sigma. Of units of several tiers n is what all weigh together, at most Kish's effective number
    (sum w)^2/sum w^2, so that the sampling error is not understated; the share is of units by weight.

    Examples
    --------
    >>> facts = RightFacts(
    ...     by_class=False, classes=(0, 1), unit="record", adjacency="replace-one", n=9_000
    ... )
    >>> found = measured_accuracy(
    ...     [ReleasedCounts(facts, np.array([8_100.0]), 18.6)], mu=0.268, share=0.04
    ... )
    >>> found.counted, found.low < found.estimate < found.high, round(found.half_width, 3)
    (0.9, True, 0.015)
    """
    facts, noisy, sigma = counts[0].facts, counts[0].noisy, counts[0].sigma
    m, counted = len(facts.classes), facts.counted
    total = float(noisy.sum()) if counted else float(facts.weight)
    a = float(noisy[0]) / total if total > sigma else 0.5
    inside = min(max(a, 0.0), 1.0)
    n = max(1, round(total)) if total > sigma else 1
    b = correction(inside, n=n, n_classes=max(m, 2), mu=mu, size=size)
    low, estimate, high = _interval(a, b, n, sigma, n_is_noisy=counted)  # of units that weigh less than one: wider
    cells = () if len(counts) < 2 else _recalls(counts[1], b)
    return MeasuredAccuracy(
        estimate=estimate,
        low=low,
        high=high,
        level=LEVEL,
        unit=facts.unit,
        n=None if counted else facts.n,
        counted=a,
        correction=b,
        sigma=sigma,
        share=share,
        by_class=cells,
    )


def _interval(share: float, b: float, n: float, sigma: float, *, n_is_noisy: bool) -> tuple[float, float, float]:
    """Return low, estimate and high, within 0 to 1, of a noisy share of n, corrected by b."""
    inside = min(max(share, 0.0), 1.0)
    noise = sigma / n * (math.hypot(inside, 1 - inside) if n_is_noisy else 1.0)
    # A share of zero or one is no share without sampling error: one record more of either kind.
    sampling = max(inside * (1 - inside), 1 / (n + 2)) / n
    error = math.sqrt(noise**2 + sampling + (_SPREAD * b) ** 2)
    low, high = (min(max(share - b + side * _QUANTILE * error, 0.0), 1.0) for side in (-1, 1))
    return low, min(max(inside - b, low), high), high


def _recalls(cells: ReleasedCounts, b: float) -> tuple[ClassRecall, ...]:
    """Return the recall of every class whose noisy count is large enough, corrected as the whole is."""
    facts, sigma, m = cells.facts, cells.sigma, len(cells.facts.classes)
    right, all_of = cells.noisy[:m], cells.noisy[:m] + cells.noisy[m:]
    found = []
    for value, hits, n in zip(facts.classes, right.tolist(), all_of.tolist(), strict=True):
        name = as_plain_text(value)
        if n <= _CLEAR * math.sqrt(2) * sigma or n < 1:
            found.append(ClassRecall(name=name))
            continue
        low, estimate, high = _interval(hits / n, b, n, sigma, n_is_noisy=True)
        found.append(ClassRecall(name=name, estimate=estimate, low=low, high=high))
    return tuple(found)


# Whether released labels look bad: said at once, by what is public already, with what helps.

_Labels = TypeVar("_Labels", bound=ReleasedLabels)

#: A map of fewer public rows costs several points (docs/records.md).
FEW_PUBLIC = 100
#: Labels per class without which a class that no one named says nothing.
_LABELS_PER_CLASS = 5
_LISTED = 5
#: A noisy class count says something above so many standard deviations.
_CLEAR = 4.0


def doubted(
    release: _Labels,
    *,
    n_map: int | None = None,
    commonest: float | None = None,
    cells: ReleasedCounts | None = None,
    balanced: bool = False,
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
        Right and wrong by class, where that was measured: they give the commonest class's share before all else does.
    balanced : bool
        Decisions give up accuracy for the rare classes, as was asked for: that always naming the commonest class is
        right more often then speaks against nothing.

    Examples
    --------
    >>> from pate import Budget, GNMax, Votes, release_labels
    >>> votes = Votes.from_counts([[90, 8, 2]] * 15, classes=["no", "yes", "?"])
    >>> release = doubted(
    ...     release_labels(votes, GNMax(sigma=2.0), budget=Budget(40.0, 1e-5))
    ... )
    >>> print(release.statement.doubts[0])
    2 of 3 classes are never named by the 15 released labels ('yes', '?'): more records or a larger budget may help.
    """
    below = None if balanced else _below(release, commonest, cells)
    found = (_few(n_map), _unnamed(release, balanced), below)
    new = tuple(one for one in found if one is not None)
    kept = tuple(one for one in release.statement.doubts if one.kind not in {doubt.kind for doubt in new})
    return replace(release, statement=replace(release.statement, doubts=(*kept, *new))) if new else release


def doubt_named(classes: Sequence[Any], labels: npt.ArrayLike, rows: str) -> tuple[Doubt, ...]:
    """Return a doubt where a model, asked about public or made-up ``rows``, never names a class; else nothing.

    Examples
    --------
    >>> [str(one) for one in doubt_named(["no", "yes"], [0] * 99, "99 public rows")]
    ["1 of 2 classes is never named by the model, asked about 99 public rows ('yes'): more records or a larger ..."]
    """
    missing, m = np.setdiff1d(np.arange(len(classes)), labels), len(classes)
    if np.size(labels) < _LABELS_PER_CLASS * m or not len(missing):
        return ()
    text = (
        f"{len(missing)} of {m} classes {'is' if len(missing) == 1 else 'are'} never named by the model, asked about "
        f"{rows} ({_names(classes, missing)}): more records or a larger budget may help."
    )
    return (Doubt(kind="classes never named", sentence=text),)


def warn_of_doubts(statement: PrivacyStatement) -> None:
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
    >>> warn_of_doubts(sure) is None, sure.doubts
    (True, ())
    """
    for doubt in statement.doubts:
        warn(str(doubt), ResultWarning)


def warn_of_student(release: ReleasedLabels, said: npt.ArrayLike | None) -> None:
    """Warn of classes that a student of released labels never names, where the labels' own doubts do not say so.

    ``said`` are its classes, as indices, of all public rows; None of a model that is no student: its labels are those
    that were released.

    Warns
    -----
    ResultWarning

    Examples
    --------
    >>> from pate import Budget, GNMax, Votes, release_labels
    >>> votes = Votes.from_counts([[90, 8], [8, 90]] * 5, classes=["no", "yes"])
    >>> release = release_labels(votes, GNMax(sigma=2.0), budget=Budget(40.0, 1e-5))
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_of_student(release, [0] * 500)
    >>> print(caught[0].message)
    the student names 1 of 2 classes on none of the 500 public rows ('yes'): more records or a larger budget may help.
    """
    if said is None:
        return
    m, said = len(release.classes), np.asarray(said).ravel()
    named = np.arange(m) if _unnamed(release) is None else release.labels[release.answered]
    missing = np.setdiff1d(named, said)
    if len(said) >= _LABELS_PER_CLASS * m and len(missing):
        warn(
            f"the student names {len(missing)} of {m} classes on none of the {len(said):,} public rows "
            f"({_names(release.classes, missing)}): more records or a larger budget may help.",
            ResultWarning,
        )


def _names(classes: Sequence[Any], which: npt.NDArray[Any]) -> str:
    names = ", ".join(as_plain_text(repr(classes[i]))[:40] for i in which[:_LISTED].tolist())
    return names + (f" and {len(which) - _LISTED} more" if len(which) > _LISTED else "")


def _few(n_map: int | None) -> Doubt | None:
    if n_map is None or n_map >= FEW_PUBLIC:
        return None
    rows = "row makes" if n_map == 1 else "rows make"
    text = (
        f"only {n_map} public {rows} the map by which the model reads every row: with {FEW_PUBLIC} public rows or "
        "more it would be right more often."
    )
    return Doubt(kind="few public rows", sentence=text)


def _unnamed(release: ReleasedLabels, balanced: bool = False) -> Doubt | None:
    m, labels = len(release.classes), release.labels[release.answered]
    missing = np.setdiff1d(np.arange(m), labels)
    if len(labels) < _LABELS_PER_CLASS * m or not len(missing):
        return None
    helps = "more records, a larger budget or decide='balanced'"
    if balanced or not isinstance(release, RecordLabels):
        helps = "more records or a larger budget"
    text = (
        f"{len(missing)} of {m} classes {'is' if len(missing) == 1 else 'are'} never named by the {len(labels):,} "
        f"released labels ({_names(release.classes, missing)}): {helps} may help."
    )
    return Doubt(kind="classes never named", sentence=text)


def _below(release: ReleasedLabels, commonest: float | None, cells: ReleasedCounts | None) -> Doubt | None:
    found = release.statement.measured
    share, how = _commonest(release, commonest, cells)
    if found is None or share is None or found.estimate > share:
        return None
    how_far = "below" if found.high < share else "which is not above"
    text = (
        f"the model is right on {found.estimate:.1%}, {how_far} the {share:.1%} that always naming the "
        f"commonest class would reach ({how}): take more records, a larger budget or fewer classes."
    )
    return Doubt(kind="below the commonest", sentence=text)


def _commonest(
    release: ReleasedLabels, commonest: float | None, cells: ReleasedCounts | None
) -> tuple[float | None, str]:
    """Return the share of the most common class, estimated from public facts alone."""
    if cells is not None:
        m = len(release.classes)
        counts = cells.noisy[:m] + cells.noisy[m:]
        total = float(cells.facts.weight or counts.sum())
        if counts.max() > _CLEAR * math.sqrt(2) * cells.sigma and total > 0:
            return min(1.0, float(counts.max()) / total), "by the noisy counts of each class"
    if commonest is not None:
        return commonest, "as stated"
    if isinstance(release, ModelLabels) and len(release.probability) >= _LABELS_PER_CLASS * len(release.classes):
        return float(release.probability.mean(axis=0).max()), "by the released labels' mean probabilities"
    return None, ""
