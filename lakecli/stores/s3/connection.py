"""Settings, credentials and clients of one S3 store; each part is created when first needed.

The SDK is botocore, the core of boto3. boto3 itself would delay the start of every command, and has
nothing more that lakecli uses.
"""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from threading import RLock
from typing import TYPE_CHECKING, Any, Final

from lakecli.base.model import Account
from lakecli.base.retry import REQUESTS
from lakecli.errors import IntegrityError
from lakecli.stores.capabilities import Access, beginning_of
from lakecli.stores.responses import ServerDate, UnusableAnswerError, log_response, region_of
from lakecli.stores.s3 import settings
from lakecli.stores.s3.errors import reading_settings, status_of

if TYPE_CHECKING:
    from lakecli.stores.answer_limits import AnswerLimits

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
"""The text for each source of credentials, by the SDK's name of the source."""


_BEGIN_OBJECTS: Final = frozenset({"CopyObject", "CreateMultipartUpload", "PutObject"})
"""Operations that take headers about encryption; S3 refuses such headers in other operations."""


class S3Connection:
    """Session, configuration, clients and clock of one store. Safe to share between threads.

    Args:
        region: region of the bucket; ``""``: the region in the SDK's configuration.
        account: the profile, endpoint and region that override the configured ones, the limits for
            slow servers, and the requirements of buckets.
        check_writes: a function that is called with the method of each request, and raises an error
            to refuse the request.

    Raises:
        IntegrityError: `region` is not the name of a region, so it did not come from AWS.
    """

    def __init__(
        self, region: str, account: Account, bucket: str, check_writes: Callable[[str], None]
    ) -> None:
        self._account = account
        self._check_writes = check_writes
        self.demands = settings.demands_of(account, bucket, os.environ)
        self.region = _recorded(account.region or region)
        self.server_date = ServerDate()
        self._lock = RLock()
        self._session: Any = None
        self._config: settings.S3Config | None = None
        self._plain: settings.PlainAccess | None = None
        self._is_plain_sought = False
        self._attempts: int | None = None
        self._clients: dict[int, Any] = {}

    def find_region(self, bucket: str) -> str:
        """Request a bucket's region from the store, and use that region from now on.

        AWS reports the true region. Other endpoints often report a placeholder, so for them a
        configured region takes precedence.
        """
        from botocore.exceptions import ClientError

        config = self.config
        try:
            answer = self.client().head_bucket(Bucket=bucket)
        except ClientError as error:
            answer = error.response
            # AWS names the region also to those who may not list the bucket.
            if status_of(error) not in {301, 400, 403} or not _said_region(answer):
                raise
        if self._account.region or (config.endpoint and config.is_region_configured):
            region = config.region
        else:
            region = region_of(_said_region(answer)) or config.region
        with self._lock:
            self.region = region
            if config.region != region:
                self._config = None
                self._clients.clear()
            self._is_plain_sought = False
        return region

    @property
    def plain_access(self) -> settings.PlainAccess | None:
        """Static keys and the configuration, found without the SDK; ``None`` if only it can."""
        with self._lock:
            if not self._is_plain_sought and not self.demands.anonymous:
                self._plain = settings.find_plain_access(
                    settings.variables_for(self._account, os.environ), region=self.region
                )
                self._is_plain_sought = True
            return self._plain

    @property
    def session(self) -> Any:  # noqa: ANN401 - the SDK is not typed
        """The SDK's session: profile, credentials, configuration."""
        with self._lock:
            if self._session is None:
                from lakecli.stores.s3.client import bound_answers

                session = settings.new_session(self._account)
                bound_answers(session, self.limits)
                self._session = session
            return self._session

    @property
    def limits(self) -> "AnswerLimits":
        """The limits on how slowly servers may answer."""
        from lakecli.stores.answer_limits import limits_of  # loads http.client

        return limits_of(self._account)

    @property
    def config(self) -> settings.S3Config:
        """The resolved endpoint, region and addressing style.

        Raises:
            UsageError: an endpoint is not the URL of a server.
            botocore.exceptions.BotoCoreError: as raised by `resolve_config`.
        """
        with self._lock:
            if self._config is None:
                plain, account = self.plain_access, self._account
                self._config = (
                    settings.resolve_config(self.session, region=self.region, account=account)
                    if plain is None
                    else plain.config
                )
            return self._config

    def client(self, *, max_attempts: int | None = None) -> Any:  # noqa: ANN401 - the SDK is not typed
        """Return a client that sends each request up to a given number of times.

        Args:
            max_attempts: largest number of attempts; ``None``: the number in ``AWS_MAX_ATTEMPTS``
                or in the profile, else the number of `retry.REQUESTS`.
        """
        with self._lock:
            if self._attempts is None:
                with reading_settings():
                    configured = self.session.get_config_variable("max_attempts")
                    self._attempts = int(configured or REQUESTS.attempts)
            attempts = self._attempts
            if max_attempts is not None:
                attempts = min(attempts, max_attempts)
            if attempts not in self._clients:
                self._clients[attempts] = self._new_client(attempts)
            return self._clients[attempts]

    def _note(self, *, http_response: Any, model: Any, **_: object) -> None:  # noqa: ANN401
        self.server_date.note(http_response.headers.get("Date"))
        log_response(model.http["method"], http_response.url, http_response.status_code)

    def _prepare(self, *, model: Any, params: dict[str, Any], **_: object) -> None:  # noqa: ANN401
        """Add the headers that the bucket requires to a request of the SDK."""
        self._check_writes(params["method"])
        params["headers"].update(self.demands.of_all)
        if model.name in _BEGIN_OBJECTS:
            params["headers"].update(self.demands.of_writes)

    def _new_client(self, attempts: int) -> Any:  # noqa: ANN401 - the SDK is not typed
        from lakecli.stores.s3.client import new_client

        if not self.demands.anonymous:
            self.loaded_credentials()  # first, so that their errors are reported as such
        client = new_client(
            self.session,
            self.config,
            attempts,
            is_anonymous=bool(self.demands.anonymous),
            # The endpoint of a profile takes precedence over a variable.
            ignores_endpoints=bool(self._account.profile),
        )
        client.meta.events.register("before-call.s3", self._prepare)
        client.meta.events.register("after-call.s3", self._note)
        return client

    def find_keys(self) -> settings.AccessKeys:
        """Return the credentials.

        This reads files and variables, and sends a request only if the credentials come from a
        server (single sign-on, instance roles). Without credentials it raises the SDK's error.
        """
        plain = self.plain_access
        if plain is not None:
            return plain.keys
        credentials = self._credentials()
        # This refreshes them if they are about to expire, so the expiry is read afterwards.
        frozen = credentials.get_frozen_credentials()
        token, end = str(frozen.token or ""), _expiry_of(credentials)
        return settings.AccessKeys(str(frozen.access_key), str(frozen.secret_key), token, end)

    def access(self) -> Access:
        """Describe the credentials in use, and where the SDK found them."""
        if source := self.demands.anonymous:
            return Access("no credentials", "", source, self.config.host, self.config.region)
        credentials, session = self._credentials(), self.session
        frozen = credentials.get_frozen_credentials()
        method = str(credentials.method)
        scoped = session.get_scoped_config()
        role = scoped.get("role_arn") or session.get_config_variable("role_arn") or ""
        profile = session.profile or "default"
        source = _SOURCES.get(method, method).format(profile=profile, role=role)
        identity = beginning_of(str(frozen.access_key))
        account = getattr(frozen, "account_id", None)  # newer SDKs know it for some sources
        if account:
            identity += f" of account {account}"
        kind = "temporary access key" if frozen.token else "access key"
        host, region = self.config.host, self.config.region
        return Access(kind, identity, source, host, region, _expiry_of(credentials))

    def loaded_credentials(self) -> Any:  # noqa: ANN401 - the SDK is not typed
        """Return the SDK's credentials, parsed and not expired; ``None`` if there are none.

        Raises:
            PermissionDenied: the credentials, or their expiry, are malformed.
            botocore.exceptions.BotoCoreError: the credentials cannot be loaded.
        """
        with reading_settings():
            credentials = self.session.get_credentials()
            if credentials is not None:
                credentials.get_frozen_credentials()
        return credentials

    def _credentials(self) -> Any:  # noqa: ANN401 - the SDK is not typed
        from botocore.exceptions import NoCredentialsError

        credentials = self.loaded_credentials()
        if credentials is None:
            raise NoCredentialsError
        return credentials


def _said_region(answer: Mapping[str, Any]) -> str:
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return str(headers.get("x-amz-bucket-region", ""))


def _recorded(region: str) -> str:
    """Check and return a recorded region, which becomes part of the host that gets credentials."""
    try:
        return region_of(region)
    except UnusableAnswerError as error:
        raise IntegrityError(
            f"the record of the bucket cannot be used: {error}",
            hint="clone the repository again; do not use this record, it may be forged",
        ) from None


def _expiry_of(credentials: Any) -> datetime | None:  # noqa: ANN401 - the SDK is not typed
    """Return when temporary credentials expire; ``None`` if they cannot be refreshed."""
    # The SDK has no public name for it: `refresh_needed` returns no time.
    end = getattr(credentials, "_expiry_time", None)
    return end.astimezone(UTC) if isinstance(end, datetime) else None
