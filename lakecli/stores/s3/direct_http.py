"""Sends direct requests: each is sent once, follows no redirect, and limits the response's size.

The connections are those of `http.client`, because `urllib3` needs more processor time for many
small objects than the limit in ``tests/benchmarks/claims.py`` allows.
"""

import os
import select
import ssl
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from socket import socket
from typing import Any, NamedTuple
from urllib.parse import urlsplit
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
        ValueError: the URL of the server is not valid, or the environment names a proxy for it.
    """

    def __init__(self, server: str, ca_bundle: str | None, limits: AnswerLimits) -> None:
        scheme, self._server = _address(server)
        is_secure = scheme == "https"
        kind = HTTPSConnection if is_secure else HTTPConnection
        self._connection_class = bounded(kind, limits)
        self._options: dict[str, Any] = {"timeout": limits.timeouts[0]}
        if is_secure:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(ca_bundle or certifi.where())
            self._options["context"] = context
        if proxy_of(server):
            raise ValueError("requests through a proxy are left to the SDK")
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
        connection = self._next_connection()
        is_read = False
        try:
            if connection.sock is None:
                connection.connect()
            with suppress(BrokenPipeError, ConnectionResetError):  # a refusal may be on its way
                connection.request(method, target, body or None, headers)
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
            host, port = self._server
            made: HTTPConnection = self._connection_class(host, port, **self._options)
            return made
        if connection.sock is not None and _is_readable(connection.sock):
            connection.close()  # the server has closed it, or has sent data without a request
        return connection


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
