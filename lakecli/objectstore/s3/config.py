"""How S3 is reached: the SDK's own configuration, and clients built on first use.

Everything is found where users of AWS's tools expect it: the ``AWS_…`` variables, profiles and
``services`` sections of ``~/.aws/config``. The endpoint is looked up here rather than by the SDK,
because signing a URL needs it too, and there the SDK would load 800 KB of service model first.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from threading import RLock
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from lakecli.errors import UsageError
from lakecli.objectstore.dates import ServerDate
from lakecli.retry import REQUESTS

if TYPE_CHECKING:
    from botocore.session import Session

    from lakecli.objectstore.s3.plain import PlainAccess

CONNECTIONS = 32
"""In a client's pool: more threads than that wait for each other."""

CONNECT_TIMEOUT = 10
READ_TIMEOUT = 60
"""Seconds without a sign of life, after which a request has failed."""

DEFAULT_REGION = "us-east-1"
"""What S3's own tools assume, and what servers without regions take."""

_CHECKSUMS = frozenset({"None", "when_supported"})
_VIRTUAL_HOST = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]", re.ASCII)
_DOMAINS = {"cn-": "amazonaws.com.cn", "us-iso-": "c2s.ic.gov", "us-isob-": "sc2s.sgov.gov"}


@dataclass(frozen=True, slots=True)
class S3Config:
    """One resolved configuration.

    Attributes:
        endpoint: URL of a store that is not AWS, or ``""``.
        region: to sign for.
        is_region_configured: somebody chose the region; otherwise it is the default.
        addressing_style: ``path``, ``virtual`` or, for AWS only, ``auto``.
    """

    endpoint: str
    region: str
    is_region_configured: bool
    addressing_style: str

    @property
    def host(self) -> str:
        """Where requests go, for messages: no path, no credentials."""
        return urlsplit(self.endpoint or self._aws_endpoint()).netloc.rpartition("@")[2]

    def object_url(self, bucket: str, key: str) -> str:
        """Return the plain URL of an object, percent-encoded as it is signed."""
        base = urlsplit(self.endpoint or self._aws_endpoint())
        path = base.path.rstrip("/")
        if self._is_virtual_host(bucket):
            host = f"{bucket}.{base.netloc}"
        else:
            host = base.netloc
            path += f"/{bucket}"
        return f"{base.scheme}://{host}{path}/{quote(key, safe='/~')}"

    def _is_virtual_host(self, bucket: str) -> bool:
        if self.addressing_style == "auto":
            # A dot in the name would not match the wildcard of the certificate.
            return _VIRTUAL_HOST.fullmatch(bucket) is not None
        return self.addressing_style == "virtual"

    def _aws_endpoint(self) -> str:
        domain = next(
            (domain for start, domain in _DOMAINS.items() if self.region.startswith(start)),
            "amazonaws.com",
        )
        return f"https://s3.{self.region}.{domain}"


def resolve_config(session: Session, *, region: str) -> S3Config:
    """Read the configuration of a session.

    Args:
        session: of the SDK, with its profile.
        region: learned from the bucket; it wins over a region set for all of AWS.

    Raises:
        UsageError: an endpoint that is no URL of a server.
        botocore.exceptions.BotoCoreError: a profile that does not exist, a file that is broken.
    """
    profile = session.get_scoped_config()
    endpoint = ""
    if not session.get_config_variable("ignore_configured_endpoint_urls"):
        endpoint = _configured_endpoint(session)
    s3 = profile.get("s3")
    style = s3.get("addressing_style", "") if isinstance(s3, dict) else ""
    if style not in {"path", "virtual"}:
        style = "path" if endpoint else "auto"
    configured = str(session.get_config_variable("region") or "")
    return S3Config(
        endpoint=endpoint,
        region=region or configured or DEFAULT_REGION,
        is_region_configured=bool(configured),
        addressing_style=style,
    )


def _configured_endpoint(session: Session) -> str:
    profile = session.get_scoped_config()
    services = session.full_config.get("services", {}).get(profile.get("services", ""), {})
    of_s3 = services.get("s3", {})
    candidates = (
        os.environ.get("AWS_ENDPOINT_URL_S3"),
        os.environ.get("AWS_ENDPOINT_URL"),
        of_s3.get("endpoint_url") if isinstance(of_s3, dict) else None,
        profile.get("endpoint_url"),
    )
    return check_endpoint(next((str(found) for found in candidates if found), ""))


def check_endpoint(endpoint: str) -> str:
    """Return an endpoint, which may be empty.

    Raises:
        UsageError: it is no URL of a server.
    """
    split = urlsplit(endpoint)
    if endpoint and not (split.scheme in {"http", "https"} and split.hostname and not split.query):
        shown = endpoint.partition("?")[0].rpartition("@")[2]
        raise UsageError(
            f"the S3 endpoint is no URL of a server: {shown!r}",
            hint="AWS_ENDPOINT_URL, or endpoint_url in ~/.aws/config, is http[s]://HOST[:PORT]",
        )
    return endpoint


class S3Connection:
    """What a store shares between its requests, each part made when it is first needed.

    Args:
        region: of the bucket; ``""`` leaves it to the SDK's configuration.
    """

    def __init__(self, region: str) -> None:
        self.region = region
        self.server_date = ServerDate()
        self._lock = RLock()
        self._session: Any = None
        self._config: S3Config | None = None
        self._plain: PlainAccess | None = None
        self._is_plain_sought = False
        self._attempts: int | None = None
        self._clients: dict[int, Any] = {}

    def move(self, region: str) -> None:
        """Use another region from now on."""
        with self._lock:
            self.region = region
            if self._config is not None and self._config.region != region:
                self._config = None
                self._clients.clear()
            self._is_plain_sought = False

    @property
    def plain_access(self) -> PlainAccess | None:
        """Keys and places that are found without the SDK, where they can be.

        Raises:
            UsageError: an endpoint that is no URL of a server.
        """
        with self._lock:
            if not self._is_plain_sought:
                from lakecli.objectstore.s3.plain import find_plain_access

                self._plain = find_plain_access(os.environ, region=self.region)
                self._is_plain_sought = True
            return self._plain

    @property
    def session(self) -> Any:  # noqa: ANN401 - the SDK is not typed
        """The SDK's session: profile, credentials, configuration."""
        with self._lock:
            if self._session is None:
                from botocore.session import Session

                self._session = Session()
            return self._session

    @property
    def config(self) -> S3Config:
        """Where requests go.

        Raises:
            botocore.exceptions.BotoCoreError: see `resolve_config`.
        """
        with self._lock:
            if self._config is None:
                self._config = resolve_config(self.session, region=self.region)
            return self._config

    def client(self, *, max_attempts: int | None = None) -> Any:  # noqa: ANN401 - the SDK is not typed
        """Return the client that sends each request at most so often.

        Args:
            max_attempts: at most; the default is ``AWS_MAX_ATTEMPTS``, the profile's number, or
                that of `retry.REQUESTS`.
        """
        with self._lock:
            if self._attempts is None:
                configured = self.session.get_config_variable("max_attempts")
                self._attempts = int(configured or REQUESTS.attempts)
            attempts = self._attempts
            if max_attempts is not None:
                attempts = min(attempts, max_attempts)
            if attempts not in self._clients:
                self._clients[attempts] = self._new_client(attempts)
            return self._clients[attempts]

    @property
    def has_checksums(self) -> bool:
        """Whether checksums are sent with objects, as the SDK does unless it is told not to."""
        return str(self.session.get_config_variable("request_checksum_calculation")) in _CHECKSUMS

    @property
    def wants_checksums(self) -> bool:
        """Whether checksums are asked for with objects and compared, likewise."""
        return str(self.session.get_config_variable("response_checksum_validation")) in _CHECKSUMS

    @property
    def is_plain(self) -> bool:
        """Whether the configuration asks for nothing that changes how requests are made."""
        variables = ("use_fips_endpoint", "use_dualstack_endpoint")
        s3 = self.session.get_scoped_config().get("s3")
        return not any(map(self.session.get_config_variable, variables)) and (
            not isinstance(s3, dict) or set(s3) <= {"addressing_style"}
        )

    def new_http_session(self) -> Any:  # noqa: ANN401 - the SDK is not typed
        """Return the SDK's connections, as its clients make them: proxies, certificates, pool."""
        from botocore.httpsession import URLLib3Session
        from botocore.utils import get_environ_proxies

        verify = os.environ.get("REQUESTS_CA_BUNDLE") or self.session.get_config_variable(
            "ca_bundle"
        )
        return URLLib3Session(
            verify=verify or True,
            proxies=get_environ_proxies(self.config.object_url("bucket", "key")),
            timeout=(CONNECT_TIMEOUT, READ_TIMEOUT),
            max_pool_connections=CONNECTIONS,
        )

    def _note_date(self, *, http_response: Any, **_: object) -> None:  # noqa: ANN401 - the SDK's
        self.server_date.note(http_response.headers.get("Date"))

    def _new_client(self, attempts: int) -> Any:  # noqa: ANN401 - the SDK is not typed
        from botocore.config import Config

        client = self.session.create_client(
            "s3",
            region_name=self.config.region,
            endpoint_url=self.config.endpoint or None,
            config=Config(
                signature_version="s3v4",  # for other endpoints the SDK would fall back to v2
                s3={"addressing_style": self.config.addressing_style},
                retries={"mode": "standard", "total_max_attempts": attempts},
                max_pool_connections=CONNECTIONS,
                connect_timeout=CONNECT_TIMEOUT,
                read_timeout=READ_TIMEOUT,
            ),
        )
        client.meta.events.register("after-call.s3", self._note_date)
        if self.config.endpoint:
            client.meta.events.register("before-call.s3", _stay)
        return client


def _stay(*, context: dict[str, Any], **_: object) -> None:
    """Tell the SDK that a request has been redirected to the bucket's region already.

    It does that for AWS. A server that answers everything by a redirect, as a proxy does from
    http to https, would have it ask for the region for ever.
    """
    context.setdefault("s3_redirect", {})["redirected"] = True
