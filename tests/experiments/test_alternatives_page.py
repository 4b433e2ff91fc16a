"""What people use instead: the page is that of the stored result, and theirs are told of public rows alone."""

from __future__ import annotations

import json
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pate import Budget
from pate.comparison.contract import Setting

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    import alternatives

    yield alternatives
    for name in ("alternatives", "_alternatives_page", "_choosing_data", "_tables"):
        sys.modules.pop(name, None)


def stored_by(script):
    return json.loads(script.RESULT.read_text(encoding="utf-8"))


def test_the_page_is_that_of_the_stored_result(script):
    import _alternatives_page

    written = script.PAGE.read_text(encoding="utf-8")
    assert written == _alternatives_page.page(stored_by(script)), "run python experiments/alternatives.py --page"


def test_every_method_is_there_at_every_epsilon_in_every_repeat(script):
    stored = stored_by(script)
    assert {question["name"] for question in stored["questions"]} <= set(script.ASKED)
    for question in stored["questions"]:
        of = [(row["contestant"], row["epsilon"], row["repeat"]) for row in question["rows"]]
        names = [c.name for c in script.contestants(question["n_classes"])]
        private = [name for name in names if name not in script._REFERENCES]
        wanted = [(name, e, r) for name in private for e in script.EPSILONS for r in range(question["repeats"])]
        wanted += [(name, None, r) for name in script._REFERENCES for r in range(question["repeats"])]
        assert sorted(of, key=str) == sorted(wanted, key=str)
        assert ("dp-ebm" in names) == (question["n_classes"] == 2)
        assert not any(row["refused"] for row in question["rows"])


def test_the_settings_taken_are_the_best_of_those_tried(script):
    means: dict[tuple[str, str, bool], list[float]] = {}
    for row in stored_by(script)["development"]:
        two = row["data"] in ("spambase", "adult")
        means.setdefault((row["kind"], json.dumps(row["settings"]), two), []).append(row["accuracy"])

    def best(kind, two):
        mine = {settings: np.mean(of) for (k, settings, t), of in means.items() if (k, t) == (kind, two)}
        everywhere = {s for s in mine if len(means[kind, s, two]) == 2 * 2 * len(script.EPSILONS)}  # on all data
        return json.loads(max(everywhere, key=mine.get))

    assert best("LogisticOfComponents", True) == {"tail": script.TAIL, "n_components": 8, "norm": "median"}
    assert best("Boosting", True) == {"tail": script.TAIL}
    assert best("LogisticOfComponents", False)["n_components"] == script.COMPONENTS_OF_MORE
    assert script.COMPONENTS_OF_TWO == 8


def test_a_missing_package_is_named_with_what_to_install(script, monkeypatch):
    def none_of_them(name):
        raise script.PackageNotFoundError(name)

    monkeypatch.setattr(script, "version", none_of_them)
    with pytest.raises(SystemExit, match=r"diffprivlib, interpret-core must be installed.*pip install"):
        script.check_packages()


def test_columns_are_read_off_public_rows_alone(script):
    public = pd.DataFrame({"age": [20.0, 30.0, 40.0], "job": ["a", "b", None]})
    private = pd.DataFrame({"age": [90.0, np.nan], "job": ["never seen", None]})
    columns = script.PublicColumns(public, tail=0.0)
    assert columns.unit(private).tolist() == [[1.0, 0.0, 0.0, 0.0], [0.5, 0.0, 0.0, 1.0]]
    assert columns.clipped(private)["age"].tolist() == [40.0, 30.0]
    assert columns.width == 4
    flat = script.PublicColumns(np.array([[1.0, 5.0], [3.0, 5.0]]), tail=0.0)
    assert flat.unit(np.array([[2.0, 7.0]])).tolist() == [[0.5, 1.0]]  # a constant column keeps a range


def test_a_row_is_prepared_alike_whatever_stands_beside_it(script):
    rng = np.random.default_rng(0)
    columns = script.PublicColumns(rng.normal(size=(50, 3)), tail=0.05)
    rows = 3 * rng.normal(size=(20, 3))
    assert (columns.unit(rows)[:1] == columns.unit(rows[:1])).all()
    assert columns.unit(rows).min() == 0.0
    assert columns.unit(rows).max() == 1.0


class Told:
    """Stands for another library's classifier: keeps what it was told."""

    seen: types.SimpleNamespace

    def __init__(self, **said):
        Told.seen = types.SimpleNamespace(said=said)

    def fit(self, X, y):
        Told.seen.X, self.first = X, y[0]
        if self.seen.said.get("leaks"):
            warnings.warn("Possible privacy violation: assuming bounds", UserWarning, stacklevel=1)
        return self

    def predict(self, X):
        return np.full(len(X), self.first)


@pytest.fixture
def theirs(monkeypatch):
    models, privacy = types.ModuleType("diffprivlib.models"), types.ModuleType("interpret.privacy")
    models.LogisticRegression = models.RandomForestClassifier = Told
    privacy.DPExplainableBoostingClassifier = Told
    for name, module in (
        ("diffprivlib", types.ModuleType("diffprivlib")),
        ("diffprivlib.models", models),
        ("interpret", types.ModuleType("interpret")),
        ("interpret.privacy", privacy),
    ):
        monkeypatch.setitem(sys.modules, name, module)


def test_theirs_are_told_what_they_need_by_public_rows(script, theirs):
    rng = np.random.default_rng(0)
    X, public = 50 * rng.normal(size=(40, 9)), rng.normal(size=(60, 9))
    y = rng.integers(0, 2, 40)
    budget = Budget(0.5, 1e-5)
    facts = {"classes": (0, 1), "X_public": public, "kind": "table", "n_records": 40, "n_units": 40, "seed": 0}
    for contestant in script.THEIRS:
        model = contestant.make(Setting(budget=budget, **facts)).fit(X, y, X_public=public)
        said = dict(Told.seen.said)
        assert said.pop("epsilon") == 0.5
        assert "random_state" not in said, "a seed would make their noise known"
        if "logistic" in contestant.name:
            rows = model._rows(public)
            norms = np.linalg.norm(rows, axis=1)
            wanted = np.median(norms) if contestant.name.endswith("pca") else norms.max()
            assert said["data_norm"] == pytest.approx(wanted)
            assert Told.seen.X.shape == (40, 8 if contestant.name.endswith("pca") else 9)
        elif contestant.name == "dp-ebm":
            assert said["delta"] == 1e-5
            bounds = np.array(list(said["privacy_bounds"].values()))
            assert bounds == pytest.approx(np.quantile(public, [0.05, 0.95], axis=0).T)
            assert set(said["feature_types"]) == {"continuous"}
        else:
            assert said["bounds"] == (0.0, 1.0)
            assert list(said["classes"]) == [0, 1]
            assert Told.seen.X.min() >= 0.0
            assert Told.seen.X.max() <= 1.0
        assert model.predict(public).shape == (60,)
        assert model.settings_


def test_their_warning_about_privacy_ends_the_run(script):
    with pytest.raises(UserWarning, match="privacy violation"), script.no_leak():
        Told(leaks=True).fit(np.zeros((1, 1)), [0])
    with script.no_leak():
        warnings.warn("lbfgs failed to converge", UserWarning, stacklevel=1)


def test_of_more_than_two_classes_fewer_components_are_taken(script, theirs):
    rng = np.random.default_rng(0)
    y = np.arange(30) % 3
    model = script.LogisticOfComponents(budget=Budget(1.0, 1e-5), classes=(0, 1, 2))
    model.fit(rng.normal(size=(30, 9)), y, X_public=rng.normal(size=(30, 9)))
    assert Told.seen.X.shape == (30, script.COMPONENTS_OF_MORE)
