"""Requests over connections that are kept, against servers that close, stall and lie."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from lakecli.objectstore import http_client
from lakecli.objectstore.http_answer import UnusualAnswerError
from lakecli.objectstore.http_client import MAX_IDLE, HttpClient, Origin
from lakecli.objectstore.http_connection import Connection
from tests.support.azurite import write_certificate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
REFUSED = b"HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
HEADERS = {"Host": "h"}


class Script:
    """A server that gives each connection to the next function; the last one serves all others.

    Attributes:
        connections: how many there were.
    """

    def __init__(self, *serve: Callable[[socket.socket], object]) -> None:
        self._serve = list(serve)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
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
def serving(*serve: Callable[[socket.socket], object]) -> Iterator[tuple[Script, HttpClient]]:
    """Run a server, and make a client of it."""
    script = Script(*serve)
    thread = threading.Thread(target=script.run, daemon=True)
    thread.start()
    client = new_client(script.port)
    try:
        yield script, client
    finally:
        client.close()
        script.stop()
        thread.join(10)


def new_client(port: int, *, read_timeout: float = 10) -> HttpClient:
    origin = Origin(is_secure=False, host="127.0.0.1", port=port, ca_file="")
    return HttpClient(origin, connect_timeout=10, read_timeout=read_timeout)


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
            stream.sendall(text)
        if then_close:
            stream.close()

    return serve


def test_a_connection_serves_many_requests() -> None:
    received = []

    def serve(stream: socket.socket) -> None:
        for _ in range(3):
            received.append(requested(stream))
            stream.sendall(OK)

    with serving(serve) as (script, client):
        assert client.send("GET", "/a", HEADERS).body == b"ok"
        assert client.send("PUT", "/a/b%20c?x=y", HEADERS, b"body").status == 200
        assert client.send("PUT", "/a", HEADERS).status == 200
        assert script.connections == 1
    assert received == [
        b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n",
        b"PUT /a/b%20c?x=y HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody",
        b"PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
    ]


@pytest.mark.parametrize("size", [1, (256 << 10) + 1, 3 << 20])
def test_a_body_arrives_whole(size: int) -> None:
    received = []

    def serve(stream: socket.socket) -> None:
        received.append(requested(stream))
        stream.sendall(OK)

    body = os.urandom(size)
    with serving(serve) as (_, client):
        client.send("PUT", "/a", HEADERS, body)
    assert received[0].partition(b"\r\n\r\n")[2] == body


def test_a_connection_that_the_server_closed_is_replaced() -> None:
    with serving(answers(OK, then_close=True), answers(OK, OK)) as (script, client):
        for _ in range(3):
            assert client.send("GET", "/a", HEADERS).body == b"ok"
        assert script.connections == 2


def test_a_request_that_meets_the_end_of_a_connection_is_sent_again() -> None:
    def serve(stream: socket.socket) -> None:
        requested(stream)
        stream.sendall(OK)
        requested(stream)
        stream.close()

    with serving(serve, answers(OK)) as (script, client):
        assert client.send("GET", "/a", HEADERS).body == b"ok"
        assert client.send("GET", "/a", HEADERS).body == b"ok"
        assert script.connections == 2


def test_a_connection_that_the_server_wants_closed_is_closed() -> None:
    closing = OK.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
    with serving(answers(closing, OK), answers(OK)) as (script, client):
        for _ in range(2):
            assert client.send("GET", "/a", HEADERS).body == b"ok"
        assert script.connections == 2


def test_no_more_connections_are_kept_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "MAX_IDLE", 1)
    with serving(answers(OK)) as (_, client):
        streams = [client._connect() for _ in range(2)]
        for stream in streams:
            client._exchange(stream, b"GET /a HTTP/1.1\r\n\r\n", b"", None)
        assert client._idle == streams[:1]
        assert [each.stream.fileno() >= 0 for each in streams] == [True, False]


def test_an_idle_connection_may_be_taken_by_another_thread() -> None:
    class Taken(list[Connection]):
        """Has a connection when it is asked, and none any more after that."""

        def __bool__(self) -> bool:
            return True

    with serving(answers(OK)) as (_, client):
        client._idle = Taken()
        assert client.send("GET", "/a", HEADERS).body == b"ok"
        (kept,) = client._idle
        kept.stream.close()


@pytest.mark.parametrize("text", [b"", b"H", OK[:-1]])
def test_a_broken_answer_is_not_asked_for_again(text: bytes) -> None:
    with serving(answers(text, then_close=True)) as (script, client):
        with pytest.raises(ConnectionResetError):
            client.send("GET", "/a", HEADERS)
        assert script.connections == 1


def test_a_broken_answer_over_a_kept_connection_is_not_asked_for_again() -> None:
    with serving(answers(OK, OK[:5], then_close=True), answers(OK)) as (script, client):
        assert client.send("GET", "/a", HEADERS).body == b"ok"
        with pytest.raises(ConnectionResetError):
            client.send("GET", "/a", HEADERS)
        assert script.connections == 1


def test_bytes_that_nobody_asked_for_are_no_answer() -> None:
    """Otherwise the next request would be answered by what came before it."""
    forged = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
    answered, sent = threading.Event(), threading.Event()

    def serve(stream: socket.socket) -> None:
        answers(OK)(stream)
        assert answered.wait(10)
        stream.sendall(forged)
        sent.set()

    with serving(serve, answers(OK)) as (script, client):
        assert client.send("GET", "/a", HEADERS).body == b"ok"
        answered.set()
        assert sent.wait(10)
        assert client.send("GET", "/b", HEADERS).body == b"ok"
        assert script.connections == 2
    with serving(answers(OK + forged), answers(OK)) as (script, client):
        with pytest.raises(UnusualAnswerError):
            client.send("GET", "/a", HEADERS)
        assert client.send("GET", "/b", HEADERS).body == b"ok"


def test_a_refusal_counts_though_the_server_does_not_take_the_body() -> None:
    def serve(stream: socket.socket) -> None:
        stream.recv(100)
        stream.sendall(REFUSED)
        stream.close()  # with bytes unread, so the client's next ones are answered by a reset

    with serving(serve) as (_, client):
        assert client.send("PUT", "/a", HEADERS, bytes(32 << 20)).status == 412


def test_a_success_for_half_a_body_is_an_error() -> None:
    def serve(stream: socket.socket) -> None:
        stream.recv(100)
        stream.sendall(OK)
        stream.close()

    with serving(serve) as (_, client), pytest.raises(ConnectionError):
        client.send("PUT", "/a", HEADERS, bytes(32 << 20))


@pytest.mark.parametrize(("status", "counts"), [(399, False), (400, True)])
def test_what_counts_without_the_whole_body(
    monkeypatch: pytest.MonkeyPatch, status: int, *, counts: bool
) -> None:
    def send(connection: Connection, head: bytes, body: bytes) -> bool:
        connection.stream.sendall(head + body)
        return False

    monkeypatch.setattr(Connection, "send", send)
    answer = b"HTTP/1.1 %d Some\r\nContent-Length: 0\r\n\r\n" % status
    with serving(answers(answer)) as (_, client):
        if counts:
            assert client.send("PUT", "/a", HEADERS).status == status
        else:
            with pytest.raises(ConnectionResetError):
                client.send("PUT", "/a", HEADERS)
        assert client._idle == []


def test_packets_are_not_held_back() -> None:
    with serving(answers(OK)) as (_, client), client._connect().stream as stream:
        assert stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_server_that_takes_nothing_is_waited_for_once() -> None:
    done = threading.Event()
    with serving(lambda _: done.wait(10)) as (script, _):
        with pytest.raises(TimeoutError):
            new_client(script.port, read_timeout=0.1).send("PUT", "/a", HEADERS, bytes(32 << 20))
        done.set()
    assert script.connections == 1


def test_a_silent_server_is_waited_for_once() -> None:
    with serving(requested) as (script, _), pytest.raises(TimeoutError):
        new_client(script.port, read_timeout=0.1).send("GET", "/a", HEADERS)
    assert script.connections == 1


def test_nobody_listens() -> None:
    with serving(requested) as (script, _):
        port = script.port
    with pytest.raises(ConnectionRefusedError):
        new_client(port).send("GET", "/a", HEADERS)


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        ("/a b", HEADERS),
        ("/a\r\nX: y", HEADERS),
        ("a", HEADERS),
        ("/ü", HEADERS),
        ("/a", {"Host": "h\r\nX: y"}),
        ("/a", {"Host": "h\n"}),
        ("/a", {"Ho st": "h"}),
        ("/a", {"Host": "ü"}),
    ],
)
def test_a_request_cannot_have_lines_of_its_own(target: str, headers: dict[str, str]) -> None:
    with serving(answers(OK)) as (script, client):
        with pytest.raises(UnusualAnswerError):
            client.send("GET", target, headers)
        assert script.connections == 0


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
    with serving(serve) as (script, client):

        def work(worker: int) -> None:
            for number in range(50):
                path = f"/{worker}-{number}"
                if client.send("GET", path, HEADERS).body != path.encode():
                    wrong.append(path)

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert not wrong
        assert script.connections <= 8 < MAX_IDLE


def test_a_fork_uses_no_connection_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(answers(OK), answers(OK)) as (script, client):
        assert client.send("GET", "/a", HEADERS).body == b"ok"
        monkeypatch.setattr(os, "getpid", lambda: -1)
        assert client.send("GET", "/a", HEADERS).body == b"ok"
        assert script.connections == 2


def test_a_connection_that_cannot_be_secured_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[socket.socket] = []
    create = socket.create_connection

    def record(address: tuple[str, int], timeout: float) -> socket.socket:
        opened.append(create(address, timeout))
        return opened[-1]

    monkeypatch.setattr(socket, "create_connection", record)
    with serving(requested) as (script, _):
        origin = Origin(is_secure=True, host="127.0.0.1", port=script.port, ca_file="/no/such.pem")
        client = HttpClient(origin, connect_timeout=10, read_timeout=10)
        with pytest.raises(FileNotFoundError):
            client.send("GET", "/a", HEADERS)
        assert [each.fileno() for each in opened] == [-1]


def test_tls_is_asked_for_as_http_1_and_names_count_only_as_such(tmp_path: Path) -> None:
    """Not the common name of a certificate."""
    certificate, key = write_certificate(tmp_path)
    origin = Origin(is_secure=True, host="127.0.0.1", port=1, ca_file=str(certificate))
    client = HttpClient(origin, connect_timeout=1, read_timeout=1)
    context = client._secure_context()
    assert not context.hostname_checks_common_name
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    server.set_alpn_protocols(["h2", "http/1.1"])
    left, right = socket.socketpair()
    with left, right:
        served: list[ssl.SSLSocket] = []
        secured = lambda: served.append(server.wrap_socket(right, server_side=True))  # noqa: E731
        thread = threading.Thread(target=secured, daemon=True)
        thread.start()
        with context.wrap_socket(left, server_hostname="127.0.0.1") as stream:
            assert stream.selected_alpn_protocol() == "http/1.1"
        thread.join(10)
        served[0].close()
