"""Read a private and a public table together, with the same features; report what each column becomes."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pate._core.checks import canonical, check_choice
from pate._core.curator import CuratorMessage, joined_texts
from pate._core.progress import track
from pate.data._columns import DATE_ORDERS, column_kind, holds_numbers, numbers_in
from pate.data._files._csv import Wanted
from pate.data._files._opened import Opened, check_heeded, heeded_by, open_table
from pate.data._files.tables import (
    CAMEL,
    ColumnUse,
    Roles,
    Sides,
    Table,
    check_features,
    check_names,
    check_there,
    take_columns,
    uses_of,
    without_empty,
)
from pate.data._validation import is_frame, other_names, quoted
from pate.exceptions import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd


# Columns of a private table whose values repeat, as ids of people do: a hint to the curator.

#: Names that columns of people's ids usually have.
_PEOPLE = re.compile(
    r"patient|person|people|subject|user|customer|client|member|employee|participant|household|student|pupil|account"
    r"|owner|visitor|respondent|proband|donor|insured|(^|_)(who|mrn|ssn|nhs|pid|uid|id|ids)($|_)|_?id$",
    re.IGNORECASE,
)
#: Fewer values are no people, and people with more records each are rare.
_FEWEST, _MOST_EACH = 10, 100


def about_owners(
    held: Any, *, without: Collection[str | None] = (), how: str = "group={0!r} (--group {1})"
) -> list[CuratorMessage]:
    """Return columns of a private table, opened or read whole, that seem to hold owners, where none was named.

    ``how`` says how one is named.

    **Guarantees.** What comes back is private, and nothing else comes of it. No cell can stop it.
    """
    known = list(held.columns) if is_frame(held) else held.names
    names = [n for n in known if n not in without and _PEOPLE.search(CAMEL.sub("_", str(n)))]
    if not names:
        return []
    import pandas as pd

    try:
        if is_frame(held):
            frame = held[names]
        else:
            frame = held.frame(names, {}) if held.blocks is None else pd.concat(held.blocks(names))
        columns = [frame[name].dropna().astype(str).to_numpy() for name in names]
    except Exception:  # an odd cell of one record may not stop a release, nor be quoted
        return []
    found = []
    for name, cells in zip(names, columns, strict=True):
        n_values = len(np.unique(cells))
        if _FEWEST <= n_values < len(cells) <= _MOST_EACH * n_values:
            said = how.format(name, shlex.quote(str(name)))
            found.append(
                CuratorMessage(
                    f"the column {name!r} has {n_values:,} values in {len(cells):,} records, as ids of people do. If "
                    f"one person may have several records, protect people, not records: {said}."
                )
            )
    return found


def about_records(X: Any, groups: Any) -> list[CuratorMessage]:
    """Return the same of rows in memory, a DataFrame without ``groups``; and which texts have several spellings."""
    found = about_owners(X, how="groups=X[{0!r}]") if groups is None and is_frame(X) else []
    columns = {} if not is_frame(X) else {f"the column {n!r}": X.iloc[:, j] for j, n in enumerate(X.columns)}
    for name, column in (columns | {"groups": groups}).items():
        if not holds_numbers(getattr(column, "dtype", np.dtype(object))):
            found += [CuratorMessage(f"{told}.") for told in joined_texts(name, column)]
    return found


@dataclass(frozen=True, eq=False, repr=False)
class TablePair:
    """A private and a public table with the same features; :func:`read_both` returns it.

    Attributes
    ----------
    private : Table
        **Sensitive.**
    public : Table
        Its features are those of ``private``, in the same order. ``y`` where that file has the target too: labels as
        they are written, None where there is none; nothing is learnt from them.
    columns : tuple of ColumnUse
        What became of every column of either file.
    told : tuple of CuratorMessage
        Messages to the curator about private columns that may be ids of people. **Sensitive.**

    Examples
    --------
    >>> TablePair.__dataclass_params__.frozen
    True
    """

    private: Table
    public: Table
    columns: tuple[ColumnUse, ...]
    told: tuple[CuratorMessage, ...] = ()

    def __repr__(self) -> str:
        return f"TablePair({self.private!r}, {self.public!r})"


def read_both(
    private: str | os.PathLike[str],
    public: str | os.PathLike[str],
    *,
    target: str | None = None,
    group: str | None = None,
    tiers: str | None = None,
    id: str | None = None,
    drop: Iterable[str] = (),
    text: Iterable[str] = (),
    only_common: bool = False,
    sep: str | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    sheet: str | None = None,
    dates: str = "auto",
    verbose: bool = False,
) -> TablePair:
    r"""Read a private and a public table together, so that both have the same features.

    Parameters
    ----------
    private, public : path
        As for :func:`read_table`; of any two kinds.
    target : str or None
        Column of the private file with the labels. The public file may have it: there it is left out.
    group : str or None
        Column of the owners in the private file; likewise.
    tiers : str or None
        Column of the tiers in the private file, as texts; likewise. Returned as ``private.tiers``.
    id : str or None
        Column of either file, or of both: no feature. That of the public file is returned as ``public.ids``.
    drop, text : iterable of str
        Columns of either file.
    only_common : bool
        Leave out columns that are in one file only. Otherwise such are refused.
    sep, encoding, sheet : str or None
        For the private file; also for the public one if they cannot be recognised there. See :func:`read_table`.
    decimal : {".", ","} or None
        For the private file, and for those columns of the public one that hold decimal commas.
    thousands : str or None
        For both, see :func:`read_table`.
    dates
        See :func:`read_table`.
    verbose : bool
        Show progress.

    Returns
    -------
    TablePair

    Raises
    ------
    InvalidInputError
        As :func:`read_table` and :func:`align_columns`; also: a column is in one file only, or all are empty in the
        public file.

    Warns
    -----
    PateWarning
        A column of the public file is entirely empty: it is left out of both.

    Notes
    -----
    **Guarantees.** Those of ``read_table(private, like=public)``: what a column becomes is decided by public cells, by
    names and by what was said.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "private.csv").write_text(
    ...     "age;ward;town;ill\n50,5;3;Oslo;no\n51;?;Rome;yes\n"
    ... )
    >>> _ = (folder / "public.csv").write_text("visit,town,age\nv1,Oslo,40.5\nv2,Bonn,\n")
    >>> read_both(folder / "private.csv", folder / "public.csv", target="ill", id="visit")
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: the public file's columns differ from the private file's: it lacks 'ward'. ...
    >>> pair = read_both(
    ...     folder / "private.csv",
    ...     folder / "public.csv",
    ...     target="ill",
    ...     id="visit",
    ...     only_common=True,
    ...     decimal=",",
    ... )
    >>> (
    ...     pair.private.X.values.tolist(),
    ...     pair.public.X.values.tolist(),
    ...     pair.public.ids.tolist(),
    ... )
    ([[50.5, 'Oslo'], [51.0, 'Rome']], [[40.5, 'Oslo'], [nan, 'Bonn']], ['v1', 'v2'])
    >>> print(*pair.columns, sep="\n")
    age: number
    ward: left out, as it stands in the private file only
    town: 2 categories
    ill: the classes
    visit: id, kept beside the labels
    """
    check_choice("dates", dates, DATE_ORDERS)
    roles = Roles.said(target, group, id, drop, text, tiers)
    target, group, id, tiers = roles.target, roles.group, roles.id, roles.tiers
    wanted = Wanted(sep=sep, encoding=encoding, decimal=decimal, thousands=thousands, sheet=sheet)
    check_heeded(wanted, private, public)
    files = track((public, private), total=2, label="tables read", show=verbose)
    shown = open_table(next(files), _heeded(wanted, public, recognise=True))
    named = [name for name in (target, group, tiers) if name is not None]
    others = [] if only_common else [n for n in shown.names if n not in (*roles.drop, id, *named)]
    held = open_table(next(files), _heeded(wanted, private), like=shown.format, names=[*named, *others])
    roles = roles.of_matrix(held.names) if held.matrix else roles
    sides = _features(held, shown, roles, only_common=only_common)
    public_table = without_empty(
        take_columns(
            shown,
            [name for name in shown.names if name in sides.common],
            replace(roles.within(shown.names), group=None, tiers=None),
            dates=dates,
            unlabelled=True,
        )
    )
    used = frozenset(public_table.X.columns)
    sides = replace(sides, common=used, empty=tuple(sides.common - used))
    private_table = take_columns(
        held,
        [name for name in held.names if name in sides.common],
        roles.within(held.names, text=_codes(public_table)),
        kinds=public_table.kinds,
    )
    next(files, None)
    X = align_columns(private_table.X, public_table.X)
    return TablePair(
        private_table,
        replace(public_table, X=X),
        uses_of(held, shown, roles, sides, public_table),
        tuple(about_owners(held, without=[roles.target, roles.tiers])) if roles.group is None else (),
    )


def label_cells(
    private: str | os.PathLike[str], names: tuple[str, ...], *, like: str | os.PathLike[str], **written: Any
) -> pd.DataFrame:
    """Return the cells of these columns of a private table, as they are written: **sensitive**.

    ``like`` is the public table, ``written`` how tables are written, both as of :func:`read_both`.
    """
    import pandas as pd

    wanted = Wanted(**written)
    shown = open_table(like, _heeded(wanted, like, recognise=True))
    held = open_table(private, _heeded(wanted, private), like=shown.format, names=list(names))
    check_there("target", names, held.names, f"not in {held.name}, which has")
    frame = held.frame(list(names), {}) if held.blocks is None else pd.concat(held.blocks(list(names)))
    return frame[list(names)]


def align_columns(X_private: pd.DataFrame, X_public: pd.DataFrame, *, drop: Iterable[str] = ()) -> pd.DataFrame:
    """Return the public features in the order of the private ones; raise if the columns do not match.

    Parameters
    ----------
    X_private, X_public : DataFrame
        Features of two files.
    drop : iterable of str
        Columns of the public file to leave out when they are there, such as the target.

    Raises
    ------
    InvalidInputError
        The public file misses columns, has others or has an entirely empty one; or no cell at all of a private column
        is of the kind (number or text) that the public one has.

    Notes
    -----
    **Guarantees.** Names of columns and public cells are public, private cells are not. Whether a column is of numbers
    or of text is decided by the public rows. A private table that was read with ``read_table(..., like=X_public)`` has
    those kinds whatever its cells are, so that none of them, nor all together, can bring a refusal about. Of a table
    that was read otherwise a column without a single fitting cell is refused as another column, before anything is
    released; there a neighbouring table may be one that is taken, which ``like`` rules out.

    Examples
    --------
    >>> import pandas as pd
    >>> private = pd.DataFrame({"a": [1.0], "b": ["x"]})
    >>> align_columns(private, pd.DataFrame({"b": ["y"], "a": [2.0]})).columns.tolist()
    ['a', 'b']
    >>> align_columns(private, pd.DataFrame({"a": [2.0], "c": [1]}))
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: the public file's columns differ from the private file's: it lacks 'b'; ...
    """
    wanted = [str(c) for c in X_private.columns]
    spelt = {canonical(name): name for name in wanted}
    public = X_public.rename(columns=lambda c: spelt.get(canonical(str(c)), c))
    public = public.drop(columns=[c for c in drop if c in public.columns])
    missing = [c for c in wanted if c not in public.columns]
    extra = [str(c) for c in public.columns if c not in wanted]
    _check_same(tuple(missing), tuple(extra))
    public = public[wanted].copy()
    empty = [c for c in wanted if public[c].isna().all()]
    if empty:
        raise InvalidInputError(
            f"the public file's column {quoted(empty)} is entirely empty: nothing public says whether it holds numbers "
            "or text, and the private file must not decide. Fill in some cells, or drop the column from both files."
        )
    odd = []
    for name in wanted:
        private_kind, public_kind = column_kind(name, X_private[name]), column_kind(name, public[name])
        if private_kind != public_kind and not (
            public_kind == "numeric" and numbers_in(X_private[name])[0].notna().any()
        ):
            blank = "empty, and so " if X_private[name].isna().all() else ""
            odd.append(f"{name!r} is {blank}{private_kind} in the private file and {public_kind} in the public one")
    if odd:
        raise InvalidInputError(
            f"columns of different kinds: {'; '.join(odd)}. Clean the cells that are not numbers, name the column as "
            "text if it holds codes (text=, --text), or drop it."
        )
    return public


def _heeded(wanted: Wanted, path: str | os.PathLike[str], *, recognise: bool = False) -> Wanted:
    """Return the format options that apply to this file."""
    unheeded: dict[str, Any] = dict.fromkeys(name for name in wanted.said() if name not in heeded_by(path))
    return replace(wanted, recognise=recognise, **unheeded)


def _features(held: Opened, shown: Opened, roles: Roles, *, only_common: bool) -> Sides:
    """Check that every name is where it must be, and return the features."""
    check_names(held)
    check_names(shown)
    for role, names in (roles.named() | {"text": roles.text}).items():
        if role in ("target", "group", "tiers"):
            parted = role == "target" and len(held.names) == 1 and held.spelt  # something else may part its cells
            otherwise = ", or say what separates its cells: sep= (--sep)" if parted else ""
            check_there(role, names, held.names, f"not in {held.name}, which has", otherwise=otherwise)
        else:
            both = f"in neither {held.name} nor {shown.name}, which have"
            check_there(role, names, [*held.names, *shown.names], both)
    mine, theirs = roles.features(held.names), roles.features(shown.names)
    private_only, public_only = tuple(n for n in mine if n not in theirs), tuple(n for n in theirs if n not in mine)
    common = [n for n in mine if n in theirs]
    if not only_common:
        check_features(held, mine)
        check_features(shown, theirs)
        _check_same(private_only, public_only)
    check_features(held, common)
    if not common:
        raise InvalidInputError(
            f"{held.name} and {shown.name} have no feature in common, of {quoted(mine) or 'none'} and "
            f"{quoted(theirs) or 'none'}. A table needs one at least: name the same things alike."
        )
    return Sides(frozenset(common), private_only, public_only)


def _check_same(private_only: tuple[str, ...], public_only: tuple[str, ...]) -> None:
    if private_only or public_only:
        raise InvalidInputError(
            f"the public file's columns differ from the private file's: {other_names(private_only, public_only)}. Both "
            "need the same features: rename, or leave out what only one of them has, by only_common=True "
            "(--only-common), by drop= (--drop) or, of an id, by id= (--id). A column that says whose row it is: "
            "group= (--group)."
        )


def _codes(public: Table) -> list[str]:
    """Return the public columns of texts that all spell numbers: those of the private file may well do so too."""
    texts = [name for name, kind in public.kinds.items() if kind == "text"]
    return [name for name in texts if numbers_in(public.X[name])[1] == 0]
