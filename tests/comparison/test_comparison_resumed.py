"""Comparisons in a folder: fits survive a kill, public files hold nothing private, one comparison per folder."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from contestants_at_play import BUDGETS, CALLS, DELTA, FailsLate, Fake, Stating, WithPublic, small_data

from pate.comparison._report import ComparisonReport
from pate.comparison.run import compare
from pate.data._named.dataset import HeldOutRows, PrivateRows, PublicRows
from pate.exceptions import RunFolderError, StudentError
from pate.privacy.budget import Budget

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_a_finished_comparison_is_read_back_and_not_run_again(tmp_path):
    call = {"budgets": BUDGETS, "n_repeats": 2, "out": tmp_path / "run"}
    first = compare({"A": Stating(), "B": Fake()}, small_data(), **call)
    CALLS.clear()
    again = compare({"A": Stating(), "B": Fake(n_jobs=2)}, small_data(), **call)
    assert not CALLS
    assert again.cells == first.cells
    assert again.statements == first.statements


class Hasty(Stating):
    """Ends early or late by its private rows, as training does."""

    def fit(self, X, y):
        time.sleep(1.1)  # times have a resolution of a second
        return super().fit(X, y)


@pytest.mark.long
def test_no_public_file_tells_how_long_a_fit_took(tmp_path):
    folder = tmp_path / "run"
    report = compare({"A": Hasty()}, small_data(), budgets=BUDGETS, n_repeats=1, out=folder)
    report.save(folder)
    for name in ("results.json", "cells.jsonl", "config.json", "report.html"):
        text = (folder / name).read_text()
        assert "econds" not in text, name
        assert set(re.findall(r"\d{4}-\d\d-\d\dT[\d:.+]+", text)) <= {report.created}, name
    assert {s.created for s in report.statements.values()} == {report.created}


def test_the_same_rows_with_and_without_a_folder(tmp_path):
    call = {"budgets": BUDGETS, "n_repeats": 2, "noise_seed": 0}
    with_folder = compare({"A": Fake()}, small_data(), out=tmp_path, **call)
    assert with_folder.rows() == compare({"A": Fake()}, small_data(), **call).rows()


@pytest.mark.long
def test_seeds_drawn_from_the_system_survive_a_resume(tmp_path):
    call = {"budgets": BUDGETS, "n_repeats": 2, "out": tmp_path, "random_state": None}
    with pytest.raises(StudentError):
        compare({"A": FailsLate()}, small_data(), **call)
    CALLS.clear()
    rows = compare({"A": FailsLate()}, small_data(), **call).rows()
    assert len(CALLS) == 1
    assert rows[0]["seed"] == rows[2]["seed"] != rows[1]["seed"] == rows[3]["seed"]


def relabelled(data):
    y = data.private.y.copy()
    y[0] = (y[0] + 1) % 3
    return replace(data, private=PrivateRows(data.private.X, y))


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"contestants": {"A": Fake(blur=3.0)}}, "other contestants"),
        ({"contestants": {"A": WithPublic()}}, "other contestants"),
        ({"contestants": {"A": Fake(), "B": Fake()}}, "other contestants"),
        ({"budgets": BUDGETS[:1]}, "other epsilons"),
        ({"budgets": [Budget(1.0, 1e-6), Budget(4.0, 1e-6)]}, "other delta"),
        ({"random_state": 1}, "other random_state"),
        ({"noise_seed": 1}, "other noise"),
        ({"data": small_data(seed=1)}, "other public rows, test rows, private rows"),
        ({"data": small_data(classes=("a", "b", "c"))}, "other data set"),
        ({"data": relabelled(small_data())}, "other private rows"),
        ({"data": small_data(groups=True)}, "other private rows"),
    ],
)
def test_another_comparison_in_the_same_folder_is_refused(tmp_path, change, text):
    call = {"contestants": {"A": Fake()}, "data": small_data(), "budgets": BUDGETS, "n_repeats": 1}

    def run(contestants, data, **rest):
        return compare(contestants, data, out=tmp_path / "run", **rest)

    run(**call)
    before = (tmp_path / "run" / "cells.jsonl").read_bytes()
    CALLS.clear()
    with pytest.raises(RunFolderError, match=rf"run holds another comparison \({text}\). Choose another folder"):
        run(**{**call, **change})
    assert not CALLS
    assert (tmp_path / "run" / "cells.jsonl").read_bytes() == before


@pytest.mark.long
@pytest.mark.parametrize("random_state", [0, None])
def test_more_repeats_go_on_where_fewer_ended(tmp_path, random_state):
    call = {"budgets": BUDGETS, "noise_seed": 0, "random_state": random_state}
    few = compare({"A": Fake()}, small_data(), n_repeats=2, out=tmp_path, **call)
    CALLS.clear()
    more = compare({"A": Fake()}, small_data(), n_repeats=4, out=tmp_path, **call)
    assert len(CALLS) == 2 * len(BUDGETS)
    assert [cell for cell in more.cells if cell.repeat < 2] == list(few.cells)
    assert len({cell.seed for cell in more.cells}) == 4
    if random_state is not None:
        at_once = compare({"A": Fake()}, small_data(), n_repeats=4, **call)
        assert [(c.key, c.seed, c.accuracy) for c in more.cells] == [(c.key, c.seed, c.accuracy) for c in at_once.cells]
    assert json.loads((tmp_path / "config.json").read_text())["seeds"] == [c.seed for c in more.cells[:4]]
    assert len(ComparisonReport.load(tmp_path).rows()) == 4 * len(BUDGETS)
    before = (tmp_path / "cells.jsonl").read_bytes()
    with pytest.raises(RunFolderError, match=r"holds a comparison of 4 repeats, got n_repeats=3. Ask for 4 or more"):
        compare({"A": Fake()}, small_data(), n_repeats=3, out=tmp_path, **call)
    assert (tmp_path / "cells.jsonl").read_bytes() == before


@pytest.mark.long
def test_a_kill_amid_further_repeats_keeps_their_seeds(tmp_path):
    call = {"budgets": BUDGETS, "out": tmp_path, "random_state": None}
    first = compare({"A": FailsLate()}, small_data(), n_repeats=1, **call)
    with pytest.raises(StudentError):
        compare({"A": FailsLate()}, small_data(), n_repeats=3, **call)
    kept = json.loads((tmp_path / "config.json").read_text())["seeds"]
    CALLS.clear()
    report = compare({"A": FailsLate()}, small_data(), n_repeats=3, **call)
    assert len(CALLS) == 3
    assert kept == [cell.seed for cell in report.cells[:3]]
    assert kept[0] == first.cells[0].seed


@pytest.mark.long
def test_a_report_keeps_the_stamp_of_its_fits_and_says_where_later_ones_differ(tmp_path, monkeypatch):
    call = {"budgets": BUDGETS, "out": tmp_path}

    def at(created, numpy, commit):
        stamp = {"created": created, "commit": commit, "versions": {"numpy": numpy, "pate": "0"}}
        monkeypatch.setattr("pate.comparison.run.provenance", lambda: stamp)

    at("2026-01-01T00:00:00+00:00", "1", "aaa")
    compare({"A": Stating()}, small_data(), n_repeats=1, **call)
    at("2026-02-02T00:00:00+00:00", "2", "bbb")
    again = compare({"A": Stating()}, small_data(), n_repeats=1, **call)
    assert (again.created, again.commit) == ("2026-01-01T00:00:00+00:00", "aaa")
    assert again.versions == {"numpy": "1", "pate": "0"}
    assert "went on with" not in again.settings  # nothing was fitted
    more = compare({"A": Stating()}, small_data(), n_repeats=2, **call)
    assert more.settings["went on with"] == "commit bbb, numpy 2"
    assert {s.created for s in more.statements.values()} == {more.created} == {again.created}
    at("2026-03-03T00:00:00+00:00", "1", "aaa")
    last = compare({"A": Stating()}, small_data(), n_repeats=2, **call)
    assert last.settings["went on with"] == "commit bbb, numpy 2"
    assert "2026-02" not in "".join(p.read_text() for p in tmp_path.glob("*.json*"))


def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(RunFolderError, match=rf"{tmp_path.name} is not empty and holds no comparison. Choose another"):
        compare({"A": Fake()}, small_data(), budgets=BUDGETS, out=tmp_path)
    with pytest.raises(RunFolderError, match="is a file"):
        compare({"A": Fake()}, small_data(), budgets=BUDGETS, out=tmp_path / "thesis.txt")
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]
    assert not CALLS


@pytest.mark.long
@pytest.mark.parametrize("cut", [1, 2, 40, 0.5])
def test_a_torn_last_line_is_dropped_and_run_again(tmp_path, cut):
    call = {"budgets": BUDGETS, "n_repeats": 2, "noise_seed": 0, "out": tmp_path}
    whole = compare({"A": Fake()}, small_data(), **call)
    file = tmp_path / "cells.jsonl"
    content = file.read_bytes()
    last = len(content.splitlines(keepends=True)[-1])
    lost = cut if isinstance(cut, int) else int(cut * last)
    file.write_bytes(content[:-lost])
    CALLS.clear()
    again = compare({"A": Fake()}, small_data(), **call)
    assert again.rows() == whole.rows()
    # Without its line end alone a fit is still whole.
    assert len(CALLS) == (0 if lost == 1 else 1)
    assert len([json.loads(line) for line in file.read_text().splitlines()]) == 4


@pytest.mark.long
def test_a_folder_that_is_damaged_is_refused(tmp_path):
    call = {"budgets": BUDGETS, "n_repeats": 2, "out": tmp_path}
    compare({"A": Fake()}, small_data(), **call)
    file = tmp_path / "cells.jsonl"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], "{", *lines[2:], ""]))
    with pytest.raises(RunFolderError, match="damaged in line 2"):
        compare({"A": Fake()}, small_data(), **call)
    file.write_text(lines[0].replace('"epsilon": 1.0', '"epsilon": 1.5') + "\n")
    with pytest.raises(RunFolderError, match="a fit that is not of this comparison"):
        compare({"A": Fake()}, small_data(), **call)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(RunFolderError, match="cannot be read"):
        compare({"A": Fake()}, small_data(), **call)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "edit",
    [
        {"accuracy": "high"},
        {"accuracy": None},
        {"seed": [1]},
        {"seeded": 0},
        {"votes": [3]},
        {"statement": {}},
        {"accuracy": 10**400},
    ],
)
def test_a_stored_fit_is_read_as_strictly_as_a_result(tmp_path, edit):
    """What stands in ``cells.jsonl`` goes into results.json: an edited line is refused, and its value not shown."""
    call = {"budgets": BUDGETS, "n_repeats": 1, "out": tmp_path}
    compare({"A": Stating()}, small_data(), **call)
    file = tmp_path / "cells.jsonl"
    first, second = map(json.loads, file.read_text().splitlines())
    file.write_text(json.dumps({**first, **edit}) + "\n" + json.dumps(second) + "\n")
    with pytest.raises(RunFolderError, match="a fit that is not of this comparison"):
        compare({"A": Stating()}, small_data(), **call)


def test_an_edited_statement_of_a_stored_fit_is_refused(tmp_path):
    call = {"budgets": BUDGETS, "n_repeats": 1, "out": tmp_path}
    compare({"A": Stating()}, small_data(), **call)
    file = tmp_path / "cells.jsonl"
    file.write_text(file.read_text().replace('"tuning": "open', '"tuning": "none, and open', 1))
    with pytest.raises(RunFolderError, match="a fit that is not of this comparison"):
        compare({"A": Stating()}, small_data(), **call)


def test_a_start_that_was_killed_counts_as_empty(tmp_path):
    (tmp_path / ".config.abc.json").write_text("{")
    (tmp_path / "resume.private").mkdir()
    (tmp_path / "cells.jsonl").touch()
    assert len(compare({"A": Fake()}, small_data(), budgets=BUDGETS, n_repeats=1, out=tmp_path).rows()) == 2


class Nested(Fake):
    def fit(self, X, y):
        compare({"A": Nested()}, small_data(), budgets=BUDGETS, out=os.environ["PATE_TEST_FOLDER"])


@pytest.mark.skipif(sys.platform == "win32", reason="no flock on Windows")
def test_two_runs_never_share_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PATE_TEST_FOLDER", str(tmp_path))
    with pytest.raises(RunFolderError, match="is in use by another process"):
        compare({"A": Nested()}, small_data(), budgets=BUDGETS, out=tmp_path)


@pytest.mark.long
def test_tables_are_recognised_again(tmp_path):
    data = small_data()

    def table(X):
        frame = pd.DataFrame(X, columns=["a", "b", "c"])
        return frame.assign(a=np.where(frame["a"] > 1, "high", "low"))

    def as_tables(data):
        return replace(
            data,
            private=PrivateRows(table(data.private.X), data.private.y),
            public=PublicRows(table(data.public.X), data.public.y_for_evaluation),
            test=HeldOutRows(table(data.test.X), data.test.y),
        )

    class OnTables(Fake):
        def fit(self, X, y):
            return self._fit(X[["b", "c"]].to_numpy(), y)

        def predict(self, X):
            return self.model_.predict(X[["b", "c"]].to_numpy())

    call = {"budgets": BUDGETS, "n_repeats": 1, "out": tmp_path}
    compare({"A": OnTables()}, as_tables(data), **call)
    CALLS.clear()
    compare({"A": OnTables()}, as_tables(data), **call)
    assert not CALLS
    other = as_tables(data)
    other.private.X.loc[0, "a"] = "unknown"
    with pytest.raises(RunFolderError, match="other private rows"):
        compare({"A": OnTables()}, other, **call)


KILLED = """
import sys, time
import numpy as np
sys.path.insert(0, {tests!r})
import contestants_at_play as t
from pate.comparison.run import compare
from pate.privacy.budget import Budget

class Slow(t.Fake):
    def fit(self, X, y):
        with open({log!r}, "a") as log:
            log.write(f"{{self.budget.epsilon}} {{self.random_state}} {{self.blur}}\\n")
        time.sleep({pause})
        return self._fit(X, y)

budgets = [Budget(e, t.DELTA) for e in (1.0, 2.0, 4.0)]
report = compare({{"A": Slow(), "B": Slow(blur=2.0)}}, t.small_data(), budgets=budgets, n_repeats=3, noise_seed=0,
                 out={out!r})
print(len(report.rows()))
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL on Windows")
def test_a_killed_run_goes_on_where_it_was(tmp_path):
    log, out = tmp_path / "log", tmp_path / "run"

    def start(pause):
        script = KILLED.format(tests=str(Path(__file__).parent), log=str(log), out=str(out), pause=pause)
        return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=ROOT)

    def finished():
        file = out / "cells.jsonl"
        return file.read_bytes().count(b"\n") if file.exists() else 0

    process = start(pause=0.2)
    try:
        deadline = time.monotonic() + 120
        while finished() < 4 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        assert finished() >= 4, "the run did not get going"
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    kept = finished()
    assert 4 <= kept < 18
    started = log.read_text().splitlines()
    assert len(started) in (kept, kept + 1)

    process = start(pause=0)
    assert process.communicate(timeout=120)[0].strip() == "18"
    starts = log.read_text().splitlines()
    # Only the fit that was under way when the kill came was started twice.
    assert len(set(starts)) == 18
    assert len(starts) == 18 + (len(started) - kept)
    cells = [json.loads(line) for line in (out / "cells.jsonl").read_text().splitlines()]
    keys = [(c["contestant"], c["epsilon"], c["repeat"]) for c in cells]
    names = [(c, e, r) for r in range(3) for c in "AB" for e in (1.0, 2.0, 4.0)]
    assert keys == names

    budgets = [Budget(e, DELTA) for e in (1.0, 2.0, 4.0)]
    unbroken = compare({"A": Fake(), "B": Fake(blur=2.0)}, small_data(), budgets=budgets, n_repeats=3, noise_seed=0)
    assert dict(zip(keys, [c["accuracy"] for c in cells], strict=True)) == {
        cell.key: cell.accuracy for cell in unbroken.cells
    }
