"""How every cloud's errors reach the caller. One subclass and one table per cloud.

`StubServer` gives the answers, because no real server gives errors on demand. A module that
subclasses the contract has fixtures `server` (answers `ErrorTable.ok` until told otherwise),
`store` (tries each request once), `persistent` (tries it three times, and waits for nothing),
`connect` (makes a store at a URL), and `without_credentials`.
"""

from __future__ import annotations

import io
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import pytest

from lakecli.errors import IntegrityError, Unreachable, Unsupported, UsageError
from lakecli.stores.capabilities import PART_SIZE
from lakecli.stores.contract import ABSENT, ANY, BucketNotFound, ConditionFailed, Match, Version
from lakecli.stores.presigned_urls import PresignRequest
from tests.support.servers import free_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.errors import LakeError
    from lakecli.stores.cloud_store import MatchingCloudStore
    from lakecli.stores.contract import Condition, ObjectStore
    from tests.support.servers import Answer, Request, StubServer

    Call = Callable[[ObjectStore], object]


Store = TypeVar("Store", bound="MatchingCloudStore[Any]")


def with_attempts(attempts: int, store: Store) -> Store:
    """Return a store that sends each request at most so often."""
    store.attempts = attempts
    return store


class Failure(NamedTuple):
    """An answer of the server, and the error that it becomes.

    Attributes:
        answer: of the server, to any request.
        error: that is raised.
        said: part of its message.
        hint: part of its hint; ``None`` if it has none.
    """

    answer: Answer
    error: type[LakeError]
    said: str
    hint: str | None


class ErrorTable(NamedTuple):
    """What differs between the clouds.

    Attributes:
        uri: of the store, without its prefix.
        ok: the answer to a write that succeeded.
        version: that the answer gives the object.
        busy: the answer of a server that should be asked again.
        no_bucket: the answer that says that the bucket does not exist.
        failures: answers to any request.
        calls: requests that are tried with each of them, besides those common to all clouds.
        unsaid: texts that no message may hold: secrets, and noise of the SDK.
        lost_races: answers to a conditional write whose condition did not hold.
        existing: those that tell a batch that its object exists already.
        conditions: what is sent with `ABSENT`, ``Match("77")`` and `ANY`.
        condition_of: reads that from a request.
        good: the answer to each repeated call, by name.
        tried_once: bodies of a conditional write that is one request.
        writes_by: the method of that request.
        cut: the answer to a GET of 1,000 bytes ``x``, broken off after ten.
        cut_again: the answers to the second and third try, broken off after ten: of the whole, or
            of what is missing.
        rest: the answer to the third try: the whole, or what is missing after twice ten bytes.
        unordered: a listing that is not in byte order.
        undeleted: the answer to a deletion of ``gone`` and ``kept``, and its error.
        named: part of the message of that error.
        unreachable_hint: part of the hint if no server listens.
        no_credentials: what message and hint hold without credentials.
    """

    uri: str
    ok: Answer
    version: str
    busy: Answer
    no_bucket: Answer
    failures: tuple[Failure, ...]
    calls: tuple[Call, ...]
    unsaid: tuple[str, ...]
    lost_races: tuple[Answer, ...]
    existing: tuple[Answer, ...]
    conditions: tuple[object, object, object]
    condition_of: Callable[[Request], object]
    good: dict[str, Answer]
    tried_once: tuple[bytes | io.BytesIO, ...]
    writes_by: str
    cut: Answer
    cut_again: tuple[Answer, Answer]
    rest: Answer
    unordered: Answer
    undeleted: tuple[tuple[Answer, type[LakeError]], ...]
    named: str
    unreachable_hint: str
    no_credentials: tuple[str, ...]


CALLS: tuple[Call, ...] = (
    lambda store: store.get("k"),
    lambda store: store.get("k", start=5),
    lambda store: store.open("k"),
    lambda store: store.put("k", b"body", ANY),
    lambda store: store.put("k", b"body", Match(Version("1234"))),
    lambda store: list(store.list()),
    lambda store: store.delete(["k"]),
    lambda store: store.copy("k", "l"),
)

REPEATED: dict[str, Call] = {
    "get": lambda store: store.get("k"),
    "head": lambda store: store.head("k"),
    "put": lambda store: store.put("k", b"body", ANY),
    "list": lambda store: list(store.list()),
    "copy": lambda store: store.copy("k", "l"),
    "delete": lambda store: store.delete(["k"]),
}

CONDITIONS: tuple[Condition, ...] = (ABSENT, Match(Version("1234")))

SCRIPT = """
import sys
from lakecli.errors import PermissionDenied
from lakecli.stores.registry import open_store
try:
    open_store(sys.argv[1]).get("k")
except PermissionDenied as error:
    print(error.message, error.hint)
"""


def methods(server: StubServer) -> list[str]:
    """Return the methods of the requests that reached the server."""
    return [request.method for request in server.requests]


class ErrorContract:
    """Subclasses give the table; every test below then runs on their store."""

    table: ClassVar[ErrorTable]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make a test of each row of the table."""
        rows = {
            "failure": self.table.failures,
            "lost_race": self.table.lost_races,
            "repeated": tuple(self.table.good),
            "undeleted": self.table.undeleted,
        }
        for name in set(rows) & set(metafunc.fixturenames):
            metafunc.parametrize(name, rows[name])

    def test_an_answer_becomes_one_line_that_helps(
        self, store: ObjectStore, server: StubServer, failure: Failure
    ) -> None:
        server.answers = [failure.answer]
        for call in (*CALLS, *self.table.calls):
            with pytest.raises(failure.error) as raised:
                call(store)
            message = raised.value.message
            assert failure.said in message
            assert self.table.uri in message
            assert "\n" not in message
            assert not message.endswith((":", "."))
            for text in self.table.unsaid:
                assert text not in message
            if failure.hint is None:
                assert raised.value.hint is None
            else:
                assert failure.hint in str(raised.value.hint)

    def test_a_condition_that_does_not_hold_is_a_lost_race(
        self, store: ObjectStore, server: StubServer, lost_race: Answer
    ) -> None:
        server.answers = [lost_race]
        for condition in CONDITIONS:
            for body in (b"body", io.BytesIO(b"body")):
                with pytest.raises(ConditionFailed, match=f"{self.table.uri}/prefix/k"):
                    store.put("k", body, condition)

    def test_a_batch_takes_an_existing_object_as_written(
        self, store: ObjectStore, server: StubServer
    ) -> None:
        for answer in self.table.existing:
            server.requests.clear()
            server.answers = [answer]
            batch = store.batch()
            batch.put_new("k", b"body")
            batch.flush()
            (request,) = server.requests
            assert self.table.condition_of(request) == self.table.conditions[0]

    def test_a_missing_bucket_is_no_lost_race(self, store: ObjectStore, server: StubServer) -> None:
        server.answers = [self.table.no_bucket]
        for condition in (ANY, *CONDITIONS):
            with pytest.raises(BucketNotFound):
                store.put("k", b"", condition)

    def test_conditions_are_sent(self, store: ObjectStore, server: StubServer) -> None:
        versions = {store.put("k", b"", each) for each in (ABSENT, Match(Version("77")), ANY)}
        assert versions == {self.table.version}
        assert tuple(map(self.table.condition_of, server.requests)) == self.table.conditions

    def test_a_request_that_fails_for_a_moment_is_repeated(
        self, persistent: ObjectStore, server: StubServer, repeated: str
    ) -> None:
        busy, call = self.table.busy, REPEATED[repeated]
        # The answer to a HEAD has no body that could break off.
        second = busy if repeated == "head" else self.table.cut
        server.answers = [busy, second, self.table.good[repeated]]
        call(persistent)
        assert len(server.requests) == 3
        server.answers = [busy]
        with pytest.raises(Unreachable):
            call(persistent)
        assert len(server.requests) == 6

    def test_a_conditional_write_is_sent_once(
        self, persistent: ObjectStore, server: StubServer
    ) -> None:
        for condition in CONDITIONS:
            for body in self.table.tried_once:
                server.requests.clear()
                server.answers = [self.table.busy, self.table.ok]
                with pytest.raises(Unreachable):
                    persistent.put("k", body, condition)
                assert methods(server) == [self.table.writes_by]

    def test_an_answer_that_breaks_off_is_read_again(
        self, persistent: ObjectStore, server: StubServer
    ) -> None:
        server.answers = [self.table.cut, self.table.cut_again[0], self.table.rest]
        assert persistent.get("k") == b"x" * 1_000
        server.requests.clear()
        server.answers = [self.table.cut, *self.table.cut_again]
        with pytest.raises(Unreachable, match="broke the connection"):
            persistent.get("k")
        assert methods(server) == ["GET"] * 3

    def test_a_stream_that_breaks_off_is_no_end_of_the_object(
        self, store: ObjectStore, server: StubServer
    ) -> None:
        server.answers = [self.table.cut]

        def read() -> None:
            with store.open("k") as stream:
                while stream.read(500):
                    pass

        with pytest.raises(Unreachable, match="broke the connection"):
            read()

    def test_the_error_of_a_body_is_raised_as_it_is(self, store: ObjectStore) -> None:
        class Changed(io.BytesIO):
            def read(self, size: int | None = -1) -> bytes:
                raise IntegrityError("the file changed")

        for condition in (ANY, ABSENT):
            for size in (10, PART_SIZE):
                with pytest.raises(IntegrityError, match="the file changed"):
                    store.put("k", Changed(b"x" * size), condition)

    def test_a_listing_out_of_order_is_refused(
        self, store: ObjectStore, server: StubServer
    ) -> None:
        server.answers = [self.table.unordered]
        with pytest.raises(Unsupported, match=r"in (byte )?order"):
            list(store.list())

    def test_a_deletion_that_fails_names_its_object(
        self, store: ObjectStore, server: StubServer, undeleted: tuple[Answer, type[LakeError]]
    ) -> None:
        answer, error = undeleted
        server.answers = [answer]
        with pytest.raises(error, match=self.table.named):
            store.delete(["gone", "kept"])

    def test_an_endpoint_where_nobody_listens_is_unreachable(
        self, connect: Callable[[str], ObjectStore]
    ) -> None:
        port = free_port()
        store = connect(f"http://127.0.0.1:{port}")
        calls: tuple[Call, ...] = (
            lambda store: store.get("k"),
            lambda store: store.put("k", b"", ABSENT),
            lambda store: list(store.list()),
        )
        for call in calls:
            with pytest.raises(
                Unreachable, match=rf"^127\.0\.0\.1:{port} does not answer"
            ) as error:
                call(store)
            assert self.table.unreachable_hint in str(error.value.hint)

    def test_an_endpoint_with_a_password_is_refused(
        self, connect: Callable[[str], ObjectStore]
    ) -> None:
        calls: tuple[Call, ...] = (
            lambda store: store.get("k"),
            lambda store: store.presign(
                "k", PresignRequest("GET", timedelta(hours=1)), now=datetime(2030, 1, 1, tzinfo=UTC)
            ),
        )
        for call in calls:
            with pytest.raises(UsageError, match="user name or a password") as error:
                call(connect(f"http://user:secret@127.0.0.1:{free_port()}"))
            assert "secret" not in f"{error.value.message} {error.value.hint}"

    @pytest.mark.usefixtures("without_credentials")
    def test_without_credentials_the_error_says_what_to_set_and_nothing_is_printed(self) -> None:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, self.table.uri],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.stderr == ""
        for text in self.table.no_credentials:
            assert text in done.stdout
