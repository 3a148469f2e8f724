"""The LMDB environment under the local store: opened once per process, never used across a fork.

LMDB's locks belong to a process and a file: opening a file twice in one process, or using an
environment in a forked child, silently loses them. So handles of one directory share one
`LmdbEnvironment`, and every transaction checks that this is still the process that opened it.

Only this module imports LMDB. It translates its errors, and those of the disk, to lakecli's.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Lock, get_ident
from time import sleep
from typing import Final, NamedTuple
from weakref import ref

import lmdb

from lakecli.base.directories import StrPath, make_private
from lakecli.errors import (
    IntegrityError,
    LakeError,
    PermissionDenied,
    Refused,
    Unreachable,
)
from lakecli.kv import data_file
from lakecli.kv.data_file import MOUNT_TABLE, Sentinel, network_type


class Usage(NamedTuple):
    """The space that a store uses.

    Attributes:
        schema_version: of the store.
        map_size: bytes that the store can hold in this process.
        used: bytes in use, including those of deleted records.
    """

    schema_version: int
    map_size: int
    used: int


_PLATFORM: Final[str] = sys.platform
"""A plain text, so that mypy checks the code for each platform on all of them."""

SCHEMA_VERSION: Final = 1
"""Version of the whole store. A store with a greater version is refused."""

DEFAULT_MAP_SIZE: Final = 1 << 40
SMALLEST_MAP_SIZE: Final = 1 << 26

_SCHEMA_KEY: Final = b"mschema"  # in Table.META
_MAX_READERS: Final = 510
_LOCK_FILE_SIZE: Final = 1 << 15  # LMDB's size for this number of readers
_PAUSES: Final = (0.02, 0.05, 0.1, *[0.2] * 50)
"""Seconds between attempts to open a store that a process of the same ID uses: ten in total."""

# The open environments of this process, by device and inode of the directory: LMDB allows only one
# for each. Guarded by the lock, which also keeps two threads from opening at once.
_open: Final[dict[tuple[int, int], LmdbEnvironment]] = {}
_open_lock: Final = Lock()


class LmdbEnvironment:
    """One open LMDB environment."""

    def __init__(
        self,
        lmdb_env: lmdb.Environment,
        directory: StrPath,
        identity: tuple[int, int],
        sentinel: Sentinel,
    ) -> None:
        self.directory = directory
        self.identity = identity
        self.handles = 0
        self._writer: tuple[int, Callable[[], lmdb.Transaction[bytes] | None]] | None = None
        """The thread of this process that is inside a write transaction, and a weak reference to
        that: an interrupt may come before anything can end it."""
        self.lmdb_error = lmdb.Error
        self._lmdb = lmdb_env
        self._sentinel = sentinel
        self._file = os.open(f"{directory}/{data_file.DATA_FILE}", os.O_RDWR | os.O_CLOEXEC)
        self._page_size: int = lmdb_env.stat()["psize"]
        self._pid = os.getpid()

    def check_process(self) -> None:
        """Refuse use in a forked child.

        Raises:
            LakeError: this is not the process that opened the environment.
        """
        if os.getpid() != self._pid:
            raise LakeError(
                f"the local store was opened before this process was forked: {self.directory}",
                hint="spawn worker processes, or close the store before the fork",
            )

    def begin(self, *, write: bool) -> lmdb.Transaction[bytes]:
        """Begin a transaction; a second writer waits for the first.

        Raises:
            Refused: a newer lakecli has upgraded the store.
            LakeError: this thread is inside a write transaction already.
        """
        self.check_process()
        if write and self._is_writing():
            raise LakeError("a write transaction inside another would wait for itself")
        try:
            txn = self._lmdb.begin(write=write)
        except self.lmdb_error as error:
            raise self.translate(error) from error
        try:
            self.check_schema(txn)
            if write:
                self._writer = get_ident(), ref(txn)
        except BaseException:
            txn.abort()
            raise
        return txn

    def _is_writing(self) -> bool:
        """Tell whether this thread is inside a write transaction."""
        writer = self._writer
        return writer is not None and writer[0] == get_ident() and writer[1]() is not None

    def abort(self, txn: lmdb.Transaction[bytes]) -> None:
        """End this thread's write transaction without effect, unless it was committed."""
        if self._writer is not None and self._writer[1]() is txn:
            self._writer = None  # before the next writer can set it
        txn.abort()

    def commit(self, txn: lmdb.Transaction[bytes]) -> None:
        """Make this thread's write transaction durable.

        Raises:
            Unreachable: the disk failed to write; nothing was changed.
        """
        self._writer = None  # before the next writer can set it
        try:
            txn.commit()
        except self.lmdb_error as error:
            raise self.translate(error) from error
        with suppress(OSError):  # a full disk
            data_file.grow(self._file, (self._lmdb.info()["last_pgno"] + 1) * self._page_size)

    def check_schema(self, txn: lmdb.Transaction[bytes]) -> None:
        """Refuse a store with a schema that this version does not know.

        Raises:
            Refused: a newer lakecli wrote it.
            IntegrityError: it has no version.
        """
        version = txn.get(_SCHEMA_KEY)
        if version == b"%d" % SCHEMA_VERSION:
            return
        if version is not None and version.isdigit():
            raise newer_store(self.directory)
        raise damaged_store(self.directory, f"schema version {version!r}")

    def prepare(self) -> None:
        """Check the schema version, and set that of a new store.

        Raises:
            Refused: a newer lakecli wrote the store.
        """
        with self._lmdb.begin() as txn:
            is_new = txn.get(_SCHEMA_KEY) is None and not txn.stat()["entries"]
        if is_new:
            with self._lmdb.begin(write=True) as txn:
                txn.put(_SCHEMA_KEY, b"%d" % SCHEMA_VERSION, overwrite=False)
        with self._lmdb.begin() as txn:
            self.check_schema(txn)
        if not self._sentinel.is_kept:
            _sync_names(self.directory)
            self._sentinel.keep()

    def translate(self, error: lmdb.Error) -> LakeError:
        """Translate an LMDB error."""
        return from_lmdb(error, self.directory)

    def usage(self) -> Usage:
        """Return the space in use."""
        info = self._lmdb.info()
        pages = info["last_pgno"] + 1
        return Usage(SCHEMA_VERSION, info["map_size"], pages * self._lmdb.stat()["psize"])

    def close(self) -> None:
        """Close the environment; this ends open transactions."""
        if os.getpid() == self._pid:  # a forked child must not touch its parent's locks
            self._lmdb.close()
            os.close(self._file)
            self._sentinel.close()


def acquire(directory: StrPath, *, map_size: int, durable: bool = True) -> LmdbEnvironment:
    """Return this process's environment in a directory, opening it if it is not open yet.

    Raises:
        LakeError: as `lakecli.kv.local_store.LocalStore.open` documents.
    """
    try:
        make_private(directory)
        status = os.stat(directory)
        identity = (status.st_dev, status.st_ino)
        if durable:
            _refuse_network(directory)
        with _open_lock:
            shared = _open.get(identity)
            if shared is None:
                shared = _open_new(directory, map_size, identity, durable=durable)
                _open[identity] = shared
            shared.check_process()
            shared.handles += 1
            return shared
    except lmdb.Error as error:
        raise from_lmdb(error, directory) from error
    except OSError as error:
        raise from_os(error, directory) from error


def _open_new(
    directory: StrPath, map_size: int, identity: tuple[int, int], *, durable: bool
) -> LmdbEnvironment:
    sentinel = Sentinel(directory)
    try:
        _check_file(directory, sentinel)
        sentinel.begin()
        _allocate_lock_file(directory)
        lmdb_env = _open_map(directory, map_size, durable=durable)
        shared = LmdbEnvironment(lmdb_env, directory, identity, sentinel)
    except BaseException:
        sentinel.close(cleanly=not sentinel.was_left_open)
        raise
    try:
        shared.prepare()
    except BaseException:
        shared.close()
        raise
    return shared


def _sync_names(directory: StrPath) -> None:
    """Make the directory entries of a new store's files, and of the directories above, durable."""
    above = os.path.abspath(directory)
    for _ in range(4):
        with suppress(OSError):  # another user's directory, or a file system without support
            descriptor = os.open(above, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        above = os.path.dirname(above)


def _check_file(directory: StrPath, sentinel: Sentinel) -> None:
    """Check the store's file before it is mapped.

    Raises:
        IntegrityError: reading it would kill this process, or it was emptied.
    """
    if sentinel.is_kept and data_file.is_empty(directory):
        problem: str | None = f"{data_file.DATA_FILE} is missing or empty"
    else:
        may_be_short = sentinel.was_left_open or not sentinel.is_alone
        problem = data_file.find_damage(directory, may_be_short=may_be_short)
    if problem is None:
        return
    if sentinel.was_left_open:
        problem += "; the store was not closed after its last use"
    raise damaged_store(directory, problem)


def release(shared: LmdbEnvironment) -> None:
    """Release one handle; the last one closes the environment."""
    with _open_lock:
        shared.handles -= 1
        if shared.handles == 0:
            _open.pop(shared.identity, None)
            shared.close()


def _refuse_network(directory: StrPath) -> None:
    """Refuse a network file system, if the platform can detect it (Linux).

    Raises:
        Refused: LMDB's locks and memory map would not be shared there.
    """
    if _PLATFORM != "linux":
        return
    try:
        with open(MOUNT_TABLE, "rb") as file:
            mount_table = file.read()
    except OSError:  # a sandbox without /proc; then only LMDB's locks can fail
        return
    kind = network_type(os.fsencode(os.path.realpath(directory)), mount_table)
    if kind is not None:
        raise network_store(directory, kind)


def _allocate_lock_file(directory: StrPath) -> None:
    """Allocate the blocks of a new store's lock file.

    LMDB maps it sparse: on a full disk, the first access to a page would kill the process.
    """
    allocate = getattr(os, "posix_fallocate", None)
    if _PLATFORM != "linux" or allocate is None:
        return
    descriptor = os.open(f"{directory}/lock.mdb", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_size == 0:
            # Overwrites nothing: another process may use the file already.
            allocate(descriptor, 0, _LOCK_FILE_SIZE)
    finally:
        os.close(descriptor)


def _open_map(directory: StrPath, map_size: int, *, durable: bool) -> lmdb.Environment:
    """Open the environment with the largest map up to `map_size` that the process can have.

    LMDB increases a size that is too small for the file.
    """
    failure: Exception | None = None
    for size in _map_sizes(map_size):
        try:
            env = _open_when_free(directory, size, durable=durable)
        except (lmdb.MemoryError, OverflowError) as error:
            failure = error
        else:
            env.reader_check()  # frees pages that killed processes were reading
            return env
    raise no_address_space(directory) from failure


def _open_when_free(directory: StrPath, size: int, *, durable: bool) -> lmdb.Environment:
    """Open the environment, after waiting for a process that has the same ID as this one.

    Processes in two containers may have the same ID and use the same home. LMDB locks a byte of its
    lock file for each process ID that reads, so the second process must wait.

    Raises:
        lmdb.LockError: the other process uses the store for longer than ten seconds.
    """
    pauses = iter(_PAUSES)
    while True:
        try:
            return lmdb.open(
                os.fspath(directory),
                map_size=size,
                max_readers=_MAX_READERS,
                mode=0o700,
                sync=durable,
            )
        except lmdb.LockError:
            pause = next(pauses, None)
            if pause is None:
                raise
            sleep(pause)


def _map_sizes(map_size: int) -> Iterator[int]:
    """Yield sizes to try; under a limit of address space, at most a quarter of it."""
    yield map_size
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    size = map_size // 2 if limit == resource.RLIM_INFINITY else min(map_size // 2, limit // 4)
    while size >= SMALLEST_MAP_SIZE:
        yield size & -4096
        size //= 2


HOME_HINT = "set LAKECLI_HOME to a directory on a local disk that you may write"
UPGRADE_HINT = "upgrade lakecli, or set LAKECLI_HOME to another directory"

_LIMITS = (
    (
        lmdb.MapFullError,
        "the local store has reached the size of its memory map",
        "nothing was changed; raise this process's limit of address space (ulimit -v)",
    ),
    (
        lmdb.MapResizedError,
        "another process has grown the local store beyond this one's memory map",
        "repeat the command; if it fails again, raise the limit of address space (ulimit -v)",
    ),
    (
        lmdb.ReadersFullError,
        "too many processes are reading the local store",
        "wait until some of them have ended",
    ),
    (
        lmdb.PanicError,
        "a write to the local store failed; the store is unchanged",
        "check whether the disk is full or failing, and repeat the command",
    ),
    (
        lmdb.TxnFullError,
        "too many changes at once for the local store",
        "nothing was changed; repeat it in smaller parts",
    ),
)
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


def from_lmdb(error: lmdb.Error, directory: StrPath) -> LakeError:
    """Translate an LMDB error of the store in `directory`."""
    for kind, message, hint in _LIMITS:
        if isinstance(error, kind):
            return Unreachable(f"{message}: {directory}", hint=hint)
    if isinstance(error, lmdb.LockError):
        return Unreachable(
            f"another process with the ID {os.getpid()}, in another container or PID namespace, "
            f"uses the local store: {directory}",
            hint="repeat the command when that process has ended; to work at the same time, start "
            "the containers with one PID namespace (--pid=host), or give each its own LAKECLI_HOME",
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
    """Translate an error of the operating system for the store in `directory`."""
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
    """Return the error for a store that a newer version wrote."""
    return Refused(
        f"the local store was written by a newer lakecli: {directory}", hint=UPGRADE_HINT
    )


def damaged_store(directory: StrPath, reason: str) -> IntegrityError:
    """Return the error for a damaged store."""
    return IntegrityError(
        f"the local store is damaged ({reason[:1].lower()}{reason[1:]}): {directory}",
        hint="move that directory away, then clone each repository again with lakecli clone, and "
        "check it with lakecli fsck --repair; staged changes and commits that were not pushed are "
        "in that directory only",
    )


def network_store(directory: StrPath, kind: str) -> Refused:
    """Return the error for a store on a network file system."""
    return Refused(
        f"the local store would be on a network file system ({kind}): {directory}",
        hint="set LAKECLI_HOME to a directory on a local disk",
    )


def _from_errno(number: int | None, reason: str, directory: StrPath) -> LakeError | None:
    if number in _NO_ROOM:
        return Unreachable(
            f"no space left for the local store: {directory}",
            hint="free some space on that disk; nothing was changed",
        )
    if number == errno.EIO:
        # LMDB reports an incomplete write as an I/O error.
        return Unreachable(
            f"the disk failed to write to the local store: {directory}",
            hint="check whether the disk is full or failing; nothing was changed",
        )
    if number in _FORBIDDEN:
        return PermissionDenied(
            f"cannot write to the local store: {reason.lower()}: {directory}", hint=HOME_HINT
        )
    return None


def _errno_of(error: lmdb.Error) -> int | None:
    """Return the errno of an error; older versions of the bindings give it only as text."""
    code = getattr(error, "code", None)
    if isinstance(code, int) and code > 0:
        return code
    known = (*_NO_ROOM, *_FORBIDDEN, errno.EIO)
    return next((number for number in known if os.strerror(number) in str(error)), None)


def _reason(error: lmdb.Error) -> str:
    """Return LMDB's message, without the names of the call and the constant."""
    text = str(getattr(error, "reason", "") or error)
    return text.partition(": ")[2] or text if text.startswith("MDB_") else text
