"""Ctrl-C in tests and in jobs whose shell has them ignore it (``nohup``, the background)."""

import ast
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from signals import heard_ctrl_c

from pate.teachers._shards import interruptible

PRESS = "import os, signal; os.kill(os.getpid(), signal.SIGINT); print('went on')"


@pytest.fixture
def in_background():
    """As a job that was started with ``&`` from a script."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def press():
    done = subprocess.run([sys.executable, "-c", PRESS], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.strip()


@pytest.mark.usefixtures("in_background")
def test_the_fixture_lets_this_process_and_its_children_hear_ctrl_c():
    assert press() == (0, "went on")
    with heard_ctrl_c():
        assert press() == (-signal.SIGINT, "")
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.usefixtures("in_background")
def test_a_job_that_is_to_ignore_ctrl_c_goes_on():
    with interruptible():
        signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.long
def test_every_test_that_presses_ctrl_c_uses_the_fixture():
    without = []
    for file in Path(__file__).parents[1].rglob("test_*.py"):
        if file.name == Path(__file__).name:
            continue
        text = file.read_text(encoding="utf-8")
        if "SIGINT" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                body = ast.get_source_segment(text, node) or ""
                marks = " ".join(ast.unparse(mark) for mark in node.decorator_list)
                if "SIGINT" in body + marks and "usefixtures('ctrl_c')" not in marks:
                    without.append(f"{file.name}::{node.name}")
    assert without == []
