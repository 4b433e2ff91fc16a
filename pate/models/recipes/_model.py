"""The public models that plans produce, their predictions, and their files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from sklearn.base import BaseEstimator, ClassifierMixin

from pate._core.checks import check_choice, check_real
from pate._core.files import let_go
from pate._core.progress import track
from pate._core.secret import training_seed
from pate._core.tensors import load_tensors, save_tensors
from pate._core.types import FloatArray, IntArray, Mask
from pate.data import is_frame
from pate.exceptions import InvalidInputError
from pate.models.heads import CorrectedHead, DescentHead, ForestHead, LikelihoodHead, load_head
from pate.models.heads._linear import as_sure, read_moments, softmax
from pate.records import HeldRecords, RecordVoters, in_blocks, is_own, own_throughout, rows_of, slabs, take
from pate.records.ballot_sum import GRID
from pate.records.spaces import load_space
from pate.representations import Representation, load, n_rows

# How probabilities become answers: their temperature, and how a class is decided. What is computed from released
# numbers and public rows is post-processing (Dwork and Roth 2014, Proposition 2.1).

#: How a class is decided: the likeliest one, or the one whose probability is largest relative to its mean.
DECISIONS = ("likeliest", "balanced")
#: The mean probability of the decided class is at most this, and at least so much above guessing.
_SUREST, _ABOVE_GUESSING = 0.99, 0.01
#: Shares of classes are shrunk this much towards equal ones, so that a very rare class is not decided everywhere.
_TO_EQUAL = 0.1
#: Probabilities below it count as this.
_LEAST = 1e-300


def read_answering(facts: Mapping[str, Any], n_classes: int) -> dict[str, Any]:
    """Return temperature and weights from a model file; without them, values that change nothing."""
    temperature, weights = facts.get("temperature", 1.0), facts.get("weights", [])
    if not isinstance(weights, list) or len(weights) not in (0, n_classes):
        raise InvalidInputError(
            "the model's weights must be none or one per class, got another number. Fetch the file again."
        )
    return {
        "temperature": check_real("the model's temperature", temperature, low=0, low_open=True),
        "weights": tuple(check_real("the model's weights", weight, low=0, low_open=True) for weight in weights),
    }


def tempered(probability: FloatArray, temperature: float) -> FloatArray:
    """Return the probabilities with their logits divided by the temperature."""
    if temperature == 1 or not probability.size:
        return probability
    return softmax(np.log(np.maximum(probability, _LEAST)) / temperature)


def decided(probability: FloatArray, weights: tuple[float, ...] = ()) -> IntArray:
    """Return the class index of every row whose probability, divided by the class's weight, is largest."""
    odds = probability / np.asarray(weights) if weights else probability
    return np.asarray(odds.argmax(axis=1), dtype=np.int64)


def balancing(probability: FloatArray, temperature: float = 1.0) -> tuple[float, ...]:
    """Return the weights of balanced decisions: the mean probability of each class over the public rows.

    The best classifier for balanced accuracy divides by shares: it decides for the largest p(class | row)/p(class). The
    shares are shrunk a tenth of the way to equal ones, and raised to the temperature, as :func:`decided` divides
    untempered probabilities.

    ``probability`` is untempered; ``temperature`` must be known before any accuracy is measured, so that the decisions
    measured are the final ones.
    """
    m = probability.shape[1]
    shares = tempered(probability, temperature).mean(axis=0)
    shares = (1 - _TO_EQUAL) * shares + _TO_EQUAL / m
    return tuple(float(share) for share in shares**temperature)


def temperature_as_measured(probability: FloatArray, decisions: IntArray, accuracy: float) -> float:
    """Return the temperature at which the mean probability of the decided class is the measured accuracy.

    The mean is over the public rows: it assumes that they are drawn as the private ones are.

    ``probability`` (n_public, n_classes) is untempered; ``decisions`` holds class indices.
    """
    if not len(probability):
        return 1.0
    wanted = min(max(accuracy, 1 / probability.shape[1] + _ABOVE_GUESSING), _SUREST)
    times = as_sure(np.log(np.maximum(probability, _LEAST)), wanted, decisions)
    return float(f"{1 / times:.6g}")


def noise_temperature(head: Any, phi: FloatArray) -> float:
    """Return the temperature for the noise in a head's logits; 1 where its variance is unknown.

    sqrt(1 + pi s^2/8), with s^2 the noise variance of the difference of two logits: the mean of the logistic function
    over Gaussian logits is close to that of the mean logit divided by it (MacKay, "The evidence framework applied to
    classification networks", Neural Computation 4, 1992).
    """
    variance: Callable[[FloatArray], float] | None = getattr(head, "logit_variance", None)
    return 1.0 if variance is None else float(f"{math.sqrt(1 + math.pi * variance(phi) / 8):.6g}")


def check_decide(decide: Any) -> str:
    """Return ``decide``, if it is one of :data:`DECISIONS`."""
    return check_choice("decide", decide, DECISIONS)


def to_equal(decide: str) -> float:
    """Return how far decisions move the classes' shares towards equal ones."""
    return _TO_EQUAL if decide == "balanced" else 0.0


# The temperature where accuracy was not measured: from released sums, the distribution of their noise, and public rows.

#: The prior on the logarithm of a temperature: mean, standard deviation, and range.
_USUAL, _SPREAD, _FAR = 0.4, 0.5, 2.5


def unmeasured_temperature(head: Any, rounds: Sequence[Any], phi: FloatArray, probability: FloatArray) -> float:
    """Return the temperature at which public rows, labelled by the model, would give the released sums.

    Records voted with their labels, so the inner product of released sums and the model's logits shows how often the
    model is right. The noise in the sums is in the model too; its known contribution is subtracted. The temperature is
    the likeliest for the rest, given its noise and a prior: about 1.5, within a factor of 1.6 two times of three. The
    prior was chosen on development tables (``experiments/defaults.py``), and is no theorem. It assumes that public rows
    are drawn as the private ones are.

    For sums with much noise, where measuring the accuracy would cost too much. With little noise later rounds undo
    errors of earlier ones: then too much is subtracted, and the temperature is too high.

    ``head`` is the one before any student; ``phi`` (n_public, n_components) are public rows in the ballots' space,
    ``probability`` (n_public, n_classes) are the model's, untempered. For heads of other kinds it is
    :func:`noise_temperature`.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> phi, head = (
    ...     np.array([[1.0], [-1.0]]),
    ...     DescentHead(n_rounds=1, constant=False).start(1, (0, 1)),
    ... )
    >>> for votes in (90.0, 9.0):
    ...     ballots = SimpleNamespace(
    ...         statistics=[[votes, -votes]],
    ...         sigma=4.0,
    ...         n_units=2_000,
    ...         classes=(0, 1),
    ...         clip=0.1,
    ...     )
    ...     made = head.updated(ballots)
    ...     print(unmeasured_temperature(made, [ballots], phi, made.predict_proba(phi)))
    1.49
    12.2
    """
    if not len(phi):
        return 1.0
    if isinstance(head, DescentHead):
        unlikely = _of_steps(head, rounds, phi)
    elif isinstance(head, LikelihoodHead) and len(rounds) == 1 and rounds[0].clip is None:
        unlikely = _of_ballots(rounds[0], phi, probability)
    else:
        return noise_temperature(head, phi)

    def loss(log_t: float) -> float:
        return unlikely(math.exp(log_t)) + ((log_t - _USUAL) / _SPREAD) ** 2

    found = minimize_scalar(loss, bounds=(-_FAR, _FAR), method="bounded", options={"xatol": 1e-4})
    return float(f"{math.exp(found.x):.3g}")  # rounded, so that the last bits of sums do not matter


def _of_steps(head: DescentHead, rounds: Sequence[Any], phi: FloatArray) -> Callable[[float], float]:
    """Return a function of the temperature: minus log likelihood of the sum over records of <logits, ballot>."""
    logits, n = phi @ head.coef_, rounds[0].n_units
    then = head.start(len(head.coef_), head.classes_)
    gives, length = np.zeros_like(logits), 0.0  # by row and class, over all rounds
    for one in rounds:
        asked = softmax(phi @ then.coef_)
        apart = np.sqrt(np.maximum(1 - 2 * asked + np.square(asked).sum(axis=1, keepdims=True), 1e-12))
        step = head.step(one.sigma, one.clip, n)
        gives += step * np.minimum(1.0, one.clip / apart) * (logits - (asked * logits).sum(axis=1, keepdims=True))
        length += step * one.clip
        then = then.updated(one)
    agreement, variance = head.agreement()
    # The weights were made from the same records: subtract what each adds to its own logits.
    agreement -= n * length**2 * float(np.square(phi * np.sqrt(head.left())).sum(axis=1).mean())
    variance += n * float(gives.var(axis=0).mean())

    def unlikely(t: float) -> float:
        expected = n * float((softmax(logits / t) * gives).sum(axis=1).mean())
        return (agreement - expected) ** 2 / max(variance, 1e-12)

    return unlikely


def _of_ballots(release: Any, phi: FloatArray, probability: FloatArray) -> Callable[[float], float]:
    """Return a function of the temperature: minus log likelihood of class ballots, as in :class:`LikelihoodHead`."""
    moments = read_moments(release, phi)
    n, m, rows = moments.n_units, moments.n_classes, len(phi)
    sampled = (1 + n / rows) * (1 - 1 / m) / (m * n) * np.square(phi).mean(axis=0)
    weights = 1 / np.maximum(moments.noise**2 + sampled, 1e-12 / n**2)

    def unlikely(t: float) -> float:
        gap = phi.T @ (tempered(probability, t) - 1 / m) / rows - moments.mean
        return float((weights[:, None] * np.square(gap)).sum())

    return unlikely


_SEED_PATH = (0x20B11C,)
#: Maps and heads are fitted on so many public rows at most: more cost time and memory, and hardly change them.
_MOST_ROWS = 20_000
#: Columns that an error names.
_NAMED = 10
#: Rows that are predicted at once.
_SLAB = 8192


@dataclass(repr=False, eq=False, kw_only=True)
class Answers(ClassifierMixin, BaseEstimator):
    """Predictions of a public model from its untempered probabilities; a mixin.

    ``predict_proba`` divides logits by ``temperature``, which changes no decision. ``predict`` divides the untempered
    probabilities by ``weights``, if there are any, and decides for the largest.
    """

    temperature: float = 1.0
    weights: tuple[float, ...] = ()

    n_classes: ClassVar[int]

    @property
    def classes_(self) -> IntArray:
        """Class *indices*, as of every student here: int64 array of shape (n_classes,)."""
        return np.arange(self.n_classes, dtype=np.int64)

    def _asked(self, rows: Any) -> FloatArray:
        """Return the untempered probabilities of a slab of rows."""
        raise NotImplementedError

    def untempered(self, X: Any) -> FloatArray:
        """Return probabilities of shape (n_rows, n_classes), as the model gives them, without temperature."""
        parts = [self._asked(take(X, np.arange(a, b))) for a, b in slabs(int(np.shape(X)[0]), _SLAB)]
        return np.concatenate(parts) if parts else np.zeros((0, self.n_classes))

    def predict_proba(self, X: Any) -> FloatArray:
        """Return probabilities of shape (n_rows, n_classes)."""
        return tempered(self.untempered(X), self.temperature)

    def predict(self, X: Any) -> IntArray:
        """Return class indices of shape (n_rows,)."""
        return decided(self.untempered(X), self.weights)

    @property
    def decides(self) -> tuple[str, ...]:
        """Lines that say how classes are decided; none where it is for the likeliest."""
        if not self.weights:
            return ()
        return (f"decides: balanced, probabilities divided by {', '.join(f'{w:.3g}' for w in self.weights)}",)

    def answering(self) -> dict[str, Any]:
        """Return temperature and weights for :func:`read_answering`."""
        return {"temperature": self.temperature, "weights": list(self.weights)}

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        for name in ("allow_nan", "categorical", "string"):  # public maps read cell by cell
            setattr(tags.input_tags, name, True)
        return tags


@dataclass(repr=False, eq=False)
class RecordModel(Answers):
    """The public model of record voters, computed from released noisy sums: it takes raw rows and gives probabilities.

    Predicting costs no privacy. ``voters`` hold the public maps; ``columns`` is the map to columns, for a head that
    uses them beside the direction. For ``temperature`` and ``weights`` see ``predict_proba`` and ``predict``.

    Examples
    --------
    >>> from pate.models.heads import LinearHead
    >>> from pate.records import SignedSpace
    >>> voters = RecordVoters(None, SignedSpace().fit(np.eye(3)), classes=("no", "yes"))
    >>> model = RecordModel(voters, LinearHead.of(np.eye(2), ("no", "yes")))
    >>> model.predict_proba(np.eye(3)).shape
    (3, 2)
    """

    voters: RecordVoters
    head: Any
    columns: Representation | None = None

    @property
    def n_classes(self) -> int:  # type: ignore[override]
        """The number of classes."""
        return len(self.voters.classes)

    def _asked(self, rows: Any) -> FloatArray:
        return np.asarray(self.head.predict_proba(self.asked(rows)))

    def asked(self, X: Any) -> FloatArray:
        """Return the head's input for these rows."""
        columns = None if self.columns is None else self.columns.vectors(X)
        return asked_with(self.head, *self.voters.represent(X), columns)

    def answers(self, X: Any, *, verbose: bool = False) -> IntArray:
        """Return the class index of each **private** row, from that row alone; -1 where it cannot be predicted.

        Records that the same voters hold are predicted from the directions that they cast, phi in whole 2^-16, as for
        residual ballots. **Sensitive.** Rows are predicted in blocks of one fixed shape, without those not finite.
        ``verbose`` shows progress, for records whose number is public.
        """
        if isinstance(X, HeldRecords):
            pieces = track(X.pieces, total=len(X.pieces), label="answers", show=verbose)
            parts = []
            for piece in pieces:
                parts.append(in_blocks(lambda p: self._predicted(p.astype(np.float64) / GRID), piece.p, len(piece.p)))
                let_go()
            casts = [p.labels >= 0 for p in X.pieces]
            return np.where(np.concatenate(casts), np.concatenate(parts), -1)
        rows, readable = rows_of(X, width=self.voters._map.width)
        n = n_rows(rows)
        made = track(slabs(n, _SLAB), total=-(-n // _SLAB), label="answers", show=verbose)
        asked = (take(rows, np.arange(a, b)) for a, b in made)
        parts = [in_blocks(lambda part: self._predicted(self.asked(part)), slab, n_rows(slab)) for slab in asked]
        return np.where(readable, np.concatenate([np.zeros(0, dtype=np.int64), *parts]), -1)

    def takes_held(self, held: Any, voters: RecordVoters) -> bool:
        """Whether :meth:`answers` takes records that these voters hold, and gives answers in the records' order."""
        alike = voters is self.voters and getattr(self.head, "takes", "phi") == "phi"
        return alike and isinstance(held, HeldRecords) and not held.unit_owners.grouped

    def own(self, *, unit: str) -> bool:
        """Whether each record is certain to be predicted from its own row alone, to the last bit.

        Under replace-one adjacency of records, whose places are fixed, pate's own code suffices; for persons, who may
        have more records or fewer, all of it must be exact wherever a row stands, too.
        """
        maps, head = self.voters._map, self.head
        own = maps.own and is_own(head, ".models.heads") and bool(getattr(head, "own_", False))
        columns = self.columns is None or own_throughout(self.columns)
        exact = maps.exact and bool(getattr(head, "exact_", False))
        exact = exact and (self.columns is None or bool(getattr(self.columns, "exact_", False)))
        return own and columns and (exact or (unit == "record" and self.voters.adjacency == "replace-one"))

    def _predicted(self, asked: FloatArray) -> tuple[IntArray, Mask]:
        fine = np.asarray(np.isfinite(asked).all(axis=1))
        probability = np.asarray(self.head.predict_proba(np.where(fine[:, None], asked, 0.0)))
        return decided(probability, self.weights), fine


def asked_with(head: Any, z: FloatArray, phi: FloatArray, columns: Any = None) -> FloatArray:
    """Return the head's input: the representation, or the direction, alone or beside the columns."""
    takes = getattr(head, "takes", "phi")
    if takes == "phi and columns":
        return np.concatenate([phi, columns], axis=1)
    return phi if takes == "phi" else z


def some_rows(X_public: Any, random_state: int = 0) -> Any:
    """Return the public rows that maps and heads are fitted on: all, or 20,000 at random.

    Examples
    --------
    >>> some_rows(np.zeros((30_000, 1))).shape
    (20000, 1)
    """
    n = int(np.shape(X_public)[0])
    if n <= _MOST_ROWS:
        return X_public
    chosen = np.random.default_rng(training_seed(random_state, *_SEED_PATH)).permutation(n)[:_MOST_ROWS]
    return take(X_public, np.sort(chosen))


def public_variances(z: npt.NDArray[Any], some: Any) -> tuple[float, ...]:
    """Return the variances of public rows' numbers, the largest first; refuse rows ``some`` that all become the same.

    Examples
    --------
    >>> public_variances(np.array([[0.0, 1.0], [4.0, 1.0]]), None)
    (4.0, 0.0)
    """
    variances = tuple(np.sort(z.var(axis=0))[::-1].tolist())
    if any(variances):
        return variances
    said = "; ".join(_of_no_use(name, some[name]) for name in some.columns[:_NAMED]) if is_frame(some) else ""
    raise InvalidInputError(
        f"the public rows all become the same numbers, and nothing can be learnt from those{f': {said}' * bool(said)}. "
        "Add a column of numbers, or of categories that several public rows share. Texts of several words can be read "
        "where they are all that there is: pass a list of texts, or a table of that one column."
    )


def _of_no_use(name: Any, column: Any) -> str:
    n = column.nunique()
    if n > 1:
        return f"{name!r} is left out, as each of its {n} categories is in one row only"
    return f"{name!r} is {'the same in all rows' if n else 'empty'}"


# The model that DP-SGD of a planned recipe trains: a linear model of public maps, stored as arrays.

_LINEAR_FORM, _WEIGHTS = "linear model 1", "weights.safetensors"


@dataclass(repr=False, eq=False)
class MappedLinear(Answers):
    """A linear classifier after a chain of public maps: it takes raw rows and gives probabilities.

    ``maps`` were fitted on public rows or are constants; there are none where rows are taken as they are; ``coef``,
    float32 of shape (n_classes, n_features), is of the logits; for the others see :class:`RecordModel`.

    Examples
    --------
    >>> MappedLinear((), np.eye(2, dtype=np.float32)).predict(
    ...     np.array([[0.2, 0.1], [0.0, 3.0]])
    ... )
    array([0, 1])
    """

    maps: tuple[Representation, ...]
    coef: npt.NDArray[np.float32]

    @property
    def n_classes(self) -> int:  # type: ignore[override]
        """The number of classes."""
        return len(self.coef)

    def _asked(self, rows: Any) -> FloatArray:
        for each in self.maps:
            rows = each.vectors(rows)
        seen = np.asarray(rows, dtype=np.float32).astype(np.float64)
        return softmax(seen @ self.coef.astype(np.float64).T)


def keep_linear(model: MappedLinear, folder: Path) -> dict[str, Any]:
    """Write a model into a folder, and return the facts that :func:`read_linear` needs besides."""
    for i, each in enumerate(model.maps):
        each.save(folder / _map(i))
    save_tensors(folder / _WEIGHTS, {"coef": model.coef}, {}, form=_LINEAR_FORM)
    return {"maps": [each.fingerprint() for each in model.maps], **model.answering()}


def read_linear(folder: Path, facts: Any, *, module: Any = None) -> MappedLinear:
    """Return the model that :func:`keep_linear` wrote; it predicts exactly the same numbers."""
    known = facts["maps"]
    maps = tuple(load(folder / _map(i), module=module if i == 0 else None) for i in range(len(known)))
    coef = load_tensors(folder / _WEIGHTS, form=_LINEAR_FORM)[0]["coef"]
    wide = maps[-1].n_features_out_ if maps else coef.shape[-1]
    fine = coef.ndim == 2 and coef.dtype == np.float32 and coef.shape[1] == wide and np.isfinite(coef).all()
    if not fine or [each.fingerprint() for each in maps] != known:
        raise InvalidInputError("the model's maps and weights are not those that were saved. Fetch the file again.")
    return MappedLinear(maps, coef, **read_answering(facts, len(coef)))


def made_of_linear(model: MappedLinear) -> tuple[str, ...]:
    """Return the parts of a linear model, one line each."""
    n_classes, n_features = model.coef.shape
    return (
        *(f"rows: {each.provenance_}" for each in model.maps),
        f"weights: {n_classes} classes by {n_features} features, trained by DP-SGD",
        *model.decides,
    )


def _map(i: int) -> str:
    return f"map{i}.safetensors"


# Files of the model of records' ballots: its public maps, its ballot space and its head, each as arrays.

_MAP, _SPACE, _HEAD, _COLUMNS = (f"{name}.safetensors" for name in ("representation", "space", "head", "columns"))
_FORM = "corrected head 1"
#: The module of the features of an image student.
_STUDENTS = "pate.models.students._features"


def keep_maps(voters: RecordVoters, folder: Path) -> str:
    """Write the public maps of voters into a folder, and return what their representation is, for :func:`read_maps`."""
    seen = voters.representation
    of_student = type(seen).__module__ == _STUDENTS
    if of_student:
        from pate.models.students._features import keep_features  # torch, which few need

        keep_features(seen, folder)
    elif isinstance(seen, Representation):
        seen.save(folder / _MAP)
    elif seen is not None:
        raise InvalidInputError(
            f"a {type(seen).__name__} cannot be saved in a model file. Wrap it in pate.representations.FromTransformer."
        )
    voters.space.save(folder / _SPACE)
    return "student" if of_student else "none" if seen is None else "map"


def read_maps(
    folder: Path,
    kind: str,
    classes: tuple[Any, ...],
    *,
    classes_inferred: bool = False,
    module: Any = None,
    own: bool = False,
) -> RecordVoters:
    """Return voters with the maps that :func:`keep_maps` wrote; ``own``: nothing but maps of pate's own is built."""
    seen: Any = None
    if kind == "student":
        from pate.models.students._features import read_features

        seen = read_features(folder)
    elif kind != "none":
        seen = load(folder / _MAP, module=module, own=own)
    return RecordVoters(seen, load_space(folder / _SPACE), classes=classes, classes_inferred=classes_inferred)


def keep_record_model(model: RecordModel, folder: Path, *, maps: bool = True) -> dict[str, Any]:
    """Write a model into a folder, and return the facts that :func:`read_record_model` needs besides.

    Without ``maps`` its voters are left out: who reads it has them.
    """
    voters, head = model.voters, model.head
    if not (is_own(voters.space, ".records") and is_own(head, ".models.heads")):
        raise InvalidInputError(
            "a model with a space or a head of your own cannot be saved: model files hold no code. Use pate's own."
        )
    kind = keep_maps(voters, folder) if maps else ""
    if isinstance(head, CorrectedHead):
        facts = {"tau": head.tau, "max_iter": head.max_iter, "n_components": head.n_components_}
        save_tensors(folder / _HEAD, {"coef": head.coef_}, facts, form=_FORM)
    else:
        head.save(folder / _HEAD)
    if model.columns is not None:
        model.columns.save(folder / _COLUMNS)
    return {
        "representation": kind,
        "corrected": isinstance(head, CorrectedHead),
        "columns": model.columns is not None,
        "classes_inferred": voters.classes_inferred,
        "fingerprints": [voters.fingerprint(), head.fingerprint()],
        **model.answering(),
    }


def read_record_model(
    folder: Path,
    facts: Any,
    classes: tuple[Any, ...],
    *,
    module: Any = None,
    voters: RecordVoters | None = None,
) -> RecordModel:
    """Return the model that :func:`keep_record_model` wrote; it predicts exactly the same numbers.

    ``voters`` are those of a model that was kept without its maps: nothing but columns of pate's own is then built.
    """
    own = voters is not None
    if voters is None:
        inferred = bool(facts["classes_inferred"])
        voters = read_maps(folder, facts["representation"], classes, classes_inferred=inferred, module=module)
    head: Any
    if facts["corrected"]:
        arrays, settings = load_tensors(folder / _HEAD, form=_FORM)
        head = CorrectedHead(voters.space, tau=settings["tau"], max_iter=settings["max_iter"])
        head.coef_, head.n_components_ = arrays["coef"], int(settings["n_components"])
        head.takes, head.scale_, head.constant_ = "representation", 1.0, 0.0
    else:
        head = load_head(folder / _HEAD)
    head.classes_ = voters.classes
    if isinstance(head, ForestHead):
        _check_forest(head)
    if [voters.fingerprint(), head.fingerprint()] != facts["fingerprints"]:
        raise InvalidInputError("the model's maps and head are not those that were saved. Fetch the file again.")
    columns = load(folder / _COLUMNS, own=own) if facts["columns"] else None
    _check_head(head, voters, columns)
    return RecordModel(voters, head, columns, **read_answering(facts, len(classes)))


def made_of(model: RecordModel) -> tuple[str, ...]:
    """Return the parts of a model of ballots, one line each."""
    voters, head = model.voters, model.head
    seen = getattr(voters.representation, "provenance_", None)
    return (
        *((f"rows: {seen}",) if seen else ()),
        f"directions: {voters.space.provenance_}",
        f"head: {type(head).__name__} of {len(voters.classes)} classes",
        *model.decides,
    )


def _check_head(head: Any, voters: RecordVoters, columns: Any) -> None:
    """Refuse a head of numbers that are not finite, or that takes or gives others than the voters' rows and classes."""
    maps, takes = voters._map, getattr(head, "takes", "phi")
    wide: Any = maps.d if takes != "representation" else getattr(maps.representation, "n_features_out_", maps.width)
    wide += columns.n_features_out_ if takes == "phi and columns" and columns is not None else 0
    fine = takes in ("phi", "representation", "phi and columns") and (takes == "phi and columns") == (
        columns is not None
    )
    fine = fine and head.n_components_ == wide
    fine = fine and all(bool(np.isfinite(getattr(head, name)).all()) for name in head.fitted_arrays)
    if fine:  # its arrays fit, whatever the rows are
        fine = np.shape(head.predict_proba(np.zeros((1, wide)))) == (1, len(voters.classes))
    if not fine:
        raise InvalidInputError("the model's head is not one of its maps and classes. Fetch the file again.")


def _check_forest(head: ForestHead) -> None:
    """Refuse trees in which a walk from the root may not reach a leaf."""
    n, (column, left, right) = len(head.splits_), head.splits_.T
    inner = column >= 0
    here = np.arange(n)[inner]
    fine = all(((child[inner] > here) & (child[inner] < n)).all() for child in (left, right))
    fine = fine and (column < head.n_components_ - len(head.coef_)).all()
    if not fine or not ((head.roots_ >= 0) & (head.roots_ < n)).all() or len(head.values_) != n:
        raise InvalidInputError("the model's trees have nodes or columns out of range. Fetch the file again.")
