"""Output files of commands: `--output`, `--manifest` and `--script`."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from lakecli.base import temporary_files
from lakecli.base.pipes import is_pipe, open_pipe
from lakecli.errors import NotFound, PermissionDenied, UsageError
from lakecli.repository.transfer.destination import translated

PRIVATE: Final = 0o600
"""The mode of a file that only its owner can read."""


def check_writable(path: Path) -> None:
    """Refuse a file that cannot be written; commands call this before all other work.

    Raises:
        UsageError: `path` is a directory.
        NotFound: the directory of the file does not exist.
        PermissionDenied: the file or its directory is read-only.
    """
    if is_pipe(path):
        return
    if path.is_dir():
        raise UsageError(f"{path} is a directory", hint="give the name of a file in it")
    if not path.parent.is_dir():
        raise NotFound(f"no directory {path.parent}", hint=f"create it: mkdir -p {path.parent}")
    if not os.access(path if _is_special(path) else path.parent, os.W_OK):
        raise PermissionDenied(f"cannot write {path}: its directory is read-only")


@contextmanager
def replacing(path: Path, *, mode: int | None = None) -> Iterator[BinaryIO]:
    """Open a new file under a temporary name; after a success, rename it to `path`.

    A device or a pipe is opened and written directly.

    Args:
        path: the path of the file, which is replaced if it exists.
        mode: the permissions of the file; ``None`` for the default permissions by the umask.

    Raises:
        PermissionDenied: the file cannot be written.
        Unreachable: the disk is full.
    """
    if is_pipe(path):
        with translated(os.fsencode(path)):
            pipe = open_pipe(path)
        with pipe:
            yield pipe
        return
    with translated(os.fsencode(path)):
        if _is_special(path):
            with path.open("wb") as file:
                yield file
            return
        with temporary_files.replacing(path, mode=0o666 if mode is None else PRIVATE) as file:
            yield file
            if mode is not None:
                os.fchmod(file.fileno(), mode)


def _is_special(path: Path) -> bool:
    """Return whether a path exists and is not a regular file: a device or a socket."""
    return path.exists() and not path.is_file()
