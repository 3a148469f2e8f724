"""The HTTP statuses of lakecli's errors, and their codes in S3; `s3.errors` has S3's statuses."""

from collections.abc import Mapping
from typing import Final

from lakecli import errors
from lakecli.base.validation import Invalid
from lakecli.stores.contract import ObjectArchived


class PreconditionFailed(errors.Refused):
    """A condition of a write is not met."""


_RESPONSES: Final[Mapping[type[Exception], tuple[int, str]]] = {
    errors.AlreadyExists: (409, "BucketAlreadyExists"),
    errors.CheckFailed: (412, "AccessDenied"),
    errors.ConflictError: (409, "OperationAborted"),
    errors.DirtyBranch: (400, "MethodNotAllowed"),
    errors.Forbidden: (403, "AccessDenied"),
    errors.HookFailed: (412, "AccessDenied"),
    Invalid: (400, "InvalidArgument"),
    errors.LostRace: (423, "SlowDown"),
    errors.NotFound: (404, "NoSuchKey"),
    errors.NothingToDo: (400, "InvalidRequest"),
    ObjectArchived: (409, "InvalidObjectState"),
    # lakeFS's clients retry a request after 503, but not after 504: it may have taken effect.
    errors.OutcomeUnknown: (504, "InternalError"),
    errors.PermissionDenied: (403, "AccessDenied"),
    PreconditionFailed: (412, "PreconditionFailed"),
    errors.Refused: (409, "MethodNotAllowed"),
    errors.Unreachable: (503, "ServiceUnavailable"),
    errors.Unsupported: (501, "NotImplemented"),
    errors.UsageError: (400, "InvalidArgument"),
    Exception: (500, "InternalError"),
}
"""For each class of errors: its HTTP status in the API and in pages, and its error code in S3.

A class that is not listed has the status and the code of its nearest listed base class.
"""


def response_to(error: Exception) -> tuple[int, str]:
    """Return the HTTP status for a request that failed with an error, and S3's code for it."""
    return next(_RESPONSES[base] for base in type(error).__mro__ if base in _RESPONSES)


def status_of(error: Exception) -> int:
    """Return the HTTP status for a request that failed with an error."""
    return response_to(error)[0]
