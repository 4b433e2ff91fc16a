"""``pate plan``: what a budget buys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pate.cli import _options as o
from pate.cli._app import answer, say_json
from pate.cli._output import show_table


def plan(
    epsilon: o.Epsilon,
    classes: Annotated[int, o.option("Number of classes.", o.PRIVATE)],
    delta: o.Delta = o.DELTA,
    records: Annotated[int | None, o.option("Number of private records.", o.PRIVATE)] = None,
    public: Annotated[
        int | None, o.option("Number of public rows; with --records: what records buy.", o.PUBLIC)
    ] = None,
    kind: Annotated[
        Literal["table", "mixed", "image", "text"], o.option("Of the data; mixed is a table with categories.", o.PUBLIC)
    ] = "table",
    queries: Annotated[
        int | None, o.option("How many public rows teachers on shards would be asked about.", o.NOISE)
    ] = None,
    teachers: Annotated[
        str | None, o.option("Numbers of teachers, separated by commas; default: as many as it takes.", o.TEACHERS)
    ] = None,
    max_answers: Annotated[int | None, o.option("Cap on answers of confident; default: half.", o.NOISE)] = None,
    right: Annotated[float, o.option("Probability of a right answer behind the gap.", o.NOISE)] = 0.99,
    ledger: Annotated[
        Path | None, o.option("Also fit what is left in this ledger, in the currency it counts in.", o.PRIVACY)
    ] = None,
) -> None:
    """Show what a budget buys, by records or by teachers on shards, before private data is touched."""
    from pate.exceptions import InvalidInputError
    from pate.ledger import Ledger
    from pate.privacy.budget import Budget
    from pate.studies.plan import plan as make_plan

    try:
        numbers = None if teachers is None else [int(k) for k in teachers.split(",")]
    except ValueError:
        raise InvalidInputError(f"--teachers must be whole numbers separated by commas, got {teachers!r}.") from None
    done = make_plan(
        Budget(epsilon, delta),
        n_queries=queries,
        n_classes=classes,
        n_records=records,
        n_public=public,
        kind=kind,
        n_teachers=numbers,
        max_answers=max_answers,
        right=right,
        ledger=None if ledger is None else Ledger(ledger),
    )
    if say_json(done.to_dict()):
        return
    heading, body = done.columns()
    if body:
        show_table(done.title, heading, body)
    else:
        answer(done.title)
    for line in done.advice():
        answer(f"- {line}")
