"""Answers of HTTP are read strictly, whatever pieces they arrive in, and within bounds."""

from __future__ import annotations

import http.client
import io
import socket
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.objectstore.http_answer import (
    MAX_HEAD,
    MAX_HEADERS,
    MAX_REFUSAL,
    Answer,
    TooLongError,
    UnusualAnswerError,
    read_answer,
)

if TYPE_CHECKING:
    from collections.abc import Callable

OK = b"HTTP/1.1 200 OK\r\n"


class Server:
    """Bytes that arrive in pieces; counts those that were asked for."""

    def __init__(self, data: bytes, *, piece: int = 1 << 16) -> None:
        self.data = data
        self.piece = piece
        self.received = 0

    def receive(self, size: int) -> bytes:
        """Return the next piece."""
        start, self.received = self.received, self.received + min(size, self.piece)
        self.received = min(self.received, len(self.data))
        return self.data[start : self.received]


def read(data: bytes, *, piece: int = 1 << 16, limit: int | None = None) -> Answer:
    return read_answer(Server(data, piece=piece).receive, limit=limit)


def endless(start: bytes, more: bytes) -> tuple[Callable[[int], bytes], list[int]]:
    """Return a server that sends for ever, and how much it has sent in each piece."""
    sent: list[int] = []

    def receive(size: int) -> bytes:
        data = (more * (size // len(more) + 1))[:size] if sent else start
        sent.append(len(data))
        return data

    return receive, sent


@pytest.mark.parametrize("piece", [1, 2, 7, 1 << 16])
def test_an_answer_is_the_same_whatever_pieces_it_arrives_in(piece: int) -> None:
    data = (
        OK
        + b'ETag:"a"\r\nDate:  now \t\r\nVary: a\r\nVARY: b\r\nContent-Length: 6\r\n\r\nab\r\n\r\n'
    )
    headers = {"etag": '"a"', "date": "now", "vary": "a, b", "content-length": "6"}
    assert read(data, piece=piece) == Answer(200, headers, b"ab\r\n\r\n", stays_open=True)


@pytest.mark.parametrize("piece", [1, 3, 1 << 16])
def test_chunks_are_joined(piece: int) -> None:
    data = OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA; x=y\r\n0123456789\r\n0\r\n\r\n"
    assert read(data, piece=piece).body == b"abc0123456789"
    assert read(data, piece=piece, limit=13).body == b"abc0123456789"
    with pytest.raises(TooLongError):
        read(data, piece=piece, limit=12)


@given(st.binary(max_size=300), st.integers(1, 400), st.integers(1, 64))
def test_the_standard_library_reads_the_same(body: bytes, piece: int, chunk: int) -> None:
    pieces = [body[start : start + chunk] for start in range(0, len(body), chunk)]
    chunked = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in [*pieces, b""])
    plain = OK + b"X-Name: v w\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    for data in (plain, OK + b"Transfer-Encoding: Chunked\r\n\r\n" + chunked):
        left, right = socket.socketpair()
        with left, right:
            left.sendall(data)
            response = http.client.HTTPResponse(right)
            response.begin()
            expected = (response.status, response.read(), response.getheader("x-name"))
            response.close()
        answer = read(data, piece=piece)
        assert (answer.status, answer.body, answer.headers.get("x-name")) == expected


@pytest.mark.parametrize(
    ("data", "stays_open"),
    [
        (OK + b"Content-Length: 0\r\n\r\n", True),
        (OK + b"Content-Length: 0\r\nConnection: keep-alive\r\n\r\n", True),
        (OK + b"Content-Length: 0\r\nConnection: Close\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.1 204 No Content\r\n\r\n", True),
        (b"HTTP/1.1 304\r\nContent-Length: 5\r\n\r\n", True),
    ],
)
def test_a_connection_stays_open_if_the_server_says_so(data: bytes, *, stays_open: bool) -> None:
    answer = read(data)
    assert (answer.body, answer.stays_open) == (b"", stays_open)


def test_an_answer_to_head_has_no_body() -> None:
    for header in (b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b""):
        answer = read_answer(Server(OK + header + b"\r\n").receive, has_body=False)
        assert (answer.status, answer.body, answer.stays_open) == (200, b"", True)
    with pytest.raises(UnusualAnswerError):
        read_answer(Server(OK + b"Content-Length: 1\r\n\r\na").receive, has_body=False)


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n\r\n",
        b"SSH-2.0-server\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 0\r\n\r\n",
        OK + b"\r\n",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Content-Length: +1\r\n\r\na",
        OK + b"Content-Length: 0x1\r\n\r\na",
        OK + b"Content-Length: \r\n\r\n",
        OK + b"Content-Length: \xb2\r\n\r\naa",
        OK + b"Content-Length: 9999999999999999999\r\n\r\n",
        OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        OK + b"Content-Length : 1\r\n\r\na",
        OK + b"Content-Length: 1\r\n folded\r\n\r\na",
        OK + b"Content-Length: 1\r\nno colon\r\n\r\na",
        OK + b"Content-Length: 1\r\n: no name\r\n\r\na",
        OK + b"Content-Length: 1\r\nA: \0\r\n\r\na",
        OK + b"Content-Length: 1\r\nA: b\nC: d\r\n\r\na",
        OK + b"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\nTrailer: a\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffff\r\n",
    ],
)
def test_an_unusual_answer_is_refused(data: bytes) -> None:
    for piece in (1, 1 << 16):
        with pytest.raises(UnusualAnswerError):
            read(data, piece=piece)


def test_bytes_behind_an_answer_are_refused() -> None:
    with pytest.raises(UnusualAnswerError):
        read(OK + b"Content-Length: 1\r\n\r\nab")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        OK,
        OK + b"Content-Length: 5\r\n\r\nabcd",
        OK + b"Transfer-Encoding: chunked\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nabcd",
        OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n",
    ],
)
def test_an_answer_that_breaks_off_is_no_answer(data: bytes) -> None:
    with pytest.raises(ConnectionResetError):
        read(data)


def test_an_endless_head_is_refused_early() -> None:
    for start, more in (
        (b"H", b"T"),
        (OK, b"Some-Name: some value\r\n"),
        (OK + b"A: ", b"b"),
        (b"\r", b"\n"),
    ):
        receive, sent = endless(start, more)
        with pytest.raises(UnusualAnswerError):
            read_answer(receive)
        assert sum(sent) <= 3 * MAX_HEAD


def test_an_endless_line_of_a_chunk_is_refused_early() -> None:
    receive, sent = endless(OK + b"Transfer-Encoding: chunked\r\n\r\n1;", b"x")
    with pytest.raises(UnusualAnswerError):
        read_answer(receive)
    assert sum(sent) <= 2 * MAX_HEAD


def test_headers_are_counted() -> None:
    lines = b"".join(b"Name-%d: v\r\n" % number for number in range(MAX_HEADERS - 1))
    assert len(read(OK + lines + b"Content-Length: 0\r\n\r\n").headers) == MAX_HEADERS
    with pytest.raises(UnusualAnswerError, match="headers"):
        read(OK + lines + b"One: v\r\nContent-Length: 0\r\n\r\n")


def test_a_body_beyond_the_limit_is_not_read() -> None:
    server = Server(OK + b"Content-Length: 100000\r\n\r\n" + b"x" * 100_000, piece=1000)
    with pytest.raises(TooLongError):
        read_answer(server.receive, limit=99_999)
    assert server.received == 1000
    assert len(read(server.data, limit=100_000).body) == 100_000


def test_a_head_of_the_largest_size_without_an_end_is_refused_at_once() -> None:
    head = OK + b"A: "
    with pytest.raises(UnusualAnswerError):
        read(head.ljust(MAX_HEAD, b"b"))


def test_the_bounds_of_a_head_are_those_of_the_standard_library() -> None:
    known = vars(http.client)
    assert (known["_MAXLINE"], known["_MAXHEADERS"]) == (MAX_HEAD, MAX_HEADERS)


def test_a_body_of_any_success_has_the_limit_of_the_caller() -> None:
    for status in (200, 299):
        with pytest.raises(TooLongError):
            read(b"HTTP/1.1 %d A\r\nContent-Length: 3\r\n\r\nabc" % status, limit=1)


@pytest.mark.parametrize("status", [300, 404])
@pytest.mark.parametrize("limit", [None, 1])
def test_refusals_have_a_limit_of_their_own(status: int, limit: int | None) -> None:
    head = b"HTTP/1.1 %d Refused\r\nContent-Length: " % status
    assert read(head + b"3\r\n\r\nabc", limit=limit).body == b"abc"
    with pytest.raises(TooLongError):
        read(head + b"%d\r\n\r\n" % (MAX_REFUSAL + 1), limit=limit)


def test_memory_grows_with_what_arrives() -> None:
    """A length of 10^17 bytes reserves nothing."""
    stream = io.BytesIO(OK + b"Content-Length: 100000000000000000\r\n\r\nabc")
    with pytest.raises(ConnectionResetError):
        read_answer(stream.read)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_refused(tail: bytes) -> None:
    for data in (tail, OK + tail, OK + b"Transfer-Encoding: chunked\r\n\r\n" + tail):
        try:
            answer = read(data, piece=5)
        except (UnusualAnswerError, ConnectionResetError):
            continue
        assert answer.status >= 200
