"""Errors of the local store, and the conversion of errors of LMDB and of the disk to them."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

import lmdb

from lakecli.base.directories import StrPath
from lakecli.base.os_errors import MACHINE_HINTS
from lakecli.errors import IntegrityError, LakeError, PermissionDenied, Refused, Unreachable

HOME_HINT = "set LAKECLI_HOME to a directory on a local disk that you may write"

_LIMITS = {
    lmdb.MapFullError: (
        "the local store has reached the size of its memory map",
        "nothing was changed; raise this process's limit of address space (ulimit -v)",
    ),
    lmdb.MapResizedError: (
        "another process has grown the local store beyond this one's memory map",
        "repeat the command; if it fails again, raise the limit of address space (ulimit -v)",
    ),
    lmdb.ReadersFullError: (
        "too many processes are reading the local store",
        "wait until some of them have ended",
    ),
    lmdb.PanicError: (
        "a write to the local store failed; the store is unchanged",
        "check whether the disk is full or failing, and repeat the command",
    ),
    lmdb.TxnFullError: (
        "too many changes at once for the local store",
        "nothing was changed; repeat it in smaller parts",
    ),
}
_DAMAGED = (
    lmdb.InvalidError,
    lmdb.CorruptedError,
    lmdb.PageNotFoundError,
    lmdb.PageFullError,
    lmdb.CursorFullError,
    lmdb.IncompatibleError,
    lmdb.NotFoundError,
)
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENOENT, errno.EISDIR)


@contextmanager
def converting(directory: StrPath) -> Iterator[None]:
    """Convert errors of LMDB and of the operating system for the store in `directory`."""
    try:
        yield
    except lmdb.Error as error:
        raise from_lmdb(error, directory) from error
    except OSError as error:
        raise from_os(error, directory) from error


def from_lmdb(error: lmdb.Error, directory: StrPath) -> LakeError:
    """Convert an LMDB error of the store in `directory` to a lakecli error."""
    for kind, (message, hint) in _LIMITS.items():
        if isinstance(error, kind):
            return Unreachable(f"{message}: {directory}", hint=hint)
    if isinstance(error, lmdb.LockError):
        return Unreachable(
            f"another process with the ID {os.getpid()}, in another container or PID namespace, "
            f"uses the local store: {directory}",
            hint="repeat the command when that process has ended; to work at the same time, start "
            "the containers with one PID namespace (`docker run --pid=host`), or give each its own "
            "LAKECLI_HOME",
        )
    if isinstance(error, lmdb.MemoryError):
        return no_address_space(directory)
    if isinstance(error, lmdb.VersionMismatchError):
        return newer_store(directory)
    if isinstance(error, _DAMAGED):
        return damaged_store(directory, _reason(error))
    return _from_errno(_errno_of(error), _reason(error), directory) or LakeError(
        f"the local store failed: {error}: {directory}"
    )


def from_os(error: OSError, directory: StrPath) -> LakeError:
    """Convert an error of the operating system for the store in `directory` to a lakecli error."""
    number, reason = error.errno, error.strerror or str(error)
    if number == errno.EEXIST:  # the path exists and is not a directory
        number, reason = errno.ENOTDIR, os.strerror(errno.ENOTDIR)
    return _from_errno(number, reason, directory) or Unreachable(
        f"cannot use the local store: {reason.lower()}: {directory}", hint=HOME_HINT
    )


def no_address_space(directory: StrPath) -> Unreachable:
    """Return the error for a process that cannot map or allocate enough memory."""
    return Unreachable(
        f"not enough memory or address space for the local store: {directory}",
        hint="raise this process's limits (ulimit -v)",
    )


def newer_store(directory: StrPath) -> Refused:
    """Return the error for a store that a newer version of lakecli wrote."""
    what = f"the local store was written by a newer lakecli: {directory}"
    return Refused(what, hint="upgrade lakecli, or set LAKECLI_HOME to another directory")


def damaged_store(directory: StrPath, reason: str) -> IntegrityError:
    """Return the error for a damaged store."""
    return IntegrityError(
        f"the local store is damaged ({reason[:1].lower()}{reason[1:]}): {directory}",
        hint="move that directory away, then clone each repository again, and check it: "
        "`clone NAMESPACE REPOSITORY`, `fsck REPOSITORY --repair`; staged changes and commits that "
        "were not pushed are in that directory only",
    )


def malformed(message: str) -> IntegrityError:
    """Return the error for a record that is not valid."""
    hint = "the store may be damaged: move it away and start a new one"
    return IntegrityError(message, hint=hint)


def store_in_use(directory: StrPath) -> Refused:
    """Return the error for a store that cannot be rewritten because it is open."""
    hint = "repeat this when no other lakecli command, Python program or Spark job has it open"
    return Refused(f"the local store is in use: {directory}", hint=hint)


def network_store(directory: StrPath, kind: str) -> Refused:
    """Return the error for a store on a network file system."""
    return Refused(
        f"the local store would be on a network file system ({kind}): {directory}",
        hint="set LAKECLI_HOME to a directory on a local disk",
    )


def _from_errno(number: int | None, reason: str, directory: StrPath) -> LakeError | None:
    if number in _NO_ROOM:
        hint = "free some space on that disk; nothing was changed"
        return Unreachable(f"no space left for the local store: {directory}", hint=hint)
    if number == errno.EIO:
        # LMDB reports an incomplete write as an I/O error.
        hint = "check whether the disk is full or failing; nothing was changed"
        return Unreachable(f"the disk failed to write to the local store: {directory}", hint=hint)
    if number in _FORBIDDEN:
        what = f"cannot write to the local store: {reason.lower()}: {directory}"
        return PermissionDenied(what, hint=HOME_HINT)
    if number in MACHINE_HINTS:
        hint = MACHINE_HINTS[number]
        return Unreachable(f"cannot use the local store: {reason.lower()}: {directory}", hint=hint)
    return None


def _errno_of(error: lmdb.Error) -> int | None:
    """Return the errno of an LMDB error; old versions of the bindings have it only in the text."""
    code = getattr(error, "code", None)
    if isinstance(code, int) and code > 0:
        return code
    known = (*_NO_ROOM, *_FORBIDDEN, *MACHINE_HINTS)
    return next((number for number in known if os.strerror(number) in str(error)), None)


def _reason(error: lmdb.Error) -> str:
    """Return LMDB's message, without the names of the function and the error constant."""
    text = str(getattr(error, "reason", "") or error)
    return text.partition(": ")[2] or text if text.startswith("MDB_") else text
