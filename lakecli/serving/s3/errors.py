"""S3's errors with their codes and statuses; and the S3 error for each error of lakecli.

Clients decide by code and status whether to retry a request. So an error that a retry can resolve
has status 409 or 503; any other error has a status after which clients do not retry.
"""

import re
from collections.abc import Mapping
from typing import Final

from lakecli.base.model import NO_METADATA
from lakecli.errors import LakeError, Refused
from lakecli.serving.statuses import response_to

_USUAL: Final = 400
NOT_MODIFIED: Final = 304

_CODES_OF: Final = {
    NOT_MODIFIED: "NotModified",
    403: "AccessDenied InvalidAccessKeyId InvalidObjectState RequestTimeTooSkewed "
    "SignatureDoesNotMatch",
    404: "NoSuchBucket NoSuchKey NoSuchUpload",
    405: "MethodNotAllowed",
    409: "BucketAlreadyExists BucketAlreadyOwnedByYou OperationAborted",
    411: "MissingContentLength",
    412: "PreconditionFailed",
    416: "InvalidRange",
    500: "InternalError",
    501: "NotImplemented",
    503: "ServiceUnavailable SlowDown",
}
_STATUS: Final = {code: status for status, codes in _CODES_OF.items() for code in codes.split()}
"""The statuses of S3's codes; other codes have status 400."""


class S3Error(Refused):
    """An error in S3's form; as a `LakeError`, it can also be the outcome of a change.

    Args:
        code: one of S3's codes; it determines the status.
        message: one sentence on the cause and, if there is one, the remedy.
        headers: additional headers of the response.
    """

    def __init__(
        self, code: str, message: str, headers: Mapping[str, str] = NO_METADATA, /
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = _STATUS.get(code, _USUAL)
        self.headers = headers

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


_LOCAL_PATH: Final = re.compile(r"(?:(?<=[\s'\"(`=])|^)(?:file://)?/[^\s'\"`]*")
"""Matches a local path in a message; the names of objects do not begin with a slash."""


def of_lake_error(error: LakeError) -> S3Error:
    """Return the S3 error for an error of lakecli, with local paths removed from the message.

    Clients retry the error for a lost race. That is safe, because nothing was changed, and the
    repeated request has the same conditions.
    """
    if isinstance(error, S3Error):
        return error
    text = f"{error.message} ({error.hint})" if error.hint else error.message
    return S3Error(response_to(error)[1], _LOCAL_PATH.sub("(a local path)", text))
