"""Finds the operation of an S3 request, and shows repositories as buckets.

A bucket is a repository, and the first segment of a key is a ref expression. So
``/sales/main/orders/1`` is the path ``orders/1`` on the branch ``main`` of the repository
``sales``. A request for an operation that is not in the table gets the error NotImplemented.
"""

import os
import re
from functools import partial
from random import getrandbits
from typing import Final
from urllib.parse import unquote_to_bytes

from starlette.requests import Request
from starlette.responses import Response

from lakecli.errors import LakeError
from lakecli.serving.clients import REGION
from lakecli.serving.context import ServingContext
from lakecli.serving.reading import query_of
from lakecli.serving.s3 import listing, multipart, objects, xml
from lakecli.serving.s3.call import Call, Operation, xml_response
from lakecli.serving.s3.errors import NOT_MODIFIED, S3Error, of_lake_error
from lakecli.serving.s3.signature import verify

_SUBRESOURCES: Final = frozenset(
    re.findall(
        r"[\w-]+",
        "accelerate acl analytics attributes cors delete encryption intelligent-tiering inventory "
        "legal-hold lifecycle location logging metadataConfiguration metadataTable "
        "metrics notification object-lock ownershipControls partNumber policy policyStatus "
        "publicAccessBlock rename replication requestPayment restore retention select session "
        "tagging torrent uploadId uploads versionId versioning versions website",
    )
)
"""The query parameters that, together with the method, select the operation."""

_GRANTEE: Final = (
    '<Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="CanonicalUser">'
    f"{xml.OWNER}</Grantee><Permission>FULL_CONTROL</Permission>"
)
_GRANTS: Final = xml.elements(Grant=xml.Markup(_GRANTEE))


def list_buckets(call: Call) -> Response:
    """Answer ListBuckets with the served repositories, ordered by name."""
    found = [
        xml.elements(Name=record.name, CreationDate=objects.iso_date(record.created_at))
        for record in call.context.served.records()
        if record.name.startswith(call.query.get("prefix", ""))
    ]
    buckets = xml.elements(Bucket=found)
    return xml_response("ListAllMyBucketsResult", Owner=xml.OWNER, Buckets=buckets)


def head_bucket(call: Call) -> Response:
    """Answer HeadBucket with the region; raise NoSuchBucket if the repository is not served."""
    call.check_bucket()
    return Response(headers={"x-amz-bucket-region": REGION})


def create_bucket(call: Call) -> Response:
    """Answer CreateBucket with an error: only `lakecli repo create` creates a repository."""
    if call.bucket in call.context.served.names():
        raise S3Error("BucketAlreadyOwnedByYou", f"the repository {call.bucket!r} exists already")
    raise S3Error("NotImplemented", "create the repository: `lakecli repo create`")


def get_fixed(call: Call, root: str, **named: str | xml.Markup) -> Response:
    """Answer with a fixed document, if the object or bucket exists.

    An empty document means for GetBucketLocation the region `REGION`; for GetBucketVersioning that
    versioning was never enabled, because commits take the place of versions.
    """
    if call.key:
        objects.find_entry(call, call.bucket, call.key)
    call.check_bucket()
    return xml_response(root, **named)


_get_acl: Final = partial(
    get_fixed, root="AccessControlPolicy", Owner=xml.OWNER, AccessControlList=_GRANTS
)

_OPERATIONS: Final[dict[str, Operation]] = {
    "GET /": list_buckets,
    "HEAD /bucket": head_bucket,
    "PUT /bucket": create_bucket,
    "GET /bucket?location": partial(get_fixed, root="LocationConstraint"),
    "GET /bucket?versioning": partial(get_fixed, root="VersioningConfiguration"),
    "GET /bucket?acl": _get_acl,
    "GET /bucket": listing.list_objects,
    "GET /bucket?uploads": multipart.list_uploads,
    "POST /bucket?delete": objects.delete_objects,
    "HEAD /bucket/key": objects.get_object,
    "GET /bucket/key": objects.get_object,
    "HEAD /bucket/key?partNumber": objects.get_object,
    "GET /bucket/key?partNumber": objects.get_object,
    "PUT /bucket/key": objects.put_object,
    "DELETE /bucket/key": objects.delete_object,
    "GET /bucket/key?acl": _get_acl,
    "GET /bucket/key?tagging": partial(get_fixed, root="Tagging", TagSet=""),
    "POST /bucket/key?uploads": multipart.create_upload,
    "PUT /bucket/key?partNumber&uploadId": multipart.upload_part,
    "POST /bucket/key?uploadId": multipart.complete_upload,
    "DELETE /bucket/key?uploadId": multipart.abort_upload,
    "GET /bucket/key?uploadId": multipart.list_parts,
}
"""The operations by method, resource and the parameters in `_SUBRESOURCES`, in their order."""

_SLOW: Final = frozenset({objects.copy_object, multipart.complete_upload})
"""Operations that may copy all data of an object."""

_METHODS: Final = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE"})

_LOSSY: Final = (
    "x-amz-server-side-encryption-customer-algorithm",
    "x-amz-tagging",
    "x-amz-object-lock-mode",
    "x-amz-object-lock-legal-hold",
    "x-amz-website-redirect-location",
    "x-amz-write-offset-bytes",
)
"""Headers that request unsupported properties of an object.

Requests with them are refused: if they were ignored, a client would rely on the property.
"""


async def handle(request: Request, context: ServingContext) -> Response:
    """Answer an S3 request; an unsigned one gets an error."""
    request_id = f"{getrandbits(64):016X}"
    try:
        call = _call_of(request, context)
        operation = _operation_of(call)
        response = await call.answer(operation, is_slow=operation in _SLOW)
    except LakeError as error:
        response = _error_response(of_lake_error(error), request, request_id)
    response.raw_headers.append((b"x-amz-request-id", request_id.encode()))
    return response


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
        headers={name: text.strip(" \t") for name, text in request.headers.items()},
    )


def _operation_of(call: Call) -> Operation:
    method = call.request.method
    if method not in _METHODS:
        raise S3Error("MethodNotAllowed", f"S3 has no method {method}")
    named = sorted(_SUBRESOURCES.intersection(call.query)) if call.query else []
    if "versionId" in named:
        raise S3Error("InvalidArgument", "objects have no version IDs: name a commit as the branch")
    resource = "/bucket/key" if call.key else "/bucket" if call.bucket else "/"
    wanted = f"{method} {resource}?{'&'.join(named)}".removesuffix("?")
    operation = _OPERATIONS.get(wanted)
    if operation is None:
        raise S3Error("NotImplemented", f"{wanted} is not implemented")
    if method in {"PUT", "POST"}:
        for name in _LOSSY:
            if name in call.headers:
                raise S3Error("NotImplemented", f"the header {name} is not implemented")
        if "x-amz-copy-source" in call.headers and method == "PUT":
            return multipart.copy_part if named else objects.copy_object
    return operation


def _error_response(error: S3Error, request: Request, request_id: str) -> Response:
    more = {"Resource": os.fsdecode(unquote_to_bytes(request.scope["raw_path"]))}
    if error.code == "NoSuchKey":
        more["Key"] = more["Resource"][1:].partition("/")[2]
    document = xml.error_document(error, **more, RequestId=request_id)
    if request.method == "HEAD" or error.status == NOT_MODIFIED:
        return Response(None, error.status, error.headers)
    return Response(document, error.status, error.headers, "application/xml")
