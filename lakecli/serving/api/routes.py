"""Handles requests below ``/api/v1``: finds the operation, checks access, and calls its handler.

`OPERATIONS` lists the supported operations; any other request gets the status 501.
"""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from lakecli.base.validation import Invalid
from lakecli.errors import LakeError, Refused
from lakecli.serving.access import COOKIE, EndpointAccess
from lakecli.serving.api import configuration, objects, refs, repositories, requests, tasks
from lakecli.serving.api.requests import READING, ApiCall, ApiOperation, json_response
from lakecli.serving.context import ServingContext, client_of, pieces_of

BASE: Final = "/api/v1"
HEALTH: Final = "/_health"

_MODULES: Final = (configuration, repositories, refs, objects, tasks)
OPERATIONS: Final[list[ApiOperation]] = [each for one in _MODULES for each in one.OPERATIONS]

_PATHS: Final = [
    (each, re.compile(BASE + re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", each.path)))
    for each in OPERATIONS
]

_OPEN: Final = frozenset({"healthCheck", "getSetupState"})
"""The operations that need no credentials."""


async def handle(request: Request, context: ServingContext) -> Response:
    """Return the response to a request below ``/api/v1``, or for ``/_health``."""
    try:
        return await _answer(request, context)
    except (HTTPException, Invalid, LakeError) as error:
        told = error if isinstance(error, HTTPException) else requests.of_lake_error(error)
        return json_response({"message": told.detail}, told.status_code, told.headers)


async def _answer(request: Request, context: ServingContext) -> Response:
    raw = request.scope.get("raw_path") or request.url.path.encode()
    path = raw.decode("ascii", "replace")
    path = BASE + "/healthcheck" if path == HEALTH else path
    operation, parameters = _find(request.method, path)
    if operation is None or operation.name not in _OPEN:
        _check_access(request, context.access)
    if operation is None:
        raise HTTPException(501, f"lakecli serve has no {request.method} {path[:200]}")
    if operation.method not in READING and "repository" in parameters:
        try:
            context.served.check_writable(parameters["repository"])
        except Refused as error:
            raise HTTPException(403, error.message) from None
    body = pieces_of(request.stream()) if operation.is_raw else await _read(request)
    call = ApiCall(context, request, client_of(request, "api"), operation.name, parameters, body)
    # A raw body is read in the thread, which waits for the client.
    found = await context.in_thread(operation.answer, call, is_slow=operation.is_raw)
    if isinstance(found, Response):
        return found
    if found is None or operation.status == requests.NO_CONTENT:
        return Response(status_code=operation.status)
    return json_response(found, operation.status)


def _find(method: str, path: str) -> tuple[ApiOperation | None, Mapping[str, str]]:
    """Return the operation for a percent-encoded path, and the decoded parameters of the path."""
    for operation, pattern in _PATHS:
        if operation.method == method and (found := pattern.fullmatch(path)):
            parts = found.groupdict().items()
            return operation, {
                name: unquote(part, errors="surrogateescape") for name, part in parts
            }
    return None, {}


async def _read(request: Request) -> bytes:
    """Return the body of a request.

    Raises:
        HTTPException: the body has more than `LARGEST_BODY` bytes.
    """
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > requests.LARGEST_BODY:
            raise HTTPException(413, "the body is too large")
    return bytes(body)


def _check_access(request: Request, access: EndpointAccess) -> None:
    """Refuse a request with neither the key pair nor the cookie of a browser session.

    The cookie allows only reading, so that a page of another site cannot write with it.
    """
    session = request.cookies.get(COOKIE) if request.method in READING else None
    authorization = request.headers.get("authorization", "")
    if not (access.allows_basic(authorization) or access.allows_session(session)):
        authenticate = {"WWW-Authenticate": 'Basic realm="lakecli"'}
        raise HTTPException(401, "error authenticating request", authenticate)
