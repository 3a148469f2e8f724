"""Handles requests for pages: checks access, picks the page, and shows errors as pages.

A browser begins with the link that `lakecli serve` prints. In exchange for the token in the link it
gets a session cookie. The response is a page with a link, not a redirect: a browser
counts a redirect as a request from the site where the link was clicked, and sends no cookie with
it.
"""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from html import escape
from pathlib import Path
from re import split
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response

from lakecli.base.visibility import escape_hidden
from lakecli.errors import LakeError
from lakecli.repository.handoff.links import readable
from lakecli.repository.handoff.page import shown_size, utc
from lakecli.serving.access import COOKIE
from lakecli.serving.context import ServingContext
from lakecli.serving.page import views
from lakecli.serving.page.asked import ROOT, Asked, command, contents, link
from lakecli.serving.reading import query_of
from lakecli.serving.statuses import status_of

_MOST_PARAMETERS: Final = 16
_HERE: Final = Path(__file__).parent
_FILES: Final = {"style.css": "text/css", "icon.svg": "image/svg+xml"}
POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


async def handle(request: Request, context: ServingContext) -> Response:
    """Return the response to a request from a browser."""
    path = request.url.path
    if request.method not in {"GET", "HEAD"}:
        return _error(405, "pages are only read", None, Allow="GET, HEAD")
    if (file := path.removeprefix(ROOT)) in _FILES:
        headers = _HEADERS | {"Cache-Control": "private, max-age=300"}
        return FileResponse(_HERE / file, headers=headers, media_type=_FILES[file])
    if not path.startswith(ROOT):
        return RedirectResponse(str(request.url.replace(path=ROOT)), 303, _HEADERS)
    try:
        query = dict(query_of(request.scope["query_string"], most=_MOST_PARAMETERS))
        if (instead := _before_entry(request, context, query)) is not None:
            return instead
        name, _, verb = path.removeprefix(ROOT).partition("/")
        asked = Asked(context.served, name, query)
        return await context.in_thread(lambda: _page(*views.page(asked, verb)))
    except LakeError as error:
        return _error(status_of(error), error.message, error.hint)


def _before_entry(
    request: Request, context: ServingContext, query: Mapping[str, str]
) -> Response | None:
    """Return the response to a browser that must log in first or has a token in its address.

    ``None`` means that the browser has a session, so the page can be shown.
    """
    if context.access.allows_session(request.cookies.get(COOKIE)):
        return RedirectResponse(request.url.path, 303, _HEADERS) if "token" in query else None
    token = query.get("token", "") if request.method == "GET" else ""
    session = context.access.begin_session(token)
    if session is None:
        what = "this link was used already, or is another run's"
        message = what if token else "these pages need the link that the endpoint printed"
        return _error(403, message, "a link works once; for another one: `serve --open`")
    response = _page("begin", {"title": "Welcome", "to": request.url.path})
    is_secure = context.options.url.startswith("https:")
    response.set_cookie(COOKIE, session, httponly=True, samesite="strict", secure=is_secure)
    return response


def _error(status: int, message: str, hint: str | None, **headers: str) -> Response:
    title = {403: "No entry", 404: "Not found"}.get(status, "That did not work")
    values = {"title": title, "message": message, "hint": hint, "status": status}
    response = _page("error", values, status)
    response.headers.update(headers)
    return response


def _page(template: str, values: Mapping[str, object], status: int = 200) -> Response:
    found = _templates().get_template(f"{template}.html")
    text = found.render({"name": "", "template": template, **values})
    body = text.encode("utf-8", "replace")
    return Response(body, status, _HEADERS, media_type="text/html; charset=utf-8")


@cache
def _templates() -> Environment:
    """Return the templates with their filters and functions."""
    found = Environment(
        loader=FileSystemLoader(_HERE / "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    found.filters |= {"name": _name, "plain": _plain, "hint": _hint, "time": _time}
    found.filters["size"] = shown_size
    found.globals |= {"link": link, "contents": contents, "command": command}
    return found


def _name(value: bytes | str) -> Markup:
    """Return a name from a repository in a ``<bdi>``, which isolates its direction of writing."""
    text = readable(value if isinstance(value, bytes) else os.fsencode(value))
    if text != text.strip():  # a link with blank text could not be seen or clicked
        text = text.replace(" ", "\\x20")
    return Markup(f"<bdi>{escape(text)}</bdi>")  # noqa: S704 - escaped


def _plain(text: str) -> str:
    """Return a text with invisible characters escaped, except line breaks and tabs."""
    return escape_hidden(text.replace("\r\n", "\n"), _visible)


def _visible(each: str) -> str:
    return each if each in "\n\t" else each.encode("unicode_escape").decode("ascii")


def _hint(text: str) -> Markup:
    """Return a hint as HTML; text in backquotes becomes code, and a verb a `lakecli` command."""
    parts = [escape(_plain(part)) for part in split("`", text)]
    for at in range(1, len(parts), 2):
        is_call = parts[at][:1].isalpha() and "=" not in parts[at].partition(" ")[0]
        parts[at] = f"<code>{'lakecli ' * is_call}{parts[at]}</code>"
    return Markup("".join(parts))  # noqa: S704 - escaped


def _time(when: datetime) -> Markup:
    there = when.astimezone(UTC)
    return Markup(f'<time datetime="{there:%Y-%m-%dT%H:%M:%SZ}">{utc(there)}</time>')  # noqa: S704
