"""Writing one object of a local namespace, under a condition."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO

from lakecli.stores.base import Absent, Condition, ConditionFailed, Match, Version
from lakecli.stores.local.directory import TEMPORARY, Directory, split_key
from lakecli.stores.local.files import object_status, sync_file, sync_names, version_of, write_all

COPY_SIZE = 1 << 20
COPY_LIMIT = 1 << 30


def put(files: Directory, key: str, condition: Condition, write: Callable[[int], None]) -> Version:
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
