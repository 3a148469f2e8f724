"""One request of S3 while it is answered, and the form of answers.

A body is read in the event loop. A small one is collected; a larger one is handed piece by piece to
the thread that stores it.
"""

from __future__ import annotations

import os
from asyncio import Task, create_task, shield, timeout, wait, wrap_future
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import aclosing, contextmanager, suppress
from functools import cached_property
from threading import Semaphore, Thread
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from starlette.requests import ClientDisconnect
from starlette.responses import Response

from lakecli.errors import LakeError, NotFound, UsageError
from lakecli.serving.context import THREAD_NAME, ServingContext, client_of, pieces_of
from lakecli.serving.s3.bodies import Body, Finished, announced_size
from lakecli.serving.s3.errors import S3Error
from lakecli.serving.s3.signature import Signed

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from lakecli.repository.reading.view import View
    from lakecli.serving.writes import BranchWriter, Client, Outcome, PathChange

P = ParamSpec("P")
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

NO_CONTENT: Final = 204

Headers = list[tuple[bytes, bytes]]

_turns = Semaphore(MOST_STREAMS)


class S3Answer(Response):
    """An answer with headers as they are; Starlette's own takes longer to make."""

    def __init__(self, status: int, headers: Headers, body: bytes = b"") -> None:
        self.status_code = status
        self.raw_headers = headers
        self.body = body
        self.background = None


class StreamedAnswer(S3Answer):
    """An answer whose body is read while it is sent.

    Its last piece is sent only after the iterator has ended, because the iterator raises an error
    at its end if the bytes are damaged. Then the connection is closed before the body is complete.
    """

    def __init__(
        self, call: Call, status: int, headers: Headers, first: bytes, rest: Iterator[bytes]
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
        pending: bytes | None = self._first
        reading = self._read()
        try:
            while pending is not None:
                following = await reading
                if following is not None:
                    if await self._call.request.is_disconnected():
                        return
                    reading = self._read()
                await send(
                    {
                        "type": "http.response.body",
                        "body": pending,
                        "more_body": following is not None,
                    }
                )
                pending = following
        finally:
            await _ended(reading)

    def _read(self) -> Task[bytes | None]:
        return create_task(self._call.context.in_thread(next, self._rest, None))


class Call:
    """A request whose signature is right.

    Attributes:
        bucket: the name of the repository; ``""`` for the endpoint as a whole.
        key: the key in the bucket, decoded: a ref expression, a slash and a path.
        query: the parameters, decoded; of those that come twice, the last.
        headers: the headers by lower-case names.
        finished: what is known of the body once it was read whole.
    """

    def __init__(
        self,
        request: Request,
        context: ServingContext,
        signed: Signed,
        *,
        place: tuple[str, bytes],
        query: Mapping[str, str],
        headers: Mapping[str, str],
    ) -> None:
        self.request = request
        self.context = context
        self.signed = signed
        self.bucket, self.key = place
        self.query = query
        self.headers = headers
        self.finished: Finished | None = None
        self._has_read = False

    @cached_property
    def client(self) -> Client:
        """The client, for the operation log."""
        return client_of(self.request, "s3")

    @cached_property
    def place(self) -> tuple[str, bytes]:
        """The ref expression and the path that the key names."""
        return split_key(self.key)

    @property
    def resource(self) -> str:
        """The path of the bucket or object, for errors."""
        return f"/{self.bucket}" + (f"/{os.fsdecode(self.key)}" if self.key else "")

    async def in_thread(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that reads or writes the repository."""
        return await self.context.in_thread(work, *args, **kwargs)

    @contextmanager
    def view(self, ref: str, bucket: str = "") -> Iterator[View]:
        """Open the state that a ref expression names, in a thread.

        Raises:
            S3Error: there is no such bucket, or no such ref: then no key is there, either.
        """
        name = bucket or self.bucket
        opened = self.context.served.view(name, ref)
        try:
            view = opened.__enter__()
        except (NotFound, UsageError) as error:
            raise self.missing(error, name) from error
        try:
            yield view
        finally:
            opened.__exit__(None, None, None)

    def missing(self, error: LakeError, bucket: str = "") -> S3Error:
        """Return the error for a ref that does not exist, in a bucket that may not, either."""
        name = bucket or self.bucket
        if name not in self.context.served.names():
            return S3Error("NoSuchBucket", f"no repository {name!r} is served here")
        return S3Error("NoSuchKey", error.message)

    def writer(self, ref: str) -> BranchWriter:
        """Return the writer of a branch, in a thread.

        Raises:
            S3Error: there is no such branch; or it is a tag, a commit or another expression.
            Refused: nothing may be written here.
        """
        try:
            return self.context.served.writer(self.bucket, ref)
        except (NotFound, UsageError) as error:
            with self.view(ref):
                pass
            raise S3Error(
                "MethodNotAllowed",
                f"{ref!r} is a tag, a commit or an expression, which only can be read: objects are "
                "written to branches",
                headers={"Allow": "GET, HEAD"},
            ) from error

    def apply(self, writer: BranchWriter, changes: list[PathChange], action: str) -> list[Outcome]:
        """Make changes, in a thread."""
        return writer.apply(changes, client=self.client, action=action)

    def apply_one(self, writer: BranchWriter, change: PathChange, action: str) -> bytes | None:
        """Make one change, in a thread; return the encoded entry that its path has now."""
        (outcome,) = self.apply(writer, [change], action)
        if isinstance(outcome, LakeError):
            raise outcome
        return outcome

    @property
    def body_size(self) -> int | None:
        """The number of decoded bytes that the client announces."""
        return announced_size(self.signed, self.headers)

    @property
    def is_small(self) -> bool:
        """Whether the body passes as a whole."""
        return (PIECE + 1 if self.body_size is None else self.body_size) <= PIECE

    async def whole(
        self, limit: int = PIECE, *, also: Iterable[str] = (), completes_upload: bool = False
    ) -> bytes:
        """Return the body, verified; for the parameters see `Body`."""
        body = Body(
            self.signed, self.headers, limit=limit, also=also, completes_upload=completes_upload
        )
        pieces: list[bytes] = []
        self._has_read = True
        async for data in self.request.stream():
            pieces += body.feed(data)
        self.finished = body.finish()
        return b"".join(pieces)

    async def slowly(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that may take long, and that may wait for the client.

        It has a thread of its own, so that no other request waits for it, nor the end of the
        process.
        """
        future: Future[T] = Future()

        def run() -> None:
            try:
                with _turns:
                    future.set_result(work(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
                future.set_exception(error)

        Thread(target=run, name=f"{THREAD_NAME}-slow", daemon=True).start()
        # A request that is cancelled does not stop the thread, which may have changed something.
        return await shield(wrap_future(future))

    async def stored(self, store: Callable[[Iterator[bytes]], T], *, also: Iterable[str] = ()) -> T:
        """Call a function in a thread with the pieces of the body, while they arrive.

        The iterator raises an error at its end if the body is not what was signed.

        Args:
            also: the algorithms of checksums to compute even if the client sends none.
        """
        body = Body(self.signed, self.headers, limit=LARGEST_BODY, also=also)
        async with aclosing(_ahead(self._pieces(body))) as pieces:
            return await self.slowly(store, pieces_of(pieces))

    async def _pieces(self, body: Body) -> AsyncGenerator[bytes]:
        gathered: list[bytes] = []
        size = 0
        self._has_read = True
        async for data in self.request.stream():
            for piece in body.feed(data):
                gathered.append(piece)
                size += len(piece)
            if size >= TAKEN:
                yield b"".join(gathered)
                gathered, size = [], 0
        self.finished = body.finish()
        yield b"".join(gathered)

    async def drain(self) -> None:
        """Read and drop the rest of a body; many clients read no answer before they sent it all."""
        if not self._has_read and self.headers.get("expect", "").lower() == "100-continue":
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
    reading: Task[bytes | None] = create_task(_next(pieces))
    try:
        while (piece := await reading) is not None:
            reading = create_task(_next(pieces))
            yield piece
    finally:
        reading.cancel()
        await _ended(reading)


async def _ended(task: Task[bytes | None]) -> None:
    """Wait for the end of a task whose result nobody needs."""
    await wait([task])
    if not task.cancelled():
        task.exception()  # otherwise asyncio complains that nobody has seen it


async def _next(pieces: AsyncIterator[bytes]) -> bytes | None:
    return await anext(pieces, None)


def split_key(key: bytes) -> tuple[str, bytes]:
    """Return the ref expression and the path in a key; the path is empty without a slash."""
    ref, _, path = key.partition(b"/")
    return os.fsdecode(ref), path


def text_headers(headers: Iterable[tuple[str, str]]) -> Headers:
    """Return headers as they are sent."""
    return [
        (name.lower().encode("latin-1"), text.encode("latin-1", "replace"))
        for name, text in headers
    ]


def xml_answer(document: bytes, *, status: int = 200, headers: Headers | None = None) -> S3Answer:
    """Return an answer with a document."""
    own = [
        (b"content-type", b"application/xml"),
        (b"content-length", b"%d" % len(document)),
        *(headers or []),
    ]
    return S3Answer(status, own, document)


def empty_answer(status: int = 200, headers: Headers | None = None) -> S3Answer:
    """Return an answer without a body."""
    own = headers or []
    return S3Answer(status, own if status == NO_CONTENT else [*own, (b"content-length", b"0")])
