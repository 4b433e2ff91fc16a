"""A party that is late, lost, killed, somebody else, or that sends what it should not: a clear end for all, in time."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import gmpy2
import pytest
from engine_parties import Federation, each, hacked

from pate.exceptions import FederationError
from pate.federation import _mpyc
from pate.federation._config import issue, make_authority
from pate.federation._mpyc import MPyCAggregator

pytestmark = pytest.mark.long  # processes of parties


def says(outcomes, *texts):
    """Every outcome is an error with these texts, and quotes none of the numbers."""
    for outcome in outcomes:
        assert isinstance(outcome, FederationError), outcome
        for text in texts:
            assert text in str(outcome)
        assert "7777" not in str(outcome)


def gone(pids):
    """Whether all those processes have ended, which may take them a moment."""
    until = time.monotonic() + 20
    while alive := [
        p for p in pids if Path(f"/proc/{p}/stat").exists() and " Z " not in Path(f"/proc/{p}/stat").read_text()
    ]:
        if time.monotonic() > until:
            return alive
        time.sleep(0.05)
    return True


def summing(federation, but=(), deadline=10.0):
    return federation.all(lambda e, i: e.sum([7777, i], length=2, bound=10**5, deadline=deadline), but=but)


def test_a_party_that_never_comes_is_named(tmp_path):
    federation = Federation(tmp_path, 3, 1, start_deadline=9.0)
    says(each([lambda: federation.make(0), lambda: federation.make(1)]), "hospital-c did not answer within 9 s")
    assert not list(federation.home.iterdir())


def test_a_certificate_of_another_authority_opens_no_connection(tmp_path):
    federation = Federation(tmp_path, 3, 1, start_deadline=9.0)
    foreign = issue(make_authority(tmp_path / "foreign"), "hospital-b")
    bundles = [federation.bundles[0], foreign, federation.bundles[2]]
    a, b, c = each([lambda i=i: federation.make(i, bundle=bundles[i]) for i in range(3)])
    says([a], "hospital-b", "no certificate of that name")
    says([b, c], "while the parties connected")
    assert not list(federation.home.iterdir())


def test_who_has_anothers_place_but_not_its_certificate_is_kept_out(tmp_path, monkeypatch):
    # hospital-a's certificate, of the right authority, in hospital-b's place: it listens and calls as hospital-b.
    federation = Federation(tmp_path, 3, 1, start_deadline=9.0)
    monkeypatch.setattr(_mpyc, "names_in", lambda _: {"hospital-a", "hospital-b", "hospital-c"})
    bundles = [federation.bundles[i] for i in (0, 0, 2)]
    a, b, c = each([lambda i=i: federation.make(i, bundle=bundles[i]) for i in range(3)])
    says([c], "calls for hospital-b has no certificate of that name")
    says([a], "hospital-b")
    says([b], "while the parties connected")


@pytest.mark.sample
def test_a_party_that_says_it_is_another_is_refused(tmp_path):
    # hospital-a calls hospital-c and says on the wire that it is hospital-b: its own certificate says that it is not.
    federation = Federation(tmp_path, 3, 1, start_deadline=9.0)
    liar = hacked(
        tmp_path,
        """
        import ssl
        session.runtime.pid, session.runtime.options.no_prss = 1, True
        session.start = lambda: session._call(2, session._context(ssl.PROTOCOL_TLS_CLIENT))
        """,
    )
    kinds = [liar, MPyCAggregator, MPyCAggregator]
    _, b, c = each([lambda i=i: federation.make(i, kind=kinds[i]) for i in range(3)])
    says([b, c], "hospital-a")
    assert "hospital-b did" not in str(c)


@pytest.mark.parametrize("late", [0.0, 1.0])  # seconds after which b and c look: a's handshakes are over long before
def test_a_certificate_that_names_two_parties_is_good_for_neither(tmp_path, late):
    slow = hacked(
        tmp_path,
        f"""
        look = _exchange.Link.data_received
        _exchange.Link.data_received = lambda link, data: session.loop.call_later({late}, look, link, data)
        """,
    )
    federation = Federation(tmp_path, 3, 1, start_deadline=9.0)
    other = shutil.copytree(federation.authority, tmp_path / "careless")  # it forgot that hospital-b has one
    shutil.rmtree(other / "parties")
    both = issue(other, "hospital-a", hosts=["hospital-b"])
    bundles, kinds = [both, *federation.bundles[1:]], [MPyCAggregator, slow, slow]
    a, b, c = each([lambda i=i: federation.make(i, kind=kinds[i], bundle=bundles[i]) for i in range(3)])
    says([b, c], "hospital-a")
    says([a], "while the parties connected")


@pytest.mark.sample
def test_a_payload_that_would_run_code_is_refused_unread(tmp_path):
    # The liar sends real pickles: to its peers' loaders, from the start. MPyC as it comes runs what is in them.
    planted = tmp_path / "planted"
    liar = hacked(
        tmp_path,
        f"""
        class Payload:
            def __reduce__(self):
                return (os.mkdir, ({str(planted)!r},))
        send = _exchange.Link.send
        _exchange.Link.send = lambda link, label, payload: send(link, label, pickle.dumps(Payload()))
        """,
    )
    federation = Federation(tmp_path, 3, 1, start_deadline=20.0)
    outcomes = each([lambda i=i: federation.make(i, **({"kind": liar} if i == 1 else {})) for i in range(3)])
    says([outcomes[0], outcomes[2]], "hospital-b sent what the protocol does not have", "it was not read")
    assert not planted.exists()


@pytest.mark.parametrize("data", [b"", b"\0" * 9, b"\2\0\0\0" + b"\xff" * 6, b"\1\0\0\0" + b"\0" * 2])
def test_a_payload_of_no_field_elements_is_refused(tmp_path, data):
    liar = hacked(
        tmp_path,
        f"""
        start, send = session.start, _exchange.Link.send
        async def honest_until_all_are_there():
            await start()
            _exchange.Link.send = lambda link, label, payload: send(link, label, {data!r})
        session.start = honest_until_all_are_there
        """,
    )
    federation = Federation(tmp_path, 3, 1, start_deadline=20.0).start(p1={"kind": liar})
    outcomes = summing(federation)
    says([outcomes[0], outcomes[2]], "hospital-b sent what the protocol does not have")
    federation.close()


@pytest.mark.parametrize(
    "flood",
    [
        "link.transport.write(struct.pack('<qI', 1, (1 << 28) + 1))",
        "[send(link, 10**6 + k, bytes(100)) for k in range(20)]",
    ],
)
def test_messages_beyond_their_limits_are_refused_before_they_are_held(tmp_path, flood):
    liar = hacked(
        tmp_path,
        f"""
        import struct
        start, send = session.start, _exchange.Link.send
        async def honest_until_all_are_there():
            await start()
            _exchange.Link.send = lambda link, label, payload: {flood}
        session.start = honest_until_all_are_there
        """,
    )
    (tmp_path / "honest").mkdir()
    honest = {"kind": hacked(tmp_path / "honest", "_exchange._MOST_HELD = 1000")}  # bytes that nobody asked for yet
    federation = Federation(tmp_path, 3, 1, start_deadline=20.0).start(p0=honest, p1={"kind": liar}, p2=honest)
    outcomes = summing(federation)
    says([outcomes[0], outcomes[2]], "hospital-b sent what the protocol does not have", "it was not read")
    federation.close()


def test_a_party_that_lies_about_its_numbers_chooses_the_sum_and_breaks_nothing(tmp_path):
    # Not detected, as documented; the others' part of the sum stays hidden in it all the same.
    liar = hacked(
        tmp_path,
        """
        summed = session._summed
        session._summed = lambda field, values: summed(field, [field.order // 2 - 30 - 5] * len(values))
        """,
    )
    federation = Federation(tmp_path, 3, 1, start_deadline=20.0).start(p1={"kind": liar})
    for bound in (127, 10**6):
        opened = federation.right(lambda e, _: e.sum([15, 20], length=2, bound=bound, deadline=20.0))[0]  # noqa: B023
        assert opened[0] > bound - 10
        assert opened[1] - opened[0] in (10, -int(gmpy2.next_prime(2 * bound)) + 10)
    federation.close()


@pytest.mark.sample
def test_a_party_killed_between_calls_is_named_and_so_is_one_killed_while_summing(tmp_path):
    federation = Federation(tmp_path, 4, 1, start_deadline=20.0).start()
    children = [e._child.pid for e in federation.engines]
    lost = federation.engines[2]
    threading.Timer(0.5, lost._child.kill).start()
    says(summing(federation, but=[2], deadline=60.0), "hospital-c was lost", "while summing")
    says(summing(federation, but=[2]), "has ended")
    with pytest.raises(FederationError, match="engine of hospital-c, this party, ended by itself"):
        lost.sum([1], length=1, bound=1, deadline=5.0)
    assert gone(children) is True
    assert not list(federation.home.iterdir())


def test_a_party_that_falls_silent_is_named_by_all_by_the_deadline(tmp_path):
    # Of five parties with t = 1 most wait for others that wait for the silent one: they tell each other.
    federation = Federation(tmp_path, 5, 1, start_deadline=20.0, compares=True).start()
    silent = federation.engines[3]
    values = [7, 3] * 1_500
    n = len(values)

    def label(engine, _):
        return engine.argmax(values, n_classes=2, length=n, bound=100, deadline=4.0)

    threading.Timer(0.4, lambda: os.kill(silent._child.pid, signal.SIGSTOP)).start()
    outcomes = federation.all(label)
    says([outcomes[i] for i in (0, 1, 2, 4)], "hospital-d did not answer within 4 s", "while comparing")
    says([outcomes[3]], "the engine of hospital-d, this party")
    assert not list(federation.home.iterdir())


def test_who_does_not_ask_is_named(tmp_path):
    federation = Federation(tmp_path, 3, 1, start_deadline=20.0).start()
    says(summing(federation, but=[1], deadline=2.0), "hospital-b did not answer within 2 s")
    (late,) = summing(federation, but=[0, 2])
    says([late], "the others say so of this party")
    assert not list(federation.home.iterdir())


def test_an_address_in_use_is_said(tmp_path):
    federation = Federation(tmp_path, 3, 1, start_deadline=10.0)
    federation.parties[1] = type(federation.parties[1])("hospital-b", "203.0.113.1", 1)  # not this machine's
    says([each([lambda: federation.make(1)])[0]], "hospital-b, cannot listen on 203.0.113.1:1")


ALONE = """
    import sys
    sys.path.insert(0, {tests!r})
    from pathlib import Path
    from engine_parties import Federation
    federation = Federation(Path({folder!r}), 3, 1)
    print("waiting", flush=True)
    federation.make(0)
"""


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_child_and_no_folder_outlive_the_parent(tmp_path, how):
    code = textwrap.dedent(ALONE).format(tests=str(Path(__file__).parent), folder=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout.readline() == b"waiting\n"
        home, until = tmp_path / "engines", time.monotonic() + 20
        while not list(home.iterdir()) and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(0.7)
        children = [int(p) for p in Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()]
        assert len(children) == 1
        parent.send_signal(how)
        parent.wait(20)
    assert gone(children) is True
    assert not list(home.iterdir())


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_while_summing_ends_the_child(tmp_path):
    federation = Federation(tmp_path, 3, 1, start_deadline=20.0).start()
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        federation.engines[0].sum([7777, 1], length=2, bound=10**5, deadline=30.0)
    says(summing(federation, but=[0]), "hospital-a was lost")
    assert not list(federation.home.iterdir())
