"""S3's errors: their codes, statuses and documents; and lakecli's errors as S3's.

Clients decide by code and status whether they repeat a request. So an error that a repetition can
mend has status 409 or 503; any other has a status that clients give up on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from lakecli import errors
from lakecli.base.model import NO_METADATA
from lakecli.errors import LakeError, Refused
from lakecli.stores.contract import ObjectArchived

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
"""The statuses of S3's codes that do not have the usual one."""


class S3Error(Refused):
    """An error as S3 answers it; so it can also be why a change of a branch was not made.

    Args:
        code: one of S3's codes; it decides about the status.
        message: what happened and what helps, as one sentence.
        headers: further headers of the answer.
        details: further elements of the document.
    """

    def __init__(
        self, code: str, message: str, headers: Mapping[str, str] = NO_METADATA, /, **details: str
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = _STATUS.get(code, _USUAL)
        self.headers = headers
        self.details = details

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


_CODES: Final[Mapping[type[LakeError], str]] = {
    errors.AlreadyExists: "BucketAlreadyExists",
    errors.Forbidden: "AccessDenied",
    ObjectArchived: "InvalidObjectState",
    errors.Unsupported: "NotImplemented",
    errors.Refused: "MethodNotAllowed",
    errors.CheckFailed: "AccessDenied",
    errors.ConflictError: "OperationAborted",
    errors.HookFailed: "AccessDenied",
    errors.LostRace: "SlowDown",
    errors.NotFound: "NoSuchKey",
    errors.NothingToDo: "InvalidRequest",
    errors.PermissionDenied: "AccessDenied",
    errors.Unreachable: "ServiceUnavailable",
    errors.UsageError: "InvalidArgument",
}
"""By the class of the error or its nearest base; others are an ``InternalError``."""

_LOCAL_PATH: Final = re.compile(r"(?:(?<=[\s'\"(`=])|^)(?:file://)?/[^\s'\"`]*")
"""A path of this machine in a message; objects are named without a slash before them."""


def of_lake_error(error: LakeError) -> S3Error:
    """Return a lakecli error as S3's.

    After a lost race clients repeat the request, conditions included; nothing of it was applied.
    """
    if isinstance(error, S3Error):
        return error
    known = (_CODES[base] for base in type(error).__mro__ if base in _CODES)
    text = f"{error.message} ({error.hint})" if error.hint else error.message
    return S3Error(next(known, "InternalError"), _LOCAL_PATH.sub("(a local path)", text))
