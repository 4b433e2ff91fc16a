"""Fit contestants over budgets and seeds, on one split."""

from __future__ import annotations

import inspect
import os
import zlib
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np
from sklearn.base import clone
from sklearn.metrics import accuracy_score

from pate.comparison._folder import CellFolder
from pate.comparison.cells import Cell, Key
from pate.comparison.report import ComparisonReport, write_pages
from pate.core.checks import check_int
from pate.core.extras import need
from pate.core.progress import track
from pate.core.provenance import provenance
from pate.core.seeds import training_seed
from pate.data import Dataset
from pate.estimator import PATEClassifier
from pate.exceptions import BudgetExceededError, InvalidInputError, PateError, RunFolderError
from pate.privacy.budget import Budget
from pate.statement._fits import counted_elsewhere
from pate.statement.model import PrivacyStatement
from pate.studies.folders import plain_repr, plain_values


def compare(
    contestants: Mapping[str, Any],
    data: Dataset,
    *,
    budgets: Sequence[Budget],
    n_repeats: int = 3,
    random_state: int | None = 0,
    out: str | os.PathLike[str] | None = None,
    noise_seed: int | None = None,
    verbose: bool = False,
) -> ComparisonReport:
    """Fit every contestant at every budget with several seeds, on the same split, and measure on the test rows.

    Parameters
    ----------
    contestants : mapping of name to classifier
        Unfitted, each with a ``budget`` parameter; they are cloned and stay as they are. ``fit`` gets the private
        rows and, where it takes them, ``X_public`` and ``groups``.
    data : Dataset
        Labels are class indices, so build contestants with ``classes=range(len(data.classes))``; a contestant whose
        ``classes`` are ``data.classes`` themselves gets class values.
    budgets : sequence of Budget
        All with the same delta, each once.
    n_repeats : int
        Fits per contestant and budget. Repeat r has the same ``random_state`` for everybody.
    random_state : int or None
        Of training, and of the cut into shards (``partition_seed``, see :func:`pate.partition`), so that the same call
        compares the same teachers. None draws from the operating system; shards are then cut by a secret.
    out : path or None
        A folder that keeps every finished fit at once, so that the same call goes on after a kill; at the end it has
        ``results.json`` and the page, ``report.html``. What a resumed
        run needs to recognise the private rows stands apart in ``resume.private/``: do not publish that.
    noise_seed : int or None
        For tests and experiments only: makes the noise repeatable (another stream for every fit), and then nothing
        is private. None has the noise from the operating system, whatever the contestants were built with.
    verbose : bool
        Show a progress bar on standard error.

    Returns
    -------
    ComparisonReport

    Raises
    ------
    InvalidInputError
        Nothing to compare, a contestant that cannot take part, or budgets of different delta.
    RunFolderError
        ``out`` holds something else, or is in use.
    BudgetExceededError
        A contestant refused the budget, or states a guarantee beyond it.

    Notes
    -----
    **Guarantees.** Each fit is a separate spend on the private data: ``len(contestants) * len(budgets) * n_repeats``
    of them, and comparing on private data that matters costs the sum. The accuracies are measured without noise on
    the test rows. An error in one fit ends the comparison, naming the fit; finished ones stay in ``out``.

    Examples
    --------
    >>> from pate import Budget, DPSGDClassifier, compare, load_dataset
    >>> data = load_dataset("digits", n_private=400)
    >>> linear = DPSGDClassifier("linear", budget=Budget(1.0, 1e-4), classes=range(10), epochs=2)
    >>> report = compare({"DP-SGD": linear}, data, budgets=[Budget(1.0, 1e-4), Budget(8.0, 1e-4)], n_repeats=1)
    >>> [(row["contestant"], row["epsilon"], row["queries"]) for row in report.rows()]
    [('DP-SGD', 1.0, None), ('DP-SGD', 8.0, None)]
    """
    if out is not None:
        need("matplotlib", extra="plots", why="The comparison's report")
    entrants = _check_contestants(contestants)
    if not isinstance(data, Dataset):
        raise InvalidInputError(f"data must be a pate.Dataset, got {type(data).__name__}. Use pate.load_dataset(name).")
    epsilons, delta = _check_budgets(budgets)
    n_repeats = check_int("n_repeats", n_repeats, low=1)
    for name, value in (("random_state", random_state), ("noise_seed", noise_seed)):
        if value is not None:
            check_int(name, value, low=0, remedy="None draws from the operating system.")

    # Whole rounds first: whoever interrupts has a smaller comparison, not half of one.
    plan = [(name, e, r) for r in range(n_repeats) for name in entrants for e in epsilons]
    base = training_seed(None) if random_state is None else random_state
    seeds = [training_seed(base, r) for r in range(n_repeats)]
    identity = {
        "epsilons": list(epsilons),
        "delta": delta,
        "n_repeats": n_repeats,
        "random_state": random_state,
        "noise_seed": noise_seed,
    }
    # One time for all: a time for each fit would tell how long it took, which private rows decide.
    stamp = provenance()
    created = stamp["created"]
    done: dict[Key, Cell] = {}
    with CellFolder(out) if out is not None else nullcontext() as folder:
        if folder is not None:
            seeds = folder.open(entrants, data, identity, seeds)
            done = {cell.key: cell for cell in (_stored(line, plan, folder.path) for line in folder.lines())}
        left = [key for key in plan if key not in done]
        # Closed by hand: an error would otherwise leave the progress bar running while it is being told.
        bar = cast(Generator[Any], track(left, total=len(left), label="comparison", show=verbose))
        with closing(bar):
            for name, epsilon, repeat in bar:
                try:
                    model, budget, seed = entrants[name], Budget(epsilon, delta), seeds[repeat]
                    cut_seed = None if random_state is None else seed
                    cell = _fit(model, data, name, budget, repeat, seed, cut_seed, noise_seed, created)
                except Exception as error:
                    kept = f"The {len(done)} finished fits are kept in {os.fspath(out)!r}." if out is not None else ""
                    where = f"contestant {name!r} failed at epsilon={epsilon:g}, repeat {repeat + 1} of {n_repeats}"
                    _tell(error, where, kept)
                done[cell.key] = cell
                if folder is not None:
                    folder.append(cell.to_dict())
    cells = tuple(done[name, e, r] for name in entrants for e in epsilons for r in range(n_repeats))
    report = ComparisonReport(
        cells=cells,
        dataset=data.name,
        protocol=data.protocol,
        redraws=data.redraws,
        n_pool=data.n_pool,
        published=data.published,
        description=data.description,
        classes=plain_values(data.classes),
        settings={
            "epsilons": ", ".join(f"{e:g}" for e in epsilons),
            "delta": delta,
            "n_repeats": n_repeats,
            "random_state": random_state,
            # That there is a seed makes the report raise its alarm; the seed itself would give the noise away.
            "noise_seed": "given" if any(cell.seeded for cell in cells) else None,
            "n_private": len(data.private.y),
            "n_public": len(data.public.y_for_evaluation),
            "n_test": len(data.test.y),
            **{f"contestant {name}": plain_repr(est) for name, est in entrants.items()},
        },
        **stamp,
    )
    if out is not None:
        write_pages(Path(out), report.result())
    return report


def _fit(
    contestant: Any,
    data: Dataset,
    name: str,
    budget: Budget,
    repeat: int,
    seed: int,
    cut_seed: int | None,
    noise_seed: int | None,
    created: str,
) -> Cell:
    # By name, not by position: a contestant more or less leaves the others' noise as it was.
    place = zlib.crc32(f"{name}\0{budget.epsilon!r}".encode())
    noise = None if noise_seed is None else training_seed(noise_seed, repeat, place)
    parameters = {"budget": budget, "random_state": seed, "noise_seed": noise}
    takes = contestant.get_params(deep=False)
    if cut_seed is not None and not (isinstance(contestant, PATEClassifier) and contestant.who_votes() == "records"):
        parameters["partition_seed"] = cut_seed
    model = clone(contestant).set_params(**{k: v for k, v in parameters.items() if k in takes})
    y, y_test = data.private.y, data.test.y
    if _wants_values(takes.get("classes"), data.classes):
        values = np.array(data.classes, dtype=None if len({type(c) for c in data.classes}) == 1 else object)
        y, y_test = values[y], values[y_test]
    offered = {"X_public": data.public.X, "groups": data.private.groups}
    accepted = inspect.signature(model.fit).parameters
    with counted_elsewhere():  # a comparison's fits are its rows
        model.fit(data.private.X, y, **{k: v for k, v in offered.items() if k in accepted})
    release = getattr(model, "release_", None)
    statement = getattr(model, "statement_", None)
    seeded = noise_seed is not None if "noise_seed" in takes else None
    if isinstance(statement, PrivacyStatement):
        seeded = statement.seeded
        promised = statement.guarantee
        if promised.epsilon > budget.epsilon or promised.delta > budget.delta:
            raise BudgetExceededError(
                f"its statement promises epsilon={promised.epsilon:g} at delta={promised.delta:g}, beyond {budget}. "
                "Curves would not be comparable: mend the contestant, or raise the budget."
            )
    return Cell(
        contestant=name,
        epsilon=budget.epsilon,
        delta=budget.delta,
        repeat=repeat,
        accuracy=float(accuracy_score(y_test, model.predict(data.test.X))),
        seed=seed,
        queries=None if release is None else int(getattr(release, "quote", release).n_queries),
        answers=None if release is None else int(release.n_answered),
        seeded=seeded,
        statement=replace(statement, created=created) if isinstance(statement, PrivacyStatement) else None,
    )


def _wants_values(classes: Any, values: tuple[Any, ...]) -> bool:
    return isinstance(classes, Iterable) and tuple(classes) == values and values != tuple(range(len(values)))


def _tell(error: Exception, where: str, kept: str) -> NoReturn:
    if isinstance(error, PateError):
        raise type(error)(f"{where}: {error} {kept}".rstrip()) from error
    error.add_note(f"{where}. {kept}".rstrip())
    raise error


def _stored(line: dict[str, Any], plan: Sequence[Key], path: Path) -> Cell:
    try:
        cell = Cell.from_dict(line)
        known = cell.key in plan
    except PateError:
        known = False
    if not known:
        raise RunFolderError(f"{path} holds a fit that is not of this comparison. Choose another folder for out=.")
    return cell


def _check_contestants(contestants: Any) -> dict[str, Any]:
    if not isinstance(contestants, Mapping) or not contestants:
        raise InvalidInputError(
            f"contestants must be a mapping with at least one name and classifier, got {contestants!r}. "
            "Pass {'PATE': PATEClassifier(...), 'DP-SGD': DPSGDClassifier(...)}."
        )
    for name, contestant in contestants.items():
        if not isinstance(name, str) or not name.strip():
            raise InvalidInputError(f"contestants must have text as names, got {name!r}.")
        if isinstance(contestant, type) or not all(
            hasattr(contestant, m) for m in ("fit", "predict", "get_params", "set_params")
        ):
            raise InvalidInputError(
                f"contestants[{name!r}] must be a scikit-learn classifier (fit, predict, get_params, set_params), "
                f"got {contestant!r}."
            )
        takes = contestant.get_params(deep=False)
        if "budget" not in takes:
            remedy = "Only classifiers that take a budget compare at one epsilon; wrap yours in one that does."
            if hasattr(contestant, "steps"):
                remedy = (
                    "A Pipeline fits its other steps on the private rows outside any budget: put them inside "
                    "PATEClassifier(make_pipeline(...)), or transform the data beforehand by what public rows teach."
                )
            raise InvalidInputError(
                f"contestants[{name!r}] must have a parameter named budget, and {type(contestant).__name__} has none. "
                f"{remedy}"
            )
        if takes.get("ledger") is not None:
            raise InvalidInputError(
                f"contestants[{name!r}] must not have a ledger: it would give the answers of one fit to the next, "
                "and charge them all to one budget. Pass ledger=None."
            )
    return dict(contestants)


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
