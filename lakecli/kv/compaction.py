"""Compaction of a local store: return its unused space, which LMDB only reuses, to the disk.

LMDB writes a copy without free pages, and a rename replaces the file with the copy. So after a
crash, the file is either the whole old store or the whole new one. No process may have the store
open meanwhile, because its writes to the old file would be lost. Two locks exclude other processes;
a process that has the store open holds both locks shared:

- The `Sentinel`. A process that opens the store during the rewrite waits for this lock, and the
  user can interrupt it.
- The first byte of LMDB's lock file. Every version of lakecli, and every other user of LMDB, waits
  for this lock and takes it before opening the data file. So no process can have the old file.

The contents of LMDB's lock file belong to the old data file. They are erased before the rename: if
the rewrite is killed, a process that waited for the lock must not use them. Opening the new store
initialises the lock file, while the lock is still held.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_IMODE

import lmdb

from lakecli.base.directories import StrPath, make_private
from lakecli.errors import IntegrityError
from lakecli.kv import lmdb_environment, store_errors
from lakecli.kv.lmdb_environment import DATA_FILE, DEFAULT_MAP_SIZE
from lakecli.kv.sentinel import Sentinel


@contextmanager
def alone(directory: StrPath) -> Iterator[int]:
    """Prevent all other users from opening a store; yield a descriptor of LMDB's lock file.

    Raises:
        Refused: the store is open, in this process or in another one.
    """
    with store_errors.converting(directory):
        make_private(directory)
        with lmdb_environment.opening(directory) as is_open:
            if is_open:  # closing the lock file would release this process's LMDB locks
                raise store_errors.store_in_use(directory)
            sentinel = Sentinel(directory)
            try:
                if not sentinel.is_alone:
                    raise store_errors.store_in_use(directory)
                lmdb_environment.check_file(directory, sentinel)
                sentinel.begin_rewrite()
                with _locked(directory) as lock_file:
                    yield lock_file
            finally:
                sentinel.close(cleanly=not sentinel.was_left_open)


@contextmanager
def _locked(directory: StrPath) -> Iterator[int]:
    """Lock LMDB's lock file exclusively; a process with an open store locks it shared."""
    lmdb_environment.allocate_lock_file(directory)
    descriptor = os.open(f"{directory}/lock.mdb", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
        except (BlockingIOError, PermissionError):
            raise store_errors.store_in_use(directory) from None
        yield descriptor
    finally:
        os.close(descriptor)


def compact(directory: StrPath) -> tuple[int, int]:
    """Rewrite a store without its unused space; return the file's size in bytes before and after.

    Raises:
        Refused: the store is open, in this process or in another one; nothing was changed.
        Unreachable: there is no space for the copy, or the disk failed; nothing was changed.
        IntegrityError: the store is damaged; nothing was changed.
        PermissionDenied: the copy cannot be written, or its owner cannot be set to that of the old
            file.
    """
    with alone(directory) as lock_file:
        data = Path(directory, DATA_FILE).resolve()
        before = data.stat()
        copy = Path(lmdb_environment.rewritten(directory))
        try:
            _copy(directory, copy, before)
            os.pwrite(lock_file, bytes(os.fstat(lock_file).st_size), 0)
            copy.rename(data)
        finally:
            copy.unlink(missing_ok=True)
        lmdb_environment.sync_names(data.parent)
        lmdb_environment.open_map(directory, DEFAULT_MAP_SIZE, durable=True).close()
        return before.st_size, data.stat().st_size


def _copy(directory: StrPath, copy: Path, like: os.stat_result) -> None:
    """Write a durable copy of the store's file, with the owner and the mode in `like`."""
    copy.unlink(missing_ok=True)
    descriptor = os.open(copy, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_uid != like.st_uid:  # root compacts the store of another user
            os.fchown(descriptor, like.st_uid, like.st_gid)
        os.fchmod(descriptor, S_IMODE(like.st_mode))
        with lmdb.open(os.fsencode(directory), readonly=True, lock=False) as source:
            source.copyfd(descriptor, compact=True)
            entries = source.stat()["entries"]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    with lmdb.open(os.fsencode(copy), subdir=False, readonly=True, lock=False) as written:
        if written.stat()["entries"] != entries:
            raise IntegrityError(f"the copy of the local store is not whole: {directory}")
