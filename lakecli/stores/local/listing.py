"""Listing a directory in the order of keys."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress

from lakecli.stores.base import ObjectInfo
from lakecli.stores.local.directory import TEMPORARY
from lakecli.stores.local.files import info_of, open_below, status_of

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
