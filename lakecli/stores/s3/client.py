"""The SDK's client, which sends requests by its own HTTP client and reads answers within bounds.

The SDK itself reads an answer whole, however long it is, and takes any XML for a listing of
nothing. Its event ``before-send`` lets another function send a request; see `SdkHttp.answer_to`.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from botocore.awsrequest import AWSResponse
from botocore.config import Config
from botocore.exceptions import ConnectionClosedError, IncompleteReadError, ResponseStreamingError
from botocore.httpsession import URLLib3Session
from botocore.parsers import ResponseParser, ResponseParserFactory
from botocore.response import StreamingBody
from botocore.utils import get_environ_proxies

from lakecli.stores.responses import MAX_ANSWER, MAX_REFUSAL, UnusableAnswerError, read_xml
from lakecli.stores.s3.direct_http import CONNECT_TIMEOUT, READ_TIMEOUT
from lakecli.stores.s3.settings import S3Config, ca_bundle_of
from lakecli.stores.streams import read_exactly

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest
    from botocore.session import Session

CONNECTIONS: Final = 32
"""In a client's pool: more threads than that open and close their own."""

_LISTINGS: Final = {
    "ListObjectVersions": "ListVersionsResult",
    "ListObjectsV2": "ListBucketResult",
}
"""The root elements of listings of objects, which must say whether another page follows."""

_ANSWERS: Final = {
    "CompleteMultipartUpload": "CompleteMultipartUploadResult",
    "CopyObject": "CopyObjectResult",
    "DeleteObjects": "DeleteResult",
    "GetBucketVersioning": "VersioningConfiguration",
    "ListMultipartUploads": "ListMultipartUploadsResult",
    "ListParts": "ListPartsResult",
    "UploadPartCopy": "CopyPartResult",
}
"""The root elements of other answers; a started upload has an ID."""


def new_client(
    session: Session,
    config: S3Config,
    attempts: int,
    note: Callable[..., None],
    *,
    ignores_endpoints: bool,
) -> Any:  # noqa: ANN401 - the SDK is not typed
    """Return a client of S3.

    Args:
        session: of the SDK.
        config: where requests go.
        attempts: of each request, at most.
        note: called with each answer.
        ignores_endpoints: do not look for a configured endpoint; `config` has it.
    """
    client = session.create_client(
        "s3",
        region_name=config.region,
        endpoint_url=config.endpoint or None,
        config=Config(
            signature_version="s3v4",  # for other endpoints the SDK would fall back to v2
            s3={"addressing_style": config.addressing_style},
            retries={"mode": "standard", "total_max_attempts": attempts},
            max_pool_connections=CONNECTIONS,
            connect_timeout=CONNECT_TIMEOUT,
            read_timeout=READ_TIMEOUT,
            ignore_configured_endpoint_urls=ignores_endpoints,
        ),
    )
    http = SdkHttp(client.meta.endpoint_url, session.get_config_variable("ca_bundle"))
    client.meta.events.register("before-send.s3", http.answer_to)
    client.meta.events.register("after-call.s3", note)
    if config.endpoint:
        client.meta.events.register("before-call.s3", _stay)
    return client


def _stay(*, context: dict[str, Any], **_: object) -> None:
    """Tell the SDK that it has followed a redirect to the bucket's region.

    Otherwise it would loop on a server that answers every request with a redirect, as a proxy from
    http to https does.
    """
    context.setdefault("s3_redirect", {})["redirected"] = True


class _ReadAnswer(AWSResponse):  # type: ignore[misc] # the SDK is not typed
    """An answer whose body was read."""

    def __init__(self, answer: AWSResponse, body: bytes) -> None:
        super().__init__(answer.url, answer.status_code, answer.headers, answer.raw)
        self._body = body

    @property
    def content(self) -> bytes:
        """The body."""
        return self._body


class CheckedParsers(ResponseParserFactory):  # type: ignore[misc] # the SDK is not typed
    """Makes the parsers of a session of the SDK: what is no number or time is a bad answer."""

    def create_parser(self, protocol_name: str) -> ResponseParser:
        """Return the parser of a protocol's answers."""
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
    """Sends requests to one server; safe to share between threads.

    Args:
        url: of the server.
        ca_bundle: the file with the certificates to trust that is configured for AWS.
    """

    def __init__(self, url: str, ca_bundle: str | None) -> None:
        self._session = URLLib3Session(
            verify=ca_bundle_of(ca_bundle) or True,
            proxies=get_environ_proxies(url),
            timeout=(CONNECT_TIMEOUT, READ_TIMEOUT),
            max_pool_connections=CONNECTIONS,
        )

    def answer_to(
        self, *, request: AWSPreparedRequest, event_name: str, **_: object
    ) -> AWSResponse:
        """Send a request of the SDK's client, whose event names the operation.

        Raises:
            botocore.exceptions.HTTPClientError: there is no connection, or it broke.
            UnusableAnswerError: the answer is too long, or not one to this operation.
        """
        operation = event_name.rpartition(".")[2]
        answer = self._send(request)
        if isinstance(answer, _ReadAnswer) and answer.status_code < HTTPStatus.MULTIPLE_CHOICES:
            _check(operation, answer.content)
        return answer

    def _send(self, request: AWSPreparedRequest) -> AWSResponse:
        """Send a request; read the answer, unless it is an object that is to be streamed.

        Raises:
            botocore.exceptions.HTTPClientError: there is no connection, or it broke.
            UnusableAnswerError: the answer is too long.
        """
        is_stream, request.stream_output = request.stream_output, True
        answer = self._session.send(request)
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
        return _ReadAnswer(answer, data)


def _check(operation: str, body: bytes) -> None:
    """Refuse the answer to an operation that is none.

    Raises:
        UnusableAnswerError: it has no root element of that name, or does not say whether it ends.
    """
    # The SDK takes an `Error` for one, whatever the status says.
    also = frozenset({f"{operation}Result", f"{operation}Response", "Error"})
    if operation in _LISTINGS:
        read_xml(body, _LISTINGS[operation], "IsTruncated", also=also)
    elif operation in _ANSWERS:
        read_xml(body, _ANSWERS[operation], also=also)
