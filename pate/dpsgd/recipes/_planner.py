"""Which recipe, and with which numbers: from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pate.dpsgd.recipes._facts import TrainingFacts
from pate.dpsgd.recipes._presets import recipe
from pate.dpsgd.recipes._recipe import DPSGDRecipe
from pate.exceptions import InvalidInputError

#: Up to so many records every step takes all of them: exact Gaussian differential privacy, and no sampling to pay for.
_ALL = 8192
#: Steps of a linear model: over all records, and in epochs of large batches.
_STEPS, _EPOCHS = 40, 40
#: Below this noise multiplier a sampled step is overcharged (Sander et al. 2023: keep q sqrt(T) / sigma, enlarge q).
_LEAST_SIGMA = 2.0
#: Components: so many at this evidence, and a power of it.
_FEW, _AT, _POWER = 17.0, 20.0, 0.75
_LEAST_COMPONENTS = 16
_MOST_COMPONENTS = {"scattering": 256, "kernel": 256, "encoded": 100, "given": 400}
#: Networks need more steps than linear models do.
_NETWORK_STEPS = 600


def choose_recipe(
    facts: TrainingFacts, name: str | DPSGDRecipe | None = None, *, numbers: Mapping[str, Any] | None = None
) -> DPSGDRecipe:
    """Return the recipe for these facts, with every number filled in.

    Parameters
    ----------
    facts : TrainingFacts
    name : str, DPSGDRecipe or None
        Of a preset, or a recipe, whose open numbers are filled in. None chooses: images with public rows ``linear``,
        without ``linear-group-norm``; tables of numbers with public rows ``tabular-kernel``, with categories
        ``tabular-logistic``, with declared ranges ``declared``, without anything public ``unit-rows``; features of a
        representation ``pretrained``.
    numbers : mapping or None
        Fields that are fixed already; the others follow from them.

    Returns
    -------
    DPSGDRecipe
        Its ``reasons`` say what was chosen, and why.

    Raises
    ------
    InvalidInputError
        The preset needs public rows, images, or what else these facts do not have.

    Notes
    -----
    Batch and steps: as long as noise is large, only q sqrt(T) / sigma is charged, so q and T buy the same: a large
    batch in few steps. Full batches where that is cheap (exactly accounted); else 8,192, and more where ``sigma`` would
    fall below 2, where sampling is overcharged (Sander, Stock, Sablayrolles, ICML 2023, *TAN without a burn*). Where
    computing is short, the run is shorter, not the batch smaller. The learning rate follows from the noise that a logit
    can bear (:class:`DPSGDRecipe`), so it grows with n mu.

    Examples
    --------
    >>> from pate import Budget
    >>> facts = TrainingFacts("table", 1_038, 10, Budget(1.0, 1e-5), n_public=400, row_shape=(64,), scale="common")
    >>> chosen = choose_recipe(facts)
    >>> chosen.name, chosen.n_components, chosen.expected_batch_size, chosen.epochs
    ('tabular-kernel', 17, 1038, 40)
    """
    chosen = name if isinstance(name, DPSGDRecipe) else recipe(_named(facts) if name is None else name)
    chosen = replace(chosen, **(numbers or {}))
    _check(chosen, facts)
    reasons = [("recipe", _why(facts) if name is None else "as asked")]
    components = _components(chosen, facts)
    if components is not None:
        reasons.append(
            ("components", f"{components} for evidence {facts.evidence:.3g} and {facts.n_public} public rows")
        )
    batch, steps = _sizes(chosen, facts)
    n = facts.n_units
    epochs = max(1, round(steps / -(-n // batch)))
    steps = epochs * -(-n // batch)
    reasons.append(
        ("batch", f"{batch} of {n} records in {steps} steps" + (", all in every step" if batch == n else ""))
    )
    rate = chosen.learning_rate
    if rate is None:
        travel = chosen.logit_noise * n * facts.mu / 2
        rate = travel * (1 - chosen.momentum) / (chosen.max_grad_norm * steps)
        moved = "a logit of a row of norm 1" if chosen.module == "linear" else "a weight"
        reasons.append(("learning rate", f"{rate:.3g}: all noise moves {moved} by about {chosen.logit_noise:g}"))
    return replace(
        chosen,
        n_components=components,
        expected_batch_size=batch,
        epochs=epochs,
        learning_rate=rate,
        reasons=tuple(reasons),
    )


def _named(facts: TrainingFacts) -> str:
    if facts.kind == "features":
        return "pretrained"
    if facts.kind == "image":
        return "linear" if facts.n_public > _LEAST_COMPONENTS else "linear-group-norm"
    if facts.declared:
        return "declared"
    if facts.n_public <= 2:
        return "unit-rows"
    return "tabular-logistic" if facts.kind == "mixed" else "tabular-kernel"


def _why(facts: TrainingFacts) -> str:
    said = f"{facts.n_public} public rows" if facts.n_public else "no public rows"
    if facts.declared:
        said = "declared ranges"
    return f"{facts.kind}, {said}"


def _check(chosen: DPSGDRecipe, facts: TrainingFacts) -> None:
    needs_images = chosen.representation in ("scattering", "group-norm") or chosen.name in ("tempered-cnn", "resnet")
    if needs_images and facts.kind != "image":
        raise InvalidInputError(
            f"recipe {chosen.name!r} is for images of at least 16 pixels a side, got rows of shape {facts.row_shape}. "
            "Pass image_shape=, or leave the recipe to be chosen."
        )
    if chosen.representation in ("scattering", "kernel", "encoded") and facts.n_public <= 2:
        raise InvalidInputError(
            f"recipe {chosen.name!r} needs public rows, got {facts.n_public}. Pass X_public=, or leave the recipe to "
            "be chosen."
        )
    if facts.declared and facts.kind not in ("table", "mixed"):
        raise InvalidInputError(
            "ranges is for tables: pixels of images are taken to lie between 0 and 1, and a representation says itself "
            "what it takes. Leave it out."
        )
    if (chosen.representation == "declared") != facts.declared:
        raise InvalidInputError(
            f"recipe {chosen.name!r} {'has no use for ranges=' if facts.declared else 'needs ranges='}. "
            "Leave the recipe to be chosen, or take 'declared' with ranges={'age': (0, 120), ...}."
        )
    if chosen.representation == "given" and facts.kind != "features":
        raise InvalidInputError(f"recipe {chosen.name!r} needs representation=. Pass one of pate.representations.")


def _components(chosen: DPSGDRecipe, facts: TrainingFacts) -> int | None:
    most = _MOST_COMPONENTS.get(chosen.representation or "")
    if most is None or facts.n_public <= 2:
        return None
    if chosen.n_components is not None:
        return min(chosen.n_components, max(1, facts.n_public // 2))
    by_evidence = _FEW * (facts.evidence / _AT) ** _POWER
    return max(1, min(most, facts.n_public // 2, max(_LEAST_COMPONENTS, round(by_evidence))))


def _sizes(chosen: DPSGDRecipe, facts: TrainingFacts) -> tuple[int, int]:
    """Return batch and steps."""
    n, linear = facts.n_units, chosen.module == "linear"
    batch = chosen.expected_batch_size
    if linear:
        batch = batch or min(n, _ALL)
        steps = _STEPS if batch == n else (chosen.epochs or _EPOCHS) * -(-n // batch)
    else:
        batch = batch or min(n, max(256, n // 25))
        steps = _NETWORK_STEPS if chosen.epochs is None else chosen.epochs * -(-n // batch)
    steps = max(1, min(steps, facts.most_gradients // batch))
    if chosen.expected_batch_size is None:
        # In the limit sigma = 2 q sqrt(T) / mu: the rate at which it is large enough.
        enough = math.ceil(n * _LEAST_SIGMA * facts.mu / (2 * math.sqrt(steps)))
        if enough > batch:
            batch = min(n, enough)
            steps = max(1, min(steps, facts.most_gradients // batch))
    return batch, steps
