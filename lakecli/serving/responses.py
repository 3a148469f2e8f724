"""Responses with the contents of objects, for all surfaces."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from lakecli.base.model import Entry
from lakecli.repository.contract import Repository
from lakecli.serving.context import ServingContext, ahead
from lakecli.serving.reading import read_part


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
        return Response(None, status, headers)
    pieces = read_part(repository, entry, start, end - start)
    first = next(pieces, b"")
    if len(first) == end - start:
        return Response(first, status, headers)

    async def held_back() -> AsyncGenerator[bytes]:
        pending = first
        async with aclosing(ahead(partial(context.in_thread, next, pieces, None))) as rest:
            async for piece in rest:
                yield pending
                pending = piece
            yield pending

    return StreamingResponse(held_back(), status, headers)
