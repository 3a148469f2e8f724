"""How slowly servers may answer, by a clock and a socket of the test."""

from __future__ import annotations

import socket
from http.client import HTTPConnection, LineTooLong
from typing import TYPE_CHECKING, Any

import pytest
from urllib3 import HTTPConnectionPool

from lakecli.base.model import NO_ACCOUNT
from lakecli.settings.keys import BY_NAME, NETWORK_MIN_RATE, NETWORK_TIMEOUT
from lakecli.stores.answer_limits import (
    DEFAULT_LIMITS,
    LONGEST_WORK,
    AnswerLimits,
    SlowAnswerError,
    bounded,
    bounded_pools,
    limits_of,
    slow_answer_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Line:
    """A socket on which a server sends pieces; each takes `seconds` by the clock.

    Args:
        pieces: of the answer.
        seconds: until each of them arrives.
    """

    def __init__(self, pieces: Iterator[bytes], seconds: float) -> None:
        self._pieces = pieces
        self._seconds = seconds
        self._timeout: float | None = None
        self._rest = b""
        self.sent: list[int] = []
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def settimeout(self, timeout: float | None) -> None:
        assert timeout is None or timeout > 0
        self._timeout = timeout

    def gettimeout(self) -> float | None:
        return self._timeout

    def setsockopt(self, *_: object) -> None: ...

    def sendall(self, data: bytes) -> None:
        assert self._timeout == DEFAULT_LIMITS.timeout
        self.sent.append(len(data))

    def close(self) -> None: ...

    def makefile(self, _mode: str, buffering: int) -> Any:
        assert buffering == 0
        return self

    def readinto(self, buffer: memoryview) -> int:
        assert self._timeout is not None, "it would wait for ever"
        if not self._rest:
            if self._seconds > self._timeout:
                self.now += self._timeout
                raise TimeoutError
            self.now += self._seconds
            self._rest = next(self._pieces, b"")
        piece, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(piece)] = piece
        return len(piece)


def connected(line: Line, limits: AnswerLimits = DEFAULT_LIMITS) -> HTTPConnection:
    """Return a connection whose request was sent."""
    kind = bounded(HTTPConnection, limits._replace(clock=line.clock))

    def connect(*_: object) -> Line:
        return line

    made: HTTPConnection = kind("h")
    made._create_connection = connect  # type: ignore[attr-defined]
    made.request("GET", "/")
    return made


def body_of(line: Line, limits: AnswerLimits = DEFAULT_LIMITS) -> bytes:
    return connected(line, limits).getresponse().read()


def test_the_library_has_the_limits_of_the_settings() -> None:
    timeout, rate = (BY_NAME[name] for name in (NETWORK_TIMEOUT, NETWORK_MIN_RATE))
    assert timeout.default
    assert rate.default
    assert timeout.parse(timeout.default).total_seconds() == DEFAULT_LIMITS.timeout == 60  # type: ignore[attr-defined]
    assert rate.parse(rate.default) == DEFAULT_LIMITS.min_rate == 1_024


def bits(text: bytes) -> Iterator[bytes]:
    return (text[at : at + 1] for at in range(len(text)))


@pytest.mark.parametrize("seconds", [0.5, 1.0, 59.0, 61.0])
@pytest.mark.parametrize(
    "text",
    [
        HEAD % 0,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 200,
        b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 99,
        b"HTTP/1.1 200 OK\r\nX-A: " + b"b" * 1_000,
    ],
)
def test_what_comes_before_a_body_has_one_deadline(text: bytes, seconds: float) -> None:
    line = Line(bits(text), seconds)
    if len(text) * seconds < 60:
        assert body_of(line) == b""
        return
    with pytest.raises(SlowAnswerError, match="headers were not complete after 60 s"):
        body_of(line)
    assert line.now == pytest.approx(60, abs=1)


def test_before_a_body_there_is_no_flood() -> None:
    for text in (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\nA: b\r\n\r\n"):
        with pytest.raises(LineTooLong):
            body_of(Line((text * 100 for _ in range(20_000)), 0))


@pytest.mark.parametrize(("rate", "is_allowed"), [(2_048, True), (1_100, True), (900, False)])
@pytest.mark.parametrize("seconds", [1, 10])
def test_a_body_keeps_up_a_rate(rate: int, seconds: int, *, is_allowed: bool) -> None:
    size = 3_600 * rate
    piece = bytes(rate * seconds)
    line = Line(iter([HEAD % size, *([piece] * (size // len(piece)))]), seconds)
    if is_allowed:
        assert len(body_of(line)) == size
        return
    with pytest.raises(SlowAnswerError, match="less than 1,024 bytes a second for 60 s"):
        body_of(line)
    assert line.now == pytest.approx(60, abs=11)


def test_a_burst_makes_up_for_a_pause() -> None:
    size = 20 * (70 << 10)
    line = Line(iter([HEAD % size, *([bytes(70 << 10)] * 20)]), 50)
    assert len(body_of(line)) == size


def test_a_silence_is_as_long_as_the_deadline_though_the_rate_was_kept() -> None:
    line = Line(iter([HEAD % (9 << 20), bytes(8 << 20)]), 61)
    line._seconds = 1
    answer = connected(line).getresponse()
    answer.read(8 << 20)
    line._seconds, begun = 61, line.now
    with pytest.raises(SlowAnswerError, match="it sent nothing for 60 s"):
        answer.read(1)
    assert line.now - begun == 60


def test_a_rate_of_zero_leaves_the_silence() -> None:
    limits = limits_of(NO_ACCOUNT._replace(min_rate=0))
    assert body_of(Line(iter([HEAD % 900, *bits(bytes(900))]), 59), limits) == bytes(900)
    with pytest.raises(SlowAnswerError, match="headers were not"):
        body_of(Line(bits(HEAD % 0), 59), limits)


def test_the_time_of_the_reader_does_not_count() -> None:
    line = Line(iter([HEAD % 100, *bits(bytes(100))]), 0.1)
    answer = connected(line).getresponse()
    for _ in range(100):
        line.now += 3_600
        assert len(answer.read(1)) == 1


def test_a_server_may_send_blanks_while_it_works() -> None:
    size = 55
    line = Line(iter([HEAD % size, *bits(b" " * size)]), 10)
    with pytest.raises(SlowAnswerError):
        body_of(line)
    line = Line(iter([HEAD % size, *bits(b" " * size)]), 10)
    assert body_of(line, DEFAULT_LIMITS.for_work()) == b" " * size
    line = Line(iter([HEAD % 100, *bits(b" " * 100)]), 10)
    with pytest.raises(SlowAnswerError, match="for 600 s"):
        body_of(line, DEFAULT_LIMITS.for_work())
    assert line.now == pytest.approx(LONGEST_WORK, abs=11)
    line = Line(iter([HEAD % 9]), 1)
    answer = connected(line, DEFAULT_LIMITS.for_work()).getresponse()
    line._seconds = 61
    with pytest.raises(SlowAnswerError, match="sent nothing for 60 s"):
        answer.read()


@pytest.mark.parametrize("is_urllib3", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        CHUNKED + b"1;x=" + b"y" * (1 << 20),
        CHUNKED + b"1\r\nx\r\n0\r\n" + (b"A: " + b"b" * 500 + b"\r\n") * 12_000,
        CHUNKED + (b"1;x=" + b"y" * 60_000 + b"\r\nx\r\n") * 100,
    ],
)
def test_the_lines_between_chunks_are_bounded(text: bytes, *, is_urllib3: bool) -> None:
    pieces = (text[at : at + 8_192] for at in range(0, len(text), 8_192))
    read = body_by_urllib3 if is_urllib3 else body_of
    with pytest.raises(Exception, match="got more than 65536 bytes when reading chunks"):
        read(Line(pieces, 0))


@pytest.mark.parametrize("is_urllib3", [False, True])
@pytest.mark.parametrize("size", [1, 100])
def test_small_chunks_are_read(size: int, *, is_urllib3: bool) -> None:
    chunk = b"%x;a=b\r\n" % size + bytes(size) + b"\r\n"
    text = CHUNKED + chunk * 20_000 + b"0\r\n\r\n"
    pieces = (text[at : at + 8_192] for at in range(0, len(text), 8_192))
    read = body_by_urllib3 if is_urllib3 else body_of
    assert read(Line(pieces, 0.001)) == bytes(20_000 * size)


def body_by_urllib3(line: Line) -> bytes:
    limits = DEFAULT_LIMITS._replace(clock=line.clock)
    pool = bounded_pools({"http": HTTPConnectionPool}, limits)["http"]("h")
    pool.ConnectionCls = type("Fake", (pool.ConnectionCls,), {"_new_conn": lambda _: line})
    answer = pool.request("GET", "/", retries=False, preload_content=False)
    return b"".join(answer.stream(1 << 16))


def test_a_shorter_time_of_a_client_counts() -> None:
    """As for a server that tells about this machine."""
    line = Line(bits(HEAD % 0), 0.5)
    made = connected(line)
    line.settimeout(2)
    with pytest.raises(SlowAnswerError, match="after 2 s"):
        made.getresponse()


def test_an_interim_answer_that_breaks_off_ends() -> None:
    """botocore reads on until a line comes."""
    made = connected(Line(iter([b"HTTP/1.1 100 Continue\r\n"]), 0))
    reader = made.sock.makefile("rb", 0)
    assert reader.readline() == b"HTTP/1.1 100 Continue\r\n"
    assert reader.readline() == b""
    with pytest.raises(ConnectionResetError):
        reader.readline()


def test_each_piece_of_a_request_has_the_time_for_itself() -> None:
    """1 KiB a second is enough; a time limit of a socket counts for all that it is to send."""
    line = Line(iter(()), 1)
    made = connected(line)
    made.sock.sendall(bytes(1 << 20))
    assert sum(line.sent) > 1 << 20
    assert max(line.sent) <= 60 << 10


def test_a_server_that_takes_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = bounded(HTTPConnection, DEFAULT_LIMITS._replace(timeout=0.05))(
            *listener.getsockname()
        )
        with pytest.raises(SlowAnswerError, match=r"took no part of the request for 0\.05 s"):
            made.request("PUT", "/", bytes(32 << 20))
        made.close()


def test_the_cause_of_an_error_is_found() -> None:
    slow = SlowAnswerError("slow")
    azure: Any = ValueError()
    azure.inner_exception = slow
    outer = KeyError()
    outer.__cause__ = azure
    assert slow_answer_of(outer) is slow
    assert slow_answer_of(ValueError()) is None


def test_what_a_caller_is_handling_hides_no_slow_answer() -> None:
    slow = SlowAnswerError("it sends too little")
    raised: Any = ValueError("of an SDK")
    raised.inner_exception = slow
    raised.__context__ = KeyError("the caller's")
    assert slow_answer_of(raised) is slow
