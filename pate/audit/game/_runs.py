"""Runs of both worlds, in blocks: side by side, kept in a folder, taken up again after a kill."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Generator
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import Any

import numpy as np

from pate.core.files import atomic_path, write_text
from pate.core.progress import track
from pate.core.seeds import training_seed
from pate.core.strict_json import parse_json
from pate.core.types import FloatArray
from pate.exceptions import InvalidInputError

_SCHEMA = "pate-game-1"
#: Runs of a block where the release makes one at a time.
BLOCK = 10
#: How deep a release is looked into, to tell it from another.
_DEEPEST = 8


@dataclass(frozen=True)
class Plan:
    """What is played, fixed before the first run.

    Attributes
    ----------
    n_runs : int
        In each world, at most.
    block : int
        Runs that are made, and kept, together.
    batched : bool
        Whether the release makes a whole block at once.
    seed : int
        Of all runs' seeds.
    """

    n_runs: int
    block: int
    batched: bool
    seed: int

    def blocks(self) -> list[tuple[int, int]]:
        """Return the blocks as (first run, past the last)."""
        return [(start, min(start + self.block, self.n_runs)) for start in range(0, self.n_runs, self.block)]

    def seed_of(self, world: int, run: int) -> int:
        """Return 63 bits: no two runs share them, whatever their number."""
        words = np.random.SeedSequence(self.seed, spawn_key=(world, run)).generate_state(2, np.uint32)
        return int(words[0]) << 31 | int(words[1]) >> 1


def play_block(release: Any, scorer: Any, D: Any, D_prime: Any, plan: Plan, span: tuple[int, int]) -> list[FloatArray]:
    """Return the scores (or features) of one block of runs in either world."""
    start, stop = span
    found = []
    for number, world in enumerate((D, D_prime)):
        if plan.batched:
            outputs = release(world, plan.seed_of(number, start), stop - start)
        else:
            outputs = [release(world, plan.seed_of(number, run)) for run in range(start, stop)]
        rows = np.asarray(scorer(outputs, D, D_prime, plan.batched), dtype=np.float64)
        if rows.ndim == 0 or len(rows) != stop - start or np.isnan(rows).any():
            raise InvalidInputError(
                f"a score must be one number per run, never NaN: {stop - start} runs gave shape {rows.shape}. "
                "With batch=, release and score take and return a whole batch at once."
            )
        found.append(rows)
    return found


def played(
    release: Any, scorer: Any, D: Any, D_prime: Any, plan: Plan, kept: Kept | None, n_jobs: int | None, show: bool
) -> Generator[list[FloatArray], None, None]:
    """Yield each block's scores, in order; those of a folder are not played again."""
    spans = plan.blocks()
    known = {} if kept is None else {span: found for span in spans if (found := kept.read(span)) is not None}
    left = [span for span in spans if span not in known]
    if n_jobs in (None, 1):
        made = (play_block(release, scorer, D, D_prime, plan, span) for span in left)
    else:
        from joblib import Parallel, delayed

        work = (delayed(play_block)(release, scorer, D, D_prime, plan, span) for span in left)
        # Few are sent ahead: a game that stops early has wasted no more than these.
        made = Parallel(n_jobs=n_jobs, return_as="generator", pre_dispatch="2*n_jobs", batch_size=1)(work)

    def steps() -> Generator[list[FloatArray], None, None]:
        for span in spans:
            if span in known:
                yield known[span]
                continue
            found = next(made)
            if kept is not None:
                kept.write(span, found)
            yield found

    try:
        yield from track(steps(), total=len(spans), label="runs of a game", show=show, work=(2.0 * plan.block, "runs"))
    finally:
        with warnings.catch_warnings():  # joblib tells of blocks that nobody waits for any more: that is meant
            warnings.filterwarnings("ignore", category=UserWarning, module="joblib")
            made.close()


class Kept:
    """A folder of blocks, for its owner alone (mode 0700): what runs on private data gave is private.

    Parameters
    ----------
    folder : path
    plan : Plan
    facts : dict
        What else must be the same when it is taken up again.

    Raises
    ------
    InvalidInputError
        The folder holds another game, or something else.
    """

    def __init__(self, folder: str | os.PathLike[str], plan: Plan, facts: dict[str, Any]) -> None:
        self._folder = Path(folder)
        now = {"schema": _SCHEMA, "n_runs": plan.n_runs, "block": plan.block, "batched": plan.batched}
        now |= {"seed": plan.seed, **facts}
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        head = self._folder / "game.json"
        if not head.exists():
            if any(self._folder.iterdir()):
                raise InvalidInputError(
                    f"checkpoint_dir={str(folder)!r} holds files that are no game. Name an empty folder."
                )
            write_text(head, json.dumps(now, indent=1), mode=0o600)
            return
        before = _head(head)
        different = [name for name in now if before.get(name) != now[name]]
        if different:
            raise InvalidInputError(
                f"checkpoint_dir={str(folder)!r} holds a game whose {', '.join(different)} is another. How long a game "
                "is and what is played are fixed before its first run. Name another folder."
            )

    @staticmethod
    def seed_in(folder: str | os.PathLike[str]) -> int | None:
        """Return the seed of the game in a folder; None where there is none."""
        head = Path(folder) / "game.json"
        return int(_head(head)["seed"]) if head.exists() else None

    def read(self, span: tuple[int, int]) -> list[FloatArray] | None:
        """Return a block that was played before."""
        path = self._path(span)
        if not path.exists():
            return None
        try:
            with np.load(path, allow_pickle=False) as file:
                found = [np.asarray(file[name], dtype=np.float64) for name in ("out", "in_")]
        except (OSError, ValueError, KeyError, EOFError) as error:
            raise InvalidInputError(
                f"{path.name} of the game's folder cannot be read. Delete it to play it again."
            ) from error
        if any(len(rows) != span[1] - span[0] for rows in found):
            raise InvalidInputError(f"{path.name} of the game's folder holds another number of runs. Delete it.")
        return found

    def write(self, span: tuple[int, int], found: list[FloatArray]) -> None:
        """Keep a block: whole or not at all."""
        with atomic_path(self._path(span), mode=0o600) as path:
            np.savez(path, out=found[0], in_=found[1])

    def _path(self, span: tuple[int, int]) -> Path:
        return self._folder / f"runs-{span[0]:09d}.npz"


def _head(path: Path) -> dict[str, Any]:
    try:
        found = parse_json(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("schema") != _SCHEMA or not isinstance(found.get("seed"), int):
        raise InvalidInputError("game.json of the folder cannot be read. Name another folder.")
    return found


def played_as(what: Any, depth: int = 0) -> Any:
    """Return what tells one release, or score, from another in every process alike."""
    name = f"{type(what).__module__}.{type(what).__qualname__}"
    if isinstance(what, str | bytes | int | float | bool | None | np.ndarray | np.generic):
        return name, what
    if depth > _DEEPEST:
        return name
    if isinstance(what, partial):
        return name, *(
            played_as(part, depth + 1) for part in (what.func, what.args, tuple(sorted(what.keywords.items())))
        )
    if isinstance(what, FunctionType):
        cells = tuple(said for cell in what.__closure__ or () if (said := _content(cell)) is not what)
        parts = what.__code__, what.__defaults__, cells
        return name, *(played_as(part, depth + 1) for part in parts)
    if isinstance(what, CodeType):
        return name, what.co_name, what.co_code, what.co_names, played_as(what.co_consts, depth + 1)
    if isinstance(what, tuple):  # lists and the like may change while it is played
        return name, *(played_as(each, depth + 1) for each in what)
    if is_dataclass(what) and not isinstance(what, type):
        return name, *((f.name, played_as(getattr(what, f.name), depth + 1)) for f in fields(what))
    return name, getattr(what, "__qualname__", "")


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not set yet
        return None


def plan_of(n_runs: int, batch: int | None, seed: int | None, folder: str | os.PathLike[str] | None) -> Plan:
    """Return the plan; a seed that was not given is the folder's, or drawn from the operating system."""
    if seed is None:
        seed = Kept.seed_in(folder) if folder is not None else None
    return Plan(n_runs, batch or BLOCK, batch is not None, training_seed(None) if seed is None else seed)
