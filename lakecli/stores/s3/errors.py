"""Converts the S3 SDK's errors to lakecli's."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from shlex import quote
from typing import TYPE_CHECKING, Any

from lakecli import errors
from lakecli.errors import LakeError, PermissionDenied, Refused, Unreachable, UsageError
from lakecli.stores import cloud_errors
from lakecli.stores.cloud_errors import Translator, Words, one_line, permission_hint, templates
from lakecli.stores.contract import BucketNotFound, NotAllowed

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

_NO_CREDENTIALS = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run `aws configure`"
)
_RENEW = "log in again, for example with `aws sso login`, or set a fresh AWS_SESSION_TOKEN"
_BARE = "set AWS_REGION to the region of the bucket, and check that the credentials are valid"
_NAME = "see whether the server takes an object of this name"
_CREATES = frozenset({"CopyObject", "CreateMultipartUpload", "PutObject"})

_CREDENTIALS = {
    "AuthorizationHeaderMalformed": "set AWS_REGION to the region of the bucket",
    "InvalidAccessKeyId": "check AWS_ACCESS_KEY_ID or AWS_PROFILE, and AWS_ENDPOINT_URL",
    "SignatureDoesNotMatch": "check AWS_SECRET_ACCESS_KEY, or the profile it comes from",
    **dict.fromkeys(("RequestExpired", "RequestTimeTooSkewed"), "set the clock of this machine"),
    **dict.fromkeys(("ExpiredToken", "ExpiredTokenException"), _RENEW),
    **dict.fromkeys(("InvalidToken", "TokenRefreshRequired"), _RENEW),
}


_DENIED = Words(PermissionDenied, "{host} refused {operation} ({code}): {what}: {text}", "{action}")
_NOT_ALLOWED = _DENIED._replace(error=NotAllowed)
_UNABLE = Words(errors.Unsupported, "{host} cannot do {operation} ({code}): {what}")
_NO_BUCKET = Words(
    BucketNotFound,
    "no such bucket at {host}: {bucket}",
    "create it, for example with `aws s3 mb {bucket}`, or correct the URI or AWS_ENDPOINT_URL",
)
_FULL = Words(Unreachable, "no space left at {host}: {what}", "free some space, or raise the quota")
_ELSEWHERE = Words(
    Refused,
    "the bucket is not served by {host}: {bucket}",
    "set AWS_REGION to the region of the bucket, or correct AWS_ENDPOINT_URL",
)
_REFUSED = Words(Refused, "{host} refused {operation}: {code}, {text}: {what}")

_BY_CODE = cloud_errors.BY_XML_CODE | templates(
    (_REFUSED._replace(hint="{action}"), "400"),  # a response without a body that would say why
    (cloud_errors.ARCHIVED, "InvalidObjectState ObjectNotInActiveTierError"),
    (cloud_errors.BUSY, "ConditionalRequestConflict OperationAborted RequestTimeout SlowDown"),
    (cloud_errors.GARBLED, "BadDigest InvalidDigest XAmzContentSHA256Mismatch"),
    (_DENIED, " ".join(_CREDENTIALS)),
    (_ELSEWHERE, "PermanentRedirect"),
    (_FULL, "InsufficientStorage QuotaExceeded XMinioStorageFull"),
    (_NO_BUCKET, "NoSuchBucket"),
    (_UNABLE, "NotImplemented"),
    (Words(UsageError, "key too long for {host}: {what}"), "KeyTooLongError"),
)
_BY_STATUS = {
    **cloud_errors.BY_STATUS,
    **dict.fromkeys((301, 302, 307, 308), _ELSEWHERE),
    401: _DENIED,
    403: _NOT_ALLOWED,
    **dict.fromkeys((405, 501), _UNABLE),
    409: cloud_errors.BUSY,  # another write of the object is in progress, and may still fail
    507: _FULL,
}
_CONDITION_STATUS = frozenset({404, 409, 412})

_DAMAGED = Words(
    errors.IntegrityError,
    "{host} sent other bytes than its checksum says: {what}",
    cloud_errors.DAMAGED,
)
_LOGGED_OUT = Words(PermissionDenied, "cannot get credentials for S3 ({code})", _RENEW)
_MISCONFIGURED = Words(
    PermissionDenied, "cannot use the AWS configuration: {text}", "check AWS_PROFILE, ~/.aws/config"
)


@contextmanager
def reading_settings() -> Iterator[None]:
    """Convert the SDK's errors about settings that it cannot parse.

    Raises:
        PermissionDenied: a variable, a file or the output of a program has an invalid value.
    """
    try:
        yield
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise PermissionDenied(
            f"cannot use the AWS configuration: {one_line(str(error))}",
            hint="check AWS_CREDENTIAL_EXPIRATION, AWS_MAX_ATTEMPTS, the profile in ~/.aws/config "
            "and the program that it runs",
        ) from error


_LACKS_KEYS = Words(PermissionDenied, "no credentials for S3", _NO_CREDENTIALS)
_NOT_OF_S3 = "{host} sent an answer that cannot be used, it is not of S3: {what}"

# By the name of the SDK's class or of its nearest base, so that the SDK need not be imported.
_BY_CLASS = templates(
    (Words(Refused, "the S3 SDK refused the request ({code}): {text}"), "BotoCoreError"),
    (Words(UsageError, "S3 cannot take this request: {what}: {text}"), "ParamValidationError"),
    (Words(Unreachable, "{host} does not answer: {what}", "{again}"), "EndpointConnectionError"),
    (Words(Unreachable, _NOT_OF_S3, "{again}"), "ResponseParserError"),
    (cloud_errors.BROKEN, "ConnectionError HTTPClientError IncompleteReadError"),
    (cloud_errors.SILENT, "ConnectTimeoutError ReadTimeoutError"),
    (_DAMAGED, "ChecksumError FlexibleChecksumError"),
    (_LOGGED_OUT, "CredentialRetrievalError LoginError SSOError TokenRetrievalError"),
    (_MISCONFIGURED, "ConfigNotFound ConfigParseError InvalidConfigError ProfileNotFound"),
    (_LACKS_KEYS, "NoCredentialsError"),
    (
        _LACKS_KEYS._replace(message="the credentials for S3 are incomplete"),
        "PartialCredentialsError",
    ),
)


def status_of(error: "ClientError") -> int:
    """Return the HTTP status of a response."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


class S3Translator(Translator):
    """Converts the SDK's errors about one bucket to lakecli's."""

    again = "wait and repeat the command, or check AWS_ENDPOINT_URL and the network"
    by_class = _BY_CLASS
    by_code = _BY_CODE
    by_status = _BY_STATUS
    refused = _REFUSED
    order_hint = "use a general purpose bucket"
    bundle = "AWS_CA_BUNDLE"

    def refused_object(self, code: str, key: str, text: str) -> LakeError:
        """Return the error for one object that a batch of deletions could not delete."""
        words = _NOT_ALLOWED if code == "AccessDenied" else _BY_CODE.get(code, cloud_errors.BUSY)
        text = one_line(text)
        return self.error(words, key, text=text, **_explained("DeleteObjects", code, text))

    def _of_answer(self, error: Any, key: str, *, may_be_absent: bool) -> LakeError | None:  # noqa: ANN401 - its class is the SDK's
        """Return the error for an error response; only conditional writes set `may_be_absent`."""
        if not isinstance(getattr(error, "response", None), dict):
            return None  # not a `ClientError`
        status = status_of(error)
        details = error.response.get("Error", {})
        code = str(details.get("Code") or status)
        words = self.words_of(code, status)
        is_lost = may_be_absent and status in _CONDITION_STATUS
        if is_lost and words not in {_NO_BUCKET, cloud_errors.NO_UPLOAD}:
            words = cloud_errors.LOST
        elif words is cloud_errors.MISSING and not key:
            words = _NO_BUCKET
        text = one_line(str(details.get("Message") or ""))
        explained = _explained(error.operation_name, code, text)
        if words is cloud_errors.ARCHIVED:
            explained |= self._of_archive(details, key)
        return self.error(words, key, text=text, **explained)

    def _of_archive(self, details: Mapping[str, object], key: str) -> dict[str, str]:
        access = one_line(str(details.get("AccessTier") or ""))  # only with Intelligent-Tiering
        days = "" if access else " --restore-request Days=7"
        bucket = self._bucket.removeprefix("s3://")
        return {
            "tier": access or one_line(str(details.get("StorageClass") or "archive storage class")),
            "restore": f"aws s3api restore-object --bucket {bucket} --key {quote(key)}{days}",
        }

    def _of_sdk(self, error: Exception, key: str) -> LakeError | None:
        cause = getattr(error, "kwargs", {}).get("error")
        if isinstance(cause, LakeError):
            return cause  # the body of the request raised it while the SDK read the body
        return super()._of_sdk(error, key)

    def _text_of(self, error: Exception) -> str:
        return one_line(str(error))


def _explained(operation: str, code: str, text: str) -> dict[str, str]:
    if code == "400":
        action = _NAME if operation in _CREATES else _BARE
        return {"operation": operation, "code": code, "action": action}
    action = _CREDENTIALS.get(code) or permission_hint(text)
    if code.isdigit() and operation in {"GetObject", "HeadObject"}:
        action += "; without the permission to list, a missing object looks like this, too"
    return {"operation": operation, "code": code, "action": action}
