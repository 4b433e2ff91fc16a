"""The page for people: every word from a catalogue, every field filled, every number a bound."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources

import numpy as np
import pytest

from pate import Budget, GaussianSum, GNMax, InvalidInputError, Votes, release_labels
from pate._core.files import write_json
from pate.mechanisms import SharedGNMax
from pate.privacy.attacker import attack_bounds, detection_bound, replaced_success
from pate.privacy.words import Guarantee
from pate.release import FederationFacts, federation_statement
from pate.release.statement.catalogue import (
    Catalogue,
    english,
    languages,
    new_catalogue,
    open_catalogue,
    read_catalogue,
)
from pate.release.statement.fields import (
    KINDS,
    LAYERS,
    Assumption,
    LabelFigures,
    MeasuredAccuracy,
    MeasuredErrors,
    MeasuredQuality,
)
from pate.release.statement.files import render_statement
from pate.release.statement.model import PrivacyStatement
from pate.release.statement.plain_language import explained, glossary, html, of_hundred, plain_language_page

FULL = Assumption(name="classes", claim="the set of classes is public", how="by law", by="curator")


def make(epsilon=1.0, **changes):
    promise = {"delta": 1e-5, "kind": "public", "method": "gdp", "adjacency": "replace-one"}
    promise |= {name: changes.pop(name) for name in tuple(promise) if name in changes}
    first = {"released": "labels", "unit": "record", "n_units": 1200, "mechanism": "GNMax(sigma=40)"}
    return PrivacyStatement(
        **{**first, "accounting": "", "guarantee": Guarantee(epsilon=epsilon, **promise), **changes}
    )


ERRORS = MeasuredErrors(mae=8.2, mae_error=0.1, r2=None, r2_error=None, unit="group", n=900, clip=60.0)
MEASURED = MeasuredAccuracy(
    estimate=0.873, low=0.861, high=0.885, unit="record", n=9000, counted=0.88, correction=0.007, sigma=18.7, share=0.04
)


FEDERATION = FederationFacts(
    engine="an engine", coordinator="a", sites=("a", "b", "c"), recipients=("a",), most_units=9
)
TIER = {"name": "gold", "n": 9, "weight": 1.0, "epsilon": 1.0, "delta": 1e-5, "mu": 0.3}


def named_claims():
    names = [key.removeprefix("rests.claims.").partition(",")[0] for key in english().texts if "rests.claims." in key]
    return tuple(Assumption(name=name, claim="what has to be true") for name in names)


FIGURES = LabelFigures(
    name="ill", prevalence=0.1, accuracy=0.9, accuracy_error=0.01, precision=None, precision_error=None, recall=0.5,
    recall_error=0.1, f1=None, f1_error=None,
)  # fmt: skip
QUALITY = MeasuredQuality(labels=(FIGURES,), f1=None, f1_error=None, unit="group", n=900)


def variants():
    """Statements that together say everything there is to say."""
    for unit in ("record", "group"):
        for adjacency in ("replace-one", "add-or-remove"):
            yield make(unit=unit, adjacency=adjacency, assumptions=named_claims())
    yield make(0.3, n_units=None, mechanism="GaussianSum, 1 round", assumptions=(FULL,))
    yield make(
        4.0,
        mechanism="DP-SGD: 10 steps",
        curve=((1e-6, 5.0),),
        dataset="letters",
        organisation="a ward",
        purpose="triage",
    )
    yield make(40.0, adjacency="add-or-remove")
    yield make(40.0, mechanism="private selection: the best", kind="sanitised", tuning="nothing")
    yield make(2.0, mechanism="something else", delta=0.0, ledger_releases=(1, 2), ledger_head="ab")
    yield make(0.3, unit="group", mechanism="GaussianSum, 1 round", mu=0.1)
    yield make(1.0, n_units=60_000, curve=((0.1, 0.0),))
    yield make(0.3, unit="group", mechanism="DP-FTRL: 3 steps")
    yield make(not_covered=("the set of classes, which was read off the private labels",))
    yield make(seeded=True).of_file("labels.csv", b"x")
    yield make(measured=MEASURED)
    yield make(errors=ERRORS)
    yield make(errors=replace(ERRORS, held_out=False))
    yield make(1.0, n_units=9, mu=0.3, tier_budgets=(TIER,))
    federated = [SharedGNMax(40.0, n_sites=3, tolerate=1, n_classes=2)]
    yield federation_statement(federated, FEDERATION, n_cells=200, delta=1e-6, n_queries=100)
    yield make(quality=QUALITY)
    yield make(doubts=[{"kind": kind, "sentence": "it may be so."} for kind in KINDS])
    yield make(audits=[{"layer": n, "claim": "c", "tried": "t", "stood": n != "law"} for n in LAYERS])


def page_of(statement, say=None):
    return html(statement, statement.rows(), statement.digest, say or english())


def text_of(page):
    reader = HTMLParser()
    texts = []
    reader.handle_data = texts.append
    reader.feed(page.split("</style>")[1])
    return " ".join(" ".join(texts).split())


def catalogue(tmp_path, body, head='language = "de"\nname = "Deutsch"\n'):
    (tmp_path / "own.toml").write_text(head + body, encoding="utf-8")
    return tmp_path / "own.toml"


# The catalogue -------------------------------------------------------------------------------------------------


def test_every_text_is_used_and_every_field_is_filled():
    say = english()
    for statement in variants():
        page = page_of(statement, say)
        assert not re.search(r"\{\w*\}", page.split("</style>")[1])
    assert say.used == set(say.texts)


def test_no_word_of_the_page_stands_outside_the_catalogue():
    """In a language of one sign nothing of English is left but the statement's own texts, and the command."""
    fields = re.compile(r"\{\w+\}")
    signs = {key: "¤" + "".join(fields.findall(text)) for key, text in english().texts.items()}
    signs |= {"number.decimal": ",", "number.thousands": "."}
    statement = make(2.0, tuning="nichts", n_units=12345)
    page = plain_language_page(statement, Catalogue("xx", "x", signs), "abc")
    lines = [page.title, page.lead, *(line for card in page.cards for line in (card.name, card.value, card.more))]
    lines += [line for section in page.sections for line in (section.title, *section.texts)]
    lines += [line for section in page.sections for before, items in section.lists for line in (before, *items)]
    lines += [line for _, name, meaning in glossary(Catalogue("xx", "x", signs)) for line in (name, meaning)]
    words = set(re.findall(r"[A-Za-z]{2,}", " ".join(line.text for line in lines)))
    assert words <= {"labels", "nichts", "abc"}
    assert "12.345" in " ".join(line.text for line in lines)


def test_the_template_holds_no_words():
    for name in ("statement.html", "people.html"):
        text = (resources.files("pate") / "_templates" / name).read_text(encoding="utf-8")
        text = re.sub(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}|<[^>]*>|%\}|>", " ", text, flags=re.DOTALL)
        text = text.replace("not translated (", "").replace("they are in English, and underlined", "")
        assert set(re.findall(r"[A-Za-z]{3,}", text)) <= {"the", "texts", "this", "page", "are"}, name


def test_what_a_translation_lacks_is_english_and_seen_to_be(tmp_path):
    own = catalogue(tmp_path, '[page]\ntitle = "Erklärung"\n[number]\ndecimal = ","\nthousands = "."\n')
    statement = make(1.0)
    page = statement.html(catalogue=own)
    assert '<html lang="de">' in page
    assert "<h1>Erklärung</h1>" in page
    assert "<span class='foreign' lang='en'>What was done</span>" in page
    assert "<span class='foreign' lang='en'>Erklärung" not in page
    n = len(english().texts)
    assert f"{n - 3} of the {n} texts of this page are not translated (Deutsch)" in text_of(page)
    assert "1.200 in the private data" in text_of(page)
    assert "2,719 times" in text_of(page)
    assert "not translated" not in statement.html()
    assert "class='foreign'" not in statement.html()


def test_a_whole_translation_shows_no_english_of_ours(tmp_path):
    new_catalogue(tmp_path / "fr.toml")
    text = (tmp_path / "fr.toml").read_text(encoding="utf-8")
    text = text.replace('language = "en"', 'language = "fr"').replace('"English"', '"français"')
    (tmp_path / "fr.toml").write_text(text, encoding="utf-8")
    page = make(1.0).html(catalogue=tmp_path / "fr.toml")
    assert read_catalogue(tmp_path / "fr.toml").missing == ()
    assert '<html lang="fr">' in page
    assert "class='foreign'" not in page
    with pytest.raises(InvalidInputError, match="exists"):
        new_catalogue(tmp_path / "fr.toml")
    with pytest.raises(InvalidInputError, match=r"end in \.toml"):
        new_catalogue(tmp_path / "fr.json")


def test_a_translation_cannot_put_markup_into_the_page(tmp_path):
    own = catalogue(tmp_path, "[page]\ntitle = '<script>alert(1)</script>&'\nlead = '</style><img src=x>'\n")
    page = make(1.0).html(catalogue=own)
    assert "<script" not in page
    assert "<img" not in page
    assert page.count("</style>") == 1
    assert "&lt;script&gt;" in page


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('[tier]\nstrnog = "stark"', "unknown entry 'tier.strnog'"),
        ('[tier]\nstrong = ""', "must say something"),
        ("[tier]\nstrong = 3", "must be text"),
        ("[tier]\nstrong = ['a']", "must be text"),
        ('[tier]\nstrong = "a\\u202eb"', "control character"),
        ('[card]\ncount = "viele"', "must have {n}"),
        ('[card]\ncount = "{n} {m}"', "must have {n}"),
        ('[card]\ncount = "{n} {"', "must have {n}"),
        ('[card]\ncount = "{n.__class__}"', "must have {n}"),
        ('[tier]\nstrong = "{0}"', "no fields"),
        ("tier = ", "not readable as TOML"),
    ],
)
def test_a_bad_catalogue_is_refused_in_one_line(tmp_path, body, said):
    with pytest.raises(InvalidInputError, match=re.escape(said)) as caught:
        read_catalogue(catalogue(tmp_path, body))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("", "must begin with language"),
        ('language = "d e"\nname = "x"\n', "must begin with language"),
        ("language = 3\n", "must begin"),
        ('language = "de"\n', "must have name"),
    ],
)
def test_a_catalogue_says_its_language(tmp_path, head, said):
    with pytest.raises(InvalidInputError, match=said):
        read_catalogue(catalogue(tmp_path, "", head))


def test_files_that_are_no_catalogues(tmp_path):
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_catalogue(tmp_path / "none.toml")
    (tmp_path / "big.toml").write_bytes(b"#" * 300_000)
    with pytest.raises(InvalidInputError, match="larger"):
        read_catalogue(tmp_path / "big.toml")
    (tmp_path / "latin.toml").write_bytes('name = "Français"'.encode("latin-1"))
    with pytest.raises(InvalidInputError, match="UTF-8"):
        read_catalogue(tmp_path / "latin.toml")
    with pytest.raises(InvalidInputError, match="one of en, got 'de'"):
        open_catalogue("de")
    assert languages() == ("en",)


def test_a_field_forgotten_in_the_code_is_an_error():
    with pytest.raises(KeyError, match="needs"):
        english()("card.count")
    with pytest.raises(KeyError, match="needs"):
        english()("tier.strong", n=1)


# The page ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 3.0, 9.0, 60.0])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.05])
def test_an_attackers_success_is_never_understated(epsilon, delta):
    """No test between the two neighbours that fill the privacy region is better than the page says."""
    keep = 1 - delta  # four outcomes: given away with probability delta, else randomised response
    p = np.array([delta, keep / (1 + np.exp(-epsilon)), keep * np.exp(-epsilon) / (1 + np.exp(-epsilon)), 0.0])
    q = p[::-1]
    order = np.argsort(-np.divide(p, q, out=np.full(4, np.inf), where=q > 0))
    power, alarms = np.cumsum(p[order]), np.cumsum(q[order])
    success = max((power + 1 - alarms) / 2)
    best = float(np.interp(0.01, np.concatenate([[0], alarms]), np.concatenate([[0], power])))
    if alarms[0] == 0:  # what is given away costs no false alarm
        best = float(np.interp(0.01, alarms, power))
    assert success <= attack_bounds(epsilon, delta)["largest_success"] + 1e-12
    assert best <= detection_bound(epsilon, delta, 0.01) + 1e-12
    assert detection_bound(epsilon, delta, 0.01) <= 1.01 * best + 1e-3
    text = text_of(page_of(make(epsilon, delta=delta)))
    right = of_hundred(attack_bounds(epsilon, delta)["largest_success"])
    assert f"{right} of 100" in text
    assert 100 * success <= right
    if right < 100:
        assert f"right at most {right} times in 100" in text
    else:
        assert "does not rule out that they find out nearly always" in text


@pytest.mark.parametrize("adjacency", ["add-or-remove", "zero-out"])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0])
def test_what_a_record_says_is_not_promised_what_its_presence_is(adjacency, epsilon):
    """Two values of one record lie two steps apart: more often right than the test of its being there may be."""
    p, small = 1 / (1 + np.exp(epsilon)), np.exp(-epsilon)  # outcomes of a mechanism, by what the record is
    absent = np.array([p, 1 - 2 * p, p])
    one = np.array([p * np.exp(epsilon), small * (1 - 2 * p), p * small])
    for a in (one, one[::-1]):
        assert a.sum() == pytest.approx(1)
        assert np.abs(np.log(a / absent)).max() == pytest.approx(epsilon)
    success = (1 + np.abs(one - one[::-1]).sum() / 2) / 2
    bounds = attack_bounds(epsilon, 0.0)
    assert bounds["largest_success"] < success <= replaced_success(epsilon, 0.0)
    text = text_of(page_of(make(epsilon, delta=0.0, adjacency=adjacency)))
    there, value = of_hundred(bounds["largest_success"]), of_hundred(replaced_success(epsilon, 0.0))
    assert "whether the private data have it: yes or no, even odds. A coin is right 50 times in 100. With the " in text
    assert f"right at most {there} times in 100, by any method" in text
    assert f"may be right more often: at most {value} times in 100" in text
    assert "only one thing about" not in text
    assert "had been otherwise: that is" not in text


@pytest.mark.parametrize("adjacency", ["replace-one", "add-or-remove", "zero-out"])
def test_the_page_says_what_the_noise_allows_not_what_epsilon_does(adjacency):
    """mu of Gaussian noise at epsilon 1 and delta 1e-5: 55.4 of 100, where the pair alone allows 73.2."""
    mu = 0.26805
    text = text_of(page_of(make(mu=mu, adjacency=adjacency)))
    assert "56 of 100" in text
    assert "by one who knows everything else; a coin is right 50 times" in text
    assert "right at most 56 times in 100, by any method" in text
    assert "they find at most 2 in 100 of those for whom it is" in text  # Phi(Phi^-1(.01) + mu) = .0198
    assert "(Gaussian differential privacy, mu = 0.2681). Epsilon and delta alone would allow 74 of 100" in text
    assert "Gaussian noise at this delta ε = 0.1 51 ε = 1 56 this release ε = 3 65 ε = 10 85" in text
    # Two values of one record are two steps apart where its presence is what is hidden.
    assert ("at most 61 times in 100" in text) == (adjacency != "replace-one")
    by_curve = text_of(page_of(make(curve=((0.1, 0.0), (1e-6, 1.2)), adjacency=adjacency)))
    assert "right at most 55 times in 100, by any method" in by_curve
    assert "(its delta at epsilon 0). Epsilon and delta alone would allow 74 of 100" in by_curve
    by_pair = text_of(page_of(make(mu=9.0, adjacency=adjacency)))
    assert "74 of 100" in by_pair
    assert "follow from epsilon and delta alone; the noise itself may allow less" in by_pair


def test_a_delta_that_lets_one_record_out_lowers_the_tier_and_is_said():
    """Publishing one whole record of n with probability p is (0, p/n)-DP."""
    for n, called, chance in ((5_000, "strong", None), (20_000, "reasonable", 20), (100_000, "weak", 100)):
        made = make(n_units=n)
        text, values = text_of(page_of(made)), made.to_dict()
        assert values["tier"] == called
        assert f"How strong {called}" in text
        assert f"Tier: {called}" in text
        assert f"({called}" in made.headline
        assert ("delta is not well below 1 in" in made.headline) == (chance is not None)
        assert (f"whole, picked at random, {chance} times in 100" in text) == (chance is not None)
        assert ("publishes one whole record" in made.meaning) == (chance is not None)
    assert "with probability 0.2 would satisfy it" in make(n_units=20_000).meaning
    # Where the number is private nothing reads it, and a weak epsilon is not lowered further.
    assert make(n_units=100_000, adjacency="add-or-remove").to_dict()["tier"] == "strong"
    assert make(n_units=None).to_dict()["tier"] == "strong"
    assert make(12.0, n_units=100_000).headline.count("weak") == 1
    assert "not well below" not in make(12.0, n_units=100_000).headline


def test_the_page_names_what_is_open_and_who_stated_what():
    open_ = Assumption(name="duplicates", claim="nobody stands twice")
    own = Assumption(name="my own", claim="something <b>of mine</b>", how="I looked", by="curator")
    seen = Assumption(name="noise", claim="the noise is fresh", how="drawn", by="pate")
    page = page_of(make(1.0, assumptions=(open_, own, seen, FULL)))
    text = text_of(page)
    assert "4 points: 1 seen to by pate's own code, 2 stated by people, 1 open" in text
    assert "Nobody is in the data twice under two names." in text
    assert "something <b>of mine</b> (stated: I looked)" in text
    assert "The set of possible answers is public. (stated: by law)" in text
    assert "<b>" not in page
    assert "1 of 4" in text
    assert "duplicates: nobody stands twice (open: nobody vouches for it)" in text  # the name that --stated takes


def test_a_seeded_statement_promises_nothing():
    text = text_of(page_of(make(1.0, seeded=True)))
    assert text.index("Not private.") < text.index("What was done")
    assert "of 100" not in text
    assert "times in 100" not in text
    assert "Nothing can be promised" in text
    assert "not private: seeded noise" in text


@pytest.mark.parametrize(
    ("mechanism", "said"),
    [
        (str(GNMax(40.0)), "dealt out to many separate groups"),
        (str(GaussianSum(1.0)), "Each private record cast one vote"),
        ("shuffled DP-SGD: 3 steps", "One model was trained"),
        ("my own thing", "Something was computed"),
    ],
)
def test_what_was_done_follows_the_mechanism(mechanism, said):
    assert said in text_of(page_of(make(mechanism=mechanism)))


def test_whose_vote_it_was_follows_the_unit():
    text = text_of(page_of(make(unit="group", mechanism="GaussianSum, 2 rounds")))
    assert "Each person in the private data cast one vote" in text
    assert "Each private record" not in text


def test_records_of_older_files_are_shown_in_the_same_words():
    statement = make(1.0)
    assert PrivacyStatement.from_dict(statement.to_dict()).html() == statement.html()
    assert [explained(name, english())[0].text for name, _ in statement.rows()] == [n for n, _ in statement.rows()]


def test_a_real_release_has_a_page_without_loose_ends():
    votes = Votes.from_counts([[240, 10]] * 30, n_units=5000)
    release = release_labels(votes, GNMax(40.0), budget=Budget(3.0, 1e-6), stated={"purpose": "triage & <i>more</i>"})
    page = release.statement.html()
    assert "triage &amp; &lt;i&gt;more&lt;/i&gt;" in page
    assert "(1 in 1,000,000)" in text_of(page)
    assert "here 5,000" in text_of(page)
    assert "None" not in text_of(page)


# The command ---------------------------------------------------------------------------------------------------


def test_language_and_catalogue_are_for_pages(tmp_path):
    write_json(tmp_path / "a.json", make().to_dict())
    own = catalogue(tmp_path, '[page]\ntitle = "Erklärung"\n')
    for out in (None, tmp_path / "a.txt"):
        with pytest.raises(InvalidInputError, match=r"catalogue must go with an \.html page"):
            render_statement(tmp_path / "a.json", out, catalogue=own)
    with pytest.raises(InvalidInputError, match="language must be one of en"):
        render_statement(tmp_path / "a.json", tmp_path / "a.html", language="fr")
    assert not (tmp_path / "a.html").exists()
    assert "<h1>Erklärung</h1>" in render_statement(tmp_path / "a.json", tmp_path / "a.html", catalogue=own)


@pytest.mark.long
def test_the_command_writes_a_catalogue_and_reads_it(tmp_path):
    write_json(tmp_path / "a.json", replace(make(), purpose="triage").to_dict())
    command = [sys.executable, "-c", "from pate.cli import main; main()", "statement"]

    def run(*more):
        return subprocess.run([*command, *more], cwd=tmp_path, capture_output=True, text=True, check=False)

    done = run("--new-catalogue", "de.toml")
    assert (done.returncode, done.stdout) == (0, "Wrote de.toml\n")
    done = run("a.json", "--catalogue", "de.toml", "--out", "a.html")
    assert (done.returncode, done.stdout) == (0, "Wrote a.html\n")
    assert "triage" in (tmp_path / "a.html").read_text(encoding="utf-8")
    assert run().returncode == 2
