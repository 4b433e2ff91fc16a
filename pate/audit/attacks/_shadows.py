"""Shadow models: the user's estimator, cloned and fitted on halves; what each of them says of every record."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from joblib import Parallel, delayed, parallel_config
from sklearn.base import clone, is_clusterer, is_outlier_detector, is_regressor

from pate.core.files import atomic_path, check_can_write, write_json
from pate.core.progress import track
from pate.core.secret import global_generators, training_seed
from pate.core.types import FloatArray, IndexArray, Mask
from pate.data._ids import distinct_ids
from pate.exceptions import InvalidInputError, PateError, RunFolderError
from pate.statement._fits import counted_elsewhere
from pate.statement.model import PrivacyStatement
from pate.studies.folders import read_json
from pate.teachers._rows import take_rows
from pate.teachers._shards import global_seed, seeded_clone

# A folder that keeps what shadow models said, so that a killed attack goes on, and another reads the same models.

_CONFIG = "attack.json"
_WARNING = "made from private records: do not publish"
_REMEDY = "Choose another folder, or delete this one if it is not needed."


class ShadowFolder:
    """What shadow models of one estimator, on one set of records, said: a file each, for its owner only.

    Parameters
    ----------
    path : path
        Made when absent (mode 0700).
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def open(self, digest: str, *, random_state: int | None) -> int:
        """Start here or go on, and return the seed of all halves and fits.

        Raises
        ------
        RunFolderError
            It holds something else.
        InvalidInputError
            It cannot be made or written to.
        """
        if self.path.exists() and not self.path.is_dir():
            raise RunFolderError(f"{self.path} is a file. Choose a folder.")
        check_can_write("folder", self.path / _CONFIG)
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInputError(
                f"folder must be a folder that can be made, got {str(self.path)!r} ({error.strerror or error})."
            ) from None
        config = self.path / _CONFIG
        if not config.exists():
            if any(not entry.name.startswith(".") for entry in self.path.iterdir()):
                raise RunFolderError(f"{self.path} is not empty and holds no attack. {_REMEDY}")
            seed = training_seed(random_state)
            write_json(config, {"warning": _WARNING, "sha256": digest, "seed": seed}, mode=0o600)
            return seed
        kept = read_json(config)
        seed = kept.get("seed", -1)
        if kept.get("sha256") != digest or not isinstance(seed, int) or seed < 0:
            raise RunFolderError(f"{self.path} holds an attack on other records or on another estimator. {_REMEDY}")
        if random_state is not None and training_seed(random_state) != seed:
            raise RunFolderError(f"{self.path} holds an attack with another random_state. {_REMEDY}")
        return seed

    def save(self, index: int, **arrays: Any) -> None:
        """Keep what one model said; it is on the disk when this returns."""
        kept = {name: value for name, value in arrays.items() if value is not None}
        with atomic_path(self._file(index), mode=0o600) as part, open(part, "wb") as file:
            np.savez(file, **kept)

    def load(self, index: int) -> dict[str, Any] | None:
        """Return what one model said; None where it was not asked yet, or the file is damaged."""
        try:
            with np.load(self._file(index), allow_pickle=False) as file:
                found = {name: file[name] for name in file.files}
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            return None
        if "promise" not in found:
            return None
        return {"robust": None, **found, "promise": str(found["promise"])}

    def _file(self, index: int) -> Path:
        return self.path / f"shadow-{index:05d}.npz"


# Who is in which shadow model's half: pairs of halves that share no unit.

#: Below it a half is too small for a model, and a rate of one in a hundred has no meaning.
LEAST_UNITS = 20
_HALVES = 0x4A1F


@dataclass(frozen=True, repr=False)
class Units:
    """Whose record each is: its own, or a person's.

    Attributes
    ----------
    of : int array of shape (n_records,)
        The unit of each record.
    n : int
    name : {"record", "group"}
    first : int array of shape (n,)
        A record of each.
    """

    of: IndexArray
    n: int
    name: str
    first: IndexArray

    @classmethod
    def made(cls, n_records: int, groups: Any) -> Units:
        """Return the units of ``groups``, or one for each record."""
        of = np.arange(n_records) if groups is None else distinct_ids(groups, n_records)[0]
        _, first = np.unique(of, return_index=True)
        if len(first) < LEAST_UNITS:
            held = "records" if groups is None else "groups"
            raise InvalidInputError(
                f"X must hold at least {LEAST_UNITS} {held}, got {len(first)}. Shadow models are fitted on halves of "
                "them, and rates are shares of the other half: bring more."
            )
        return cls(of, len(first), "record" if groups is None else "group", first)

    def mean(self, values: FloatArray) -> FloatArray:
        """Return the mean over each unit's records, of values of shape (..., n_records)."""
        if self.name == "record":
            return values
        size = np.bincount(self.of, minlength=self.n)
        rows = values.reshape(-1, values.shape[-1])
        sums = np.stack([np.bincount(self.of, weights=row, minlength=self.n) for row in rows])
        return np.asarray((sums / size).reshape(*values.shape[:-1], self.n))


def draw_halves(n_units: int, n_shadows: int, seed: int) -> Mask:
    """Return who is in which shadow model's half.

    A half hangs on the seed and the number of its pair alone, so that more shadow models join those there are. Of an
    odd number of units one is in neither half of a pair.

    Returns
    -------
    bool array of shape (n_shadows, n_units)
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
#: What a shadow model must not share with the others, or write to.
_NONE_HERE = {
    "noise_seed": "all shadow models would draw the same noise",
    "ledger": "every shadow model would be charged there",
    "checkpoint": "one model's training would go on where another's stopped",
    "checkpoint_dir": "the shadow models' teachers would be kept there",
}


@dataclass(frozen=True, repr=False)
class Material:
    """What all shadow models are made of and asked about (**sensitive**).

    Attributes
    ----------
    estimator : unfitted classifier or ensemble of teachers
    X, y : rows and class values
    groups : array of shape (n_records,) or None
    X_public : rows or None
    copies : float array of shape (n_copies * n_records, ...) or None
        Noisy copies of all rows, one after the other; None where nobody asks for them.
    seed : int
    """

    estimator: Any
    X: Any
    y: Any
    groups: Any
    X_public: Any
    copies: Any
    seed: int


@dataclass(frozen=True, repr=False)
class Shadow:
    """What one shadow model says (**sensitive**).

    Attributes
    ----------
    logit : float64 array of shape (n_records,)
        Log odds of the right class.
    right : bool array of shape (n_records,)
    robust : float64 array of shape (n_records,) or None
    promise : dict
        What its statement promises: "epsilon", "delta", "adjacency", "unit", "seeded"; empty without one.
    """

    logit: FloatArray
    right: FloatArray
    robust: FloatArray | None
    promise: dict[str, Any]


def check_estimator(estimator: Any, X_public: Any = None) -> Any:
    """Return an unfitted clone that is no kin of the user's own, so that shadow models are not counted as its fits."""
    if isinstance(estimator, type) or not all(hasattr(estimator, name) for name in ("fit", "get_params", "set_params")):
        kind = estimator.__name__ if isinstance(estimator, type) else type(estimator).__name__
        raise InvalidInputError(
            f"estimator must be an unfitted classifier of scikit-learn's kind or an ensemble of teachers, got {kind}. "
            "Every shadow model is a clone of it."
        )
    if any(is_kind(estimator) for is_kind in (is_regressor, is_clusterer, is_outlier_detector)):
        raise InvalidInputError(
            f"estimator must be a classifier, got {type(estimator).__name__}. These attacks look at how sure a model "
            "is of a record's class."
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
    material: Material,
    halves: list[IndexArray],
    *,
    n_jobs: int | None,
    folder: ShadowFolder | None,
    verbose: bool,
) -> list[Shadow]:
    """Return what a model fitted on each half says; those that a folder holds are not fitted again."""
    found: dict[int, Shadow] = {}
    if folder is not None:
        for i in range(len(halves)):
            kept = folder.load(i)
            if kept is not None and (material.copies is None or kept["robust"] is not None):
                found[i] = Shadow(**{**kept, "promise": json.loads(kept["promise"])})
    left = [i for i in range(len(halves)) if i not in found]
    fits = _fitted(material, halves, left, n_jobs)
    for i, shadow in track(fits, total=len(halves), label="shadow models", show=verbose, begun=len(found)):
        found[i] = shadow
        if folder is not None:
            folder.save(
                i,
                logit=shadow.logit,
                right=shadow.right,
                robust=shadow.robust,
                promise=json.dumps(shadow.promise),
            )
    return [found[i] for i in range(len(halves))]


def _fitted(
    material: Material, halves: list[IndexArray], left: list[int], n_jobs: int | None
) -> Iterator[tuple[int, Shadow]]:
    alone = n_jobs in (None, 1)
    work = Parallel(n_jobs=n_jobs, return_as="generator")
    yield from work(delayed(fit_shadow)(material, halves[i], i, in_worker=not alone) for i in left)


def fit_shadow(material: Material, half: IndexArray, index: int, *, in_worker: bool) -> tuple[int, Shadow]:
    """Fit one shadow model and ask it about every record."""
    with counted_elsewhere(), global_generators(global_seed(material.seed, index)):
        try:
            if in_worker:  # a fit's own workers would multiply with those beside it
                with parallel_config(backend="sequential"):
                    return index, _asked(material, _trained(material, half, index))
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
        n_copies = material.copies.shape[0] // n
        labels = np.tile(np.arange(n), n_copies)
        found = right.copy()
        if n_copies:
            found += said_of(model, material.copies, material.y[labels])[1].reshape(n_copies, n).sum(axis=0)
        robust = found / (1 + n_copies)
    if not np.isfinite(logit).all():
        raise InvalidInputError(
            "the model's answers must be finite numbers, got NaN or infinity. Train it more gently, or scale its rows."
        )
    return Shadow(logit, right, robust, _promise(model))


def said_of(model: Any, X: Any, y: Any) -> tuple[FloatArray, FloatArray]:
    """Return a model's log odds of each row's right class, and whether its label is right (1 or 0).

    Of probabilities, and of shares of votes, they are log p - log(1 - p), where 0 is read as half of the least positive
    one; of a decision function, the margin to the next class; of labels alone, 1 or -1.
    """
    if hasattr(model, "predict_proba"):
        shares, classes = np.asarray(model.predict_proba(X), dtype=np.float64), model.classes_
    elif hasattr(model, "decision_function"):
        return _margins(np.asarray(model.decision_function(X), dtype=np.float64), model.classes_, y)
    elif hasattr(model, "vote"):
        votes = model.vote(X, keep_labels=False) if _takes(model.vote, "keep_labels") else model.vote(X)
        shares, classes = votes.counts / votes.n_teachers, votes.classes
    elif hasattr(model, "predict"):
        right = (np.asarray(model.predict(X)) == y).astype(np.float64)
        return 2 * right - 1, right
    else:
        raise InvalidInputError(
            "estimator must answer by predict_proba, decision_function, predict or vote, and its fitted clone has none "
            "of these. Wrap it in a classifier that has."
        )
    known, column = _columns(classes, y)
    rows = np.arange(len(column))
    own = np.where(known, shares[rows, column], 0.0)
    others = shares.copy()
    others[rows[known], column[known]] = 0.0
    least = float(np.clip(shares[shares > 0].min(initial=1.0) / 2, _LEAST, _LARGEST_LEAST))
    logit = np.log(np.maximum(own, least)) - np.log(np.maximum(others.sum(axis=1), least))
    return logit, (known & (shares.argmax(axis=1) == column)).astype(np.float64)


def _margins(found: FloatArray, classes: Any, y: Any) -> tuple[FloatArray, FloatArray]:
    if found.ndim == 1:
        found = np.stack([-found / 2, found / 2], axis=1)
    if found.shape[1] != len(classes):
        raise InvalidInputError(
            f"decision_function must give one column for each of the {len(classes)} classes, got {found.shape[1]}. "
            "Set decision_function_shape='ovr'."
        )
    known, column = _columns(classes, y)
    rows = np.arange(len(column))
    own = np.where(known, found[rows, column], found.min(axis=1))
    others = found.copy()
    others[rows[known], column[known]] = -np.inf
    margin = own - others.max(axis=1)
    return margin, (margin > 0).astype(np.float64)


def _columns(classes: Any, y: Any) -> tuple[Any, IndexArray]:
    """Return whether each row's class is one that the model knows, and its column (0 where it is not)."""
    place = {value: column for column, value in enumerate(np.asarray(classes).tolist())}
    column = np.array([place.get(value, -1) for value in np.asarray(y).tolist()], dtype=np.intp)
    return column >= 0, np.maximum(column, 0)


def _takes(function: Any, name: str) -> bool:
    return name in inspect.signature(function).parameters


def _promise(model: Any) -> dict[str, Any]:
    statement = getattr(model, "statement_", None)
    if not isinstance(statement, PrivacyStatement):
        return {}
    said = statement.guarantee
    return {
        "epsilon": said.epsilon,
        "delta": said.delta,
        "adjacency": said.adjacency,
        "unit": statement.unit,
        "seeded": statement.seeded,
    }
