"""MPyC as one party runs it: connections bound to certificates, no pickle, openings that show nothing but the result.

Imported by :mod:`pate.federation._party` alone, after it has set ``sys.argv``: MPyC reads its options when imported.
What is imported here is in every party's process, so it is little.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import struct
import time
from asyncio import Future
from collections.abc import Callable, Iterable
from pathlib import Path
from types import MethodType
from typing import Any

import gmpy2
import mpyc.runtime
import numpy as np
from mpyc import asyncoro, finfields

#: A message under this label is a party's last: why it goes, and because of whom. MPyC's labels are 64-bit hashes.
_LAST_WORD = -(2**63) + 31
_PATIENCE = 0.3  # seconds for last words to arrive
_PIECE_CELLS, _PIECE_QUERIES = 100_000, 2_000  # computed at once, so that memory stays bounded
_MOST_MESSAGE, _MOST_HELD = 1 << 28, 1 << 30  # bytes of one message, and of those of a peer that nobody asked for yet


class Broken(Exception):
    """A session is over before its end: why, and because of whom."""

    def __init__(self, why: str, parties: Iterable[int]) -> None:
        super().__init__(why)
        self.why, self.parties = why, sorted(set(parties))


class _Payload(bytes):
    """What one peer sent, and which."""

    peer: int


class Numbers:
    """What MPyC has pickle do, done with field elements alone: how many, and so many bytes each.

    Stands in for the module ``pickle`` inside MPyC. There is nothing else in a message that could be read.
    """

    width, order = 1, 2

    def dumps(self, values: Any) -> bytes:
        """Return the bytes of an array of field elements."""
        numbers = np.asarray(values, dtype=object).tolist()
        return b"".join([len(numbers).to_bytes(4, "little"), *[v.to_bytes(self.width, "little") for v in numbers]])

    def loads(self, data: Any) -> Any:
        """Return the array behind the bytes; refused where it is none."""
        n, width = int.from_bytes(data[:4], "little"), self.width
        if len(data) != 4 + n * width:
            raise Broken("refused", [data.peer])
        parts = np.ndarray(n, f"V{width}", data, offset=4).tolist()
        values = [int.from_bytes(part, "little") for part in parts]
        if max(values, default=0) >= self.order:
            raise Broken("refused", [data.peer])
        return np.fromiter(values, dtype=object, count=n)


@asyncoro.mpc_coro
async def _is_zero(self: Any, a: Any) -> Future:
    """Return in public which elements are 0, and nothing else about them: instead of MPyC's ``np_is_zero_public``.

    MPyC 0.11 opens the product of ``a`` with a random ``r`` without sharing it anew. All parties then see the product
    of two polynomials, and that of ``r`` with another, whose common divisor is ``r``: a single party learns ``a``. Here
    it is an ordinary secure product, which MPyC shares anew before it is opened.
    """
    r = self._np_randoms(type(a).sectype.field, a.size)
    if self.options.no_prss:
        r = await r
    b = a * type(a)(r.reshape(a.shape))
    return await self.output(b, raw=True) == 0


class Link(asyncoro.MessageExchanger):
    """The connection with one peer."""

    peer_pid: Any

    def __init__(self, session: Session, peer_pid: int | None = None) -> None:
        super().__init__(session.runtime, peer_pid)
        self.session, self.gone, self.held = session, False, 0

    def connection_made(self, transport: Any) -> None:
        """Go on only where the peer's certificate is that of the party we called."""
        if self.peer_pid is None or self.session.is_party(self.peer_pid, transport):
            super().connection_made(transport)
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Read the peer's index and keys, which its certificate must bear out, and then messages."""
        self.bytes.extend(data)
        rt = self.runtime
        if self.peer_pid is None:
            if len(self.bytes) < 2:
                return
            peer = int.from_bytes(self.bytes[:2], "little")
            if peer >= rt.pid or rt.parties[peer].protocol or not self.session.is_party(peer, self.transport):
                self.session.strangers.add(peer)
                self.transport.abort()
                return
            n_keys = 0 if rt.options.no_prss else rt._prss_keys_from_peer(peer)
            if len(self.bytes) < 2 + n_keys:
                return
            if n_keys:
                rt._prss_keys_from_peer(peer, self.bytes[2:])
            self.session.note("received", peer, self.bytes, 2 + n_keys)
            del self.bytes[: 2 + n_keys]
            self.peer_pid = peer
            rt.set_protocol(peer, self)
        while len(self.bytes) >= 12:
            label, size = struct.unpack_from("<qI", self.bytes)
            if size > _MOST_MESSAGE or self.held + size > _MOST_HELD:
                self.bytes.clear()
                self.session.fail("refused", [self.peer_pid])
                self.transport.abort()
                return
            if len(self.bytes) < 12 + size:
                break
            payload = _Payload(self.bytes[12 : 12 + size])
            payload.peer = self.peer_pid
            self.session.note("received", self.peer_pid, self.bytes, 12 + size)
            del self.bytes[: 12 + size]
            if label == _LAST_WORD:
                self.gone = True
                self.session.heard(self.peer_pid, payload)
            elif label in self.buffers:
                self.buffers.pop(label).set_result(payload)
            else:
                self.buffers[label] = payload
                self.held += size

    def send(self, pc: int, payload: bytes) -> None:
        """Send, unless the peer has gone in order: it needs nothing any more."""
        if not self.transport.is_closing():
            self.session.note("sent", self.peer_pid, struct.pack("<qI", pc, len(payload)) + payload)
            super().send(pc, payload)

    def receive(self, pc: int) -> Any:
        """Return what came, or what will."""
        payload = super().receive(pc)
        if not isinstance(payload, Future):
            self.held -= len(payload)
        elif self.transport.is_closing():
            self.session.fail("lost", [self.peer_pid])
        return payload

    @property
    def awaited(self) -> bool:
        """Whether something of this peer is waited for."""
        return any(isinstance(payload, Future) for payload in self.buffers.values())

    def connection_lost(self, exc: BaseException | None) -> None:
        """Break off, unless the peer said that it has all it needs, and we have all of it."""
        if self.peer_pid is None or self.runtime.parties[self.peer_pid].protocol is not self:
            return
        if (not self.gone or self.awaited) and not self.session.given_up:
            self.session.fail("lost", [self.peer_pid])
        self.session.closed.add(self.peer_pid)


class Session:
    """One party's part in a session: connected once, then sums and argmaxes, in the order that all parties ask."""

    def __init__(self, settings: dict[str, Any], answer: Callable[[dict[str, Any]], None]) -> None:
        self.settings, self.answer, self.runtime = settings, answer, mpyc.runtime.mpc
        self.runtime.np_is_zero_public = MethodType(_is_zero, self.runtime)
        self.numbers = mpyc.runtime.pickle = Numbers()
        self.parties: list[dict[str, Any]] = settings["parties"]
        self.me, self.n_parties = settings["me"], len(self.parties)
        self.loop = self.runtime._loop
        self.loop.set_exception_handler(self._caught)
        self.requests: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.broken: Future[Broken] = self.loop.create_future()
        self.closed, self.strangers = set[int](), set[int]()
        self.words: dict[int, list[int]] = {}
        self.given_up = False

    # What happens to it.

    def ask(self, request: dict[str, Any]) -> None:
        """Take a request, from the thread that reads them."""
        self.loop.call_soon_threadsafe(self.requests.put_nowait, request)

    def fail(self, why: str, parties: Iterable[int]) -> None:
        """Break off; the first reason counts."""
        if not self.broken.done():
            self.broken.set_result(Broken(why, parties))

    def heard(self, peer: int, word: bytes) -> None:
        """Take a peer's last word."""
        try:
            why, parties = json.loads(word)
            named = [int(p) for p in parties if 0 <= int(p) < self.n_parties]
        except (ValueError, TypeError, OverflowError, RecursionError):
            why, named = "refused", [peer]
        if why == "done":
            if self.links[peer].awaited:
                self.fail("lost", [peer])
        elif why in ("silent", "stranger"):
            self.words[peer] = named
            self.give_up()
        else:
            self.fail(why if why in ("lost", "refused", "differs") else "broken", named or [peer])

    def _caught(self, loop: Any, context: dict[str, Any]) -> None:
        """Break off where a step of MPyC fails; of the error only its kind is said."""
        error = context.get("exception")
        if isinstance(error, Broken):
            self.fail(error.why, error.parties)
        elif error is not None and not isinstance(error, OSError):
            self.fail("broken", [self.me])

    def note(self, way: str, peer: int, data: bytes | bytearray, size: int | None = None) -> None:
        """Keep what went to and came from a peer: tests look there for what it gives away."""
        if self.settings["record"]:
            with (Path(self.settings["record"]) / f"{way}_{peer}").open("ab") as file:
                file.write(data[:size])

    # Connections.

    @property
    def links(self) -> dict[int, Link]:
        """The peers that are connected, or were."""
        return {p.pid: p.protocol for p in self.runtime.parties if p.pid != self.me and p.protocol is not None}

    def is_party(self, pid: int, transport: Any) -> bool:
        """Whether the certificate at the other end names this party, and no other."""
        shown = transport.get_extra_info("peercert") or {}
        names = {value for kind, value in shown.get("subjectAltName", ()) if kind == "DNS"}
        return names & {party["name"] for party in self.parties} == {self.parties[pid]["name"]}

    def _context(self, purpose: int) -> ssl.SSLContext:
        context = ssl.SSLContext(purpose)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.settings["certificate"], self.settings["key"])
        context.load_verify_locations(self.settings["authority"])  # and no authority but this
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    async def _call(self, pid: int, context: ssl.SSLContext) -> None:
        party = self.parties[pid]
        while True:
            try:
                await self.loop.create_connection(
                    lambda: Link(self, pid), party["host"], party["port"], ssl=context, server_hostname=party["name"]
                )
                return
            except ssl.SSLCertVerificationError:
                self.strangers.add(pid)
            except OSError:
                pass
            await asyncio.sleep(0.1)

    async def start(self) -> None:
        """Connect with every other party: those before us call us, and we those after us, as MPyC has it."""
        mine, all_here = self.parties[self.me], self.loop.create_future()
        self.runtime.parties[self.me].protocol = all_here
        server = None
        if self.me:
            context = self._context(ssl.PROTOCOL_TLS_SERVER)
            server = await self.loop.create_server(lambda: Link(self), mine["host"], mine["port"], ssl=context)
        context = self._context(ssl.PROTOCOL_TLS_CLIENT)
        await asyncio.gather(*(self._call(pid, context) for pid in range(self.me + 1, self.n_parties)), all_here)
        if server is not None:
            server.close()
        # A caller's handshake ends before the one called has looked at its certificate, and may still turn it away.
        await self._told([1])

    async def _told(self, mine: list[int]) -> list[Any]:
        """Tell all parties these bytes, and return what each of them tells."""
        self.numbers.width, self.numbers.order = 1, 256
        return list(await self.runtime.transfer(mine))

    # Computations.

    async def _summed(self, field: Any, values: list[int]) -> Any:
        self.numbers.width, self.numbers.order = field.byte_length, field.order
        parts = await self.runtime.input(field.array(values))
        return field.array(sum(part[0].value for part in parts))

    async def compute(self, values: list[int], bound: int, n_classes: int = 0) -> list[int] | None:
        """Open to the receivers the sums; or of each ``n_classes`` sums the largest one's index, the lowest of equals.

        The latter is a tournament over all queries at once, as MPyC's ``np_argmax`` plays it: n_classes - 1 comparisons
        a query.
        """
        if n_classes:
            number = self.runtime.SecInt((2 * bound).bit_length() + 1)  # a difference of two sums, and its sign
            field, size = number.field, _PIECE_QUERIES * n_classes
        else:
            field, size = finfields.GF(int(gmpy2.next_prime(max(2 * bound, self.n_parties)))), _PIECE_CELLS
        result: list[int] = []
        for i in range(0, len(values), size):
            shares = await self._summed(field, values[i : i + size])
            if n_classes:
                shares = self.runtime.np_argmax(number.array(shares.reshape(-1, n_classes)), axis=1)
            opened = await self.runtime.output(shares, receivers=self.settings["receivers"], raw=True)
            if opened is not None:
                result += [int(v) if 2 * v < field.order else int(v - field.order) for v in opened.value]
        return result if self.me in self.settings["receivers"] else None

    # The course of a session.

    async def _within(self, work: Any, until: float) -> Any:
        """Return what ``work`` does, unless it breaks off before or takes too long."""
        task = asyncio.ensure_future(work)
        timeout = max(0.0, until - time.monotonic())
        await asyncio.wait({task, self.broken}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if task.done() and not self.broken.done():
            return task.result()
        task.cancel()
        if self.broken.done():
            raise self.broken.result()
        self.give_up()
        raise await self.broken

    def _waited_for(self) -> tuple[str, list[int]]:
        """Return those who are not there, or of whom something is waited for."""
        links = self.links
        if missing := [pid for pid in range(self.n_parties) if pid not in links and pid != self.me]:
            return "stranger" if set(missing) <= self.strangers else "silent", missing
        return "silent", [pid for pid, link in links.items() if link.awaited]

    def give_up(self) -> None:
        """Break off in a moment: most wait for somebody who waits too, and they tell each other for whom."""
        if self.given_up:
            return
        self.given_up = True
        why, waited_for = self._waited_for()
        if waited_for:
            self._last_word("silent", waited_for)

        def blame() -> None:
            spoke = self.words.keys() | ({self.me} if waited_for else set())
            # Who says that it waits is not the one that all wait for.
            self.fail(why, set(waited_for).union(*self.words.values()) - spoke or waited_for)

        self.loop.call_later(_PATIENCE, blame)

    def _last_word(self, why: str, parties: list[int]) -> None:
        for link in self.links.values():
            link.send(_LAST_WORD, json.dumps([why, parties]).encode())

    async def _hang_up(self, until: float) -> None:
        """Close all connections; what was written still goes out."""
        links = self.links
        for link in links.values():
            link.gone = True
            link.close_connection()
        while links.keys() - self.closed and time.monotonic() < until:
            await asyncio.sleep(0.01)

    async def _to_the_end(self, about: str, work: Any) -> Any:
        """Return what ``work`` does once MPyC has also ended what nobody asked for, such as the largest sums.

        Before it begins all parties tell each other what they were asked (a digest): whoever lies to some of them is
        found out while nothing has left any.
        """
        if mine := list(bytes.fromhex(about)):
            heard = await self._told(mine)
            if others := [pid for pid, one in enumerate(heard) if list(one) != mine]:
                raise Broken("differs", others)
        result = await work
        while self.runtime._pc_level:
            await asyncio.sleep(0.002)
        return result

    def tell(self, opened: list[int] | None) -> None:
        """Answer with what was opened to this party, if anything was."""
        self.answer({"opened": opened, "sent": sum(link.nbytes_sent for link in self.links.values())})

    async def course(self) -> None:
        """Connect, and do what is asked."""
        try:
            await self._within(self.start(), self.settings["until"])
            self.tell(None)
            while (request := await self.requests.get())["do"] != "close":
                work = self.compute(request["values"], request["bound"], request.get("n_classes", 0))
                self.tell(await self._within(self._to_the_end(request["about"], work), request["until"]))
            self._last_word("done", [])
            await self._hang_up(request["until"])
        except Exception as error:
            why = "listen" if isinstance(error, OSError) and not self.links else "broken"
            broken = error if isinstance(error, Broken) else Broken(why, [self.me])
            self._last_word(broken.why, broken.parties)
            await self._hang_up(time.monotonic() + 0.4)
            self.answer({"failed": broken.why, "parties": broken.parties})

    def run(self) -> None:
        """Run to the end. MPyC stops the loop where one of its steps fails: then it goes on, to say so."""
        course = self.loop.create_task(self.course())
        while not course.done():
            try:
                self.loop.run_until_complete(course)
            except RuntimeError:
                if course.done():
                    raise
