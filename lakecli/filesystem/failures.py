"""Translate lakecli's errors into those that Python programs expect of files."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from lakecli.errors import (
    AlreadyExists,
    ErrorKind,
    LakeError,
    NotFound,
    PermissionDenied,
    Unreachable,
    UsageError,
)


class LakeFileError(OSError):
    """An error for which Python has no specific class.

    Attributes:
        kind: kind of lakecli's error.
    """

    kind: ErrorKind = ErrorKind.UNEXPECTED


@contextmanager
def finding(path: str) -> Iterator[None]:
    """Translate errors of a search: a missing object is a `FileNotFoundError`."""
    try:
        yield
    except NotFound as error:
        raise FileNotFoundError(errno.ENOENT, _text(error), path) from error
    except LakeError as error:
        raise _translated(error, path) from error


@contextmanager
def transferring(path: str) -> Iterator[None]:
    """Translate errors of a transfer: a missing data object is damage, not a missing file."""
    try:
        yield
    except LakeError as error:
        raise _translated(error, path) from error


def _translated(error: LakeError, path: str) -> Exception:
    text = _text(error)
    if isinstance(error, UsageError):
        return ValueError(text)
    if isinstance(error, AlreadyExists):
        return FileExistsError(errno.EEXIST, text, path)
    if isinstance(error, PermissionDenied):
        return PermissionError(errno.EACCES, text, path)
    number = errno.EHOSTUNREACH if isinstance(error, Unreachable) else errno.EIO
    failure = LakeFileError(number, text, path)
    failure.kind = error.kind
    return failure


def _text(error: LakeError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message
