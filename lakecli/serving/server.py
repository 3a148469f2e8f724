"""The server of an endpoint: its socket, its limits, and how it ends.

uvicorn has no limits for slow clients, so a watchdog closes the connection of a client that

- does not send complete request headers within `HEAD_TIME`, or sends more than `MOST_HEAD` bytes;
- sends fewer than `LEAST` bytes of a body in `PATIENCE`, while the endpoint waits for them or drops
  them because it has refused the body (uvicorn itself ends only connections that are silent);
- leaves the send buffer full for `PATIENCE`.

After an interrupt the endpoint accepts no more connections, waits a moment for running requests,
and cancels the rest. Nothing is lost: a change is durable before its response is sent.
"""

import asyncio
import errno
import logging
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from time import monotonic
from types import FrameType
from typing import Final, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from lakecli.errors import PermissionDenied, UsageError
from lakecli.serving.app import make_app
from lakecli.serving.context import THREAD_NAME, ServingContext

LOOPBACK: Final = "127.0.0.1"
PORT: Final = 8000
"""The default port, if it is free."""

LOCAL_NAMES: Final = frozenset({"localhost", LOOPBACK, "::1"})
"""The host names by which programs on this machine reach the endpoint."""

MOST_CONNECTIONS: Final = 512
"""The maximum number of connections; additional ones are closed at once."""

MOST_HEAD: Final = 64 << 10
"""The maximum size of the headers of a request, in bytes."""

HEAD_TIME: Final = 15.0
PATIENCE: Final = 60.0
LEAST: Final = 16 << 10
"""The minimum number of bytes that a client must send in `PATIENCE` seconds."""

IDLE_TIME: Final = 75
"""Seconds after which a connection without a request is closed."""

_HIGHEST_PORT: Final = 65_535
_TICKS: Final = 10
"""The number of ticks of uvicorn's main loop per second."""

_GRACE: Final = 0.3


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable only from this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def names_of(host: str) -> frozenset[str]:
    """Return the names that the ``Host`` header may have; an empty set allows any.

    Any name is allowed if the endpoint listens on all addresses; TLS makes this safe.
    """
    with suppress(ValueError):
        if ip_address(host).is_unspecified:
            return frozenset()
    return LOCAL_NAMES | {host.lower()}


def bind(host: str, port: int | None) -> socket.socket:
    """Return a listening socket.

    Args:
        host: the address or host name to listen on.
        port: the port; 0 for any free port; ``None`` for `PORT` if it is free, else any.

    Raises:
        UsageError: this machine does not have the address, or the port is in use.
        PermissionDenied: the port needs privileges.
    """
    if port is None:
        with suppress(OSError):
            return _bind(host, PORT)
        port = 0
    if port > _HIGHEST_PORT:
        raise UsageError(f"cannot listen on {host}: there is no port {port}")
    try:
        return _bind(host, port)
    except PermissionError as error:
        raise PermissionDenied(
            f"may not listen on port {port}", hint="choose another port, such as 8000"
        ) from error
    except OSError as error:
        hint = "name an address of this machine"
        if error.errno == errno.EADDRINUSE:
            hint = "another program has the port: choose another one, or none"
        problem = str(error).partition(" (while ")[0]
        raise UsageError(f"cannot listen on {host}, port {port}: {problem}", hint=hint) from error


def _bind(host: str, port: int) -> socket.socket:
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    return socket.create_server(address, family=family, backlog=128, dualstack_ipv6=both)


class WatchedConnection(HttpToolsProtocol):
    """A connection that is closed if its client is too slow or sends too large headers."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request; close the connection beyond `MOST_CONNECTIONS`."""
        super().connection_made(transport)
        self._is_in_head = True
        self._head = self._requests = self._received = self._drained = 0
        self._awaited, self._since = self._awaits(), self.loop.time()
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Count received bytes; close the connection if the headers exceed `MOST_HEAD`."""
        self._received += len(data)
        self._head += len(data)
        super().data_received(data)
        if self._is_in_head and self._head > MOST_HEAD:
            self.transport.abort()

    def on_message_begin(self) -> None:
        """Record that the headers of a request begin to arrive."""
        if not self._is_in_head:
            self._is_in_head, self._head = True, 0
            self._requests += 1
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Record that the headers of a request are complete."""
        self._is_in_head = False
        super().on_headers_complete()

    def resume_writing(self) -> None:
        """Record that the client has taken what filled the send buffer."""
        self._drained += 1
        super().resume_writing()

    def check(self) -> None:
        """Close the connection if its client has kept the endpoint waiting for too long."""
        now, awaited = self.loop.time(), self._awaits()
        if awaited != self._awaited:
            self._awaited, self._since = awaited, now
        elif awaited and now - self._since > (HEAD_TIME if self._is_in_head else PATIENCE):
            self.transport.abort()

    def _awaits(self) -> tuple[str, int] | None:
        """Return what the client has to do, and how far it is; ``None`` if it is not its turn."""
        if self._is_in_head:
            return "send headers", self._requests
        if self.flow.write_paused or self.transport.is_closing():
            return "take the response", self._drained
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or not cycle.more_body:
            return None
        if cycle.waiting_for_100_continue or self.flow.read_paused:
            return None
        return "send the body", self._received // LEAST


class Endpoint(uvicorn.Server):
    """A server that stops at an interrupt, or when another thread calls `stop`.

    Args:
        bound: a listening socket.
        tls: the paths of the certificate and its private key, in PEM.
        report: called with each error that no response describes; see `make_app`.
        started: called once connections are accepted.

    Raises:
        UsageError: the certificate or its key cannot be loaded.
    """

    def __init__(
        self,
        context: ServingContext,
        bound: socket.socket,
        *,
        tls: tuple[str, str] | None = None,
        report: Callable[[BaseException], None],
        started: Callable[[], None] = lambda: None,
    ) -> None:
        # Errors are passed to `report` instead of uvicorn's log.
        logging.getLogger("uvicorn.error").disabled = True
        super().__init__(
            uvicorn.Config(
                make_app(context, report=report),
                http=WatchedConnection,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=IDLE_TIME,
                timeout_graceful_shutdown=cast("int", _GRACE),
                ssl_certfile=tls and tls[0],
                ssl_keyfile=tls and tls[1],
            )
        )
        try:
            self.config.load()
        except OSError as error:  # `SSLError`, too
            raise UsageError(
                f"cannot load the certificate and its key: {error.strerror}",
                hint="name two files in PEM that belong together",
            ) from error
        self._context = context
        self._bound = bound
        self._started = started

    def run_until_stopped(self) -> bool:
        """Handle requests until `stop` or an interrupt; return whether all threads have ended."""
        self.run(sockets=[self._bound])
        for threads in (self._context.threads, self._context.slow_threads):
            threads.shutdown(wait=False, cancel_futures=True)
        ends_at = monotonic() + _GRACE
        working = [each for each in threading.enumerate() if each.name.startswith(THREAD_NAME)]
        for each in working:
            each.join(max(0.0, ends_at - monotonic()))
        return not any(each.is_alive() for each in working)

    def stop(self) -> None:
        """Ask the server to stop; may be called from any thread."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        await super().startup(sockets)
        self._started()

    async def on_tick(self, counter: int) -> bool:
        """Check the connections once per second; return whether to stop."""
        if not counter % _TICKS:
            for each in list(self.server_state.connections):
                cast("WatchedConnection", each).check()
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Stop at SIGINT or SIGTERM; uvicorn itself would raise the signal again at the end."""
        self.stop()
