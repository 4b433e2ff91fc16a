"""Requests between coordinator and sites: JSON and bytes over mutual TLS, each limited in size and in time.

Who calls, and who answers, is what a certificate of the federation's own authority says. Nothing that is received is
ever run: a body is a line of JSON, then bytes that only readers without code take.
"""

from __future__ import annotations

import http.client
import io
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

import numpy as np

from pate._core.files import parse_json
from pate.exceptions import FederationError, InvalidInputError
from pate.federation._config import Bundle, Member, check_in_date
from pate.federation._contract import Heard, Party

#: The names in a certificate; and the JSON of a request, or of its answer.
Names = frozenset[str]
Json = dict[str, Any]
#: The largest line of JSON, and the largest bytes after it (public rows, maps), of any request or answer.
MOST_JSON, MOST_BYTES = 1 << 20, 1 << 30
#: Seconds within which a caller must have shown its certificate, and within which a whole request must have come.
_HANDSHAKE, _RECEIVE = 10.0, 300.0
#: Requests of members that are worked on at once; and connections that have not shown a certificate yet: of more the
#: oldest is ended, so that strangers who only open connections take no member's place.
_MOST_CALLS, _MOST_STRANGERS = 32, 64
#: Seconds between two tries of a request of which nothing was worked on.
_AGAIN = 0.3


class Unanswered(FederationError):
    """A site that cannot be reached, or broke off: likelier the cause than what others say of it."""


class _Untouched(Unanswered):
    """Nothing of the request was worked on: it may be sent again."""


class Refusal(Exception):
    """A request that is refused; its text is public, and goes to the caller. ``heard``: it is of other parties."""

    def __init__(self, text: str, *, heard: bool = False) -> None:
        super().__init__(text)
        self.heard = heard


def _context(bundle: Bundle, *, server: bool) -> ssl.SSLContext:
    """Return the TLS settings: version 1.3, both sides with a certificate of this authority and no other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(bundle.certificate, bundle.key)
        context.load_verify_locations(bundle.authority)
    except OSError:  # SSLError is one
        raise InvalidInputError(
            f"bundle must have a certificate, its key and the authority's certificate that can be read, got "
            f"{', '.join(map(str, bundle))}. Ask for the bundle again."
        ) from None
    check_in_date(bundle.certificate)
    return context


def as_told(text: Any, most: int = 500) -> str:
    """Return what another party says as a text that changes nothing on the terminal where it is shown."""
    return "".join(c if c.isprintable() else " " for c in str(text)[:most])


def rows_to_bytes(X: Any) -> bytes:
    """Return public rows as they travel to voters: an array in NumPy's format, a table as JSON, column by column."""
    if not hasattr(X, "columns"):
        array, file = np.asarray(X), io.BytesIO()
        if array.dtype.kind not in "biufU":
            raise InvalidInputError(f"X_public must be an array of numbers or texts, or a table, got {array.dtype}.")
        np.save(file, array, allow_pickle=False)
        return file.getvalue()
    held = [(str(name), str(c.dtype), c.astype(object).where(c.notna(), None).tolist()) for name, c in X.items()]
    if len({name for name, _, _ in held}) < len(held):  # a site would get the last of them alone
        raise InvalidInputError("X_public must have a name of its own for each column. Rename those that occur twice.")
    try:
        return json.dumps(held, allow_nan=False).encode()
    except (TypeError, ValueError):
        raise InvalidInputError(
            "X_public must be a table of numbers, texts and truth values. Turn other columns (dates, lists) into such."
        ) from None


def rows_of(data: bytes) -> Any:
    """Return the rows behind the bytes; ValueError where they are none."""
    if data.startswith(b"\x93NUMPY"):
        return np.load(io.BytesIO(data), allow_pickle=False)
    import pandas as pd

    kinds = {"category": "category", "object": object, "str": "str", "string": "string", "boolean": "boolean"}
    columns = {}
    for name, kind, cells in parse_json(data):
        plain = kinds.get(kind) or np.dtype(kind if kind in np.sctypeDict else "float64")
        columns[str(name)] = pd.Series(cells, dtype=plain)  # type: ignore[call-overload]
    return pd.DataFrame(columns)


def unpacked(body: bytes) -> tuple[Json, bytes]:
    """Return the JSON object and the bytes of a request; refused where it is none."""
    line, found, data = body.partition(b"\n")
    head = _object_in(line) if found and len(line) <= MOST_JSON else None
    if head is None:
        raise Refusal("a request is one line of JSON, then bytes, each within its limit.")
    return head, data


def _object_in(line: bytes) -> Json | None:
    with suppress(ValueError, RecursionError):
        found = parse_json(line)
        return found if isinstance(found, dict) else None
    return None


@contextmanager
def _within(sock: socket.socket, seconds: float) -> Iterator[None]:
    """End the connection after so many seconds, however the other side drips its bytes."""

    def end() -> None:
        with suppress(OSError):
            # Not the TLS socket's own method, which would go on without encryption.
            socket.socket.shutdown(sock, socket.SHUT_RDWR)

    timer = threading.Timer(max(seconds, 0.01), end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def call(to: Member | Party, path: str, bundle: Bundle, head: Json, data: bytes = b"", *, deadline: float) -> Json:
    """Ask a site and return its answer; every error names the site.

    Raises
    ------
    FederationError
        No answer within ``deadline`` seconds, another certificate than this site's, or a refusal with its reason.
    """
    until = time.monotonic() + deadline
    context, body = _context(bundle, server=False), json.dumps(head, allow_nan=False).encode() + b"\n" + data
    why: _Untouched | None = None
    while True:
        try:
            return _called(to, path, context, body, until, deadline)
        except _Untouched as error:
            why = why or error
        except Unanswered as late:
            raise why or late from None
        if time.monotonic() + _AGAIN >= until:
            raise why
        time.sleep(_AGAIN)


def _called(to: Member | Party, path: str, context: ssl.SSLContext, body: bytes, until: float, whole: float) -> Json:
    where, sent, deadline = f"{to.name} ({to.host}:{to.port})", False, max(0.1, until - time.monotonic())
    try:
        plain = socket.create_connection((to.host, to.port), timeout=min(deadline, _HANDSHAKE))
    except OSError as error:
        raise Unanswered(f"{where} cannot be reached ({error.strerror or 'no answer'}). Is it running?") from None
    try:
        with plain, context.wrap_socket(plain, server_hostname=to.name) as sock, _within(sock, deadline):
            sock.settimeout(deadline)
            line = http.client.HTTPConnection(to.host, to.port)
            line.sock, sent = sock, True
            line.request("POST", path, body, {"Content-Type": "application/octet-stream"})
            with line.getresponse() as answer:
                found, status = answer.read(MOST_JSON), answer.status
                if answer.length:  # bytes that were announced and did not come, or too many
                    raise http.client.IncompleteRead(b"")
    except ssl.SSLCertVerificationError as error:
        raise FederationError(
            f"{where} shows a certificate that is not {to.name}'s of this federation ({error.verify_message}). Nothing "
            "was sent to it. Check host, port and bundles."
        ) from None
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, ssl.SSLError) and "ALERT" in str(error.reason):
            raise FederationError(
                f"{where} does not take this certificate. Is the bundle of this federation?"
            ) from None
        left = until - time.monotonic()
        late = left <= 0.01 * whole
        broke = f"did not answer within {whole:g} s" if late else f"broke off after {whole - left:.2g} s"
        raise (Unanswered if sent else _Untouched)(f"{where} {broke}.") from None
    if status == 503:
        raise _Untouched(f"{where} has no place free for another request. Ask again later.")
    if (reply := _object_in(found)) is None:
        raise FederationError(f"{where} answered what is no message of this version of pate.")
    if status != 200:
        kind = Heard if status == 424 else FederationError
        raise kind(f"{to.name} refuses: {as_told(reply.get('refused', 'it gave no reason'))}")
    return reply


#: Takes the caller's names, the path, JSON and bytes; returns JSON, or raises Refusal.
Answer = Callable[[Names, str, Json, bytes], Json]
#: Takes the same but for the bytes; returns how many of them it would read.
Admit = Callable[[Names, str, Json], int]


class Server(ThreadingTCPServer):
    """Answers the requests of those with a certificate of the federation; it logs nothing."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, host: str, port: int, bundle: Bundle, answer: Answer, admit: Admit) -> None:
        self.answer, self.admit, self._context = answer, admit, _context(bundle, server=True)
        self.calls = threading.BoundedSemaphore(_MOST_CALLS)
        self._lock, self._strangers = threading.Lock(), dict[Any, None]()
        super().__init__((host, port), _Handler)

    def finish(self, seconds: float) -> None:
        """Take no more requests, give the port back, and let those at work be answered within so many seconds."""
        self.shutdown()
        self.server_close()
        until = time.monotonic() + seconds
        for _ in range(_MOST_CALLS):
            self.calls.acquire(timeout=max(0.0, until - time.monotonic()))

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection; whose it is is found out in the thread of the request."""
        plain, address = super().get_request()
        plain.settimeout(_HANDSHAKE)
        return self._context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False), address

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Have the caller show its certificate, and work on its request."""
        with self._lock:
            oldest = next(iter(self._strangers)) if len(self._strangers) >= _MOST_STRANGERS else None
            self._strangers.pop(oldest, None)
            self._strangers[request] = None
        if oldest is not None:
            with suppress(OSError):
                socket.socket.shutdown(oldest, socket.SHUT_RDWR)
        try:
            with _within(request, _HANDSHAKE):
                request.do_handshake()
        except (OSError, ValueError):
            self.shutdown_request(request)
            return
        finally:
            with self._lock:
                self._strangers.pop(request, None)
        super().process_request_thread(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: whatever a stranger sends, and what came of it, is in no log."""


class _Handler(BaseHTTPRequestHandler):
    server: Server
    request: ssl.SSLSocket

    def handle(self) -> None:
        self.close_connection = True
        if not self.server.calls.acquire(timeout=_HANDSHAKE):
            with _within(self.request, _HANDSHAKE):  # what is not read would hide the answer
                self.raw_requestline = self.rfile.readline(65537)
                if self.parse_request():
                    self.rfile.readline(MOST_JSON)
                    self._reply(503, {})
            return
        try:
            self._work()
        finally:
            self.server.calls.release()

    def _work(self) -> None:
        self.request.settimeout(_RECEIVE)
        entries: Any = (self.request.getpeercert() or {}).get("subjectAltName", ())
        caller = frozenset(str(value) for kind, value in entries if kind == "DNS")
        try:
            with _within(self.request, _RECEIVE):
                self.raw_requestline = self.rfile.readline(65537)
                if not self.raw_requestline or not self.parse_request():
                    return
                head, data = self._asked(caller)
            status, found = 200, self.server.answer(caller, self.path, head, data)
        except Refusal as refused:
            status, found = 424 if refused.heard else 409, {"refused": str(refused)}
        self._reply(status, found)

    def _asked(self, caller: Names) -> tuple[Json, bytes]:
        """Return the JSON and the bytes of a request; bytes are read where they are due from this caller."""
        size = self.headers.get("Content-Length", "")
        most = int(size) if self.command == "POST" and size.isdecimal() and len(size) < 12 else 0
        line = self.rfile.readline(min(most, MOST_JSON + 1))
        head, _ = unpacked(line)
        if (left := most - len(line)) > self.server.admit(caller, self.path, head):
            raise Refusal("so many bytes are not due at this step, or not from this caller.")
        return head, self.rfile.read(left)

    def _reply(self, status: int, found: Json) -> None:
        made = json.dumps(found, allow_nan=False).encode()
        self.send_response_only(status)
        self.send_header("Content-Length", str(len(made)))
        self.end_headers()
        self.wfile.write(made)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""
