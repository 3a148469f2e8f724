"""Describes the AWS credentials in use, and where the SDK found them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from botocore.exceptions import NoCredentialsError

from lakecli.stores.capabilities import Access, beginning_of
from lakecli.stores.s3.config import S3Config
from lakecli.stores.s3.presign import expiry_of

if TYPE_CHECKING:
    from botocore.session import Session

_SOURCES: Final = {
    "env": "the environment (AWS_ACCESS_KEY_ID)",
    "shared-credentials-file": "profile {profile} of ~/.aws/credentials",
    "config-file": "profile {profile} of ~/.aws/config",
    "custom-process": "credential_process of profile {profile}",
    "sso": "single sign-on, profile {profile}",
    "login": "`aws login`, profile {profile}",
    "assume-role": "role {role} of profile {profile}",
    "assume-role-with-web-identity": "role {role}, by a web identity",
    "container-role": "the role of this container",
    "iam-role": "the role of this machine",
}
"""The SDK's names of the sources of credentials, in words."""


def describe(session: Session, config: S3Config) -> Access:
    """Return the credentials in use.

    Raises:
        botocore.exceptions.BotoCoreError: there are no credentials, or they cannot be loaded.
    """
    credentials = session.get_credentials()
    if credentials is None:
        raise NoCredentialsError
    frozen = credentials.get_frozen_credentials()
    method = str(credentials.method)
    scoped = session.get_scoped_config()
    source = _SOURCES.get(method, method).format(
        profile=session.profile or "default",
        role=scoped.get("role_arn") or session.get_config_variable("role_arn") or "",
    )
    identity = beginning_of(str(frozen.access_key))
    account = getattr(frozen, "account_id", None)  # newer SDKs know it for some sources
    if account:
        identity += f" of account {account}"
    return Access(
        kind="temporary access key" if frozen.token else "access key",
        identity=identity,
        source=source,
        endpoint=config.host,
        region=config.region,
        expires_at=expiry_of(credentials),
    )
