"""What can be replayed: a function of private records, or an object that is fitted on them."""

from __future__ import annotations

import copy
import inspect
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from sklearn.base import clone

from pate.audit.replays._records import Records
from pate.core.checks import shown
from pate.exceptions import InvalidInputError
from pate.ledger import Ledger
from pate.privacy.budget import Budget
from pate.release import release_ballots, release_labels

#: Buys whatever is asked: what is replayed is not private, and what it costs is compared, not limited.
_AMPLE = Budget(1e6, 0.1)
Pipeline = Callable[[Records], Any]


def as_pipeline(target: Any, *, X_public: Any = None, mechanism: Any = None) -> tuple[Pipeline, str]:
    """Return a function of records, and what it is called.

    Raises
    ------
    InvalidInputError
        There is no way to run it on private records.
    """
    name = type(target).__name__
    if not isinstance(target, type):
        if hasattr(target, "cast") and hasattr(target, "space"):
            return _of_record_voters(target, mechanism), name
        if hasattr(target, "fit") and hasattr(target, "vote"):
            return _of_voter(target, X_public, mechanism), name
        if hasattr(target, "vote"):
            raise InvalidInputError(
                f"pipeline must say how its teachers come from private records; {name} has no fit. Pass a function of "
                "(X, y, groups) that makes them and calls vote."
            )
        if hasattr(target, "fit") and hasattr(target, "get_params"):
            return _of_estimator(target, X_public), name
    if not callable(target) or isinstance(target, type):
        raise InvalidInputError(
            f"pipeline must be a function of (X, y) or (X, y, groups), or have fit (and vote), got {shown(target)}."
        )
    return _of_function(target), f"the function {getattr(target, '__name__', name)}"


def _of_function(target: Callable[..., Any]) -> Pipeline:
    def takes(n: int) -> bool:
        try:
            inspect.signature(target).bind(*range(n))
        except TypeError:
            return False
        return True

    takes_groups, takes_two = takes(3), takes(2)

    def run(records: Records) -> Any:
        # Without groups a third parameter keeps its default, which may be anything.
        if takes_groups and not (records.groups is None and takes_two):
            return target(records.X, records.y, records.groups)
        if records.groups is not None:
            raise InvalidInputError("D has groups, and pipeline takes (X, y) alone. Let it take (X, y, groups).")
        return target(records.X, records.y)

    return run


def _need_public(X_public: Any, name: str) -> Any:
    if X_public is None:
        raise InvalidInputError(f"X_public must be the public rows that {name} is asked about. Pass X_public=.")
    return X_public


@contextmanager
def _fresh(target: Any) -> Iterator[Any]:
    """Yield an unfitted copy that writes nowhere, but to a ledger that is gone afterwards with its key."""
    with ExitStack() as stack:
        try:
            made = clone(target)
        except TypeError:
            made, known = copy.deepcopy(target), dict[str, Any]()
        else:
            known = made.get_params(deep=False)
        if known.get("checkpoint_dir") is not None:
            made.set_params(checkpoint_dir=None)
        ledger = known.get("ledger")
        if ledger is not None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pate-replay-")))
            made.set_params(ledger=Ledger(folder / "ledger.sqlite", total=ledger.total))
        yield made


def _groups(records: Records) -> dict[str, Any]:
    return {} if records.groups is None else {"groups": records.groups}


def _of_voter(target: Any, X_public: Any, mechanism: Any) -> Pipeline:
    _need_public(X_public, type(target).__name__)

    def run(records: Records) -> Any:
        with _fresh(target) as made:
            votes = made.fit(records.X, records.y, **_groups(records)).vote(X_public)
        return None if mechanism is None else release_labels(votes, mechanism, budget=_AMPLE)

    return run


def _of_record_voters(target: Any, mechanism: Any) -> Pipeline:
    def run(records: Records) -> Any:
        ballots = target.cast(records.X, records.y, groups=records.groups)
        return None if mechanism is None else release_ballots(ballots, mechanism, budget=_AMPLE)

    return run


def _of_estimator(target: Any, X_public: Any) -> Pipeline:
    takes = inspect.signature(target.fit).parameters
    options = {"X_public": _need_public(X_public, type(target).__name__)} if "X_public" in takes else {}

    def run(records: Records) -> Any:
        with _fresh(target) as made:
            return made.fit(records.X, records.y, **options, **_groups(records))

    return run
