"""A federation on one machine whose data are public: real programs and certificates, and what each viewer saw."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import gmpy2
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from pate.data import load_dataset
from pate.estimators import PATEClassifier
from pate.exceptions import FederationError
from pate.release import RecordLabels

from ._config import Member, Members
from ._plan import Plan
from ._records import SiteRecords
from ._rounds import SitesPlan

#: The column of the classes.
TARGET = "digit"
#: Seconds in which all sites must be ready.
_START = 90.0


class DemoData:
    """scikit-learn's digits, whose private rows are dealt out among sites: public, like all that is made of them."""

    def __init__(self, n_sites: int, *, random_state: int = 0) -> None:
        self.data = load_dataset("digits", random_state=random_state)
        places = np.random.default_rng(random_state).permutation(len(self.data.private.X))
        self.parts = np.array_split(places, n_sites)

    def records(self, site: int) -> tuple[Any, Any]:
        """Return rows and classes of a site."""
        return self.data.private.X[self.parts[site]], self.data.private.y[self.parts[site]]

    def write(self, folder: Path, sites: Sequence[Path]) -> Path:
        """Write ``records.csv`` into the folder of each site, and ``cohort.csv`` for the coordinator; return that."""
        for number, bundle in enumerate(sites):
            X, y = self.records(number)
            _frame(X).assign(**{TARGET: y}).to_csv(bundle / "records.csv", index=False)
        _frame(self.data.public.X).to_csv(folder / "cohort.csv", index=False)
        return folder / "cohort.csv"


def _frame(X: Any) -> pd.DataFrame:
    whole = np.rint(np.asarray(X) * 16).astype(int)  # pixels of 0 to 16
    return pd.DataFrame(whole, columns=[f"pixel{i}" for i in range(whole.shape[1])])


@contextmanager
def running_sites(configs: Mapping[Member, Path]) -> Iterator[None]:
    """Start ``pate federation site`` for each, wait until all answer, and end what is left of them in the end."""
    with ExitStack() as ends:
        if threading.current_thread() is threading.main_thread():
            before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
            ends.callback(signal.signal, signal.SIGTERM, before)
        started = {}
        for member, config in configs.items():
            words = [sys.executable, "-m", "pate", "federation", "site", "--config", str(config), "--once", "--quiet"]
            log = ends.enter_context((config.parent / "site.log").open("wb"))
            # In their own session: Ctrl-C in the terminal goes to the process that started them, which ends them.
            how: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "start_new_session": True}
            started[member] = subprocess.Popen(words, env={**os.environ, "OMP_NUM_THREADS": "1"}, **how)
            ends.callback(_end, started[member])
        until = time.monotonic() + _START
        for member, process in started.items():
            while not answers(member):
                if process.poll() is not None or time.monotonic() > until:
                    raise FederationError(f"{member.name} did not start. See {configs[member].parent / 'site.log'}.")
                time.sleep(0.1)
        yield
        for process in started.values():  # after one run they end by themselves
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(10)
    process.kill()  # if it has not ended
    process.wait()


def answers(member: Member) -> bool:
    """Return whether something listens where a member is asked."""
    with suppress(OSError), socket.create_connection((member.host, member.port), timeout=1):
        return True
    return False


class _FirstRound(Exception):
    """What the first round asks of every site; told, in place of asking it."""

    @classmethod
    def round(cls, kind: str, archive: bytes, *, n_cells: int, mechanism_index: int, bound: int) -> None:
        """Tell what is asked."""
        raise cls(archive, n_cells, bound)


def what_was_seen(
    data: DemoData, members: Members, agreed: Plan, plan: SitesPlan, release: RecordLabels, record: Path
) -> list[dict[str, Any]]:
    """Return what stood in the first round at one site, at the coordinator, and what others get: rows of numbers.

    ``record`` is what the coordinator's engine received. **Shows true ballots**: of public data alone.
    """
    site, classes = members.sites[0], plan.classes
    try:
        plan.run(_FirstRound)  # type: ignore[arg-type]
    except _FirstRound as first:
        archive, n_cells, bound = first.args
    X, y = data.records(0)
    own: Any = SiteRecords(_frame(X), [str(one) for one in y], classes=classes).sums(agreed, "ballots", archive)
    order = int(gmpy2.next_prime(max(2 * bound, agreed.n_parties)))  # of the engine's field
    share = _received(record / "received_1", n_cells, (order.bit_length() + 7) // 8)
    centred = [2.0 * (one if 2 * one < order else one - order) / order for one in share]
    n_rows, labels = 12, np.eye(len(classes))[release.labels]
    panels = [
        (f"{site.name} has", "its own ballots", own.sums / own.scale),
        (f"{members.coordinator.name} got", f"a share of {site.name}'s", np.reshape(centred, own.sums.shape)),
        (f"{members.coordinator.name} opens", "all ballots and noise", release.rounds[0].statistics),
        ("everybody else", f"labels of {n_rows} rows", labels),
    ]
    return [{"title": title, "note": note, "values": np.asarray(v)[:n_rows].tolist()} for title, note, v in panels]


def _received(file: Path, n: int, width: int) -> list[int]:
    """Return the first n field elements, of so many bytes, that came in one message: label, size, how many, numbers."""
    data = file.read_bytes()
    while data:
        size = struct.unpack_from("<qI", data)[1]
        message, data = data[12 : 12 + size], data[12 + size :]
        if size == 4 + n * width:
            return [int.from_bytes(message[i : i + width], "little") for i in range(4, size, width)]
    raise FederationError(f"{file} holds no message of {n} numbers.")


def accuracies(data: DemoData, budget: Any, model: Any) -> list[tuple[str, str, float]]:
    """Return who learnt, under which guarantee, and which share of test rows it gets right."""
    public, rows, classes = _frame(data.data.public.X), _frame(data.data.test.X), data.data.test.y
    n = len(data.parts)

    def right(X: Any, y: Any) -> float:
        clf = PATEClassifier(budget=budget, classes=range(10), voters="records", force=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of rows that are public anyway
            return float(clf.fit(_frame(X), y, X_public=public).score(rows, classes))

    def unprotected(X: Any, y: Any) -> float:
        return float(LogisticRegression(max_iter=2000).fit(_frame(X) / 16, y).score(rows / 16, classes))

    same, alone = f"epsilon {budget.epsilon:g}", [data.records(i) for i in range(n)]
    one, none = f"one site alone, mean of {n}", "none: such a model may not leave"
    return [
        (f"all {n} sites, by secure sums", same, float(np.mean(model.predict(rows) == classes.astype(str)))),
        ("one curator who holds all records", same, right(data.data.private.X, data.data.private.y)),
        (one, same, float(np.mean([right(*own) for own in alone]))),
        (f"{one}, for its own use", none, float(np.mean([unprotected(*own) for own in alone]))),
    ]
