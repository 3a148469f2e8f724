"""Temporary files that killed processes left behind: found by their age and by their locks.

A process holds a shared lock on each temporary file that it writes, and on each directory of them
that it has made; the lock ends with the process. A file that is older than a day and not locked is
a leftover. On a file system without such locks nothing is removed: whether a file is in use cannot
be known there.
"""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress

from lakecli.stores.local.directory import LOCK_NAME, TEMPORARY, Directory
from lakecli.stores.local.files import names_in, status_of

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def clear_temporaries(files: Directory, *, before_ns: int) -> int:
    """Remove leftovers that did not change since `before_ns` (unix nanoseconds).

    Files that cannot be locked or removed stay: another process may use them, the file system may
    have no locks, or they may belong to another user.

    Returns:
        The number of files removed.
    """
    removed = 0
    with suppress(FileNotFoundError), files.opened(TEMPORARY) as temporaries:
        for name in sorted(names_in(temporaries) - {LOCK_NAME}):
            with suppress(OSError):
                removed += _clear(temporaries, name, before_ns)
    return removed


def _clear(parent: int, name: bytes, before_ns: int) -> int:
    status = status_of(parent, name)
    if status is None or status.st_mtime_ns >= before_ns:
        return 0
    if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
        return 0  # not made by lakecli
    descriptor = os.open(name, _OPEN, dir_fd=parent)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if a process holds it
        if stat.S_ISREG(status.st_mode):
            os.unlink(name, dir_fd=parent)
            return 1
        if _changed_at(descriptor) >= before_ns:
            return 0
        removed = _remove_all(descriptor)
    finally:
        os.close(descriptor)
    os.rmdir(name, dir_fd=parent)
    return removed


def _changed_at(descriptor: int) -> int:
    """Return when a directory or anything in it last changed."""
    times = [os.fstat(descriptor).st_mtime_ns]
    with os.scandir(descriptor) as entries:
        times += [entry.stat(follow_symlinks=False).st_mtime_ns for entry in entries]
    return max(times)


def _remove_all(descriptor: int) -> int:
    """Remove the files of a directory and of its subdirectories; return how many."""
    removed = 0
    for name in names_in(descriptor):
        status = status_of(descriptor, name)
        if status is None:
            continue
        if not stat.S_ISDIR(status.st_mode):
            os.unlink(name, dir_fd=descriptor)
            removed += 1
            continue
        below = os.open(name, _OPEN | os.O_DIRECTORY, dir_fd=descriptor)
        try:
            for each in names_in(below):
                os.unlink(each, dir_fd=below)
                removed += 1
        finally:
            os.close(below)
        os.rmdir(name, dir_fd=descriptor)
    return removed
