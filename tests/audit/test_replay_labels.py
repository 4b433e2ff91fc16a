"""Several labels on record voters, replayed on neighbours: honest code passes, planted faults are found."""

from __future__ import annotations

import numpy as np
import pytest

from pate import Budget, PATEMultilabelClassifier
from pate.audit import neighbours, replay
from pate.models import _several as several
from pate.records import _vectors as vectors

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]

RNG = np.random.default_rng(0)
X, PUBLIC = RNG.normal(size=(240, 5)), RNG.normal(size=(25, 5))
#: Three labels of each record, as the bits of a number: a replay knows one value for each record.
Y = ((X[:, :3] + 0.3 * RNG.normal(size=(240, 3)) > 0.3) @ [1, 2, 4]).astype(int)
GROUPS = RNG.permutation(np.arange(240) % 80)


def labels(X, y, groups=None):
    clf = PATEMultilabelClassifier(Budget(50.0, 1e-5), force=True)
    bits = np.asarray(y)[:, None] >> np.arange(3) & 1
    return clf.fit(X, bits, X_public=PUBLIC, groups=groups).predict_proba(PUBLIC)


def opposite(place):
    y = Y.copy()
    y[place] = 7 - y[place]
    return (X, Y), (X, y)


def findings(places):
    return [replay(labels, *opposite(place), published=True).finding for place in places]


@pytest.mark.parametrize("people", [False, True], ids=["records", "people"])
def test_no_neighbour_is_found(people):
    kinds = ("flip", "scale", "front")
    for made in neighbours(X, Y, groups=GROUPS if people else None, kinds=kinds, random_state=0):
        found = replay(labels, made, published=True)
        assert not found.refuted, f"{made.what}: {found.finding}"


CERTIFIED = vectors._certified


def test_a_clip_twice_as_large_is_found(monkeypatch):
    monkeypatch.setattr(vectors, "_certified", lambda rows, most, unit: 2 * CERTIFIED(rows, most, unit))
    assert any("times as far as one unit may move it" in one for one in findings(range(4)))


def test_a_held_out_record_that_is_also_counted_among_the_training_ones_is_found(monkeypatch):
    def everybody(self, name):
        usable = np.isfinite(self.values)
        return usable & self.held_out if name == "held out" else usable

    monkeypatch.setattr(vectors.Units, "part", everybody)
    assert any("moved" in one for one in findings(np.flatnonzero(Y == 7)[:6]))


def test_counts_of_three_labels_at_the_price_of_one_are_found(monkeypatch):
    """A planted fault: quality counted in one column, whose price is that of one label, though a record is in three."""
    count = vectors.count_cells

    def cheap(units, codes, sizes, **said):
        honest = count(units, codes, sizes, **said)
        object.__setattr__(honest.facts, "bound_squared", honest.facts.bound_squared // len(sizes))
        return honest

    monkeypatch.setattr(several, "count_cells", cheap)
    assert any("times as far as one unit may move it" in one for one in findings(range(24)))
