"""Plans of several labels on record voters, and the model of the labels that they give."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator

from pate._core.tensors import load_tensors, save_tensors
from pate._core.types import FloatArray, IntArray
from pate.exceptions import CuratorWarning, InvalidInputError
from pate.models._labels import Labels, LabelsModel, LabelsPlan
from pate.models._regression import RegressionPlan, contributions
from pate.models.heads import DescentHead
from pate.models.recipes import RecordModel, keep_record_model, read_record_model
from pate.privacy.words import Guarantee
from pate.records import (
    HeldRecords,
    RecordVoters,
    Units,
    VectorSum,
    count_cells,
    slabs,
    sum_alone,
    sum_vectors,
    take,
    units_of_labels,
)
from pate.release import Evidence, ReleaseTerms
from pate.release.statement.fields import MeasuredQuality
from pate.release.statement.model import PrivacyStatement

#: Rows that are predicted at once.
_SLAB = 8192


@dataclass(repr=False, eq=False)
class SeveralModel(BaseEstimator):
    """A public model of several labels made from released sums: it maps raw rows to logits, at no cost.

    ``voters`` hold the public maps, ``names`` are of the labels.
    """

    voters: RecordVoters
    labels: LabelsModel
    names: tuple[str, ...]

    def decision_function(self, X: Any) -> FloatArray:
        """Return logits, shape (n_rows, n_labels)."""
        pieces = slabs(int(np.shape(X)[0]), _SLAB)
        parts = [self.labels.decision_function(self.voters.transform(take(X, np.arange(a, b)))) for a, b in pieces]
        return np.concatenate([np.zeros((0, len(self.names))), *parts])

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        for name in ("allow_nan", "categorical", "string"):  # public maps read cell by cell
            setattr(tags.input_tags, name, True)
        return tags


@dataclass(frozen=True, eq=False, repr=False)
class SeveralRelease:
    """Released labels of public rows, with their probabilities and what they cost: public.

    Attributes
    ----------
    labels : int64 array of shape (n_public, n_labels)
        0 or 1.
    probability : float64 array of shape (n_public, n_labels)
    names : tuple of str
    guarantee : Guarantee
    statement : PrivacyStatement
        Its ``quality`` says how good the model is at each label.

    Examples
    --------
    >>> SeveralRelease.__dataclass_params__.frozen
    True
    """

    labels: IntArray
    probability: FloatArray
    names: tuple[str, ...]
    guarantee: Guarantee
    statement: PrivacyStatement

    def __repr__(self) -> str:
        return f"SeveralRelease({len(self.labels)} rows, {len(self.names)} labels, {self.guarantee})"

    @property
    def n_queries(self) -> int:
        """The number of public rows."""
        return len(self.labels)

    def to_frame(self) -> Any:
        """Return a DataFrame with a column of 0 and 1 for each label, and ``p_LABEL`` with its probability."""
        return labels_frame(self.labels, self.probability, self.names)


def labels_frame(labels: IntArray, probability: FloatArray, names: tuple[str, ...]) -> Any:
    """Return labels and probabilities, shape (n_rows, n_labels), as a DataFrame: labels first."""
    import pandas as pd

    frames = (pd.DataFrame(labels, columns=list(names)), pd.DataFrame(probability.round(4), columns=proba_names(names)))
    return pd.concat(frames, axis=1)


def proba_names(names: tuple[str, ...]) -> list[str]:
    """Return what the columns of probabilities are called."""
    return [f"p_{name}" for name in names]


@dataclass(frozen=True, eq=False, kw_only=True)
class SeveralPlan(RegressionPlan):
    """A plan of rounds for several labels, with its public space and price, made without reading private data."""

    numbers: LabelsPlan
    _called: ClassVar[str] = "labels"

    @classmethod
    def of(cls, terms: ReleaseTerms, X_public: Any, *, names: tuple[str, ...], n_units: int, **said: Any) -> Self:  # type: ignore[override]
        """Fit the public maps and choose all rounds by public facts; nothing is spent.

        Parameters
        ----------
        names : tuple of str
            The labels.
        terms, X_public, n_units, unit, representation, image_shape, random_state, force, verbose
            As of :meth:`RegressionPlan.of`, and so what is raised.
        """
        given = {"representation": None, "image_shape": None, "random_state": 0, "force": False, "verbose": False}
        return cls._of(partial(LabelsPlan, names, n_units=n_units), terms, X_public, **(given | said))

    def run(  # type: ignore[override]
        self, X: Any, y: Any, *, groups: Any = None, evidence: Evidence | None = None
    ) -> tuple[SeveralRelease, SeveralModel]:
        """Charge the budget, ask every round, and return the labels of all public rows and the model.

        Parameters
        ----------
        X, y, groups : private records, their labels of shape (n, n_labels), and their owners
            A record of which a label or the owner cannot be read contributes nothing; one whose row cannot be read has
            no direction, and says something of prevalences alone.
        evidence : Evidence or None
            What the caller saw to, for the statement.

        Raises
        ------
        BudgetExceededError, LedgerError, InvalidInputError
            As of :func:`pate.open_ballot_session`.
        """
        names = self.numbers.names
        units = units_of_labels(y, names, groups, share=self._share, secret=self._secret())
        state, statement = self._played(units, X, y, groups, classes=names)
        assert state.model is not None
        assert state.pooled is not None
        whole, n = state.pooled, self.numbers.n_held_out
        quality = MeasuredQuality(labels=state.quality, f1=whole.f1, f1_error=whole.f1_error, unit=self.unit, n=n)
        evidence = evidence or Evidence()
        statement = evidence.message_of_model(replace(statement, quality=quality, doubts=quality.doubts()))
        model = SeveralModel(self.voters, state.model, names)
        logits = model.decision_function(self.rows)
        labels, probability = state.model.decided(logits), state.model.probable(logits)
        return SeveralRelease(labels, probability, names, statement.guarantee, statement), model

    def _hold(self, X: Any, units: Units, state: Labels, groups: Any) -> tuple[RecordVoters, HeldRecords]:
        """Return the records with their directions."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CuratorWarning)  # of labels the caller warned
            return self.voters, self.voters.hold(X, np.where(units.part("all"), 0, -1), groups=groups)

    def _summed(
        self, ask: Any, units: Units, records: tuple[RecordVoters, HeldRecords] | None, state: Labels, y: Any
    ) -> VectorSum:
        """Return the exact sum of what records contribute to this round."""
        part = "held out" if ask.held_out else "training"
        said: dict[str, Any] = {"part": part, "what": _WORDS[ask.step], "query": f"{self.name} {state.n_rounds}"}
        if ask.step == "prevalences":
            return sum_alone(units, y, clip=ask.bound, kind="counts", own=True, **said)
        assert records is not None
        voters, held = records
        votes = contributions(held, ask.votes, y, width=ask.shape[1])
        # Of persons, who may have more records or fewer, a record's place may differ between neighbours.
        said["own"] = voters.own_maps and (self.unit == "record" or voters.exact_maps)
        if ask.step == "residuals":
            return sum_vectors(units, held, votes, clip=ask.bound, **said)
        cells = votes.reshape(len(votes), -1, 3)
        codes = np.where(cells.any(axis=2), cells.argmax(axis=2), -1)
        return count_cells(units, codes, [3] * cells.shape[1], **said)


#: What each step's sums are, for a statement.
_WORDS = {
    "prevalences": "how many have each label",
    "residuals": "residuals of all labels under the model so far",
    "quality": "true positives, false positives and false negatives of each label",
}


# The model as files, and back.

_FILE, _FORM = "labels.safetensors", "model of several labels 1"
_ARRAYS = ("weights", "offsets", "prevalences", "thresholds")


def keep_several(model: SeveralModel, folder: Path) -> dict[str, Any]:
    """Write a model into a folder, and return the facts that :func:`read_several` needs besides."""
    m, d = model.labels, model.voters.space.n_components_
    save_tensors(folder / _FILE, {name: getattr(m, name) for name in _ARRAYS}, {}, form=_FORM)
    head = DescentHead(n_rounds=1).start(d, (0, 1))  # maps are kept as those of any record model
    return keep_record_model(RecordModel(model.voters, head), folder)


def read_several(folder: Path, facts: Any, names: tuple[str, ...], *, module: Any = None) -> SeveralModel:
    """Return the model that :func:`keep_several` wrote; it predicts exactly the same numbers."""
    arrays, _ = load_tensors(folder / _FILE, form=_FORM)
    held = read_record_model(folder, facts, (0, 1), module=module)
    n, found = len(names), [arrays[name] for name in _ARRAYS]
    shapes = [(held.voters.space.n_components_, n), (n,), (n,), (n,)]
    if [array.shape for array in found] != shapes or not all(np.isfinite(array).all() for array in found):
        raise InvalidInputError("the model's labels are not those that were saved. Fetch the file again.")
    return SeveralModel(held.voters, LabelsModel(*found), names)


def made_of_several(model: SeveralModel) -> tuple[str, ...]:
    """Return the parts of a model of several labels, one line each."""
    seen = getattr(model.voters.representation, "provenance_", None)
    return (
        *((f"rows: {seen}",) if seen else ()),
        f"directions: {model.voters.space.provenance_}",
        f"labels: a logit for each of {len(model.names)}, and a threshold by how common it is",
    )
