"""S3 requests with their bodies, and responses.

A body is read in the event loop. A small body is collected; a larger one is passed piece by piece
to the thread that stores it.
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
"""Bytes passed from a thread to the event loop at a time; smaller bodies are passed whole."""

TAKEN: Final = 256 << 10
"""Bytes of a larger body passed to a thread at a time; up to three such pieces are in memory."""

LARGEST_BODY: Final = 5 << 30
"""The maximum size of an object or part in one request, in bytes: S3's limit."""

MOST_STREAMS: Final = 64
"""The maximum number of concurrent slow requests: large uploads, and parts being joined."""

DRAINED: Final = 8 << 20
"""The maximum number of bytes to read and drop of a body before its error is sent."""

DRAIN_TIME: Final = 2.0
"""Seconds to wait for the rest of a body before the error is sent anyway."""

BODILESS: Final = frozenset({204, 304})
"""The statuses of responses that have no body."""

_turns = Semaphore(MOST_STREAMS)


class S3Answer(Response):
    """A response; cheaper to construct than Starlette's `Response`."""

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
        """Return a response with an XML document whose root has a text, or named elements."""
        found = document(root, text, **named)
        return S3Answer(200, {"content-type": "application/xml"}, found)


class StreamedAnswer(S3Answer):
    """A response whose body is read while it is sent.

    The last piece is sent only after the iterator has ended, because the iterator raises an error
    at its end if the data is damaged. In this case the connection is closed with the body
    incomplete.
    """

    def __init__(
        self, call: Call, status: int, headers: dict[str, str], first: bytes, rest: Iterator[bytes]
    ) -> None:
        super().__init__(status, headers)
        self._call = call
        self._first = first
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response, see `StreamedAnswer`."""
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
    """A request with a valid signature.

    Attributes:
        bucket: the name of the repository; ``""`` for the endpoint as a whole.
        key: the key in the bucket, decoded: a ref expression, a slash and a path.
        query: the decoded parameters; a repeated name has its last value.
        headers: the headers by lower-case names.
        sums: the checksums of the body; empty until the whole body was read; see `Body.finish`.
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
        """The client, as the operation log names it."""
        return client_of(self.request, "s3")

    @cached_property
    def place(self) -> tuple[str, bytes]:
        """The ref expression and the path that the key consists of."""
        return split_key(self.key)

    @contextmanager
    def view(self, ref: str, bucket: str = "") -> Iterator[View]:
        """Open a view at a ref expression; needs a thread.

        Args:
            ref: the ref expression.
            bucket: the name of a repository; ``""`` for the bucket of the request.

        Raises:
            S3Error: NoSuchBucket; or NoSuchKey if there is no such ref.
        """
        with ExitStack() as stack:
            try:
                view = stack.enter_context(self.context.served.view(bucket or self.bucket, ref))
            except (NotFound, UsageError) as error:
                self.check_bucket(bucket)
                raise S3Error("NoSuchKey", error.message) from error
            yield view

    def check_bucket(self, bucket: str = "") -> None:
        """Raise `S3Error` NoSuchBucket unless a bucket is served."""
        name = bucket or self.bucket
        if name not in self.context.served.names():
            raise S3Error("NoSuchBucket", f"no repository {name!r} is served here")

    def writer(self, branch: str = "") -> BranchWriter:
        """Return the writer of a branch; needs a thread.

        Args:
            branch: the name of the branch; ``""`` for the branch of the key.

        Raises:
            S3Error: there is no such branch; or it is a tag, a commit or another expression.
            Refused: the repository is read-only here.
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
        """Make one change on the branch of the key; needs a thread."""
        (outcome,) = self.writer().apply([change], client=self.client, action=action)
        if isinstance(outcome, LakeError):
            raise outcome

    @property
    def body_size(self) -> int | None:
        """The number of decoded bytes that the client announces, or ``None``."""
        return announced_size(self.signed, self.headers)

    async def whole(
        self, limit: int, *, also: Iterable[str] = (), of_upload: bool = False
    ) -> bytes:
        """Return the whole body, verified; `Body` describes the parameters."""
        body = Body(self.signed, self.headers, limit=limit, also=also, of_upload=of_upload)
        return b"".join([piece async for piece in self._pieces(body)])

    async def slowly(self, work: Callable[[], T]) -> T:
        """Call a function that may take long or wait for the client.

        The function runs in a thread of its own, so that fast requests do not wait for it.
        """

        def run() -> T:
            with _turns:
                return work()

        own = ThreadPoolExecutor(1, f"{THREAD_NAME}-slow")
        try:
            # Cancelling the request does not stop the function, which may be changing something.
            return await get_running_loop().run_in_executor(own, run)
        finally:
            own.shutdown(wait=False)

    async def received(
        self, store: Callable[[bytes | Iterator[bytes]], T], *, also: Iterable[str] = ()
    ) -> T:
        """Call a function in a thread with the body: whole, or as an iterator over its pieces.

        The iterator raises an error at its end if the body does not match its signature.

        Args:
            store: the function, which gets bytes or, for a large body, the iterator.
            also: checksum algorithms to compute even if the client sends no such checksum.
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
        """Read and drop the rest of the body; many clients send it before they read a response."""
        if not self.has_read and self.headers.get("expect", "").lower() == "100-continue":
            return
        left = DRAINED
        with suppress(ClientDisconnect, TimeoutError, RuntimeError):  # the stream may be consumed
            async with timeout(DRAIN_TIME):
                async for data in self.request.stream():
                    left -= len(data)
                    if left < 0:
                        return


async def _ahead(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """Yield pieces; while the caller uses one, the next is already being received."""
    reading = ensure_future(anext(pieces, None))
    try:
        while (piece := await reading) is not None:
            reading = ensure_future(anext(pieces, None))
            yield piece
    finally:
        reading.cancel()
        await gather(reading, return_exceptions=True)


Operation = Callable[[Call], Any]
"""Handles a request: a function, to be called in a thread; or a coroutine, which reads the body."""


def split_key(key: bytes) -> tuple[str, bytes]:
    """Return the ref expression and the path in a key; without a slash, the path is empty."""
    ref, _, path = key.partition(b"/")
    return os.fsdecode(ref), path
