"""What direct requests follow: keys, checksums, certificates and proxies, as the SDK has them.

With plain keys (see `plain`) they are found without the SDK, which takes 150 ms of processor time
to load.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from lakecli.stores.s3.config import S3Config
from lakecli.stores.s3.plain import Keys

if TYPE_CHECKING:
    from lakecli.stores.s3.connection import S3Connection
    from lakecli.stores.s3.direct_http import DirectHttp

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
        http: sends the requests.
    """

    config: S3Config
    is_secure: bool
    host: str
    start: str
    keys: Callable[[], Keys]
    sends_checksums: bool
    wants_checksums: bool
    http: DirectHttp


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
    url = urlsplit(start)
    if "@" in url.netloc or _HOST.fullmatch(url.hostname or "") is None:
        return None
    ca_bundle = ca_bundle_of(setting("ca_bundle"))
    if ca_bundle is not None and not ca_bundle.strip():
        return None  # the SDK refuses it
    http = _open_http(f"{url.scheme}://{url.netloc}", ca_bundle)
    if http is None:
        return None
    return DirectSettings(
        config=config,
        is_secure=url.scheme == "https",
        host=url.netloc,
        start=url.path,
        keys=source.keys,
        sends_checksums=_is_default(setting("request_checksum_calculation")),
        wants_checksums=_is_default(setting("response_checksum_validation")),
        http=http,
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


def _open_http(server: str, ca_bundle: str | None) -> DirectHttp | None:
    from lakecli.stores.s3.direct_http import DirectHttp  # loads urllib3

    try:
        return DirectHttp(server, ca_bundle)
    except (OSError, ValueError):
        return None
