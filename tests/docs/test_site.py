"""The site is built without a warning, every link in it leads somewhere, and nothing comes from a network."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from chromium import CHROMIUM, Browser

import pate
from pate import exceptions

ROOT = Path(pate.__file__).parents[1]
SITE = ROOT / "docs" / "_site"
#: What a browser fetches by itself; a link that a reader may follow is another thing.
FETCHED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("video", "src")}


#: Names that people import from elsewhere than ``pate``.
OTHERS = {"Contestant", "NoiseSource", "Setting", "Tuning", "least_sure", "register", "select_queries"}


def fitted_attributes(name: str) -> list[str]:
    """The names ending in an underscore that a class's docstring lists."""
    place, _, last = name.rpartition(".")
    try:
        value = getattr(import_module(place), last, None)
    except (ImportError, ValueError):  # a class is no module, and pate is in none
        return []
    section = re.search(r"^Attributes\n-+\n(.*?)(?=\n\n\S|\Z)", inspect.getdoc(value) or "", re.DOTALL | re.MULTILINE)
    heads = re.findall(r"^(\w[\w, ]*?)(?: :|$)", section[1] if section else "", re.MULTILINE)
    return [a for head in heads for a in head.split(", ") if a.endswith("_")] if inspect.isclass(value) else []


class Page(HTMLParser):
    """What a page fetches, where it links, and which places in it have names."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.fetched, self.links, self.ids = [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("id", "name"):
                self.ids.add(value)
            elif (tag, name) in FETCHED and not (tag == "link" and dict(attrs).get("rel") == "canonical"):
                self.fetched.append(value)
            elif (tag, name) == ("a", "href"):
                self.links.append(value)


def faults(folder: Path) -> list[str]:
    """What is fetched from elsewhere, and what leads nowhere."""
    pages = {path.resolve(): Page(path) for path in sorted(folder.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        here = str(path.relative_to(folder.resolve()))
        found += [f"{here} fetches {url}" for url in page.fetched if re.match(r"(\w+:)?//", url)]
        local = [url for url in [*page.fetched, *page.links] if not re.match(r"(\w+:|//)", url)]
        for url in local:
            name, place = urldefrag(url.split("?")[0] if "?" in url else url)
            target = (path.parent / unquote(name)).resolve() if name else path
            if not target.exists():
                found.append(f"{here} leads to {url}, which is not there")
            elif place and target in pages and unquote(place) not in pages[target].ids:
                found.append(f"{here} leads to {url}, a place that {target.name} does not have")
    for style in folder.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        found += [
            f"{style.name} fetches {url}"
            for url in re.findall(r"(?:url\(|@import )['\"]?((?:https?:)?//[^'\")]+)", text)
        ]
    return found


@pytest.mark.long
@pytest.mark.timeout(900)  # half a minute of one core; more where many tests share it
def test_the_site_is_whole_and_needs_no_network(tmp_path):
    """One test, so that one process builds the site once."""
    if find_spec("sphinx") is None or find_spec("sphinx_gallery") is None:
        pytest.skip('the site is made by Sphinx: pip install ".[docs]"')
    out = tmp_path / "site"
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-c",
        SITE,
        "-d",
        tmp_path / "trees",
        "-W",
        "--keep-going",
        "-q",
        ROOT,
        out,
    ]
    calm = {"PATE_DOCS_RUN": "0", "NO_COLOR": "1", "PYTHONWARNINGS": "default"}
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | calm)
    assert done.returncode == 0, done.stdout + done.stderr
    assert faults(out) == []

    written = [
        *(ROOT / "docs").glob("*.md"),
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        ROOT / "docs" / "tutorial.ipynb",
    ]
    assert [path.name for path in written if not (out / path.relative_to(ROOT).with_suffix(".html")).exists()] == []
    shown = "".join(path.read_text(encoding="utf-8") for path in (out / "docs" / "reference").glob("*.html"))
    ids = set(re.findall(r'id="(pate[\w.]*)"', shown))
    short = {name.rpartition(".")[2] for name in ids}
    assert set(pate.__all__) - {"__version__"} - short == set()
    assert set(exceptions.__all__) | OTHERS <= short
    of_classes = dict(re.findall(r'id="(pate[\w.]*)"(.*?)(?=id="pate|\Z)', shown, flags=re.DOTALL))
    said = {name: fitted for name in of_classes if (fitted := fitted_attributes(name))}
    assert len(said) > 30
    wrong = {n: [a for a in said[n] if f"<strong>{a}</strong>" not in of_classes[n]] for n in said}
    assert {name: attributes for name, attributes in wrong.items() if attributes} == {}
    for name in ("estimators.PATEClassifier", "dpsgd.DPSGDClassifier", "teachers.torch.TorchTeacherEnsemble"):
        assert {f"pate.{name}.{end}" for end in ("fit", "set_fit_request", "get_metadata_routing")} <= ids
    pages = {path.stem for path in (out / "docs" / "reference").glob("*.html")}
    by_task = (out / "docs" / "reference" / "index.html").read_text(encoding="utf-8")
    linked = set(re.findall(r'href="[\w.]*#(pate[\w.]*)"', by_task))
    assert {name for name in ids if name.rpartition(".")[0] in pages} - linked == set()
    assert "docs/index.html" in (out / "index.html").read_text(encoding="utf-8")
    assert (out / "searchindex.js").stat().st_size > 10_000
    if CHROMIUM is not None:
        look_at(out, tmp_path / "profile")


def look_at(site: Path, profile: Path) -> None:
    """In a reader's browser: nothing scrolls sideways, contents are open, and what is copied is the code alone."""
    right = "document.querySelector('.toc-drawer').getBoundingClientRect().right"
    copied = """(() => {
        const got = [];
        document.execCommand = () => { got.push(document.activeElement.value); return true; };
        document.querySelectorAll("button.copybtn").forEach(button => button.click());
        return got;
    })()"""
    with Browser(profile) as browser:
        pages = (
            "index",
            "production",
            "design",
            "accuracy",
            "reference/index",
            "examples/index",
            "examples/plot_table",
        )
        for page in pages:
            path = site / "docs" / f"{page}.html"
            assert browser.look(path, width=390, whole=False).width == 390, page
            seen = browser.look(path, width=1280, whole=False, ask=right)
            assert (seen.width, seen.said <= 1280) == (1280, True), page
            assert {url.partition(":")[0] for url in seen.requests} <= {"file", "data"}
        first, *_ = browser.look(site / "docs" / "index.html", width=1280, whole=False, ask=copied).said
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert first.strip() == re.search(r"```python\n(.*?)```", page, flags=re.DOTALL)[1].strip()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('<a href="b.html#x">b</a><a href="https://elsewhere/">c</a>', None),
        ('<a href="no.html">b</a>', "leads to no.html, which is not there"),
        ('<a href="b.html#y">b</a>', "a place that b.html does not have"),
        ('<script src="https://cdn/x.js"></script>', "fetches https://cdn/x.js"),
        ('<link rel="stylesheet" href="//fonts/x.css">', "fetches //fonts/x.css"),
        ('<img src="no.png">', "leads to no.png, which is not there"),
    ],
)
def test_the_reader_of_pages_sees_faults(tmp_path, body, said):
    (tmp_path / "a.html").write_text(body)
    (tmp_path / "b.html").write_text('<h1 id="x">b</h1>')
    found = faults(tmp_path)
    assert found == [] if said is None else len(found) == 1 and said in found[0]


def test_the_reader_of_styles_sees_web_fonts(tmp_path):
    (tmp_path / "a.css").write_text('@import "https://fonts/x.css"; p { background: url(data:image/png;base64,x) }')
    assert faults(tmp_path) == ["a.css fetches https://fonts/x.css"]


def test_every_page_is_in_the_navigation(monkeypatch):
    monkeypatch.syspath_prepend(str(SITE))
    import site_navigation

    pages = (ROOT / "docs" / "pages.md").read_text(encoding="utf-8")
    named = {path for links in site_navigation.sections(pages).values() for _, path in links}
    assert {path for path in named if not any((ROOT / f"{path}{end}").exists() for end in (".md", ".ipynb"))} == set()
    assert {
        "docs/start",
        "docs/tutorial",
        "docs/concepts",
        "docs/persons",
        "docs/production",
        "docs/choosing",
        "README",
        "CHANGELOG",
    } <= named


@pytest.mark.long
@pytest.mark.sample
def test_every_public_name_has_one_task(monkeypatch):
    monkeypatch.syspath_prepend(str(SITE))
    import site_reference

    public = {(site_reference.home(p, name), name) for p, names in site_reference.packages().items() for name in names}
    placed = [one for found in site_reference.by_task().values() for one in found]
    assert (public - set(placed), len(placed)) == (set(), len(set(placed)))
