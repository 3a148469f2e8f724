"""The ASGI application: refuses cross-site requests, and passes other requests to a surface.

A surface is one of the three packages that handle requests: `s3`, `api` and `page`.

A page of another site may make a browser send requests here, under a name that resolves to this
machine (DNS rebinding) or with a session cookie. So the ``Host`` header must be a name of this
endpoint, and a request from another site that may change something is refused. Other requests go to

- `s3` if they have an AWS signature;
- `api` if their path is below ``/api/v1`` or is ``/_health``;
- `page` if their path is ``/`` or below ``/-/``.

Every other request gets S3's error for unsigned requests.
"""

from collections.abc import Awaitable, Callable
from functools import cache
from importlib import import_module
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from lakecli.serving.context import ServingContext

Handle = Callable[[Request, ServingContext], Awaitable[Response]]
"""A function that handles the requests for one surface."""

_API: Final = "/api/v1"
_HEALTH: Final = "/_health"
_PAGES: Final = "/-/"

_SIGNED: Final = ("x-amz-algorithm=", "x-amz-signature=", "awsaccesskeyid=", "x-amz-credential=")
"""Prefixes of query parameters, in lower case, that occur only in URLs with an AWS signature."""

_FAILED: Final = 400
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_SAME_SITE: Final = frozenset({"same-origin", "none"})


def make_app(context: ServingContext, *, report: Callable[[BaseException], None]) -> ASGIApp:
    """Return the ASGI application, which handles requests with the objects of a context.

    Args:
        report: called with each error that no response describes: a bug in the endpoint, or an
            object found to be damaged while it was being sent.
    """

    async def respond(request: Request) -> Response:
        if not is_own_host(request.headers.getlist("host"), context.options.hosts):
            return PlainTextResponse("This endpoint has another name.\n", 403)
        if is_signed(request):
            return await handler_of("s3")(request, context)
        if is_from_elsewhere(request):
            return PlainTextResponse("Another site has sent this request.\n", 403)
        return await handler_of(surface_of(request))(request, context)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await respond(request)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - the endpoint goes on
            report(error)
            response = PlainTextResponse("Internal error\n", 500, {"connection": "close"})
        if response.status_code >= _FAILED and "expect" in request.headers:
            # The client does not send a body that was not asked for, but its next request.
            response.headers["connection"] = "close"
        try:
            await response(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - such as damage; the body stays incomplete
            report(error)

    return app


@cache
def handler_of(surface: str) -> Handle:
    """Return the handler of a surface; the first request for the surface imports its module."""
    handle: Handle = import_module(f"lakecli.serving.{surface}.routes").handle
    return handle


def is_own_host(hosts: list[str], names: frozenset[str]) -> bool:
    """Return whether a request has one ``Host`` header, with a name of this endpoint.

    Args:
        hosts: the values of all ``Host`` headers of the request.
        names: the names of the endpoint; if empty, every name is accepted.
    """
    if len(hosts) != 1:
        return False
    if not names:
        return True
    host, _, port = hosts[0].rpartition(":")
    if not host or not port.isdecimal():
        host = hosts[0]
    return host.lower().strip("[]").rstrip(".") in names


def is_signed(request: Request) -> bool:
    """Return whether a request has an S3 signature, valid or not, in a header or in its query."""
    scheme = request.headers.get("authorization", "").partition(" ")[0]
    if scheme.startswith("AWS"):
        return True
    query = request.scope["query_string"].decode("latin-1").lower()
    return any(part.startswith(_SIGNED) for part in query.split("&"))


def surface_of(request: Request) -> str:
    """Return the name of the surface for an unsigned request."""
    path: str = request.scope["path"]
    if path.startswith(f"{_API}/") or path in {_API, _HEALTH}:
        return "api"
    return "page" if path == "/" or path.startswith(_PAGES) else "s3"


def is_from_elsewhere(request: Request) -> bool:
    """Return whether a page of another site made a browser send a request that is not read-only.

    Links from other sites may be followed: browsers do not send a session cookie with them.
    """
    if request.method in _SAFE:
        return False
    origin = request.headers.get("origin")
    own = f"{request.scope['scheme']}://{request.headers['host']}"
    site = request.headers.get("sec-fetch-site", "none")
    return origin not in {None, own} or site not in _SAME_SITE
