"""S3 requests with their bodies, and responses.

A body is received in the event loop, and decoded and verified in the thread that uses it. A small
body is collected first; a larger one is passed to the thread piece by piece.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Self

from starlette.requests import Request
from starlette.responses import Response

from lakecli.errors import NotFound, UsageError
from lakecli.repository.reading.view import View
from lakecli.serving.context import ServingContext, client_of, pieces_of
from lakecli.serving.reading import PIECE
from lakecli.serving.s3.bodies import Body, announced_size
from lakecli.serving.s3.errors import S3Error
from lakecli.serving.s3.signature import Signed
from lakecli.serving.s3.xml import Markup, document
from lakecli.serving.writes import BranchWriter, Client, PathChange

MOST_COLLECTED: Final = 2 * PIECE
"""The maximum size of a small body in bytes, as it is sent: its chunks add to its size."""

LARGEST_BODY: Final = 5 << 30
"""The maximum size of an object or part in one request, in bytes: S3's limit."""


def xml_response(root: str, /, **named: str | int | list[Markup] | None) -> Response:
    """Return a response with an XML document whose root has the named elements."""
    found = document(root, **named)
    return Response(found, media_type="application/xml")


@dataclass(eq=False)
class Call:
    """A request with a valid signature.

    Attributes:
        bucket: the name of the repository; ``""`` for the endpoint as a whole.
        key: the key in the bucket, decoded: a ref expression, a slash and a path.
        query: the decoded parameters; a repeated name has its last value.
        headers: the headers by lower-case names.
        received: the body as it is sent, in pieces.
        sums: the checksums of the body, see `Body.sums`.
    """

    request: Request
    context: ServingContext
    signed: Signed
    bucket: str
    key: bytes
    query: Mapping[str, str]
    headers: Mapping[str, str]
    received: Iterable[bytes] = ()
    sums: Mapping[str, str] = field(default_factory=dict)

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
        """Open a view at a ref expression; this blocks, so call it in a worker thread.

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
        """Return the writer of a branch; this blocks, so call it in a worker thread.

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
        self.writer().apply_one(change, client=self.client, action=action)

    async def answer(self, operation: Callable[[Self], Response], *, is_slow: bool) -> Response:
        """Receive the body, and call an operation in a thread.

        Args:
            is_slow: whether the operation may take long.
        """
        if self.request.method not in {"PUT", "POST"}:
            return await self.context.in_thread(operation, self)
        sent_size = int(self.headers.get("content-length", LARGEST_BODY))
        if self.body_size <= PIECE and sent_size <= MOST_COLLECTED:
            self.received = [await self.request.body()]
            return await self.context.in_thread(operation, self, is_slow=is_slow)
        self.received = pieces_of(self.request.stream())
        return await self.context.in_thread(operation, self, is_slow=True)

    @property
    def body_size(self) -> int:
        """The number of decoded bytes that the client announces."""
        return announced_size(self.signed, self.headers)

    def contents(self, limit: int = LARGEST_BODY, *, of_upload: bool = False) -> Iterator[bytes]:
        """Yield the decoded pieces of the body; `Body` describes the parameters.

        Raises:
            S3Error: raised at the end if the body does not match its signature or a checksum.
        """
        body = Body(self.signed, self.headers, limit=limit, of_upload=of_upload)
        yield from body.read(self.received)
        self.sums = body.sums

    def whole(self, limit: int, *, of_upload: bool = False) -> bytes:
        """Return the decoded body, verified."""
        return b"".join(self.contents(limit, of_upload=of_upload))


Operation = Callable[[Call], Response]
"""Handles a request; needs a thread."""


def split_key(key: bytes) -> tuple[str, bytes]:
    """Return the ref expression and the path in a key; if it has no slash, the path is empty."""
    ref, _, path = key.partition(b"/")
    return os.fsdecode(ref), path
