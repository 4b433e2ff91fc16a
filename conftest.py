"""What holds for every test and doctest, wherever it stands."""

import gc
import os
import random
from collections.abc import Iterator

import pytest
from hypothesis import settings

if "PYTEST_XDIST_WORKER" in os.environ:  # workers share the cores: threads of theirs would wait for each other
    os.environ.setdefault("OMP_NUM_THREADS", "1")

from pate._core import secret as _random

#: Programs. MPyC reads and changes the options of whatever it finds itself in: a process of its own only.
collect_ignore = ["pate/federation/_exchange.py", "tests/federation/dying_party.py"]
#: Examples run whole: tests/docs/test_gallery.py.
collect_ignore_glob = ["docs/gallery/*.py", "docs/examples/*"]

# Tests that search try the same cases each time: what passed once passes again. make search searches at random.
settings.register_profile("same", derandomize=True, database=None, deadline=None)
settings.register_profile("search", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("same")

#: CPU seconds, those of the processes that a test starts too. What takes longer is marked ``long``.
LONG = 0.5
STARTED = pytest.StashKey[float]()
UNMARKED: list[tuple[float, str]] = []


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage among what is collected: it is all kept, and each look would go through all of it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test marked ``few(4)`` four cases stay short, spread evenly from first to last; the others are long."""
    grouped: dict[tuple[str, int], list[pytest.Item]] = {}
    for item in items:
        if (mark := item.get_closest_marker("few")) and item.get_closest_marker("long") is None:
            grouped.setdefault((item.nodeid.partition("[")[0], mark.args[0]), []).append(item)
    for (_, few), cases in grouped.items():
        kept = {round(at * (len(cases) - 1) / max(few - 1, 1)) for at in range(few)}
        for at, case in enumerate(cases):
            if at not in kept:
                case.add_marker(pytest.mark.long)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Note on each report how much CPU time its test has taken so far."""
    report = yield
    report.cpu_seconds = sum(os.times()[:4]) - item.stash[STARTED]
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember the tests that are long and do not say so; twice the limit, as a busy machine counts more."""
    if (
        report.when == "teardown"
        and report.nodeid.startswith("tests/")  # what people read and type is always run
        and getattr(report, "cpu_seconds", 0) > 2 * LONG
        and not {"long", "slow"} & set(report.keywords)
    ):
        UNMARKED.append((report.cpu_seconds, report.nodeid))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name them at the end, so that ``make test`` stays short."""
    if UNMARKED:
        terminalreporter.section(f"over {LONG:g} CPU seconds, not marked long")
        for seconds, name in sorted(UNMARKED, reverse=True):
            terminalreporter.write_line(f"{seconds:6.1f} s  {name}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Draw in every test the same "bits of the operating system": what passed once passes again.

    The path of the code is the real one (nothing is seeded, statements say so), only the bits come from a stream named
    by the test. Processes started in a test draw real ones.
    """
    stream, here = random.Random(item.nodeid), os.getpid()
    real = _random._operating_system
    item.stash[STARTED] = sum(os.times()[:4])
    _random._operating_system = lambda size: stream.randbytes(size) if os.getpid() == here else real(size)
    try:
        return (yield)
    finally:
        _random._operating_system = real


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name contents of files by their length: written out they are unreadable, and may hold the time or a nonce.

    Processes that share the tests among them have to agree on every test's name.
    """
    return f"{argname}{len(val)}" if isinstance(val, bytes | bytearray) else None
