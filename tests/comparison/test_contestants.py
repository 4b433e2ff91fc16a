"""Contestants by name: all of them fit, keep their budget under one adjacency, and are set by public facts alone."""

import inspect
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from pate import GNMax, Queries
from pate.comparison.contestants import (
    NAMES,
    Fast,
    HeadAlone,
    HeadOfColumns,
    default_contestants,
    named,
    plan_shards,
    planned,
)
from pate.comparison.contract import Contestant, Setting
from pate.data import load_dataset
from pate.data._named.datasets import HeldOutRows, PrivateRows, PublicRows
from pate.dpsgd import DPSGDClassifier
from pate.estimators import PATEClassifier
from pate.exceptions import InvalidInputError
from pate.models.recipes import PublicFacts, choose
from pate.models.students import VoteSpreading
from pate.privacy.budget import Budget
from pate.report.result import ROLES

DELTA = 1e-4
OF_IMAGES = ("dpsgd-linear-scattering", "dpsgd-tempered-cnn")
OF_ALL = [name for name in NAMES if name not in OF_IMAGES]
PRIVATE = [name for name in OF_ALL if named([name])[0].role == "private"]
FLOORS = [name for name in OF_ALL if named([name])[0].role == "floor"]


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits", n_public=150, n_private=400, random_state=3)


@pytest.fixture(scope="module")
def images():
    """Two classes of drawn images of 16 x 16 pixels: bars that stand, and bars that lie."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=260)
    X = rng.uniform(0, 0.3, size=(260, 16, 16)).astype(np.float32)
    for image, label, at in zip(X, y, rng.integers(3, 12, size=260), strict=True):
        image[(slice(None), at) if label else (at, slice(None))] = 1.0
    X = X.reshape(260, 256)
    return _cut("bars", X, y, image_shape=(16, 16), kind="image", n_classes=2)


@pytest.fixture(scope="module")
def table():
    """Columns of categories and of numbers."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=400)
    colour = np.where(rng.uniform(size=400) < 0.85, np.array(["red", "blue"])[y], "green")
    X = pd.DataFrame({"colour": colour, "town": rng.choice(["a", "b"], 400), "size": rng.normal(size=400) + y})
    return _cut("made", X, y, image_shape=None, kind="table", n_classes=2)


def _cut(name, X, y, *, image_shape, kind, n_classes):
    digits = load_dataset("digits", n_public=100)

    def rows(a, b):
        return X.iloc[a:b] if hasattr(X, "iloc") else X[a:b]

    return replace(
        digits,
        name=name,
        kind=kind,
        image_shape=image_shape,
        classes=tuple(range(n_classes)),
        private=PrivateRows(rows(0, 150), y[:150], None),
        public=PublicRows(rows(150, 210), y[150:210]),
        test=HeldOutRows(rows(210, len(y)), y[210:]),
    )


def grouped(data, n_persons=100):
    return replace(data, private=replace(data.private, groups=np.arange(len(data.private.y)) % n_persons))


def setting_of(name, data, *, epsilon=3.0, **more):
    more = {"seed": 11, "noise_seed": 5, **more}
    return Setting.of(data, named([name])[0], budget=Budget(epsilon, DELTA), **more)


def fitted(name, data, *, X=None, y=None, **more):
    model = named([name])[0].make(setting_of(name, data, **more))
    offered = {"X_public": data.public.X, "groups": data.private.groups}
    takes = inspect.signature(model.fit).parameters
    X, y = data.private.X if X is None else X, data.private.y if y is None else y
    return model.fit(X, y, **{k: v for k, v in offered.items() if k in takes})


def check_fit(name, data, unit="record"):
    contestant, model = named([name])[0], fitted(name, data)
    labels = model.predict(data.test.X)
    assert labels.shape == data.test.y.shape
    assert set(np.unique(labels)) <= set(range(len(data.classes)))
    if hasattr(model, "predict_proba"):
        p = np.asarray(model.predict_proba(data.test.X))
        assert p.shape == (len(labels), len(data.classes))
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-5)
    if contestant.role != "private":
        assert not hasattr(model, "statement_")
        return model
    promised = model.statement_.guarantee
    assert promised.epsilon <= 3.0
    assert promised.delta <= DELTA
    assert (promised.adjacency, promised.directions) == ("replace-one", "both")
    assert model.statement_.unit == unit
    assert model.statement_.seeded
    return model


@pytest.mark.few(2)
@pytest.mark.filterwarnings("ignore::pate.exceptions.PateWarning")
@pytest.mark.parametrize("name", OF_ALL)
def test_everybody_fits_digits_within_the_budget(name, digits):
    check_fit(name, digits)


@pytest.mark.few(2)
@pytest.mark.filterwarnings("ignore::pate.exceptions.PateWarning")
@pytest.mark.parametrize("name", OF_ALL)
def test_everybody_fits_a_table_with_categories(name, table):
    check_fit(name, table)


@pytest.mark.few(1)
@pytest.mark.filterwarnings("ignore::pate.exceptions.PateWarning")
@pytest.mark.parametrize("name", PRIVATE)
def test_persons_are_the_unit_of_everybody(name, digits):
    data = grouped(digits)
    assert setting_of(name, data).n_units == 100
    check_fit(name, data, unit="group")


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::pate.exceptions.PateWarning")
def test_interactive_gnmax_pays_for_answers_and_marks_its_students_labels(digits):
    plain, rounds = (fitted(name, digits) for name in ("confident-gnmax", "interactive-gnmax"))
    assert rounds.statement_.guarantee == plain.statement_.guarantee
    assert np.array_equal(rounds.queries_, plain.queries_)
    release = rounds.release_
    assert set(release.status) <= {"answered", "refused", "not asked", "reinforced"}
    assert release.n_answered == (release.status == "answered").sum() <= release.quote.max_answers
    assert ((release.labels >= 0) == np.isin(release.status, ["answered", "reinforced"])).all()
    assert "offsets off the counts" in rounds.statement_.mechanism
    assert "adaptive" in rounds.statement_.released


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::pate.exceptions.PateWarning")
@pytest.mark.parametrize(
    "name",
    [
        "dpsgd-linear-scattering",
        pytest.param("dpsgd-tempered-cnn", marks=pytest.mark.slow),
        "pate-fast",
        "no-privacy",
    ],
)
def test_images_too(name, images):
    model = check_fit(name, images)
    if name in ("pate-fast", "no-privacy"):
        assert (model.predict(images.test.X) == images.test.y).mean() > 0.8


@pytest.mark.parametrize("name", OF_IMAGES)
def test_who_is_for_images_alone_says_so_before_anything_is_fitted(name, digits):
    with pytest.raises(InvalidInputError, match=f"{name}.*images of at least 16 pixels.*'dpsgd'"):
        named([name])[0].make(setting_of(name, digits))
    for shape in (None, (8, 8)):
        with pytest.raises(InvalidInputError, match=name):
            named(["dpsgd", name], kind="image", image_shape=shape)
    assert named([name], kind="image", image_shape=(1, 28, 28))[0].name == name


@pytest.mark.parametrize("name", FLOORS)
def test_floors_see_no_private_row(name, digits):
    rng = np.random.default_rng(1)
    garbage, labels = rng.uniform(size=digits.private.X.shape), rng.permutation(digits.private.y)
    one, other = fitted(name, digits), fitted(name, digits, X=garbage, y=labels)
    np.testing.assert_array_equal(one.predict_proba(digits.test.X), other.predict_proba(digits.test.X))
    assert (one.predict(digits.test.X) == digits.test.y).mean() > 0.3  # and learnt something all the same


def test_a_setting_holds_no_private_row_and_no_label(digits):
    rng = np.random.default_rng(2)
    private = replace(digits.private, X=rng.uniform(size=digits.private.X.shape), y=rng.permutation(digits.private.y))
    public = replace(digits.public, y_for_evaluation=rng.permutation(digits.public.y_for_evaluation))
    other = replace(digits, private=private, public=public)
    for name in NAMES:
        a, b = setting_of(name, digits), setting_of(name, other)
        for field in fields(Setting):
            if field.name == "y_public" and named([name])[0].n_public_labels:
                continue
            one, two = getattr(a, field.name), getattr(b, field.name)
            assert np.array_equal(one, two) if isinstance(one, np.ndarray) else one == two, (name, field.name)
        assert (a.y_public is None) == (name not in FLOORS)


def test_public_labels_go_only_to_contestants_that_ask_and_as_many_as_asked(digits):
    asks = Contestant("ten", lambda setting: None, role="floor", n_public_labels=10)
    labels = Setting.of(digits, asks, budget=Budget(1.0, DELTA), seed=4).y_public
    assert labels.shape == (150,)
    assert (labels >= 0).sum() == 10
    np.testing.assert_array_equal(labels[labels >= 0], digits.public.y_for_evaluation[labels >= 0])
    again = Setting.of(digits, asks, budget=Budget(2.0, DELTA), seed=5).y_public
    assert (np.flatnonzero(labels >= 0) != np.flatnonzero(again >= 0)).any()
    with pytest.raises(InvalidInputError, match="n_public_labels"):
        Contestant("minus", lambda setting: None, n_public_labels=-1)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::pate.exceptions.PateWarning")
def test_pate_is_the_default_of_the_package_and_dpsgd_its_planner(digits):
    """Nothing was set for the comparison: the same noise gives the same model as with nothing said."""
    X, y, X_public = digits.private.X, digits.private.y, digits.public.X
    said = {"budget": Budget(3.0, DELTA), "classes": range(10), "image_shape": (8, 8), "random_state": 11}
    plain = PATEClassifier(**said, noise_seed=5, queries=Queries(force=True)).fit(X, y, X_public=X_public)
    ours = fitted("pate", digits).predict_proba(digits.test.X)
    np.testing.assert_allclose(ours, plain.predict_proba(digits.test.X), atol=1e-12)
    plain = DPSGDClassifier(**said, noise_seed=5).fit(X, y, X_public=X_public)
    model = fitted("dpsgd", digits)
    assert model.recipe_.name == plain.recipe_.name
    assert model.recipe_.n_components == plain.recipe_.n_components
    # The planner's random features are seeded by the repeat here, and by 0 there.
    assert abs((model.predict(digits.test.X) == plain.predict(digits.test.X)).mean() - 0.9) < 0.15


def test_both_sides_look_through_the_same_map(digits):
    same, recipe = (
        named(["records-same"])[0].make(setting_of("records-same", digits)),
        planned(setting_of("dpsgd", digits)),
    )
    assert same.representation.fingerprint() == recipe.maps[0].fingerprint()
    own = named(["pate"])[0].make(setting_of("pate", digits)).representation
    other = named(["dpsgd-linear-public"])[0].make(setting_of("dpsgd-linear-public", digits))._plan_ahead.maps[0]
    assert own.fingerprint() == other.fingerprint()


def test_public_maps_are_fitted_once_for_all_budgets(digits, tmp_path):
    for epsilon in (0.5, 1.0, 3.0):
        for name in ("pate", "records-linear", "noiseless", "public-labels-100"):
            named([name])[0].make(setting_of(name, digits, epsilon=epsilon, cache=tmp_path))
    assert len(list(tmp_path.iterdir())) == 2  # that of the records, and the floor's columns


def test_a_hundred_labels_make_as_good_a_model_as_anybody_would_fit_on_them(digits):
    setting = setting_of("public-labels-100", digits)
    floor = named(["public-labels-100"])[0].make(setting).fit(None, None, X_public=digits.public.X)
    known = setting.y_public >= 0
    plain = LogisticRegression(max_iter=500).fit(digits.public.X[known] / 16, setting.y_public[known])
    reached, usual = (np.mean(model.predict(X) == digits.test.y)
                      for model, X in ((floor, digits.test.X), (plain, digits.test.X / 16)))  # fmt: skip
    assert floor.n_labels_ == known.sum() == 100
    assert reached > usual - 0.05


def test_a_clone_of_planned_dpsgd_keeps_its_plan(digits):
    from sklearn.base import clone

    model = named(["dpsgd"])[0].make(setting_of("dpsgd", digits))
    assert clone(model)._plan_ahead is model._plan_ahead
    assert clone(model).set_params(noise_seed=9).noise_seed == 9


@pytest.mark.long
@pytest.mark.parametrize("name", ["gnmax", "confident-gnmax"])
def test_the_2018_recipe_is_planned_for_each_budget(name):
    base = {"classes": tuple(range(10)), "X_public": np.zeros((2000, 2)), "kind": "table", "n_records": 60_000}
    plans = [
        plan_shards(Setting(budget=Budget(e, 1e-5), n_units=60_000, seed=0, **base), name) for e in (0.2, 0.5, 1.0, 3.0)
    ]
    asked = [plan.n_queries for plan in plans]
    assert asked == sorted(asked)
    assert asked[0] < asked[-1] <= 2000
    assert {plan.n_teachers for plan in plans} == {250}
    for epsilon, plan in zip((0.2, 0.5, 1.0, 3.0), plans, strict=True):
        promised = plan.mechanism.charge(plan.n_queries, plan.n_answers).guarantee(1e-5)
        assert promised.epsilon <= epsilon
        assert promised.epsilon > 0.99 * epsilon  # what is not spent is wasted
    few = plan_shards(Setting(budget=Budget(1.0, 1e-5), n_units=500, seed=0, **base), name)
    assert few.n_teachers < 250


def test_record_voters_without_networks_take_images_by_scattering():
    glyphs = PublicFacts(n_units=50_000, n_classes=10, mu=0.27, n_public=9_000, kind="glyph")
    assert Fast._rule(glyphs).student is None  # it has no columns, and evidence enough
    assert (Fast._rule(glyphs).space, HeadOfColumns._rule(glyphs).space) == ("signed", "signed")
    assert HeadAlone._rule(glyphs).space == "soft"  # on what a network sees
    little = PublicFacts(n_units=5_000, n_classes=10, mu=0.02, n_public=9_000, kind="glyph")
    assert (Fast._rule(little).student, HeadOfColumns._rule(little).student) == ("ridge", None)
    for rule in (Fast._rule, HeadAlone._rule, HeadOfColumns._rule):
        rounds = rule(glyphs).rounds
        assert sum(r.share for r in rounds) == pytest.approx(1.0)
        assert not any(r.of_student for r in rounds)
    table = PublicFacts(n_units=50_000, n_classes=10, mu=0.27, n_public=2_000)
    assert Fast._rule(table) == choose(table)
    assert HeadAlone._rule(table).student is None


@pytest.mark.long
def test_the_commonest_class_is_counted_with_noise(digits):
    """At a large budget it is the commonest, at a tiny one any; and one person with many records counts once."""
    y = np.r_[np.zeros(700, dtype=int), np.ones(300, dtype=int)]
    floor = named(["majority"])[0]

    def says(y, epsilon, groups=None, seed=None):
        setting = replace(setting_of("majority", digits, epsilon=epsilon), classes=(0, 1), noise_seed=seed)
        return floor.make(setting).fit(np.zeros((len(y), 1)), y, groups=groups)

    sure = says(y, 8.0)
    assert sure.shares_[0] == pytest.approx(0.7, abs=0.05)
    assert len({int(says(y[:502], 0.01, seed=s).predict([[0]])[0]) for s in range(40)}) == 2
    one_person = np.r_[np.zeros(700, dtype=int), np.arange(1, 301)]
    assert says(y, 8.0, one_person).predict([[0.0]])[0] == 1


def test_names():
    assert [c.name for c in named(NAMES)] == list(NAMES)
    assert named("pate")[0].name == "pate"
    with pytest.raises(InvalidInputError, match="Did you mean 'dpsgd'"):
        named(["dpsdg"])
    for wrong in ([], ["pate", "pate"]):
        with pytest.raises(InvalidInputError, match="each once"):
            named(wrong)


@pytest.mark.parametrize(("kind", "shape"), [("table", None), ("image", (8, 8)), ("image", (28, 28))])
def test_default_contestants_by_kind_of_data(kind, shape):
    found = default_contestants(kind, shape)
    assert {c.role for c in found} == set(ROLES)
    assert {"PATE", "DP-SGD"} <= {c.side for c in found}
    assert named([c.name for c in found], kind=kind, image_shape=shape) == found
    names = {c.name for c in found}
    assert {
        "gnmax",
        "dpsgd",
        "no-privacy",
    } < names  # teachers on shards, DP-SGD and a model without privacy: everywhere
    assert ("pate-fast" if shape == (28, 28) else "pate") in names  # networks take hours


@pytest.mark.parametrize("name", ["digits", "images", "table"])
def test_a_student_of_teachers_on_shards_learns_from_all_public_rows(name, request):
    data = request.getfixturevalue(name)
    model = named(["gnmax"])[0].make(setting_of("gnmax", data))
    assert isinstance(model.mechanism, GNMax)
    student = model.student
    assert isinstance(student[-1] if hasattr(student, "steps") else student, VoteSpreading)


def test_everybody_says_how_it_was_tuned_and_what_it_sees():
    for contestant in named(NAMES):
        assert contestant.tuning.rule
        assert contestant.sees
        assert (contestant.tuning.n_tried > 0) == bool(contestant.tuning.on)
    sides = {c.side for c in named(NAMES) if c.tuning.n_tried}
    assert {"PATE", "DP-SGD"} <= sides


@pytest.mark.long
def test_slow_maps_run_once_in_a_comparison_and_are_forgotten_after_it(images, monkeypatch):
    """Both budgets see the same private rows: scattering maps them once, and the process keeps nothing in the end."""
    from pate.comparison import _fit
    from pate.comparison.run import compare
    from pate.representations import RowMemory
    from pate.representations.images import Scattering

    mapped = []
    plain = Scattering._vectors
    monkeypatch.setattr(Scattering, "_vectors", lambda self, X: mapped.append(len(X)) or plain(self, X))
    memory = RowMemory()
    monkeypatch.setattr(_fit, "_ROWS", memory)
    budgets = [Budget(1.0, DELTA), Budget(3.0, DELTA)]
    compare(named(["dpsgd-linear-scattering"]), images, budgets=budgets, n_repeats=1, n_jobs=1)
    assert mapped.count(150) == 1  # the private rows
    assert memory.hits
    assert not memory._kept
