"""Proxies that change or refuse requests, as networks and policies do, or pass TLS on."""

from __future__ import annotations

import http.client
import re
import socket
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


@contextmanager
def tampering(server: str, *, old: bytes, new: bytes) -> Iterator[str]:
    """Forward requests to `server` with `old` in their bodies replaced; yield the proxy's URL.

    Both have the same length, so that nobody notices but who compares checksums.
    """
    if len(old) != len(new):
        raise ValueError("what is replaced must keep its length")
    with forwarding(server, change=lambda body: body.replace(old, new)) as url:
        yield url


class Forwarded(NamedTuple):
    """A request that a proxy got; names of headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@contextmanager
def forwarding(
    server: str,
    *,
    change: Callable[[bytes], bytes] = bytes,
    refuse: Callable[[Forwarded], str] = lambda _request: "",
    tags: Callable[[bytes], bytes] = bytes,
) -> Iterator[str]:
    """Forward requests to `server`; yield the proxy's URL.

    Args:
        server: its URL.
        change: returns the body of a request as it is sent on.
        refuse: returns why a request is answered by S3's 403, or ``""`` to send it on.
        tags: changes what may hold ETags: such headers, XML of answers and bodies of POSTs.
    """
    target = urlsplit(server).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            got = {name.lower(): value for name, value in self.headers.items()}
            reason = refuse(Forwarded(self.command, self.path, got, body))
            if reason:
                text = f"<Error><Code>AccessDenied</Code><Message>{reason}</Message></Error>"
                self._send(403, [("Content-Type", "application/xml")], text.encode())
                return
            connection = http.client.HTTPConnection(target, timeout=20)
            body = change(tags(body) if self.command == "POST" else body)
            connection.request(self.command, self.path, body, _tagged(self.headers.items(), tags))
            answer = connection.getresponse()
            found = answer.read()
            is_xml = "xml" in answer.headers.get("Content-Type", "")
            headers = _tagged(answer.getheaders(), tags)
            self._send(answer.status, headers.items(), tags(found) if is_xml else found)
            connection.close()

        def _send(self, status: int, headers: Iterable[tuple[str, str]], body: bytes) -> None:
            self.send_response(status)
            length = str(len(body))
            for name, value in headers:
                if name.lower() == "content-length" and self.command == "HEAD":
                    length = value
                elif name.lower() not in {"transfer-encoding", "content-length", "connection"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = forward  # noqa: N815 - their names

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    with _served(Handler) as url:
        yield url


def _tagged(headers: Iterable[tuple[str, str]], tags: Callable[[bytes], bytes]) -> dict[str, str]:
    return {
        name: tags(value.encode()).decode() if name.lower() in _WITH_TAGS else value
        for name, value in headers
    }


_WITH_TAGS = frozenset({"etag", "if-match", "x-amz-copy-source-if-match"})
_TAG = re.compile(rb'(?<![^";])[0-9a-f]{32}(?=["&-]|$)')


def like_kms(data: bytes) -> bytes:
    """Turn round the ETags in a text: they look like MD5s, and are none, as with SSE-KMS.

    What a client sends back is turned round once more, so the server knows it.
    """
    return _TAG.sub(lambda found: found[0][::-1], data)


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
