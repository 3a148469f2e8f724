"""The errors that lakecli raises on purpose, grouped by what the caller would do about them.

::

    LakeError
    ├── UsageError           correct the request: a URI, name, expression or option is malformed
    ├── PartialFailure       repeat it for the objects that failed; the others are done
    ├── ConflictError        decide between two changes of one path
    ├── LostRace             look again and repeat it: somebody else moved first
    ├── NotFound             name something that exists
    ├── Refused              request what is allowed, or use the flag that permits it
    │   ├── AlreadyExists
    │   ├── DirtyBranch
    │   └── Unsupported      this store or platform cannot do it
    ├── IntegrityError       do not use these bytes; run fsck
    ├── PermissionDenied     fix credentials, permissions or ownership
    ├── Unreachable          wait, or fix the network, the disk or the endpoint
    │   └── Unresponsive     it was waited for long enough
    ├── NothingToDo          there is no change to record
    ├── OutcomeUnknown       it is unknown whether it took effect; ask again
    ├── JobFailed            mend the job of a run; nothing was published
    ├── CheckFailed          mend the data, or the check; nothing was published
    └── HookFailed           a hook of this machine refused: do what it asks

A family has a stable ``kind``; the command line maps kinds to exit codes in one table. Members are
declared beside the code that raises them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar, Final

DISTRIBUTION: Final = "lakecli-vcs"
"""The name of what pip installs, as installed programs list it; no package index has it yet."""


def install_command(extra: str) -> str:
    """Return the command that installs an extra, for hints."""
    return f"in a checkout of lakecli: pip install '.[{extra}]'"


# The user of a URL; or a user and a password, which may have slashes, but no host with a port.
_USER_INFO: Final = (
    r"""(?i)(https?://)[^\s/?@"'<>]+@"""
    r"""|(://)(?![^\s/@]*:\d{1,5}(?:[/?#]|$))[^\s/@"'<>]*:[^\s"'<>]*@"""
)


def without_passwords(text: str) -> str:
    """Return a text without the user names and passwords of URIs such as ``s3://USER:PASSWORD@…``.

    Errors, logs and the operation log apply it to what they show or keep.
    """
    return re.sub(_USER_INFO, r"\1\2", text) if "://" in text and "@" in text else text


class ErrorKind(StrEnum):
    """The stable names of the error families. Scripts depend on them: add names, change none."""

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
        message: what happened, to what; one line in lower case, without a period at its end.
            Passwords in URIs are left out.
        hint: the command or the change that helps, if there is one.
        paths: the paths that it is about, for errors about several objects.
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
        """Pickle the error by its fields, whatever arguments the class takes."""
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[LakeError], args: tuple[object, ...], fields: dict[str, object]) -> object:
    """Return the error that was pickled, without calling its constructor."""
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
    """Somebody else moved the same ref or object first; nothing of this request was applied."""

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


class Unsupported(Refused):
    """This store or platform cannot do what was asked."""


class IntegrityError(LakeError):
    """Bytes that are damaged, or do not match their name, size or checksum."""

    kind = ErrorKind.INTEGRITY


class PermissionDenied(LakeError):
    """Credentials are missing or wrong, or a place may not be read or written."""

    kind = ErrorKind.PERMISSION


class Unreachable(LakeError):
    """A store or disk does not answer, or has no space left."""

    kind = ErrorKind.UNREACHABLE


class Unresponsive(Unreachable):
    """A store answers more slowly than the settings allow; it was waited for long enough."""


class NothingToDo(LakeError):
    """There is no change to record."""

    kind = ErrorKind.NOTHING_TO_DO


class OutcomeUnknown(LakeError):
    """It is unknown whether the request took effect, and that could not be found out."""

    kind = ErrorKind.OUTCOME_UNKNOWN


class JobFailed(LakeError):
    """The job of a run failed; nothing of it was published.

    Attributes:
        job_exit_code: its exit code; negative: the signal that ended it; ``None``: it did not run.
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
    """What a verb found out besides its result, if nobody reads `Repository.notices`."""


def is_interrupt(error: BaseException) -> bool:
    """Return whether an error is an interrupt, or was raised while one was on its way out.

    An interrupt may come between any two instructions. Where it comes inside of
    `Condition.wait`, the condition's lock is not held when its ``with`` block releases it, and a
    `RuntimeError` leaves the block instead of the interrupt.
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
