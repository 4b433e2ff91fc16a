"""Many whole runs in two worlds: what an attacker who sees only what is released can tell.

Examples
--------
>>> import numpy as np
>>> from pate import audit
>>> weak = NoisySum(0.9 / 3)   # claimed: a sum of sensitivity 1 with noise 1/3, so 3-GDP
>>> found = audit.game(weak, np.zeros(1), np.ones(1), claim=audit.Claim.gaussian(3.0), n_runs=4000, batch=500,
...                    random_state=0)
>>> found.refuted
True
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Generator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import Any

import joblib
import numpy as np

from pate.audit._scores import MechanismRelease, NoisySum, Release, audit_scores, is_learnt, said, scorer, trained
from pate.audit.bounds import curve_test
from pate.audit.claims import Claim
from pate.core.checks import check_int, check_real, shown
from pate.core.files import begun_in, kept_arrays, own_folder, save_arrays, write_text
from pate.core.progress import track
from pate.core.secret import training_seed
from pate.core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.report.audit_result import AuditResult

__all__ = ["MechanismRelease", "NoisySum", "Release", "audit_scores", "game"]


# The game: which of two neighbouring worlds has made a release.

# Runs of both worlds, in blocks: side by side, kept in a folder, taken up again after a kill.

_SCHEMA, _HEAD = "pate-game-1", "game.json"
#: Runs of a block where the release makes one at a time.
BLOCK = 10
#: How deep a release is looked into, to tell it from another.
_DEEPEST = 8


@dataclass(frozen=True)
class Plan:
    """What is played, fixed before the first run.

    Attributes
    ----------
    n_runs : int
        In each world, at most.
    block : int
        Runs that are made, and kept, together.
    batched : bool
        Whether the release makes a whole block at once.
    seed : int
        Of all runs' seeds.
    """

    n_runs: int
    block: int
    batched: bool
    seed: int

    def blocks(self) -> list[tuple[int, int]]:
        """Return the blocks as (first run, past the last)."""
        return [(start, min(start + self.block, self.n_runs)) for start in range(0, self.n_runs, self.block)]

    def seed_of(self, world: int, run: int) -> int:
        """Return 63 bits: no two runs share them, whatever their number."""
        words = np.random.SeedSequence(self.seed, spawn_key=(world, run)).generate_state(2, np.uint32)
        return int(words[0]) << 31 | int(words[1]) >> 1


def play_block(release: Any, scorer: Any, D: Any, D_prime: Any, plan: Plan, span: tuple[int, int]) -> list[FloatArray]:
    """Return the scores (or features) of one block of runs in either world."""
    start, stop = span
    found = []
    for number, world in enumerate((D, D_prime)):
        if plan.batched:
            outputs = release(world, plan.seed_of(number, start), stop - start)
        else:
            outputs = [release(world, plan.seed_of(number, run)) for run in range(start, stop)]
        rows = np.asarray(scorer(outputs, D, D_prime, plan.batched), dtype=np.float64)
        if rows.ndim == 0 or len(rows) != stop - start or np.isnan(rows).any():
            raise InvalidInputError(
                f"a score must be one number per run, never NaN: {stop - start} runs gave shape {rows.shape}. "
                "With batch=, release and score take and return a whole batch at once."
            )
        found.append(rows)
    return found


def played(
    release: Any, scorer: Any, D: Any, D_prime: Any, plan: Plan, kept: Kept | None, n_jobs: int | None, show: bool
) -> Generator[list[FloatArray], None, None]:
    """Yield each block's scores, in order; those of a folder are not played again."""
    spans = plan.blocks()
    known = {} if kept is None else {span: found for span in spans if (found := kept.read(span)) is not None}
    left = [span for span in spans if span not in known]
    if n_jobs in (None, 1):
        made = (play_block(release, scorer, D, D_prime, plan, span) for span in left)
    else:
        work = (joblib.delayed(play_block)(release, scorer, D, D_prime, plan, span) for span in left)
        # Few are sent ahead: a game that stops early has wasted no more than these.
        made = joblib.Parallel(n_jobs=n_jobs, return_as="generator", pre_dispatch="2*n_jobs", batch_size=1)(work)

    def steps() -> Generator[list[FloatArray], None, None]:
        for span in spans:
            if span in known:
                yield known[span]
                continue
            found = next(made)
            if kept is not None:
                kept.write(span, found)
            yield found

    try:
        yield from track(steps(), total=len(spans), label="runs of a game", show=show, work=(2.0 * plan.block, "runs"))
    finally:
        with warnings.catch_warnings():  # joblib tells of blocks that nobody waits for any more: that is meant
            warnings.filterwarnings("ignore", category=UserWarning, module="joblib")
            made.close()


class Kept:
    """A folder of blocks, for its owner alone (mode 0700): what runs on private data gave is private.

    ``facts`` are what else must be the same when the game is taken up again.
    """

    def __init__(self, folder: str | os.PathLike[str], plan: Plan, facts: dict[str, Any]) -> None:
        now = {"schema": _SCHEMA, "n_runs": plan.n_runs, "block": plan.block, "batched": plan.batched}
        now |= {"seed": plan.seed, **facts}
        before = self._begun(folder)
        self._folder = own_folder("checkpoint_dir", folder)
        if before is None:
            write_text(self._folder / _HEAD, json.dumps(now, indent=1), mode=0o600)
            return
        different = [name for name in now if before.get(name) != now[name]]
        if different:
            raise InvalidInputError(
                f"checkpoint_dir={str(folder)!r} holds a game whose {', '.join(different)} is another. How long a game "
                "is and what is played are fixed before its first run. Name another folder."
            )

    @staticmethod
    def _begun(folder: str | os.PathLike[str]) -> dict[str, Any] | None:
        found = begun_in(folder, _HEAD, "game", error=InvalidInputError)
        if found is not None and (found.get("schema") != _SCHEMA or not isinstance(found.get("seed"), int)):
            raise InvalidInputError(f"{_HEAD} of the folder cannot be read: it is of no game. Name another folder.")
        return found

    @classmethod
    def seed_in(cls, folder: str | os.PathLike[str]) -> int | None:
        """Return the seed of the game in a folder; None where there is none."""
        found = cls._begun(folder)
        return None if found is None else int(found["seed"])

    def read(self, span: tuple[int, int]) -> list[FloatArray] | None:
        """Return a block that was played before."""
        path = self._path(span)
        if not path.exists():
            return None
        found = kept_arrays(path) or {}
        if set(found) != {"out", "in_"} or any(np.shape(rows)[:1] != (span[1] - span[0],) for rows in found.values()):
            raise InvalidInputError(f"{path.name} of the game's folder cannot be read. Delete it to play it again.")
        return [np.asarray(found[name], dtype=np.float64) for name in ("out", "in_")]

    def write(self, span: tuple[int, int], found: list[FloatArray]) -> None:
        """Keep a block: whole or not at all."""
        save_arrays(self._path(span), out=found[0], in_=found[1])

    def _path(self, span: tuple[int, int]) -> Path:
        return self._folder / f"runs-{span[0]:09d}.npz"


def played_as(what: Any, depth: int = 0) -> Any:
    """Return what tells one release, or score, from another in every process alike."""
    name = f"{type(what).__module__}.{type(what).__qualname__}"
    if isinstance(what, str | bytes | int | float | bool | None | np.ndarray | np.generic):
        return name, what
    if depth > _DEEPEST:
        return name
    if isinstance(what, partial):
        return name, *(
            played_as(part, depth + 1) for part in (what.func, what.args, tuple(sorted(what.keywords.items())))
        )
    if isinstance(what, FunctionType):
        cells = tuple(said for cell in what.__closure__ or () if (said := _content(cell)) is not what)
        parts = what.__code__, what.__defaults__, cells
        return name, *(played_as(part, depth + 1) for part in parts)
    if isinstance(what, CodeType):
        return name, what.co_name, what.co_code, what.co_names, played_as(what.co_consts, depth + 1)
    if isinstance(what, tuple):  # lists and the like may change while it is played
        return name, *(played_as(each, depth + 1) for each in what)
    if is_dataclass(what) and not isinstance(what, type):
        return name, *((f.name, played_as(getattr(what, f.name), depth + 1)) for f in fields(what))
    return name, getattr(what, "__qualname__", "")


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not set yet
        return None


def plan_of(n_runs: int, batch: int | None, seed: int | None, folder: str | os.PathLike[str] | None) -> Plan:
    """Return the plan; a seed that was not given is the folder's, or drawn from the operating system."""
    if seed is None:
        seed = Kept.seed_in(folder) if folder is not None else None
    return Plan(n_runs, batch or BLOCK, batch is not None, training_seed(None) if seed is None else seed)


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
    facts = {
        "release": joblib.hash(played_as(release)),
        "score": f"{words}, {joblib.hash(played_as(score))}",
        "worlds": joblib.hash((D, D_prime)),
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


def _scores(rows: list[FloatArray], model: Any, n_train: int, size: int) -> FloatArray:
    whole = np.concatenate(rows)[n_train : n_train + size]
    if model is not None:
        return np.asarray(model(whole))
    return whole[:, 0] if whole.ndim == 2 and whole.shape[1] == 1 else whole
