"""Downloading objects to files, verified, with the modification times of the uploaded files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from threading import Lock
from typing import Final

from lakecli.base.model import Entry
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.base.uri import as_directory
from lakecli.committed.values import decode_entry
from lakecli.errors import (
    IntegrityError,
    LakeError,
    NotFound,
    PermissionDenied,
    Refused,
    Unreachable,
    Unsupported,
    UsageError,
)
from lakecli.repository.core.address import is_external
from lakecli.repository.core.lake import Repository
from lakecli.repository.core.own_files import is_own
from lakecli.repository.core.read import content_digest, read_object
from lakecli.repository.core.view import View, no_such_path, open_view
from lakecli.repository.transfer.destination import (
    Destination,
    NoRoom,
    State,
    Unwritable,
)
from lakecli.repository.transfer.parallel import (
    CheckedProgress,
    FailureBudget,
    Workers,
    part_retries,
)
from lakecli.repository.transfer.receive import Fetcher
from lakecli.repository.transfer.selection import EVERYTHING, Selection
from lakecli.stores.base import BucketNotFound
from lakecli.stores.capabilities import PART_SIZE
from lakecli.stores.uri import is_local

LOOK_AHEAD: Final = 1_024
"""Objects that are announced to the progress together."""


@dataclass(frozen=True, slots=True)
class DownloadOptions:
    """How to download.

    Attributes:
        parallelism: number of concurrent requests or copies.
        part_size: in bytes, of objects in a bucket that are larger than two parts. The next
            download with the same part size resumes one that was killed.
        selection: of the objects below a directory.
        progress: expects the objects below a directory as they are found; counts objects and
            bytes.
    """

    parallelism: int = 1
    part_size: int = PART_SIZE
    selection: Selection = EVERYTHING
    progress: Progress = NO_PROGRESS


@dataclass(slots=True)
class DownloadReport:
    """What a recursive download did.

    Attributes:
        downloaded: objects written.
        unchanged: objects whose file existed with the same contents.
        size: bytes of the objects written.
        excluded: objects that the selection leaves out.
        left_out: paths of objects whose names are Git's, lakecli's or the system's own.
        deleted: files that were deleted, because the ref lacks them.
        failures: (path, reason), in path order.
    """

    downloaded: int = 0
    unchanged: int = 0
    size: int = 0
    excluded: int = 0
    left_out: list[bytes] = field(default_factory=list)
    deleted: int = 0
    failures: list[tuple[bytes, str]] = field(default_factory=list)


_DEFAULTS = DownloadOptions()


def download_object(
    repository: Repository,
    ref: str,
    path: bytes,
    *,
    target: Path,
    options: DownloadOptions = _DEFAULTS,
) -> Entry:
    """Download one object to a file, verified; a failed download leaves no file.

    Raises:
        NotFound: the ref, the path or its data does not exist.
        IntegrityError: the object in the store is damaged; nothing was written.
        UsageError: `target` cannot be a file.
        PermissionDenied: `target` cannot be written.
    """
    entry, target = find_target(repository, ref, path, target)
    with Destination(os.fsencode(target.parent)) as destination:
        Download(repository, options).fetch(destination, os.fsencode(target.name), entry)
    return entry


def find_target(repository: Repository, ref: str, path: bytes, target: Path) -> tuple[Entry, Path]:
    """Return an object, and the file that a download of it to `target` writes.

    Raises:
        NotFound: the ref or the path does not exist.
        UsageError: `target` cannot be a file.
    """
    with open_view(repository, ref) as view:
        entry = view.entry(path)
    if target.is_symlink():
        target = target.resolve()  # like cp: replace the file that the link names
    if target.exists() and not target.is_file():
        raise UsageError(
            f"not a regular file: {target}",
            hint=f"write to it: lakecli fs cat {repository.at(ref, os.fsdecode(path))} > FILE",
        )
    return entry, target


def download_tree(
    repository: Repository,
    ref: str,
    prefix: bytes,
    *,
    target: Path,
    options: DownloadOptions = _DEFAULTS,
    names: Sequence[bytes] | None = None,
) -> DownloadReport:
    """Download every object below a directory; report those that fail, and write the others.

    A directory marker (a path that ends in a slash) becomes a directory. Nothing is written outside
    `target`, whatever the paths are and whatever symbolic links it holds.

    Args:
        repository: the repository.
        ref: a ref expression.
        prefix: the directory.
        target: the directory to write to.
        options: of the download.
        names: of the objects below the prefix, if not all are meant.

    Raises:
        NotFound: the ref does not exist, or there is nothing below the prefix.
        UsageError: `target` cannot be a directory.
    """
    download = TreeDownload(repository, options)
    download.run(ref, as_directory(prefix), target, names)
    return download.report


class Download:
    """One download command; fetches objects to files. Safe to share between threads."""

    def __init__(self, repository: Repository, options: DownloadOptions) -> None:
        self._repository = repository
        self._options = options
        self.workers = Workers(options.parallelism)

        self._fetcher = None
        if not is_local(repository.store.uri):
            self._fetcher = Fetcher(
                repository,
                workers=self.workers,
                retries=part_retries(self.workers, repository.lake.random_number),
                part_size=options.part_size,
                progress=CheckedProgress(options.progress, self.workers),
            )

    def fetch(self, destination: Destination, name: bytes, entry: Entry) -> int:
        """Fetch an object to a file, verified, and return its size."""
        mtime = entry.file_mtime
        if self._fetcher is not None and self._fetcher.takes(entry):
            try:
                self._fetcher.fetch(entry, destination, name, mtime=mtime)
            except Unsupported:
                self._fetcher = None  # the server does not support ranges
            else:
                return entry.size
        return destination.write(name, self._pieces(entry), mtime=mtime)

    def _pieces(self, entry: Entry) -> Iterator[bytes]:
        for piece in read_object(self._repository, entry):
            self.workers.check()
            yield piece
            self._options.progress.advance(size=len(piece))


class TreeDownload(Download):
    """A recursive download by several threads."""

    def __init__(self, repository: Repository, options: DownloadOptions) -> None:
        super().__init__(repository, options)
        self.report = DownloadReport()
        self._budget = FailureBudget()
        self._lock = Lock()

    def run(
        self, ref: str, below: bytes, target: Path, names: Sequence[bytes] | None = None
    ) -> None:
        """Download the objects of a ref below a directory, or those of some names."""
        with open_view(self._repository, ref) as view:
            records = self.records(view, ref, below, names)
            with Destination(os.fsencode(target)) as destination:
                self.fetch_all(destination, records, len(below))
        self.report.failures.sort()

    def records(
        self, view: View, ref: str, below: bytes, names: Sequence[bytes] | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Return the objects below a directory, or those of some names; record absent names.

        Raises:
            NotFound: there is nothing below the directory.
        """
        if names is not None:
            return self._named(view, ref, [below + name for name in names])
        records = view.scan(prefix=below)
        first = next(records, None)
        if first is None:
            raise no_such_path(self._repository, ref, below)
        return chain([first], records)

    def fetch_all(
        self, destination: Destination, records: Iterator[tuple[bytes, bytes]], below: int
    ) -> None:
        """Download objects; their names are their paths without the first `below` bytes."""
        self.workers.for_each(
            self._selected(records, below),
            lambda item: self._one(destination, item[0], item[0][below:], item[1]),
        )

    def _named(self, view: View, ref: str, paths: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Yield the objects at some paths; record those that do not exist."""
        for path in paths:
            value = view.find(path)
            if value is None:
                self._fail(path, no_such_path(self._repository, ref, path))
            else:
                yield path, value

    def _selected(
        self, records: Iterator[tuple[bytes, bytes]], below: int
    ) -> Iterator[tuple[bytes, Entry]]:
        """Yield the selected objects, and announce them to the progress in batches."""
        selection = self._options.selection
        while batch := list(islice(records, LOOK_AHEAD)):
            selected = []
            for path, value in batch:
                if is_own(path[below:]):
                    self._leave_out(path)
                    continue
                try:
                    entry = decode_entry(value)
                except IntegrityError as error:
                    self._fail(path, error)
                    continue
                if selection.takes(path[below:]):
                    selected.append((path, entry))
                else:
                    self._exclude(path, entry)
            size = sum(entry.size for _, entry in selected)
            self._options.progress.expect(items=len(selected), size=size)
            yield from selected

    def _leave_out(self, path: bytes) -> None:
        self.report.left_out.append(path)

    def _exclude(self, _path: bytes, _entry: Entry) -> None:
        self.report.excluded += 1

    def _one(self, destination: Destination, path: bytes, name: bytes, entry: Entry) -> None:
        try:
            if not name or name.endswith(b"/"):
                if name:
                    destination.make_directory(name[:-1])
                return
            if self._state(destination, name, entry, mtime=entry.file_mtime) is State.SAME:
                with self._lock:
                    self.report.unchanged += 1
                self._options.progress.advance(items=1, size=entry.size)
                return
            size = self.fetch(destination, name, entry)
        except NoRoom:
            raise
        except (Unwritable, NotFound, IntegrityError, UsageError, Refused) as error:
            # Without the namespace all objects fail; without a bucket outside it only some.
            if isinstance(error, BucketNotFound) and not is_external(entry):
                raise
            self._fail(path, error)
            return
        except (PermissionDenied, Unreachable) as error:
            self._fail(path, error)
            self._budget.failed(error)
            return
        self._budget.succeeded()
        with self._lock:
            self.report.downloaded += 1
            self.report.size += size
        self._options.progress.advance(items=1)

    def _state(
        self, destination: Destination, name: bytes, entry: Entry, *, mtime: int | None = None
    ) -> State:
        """Compare a file with an object; one that is the same gets the time, if given."""
        return destination.state_of(
            name,
            size=entry.size,
            digest=content_digest(entry),
            mtime=mtime,
            check=self.workers.check,
        )

    def _fail(self, path: bytes, error: LakeError) -> None:
        self.report.failures.append((path, error.message))
