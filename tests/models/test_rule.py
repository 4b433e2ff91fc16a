"""The public rule, held against a table of cases and what must hold of any case."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pate.exceptions import InvalidInputError
from pate.models.recipes import PublicFacts, choose
from pate.models.recipes._rule import by_descent, check_recipe
from pate.privacy.convert import gdp_from_budget

#: (n_units, n_classes, epsilon, n_public, kind) -> (space, components, rounds)
CASES = [
    # development tables
    ((1_038, 10, 0.5, 400, "table"), ("soft", 60, 1)),
    ((1_038, 10, 3, 400, "table"), ("signed", 49, 40)),
    ((5_000, 26, 0.5, 1_000, "table"), ("soft", 190, 2)),
    ((40_842, 2, 0.1, 8_000, "mixed"), ("signed", 181, 40)),
    ((1_000, 2, 0.1, 300, "mixed"), ("signed", 16, 40)),
    ((3_000, 2, 1, 1_000, "text"), ("signed", 124, 40)),
    # images
    ((60_000, 10, 0.02, 9_000, "glyph"), ("soft", 200, 1)),
    ((51_000, 10, 0.5, 9_000, "glyph"), ("soft", 200, 2)),
    ((40_000, 10, 0.02, 20_000, "image"), ("signed", 43, 1)),
    ((40_000, 10, 0.1, 20_000, "image"), ("signed", 128, 2)),
    ((40_000, 10, 0.5, 20_000, "image"), ("signed", 387, 3)),
    ((40_000, 10, 0.5, 900, "image"), ("signed", 161, 40)),
    # extremes
    ((50, 2, 0.5, 20, "table"), ("signed", 10, 40)),
    ((1_000_000, 1_000, 0.5, 50_000, "table"), ("signed", 256, 20)),
    ((1_000_000, 2, 3, 2, "table"), ("signed", 1, 40)),
    ((1_000_000, 2, 3, 2_000, "table"), ("signed", 256, 20)),
    ((1, 2, 0.01, 2, "table"), ("signed", 1, 40)),
    ((50, 2, 0.5, 200, "table"), ("soft", 16, 1)),
    ((10**9, 2, 3, 10**6, "image"), ("signed", 512, 7)),
]


@pytest.mark.parametrize(("case", "chosen"), CASES)
def test_the_table_of_cases(case: tuple[int, int, float, int, str], chosen: tuple[str, int, int]) -> None:
    n, m, epsilon, n_public, kind = case
    recipe = choose(PublicFacts(n, m, gdp_from_budget(epsilon, 1e-5), n_public, kind))
    space, components, rounds = chosen
    assert (recipe.space, len(recipe.rounds)) == (space, rounds)
    assert recipe.n_components == pytest.approx(components, rel=0.03)


facts = st.builds(
    PublicFacts,
    n_units=st.integers(1, 10**8),
    n_classes=st.integers(2, 2_000),
    mu=st.floats(1e-4, 10),
    n_public=st.integers(2, 10**6),
    kind=st.sampled_from(["table", "mixed", "image", "glyph", "text"]),
    adjacency=st.sampled_from(["replace-one", "add-or-remove"]),
)


@given(facts)
@settings(max_examples=200)
def test_a_recipe_can_always_be_followed(some: PublicFacts) -> None:
    recipe = choose(some)
    assert math.fsum(r.share for r in recipe.rounds) == pytest.approx(1)
    assert (recipe.rounds[0].clip is None) == (recipe.prior_scale is not None)
    assert all(r.clip and 0 < r.clip <= math.sqrt(2) for r in recipe.rounds[1:])
    assert 1 <= recipe.n_components <= max(some.n_public, 2)
    if recipe.space == "soft":
        assert recipe.k is not None
        assert recipe.k < recipe.n_components
        assert recipe.alpha is None
    else:
        assert recipe.k is None
        assert recipe.n_components <= some.most_components
    assert len(str(recipe).splitlines()) == len(recipe.reasons) >= 4
    check_recipe(recipe)


@given(facts, st.floats(1, 50))
@settings(max_examples=200)
def test_more_budget_or_more_records_never_ask_for_less(some: PublicFacts, factor: float) -> None:
    few, much = choose(some), choose(replace(some, mu=some.mu * factor))
    assert len(few.rounds) <= len(much.rounds) or len(few.rounds) >= 40  # fewer where all take minutes
    assert (few.space, much.space) != ("signed", "soft")
    if few.space == much.space:
        assert few.n_components <= much.n_components
    if much.student == "ridge":
        assert few.student == "ridge"


@given(facts, st.integers(2, 20))
@settings(max_examples=100)
def test_records_and_budget_count_by_their_product(some: PublicFacts, factor: int) -> None:
    a = choose(replace(some, n_units=some.n_units * factor))
    b = choose(replace(some, mu=some.mu * factor))
    assert (a.space, a.n_components, a.student) == (b.space, b.n_components, b.student)


def test_more_than_five_classes_take_more_components_and_bins_of_a_number_do_not() -> None:
    five = PublicFacts(10_000, 5, 0.1, 10_000)
    ten, twenty = (replace(five, n_units=2_000 * m, n_classes=m) for m in (10, 20))
    assert five.evidence == pytest.approx(ten.evidence) == pytest.approx(twenty.evidence)
    base = choose(five).n_components
    assert choose(ten).n_components == pytest.approx(base * math.sqrt(2), abs=1)
    assert choose(twenty).n_components == pytest.approx(base * 2, abs=1)
    assert by_descent(twenty, ordered=True).n_components == base
    assert choose(replace(twenty, kind="text")).n_components == base


def test_who_learns_from_the_head():
    many = PublicFacts(10_000, 5, 0.5, 2_000)
    assert choose(many).student is choose(replace(many, kind="text")).student is None
    assert choose(replace(many, n_units=100)).student == "ridge"
    assert choose(replace(many, kind="image")).student == choose(replace(many, kind="glyph")).student == "image"
    assert choose(replace(many, kind="image", n_public=900)).student is None


def test_the_spectrum_bounds_the_number_of_components() -> None:
    rich = PublicFacts(100_000, 5, 0.5, 10_000, spectrum=tuple(0.9**j for j in range(1_000)))
    poor = replace(rich, spectrum=(1.0, 0.5, 0.1, 1e-12, 0.0))
    assert choose(poor).n_components == 3 == poor.most_components
    assert choose(rich).n_components == rich.most_components < choose(replace(rich, spectrum=None)).n_components


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_units", 0), ("n_classes", 1), ("mu", 0.0), ("mu", math.inf), ("n_public", -1), ("kind", "sound"),
     ("spectrum", ()), ("spectrum", (1.0, -1.0)), ("spectrum", (0.0,)), ("spectrum", ("a",)), ("adjacency", "none")],
)  # fmt: skip
def test_facts_are_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(InvalidInputError, match=name):
        replace(PublicFacts(1_000, 3, 0.1, 100), **{name: value})


def test_facts_hold_numbers_that_are_public_and_no_rows() -> None:
    assert {f.name for f in fields(PublicFacts)} == {
        "n_units", "n_classes", "mu", "n_public", "kind", "spectrum", "adjacency"
    }  # fmt: skip
