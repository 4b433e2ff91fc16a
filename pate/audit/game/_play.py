"""The game: which of two neighbouring worlds has made a release."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import Any

import joblib
import numpy as np

from pate.audit.bounds import curve_test
from pate.audit.claims import Claim
from pate.audit.game._result import audit_scores
from pate.audit.game._runs import Kept, plan_of, played, played_as
from pate.audit.game._scores import is_learnt, said, scorer, trained
from pate.core.checks import check_int, check_real, shown
from pate.core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.report.audit_result import AuditResult

#: Runs in each world at the first look; each further look is at twice as many.
FIRST_LOOK = 25


def looks(n_runs: int, first: int = FIRST_LOOK) -> list[tuple[int, float]]:
    """Return when a game is looked at, and which part of its false alarms each look may spend: they add up to 1.

    Half is kept for the last look, the rest is for all before it alike.
    """
    sizes = []
    while first < n_runs:
        sizes.append(first)
        first *= 2
    return [*((n, 0.5 / len(sizes)) for n in sizes), (n_runs, 0.5 if sizes else 1.0)]


def game(
    release: Any,
    D: Any,
    D_prime: Any,
    *,
    claim: Any,
    score: Any = "likelihood",
    n_runs: int = 1000,
    batch: int | None = None,
    delta: float = 1e-5,
    level: float = 0.95,
    false_alarms: float = 1e-6,
    early_stop: bool = True,
    n_jobs: int | None = None,
    checkpoint_dir: str | os.PathLike[str] | None = None,
    random_state: int | None = None,
    target: str = "",
    published: bool = False,
    verbose: bool = False,
) -> AuditResult:
    """Play whole runs of a release in two neighbouring worlds, and hold what an attacker tells apart against the claim.

    Parameters
    ----------
    release : callable
        ``release(world, seed) -> anything``: one whole run of what is released (see :class:`Release`). With ``batch``,
        ``release(world, seed, size) -> outputs`` of ``size`` independent runs. Partition and training seeds must be
        the same in all runs; ``seed`` (63 bits) is for noise.
    D, D_prime : object
        The two worlds' data: neighbours. Passed to ``release`` as they are.
    claim : Claim, or what :meth:`Claim.of` takes
    score : "likelihood", "classifier", callable or a scikit-learn classifier
        What makes one number of one output, higher for D_prime. ``"likelihood"``: the release's own ``log_ratio``. A
        callable takes an output (with ``batch`` all outputs of a batch). ``"classifier"``, or one with
        ``predict_proba``, is trained on the first half of the runs, which then say nothing else.
    n_runs : int
        In each world, at most.
    batch : int or None
        Runs that the release makes at once.
    delta, level, false_alarms : float
        As in :func:`audit_scores`.
    early_stop : bool
        Stop when the claim is refuted. The test is looked at after 25, 50, 100, ... runs, and ``false_alarms`` (and
        1 - ``level``) are divided among these looks beforehand (Bonferroni), half of them for the last: no rule of
        stopping at one of them refutes a true claim with more than ``false_alarms``. False looks once, at the end.
    n_jobs : int or None
        Workers of joblib; results do not depend on it.
    checkpoint_dir : path or None
        Where runs are kept, for the owner alone (mode 0700), and taken up again after a kill. That release and score
        are still the same is seen by the code of functions and the fields of dataclasses; of other objects by type.
    random_state : int or None
        Of all runs' seeds; None draws it (or takes the folder's).
    target : str
        Public words for what is audited.
    published : bool
        Whether D and D_prime are public or made up; else the result is sensitive.
    verbose : bool
        Show progress on standard error.

    Returns
    -------
    AuditResult

    Raises
    ------
    InvalidInputError
        A setting out of range, a release without likelihoods, a score that is not one number per run, or a folder that
        holds another game.

    Notes
    -----
    **Guarantees.** If the claim holds for this pair, ``refuted`` is True with probability at most ``false_alarms``
    (the rank test of :func:`pate.audit.bounds.curve_test`, and a union bound over the looks). A game that refutes
    nothing proves nothing.

    Examples
    --------
    >>> from pate.audit.game import NoisySum
    >>> honest = game(NoisySum(1.0), np.zeros(2), np.array([1.0, -1.0]), claim=Claim.gaussian(2**0.5), n_runs=200,
    ...               batch=100, random_state=0, published=True)
    >>> honest.refuted, honest["lower bound on mu"].value < 2**0.5
    (False, True)
    """
    begun = time.perf_counter()
    held = Claim.of(claim)
    if not callable(release):
        raise InvalidInputError(f"release must be a function of (world, seed), got {shown(release)}.")
    if random_state is not None:
        random_state = check_int("random_state", random_state, low=0)
    check_int("n_runs", n_runs, low=4, remedy="It is the most runs in each world.")
    alarms = check_real("false_alarms", false_alarms, low=0, high=1, low_open=True, high_open=True)
    if batch is not None:
        check_int("batch", batch, low=1, remedy="With it, release(world, seed, size) makes size runs at once.")
    learnt, score_of = is_learnt(score), scorer(score, release)
    plan = plan_of(n_runs, batch, random_state, checkpoint_dir)
    words = said(score)
    # A second look at the same runs under another claim or alarm would spend what the first one spent.
    facts = _facts(release, score, words, D, D_prime) | {
        "claim": f"{held}, {joblib.hash((held.mu, held.points))}",
        "false_alarms": alarms,
        "early_stop": early_stop,
    }
    kept = None if checkpoint_dir is None else Kept(checkpoint_dir, plan, facts)
    n_train = n_runs // 2 if learnt else 0
    schedule = looks(n_runs - n_train) if early_stop else [(n_runs - n_train, 1.0)]

    model: Any = None
    found: tuple[list[FloatArray], list[FloatArray]] = ([], [])
    waiting, done, share = list(schedule), 0, schedule[-1][1]
    runs = played(release, score_of, D, D_prime, plan, kept, n_jobs, verbose)
    try:
        for block in runs:
            for rows, part in zip(found, block, strict=True):
                rows.append(part)
            done += len(block[0])
            if learnt and model is None and done >= n_train:
                train = [np.concatenate(rows)[:n_train] for rows in found]
                model = trained(score, train[0], train[1], plan.seed % 2**32)
            stop = False
            while waiting and done - n_train >= waiting[0][0]:
                size, share = waiting.pop(0)
                out, in_ = (_scores(rows, model, n_train, size) for rows in found)
                stop = bool(waiting) and curve_test(out, in_, held).p_value <= alarms * share
                if stop:
                    break
            if stop:
                break
    finally:
        runs.close()
    result = audit_scores(
        out,
        in_,
        claim=held,
        delta=delta,
        level=level,
        false_alarms=alarms,
        target=target or getattr(release, "__name__", type(release).__name__),
        tried=f"up to {n_runs:,} whole runs in each of two neighbouring worlds, scored by {words}",
        published=published,
        share=share,
        settings={
            "n_runs": n_runs,
            "runs looked at": len(out),
            "runs for training the score": n_train,
            "looks": len(schedule),
            "batch": batch,
            "seed": plan.seed,
        },
        seconds=time.perf_counter() - begun,
    )
    return replace(result, n_releases=2 * done)


def _facts(release: Any, score: Any, words: str, D: Any, D_prime: Any) -> dict[str, Any]:
    """Return what must be the same when a folder is taken up again."""
    return {
        "release": joblib.hash(played_as(release)),
        "score": f"{words}, {joblib.hash(played_as(score))}",
        "worlds": joblib.hash((D, D_prime)),
    }


def _scores(rows: list[FloatArray], model: Any, n_train: int, size: int) -> FloatArray:
    whole = np.concatenate(rows)[n_train : n_train + size]
    if model is not None:
        return np.asarray(model(whole))
    return whole[:, 0] if whole.ndim == 2 and whole.shape[1] == 1 else whole
