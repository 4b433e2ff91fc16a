"""What a site refuses: plans that differ from what it agreed to, strangers, steps out of order. Nothing is charged."""

import json
import socket
import ssl
import threading
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from sites_of import ASKS, CONSENT, PLAN, TOTAL, Local, blobs, fixed_teachers, free_ports, wait_for_port

from pate import Budget
from pate.exceptions import FederationError, InvalidInputError, PateError
from pate.federation import Party, Plan, Site, SitesPlan
from pate.federation._channel import Refusal, Server, call, rows_of, rows_to_bytes
from pate.federation._config import Bundle, issue, make_authority
from pate.federation._site import mechanisms_of
from pate.mechanisms import GNMax, NoisyHistogram, rounds_charge

X, Y = blobs(120)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return Local(tmp_path_factory.mktemp("refused"))


@pytest.fixture
def site(shared):
    made = shared.site(0, (X, Y), classes=(0, 1), consent=CONSENT)
    yield made
    made._end(made.at_work)
    assert made.ledger.show() == []


def asked(site, plan, caller=ASKS):
    return site.answer(caller, "/plan", {"plan": plan.to_dict()}, b"")


def test_the_plan_itself_is_agreed_to(site):
    assert asked(site, PLAN) == {"accepted": True, "reason": ""}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"sites": ("site-1", "site-2", "site-3")}, "does not name this site"),
        ({"sites": ("site-0", "site-0", "site-1")}, "does not name this site once"),
        ({"n_units": (121, 50, 50)}, "n_units differ"),
        ({"n_units": (120, 50)}, "number of units"),
        ({"unit": "group"}, "unit differ"),
        ({"classes": (1, 0)}, "classes differ"),
        ({"classes": (0, 1, 2)}, "classes differ"),
        ({"opens": "counts", "noise_multipliers": (9.0,)}, "opens differ"),
        ({"recipients": ("registry", "site-1")}, "may not be opened to site-1"),
        ({"noise_multipliers": (1.0, 4.0)}, r"costs epsilon .* above 3"),
        ({"noise_multipliers": (4.0,) * 40}, r"costs epsilon .* above 3"),
        ({"max_sites_per_person": 3}, r"costs epsilon .* above 3"),
    ],
    ids=str,
)
def test_a_plan_is_refused_for_each_field_that_differs(site, changed, said):
    answer = asked(site, replace(PLAN, **changed))
    assert answer["accepted"] is False
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(answer["reason"])
    # Refused, it holds the site for nobody.
    assert asked(site, PLAN)["accepted"]


@pytest.mark.parametrize(
    ("consent", "said"),
    [
        ({"coordinators": ("other",)}, "'registry' may not ask here"),
        ({"opens": ("counts",)}, "ballots may not be opened"),
        ({"min_sites": 4}, "3 sites are fewer than 4"),
        ({"min_tolerate": 2}, "tolerate=1 is below 2"),
        ({"max_sites_per_person": 2}, "may have records at 2 sites"),
        ({"max_epsilon": 1.0}, "above 1"),
    ],
    ids=str,
)
def test_consent_is_the_limit(shared, consent, said):
    site = shared.site(0, (X, Y), classes=(0, 1), consent=replace(CONSENT, **consent))
    assert said in asked(site, PLAN)["reason"]


@pytest.mark.parametrize(
    ("columns", "fits"),
    [(("b", "a"), True), ((), True), (("a", "b", "c"), False), (("a",), False)],
    ids=str,
)
def test_a_plan_for_other_columns_is_refused_before_anybody_is_charged(shared, columns, fits):
    """A site says that columns differ, and which ones to its own operator alone."""
    table = pd.DataFrame(X[:, :2], columns=["a", "b"])
    site, before = shared.site(0, (table, Y), classes=(0, 1), consent=CONSENT), len(shared.said)
    reason = asked(site, replace(PLAN, columns=columns))["reason"]
    told = [text for text in shared.said[before:] if "plan failed: the table here" in text]
    assert (reason == "", told == []) == (fits, fits)
    if not fits:
        assert reason == "its table lacks columns of the public rows, or has others; its own operator sees which"
        assert ("lacks ['c']" in told[0], "has ['b'] besides" in told[0]) == ("c" in columns, "b" not in columns)
    assert site.ledger.show() == []


def test_a_plan_names_the_columns_of_a_public_table_and_no_others():
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    for rows, columns in ((table, ("a", "b", "c")), (X, ())):
        plan = SitesPlan.of(rows, classes=(0, 1), budget=Budget(3.0, 1e-5), n_units=[300] * 3, tolerate=1)
        agreed = plan.agreed(nonce="ab", coordinator="registry", sites=PLAN.sites, recipients=("registry",))
        assert agreed.columns == columns
        assert Plan.from_dict(json.loads(json.dumps(agreed.to_dict()))) == agreed
    with pytest.raises(InvalidInputError, match="columns must be texts"):
        replace(PLAN, columns=(1,))


def test_the_price_is_worked_out_here_and_an_operator_sees_it(shared):
    seen = []
    site = shared.site(0, (X, Y), classes=(0, 1), approve=lambda plan, price: seen.append((plan, price)))
    assert asked(site, PLAN)["reason"] == "its operator declined"
    ((plan, price),) = seen
    assert plan == PLAN
    # Two rounds of noise multiplier 4: mu^2 = 2/16.
    assert price.epsilon == pytest.approx(rounds_charge(mechanisms_of(PLAN), 80).guarantee(TOTAL.delta).epsilon)
    assert rounds_charge(mechanisms_of(PLAN), 80).mu_squared == pytest.approx(2 / 16)


@pytest.mark.parametrize("n_queries", [1, 7])
def test_votes_are_priced_as_the_central_mechanisms_for_all_queries(n_queries):
    counts = replace(PLAN, opens="counts", n_cells=2 * n_queries, noise_multipliers=(5.0 / (2 * n_queries) ** 0.5,))
    labels = replace(PLAN, opens="labels", n_cells=2 * n_queries, noise_multipliers=(5.0 / 2**0.5,), steps_per_vote=8)
    cost = rounds_charge(mechanisms_of(counts), counts.n_cells)
    assert cost.mu_squared == pytest.approx(NoisyHistogram(5.0).charge(n_queries).mu_squared)
    cost = rounds_charge(mechanisms_of(labels), labels.n_cells)
    # Of labels the plain Gaussian curve holds, above GNMax's own: that is not proved for a coalition.
    assert np.all(np.array(cost.rdp) >= np.array(GNMax(5.0).charge(n_queries).rdp) - 1e-12)
    assert cost.mu_squared == pytest.approx(NoisyHistogram(5.0).charge(n_queries).mu_squared)


@pytest.mark.parametrize("opens", ["counts", "labels"])
def test_the_shares_of_votes_have_the_noise_that_is_priced(shared, opens):
    """At each site: standard deviation sigma / sqrt(k - t) a count, however many queries there are."""
    n = 400
    rows = rows_to_bytes(np.arange(n).reshape(-1, 1))
    site = shared.site(1, fixed_teachers(), n_units=50)
    sigma = 8.0
    plan = replace(
        PLAN, opens=opens, n_cells=2 * n, noise_multipliers=(sigma / (2 * n if opens == "counts" else 2) ** 0.5,)
    )
    votes = site._data.voter.vote(rows_of(rows))
    mechanism = mechanisms_of(plan)[0]
    from pate.ledger import Registration
    from pate.release import open_shares

    session = open_shares(
        [mechanism], data=Registration.of_votes(votes), budget=Budget(1e6, 1e-5), ledger=None, request="x",
        n_cells=2 * n, without_ledger=True,
    )  # fmt: skip
    lattice = mechanism.lattice(2 * n if opens == "counts" else 2)
    noise = np.array(session.share(votes), dtype=float) / lattice - votes.counts.ravel()
    assert abs(np.mean(noise**2) / (sigma**2 / 2) - 1) < 5 * (2 / (2 * n)) ** 0.5


def test_only_the_coordinator_may_post_its_plan(site):
    with pytest.raises(Refusal, match="from its coordinator alone"):
        asked(site, PLAN, frozenset({"site-1"}))
    assert asked(site, PLAN)["accepted"]
    for path in ("/join", "/round", "/alive"):
        with pytest.raises(Refusal, match="agreed to no such plan"):
            site.answer(frozenset({"site-1"}), path, {"digest": PLAN.digest}, b"")
    site.answer(frozenset({"site-1"}), "/end", {"digest": PLAN.digest}, b"")
    assert site.at_work is not None  # a stranger ended nothing


def test_one_run_at_a_time_each_plan_once_and_steps_in_order(site):
    assert asked(site, PLAN)["accepted"]
    with pytest.raises(Refusal, match="at work on another ask"):
        asked(site, replace(PLAN, nonce="cd"))
    with pytest.raises(Refusal, match="agreed to no such plan"):
        site.answer(ASKS, "/join", {"digest": replace(PLAN, tolerate=1, nonce="x").digest}, b"")
    with pytest.raises(Refusal, match="in order, each once"):
        site.answer(ASKS, "/round", {"digest": PLAN.digest, "index": 0}, b"")
    with pytest.raises(Refusal, match=r"broken off before.*stored result"):
        asked(site, PLAN)
    with pytest.raises(Refusal, match=r"broken off before"):
        site.answer(ASKS, "/round", {"digest": PLAN.digest, "index": 0}, b"")
    assert asked(site, replace(PLAN, nonce="cd"))["accepted"]


def test_a_plan_that_was_charged_before_is_refused_after_a_restart(shared, tmp_path):
    first = Local(tmp_path)
    made = first.site(0, (X, Y), classes=(0, 1))
    from pate.release import open_shares

    open_shares(
        mechanisms_of(PLAN), data=made._data.registration(), budget=TOTAL, ledger=made.ledger, request=PLAN.digest,
        n_cells=80,
    )  # fmt: skip
    again = first.site(0, (X, Y), classes=(0, 1))
    with pytest.raises(Refusal, match="served or broken off before"):
        asked(again, PLAN)
    assert again.answer(ASKS, "/end", {"digest": PLAN.digest}, b"") == {"charged": True}


def test_a_coordinator_that_falls_silent_frees_the_site(shared):
    site = shared.site(0, (X, Y), classes=(0, 1), patience=0.2)
    assert asked(site, PLAN)["accepted"]
    assert site.answer(ASKS, "/alive", {"digest": PLAN.digest}, b"") == {}
    threading.Event().wait(0.3)
    assert asked(site, replace(PLAN, nonce="cd"))["accepted"]
    with pytest.raises(Refusal, match="broken off before"):
        site.answer(ASKS, "/alive", {"digest": PLAN.digest}, b"")


def test_no_failure_says_anything_private(site, shared):
    def fail(plan, kind, archive):
        raise ValueError("record 7 is 12345")

    site._data.asked = fail
    assert asked(site, PLAN)["accepted"]
    site.at_work.engine = object()
    with pytest.raises(Refusal) as found:
        site.answer(ASKS, "/round", {"digest": PLAN.digest, "index": 0, "kind": "ballots", "bound": 9}, b"")
    assert str(found.value) == "it failed at this step; its own operator sees why."
    assert found.value.__cause__ is None
    assert "12345" not in "".join(shared.said)
    site.at_work = None


@pytest.mark.parametrize("head", [{}, {"plan": 3}, {"plan": {}}, {"plan": {**PLAN.to_dict(), "more": 1}}], ids=str)
def test_what_is_no_plan_is_refused(site, head):
    with pytest.raises(Refusal, match="no plan that this version"):
        site.answer(ASKS, "/plan", head, b"")
    with pytest.raises(Refusal, match="no such request"):
        site.answer(ASKS, "/secrets", head, b"")


def test_a_site_is_who_its_certificate_says(shared):
    with pytest.raises(InvalidInputError, match=r"name must be that of the certificate \(site-0\)"):
        Site(
            "site-1", (X, Y), classes=(0, 1), bundle=shared.bundles["site-0"], ledger=shared.ledger("site-1"),
            budget=TOTAL, port=7000, consent=CONSENT,
        )  # fmt: skip
    with pytest.raises(InvalidInputError, match="consent= or approve= must be given"):
        shared.site(0, (X, Y), classes=(0, 1), consent=None)
    with pytest.raises(InvalidInputError, match="sent as JSON"):
        shared.site(0, (X, Y), classes=((0, 1), (2, 3)))
    assert '"classes": [0, 1]' in json.dumps(
        shared.site(0, (X, Y), classes=np.unique(Y)).answer(ASKS, "/facts", {}, b"")
    )


def test_teachers_whose_classes_were_read_off_private_labels_do_not_vote(shared):
    site = shared.site(1, fixed_teachers(), n_units=50)
    plan = replace(PLAN, opens="counts", noise_multipliers=(9.0,), n_cells=4, queries="")
    rows = rows_to_bytes(np.arange(2).reshape(-1, 1))
    with pytest.raises(Refusal, match="not those of the plan"):
        site._data.asked(plan, "votes", rows)
    import hashlib

    plan = replace(plan, queries=hashlib.sha256(rows).hexdigest())
    asked = site._data.asked(plan, "votes", rows)
    assert site._data.cast(asked).counts.tolist() == [[10, 0], [0, 10]]
    with pytest.raises(Refusal, match="more or fewer than the plan's"):
        site._data.asked(replace(plan, n_cells=6), "votes", rows)
    vote, said = site._data.voter.vote, []
    for change in ({"classes_inferred": True}, {"classes": (1, 0)}, {"n_units": 7}):
        site._data.voter.vote = lambda rows, change=change: replace(vote(rows), **change)
        assert not site._data.cast(asked, said.append).counts.any()
    assert "read off private labels" in said[0]
    site._data.voter.vote = lambda rows: 1 / 0  # after the charge, nothing but zeros may come of it
    assert not site._data.cast(asked, said.append).counts.any()
    assert said[3].endswith("in their place: ZeroDivisionError")


# Over the wire.


@pytest.fixture
def waiting(shared, site):
    with shared.serving(site):
        yield shared, site


def facts(shared, site, bundle, name=None, **how):
    to = Party(name or site.name, "127.0.0.1", site.port)
    return call(to, "/facts", bundle, {}, deadline=how.get("deadline", 10.0))


def test_certificates_say_who_is_who(waiting, tmp_path):
    shared, site = waiting
    assert facts(shared, site, shared.bundles["registry"])["n_units"] == 120
    # Of another federation: neither side takes the other's.
    stranger = issue(make_authority(tmp_path / "other"), "registry")
    with pytest.raises(FederationError, match=r"site-0 .*certificate that is not site-0's of this federation"):
        facts(shared, site, stranger)
    mixed = Bundle(stranger.certificate, stranger.key, shared.bundles["registry"].authority)
    with pytest.raises(FederationError, match=r"site-0 .*(does not take this certificate|broke off after)"):
        facts(shared, site, mixed)
    # The right host under the wrong name.
    with pytest.raises(FederationError, match=r"site-1 .*certificate that is not site-1's"):
        facts(shared, site, shared.bundles["registry"], "site-1")
    # A caller without a certificate.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", site.port), timeout=10) as plain, context.wrap_socket(plain) as line:
        try:
            line.sendall(b"POST /facts HTTP/1.0\r\nContent-Length: 3\r\n\r\n{}\n")
            answer = line.recv(100)
        except OSError:
            answer = b""
    assert answer == b""
    assert facts(shared, site, shared.bundles["registry"])["name"] == "site-0"


def test_an_expired_certificate_is_taken_by_neither_side_and_said_to_be_expired(shared, tmp_path, monkeypatch):
    class LongAgo(datetime):
        @classmethod
        def now(cls, tz):
            return datetime.now(tz) - timedelta(days=500)

    with monkeypatch.context() as long_ago:
        authority = make_authority(tmp_path / "authority")
        long_ago.setattr("pate.federation._config.datetime", LongAgo)
        old = {name: issue(authority, name) for name in ("old-registry", "site-1")}
    now = {name: issue(authority, name) for name in ("registry", "site-1b")}
    (port,) = free_ports(1)
    site_1 = Party("site-1", "127.0.0.1", port)
    with pytest.raises(InvalidInputError, match=r"party\.crt expired on \d{4}-\d\d-\d\d"):
        Server("127.0.0.1", port, old["site-1"], None, None)
    with pytest.raises(InvalidInputError, match=r"party\.crt expired on"):
        call(site_1, "/facts", old["old-registry"], {}, deadline=5.0)
    # Where the other side's clock is wrong, or its code: it is not listened to.
    with monkeypatch.context() as lax:
        lax.setattr("pate.federation._channel.check_in_date", lambda certificate: None)
        server = Server("127.0.0.1", port, old["site-1"], lambda *args: {"heard": True}, lambda *args: 0)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        with pytest.raises(FederationError, match=r"not site-1's of this federation \(certificate has expired\)"):
            call(site_1, "/facts", now["registry"], {}, deadline=5.0)
        server.finish(0.0)
        server = Server("127.0.0.1", port, now["site-1b"], lambda *args: {"heard": True}, lambda *args: 0)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        with pytest.raises(FederationError, match=r"does not take this certificate|broke off after"):
            call(Party("site-1b", "127.0.0.1", port), "/facts", old["old-registry"], {}, deadline=5.0)
        server.finish(0.0)


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[1]\n", b'{"a": 1, "a": 2}\n', b"\x80\x04K\x01.\n", b"[" * 100_000 + b"\n"]
)
def test_what_is_no_message_is_refused_and_nothing_runs(waiting, body):
    import http.client

    from pate.federation._channel import _context

    shared, site = waiting
    context = _context(shared.bundles["registry"], server=False)
    with socket.create_connection(("127.0.0.1", site.port), timeout=10) as plain:
        line = http.client.HTTPConnection("127.0.0.1", site.port)
        line.sock = context.wrap_socket(plain, server_hostname="site-0")
        line.request("POST", "/facts", body)
        answer = line.getresponse()
        assert answer.status == 409
        assert b"one line of JSON" in answer.read()
        line.close()


def test_a_request_ends_by_its_deadline_however_slowly_the_other_side_drips(shared, tmp_path):
    from pate.federation._channel import _context

    context = _context(shared.bundles["site-0"], server=True)
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip():
            plain, _ = listening.accept()
            with context.wrap_socket(plain, server_side=True) as line:
                line.recv(100)
                try:
                    line.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 1000000\r\n\r\n")
                    while not ended.wait(0.05):
                        line.sendall(b"x")
                except OSError:
                    ended.set()

        thread = threading.Thread(target=drip)
        thread.start()
        port = listening.getsockname()[1]
        with pytest.raises(FederationError, match=r"did not answer within 0.5 s"):
            call(Party("site-0", "127.0.0.1", port), "/facts", shared.bundles["registry"], {}, deadline=0.5)
        assert ended.wait(20)
        thread.join()


def test_public_tables_travel_as_they_are():
    import pandas as pd

    table = pd.DataFrame({"age": [1, 2], "size": [0.1, np.nan], "text": ["a", None], "old": [True, False]})
    table["sex"] = pd.Categorical(["m", "f"])
    found = rows_of(rows_to_bytes(table))
    pd.testing.assert_frame_equal(found, table, check_dtype=False, check_categorical=False)
    assert [str(kind) for kind in found.dtypes] == [str(kind) for kind in table.dtypes]
    assert np.array_equal(rows_of(rows_to_bytes(np.eye(3, dtype=np.float32))), np.eye(3))
    with pytest.raises(InvalidInputError, match="numbers, texts and truth values"):
        rows_to_bytes(pd.DataFrame({"day": pd.to_datetime(["2020-01-01"])}))
    for names in (["age", "age"], [1, "1"]):  # a site would get one of the two
        with pytest.raises(InvalidInputError, match="a name of its own for each column"):
            rows_to_bytes(pd.DataFrame([[1, 2]], columns=names))
    with pytest.raises((ValueError, PateError)):
        rows_of(
            b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
            + b" " * 60
            + b"\n\x80\x04K\x01."
        )


def test_a_port_that_is_taken_is_named(shared):
    site = shared.site(2, (X, Y), classes=(0, 1))
    with shared.serving(site):
        wait_for_port(site.port)
        other = shared.site(2, (X, Y), classes=(0, 1))
        with pytest.raises(InvalidInputError, match=r"cannot be listened on .*running already"):
            other.serve()


def test_strangers_who_only_open_connections_take_no_place_of_a_member(waiting):
    """Forty of them filled all places, and a coordinator's next request was dropped: its sites had been charged."""
    shared, site = waiting
    idle = [socket.create_connection(("127.0.0.1", site.port), timeout=10) for _ in range(70)]
    try:
        assert facts(shared, site, shared.bundles["registry"])["n_units"] == 120
        # Of more than 64 the oldest are ended.
        assert idle[0].recv(1) == b""
    finally:
        for one in idle:
            one.close()


def test_a_site_without_a_place_says_so_and_is_asked_again(shared, site, monkeypatch):
    from pate.federation import _channel

    monkeypatch.setattr(_channel, "_MOST_CALLS", 1)
    monkeypatch.setattr(_channel, "_HANDSHAKE", 0.2)
    held, free, answer = threading.Event(), threading.Event(), site.answer
    monkeypatch.setattr(site, "answer", lambda *given: held.set() or (free.wait(20) and answer(*given)))
    with shared.serving(site):
        thread = threading.Thread(target=facts, args=(shared, site, shared.bundles["registry"]))
        thread.start()
        assert held.wait(10)
        with pytest.raises(FederationError, match=r"site-0 .* has no place free for another request"):
            facts(shared, site, shared.bundles["registry"], deadline=0.6)
        threading.Timer(0.6, free.set).start()
        assert facts(shared, site, shared.bundles["registry"])["name"] == "site-0"
        thread.join()


def test_bytes_are_read_from_the_coordinator_of_the_run_alone(waiting):
    """A member's gibibyte was read before anyone looked at who asks."""
    shared, site = waiting
    to, data = Party("site-0", "127.0.0.1", site.port), b"x" * 100_000
    for bundle, path, digest in (
        ("registry", "/facts", ""), ("registry", "/round", PLAN.digest), ("site-1", "/round", PLAN.digest)
    ):  # fmt: skip
        with pytest.raises(FederationError, match=r"not due at this step|broke off"):
            call(to, path, shared.bundles[bundle], {"digest": digest}, data, deadline=10.0)
    assert site.admit(ASKS, "/round", {"digest": PLAN.digest}) == 0
    assert asked(site, PLAN)["accepted"]
    assert site.admit(ASKS, "/round", {"digest": PLAN.digest}) > 1 << 20
    assert site.admit(frozenset({"site-1"}), "/round", {"digest": PLAN.digest}) == 0
    assert site.admit(ASKS, "/alive", {"digest": PLAN.digest}) == 0
    site._end(site.at_work)


@pytest.mark.parametrize(
    "change",
    [
        {"noise_multipliers": [4.0] * 1_001}, {"noise_multipliers": [float("inf")]}, {"noise_multipliers": ["4"]},
        {"n_cells": 1 << 30}, {"n_cells": 2.5}, {"classes": list(range(10_001))}, {"nonce": "a" * 101},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_a_plan_beyond_all_measure_is_refused_before_it_is_priced(site, change, monkeypatch):
    """A megabyte of noise multipliers kept a site at work for good."""

    def priced(*said):
        raise AssertionError("it was priced")

    monkeypatch.setattr("pate.federation._site.rounds_charge", priced)
    with pytest.raises(Refusal, match="no plan that this version"):
        site.answer(ASKS, "/plan", {"plan": PLAN.to_dict() | change}, b"")


def test_a_step_that_takes_longer_than_it_may_frees_the_site(shared):
    site = shared.site(0, (X, Y), classes=(0, 1), patience=0.1, deadline=0.1)
    assert asked(site, PLAN)["accepted"]
    with site._step(ASKS, {"digest": PLAN.digest}):
        threading.Event().wait(0.3)
        assert asked(site, replace(PLAN, nonce="cd"))["accepted"]
    assert site.at_work.plan.nonce == "cd"
    site._end(site.at_work)
