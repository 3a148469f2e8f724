"""What a server that is no store, or one that an enemy runs, cannot make of any cloud's adapter.

A module that subclasses the contract has fixtures `server` and `store`, which tries each request
once, `slow` and `impatient`, a store that waits `PATIENCE` for that server, and a table of what
differs between the clouds.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, NamedTuple

import pytest

from lakecli.base.model import NO_ACCOUNT
from lakecli.errors import LakeError, Unreachable, Unresponsive, Unsupported, UsageError
from lakecli.stores.capabilities import PART_SIZE, UploadId, versions_of
from lakecli.stores.contract import ABSENT, ANY
from lakecli.stores.streams import open_range
from tests.support.servers import Answer
from tests.support.slow_server import Drip

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.support.servers import StubServer
    from tests.support.slow_server import SlowServer

    Call = Callable[[Any], object]

_PAGE = b"<!DOCTYPE html><html><body>Please log in</body></html>"
NO_ANSWERS: dict[str, Answer] = {
    "nothing": Answer(),
    "a login page": Answer(body=_PAGE, headers={"Content-Type": "text/html"}),
    "a login page as XML": Answer(body=_PAGE, headers={"Content-Type": "application/xml"}),
    "a page that is no XML": Answer(body=b"<html><br>", headers={"Content-Type": "text/html"}),
    "other XML": Answer(
        body=b"<?xml version='1.0'?><feed><entry/></feed>",
        headers={"Content-Type": "application/xml"},
    ),
    "XML with an error in it": Answer(
        body=b"<feed><Error/></feed>", headers={"Content-Type": "application/xml"}
    ),
    "other JSON": Answer(
        body=b'{"kind": "feed#list", "items": []}', headers={"Content-Type": "application/json"}
    ),
    "a list": Answer(body=b"[]", headers={"Content-Type": "application/json"}),
    "a text": Answer(body=b"OK", headers={"Content-Type": "text/plain"}),
}
"""Answers with status 200 that come from no store."""

_DEPTH = 5_000
DEEP = (
    Answer(body=b"<Error>" * _DEPTH + b"</Error>" * _DEPTH, headers={"Content-Type": "text/xml"}),
    Answer(
        body=b'{"error":' * _DEPTH + b"1" + b"}" * _DEPTH,
        headers={"Content-Type": "application/json"},
    ),
    Answer(body=b"[" * _DEPTH + b"]" * _DEPTH, headers={"Content-Type": "application/json"}),
)
"""Answers for which a parser that calls itself has no stack."""

_OK = b'HTTP/1.1 200 OK\r\nETag: "0x1"\r\n'
_CHUNKED = _OK + b"Transfer-Encoding: chunked\r\n\r\n"
_FEW = 90
"""Number of headers that a client accepts.

`http.client` refuses more than 100, and after a pause of its process, it may receive them all at
once.
"""

SLOW_HEADS: dict[str, Drip] = {
    "nothing": Drip(),
    "the status": Drip(piece=b"H"),
    "a header": Drip(_OK + b"X: ", b"x"),
    "headers": Drip(_OK, b"X: x\r\n", _FEW),
    "interim answers": Drip(piece=b"HTTP/1.1 100 Continue\r\n\r\n"),
    "headers of an interim answer": Drip(b"HTTP/1.1 100 Continue\r\n", b"X: x\r\n", _FEW),
}
"""Answers that come byte by byte before their body."""

SLOW_BODIES: dict[str, Drip] = {
    "a body": Drip(_OK + b"Content-Length: 9999\r\n\r\n", b"x"),
    "a body without an end": Drip(_OK + b"Connection: close\r\n\r\n", b"x"),
    "chunks": Drip(_CHUNKED, b"1\r\nx\r\n"),
    "the head of a chunk": Drip(_CHUNKED + b"1;", b"x"),
    "trailers": Drip(_CHUNKED + b"1\r\nx\r\n0\r\n", b"X: x\r\n"),
    "a refusal": Drip(b"HTTP/1.1 403 No\r\nContent-Length: 9999\r\n\r\n", b"x"),
    "a failure": Drip(b"HTTP/1.1 500 No\r\nContent-Length: 9999\r\n\r\n", b"x"),
    "a redirect": Drip(b"HTTP/1.1 307 No\r\nLocation: /\r\nContent-Length: 99\r\n\r\n", b"x"),
}
"""Answers whose body does."""

PATIENCE = NO_ACCOUNT._replace(timeout=0.08)

FLOOD = 6 << 30
"""Bytes of an answer that is too long; most of it is never sent."""

SMALL = 24 << 20
"""What is sent of it, at most: a bound of 16 MiB, and what the kernel holds."""

ASKED = 1 << 16


class HostileTable(NamedTuple):
    """What differs between the clouds.

    Attributes:
        found: the headers of an object.
        cut_listings: listings that break off, or do not say whether another page follows.
        endless: a listing whose next page is itself.
        foreign: a listing of an object that is not below the prefix.
        nameless: listings of an object without a name, a size or a time.
        upload: an ID of an upload.
    """

    found: dict[str, str]
    cut_listings: tuple[Answer, ...]
    endless: Answer
    foreign: Answer
    nameless: tuple[Answer, ...]
    upload: str


class HostileContract:
    """Subclasses give the table; every test below then runs on their store."""

    hostile: ClassVar[HostileTable]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make a test of each row of the table."""
        rows: dict[str, tuple[object, ...]] = {
            "no_answer": tuple(NO_ANSWERS),
            "cut_listing": self.hostile.cut_listings,
            "nameless": self.hostile.nameless,
        }
        for name in set(rows) & set(metafunc.fixturenames):
            metafunc.parametrize(name, rows[name])

    def test_an_answer_that_is_no_listing_is_no_empty_listing(
        self, store: Any, server: StubServer, no_answer: str
    ) -> None:
        server.answers = [NO_ANSWERS[no_answer]]
        uploads = store.uploads()
        calls: tuple[Call, ...] = (
            lambda store: list(store.list()),
            lambda store: list(store.list("a/", after="a/b")),
            lambda store: list(versions_of(store).list_versions()),
            lambda _: list(uploads.iter_unfinished()),
            lambda _: list(uploads.parts("k", UploadId(self.hostile.upload))),
        )
        for call in calls:
            with pytest.raises(Unreachable, match="sent an answer that cannot be used") as error:
                call(store)
            assert "a proxy or a login page" in str(error.value.hint)

    def test_an_answer_that_is_none_deletes_and_writes_nothing(
        self, store: Any, server: StubServer, no_answer: str
    ) -> None:
        server.answers = [NO_ANSWERS[no_answer]]
        calls: tuple[Call, ...] = (
            lambda store: store.delete(["k", "l"]),
            lambda store: store.put_new("k", b"body"),
            lambda store: store.head("k"),
        )
        for call in calls:
            with pytest.raises(Unreachable):
                call(store)

    @pytest.mark.parametrize("status", [200, 403, 500])
    @pytest.mark.parametrize("deep", DEEP, ids=("XML", "JSON", "list"))
    def test_an_answer_that_is_nested_too_deep_is_an_error_of_ours(
        self, store: Any, server: StubServer, deep: Answer, status: int
    ) -> None:
        server.answers = [replace(deep, status=status)]
        calls: tuple[Call, ...] = (
            lambda store: list(store.list()),
            lambda store: store.get("k", start=0, length=1),
            lambda store: store.put_new("k", b"body"),
            lambda store: store.delete(["k", "l"]),
            lambda store: store.uploads().start("k"),
        )
        for call in calls:
            with pytest.raises(LakeError) if status > 200 else suppress(LakeError):
                call(store)

    def test_a_listing_that_does_not_say_that_it_ends_is_an_error(
        self, store: Any, server: StubServer, cut_listing: Answer
    ) -> None:
        server.answers = [cut_listing]
        with pytest.raises(Unreachable):
            list(store.list())

    def test_a_listing_that_never_ends_is_an_error(self, store: Any, server: StubServer) -> None:
        server.answers = [self.hostile.endless]
        with pytest.raises(Unreachable, match="the page after this one is this one"):
            list(store.list())
        assert len(server.requests) <= 4

    def test_a_listing_of_another_prefix_is_an_error(self, store: Any, server: StubServer) -> None:
        server.answers = [self.hostile.foreign]
        with pytest.raises(Unreachable, match="an object of another prefix"):
            list(store.list())

    def test_an_object_that_is_not_described_is_an_error(
        self, store: Any, server: StubServer, nameless: Answer
    ) -> None:
        server.answers = [nameless]
        with pytest.raises(Unreachable, match="sent an answer that cannot be used"):
            list(store.list())

    def test_a_prefix_that_is_not_utf8_is_refused(self, store: Any) -> None:
        for listed in (store.list, store.uploads().iter_unfinished):
            with pytest.raises(UsageError, match="not UTF-8"):
                list(listed("\udcff"))

    @pytest.mark.parametrize(
        ("status", "span"),
        [
            (200, ""),
            (206, f"bytes 0-{ASKED - 1}/{FLOOD}"),
            (206, f"bytes 0-{FLOOD - 1}/{FLOOD}"),
            (206, f"bytes 9-{ASKED + 8}/{FLOOD}"),
            (206, ""),
        ],
    )
    @pytest.mark.parametrize("is_chunked", [False, True])
    def test_a_part_of_an_object_is_not_read_beyond_its_end(
        self, store: Any, server: StubServer, status: int, span: str, *, is_chunked: bool
    ) -> None:
        headers = self.hostile.found | ({"Content-Range": span} if span else {})
        server.answers = [Answer(status, headers=headers, flood=FLOOD, is_chunked=is_chunked)]

        def read_stream() -> None:
            with open_range(store, "k", start=0, length=ASKED) as stream:
                while stream.read(1 << 14):
                    pass

        with pytest.raises((Unreachable, Unsupported)):
            store.get("k", start=0, length=ASKED)
        with pytest.raises((Unreachable, Unsupported)):
            read_stream()
        assert server.flooded < SMALL

    @pytest.mark.parametrize("is_chunked", [False, True])
    @pytest.mark.parametrize("status", [200, 403, 500])
    def test_answers_that_are_no_objects_are_bounded(
        self, store: Any, server: StubServer, status: int, *, is_chunked: bool
    ) -> None:
        server.answers = [Answer(status, flood=FLOOD, is_chunked=is_chunked)]
        calls: tuple[Call, ...] = (
            lambda store: list(store.list()),
            lambda store: store.delete(["k", "l"]),
            lambda store: list(store.uploads().iter_unfinished()),
            lambda store: store.put_new("k", b"body"),
        )
        for call in calls:
            server.flooded = 0
            with pytest.raises(LakeError):
                call(store)
            assert server.flooded < 2 * SMALL

    def test_a_redirect_to_another_server_is_not_followed(
        self, store: Any, server: StubServer, elsewhere: StubServer
    ) -> None:
        calls: tuple[Call, ...] = (
            lambda store: store.get("k"),
            lambda store: store.head("k"),
            lambda store: list(store.list()),
            lambda store: store.put("k", b"body", ANY),
        )
        for status in (301, 302, 307, 308):
            server.answers = [Answer(status, headers={"Location": f"{elsewhere.url}/k"})]
            for call in calls:
                with pytest.raises(LakeError):
                    call(store)
        assert elsewhere.requests == []

    def test_an_etag_that_would_be_several_headers_is_refused(
        self, store: Any, server: StubServer
    ) -> None:
        broken = {**self.hostile.found, "ETag": '"\x01\x02"'}
        server.answers = [Answer(headers=broken)]
        with pytest.raises(LakeError):
            store.head("k")

    @pytest.mark.parametrize("slow_head", SLOW_HEADS)
    def test_headers_that_never_end_are_not_waited_for(
        self, impatient: Any, slow: SlowServer, slow_head: str
    ) -> None:
        slow.drip = SLOW_HEADS[slow_head]
        calls = (*self._slow_calls(), lambda store: store.head("k"))
        for error in _errors_of(impatient, calls):
            assert isinstance(error, Unresponsive), repr(error)
            assert "did not answer in time, its headers were not complete" in error.message
            assert "raise network.timeout" in str(error.hint)
        assert not slow.outlasted

    @pytest.mark.parametrize("slow_body", SLOW_BODIES)
    def test_a_body_that_never_ends_is_not_waited_for(
        self, impatient: Any, slow: SlowServer, slow_body: str
    ) -> None:
        slow.drip = SLOW_BODIES[slow_body]
        errors = _errors_of(impatient, self._slow_calls())
        # The headers of some answers tell enough.
        assert all(isinstance(error, LakeError) for error in errors)
        if slow_body not in {"a refusal", "a redirect"}:
            assert [type(error) for error in errors[:4]] == [Unresponsive] * 4
        assert not slow.outlasted

    def _slow_calls(self) -> tuple[Call, ...]:
        """Return requests, the first four of which are answered by listings."""
        upload = UploadId(self.hostile.upload)
        return (
            lambda store: list(store.list()),
            lambda store: list(versions_of(store).list_versions()),
            lambda store: list(store.uploads().iter_unfinished()),
            lambda store: list(store.uploads().parts("k", upload)),
            lambda store: store.get("k"),
            lambda store: store.get("k", start=0, length=4_000),
            lambda store: _read_all(store.open("k")),
            lambda store: _read_all(open_range(store, "k", start=0, length=4_000)),
            lambda store: store.put("k", b"body", ANY),
            lambda store: store.put("k", BytesIO(bytes(PART_SIZE)), ABSENT),
            lambda store: store.put_new("k", b"body"),
            lambda store: store.delete(["k", "l"]),
            lambda store: store.copy("k", "l"),
        )


def _read_all(opened: BinaryIO) -> None:
    with opened as stream:
        while stream.read(1 << 10):
            pass


def _errors_of(store: object, calls: Sequence[Call]) -> list[LakeError | None]:
    """Make all calls at once; return what each of them raised."""

    def error_of(call: Call) -> LakeError | None:
        try:
            call(store)
        except LakeError as error:
            return error
        return None

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(error_of, calls))
