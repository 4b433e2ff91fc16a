"""Events of a run for Python's ``logging``: what was charged, drawn, trained and written, in numbers that are public.

Loggers are ``pate.ledger``, ``pate.release``, ``pate.dpsgd``, ``pate.fit`` and ``pate.statement``. The library sets no
level and installs no handler that writes: docs/production.md says how to see them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from pate._core.recorder import playing

logging.getLogger("pate").addHandler(logging.NullHandler())

#: What depends on private records beyond what is released. Nothing reaches a handler of "pate" or of the root from
#: here: whoever wants it adds a handler to this very logger.
PRIVATE = logging.getLogger("pate.private")
PRIVATE.addHandler(logging.NullHandler())
PRIVATE.propagate = False

#: How much of a text a line shows; the facts of the record have all of it.
_MOST = 100

_UNLOGGED: ContextVar[bool] = ContextVar("pate_unlogged", default=False)


@contextmanager
def unlogged() -> Iterator[None]:
    """Log no event of what is done inside: for runs whose number is secret, or that are not released."""
    before = _UNLOGGED.set(True)
    try:
        yield
    finally:
        _UNLOGGED.reset(before)


def is_logged(area: str, level: int = logging.INFO) -> bool:
    """Return whether any handler listens: facts that take long to compute are computed only then."""
    return not _UNLOGGED.get() and logging.getLogger(f"pate.{area}").isEnabledFor(level)


def event(area: str, what: str, *, level: int = logging.INFO, **facts: Any) -> None:
    """Log that something was done, as ``what: name=value ...``; a handler also finds ``facts`` on the record.

    Facts must be public: no record moves them but by what is released. Events of a replay, which spends nothing, are
    marked. A filter that fails does not fail what is told of: it may be paid for.
    """
    if not is_logged(area, level):
        return
    if playing() is not None:
        facts["replay"] = True
    facts = {name: value for name, value in facts.items() if value is not None}
    said = " ".join(f"{name}={_text(value)}" for name, value in facts.items())
    with suppress(Exception):
        # The place in the source is the caller's.
        logging.getLogger(f"pate.{area}").log(
            level, "%s: %s", what, said, extra={"facts": {"event": what, **facts}}, stacklevel=2
        )


def _text(value: Any) -> str:
    """Return a value as one word, or in quotes on one line: a name from outside cannot begin a line of its own."""
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    text = text if len(text) <= _MOST else f"{text[:_MOST]}..."
    return text if text.isascii() and text.isprintable() and not set(text) & set(' "=') else json.dumps(text)
