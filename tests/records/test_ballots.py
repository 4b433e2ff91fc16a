"""How far one unit moves the sum: never past Delta, in whole numbers, and named pairs reach it; faults are found."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from plain_space import PlainModel, PlainSpace

from pate.exceptions import InvalidInputError
from pate.records import RecordVoters, _maps, ballot_sum
from pate.records.ballot_sum import (
    GRID,
    centred,
    class_sums,
    delta_squared,
    exact_product,
    quantised,
    quantised_residuals,
)

#: Records that cannot be used are drawn among the others.
pytestmark = pytest.mark.filterwarnings("ignore:.*records cannot be used:pate.exceptions.CuratorWarning")

D = 3
ADJACENCIES = ("replace-one", "add-or-remove")


def cast(kind, m, X, y, *, groups=None, clip=None, model=None):
    """The sum of ballots of a table, as whole numbers of Python, and what one unit may move it."""
    caster = RecordVoters(None, PlainSpace(kind, D), classes=m)
    X = np.asarray(X, dtype=float).reshape(len(y), D)
    if clip is None:
        found = caster.cast(X, y, groups=groups)
    else:
        found = caster.cast_residuals(X, y, model or PlainModel(np.zeros((D, m))), clip=clip, groups=groups)
    return [int(v) for v in found.sums.ravel()], found.delta_squared


def moved(first, second):
    return sum((a - b) ** 2 for a, b in zip(first, second, strict=True))


number = st.floats(-1e6, 1e6) | st.sampled_from(
    [0.0, 1.0, -1.0, 1e300, -1e-300, math.nan, math.inf, 0.5773502691896258]
)
row = st.tuples(number, number, number)


@pytest.mark.long
@given(st.data())
@settings(max_examples=150)
def test_no_replaced_record_moves_the_sum_past_delta(data):
    m = data.draw(st.sampled_from([2, 3, 10]))
    kind = data.draw(st.sampled_from(["soft", "hard", "signed"]))
    clip = data.draw(st.sampled_from([None, 0.25, math.sqrt(2)]))
    label = st.integers(0, m - 1) | st.just(-5)
    model = PlainModel(data.draw(st.sampled_from([0.0, 3.0, -50.0])) * np.eye(D, m))
    rest = [data.draw(row), (0.1, 0.2, 0.3)]
    a, b = ((data.draw(row), data.draw(label)) for _ in range(2))
    sums = []
    for x, y in (a, b):
        found, limit = cast(kind, m, [x, *rest], [y, 0, 1], clip=clip, model=model)
        sums.append(found)
    assert moved(*sums) <= limit
    assert limit == delta_squared(kind, m, "replace-one", clip)
    without, _ = cast(kind, m, rest, [0, 1], clip=clip, model=model)
    assert max(moved(found, without) for found in sums) <= delta_squared(kind, m, "add-or-remove", clip)


person = st.lists(st.tuples(row, st.integers(0, 9)), min_size=0, max_size=6)


@pytest.mark.long
@given(person, person, st.sampled_from([2, 3, 10]), st.sampled_from(["soft", "signed"]), st.sampled_from([None, 0.5]))
@example([((1.0, 0.0, 0.0), y) for y in (0, 0, 1)], [((1.0, 0.0, 0.0), 1)] * 5, 2, "soft", None)
@example([((1.0, 0.0, 0.0), y) for y in range(3)], [((-1.0, 0.0, 0.0), 1)] * 5, 3, "signed", None)
@settings(max_examples=150)
def test_no_replaced_person_moves_the_sum_past_delta(a, b, m, kind, clip):
    sums = []
    for records in (a, b):
        X = [x for x, _ in records] + [(0.1, 0.2, 0.3)] * 2
        y = [y % m for _, y in records] + [0, 1]
        groups = ["p"] * len(records) + ["q", "r"]
        sums.append(cast(kind, m, X, y, groups=groups, clip=clip)[0])
    assert moved(*sums) <= delta_squared(kind, m, "replace-one", clip)
    without, _ = cast(kind, m, [(0.1, 0.2, 0.3)] * 2, [0, 1], groups=["q", "r"], clip=clip)
    assert max(moved(found, without) for found in sums) <= delta_squared(kind, m, "add-or-remove", clip)


#: (kind, clip, unit, the records of one world, of the other), each a list of (phi, y): what reaches Delta.
E, F = (1.0, 0.0, 0.0), (0.6, 0.8, 0.0)
MINUS = tuple(-v for v in F)
PAIRS = [
    ("soft", None, "record", [(F, 0)], [(F, 1)]),
    ("hard", None, "record", [(E, 0)], [(E, 2)]),
    ("signed", None, "record", [(F, 1)], [(MINUS, 1)]),
    ("signed", None, "record", [((9e9, 0, 0), 1)], [((-3.0, 0, 0), 1)]),
    ("soft", None, "group", [(F, 0)] * 7, [(F, 1)] * 900),
    ("signed", None, "group", [(F, 1)] * 7, [(MINUS, 1)] * 900),
    ("signed", None, "group", [(F, 1), (E, 0), (E, 1), (E, 2)] * 90, [(MINUS, 1)]),
    ("signed", 0.5, "record", [(E, 1)], [(tuple(-v for v in E), 1)]),
    ("signed", 0.5, "group", [(F, 1)] * 9, [(MINUS, 1)] * 300),
]


def worst(pairs=PAIRS, m=3):
    """The largest share of Delta^2 that a named pair moves the sum, and the smallest."""
    shares = []
    for kind, clip, unit, a, b in pairs:
        sums = []
        for records in (a, b):
            groups = ["p"] * len(records) if unit == "group" else None
            found, limit = cast(kind, m, [x for x, _ in records], [y for _, y in records], groups=groups, clip=clip)
            sums.append(found)
        shares.append(moved(*sums) / limit)
    return max(shares), min(shares)


def test_named_pairs_reach_delta_and_do_not_pass_it():
    largest, smallest = worst()
    assert largest <= 1
    assert smallest >= 0.99**2


def test_a_person_of_very_many_records_is_within_delta():
    """Beyond the number of records whose squares fit 64 bits."""
    many = _maps.most_records(3) * 2
    for kind in ("soft", "signed"):
        a, limit = cast(kind, 3, [F] * many, [0] * many, groups=["p"] * many)
        b, _ = cast(kind, 3, [F], [1], groups=["p"])
        assert 0.5 < moved(a, b) / limit <= 1


def unclipped(rows, most, unit):
    return np.trunc(np.clip(rows, -1e6, 1e6) * GRID).astype(np.int64)


def each_record_alone(p, labels, owners, *, n_classes, kind, scales=None):
    return class_sums(p, labels, n_classes)


def each_residual_alone(p, r, owners, *, clip, scales=None):
    return exact_product(p, r)


FAULTS = {
    "no clipping": [(ballot_sum, "_certified", unclipped)],
    "a person's records one by one": [
        (_maps, "person_sums", each_record_alone),
        (_maps, "person_residual_sums", each_residual_alone),
    ],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_same_check_finds_a_planted_fault(monkeypatch, fault):
    for where, name, broken in FAULTS[fault]:
        monkeypatch.setattr(where, name, broken)
    assert worst()[0] > 1


def python_sum(X, y, m, kind):
    """The sum of class ballots record by record, in whole numbers of Python."""
    total = [[0] * m for _ in range(X.shape[1])]
    for x, label in zip(X, y, strict=True):
        p = [int(v) for v in quantised(x[None], kind)[0]]
        for j, value in enumerate(p):
            for c in range(m):
                total[j][c] += (m * value if c == label else 0) - value
    return total


def exact(kind="signed", n=6000, m=3):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(n, D)), rng.integers(m, size=n)
    found, _ = cast(kind, m, X, y)
    return np.array(found).reshape(D, m).tolist() == python_sum(X, y, m, kind)


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", ["soft", "hard", "signed"])
def test_the_sum_is_that_of_whole_numbers_in_python(kind):
    assert exact(kind)


def test_a_sum_in_float32_is_found(monkeypatch):
    def in_single(p, r):
        return (p.T.astype(np.float32) @ r.astype(np.float32)).astype(np.int64)

    monkeypatch.setattr(ballot_sum, "exact_product", in_single)
    assert not exact("soft")


def test_residual_sums_are_exact_too():
    rng = np.random.default_rng(2)
    p, r = rng.integers(-GRID, GRID, size=(500, 2)), rng.integers(-2 * GRID, 2 * GRID, size=(500, 3))
    wanted = [[sum(int(a) * int(b) for a, b in zip(p[:, i], r[:, j], strict=True)) for j in range(3)] for i in range(2)]
    assert exact_product(p, r).tolist() == wanted


def test_exact_products_do_not_depend_on_blocks(monkeypatch):
    p = np.full((700, 1), GRID)
    whole = exact_product(p, p)
    monkeypatch.setattr(ballot_sum, "_CACHED_ROWS", 100)
    assert exact_product(p, p).item() == whole.item() == 700 * GRID**2


@given(st.lists(row, min_size=1, max_size=5), st.sampled_from(["soft", "signed"]))
@settings(max_examples=100)
def test_a_row_in_whole_numbers_is_its_own(rows, kind):
    """Alone or among others, whatever they hold; within the norm, and close to what it stands for."""
    whole = quantised(np.array(rows), kind)
    assert (whole == np.concatenate([quantised(np.array([x]), kind) for x in rows])).all()
    assert all(sum(int(v) ** 2 for v in p) <= GRID**2 for p in whole)
    assert kind == "signed" or (whole >= 0).all()
    for x, p in zip(np.array(rows), whole, strict=True):
        if np.isfinite(x).all() and kind == "signed" and np.abs(x).max() < 1e150:
            length = np.sqrt(np.square(x).sum())
            assert np.abs(p / GRID - x / max(length, 1.0)).max() < 1e-3


@given(st.floats(0.01, 1.4), st.integers(-1, 2), st.tuples(*[st.floats(-2, 3) | st.just(math.nan)] * 3))
@settings(max_examples=100)
def test_residuals_are_clipped_in_whole_numbers(clip, label, probabilities):
    r = quantised_residuals(np.array([probabilities]), np.array([label]), clip)[0]
    assert sum(int(v) ** 2 for v in r) <= (clip * GRID) ** 2
    if label < 0 or not np.isfinite(probabilities).all():
        assert not r.any()


def test_centring_is_that_of_the_centred_one_hot():
    sums = np.array([[5, 1, 0]])
    assert centred(sums).tolist() == [[3 * 5 - 6, 3 - 6, -6]]
    assert not centred(sums).sum()


def test_the_table_of_the_design():
    """Delta over m G for ten classes and two, as proved in the module's text."""
    unit = 10 * GRID
    found = [math.sqrt(delta_squared(k, 10, a)) / unit for k in ("soft", "signed") for a in ADJACENCIES]
    assert found == pytest.approx([math.sqrt(2), math.sqrt(0.9), 2 * math.sqrt(0.9), math.sqrt(0.9)])
    assert delta_squared("signed", 2, "replace-one") == delta_squared("soft", 2, "replace-one")


def test_a_clip_out_of_range_is_refused():
    for clip in (0.0, 2.0, math.nan):
        with pytest.raises(InvalidInputError, match="clip must be"):
            quantised_residuals(np.array([[0.5, 0.5]]), np.array([0]), clip)
