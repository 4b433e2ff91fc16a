"""The page of reproduced tables says what the stored results say, and these follow from what was measured."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import FrozenInstanceError, asdict
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "experiments" / "reproduce"
STORED = FOLDER.parent / "results" / "reproduce"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*_*.py") if not path.stem.startswith("_"))
RESULTS = sorted(path.stem for path in STORED.glob("*.json"))


@pytest.fixture
def script(monkeypatch):
    """Import a script of the folder by name; afterwards none of them is left."""
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == FOLDER:
            del sys.modules[name]


def stored(name):
    return json.loads((STORED / f"{name}.json").read_text(encoding="utf-8"))


def test_the_published_page_is_that_of_the_stored_results(script):
    made = script("page").page(STORED)
    assert made == (FOLDER.parents[1] / "docs" / "reproduction.md").read_text(encoding="utf-8")


def test_every_script_is_run_by_all(script):
    assert sorted(script("all").SCRIPTS) == SCRIPTS
    assert set(RESULTS) <= set(SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_configs_are_frozen_and_say_what_was_published(name, script):
    module = script(name)
    config = module.Config()
    with pytest.raises(FrozenInstanceError):
        config.seeds = (1,)
    name_of = module.NAME
    assert name_of == name
    assert len({f.key for f in config.figures}) == len(config.figures)
    for figure in config.figures:
        assert figure.source
        assert (figure.published is None) == (figure.tolerance is None)
        assert figure.tolerance is None or 0 < figure.tolerance <= 0.25 * figure.published


@pytest.mark.parametrize("name", RESULTS)
def test_results_follow_from_their_config_and_their_measurements(name, script):
    result, config = stored(name), script(name).Config()
    settings = json.loads(json.dumps(asdict(config)))
    figures = settings.pop("figures")
    assert result["config"] == settings
    wanted = [(f["what"], f["source"], f["published"], f["tolerance"], f["why"]) for f in figures]
    assert [(r["what"], r["source"], r["published"], r["tolerance"], r["why"]) for r in result["lines"]] == wanted
    for row in result["lines"]:
        mean = row["ours"]["mean"]
        assert (row["within"] is None) == (mean is None or row["published"] is None)
        assert (row["not_run"] is None) == (mean is not None)
        if mean is not None and row["published"] is not None:
            assert row["within"] == (abs(mean - row["published"]) <= row["tolerance"] + 1e-9)
            assert row["within"] or row["why"], f"{row['what']}: not within, and not explained"


def test_at_least_twelve_published_numbers_are_measured():
    rows = [row for name in RESULTS for row in stored(name)["lines"]]
    assert sum(row["published"] is not None and row["ours"]["mean"] is not None for row in rows) >= 12


def test_a_table_says_what_is_missing_and_who_is_within(script):
    module = script("_table")
    figures = [
        module.Figure("a", "a", "s", 2.0, 0.1),
        module.Figure("b", "b", "s", 2.0, 0.1, "why"),
        module.Figure("c", "c", "s", 2.0, 0.1),
        module.Figure("d", "d", "s"),
    ]
    cells = [
        {"seed": 0, "values": {"a": 1.95, "b": 3, "c": "not run: no file", "d": 1.0}},
        {"seed": 4, "values": {"a": 2.15, "b": 4, "c": "not run: no file"}},
    ]
    a, b, c, d = module.table(figures, cells)
    assert (a["within"], b["within"], c["within"], d["within"]) == (True, False, None, None)
    assert a["ours"] == {"mean": pytest.approx(2.05), "sd": pytest.approx(0.1414, abs=1e-4), "seeds": [0, 4]}
    assert (c["ours"]["mean"], c["not_run"]) == (None, "not run: no file")
    assert d["ours"] == {"mean": 1.0, "sd": None, "seeds": [0]}


def test_what_is_finished_is_not_computed_again_unless_a_setting_changes(script, tmp_path):
    from dataclasses import replace

    module, accounting = script("_table"), script("dpsgd_accounting")
    asked = []

    def measure(config, seed):
        asked.append((config.delta, seed))
        return {f.key: 1.0 for f in config.figures}

    config = replace(accounting.SMOKE, seeds=(0, 1))

    def run(config):
        return module.reproduce("made_up", "made up", config, measure, work=tmp_path)

    first = run(config)
    assert run(replace(config, figures=config.figures[:2]))["lines"] == first["lines"][:2]
    assert asked == [(1e-5, 0), (1e-5, 1)]
    run(replace(config, seeds=(0, 1, 2)))
    assert asked[2:] == [(1e-5, 2)]
    run(replace(config, delta=1e-6))
    assert asked[3:] == [(1e-6, 0), (1e-6, 1)]


def test_the_accounting_of_dp_sgd_is_what_is_stored(script):
    module = script("dpsgd_accounting")
    found = module.measure(module.SMOKE, 0)
    rows = {row["what"]: row["ours"]["mean"] for row in stored("dpsgd_accounting")["lines"]}
    for figure in module.SMOKE.figures:
        assert found[figure.key] == pytest.approx(rows[figure.what], rel=1e-6)


def table_of(name, module):
    """What is stored, by the figures' keys."""
    rows = {row["what"]: row["ours"]["mean"] for row in stored(name)["lines"]}
    return {f.key: rows[f.what] for f in module.Config().figures}


@pytest.mark.long
def test_the_2017_epsilons_are_what_is_stored(script, data_home, mnist2018_counts):
    module = script("papernot2017_epsilons")
    found, before = module.measure(module.SMOKE, 0), table_of("papernot2017_epsilons", module)
    for key in ("few", "many", "few text", "many text"):
        assert found[key] == pytest.approx(before[key], rel=1e-6)


@pytest.mark.long
def test_the_2018_epsilon_is_what_is_stored(script, mnist2018_counts):
    module = script("papernot2018_epsilons")
    config = module.Config()
    found = module.as_published("mnist", mnist2018_counts, config.mnist, config.draws, seed=0)
    before = table_of("papernot2018_epsilons", module)
    assert found == pytest.approx({key: before[key] for key in found}, rel=1e-6)


def test_without_the_file_of_votes_a_line_says_so(script, monkeypatch, tmp_path):
    module = script("papernot2018_epsilons")
    monkeypatch.setenv("PATE_DATA_HOME", str(tmp_path))
    missing = module.or_why_not(lambda: module.published_counts("svhn_250_teachers").sum(), "svhn")["svhn"]
    archive = "https://storage.googleapis.com/pate-votes/votes.gz"
    assert missing == f"not run: put svhn_250_teachers.npy of {archive} into PATE_DATA_HOME"
    assert str(tmp_path) not in missing
    rows = [row for name in RESULTS for row in stored(name)["lines"] if row["not_run"] and row["published"]]
    assert {row["not_run"] for row in rows} <= {missing, missing.replace("svhn", "adult")}
    import numpy as np

    np.save(tmp_path / "svhn_250_teachers.npy", np.full((4, 10), 25))
    assert (module.published_counts("svhn_250_teachers") == 25).all()
    np.save(tmp_path / "svhn_250_teachers.npy", np.full((4, 10), 26))
    said = module.or_why_not(lambda: module.published_counts("svhn_250_teachers").sum(), "svhn")
    assert "does not hold counts of 250 teachers" in said["svhn"]
