"""Clients that lie, attack or dawdle: clear errors, bounded memory, and nothing written."""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from tests.serving.s3_wire import (
    CHUNKS,
    UNSIGNED,
    UNSIGNED_TRAILER,
    Answer,
    Keys,
    Wire,
    minutes_from_now,
    presign,
    sign,
    signed_chunks,
    unsigned_chunks,
)
from tests.support.serving import Endpoint, serving

pytestmark = pytest.mark.xdist_group("serve_hostile")

MIB = 1 << 20
MOST = 300 * MIB
"""The memory that the process may take."""

TARGET = "/demo/main/hostile"
SIZE = 1_000
PIECE = b"p" * SIZE


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """An endpoint with one object and one upload."""
    with serving(tmp_path_factory.mktemp("serve") / "home") as running:
        with closing(running.wire()) as wire:
            assert wire.send("PUT", "/demo/main/kept", body=b"kept").status == 200
        yield running


@pytest.fixture
def wire(endpoint: Endpoint) -> Iterator[Wire]:
    """What sends requests; afterwards, nothing was written, and memory is bounded."""
    before = state(endpoint)
    with closing(endpoint.wire()) as wire:
        yield wire
        answer = wire.send("GET", "/demo/main/kept")
    assert (answer.status, answer.body) == (200, b"kept")
    assert state(endpoint) == before
    assert endpoint.peak() < MOST


def state(endpoint: Endpoint) -> tuple[set[str], list[str]]:
    """Return the files of the namespace, and the keys of the bucket."""
    namespace = endpoint.home / "namespaces"
    with closing(endpoint.wire()) as wire:
        listed = wire.send("GET", "/demo", {"list-type": "2"})
        uploads = wire.send("GET", "/demo", {"uploads": ""})
    keys = listed.texts("Contents/Key") + uploads.texts("Upload/Key")
    files = {str(path.relative_to(namespace)) for path in namespace.rglob("*") if path.is_file()}
    return files, keys


Attack = Callable[[Wire], Answer]


def _raw(wire: Wire, headers: dict[str, str], body: bytes = PIECE, target: str = TARGET) -> Answer:
    return wire.raw("PUT", target, headers, body)


def _signed(wire: Wire, body: bytes = PIECE, **more: str) -> dict[str, str]:
    digest = hashlib.sha256(body).hexdigest()
    return sign(wire.keys, "PUT", wire.host, TARGET, "", more, payload=digest)[0]


def _with_authorization(change: Callable[[str], str]) -> Attack:
    def attack(wire: Wire) -> Answer:
        headers = _signed(wire)
        return _raw(wire, headers | {"Authorization": change(headers["Authorization"])})

    return attack


def _for_host(host: str, sent: str = "") -> Attack:
    def attack(wire: Wire) -> Answer:
        digest = hashlib.sha256(PIECE).hexdigest()
        headers, _ = sign(wire.keys, "PUT", host, TARGET, payload=digest)
        return _raw(wire, headers | {"Host": sent or wire.host})

    return attack


def _at(minutes: float) -> Attack:
    def attack(wire: Wire) -> Answer:
        digest = hashlib.sha256(PIECE).hexdigest()
        at = minutes_from_now(minutes)
        return _raw(wire, sign(wire.keys, "PUT", wire.host, TARGET, payload=digest, at=at)[0])

    return attack


def _chunked(spoil: Callable[[list[bytes]], bytes]) -> Attack:
    """Return what changes the frames of three chunks and of the end."""

    def attack(wire: Wire) -> Answer:
        announced = {"x-amz-decoded-content-length": str(3 * SIZE)}
        headers, seal = sign(wire.keys, "PUT", wire.host, TARGET, "", announced, payload=CHUNKS)
        pieces = [bytes([letter]) * SIZE for letter in b"abc"]
        body, _ = signed_chunks(seal, pieces)
        size = body.index(b"\r\n") + 2 + SIZE + 2
        frames = [body[at : at + size] for at in range(0, 3 * size, size)]
        return _raw(wire, headers, spoil([*frames, body[3 * size :] + b"\r\n"]))

    return attack


def _long_chunk(wire: Wire) -> Answer:
    headers = {"x-amz-decoded-content-length": str(SIZE)}
    all_of, _ = sign(wire.keys, "PUT", wire.host, TARGET, "", headers, payload=UNSIGNED_TRAILER)
    return _raw(wire, all_of, b"ffffffffffffffff\r\n" + PIECE)


def _long_line(wire: Wire) -> Answer:
    headers = {"x-amz-decoded-content-length": str(SIZE)}
    all_of, _ = sign(wire.keys, "PUT", wire.host, TARGET, "", headers, payload=UNSIGNED_TRAILER)
    return _raw(wire, all_of, b"1" * MIB)


def _many_trailers(wire: Wire) -> Answer:
    headers = {"x-amz-decoded-content-length": str(SIZE), "x-amz-trailer": "x-amz-checksum-crc32"}
    all_of, _ = sign(wire.keys, "PUT", wire.host, TARGET, "", headers, payload=UNSIGNED_TRAILER)
    lines = [f"x-amz-checksum-crc32:{number}" for number in range(50_000)]
    return _raw(wire, all_of, unsigned_chunks([PIECE], lines))


def _length(text: str) -> Attack:
    def attack(wire: Wire) -> Answer:
        headers, _ = sign(wire.keys, "PUT", wire.host, TARGET, payload=UNSIGNED)
        return _raw(wire, headers | {"Content-Length": text})

    return attack


def _replayed_elsewhere(wire: Wire) -> Answer:
    return _raw(wire, _signed(wire), target=f"{TARGET}-2")


def _replayed_with_another_body(wire: Wire) -> Answer:
    return _raw(wire, _signed(wire), body=b"q" * SIZE)


def _replayed_as_another_method(wire: Wire) -> Answer:
    headers, _ = sign(wire.keys, "GET", wire.host, "/demo/main/kept", payload=UNSIGNED)
    return wire.raw("DELETE", "/demo/main/kept", headers)


def _old_url(wire: Wire) -> Answer:
    target = presign(wire.keys, "PUT", wire.host, TARGET, at=minutes_from_now(-10), expires=60)
    return _raw(wire, {"Host": wire.host}, target=target)


def _url_of_another_key(wire: Wire) -> Answer:
    target = presign(wire.keys, "PUT", wire.host, f"{TARGET}-2")
    return _raw(wire, {"Host": wire.host}, target=target.replace(f"{TARGET}-2", TARGET))


def _url_with_a_longer_life(wire: Wire) -> Answer:
    target = presign(wire.keys, "PUT", wire.host, TARGET, at=minutes_from_now(-10), expires=60)
    return _raw(wire, {"Host": wire.host}, target=target.replace("Expires=60", "Expires=6000"))


def _empty_secret(wire: Wire) -> Answer:
    keys = Keys(wire.keys.access, "")
    digest = hashlib.sha256(PIECE).hexdigest()
    return _raw(wire, sign(keys, "PUT", wire.host, TARGET, payload=digest)[0])


ATTACKS: dict[str, tuple[Attack, set[int]]] = {
    "a signature that is cut": (_with_authorization(lambda text: text[:-1]), {400, 403}),
    "no signature": (_with_authorization(lambda text: text.rpartition("=")[0] + "="), {400, 403}),
    "only the algorithm": (_with_authorization(lambda _: "AWS4-HMAC-SHA256"), {400, 403}),
    "a signature that is no hex": (_with_authorization(lambda text: text[:-3] + "xyz"), {400, 403}),
    "signed headers without the host": (
        _with_authorization(lambda text: text.replace("SignedHeaders=host;", "SignedHeaders=")),
        {400, 403},
    ),
    "a credential of another date": (
        _with_authorization(lambda text: text.replace("/20", "/19", 1)),
        {400, 403},
    ),
    "a credential with more parts": (
        _with_authorization(lambda text: text.replace("/s3/", "/s3/s3/")),
        {400, 403},
    ),
    "an empty secret": (_empty_secret, {403}),
    "the signature of another host": (_for_host("s3.amazonaws.com"), {403}),
    "a host that is not ours": (_for_host("evil.example:80", "evil.example:80"), {403}),
    "an old request": (_at(-16), {403}),
    "a request of the future": (_at(16), {403}),
    "a request of another century": (_at(-60 * 24 * 36_525), {403}),
    "replayed for another key": (_replayed_elsewhere, {403}),
    "replayed with another body": (_replayed_with_another_body, {400}),
    "replayed as another method": (_replayed_as_another_method, {403}),
    "a URL that has ended": (_old_url, {403}),
    "a URL of another key": (_url_of_another_key, {403}),
    "a URL with a longer life": (_url_with_a_longer_life, {403}),
    "chunks in another order": (
        _chunked(lambda frames: b"".join([frames[1], frames[0], *frames[2:]])),
        {403},
    ),
    "a chunk twice": (
        _chunked(lambda frames: b"".join([frames[0], *frames[:2], frames[3]])),
        {403},
    ),
    "a chunk less": (_chunked(lambda frames: b"".join([frames[0], *frames[2:]])), {403}),
    "no last chunk": (_chunked(lambda frames: b"".join(frames[:3])), {400}),
    "a chunk without a signature": (
        _chunked(lambda frames: b"3e8\r\n" + frames[0].split(b"\r\n", 1)[1] + b"".join(frames[1:])),
        {403},
    ),
    "bytes behind the last chunk": (_chunked(lambda frames: b"".join(frames) + b"x" * 99), {400}),
    "a chunk of 16 EiB": (_long_chunk, {400}),
    "a line of 1 MiB": (_long_line, {400}),
    "50,000 trailers": (_many_trailers, {400}),
    "a length below zero": (_length("-1"), {400}),
    "a length that is not a number": (_length("0x10"), {400}),
    "a length of 6 GiB": (_length(str(6 << 30)), {400, 413}),
    "a length of 10^30": (_length("1" + "0" * 30), {400, 413}),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused(wire: Wire, name: str) -> None:
    attack, statuses = ATTACKS[name]
    answer = attack(wire)

    assert answer.status in statuses, (answer.status, answer.body[:300])
    assert b"Traceback" not in answer.body


PATHS = {
    "/demo/main/../../../etc/passwd": {200, 400, 404},
    "/demo/main/%2e%2e/%2e%2e/x": {200, 400, 404},
    "/demo/../demo/main/x": {200, 400, 404},
    "/demo/main/a%00b": {200, 400},
    "/demo/main/%ff%fe": {200, 400},
    "/demo/main/%zz": {200, 400, 403},
    "/demo/main/%": {200, 400, 403},
    "/demo/main/": {400, 404, 405},
    "/demo/main": {400, 404, 405},
    "/demo//x": {400, 404, 405},
    "//demo/main/x": {400, 404, 405},
    "/%2e%2e/main/x": {400, 404, 405},
    "/demo/main%2f..%2f..%2fx": {200, 400, 404},
    "/demo/..%2fother/x": {400, 404, 405},
    f"/demo/main/{'k' * 1025}": {400},
    f"/demo/{'b' * 1100}/k": {400, 404},
    f"/demo/main/{'%41' * 1025}": {400},
}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path[:40])
def test_a_path_never_leaves_its_bucket(endpoint: Endpoint, path: str) -> None:
    before = state(endpoint)[0]
    outside = set(endpoint.home.iterdir())
    with closing(endpoint.wire()) as wire:
        for method in ("PUT", "GET", "HEAD", "DELETE"):
            answer = wire.send(method, path, body=b"x" if method == "PUT" else b"")
            allowed = PATHS[path] | {204, 404} if method != "PUT" else PATHS[path]
            assert answer.status in allowed, (method, answer.status, answer.body[:300])
    new = {name for name in state(endpoint)[0] - before if "/data/" not in name}
    assert not new
    assert set(endpoint.home.iterdir()) == outside
    assert not Path("/etc/x").exists()


@pytest.mark.parametrize(
    "target", ["/", "/api/v1/repositories", "/_health", "/demo/main/kept", "/-/"]
)
@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8000", "", "a b"]
)
def test_a_page_of_another_name_sees_nothing(wire: Wire, target: str, host: str) -> None:
    answer = wire.raw("GET", target, {"Host": host})

    assert answer.status in {400, 403}
    assert b"demo" not in answer.body
    assert "access-control-allow-origin" not in answer.headers


def test_two_hosts_are_refused(wire: Wire) -> None:
    with socket.create_connection(wire.host.split(":")) as client:  # type: ignore[arg-type]
        client.sendall(f"GET / HTTP/1.1\r\nHost: {wire.host}\r\nHost: evil\r\n\r\n".encode())
        assert client.recv(100).split()[1] in {b"400", b"403"}


HEADS = {
    "a head of 1 MiB": b"GET /demo HTTP/1.1\r\nHost: {}\r\nx: " + b"y" * MIB + b"\r\n\r\n",
    "100,000 headers": b"GET /demo HTTP/1.1\r\nHost: {}\r\n" + b"x: y\r\n" * 100_000 + b"\r\n",
    "a target of 1 MiB": b"GET /" + b"x" * MIB + b" HTTP/1.1\r\nHost: {}\r\n\r\n",
    "two lengths": b"PUT /demo/main/x HTTP/1.1\r\nHost: {}\r\n"
    b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
    "a length and chunks": b"PUT /demo/main/x HTTP/1.1\r\nHost: {}\r\n"
    b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /demo HTTP/1.1\r\n\r\n",
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 100 + b"\r\n\r\n",
    "another version": b"GET / HTTP/9.9\r\nHost: {}\r\n\r\n",
}


@pytest.mark.parametrize("name", HEADS)
def test_a_head_that_is_none(wire: Wire, name: str) -> None:
    host, port = wire.host.split(":")
    with socket.create_connection((host, int(port)), timeout=20) as client:
        found = b""
        try:
            client.sendall(HEADS[name].replace(b"{}", wire.host.encode()))
            while piece := client.recv(1 << 16):
                found += piece
                if b"\r\n\r\n" in found:
                    break
        except ConnectionError:
            pass
    assert not found or 400 <= int(found.split()[1]) < 500


DOCUMENTS = {
    "a bomb": b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">'
    + b"".join(
        b'<!ENTITY %c "%b">' % (letter, b"&%c;" % (letter - 1) * 10) for letter in range(98, 110)
    )
    + b"]><Delete><Object><Key>&m;</Key></Object></Delete>",
    "a file": b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
    b"<Delete><Object><Key>&a;</Key></Object></Delete>",
    "a deep one": b"<Delete>" + b"<Object>" * 100_000,
    "a long name": b"<" + b"D" * MIB + b">",
    "a wide one": b"<Delete>" + b"<Object><Key>k</Key></Object>" * 50_000 + b"</Delete>",
    "a long text": b"<Delete><Object><Key>" + b"k" * (8 * MIB) + b"</Key></Object></Delete>",
    "NULs": b"\0" * 10_000,
    "a bomb in UTF-16": '<!DOCTYPE x [<!ENTITY a "a">]><Delete></Delete>'.encode("utf-16"),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_refused(wire: Wire, name: str) -> None:
    answer = wire.send("POST", "/demo", {"delete": ""}, body=DOCUMENTS[name])

    assert 400 <= answer.status < 500
    assert b"root:" not in answer.body


def test_queries_without_end(wire: Wire) -> None:
    query = {f"x{number}": "y" for number in range(5_000)}
    assert wire.send("GET", "/demo", query).status < 500


def _connect(endpoint: Endpoint) -> socket.socket:
    host, port = endpoint.to.url.partition("://")[2].split(":")
    return socket.create_connection((host, int(port)), timeout=60)


def test_a_hundred_slow_connections(endpoint: Endpoint, wire: Wire) -> None:
    """Half of them send a head without end, the others a body."""
    body = f"PUT {TARGET} HTTP/1.1\r\n".encode()
    headers, _ = sign(wire.keys, "PUT", wire.host, TARGET, payload=UNSIGNED)
    body += "".join(f"{name}: {text}\r\n" for name, text in headers.items()).encode()
    body += b"Content-Length: 1000000\r\n\r\n"
    with ExitStack() as stack:
        clients = [stack.enter_context(_connect(endpoint)) for _ in range(100)]
        for number, client in enumerate(clients):
            client.sendall(body if number % 2 else b"GET /demo HTTP/1.1\r\nx: ")
        for _ in range(5):
            for client in clients:
                client.sendall(b"y")
            began = time.monotonic()
            assert wire.send("GET", "/demo/main/kept").status == 200
            assert time.monotonic() - began < 5
        assert endpoint.memory() < MOST


@pytest.mark.nightly
def test_slow_heads_are_ended(endpoint: Endpoint, wire: Wire) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(_connect(endpoint)) for _ in range(100)]
        for client in clients:
            client.sendall(b"GET /demo HTTP/1.1\r\nx: ")
        began = time.monotonic()
        for client in clients:
            answer = b""
            with suppress(ConnectionError):
                answer = client.recv(100)
            assert answer == b""
        assert time.monotonic() - began < 40


def test_more_connections_than_are_allowed(endpoint: Endpoint, wire: Wire) -> None:
    with ExitStack() as stack:
        for _ in range(600):
            stack.enter_context(_connect(endpoint))
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            assert wire.send("GET", "/demo/main/kept").status == 200
        except OSError:
            time.sleep(0.1)
        else:
            return
    pytest.fail("no request is answered any more")


def test_bodies_that_stop_cost_little(endpoint: Endpoint, wire: Wire) -> None:
    """32 clients announce 4 GiB each, send 8 MiB, and go away."""
    headers, _ = sign(wire.keys, "PUT", wire.host, TARGET, payload=UNSIGNED)
    head = f"PUT {TARGET} HTTP/1.1\r\n".encode()
    head += "".join(f"{name}: {text}\r\n" for name, text in headers.items()).encode()
    head += b"Content-Length: %d\r\n\r\n" % (4 << 30)
    piece = bytes(MIB)
    seen = threading.Barrier(32)

    def attack(_: int) -> None:
        with _connect(endpoint) as client:
            client.sendall(head)
            for _ in range(8):
                client.sendall(piece)
            seen.wait(60)

    with ThreadPoolExecutor(32) as pool:
        list(pool.map(attack, range(32)))
    deadline = time.monotonic() + 20
    while any(_temporary(endpoint)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not list(_temporary(endpoint))


def _temporary(endpoint: Endpoint) -> Iterator[Path]:
    namespace = endpoint.home / "namespaces"
    return (path for path in namespace.rglob("*") if path.is_file() and path.stat().st_size >= MIB)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_ten_thousand_parts(endpoint: Endpoint) -> None:
    before = state(endpoint)
    with closing(endpoint.wire()) as wire:
        path = "/demo/main/parts"
        created = wire.send("POST", path, {"uploads": ""})
        (upload,) = created.texts("UploadId")
        etags = []
        for number in range(1, 10_001):
            body = b"%05d" % number
            query = {"partNumber": str(number), "uploadId": upload}
            etags.append(wire.send("PUT", path, query, body=body).headers["etag"])
        listed = wire.send("GET", path, {"uploadId": upload, "part-number-marker": "9500"})
        assert len(listed.texts("Part/PartNumber")) == 500
        parts = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"
            for number, etag in enumerate(etags, 1)
        )
        document = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        done = wire.send("POST", path, {"uploadId": upload}, body=document)
        assert (done.status, done.code) == (400, "EntityTooSmall")
        assert wire.send("DELETE", path, {"uploadId": upload}).status == 204
    assert state(endpoint) == before
    assert endpoint.peak() < MOST
