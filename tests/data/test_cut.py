"""Who shares a shard with whom: decided by a secret, so that a replaced person reaches one teacher."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import time
import uuid
import warnings
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.naive_bayes import GaussianNB

from pate import Budget, GNMax, InvalidInputError, Ledger, PATEClassifier, TeacherEnsemble, Votes, release_labels
from pate._core.checks import canonical
from pate._core.secret import beside_ledger, fresh_secret, stored_secret
from pate.data import read_table
from pate.data.partition import Partition, distinct_ids, id_bytes, partition
from pate.exceptions import CuratorWarning
from pate.jobs import LabelJob

# --- no other moves -------------------------------------------------------------------------------------------------


def moved(before, after, *, n_shards=100, **key):
    """How many of those who are in both stand in another shard."""
    old, new = (
        dict(zip(people, partition(len(people), n_shards, groups=people, **key).assignment.tolist(), strict=True))
        for people in (before, after)
    )
    return sum(old[person] != new[person] for person in old.keys() & new.keys())


@pytest.mark.parametrize("key", [{"secret": bytes(range(32))}, {"partition_seed": 0}], ids=["secret", "seed"])
@pytest.mark.parametrize("new", [0, 10**6, 501])
@pytest.mark.parametrize("make", [int, "p{:08d}".format, float])
def test_another_id_moves_no_other_whatever_its_rank(key, new, make):
    people = [make(2 * i + 2) for i in range(1000)]
    assert moved(people, [*people[1:], make(new)], **key) == 0


def test_the_order_and_the_number_of_rows_move_no_one():
    people = [f"p{i}" for i in range(300)]
    rng = np.random.default_rng(0)
    assert moved(people, list(rng.permutation(people)), secret=bytes(32)) == 0
    assert moved(people, [*people, *["p7"] * 5000], secret=bytes(32)) == 0
    assert moved(people, people[:200], secret=bytes(32)) == 0


def test_one_odd_id_in_a_file_moves_no_other(tmp_path):
    """A column of numbers becomes one of texts as soon as one cell is none."""
    ids = [*map(str, range(100, 160)), "007", "8.0"]
    rows = pd.DataFrame({"age": range(62), "ill": ["no", "yes"] * 31})
    for name, last in (("a", "200"), ("b", "x200")):
        rows.assign(who=[*ids[:-1], last]).to_csv(tmp_path / f"{name}.csv", index=False)
        rows.assign(who=[*ids[:-1], last]).to_parquet(tmp_path / f"{name}.parquet", index=False)
    pd.read_csv(tmp_path / "a.csv").to_parquet(tmp_path / "a.parquet", index=False)  # now numbers
    for kind in ("csv", "parquet"):
        a, b = (read_table(tmp_path / f"{n}.{kind}", target="ill", group="who").groups.tolist() for n in "ab")
        assert a[:-1] == b[:-1]
        assert a[60] == "7"
        assert moved(a, b, n_shards=20, secret=bytes(32)) == 0


# --- the proof, by enumeration -------------------------------------------------------------------------------------

PEOPLE = {"a": 1, "b": 0, "c": 1, "d": 0, "e": 1}  # what each person's record says


def votes_of(people, shard_of, n_shards):
    """Every teacher votes by its own shard: 1 where its people say so more often than not, 0 when it has none."""
    held = Partition(np.array([shard_of[p] for p in people]), n_shards, "group", len(people))
    return [int(2 * sum(PEOPLE[people[i]] for i in rows) > len(rows)) for rows in held.shards()]


def noisy_law(votes, epsilon, outcomes):
    """The law of the count of ones plus two-sided geometric noise: one changed vote costs epsilon."""
    decay = math.exp(-epsilon)
    return np.array([(1 - decay) / (1 + decay) * decay ** abs(k - sum(votes)) for k in outcomes])


@pytest.mark.parametrize("n_shards", [2, 3])
def test_every_hash_has_a_partner_under_which_one_shard_differs(n_shards):
    """Replacing a by b: swap the hash's values of a and b. All functions h are enumerated."""
    before, after = ["a", "c", "d", "e"], ["b", "c", "d", "e"]
    epsilon, outcomes = 0.7, range(-40, 45)
    laws = {"old": 0.0, "new": 0.0}
    worst_known, partners = 0.0, set()
    for values in itertools.product(range(n_shards), repeat=len(PEOPLE)):
        h = dict(zip(PEOPLE, values, strict=True))
        swapped = {**h, "a": h["b"], "b": h["a"]}
        partners.add(tuple(swapped.values()))
        old, new = votes_of(before, h, n_shards), votes_of(after, swapped, n_shards)
        assert sum(v != w for v, w in zip(old, new, strict=True)) <= 1
        laws["old"] += noisy_law(votes_of(before, h, n_shards), epsilon, outcomes)
        laws["new"] += noisy_law(votes_of(after, h, n_shards), epsilon, outcomes)
        known = noisy_law(old, epsilon, outcomes) / noisy_law(votes_of(after, h, n_shards), epsilon, outcomes)
        worst_known = max(worst_known, np.abs(np.log(known)).max())
    assert len(partners) == n_shards ** len(PEOPLE)  # the pairing is one to one
    assert np.abs(np.log(laws["old"] / laws["new"])).max() <= epsilon + 1e-12
    # Anyone who knows h sees both shards change: that is why a seed that may be known covers the same id only.
    assert worst_known == pytest.approx(2 * epsilon)


@pytest.mark.parametrize(("removed", "added"), [(0, 3), (3, 0), (1, 2), (2, 2)])
def test_every_deal_of_places_has_a_partner_under_which_one_shard_differs(removed, added):
    """A sorted file: one record goes, another comes elsewhere, and those between move by a place."""
    before = [10, 20, 30, 40]
    after = [v for i, v in enumerate(before) if i != removed]
    after.insert(added, -1)
    # Where each place of the new file stood in the old one; the new record takes the old one's.
    came_from = [removed if v == -1 else before.index(v) for v in after]
    deals = [d for d in itertools.product(range(2), repeat=4) if sum(d) == 2]
    partners = set()
    for deal in deals:
        partner = tuple(deal[i] for i in came_from)
        partners.add(partner)
        old, new = (
            [[file[i] for i in shard] for shard in Partition(np.array(d), 2).shards()]
            for file, d in ((before, deal), (after, partner))
        )
        assert sum(s != t for s, t in zip(old, new, strict=True)) == 1  # in content and in order
    assert partners == set(deals)


def chi2(counts, n_cells, n):
    return sum((c - n / n_cells) ** 2 / (n / n_cells) for c in counts) + (n_cells - len(counts)) * n / n_cells


def test_the_real_cut_has_that_law():
    """Over secrets: ids independent and even, anyone who is there; places uniform over all even deals."""
    n = 1200
    for people in ["a", "b", "c", "d"], ["b", "zz", "c", "d"]:
        found = {}
        for _ in range(n):
            key = tuple(partition(4, 2, groups=people).assignment.tolist())
            found[key] = found.get(key, 0) + 1
        assert chi2(found.values(), 16, n) < 55  # 15 degrees of freedom: beyond 55 has probability 2e-6
    found = {}
    for _ in range(n):
        key = tuple(partition(4, 2).assignment.tolist())
        found[key] = found.get(key, 0) + 1
    assert chi2(found.values(), 6, n) < 35  # 5 degrees of freedom: beyond 35 has probability 2e-6


# --- the secret ----------------------------------------------------------------------------------------------------

X = np.random.default_rng(0).normal(size=(200, 3))
Y = (X[:, 0] > 0).astype(int)


def teachers(**options):
    return TeacherEnsemble(GaussianNB(), 8, classes=(0, 1), random_state=0, **options)


def test_a_training_seed_says_nothing_about_the_shards():
    cuts = {teachers().fit(X, Y).partition_.fingerprint() for _ in range(3)}
    assert len(cuts) == 3
    assert len({teachers(partition_seed=0).fit(X, Y).partition_.fingerprint() for _ in range(2)}) == 1


def test_the_secret_is_drawn_from_the_operating_system(monkeypatch):
    """32 bytes, and every one of them counts."""
    drawn = []

    def tokens(n):
        drawn.append(n)
        return bytes(n)

    monkeypatch.setattr("pate._core.secret._operating_system", tokens)
    assert partition(50, 5).fingerprint() == partition(50, 5, secret=bytes(32)).fingerprint()
    assert drawn == [32]
    for i in range(32):
        other = bytes(32)[:i] + b"\x01" + bytes(31 - i)
        assert partition(50, 5, secret=other).fingerprint() != partition(50, 5, secret=bytes(32)).fingerprint()


def test_a_drawn_training_seed_has_more_than_64_bits():
    assert max(TeacherEnsemble(GaussianNB(), 2)._check_parameters()[1] for _ in range(20)) > 2**100


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ({"secret": bytes(8)}, "at least 16 bytes, got 8"),
        ({"secret": "secret"}, "must be bytes"),
        ({"secret": bytes(32), "partition_seed": 0}, "secret and partition_seed must not both be given"),
        ({"partition_seed": 1.5}, "partition_seed"),
    ],
)
def test_what_is_no_secret_is_refused(key, text):
    with pytest.raises(InvalidInputError, match=text):
        partition(9, 3, **key)


def test_one_secret_for_all_who_come_at_once(tmp_path):
    with ThreadPoolExecutor(16) as pool:
        found = set(pool.map(stored_secret, [tmp_path / "shards.key"] * 64))
    assert len(found) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["shards.key"]
    assert (tmp_path / "shards.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("held", ["", "00", "x" * 64, "00" * 1000])
def test_a_damaged_secret_is_named_and_not_quoted(tmp_path, held):
    (tmp_path / "shards.key").write_text(held)
    with pytest.raises(InvalidInputError, match="delete it: then new shards are cut") as caught:
        stored_secret(tmp_path / "shards.key")
    assert "xxx" not in str(caught.value)
    with pytest.raises(InvalidInputError, match="cannot be kept"):
        stored_secret(tmp_path / "shards.key" / "below")


@pytest.mark.long
def test_fits_on_one_ledger_cut_alike_and_others_do_not(tmp_path):
    def cut(ledger, partition_seed=None, **options):
        clf = PATEClassifier(
            TeacherEnsemble(GaussianNB(), 8, partition_seed=partition_seed),
            n_teachers=8,
            budget=Budget(1e4, 1e-5),
            classes=(0, 1),
            mechanism=GNMax(1.0),
            queries=20,
            ledger=ledger,
            random_state=0,
            **options,
        )
        warnings.simplefilter("ignore", CuratorWarning)  # of two ledgers for the same records
        return clf.fit_keeping(X, Y, X_public=X[:50] + 1)[0].partition_.fingerprint()

    a, b = (Ledger(tmp_path / f"{n}.sqlite") for n in "ab")
    assert cut(a) == cut(a)
    assert cut(a) != cut(b)
    assert cut(a) == cut(a, checkpoint_dir=tmp_path / "teachers")  # the ledger's secret wins
    assert cut(None) != cut(None)
    assert cut(None, partition_seed=3) == cut(None, partition_seed=3)
    assert beside_ledger(a.path).stat().st_mode & 0o077 == 0


@pytest.mark.few(1)
@pytest.mark.parametrize("grouped", [False, True])
def test_every_version_of_the_records_is_cut_by_a_secret_of_its_own(tmp_path, grouped):
    """Whether two versions are cut alike says nothing of a record that was corrected in between, or was not."""
    alike = []
    for corrected in (False, True):
        ledger = Ledger(tmp_path / f"{corrected}.sqlite")
        clf = PATEClassifier(
            GaussianNB(),
            n_teachers=8,
            budget=Budget(1e4, 1e-5),
            classes=(0, 1),
            mechanism=GNMax(1.0),
            queries=20,
            ledger=ledger,
            random_state=0,
        )
        groups = np.arange(200) // 4 if grouped else None
        warnings.simplefilter("ignore", CuratorWarning)  # of two ledgers for the same records
        before = clf.fit_keeping(X, Y, X_public=X[:50] + 1, groups=groups)[0].partition_.fingerprint()
        ledger.revise("one record was looked at again")
        assert not beside_ledger(ledger.path).exists()
        y = Y.copy()
        y[7] ^= corrected
        after = clf.fit_keeping(X, y, X_public=X[50:100] + 1, groups=groups)[0].partition_.fingerprint()
        alike.append(before == after)
    assert alike == [False, False]


def test_a_secret_that_stays_is_no_revision(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "ledger.sqlite", total=Budget(1.0, 1e-5))
    votes = Votes.from_counts(np.array([[8, 2]]), classes=(0, 1), n_teachers=10, unit="record", n_units=100)
    release_labels(votes, GNMax(40.0), budget=Budget(1.0, 1e-5), ledger=ledger)
    head, kept = ledger.head, stored_secret(beside_ledger(ledger.path))

    def refuse(*args, **options):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr("pathlib.Path.unlink", refuse)
        with pytest.raises(InvalidInputError, match="cannot be replaced: Permission denied"):
            ledger.revise("corrected")
    assert (ledger.head, stored_secret(beside_ledger(ledger.path))) == (head, kept)
    ledger.revise("corrected")
    assert ledger.head != head


def test_another_order_of_the_file_is_another_cut(tmp_path):
    """Places mean something in one order only: under one secret two orders would give each other away."""
    order = np.random.default_rng(1).permutation(200)
    a = teachers().keep_secret_in(tmp_path / "key").fit(X, Y).partition_.assignment
    b = teachers().keep_secret_in(tmp_path / "key").fit(X[order], Y[order]).partition_.assignment
    assert a.tolist() != b.tolist()
    people = np.arange(200) // 4
    c = teachers().keep_secret_in(tmp_path / "key").fit(X, Y, groups=people).partition_.assignment
    d = teachers().keep_secret_in(tmp_path / "key").fit(X[order], Y[order], groups=people[order]).partition_.assignment
    assert c[order].tolist() == d.tolist()


@pytest.mark.long
def test_a_job_on_files_cuts_by_the_secret_beside_its_ledger(tmp_path):
    frame = pd.DataFrame(X, columns=list("abc")).assign(ill=np.where(Y, "yes", "no"))
    frame.to_csv(tmp_path / "private.csv", index=False)
    (frame[list("abc")] + 1)[:40].to_csv(tmp_path / "public.csv", index=False)

    def cut(ledger, **options):
        job = LabelJob(
            tmp_path / "private.csv", tmp_path / "public.csv", target="ill", classes=["no", "yes"],
            budget=Budget(50.0, 1e-5), mechanism=GNMax(9.0), n_queries=5, teacher="naive-bayes", n_teachers=8,
            ledger=ledger, force=True, **options,
        )  # fmt: skip
        return job.run().statement, job._method.teachers.partition_.fingerprint()

    statement, first = cut(None)
    assert first != cut(None)[1]
    assert first != cut(None, partition_seed=0)[1] == cut(None, partition_seed=0)[1]
    assert cut(tmp_path / "l.sqlite")[1] == cut(tmp_path / "l.sqlite")[1]
    assert "secret of 256 bits" in statement.text()


# --- what statements say -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [None, np.arange(200) // 2])
def test_a_known_cut_is_in_the_statement(groups):
    for seed in (None, 0):
        votes = teachers(partition_seed=seed).fit(X, Y, groups=groups).vote(X[:5] + 1)
        assert votes.partition_seeded is votes.take([0]).partition_seeded is (seed is not None)
        statement = release_labels(votes, GNMax(9.0), budget=Budget(9.0, 1e-5)).statement
        found = [a for a in statement.assumptions if a.name == "known shards"]
        assert len(found) == (seed is not None)
        if found:
            assert ("keeps its id" in found[0].claim) is (groups is not None)
            assert "partition_seed" in found[0].how
    assert Votes.from_counts([[3, 1]]).partition_seeded is False


# --- ids -----------------------------------------------------------------------------------------------------------

SIMPLE = st.one_of(
    st.integers(-3, 3), st.integers(2**53 - 2, 2**53 + 2), st.sampled_from([0.0, -0.0, 1.0, 2.5, 2.0**53, math.inf]),
    st.booleans(), st.text("01a \ud800", max_size=3), st.binary(max_size=2),
    st.sampled_from([np.int8(1), np.uint64(3)]),
    st.sampled_from([np.float32(2.5), np.float16(1), np.bool_(True), np.str_("a"), Decimal("2.5"), Decimal("1.0")]),
    st.sampled_from([Fraction(5, 2), Fraction(1, 3), uuid.UUID(int=1)]),
    st.sampled_from([dt.date(2020, 1, 1), dt.datetime(2020, 1, 1), pd.Timestamp("2020-01-01"), dt.timedelta(1)]),
    st.sampled_from([pd.Timestamp("2020-01-01", tz="UTC"), pd.Timestamp("2020-01-01 01:00", tz="Europe/Oslo")]),
)  # fmt: skip
IDS = st.one_of(SIMPLE, st.tuples(SIMPLE), st.tuples(SIMPLE, SIMPLE))


def plain(value):
    """As Python's own numbers: numpy's compare after rounding, and with every part of a tuple. Texts in one form."""
    if isinstance(value, tuple):
        return tuple(plain(part) for part in value)
    return canonical(value.item() if isinstance(value, np.generic) else value)


@pytest.mark.long
@settings(max_examples=500)
@given(IDS, IDS)
def test_ids_have_equal_bytes_when_they_are_equal_and_only_then(a, b):
    assert (id_bytes(a) == id_bytes(b)) == (plain(a) == plain(b))


@pytest.mark.parametrize(
    ("values", "same"),
    [
        ([1, 2, 3], [1.0, 2.0, 3.0]),
        (np.array([1, 2], dtype=np.int8), pd.Series([1, 2], dtype="Int64")),
        (["a", "b"], pd.Categorical(["a", "b"])),
        (np.array(["a", "bb"]), pd.Series(["a", "bb"], dtype="string")),
        (pd.to_datetime(["2020-01-01", "2021-01-01"]), np.array(["2020-01-01", "2021-01-01"], dtype="M8[D]")),
        ([True, False], [1, 0]),
    ],
)
def test_containers_do_not_matter(values, same):
    assert distinct_ids(values, len(values))[1] == distinct_ids(same, len(same))[1]


@pytest.mark.parametrize("value", [object(), {1}, pd.Interval(0, 1), float("nan"), (1, float("nan")), 1j])
def test_ids_without_a_form_of_their_own_are_refused_and_not_quoted(value):
    with pytest.raises(InvalidInputError, match="groups has") as caught:
        partition(3, 2, groups=["John Doe", "b", value])
    assert "John" not in str(caught.value)


def test_odd_texts_are_ids_too():
    assert partition(3, 2, groups=["\ud800", "a", "\ud801"]).n_units == 3


def test_many_ids_are_quick():
    people = [f"p{i}" for i in range(200_000)]
    started = time.process_time()
    partition(len(people), 50, groups=people, secret=fresh_secret())
    assert time.process_time() - started < 5  # about 0.5 s alone; a generator for each id would take a minute
