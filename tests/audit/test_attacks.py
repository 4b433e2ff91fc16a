"""Membership inference: models that memorise are found, others are not, and true claims stand."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cluster import KMeans
from sklearn.ensemble import IsolationForest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeRegressor

from pate import Budget, DPSGDClassifier, Guarantee, Ledger, NoisyHistogram, PATEClassifier, Queries, TeacherEnsemble
from pate.audit import Claim, attack
from pate.audit._attacks import most_wealth, wealth_against
from pate.audit._shadows import ATTACKS
from pate.dpsgd import SampledGaussian
from pate.exceptions import InvalidInputError, RepeatedFitWarning, RunFolderError, SensitiveValueError

AT_1, MOST = "true positives at 1% false positives", "most the claim allows at 1% false positives"
FITS = []
SMALL = {"expected_batch_size": 40}
ROW = np.random.default_rng(0).normal(size=(300, 3))[7].tobytes()


class Memory(ClassifierMixin, BaseEstimator):
    """Two classes by noise; surer of the rows that it was fitted on, by a given amount."""

    def __init__(self, surer=2.0, random_state=None):
        self.surer = surer
        self.random_state = random_state

    def fit(self, X, y):
        FITS.append(len(y))
        self.classes_, columns = np.unique(y, return_inverse=True)
        self.rows_ = {row.tobytes(): column for row, column in zip(X, columns, strict=True)}
        self.noise_ = np.random.default_rng(self.random_state)
        return self

    def decision_function(self, X):
        said = self.noise_.normal(size=(len(X), 2))
        for i, row in enumerate(X):
            if (column := self.rows_.get(row.tobytes())) is not None:
                said[i, column] += self.surer
        return said

    def predict(self, X):
        return self.classes_[self.decision_function(X).argmax(axis=1)]


class OneRow(Memory):
    """Knows one row only, if it was fitted on it."""

    def fit(self, X, y):
        super().fit(X, y)
        self.rows_ = {row: column for row, column in self.rows_.items() if row == ROW}
        return self


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(300, 3)), np.arange(300) % 2


@pytest.fixture
def blobs():
    rng = np.random.default_rng(1)
    y = np.arange(240) % 3
    return rng.normal(size=(240, 4)) + y[:, None], y


def value(found, name, of=None):
    return next(f for f in found.figures if f.name == name and of in (None, f.of))


@pytest.mark.parametrize(("kind", "least"), [("lira", 0.8), ("lira-offline", 0.8), ("rmia", 0.05), ("loss", 0.8)])
def test_a_model_that_memorises_is_found_by_every_attack(rows, kind, least):
    found = attack(Memory(6.0), *rows, attack=kind, n_shadows=16, random_state=0, published=True)
    assert found[AT_1].value > found[AT_1].low > least
    assert found["AUC"].value > 0.95
    assert found.finding.startswith(f"{kind} finds")
    assert not found.refuted  # nothing was claimed
    assert found.false_alarms is None


def test_a_model_that_memorises_refutes_a_claim(rows):
    found = attack(Memory(6.0), *rows, n_shadows=64, claim=(1.0, 1e-5), random_state=0, published=True)
    assert found.refuted
    assert found.false_alarms == 1e-3
    assert value(found, "log e-value").value > np.log(1e3)
    assert found[AT_1].low > found[MOST].value == pytest.approx(np.e * 0.01 + 1e-5, abs=1e-4)
    assert found.finding.startswith("the claim is refuted: lira finds")


def test_a_model_that_ignores_its_records_is_found_by_no_attack(rows):
    found = attack(Memory(0.0), *rows, attack="all", n_shadows=32, claim=(0.5, 1e-5), random_state=1, published=True)
    areas = [f for f in found.figures if f.name == "AUC"]
    assert [f.of for f in areas] == list(ATTACKS)
    for area in areas:
        assert area.low <= 0.5 <= area.high
        assert area.high - area.low < 0.2
    assert not found.refuted


@pytest.mark.long
def test_a_true_claim_is_rarely_refuted_and_a_false_one_is_at_once():
    """Randomised response to "was it in the half": the worst that (epsilon, 0) allows, of each record by itself."""
    from pate.audit._attacks import wealth_against
    from pate.audit._shadows import draw_halves

    highest = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        member = draw_halves(60, 40, seed)
        message = member ^ (rng.random(member.shape) > np.e / (1 + np.e))
        highest.append(wealth_against(Claim.of((1.0, 0.0)), message.astype(float), member).max())
        assert seed > 3 or wealth_against(Claim.of((0.2, 0.0)), message.astype(float), member).max() > 10
    assert np.mean(np.array(highest) >= 10) <= 0.1
    assert np.mean(np.array(highest) >= 2) <= 0.5


def test_all_records_revealed_together_refute_no_sooner_than_a_claim_allows():
    """All units of a target leak at once, with a probability that delta allows: no independence is assumed."""
    from pate.audit._attacks import wealth_against
    from pate.audit._shadows import draw_halves

    highest = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        member = draw_halves(40, 24, seed)
        leaks = rng.random((24, 1)) < 0.1
        message = np.where(leaks, member, 0.0) + 1e-3 * rng.random(member.shape)
        highest.append(wealth_against(Claim.of((0.0, 0.1)), message, member).max())
    assert np.mean(np.array(highest) >= 10) <= 0.1
    assert np.mean(highest) > 1.0  # it did bet


@pytest.mark.long
@pytest.mark.parametrize(
    "model",
    [
        DPSGDClassifier(
            "linear", budget=Budget(1.0, 1e-5), classes=range(3), mechanism=SampledGaussian(n_steps=5), **SMALL
        ),
        PATEClassifier(
            GaussianNB(), n_teachers=10, budget=Budget(1.0, 1e-5), classes=range(3), queries=Queries(force=True)
        ),
        PATEClassifier(budget=Budget(1.0, 1e-5), classes=range(3)),
    ],
    ids=["DP-SGD", "shards", "records"],
)
def test_private_models_stay_below_their_ceilings(blobs, model):
    X, y = blobs
    public = X[:60] + 0.1
    takes_public = isinstance(model, PATEClassifier)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepeatedFitWarning)
        found = attack(
            model,
            X,
            y,
            n_shadows=10,
            attack=("lira", "rmia"),
            random_state=0,
            X_public=public if takes_public else None,
        )
    assert found.sensitive
    assert "(1, 1e-05)-DP" in found.claim or found.claim.startswith("(0.99")
    assert not found.refuted
    for kind in ("lira", "rmia"):
        assert value(found, AT_1, kind).low <= found[MOST].value
    assert found[MOST].value <= 0.0273
    assert model._kin().total.n == 0
    assert not model._kin().sent


def test_results_from_private_records_are_not_shown(blobs):
    found = attack(GaussianNB(), *blobs, n_shadows=8, random_state=0)
    with pytest.raises(SensitiveValueError):
        found.rows()
    assert found.cited()["tried"].startswith("membership inference by lira on 8 models of GaussianNB")
    assert "AUC" not in repr(found)


def test_the_unlucky_record_is_named(rows):
    found = attack(OneRow(30.0), *rows, n_shadows=32, random_state=0, published=True)
    most = value(found, "found at 1% false positives")
    assert most.of == "record 7"
    assert most.value == 1.0
    assert most.estimate
    assert sum(f.name == "found at 1% false positives" for f in found.figures) <= 10


def test_persons_are_attacked_as_one(rows):
    X, y = rows
    people = np.array([f"p{i // 3}" for i in range(300)])
    alone = attack(Memory(1.0), X, y, n_shadows=32, random_state=0, published=True)
    together = attack(Memory(1.0), X, y, groups=people, n_shadows=32, random_state=0, published=True)
    assert together.settings["unit"] == "group"
    assert together.settings["n_units"] == 100
    assert together["AUC"].value > alone["AUC"].value + 0.1
    assert value(together, "found at 1% false positives").of.startswith("group p")


def test_a_finished_attack_is_not_fitted_again(rows, tmp_path):
    place = tmp_path / "attack.private"
    more = {"n_shadows": 8, "checkpoint_dir": place, "published": True}
    first = attack(Memory(), *rows, **more, random_state=3)
    FITS.clear()
    again = attack(Memory(), *rows, attack=("lira", "rmia"), **more)
    assert FITS == []
    assert again["AUC"] == first["AUC"]
    attack(Memory(), *rows, **{**more, "n_shadows": 12})
    assert len(FITS) == 4
    (place / "shadow-00002.npz").write_bytes(b"cut off")
    FITS.clear()
    attack(Memory(), *rows, attack="label-only", **more)
    assert len(FITS) == 8  # no one had asked for copies before
    assert (place.stat().st_mode & 0o777, (place / "shadow-00000.npz").stat().st_mode & 0o777) == (0o700, 0o600)
    with pytest.raises(RunFolderError, match="other records or on another estimator"):
        attack(Memory(3.0), *rows, **more)
    with pytest.raises(RunFolderError, match="another random_state"):
        attack(Memory(), *rows, **more, random_state=4)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("years of work")
    with pytest.raises(RunFolderError, match="holds no attack"):
        attack(Memory(), *rows, n_shadows=8, checkpoint_dir=tmp_path / "full")


@pytest.mark.slow  # workers have to start
def test_workers_give_what_one_process_gives(blobs):
    one, two = (
        attack(KNeighborsClassifier(1), *blobs, n_shadows=8, random_state=0, n_jobs=n, published=True) for n in (1, 2)
    )
    assert one.figures == two.figures


@pytest.mark.long
def test_any_classifier_and_any_rows(blobs):
    X, y = blobs
    names = np.array(["low", "middle", "high"])[y]
    table = pd.DataFrame({"a": X[:, 0].round(), "b": names})
    made = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
    more = {"n_shadows": 8, "attack": "all", "random_state": 0, "published": True}
    assert attack(made, table, names, **more).figures
    assert attack(LinearSVC(), X, y > 0, **more).figures
    teachers = TeacherEnsemble(GaussianNB(), 6, classes=range(3))
    found = attack(teachers, X, y, **more)
    assert found.target == "TeacherEnsemble"
    assert found.claim == "nothing"
    assert value(found, "accuracy on its half").value > 0.5


@pytest.mark.long
def test_noiseless_teachers_who_see_one_record_each_are_found():
    """An ensemble is no protection by itself: what noise would hide stands in the votes."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 30)), np.arange(60) % 2
    found = attack(TeacherEnsemble(KNeighborsClassifier(1), 3, classes=[0, 1]), X, y, n_shadows=16, random_state=0)
    assert found["AUC"].low > 0.6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_shadows": 6}, "n_shadows must be a whole number >= 8, got 6"),
        ({"n_shadows": 9}, "n_shadows must be even, got 9"),
        ({"targets": 4}, "targets must be a whole number >= 8"),
        ({"targets": 30}, "and <= 16, got 30"),
        ({"attack": "lyra"}, "Did you mean 'lira'"),
        ({"attack": ()}, "attack must name one attack at least"),
        ({"attack": 3}, "attack must be one of 'lira'"),
        ({"level": 1.0}, "level must be a finite number > 0.5 and < 1"),
        ({"false_alarms": 0}, "false_alarms must be a finite number > 0"),
        ({"X": np.zeros((5, 2)), "y": [0, 1, 0, 1, 0]}, "at least 20 records, got 5"),
        ({"groups": np.arange(240) % 4}, "at least 20 groups, got 4"),
        ({"y": np.zeros(240)}, "y must hold at least two classes"),
        ({"y": [0, 1]}, r"y must have shape \(240,\)"),
        ({"claim": "one", "estimator": Memory()}, "a claim must be"),
        ({"estimator": GaussianNB}, "got GaussianNB"),
        ({"estimator": "GaussianNB"}, "estimator must be an unfitted classifier"),
        ({"X_public": np.zeros((5, 4))}, "takes no public rows"),
        (
            {"estimator": make_pipeline(DPSGDClassifier("linear", budget=Budget(1.0, 1e-5), noise_seed=1))},
            "dpsgdclassifier__noise_seed=None",
        ),
        ({"estimator": PATEClassifier(GaussianNB(), budget=Budget(1.0, 1e-5))}, "shadow model 1 failed: X_public must"),
    ],
)
def test_bad_input_is_refused_in_words(blobs, change, message):
    X, y = blobs
    given = {"estimator": GaussianNB(), "X": X, "y": y, "n_shadows": 16, **change}
    FITS.clear()
    with pytest.raises(InvalidInputError, match=message):
        attack(given.pop("estimator"), given.pop("X"), given.pop("y"), **given)
    assert FITS == []


def test_an_estimator_with_a_ledger_is_refused(blobs, tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    model = PATEClassifier(GaussianNB(), budget=Budget(1.0, 1e-5), classes=range(3), ledger=ledger)
    with pytest.raises(InvalidInputError, match="ledger=None for an attack, as every shadow model would be charged"):
        attack(model, *blobs, n_shadows=8)


def test_guarantees_of_other_adjacencies_and_units_set_other_ceilings(blobs):
    said = Guarantee(epsilon=0.5, delta=0.0, kind="public", method="gdp", adjacency="add-or-remove")
    more = {"n_shadows": 8, "random_state": 0, "published": True}
    found = attack(GaussianNB(), *blobs, claim=said, **more)
    assert found[MOST].value == pytest.approx(np.e * 0.01, rel=1e-6)
    assert "where a record is replaced" in found.claim
    assert attack(GaussianNB(), *blobs, **more).claim == "nothing"


def test_a_data_dependent_claim_is_no_more_public_than_the_data(blobs):
    said = Guarantee(epsilon=0.5, delta=1e-5, kind="data-dependent", method="exact")
    found = attack(GaussianNB(), *blobs, n_shadows=8, claim=said, published=True)
    assert found.sensitive
    assert "0.5" not in found.claim


def test_votes_of_a_mechanism_are_a_claim(blobs):
    found = attack(GaussianNB(), *blobs, n_shadows=8, claim=NoisyHistogram(20.0).charge(10), published=True)
    assert 0.01 < found[MOST].value < 0.05


def test_all_means_all_wherever_it_is_said():
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    found = attack(KNeighborsClassifier(1), X, y, attack=["all"], n_shadows=8, random_state=0, published=True)
    assert found.settings["attack"] == ATTACKS
    with pytest.raises(InvalidInputError, match="attack must be one of"):
        attack(KNeighborsClassifier(1), X, y, attack=[["lira"]], n_shadows=8)


def test_sparse_rows_are_attacked_by_labels_too():
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    found = attack(KNeighborsClassifier(1), csr_matrix(X), y, attack="all", n_shadows=8, random_state=0, published=True)
    assert {f.of for f in found.figures if f.name == "AUC"} == set(ATTACKS)


@pytest.mark.parametrize(
    "model",
    [LinearRegression(), make_pipeline(StandardScaler(), DecisionTreeRegressor()), KMeans(2), IsolationForest()],
)
def test_what_is_no_classifier_is_refused(model):
    with pytest.raises(InvalidInputError, match="must be a classifier"):
        attack(model, np.eye(40), np.arange(40) % 2, n_shadows=8)


def test_a_claim_that_no_outcome_could_refute_says_so():
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    message = {"n_shadows": 8, "random_state": 0, "published": True}
    assert "No outcome" in attack(KNeighborsClassifier(1), X, y, claim=(1.0, 1e-5), **message).limits
    easy = attack(KNeighborsClassifier(1), X, y, claim=(0.0, 1e-5), false_alarms=0.5, **message)
    assert "No outcome" not in easy.limits
    assert "No outcome" not in attack(KNeighborsClassifier(1), X, y, **message).limits


def test_the_most_that_a_bet_wins_is_what_it_wins_of_a_perfect_memory():
    member = np.tile(np.arange(40) < 20, (32, 1))
    member[1::2] = ~member[1::2]
    for epsilon in (0.1, 1.0, 4.0):
        claim = Claim.of((epsilon, 1e-5))
        won = wealth_against(claim, np.where(member, 1.0, 0.0), member)[-1]
        assert won == pytest.approx(most_wealth(claim, 32))
