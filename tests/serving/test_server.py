"""The server: its socket, slow clients, and its end."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from errno import EACCES
from pathlib import Path
from time import monotonic, sleep
from typing import Any, cast

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from lakecli.errors import PermissionDenied, UsageError
from lakecli.serving import app, server
from lakecli.serving.access import EndpointAccess
from lakecli.serving.clients import url_of
from lakecli.serving.context import Options, ServingContext
from lakecli.serving.server import Endpoint, bind, is_loopback, names_of
from tests.support.tools import require_tool


@pytest.fixture(autouse=True)
def _surface(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handle(request: Request, context: ServingContext) -> Response:
        if request.url.path == "/wait":
            await context.in_thread(sleep, 30)
        if request.url.path == "/busy":
            await context.in_thread(sleep, 2.5)
        if request.url.path == "/refuse":
            return PlainTextResponse("no", 403)
        if request.url.path == "/large":
            return PlainTextResponse("x" * (64 << 20))
        return PlainTextResponse(f"{len(await request.body())}")

    monkeypatch.setattr(app, "handler_of", lambda _surface: handle)


@contextmanager
def running(tls: tuple[str, str] | None = None) -> Iterator[tuple[int, Endpoint, threading.Thread]]:
    bound = bind("127.0.0.1", 0)
    port = bound.getsockname()[1]
    context = ServingContext(
        cast("Any", None),
        EndpointAccess("KEY", "secret"),
        lambda: datetime.now(UTC),  # noqa: TID251
        Options(hosts=names_of("127.0.0.1")),
    )
    ready = threading.Event()
    endpoint = Endpoint(context, bound, tls=tls, report=lambda _: None, started=ready.set)
    thread = threading.Thread(target=endpoint.run_until_stopped)
    thread.start()
    try:
        assert ready.wait(20)
        yield port, endpoint, thread
    finally:
        endpoint.stop()
        thread.join(20)
        assert not thread.is_alive()


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def ask(port: int, head: bytes = b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n") -> bytes:
    with connect(port) as client:
        client.sendall(head)
        return client.recv(1 << 16)


def is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(1 << 16) == b""
    except ConnectionResetError:
        return True


def test_a_running_endpoint_answers_and_stops_at_once() -> None:
    with running() as (port, endpoint, thread):
        answer = ask(port)
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"server:" not in answer
        with connect(port) as idle:
            began = monotonic()
            endpoint.stop()
            thread.join(10)
            assert monotonic() - began < 1.5
            assert is_closed(idle)
        with pytest.raises(ConnectionRefusedError):
            connect(port)


def test_requests_that_do_not_end_are_cut_off() -> None:
    with running() as (port, endpoint, thread), connect(port) as client:
        client.sendall(b"GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n")
        sleep(0.3)
        began = monotonic()
        endpoint.stop()
        thread.join(10)
        assert monotonic() - began < 2.5


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /x HTTP/1.1\r\nHost: localhost\r\n",
        b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\nGET /x HT",
    ],
)
def test_a_client_must_send_its_head_soon(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_TIME", 0.1)
    with running() as (port, _, _), connect(port) as client:
        client.sendall(sent)
        while answer := b"" if is_closed(client) else b"more":
            assert answer


def test_a_head_is_bounded() -> None:
    with running() as (port, _, _), connect(port) as client:
        client.sendall(b"GET /x HTTP/1.1\r\nHost: localhost\r\n")
        with pytest.raises(OSError, match=r"reset|pipe"):  # noqa: PT012
            for number in range(2_000):
                client.sendall(b"x-%d: %s\r\n" % (number, b"y" * 100))
            client.recv(1)


@pytest.mark.parametrize("is_fast", [True, False])
def test_a_client_must_go_on_sending_its_body(
    monkeypatch: pytest.MonkeyPatch, *, is_fast: bool
) -> None:
    monkeypatch.setattr(server, "PATIENCE", 0.5)
    with running() as (port, _, _), connect(port) as client:
        client.sendall(b"PUT /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 400000\r\n\r\n")
        if is_fast:
            for _ in range(8):
                sleep(0.3)
                client.sendall(b"x" * 50_000)
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 200")
        else:
            assert is_closed(client)


def test_a_client_must_go_on_sending_a_body_that_was_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "PATIENCE", 0.5)
    with running() as (port, _, _), connect(port) as client:
        client.settimeout(6)
        client.sendall(b"PUT /refuse HTTP/1.1\r\nHost: localhost\r\nContent-Length: 400000\r\n\r\n")
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 403")
        client.sendall(b"x")
        while not is_closed(client):  # the body of the response may come apart
            pass


def test_a_client_may_wait_until_its_body_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PATIENCE", 0.5)
    with running() as (port, _, _), connect(port) as client:
        client.sendall(
            b"PUT /busy HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
            b"Expect: 100-continue\r\n\r\n"
        )
        assert client.recv(1 << 16) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"hello")
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 200")


def test_a_client_must_take_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PATIENCE", 0.5)
    with running() as (port, endpoint, _), connect(port) as client:
        client.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        ends_at = monotonic() + 10
        while not endpoint.server_state.connections and monotonic() < ends_at:
            sleep(0.01)
        while endpoint.server_state.connections and monotonic() < ends_at:
            sleep(0.05)
        assert not endpoint.server_state.connections


def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 2)
    with running() as (port, _, _), connect(port) as first, connect(port) as second:
        for each in (first, second):
            each.sendall(b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert each.recv(1 << 16).startswith(b"HTTP/1.1 200")
        with connect(port) as third:
            assert is_closed(third)
        second.close()
        sleep(0.2)
        assert ask(port).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "head",
    [
        b"nonsense\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        (
            b"PUT /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        ),
        b"\x16\x03\x01\x00\xa5\x01\x00\x00",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused_and_the_endpoint_goes_on(head: bytes) -> None:
    with running() as (port, _, _):
        with connect(port) as client:
            client.sendall(head)
            client.shutdown(socket.SHUT_WR)
            answer = b""
            while data := _received(client):
                answer += data
        assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
        assert ask(port).startswith(b"HTTP/1.1 200")


def _received(client: socket.socket) -> bytes:
    try:
        return client.recv(1 << 16)
    except ConnectionResetError:
        return b""


def test_an_upgrade_is_answered_as_plain_http() -> None:
    with running() as (port, _, _):
        head = (
            b"GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        assert ask(port, head).startswith(b"HTTP/1.1 200")


def test_an_endpoint_with_a_certificate_speaks_tls(tmp_path: Path) -> None:
    certificate, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    made = [
        *(require_tool("openssl"), "req", "-x509", "-newkey", "ec"),
        *("-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"),
        *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
        *("-out", certificate, "-keyout", key),
    ]
    subprocess.run(made, check=True, capture_output=True)
    trusting = ssl.create_default_context(cafile=certificate)
    with running((certificate, key)) as (port, _, _):
        with connect(port) as plain, trusting.wrap_socket(plain, server_hostname="localhost") as to:
            to.sendall(b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert to.recv(1 << 16).startswith(b"HTTP/1.1 200")
        with connect(port) as plain:
            plain.sendall(b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200" not in _received(plain)


def test_a_certificate_that_cannot_be_loaded_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no certificate")
    for name in ("missing", "text"):
        pair = (str(tmp_path / name), str(tmp_path / name))
        with bind("127.0.0.1", 0) as bound, pytest.raises(UsageError, match="cannot load the cert"):
            Endpoint(cast("Any", None), bound, tls=pair, report=lambda _: None)


def test_the_usual_port_is_taken_if_it_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(server, "PORT", port)
        with bind("127.0.0.1", None) as other:
            assert other.getsockname()[1] not in {0, port}
        with pytest.raises(UsageError, match="cannot listen on") as raised:
            bind("127.0.0.1", port)
        assert "another program has the port" in str(raised.value.hint)
    with bind("127.0.0.1", None) as usual:
        assert usual.getsockname()[1] == port


@pytest.mark.parametrize(
    ("host", "port"), [("192.0.2.1", 0), ("127.0.0.1", 70_000), ("no.such.invalid", 0)]
)
def test_an_address_that_this_machine_does_not_have(host: str, port: int) -> None:
    with pytest.raises(UsageError, match="cannot listen"):
        bind(host, port)


def test_a_port_that_needs_privileges(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(PermissionDenied, match="port 80"):
        bind("127.0.0.1", 80)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.3.2.1", True), ("::1", True), ("localhost", True)]
    + [(host, False) for host in ("0.0.0.0", "::", "192.0.2.1", "lake.example", "", "1")],
)
def test_only_loopback_needs_no_certificate(host: str, *, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_the_names_of_an_endpoint() -> None:
    assert names_of("127.0.0.1") == {"127.0.0.1", "localhost", "::1"}
    assert "lake.example" in names_of("Lake.Example")
    assert names_of("0.0.0.0") == names_of("::") == frozenset()


def test_the_url_of_an_endpoint() -> None:
    assert url_of("127.0.0.1", 80, secure=False) == "http://127.0.0.1:80"
    assert url_of("::1", 80, secure=True) == "https://[::1]:80"
