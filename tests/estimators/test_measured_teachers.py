"""How often the student of teachers on shards is right: within one budget, drawn once, said wherever it is kept."""

import warnings

import numpy as np
import pytest
from pate_of import pate_of
from sklearn.ensemble import VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from pate import Budget, BudgetExceededError, GNMax, InvalidInputError, Ledger, PATEClassifier
from pate.audit import replay_search
from pate.exceptions import StudentError, StudentWarning

BUDGET = Budget(2.0, 1e-5)
RNG = np.random.default_rng(0)
Y = RNG.integers(3, size=2_400)
ROWS = RNG.normal(size=(2_400, 4)) + 3 * np.eye(4)[Y]
X, Y, PUBLIC = ROWS[:2_000], Y[:2_000], ROWS[2_000:]


def classifier(voters="shards", **more):
    more = {"budget": BUDGET, "classes": range(3), "measure": True, "random_state": 0, "n_teachers": 40} | more
    return pate_of(voters=voters, **more)


def fitted(clf, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clf.fit(X, Y, X_public=PUBLIC, **more)


@pytest.mark.long
@pytest.mark.parametrize("voters", ["shards", "heads"])
def test_it_is_paid_for_within_the_budget_and_close_to_the_truth(voters):
    clf = fitted(classifier(voters, measure="by class"))
    estimate = clf.measured_
    assert clf.release_.quote.charge.mu_squared <= BUDGET.mu_squared
    assert clf.statement_.guarantee == clf.release_.quote.guarantee == clf.release_.guarantee
    assert clf.statement_.guarantee.epsilon == pytest.approx(2.0, rel=1e-6)
    assert estimate.share == pytest.approx(0.08, rel=1e-5)
    assert abs(estimate.counted - (clf.predict(X) == Y).mean()) < 6 * estimate.sigma / 2_000 + 1e-3
    assert [one.name for one in estimate.by_class] == ["0", "1", "2"]
    by = {a.name: a.by for a in clf.statement_.assumptions}
    assert by["own row only"] == by["public model"] == "pate"
    assert "a noisy count of the records that the model is right about" in clf.statement_.released


@pytest.mark.long
def test_the_same_fit_again_gives_the_very_count_and_spends_nothing(tmp_path, monkeypatch):
    """Resume: killed between labels and count, and after the count; random_state is None, and still one student."""
    path = tmp_path / "l.sqlite"
    more = {"random_state": None, "student": DecisionTreeClassifier(max_features=1)}

    def dies(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("pate.estimators._classifier.measured_labels", dies)
        with pytest.raises(KeyboardInterrupt):
            fitted(classifier(ledger=Ledger(path), **more))
    spent = Ledger(path).remaining()
    first = fitted(classifier(ledger=Ledger(path), **more))
    assert first.measured_ is not None
    again = fitted(classifier(ledger=Ledger(path), **more))
    assert again.measured_.counted == first.measured_.counted
    assert again.statement_.guarantee == first.statement_.guarantee
    assert Ledger(path).remaining() == spent
    assert len(Ledger(path).releases()) == 1
    found = Ledger(path).verify(files=[clf.statement_.to_dict() for clf in (first, again)])
    assert found.ok
    assert [file.status for file in found.files] == ["as released", "as released"]


@pytest.mark.long
def test_another_student_gets_no_count_of_it(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite")
    first = fitted(classifier(ledger=ledger))
    other = classifier(ledger=ledger, student="decision-tree")
    with pytest.warns(StudentWarning, match="of another student"):
        other.fit(X, Y, X_public=PUBLIC)
    assert other.measured_ is None
    assert other.statement_.measured is None
    assert other.statement_.guarantee == first.statement_.guarantee
    assert len(ledger.releases()) == 1
    first.set_params(student="decision-tree").refit_student(PUBLIC)
    assert first.measured_ is None


@pytest.mark.long
def test_nor_is_one_that_is_written_alike(tmp_path):
    """A long student's repr leaves out what is in its middle; a frozen part's, what it was fitted to."""

    def voting(C):
        members = [(f"m{i}", LogisticRegression(C=C if i == 10 else 1.0, max_iter=77 + i)) for i in range(20)]
        return VotingClassifier(members)

    def frozen(shift):
        return make_pipeline(FrozenEstimator(StandardScaler().fit(X + shift)), LogisticRegression())

    assert repr(voting(1.0)) == repr(voting(1e-9))
    assert repr(frozen(0)) == repr(frozen(9))
    for name, make, values in (("a", voting, (1.0, 1e-9)), ("b", frozen, (0, 9))):
        ledger = Ledger(tmp_path / name)
        assert fitted(classifier(ledger=ledger, student=make(values[0]))).measured_ is not None
        other = classifier(ledger=ledger, student=make(values[1]))
        with pytest.warns(StudentWarning, match="of another student"):
            other.fit(X, Y, X_public=PUBLIC)
        assert other.measured_ is None


@pytest.mark.long
def test_it_is_kept_with_the_model_and_not_with_another(tmp_path):
    clf = fitted(classifier())
    clf.save(tmp_path / "a.pate")
    assert PATEClassifier.load(tmp_path / "a.pate").measured_ == clf.measured_
    clf.set_params(student="decision-tree").refit_student(PUBLIC).save(tmp_path / "b.pate")
    assert PATEClassifier.load(tmp_path / "b.pate").statement_.measured is None


@pytest.mark.long
def test_persons_count_as_one_each():
    groups = np.repeat(np.arange(500), 4)
    clf = fitted(classifier(budget=Budget(8.0, 1e-5), n_teachers=20, student="logistic-regression"), groups=groups)
    estimate = clf.measured_
    assert (estimate.unit, estimate.n) == ("group", 500)
    right = (clf.predict(X) == Y).reshape(500, 4).mean(axis=1).mean()
    assert abs(estimate.counted - right) < 6 * estimate.sigma / 500 + 0.01


@pytest.mark.long
def test_a_student_that_fails_leaves_the_labels_and_their_statement(monkeypatch, tmp_path):
    def fails(*arguments, **options):
        raise StudentError("no")

    ledger, clf = Ledger(tmp_path / "l.sqlite"), classifier()
    clf.set_params(ledger=ledger)
    monkeypatch.setattr("pate.estimators._public_model.fit_student", fails)
    with pytest.raises(StudentError):
        fitted(clf)
    assert clf.statement_.measured is None
    assert clf.statement_.guarantee.epsilon == pytest.approx(2.0, rel=1e-6)
    assert ledger.verify(files=[clf.statement_.to_dict()]).files[0].status == "as released"


@pytest.mark.long
def test_what_is_measured_by_default():
    assert fitted(classifier(measure=None)).measured_ is not None
    assert fitted(classifier(measure=False)).measured_ is None
    named = fitted(classifier(measure=None, mechanism=GNMax(20.0), n_queries=20))
    assert named.measured_ is None
    assert "GaussianSum" not in named.statement_.mechanism
    tight = classifier(measure=None, budget=Budget(0.2, 1e-5), force=True)  # n mu < 196
    assert fitted(tight).measured_ is None


def test_what_cannot_be_measured_is_refused_before_anything_is_trained():
    with pytest.raises(BudgetExceededError, match="count of right answers"):
        fitted(classifier(mechanism=GNMax(3.0), n_queries=20, force=True))
    with pytest.raises(InvalidInputError, match="measure must be None, True, False or 'by class'"):
        fitted(classifier(measure="yes"))


class Sorts(LogisticRegression):
    """Code of another package, which pate does not know."""


@pytest.mark.long
def test_pate_does_not_vouch_for_a_student_that_it_does_not_know():
    clf = fitted(classifier(student=Sorts()))
    by = {a.name: a.by for a in clf.statement_.assumptions}
    assert (by["own row only"], by["public model"]) == ("nobody", "pate")
    assert clf.measured_ is not None
    frozen = FrozenEstimator(LogisticRegression().fit(PUBLIC, np.arange(400) % 3))  # of what rows, pate cannot see
    by = {a.name: a.by for a in fitted(classifier(student=frozen)).statement_.assumptions}
    assert (by["own row only"], by["public model"]) == ("pate", "nobody")


@pytest.mark.long
def test_a_replay_sees_no_sum_move_further_than_is_said():
    """Replay: neighbouring data sets, given what was released, move the count by its sensitivity at most."""

    def pipeline(X, y):
        clf = classifier(measure="by class", n_teachers=10, classes=(0, 1, 2), budget=Budget(8.0, 1e-5))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return clf.fit(X, y, X_public=PUBLIC[:60]).release_

    found = replay_search(
        pipeline, X[:300], Y[:300], kinds=["flip", "scale", "replace"], n_pairs=6, random_state=0, published=True
    )
    assert not found.refuted, found.finding
    moved = {figure.name: figure.value for figure in found.figures}
    assert any("sum" in name and 0 < value <= 1 for name, value in moved.items()), moved


@pytest.mark.long
def test_records_that_cannot_be_used_are_not_right_and_refuse_nothing():
    odd, labels = X.astype(object).copy(), Y.astype(object).copy()
    odd[:200, 0], labels[200:300] = None, "?"
    clf = classifier(noise_seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(odd, labels, X_public=PUBLIC)
    whole = (clf.predict(X[300:]) == Y[300:]).sum() / 2_000
    assert abs(clf.measured_.counted - whole) < 6 * clf.measured_.sigma / 2_000
    assert clf.measured_.n == 2_000
