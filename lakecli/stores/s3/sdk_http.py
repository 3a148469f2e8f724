"""Sends the SDK's requests by its own HTTP client, and reads the answers within bounds.

The SDK itself reads an answer whole, however long it is, and takes any XML for a listing of
nothing. Its event ``before-send`` lets another function send a request; see `answer_to`.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectionClosedError, IncompleteReadError, ResponseStreamingError
from botocore.httpsession import URLLib3Session
from botocore.parsers import ResponseParser, ResponseParserFactory
from botocore.response import StreamingBody
from botocore.utils import get_environ_proxies

from lakecli.stores.responses import MAX_ANSWER, MAX_REFUSAL, UnusableAnswerError, read_xml
from lakecli.stores.s3.direct_http import CONNECT_TIMEOUT, CONNECTIONS, READ_TIMEOUT
from lakecli.stores.s3.direct_settings import ca_bundle_of
from lakecli.stores.streams import read_exactly

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest

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
