"""Run folders: results are never overwritten, and what is sensitive lies beside them, for its owner only."""

from __future__ import annotations

import os
import stat

import pytest

from pate.comparison.studies._folders import RunFolder
from pate.exceptions import PateError, RunFolderError


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_folder_has_its_private_neighbour(tmp_path):
    folder = RunFolder.new(tmp_path / "a" / "run")
    assert folder.public == tmp_path / "a" / "run"
    assert folder.private == tmp_path / "a" / "run.private"
    assert list(folder.public.iterdir()) == []
    assert "SENSITIVE" in (folder.private / "README.txt").read_text()


def test_what_is_sensitive_is_for_its_owner_only(tmp_path):
    before = os.umask(0)  # the most open there is
    try:
        folder = RunFolder.new(tmp_path / "run")
    finally:
        os.umask(before)
    assert mode(folder.private) == 0o700
    assert mode(folder.private / "README.txt") == 0o600


def test_a_private_folder_left_open_is_closed(tmp_path):
    (tmp_path / "run.private").mkdir()
    (tmp_path / "run.private").chmod(0o755)
    assert mode(RunFolder.new(tmp_path / "run").private) == 0o700


def test_names_with_dots_keep_them(tmp_path):
    assert RunFolder.new(tmp_path / "run.eps1.5").private.name == "run.eps1.5.private"


def test_results_are_never_overwritten(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "old.txt").write_text("result")
    with pytest.raises(RunFolderError, match=r"out='.*run' is not empty.*name another folder"):
        RunFolder.new(tmp_path / "run")
    assert [p.name for p in tmp_path.iterdir()] == ["run"]
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunFolderError):
        RunFolder.new(tmp_path / "file")
    with pytest.raises(FileExistsError):
        RunFolder.new(tmp_path / "file")


def test_a_hidden_file_counts(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".hidden").write_text("x")
    with pytest.raises(RunFolderError):
        RunFolder.new(tmp_path / "run")


def test_an_empty_folder_is_taken_and_a_killed_run_goes_on(tmp_path):
    (tmp_path / "run").mkdir()
    folder = RunFolder.new(tmp_path / "run")
    (folder.private / "teacher").write_text("kept")
    again = RunFolder.new(tmp_path / "run")
    assert again == folder
    assert (again.private / "teacher").read_text() == "kept"


def test_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    try:
        folder = RunFolder.new(".")
    except PateError:
        return  # a clear refusal would do as well
    assert folder.private.resolve() == (tmp_path / "run.private").resolve()


def test_a_file_where_the_private_folder_should_be(tmp_path):
    (tmp_path / "run.private").write_text("x")
    with pytest.raises(PateError):
        RunFolder.new(tmp_path / "run")
