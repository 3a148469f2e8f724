"""lakecli's own directories, which only their owner may read."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from os import PathLike
from typing import Final

StrPath = str | PathLike[str]

PRIVATE: Final = 0o700


def make_private(path: StrPath) -> None:
    """Create a directory and missing ones above it, readable by their owner only.

    `os.makedirs` would apply the umask to those above. An existing directory of this user that
    others may enter is closed to them; existing directories above it are unchanged.

    Raises:
        OSError: it cannot be created, or a file has its name.
    """
    if not _make(os.fspath(path)):
        _close(path)


def make_durable(path: StrPath) -> None:
    """Create a directory and missing ones above it, as the umask says, and sync their names.

    Raises:
        OSError: it cannot be created, or a file has its name.
    """
    _make(os.fspath(path), 0o777)


def _make(path: str, mode: int = PRIVATE) -> bool:
    """Create a directory and those above it, durably; return whether it was missing."""
    above = os.path.dirname(path)
    try:
        os.mkdir(path, mode)
    except FileNotFoundError:
        if above in {"", path}:
            raise
        _make(above, mode)
        with suppress(FileExistsError):  # of another process
            os.mkdir(path, mode)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
        return False
    with suppress(OSError):  # it may not be readable, or be of a file system that cannot
        descriptor = os.open(above or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    return True


def _close(path: StrPath) -> None:
    status = os.stat(path)
    is_open = stat.S_IMODE(status.st_mode) & ~PRIVATE
    if is_open and status.st_uid == os.geteuid():
        os.chmod(path, PRIVATE)
