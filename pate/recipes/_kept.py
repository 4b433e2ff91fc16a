"""The model of records' ballots as files: its public maps, its ballot space and its head, each as arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pate.core.tensors import load_tensors, save_tensors
from pate.exceptions import InvalidInputError
from pate.heads import CorrectedHead, ForestHead, load_head
from pate.recipes._answers import read_answering
from pate.recipes._model import RecordModel
from pate.records import RecordVoters
from pate.records._maps import is_own
from pate.records.spaces import load_space
from pate.representations import Representation, load

_MAP, _SPACE, _HEAD, _COLUMNS = (f"{name}.safetensors" for name in ("representation", "space", "head", "columns"))
_FORM = "corrected head 1"
#: Where the features of an image student come from.
_STUDENTS = "pate.students._features"


def keep_record_model(model: RecordModel, folder: Path) -> dict[str, Any]:
    """Write a model into a folder, and return what :func:`read_record_model` needs to know besides.

    Raises
    ------
    InvalidInputError
        A part of it is somebody's own class, which no file can hold.
    """
    voters, head, seen = model.voters, model.head, model.voters.representation
    if not (is_own(voters.space, ".records") and is_own(head, ".heads")):
        raise InvalidInputError(
            "a model with a space or a head of your own cannot be kept in a file: it holds no code."
        )
    of_student = type(seen).__module__ == _STUDENTS
    if of_student:
        from pate.students._kept_features import keep_features  # torch, which few need

        keep_features(seen, folder)
    elif isinstance(seen, Representation):
        seen.save(folder / _MAP)
    elif seen is not None:
        raise InvalidInputError(
            f"a {type(seen).__name__} cannot be kept in a model file. Wrap it in pate.representations.FromTransformer."
        )
    voters.space.save(folder / _SPACE)
    if isinstance(head, CorrectedHead):
        facts = {"tau": head.tau, "max_iter": head.max_iter, "n_components": head.n_components_}
        save_tensors(folder / _HEAD, {"coef": head.coef_}, facts, form=_FORM)
    else:
        head.save(folder / _HEAD)
    if model.columns is not None:
        model.columns.save(folder / _COLUMNS)
    return {
        "representation": "student" if of_student else "none" if seen is None else "map",
        "corrected": isinstance(head, CorrectedHead),
        "columns": model.columns is not None,
        "classes_inferred": voters.classes_inferred,
        "fingerprints": [voters.fingerprint(), head.fingerprint()],
        **model.answering(),
    }


def read_record_model(folder: Path, told: Any, classes: tuple[Any, ...], *, module: Any = None) -> RecordModel:
    """Return the model that :func:`keep_record_model` wrote; it answers with the very same numbers.

    Parameters
    ----------
    folder : path
    told : dict
        What it returned.
    classes : tuple
    module : torch module, or list of them
        See :func:`pate.representations.load`.

    Raises
    ------
    InvalidInputError
        The parts are damaged, or not those that belong together.
    """
    seen: Any = None
    if told["representation"] == "student":
        from pate.students._kept_features import read_features

        seen = read_features(folder)
    elif told["representation"] != "none":
        seen = load(folder / _MAP, module=module)
    space = load_space(folder / _SPACE)
    voters = RecordVoters(seen, space, classes=classes, classes_inferred=bool(told["classes_inferred"]))
    head: Any
    if told["corrected"]:
        arrays, facts = load_tensors(folder / _HEAD, form=_FORM)
        head = CorrectedHead(space, tau=facts["tau"], max_iter=facts["max_iter"])
        head.coef_, head.n_components_ = arrays["coef"], int(facts["n_components"])
        head.takes, head.scale_, head.constant_ = "representation", 1.0, 0.0
    else:
        head = load_head(folder / _HEAD)
    head.classes_ = voters.classes
    if isinstance(head, ForestHead):
        _check_forest(head)
    if [voters.fingerprint(), head.fingerprint()] != told["fingerprints"]:
        raise InvalidInputError("the model's maps and head are not those that were saved.")
    columns = load(folder / _COLUMNS) if told["columns"] else None
    return RecordModel(voters, head, columns, **read_answering(told, len(classes)))


def made_of(model: RecordModel) -> tuple[str, ...]:
    """Return in lines what a model is made of."""
    voters, head = model.voters, model.head
    seen = getattr(voters.representation, "provenance_", None)
    return (
        *((f"rows: {seen}",) if seen else ()),
        f"directions: {voters.space.provenance_}",
        f"head: {type(head).__name__} of {len(voters.classes)} classes",
        *model.decides,
    )


def _check_forest(head: ForestHead) -> None:
    """Refuse trees in which whoever walks down does not arrive."""
    n, (column, left, right) = len(head.splits_), head.splits_.T
    inner = column >= 0
    here = np.arange(n)[inner]
    fine = all(((child[inner] > here) & (child[inner] < n)).all() for child in (left, right))
    fine = fine and (column < head.n_components_ - len(head.coef_)).all()
    if not fine or not ((head.roots_ >= 0) & (head.roots_ < n)).all() or len(head.values_) != n:
        raise InvalidInputError("the model's trees point out of themselves.")
