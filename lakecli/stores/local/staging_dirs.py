"""Staging directories, and the temporary files that killed processes left.

Temporary files that killed processes left behind: found by their age and by their locks.

A process holds a shared lock on each temporary file that it writes, and on each directory of them
that it has made; the lock ends with the process. A file that is older than a day and not locked is
a leftover. On a file system without such locks nothing is removed: whether a file is in use cannot
be known there.

Staging directories: unfinished files in directories that can become the final ones.

::

    <root>/_lakecli/tmp/<name>/<number>/<last component of the key>

Each numbered directory stands for a final directory. If that does not exist yet, the staging
directory is renamed to it: one operation instead of two for every file. Only this user may enter
the directory above them, so that no one else can put a symbolic link there.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from lakecli.stores.local.directory import LOCK_NAME, TEMPORARY, RootDirectory
from lakecli.stores.local.files import (
    CREATE_NEW,
    FILE_MODE,
    names_in,
    status_of,
    sync_file,
    sync_names,
    sync_published,
    write_all,
)

if TYPE_CHECKING:
    from lakecli.stores.local.directory import RootDirectory

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def clear_temporaries(files: RootDirectory, *, before_ns: int) -> int:
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


_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_TAKEN = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR})


class StagingDirs:
    """The new files of a batch until its next flush.

    Args:
        files: the namespace.
        temporaries: its directory of temporaries, opened.
        is_content: the keys determine the contents, so an object of another size is damaged and
            replaced.

    Attributes:
        writers: threads that are writing; the batch changes it under its lock.
        count: finished files that are not published.
    """

    def __init__(self, files: RootDirectory, temporaries: int, *, is_content: bool = False) -> None:
        self._files = files
        self._temporaries = temporaries
        self._is_content = is_content
        self._name, self._descriptor = files.open_temporary_directory(temporaries)
        self._places: dict[bytes, bytes] = {}
        self._names: dict[bytes, list[bytes]] = {}
        self.writers = 0

    @property
    def count(self) -> int:
        """Finished files that are not published."""
        return sum(map(len, self._names.values()))

    def write(self, parent: bytes, name: bytes, body: bytes) -> bool:
        """Write a file for the directory `parent`; return ``False`` if another thread does."""
        place = self._places.get(parent) or self._make_place(parent)
        path = place + b"/" + name
        try:
            descriptor = os.open(path, CREATE_NEW, FILE_MODE, dir_fd=self._descriptor)
        except FileExistsError:
            return False  # another thread may still be writing it
        try:
            write_all(descriptor, body)
        except BaseException:
            os.unlink(path, dir_fd=self._descriptor)
            raise
        finally:
            os.close(descriptor)
        self._names[parent].append(name)
        return True

    def _make_place(self, parent: bytes) -> bytes:
        place = b"%x" % len(self._places)
        while True:
            try:
                os.mkdir(place, dir_fd=self._descriptor)
            except FileExistsError:  # another thread was faster
                place += b"-"
            else:
                break
        self._names.setdefault(parent, [])
        return self._places.setdefault(parent, place)

    def sync_content(self) -> None:
        """Make the contents of the finished files durable, one by one."""
        for place, names in self._by_place():
            for name in names:
                descriptor = os.open(place + b"/" + name, os.O_RDONLY, dir_fd=self._descriptor)
                try:
                    sync_file(descriptor)
                finally:
                    os.close(descriptor)

    def _by_place(self) -> Iterator[tuple[bytes, list[bytes]]]:
        for parent, names in self._names.items():
            yield self._places[parent], names

    def publish(self, *, sync: bool) -> None:
        """Give all files their final names, as `RootDirectory.publish` does.

        After an error, unpublished files are still there.

        Args:
            sync: make the names durable, directory by directory.
        """
        for parent in sorted(self._names):
            if self._names[parent]:
                self._publish(parent, sync=sync)
            del self._names[parent]

    def _publish(self, parent: bytes, *, sync: bool) -> None:
        place, components = self._places[parent], parent.split(b"/") if parent else []
        if components and self._move(place, components, sync=sync):
            return
        names = self._names[parent]
        source = os.open(place, _DIRECTORY, dir_fd=self._descriptor)
        try:
            with self._files.opened(components, create=True, sync=sync) as target:
                while names:
                    is_published = self._files.publish(
                        self._temporaries,
                        names[-1],
                        target,
                        names[-1],
                        source=source,
                        is_content=self._is_content,
                    )
                    if sync and not is_published:
                        key = b"/".join([*components, names[-1]])
                        sync_published(self._files.root, os.fsdecode(key))
                    names.pop()
                if sync:
                    sync_names(target)
        finally:
            os.close(source)

    def _move(self, place: bytes, components: list[bytes], *, sync: bool) -> bool:
        """Rename a place to the final directory; return ``False`` if that exists."""
        with self._files.opened(components[:-1], create=True, sync=sync) as above:
            name = components[-1]
            try:
                os.rename(place, name, src_dir_fd=self._descriptor, dst_dir_fd=above)
            except OSError as error:
                if error.errno not in _TAKEN:
                    raise
                return False
            if sync:
                moved = os.open(name, _DIRECTORY, dir_fd=above)
                try:
                    sync_names(moved)
                finally:
                    os.close(moved)
                sync_names(above)
        return True

    def remove(self) -> None:
        """Remove all unpublished files, and the directory itself."""
        with suppress(OSError):
            for place in names_in(self._descriptor):
                with suppress(OSError):
                    self._remove_place(place)
        os.close(self._descriptor)
        with suppress(OSError):
            os.rmdir(self._name, dir_fd=self._temporaries)

    def _remove_place(self, place: bytes) -> None:
        with suppress(FileNotFoundError):
            opened = os.open(place, _DIRECTORY, dir_fd=self._descriptor)
            try:
                for name in names_in(opened):
                    os.unlink(name, dir_fd=opened)
            finally:
                os.close(opened)
            os.rmdir(place, dir_fd=self._descriptor)
