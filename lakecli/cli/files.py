"""Files that commands write where `--output` says."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lakecli.errors import NotFound, PermissionDenied, UsageError

if TYPE_CHECKING:
    from pathlib import Path


def check_writable(path: Path) -> None:
    """Refuse a file that cannot be written, before a command does anything else.

    Raises:
        UsageError: it is a directory.
        NotFound: its directory does not exist.
        PermissionDenied: the file or its directory is read-only.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a directory", hint="give the name of a file in it")
    if not path.parent.is_dir():
        raise NotFound(f"no directory {path.parent}", hint=f"create it: mkdir -p {path.parent}")
    is_special = path.exists() and not path.is_file()
    if not os.access(path if is_special else path.parent, os.W_OK):
        raise PermissionDenied(f"cannot write {path}: its directory is read-only")


def write_whole(path: Path, data: bytes) -> None:
    """Write a file under a temporary name, and rename it; write a device or a pipe directly.

    Raises:
        PermissionDenied: it cannot be written.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
        else:
            _replace(path, data)
    except OSError as error:
        raise PermissionDenied(f"cannot write {path}: {error.strerror}") from error


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
