"""Label a public table with what teachers learnt from a private one: files in, files out."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.pipeline import make_pipeline

from pate._files import atomic_path, write_json, write_text
from pate._validation import check_choice, check_classes, check_int
from pate.data import TableEncoder, align_columns, make_shard_encoder, read_table
from pate.estimator import plan_release
from pate.exceptions import InvalidInputError, PrivacyLeakWarning, RunFolderError
from pate.labeling import LabelRelease, Quote, count_fresh, quote, release_labels, warn_if_weak
from pate.mechanisms import Mechanism, NoisyHistogram
from pate.privacy.budget import Budget, check_budget
from pate.privacy.ledger import Ledger
from pate.queries import select_queries
from pate.teachers import TeacherEnsemble, make_teacher
from pate.votes import hash_queries

PREPROCESSING = ("public", "shard", "none")


@dataclass(frozen=True, eq=False)
class LabelPlan:
    """What labelling will do and cost: made from the private file's shape alone, before any training.

    Attributes
    ----------
    n_records, n_units, n_public : int
    unit : {"record", "group"}
    n_teachers : int
    mechanism : Mechanism
    queries : int64 array
        Rows of the public file that will be asked about.
    gap : float
        Abstain below so many votes of lead (:class:`NoisyHistogram` only).
    n_free : int
        How many of those rows are repeats, or were answered before.
    quote : Quote
        The most that will be spent.

    Examples
    --------
    >>> LabelPlan.__dataclass_params__.frozen
    True
    """

    n_records: int
    n_units: int
    n_public: int
    unit: str
    n_teachers: int
    mechanism: Mechanism
    queries: npt.NDArray[np.int64]
    gap: float
    n_free: int
    quote: Quote

    def __str__(self) -> str:
        stored = f" ({self.n_free} more are repeats or were answered before: free)" if self.n_free else ""
        answers = f", at most {self.quote.max_answers} answered" if self.mechanism.may_refuse else ""
        asked = f"{self.quote.n_queries} of {self.n_public} public rows asked{answers}{stored}"
        who = f"{self.n_units} {self.unit}s over {self.n_teachers} teachers"
        return f"{who}; {self.mechanism}; {asked}; will spend {self.quote.guarantee}"


class LabelJob:
    """Read a private and a public table, plan, and release labels of public rows.

    Parameters
    ----------
    private, public : path
        CSV, Parquet or npz; see :func:`pate.read_table`.
    target : str
        Column of the private file with the classes.
    classes : iterable or None
        Every class that could occur: public knowledge. None reads them off the private target and warns.
    budget : Budget
    group : str or None
        Column that says whose row it is; then a person is protected, not a row.
    drop : iterable of str
        Columns of the private file to leave out (and of the public one, where it has them).
    teacher : str or classifier
        A name of :func:`pate.teachers.make_teacher`, or any scikit-learn classifier.
    n_teachers : int
    mechanism : Mechanism or None
        None calibrates a :class:`NoisyHistogram` to the budget.
    n_queries : int or None
        See :class:`pate.PATEClassifier`.
    select : {"random", "first", "spread"}
    gap, max_answers, on_exhausted
        See :class:`pate.PATEClassifier`.
    preprocess : {"public", "shard", "none"}
        Where scaling and encoding is learnt: from the public rows, or inside every shard; never from all private rows.
    ledger : path or None
        All releases from this private data; their total is the first one's budget.
    checkpoint_dir : path or None
    n_jobs, random_state, noise_seed, verbose
        See :class:`pate.PATEClassifier`.

    Attributes
    ----------
    plan : LabelPlan

    Raises
    ------
    InvalidInputError
        Files, columns, classes or parameters that do not fit; nothing was trained or spent.
    BudgetExceededError
        The budget, or what the ledger has left, does not buy the queries.

    Examples
    --------
    >>> import tempfile, pandas as pd
    >>> folder = Path(tempfile.mkdtemp())
    >>> rows = pd.DataFrame({"age": range(60), "ill": ["no"] * 30 + ["yes"] * 30})
    >>> rows.to_csv(folder / "private.csv", index=False)
    >>> rows[["age"]].iloc[::20].to_csv(folder / "public.csv", index=False)
    >>> job = LabelJob(folder / "private.csv", folder / "public.csv", target="ill", classes=["no", "yes"],
    ...     budget=Budget(5.0, 1e-3), teacher="naive-bayes", n_teachers=6)
    >>> print(job.plan)
    60 records over 6 teachers; NoisyHistogram(sigma=...); 1 of 3 public rows asked; will spend (...)-DP, public, ...
    >>> job.run().n_queries
    1
    """

    def __init__(
        self,
        private: str | os.PathLike[str],
        public: str | os.PathLike[str],
        *,
        target: str,
        budget: Budget,
        classes: Any = None,
        group: str | None = None,
        drop: Any = (),
        teacher: Any = "logistic-regression",
        n_teachers: int = 100,
        mechanism: Mechanism | None = None,
        n_queries: int | None = None,
        select: str = "random",
        gap: float | None = None,
        max_answers: int | None = None,
        on_exhausted: str = "raise",
        preprocess: str = "public",
        ledger: str | os.PathLike[str] | None = None,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        n_jobs: int | None = None,
        random_state: int | None = 0,
        noise_seed: int | None = None,
        tuning: str = "not declared by the curator",
        verbose: bool = False,
    ) -> None:
        check_budget(budget)
        check_choice("preprocess", preprocess, PREPROCESSING)
        n_teachers = check_int("n_teachers", n_teachers, low=1)
        estimator = make_teacher(teacher)
        table = read_table(private, target=target, group=group, drop=drop)
        if table.y is None:
            raise InvalidInputError(f"target must name the column of classes in {private}, got {target!r}.")
        unwanted = [name for name in (target, group, *([drop] if isinstance(drop, str) else drop)) if name]
        rows = align_columns(table.X, read_table(public).X, drop=unwanted)
        self._ledger = None if ledger is None else Ledger(ledger)
        n_units = len(table.y) if table.groups is None else len(np.unique(table.groups))
        if n_units < n_teachers:
            unit = "records" if table.groups is None else "groups"
            raise InvalidInputError(
                f"n_teachers must be at most the number of {unit} ({n_units}), got {n_teachers}. Use fewer teachers."
            )
        warn_if_weak(budget.delta, n_units)
        chosen, n_asked, lead = plan_release(
            budget, len(rows), n_teachers=n_teachers, mechanism=mechanism, n_queries=n_queries, gap=gap
        )
        encoder = TableEncoder().fit(rows) if preprocess == "public" else None
        numbers = rows if encoder is None else encoder.transform(rows)
        queries = select_queries(numbers, n_asked, strategy=select, random_state=random_state)
        # Hashes of the rows as they stand in the file, so that another encoding still finds its stored answers.
        self._hashes = hash_queries(rows.iloc[queries])
        price: dict[str, Any] = {
            "budget": budget,
            "ledger": self._ledger,
            "max_answers": max_answers,
            "on_exhausted": on_exhausted,
        }
        fresh = count_fresh(self._hashes, chosen, **price)
        self.plan = LabelPlan(
            n_records=len(table.y),
            n_units=n_units,
            n_public=len(rows),
            unit="record" if table.groups is None else "group",
            n_teachers=n_teachers,
            mechanism=chosen,
            queries=queries,
            gap=lead,
            n_free=len(queries) - fresh,
            quote=quote(fresh, chosen, **price),
        )
        if preprocess == "shard":
            estimator = make_pipeline(make_shard_encoder(rows), estimator)
        X = table.X if encoder is None else encoder.transform(table.X)
        self._classes_inferred = classes is None
        values = _read_classes(table.y) if classes is None else check_classes(classes)
        self._private = (X, _as_classes(table.y, values), table.groups)
        self._asked = numbers.iloc[queries] if hasattr(numbers, "iloc") else numbers[queries]
        self._teachers = TeacherEnsemble(
            estimator,
            n_teachers,
            classes=values,
            n_jobs=n_jobs,
            random_state=random_state,
            checkpoint_dir=checkpoint_dir,
            verbose=verbose,
        )
        self._release_options = {**price, "noise_seed": noise_seed, "tuning": tuning}

    def run(self) -> LabelRelease:
        """Train the teachers, ask them, and release; the charge is in the ledger before this returns.

        Returns
        -------
        LabelRelease
            In the order of ``plan.queries``.
        """
        X, y, groups = self._private
        votes = self._teachers.fit(X, y, groups=groups).vote(self._asked, keep_labels=False)
        release = release_labels(
            replace(votes, query_hashes=self._hashes, classes_inferred=self._classes_inferred),
            self.plan.mechanism,
            **self._release_options,
        )
        return release.decide(gap=self.plan.gap) if isinstance(self.plan.mechanism, NoisyHistogram) else release

    def write(self, release: LabelRelease, out: str | os.PathLike[str]) -> list[Path]:
        """Write the labels and the statement.

        Parameters
        ----------
        release : LabelRelease
        out : path
            A CSV file: ``row`` (position in the public file, from 0), ``label`` (empty where there is none) and
            ``status`` of *every* public row. The statement goes beside it as ``.statement.json`` and
            ``.statement.txt``.

        Returns
        -------
        list of Path
        """
        paths = check_new_files(out)
        frame = release.to_frame(rows=self.plan.queries).set_index("row")
        frame = frame.reindex(range(self.plan.n_public)).reset_index()
        frame["status"] = frame["status"].fillna("not asked")
        write_json(paths[1], release.statement.to_dict())
        write_text(paths[2], release.statement.text())
        # Last: labels without their statement should not lie around.
        with atomic_path(paths[0]) as path:
            frame.to_csv(path, index=False)
        return paths


def check_new_files(out: str | os.PathLike[str]) -> list[Path]:
    """Return the paths of the labels and of the statement's two files, if none of them exists yet.

    Raises
    ------
    RunFolderError
        One exists: results are never overwritten.

    Examples
    --------
    >>> import tempfile
    >>> [path.name for path in check_new_files(Path(tempfile.mkdtemp()) / "labels.csv")]
    ['labels.csv', 'labels.statement.json', 'labels.statement.txt']
    """
    goal = Path(out)
    paths = [goal, *(goal.with_name(goal.stem + ending) for ending in (".statement.json", ".statement.txt"))]
    for path in paths:
        if path.exists():
            raise RunFolderError(f"{str(path)!r} exists. Results are never overwritten: name another file.")
    return paths


def _read_classes(y: npt.NDArray[Any]) -> tuple[Any, ...]:
    warnings.warn(
        "classes= was not given, so the set of classes is taken from the private target and becomes public with the "
        "labels. Name every possible class.",
        PrivacyLeakWarning,
        stacklevel=3,
    )
    return check_classes(np.unique(y))


def _as_classes(y: npt.NDArray[Any], classes: tuple[Any, ...]) -> npt.NDArray[Any]:
    """Read a column as the classes' own type: a command line gives ``0,1`` as text, a file holds numbers."""
    if all(isinstance(c, str) for c in classes) and y.dtype.kind in "biuf":
        whole = y.astype(np.int64) if y.dtype.kind == "f" and (y == np.floor(y)).all() else y
        return np.array([str(v) for v in whole.tolist()], dtype=object)
    return y
