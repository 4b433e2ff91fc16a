"""A party that is killed at any step: a clear error by name, no hang, no orphan, ledgers charged as they must be."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from sites_of import RECIPE, Local, blobs, engines_below, wait_for_port

from pate.exceptions import FederationError
from pate.federation import ask
from pate.federation._ask import _as_charged

X, Y = blobs()
PUBLIC, TRUTH = X[1200:], Y[1200:]
HERE = Path(__file__).parent


@pytest.fixture
def local(tmp_path):
    found = Local(tmp_path)
    yield found
    until = time.monotonic() + 20
    while engines_below(tmp_path) and time.monotonic() < until:
        time.sleep(0.1)
    assert engines_below(tmp_path) == []


def records(local, *numbers, **how):
    return [local.site(i, (X[i:1200:3], Y[i:1200:3]), classes=(0, 1), **how) for i in numbers]


@contextmanager
def party(local, who, step):
    """Start a party that will be killed at a step; end it if it was not."""
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    started = subprocess.Popen(
        [sys.executable, str(HERE / "dying_party.py"), str(local.folder), who, step],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, cwd=local.folder.parent, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def n_charged(local):
    return [len(local.ledger(f"site-{i}").show()) for i in range(3)]


def charged_by_the_error(error):
    """Return the sites that the error's text says were charged."""
    text = str(error.value)
    if "No site was charged" in text:
        return set()
    return set(text.partition("stays so: ")[2].partition(";")[0].replace("none", "").split(", ")) - {""}


@pytest.mark.long
@pytest.mark.parametrize(
    ("step", "said", "charged"),
    [
        ("/plan", r"site-1 .*broke off.* No site was charged", [0, 0, 0]),
        ("/join", r"site-1 .*broke off.* No site was charged", [0, 0, 0]),
        ("paid", r"site-1 .*broke off.*not known, as it does not answer: site-1", None),
        ("engine", r"(engine of|connection with) site-1", None),
        ("silent", r"site-1 did not answer within 4 s", [1, 1, 1]),
        pytest.param("/round 1", r"site-1 .*broke off.*not known, as it does not answer: site-1", [1, 1, 1]),
    ],
)
def test_a_site_that_is_killed(local, step, said, charged):
    others = records(local, 0, 2)
    with local.serving(*others), party(local, "site-1", step):
        wait_for_port(local.members.sites[1].port)
        with pytest.raises(FederationError, match=said) as error:
            ask(PUBLIC, **local.terms(recipe=RECIPE, deadline=4.0))
        assert [site.at_work for site in others] == [None, None]
    found = n_charged(local)
    assert charged is None or found == charged
    # What the error says of the ledgers is what they hold.
    known = {f"site-{i}" for i in (0, 2) if found[i]}
    assert charged_by_the_error(error) - {"site-1"} == known
    assert ("site-1" in charged_by_the_error(error)) <= bool(found[1])
    if step in ("paid", "engine", "silent", "/round 1"):
        assert found[1] == 1  # what was paid stays paid, though nothing may have left


@pytest.mark.long
def test_it_is_said_who_charged_for_an_ask_that_broke_off():
    assert _as_charged({"a": False, "b": None}) == (
        "Charged, and stays so: none; not charged: a; not known, as it does not answer: b."
    )
    assert _as_charged({"a": True, "b": False}) == "Charged, and stays so: a; not charged: b."
    assert "is not known here" in _as_charged(None)  # of one that was killed


@pytest.mark.sample
def test_asked_again_after_a_site_died_it_is_a_new_release_with_fresh_noise(local):
    others = records(local, 0, 2)
    with local.serving(*others):
        with party(local, "site-1", "/round 1"):
            wait_for_port(local.members.sites[1].port)
            with pytest.raises(FederationError, match="site-1"):
                ask(PUBLIC, **local.terms(recipe=RECIPE, deadline=10.0))
        (third,) = records(local, 1)
        with local.serving(third):
            with pytest.raises(
                FederationError,
                match=r"broke off after 1 of 3 rounds.*so: site-0, site-2; not charged: none; not known, as it does "
                r"not answer: site-1\. retry=True.*charges the whole plan",
            ):
                ask(PUBLIC, **local.terms(recipe=RECIPE))
            assert n_charged(local) == [1, 1, 1]
            release = ask(PUBLIC, **local.terms(recipe=RECIPE, retry=True))
    assert n_charged(local) == [2, 2, 2]
    assert (release.labels == TRUTH).mean() > 0.95
    (broken,) = local.folder.glob("asked/*/broken-*.json")
    (whole,) = local.folder.glob("asked/*/run-*.json")
    first, second = (json.loads(path.read_text()) for path in (broken, whole))
    assert first["plan"]["nonce"] != second["plan"]["nonce"]
    # The same sums under fresh noise: no number is as it was.
    assert not np.intersect1d(
        np.array(first["opened"][0], dtype=float), np.array(second["opened"][0], dtype=float)
    ).size


@pytest.mark.long
@pytest.mark.parametrize(
    ("step", "charged"), [("/plan", 0), ("/join", 0), ("/round 0", 0), ("sum", 1), ("/round 1", 1)]
)
def test_a_coordinator_that_is_killed(local, step, charged):
    sites = records(local, 0, 1, 2, patience=2.0, deadline=10.0)
    with local.serving(*sites):
        with party(local, "registry", step) as coordinator:
            assert coordinator.wait(120) == -signal.SIGKILL
        until = time.monotonic() + 30
        while any(site.at_work is not None for site in sites) and time.monotonic() < until:
            time.sleep(0.1)
        assert [site.at_work for site in sites] == [None] * 3
        assert n_charged(local) == [charged] * 3
        if charged:
            with pytest.raises(FederationError, match=r"broke off after \d of 3 rounds"):
                ask(PUBLIC, **local.terms(recipe=RECIPE))
    assert n_charged(local) == [charged] * 3


@pytest.mark.long
def test_a_site_that_is_told_to_end_does_so_and_leaves_nothing(local):
    others = records(local, 0, 2)
    with local.serving(*others), party(local, "site-1", "slow") as process:
        wait_for_port(local.members.sites[1].port)

        def end_it(text):
            if "engines are connected" in text:
                time.sleep(0.5)
                process.send_signal(signal.SIGTERM)

        with pytest.raises(FederationError, match="site-1"):
            ask(PUBLIC, **local.terms(recipe=RECIPE, say=end_it))
        assert process.wait(30) == 0
    assert n_charged(local)[1] == 0
