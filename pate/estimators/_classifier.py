"""PATEClassifier: one scikit-learn classifier for every method (records, heads, shards, DP-SGD)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

from pate._core.checks import check_int
from pate._core.curator import warn_curator
from pate._core.frames import plain_column, plain_rows
from pate._core.moved import Former, takes_former_names
from pate._core.progress import timed
from pate._core.secret import beside_ledger
from pate.data import (
    about_records,
    about_shift,
    check_public_rows,
    flat_rows,
    image_shape,
    is_frame,
    read_rows,
    row_shape,
)
from pate.data.queries import select_queries
from pate.data.schema import declared_widths
from pate.estimators._by_dpsgd import (
    VOTERS,
    check_likeliest,
    check_schema,
    chosen_voters,
    len_of,
    method_of,
)
from pate.estimators._by_schema import BySchema
from pate.estimators._public_model import digest_of
from pate.estimators._public_rows import OVERLAP, TUNING, own_stated, tiers_of
from pate.estimators._queries import Queries, former_part, in_own_words
from pate.exceptions import InvalidInputError
from pate.ledger import Ledger
from pate.mechanisms import Mechanism, NoisyHistogram
from pate.models.file import OF_NUMBERS, Manifest, ModelFile, check_model_path, damaged, read_model, write_model
from pate.models.recipes import (
    MappedLinear,
    RecordModel,
    fitted_representation,
    keep_linear,
    keep_record_model,
    kind_of,
    made_of_linear,
    read_linear,
    read_record_model,
)
from pate.models.recipes import made_of as made_of_ballots
from pate.models.students import as_public, keep_student, made_of, measured_labels, read_student, try_student
from pate.privacy.budget import Budget
from pate.privacy.tiers import as_budget
from pate.release import (
    BatchPlan,
    Evidence,
    Outcome,
    ReleaseTerms,
    check_enough,
    check_measure,
    check_release_stated,
    default_heads,
    doubted,
    plan_release,
    warn_if_weak,
    warn_of_doubts,
    warn_of_student,
)
from pate.release.statement import naming_fits_before
from pate.release.statement.files import bind_released, bind_statement
from pate.release.statement.model import PrivacyStatement
from pate.teachers import (
    HeadTeacherEnsemble,
    ShardEnsemble,
    about_labels,
    class_indices,
    hash_rows,
    label_column,
    make_ensemble,
    takes_missing,
    units_of,
)
from pate.votes import Votes


def _writers(student: Any) -> tuple[str, Callable[[Any, Path], dict[str, Any]], Callable[[Any], tuple[str, ...]]]:
    """Return what kind of model a student is, the function that writes its parts, and the one that describes them."""
    if isinstance(student, RecordModel):
        return "records", keep_record_model, made_of_ballots
    if isinstance(student, MappedLinear):
        return "dpsgd", keep_linear, made_of_linear
    return "student", keep_student, lambda one: (made_of(one),)


def _n_classes(classes: Any, y: Any) -> int:
    """Return how many classes there are: as they were named, or as they will be read off the labels."""
    if classes is not None:
        return len(tuple(classes))
    with suppress(TypeError, ValueError):  # the code that reads them reports what is wrong
        return len(np.unique(np.asarray(y)))
    return 2


def _former_entry(name: str, *, none: Any, says: Callable[[Any], Any] = lambda value: value) -> Former:
    """Return what became of a parameter that is now an entry of ``stated``; ``none`` is where it says nothing."""

    def put(stated: Any, value: Any) -> Any:
        return stated if value is none or not str(value).strip() else {**(stated or {}), name: says(value)}

    return Former(
        f"stated={{{name!r}: ...}}",
        "stated",
        put=put,
        get=lambda stated: type(none)((stated or {}).get(name, none)),
        is_said=lambda stated: name in (stated or {}),
    )


@takes_former_names(
    anyway=former_part("force"),
    n_queries=former_part("n"),
    **{name: former_part(name) for name in ("select", "gap", "max_answers", "on_exhausted", "force")},
    tuning=_former_entry(TUNING, none=""),
    overlap_is_public=_former_entry(OVERLAP, none=False, says=lambda _: "yes"),
    n_jobs=Former("PATEClassifier(TeacherEnsemble(..., n_jobs=...)); where records vote, joblib.parallel_config"),
    partition_seed=Former("PATEClassifier(TeacherEnsemble(..., partition_seed=...))"),
    ranges=Former("fit(X, y, schema=...)"),
)
@dataclass(eq=False, repr=False)
class PATEClassifier(BySchema):
    """Train a classifier on private records, by noisy votes on public rows, within a privacy budget.

    By default every private *record* votes: maps that were fitted on public rows alone (the *space*) turn it into a
    vector of bounded length, its *ballot*. Noise is added to the sum of the ballots, and a public model is computed
    from the noisy sum (docs/records.md). Without public rows, but with a declared schema of the columns, records vote
    on synthetic rows (docs/public-rows.md). Without either, with too few public rows, or where the budget is too
    small for synthetic rows, DP-SGD trains a model on the private rows, within the same budget. If you give an
    ``estimator``, ``fit`` trains one teacher per disjoint shard of the private data, releases noisy labels of public
    rows and trains a student on those. ``predict`` and ``score`` use the public model and never spend budget. Terms:
    docs/concepts.md.

    Parameters
    ----------
    estimator : scikit-learn classifier, ensemble of teachers or None
        The classifier of which every teacher is a copy. None: records vote, or DP-SGD trains a model. But if ``voters``
        asks for teachers on shards, or a parameter of theirs is set (``n_teachers``, ``mechanism``, ``checkpoint_dir``;
        ``n``, ``gap`` or ``max_answers`` of ``queries``), None means ``LogisticRegression()``. To say also how teachers
        are trained and how shards are cut, give an unfitted :class:`TeacherEnsemble` (or
        :class:`TorchTeacherEnsemble`), which is cloned: ``TeacherEnsemble(LogisticRegression(), n_jobs=2)``. Parameters
        of this classifier take precedence over the ensemble's; where ``n_teachers``, ``classes``, ``random_state`` or
        ``checkpoint_dir`` is None here, the ensemble's is used. With ``voters="heads"``: a
        :class:`HeadTeacherEnsemble`; its representation and number of teachers are chosen here if they are None.
    budget : Budget, or mapping of str to Budget
        The most that ``fit`` may spend. Every ``fit`` on private data spends anew. A mapping has one budget for each
        tier of records (``fit(tiers=...)``), where records vote on public rows: each tier is charged its own
        (docs/tiers.md).
    classes : iterable or None
        Every class that could occur: public knowledge. None takes them from the private ``y`` and warns.
    voters : {"auto", "records", "heads", "shards", "dpsgd"} or None
        Who votes. None: teachers on shards if one of their parameters is set (see ``estimator``), else ``"auto"``.
        ``"auto"``: records or DP-SGD, by a public rule (:func:`pate.models.recipes.chosen_method`); the statement says
        which and why. ``"heads"``: small models on the shards, all on one representation that was fitted on public rows
        (:class:`pate.teachers.HeadTeacherEnsemble`). ``"dpsgd"``: nobody votes; :class:`pate.DPSGDClassifier` trains a
        model with the settings that its planner chooses, and that model labels the public rows.
    n_teachers : int or None
        Number of shards. More teachers tolerate more noise, but each sees less data. None: the ensemble's own, or 100;
        with ``voters="heads"`` one for every 15 records, at least 10 and at most 1,000 (100 with ``groups``).
    mechanism : Mechanism or None
        The noise on the teachers' votes. None calibrates a :class:`NoisyHistogram` to the budget.
    queries : Queries, int or None
        Which public rows teachers are asked about, and what to do when the budget pays for fewer. A number says how
        many, so that a search can try several: ``param_grid={"queries": [100, 200]}``.
    student : scikit-learn classifier, str or None
        The model that learns from the released labels; names are those of :func:`pate.models.students.make_student`.
        None, with records: the model computed from the ballots (:class:`pate.models.recipes.RecordModel`); with DP-SGD:
        the model that was trained; with shards: :class:`pate.models.students.VoteSpreading` where noisy counts are
        released on rows of numbers (:func:`pate.models.students.default_student`), else a clone of ``estimator`` (of a
        :class:`TeacherEnsemble`'s); torch teachers then need it named, as a student is one scikit-learn classifier.
        Semi-supervised ones also learn from the rows without an answer.
    representation : Representation or None
        How rows become vectors, for records, heads and DP-SGD: one of :mod:`pate.representations`, fitted on public
        rows or to be fitted on ``X_public``. None takes the default for this kind of data (docs/record-recipes.md).
    image_shape : (height, width), (channels, height, width) or None
        Give it if rows are flattened images. Arrays of shape (n, height, width) or (n, channels, height, width) are
        recognised as images without it.
    measure : bool, "by class" or None
        Whether to measure at the end, on the private records, how often the model is right: one noisy count within the
        same budget, for 4% of its mu^2 (``"by class"``: as much again for recall by class). With teachers on shards
        their student is measured. None: measure if, by public numbers, the count's noise alone gives an interval of
        less than five points to either side, and if no ``student`` is given (records, DP-SGD) or no ``mechanism``
        (teachers).
    decide : {"likeliest", "balanced"}
        Which class ``predict`` and the released labels take. ``"likeliest"``: the most probable one. ``"balanced"``,
        for balanced accuracy where classes are of unequal size: the one whose probability is largest relative to its
        mean over the public rows. It costs nothing, and the measured accuracy is that of these decisions. Not for
        teachers on shards.
    stated : mapping of str to str, or None
        What you vouch for in the statement, in your own words; see :func:`pate.release_labels`. Two more entries:
        ``"tuning"`` says what was tuned on private data and whether that is charged. (In a grid search every fit spends
        anew: the statement counts the fits of this process, docs/private-selection.md; a ``ledger`` counts all.)
        ``"overlap is public": "yes"`` says that the public rows are public, wherever they also stand: the private
        records are then not looked for among them (see Notes), and the statement says that you said so.
    ledger : Ledger or None
        The file in which all releases from these private data are charged (docs/ledger.md).
    checkpoint_dir : path or None
        Folder for finished teachers, so that a fit that was killed goes on and pays once. With DP-SGD it holds the
        state of the run (which a ledger, if there is one, keeps beside itself).
    random_state : int or None
        Seed of training and of the choice of queries; never of the shards, nor of the privacy noise. With None and a
        ledger, the choice of queries depends on the public rows alone, so that the same fit again finds its stored
        answers. Shards are cut by a secret unless an ensemble has a ``partition_seed``. The secret is kept beside the
        ledger (or in ``checkpoint_dir``), so that every fit there cuts the same data alike.
    noise_seed : int or None
        For tests and experiments only: the statement then says that nothing is private.
    verbose : bool
        Show progress.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    voters_ : str
        Who voted, or ``"dpsgd"``.
    release_ : LabelRelease, RecordLabels or ModelLabels
        The released labels, public: of the rows ``queries_`` of ``X_public``; with records and DP-SGD of all its rows;
        of the ``synthetic_`` rows where records voted on those; else, without public rows, of none.
    synthetic_ : DataFrame or array
        The synthetic rows on which records voted, if they did: public.
    queries_ : int64 array
        Positions of the rows of ``X_public`` that were asked about.
    student_ : fitted classifier
    statement_ : PrivacyStatement
    measured_ : MeasuredAccuracy or None
        How often ``student_`` is right, with its interval (docs/records.md); None where that was not measured.
    n_features_in_ : int

    Notes
    -----
    **Guarantees.** Everything reachable from the fitted object satisfies the statement's (epsilon, delta) under
    replace-one adjacency: the teachers, their votes and the partition are not kept (:meth:`fit_keeping` returns them).
    The budget is checked before any teacher is trained.

    Private records among ``X_public`` are looked for, by keyed hashes of the features. If most public rows are private
    ones, ``fit`` is refused before anything is trained; a few are reported to you in a :class:`PublicOverlapWarning`
    and change nothing that is released. Neither is for the public: both depend on the private records.

    Preprocessing that learns from rows belongs *inside* ``estimator`` (a pipeline there is fitted per shard) or is
    learnt from public rows beforehand. In a :class:`sklearn.pipeline.Pipeline` *around* this classifier, earlier steps
    are fitted on all private rows: use only such as learn nothing (``FunctionTransformer``, ``Normalizer``), or were
    fitted on public rows and are frozen (``FrozenEstimator``), or the guarantee does not hold. Public rows must go
    through the same steps: scikit-learn's metadata routing does it, with ``Pipeline(steps,
    transform_input=["X_public"])`` and ``set_fit_request(X_public=True, groups=True)`` (docs/scikit-learn.md). Without
    it they are passed as ``fit(X, y, STEP__X_public=...)``, transformed by you.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from pate import Budget, PATEClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = PATEClassifier(
    ...     LogisticRegression(), n_teachers=50, budget=Budget(8.0, 1e-5), classes=range(10)
    ... )
    >>> clf = clf.fit(X[:1200] / 16, y[:1200], X_public=X[1200:1500] / 16)
    >>> clf.release_.guarantee.epsilon <= 8.0
    True
    >>> clf.score(X[1500:] / 16, y[1500:]) > 0.3
    True

    By default every record votes:

    >>> default = PATEClassifier(
    ...     budget=Budget(1.0, 1e-5), classes=range(10), image_shape=(8, 8)
    ... )
    >>> default = default.fit(X[:1200] / 16, y[:1200], X_public=X[1200:1500] / 16)
    >>> (
    ...     default.score(X[1500:] / 16, y[1500:]) > 0.7,
    ...     default.release_.guarantee.epsilon <= 1.0,
    ... )
    (True, True)

    Without public rows, but with declared ranges of the columns, records vote on synthetic rows:

    >>> alone = PATEClassifier(budget=Budget(3.0, 1e-5), classes=range(10), random_state=0)
    >>> alone = alone.fit(X[:1200], y[:1200], schema=(0, 16))
    >>> alone.voters_, alone.synthetic_.shape, alone.score(X[1500:], y[1500:]) > 0.8
    ('records', (2000, 64), True)

    Torch teachers, on GPUs if there are any: only the ensemble changes.

    >>> from pate import TorchTeacherEnsemble
    >>> from pate.networks import MLP
    >>> mlps = TorchTeacherEnsemble(MLP, n_teachers=20, n_steps=100, device="cpu")
    >>> gpu = PATEClassifier(mlps, budget=Budget(8.0, 1e-5), classes=range(10))
    >>> gpu = gpu.fit(X[:1200] / 16, y[:1200], X_public=X[1200:1500] / 16)
    >>> gpu.statement_.guarantee.epsilon <= 8.0, gpu.score(X[1500:] / 16, y[1500:]) > 0.6
    (True, True)
    """

    estimator: Any = None
    _: KW_ONLY
    budget: Budget | Mapping[str, Budget] | None = None
    classes: Any = None
    voters: str | None = None
    n_teachers: int | None = None
    mechanism: Mechanism | None = None
    queries: Queries | int | None = None
    student: Any = None
    representation: Any = None
    image_shape: Any = None
    measure: bool | str | None = None
    decide: str = "likeliest"
    stated: Mapping[str, str] | None = None
    ledger: Any = None
    checkpoint_dir: Any = None
    random_state: int | None = None
    noise_seed: int | None = None
    verbose: bool = False

    def fit(
        self, X: Any, y: Any, *, X_public: Any = None, groups: Any = None, schema: Any = None, tiers: Any = None
    ) -> Self:
        """Learn from private records: spend the budget once, release labels of the public rows, keep a public model.

        Parameters
        ----------
        X : array, table or sparse matrix of shape (n_records, n_features), images (n, ...), or texts (n_records,)
            Private rows, of a kind that the voters take. Tables may be of pandas, polars or Arrow.
        y : array-like of shape (n_records,)
            Private class values.
        X_public : as X, or None
            Public rows without labels. None: records vote on synthetic rows of ``schema``, or DP-SGD trains a model.
        groups : array-like of shape (n_records,) or None
            The person each record belongs to: then a person is protected, with all their records.
        schema : mapping of str to (low, high) or list of str; (low, high); list of (low, high); Schema; or None
            In place of public rows: the range of each column, or its categories, as you know them without looking at
            these records. A :class:`pate.data.Schema` also says which numbers are whole, and which are codes.
        tiers : array-like of str, shape (n_records,), or None
            The tier of each record (of each person, with ``groups``), if ``budget`` has a budget for each tier. Tiers
            are public: do not derive them from private values, since who is in which tier is not protected.

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            No public rows where teachers or records vote, no budget, data that the teachers cannot take, or a student
            that could not learn from made-up labels of the same rows; nothing was trained or spent.
        BudgetExceededError
            The budget does not buy the queries; nothing was trained or spent.
        StudentError
            The student cannot learn from the labels that were released. They are kept: see :meth:`refit_student`.

        Examples
        --------
        >>> PATEClassifier(n_teachers=5, classes=[0, 1]).fit(
        ...     [[0.0]] * 9, [0] * 9, X_public=[[0.0]]
        ... )
        Traceback (most recent call last):
        pate.exceptions.InvalidInputError: budget must be pate.Budget(epsilon, delta), got None. ...
        """
        with in_own_words(), naming_fits_before(self):
            self.fit_keeping(X, y, X_public=X_public, groups=groups, schema=schema, tiers=tiers)
        return self

    def fit_keeping(
        self, X: Any, y: Any, *, X_public: Any = None, groups: Any = None, schema: Any = None, tiers: Any = None
    ) -> tuple[Any, Votes | None]:
        """Do what :meth:`fit` does, and also return the teachers and their votes, which ``fit`` drops.

        For the curator's own eyes: both are **sensitive**. They are returned, and not kept, because a fitted classifier
        is copied, saved and published. What the labels cost at these votes (the public, the data-dependent and the
        papers' epsilon) is ``pate.account(votes, clf.release_)``.

        Returns
        -------
        teachers : TeacherEnsemble, TorchTeacherEnsemble, RecordsPlan or TrainingPlan
        votes : Votes or None
            On the rows ``queries_`` of ``X_public``; None where records voted, or nobody did.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from pate import ConfidentGNMax, account
        >>> X, y = load_digits(return_X_y=True)
        >>> clf = PATEClassifier(
        ...     LogisticRegression(max_iter=50),
        ...     n_teachers=40,
        ...     mechanism=ConfidentGNMax(threshold=20, sigma_threshold=20, sigma=10),
        ...     budget=Budget(8.0, 1e-5),
        ...     classes=range(10),
        ... )
        >>> _, votes = clf.fit_keeping(X[:1200], y[:1200], X_public=X[1200:1300])
        >>> report = account(votes, clf.release_)
        >>> report.public == clf.release_.guarantee
        True
        >>> report.data_dependent  # for the curator alone
        Sensitive(data-dependent guarantee: hidden; .reveal() shows it)
        """
        budget, by_tier = as_budget(self.budget)
        if self.random_state is not None:
            check_int("random_state", self.random_state, low=0)
        who, asked_for = self.who_votes(), Queries.of(self.queries)
        schema = self._formerly("ranges") if schema is None else schema
        if X_public is None and who not in ("auto", "dpsgd") and (who, schema is None) != ("records", False):
            raise InvalidInputError(
                "X_public must be the public rows to label, got None. PATE releases labels of public data: pass "
                "fit(X, y, X_public=...). Without public rows declare what the columns hold, fit(X, y, schema=...), or "
                "let DP-SGD learn: voters='dpsgd'."
            )
        tuning, _, stated = own_stated(self.stated)
        if by_tier is not None and isinstance(self.ledger, Ledger):
            by_tier = by_tier.held_to((self.ledger.registration or {}).get("tiers"))
        terms = ReleaseTerms(
            budget=budget,
            ledger=self.ledger,
            max_answers=asked_for.max_answers,
            on_exhausted=asked_for.on_exhausted,
            noise_seed=self.noise_seed,
            tuning=tuning,
            stated=stated,
            tiers=by_tier,
        )
        table = X
        same, X, X_public = X is X_public, plain_rows(X), plain_rows(X_public, name="X_public")
        y, groups = plain_column(y), plain_column(groups, name="groups")
        who, why = self._method(who, X, y, X_public, groups, schema)
        check_schema(schema, who, X_public)
        of_records = tiers_of(by_tier, tiers, who, X_public, X=table)
        self.voters_ = who
        if who == "dpsgd":
            return self._fit_by_dpsgd(X, y, X_public, groups, schema, terms, same=same, why=why), None
        self.__dict__.pop("synthetic_", None)
        if who == "records" and X_public is None:
            return self._fit_by_schema(X, y, groups, schema, terms, why=why), None
        if who == "records":
            return self._fit_by_records(X, y, X_public, groups, of_records, terms, same=same, why=why), None
        measure = check_measure(self.measure)
        check_likeliest(self.decide)
        self._row_shape = image_shape(X_public, name="X_public")
        teachers = self._ensemble(X_public)
        check_release_stated(
            terms.stated,
            unit="record" if groups is None else "group",
            classes_inferred=teachers.classes is None,
            mechanism=self.mechanism,
        )
        read, y = self._check_private(X, y, teachers, X_public)
        if isinstance(self.mechanism, Mechanism):
            self.mechanism.check_classes(len(self.classes_))
        n_records = read.rows.shape[0] if groups is None else None
        if who == "heads" and teachers.n_teachers is None:
            teachers.set_params(n_teachers=default_heads(n_records))
        X_public = self._check_public(X_public, teachers)
        n_public = X_public.shape[0]
        asking = plan_release(
            budget,
            n_public,
            n_teachers=teachers.n_teachers,
            mechanism=self.mechanism,
            n_queries=asked_for.n,
            gap=asked_for.gap,
            n_classes=len(self.classes_),
            n_records=n_records,
            force=asked_for.force,
            measure=measure,
            n_units=units_of(groups, read.rows.shape[0])[0],
        )
        seen = flat_rows(X_public)  # a student is one of scikit-learn's
        student, lens = self._student(teachers, seen, isinstance(asking.mechanism, NoisyHistogram))
        seen = seen if lens is None else lens.transform(seen)
        if not self._overlap_is_public():
            check_public_rows(read.rows, read.rows if same else X_public, groups)
        # Of those that do not vote fit says it.
        messages = about_labels(y, groups, self.classes_.tolist(), counted=False, budget=terms.budget)
        messages = [*messages, *about_records(read.rows, groups)]
        warn_curator([*messages, *about_shift(read.rows, X_public, image_shape=self._image_shape())])
        queries = select_queries(
            seen,
            asking.n_queries,
            strategy=asked_for.select,
            random_state=self._query_seed(X_public),
            one_scale=lens is not None,
        )
        asked = X_public.iloc[queries] if is_frame(X_public) else X_public[queries]
        # Refuse an unaffordable release, or a student that cannot learn, before days of training, not after.
        plan = BatchPlan.of(terms, asking, queries, hash_rows(asked))
        if not plan.quote.is_free:
            check_enough(
                plan.n_free + plan.quote.max_answers, asking.mechanism, budget=budget,
                n_queries=min(len(queries), plan.n_free + (asked_for.max_answers or len(queries))),
                n_public=n_public, n_teachers=teachers.n_teachers, n_classes=len(self.classes_),
                force=asked_for.force,
            )  # fmt: skip
        try_student(
            student,
            seen,
            n_classes=len(self.classes_),
            queries=queries,
            n_answers=plan.n_free + plan.quote.max_answers,
            noisy_counts=isinstance(asking.mechanism, NoisyHistogram),
        )
        self._check_ledger(read.rows, y, groups, paid=plan.quote.is_free)
        evidence = self._evidence(classes_inferred=teachers.classes is None, trained=True)
        with timed("training"):
            teachers.set_params(classes=tuple(self.classes_.tolist())).fit(read, y, groups=groups, X_public=asked)
        warn_if_weak(budget.delta, teachers.partition_.n_units, epsilon=budget.epsilon)
        if not plan.quote.is_free:
            self._count(plan.quote.guarantee, plan.quote.charge, groups)
        with timed("labelling"):
            outcome = self._outcome(plan, teachers, asked, evidence, student, seen)
        self.release_, cells = outcome.release, None
        self.queries_ = queries
        self._asked = digest_of(plan.hashes or ())
        self.__dict__.pop("student_", None)  # an earlier one did not learn from these labels
        try:
            said = self._learn(student, seen, lens)
            if outcome.counts is not None:
                with timed("labelling"):
                    self.release_, cells = measured_labels(
                        self.release_,
                        outcome.counts,
                        self.student_,
                        as_public(flat_rows(read.rows), X_public),
                        class_indices(label_column(y, read.rows.shape[0]), self.classes_.tolist()),
                        usable=read.usable | takes_missing(self.student_),
                        groups=groups,
                        identity=(student, self._student_seed(), digest_of(hash_rows(X_public))),
                        made_here=lens is None or self.representation is None,
                        read_here=type(teachers).__module__.partition(".")[0] == "pate",
                        asked_for=bool(measure),
                    )
        finally:  # whatever became of the student, the labels are paid for
            self.release_ = self._message_in(doubted(self.release_, cells=cells))
            self.statement_ = self.release_.statement
        self._measured_of = self.student_
        warn_of_doubts(self.statement_)
        warn_of_student(self.release_, said)
        return teachers, outcome.votes

    def _outcome(
        self, plan: BatchPlan, teachers: Any, asked: Any, evidence: Evidence, student: Any, seen: Any
    ) -> Outcome:
        """Release labels of the rows ``asked``, which ``student`` will learn from, on all public rows ``seen``."""
        return plan.run(teachers, asked, evidence)

    def who_votes(self) -> str:
        """Return who will vote: ``"records"``, ``"heads"``, ``"shards"``, ``"dpsgd"``, or ``"auto"`` until ``fit``.

        Raises
        ------
        InvalidInputError
            Parameters that do not go together.

        Examples
        --------
        >>> PATEClassifier().who_votes(), PATEClassifier(n_teachers=100).who_votes()
        ('auto', 'shards')
        """
        said = {name: getattr(self, name) for name in ("estimator", "n_teachers", "mechanism", "checkpoint_dir")}
        said |= {**Queries.of(self.queries).of_shards(), "partition_seed": self._formerly("partition_seed")}
        of_heads = self.voters == "heads" and isinstance(self.estimator, HeadTeacherEnsemble)
        return chosen_voters(self.voters, said, not_of_heads=() if of_heads else ("estimator",))

    def _method(self, who: str, X: Any, y: Any, X_public: Any, groups: Any, schema: Any) -> tuple[str, str]:
        """Return who votes, and by which public rule, if by one: a function of shapes and public rows."""
        if who != "auto":
            return who, ""
        n_records = len_of(X)
        return method_of(
            X_public,
            as_budget(self.budget)[0],
            n_units=n_records if groups is None else units_of(groups, n_records)[0],
            n_classes=_n_classes(self.classes, y),
            image_shape=self.image_shape or image_shape(X_public, name="X_public"),
            schema=schema,
            n_columns=0 if schema is None else (*row_shape(X, declared_widths(schema)), 0)[0],
        )

    def _template(self) -> Any:
        """Return what teachers on shards are made of: ``estimator``, or what stands for it where that is None."""
        if self.estimator is not None:  # a forest's truth is its length
            return self.estimator
        return HeadTeacherEnsemble(None, cast("int", None)) if self.who_votes() == "heads" else LogisticRegression()

    def _cut_by(self, partition_seed: int | None) -> None:
        """Have shards cut by this seed, or with None by a secret, whatever was said of it."""
        former = {**self.__dict__.get("_former", {}), "partition_seed": None}
        self._former, teachers = former, make_ensemble(self._template())
        self.set_params(estimator=teachers.set_params(partition_seed=partition_seed))

    def _ensemble(self, X_public: Any = None) -> ShardEnsemble:
        teacher = self._template()
        if self.who_votes() == "heads" and teacher.representation is None:
            rows, shape = flat_rows(read_rows(X_public, name="X_public")), self._image_shape()
            if isinstance(shape, list):
                raise InvalidInputError(f"image_shape must be a tuple, got {shape!r}.")
            seed = 0 if self.random_state is None else self.random_state % 2**32
            fitted = fitted_representation(
                kind_of(rows, shape),
                rows,
                representation=self.representation,
                image_shape=shape,
                random_state=seed,
                verbose=self.verbose,
            )
            teacher = clone(teacher).set_params(representation=fitted)
        teachers = make_ensemble(
            teacher,
            self.n_teachers,
            classes=self.classes,
            n_jobs=self._formerly("n_jobs"),
            random_state=self.random_state,
            partition_seed=self._formerly("partition_seed"),
            checkpoint_dir=self.checkpoint_dir,
            verbose=self.verbose,
        )
        return teachers if self.ledger is None else teachers.keep_secret_in(beside_ledger(self.ledger.path))

    # The public half as a file, and back: the student and its statement, never what ``fit`` saw.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model and its statement to one file, which is as public as the release (docs/models.md).

        It holds released statistics, public rows and what was computed from them; no private row, vote or teacher. If
        there is a ledger, it notes the file's digest first, so that ``pate verify`` recognises the file.

        Parameters
        ----------
        path : path that ends in ``.pate``
            It must not exist.

        Raises
        ------
        InvalidInputError
            Another ending, a place that cannot be written to, or a student that no file can hold safely.
        RunFolderError
            It exists.
        """
        check_is_fitted(self, "student_")
        check_model_path(path)
        kind, keep, told_of = _writers(self.student_)
        with tempfile.TemporaryDirectory(prefix="pate-model-") as name:
            folder = Path(name)
            parts = keep(self.student_, folder)
            manifest = Manifest.of_classes(
                self.classes_,
                kind=kind,
                door=self._rows_taken(),
                made_of=told_of(self.student_),
                settings={"voters": self.voters_},
                parts=parts,
            )
            held = {part.name: part.read_bytes() for part in folder.iterdir()}
        ledger = self.ledger if self.statement_.ledger_releases else None
        statement = self.statement_
        if statement.measured is not None and self.measured_ is None:  # of another student than the one that is kept
            spoken = tuple(one for one in statement.doubts if one.kind != "below the commonest")
            statement = replace(statement, measured=None, doubts=spoken)
            bind_statement(statement, ledger)
        write_model(path, manifest, statement, held, before=partial(bind_released, ledger, ()))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, module: Any = None) -> Self:
        """Read a classifier that was saved; nothing in the file is run, and nothing spent.

        It predicts exactly the same, and has ``classes_``, ``student_`` and ``statement_``; released labels are not
        kept.

        Parameters
        ----------
        path : path
        module : torch module, or list of them
            The architecture of each :class:`pate.representations.FromModule` in it; its weights come from the file.

        Raises
        ------
        InvalidInputError
            There is no such file, it is damaged, of another format or kind, its statement was altered, or it holds
            types that are not safe to build.
        """
        return cls._of_file(read_model(path), module=module)

    @classmethod
    def _of_file(cls, file: ModelFile, *, module: Any = None) -> Self:
        said = file.manifest
        if said.kind in OF_NUMBERS:
            raise InvalidInputError(
                f"{str(file.path)!r} holds a model of a number. Read it by pate.PATERegressor.load."
            )
        if said.kind == "labels":
            raise InvalidInputError(
                f"{str(file.path)!r} holds a model of several labels. Read it by pate.PATEMultilabelClassifier.load."
            )
        if said.settings.get("voters") not in VOTERS[1:] or len(said.settings) != 1:
            raise damaged(file.path, "its settings are not a classifier's")
        with file.unpacked() as folder:
            if said.kind == "records":
                student: Any = read_record_model(folder, said.parts, said.classes, module=module)
            elif said.kind == "dpsgd":
                student = read_linear(folder, said.parts, module=module)
            else:
                student = read_student(folder, said.parts, module=module)
        return cls._of_student(student, said, file.statement)

    @classmethod
    def _of_student(cls, student: Any, said: Manifest, statement: PrivacyStatement) -> Self:
        """Return a classifier around a student that was taught elsewhere."""
        door, voters = said.door, said.settings["voters"]
        clf = cls(classes=said.classes, image_shape=door.image_shape).set_params(voters=voters)
        clf.classes_, clf.student_, clf.statement_ = said.class_array(), student, statement
        clf._measured_of, clf.voters_ = student, voters
        clf._remember(door)
        return clf
