"""The same people get no fresh budget by oversight: what ledgers keep of them, and what they say."""

from __future__ import annotations

import json
import shutil
import sqlite3
import warnings
from contextlib import closing

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from pate import Budget, Charge, GaussianSum, Ledger, PATEClassifier, RecordVoters, release_ballots
from pate.data import recognised_by
from pate.exceptions import CuratorWarning, LedgerError
from pate.ledger import Registration
from pate.ledger._registration import LARGELY, overlap, sealed_sketch
from pate.records import SignedSpace

KEY = bytes(range(32))
CLASSES = ("no", "yes")


def table(n, seed, *, population=0):
    """n rows of a mixed table: numbers with few digits and a category."""
    rng = np.random.default_rng((population, seed))
    frame = pd.DataFrame({"age": rng.integers(18, 90, n), "bmi": rng.normal(27, 4, n).round(1)})
    return frame.assign(town=rng.choice(["Oslo", "Rome", None], n), dose=rng.gamma(2.0, size=n).round(2))


def labels(n):
    return np.arange(n) % 2


def known(rows, groups=None):
    n = rows.shape[0] if hasattr(rows, "shape") else len(rows)
    return recognised_by(rows, labels(n), groups)


def registration(rows, groups=None):
    return Registration("record" if groups is None else "group", CLASSES, **known(rows, groups))


def share(one, two):
    return overlap(KEY, sealed_sketch(KEY, one["sketch"]), two["sketch"])


def opened(path):
    return Ledger(path, total=Budget(1.0, 1e-5))


# Members -------------------------------------------------------------------------------------------------------


def ids(kind, n, seed):
    rng = np.random.default_rng(seed)
    if kind == "sparse numbers":
        return rng.choice(10**7, n, replace=False)
    if kind == "names":
        return np.array(
            [f"{a}-{b}" for a, b in zip(rng.integers(0, 9**9, n), "abcdefgh" * n, strict=False)], dtype=object
        )
    return {"counted": np.arange(n), "P counted": np.array([f"P{i:05}" for i in range(n)], dtype=object)}.get(kind)


def test_some_rows_more_or_less_or_in_another_order_are_largely_the_same():
    rows, n = table(600, 0), 600
    changes = {
        "the last dropped": np.arange(n - 1),
        "the first dropped": np.arange(1, n),
        "one more": np.r_[np.arange(n), 0],
        "half of them": np.arange(n // 2),
        "a random sixth": np.random.default_rng(1).choice(n, n // 6, replace=False),
        "shuffled, and one dropped": np.random.default_rng(2).permutation(n)[:-1],
    }
    for kind in (None, "sparse numbers", "names", "counted", "P counted"):
        owners = ids(kind, n, 3)
        whole = known(rows, owners)
        for name, places in changes.items():
            other = known(rows.iloc[places], None if owners is None else owners[places])
            assert share(whole, other) >= 0.9, (kind, name)
            assert share(other, whole) >= 0.9, (kind, name)
    # Owners stay who they are, whatever becomes of their features; rows do not depend on how they are held.
    owners = ids("names", n, 3)
    assert share(known(rows, owners), known(table(n, 9)[:-1], owners[:-1])) >= 0.9
    numbers = np.random.default_rng(4).normal(size=(300, 3))
    assert known(numbers)["sketch"] == known(pd.DataFrame(numbers))["sketch"] == known(sparse_like(numbers))["sketch"]
    texts = [f"note {i}" for i in range(300)]
    assert share(known(texts), known(texts[1:])) >= 0.9
    matrix = sparse.random(300, 50, 0.2, format="csr", random_state=0)
    assert share(known(matrix), known(matrix[1:])) >= 0.9


def sparse_like(numbers):
    """The same numbers, as objects: how a table of mixed columns holds them."""
    return np.array(numbers.tolist(), dtype=object)


def test_other_people_are_not():
    """Data sets with the same class counts, and ids that only count: the trap (experiments/same_people.py has more)."""
    worst = 0.0
    for seed in range(5):
        one, two = table(400, 2 * seed), table(400, 2 * seed + 1)
        for kind in (None, "sparse numbers", "names", "counted", "P counted"):
            a, b = ids(kind, 400, 2 * seed), ids(kind, 400, 2 * seed + 1)
            worst = max(worst, share(known(one, a), known(two, b)))
    assert worst < LARGELY


def test_coarse_tables_of_one_population_share_at_most_a_third_of_what_stands_once():
    """Where a row is expected once, 1/e of those that stand once do so in another sample: the worst table there is."""
    found = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        one, two = rng.integers(0, 1500, (2, 1500, 1))
        found.append(share(known(np.c_[one, one]), known(np.c_[two, two])))
    # The share up to the last common member is a little above the share in all; the deviation is that of 256 members.
    assert abs(np.mean(found) - np.exp(-1)) < 4 * np.sqrt(0.37 * 0.63 / 256 / len(found)) + 1 / 256
    assert max(found) < LARGELY
    for n_cells in (8, 40, 300):  # and in coarser ones hardly a row stands once
        one, two = np.random.default_rng(n_cells).integers(0, n_cells, (2, 5000, 1))
        assert share(known(one), known(two)) < LARGELY


def test_the_share_is_estimated_well():
    rng = np.random.default_rng(0)
    for n, m, common in ((1000, 1000, 500), (1500, 500, 350), (300, 1500, 200), (2000, 400, 400)):
        found = []
        for _ in range(4):
            people = rng.choice(10**9, n + m - common, replace=False)
            one, two = people[:n], people[n - common :]
            found.append(share(known(np.zeros((n, 1)), one), known(np.zeros((m, 1)), two)))
        truth = common / min(n, m)
        seen = min(256 * min(n, m) / max(n, m), min(n, m))
        assert abs(np.mean(found) - truth) < 4 * np.sqrt(max(truth * (1 - truth), 0.02) / seen / 4) + 0.02, (n, m)


def test_odd_cells_stop_nothing():
    for rows in ([[1, None], ["a", [3]]], np.zeros((3, 0)), [[object(), 1.0], [float("nan"), 10**400]]):
        assert known(rows)["fingerprint"]
    one_odd = [[1.0, "a"], [2.0, "b"], ["?", "c"]]  # only its own record is another one
    assert len(set(known([[1.0, "a"], [2, "b"], [3.0, "c"]])["sketch"][0]) & set(known(one_odd)["sketch"][0])) == 2
    assert known([[1.0, "a"], [None, "b"]])["contents"] != known([[1.0, "a"], [0.0, "b"]])["contents"]
    assert known(np.zeros((3, 1)), [None, float("nan"), "7"])["fingerprint"]


# What a ledger keeps -------------------------------------------------------------------------------------------


def bodies(path):
    with closing(sqlite3.connect(path)) as connection:
        return [json.loads(body) for (body,) in connection.execute("SELECT body FROM entries ORDER BY seq")]


def test_without_its_key_a_sketch_says_nothing(tmp_path):
    """Equal people look different in two ledgers, and in two versions of one; three look like three thousand."""
    held = []
    for name, n in (("a", 600), ("b", 600), ("c", 3)):
        ledger = opened(tmp_path / f"{name}.sqlite")
        ledger.register(registration(table(n, 0), ids("names", n, 0)))
        ledger.revise("a correction")
        ledger.register(registration(table(n, 0), ids("names", n, 0)))
        held += [body["sketch"] for body in bodies(ledger.path) if body.get("sketch")]
        assert "sketch" not in ledger.registration
    distinct = {json.dumps(sketch): sketch for sketch in held}.values()
    assert len(distinct) == 6
    assert len({one for sketch in distinct for one in sketch["macs"]}) == 6 * 512  # no two are alike
    assert all(len(one) == 16 for sketch in distinct for one in sketch["macs"])
    data = registration(table(600, 0)[:-1], ids("names", 600, 0)[:-1])
    assert Ledger(tmp_path / "a.sqlite").overlap(data) >= 0.9
    (tmp_path / "away").mkdir()
    shutil.copy(tmp_path / "a.sqlite", tmp_path / "away")
    assert Ledger(tmp_path / "away" / "a.sqlite").overlap(data) == 0
    (tmp_path / "away" / "a.sqlite.key").write_text("00" * 32)
    assert Ledger(tmp_path / "away" / "a.sqlite").overlap(data) < LARGELY


def test_a_ledger_of_an_earlier_version_gets_its_sketch_with_the_next_charge(tmp_path):
    ledger, data = opened(tmp_path / "a.sqlite"), registration(table(300, 0))
    earlier = Registration("record", CLASSES, fingerprint=data.fingerprint)
    ledger.record(Charge.zero(), mechanism="m", n_queries=1, registration=earlier)
    # What earlier versions wrote, to the key.
    assert set(bodies(ledger.path)[1]) == {"unit", "adjacency", "classes", "n_units", "n_shards", "fingerprint",
                                           "unordered", "key_check"}  # fmt: skip
    assert ledger.overlap(data) == 0
    head = ledger.head
    ledger.check(data)
    assert ledger.head == head
    ledger.record(Charge.zero(), mechanism="m", n_queries=1, registration=earlier)
    assert ledger.overlap(registration(table(300, 0)[1:])) >= 0.9
    n = len(bodies(ledger.path))
    ledger.record(Charge.zero(), mechanism="m", n_queries=1, registration=earlier)
    assert len(bodies(ledger.path)) == n + 1  # it is kept once
    assert ledger.verify(head=head).ok


def test_a_revised_ledger_still_knows_its_people(tmp_path):
    ledger, rows = opened(tmp_path / "a.sqlite"), table(300, 0)
    ledger.register(registration(rows))
    ledger.revise("records of March added")
    assert ledger.overlap(registration(rows[1:])) >= 0.9
    ledger.register(registration(table(400, 1)))
    assert ledger.overlap(registration(table(400, 1)[1:])) >= 0.9
    assert ledger.overlap(registration(rows[1:])) == 0


# What it says --------------------------------------------------------------------------------------------------


def test_another_ledger_beside_it_is_named_once(tmp_path):
    rows, owners = table(300, 0), ids("names", 300, 0)
    opened(tmp_path / "a.sqlite").register(registration(rows, owners))
    fresh = opened(tmp_path / "b.sqlite")
    with pytest.warns(
        CuratorWarning, match=r"ledger .*a\.sqlite' are largely of the same people: .*ignore this warning"
    ):
        fresh.check(registration(rows[1:], owners[1:]))
    fresh.check(registration(rows[1:], owners[1:]))
    with pytest.warns(CuratorWarning, match=r"holds the private data set of the ledger .*a\.sqlite'"):
        opened(tmp_path / "c.sqlite").check(registration(rows, owners))
    opened(tmp_path / "d.sqlite").check(registration(table(300, 5), ids("names", 300, 5)))
    Ledger(tmp_path / "a.sqlite").check(registration(rows, owners))
    assert fresh.releases() == []


@pytest.mark.long
def test_a_classifier_and_ballots_tell_of_it_too(tmp_path):
    X, public = np.random.default_rng(0).normal(size=(2, 400, 3))
    y = (X[:, 0] > 0).astype(int)

    def fitted(name, rows):
        clf = PATEClassifier(budget=Budget(1.0, 1e-5), classes=(0, 1), ledger=Ledger(tmp_path / name), random_state=0)
        return clf.fit(X[rows], y[rows], X_public=public[:40])

    fitted("a.sqlite", slice(None))
    with pytest.warns(CuratorWarning, match=r"a\.sqlite' are largely of the same records"):
        fitted("b.sqlite", slice(1, None))
    voters = RecordVoters(None, SignedSpace().fit(np.eye(3)), classes=2)
    with pytest.warns(CuratorWarning, match=r"holds the private data set of the ledger .*a\.sqlite'"):
        release_ballots(
            voters.cast(X, y), GaussianSum(9.0), budget=Budget(1.0, 1e-5), ledger=Ledger(tmp_path / "c.sqlite")
        )
    X[5, 2] += 1e-9  # one cell: labels and owners are the same
    with pytest.warns(CuratorWarning, match=r"not those that release 1 of the ledger was made from.*were not used"):
        fitted("a.sqlite", slice(None))


def test_other_features_are_reported_by_release_and_not_in_the_file(tmp_path):
    ledger, rows = opened(tmp_path / "a.sqlite"), table(300, 0)
    changed = rows.copy()
    changed.loc[7, "dose"] += 0.01
    for one in (rows, rows, changed):
        ledger.check(registration(one))
        ledger.record(Charge.zero(), mechanism="m", n_queries=1, registration=registration(one))
    kept = [body["contents"] for body in bodies(ledger.path) if "contents" in body]
    assert len({str(one) for one in kept}) == 3  # without the key it does not show that two of them are alike
    for one, wrong in ((rows, "release 3 "), (changed, "release 1, 2 ")):
        ledger.check(registration(one))
        with pytest.warns(CuratorWarning, match=wrong):
            ledger.warn_of_other_features([1, 2, 3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ledger.warn_of_other_features([3])
        Ledger(ledger.path).warn_of_other_features([1, 2, 3])  # one that checked nothing
    assert ledger.verify().ok


def test_records_in_another_order_are_called_that(tmp_path):
    ledger, rows, owners = opened(tmp_path / "a.sqlite"), table(300, 0), ids("names", 300, 0)
    ledger.register(registration(rows, owners))
    turned = Registration("group", CLASSES, **recognised_by(rows[::-1], labels(300)[::-1], owners[::-1]))
    with pytest.raises(LedgerError, match=r"knows these labels and owners in another order.*pate ledger revise"):
        ledger.check(turned)
    with pytest.raises(LedgerError, match=r"is for other private records than these.*cross-validate without a ledger"):
        ledger.check(registration(rows, ids("names", 300, 1)))


def test_whoever_cross_validates_with_a_ledger_is_told_what_the_first_fold_did(tmp_path):
    ledger = opened(tmp_path / "a.sqlite")
    ledger.register(Registration("record", CLASSES, n_units=200))
    for n_units in (100, 300):  # another fold, and the whole table
        with pytest.raises(LedgerError, match=r"200 records.*the first fold was charged and registered.*revise first"):
            ledger.check(Registration("record", CLASSES, n_units=n_units))
