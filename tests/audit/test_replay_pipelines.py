"""Replay finds leaks inside pipelines, names their cause, and does not refute honest pipelines."""

import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import check_X_y
from sklearn.utils.class_weight import compute_class_weight

from pate import (
    Budget,
    CallableTeachers,
    ConfidentGNMax,
    DPSGDClassifier,
    GaussianSum,
    GNMax,
    Ledger,
    NoisyHistogram,
    PATEClassifier,
    RecordVoters,
    TeacherEnsemble,
    TorchTeacherEnsemble,
    Votes,
    release_labels,
)
from pate.audit import neighbours, replay, replay_search
from pate.audit.replays import _compare
from pate.audit.replays._trace import _kind, summary
from pate.data.queries import select_queries
from pate.exceptions import InvalidInputError, MissingExtraError, ReplayError, SensitiveValueError
from pate.mechanisms._base import Mechanism
from pate.models.students import fit_student
from pate.networks import MLP
from pate.privacy.noise.source import NoiseSource
from pate.privacy.publish.gate import PTRGate
from pate.records import SignedSpace
from pate.representations import KernelPCA

RNG = np.random.default_rng(5)
N, SHARDS = 240, 12
X = RNG.normal(size=(N, 4))
Y = (X[:, 0] + 0.5 * RNG.normal(size=N) > 0).astype(int)
P = RNG.normal(size=(25, 4))
PEOPLE = np.arange(N) // 2
BUDGET = Budget(1e6, 1e-5)
SLICES = np.array_split(np.random.default_rng(0).permutation(N), SHARDS)


def ensemble(**options):
    return TeacherEnsemble(GaussianNB(), SHARDS, classes=(0, 1), **{"random_state": 0, **options})


def released(votes, mechanism=None, **options):
    return release_labels(votes, mechanism or GNMax(2.0), budget=BUDGET, **options)


def by_hand(X, y, shards, model=GaussianNB):
    """A user's own teachers, none of pate's."""
    said = [model().fit(X[s], y[s]).predict(P) for s in shards]
    return released(Votes.from_labels(np.array(said), classes=(0, 1)))


def audited(pipeline, **options):
    return replay_search(pipeline, X, Y, **{"published": True, "X_public": P, "random_state": 0, **options})


SAFE = ["replace", "flip", "scale", "duplicate"]  # GaussianNB by hand takes no missing values


# Honest


def shards(X, y):
    return released(ensemble().fit(X, y).vote(P), ConfidentGNMax(8.0, 2.0, 2.0))


def with_ledger(X, y, groups=None, *, tmp=[]):  # noqa: B006
    import tempfile

    ledger = Ledger(f"{tempfile.mkdtemp()}/ledger.sqlite", total=BUDGET)
    votes = ensemble().fit(X, y, groups=groups).vote(P)
    a = released(votes, NoisyHistogram(3.0), ledger=ledger)
    return a, fit_student(GaussianNB(), P, a.decide().labels)


def own_teachers(X, y):
    return by_hand(np.nan_to_num(X), y, SLICES)


def public_choice(X, y):
    kernel = KernelPCA(3, random_state=0).fit(P)
    rows = select_queries(P, 9, random_state=0)
    teachers = ensemble().fit(kernel.transform(X), y)
    return released(teachers.vote(kernel.transform(P[rows])))


def adaptive(X, y):
    """What is asked next follows from what was released."""
    teachers = ensemble().fit(X, y)
    first = released(teachers.vote(P[:10], keep_labels=False))
    second = P[10:][first.labels[0] :: 2]
    return first, released(teachers.vote(second), GNMax(1.0 + first.labels.sum()))


def gated(X, y):
    votes = ensemble().fit(X, y).vote(P)
    gate = PTRGate(sigma=2.0, tau=5.0, order=8.0, width=4.0, delta=1e-5, delta0=1e-6)
    return gate.test(votes.counts, NoiseSource())


HONEST = [shards, with_ledger, own_teachers, public_choice, adaptive]


@pytest.mark.long
@pytest.mark.parametrize("pipeline", HONEST, ids=lambda f: f.__name__)
def test_honest_pipelines_stand(pipeline):
    found = audited(pipeline)
    assert not found.refuted, found.finding
    assert found["teachers moved"].value == 1
    assert found["votes moved on a query"].value <= 1


@pytest.mark.long
def test_a_person_moves_one_teacher_and_a_renamed_one_two():
    found = replay_search(with_ledger, X, Y, groups=PEOPLE, published=True, kinds=["scale", "remove", "front"])
    assert not found.refuted, found.finding
    assert found["teachers moved"].value == 1
    found = replay_search(with_ledger, X, Y, groups=PEOPLE, published=True, kinds=["regroup"])
    assert not found.refuted, found.finding
    assert found["teachers moved"].value == 2


@pytest.mark.long
@pytest.mark.parametrize(
    "target",
    [
        PATEClassifier(GaussianNB(), n_teachers=12, budget=Budget(8.0, 1e-4), classes=(0, 1), random_state=0),
        PATEClassifier(budget=Budget(8.0, 1e-4), classes=(0, 1), random_state=0),
        TorchTeacherEnsemble(MLP, n_teachers=6, epochs=1, device="cpu", classes=(0, 1), random_state=0),
        ensemble(random_state=None),
    ],
    ids=["PATEClassifier of shards", "PATEClassifier of records", "torch", "drawn seeds"],
)
def test_objects_of_ours_stand(target):
    found = audited(target, kinds=["flip", "scale", "front"])
    assert not found.refuted, found.finding


def test_record_voters_stand_and_reach_their_sensitivity_at_most():
    for adjacency, more in (("replace-one", {}), ("add-or-remove", {"nominal_n": N})):
        voters = RecordVoters(None, SignedSpace().fit(P), classes=(0, 1), adjacency=adjacency, **more)
        found = audited(voters, mechanism=GaussianSum(2.0), adjacency=adjacency)
        assert not found.refuted, found.finding
        assert 0.2 < found["sum moved, of what it may"].value <= 1


@pytest.mark.long
def test_dpsgd_moves_its_sums_by_two_norms_at_most():
    model = DPSGDClassifier(
        "linear", budget=Budget(8.0, 1e-4), classes=(0, 1), epochs=2, expected_batch_size=60, random_state=0
    )
    found = audited(model, kinds=["flip", "scale"])
    assert not found.refuted, found.finding
    assert 0.05 < found["sum moved, of what it may"].value <= 1


def test_workers_train_as_this_process_does():
    found = audited(ensemble(n_jobs=2), kinds=["flip"], mechanism=GNMax(2.0))
    assert not found.refuted, found.finding


@pytest.mark.long
def test_a_gate_lets_out_one_bit():
    assert not audited(gated, kinds=["flip", "scale"]).refuted


# Leaks


def scaler(X, y):
    return ensemble().fit(StandardScaler().fit_transform(X), y).vote(P)


def scaler_apart(X, y):
    """Nothing of pate's around the teachers, fit and transform apart."""
    fitted = StandardScaler().fit(X)
    return by_hand(fitted.transform(X), y, SLICES)


def stratified(X, y):
    return by_hand(X, y, [test for _, test in StratifiedKFold(SHARDS, shuffle=True, random_state=0).split(X, y)])


def sorting(X, y):
    return by_hand(X, y, np.array_split(np.argsort(X[:, 1]), SHARDS))


def weighted(X, y):
    weights = dict(enumerate(compute_class_weight("balanced", classes=np.array([0, 1]), y=y)))
    return TeacherEnsemble(LogisticRegression(class_weight=weights), SHARDS, classes=(0, 1)).fit(X, y).vote(P)


def own_helper(X, y):
    def centred(rows):
        return rows - rows.mean(axis=0)

    return ensemble().fit(centred(X), y).vote(P)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("pipeline", "named"),
    [
        (scaler, "teachers 0 to 11 moved: StandardScaler saw all shards"),
        (scaler_apart, "StandardScaler saw all shards"),
        (stratified, "StratifiedKFold.split saw all shards"),
        (sorting, "argsort saw all shards"),
        (weighted, "teachers 0 to 11 moved: compute_class_weight saw all shards"),
        (own_helper, "teachers 0 to 11 moved: centred saw all shards"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_leaks_are_found_and_named(pipeline, named):
    found = audited(pipeline, kinds=SAFE)
    assert found.refuted
    assert named in found.finding
    assert found["pairs that leak"].value == 1


@pytest.mark.parametrize(
    ("file", "is_library"),
    [
        ("pate/.venv/lib/python3.11/site-packages/sklearn/base.py", True),  # a clone is called pate
        ("ein Ort/für pate/.venv/lib/site-packages/numpy/a.py", True),
        ("usr/lib/python3/dist-packages/numpy/a.py", True),
        ("pate/site-packages.py", False),
        ("my-site-packages/pate/notebook.py", False),
    ],
)
def test_a_library_is_told_by_its_folders_not_by_a_piece_of_its_path(tmp_path, file, is_library):
    assert _compare._is_library(compile("0", str(tmp_path / file), "exec")) == is_library


def test_this_package_is_no_library_where_it_is_installed(monkeypatch):
    installed = Path(sys.prefix) / "lib" / "site-packages" / "pate"
    monkeypatch.setattr(_compare, "_PACKAGE", installed)
    for file, is_library in ((installed / "votes.py", False), (installed.with_name("pate_extra") / "votes.py", True)):
        assert _compare._is_library(compile("0", str(file), "exec")) == is_library


def test_teachers_that_share_a_model_object():
    def shared(X, y):
        model = LogisticRegression(warm_start=True, max_iter=3)
        said = [model.fit(X[s], y[s]).predict(P) for s in SLICES]
        return released(Votes.from_labels(np.array(said), classes=(0, 1)))

    found = audited(shared, kinds=["scale"], n_pairs=10)
    assert found.refuted
    assert "vote otherwise" in found.finding


@pytest.mark.long
def test_a_choice_of_queries_that_saw_votes():
    def chosen(X, y):
        votes = ensemble().fit(X, y).vote(P)
        sure = np.flatnonzero(votes.counts.max(axis=1) >= 9)
        return released(Votes.from_counts(votes.counts[sure], n_teachers=SHARDS))

    found = audited(chosen, kinds=SAFE, n_pairs=80)
    assert found.refuted
    assert "number of queries" in found.finding


@pytest.mark.long
def test_a_representation_a_student_and_a_choice_on_private_rows():
    def representation(X, y):
        return released(ensemble().fit(X, y).vote(P)), KernelPCA(3, random_state=0).fit(X)

    def student(X, y):
        labels = released(ensemble().fit(X, y).vote(P)).labels
        return fit_student(GaussianNB(), np.vstack([P, X]), np.concatenate([labels, y]))

    def queries(X, y):
        return released(ensemble().fit(X, y).vote(X[select_queries(X, 9, random_state=0)]))

    for pipeline, named in (
        (representation, "what the representation (KernelPCA) was fitted on differs"),
        (student, "what the student (GaussianNB) received differs"),
        (queries, "what the choice of queries received differs"),
    ):
        found = audited(pipeline, kinds=["scale"])
        assert found.refuted
        assert found.finding.startswith(named)


@pytest.mark.long
def test_a_threshold_and_a_cost_that_follow_private_votes():
    def threshold(X, y):
        votes = ensemble().fit(X, y).vote(P)
        return released(votes, ConfidentGNMax(float(np.median(votes.counts.max(axis=1))) - 1, 2.0, 2.0))

    def noise(X, y):
        return released(ensemble().fit(X, y).vote(P), GNMax(1.0 + float(X.std())))

    found = audited(noise, kinds=["scale"])
    assert found.refuted
    assert found.finding.startswith("a charge differs: its mechanism: GNMax(sigma=")
    found = audited(threshold, kinds=SAFE, n_pairs=40)
    assert found.refuted


@pytest.mark.long
def test_what_is_returned_is_let_out():
    def validated(X, y):
        labels = released(ensemble().fit(X, y).vote(P)).labels
        model = GaussianNB().fit(P, labels)
        return model.score(X, y), model

    found = audited(validated, kinds=["flip"])
    assert found.refuted
    assert "what it returned[0] differs" in found.finding


def test_teachers_for_the_curator_may_be_returned():
    def keeping(X, y):
        teachers = ensemble().fit(X, y)
        votes = teachers.vote(P)
        return {"release": released(votes), "teachers": teachers, "votes": votes}

    assert not audited(keeping, kinds=["flip"]).refuted


def test_one_record_that_stops_the_release():
    found = audited(lambda X, y: by_hand(X, y, SLICES), kinds=["missing"])
    assert found.refuted
    assert "makes the pipeline fail (ValueError)" in found.finding


def test_classes_in_the_order_of_the_file():
    def first_seen(X, y):
        order = list(dict.fromkeys(y.tolist()))
        return released(TeacherEnsemble(GaussianNB(), SHARDS, classes=order, random_state=0).fit(X, y).vote(P))

    found = audited(first_seen, kinds=["front"], n_pairs=6)
    assert found.refuted
    assert "classes" in found.finding


def test_classes_that_are_counted():
    def counted(X, y):
        return released(TeacherEnsemble(GaussianNB(), SHARDS, classes=range(len(set(y)) + 1)).fit(X, y).vote(P))

    found = audited(counted, kinds=["only of its class"])
    assert found.refuted
    assert "classes" in found.finding


class Vote:
    """Voters of another package that follow the contract: ``fit`` and ``vote``."""

    def __init__(self, leaks):
        self.leaks = leaks

    def fit(self, X, y):
        rows = StandardScaler().fit_transform(X) if self.leaks else X
        self.models = [GaussianNB().fit(rows[s], y[s]) for s in SLICES]
        return self

    def vote(self, X):
        return Votes.from_labels(np.array([m.predict(X) for m in self.models]), classes=(0, 1))


def test_anybody_who_fits_and_votes():
    assert not audited(Vote(False), kinds=SAFE, mechanism=GNMax(2.0)).refuted
    found = audited(Vote(True), kinds=["scale"])
    assert found.refuted
    assert found.finding.endswith("StandardScaler saw all shards")


def test_functions_as_teachers():
    def asked(X, y):
        models = [GaussianNB().fit(np.nan_to_num(X[s]), y[s]) for s in SLICES]
        return released(CallableTeachers([m.predict for m in models], classes=(0, 1)).vote(P))

    assert not audited(asked, kinds=SAFE).refuted
    with pytest.raises(InvalidInputError, match="has no fit"):
        audited(CallableTeachers([len, min], classes=(0, 1)))


class Doubled(Mechanism):
    """A mechanism of another package, which asks for every vote twice."""

    family = "doubled"
    sigma = 2.0

    def charge(self, n_queries, max_answers=None):
        return GNMax(2.0).charge(n_queries)

    def sample(self, counts, noise, *, max_answers=None):
        return GNMax(2.0).sample(2 * counts, noise)


@pytest.mark.long
def test_a_mechanism_that_counts_votes_twice():
    found = audited(lambda X, y: released(ensemble().fit(X, y).vote(P), Doubled()), kinds=["scale", "flip"], n_pairs=20)
    assert found.refuted
    assert "2 votes moved on query" in found.finding


def test_a_record_in_two_shards():
    twice = [np.append(s, SLICES[(i + 1) % SHARDS][:5]) for i, s in enumerate(SLICES)]

    def overlapping(X, y):
        def model():
            return _Exact()

        return by_hand(X, y, twice, model)

    found = audited(overlapping, kinds=["flip"], n_pairs=N)
    assert found.refuted
    assert "vote otherwise" in found.finding


class _Exact(ClassifierMixin, BaseEstimator):
    """Says something else whenever anything in its rows does."""

    def fit(self, X, y):
        self.sum_ = hash((X.tobytes(), y.tobytes()))
        return self

    def predict(self, X):
        return np.array([hash((self.sum_, i)) % 2 for i in range(len(X))])


# What cannot be replayed


def unseeded(X, y):
    return ensemble().fit(X, y).vote(np.random.default_rng().normal(size=(3, 4)))


def in_a_thread(X, y):
    made = []
    thread = threading.Thread(target=lambda: made.append(released(ensemble().fit(X, y).vote(P), GNMax(50.0))))
    thread.start()
    thread.join()
    return made[0]


SOURCE = NoiseSource()


def noise_from_before(X, y):
    return GNMax(50.0).sample(ensemble().fit(X, y).vote(P).counts, SOURCE)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("pipeline", "said"),
    [
        (unseeded, "two runs on the same data differ: Votes differs: the public rows that were asked about"),
        (in_a_thread, "two runs on the same data differ|did nothing that a replay sees"),
        (noise_from_before, "two runs on the same data differ: other noise was drawn"),
        (lambda X, y: None, "did nothing that a replay sees"),
    ],
)
def test_what_is_not_the_same_twice_is_refused_in_words(pipeline, said):
    with pytest.raises(ReplayError, match=said):
        audited(pipeline, kinds=["flip"])


@pytest.mark.long
def test_a_real_ledger_is_left_alone(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", total=BUDGET)
    before = (tmp_path / "ledger.sqlite").read_bytes()
    with pytest.raises(ReplayError, match="no ledger that was there before"):
        audited(lambda X, y: released(ensemble().fit(X, y).vote(P), ledger=ledger))
    clf = PATEClassifier(
        GaussianNB(),
        n_teachers=12,
        budget=Budget(8.0, 1e-4),
        classes=(0, 1),
        ledger=ledger,
        checkpoint_dir=tmp_path / "k",
    )
    assert not audited(clf, kinds=["flip"]).refuted
    assert (tmp_path / "ledger.sqlite").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["ledger.sqlite"]


def test_data_sets_that_are_no_neighbours_are_refused():
    far = X.copy()
    far[:2] *= 2
    for D_prime, said in (
        ((far, Y), "these are 2 steps apart"),
        ((X, Y), "the same records in the same order"),
        ((X[:-1], Y[:-1]), "equally many records under replace-one adjacency, got 240 and 239"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            replay(shards, (X, Y), D_prime)
    pair = neighbours(X, Y, adjacency="add-or-remove", kinds=["remove"])[0]
    with pytest.raises(InvalidInputError, match="equally many units"):
        replay(shards, pair)
    with pytest.raises(InvalidInputError, match="X_public must be"):
        replay(ensemble(), neighbours(X, Y)[0])
    with pytest.raises(InvalidInputError, match="leave D_prime out"):
        replay(shards, pair, (X, Y))


def test_what_the_pipeline_itself_raises_is_raised():
    def broken(X, y):
        raise KeyError("a name")

    with pytest.raises(KeyError, match="a name"):
        replay(broken, neighbours(X, Y)[0])


# The result


def test_the_result_is_sensitive_unless_the_data_are_published():
    found = audited(scaler, kinds=["scale"], published=False)
    assert found.sensitive
    assert "teachers" not in repr(found)
    with pytest.raises(SensitiveValueError):
        found.rows()
    assert found.cited()["stood"] is False
    assert "one record's numbers are 30 times as large" in found.cited()["tried"]
    assert "StandardScaler" not in str(found.cited())
    assert type(found).from_dict(found.to_dict(include_sensitive=True)) == found
    assert found.false_alarms == 0.0
    assert found.layer == "replay"


@pytest.mark.long
def test_the_same_replay_twice_gives_the_same():
    a, b = (audited(shards, kinds=["flip"]) for _ in range(2))
    assert a.figures == b.figures


def test_a_pipeline_that_writes_into_its_rows_spoils_nothing():
    def writing(X, y):
        votes = ensemble().fit(X, y).vote(P)
        X[:] = 0
        return released(votes)

    before = X.copy()
    assert not audited(writing, kinds=["flip"]).refuted
    assert (before == X).all()


@pytest.mark.long
def test_hypothesis_searches_further():
    few = [part[part < 60] for part in SLICES[:4]]

    def rare(X, y):
        said = [GaussianNB().fit(X[s], y[s]).predict(P) for s in few]
        voted = [1 - labels if X[:, 2].max() > 100 else labels for labels in said]
        return released(Votes.from_labels(np.array(voted), classes=(0, 1)))

    options = {"kinds": ["scale"], "published": True, "random_state": 0}
    assert not replay_search(rare, X[:60], Y[:60], **options).refuted
    found = replay_search(rare, X[:60], Y[:60], n_examples=40, **options)
    assert found.refuted
    assert "teachers 0 to 3 vote otherwise" in found.finding


def test_without_hypothesis_the_error_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(MissingExtraError, match=r"pate-privacy\[search\]"):
        audited(shards, kinds=["flip"], n_examples=5)


@pytest.mark.long
def test_looking_for_who_it_was_follows_no_library_into_its_modules():
    def returning(X, y):
        return released(ensemble().fit(X, y).vote(P)), LogisticRegression().fit(X, y)

    found = audited(returning, kinds=SAFE)
    assert found.finding.startswith("what it returned[1]: LogisticRegression differs: LogisticRegression saw all")
    assert summary(np.random) == "numpy.random"
    assert summary({"loss": object(), "rows": [X]}) == summary({"loss": object(), "rows": [X.copy()]})
    assert summary({"rows": [X]}) != summary({"rows": [X + 1]})
    trees = [DecisionTreeClassifier(max_depth=2).fit(X, y) for y in (Y, Y, 1 - Y)]
    assert summary(trees[0]) == summary(trees[1]) != summary(trees[2])
    around: list = []
    around.append(around)
    assert summary(around) == summary(around)


def test_what_only_passes_rows_on_is_not_blamed():
    def innocent(rows):
        rows = np.where(np.isnan(rows), 0, np.nan_to_num(rows))
        return rows[np.isfinite(rows).any(axis=1)]

    def leaking(X, y):
        X, y = check_X_y(innocent(X), y)
        return ensemble().fit(StandardScaler().fit(X).transform(X), y).vote(P)

    assert audited(leaking, kinds=SAFE).finding.startswith("teachers 0 to 11 moved: StandardScaler saw all shards")


def private_model(**options):
    options = {"epochs": 1, "expected_batch_size": 60, "random_state": 0, **options}
    return DPSGDClassifier("linear", budget=Budget(8.0, 1e-4), classes=(0, 1), **options)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["replace", "scale", "duplicate"])
def test_whatever_was_made_of_rows_before_they_reach_dpsgd_and_ballots(kind):
    """A scaler moves everybody a little, and clipped sums less than one record may."""

    def trained(X, y):
        return private_model().fit(StandardScaler().fit_transform(X), y).predict(P)

    def cast(X, y):
        return RecordVoters(None, SignedSpace().fit(P), classes=(0, 1)).cast(X - np.mean(X, axis=0), y)

    found = audited(trained, kinds=[kind])
    assert found.refuted
    assert "DPSGDClassifier was given other rows of 240 records" in found.finding
    assert "StandardScaler saw all records" in found.finding
    found = audited(cast, kinds=[kind])
    assert found.refuted
    assert "mean saw all" in found.finding


def test_chunks_may_begin_elsewhere():
    def chunks(X, y):
        voters = RecordVoters(None, SignedSpace().fit(P), classes=(0, 1), adjacency="add-or-remove", nominal_n=N)
        half = len(X) // 2
        return voters.cast(X[:half], y[:half]) + voters.cast(X[half:], y[half:])

    shorter = np.delete(X, 3, axis=0), np.delete(Y, 3)
    found = replay(chunks, (X, Y), shorter, adjacency="add-or-remove", published=True)
    assert not found.refuted, found.finding


@pytest.mark.long
@pytest.mark.parametrize("kind", ["flip", "scale", "replace", "missing", "regroup"])
def test_groups_that_are_dropped_are_missed(kind):
    def dropped(X, y, groups):
        return released(ensemble().fit(X, y).vote(P))

    def trained(X, y, groups):
        return private_model().fit(X, y).predict(P)

    for pipeline in (dropped,) if kind == "missing" else (dropped, trained):  # DP-SGD refuses what is missing
        found = replay_search(pipeline, X, Y, groups=PEOPLE, kinds=[kind], published=True, random_state=0)
        assert found.refuted
        assert "the data have groups" in found.finding
    one_each = replay_search(dropped, X, Y, groups=np.arange(N), kinds=["flip"], published=True, random_state=0)
    assert not one_each.refuted, one_each.finding


def test_what_was_not_seen_is_said():
    seen = audited(shards, kinds=["flip"])
    assert "No teachers were seen" not in seen.limits
    assert "stored outside it between runs, is not seen" in seen.limits
    own = audited(own_teachers, kinds=["flip"])
    assert "No teachers were seen: votes alone were compared" in own.limits
    assert "No private rows were seen" in own.limits


@pytest.mark.long
def test_estimators_of_functions_as_teachers_are_looked_at():
    def asked(X, y, whole, bound):
        X = StandardScaler().fit_transform(X) if whole else X
        models = [(DecisionTreeClassifier if bound else LogisticRegression)().fit(X[s], y[s]) for s in SLICES]
        functions = [m.predict if bound else (lambda rows, m=m: m.predict(rows)) for m in models]
        return released(CallableTeachers(functions, classes=(0, 1)).vote(P))

    for bound in (True, False):
        found = audited(lambda X, y, b=bound: asked(X, y, True, b), kinds=["duplicate"])
        assert found.finding.startswith("the estimators of functions 0 to 11 moved")
        found = audited(lambda X, y, b=bound: asked(X, y, False, b), kinds=["duplicate", "flip"])
        assert not found.refuted, found.finding
        assert found["teachers moved"].value >= 1


@pytest.mark.long
def test_pairs_that_were_refused_are_counted():
    model = private_model()

    def wary(X, y):
        if np.isnan(X).any():
            raise InvalidInputError("missing")
        return model.fit(X, y).predict(P)

    found = audited(wary, kinds=["flip", "missing"])
    assert not found.refuted
    assert (found["pairs refused"].value, found["pairs refused"].of) == (1, "2 pairs")
    assert found["pairs that leak"].of == "1 pairs"


class OwnDPSGD(DPSGDClassifier):
    """A subclass of another package; beside what is let out it holds a statement, with the hour in it."""


@pytest.mark.long
def test_a_subclass_of_ours_is_looked_at_as_ours_is():
    def trained(X, y):
        options = {"epochs": 1, "expected_batch_size": 60, "random_state": 0}
        model = OwnDPSGD("linear", budget=Budget(8.0, 1e-4), classes=(0, 1), **options).fit(X, y)
        model.statement_ = object()  # never the same
        return model

    found = audited(trained, kinds=["flip"])
    assert not found.refuted, found.finding
    assert _kind(OwnDPSGD("linear", budget=BUDGET, classes=(0, 1))) == ("DPSGDClassifier", True)
    assert _kind(GaussianNB()) == ("GaussianNB", False)


@pytest.mark.long
def test_records_may_be_dropped_or_shuffled_before_the_cut():
    """By what is public, or by the record alone: then they stand in other places than in the data set."""

    def some(X, y, groups):
        kept = np.flatnonzero(groups % 3 != 0)[::-1]
        return released(ensemble().fit(X[kept], y[kept], groups=groups[kept]).vote(P))

    found = replay_search(some, X, Y, groups=PEOPLE, kinds=["flip", "scale", "regroup"], published=True, n_pairs=6)
    assert "which has none of the records" not in found.finding
    found = replay_search(some, X, Y, groups=PEOPLE, kinds=["flip", "scale"], published=True, n_pairs=6, random_state=0)
    assert not found.refuted, found.finding
