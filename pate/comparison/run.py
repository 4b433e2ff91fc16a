"""Run a comparison: fit contestants at several budgets and in several repeats, in parallel where there are workers."""

from __future__ import annotations

import os
import tempfile
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any, cast

import numpy as np

from pate._core.checks import check_bounds, check_int
from pate._core.cluster import on_cluster, workers
from pate._core.curator import need
from pate._core.progress import track
from pate._core.provenance import provenance
from pate._core.secret import training_seed
from pate.comparison import _report as pages
from pate.comparison._cells import Cell, Key, sizes
from pate.comparison._fit import Done, Task, check_column, fit_tasks, forget_rows, raise_with_note
from pate.comparison._folder import CellFolder, contestants_of, described
from pate.comparison._report import ComparisonReport, check_analysis
from pate.comparison.contract import PREDICTS, Contestant
from pate.comparison.studies._folders import plain_values
from pate.comparison.studies.config import public_rows
from pate.data import Dataset, check_numeric, load_dataset, own_table
from pate.exceptions import InvalidInputError, PateError, RunFolderError
from pate.privacy.budget import Budget
from pate.report.result import FitCost
from pate.teachers import interruptible, side_by_side


def compare(
    contestants: Mapping[str, Any] | Sequence[Contestant],
    data: Dataset,
    *,
    budgets: Sequence[Budget],
    n_repeats: int = 5,
    random_state: int | None = 0,
    n_jobs: int | None = None,
    out: str | os.PathLike[str] | None = None,
    noise_seed: int | None = None,
    sensitive: bool = False,
    by: str | None = None,
    analysis: str = "public",
    verbose: bool = False,
) -> ComparisonReport:
    """Compare private classifiers: fit each at every budget on several random splits, and measure test accuracy.

    For a numeric target (``data.target_range``) regressors are compared, and R2 is measured. "Contestants" are the
    methods that are compared.

    Parameters
    ----------
    contestants : mapping of name to classifier or Contestant, or sequence of Contestants
        The methods to compare. A classifier is unfitted and has a ``budget`` parameter; it is cloned and not changed.
        ``fit`` gets the private rows and, if it takes them, ``X_public`` and ``groups``. References without privacy
        (floors and ceilings, :class:`pate.comparison.contract.Contestant`) are fitted once per repeat.
    data : Dataset
        Its labels are class indices, so build classifiers with ``classes=range(len(data.classes))``; a classifier whose
        ``classes`` are ``data.classes`` themselves gets class values. Or its labels are numbers within
        ``data.target_range``, all finite in public and test rows. Repeat r is fitted on ``data.redrawn(seed_r)``.
    budgets : sequence of Budget
        All with the same delta, each once.
    n_repeats : int
        Each repeat draws split, training, shards and noise anew. All contestants get the same split and the same
        ``random_state``, so that their differences are paired. You can add repeats later in the same ``out``; verdicts
        are not corrected for repeats that you add after looking at the results.
    random_state : int or None
        Seed of splits and of training; for published data (or with ``noise_seed``) also of the cut into shards
        (``partition_seed``, see :func:`pate.partition`), so that the same call compares the same teachers. The shards
        of all other data are cut by a secret, because this seed is in public files. None draws it from the operating
        system.
    n_jobs : int or None
        How many fits run in parallel, by joblib; ``joblib.parallel_config`` can send them to a cluster
        (docs/comparison.md).
    out : path or None
        A folder in which every finished fit is saved at once, so that the same call goes on after an interruption. At
        the end it has ``results.json`` and the page ``report.html``. Do not publish its folder ``resume.private/``: it
        is for the curator (digests of private rows, times, data-dependent epsilons, ceilings of unpublished data).
    noise_seed : int or None
        For tests and experiments only: makes the noise repeatable (another stream for every fit), and then nothing
        is private. None takes noise from the operating system, whatever the contestants were built with.
    sensitive : bool
        Also write ``sensitive.html`` into ``out``, for the curator alone.
    by : str or None
        A column of the public rows: accuracy and answers are also reported for each of its values. For classes only.
    analysis : {"public", "data-dependent"}
        ``"data-dependent"`` writes ``sensitive.html`` too, with the curve by the exact data-dependent epsilon of each
        contestant whose teachers vote (:func:`pate.account`): **private to the curator**, and in no other file but
        those of ``resume.private/``. ``report.plot(analysis=...)`` draws it.
    verbose : bool
        Show a progress bar on standard error.

    Returns
    -------
    ComparisonReport

    Raises
    ------
    InvalidInputError
        Nothing to compare, a contestant that cannot take part, a numeric target without a range or with cells that are
        no numbers, or budgets of different delta.
    RunFolderError
        ``out`` holds something else, or is in use.
    BudgetExceededError
        A contestant states a guarantee beyond the budget.

    Notes
    -----
    **Guarantees.** Each fit is a separate spend on the private data: ``len(contestants) * len(budgets) * n_repeats``
    of them, and comparing on private data that matters costs the sum; where repeats draw rows again, no epsilon covers
    them together. The accuracies are measured without noise on the test rows, and public files hold which of them
    every fit had right: test rows are taken to be public. An error in one fit ends the comparison, naming the fit;
    finished ones stay in ``out``. A contestant for which the budget is too small (:class:`BudgetExceededError`,
    :class:`NotWorthwhileError`) has a cell with the reason.

    Examples
    --------
    >>> from pate import Budget, DPSGDClassifier, compare, load_dataset
    >>> data = load_dataset("digits", n_private=400)
    >>> linear = DPSGDClassifier(
    ...     "linear", budget=Budget(1.0, 1e-4), classes=range(10), epochs=2
    ... )
    >>> report = compare(
    ...     {"DP-SGD": linear},
    ...     data,
    ...     budgets=[Budget(1.0, 1e-4), Budget(8.0, 1e-4)],
    ...     n_repeats=1,
    ... )
    >>> [(row["contestant"], row["epsilon"], row["queries"]) for row in report.rows()]
    [('DP-SGD', 1.0, None), ('DP-SGD', 8.0, None)]
    """
    if out is not None:
        need("matplotlib", extra="plots", why="The comparison's report")
    taking_part = contestants_of(contestants)
    if not isinstance(data, Dataset):
        raise InvalidInputError(f"data must be a pate.Dataset, got {type(data).__name__}. Use pate.load_dataset(name).")
    predicts = _check_target(data, taking_part)
    epsilons, delta = _check_budgets(budgets)
    n_repeats = check_int("n_repeats", n_repeats, low=1)
    for name, value in (("random_state", random_state), ("noise_seed", noise_seed)):
        if value is not None:
            check_int(name, value, low=0, remedy="None draws from the operating system.")
    check_column(data, by)
    sensitive |= check_analysis(analysis, predicts)
    if sensitive and out is None:
        asked = "sensitive=True" if analysis == "public" else f"analysis={analysis!r}"
        raise InvalidInputError(f"{asked} writes sensitive.html into out, got out=None. Name a folder.")

    base = training_seed(None) if random_state is None else random_state
    seeds = [training_seed(base, r) for r in range(n_repeats)]
    seeded = {"random_state": random_state, "noise_seed": noise_seed}
    identity = {"epsilons": list(epsilons), "delta": delta, **seeded, "by": by}
    # One time for all: a time for each fit would reveal how long it took, which depends on private rows.
    now = stamp = provenance()
    with CellFolder(out) if out is not None else nullcontext() as folder, _cache(out) as cache:
        if folder is not None:
            seeds, stamp = folder.open(taking_part, data, identity, seeds, stamp)
        alone = workers(n_jobs) == 1 and not on_cluster()
        # Seeds are in public files, so shards cut by one are known: only where nothing private is at stake.
        known_shards = random_state is not None and (data.published or noise_seed is not None)

        def task(contestant: Contestant, epsilon: float, repeat: int) -> Task:
            seed = seeds[repeat]
            key = contestant.name, epsilon if contestant.role == "private" else None, repeat
            return Task(
                contestant,
                Budget(epsilon, delta),
                repeat,
                n_repeats,
                seed=seed,
                cut_seed=seed if known_shards else None,
                noise_seed=_noise_of(noise_seed, key),
                created=stamp["created"],
                by=by,
                cache=Path(cache),
                n_jobs=None if alone else 1,
            )

        # Whole repeats first: more of them go on where fewer ended.
        plan = [
            task(contestant, epsilon, repeat)
            for repeat in range(n_repeats)
            for contestant in taking_part
            for epsilon in (epsilons if contestant.role == "private" else epsilons[:1])
        ]
        finished = _Finished(folder, {t.key: t for t in plan}, published=data.published)
        left = [t for t in plan if t.key not in finished.cells]
        others = folder.also(now, left=bool(left)) if folder is not None else []
        fits = _fits(left, data, n_jobs=n_jobs, alone=alone)
        # Closed by hand: an error would otherwise leave workers and the progress bar running while it is handled.
        bar = cast(Generator[Done], track(fits, total=len(plan), begun=len(finished.cells), label="fits", show=verbose))
        with closing(fits), closing(bar):
            try:
                for done in bar:
                    finished.take(*done)
            except Exception as error:
                if folder is not None:
                    n, place = len(finished.cells), os.fspath(out)  # type: ignore[arg-type]
                    note = f"The {n} finished fits are saved in {place!r}."
                    raise_with_note(error, "", note, after=f" {note}")
                raise
        if folder is not None:
            folder.finish([finished.cells[t.key].to_dict() for t in plan if not finished.hides(finished.cells[t.key])])
    levels = (None, *epsilons)
    order = [(c.name, epsilon, r) for c in taking_part for epsilon in levels for r in range(n_repeats)]
    cells = [finished.cells[key] for key in order if key in finished.cells]
    shown = [cell for cell in cells if not finished.hides(cell)]
    report = ComparisonReport(
        cells=tuple(shown),
        dataset=data.name,
        protocol=data.protocol,
        description=data.description,
        classes=plain_values(data.classes),
        entrants=tuple(described(c) for c in taking_part),
        redraws=data.redraws,
        # Else it is the number of private rows, with a public one added.
        n_pool=data.n_pool if data.published or data.test_redrawn else None,
        published=data.published,
        score=PREDICTS[predicts].name,
        ceilings=tuple(cell for cell in cells if finished.hides(cell)),
        costs=tuple(finished.costs[cell.key] for cell in cells if cell.key in finished.costs),
        settings={
            "epsilons": ", ".join(f"{e:g}" for e in epsilons),
            "delta": delta,
            "n_repeats": n_repeats,
            "random_state": random_state,
            # That there is a seed makes the report warn; the seed itself would reveal the noise.
            "noise_seed": "given" if any(cell.seeded for cell in cells) else None,
            "by": by,
            **({} if data.target_range is None else {"target range": data.target_range}),
            "redrawn in each repeat": data.redraws,
            **({"went on with": "; ".join(others)} if others else {}),
            **sizes(data, cells),
        },
        **stamp,
    )
    if out is not None:
        pages.write(Path(out), report.result())
        if sensitive:
            report.save_sensitive(Path(out) / "sensitive.html")
    return report


class _Finished:
    """The finished fits: in memory, and in the folder where there is one."""

    def __init__(self, folder: CellFolder | None, plan: Mapping[Key, Task], *, published: bool) -> None:
        self.folder, self.published = folder, published
        self.cells: dict[Key, Cell] = {}
        self.costs: dict[Key, FitCost] = {}
        if folder is None:
            return
        private = folder.costs.read()
        finished = [_stored(FitCost, line.get("cost"), plan, folder.path) for line in private]
        ceilings = [line["cell"] for line in private if "cell" in line]
        cells = [_stored(Cell, line, plan, folder.path) for line in (*ceilings, *folder.cells.read())]
        self.costs, self.cells = ({one.key: one for one in some} for some in (finished, cells))

    def take(self, cell: Cell, cost: FitCost) -> None:
        """Store a finished fit: its private part first, so that no cell is without its cost."""
        hidden = self.hides(cell)
        if self.folder is not None:
            self.folder.costs.append({"cost": cost.to_dict(), **({"cell": cell.to_dict()} if hidden else {})})
            if not hidden:
                self.folder.cells.append(cell.to_dict())
        self.cells[cell.key], self.costs[cell.key] = cell, cost

    def hides(self, cell: Cell) -> bool:
        """Whether a cell is private: a ceiling of data that are not published."""
        return cell.role == "ceiling" and not self.published


def _fits(left: Iterable[Task], data: Dataset, *, n_jobs: int | None, alone: bool) -> Generator[Done]:
    try:
        if not alone:
            calls = (([task], drawn) for task, drawn in _drawn(left, data))
            yield from side_by_side(fit_tasks, calls, n_jobs=n_jobs, in_worker=True)
            return
        for task, drawn in _drawn(left, data):
            with interruptible():
                done = fit_tasks([task], drawn)
            yield from done
    finally:
        forget_rows()


def _drawn(left: Iterable[Task], data: Dataset) -> Iterator[tuple[Task, Dataset]]:
    """Yield tasks with the split of their repeat, drawn when the repeat starts."""
    repeat, drawn = None, data
    for task in left:
        if task.repeat != repeat:
            repeat, drawn = task.repeat, data.redrawn(task.seed)
        yield task, drawn


def _noise_of(noise_seed: int | None, key: Key) -> int | None:
    # By name, not by position: a contestant more or less leaves the others' noise as it was.
    name, epsilon, repeat = key
    place = zlib.crc32(f"{name}\0{epsilon!r}".encode())
    return None if noise_seed is None else training_seed(noise_seed, repeat, place)


def _cache(out: str | os.PathLike[str] | None) -> Any:
    """Return the folder of fitted public maps: in ``out``, or a temporary one."""
    if out is not None:
        return nullcontext(Path(out) / "cache")
    return tempfile.TemporaryDirectory(prefix="pate-", ignore_cleanup_errors=True)


def _stored(kind: Any, values: Any, plan: Mapping[Key, Task], path: Path) -> Any:
    try:
        found = kind.from_dict(values)
        known = found.key in plan
    except PateError:
        known = False
    if not known:
        raise RunFolderError(f"{path} holds a fit that is not of this comparison. Choose another folder for out=.")
    return found


def _check_target(data: Dataset, contestants: Iterable[Contestant]) -> str:
    """Return what is predicted, "classes" or "numbers"; refuse a target that is neither, and who predicts the other."""
    bounds = data.target_range
    predicts = "classes" if bounds is None else "numbers"
    if bounds is None and not len(data.classes):
        raise InvalidInputError(
            "data.target_range must be (low, high), two numbers that a numeric target lies between, or data.classes "
            "the class values, from public knowledge; got neither. Say one: Dataset(..., target_range=(0, 5000))."
        )
    if bounds is not None:
        check_bounds(bounds, name="data.target_range")
        parts = {"private.y": data.private.y, "public.y_for_evaluation": data.public.y_for_evaluation}
        for name, y in {**parts, "test.y": data.test.y}.items():
            numbers = np.asarray(y).dtype.kind in "fiu"
            # A private cell that is no number is that record's own matter.
            if not numbers or (name != "private.y" and not np.isfinite(y).all()):
                raise InvalidInputError(
                    f"data.{name} must hold {'finite numbers' if numbers else f'numbers, got {np.asarray(y).dtype}'}: "
                    "the target has a range. Leave rows without a number out."
                )
        if np.ptp(data.test.y) == 0:
            raise InvalidInputError("data.test.y must hold two numbers at least, got one: R2 has no meaning there.")
    for contestant in contestants:
        if contestant.predicts != predicts:
            raise InvalidInputError(
                f"contestant {contestant.name!r} predicts {contestant.predicts}, and the target is {predicts}. Leave "
                f"it out; one of your own says Contestant(..., predicts={predicts!r})."
            )
    return predicts


def _check_budgets(budgets: Any) -> tuple[tuple[float, ...], float]:
    if isinstance(budgets, Budget) or not isinstance(budgets, Sequence) or not budgets:
        raise InvalidInputError(
            f"budgets must be a list of at least one pate.Budget, got {budgets!r}. Pass [Budget(1.0, 1e-5), ...]."
        )
    for budget in budgets:
        if not isinstance(budget, Budget):
            raise InvalidInputError(f"budgets must hold pate.Budget values, got {budget!r}. Pass Budget(1.0, 1e-5).")
    deltas = sorted({b.delta for b in budgets})
    if len(deltas) > 1:
        raise InvalidInputError(
            f"budgets must all have the same delta, got {', '.join(f'{d:g}' for d in deltas)}. Accuracy against "
            "epsilon is one curve only at one delta: compare once per delta."
        )
    epsilons = tuple(b.epsilon for b in budgets)
    if len(set(epsilons)) < len(epsilons):
        raise InvalidInputError(
            f"budgets must name each epsilon once, got {', '.join(f'{e:g}' for e in epsilons)}. More fits per budget "
            "are n_repeats."
        )
    return epsilons, deltas[0]


# Contestants by name on a named data set.


def compare_on(
    dataset: str,
    *,
    contestants: Sequence[str] = (),
    epsilons: Sequence[float],
    delta: float = 1e-5,
    n_repeats: int = 5,
    protocol: str = "standard",
    n_public: int | None = None,
    n_private: int | None = None,
    by: str | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    out: Any = None,
    sensitive_report: bool = False,
    analysis: str = "public",
    data_home: Any = None,
    verbose: bool = False,
    target: str | None = None,
    target_range: Any = None,
) -> ComparisonReport:
    """Compare contestants by name on a named data set; see :func:`pate.compare`.

    With ``target``, a column of numbers, and ``target_range``, what it lies between, regressors are compared; then
    ``dataset`` may be a table of your own (:func:`pate.load_dataset`).
    """
    from pate.comparison.contestants import default_contestants, named

    if not len(epsilons):
        raise InvalidInputError("epsilons must name at least one budget, got none.")
    budgets = [Budget(e, delta) for e in epsilons]
    predicts = "classes" if check_numeric(target, target_range) is None else "numbers"
    check_analysis(analysis, predicts)
    if target is None and own_table(dataset):
        raise InvalidInputError(
            f"dataset must be a named one where classes are predicted, got {os.fspath(dataset)!r}. A table of your "
            "own is compared on a column of numbers: target= and target_range=."
        )
    if contestants:
        named(contestants, predicts=predicts)  # before anything is downloaded
    data = load_dataset(
        dataset,
        protocol=protocol,
        data_home=data_home,
        random_state=random_state,
        n_public=public_rows(os.fspath(dataset)) if n_public is None else n_public,
        n_private=n_private,
        target=target,
        target_range=target_range,
    )
    facts = {"kind": data.kind, "image_shape": data.image_shape, "predicts": predicts}
    return compare(
        named(contestants, **facts) if contestants else default_contestants(**facts),  # type: ignore[arg-type]
        data,
        budgets=budgets,
        n_repeats=n_repeats,
        random_state=random_state,
        n_jobs=n_jobs,
        out=out,
        sensitive=sensitive_report,
        analysis=analysis,
        by=by,
        verbose=verbose,
    )
