"""Listing a directory in the order of keys."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from datetime import UTC, datetime

from lakecli.objectstore.base import ObjectInfo, Version
from lakecli.objectstore.local.directory import TEMPORARY
from lakecli.objectstore.local.files import open_below, status_of
from lakecli.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

RESERVED = b"/".join((*TEMPORARY, b""))


def version_of(status: os.stat_result) -> Version:
    """Return the version of an object, from what the system says of its file."""
    return Version(f"{status.st_mtime_ns:x}-{status.st_ino:x}-{status.st_size:x}")


def info_of(key: str, status: os.stat_result) -> ObjectInfo:
    """Describe an object, from what the system says of its file."""
    return ObjectInfo(
        key=key,
        size=status.st_size,
        modified_at=datetime.fromtimestamp(status.st_mtime_ns // 10**9, UTC),
        version=version_of(status),
    )


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
