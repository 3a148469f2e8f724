"""Downloading: verified bytes into local files, with the times they were uploaded with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakecli.errors import IntegrityError, NotFound, UsageError
from lakecli.layout import data_digest
from lakecli.model import CLIENT_MTIME
from lakecli.objectstore.base import ObjectNotFound
from lakecli.repository.address import is_external
from lakecli.repository.destination import Destination, UnsafeName
from lakecli.repository.objects import open_object
from lakecli.repository.view import no_such_path, open_view

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakecli.model import Entry
    from lakecli.repository.lake import Repository


@dataclass(slots=True)
class DownloadReport:
    """What a recursive download did; `failures` are (path, why)."""

    downloaded: int = 0
    size: int = 0
    failures: list[tuple[bytes, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who is told about progress: sizes of finished objects, and of pieces of large ones."""

    on_object: Callable[[int], None] | None = None
    on_bytes: Callable[[int], None] | None = None


_SILENT = Listeners()


def _digest(entry: Entry) -> str | None:
    """Return the BLAKE3 that an entry's bytes must have, where lakecli uploaded them."""
    return None if is_external(entry) else data_digest(entry.physical_address)


def _mtime(entry: Entry) -> int:
    recorded = entry.metadata.get(CLIENT_MTIME, "")
    if recorded.lstrip("-").isdecimal():
        return int(recorded)
    return int(entry.modified_at.timestamp())


def _fetch(
    repository: Repository,
    entry: Entry,
    destination: Destination,
    name: bytes,
    listeners: Listeners,
) -> int:
    with open_object(repository, entry) as source:
        return destination.write(
            name,
            source,
            digest=_digest(entry),
            mtime=_mtime(entry),
            on_bytes=listeners.on_bytes,
        )


def download_object(
    repository: Repository,
    ref: str,
    path: bytes,
    *,
    target: Path,
    listeners: Listeners = _SILENT,
) -> Entry:
    """Download one object to a file, verified, complete or not at all.

    Raises:
        NotFound: no such ref or path, or its data is gone.
        IntegrityError: the bytes in the store are damaged; nothing was written.
        UsageError: `target` cannot be a file.
        PermissionDenied: `target` cannot be written.
    """
    import os

    with open_view(repository, ref) as view:
        entry = view.entry(path)
    name = os.fsencode(target.name)
    try:
        with Destination(os.fsencode(target.parent)) as destination:
            _fetch(repository, entry, destination, name, listeners)
    except UnsafeName as error:
        raise UsageError(error.message, hint="name another file") from error
    return entry


def download_tree(
    repository: Repository,
    ref: str,
    prefix: bytes,
    *,
    target: Path,
    listeners: Listeners = _SILENT,
) -> DownloadReport:
    """Download everything below a directory; what fails is reported, the rest is done.

    Directory markers (paths that end in a slash) become directories. Whatever a path or a symbolic
    link in `target` says, nothing is written outside it.

    Raises:
        NotFound: no such ref, or nothing below the prefix.
    """
    import os

    from lakecli.committed.values import decode_entry

    if prefix and not prefix.endswith(b"/"):
        prefix += b"/"
    report = DownloadReport()
    with open_view(repository, ref) as view, Destination(os.fsencode(target)) as destination:
        for path, value in view.scan(prefix=prefix):
            entry = decode_entry(value)
            name = path[len(prefix) :]
            if not name or name.endswith(b"/"):
                continue
            try:
                report.size += _fetch(repository, entry, destination, name, listeners)
            except (UnsafeName, NotFound, ObjectNotFound, IntegrityError) as error:
                report.failures.append((path, error.message))
                continue
            report.downloaded += 1
            if listeners.on_object is not None:
                listeners.on_object(entry.size)
        if not (report.downloaded or report.failures):
            raise no_such_path(repository, ref, prefix)
    return report
