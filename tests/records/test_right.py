"""Counts of right answers: what one unit moves, tried on every small neighbouring table; and whose answers count."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from pate import InvalidInputError
from pate.records import RightCounts, count_right
from pate.records._maps import BLOCK_ROWS, in_blocks
from pate.records._right import right_sums
from pate.records.ballot_sum import GRID

CLASSES = (0, 1)
#: Every record there is: what the model says of it, and what it is; -1 for none.
RECORDS = list(itertools.product((-1, 0, 1), (-1, 0, 1)))


def sums_of(people, *, by_class, counted):
    """Return the counts of people, each a list of records."""
    answers = np.array([a for person in people for a, _ in person], dtype=np.int64)
    labels = np.array([y for person in people for _, y in person], dtype=np.int64)
    owners = np.repeat(np.arange(len(people)), [len(person) for person in people])
    return right_sums(answers, labels, owners, n_classes=2, counted=counted, by_class=by_class)


def squared(difference):
    return int((difference.ravel().astype(object) ** 2).sum())


def delta_squared(*, by_class, adjacency, grouped):
    counts = count_right(
        np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), classes=CLASSES, adjacency=adjacency,
        nominal_n=None if adjacency == "replace-one" else 1, groups=["me"] if grouped else None, by_class=by_class,
    )  # fmt: skip
    return counts.delta_squared


@pytest.mark.parametrize("by_class", [False, True])
def test_no_replaced_person_moves_more_than_delta_and_one_moves_as_much(by_class):
    """All pairs of persons with up to two records, and some with more, beside another person who stays."""
    persons = [list(p) for k in (0, 1, 2) for p in itertools.product(RECORDS, repeat=k)]
    persons += [[(0, 0)] * 3 + [(1, 0)] * 4, [(1, 1)] * 7, [(0, 1)] * 3, [(0, 0), (1, 1), (0, 1), (1, 0), (-1, 0)]]
    other = [(0, 0), (1, 0), (1, 1)]
    found = [sums_of([person, other], by_class=by_class, counted=False) for person in persons]
    most = max(squared(a - b) for a, b in itertools.combinations(found, 2))
    assert most == delta_squared(by_class=by_class, adjacency="replace-one", grouped=True)


@pytest.mark.parametrize("by_class", [False, True])
def test_no_added_person_moves_more_than_delta_and_one_moves_as_much(by_class):
    persons = [list(p) for k in (1, 2, 3) for p in itertools.product(RECORDS, repeat=k)]
    other = [(0, 0), (1, 0), (1, 1)]
    without = sums_of([other], by_class=by_class, counted=True)
    most = max(squared(sums_of([other, p], by_class=by_class, counted=True) - without) for p in persons)
    assert most == delta_squared(by_class=by_class, adjacency="add-or-remove", grouped=True)


@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize("counted", [False, True])
def test_no_record_moves_more_than_delta(by_class, counted):
    def sums(a, y):
        answers, labels = np.array([a, 0], dtype=np.int64), np.array([y, 1], dtype=np.int64)
        return right_sums(answers, labels, None, n_classes=2, counted=counted, by_class=by_class)

    found = [sums(a, y) for a, y in RECORDS]
    nothing = sums(-1, -1)
    adjacency = "add-or-remove" if counted else "replace-one"
    pairs = ((a, nothing) for a in found) if counted else itertools.combinations(found, 2)
    assert max(squared(a - b) for a, b in pairs) == delta_squared(by_class=by_class, adjacency=adjacency, grouped=False)


def test_a_person_weighs_one_however_many_records():
    """Exactly floor(G r/k) of each person, in any order of records."""
    rng = np.random.default_rng(0)
    groups, answers, labels = (rng.integers(k, size=5_000) for k in (300, 3, 3))
    labels[rng.random(5_000) < 0.1] = -1
    answers[rng.random(5_000) < 0.1] = -1
    wanted = 0
    for person in np.unique(groups):
        mine = (groups == person) & (labels >= 0) & (answers >= 0)
        wanted += math.floor(GRID * Fraction(int((answers == labels)[mine].sum()), max(1, int(mine.sum()))))
    order = rng.permutation(5_000)
    for rows in (np.arange(5_000), order):
        counts = count_right(answers[rows], labels[rows], classes=(0, 1, 2), groups=groups[rows])
        assert counts.sums.tolist() == [[wanted]]
        assert counts.facts.n == 300


def test_records_that_cannot_be_used_are_not_right_and_refuse_nothing():
    """Missing classes, unanswered rows and missing owners: the count is over all units, and they are not in it."""
    answers, labels = np.array([0, -1, 0, 0]), np.array([0, 0, -1, 0])
    counts = count_right(answers, labels, classes=CLASSES)
    assert (counts.sums / GRID).tolist() == [[1 + 1]]
    assert counts.facts.n == 4
    counts = count_right(answers, labels, classes=CLASSES, groups=["a", "b", "c", None])
    assert (counts.sums / GRID).tolist() == [[1]]
    none = count_right(np.full(3, -1), np.full(3, -1), classes=CLASSES, by_class=True)
    assert not none.sums.any()


def test_cells_by_class_add_up_to_the_count():
    answers, labels = np.array([0, 1, 1, 0]), np.array([0, 1, 0, -1])
    cells = count_right(answers, labels, classes=CLASSES, by_class=True)
    assert (cells.sums.ravel() / GRID).tolist() == [1, 1, 1, 0]
    assert cells.sums[:2].sum() == count_right(answers, labels, classes=CLASSES).sums.sum()


def test_nothing_private_is_shown():
    counts = count_right(np.array([0, 1]), np.array([0, 1]), classes=CLASSES, groups=["ann", "bob"])
    assert "<sensitive>" in repr(counts)
    assert not any(word in repr(counts) for word in ("ann", "bob", "65536", "131072"))
    removed = count_right(np.array([0]), np.array([0]), classes=CLASSES, adjacency="add-or-remove", nominal_n=50)
    assert removed.registration().n_units is None


def test_other_arrays_are_refused():
    with pytest.raises(InvalidInputError, match="int64 class indices of equal shape"):
        count_right(np.array([0.0]), np.array([0]), classes=CLASSES)
    with pytest.raises(InvalidInputError, match="nominal_n must be given"):
        count_right(np.array([0]), np.array([0]), classes=CLASSES, adjacency="add-or-remove")
    counts = count_right(np.array([0]), np.array([0]), classes=CLASSES)
    with pytest.raises(InvalidInputError, match="count_right makes them"):
        RightCounts(np.zeros((2, 1), dtype=np.int64), counts.facts, counts.unit_owners)


def test_rows_are_asked_in_blocks_of_one_shape():
    shapes = []

    def ask(rows):
        shapes.append(rows.shape)
        return rows[:, 0].astype(np.int64), rows[:, 0] >= 0

    n = BLOCK_ROWS + 3
    rows = np.arange(n, dtype=float)[:, None] % 7 - 1
    found = in_blocks(ask, rows, n)
    assert shapes == [(BLOCK_ROWS, 1)] * 2
    assert found.tolist() == np.maximum(rows[:, 0], -1).astype(int).tolist()
