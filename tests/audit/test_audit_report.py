"""The report of audits: the public page, the private files, the JSON, the page in a browser."""

import copy
import io
import itertools
import json
import re
import stat
from dataclasses import fields, replace
from html.parser import HTMLParser
from importlib import resources
from typing import Any, get_args, get_type_hints

import jsonschema
import matplotlib.image
import numpy as np
import pytest
from chromium import CHROMIUM, WHY, Browser
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pate import Budget, ConfidentGNMax, GNMax, LNMax, NoisyHistogram, Votes, release_labels
from pate.audit import Audit, pair
from pate.audit._audited import worst_neighbour
from pate.exceptions import InvalidInputError, PateError, RunFolderError, SensitiveValueError
from pate.release.statement.fields import LAYERS, CitedAudit
from pate.release.statement.model import PrivacyStatement
from pate.report._record import Record
from pate.report.audit_result import SCHEMA, AuditResult, Curve, Figure, Picture

SCHEMA_FILE = json.loads((resources.files("pate") / "_templates" / "audit.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA_FILE)
EVIL = "</td></table><script>alert(1)</script><img src=x onerror=alert(1)>&\"'{{ 7 * 7 }}{% raw %} $x$"
#: Stands in every place of a private result where something private may stand.
SECRET = "0.7654321"
PLACES = ("target", "finding", "limits")


def roc(scale="log"):
    x = [0.0, 0.001, 0.01, 0.1, 0.5, 1.0]
    claim = Curve(label="the claim", x=x, y=[1e-5, 0.003, 0.027, 0.27, 0.82, 1.0], role="claim")
    band = {"low": [0.0, 0.0, 0.01, 0.1, 0.4, 1.0], "high": [0.01, 0.01, 0.03, 0.2, 0.6, 1.0]}
    seen = Curve(label="likelihood ratio", x=x, y=[0.0, 0.002, 0.02, 0.15, 0.5, 1.0], **band)
    return Picture(x_label="false positives", y_label="true positives", scale=scale, curves=[claim, seen])


def result(layer="law", **changes):
    first = {"layer": layer, "target": "GNMax(sigma=40.0)", "claim": "its exact law", "tried": "20,000 releases",
             "refuted": False, "finding": "nothing", "false_alarms": 1e-6, "n_releases": 20_000, "seconds": 0.51,
             "limits": "Only the histograms of the bank."}  # fmt: skip
    return AuditResult(**{**first, **changes})


def private(layer="pair", **changes):
    """A result of private data with a secret in every place but claim, tried and layer."""
    more = dict.fromkeys(PLACES, SECRET) | {"claim": "(1.95, 1e-05)-DP", "tried": "one crafted record"}
    found = [Figure(name="pair epsilon", value=float(SECRET), low=float(SECRET), of=SECRET)]
    curve = Curve(label=SECRET, x=[1.0, 2.0], y=[float(SECRET), 2.0])
    shown = Picture(x_label=SECRET, y_label=SECRET, curves=[curve])
    more |= {"figures": found, "picture": shown, "settings": {SECRET: SECRET}, "n_releases": 7654321,
             "seconds": float(SECRET), "sensitive": True}  # fmt: skip
    return result(layer, **{**more, **changes})


def audit(*more, **changes):
    game = result("game", claim="(1.95, 1e-05)-DP", tried="4,000 runs in each world", picture=roc(),
                  figures=[Figure(name="lower bound on epsilon", value=1.2, low=1.2, high=1.9, level=0.95),
                           Figure(name="public epsilon", value=1.95)],
                  settings={"n_runs": 4000, "seeds": [1, 2]})  # fmt: skip
    attack = result("attack", tried="LiRA, 128 shadow models", false_alarms=None, picture=roc("linear"),
                    figures=[Figure(name="AUC", value=0.51, low=0.4, high=0.6, level=0.95, estimate=True),
                             Figure(name="TPR at 0.1% FPR")])  # fmt: skip
    first = {"title": "Audit of votes.npy", "results": [result(), game, attack, *more], "created": "2026-01-01T00:00"}
    return Audit(**{**first, "left_out": ["replay: no private table was given"], "command": "pate audit", **changes})


def few(*results, **changes):
    """An audit whose page is made at once: without the pictures of a game and an attack."""
    return Audit(**{"title": "Audit of votes.npy", "results": results, "created": "2026-01-01T00:00", **changes})


class Tags(HTMLParser):
    """Tags, names of attributes and texts of a page."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.texts = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data):
        self.texts.append(data)


@pytest.mark.long
def test_the_page_says_what_was_tried_and_what_came_of_it():
    page = audit(private()).html()
    for said in ("No claim was refuted by 4 audits (law, pair, game and attack).", "20,000 releases", "suggests only",
                 "one crafted record", "cannot show that one is true", "replay: no private table", "pate audit",
                 "public epsilon", "lower bound on epsilon", "Only the histograms of the bank.", "(estimate)",
                 "nothing found"):  # fmt: skip
        assert said in page, said
    assert page.count("<svg ") == 2 * 3  # each for a wide window and for a phone
    assert "class='alarm'" not in page


def test_a_refuted_claim_is_an_alarm_and_says_what_was_found():
    shown = few(result(), result(refuted=True, finding="noise at 0.9 of sigma"))
    assert shown.refuted
    assert "Refuted: GNMax(sigma=40.0) does not keep its exact law. Noise at 0.9 of sigma." in shown.html()
    assert "class='alarm'" in shown.html()
    assert "REFUTED" in repr(shown)


def test_a_refuted_claim_that_names_its_target_is_a_sentence_by_itself():
    claim = "releases have the exact law of GNMax(sigma=40.0)"
    shown = few(result(refuted=True, claim=claim, finding="noise at 0.9 of sigma"))
    assert shown.summary() == f"Refuted: {claim}. Noise at 0.9 of sigma."


@pytest.mark.long
def test_a_refutation_by_private_data_is_public_and_its_finding_is_not():
    shown = few(private(refuted=True))
    for text in (shown.html(), repr(shown), shown._repr_html_(), shown.summary(), json.dumps(shown.to_dict())):
        assert SECRET not in text
    assert "Refuted: (1.95, 1e-05)-DP (layer pair; what was found is private)." in shown.html()
    assert shown.public().refuted
    assert SECRET in shown.html(include_sensitive=True)


@pytest.mark.long
def test_files_of_private_data_are_marked_and_only_their_owners(tmp_path):
    made = few(result(), private())
    folder = made.save(tmp_path / "a")
    assert sorted(p.name for p in folder.iterdir()) == [
        "audit.html", "audit.json", "audit.sensitive.html", "audit.sensitive.json",
    ]  # fmt: skip
    inside = (folder / "audit.sensitive.html").read_text(encoding="utf-8")
    assert "SENSITIVE: made from private data; not for publication" in inside
    assert inside.count("class='badge'") >= inside.count("<h2>")
    for name in ("audit.sensitive.html", "audit.sensitive.json"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
        assert SECRET in (folder / name).read_text(encoding="utf-8")
    for name in ("audit.html", "audit.json"):
        text = (folder / name).read_text(encoding="utf-8")
        assert not re.search(r"7654321|7,654,321|0\.7654|0\.7655|0\.8 ", text), name
        assert "SENSITIVE" not in text
    whole = Audit.load(folder / "audit.sensitive.json")
    assert whole.to_dict(include_sensitive=True) == made.to_dict(include_sensitive=True)
    read = Audit.load(folder / "audit.json")
    assert read.to_dict() == made.to_dict()
    assert [c.layer for c in read.citations] == ["pair"]
    with pytest.raises(RunFolderError, match="never overwritten"):
        few().save(folder)
    with pytest.raises(RunFolderError, match="is a file"):
        few().save(folder / "audit.json")
    assert sorted(p.name for p in few(result()).save(tmp_path / "b").iterdir()) == ["audit.html", "audit.json"]


def test_nothing_private_is_shown_to_who_does_not_ask():
    shown = audit(private())
    assert shown.sensitive
    assert all(SECRET not in str(row) for row in shown.rows())
    assert any(row["value"] == float(SECRET) for row in shown.rows(include_sensitive=True))
    with pytest.raises(SensitiveValueError):
        shown["pair"].rows()
    labels = [t.get_text() for t in shown.plot().ax_.get_yticklabels()]
    assert labels == ["public epsilon", "lower bound on epsilon"]
    assert len(shown.plot(include_sensitive=True).ax_.get_yticklabels()) == 3
    with pytest.raises(KeyError, match="there are: law, game, attack"):
        audit()["replay"]


def test_a_statement_cites_what_was_tried_and_no_more():
    statement = release_labels(Votes.from_counts([[9, 1]]), GNMax(9.0), budget=Budget(2.0, 1e-5)).statement
    cited = statement.with_audits([audit(private())])
    assert [c.layer for c in cited.audits] == ["law", "game", "attack", "pair"]
    again = PrivacyStatement.from_dict(json.loads(json.dumps(cited.to_dict())))
    assert again == cited
    for text in (again.text(), again.html(), json.dumps(again.to_dict())):
        assert SECRET not in text
        assert "one crafted record" in " ".join(text.split())
    assert cited.with_audits([private().cited(), private()]).audits[-1].layer == "pair"
    with pytest.raises(InvalidInputError, match="unknown entry 'target'"):
        statement.with_audits([private().to_dict(include_sensitive=True)])


@pytest.mark.long
def test_all_text_is_escaped():
    evil = result(**dict.fromkeys(("target", "claim", "tried", "finding", "limits"), EVIL), picture=replace(
        roc(), x_label=EVIL, curves=[replace(c, label=EVIL) for c in roc().curves]),
        figures=[Figure(name=f"epsilon {EVIL}", value=1.0, of=EVIL)], settings={EVIL: EVIL})  # fmt: skip
    shown = few(evil, title=EVIL, description=EVIL, left_out=[EVIL], command=EVIL)
    for page in (shown.html(), shown.html(include_sensitive=True), shown._repr_html_()):
        reader = Tags()
        reader.feed(page)
        assert not {"script", "img", "b", "link"} & set(reader.tags)
        assert not [name for name in reader.attributes if name.startswith("on")]
        assert EVIL in " ".join(reader.texts)


@pytest.mark.long
def test_the_page_asks_nothing_of_the_network_and_repeats_no_id(folder):
    for page in ((folder / f"audit{name}.html").read_text(encoding="utf-8") for name in ("", ".sensitive")):
        assert not re.search(r"<(script|link|img|iframe|object)|@import|url\((?!#)|\ssrc=|\shref='http", page)
        assert "default-src 'none'" in page
        ids = re.findall(r"\sid=['\"]([^'\"]+)", page)
        assert len(ids) == len(set(ids))


def test_pictures_of_bounds_and_of_a_ceiling():
    from pate.report import plots

    wide = [{"label": "a", "value": 0.01, "kind": "pair"}, {"label": "b", "value": 2.0, "kind": "price"}]
    assert plots.bounds_picture(wide).ax_.get_xscale() == "log"
    assert plots.bounds_picture(wide[1:]).ax_.get_xlim()[0] == 0
    with pytest.raises(InvalidInputError, match="bounds must not be empty"):
        Audit(title="t").plot()
    drawn = plots.audit_picture(roc()).ax_
    claim, seen = drawn.get_lines()
    assert (claim.get_linestyle(), seen.get_linestyle()) == ("--", "-")
    assert min(seen.get_xdata()) > 0  # no place for zero on a log axis
    assert min(plots.audit_picture(roc("linear")).ax_.get_lines()[0].get_xdata()) == 0


# The JSON ------------------------------------------------------------------------------------------------------


def test_the_json_keeps_its_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA_FILE)
    for made in (audit(), audit(private()), Audit(title="t")):
        for inside in (False, True):
            values = json.loads(json.dumps(made.to_dict(include_sensitive=inside), allow_nan=False))
            VALIDATOR.validate(values)
            assert values["schema"] == SCHEMA
            assert Audit.from_dict(values).to_dict(include_sensitive=inside) == values


def test_every_field_stands_in_the_schema_and_no_other():
    seen: set[Any] = set()

    def check(cls: Any, values: dict[str, Any]) -> None:
        names = [f.name for f in fields(cls)]
        assert list(values["properties"]) == names == values["required"], cls
        assert values["additionalProperties"] is False
        seen.add(cls)
        for hint in get_type_hints(cls).values():
            for inner in [hint, *get_args(hint)]:
                known = isinstance(inner, type) and issubclass(inner, Record | CitedAudit)
                if known and inner not in seen:
                    check(inner, SCHEMA_FILE["$defs"][inner.__name__[0].lower() + inner.__name__[1:]])

    check(Audit, SCHEMA_FILE)
    assert len(seen) == len(SCHEMA_FILE["$defs"]) - 3 + 1  # scalars, settings and layers are no records
    assert SCHEMA_FILE["$defs"]["layer"]["enum"] == list(LAYERS)


GOOD = json.loads(json.dumps(audit(private()).to_dict(include_sensitive=True)))
ODD = st.sampled_from([None, True, -1, 0.5, 10**400, "", "x", [], {}, [[1]], {"x": 1}, float("nan"), float("inf")])


def paths(value, at=()):
    yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in inner:
        yield from paths(entry, (*at, key))


@pytest.mark.long
@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([at for at in paths(GOOD) if at]), ODD, st.booleans())
def test_whatever_is_read_is_an_audit_or_refused(at, odd, drop):
    values = copy.deepcopy(GOOD)
    place = values
    for step in at[:-1]:
        place = place[step]
    if drop:
        del place[at[-1]]
    else:
        place[at[-1]] = odd
    try:
        read = Audit.from_dict(values)
    except PateError:
        return
    VALIDATOR.validate(json.loads(json.dumps(read.to_dict(include_sensitive=True), allow_nan=False)))
    assert Audit.from_dict(read.to_dict(include_sensitive=True)) == read
    assert SECRET not in repr(read.public())


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"[" * 200_000, b"3", b"null", b"[]", b'{"a": NaN}', b'{"schema": "pate-audit-0", "title": "t"}',
     b'{"title": "t"}', b'{"schema": "pate-audit-1", "title": "t", "title": "u"}',
     b'{"schema": "pate-audit-1", "title": "t", "votes": [1]}'],
)  # fmt: skip
def test_a_broken_file_is_one_clear_error(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InvalidInputError):
        Audit.load(tmp_path / "a.json")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        Audit.load(tmp_path / "none.json")


# In a browser --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("chromium") / "profile") as found:
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    long = result(refuted=True, finding="noise at 0.9 of sigma " * 20, tried="x" * 150, settings={"path": "y" * 200})
    word = "GaussianSum(noise_multiplier=3.109461498998304)"  # as in an audit of a statement: one long word
    figures = [
        Figure(name="log e-value", of="neighbouring classes have noise of their own, from class 0 on", value=-1.6)
    ]
    named = result(target=word, claim=f"noise of {word} is drawn afresh for every query", tried=word, figures=figures)
    place = audit(private(), long, named).save(tmp_path_factory.mktemp("pages") / "audit")
    for name in ("audit", "audit.sensitive"):  # all that can be folded away, unfolded
        opened = (place / f"{name}.html").read_text(encoding="utf-8").replace("<details>", "<details open>")
        (place / f"{name}.open.html").write_text(opened, encoding="utf-8")
    return place


@pytest.mark.skipif(CHROMIUM is None, reason=WHY)
@pytest.mark.parametrize("name", ["audit.html", "audit.open.html", "audit.sensitive.open.html"])
@pytest.mark.parametrize("width", [390, 1280])
def test_no_wider_than_the_window_and_nothing_asked_of_the_network(browser, folder, name, width):
    seen = browser.look(folder / name, width=width)
    assert seen.width == width
    assert seen.height > 900
    assert seen.requests == ((folder / name).as_uri(),)
    assert (seen.complaints, seen.cut) == ((), ())


@pytest.mark.skipif(CHROMIUM is None, reason=WHY)
def test_light_is_light_and_dark_is_dark(browser, folder):
    shade = {}
    for dark in (False, True):
        png = browser.look(folder / "audit.html", width=390, dark=dark).png
        shade[dark] = matplotlib.image.imread(io.BytesIO(png))[..., :3].mean()
    assert shade[False] > 0.8
    assert shade[True] < 0.35


# The worst neighbour of given votes ------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize("mechanism", [GNMax(3.0), LNMax(4.0), ConfidentGNMax(9, 4.0, 2.0)], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_the_worst_neighbour_is_the_worst_of_all(mechanism, reverse):
    """Against every vote moved by hand, one query at a time; of labels only the moves of one teacher."""
    order, rng = 5.0, np.random.default_rng(0)

    def far(p, q):
        p, q = (q, p) if reverse else (p, q)
        return np.log(np.exp(order * p + (1 - order) * q).sum())

    labels = rng.choice(4, p=[0.6, 0.2, 0.1, 0.1], size=(20, 9))
    by_teacher = Votes.from_labels(labels, classes=range(4))
    counts = by_teacher.counts
    for votes in (Votes.from_counts(counts), by_teacher):
        found = worst_neighbour(votes, mechanism, order=order, reverse=reverse)
        assert (np.abs(found - counts).sum(axis=1) == 2).all()
        best = np.zeros((20 if votes.labels is not None else 1, len(counts)))
        for q, row in enumerate(counts):
            law = mechanism.log_probs([row])[0]
            for lose, gain in itertools.permutations(range(4), 2):
                if row[lose]:
                    moved = row - np.eye(4, dtype=int)[lose] + np.eye(4, dtype=int)[gain]
                    who = slice(None) if votes.labels is None else labels[:, q] == lose
                    best[who, q] = np.maximum(best[who, q], far(law, mechanism.log_probs([moved])[0]))
        laws = zip(mechanism.log_probs(counts), mechanism.log_probs(found), strict=True)
        assert sum(far(p, q) for p, q in laws) == pytest.approx(best.sum(axis=1).max(), rel=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("mechanism", [GNMax(8.0), LNMax(9.0), ConfidentGNMax(30, 20.0, 8.0)], ids=str)
def test_the_chain_holds_on_many_votes_and_no_neighbour_beats_its_worst_one(mechanism):
    from pate.audit._audited import _chain

    rng = np.random.default_rng(3)
    for shares in ([0.4, 0.35, 0.25], [0.9, 0.06, 0.04]):
        counts = rng.multinomial(50, shares, size=12)
        found = _chain(Votes.from_counts(counts), mechanism, 1e-5, None, False)
        public, inner, reached = (f.value for f in found.figures)
        assert not found.refuted
        assert reached <= inner <= public * (1 + 1e-9)
        for lose, gain in itertools.permutations(range(3), 2):
            other = counts.copy()
            moves = other[:, lose] > 0
            other[moves, lose] -= 1
            other[moves, gain] += 1
            one = pair(counts, other, mechanism)["epsilon of the pair"].value
            assert one <= reached * 1.02  # worst at some Renyi order, not at delta itself
    with pytest.raises(InvalidInputError, match="exact law"):
        worst_neighbour(Votes.from_counts(counts), NoisyHistogram(3.0))


@pytest.mark.long
def test_the_line_of_evidence_is_not_called_what_the_claim_allows():
    lines = [Curve(label="evidence", x=[1.0, 2.0], y=[0.0, 1.0]),
             Curve(label="refuted from here on", x=[1.0, 2.0], y=[9.0, 9.0], role="claim")]  # fmt: skip
    drawn = Picture(x_label="releases", y_label="log e-value", curves=lines)
    law = AuditResult(layer="law", target="t", claim="c", tried="x", refuted=False, finding="y", picture=drawn)
    page = Audit(title="t", results=[law]).html()
    assert "Dashed, black: refuted from there on." in page
    assert "the most that the claim allows" not in page
