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
from pate.federation._config import Bundle, Member
from pate.federation._contract import Heard, Party

#: The names in a certificate; and the JSON of a request, or of its answer.
Names = frozenset[str]
Json = dict[str, Any]
#: The largest line of JSON, and the largest bytes after it (public rows, maps), of any request or answer.
MOST_JSON, MOST_BYTES = 1 << 20, 1 << 30
#: Seconds within which a caller must have shown its certificate, and within which a whole request must have come.
_HANDSHAKE, _RECEIVE = 10.0, 300.0
#: Requests that are worked on at once, those of strangers who only open a connection among them.
_MOST_CALLS = 32


class Unanswered(FederationError):
    """A site that cannot be reached, or broke off: likelier the cause than what others say of it."""


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
    where = f"{to.name} ({to.host}:{to.port})"
    context, body = _context(bundle, server=False), json.dumps(head, allow_nan=False).encode() + b"\n" + data
    try:
        plain = socket.create_connection((to.host, to.port), timeout=min(deadline, _HANDSHAKE))
    except OSError as error:
        raise Unanswered(f"{where} cannot be reached ({error.strerror or 'no answer'}). Is it running?") from None
    try:
        with plain, context.wrap_socket(plain, server_hostname=to.name) as sock, _within(sock, deadline):
            sock.settimeout(deadline)
            line = http.client.HTTPConnection(to.host, to.port)
            line.sock = sock
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
    except ssl.SSLError:
        raise FederationError(f"{where} does not take this certificate. Is the bundle of this federation?") from None
    except (OSError, http.client.HTTPException):
        raise Unanswered(f"{where} did not answer within {deadline:g} s, or broke off.") from None
    if (reply := _object_in(found)) is None:
        raise FederationError(f"{where} answered what is no message of this version of pate.")
    if status != 200:
        kind = Heard if status == 424 else FederationError
        raise kind(f"{to.name} refuses: {as_told(reply.get('refused', 'it gave no reason'))}")
    return reply


#: Takes the caller's names, the path, JSON and bytes; returns JSON, or raises Refusal.
Answer = Callable[[Names, str, Json, bytes], Json]


class Server(ThreadingTCPServer):
    """Answers the requests of those with a certificate of the federation; it logs nothing."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, host: str, port: int, bundle: Bundle, answer: Answer) -> None:
        self.answer, self._context = answer, _context(bundle, server=True)
        self._calls = threading.BoundedSemaphore(_MOST_CALLS)
        super().__init__((host, port), _Handler)

    def finish(self, seconds: float) -> None:
        """Take no more requests, give the port back, and let those at work be answered within so many seconds."""
        self.shutdown()
        self.server_close()
        until = time.monotonic() + seconds
        for _ in range(_MOST_CALLS):
            self._calls.acquire(timeout=max(0.0, until - time.monotonic()))

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection; whose it is is found out in the thread of the request."""
        plain, address = super().get_request()
        plain.settimeout(_HANDSHAKE)
        return self._context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False), address

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Work on a request, if there are not too many already."""
        if not self._calls.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._calls.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: whatever a stranger sends, and what came of it, is in no log."""


class _Handler(BaseHTTPRequestHandler):
    server: Server
    request: ssl.SSLSocket

    def setup(self) -> None:
        with _within(self.request, _HANDSHAKE):
            self.request.do_handshake()
        super().setup()

    def handle(self) -> None:
        self.request.settimeout(_RECEIVE)
        self.close_connection = True
        with _within(self.request, _RECEIVE):
            self.raw_requestline = self.rfile.readline(65537)
            if not self.raw_requestline or not self.parse_request():
                return
            size = self.headers.get("Content-Length", "")
            fits = self.command == "POST" and size.isdecimal() and int(size) <= MOST_JSON + 1 + MOST_BYTES
            body = self.rfile.read(int(size)) if fits else b""
        entries: Any = (self.request.getpeercert() or {}).get("subjectAltName", ())
        caller = frozenset(str(value) for kind, value in entries if kind == "DNS")
        try:
            status, found = 200, self.server.answer(caller, self.path, *unpacked(body))
        except Refusal as refused:
            status, found = 424 if refused.heard else 409, {"refused": str(refused)}
        made = json.dumps(found, allow_nan=False).encode()
        self.send_response_only(status)
        self.send_header("Content-Length", str(len(made)))
        self.end_headers()
        self.wfile.write(made)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""
