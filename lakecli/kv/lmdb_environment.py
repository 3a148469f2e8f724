"""The LMDB environment under the local store: checked, opened once per process, never forked.

LMDB's locks belong to a process and a file: if a process opens a file twice, or uses an environment
in a forked child, the locks are silently lost. So handles of one directory share one
`LmdbEnvironment`, and every transaction checks that the current process is the one that opened it.

Before LMDB opens a store, its file is checked: LMDB maps it, and SIGBUS kills a process that
accesses a page beyond the end of the file. `find_damage` reads the two meta pages without mapping
them. The newer meta page has the number of the last page, and the file must contain that page.

::

    page  number (8) ‖ 2 bytes ‖ flags (2) ‖ lower (2) ‖ upper (2)
    meta  page header ‖ magic (4) ‖ version (4) ‖ address (8) ‖ map size (8)
          ‖ tree of free pages ‖ main tree ‖ last page (8) ‖ transaction (8)
    tree  page size (4) ‖ flags (2) ‖ depth (2) ‖ four counts (32) ‖ root (8)

All numbers are little-endian. LMDB uses the machine's byte order; stores of big-endian machines are
not supported.

`lakecli.kv.sentinel` records whether the store was closed after its last use. If it was not, the
file may be shorter than its meta page says.

`network_type` detects network file systems, on which LMDB's locks and memory maps do not work.
"""

import os
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock, get_ident
from time import sleep
from typing import Final, TypeAlias
from weakref import ref

import lmdb

from lakecli.base.directories import StrPath, make_private, sync_directory
from lakecli.errors import LakeError
from lakecli.kv import store_errors
from lakecli.kv.sentinel import Sentinel

SCHEMA_VERSION: Final = 1
"""Schema version of the whole store. A store with a greater version is refused."""

DEFAULT_MAP_SIZE: Final = 1 << 40
SMALLEST_MAP_SIZE: Final = 1 << 26

_SCHEMA_KEY: Final = b"mschema"  # in Table.META
SECRET_KEY: Final = b"msecret"  # in Table.META; older stores have it after their next write
_SECRET_SIZE: Final = 32
_MAX_READERS: Final = 510
_LOCK_FILE_SIZE: Final = 1 << 15  # LMDB's size for this number of readers
_PAUSES: Final = (0.02, 0.05, 0.1, *[0.2] * 50)
"""Pauses between attempts to open a store that a process with the same ID uses, in seconds.

The total is about ten seconds.
"""

FileId: TypeAlias = tuple[int, int]
"""Device and inode."""

# The open environments of this process, by device and inode of the directory: LMDB allows only one
# for each. Guarded by the lock, which also keeps two threads from opening at once.
_open: "Final[dict[FileId, LmdbEnvironment]]" = {}
_open_lock: Final = Lock()


class LmdbEnvironment:
    """The open LMDB environment of one directory, which all handles of this process share.

    Attributes:
        written: number of records written by this process since the last `LocalStore.take_written`.
    """

    def __init__(
        self, lmdb_env: lmdb.Environment, directory: StrPath, identity: FileId, sentinel: Sentinel
    ) -> None:
        self.directory = directory
        self.identity = identity
        self.handles = 0
        self.written = 0
        self._writer: tuple[int, Callable[[], lmdb.Transaction[bytes] | None]] | None = None
        """The thread that is inside a write transaction, and a weak reference to the transaction.

        The reference is weak because an interrupt may arrive before any code can end the
        transaction.
        """
        self._lmdb = lmdb_env
        self._sentinel = sentinel
        self._file = os.open(f"{directory}/{DATA_FILE}", os.O_RDWR | os.O_CLOEXEC)
        self._page_size: int = lmdb_env.stat()["psize"]
        self._pid = os.getpid()

    def check_process(self) -> None:
        """Raise `LakeError` in a process that was forked after the environment was opened."""
        if os.getpid() != self._pid:
            raise LakeError(
                f"the local store was opened before this process was forked: {self.directory}",
                hint="spawn worker processes, or close the store before the fork",
            )

    def begin(self, *, write: bool) -> "lmdb.Transaction[bytes]":
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
        except lmdb.Error as error:
            raise self.translate(error) from error
        try:
            self.check_schema(txn)
            if write:
                txn.put(SECRET_KEY, os.urandom(_SECRET_SIZE), overwrite=False)
                self._writer = get_ident(), ref(txn)
        except BaseException:
            txn.abort()
            raise
        return txn

    def _is_writing(self) -> bool:
        """Return whether this thread is inside a write transaction."""
        writer = self._writer
        return writer is not None and writer[0] == get_ident() and writer[1]() is not None

    def abort(self, txn: "lmdb.Transaction[bytes]") -> None:
        """End this thread's write transaction; its writes are undone unless they were committed."""
        if self._writer is not None and self._writer[1]() is txn:
            self._writer = None  # before the next writer can set it
        txn.abort()

    def commit(self, txn: "lmdb.Transaction[bytes]") -> None:
        """Make this thread's write transaction durable.

        Raises:
            Unreachable: the disk failed to write; nothing was changed.
        """
        self._writer = None  # before the next writer can set it
        try:
            txn.commit()
        except lmdb.Error as error:
            raise self.translate(error) from error
        self._grow()

    def _grow(self) -> bool:
        """Extend the file if it is too short; return false if that fails."""
        try:
            grow(self._file, self.usage()[0])
        except OSError:  # the disk may be full
            return False
        return True

    def check_schema(self, txn: "lmdb.Transaction[bytes]") -> None:
        """Refuse a store with a schema that this version does not know.

        Raises:
            Refused: a newer lakecli wrote the store.
            IntegrityError: the store has no valid schema version.
        """
        version = txn.get(_SCHEMA_KEY)
        if version == b"%d" % SCHEMA_VERSION:
            return
        if version is not None and version.isdigit():
            raise store_errors.newer_store(self.directory)
        raise store_errors.damaged_store(self.directory, f"schema version {version!r}")

    def prepare(self) -> None:
        """Check the schema version, and set the version of a new store."""
        with self._lmdb.begin() as txn:
            is_new = txn.get(_SCHEMA_KEY) is None and not txn.stat()["entries"]
        if is_new:
            with self._lmdb.begin(write=True) as txn:
                txn.put(_SCHEMA_KEY, b"%d" % SCHEMA_VERSION, overwrite=False)
        with self._lmdb.begin() as txn:
            self.check_schema(txn)
        if not self._sentinel.is_kept:
            sync_names(self.directory)
            self._sentinel.keep()

    def translate(self, error: lmdb.Error) -> LakeError:
        """Convert an LMDB error to a lakecli error."""
        return store_errors.from_lmdb(error, self.directory)

    def usage(self) -> tuple[int, int]:
        """Return the bytes in use, and the bytes that the store can contain in this process.

        Space of deleted records counts as in use.
        """
        info = self._lmdb.info()
        return (info["last_pgno"] + 1) * self._page_size, info["map_size"]

    def close(self) -> None:
        """Close the environment; this ends open transactions.

        If the file is too short and cannot be extended, the next process must do that; see `grow`.
        """
        if os.getpid() == self._pid:  # a forked child must not touch its parent's locks
            is_whole = self._grow()
            self._lmdb.close()
            os.close(self._file)
            self._sentinel.close(cleanly=is_whole)


def acquire(directory: StrPath, *, map_size: int, durable: bool = True) -> LmdbEnvironment:
    """Return this process's environment for a directory, and open it if necessary.

    Raises:
        LakeError: the errors that `lakecli.kv.local_store.LocalStore.open` lists.
    """
    with store_errors.converting(directory):
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


@contextmanager
def opening(directory: StrPath) -> Iterator[bool]:
    """Keep this process from opening stores; yield whether it has the store in `directory` open."""
    with _open_lock:
        status = os.stat(directory)
        yield (status.st_dev, status.st_ino) in _open


def rewritten(directory: StrPath) -> str:
    """Return the path of the temporary file that replaces a store's file in a compaction."""
    return os.path.realpath(f"{directory}/{DATA_FILE}") + ".rewritten"


def _open_new(
    directory: StrPath, map_size: int, identity: FileId, *, durable: bool
) -> LmdbEnvironment:
    sentinel = Sentinel(directory)
    try:
        check_file(directory, sentinel)
        if sentinel.was_rewriting:  # a killed process has left its copy
            with suppress(OSError):
                os.unlink(rewritten(directory))
        sentinel.begin()
        allocate_lock_file(directory)
        lmdb_env = open_map(directory, map_size, durable=durable)
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


def sync_names(directory: StrPath) -> None:
    """Make the directory entries of a new store's files and of its parent directories durable."""
    above = os.path.abspath(directory)
    for _ in range(4):
        sync_directory(above)
        above = os.path.dirname(above)


def check_file(directory: StrPath, sentinel: Sentinel) -> None:
    """Check the store's file before it is mapped.

    Raises:
        IntegrityError: the file is too short or damaged, so that reading it would kill this
            process; or a store existed here, and its file is now missing or empty.
    """
    if sentinel.is_kept and _is_empty(directory):
        problem: str | None = f"{DATA_FILE} is missing or empty"
    else:
        can_grow = hasattr(os, "posix_fallocate")  # not on macOS, where any file may be short
        may_be_short = sentinel.was_left_open or not sentinel.is_alone or not can_grow
        problem = find_damage(directory, may_be_short=may_be_short)
    if problem is None:
        return
    if sentinel.was_left_open:
        problem += "; the store was not closed after its last use"
    raise store_errors.damaged_store(directory, problem)


def release(shared: LmdbEnvironment) -> None:
    """Release one handle; close the environment if it was the last handle."""
    with _open_lock:
        shared.handles -= 1
        if shared.handles == 0:
            _open.pop(shared.identity, None)
            shared.close()


def _refuse_network(directory: StrPath) -> None:
    """Refuse a directory on a network file system; only Linux has the table of mounts for this."""
    try:
        with open(MOUNT_TABLE, "rb") as file:
            mount_table = file.read()
    except OSError:  # macOS, or a sandbox without /proc; then only LMDB's locks can fail
        return
    kind = network_type(os.fsencode(os.path.realpath(directory)), mount_table)
    if kind is not None:
        raise store_errors.network_store(directory, kind)


def allocate_lock_file(directory: StrPath) -> None:
    """Allocate the disk blocks of a new store's lock file.

    LMDB creates a sparse lock file and maps it: on a full disk, the first write to a page would
    kill the process.
    """
    allocate = getattr(os, "posix_fallocate", None)
    if allocate is None:  # macOS
        return
    descriptor = os.open(f"{directory}/lock.mdb", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_size == 0:
            # This overwrites nothing, because another process may use the file already.
            allocate(descriptor, 0, _LOCK_FILE_SIZE)
    finally:
        os.close(descriptor)


def open_map(directory: StrPath, map_size: int, *, durable: bool) -> lmdb.Environment:
    """Open the environment with the largest map up to `map_size` that the process can have.

    If `map_size` is smaller than the file, LMDB increases it.
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
    raise store_errors.no_address_space(directory) from failure


def _open_when_free(directory: StrPath, size: int, *, durable: bool) -> lmdb.Environment:
    """Open the environment, after waiting for a process that has the same process ID as this one.

    Processes in two containers may have the same ID and use the same home. LMDB locks a byte of its
    lock file for each process ID that reads, so the second process must wait.

    Raises:
        lmdb.LockError: the other process uses the store for longer than ten seconds.
    """
    path, pauses = os.fsencode(directory), iter(_PAUSES)
    while True:
        try:
            return lmdb.open(
                path, map_size=size, max_readers=_MAX_READERS, mode=0o700, sync=durable
            )
        except lmdb.LockError:
            pause = next(pauses, None)
            if pause is None:
                raise
            sleep(pause)


def _map_sizes(map_size: int) -> Iterator[int]:
    """Yield the map sizes to try: `map_size`, then smaller ones down to `SMALLEST_MAP_SIZE`.

    If the address space of the process is limited, the smaller sizes are at most a quarter of it.
    """
    yield map_size
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    size = map_size // 2 if limit == resource.RLIM_INFINITY else min(map_size // 2, limit // 4)
    while size >= SMALLEST_MAP_SIZE:
        yield size & -4096
        size //= 2


DATA_FILE: Final = "data.mdb"

_MAGIC: Final = 0xBEEFC0DE
_VERSION: Final = 1
_META: Final = struct.Struct("<QHHHHIIQQ" + 2 * "IHHQQQQQ" + "QQ")
_META_PAGE: Final = 8
_DAMAGE_PAUSES: Final = (0.0, 0.02, 0.1)
"""Seconds before each attempt to read a page: pages being written may look damaged."""


class _DamageError(Exception):
    """The store's file is damaged."""


def find_damage(directory: StrPath, *, may_be_short: bool) -> str | None:
    """Describe the damage of a store's file; ``None`` if the file is undamaged or missing.

    Other processes may write to the file at the same time.

    Args:
        may_be_short: extend a file that is too short instead of reporting damage. A process that
            was killed may have left the file short; see `grow`.
    """
    problem: str | None = None
    for pause in _DAMAGE_PAUSES:
        if pause:
            sleep(pause)
        try:
            with open(f"{directory}/{DATA_FILE}", "r+b", buffering=0) as file:
                _check_pages(file.fileno(), may_be_short=may_be_short)
        except FileNotFoundError:
            return None
        except _DamageError as error:
            problem = str(error)
        else:
            return None
    return problem


def _is_empty(directory: StrPath) -> bool:
    """Return whether a store's file is missing or empty, so that LMDB would create a new store."""
    try:
        return os.stat(f"{directory}/{DATA_FILE}").st_size == 0
    except FileNotFoundError:
        return True


def grow(descriptor: int, size: int) -> None:
    """Extend a store's file to `size` bytes; never shorten it, even if other processes extend it.

    LMDB does not write pages that were allocated and freed in one transaction. If such pages are
    the last ones, the file is shorter than its meta page says, as if it had been truncated.
    """
    if os.fstat(descriptor).st_size < size and hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, size - 1, 1)


def _check_pages(descriptor: int, *, may_be_short: bool) -> None:
    first = os.pread(descriptor, _META.size, 0)
    if not first:
        return  # new: LMDB creates a store in an empty file
    meta = _read_meta(first)
    page_size = meta[-1]
    newest = max(meta, _read_meta(os.pread(descriptor, _META.size, page_size)))
    # Read after the meta pages: the file can only have grown since.
    size = os.fstat(descriptor).st_size
    needed = (newest[1] + 1) * page_size
    if size >= needed:
        return
    if not may_be_short:
        raise _DamageError(f"{DATA_FILE} has {size:,} bytes, of {needed:,}")
    grow(descriptor, needed)


def _read_meta(data: bytes) -> tuple[int, int, int]:
    """Return the transaction number, the last page and the page size of a meta page."""
    if len(data) < _META.size:
        raise _DamageError(f"{DATA_FILE} ends within its first pages")
    fields = _META.unpack(data)
    _, _, flags, _, _, magic, version, _, _ = fields[:9]
    if magic != _MAGIC or version != _VERSION or not flags & _META_PAGE:
        raise _DamageError(f"{DATA_FILE} does not begin with a meta page")
    page_size = fields[9]
    if page_size not in {1 << shift for shift in range(9, 17)}:
        raise _DamageError(f"{DATA_FILE} has an impossible page size")
    return fields[26], fields[25], page_size


MOUNT_TABLE: Final = "/proc/mounts"

NETWORK_TYPES: Final = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "9p", "coda", "davfs"),
        *("ceph", "glusterfs", "lustre", "gpfs", "beegfs", "beegfs_nodev", "pvfs2", "orangefs"),
        *("ocfs2", "gfs2", "panfs", "wekafs", "vboxsf", "vmhgfs", "prl_fs"),
    }
)
"""Types of network file systems.

A type ``fuse.<helper>`` counts as a network file system if `NETWORK_HELPERS` has the helper.
"""

NETWORK_HELPERS: Final = frozenset(
    {
        *("sshfs", "s3fs", "rclone", "gcsfuse", "goofys", "geesefs", "mount-s3", "mountpoint-s3"),
        *("blobfuse", "blobfuse2", "juicefs", "glusterfs", "ceph", "ceph-fuse", "davfs", "davfs2"),
        *("curlftpfs", "smbnetfs", "objectivefs", "cvmfs2", "hdfs", "alluxio-fuse", "seaweedfs"),
        *("vmhgfs-fuse", "dfuse"),
    }
)


def network_type(directory: bytes, mount_table: bytes) -> str | None:
    """Return the type of the file system of `directory` if it is a network file system.

    Args:
        directory: an absolute path with symbolic links resolved.
        mount_table: the text of ``/proc/mounts``; if a path is mounted twice, the later line
            counts.

    Returns:
        The type; ``None`` for a local file system.
    """
    best = b""
    found = ""
    for line in mount_table.splitlines():
        fields = line.split(b" ")
        if len(fields) < 3:  # noqa: PLR2004 - device, place and type
            continue
        place = _unescape(fields[1])
        inside = directory == place or directory.startswith(place.rstrip(b"/") + b"/")
        if inside and len(place) >= len(best):
            best, found = place, fields[2].decode("ascii", "replace")
    helper = found.removeprefix("fuse.")
    is_network = found in NETWORK_TYPES or (helper != found and helper in NETWORK_HELPERS)
    return found if is_network else None


def _unescape(place: bytes) -> bytes:
    """Decode the kernel's octal escapes of blanks, tabs, newlines and backslashes in a path."""
    if b"\\" not in place:
        return place
    return re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8) & 0xFF]), place)
