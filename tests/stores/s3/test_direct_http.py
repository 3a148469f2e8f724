"""Direct requests over connections that are kept, against servers that close, stall and lie."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.model import NO_ACCOUNT
from lakecli.stores.answer_limits import DEFAULT_LIMITS, AnswerLimits, limits_of
from lakecli.stores.responses import MAX_REFUSAL
from lakecli.stores.s3 import direct_http
from lakecli.stores.s3.direct_http import DirectHttp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n"
CHUNKS = b"Transfer-Encoding: chunked"
REFUSED = b"HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
HEADERS = {"Host": "h", "Accept-Encoding": "identity", "User-Agent": "u"}


class Script:
    """A server that gives each connection to the next function; the last one serves all others.

    Attributes:
        connections: how many there were.
    """

    def __init__(self, *serve: Callable[[socket.socket], object]) -> None:
        self._serve = list(serve)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = 0

    def run(self) -> None:
        """Serve until the listener is closed."""
        with ExitStack() as streams:
            while True:
                try:
                    stream, _ = self._listener.accept()
                except OSError:
                    return
                streams.enter_context(stream)
                stream.settimeout(10)
                serve = self._serve[min(self.connections, len(self._serve) - 1)]
                self.connections += 1
                serve(stream)

    def stop(self) -> None:
        """Close the listener."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextmanager
def serving(
    *serve: Callable[[socket.socket], object], limits: AnswerLimits = DEFAULT_LIMITS
) -> Iterator[tuple[Script, DirectHttp]]:
    """Run a server, and make a client of it."""
    script = Script(*serve)
    thread = threading.Thread(target=script.run, daemon=True)
    thread.start()
    try:
        yield script, DirectHttp(script.url, None, limits)
    finally:
        script.stop()
        thread.join(10)


def requested(stream: socket.socket) -> bytes:
    """Read a request to its end; return nothing if the connection was closed instead."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (piece := stream.recv(1 << 16)):
            return data
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")), 0
    )
    while len(body) < length:
        body += stream.recv(1 << 16)
    return head + b"\r\n\r\n" + body


def answers(*texts: bytes, then_close: bool = False) -> Callable[[socket.socket], object]:
    """Return a function that answers so many requests."""

    def serve(stream: socket.socket) -> None:
        for text in texts:
            requested(stream)
            with suppress(OSError):  # the client has closed the connection
                stream.sendall(text)
        if then_close:
            stream.close()

    return serve


def body_of(http: DirectHttp, path: str = "/a", *, limit: int | None = None) -> bytes | None:
    """Return the body of the answer to a GET."""
    answer = http.send("GET", path, HEADERS, limit=limit)
    return None if answer is None else answer.body


def test_a_connection_serves_many_requests() -> None:
    received = []

    def serve(stream: socket.socket) -> None:
        for text in (OK, CHUNKED, OK, OK):
            received.append(requested(stream))
            stream.sendall(text)

    with serving(serve) as (script, http):
        assert body_of(http) == body_of(http, limit=2) == b"ok"
        assert http.send("PUT", "/a/b%20c?x=y%2B", HEADERS, b"body")
        assert http.send("PUT", "/a", HEADERS)
        assert script.connections == 1
    lines = [request.partition(b"\r\n")[0] for request in received]
    assert lines == [b"GET /a HTTP/1.1"] * 2 + [b"PUT /a/b%20c?x=y%2B HTTP/1.1", b"PUT /a HTTP/1.1"]
    assert b"Content-Length: 4\r\n" in received[2]
    assert received[2].endswith(b"\r\n\r\nbody")
    assert b"Content-Length: 0\r\n" in received[3]
    # Whatever is sent beside these is not signed.
    names = {line.partition(b":")[0] for line in received[0].split(b"\r\n")[1:] if line}
    assert names == {name.encode() for name in HEADERS}


def test_headers_have_lower_case_names_and_repeated_ones_are_joined() -> None:
    text = OK.replace(b"\r\n", b"\r\nX-A: 1\r\nETag: e\r\nx-a:  2\r\n", 1)
    with serving(answers(text)) as (_, http):
        answer = http.send("GET", "/a", HEADERS)
    assert answer is not None
    assert answer.headers == {"x-a": "1, 2", "etag": "e", "content-length": "2"}


@pytest.mark.parametrize("size", [1, (256 << 10) + 1, 3 << 20])
def test_a_body_arrives_whole(size: int) -> None:
    received = []

    def serve(stream: socket.socket) -> None:
        received.append(requested(stream))
        stream.sendall(OK)

    body = os.urandom(size)
    with serving(serve) as (_, http):
        assert http.send("PUT", "/a", HEADERS, body)
    assert received[0].partition(b"\r\n\r\n")[2] == body


def test_a_connection_that_the_server_closed_is_replaced() -> None:
    is_closed = threading.Event()

    def answer_and_close(stream: socket.socket) -> None:
        answers(OK, then_close=True)(stream)
        is_closed.set()

    with serving(answer_and_close, answers(OK, OK)) as (script, http):
        assert body_of(http) == b"ok"
        assert is_closed.wait(10)  # a request that meets the closing is answered by None
        assert [body_of(http) for _ in range(2)] == [b"ok"] * 2
        assert script.connections == 2


def test_a_connection_that_the_server_wants_closed_is_closed() -> None:
    closing = OK.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
    with serving(answers(closing, OK), answers(OK)) as (script, http):
        assert [body_of(http) for _ in range(2)] == [b"ok"] * 2
        assert script.connections == 2


@pytest.mark.parametrize("limit", [None, 100])
@pytest.mark.parametrize("text", [OK, CHUNKED], ids=["length", "chunks"])
def test_a_cut_answer_is_none_and_is_not_asked_for_again(text: bytes, limit: int | None) -> None:
    whole = len(text) if text is OK else text.rindex(b"0")  # an empty chunk says that all is there
    for end in range(whole):
        with serving(answers(text[:end], then_close=True)) as (script, http):
            assert body_of(http, limit=limit) is None
            assert script.connections == 1


@pytest.mark.parametrize(
    "text",
    [
        b"HTTP/1.1 200 OK\r\n\r\nok",
        OK.replace(b"Content-Length: 2", b"Content-Length: +2"),
        OK.replace(b"Content-Length: 2", b"Content-Length: x"),
        OK.replace(b"Content-Length: 2", b"Content-Length: 2, 2"),
        OK.replace(b"Content-Length: 2", b"Transfer-Encoding: identity"),
        OK.replace(b"Content-Length: 2", b"Content-Length: 9999999999999999"),
        OK.replace(b"Content-Length: 2", b"Content-Length: 99999999999999999999999"),
        CHUNKED.replace(b"chunked", b"gzip, chunked"),
        CHUNKED.replace(b"\r\n1\r\n", b"\r\nx\r\n"),
        b"no HTTP\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 101 + b"Content-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nA: " + b"b" * (65 << 10) + b"\r\nContent-Length: 2\r\n\r\nok",
    ],
)
@pytest.mark.parametrize("limit", [None, 100])
def test_an_answer_that_does_not_say_where_it_ends_is_none(text: bytes, limit: int | None) -> None:
    with serving(answers(text, then_close=True)) as (_, http):
        assert body_of(http, limit=limit) is None


@pytest.mark.parametrize("length", [b"Content-Length: 255", CHUNKS])
def test_a_long_answer_is_none_and_does_not_keep_its_connection(length: bytes) -> None:
    """What is left of it would be taken for the next answer."""
    body = bytes(255)
    body = body if length != CHUNKS else b"ff\r\n%b\r\n0\r\n\r\n" % body
    text = b"HTTP/1.1 200 OK\r\n%b\r\n\r\n%b" % (length, body)
    with serving(answers(text)) as (script, http):
        for number in range(3):
            assert body_of(http, limit=99) is None
            assert script.connections == number + 1
        assert body_of(http, limit=255) == bytes(255)


@pytest.mark.parametrize(("size", "is_read"), [(MAX_REFUSAL, True), (MAX_REFUSAL + 1, False)])
def test_a_refusal_has_a_bound_of_its_own(size: int, *, is_read: bool) -> None:
    head = b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n" % size
    with serving(answers(head + bytes(size))) as (_, http):
        assert (body_of(http) is not None) == is_read


def test_an_answer_to_head_has_no_body() -> None:
    with serving(answers(OK[:-2], OK)) as (script, http):
        answer = http.send("HEAD", "/a", HEADERS)
        assert answer is not None
        assert (answer.body, answer.headers["content-length"]) == (b"", "2")
        assert body_of(http) == b"ok"
        assert script.connections == 1


def test_a_redirect_is_not_followed() -> None:
    moved = b"HTTP/1.1 307 Moved\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n"
    with serving(answers(moved, then_close=True)) as (script, http):
        answer = http.send("GET", "/a", HEADERS)
        assert script.connections == 1
    assert answer is not None
    assert answer.status == 307


def test_bytes_that_nobody_asked_for_are_no_answer() -> None:
    """Otherwise the next request would be answered by what came before it."""
    forged = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
    answered, sent = threading.Event(), threading.Event()

    def serve(stream: socket.socket) -> None:
        answers(OK)(stream)
        assert answered.wait(10)
        stream.sendall(forged)
        sent.set()

    with serving(serve, answers(OK)) as (script, http):
        assert body_of(http) == b"ok"
        answered.set()
        assert sent.wait(10)
        assert body_of(http, "/b") == b"ok"
        assert script.connections == 2
    with serving(answers(OK + forged, OK), answers(OK)) as (_, http):
        assert body_of(http) == body_of(http, "/b") == b"ok"


def test_a_refusal_counts_though_the_server_does_not_take_the_body() -> None:
    def serve(stream: socket.socket) -> None:
        stream.recv(100)
        stream.sendall(REFUSED)
        stream.shutdown(socket.SHUT_WR)
        with suppress(OSError):
            while stream.recv(1 << 16):
                pass

    with serving(serve) as (_, http):
        answer = http.send("PUT", "/a", HEADERS, bytes(4 << 20))
    assert answer is not None
    assert answer.status == 412


SHORT = limits_of(NO_ACCOUNT._replace(timeout=0.1))


def test_a_server_that_takes_nothing_is_waited_for_once() -> None:
    done = threading.Event()
    with serving(lambda _: done.wait(10), limits=SHORT) as (script, http):
        assert http.send("PUT", "/a", HEADERS, bytes(32 << 20)) is None
        done.set()
    assert script.connections == 1


def test_a_silent_server_is_waited_for_once() -> None:
    with serving(requested, limits=SHORT) as (script, http):
        assert body_of(http) is None
    assert script.connections == 1


def test_nobody_listens() -> None:
    with serving(requested) as (_, http):
        pass
    assert body_of(http) is None


@pytest.mark.parametrize(
    "headers", [{"Host": "h\r\nX: y"}, {"Host": "h\n"}, {"Ho st\n": "h"}, {"Host": "\u20ac"}]
)
def test_a_header_cannot_have_lines_of_its_own(headers: dict[str, str]) -> None:
    with serving(answers(OK)) as (_, http):
        assert http.send("GET", "/a", headers) is None


def test_threads_share_no_connection() -> None:
    """Each gets the answer to its own request."""

    def serve(stream: socket.socket) -> None:
        def loop() -> None:
            with suppress(OSError):  # the test is over
                while request := requested(stream):
                    path = request.split(b" ", 2)[1]
                    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(path)
                    stream.sendall(head + path)

        threading.Thread(target=loop, daemon=True).start()

    wrong = []
    with serving(serve) as (script, http):

        def work(worker: int) -> None:
            for number in range(20):
                path = f"/{worker}-{number}"
                if body_of(http, path) != path.encode():
                    wrong.append(path)

        workers = 40
        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert not wrong
        assert script.connections <= workers


def test_what_follows_an_answer_that_is_none_yet_is_not_the_next_one() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\n\r\n"
    with serving(answers(early, OK), answers(CHUNKED)) as (script, http):
        http.send("GET", "/a", HEADERS)
        assert body_of(http, "/b") == b"ok"
        assert script.connections == 2


def test_a_limited_number_of_connections_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_http, "CONNECTIONS", 1)
    at_once = threading.Barrier(2)

    def serve(stream: socket.socket) -> None:
        def loop() -> None:
            with suppress(OSError):  # the client has closed the connection
                if requested(stream):
                    at_once.wait(10)
                    stream.sendall(OK)
                while requested(stream):
                    stream.sendall(OK)

        threading.Thread(target=loop, daemon=True).start()

    with serving(serve) as (script, http):
        other = threading.Thread(target=body_of, args=(http,))
        other.start()
        assert body_of(http) == b"ok"
        other.join(10)
        assert len(http._idle) == 1
        assert body_of(http) == b"ok"
        assert script.connections == 2


def test_threads_of_a_fork_use_no_connection_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one thread closes them, another one begins a request."""
    closing, begun = threading.Event(), threading.Event()
    close_all = direct_http._close_all
    served: list[socket.socket] = []

    def serve(stream: socket.socket) -> None:
        def loop() -> None:
            with suppress(OSError):  # the client has closed the connection
                while requested(stream):
                    served.append(stream)
                    stream.sendall(OK)

        threading.Thread(target=loop, daemon=True).start()

    def slowly(connections: Any) -> None:
        if not closing.is_set():
            closing.set()
            assert begun.wait(10)
        close_all(connections)
        begun.set()

    with serving(serve) as (_, http):
        assert body_of(http) == b"ok"
        monkeypatch.setattr(os, "getpid", lambda: -1)
        monkeypatch.setattr(direct_http, "_close_all", slowly)
        first = threading.Thread(target=body_of, args=(http,))
        first.start()
        assert closing.wait(10)
        assert body_of(http) == b"ok"
        begun.set()
        first.join(10)
        assert len(served) == 3
        assert served.count(served[0]) == 1


def test_a_fork_uses_no_connection_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(answers(OK), answers(OK)) as (script, http):
        assert body_of(http) == b"ok"
        monkeypatch.setattr(os, "getpid", lambda: -1)
        assert body_of(http) == b"ok"
        assert script.connections == 2
