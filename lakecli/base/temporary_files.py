"""Temporary files beside the files that they replace.

Their names are random, and a file that exists is never opened: whoever can write into the
directory cannot put a link there that leads to another file.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, Final

from lakecli.base.directories import StrPath
from lakecli.errors import Unreachable

_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def create_temporary(
    directory: StrPath = "", *, mode: int = 0o600, dir_fd: int | None = None
) -> tuple[str, int]:
    """Create a temporary file, and return its path and a descriptor.

    Args:
        directory: the directory of the file, relative to `dir_fd`.
        mode: permissions, of which the umask takes some away.
        dir_fd: descriptor of an open directory.
    """
    path = os.path.join(directory, f".lakecli-{os.urandom(8).hex()}.tmp")
    return path, os.open(path, _NEW, mode, dir_fd=dir_fd)


@contextmanager
def replacing(path: StrPath, *, mode: int = 0o600, is_durable: bool = True) -> Iterator[BinaryIO]:
    """Open a temporary file, which replaces another one at the end, unless there is an error.

    Args:
        path: path of the file to replace; a symbolic link is itself replaced.
        mode: permissions, of which the umask takes some away.
        is_durable: sync the contents before the file gets its name.
    """
    temporary, descriptor = create_temporary(os.path.dirname(path), mode=mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            if is_durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


@contextmanager
def temporary_space() -> Iterator[None]:
    """Name the directory of temporary files where a file without a name in it fills the disk.

    Raises:
        Unreachable: there is no space left.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        from tempfile import gettempdir  # takes milliseconds to import

        raise Unreachable(
            f"no space left for temporary files in {gettempdir()}",
            hint="set TMPDIR to a directory on a disk with free space",
        ) from error
