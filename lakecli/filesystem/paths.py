"""Paths of the file system, and its errors as Python programs expect them.

Paths have the form ``demo/main/tables/a.parquet``, optionally with ``lakefs://``. A repository that
is read without a clone is named by its namespace: ``s3://bucket/sales@main/a.parquet``.

lakecli's errors are translated into those that Python programs expect of files.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from lakecli.base.uri import SCHEME, LakeUri, split_namespace, without_scheme
from lakecli.errors import (
    AlreadyExists,
    ErrorKind,
    LakeError,
    NotFound,
    PermissionDenied,
    Unreachable,
    UsageError,
)
from lakecli.repository.journal.workspaces import branch_of


class LakePath(NamedTuple):
    """The repository, ref and object path in a path.

    Attributes:
        repository: name of the repository, or its storage namespace, if it is read without a
            clone; ``""`` for the root, which contains repositories.
        ref: a ref expression, or the workspace of a block; ``""`` for a repository, which contains
            branches and tags.
        path: path of an object or directory; ``b""`` for the whole ref.
    """

    repository: str
    ref: str
    path: bytes

    @property
    def uri(self) -> str:
        """``lakefs://repository``, or the storage namespace."""
        return str(LakeUri(self.repository))

    @property
    def directory(self) -> bytes:
        """The prefix that all paths below this one have in common."""
        return self.path + b"/" if self.path else b""

    def name(self, path: bytes) -> str:
        """Return the file system's name for an object path of the same ref."""
        place = str(LakeUri(self.repository, branch_of(self.ref))).removeprefix(SCHEME)
        return f"{place}/{os.fsdecode(path)}".rstrip("/")


def strip(path: str) -> str:
    """Return a path without ``lakefs://`` and without slashes at its ends."""
    path = path.removeprefix(SCHEME)
    return path.strip("/")


def parse(path: str) -> LakePath:
    """Parse a path, which need not exist."""
    path = strip(path)
    in_place = without_scheme(SCHEME + path)
    if in_place == path:  # it begins with a namespace
        repository, rest = split_namespace(path)
    else:
        repository, _, rest = path.partition("/")
    ref, _, below = rest.partition("/")
    return LakePath(repository, ref, os.fsencode(below))


class LakeFileError(OSError):
    """An error for which Python has no specific class."""

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
