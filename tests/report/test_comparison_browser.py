"""A comparison's pages in a real browser: as wide as the window, light and dark, no request, no complaint."""

import io
import re

import matplotlib.image
import pytest
from chromium import CHROMIUM, WHY, Browser
from comparison_samples import comparison

from pate import report as pages

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=WHY)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("chromium") / "profile") as found:
        yield found


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    place = tmp_path_factory.mktemp("pages")
    found = comparison(8, (0.1, 0.3, 1.0, 3.0, 8.0), n_classes=10, n_test=300, dataset="mnist", starve=2, refuse=True,
                       published=False)  # fmt: skip
    pages.write_report(place / "report.html", found.result(command="pate compare --dataset mnist --out " + "x" * 150))
    found.save_sensitive(place / "sensitive.html")
    # All that can be folded away, unfolded.
    opened = (place / "report.html").read_text(encoding="utf-8").replace("<details>", "<details open>")
    (place / "open.html").write_text(opened, encoding="utf-8")
    assert opened.count("<details open>") > 10
    return place


@pytest.mark.long
@pytest.mark.parametrize("name", ["report.html", "open.html", "sensitive.html"])
@pytest.mark.parametrize("width", [390, 1280])
def test_no_wider_than_the_window_and_nothing_asked_of_the_network(browser, files, name, width):
    seen = browser.look(files / name, width=width)
    assert seen.width == width
    assert seen.height > 900
    assert seen.requests == ((files / name).as_uri(),)
    assert seen.complaints == ()
    if (name, width) == ("report.html", 1280):
        assert seen.cut == ()


@pytest.mark.parametrize("width", [390, 1280])
def test_light_is_light_and_dark_is_dark(browser, files, width):
    shade = {}
    for dark in (False, True):
        png = browser.look(files / "report.html", width=width, dark=dark).png
        shade[dark] = matplotlib.image.imread(io.BytesIO(png))[..., :3].mean()
    assert shade[False] > 0.85
    assert shade[True] < 0.25


def test_the_browser_would_see_it(browser, tmp_path):
    """A page that is too wide, asks the network and fails: else the tests above could not fail."""
    bad = "<!doctype html><title>b</title><div style='width:2000px'>x</div><img src='http://127.0.0.1:9/a.png'>"
    bad += "<div class=scroll style='width:90px;overflow-x:auto'><div style='width:99px'>wide</div></div>"
    (tmp_path / "bad.html").write_text(bad + "<script>nothing()</script>", encoding="utf-8")
    seen = browser.look(tmp_path / "bad.html", width=1280)
    assert seen.width >= 2000
    assert len(seen.requests) == 2
    assert any("nothing is not defined" in complaint for complaint in seen.complaints)
    assert seen.cut == ("wide",)


@pytest.mark.long
def test_no_script_is_needed(files):
    for name in ("report.html", "sensitive.html"):
        assert not re.search(r"<script|\son\w+=", (files / name).read_text(encoding="utf-8"))
