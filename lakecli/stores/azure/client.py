"""Sets up Azure's SDK and sends requests through it; importing this module loads the SDK."""

import logging
import os
import random
import re
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from hashlib import md5
from http import HTTPStatus
from io import BytesIO
from threading import RLock
from typing import Any, BinaryIO
from urllib.parse import parse_qsl, urlsplit
from uuid import uuid4

import requests
from azure.core import MatchConditions
from azure.core.credentials import AccessToken, TokenCredential
from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError
from azure.core.pipeline import PipelineResponse
from azure.core.pipeline.transport import HttpResponse, RequestsTransport
from azure.storage import blob as sdk
from azure.storage.blob import BlobProperties, ContentSettings, UserDelegationKey

from lakecli.base.content_types import DEFAULT
from lakecli.base.identity import is_md5
from lakecli.base.retry import COPIES, REQUESTS, Retries
from lakecli.errors import PermissionDenied, Unreachable
from lakecli.stores import contract, responses
from lakecli.stores.answer_limits import AnswerLimits, slow_answer_of
from lakecli.stores.azure import credentials
from lakecli.stores.azure.credentials import AzureLogin
from lakecli.stores.azure.names import encode_metadata, version_of
from lakecli.stores.bounded_requests import bound_answers, session_for_login
from lakecli.stores.capabilities import PART_SIZE
from lakecli.stores.cloud_errors import one_line
from lakecli.stores.cloud_store import Failure
from lakecli.stores.contract import Attributes, Condition, Version
from lakecli.stores.obstacles import obstacle_of
from lakecli.stores.presigned_urls import LONGEST
from lakecli.stores.streams import READ_SIZE, parts_of, send_all

SINGLE_LIMIT = 64 << 20
"""Largest size of one PUT, in bytes; larger blobs are sent in blocks."""

_DOCUMENTS = {
    ("GET", "blocklist"): ("BlockList",),
    ("GET", "list"): ("EnumerationResults", "Blobs", "NextMarker"),
    ("POST", "userdelegationkey"): ("UserDelegationKey", "SignedExpiry", "Value"),
}
"""Root and required elements of responses, by method and value of the parameter ``comp``."""

PAGE_SIZE = 1_000

_ONCE = {"retry_total": 0, "retry_connect": 0, "retry_read": 0, "retry_status": 0}
"""Options of a request that is not repeated."""


def _options(attributes: Attributes) -> dict[str, Any]:
    """Return the SDK's options that set these attributes of a blob."""
    options: dict[str, Any] = {}
    kind, coding = attributes.content_type or None, attributes.content_encoding or None
    if kind or coding:
        options["content_settings"] = ContentSettings(content_type=kind, content_encoding=coding)
    if attributes.metadata:
        options["metadata"] = encode_metadata(attributes.metadata)
    return options


class AzureClient:
    """Requests about the blobs of one container; every method raises the SDK's own errors.

    Args:
        attempts: largest number of attempts for each request that may be repeated.
        scope: encryption scope of new blobs; ``""``: the container's default.
        check_writes: a function that is called with the method of each request, and raises an error
            to refuse the request.
    """

    def __init__(
        self,
        login: AzureLogin,
        container: str,
        *,
        attempts: int,
        server_date: responses.ServerDate,
        limits: AnswerLimits,
        scope: str = "",
        check_writes: Callable[[str], None],
    ) -> None:
        self._encryption: dict[str, Any] = {"encryption_scope": scope} if scope else {}
        # Without a handler, Python would print their warnings.
        for name in ("azure", "msal", "urllib3"):
            logging.getLogger(name).addHandler(logging.NullHandler())
        session = requests.Session()
        bound_answers(session, server_date, _check, limits)
        retries: dict[str, Any] = dict.fromkeys(_ONCE, attempts - 1)
        try:
            self._service = sdk.BlobServiceClient(
                login.endpoint,
                credential=_credential_of(login, limits),
                transport=_transport(session, limits, connection_data_block_size=256 << 10),
                retry_policy=_Retry(**retries),
                raw_request_hook=lambda request: check_writes(request.http_request.method),
                max_single_put_size=SINGLE_LIMIT,
                max_single_get_size=READ_SIZE,
                max_chunk_get_size=READ_SIZE,
            )
        except ValueError as error:
            raise credentials.unusable_settings(error) from error
        self._container = self._service.get_container_client(container)
        self._lock = RLock()
        self._delegated: UserDelegationKey | None = None

    def read(
        self, name: str, *, start: int = 0, length: int | None, etag: str = "", version_id: str = ""
    ) -> tuple[bytes, str]:
        """Return bytes ``[start, start + length)`` as they are stored, and the blob's ETag.

        The result for a range past the end is ``b"", ""``.

        Args:
            length: length of the range; ``None`` reads to the end.
            etag: the ETag or the MD5 that the blob must have; ``""``: any.
            version_id: ID of the version to read; ``""`` for the current blob.
        """
        is_whole = start == 0 and length is None
        try:
            span = {} if is_whole else {"offset": start, "length": length}
            download = self.open(name, etag=etag, version_id=version_id, **span)
            # The SDK reads all further pieces from the version of the first piece.
            return download.readall(), download.properties.etag
        except HttpResponseError as error:
            if not is_whole and error.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                return b"", ""
            raise

    def open(
        self,
        name: str,
        *,
        etag: str = "",
        version_id: str = "",
        **options: Any,  # noqa: ANN401 - the SDK's
    ) -> sdk.StorageStreamDownloader[bytes]:
        """Begin to read a blob, or a version of it, as it is stored; see `read`.

        Raises:
            ConditionFailed: `etag` is neither the ETag nor the MD5 of the blob.
        """
        sent = "" if is_md5(etag) else contract.tag_to_send(etag)
        if sent:
            options |= _options_of(contract.Match(Version(sent)))
        answers: deque[PipelineResponse[object, HttpResponse]] = deque(maxlen=1)
        download = self._blob(name, version_id).download_blob(
            max_concurrency=1, decompress=False, raw_response_hook=answers.append, **options
        )
        if not download.size:  # the SDK does not read the response, so its connection stays open
            answers[-1].http_response.internal_response.close()
        found = download.properties
        contract.check_matching(etag, name, str(found.etag or ""), md5_of(found))
        return download

    def describe(self, name: str, *, version_id: str = "") -> BlobProperties:
        """Return the properties of a blob, or of one version of it."""
        return self._blob(name, version_id).get_blob_properties()

    def write(
        self, name: str, data: bytes, attributes: Attributes, condition: Condition, *, repeats: bool
    ) -> Version:
        """Write a blob, by one request if it has at most `SINGLE_LIMIT` bytes; see `SdkClient`."""
        if len(data) > SINGLE_LIMIT:
            body = BytesIO(data)
            return self.write_stream(name, body.read(PART_SIZE), body, attributes, condition)
        options = self._encryption | _options(attributes)
        options |= _options_of(condition) if repeats else _once(condition)
        options |= {"length": len(data), "max_concurrency": 1, "validate_content": True}
        answer = self._blob(name).upload_blob(data, overwrite=True, **options)
        return version_of(answer["etag"])

    def write_garbled(self, name: str, data: bytes) -> None:
        """Write a blob by a request with a wrong checksum, to test whether the store notices."""
        wrong = b64encode(md5(data + b"other", usedforsecurity=False).digest()).decode()
        self._blob(name).upload_blob(
            data, overwrite=True, headers={"Content-MD5": wrong}, **self._encryption
        )

    def write_stream(
        self,
        name: str,
        first: bytes,
        rest: BinaryIO,
        attributes: Attributes,
        condition: Condition = contract.ANY,
    ) -> Version:
        """Write a blob in parallel blocks; the store deletes uncommitted blocks after a week."""
        blob = self._blob(name)
        # All uploads of a blob share one set of blocks, so each upload uses unique names.
        upload = uuid4().hex

        def stage(number: int, part: bytes) -> str:
            block, options = f"{upload}-{number:05}", self._encryption | {"validate_content": True}
            blob.stage_block(block, part, length=len(part), **options)
            return block

        return self.commit(name, send_all(parts_of(first, rest), stage), condition, attributes)

    def stage(
        self, name: str, block: str, body: bytes | BinaryIO, size: int, *, md5: str = ""
    ) -> None:
        """Send a block.

        Args:
            block: name of the block; the names of all blocks of a blob have the same length.
            md5: MD5 of the bytes in Base64, which the store verifies. With an MD5, a failed request
                is not retried, since the body may be a stream.
        """
        options: dict[str, Any] = {"headers": {"Content-MD5": md5}, **_ONCE} if md5 else {}
        self._blob(name).stage_block(block, body, length=size, **self._encryption, **options)

    def staged(self, name: str) -> list[tuple[str, int]]:
        """Return the names of the uncommitted blocks of a blob, and their sizes in bytes."""
        _, blocks = self._blob(name).get_block_list("uncommitted")
        return [(block.id, block.size) for block in blocks]

    def commit(
        self, name: str, blocks: Sequence[str], condition: Condition, attributes: Attributes
    ) -> Version:
        """Commit blocks as a blob; the store deletes all other blocks of the blob."""
        options = self._encryption | _options(attributes) | _once(condition)
        answer = self._blob(name).commit_block_list(
            [sdk.BlobBlock(block) for block in blocks], validate_content=True, **options
        )
        return version_of(answer["etag"])

    def page(
        self, prefix: str, *include: str, position: str = ""
    ) -> tuple[list[BlobProperties], str | None]:
        """Return a page of the blobs under `prefix`, and the position of the next page.

        Args:
            include: what to list in addition: ``metadata``, ``versions`` (all of them), or
                ``uncommittedblobs`` (blobs that have only uncommitted blocks).
        """
        pages: Any = self._container.list_blobs(
            name_starts_with=prefix or None, include=[*include], results_per_page=PAGE_SIZE
        ).by_page(position or None)
        found = [*next(pages, ())]
        return found, pages.continuation_token and responses.token_of(pages.continuation_token)

    def delete(self, names: Sequence[str], versions: Sequence[Version]) -> list[Failure]:
        """Delete blobs and their snapshots; see `SdkClient.delete`."""
        blobs: list[str | dict[str, Any]] = [
            {"name": name, "delete_snapshots": "include", **_options_of(contract.Match(version))}
            for name, version in zip(names, versions, strict=bool(versions))
        ]
        options: dict[str, Any] = {"delete_snapshots": "include", "raise_on_any_failure": False}
        try:
            answers = list(self._container.delete_blobs(*(blobs or names), **options))
        except (ValueError, AttributeError) as error:  # the SDK could not parse the responses
            raise responses.UnusableAnswerError("it is not one to a batch of deletions") from error
        if len(answers) != len(names):
            raise responses.UnusableAnswerError("it does not answer each request of a batch")
        return [
            (name, answer.status_code, answer.headers.get("x-ms-error-code", ""))
            for name, answer in zip(names, answers, strict=True)
            if answer.status_code >= HTTPStatus.BAD_REQUEST
        ]

    def touch(self, name: str) -> None:
        """Write a blob's metadata again, which changes the blob's time and ETag."""
        blob = self._blob(name)
        found = blob.get_blob_properties()
        options = _options_of(contract.Match(version_of(found.etag)))
        if found.encryption_scope:
            options["encryption_scope"] = found.encryption_scope
        blob.set_blob_metadata(found.metadata, **options)

    def copy(self, container: str, source: str, target: str, attributes: Attributes | None) -> str:
        """Copy a blob of any container of the account; return the store's final status.

        Args:
            attributes: the attributes of the copy; ``None``: those of the original.
        """
        origin = self._service.get_container_client(container).get_blob_client(source)
        copied = self._blob(target)
        metadata = None if attributes is None else encode_metadata(attributes.metadata)
        status = str(copied.start_copy_from_url(origin.url, metadata=metadata)["copy_status"])
        for number in Retries(COPIES).attempts():
            if number:
                status = str(copied.get_blob_properties().copy.status)
            if status != "pending":
                break
        if attributes is not None and status == "success":
            found = copied.get_blob_properties()
            wanted = ContentSettings(
                attributes.content_type or DEFAULT,
                attributes.content_encoding or None,
                content_md5=found.content_settings.content_md5,
            )
            if found.content_settings != wanted:
                copied.set_http_headers(wanted)
            if found.metadata and not metadata:  # the store copies it if it gets none
                copied.set_blob_metadata()
        return status

    def delegated_key(self, *, now: datetime, lifetime: timedelta) -> UserDelegationKey:
        """Return a key that signs for the caller's identity; it is requested once and reused."""
        with self._lock:
            known = self._delegated
            needed = now + min(lifetime, LONGEST) - timedelta(hours=1)
            if known is None or credentials.end_of(known) < needed:
                # A start in the past allows for different clocks.
                start = now - timedelta(minutes=5)
                known = self._service.get_user_delegation_key(start, start + LONGEST)
                self._delegated = known
            return known

    def _blob(self, name: str, version_id: str = "") -> sdk.BlobClient:
        return self._container.get_blob_client(name, version_id=version_id or None)


def md5_of(blob: BlobProperties) -> str:
    """Return the MD5 that the store reports for a blob, in hex digits, or ``""``."""
    return bytes(blob.content_settings.content_md5 or b"").hex()


def _once(condition: Condition) -> dict[str, Any]:
    """Return the options for a condition; with one, they also turn off retries."""
    options = _options_of(condition)
    return options | _ONCE if options else options


def _options_of(condition: Condition) -> dict[str, Any]:
    match condition:
        case contract.Absent():
            return {"match_condition": MatchConditions.IfMissing}
        case contract.Match():
            etag = f'"{condition.checked()}"'
            return {"match_condition": MatchConditions.IfNotModified, "etag": etag}
        case _:
            return {}


class _Retry(sdk.ExponentialRetry):
    """The SDK's retry policy with lakecli's delays; closes a failed response before a retry."""

    def get_backoff_time(self, settings: dict[str, Any]) -> float:
        """Return the seconds to wait before the next attempt."""
        return REQUESTS.delay(settings["count"] - 1, random.random())  # noqa: S311 - no secret

    def increment(
        self,
        settings: dict[str, Any],
        request: Any,  # noqa: ANN401 - inherited
        response: Any = None,  # noqa: ANN401 - inherited
        error: AzureError | None = None,
    ) -> bool:
        """Count an attempt; return whether another attempt is allowed."""
        if slow_answer_of(error) is not None:
            settings["total"] = min(settings["total"], 1)
        may_repeat = super().increment(settings, request, response, error)
        if may_repeat and response is not None:
            response.internal_response.close()
        return may_repeat


_LOGIN_SERVICE = "the login service of Azure"
_FAILED = re.compile(": Authentication failed: (.+)")


class _Login:
    """A credential of the SDK that converts its errors, so that a missing login is not retried."""

    def __init__(self, credential: TokenCredential) -> None:
        self._credential = credential

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:  # noqa: ANN401 - as the SDK has it
        """Return a token for requests.

        Raises:
            PermissionDenied: there is no login, or it is not accepted.
            UsageError: an environment variable of the login is not valid.
            Unreachable: the login service does not answer.
        """
        try:
            return self._credential.get_token(*scopes, **options)
        except ClientAuthenticationError as error:
            said = _FAILED.search(str(error))  # the SDK reports the causes only in this text
            raise obstacle_of(error, lambda: _LOGIN_SERVICE) or PermissionDenied(
                "no credentials for Azure, or they are not accepted"
                + (f": {one_line(said[1])}" if said else ""),
                hint=credentials.HOW_TO_LOG_IN,
            ) from error
        except AzureError as error:
            raise obstacle_of(error, lambda: _LOGIN_SERVICE) or Unreachable(
                "cannot reach Azure to log in", hint="wait and repeat the command"
            ) from error
        except ValueError as error:
            raise credentials.unusable_settings(error) from error


def _check(answer: requests.Response, *_: object, stream: bool = False, **__: object) -> None:
    """Raise an error unless a response is the listing, block list, key or range that was requested.

    Raises:
        UnusableAnswerError: the response is another document, or does not say whether more pages
            follow.
        RangeIgnoredError: the response is a whole blob, whose connection the SDK would leave open.
    """
    request = answer.request
    if stream and "x-ms-range" in request.headers and answer.status_code == HTTPStatus.OK:
        answer.close()
        raise responses.RangeIgnoredError
    query = dict(parse_qsl(urlsplit(request.url or "").query))
    asked = (request.method or "", query.get("comp", ""))
    if answer.ok and asked in _DOCUMENTS:
        responses.read_xml(answer.content, *_DOCUMENTS[asked])


def _credential_of(login: AzureLogin, limits: AnswerLimits) -> dict[str, str] | str | _Login | None:
    if login.is_anonymous:
        return None
    if login.key:
        return {"account_name": login.account, "account_key": login.key}
    if login.sas_token:
        return login.sas_token
    if login.endpoint.startswith("http:"):
        raise PermissionDenied(
            f"no key for {login.host}: without TLS, your own login is sent nowhere",
            hint=f"set {credentials.KEY} or {credentials.SAS_TOKEN}, or an endpoint with https://",
        )
    from azure.identity import DefaultAzureCredential

    # Looking for an identity of this machine takes a second if it has none.
    chosen = os.environ.get("AZURE_TOKEN_CREDENTIALS", "").strip()
    announced = any(os.environ.get(name) for name in ("IDENTITY_ENDPOINT", "MSI_ENDPOINT"))
    # Several sources of credentials share the session, so none of them may close it.
    transport = _transport(session_for_login(limits), limits, session_owner=False)
    excludes = None if chosen or announced else True
    options = {"transport": transport, "exclude_managed_identity_credential": excludes}
    return _Login(DefaultAzureCredential(retry_read=1, **options))


def _transport(session: requests.Session, limits: AnswerLimits, **options: Any) -> Any:  # noqa: ANN401 - the SDK's
    timeouts = dict(zip(("connection_timeout", "read_timeout"), limits.timeouts, strict=True))
    return RequestsTransport(session=session, **timeouts, **options)
