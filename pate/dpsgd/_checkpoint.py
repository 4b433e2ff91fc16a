"""Checkpoints of a DP-SGD run: a killed run resumes exactly where it stopped, at no further privacy cost.

Samples and noise of a run that keeps checkpoints come from a key (:class:`pate.privacy.noise.source.NoiseSource`), and
the file holds it. It is on disk before the ledger is charged, and the charge carries a digest of the key. So a file
whose digest stands in the ledger is a run that was paid for, wherever it died; any other has paid nothing and drawn
nothing, and is begun anew, with another key.

Steps that had been done after the last file was written are done again with the very samples and
noise that they had: they give exactly the same parameters, so nothing is released twice and no step is left out of the
account, whenever the run died. Everything that the steps follow from (data, settings, versions) is in the file's
fingerprint, and another run is refused: the same noise on two gradients would give away how they differ. A module's
code has no fingerprint (a function without a name, an array among its arguments): the file holds what the module makes
of made-up rows. The file is as private as the records: mode 600, and gone once a fit has ended.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from pate._core.files import check_can_write, remove_whole, write_json
from pate._core.provenance import package_versions
from pate._core.tensors import load_tensors, save_tensors
from pate.dpsgd._checks import made_up_rows, made_up_targets
from pate.dpsgd.engines import PerRecordEngine
from pate.exceptions import InvalidInputError, PateError
from pate.ledger import Ledger
from pate.networks import close, own_generator

FORM = "DP-SGD checkpoint 2"
FILE = "run.safetensors"
#: Noisy counts of right answers, beside it.
COUNTS = "counts.json"
#: Rows that a module is known by.
_LIKE = 4
#: Writing may take this share of a run.
_SHARE = 0.05


def fingerprint_of(facts: Mapping[str, Any], *arrays: npt.NDArray[Any] | None) -> str:
    """Return a hash of everything that determines the steps of a run."""
    stored = {**facts, "versions": package_versions()}
    found = hashlib.sha256(json.dumps(stored, sort_keys=True, default=repr).encode())
    for array in arrays:
        found.update(b"-" if array is None else f"{array.dtype}{array.shape}".encode())
        if array is not None:
            found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


class Likeness:
    """The outputs of a module on made-up rows under made-up weights: logits, and gradients by two numbers a parameter.

    It has a ``state_dict``, and takes back that of no other module: whatever its code, its arguments or its frozen
    weights say. Rounding, which depends on processors and threads, does not count.
    """

    def __init__(self, module: nn.Module, row_shape: tuple[int, ...], n_classes: int) -> None:
        module = copy.deepcopy(module).cpu()
        learnt = [p for p in module.parameters() if p.requires_grad]
        with own_generator(0), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for p in learnt:
                p.copy_(torch.randn(p.shape) / max(1, p[:1].numel() if p.dim() > 1 else 1) ** 0.5)
            rows = made_up_rows(module, row_shape)[:_LIKE]
            if rows.is_floating_point():  # some beyond thresholds
                rows = rows * (2.0 ** torch.arange(_LIKE)).view(-1, *[1] * len(row_shape))
            stored = [copy.deepcopy(module).eval()(rows).double().flatten()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            labels = made_up_targets(len(rows), n_classes)
            found = PerRecordEngine(module, vectorised=False).gradients(rows, labels, seed=0, shared=True)
        draws = torch.Generator().manual_seed(0)
        for g in found:
            flat = g.double().flatten(1)
            way = torch.randn(flat.shape[1], dtype=torch.float64, generator=draws)
            stored += [flat.norm(dim=1), flat @ way / way.norm()]
        self.found = torch.cat(stored)

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return it."""
        return {"found": self.found}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Refuse that of another module."""
        was = state["found"]
        if was.shape != self.found.shape or not close(self.found, was):
            raise InvalidInputError(
                "checkpoint_dir= holds a run with another module: this one makes something else of the same rows. Take "
                "the run up with the module that it was begun with, or name another folder; what it cost stays spent."
            )


def run_of(facts: Mapping[str, Any]) -> str | None:
    """Return the digest of a run's key, under which it is charged; it does not tell the key."""
    key = facts.get("key")
    return None if key is None else hashlib.sha256(f"run {key}".encode()).hexdigest()


def paid_facts(facts: Mapping[str, Any], ledger: Ledger | None) -> dict[str, Any]:
    """Return what a file says of its run, with the charge that the ledger has of it; nothing where it has none."""
    if ledger is None or facts.get("releases"):
        return dict(facts)
    row = None if (run := run_of(facts)) is None else ledger.find(run)
    return {} if row is None else {**facts, "releases": [row.id], "ledger_head": ledger.head_of((row.id,))}


@dataclass
class Held:
    """What has a ``state_dict``: its tensors by name, the rest of it as JSON."""

    name: str
    thing: Any

    def save(self, arrays: dict[str, npt.NDArray[Any]], facts: dict[str, Any]) -> None:
        facts[self.name] = {"state": self._put(self.thing.state_dict(), arrays, [])}

    def _put(self, value: Any, arrays: dict[str, npt.NDArray[Any]], path: list[Any]) -> Any:
        if isinstance(value, torch.Tensor):
            name = ".".join(map(str, [self.name, *path]))
            whole = value.detach().cpu()
            # Halves are in no file; every one of them is a number of float32, and loading turns it back.
            arrays[name] = (whole.float() if whole.dtype in (torch.bfloat16, torch.float16) else whole).numpy()
            return {"tensor": name}
        if isinstance(value, dict):
            return {"items": [[key, self._put(part, arrays, [*path, key])] for key, part in value.items()]}
        if isinstance(value, list | tuple):
            return {"list": [self._put(part, arrays, [*path, i]) for i, part in enumerate(value)]}
        if value is None or isinstance(value, bool | int | float | str):
            return {"value": value}
        raise InvalidInputError(f"checkpoint: the state of {self.name} holds a {type(value).__name__}.")

    def load(self, arrays: dict[str, npt.NDArray[Any]], facts: dict[str, Any]) -> None:
        problem = ""
        try:
            self.thing.load_state_dict(self._get(facts[self.name]["state"], arrays))
        except PateError:
            raise
        except (KeyError, RuntimeError, ValueError) as error:  # of public names and shapes
            problem = f"{type(error).__name__}: {error}"
        if problem:
            raise InvalidInputError(
                f"checkpoint_dir= holds another run: the state of its {self.name} does not fit ({problem}). Take it up "
                "with what it was begun with, or name another file; what it cost stays spent."
            )

    def _get(self, stored: Any, arrays: dict[str, npt.NDArray[Any]]) -> Any:
        if "tensor" in stored:
            return torch.from_numpy(np.array(arrays[stored["tensor"]]))
        if "items" in stored:
            return {key: self._get(part, arrays) for key, part in stored["items"]}
        if "list" in stored:
            return [self._get(part, arrays) for part in stored["list"]]
        return stored["value"]


class Checkpoint:
    """The file of one run in its folder, or none.

    Attributes
    ----------
    arrays, facts : dict
        What the file held, empty where there was none.
    """

    def __init__(self, folder: str | os.PathLike[str], fingerprint: str, ledger: Ledger | None = None) -> None:
        # Where it is now: changing the folder, or the link, during the run leaves no key behind.
        self.path = Path(folder).resolve() / FILE
        self.fingerprint = fingerprint
        self.arrays: dict[str, npt.NDArray[Any]] = {}
        self.facts: dict[str, Any] = {}
        self._next = 0.0
        self._stored: dict[str, Any] = {}
        check_can_write("checkpoint_dir", Path(folder) / FILE)
        if self.path.exists():
            arrays, facts = load_tensors(self.path, form=FORM)
            if facts.pop("fingerprint", None) != fingerprint:
                raise InvalidInputError(
                    f"checkpoint_dir={str(folder)!r} holds another run: its data, settings or versions are not these. "
                    "Take it up with what it was begun with, or name another folder; removed or not, what it cost "
                    "stays spent."
                )
            self.facts = paid_facts(facts, ledger)
            self.arrays = arrays if self.facts else {}
            self._stored = facts

    @property
    def run(self) -> str | None:
        """What tells this run from any other, of the same settings too; not the key itself."""
        return run_of(self.facts)

    @property
    def is_stored(self) -> bool:
        """Whether the file has all that is known of the run."""
        return self._stored == self.facts

    @property
    def is_due(self) -> bool:
        """Whether writing now keeps it to a small share of the run."""
        return time.monotonic() >= self._next

    def write(self, held: Sequence[Held], step: int) -> None:
        """Write the state after so many steps, whole or not at all."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        facts = {**self.facts, "step": step}
        for part in held:
            part.save(arrays, facts)
        begin = time.monotonic()
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        save_tensors(self.path, arrays, {**facts, "fingerprint": self.fingerprint}, form=FORM, mode=0o600)
        end, self._stored = time.monotonic(), dict(self.facts)
        self._next = end + (end - begin) / _SHARE

    def counts(self, of: str, draw: Callable[[], list[float]]) -> list[float]:
        """Return the noisy counts of this run: drawn once, and saved before they are returned.

        Drawn again they would be other noise on the same counts, which is not charged.

        ``of`` is what the model decides by, beside its weights: counts of another one would be a second release.
        """
        path = self.path.with_name(COUNTS)
        if path.exists():
            stored = json.loads(path.read_text(encoding="utf-8"))
            if stored["run"] == self.run:  # else what a removed run left behind
                if stored["of"] != of:
                    raise InvalidInputError(
                        "checkpoint_dir= holds a run that was measured with other decisions (decide=, public rows): to "
                        "count again would be paid for by nobody. Take it up with those, or name another folder."
                    )
                return [float(x) for x in stored["noisy"]]
        noisy = draw()
        write_json(path, {"run": self.run, "of": of, "noisy": noisy}, mode=0o600)
        return noisy

    def remove(self) -> None:
        """Take the file, and the key in it, away; and what a kill in the middle of writing it left of it."""
        remove_whole(self.path)
        remove_whole(self.path.with_name(COUNTS))

    def finish(self) -> None:
        """Take it away with its folder, if nothing else is there."""
        self.remove()
        with suppress(OSError):
            self.path.parent.rmdir()
