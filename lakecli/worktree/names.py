"""Which paths of a ref can be files below a working directory, and their executable bit.

Which paths of a ref can be files below a working directory.

Paths come from a bucket and are not trusted. One that cannot be a file here is left out: it is
neither written nor ever taken for deleted.

The executable bit, in lakectl's metadata for POSIX permissions.

The key begins with ``::lakefs::``, so it is no part of an entry's identity: a file whose bit alone
has changed is not a change, and the bit is recorded with the file's next bytes.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from typing import Final

from lakecli.base.model import Entry
from lakecli.repository.transfer.selection import is_own

IGNORE_FILE: Final = b".lakefsignore"
MAX_COMPONENT: Final = 255
"""Bytes of a file name, at most, on every file system in use."""

_IMPOSSIBLE: Final = frozenset({b"", b".", b".."})


def is_possible(relative: bytes) -> bool:
    """Return whether a path can be a file below a working directory.

    A path that ends in a slash marks a directory in a bucket, and is no file.
    """
    if b"\0" in relative:
        return False
    for each in relative.split(b"/"):
        if each in _IMPOSSIBLE or len(each) > MAX_COMPONENT:
            return False
    return not is_own(relative)


PERMISSIONS: Final = "::lakefs::posix-permissions"
"""JSON with UID, GID and Mode, of which lakecli uses the executable bit of the owner."""

_MAX_SIZE: Final = 256


def permissions_of(status: os.stat_result) -> Mapping[str, str]:
    """Return the metadata to record with a file: none, unless its owner may execute it."""
    if not status.st_mode & stat.S_IXUSR:
        return {}
    fields = {"UID": status.st_uid, "GID": status.st_gid, "Mode": stat.S_IMODE(status.st_mode)}
    return {PERMISSIONS: json.dumps(fields, separators=(",", ":"))}


def is_executable(entry: Entry) -> bool:
    """Return whether an object was uploaded from a file that its owner could execute."""
    text = entry.metadata.get(PERMISSIONS, "")
    if not text or len(text) > _MAX_SIZE:
        return False
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return False
    mode = fields.get("Mode") if isinstance(fields, dict) else None
    return type(mode) is int and bool(mode & stat.S_IXUSR)


def make_executable(file: int | bytes, *, dir_fd: int | None = None) -> None:
    """Let everyone execute a file who may read it."""
    if isinstance(file, bytes):
        # `chmod` would follow a link that another process has put there.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
        descriptor = os.open(file, flags, dir_fd=dir_fd)
        try:
            make_executable(descriptor)
        finally:
            os.close(descriptor)
        return
    mode = os.fstat(file).st_mode
    os.fchmod(file, stat.S_IMODE(mode) | (mode & 0o444) >> 2)
