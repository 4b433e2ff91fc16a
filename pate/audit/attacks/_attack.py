"""Membership inference by shadow models: who can tell on which records a model was fitted."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from pate.audit.attacks._evidence import most_wealth, wealth_against
from pate.audit.attacks._folder import ShadowFolder
from pate.audit.attacks._found import exposed, figures_of, in_words, picture_of
from pate.audit.attacks._halves import Units, draw_halves
from pate.audit.attacks._promise import promised
from pate.audit.attacks._roc import roc_of
from pate.audit.attacks._scores import ATTACKS, Answers, scores
from pate.audit.attacks._shadows import Material, check_estimator, shadows_of
from pate.core.checks import check_choice, check_int, check_labels, check_real, shown
from pate.core.frames import plain_column, plain_rows
from pate.core.seeds import training_seed
from pate.core.types import FloatArray
from pate.data._door import read_rows
from pate.exceptions import InvalidInputError
from pate.report.audit_result import AuditResult
from pate.teachers.checkpoints import recipe_key

__all__ = ["attack"]

#: Standard deviations of the noise on the copies of a record, in those of each column.
_NOISES = (0.1, 0.2, 0.4, 0.8)
_COPIES = 0xC0B1
#: Shadow models, and targets: with fewer pairs there is nothing to compare with, or no interval.
_FEWEST = 8
_LIMITS = (
    "It shows what these attacks find on models fitted on random halves of these records: one that fails proves "
    "nothing, as a stronger attack, a crafted record or a look at more than the model's answers may find more."
)
#: The bet pays so little, at such a claim or with so few targets, that no outcome reaches what a refutation asks for.
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
    """Attack models of an estimator by membership inference: tell on which records they were fitted.

    ``n_shadows`` clones of the estimator are fitted on random halves of the records, in pairs that share none. Each of
    them is a target in its turn, and the models of all other pairs are what the attacker compares it with: of its kind,
    of its size, and every record is in as many of them as not.

    Parameters
    ----------
    estimator : unfitted classifier, or ensemble of teachers
        Whatever is fitted as ``fit(X, y)``, with ``X_public`` and ``groups`` where its ``fit`` takes them, and answers
        by ``predict_proba``, ``decision_function``, ``vote`` or ``predict``. Its noise comes from the operating system.
    X : array of shape (n_records, ...), DataFrame, sparse matrix or texts
        Every record is attacked, in every target.
    y : array-like of shape (n_records,)
        Class values.
    attack : {"lira", "lira-offline", "rmia", "loss", "label-only"}, several of them, or "all"
        LiRA (Carlini et al. 2022), RMIA (Zarifzadeh et al. 2024), the loss alone (Yeom et al. 2018), or labels of noisy
        copies alone (Choquette-Choo et al. 2021). Several cost little more than one: the fits are the same.
    groups : array-like of shape (n_records,) or None
        Whose each record is: then a person's records are in a half together, and persons are attacked, by the mean over
        their records.
    n_shadows : int
        Even, and at least 8. From 64 on each record has a variance of its own.
    targets : int or None
        How many of them are attacked; None: all.
    claim : None, Claim, Guarantee, Budget, Charge or (epsilon, delta)
        What the ceiling follows from, for one record (with ``groups``: one person) *replaced* by another. None takes
        what the shadow models' own statements promise, if they have any; a statement's guarantee of another adjacency
        is converted.
    X_public : as X, or None
        For estimators whose ``fit`` takes public rows.
    level : float
        Confidence of the intervals.
    false_alarms : float
        The probability at most that a true claim is refuted.
    n_jobs : int or None
        Shadow models that are fitted side by side, as in joblib.
    random_state : int or None
        Of halves and training, never of privacy noise.
    checkpoint_dir : path or None
        Where finished shadow models' answers are kept, so that a killed attack goes on and other attacks or more
        shadow models use them; private, as the records are.
    published : bool
        The records are published or made up, so that what is found is no secret.
    verbose : bool
        Show progress.

    Returns
    -------
    AuditResult
        Figures, each with its attack in ``of``: "AUC", "true positives at 1% false positives", "true positives at 0.1%
        false positives" (None where too few records stand behind it), "most the claim allows at ...", "log e-value",
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
    not rest on them: it is a bet against the claim, pair after pair, in which each pair is attacked by the models
    before it alone, and which a true claim lets win with probability ``false_alarms`` at most.

    An attack is an access to private data, and not a release: nothing here is charged, nor counted as a fit of
    ``estimator``. Publish :meth:`AuditResult.cited` at most.

    Examples
    --------
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(200, 5)), rng.integers(2, size=200)
    >>> found = attack(KNeighborsClassifier(1), X, y, n_shadows=16, claim=(1.0, 1e-5), random_state=0, published=True)
    >>> found["AUC"].value > 0.7, found["most the claim allows at 1% false positives"].value.__round__(4)
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
        raise InvalidInputError("y must hold at least two classes. A model of one class tells nothing of its records.")
    public = None if X_public is None else plain_rows(X_public, name="X_public")
    who = None if groups is None else np.asarray(units.of)
    if claim is not None:
        promised(claim, [], units.name)  # refused before anything is fitted
    seed, kept = _begun(checkpoint_dir, mould, (rows, labels, public, who), random_state)
    copies = _copies(rows, seed) if "label-only" in kinds else None
    material = Material(mould, rows, labels, who, public, copies, seed)
    halves = draw_halves(units.n, n_shadows, seed)
    shadows = shadows_of(
        material, [np.flatnonzero(h[units.of]) for h in halves], n_jobs=n_jobs, folder=kept, verbose=verbose
    )
    robust = None if copies is None else units.mean(np.stack([s.robust for s in shadows if s.robust is not None]))
    answers = Answers(units.mean(np.stack([s.logit for s in shadows])), halves, robust)
    ceiling = promised(claim, [s.promise for s in shadows], units.name)
    attacked = np.arange(n_shadows - targets, n_shadows)  # the last, so that a bet has others before it
    members = halves[attacked]
    rocs, found = {}, {}
    for kind in kinds:
        rocs[kind], found[kind] = roc_of(kind, answers, attacked)
    log_e, refuted, blunt = None, False, ""
    if ceiling.claim is not None:
        bets = [wealth_against(ceiling.claim, scores(k, answers, attacked, earlier=True), members) for k in kinds]
        best = float(np.mean(bets, axis=0).max())  # a mean of such wealths is one
        log_e, refuted = math.log(best), best >= 1 / false_alarms
        blunt = _BLUNT if most_wealth(ceiling.claim, targets) < 1 / false_alarms else ""
    right = np.stack([s.right for s in shadows])
    figures = figures_of(rocs, ceiling.claim, level, log_e, _accuracies(right, halves[:, units.of]))
    figures += exposed(found, rocs, members, units, groups)
    name = type(mould).__name__
    return AuditResult(
        layer="attack",
        target=name,
        claim=ceiling.words,
        tried=(
            f"membership inference by {', '.join(kinds)} on {targets} models of {name}, each fitted on half of the "
            f"{units.name}s, with {n_shadows - 2} other models to compare with"
        ),
        refuted=refuted,
        finding=in_words(figures, kinds, refuted=refuted),
        false_alarms=false_alarms if ceiling.claim is not None else None,
        n_releases=n_shadows,
        seconds=time.monotonic() - began,
        limits=_LIMITS + ceiling.remark + blunt,
        figures=tuple(figures),
        picture=picture_of(rocs, ceiling.claim, level),
        settings={
            "attack": tuple(kinds),
            "n_shadows": n_shadows,
            "targets": targets,
            "unit": units.name,
            "n_units": units.n,
            "random_state": random_state,
        },
        sensitive=not published or ceiling.sensitive,
    )


def _kinds(attack: str | Iterable[str]) -> tuple[str, ...]:
    if attack == "all":
        return ATTACKS
    if not isinstance(attack, str) and not isinstance(attack, Iterable):
        raise InvalidInputError(f"attack must be one of {', '.join(map(repr, ATTACKS))}, 'all', or several of them, "
                                f"got {shown(attack)}.")  # fmt: skip
    kinds = [attack] if isinstance(attack, str) else list(attack)
    if not kinds:
        raise InvalidInputError("attack must name one attack at least, got none. Try attack='lira'.")
    named = dict.fromkeys(check_choice("attack", kind, (*ATTACKS, "all")) for kind in kinds)
    return ATTACKS if "all" in named else tuple(named)


def _numbers(n_shadows: Any, targets: Any) -> tuple[int, int]:
    remedy = "Halves come in pairs, and each pair is attacked with the others; 128 give intervals worth reading."
    n_shadows = check_int("n_shadows", n_shadows, low=_FEWEST, remedy=remedy)
    targets = (
        n_shadows if targets is None else check_int("targets", targets, low=_FEWEST, high=n_shadows, remedy=remedy)
    )
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
    kept = ShadowFolder(folder)
    return kept.open(one + other.hex(), random_state=random_state), kept


def _copies(rows: Any, seed: int) -> Any:
    """Return noisy copies of rows of numbers, one block after the other; of other rows there are none."""
    if not isinstance(rows, np.ndarray) or rows.dtype.kind not in "biuf":
        return rows[:0]
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_COPIES,)))
    spread = np.nanstd(rows, axis=0)
    made = [rows + noise * spread * rng.standard_normal(rows.shape) for noise in _NOISES]
    return np.concatenate(made).astype(rows.dtype if rows.dtype.kind == "f" else np.float64)


def _accuracies(right: FloatArray, member: Any) -> tuple[float, float]:
    return float(right[member].mean()), float(right[~member].mean())
