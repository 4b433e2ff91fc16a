"""The page of a comparison: what it says, that it is one file, and that nothing private stands on it."""

import json
import re
from dataclasses import fields, replace
from importlib import resources
from pathlib import Path
from typing import Any, get_args, get_type_hints

import jsonschema
import pytest
from comparison_samples import comparison
from test_report import EVIL, Page, check_self_contained

from pate import report as pages
from pate.exceptions import InvalidInputError
from pate.report._comparison import anchors, comparison_picture
from pate.report._measures import starved
from pate.report._record import Record
from pate.report.result import SCHEMA, Band, ComparisonResult, Entrant, Row, SideVerdict

TEMPLATES = resources.files("pate") / "_templates"
SCHEMA_FILE = json.loads((TEMPLATES / "comparison.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA_FILE)


@pytest.fixture(scope="module")
def made():
    return comparison(4, (0.1, 1.0, 15.0), starve=2, refuse=True, dataset="mnist")


@pytest.fixture(scope="module")
def page(made):
    return pages.render_report(made.result(command="pate compare --dataset mnist"))


@pytest.mark.long
def test_the_straight_answer_comes_first(made, page):
    text = Page(page).text
    sides = made.side_verdicts()
    assert [v.verdict for v in sides] == ["ahead", "ahead", "undecided"]  # as the curves were made
    assert "PATE is ahead of DP-SGD at ε = 0.1 and 1; undecided at ε = 15." in text
    assert text.index("PATE is ahead of DP-SGD") < text.index("Accuracy against epsilon")
    for v in sides:
        interval = f"{100 * v.low:+.1f} to {100 * v.high:+.1f}".replace("-", "−")
        assert interval in text
    for said in (
        "differences looked at hold together at 95%",
        "One-sided failures break that",
        "Bonferroni",
        "5 repeats",
        "McNemar",
        "Nadeau and Bengio",
    ):
        assert said in text
    assert "the best of either side over all ε:" in text


@pytest.mark.long
def test_every_part_that_is_asked_of_a_page_is_there(page):
    text = check_self_contained(page).text
    for said in (
        "Every verdict, with its interval", "what each saw, and how it was tuned", "340, on splits of training parts",
        "GaussianSum(sigma=100)", "recipe 0, 3 rounds", "Accuracy in the worst class", "Calibration error",
        "Accuracy by class", "Share of the queries answered, by class", "Accuracy by group", "Time and memory",
        "Training, s", "Fits that were refused", "at least 40 answers, got 3", "Every repeat draws again",
        "fits on the private data were made", "pate compare --dataset mnist", "pate 0.1", "Papernot et al.",
        "its ε depends on the votes", "majority: 2",
    ):  # fmt: skip
        assert said in text, said
    assert page.count("<svg ") == 2
    assert page.count("<svg class='wide'") == 1  # and one for a phone


@pytest.mark.long
def test_a_class_that_gets_few_answers_is_named(made, page):
    assert (
        "pate-a at ε = 1: class 2 gets answers to 10.0% of its 250 queries, all classes together 62.5%"
        in Page(page).text
    )
    assert "Classes or groups that get few answers" not in pages.render_report(comparison().result())
    few = [replace(row, class_queries=(50, 50, 3, 50)) for row in made.result().rows]  # too few to tell
    assert starved(replace(made.result(), rows=tuple(few))) == []
    group = {"value": "B", "n_test": 9, "accuracy": 0.5, "n_queries": 40, "answer_rate": 0.1}
    row = Row(contestant="A", epsilon=1.0, delta=1e-5, accuracy=0.9, seed=0, queries=100, answers=70, groups=(group,))
    assert "group B gets answers to 10.0% of its 40" in starved(replace(made.result(), rows=(row,), **_nothing()))[0]


def _nothing() -> dict[str, Any]:
    return {"bands": (), "verdicts": (), "side_verdicts": (), "side_pairs": (), "crossings": (), "rule": None}


def test_the_axis_of_one_repeat_starts_where_nothing_was_learnt():
    """92.0 beside 93.4 of a single repeat stood at the bottom and at the top of the picture."""
    rows = [{"contestant": name, "epsilon": e, "delta": 1e-5, "repeat": 0, "accuracy": a, "seed": 0}
            for e in (1.0, 3.0) for name, a in (("records", 0.934), ("dpsgd", 0.92))]  # fmt: skip

    def made(**more):
        given = [Row.from_dict(row) for row in [*rows, *more.pop("more", ())]]
        return ComparisonResult(kind="comparison", title="t", rows=given, **more)

    axes = {
        "classes": comparison_picture(made(classes=tuple(range(10)))),
        "commonest": comparison_picture(
            made(
                classes=("no", "yes"),
                more=[
                    {
                        **rows[0],
                        "contestant": "majority",
                        "role": "floor",
                        "epsilon": None,
                        "delta": None,
                        "accuracy": 0.76,
                    }
                ],
            )
        ),
        "two repeats": comparison_picture(made(classes=(0, 1), more=[{**r, "repeat": 1, "seed": 1} for r in rows])),
    }
    shown = {name: (ax.get_ylim()[0], ax.get_yscale(), ax.get_ylabel()) for name, ax in axes.items()}
    one = "accuracy on the test rows, one repeat"
    assert shown["classes"] == (pytest.approx(0.08), "linear", one)
    assert shown["commonest"] == (pytest.approx(0.74), "linear", one)
    assert shown["two repeats"][0] > 0.85
    assert shown["two repeats"][2] == "accuracy on the test rows"


def test_one_repeat_decides_nothing_and_says_so():
    found = comparison(n_repeats=1)
    assert {v.verdict for v in found.verdicts()} == {"undecided"} == {v.verdict for v in found.side_verdicts()}
    assert all(v.low is None for v in (*found.verdicts(), *found.side_verdicts()))
    text = Page(pages.render_report(found.result())).text
    assert "Undecided. One repeat was made, and a verdict needs at least 3." in text
    assert "Below 3 repeats no difference has an interval" in text
    assert "Accuracy on the test rows of one repeat: a second one may turn every difference round." in text
    assert "mean over the repeats" not in text
    assert "PATE is ahead" not in text
    assert "ahead of" not in text
    for said in ("repeats differ", "hold together", "In brackets"):
        assert said not in text


def test_contestants_of_one_side_differ_by_name():
    found = comparison(names=["fast", "slow"], epsilons=(1.0,), entrants=())
    text = Page(pages.render_report(found.result())).text
    assert "At ε = 1: fast is ahead of slow." in text
    alone = comparison(n_contestants=1, epsilons=(1.0,))
    assert "No verdict: there are no two contestants" in Page(pages.render_report(alone.result())).text


@pytest.mark.long
def test_what_is_private_stands_on_the_sensitive_page_alone(tmp_path):
    """Ceilings, times, memory and data-dependent epsilons of data for the curator alone."""
    found = comparison(published=False)
    folder = found.save(tmp_path / "out")
    found.save_sensitive(tmp_path / "sensitive.html")
    inside = check_self_contained((tmp_path / "sensitive.html").read_text(encoding="utf-8")).text
    for secret in ("98.", "12", "512", "6.223", "0.7778"):
        assert secret in inside
    assert "What could be had without privacy" in inside
    for file in folder.iterdir():
        text = file.read_bytes().decode("latin-1")
        assert not re.search(r"12\.3456|training_seconds|0\.7777|6\.222|6\.223", text), file.name
    public = Page((folder / "report.html").read_text(encoding="utf-8")).text
    assert "Time and memory" not in public
    assert "Ceilings are private, and stand on the sensitive page alone: no-privacy." in public
    assert "no-privacy:" not in public
    level = [row for row in json.loads((folder / "results.json").read_text())["rows"] if row["role"] == "ceiling"]
    assert level == []


@pytest.mark.long
def test_published_data_may_show_costs_but_never_a_data_dependent_epsilon(tmp_path):
    folder = comparison().save(tmp_path / "out")
    for file in folder.iterdir():
        assert not re.search(r"0\.7777|6\.222|6\.223", file.read_bytes().decode("latin-1")), file.name
    assert "Time and memory" in (folder / "report.html").read_text(encoding="utf-8")


def test_no_ceiling_comes_in_by_another_way(made):
    result = made.result()
    with pytest.raises(InvalidInputError, match="contestants of result"):
        replace(result, bands=(*result.bands, Band(contestant="without privacy", mean=0.99, n_repeats=5)))
    with pytest.raises(InvalidInputError, match="published"):
        replace(result, published=False)
    side = SideVerdict(
        epsilon=1.0,
        side="PATE",
        other="DP-SGD",
        best="x",
        best_other="y",
        by="x",
        against="y",
        difference=0.1,
        verdict="ahead",
    )
    with pytest.raises(InvalidInputError, match="contestants of result"):
        replace(result, side_verdicts=(side,))


@pytest.mark.long
def test_all_text_is_escaped_in_page_and_markdown():
    found = comparison(names=[EVIL, "|*b*|"], dataset=EVIL, description=EVIL, refuse=True)
    result = found.result(command=EVIL)
    text = pages.render_report(result)
    shown = check_self_contained(text)
    assert {"b", "img"} & set(shown.tags) == set()
    assert EVIL in shown.text
    markdown = pages.render_markdown(result)
    assert "<b>" not in markdown
    assert "<img" not in markdown
    for line in markdown.splitlines():
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) >= 3
    tables = [block for block in markdown.split("\n\n") if block.startswith("|")]
    assert tables
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_markdown_says_what_the_page_says(made):
    markdown = pages.render_markdown(made.result(command="pate compare"))
    for said in ("PATE is ahead of DP-SGD at ε = 0.1 and 1", "class 2 gets answers", "at least 40 answers", "| A: ",
                 "![Accuracy", "340, on splits", "pate compare"):  # fmt: skip
        assert said in markdown, said


@pytest.mark.long
def test_seeded_noise_is_stated_first():
    found = comparison(settings={"noise_seed": "given"})
    text = Page(pages.render_report(found.result())).text
    assert text.index("Not private: seeded noise") < text.index("Who is ahead")
    assert "Not private: seeded noise." in pages.render_markdown(found.result())


@pytest.mark.long
def test_ten_contestants_make_a_page_under_three_megabytes(tmp_path):
    found = comparison(10, (0.1, 0.3, 1.0, 3.0, 8.0), n_classes=10, n_test=400)
    pages.write_report(tmp_path / "report.html", found.result())
    assert (tmp_path / "report.html").stat().st_size < 3_000_000


# The JSON ------------------------------------------------------------------------------------------------------


@pytest.mark.few(2)
@pytest.mark.parametrize("options", [{}, {"n_repeats": 1, "published": False}, {"refuse": True, "redraws": "nothing"}])
def test_the_json_keeps_its_schema(options):
    stored = json.loads(json.dumps(comparison(n_contestants=3, **options).to_dict(), allow_nan=False))
    VALIDATOR.validate(stored)
    assert stored["schema"] == SCHEMA
    assert ComparisonResult.from_dict(stored).to_dict() == stored


@pytest.mark.long
def test_the_schema_refuses_what_does_not_belong(made):
    jsonschema.Draft202012Validator.check_schema(SCHEMA_FILE)
    stored = made.to_dict()
    wrong = [
        {**stored, "schema": "pate-comparison-0"}, {**stored, "margins": [3]}, {**stored, "kind": "run"},
        {**stored, "published": False}, {key: value for key, value in stored.items() if key != "verdicts"},
        {**stored, "fit_costs": [{**stored["fit_costs"][0], "data_dependent_epsilon": 0.5}]},
        {**stored, "verdicts": [{**stored["verdicts"][0], "verdict": "better"}]},
    ]  # fmt: skip
    for one in wrong:
        assert not VALIDATOR.is_valid(one)
        if "verdicts" in one:
            with pytest.raises(InvalidInputError):
                ComparisonResult.from_dict(one)


def test_every_field_stands_in_the_schema_and_no_other():
    seen: set[type[Record]] = set()

    def check(cls: type[Record], stored: dict[str, Any]) -> None:
        names = [f.name for f in fields(cls)]
        assert list(stored["properties"]) == names, cls
        assert [f.name for f in fields(cls) if not f.metadata.get("rare")] == stored["required"], cls
        assert stored["additionalProperties"] is False
        seen.add(cls)
        for hint in get_type_hints(cls).values():
            for inner in [hint, *get_args(hint)]:
                if isinstance(inner, type) and issubclass(inner, Record) and inner not in seen:
                    check(inner, SCHEMA_FILE["$defs"][inner.__name__[0].lower() + inner.__name__[1:]])

    check(ComparisonResult, SCHEMA_FILE)
    assert len(seen) == len(SCHEMA_FILE["$defs"]) - 2 + 1  # scalars and settings are no records


# What is published ---------------------------------------------------------------------------------------------


def test_anchors_are_figures_of_known_data_with_a_source():
    known = {"mnist", "fashion_mnist", "svhn", "adult", "cifar10"}
    found = {name: anchors(name) for name in known}
    assert all(found.values())
    assert (0.985, 1.97) in [(a.accuracy, a.epsilon) for a in found["mnist"]]
    for anchor in (a for group in found.values() for a in group):
        assert 0.5 < anchor.accuracy < 1
        assert 0 < anchor.epsilon < 10
        assert anchor.delta in (1e-5, 1e-6)
        assert anchor.side in ("PATE", "DP-SGD", "other")
        assert re.search(r"(19|20)\d\d|arXiv:\d{4}", anchor.source)
    assert "δ = 1e-06" in found["svhn"][0].differs(1e-5, "replace-one")
    assert "add-or-remove adjacency" in next(a for a in found["mnist"] if a.side == "DP-SGD").differs(
        1e-5, "replace-one"
    )


def test_anchors_stand_beside_the_same_data_alone():
    few = {"n_repeats": 1, "n_test": 50}
    assert "Published figures" not in pages.render_report(comparison(2, **few).result())
    assert "DP-SGD, Opacus example" in pages.render_report(comparison(2, dataset="mnist", **few).result())


@pytest.mark.long
def test_contestants_without_a_description_are_named_as_such():
    text = Page(pages.render_report(comparison(entrants=(Entrant(name="pate-a"),)).result())).text
    assert "not said" in text


def test_no_template_is_without_a_use():
    source = " ".join(p.read_text(encoding="utf-8") for p in Path(pages.__file__).parents[1].rglob("*.py"))
    html = {f.name: f.read_text(encoding="utf-8") for f in TEMPLATES.iterdir() if f.name.endswith(".html")}
    for name in html:
        assert f'"{name}"' in source or any(f'"{name}"' in text for other, text in html.items() if other != name), name
