"""Files that share their blocks with the objects of a namespace on the same file system.

A reflink shares the blocks until one side is written to. A hard link is the object itself under a
second name: it is made read-only, because writing to it would damage the repository.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final

from blake3 import blake3

from lakecli.errors import Unsupported
from lakecli.repository.transfer.readers import PIECE

_CLONE: Final = 0x40049409
"""Linux's ``FICLONE``."""

_CANNOT: Final = frozenset(
    {errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM}
)
_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITABLE: Final = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


class LinkMode(StrEnum):
    """How files of a working directory come from a namespace that is a directory."""

    AUTO = "auto"
    """A reflink where that works, else a copy."""
    REFLINK = "reflink"
    HARDLINK = "hardlink"
    COPY = "copy"


def reflink(source: Path, name: bytes, directory: int) -> bool:
    """Make a new file that shares the blocks of another one; return whether that works here."""
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    origin = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        descriptor = os.open(name, flags, 0o666, dir_fd=directory)
        try:
            fcntl.ioctl(descriptor, _CLONE, origin)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            return False
        finally:
            os.close(descriptor)
    finally:
        os.close(origin)
    return True


def hard_link(source: Path, name: bytes, directory: int) -> None:
    """Make a second name of a file, and make the file read-only.

    Raises:
        Unsupported: it is on another file system, or this one has no hard links.
    """
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)
    try:
        os.link(source, name, dst_dir_fd=directory, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _CANNOT | {errno.EMLINK}:
            raise
        raise unsupported("hard links", source) from error
    descriptor = os.open(name, _OPEN, dir_fd=directory)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_mode & _WRITABLE:
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & ~_WRITABLE)
    finally:
        os.close(descriptor)


def unsupported(what: str, source: Path) -> Unsupported:
    """Return the error for a file system that cannot link."""
    return Unsupported(
        f"no {what} from {source.parent} to the working directory",
        hint="copy the files: lakecli config set local.link copy",
    )


def digest_at(name: bytes, directory: int) -> str:
    """Return the BLAKE3 of a file in an opened directory, 64 hex digits."""
    descriptor = os.open(name, _OPEN, dir_fd=directory)
    try:
        hasher = blake3()
        while piece := os.read(descriptor, PIECE):
            hasher.update(piece)
        return hasher.hexdigest()
    finally:
        os.close(descriptor)
