"""Run one fit: charge the ledger first, then train step by step, with callbacks and checkpoints of what is released."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from pate._core.events import event
from pate._core.progress import track
from pate._core.recorder import note, playing, resolve
from pate._core.secret import fresh_secret, global_generators, training_seed
from pate.dpsgd._canaries import CanaryRun
from pate.dpsgd._checkpoint import Checkpoint, Held, Likeness
from pate.dpsgd._checks import Trial, check_trainable, tensors_of, try_module
from pate.dpsgd._optimizers import RunningAverage, set_noise_std
from pate.dpsgd._settings import read_averaging, read_schedule
from pate.dpsgd._statement import Plan, mechanism_of
from pate.dpsgd._units import Units
from pate.dpsgd.clipping import Clip, Clipping, ClippingRun
from pate.dpsgd.engines import BookKeepingEngine, Engine, PerRecordEngine, check_promise, released, take_numbers
from pate.dpsgd.engines._book_keeping import BLOCK, passes
from pate.exceptions import BudgetExceededError, InvalidInputError, PateError
from pate.ledger import Ledger, Registration
from pate.networks import check_apart, close, make, make_module, module_arguments, own_generator
from pate.privacy.noise.source import NoiseSource

# How :class:`pate.DPSGDClassifier` makes what it trains: a new module, found fit for DP-SGD, and its engine.


def build_engine(
    module: str | Callable[..., nn.Module],
    row_shape: int | tuple[int, ...],
    n_classes: int,
    kwargs: Mapping[str, Any] | None = None,
    *,
    engine: type[Engine] | None = None,
) -> Engine:
    """Make a module as torch teachers are made, and check that DP-SGD may train it."""
    shape = (row_shape,) if isinstance(row_shape, int) else tuple(row_shape)
    factory = make_module(module)
    arguments = module_arguments(factory, kwargs, n_features=math.prod(shape), n_classes=n_classes)
    try:
        with torch.random.fork_rng(devices=[]), global_generators():  # the same start twice
            other = make(factory, arguments)
        made = make(factory, arguments)
    except InvalidInputError:
        raise
    except Exception as error:  # the module's own code; it has seen nothing private
        raise InvalidInputError(
            f"module could not be made with {arguments!r}: {type(error).__name__}: {error}. It gets n_features, "
            "n_classes where it takes them: pass what else it needs by functools.partial(module, ...)."
        ) from error
    check_apart(made, other)
    # What was trained is no other fit's beginning, though the function hands it out again.
    given, made, other = made, copy.deepcopy(made), copy.deepcopy(other)
    check_apart(given, made)  # else a copy that is to be thrown away would be the module itself
    check_trainable(made.train())
    trial = try_module(made, shape, n_classes)
    built = None
    if engine is None and BookKeepingEngine.takes(made):
        with suppress(Exception):  # of made-up rows alone, and the other engine takes more modules
            built = _promised(BookKeepingEngine, made, trial)
    built = built or _promised(engine or PerRecordEngine, made, trial)
    _check_alike(other, trial)
    built.unseen = other
    return built


def _check_alike(other: nn.Module, trial: Trial) -> None:
    """Refuse a module that computes by more than parameters and buffers: another with these would not be the same."""
    first, second = copy.deepcopy(trial.module).eval(), copy.deepcopy(other).eval()
    kinds = [[(name, t.shape, t.dtype) for name, t in tensors_of(m)] for m in (first, second)]
    same = kinds[0] == kinds[1]
    if same:
        take_numbers(second, first)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            found = []
            for module in (first, second):
                with own_generator(0):
                    found.append(torch.cat([module(rows) for rows in trial.rows]))
        same = close(found[0], found[1])
    if not same:
        raise InvalidInputError(
            "module must compute by its parameters and buffers alone: two that were made alike, with the same ones, "
            "differ on made-up rows. What is released is a new one with the trained parameters. Register what it keeps "
            "beside them (register_buffer), and draw it from torch's generator."
        )


def _promised(kind: type[Engine], module: nn.Module, trial: Trial) -> Engine:
    built = kind.for_module(module, trial)
    check_promise(built, trial)
    return built


# One run of private training: sampled units, clipped gradients, noise, nothing else.

#: Units of a block that are expected in a step: few enough that hardly any has more than float32 may add up.
_IN_BLOCK = 62


@dataclass(frozen=True, eq=False)
class Training:
    """All that a run is made of, but for where it begins.

    Attributes
    ----------
    engine : Engine
        Of a new module, on the device of ``units``.
    source : NoiseSource
        Of samples, noise and which of a person's records are taken: a child for each.
    optimizer : torch.optim.Optimizer
        Over the trainable parameters of the module.
    max_physical_batch_size : int or None
        Rows at once; None leaves it to the engine.
    random_state : int or None
        Of the module's own random numbers (dropout).
    shared_draws : bool
        Whether all records of a step draw the same ones. Otherwise a record's depend on how many stand before it:
        harmless where a sample known to the attacker would cost no more, as without amplification. Else not, for
        neighbours of equal size neither: a record in the sample would give those behind it other draws than one that is
        out, and move the sum by far more than its own gradient.
    numbered : bool
        Whether units have the same numbers in neighbours: sums may then be rounded in blocks by these numbers.
    canaries : CanaryRun or None
        Units of an auditor's behind the private ones.
    """

    engine: Engine
    units: Units
    plan: Plan
    clipping: Clipping
    optimizer: torch.optim.Optimizer
    source: NoiseSource
    max_physical_batch_size: int | None = None
    random_state: int | None = None
    shared_draws: bool = False
    numbered: bool = False
    canaries: CanaryRun | None = None


def training_steps(run: Training, clip: ClippingRun, start: int = 0) -> Generator[int]:
    """Train the module behind the engine and yield the number of steps done, after each one.

    Between two steps the parameters are what has been released so far, and whatever is done to them is post-processing.
    Of ``start`` steps done before, batches and noise are drawn again and passed over. What the module's code raises on
    private rows (:class:`InvalidInputError`) does not say its words: they may quote them.
    """
    engine, units, source, optimizer, canaries = run.engine, run.units, run.source, run.optimizer, run.canaries
    mechanism, shape, clipping, shared = run.plan.mechanism, run.plan.shape, run.clipping, run.shared_draws
    parameters = [p for p in engine.module.parameters() if p.requires_grad]
    sizes = [p.numel() for p in parameters]
    # A clipping that releases more than gradients takes its noise from theirs; norms round by ``excess``.
    multiplier = clipping.gradient_noise_multiplier(run.plan.noise_multiplier, shape.expected_batch_size)
    multiplier *= 1 + engine.excess
    k = units.rows_per_unit
    at_once = max(1, (run.max_physical_batch_size or engine.at_once) // k)
    root, rate = training_seed(run.random_state, 1), shape.sample_rate if run.numbered and shared else None
    n_units = units.n_units if canaries is None else canaries.n_units + canaries.canaries.n
    batches = mechanism.batches(shape, n_units, source.child(0))
    draws = mechanism.noise(shape, sum(sizes) + clip.extra_draws, source.child(1))
    try:
        for step, (batch, noise) in enumerate(islice(zip(batches, draws, strict=True), start, None), start):
            # An empty sample is a step like any other: its sum is zero and gets its noise.
            total = [torch.zeros_like(p, dtype=torch.float64) for p in parameters]
            which, marks = source.child(2, step), np.zeros(0, np.int64)
            if canaries is not None:
                batch, marks = canaries.split(batch)
            for first, some, blocks in _parts(batch, at_once, rate):
                X, y, weights = units.take(some, which)
                seed = training_seed(root, *((step,) if shared else (step, first)))
                options = {"rows_per_unit": k, "weights": weights, "shared": shared, "blocks": blocks}
                for whole, part in zip(total, _sum(engine, X, y, clip, seed=seed, **options), strict=True):
                    whole.add_(part.view(whole.shape))  # never spread out: one number would count for every weight
            if canaries is not None:
                canaries.add(total, marks, clip.max_norm)
            scale = multiplier * clip.max_norm
            note("dpsgd", step=step, scale=scale, max_norm=clip.max_norm, n_drawn=len(batch), sums=total)
            for p, whole, drawn in zip(parameters, total, noise[: sum(sizes)].split(sizes), strict=True):
                whole.add_(drawn.to(p.device).view_as(p), alpha=scale)
                whole.copy_(resolve("DP-SGD", whole))
                # The sum is rounded to the parameter's precision after the noise is in.
                p.grad = (whole / shape.expected_batch_size).to(p.dtype)
            if canaries is not None:
                canaries.observe(total, clip.max_norm)
            set_noise_std(optimizer, scale / shape.expected_batch_size)
            clip.step(noise[sum(sizes) :])
            optimizer.step()
            yield step + 1
    finally:
        for p in parameters:
            p.grad = None


def _parts(
    batch: npt.NDArray[np.int64], at_once: int, rate: float | None
) -> Iterator[tuple[int, npt.NDArray[np.int64], Sequence[int] | None]]:
    """Yield where a part of a step's units begins, the part, and how many stand in each of its blocks.

    With a rate blocks are of so many numbers that some :data:`_IN_BLOCK` of their units are in a step, and parts are
    whole blocks: no unit's block depends on other units.
    """
    sizes = None
    if rate is not None and at_once >= BLOCK:
        counts = np.bincount(batch // max(1, int(_IN_BLOCK / rate)))
        sizes = counts[counts > 0].tolist()
    for some, held in passes(len(batch), at_once, sizes):
        yield some.start, batch[some], held


def _sum(engine: Engine, X: torch.Tensor, y: torch.Tensor, clip: Clip, **options: Any) -> list[torch.Tensor]:
    """Return an engine's sum; what the module's own code says about private rows stays here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return engine.clipped_sum(X, y, clip, **options)
        except PateError:
            raise
        except Exception as error:
            problem = type(error).__name__
    raise InvalidInputError(
        f"training failed: the module raised {problem} on the private rows, though not on made-up ones. What it "
        "said is not shown: it may quote private values. That it failed is for the curator alone."
    )


def try_there(engine: Engine, units: Units) -> None:
    """Refuse an engine that does not run on the units' device, on made-up rows: before anything is charged.

    It was tried on the CPU. A module may keep a tensor beside its parameters and buffers, which stays there.
    """
    k, X, y = units.rows_per_unit, units.X, units.y
    rows = torch.zeros((k, *X.shape[1:]), dtype=X.dtype, device=X.device)
    try:
        engine.clipped_sum(rows, torch.zeros(k, dtype=y.dtype, device=y.device), 1.0, rows_per_unit=k, seed=0)
    except Exception as error:  # it has seen nothing private
        raise InvalidInputError(
            f"device={str(X.device)!r} cannot run the module: on made-up rows it raised {type(error).__name__}: "
            f"{error}. Register what it keeps beside its parameters (register_buffer), or use device='cpu'."
        ) from error


#: How often at most a bar says what has been spent so far.
_LOOKS = 20


@dataclass(frozen=True)
class TrainingStep:
    """The state that a callback gets after each training step: only what is covered by the guarantee so far.

    Attributes
    ----------
    step, n_steps : int
        Steps done, and planned.
    module : torch.nn.Module
        A copy of the module as it is now, on the CPU, in evaluation mode; made when it is first asked for.
    epsilon : float
        Epsilon of the steps done so far, at the run's delta. The epsilon of the whole run is that of all planned steps,
        even if a callback ends it early: the decision to stop depended on what had been released.

    Examples
    --------
    >>> TrainingStep(2, 10, lambda: nn.Linear(2, 2), lambda: 0.5).epsilon
    0.5
    """

    step: int
    n_steps: int
    _module: Callable[[], nn.Module] = field(repr=False)
    _epsilon: Callable[[], float] = field(repr=False)

    @property
    def module(self) -> nn.Module:
        """The module after this step."""
        return self._module()

    @property
    def epsilon(self) -> float:
        """What the steps done so far cost."""
        return self._epsilon()


def open_run(
    folder: Any,
    fingerprint: Callable[[], str],
    noise_seed: int | None,
    random_state: int | None,
    ledger: Ledger | None = None,
) -> tuple[Checkpoint | None, NoiseSource, int | None]:
    """Return the checkpoint of a run, new or to be taken up, its source of noise, and its training seed."""
    if folder is None or playing() is not None:  # a replay keeps no checkpoints
        return None, NoiseSource(noise_seed), random_state
    kept = Checkpoint(folder, fingerprint(), ledger)
    if not kept.facts:
        # Which seed a run without one drew must outlive it too.
        state = int.from_bytes(fresh_secret()[:6], "big") if random_state is None else random_state
        kept.facts |= {"step": 0, "key": fresh_secret().hex(), "random_state": state, "releases": None}
    source = NoiseSource(key=bytes.fromhex(kept.facts["key"])) if noise_seed is None else NoiseSource(noise_seed)
    return kept, source, kept.facts["random_state"]


def charge_run(
    said: Any, plan: Plan, data: Registration, kept: Checkpoint | None, clipping: Clipping, *, seeded: bool
) -> tuple[int, ...]:
    """Charge the run to the ledger, durably; return the release's number. A run taken up has been charged."""
    facts = {} if kept is None else kept.facts
    if said.ledger is None:
        if not facts.get("step"):
            promised = plan.guarantee
            event("dpsgd", "charged", kind="DP-SGD", epsilon=promised.epsilon, delta=promised.delta)
        return ()
    if facts.get("releases"):
        charged = tuple(facts["releases"])
        if said.ledger.head_of(charged) != facts["ledger_head"]:
            raise InvalidInputError(
                "ledger must be the one that was charged for the run that checkpoint_dir= keeps, got another one. Pass "
                "that one, or start again without it."
            )
        return charged
    assert plan.cost is not None
    said.ledger.open_total(said.ledger.total or said.budget)
    record = partial(
        said.ledger.record,
        plan.cost,
        mechanism=mechanism_of(plan, clipping),
        n_queries=0,
        facts={
            "n_steps": plan.shape.n_steps,
            "sample_rate": plan.shape.sample_rate,
            "noise_multiplier": plan.noise_multiplier,
            "max_grad_norm": float(clipping.max_norm),
            # Counted more tightly than the charge: what its statement says, to compare the two.
            "epsilon": plan.guarantee.epsilon,
            "delta": plan.guarantee.delta,
        },
        seeded=seeded,
        request="" if kept is None else str(kept.run),
        registration=data,
        kind="DP-SGD",
    )
    try:
        release = record()
    except BudgetExceededError:  # another process was quicker: nothing was charged, and this key is never used
        if kept is not None:
            kept.remove()
        raise
    facts["releases"], facts["ledger_head"] = [release], said.ledger.head_of((release,))
    return (release,)


@dataclass(frozen=True, eq=False)
class Begun:
    """What changes from step to step, and how all of it is kept."""

    clip: ClippingRun
    average: RunningAverage | None
    held: Sequence[Held]


def begin_training(run: Training, said: Any, kept: Checkpoint | None, likeness: Likeness | None) -> Begun:
    """Return the state to train from, as the checkpoint has it; a new one is on disk before anything is charged."""
    plan, module, averaging = run.plan, run.engine.module, read_averaging(said.averaging)
    clip = run.clipping.start(plan.shape.expected_batch_size)
    trained = [p for p in module.parameters() if p.requires_grad]
    average = None if averaging is None else RunningAverage(averaging, trained, plan.shape.n_steps)
    parts = {"module": module, "optimizer": run.optimizer, "clipping": clip, "average": average}
    parts |= {"canaries": run.canaries, "likeness": likeness}
    held = [Held(name, part) for name, part in parts.items() if part is not None]
    if kept is not None and not kept.arrays:
        kept.facts["noise_multiplier"] = plan.noise_multiplier
        kept.write(held, 0)
    elif kept is not None:
        for part in held:  # before its first step too: where a module starts may depend on more than the seed
            part.load(kept.arrays, kept.facts)
    return Begun(clip, average, held)


def run_training(run: Training, said: Any, begun: Begun, kept: Checkpoint | None = None) -> int:
    """Train the module behind the engine to the end, as it is set; return how many steps were done."""
    plan, optimizer, average = run.plan, run.optimizer, begun.average
    schedule, callbacks, n_steps = read_schedule(said.schedule), tuple(said.callbacks), plan.shape.n_steps
    start = 0 if kept is None else int(kept.facts.get("step", 0))
    if kept is not None and not kept.is_stored:
        kept.write(begun.held, start)  # the charge, and what was released before the first step, are on disk by then
    spent = lru_cache(maxsize=None)(lambda step: plan.epsilon_at(plan.guarantee.delta, step))
    done = start
    event("dpsgd", "resumed" if start else "begun", step=start, n_steps=n_steps, noise_multiplier=plan.noise_multiplier)
    steps = training_steps(run, begun.clip, start)
    every = max(1, -(-n_steps // _LOOKS))

    def progress(step: int) -> str:
        return f"epsilon {spent(min(n_steps, -(-step // every) * every)):.3g}" if step else ""

    schedule.apply(optimizer, said.learning_rate, start, n_steps)
    for done in track(steps, total=n_steps, begun=start, label="DP-SGD steps", show=said.verbose, note=progress):
        if average is not None:
            average.update(done - 1)
        schedule.apply(optimizer, said.learning_rate, done, n_steps)  # of the next step
        # A step is shown only once its state is on disk, but for the bar's constants.
        if kept is not None and (callbacks or done == n_steps or kept.is_due):
            kept.write(begun.held, done)
        seen = TrainingStep(done, n_steps, lru_cache(lambda: released(run.engine)), partial(spent, done))
        answers = [callback(seen) for callback in callbacks]  # each is called, whatever another one says
        if any(answers):
            break
    steps.close()
    if average is not None:
        average.write()
    event("dpsgd", "done", step=done, n_steps=n_steps)
    return done
