"""Responses of all surfaces: plain ones, and the contents of objects."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from lakecli.base.model import NO_METADATA, Entry
from lakecli.repository.contract import Repository
from lakecli.serving.context import ServingContext, ahead
from lakecli.serving.reading import read_part

BODILESS: Final = frozenset({204, 304})
"""The statuses of responses that have no body."""


class PlainResponse(Response):
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


def object_response(
    request: Request,
    context: ServingContext,
    repository: Repository,
    entry: Entry,
    headers: Mapping[str, str],
    *,
    span: tuple[int, int] | None = None,
) -> Response:
    """Return a response with an object or a part of it.

    Call this function in a worker thread, because it reads the first piece of the object.

    The last piece is sent only after all bytes were verified. If the bytes are damaged, the
    connection is closed with the body incomplete.

    Args:
        headers: the headers that describe the object, without its size.
        span: the start and the end (exclusive) of the part; ``None`` for the whole object.
    """
    start, end = span or (0, entry.size)
    headers = {**headers, "content-length": str(end - start)}
    if span is not None:
        headers["content-range"] = f"bytes {start}-{end - 1}/{entry.size}"
    status = 200 if span is None else 206
    if request.method == "HEAD":
        return PlainResponse(status, headers)
    pieces = read_part(repository, entry, start, end - start)
    first = next(pieces, b"")
    if len(first) == end - start:
        return PlainResponse(status, headers, first)

    async def held_back() -> AsyncGenerator[bytes]:
        pending = first
        async with aclosing(ahead(partial(context.in_thread, next, pieces, None))) as rest:
            async for piece in rest:
                yield pending
                pending = piece
            yield pending

    return StreamingResponse(held_back(), status, headers)
