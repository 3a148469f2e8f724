"""Endpoint, region and addressing style, from the places that AWS's tools read.

These are the ``AWS_…`` variables, profiles and ``services`` sections of ``~/.aws/config``. lakecli
looks up the endpoint itself, because signing a URL needs it, and for that the SDK would load 800 KB
of service model.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from lakecli.base.model import NO_ACCOUNT, Account
from lakecli.errors import UsageError
from lakecli.stores.cloud_errors import has_credentials
from lakecli.stores.presigned_urls import quoted_path
from lakecli.stores.responses import UnusableAnswerError, region_of

if TYPE_CHECKING:
    from botocore.session import Session

DEFAULT_REGION = "us-east-1"
"""The default of AWS's tools, which servers without regions accept."""


_VIRTUAL_HOST = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]", re.ASCII)
_DOMAINS = {"cn-": "amazonaws.com.cn", "us-iso-": "c2s.ic.gov", "us-isob-": "sc2s.sgov.gov"}


class S3Config(NamedTuple):
    """One resolved configuration.

    Attributes:
        endpoint: URL of a store that is not AWS, or ``""``.
        region: to sign for.
        is_region_configured: the region is configured, not the default.
        addressing_style: ``path``, ``virtual`` or, for AWS only, ``auto``.
    """

    endpoint: str
    region: str
    is_region_configured: bool
    addressing_style: str

    @property
    def host(self) -> str:
        """The host that requests go to, without path and credentials, for messages."""
        return urlsplit(self.endpoint or self.aws_endpoint()).netloc.rpartition("@")[2]

    def object_url(self, bucket: str, key: str) -> str:
        """Return the plain URL of an object, percent-encoded as it is signed."""
        return f"{_bucket_url(self, bucket)}/{quoted_path(key)}"

    def is_virtual_host(self, bucket: str) -> bool:
        """Return whether the bucket is part of the host, and not of the path."""
        if self.addressing_style == "auto":
            # The wildcard of the certificate does not match a dot in the name.
            return _VIRTUAL_HOST.fullmatch(bucket) is not None
        return self.addressing_style == "virtual"

    def aws_endpoint(self) -> str:
        """Return the URL of AWS in the region."""
        domain = next(
            (domain for start, domain in _DOMAINS.items() if self.region.startswith(start)),
            "amazonaws.com",
        )
        return f"https://s3.{self.region}.{domain}"


class AccessKeys(NamedTuple):
    """The keys that sign requests; `token` is empty unless they are temporary."""

    access_key: str
    secret_key: str
    token: str


@lru_cache(64)
def _bucket_url(config: S3Config, bucket: str) -> str:
    base = urlsplit(config.endpoint or config.aws_endpoint())
    path = base.path.rstrip("/")
    if config.is_virtual_host(bucket):
        return f"{base.scheme}://{bucket}.{base.netloc}{path}"
    return f"{base.scheme}://{base.netloc}{path}/{bucket}"


def resolve_config(session: Session, *, region: str, account: Account = NO_ACCOUNT) -> S3Config:
    """Read the configuration of a session.

    Args:
        session: of the SDK, with its profile.
        region: of the bucket, if known; it overrides the configured region.
        account: the profile, endpoint and region to use instead of the configured ones.

    Raises:
        UsageError: an endpoint that is no URL of a server.
        botocore.exceptions.BotoCoreError: a profile that does not exist, a file that is broken.
    """
    profile = session.get_scoped_config()
    endpoint = check_endpoint(account.endpoint)
    if not endpoint and not session.get_config_variable("ignore_configured_endpoint_urls"):
        # A profile that an account names counts as a whole, and variables do not.
        endpoint = _configured_endpoint(session, {} if account.profile else os.environ)
    s3 = profile.get("s3")
    style = s3.get("addressing_style", "") if isinstance(s3, dict) else ""
    if style not in {"path", "virtual"}:
        style = "path" if endpoint else "auto"
    configured = account.region or str(
        (profile.get("region") if account.profile else session.get_config_variable("region")) or ""
    )
    return S3Config(
        endpoint=endpoint,
        region=region or check_region(configured) or DEFAULT_REGION,
        is_region_configured=bool(configured),
        addressing_style=style,
    )


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
    return check_endpoint(next((str(found) for found in candidates if found), ""))


def check_region(configured: str) -> str:
    """Return the region that is configured, which may be empty.

    Raises:
        UsageError: it is no name of a region.
    """
    try:
        return region_of(configured)
    except UnusableAnswerError as error:
        raise UsageError(
            f"cannot use the AWS configuration: {error}",
            hint="AWS_REGION and AWS_DEFAULT_REGION, or region in ~/.aws/config, is a name such as "
            "eu-central-1",
        ) from None


def check_endpoint(endpoint: str) -> str:
    """Return an endpoint, which may be empty.

    Raises:
        UsageError: it is no URL of a server, or has a user or a password, which would get into
            each presigned URL.
    """
    if not endpoint:
        return ""
    split = urlsplit(endpoint)
    if "@" in split.netloc:
        raise has_credentials("the S3 endpoint")
    if split.scheme not in {"http", "https"} or not split.hostname or split.query:
        shown = endpoint.partition("?")[0].rpartition("@")[2]
        raise UsageError(
            f"the S3 endpoint is no URL of a server: {shown!r}",
            hint="AWS_ENDPOINT_URL, or endpoint_url in ~/.aws/config, is http[s]://HOST[:PORT]",
        )
    return endpoint


def ca_bundle_of(configured: str | None) -> str | None:
    """Return the file with the certificates to trust, or ``None`` for the usual ones.

    Args:
        configured: for AWS, by ``AWS_CA_BUNDLE`` or the profile; it counts first, as for the SDK.
    """
    return os.environ.get("REQUESTS_CA_BUNDLE") if configured is None else configured
