"""``pate plan``: what a budget buys, and what to do with it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pate.cli import _options as o
from pate.cli._app import answer, say_json
from pate.cli._output import manner, show_table


def plan(
    classes: Annotated[str, o.option("How many classes there are, or their names by commas.", o.PRIVATE)],
    epsilon: Annotated[float | None, o.option(o.EPSILON_TEXT, o.PRIVACY)] = None,
    attacker: Annotated[
        float | None,
        o.option(
            "In place of --epsilon: of 100 guesses of one who knows everything but whether a record is this or another "
            "one, how many may be right; a coin is right 50 times.",
            o.PRIVACY,
        ),
    ] = None,
    delta: o.Delta = o.DELTA,
    records: Annotated[int | None, o.option("Number of private records (of persons, if --group).", o.PRIVATE)] = None,
    commonest: o.Commonest = None,
    best: Annotated[
        float | None,
        o.option("Share of right labels that a model without privacy would reach, if publicly known.", o.PRIVATE),
    ] = None,
    public: Annotated[
        str | None, o.option("Number of public rows; or the public table, or folder of images, itself.", o.PUBLIC)
    ] = None,
    kind: Annotated[
        Literal["table", "mixed", "image", "text"] | None,
        o.option("Of the data, where --public is a number; mixed is a table with categories.", o.PUBLIC),
    ] = None,
    drop: Annotated[
        list[str] | None, o.names_option("Columns of the public table that the private one will lack.", o.PUBLIC)
    ] = None,
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
    """Recommend how to spend a budget, with what to expect, before private data is touched."""
    from pate.exceptions import InvalidInputError
    from pate.ledger import Ledger
    from pate.privacy.budget import Budget
    from pate.studies.plan import plan as make_plan

    if attacker is None:
        if epsilon is None:
            raise InvalidInputError("--epsilon is missing: say what may be spent, or --attacker N in its place.")
        budget = Budget(epsilon, delta)
    elif epsilon is None:
        budget = Budget.for_attacker(attacker, delta)
    else:
        raise InvalidInputError("--epsilon and --attacker must not both be given: the one follows from the other.")
    try:
        numbers = None if teachers is None else [int(k) for k in teachers.split(",")]
    except ValueError:
        raise InvalidInputError(f"--teachers must be whole numbers separated by commas, got {teachers!r}.") from None
    named = o.whole_or_names(classes)
    if not isinstance(named, int) and len(named) < 2:
        raise InvalidInputError(f"--classes must be a whole number, or names separated by commas, got {classes!r}.")
    rows = _public_rows(public, kind, drop)
    if rows and records is None:
        raise InvalidInputError("--records must be given beside --public: how many private records there are.")
    if not rows and queries is None:
        raise InvalidInputError(
            "--public is missing: say how many public rows there are (or --queries N, for teachers on shards)."
        )
    done = make_plan(
        budget,
        n_queries=queries,
        n_classes=named if isinstance(named, int) else len(named),
        n_records=records,
        **rows,
        commonest=commonest,
        best=best,
        n_teachers=numbers,
        max_answers=max_answers,
        right=right,
        ledger=None if ledger is None else Ledger(ledger),
        words={
            "classes": None if isinstance(named, int) else named,
            "public": public if "X_public" in rows else None,
            "ledger": ledger,
        },
    )
    if say_json(done.to_dict()):
        return
    answer(done.title)
    if done.recommendation is not None:
        answer(done.recommendation.text())
    heading, body = done.columns()
    if body:
        show_table("Teachers on shards", heading, body)
    if body or manner.verbose:
        for line in done.advice():
            answer(f"- {line}")


def _public_rows(public: str | None, kind: str | None, drop: list[str] | None) -> dict[str, Any]:
    """Return what the plan is told of public rows: their number, or themselves."""
    from pate.exceptions import InvalidInputError

    if public is None:
        return {}
    if public.strip().lstrip("-").isdecimal():
        if drop:
            raise InvalidInputError("--drop is for a public table. Name it by --public FILE, or leave --drop out.")
        return {"n_public": int(public), "kind": kind or "table"}
    if kind is not None:
        raise InvalidInputError("--kind is seen from the public rows where --public names them. Leave it out.")
    from pate.jobs import read_public

    rows, image_shape = read_public(public, drop=drop or ())
    return {"X_public": rows, "image_shape": image_shape}
