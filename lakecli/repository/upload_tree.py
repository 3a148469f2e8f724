"""Uploading a directory: many files, in parallel, staged in chunks; or a plan of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

from lakecli.base.model import MAX_PATH_SIZE
from lakecli.base.uri import as_directory, check_path
from lakecli.errors import IntegrityError, LakeError, NotFound, Refused, Unreachable, UsageError
from lakecli.repository.core.lake import Repository
from lakecli.repository.core.own_files import is_own
from lakecli.repository.core.walk import Found, by_own_names, named, opener_below, size_of, walk
from lakecli.repository.transfer.ingested import Ingested
from lakecli.repository.transfer.leftovers import drop_leftovers
from lakecli.repository.transfer.parallel import FailureBudget, beside
from lakecli.repository.transfer.readers import FileChanged, SpecialFile
from lakecli.repository.upload import Upload, UploadOptions, check_branch, is_same
from lakecli.stores.uri import is_local, parse

if TYPE_CHECKING:
    _Item = tuple[Found, bytes | None, int]
    """A file, the encoded entry that the branch has at its path, and its size."""

CHUNK: Final = 16_384
"""Files made durable and staged together in a local namespace: each time syncs the disk."""

BUCKET_CHUNK: Final = 1_024
"""Files staged together in a bucket, where each object is durable at once."""

CHUNK_BYTES: Final = 4 << 30
"""Bytes staged together, if they are reached first."""

LOOK_AHEAD: Final = 1_024
"""Files whose entries on the branch are read together."""

PROGRESS_FILES: Final = 64
PROGRESS_BYTES: Final = 4 << 20
"""Small files, or bytes of them, that are reported together."""


class UploadReport(SimpleNamespace):  # defining a dataclass takes milliseconds
    """What a recursive upload did.

    Attributes:
        uploaded: objects staged because they are new or changed.
        unchanged: objects that the branch has with the same contents, type and metadata.
        size: bytes of all these.
        excluded: files that the selection leaves out.
        left_out: names below the directory that are Git's, lakecli's or the system's own.
        deleted: objects whose deletion is staged, because the directory lacks them.
        failures: (path on disk, reason), in path order.
    """

    uploaded: int
    unchanged: int
    size: int
    excluded: int
    left_out: list[bytes]
    deleted: int
    failures: list[tuple[bytes, str]]

    def __init__(
        self,
        *,
        uploaded: int = 0,
        unchanged: int = 0,
        size: int = 0,
        excluded: int = 0,
        deleted: int = 0,
        failures: Sequence[tuple[bytes, str]] = (),
    ) -> None:
        super().__init__(
            uploaded=uploaded,
            unchanged=unchanged,
            size=size,
            excluded=excluded,
            left_out=[],
            deleted=deleted,
            failures=list(failures),
        )


def upload_tree(
    repository: Repository,
    branch: str,
    prefix: bytes,
    *,
    source: Path,
    options: UploadOptions,
    names: Sequence[bytes] | None = None,
    report: UploadReport | None = None,
    found: Iterator[Found] | None = None,
    surplus: Callable[[], Sequence[tuple[bytes, bytes]]] = tuple,
) -> UploadReport:
    """Upload every file below a directory; report files that fail, and upload the others.

    The path of an object is `prefix`, a slash unless the prefix is empty or ends in one, and the
    name below `source`. Nothing on the branch is deleted.

    Args:
        repository: to upload to.
        branch: to stage on.
        prefix: of the paths.
        source: the directory.
        options: of the upload.
        names: of the files below the directory, if not all are meant.
        report: filled while the upload runs, so that the caller of an interrupted one has it.
        found: the files of the directory, if the caller has walked it already.
        surplus: returns paths and encoded entries to delete with the last files; called if no file
            fails.

    Raises:
        NotFound: no such directory or branch.
        Refused: the storage namespace lies below the directory, and names do not exclude it.
    """
    prefix = check_tree(repository, branch, prefix, source, names)
    report = report or UploadReport()
    opener = opener_below(os.fsencode(source), options.links)
    upload = TreeUpload(repository, branch, prefix, options, report, surplus=surplus, opener=opener)
    report = upload.run(found or files_of(source, names, options, report.left_out))
    drop_leftovers(repository)
    return report


def upload_files(
    repository: Repository,
    branch: str,
    prefix: bytes,
    *,
    sources: Sequence[Path],
    options: UploadOptions,
    report: UploadReport | None = None,
) -> UploadReport:
    """Upload files under their own names, as `upload_tree` uploads those of a directory.

    Symbolic links are followed, because the caller named them.

    Raises:
        NotFound: no such branch.
        UsageError: two files have the same name.
    """
    check_branch(repository, branch)
    found = by_own_names(sources)
    upload = TreeUpload(repository, branch, as_directory(prefix), options, report or UploadReport())
    report = upload.run(iter(found))
    drop_leftovers(repository)
    return report


def files_of(
    source: Path,
    names: Sequence[bytes] | None,
    options: UploadOptions,
    left_out: list[bytes] | None = None,
) -> Iterator[Found]:
    """Yield the files below a directory, or those of some names, that are data.

    Args:
        source: the directory.
        names: of the files; ``None`` for all.
        options: of the upload.
        left_out: gets the names that are not data.
    """
    root = os.fsencode(source)
    found = walk(root, options.links) if names is None else named(root, names, options.links)
    for each in found:
        if not is_own(each.relative):
            yield each
        elif left_out is not None:
            left_out.append(each.relative)


class TreeUpload:
    """A recursive upload: several threads bring files in, which are staged in chunks.

    Args:
        repository: to upload to.
        branch: to stage on.
        prefix: of the paths; empty, or ending in a slash.
        options: of the upload.
        report: filled while the upload runs.
        writes: bring in and stage what is found; else only compare.
        surplus: returns paths and encoded entries to delete with the last files.
        opener: opens the files, as `os.open` does.
    """

    def __init__(
        self,
        repository: Repository,
        branch: str,
        prefix: bytes,
        options: UploadOptions,
        report: UploadReport,
        *,
        writes: bool = True,
        surplus: Callable[[], Sequence[tuple[bytes, bytes]]] = tuple,
        opener: Callable[[bytes, int], int] = os.open,
    ) -> None:
        self._open = opener
        self._upload = Upload(repository, branch, options, writes=writes)
        self._surplus = surplus
        self._now = repository.lake.now
        self._prefix = prefix
        self._options = options
        self._is_local = is_local(repository.store.uri)
        self._chunk = CHUNK if self._is_local else BUCKET_CHUNK
        self._report = report
        self._budget = FailureBudget()
        self._lock = Lock()
        self._staging = Lock()
        self._pending: list[tuple[bytes, Ingested, bytes | None]] = []
        self._pending_bytes = 0

    def run(self, found: Iterator[Found]) -> UploadReport:
        """Upload the files of a walk."""
        try:
            if self._is_local:
                self._move_locally(found)
            else:
                self._upload.workers.for_each(self._with_present(found), self._one)
        except BaseException:
            # Stage what arrived, so that the repeated command does not send it again.
            with suppress(LakeError):
                self._stage_pending()
            raise
        self._stage_pending(() if self._report.failures else self._surplus())
        self._report.failures.sort()
        return self._report

    def _move_locally(self, found: Iterator[Found]) -> None:
        # In a local namespace, threads with small files wait for the interpreter and for the
        # directory in which all of them create files: one is as fast as several.
        progress, small = self._options.progress, self._upload.ingest.small
        while batch := list(islice(found, LOOK_AHEAD)):
            files = self._selected(batch)
            progress.expect(items=len(files))
            large: list[_Item] = []
            count = size = 0
            for each, present in zip(files, self._present(files), strict=True):
                try:
                    expected = self._upload.expected(present)
                    done = small(each.path, expected=expected, opener=self._open)
                except (OSError, LakeError) as error:
                    self._arrived(count, size)
                    count = size = 0
                    self._failed(each, error)
                    continue
                if isinstance(done, int):
                    large.append((each, present, done))
                    continue
                self._pending.append((self._prefix + each.relative, done, present))
                count += 1
                size += done.size
                if count == PROGRESS_FILES or size >= PROGRESS_BYTES:
                    self._arrived(count, size)
                    count = size = 0
            self._arrived(count, size)
            progress.expect(size=sum(size for _, _, size in large))
            if large:
                self._upload.workers.for_each(large, self._one)
            if self._is_full():
                self._stage_pending()

    def _arrived(self, count: int, size: int) -> None:
        """Count small files that are pending."""
        if count:
            self._pending_bytes += size
            self._budget.succeeded()
            self._options.progress.expect(size=size)
            self._options.progress.advance(items=count, size=size)

    def _with_present(self, found: Iterator[Found]) -> Iterator[_Item]:
        """Yield the selected files with the entries that the branch has; record the problems."""
        while batch := list(islice(found, LOOK_AHEAD)):
            files = self._selected(batch)
            sizes = list(map(size_of, files))
            self._options.progress.expect(items=len(files), size=sum(sizes))
            yield from zip(files, self._present(files), sizes, strict=True)

    def _present(self, files: Sequence[Found]) -> list[bytes | None]:
        """Return the encoded entries that the branch has at the paths of files."""
        return self._upload.present([self._prefix + each.relative for each in files])

    def _selected(self, found: Sequence[Found]) -> list[Found]:
        """Return the selected files; record the others, and those with problems."""
        files = []
        takes, room = self._options.selection.takes, MAX_PATH_SIZE - len(self._prefix)
        for each in found:
            if not takes(each.relative):
                self._exclude(each)
                continue
            problem = each.problem
            if problem is None and not 0 < len(each.relative) <= room:
                problem = self._problem_of(each)
            if problem is None:
                files.append(each)
            else:
                self._fail(each, problem)
        return files

    def _problem_of(self, found: Found) -> str | None:
        try:
            check_path(self._prefix + found.relative)
        except UsageError as error:
            return error.message
        return None

    def _exclude(self, _found: Found) -> None:
        self._report.excluded += 1

    def _fail(self, found: Found, problem: str) -> None:
        self._report.failures.append((found.path, problem))

    def _one(self, item: _Item) -> None:
        found, present, _ = item
        try:
            expected = self._upload.expected(present)
            ingested = self._upload.ingest.file(found.path, expected=expected, opener=self._open)
        except (OSError, LakeError) as error:
            self._failed(found, error)
            return
        self._budget.succeeded()
        self._options.progress.advance(items=1)
        with self._lock:
            self._pending.append((self._prefix + found.relative, ingested, present))
            self._pending_bytes += ingested.size
            is_full = self._is_full()
        if is_full:
            self._stage_pending()

    def _failed(self, found: Found, error: OSError | LakeError) -> None:
        """Record a file that failed alone.

        Raises:
            LakeError: the error concerns all files.
        """
        if isinstance(error, OSError):
            self._fail(found, (error.strerror or str(error)).lower())
        elif isinstance(error, SpecialFile | FileChanged | IntegrityError | Unreachable):
            self._fail(found, error.message)
            self._budget.failed(error)
        else:
            raise error

    def _is_full(self) -> bool:
        return len(self._pending) >= self._chunk or self._pending_bytes >= CHUNK_BYTES

    def _stage_pending(self, surplus: Sequence[tuple[bytes, bytes]] = ()) -> None:
        with self._staging:
            with self._lock:
                pending, self._pending = self._pending, []
                self._pending_bytes = 0
            if not pending and not surplus:
                return
            with beside(self._upload.ingest.flush):
                changes = self._changes(pending)
            uploaded = [ingested for _, ingested, _ in pending]
            self._report.deleted += self._upload.stage(changes, uploaded, surplus)
            self._upload.keep(
                [
                    (path, present)
                    for path, ingested, present in pending
                    if ingested.is_kept and present is not None
                ]
            )
            self._report.uploaded += len(changes)
            self._report.unchanged += len(pending) - len(changes)
            self._report.size += sum(ingested.size for _, ingested, _ in pending)

    def _changes(
        self, pending: list[tuple[bytes, Ingested, bytes | None]]
    ) -> list[tuple[bytes, bytes]]:
        """Return the encoded entries that differ from those on the branch, by path."""
        brought = [each for each in pending if not each[1].is_kept]
        values = self._upload.encoded(brought, at=self._now())
        return [
            (path, value)
            for (path, _, present), value in zip(brought, values, strict=True)
            if not is_same(present, value)
        ]


def check_tree(
    repository: Repository,
    branch: str,
    prefix: bytes,
    source: Path,
    names: Sequence[bytes] | None = None,
) -> bytes:
    """Check source and branch before anything is read; return the prefix with its slash."""
    if not source.is_dir():
        raise NotFound(f"no such directory: {source}")
    check_branch(repository, branch)
    _check_outside(repository, source, names)
    return as_directory(prefix)


def _check_outside(repository: Repository, source: Path, names: Sequence[bytes] | None) -> None:
    """Refuse to upload a namespace into itself, or the named files of it."""
    namespace = parse(repository.record.storage_namespace)
    if namespace.bucket:
        return
    root, place = os.path.realpath(source), os.path.realpath(namespace.path)
    if os.path.commonpath([root, place]) != root:
        return
    below = os.fsencode(os.path.relpath(place, root)) + b"/"
    if names is None or place == root or any(name.startswith(below) for name in names):
        raise Refused(
            f"the storage namespace {namespace} lies in {source}, which would be uploaded into it",
            hint="upload another directory",
        )
