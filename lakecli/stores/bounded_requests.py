"""Limits for responses that the SDKs receive through the package `requests`.

`requests` reads a whole response, however long it is and however long it takes, and follows
redirects to any host. This module raises an error for every redirect, and for a body that is longer
than requested or too slow. An upload may only continue on the server on which it began.
"""

from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3 import PoolManager

from lakecli.stores import responses
from lakecli.stores.answer_limits import CONNECTIONS, AnswerLimits, bounded_pools
from lakecli.stores.presigned_urls import PORTS

_RANGES: Final = ("x-ms-range", "range")


def bound_answers(
    session: requests.Session,
    server_date: responses.ServerDate,
    check: Callable[..., None],
    limits: AnswerLimits,
) -> None:
    """Make a session send its requests through `BoundedAdapter`.

    Args:
        check: a response hook that raises an error if a response does not match its request.
    """
    session.hooks["response"] += [server_date.hook, check]
    for scheme in ("https://", "http://"):
        adapter: Any = session.get_adapter(scheme)
        if type(adapter) is HTTPAdapter:
            session.mount(scheme, BoundedAdapter(limits))
        else:  # the SDK's own adapter, with a client certificate
            _bound(adapter.poolmanager, limits)


def session_for_login(limits: AnswerLimits) -> requests.Session:
    """Return a session for requests to login servers, which issue credentials."""
    session = requests.Session()
    for scheme in ("https://", "http://"):
        session.mount(scheme, BoundedAdapter(limits))
    return session


def _bound(connections: PoolManager, limits: AnswerLimits) -> None:
    kinds = connections.pool_classes_by_scheme
    connections.pool_classes_by_scheme = bounded_pools(kinds, limits)


class _BoundedBody:
    """A response body of limited length that forwards all other attributes to `raw`.

    Args:
        error: a function that returns the error for a longer body; ``None``: truncate the body.
    """

    def __init__(self, raw: Any, limit: int, error: Callable[[], Exception] | None) -> None:  # noqa: ANN401 - urllib3's
        self._raw = raw
        self._left = limit
        self._error = error

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - urllib3's
        return getattr(self._raw, name)

    def stream(self, amt: int = 1 << 16, **options: Any) -> Iterator[bytes]:  # noqa: ANN401 - urllib3's
        """Yield the pieces of the body, decoded if requested."""
        for piece in self._raw.stream(amt, **options):
            self._left -= len(piece)
            if self._left >= 0:
                yield piece
                continue
            self._raw.close()
            if self._error is not None:
                raise self._error()
            return

    def read(self, *_: object, **__: object) -> bytes:
        """Raise an error, because only `stream` counts the bytes that it reads."""
        raise responses.UnusableAnswerError("it is read without a bound")


class BoundedAdapter(HTTPAdapter):
    """An adapter of `requests` that limits the size and the duration of responses."""

    def __init__(self, limits: AnswerLimits) -> None:
        super().__init__(pool_maxsize=CONNECTIONS)
        self._limits = limits
        _bound(self.poolmanager, limits)

    def proxy_manager_for(self, proxy: str, **options: Any) -> PoolManager:  # noqa: ANN401 - inherited
        """Return the pools of connections through a proxy."""
        is_known = proxy in self.proxy_manager
        manager: PoolManager = super().proxy_manager_for(proxy, **options)
        if not is_known:
            _bound(manager, self._limits)
        return manager

    def send(  # type: ignore[override] # further arguments are passed on as they are
        self,
        request: requests.PreparedRequest,
        stream: bool = False,  # noqa: FBT001, FBT002 - inherited
        **options: Any,  # noqa: ANN401 - inherited
    ) -> requests.Response:
        """Send a request.

        Args:
            stream: whether the response body is the content of an object; its size limit is then
                that of the requested range.

        Raises:
            UnusableAnswerError: the response is a redirect, is not the requested part of the
                object, or directs an upload to another server.
            RangeIgnoredError: the response is the whole object instead of the requested part.
        """
        answer = super().send(request, stream=stream, **options)
        try:
            _check_location(answer, str(request.url))
            limit, error = _limit_of(answer, request, is_object=stream)
        except BaseException:
            answer.close()
            raise
        if limit is not None:
            answer.raw = _BoundedBody(answer.raw, limit, error)
        return answer


def _limit_of(
    answer: requests.Response, request: requests.PreparedRequest, *, is_object: bool
) -> tuple[int | None, Callable[[], Exception] | None]:
    """Return the size limit of a response, and a function that returns the error for a longer one.

    Without a function, a longer response is truncated. Without a limit, any size is accepted.
    """
    if answer.status_code >= HTTPStatus.MULTIPLE_CHOICES:
        return responses.MAX_REFUSAL, None
    if not is_object:
        return responses.MAX_ANSWER, lambda: responses.UnusableAnswerError(
            f"it has more than {responses.MAX_ANSWER:,} bytes"
        )
    asked = next((str(request.headers[name]) for name in _RANGES if name in request.headers), "")
    if not asked or request.method != "GET":
        return None, None
    if answer.status_code == HTTPStatus.PARTIAL_CONTENT:
        size = responses.size_of_part(asked, answer.headers.get("Content-Range", ""))
        if answer.headers.get("Content-Length", str(size)) != str(size):
            raise responses.UnusableAnswerError("its length is not that of the part")
        return size, lambda: responses.UnusableAnswerError("it has more bytes than were asked for")
    if not asked.startswith("bytes=0-") and answer.headers.get("Content-Length") != "0":
        raise responses.RangeIgnoredError
    return responses.longest_part(asked), responses.RangeIgnoredError


def _check_location(answer: requests.Response, url: str) -> None:
    location = answer.headers.get("Location")
    if location is None:
        return
    if answer.is_redirect:
        raise responses.UnusableAnswerError(f"it is a redirect ({answer.status_code})")
    if _origin_of(location) != _origin_of(url):
        raise responses.UnusableAnswerError("it sends an upload to another server")


def _origin_of(url: str) -> tuple[str, str, int | None]:
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname or "", parts.port or PORTS.get(parts.scheme)
    except ValueError:
        return "", "", None
