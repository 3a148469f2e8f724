"""The requests of Google Cloud Storage's SDK; importing this module loads the SDK.

A condition always has a generation as a number: for the SDK, the generation ``None`` means "no
condition". The SDK also reports the generation ``None`` after a download if a proxy has removed the
header that contains the generation.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import requests
import urllib3
from google.api_core import exceptions
from google.api_core.exceptions import NotFound
from google.api_core.retry import Retry
from google.auth.exceptions import TransportError
from google.auth.transport.requests import AuthorizedSession
from google.cloud.storage import Blob, Bucket, Client
from google.cloud.storage.batch import Batch
from google_crc32c import value as crc32c

from lakecli.base.retry import REQUESTS
from lakecli.errors import Unsupported
from lakecli.stores.answer_limits import slow_answer_of
from lakecli.stores.bounded_requests import bound_answers
from lakecli.stores.capabilities import PART_SIZE
from lakecli.stores.cloud_store import Failure
from lakecli.stores.contract import PLAIN, Attributes, Condition, Match, Version
from lakecli.stores.gs.credentials import DEFAULT_DOMAIN, KMS_KEY_HEADER, GsLogin
from lakecli.stores.gs.errors import TRANSIENT_STATUS
from lakecli.stores.gs.generations import generation_for, version_of
from lakecli.stores.responses import ServerDate, UnusableAnswerError, read_json, token_of
from lakecli.stores.streams import read_exactly

PAGE_SIZE = 1_000
PAGE_FIELDS = "kind,nextPageToken,items(name,size,timeCreated,generation,etag,md5Hash)"
_LISTING = "storage#objects"
_LISTING_PATH = re.compile(r"/storage/v1/b/[^/]+/o\Z")
_GENERATION = re.compile("[0-9]{1,18}", re.ASCII)
_OF_XML = re.compile(r"(^|&)(uploads|uploadId)=")
_NO_SUCH_METHOD = frozenset({400, 404, 405, 501})
"""Statuses of servers without multipart uploads, unless the body of the response is XML."""


class ObjectPiece(NamedTuple):
    """Part of an object, and metadata of the full object if the response has it.

    Attributes:
        crc32c: CRC32C of the full object, in Base64.
        tags: ETag of the object, and its MD5 in hex digits.
    """

    data: bytes
    generation: int | None
    crc32c: str | None
    tags: tuple[str, str] = ("", "")


class GsClient:
    """Requests about the objects of one bucket; every method raises the SDK's own errors.

    Args:
        attempts: largest number of attempts for each request that may be repeated.
        project: project that pays for the requests; ``""``: the bucket's own.
        kms_key: KMS key that encrypts new objects; ``""``: the bucket's default.
    """

    def __init__(
        self,
        login: GsLogin,
        bucket: str,
        *,
        attempts: int,
        server_date: ServerDate,
        project: str = "",
        kms_key: str = "",
    ) -> None:
        self._login = login
        self._timeout = login.limits.timeouts
        self._client, self._session = _new_client(login, server_date)
        self._project = project or None
        self._kms_key = kms_key or None
        self._bucket: Bucket = self._client.bucket(bucket, user_project=self._project)
        self._has_batches = True
        self._retry = _Attempts(attempts)
        self._options: dict[str, Any] = {"timeout": self._timeout, "retry": self._retry}

    def read(
        self,
        name: str,
        *,
        start: int = 0,
        end: int | None = None,
        etag: str = "",
        generation: int | None = None,
    ) -> ObjectPiece:
        """Read bytes ``[start, end)``; a range past the end is empty.

        Args:
            start: first byte; a negative number counts from the end, then `end` must be ``None``.
            end: position after the last byte; ``None`` reads to the end of the object.
            etag: ETag that the object must have; ``""``: any.
            generation: generation to read; ``None``: the current one.
        """
        blob = self._bucket.blob(name, generation=generation)
        is_whole = start == 0 and end is None
        try:
            data = blob.download_as_bytes(
                start=None if is_whole else start,
                end=None if end is None else end - 1,
                raw_download=True,  # as it is stored, compressed or not
                if_etag_match=etag or None,
                checksum="crc32c" if is_whole else None,
                **self._options,
            )
        except exceptions.RequestRangeNotSatisfiable:
            return ObjectPiece(b"", generation, None)
        found = blob.generation
        tags = str(blob.etag or ""), md5_of(blob)
        return ObjectPiece(data, None if found is None else int(found), blob.crc32c, tags)

    def describe(self, name: str, *, generation: int | None = None) -> Blob:
        """Return the properties of an object, or of one generation of it."""
        blob = self._bucket.blob(name, generation=generation)
        blob.reload(**self._options)
        return blob

    def write(
        self, name: str, data: bytes, attributes: Attributes, condition: Condition, *, repeats: bool
    ) -> Version:
        """Write an object by one request, or by several if it is large; see `SdkClient.write`."""
        generation = generation_for(condition)
        blob = self._new_blob(name, attributes)
        retry = self._retry if repeats or generation is None else None
        options = self._options | {"if_generation_match": generation, "retry": retry}
        blob.upload_from_string(data, blob.content_type, checksum="crc32c", **options)
        return version_of(blob)

    def write_garbled(self, name: str, data: bytes) -> None:
        """Write an object by a request with a wrong checksum, to test whether the store notices."""
        blob = self._new_blob(name, PLAIN)
        blob.crc32c = b64encode((crc32c(data) ^ 1).to_bytes(4, "big")).decode()
        blob.upload_from_string(data, checksum=None, timeout=self._timeout, retry=None)

    def write_stream(
        self, name: str, first: bytes, rest: BinaryIO, attributes: Attributes
    ) -> Version:
        """Write an object in chunks of `PART_SIZE`, one at a time."""
        blob = self._new_blob(name, attributes)
        body, kind = _CountedStream(first, rest), blob.content_type
        blob.upload_from_file(body, content_type=kind, checksum="crc32c", **self._options)
        return version_of(blob)

    def page(
        self, prefix: str, *, start: str = "", position: str = ""
    ) -> tuple[list[Blob], str | None]:
        """Return a page of a listing, and the position of the next page.

        Args:
            start: the first name to list; ``""``: the first name with the prefix.
        """
        listed = self._client.list_blobs(
            self._bucket,
            prefix=prefix or None,
            start_offset=start or None,
            fields=PAGE_FIELDS,
            page_size=PAGE_SIZE,
            page_token=position or None,
            **self._options,
        )
        found = [*next(listed.pages, ())]
        return found, listed.next_page_token and token_of(listed.next_page_token)

    def keeps_versions(self) -> bool:
        """Return whether the bucket has versioning enabled; needs ``storage.buckets.get``."""
        bucket = self._client.bucket(self._bucket.name, user_project=self._project)
        bucket.reload(**self._options)
        return bool(bucket.versioning_enabled)

    def delete(self, names: Sequence[str], versions: Sequence[Version]) -> list[Failure]:
        """Delete objects; see `SdkClient.delete`.

        If the response to a batch does not have a part for each deletion, they are sent one by one.
        """
        generations = [generation_for(Match(version)) for version in versions]
        wanted = list(zip(names, generations or [None] * len(names), strict=True))
        answers: Sequence[int] = self._delete_batch(wanted) if self._has_batches else ()
        if len(answers) != len(wanted):
            self._has_batches = False
            answers = [self._delete_one(*each) for each in wanted]
        failed = []
        for (name, generation), answer in zip(wanted, answers, strict=True):
            status = answer
            if status in TRANSIENT_STATUS:
                status = self._delete_one(name, generation)
            if status >= HTTPStatus.BAD_REQUEST:
                failed.append((name, status, ""))
        return failed

    def _delete_batch(self, wanted: Sequence[tuple[str, int | None]]) -> Sequence[int]:
        """Delete objects by one request; return the status of each deletion that has a response."""
        try:
            with _Deletions(self._client, self._retry) as deletions:
                options = self._options | {"retry": None}
                for name, generation in wanted:
                    self._bucket.delete_blob(name, if_generation_match=generation, **options)
        except ValueError:  # the SDK could not parse the response as one to a batch
            return ()
        return [answer.status_code for answer in deletions.answers]

    def copy(
        self, bucket: str, source: str, target: str, attributes: Attributes, *, project: str = ""
    ) -> None:
        """Copy an object of any bucket; a large object takes several requests.

        If `attributes` is empty, the copy gets the attributes of the original. A request can name
        only one paying project: the project of this bucket, or if it has none, `project`, which is
        the source's.
        """
        payer = self._project or project or None
        origin = self._client.bucket(bucket, user_project=payer).blob(source)
        if self._kms_key and attributes == PLAIN:
            # The KMS key is an attribute, too, so `attributes` must not stay empty.
            origin.reload(**self._options)
            kind, coding = origin.content_type or "", origin.content_encoding or ""
            attributes = Attributes(kind, origin.metadata or {}, coding)
        own = self._client.bucket(self._bucket.name, user_project=payer)
        copied = self._new_blob(target, attributes, own)
        token: str | None = None
        while (token := copied.rewrite(origin, token=token, **self._options)[0]) is not None:
            pass

    def ask_xml(
        self,
        method: str,
        name: str,
        query: Mapping[str, str],
        *,
        body: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        may_repeat: bool = True,
    ) -> requests.Response:
        """Send a request of the XML API; only that API has multipart uploads.

        Args:
            name: name of an object; ``""``: the request is about the bucket.
            body: a body of known length that can be read several times.
            may_repeat: whether to repeat the request after a failure, although the failed request
                may have had an effect.

        Raises:
            Unsupported: the server has no multipart uploads, and answers in the form of another
                API.
        """
        path = quote(self._bucket.name) + (f"/{quote(name, safe='~')}" if name else "")
        url = f"{self._login.endpoint}/{path}?{urlencode(query)}"
        sent = dict(headers or {})
        if self._project:
            sent["x-goog-user-project"] = self._project
        if self._kms_key and "uploads" in query and method == "POST":
            sent[KMS_KEY_HEADER] = self._kms_key

        def send() -> requests.Response:
            answer: requests.Response = self._session.request(
                method, url, data=body, headers=sent, timeout=self._timeout
            )
            is_unknown = answer.status_code in _NO_SUCH_METHOD and "uploads" in query
            if is_unknown and not answer.content.startswith(b"<"):
                host = self._login.host
                raise Unsupported(f"{host} has no uploads in parts, as Google's XML API has")
            if answer.status_code >= HTTPStatus.BAD_REQUEST:
                raise exceptions.from_http_status(answer.status_code, "", response=answer)  # type: ignore[no-untyped-call]
            return answer

        answer: requests.Response = (self._retry(send) if may_repeat else send)()
        return answer

    def _new_blob(self, name: str, attributes: Attributes, bucket: Bucket | None = None) -> Blob:
        blob = (bucket or self._bucket).blob(name, chunk_size=PART_SIZE, kms_key_name=self._kms_key)
        if attributes.content_type:
            blob.content_type = attributes.content_type
        if attributes.content_encoding:
            blob.content_encoding = attributes.content_encoding
        if attributes.metadata:
            blob.metadata = dict(attributes.metadata)
        return blob

    def _delete_one(self, name: str, generation: int | None) -> int:
        try:
            self._bucket.delete_blob(name, if_generation_match=generation, **self._options)
        except (NotFound, exceptions.PreconditionFailed) as error:
            return HTTPStatus(error.code)
        if not self._has_batches:
            self._check_deleted(name, generation)
        return HTTPStatus.NO_CONTENT

    def _check_deleted(self, name: str, generation: int | None) -> None:
        """Check that a deleted object is gone: some servers without batches report any success.

        Raises:
            UnusableAnswerError: the object still exists.
        """
        try:
            found = self.describe(name)
        except NotFound:
            return
        if generation is None or found.generation in (None, generation):
            raise UnusableAnswerError("an object is still there after its deletion was answered")


def md5_of(blob: Blob) -> str:
    """Return the MD5 that the store reports for an object, in hex digits, or ``""``."""
    try:
        return b64decode(blob.md5_hash or "").hex()
    except (TypeError, ValueError) as error:
        raise UnusableAnswerError("the MD5 of an object is malformed") from error


class _CountedStream:
    """A body of unknown size for the SDK's upload, which needs its position."""

    def __init__(self, first: bytes, rest: BinaryIO) -> None:
        self._first = first
        self._rest = rest
        self._position = 0

    def tell(self) -> int:
        """Return how many bytes have been read."""
        return self._position

    def read(self, size: int) -> bytes:
        """Read `size` bytes, fewer only at the end."""
        data, self._first = self._first[:size], self._first[size:]
        if len(data) < size:
            data += read_exactly(self._rest, size - len(data))
        self._position += len(data)
        return data


class _Attempts(Retry):
    """Retries a request after transient failures, up to a number of attempts."""

    def __init__(self, count: int) -> None:
        super().__init__(
            predicate=_is_transient,
            initial=REQUESTS.first_delay,
            maximum=REQUESTS.longest_delay,
            timeout=None,
        )
        self.count = count

    def __call__(
        self, func: Callable[..., Any], on_error: Callable[[Exception], Any] | None = None
    ) -> Callable[..., Any]:
        """Return a function that calls `func`, and calls it again after transient failures."""
        del on_error  # unused
        repeat = super().__call__

        def repeated(*arguments: object, **options: object) -> object:
            left = self.count

            def spend(error: Exception) -> None:
                nonlocal left
                left -= 1
                if slow_answer_of(error) is not None:
                    left = min(left, 1)
                if left <= 0:
                    raise error
                response = getattr(error, "response", None)
                if response is not None:  # a download leaves its response open
                    response.close()

            return repeat(func, spend)(*arguments, **options)

        return repeated


_BROKEN = (
    ConnectionError,
    requests.ConnectionError,
    requests.Timeout,
    TransportError,
    requests.exceptions.ChunkedEncodingError,
    urllib3.exceptions.HTTPError,
)


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, exceptions.GoogleAPICallError):
        return error.code in TRANSIENT_STATUS
    response = getattr(error, "response", None)
    if response is not None:  # an error of the SDK's uploads or downloads
        return getattr(response, "status_code", 0) in TRANSIENT_STATUS
    return isinstance(error, _BROKEN)


class _Deletions(Batch):  # type: ignore[misc] # the SDK is not typed
    """A batch of deletions that keeps the responses instead of raising the last error."""

    def __init__(self, client: Client, retry: Retry) -> None:
        super().__init__(client, raise_exception=False)
        self._retry = retry
        self.answers: list[Any] = []

    def finish(self, raise_exception: bool = False) -> list[Any]:  # noqa: FBT001, FBT002 - inherited
        """Send all deletions by one request."""
        del raise_exception
        self.answers = self._retry(super().finish)(raise_exception=False)
        return self.answers


def _new_client(login: GsLogin, server_date: ServerDate) -> tuple[Client, requests.Session]:
    """Return the SDK's client, and its session, which adds the credentials to requests."""
    options: dict[str, Any] = {}
    if not login.emulator or login.check_writes is not None:
        options["credentials"] = login.credentials
        sender: Any = AuthorizedSession  # the SDK is not typed
        options["_http"] = sender(login.credentials, auth_request=login.request())
        options["_http"].configure_mtls_channel()
        domain = login.credentials.universe_domain
        if domain != DEFAULT_DOMAIN:
            options["client_options"] = {"universe_domain": domain}
    client = Client(project=None, **options)
    # Otherwise some versions of the SDK request the bucket's properties in a thread of their own,
    # which needs a permission that users of objects may lack.
    client._bucket_metadata_cache = None  # noqa: SLF001 - there is only a variable for all
    # The SDK's own guide uses this private name to enlarge the pool; there is no public name.
    session: requests.Session = client._http  # noqa: SLF001
    bound_answers(session, server_date, _check, login.limits)
    return client, session


def _check(answer: requests.Response, *_: object, stream: bool = False, **__: object) -> None:
    """Raise `UnusableAnswerError` for a malformed generation, or JSON of another kind."""
    if not _GENERATION.fullmatch(answer.headers.get("X-Goog-Generation", "0")):
        answer.close()
        raise UnusableAnswerError("its generation is malformed")  # before the SDK converts it
    url = urlsplit(answer.request.url or "")
    is_json = "/storage/v1/" in url.path and not url.path.endswith("/batch/storage/v1")
    if stream or not is_json or _OF_XML.search(url.query) or not answer.ok:
        return
    method = answer.request.method
    if method == "DELETE" and answer.content.strip() == b"null":
        return  # the response of some servers to a deletion; Google's response has no body
    is_read = method == "GET"
    is_listing = is_read and _LISTING_PATH.search(url.path) is not None
    if is_read or answer.content:
        read_json(answer.content, _LISTING if is_listing else "")
