"""Sends requests to one server by HTTP/1.1, over connections that are kept.

A request costs a fifth of the processor time that an SDK's HTTP client needs. What it lacks on
purpose, its callers leave to an SDK: proxies, redirects, repetitions, bodies that are streams.
"""

from __future__ import annotations

import os
import re
import socket
import weakref
from threading import Lock

from lakecli.named_tuple import NamedTuple
from lakecli.objectstore.http_answer import Answer, UnusualAnswerError, read_answer
from lakecli.objectstore.http_connection import Connection
from lakecli.typed import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from ssl import SSLContext

MAX_IDLE: Final = 32
"""Connections that are kept for further requests."""

_REFUSALS: Final = 400
_HEAD: Final = re.compile(
    r"[A-Z]+ /[!-~]* HTTP/1\.1\r\n" r"(?:[A-Za-z0-9-]+: [\t -~]*\r\n)*" r"\r\n"
)


class Origin(NamedTuple):
    """Where requests go.

    Attributes:
        is_secure: by TLS.
        host: a name or an address.
        port: of TCP.
        ca_file: the certificates that a server's is checked by.
    """

    is_secure: bool
    host: str
    port: int
    ca_file: str


class HttpClient:
    """Sends requests to one server; safe to share between threads.

    Args:
        origin: of the server.
        connect_timeout: seconds for a connection.
        read_timeout: seconds without a sign of life, after which a request has failed.
    """

    def __init__(self, origin: Origin, *, connect_timeout: float, read_timeout: float) -> None:
        self._origin = origin
        self._address = (origin.host.encode("ascii"), origin.port)  # text would load idna
        self._timeouts = connect_timeout, read_timeout
        self._process = os.getpid()
        self._idle: list[Connection] = []
        self._lock = Lock()
        self._context: SSLContext | None = None
        self.close = weakref.finalize(self, _close_all, self._idle)

    def send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        limit: int | None = None,
    ) -> Answer:
        """Send a request, and read the answer.

        A request is sent a second time if the server closed an idle connection before it answered.

        Args:
            method: of HTTP.
            target: path and query, percent-encoded.
            headers: of the request; the length of the body is added.
            body: of the request.
            limit: bytes in the body of a success, at most.

        Raises:
            OSError: there is no connection, or it broke.
            UnusualAnswerError: the request or the answer is to be left to an SDK.
        """
        lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
        if body or method == "PUT":
            lines.append(f"Content-Length: {len(body)}\r\n")
        head = f"{method} {target} HTTP/1.1\r\n{''.join(lines)}\r\n"
        # Text with ends of lines in it would pass as several headers, but for their number.
        if _HEAD.fullmatch(head) is None or head.count("\n") != len(lines) + 2:
            raise UnusualAnswerError("a request with unusual characters")
        data = head.encode("ascii")
        connection = self._take()
        if connection is not None:
            try:
                return self._exchange(connection, data, body, limit)
            except OSError as error:
                if connection.has_answered or isinstance(error, TimeoutError):
                    raise
        return self._exchange(self._connect(), data, body, limit)

    def _take(self) -> Connection | None:
        if self._process != os.getpid():  # a fork shares its parent's connections
            self._process = os.getpid()
            _close_all(self._idle)
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None  # another thread was faster
            if connection.is_silent():
                connection.has_answered = False
                return connection
            connection.stream.close()
        return None

    def _exchange(
        self, connection: Connection, head: bytes, body: bytes, limit: int | None
    ) -> Answer:
        is_kept = False
        try:
            is_sent = connection.send(head, body)
            answer = read_answer(
                connection.receive,
                fill=connection.fill,
                limit=limit,
                has_body=not head.startswith(b"HEAD "),
            )
            if not is_sent and answer.status < _REFUSALS:
                raise ConnectionResetError("the server closed the connection within a request")
            is_kept = is_sent and answer.stays_open and len(self._idle) < MAX_IDLE
        finally:
            if is_kept:
                self._idle.append(connection)
            else:
                connection.stream.close()
        return answer

    def _connect(self) -> Connection:
        connect_timeout, read_timeout = self._timeouts
        stream = socket.create_connection(self._address, connect_timeout)  # type: ignore[arg-type]
        try:
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._origin.is_secure:
                context = self._secure_context()
                stream = context.wrap_socket(stream, server_hostname=self._address[0])
            return Connection(stream, read_timeout)
        except BaseException:
            stream.close()
            raise

    def _secure_context(self) -> SSLContext:
        with self._lock:  # loading the usual certificates takes 15 ms
            if self._context is None:
                import ssl

                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies, TLS 1.2 at least
                context.hostname_checks_common_name = False
                context.load_verify_locations(cafile=self._origin.ca_file)
                context.set_alpn_protocols(["http/1.1"])
                self._context = context
            return self._context


def _close_all(connections: list[Connection]) -> None:
    while connections:
        connections.pop().stream.close()
