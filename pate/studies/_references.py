"""What a run looks like without privacy: numbers for the curator's report, and for nothing else."""

from __future__ import annotations

import math
import warnings
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

from pate.data import Dataset
from pate.estimator import PATEClassifier
from pate.exceptions import PateWarning
from pate.mechanisms import LNMax, Mechanism
from pate.privacy.budget import Budget
from pate.recipes import RecordsPlan
from pate.release import LabelRelease, ReleaseTerms
from pate.report.result import EnsembleCurve, LabelAccuracy, PrivatePrice, Reference, SensitiveResult
from pate.students import fit_student
from pate.studies.account import account
from pate.teachers import HeadTeacherEnsemble, ShardEnsemble, TeacherEnsemble, ensemble_curve
from pate.votes import Votes

# A good ordinary model by kind of data: what is reached without any privacy.

#: A kernel machine on more rows takes longer than everything else together.
LARGE = 20_000


def ordinary_model(kind: str, n_records: int, *, seed: int) -> Any:
    """Return an unfitted model of a kind that is usual for such data: boosted trees on tables, else a kernel machine.

    Of more than 20,000 images, a network of one layer.

    Parameters
    ----------
    kind : {"table", "image"}
    n_records : int
    seed : int
    """
    if kind == "table":
        return HistGradientBoostingClassifier(random_state=seed)
    return SVC() if n_records <= LARGE else MLPClassifier((128,), max_iter=15, random_state=seed)


#: Teachers are scored on so many test rows at most: every one of them votes on each.
_REFERENCE_ROWS = 2000
#: Epsilon of "without noise": its standard deviation is then below a hundredth of a ballot.
_NEXT_TO_NO_NOISE = 1e4


def look_behind(data: Dataset, coded: Dataset, plan: RecordsPlan, clf: PATEClassifier, seed: int) -> SensitiveResult:
    """Return the numbers without privacy of one repeat in which records voted; for the sensitive report only.

    There are no teachers, no margins, and no data-dependent cost: a Gaussian sum has none that is lower.

    Parameters
    ----------
    data, coded : Dataset
        As the records' representation reads it, and encoded as numbers.
    plan : RecordsPlan
        What ``clf.fit_keeping`` gave.
    clf : PATEClassifier
        Fitted.
    seed : int
    """
    private = data.private
    # The same maps, rounds and head; at this epsilon the noise is far below one ballot.
    voters = copy(plan.voters)
    voters.verbose = False
    terms = ReleaseTerms(budget=Budget(_NEXT_TO_NO_NOISE, plan.terms.budget.delta))
    quiet = replace(plan, voters=voters, terms=terms)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PateWarning)
        _, model = quiet.run(private.X, private.y, groups=private.groups)
    test, truth = data.test.X[:_REFERENCE_ROWS], data.test.y[:_REFERENCE_ROWS]
    name, accuracy = _ordinary_model(coded, seed)
    found = {
        f"non-private {name}, all private data": accuracy,
        "the same ballots without noise": float((model.predict(test) == truth).mean()),
    }
    return SensitiveResult(
        references=_rows(found, seed),
        label_accuracy=_right(data, clf, seed),
        notes=("Records voted, so there are no teachers' margins, and no cost that depends on the data: a Gaussian sum "
               "has no lower one.",),
    )  # fmt: skip


def _rows(found: dict[str, Any], seed: int) -> tuple[Reference, ...]:
    return tuple(Reference(name=n, accuracy=float(a), seed=seed) for n, a in found.items())


def _right(data: Dataset, clf: PATEClassifier, seed: int) -> tuple[LabelAccuracy, ...]:
    release = clf.release_
    right = (release.labels == data.public.y_for_evaluation[clf.queries_])[release.answered]
    return (LabelAccuracy(accuracy=float(right.mean()), seed=seed),) if len(right) else ()


def look_inside(
    data: Dataset,
    coded: Dataset,
    teachers: ShardEnsemble,
    votes: Votes,
    clf: PATEClassifier,
    seed: int,
    *,
    delta: float,
    first: bool,
) -> SensitiveResult:
    """Return the numbers without privacy of one repeat; they go to the sensitive report only.

    Parameters
    ----------
    data, coded : Dataset
        As the teachers read it, and encoded as numbers.
    teachers, votes
        What ``clf.fit_keeping`` gave; **sensitive**.
    clf : PATEClassifier
        Fitted.
    seed : int
    delta : float
        For the data-dependent costs.
    first : bool
        Whether this is the first repeat, which alone is shown in detail.
    """
    test, truth = data.test.X[:_REFERENCE_ROWS], data.test.y[:_REFERENCE_ROWS]
    on_test = teachers.vote(test)
    assert on_test.labels is not None
    alone = (on_test.labels == truth).mean(axis=1)
    plurality = votes.counts.argmax(axis=1)
    labels = np.full(len(data.public.X), -1, dtype=np.int64)
    labels[clf.queries_] = plurality
    student = clone(clf.student_) if clf.student is None else clf.student
    noiseless = fit_student(student, data.public.X, labels, random_state=seed)
    name, accuracy = _open_model(teachers, data, coded, seed)
    found = {
        f"non-private {name}, all private data": accuracy,
        "noiseless ensemble": (on_test.counts.argmax(axis=1) == truth).mean(),
        "student from noiseless votes": noiseless.score(test, truth),
        "single teacher (mean)": alone.mean(),
    }
    release = clf.release_
    assert isinstance(release, LabelRelease)
    inside = SensitiveResult(references=_rows(found, seed), label_accuracy=_right(data, clf, seed))
    if not first:
        return inside
    top = np.sort(votes.counts, axis=1)
    report = account(votes, release.mechanism, delta=delta, max_answers=release.quote.max_answers)
    curve = ensemble_curve(
        on_test.labels, truth, n_classes=len(data.classes), margin_noise=margin_noise(release.mechanism)
    )
    return replace(
        inside,
        margins=tuple((top[:, -1] - top[:, -2]).tolist()),
        n_teachers=votes.n_teachers,
        teacher_accuracy=tuple(alone.tolist()),
        ensemble_curve=EnsembleCurve.from_dict(curve),
        data_dependent=tuple(
            PrivatePrice(label=label, epsilon=g.epsilon, delta=g.delta, method=f"{g.method}, {g.directions}", use=use)
            for label, wrapped, use in (
                ("best data-dependent bound", report.data_dependent, "internal study; never publish"),
                ("2018 paper's analysis", report.papernot2018, "comparison with papers; never publish"),
                ("2017 paper's analysis", report.papernot2017, "comparison with papers; never publish"),
            )
            if wrapped is not None
            for g in (wrapped.reveal(),)
        ),
    )


def margin_noise(mechanism: Mechanism) -> float:
    """Return the standard deviation, in votes, of the noise on the difference of two counts."""
    if isinstance(mechanism, LNMax):
        return 2.0 * mechanism.scale  # the variance of each of the two is 2 scale^2
    return math.sqrt(2.0) * float(mechanism.sigma)  # type: ignore[attr-defined]  # every other one is Gaussian


def _open_model(teachers: ShardEnsemble, data: Dataset, coded: Dataset, seed: int) -> tuple[str, float]:
    """Return the name and accuracy of a model of the teachers' kind that saw all private rows."""
    X, y = data.private.X, data.private.y
    test, truth = data.test.X[:_REFERENCE_ROWS], data.test.y[:_REFERENCE_ROWS]
    if isinstance(teachers, TeacherEnsemble):
        # A kernel machine on 50,000 rows takes longer than the whole run.
        large = len(y) > LARGE
        model = MLPClassifier((128,), max_iter=15, random_state=seed) if large else clone(teachers.estimator)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)
        return type(model).__name__, model.score(test, truth)
    if isinstance(teachers, HeadTeacherEnsemble):
        return _ordinary_model(coded, seed)
    # One torch teacher of everything; on many rows in fewer passes, as each has many steps.
    from pate.teachers.torch._recipe import default_steps

    ensemble: Any = clone(teachers)
    n = min(LARGE, len(y))
    if ensemble.epochs is None:
        ensemble.set_params(n_steps=max(ensemble.n_steps or 0, default_steps(n, ensemble.batch_size)))
    else:
        ensemble.set_params(epochs=max(1, ensemble.epochs * n // len(y)))
    ensemble.set_params(n_teachers=1, random_state=seed, checkpoint_dir=None, verbose=False)
    counts = ensemble.fit(X, y).vote(test, keep_labels=False).counts
    return ensemble.module.__name__, (counts.argmax(axis=1) == truth).mean()


def _ordinary_model(coded: Dataset, seed: int) -> tuple[str, float]:
    """Return the name and accuracy of a good model of all private rows, of a kind that is usual for such data."""
    y = coded.private.y
    model = ordinary_model(coded.kind, len(y), seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(coded.private.X, y)
    return type(model).__name__, model.score(coded.test.X[:_REFERENCE_ROWS], coded.test.y[:_REFERENCE_ROWS])
