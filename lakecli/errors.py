"""The errors that lakecli raises on purpose, grouped by what the caller would do about them.

::

    LakeError
    ├── UsageError           correct the request: a URI, name, expression or option is malformed
    ├── PartialFailure       repeat the request for the objects that failed; all others are done
    ├── ConflictError        choose between two changes of the same path
    ├── LostRace             repeat the request: somebody else moved the ref first
    ├── NotFound             name something that exists
    ├── Refused              request what is allowed, or use the flag that permits it
    │   ├── AlreadyExists
    │   ├── DirtyBranch
    │   └── Unsupported      use another store or platform: this one lacks a feature
    ├── IntegrityError       do not use these bytes; run fsck
    ├── PermissionDenied     fix credentials, permissions or ownership
    ├── Unreachable          wait, or fix the network, the disk or the endpoint
    │   └── Unresponsive     use a faster network, or allow more time in the settings
    ├── NothingToDo          do nothing: there is no change to record
    ├── OutcomeUnknown       check later whether the request took effect
    ├── JobFailed            fix the job of the run; nothing was published
    ├── CheckFailed          fix the data or the check; nothing was published
    └── HookFailed           do what a hook of this machine asks for

Each direct subclass of `LakeError` is a family of errors with a stable ``kind``; the command line
maps kinds to exit codes. Subclasses for special cases are declared beside the code that raises
them.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar, Final


def install_command(extra: str) -> str:
    """Return the command that installs an extra, for hints."""
    return f"in a checkout of lakecli: pip install '.[{extra}]'"


# Matches ``user@`` in an http(s) URL, and ``user:password@`` in any URI. The password may contain
# slashes; a host with a port, such as ``host:8000/a@b``, does not match.
_USER_INFO: Final = (
    r"""(?i)(https?://)[^\s/?@"'<>]+@"""
    r"""|(://)(?![^\s/@]*:\d{1,5}(?:[/?#]|$))[^\s/@"'<>]*:[^\s"'<>]*@"""
)


def without_passwords(text: str) -> str:
    """Return a text without the user names and passwords of URIs such as ``s3://USER:PASSWORD@…``.

    All text in errors, logs and the operation log passes through this function.
    """
    return re.sub(_USER_INFO, r"\1\2", text) if "://" in text and "@" in text else text


class ErrorKind(StrEnum):
    """The names of the error families; names never change, because scripts depend on them."""

    UNEXPECTED = "unexpected"
    USAGE = "usage"
    PARTIAL = "partial"
    CONFLICT = "conflict"
    LOST_RACE = "lost_race"
    NOT_FOUND = "not_found"
    REFUSED = "refused"
    INTEGRITY = "integrity"
    PERMISSION = "permission"
    UNREACHABLE = "unreachable"
    NOTHING_TO_DO = "nothing_to_do"
    OUTCOME_UNKNOWN = "outcome_unknown"
    JOB = "job"
    CHECK = "check"
    HOOK = "hook"


class LakeError(Exception):
    """An error that lakecli raises on purpose: what happened, and what to do about it.

    Args:
        message: what happened, and to which object; one line in lower case, without a final period.
            Passwords in URIs are left out.
        hint: the command or the change that helps, if there is one.
        paths: the affected paths, for errors about several objects.
    """

    kind: ClassVar[ErrorKind] = ErrorKind.UNEXPECTED

    def __init__(
        self, message: str, *, hint: str | None = None, paths: Sequence[bytes] = ()
    ) -> None:
        self.message = without_passwords(message)
        super().__init__(self.message)
        self.hint = hint and without_passwords(hint)
        self.paths = tuple(paths)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the error by its fields; constructors of subclasses take other arguments."""
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[LakeError], args: tuple[object, ...], fields: dict[str, object]) -> object:
    """Rebuild a pickled error without calling its constructor."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


class UsageError(LakeError):
    """The request is malformed: a URI, a name, a ref expression or an option."""

    kind = ErrorKind.USAGE


class PartialFailure(LakeError):
    """Some objects failed; all others are done."""

    kind = ErrorKind.PARTIAL


class ConflictError(LakeError):
    """Both sides changed the same paths differently; ``paths`` lists them in key order."""

    kind = ErrorKind.CONFLICT


class LostRace(LakeError):
    """Somebody else changed the same ref or object first; nothing of this request was applied."""

    kind = ErrorKind.LOST_RACE


class NotFound(LakeError):
    """A repository, ref, commit, path or object that does not exist."""

    kind = ErrorKind.NOT_FOUND


class Refused(LakeError):
    """A well-formed request that must not or cannot be carried out."""

    kind = ErrorKind.REFUSED


class AlreadyExists(Refused):
    """The name is in use."""


class DirtyBranch(Refused):
    """The branch has uncommitted changes and the operation needs a clean one."""


class Forbidden(Refused):
    """The rules of the bucket forbid a move of a ref; nothing was changed in the bucket."""


class Unsupported(Refused):
    """This store or platform lacks a feature that the request needs."""


class IntegrityError(LakeError):
    """Bytes that are damaged, or do not match their name, size or checksum."""

    kind = ErrorKind.INTEGRITY


class PermissionDenied(LakeError):
    """Credentials are missing or wrong, or reading or writing a file or bucket is not permitted."""

    kind = ErrorKind.PERMISSION


class Unreachable(LakeError):
    """A store or disk does not answer, or has no space left."""

    kind = ErrorKind.UNREACHABLE


class Unresponsive(Unreachable):
    """A store answers more slowly than the settings allow."""


class NothingToDo(LakeError):
    """There is no change to record."""

    kind = ErrorKind.NOTHING_TO_DO


class OutcomeUnknown(LakeError):
    """It is unknown whether the request took effect, even after asking the store again."""

    kind = ErrorKind.OUTCOME_UNKNOWN


class JobFailed(LakeError):
    """The job of a run failed; nothing of it was published.

    Attributes:
        job_exit_code: the exit code of the job; if a signal ended the job, the negative signal
            number; ``None`` if the job did not run.
    """

    kind = ErrorKind.JOB
    job_exit_code: int | None = None


class CheckFailed(LakeError):
    """A check failed; no branch was moved."""

    kind = ErrorKind.CHECK


class HookFailed(LakeError):
    """A hook of this machine refused; no branch was moved."""

    kind = ErrorKind.HOOK


class LakeWarning(UserWarning):
    """A Python warning for a message in `Repository.notices` that the caller has not read."""


def is_interrupt(error: BaseException) -> bool:
    """Return whether an error is an interrupt, or was raised because of one.

    An interrupt may hide behind another error: if it occurs inside of `Condition.wait`, the lock of
    the condition may be released already, and the end of the ``with`` block raises a
    `RuntimeError`.
    """
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        found = waiting.pop()
        if isinstance(found, KeyboardInterrupt):
            return True
        if found is not None and id(found) not in seen:
            seen.add(id(found))
            waiting += (found.__cause__, found.__context__)
    return False
