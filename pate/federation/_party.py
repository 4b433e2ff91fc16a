"""The program that one party's engine runs in: MPyC in a process of its own, asked over stdin, answering over stdout.

:class:`pate.federation.MPyCAggregator` starts it, by its path. MPyC takes options out of ``sys.argv`` and reads files
of the working directory, so both are this process's own. It ends itself when whoever started it is gone.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import IO, Any, NoReturn


def send(stream: IO[bytes], message: dict[str, Any]) -> None:
    """Write one message: a line of JSON."""
    stream.write(json.dumps(message).encode() + b"\n")
    stream.flush()


def receive(stream: IO[bytes]) -> dict[str, Any] | None:
    """Read one message; None where the other end is gone."""
    line = stream.readline()
    return json.loads(line) if line.endswith(b"\n") else None


def _leave() -> NoReturn:
    """End at once, whatever the event loop is at; the working directory goes too, which is empty."""
    try:
        os.rmdir(os.getcwd())
    finally:
        os._exit(0)


def _follow(parent: int) -> None:
    """End with the parent, also where a copy of the pipe's other end lives on in another process."""
    while os.getppid() == parent:
        time.sleep(0.5)
    _leave()


def make_session(settings: dict[str, Any], answer: Any) -> Any:
    """Import MPyC, with the options that it is to find, and pate, which is where this file is."""
    sys.argv = ["party", *settings["options"]]
    sys.path.append(str(Path(__file__).resolve().parents[2]))
    from pate.federation._exchange import Session

    return Session(settings, answer)


def main() -> None:
    """Read the settings, connect, and do what is asked until the end."""
    asked, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # MPyC prints, and a traceback could quote a value: nothing of it leaves.
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    threading.Thread(target=_follow, args=(os.getppid(),), daemon=True).start()
    if (first := receive(asked)) is None:
        _leave()

    session = make_session(first, partial(send, answers))

    def read() -> None:
        while (request := receive(asked)) is not None:
            session.ask(request)
        _leave()

    threading.Thread(target=read, daemon=True).start()
    try:
        session.run()
    finally:
        _leave()


if __name__ == "__main__":
    main()
