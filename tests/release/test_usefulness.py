"""Settings from which nearly nothing is to be expected are refused, by public numbers alone, with a better one."""

from __future__ import annotations

import re

import numpy as np
import pytest
from pate_of import pate_of
from scipy.stats import norm
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

from pate import (
    Budget,
    ConfidentGNMax,
    GNMax,
    InvalidInputError,
    LNMax,
    NoisyHistogram,
    Queries,
    Votes,
    calibrate,
    open_session,
    release_labels,
)
from pate.comparison.baselines import SparseVectorPATE
from pate.exceptions import NotWorthwhileError, ResultWarning
from pate.models.students import VoteSpreading, default_student
from pate.release import check_enough, check_useful, default_heads, plan_release
from pate.release._quote import affordable_queries, share_right

DIGITS, TRUTH = load_digits(return_X_y=True)
DIGITS = DIGITS / 16
ONE = Budget(1.0, 1e-5)


@pytest.mark.parametrize(
    ("epsilon", "n_public", "n_teachers", "n_classes", "n_queries"),
    [
        (1.0, 1000, 250, 10, 202),  # noise decides
        (1.0, 1000, 100, 10, 32),
        (1.0, 20, 100, 10, 20),  # no more rows than there are
        (0.5, 1000, 50, 10, 10),  # one for each class
        (3.0, 1000, 250, 2, 1000),
    ],
)
def test_how_many_are_asked_where_nothing_is_said(epsilon, n_public, n_teachers, n_classes, n_queries):
    budget = Budget(epsilon, 1e-5)
    asking = plan_release(budget, n_public, n_teachers=n_teachers, n_classes=n_classes)
    assert asking.n_queries == n_queries
    if n_queries not in (n_public, n_classes):
        assert asking.mechanism.sigma <= 0.3 * n_teachers
        assert calibrate(NoisyHistogram(1.0), budget, n_queries=n_queries + 1).sigma > 0.3 * n_teachers
    assert budget.allows(asking.mechanism.charge(n_queries))


def test_the_probability_is_that_of_drawn_noise():
    rng = np.random.default_rng(0)
    for sigma, n_classes in ((50.0, 2), (50.0, 6), (120.0, 10)):
        noise = rng.normal(0, sigma, (200_000, n_classes))
        drawn = (noise[:, 0] + 50 > noise[:, 1:].max(axis=1)).mean()
        assert share_right(sigma, 100, n_classes) == pytest.approx(drawn, abs=0.005)
    assert share_right(100.0, 100, 2) == pytest.approx(norm.cdf(0.5 / 2**0.5), abs=1e-9)


def test_noise_above_the_votes_is_refused_and_the_better_setting_is_better():
    with pytest.raises(InvalidInputError, match="nearly nothing is to be expected of 400 queries") as caught:
        plan_release(ONE, 1000, n_teachers=100, n_classes=10, n_queries=400)
    text = str(caught.value)
    assert "force=True" in text
    teachers = int(re.search(r"at least (\d+) teachers", text)[1])
    fewer = int(re.search(r"n_queries=(\d+)", text)[1])
    epsilon = float(re.search(r"epsilon ([\d.]+)", text)[1])
    assert plan_release(ONE, 1000, n_teachers=teachers, n_classes=10, n_queries=400).n_queries == 400
    assert plan_release(ONE, 1000, n_teachers=100, n_classes=10, n_queries=fewer).n_queries == fewer
    assert plan_release(Budget(epsilon, 1e-5), 1000, n_teachers=100, n_classes=10).mechanism.sigma <= 30
    assert plan_release(ONE, 1000, n_teachers=100, n_classes=10, n_queries=400, force=True).n_queries == 400


@pytest.mark.parametrize(
    ("mechanism", "refused"),
    [
        (GNMax(101.0), True),
        (GNMax(100.0), False),
        (NoisyHistogram(101.0), True),
        (LNMax(72.0), True),  # standard deviation 102
        (LNMax(70.0), False),
        (ConfidentGNMax(200.0, 300.0, 90.0), False),
        (ConfidentGNMax(200.0, 300.0, 110.0), True),
    ],
)
def test_noise_of_a_named_mechanism(mechanism, refused):
    def ask():
        check_useful(mechanism, 50, budget=None, n_public=80, n_teachers=100, n_classes=4)

    if refused:
        with pytest.raises(InvalidInputError, match=r"at least 3\d\d teachers, or noise of 30 or less"):
            ask()
    else:
        ask()


def test_fewer_labels_than_classes():
    with pytest.raises(InvalidInputError, match=r"number of classes \(10\), got 3: .*Ask about 25 rows"):
        plan_release(ONE, 1000, n_teachers=500, n_classes=10, n_queries=3)
    assert plan_release(ONE, 3, n_teachers=500, n_classes=10).n_queries == 3  # all there are
    assert plan_release(ONE, 1000, n_teachers=500, n_classes=10, n_queries=3, force=True).n_queries == 3


@pytest.mark.parametrize(
    ("n_records", "n_teachers", "better"), [(1_000, 1_000, 66), (1_000, 501, 66), (19, 10, 1), (9, 5, 1)]
)
def test_teachers_of_one_record(n_records, n_teachers, better):
    asked = {"n_teachers": n_teachers, "n_records": n_records, "n_classes": 2, "mechanism": NoisyHistogram(1.0)}
    with pytest.raises(InvalidInputError, match=rf"half the number of records \({n_records}\).*Take {better} "):
        plan_release(ONE, 1000, **asked)
    assert plan_release(ONE, 1000, **asked, force=True).n_queries == 1000
    for fine in ({"n_teachers": n_records // 2}, {"n_records": None}):  # a person may have many rows
        assert plan_release(ONE, 1000, **asked | fine).n_queries == 1000


@pytest.mark.long
def test_a_teacher_of_one_record_is_no_better_than_a_guess_and_the_default_is():
    options = {"voters": "heads", "budget": Budget(3.0, 1e-5), "classes": range(10), "random_state": 0,
               "partition_seed": 0, "noise_seed": 0}  # fmt: skip
    X, y, public = DIGITS[:1000], TRUTH[:1000], DIGITS[1000:1300]
    with pytest.raises(InvalidInputError, match="half the number of records"):
        pate_of(n_teachers=1000, **options).fit(X, y, X_public=public)
    alone = pate_of(n_teachers=1000, queries=Queries(force=True), **options).fit(X, y, X_public=public)
    clf = pate_of(**options)
    teachers, _ = clf.fit_keeping(X, y, X_public=public)
    assert teachers.n_teachers == default_heads(1000) == 66
    assert alone.score(DIGITS[1300:], TRUTH[1300:]) < 0.4
    assert clf.score(DIGITS[1300:], TRUTH[1300:]) > 0.7


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::pate.exceptions.CuratorWarning")
def test_what_a_record_holds_does_not_move_the_number_of_heads():
    options = {"voters": "heads", "budget": Budget(3.0, 1e-5), "classes": (0, 1), "random_state": 0,
               "partition_seed": 0, "noise_seed": 0}  # fmt: skip
    rng = np.random.default_rng(0)
    many, public = rng.normal(size=(450, 3)).tolist(), rng.normal(size=(30, 3))
    truth = [int(row[0] > 0) for row in many]
    X, y = many[:150], truth[:150]

    def number(X, y, groups=None):
        return pate_of(**options).fit_keeping(X, y, X_public=public, groups=groups)[0].n_teachers

    assert number(X, y) == 10
    for odd in ([float("nan")] * 3, [1e300, 0.0, 0.0]):
        assert number([odd, *X[1:]], y) == 10
    for odd in (7, None, 0.5):
        assert number(X, [odd, *y[1:]]) == 10
    # A person may have any number of records: then it is a constant.
    persons = [i // 2 for i in range(150)]
    with pytest.raises(InvalidInputError, match=r"number of groups \(75\), got 100"):
        number(X, y, persons)  # 75 persons
    assert number(many[:300], truth[:300], list(range(150)) * 2) == 100
    assert number(many, truth, [*range(150), *[0] * 300]) == 100


@pytest.mark.long
def test_the_classifier_refuses_before_training_and_learns_where_it_does_not():
    X, y, public = DIGITS[:1000], TRUTH[:1000], DIGITS[1000:1300]
    options = {"n_teachers": 40, "classes": range(10), "random_state": 0, "partition_seed": 0, "noise_seed": 0}
    model = GaussianNB(var_smoothing=0.1)
    tight = pate_of(model, budget=Budget(0.1, 1e-5), **options)
    with pytest.raises(InvalidInputError, match="nearly nothing is to be expected"):
        tight.fit(X, y, X_public=public)
    tight.set_params(queries=Queries(force=True)).fit(X, y, X_public=public)
    clf = pate_of(model, budget=Budget(3.0, 1e-5), **options).fit(X, y, X_public=public)
    assert isinstance(clf.student_, VoteSpreading)
    assert len(clf.queries_) >= affordable_queries(Budget(3.0, 1e-5), 40) - 3  # "spread" may return slightly fewer
    plain = pate_of(
        model, budget=Budget(3.0, 1e-5), queries=Queries(4, select="random", force=True), student=model, **options
    )
    plain.fit(X, y, X_public=public)
    assert clf.score(DIGITS[1300:], TRUTH[1300:]) > plain.score(DIGITS[1300:], TRUTH[1300:]) + 0.2


@pytest.mark.parametrize(
    ("rows", "counts", "expected"),
    [
        (np.eye(3), True, VoteSpreading),
        (np.eye(3), False, type(None)),
        (np.full((3, 2), np.nan), True, type(None)),
        (np.array([["a", 1.0]] * 3, dtype=object), True, type(None)),
        (np.zeros((1, 2)), True, type(None)),
        (np.zeros((20_001, 1)), True, type(None)),
        (np.zeros((3, 2, 2)), True, type(None)),
    ],
)
def test_the_default_student_is_chosen_by_public_facts(rows, counts, expected):
    assert type(default_student(rows, noisy_counts=counts)) is expected


def confident(epsilon, **queries):
    mechanism = ConfidentGNMax(threshold=36, sigma_threshold=40, sigma=15.0)
    return pate_of(GaussianNB(var_smoothing=0.1), n_teachers=60, budget=Budget(epsilon, 1e-5), classes=range(10),
                   mechanism=mechanism, student=GaussianNB(var_smoothing=0.1), queries=Queries(**queries),
                   partition_seed=0, random_state=0, noise_seed=0)  # fmt: skip


def test_a_cap_of_a_handful_of_answers_is_refused_before_it_is_paid_for():
    clf = confident(1.5)
    with pytest.raises(NotWorthwhileError, match=r"[1-9] of 200 public rows would get a label.*force=True"):
        clf.fit(DIGITS[:600], TRUTH[:600], X_public=DIGITS[600:800])
    assert not hasattr(clf, "release_")


def test_fewer_answers_than_rows_are_warned_of_before():
    facts = {"budget": ONE, "n_queries": 60, "n_public": 60, "n_teachers": 100, "n_classes": 2}
    with pytest.warns(ResultWarning, match="at most 20 of the 60 public rows that are asked about"):
        check_enough(20, GNMax(9.0), **facts)
    with pytest.warns(ResultWarning, match="at most 1 of the 60"):
        check_enough(1, GNMax(9.0), force=True, **facts)
    check_enough(60, GNMax(9.0), **facts)


VOTES = Votes.from_counts([[95, 5]] * 60, classes=["no", "yes"])
CONFIDENT = ConfidentGNMax(threshold=60.0, sigma_threshold=60.0, sigma=40.0)


def test_labels_of_votes_in_hand_and_sessions_warn_before_of_what_they_cannot_answer():
    few = Budget(0.5, 1e-5)
    with pytest.warns(ResultWarning, match=r"at most \d+ of the 60 public rows .* Nothing was spent yet"):
        release = release_labels(VOTES, CONFIDENT, budget=few)
    assert release.n_answered < 60
    release_labels(VOTES, CONFIDENT, budget=few, max_answers=5)  # who sets the cap knows it
    with pytest.warns(ResultWarning, match="at most"):
        open_session(CONFIDENT, budget=few, n_queries=60, n_teachers=100, classes=["no", "yes"])


@pytest.mark.filterwarnings("ignore::pate.exceptions.StudentWarning")
def test_a_baseline_that_stops_says_how_many_it_answered():
    scheme = SparseVectorPATE(
        budget=Budget(0.5, 1e-5), classes=range(10), image_shape=(8, 8), n_queries=100, max_unstable=1, random_state=0
    )
    with pytest.warns(ResultWarning, match=r"only \d+ of the 100 public rows"):
        scheme.fit(DIGITS[:600], TRUTH[:600], X_public=DIGITS[600:800])
    assert "few answers" in {doubt.kind for doubt in scheme.statement_.doubts}
