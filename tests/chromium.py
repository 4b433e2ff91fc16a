"""Chromium without a window, spoken to over two pipes (Chrome DevTools Protocol): what a reader would see of a page."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WHY = "needs chromium, as a reader's browser"


@dataclass(frozen=True)
class Seen:
    """What came of opening a page."""

    width: int  # of all that could be scrolled to
    height: int
    requests: tuple[str, ...]  # addresses asked for, the page's own too
    complaints: tuple[str, ...]  # of the console, and of the content policy
    cut: tuple[str, ...]  # how tables begin that are wider than their place, of those that can be seen
    said: object  # what the page answered to ``ask``
    png: bytes


class Browser:
    """One Chromium; ``look`` opens a file in a fresh tab."""

    def __init__(self, profile: Path) -> None:
        self._profile = profile
        self._number = 0
        self._events: list[dict] = []
        self._rest = b""

    def __enter__(self) -> Browser:
        reads, self._to = os.pipe()
        self._from, writes = os.pipe()
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage",
                   "--remote-debugging-pipe", f"--user-data-dir={self._profile}", "about:blank"]  # fmt: skip
        high = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (reads, writes)]  # out of the way of 3 and 4

        def place() -> None:
            os.dup2(high[0], 3)  # chromium reads from the third descriptor
            os.dup2(high[1], 4)  # and writes to the fourth

        self._process = subprocess.Popen(
            [CHROMIUM, *options],
            pass_fds=(3, 4),
            preexec_fn=place,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in high:
            os.close(end)
        os.close(reads)
        os.close(writes)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            self.call("Browser.close")
        os.close(self._to)
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._from)

    def call(self, method: str, session: str | None = None, **params: object) -> dict:
        """Ask, and wait for the answer; events that come meanwhile are kept."""
        self._number += 1
        message = {
            "id": self._number,
            "method": method,
            "params": params,
            **({"sessionId": session} if session else {}),
        }
        os.write(self._to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + 60
        while True:
            answer = self._read(until)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._events.append(answer)

    def _read(self, until: float) -> dict:
        while b"\0" not in self._rest:
            if not select.select([self._from], [], [], max(0.0, until - time.monotonic()))[0]:
                raise RuntimeError("chromium did not answer in time")
            piece = os.read(self._from, 1 << 20)
            if not piece:
                raise RuntimeError("chromium has gone")
            self._rest += piece
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)

    def _wait(self, method: str, session: str) -> None:
        until = time.monotonic() + 60
        while not any(e.get("method") == method and e.get("sessionId") == session for e in self._events):
            self._events.append(self._read(until))

    def look(self, page: Path, *, width: int, dark: bool = False, whole: bool = True, at: str = "",
             media: str = "", ask: str = "null") -> Seen:  # fmt: skip
        """Open a page in a window so wide, as a user with a light or a dark desktop.

        ``at``: a fragment of the address. ``media``: "print" to see what is printed. ``ask``: an expression.
        """
        self._events.clear()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log", "Security"):
            self.call(f"{domain}.enable", session)
        self.call("Emulation.setDeviceMetricsOverride", session, width=width, height=844, deviceScaleFactor=1,
                  mobile=width < 600)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", session, features=[scheme], media=media)
        self.call("Page.navigate", session, url=page.as_uri() + at)
        self._wait("Page.loadEventFired", session)
        size = "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
        wide = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth + 1)"
        size = f"[{size}, {wide}.map(e => e.innerText.slice(0, 60)), {ask}]"
        found = self.call("Runtime.evaluate", session, expression=size, returnByValue=True)
        (across, down), cut, said = found["result"]["value"]
        shot = self.call("Page.captureScreenshot", session, format="png", captureBeyondViewport=whole)
        self.call("Target.closeTarget", targetId=target)
        messages = [(e.get("method"), e.get("params", {})) for e in self._events]
        return Seen(
            width=across,
            height=down,
            cut=tuple(cut),
            said=said,
            requests=tuple(p["request"]["url"] for m, p in messages if m == "Network.requestWillBeSent"),
            complaints=tuple(
                json.dumps(p)
                for m, p in messages
                if m in ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
            ),
            png=base64.b64decode(shot["data"]),
        )
