"""Refusals at the command line name its own options and values, nothing of Python's; in one process, as it is quick."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pandas as pd
import pytest

from pate.cli import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 3)).round(3), columns=["a", "b", "c"])
    frame[:40].add(0.0005).to_csv(tmp_path / "q.csv", index=False)
    frame["ill"], frame["small"] = np.where(frame["a"] > 0, "yes", "no"), (frame["b"] < 0).astype(int)
    frame.to_csv(tmp_path / "p.csv", index=False)
    np.save(tmp_path / "v.npy", rng.integers(0, 2, (50, 20)))
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main sets its own
    monkeypatch.chdir(tmp_path)
    return tmp_path


LABEL = "label --private p.csv --drop small --epsilon 1 --out b.csv --plan --classes no,yes --target ill"
BOTH = f"{LABEL} --public q.csv"
VOTES = "label --votes v.npy --classes no,yes --epsilon 1 --out b.csv --plan --new-ledger"
TRAIN = "train --private p.csv --target ill --classes no,yes --epsilon 1 --model t.pate --plan"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (f"{BOTH} --epsilon x", "--epsilon must be a number, got 'x'"),
        (f"{BOTH} --stated foo=bar", "--stated has the unknown entry 'foo'"),
        (f"{BOTH} --mechanism gnmax --sigma 0", ">= 0.001, got 0.0. It says how large the noise is, in votes."),
        (f"{BOTH} --mechanism lnmax --sigma 4", "missing: --scale; not for it: --sigma."),
        (f"{BOTH} --mechanism gnmax --sigma 40 --gap 3", "--gap must be left out for GNMax(sigma=40.0), got 3.0"),
        (f"{BOTH} --rounds 3", "--rounds and --student are for --select uncertain"),
        (f"{BOTH} --voters records --teachers 9", "--voters records cannot go with --teachers: only teachers"),
        (f"{BOTH} --teachers 20 --decide balanced --force", "teachers on shards vote, got 'balanced'. Leave it out."),
        (f"{BOTH} --range a=0:1", "--range must be left out with --voters records: the public rows tell"),
        (f"{BOTH} --accounting-unit foo", "or 'renyi:ORDER', such as 'renyi:12.5', got 'foo'."),
        (f"{BOTH} --accounting-unit renyi:0", "ORDER of 'renyi:ORDER' must be a finite number > 1, got 0.0"),
        (f"{BOTH} --accounting-unit pure", "counts in pure epsilon, and cannot pay for the Gaussian noise"),
        (f"{BOTH} --config p.csv", "--config must end in .toml, got 'p.csv'"),
        (f"{BOTH} --jobs 0", "--jobs must be left out or a whole number other than 0, got 0"),
        (f"{BOTH} --partition-seed -1", "--partition-seed must be a whole number >= 0, got -1"),
        (f"{LABEL} --ranges no.toml", "--ranges 'no.toml' cannot be read: No such file or directory."),
        (f"{LABEL} --range a=0", "--range of 'a' must name 2 to 256 categories, got 1"),
        (f"{LABEL} --range z=0:1", "--range names columns that p.csv lacks: 'z'"),
        (f"{LABEL} --range a=0:1 --no-model", "--no-model must be left out where there are no public rows"),
        (f"{LABEL} --range ill=no,yes", "--range must not name 'ill': that is the target"),
        (
            "label --private p.csv --public q.csv --classes a,b --epsilon 1 --out b.csv",
            "to be learnt, and was left out.",
        ),
        (
            "label --private p.csv --public q.csv --target small --drop ill --numeric --epsilon 3 --out b.csv --plan",
            "--range is missing: with --numeric say what the target lies between",
        ),
        (f"{VOTES} --student mlp", "Name the public table too, line for line: --public."),
        (f"{VOTES} --id x", "--id must be left out without public rows, got 'x'"),
        (f"{VOTES} --kind counts", "v.npy holds no counts: its rows do not all sum"),
        ("account v.npy --mechanism gnmax --sigma 40 --delta 1e-5", "a row of class indices for each teacher)?"),
        ("compare --dataset digits --epsilons 0 --out cmp", "--epsilons must be a finite number > 0"),
        ("compare --dataset digits --epsilons 1 --public 0 --out cmp", "--public must be a whole number >= 1, got 0"),
        (
            "plan --epsilon 1 --classes 2 --records 500 --public 5 --teachers 50",
            "--queries must be given with --teachers",
        ),
        ("plan --epsilon 1 --classes 2 --records 500 --public 500 --teachers 0", "--queries must be given with"),
        (f"{TRAIN} --schema no.toml", "the schema 'no.toml' cannot be read: No such file or directory."),
        ("ledger begin /proc/n.sqlite --epsilon 1 --delta 1e-5", "cannot be opened: No such file or directory."),
        ("ledger show none.sqlite", "Name the file that pate label or pate ledger begin made."),
    ],
)
def test_a_refusal_is_in_the_words_of_the_command_line(folder, monkeypatch, capsys, command, text):
    monkeypatch.setattr(sys, "argv", ["pate", *command.split()])
    with pytest.raises(SystemExit) as stop:
        main()
    said = capsys.readouterr().err
    assert stop.value.code == 2, said
    assert text in said
    assert "error: " in said
    assert not any(odd in said for odd in ("None", "Errno", "schema (", "(--public, ", "Traceback"))


def test_a_head_without_a_ledger_is_refused(folder, monkeypatch, capsys):
    (folder / "s.json").write_text("{}")
    monkeypatch.setattr(sys, "argv", ["pate", "statement", "s.json", "--head", "ab"])
    with pytest.raises(SystemExit):
        main()
    assert "--head is compared with a ledger, and --ledger is missing" in capsys.readouterr().err
