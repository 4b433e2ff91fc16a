"""A site's own records: they answer every round with an exact sum, which leaves the site only with noise in it."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from threadpoolctl import threadpool_limits

from pate._core.checks import canonical, check_classes
from pate._core.frames import plain_column, plain_rows
from pate.data import (
    ImageFolder,
    by_name,
    file_of,
    flat_rows,
    is_frame,
    is_sparse,
    is_table,
    read_images,
    read_rows,
    read_table,
)
from pate.exceptions import CuratorWarning, FederationError, InvalidInputError, PateError
from pate.federation._archive import Question
from pate.jobs import as_classes, columns_like, in_planes, table_like
from pate.ledger import Registration
from pate.mechanisms import SharedGaussian, SharedGNMax
from pate.models.file import InputSpec
from pate.models.recipes import cast_round, counted_right, held_where_it_fits
from pate.records import BallotSum, HeldRecords, RecordVoters, RightCounts, RightFacts, is_own, rows_of
from pate.records.ballot_sum import UnitOwners
from pate.teachers import Owners, class_indices, label_column, units_of


def largest_total(mechanism: SharedGaussian | SharedGNMax, delta_squared: int, n_units: int) -> int:
    """Return what sums over so many units, with all noise, are never beyond; no unit adds more than its share moves."""
    return mechanism.bound(delta_squared, n_units * (math.isqrt(delta_squared) + 1))


class SiteRecords:
    """The private records of one institution of a federation: they vote when asked, and never leave it.

    Parameters
    ----------
    X : array, table, images or texts of n records
        With the columns of the coordinator's public rows, by name where those have names.
    y : array-like of shape (n,)
        Class values.
    classes : iterable
        Every class that could occur: public, and the same at all sites.
    groups : array-like of shape (n,) or None
        The person of each record: all of a person's records at this site are clipped together, and the unit is the
        person.
    n_jobs : int or None
        Processes that map records.
    verbose : bool
        Show progress, here.

    Examples
    --------
    >>> SiteRecords(np.zeros((3, 2)), ["no", "yes", "no"], classes=("no", "yes")).n_units
    3
    """

    def __init__(
        self, X: Any, y: Any, *, classes: Any, groups: Any = None, n_jobs: int | None = None, verbose: bool = False
    ) -> None:
        self.classes = check_classes(classes)
        self.n_jobs, self.verbose, self._others_too = n_jobs, verbose, False
        columns = [str(name) for name in X.columns] if is_frame(X) else None
        y, groups = plain_column(y), plain_column(groups, name="groups")
        shape = np.shape(X) if is_frame(X) or is_sparse(X) or isinstance(X, np.ndarray) else None
        if shape is not None and shape[0] != len(y):
            raise InvalidInputError("X and y must have as many rows.")
        self._set(lambda door: _rows_like(door, X), lambda door: _is_like(door, shape), y, groups, columns)

    @classmethod
    def of_file(
        cls,
        private: str | os.PathLike[str],
        *,
        classes: Any,
        target: str | None = None,
        group: str | None = None,
        size: tuple[int, int] | None = None,
        color: str | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        **written: Any,
    ) -> Self:
        """Return the records of a table, or of a folder of images with one sub-folder for each class.

        What its columns hold is decided by the coordinator's public rows, once those are known; until then labels and
        persons alone are read.

        Parameters
        ----------
        private : path
        classes : iterable
            As above; a label is the class that it equals, or that is written alike.
        target, group : str or None
            Columns of the labels and of persons; of images ``group="prefix"``.
        size, color
            For images, as in :func:`pate.data.read_images`.
        n_jobs, verbose
            As above.
        **written
            How the table is written, as :func:`pate.read_table` takes it: ``sep``, ``drop`` and others.

        Raises
        ------
        InvalidInputError
            There is no such file, or it has no such columns.
        """
        made = cls.__new__(cls)
        made.classes, made.n_jobs, made.verbose, made._others_too = check_classes(classes), n_jobs, verbose, True
        if is_table(private):
            if target is None:
                raise InvalidInputError("target must name the column of classes of a table, got None.")
            found = _of_table(private, {"target": target, "group": group, **written})
        elif size is None or color is None or target is not None or written:
            raise InvalidInputError(
                "a folder of private images takes size and color, those of the public ones, and nothing of tables: no "
                "target, no drop. Name both, and leave the others out."
            )
        else:
            found = _of_images(private, group, size, color, verbose)
        rows, suits, y, groups, columns = found
        made._set(rows, suits, as_classes(y, made.classes), groups, columns)
        return made

    def _set(
        self, rows: Callable[[InputSpec], Any], suits: Callable[[InputSpec], bool], y: Any, groups: Any,
        columns: list[str] | None,
    ) -> None:  # fmt: skip
        #: Names of the columns, where they have some; a file may have others than are asked for (``_others_too``).
        self._columns = columns
        self._of, self._suits, self._y, self._groups = rows, suits, y, groups
        #: Number of persons, or of records, at this site: public.
        self.n_units, self.unit = units_of(groups, len(y))
        self._rows: tuple[InputSpec, Any] | None = None
        self._voters: dict[str, RecordVoters] = {}
        self._held: dict[str, HeldRecords | None] = {}
        self._told = False

    def __repr__(self) -> str:
        return f"SiteRecords(n_units={self.n_units}, unit={self.unit!r}, records=<sensitive>)"

    def amiss(self, columns: Sequence[str]) -> str:
        """Return what is wrong with these records' columns, for rows with those; empty where they fit.

        For the operator of this site alone: it names columns of the private table.
        """
        if self._columns is None or not columns:
            return ""
        mine, columns = canonical((tuple(self._columns), tuple(columns)))
        lacking = [name for name in columns if name not in mine]
        more = [] if self._others_too else [name for name in mine if name not in columns]
        found = [f"lacks {lacking}"] * bool(lacking) + [f"has {more} besides"] * bool(more)
        return f"the table here {' and '.join(found)}. The public rows have {list(columns)}" if found else ""

    def registration(self) -> Registration:
        """Return these records as a ledger registers them; the fingerprint in it is **sensitive**."""
        mark = self._owners().fingerprint()
        return Registration(self.unit, self.classes, n_units=self.n_units, fingerprint=mark, adjacency="replace-one")

    def _owners(self) -> UnitOwners:
        labels = class_indices(label_column(self._y, len(self._y)), self.classes)
        by_row = Owners.of(self._groups, len(labels))
        return UnitOwners.of(labels, by_row.groups, by_row.ids)

    def asked(self, plan: Any, kind: str, archive: bytes) -> Question:
        """Return what a round asks, once it is found to be what was agreed to: no private row is looked at.

        Parameters
        ----------
        plan : Plan
            What this site agreed to: ``unit``, ``classes``, and ``representation``, the fingerprint of the public maps.
        kind : {"ballots", "right"}
            What the round is said to be.
        archive : bytes
            What is asked (:class:`pate.federation._archive.Question`).

        Raises
        ------
        FederationError
            Another kind, unit, map or other classes than were agreed to, or rows of another form than these.
        InvalidInputError
            The archive is damaged, or holds what is not pate's own.
        """
        if plan.representation not in self._voters:  # another plan than the one before
            self._voters.clear()
            self._held.clear()
        asked = Question.from_bytes(archive, self._voters)
        self._check(asked, kind, plan)
        self._voters.setdefault(asked.space, asked.voters)
        return asked

    def cast(self, asked: Question, say: Callable[[str], object] = str) -> BallotSum | RightCounts:
        """Return the exact sum of what these records say; zero ballots where that fails, of which ``say`` is told.

        Whatever the records hold, nothing is raised: that a sum fails must be seen by the site's operator alone. It is
        **sensitive**: only :meth:`pate.release.ShareSession.share` may have it.
        """
        voters, facts = self._voters[asked.space], asked.facts(self.n_units)
        voters.n_jobs, voters.verbose = self.n_jobs, self.verbose
        voters.forgive()
        why = "their facts are others"
        try:
            X = self._features(asked.door)
            with warnings.catch_warnings():
                # The first round warns; where warnings are errors too, what is in the records refuses no round.
                warnings.simplefilter("ignore" if self._told else "always", CuratorWarning)
                found = self._answered(asked, voters, X, self._y)
            self._told = True
            if found.facts == facts:
                return found
        except Exception as error:
            why = str(error) if isinstance(error, PateError) else type(error).__name__
        say(f"no ballots could be cast, and zeros were added in their place: {why}")
        owners = self._owners()
        if isinstance(facts, RightFacts):
            return RightCounts(np.zeros((facts.n_cells, 1), dtype=np.int64), facts, owners)
        return BallotSum(np.zeros((facts.n_components, facts.n_classes), dtype=np.int64), facts, owners)

    def sums(self, plan: Any, kind: str, archive: bytes) -> BallotSum | RightCounts:
        """Return the sum that :meth:`cast` makes of what is :meth:`asked`."""
        return self.cast(self.asked(plan, kind, archive))

    def _check(self, asked: Question, kind: str, plan: Any) -> None:
        said = [(asked.kind, asked.unit, asked.voters.classes), (kind, plan.unit, plan.classes)]
        mine = (kind, self.unit, self.classes)
        if any(repr(one) != repr(mine) for one in said):  # 1 is not True, nor "1"
            raise FederationError(
                f"this site has records of the unit {self.unit!r} and {len(self.classes)} classes, for a round of "
                f"{kind!r}: asked were {asked.kind!r}, {asked.unit!r}, or other classes. Nothing was cast."
            )
        # After the first rounds there may be a second map: the features of a student that learnt from released sums.
        seen, later = asked.voters.representation, plan.representation in self._voters
        of_student = later and seen is not None and is_own(seen, ".models.students")
        if asked.space != plan.representation and not of_student:
            raise FederationError("this site agreed to other public maps than it was asked by. Nothing was cast.")
        others = "" if self._suits(asked.door) else "they are of another form"
        if objection := self.amiss(asked.door.names) or others:
            raise InvalidInputError(  # for the site's operator alone
                f"this site's rows are not {asked.door}, for which it was asked: {objection}. Nothing was cast."
            )

    def _features(self, door: InputSpec) -> Any:
        if self._rows is None or self._rows[0] != door:
            rows = self._of(door)
            if len(self._y) != int(rows.shape[0]):
                raise InvalidInputError("X and y must have as many rows, and a file those that it had at first.")
            self._rows = (door, rows)
            self._held.clear()
        return self._rows[1]

    def _answered(self, asked: Question, voters: RecordVoters, X: Any, y: Any) -> BallotSum | RightCounts:
        model, groups, space = asked.model, self._groups, asked.space
        if asked.kind == "right":
            assert model is not None
            held = self._held.get(space)
            known = held if model.takes_held(held, voters) else X
            about = {"groups": groups, "tiers": None, "text": asked.text, "by_class": [asked.by_class]}
            return counted_right(model, known, y, **about)[0]
        head = None if model is None else model.head
        takes_phi = getattr(head, "takes", "phi") == "phi"
        if takes_phi and space not in self._held:  # every round casts the same directions
            self._held[space] = held_where_it_fits(voters, X, y, groups)
        held = self._held[space] if takes_phi else None
        if held is None:
            return cast_round(voters, (X, y, groups, None), head, asked.clip)
        with threadpool_limits(1):  # thin products: threads would only wait for each other
            return cast_round(voters, (held, None, None, None), head, asked.clip)


def _rows_like(door: InputSpec, X: Any) -> Any:
    """Return rows for public maps, each read by itself: the public ones alone say what a row is."""
    X = by_name(plain_rows(X), door.names if door.kind == "table" else None, other="the public rows")
    whole = isinstance(X, np.ndarray) and X.dtype.kind not in "OSU"  # its type and shape say what it is
    width = None if door.kind == "texts" else door.n_features
    rows = flat_rows(read_rows(X) if whole else rows_of(X, width=width)[0])
    if (rows.ndim == 1) != (door.kind == "texts") or (width is not None and int(rows.shape[1]) != width):
        raise InvalidInputError(f"X must be rows as the public ones: {door}. Bring them to the same columns.")
    return rows


def _is_like(door: InputSpec, shape: tuple[int, ...] | None) -> bool:
    """Whether rows of this shape, None where that is not public, are of the form of the public ones."""
    return shape is None or door.kind == "texts" or (len(shape) > 1 and math.prod(shape[1:]) == door.n_features)


#: What reads the rows when the public ones are known; whether it can; labels; persons; names of columns.
_Read = tuple[Callable[[InputSpec], Any], Callable[[InputSpec], bool], Any, Any, list[str] | None]


def _of_table(path: str | os.PathLike[str], how: dict[str, Any]) -> _Read:
    table = read_table(path, like=table_like(None), **how)
    columns = tuple((str(name), "numeric") for name in table.X.columns)

    names = [name for name, _ in columns]

    def suits(door: InputSpec) -> bool:
        if door.kind == "texts":
            return len([name for name in names if name in canonical(tuple(door.names))] or names) == 1
        return door.kind == "table" or (door.kind == "array" and not door.mixed and door.n_features == len(names))

    def rows(door: InputSpec) -> Any:
        like = door
        if door.kind == "array":
            like = InputSpec(
                kind="table", n_features=len(columns), columns=columns, decimal=door.decimal, thousands=door.thousands
            )
        found, _ = columns_like(door, read_table(path, like=table_like(like), **how).X, file_of(path).name)
        return found if door.kind == "texts" else _rows_like(door, found)

    return rows, suits, table.y, table.groups, names


def _of_images(path: Any, group: str | None, size: tuple[int, int], color: str, verbose: bool) -> _Read:
    width, height = size
    pixels = np.zeros((0, height, width, *((3,) if color == "rgb" else ())), dtype=np.uint8)
    like = ImageFolder(pixels, (), None, None, file_of(path))
    images = read_images(path, labelled=True, group=group, like=like, verbose=verbose)

    def suits(door: InputSpec) -> bool:
        return (door.kind, door.size, door.color) == ("images", (width, height), color)

    def rows(door: InputSpec) -> Any:
        return in_planes(images.rows(), door.image_shape)

    return rows, suits, images.y, images.groups, None
