"""``pate statement``: check and print a release's privacy statement; ``pate verify``: compare files with a ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pate.cli import _options as o
from pate.cli._app import answer, say_json
from pate.cli._ledger import Head, say_stated, say_verified
from pate.exceptions import InvalidInputError

_HEAD_ALONE = "--head is compared with a ledger, and --ledger is missing. Name it, or leave --head out."

# ``pate verify``: whether files are the ones that were released.


def verify(
    files: Annotated[
        list[Path],
        typer.Argument(help="Labels, statement, page, model: under any name they have now.", show_default=False),
    ],
    ledger: Path | None = o.setting(
        "Ledger that charged the release, with its key file beside it; without it files are compared with the "
        "statement among them.",
        o.PRIVACY,
    ),
    head: Head = None,
) -> None:
    """Check whether files are as released, changed or unknown; exit code 0 if all are as released, or as stated.

    1: a file was changed, or the ledger. 3: nothing was changed, but the ledger (without one: the statement) does not
    know a file. Without the key file only what a head noted earlier (--head) covers is proved.
    """
    if ledger is not None:
        say_verified(ledger, files, head)
    elif head is None:
        say_stated(files)
    else:
        raise InvalidInputError(_HEAD_ALONE)


def statement(
    file: Annotated[Path | None, typer.Argument(help="The statement's JSON, such as labels.statement.json.")] = None,
    out: Path | None = o.setting("Write the page to this .html or .txt file; must not exist.", o.OUTPUT),
    ledger: Path | None = o.setting(
        "Also check that it is, word for word, the one of this ledger's release.", o.PRIVACY
    ),
    head: Head = None,
    language: str = o.setting("Language of the plain-language .html page; en is included.", o.OUTPUT, default="en"),
    catalogue: Path | None = o.setting("Your own translation of those words; comes before --language.", o.OUTPUT),
    new_catalogue: Path | None = o.setting("Write the English words to this .toml file, to be translated.", o.OUTPUT),
) -> None:
    """Check a privacy statement's JSON and print it as a readable page."""
    from pate.release.statement.catalogue import new_catalogue as write_catalogue
    from pate.release.statement.files import check_against_ledger, read_statement, render_statement

    if new_catalogue is not None:
        write_catalogue(new_catalogue)
        answer(f"Wrote {new_catalogue}")
    if file is None:
        if new_catalogue is None:
            raise InvalidInputError("FILE must be the statement's JSON, such as labels.statement.json; none was given.")
        say_json({"catalogue": new_catalogue})
        return
    if head is not None and ledger is None:
        raise InvalidInputError(_HEAD_ALONE)
    held = read_statement(file)
    if ledger is not None:
        check_against_ledger(held, ledger, head=head)
    made = render_statement(held, out, language=language, catalogue=catalogue)
    say_json({"statement": held.to_dict(), "compared_with": ledger, "file": out, "catalogue": new_catalogue})
    answer(made.rstrip() if out is None else f"Wrote {out}")
