"""Connections send by few calls of the system, and wait for what must come, but not for ever."""

from __future__ import annotations

import os
import socket
import struct
import threading
from typing import TYPE_CHECKING

import pytest

from lakecli.objectstore.http_answer import PIECE
from lakecli.objectstore.http_connection import SMALL, Connection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

OPTIONS = (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO)


class Recorder(socket.socket):
    """Records what is sent at a time.

    Attributes:
        sent: each call, and its bytes.
        taken: bytes that a call for several buffers takes, at most.
    """

    def __init__(self, taken: int = 1 << 40) -> None:
        super().__init__()
        self.sent: list[tuple[str, bytes]] = []
        self.taken = taken

    def sendall(self, data: bytes | memoryview, flags: int = 0, /) -> None:  # type: ignore[override]
        """Record it."""
        del flags
        self.sent.append(("sendall", bytes(data)))

    def sendmsg(self, buffers: Iterable[bytes], /) -> int:  # type: ignore[override]
        """Record it."""
        data = b"".join(map(bytes, buffers))[: self.taken]
        self.sent.append(("sendmsg", data))
        return len(data)


class Secure(Recorder):
    """Stands for one of TLS, which takes neither several buffers nor flags."""

    def pending(self) -> int:
        """Return how much was received and not yet read."""
        return 0

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Return what was asked for."""
        return b"%d %d" % (size, flags)


class Polls:
    """Finds nothing to read, and records how long it was to wait for it."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def poll(self, timeout: int) -> list[tuple[int, int]]:
        """Find nothing."""
        self.asked.append(timeout)
        return []


@pytest.fixture
def pair() -> Iterator[tuple[Connection, socket.socket]]:
    left, right = socket.socketpair()
    with left, right:
        yield Connection(left, 5), right


@pytest.mark.parametrize("size", [0, 1, SMALL, SMALL + 1, 5 << 19])
@pytest.mark.parametrize("kind", [Recorder, Secure])
def test_a_small_body_is_sent_with_its_head_and_a_large_one_in_pieces(
    kind: type[Recorder], size: int
) -> None:
    body = os.urandom(size)
    with kind() as stream:
        assert Connection(stream, 1).send(b"head", body)
        calls, sent = zip(*stream.sent, strict=True)
    if size <= SMALL:
        assert sent == (b"head" + body,)
        assert calls == ("sendmsg" if size and kind is Recorder else "sendall",)
    else:
        assert (sent[0], b"".join(sent[1:])) == (b"head", body)
        assert [len(each) for each in sent[1:]] == [PIECE] * (size // PIECE) + [size % PIECE]
        assert set(calls) == {"sendall"}


@pytest.mark.parametrize("taken", [1, 4, 5, 7, 8])
def test_the_rest_of_a_request_follows(taken: int) -> None:
    with Recorder(taken) as stream:
        assert Connection(stream, 1).send(b"head", b"body")
        assert b"".join(data for _, data in stream.sent) == b"headbody"
        assert len(stream.sent) == (1 if taken == 8 else 2)


def test_the_kernel_keeps_the_time_limit() -> None:
    with socket.socket() as stream:
        Connection(stream, 7.5)
        assert stream.gettimeout() is None
        limits = [stream.getsockopt(socket.SOL_SOCKET, each, 16) for each in OPTIONS]
        assert [struct.unpack("ll", each) for each in limits] == [(7, 500_000)] * 2


def test_python_keeps_the_time_limit_of_tls_whose_records_have_sizes_of_their_own() -> None:
    with Secure() as stream:
        connection = Connection(stream, 7.5)
        assert stream.gettimeout() == 7.5
        assert (connection.receive(3), connection.fill(4)) == (b"3 0", b"4 0")


def test_only_what_must_come_is_waited_for(pair: tuple[Connection, socket.socket]) -> None:
    connection, server = pair
    server.sendall(b"abc")
    assert connection.receive(9) == b"abc"
    server.sendall(b"abc")
    later = threading.Timer(0.02, server.sendall, [b"def"])
    later.start()
    assert connection.fill(6) == b"abcdef"
    later.join()
    server.sendall(b"abc")
    server.close()
    assert (connection.fill(6), connection.fill(3)) == (b"abc", b"")


def test_no_more_than_a_piece_is_received_at_a_time() -> None:
    with Secure() as stream:
        assert Connection(stream, 1).fill(PIECE + 1) == b"%d 0" % PIECE


def test_waiting_ends(pair: tuple[Connection, socket.socket]) -> None:
    _, server = pair
    connection = Connection(server, 0.01)
    for receive in (connection.receive, connection.fill):
        with pytest.raises(TimeoutError):
            receive(1)
    assert not connection.has_answered


@pytest.mark.parametrize("size", [0, SMALL, SMALL + 1])
def test_a_server_that_takes_nothing_is_not_waited_for_for_ever(
    pair: tuple[Connection, socket.socket], size: int
) -> None:
    connection = Connection(pair[1], 0.01)
    is_full = False
    while not is_full:
        try:
            assert connection.send(b"head", bytes(size))
        except TimeoutError:
            is_full = True


def test_a_connection_is_silent_without_being_waited_for(
    pair: tuple[Connection, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, server = pair
    assert connection.is_silent()
    server.sendall(b"a")
    assert not connection.is_silent()
    assert connection.receive(1) == b"a"
    assert connection.is_silent()
    polls = Polls()
    with monkeypatch.context() as patch:
        patch.setattr(connection, "_poll", polls)
        assert connection.is_silent()
    assert polls.asked == [0]
    server.close()
    assert not connection.is_silent()
    assert not connection.send(b"head", b"")
