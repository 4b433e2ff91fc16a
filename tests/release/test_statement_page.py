"""The statement for a data-protection officer: strict JSON, one page, and nothing on it that is not in the JSON."""

from __future__ import annotations

import copy
import json
import math
import re
import shutil
import subprocess
import sys
from dataclasses import fields, replace
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pate import Budget, ConfidentGNMax, GNMax, InvalidInputError, Ledger, SensitiveValueError, Votes, release_labels
from pate._core.files import write_json
from pate.dpsgd._statement import Plan, dpsgd_statement
from pate.dpsgd.clipping import FlatClipping
from pate.dpsgd.mechanisms import PoissonSGD, Shape
from pate.exceptions import PateError
from pate.mechanisms import VIEWERS
from pate.privacy.attacker import attack_bounds, in_words
from pate.privacy.words import Guarantee
from pate.release._statement import vouch_for_training
from pate.release.statement.fields import (
    KINDS,
    LAYERS,
    MOST_AUDITS,
    MOST_DOUBTS,
    MOST_TIERS,
    CitedAudit,
    ClassRecall,
    Doubt,
    LabelFigures,
    MeasuredAccuracy,
    MeasuredErrors,
    MeasuredQuality,
    TierGuarantee,
    ViewerGuarantee,
)
from pate.release.statement.files import (
    check_against_ledger,
    read_statement,
    render_statement,
    statement_schema,
)
from pate.release.statement.model import Assumption, PrivacyStatement

COUNTS = np.random.default_rng(0).multinomial(250, [0.9, 0.06, 0.04], size=40)
SCHEMA = statement_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
EVIL = "</td></table><script>alert(1)</script><img src=https://evil.example/x onerror=alert(1)>&\"'{{ 7 * 7 }}{% raw %}"


TIERS = (
    TierGuarantee(name="gold", n=40, weight=1.0, epsilon=1.5, delta=1e-6, mu=0.4),
    TierGuarantee(name="basic", n=60, weight=0.5, epsilon=0.9, delta=1e-6, mu=0.2),
)
LOOKING = (
    ViewerGuarantee(viewer="coalition", n_parties=3, sees="all", epsilon=1.5, delta=1e-6, advantage=0.2),
    ViewerGuarantee(viewer="outsider", n_parties=0, sees="sums", epsilon=1.1, delta=1e-6, advantage=0.15),
)


def public(epsilon=1.5, **more):
    return Guarantee(epsilon=epsilon, delta=1e-6, kind=more.pop("kind", "public"), method="gdp", **more)


def make(**changes):
    first = {
        "released": "labels",
        "unit": "record",
        "n_units": 100,
        "guarantee": public(),
        "mechanism": "GNMax(sigma=40)",
    }
    return PrivacyStatement(**{**first, "accounting": "GDP", **changes})


def released(**more):
    votes = Votes.from_counts(COUNTS, unit=more.pop("unit", "record"), n_units=5000)
    return release_labels(votes, more.pop("mechanism", GNMax(40.0)), budget=Budget(9.0, 1e-6), **more)


def by_ledger(folder):
    ledger = Ledger(folder / "l.sqlite")
    votes = replace(Votes.from_counts(COUNTS), query_hashes=tuple(f"{i:064x}" for i in range(40)))
    release_labels(votes.take(np.arange(10)), GNMax(60.0), budget=Budget(9.0, 1e-6), ledger=ledger)
    release_labels(votes.take(np.arange(20)), GNMax(60.0), budget=Budget(9.0, 1e-6), ledger=ledger)
    return release_labels(votes.take(np.arange(20)), GNMax(60.0), budget=Budget(9.0, 1e-6), ledger=ledger).statement


def dpsgd(**more):
    more = {"classes_given": True, "noise": "system", **more}
    g = replace(public(), adjacency=more.pop("adjacency", "replace-one"))
    plan = Plan(PoissonSGD(), Shape(100, 0.1, 5, 10), noise_multiplier=2.0, guarantee=g, interval=1e-3)
    return dpsgd_statement(plan, clipping=FlatClipping(), apart="by an engine", **more)


def audited(layer, stood):
    return {"layer": layer, "claim": "(1, 1e-06)-DP", "tried": "one crafted record", "stood": stood}


MAKERS = {
    "audited": lambda folder: make(audits=tuple(audited(layer, layer != "game") for layer in LAYERS)),
    "plain": lambda folder: make(),
    "votes": lambda folder: released().statement,
    "capped": lambda folder: released(mechanism=ConfidentGNMax(200, 150, 40), max_answers=7).statement,
    "groups": lambda folder: released(unit="group").statement,
    "seeded": lambda folder: released(noise_seed=1).statement,
    "trained": lambda folder: vouch_for_training(released(unit="group").statement, preprocessing="shard"),
    "by ledger": by_ledger,
    "dpsgd": lambda folder: dpsgd(),
    "dpsgd, usual": lambda folder: dpsgd(adjacency="add-or-remove", classes_given=False),
    "tiers": lambda folder: make(mu=0.4, tier_budgets=TIERS),
    "viewers": lambda folder: make(viewers=LOOKING),
    "weak": lambda folder: make(guarantee=public(80.0), unit="group"),
    "sanitised": lambda folder: make(guarantee=public(kind="sanitised", order=8.0)),
    "evil": lambda folder: make(released=EVIL, tuning=EVIL, verify=EVIL, covered=(EVIL,), assumptions=(EVIL,)),
}


@pytest.fixture(params=MAKERS)
def statement(request, tmp_path):
    return MAKERS[request.param](tmp_path)


class Page(HTMLParser):
    """Tags, attributes and texts of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)


# The JSON ------------------------------------------------------------------------------------------------------


def test_the_schema_is_one_and_names_every_field():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    own = {f.name for f in fields(PrivacyStatement)}
    assert own < set(SCHEMA["properties"])
    assert set(SCHEMA["properties"]) - set(SCHEMA["required"]) == {
        "audits",
        "doubts",
        "errors",
        "measured",
        "quality",
        "tier_budgets",
        "viewers",
    }  # came later: absent where there are none
    measured = SCHEMA["properties"]["measured"]
    assert set(measured["required"]) == set(measured["properties"]) == {f.name for f in fields(MeasuredAccuracy)}
    assert set(measured["properties"]["by_class"]["items"]["required"]) == {f.name for f in fields(ClassRecall)}
    errors = SCHEMA["properties"]["errors"]
    assert set(errors["properties"]) == {f.name for f in fields(MeasuredErrors)}
    assert set(errors["properties"]) - set(errors["required"]) == {"held_out"}  # came later: true where it is absent
    quality = SCHEMA["properties"]["quality"]
    for said, part in ((quality, MeasuredQuality), (quality["properties"]["labels"]["items"], LabelFigures)):
        assert set(said["required"]) == set(said["properties"]) == {f.name for f in fields(part)}
    doubts = SCHEMA["properties"]["doubts"]
    assert set(doubts["items"]["required"]) == {f.name for f in fields(Doubt)}
    assert doubts["items"]["properties"]["kind"]["enum"] == list(KINDS)
    assert doubts["maxItems"] == MOST_DOUBTS
    tiers = SCHEMA["properties"]["tier_budgets"]
    assert set(tiers["items"]["required"]) == {f.name for f in fields(TierGuarantee)}
    assert tiers["maxItems"] == MOST_TIERS
    viewers = SCHEMA["properties"]["viewers"]
    assert set(viewers["items"]["required"]) == {f.name for f in fields(ViewerGuarantee)}
    assert viewers["items"]["properties"]["viewer"]["enum"] == list(VIEWERS)
    assert viewers["maxItems"] == len(VIEWERS)
    assert set(SCHEMA["properties"]["audits"]["items"]["required"]) == {f.name for f in fields(CitedAudit)}
    assert SCHEMA["properties"]["audits"]["items"]["properties"]["layer"]["enum"] == list(LAYERS)
    assert SCHEMA["properties"]["audits"]["maxItems"] == MOST_AUDITS
    assert set(SCHEMA["properties"]["guarantee"]["required"]) == {f.name for f in fields(Guarantee)}
    assert set(SCHEMA["properties"]["assumptions"]["items"]["required"]) == {f.name for f in fields(Assumption)}


def test_every_statement_validates_and_comes_back(statement, tmp_path):
    values = json.loads(json.dumps(statement.to_dict(), allow_nan=False))
    VALIDATOR.validate(values)
    assert PrivacyStatement.from_dict(values) == statement
    write_json(tmp_path / "a.json", statement.to_dict())
    assert read_statement(tmp_path / "a.json") == statement


TEXT = st.text(max_size=30)


@pytest.mark.long
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(("released", "mechanism", "tuning", "verify", "ledger_head", "threat_model"), TEXT),
            "unit": st.sampled_from(["record", "group", "person"]),
            "n_units": st.none() | st.integers(-2, 10**16) | st.floats() | st.booleans(),
            "epsilon": st.floats() | st.integers() | st.sampled_from([0, 1e300, 10**400]),
            "delta": st.floats(),
            "order": st.none() | st.floats(),
            "kind": st.sampled_from(["public", "sanitised", "seeded", "data-dependent", "x"]),
            "adjacency": st.sampled_from(["replace-one", "add-or-remove", "other"]),
            "seeded": st.booleans(),
            "covered": st.lists(TEXT, max_size=3).map(tuple),
            "assumptions": st.lists(TEXT, max_size=3).map(tuple),
            "ledger_releases": st.lists(st.integers(-1, 5), max_size=3).map(tuple),
            "versions": st.dictionaries(TEXT, TEXT, max_size=2),
        },
    )
)
def test_whatever_can_be_made_validates(given_fields):
    promise = {
        name: given_fields.pop(name)
        for name in ("epsilon", "delta", "order", "kind", "adjacency")
        if name in given_fields
    }
    try:
        made = make(**{**given_fields, "guarantee": replace(public(), **promise)})
    except PateError:
        return
    values = json.loads(json.dumps(made.to_dict(), allow_nan=False))
    VALIDATOR.validate(values)
    assert made.seeded or made.guarantee.kind != "seeded"
    assert PrivacyStatement.from_dict(values) == made
    assert made.html().startswith("<!doctype html>")


def paths(value, at=()):
    yield at
    if isinstance(value, dict):
        for key in value:
            yield from paths(value[key], (*at, key))
    if isinstance(value, list):
        for i, entry in enumerate(value):
            yield from paths(entry, (*at, i))


def changed(values, at, new):
    values = copy.deepcopy(values)
    if not at:
        return new
    place = values
    for step in at[:-1]:
        place = place[step]
    if new is ...:
        del place[at[-1]]
    else:
        place[at[-1]] = new
    return values


GOOD = json.loads(json.dumps(make(assumptions=("a",), covered=("b",), audits=(audited("law", True),)).to_dict()))


@pytest.mark.parametrize("at", [at for at in paths(GOOD) if at and at != ("audits",)], ids=str)
def test_a_missing_or_odd_entry_is_refused(at):
    with pytest.raises(InvalidInputError):
        PrivacyStatement.from_dict(changed(GOOD, at, ...))
    for odd in (object(), {"x": 1}, [[1]], float("nan"), float("inf"), 10**400, True, "\x00", "\ud800", "a\u202eb"):
        old = GOOD
        for step in at:
            old = old[step]
        if odd is old or (at[0] == "seeded" and odd is True):
            continue
        with pytest.raises(PateError):
            PrivacyStatement.from_dict(changed(GOOD, at, odd))


@pytest.mark.parametrize(
    "at", [(), ("guarantee",), ("assumptions", 0), ("audits", 0), ("meaning",), ("meaning", "bounds")]
)
def test_an_unknown_entry_is_refused(at):
    place = GOOD
    for step in at:
        place = place[step]
    altered = changed(GOOD, at, {**place, "margins": [3, 4]})
    with pytest.raises(InvalidInputError):
        PrivacyStatement.from_dict(altered)
    assert not VALIDATOR.is_valid(altered)


@pytest.mark.parametrize(
    "change",
    [
        {"headline": "epsilon = 0.1 at delta = 1e-06 (strong)"},
        {"tier": "strong"},
        {"private": 1},
        {"meaning": {"text": "Nothing can be learnt.", "bounds": None}},
        {"seeded": True},
        {"guarantee": {**GOOD["guarantee"], "epsilon": 0.2}},
        {"guarantee": {**GOOD["guarantee"], "kind": "seeded"}},
        {"schema": "pate-statement-0"},
    ],
)
def test_a_contradiction_is_refused(change):
    with pytest.raises(InvalidInputError, match=r"contradicts itself|schema must be"):
        PrivacyStatement.from_dict({**GOOD, **change})


@pytest.mark.parametrize("name", ["earlier_seeded", "earlier_records"])
def test_statements_written_before_texts_were_reworded_are_read(name):
    """What a reader works out again (meaning, headline, tier) is compared with the file: those words must stay."""
    values = json.loads(Path(__file__).with_name(f"{name}.statement.json").read_text())
    assert PrivacyStatement.from_dict(values).to_dict() == values


def test_a_statement_of_an_earlier_version_opens_as_it_was_written(tmp_path):
    """earlier.statement.json: by pate-statement-2, whose words looked at epsilon and delta alone."""
    file = Path(__file__).with_name("earlier.statement.json")
    old, values = read_statement(file), json.loads(file.read_text())
    assert old.to_dict() == values
    VALIDATOR.validate(values)
    assert (old.digest, values["tier"]) == (values["digest"], "strong")
    assert "at most 73.2% of the time" in old.meaning
    page = render_statement(file, tmp_path / "page.html")
    assert "56 of 100" in page  # what the first sheet says follows from its mu
    assert old.digest in page
    for change in ({"mu": 0.1}, {"schema": "pate-statement-3"}, {"tier": "weak"}):
        with pytest.raises(InvalidInputError, match="contradicts itself"):
            PrivacyStatement.from_dict({**values, **change})
    new = replace(old, schema="pate-statement-3")
    assert "at most 55.4% of the time" in new.meaning
    assert (
        new.with_audits([audited("law", True)]).schema == new.schema != old.with_audits([audited("law", True)]).schema
    )


def test_an_audit_is_cited_by_what_was_tried_and_whether_the_claim_stood():
    """No figure and no finding has a place; the digest covers it; without audits a statement is what it was."""
    plain, cited = make(created="x"), make(created="x").with_audits([audited("pair", True), audited("law", False)])
    assert "audits" not in plain.to_dict()
    assert cited.digest != plain.digest
    assert [a.stood for a in PrivacyStatement.from_dict(json.loads(json.dumps(cited.to_dict()))).audits] == [
        True,
        False,
    ]
    assert "the claim was REFUTED" in cited.text()
    for altered in (
        {**cited.to_dict(), "audits": [audited("pair", True)]},
        {key: value for key, value in cited.to_dict().items() if key != "audits"},
        {**plain.to_dict(), "audits": []},
        {**plain.to_dict(), "audits": None},
        {**plain.to_dict(), "audits": [{**audited("pair", True), "finding": "epsilon 0.9"}]},
    ):
        with pytest.raises(InvalidInputError):
            PrivacyStatement.from_dict(altered)
    with pytest.raises(InvalidInputError, match="at most 40"):
        make(audits=[audited("law", True)] * 41)
    with pytest.raises(InvalidInputError, match="layer must be one of"):
        make(audits=[audited("luck", True)])


def test_private_numbers_have_no_place():
    with pytest.raises(SensitiveValueError, match="data-dependent"):
        PrivacyStatement.from_dict(changed(GOOD, ("guarantee", "kind"), "data-dependent"))
    with pytest.raises(InvalidInputError, match="guarantee is of seeded noise"):
        make(guarantee=public(kind="seeded"))
    with pytest.raises(InvalidInputError, match="directions"):
        make(guarantee=public(directions="forward"))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[" * 200_000,
        b"3",
        b"null",
        b'{"a": NaN}',
        b" " * 1_000_001,
        json.dumps(GOOD).replace('"unit": "record"', '"unit": "record", "unit": "record"').encode(),
        json.dumps(GOOD).replace('"n_units": 100', '"n_units": ' + "9" * 5000).encode(),
        json.dumps(GOOD).replace('"epsilon": 1.5', '"epsilon": 1e999').encode(),
    ],
    ids=["empty", "not UTF-8", "deep", "number", "null", "NaN", "large", "twice", "long number", "infinity"],
)
def test_a_broken_file_is_one_clear_error(tmp_path, content):
    file = tmp_path / "a.json"
    file.write_bytes(content)
    with pytest.raises(InvalidInputError):
        read_statement(file)
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_statement(tmp_path / "none.json")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_statement(tmp_path)


# The words -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 3.0, 20.0, 700.0, 1e5])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.3, 1.0])
def test_attack_bounds_are_those_of_the_worst_mechanism(epsilon, delta):
    """The pair that fills the privacy region: with probability delta it gives itself away, else e^epsilon : 1."""
    bounds = attack_bounds(epsilon, delta)
    q = 1 / (1 + math.exp(-epsilon))
    advantage = delta + (1 - delta) * (2 * q - 1)  # sup over events of P - Q
    assert bounds["largest_advantage"] == pytest.approx(advantage, abs=2e-3)
    assert bounds["largest_advantage"] >= advantage - 1e-9
    assert bounds["largest_success"] >= (1 + advantage) / 2 - 1e-9
    factor = bounds["likelihood_factor"]
    assert (
        factor is None
        if epsilon > 34
        else math.exp(epsilon) <= factor * (1 + 1e-8) <= 1.001 * math.exp(epsilon) * (1 + 1e-8)
    )


def test_the_words_follow_the_definition():
    assert "which of two given values one person's data has" in in_words(public(), "group")
    assert "whether one record was in the private data" in in_words(public(adjacency="add-or-remove"), "record")
    assert "no evidence of anonymisation" in make(guarantee=public(12.0)).meaning
    assert "no evidence" not in make().meaning
    assert "subtract the noise" in make(seeded=True).meaning
    assert "4.482 times" in make().meaning  # e^1.5, rounded up


def test_who_vouches_for_what():
    given = {a.name: a.by for a in released().statement.assumptions}
    assert {name for name, by in given.items() if by != "nobody"} == {"noise"}  # nothing was stated
    assert given["noise"] == "pate"
    assert {a.name: a.by for a in released(noise_seed=0).statement.assumptions}["noise"] == "nobody"
    trained = vouch_for_training(released().statement, preprocessing="public")
    assert {a.name for a in trained.assumptions if a.by == "pate"} == {
        "disjoint shards", "own shard only", "preprocessing", "noise",
    }  # fmt: skip
    assert {a.by for a in trained.assumptions} == {"pate", "nobody"}
    prepared = vouch_for_training(released().statement, preprocessing="none")
    assert {a.name: a.by for a in prepared.assumptions}["preprocessing"] == "nobody"
    inferred = replace(Votes.from_counts(COUNTS), classes_inferred=True)
    s = release_labels(inferred, GNMax(40.0), budget=Budget(9.0, 1e-6)).statement
    assert "classes" not in {a.name for a in s.assumptions}
    assert any("read off the private labels" in line for line in s.not_covered)
    with pytest.raises(InvalidInputError, match="name must be one of"):
        s.with_evidence("classes", "they are not")


def test_a_callers_text_never_stops_paid_labels():
    s = released(tuning="line\r\nline\x00\u202e" + "x" * 9000).statement
    assert s.tuning.startswith("line \nline")
    assert len(s.tuning) <= 4000
    VALIDATOR.validate(s.to_dict())


def test_nothing_read_off_the_records_is_said():
    """Other votes, the same words: a statement is a function of public facts."""
    other = Votes.from_counts(COUNTS[:, ::-1].copy(), n_units=5000)
    one, two = released().statement, release_labels(other, GNMax(40.0), budget=Budget(9.0, 1e-6)).statement
    assert replace(one, created="") == replace(two, created="")


# The page ------------------------------------------------------------------------------------------------------


def test_the_page_says_what_the_text_says(statement):
    page = statement.html()
    shown = re.sub(r"\s+", " ", " ".join(Page(page).texts))
    text = statement.text()
    plain = re.sub(r"\s+", " ", text)
    for name, value in statement.rows():
        for item in [value] if isinstance(value, str) else value:
            words = re.sub(r"\s+", " ", item).strip()
            assert words in shown, name
            if len(words) < 60:
                assert words in plain, name
    again = PrivacyStatement.from_dict(json.loads(json.dumps(statement.to_dict())))
    assert (again.html(), again.text()) == (page, text)  # the file holds every word of both
    assert len(text.splitlines()) <= 75
    assert max(map(len, text.splitlines())) <= 110 or "evil" in text


def test_the_page_is_self_contained_and_cannot_be_made_to_run(statement):
    page = Page(statement.html())
    tags = {tag for tag, _ in page.tags}
    assert tags <= {"html", "head", "meta", "title", "style", "body", "main", "div", "p", "h1", "strong", "code",
                    "table", "tbody", "tr", "th", "td", "ul", "li", "caption", "h2", "section", "span", "pre", "dl",
                    "dt", "dd"}  # fmt: skip
    assert not any({"src", "href"} & set(attributes) for _, attributes in page.tags)
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    policy = [a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]
    css = re.search(r"<style>(.*?)</style>", statement.html(), re.DOTALL).group(1)
    assert "url(" not in css
    assert "@import" not in css


def test_seeded_noise_is_an_alarm():
    page = released(noise_seed=1).statement.html()
    assert "class='alarm'" in page
    assert "not private: seeded noise" in page
    assert "class='alarm'" not in make().html()


def test_render_statement_from_the_file_alone(tmp_path):
    s = released().statement
    write_json(tmp_path / "a.json", s.to_dict())
    assert render_statement(tmp_path / "a.json") == s.text()
    assert render_statement(tmp_path / "a.json", tmp_path / "a.html") == s.html()
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == s.html()
    assert render_statement(tmp_path / "a.json", tmp_path / "a.txt") == s.text()
    with pytest.raises(InvalidInputError, match="exists"):
        render_statement(tmp_path / "a.json", tmp_path / "a.html")
    with pytest.raises(InvalidInputError, match="must end in"):
        render_statement(tmp_path / "a.json", tmp_path / "a.pdf")
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="cannot be written"):
        render_statement(tmp_path / "a.json", tmp_path / "file" / "a.html")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.html", "a.json", "a.txt", "file"]


@pytest.mark.long
def test_the_command(tmp_path):
    s = released().statement
    write_json(tmp_path / "a.json", s.to_dict())
    command = [sys.executable, "-c", "from pate.cli import main; main()", "statement", "a.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, s.text())
    done = subprocess.run([*command, "--out", "a.html"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "Wrote a.html\n")
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == s.html()
    write_json(tmp_path / "b.json", {**s.to_dict(), "tier": "none"})
    done = subprocess.run([*command[:-1], "b.json"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "contradicts itself" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium to print the page")
@pytest.mark.parametrize("name", [name for name in MAKERS if name != "evil"])
def test_it_prints_on_two_sheets(tmp_path, name):
    """One for people, one for the record: the second begins again."""
    s = replace(MAKERS[name](tmp_path), ledger_head="0123456789abcdef" * 4, ledger_releases=tuple(range(1, 30)))
    s = replace(s, dataset="a ward's letters", organisation="a hospital", purpose="triage", tuning="nothing")
    s = s.of_file("labels.csv", b"")
    (tmp_path / "a.html").write_text(s.html(), encoding="utf-8")
    subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
         "--no-pdf-header-footer", f"--print-to-pdf={tmp_path / 'a.pdf'}", (tmp_path / "a.html").as_uri()],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    assert len(re.findall(rb"/Type\s*/Page\b", (tmp_path / "a.pdf").read_bytes())) == 2


@pytest.mark.parametrize("change", [{"curve": ((1e-6, 0.001),)}, {"mu": 0.001}, {"rho": 1e-9}])
def test_further_promises_are_compared_with_the_ledger_too(tmp_path, change):
    """Who edits a file can make its digest again, but no entry of the ledger."""
    path = tmp_path / "ledger.sqlite"
    votes = Votes.from_counts([[9, 1]] * 3)
    release = release_labels(votes, GNMax(sigma=9.0), budget=Budget(5.0, 1e-5), ledger=Ledger(path))
    check_against_ledger(release.statement, path)
    with pytest.raises(InvalidInputError, match=rf"its .*\b{next(iter(change))}\b.* differ"):
        check_against_ledger(replace(release.statement, **change), path)


# Budgets per tier ------------------------------------------------------------------------------------------------


def test_every_view_tells_what_each_tier_is_promised():
    s = make(mu=0.4, tier_budgets=TIERS)
    assert "epsilon = 1.5 at delta = 1e-06" in s.headline
    for view in (s.text(), s.html()):
        plain = " ".join(re.sub(r"<[^>]*>", "", view).split())
        assert "basic: epsilon = 0.9 at delta = 1e-06 (0.2-GDP) for each of 60, who weigh 0.5" in plain
    assert "basic (60 of them): the attacker described below is right at most 54 times in 100" in s.html()
    assert "tier_budgets" not in make().to_dict()
    assert make(mu=0.4, tier_budgets=TIERS, seeded=True, guarantee=public(kind="seeded")).tier_budgets == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"mu": None},
        {"mu": 0.3},
        {"n_units": 99},
        {"guarantee": public(0.7)},
        {"guarantee": public(0.7), "mu": 0.2},
        {"guarantee": public(1.4)},
        {"tier_budgets": (TIERS[0], replace(TIERS[1], epsilon=0.8))},
        {"tier_budgets": (TIERS[0], replace(TIERS[1], mu=0.1))},
        {"tier_budgets": (TIERS[0], replace(TIERS[1], weight=0.6))},
        {"tier_budgets": (TIERS[0], replace(TIERS[1], weight=0.0, mu=0.0, epsilon=0.0))},
        {"tier_budgets": TIERS * 30},
        {"tier_budgets": "gold"},
        {"tier_budgets": ({**TIERS[0].to_dict(), "more": 1},)},
    ],
)
def test_tiers_that_contradict_the_statement_are_refused(changes):
    with pytest.raises(InvalidInputError):
        make(**{"mu": 0.4, "tier_budgets": TIERS, **changes})


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"labels": []}, "a label or more"),
        ({"labels": "ill"}, "must list labels"),
        ({"f1": 0.5}, "measured f1_error"),
        ({"f1_error": 0.5}, "F1 have an error"),
        ({"f1": 1.5, "f1_error": 0.1}, "measured f1"),
        ({"unit": "town"}, "unit must be one of"),
        ({"n": 0}, "measured n"),
    ],
)
def test_a_quality_that_was_altered_is_refused(change, text):
    figures = dict.fromkeys(("precision", "recall", "f1")) | {"name": "ill", "prevalence": 0.1, "accuracy": 1}
    figures |= {f"{name}_error": None for name in ("precision", "recall", "f1")} | {"accuracy_error": 0}
    fine = {"labels": [figures], "f1": None, "f1_error": None, "unit": "record", "n": 900}
    statement = make(quality=MeasuredQuality.from_dict(fine))
    VALIDATOR.validate(statement.to_dict())
    assert PrivacyStatement.from_dict(statement.to_dict()) == statement
    with pytest.raises(InvalidInputError, match=text):
        MeasuredQuality.from_dict(fine | change)
    with pytest.raises(InvalidInputError, match="error"):
        LabelFigures.from_dict(figures | {"f1": 0.5})


def test_viewers_are_said_everywhere_and_must_agree_with_the_guarantee():
    s = make(viewers=LOOKING)
    assert "coalition of 3: epsilon = 1.5" in s.text()
    assert "outsider: epsilon = 1.1" in s.text()
    page = s.html()
    assert "Any 3 of those who took part" in page
    assert "at most 58 times in 100" in page
    assert "viewers" not in make().to_dict()
    assert "Learnt by whom" not in make().text()
    assert make(viewers=LOOKING, seeded=True, guarantee=public(kind="seeded")).viewers == ()
    for wrong in (
        LOOKING[1:],  # who learns most is missing
        (*LOOKING, LOOKING[1]),
        (LOOKING[0], replace(LOOKING[1], delta=1e-5)),
        (LOOKING[0], replace(LOOKING[1], epsilon=1.6)),
        "coalition",
        ({**LOOKING[0].to_dict(), "more": 1},),
    ):
        with pytest.raises(InvalidInputError):
            make(viewers=wrong)
    for wrong in ({"viewer": "neighbour"}, {"advantage": 1.1}, {"n_parties": -1}):
        with pytest.raises(InvalidInputError):
            replace(LOOKING[0], **wrong)
