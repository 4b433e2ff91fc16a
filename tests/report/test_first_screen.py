"""The first screen of every page is the answer; the rest is folded, and still found: by print, by link, by search."""

import re
from pathlib import Path

import pytest
from chromium import CHROMIUM, WHY, Browser
from comparison_samples import comparison
from test_report import check_self_contained, make_row, make_statement

from pate import report
from pate.audit import Audit
from pate.models.file import InputSpec, Manifest, ModelFile
from pate.report.audit_result import AuditResult, Figure

#: A run of five seeds on public images, DP-SGD beside it.
RUN = {
    "kind": "run",
    "title": "PATE on digits",
    "dataset": "digits",
    "description": "Handwritten digits.",
    "command": "pate demo --out run",
    "created": "2026-01-01T00:00:00+00:00",
    "classes": [0, 1],
    "budget": {"epsilon": 2.527, "delta": 1e-5},
    "rows": [make_row(accuracy=0.93 + 0.01 * i, seed=i) for i in range(5)]
    + [make_row("DP-SGD", 2.5, 0.9 + 0.02 * i, i) for i in range(5)],
    "answers_per_class": [10, 20],
    "examples": [{"image": ["09" * 4] * 8, "label": i % 2, "confidence": 0.9} for i in range(12)],
    "statement": make_statement().to_dict(),
    "notes": ["a note"],
}
#: Stands on the first screen of a page, and below it.
FIRST = {
    "report": (
        "PATE is right on 95.0% ± 1.6 of the test rows at ε = 2.527.",
        "No private image is on this page",
        "In words",
        "labels.csv",
        report.NEXT,
    ),
    "compare": ("PATE is ahead of DP-SGD at ε = 0.5, 1 and 3.", "Every ε is at δ = 1e-5", "report.md", report.NEXT),
    "audit": ("No claim was refuted by 2 audits (law and game).", "cannot show that one is true", "audit.json"),
    "model": (
        "epsilon = 2.527 at delta = 1e-05",
        "An attacker's best guess",
        "a table with the columns 'age'",
        "pate predict",
    ),
}
FOLDED = {
    "report": ("Released by", "Who is protected, and against whom", "To run it again"),
    "compare": ("differences looked at hold together", "what each saw, and how it was tuned", "To run it again"),
    "audit": ("False alarms", "What it does not show: the rest.", "no private table"),
    "model": ("no private row, vote", "each record is in one shard", "SHA-256"),
}

#: Where the last part of the first screen ends, and how many folded parts are not seen.
BOTTOM = "document.querySelector('.next').getBoundingClientRect().bottom"
HIDDEN = "[...document.querySelectorAll('details > div')].filter(e => !e.checkVisibility()).length"


def law(layer="law", **more):
    told = {"claim": "its exact law", "tried": "20,000 releases", "refuted": False, "finding": "nothing"}
    return AuditResult(layer=layer, target="GNMax(sigma=40.0)", false_alarms=1e-6, limits="the rest.", **told, **more)


def model(**changes):
    door = InputSpec(kind="table", n_features=1, columns=(("age", "numeric"),))
    manifest = Manifest(kind="student", classes=("no", "yes"), dtype="<U3", door=door, made_of=("a tree",))
    return ModelFile(path=Path("my model.pate"), manifest=manifest, statement=make_statement(**changes))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("first")
    bounds = [Figure(name="public epsilon", value=1.9), Figure(name="lower bound on epsilon", value=1.2, low=1.2)]
    audit = Audit(title="Audit of votes", results=[law(), law("game", figures=bounds)], command="pate audit votes.npy",
                  left_out=["replay: no private table"])  # fmt: skip
    pages = {
        "report": report.render_report(RUN),
        "compare": report.render_report(
            comparison(names=["records", "dpsgd"], epsilons=(0.5, 1.0, 3.0)).result(command="pate compare")
        ),
        "audit": audit.html(),
        "model": model().html(),
    }
    for name, text in pages.items():
        (place / f"{name}.html").write_text(text, encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("chromium") / "profile") as found:
        yield found


@pytest.mark.long
@pytest.mark.parametrize("name", FIRST)
def test_the_answer_is_first_and_the_rest_is_folded(folder, name):
    text = (folder / f"{name}.html").read_text(encoding="utf-8")
    check_self_contained(text)
    first = check_text(text[: text.index("<details>")])
    folded = check_text(text[text.index("<details>") :])
    for said in FIRST[name]:
        assert said in first, said
    for said in FOLDED[name]:
        assert said in folded, said
        assert said not in first, said
    # Nothing stands open below the first of what is folded; every fold has a title and a place to link to.
    below = text[text.index("<details>") : text.index("</main>")]
    assert re.match(r"<details><summary><h2>[^<]+</h2></summary>\s*<div id='[\w-]+'>", below)
    assert len(re.findall(r"</div></details>\s*<details><summary><h2>", below)) >= 2


def check_text(markup):
    return " ".join(re.sub(r"<svg.*?</svg>|<style>.*?</style>|<[^>]+>", " ", markup, flags=re.DOTALL)
                    .replace("&#39;", "'").split())  # fmt: skip


@pytest.mark.long
def test_no_privacy_and_public_rows_stand_beside_where_the_run_has_them():
    ceiling = {"contestant": "SVC", "role": "ceiling", "epsilon": None, "delta": None, "accuracy": 0.987, "seed": 0}
    floor = {**ceiling, "contestant": "public rows alone", "role": "floor", "accuracy": 0.5}
    made = {"kind": "run", "title": "t", "published": True, "rows": [ceiling, floor, make_row(), make_row(seed=1)]}
    first = check_text(report.render_report(made).partition("<details>")[0])
    assert "PATE is right on 90.0% ± 0.0 of the test rows at ε = 2.527." in first
    assert "SVC 98.7% without privacy; 1 seed" in first
    assert "public rows alone 50.0% sees no private row; 1 seed" in first


def test_how_good_a_model_is_and_what_speaks_against_it_stand_first():
    first = check_text(model().html().partition("<details>")[0])
    assert "not measured within this epsilon" in first
    assert "pate predict new.csv --model 'my model.pate' --out predictions.csv" in first
    seeded = model(seeded=True).html()
    assert "class='alarm'" in seeded
    assert "this release" not in check_text(seeded)  # no scale of what an attacker may guess


@pytest.mark.skipif(CHROMIUM is None, reason=WHY)
class TestInABrowser:
    @pytest.mark.long
    @pytest.mark.parametrize("name", FIRST)
    def test_the_first_screen_ends_with_what_to_do_next(self, browser, folder, name):
        seen = browser.look(folder / f"{name}.html", width=1280, whole=False, ask=BOTTOM)
        assert 300 < seen.said <= 800
        assert seen.height < 2000

    @pytest.mark.long
    @pytest.mark.parametrize("name", FIRST)
    @pytest.mark.parametrize("width", [390, 1280])
    def test_no_wider_than_the_window_light_or_dark(self, browser, folder, name, width):
        for dark in (False, True):
            seen = browser.look(folder / f"{name}.html", width=width, dark=dark, whole=False)
            assert (seen.width, seen.complaints) == (width, ())
            assert seen.requests == ((folder / f"{name}.html").as_uri(),)

    @pytest.mark.long
    @pytest.mark.parametrize("name", FIRST)
    def test_what_is_folded_is_printed(self, browser, folder, name):
        shown, printed = (
            browser.look(folder / f"{name}.html", width=1280, whole=False, media=media, ask=HIDDEN).said
            for media in ("screen", "print")
        )
        assert shown > 1
        assert printed == 0

    @pytest.mark.long
    def test_a_link_to_what_is_folded_opens_it(self, browser, folder):
        for at, is_open in (("", False), ("#statement", True)):
            ask = "document.getElementById('statement').parentElement.open"
            assert browser.look(folder / "report.html", width=1280, whole=False, at=at, ask=ask).said is is_open
