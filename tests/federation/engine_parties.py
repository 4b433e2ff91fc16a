"""Parties of secure sums on this machine: each a real engine in a process of its own, over TLS on loopback."""

from __future__ import annotations

import socket
import textwrap
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pate.federation._config import Bundle, issue, make_authority
from pate.federation._contract import Party
from pate.federation._mpyc import MPyCAggregator


def free_ports(n: int) -> list[int]:
    sockets = [socket.socket() for _ in range(n)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def each(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Return what each call returns, or the error that it ends in; all at the same time."""
    outcomes: list[Any] = [None] * len(calls)

    def run(i: int) -> None:
        try:
            outcomes[i] = calls[i]()
        except Exception as error:
            outcomes[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


class Federation:
    """Names, ports and certificates of so many parties; ``start`` makes their engines."""

    def __init__(self, folder: Path, n_parties: int, tolerate: int, **settings: Any) -> None:
        self.folder, self.settings = folder, {"tolerate": tolerate, "receivers": [0], "start_deadline": 30.0} | settings
        self.authority = make_authority(folder / "authority")
        names = [f"hospital-{chr(97 + i)}" for i in range(n_parties)]
        self.bundles = [issue(self.authority, name) for name in names]
        ports = free_ports(n_parties)
        self.parties = [Party(name, "127.0.0.1", port) for name, port in zip(names, ports, strict=True)]
        self.engines: list[Any] = []
        self.home = folder / "engines"
        self.home.mkdir()

    def make(self, i: int, *, kind: Any = MPyCAggregator, bundle: Bundle | None = None, **other: Any) -> MPyCAggregator:
        """Return party i's engine once it is connected."""
        files = (bundle or self.bundles[i])._asdict()
        return kind(self.parties, i, folder=self.home, **files, **(self.settings | other))

    def start(self, **others: dict[str, Any]) -> Federation:
        """Start all; ``p2={...}`` starts that party differently."""
        calls = [lambda i=i: self.make(i, **others.get(f"p{i}", {})) for i in range(len(self.parties))]
        self.engines = each(calls)
        assert not [e for e in self.engines if isinstance(e, Exception)], self.engines
        return self

    def all(self, call: Callable[[Any, int], Any], but: Sequence[int] = ()) -> list[Any]:
        """Call it with every engine and its index, except those named."""
        return each([lambda e=e, i=i: call(e, i) for i, e in enumerate(self.engines) if i not in but])

    def right(self, call: Callable[[Any, int], Any]) -> list[Any]:
        """Call it with every engine and its index: all must go well."""
        outcomes = self.all(call)
        assert not [o for o in outcomes if isinstance(o, Exception)], outcomes
        return outcomes

    def close(self) -> None:
        """End all; no process and no folder may be left."""
        each([e.close for e in self.engines if isinstance(e, MPyCAggregator)])
        assert not list(self.home.iterdir())


HACK = """
    import json, os, pickle, sys
    sys.path.append({root!r})
    from pate.federation import _party
    make_session = _party.make_session
    def hacked(settings, answer):
        session = make_session(settings, answer)
        from pate.federation import _exchange
        {body}
        return session
    _party.make_session = hacked
    _party.main()
"""


def hacked(folder, body):
    """An engine whose child, once it has imported all, does ``body`` before it begins."""
    root = str(Path(__file__).parents[2])
    lines = textwrap.indent(textwrap.dedent(body), " " * 4).strip()
    program = folder / "hacked.py"
    program.write_text(textwrap.dedent(HACK).format(root=root, body=lines), encoding="utf-8")
    return type("Hacked", (MPyCAggregator,), {"_program": str(program)})
