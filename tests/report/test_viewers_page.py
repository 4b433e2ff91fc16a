"""The page of what each viewer of a federation saw: in a real browser, and what may stand in it."""

import pytest
from chromium import CHROMIUM, WHY, Browser

from pate.report import write_viewers

TITLES = ("site-1 has", "registry got", "registry opens", "everybody else")


@pytest.fixture
def page(tmp_path):
    panels = [{"title": t, "note": "numbers", "values": [[i - 4.5 for i in range(10)]] * 12} for t in TITLES]
    write_viewers(
        tmp_path / "federation.html",
        title="<b>Ten</b> sites",
        lines=["They met & voted."],
        panels=panels,
        columns=range(10),
        caption="A square is as large as the number.",
        viewers=[("whoever sees only what is published", "the opened noisy sums, if they are published", "2.453")] * 3,
        accuracies=[("one site alone, mean of 10, for its own use", "none: such a model may not leave", 0.9021)],
        command="pate federation demo --out " + "x" * 150,
    )
    return tmp_path / "federation.html"


def test_what_is_put_in_is_text_and_pictures_are_drawn_twice(page):
    text = page.read_text(encoding="utf-8")
    assert "&lt;b&gt;Ten&lt;/b&gt; sites" in text
    assert "met &amp; voted" in text
    assert text.count("<svg ") == 2
    assert all(text.count(title) >= 2 for title in TITLES)
    assert "90.2%" in text
    assert "<script" not in text


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason=WHY)
def test_no_wider_than_the_window_and_nothing_asked_of_the_network(page, tmp_path):
    with Browser(tmp_path / "profile") as browser:
        for width in (390, 1280):
            seen = browser.look(page, width=width)
            assert seen.width == width
            assert seen.requests == (page.as_uri(),)
            assert (seen.complaints, seen.cut) == ((), ())
