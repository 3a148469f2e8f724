"""A proxy that fails some requests: it answers 503 or a page of its own, hangs up, or truncates."""

from __future__ import annotations

import http.client
import socket
from contextlib import contextmanager, suppress
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Trouble(Enum):
    """How the proxy treats a request."""

    BUSY = "503"
    HANG_UP = "no answer"
    CUT = "half of the answer"
    DENIED = "403"
    LOGIN = "a login page with status 200"
    NOTHING = "an empty answer with status 200"


class FlakyProxy:
    """Counts requests, and fails those for which `trouble` returns how.

    Attributes:
        trouble: called with method and path; ``None`` forwards the request.
        counts: how many requests there were, by method and path.
    """

    def __init__(self, server: str) -> None:
        self.trouble: Callable[[str, str], Trouble | None] = lambda _method, _path: None
        self.counts: dict[tuple[str, str], int] = {}
        self.target = urlsplit(server).netloc
        self.url = ""
        self._lock = Lock()

    def note(self, method: str, path: str) -> Trouble | None:
        """Count a request, and return how to treat it."""
        with self._lock:
            self.counts[method, path] = self.counts.get((method, path), 0) + 1
            return self.trouble(method, path)

    def tries(self, method: str, path: str) -> int:
        """Return the number of such requests."""
        return self.counts.get((method, path), 0)


@contextmanager
def flaky(server: str) -> Iterator[FlakyProxy]:
    """Run a proxy in front of a server."""
    state = FlakyProxy(server)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            trouble = state.note(self.command, self.path)
            if trouble is Trouble.HANG_UP:
                self.close_connection = True
                with suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)
                return
            if trouble in {Trouble.BUSY, Trouble.DENIED}:
                status, code = (
                    (503, "SlowDown") if trouble is Trouble.BUSY else (403, "AccessDenied")
                )
                self.answer(status, f"<Error><Code>{code}</Code></Error>".encode(), [])
                return
            if trouble in {Trouble.LOGIN, Trouble.NOTHING}:
                page = b"<html><body>Please log in</body></html>"
                self.answer(200, page if trouble is Trouble.LOGIN else b"", [])
                return
            connection = http.client.HTTPConnection(state.target, timeout=60)
            connection.request(self.command, self.path, body, dict(self.headers.items()))
            answer = connection.getresponse()
            received = answer.read()
            connection.close()
            is_cut = trouble is Trouble.CUT
            self.answer(answer.status, received, answer.getheaders(), is_cut=is_cut)

        def answer(
            self, status: int, body: bytes, headers: list[tuple[str, str]], *, is_cut: bool = False
        ) -> None:
            self.send_response(status)
            length = str(len(body))
            for name, value in headers:
                if name.lower() == "content-length" and self.command == "HEAD":
                    length = value
                elif name.lower() not in {"transfer-encoding", "content-length", "connection"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", length)
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(body[: len(body) // 2] if is_cut else body)
            self.close_connection = self.close_connection or is_cut

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = forward  # noqa: N815 - their names

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    proxy.daemon_threads = True
    proxy.block_on_close = False
    state.url = f"http://127.0.0.1:{proxy.server_address[1]}"
    thread = Thread(target=proxy.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()
