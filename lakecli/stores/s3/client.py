"""Creates the SDK's client, with an HTTP client that limits responses.

The SDK alone would read a response of any length, and treat other XML as an empty listing. In the
SDK's event ``before-send``, `SdkHttp.answer` sends the request instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from io import BytesIO
from threading import Lock
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from botocore import UNSIGNED
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from botocore.exceptions import ConnectionClosedError, IncompleteReadError, ResponseStreamingError
from botocore.httpsession import URLLib3Session
from botocore.parsers import ResponseParser, ResponseParserFactory
from botocore.response import StreamingBody
from botocore.utils import ContainerMetadataFetcher, get_environ_proxies
from urllib3 import HTTPResponse

from lakecli.stores.answer_limits import CONNECTIONS, AnswerLimits, bounded_pools, slow_answer_of
from lakecli.stores.responses import MAX_ANSWER, MAX_REFUSAL, UnusableAnswerError, read_xml
from lakecli.stores.s3.settings import S3Config, ca_bundle_of
from lakecli.stores.streams import read_exactly

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest
    from botocore.session import Session

_DOCUMENTS: Final = {
    "CompleteMultipartUpload": "CompleteMultipartUploadResult",
    "CopyObject": "CopyObjectResult",
    "DeleteObjects": "DeleteResult",
    "GetBucketVersioning": "VersioningConfiguration",
    "ListMultipartUploads": "ListMultipartUploadsResult",
    "ListObjectVersions": "ListVersionsResult ListBucketVersionsResult ListBucketResult",
    "ListObjectsV2": "ListBucketResult",
    "ListParts": "ListPartsResult",
    "UploadPartCopy": "CopyPartResult",
}
"""The root elements of responses: first S3's name of the element, then the names on other servers.

The response to the start of an upload is checked by its ID only.
"""

_LISTINGS: Final = frozenset({"ListObjectVersions", "ListObjectsV2"})
"""Listings of objects, which must say whether another page follows."""

_WORK: Final = frozenset({"CompleteMultipartUpload", "CopyObject", "UploadPartCopy"})
"""Operations for which S3 sends status 200 at once, and then spaces until they are done."""


def new_client(
    session: Session,
    config: S3Config,
    attempts: int,
    *,
    is_anonymous: bool,
    ignores_endpoints: bool,
) -> Any:  # noqa: ANN401 - the SDK is not typed
    """Return a client of S3.

    Args:
        attempts: largest number of attempts for each request.
        is_anonymous: whether requests are sent without a signature.
        ignores_endpoints: whether to ignore configured endpoints; `config` has the one to use.
    """
    client = session.create_client(
        "s3",
        region_name=config.region,
        endpoint_url=config.endpoint or None,
        config=Config(
            # For endpoints other than AWS, the SDK would fall back to Signature Version 2.
            signature_version=UNSIGNED if is_anonymous else "s3v4",
            s3={"addressing_style": config.addressing_style},
            retries={"mode": "standard", "total_max_attempts": attempts},
            ignore_configured_endpoint_urls=ignores_endpoints,
        ),
    )
    client.meta.events.register_first("needs-retry.s3", _stop_waiting)
    if config.endpoint:
        client.meta.events.register("before-call.s3", _stay)
    return client


def _stay(*, context: dict[str, Any], **_: object) -> None:
    """Make the SDK believe that it has already followed a redirect to the bucket's region.

    Otherwise it would loop if a server redirects every request, as a proxy from http to https does.
    """
    context.setdefault("s3_redirect", {})["redirected"] = True


def _stop_waiting(*, attempts: int, caught_exception: Exception | None = None, **_: object) -> None:
    """If a server was too slow twice, raise its error instead of trying again."""
    if caught_exception is not None and attempts > 1 and slow_answer_of(caught_exception):
        raise caught_exception


def bound_answers(session: Session, limits: AnswerLimits) -> None:
    """Limit the responses to all requests of an SDK session, including requests for credentials."""
    session.register_component("response_parser_factory", CheckedParsers())
    ca_bundle = session.get_config_variable("ca_bundle")
    session.register("before-send", SdkHttp(ca_bundle, limits).answer)
    # The metadata services for the roles of this machine are requested without a client.
    machine = SdkHttp(None, limits, session.get_config_variable("metadata_service_timeout"))
    container = SdkHttp(None, limits, ContainerMetadataFetcher.TIMEOUT_SECONDS, proxies={})
    # Public names could only replace the whole search for credentials, so use private ones.
    sources = session.get_component("credential_provider")
    sources.get_provider("iam-role")._role_fetcher._session = machine  # noqa: SLF001
    sources.get_provider("container-role")._fetcher._session = container  # noqa: SLF001


class _BoundedSession(URLLib3Session):  # type: ignore[misc] # the SDK is not typed
    """The SDK's HTTP client, whose connections enforce limits."""

    def __init__(self, limits: AnswerLimits, **options: object) -> None:
        super().__init__(max_pool_connections=CONNECTIONS, **options)
        # All pool managers of the session share this mapping, with or without a proxy.
        kinds = self._pool_classes_by_scheme
        kinds.update(bounded_pools(kinds, limits))


class CheckedParsers(ResponseParserFactory):  # type: ignore[misc] # the SDK is not typed
    """Creates response parsers that raise `UnusableAnswerError` for a malformed number or time."""

    def create_parser(self, protocol_name: str) -> ResponseParser:
        """Return the parser for responses in one of AWS's protocols, such as ``rest-xml``."""
        parser = super().create_parser(protocol_name)
        parse = parser.parse

        def checked(response: Any, shape: Any) -> Any:  # noqa: ANN401 - the SDK is not typed
            try:
                return parse(response, shape)
            except (ValueError, RuntimeError, OverflowError):
                if isinstance(response["body"], StreamingBody):
                    response["body"].close()
                raise UnusableAnswerError("a number or a time in it is malformed") from None

        parser.parse = checked
        return parser


class SdkHttp:
    """Sends the requests of a session of the SDK; safe to share between threads.

    Args:
        ca_bundle: the file of trusted certificates in AWS's configuration.
        timeout: seconds for connecting and for each pause, instead of the values in `limits`.
        proxies: URLs of proxies by scheme; ``None``: the proxies in the environment.
    """

    def __init__(
        self,
        ca_bundle: str | None,
        limits: AnswerLimits,
        timeout: float | None = None,
        *,
        proxies: Mapping[str, str] | None = None,
    ) -> None:
        self._verify = ca_bundle_of(ca_bundle) or True
        self._limits = limits
        self._timeouts = limits.timeouts if timeout is None else (timeout, timeout)
        self._proxies = proxies
        self._lock = Lock()
        self._sessions: dict[tuple[str, bool], _BoundedSession] = {}

    def answer(self, *, request: AWSPreparedRequest, event_name: str, **_: object) -> AWSResponse:
        """Send a request of the SDK's client; `event_name` ends with the name of the operation.

        Raises:
            UnusableAnswerError: the response is too long, or does not match the operation.
        """
        operation, is_stream = event_name.rpartition(".")[2], request.stream_output
        answer = self.send(request, is_work=operation in _WORK)
        if not is_stream and answer.status_code < HTTPStatus.MULTIPLE_CHOICES:
            _check(operation, answer.content)
        return answer

    def send(self, request: AWSPreparedRequest, *, is_work: bool = False) -> AWSResponse:
        """Send a request; read the response, unless it is an object that the caller streams.

        Args:
            is_work: whether the response may begin long before the server has finished the
                operation.

        Raises:
            botocore.exceptions.HTTPClientError: the connection failed or broke.
            UnusableAnswerError: the response is too long.
        """
        is_stream, request.stream_output = request.stream_output, True
        answer = self._session_for(request.url, is_work=is_work).send(request)
        is_refusal = answer.status_code >= HTTPStatus.MULTIPLE_CHOICES
        if is_stream and not is_refusal:
            return answer
        length = None if request.method == "HEAD" else answer.headers.get("content-length")
        if length is not None and not length.isdecimal():
            answer.raw.close()
            raise UnusableAnswerError("it does not say how long it is")
        body = StreamingBody(answer.raw, length)
        limit = MAX_REFUSAL if is_refusal else MAX_ANSWER
        try:
            data = read_exactly(body, limit + 1)
        except (IncompleteReadError, ResponseStreamingError) as error:
            body.close()
            raise ConnectionClosedError(
                error=error, request=request, endpoint_url=request.url
            ) from error
        if len(data) > limit:
            body.close()
            if not is_refusal:
                raise UnusableAnswerError(f"it has more than {limit:,} bytes")
            data = b""  # the status says enough
        read = HTTPResponse(BytesIO(data), preload_content=False)
        return AWSResponse(answer.url, answer.status_code, answer.headers, read)

    def _session_for(self, url: str, *, is_work: bool) -> _BoundedSession:
        parts = urlsplit(url)
        server = f"{parts.scheme}://{parts.netloc}", is_work
        with self._lock:
            if server not in self._sessions:
                self._sessions[server] = _BoundedSession(
                    self._limits.for_work() if is_work else self._limits,
                    verify=self._verify,
                    proxies=get_environ_proxies(url) if self._proxies is None else self._proxies,
                    timeout=self._timeouts,
                )
            return self._sessions[server]


def _check(operation: str, body: bytes) -> None:
    """Raise `UnusableAnswerError` if a body is not the document that the operation returns."""
    if operation in _DOCUMENTS:
        root, *others = _DOCUMENTS[operation].split()
        # The SDK treats the root `Error` as an error, whatever the status.
        also = frozenset({f"{operation}Result", f"{operation}Response", "Error", *others})
        needs = ("IsTruncated",) if operation in _LISTINGS else ()
        read_xml(body, root, *needs, also=also)
