"""Synthetic rows by a Gaussian copula: cells and scores row by row, exact atoms, and what is fitted without noise."""

from __future__ import annotations

import math
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pate import InvalidInputError
from pate.data import Column, Schema, copula

SCHEMA = Schema((
    Column("age", "numeric", range=(0, 120), integer=True),
    Column("gain", "numeric", range=(0, 99_999), integer=True, special=(0, -9)),
    Column("weight", "numeric", range=(30, 150), special=(-1,)),
    Column("seen", "date:day-first", range=(0, 365)),
    Column("town", "category", ("Oslo", "Rome", "Bonn")),
))  # fmt: skip
CELLS = copula.cells_of(SCHEMA)
SIZES = [one.n_cells for one in CELLS]


@pytest.fixture(scope="module")
def rows():
    rng, n = np.random.default_rng(0), 5000
    z = rng.standard_normal((n, 3)) @ np.linalg.cholesky([[1, 0.6, 0.4], [0.6, 1, 0.0], [0.4, 0.0, 1]]).T
    gain = np.where(z[:, 1] < 0.8, 0.0, np.round(3000 + 4000 * np.abs(z[:, 1])))
    gain[:50] = -9
    weight = 75 + 15 * z[:, 0]
    weight[rng.random(n) < 0.05] = np.nan
    return pd.DataFrame({
        "age": np.round(50 + 12 * z[:, 0]).clip(0, 120),
        "gain": gain,
        "weight": weight.clip(30, 150),
        "seen": "7.3.1970",
        "town": pd.Categorical.from_codes(np.digitize(z[:, 2], [0.0, 1.0]), ["Oslo", "Rome", "Bonn"]),
    })  # fmt: skip


@pytest.fixture(scope="module")
def codes(rows):
    return copula.cell_codes(rows, SCHEMA, CELLS)


def counts_of(codes, sizes=SIZES):
    return np.concatenate([np.bincount(codes[:, j], minlength=size) for j, size in enumerate(sizes)]).astype(float)


@pytest.fixture(scope="module")
def fitted(codes):
    marginals = copula.fit_marginals(CELLS, counts_of(codes), len(codes), 0.0)
    S = copula.normal_scores(codes, marginals)
    return copula.Copula(SCHEMA, marginals, copula.fit_correlation(S.T @ S, marginals, len(codes), 0.0))


def test_cells_follow_from_the_schema_alone():
    assert SIZES[0] == 121 + 1
    assert SIZES[2] == copula.BINS + 1 + 1
    assert SIZES[4] == 3 + 1
    gain = CELLS[1]
    alone = gain.low[gain.low == gain.high].tolist()
    assert alone == [-9, 0]
    assert np.array_equal(gain.low[2:], np.append(1, gain.high[2:-1] + 1))  # nothing between bins, and 0 in none
    assert gain.high[-1] == 99_999
    assert gain.low[2] == 1
    assert gain.high[2] < 10  # finer to the end where 0 stands out
    assert set(np.diff(CELLS[3].low)) == {7, 8}  # whole days


def test_special_values_and_missing_ones_have_cells_of_their_own(codes):
    X = pd.DataFrame({
        "age": [17.0, 17.4, 500.0, None], "gain": [0, -9, -8, 1], "weight": [-1.0, 30.0, 150.0, np.inf],
        "seen": ["1.1.1970", "31.12.1970", "1970-01-01", "1.1.1960"], "town": ["Rome", "Kyiv", None, "Oslo"],
    })  # fmt: skip
    (told,) = copula.about_cells(X, SCHEMA)
    assert "'town' has 1 that are not what the schema has" in told.text
    found = copula.cell_codes(X, SCHEMA, CELLS)
    assert found[:, 0].tolist() == [17, 17, 120, 121]
    assert found[:, 1].tolist() == [1, 0, 2, 2]  # beyond the range: the end bin
    assert found[:, 2].tolist() == [0, 1, copula.BINS, copula.BINS + 1]
    assert found[:, 3].tolist() == [0, copula.BINS - 1, copula.BINS, 0]
    assert found[:, 4].tolist() == [1, 3, 3, 0]


CELL = st.none() | st.floats() | st.sampled_from(["Oslo", "Kyiv", "7.3.1970", 0, -9, 12, -1, True, 3 + 1j, b"x"])


@settings(max_examples=60)
@given(st.lists(st.tuples(*[CELL] * 5), min_size=2, max_size=5), st.tuples(*[CELL] * 5))
def test_a_row_is_read_by_itself(table, other):
    marginals = copula.fit_marginals(CELLS, np.ones(sum(SIZES)), 1, 0.0)

    def read(held):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = copula.cell_codes(pd.DataFrame(held, columns=SCHEMA.names, dtype=object), SCHEMA, CELLS)
        assert found.dtype == np.int32
        assert ((found >= 0) & (found < SIZES)).all()
        return found, copula.normal_scores(found, marginals)

    (codes, scores), (codes2, scores2) = read(table), read([other, *table[1:]])
    assert np.array_equal(codes[1:], codes2[1:])
    assert np.array_equal(scores[1:], scores2[1:])
    assert np.linalg.norm(counts_of(codes) - counts_of(codes2)) <= math.sqrt(2 * 5) + 1e-9
    bound = copula.score_bound(5)
    assert np.linalg.norm(scores, axis=1).max() <= bound * (1 + 1e-12)
    moved = np.outer(scores[0], scores[0]) - np.outer(scores2[0], scores2[0])
    assert np.linalg.norm(moved) <= math.sqrt(2) * bound**2 * (1 + 1e-12)


def test_without_noise_marginals_and_correlation_come_back(codes, fitted):
    exact = np.split(counts_of(codes) / len(codes), np.cumsum(SIZES)[:-1])
    assert all(np.allclose(p, q, atol=1e-12) for p, q in zip(exact, fitted.marginals.probabilities, strict=True))
    R = fitted.correlation
    assert np.allclose(np.diag(R), 1)
    assert np.linalg.eigvalsh(R).min() > 0
    assert 0.45 < R[0, 1] < 0.6  # clipping takes from far-off rows
    assert R[0, 2] > 0.85
    assert R[0, 4] == pytest.approx(0.4, abs=0.06)
    assert R[1, 4] == pytest.approx(0.0, abs=0.06)
    assert np.allclose(R[3, [0, 1, 2, 4]], 0)  # one value: nothing to correlate


def test_drawn_rows_have_the_marginals_and_the_schemas_values(rows, codes, fitted):
    drawn = fitted.draw(4000)
    assert list(drawn) == list(SCHEMA.names)
    assert drawn.equals(fitted.draw(4000))
    assert not drawn.equals(fitted.draw(4000, seed=1))
    assert max(fitted.check(drawn).values()) < 0.01
    assert (drawn["age"] == np.round(drawn["age"])).all()
    assert (drawn["gain"] == np.round(drawn["gain"])).all()
    for column, value in (("gain", 0), ("gain", -9)):
        assert (drawn[column] == value).mean() == pytest.approx((rows[column] == value).mean(), abs=1e-3)
    assert drawn["weight"].isna().mean() == pytest.approx(rows["weight"].isna().mean(), abs=1e-3)
    assert drawn["weight"].dropna().between(30, 150).all()
    assert drawn["seen"].nunique() > 5  # whole days within the one bin
    assert (drawn["seen"] == np.floor(drawn["seen"])).all()
    assert drawn["seen"].between(60, 72).all()
    assert set(drawn["town"]) == {"Oslo", "Rome", "Bonn"}
    high = drawn["age"] > 55
    assert drawn["gain"][high].mean() > 2 * drawn["gain"][~high].mean()
    with pytest.raises(InvalidInputError, match="'town' is off its released marginals"):
        fitted.check(drawn.assign(town="Oslo"))


def test_noise_is_taken_off(codes):
    rng, n, sigma = np.random.default_rng(3), len(codes), 60.0
    noisy = counts_of(codes) + rng.normal(0, sigma, sum(SIZES))
    marginals = copula.fit_marginals(CELLS, noisy, n, sigma)
    raw = np.split(noisy / n, np.cumsum(SIZES)[:-1])
    exact = np.split(counts_of(codes) / n, np.cumsum(SIZES)[:-1])
    for j in (0, 2):
        assert marginals.probabilities[j].sum() == pytest.approx(1)
        assert marginals.probabilities[j].min() >= 0
        assert np.abs(marginals.probabilities[j] - exact[j]).sum() < np.abs(raw[j] - exact[j]).sum() / 1.8
    S = copula.normal_scores(codes, marginals)
    M = S.T @ S + rng.normal(0, 50 * n, (5, 5))  # nothing but noise
    R = copula.fit_correlation(M, marginals, n, 50.0 * n)
    assert np.linalg.eigvalsh(R).min() > 0
    assert np.allclose(np.diag(R), 1)
    copula.Copula(SCHEMA, marginals, R).draw(100)


def test_dates_may_be_days_already_and_a_constant_column_takes_nothing_from_others(rows, codes, fitted):
    days = rows.assign(seen=65.0)
    assert np.array_equal(copula.cell_codes(days, SCHEMA, CELLS), codes)
    S = copula.normal_scores(codes, fitted.marginals)
    noisy = copula.fit_correlation(S.T @ S, fitted.marginals, len(codes), 0.02 * len(codes))
    assert np.abs(noisy - fitted.correlation).max() < 0.05


def test_an_array_gives_an_array():
    schema = Schema(tuple(Column(f"x{j}", "numeric", range=(0, 100), integer=True) for j in range(3)), "array")
    cells = copula.cells_of(schema)
    X = np.random.default_rng(0).integers(0, 101, (400, 3)).astype(np.float32)
    X[3, 1] = np.nan
    codes = copula.cell_codes(X, schema, cells)
    assert codes[3, 1] == 101
    assert np.array_equal(codes, copula.cell_codes(X.astype(object), schema, cells))
    marginals = copula.fit_marginals(cells, counts_of(codes, [102] * 3), 400, 0.0)
    drawn = copula.Copula(schema, marginals, np.eye(3)).draw(50)
    assert isinstance(drawn, np.ndarray)
    assert drawn.shape == (50, 3)
    with pytest.raises(InvalidInputError, match="the schema's 3 columns, got 2"):
        copula.cell_codes(X[:, :2], schema, cells)


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (Column("a", "text"), "the column 'a' must list 1 to 256 categories where there are no public rows"),
        (Column("a", "category", tuple(map(str, range(300)))), "got 300"),
        (Column("a", "numeric"), "the column 'a' must have a finite range where there are no public rows, got None"),
        (Column("a", "date:year-first"), "'a' must have a finite range"),
        (Column("a", "numeric", range=(-1e308, 1e308)), "'a' must have a finite range"),
        (Column("a", "numeric", range=(0.2, 0.8), integer=True), "'a' is of whole numbers, and none is in its range"),
    ],
)
def test_columns_that_have_no_cells_are_refused_by_name(column, text):
    with pytest.raises(InvalidInputError, match=text):
        copula.cells_of(Schema((column,)))


def test_what_cannot_be_fitted_is_refused(codes, fitted):
    with pytest.raises(InvalidInputError, match="rows are texts"):
        copula.cells_of(Schema((), "texts"))
    for noisy, n, sigma in ((np.ones(3), 5, 1.0), (np.full(sum(SIZES), np.nan), 5, 1.0), (np.ones(sum(SIZES)), 0, 1.0),
                            (np.ones(sum(SIZES)), 5, -1.0)):  # fmt: skip
        with pytest.raises(InvalidInputError, match=r"noisy|n must|sigma"):
            copula.fit_marginals(CELLS, noisy, n, sigma)
    for noisy, n, sigma in ((np.eye(4), 5, 1.0), (np.full((5, 5), np.inf), 5, 1.0), (np.eye(5), 5, math.nan)):
        with pytest.raises(InvalidInputError, match=r"noisy|sigma"):
            copula.fit_correlation(noisy, fitted.marginals, n, sigma)
    with pytest.raises(InvalidInputError, match="n_rows"):
        fitted.draw(0)
    with pytest.raises(InvalidInputError, match="X has other columns than the schema"):
        copula.cell_codes(pd.DataFrame({"age": [1.0]}), SCHEMA, CELLS)


def test_one_value_and_no_mass_make_no_trouble():
    schema = Schema((Column("a", "numeric", range=(3, 3)), Column("b", "category", ("x",)),
                     Column("c", "numeric", range=(0, 1), special=(0.5,))))  # fmt: skip
    cells = copula.cells_of(schema)
    codes = copula.cell_codes(pd.DataFrame({"a": [3.0, 9.0], "b": ["x", "x"], "c": [0.5, None]}), schema, cells)
    sizes = [one.n_cells for one in cells]
    assert codes[:, 0].tolist() == [0, 0]
    for noisy in (counts_of(codes, sizes), np.zeros(sum(sizes)), np.full(sum(sizes), -5.0)):
        marginals = copula.fit_marginals(cells, noisy, 2, 1.0)
        S = copula.normal_scores(codes, marginals)
        assert np.isfinite(S).all()
        made = copula.Copula(schema, marginals, copula.fit_correlation(S.T @ S, marginals, 2, 1.0))
        assert set(made.draw(20)["a"].dropna()) <= {3.0}


class Unspeakable:
    """A cell that fails at whatever is asked of it."""

    def __float__(self):
        raise RuntimeError("a private value")

    __str__ = __repr__ = __hash__ = __float__


@pytest.mark.parametrize(
    "cell", [Decimal("sNaN"), Unspeakable(), "\ud800", {}, 10**400, 1 + 2j], ids=lambda c: type(c).__name__
)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_odd_cell_is_missing_and_stops_nothing(cell, at):
    """Whether there is a release must not depend on one record."""
    schema = Schema((
        Column("age", "numeric", range=(0, 120)),
        Column("town", "category", ("Oslo", "Rome")),
        Column("day", "date:day-first", range=(18000, 18500)),
    ))  # fmt: skip
    rows = pd.DataFrame({"age": [3, 4.5, 5], "town": ["Oslo", "Rome", "Rome"], "day": [18001.0, 18300, 18400]}).astype(
        object
    )
    cells = copula.cells_of(schema)
    honest = copula.cell_codes(rows, schema, cells)
    rows.iat[1, at] = cell
    found = copula.cell_codes(rows, schema, cells)
    assert len(copula.about_cells(rows, schema)) == 1
    assert found[1, at] == cells[at].n_cells - 1
    assert np.array_equal(np.delete(found.ravel(), 3 + at), np.delete(honest.ravel(), 3 + at))
