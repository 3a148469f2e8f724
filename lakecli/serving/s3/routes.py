"""Requests of S3 and the operations that answer them.

The bucket is a repository, and the first segment of a key is a ref expression, so
``/sales/main/orders/1`` is the path ``orders/1`` on the branch ``main``. An operation that is not
in the tables is answered as not implemented.
"""

from __future__ import annotations

import os
import re
from inspect import iscoroutinefunction
from secrets import token_hex
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from lakecli.errors import LakeError
from lakecli.serving.s3 import buckets, listing, multipart, objects
from lakecli.serving.s3.call import BODILESS, Call, Operation, S3Answer
from lakecli.serving.s3.errors import S3Error, of_lake_error
from lakecli.serving.s3.signature import query_of, verify
from lakecli.serving.s3.xml import error_document

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from lakecli.serving.context import ServingContext

FAILED: Final = 400

_SUBRESOURCES: Final = frozenset(
    re.findall(
        r"[\w-]+",
        "accelerate acl analytics attributes cors delete encryption intelligent-tiering inventory "
        "legal-hold lifecycle list-type location logging metadataConfiguration metadataTable "
        "metrics notification object-lock ownershipControls partNumber policy policyStatus "
        "publicAccessBlock rename replication requestPayment restore retention select session "
        "tagging torrent uploadId uploads versionId versioning versions website",
    )
)
"""The parameters that name another operation than the method alone."""

_OF_SERVICE: Final[dict[tuple[str, str], Operation]] = {("GET", ""): buckets.list_buckets}

_OF_BUCKET: Final[dict[tuple[str, str], Operation]] = {
    ("HEAD", ""): buckets.head_bucket,
    ("PUT", ""): buckets.create_bucket,
    ("GET", "location"): buckets.get_location,
    ("GET", "versioning"): buckets.get_versioning,
    ("GET", "acl"): buckets.get_acl,
    ("GET", ""): listing.list_objects,
    ("GET", "list-type"): listing.list_objects,
    ("GET", "uploads"): multipart.list_uploads,
    ("POST", "delete"): objects.delete_objects,
}

_OF_OBJECT: Final[dict[tuple[str, str], Operation]] = {
    ("HEAD", ""): objects.get_object,
    ("GET", ""): objects.get_object,
    ("HEAD", "partNumber"): objects.get_object,
    ("GET", "partNumber"): objects.get_object,
    ("PUT", ""): objects.put_object,
    ("DELETE", ""): objects.delete_object,
    ("GET", "acl"): buckets.get_acl,
    ("GET", "tagging"): buckets.get_object_tagging,
    ("POST", "uploads"): multipart.create_upload,
    ("PUT", "partNumber&uploadId"): multipart.upload_part,
    ("POST", "uploadId"): multipart.complete_upload,
    ("DELETE", "uploadId"): multipart.abort_upload,
    ("GET", "uploadId"): multipart.list_parts,
}

_METHODS: Final = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE"})

_LOSSY: Final = (
    "x-amz-server-side-encryption-customer-algorithm",
    "x-amz-tagging",
    "x-amz-object-lock-mode",
    "x-amz-object-lock-legal-hold",
    "x-amz-website-redirect-location",
    "x-amz-write-offset-bytes",
)
"""Headers that ask for what is not kept; without them, a client could believe that it is."""


async def handle(request: Request, context: ServingContext) -> Response:
    """Answer a request that is signed, or should be."""
    request_id = token_hex(8).upper()
    call: Call | None = None
    answer: S3Answer
    try:
        call = _call_of(request, context)
        operation = _operation_of(call)
        if iscoroutinefunction(operation):
            answer = await operation(call)
        else:
            answer = await context.in_thread(operation, call)
    except LakeError as error:
        answer = _error_answer(of_lake_error(error), request, call, request_id)
    if call is not None and answer.status_code >= FAILED:
        await call.drain()
    answer.raw_headers.append((b"x-amz-request-id", request_id.encode()))
    return answer


def _call_of(request: Request, context: ServingContext) -> Call:
    scope = request.scope
    raw_path, raw_query = scope["raw_path"], scope["query_string"]
    signed = verify(
        scope["method"],
        raw_path,
        raw_query,
        scope["headers"],
        secret_of=context.access.secret_of,
        now=context.clock(),
    )
    bucket, _, key = unquote_to_bytes(raw_path)[1:].partition(b"/")
    return Call(
        request,
        context,
        signed,
        bucket=bucket.decode("utf-8", "surrogateescape"),
        key=key,
        query=dict(query_of(raw_query)) if raw_query else {},
        headers={
            name.decode("latin-1"): text.decode("latin-1").strip(" \t")
            for name, text in scope["headers"]
        },
    )


def _operation_of(call: Call) -> Operation:
    table = _OF_OBJECT if call.key else _OF_BUCKET if call.bucket else _OF_SERVICE
    method = call.request.method
    if method not in _METHODS:
        raise S3Error("MethodNotAllowed", f"S3 has no method {method}")
    named = sorted(_SUBRESOURCES.intersection(call.query)) if call.query else []
    if "versionId" in named:
        if call.query["versionId"] != "null":
            raise S3Error(
                "InvalidArgument", "objects have no version IDs: name a commit in place of a branch"
            )
        named.remove("versionId")
    operation = table.get((method, "&".join(named)))
    if operation is None:
        what = f"{method} ?{'&'.join(named)}" if named else method
        raise S3Error("NotImplemented", f"{what} of this resource is not implemented")
    if method in {"PUT", "POST"}:
        for name in _LOSSY:
            if name in call.headers:
                raise S3Error("NotImplemented", f"the header {name} is not implemented")
        if "x-amz-copy-source" in call.headers and method == "PUT":
            return multipart.copy_part if named else objects.copy_object
    return operation


def _error_answer(error: S3Error, request: Request, call: Call | None, request_id: str) -> S3Answer:
    more: dict[str, str] = {}
    if call is not None:
        key = os.fsdecode(call.key)
        more["Resource"] = f"/{call.bucket}/{key}" if key else f"/{call.bucket}"
        if error.code == "NoSuchKey" and key:
            more["Key"] = key
    document = error_document(error, **more, RequestId=request_id)
    if request.method == "HEAD" or error.status in BODILESS:
        return S3Answer(error.status, error.headers)
    return S3Answer(error.status, {"content-type": "application/xml", **error.headers}, document)
