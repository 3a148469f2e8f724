"""Which requests an endpoint takes, and which surface answers them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response

from lakecli.serving import app as serving
from lakecli.serving.app import is_own_host, make_app
from lakecli.serving.context import Options, ServingContext, client_of

Headers = Sequence[tuple[str, str]]
HOST = ("host", "127.0.0.1:8000")


class Surfaces:
    """Surfaces that say which they are."""

    def __init__(self) -> None:
        self.error: BaseException | None = None

    def __call__(self, surface: str) -> Any:
        async def handle(_request: Request, _context: ServingContext) -> Response:
            if self.error is not None:
                raise self.error
            return PlainTextResponse(surface)

        return handle


@pytest.fixture
def surfaces(monkeypatch: pytest.MonkeyPatch) -> Surfaces:
    found = Surfaces()
    monkeypatch.setattr(serving, "handler_of", found)
    return found


def ask(
    method: str, path: str, headers: Headers = (), query: str = "", reported: Any = None
) -> tuple[int, str]:
    """Send a request to the application; return the status and the body."""
    names = frozenset({"127.0.0.1", "localhost", "::1"})
    options = Options(url="http://127.0.0.1:8000", hosts=names)
    context = cast("Any", ServingContext)(None, None, None, options, None)
    app = make_app(context, report=(reported if reported is not None else []).append)
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {
        "type": "http",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), text.encode()) for name, text in headers],
    }
    asyncio.run(cast("Any", app)(scope, receive, send))
    if not sent:
        return 0, ""
    body = b"".join(each.get("body", b"") for each in sent[1:])
    return sent[0]["status"], body.decode()


@pytest.mark.parametrize(
    ("path", "query", "headers", "surface"),
    [
        ("/", "", (), "page"),
        ("/-/", "", (), "page"),
        ("/-/static/style.css", "", (), "page"),
        ("/api/v1/repositories", "", (), "api"),
        ("/api/v1", "", (), "api"),
        ("/_health", "", (), "api"),
        ("/sales/main/x", "", (), "s3"),
        ("/api/v2", "", (), "s3"),
        ("/-", "", (), "s3"),
        ("/", "", (("authorization", "AWS4-HMAC-SHA256 Credential=x"),), "s3"),
        ("/api/v1/x", "", (("authorization", "AWS4-HMAC-SHA256 Credential=x"),), "s3"),
        ("/", "", (("authorization", "AWS KEY:x"),), "s3"),
        ("/api/v1/x", "", (("authorization", "Basic eDp5"),), "api"),
        ("/-/x", "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=00", (), "s3"),
        ("/-/x", "a=b&X-Amz-Signature=00", (), "s3"),
        ("/-/x", "AWSAccessKeyId=x&Signature=y", (), "s3"),
        ("/-/x", "a=x-amz-signature=", (), "page"),
    ],
)
def test_each_request_reaches_its_surface(
    surfaces: Surfaces, path: str, query: str, headers: Headers, surface: str
) -> None:
    assert surfaces.error is None
    assert ask("GET", path, [HOST, *headers], query) == (200, surface)


@pytest.mark.parametrize(
    "hosts",
    [["127.0.0.1"], ["127.0.0.1:8000"], ["LOCALHOST:9"], ["localhost."], ["[::1]:8000"], ["[::1]"]],
)
def test_a_request_names_the_endpoint(surfaces: Surfaces, hosts: list[str]) -> None:
    assert ask("GET", "/x/y", [("host", each) for each in hosts])[0] == 200
    assert surfaces.error is None


@pytest.mark.parametrize(
    "hosts",
    [
        [],
        [""],
        ["evil.example"],
        ["evil.example:8000"],
        ["127.0.0.1.evil.example"],
        ["localhost.evil.example:8000"],
        ["127.0.0.1", "evil.example"],
        ["127.0.0.1@evil.example"],
        ["0.0.0.0:8000"],
    ],
)
def test_a_request_under_another_name_is_refused(surfaces: Surfaces, hosts: list[str]) -> None:
    """A site whose name resolves to this machine cannot use a browser to connect here."""
    signed = ("authorization", "AWS4-HMAC-SHA256 Credential=x")
    for more in ((), (signed,)):
        status, _ = ask("GET", "/x/y", [*(("host", each) for each in hosts), *more])
        assert status == 403
    assert surfaces.error is None


def test_an_endpoint_for_all_addresses_takes_every_name() -> None:
    assert is_own_host(["lake.example"], frozenset())
    assert not is_own_host([], frozenset())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ((), 200),
        ((("origin", "http://127.0.0.1:8000"),), 200),
        ((("origin", "https://127.0.0.1:8000"),), 403),
        ((("origin", "http://127.0.0.1:9000"),), 403),
        ((("origin", "null"),), 403),
        ((("origin", "https://evil.example"),), 403),
        ((("sec-fetch-site", "cross-site"),), 403),
        ((("sec-fetch-site", "same-site"),), 403),
        ((("sec-fetch-site", "same-origin"),), 200),
        ((("sec-fetch-site", "none"),), 200),
    ],
)
def test_a_page_of_another_site_changes_nothing(
    surfaces: Surfaces, headers: Headers, status: int
) -> None:
    for path in ("/api/v1/repositories", "/", "/-/x"):
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert ask(method, path, [HOST, *headers])[0] == status
        assert ask("GET", path, [HOST, *headers])[0] == 200
    assert surfaces.error is None


def test_a_mistake_is_reported_and_tells_the_client_nothing(surfaces: Surfaces) -> None:
    surfaces.error = ZeroDivisionError("secret")
    reported: list[BaseException] = []
    assert ask("GET", "/", [HOST], reported=reported) == (500, "Internal error\n")
    assert reported == [surfaces.error]


def test_a_client_that_goes_away_is_no_mistake(surfaces: Surfaces) -> None:
    surfaces.error = ClientDisconnect()
    reported: list[BaseException] = []
    assert ask("GET", "/", [HOST], reported=reported) == (0, "")
    assert reported == []


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("aws-cli/2.15 md/awscrt", "aws-cli"),
        ("Boto3/1.40 ua/2", "Boto3"),
        ("rclone/v1.70", "rclone"),
        ("", "unknown"),
        ("/", "unknown"),
        ("x\x1b[31m y", "x31m"),
        ("Ünïcode/1", "ncode"),
        ("a" * 100, "a" * 40),
        ("'; rm -rf`$(x)`", "unknown"),
    ],
)
def test_a_client_has_a_plain_short_name(agent: str, name: str) -> None:
    headers = [(b"user-agent", agent.encode("latin-1"))]
    request = Request({"type": "http", "headers": headers})
    assert client_of(request, "s3") == ("s3", name)
