"""One request of S3 while it is answered, and the form of answers.

A body is read in the event loop. A small one is collected; a larger one is handed piece by piece to
the thread that stores it.
"""

from __future__ import annotations

import os
from asyncio import ensure_future, gather, get_running_loop, timeout
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from threading import Semaphore
from typing import TYPE_CHECKING, Any, Final, TypeVar

from starlette.requests import ClientDisconnect
from starlette.responses import Response

from lakecli.base.model import NO_METADATA
from lakecli.errors import LakeError, NotFound, UsageError
from lakecli.serving.context import THREAD_NAME, ServingContext, client_of, pieces_of
from lakecli.serving.s3.bodies import Body, announced_size
from lakecli.serving.s3.errors import S3Error
from lakecli.serving.s3.signature import Signed
from lakecli.serving.s3.xml import Markup, document

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from lakecli.repository.reading.view import View
    from lakecli.serving.writes import BranchWriter, Client, PathChange

T = TypeVar("T")

PIECE: Final = 1 << 20
"""Bytes that pass from a thread to the event loop at a time; smaller bodies pass as a whole."""

TAKEN: Final = 256 << 10
"""Bytes of a larger body that pass to a thread at a time; each body has up to three such pieces."""

LARGEST_BODY: Final = 5 << 30
"""The largest object, or part of one, in one request: S3's limit."""

MOST_STREAMS: Final = 64
"""The most requests that take long at a time: bodies that arrive, and objects that are joined."""

DRAINED: Final = 8 << 20
"""Bytes of a body that are read and dropped, so that its sender reads the error."""

DRAIN_TIME: Final = 2.0
"""Seconds after which the error is sent to a client that does not send the body it announced."""

BODILESS: Final = frozenset({204, 304})
"""Statuses of answers without a body."""

_turns = Semaphore(MOST_STREAMS)


class S3Answer(Response):
    """An answer; Starlette's own takes longer to make."""

    def __init__(
        self, status: int = 200, headers: Mapping[str, str] = NO_METADATA, body: bytes = b""
    ) -> None:
        if status not in BODILESS and "content-length" not in headers:
            headers = {**headers, "content-length": str(len(body))}
        self.status_code = status
        self.raw_headers = [
            (name.lower().encode("latin-1"), text.encode("latin-1", "replace"))
            for name, text in headers.items()
        ]
        self.body = body
        self.background = None

    @classmethod
    def document(
        cls, root: str, text: str = "", /, **named: str | int | list[Markup] | None
    ) -> S3Answer:
        """Return an answer with a document that has a text, or elements."""
        found = document(root, text, **named)
        return S3Answer(200, {"content-type": "application/xml"}, found)


class StreamedAnswer(S3Answer):
    """An answer whose body is read while it is sent.

    Its last piece is sent only after the iterator has ended, because the iterator raises an error
    at its end if the bytes are damaged. Then the connection is closed before the body is complete.
    """

    def __init__(
        self, call: Call, status: int, headers: dict[str, str], first: bytes, rest: Iterator[bytes]
    ) -> None:
        super().__init__(status, headers)
        self._call = call
        self._first = first
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        del scope, receive
        start = {"type": "http.response.start", "status": self.status_code}
        await send(start | {"headers": self.raw_headers})
        pending = self._first
        async with aclosing(_ahead(self._following())) as pieces:
            async for piece in pieces:
                if await self._call.request.is_disconnected():
                    return
                await send({"type": "http.response.body", "body": pending, "more_body": True})
                pending = piece
        await send({"type": "http.response.body", "body": pending, "more_body": False})

    async def _following(self) -> AsyncGenerator[bytes]:
        while (piece := await self._call.context.in_thread(next, self._rest, None)) is not None:
            yield piece


@dataclass(eq=False)
class Call:
    """A request whose signature is right.

    Attributes:
        bucket: the name of the repository; ``""`` for the endpoint as a whole.
        key: the key in the bucket, decoded: a ref expression, a slash and a path.
        query: the parameters, decoded; of those that come twice, the last.
        headers: the headers by lower-case names.
        sums: the checksums of the body once it was read whole; see `Body.finish`.
        has_read: whether reading the body has begun.
    """

    request: Request
    context: ServingContext
    signed: Signed
    bucket: str
    key: bytes
    query: Mapping[str, str]
    headers: Mapping[str, str]
    sums: Mapping[str, str] = field(default_factory=dict)
    has_read: bool = False

    @cached_property
    def client(self) -> Client:
        """The client, for the operation log."""
        return client_of(self.request, "s3")

    @cached_property
    def place(self) -> tuple[str, bytes]:
        """The ref expression and the path that the key names."""
        return split_key(self.key)

    @contextmanager
    def view(self, ref: str, bucket: str = "") -> Iterator[View]:
        """Open the state that a ref expression names, in a thread.

        Raises:
            S3Error: there is no such bucket, or no such ref: then no key is there, either.
        """
        with ExitStack() as stack:
            try:
                view = stack.enter_context(self.context.served.view(bucket or self.bucket, ref))
            except (NotFound, UsageError) as error:
                self.check_bucket(bucket)
                raise S3Error("NoSuchKey", error.message) from error
            yield view

    def check_bucket(self, bucket: str = "") -> None:
        """Raise an error unless a bucket is served."""
        name = bucket or self.bucket
        if name not in self.context.served.names():
            raise S3Error("NoSuchBucket", f"no repository {name!r} is served here")

    def writer(self, branch: str = "") -> BranchWriter:
        """Return the writer of a branch, in a thread.

        Args:
            branch: its name; ``""``: the branch of the key.

        Raises:
            S3Error: there is no such branch; or it is a tag, a commit or another expression.
            Refused: nothing may be written here.
        """
        ref = branch or self.place[0]
        try:
            return self.context.served.writer(self.bucket, ref)
        except (NotFound, UsageError) as error:
            with self.view(ref):
                pass
            raise S3Error(
                "MethodNotAllowed",
                f"{ref!r} is a tag, a commit or an expression, which only can be read: objects are "
                "written to branches",
                {"Allow": "GET, HEAD"},
            ) from error

    def apply(self, change: PathChange, action: str) -> None:
        """Make one change on the branch of the key, in a thread."""
        (outcome,) = self.writer().apply([change], client=self.client, action=action)
        if isinstance(outcome, LakeError):
            raise outcome

    @property
    def body_size(self) -> int | None:
        """The number of decoded bytes that the client announces."""
        return announced_size(self.signed, self.headers)

    async def whole(
        self, limit: int, *, also: Iterable[str] = (), of_upload: bool = False
    ) -> bytes:
        """Return the body, verified; for the parameters see `Body`."""
        body = Body(self.signed, self.headers, limit=limit, also=also, of_upload=of_upload)
        return b"".join([piece async for piece in self._pieces(body)])

    async def slowly(self, work: Callable[[], T]) -> T:
        """Call a function that may take long, and that may wait for the client.

        It has a thread of its own, so that no other request waits for it.
        """

        def run() -> T:
            with _turns:
                return work()

        own = ThreadPoolExecutor(1, f"{THREAD_NAME}-slow")
        try:
            # A request that is cancelled does not stop it: it may have changed something.
            return await get_running_loop().run_in_executor(own, run)
        finally:
            own.shutdown(wait=False)

    async def received(
        self, store: Callable[[bytes | Iterator[bytes]], T], *, also: Iterable[str] = ()
    ) -> T:
        """Call a function in a thread with the body: whole, or piece by piece while it arrives.

        The iterator raises an error at its end if the body is not what was signed.

        Args:
            also: the algorithms of checksums to compute even if the client sends none.
        """
        if self.body_size is None:
            raise S3Error("MissingContentLength", "the size of the body is missing")
        if self.body_size <= PIECE:
            return await self.context.in_thread(store, await self.whole(PIECE, also=also))
        body = Body(self.signed, self.headers, limit=LARGEST_BODY, also=also)
        async with aclosing(_ahead(self._pieces(body))) as pieces:
            return await self.slowly(partial(store, pieces_of(pieces)))

    async def _pieces(self, body: Body) -> AsyncGenerator[bytes]:
        gathered: list[bytes] = []
        size = 0
        self.has_read = True
        async for data in self.request.stream():
            for piece in body.feed(data):
                gathered.append(piece)
                size += len(piece)
            if size >= TAKEN:
                yield b"".join(gathered)
                gathered, size = [], 0
        self.sums = body.finish()
        yield b"".join(gathered)

    async def drain(self) -> None:
        """Read and drop the rest of a body; many clients read no answer before they sent it all."""
        if not self.has_read and self.headers.get("expect", "").lower() == "100-continue":
            return
        left = DRAINED
        with suppress(ClientDisconnect, TimeoutError, RuntimeError):  # it was read already
            async with timeout(DRAIN_TIME):
                async for data in self.request.stream():
                    left -= len(data)
                    if left < 0:
                        return


async def _ahead(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """Yield pieces, and receive the next one meanwhile."""
    reading = ensure_future(anext(pieces, None))
    try:
        while (piece := await reading) is not None:
            reading = ensure_future(anext(pieces, None))
            yield piece
    finally:
        reading.cancel()
        await gather(reading, return_exceptions=True)


Operation = Callable[[Call], Any]
"""What answers: a function for a thread, or a coroutine function if it reads a body."""


def split_key(key: bytes) -> tuple[str, bytes]:
    """Return the ref expression and the path in a key; the path is empty without a slash."""
    ref, _, path = key.partition(b"/")
    return os.fsdecode(ref), path
