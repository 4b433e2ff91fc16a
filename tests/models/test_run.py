"""Plans of records: public choices are made before a record is read, and only noisy sums are released."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from pate import Budget, BudgetExceededError, InvalidInputError, Ledger, PATEClassifier
from pate.exceptions import CuratorWarning
from pate.models.heads import CorrectedHead, ForestHead
from pate.models.recipes import (
    PublicFacts,
    Recipe,
    RecordsPlan,
    Round,
    choose,
    fitted_representation,
    kind_of,
    some_rows,
)
from pate.models.recipes._rule import check_recipe
from pate.records._maps import PublicMap
from pate.release import ReleaseTerms
from pate.representations import KernelPCA, PublicPCA

CLASSES = ("a", "b", "c")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    y = rng.integers(3, size=1500)
    X = rng.normal(size=(1500, 4)) + 3 * np.eye(4)[y]
    return X[:1200], np.array(CLASSES)[y[:1200]], X[1200:], np.array(CLASSES)[y[1200:]]


def plan_of(X_public, *, epsilon=1.0, n=1200, ledger=None, noise_seed=None, **more):
    terms = ReleaseTerms(budget=Budget(epsilon, 1e-5), ledger=ledger, noise_seed=noise_seed)
    more = {"classes": CLASSES, "n_units": n, "unit": "record"} | more
    return RecordsPlan.of(terms, X_public, representation=fitted_representation("table", X_public), **more)


def likelihood():
    """Return a recipe of class ballots, rounds of residuals and a likelihood head."""
    rounds = (Round(0.2), Round(0.4, 0.5), Round(0.4, 0.5))
    return Recipe("kernel", "signed", 20, None, 0.8, 0.0, rounds, 0.7, None)


def test_trees_learn_after_the_last_round_and_a_recipe_without_columns_for_them_is_refused(rows):
    X, y, X_public, _ = rows
    trees = replace(likelihood(), student="forest")
    plan = plan_of(X_public, epsilon=5.0, recipe=trees)
    labels, model = plan.run(X, y)
    assert isinstance(model.head, ForestHead)
    np.testing.assert_array_equal(model.predict(X_public), labels.labels)
    assert model.head.n_components_ == plan.phi.shape[1] + X_public.shape[1]
    terms = ReleaseTerms(budget=Budget(5.0, 1e-5))
    with pytest.raises(InvalidInputError, match="another student than 'forest'"):
        RecordsPlan.of(
            terms, X_public, classes=CLASSES, n_units=1200, unit="record", recipe=plan.recipe,
            representation=KernelPCA(20).fit(X_public),
        )  # fmt: skip


def test_long_tails_are_compared_by_their_quantiles(rows):
    """Stretching columns without changing their order leaves a heavy-tailed table's map alone."""
    heavy = np.exp(3 * rows[2])
    one, two = (fitted_representation("table", X) for X in (heavy, heavy**3))
    a, b = one.transform(heavy)[:, 0], two.transform(heavy**3)[:, 0]
    assert abs(np.corrcoef(a, b)[0, 1]) > 0.999  # quantiles are interpolated linearly between knots
    assert fitted_representation("table", rows[2] * [1.0, 30.0, 1.0, 1.0]).parts[0].numeric == ["standard"]


@pytest.mark.few(1)
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 5.0])
def test_labels_of_all_public_rows_within_the_budget(rows, epsilon):
    X, y, X_public, truth = rows
    plan = plan_of(X_public, epsilon=epsilon)
    labels, model = plan.run(X, y)
    assert labels.n_answered == len(X_public)
    assert len(labels.rounds) == len(plan.recipe.rounds)
    assert labels.guarantee.epsilon <= epsilon
    assert labels.charge.mu_squared <= Budget(epsilon, 1e-5).mu_squared
    assert (np.array(labels.values()) == truth).mean() > 0.9
    np.testing.assert_array_equal(model.predict(X_public), labels.labels)
    np.testing.assert_allclose(labels.probability.sum(axis=1), 1)


@pytest.mark.long
def test_neighbours_share_everything_public_and_differ_by_one_ballot(rows):
    """Replayed noise: the first round's statistics differ by exactly the two ballots' difference, and by no more."""
    X, y, X_public, _ = rows
    other, of_other = X.copy(), y.copy()
    other[7], of_other[7] = [1e9, np.nan, -5, 0], "a"
    one, two = (plan_of(X_public, noise_seed=1, recipe=likelihood()) for _ in range(2))
    assert one.recipe == two.recipe
    assert one.voters.fingerprint() == two.voters.fingerprint()
    first, second = one.run(X, y)[0].rounds[0], two.run(other, of_other)[0].rounds[0]
    assert first.sigma == second.sigma
    moved = (one.voters.cast(X, y).sums - two.voters.cast(other, of_other).sums) / one.voters.cast(X, y).facts.scale
    np.testing.assert_allclose(
        first.statistics - second.statistics, moved - moved.mean(axis=1, keepdims=True), atol=1e-4 * first.sigma
    )
    alone = one.voters.cast(X[7:8], y[7:8]).sums - one.voters.cast(other[7:8], of_other[7:8]).sums
    np.testing.assert_array_equal(one.voters.cast(X, y).sums - two.voters.cast(other, of_other).sums, alone)


@pytest.mark.long
def test_the_same_run_again_is_free_and_another_is_refused(rows, tmp_path):
    X, y, X_public, _ = rows
    ledger = Ledger(tmp_path / "ledger.sqlite")
    labels, _ = plan_of(X_public, ledger=ledger).run(X, y)
    spent = ledger.remaining()
    again, _ = plan_of(X_public, ledger=ledger).run(X, y)
    np.testing.assert_array_equal(again.probability, labels.probability)
    assert ledger.remaining() == spent
    with pytest.raises(BudgetExceededError):
        _ = plan_of(X_public[:200], ledger=ledger).mechanisms


def test_a_share_is_the_same_number_however_it_is_written(rows):
    one, two = (
        replace(plan_of(rows[2]), recipe=replace(plan_of(rows[2]).recipe, rounds=(Round(s),))) for s in (1, 1.0)
    )
    assert one.name == two.name


@pytest.mark.long
def test_the_statement_says_who_fitted_what(rows):
    X, y, X_public, _ = rows
    plan = plan_of(X_public, epsilon=5.0)
    assert len(plan.recipe.rounds) > 1
    statement = plan.run(X, y)[0].statement
    by = {a.name: a.by for a in statement.assumptions}
    assert by["public model"] == "pate"
    assert by["own row only"] == "pate"
    assert by["public rows"] == "nobody"
    inferred = plan_of(X_public, classes_inferred=True).run(X, y)[0].statement
    assert "classes" not in {a.name for a in inferred.assumptions}
    assert any("read off the private labels" in text for text in inferred.not_covered)


def test_persons_vote_once(rows):
    X, y, X_public, truth = rows
    groups = np.repeat(np.arange(400), 3)
    labels, _ = plan_of(X_public, n=400, unit="group", epsilon=3.0).run(X, y, groups=groups)
    assert labels.statement.unit == "group"
    assert labels.statement.n_units == 400
    assert (np.array(labels.values()) == truth).mean() > 0.8


def test_kinds_of_rows_by_what_is_public():
    import pandas as pd

    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(30, 4))
    assert kind_of(numbers) == "table"
    assert kind_of(rng.integers(2, size=(30, 4))) == "mixed"
    assert kind_of(pd.DataFrame({"a": range(9), "b": list("abcabcabc"), "c": range(9)})) == "mixed"
    assert kind_of(rng.random((5, 64)), (8, 8)) == "table"
    assert kind_of(rng.random((5, 784)), (28, 28)) == "image"
    assert kind_of(np.array(["a note", "another note"])) == "text"
    assert len(some_rows(numbers)) == 30


def test_a_representation_of_the_users_is_taken_as_it_is(rows):
    from pate.representations import PublicPCA

    _, _, X_public, _ = rows
    fitted = PublicPCA(2).fit(X_public)
    assert fitted_representation("table", X_public, representation=fitted) is fitted
    unfitted = PublicPCA(2)
    assert fitted_representation("table", X_public, representation=unfitted).n_features_out_ == 2
    assert not hasattr(unfitted, "n_features_out_")
    with pytest.raises(InvalidInputError, match="FromTransformer"):
        fitted_representation("table", X_public, representation=object())


@pytest.mark.long
def test_a_plan_that_spent_the_ledger_is_the_same_plan_again(tmp_path):
    """What is left by then would make another recipe of it, and a fit of next to nothing."""
    rng = np.random.default_rng(5)
    X, X_public = rng.normal(size=(3000, 4)), rng.normal(size=(200, 4))
    y = np.array(CLASSES)[X[:, :3].argmax(axis=1)]
    ledger = Ledger(tmp_path / "ledger.sqlite")
    first = plan_of(X_public, epsilon=3.0, n=3000, ledger=ledger)
    assert not first.stored
    labels, _ = first.run(X, y)
    again = plan_of(X_public, epsilon=3.0, n=3000, ledger=ledger)
    assert again.stored
    assert again.mechanisms[: len(labels.rounds)] == tuple(r.mechanism for r in labels.rounds)
    assert again.mechanisms == first.mechanisms
    assert again.charge == labels.charge
    assert again.recipe == first.recipe
    np.testing.assert_array_equal(again.run(X, y)[0].probability, labels.probability)
    assert len(ledger.releases()) == 1


def test_no_run_vouches_for_what_was_done_to_the_records_before(rows):
    X, y, X_public, _ = rows
    clf = PATEClassifier(budget=Budget(1.0, 1e-5), classes=CLASSES).fit(X, y, X_public=X_public)
    [said] = [a for a in clf.statement_.assumptions if a.name == "preprocessing"]
    assert said.by == "nobody"


def pictures(n, seed):
    """Bars of 16 x 16 pixels, lying, standing or slanting."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    images = 0.2 * rng.uniform(size=(n, 16, 16))
    for image, kind, at in zip(images, y, rng.integers(2, 13, n), strict=True):
        image[(slice(at, at + 2), slice(2, 14)) if kind == 0 else (slice(2, 14), slice(at, at + 2))] += 0.8
        if kind == 2:
            image[:] = 0.2 * rng.uniform(size=(16, 16)) + 0.8 * np.eye(16, k=at - 7)
    return images.reshape(n, 256), np.array(CLASSES)[y]


@pytest.mark.long
@pytest.mark.parametrize(("folder", "by"), [(None, "descent"), ("kept", "likelihood")])
def test_records_judge_the_student_of_images_and_the_same_run_again_is_free(tmp_path, monkeypatch, folder, by):
    """One mu^2 for the head's rounds and the student's; a killed run goes on with the student that it had."""
    from pate.models.recipes import _run as taught

    monkeypatch.setitem(taught._SETTINGS, "glyphs", {"epochs": 3, "batch_size": 32, "device": "cpu"})
    monkeypatch.setitem(taught._SETTINGS, "mild", {"epochs": 3, "batch_size": 32, "device": "cpu"})
    X, y = pictures(900, 0)
    X_public, truth = pictures(240, 1)
    known = likelihood() if by == "likelihood" else choose(PublicFacts(900, 3, 0.5, 240, "image"))
    first = (Round(0.6),) if by == "likelihood" else (Round(0.02, 0.1),) * 30
    recipe = replace(known, student="image", rounds=(*first, Round(0.4, 0.5, of_student=True)))
    ledger = Ledger(tmp_path / "ledger.sqlite")

    def plan():
        terms = ReleaseTerms(budget=Budget(3.0, 1e-5), ledger=ledger)
        rep = PublicPCA(40, alpha=0.0).fit(X_public)
        shape = {"image_shape": (16, 16), "kind": "image", "checkpoint_dir": folder and tmp_path / folder}
        return RecordsPlan.of(
            terms, X_public, classes=CLASSES, n_units=900, unit="record", representation=rep, recipe=recipe, **shape
        )

    labels, model = plan().run(X, y)
    assert isinstance(model.head, CorrectedHead)
    assert [r.clip for r in labels.rounds] == [*(r.clip for r in first), 0.5]
    assert labels.charge.mu_squared <= Budget(3.0, 1e-5).mu_squared
    paid = [r.mechanism.noise_multiplier for r in labels.rounds]
    assert sum(k**-2 for k in paid) <= float(labels.charge.mu_squared) * (1 + 1e-9)
    assert labels.rounds[-1].sigma == pytest.approx(2 * 0.5 * paid[-1], rel=1e-3)  # a record replaced moves it by 2 C
    assert (np.array(labels.values()) == truth).mean() > 0.6
    by = {a.name: a.by for a in labels.statement.assumptions}
    assert (by["public model"], by["own row only"]) == ("pate", "pate")
    spent = ledger.remaining()
    threads = torch.get_num_threads()
    torch.set_num_threads(threads % 2 + 1)  # another number of them would train another student
    again, _ = plan().run(X, y)
    torch.set_num_threads(threads)
    np.testing.assert_array_equal(again.labels, labels.labels)
    np.testing.assert_array_equal(again.rounds[-1].statistics, labels.rounds[-1].statistics)
    assert ledger.remaining() == spent
    # It was not seen in this run how the student was made that a file held.
    assert {a.name: a.by for a in again.statement.assumptions}["public model"] == "nobody"
    # Another budget in the same folder: other noise, another student, and nothing in its way.
    elsewhere, _ = replace(plan(), terms=ReleaseTerms(budget=Budget(3.0, 1e-5))).run(X, y)
    assert not np.array_equal(elsewhere.probability, labels.probability)
    # The second release is of the very residuals of that student, and of the noise that was paid for.
    head, maps = CorrectedHead.of(model.voters.space, model.voters.represent(X_public)[0], CLASSES), model.voters
    cast = maps.cast_residuals(X, y, head, clip=0.5)
    gap = labels.rounds[-1].statistics - (cast.sums - cast.sums.mean(axis=1, keepdims=True)) / cast.facts.scale
    assert 0.6 < gap.std() / (labels.rounds[-1].sigma * np.sqrt(2 / 3)) < 1.5  # 48 degrees of freedom


def test_an_image_student_needs_images(rows):
    recipe = replace(likelihood(), student="image")
    with pytest.raises(InvalidInputError, match="another student than 'image'"):
        plan_of(rows[2], recipe=recipe)


@pytest.mark.parametrize(
    ("rounds", "said"),
    [
        ((), "one or more"),
        ([Round(1.0)], "a tuple of Round"),
        ((Round(0.5), (0.5, 0.5, False)), "a tuple of Round"),
        ((Round(0.5, 0.3), Round(0.5, 0.5)), r"rounds\[0\] must have clip=None"),
        ((Round(1.0, None, of_student=True),), r"rounds\[0\] must have clip=None and of_student=False"),
        ((Round(0.5), Round(0.5)), r"rounds\[1\] must have a clip"),
        ((Round(0.5), Round(0.5, 9.0)), "clip must be"),
        ((Round(0.5), Round(0.5, float("nan"))), "clip must be"),
        ((Round(0.5), Round(0.5, "much")), "clip must be"),
        ((Round(0.5), Round(0.5, 0.5, of_student=True)), "it needs student='image'"),
        ((Round(0.5), Round(0.5, 0.5, of_student=1)), "True or False"),
        ((Round(0.5), Round(0.0, 0.5)), r"rounds\[1\].share must be"),
        ((Round(-0.5), Round(0.5, 0.5)), r"rounds\[0\].share must be"),
    ],
    ids=str,
)
def test_rounds_that_could_not_be_run_are_refused_before_anything_is_paid(rows, tmp_path, rounds, said):
    X, y, X_public, _ = rows
    ledger = Ledger(tmp_path / "ledger.sqlite")
    recipe = replace(likelihood(), rounds=rounds)
    with pytest.raises(InvalidInputError, match=said):
        plan_of(X_public, ledger=ledger, recipe=recipe).run(X, y)
    assert not ledger.releases()


@pytest.mark.parametrize(
    ("setting", "said"),
    [({"prior_scale": -1.0}, "prior_scale must be"), ({"student": "parrot"}, "recipe.student must be one of")],
    ids=str,
)
def test_so_are_other_settings_that_no_head_or_student_can_take(rows, setting, said):
    with pytest.raises(InvalidInputError, match=said):
        plan_of(rows[2], recipe=replace(likelihood(), **setting))


def test_rounds_of_the_student_come_last():
    known = likelihood()
    last = (Round(0.5), Round(0.2, 0.5), Round(0.2, 0.5, of_student=True), Round(0.1, 0.3, of_student=True))
    check_recipe(replace(known, student="image", rounds=last))
    with pytest.raises(InvalidInputError, match=r"rounds\[2\] must have of_student=True, as the round before"):
        check_recipe(replace(known, student="image", rounds=(last[0], last[2], last[1])))


@pytest.mark.parametrize("kind", ["table", "mixed", "text", "image", "glyph"])
def test_the_rules_own_recipes_can_be_run(kind):
    for n_public in (50, 500, 20_000):
        for n_classes in (2, 10):
            for mu in (0.01, 0.1, 1.0, 5.0):
                check_recipe(choose(PublicFacts(50_000, n_classes, mu, n_public, kind)))


def test_a_callers_rounds_are_run_as_they_are(rows):
    X, y, X_public, _ = rows
    recipe = replace(likelihood(), rounds=(Round(3), Round(1, 0.5), Round(1, 0.3)))
    labels, _ = plan_of(X_public, epsilon=3.0, recipe=recipe).run(X, y)
    assert [r.clip for r in labels.rounds] == [None, 0.5, 0.3]
    assert labels.charge.mu_squared <= Budget(3.0, 1e-5).mu_squared


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "odd", [[1.0], "a text", None, [[1.0, 2.0, 3.0, 4.0]], object()], ids=["short", "text", "none", "nested", "object"]
)
def test_a_private_row_of_any_form_is_that_records_matter(rows, odd):
    """Whether directions are held depends on the public number of records, and not on reading them."""
    X, y, X_public, _ = rows
    given = X.tolist()
    given[5] = odd
    plan = plan_of(X_public, noise_seed=3)
    assert len(plan.recipe.rounds) > 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CuratorWarning)  # a nested row can be read
        labels, _ = plan.run(given, y)
    assert len(labels.rounds) == len(plan.recipe.rounds)


@pytest.mark.long
def test_directions_lie_on_disk_where_the_table_does_and_the_bits_are_the_same(rows, monkeypatch):
    X, y, X_public, _ = rows
    wanted = plan_of(X_public, noise_seed=1).run(X, y)[0]
    monkeypatch.setattr("pate.models.recipes._run.MOST_HELD_BYTES", 0)
    mapped = []
    real = PublicMap.both

    def both(self, Z, index, **options):
        mapped.append(len(index))
        return real(self, Z, index, **options)

    monkeypatch.setattr(PublicMap, "both", both)
    for on_disk in (False, True):
        monkeypatch.setattr("pate.models.recipes._run.any_mapped", lambda on_disk=on_disk: on_disk)
        mapped.clear()
        plan = plan_of(X_public, noise_seed=1)
        found = plan.run(X, y)[0]
        times = mapped.count(1024)  # the first block of the records
        assert len(plan.recipe.rounds) > 1
        assert (times, on_disk) == (1, True) or (times >= len(plan.recipe.rounds) and not on_disk)
        np.testing.assert_array_equal(found.probability, wanted.probability)
