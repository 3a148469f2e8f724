"""The table of exit codes; ``manual/exit_codes.txt`` has their meanings."""

import errno
from enum import IntEnum
from typing import Final

from lakecli.errors import ErrorKind


class ExitCode(IntEnum):
    """The documented exit codes; scripts depend on them, so no code ever changes its meaning."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    PARTIAL = 3
    CONFLICT = 4
    LOST_RACE = 5
    NOT_FOUND = 6
    REFUSED = 7
    INTEGRITY = 8
    PERMISSION = 9
    UNREACHABLE = 10
    NOTHING_TO_DO = 11
    OUTCOME_UNKNOWN = 12
    DIFFERENCES = 13
    JOB = 14
    CHECK = 15
    HOOK = 16
    INTERRUPTED = 130
    BROKEN_PIPE = 141


EXIT_CODES: Final = {kind: ExitCode[kind.name] for kind in ErrorKind}
"""The exit code of every error family."""

_ERRNO_NAMES: Final = {
    ErrorKind.NOT_FOUND: "ENOENT",
    ErrorKind.PERMISSION: "EACCES EPERM EROFS",
    ErrorKind.REFUSED: "ENOTDIR EISDIR EEXIST ENOTEMPTY ENAMETOOLONG ELOOP",
    ErrorKind.UNREACHABLE: "ENOSPC EDQUOT EFBIG EIO ESTALE EMFILE ENFILE ENOMEM",
}


def kind_of_os_error(error: OSError) -> ErrorKind:
    """Return the error kind for an `OSError` that no other code has handled."""
    name = errno.errorcode.get(error.errno or 0)
    found = (kind for kind, names in _ERRNO_NAMES.items() if name in names.split())
    return next(found, ErrorKind.UNEXPECTED)
