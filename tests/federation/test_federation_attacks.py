"""Attacks on a site: what a coordinator could say to make it consent to, count, run or reveal what it should not."""

import io
import json
import subprocess
import sys
import warnings
import zipfile
from copy import copy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sites_of import ASKS, CONSENT, PLAN, Local, blobs
from sklearn.base import clone

from pate.exceptions import CuratorWarning, FederationError, InvalidInputError
from pate.federation import SiteRecords, _site
from pate.federation._archive import Question
from pate.federation._channel import Refusal, as_told
from pate.federation._config import SITES
from pate.federation._contract import Heard
from pate.federation._site import mechanisms_of
from pate.models.file import InputSpec
from pate.models.heads import LinearHead
from pate.models.recipes import RecordModel
from pate.records import HardSpace, RecordVoters, SignedSpace, SoftSpace
from pate.records.spaces import load_space
from pate.release import open_shares
from pate.representations import KernelPCA, PublicPCA, RandomFourier, TableMap, TextMap, combine, load
from pate.representations._base import FORMAT, KEY, as_safetensors, digest, packed

X, Y = blobs(120)


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    return Local(tmp_path_factory.mktemp("attacked"))


class SiteRecordsSums:
    """What a site's records sum to, by a space of its own."""

    def __init__(self, site):
        voters = RecordVoters(None, SignedSpace().fit(X[:50]), classes=(0, 1))
        self.found = voters.cast(X, Y)
        self.n_cells = self.found.sums.size


def stands_for(site, sums):
    site._data.asked = lambda *asked: SimpleNamespace(facts=lambda n: sums.found.facts)
    site._data.cast = lambda *asked: sums.found


def post(site, path, caller=ASKS, **head):
    return site.answer(caller, path, head, b"")


@pytest.mark.parametrize("where", ["sites", "recipients", "coordinator"])
@pytest.mark.parametrize(
    "text", ["x\x1b[2K\rcosts epsilon 0.1", "a\nb", "", " site-1", "Site-1", "s" * 300, 7, None, ["a"]]
)
def test_a_plan_cannot_write_on_the_terminal_where_it_is_agreed_to(local, where, text):
    """Names are shown to a person beside the price: an escape sequence would put another price there."""
    shown = []
    site = local.site(0, (X, Y), classes=(0, 1), approve=lambda plan, price: shown.append(plan) or True)
    said = PLAN.to_dict()
    said[where] = text if where == "coordinator" else [*said[where], text]
    if where == "sites":
        said["n_units"] = [*said["n_units"], 50]
    with pytest.raises(Refusal, match="no plan that this version"):
        post(site, "/plan", plan=said)
    assert not shown
    assert post(site, "/plan", plan=PLAN.to_dict())["accepted"]
    site._end(site.at_work)


@pytest.mark.parametrize(
    "changed", [{"recipients": []}, {"recipients": ["site-9"]}, {"n_units": [120, 0, 50]}, {"n_units": [120, "9", 50]}]
)
def test_a_plan_opens_to_parties_and_counts_units(local, changed):
    site = local.site(0, (X, Y), classes=(0, 1), consent=CONSENT)
    with pytest.raises(Refusal, match="no plan that this version"):
        post(site, "/plan", plan=PLAN.to_dict() | changed)


def test_names_that_a_coordinator_made_up_are_not_counted_among_the_sites(tmp_path):
    """Of ten sites, eight of them its own, the honest two would add a share made for nine."""
    local = Local(tmp_path)
    made_up = tuple(f"fake-{i}" for i in range(7))
    more = replace(PLAN, sites=(*PLAN.sites, *made_up), n_units=(*PLAN.n_units, *[50] * 7))
    # What each would add: far less than what the site was promised by three of whom one is not trusted.
    assert mechanisms_of(more)[0].share_scale(100) < 0.5 * mechanisms_of(PLAN)[0].share_scale(100)
    bundle = local.bundles["site-0"]
    bundle.certificate.with_name(SITES).write_text(local.members.text())
    for how in ({"consent": CONSENT}, {"approve": lambda plan, price: True}):
        site = local.site(0, (X, Y), classes=(0, 1), **how)
        assert post(site, "/plan", plan=more.to_dict()) == {
            "accepted": False, "reason": "it names parties that are not in this site's sites.toml",
        }  # fmt: skip
        asks = replace(PLAN, coordinator="fake-1", recipients=("fake-1",))
        assert not post(site, "/plan", frozenset({"fake-1"}), plan=asks.to_dict())["accepted"]
        assert post(site, "/plan", plan=PLAN.to_dict())["accepted"]
        site._end(site.at_work)
    assert site.ledger.show() == []


def test_a_plan_that_is_declined_late_ends_no_other(local):
    """Ended by its coordinator while a person looks at it, and another agreed to meanwhile."""
    later = replace(PLAN, nonce="cd")

    def approve(plan, price):
        if plan == later:
            return True
        post(site, "/end", digest=plan.digest)
        assert post(site, "/plan", plan=later.to_dict())["accepted"]
        return False

    site = local.site(0, (X, Y), classes=(0, 1), approve=approve)
    assert not post(site, "/plan", plan=PLAN.to_dict())["accepted"]
    assert site.at_work is not None
    assert site.at_work.plan == later
    assert post(site, "/alive", digest=later.digest) == {}
    with pytest.raises(Refusal, match="at work on another ask"):
        post(site, "/plan", plan=replace(PLAN, nonce="ef").to_dict())
    site._end(site.at_work)


def test_what_an_engine_quotes_of_a_coordinator_cannot_write_on_the_sites_terminal(local, monkeypatch):
    """The host of an engine is the coordinator's word: an escape sequence would show another charge there."""

    def engine(parties, me, **how):
        raise Heard(f"this party cannot listen on {parties[me].host}")

    monkeypatch.setattr(_site, "MPyCAggregator", engine)
    site = local.site(0, (X, Y), classes=(0, 1))
    assert post(site, "/plan", plan=PLAN.to_dict())["accepted"]
    local.said.clear()
    parties = [[name, "\x1b[2K\rcharged 0.1\n", site.engine_port] for name in ("registry", *PLAN.sites)]
    with pytest.raises(Refusal) as found:
        post(site, "/join", digest=PLAN.digest, parties=parties, deadline=1.0)
    assert found.value.heard
    assert any(text.startswith("join failed: this party cannot listen") for text in local.said)
    assert all(text.isprintable() for text in local.said)
    assert site.at_work is None


def test_a_round_whose_secure_sum_failed_is_neither_asked_nor_drawn_again(tmp_path):
    """Its shares may have left: the same sums under other noise would be one more release."""
    given = []

    def fails(values, **how):
        given.append(values)
        raise Heard("site-1 did not answer")

    site = Local(tmp_path).site(0, (X, Y), classes=(0, 1))
    sums = SiteRecordsSums(site)
    plan = replace(PLAN, n_cells=2 * sums.n_cells)
    assert post(site, "/plan", plan=plan.to_dict())["accepted"]
    site.at_work.engine = SimpleNamespace(sum=fails, close=lambda: None)
    stands_for(site, sums)
    for said in ("site-1 did not answer", "served or broken off before"):
        with pytest.raises(Refusal, match=said) as found:
            post(site, "/round", digest=plan.digest, index=0, kind="ballots", bound=1 << 190)
        assert found.value.heard
    with pytest.raises(Refusal, match="served or broken off before"):
        post(site, "/plan", plan=plan.to_dict())
    assert len(given) == len(site.ledger.show()) == 1
    assert post(site, "/end", digest=plan.digest) == {"charged": True}


def test_a_site_listens_nowhere_but_where_it_says(local):
    site = local.site(0, (X, Y), classes=(0, 1), consent=CONSENT)
    assert post(site, "/plan", plan=PLAN.to_dict())["accepted"]
    parties = [[name, "127.0.0.1", 1 + site.engine_port] for name in ("registry", *PLAN.sites)]
    with pytest.raises(Refusal, match="another port for this site's engine"):
        post(site, "/join", digest=PLAN.digest, parties=parties, deadline=1.0)
    assert site.at_work is None


def test_no_refusal_names_a_file_of_the_site(local, tmp_path):
    site = local.site(1, (X, Y), classes=(0, 1), consent=CONSENT)
    open_shares(
        mechanisms_of(PLAN), data=site._data.registration(), budget=site.budget, ledger=site.ledger,
        request=PLAN.digest, n_cells=80,
    )  # fmt: skip
    with pytest.raises(FederationError, match="charged for this plan before") as found:
        site._paid(PLAN)  # as where another process serves the same plan
    assert str(local.folder) not in str(found.value)


_WORDS = """
import sys
from types import SimpleNamespace
sys.argv = ["party"]
from pate.federation._exchange import Session
for word in (b'["done", [1e999]]', b'["silent", [Infinity]]', b"[" * 100_000, b'[1, "x"]', b"{}", bytes([255])):
    found = []
    Session.heard(SimpleNamespace(n_parties=3, fail=lambda why, who: found.append((why, list(who)))), 2, word)
    print(found)
"""


@pytest.mark.long
def test_whatever_a_peers_last_word_is_the_peer_is_named(tmp_path):
    """In a process of its own, as MPyC reads its options when it is imported."""
    pytest.importorskip("cryptography")
    found = subprocess.run([sys.executable, "-c", _WORDS], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert found.stdout.split("\n")[:-1] == ["[('refused', [2])]"] * 6, found.stderr[-500:]


def test_what_a_site_says_changes_nothing_on_the_coordinators_terminal():
    assert as_told("no\x1b[2K\r\nall agreed\u202e") == "no [2K  all agreed "
    assert len(as_told("x" * 10_000)) == 500


def test_a_round_of_more_numbers_than_the_plan_names_is_refused_before_it_is_charged(tmp_path):
    local = Local(tmp_path)
    site = local.site(2, (X, Y), classes=(0, 1), consent=CONSENT)
    sums = SiteRecordsSums(site)
    plan = replace(PLAN, sites=("site-2", "site-1", "site-0"), n_cells=sums.n_cells - 1)
    assert post(site, "/plan", plan=plan.to_dict())["accepted"]
    site.at_work.engine = SimpleNamespace(close=lambda: None)
    stands_for(site, sums)
    with pytest.raises(Refusal, match="more numbers than the plan names"):
        post(site, "/round", digest=plan.digest, index=0, kind="ballots", bound=1 << 190)
    assert post(site, "/end", digest=plan.digest) == {"charged": False}


def bombs(archive):
    """Return archives that unpack to far more than they are, and name what they must not."""
    parts = {one.filename: archive.read(one) for one in archive.infolist()}
    for name, data, method in (
        ("space.safetensors", bytes(1 << 26), zipfile.ZIP_DEFLATED),
        ("manifest.json", b"[" * (1 << 24), zipfile.ZIP_LZMA),
        ("manifest.json", b"[" * (1 << 20), zipfile.ZIP_STORED),
        ("space.safetensors", b"\xff" * 7 + bytes(9), zipfile.ZIP_STORED),
        ("../../outside.safetensors", b"", zipfile.ZIP_STORED),
    ):
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w", method) as out:
            for part, held in (parts | {name: data}).items():
                out.writestr(part, held)
        yield made.getvalue()


def test_an_archive_that_would_fill_memory_is_refused_before_it_is_unpacked(local, monkeypatch):
    site = local.site(0, (X, Y), classes=(0, 1), consent=CONSENT)
    voters, door = RecordVoters(None, SignedSpace().fit(X[:50]), classes=(0, 1)), InputSpec(kind="array", n_features=3)
    whole = Question(kind="ballots", voters=voters, unit="record", door=door).to_bytes()
    inflated = []
    monkeypatch.setattr(zipfile, "_get_decompressor", lambda *method: inflated.append(method))
    for n, bomb in enumerate(bombs(zipfile.ZipFile(io.BytesIO(whole)))):
        plan = replace(PLAN, nonce=f"b{n}")
        assert post(site, "/plan", plan=plan.to_dict())["accepted"]
        site.at_work.engine = SimpleNamespace(close=lambda: None)
        with pytest.raises(Refusal, match="its own operator sees why"):
            site.answer(ASKS, "/round", {"digest": plan.digest, "index": 0, "kind": "ballots", "bound": 1 << 190}, bomb)
        assert post(site, "/end", digest=plan.digest) == {"charged": False}
    assert [method for method in inflated if method != (zipfile.ZIP_STORED,)] == []


@pytest.mark.parametrize("kind", [SignedSpace(), SoftSpace(8, 3), HardSpace(8)], ids=lambda one: one.kind)
@pytest.mark.parametrize("odd", [np.inf, -np.inf, 1e300], ids=str)
def test_numbers_of_an_archive_that_nothing_holds_are_refused_and_end(kind, odd):
    """A space's numbers are brought to so many bits in a loop: with infinite ones it would never end."""
    voters = RecordVoters(None, clone(kind).fit(X[:50]), classes=(0, 1))
    space = voters.space
    (space.components_ if space.kind == "signed" else space.centres_)[0, 0] = odd
    space.bounds_[1, 0] = 1e300
    asked = Question(
        kind="ballots", voters=voters, unit="record", door=InputSpec(kind="array", n_features=3, mixed=False)
    ).to_bytes()
    plan = replace(PLAN, representation=voters.fingerprint())
    with pytest.raises(InvalidInputError, match="must be a saved ballot space"):
        SiteRecords(X, Y, classes=(0, 1)).sums(plan, "ballots", asked)


def test_no_cell_of_a_record_refuses_a_round_where_warnings_are_errors():
    """A refusal is told to the coordinator, before anything is charged: it must not depend on a record."""
    voters = RecordVoters(None, SignedSpace().fit(X[:50]), classes=(0, 1))
    asked = Question(
        kind="ballots", voters=voters, unit="record", door=InputSpec(kind="array", n_features=3, mixed=False)
    ).to_bytes()
    plan = replace(PLAN, representation=voters.fingerprint())
    odd = X.astype(object)
    odd[7, 1] = "not a number"
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("error")
        found = [SiteRecords(rows, Y, classes=(0, 1)).sums(plan, "ballots", asked) for rows in (X, odd)]
    far = sum(int(one) ** 2 for one in (found[0].sums - found[1].sums).ravel())
    assert 0 < far <= found[0].delta_squared


def test_what_a_coordinator_may_not_say_about_rounds(local):
    site = local.site(0, (X, Y), classes=(0, 1), consent=CONSENT)
    for head in (
        {"index": 1, "bound": 10**30}, {"index": -1, "bound": 10**30}, {"index": None, "bound": 10**30},
        {"index": "0", "bound": 10**30}, {"index": 0, "bound": None}, {"index": 0, "bound": 1e30},
        {"index": 0, "bound": True}, {"index": 0, "bound": 1 << 201},
    ):  # fmt: skip
        plan = replace(PLAN, nonce=repr(head))
        assert post(site, "/plan", plan=plan.to_dict())["accepted"]
        site.at_work.engine = SimpleNamespace(close=lambda: None)
        with pytest.raises(Refusal):
            post(site, "/round", digest=plan.digest, kind="ballots", **head)
        assert site.at_work is None
    assert site.ledger.show() == []


def crafted(of_rows):
    """Return a plan and the archive of a round whose space does what is said with rows: no check of files found it."""
    voters = RecordVoters(None, SignedSpace().fit(X[:50]), classes=(0, 1))
    door = InputSpec(kind="array", n_features=3, mixed=False)
    plan = replace(PLAN, representation=voters.fingerprint())
    asked = SiteRecords(X, Y, classes=(0, 1)).asked(
        plan, "ballots", Question(kind="ballots", voters=voters, unit="record", door=door).to_bytes()
    )
    whole = asked.voters.space.transform
    asked.voters.space.transform = lambda z: of_rows(z) or whole(z)
    return asked


def site_records(rows, asked):
    records = SiteRecords(rows, Y, classes=(0, 1))
    records._voters[asked.space] = asked.voters
    return records


def test_a_record_at_which_a_map_fails_casts_zero_and_takes_no_other_with_it():
    """Were an error, or an empty sum, to follow from one record, a coordinator would read bits of it."""

    def fails(z):
        if (z > 900).any():
            raise IndexError("index 5 is out of bounds")

    odd = X.copy()
    odd[17] = 999.0
    asked, told = crafted(fails), []
    with pytest.warns(CuratorWarning, match="1 of 120 records"):
        there, without = (site_records(rows, asked).cast(asked, told.append) for rows in (odd, X))
    far = sum(int(one) ** 2 for one in (there.sums - without.sums).ravel())
    assert not told
    assert 0 < far <= there.delta_squared


def test_from_the_charge_on_no_answer_depends_on_the_records(tmp_path):
    """What fails where it should not gives zeros, with noise, and the very answer that any other site gives."""
    local, given = Local(tmp_path), []
    site = local.site(0, (X, Y), classes=(0, 1))
    asked = crafted(lambda z: None)
    plan = replace(PLAN, representation=asked.space)
    assert post(site, "/plan", plan=plan.to_dict())["accepted"]
    site.at_work.engine = SimpleNamespace(sum=lambda values, **how: given.append(values), close=lambda: None)
    site._data.asked = lambda *said: asked
    site._data._voters[asked.space] = asked.voters
    site._data._answered = lambda *said: 1 / 0
    assert post(site, "/round", digest=plan.digest, index=0, kind="ballots", bound=1 << 190) == {}
    assert len(given[0]) == 2 * asked.voters.space.n_components_
    assert any("zeros were added in their place: ZeroDivisionError" in text for text in local.said)
    assert post(site, "/end", digest=plan.digest) == {"charged": True}


@pytest.mark.parametrize(
    "kept", [(5.0, 0.0, -1.0), (4.0, 0.5, 0.5), (-1.0, 5.0, 0.0), (6.0, 0.0, 0.0), (4.0, 0.0), (2.5, 1.0, 0.0)], ids=str
)
def test_a_map_of_a_table_names_columns_that_are_there(tmp_path, kept):
    """Crafted, it failed if and only if a private category occurred."""
    towns = ["Oslo", "Rome", "Kyiv", "Bonn", "Bern"]
    rep = TableMap(numeric=["standard"]).fit(pd.DataFrame({"town": towns * 4, "age": np.arange(20.0), "same": 1.0}))
    rep.save(tmp_path / "whole")
    load(tmp_path / "whole")
    rep.columns_[0] = {"kept": np.array(kept)}
    rep.n_features_out_ = max(1, rep._width())
    rep.save(tmp_path / "map")
    with pytest.raises(InvalidInputError, match="no intact file"):
        load(tmp_path / "map")


def mutants(array):
    yield from (array[:-1], array[None], np.concatenate([array, array]), np.zeros_like(array), -array)
    yield from (array.astype(np.float32), array.astype(np.int64))
    for place in (0, -1):
        for value in (np.nan, np.inf, -1.0, 0.5, 1e9, 1e300):
            odd = array.astype(np.float64)
            odd.flat[place] = value
            yield odd


TOWNS = pd.DataFrame({"age": np.arange(20.0), "town": ["Oslo", "Rome", "Kyiv", "Bonn"] * 5})
TEXTS = ["the ship sails north", "the ship sails south", "rain in the north", "rain in the south"] * 2


@pytest.mark.long
@pytest.mark.parametrize(
    ("rep", "public", "private"),
    [
        (TableMap(), TOWNS, pd.DataFrame({"age": [np.nan, 1e300, -5.0], "town": ["HIV", None, "Bonn"]})),
        (TextMap(2), TEXTS, ["", "rain HIV", "the north"]),
        (KernelPCA(6), X[:40], np.array([[np.nan] * 3, [1e300] * 3, [0.0] * 3])),
        (combine(PublicPCA(2), RandomFourier(4)), X[:40], np.array([[np.inf] * 3, [-1e300] * 3, [0.0] * 3])),
    ],
    ids=["table", "texts", "kernel", "combined"],
)  # fmt: skip
def test_a_map_with_any_array_crafted_is_refused_or_maps_whatever_rows(tmp_path, monkeypatch, rep, public, private):
    """The digests of a file are its writer's own word: they are made to fit."""
    monkeypatch.setattr("pate.representations._files.digest_of", lambda rep: "of the writer")
    arrays, described = packed(clone(rep).fit(public), keep=True)
    n_loaded = 0
    for name, array in arrays.items():
        for odd in mutants(array):
            made = {**arrays, name: np.ascontiguousarray(odd)}
            head = {"format": FORMAT, "fingerprint": "of the writer", "checksum": digest(made, described)}
            data = as_safetensors(made, {KEY: json.dumps({**head, "representation": described})})
            (tmp_path / "map").write_bytes(data)
            try:
                found = load(tmp_path / "map")
            except InvalidInputError:
                continue
            n_loaded += 1
            z = found.transform(private)
            assert z.shape == (3, found.n_features_out_), name
            assert np.isfinite(z).all(), name
    assert n_loaded > 5


@pytest.mark.parametrize("kind", [SignedSpace(constant=0.5), SoftSpace(8, 3), HardSpace(8)], ids=lambda one: one.kind)
def test_a_space_with_any_array_crafted_is_refused_or_maps_whatever_rows(tmp_path, kind):
    rows = np.array([[np.nan] * 3, [1e300] * 3, [0.0] * 3])
    whole = clone(kind).fit(X[:50])
    for name in whole._arrays:
        for odd in mutants(getattr(whole, name)):
            space = copy(whole)
            setattr(space, name, np.ascontiguousarray(odd))
            space.save(tmp_path / "space")
            try:
                found = load_space(tmp_path / "space")
            except InvalidInputError:
                continue
            phi = found.transform(rows)
            assert phi.shape == (3, found.n_components_), name
            assert np.isfinite(phi).all(), name


@pytest.mark.parametrize(
    "coef",
    [np.ones((2, 2)), np.ones((3, 3)), np.full((3, 2), np.nan), np.ones(3)],
    ids=["rows", "columns", "nan", "1d"],
)
def test_a_head_that_does_not_fit_its_maps_is_refused_before_a_record_is_asked(coef):
    voters = RecordVoters(None, SignedSpace().fit(X[:50]), classes=(0, 1))
    model = RecordModel(voters, LinearHead.of(np.ones((3, 2)), (0, 1)))
    about = {"kind": "ballots", "unit": "record", "door": InputSpec(kind="array", n_features=3, mixed=False)}
    plan, site = replace(PLAN, representation=voters.fingerprint()), SiteRecords(X, Y, classes=(0, 1))
    assert site.asked(plan, "ballots", Question(voters=voters, model=model, clip=0.5, **about).to_bytes())
    model.head.coef_ = coef
    with pytest.raises(InvalidInputError, match=r"head is not one of its maps|cannot be read"):
        site.asked(plan, "ballots", Question(voters=voters, model=model, clip=0.5, **about).to_bytes())
