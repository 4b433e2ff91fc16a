"""The sweep of accuracy against epsilon: does it run, go on where it was, and say what is missing?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import pate

ROOT = Path(pate.__file__).parents[1]
SCRIPT = ROOT / "experiments" / "accuracy_vs_epsilon.py"


@pytest.fixture
def parts(monkeypatch):
    """The script's modules, as the script finds them."""
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import _methods
    import _page
    import _summary
    import _sweep

    return _methods, _sweep, _summary, _page


@pytest.fixture
def tiny(parts):
    """Two cells of digits, and one that is cheap, without DP-SGD's torch."""
    methods, sweep, *_ = parts
    spec = methods.DataSpec("digits", n_public=60, n_private=300)
    chosen = {"methods": ("records", "no-privacy"), "epsilons": (2.0,), "seeds": (0,)}
    return replace(sweep.SMOKE, data=(spec,), **chosen)


def made_up(method="records", epsilon=1.0, seed=0, accuracy=0.9, **more):
    key = {"data": "digits", "protocol": "standard", "method": method, "epsilon": epsilon, "seed": seed}
    sizes = {"n_private": 1_038, "n_public": 400, "n_test": 359, "kind": "table", "commonest": 0.11}
    found = {"accuracy": accuracy, "balanced_accuracy": accuracy, "auc": None, "seconds": 2.0}
    common = {"representation_seconds": 0.5, "settings": "s", "guarantee": {"epsilon": epsilon, "delta": 1e-5}}
    return {**key, **sizes, **found, **common, "code": "c" * 64, "commit": "d" * 40, **more}


@pytest.mark.long
def test_resuming_computes_nothing_twice(parts, tiny, tmp_path):
    _, sweep, *_ = parts
    said: list[str] = []
    assert sweep.run(tiny, tmp_path, say=said.append)
    first = sweep.read_rows([tmp_path / "cells.jsonl"])
    assert [row["method"] for row in first] == ["records", "no-privacy"]
    assert first[0]["guarantee"]["epsilon"] <= 2.0
    assert first[0]["accuracy"] > first[0]["commonest"]
    assert sweep.run(tiny, tmp_path, say=said.append)
    assert sweep.read_rows([tmp_path / "cells.jsonl"]) == first
    assert said[-1].startswith("0 of 2 cells")


@pytest.mark.long
def test_a_cut_off_line_is_computed_again(parts, tiny, tmp_path):
    _, sweep, *_ = parts
    file = tmp_path / "cells.jsonl"
    sweep.run(tiny, tmp_path, say=str)
    whole = file.read_bytes()
    file.write_bytes(whole[:-40])
    assert [row["method"] for row in sweep.read_rows([file])] == ["records"]
    sweep.run(tiny, tmp_path, say=str)
    assert [row["method"] for row in sweep.read_rows([file])] == ["records", "no-privacy"]


def test_a_damaged_line_in_the_middle_is_refused(parts, tmp_path):
    _, sweep, *_ = parts
    (tmp_path / "cells.jsonl").write_text('{"data": "di\n{}\n')
    with pytest.raises(SystemExit, match="line 1"):
        sweep.read_rows([tmp_path / "cells.jsonl"])


@pytest.mark.long
def test_cells_of_other_code_or_settings_or_that_failed_are_not_done(parts):
    _, sweep, *_ = parts
    config = sweep.Config()
    spec = config.data[0]
    good = made_up(code=sweep.code_of("records"), config=sweep.settings_of(config, spec))
    assert sweep.done([good], config) == {sweep.row_key(good)}
    refused = {**good, "refused": "no"}
    assert sweep.done([refused], config) == {sweep.row_key(good)}
    other = {**good, "config": {**good["config"], "delta": 1e-6}}
    for row in ({**good, "code": "e" * 64}, other, {**good, "failed": "no"}):
        assert sweep.done([row], config) == set()


@pytest.mark.long
def test_a_failing_cell_is_reported_and_the_others_go_on(parts, tiny, tmp_path, monkeypatch):
    methods, sweep, *_ = parts

    def fails(problem, budget, code):
        raise RuntimeError("made up")

    def refuses(problem, budget, code):
        raise methods.Refused("nothing to be had")

    monkeypatch.setitem(sweep.METHODS, "heads", fails)
    monkeypatch.setitem(sweep.METHODS, "shards", refuses)
    config = replace(tiny, methods=("heads", "shards", "no-privacy"))
    assert not sweep.run(config, tmp_path, say=str)
    rows = sweep.read_rows([tmp_path / "cells.jsonl"])
    assert rows[0]["failed"] == "RuntimeError: made up"
    assert rows[1]["refused"] == "nothing to be had"
    assert rows[2]["accuracy"] > 0.5
    assert {key[2] for key in sweep.done(rows, config)} == {"shards", "no-privacy"}


def test_the_digest_of_code_sees_what_code_does_and_not_what_is_said_of_it(parts, tmp_path):
    _, sweep, *_ = parts
    texts = ('"""One."""\nx = 1\n', '"""Two."""\n# why\nx  =  1\n', "x = 2\n")
    files = [tmp_path / f"{i}.py" for i in range(3)]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    first, again, other = (sweep._digest_of(file) for file in files)
    assert first == again != other


def test_a_method_is_what_its_function_leads_to(parts, tmp_path):
    _, sweep, *_ = parts
    whole = (
        "from m import a, b\nRATE = 1\n"
        "def help(x): return a(x, RATE)\ndef f(x): return help(x)\ndef g(x): return b(x)\n"
    )
    changes = {"none": whole, "constant": whole.replace("RATE = 1", "RATE = 2"),
               "helper": whole.replace("return a(", "return 2 * a("), "import": whole.replace("from m", "from n"),
               "other": whole.replace("return b(", "return 2 * b("),
               "other's import": whole.replace("a, b", "a")}  # fmt: skip
    digests = {}
    for place, (name, text) in enumerate(changes.items()):
        file = tmp_path / f"{place}.py"
        file.write_text(text)
        digests[name] = sweep._digest_of_function(file, "f")
    assert {name for name, digest in digests.items() if digest == digests["none"]} == {
        "none",
        "other",
        "other's import",
    }
    assert len(set(digests.values())) == 4


def test_means_and_deviations_of_made_up_cells(parts):
    _, sweep, summary, _ = parts
    config = replace(sweep.Config(), methods=("records", "dp-sgd"), epsilons=(1.0,), seeds=(0, 1, 2))
    rows = [made_up(seed=0, accuracy=0.5), made_up(seed=0, accuracy=0.9), made_up(seed=1, accuracy=0.94)]
    rows += [{**made_up(seed=1), "failed": "later"}, made_up(seed=7, accuracy=0.1), made_up(epsilon=2.0)]
    found = summary.summarise(rows, config)
    (row,) = found["summary"]
    # The later of two words on seed 0; a later failure takes nothing back; no one asked for seed 7 or epsilon 2.
    assert row["accuracy"]["mean"] == pytest.approx(0.92)
    assert row["accuracy"]["sd"] == pytest.approx(0.04 / 2**0.5)
    assert row["accuracy"]["n"] == 2
    assert row["seeds"] == [0, 1]
    assert row["auc"]["mean"] is None
    missing = {(m["data"], m["method"]): m["missing"] for m in found["missing"]}
    assert missing["digits", "records"] == 1
    assert missing["digits", "dp-sgd"] == 3
    assert {"commit", "created", "versions", "commits", "seeds"} <= set(found)


def test_what_new_cells_do_not_tell_stays_as_it_was_stored(parts):
    _, sweep, summary, _ = parts
    config = replace(sweep.Config(), methods=("records", "dp-sgd"), epsilons=(1.0,), seeds=(0, 1))
    stored = summary.summarise([made_up(accuracy=0.5), made_up("dp-sgd", accuracy=0.7, commit="e" * 40)], config)
    new = summary.summarise([made_up(seed=s, accuracy=0.9) for s in (0, 1)], config)
    found = summary.merged(new, stored)
    assert {r["method"]: (r["accuracy"]["mean"], r["accuracy"]["n"]) for r in found["summary"]} == {
        "records": (pytest.approx(0.9), 2), "dp-sgd": (pytest.approx(0.7), 1)
    }  # fmt: skip
    missing = {(m["data"], m["method"]): m["missing"] for m in found["missing"]}
    assert ("digits", "records") not in missing
    assert missing["digits", "dp-sgd"] == 1
    assert found["commits"] == ["d" * 40, "e" * 40]


def test_the_page_says_what_is_reached_missed_and_missing(parts):
    _, sweep, summary, page = parts
    config = replace(sweep.Config(), epsilons=(0.5, 1.0, 3.0), seeds=(0, 1))
    rows = [made_up(epsilon=0.5, seed=s, accuracy=0.92) for s in (0, 1)]
    rows += [made_up(epsilon=1.0, seed=0, accuracy=0.9), {**made_up("pate-2018", 0.5), "refused": "buys | nothing"}]
    del rows[-1]["accuracy"]
    found = json.loads(json.dumps(summary.summarise(rows, config)))
    text = page.write_page(found, "images/a.png")
    assert "**reached**: 92.00" in text
    assert "missed by 3.50: 90.00 (1 of 2 seeds)" in text
    assert "92.00 ± 0.00" in text
    assert "90.00 (1)" in text
    assert "![" in text
    assert "buys / nothing" in text
    assert "dp-sgd 6 of 6" in text
    assert page.draw(found).startswith(b"\x89PNG")


def test_a_table_must_be_ahead_of_every_dp_sgd(parts):
    _, sweep, summary, page = parts
    config = replace(sweep.Config(), epsilons=(1.0, 3.0), seeds=(0,))
    rows = [made_up(m, data="spambase", accuracy=a) for m, a in
            (("records", 0.9), ("dp-sgd", 0.88), ("dp-sgd-representation", 0.91), ("dp-sgd-best", 0.9))]  # fmt: skip
    found = summary.summarise(rows, config)
    ((epsilon, bar, verdict, student),) = page.verdicts(found, {"data": "spambase", "protocol": "standard"})
    assert (epsilon, bar) == ("1", "over 91.00")
    assert verdict.startswith("missed by 1.00")
    assert student == "not there yet"


def test_a_page_of_nothing_is_a_page(parts):
    _, sweep, summary, page = parts
    found = summary.summarise([], sweep.Config())
    assert page.draw(found) is None
    assert "not computed yet" in page.write_page(found, None)


@pytest.mark.slow
def test_smoke(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, SCRIPT, "--smoke"], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert "[18/18]" in done.stdout
    assert "wrote result.json, accuracy.md, a.png" in done.stdout
