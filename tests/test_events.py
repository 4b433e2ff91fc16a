"""The log of a run: events are there, all public, the same on neighbouring data; what is private is off by default."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import pate
from pate import (
    Budget,
    DPSGDClassifier,
    GNMax,
    Ledger,
    PATEClassifier,
    PATERegressor,
    Votes,
    private_select,
    release_labels,
)
from pate._core.curator import CuratorMessage, tell_curator, warn_curator
from pate._core.events import event, unlogged
from pate._core.recorder import ReplayRecorder, play
from pate.dpsgd import SampledGaussian
from pate.exceptions import CuratorWarning
from pate.teachers import TeacherEnsemble

BUDGET = Budget(4.0, 1e-5)
#: All that an event may say; each is a constant of the request, or released. Another one needs a reason.
PUBLIC = {
    "event", "replay",
    "part",  # of the code, not of its time
    "ledger", "release", "kind", "mechanism", "n_queries", "epsilon", "delta", "epsilon_left", "fraction_left",
    "done", "of",  # as often as was asked
    "step", "n_steps", "noise_multiplier",
    "digest", "files",
}  # fmt: skip


class Log(logging.Handler):
    """What comes to a program's handler of the root logger; pytest's also hears what goes no further."""

    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(record)

    def clear(self):
        self.records.clear()


@pytest.fixture
def log():
    heard, logger = Log(), logging.getLogger("pate")
    logging.getLogger().addHandler(heard)
    logger.setLevel(logging.DEBUG)
    yield heard
    logger.setLevel(logging.NOTSET)
    logging.getLogger().removeHandler(heard)


def said(log):
    """What was logged under "pate" so far, but for digests (a statement says when it was made); forgotten then."""
    lines = [(r.name, r.levelname, r.getMessage()) for r in log.records if r.name.partition(".")[0] == "pate"]
    log.clear()
    return [(name, level, re.sub("digest=[0-9a-f]{64}", "digest", line)) for name, level, line in lines]


def records(n=240, seed=0):
    """Private rows and labels, and public rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 60, 3))
    return X[:n], (X[:n, 0] + X[:n, 1] > 0).astype(int), X[n:]


def by_records(X, y, public):
    return PATEClassifier(budget=BUDGET, classes=(0, 1), voters="records", random_state=0, noise_seed=1).fit(
        X, y, X_public=public
    )


def by_shards(X, y, public):
    teachers = TeacherEnsemble(LogisticRegression(), 8, partition_seed=0, random_state=0)
    return PATEClassifier(teachers, budget=BUDGET, classes=(0, 1), random_state=0, noise_seed=1).fit(
        X, y, X_public=public
    )


def by_dpsgd(X, y, public, **said):
    own = {"epochs": 2, "expected_batch_size": 60, "random_state": 0, "noise_seed": 1, **said}
    return DPSGDClassifier("linear", budget=BUDGET, classes=(0, 1), **own).fit(X, y, X_public=public)


def by_dpsgd_of_any_number(X, y, public):
    return by_dpsgd(X, y, public, mechanism=SampledGaussian(adjacency="add-or-remove", nominal_n=240))


def of_numbers(X, y, public):
    return PATERegressor(budget=BUDGET, target_range=(-1.0, 2.0), random_state=0, noise_seed=1).fit(
        X, y, X_public=public
    )


PIPELINES = {f.__name__: f for f in (by_records, by_shards, by_dpsgd, of_numbers)}
warned = pytest.mark.filterwarnings("ignore::pate.exceptions.PateWarning")


@warned
@pytest.mark.long
@pytest.mark.sample
@pytest.mark.parametrize("name", PIPELINES)
def test_what_is_logged_is_the_same_on_neighbouring_data(name, log):
    """Whatever the one record is: a label turned, a row far out, a cell that nobody can read."""
    X, y, public = records()
    PIPELINES[name](X, y, public)
    first = said(log)
    assert any("charged" in line for *_, line in first)
    assert any("statement" in name for name, *_ in first)
    for row, label in ((X[7], 1 - y[7]), (1e6 * X[7], y[7]), (X[7] * np.nan, y[7])):
        X2, y2 = X.copy(), y.copy()
        X2[7], y2[7] = row, label
        PIPELINES[name](X2, y2, public)
        assert said(log) == first


@warned
@pytest.mark.long
def test_a_record_more_or_less_is_not_logged_where_their_number_is_private(log):
    X, y, public = records()
    by_dpsgd_of_any_number(X, y, public)
    first = said(log)
    assert first
    for n in (1, 0, 200):
        by_dpsgd_of_any_number(X[n:] if n < 2 else X[:n], y[n:] if n < 2 else y[:n], public)
        assert said(log) == first


@warned
@pytest.mark.long
@pytest.mark.parametrize("name", PIPELINES)
def test_events_say_what_is_public_and_nothing_else(name, log):
    X, y, public = records(seed=3)
    X, y = X[:233], y[:233]
    PIPELINES[name](X, y, public)
    found = [r for r in log.records if r.name.startswith("pate.")]
    assert {r.name for r in found} >= {"pate.fit", "pate.statement"}
    assert set().union(*(r.facts for r in found)) <= PUBLIC
    text = "\n".join(r.getMessage() for r in found)
    private = {len(y), int(y.sum()), int((1 - y).sum()), *np.round(X.sum(axis=0), 3), *np.round(X[:5].ravel(), 3)}
    assert [value for value in private if re.search(rf"(?<![\d.]){re.escape(str(value))}(?!\d)", text)] == []


@warned
@pytest.mark.long
def test_a_fit_that_is_taken_up_says_so_and_what_is_left_of_the_ledger(log, tmp_path):
    X, y, public = records()
    ledger = Ledger(tmp_path / "a.sqlite", total=Budget(9.0, 1e-5))

    def stop(state):
        if state.step == 3 and not (tmp_path / "stopped").exists():
            (tmp_path / "stopped").touch()
            raise RuntimeError("the machine went down")
        return False

    again = {"ledger": ledger, "checkpoint_dir": tmp_path / "run", "callbacks": [stop]}
    with pytest.raises(RuntimeError):
        by_dpsgd(X, y, public, **again)
    (charged,) = [r.facts for r in log.records if r.name == "pate.ledger"]
    assert charged["release"] == 1
    assert charged["ledger"] == "a.sqlite"
    assert charged["epsilon"] == pytest.approx(ledger.show()[0]["epsilon"], rel=1e-12)
    assert charged["delta"] == 1e-5
    assert (charged["epsilon_left"], charged["fraction_left"]) == pytest.approx(
        (ledger.remaining().epsilon_left, ledger.remaining().fraction_left), rel=1e-12
    )
    log.clear()
    by_dpsgd(X, y, public, **again)
    lines = [line for *_, line in said(log)]
    assert not any(line.startswith("charged") for line in lines)
    assert any(re.match(r"resumed: step=3 n_steps=8 ", line) for line in lines)
    assert "done: step=8 n_steps=8" in lines


@warned
@pytest.mark.long
def test_runs_of_a_private_selection_are_not_logged(log):
    """How many there are is secret: its guarantee rests on that."""
    X, y, public = records(n=400)
    found, own = set(), {"budget": Budget(8.0, 1e-5), "epochs": 1, "expected_batch_size": 100, "classes": (0, 1)}
    for seed in range(3):
        done = private_select(
            {f"rate {rate}": DPSGDClassifier("linear", learning_rate=rate, **own) for rate in (0.1, 1.0)},
            X, y, budget=Budget(8.0, 1e-5), mean_runs=5.0, X_public=public, classes=(0, 1), noise_seed=seed,
        )  # fmt: skip
        assert done.winner is not None
        lines = said(log)
        assert sum("charged" in line for *_, line in lines) == 1
        found.add(tuple(lines))
    assert len(found) == 1


def test_a_replay_is_marked_as_one_that_spends_nothing(log):
    counts = np.array([[9, 1], [2, 8]])
    release_labels(Votes.from_counts(counts), GNMax(sigma=9.0), budget=Budget(9.0, 1e-5))
    assert not any("replay" in line for *_, line in said(log))
    with play(ReplayRecorder(b"key")):
        release_labels(Votes.from_counts(counts), GNMax(sigma=9.0), budget=Budget(9.0, 1e-5))
    lines = said(log)
    assert lines
    assert all("replay=True" in line for *_, line in lines)


def test_nothing_is_said_by_default_and_no_handler_writes():
    for name in ("pate", "pate.private"):
        own = [h for h in logging.getLogger(name).handlers if not type(h).__module__.startswith("_pytest")]
        assert [type(h) for h in own] == [logging.NullHandler]
        assert logging.getLogger(name).level == logging.NOTSET
    assert not logging.getLogger("pate.private").propagate


def test_private_messages_are_heard_by_those_who_ask_for_them_alone(log):
    handler = Log()
    message = CuratorMessage("2 classes are spelt nearly alike.", "'flu' and 'Flu'")
    with pytest.warns(CuratorWarning, match="spelt nearly"):
        warn_curator([message])
    assert log.records == []
    private = logging.getLogger("pate.private")
    private.addHandler(handler)
    try:
        with pytest.warns(CuratorWarning) as caught:
            warn_curator([message])
        with pytest.warns(CuratorWarning):
            tell_curator("100% of them")
    finally:
        private.removeHandler(handler)
    heard = [record.getMessage() for record in handler.records]
    assert heard[0] == "'flu' and 'Flu'"
    assert heard[1].startswith(message.text)
    assert heard[2:] == ["100% of them"]
    assert caught[0].filename == __file__
    assert "Flu" not in str(caught[0].message)
    assert log.records == []


def test_only_one_place_warns_the_curator():
    """Else what is said there is not on the logger for it."""
    root = Path(pate.__file__).parent
    wrong = re.compile(r"warnings\.warn\([^)]*?(CuratorWarning|CovariateShiftWarning)", re.S)
    found = [p.relative_to(root) for p in root.rglob("*.py") if wrong.search(p.read_text(encoding="utf-8"))]
    assert found == []


def test_an_event_is_one_line_and_fails_nothing(log):
    event("fit", "done", part="a\nb c", size=1 / 3, none=None, name="é", long="x" * 300, level=logging.DEBUG)
    (record,) = log.records
    assert record.getMessage() == f'done: part="a\\nb c" size=0.333333 name="\\u00e9" long={"x" * 100}...'
    assert record.facts["long"] == "x" * 300
    assert record.facts["event"] == "done"
    assert record.filename == Path(__file__).name

    def broken(record):
        raise ValueError

    logger = logging.getLogger("pate.fit")
    logger.addFilter(broken)
    try:
        event("fit", "done", part="a")
    finally:
        logger.removeFilter(broken)
    log.clear()
    with unlogged():
        event("fit", "done", part="a")
    assert log.records == []
