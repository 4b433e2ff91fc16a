"""A labelling job replayed on its own private table: same recipe, neighbouring records, nothing released."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pate.audit.report import Audit
from pate.core.secret import beside_ledger
from pate.data import read_both
from pate.exceptions import InvalidInputError
from pate.jobs import LabelJob

__all__ = ["audit_job"]

#: What of a job reads the two tables.
_READING = ("id", "only_common", "sep", "encoding", "decimal", "sheet", "dates")
#: What a replay must not touch, or cannot follow into another process.
_OWN = {"ledger": None, "checkpoint_dir": None, "new_ledger": False, "n_jobs": 1, "keep_model": False, "verbose": False}


def audit_job(
    arguments: Mapping[str, Any],
    *,
    n_pairs: int | None = None,
    published: bool = False,
    random_state: int | None = None,
) -> Audit:
    """Replay a job on pairs of neighbouring private tables with the same randomness, and compare inner states.

    Every pair trains the job's teachers (or casts its ballots) anew. The job runs as :class:`pate.jobs.LabelJob` runs,
    on copies of the table in a folder of this process's own that is gone afterwards, with a ledger there: nothing is
    charged to the real one, and nothing is released. **It reads the private table many times, and what it finds is
    private.**

    Parameters
    ----------
    arguments : mapping
        Of :class:`pate.jobs.LabelJob`; tables, not folders of images. Its ledger and checkpoints are left alone.
    n_pairs : int or None
        One of each kind of neighbour when not given.
    published : bool
        The private table is public or made up.
    random_state : int or None
        As in :func:`pate.audit.replay_search`.

    Raises
    ------
    InvalidInputError
        A folder of images, no target, or files that do not fit.

    Examples
    --------
    >>> from pate import Budget
    >>> folder = Path(tempfile.mkdtemp())
    >>> rows = pd.DataFrame({"age": np.arange(120) % 60, "ill": ["no", "yes"] * 60})
    >>> rows.to_csv(folder / "private.csv", index=False)
    >>> (rows[["age"]].iloc[::4] + 0.5).to_csv(folder / "public.csv", index=False)
    >>> job = {"private": folder / "private.csv", "public": folder / "public.csv", "target": "ill",
    ...        "classes": ["no", "yes"], "budget": Budget(1.0, 1e-4), "n_teachers": 10, "n_queries": 5, "anyway": True}
    >>> audit_job(job, n_pairs=2, published=True).refuted
    False
    """
    from pate.audit.replays import replay_search

    given = {**arguments}
    private, public, target = given.pop("private"), given.pop("public"), given.pop("target", None)
    if target is None or any(Path(str(p)).is_dir() for p in (private, public)):
        raise InvalidInputError("target must name a column of a private table: folders of images are not replayed.")
    group, classes = given.pop("group", None), given.get("classes")
    reading = {name: given.pop(name) for name in _READING if name in given}
    drop, text = given.pop("drop", ()), given.pop("text", ())
    tables = read_both(private, public, target=target, group=group, drop=drop, text=text, **reading)
    private_rows, public_rows = tables.private, tables.public
    names = list(public_rows.X.columns)
    # No column of the table's own may be written over.
    label, owner = (_free_name(word, names) for word in ("target", "group"))
    held = {**given, **_OWN, "overlap_is_public": True, "anyway": True, "target": label, "classes": classes,
            "text": [name for name, kind in public_rows.kinds.items() if kind == "text"]}  # fmt: skip

    with tempfile.TemporaryDirectory(prefix="pate-audit-") as name:
        folder = Path(name)
        _write(public_rows.X, folder / "public.csv")

        def job(X: Any, y: Any, groups: Any = None) -> Any:
            place = Path(tempfile.mkdtemp(dir=folder))
            rows = pd.DataFrame(X, columns=names).assign(**{label: np.asarray(y)})
            if groups is not None:
                rows = rows.assign(**{owner: np.asarray(groups)})
            _write(rows, place / "private.csv")
            own = {**held, "ledger": place / "ledger.sqlite"}
            run = LabelJob(place / "private.csv", folder / "public.csv", **own,
                           group=None if groups is None else owner)  # fmt: skip
            try:
                return run.run()
            finally:
                beside_ledger(place / "ledger.sqlite").unlink(missing_ok=True)
                os.unlink(place / "private.csv")

        found = replay_search(job, private_rows.X, private_rows.y, groups=private_rows.groups, classes=classes,
                              n_pairs=n_pairs, published=published, random_state=random_state)  # fmt: skip
    asked = "a pair of each kind" if n_pairs is None else f"up to {n_pairs} pairs"
    words = f"{asked} of neighbouring tables, inner states compared"
    # How many pairs there were, and which, follows from the private table: no word of it may be cited.
    told = replace(found, target="the job", tried=f"the job replayed on {words}")
    left = ("law, pair, game: audit what the job released (its statement), or the votes.",)
    said = "The job's recipe on its private table."
    return Audit(title="Audit of a job", description=said, results=(told,), left_out=left)


def _free_name(word: str, taken: list[Any]) -> str:
    while word in map(str, taken):
        word += "_"
    return word


def _write(rows: pd.DataFrame, path: Path) -> None:
    rows.to_csv(path, index=False)
    path.chmod(0o600)
