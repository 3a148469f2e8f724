"""Cases of signatures and of the forms of bodies, whatever the operation."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

from tests.serving.s3_case import TEXT, Request, Sender, Step, get, group, head, put, signed, step
from tests.serving.s3_cases_objects import KINDS, LATER
from tests.serving.s3_wire import (
    CHUNKS,
    EMPTY,
    SIGNED_TRAILER,
    UNSIGNED,
    UNSIGNED_TRAILER,
    Answer,
    Keys,
    Wire,
    digest64,
    minutes_from_now,
    presign,
    query_of,
    sign,
    signed_chunks,
    signed_trailer,
    unsigned_chunks,
)

PIECES: Final = (TEXT * 1_000, TEXT * 900)
WHOLE: Final = b"".join(PIECES)


def _target(request: Request) -> str:
    query = query_of(request.query)
    return f"{request.path}?{query}" if query else request.path


def with_payload(payload: str) -> Sender:
    """Return what sends a request whose digest says something else."""
    return lambda wire, request: wire.send(*request, payload=payload)


def with_keys(
    change: Callable[[Keys], Keys] = lambda keys: keys, *, at: Callable[[], datetime] | None = None
) -> Sender:
    """Return what signs by other keys, or at another time."""

    def send(wire: Wire, request: Request) -> Answer:
        headers, _ = sign(
            change(wire.keys),
            request.method,
            wire.host,
            request.path,
            query_of(request.query),
            request.headers,
            payload=hashlib.sha256(request.body).hexdigest(),
            at=at() if at else None,
        )
        return wire.raw(request.method, _target(request), headers, request.body)

    return send


def changed(change: Callable[[dict[str, str]], Mapping[str, str]]) -> Sender:
    """Return what changes the headers of a request that is signed."""

    def send(wire: Wire, request: Request) -> Answer:
        headers, _ = sign(
            wire.keys,
            request.method,
            wire.host,
            request.path,
            query_of(request.query),
            request.headers,
            payload=hashlib.sha256(request.body).hexdigest(),
        )
        return wire.raw(request.method, _target(request), change(headers), request.body)

    return send


def without(name: str) -> Sender:
    """Return what leaves out a header of a request that is signed."""
    return changed(lambda headers: {key: value for key, value in headers.items() if key != name})


def unsigned(wire: Wire, request: Request) -> Answer:
    """Send a request of nobody."""
    return wire.raw(
        request.method, _target(request), {"Host": wire.host, **request.headers}, request.body
    )


def by_url(*, method: str = "", expires: int = 60, minutes: float = 0, suffix: str = "") -> Sender:
    """Return what sends a request by a presigned URL.

    Args:
        method: the method that is signed, if it is another one.
        expires: seconds that the URL lives.
        minutes: when it is signed, from now.
        suffix: what is appended.
    """

    def send(wire: Wire, request: Request) -> Answer:
        target = presign(
            wire.keys,
            method or request.method,
            wire.host,
            request.path,
            request.query,
            expires=expires,
            at=minutes_from_now(minutes),
        )
        return wire.raw(
            request.method, target + suffix, {"Host": wire.host, **request.headers}, request.body
        )

    return send


def streamed(
    payload: str,
    pieces: Sequence[bytes] = PIECES,
    *,
    trailer: str = "",
    length: int | None = None,
    spoil: Callable[[bytes], bytes] = lambda framed: framed,
    encoding: str = "aws-chunked",
) -> Sender:
    """Return what sends a body in the frames of AWS.

    Args:
        payload: the form.
        pieces: the chunks.
        trailer: the line after them.
        length: what is announced, if not the truth; below 0: nothing.
        spoil: changes the body.
        encoding: the Content-Encoding.
    """

    def send(wire: Wire, request: Request) -> Answer:
        announced = str(sum(map(len, pieces)) if length is None else length)
        headers = {"Content-Encoding": encoding, "x-amz-decoded-content-length": announced}
        if announced.startswith("-"):
            del headers["x-amz-decoded-content-length"]
        if payload.endswith("TRAILER"):
            headers["x-amz-trailer"] = trailer.partition(":")[0] or "x-amz-checksum-crc32"
        headers |= request.headers
        query = query_of(request.query)
        all_of, seal = sign(
            wire.keys, request.method, wire.host, request.path, query, headers, payload=payload
        )
        if payload == UNSIGNED_TRAILER:
            body = unsigned_chunks(pieces, [trailer] if trailer else [])
        else:
            body, last = signed_chunks(seal, pieces)
            body += signed_trailer(last, trailer) if payload == SIGNED_TRAILER else b"\r\n"
        return wire.raw(request.method, _target(request), all_of, spoil(body))

    return send


def line(kind: str, data: bytes = WHOLE) -> str:
    """Return the trailer with a checksum."""
    return f"x-amz-checksum-{kind}:{digest64(kind, data)}"


def flip(place: bytes, change: bytes) -> Callable[[bytes], bytes]:
    """Return what replaces the last of some bytes."""

    def spoil(framed: bytes) -> bytes:
        before, found, after = framed.rpartition(place)
        assert found
        return before + change + after

    return spoil


def _other_signature(framed: bytes) -> bytes:
    start = framed.index(b"chunk-signature=") + len(b"chunk-signature=")
    return framed[:start] + b"0" * 64 + framed[start + 64 :]


def _stored(by: Sender) -> list[Step]:
    return [put("k", by=by), get(text=WHOLE, has={"Content-Encoding": None})]


def _refused(by: Sender, status: int | tuple[int, ...], *code: str) -> list[Step]:
    return [put("k", by=by, status=status, code=code), head(status=404)]


_CRC32: Final = line("crc32")
PAYLOADS = group(
    "Payload",
    {
        "a body without a digest": [put(by=with_payload(UNSIGNED)), get(text=TEXT)],
        "a body with another digest": _refused(
            with_payload(EMPTY), 400, "XAmzContentSHA256Mismatch"
        ),
        "a digest that is none": _refused(
            with_payload("abc"),
            (400, 403),
            "InvalidArgument",
            "InvalidRequest",
            "XAmzContentSHA256Mismatch",
        ),
        "no digest": [put(by=without("x-amz-content-sha256"), status=(400, 403)), head(status=404)],
        "signed chunks": _stored(streamed(CHUNKS)),
        "signed chunks of nothing": [put("k", by=streamed(CHUNKS, ())), get(text=b"")],
        "signed chunks with a checksum behind": _stored(streamed(SIGNED_TRAILER, trailer=_CRC32)),
        "a chunk with another signature": _refused(
            streamed(CHUNKS, spoil=_other_signature), 403, "SignatureDoesNotMatch"
        ),
        "a chunk with other bytes": _refused(
            streamed(CHUNKS, spoil=flip(b"0123456789\r\n", b"0123456780\r\n")),
            403,
            "SignatureDoesNotMatch",
        ),
        "a checksum behind with another signature": _refused(
            streamed(
                SIGNED_TRAILER,
                trailer=_CRC32,
                spoil=flip(b"x-amz-trailer-signature:", b"x-amz-trailer-signature:0"),
            ),
            (400, 403),
            "SignatureDoesNotMatch",
            "MalformedTrailerError",
        ),
        **{
            f"a {kind} behind the body": _stored(streamed(UNSIGNED_TRAILER, trailer=line(kind)))
            for kind in KINDS
        },
        **{
            f"a wrong {kind} behind the body": _refused(
                streamed(UNSIGNED_TRAILER, trailer=line(kind, b"other")), 400, "BadDigest"
            )
            for kind in KINDS
        },
        "a wrong checksum behind signed chunks": _refused(
            streamed(SIGNED_TRAILER, trailer=line("crc32", b"other")), 400, "BadDigest"
        ),
        "a checksum that was announced and is missing": _refused(
            streamed(UNSIGNED_TRAILER), 400, "MalformedTrailerError", "InvalidRequest"
        ),
        "an empty line too many behind the checksum": _stored(
            streamed(UNSIGNED_TRAILER, trailer=_CRC32, spoil=lambda framed: framed + b"\r\n")
        ),
        "chunks without their length": _refused(
            streamed(CHUNKS, length=-1), (400, 411), "MissingContentLength"
        ),
        "chunks of more than was announced": _refused(
            streamed(UNSIGNED_TRAILER, trailer=_CRC32, length=100),
            400,
            "IncompleteBody",
            "InvalidRequest",
        ),
        "chunks of less than was announced": _refused(
            streamed(UNSIGNED_TRAILER, trailer=_CRC32, length=len(WHOLE) + 1),
            400,
            "IncompleteBody",
            "InvalidRequest",
        ),
        "a chunk whose size is none": _refused(
            streamed(UNSIGNED_TRAILER, trailer=_CRC32, spoil=lambda framed: b"xyz" + framed[4:]),
            400,
            "IncompleteBody",
            "InvalidRequest",
            "InvalidChunkSizeError",
        ),
        "chunks that end early": _refused(
            streamed(CHUNKS, spoil=lambda framed: framed[:-100]),
            (400, 403),
            "IncompleteBody",
            "SignatureDoesNotMatch",
        ),
        "chunks of something compressed": [
            put("k", by=streamed(CHUNKS, encoding="aws-chunked,gzip")),
            head(has={"Content-Encoding": "gzip"}),
        ],
        "a type of chunks": [
            put("k", headers={"Content-Type": "text/csv"}, by=streamed(CHUNKS)),
            head(has={"Content-Type": "text/csv", "Content-Length": str(len(WHOLE))}),
        ],
        "If-None-Match with chunks": [
            put(),
            put(
                "k",
                headers={"If-None-Match": "*"},
                by=streamed(UNSIGNED_TRAILER, trailer=_CRC32),
                status=412,
                code="PreconditionFailed",
            ),
            get(text=TEXT),
        ],
    },
)

DENIED: Final = {"status": 403}
SIGNATURES = group(
    "Signature",
    {
        "nobody": [put(), get(by=unsigned, status=403, code="AccessDenied")],
        "an unknown key": [
            get(
                by=with_keys(lambda keys: keys._replace(access="AKIAUNKNOWN")),
                status=403,
                code="InvalidAccessKeyId",
            )
        ],
        "another secret": [
            get(
                by=with_keys(lambda keys: keys._replace(secret="another")),
                status=403,
                code="SignatureDoesNotMatch",
            )
        ],
        "another date": [
            get(
                by=with_keys(at=lambda: minutes_from_now(-20)),
                status=403,
                code="RequestTimeTooSkewed",
            ),
            get(
                by=with_keys(at=lambda: minutes_from_now(20)),
                status=403,
                code="RequestTimeTooSkewed",
            ),
        ],
        "ten minutes ago": [put(by=with_keys(at=lambda: minutes_from_now(-10))), get(text=TEXT)],
        "another header": [
            get(
                headers={"x-amz-meta-a": "1"},
                by=changed(lambda headers: {**headers, "x-amz-meta-a": "2"}),
                status=403,
                code="SignatureDoesNotMatch",
            )
        ],
        "without a date": [get(by=without("x-amz-date"), status=(400, 403))],
        "a header with blanks": [
            put(headers={"x-amz-meta-a": "  two   blanks  "}),
            head(has={"x-amz-meta-a": "two   blanks"}),
        ],
        "an Authorization that ends early": [
            get(
                by=changed(
                    lambda headers: {**headers, "Authorization": headers["Authorization"][:60]}
                ),
                status=(400, 403),
                code=("AuthorizationHeaderMalformed", "AccessDenied", "InvalidArgument"),
            )
        ],
        "a query in any order": [
            put(),
            get(query={"response-expires": LATER, "response-content-type": "a/b"}, by=signed),
        ],
        "a URL for GET": [put(), get(by=by_url(), text=TEXT)],
        "a URL for HEAD": [put(), head(by=by_url())],
        "a URL for PUT": [put("k", TEXT, by=by_url()), get(text=TEXT)],
        "a URL for DELETE": [put(), step("DELETE", "k", by=by_url(), status=204)],
        "a URL with a range": [
            put(),
            get(by=by_url(), headers={"Range": "bytes=1-2"}, status=206, text=b"12"),
        ],
        "a URL with another type": [
            put(),
            get(
                by=by_url(),
                query={"response-content-type": "text/x"},
                has={"Content-Type": "text/x"},
            ),
        ],
        "a URL for another method": [
            put(),
            head(by=by_url(method="GET"), **DENIED),
            step("DELETE", "k", by=by_url(method="GET"), **DENIED),
            get(text=TEXT),
        ],
        "a URL that has ended": [
            put(),
            get(by=by_url(minutes=-5), status=403, code="AccessDenied"),
        ],
        "a URL that is still good": [put(), get(by=by_url(minutes=-30, expires=3600), text=TEXT)],
        "a URL of the future": [
            put(),
            get(by=by_url(minutes=30), status=403, code=("AccessDenied", "RequestTimeTooSkewed")),
        ],
        "a URL for more than a week": [
            put(),
            get(by=by_url(expires=604_801), status=400, code="AuthorizationQueryParametersError"),
        ],
        "a URL with more in its query": [
            put(),
            get(
                by=by_url(suffix="&response-content-type=text/html"),
                status=403,
                code="SignatureDoesNotMatch",
            ),
        ],
    },
)
