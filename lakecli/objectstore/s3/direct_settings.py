"""What direct requests follow: keys, checksums, certificates and proxies, as the SDK has them.

With plain keys (see `plain`) they are found without the SDK, which takes 150 ms of processor time
to load.
"""

from __future__ import annotations

import os
import re
import sys

from lakecli.named_tuple import NamedTuple
from lakecli.objectstore.answer_checks import UnusableAnswerError
from lakecli.objectstore.http_answer import Answer, TooLongError
from lakecli.objectstore.http_client import HttpClient, Origin
from lakecli.objectstore.server_url import split_url
from lakecli.typed import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lakecli.objectstore.s3.config import S3Config
    from lakecli.objectstore.s3.connection import S3Connection
    from lakecli.objectstore.s3.plain import Keys

CONNECT_TIMEOUT: Final = 10
READ_TIMEOUT: Final = 60
"""Seconds without a sign of life, after which a request has failed."""

CONNECTIONS: Final = 32
"""In a client's pool: more threads than that wait for each other."""

_VARIABLES: Final = {
    "ca_bundle": "AWS_CA_BUNDLE",
    "request_checksum_calculation": "AWS_REQUEST_CHECKSUM_CALCULATION",
    "response_checksum_validation": "AWS_RESPONSE_CHECKSUM_VALIDATION",
    "use_dualstack_endpoint": "AWS_USE_DUALSTACK_ENDPOINT",
    "use_fips_endpoint": "AWS_USE_FIPS_ENDPOINT",
}
"""Settings of the SDK that matter here, and their variables."""

_OTHER_ENDPOINTS: Final = ("use_dualstack_endpoint", "use_fips_endpoint")
_DIRECTORY_BUCKET: Final = "--x-s3"
_HOST: Final = re.compile("[0-9A-Za-z:][0-9A-Za-z.:_-]*", re.ASCII)
_PORTS: Final = {"http": 80, "https": 443}


class Transport(Protocol):
    """What sends requests to one server; see `HttpClient.send`."""

    def send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        limit: int | None = None,
    ) -> Answer:
        """Send a request, and read the answer."""


class DirectSettings(NamedTuple):
    """What direct requests about the objects of one bucket follow.

    Attributes:
        config: for which the others were found.
        is_secure: requests go by TLS.
        host: as requests name it.
        start: of the path of each object.
        keys: returns the keys that sign, which may change.
        sends_checksums: objects are sent with a checksum.
        wants_checksums: objects are requested with their checksums, which are compared.
        transport: sends the requests.
    """

    config: S3Config
    is_secure: bool
    host: str
    start: str
    keys: Callable[[], Keys]
    sends_checksums: bool
    wants_checksums: bool
    transport: Transport


def find_settings(connection: S3Connection, bucket: str) -> DirectSettings | None:
    """Return what direct requests follow, or ``None`` if only the SDK's client can do.

    Raises:
        UsageError: an endpoint that is no URL of a server.
        botocore.exceptions.BotoCoreError: a configuration that the SDK refuses.
    """
    if bucket.endswith(_DIRECTORY_BUCKET):
        return None  # S3 Express needs a session of its own
    plain, config = connection.plain_access, connection.config
    if plain is not None and not any(os.environ.get(_VARIABLES[name]) for name in _OTHER_ENDPOINTS):
        source: _Source | None = _without_sdk(plain.keys)
    else:
        source = _by_sdk(connection.session)
    if source is None:
        return None
    setting = source.setting
    start = config.object_url(bucket, "")
    url = split_url(start)
    ca_bundle = ca_bundle_of(setting("ca_bundle"))
    if ca_bundle is not None and not ca_bundle.strip():
        return None  # the SDK refuses it
    transport = _open_transport(start, ca_bundle)
    if transport is None:
        return None
    return DirectSettings(
        config=config,
        is_secure=url.scheme == "https",
        host=url.netloc,
        start=url.path,
        keys=source.keys,
        sends_checksums=_is_default(setting("request_checksum_calculation")),
        wants_checksums=_is_default(setting("response_checksum_validation")),
        transport=transport,
    )


class _Source(NamedTuple):
    keys: Callable[[], Keys]
    setting: Callable[[str], str | None]


def _without_sdk(keys: Keys) -> _Source:
    return _Source(lambda: keys, lambda name: os.environ.get(_VARIABLES[name]))


def _by_sdk(session: Any) -> _Source | None:  # noqa: ANN401 - the SDK is not typed
    """Read the SDK's session, unless a setting changes how requests are made."""
    s3 = session.get_scoped_config().get("s3")
    credentials = session.get_credentials()
    if (
        credentials is None
        or any(map(session.get_config_variable, _OTHER_ENDPOINTS))
        or (isinstance(s3, dict) and not set(s3) <= {"addressing_style"})
    ):
        return None
    return _Source(credentials.get_frozen_credentials, session.get_config_variable)


def ca_bundle_of(configured: str | None) -> str | None:
    """Return the file with the certificates to trust, or ``None`` for the usual ones.

    Args:
        configured: for AWS, by ``AWS_CA_BUNDLE`` or the profile; it counts first, as for the SDK.
    """
    return os.environ.get("REQUESTS_CA_BUNDLE") if configured is None else configured


def _is_default(setting: str | None) -> bool:
    """Return whether the SDK computes checksums that a request does not need."""
    return setting is None or setting.lower() == "when_supported"


def _open_transport(url: str, ca_bundle: str | None) -> Transport | None:
    parts = split_url(url)
    proxies = find_proxies(url)
    if proxies.get(parts.scheme):
        return _SdkTransport(url, ca_bundle)
    try:
        port = parts.port or _PORTS[parts.scheme]
    except ValueError:
        return None
    host = parts.hostname or ""
    if "@" in parts.netloc or _HOST.fullmatch(host) is None:
        return None
    is_secure = parts.scheme == "https"
    if is_secure and ca_bundle is None:
        import certifi  # whose certificates the SDK uses, too

        ca_bundle = certifi.where()
    origin = Origin(is_secure, host, port, ca_bundle or "")
    return HttpClient(origin, connect_timeout=CONNECT_TIMEOUT, read_timeout=READ_TIMEOUT)


def find_proxies(url: str) -> dict[str, str]:
    """Return the proxies for a URL by scheme, as the SDK finds them."""
    variables = {name.lower() for name, value in os.environ.items() if value} - {"no_proxy"}
    if sys.platform == "linux" and not any(name.endswith("_proxy") for name in variables):
        return {}
    from botocore.utils import get_environ_proxies

    found: dict[str, str] = get_environ_proxies(url)
    return found


class _SdkTransport:
    """Sends requests by the SDK's HTTP client, through a proxy.

    Args:
        url: of the server.
        ca_bundle: the file with the certificates to trust, or ``None`` for the usual ones.
    """

    def __init__(self, url: str, ca_bundle: str | None) -> None:
        from lakecli.objectstore.s3.sdk_http import SdkHttp

        parts = split_url(url)
        self._server = f"{parts.scheme}://{parts.netloc}"
        self._http = SdkHttp(url, ca_bundle)

    def send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        limit: int | None = None,
    ) -> Answer:
        """Send a request, and read the answer.

        Raises:
            ConnectionError: there is no connection, it broke, or nothing says that the answer
                is whole.
            TooLongError: the body is longer than `limit`.
        """
        from botocore.awsrequest import AWSPreparedRequest
        from botocore.exceptions import HTTPClientError

        request = AWSPreparedRequest(
            method, self._server + target, dict(headers), body or None, stream_output=False
        )
        try:
            answer = self._http.send(request, limit=limit)
        except HTTPClientError as error:
            raise ConnectionError(str(error)) from error
        except UnusableAnswerError as error:
            raise TooLongError(str(error)) from error
        named = {name.lower(): value for name, value in answer.headers.items()}
        content: bytes = answer.content
        if method != "HEAD" and named.get("content-length") != str(len(content)):
            raise ConnectionError("without a length, a broken answer would look like a whole one")
        return Answer(answer.status_code, named, content, stays_open=True)
