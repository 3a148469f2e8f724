"""A local file that collects a large object, filled in any order and resumed after a kill."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import suppress
from typing import NamedTuple


class Partial(NamedTuple):
    """A file that is filled in any order. Safe to share between threads.

    The bytes of the object are followed by one byte for each part, which is written after the
    part. So the file of a killed process records which parts are complete. After a power failure
    it may record too many; the digest of the object reveals that.

    Attributes:
        directory: descriptor of the directory.
        temporary: name of the file in it.
        descriptor: of the file.
        name: that the complete file gets.
        size: of the object, in bytes.
    """

    directory: int
    temporary: bytes
    descriptor: int
    name: bytes
    size: int

    def complete_parts(self, count: int) -> set[int]:
        """Return the numbers of the complete parts, of `count` parts from 0."""
        marks = os.pread(self.descriptor, count, self.size)
        return {number for number, mark in enumerate(marks) if mark}

    def write(self, piece: bytes, position: int) -> None:
        """Write bytes of the object."""
        view = memoryview(piece)
        while view:
            written = os.pwrite(self.descriptor, view, position)
            view = view[written:]
            position += written

    def read(self, position: int, size: int) -> bytes:
        """Read bytes of the object."""
        return os.pread(self.descriptor, min(size, self.size - position), position)

    def mark(self, number: int) -> None:
        """Record that a part is complete."""
        os.pwrite(self.descriptor, b"\1", self.size + number)

    def clear(self) -> None:
        """Remove all parts."""
        os.ftruncate(self.descriptor, 0)

    def drop(self) -> None:
        """Remove the file."""
        with suppress(FileNotFoundError):
            os.unlink(self.temporary, dir_fd=self.directory)

    def finish(self, *, mtime: int) -> None:
        """Give the complete file its name and time, replacing a file of that name."""
        os.ftruncate(self.descriptor, self.size)
        with suppress(OverflowError, OSError):  # a time this disk cannot keep
            os.utime(self.descriptor, (mtime, mtime))
        os.replace(self.temporary, self.name, src_dir_fd=self.directory, dst_dir_fd=self.directory)


def open_exclusively(directory: int, name: bytes) -> int | None:
    """Open a file for this process alone; return ``None`` if another one uses it.

    The name is predictable, so an attacker may have put something else there: a symbolic link is
    not followed, and a file with a second name is not used either.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(name, flags, 0o666, dir_fd=directory)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EACCES}:
            return None
        raise
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Between opening and locking, another process may have renamed it.
        status, named = os.fstat(descriptor), os.stat(name, dir_fd=directory, follow_symlinks=False)
        if (
            os.path.samestat(status, named)
            and stat.S_ISREG(status.st_mode)
            and status.st_nlink == 1
        ):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError as error:
        if error.errno not in {errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS}:
            os.close(descriptor)
            raise
    os.close(descriptor)
    return None
