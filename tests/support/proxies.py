"""Proxies that change requests, as networks sometimes do, and proxies that pass TLS on."""

from __future__ import annotations

import http.client
import socket
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def tampering(server: str, *, old: bytes, new: bytes) -> Iterator[str]:
    """Forward requests to `server` with `old` in their bodies replaced; yield the proxy's URL.

    Both have the same length, so that nobody notices but who compares checksums.
    """
    if len(old) != len(new):
        raise ValueError("what is replaced must keep its length")
    target = urlsplit(server).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            connection = http.client.HTTPConnection(target, timeout=20)
            connection.request(
                self.command, self.path, body.replace(old, new), dict(self.headers.items())
            )
            answer = connection.getresponse()
            received = answer.read()
            connection.close()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in {"transfer-encoding", "content-length", "connection"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(received)))
            self.end_headers()
            self.wfile.write(received)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = forward  # noqa: N815 - their names

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    with _served(Handler) as url:
        yield url


@contextmanager
def tunnels() -> Iterator[tuple[str, list[str]]]:
    """Connect clients to the servers they name; yield the URL, and what each said of itself."""
    said: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            said.append(self.headers.get("Proxy-Authorization", ""))
            host, _, port = self.path.partition(":")
            with socket.create_connection((host, int(port)), 10) as server:
                self.send_response(200)
                self.end_headers()
                back = Thread(target=_pass_on, args=(server, self.connection), daemon=True)
                back.start()
                _pass_on(self.connection, server)
                back.join(10)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    with _served(Handler) as url:
        yield url, said


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def _served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    proxy.daemon_threads = True
    proxy.block_on_close = False
    thread = Thread(target=proxy.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{proxy.server_address[1]}"
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()
