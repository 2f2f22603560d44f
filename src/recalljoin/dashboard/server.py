"""A small web server for one page, its numbers, and metrics.

It reads the control logs that it was given when it was started, and nothing else: a request chooses
among these and among the files of the page, which are held in memory, so that no path in a request
opens a file. It answers only requests that name it by a host it knows, because a page of another
site may let its own name point to this machine.
"""

from __future__ import annotations

import ipaddress
import json
import math
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

from recalljoin.dashboard.followed import FollowedJoin
from recalljoin.dashboard.metrics import CONTENT_TYPE, metrics_text
from recalljoin.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from recalljoin.spark.control_log import ControlLog

LOOPBACK: Final = "127.0.0.1"
_EVERY: Final = 1.0
"""Seconds between two looks at the logs."""
_EVERY_REMOTE: Final = 5.0
"""The same where a log is in an object store, which counts requests."""
_MOST: Final = 5000
"""Most numbers of a column in one answer."""
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}


class _Answer(NamedTuple):
    """What is sent back."""

    content: bytes
    type: str
    status: HTTPStatus = HTTPStatus.OK


class Dashboard:
    """Follows joins in the background and serves what is known of them.

    Parameters
    ----------
    logs
        The control logs of the joins.
    host, port
        Where to listen; port 0 for any that is free.
    names
        Further host names by which browsers may call the server.

    Raises
    ------
    InvalidSetting
        When the server cannot listen there.
    """

    def __init__(
        self,
        logs: Iterable[ControlLog],
        *,
        host: str = LOOPBACK,
        port: int = 0,
        names: Sequence[str] = (),
    ) -> None:
        self.joins = [FollowedJoin(log) for log in logs]
        self._pages = _pages()
        self._host = host
        self._names = {"localhost", host.lower(), socket.gethostname().lower(), *map(_lower, names)}
        dashboard = self

        class Handler(_Handler):
            board = dashboard

        try:
            self._server = _Server((host, port), Handler)
        except OSError as error:
            message = (
                f"cannot listen on {host} port {port}: {error.strerror or error}; give another "
                "--port, or 0 for any that is free"
            )
            raise InvalidSetting(message) from error
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._server.serve_forever, daemon=True, name="dashboard"),
            threading.Thread(target=self._follow, daemon=True, name="dashboard reads logs"),
        ]

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._server.server_address[1])

    @property
    def address(self) -> str:
        """Where a browser on this machine finds the page."""
        is_any = self._host in ("0.0.0.0", "::", "")
        host = "localhost" if is_any else self._host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def start(self) -> Dashboard:
        """Begin to read the logs and to answer."""
        for thread in self._threads:
            thread.start()
        return self

    def stop(self) -> None:
        """Stop answering."""
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()
        for thread in self._threads:
            thread.join()

    def wait(self) -> None:
        """Go on until somebody stops it."""
        self._stopped.wait()

    def _follow(self) -> None:
        is_remote = any("://" in join.log.folder for join in self.joins)
        while True:
            for join in self.joins:
                join.catch_up()
            if self._stopped.wait(_EVERY_REMOTE if is_remote else _EVERY):
                return

    def knows(self, host: str | None) -> bool:
        """Whether a request that names this host is meant for this server."""
        if not host:
            return False
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in self._names:
            return True
        # Nobody can make an address of numbers point elsewhere.
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def answer(self, target: str) -> _Answer:
        """The answer to a request for a path with its query."""
        parts = urlsplit(target)
        path = parts.path
        if path in self._pages:
            return self._pages[path]
        if path == "/metrics":
            return _Answer(metrics_text(self.joins).encode(), CONTENT_TYPE)
        if path == "/api/joins":
            return _as_json([join.now() for join in self.joins])
        # /api/joins/<number>/series
        steps = path.split("/")
        if steps[:3] == ["", "api", "joins"] and len(steps) == 5 and steps[4] == "series":
            join = self._join(steps[3])
            if join is not None:
                return _as_json(join.series(**_asked(parts.query)))
        return _Answer(b"there is nothing here\n", _TYPES["txt"], HTTPStatus.NOT_FOUND)

    def _join(self, number: str) -> FollowedJoin | None:
        known = {str(n): join for n, join in enumerate(self.joins)}
        return known.get(number)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle of an answer is nothing to be told."""


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    board: Dashboard
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        """Send what is asked for."""
        self._send(self._answer())

    def do_HEAD(self) -> None:
        """Send the headers alone."""
        self._send(self._answer(), body=False)

    def _answer(self) -> _Answer:
        if not self.board.knows(self.headers.get("Host")):
            text = b"this server is not known by that name; see recalljoin dashboard --help\n"
            return _Answer(text, _TYPES["txt"], HTTPStatus.MISDIRECTED_REQUEST)
        try:
            return self.board.answer(self.path)
        except ValueError as error:
            return _Answer(f"{error}\n".encode(), _TYPES["txt"], HTTPStatus.BAD_REQUEST)

    def _send(self, answer: _Answer, *, body: bool = True) -> None:
        self.send_response(answer.status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", answer.type)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        if body:
            self.wfile.write(answer.content)

    def version_string(self) -> str:
        """Nobody need know which version of Python this is."""
        return "recalljoin"

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""


def _pages() -> dict[str, _Answer]:
    """The files of the page, by the path under which they are served."""
    pages = {}
    for file in files("recalljoin.dashboard").joinpath("static").iterdir():
        kind = _TYPES.get(file.name.rpartition(".")[2])
        if kind is not None:
            pages[f"/static/{file.name}"] = _Answer(file.read_bytes(), kind)
    pages["/"] = pages["/static/index.html"]
    return pages


def _asked(query: str) -> dict[str, Any]:
    """The parameters of a request for numbers.

    Raises
    ------
    ValueError
        When one is not a number, or there is no such parameter.
    """
    names = {"after": "after", "begin": "begin", "end": "end", "points": "most"}
    found: dict[str, Any] = {}
    for name, values in parse_qs(query, strict_parsing=bool(query)).items():
        if name not in names:
            message = f"there is no parameter {name}"
            raise ValueError(message)
        number = float(values[-1])
        if math.isnan(number):
            message = f"{name} must be a number"
            raise ValueError(message)
        found[names[name]] = number
    if "most" in found:
        found["most"] = int(min(max(found["most"], 2), _MOST))
    return found


def _as_json(content: Any) -> _Answer:
    # Large integers and tiny shares are the same in a browser; not a number would not be JSON.
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return _Answer(text.encode(), "application/json")


def _lower(text: str) -> str:
    return text.lower()
