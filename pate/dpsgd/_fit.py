"""Fit a module on private rows: read, plan, charge the budget, train and state the guarantee, in this order."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from pate._core.checks import quietly
from pate._core.frames import plain_rows
from pate._core.progress import timed
from pate._core.recorder import note
from pate._core.secret import training_seed
from pate.data import NO_OWNER, ODD_CELLS, Schema, by_name, is_frame, recognised_by, usable_records
from pate.data.schema import declared_widths
from pate.dpsgd._canaries import CanaryRun, add_canaries
from pate.dpsgd._checkpoint import Checkpoint, Likeness, fingerprint_of
from pate.dpsgd._measured import Measured, measure_module, with_counts
from pate.dpsgd._optimizers import make_optimizer
from pate.dpsgd._rows import (
    check_apart,
    check_map,
    ids_for,
    map_private,
    read_groups,
    read_more,
    read_public,
    read_records,
    within_ranges,
)
from pate.dpsgd._run import Training, begin_training, build_engine, charge_run, open_run, run_training, try_there
from pate.dpsgd._settings import (
    along,
    check_recipe,
    check_settings,
    determining,
    filled,
    is_planned,
    read_clipping,
    read_mechanism,
    resolve,
    shape_of,
)
from pate.dpsgd._statement import Plan, dpsgd_statement, make_plan, priced
from pate.dpsgd._target import MeasuredNumber, TargetScale, TargetSums, too_few, with_sums
from pate.dpsgd._units import Units
from pate.dpsgd._values import flat
from pate.dpsgd.engines import released
from pate.dpsgd.recipes import RecipePlan
from pate.exceptions import InvalidInputError
from pate.ledger import Registration
from pate.models.recipes import PublicFacts, check_worth, some_rows
from pate.networks import held_threads, one_device, own_generator
from pate.privacy.budget import Budget
from pate.privacy.convert import gdp_from_budget
from pate.privacy.noise.source import NoiseSource
from pate.privacy.words import Guarantee
from pate.records import number_codes
from pate.release import doubt_named
from pate.release.statement.fields import check_stated
from pate.release.statement.files import bind_statement
from pate.release.statement.model import PrivacyStatement
from pate.release.statement.plain import as_plain_text
from pate.teachers import usable

#: The entry of ``stated`` that is no assumption's: what was tuned.
TUNING = "tuning"


@dataclass(frozen=True)
class Fitted:
    """The result of a fit: ``module`` on the CPU in evaluation mode, ``kept`` to be removed once all is well.

    Of a number ``scale`` says what its outputs mean, and ``interval`` where nine in ten numbers lie about a prediction.
    """

    reader: Any
    classes: tuple[Any, ...]
    module: nn.Module
    plan: Plan
    guarantee: Guarantee
    n_steps: int
    recipe_plan: RecipePlan | None
    statement: PrivacyStatement
    canaries: CanaryRun | None
    canary_labels: npt.NDArray[np.int64]
    kept: Checkpoint | None
    scale: TargetScale | None = None
    interval: tuple[float, float] | None = None


def linear_weights(module: nn.Module) -> npt.NDArray[np.float32]:
    """Return the weights of a recipe's linear model, shape (n_classes, n_features)."""
    inner = module if isinstance(module, nn.Linear) else [*module.children()][-1]
    if not isinstance(inner, nn.Linear) or inner.bias is not None:
        raise InvalidInputError("the recipe must be of a linear model without a bias. Take pate.DPSGDClassifier.")
    return inner.weight.detach().cpu().numpy().astype(np.float32)


def facts_of(budget: Budget, n_units: int, n_classes: int) -> PublicFacts:
    """Return the public numbers by which it is judged whether training is worth its budget."""
    mu = gdp_from_budget(budget.epsilon, budget.delta)
    return PublicFacts(n_units=max(1, n_units), n_classes=max(2, n_classes), mu=mu, n_public=0)


def made_up(schema: Any, row_shape: tuple[int, ...]) -> Any:
    """Return made-up rows within a schema, on which it shows which classes a model names; None where there is none."""
    if schema is None or len(row_shape) != 1:
        return None
    return Schema.declared(schema, n_columns=None if isinstance(schema, Schema) else row_shape[0]).stand_ins()


def fit_privately(
    clf: Any,
    X: Any,
    y: Any,
    *,
    X_public: Any = None,
    groups: Any = None,
    schema: Any = None,
    canaries: Any = None,
    recipe_plan: RecipePlan | None = None,
    measuring: bool = False,
    classes_inferred: bool = False,
    offsets: Callable[[nn.Module], Any] | None = None,
) -> Fitted:
    """Train what an estimator is set to, as :meth:`pate.DPSGDClassifier.fit` says; the estimator stays as it is.

    ``recipe_plan`` was planned beforehand, of public facts; ``measuring`` says whether ``clf.measure`` counts, and
    ``classes_inferred`` that the classes were read off the private labels. ``offsets`` are taken off the trained
    module's logits before a class is taken, by the module and public facts alone: what is measured is that.
    """
    said = flat(clf, schema=schema, canaries=canaries)
    same, X = X_public is X, plain_rows(X)
    X_public = X if same else plain_rows(X_public, name="X_public")  # the same object is refused below
    check_recipe(said)
    like = X_public
    if said.ranges is not None and recipe_plan is None:
        X, X_public = within_ranges(said.ranges, X, X_public)
        like = declared_widths(said.ranges) if X_public is None else X_public
    if is_frame(X) and X_public is not None:
        X_public = by_name(X_public, X.columns, name="X_public", other="X")
    check_settings(filled(said))
    reader = copy.copy(clf)  # what it learns of the columns is ours once all has gone well
    n_is_public = said.adjacency != "add-or-remove"  # there their number is no public fact
    number = said.bounds is not None
    features, labels, classes, readable = read_records(
        reader, X, y, said.classes, n_is_public=n_is_public, planned=is_planned(said), like=like, number=number
    )
    owners, groups, has_owner = read_groups(groups, len(labels), n_is_public=n_is_public)
    note("rows", who="DPSGDClassifier", rows=features, labels=labels, groups=owners)
    unit = "record" if owners is None else "group"
    device = one_device(said.device)
    codes = number_codes(labels) if number else labels
    known = {} if said.ledger is None else recognised_by(features, codes, groups)
    values, scale = labels, TargetScale.stated(said.bounds) if number else None
    if scale is not None:
        labels = scale.scaled(values)
    n_units = len(labels) if owners is None else int(owners.max()) + 1
    row_shape = tuple(np.shape(features)[1:])
    numbered = owners is None and said.adjacency != "add-or-remove"  # neighbours' records stand in the same places
    if recipe_plan is not None:
        run = along(said, recipe_plan)
    else:
        if is_planned(said):
            check_apart(X, X_public)
            check_map(said, features, X_public)
        with timed("startup"):
            run, recipe_plan = resolve(said, row_shape, X_public, n_units=n_units, n_classes=len(classes))
    if recipe_plan is not None:
        features, whole = map_private(features, recipe_plan)
        readable &= whole
    asked = None
    if recipe_plan is not None and not number and offsets is None:  # else more is said of the labels of public rows
        some = X_public if said.ranges is None else made_up(said.ranges, row_shape)
        asked = None if some is None else quietly("X_public", read_public, reader, some_rows(some, 0), recipe_plan)
    if run.augmentation is not None:
        run.augmentation.check_rows(features.shape[1:])
    records = said.canaries is not None and not said.canaries.gradients
    marked = read_more(reader, said.canaries.X, said.canaries.y, classes, recipe_plan) if records else ()
    clipping = read_clipping(run.clipping, run.max_grad_norm)
    data = Registration(unit, classes, n_units=n_units, **known)
    if said.ledger is not None:
        said.ledger.check(data)
    kept, source, random_state = open_run(
        said.checkpoint_dir,
        # Numbers as they are: scaled to a wide range, different ones may be equal as float32.
        lambda: fingerprint_of(determining(run, classes), features, values, owners, *marked),
        said.noise_seed,
        said.random_state,
        said.ledger,
    )
    begun = {} if kept is None else kept.facts
    n_marks = 0 if said.canaries is None else said.canaries.n
    shape = shape_of(run, n_units + n_marks, unit)
    mechanism = read_mechanism(run, shape)
    if measuring:
        mechanism = (with_sums if number else with_counts)(said, mechanism, shape)
    plan = make_plan(
        said.budget,
        shape,
        mechanism=mechanism,
        noise_multiplier=begun.get("noise_multiplier", said.noise_multiplier),
        adjacency=said.adjacency,
        ledger=None if begun.get("releases") else said.ledger,
        on_exhausted=said.on_exhausted,
    )
    plan.warn_if_short(said.budget)
    if not (number or begun.get("releases") or said.noise_multiplier is not None or n_marks):
        check_worth(
            facts_of(said.budget, shape.n_units, len(classes)), unit=unit, force=said.force
        )  # the public number
    statement_of = partial(
        dpsgd_statement, plan, clipping=clipping, classes_given=said.classes is not None and not classes_inferred,
        bounds=said.bounds, unit=unit, rows_per_unit=said.records_per_group, n_canaries=n_marks,
        recipe_plan=recipe_plan,
    )  # fmt: skip
    stated: dict[str, str] = {}
    if said.stated is not None:  # refused before anything is charged
        assumed = [a.name for a in statement_of(noise="seeded", apart="").assumptions if a.name != "noise"]
        stated = check_stated(said.stated, (TUNING, *assumed))
    with held_threads(said.n_threads):
        with own_generator(training_seed(random_state, 0), device):
            engine = build_engine(run.module, features.shape[1:], len(classes), run.module_kwargs)
            engine.module.to(device)
        features, labels, owners = add_canaries(marked, features, labels, owners)
        rows, whole = ids_for(engine.module, features)
        n = len(readable)  # behind them stand canaries
        readable &= whole[:n]
        if number:
            checks = {"no number": np.isfinite(labels[:n]), ODD_CELLS: readable, NO_OWNER: has_owner}
            fine = usable_records(checks)
        else:
            fine = usable(classes, labels[:n], readable, has_owner)
        counts = np.append(fine, whole[n:])
        units = Units(
            rows, labels, owners, said.records_per_group, device, augmentation=run.augmentation, usable=counts
        )
        if device.type != "cpu":
            try_there(engine, units)
        weights = [p for p in engine.module.parameters() if p.requires_grad]
        marks = None if said.canaries is None else CanaryRun(said.canaries, n_units, weights, source.child(3))
        clipping.gradient_noise_multiplier(plan.noise_multiplier, plan.shape.expected_batch_size)
        likeness = None if kept is None else Likeness(engine.module, tuple(features.shape[1:]), len(classes))
        optimizer = make_optimizer(run.optimizer, engine.module, learning_rate=run.learning_rate, momentum=run.momentum)
        training = Training(
            engine,
            units,
            plan,
            clipping,
            optimizer,
            source,
            max_physical_batch_size=said.max_physical_batch_size,
            random_state=random_state,
            # A row's place follows from the rows before it. Where sampling counts for privacy it is secret which of
            # them are there, and one more must not change another's gradient (:mod:`pate.dpsgd._calibration`).
            shared_draws=not numbered or plan.mechanism.mu(plan.noise_multiplier, plan.shape, said.adjacency) is None,
            numbered=numbered,
            canaries=marks,
        )
        begun_training = begin_training(training, run, kept, likeness)
        # Charged once nothing public can fail any more and what a killed run needs is on disk; before the first noise.
        releases = charge_run(run, plan, data, kept, clipping, seeded=source.seeded)
        # Anyone who knows the seed can subtract the noise.
        promised = replace(plan.guarantee, kind="seeded") if source.seeded else plan.guarantee
        clf._spend(promised, unit, priced(plan), run=None if kept is None else kept.run)
        sums: TargetSums | None = None
        if isinstance(plan.mechanism, MeasuredNumber):
            sums = TargetSums(plan.mechanism, np.where(fine, values, np.nan), owners, source, kept)
            scale = sums.scale(said.bounds)
            units.relabel(scale.scaled(values))
        done = run_training(training, run, begun_training, kept)
    module, measured, errors, interval = engine.module.cpu().eval(), None, None, None  # never run itself
    if sums is not None:
        assert scale is not None
        with timed("labelling"), held_threads(said.n_threads):
            scale, interval, errors = sums.errors(scale, module, rows, np.asarray(fine))
    elif isinstance(plan.mechanism, Measured):
        with timed("labelling"), held_threads(said.n_threads):
            measured = measure_module(
                plan, module, rows[:n], labels[:n], np.asarray(fine), None if owners is None else owners[:n],
                classes=classes, budget=said.budget, offsets=0.0 if offsets is None else offsets(module),
                # Never the kept key's: a run that is taken up must not show other counts under the same noise.
                source=source.child(4) if source.seeded else NoiseSource(), kept=kept,
            )  # fmt: skip
    noise = "seeded" if source.seeded else "system" if kept is None else "keyed"
    statement = statement_of(noise=noise, apart=engine.apart, ledger=said.ledger, releases=releases)
    if stated:
        tuning = as_plain_text(stated.pop(TUNING, ""))
        statement = replace(statement, tuning=tuning).with_stated(stated)
    few = too_few(shape, unit, said.budget, said.bounds) if number else ()
    doubts = few if errors is None else errors.doubts(interval=interval is not None)
    if asked is not None:
        with torch.inference_mode(), held_threads(said.n_threads):
            named = module(torch.from_numpy(asked)).argmax(dim=1).numpy()
        what = "public rows" if said.ranges is None else "made-up rows within the schema"
        doubts = doubt_named(classes, named, f"{len(named):,} {what}")
    statement = clf._told(replace(statement, measured=measured, errors=errors, doubts=doubts))
    if offsets is None:  # else more is said of it, and the last statement alone is released
        bind_statement(statement, said.ledger)
    canary_labels = labels[len(labels) - n_marks :]
    return Fitted(
        reader, classes, released(engine), plan, promised, done, recipe_plan, statement, marks, canary_labels, kept,
        scale, interval,
    )  # fmt: skip
