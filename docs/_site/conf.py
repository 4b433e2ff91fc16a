"""The documentation site (``make docs``): Sphinx over the repository's own pages, which read the same there.

The sources are the whole repository, so that links between pages, and from pages to files, are one and the same.
``docs/index.md`` is the front page, ``docs/pages.md`` the navigation: its headings and lists of links.
"""

import inspect
import logging
import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import site_gallery
import site_navigation
import site_notebook
import site_reference

ROOT = Path(__file__).resolve().parents[2]

project = "pate"
copyright = "the pate contributors, Apache-2.0"
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_parser", "sphinx_copybutton"]
extensions += ["sphinx_gallery.gen_gallery"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/*.md", "docs/*.ipynb", "docs/reference/*.rst", "benchmarks/**.md", "experiments/*.md"]
include_patterns += ["docs/examples/*.rst"]  # made of docs/gallery
exclude_patterns = [".*", "build", "dist", "runs", "site", "pate", "tests"]
suppress_warnings = ["ref.python"]  # words such as "path" in types of parameters, which are attributes' names too

myst_heading_anchors = 4
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Guarantees"]
autodoc_typehints = "none"  # types stand in the docstrings
autodoc_default_options = {"members": True}

# The copy button leaves prompts and outputs out, and takes a block without prompts whole.
copybutton_prompt_text = r">>> |\.\.\. ?"
copybutton_prompt_is_regexp = True
copybutton_copy_empty_lines = False
copybutton_exclude = ".linenos, .go"

html_theme = "furo"  # its fonts are the reader's own, its scripts are files of the site
html_title = "pate"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_extra_path = ["index.html"]

#: Running the notebook for its outputs takes half a minute, running the examples of the gallery some minutes.
RUN = os.environ.get("PATE_DOCS_RUN", "0") != "0"

logging.getLogger("pate").setLevel(logging.WARNING)  # sphinx-gallery would print what examples log
sphinx_gallery_conf = {
    "examples_dirs": "docs/gallery",
    "gallery_dirs": "docs/examples",
    "within_subsection_order": "site_gallery.place",
    "plot_gallery": str(RUN),
    "run_stale_examples": RUN,  # what an example gives depends on the package too
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 3600,  # seconds of whoever built the site
}


def _read(app: object, docname: str, source: list[str]) -> None:
    if docname == root_doc:
        pages = (ROOT / "docs" / "pages.md").read_text(encoding="utf-8")
        source[0] = site_navigation.with_contents(source[0], site_gallery.links(pages), app.env.found_docs)
    elif app.env.doc2path(docname, base=False).suffix == ".ipynb":
        source[0] = site_notebook.as_markdown(source[0], run_cells=RUN)
    if app.env.doc2path(docname, base=False).suffix == ".md":
        source[0] = site_gallery.links(source[0])
    source[0] = source[0].replace("\n\n```\n", "\n```\n")  # a doctest ends with a blank line, which nobody needs to see


#: The head of a field such as ":ivar classes_:", and the underscore that ends a name in it.
_FIELD = re.compile(r"^:\w+ [^:]*:")
_LAST = re.compile(r"(?<=\w)_(?![\w`])")
_ROUTING = re.compile(r"\.(set_\w+_request|get_metadata_routing)$")


def _plain(app: object, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Let docstrings say |x| and n_rows_ as mathematics and scikit-learn do."""
    if what == "data" and obj.__doc__ == type(obj).__doc__:
        lines.clear()  # what a dict is, or a number
    if _ROUTING.search(name):  # scikit-learn's own words, with links within its own site
        lines[:] = [re.sub(r":(?:ref|term):`([^<`]+?)(?: *<[^`]*>)?`", r"\1", line) for line in lines]
    # Sphinx takes the first of several names for the type of the last.
    split = [re.match(r"(:(?:ivar|vartype) )([^:]*, [^:]*)(:.*)", line) for line in lines]
    lines[:] = [
        whole
        for line, m in zip(lines, split, strict=True)
        for whole in ([line] if m is None else [m[1] + name.strip() + m[3] for name in m[2].split(",")])
    ]
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...", "..")):
            parts = re.split(r"(^:[^:]+:|`+[^`]*`+)", line)
            parts[::2] = [site_reference.MARKS.sub(r"\\\g<0>", part) for part in parts[::2]]
            if _FIELD.match(line):  # the name of a field is no link to elsewhere
                parts[1] = _LAST.sub(r"\\\g<0>", parts[1])
            lines[i] = "".join(parts)


def _skip(app: object, what: str, name: str, obj: object, skip: bool, options: object) -> bool | None:
    """Leave out what is scikit-learn's, but for the routing of rows of ours, and what is said of a tuple's fields."""
    theirs = str(getattr(obj, "__module__", "")).startswith("sklearn.") or name.endswith("_request")
    if theirs and name != "get_metadata_routing":
        routed = inspect.signature(obj).parameters if name == "set_fit_request" else ()
        return None if {"X_public", "groups"} & set(routed) else True
    return True if str(obj.__doc__).startswith("Alias for field number") else None


def setup(app: object) -> None:
    """Register what is ours; see https://www.sphinx-doc.org/en/master/extdev/event_callbacks.html."""
    app.add_source_suffix(".ipynb", "markdown")
    app.connect("source-read", _read)
    app.connect("autodoc-process-docstring", _plain, priority=600)  # after napoleon
    app.connect("autodoc-skip-member", _skip)
    app.connect("missing-reference", site_reference.by_last_name)
    site_reference.write(ROOT / "docs" / "reference")
