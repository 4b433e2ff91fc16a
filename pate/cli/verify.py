"""``pate verify``: whether files are the ones that were released."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pate.cli import _options as o
from pate.cli.ledger import Head, say_verified


def verify(
    files: Annotated[
        list[Path],
        typer.Argument(help="Labels, statement, page, model: under any name they have now.", show_default=False),
    ],
    ledger: Annotated[Path, o.option("Ledger that charged the release, with its key file beside it.", o.PRIVACY)],
    head: Head = None,
) -> None:
    """Say of each file whether it is as released, changed or unknown; ends with 0 if all are as released.

    1: a file was changed, or the ledger. 3: nothing was changed, but the ledger does not know a file. Without the key
    file only what a head noted earlier (--head) covers is proved.
    """
    say_verified(ledger, files, head)
