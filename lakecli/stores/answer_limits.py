"""Limits for slow servers: a deadline for everything before a body, and a minimum rate for bodies.

HTTP clients rely on the timeout of the socket, which restarts with each byte that arrives, so they
never give up on a server that sends one byte at a time. This module adds up the time spent waiting
for a response. Status line, interim responses and headers must be complete within a time limit, and
a body must arrive at a minimum rate. Time that the caller spends between two reads does not count.

`bounded` applies these limits to the connections of `http.client` and of the clients built on it:
`urllib3` and the SDKs. A request may take any time to send, but sending fails if the server stops
receiving. The wait for the response begins when the whole request has been sent.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from http.client import HTTPResponse, LineTooLong
from io import BufferedReader, RawIOBase
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakecli.base.model import NO_ACCOUNT, Account
from lakecli.stores.obstacles import causes_of

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

CONNECT_TIMEOUT: Final = 10.0
"""Seconds to connect, TLS included."""

CONNECTIONS: Final = 32
"""Number of connections that a client keeps open; any other connection is closed after its use."""

LONGEST_WORK: Final = 600.0
"""Seconds that a server may take to copy or join an object while it sends only spaces.

S3 takes minutes to join many parts.
"""

_PIECE: Final = 60 << 10
"""Bytes of a request that are sent at a time.

The time limit applies to each piece, so with the default limit of a minute, a server must receive
1 KiB per second.
"""

_LONGEST_LINE: Final = 64 << 10
_MAX_HEAD: Final = 1 << 20
"""Largest size of everything before a body, in bytes.

In a chunked body, the lines between the chunks may add up to this size plus three quarters of the
bytes received so far.
"""


class SlowAnswerError(TimeoutError):
    """A server is slower than the limits allow; the message names the exceeded limit.

    Attributes:
        server: host and port of the server or proxy, or ``""``.
    """

    def __init__(self, text: str, server: str = "") -> None:
        super().__init__(text)
        self.server = server


class AnswerLimits(NamedTuple):
    """How slowly a server may respond.

    Attributes:
        timeout: seconds for everything before a body, and for each pause in a body.
        min_rate: lowest rate of a body in bytes per second.
        window: seconds of waiting over which the rate is measured.
    """

    timeout: float
    min_rate: int
    window: float
    clock: Callable[[], float] = time.monotonic

    @property
    def timeouts(self) -> tuple[float, float]:
        """The connect timeout and the read timeout in seconds, as HTTP clients expect them."""
        return min(CONNECT_TIMEOUT, self.timeout), self.timeout

    def for_work(self) -> "AnswerLimits":
        """Return limits for a response that begins before the server has finished its work."""
        return self._replace(window=max(self.window, LONGEST_WORK))


def limits_of(account: Account) -> AnswerLimits:
    """Return the limits that the settings of an account define."""
    return AnswerLimits(account.timeout, account.min_rate, account.timeout)


DEFAULT_LIMITS: Final = limits_of(NO_ACCOUNT)


def slow_answer_of(error: BaseException | None) -> SlowAnswerError | None:
    """Return the `SlowAnswerError` that caused an SDK's error, if there is one."""
    causes = () if error is None else causes_of(error)
    return next((each for each in causes if isinstance(each, SlowAnswerError)), None)


def bounded_pools(kinds: Mapping[str, Any], limits: AnswerLimits) -> dict[str, Any]:
    """Return pool classes of `urllib3` whose connections enforce limits.

    Args:
        kinds: the pool classes by scheme, in the form of `PoolManager.pool_classes_by_scheme`.
    """
    return {
        scheme: type("BoundedPool", (pool,), {"ConnectionCls": bounded(pool.ConnectionCls, limits)})
        for scheme, pool in kinds.items()
    }


def bounded(kind: Any, limits: AnswerLimits) -> Any:  # noqa: ANN401 - of any client
    """Return a subclass of `kind` whose connections enforce limits."""

    class BoundedConnection(kind):  # type: ignore[misc] # known when it is made
        sock: Any
        # A proxy's response is read before there is a connection to the server.
        response_class = staticmethod(partial(_BoundedResponse, limits=limits))

        def connect(self) -> None:
            super().connect()
            if not isinstance(self.sock, _BoundedSocket):
                # botocore reads interim responses from the socket.
                self.sock = _BoundedSocket(self.sock, limits, f"{self.host}:{self.port}")

    return BoundedConnection


class _BoundedSocket:
    """A connected socket that enforces limits, and forwards all other attributes to `sock`."""

    def __init__(self, sock: Any, limits: AnswerLimits, server: str = "") -> None:  # noqa: ANN401 - of any client
        self._sock = sock
        self._limits = limits
        self._server = server

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the socket's
        return getattr(self._sock, name)

    def sendall(self, data: bytes) -> None:
        """Send bytes piece by piece; the time limit applies to each piece separately."""
        self._sock.settimeout(self._limits.timeout)
        view = memoryview(data).cast("B")
        try:
            for start in range(0, len(view), _PIECE):
                self._sock.sendall(view[start : start + _PIECE])
        except TimeoutError:
            text = f"it took no part of the request for {self._limits.timeout:g} s"
            raise SlowAnswerError(text, self._server) from None

    def makefile(self, _mode: str = "rb", buffering: int = -1) -> Any:  # noqa: ANN401 - of two kinds
        """Return a file that reads the response within the limits."""
        raw = _Raw(self._sock, self._limits, self._server)
        return BufferedReader(raw) if buffering else raw


class _BoundedResponse(HTTPResponse):
    """The response of a server or a proxy, read within the limits."""

    def __init__(self, sock: Any, *arguments: Any, limits: AnswerLimits, **options: Any) -> None:  # noqa: ANN401 - inherited
        if not isinstance(sock, _BoundedSocket):
            sock = _BoundedSocket(sock, limits)
        super().__init__(sock, *arguments, **options)

    def begin(self) -> None:
        """Read everything before the body of the response."""
        super().begin()
        reader: Any = self.fp
        reader.raw.begin_body()
        if self.chunked:
            self.fp: Any = _Chunks(reader)


class _Raw(RawIOBase):
    """Reads the bytes of a response, and adds up the time spent waiting for them."""

    def __init__(self, sock: Any, limits: AnswerLimits, server: str) -> None:  # noqa: ANN401 - of any client
        self._sock = sock
        self._server = server
        self._file = sock.makefile("rb", buffering=0)
        self._limits = limits
        # A client may have set a shorter timeout, such as for the metadata service of a machine.
        chosen = sock.gettimeout()
        self._timeout = min(limits.timeout, limits.timeout if chosen is None else chosen)
        self._window = self._timeout
        self._is_body = self._has_ended = False
        self._waited = 0.0
        self._due = inf
        self.received = 0

    def readable(self) -> bool:
        """Return ``True``."""
        return True

    def fileno(self) -> int:
        """Return the descriptor of the socket."""
        return int(self._file.fileno())

    def close(self) -> None:
        """Stop reading the response."""
        self._file.close()
        super().close()

    def begin_body(self) -> None:
        """From now on, require the minimum rate instead of the deadline."""
        self._is_body = True
        if self._timeout == self._limits.timeout:
            self._window = self._limits.window
        self._begin_window()

    def _begin_window(self) -> None:
        self._waited = 0.0
        if self._is_body:
            self._due = self.received + self._limits.min_rate * self._window

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Read the bytes that have arrived.

        Raises:
            SlowAnswerError: a limit is exceeded.
            ConnectionResetError: the response ended before its body, but the client continues to
                read.
        """
        clock, patience = self._limits.clock, self._timeout
        if self.received < self._due:
            patience = min(patience, self._window - self._waited)
        self._sock.settimeout(patience)
        begun = clock()
        try:
            count = int(self._file.readinto(buffer))
        except TimeoutError:
            raise self._slow(is_silent=patience == self._timeout) from None
        self._waited += clock() - begun
        self.received += count
        if not self._is_body:
            if self.received > _MAX_HEAD:
                raise LineTooLong("headers")
            if not count and self._has_ended:  # botocore would read on for ever
                raise ConnectionResetError("the answer ended before its body")
            self._has_ended = not count
        if self._waited >= self._window:
            if count and self.received < self._due:
                raise self._slow()
            self._begin_window()
        return count

    def _slow(self, *, is_silent: bool = False) -> SlowAnswerError:
        rate = f"{self._limits.min_rate:,} bytes a second"
        text = f"it sent less than {rate} for {self._window:g} s"
        if not self._is_body:
            text = f"its headers were not complete after {self._timeout:g} s"
        elif is_silent:
            text = f"it sent nothing for {self._timeout:g} s"
        return SlowAnswerError(text, self._server)


class _Chunks:
    """A reader of a chunked body that limits the total size of the lines between the chunks."""

    def __init__(self, reader: Any) -> None:  # noqa: ANN401 - a `BufferedReader`
        self._reader = reader
        self._lines = 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the reader's
        return getattr(self._reader, name)

    def readline(self, size: int = -1) -> bytes:
        """Read a chunk's header, or a trailer header after the last chunk."""
        line: bytes = self._reader.readline(size if size >= 0 else _LONGEST_LINE + 1)
        self._lines += len(line)
        is_flood = self._lines > _MAX_HEAD + self._reader.raw.received * 3 // 4
        if is_flood or len(line) > _LONGEST_LINE:
            raise LineTooLong("chunks")
        return line
