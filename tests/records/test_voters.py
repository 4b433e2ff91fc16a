"""What a record may change: its own ballot. Replayed with other records, in other orders, in parts and in processes."""

from __future__ import annotations

import hashlib

import numpy as np
import pandas as pd
import pytest
from plain_space import PlainModel, PlainSpace
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from pate import Budget, InvalidInputError, RecordVoters, SensitiveValueError, VoteCap, open_vote_cap
from pate.data import records_fingerprint
from pate.exceptions import CuratorWarning
from pate.records import HardSpace, SignedSpace, SoftSpace, _maps
from pate.records import _voters as voters_module
from pate.records.ballot_sum import centred, class_sums, quantised
from pate.records.spaces import BallotSpace
from pate.representations import TableMap

#: The curator is warned of unusable records, which tests/estimators/test_unusable_records.py tests.
pytestmark = pytest.mark.filterwarnings("ignore::pate.exceptions.CuratorWarning")

RNG = np.random.default_rng(0)
PUBLIC = RNG.normal(size=(120, 7)) * np.arange(1, 8)
X = RNG.normal(size=(2500, 7)) * np.arange(1, 8)
Y = RNG.integers(3, size=2500)
GROUPS = RNG.integers(900, size=2500)
PCA5 = PCA(5, random_state=0).fit(PUBLIC)
SPACES = {
    "soft": SoftSpace(n_centres=20, k=4, random_state=0).fit(PCA5.transform(PUBLIC)),
    "hard": HardSpace(n_centres=20, random_state=0).fit(PCA5.transform(PUBLIC)),
    "signed": SignedSpace(alpha=0.8, constant=0.4).fit(PCA5.transform(PUBLIC)),
}
MODEL = PlainModel(np.linspace(-1, 1, 18).reshape(6, 3))


def voters(kind="signed", **settings):
    return RecordVoters(PCA5, SPACES[kind], classes=3, **settings)


def one_ballot(kind, x, y):
    """A record's ballot, computed here from its definition."""
    phi = SPACES[kind].transform(PCA5.transform(x[None]))
    return centred(class_sums(quantised(phi, kind), np.array([y]), 3))


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("where", [0, 1023, 1024, 2047, 2499])
def test_neighbours_differ_in_one_ballot(kind, where):
    """Also at the edges of blocks; everything else is equal to the last bit."""
    before = voters(kind).cast(X, Y).sums
    other, y = X.copy(), Y.copy()
    other[where], y[where] = -X[where] + 1, (Y[where] + 1) % 3
    after = voters(kind).cast(other, y).sums
    wanted = one_ballot(kind, other[where], y[where]) - one_ballot(kind, X[where], Y[where])
    assert (after - before == wanted).all()


BAD = {
    "a missing cell": (np.nan, None, None),
    "an infinite cell": (np.inf, None, None),
    "an odd class": (None, "?", None),
    "a missing class": (None, None, None),
    "a class out of range": (None, 7, None),
    "no owner": (None, 1, float("nan")),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("unit", ["record", "group"])
def test_a_bad_record_casts_the_zero_ballot_and_nothing_else(bad, unit):
    cell, label, owner = BAD[bad]
    if bad == "no owner" and unit == "record":
        pytest.skip("records have no owners")
    # Unscaled rows: the plain space shows what a cell that is not finite does.
    plain = RecordVoters(None, PlainSpace("signed", 7), classes=3)
    rows, y = X.copy(), Y.astype(object)
    groups = None if unit == "record" else GROUPS.astype(object)
    keep = np.arange(2500) != 1030
    without = plain.cast(rows[keep], Y[keep], groups=None if groups is None else groups[keep]).sums
    if cell is not None:
        rows[1030, 2] = cell
    else:
        y[1030] = label
        if owner is not None:
            groups[1030] = owner
    assert (plain.cast(rows, y, groups=groups).sums == without).all()


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("unit", ["record", "group"])
def test_places_do_not_matter(kind, unit):
    """A row's phi is its own: permuted, and with rows put in before it, every ballot is the same to the last bit."""
    groups = GROUPS if unit == "group" else None
    whole = voters(kind).cast(X, Y, groups=groups).sums
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(2500)
        found = voters(kind).cast(X[order], Y[order], groups=None if groups is None else groups[order])
        assert (found.sums == whole).all()
    phi = voters(kind).transform(X)
    assert (voters(kind).transform(np.concatenate([X[:17], X]))[17:] == phi).all()
    assert all((voters(kind).transform(X[i : i + 1]) == phi[i]).all() for i in (0, 5, 1500, 2499))


def test_parts_and_processes_give_the_same_sum():
    whole = voters().cast(X, Y)
    chunks = voters().cast((X[a : a + 700], Y[a : a + 700]) for a in range(0, 2500, 700))
    added = voters().cast(X[:1000], Y[:1000]) + voters().cast(X[1000:], Y[1000:])
    several = voters(n_jobs=2).cast(X, Y)
    for other in (chunks, added, several):
        assert (other.sums == whole.sums).all()
        assert other.facts == whole.facts
        assert other.registration() == whole.registration()
    assert whole.registration().fingerprint == records_fingerprint(Y)


def test_slabs_do_not_matter(monkeypatch):
    found = [voters().cast(X, Y, groups=groups).sums for groups in (None, GROUPS)]
    found += [voters().cast_residuals(X, Y, MODEL, clip=0.5, groups=groups).sums for groups in (None, GROUPS)]
    monkeypatch.setattr(voters_module, "_SLAB", 100)
    again = [voters().cast(X, Y, groups=groups).sums for groups in (None, GROUPS)]
    again += [voters().cast_residuals(X, Y, MODEL, clip=0.5, groups=groups).sums for groups in (None, GROUPS)]
    assert all((a == b).all() for a, b in zip(found, again, strict=True))


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("unit", ["record", "group"])
def test_held_records_cast_the_same_ballots(kind, unit):
    """To the last bit, a bad record among them: a run may hold them or not, as memory allows."""
    y, groups = Y.astype(object), None if unit == "record" else GROUPS.astype(object)
    y[1500] = None
    model = PlainModel(np.linspace(-1, 1, 3 * SPACES[kind].n_components_).reshape(-1, 3))
    for v, on_disk in ((voters(kind), False), (voters(kind, n_jobs=2), False), (voters(kind), True)):
        held = v.hold(X, y, groups=groups, on_disk=on_disk)
        assert repr(held) == "HeldRecords(<sensitive>)"
        pairs = [
            (v.cast(held), v.cast(X, y, groups=groups)),
            (
                v.cast_residuals(held, model=model, clip=0.5),
                v.cast_residuals(X, y, model, clip=0.5, groups=groups),
            ),
        ]
        for one, other in pairs:
            assert (one.sums == other.sums).all()
            assert one.sums.any()
            assert one.facts == other.facts
            assert one.registration() == other.registration()


def test_held_records_are_refused_where_they_do_not_belong():
    held = voters().hold(X, Y)
    with pytest.raises(InvalidInputError, match="must be records held by these voters"):
        voters("soft").cast(held)
    with pytest.raises(InvalidInputError, match="y, groups and tiers must be left out"):
        voters().cast(held, Y)
    with pytest.raises(InvalidInputError, match="added twice"):
        voters().cast(held) + voters().cast(held)
    takes_z = PlainModel(np.zeros((5, 3)))
    takes_z.takes = "representation"
    with pytest.raises(InvalidInputError, match="must predict from phi"):
        voters().cast_residuals(held, model=takes_z, clip=0.5)
    with pytest.raises(SensitiveValueError, match="directions of private records"):
        TableMap().fit(held)


@pytest.mark.parametrize(
    "more",
    [
        {"classes": 4},
        {"classes": 2},
        {"classes": (2, 1, 0)},
        {"classes": (0, True, 2)},
        {"adjacency": "add-or-remove", "nominal_n": 2500},
        {"classes_inferred": True},
    ],
    ids=str,
)
def test_held_records_are_cast_by_voters_of_the_same_public_facts_alone(more):
    """Decided by what is public: no record's class has a say in whether another voters' records are taken."""
    other = RecordVoters(PCA5, SPACES["signed"], **{"classes": 3} | more)
    for y in (Y, Y % 2):  # whether a class occurs or not
        for holds, casts in ((voters(), other), (other, voters())):
            with pytest.raises(InvalidInputError, match="must be records held by these voters") as refused:
                casts.cast(holds.hold(X[:50], y[:50]))
            assert "Call hold of these voters" in str(refused.value)
    again = RecordVoters(PCA5, SPACES["signed"], **{"classes": 3} | more)
    held = other.hold(X[:50], Y[:50])
    assert again.cast(held).facts == other.cast(held).facts


def test_held_records_of_spaces_that_share_a_fingerprint_are_distinguished_by_kind():
    """A foreign space's word is not enough: directions cut for one kind are too long for another's sensitivity."""

    class Alike(PlainSpace):
        def fingerprint(self):
            return "the same"

    signed, soft = Alike("signed", 3), Alike("soft", 3)
    held = RecordVoters(None, signed, classes=3).hold(X[:50, :3], Y[:50])
    with pytest.raises(InvalidInputError, match="must be records held by these voters"):
        RecordVoters(None, soft, classes=3).cast(held)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_held_directions_are_read_only(n_jobs):
    held = voters(n_jobs=n_jobs).hold(X, Y, groups=GROUPS)
    for piece in held.pieces:
        for array in (piece.p, piece.labels, piece.owners):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1


@pytest.mark.parametrize("residual", [False, True])
def test_neighbours_by_person_differ_in_that_persons_ballot(residual):
    """A person with other records, more of them and in other places: the rest is equal to the last bit."""
    cast = voters().cast if not residual else lambda X, y, groups: voters().cast_residuals(
        X, y, MODEL, clip=0.5, groups=groups
    )  # fmt: skip
    who = GROUPS[0]
    others = who != GROUPS
    rest = cast(X[others], Y[others], groups=GROUPS[others]).sums
    before = cast(X, Y, groups=GROUPS).sums - rest
    own = cast(X[~others], Y[~others], groups=GROUPS[~others]).sums
    assert (before == own).all()
    more, y = np.concatenate([X[others][:7], X]), np.concatenate([np.arange(7) % 3, Y])
    groups = np.concatenate([np.full(7, who), GROUPS])
    after = cast(more, y, groups=groups).sums - rest
    mine = groups == who
    assert (after == cast(more[mine], y[mine], groups=groups[mine]).sums).all()
    assert (after != before).any()


def test_a_person_in_two_parts_is_refused():
    a, b = voters().cast(X[:10], Y[:10], groups=["p"] * 10), voters().cast(X[10:20], Y[10:20], groups=["p"] * 10)
    with pytest.raises(InvalidInputError, match=r"a person has records in two parts"):
        a + b
    with pytest.raises(InvalidInputError, match=r"a person has records in two parts"):
        voters().cast([(X[:9], Y[:9], list("abcdefghi")), (X[9:11], Y[9:11], list("ia"))])


def test_persons_are_counted_and_registered_as_teachers_do():
    found = voters().cast(X, Y, groups=GROUPS).registration()
    assert (found.unit, found.n_units) == ("group", len(np.unique(GROUPS)))
    assert found.fingerprint == records_fingerprint(Y, GROUPS)


def test_a_record_without_an_owner_is_of_no_unit():
    """As where shards are cut: it is left out, and takes no place of another record."""
    ids = np.where(GROUPS[40] == GROUPS, "mine", GROUPS.astype(str)).astype(object)
    mine = ids == "mine"
    whole, rest = voters().cast(X, Y, groups=ids), voters().cast(X[~mine], Y[~mine], groups=ids[~mine])
    for nothing in (None, float("nan"), " ", pd.NA):
        some, all_of_them = ids.copy(), ids.copy()
        some[np.flatnonzero(mine)[1:]], all_of_them[mine] = nothing, nothing
        kept = voters().cast(X, Y, groups=some)
        assert kept.facts.n == whole.facts.n
        keep = ~mine | (np.arange(2500) == np.flatnonzero(mine)[0])
        assert (kept.sums == voters().cast(X[keep], Y[keep], groups=ids[keep]).sums).all()
        gone = voters().cast(X, Y, groups=all_of_them)  # to take all of a person's ids away removes that person
        assert gone.facts.n == gone.registration().n_units == whole.facts.n - 1
        assert (gone.sums == rest.sums).all()
        other = X.copy()
        other[mine] = 9.0
        assert (voters().cast(other, Y, groups=all_of_them).sums == rest.sums).all()
        with pytest.raises(InvalidInputError, match="Give every record an owner or drop it"):
            voters().cast(X, Y, groups=np.full(2500, nothing, dtype=object))


def test_under_add_or_remove_nothing_tells_the_number():
    settings = {"adjacency": "add-or-remove", "nominal_n": 3000}
    found = [voters(**settings).cast(X[:n], Y[:n]) for n in (2500, 2499)]
    assert found[0].facts == found[1].facts
    assert repr(found[0]) == repr(found[1])
    assert found[0].facts.n == 3000
    assert found[0].registration().n_units is None
    empty = voters(**settings).cast(X[:0], Y[:0])
    assert not empty.sums.any()
    with pytest.raises(InvalidInputError, match="nominal_n must be given under"):
        voters(adjacency="add-or-remove")
    with pytest.raises(InvalidInputError, match="nominal_n must be given under"):
        voters(nominal_n=3)


def test_progress_tells_no_number_that_is_private(capfd, monkeypatch):
    voters(verbose=True).cast(X, Y)
    assert capfd.readouterr().err == ""  # one piece of work has no progress
    monkeypatch.setattr(voters_module, "_SLAB", 1000)
    voters(verbose=True).cast(X, Y)
    assert capfd.readouterr().err == "ballots: 3 done\n"
    voters(verbose=True, adjacency="add-or-remove", nominal_n=9).cast(X, Y)
    assert capfd.readouterr().err == ""


def test_kinds_of_tables_give_the_same_ballots():
    frame = pd.DataFrame(X, columns=list("abcdefg"))
    names = np.array(["no", "maybe", "yes"])
    other = RecordVoters(PCA5, SPACES["signed"], classes=names)
    whole = voters().cast(X, Y).sums
    assert (other.cast(frame.to_numpy(), names[Y]).sums == whole).all()
    lists = voters().cast(X.tolist(), Y.tolist()).sums
    assert (lists == whole).all()
    scale = StandardScaler(with_mean=False).fit(PUBLIC)
    space = SignedSpace().fit(scale.transform(PUBLIC))
    both = RecordVoters(scale, space, classes=3)
    assert (both.cast(sparse.csr_matrix(X), Y).sums == both.cast(X, Y).sums).all()


def test_errors_quote_no_cell():
    class Broken:
        def transform(self, X):
            raise ValueError(f"cannot read {X[0, 0]}")

        def fingerprint(self):
            return "ab"

    with pytest.raises(InvalidInputError, match=r"X cannot be read \(ValueError\)") as caught:
        RecordVoters(Broken(), SPACES["signed"], classes=3).cast(X, Y)
    assert str(X[0, 0])[:6] not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    with pytest.warns(CuratorWarning, match="2500 of 2500 records .*NO RECORD IS LEFT") as warned:
        assert not voters().cast(X, ["Ms Smith"] * 2500).sums.any()
    assert "Smith" not in str(warned[0].message)


def test_the_sum_shows_nothing_of_itself():
    ballots = voters().cast(X, Y)
    text = repr(ballots) + str(ballots) + repr(ballots.unit_owners)
    assert "sums=<sensitive>" in text
    assert ballots.unit_owners.fingerprint() not in text
    assert not any(str(abs(v)) in text for v in ballots.sums.ravel().tolist())


def test_what_is_added_must_be_alike():
    a = voters().cast(X, Y)
    for b in (voters("soft").cast(X, Y), voters().cast(X, Y, groups=np.arange(2500)), voters().cast_residuals(
        X, Y, MODEL, clip=0.5)):  # fmt: skip
        with pytest.raises(InvalidInputError, match="must be of the same kind"):
            a + b


def test_fingerprints_tell_maps_apart():
    known = {voters(kind).fingerprint() for kind in SPACES}
    known.add(RecordVoters(PCA(5, random_state=0).fit(PUBLIC + 1), SPACES["signed"], classes=3).fingerprint())
    known.add(RecordVoters(PCA(5, random_state=0).fit(PUBLIC * 2), SPACES["signed"], classes=3).fingerprint())
    known.add(RecordVoters(None, SPACES["signed"], classes=3).fingerprint())
    assert len(known) == 6
    assert voters().fingerprint() == RecordVoters(PCA5, SPACES["signed"], classes=2).fingerprint()
    assert _maps.fingerprint_of(MODEL) == MODEL.fingerprint()


def test_what_has_no_fingerprint_is_refused():
    class Nameless:
        def transform(self, X):
            return X

    with pytest.raises(InvalidInputError, match=r"Nameless must have a method fingerprint\(\)"):
        RecordVoters(Nameless(), SPACES["signed"], classes=3)


def test_own_maps_are_pates_classes_only():
    class Mine(SignedSpace):
        pass

    assert RecordVoters(None, SPACES["soft"], classes=3).cast(PCA5.transform(X), Y).facts.own_maps
    assert not voters().cast(X, Y).facts.own_maps  # scikit-learn's own PCA
    exact = RecordVoters(None, SPACES["soft"], classes=3)
    assert exact.cast(PCA5.transform(X), Y, groups=GROUPS).facts.own_maps
    assert not exact.cast_residuals(
        PCA5.transform(X), Y, PlainModel(np.ones((20, 3))), clip=1.0, groups=GROUPS
    ).facts.own_maps
    mine = Mine().fit(PUBLIC)
    assert not RecordVoters(None, mine, classes=3).cast(X, Y).facts.own_maps
    assert isinstance(mine, BallotSpace)


# Capped votes --------------------------------------------------------------------------------------------------------


def test_capped_votes_are_each_records_own():
    queries = PUBLIC[:40]
    votes = voters().capped_votes(X, Y, X_public=queries, radius=0.6)
    phi, asked = voters().transform(X), voters().transform(queries)
    near = np.square(phi[:, None] - asked[None]).sum(axis=2) <= 0.36
    assert 0.01 < near.mean() < 0.9
    assert (votes.labels == np.where(near, Y[:, None], -1)).mean() > 0.9999  # but for the last bit at the radius
    other, y = X.copy(), Y.copy()
    other[1024], y[1024] = np.nan, 1
    after = (
        RecordVoters(None, PlainSpace("signed", 7), classes=3)
        .capped_votes(other, y, X_public=queries, radius=0.6)
        .labels
    )
    assert (after[1024] == -1).all()
    other[1024], y[1024] = X[3], (Y[3] + 1) % 3
    after = voters().capped_votes(other, y, X_public=queries, radius=0.6).labels
    assert (np.delete(after, 1024, axis=0) == np.delete(votes.labels, 1024, axis=0)).all()
    assert ((after[1024] >= 0) == (votes.labels[3] >= 0)).all()


def test_capped_votes_feed_a_run():
    votes = voters().capped_votes(X, Y, X_public=PUBLIC[:5], radius=0.9)
    run = open_vote_cap(VoteCap(3, 20.0), n_teachers=votes.n_teachers, classes=votes.classes, budget=Budget(2.0, 1e-5),
                        n_units=votes.n_units, fingerprint=votes.fingerprint)  # fmt: skip
    assert run.ask(votes.labels, query_hashes=votes.query_hashes).labels.shape == (5,)
    assert "sensitive" in repr(votes)
    with pytest.raises(InvalidInputError, match="replace-one"):
        voters(adjacency="add-or-remove", nominal_n=9).capped_votes(X, Y, X_public=PUBLIC, radius=0.5)


@pytest.mark.parametrize("groups", [None, GROUPS])
def test_the_digest_of_records_in_no_order_is_that_of_the_sorted_pairs(groups):
    names = [b""] * len(Y) if groups is None else [str(g).encode() for g in groups]
    pairs = sorted(zip(Y.tolist(), names, strict=True))
    plain = hashlib.sha256(f"pate records 1 unordered {len(Y)} {groups is not None}\n".encode())
    plain.update(b"".join(f"{label}:{len(name)}:".encode() + name for label, name in pairs))
    assert records_fingerprint(Y, groups).partition(":")[2] == plain.hexdigest()
