"""The folder of a comparison: finished fits are saved at once, and only the same comparison can be resumed there."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from sklearn.base import clone, is_regressor

from pate._core.files import begun_in, check_can_write, making, read_json, write_bytes, write_json
from pate._core.provenance import package_versions
from pate.comparison.contract import Contestant, Setting, Tuning
from pate.comparison.studies._folders import plain_repr, plain_values
from pate.data import Dataset
from pate.estimators import PATEClassifier, PATERegressor
from pate.exceptions import InvalidInputError, RunFolderError
from pate.report.result import Entrant
from pate.teachers import ShardEnsemble
from pate.teachers.checkpoints import describe

# The contestants: those given as such, and plain classifiers that are made into contestants.

#: Anyone who knows these can repeat the noise, or the cut into shards.
_SECRETS = ("noise_seed", "partition_seed")


@dataclass(frozen=True)
class Given:
    """The ``make`` of a contestant that clones a given classifier at every budget."""

    model: Any

    def __call__(self, setting: Setting) -> Any:
        takes = self.model.get_params(deep=False)
        parameters = {"budget": setting.budget, "random_state": setting.seed, "noise_seed": setting.noise_seed}
        return clone(self.model).set_params(**{k: v for k, v in parameters.items() if k in takes})


def contestants_of(contestants: Any) -> tuple[Contestant, ...]:
    """Return the contestants in order, from a mapping of names to classifiers or Contestants, or from Contestants."""
    if isinstance(contestants, Mapping):
        found = tuple(_contestant(name, given) for name, given in contestants.items())
    elif isinstance(contestants, Sequence) and all(isinstance(c, Contestant) for c in contestants):
        found = tuple(contestants)
    else:
        found = ()
    if not found:
        by_name = isinstance(contestants, Sequence) and any(isinstance(c, str) for c in contestants)
        named = " Ready ones by name: pate.comparison.contestants.named(['pate', 'dpsgd'])." if by_name else ""
        raise InvalidInputError(
            f"contestants must be a mapping with at least one name and classifier, or a list of Contestants, got "
            f"{contestants!r}. Pass {{'PATE': PATEClassifier(...), 'DP-SGD': DPSGDClassifier(...)}}.{named}"
        )
    names = [c.name for c in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidInputError(f"contestants must have names of their own, got {twice[0]!r} twice. Rename one.")
    if all(c.role != "private" for c in found):
        raise InvalidInputError(
            "contestants must have at least one of role 'private': floors and ceilings have no epsilon. Add a method."
        )
    return found


def described(contestant: Contestant) -> Entrant:
    """Return what a report says of a contestant."""
    tuning, given = contestant.tuning, isinstance(contestant.make, Given)
    return Entrant(
        name=contestant.name,
        role=contestant.role,
        side=contestant.side,
        sees=contestant.sees,
        rule=tuning.rule,
        n_tried=None if tuning == Tuning() else tuning.n_tried,
        tried_on=tuning.on,
        made_of=plain_repr(_without_seeds(contestant.make.model)) if given else None,  # type: ignore[attr-defined]
    )


def _without_seeds(model: Any) -> Any:
    """Return a copy without the seeds of noise and shards, to be shown."""
    copy = clone(model)
    parameters = copy.get_params()
    found = [name for name, value in parameters.items() if value is not None and name.split("__")[-1] in _SECRETS]
    return copy.set_params(**dict.fromkeys(found))


def _contestant(name: Any, given: Any) -> Contestant:
    if not isinstance(name, str) or not name.strip():
        raise InvalidInputError(f"contestants must have text as names, got {name!r}.")
    if isinstance(given, Contestant):
        return replace(given, name=name)
    if isinstance(given, type) or not all(hasattr(given, m) for m in ("fit", "predict", "get_params", "set_params")):
        raise InvalidInputError(
            f"contestants[{name!r}] must be a scikit-learn classifier (fit, predict, get_params, set_params) or a "
            f"Contestant, got {given!r}."
        )
    takes = given.get_params(deep=False)
    if "budget" not in takes:
        remedy = "Only classifiers that take a budget compare at one epsilon; wrap yours in one that does."
        if hasattr(given, "steps"):
            remedy = (
                "A Pipeline fits its other steps on the private rows outside any budget: put them inside "
                "PATEClassifier(make_pipeline(...)), or transform the data beforehand by what public rows teach."
            )
        raise InvalidInputError(
            f"contestants[{name!r}] must have a parameter named budget, and {type(given).__name__} has none. {remedy}"
        )
    if takes.get("ledger") is not None:
        raise InvalidInputError(
            f"contestants[{name!r}] must not have a ledger: it would give the answers of one fit to the next, "
            "and charge them all to one budget. Pass ledger=None."
        )
    return Contestant(name, Given(given), side=_side(given), predicts="numbers" if is_regressor(given) else "classes")


def _side(given: Any) -> str:
    if isinstance(given, PATEClassifier | PATERegressor):
        return "PATE"
    dpsgd = any(base.__module__.startswith("pate.dpsgd") for base in type(given).__mro__)
    return "DP-SGD" if dpsgd else "other"


try:
    import fcntl
except ImportError:  # Windows: two runs in one folder are not prevented there
    fcntl = None  # type: ignore[assignment]

_CONFIG, _CELLS = "config.json", "cells.jsonl"
#: Apart from what may be published, and named as git ignores it.
_PRIVATE = Path("resume.private") / "fingerprint.json"
_COSTS = Path("resume.private") / "costs.jsonl"
#: Parameters that change how long a fit takes, not its result; and those that :func:`compare` sets itself.
_WITHOUT_EFFECT = frozenset(
    {"n_jobs", "verbose", "checkpoint_dir", "budget", "random_state", "noise_seed", "partition_seed"}
)
_REMEDY = "Choose another folder for out=, or delete this one if it is not needed."


class CellFolder(ExitStack):
    """Finished fits of one comparison, one JSON line each, flushed to the disk before the next fit starts.

    ``cells`` are the finished fits, ``costs`` their costs, which are **sensitive**.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        self.path = Path(path)

    def open(
        self,
        contestants: Sequence[Contestant],
        data: Dataset,
        settings: Mapping[str, Any],
        seeds: list[int],
        stamp: dict[str, Any],
    ) -> tuple[list[int], dict[str, Any]]:
        """Start or resume the comparison; return its seeds, one per repeat, and the first call's time and versions.

        A repeat depends on its own seed alone, so that more repeats can be added later.
        """
        with making("out", self.path):
            begun_in(self.path, _CONFIG, "comparison", is_leftover=_is_leftover)
            self.path.mkdir(parents=True, exist_ok=True)
            self.cells = self._open(self.path / _CELLS)
        check_can_write("out", self.path / "results.json")
        self._lock(self.cells.file)
        config = _configuration(contestants, data, settings)
        digests = _digests(contestants, data, settings)
        private = {"warning": "made from private rows and seeds: do not publish", "sha256": digests}
        if not (self.path / _CONFIG).exists():
            (self.path / _PRIVATE).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_json(self.path / _PRIVATE, private, mode=0o600)
            # Last: a run that is killed before this line leaves a folder that counts as empty.
            write_json(self.path / _CONFIG, {**config, "seeds": seeds, "stamp": stamp, "also": []})
        before = read_json(self.path / _CONFIG)
        stored = read_json(self.path / _PRIVATE).get("sha256")
        pairs = ((config, before), (digests, stored if isinstance(stored, dict) else {}))
        differs = dict.fromkeys(name for now, then in pairs for name in now if then.get(name) != now[name])
        if differs:
            raise RunFolderError(
                f"{self.path} holds another comparison (other {', '.join(differs)}). {_REMEDY} "
                "To go on with it, make the call as it was."
            )
        known = [int(seed) for seed in before["seeds"]]
        if len(seeds) < len(known):
            raise RunFolderError(
                f"{self.path} holds a comparison of {len(known)} repeats, got n_repeats={len(seeds)}. Ask for "
                f"{len(known)} or more, or choose another folder for out=."
            )
        self._config = {"stamp": stamp, "also": [], **before, "seeds": [*known, *seeds[len(known) :]]}
        if self._config != before:
            write_json(self.path / _CONFIG, self._config)
        self.costs = self._open(self.path / _COSTS, mode=0o600)
        return self._config["seeds"], self._config["stamp"]

    def also(self, stamp: Mapping[str, Any], *, left: bool) -> list[str]:
        """Return how later calls that had fits ``left`` to do differ from the first: commits and versions, no times."""
        first, noted = self._config["stamp"], list(self._config["also"])
        pairs = {"commit": (stamp["commit"], first["commit"])}
        pairs |= {name: (value, first["versions"].get(name)) for name, value in stamp["versions"].items()}
        differs = ", ".join(f"{name} {value}" for name, (value, then) in pairs.items() if value != then)
        if left and differs and differs not in noted:
            noted.append(differs)
            self._config["also"] = noted
            write_json(self.path / _CONFIG, self._config)
        return noted

    def finish(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Put the finished fits in their order: the order in which workers ended would reveal which took longer."""
        if [dict(line) for line in lines] != self.cells.read():
            write_bytes(self.path / _CELLS, b"".join(map(_as_line, lines)))

    def _open(self, path: Path, mode: int = 0o666) -> _Lines:
        made = open(path, "a+b", opener=lambda name, flags: os.open(name, flags, mode))  # noqa: SIM115
        return _Lines(path, self.enter_context(made))

    def _lock(self, file: BinaryIO) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunFolderError(
                f"{self.path} is in use by another process that runs this comparison. Wait for it, or choose another "
                "folder for out=."
            ) from None


@dataclass
class _Lines:
    """A file of JSON objects, one a line."""

    path: Path
    file: BinaryIO

    def read(self) -> list[dict[str, Any]]:
        """Return the stored lines; an incomplete last line is cut off."""
        self.file.seek(0)
        content = self.file.read()
        found, good = [], 0
        pieces = content.splitlines(keepends=True)
        for number, piece in enumerate(pieces, start=1):
            try:
                line = json.loads(piece)
                if not isinstance(line, dict):
                    raise ValueError
            except (ValueError, RecursionError):
                if number < len(pieces):
                    raise RunFolderError(f"{self.path} is damaged in line {number}. {_REMEDY}") from None
                break
            found.append(line)
            good += len(piece)
        self.file.truncate(good)
        if found and not content[:good].endswith(b"\n"):
            self._write(b"\n")
        return found

    def append(self, line: Mapping[str, Any]) -> None:
        """Write one line; it is on the disk when this returns."""
        self._write(_as_line(line))

    def _write(self, content: bytes) -> None:
        self.file.write(content)
        self.file.flush()
        os.fsync(self.file.fileno())


def _as_line(line: Mapping[str, Any]) -> bytes:
    return json.dumps(line, allow_nan=False).encode() + b"\n"


def _is_leftover(path: Path) -> bool:
    """Whether this file may be left from a start that was killed: temporary, or without any result."""
    return (
        path.name.startswith(".")
        or path.name == _PRIVATE.parent.name
        or (path.name == _CELLS and path.stat().st_size == 0)
    )


def _configuration(contestants: Sequence[Contestant], data: Dataset, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the public settings that must be equal for a comparison to be resumed, as JSON values."""
    chosen = {k: settings[k] for k in ("epsilons", "delta", "random_state", "by")}
    rows = [data.public.y_for_evaluation, data.test.y]
    target = list(plain_values(data.classes) if data.target_range is None else data.target_range)
    return {
        "kind": "comparison",
        "version": package_versions().get("pate"),
        "contestants": sorted(contestant.name for contestant in contestants),
        **chosen,
        "noise": "operating system" if settings["noise_seed"] is None else "given",
        "data set": [data.name, data.protocol, data.redraws, target, [len(y) for y in rows]],
    }


def _digests(contestants: Sequence[Contestant], data: Dataset, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return digests of what else must be equal. **Sensitive**: a value of which little is unknown can be guessed."""
    recipes = {contestant.name: _recipe(contestant) for contestant in contestants}
    return {
        "contestants": _sha256(json.dumps(recipes, sort_keys=True)),
        "noise": _sha256(f"noise {settings['noise_seed']}"),
        "public rows": _digest_rows(data.public.X),
        "test rows": _digest_rows(data.test.X, data.test.y),
        "private rows": _digest_rows(data.private.X, data.private.y, data.private.groups),
    }


def _recipe(contestant: Contestant) -> str:
    if not isinstance(contestant.make, Given):
        return f"{contestant.role} {_describe(contestant.name, 'make', contestant.make)}"
    model = contestant.make.model
    takes = clone(model).get_params(deep=False)
    if isinstance(takes.get("estimator"), ShardEnsemble):
        for name in _WITHOUT_EFFECT & takes["estimator"].get_params(deep=False).keys():
            setattr(takes["estimator"], name, None)
    parts = sorted(f"{k}={_describe(contestant.name, k, v)}" for k, v in takes.items() if k not in _WITHOUT_EFFECT)
    return f"{type(model).__module__}.{type(model).__qualname__}({', '.join(parts)})"


def _describe(name: str, parameter: str, value: Any) -> str:
    if is_dataclass(value) and not isinstance(value, type):
        # Fields only: what a frozen value has cached meanwhile is no part of it.
        inside = ", ".join(f"{f.name}={_describe(name, parameter, getattr(value, f.name))}" for f in fields(value))
        return f"{type(value).__module__}.{type(value).__qualname__}({inside})"
    try:
        return describe(value)
    except (InvalidInputError, RecursionError):
        raise InvalidInputError(
            f"contestants[{name!r}] cannot be recognised again by its parameter {parameter} "
            f"(a {type(value).__name__}). Use out=None, or a parameter that can be pickled."
        ) from None


def _digest_rows(*parts: Any) -> str:
    return _sha256(describe(list(parts)))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
