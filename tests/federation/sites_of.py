"""Federations on this machine for tests: an authority, bundles, free ports, and small data."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pate import Budget, CallableTeachers
from pate.federation import Consent, Member, Members, Plan, Site
from pate.federation._config import bundle_of, issue, make_authority
from pate.models.recipes import Recipe, Round
from pate.release import site_ledger

TOTAL = Budget(20.0, 1e-5)
#: A coordinator's names, and a plan that site-0 with 120 records agrees to.
ASKS = frozenset({"registry"})
PLAN = Plan(
    nonce="ab", coordinator="registry", sites=("site-0", "site-1", "site-2"), n_units=(120, 50, 50),
    recipients=("registry",), opens="ballots", tolerate=1, noise_multipliers=(4.0, 4.0), n_cells=80, classes=(0, 1),
    unit="record", representation="r" * 64,
)  # fmt: skip
CONSENT = Consent(max_epsilon=3.0, delta=1e-5, coordinators=("registry",), recipients=("registry",))


def free_ports(n: int) -> list[int]:
    """Return ports that are free now."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


class Local:
    """An authority, a coordinator and sites: certificates, ports and ledgers in one folder, found again from there."""

    def __init__(self, folder: Path, n_sites: int = 3) -> None:
        self.folder = folder
        names = ["registry", *(f"site-{i}" for i in range(n_sites))]
        if not (folder / "ports.json").exists():
            authority = make_authority(folder / "authority")
            for name in names:
                issue(authority, name)
            (folder / "ports.json").write_text(json.dumps(free_ports(2 * n_sites + 2)))
        ports = json.loads((folder / "ports.json").read_text())
        self.bundles = {name: bundle_of(folder / "authority" / "parties" / name) for name in names}
        made = [Member(name, "127.0.0.1", *ports[2 * i : 2 * i + 2]) for i, name in enumerate(names)]
        self.members = Members(coordinator=made[0], sites=tuple(made[1:]), authority="0" * 64)
        self.said: list[str] = []

    def ledger(self, name: str, total: Budget = TOTAL) -> Any:
        return site_ledger(self.folder / f"{name}.sqlite", total)

    def site(self, i: int, data: Any, *, total: Budget = TOTAL, **how: Any) -> Site:
        member = self.members.sites[i]
        agreed = Consent(
            max_epsilon=10.0, delta=1e-5, coordinators=("registry", "site-0"),
            recipients=("registry", "site-0", "site-1"), opens=("ballots", "counts", "labels"),
        )  # fmt: skip
        given = {"consent": agreed} if "approve" not in how else {}
        return Site(
            member.name, data, bundle=self.bundles[member.name], ledger=self.ledger(member.name, total),
            budget=total, port=member.port, engine_port=member.engine_port, say=self.said.append, **{**given, **how},
        )  # fmt: skip

    @contextmanager
    def serving(self, *sites: Site) -> Iterator[None]:
        threads = [threading.Thread(target=site.serve, daemon=True) for site in sites]
        with ExitStack() as stack:
            for site, thread in zip(sites, threads, strict=True):
                thread.start()
                stack.callback(thread.join, 30)
                stack.callback(site.stop)
            for site in sites:
                wait_for_port(site.port)
            yield

    def terms(self, **more: Any) -> dict[str, Any]:
        return {
            "sites": self.members, "bundle": self.bundles["registry"], "tolerate": 1, "budget": Budget(3.0, 1e-5),
            "checkpoint_dir": self.folder / "asked", "deadline": 60.0, "say": self.said.append,
        } | more  # fmt: skip


def wait_for_port(port: int) -> None:
    for _ in range(600):
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            threading.Event().wait(0.05)
    raise AssertionError("the site did not start")


def blobs(n: int = 1_300, seed: int = 0) -> tuple[Any, Any]:
    """Return rows of two classes that are easily told apart."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    return rng.normal(size=(n, 3)) + 3 * y[:, None], y


#: Two rounds: little work.
RECIPE = Recipe("kernel", "signed", 20, None, 0.8, 0.0, (Round(0.4), Round(0.6, 0.5)), 0.7, None)


def fixed_teachers(n: int = 10) -> Any:
    """Return teachers that all vote for class row % 2, where a row is its number."""
    return CallableTeachers([partial(_parity, number) for number in range(n)], classes=(0, 1))


def _parity(number: int, rows: Any) -> Any:
    return np.asarray(rows)[:, 0].astype(int) % 2


def engines_below(folder: Path) -> list[str]:
    """Return the processes that still work in a folder."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                where = os.readlink(process / "cwd")
            except OSError:
                continue
            if where.startswith(str(folder)):
                found.append(f"{process.name} {where}")
    return found
