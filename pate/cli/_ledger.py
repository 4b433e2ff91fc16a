"""``pate ledger``: show, check and export the record of all releases from a private data set."""

from __future__ import annotations

import dataclasses
import itertools
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from pate.cli._app import answer, now_called, say_json
from pate.cli._options import CommandGroup

app = typer.Typer(
    cls=CommandGroup,
    help="Show, check and export the record of all releases from a private data set.",
    no_args_is_help=True,
)

File = Annotated[Path, typer.Argument(help="The ledger's file.", show_default=False)]
Head = Annotated[str | None, typer.Option(help="A head noted earlier: it must be in the chain.")]
#: Exit codes of a check: something was changed; nothing was, but the ledger does not know a file.
_CHANGED, _UNKNOWN = 1, 3
#: What is paid for where records vote.
_BALLOTS = ("ballots", "ballot session")
_LABELS_ELSEWHERE = (
    "Where records voted, the ledger holds what was released: noisy sums of ballots. Labels follow from these and the "
    "public rows, at no further cost. `pate label` wrote them to its CSV file, and the model (.pate) has them for any "
    "row; the same command with another --out writes them again, free."
)


def _open(path: Path) -> Any:
    from pate.exceptions import LedgerError
    from pate.ledger import Ledger

    ledger = Ledger(path)
    if ledger.total is None:
        raise LedgerError(
            f"there is no ledger at {str(path)!r}. Name the file that pate label or pate ledger begin made."
        )
    return ledger


def _plain(text: object) -> str:
    """Return a text from the file as a terminal may show it: a crafted ledger must not send control codes."""
    return ascii(str(text))[1:-1]


def show(file: File) -> None:
    """Show every release, its cost, and the ledger's head (note it elsewhere)."""
    ledger = _open(file)
    rows, left, data, head = ledger.show(), ledger.remaining(), ledger.registration, ledger.head
    tiers = ledger.tiers()
    said = {"tiers": tiers} if tiers else {}
    if say_json({"data_set": data, "releases": rows, "remaining": left.to_dict(), "head": head, **said}):
        return
    if data is not None:
        units = "" if data["n_units"] is None else f", {data['n_units']} units"
        known = "recognised by its fingerprint" if data["fingerprinted"] else "not fingerprinted"
        answer(_plain(f"data set: unit {data['unit']}{units}, {data['adjacency']} adjacency, {known}"))
    if left.terms is not None:
        unit = left.terms.currency
        answer(
            f"accounting unit: {unit.name}, fixed before the first charge: the sum of {unit.unit} stays within a limit"
        )
    heading = f"{'release':>7} {'created (UTC)':<20}{'paid for':<16}{'asked':>9}{'answers':>9}{'epsilon':>9}"
    answer(f"{heading}{'price':>11}{'share':>8}  mechanism")
    for row in rows:
        seeded = "  SEEDED: NOT PRIVATE" if row["seeded"] else ""
        answer(
            f"{row['release']:>7} {_plain(row['created'])[:19]:<20}{_plain(row['kind'])[:15]:<16}"
            f"{_asked(row, 'round'):>9}{_asked(row, 'sum'):>9}{_up(row['epsilon']):>9}{_up(row['price']):>11}"
            f"{row['share']:>8.1%}  {_counted(_plain(row['mechanism']))}{seeded}"
        )
    answer(str(left))
    for tier in tiers:
        answer(
            f"tier {_plain(tier['tier'])}: weight {tier['weight']:.4g}; charged as one release of epsilon "
            f"{_up(tier['epsilon_spent'])} would, of at most {_up(tier['epsilon'])} at delta {tier['delta']:g}"
        )
    if any(row["kind"] in _BALLOTS for row in rows):
        answer(_LABELS_ELSEWHERE)
    answer(f"head: {head}")


def begin(
    file: Annotated[Path, typer.Argument(help="The file to make.", show_default=False)],
    epsilon: Annotated[float, typer.Option(help="What all releases together may cost, above 0.")],
    delta: Annotated[float, typer.Option(help="Well below one over the number of people.")],
    accounting_unit: Annotated[
        str | None,
        typer.Option(help="gdp, renyi, renyi:ORDER or pure; default: as the first release needs it."),
    ] = None,
    currency: Annotated[str | None, typer.Option(help="Now --accounting-unit.", hidden=True)] = None,
) -> None:
    """Begin a ledger with a total budget for several releases; otherwise the first release's budget is the total."""
    from pate.exceptions import LedgerError
    from pate.ledger import Ledger
    from pate.privacy.budget import Budget

    accounting_unit = now_called("currency", currency, "accounting_unit", accounting_unit)
    total = Budget(epsilon, delta)
    if Ledger(file).total is not None:
        raise LedgerError(
            f"there is a ledger {str(file)!r} already, and a total is never raised: that would break the promise made "
            "with the first release. `pate ledger remaining` says what is left of it."
        )
    Ledger(file, total=total, currency=accounting_unit)
    say_json({"file": file, "total": {"epsilon": epsilon, "delta": delta}})
    answer(
        f"Began {file}: all releases together may cost epsilon {epsilon:g} at delta {delta:g}. Name it with every one "
        f"(--ledger {shlex.quote(str(file))}); --epsilon is then what that release may take of it."
    )


def verify(
    file: File,
    files: Annotated[list[Path] | None, typer.Argument(help="Released files, to be compared with it.")] = None,
    head: Head = None,
) -> None:
    """Check that no row of the ledger was changed, removed, added or moved; exit code 1 if one was."""
    say_verified(file, files or [], head)


def say_verified(ledger: Path, files: list[Path], head: str | None) -> None:
    """Say whether a ledger is whole and every file as released; end with 1 if not, with 3 if a file is unknown."""
    from pate.ledger import verify_ledger

    found = verify_ledger(ledger, head=head, files=files)
    say_json({"ok": found.as_released, **dataclasses.asdict(found)})
    answer("\n".join(_plain(line) for line in str(found).splitlines()))
    _end(found.files, whole=found.ok)


def say_stated(files: list[Path]) -> None:
    """Say whether files are as the statement among them says, and end likewise."""
    from pate.release.statement.files import ONLY_LEDGER, check_files

    found = check_files(files)
    say_json({"ok": all(one.ok for one in found), "files": list(map(dataclasses.asdict, found)), "note": ONLY_LEDGER})
    answer("\n".join([*(_plain(one) for one in found), ONLY_LEDGER]))
    _end(found)


def _end(files: Iterable[Any], *, whole: bool = True) -> None:
    if not whole or any(one.status == "changed" for one in files):
        raise typer.Exit(_CHANGED)
    if not all(one.ok for one in files):
        raise typer.Exit(_UNKNOWN)


def bind(
    file: File,
    files: Annotated[list[Path], typer.Argument(help="Files that were made of a release.", show_default=False)],
) -> None:
    """Record digests of files made from a release later, so that verify knows them; you vouch for them."""
    head = _open(file).bind(*files)
    say_json({"bound": files, "head": head})
    answer(f"Bound {', '.join(map(str, files))}; head: {head}")


def export(
    file: File,
    out: Annotated[Path, typer.Argument(help="A new .csv or .jsonl file.", show_default=False)],
    raw_csv: Annotated[bool, typer.Option(help="No apostrophe before texts that a spreadsheet would run.")] = False,
) -> None:
    """Write every label and noisy sum that was paid for to a file."""
    ledger = _open(file)
    n_sums = sum(row["n_answers"] for row in ledger.show() if row["kind"] in _BALLOTS)
    n = ledger.export(out, raw_csv=raw_csv)
    say_json({"answers": n, "labels": n - n_sums, "ballot_sums": n_sums, "file": out})
    answer(f"Wrote {n - n_sums} answers{f' and {n_sums} noisy sums of ballots' * bool(n_sums)} to {out}")
    if n_sums:
        answer(_LABELS_ELSEWHERE)


def remaining(file: File) -> None:
    """Show how much of the total budget is left."""
    left = _open(file).remaining()
    say_json(left.to_dict())
    answer(str(left))


def revise(
    file: File,
    reason: Annotated[str, typer.Option(help="Public: why the private records changed. It is stored in the ledger.")],
) -> None:
    """Declare that private records were corrected or added; all charges stay on one total."""
    _open(file).revise(reason)
    say_json({"revised": True, "reason": reason})
    answer("Recorded. The next release may use the changed records with this ledger.")


#: In the order of ``pate ledger --help``.
COMMANDS = (begin, show, verify, bind, export, remaining, revise)


def _asked(row: dict[str, Any], what: str) -> str:
    """Return how much was asked for, or answered: queries, or rounds and sums of ballots, of which labels follow."""
    n = row["n_queries" if what == "round" else "n_answers"]
    return f"{n} {what}{'s' * (n != 1)}" if row["kind"] in _BALLOTS else str(n)


def _counted(mechanisms: str) -> str:
    """Return mechanisms with equal neighbours counted: ``40 x GaussianSum(...)``."""
    parts = [(one, len(list(same))) for one, same in itertools.groupby(re.split(r"(?<=\)), ", mechanisms))]
    return ", ".join(one if n == 1 else f"{n} x {one}" for one, n in parts)


def _up(epsilon: float) -> str:
    from pate.privacy.convert import format_up

    return format_up(epsilon)
