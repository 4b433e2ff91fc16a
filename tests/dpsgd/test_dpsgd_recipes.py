"""Recipes: chosen from public facts alone, sized by the budget, fitted on public rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dpsgd_steps import least_noise_for
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from pate import Budget, DPSGDClassifier
from pate.dpsgd.recipes import RecipePlan, TrainingFacts, choose_recipe, facts_of, named_recipes, recipe
from pate.exceptions import InvalidInputError
from pate.privacy.convert import gdp_from_budget
from pate.representations import FromTransformer, TableMap, UnitRows

DIGITS = TrainingFacts("table", 1_038, 10, Budget(1.0, 1e-5), n_public=400, row_shape=(64,), scale="common")
IMAGES = TrainingFacts("image", 51_000, 10, Budget(3.0, 1e-5), n_public=9_000, row_shape=(28, 28))


def noise_of_a_logit(chosen, facts):
    """All that noise gives one weight, by the optimiser's own arithmetic and the calibrated noise multiplier."""
    n, batch = facts.n_units, chosen.expected_batch_size
    steps = chosen.epochs * -(-n // batch)
    sigma = least_noise_for(
        facts.budget.epsilon, facts.budget.delta, sample_rate=batch / n, n_steps=steps, adjacency=facts.adjacency
    )
    weight = [(1 - chosen.momentum ** (steps - t)) / (1 - chosen.momentum) for t in range(steps)]
    return chosen.learning_rate * sigma * chosen.max_grad_norm / batch * float(np.linalg.norm(weight))


@pytest.mark.few(2)
@pytest.mark.parametrize("adjacency", ["replace-one", "add-or-remove"])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_noise_moves_a_logit_as_far_as_the_recipe_says(adjacency, epsilon):
    facts = replace(IMAGES, adjacency=adjacency, budget=Budget(epsilon, 1e-5))
    chosen = choose_recipe(facts)
    assert noise_of_a_logit(chosen, facts) == pytest.approx(chosen.logit_noise, rel=0.08)


def test_full_batches_fall_short_of_it_by_the_steps_that_momentum_needs():
    chosen = choose_recipe(DIGITS)
    assert chosen.expected_batch_size == 1_038
    weight = [1 - 0.9 ** (40 - t) for t in range(40)]
    expected = chosen.logit_noise * float(np.linalg.norm(weight)) / 40**0.5
    assert noise_of_a_logit(chosen, DIGITS) == pytest.approx(expected, rel=1e-3)


def test_the_learning_rate_is_a_golden_number():
    # 1.6 x 1038 x .26805 / 2 x .1 / (.2 x 40), mu of (1, 1e-5) from docs/design: .26805
    assert choose_recipe(DIGITS).learning_rate == pytest.approx(1.6 * 1038 * 0.26805 / 2 * 0.1 / 8, rel=1e-4)


def test_without_a_second_record_the_same_budget_is_worth_twice_the_mu():
    assert DIGITS.mu == pytest.approx(gdp_from_budget(1.0, 1e-5))
    for adjacency in ("add-or-remove", "zero-out"):
        assert replace(DIGITS, adjacency=adjacency).mu == pytest.approx(2 * DIGITS.mu)


@given(
    n=st.integers(20, 2_000_000),
    epsilon=st.floats(0.05, 16),
    n_public=st.integers(0, 20_000),
    kind=st.sampled_from(["table", "mixed", "image", "features"]),
    adjacency=st.sampled_from(["replace-one", "add-or-remove"]),
    most=st.integers(1_000, 10_000_000),
)
def test_every_number_is_filled_in_and_within_bounds(n, epsilon, n_public, kind, adjacency, most):
    facts = TrainingFacts(kind, n, 5, Budget(epsilon, 1e-6), n_public, (28, 28), "apart", adjacency, most)
    chosen = choose_recipe(facts)
    batch, epochs = chosen.expected_batch_size, chosen.epochs
    assert 1 <= batch <= n
    assert epochs >= 1
    assert chosen.learning_rate > 0
    per_epoch = -(-n // batch)
    # Steps come in whole epochs: at least one, and never half an epoch beyond the limit.
    assert epochs == 1 or (epochs - 0.5) * per_epoch * batch <= most
    if chosen.n_components is not None:
        assert 1 <= chosen.n_components <= max(1, n_public // 2)
    assert (chosen.n_components is None) == (n_public <= 2 or chosen.name == "linear-group-norm")


@pytest.mark.few(2)
@pytest.mark.parametrize("epsilon", [1.0, 3.0, 8.0, 16.0])
def test_no_batch_is_overcharged(epsilon):
    facts = replace(IMAGES, budget=Budget(epsilon, 1e-5))
    chosen = choose_recipe(facts)
    batch = chosen.expected_batch_size
    steps = chosen.epochs * -(-facts.n_units // batch)
    sigma = least_noise_for(epsilon, 1e-5, sample_rate=batch / facts.n_units, n_steps=steps)
    assert sigma > 1.5


def test_more_evidence_means_more_components():
    found = [
        choose_recipe(replace(DIGITS, n_units=n, n_public=9_000)).n_components for n in (500, 1_000, 4_000, 50_000)
    ]
    assert found == sorted(found)
    assert found[0] < found[-1]


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        (IMAGES, "linear"),
        (replace(IMAGES, n_public=0), "linear-group-norm"),
        (DIGITS, "tabular-kernel"),
        (replace(DIGITS, kind="mixed"), "tabular-logistic"),
        (replace(DIGITS, n_public=0), "unit-rows"),
        (replace(DIGITS, kind="features"), "pretrained"),
    ],
)
def test_the_kind_of_data_decides(facts, name):
    assert choose_recipe(facts).name == name


def test_what_facts_say_of_rows():
    rng = np.random.default_rng(0)
    plain = rng.normal(size=(300, 6))
    settings = {"n_units": 100, "n_classes": 2, "budget": Budget(1.0, 1e-5)}
    assert facts_of((6,), plain, **settings).scale == "common"
    assert facts_of((6,), plain * [1, 10, 100, 1, 1, 1], **settings).scale == "apart"
    assert facts_of((6,), np.exp(2 * plain) * [1, 10, 100, 1, 1, 1], **settings).scale == "heavy"
    assert facts_of((6,), plain > 0, **settings).kind == "mixed"
    assert facts_of((784,), image_shape=(28, 28), **settings).kind == "image"
    assert facts_of((8, 8), **settings).kind == "table"
    with pytest.raises(InvalidInputError, match="texts or sparse rows"):
        facts_of((1,), ["a text", "another one"], **settings)
    assert facts_of((1,), ["a text", "another one"], given=True, **settings).kind == "features"


@pytest.mark.parametrize(
    ("name", "facts", "match"),
    [
        ("linear", DIGITS, "is for images"),
        ("tempered-cnn", DIGITS, "is for images"),
        ("linear", replace(IMAGES, n_public=0), "needs public rows"),
        ("tabular-kernel", replace(DIGITS, n_public=0), "needs public rows"),
        ("pretrained", DIGITS, "needs representation="),
        ("best", DIGITS, "recipe must be one of"),
    ],
)
def test_a_recipe_that_does_not_go_with_the_facts_is_refused(name, facts, match):
    with pytest.raises(InvalidInputError, match=match):
        choose_recipe(facts, name)


def test_every_preset_has_a_source_and_all_numbers_once_planned():
    for name in named_recipes():
        kind = {"pretrained": "features"}.get(name, "table" if "tab" in name else "image")
        declared = name == "declared"
        kind = "table" if declared or name == "unit-rows" else kind
        chosen = choose_recipe(replace(IMAGES, kind=kind, declared=declared), name)
        assert recipe(name).source
        assert None not in (chosen.expected_batch_size, chosen.epochs, chosen.learning_rate)
        assert "batch:" in str(chosen)


def plan_for(X_public, **options):
    options = {"n_units": 1_000, "n_classes": 10, "budget": Budget(3.0, 1e-5)} | options
    return RecipePlan.of(X_public.shape[1:], X_public, **options)


def test_a_row_looks_the_same_wherever_it_stands_and_has_norm_one():
    X = load_digits().data
    plan = plan_for(X[:300])
    z = plan.transform(X[300:900])
    order = np.random.default_rng(0).permutation(600)
    assert np.array_equal(plan.transform(X[300:900][order]), z[order])
    assert np.allclose(np.linalg.norm(z, axis=1), 1, atol=1e-6)


@pytest.mark.long
def test_digits_by_default_at_three():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(100).permutation(len(y))
    public, private, test = np.split(order, [400, 1438])
    plan = plan_for(X[public], n_units=1_038)
    clf = DPSGDClassifier(budget=plan.facts.budget, classes=range(10), noise_seed=0, **plan.settings())
    clf.fit(plan.transform(X[private]), y[private])
    assert clf.score(plan.transform(X[test]), y[test]) > 0.88
    assert clf.guarantee_.epsilon <= 3.0
    assert clf.n_steps_ == 40


@pytest.mark.long
def test_images_by_default_and_without_public_rows():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    X = rng.uniform(0, 0.3, (400, 16, 16))
    X[y == 0, 4:12, 7:9] += 0.7
    X[y == 1, 7:9, 4:12] += 0.7
    settings = {"n_units": 300, "n_classes": 2, "budget": Budget(8.0, 1e-4)}
    for public, name in ((X[:100], "linear"), (None, "linear-group-norm")):
        plan = RecipePlan.of((16, 16), public, **settings)
        assert plan.recipe.name == name
        clf = DPSGDClassifier(budget=plan.facts.budget, classes=[0, 1], noise_seed=0, **plan.settings())
        clf.fit(plan.transform(X[100:]), y[100:])
        assert clf.score(plan.transform(X[:100]), y[:100]) > 0.9


@pytest.mark.long
def test_a_representation_of_the_callers():
    from sklearn.preprocessing import StandardScaler

    X = load_digits().data
    given = FromTransformer(StandardScaler()).fit(X[:300])
    with_public = plan_for(X[:300], representation=given)
    alone = RecipePlan.of((64,), n_units=1_000, n_classes=10, budget=Budget(3.0, 1e-5), representation=given)
    for plan in (with_public, alone):
        assert plan.recipe.name == "pretrained"
        assert np.allclose(np.linalg.norm(plan.transform(X[300:]), axis=1), 1, atol=1e-6)
    with pytest.raises(InvalidInputError, match="not fitted"):
        RecipePlan.of((64,), n_units=1_000, n_classes=10, budget=Budget(3.0, 1e-5), representation=TableMap())
    with pytest.raises(InvalidInputError, match="must be one of pate"):
        plan_for(X[:300], representation=StandardScaler())


def test_unit_rows_of_any_size():
    rows = UnitRows().fit(np.array([[-1e6, -1e6], [1e6, 1e6]]))
    assert rows.transform([[3.0, 4.0], [1e300, 0.0], [1e-300, 0.0]]).tolist() == [[0.6, 0.8], [1.0, 0.0], [1.0, 0.0]]


@pytest.mark.long
def test_a_common_range_that_is_too_wide_does_no_harm():
    """The scale of columns of one range is no part of most of the map: rows may fill a sixteenth of it."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    private, test = order[:1400], order[1400:]

    def accuracy(ranges):
        clf = DPSGDClassifier(budget=Budget(3.0, 1e-5), classes=range(10), noise_seed=0)
        return clf.fit(X[private], y[private], schema=ranges).score(X[test], y[test])

    without = accuracy(None)
    assert accuracy((0, 16)) > without - 0.03
    assert accuracy((0, 256)) > without - 0.03


@pytest.mark.parametrize(
    ("ranges", "parts"),
    [
        ([(0, 1)] * 4, 4),
        ([(-1, 1)] * 4, 3),
        ([(0, 1)] * 3, 3),
        ([(0, 1)] * 4 + [(0, 2)], 3),
        ({"a": (0, 1), "b": (0, 1), "c": (0, 1), "d": (0, 1), "e": ["x", "y"]}, 3),
    ],
    ids=["of one range", "around zero", "few", "of two ranges", "mixed"],
)
def test_the_map_follows_from_declared_ranges_alone(ranges, parts):
    plan = RecipePlan.of((len(ranges),), n_units=500, n_classes=2, budget=Budget(1.0, 1e-5), ranges=ranges)
    both = plan.maps[0].parts_[-2]
    assert len(both.parts_) == parts
    assert sum(both.weights) == pytest.approx(1)
