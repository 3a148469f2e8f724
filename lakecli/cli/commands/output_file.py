"""Files that commands write where `--output` says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from lakecli.errors import NotFound, PermissionDenied, UsageError


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
    """Write a file as `replacing` does.

    Raises:
        PermissionDenied: it cannot be written.
    """
    with replacing(path) as file:
        file.write(data)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file under a temporary name, which is renamed at the end unless there is an error.

    A device or a pipe is written directly.

    Raises:
        PermissionDenied: it cannot be written.
    """
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as file:
                yield file
        else:
            with _replacing(path) as file:
                yield file
    except OSError as error:
        raise PermissionDenied(f"cannot write {path}: {error.strerror}") from error


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
