"""Answers requests below ``/api/v1``: finds the operation, checks who asks, and calls the handler.

`OPERATIONS` are those that are answered. `refused` lists all others of lakeFS's document, which are
answered by 501.
"""

from __future__ import annotations

from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from lakecli.base.validation import Invalid
from lakecli.errors import LakeError, Refused
from lakecli.serving.access import COOKIE
from lakecli.serving.api import configuration, objects, refs, repositories, staging
from lakecli.serving.api.requests import (
    LARGEST_BODY,
    ApiCall,
    ApiError,
    ApiOperation,
    Remembered,
    json_response,
    of_lake_error,
    parameters_of,
)
from lakecli.serving.context import client_of, pieces_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from lakecli.serving.access import EndpointAccess
    from lakecli.serving.context import ServingContext
    from lakecli.serving.served import Served

BASE: Final = "/api/v1/"
HEALTH: Final = "/_health"

OPERATIONS: Final = (
    *configuration.OPERATIONS,
    *repositories.OPERATIONS,
    *refs.OPERATIONS,
    *objects.OPERATIONS,
    *staging.OPERATIONS,
)

_OPEN: Final = frozenset({"healthCheck", "getSetupState", "login"})
"""The operations that everybody may ask for."""

_HARMLESS: Final = _OPEN | {"postStatsEvents"}
"""The operations that change nothing, whatever their method."""

_READING: Final = frozenset({"GET", "HEAD"})


@lru_cache(maxsize=8)
def _remembered_for(served: Served) -> Remembered:
    del served
    return Remembered()


async def handle(request: Request, context: ServingContext) -> Response:
    """Answer a request."""
    try:
        return await _answer(request, context)
    except ApiError as error:
        return _refusal(error)
    except Invalid as error:
        return _refusal(ApiError(HTTPStatus.BAD_REQUEST, str(error)))
    except LakeError as error:
        return _refusal(of_lake_error(error))


def _refusal(error: ApiError) -> Response:
    return json_response({"message": error.message, **error.more}, error.status, error.headers)


async def _answer(request: Request, context: ServingContext) -> Response:
    raw = request.scope.get("raw_path") or request.url.path.encode()
    path = raw.decode("ascii", "replace")
    path = BASE + "healthcheck" if path == HEALTH else path
    segments = path.removeprefix(BASE).split("/")
    operation, parameters = _find(request.method, segments) if path.startswith(BASE) else (None, {})
    if operation is None or operation.name not in _OPEN:
        _check_access(request, context.access)
    if operation is None:
        message = f"lakecli serve has no {request.method} {path[:200]}"
        raise ApiError(HTTPStatus.NOT_IMPLEMENTED, message)
    changes = operation.method not in _READING and operation.name not in _HARMLESS
    if changes:
        try:
            context.served.check_writable(parameters.get("repository", ""))
        except Refused as error:
            raise ApiError(HTTPStatus.FORBIDDEN, error.message) from None
    body = pieces_of(request.stream()) if operation.is_raw else await _read(request)
    call = ApiCall(
        context,
        _remembered_for(context.served),
        client_of(request, "api"),
        operation.name,
        parameters,
        request.scope["query_string"].decode("ascii", "replace"),
        dict(request.headers),
        body,
    )
    found = await context.in_thread(operation.handler, call)
    if isinstance(found, Response):
        return found
    if found is None:
        return Response(status_code=operation.status)
    return json_response(found, operation.status)


def _find(method: str, segments: list[str]) -> tuple[ApiOperation | None, Mapping[str, str]]:
    for operation in OPERATIONS:
        if operation.method == method:
            parameters = parameters_of(segments, operation.path)
            if parameters is not None:
                return operation, parameters
    return None, {}


async def _read(request: Request) -> bytes:
    """Return the body of a request, unless it is too large."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > LARGEST_BODY:
            raise ApiError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body is too large")
    return bytes(body)


def _check_access(request: Request, access: EndpointAccess) -> None:
    """Refuse a request without the key pair, or a token of `login`.

    The cookie of a browser's session allows reading only, so that no other page can write with it.
    """
    authorization = request.headers.get("authorization", "")
    scheme, _, token = authorization.partition(" ")
    if access.allows_basic(authorization):
        return
    if scheme.lower() == "bearer" and access.allows_session(token.strip()):
        return
    if request.method in _READING and access.allows_session(request.cookies.get(COOKIE)):
        return
    raise ApiError(
        HTTPStatus.UNAUTHORIZED,
        "error authenticating request",
        {"WWW-Authenticate": 'Basic realm="lakecli"'},
    )
