"""The page of a run among institutions whose data are public: what each viewer saw, as a picture and in words."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from pate._core.files import write_text
from pate._core.pages import render
from pate.report import plots
from pate.report._parts import percent, picture


def write_viewers(
    path: str | os.PathLike[str],
    *,
    title: str,
    lines: Sequence[str],
    panels: Sequence[Mapping[str, Any]],
    columns: Sequence[Any],
    caption: str,
    viewers: Sequence[tuple[str, str, str]],
    accuracies: Sequence[tuple[str, str, float]],
    command: str,
) -> None:
    """Write a page of what each viewer of a run among institutions saw.

    Parameters
    ----------
    path : path
    title : str
    lines : sequence of str
        What was done, one paragraph each.
    panels, columns
        See :func:`pate.report.plots.viewer_panels`; ``caption`` goes below them. **They show true votes: for public
        data only.**
    viewers : sequence of tuples
        Viewer, what it sees, and at which epsilon.
    accuracies : sequence of tuples
        Who learnt, under which guarantee, and the share of test rows that are right.
    command : str
        What made all this.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> goal = pathlib.Path(tempfile.mkdtemp()) / "federation.html"
    >>> panel = {"title": "a site", "note": "its votes", "values": [[3, 1]]}
    >>> write_viewers(
    ...     goal,
    ...     title="Three sites",
    ...     lines=["They met."],
    ...     panels=[panel],
    ...     columns=["no", "yes"],
    ...     caption="",
    ...     viewers=[("anybody", "labels", "1")],
    ...     accuracies=[("all", "none", 0.9)],
    ...     command="pate",
    ... )
    >>> "a site" in goal.read_text() and "90.0%" in goal.read_text()
    True
    """
    page = render(
        "federation.html",
        title=title,
        running=title,
        lines=list(lines),
        picture=picture(caption, "What each viewer saw", plots.viewer_panels, panels, columns),
        viewers=list(viewers),
        accuracies=[(who, how, percent(share)) for who, how, share in accuracies],
        command=command,
    )
    write_text(path, page)
