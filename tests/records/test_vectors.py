"""Sums of vectors: no replaced unit moves one further than is said, some move it that far, and parts stay apart."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from pate import Budget, InvalidInputError, Ledger
from pate.exceptions import LedgerError
from pate.models.heads import DescentHead
from pate.records import (
    RecordVoters,
    SignedSpace,
    Units,
    count_cells,
    only,
    sum_alone,
    sum_residuals,
    sum_squares,
    sum_vectors,
)
from pate.records._vectors import PARTS, held_out_units, number_codes, read_numbers
from pate.release import open_ballot_session

RNG = np.random.default_rng(29)
PUBLIC = RNG.normal(size=(60, 3))
MOST = np.finfo(float).max


def squared(a, b):
    return sum(int(x) ** 2 for x in (a.sums - b.sums).ravel().tolist())


def persons(k):
    """Return how many records the person under test has: alone, as a record, and as one of a group of k."""
    return [None] if k == 0 else [np.r_[np.zeros(k, dtype=int), 1, 2]]


@pytest.mark.parametrize("k", [0, 1, 3, 7])
def test_counts_move_by_two_cells_in_every_column_at_most(k):
    groups = persons(k)[0]
    n = 3 if groups is None else k + 2
    units = Units.of(np.ones(n), groups)
    sums = []
    for mine in itertools.product(*[(-1, 0, 1)] * 2):
        codes = np.zeros((n, 2), dtype=int)
        codes[: n - 2] = mine
        sums.append(count_cells(units, codes, [2, 2], what="", query=""))
    most = max(squared(a, b) for a, b in itertools.combinations(sums, 2))
    bound = sums[0].facts.delta_squared
    assert most <= bound
    if k in (0, 1):
        assert most == bound == 4 * sums[0].facts.scale ** 2
    else:  # floor(2^16/k) loses less than one in k
        assert most >= bound * (1 - 2 * k / 2**16)


def test_a_person_in_several_cells_moves_counts_no_further():
    groups = np.array([0, 0, 0, 0, 1])
    units = Units.of(np.ones(5), groups)
    found = [
        count_cells(units, np.array([*mine, 0])[:, None], [3], what="", query="")
        for mine in itertools.product((-1, 0, 1, 2), repeat=4)
    ]
    assert max(squared(a, b) for a, b in itertools.combinations(found, 2)) <= found[0].facts.delta_squared


@pytest.mark.parametrize("k", [0, 1, 2, 5, 40])
def test_squares_move_by_two_bounds_and_orthogonal_vectors_reach_them(k):
    groups = persons(k)[0]
    n = 3 if groups is None else k + 2
    units, others = Units.of(np.ones(n), groups), RNG.normal(size=(2, 4))
    mine = [np.eye(4)[0] * 9, -np.eye(4)[0] * 9, np.eye(4)[1] * 9, RNG.normal(size=4) * 9, np.full(4, MOST)]
    mine += [np.zeros(4), np.full(4, np.nan), RNG.normal(size=4) * 1e-3]
    found = [sum_squares(units, np.vstack([*[v] * (n - 2), *others]), bound=2.0, what="", query="") for v in mine]
    mixed = np.vstack([RNG.permutation(np.array(mine[:4]))[RNG.integers(4, size=n - 2)], *others])
    found.append(sum_squares(units, mixed, bound=2.0, what="", query=""))
    bound = found[0].facts.delta_squared
    most = max(squared(a, b) for a, b in itertools.combinations(found, 2))
    assert bound * (1 - (1e-9 if k == 0 else 1e-2)) <= most <= bound


def held_of(rows, groups=None):
    voters = RecordVoters(None, SignedSpace(2, constant=0.3).fit(PUBLIC), classes=3)
    return voters, voters.hold(rows, np.zeros(len(rows), dtype=int), groups=groups)


@pytest.mark.parametrize("k", [0, 1, 4])
def test_signed_sums_move_by_twice_the_clip_and_opposite_vectors_reach_it(k):
    groups = persons(k)[0]
    n = 3 if groups is None else k + 2
    rows, y = np.vstack([*[PUBLIC[0] * 50] * (n - 2), PUBLIC[1], PUBLIC[2]]), np.ones(n)
    units, (_, held) = Units.of(y, groups), held_of(rows, groups)
    found = []
    for mine in ([9.0, 0.0], [-9.0, 0.0], [1e-9, 2.0], [MOST, -MOST], [np.nan, 0.0], [np.inf, 1.0]):
        r = np.vstack([*[mine] * (n - 2), [1.0, 0.0], [0.0, 1.0]])
        found.append(sum_vectors(units, held, r, clip=2.0, what="", query=""))
    bound = found[0].facts.delta_squared
    most = max(squared(a, b) for a, b in itertools.combinations(found, 2))
    assert 0.99 * bound <= most <= bound


def test_without_noise_sums_are_what_numpy_sums():
    X, y = RNG.normal(size=(500, 3)), RNG.normal(size=500)
    units, (voters, held) = Units.of(y), held_of(X)
    r = np.column_stack([y, -y])
    clipped = r * np.minimum(1.0, 1.5 / np.linalg.norm(r, axis=1))[:, None]
    found = sum_vectors(units, held, r, clip=1.5, what="", query="")
    assert np.allclose(found.sums / found.facts.scale * 1.5, voters.transform(X).T @ clipped, atol=0.05)
    bound = 2.0
    clipped = X * np.minimum(1.0, bound / np.linalg.norm(X, axis=1))[:, None]
    found = sum_squares(units, X, bound=bound, what="", query="")
    assert np.allclose(found.sums / found.facts.scale * bound**2, clipped.T @ clipped, atol=0.05)
    edges = np.linspace(-1, 1, 9)
    found = count_cells(units, units.cells(edges), [8], what="", query="")
    assert np.array_equal(found.sums[0], np.histogram(np.clip(y, -1, 1 - 1e-12), edges)[0])


@pytest.mark.parametrize("grouped", [False, True])
def test_order_of_records_changes_nothing_and_each_part_has_its_own(grouped):
    X, y = RNG.normal(size=(300, 3)), RNG.normal(size=300)
    groups = RNG.integers(40, size=300) if grouped else None
    units, (_, held) = Units.of(y, groups, share=0.25), held_of(X, groups)
    parts = [
        sum_vectors(units, held, y[:, None], clip=9.0, what="", query="", part=p) for p in ("training", "held out")
    ]
    cells = [
        count_cells(units, units.cells([-9, 0, 9]), [2], what="", query="", part=p) for p in ("training", "held out")
    ]
    whole = count_cells(units, units.cells([-9, 0, 9]), [2], what="", query="")
    assert np.array_equal(cells[0].sums + cells[1].sums, whole.sums)
    assert 0.05 < cells[1].sums.sum() / whole.sums.sum() < 0.5
    assert all(part.sums.any() for part in parts)
    masked = only(held, ~units.held_out)
    assert np.array_equal(sum_vectors(units, masked, y[:, None], clip=9.0, what="", query="").sums, parts[0].sums)


def test_ballots_of_classes_that_stand_for_ranges_keep_their_sensitivity():
    X, y = RNG.normal(size=(200, 3)), RNG.normal(size=200)
    voters, _ = held_of(X)
    head = DescentHead(n_rounds=1).start(voters.space.n_components_, (0, 1, 2))
    ranges, units = np.digitize(y, [-1, 1]), Units.of(y, share=0.3)
    ballots = voters.cast_residuals(X, ranges, head, clip=0.1)
    held = voters.hold(X, ranges)
    found = {p: sum_residuals(units, voters, held, head, clip=0.1, what="", part=p) for p in PARTS}
    assert found["all"].facts.delta_squared == ballots.delta_squared
    assert np.array_equal(found["all"].sums, ballots.sums)
    assert np.array_equal(found["training"].sums + found["held out"].sums, ballots.sums)
    assert found["all"].registration().fingerprint != ballots.registration().fingerprint  # by numbers, not ranges


def test_numbers_are_read_cell_by_cell():
    found = read_numbers(np.array(["1", " 2.5", "x", "", "nan", "inf", "-0"], dtype=object))
    assert np.array_equal(found, [1.0, 2.5, np.nan, np.nan, np.nan, np.nan, 0.0], equal_nan=True)
    codes = number_codes(np.array([0.0, -0.0, 1.0, np.nan]))
    assert codes[0] == codes[1] != codes[2]
    assert codes[3] == -1
    assert codes.max() < 2**31


SECRET = b"a secret of 32 bytes for tests.."


def test_places_that_are_held_out_follow_from_a_secret_and_the_number_of_records_alone():
    ones, zeros = (Units.of(y, share=0.2, secret=SECRET) for y in (np.ones(90), np.zeros(90)))
    assert np.array_equal(ones.held_out, zeros.held_out)
    assert ones.held_out.sum() == 18
    assert SECRET.hex()[:32] not in ones.cut
    others = [Units.of(np.ones(90), share=0.2) for _ in range(2)]  # of secrets that nobody knows
    assert not np.array_equal(others[0].held_out, others[1].held_out)
    assert len({ones.cut, *(unit.cut for unit in others)}) == 3
    ids = [b"a", b"b", b"c"]
    whole = held_out_units(4, 0.5, np.array([0, 1, 2, -1]), ids, secret=SECRET)
    assert not whole[3]
    assert np.array_equal(held_out_units(2, 0.5, np.array([0, 1]), ids[1:], secret=SECRET), whole[1:3])


def test_every_place_is_held_out_as_often_as_any_other():
    share = np.mean([held_out_units(20, 0.25, None, None, secret=i.to_bytes(16)) for i in range(4000)], axis=0)
    assert np.allclose(share, 0.25, atol=4.5 * np.sqrt(0.25 * 0.75 / 4000))


def test_a_person_who_comes_to_the_other_part_costs_half_in_either():
    """Brute force: who is replaced by a person of another id moves both parts, each by half of mu^2 at most."""
    others = ["c", "d"]
    masks = {i: Units.of(np.ones(1), [i], share=0.5).held_out[0] for i in "abefghij"}
    inside, outside = (next(i for i, held in masks.items() if held == wanted) for wanted in (True, False))
    X, most = np.vstack([PUBLIC[0] * 50, PUBLIC[:2]]), []
    for mine, other in ((inside, outside), (outside, inside)):
        for r in ([[5.0, 0.0]], [[-5.0, 1.0]], [[0.0, 0.0]]):
            found = []
            for one in (mine, other):
                groups = [one, *others]
                units, (_, held) = Units.of(np.ones(3), groups, share=0.5), held_of(X, groups)
                vectors = np.vstack([*r, [1.0, 0.0], [0.0, 1.0]])
                cells, kinds = np.zeros((3, 1), dtype=int), {"what": "", "query": ""}
                found.append([
                    (
                        sum_vectors(units, held, vectors, clip=2.0, part=part, **kinds),
                        sum_alone(units, vectors, clip=2.0, part=part, **kinds),
                        count_cells(units, cells, [2], part=part, **kinds),
                    )
                    for part in ("training", "held out")
                ])  # fmt: skip
            for a, b in zip(*map(itertools.chain.from_iterable, found), strict=True):
                most.append(Fraction(squared(a, b), a.delta_squared))
    assert max(most) == Fraction(1, 2)


def test_a_session_takes_one_cut_alone():
    y = RNG.normal(size=40)
    units, others = Units.of(y, share=0.25), Units.of(y, share=0.25)
    with opened(units, [1, 1], n_held_out=1) as session:
        session.ask_vectors(histogram(units, "training"))
        with pytest.raises(InvalidInputError, match="the same held-out units in all rounds"):
            session.ask_vectors(histogram(others, "held out"))
        assert session.n_left == 1
        session.ask_vectors(histogram(units, "held out"))


def test_vectors_of_unknown_code_are_vouched_for_by_nobody():
    units = Units.of(np.ones(40))
    for own in (False, True):
        asked = count_cells(units, np.zeros((40, 1), dtype=int), [2], what="a", query="", own=own)
        with opened(units, [1.0]) as session:
            found = session.ask_vectors(asked).statement.assumptions
        assert next(a for a in found if a.name == "own row only").by == ("pate" if own else "nobody")


# Sessions: a part's rounds cost as much as the larger part, and the last round may be cut into several.


def opened(units, shares, **said):
    return open_ballot_session(
        Budget(1.0, 1e-5), shares=shares, classes=None, n_units=units.n, unit=units.unit,
        fingerprint=units.unit_owners.fingerprint(), **said,
    )  # fmt: skip


def histogram(units, part="all", query=""):
    return count_cells(units, units.cells([-9, 0, 9]), [2], what="a histogram", query=query, part=part)


def test_parts_cost_what_the_larger_one_costs_and_refuse_each_other():
    units = Units.of(RNG.normal(size=400), share=0.25)
    with opened(units, [1, 3, 1, 1], n_held_out=2) as session:
        m = [one.noise_multiplier**-2 for one in session.mechanisms]
        assert sum(m[:2]) == pytest.approx(sum(m[2:])) == pytest.approx(session.charge.mu_squared)
        assert session.charge.guarantee(1e-5).epsilon == pytest.approx(1.0, abs=1e-6)
        with pytest.raises(InvalidInputError, match="'training' units"):
            session.ask_vectors(histogram(units, "held out"))
        with pytest.raises(InvalidInputError, match="'training' units"):
            session.ask_vectors(histogram(units))
        assert session.n_left == 4
        for query in "ab":
            session.ask_vectors(histogram(units, "training", query))
        with pytest.raises(InvalidInputError, match="'held out' units"):
            session.ask_vectors(histogram(units, "training", "c"))
        last = session.ask_vectors(histogram(units, "held out"))
        assert "McSherry" in last.statement.accounting


def test_a_split_round_costs_no_more_than_it_did():
    units = Units.of(RNG.normal(size=400))
    with opened(units, [1, 3], split_into=40) as session:
        with pytest.raises(InvalidInputError, match="only the last round"):
            session.split([1, 1])
        session.ask_vectors(histogram(units))
        old = session.mechanisms[1]
        session.split([0.3, 0.1, 7.0])
        cost = sum(1 / Fraction(m.noise_multiplier) ** 2 for m in session.mechanisms[1:])
        assert 1 - Fraction(1, 10**9) < cost * Fraction(old.noise_multiplier) ** 2 <= 1
        with pytest.raises(InvalidInputError, match="only the last round"):
            session.split([1])


@pytest.mark.parametrize("stored", [False, True])
def test_a_round_that_was_drawn_whole_is_not_drawn_again_in_parts(tmp_path, stored):
    units = Units.of(RNG.normal(size=400))
    said = {"ledger": Ledger(tmp_path / "ledger.sqlite"), "name": "mine"} if stored else {}
    for _ in range(1 + stored):  # in the same process, and resumed
        with opened(units, [1, 3], split_into=40, **said) as session:
            session.ask_vectors(histogram(units))
            session.ask_vectors(histogram(units, query="last"))
            with pytest.raises(InvalidInputError, match=r"only the last round|those of the run"):
                session.split([1, 1, 1])
            assert session.n_left == 0


def test_a_resumed_split_gives_the_same_and_no_other_shares(tmp_path):
    units, ledger = Units.of(RNG.normal(size=400)), Ledger(tmp_path / "ledger.sqlite")

    def run(shares, n):
        with opened(units, [1, 3], split_into=4, ledger=ledger, name="mine") as session:
            found = [session.ask_vectors(histogram(units)).statistics]
            session.split(shares)
            return found + [session.ask_vectors(histogram(units, query=str(i))).statistics for i in range(n)]

    first = run([1, 2, 3], 2)
    again = run([1, 2, 3], 3)
    assert np.array_equal(first, again[:3])
    assert len(ledger.releases()) == 1
    with pytest.raises(InvalidInputError, match="those of the run that this session resumes"):
        run([3, 2, 1], 1)


def test_a_ledger_of_other_numbers_is_refused(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    units, others = (Units.of(RNG.normal(size=50)) for _ in range(2))
    opened(units, [1.0], ledger=ledger, name="one").close()
    with pytest.raises(LedgerError):
        opened(others, [1.0], ledger=ledger, name="two")
