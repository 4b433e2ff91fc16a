"""What objects look like in a notebook: short, escaped, and nothing private; and progress as one line of a cell."""

from __future__ import annotations

import re
import sys
import types
from dataclasses import replace

import numpy as np
import pytest

from pate import (
    Budget,
    ConfidentGNMax,
    GaussianSum,
    GNMax,
    LNMax,
    RecordVoters,
    Votes,
    account,
    release_ballots,
    release_labels,
)
from pate._core.progress import in_notebook, track
from pate.comparison._report import Cell, ComparisonReport
from pate.estimators.plan import plan
from pate.models.heads import LikelihoodHead
from pate.privacy.cost import Charge
from pate.records import SoftSpace
from pate.release import RecordLabels
from pate.representations import PublicPCA

EVIL = "<img src=x onerror=alert(1)>&'\""
COUNTS = np.random.default_rng(3).multinomial(7919, [0.7, 0.2, 0.1], size=61)


def tags(html):
    return set(re.findall(r"<([a-z]+)", html))


def text(html):
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def check(shown):
    """A cell is a fragment: nothing that runs, nothing that is fetched, no style for the rest of the notebook."""
    html = shown._repr_html_()
    assert tags(html) <= {"div", "strong", "span", "table", "thead", "tbody", "tr", "th", "td"}
    assert not re.search(r"\s(on\w+|src|href|class|id)=", re.sub(r"&[^;]*;[^<>]*", "", html))
    assert len(html) < 8000
    assert "\n" not in repr(shown) or isinstance(shown, ComparisonReport)
    return text(html)


def make_votes(**more):
    return Votes.from_counts(COUNTS, classes=["no", "yes", EVIL], n_units=9000, **more)


def test_votes_show_their_sizes_and_no_count():
    votes = make_votes()
    said = check(votes)
    assert "sensitive" in said
    assert set(map(int, re.findall(r"\d+", said))) == {61, 3, 7919}
    assert not {str(c) for c in COUNTS.ravel()} & set(re.findall(r"\d+", said))


def test_a_release_shows_its_first_labels_and_its_price():
    release = release_labels(make_votes(), GNMax(900.0), budget=Budget(9.0, 1e-6))
    said = check(release)
    assert "61 of 61 rows labelled; epsilon = " in said
    assert "56 more" in said
    few = replace(release, labels=np.array([2, -1]), status=np.array(["answered", "refused"]))
    assert "&lt;img" in few._repr_html_()
    assert "more" not in check(few)


def test_records_labels_are_shown_alike():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 4)), rng.integers(0, 2, 300)
    rep = PublicPCA(3).fit(X[200:])
    voters = RecordVoters(rep, SoftSpace(8, 2, random_state=0).fit(rep.transform(X[200:])), classes=["a", EVIL])
    labels = np.array(["a", EVIL], dtype=object)[y[:200]]
    release = release_ballots(voters.cast(X[:200], labels), GaussianSum(3.0), budget=Budget(3.0, 1e-5))
    said = LikelihoodHead(tau=1.0).fit(release, voters.transform(X[200:])).predict_proba(voters.transform(X[200:]))
    given = RecordLabels.of(said, (release,), Charge.gaussian(sensitivity=1.0, sigma=3.0), release.statement)
    assert "100 of 100 rows labelled" in check(given)
    assert check(given).startswith("RecordLabels")


@pytest.mark.parametrize("mechanism", [GNMax(900.0), ConfidentGNMax(4000, 2000, 900), LNMax(900.0)])
def test_a_report_hides_what_depends_on_the_data(mechanism):
    report = account(make_votes(), mechanism, delta=1e-6, pld=False)
    said = check(report)
    assert f"{report.public.epsilon:.3g}"[:4] in said
    assert said.count("hidden") == 2
    published = report.papernot2017 if report.papernot2018 is None else report.papernot2018
    for hidden in (report.data_dependent, published, report.expected_answers):
        value = hidden.reveal()
        value = getattr(value, "epsilon", value)
        assert f"{value:.3g}" not in said.replace(str(report.public), "")


def test_a_statement_is_short_until_it_is_asked():
    statement = release_labels(make_votes(), GNMax(900.0), budget=Budget(9.0, 1e-6)).statement
    assert len(repr(statement)) < 200
    assert "An attacker&#39;s best guess" in statement._repr_html_()
    assert "of 100" in check(statement)
    seeded = replace(statement, seeded=True)
    assert "not private" in check(seeded)
    assert "of 100" not in check(seeded)


def test_a_plan_is_a_table():
    made = plan(Budget(1.0, 1e-5), n_queries=300, n_classes=10, n_records=60000, n_public=900)
    assert repr(made).startswith("Plan('")
    assert len(repr(made)) < 200
    said = check(made)
    assert "gnmax" in said
    assert made.advice()[0].split(".")[0][:40] in said


@pytest.mark.long
def test_a_comparison_is_a_table_with_its_notes():
    cells = [
        Cell(contestant=EVIL, epsilon=1.0, delta=1e-5, repeat=r, accuracy=a, seed=r) for r, a in enumerate((0.9, 0.94))
    ]
    report = ComparisonReport(cells=tuple(cells), dataset="digits")
    said = check(report)
    assert "0.920 ± 0.028" in repr(report)
    assert "2 fits on the private data were made" in said
    assert "&lt;img" in report._repr_html_()
    shown = report.plot()
    assert shown._repr_png_().startswith(b"\x89PNG")
    assert shown.figure_ is shown.ax_.figure
    assert len(repr(shown)) < 120


# Progress ------------------------------------------------------------------------------------------------------


@pytest.fixture
def notebook(monkeypatch):
    """A kernel that keeps what it is given to show: lines, and each one's later states."""
    shown = []

    class Handle:
        def __init__(self, states):
            self.states = states

        def update(self, html):
            self.states.append(html)

    def display(html, display_id=None):
        assert display_id
        shown.append([html])
        return Handle(shown[-1])

    module = types.ModuleType("IPython")
    module.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    screen = types.ModuleType("IPython.display")
    screen.HTML, screen.display = str, display
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", screen)
    return shown


def test_progress_is_one_line_of_a_cell(notebook, capsys):
    assert in_notebook()
    items = track(range(4), total=4, label="<teachers>", show=True, work=(3.0, "rows"), note=lambda n: f"{n} & more")
    assert list(items) == [0, 1, 2, 3]
    assert len(notebook) == 1
    first, last = notebook[0][0], notebook[0][-1]
    assert first.startswith("&lt;teachers&gt; <progress value='0' max='4'>")
    assert "<progress value='4' max='4'>" in last
    assert "4/4" in last
    assert "4 &amp; more" in last
    assert "rows/s" in last
    assert capsys.readouterr() == ("", "")


def test_work_that_fails_or_goes_on_says_how_far_it_came(notebook):
    def items():
        yield from range(2)
        raise RuntimeError("a disk is full")

    with pytest.raises(RuntimeError, match="disk"):
        list(track(items(), total=9, label="teachers", show=True, begun=3))
    assert "<progress value='3' max='9'>" in notebook[0][0]
    assert "<progress value='5' max='9'>" in notebook[0][-1]


def test_nothing_is_shown_unasked(notebook):
    assert list(track(range(3), total=3, label="teachers")) == [0, 1, 2]
    assert list(track(range(1), total=1, label="teachers", show=True)) == [0]
    assert notebook == []


def test_a_shell_without_a_kernel_is_no_notebook(notebook, monkeypatch, capsys):
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: types.SimpleNamespace())
    assert not in_notebook()
    assert list(track(range(2), total=2, label="teachers", show=True)) == [0, 1]
    assert "teachers: 2 done" in capsys.readouterr().err
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: None)
    assert not in_notebook()
