"""The planner keeps to the budget, and its gaps have the stated effect."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr

from pate import Budget, ConfidentGNMax, GNMax, InvalidInputError, NoisyHistogram, plan
from pate.estimators.plan import needed_gap

ROOT = Path(__file__).parents[2]


def right(gap, sigma, n_classes):
    """Exact P(the leader wins) when every other class is ``gap`` votes behind."""
    x = np.linspace(-12, 12, 40001)
    density = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0])
    return float((density * ndtr(x + gap / sigma) ** (n_classes - 1)).sum())


@pytest.mark.parametrize("sigma", [1.0, 40.0])
@pytest.mark.parametrize("p", [0.9, 0.99, 0.9999])
def test_the_two_class_gap_is_exact(sigma, p):
    assert right(needed_gap(sigma, right=p), sigma, 2) == pytest.approx(p, abs=1e-9)


@pytest.mark.parametrize("n_classes", [3, 10, 1000])
def test_the_gap_over_many_classes_is_enough_and_not_wasteful(n_classes):
    gap = needed_gap(40.0, n_classes=n_classes)
    assert right(gap, 40.0, n_classes) >= 0.99
    assert right(0.93 * gap, 40.0, n_classes) < 0.99


def test_abstaining_below_the_gap_lets_hardly_a_wrong_label_out_even_on_a_tie():
    gap, rng = needed_gap(20.0, n_classes=10), np.random.default_rng(0)
    noisy = np.array([50] * 2 + [0] * 8) + 20.0 * rng.standard_normal((100_000, 10))
    noisy[:, 0] += 1
    top = np.sort(noisy, axis=1)
    wrong = (noisy.argmax(axis=1) != 0) & (top[:, -1] - top[:, -2] >= gap)
    assert wrong.mean() <= 0.01


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 8.0])
def test_every_row_fits_the_budget_and_hardly_less(epsilon):
    budget = Budget(epsilon, 1e-5)
    done = plan(budget, n_queries=300, n_classes=10, n_records=60000)
    assert [type(row.mechanism) for row in done.rows[::3]] == [NoisyHistogram, GNMax, ConfidentGNMax]
    for row in done.rows:
        spent = row.mechanism.charge(row.n_queries, row.n_answers).guarantee(1e-5)
        assert spent == row.guarantee
        assert 0.9999 * epsilon < spent.epsilon <= epsilon
        assert spent.kind == "public"
        assert row.records_per_teacher == 60000 // row.n_teachers
        assert row.gap == needed_gap(row.sigma, n_classes=10)
        assert row.gap_two_classes == needed_gap(row.sigma) < row.gap
        assert row.lead == row.gap / row.n_teachers


def test_the_numbers_of_teachers_are_those_at_which_the_leads_suffice():
    for row, lead in zip(plan(Budget(1, 1e-5), n_queries=100, n_classes=5).rows, [0.9, 0.6, 0.3] * 3, strict=True):
        assert row.lead <= lead < row.gap / (row.n_teachers - 1)


def test_more_queries_need_more_noise_and_argmax_alone_is_cheaper_than_the_counts():
    few, many = (plan(Budget(1, 1e-5), n_queries=n, n_classes=10, n_teachers=250).rows for n in (50, 500))
    assert all(a.sigma < b.sigma for a, b in zip(few, many, strict=True))
    assert many[2].sigma < many[1].sigma < many[0].sigma


def test_the_threshold_scales_with_the_teachers_and_its_noise_with_the_answers():
    rows = [
        r
        for r in plan(Budget(1, 1e-5), n_queries=50, n_classes=10, n_teachers=[100, 250]).rows
        if r.name == "confident-gnmax"
    ]
    assert [r.mechanism.threshold for r in rows] == [80, 200]
    assert rows[0].mechanism.sigma_threshold == pytest.approx(3.75 * rows[0].sigma)
    assert rows[0].n_answers == 25


def test_the_text_warns_where_it_should():
    text = "\n".join(plan(Budget(0.2, 1e-5), n_queries=900, n_classes=10, n_teachers=100, n_records=3000).advice())
    assert "above 100%" in text
    assert "fewer than 50 records" in text
    calm = "\n".join(plan(Budget(8, 1e-5), n_queries=20, n_classes=2, n_teachers=500, n_records=60000).advice())
    assert "above 100%" not in calm
    assert "fewer than" not in calm.replace("fewer queries", "")


@pytest.mark.parametrize(
    "bad",
    [
        *({"n_queries": 0}, {"n_classes": 1}, {"right": 0.4}, {"right": 1.0}, {"n_teachers": 0}, {"max_answers": 301}),
        *({"n_records": 100, "n_teachers": 200}, {"n_records": 0}, {"budget": 1.0}),
    ],
)
def test_bad_values_are_refused(bad):
    with pytest.raises(InvalidInputError):
        plan(**{"budget": Budget(1, 1e-5), "n_queries": 300, "n_classes": 10, **bad})


@pytest.mark.long
def test_the_command_prints_the_table():
    code = "import sys; from pate.cli import main; sys.argv[0] = 'pate'; main()"
    call = [sys.executable, "-c", code, "plan", "--epsilon", "1", "--delta", "1e-5", "--queries", "300"]
    call += ["--classes", "10", "--records", "60000", "--teachers", "250,1000"]
    done = subprocess.run(call, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "140"})
    assert done.returncode == 0, done.stderr
    for word in ("histogram", "gnmax", "confident-gnmax", "91.39", "395.3", "1000", "240", "Take it when in doubt"):
        assert word in done.stdout
    wrong = subprocess.run([*call[:-1], "many"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "teachers must be whole numbers" in wrong.stderr


def test_the_stored_table_says_what_the_advice_says():
    """experiments/results/mechanism_table.json: histogram with a free gap >= Confident > GNMax, near the design's."""
    stored = json.loads((ROOT / "experiments" / "results" / "mechanism_table.json").read_text())
    assert {"created", "commit", "versions", "config"} <= set(stored)
    best = {(r["mechanism"], r["epsilon"]): r["best"] for r in stored["rows"] if r["precision"] == 0.95}
    design = {"histogram": (24, 85, 298), "confident": (23, 83, 295), "gnmax": (16, 59, 209)}
    for name, figures in design.items():
        for epsilon, figure in zip((0.5, 1.0, 2.0), figures, strict=True):
            row = best[name, epsilon]
            assert row["right"] == pytest.approx(figure, rel=0.06, abs=1)
            makers = {
                "histogram": lambda r: NoisyHistogram(r["sigma"]).charge(r["queries"]),
                "gnmax": lambda r: GNMax(r["sigma"]).charge(r["queries"]),
                "confident": lambda r: ConfidentGNMax(r["threshold"], r["sigma_threshold"], r["sigma"]).charge(
                    r["queries"], max(1, round(r["answers"]))
                ),
            }
            assert makers[name](row).guarantee(1e-5).epsilon <= epsilon * (1 + 1e-9)


def asked(**facts):
    return plan(Budget(facts.pop("epsilon", 1.0), 1e-5), **{"n_records": 5_000, "n_public": 1_000, **facts})


def test_what_is_not_known_has_no_figures():
    done = asked(n_classes=10, kind="image", best=0.9).recommendation
    message = dict(done.lines())
    assert message["expects"] == "not known: images were not measured"
    assert message["based on"] == message["epsilon"] == ""
    assert done.right is None
    assert done.to_dict()["expects"]["known"] is False


def test_shares_of_right_labels_follow_from_what_is_publicly_known():
    done = asked(n_classes=2, best=0.9)
    low, high = done.records.expectation.interval
    assert done.recommendation.right == pytest.approx((0.9 * low, 0.9 * high))
    assert asked(n_classes=2).recommendation.right is None
    assert "% of the labels right: " in dict(done.recommendation.lines())["expects"]


@pytest.mark.parametrize(("commonest", "message"), [(None, "would reach its share"), (0.76, "would be right for 76%")])
def test_the_commonest_class_is_named_as_what_costs_no_privacy(commonest, message):
    done = asked(n_classes=2, commonest=commonest)
    assert message in dict(done.recommendation.lines())["instead"]
    assert message in done.to_dict()["recommendation"]["without_privacy"]


@pytest.mark.parametrize(("epsilon", "n_public", "likely"), [(0.1, 1_000, True), (0.1, 60, False), (8.0, 1_000, False)])
def test_labels_by_hand_are_named_where_they_are_likely_to_do_as_well(epsilon, n_public, likely):
    done = asked(n_classes=10, epsilon=epsilon, n_public=n_public)
    assert ("100 public rows labelled by hand would reach about as much" in done.recommendation.text()) == likely


def test_below_the_rows_that_records_need_the_plan_is_what_the_package_does():
    done = asked(n_classes=2, n_public=10)
    said = done.recommendation
    assert (said.voters, said.n_teachers, said.share, said.within) == ("dpsgd", None, None, False)
    assert "10 public rows make no map" in said.why
    assert "--voters" not in said.command  # pate label chooses DP-SGD by itself
    assert dict(said.lines())["voters"].startswith("none, DP-SGD trains a model: ")
    assert done.title.startswith("Plan for DP-SGD, ")
    assert said.guarantee.epsilon == pytest.approx(1.0)
    assert asked(n_classes=2, n_public=10, n_queries=10).recommendation.voters == "shards"  # who asks for teachers
