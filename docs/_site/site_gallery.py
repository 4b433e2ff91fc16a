"""The gallery: its order, which ``docs/gallery/README.md`` gives, its links, and one picture of all thumbnails.

``python docs/_site/site_gallery.py`` draws that picture, ``docs/images/gallery.png``, of the examples that
``make docs`` ran: people who read the repository see no built site.
"""

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]
#: Where examples stand in the repository, and where their pages are made.
SOURCE, PAGES = DOCS / "gallery", DOCS / "examples"

_LISTED = re.compile(r"^\d+\. \[(.+?)\]\((plot_\w+)\.py\)", flags=re.MULTILINE)
_LINK = re.compile(r"(\]\((?:[\w.]+/)*)gallery/(?:(README)\.md|(plot_\w+)\.py)\)")


def listed() -> dict[str, str]:
    """Return the title of every example by its name, in their order.

    Examples
    --------
    >>> next(iter(listed().items()))
    ('plot_digits', 'Digits: accuracy against epsilon')
    """
    return {name: title for title, name in _LISTED.findall((SOURCE / "README.md").read_text(encoding="utf-8"))}


def place(filename: str) -> int:
    """Return the place of an example in the gallery; what is not listed stands at the end."""
    names = list(listed())
    return names.index(Path(filename).stem) if Path(filename).stem in names else len(names)


def links(page: str) -> str:
    """Let links to the gallery's files lead to their pages on the site.

    Examples
    --------
    >>> links("[Gallery](gallery/README.md), [digits](docs/gallery/plot_digits.py)")
    '[Gallery](examples/index.rst), [digits](docs/examples/plot_digits.rst)'
    """
    return _LINK.sub(lambda m: f"{m[1]}examples/{'index' if m[2] else m[3]}.rst)", page)


def sheet(out: Path, columns: int = 5) -> None:
    """Draw all thumbnails with their titles in one picture of few colours, so that the file is small."""
    import io
    import textwrap

    import matplotlib.pyplot as plt
    from PIL import Image

    titles = listed()
    figure, axes = plt.subplots(-(-len(titles) // columns), columns, figsize=(16, 6.2), layout="constrained")
    for ax, (name, title) in zip(axes.flat, titles.items(), strict=True):
        ax.imshow(plt.imread(PAGES / "images" / "thumb" / f"sphx_glr_{name}_thumb.png"))
        ax.set_title("\n".join(textwrap.wrap(title, 34)), fontsize=11)
        ax.axis("off")
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=100)
    Image.open(drawn).convert("RGB").quantize(200).save(out, optimize=True)


if __name__ == "__main__":
    sheet(DOCS / "images" / "gallery.png")
