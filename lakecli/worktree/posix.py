"""The executable bit, in lakectl's metadata for POSIX permissions.

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
