"""Paths of the file system, and translation of lakecli's errors to Python's own.

Paths have the form ``demo/main/tables/a.parquet``, optionally with ``lakefs://``. A repository that
is read without a clone is named by its namespace: ``s3://bucket/sales@main/a.parquet``.

A path that exists is never taken for a pattern, although fsspec does so if it contains ``*``, ``?``
or ``[``: with fsspec 2026.9, ``rm("a[1].csv")`` removes ``a1.csv`` instead.

lakecli's errors are translated into the exceptions that Python programs expect of file operations.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from lakecli import errors
from lakecli.base.uri import SCHEME, LakeUri, split_namespace, without_scheme
from lakecli.repository.journal.workspaces import branch_of


class LakePath(NamedTuple):
    """The parts of a path: repository, ref and object path.

    Attributes:
        repository: the name of the repository; its storage namespace if it is read without a clone;
            ``""`` for the root, which contains repositories.
        ref: a ref expression, or the name of the workspace of a `committing` block; ``""`` for the
            directory of a repository, which contains branches and tags.
        path: the path of an object or directory; ``b""`` for the root directory of the ref.
    """

    repository: str
    ref: str
    path: bytes

    @property
    def uri(self) -> str:
        """The URI of the repository: ``lakefs://repository``, or the storage namespace."""
        return str(LakeUri(self.repository))

    @property
    def directory(self) -> bytes:
        """The prefix of all object paths below this path."""
        return self.path + b"/" if self.path else b""

    def name(self, path: bytes) -> str:
        """Return the path of an object at the same ref in the form that the file system uses."""
        place = str(LakeUri(self.repository, branch_of(self.ref))).removeprefix(SCHEME)
        return f"{place}/{os.fsdecode(path)}".rstrip("/")


def strip(path: str) -> str:
    """Return a path without ``lakefs://`` and without slashes at its ends."""
    return path.removeprefix(SCHEME).strip("/")


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


def is_existing_name(files: Any, path: str) -> bool:
    """Return whether a path looks like a pattern, but exists.

    Args:
        files: the file system of the path.
    """
    return any(mark in path for mark in "*?[") and bool(files.exists(path))


def as_file_lists(
    files: Any, source: Any, target: Any, *, into: bool, recursive: bool, maxdepth: int | None
) -> tuple[Any, Any]:
    """Return the source and the target of a transfer for fsspec, which expands patterns.

    If the source looks like a pattern, but exists, the result is two lists of files, which fsspec
    does not expand. All else is returned unchanged.

    Args:
        files: the file system of the source.
        into: whether the target is a directory.
        recursive: whether a directory is transferred.
        maxdepth: how many levels of a directory are transferred; ``None``: all.
    """
    if not isinstance(source, str | os.PathLike) or not isinstance(target, str | os.PathLike):
        return source, target
    given, target = os.fspath(source), os.fspath(target)
    if not is_existing_name(files, given):
        return source, target
    path = files._strip_protocol(given)  # noqa: SLF001 - fsspec's own name for this
    if into and not (given.endswith("/") and files.isdir(path)):
        target = f"{target.rstrip('/')}/{path.rpartition('/')[2]}"
    if not files.isdir(path):
        return [path], [target]
    found = files.find(path, maxdepth=maxdepth) if recursive else []
    return found, [target.rstrip("/") + name[len(path) :] for name in found]


class LakeFileError(OSError):
    """An error for which Python has no specific class."""

    kind: errors.ErrorKind = errors.ErrorKind.UNEXPECTED


@contextmanager
def finding(path: str) -> Iterator[None]:
    """Translate errors of a look-up: `NotFound` becomes `FileNotFoundError`."""
    try:
        yield
    except errors.NotFound as error:
        raise FileNotFoundError(errno.ENOENT, _text(error), path) from error
    except errors.LakeError as error:
        raise _translated(error, path) from error


@contextmanager
def transferring(path: str) -> Iterator[None]:
    """Translate errors of a transfer: a missing data object is damage, not a missing file."""
    try:
        yield
    except errors.LakeError as error:
        raise _translated(error, path) from error


def _translated(error: errors.LakeError, path: str) -> Exception:
    text = _text(error)
    if isinstance(error, errors.UsageError):
        return ValueError(text)
    if isinstance(error, errors.AlreadyExists):
        return FileExistsError(errno.EEXIST, text, path)
    if isinstance(error, errors.PermissionDenied):
        return PermissionError(errno.EACCES, text, path)
    number, cause = errno.EIO, error.__cause__
    if isinstance(error, errors.Unreachable):
        is_full = isinstance(cause, OSError) and cause.errno in {errno.ENOSPC, errno.EDQUOT}
        number = errno.ENOSPC if is_full else errno.EHOSTUNREACH
    failure = LakeFileError(number, text, path)
    failure.kind = error.kind
    return failure


def _text(error: errors.LakeError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message
