"""The HTTP statuses of lakecli's errors, for the API and the pages; `s3.errors` has S3's codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakecli import errors
from lakecli.base.validation import Invalid


class PreconditionFailed(errors.Refused):
    """A condition of a write is not met."""


_STATUSES: Final[Mapping[int, tuple[type[Exception], ...]]] = {
    400: (Invalid, errors.UsageError, errors.NothingToDo, errors.DirtyBranch),
    403: (errors.Forbidden, errors.PermissionDenied),
    404: (errors.NotFound,),
    412: (PreconditionFailed, errors.HookFailed, errors.CheckFailed),
    423: (errors.LostRace,),
    501: (errors.Unsupported,),
    # lakeFS's clients retry a request after 503, but not after 504: it may have taken effect.
    503: (errors.Unreachable,),
    504: (errors.OutcomeUnknown,),
    409: (errors.ConflictError, errors.Refused),
}
"""Base classes of errors by status; the first match counts, and other errors have status 500."""


def status_of(error: Exception) -> int:
    """Return the HTTP status for a request that failed with an error."""
    found = (status for status, families in _STATUSES.items() if isinstance(error, families))
    return next(found, 500)
