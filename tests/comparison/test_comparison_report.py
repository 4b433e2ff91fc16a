"""The report of a comparison: rows, summary, notes, JSON, pages, provenance."""

import hashlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from contestants_at_play import BUDGETS, DELTA, Fake, Stating, small_data

from pate._core import provenance as _provenance
from pate.comparison._report import Cell, ComparisonReport
from pate.comparison.run import compare
from pate.exceptions import InvalidInputError, RunFolderError
from pate.report.result import ComparisonResult

ROOT = Path(__file__).parents[2]


def made(**more) -> ComparisonReport:
    cells = [
        Cell(contestant=n, epsilon=e, delta=DELTA, repeat=r, accuracy=a, seed=r, **more)
        for n, e, accuracies in [("A", 1.0, (0.5, 0.7)), ("A", 2.0, (0.8, 0.8)), ("B", 1.0, (0.25, 0.75))]
        for r, a in enumerate(accuracies)
    ]
    return ComparisonReport(cells=tuple(cells), dataset="digits", settings={"n_repeats": 2})


def test_summary():
    summary = made().summary()
    assert [(s["contestant"], s["epsilon"], s["n"]) for s in summary] == [("A", 1.0, 2), ("A", 2.0, 2), ("B", 1.0, 2)]
    assert [s["mean"] for s in summary] == pytest.approx([0.6, 0.8, 0.5])
    assert [s["std"] for s in summary] == pytest.approx([0.1 * math.sqrt(2), 0, 0.25 * math.sqrt(2)])
    assert math.isnan(ComparisonReport(cells=made().cells[:1], dataset="d").summary()[0]["std"])


def test_it_prints_as_a_table():
    assert repr(made()).splitlines() == [
        "Accuracy on the test rows of digits at delta = 1e-05 (mean ± standard deviation over repeats):",
        "contestant  epsilon  accuracy       fits",
        "A           1        0.600 ± 0.141  2",
        "A           2        0.800 ± 0.000  2",
        "B           1        0.500 ± 0.354  2",
        "No verdict: there are no two contestants whose answers on the same test rows can be paired.",
    ]
    assert str(made()) == repr(made())


def test_a_report_of_nothing_is_refused():
    with pytest.raises(InvalidInputError, match="at least one fit"):
        ComparisonReport(cells=(), dataset="digits")


def test_notes_say_what_it_cost_and_what_is_not_comparable():
    notes = " ".join(made().notes)
    assert "6 fits on the private data were made" in notes
    assert "Not all state a guarantee, so there is no sum" in notes
    assert "epsilon =" not in notes
    assert "not one release" in notes
    assert "A, B: no privacy statement" in notes
    assert "seeded" not in notes
    assert "The noise was seeded: nothing here is private." in made(seeded=True).notes

    mixed = compare({"A": Stating(), "B": Stating(unit="group")}, small_data(), budgets=BUDGETS, n_repeats=1)
    assert any("do not promise the same (group, replace-one; record, replace-one)" in n for n in mixed.notes)
    assert "They do not promise the same, so there is no sum" in mixed.notes[0]
    assert "epsilon =" not in mixed.notes[0]
    same = compare({"A": Stating(), "B": Stating()}, small_data(), budgets=BUDGETS, n_repeats=2)
    assert "by plain composition all of them cost epsilon = 20 at delta = 8e-05" in same.notes[0]
    assert not any("promise" in n or "no privacy statement" in n for n in same.notes)


def test_a_seeded_statement_is_believed_without_a_noise_seed():
    report = compare({"A": Stating(seeded=True)}, small_data(), budgets=BUDGETS, n_repeats=1)
    assert all(cell.seeded for cell in report.cells)
    assert report.to_dict()["settings"]["noise_seed"] == "given"
    assert compare({"A": Stating()}, small_data(), budgets=BUDGETS).to_dict()["settings"]["noise_seed"] is None


def test_the_dictionary_is_plain_json_with_its_origin():
    report = compare({"A": Stating(), "B": Fake()}, small_data((np.int64(0), 1, 2)), budgets=BUDGETS, n_repeats=2)
    result = json.loads(json.dumps(report.to_dict(command="pate compare"), allow_nan=False))
    assert result["kind"] == "comparison"
    assert result["title"] == "A and B on three"
    assert result["command"] == "pate compare"
    assert result["classes"] == [0, 1, 2]
    assert result["rows"] == report.rows()
    assert [(s["contestant"], s["epsilon"]) for s in result["statements"]] == [("A", 1.0), ("A", 4.0)]
    assert result["settings"]["n_test"] == 90
    assert result["versions"]["pate"]
    assert result["created"].endswith("+00:00")
    for name in ("budget", "answers_per_class", "cost_curve", "statement"):
        assert result[name] is None
    assert ComparisonResult.from_dict(result) == report.result(command="pate compare")


@pytest.mark.long
def test_save_and_plot(tmp_path):
    report = compare({"A": Stating(), "B": Fake()}, small_data(), budgets=BUDGETS, n_repeats=2, out=tmp_path)
    assert report.save(tmp_path, command="pate compare") == tmp_path
    assert json.loads((tmp_path / "results.json").read_text())["rows"] == report.rows()
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "A and B on three" in page
    assert "4 fits" not in page
    assert "8 fits on the private data were made" in page
    report.save(tmp_path)
    other = compare({"A": Fake()}, small_data(), budgets=BUDGETS, n_repeats=1)
    with pytest.raises(RunFolderError, match="results of another comparison"):
        other.save(tmp_path)
    shown = report.plot()
    assert [line.get_label() for line in shown.ax_.get_lines()][:2] == ["A", "B"]
    assert report.plot(ax=shown.ax_).ax_ is shown.ax_


@pytest.mark.long
def test_nothing_made_from_private_rows_is_beside_the_results(tmp_path):
    data = small_data(groups=True)
    compare({"A": Stating(), "B": Fake()}, data, budgets=BUDGETS, n_repeats=1, out=tmp_path).save(tmp_path)
    fingerprints = json.loads((tmp_path / "resume.private" / "fingerprint.json").read_text())["sha256"]
    assert {"private rows", "test rows", "public rows", "noise"} < set(fingerprints)
    files = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert files == {
        "accuracy.png", "accuracy.svg", "cells.jsonl", "config.json", "report.html", "report.md",
        "resume.private/costs.jsonl", "resume.private/fingerprint.json", "results.json",
    }  # fmt: skip
    private = [data.private.X, data.private.y, data.private.groups]
    digests = {*fingerprints.values()} | {hashlib.sha256(a.tobytes()).hexdigest() for a in private}
    for name in files - {"resume.private/fingerprint.json", "resume.private/costs.jsonl"}:
        text = (tmp_path / name).read_bytes().decode("latin-1")
        assert not any(digest in text for digest in digests)
        assert "_seconds" not in text
        assert "mib" not in text
    if sys.platform != "win32":
        assert (tmp_path / "resume.private").stat().st_mode & 0o777 == 0o700
        for name in ("fingerprint.json", "costs.jsonl"):
            assert (tmp_path / "resume.private" / name).stat().st_mode & 0o777 == 0o600


def test_the_commit_is_that_of_this_checkout(tmp_path, monkeypatch):
    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        done = subprocess.run(
            ["git", *identity, "-C", str(tmp_path), *arguments], check=True, capture_output=True, text=True, env=env
        )
        return done.stdout.strip()

    assert _provenance.git_commit(tmp_path) is None
    git("init")
    assert _provenance.git_commit(tmp_path) is None
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "a.txt").write_text("one")
    git("add", "a.txt")
    git("commit", "-m", "first")
    commit = git("rev-parse", "HEAD")
    assert _provenance.git_commit(tmp_path) == commit
    assert _provenance.git_commit(tmp_path / "site-packages") is None
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    assert _provenance.git_commit(tmp_path) == commit
    (tmp_path / "a.txt").write_text("two")
    assert _provenance.git_commit(tmp_path) == f"{commit}-dirty"
    monkeypatch.setenv("PATH", "")
    assert _provenance.git_commit(tmp_path) is None


def test_a_package_that_is_not_there_has_no_version(monkeypatch):
    monkeypatch.setattr(_provenance, "PACKAGES", ("numpy", "no-such-package-here"))
    assert set(_provenance.package_versions()) == {"python", "numpy"}


@pytest.mark.parametrize("damage", [b"[" * 100_000, b"\xff\xfe"], ids=["deep", "no text"])
def test_a_folder_with_fits_that_are_none_is_refused(damage, tmp_path):
    (tmp_path / "results.json").write_text("{}")
    (tmp_path / "cells.jsonl").write_bytes(damage)
    with pytest.raises(RunFolderError, match="does not have the fits"):
        ComparisonReport.load(tmp_path)
