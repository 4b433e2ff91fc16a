"""One run of a pipeline on a tape, and whether it is the same twice."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from pate.audit.replays._blame import Seen, Witness
from pate.audit.replays._compare import Allowed, Difference, compare
from pate.audit.replays._pipelines import Pipeline
from pate.audit.replays._records import Records
from pate.audit.replays._trace import Run, Trace, digest
from pate.core.seeds import global_generators
from pate.core.tape import Outcome, Tape, run_played
from pate.core.types import IntArray
from pate.exceptions import ReplayError
from pate.statement._fits import counted_elsewhere


@contextmanager
def _seeded() -> Iterator[None]:
    """Seed the global generators, torch's too where somebody uses it, and give them back as they were."""
    torch = sys.modules.get("torch")
    with global_generators(0):
        if torch is None:
            yield
            return
        with torch.random.fork_rng():
            torch.manual_seed(0)
            yield


def run_on_tape(
    pipeline: Pipeline,
    records: Records,
    key: bytes,
    follows: tuple[Outcome, ...] | None = None,
    places: IntArray | None = None,
    witness: Witness | None = None,
) -> Run:
    """Run a pipeline once; what it raises is part of the run.

    Its warnings are not shown: they may tell of private records, and would be of every run.
    """
    trace = Trace()

    def watch(stage: str, facts: dict[str, Any]) -> None:
        trace.watch(stage, facts)
        if witness is not None and stage == "rows" == witness.before:
            raise Seen

    tape = Tape(key, watch, follows, places)
    own = records.take(range(records.n))  # a pipeline may write into what it is given

    def run() -> tuple[Any, Exception | None]:
        with warnings.catch_warnings(), counted_elsewhere(), _seeded():
            warnings.simplefilter("ignore")
            try:
                with nullcontext() if witness is None else witness.watching(trace.is_silent):
                    return pipeline(own), None
            except ReplayError:
                raise
            except Exception as error:
                return None, error
            except Seen:
                return None, None

    value, error = run_played(tape, run)
    if error is None:
        trace.returned(value)
    return Run(tuple(trace.events), tuple(tape.outcomes), error)


def check_repeats(pipeline: Pipeline, records: Records, key: bytes, first: Run) -> None:
    """Refuse a pipeline that is not the same twice on the same data and the same tape.

    Raises
    ------
    ReplayError
        It is not: nothing that differs between two data sets could be put down to them.
    """
    again = run_on_tape(pipeline, records, key)
    nothing = Allowed(units=0, shards=0, places=None, adjacency="replace-one")
    found = compare(first, again, nothing)
    if not found.differences and first.outcomes and not _same_outcomes(first, again):
        found.differences.append(Difference("noise", "other noise was drawn"))
    if found.differences:
        raise ReplayError(
            f"two runs on the same data differ: {found.differences[0].what}. Something in the pipeline draws random "
            "numbers that a replay does not know of: give it a seed (random_state=0 for estimators, "
            "np.random.default_rng(0)), make noise sources inside the pipeline, and draw noise in this process and "
            "thread."
        )


def _same_outcomes(a: Run, b: Run) -> bool:
    return digest([(o.sampler, o.value) for o in a.outcomes]) == digest([(o.sampler, o.value) for o in b.outcomes])
