"""What the requests of one S3 store share; each part is made when it is first needed.

The SDK is botocore, the core of boto3: boto3 adds 40 ms to every command and nothing that lakecli
uses.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from threading import RLock
from typing import Any

from lakecli.base.model import NO_ACCOUNT, Account
from lakecli.base.retry import REQUESTS
from lakecli.errors import IntegrityError
from lakecli.stores.responses import ServerDate, UnusableAnswerError, log_response, region_of
from lakecli.stores.s3.config import S3Config, resolve_config, variables_for
from lakecli.stores.s3.direct_settings import PlainAccess, find_plain_access
from lakecli.stores.s3.errors import status_of


class S3Connection:
    """Session, configuration, clients and clock of one store. Safe to share between threads.

    Args:
        region: of the bucket; ``""`` leaves it to the SDK's configuration.
        account: the profile, endpoint and region to use instead of the configured ones.

    Raises:
        IntegrityError: the region is no name of one, so it was not learned from AWS.
    """

    def __init__(self, region: str, account: Account = NO_ACCOUNT) -> None:
        self._account = account
        self.region = _recorded(account.region or region)
        self.server_date = ServerDate()
        self._lock = RLock()
        self._session: Any = None
        self._config: S3Config | None = None
        self._plain: PlainAccess | None = None
        self._is_plain_sought = False
        self._attempts: int | None = None
        self._clients: dict[int, Any] = {}

    def find_region(self, bucket: str) -> str:
        """Ask the store for a bucket's region, and use it from now on.

        AWS's answer counts. Other endpoints often answer with a placeholder, so a region that is
        configured for one of those wins.
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
    def plain_access(self) -> PlainAccess | None:
        """Static keys and the configuration, if they can be found without the SDK.

        Raises:
            UsageError: an endpoint that is no URL of a server.
        """
        with self._lock:
            if not self._is_plain_sought:
                self._plain = find_plain_access(
                    variables_for(self._account, os.environ), region=self.region
                )
                self._is_plain_sought = True
            return self._plain

    @property
    def session(self) -> Any:  # noqa: ANN401 - the SDK is not typed
        """The SDK's session: profile, credentials, configuration."""
        with self._lock:
            if self._session is None:
                from botocore.session import Session

                from lakecli.stores.s3.sdk_http import CheckedParsers

                self._session = Session(profile=self._account.profile or None)
                self._session.register_component("response_parser_factory", CheckedParsers())
            return self._session

    @property
    def config(self) -> S3Config:
        """Where requests go.

        Raises:
            UsageError: an endpoint that is no URL of a server.
            botocore.exceptions.BotoCoreError: see `resolve_config`.
        """
        config = self._config
        if config is None:
            with self._lock:
                if self._config is None:
                    plain = self.plain_access
                    self._config = plain.config if plain is not None else self._config_of_sdk()
                config = self._config
        return config

    def _config_of_sdk(self) -> S3Config:
        return resolve_config(self.session, region=self.region, account=self._account)

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

    def _note(self, *, http_response: Any, model: Any, **_: object) -> None:  # noqa: ANN401
        self.server_date.note(http_response.headers.get("Date"))
        log_response(model.http["method"], http_response.url, http_response.status_code)

    def _new_client(self, attempts: int) -> Any:  # noqa: ANN401 - the SDK is not typed
        from botocore.config import Config

        from lakecli.stores.s3.direct_http import CONNECT_TIMEOUT, CONNECTIONS, READ_TIMEOUT
        from lakecli.stores.s3.sdk_http import SdkHttp

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
                # `config` has the endpoint: that of a profile counts before a variable.
                ignore_configured_endpoint_urls=bool(self._account.profile),
            ),
        )
        http = SdkHttp(client.meta.endpoint_url, self.session.get_config_variable("ca_bundle"))
        client.meta.events.register("before-send.s3", http.answer_to)
        client.meta.events.register("after-call.s3", self._note)
        if self.config.endpoint:
            client.meta.events.register("before-call.s3", _stay)
        return client


def _said_region(answer: Mapping[str, Any]) -> str:
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return str(headers.get("x-amz-bucket-region", ""))


def _recorded(region: str) -> str:
    """Return the region of a record, which becomes part of the host that gets the credentials."""
    try:
        return region_of(region)
    except UnusableAnswerError as error:
        raise IntegrityError(
            f"the record of the bucket cannot be used: {error}",
            hint="clone the repository again; do not use this record, it may be forged",
        ) from None


def _stay(*, context: dict[str, Any], **_: object) -> None:
    """Tell the SDK that it has followed a redirect to the bucket's region.

    Otherwise it would loop on a server that answers every request with a redirect, as a proxy from
    http to https does.
    """
    context.setdefault("s3_redirect", {})["redirected"] = True
