"""Shadow models: clones of the user's estimator fitted on random halves, and their answers on every record."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config
from scipy.special import expit, log_expit, stdtrit
from sklearn.base import clone, is_clusterer, is_outlier_detector, is_regressor

from pate._core.files import begun_in, check_can_write, own_folder, save_arrays, stored_arrays, write_json
from pate._core.progress import track
from pate._core.secret import global_generators, training_seed
from pate._core.types import FloatArray, IndexArray, Mask
from pate.data.partition import distinct_ids
from pate.exceptions import InvalidInputError, PateError, RunFolderError
from pate.release.statement import counted_elsewhere
from pate.release.statement.model import PrivacyStatement
from pate.teachers import global_seed, seeded_clone, take_rows

# Scores and ROC curves of the attacks, with intervals over pairs of models.

# Scores of a target's answers, by other models fitted on other halves.

#: The attacks.
ATTACKS = ("lira", "lira-offline", "rmia", "loss", "label-only")
#: From so many pairs to compare with, each unit has its own variances (Carlini et al. 2022: from 64 models on).
_OWN_VARIANCE = 31
#: Least variance, as a share of the mean over all units: few models may agree on a unit by chance.
_LEAST_SHARE = 0.01
_LEAST_VARIANCE = 1e-9
#: Digits that scores are rounded to: sums in another order are no evidence.
_DIGITS = 9


@dataclass(frozen=True, repr=False)
class Answers:
    """The answers of every shadow model on every unit."""

    logit: FloatArray  # (n_shadows, n_units): log odds of the right class
    member: Mask  # (n_shadows, n_units): rows 2j and 2j + 1 are a pair
    robust: FloatArray | None = None  # (n_shadows, n_units): the share of copies of the unit with the right label
    _made: dict[str, _References] = field(default_factory=dict)

    def values(self, attack: str) -> FloatArray:
        if attack == "label-only":
            assert self.robust is not None
            return self.robust
        return np.asarray({"loss": log_expit, "rmia": expit}.get(attack, np.asarray)(self.logit))

    def references(self, attack: str) -> _References:
        if attack not in self._made:
            self._made[attack] = _References(self.values(attack), self.member)
        return self._made[attack]


@dataclass(frozen=True, repr=False)
class _Side:
    """Number of models on one side, and mean and variance of their answers: (n_targets, n_units) each."""

    n: FloatArray
    mean: FloatArray
    variance: FloatArray


class _References:
    """Sums over pairs of models, for means and variances without a target's own pair."""

    def __init__(self, values: FloatArray, member: Mask) -> None:
        self._centre = values.mean(axis=0)
        held = values - self._centre
        by_model = np.stack([np.stack([side, side * held, side * held**2]) for side in (member, ~member)])
        self._pairs = by_model[:, :, 0::2] + by_model[:, :, 1::2]  # (side, power, n_pairs, n_units)

    def of(self, targets: IndexArray, *, earlier: bool, without: IndexArray) -> tuple[_Side, _Side]:
        """Return the models with a unit and those without it, of all other pairs or of the earlier ones."""
        own = self._pairs[:, :, targets // 2]
        if earlier:
            sums = np.cumsum(self._pairs, axis=2)[:, :, targets // 2] - own
            each = (targets // 2 >= _OWN_VARIANCE)[:, None]
        else:
            sums = self._pairs.sum(axis=2)[:, :, None] - own - self._pairs[:, :, without].sum(axis=2)[:, :, None]
            each = np.full((len(targets), 1), self._pairs.shape[2] > _OWN_VARIANCE)
        return self._side(sums[0], each), self._side(sums[1], each)

    def _side(self, sums: FloatArray, each: Mask) -> _Side:
        n, total, squares = sums
        mean = total / np.maximum(n, 1)
        squares = np.maximum(squares - n * mean**2, 0.0)
        freedom = np.maximum(n - 1, 0)
        shared = squares.sum(axis=1, keepdims=True) / np.maximum(freedom.sum(axis=1, keepdims=True), 1)
        own = np.maximum(squares / np.maximum(freedom, 1), _LEAST_SHARE * shared)
        variance = np.where(each & (freedom > 0), own, shared)
        return _Side(n, mean + self._centre, np.maximum(variance, _LEAST_VARIANCE))


def scores(
    attack: str, answers: Answers, targets: IndexArray, *, earlier: bool = False, without: IndexArray | None = None
) -> FloatArray:
    """Return the membership scores of every unit, with each target compared with the other models.

    With t the log odds of the right class, and mean and variance over the other models with a unit (in) and without it
    (out): **lira** is log N(t; in) - log N(t; out) (Carlini et al. 2022, online; one variance for all units where there
    are fewer than 31 models on a side); **lira-offline** is (t - mean out) / sd out, which needs no model with it.
    **rmia** is the share of units z with p(x) / P(x) >= p(z) / P(z), where p is the target's probability of the right
    class and P the mean over other models with and without the unit (Zarifzadeh et al. 2024, gamma = 1; the population
    are the units themselves). **loss** is log p(x) (Yeom et al. 2018), which needs no other model.
    **label-only** is lira on the share of noisy copies whose label is right (Choquette-Choo et al. 2021).
    """
    said = answers.values(attack)[targets]
    if attack == "loss":
        return said
    none = np.array([], dtype=np.intp)
    inside, outside = answers.references(attack).of(
        targets, earlier=earlier, without=none if without is None else without
    )
    made = _score(attack, said, inside, outside)
    return np.asarray(np.round(made, _DIGITS), dtype=np.float64)


def _score(attack: str, said: FloatArray, inside: _Side, outside: _Side) -> FloatArray:
    if attack == "lira-offline":
        return np.asarray(np.where(outside.n > 0, (said - outside.mean) / np.sqrt(outside.variance), 0.0))
    both = (inside.n > 0) & (outside.n > 0)
    if attack == "rmia":
        ratio = said / np.maximum((inside.mean + outside.mean) / 2, np.finfo(float).tiny)
        # Units without answers of other models are neither scored nor compared with.
        ratio = np.asarray(np.round(np.where(both, ratio, 1.0), _DIGITS), dtype=np.float64)
        ranks = [np.searchsorted(np.sort(row), row, side="right") / len(row) for row in ratio]
        return np.asarray(ranks, dtype=np.float64)
    return np.asarray(np.where(both, _log_normal(said, inside) - _log_normal(said, outside), 0.0))


def _log_normal(said: FloatArray, side: _Side) -> FloatArray:
    return np.asarray(-((said - side.mean) ** 2) / (2 * side.variance) - np.log(side.variance) / 2)


#: Pairs are left out in so many groups at most.
_N_GROUPS = 16
#: Thresholds of a curve: all of the highest scores, then so many spread in two ways.
_SPREAD = 1_500
#: The least number of false alarms for a rate to be reported.
_FEWEST_ALARMS = 10


@dataclass(frozen=True)
class Interval:
    value: float
    low: float
    high: float


@dataclass(frozen=True, repr=False)
class Points:
    """One ROC: rates that rise from 0 to 1."""

    false_positives: FloatArray  # (n_points + 1,)
    true_positives: FloatArray
    #: (n_points,): Falling; at point j + 1 what is at or above ``thresholds[j]`` is taken for a member.
    thresholds: FloatArray

    @classmethod
    def of(cls, found: FloatArray, member: Mask) -> Points:
        """Return the ROC of scores and members, of one shape."""
        ranked = np.sort(found, axis=None)[::-1]
        n = len(ranked)
        ranks = np.concatenate([np.geomspace(1, n, _SPREAD), np.linspace(1, n, _SPREAD)]).astype(int)
        thresholds = np.unique(ranked[np.unique(ranks) - 1])[::-1]
        false, true = (np.append(0.0, share_above(np.sort(found[side]), thresholds)) for side in (~member, member))
        return cls(false, true, thresholds)

    def auc(self) -> float:
        return float(np.trapezoid(self.true_positives, self.false_positives))

    def at(self, rate: float) -> float:
        """Return the true positive rate at a false positive rate; interpolated between thresholds."""
        return float(np.interp(rate, *self._upper))

    @cached_property
    def _upper(self) -> tuple[FloatArray, FloatArray]:
        # Of points at one false positive rate only the highest.
        last = np.append(np.diff(self.false_positives) > 0, True)
        return self.false_positives[last], self.true_positives[last]


@dataclass(frozen=True, repr=False)
class Roc:
    """The ROC of an attack, and that without some pairs of models."""

    whole: Points
    left_out: Sequence[Points]
    n_out: int  # number of units that targets were not fitted on, over all targets
    #: How many of ``left_out`` lack targets: the others vary little, and are no independent evidence.
    n_apart: int

    def auc(self, level: float) -> Interval:
        return self._interval(self.whole.auc(), [points.auc() for points in self.left_out], level)

    def at(self, rate: float, level: float) -> Interval | None:
        """Return the true positive rate at a false positive rate; None where too few units could be false alarms."""
        if rate * self.n_out < _FEWEST_ALARMS:
            return None
        return self._interval(self.whole.at(rate), [points.at(rate) for points in self.left_out], level)

    def threshold(self, rate: float) -> float:
        """Return the least threshold with at most that false positive rate; infinite where there is none."""
        below = np.searchsorted(self.whole.false_positives, rate, side="right") - 1
        return np.inf if below == 0 else float(self.whole.thresholds[below - 1])

    def _interval(self, value: float, without: list[float], level: float) -> Interval:
        n = len(without)
        error = np.sqrt((n - 1) * np.var(without))
        half = float(stdtrit(max(self.n_apart, 2) - 1, (1 + level) / 2) * error)
        return Interval(value, max(0.0, value - half), min(1.0, value + half))


def roc_of(attack: str, answers: Answers, targets: IndexArray) -> tuple[Roc, FloatArray]:
    """Return the ROC of an attack, and the scores of shape (n_targets, n_units)."""
    found = scores(attack, answers, targets)
    pairs = np.arange(len(answers.member) // 2)
    left_out, n_apart = [], 0
    for group in range(min(_N_GROUPS, len(pairs))):
        without = pairs[group :: min(_N_GROUPS, len(pairs))]
        left = targets[~np.isin(targets // 2, without)]
        n_apart += len(left) < len(targets)
        left_out.append(Points.of(scores(attack, answers, left, without=without), answers.member[left]))
    n_out = int((~answers.member[targets]).sum())
    return Roc(Points.of(found, answers.member[targets]), left_out, n_out, n_apart), found


def share_above(ranked: FloatArray, thresholds: FloatArray) -> FloatArray:
    """Return the shares of ascending scores at or above each threshold."""
    return np.asarray(1 - np.searchsorted(ranked, thresholds, side="left") / len(ranked))


# A folder for shadow models' answers: a killed attack is resumed from it, and others use the same models.

_CONFIG = "attack.json"
_WARNING = "made from private records: do not publish"
_REMEDY = "Choose another folder, or delete this one if it is not needed."


class ShadowFolder:
    """A folder of shadow models' answers on one set of records: a file each, readable by its owner only."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def open(self, digest: str, *, random_state: int | None) -> int:
        """Start or resume an attack, and return the seed of all halves and fits."""
        stored = begun_in(self.path, _CONFIG, "attack")
        check_can_write("folder", self.path / _CONFIG)
        own_folder("folder", self.path)
        if stored is None:
            seed = training_seed(random_state)
            write_json(self.path / _CONFIG, {"warning": _WARNING, "sha256": digest, "seed": seed}, mode=0o600)
            return seed
        seed = stored.get("seed", -1)
        if stored.get("sha256") != digest or not isinstance(seed, int) or seed < 0:
            raise RunFolderError(f"{self.path} holds an attack on other records or on another estimator. {_REMEDY}")
        if random_state is not None and training_seed(random_state) != seed:
            raise RunFolderError(f"{self.path} holds an attack with another random_state. {_REMEDY}")
        return seed

    def save(self, index: int, shadow: Shadow) -> None:
        """Store one model's answers; they are on the disk when this returns."""
        save_arrays(self._file(index), **{**vars(shadow), "promise": json.dumps(shadow.promise)})

    def load(self, index: int) -> Shadow | None:
        """Return one model's stored answers; None where there are none, or the file is damaged."""
        found = stored_arrays(self._file(index))
        if found is None or "promise" not in found:
            return None
        return Shadow(**{"robust": None, **found, "promise": json.loads(str(found["promise"]))})

    def _file(self, index: int) -> Path:
        return self.path / f"shadow-{index:05d}.npz"


# The halves that shadow models are fitted on: pairs that share no unit.

#: Below it a half is too small for a model, and a rate of one in a hundred has no meaning.
LEAST_UNITS = 20
_HALVES = 0x4A1F


@dataclass(frozen=True, repr=False)
class Units:
    """The unit of each record: the record itself, or a person."""

    of: IndexArray  # (n_records,): the unit of each record
    n: int
    name: str  # {"record", "group"}
    first: IndexArray  # (n,): a record of each

    @classmethod
    def made(cls, n_records: int, groups: Any) -> Units:
        of = np.arange(n_records) if groups is None else distinct_ids(groups, n_records)[0]
        _, first = np.unique(of, return_index=True)
        if len(first) < LEAST_UNITS:
            held = "records" if groups is None else "groups"
            raise InvalidInputError(
                f"X must hold at least {LEAST_UNITS} {held}, got {len(first)}. A shadow model is fitted on one half of "
                "them, and rates are measured on the other half: pass more."
            )
        return cls(of, len(first), "record" if groups is None else "group", first)

    def mean(self, values: FloatArray) -> FloatArray:
        if self.name == "record":
            return values
        size = np.bincount(self.of, minlength=self.n)
        rows = values.reshape(-1, values.shape[-1])
        sums = np.stack([np.bincount(self.of, weights=row, minlength=self.n) for row in rows])
        return np.asarray((sums / size).reshape(*values.shape[:-1], self.n))


def draw_halves(n_units: int, n_shadows: int, seed: int) -> Mask:
    """Return which units are in which shadow model's half.

    A half depends on the seed and the number of its pair alone, so that more shadow models can be added. Of an
    odd number of units one is in neither half of a pair.
    """
    halves = np.zeros((n_shadows, n_units), dtype=bool)
    size = n_units // 2
    for pair in range(n_shadows // 2):
        order = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_HALVES, pair))).permutation(n_units)
        halves[2 * pair, order[:size]] = True
        halves[2 * pair + 1, order[size : 2 * size]] = True
    return halves


#: Between them lies the least probability; of models whose probabilities come in steps it is half a step.
_LEAST, _LARGEST_LEAST = 1e-6, 0.05
#: Parameters that must be None, and why.
_NONE_HERE = {
    "noise_seed": "all shadow models would draw the same noise",
    "ledger": "every shadow model would be charged there",
    "checkpoint": "one model's training would go on where another's stopped",
    "checkpoint_dir": "the shadow models' teachers would be stored there",
}


@dataclass(frozen=True, repr=False)
class Material:
    """The estimator and records of all shadow models (**sensitive**)."""

    estimator: Any
    X: Any
    y: Any
    groups: Any  # (n_records,)
    X_public: Any
    #: (n_copies * n_records, ...): Noisy copies of all rows, one after the other; None where not
    #: needed.
    copies: Any
    seed: int


@dataclass(frozen=True, repr=False)
class Shadow:
    """The answers of one shadow model (**sensitive**)."""

    logit: FloatArray  # (n_records,): log odds of the right class
    right: FloatArray  # (n_records,)
    robust: FloatArray | None  # (n_records,)
    #: What its statement promises: "epsilon", "delta", "adjacency", "unit", "seeded"; empty without one.
    promise: dict[str, Any]


def check_estimator(estimator: Any, X_public: Any = None) -> Any:
    """Return an unfitted clone; shadow models made from it are not counted as fits of the user's estimator."""
    if isinstance(estimator, type) or not all(hasattr(estimator, name) for name in ("fit", "get_params", "set_params")):
        kind = estimator.__name__ if isinstance(estimator, type) else type(estimator).__name__
        raise InvalidInputError(
            f"estimator must be an unfitted classifier of scikit-learn's kind or an ensemble of teachers, got {kind}. "
            "Every shadow model is a clone of it."
        )
    if any(is_kind(estimator) for is_kind in (is_regressor, is_clusterer, is_outlier_detector)):
        raise InvalidInputError(
            f"estimator must be a classifier, got {type(estimator).__name__}. These attacks use a model's "
            "confidence in a record's class."
        )
    for name, value in estimator.get_params(deep=True).items():
        why = _NONE_HERE.get(name.rpartition("__")[2])
        if why and value is not None:
            raise InvalidInputError(f"estimator must have {name}=None for an attack, as {why}. Leave it out.")
    if X_public is not None and "X_public" not in inspect.signature(estimator.fit).parameters:
        raise InvalidInputError(
            f"X_public is given, but {type(estimator).__name__}.fit takes no public rows. Leave it out."
        )
    with counted_elsewhere():
        return clone(estimator)


def shadows_of(
    material: Material, halves: list[IndexArray], *, n_jobs: int | None, folder: ShadowFolder | None, verbose: bool
) -> list[Shadow]:
    """Return the answers of a model fitted on each half; those stored in a folder are not fitted again."""
    every = range(len(halves))
    stored = {} if folder is None else {i: shadow for i in every if (shadow := folder.load(i)) is not None}
    found = {i: shadow for i, shadow in stored.items() if material.copies is None or shadow.robust is not None}
    left = [i for i in every if i not in found]
    work = Parallel(n_jobs=n_jobs, return_as="generator")
    fits = work(delayed(fit_shadow)(material, halves[i], i, in_worker=n_jobs not in (None, 1)) for i in left)
    for i, shadow in track(fits, total=len(halves), label="shadow models", show=verbose, begun=len(found)):
        found[i] = shadow
        if folder is not None:
            folder.save(i, shadow)
    return [found[i] for i in every]


def fit_shadow(material: Material, half: IndexArray, index: int, *, in_worker: bool) -> tuple[int, Shadow]:
    with counted_elsewhere(), global_generators(global_seed(material.seed, index)):
        try:
            # A fit's own workers would multiply with those beside it.
            with parallel_config(backend="sequential") if in_worker else nullcontext():
                return index, _asked(material, _trained(material, half, index))
        except PateError as error:
            raise type(error)(f"shadow model {index + 1} failed: {error}") from error
        except Exception as error:
            error.add_note(f"shadow model {index + 1} failed.")
            raise


def _trained(material: Material, half: IndexArray, index: int) -> Any:
    model = seeded_clone(material.estimator, material.seed, index)
    takes = inspect.signature(model.fit).parameters
    offered = {"groups": None if material.groups is None else material.groups[half], "X_public": material.X_public}
    more = {k: v for k, v in offered.items() if v is not None and k in takes}
    model.fit(take_rows(material.X, half), material.y[half], **more)
    return model


def _asked(material: Material, model: Any) -> Shadow:
    logit, right = said_of(model, material.X, material.y)
    robust = None
    if material.copies is not None:
        n = len(right)
        n_copies, robust = material.copies.shape[0] // n, right.copy()
        if n_copies:
            labels = np.tile(material.y, n_copies)
            robust += said_of(model, material.copies, labels)[1].reshape(n_copies, n).sum(axis=0)
        robust /= 1 + n_copies
    if not np.isfinite(logit).all():
        raise InvalidInputError(
            "the model's answers must be finite numbers, got NaN or infinity. Train it with a smaller learning rate, "
            "or scale its rows."
        )
    return Shadow(logit, right, robust, _promise(model))


def said_of(model: Any, X: Any, y: Any) -> tuple[FloatArray, FloatArray]:
    """Return a model's log odds of each row's right class, and whether its label is right (1 or 0).

    Of probabilities, and of shares of votes, they are log p - log(1 - p), where 0 is read as half of the least positive
    one; of a decision function, the margin to the next class; of labels alone, 1 or -1.
    """
    margins = False
    if hasattr(model, "predict_proba"):
        table, classes = np.asarray(model.predict_proba(X), dtype=np.float64), model.classes_
    elif hasattr(model, "decision_function"):
        table, classes, margins = np.asarray(model.decision_function(X), dtype=np.float64), model.classes_, True
        table = np.stack([-table / 2, table / 2], axis=1) if table.ndim == 1 else table
        if table.shape[1] != len(classes):
            raise InvalidInputError(
                f"decision_function must give one column for each of the {len(classes)} classes, got {table.shape[1]}. "
                "Set decision_function_shape='ovr'."
            )
    elif hasattr(model, "vote"):
        takes = "keep_labels" in inspect.signature(model.vote).parameters
        votes = model.vote(X, keep_labels=False) if takes else model.vote(X)
        table, classes = votes.counts / votes.n_teachers, votes.classes
    elif hasattr(model, "predict"):
        right = (np.asarray(model.predict(X)) == y).astype(np.float64)
        return 2 * right - 1, right
    else:
        raise InvalidInputError(
            "estimator must answer by predict_proba, decision_function, predict or vote, and its fitted clone has none "
            "of these. Wrap it in a classifier that has."
        )
    known, column = _columns(classes, y)
    rows, others = np.arange(len(column)), table.copy()
    own = np.where(known, table[rows, column], table.min(axis=1) if margins else 0.0)
    others[rows[known], column[known]] = -np.inf if margins else 0.0
    if margins:
        margin = own - others.max(axis=1)
        return margin, (margin > 0).astype(np.float64)
    least = float(np.clip(table[table > 0].min(initial=1.0) / 2, _LEAST, _LARGEST_LEAST))
    logit = np.log(np.maximum(own, least)) - np.log(np.maximum(others.sum(axis=1), least))
    return logit, (known & (table.argmax(axis=1) == column)).astype(np.float64)


def _columns(classes: Any, y: Any) -> tuple[Any, IndexArray]:
    """Return whether each row's class is one that the model knows, and its column (0 where it is not)."""
    place = {value: column for column, value in enumerate(np.asarray(classes).tolist())}
    column = np.array([place.get(value, -1) for value in np.asarray(y).tolist()], dtype=np.intp)
    return column >= 0, np.maximum(column, 0)


def _promise(model: Any) -> dict[str, Any]:
    statement = getattr(model, "statement_", None)
    if not isinstance(statement, PrivacyStatement):
        return {}
    g = statement.guarantee
    return {"epsilon": g.epsilon, "delta": g.delta, "adjacency": g.adjacency, "unit": statement.unit,
            "seeded": statement.seeded}  # fmt: skip
