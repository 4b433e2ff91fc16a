"""HTML pages from the templates in ``_templates``: whatever is put into one is text, unless it is markup already."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment


@lru_cache(maxsize=1)
def _environment() -> Environment:
    # Here, because only who makes a page needs it.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("pate", "_templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render(template: str, **values: Any) -> str:
    """Return a page made from a template, with every value escaped; a name that is not given is an error.

    Examples
    --------
    >>> page = render("cell_rows.html", kind="<b>&", line="", heads=[], rows=[], more=[])
    >>> "&lt;b&gt;&amp;" in page, "<b>" in page
    (True, False)
    """
    return _environment().get_template(template).render(values)
