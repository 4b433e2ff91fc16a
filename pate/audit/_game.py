"""Audit by many whole runs on two neighbouring data sets: an attacker tries to tell them apart.

Examples
--------
>>> import numpy as np
>>> from pate import audit
>>> weak = NoisySum(0.9 / 3)  # claimed: a sum of sensitivity 1 with noise 1/3, so 3-GDP
>>> found = audit.game(
...     weak,
...     np.zeros(1),
...     np.ones(1),
...     claim=audit.Claim.gaussian(3.0),
...     n_runs=4000,
...     batch=500,
...     random_state=0,
... )
>>> found.refuted
True
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import Any, Protocol

import joblib
import numpy as np
import numpy.typing as npt

from pate._core.checks import check_int, check_real, shown
from pate._core.files import begun_in, own_folder, save_arrays, stored_arrays, write_text
from pate._core.progress import track
from pate._core.secret import training_seed
from pate._core.types import FloatArray
from pate.audit._bounds import curve_test
from pate.audit._claims import Claim
from pate.audit._one_run import audit_scores
from pate.exceptions import InvalidInputError
from pate.mechanisms import ConfidentGNMax, GNMax, LNMax, NoisyHistogram
from pate.privacy.noise.source import NoiseSource
from pate.report.audit_result import AuditResult
from pate.votes import ABSTAIN

__all__ = ["MechanismRelease", "NoisySum", "Release", "audit_scores", "game"]


# The score of one run: higher for the second world.


@dataclass(frozen=True)
class Scorer:
    """Turns each output into one row: a score, or the features of a classifier, which is trained on other runs."""

    score: Any
    release: Any

    def __post_init__(self) -> None:
        if self._by_likelihood:
            if not callable(getattr(self.release, "log_ratio", None)):
                raise InvalidInputError(
                    "score='likelihood' needs a release with log_ratio(outputs, D, D_prime), such as MechanismRelease. "
                    "Pass a function of one output, or score='classifier'."
                )
        elif not self.is_learnt and not callable(self.score):
            raise InvalidInputError(
                "score must be 'likelihood', 'classifier', a function of an output or a classifier, got "
                f"{shown(self.score)}."
            )

    @property
    def _by_likelihood(self) -> bool:
        return isinstance(self.score, str) and self.score == "likelihood"

    @property
    def is_learnt(self) -> bool:
        """Whether the score is a classifier."""
        return (isinstance(self.score, str) and self.score == "classifier") or hasattr(self.score, "predict_proba")

    def __str__(self) -> str:
        if self._by_likelihood:
            return "the log likelihood ratio"
        name = "" if isinstance(self.score, str) else f" ({getattr(self.score, '__name__', type(self.score).__name__)})"
        return f"a classifier{name} trained on half of the runs" if self.is_learnt else f"a function of the user{name}"

    def __call__(self, outputs: Any, D: Any, D_prime: Any, batched: bool) -> FloatArray:
        """Return an array with one row per run."""
        if self._by_likelihood:
            whole = outputs if batched else np.stack([np.asarray(output) for output in outputs])
            return np.asarray(self.release.log_ratio(whole, D, D_prime), dtype=np.float64)
        if not self.is_learnt:
            found = self.score(outputs) if batched else [self.score(output) for output in outputs]
            return np.asarray(found, dtype=np.float64)
        rows = [np.asarray(output, dtype=np.float64).ravel() for output in outputs]
        if len({len(row) for row in rows}) > 1:
            raise InvalidInputError("a classifier needs outputs of one size. Pass a score of your own, score=function.")
        return np.stack(rows)


def trained(score: Any, out: FloatArray, in_: FloatArray, seed: int) -> Callable[[FloatArray], FloatArray]:
    """Return the log odds of the second world, as a classifier learnt them from runs that are used for nothing else.

    ``"classifier"``: a logistic regression or a forest, whichever has the better cross-validated likelihood there.
    """
    from sklearn.base import clone
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = np.concatenate([out, in_]), np.repeat([0, 1], [len(out), len(in_)])
    if isinstance(score, str):
        candidates = [
            make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
            RandomForestClassifier(200, min_samples_leaf=5, random_state=seed),
        ]
        folds = min(5, len(out), len(in_))
        means = [cross_val_score(c, X, y, scoring="neg_log_loss", cv=folds).mean() for c in candidates]
        chosen = candidates[int(np.argmax(means))]
    else:
        chosen = clone(score)
    model = chosen.fit(X, y)

    def score_of(rows: FloatArray) -> FloatArray:
        p = np.clip(model.predict_proba(rows)[:, 1], 1e-15, 1 - 1e-15)
        return np.asarray(np.log(p) - np.log1p(-p))

    return score_of


# Releases: any function of a world's data, and ready ones for mechanisms.


class Release(Protocol):
    """Protocol of a whole run: takes a world's data and a seed, returns what is released; with ``size``, of many runs.

    What is fixed before the release (the partition, training seeds, the public rows) must stay the same in every run
    of both worlds: a guarantee holds given them, and drawing them again hides a leak in their noise. The seed is for
    the noise that the guarantee is about.

    A release whose likelihoods are known has ``log_ratio(outputs, D, D_prime) -> (size,)`` as well: the log likelihood
    of each output under D_prime over that under D.

    Examples
    --------
    >>> made: Release = NoisySum(1.0)
    >>> made(np.zeros(2), 0).shape
    (2,)
    """

    def __call__(self, world: Any, seed: int, /) -> Any:
        """Return what is released."""
        ...


def _check_alike(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> None:
    if a.shape != b.shape:
        raise InvalidInputError(f"D and D_prime must have one shape, got {a.shape} and {b.shape}: they are neighbours.")


@dataclass(frozen=True)
class NoisySum:
    """Release an array plus N(0, sigma^2) on every entry: noisy counts, sums of clipped gradients.

    Parameters
    ----------
    sigma : float

    Examples
    --------
    >>> one = NoisySum(0.1)
    >>> outputs = one(np.zeros(2), 7, 1000)
    >>> outputs.shape, bool(one.log_ratio(outputs, np.zeros(2), np.ones(2)).mean() < 0)
    ((1000, 2), True)
    """

    sigma: float

    def __post_init__(self) -> None:
        check_real("sigma", self.sigma, low=0, low_open=True)

    def __call__(self, world: npt.ArrayLike, seed: int, size: int | None = None) -> FloatArray:
        """Return the noisy array, or ``size`` of them."""
        values = np.asarray(world, dtype=np.float64)
        noise = np.random.default_rng(seed).normal(0.0, self.sigma, (size or 1, *values.shape))
        return values + noise if size else (values + noise)[0]

    def log_ratio(self, outputs: FloatArray, D: npt.ArrayLike, D_prime: npt.ArrayLike) -> FloatArray:
        """Return log likelihood ratios, shape (size,)."""
        a, b = (np.asarray(world, dtype=np.float64) for world in (D, D_prime))
        _check_alike(a, b)
        ratio = ((outputs - a) ** 2 - (outputs - b) ** 2) / (2 * self.sigma**2)
        return np.asarray(ratio.reshape(len(outputs), -1).sum(axis=1))


@dataclass(frozen=True)
class MechanismRelease:
    """Release the answers of a mechanism to vote counts; a world is counts of shape (n_queries, n_classes).

    Parameters
    ----------
    mechanism : GNMax, LNMax, ConfidentGNMax or NoisyHistogram
        What is claimed: outputs are scored by its exact law.
    sampler : callable or None
        Of counts (n, n_classes) to labels (n,), or to noisy counts (n, n_classes): what draws the answers, such as
        another library's mechanism. None lets ``mechanism`` draw.

    Examples
    --------
    >>> release = MechanismRelease(GNMax(1.0))
    >>> labels = release([[3, 3], [4, 2]], 7, 100)  # 100 runs of two queries
    >>> labels.shape, release.log_ratio(labels, [[3, 3], [4, 2]], [[2, 4], [4, 2]]).shape
    ((100, 2), (100,))
    """

    mechanism: GNMax | LNMax | ConfidentGNMax | NoisyHistogram
    sampler: Callable[[npt.NDArray[np.int64]], npt.ArrayLike] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, GNMax | LNMax | ConfidentGNMax | NoisyHistogram):
            raise InvalidInputError(
                "mechanism must be GNMax, LNMax, ConfidentGNMax or NoisyHistogram, whose laws are known, got "
                f"{shown(self.mechanism)}. Write a release of your own, and pass score= to the game."
            )

    def __call__(self, world: npt.ArrayLike, seed: int, size: int | None = None) -> npt.NDArray[Any]:
        """Return labels or noisy counts, of ``size`` runs where given."""
        counts = np.atleast_2d(np.asarray(world, dtype=np.int64))
        rows = np.tile(counts, (size or 1, 1))
        if self.sampler is not None:
            drawn = np.asarray(self.sampler(rows))
        else:
            draw = self.mechanism.sample(rows, NoiseSource(seed))
            drawn = draw.labels if draw.noisy_counts is None else draw.noisy_counts
        if len(drawn) != len(rows):
            raise InvalidInputError(f"sampler must return one outcome for each of {len(rows)} rows, got {len(drawn)}.")
        return drawn.reshape(size, len(counts), *drawn.shape[1:]) if size else drawn

    def log_ratio(self, outputs: npt.NDArray[Any], D: npt.ArrayLike, D_prime: npt.ArrayLike) -> FloatArray:
        """Return log likelihood ratios, shape (size,)."""
        a, b = (np.atleast_2d(np.asarray(world, dtype=np.int64)) for world in (D, D_prime))
        _check_alike(a, b)
        if isinstance(self.mechanism, NoisyHistogram):
            return NoisySum(self.mechanism.sigma).log_ratio(outputs, a, b)
        ratio = self.mechanism.log_probs(b) - self.mechanism.log_probs(a)  # a refusal stands last
        n_classes, refuses = a.shape[1], ratio.shape[1] > a.shape[1]
        if not ((outputs < n_classes) & (outputs >= (ABSTAIN if refuses else 0))).all():
            refusal = f", or {ABSTAIN} where it refuses" if refuses else ""
            raise InvalidInputError(
                f"sampler must return labels 0 to {n_classes - 1}{refusal}: {self.mechanism!r} releases nothing else. "
                "Its claim does not hold of such a sampler."
            )
        columns = np.where(outputs == ABSTAIN, ratio.shape[1] - 1, outputs)
        return np.asarray(ratio[np.arange(len(a))[None, :], columns].sum(axis=1))


# Runs of both worlds, in blocks: in parallel, stored in a folder, resumed after a kill.

_SCHEMA, _HEAD = "pate-game-1", "game.json"
#: Runs of a block where the release makes one at a time.
_BLOCK = 10

#: Depth to which a release's parts are compared, to recognise it.
_DEEPEST = 8


@dataclass(frozen=True)
class Plan:
    """The number of runs, blocks and seed of a game, fixed before the first run."""

    n_runs: int  # in each world, at most
    block: int  # runs that are made and stored together
    batched: bool  # whether the release makes a whole block at once
    seed: int  # of all runs' seeds

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
    release: Any,
    scorer: Any,
    D: Any,
    D_prime: Any,
    plan: Plan,
    stored: StoredRuns | None,
    n_jobs: int | None,
    show: bool,
) -> Generator[list[FloatArray], None, None]:
    """Yield each block's scores, in order; those of a folder are not played again."""
    spans = [(start, min(start + plan.block, plan.n_runs)) for start in range(0, plan.n_runs, plan.block)]
    known = {} if stored is None else {span: found for span in spans if (found := stored.read(span)) is not None}
    work = (joblib.delayed(play_block)(release, scorer, D, D_prime, plan, s) for s in spans if s not in known)
    # Few are sent ahead: a game that stops early has wasted no more than these.
    made = joblib.Parallel(n_jobs=n_jobs, return_as="generator", pre_dispatch="2*n_jobs", batch_size=1)(work)

    def steps() -> Generator[list[FloatArray], None, None]:
        for span in spans:
            found = known.get(span) or next(made)
            if stored is not None and span not in known:
                stored.write(span, found)
            yield found

    try:
        yield from track(steps(), total=len(spans), label="runs of a game", show=show, work=(2.0 * plan.block, "runs"))
    finally:
        with warnings.catch_warnings():  # joblib warns of blocks that are no longer needed: that is intended
            warnings.filterwarnings("ignore", category=UserWarning, module="joblib")
            made.close()


class StoredRuns:
    """A folder of stored blocks, readable by its owner alone (mode 0700): runs on private data are private."""

    def __init__(
        self, folder: str | os.PathLike[str], before: dict[str, Any], plan: Plan, facts: dict[str, Any]
    ) -> None:
        now = {"schema": _SCHEMA, **vars(plan), **facts}
        self._folder = own_folder("checkpoint_dir", folder)
        if not before:
            write_text(self._folder / _HEAD, json.dumps(now, indent=1), mode=0o600)
        elif different := [name for name in now if before.get(name) != now[name]]:
            raise InvalidInputError(
                f"checkpoint_dir={str(folder)!r} holds a game whose {', '.join(different)} is another. The number of "
                "runs and what is played are fixed before the first run. Name another folder."
            )

    @staticmethod
    def begun(folder: str | os.PathLike[str]) -> dict[str, Any]:
        """Return the header of the game stored in a folder; empty where there is none."""
        found = begun_in(folder, _HEAD, "game", error=InvalidInputError)
        if found is not None and (found.get("schema") != _SCHEMA or not isinstance(found.get("seed"), int)):
            raise InvalidInputError(f"{_HEAD} of the folder cannot be read: it is of no game. Name another folder.")
        return found or {}

    def read(self, span: tuple[int, int]) -> list[FloatArray] | None:
        """Return a block that was played before."""
        path = self._path(span)
        if not path.exists():
            return None
        found = stored_arrays(path) or {}
        if set(found) != {"out", "in_"} or any(np.shape(rows)[:1] != (span[1] - span[0],) for rows in found.values()):
            raise InvalidInputError(f"{path.name} of the game's folder cannot be read. Delete it to play it again.")
        return [np.asarray(found[name], dtype=np.float64) for name in ("out", "in_")]

    def write(self, span: tuple[int, int], found: list[FloatArray]) -> None:
        """Store a block: whole or not at all."""
        save_arrays(self._path(span), out=found[0], in_=found[1])

    def _path(self, span: tuple[int, int]) -> Path:
        return self._folder / f"runs-{span[0]:09d}.npz"


def played_as(what: Any, depth: int = 0) -> Any:
    """Return what identifies a release or score, equal in every process."""
    name = f"{type(what).__module__}.{type(what).__qualname__}"
    if isinstance(what, str | bytes | int | float | bool | None | np.ndarray | np.generic):
        return name, what
    if depth > _DEEPEST:
        return name
    if isinstance(what, CodeType):
        return name, what.co_name, what.co_code, what.co_names, played_as(what.co_consts, depth + 1)
    parts: tuple[Any, ...] | None = None
    if isinstance(what, partial):
        parts = what.func, what.args, tuple(sorted(what.keywords.items()))
    elif isinstance(what, FunctionType):
        cells = tuple(said for cell in what.__closure__ or () if (said := _content(cell)) is not what)
        parts = what.__code__, what.__defaults__, cells
    elif isinstance(what, tuple):  # lists and the like may change while it is played
        parts = what
    if parts is not None:
        return name, *(played_as(part, depth + 1) for part in parts)
    if is_dataclass(what) and not isinstance(what, type):
        return name, *((f.name, played_as(getattr(what, f.name), depth + 1)) for f in fields(what))
    return name, getattr(what, "__qualname__", "")


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not set yet
        return None


#: Runs in each world at the first analysis; each further one has twice as many.
_FIRST_ANALYSIS = 25


def analyses(n_runs: int) -> list[tuple[int, float]]:
    """Return the numbers of runs after which a game is analysed, and each analysis's share of the false alarms (sum 1).

    Half is for the last analysis; the others share the rest equally.
    """
    sizes = [n for k in range(n_runs.bit_length()) if (n := _FIRST_ANALYSIS << k) < n_runs]
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
    """Run a release many times on two neighbouring data sets, and test the claim by an attacker's scores.

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
        The most runs on each of the two data sets.
    batch : int or None
        Runs that the release makes at once.
    delta, level, false_alarms : float
        As in :func:`audit_scores`.
    early_stop : bool
        Stop when the claim is refuted. The test is made after 25, 50, 100, ... runs, and ``false_alarms`` (and 1 -
        ``level``) are divided among these analyses beforehand (Bonferroni), half of them for the last: no rule of
        stopping at one of them refutes a true claim with more than ``false_alarms``. False tests once, at the end.
    n_jobs : int or None
        Workers of joblib; results do not depend on it.
    checkpoint_dir : path or None
        Folder for runs, readable by the owner alone (mode 0700), from which a killed game is resumed. That release and
        score are the same is checked by the code of functions and the fields of dataclasses; of other objects by type.
    random_state : int or None
        Seed of all runs' seeds; None draws it (or takes the folder's).
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
    (the rank test of :func:`pate.audit._bounds.curve_test`, and a union bound over the analyses). A game that refutes
    nothing proves nothing.

    Examples
    --------
    >>> from pate.audit._game import NoisySum
    >>> honest = game(
    ...     NoisySum(1.0),
    ...     np.zeros(2),
    ...     np.array([1.0, -1.0]),
    ...     claim=Claim.gaussian(2**0.5),
    ...     n_runs=200,
    ...     batch=100,
    ...     random_state=0,
    ...     published=True,
    ... )
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
    scorer = Scorer(score, release)
    before = {} if checkpoint_dir is None else StoredRuns.begun(checkpoint_dir)
    seed = before.get("seed") if random_state is None else random_state
    plan = Plan(n_runs, batch or _BLOCK, batch is not None, training_seed(None) if seed is None else int(seed))
    # Another claim or false alarm rate on the same runs would spend the false alarms twice.
    facts = {
        "release": joblib.hash(played_as(release)),
        "score": f"{scorer}, {joblib.hash(played_as(score))}",
        "worlds": joblib.hash((D, D_prime)),
        "claim": f"{held}, {joblib.hash((held.mu, held.points))}",
        "false_alarms": alarms,
        "early_stop": early_stop,
    }
    stored = None if checkpoint_dir is None else StoredRuns(checkpoint_dir, before, plan, facts)
    n_train = n_runs // 2 if scorer.is_learnt else 0
    schedule = analyses(n_runs - n_train) if early_stop else [(n_runs - n_train, 1.0)]

    model: Any = None
    found: tuple[list[FloatArray], list[FloatArray]] = ([], [])
    waiting, done, share, stop = list(schedule), 0, schedule[-1][1], False
    with closing(played(release, scorer, D, D_prime, plan, stored, n_jobs, verbose)) as runs:
        for block in runs:
            for rows, part in zip(found, block, strict=True):
                rows.append(part)
            done += len(block[0])
            if scorer.is_learnt and model is None and done >= n_train:
                train = [np.concatenate(rows)[:n_train] for rows in found]
                model = trained(score, train[0], train[1], plan.seed % 2**32)
            while not stop and waiting and done - n_train >= waiting[0][0]:
                size, share = waiting.pop(0)
                out, in_ = (_scores(rows, model, n_train, size) for rows in found)
                stop = bool(waiting) and curve_test(out, in_, held).p_value <= alarms * share
            if stop:
                break
    asked: dict[str, Any] = {"delta": delta, "level": level, "false_alarms": alarms, "published": published}
    noted = {"n_runs": n_runs, "runs looked at": len(out), "runs for training the score": n_train}
    result = audit_scores(
        out,
        in_,
        claim=held,
        target=target or getattr(release, "__name__", type(release).__name__),
        tried=f"up to {n_runs:,} whole runs in each of two neighbouring worlds, scored by {scorer}",
        share=share,
        settings={**noted, "looks": len(schedule), "batch": batch, "seed": plan.seed},
        seconds=time.perf_counter() - begun,
        **asked,
    )
    return replace(result, n_releases=2 * done)


def _scores(rows: list[FloatArray], model: Any, n_train: int, size: int) -> FloatArray:
    whole = np.concatenate(rows)[n_train : n_train + size]
    if model is not None:
        return np.asarray(model(whole))
    return whole[:, 0] if whole.ndim == 2 and whole.shape[1] == 1 else whole
