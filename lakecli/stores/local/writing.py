"""Writing, listing and removing objects of a local namespace.

Listing a directory in the order of keys.

Removing objects and empty directories of a local namespace.

Writing one object of a local namespace, under a condition.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import BinaryIO

from lakecli.stores.contract import (
    Absent,
    Condition,
    ConditionFailed,
    Match,
    ObjectInfo,
    Version,
    key_bytes,
)
from lakecli.stores.local.directory import TEMPORARY, RootDirectory, split_key
from lakecli.stores.local.files import (
    info_of,
    object_status,
    open_below,
    status_of,
    sync_file,
    sync_names,
    version_of,
    write_all,
)

RESERVED = b"/".join((*TEMPORARY, b""))


def walk(descriptor: int, above: bytes, wanted: bytes, floor: bytes) -> Iterator[ObjectInfo]:
    """Yield what lies in an opened directory, and close it.

    Args:
        descriptor: of the directory, owned by this call.
        above: its key, with a trailing slash; empty for the root.
        wanted: the prefix of every key to yield.
        floor: every key to yield is greater.
    """
    try:
        # With the slash in its name a directory sorts where its keys do: "a-b" before "a/b".
        names = []
        with os.scandir(descriptor) as entries:
            for entry in entries:
                name = os.fsencode(entry.name)
                if entry.is_dir(follow_symlinks=False):
                    name += b"/"
                elif entry.is_symlink():
                    continue
                if (above + name).startswith(wanted) or wanted.startswith(above + name):
                    names.append(name)
        names.sort()
        for name in names:
            key = above + name
            if name.endswith(b"/"):
                if (key > floor or floor.startswith(key)) and key != RESERVED:
                    yield from _descend(descriptor, name[:-1], key, wanted, floor)
            elif key > floor and key.startswith(wanted):
                status = status_of(descriptor, name)
                if status is not None and stat.S_ISREG(status.st_mode):
                    yield info_of(key.decode("utf-8", "surrogateescape"), status)
    finally:
        os.close(descriptor)


def _descend(
    parent: int, name: bytes, key: bytes, wanted: bytes, floor: bytes
) -> Iterator[ObjectInfo]:
    with suppress(FileNotFoundError):  # deleted since it was listed
        yield from walk(open_below(parent, name, create=False, sync=False), key, wanted, floor)


def delete(files: RootDirectory, objects: Iterable[tuple[str, Version | None]]) -> Sequence[str]:
    """Delete objects that have these versions, ``None`` for any; return the other keys."""
    kept = []
    with files.translated("temporary files"):
        temporaries = files.open_directory(TEMPORARY, create=True)
    try:
        for key, version in objects:
            names = split_key(key)
            with (
                files.translated(key),
                suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError),
                files.opened(names[:-1]) as parent,
                files.locked(temporaries),
            ):
                current = object_status(parent, names[-1])
                if current is None:
                    continue
                if version is None or version_of(current) == version:
                    os.unlink(names[-1], dir_fd=parent)
                else:
                    kept.append(key)
    finally:
        os.close(temporaries)
    return kept


def prune(files: RootDirectory, prefix: str) -> None:
    """Remove the directory of a prefix if it is empty; see `DirectoryStore.prune`."""
    names = key_bytes(prefix).rstrip(b"/").split(b"/")
    with files.translated(prefix):
        with (
            suppress(FileNotFoundError),
            files.opened(names[:-1]) as parent,
            suppress(OSError),
        ):
            os.rmdir(names[-1], dir_fd=parent)
        with suppress(FileNotFoundError):
            files.remove_own()


COPY_SIZE = 1 << 20
COPY_LIMIT = 1 << 30


def put(
    files: RootDirectory, key: str, condition: Condition, write: Callable[[int], None]
) -> Version:
    """Write an object to a temporary name, and give it its own; return its version.

    Args:
        files: the directory of the namespace.
        key: of the object.
        condition: on the object that the key has now.
        write: writes the contents to a descriptor.

    Raises:
        ConditionFailed: `condition` did not hold.
    """
    names = split_key(key)
    with (
        files.translated(key),
        files.opened(names[:-1], create=True) as parent,
        files.opened(TEMPORARY, create=True) as temporaries,
    ):
        # Checked here to save the write, and again under the lock.
        _check(condition, object_status(parent, names[-1]), key)
        temporary, descriptor = files.create_temporary(temporaries)
        try:
            write(descriptor)
            files.stamp(descriptor)
            sync_file(descriptor)
            if isinstance(condition, Absent):
                files.publish_new(temporaries, temporary, parent, names[-1])
            else:
                with files.locked(temporaries):
                    current = object_status(parent, names[-1])
                    _check(condition, current, key)
                    if current is not None:
                        files.stamp(descriptor, later_than=current.st_mtime_ns)
                    os.rename(temporary, names[-1], src_dir_fd=temporaries, dst_dir_fd=parent)
            version = version_of(os.fstat(descriptor))
        except BaseException as error:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=temporaries)
            if isinstance(error, FileExistsError):
                raise _failed(key, "there already") from None
            raise
        finally:
            os.close(descriptor)
        sync_names(parent)
    return version


def _failed(key: str, state: str) -> ConditionFailed:
    return ConditionFailed(f"object is {state}, nothing was written: {key!r}")


def _check(condition: Condition, current: os.stat_result | None, key: str) -> None:
    match condition:
        case Absent() if current is not None:
            raise _failed(key, "there already")
        case Match() if current is None:
            raise _failed(key, "not there")
        case Match(version) if current is not None and version_of(current) != version:
            raise _failed(key, "of another version")
        case _:
            pass


def write_body(descriptor: int, body: bytes | BinaryIO) -> None:
    """Write bytes, or a file to its end."""
    if isinstance(body, bytes | bytearray | memoryview):
        write_all(descriptor, body)
        return
    while piece := body.read(COPY_SIZE):
        write_all(descriptor, piece)


def copy_body(source: int, descriptor: int) -> None:
    """Copy a file, inside the kernel if possible."""
    copy_range = getattr(os, "copy_file_range", None)  # macOS has none
    try:
        while copy_range is not None and copy_range(source, descriptor, COPY_LIMIT):
            pass
    except OSError as error:
        # This file system cannot; a full disk fails again below.
        if error.errno in {errno.EIO, errno.ENOSPC, errno.EDQUOT}:
            raise
    offset = os.lseek(descriptor, 0, os.SEEK_CUR)
    while piece := os.pread(source, COPY_SIZE, offset):
        write_all(descriptor, piece)
        offset += len(piece)
