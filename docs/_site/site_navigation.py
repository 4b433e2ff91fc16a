"""The navigation of the site is a list of links: ``docs/index.md``."""

import posixpath
import re
from collections.abc import Iterable

_HEADING = re.compile(r"^## (.+)$", flags=re.MULTILINE)
_LINK = re.compile(r"^- \[(.+?)\]\(([^)#:]+)\.(?:md|ipynb)\)", flags=re.MULTILINE)


def sections(index: str) -> dict[str, list[tuple[str, str]]]:
    r"""Return the titles and documents under each heading, documents by their places in the repository.

    Examples
    --------
    >>> sections("## Start\n\n- [Ten minutes](start.md): ...\n- [All](../README.md)")
    {'Start': [('Ten minutes', 'docs/start'), ('All', 'README')]}
    """
    parts = _HEADING.split(index)[1:]
    return {
        heading: [(title, posixpath.normpath(f"docs/{path}")) for title, path in _LINK.findall(text)]
        for heading, text in zip(parts[::2], parts[1::2], strict=True)
    }


def with_contents(index: str, documents: Iterable[str]) -> str:
    r"""Return the page with its navigation; pages that it does not name yet stand at the end.

    Examples
    --------
    >>> there = ["docs/index", "docs/one", "docs/two", "docs/reference/index"]
    >>> print(with_contents("## Start\n\n- [One](one.md)", there))
    ## Start
    <BLANKLINE>
    - [One](one.md)
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
    named = sections(index)
    blocks = [(caption, [f"{title} </{path}>" for title, path in links]) for caption, links in named.items() if links]
    seen = {path for links in named.values() for _, path in links} | {"docs/index"}
    rest = sorted(f"/{path}" for path in set(documents) - seen if not path.startswith("docs/reference/"))
    blocks.append(("Reference", ["Public names </docs/reference/index>"]))
    blocks += [("More", rest)] if rest else []
    trees = ["```{toctree}\n:hidden:\n:caption: " + "\n".join([caption, *lines]) + "\n```" for caption, lines in blocks]
    return "\n\n".join([index, *trees])
