"""The navigation of the site is a list of links: ``docs/pages.md``."""

import posixpath
import re
from collections.abc import Iterable

#: Where the card "Reference" of the front page leads in the repository, and on the site.
_SOURCE, _REFERENCE = "(../pate/__init__.py)", "(reference/index.rst)"

_HEADING = re.compile(r"^## (.+)$", flags=re.MULTILINE)
_LINK = re.compile(r"^- \[(.+?)\]\(([^)#:]+)\.(?:md|ipynb|rst)\)", flags=re.MULTILINE)


def sections(pages: str) -> dict[str, list[tuple[str, str]]]:
    r"""Return the titles and documents under each heading, documents by their places in the repository.

    Examples
    --------
    >>> sections("## Start\n\n- [Ten minutes](start.md): ...\n- [All](../README.md)")
    {'Start': [('Ten minutes', 'docs/start'), ('All', 'README')]}
    """
    parts = _HEADING.split(pages)[1:]
    return {
        heading: [(title, posixpath.normpath(f"docs/{path}")) for title, path in _LINK.findall(text)]
        for heading, text in zip(parts[::2], parts[1::2], strict=True)
    }


def with_contents(index: str, pages: str, documents: Iterable[str]) -> str:
    r"""Return the front page with its navigation; pages that the list does not name yet stand at the end.

    Examples
    --------
    >>> there = ["docs/index", "docs/one", "docs/two", "docs/reference/index"]
    >>> print(with_contents("# Hello", "## Start\n\n- [One](one.md)", there))
    # Hello
    <BLANKLINE>
    ```{toctree}
    :hidden:
    :caption: Start
    One </docs/one>
    ```
    <BLANKLINE>
    ```{toctree}
    :hidden:
    :caption: Reference
    Public names </docs/reference/index>
    ```
    <BLANKLINE>
    ```{toctree}
    :hidden:
    :caption: More
    /docs/two
    ```
    """
    named = sections(pages)
    blocks = [(caption, [f"{title} </{path}>" for title, path in links]) for caption, links in named.items() if links]
    seen = {path for links in named.values() for _, path in links} | {"docs/index"}
    made = ("docs/reference/", "docs/examples/")  # have lists of their own
    rest = sorted(f"/{path}" for path in set(documents) - seen if not path.startswith(made))
    names = ("Reference", ["Public names </docs/reference/index>"])
    if "Reference" in named:
        blocks = [(caption, [*names[1], *links] if caption == names[0] else links) for caption, links in blocks]
    else:
        blocks.append(names)
    blocks += [("More", rest)] if rest else []
    trees = ["```{toctree}\n:hidden:\n:caption: " + "\n".join([caption, *lines]) + "\n```" for caption, lines in blocks]
    return "\n\n".join([index.replace(_SOURCE, _REFERENCE), *trees])
