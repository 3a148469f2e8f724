"""The SDK's service client, as lakecli sets it up: credentials, connections and retries."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import requests
from azure.core.exceptions import AzureError, ClientAuthenticationError
from azure.core.pipeline.transport import RequestsTransport
from azure.storage.blob import BlobServiceClient, ExponentialRetry

from lakecli.base.retry import REQUESTS, random_number
from lakecli.errors import PermissionDenied, Unreachable
from lakecli.stores.azure.login import HOW_TO_LOG_IN, AzureLogin
from lakecli.stores.bounded_requests import BoundedAdapter
from lakecli.stores.responses import ServerDate, read_xml

if TYPE_CHECKING:
    from azure.core.credentials import AccessToken, TokenCredential

CONNECTIONS = 32
"""In the client's pool: more threads than that open and close their own."""

SINGLE_LIMIT = 64 << 20
"""Bytes in one PUT, at most; more are sent in blocks."""

_DOCUMENTS = {
    ("GET", "blocklist"): ("BlockList",),
    ("GET", "list"): ("EnumerationResults", "Blobs", "NextMarker"),
    ("POST", "userdelegationkey"): ("UserDelegationKey", "SignedExpiry", "Value"),
}
"""What answers are, by the method and the parameter ``comp``, and what must be in them."""

READ_SIZE = 4 << 20
"""Bytes that a download asks for at once, and holds."""


class _Retry(ExponentialRetry):
    """The SDK's, with lakecli's delays, closing the responses after which it tries again."""

    def get_backoff_time(self, settings: dict[str, Any]) -> float:
        """Return the seconds to wait before the next attempt."""
        return REQUESTS.delay(settings["count"] - 1, random_number())

    def increment(
        self,
        settings: dict[str, Any],
        request: Any,  # noqa: ANN401 - inherited
        response: Any = None,  # noqa: ANN401 - inherited
        error: AzureError | None = None,
    ) -> bool:
        """Count an attempt; return whether there may be another."""
        may_repeat = super().increment(settings, request, response, error)
        if may_repeat and response is not None:
            response.internal_response.close()
        return may_repeat


class _Login:
    """The caller's identity. The SDK would retry a missing login; this reports it at once."""

    def __init__(self, credential: TokenCredential) -> None:
        self._credential = credential

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:  # noqa: ANN401 - as the SDK has it
        """Return a token for requests.

        Raises:
            PermissionDenied: there is no login, or it is not accepted.
            Unreachable: the login service does not answer.
        """
        try:
            return self._credential.get_token(*scopes, **options)
        except ClientAuthenticationError as error:
            raise PermissionDenied(
                "no credentials for Azure, or they are not accepted", hint=HOW_TO_LOG_IN
            ) from error
        except AzureError as error:
            raise Unreachable(
                "cannot reach Azure to log in", hint="wait and repeat the command"
            ) from error


def new_service(login: AzureLogin, *, attempts: int, server_date: ServerDate) -> BlobServiceClient:
    """Return the SDK's client of an account; see `AzureClient`."""
    import logging

    # Without a handler, Python would print their warnings.
    for name in ("azure", "msal", "urllib3"):
        logging.getLogger(name).addHandler(logging.NullHandler())
    session = requests.Session()
    session.hooks["response"] += [server_date.hook, _check_answer]
    for scheme in ("https://", "http://"):
        session.mount(scheme, BoundedAdapter(pool_maxsize=CONNECTIONS))
    retries = attempts - 1
    return BlobServiceClient(
        login.endpoint,
        credential=_credential_of(login),
        transport=RequestsTransport(
            session=session,
            connection_timeout=10,
            read_timeout=60,
            connection_data_block_size=256 << 10,
        ),
        retry_policy=_Retry(
            retry_total=retries,
            retry_connect=retries,
            retry_read=retries,
            retry_status=retries,
        ),
        max_single_put_size=SINGLE_LIMIT,
        max_single_get_size=READ_SIZE,
        max_chunk_get_size=READ_SIZE,
    )


def _check_answer(answer: requests.Response, *_: object, **__: object) -> None:
    """Refuse an answer that is no listing, no list of blocks, or no key.

    Raises:
        UnusableAnswerError: it is another document, or does not say whether another page follows.
    """
    request = answer.request
    query = dict(parse_qsl(urlsplit(request.url or "").query))
    asked = (request.method or "", query.get("comp", ""))
    if answer.ok and asked in _DOCUMENTS:
        read_xml(answer.content, *_DOCUMENTS[asked])


def _credential_of(login: AzureLogin) -> dict[str, str] | str | _Login:
    if login.key:
        return {"account_name": login.account, "account_key": login.key}
    if login.sas_token:
        return login.sas_token
    from azure.identity import DefaultAzureCredential

    # Looking for an identity of this machine takes a second if it has none.
    chosen = os.environ.get("AZURE_TOKEN_CREDENTIALS", "").strip()
    announced = any(os.environ.get(name) for name in ("IDENTITY_ENDPOINT", "MSI_ENDPOINT"))
    if chosen or announced:
        return _Login(DefaultAzureCredential())
    return _Login(DefaultAzureCredential(exclude_managed_identity_credential=True))
