"""What direct requests follow: keys, checksums, certificates and proxies, as the SDK finds them.

Static keys, found without the SDK, which takes 80 ms to load.

Reads only unambiguous configurations: keys in the environment, or a profile with keys, a region and
no other setting about identity or endpoint. For all others it returns ``None``, and the SDK applies
its rules.

What direct requests follow: keys, checksums, certificates and proxies, as the SDK has them.

With plain keys (see `plain`) they are found without the SDK, which takes 150 ms of processor time
to load.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from configparser import Error, RawConfigParser
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from lakecli.stores.s3.config import DEFAULT_REGION, S3Config, check_endpoint, check_region

if TYPE_CHECKING:
    from lakecli.stores.s3.connection import S3Connection
    from lakecli.stores.s3.direct_http import DirectHttp

_OF_KEYS: Final = frozenset({"aws_access_key_id", "aws_secret_access_key", "aws_session_token"})
_OF_PROFILES: Final = _OF_KEYS | {"region", "output", "cli_pager"}
_NOT_PLAIN: Final = (
    "AWS_CREDENTIAL_EXPIRATION",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    "AWS_ROLE_ARN",
    "AWS_SECURITY_TOKEN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
)
_PROFILES: Final = ("AWS_DEFAULT_PROFILE", "AWS_PROFILE")
_ONE_SPELLING: Final = re.compile(r"[\w.@:/+-]+( [\w.@:/+-]+)?", re.ASCII)
"""A section's name that has one spelling only; with quotes or blanks it has several."""

_MAY_NOT_BE_EMPTY: Final = ("AWS_DEFAULT_REGION", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")


class AccessKeys(NamedTuple):
    """The keys that sign requests; `token` is empty unless they are temporary."""

    access_key: str
    secret_key: str
    token: str


class PlainAccess(NamedTuple):
    """Static keys, and the configuration."""

    keys: AccessKeys
    config: S3Config


class _NotPlainError(Exception):
    """There is a setting that only the SDK understands."""


def find_plain_access(environ: Mapping[str, str], *, region: str) -> PlainAccess | None:
    """Return the keys and the configuration, or ``None`` if only the SDK can tell.

    Args:
        environ: the environment.
        region: learned from the bucket; it wins over a region set for all of AWS.

    Raises:
        UsageError: an endpoint that is no URL of a server.
    """
    if any(environ.get(name) for name in _NOT_PLAIN):
        return None
    if any(environ.get(name) == "" for name in (*_PROFILES, *_MAY_NOT_BE_EMPTY)):
        return None
    profile = next((environ[name] for name in _PROFILES if name in environ), None)
    try:
        written = _read_profile(environ, profile)
    except _NotPlainError:
        return None
    of_environment = (environ.get("AWS_ACCESS_KEY_ID"), environ.get("AWS_SECRET_ACCESS_KEY"))
    of_profile = (written.get("aws_access_key_id"), written.get("aws_secret_access_key"))
    if all(of_environment):
        token = environ.get("AWS_SESSION_TOKEN")
        access_key, secret_key = of_environment
    elif any(of_environment) or not all(of_profile):
        return None
    else:
        token = written.get("aws_session_token")
        access_key, secret_key = of_profile
    endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or ""
    configured = environ.get("AWS_DEFAULT_REGION") or written.get("region") or ""
    return PlainAccess(
        AccessKeys(access_key or "", secret_key or "", token or ""),
        S3Config(
            endpoint=check_endpoint(endpoint),
            region=region or check_region(configured) or DEFAULT_REGION,
            is_region_configured=bool(configured),
            addressing_style="path" if endpoint else "auto",
        ),
    )


def _read_profile(environ: Mapping[str, str], profile: str | None) -> dict[str, str]:
    """Return the settings of a profile that has no others than keys and a region.

    Raises:
        _NotPlainError: it has others, or does not exist.
    """
    name = profile or "default"
    section = "default" if name == "default" else f"profile {name}"
    config = _read_section(environ.get("AWS_CONFIG_FILE", "~/.aws/config"), section)
    keys = _read_section(environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"), name)
    if profile is not None and config is None and keys is None:
        raise _NotPlainError
    config, keys = config or {}, keys or {}
    if not config.keys() <= _OF_PROFILES or not keys.keys() <= _OF_KEYS:
        raise _NotPlainError
    if keys and config.keys() & _OF_KEYS:
        raise _NotPlainError  # the SDK decides which of them count
    return config | keys


def _read_section(file: str, section: str) -> dict[str, str] | None:
    """Return a section of one of AWS's files, or ``None``.

    Raises:
        _NotPlainError: the file is malformed or unreadable.
    """
    if not file.startswith(("/", "~/")) or "$" in file:
        raise _NotPlainError
    path = os.path.expanduser(file)
    if not path.startswith("/"):
        raise _NotPlainError  # there is no home directory
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        raise _NotPlainError from None

    parser = RawConfigParser(default_section="")
    try:
        parser.read_string(text)
    except (Error, ValueError):
        raise _NotPlainError from None
    if not all(map(_ONE_SPELLING.fullmatch, parser.sections())) or (
        section == "default" and parser.has_section("profile default")
    ):
        raise _NotPlainError
    if not parser.has_section(section):
        return None
    found = dict(parser.items(section))
    if any("\n" in value for value in found.values()):
        raise _NotPlainError
    return found


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
    keys: Callable[[], AccessKeys]
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
    keys: Callable[[], AccessKeys]
    setting: Callable[[str], str | None]


def _without_sdk(keys: AccessKeys) -> _Source:
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
