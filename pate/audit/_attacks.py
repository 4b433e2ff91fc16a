"""Membership inference attacks on any classifier: shadow models with LiRA, RMIA, the loss or labels alone."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pate._core.checks import check_choice, check_int, check_labels, check_real, shown
from pate._core.frames import plain_column, plain_rows
from pate._core.secret import training_seed
from pate._core.types import FloatArray, Mask
from pate.audit._claims import Claim
from pate.audit._one_run import ceiling
from pate.audit._shadows import (
    ATTACKS,
    Answers,
    Interval,
    Material,
    Roc,
    ShadowFolder,
    Units,
    check_estimator,
    draw_halves,
    roc_of,
    scores,
    shadows_of,
    share_above,
)
from pate.data import read_rows
from pate.exceptions import InvalidInputError
from pate.privacy.words import Guarantee
from pate.report.audit_result import AuditResult, Curve, Figure, Picture
from pate.teachers.checkpoints import recipe_key

__all__ = ["attack"]


# Membership inference by shadow models: on which records was a model fitted?

# What is claimed of the models that are attacked: by the caller, or by the models' own statements.

#: Beyond it the guarantee of two steps is too weak to be measured.
_MOST_EPSILON = 250.0


@dataclass(frozen=True)
class Ceiling:
    """The claim that attacks are compared with; None where there is none."""

    claim: Claim | None
    words: str
    remark: str = ""  # what to add to the limits


def promised(given: Any, promises: Sequence[dict[str, Any]], unit: str) -> Ceiling:
    """Return the claim for attacks on models fitted on halves of a fixed size.

    **Guarantees.** Replacing a unit is two steps of an adjacency whose step adds, removes or empties one unit: P
    <= e^epsilon (e^epsilon Q + delta) + delta.
    """
    if given is not None:
        if isinstance(given, Guarantee) and given.adjacency != "replace-one" and given.kind != "data-dependent":
            return _two_steps(Claim.of(given), given.epsilon, given.delta, given.adjacency, unit)
        claim = Claim.of(given)
        return Ceiling(claim, str(claim))
    if not all(promises):
        return Ceiling(None, "nothing")
    if any(p["seeded"] for p in promises):
        return Ceiling(None, "nothing", " Their noise is seeded: they guarantee nothing.")
    if {p["unit"] for p in promises} != {unit}:
        other = "record" if unit == "group" else "group"
        return Ceiling(None, "nothing", f" The models protect one {other}, not one {unit}: no ceiling is drawn.")
    weakest = max(promises, key=lambda p: (p["epsilon"], p["delta"]))
    epsilon, delta = weakest["epsilon"], max(p["delta"] for p in promises)
    claim = Claim.of((epsilon, delta))
    if weakest["adjacency"] == "replace-one":
        return Ceiling(claim, str(claim))
    return _two_steps(claim, epsilon, delta, weakest["adjacency"], unit)


def _two_steps(claim: Claim, epsilon: float, delta: float, adjacency: str, unit: str) -> Ceiling:
    if epsilon > _MOST_EPSILON:
        return Ceiling(claim, f"{claim} ({adjacency})", " So large an epsilon sets no ceiling.")
    replaced = (1 + math.exp(epsilon)) * delta
    if replaced >= 1:
        return Ceiling(None, f"{claim} ({adjacency})", f" Where a {unit} is replaced, that sets no ceiling.")
    twice = Claim.of((2 * epsilon, replaced))
    text = f"({2 * epsilon:.6g}, {replaced:.6g})-DP"
    return Ceiling(twice, f"{claim} ({adjacency}), {text} where a {unit} is replaced")


# A sequential test of the claim: a bet against it, pair after pair of targets.

#: False positive rates whose thresholds are bet on.
_RATES = np.array([0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3])
#: Epsilons whose e^epsilon is m, beside the claim's own at the usual deltas.
_EPSILONS = (0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0)
_DELTAS = (1e-5, 1e-3, 1e-2, 1e-1)
#: Shares of the largest stake that cannot lose everything.
_STAKES = np.array([0.1, 0.3, 0.6, 0.95])


def wealth_against(claim: Claim, scores: FloatArray, member: Mask) -> FloatArray:
    """Return the wealth after each pair of targets."""
    slopes, allowed = _lines(claim)
    inside, outside = ([np.sort(row[of]) for row, of in zip(scores, side, strict=True)] for side in (member, ~member))
    stakes = _STAKES / (slopes + allowed)[:, None]  # (n_lines, n_stakes)
    wealth, made = 1.0, [1.0]
    for pair in range(1, len(scores) // 2):
        past = slice(0, 2 * pair)
        ranked = np.sort(np.concatenate(outside[past]))[::-1]
        # The least thresholds that leave at most those shares of the scores above them.
        thresholds = np.nextafter(ranked[np.floor(_RATES * len(ranked)).astype(int)], np.inf)
        gain = _gains(inside[past], outside[past], thresholds, slopes, allowed)  # (n_pairs, n_thresholds, n_lines)
        growth = np.log1p(gain[..., None] * stakes).mean(axis=0)
        if growth.max() > 0:
            t, line, stake = np.unravel_index(int(growth.argmax()), growth.shape)
            now = slice(2 * pair, 2 * pair + 2)
            won = _gains(inside[now], outside[now], thresholds[t : t + 1], slopes[[line]], allowed[[line]]).item()
            wealth *= 1.0 + won * float(stakes[line, stake])
        made.append(wealth)
    return np.array(made)


def most_wealth(claim: Claim, n_targets: int) -> float:
    """Return the largest possible wealth of the bet: every unit of every target is classified rightly."""
    slopes, allowed = _lines(claim)
    best = float(np.max(1 + (1 - allowed) * _STAKES.max() / (slopes + allowed)))
    return math.exp(min((n_targets // 2 - 1) * math.log(best), 700.0))


def _lines(claim: Claim) -> tuple[FloatArray, FloatArray]:
    epsilons = {*_EPSILONS, *(e for e in map(claim.epsilon, _DELTAS) if e < 30)}
    found = [(math.exp(e), claim.delta(e)) for e in sorted(epsilons)]
    slopes, allowed = np.array(found).T
    return slopes, allowed


def _gains(
    inside: list[FloatArray], outside: list[FloatArray], thresholds: FloatArray, slopes: FloatArray, allowed: FloatArray
) -> FloatArray:
    found, alarms = (np.array([share_above(row, thresholds) for row in side]) for side in (inside, outside))
    each = found[..., None] - slopes * alarms[..., None] - allowed
    return np.asarray((each[0::2] + each[1::2]) / 2)


# Results of attacks, as figures and a picture.

#: False positive rates that are reported, and their names.
RATES = {0.01: "1%", 0.001: "0.1%"}
_N_EXPOSED = 10
_N_POINTS = 40


def figures_of(
    rocs: Mapping[str, Roc], claim: Claim | None, level: float, log_e: float | None, accuracies: tuple[float, float]
) -> list[Figure]:
    """Return the figures of all targets together."""
    figures = []
    for kind, roc in rocs.items():
        found: dict[str, Interval | None] = {"AUC": roc.auc(level)}
        found |= {f"true positives at {words} false positives": roc.at(rate, level) for rate, words in RATES.items()}
        values = {name: {} if one is None else {**vars(one), "level": level} for name, one in found.items()}
        figures += [Figure(name=name, of=kind, **one) for name, one in values.items()]
    if claim is not None:
        most = zip(RATES.values(), claim.true_positives(list(RATES)).tolist(), strict=True)
        name = "most the claim allows at {} false positives"
        figures += [Figure(name=name.format(words), value=value, of="the claim") for words, value in most]
    if log_e is not None:
        figures.append(Figure(name="log e-value", value=log_e, of=", ".join(rocs)))
    halves = zip(("its half", "the other records"), accuracies, strict=True)
    return figures + [Figure(name=f"accuracy on {words}", value=v, of="shadow models") for words, v in halves]


def exposed(
    found: Mapping[str, FloatArray], rocs: Mapping[str, Roc], member: Mask, units: Units, groups: Any
) -> list[Figure]:
    """Return the units that the attack with the largest AUC finds most often, at one threshold for all."""
    kind = max(rocs, key=lambda name: rocs[name].auc(0.95).value)
    above = found[kind] >= rocs[kind].threshold(0.01)
    n_in = member.sum(axis=0)
    hits = (above & member).sum(axis=0) / np.maximum(n_in, 1)
    alarms = (above & ~member).sum(axis=0) / np.maximum(len(member) - n_in, 1)
    gap = np.where((n_in > 0) & (n_in < len(member)), hits - alarms, 0.0)
    names = None if groups is None else plain_column(groups, name="groups")
    figures = []
    for unit in np.argsort(-gap, kind="stable")[: min(_N_EXPOSED, int((gap > 0).sum()))]:
        row = int(units.first[unit])
        who = f"record {row}" if names is None else f"group {list(names)[row]}"
        figures.append(Figure(name="found at 1% false positives", value=float(hits[unit]), of=who, estimate=True))
    return figures


def picture_of(rocs: Mapping[str, Roc], claim: Claim | None, level: float) -> Picture:
    """Return the ROC on log axes, under the ceiling."""
    n_out = min(roc.n_out for roc in rocs.values())
    rates = np.geomspace(min(10 / n_out, 0.1), 1.0, _N_POINTS)
    curves = []
    for kind, roc in rocs.items():
        points = [p for p in ((r, roc.at(float(r), level)) for r in rates) if p[1] is not None]
        x, y, low, high = np.array([(r, p.value, p.low, p.high) for r, p in points if p is not None]).T
        curves.append(Curve(label=kind, x=x.tolist(), y=y.tolist(), low=low.tolist(), high=high.tolist()))
    curves += ceiling(claim, rates, "most the claim allows")
    return Picture(x_label="false positive rate", y_label="true positive rate", scale="log", curves=tuple(curves))


def in_words(figures: list[Figure], kinds: tuple[str, ...], *, refuted: bool) -> str:
    """Return the main finding, in a sentence."""
    prefix = "the claim is refuted: " if refuted else ""
    name = f"true positives at {RATES[0.01]} false positives"
    rates = [f for f in figures if f.name == name and f.value is not None and f.of in kinds]
    best = max(rates or (f for f in figures if f.name == "AUC"), key=lambda f: f.value or 0.0)
    if not rates:
        return f"{prefix}{best.of} has an AUC of {best.value:.3f} ({best.low:.3f} to {best.high:.3f})"
    value, low, high = (f"{100 * (share or 0.0):.1f}%" for share in (best.value, best.low, best.high))
    return f"{prefix}{best.of} finds {value} of the members ({low} to {high}) at {RATES[0.01]} false positives"


#: Standard deviations of the noise on the copies of a record, in those of each column.
_NOISES = (0.1, 0.2, 0.4, 0.8)
_COPIES = 0xC0B1
#: Shadow models, and targets: with fewer pairs there is nothing to compare with, or no interval.
_FEWEST = 8
_LIMITS = (
    "It shows what these attacks find on models fitted on random halves of these records: one that fails proves "
    "nothing, as a stronger attack, a crafted record or a look at more than the model's answers may find more."
)
#: For a claim, or with too few targets, for which no outcome could refute.
_BLUNT = (
    " No outcome of so few targets could have refuted this claim at so few false alarms: that it stood says nothing."
)


def attack(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    X_public: Any = None,
    groups: Any = None,
    attack: str | Iterable[str] = "lira",
    n_shadows: int = 128,
    targets: int | None = None,
    claim: Any = None,
    level: float = 0.95,
    false_alarms: float = 1e-3,
    n_jobs: int | None = None,
    random_state: int | None = None,
    checkpoint_dir: str | os.PathLike[str] | None = None,
    published: bool = False,
    verbose: bool = False,
) -> AuditResult:
    """Attack an estimator by membership inference: guess which records its models were fitted on.

    ``n_shadows`` clones of the estimator (shadow models) are fitted on random halves of the records, in pairs that
    share no record. Each clone is attacked in turn; the attacker compares it with the models of all other pairs, which
    were fitted in the same way on as many records, half of them with a given record and half without.

    Parameters
    ----------
    estimator : unfitted classifier, or ensemble of teachers
        Any estimator with ``fit(X, y)``, with ``X_public`` and ``groups`` where its ``fit`` takes them, and answers
        by ``predict_proba``, ``decision_function``, ``vote`` or ``predict``. Its noise comes from the operating system.
    X : array of shape (n_records, ...), DataFrame, sparse matrix or texts
        Every record is attacked, in every target.
    y : array-like of shape (n_records,)
        Class values.
    attack : {"lira", "lira-offline", "rmia", "loss", "label-only"}, several of them, or "all"
        LiRA (Carlini et al. 2022), RMIA (Zarifzadeh et al. 2024), the loss alone (Yeom et al. 2018), or labels of noisy
        copies alone (Choquette-Choo et al. 2021). Several cost little more than one: the fits are the same.
    groups : array-like of shape (n_records,) or None
        The owner of each record: a person's records are then in one half, and persons are attacked, by the mean over
        their records.
    n_shadows : int
        Even, and at least 8. From 64 on each record has a variance of its own.
    targets : int or None
        How many of the shadow models are attacked; None: all.
    claim : None, Claim, Guarantee, Budget, Charge or (epsilon, delta)
        The claim, for one record (with ``groups``: one person) *replaced* by another. None takes
        the guarantees of the shadow models' statements, if they have any; those of another adjacency are converted.
    X_public : as X, or None
        For estimators whose ``fit`` takes public rows.
    level : float
        Confidence of the intervals.
    false_alarms : float
        The probability, at most, that a true claim is refuted.
    n_jobs : int or None
        How many shadow models are fitted in parallel, as in joblib.
    random_state : int or None
        Seed of halves and training, never of privacy noise.
    checkpoint_dir : path or None
        Folder for finished shadow models' answers, so that a killed attack can be resumed and other attacks or more
        shadow models can use them; private, as the records are.
    published : bool
        The records are published or made up, so that what is found is no secret.
    verbose : bool
        Show progress.

    Returns
    -------
    AuditResult
        Figures, each with its attack in ``of``: "AUC", "true positives at 1% false positives", "true positives at 0.1%
        false positives" (None with too few records), "most the claim allows at ...", "log e-value",
        and the ten records (persons) that are "found at 1% false positives" most often. Those ten were picked by that
        number, so that it is too high for them: an estimate.

    Raises
    ------
    InvalidInputError
        Too few records or shadow models, an estimator with seeded noise, a ledger or a folder of its own, or data that
        do not go together.

    Notes
    -----
    **Guarantees.** Halves have a fixed size, so that a target with a record and one without it are neighbours by
    replacement, mixed over the others: a true claim bounds the true positive rate at every false positive rate.
    Intervals are about further models fitted on halves of these very records: a jackknife that leaves pairs of models
    out, as targets and as what others are compared with, for the targets of one attack share these. ``refuted`` does
    not depend on them: it is a bet against the claim, pair after pair, in which each pair is attacked by the models
    before it alone, and which a true claim lets win with probability ``false_alarms`` at most.

    An attack is an access to private data, and not a release: nothing here is charged, nor counted as a fit of
    ``estimator``. Publish :meth:`AuditResult.cited` at most.

    Examples
    --------
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(200, 5)), rng.integers(2, size=200)
    >>> found = attack(
    ...     KNeighborsClassifier(1),
    ...     X,
    ...     y,
    ...     n_shadows=16,
    ...     claim=(1.0, 1e-5),
    ...     random_state=0,
    ...     published=True,
    ... )
    >>> (
    ...     found["AUC"].value > 0.7,
    ...     found["most the claim allows at 1% false positives"].value.__round__(4),
    ... )
    (True, 0.0272)
    >>> attack(KNeighborsClassifier(1), X, y, n_shadows=3)
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: n_shadows must be a whole number >= 8, got 3. ...
    """
    began = time.monotonic()
    kinds = _kinds(attack)
    n_shadows, targets = _numbers(n_shadows, targets)
    level = check_real("level", level, low=0.5, high=1, low_open=True, high_open=True)
    false_alarms = check_real("false_alarms", false_alarms, low=0, high=0.5, low_open=True)
    mould = check_estimator(estimator, X_public)
    rows = read_rows(plain_rows(X))
    units = Units.made(rows.shape[0], groups)
    labels = check_labels("y", plain_column(y), rows.shape[0])
    if len(set(labels.tolist())) < 2:
        raise InvalidInputError(
            "y must hold at least two classes. A model of one class reveals nothing about its records."
        )
    public = None if X_public is None else plain_rows(X_public, name="X_public")
    who = None if groups is None else np.asarray(units.of)
    if claim is not None:
        promised(claim, [], units.name)  # refused before anything is fitted
    seed, stored = _begun(checkpoint_dir, mould, (rows, labels, public, who), random_state)
    copies = _copies(rows, seed) if "label-only" in kinds else None
    material = Material(mould, rows, labels, who, public, copies, seed)
    halves = draw_halves(units.n, n_shadows, seed)
    shadows = shadows_of(
        material, [np.flatnonzero(h[units.of]) for h in halves], n_jobs=n_jobs, folder=stored, verbose=verbose
    )
    robust = None if copies is None else units.mean(np.stack([s.robust for s in shadows if s.robust is not None]))
    answers = Answers(units.mean(np.stack([s.logit for s in shadows])), halves, robust)
    held = promised(claim, [s.promise for s in shadows], units.name)
    attacked = np.arange(n_shadows - targets, n_shadows)  # the last, so that a bet has others before it
    members = halves[attacked]
    rocs, found = {}, {}
    for kind in kinds:
        rocs[kind], found[kind] = roc_of(kind, answers, attacked)
    log_e, refuted, blunt = None, False, ""
    if held.claim is not None:
        bets = [wealth_against(held.claim, scores(k, answers, attacked, earlier=True), members) for k in kinds]
        best = float(np.mean(bets, axis=0).max())  # a mean of such wealths is one
        log_e, refuted = math.log(best), best >= 1 / false_alarms
        blunt = _BLUNT if most_wealth(held.claim, targets) < 1 / false_alarms else ""
    right, inside = np.stack([s.right for s in shadows]), halves[:, units.of]
    figures = figures_of(rocs, held.claim, level, log_e, (right[inside].mean(), right[~inside].mean()))
    figures += exposed(found, rocs, members, units, groups)
    name = type(mould).__name__
    return AuditResult(
        layer="attack",
        target=name,
        claim=held.words,
        tried=(
            f"membership inference by {', '.join(kinds)} on {targets} models of {name}, each fitted on half of the "
            f"{units.name}s, with {n_shadows - 2} other models to compare with"
        ),
        refuted=refuted,
        finding=in_words(figures, kinds, refuted=refuted),
        false_alarms=false_alarms if held.claim is not None else None,
        n_releases=n_shadows,
        seconds=time.monotonic() - began,
        limits=_LIMITS + held.remark + blunt,
        figures=tuple(figures),
        picture=picture_of(rocs, held.claim, level),
        settings={
            "attack": tuple(kinds),
            "n_shadows": n_shadows,
            "targets": targets,
            "unit": units.name,
            "n_units": units.n,
            "random_state": random_state,
        },
        sensitive=not published or (held.claim is not None and held.claim.sensitive),
    )


def _kinds(attack: str | Iterable[str]) -> tuple[str, ...]:
    if not isinstance(attack, Iterable):
        known = ", ".join(map(repr, ATTACKS))
        raise InvalidInputError(f"attack must be one of {known}, 'all', or several of them, got {shown(attack)}.")
    kinds = [attack] if isinstance(attack, str) else list(attack)
    if not kinds:
        raise InvalidInputError("attack must name one attack at least, got none. Try attack='lira'.")
    named = dict.fromkeys(check_choice("attack", kind, (*ATTACKS, "all")) for kind in kinds)
    return ATTACKS if "all" in named else tuple(named)


def _numbers(n_shadows: Any, targets: Any) -> tuple[int, int]:
    remedy = "Halves come in pairs, and each pair is attacked with the others; 128 give useful intervals."
    n_shadows = check_int("n_shadows", n_shadows, low=_FEWEST, remedy=remedy)
    remedied: dict[str, Any] = {"low": _FEWEST, "high": n_shadows, "remedy": remedy}
    targets = n_shadows if targets is None else check_int("targets", targets, **remedied)
    for name, value in (("n_shadows", n_shadows), ("targets", targets)):
        if value % 2:
            raise InvalidInputError(f"{name} must be even, got {value}. {remedy}")
    return n_shadows, targets


def _begun(
    folder: Any, mould: Any, data: tuple[Any, Any, Any, Any], random_state: int | None
) -> tuple[int, ShadowFolder | None]:
    if folder is None:
        return training_seed(random_state), None
    rows, labels, public, who = data
    one = recipe_key(mould, rows, labels, partition="attack", index=0).hex()
    other = recipe_key(None, public, who, partition=one, index=0) if public is not None or who is not None else b""
    stored = ShadowFolder(folder)
    return stored.open(one + other.hex(), random_state=random_state), stored


def _copies(rows: Any, seed: int) -> Any:
    """Return noisy copies of rows of numbers, one block after the other; of other rows there are none."""
    if not isinstance(rows, np.ndarray) or rows.dtype.kind not in "biuf":
        return rows[:0]
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_COPIES,)))
    spread = np.nanstd(rows, axis=0)
    made = [rows + noise * spread * rng.standard_normal(rows.shape) for noise in _NOISES]
    return np.concatenate(made).astype(rows.dtype if rows.dtype.kind == "f" else np.float64)
