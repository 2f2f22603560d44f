"""A real browser without a window: Chromium, driven through the WebDriver protocol.

The protocol is JSON over HTTP, of which a few calls are enough here.
"""

from __future__ import annotations

import base64
import http.client
import json
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb",
)  # fmt: skip


class Browser:
    """One page of a browser."""

    def __init__(self, port: int, session: str) -> None:
        self._port, self._session = port, session

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """One command of the protocol."""
        path = f"/session/{self._session}{path}"
        return _call(self._port, method, path, {} if body is None and method == "POST" else body)

    def open(self, address: str) -> None:
        """Go to a page."""
        self.call("POST", "/url", {"url": address})

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def text(self, selector: str) -> str:
        """The text of an element."""
        found = self.run(f"return document.querySelector({selector!r})?.innerText ?? ''")
        assert isinstance(found, str)
        return found

    def press(self, key: str) -> None:
        """Press and release a key."""
        actions = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "k", "actions": actions}]})

    def drag(self, selector: str, begin: float, end: float) -> None:
        """Drag the mouse across an element, between two parts of its width."""
        box = self.run(
            f"const e = document.querySelector({selector!r});"
            "e.scrollIntoView({block: 'center'});"
            "const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]"
        )
        left, top, width, height = box
        y = round(top + height / 2)
        move = {"type": "pointerMove", "duration": 50, "origin": "viewport", "y": y}
        actions = [
            {**move, "x": round(left + begin * width)},
            {"type": "pointerDown", "button": 0},
            {**move, "x": round(left + end * width)},
            {"type": "pointerUp", "button": 0},
        ]
        pointer = {"type": "pointer", "id": "m", "parameters": {"pointerType": "mouse"}}
        self.call("POST", "/actions", {"actions": [{**pointer, "actions": actions}]})

    def resize(self, width: int, height: int) -> None:
        """Set the size of what is seen of the page."""
        self.call(
            "POST",
            "/goog/cdp/execute",
            {
                "cmd": "Emulation.setDeviceMetricsOverride",
                "params": {
                    "width": width, "height": height, "deviceScaleFactor": 1,
                    "mobile": width < 600,
                },
            },
        )  # fmt: skip

    def screenshot(self, path: Path) -> None:
        """Save a picture of what is seen."""
        path.write_bytes(base64.b64decode(self.call("GET", "/screenshot")))

    def messages(self) -> list[str]:
        """What has been written to the browser's console: faults, and violations of its rules."""
        return [each["message"] for each in self.call("POST", "/se/log", {"type": "browser"})]


def until(holds: Callable[[], bool], *, seconds: float = 20) -> None:
    """Wait for something to hold."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """A browser with a profile of its own; skips the test where there is none."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("there is no Chromium with its driver; `scripts/setup browser` installs them")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [driver, f"--port={port}", "--log-level=SEVERE"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: _is_ready(port))
        options = {"binary": program, "args": [*_FLAGS, f"--user-data-dir={folder}"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        begun = _call(port, "POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        browser = Browser(port, begun["sessionId"])
        try:
            yield browser
        finally:
            browser.call("DELETE", "")
    finally:
        process.terminate()
        process.wait(timeout=20)


def _is_ready(port: int) -> bool:
    try:
        return bool(_call(port, "GET", "/status", None)["ready"])
    except OSError:
        return False


def _call(port: int, method: str, path: str, body: Any) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        content = None if body is None else json.dumps(body)
        connection.request(method, path, content, {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())["value"]
    finally:
        connection.close()
    if isinstance(answer, dict) and "error" in answer:
        raise AssertionError(f"{answer['error']}: {answer['message']}")  # noqa: EM102
    return answer
