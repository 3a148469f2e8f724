"""Durable creation of directories, and of private directories that only their owner may read."""

import os
import stat
from contextlib import suppress
from os import PathLike
from typing import Final

from lakecli.base.os_errors import CANNOT_SYNC, MACHINE_HINTS

StrPath = str | PathLike[str]

PRIVATE: Final = 0o700

LINK_FILE: Final = b".lakefs_ref.yaml"
"""The name of the file that links a local directory to a path of a ref."""


def linked_root(start: StrPath) -> bytes | None:
    """Return the innermost linked directory that is or contains `start`; ``None`` without one."""
    path, above = os.fsencode(start), b""
    while not os.path.lexists(os.path.join(path, LINK_FILE)):
        path, above = os.path.dirname(path), path
        if path == above:
            return None
    return path


def make_private(path: StrPath) -> None:
    """Create a directory and its missing parents, readable by their owner only.

    `os.makedirs` would apply the umask to the parents. If the directory already exists, belongs to
    this user and is accessible to others, its mode becomes 0700. Existing parents are unchanged.

    Raises:
        OSError: the directory cannot be created, or a file has its name.
    """
    if not _make(os.fspath(path)):
        status = os.stat(path)
        is_open = stat.S_IMODE(status.st_mode) & ~PRIVATE
        if is_open and status.st_uid == os.geteuid():
            os.chmod(path, PRIVATE)


def make_durable(path: StrPath) -> None:
    """Create a directory and its missing parents durably; the umask decides their modes.

    Raises:
        OSError: the directory cannot be created, or a file has its name.
    """
    _make(os.fspath(path), 0o777)


def _make(path: str, mode: int = PRIVATE) -> bool:
    """Create a directory and its missing parents durably; return whether it was missing."""
    above = os.path.dirname(path)
    try:
        os.mkdir(path, mode)
    except FileNotFoundError:
        if above in {"", path}:
            raise
        _make(above, mode)
        with suppress(FileExistsError):  # another process created it at the same time
            os.mkdir(path, mode)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
        return False
    try:
        sync_directory(above or ".")
    except OSError:
        with suppress(OSError):  # so that the next process creates and syncs it again
            os.rmdir(path)
        raise
    return True


def sync_directory(path: StrPath) -> None:
    """Make the file names in a directory durable.

    A directory that this process may not read is skipped, and so is a directory on a file system
    that cannot sync directories.

    Raises:
        OSError: syncing failed, so some names may be lost after a crash.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in MACHINE_HINTS:
            raise
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in CANNOT_SYNC:
            raise
    finally:
        os.close(descriptor)
