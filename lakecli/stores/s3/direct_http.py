"""Sends direct requests: once, without redirects, and with a size limit for each response.

It uses connections of `http.client`. For many small objects, `urllib3` needs more processor time
than the limit in ``tests/benchmarks/claims.py`` allows.
"""

import os
import select
import ssl
from base64 import b64encode
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from socket import socket
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit
from weakref import finalize

import certifi

from lakecli.stores.answer_limits import CONNECTIONS, AnswerLimits, bounded
from lakecli.stores.presigned_urls import PORTS
from lakecli.stores.proxies import proxy_of
from lakecli.stores.responses import MAX_REFUSAL


class HttpResponse(NamedTuple):
    """A complete response.

    Attributes:
        headers: the headers, by names in lower case; the values of repeated headers are joined by a
            comma.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


class DirectHttp:
    """Sends requests to one server; safe to share between threads.

    Args:
        ca_bundle: the file of trusted certificates; ``None``: the file that comes with the SDK.

    Raises:
        OSError: the certificates cannot be read.
        ValueError: the URL of the server or of its proxy is not valid, or `http.client` cannot use
            the proxy.
    """

    def __init__(self, server: str, ca_bundle: str | None, limits: AnswerLimits) -> None:
        scheme, self._server = _address(server)
        self._is_secure = scheme == "https"
        kind = HTTPSConnection if self._is_secure else HTTPConnection
        self._connection_class = bounded(kind, limits)
        self._options: dict[str, Any] = {"timeout": limits.timeouts[0]}
        if self._is_secure:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(ca_bundle or certifi.where())
            self._options["context"] = context
        proxy = proxy_of(server)
        self._proxy: tuple[str, int] | None = None
        self._login: dict[str, str] = {}
        if proxy:
            scheme, self._proxy = _address(proxy)
            if scheme != "http" or ":" in self._server[0]:
                raise ValueError("http.client has no TLS to a proxy, and names it no IPv6 address")
            user = unquote_to_bytes(urlsplit(proxy).netloc.rpartition("@")[0])
            if b":" in user:
                self._login = {"Proxy-Authorization": f"Basic {b64encode(user).decode()}"}
        self._start = server if proxy and not self._is_secure else ""
        self._process = os.getpid()
        self._idle: deque[HTTPConnection] = deque()
        finalize(self, _close_all, self._idle)

    def send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        limit: int | None = None,
    ) -> HttpResponse | None:
        """Send a request, and read the response.

        Args:
            target: path and query, percent-encoded.
            headers: headers of the request, including the host; the body's length is added.
            limit: largest body of a success, in bytes; ``None`` for an object of any size.

        Returns:
            The response; ``None`` if the connection failed or broke, or if the response is too
            long, too slow or of unknown length.
        """
        if self._process != os.getpid():  # a fork shares its parent's connections
            _close_all(self._idle)  # before the next line, so that no other thread takes one
            self._process = os.getpid()
        if body:
            headers = {**headers, "Content-Length": str(len(body))}
        if self._start:
            headers = {**headers, **self._login}
        connection = self._next_connection()
        is_read = False
        try:
            if connection.sock is None:
                connection.connect()
            with suppress(BrokenPipeError, ConnectionResetError):  # a refusal may be on its way
                connection.request(method, self._start + target, body or None, headers)
            response = connection.getresponse()
            if response.status >= HTTPStatus.MULTIPLE_CHOICES:
                limit = MAX_REFUSAL
            data = response.read(None if limit is None else limit + 1)
            is_read = response.isclosed() and response.status >= HTTPStatus.OK
        except (HTTPException, OSError, ValueError, OverflowError, MemoryError):
            return None  # the last two errors: the announced length does not fit into memory
        finally:
            if is_read and len(self._idle) < CONNECTIONS:
                self._idle.append(connection)
            else:
                connection.close()
        found: dict[str, str] = {}
        for name, value in response.getheaders():
            lower = name.lower()
            found[lower] = f"{found[lower]}, {value}" if lower in found else value
        is_whole = (
            method == "HEAD"
            or found.get("transfer-encoding", "").lower() == "chunked"
            or found.get("content-length") == str(len(data))
        )
        if not is_whole or (limit is not None and len(data) > limit):
            return None
        return HttpResponse(response.status, found, data)

    def _next_connection(self) -> HTTPConnection:
        """Return a connection that is not in use, open or closed."""
        try:
            connection = self._idle.pop()
        except IndexError:
            return self._new_connection()
        if connection.sock is not None and _is_readable(connection.sock):
            connection.close()  # the server has closed it, or has sent data without a request
        return connection

    def _new_connection(self) -> HTTPConnection:
        host, port = self._proxy or self._server
        made: HTTPConnection = self._connection_class(host, port, **self._options)
        if self._proxy is not None and self._is_secure:
            made.set_tunnel(*self._server, self._login)
        return made


def _address(url: str) -> tuple[str, tuple[str, int]]:
    """Return the scheme of a URL, and its host and port; raise `ValueError` without them."""
    parts = urlsplit(url)
    if not parts.hostname or parts.scheme not in PORTS:
        raise ValueError("not the URL of a server")
    return parts.scheme, (parts.hostname, parts.port or PORTS[parts.scheme])


def _close_all(connections: deque[HTTPConnection]) -> None:
    with suppress(IndexError):
        while True:
            connections.pop().close()


def _is_readable(sock: socket) -> bool:
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))
