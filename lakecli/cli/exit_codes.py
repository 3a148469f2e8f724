"""The table of exit codes, which the manual page also prints."""

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

MEANINGS: Final = {
    ExitCode.OK: "done",
    ExitCode.UNEXPECTED: "an unexpected error; --verbose shows where",
    ExitCode.USAGE: "usage: an unknown option, a malformed URI, name, expression or setting",
    ExitCode.PARTIAL: "some objects failed; all others are done",
    ExitCode.CONFLICT: "both sides changed the same paths; they are listed",
    ExitCode.LOST_RACE: "somebody else moved the same ref first; check and repeat",
    ExitCode.NOT_FOUND: "no such repository, ref, commit, path or object",
    ExitCode.REFUSED: (
        "refused: exists already, uncommitted changes, default branch, namespace taken, cannot "
        "presign, a newer store, a question without a terminal or -y"
    ),
    ExitCode.INTEGRITY: "damaged or mismatching data",
    ExitCode.PERMISSION: "missing credentials or permission, or an unwritable home directory",
    ExitCode.UNREACHABLE: "store unreachable, disk full or failing, or too many open files",
    ExitCode.NOTHING_TO_DO: "nothing to do",
    ExitCode.OUTCOME_UNKNOWN: "unknown whether the change was made",
    ExitCode.DIFFERENCES: "differences were found (diff --exit-code, fs presign --check)",
    ExitCode.JOB: "the job of `lakecli run` failed; nothing was published",
    ExitCode.CHECK: "a check failed; nothing was published",
    ExitCode.HOOK: "a hook of this machine refused; nothing was moved",
    ExitCode.INTERRUPTED: "interrupted",
    ExitCode.BROKEN_PIPE: "the reader of standard output closed it",
}
"""The meaning of each code, for people."""

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
