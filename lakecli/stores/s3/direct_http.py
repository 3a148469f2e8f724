"""Sends direct requests by `urllib3`: once, without redirects, and with a bound for each answer."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import certifi
import urllib3
from urllib3.exceptions import HTTPError
from urllib3.util.ssl_ import create_urllib3_context

from lakecli.stores.proxies import open_connections, proxy_of
from lakecli.stores.responses import MAX_REFUSAL

CONNECT_TIMEOUT: Final = 10
READ_TIMEOUT: Final = 60
"""Seconds without a sign of life, after which a request has failed."""

CONNECTIONS: Final = 32
"""In a client's pool: more threads than that wait for each other."""

_PIECE: Final = 256 << 10
"""Bytes of a body that are sent at a time: each has the time limit for itself."""

_ONCE: Final = urllib3.Retry(total=False)


class HttpResponse(NamedTuple):
    """An answer that was read whole.

    Attributes:
        status: of HTTP.
        headers: found by names in any case; repeated ones are joined by a comma.
        body: as it was sent.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


class DirectHttp:
    """Sends requests to one server; safe to share between threads.

    Args:
        server: its URL, without a path.
        ca_bundle: the file with the certificates to trust, or ``None`` for those that the SDK
            brings along.

    Raises:
        OSError: the certificates cannot be read.
        ValueError: `urllib3` does not understand the URL of the server, or that of its proxy.
    """

    def __init__(self, server: str, ca_bundle: str | None) -> None:
        self._server = server
        self._proxy = proxy_of(server)
        self._context: ssl.SSLContext | None = None
        if "https" in {urlsplit(server).scheme, urlsplit(self._proxy).scheme}:
            self._context = create_urllib3_context(cert_reqs=ssl.CERT_REQUIRED)
            self._context.load_verify_locations(ca_bundle or certifi.where())
        self._start = server if self._proxy and server.startswith("http:") else ""
        self._process = os.getpid()
        self._pool = self._open_pool()

    def _open_pool(self) -> urllib3.HTTPConnectionPool:
        return open_connections(
            self._proxy,
            self._context,
            timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT, read=READ_TIMEOUT),
            maxsize=CONNECTIONS,
            block=True,
        ).connection_from_url(self._server)

    def send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        limit: int | None = None,
    ) -> HttpResponse | None:
        """Send a request, and read the answer.

        Args:
            method: of HTTP.
            target: path and query, percent-encoded.
            headers: of the request, with the host; the length of the body is added.
            body: of the request.
            limit: bytes in the body of a success, at most; ``None`` for an object of any size.

        Returns:
            ``None`` if there is no connection, or it broke, or if the answer is too long or does
            not say where it ends.
        """
        if self._process != os.getpid():  # a fork shares its parent's connections
            self._pool, self._process = self._open_pool(), os.getpid()
        pieces = None
        if body:
            headers = {**headers, "Content-Length": str(len(body))}
            pieces = (body[start : start + _PIECE] for start in range(0, len(body), _PIECE))
        try:
            response = self._pool.urlopen(
                method,
                self._start + target,
                pieces,
                headers,
                retries=_ONCE,
                redirect=False,
                assert_same_host=False,
                preload_content=False,
                decode_content=False,
            )
            try:
                if response.status >= HTTPStatus.MULTIPLE_CHOICES:
                    limit = MAX_REFUSAL
                data = response.read(None if limit is None else limit + 1)
            finally:
                response.close()  # closes the connection, unless the answer was read to its end
                response.release_conn()
        except (HTTPError, ValueError):
            return None
        found = response.headers
        is_whole = (
            method == "HEAD"
            or found.get("transfer-encoding", "").lower() == "chunked"
            or found.get("content-length") == str(len(data))
        )
        if not is_whole or (limit is not None and len(data) > limit):
            return None
        return HttpResponse(response.status, found, data)
