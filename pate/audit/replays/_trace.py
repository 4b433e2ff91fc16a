"""The trace of a replayed run: its steps, with public facts and private states, long ones as digests."""

from __future__ import annotations

import hashlib
import numbers
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import islice
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

import joblib
import numpy as np

from pate._core.recorder import Outcome
from pate.audit.replays._neighbours import Records, row_hashes
from pate.exceptions import InvalidInputError
from pate.votes import BallotVotes, Votes


@dataclass(frozen=True, repr=False)
class Event:
    """One step of a run."""

    stage: str
    who: str  # the class or sampler of that step
    #: Must be equal for neighbours, given what was released before.
    public: dict[str, Any] = field(default_factory=dict)
    private: dict[str, Any] = field(default_factory=dict)  # what may differ as much as one unit moves it


@dataclass(frozen=True, repr=False)
class Run:
    """One recorded run; **sensitive**."""

    events: tuple[Event, ...]
    outcomes: tuple[Outcome, ...]  # what was released
    error: Exception | None = None  # what the pipeline raised

    @property
    def refused(self) -> bool:
        """Whether pate's validation refused the data set: nothing was drawn or charged, and only the curator knows."""
        drawn = any(event.stage in ("noise", "charge", "ledger", "dpsgd") for event in self.events)
        return isinstance(self.error, InvalidInputError) and not drawn


def digest(value: Any, depth: int = 0) -> str:
    """Return a digest of anything that is made of arrays and plain values: equal states have equal digests."""
    value = _without_torch(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufcUSmM":
        head = f"{value.dtype.str} {value.shape} ".encode()
        return hashlib.sha256(head + np.ascontiguousarray(value).tobytes()).hexdigest()
    try:
        return str(joblib.hash(value))
    except Exception:  # what cannot be pickled
        state = getattr(value, "__dict__", None)
        if isinstance(value, ModuleType) or not state or depth > _DEEP:
            return f"a {type(value).__name__}"
        return str(joblib.hash(sorted((str(k), digest(v, depth + 1)) for k, v in state.items())))


#: What pandas, sparse rows and tensors have; estimators have the others.
_TABLES = ("to_numpy", "tocsr", "detach")
_WHOLE = (*_TABLES, "predict", "get_params")
#: Depth of containers that a summary reads, and parts of each.
_DEEP, _MANY = 6, 1000


def summary(value: Any, depth: int = 0) -> str:
    """Return a digest of what may hold records: arrays, tables, plain containers of them, and estimators' state.

    Anything else is summarised by its type's name: modules and losses depend on no record.
    """
    if depth > _DEEP:
        return ""
    parts: Any = None
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, np.ndarray):
        if value.dtype.kind != "O":
            return digest(value)
        parts = value.ravel().tolist()
    elif isinstance(value, type) or hasattr(value, "__name__"):
        return str(value.__name__)
    elif hasattr(value, "get_params"):
        parts = vars(value).items()
    elif _has(value, *_TABLES) or type(value).__module__ == "sklearn.tree._tree":
        return digest(value)
    elif isinstance(value, Mapping):
        parts = value.items()
    elif isinstance(value, list | tuple):
        parts = value
    elif isinstance(value, set | frozenset):
        parts = sorted(summary(part, depth + 1) for part in value)
    name = type(value).__name__
    if parts is None:
        return f"a {name}"
    found = [summary(part, depth + 1) for part in islice(parts, _MANY)]
    return hashlib.sha256(repr((name, len(parts), found)).encode()).hexdigest()


def _without_torch(value: Any) -> Any:
    torch = sys.modules.get("torch")
    if torch is None:
        return value
    if isinstance(value, torch.nn.Module):
        return [(k, _without_torch(v)) for k, v in value.state_dict().items()]
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().numpy()
    if isinstance(value, dict):
        return {k: _without_torch(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_without_torch(v) for v in value]
    return value


def _read(stage: str, facts: dict[str, Any]) -> Event:
    """Return a stage as an event: public facts that must be equal, and private states that may move."""
    public: dict[str, Any]
    match stage:
        case "rows":  # rows as validated by pate, record by record: earlier changes of the rows show here
            owners = None if facts["groups"] is None else [repr(g) for g in np.asarray(facts["groups"]).tolist()]
            given = Records.of((facts["rows"], facts["labels"]))
            public = {"unit": "record" if owners is None else "group"}
            private = {"records": given.digests(), "owners": owners, "scales": facts.get("scales")}
            return Event(stage, facts["who"], public, private)
        case "teachers":
            made = facts["ensemble"]
            states = [digest(teacher) for teacher in made.teachers_]
            private = {
                "states": states,
                "rows": row_hashes(facts["rows"] if hasattr(facts["rows"], "shape") else np.asarray(facts["rows"])),
                "labels": np.array(facts["labels"]),
                "shards": np.array(made.partition_.assignment),
                "failed": sorted(made.failed_),
                "keeps order": made.partition_.unit == "group" or made.partition_seed is None,
            }
            public = {"number of teachers": len(states), "classes": made.classes_}
            return Event(stage, type(made).__name__, public, private)
        case "functions":
            held = [_estimators(function) for function in facts["functions"]]
            # An estimator shared by several functions may hold all teachers: votes are compared for those.
            shared = Counter(place for found in held for place in found)
            own = [[digest(e) for place, e in found.items() if shared[place] == 1] for found in held]
            return Event(stage, "CallableTeachers", {"number of functions": len(held)}, {"states": own})
        case "partition":
            cut = facts["partition"]
            public = {"number of shards": cut.n_shards, "unit": cut.unit, "number of units": cut.n_units}
            return Event(stage, "partition", public, {"shards": np.array(cut.assignment)})
        case "votes":
            votes: Votes | BallotVotes = facts["votes"]
            public = {
                "number of teachers": votes.n_teachers,
                "classes": votes.classes,
                "number of queries": votes.n_queries,
                "public rows that were asked about": votes.query_hashes,
                "unit": votes.unit,
            }
            each = getattr(votes, "most_labels", 1)
            return Event(stage, "Votes", public, {"counts": votes.counts, "labels": votes.labels, "each": each})
        case "draw":
            values, cap = np.array(facts["values"]), facts["options"].get("max_answers")
            public = {"mechanism": repr(facts["mechanism"]), "number of queries": len(values), "cap on answers": cap}
            if facts["options"].get("offsets") is not None:
                public["offsets"] = digest(np.asarray(facts["options"]["offsets"]))
            each = getattr(facts["mechanism"], "most_labels", 1)
            return Event(stage, type(facts["mechanism"]).__name__, public, {"counts": values, "each": each})
        case "sum":
            public = {"mechanism": repr(facts["mechanism"]), "squared sensitivity": facts["delta_squared"]}
            private = {"sums": facts["values"].copy(), "noise": facts["mechanism"].noise_multiplier}
            return Event(stage, type(facts["mechanism"]).__name__, public, private)
        case "ballots":
            ballots = facts["ballots"]
            public = {k: v for k, v in ballots.facts.to_dict().items() if k != "provenance"}
            public["squared sensitivity"] = ballots.delta_squared
            return Event(stage, "BallotSum", public, {"sums": ballots.sums.copy()})
        case "dpsgd":
            public = {"step": facts["step"], "noise scale": facts["scale"], "clipping norm": facts["max_norm"]}
            return Event(
                stage, "DP-SGD", public, {"sums": np.concatenate([s.cpu().numpy().ravel() for s in facts["sums"]])}
            )
        case "noise":
            names = {"scale": "noise scale", "shape": "shape of the noise"}
            return Event(stage, facts["sampler"], {names.get(k, k): v for k, v in facts.items() if k != "sampler"})
        case "charge" | "ledger":
            rest = {k: v for k, v in facts.items() if k not in ("charge", "what")}
            return Event(stage, stage, {"mechanism": facts["what"], "cost": asdict(facts["charge"]), **rest})
        case "student":
            public = {name: digest(facts[key]) for name, key in _OF_STUDENT.items()}
            return Event(stage, type(facts[stage]).__name__, {**public, "student": repr(facts[stage])})
        case "queries":
            public = {"rows": digest(facts["rows"]), "number of queries": facts["n_queries"]}
            return Event(stage, "select_queries", public)
        case "representation":
            return Event(stage, type(facts[stage]).__name__, {"rows": digest(facts["rows"])})
    return Event(stage, stage)


_OF_STUDENT = {"rows": "rows", "labels": "labels", "noisy counts": "noisy_counts"}


def _estimators(function: Any, depth: int = 0) -> dict[int, Any]:
    """Return, by identity, the estimators that a function answers with: its own object, or what it closes over."""
    if hasattr(function, "get_params") and not isinstance(function, type):
        return {id(function): function}
    if depth > _FUNCTIONS_IN_FUNCTIONS:
        return {}
    if isinstance(function, partial):
        parts = [function.func, *function.args, *function.keywords.values()]
    elif isinstance(function, MethodType):
        parts = [function.__self__]
    elif isinstance(function, FunctionType):
        defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        parts = [*map(_content, function.__closure__ or ()), *defaults]
    else:
        return {}
    return {place: e for part in parts for place, e in _estimators(part, depth + 1).items()}


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not set yet
        return None


#: Wrappers around functions are followed so deep.
_FUNCTIONS_IN_FUNCTIONS = 4


class Trace:
    """Collects the events of one run."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.silent = False  # whether a state is being read

    def watch(self, stage: str, facts: dict[str, Any]) -> None:
        if self.silent:
            return
        with self._apart():
            self.events.append(_read(stage, facts))

    @contextmanager
    def _apart(self) -> Iterator[None]:
        self.silent = True  # what reading a state does is no step of the pipeline
        try:
            yield
        finally:
            self.silent = False

    def returned(self, value: Any) -> None:
        """Record the public parts of what the pipeline returned."""
        with self._apart():
            for name, found in _public_parts(value, "what it returned"):
                self.events.append(Event("returned", name, {"value": found}))


#: Of what a class holds, the public part: by the class's name, as packages above are not imported here.
_PUBLIC_PARTS = {
    "LabelRelease": ("labels", "status", "noisy_counts"),
    "BallotRelease": ("statistics",),
    "RecordLabels": ("probability",),
    "ModelLabels": ("probability",),
    "ReleasedLabels": ("labels", "status"),
}
#: Released attributes of pate's estimators.
_OF_ESTIMATORS = ("release_", "queries_", "labels_", "student_", "module_")
#: Classes that only the curator holds.
_PRIVATE = ("Votes", "BallotSum", "Partition", "Sensitive", "ReplayRecorder", "NoiseSource", "PrivacyStatement")


def _kind(value: Any) -> tuple[str, bool]:
    """Return the name of the class that defines a value's public parts, and whether it is pate's own."""
    for kind in type(value).__mro__:
        known = kind.__name__ in (*_PUBLIC_PARTS, *_PRIVATE)
        # Subclasses of pate's protocols and of bases without parameters are the user's own.
        if kind.__module__.startswith("pate.") and (known or hasattr(kind, "get_params") or kind is type(value)):
            return kind.__name__, True
    return type(value).__name__, False


def _public_parts(value: Any, name: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    if value is None:
        return
    kind, ours = _kind(value)
    if kind in _PRIVATE or hasattr(value, "teachers_") or depth > _DEEPEST:
        return
    if kind in _PUBLIC_PARTS:
        for part in _PUBLIC_PARTS[kind]:
            yield from _public_parts(getattr(value, part, None), f"{name}: {kind}.{part}", depth + 1)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _public_parts(part, f"{name}[{key!r}]", depth + 1)
    elif isinstance(value, tuple | list) and not all(isinstance(v, int | float | str) for v in value):
        for i, part in enumerate(value):
            yield from _public_parts(part, f"{name}[{i}]", depth + 1)
    elif isinstance(value, int | float | str | bool | np.generic | np.ndarray | list | tuple):
        yield name, digest(value)
    elif ours and hasattr(value, "get_params"):
        for part in _OF_ESTIMATORS:  # not statements, which hold the time
            yield from _public_parts(getattr(value, part, None), f"{name}: {kind}.{part}", depth + 1)
    elif isinstance(value, numbers.Number | bytes | bytearray | set | frozenset) or _has(value, *_WHOLE):
        yield f"{name}: {kind}", digest(value)
    elif not ours and not callable(value):
        for key, part in getattr(value, "__dict__", {}).items():  # a result of the user's own class
            yield from _public_parts(part, f"{name}.{key}", depth + 1)


#: Depth of nested results that is read.
_DEEPEST = 8


def _has(value: Any, *names: str) -> bool:
    """Whether a value that is not a class has one of these attributes."""
    return not isinstance(value, type) and any(hasattr(value, name) for name in names)
