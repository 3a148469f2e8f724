"""What the S3 SDK says, in lakecli's words: what happened, at which endpoint, and what helps.

Messages name the operation, the object and the endpoint's host; never a URL, a header or anything
of the caller's credentials.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakecli.errors import (
    IntegrityError,
    LakeError,
    PermissionDenied,
    Refused,
    Unreachable,
    Unsupported,
    UsageError,
)
from lakecli.objectstore.base import BucketNotFound, ConditionFailed, ObjectNotFound
from lakecli.objectstore.wording import Words, by_class, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from botocore.exceptions import BotoCoreError, ClientError

_NO_CREDENTIALS = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run `aws configure`"
)
_RENEW = "log in again, for example with `aws sso login`, or set a fresh AWS_SESSION_TOKEN"
_CLOCK = "set the clock of this machine"
_AGAIN = "wait and repeat the command, or check AWS_ENDPOINT_URL and the network"
_DAMAGED = "repeat the command; if it happens again, suspect the server or the network in between"

_CREDENTIALS = {
    "AuthorizationHeaderMalformed": "set AWS_REGION to the region of the bucket",
    "ExpiredToken": _RENEW,
    "ExpiredTokenException": _RENEW,
    "InvalidAccessKeyId": "check AWS_ACCESS_KEY_ID or AWS_PROFILE, and AWS_ENDPOINT_URL",
    "InvalidToken": _RENEW,
    "RequestExpired": _CLOCK,
    "RequestTimeTooSkewed": _CLOCK,
    "SignatureDoesNotMatch": "check AWS_SECRET_ACCESS_KEY, or the profile it comes from",
    "TokenRefreshRequired": _RENEW,
}
_READING = "s3:GetObject (and s3:ListBucket, without which a missing object looks like this)"
_ACTIONS = {
    "CompleteMultipartUpload": "s3:PutObject",
    "CopyObject": "s3:GetObject and s3:PutObject",
    "CreateMultipartUpload": "s3:PutObject",
    "DeleteObjects": "s3:DeleteObject",
    "GetObject": _READING,
    "HeadBucket": "s3:ListBucket",
    "HeadObject": _READING,
    "ListObjectsV2": "s3:ListBucket",
    "UploadPart": "s3:PutObject",
    "UploadPartCopy": "s3:GetObject and s3:PutObject",
}


_DENIED = Words(PermissionDenied, "{host} refused {operation} ({code}): {what}", "{action}")
_BUSY = Words(Unreachable, "{host} answered {code}: {what}", _AGAIN)
_UNABLE = Words(Unsupported, "{host} cannot do {operation} ({code}): {what}")
_MISSING = Words(ObjectNotFound, "no such object: {what}")
_NO_BUCKET = Words(
    BucketNotFound,
    "no such bucket at {host}: {bucket}",
    "create it, for example with `aws s3 mb {bucket}`, or correct the namespace or "
    "AWS_ENDPOINT_URL",
)
_LOST = Words(ConditionFailed, "another version is there, nothing was written: {what}")
_FULL = Words(Unreachable, "no space left at {host}: {what}", "free some space, or raise the quota")
_GARBLED = Words(
    IntegrityError, "{host} received other bytes than were sent ({code}): {what}", _DAMAGED
)
_ELSEWHERE = Words(
    Refused,
    "the bucket is not served by {host}: {bucket}",
    "set AWS_REGION to the region of the bucket, or correct AWS_ENDPOINT_URL",
)
_REFUSED = Words(Refused, "{host} refused {operation}: {code}, {text}: {what}")

_BY_CODE = {
    "BadDigest": _GARBLED,
    "ConditionalRequestConflict": _BUSY,
    "InsufficientStorage": _FULL,
    "InvalidDigest": _GARBLED,
    "KeyTooLongError": Words(UsageError, "key too long for {host}: {what}"),
    "NoSuchBucket": _NO_BUCKET,
    "NotImplemented": _UNABLE,
    "OperationAborted": _BUSY,
    "PermanentRedirect": _ELSEWHERE,
    "QuotaExceeded": _FULL,
    "RequestTimeout": _BUSY,
    "SlowDown": _BUSY,
    "XAmzContentSHA256Mismatch": _GARBLED,
    "XMinioStorageFull": _FULL,
    **dict.fromkeys(_CREDENTIALS, _DENIED),
}
_BY_STATUS = {
    301: _ELSEWHERE,
    302: _ELSEWHERE,
    307: _ELSEWHERE,
    308: _ELSEWHERE,
    401: _DENIED,
    403: _DENIED,
    404: _MISSING,
    405: _UNABLE,
    408: _BUSY,
    409: _BUSY,  # somebody else is at it and may yet fail, so nothing is decided
    429: _BUSY,
    501: _UNABLE,
    507: _FULL,
}
_CONDITION_STATUS = frozenset({404, 409, 412})
_SERVER_FAULT = 500

_LOGGED_OUT = Words(PermissionDenied, "cannot get credentials for S3 ({code})", _RENEW)
_MISCONFIGURED = Words(
    PermissionDenied, "cannot use the AWS configuration: {text}", "check AWS_PROFILE, ~/.aws/config"
)
_BROKEN = Words(Unreachable, "{host} broke the connection ({code}): {what}", _AGAIN)
_SILENT = Words(Unreachable, "{host} did not answer in time: {what}", _AGAIN)

# By the name of the SDK's class or of its nearest base, so that nothing is imported to ask.
_BY_CLASS = {
    "BotoCoreError": Words(Refused, "the S3 SDK refused the request ({code}): {text}"),
    "ChecksumError": Words(
        IntegrityError, "{host} sent other bytes than its checksum says: {what}", _DAMAGED
    ),
    "ConfigNotFound": _MISCONFIGURED,
    "ConfigParseError": _MISCONFIGURED,
    "ConnectTimeoutError": _SILENT,
    "ConnectionError": _BROKEN,
    "CredentialRetrievalError": _LOGGED_OUT,
    "EndpointConnectionError": Words(Unreachable, "{host} does not answer: {what}", _AGAIN),
    "FlexibleChecksumError": Words(
        IntegrityError, "{host} sent other bytes than its checksum says: {what}", _DAMAGED
    ),
    "HTTPClientError": _BROKEN,
    "IncompleteReadError": _BROKEN,
    "InvalidConfigError": _MISCONFIGURED,
    "LoginError": _LOGGED_OUT,
    "NoCredentialsError": Words(PermissionDenied, "no credentials for S3", _NO_CREDENTIALS),
    "ParamValidationError": Words(UsageError, "S3 cannot take this request: {what}: {text}"),
    "PartialCredentialsError": Words(
        PermissionDenied, "the credentials for S3 are incomplete", _NO_CREDENTIALS
    ),
    "ProfileNotFound": _MISCONFIGURED,
    "ReadTimeoutError": _SILENT,
    "SSOError": _LOGGED_OUT,
    "TokenRetrievalError": _LOGGED_OUT,
}


def status_of(error: ClientError) -> int:
    """Return the HTTP status of an answer."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


class Translator:
    """Turns the SDK's errors about one bucket into lakecli's.

    Args:
        bucket: its name.
        host: says where requests go; asked when there is something to tell.
    """

    def __init__(self, bucket: str, host: Callable[[], str]) -> None:
        self._bucket = bucket
        self._host = host

    @contextmanager
    def translated(self, key: str = "", *, is_conditional: bool = False) -> Iterator[None]:
        """Translate what happens inside, about the object `key` or the bucket.

        Args:
            key: in full, with the prefix of the namespace.
            is_conditional: a write with a condition, where "no such key" means it did not hold.
        """
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except ClientError as error:
            raise self._of_answer(error, key, is_conditional=is_conditional) from error
        except BotoCoreError as error:
            cause = error.kwargs.get("error")
            if isinstance(cause, LakeError):
                raise cause from None  # the body of a request said so while it was read
            raise self._of_sdk(error, key) from error

    def error(self, words: Words, key: str, **details: str) -> LakeError:
        """Return the error that `words` describe, about one object."""
        bucket = f"s3://{self._bucket}"
        # The host is unknown where the configuration is what is wrong; those words have none.
        filled = details | {"bucket": bucket, "what": repr(f"{bucket}/{key}") if key else bucket}
        if "{host}" in words.message:
            filled["host"] = self._host()
        return words.filled(filled)

    def refused_delete(self, code: str, key: str) -> LakeError:
        """Return the error for one object that a batch delete could not delete."""
        words = _DENIED if code == "AccessDenied" else _BY_CODE.get(code, _BUSY)
        return self.error(words, key, **_explained("DeleteObjects", code))

    def no_ranges(self, key: str) -> LakeError:
        """Return the error of a server that does not implement ranges."""
        words = Words(
            Unsupported,
            "{host} answered a request for a part of an object with 200 instead of 206: {what}",
            "use a server that implements HTTP ranges",
        )
        return self.error(words, key)

    def no_order(self) -> LakeError:
        """Return the error of a bucket that is listed in another order."""
        words = Words(
            Unsupported,
            "{host} does not list the keys in order: {bucket}",
            "use a general purpose bucket",
        )
        return self.error(words, "")

    def _of_answer(self, error: ClientError, key: str, *, is_conditional: bool) -> LakeError:
        status = status_of(error)
        details = error.response.get("Error", {})
        code = str(details.get("Code") or status)
        words = _BY_CODE.get(code) or _BY_STATUS.get(status)
        if is_conditional and status in _CONDITION_STATUS and words is not _NO_BUCKET:
            words = _LOST
        elif words is None:
            words = _BUSY if status >= _SERVER_FAULT else _REFUSED
        elif words is _MISSING and not key:
            words = _NO_BUCKET
        text = one_line(str(details.get("Message") or ""))
        return self.error(words, key, text=text, **_explained(error.operation_name, code))

    def _of_sdk(self, error: BotoCoreError, key: str) -> LakeError:
        words = by_class(_BY_CLASS, error) or _BY_CLASS["BotoCoreError"]
        return self.error(words, key, text=one_line(str(error)), code=type(error).__name__)


def _explained(operation: str, code: str) -> dict[str, str]:
    action = _ACTIONS.get(operation, f"s3:{operation}")
    needed = f"the credentials in use need the permission {action}"
    if code.isdigit():  # an answer to HEAD has no body that would tell more
        needed = f"check the credentials in use, or give them {action}"
    return {"operation": operation, "code": code, "action": _CREDENTIALS.get(code, needed)}
