"""What every estimator with public rows checks of the rows that it is given, remembers of them, and states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags

from pate._core.checks import check_int, quietly, shown
from pate._core.curator import CuratorMessage, warn, warn_curator
from pate._core.frames import plain_column, plain_rows
from pate._core.progress import timed
from pate._core.recorder import playing
from pate.data import (
    about_records,
    about_shift,
    by_name,
    check_public_rows,
    check_same_shape,
    flat_rows,
    image_shape,
    read_numbers,
    read_rows,
)
from pate.estimators._queries import OF_ESTIMATORS, in_own_words
from pate.exceptions import InvalidInputError, PrivacyLeakWarning
from pate.ledger import Registration
from pate.models.file import InputSpec
from pate.privacy.budget import check_budget
from pate.privacy.cost import Charge
from pate.privacy.tiers import TierBudgets
from pate.privacy.words import Guarantee
from pate.records import Tiers, rows_of
from pate.release import Evidence, ReleaseTerms, check_ballots_stated, warn_if_weak, warn_of_doubts
from pate.release.statement import CountedFits, naming_fits_before
from pate.release.statement.fields import check_stated
from pate.release.statement.files import bind_statement
from pate.teachers import (
    ShardEnsemble,
    TableTeachers,
    TeacherEnsemble,
    check_rows,
    check_same_kind,
    column_kinds,
    holds_objects,
    is_frame,
    is_texts,
    remember_columns,
    units_of,
)

#: Entries of ``stated`` that are no assumption's: what was tuned, and whether public rows may stand among private ones.
TUNING, OVERLAP = "tuning", "overlap is public"
#: With fewer public rows no map can be fitted.
FEWEST_PUBLIC = 20


def tiers_of(
    budgets: TierBudgets | None, tiers: Any, voters: str, X_public: Any, *, X: Any = None, column: str | None = None
) -> Tiers | None:
    """Return the tiers of records, None without; refuse them where not every unit's contribution can be weighed.

    ``column``, of the private table, is where they come from; None: that of their name in ``X``, if there is one.

    Warns
    -----
    PrivacyLeakWarning
        Tiers are such a column.
    """
    if (budgets is None) != (tiers is None) and voters == "records":
        raise InvalidInputError(
            "tiers must name the tier of every record where budget has one pate.Budget for each tier, and there alone, "
            f"got {'budgets of tiers' if tiers is None else 'one budget for all'} and {shown(tiers)}. Say "
            "budget={'gold': Budget(3.0, 1e-5), 'basic': Budget(1.0, 1e-5)} and tiers=['gold', ...]."
        )
    if budgets is None and tiers is None:
        return None
    if X_public is None or voters != "records":
        raise InvalidInputError(
            f"tiers must be left out where voters={voters!r}{' without public rows' * (X_public is None)}: budgets per "
            "tier are for records that vote on public rows. Give public rows and say voters='records' (--voters "
            "records), or take the smallest budget for all; for teachers fit one ensemble on each tier's records, and "
            "pate.release_labels takes the votes of all (docs/tiers.md)."
        )
    name = getattr(tiers, "name", None)
    column = name if column is None and name in list(getattr(X, "columns", ())) else column
    if column is not None:
        warn(
            f"the column {column!r} of the private records names the tier of each. Which tier somebody is in, and how "
            "many are, is not protected: it must be public (a contract, a form of consent), known without the private "
            "records, and stay as it is.",
            PrivacyLeakWarning,
        )
    assert budgets is not None
    return Tiers.of(budgets, tiers)


def own_stated(stated: Any) -> tuple[str, str, Any]:
    """Return what ``stated`` says of tuning and of the overlap, empty where nothing, and the rest of it.

    Raises
    ------
    InvalidInputError
        One of both says nothing, or of the overlap something else than ``"yes"``.

    Examples
    --------
    >>> own_stated({"tuning": "nothing was tuned", "purpose": "research"})
    ('nothing was tuned', '', {'purpose': 'research'})
    """
    if not isinstance(stated, Mapping):  # what checks the rest reports it
        return "", "", stated
    own = check_stated({name: stated[name] for name in (TUNING, OVERLAP) if name in stated}, (TUNING, OVERLAP))
    overlap = own.get(OVERLAP, "")
    if overlap not in ("", "yes"):
        raise InvalidInputError(
            f"stated[{OVERLAP!r}] must be 'yes', got {shown(overlap)}. Leave it out, and the public rows are compared "
            "with the private records. How you know that they are public, say in stated['public rows']."
        )
    return own.get(TUNING, ""), overlap, {name: text for name, text in stated.items() if name not in own} or None


def check_has_target(y: Any) -> None:
    """Refuse to learn from nothing."""
    if y is None:
        raise InvalidInputError("requires y to be passed, but the target y is None. Pass the private classes.")


def check_several(rows: Any) -> None:
    """Refuse one record."""
    if rows.shape[0] < 2:
        raise InvalidInputError("X has 1 sample, and there is nothing to learn from one record. Pass them all.")


def any_rows(classes: Any) -> TeacherEnsemble:
    """Return a reader of rows of any kind: representations look at each cell themselves."""
    return TeacherEnsemble(make_pipeline(FunctionTransformer(), LogisticRegression()), 2, classes=classes)


def teachers_rows(X: Any, name: str, teachers: ShardEnsemble) -> Any:
    if isinstance(teachers, TableTeachers):
        return check_rows(X, estimator=teachers._reader, name=name)
    rows = read_numbers(X, name=name)
    return X if is_frame(X) else rows


def public_rows(X_public: Any, *, image_shape: Any = None) -> tuple[Any, InputSpec]:
    """Return public rows as public maps take them, and what a row is, for whoever has the private ones.

    Examples
    --------
    >>> print(public_rows(np.zeros((3, 2)))[1])
    rows of 2 numbers
    """
    reader = PublicRows()
    reader.image_shape = image_shape
    return reader._check_public(X_public, any_rows(None), reset=True), reader._rows_taken()


def tags_of_maps(tags: Any, representation: Any) -> Any:
    """Say in an estimator's tags which rows public maps take: they look at each cell themselves."""
    for name in ("allow_nan", "categorical", "sparse", "string"):
        setattr(tags.input_tags, name, True)
    if representation is not None:
        with suppress(Exception):  # fit refuses what is no representation
            tags.input_tags.sparse = get_tags(representation).input_tags.sparse
    return tags


class PublicRows(CountedFits, BaseEstimator):
    """What an estimator with public rows checks of rows, remembers of columns, and says in its statement; a mixin."""

    # What is said when an estimator is made.
    noise_seed: int | None
    stated: Mapping[str, str] | None
    image_shape: Any
    ledger: Any
    n_features_in_: int
    #: Shape of one public row where rows are images: public.
    _row_shape: tuple[int, ...] | None = None

    def _check_public(self, X_public: Any, teachers: ShardEnsemble, *, reset: bool = False) -> Any:
        return quietly("X_public", self._read_public, X_public, teachers, reset=reset)

    def _read_public(self, X_public: Any, teachers: ShardEnsemble, *, reset: bool) -> Any:
        X_public = plain_rows(X_public, name="X_public")
        shape = image_shape(X_public, name="X_public")
        if reset:
            self._row_shape = shape
        check_same_shape(shape, self._row_shape, name="X_public")
        if not reset:
            names = self._names()
            if names is not None and not is_frame(X_public):
                raise InvalidInputError(
                    "X_public must be a DataFrame, as the private rows are: columns are identified by name. Pass one "
                    "with their columns."
                )
            X_public = by_name(X_public, names, name="X_public", other="the private rows")
        rows = teachers_rows(X_public, "X_public", teachers)
        self._check_names(rows, reset=reset, kinds=False)
        # Public ones say what rows are to be like: any private cell might be a text.
        self._objects, self._kinds = holds_objects(rows), column_kinds(rows)
        self.__dict__.pop("_door", None)  # fitted again
        return rows

    def _check_rows(self, X: Any, student: Any) -> Any:
        X = plain_rows(X)
        check_same_shape(image_shape(X), self._row_shape)
        rows = check_rows(by_name(X, self._names()), estimator=student)
        self._check_names(rows, reset=False)
        return rows

    def _names(self) -> Any:
        """Return the columns that are remembered; None where they have no names."""
        return getattr(self, "feature_names_in_", None)

    def _check_names(self, rows: Any, *, reset: bool, kinds: bool = True) -> None:
        """Remember columns, or see that they are those that are remembered, and with ``kinds`` as many numbers."""
        if reset:
            for name in ("n_features_in_", "feature_names_in_"):
                self.__dict__.pop(name, None)
            self._texts, self._objects = is_texts(rows), holds_objects(rows)
        if is_texts(rows) != self._texts:
            raise InvalidInputError(
                "private and public rows must be of one kind: some are texts, the others a table. Pass both alike."
            )
        if kinds:
            check_same_kind(rows, objects=self._objects)
        if is_texts(rows):
            return
        remember_columns(self, rows, reset=reset)

    def _image_shape(self) -> tuple[int, ...] | None:
        """Return the shape of one image: as it was said, else as the public rows came; None of other rows."""
        return self.image_shape if self.image_shape is not None else self._row_shape

    def _count(self, guarantee: Guarantee, charge: Charge, groups: Any) -> None:
        """Count what is about to be spent, with what clones of this classifier spent."""
        if self.noise_seed is not None or playing() is not None:
            guarantee = replace(guarantee, kind="seeded")
        self._spend(guarantee, "record" if groups is None else "group", charge)

    def _evidence(self, **seen: Any) -> Evidence:
        """Return what a fit with public rows saw to, for the statement."""
        return Evidence(public_rows="declared" if self._overlap_is_public() else "checked", **seen)

    def _formerly(self, name: str) -> Any:
        """Return what was said by a name that is no parameter any more; None where nothing was."""
        return self.__dict__.get("_former", {}).get(name)

    def _overlap_is_public(self) -> bool:
        """Return whether somebody said that public rows are public, wherever else they stand."""
        return bool(own_stated(self.stated)[1])

    def _message_in(self, release: Any) -> Any:
        """Return a release whose statement also mentions the other fits, and is bound to the ledger's release."""
        if self.ledger is not None:
            self.ledger.warn_of_other_features(release.statement.ledger_releases)
        labelled = replace(release, statement=self._told(release.statement))
        bind_statement(labelled.statement, self.ledger)
        return labelled

    def _rows_taken(self) -> InputSpec:
        """Return what a row is that the model takes."""
        if "_door" in self.__dict__:
            return self._door
        said = self._image_shape()  # images handed over as such say their shape themselves
        shape = None if said is None else tuple(int(side) for side in said)
        if self._texts:
            return InputSpec(kind="texts")
        if self._kinds is not None and hasattr(self, "feature_names_in_"):
            kinds = {name: "numeric" if kind == "number" else "text" for name, kind in self._kinds.items()}
            columns = tuple((str(name), kinds[name]) for name in self.feature_names_in_)
            return InputSpec(kind="table", n_features=int(self.n_features_in_), columns=columns, image_shape=shape)
        mixed = None if self._objects is None else bool(self._objects)
        return InputSpec(kind="array", n_features=int(self.n_features_in_), mixed=mixed, image_shape=shape)

    def _remember(self, door: InputSpec) -> None:
        """Remember what rows a model from a file takes."""
        self._door, self._texts, self._objects = door, door.kind == "texts", door.mixed
        if door.n_features is not None:
            self.n_features_in_ = door.n_features
        if door.columns is not None:
            self.feature_names_in_ = np.asarray(door.names, dtype=object)

    def _fit_rounds(
        self,
        X: Any,
        y: Any,
        X_public: Any,
        groups: Any,
        *,
        read: Callable[[Any], Any],
        about: Callable[[Any, Any], list[CuratorMessage]],
        planned: Callable[..., Any],
        registered: Callable[..., Registration],
        without: str,
    ) -> Self:
        """Fit by rounds of record voters, spending the budget once; a subclass has all parameters that are read here.

        ``read`` returns the target of all records, ``about`` what the curator should know of it, ``planned`` a plan,
        ``registered`` the data set as a ledger knows it; ``without`` is what to do where there are no public rows.
        """
        me: Any = self
        budget = check_budget(me.budget)
        if me.random_state is not None:
            check_int("random_state", me.random_state, low=0)
        if X_public is None:
            raise InvalidInputError(
                "X_public must be public rows, got None: they define the space in which records vote. Pass "
                f"fit(X, y, X_public=...), or {without}."
            )
        tuning, _, stated = own_stated(self.stated)
        terms = ReleaseTerms(
            budget=budget, ledger=self.ledger, noise_seed=self.noise_seed, tuning=tuning,
            stated=check_ballots_stated(stated, residual=True),
        )  # fmt: skip
        same, X, X_public = X is X_public, plain_rows(X), plain_rows(X_public, name="X_public")
        check_has_target(y)
        rows, records = self._read_rows(X, X_public, any_rows(None))
        groups, values = plain_column(groups, name="groups"), read(y)
        if records.shape[0] != len(values):
            raise InvalidInputError(f"X and y must have as many rows, got {records.shape[0]} and {len(values)}.")
        if rows.shape[0] < FEWEST_PUBLIC:
            raise InvalidInputError(
                f"X_public must have at least {FEWEST_PUBLIC} rows, got {rows.shape[0]}. Pass more."
            )
        if not self._overlap_is_public():
            with in_own_words(OF_ESTIMATORS):
                check_public_rows(records, records if same else rows, groups)
        shift = about_shift(records, rows, image_shape=self._image_shape())
        warn_curator([*about(values, groups), *about_records(records, groups), *shift])
        n_units, unit = units_of(groups, len(values))
        warn_if_weak(budget.delta, n_units, epsilon=budget.epsilon)
        with timed("startup"), naming_fits_before(self):
            plan = planned(
                terms, rows, n_units=n_units, unit=unit, representation=me.representation,
                image_shape=self._image_shape(), random_state=(me.random_state or 0) % 2**32, force=me.force,
                verbose=me.verbose,
            )  # fmt: skip
        if self.ledger is not None:  # it compares these private records with its own before anything is charged
            if not plan.stored:
                self.ledger.check_writable()
            self.ledger.check(registered(records, values, groups, n_units=n_units, unit=plan.unit))
        if not plan.stored:
            self._count(plan.guarantee, plan.charge, groups)
        with timed("labelling"), naming_fits_before(self):
            release, me._model = plan.run(records, values, groups=groups, evidence=self._evidence())
        me.release_ = self._message_in(release)
        me.statement_ = me.release_.statement
        warn_of_doubts(me.statement_)
        return self

    def _read_rows(self, X: Any, X_public: Any, reader: TeacherEnsemble) -> tuple[Any, Any]:
        """Return public rows, and private records for public maps, each read by itself.

        Public rows alone say what a row is: of private ones, not even a column's kind depends on another record.
        """
        public = self._check_public(X_public, reader, reset=True)
        width = None if is_texts(public) else int(np.prod(public.shape[1:]))
        whole = isinstance(X, np.ndarray) and X.dtype.kind not in "OSU"  # its type and shape say what it is
        check_same_shape(image_shape(X) if hasattr(X, "shape") else None, self._row_shape)
        names = self._names()
        if names is not None and not is_frame(X) and (isinstance(X, list | tuple) or getattr(X, "ndim", 0) == 1):
            wanted = f"pandas.DataFrame({{{str(names[0])!r}: ...}})" if len(names) == 1 else "one with these columns"
            raise InvalidInputError(
                "X must not be a list or one-dimensional where the public rows are a DataFrame: columns are identified "
                f"by name. Pass {wanted}, or texts as a list on both sides."
            )
        X = by_name(X, names, other="the public rows")
        rows = flat_rows(read_rows(X) if whole else rows_of(X, width=width)[0])
        check_several(rows)
        if width is not None and not is_texts(rows) and rows.shape[1] != width:
            raise InvalidInputError(
                f"X must have as many columns as X_public ({width}), got {rows.shape[1]}. Public and private rows need "
                "the same features in the same order."
            )
        self._check_names(rows, reset=False, kinds=False)
        return public, rows
