"""A regression on record voters, replayed on neighbours: honest code passes, planted faults are found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pate import Budget, DPSGDRegressor, PATERegressor
from pate.audit import neighbours, replay
from pate.dpsgd import _target as target
from pate.models import _regression as regression
from pate.records import _vectors as vectors
from pate.release import open_ballot_session

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]

RNG = np.random.default_rng(0)
X, PUBLIC = RNG.normal(size=(240, 5)), RNG.normal(size=(25, 5))
Y, GROUPS = 3 * X[:, 0] + RNG.normal(size=240), RNG.permutation(np.arange(240) % 80)


def numbers(X, y, groups=None):
    reg = PATERegressor(Budget(50.0, 1e-5), target_range=(-20, 20), force=True)
    return reg.fit(X, y, X_public=PUBLIC, groups=groups).predict(PUBLIC, return_interval=True)


def numbers_by_dpsgd(X, y, groups=None):
    """Histograms of the target, training, and sums of its errors: one price."""
    reg = DPSGDRegressor(
        "linear", budget=Budget(8.0, 1e-5), target_range=(-200, 200), measure=True, epochs=2, expected_batch_size=60,
        random_state=0, force=True,
    )  # fmt: skip
    return reg.fit(X, y, groups=groups).predict(PUBLIC, return_interval=True)


@pytest.mark.parametrize("people", [False, True], ids=["records", "people"])
def test_no_neighbour_of_dpsgd_on_numbers_is_found(people):
    for made in neighbours(X, Y, groups=GROUPS if people else None, kinds=("flip", "scale"), random_state=0):
        found = replay(numbers_by_dpsgd, made, published=True)
        assert not found.refuted, f"{made.what}: {found.finding}"


def test_a_histogram_that_counts_twice_is_found(monkeypatch):
    """Of the target of DP-SGD: what one record moves would be twice what it is priced at."""
    honest = target.count_cells

    def twice(*args, **more):
        made = honest(*args, **more)
        return replace(made, sums=2 * made.sums)

    monkeypatch.setattr(target, "count_cells", twice)
    (D, D_prime) = opposite(7)
    assert replay(numbers_by_dpsgd, D, D_prime, published=True).refuted


def opposite(place):
    y = Y.copy()
    y[place] = 20.0 if y[place] < 0 else -20.0
    return (X, Y), (X, y)


@pytest.mark.parametrize("people", [False, True], ids=["records", "people"])
def test_no_neighbour_is_found(people):
    kinds = ("flip", "scale", "front")
    for made in neighbours(X, Y, groups=GROUPS if people else None, kinds=kinds, random_state=0):
        found = replay(numbers, made, published=True)
        assert not found.refuted, f"{made.what}: {found.finding}"


def everybody(self, name):
    """Held-out records also train."""
    usable = np.isfinite(self.values)
    return usable & self.held_out if name == "held out" else usable


def unclipped(rows, most, unit):
    """Twice as large as it is said to be."""
    return 2 * CERTIFIED(rows, most, unit)


CERTIFIED = vectors._certified


def two_histograms(X, y):
    """One round of each part: a record's cell moves a sum as far as anything may."""
    units = vectors.Units.of(y, share=0.5)
    said = {"n_units": units.n, "fingerprint": units.unit_owners.fingerprint(), "force": True, "n_held_out": 1}
    with open_ballot_session(Budget(1.0, 1e-5), shares=[1.0, 1.0], classes=None, **said) as session:
        for part in ("training", "held out"):
            counted = vectors.count_cells(units, units.cells([-99, 0, 99]), [2], what="", query="", part=part)
            session.ask_vectors(counted)


def findings(pipeline, places):
    return [replay(pipeline, *opposite(place), published=True).finding for place in places]


def test_held_out_records_that_also_train_are_found(monkeypatch):
    assert set(findings(two_histograms, range(8))) == {"nothing moved that may not"}
    monkeypatch.setattr(vectors.Units, "part", everybody)
    assert any("all sums together moved by mu^2" in one for one in findings(two_histograms, range(8)))


def test_a_clip_twice_as_large_is_found(monkeypatch):
    monkeypatch.setattr(vectors, "_certified", unclipped)
    assert any("times as far as one unit may move it" in one for one in findings(numbers, range(4)))


def test_a_sensitivity_of_two_for_four_is_found():
    """By brute force: opposite signed vectors move a sum by 4 b."""
    sums = [vectors.sum_alone(vectors.Units.of([1.0]), [[r]], clip=1.0, what="", query="") for r in (1.0, -1.0)]
    moved = int(np.square(sums[0].sums - sums[1].sums).sum())
    assert moved == sums[0].delta_squared
    assert moved > replace(sums[0].facts, kind="counts").delta_squared
    assert regression.sum_alone is vectors.sum_alone
