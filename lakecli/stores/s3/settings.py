"""Endpoint, region, addressing style and static keys, from the places that AWS's tools read.

The SDK takes longer to load than the rest of ``fs presign``. So this module reads simple settings
itself: keys in the environment, or a profile with keys, a region and no other setting about
identity or endpoint. The SDK reads all other settings, except the endpoint: signing a URL requires
the endpoint, and the SDK determines it only for a client, which is slow to create.

The settings come from the ``AWS_…`` variables, and from profiles and ``services`` sections of
``~/.aws/config``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from configparser import Error, RawConfigParser
from functools import lru_cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from lakecli.base.model import NO_ACCOUNT, YES, Account, Demand
from lakecli.errors import UsageError
from lakecli.stores.cloud_errors import split_server
from lakecli.stores.presigned_urls import quoted_path
from lakecli.stores.responses import UnusableAnswerError, region_of

if TYPE_CHECKING:
    from datetime import datetime

    from botocore.session import Session

DEFAULT_REGION = "us-east-1"
"""The region if none is configured; servers without regions accept it."""


_VIRTUAL_HOST = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]", re.ASCII)


_BEFORE_PROFILES = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN"),
    *("AWS_CREDENTIAL_EXPIRATION", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    *("AWS_DEFAULT_PROFILE", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_REGION"),
    "AWS_DEFAULT_REGION",
)
"""Variables that take precedence over a profile, or replace it."""


_KEYS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_OF_KEYS: Final = frozenset(map(str.lower, _KEYS))
_OF_PROFILES: Final = _OF_KEYS | {"region", "output", "cli_pager"}
_NOT_PLAIN: Final = (
    "AWS_CREDENTIAL_EXPIRATION",
    "AWS_DATA_PATH",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    "AWS_ROLE_ARN",
    "AWS_SECURITY_TOKEN",
    "AWS_USE_DUALSTACK_ENDPOINT",
    "AWS_USE_FIPS_ENDPOINT",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
)
_PROFILES: Final = ("AWS_DEFAULT_PROFILE", "AWS_PROFILE")
_ONE_SPELLING: Final = re.compile(r"[\w.@:/+-]+( [\w.@:/+-]+)?", re.ASCII)
"""A section name that has only one spelling; names with quotes or more spaces have several."""

_MAY_NOT_BE_EMPTY: Final = ("AWS_DEFAULT_REGION", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")


_PAYER: Final = "x-amz-request-payer"
_NO_SIGN_REQUEST: Final = "AWS_NO_SIGN_REQUEST"
_SSE: Final = "x-amz-server-side-encryption"
_REQUESTER: Final = "requester"
_SWITCHED_ON: Final = frozenset({YES, "yes", "on", "1"})


class S3Config(NamedTuple):
    """The resolved configuration of one store.

    Attributes:
        endpoint: URL of a store that is not AWS, or ``""``.
        is_region_configured: whether the region was configured; otherwise it is the default.
        addressing_style: ``path``, ``virtual`` or, for AWS only, ``auto``.
        variant: URL of AWS's FIPS, dual-stack or accelerate endpoint if one is configured, or
            ``""``.
    """

    endpoint: str
    region: str
    is_region_configured: bool
    addressing_style: str
    variant: str = ""

    @property
    def host(self) -> str:
        """The host that receives requests, without path and credentials, for messages."""
        return urlsplit(self.endpoint or self.aws_endpoint()).netloc.rpartition("@")[2]

    def object_url(self, bucket: str, key: str) -> str:
        """Return the plain URL of an object, percent-encoded as required for signing."""
        return f"{_bucket_url(self, bucket)}/{quoted_path(key)}"

    def is_virtual_host(self, bucket: str) -> bool:
        """Return whether URLs have the bucket in the host name instead of the path."""
        if self.addressing_style == "auto":
            # The wildcard of the certificate does not match a dot in the name.
            return _VIRTUAL_HOST.fullmatch(bucket) is not None
        return self.addressing_style == "virtual"

    def aws_endpoint(self) -> str:
        """Return the URL of AWS's S3 in the region."""
        return self.variant or f"https://s3.{self.region}.{domain_of(self.region)}"


class AccessKeys(NamedTuple):
    """The keys that sign requests.

    Attributes:
        token: ``""`` unless the keys are temporary.
        expires_at: when temporary keys expire, if the time is known.
    """

    access_key: str
    secret_key: str
    token: str
    expires_at: datetime | None = None


class S3Demands(NamedTuple):
    """The requirements of a bucket for requests.

    Attributes:
        anonymous: the setting or variable that makes requests unsigned; ``""``: they are signed.
        of_all: headers of every request, by lower-case names.
        of_writes: further headers of each request that creates an object or begins an upload.
    """

    anonymous: str
    of_all: dict[str, str]
    of_writes: dict[str, str]


NO_DEMANDS: Final = S3Demands("", {}, {})


def demands_of(account: Account, bucket: str, environ: Mapping[str, str]) -> S3Demands:
    """Return the requirements of a bucket for requests.

    Args:
        environ: the environment. Only GDAL's variables are read; settings in `account` override
            them.
    """
    demand = partial(account.demand, bucket=f"s3://{bucket}")
    key, bucket_key = demand(Demand.S3_KMS_KEY), demand(Demand.S3_BUCKET_KEY)
    of_writes = {_SSE: demand(Demand.S3_SSE) or ("aws:kms" if key or bucket_key == YES else "")}
    if of_writes[_SSE].startswith("aws:kms"):
        of_writes |= {f"{_SSE}-aws-kms-key-id": key, f"{_SSE}-bucket-key-enabled": bucket_key}
    pays = demand(Demand.S3_PAYER)
    pays = pays or (YES if environ.get("AWS_REQUEST_PAYER", "").lower() == _REQUESTER else "")
    anonymous = demand(Demand.S3_ANONYMOUS)
    source = Demand.S3_ANONYMOUS if anonymous else _NO_SIGN_REQUEST
    anonymous = anonymous or environ.get(_NO_SIGN_REQUEST, "").lower()
    return S3Demands(
        anonymous=source if anonymous in _SWITCHED_ON else "",
        of_all={_PAYER: _REQUESTER} if pays == YES else {},
        of_writes={name: value for name, value in of_writes.items() if value},
    )


class PlainAccess(NamedTuple):
    """Static keys and the configuration, found without the SDK."""

    keys: AccessKeys
    config: S3Config


@lru_cache(8)
def domain_of(region: str) -> str:
    """Return the domain of the AWS partition of a region, from the SDK's own data.

    The data is read without loading the SDK, which takes longer than the rest of ``fs presign``. An
    unknown region belongs to the first partition, as for the SDK.
    """
    found = find_spec("botocore")
    assert found is not None
    assert found.origin is not None
    place = os.path.join(os.path.dirname(found.origin), "data", "partitions.json")
    with open(place, encoding="utf-8") as file:
        partitions = json.load(file)["partitions"]
    for each in partitions:
        if region in each["regions"] or re.match(each["regionRegex"], region):
            return str(each["outputs"]["dnsSuffix"])
    return str(partitions[0]["outputs"]["dnsSuffix"])


@lru_cache(64)
def _bucket_url(config: S3Config, bucket: str) -> str:
    base = urlsplit(config.endpoint or config.aws_endpoint())
    path = base.path.rstrip("/")
    if config.is_virtual_host(bucket):
        return f"{base.scheme}://{bucket}.{base.netloc}{path}"
    return f"{base.scheme}://{base.netloc}{path}/{bucket}"


def variables_for(account: Account, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment for AWS's tools that corresponds to the settings of an account.

    If the account has a profile, variables with keys, an endpoint or a region are left out.
    """
    if account == NO_ACCOUNT:
        return environ
    found = dict(environ)
    if account.profile:
        for name in _BEFORE_PROFILES:
            found.pop(name, None)
        found["AWS_PROFILE"] = account.profile
    if account.endpoint:
        found["AWS_ENDPOINT_URL_S3"] = account.endpoint
    if account.region:
        found["AWS_REGION"] = account.region
    return found


def new_session(account: Account = NO_ACCOUNT) -> Session:
    """Return a session of the SDK with the profile and the region of an account."""
    from botocore.session import Session

    session = Session(profile=account.profile or None)
    # The SDK reads AWS_DEFAULT_REGION only; AWS's command line reads AWS_REGION first.
    if region := variables_for(account, os.environ).get("AWS_REGION"):
        session.set_config_variable("region", region)
    return session


def resolve_config(session: Session, *, region: str, account: Account = NO_ACCOUNT) -> S3Config:
    """Read the configuration of a session.

    Args:
        region: region of the bucket, if known; it overrides the configured region.

    Raises:
        UsageError: an endpoint is not the URL of a server.
        botocore.exceptions.BotoCoreError: a profile does not exist, or a file is malformed.
    """
    profile = session.get_scoped_config()
    environ = variables_for(account, os.environ)
    endpoint = account.endpoint
    if not endpoint and not session.get_config_variable("ignore_configured_endpoint_urls"):
        endpoint = _configured_endpoint(session, environ)
    s3 = profile.get("s3")
    style = s3.get("addressing_style", "") if isinstance(s3, dict) else ""
    of_tools = profile.get("region") if account.profile else session.get_config_variable("region")
    found = _config_of(endpoint, region, account.region or str(of_tools or ""), style)
    return found if endpoint else found._replace(variant=_configured_variant(session, found))


def _config_of(endpoint: str, region: str, configured: str, style: str = "") -> S3Config:
    """Return a configuration with defaults for region and addressing style.

    Args:
        region: region of the bucket; it overrides the `configured` region.
    """
    if style not in {"path", "virtual"}:
        style = "path" if endpoint else "auto"
    endpoint = check_endpoint(endpoint)
    region = region or check_region(configured) or DEFAULT_REGION
    return S3Config(endpoint, region, bool(configured), style)


_ANY_BUCKET: Final = "bucket"


def _configured_variant(session: Session, config: S3Config) -> str:
    """Return the URL of the configured FIPS, dual-stack or accelerate endpoint, or ``""``."""
    from botocore.utils import ensure_boolean

    s3 = session.get_config_variable("s3")
    s3 = s3 if isinstance(s3, dict) else {}
    dual_stack = session.get_config_variable("use_dualstack_endpoint")
    wanted = {
        "UseFIPS": session.get_config_variable("use_fips_endpoint"),
        "UseDualStack": dual_stack or s3.get("use_dualstack_endpoint"),
        "Accelerate": s3.get("use_accelerate_endpoint"),
    }
    kinds = {name: ensure_boolean(value or False) for name, value in wanted.items()}
    if not any(kinds.values()):
        return ""
    from botocore.endpoint_provider import EndpointProvider
    from botocore.exceptions import EndpointProviderError

    loader = session.get_component("data_loader")
    rules = loader.load_service_model("s3", "endpoint-rule-set-1")
    provider = EndpointProvider(rules, loader.load_data("partitions"))
    kinds["ForcePathStyle"] = config.addressing_style == "path"
    try:
        found = provider.resolve_endpoint(Region=config.region, Bucket=_ANY_BUCKET, **kinds)
    except EndpointProviderError as error:
        raise UsageError(
            f"AWS has no such endpoint in {config.region}: {error}",
            hint="see AWS_USE_FIPS_ENDPOINT, AWS_USE_DUALSTACK_ENDPOINT and ~/.aws/config",
        ) from error
    return str(found.url).replace(f"//{_ANY_BUCKET}.", "//", 1).removesuffix(f"/{_ANY_BUCKET}")


def _configured_endpoint(session: Session, environ: Mapping[str, str]) -> str:
    profile = session.get_scoped_config()
    services = session.full_config.get("services", {}).get(profile.get("services", ""), {})
    of_s3 = services.get("s3", {})
    candidates = (
        environ.get("AWS_ENDPOINT_URL_S3"),
        environ.get("AWS_ENDPOINT_URL"),
        of_s3.get("endpoint_url") if isinstance(of_s3, dict) else None,
        profile.get("endpoint_url"),
    )
    return next((str(found) for found in candidates if found), "")


def check_region(configured: str) -> str:
    """Return the configured region, or ``""``; raise `UsageError` for a malformed name."""
    try:
        return region_of(configured)
    except UnusableAnswerError as error:
        raise UsageError(
            f"cannot use the AWS configuration: {error}",
            hint="AWS_REGION and AWS_DEFAULT_REGION, or region in ~/.aws/config, is a name such as "
            "eu-central-1",
        ) from None


def check_endpoint(endpoint: str) -> str:
    """Check and return an endpoint, which may be empty.

    Raises:
        UsageError: the endpoint is not the URL of a server, or has a user or a password, which
            would be part of each presigned URL.
    """
    if not endpoint:
        return ""
    split = split_server(endpoint, "the S3 endpoint")
    if split is None or split.query:
        shown = endpoint.partition("?")[0].rpartition("@")[2]
        hint = "AWS_ENDPOINT_URL, or endpoint_url in ~/.aws/config, is http[s]://HOST[:PORT]"
        raise UsageError(f"the S3 endpoint is not the URL of a server: {shown!r}", hint=hint)
    return endpoint


def ca_bundle_of(configured: str | None) -> str | None:
    """Return the file of trusted certificates, or ``None`` for the default ones.

    Args:
        configured: the file from ``AWS_CA_BUNDLE`` or the profile; as in the SDK, it takes
            precedence.
    """
    return os.environ.get("REQUESTS_CA_BUNDLE") if configured is None else configured


class _NotPlainError(Exception):
    """A setting exists that only the SDK understands."""


def find_plain_access(environ: Mapping[str, str], *, region: str) -> PlainAccess | None:
    """Return static keys and the configuration, or ``None`` if only the SDK can find them.

    Args:
        region: region of the bucket; it overrides a configured region.
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
    access_key, secret_key, token = (environ.get(name, "") for name in _KEYS)
    if not (access_key or secret_key):
        access_key, secret_key, token = (written.get(name.lower(), "") for name in _KEYS)
    if not (access_key and secret_key):
        return None
    endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or ""
    regions = environ.get("AWS_REGION"), environ.get("AWS_DEFAULT_REGION"), written.get("region")
    configured = next(filter(None, regions), "")
    keys = AccessKeys(access_key, secret_key, token)
    return PlainAccess(keys, _config_of(endpoint, region, configured))


def _read_profile(environ: Mapping[str, str], profile: str | None) -> dict[str, str]:
    """Return the settings of a profile that has only keys and a region.

    Raises:
        _NotPlainError: the profile has other settings, or does not exist.
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
        raise _NotPlainError  # the SDK decides which file takes precedence
    return config | keys


def _read_section(file: str, section: str) -> dict[str, str] | None:
    """Return a section of one of AWS's configuration files, or ``None`` if it does not exist."""
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
