"""The documentation site (``make docs``): Sphinx over the repository's own pages, which read the same there.

The sources are the whole repository, so that links between pages, and from pages to files, are one and the same.
``docs/index.md`` is the navigation: its headings and lists of links.
"""

import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import site_navigation
import site_notebook
import site_reference

ROOT = Path(__file__).resolve().parents[2]

project = "pate"
copyright = "the pate contributors, Apache-2.0"
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_parser"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/*.md", "docs/*.ipynb", "docs/reference/*.rst", "benchmarks/**.md", "experiments/*.md"]
exclude_patterns = [".*", "build", "dist", "runs", "site", "pate", "tests"]
suppress_warnings = ["ref.python"]  # words such as "path" in types of parameters, which are attributes' names too

myst_heading_anchors = 4
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Guarantees"]
autodoc_typehints = "none"  # types stand in the docstrings
autodoc_default_options = {"members": True}

html_theme = "furo"  # its fonts are the reader's own, its scripts are files of the site
html_title = "pate"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_extra_path = ["index.html"]

#: Running the notebook for its outputs takes half a minute.
RUN_NOTEBOOK = os.environ.get("PATE_DOCS_RUN", "0") != "0"


def _read(app: object, docname: str, source: list[str]) -> None:
    if docname == root_doc:
        source[0] = site_navigation.with_contents(source[0], app.env.found_docs)
    elif app.env.doc2path(docname, base=False).suffix == ".ipynb":
        source[0] = site_notebook.as_markdown(source[0], run_cells=RUN_NOTEBOOK)
    source[0] = source[0].replace("\n\n```\n", "\n```\n")  # a doctest ends with a blank line, which nobody needs to see


#: Marks of reStructuredText that are none in these docstrings: |x|, n_rows_, a lone *shape.
_MARKS = re.compile(r"(?<!\\)(?:\||(?<=\w)_(?!\w)|(?<![\w*])\*(?=\w)(?![^*]*\*))")


def _plain(app: object, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Let docstrings say |x| and n_rows_ as mathematics and scikit-learn do."""
    if what == "data" and obj.__doc__ == type(obj).__doc__:
        lines.clear()  # what a dict is, or a number
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...", "..")):
            parts = re.split(r"(^:[^:]+:|`+[^`]*`+)", line)
            parts[::2] = [_MARKS.sub(r"\\\g<0>", part) for part in parts[::2]]
            lines[i] = "".join(parts)


def _skip(app: object, what: str, name: str, obj: object, skip: bool, options: object) -> bool | None:
    """Leave out scikit-learn's metadata routing, written for its own site, and what is said of a tuple's fields."""
    theirs = re.fullmatch(r"set_\w+_request|get_metadata_routing", name)
    return True if theirs or str(obj.__doc__).startswith("Alias for field number") else None


def setup(app: object) -> None:
    """Register what is ours; see https://www.sphinx-doc.org/en/master/extdev/event_callbacks.html."""
    app.add_source_suffix(".ipynb", "markdown")
    app.connect("source-read", _read)
    app.connect("autodoc-process-docstring", _plain, priority=600)  # after napoleon
    app.connect("autodoc-skip-member", _skip)
    app.connect("missing-reference", site_reference.by_last_name)
    site_reference.write(ROOT / "docs" / "reference")
