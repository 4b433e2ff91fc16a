"""Sums and labels among institutions on one machine: times, and bytes that a party sends.

    python benchmarks/federation.py [--smoke] [--repeats 3]

Ours is ``MPyCAggregator``: every party in a process of its own, mutual TLS, no pickles, K = 60. Beside it, in turns:
the sum in the clear (every party sends its counts to one, which adds them, over plain loopback sockets), and MPyC as it
comes (one script per party, pickles, no TLS; ``-K 30``, its default, and ``-K 60``; above 8 parties ``--no-prss``,
without which it does not end). One party receives.

Sums are of 8,192 steps a vote, as :class:`pate.mechanisms.SharedGaussian` has them for ten votes of noise; labels of
eight, as :func:`pate.release.buy_labels` takes them for 40 votes (fewer for more), and of whole votes.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from _machine import HERE, machine

from pate.federation import MPyCAggregator, Party, issue, make_authority

SUM, LABELS, WHOLE = "sum:8192", "labels:8", "labels:1"


@dataclass(frozen=True)
class Config:
    """How much of it: (parties, coalition that is withstood, whether labels too)."""

    runs: tuple[tuple[int, int, bool], ...] = ((5, 2, True), (10, 4, True), (20, 9, False))
    n_queries: int = 500
    n_classes: int = 10
    votes: int = 40
    n_repeats: int = 3

    @property
    def bound(self) -> int:
        """Votes of 20 sites, and room for noise."""
        return 20 * self.votes + 1_000

    def tasks(self, labels: bool) -> tuple[str, ...]:
        """Return what is opened, each with its steps a vote."""
        return (SUM, LABELS, WHOLE) if labels else (SUM,)


def in_words(task: str) -> str:
    kind, steps = task.split(":")
    return f"{kind} of whole votes" if steps == "1" else f"{kind}, {int(steps):,} steps a vote"


def votes(config: Config, party: int) -> list[int]:
    """Return a party's counts, query by query."""
    even = [1 / config.n_classes] * config.n_classes
    return np.random.default_rng(party).multinomial(config.votes, even, config.n_queries).ravel().tolist()


def at_once(calls: list[Callable[[], Any]]) -> list[Any]:
    results: list[Any] = [None] * len(calls)

    def run(i: int) -> None:
        results[i] = calls[i]()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def free_ports(n: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def ours(config: Config, n: int, tolerate: int, labels: bool) -> dict[str, Any]:
    """Run the engines of n parties from this process, one thread each."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        authority = make_authority(Path(folder) / "authority")
        names = [f"site-{i}" for i in range(n)]
        bundles = [issue(authority, name)._asdict() for name in names]
        parties = [Party(name, "127.0.0.1", port) for name, port in zip(names, free_ports(n), strict=True)]
        terms: dict[str, Any] = {"tolerate": tolerate, "receivers": [0], "folder": folder, "compares": labels}
        start = time.perf_counter()
        engines = at_once([lambda i=i: MPyCAggregator(parties, i, **terms, **bundles[i]) for i in range(n)])
        found["start_s"] = time.perf_counter() - start
        length = config.n_queries * config.n_classes
        for task in config.tasks(labels):
            what, lattice = task.split(":")[0], int(task.split(":")[1])
            own = [[lattice * one for one in votes(config, i)] for i in range(n)]
            given: dict[str, Any] = {"length": length, "bound": lattice * config.bound, "deadline": 600.0}
            if what == "labels":
                given["n_classes"] = config.n_classes
            asked = [
                partial(e.sum if what == "sum" else e.argmax, v, **given) for e, v in zip(engines, own, strict=True)
            ]
            before, start = engines[0].n_bytes_sent, time.perf_counter()
            opened = at_once(asked)
            seconds = time.perf_counter() - start
            bytes_sent = max(engine.n_bytes_sent for engine in engines) - before
            found[task] = {"s": seconds, "bytes": bytes_sent, "checksum": int(sum(opened[0]))}
        at_once([engine.close for engine in engines])
    return found


def in_the_clear(config: Config, n: int) -> dict[str, Any]:
    """Let every party send its counts to one that adds them: what there is without secrecy."""
    own = [np.array([8192 * one for one in votes(config, i)], dtype="<i8").tobytes() for i in range(n)]
    server = socket.create_server(("127.0.0.1", 0))

    def send(i: int) -> None:
        with socket.create_connection(server.getsockname()) as line:
            line.sendall(own[i])

    start = time.perf_counter()
    threads = [threading.Thread(target=send, args=(i,)) for i in range(1, n)]
    for thread in threads:
        thread.start()
    total = np.frombuffer(own[0], dtype="<i8").copy()
    for _ in threads:
        line, _ = server.accept()
        with line, line.makefile("rb") as file:
            total += np.frombuffer(file.read(), dtype="<i8")
    seconds = time.perf_counter() - start
    for thread in threads:
        thread.join()
    server.close()
    return {SUM: {"s": seconds, "bytes": len(own[0]), "checksum": int(total.sum())}}


def mpyc_as_it_comes(config: Config, n: int, tolerate: int, labels: bool, bits: int) -> dict[str, Any]:
    """Run MPyC's own way in processes of its own."""
    command = [sys.executable, str(HERE / "_mpyc_as_it_comes.py"), "-M", str(n), "-T", str(tolerate), "-K", str(bits)]
    command += ["-B", str(free_ports(1)[0] % 20_000 + 10_000), "--no-log", *(["--no-prss"] if n > 8 else [])]
    command += [str(v) for v in (config.n_queries, config.n_classes, config.bound)] + list(config.tasks(labels))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as first:
        try:
            return dict(json.loads(first.communicate(timeout=900)[0]))
        finally:  # its other parties would wait for ever where one of them failed
            with suppress(ProcessLookupError):
                os.killpg(first.pid, signal.SIGKILL)


def measure(config: Config) -> list[dict[str, Any]]:
    rows = []
    for n, tolerate, labels in config.runs:
        ways = {
            "ours": lambda n=n, t=tolerate, b=labels: ours(config, n, t, b),
            "in the clear": lambda n=n: in_the_clear(config, n),
            "MPyC, K=30": lambda n=n, t=tolerate, b=labels: mpyc_as_it_comes(config, n, t, b, 30),
            "MPyC, K=60": lambda n=n, t=tolerate, b=labels: mpyc_as_it_comes(config, n, t, b, 60),
        }
        repeats = [{name: run() for name, run in ways.items()} for _ in range(config.n_repeats)]
        for what in config.tasks(labels):
            sums = {one[what]["checksum"] for repeat in repeats for one in repeat.values() if what in one}
            assert len(sums) == 1, "the ways do not agree"
            for name in ways:
                found = [repeat[name][what] for repeat in repeats if what in repeat[name]]
                if found:
                    seconds = [one["s"] for one in found]
                    starts = [repeat[name]["start_s"] for repeat in repeats if "start_s" in repeat[name]]
                    row = {
                        "parties": n,
                        "tolerate": tolerate,
                        "what": in_words(what),
                        "way": name,
                        "s": median(seconds),
                    }
                    row |= {"s_low": min(seconds), "s_high": max(seconds), "bytes": max(one["bytes"] for one in found)}
                    rows.append(row | ({"start_s": median(starts)} if starts else {}))
                    print(row, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--repeats", type=int, default=Config.n_repeats)
    given = parser.parse_args()
    config = Config(n_repeats=given.repeats)
    if given.smoke:
        config = replace(config, runs=((3, 1, True),), n_queries=20, n_repeats=1)
    stamp = machine(np)
    stamp["versions"] |= {name: metadata.version(name) for name in ("mpyc", "gmpy2", "cryptography")}
    result = {
        "benchmark": "federation",
        "machine": stamp,
        "config": asdict(config),
        "rows": measure(config),
        "load_after": os.getloadavg()[0],
    }
    if not given.smoke:
        out = HERE / "results" / "federation.json"
        out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        print(f"written to {out}")


if __name__ == "__main__":
    main()
