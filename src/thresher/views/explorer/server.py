"""A session on a page of this machine, and of nobody else.

The server listens on the loopback address only.  Every request must carry a random token, and a
Host header that names this server: a page of another site cannot get there by a name that it has
bound to 127.0.0.1.  An Origin, where there is one, must be our own.  Requests are numbers, and
names from lists that the session has; no path of a file is ever taken from a page.  What is
exported goes through the browser's download, so nothing is written where the page says.

The page says goodbye when it is closed, and beats while it lives: the server ends some seconds
after the one, or long after the last of the other (browsers slow the clocks of hidden pages down).
"""

from __future__ import annotations

import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from thresher.views.explorer.answers import WRONG, answered
from thresher.views.explorer.page import live_page, policy
from thresher.views.explorer.session import Session

__all__ = ["Server", "check_port"]

_HOST = "127.0.0.1"
_LARGEST = 1 << 20  # bytes of a request
_GRACE = 3.0  # seconds in which a page that was closed may come back, as it does when reloaded
_SILENCE = 180.0  # seconds without a beat


class Server:
    """Serves one session until its page is closed, or until :meth:`close`.

    Parameters
    ----------
    session : Session
    port : int, default=0
        0: any that is free.
    """

    def __init__(self, session: Session, port: int = 0):
        self.session, self.token = session, secrets.token_urlsafe(24)
        with _told(port):
            self._http = _Http((_HOST, port), _Handler)
        self._http.owner = self
        self.port = self._http.server_address[1]
        self._ends_at = float("inf")

    @property
    def url(self) -> str:
        """The address to open; it has the token."""
        return f"http://{_HOST}:{self.port}/?token={self.token}"

    def run(self) -> None:
        """Serve until the page is closed."""
        threading.Thread(target=self._watch, daemon=True).start()
        try:
            self._http.serve_forever(poll_interval=0.2)
        finally:
            self._http.server_close()

    def close(self) -> None:
        """End :meth:`run`, from another thread."""
        self._http.shutdown()

    def heard(self) -> None:
        """The page lives."""
        self._ends_at = time.monotonic() + _SILENCE

    def left(self) -> None:
        """The page was closed, or is loaded again."""
        self._ends_at = time.monotonic() + _GRACE

    def _watch(self) -> None:
        while time.monotonic() < self._ends_at:
            time.sleep(0.2)
        self.close()


def check_port(port: int) -> None:
    """Whether a page could be served there now: told before any work, not after it."""
    with _told(port), socket.socket() as probe:
        probe.bind((_HOST, port))


@contextmanager
def _told(port: int) -> Iterator[None]:
    """What is wrong with a port."""
    try:
        yield
    except OverflowError:
        raise ValueError(f"port must be from 0 to 65535, got {port}") from None
    except OSError as error:
        raise ValueError(f"port {port} cannot be used: {error.strerror}") from None


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = False  # a port that is taken is taken
    owner: Server


class _Handler(BaseHTTPRequestHandler):
    server: _Http
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        token = query.removeprefix("token=")
        if path != "/" or not self._is_ours(token):
            self._refuse()
            return
        self.server.owner.heard()
        nonce = secrets.token_urlsafe(16)
        page = live_page(nonce).encode()
        self._answer(200, "text/html; charset=utf-8", page, policy(nonce))

    def do_POST(self) -> None:
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal() or int(size) > _LARGEST:
            self.close_connection = True
            self._refuse()
            return
        body = self.rfile.read(int(size))
        in_body = _token_in(body) if self.path == "/bye" else ""
        if not self._is_ours(self.headers.get("X-Token") or in_body):
            self._refuse()
            return
        if self.path in _LIFE:
            _LIFE[self.path](self.server.owner)
            self._answer(200, "application/json", b"null")
            return
        try:
            answer = answered(self.server.owner.session, self.path, json.loads(body))
        except WRONG as error:
            self._answer(400, "text/plain; charset=utf-8", str(error).encode())
            return
        if isinstance(answer, bytes):
            self._answer(200, "application/octet-stream", answer)
        else:
            self._answer(200, "application/json", json.dumps(answer).encode())

    def _is_ours(self, token: str) -> bool:
        port = self.server.owner.port
        hosts = {f"{name}:{port}" for name in (_HOST, "localhost")}
        origin = self.headers.get("Origin")
        return (
            secrets.compare_digest(token.encode(), self.server.owner.token.encode())
            and self.headers.get("Host") in hosts
            and (origin is None or origin.removeprefix("http://") in hosts)
        )

    def _refuse(self) -> None:
        self._answer(403, "text/plain", b"not allowed")

    def _answer(self, status: int, kind: str, body: bytes, security: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        if security:
            self.send_header("Content-Security-Policy", security)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal is the user's."""


def _token_in(body: bytes) -> str:
    """That of a goodbye: a page that closes cannot set headers."""
    try:
        return str(json.loads(body)["token"])
    except WRONG:
        return ""


def _beat(server: Server) -> None:
    server.heard()


def _bye(server: Server) -> None:
    server.left()


_LIFE: dict[str, Callable[[Server], None]] = {"/beat": _beat, "/bye": _bye}
