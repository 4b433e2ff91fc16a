"""Progress bars of long work: shown on a terminal, silent elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def track(items: Iterable[T], *, total: int, label: str, show: bool = False) -> Iterator[T]:
    """Iterate over ``items`` behind a rich progress bar on standard error.

    Parameters
    ----------
    items : iterable
    total : int
        How many items there will be.
    label : str
        Public text only: it is printed.
    show : bool
        False shows nothing, and then rich is not imported. Where standard error is no terminal, a line when all is
        done stands for the bar.

    Examples
    --------
    >>> list(track(range(3), total=3, label="teachers"))
    [0, 1, 2]
    """
    if not show:
        yield from items
        return
    if not sys.stderr.isatty():
        yield from items
        print(f"{label}: {total} done", file=sys.stderr)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr)) as bar:
        task = bar.add_task(label, total=total)
        for item in items:
            yield item
            bar.advance(task)
