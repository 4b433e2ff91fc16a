"""``pate plan``: what a budget buys."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from pate.cli._app import say
from pate.cli._options import DELTA, NOISE, PRIVACY, PRIVATE, TEACHERS, Delta, Epsilon, option


def plan(
    epsilon: Epsilon,
    queries: Annotated[int, option("How many public rows to ask about.", NOISE)],
    classes: Annotated[int, option("Number of classes.", PRIVATE)],
    delta: Delta = DELTA,
    records: Annotated[int | None, option("Number of private records.", PRIVATE)] = None,
    teachers: Annotated[
        str | None, option("Numbers of teachers, separated by commas; default: as many as it takes.", TEACHERS)
    ] = None,
    max_answers: Annotated[int | None, option("Cap on answers of confident; default: half.", NOISE)] = None,
    right: Annotated[float, option("Probability of a right answer behind the gap.", NOISE)] = 0.99,
    ledger: Annotated[
        Path | None, option("Also fit what is left in this ledger, in the currency it counts in.", PRIVACY)
    ] = None,
) -> None:
    """Show what a budget buys: teachers, noise and the vote gap needed, before private data is touched."""
    from rich.console import Console
    from rich.table import Table

    from pate.exceptions import InvalidInputError
    from pate.ledger import Ledger
    from pate.privacy.budget import Budget
    from pate.studies.plan import plan as make_plan

    try:
        numbers = None if teachers is None else [int(k) for k in teachers.split(",")]
    except ValueError:
        raise InvalidInputError(f"teachers must be whole numbers separated by commas, got {teachers!r}.") from None
    done = make_plan(
        Budget(epsilon, delta),
        n_queries=queries,
        n_classes=classes,
        n_records=records,
        n_teachers=numbers,
        max_answers=max_answers,
        right=right,
        ledger=None if ledger is None else Ledger(ledger),
    )
    heading, body = done.columns()
    table = Table(title=done.title, title_justify="left")
    for i, name in enumerate(heading):
        table.add_column(name, justify="right" if i else "left")
    for row in body:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 110).print(table)
    for line in done.advice():
        say(f"- {line}")
