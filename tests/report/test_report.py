import copy
import json
import re
import subprocess
import sys
from dataclasses import fields
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from chromium import CHROMIUM, WHY, Browser
from jinja2 import UndefinedError

import pate
from pate import report
from pate._core.pages import render
from pate.exceptions import InvalidInputError
from pate.privacy.words import Guarantee
from pate.release.statement.catalogue import english
from pate.release.statement.model import PrivacyStatement
from pate.report._measures import measurements, who_wins
from pate.report._public import NEXT
from pate.report.result import Result, Row, SensitiveResult

RESULT = tuple(f.name for f in fields(Result))
SENSITIVE = tuple(f.name for f in fields(SensitiveResult))
EVIL = "<b>&\"'</style><img src=x>{{ 7 * 7 }}{% raw %}"


def make_statement(**changes):
    promise = Guarantee(epsilon=changes.pop("epsilon", 2.527), delta=1e-5, kind="public", method="gdp")
    return PrivacyStatement(
        **{
            "released": "640 labels",
            "unit": "record",
            "n_units": 60000,
            "guarantee": promise,
            "mechanism": "GNMax(sigma=40)",
            "accounting": "exact Gaussian",
            "assumptions": ("each record is in one shard",),
            **changes,
        }
    )


def make_row(contestant="PATE", epsilon=2.527, accuracy=0.9, seed=0):
    return {
        "contestant": contestant,
        "epsilon": epsilon,
        "delta": 1e-5,
        "accuracy": accuracy,
        "seed": seed,
        "queries": 640 if contestant == "PATE" else None,
        "answers": 600 + seed if contestant == "PATE" else None,
    }


@pytest.fixture
def result():
    return {
        "kind": "run",
        "title": "PATE on digits",
        "dataset": "digits",
        "protocol": "standard",
        "description": "Handwritten digits.",
        "command": "pate demo --out run",
        "created": "2026-01-01T00:00:00+00:00",
        "versions": {"pate": "0.1.0"},
        "commit": "abc1234",
        "classes": [0, 1, 2],
        "settings": {"teachers": 250, "sigma": 40.0, "seeds": [0, 1], "student": None},
        "budget": {"epsilon": 3.0, "delta": 1e-5},
        "rows": [make_row(accuracy=a, seed=i) for i, a in enumerate((0.90, 0.94))]
        + [make_row("DP-SGD", 2.99, a, i) for i, a in enumerate((0.80, 0.86))],
        "answers_per_class": [10, 20, 30],
        "cost_curve": {
            "curves": [{"label": "GNMax", "queries": [1, 640], "epsilon": [0.1, 2.527]}],
            "spent": {"queries": 640, "epsilon": 2.527},
        },
        "statement": make_statement().to_dict(),
        "notes": ["a note"],
    }


CURVE = {"n_teachers": [1, 2], "accuracy": [0.5, 0.6], "low": [0.5, 0.6], "high": [0.5, 0.6], "n_rows": 9, "n_draws": 2}


@pytest.fixture
def sensitive():
    return {
        "references": [{"name": "non-private model", "accuracy": a, "seed": i} for i, a in enumerate((0.983, 0.985))],
        "margins": [3, 100, 250],
        "n_teachers": 250,
        "teacher_accuracy": [0.61234, 0.7, 0.8],
        "ensemble_curve": {
            "n_teachers": [1, 50, 250],
            "accuracy": [0.7654, 0.8, 0.9321],
            "low": [0.6, 0.79, 0.9321],
            "high": [0.8, 0.82, 0.9321],
            "clear": [0.0, 0.1, 0.8766],
            "margin_noise": 56.57,
            "n_rows": 1234,
            "n_draws": 20,
        },
        "data_dependent": [
            {"label": "Theorem 6", "epsilon": 1.7119, "delta": 1e-5, "method": "rdp", "use": "comparison only"}
        ],
        "label_accuracy": [{"seed": 0, "accuracy": 0.9512}],
        "seconds": [{"name": "PATE", "seconds": 12.34, "seed": 0}],
        "ceilings": [],
        "costs": [],
        "notes": ["for the curator"],
    }


class Page(HTMLParser):
    """Reads a page as a browser would: tags that are closed, ids, addresses, text."""

    VOID = frozenset({"meta", "br", "img", "link", "input"})

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.addresses, self.text, self.handlers = [], [], [], [], "", []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in {"src", "href", "xlink:href", "action", "data", "srcset", "poster"}:
                self.addresses.append(value)
            if name.startswith("on"):
                self.handlers.append(name)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open, tag
        assert self.open[-1] == tag, self.open
        self.open.pop()

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.text += data


def check_self_contained(text):
    page = Page(text)
    assert page.open == []
    assert not {"script", "link", "img", "iframe", "object", "embed", "form", "base", "foreignobject"} & set(page.tags)
    assert page.handlers == []
    assert len(set(page.ids)) == len(page.ids)
    for address in page.addresses:  # pieces of this very page only
        assert address.startswith("#")
        assert address[1:] in page.ids
    for target in re.findall(r"url\(([^)]*)\)", text):
        assert target.startswith("#")
        assert target[1:] in page.ids
    assert "<script" not in text.lower()
    assert "@import" not in text
    assert not re.search(r"https?://", text)
    assert "default-src 'none'" in text
    return page


@pytest.mark.long
def test_public_report_is_whole_and_asks_nothing_of_the_network(tmp_path, result):
    report.write_report(tmp_path / "report.html", result)
    page = check_self_contained((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert page.tags.count("svg") == 6  # accuracy, cost, classes, each for a wide and for a narrow window
    for shown in (
        "PATE on digits",
        "ε = 2.527 at δ = 1e-5 for one record",
        "a reasonable guarantee",
        "92.0% ± 2.8",
        "83.0% ± 4.2",
        "600 to 601",
        "60 labels were released",
        "pate demo --out run",
        "abc1234",
        "each record is in one shard",
        "Who is protected, and against whom",
        "PATE or DP-SGD?",
        "Next: your own table",
        "Epsilon (ε)",
        "a note",
        "ε = 3, δ = 1e-5",
    ):
        assert shown in page.text
    assert "SENSITIVE" not in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "not private" not in page.text.lower()


@pytest.mark.long
def test_sensitive_report_is_marked_throughout_and_for_its_owner_only(tmp_path, result, sensitive):
    path = tmp_path / "sensitive.html"
    report.write_sensitive_report(path, result, sensitive)
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text(encoding="utf-8")
    page = check_self_contained(text)
    headings = re.findall(r"<h[12]>.*?</h[12]>", text)
    assert len(headings) == 11
    assert all("<span class='badge'>SENSITIVE</span>" in heading for heading in headings)
    assert "<title>SENSITIVE: " in text
    # What prints on every page: a table header, and the margin box where the browser knows those.
    assert f'<div class="running"><p>{report.MARK}</p></div>' in text
    assert re.search(r"@media print.*\.running \{ display: table-header-group", text, re.DOTALL)
    assert '@bottom-left { content: "SENSITIVE: not for publication"' in text
    for shown in (
        "98.4% ± 0.1",
        "median margin 100 of 250",
        "61.2% to 80.0%",
        "1.712",
        "comparison only",
        "95.1%",
        "12.3",
    ):
        assert shown in page.text
    # the difference of two noises of sigma 40 has standard deviation 56.57; 2 of 3 margins are wider
    assert "56.57" in page.text
    assert "66.7% of the margins" in page.text


@pytest.mark.long
def test_how_many_teachers_is_answered_for_the_curator_alone(result, sensitive):
    page = check_self_contained(report.render_sensitive_report(result, sensitive)).text
    assert "How many teachers?" in page
    assert "Choosing the number of teachers by it is tuning on private data, which no epsilon here covers" in page
    assert "pate plan" in page
    for shown in ("1,234 test rows, 20 random subsets", "76.5% right; all 250: 93.2%", "87.7%", "113.1 votes"):
        assert shown in page
    assert "How many teachers?" not in report.render_report(result)
    without = {**sensitive["ensemble_curve"], "clear": None, "margin_noise": None}
    page = report.render_sensitive_report(result, {**sensitive, "ensemble_curve": without})
    assert "How many teachers?" in page
    assert "wider than two standard deviations" not in page
    assert "of the margins are wider" not in page
    assert "How many teachers?" not in report.render_sensitive_report(result, {"notes": ["x"]})


def test_report_needs_only_kind_title_and_rows():
    nothing = dict.fromkeys(set(RESULT) - {"kind", "title", "rows"})
    check_self_contained(report.render_report({**nothing, "kind": "run", "title": "t", "rows": [make_row()]}))
    check_self_contained(report.render_report({"kind": "run", "title": "t", "rows": []}))
    check_self_contained(report.render_report({"kind": "comparison", "title": "t", "rows": [make_row()]}))
    check_self_contained(report.render_sensitive_report({"kind": "run", "title": "t", "rows": []}, {}))


@pytest.mark.long
def test_same_input_gives_the_same_bytes_and_survives_json(result, sensitive):
    before = copy.deepcopy((result, sensitive))
    first = report.render_report(result), report.render_sensitive_report(result, sensitive)
    again = json.loads(json.dumps([result, sensitive]))
    assert (report.render_report(again[0]), report.render_sensitive_report(*again)) == first
    assert (result, sensitive) == before


@pytest.mark.parametrize("key", sorted(set(SENSITIVE) - {"notes"}))
def test_nothing_sensitive_gets_into_the_public_report(tmp_path, result, sensitive, key):
    path = tmp_path / "report.html"
    with pytest.raises(InvalidInputError, match=f"'{key}'"):
        report.write_report(path, {**result, key: sensitive[key]})
    with pytest.raises(InvalidInputError, match=f"'{key}'"):
        report.write_report(path, {**result, "rows": [{**result["rows"][0], key: 0.5}]})
    if key != "n_teachers":  # the number of teachers is a setting
        with pytest.raises(InvalidInputError, match=key):
            report.write_report(path, {**result, "settings": {key: 0.5}})
    assert not path.exists()


def test_whole_sensitive_dictionary_is_refused_wherever_it_hides(tmp_path, result, sensitive):
    path = tmp_path / "report.html"
    for place in ("settings", "versions", "budget", "cost_curve", "statement"):
        with pytest.raises(InvalidInputError):
            report.write_report(path, {**result, place: sensitive})
    for bad in (
        {**result, "settings": {"x": sensitive}},
        {**result, "settings": {"x": list(range(33))}},
        {**result, "settings": {"x": [[1]]}},
        {**result, "settings": {"x": np.zeros(3)}},
        {**result, "notes": [sensitive]},
        {**result, "sensitive": sensitive},
        {**result, "cost_curve": {**result["cost_curve"], "margins": [1]}},
        {**result, "statement": {**result["statement"], "margins": [1]}},
        {**result, "statement": {**result["statement"], "versions": {"x": [1]}}},
    ):
        with pytest.raises(InvalidInputError):
            report.write_report(path, bad)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("epsilon", [None, float("inf"), float("nan"), "3"])
def test_contestant_without_a_guarantee_is_refused(result, epsilon):
    result["rows"].append({**make_row("non-private"), "epsilon": epsilon})
    with pytest.raises(InvalidInputError, match="without a guarantee is private"):
        report.render_report(result)


def test_data_dependent_epsilon_is_refused_as_the_statement(result):
    result["statement"]["guarantee"]["kind"] = "data-dependent"
    with pytest.raises(InvalidInputError, match="'public' or 'sanitised'"):
        report.render_report(result)


def test_errors_never_carry_private_values(result, sensitive):
    secret = 0.123456789
    attempts = [
        lambda: report.render_report({**result, "margins": [secret]}),
        lambda: report.render_report({**result, "notes": [secret]}),
        lambda: report.render_report({**result, "budget": {"epsilon": -secret, "delta": 1e-5}}),
        lambda: report.render_report({**result, "budget": {"epsilon": 1.0, "delta": [secret]}}),
        lambda: report.render_report({**result, "settings": {"x": [[secret]]}}),
        lambda: report.render_report({**result, "rows": [{**make_row(), "accuracy": [secret]}]}),
        lambda: report.render_sensitive_report(result, {**sensitive, "margins": [secret]}),
        lambda: report.render_sensitive_report(result, {**sensitive, "teacher_accuracy": [[secret]]}),
        lambda: report.render_sensitive_report(result, {**sensitive, "ensemble_curve": CURVE | {"accuracy": [secret]}}),
        lambda: report.render_sensitive_report(
            result, {**sensitive, "ensemble_curve": CURVE | {"low": [[secret]] * 2}}
        ),
        lambda: report.render_sensitive_report(result, {**sensitive, "extra": secret}),
        lambda: report.render_sensitive_report(result, {**sensitive, "label_accuracy": [{"accuracy": secret}]}),
    ]
    for attempt in attempts:
        with pytest.raises(InvalidInputError) as caught:
            attempt()
        assert "0.1234" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "poem"},
        {"title": 3},
        {"rows": None},
        {"rows": [{"contestant": "PATE"}]},
        {"rows": [{**make_row(), "seconds": 1.5}]},
        {"answers_per_class": [1, 2]},
        {"answers_per_class": [1.5, 2, 3]},
        {"classes": [[1], [2], [3]]},
        {"classes": [0, 1, 10**400]},
        {"rows": [{**make_row(), "accuracy": 10**400}]},
        {"rows": [{**make_row(), "queries": 10**400}]},
        {"budget": {"epsilon": 1.0}},
        {"cost_curve": {"curves": []}},
        {"cost_curve": {"curves": [{"label": "a", "queries": [1, 2], "epsilon": [1.0]}]}},
        {"statement": {"headline": "epsilon = 0"}},
    ],
)
def test_malformed_results_are_refused(result, change):
    with pytest.raises(InvalidInputError):
        report.render_report({**result, **change})


@pytest.mark.parametrize(
    "change",
    [
        {"margins": [251]},
        {"margins": [-1]},
        {"n_teachers": None},
        {"references": [{"name": "x"}]},
        {"ensemble_curve": {}},
        {"ensemble_curve": [1.0]},
        {"ensemble_curve": CURVE | {"votes": [1]}},
        {"ensemble_curve": CURVE | {"accuracy": [0.5]}},
        {"ensemble_curve": CURVE | {"n_teachers": [1.5, 2]}},
        {"ensemble_curve": CURVE | {"low": None}},
        {"ensemble_curve": CURVE | {"clear": [0.1]}},
        {"ensemble_curve": CURVE | {"clear": [0.1, 0.2]}},
        {"ensemble_curve": CURVE | {"n_rows": "many"}},
        {"ensemble_curve": CURVE | {"n_teachers": [], "accuracy": [], "low": [], "high": []}},
    ],
)
def test_malformed_sensitive_values_are_refused(result, sensitive, change):
    with pytest.raises(InvalidInputError):
        report.render_sensitive_report(result, {**sensitive, **change})


@pytest.mark.long
def test_all_text_is_escaped(result, sensitive):
    result.update(
        dict.fromkeys(("title", "dataset", "protocol", "description", "command", "created", "commit"), EVIL),
        classes=[EVIL, "</svg><script>alert(1)</script>", 'id="x" url(#y) : #0072b2'],
        settings={EVIL: EVIL},
        versions={EVIL: EVIL},
        notes=[EVIL],
        rows=[make_row(EVIL)],
        statement=make_statement(released=EVIL, mechanism=EVIL, tuning=EVIL, assumptions=(EVIL,)).to_dict(),
    )
    result["cost_curve"]["curves"][0]["label"] = EVIL
    sensitive["references"][0]["name"] = EVIL
    sensitive["data_dependent"][0].update(label=EVIL, method=EVIL, use=EVIL)
    sensitive["notes"] = [EVIL]
    for text in (report.render_report(result), report.render_sensitive_report(result, sensitive)):
        check_free_of_markup = Page(text)
        assert check_free_of_markup.open == []
        assert not {"b", "img", "script"} & set(check_free_of_markup.tags)
        assert EVIL in check_free_of_markup.text
        assert text.count("</style>") == 1
    assert 'id="x" url(#y) : #0072b2' in Page(report.render_report(result)).text  # a name is left as it is


def test_templates_trust_nothing_and_name_no_address():
    """Text becomes markup in Python alone, where it is escaped by name; a template cannot switch the escaping off."""
    files = [f for f in (resources.files("pate") / "_templates").iterdir() if f.name.endswith((".html", ".css"))]
    assert len(files) >= 8
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"\|\s*safe|autoescape|<script|https?:|url\(|@import", text), file.name
        if file.name.endswith(".css"):
            assert not re.search(r"\{[{%#]", text), file.name
    with pytest.raises(UndefinedError):
        render("statement.html", headline="x")


@pytest.mark.long
def test_seeded_run_says_so_first_and_promises_nothing(result):
    result["statement"] = make_statement(seeded=True).to_dict()
    page = Page(report.render_report(result))
    body = page.text[page.text.index("Not private: seeded noise") :]
    assert body.index("PATE on digits") > 0  # the alarm stands before the title
    assert "is differentially private" not in page.text
    assert "right at most" not in page.text
    assert "alarm" not in report.render_report({**result, "statement": None}).split("</style>")[1]
    seeded = {**result, "statement": None, "settings": {"noise_seed": 1}}
    assert "Not private: seeded noise" in report.render_report(seeded)


def test_a_guarantee_of_seeded_noise_promises_nothing(result):
    made = make_statement(seeded=True)
    text = Page(report.render_report({**result, "statement": made.to_dict()})).text
    assert "Not private: seeded noise" in text
    assert "NOT PRIVATE: seeded noise; by gdp" in text
    assert "is differentially private" not in text
    made = make_statement().to_dict()
    made["guarantee"]["kind"] = "seeded"  # and not seeded: one of the two was put there by hand
    with pytest.raises(InvalidInputError, match="contradicts itself"):
        report.render_report({**result, "statement": made})


@pytest.mark.long
@pytest.mark.parametrize(
    ("epsilon", "short", "long"), [(2.51112, "2.512", "2.51112"), (2.5111201, "2.512", "2.51113"), (3.0, "3", "3")]
)
def test_a_guarantee_is_rounded_up_never_to_nearest(result, epsilon, short, long):
    result["statement"] = make_statement(epsilon=epsilon).to_dict()
    result["rows"] = [make_row(epsilon=epsilon)]
    result["budget"] = {"epsilon": epsilon, "delta": 1.0001e-5}
    result["cost_curve"] = None
    text = Page(report.render_report(result)).text
    assert f"ε = {short} at δ = 1e-5 for one record" in text
    assert f"epsilon = {short} at" in text
    assert f"{long} at delta 1e-05; public" in text
    assert f"ε = {short}, δ = 1.001e-5" in text
    if short == "2.512":
        # The picture keeps plain numbers; nothing else may say less than was spent.
        outside = re.sub(r"<svg.*?</svg>", "", report.render_report(result), flags=re.DOTALL)
        assert not re.search(r"2\.511(?![12])", outside)
    result.update(kind="comparison", statement=None, rows=[make_row(epsilon=epsilon), make_row("DP-SGD", epsilon)])
    text = Page(report.render_report(result)).text
    assert f"PATE and DP-SGD at ε = {short}, δ" in text
    references = [{"name": "free", "accuracy": 0.9, "seed": 0}]
    private = report.render_sensitive_report(result, {"references": references})
    assert re.search(rf"<td class='number'[^>]*>{re.escape(short)}</td>", private)


@pytest.mark.parametrize(
    "edit",
    [
        {"headline": "epsilon = 0.001 (strong)", "tier": "strong"},
        {"tuning": "nothing"},
        {"assumptions": [{"name": "stated", "claim": "each record is in one shard", "how": "", "by": "pate"}]},
        {"digest": "0" * 64},
    ],
)
def test_an_edited_statement_is_refused_not_shown(result, edit):
    result["statement"].update(edit)
    with pytest.raises(InvalidInputError, match="contradicts itself"):
        report.render_report(result)


@pytest.mark.few(1)
@pytest.mark.parametrize(("epsilon", "tier", "success"), [(0.5, "strong", "62.3%"), (12.0, "weak", "100.0%")])
def test_tier_and_meaning(result, epsilon, tier, success):
    # exp(0.5) / (1 + exp(0.5)) = 0.62246: rounded upwards, since it is a bound
    result["statement"] = make_statement(epsilon=epsilon, n_units=5_000).to_dict()
    text = Page(report.render_report(result)).text
    assert f"a {tier} guarantee" in text
    assert f"right at most {success}" in text
    assert ("audit as well" in text) == (tier == "weak")


@pytest.mark.long
def test_group_level_privacy_is_named(result):
    result["statement"] = make_statement(unit="group", n_units=None).to_dict()
    text = Page(report.render_report(result)).text
    assert "for one group (all rows of one person)" in text


@pytest.mark.long
def test_rows_alone_are_drawn_and_none_is_called_ahead(result):
    """Without the answers row by row there is no paired difference, so no verdict."""
    result.update(kind="comparison", statement=None, settings={})
    accuracies = {("PATE", 1.0): (0.90, 0.92), ("DP-SGD", 1.0): (0.70, 0.72), ("PATE", 8.0): (0.90, 0.94)}
    accuracies |= {("DP-SGD", 8.0): (0.91, 0.95)}
    result["rows"] = [make_row(c, e, a, i) for (c, e), pair in accuracies.items() for i, a in enumerate(pair)]
    text = Page(check := report.render_report(result)).text
    assert "PATE and DP-SGD at ε = 1, 8, δ = 1e-5." in text
    assert "Who is ahead is not said here" in text
    assert "is ahead," not in text
    assert "band: ± one standard deviation" in text
    check_self_contained(check)
    result["rows"] = [row for row in result["rows"] if row["contestant"] == "PATE"]
    assert "Who is ahead" not in Page(report.render_report(result)).text


# What came out, who wins, and what is next ---------------------------------------------------------------------


@pytest.mark.long
def test_public_images_are_drawn_with_what_was_released(result):
    shown = [{"image": ["0990", "0009"], "label": "<b>4", "confidence": 0.981}, {"image": ["1"], "label": None}]
    shown += [{"image": ["9"], "label": 3, "lead": 12.4}]
    text = report.render_report({**result, "examples": shown})
    page = check_self_contained(text)
    assert "<path d='M1 0h2v1h-2zM3 1h1v1h-1z' fill-opacity='1'/>" in text
    for said in ("<b>4", "none", "No private image is on this page"):
        assert said in page.text
    for title in ("98.1% sure", "lead of 12 votes"):
        assert f"<li title='{title}'>" in text
    assert "b" not in page.tags
    assert "What came out" not in report.render_report(result)
    assert Result.from_dict(Result.from_dict({**result, "examples": shown}).to_dict()).examples[1].label is None


@pytest.mark.parametrize("image", [[], ["12", "1"], ["a"], ["٣"], ["0" * 65], ["0"] * 65, "09", [""]])
def test_what_is_no_image_is_refused(result, image):
    with pytest.raises(InvalidInputError):
        report.render_report({**result, "examples": [{"image": image, "label": 1}]})


def test_who_wins_is_said_as_it_was_measured(result):
    """The words that stand in the template, held against the figures."""
    rows = measurements()["rows"]
    winners = who_wins()
    said = [row["verdict"] for row in rows]
    assert f"PATE ahead in {said.count('ahead')}, DP-SGD in {said.count('behind')}, undecided in" in winners["sentence"]
    assert sum(len(cell.split("; ")) for line in winners["lines"] for cell in line[1:] if cell != "–") == len(rows)
    text = Page(report.render_report(result)).text
    assert winners["sentence"] in text
    assert "The smaller epsilon is, the more PATE gains; as epsilon grows, DP-SGD catches up." in text
    assert len({row["data"] for row in rows}) >= 5
    low = [row["verdict"] for row in rows if row["epsilon"] <= 0.5]
    high = [row["verdict"] for row in rows if row["epsilon"] > 0.5]
    assert low.count("ahead") / len(low) > high.count("ahead") / len(high)
    for source in winners["sources"]:
        assert (Path(pate.__file__).parents[1] / source).is_file()


@pytest.mark.long
def test_the_next_command_is_one_that_the_command_line_takes(result, tmp_path):
    assert NEXT in Page(report.render_report(result)).text
    rng = np.random.default_rng(0)
    for name, n, target in (("patients.csv", 60, ",ill"), ("cohort.csv", 40, "")):
        ages = rng.integers(20, 90, n)
        lines = [f"{a},{a % 7}" + (f",{'yes' if a > 55 else 'no'}" if target else "") for a in ages]
        (tmp_path / name).write_text("\n".join([f"age,days{target}", *lines]) + "\n")
    command = [sys.executable, "-c", "from pate.cli import main; main()", *NEXT.split()[1:]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cohort.csv", "patients.csv"]  # nothing was released


@pytest.mark.long
def test_words_are_explained_on_hover_and_below(result):
    text = report.render_report(result)
    for term in ("epsilon", "delta", "sigma", "gdp", "adjacency", "teacher"):
        name, meaning = english()(f"glossary.name.{term}").text, english()(f"glossary.{term}").text
        assert f"<dt>{name}</dt><dd>{meaning}</dd>" in text
    assert f"<abbr title='{english()('glossary.epsilon').text}'>Epsilon (ε)</abbr>" in text


@pytest.mark.long
def test_every_picture_is_drawn_for_a_phone_too(result, sensitive):
    for text in (report.render_report(result), report.render_sensitive_report(result, sensitive)):
        widths = re.findall(r"<svg class='(wide|narrow)' viewBox='0 0 ([\d.]+) ", text)
        assert len(widths) >= 6
        assert [name for name, _ in widths] == ["wide", "narrow"] * (len(widths) // 2)
        assert {name: float(points) for name, points in widths} == {"wide": 489.6, "narrow": 252.0}
        style = text[: text.index("</style>")]
        assert re.search(r"max-width: 560px.*svg\.wide \{ display: none; \}", style, re.DOTALL)


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason=WHY)
def test_no_page_is_wider_than_its_window_and_no_table_is_cut(tmp_path, result, sensitive):
    result["examples"] = [{"image": ["09" * 4] * 8, "label": i, "confidence": 0.9} for i in range(12)]
    pages = {"r": report.render_report(result), "s": report.render_sensitive_report(result, sensitive)}
    pages["p"] = make_statement(ledger_head="0123456789abcdef" * 4).of_file("labels.csv", b"").html()
    with Browser(tmp_path / "profile") as browser:
        for name, text in pages.items():
            (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
            for width in (390, 1280):
                seen = browser.look(tmp_path / f"{name}.html", width=width, whole=False)
                assert (name, seen.width, seen.cut) == (name, width, ())
                assert seen.complaints == ()


def test_truth_values_may_be_classes(result):
    result.update(classes=[False, True], answers_per_class=[3, 4])
    assert "True" in report.render_report(result)


@pytest.mark.long
def test_results_come_back_from_their_json(result, sensitive):
    made, inside = Result.from_dict(result), SensitiveResult.from_dict(sensitive)
    assert made.statement == PrivacyStatement.from_dict(result["statement"])
    rows = [Row.from_dict(row).to_dict() for row in result["rows"]]
    more = {"rows": rows, "published": False, "entrants": [], "fit_costs": [], "statements": [], "examples": []}
    assert json.loads(json.dumps(made.to_dict(), allow_nan=False)) == {**result, **more}
    assert json.loads(json.dumps(inside.to_dict(), allow_nan=False)) == sensitive
    assert Result.from_dict(json.loads(json.dumps(made.to_dict()))) == made
    assert (report.render_report(made), report.render_sensitive_report(made, inside)) == (
        report.render_report(result),
        report.render_sensitive_report(result, sensitive),
    )


def test_an_object_is_checked_as_its_json_is(result):
    """The checker is not bypassed by making the value in Python."""
    with pytest.raises(InvalidInputError, match=r"row\['epsilon'\] must be a finite number. A contestant without"):
        Row(contestant="free", epsilon=None, delta=1e-5, accuracy=0.9, seed=0)
    with pytest.raises(InvalidInputError, match=r"result\['rows'\]\[0\] must be a dictionary"):
        Result(kind="run", title="t", rows=[0.5])
    with pytest.raises(InvalidInputError, match="made from private votes"):
        Result(kind="run", title="t", rows=(), settings={"margins": 3})
    with pytest.raises(InvalidInputError, match="one count for each"):
        Result(kind="run", title="t", rows=(), classes=(0, 1), answers_per_class=(3,))
    made = Result.from_dict(result)
    with pytest.raises(AttributeError):
        made.rows = ()


def test_where_a_bad_value_stands_is_said(result, sensitive):
    result["rows"][3]["accuracy"] = "0.9"
    with pytest.raises(InvalidInputError, match=r"^result\['rows'\]\[3\]\['accuracy'\] must be a finite number"):
        report.render_report(result)
    sensitive["data_dependent"][0]["epsilon"] = None
    with pytest.raises(InvalidInputError, match=r"^sensitive\['data_dependent'\]\[0\]\['epsilon'\] must be a finite"):
        SensitiveResult.from_dict(sensitive)


def test_private_numbers_do_not_print(sensitive):
    inside = SensitiveResult.from_dict(sensitive)
    for part in (inside, *inside.references, *inside.data_dependent, *inside.label_accuracy, *inside.seconds,
                 inside.ensemble_curve):  # fmt: skip
        assert re.fullmatch(r"\w+\(<sensitive>\)", repr(part))
        assert repr(part) == str(part)


@pytest.mark.few(1)
@pytest.mark.parametrize("delta", [1e-5, 0.1])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 2.527, 11.0])
def test_text_page_and_report_state_one_attackers_bound(result, epsilon, delta):
    promise = Guarantee(epsilon=epsilon, delta=delta, kind="public", method="gdp")
    statement = make_statement(guarantee=promise)
    success = statement.to_dict()["meaning"]["bounds"]["largest_success"]
    # (1 + total variation) / 2 of the pair that fills the privacy region
    worst = (1 + delta * np.exp(-epsilon)) / (1 + np.exp(-epsilon))
    assert worst <= success <= worst * 1.002
    result["statement"] = statement.to_dict()
    for text in (statement.text(), Page(statement.html()).text, Page(report.render_report(result)).text):
        said = re.findall(r"right at most ([\d.]+)%", " ".join(text.split()))
        assert said
        assert {float(share) for share in said} == {np.ceil(1000 * success - 1e-9) / 10}


def test_contract_keys_are_all_known():
    assert set(RESULT) & set(SENSITIVE) == {"notes"}
