"""Uploading many files: those of a directory, those that a list names, or several by their names.

Each is compared with what the branch has at its path. `upload_tree` brings in what is new, by
several threads, and stages it in chunks; `plan_upload` makes the same walk and only tells what
would be done. With `delete`, the objects that the directory lacks are removed with the last files.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from lakecli.base.model import MAX_PATH_SIZE
from lakecli.base.uri import as_directory, check_path
from lakecli.committed.encode import encode_entry
from lakecli.committed.values import decode_entry, is_same
from lakecli.errors import IntegrityError, LakeError, NotFound, Refused, Unreachable, UsageError
from lakecli.repository.contract import Notice, Repository
from lakecli.repository.data_index import is_much_less
from lakecli.repository.reading.view import check_branch, open_view
from lakecli.repository.transfer.ingest import Ingested
from lakecli.repository.transfer.parallel import FailureBudget, beside
from lakecli.repository.transfer.parts import drop_leftovers
from lakecli.repository.transfer.plan import PathAction, PathStep
from lakecli.repository.transfer.readers import FileChanged, SpecialFile
from lakecli.repository.transfer.selection import is_own
from lakecli.repository.transfer.walk import (
    WalkedFile,
    by_own_names,
    named,
    opener_below,
    size_of,
    walk,
)
from lakecli.repository.upload import Uploader, UploadOptions
from lakecli.stores.uri import is_local, parse

if TYPE_CHECKING:
    _Item = tuple[WalkedFile, bytes | None, int]
    """A file, the encoded entry that the branch has at its path, and its size."""

    _Records = Sequence[tuple[bytes, bytes]]
    """Paths and encoded entries."""

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


@dataclass(slots=True)
class UploadReport:
    """What an upload of many files did.

    Attributes:
        uploaded: objects staged because they are new or changed.
        unchanged: objects that the branch has with the same contents, type and metadata.
        size: bytes of all these.
        excluded: files that the selection leaves out.
        left_out: names below the directory that are Git's, lakecli's or the system's own.
        deleted: objects whose deletion is staged, because the directory lacks them.
        failures: (path on disk, reason), in path order.
    """

    uploaded: int = 0
    unchanged: int = 0
    size: int = 0
    excluded: int = 0
    left_out: list[bytes] = field(default_factory=list)
    deleted: int = 0
    failures: list[tuple[bytes, str]] = field(default_factory=list)


def upload_tree(
    repository: Repository,
    branch: str,
    prefix: bytes,
    *,
    source: Path | Sequence[Path],
    options: UploadOptions,
    names: Sequence[bytes] | None = None,
    delete: bool = False,
    max_delete: int | None = None,
    report: UploadReport | None = None,
) -> UploadReport:
    """Upload every file below a directory; report files that fail, and upload the others.

    The path of an object is `prefix`, a slash unless the prefix is empty or ends in one, and the
    name below `source`. With `delete`, other objects below the prefix are deleted in the same
    operation, together with the last files. If a file fails, nothing is deleted, because its object
    may be meant to stay. Objects that the selection leaves out stay, and so do objects that
    somebody else changes meanwhile, and markers of directories that exist.

    Args:
        repository: to upload to.
        branch: to stage on.
        prefix: of the paths.
        source: the directory; or several files, which are uploaded under their own names. Symbolic
            links among these are followed, because the caller named them.
        options: of the upload.
        names: of the files below the directory, if not all are meant.
        delete: delete the objects below the prefix that the directory lacks.
        max_delete: refuse to delete more objects than this.
        report: filled while the upload runs, so that the caller of an interrupted one has it.

    Raises:
        NotFound: no such directory or branch.
        Refused: the storage namespace lies below the directory, and names do not exclude it; too
            many objects would be deleted, the directory has no file, or it has much less than the
            branch and a second walk differs. Nothing is staged.
        UsageError: two files have the same name.
    """
    report = report or UploadReport()
    target = _UploadTarget(repository, branch, as_directory(prefix), options)
    with _files(target, source, names, report.left_out, delete=delete) as files:
        count = len(files.surplus)
        if max_delete is not None and count > max_delete:
            raise Refused(
                f"{count:,} objects would be deleted, more than {max_delete:,}",
                hint="list them: --dry-run",
            )
        _StagedUpload(target, files, report).run()
    drop_leftovers(repository)
    return report


def plan_upload(
    repository: Repository,
    branch: str,
    prefix: bytes,
    *,
    source: Path | Sequence[Path],
    options: UploadOptions,
    names: Sequence[bytes] | None = None,
    delete: bool = False,
) -> Iterator[PathStep]:
    """Yield what `upload_tree` would do, in path order, from what this machine knows.

    Nothing is written. A file is read and compared if the branch has an object of its size at its
    path. Names that are not data are excluded. The deletions come last.

    Raises:
        NotFound: no such directory or branch.
        Refused: as `upload_tree`, but for the number of objects.
    """
    target = _UploadTarget(repository, branch, as_directory(prefix), options)
    left_out: list[bytes] = []
    with _files(target, source, names, left_out, delete=delete) as files:
        failed = False
        for step in _UploadPlan(target, files).steps(left_out):
            failed = failed or step.action is PathAction.FAILED
            yield step
        for path, value in () if failed else files.surplus:
            yield PathStep(PathAction.DELETED, path, decode_entry(value).size)


def plan_file(
    repository: Repository, branch: str, path: bytes, *, source: Path, options: UploadOptions
) -> Iterator[PathStep]:
    """Yield what `upload_file` would do, as `plan_upload` does.

    Raises:
        NotFound: the file or the branch does not exist.
    """
    check_path(path)
    check_branch(repository, branch)
    if not source.exists():
        raise NotFound(f"no such file: {source}")
    found = WalkedFile(os.path.realpath(os.fsencode(source)), path)
    target = _UploadTarget(repository, branch, b"", options)
    return _UploadPlan(target, _UploadFiles(iter([found]))).steps([])


class _UploadTarget(NamedTuple):
    """Where files become objects, and how; the prefix is empty or ends in a slash."""

    repository: Repository
    branch: str
    prefix: bytes
    options: UploadOptions


class _UploadFiles(NamedTuple):
    """What one command uploads.

    Attributes:
        found: the files, in byte order of their names.
        opener: opens them, as `os.open` does.
        surplus: the objects to delete, as far as is known at the start.
        absent: returns those of them that are still to be deleted at the end.
    """

    found: Iterator[WalkedFile]
    opener: Callable[[bytes, int], int] = os.open
    surplus: _Records = ()
    absent: Callable[[], _Records] = tuple


@contextmanager
def _files(
    target: _UploadTarget,
    source: Path | Sequence[Path],
    names: Sequence[bytes] | None,
    left_out: list[bytes],
    *,
    delete: bool,
) -> Iterator[_UploadFiles]:
    """Check source and branch before anything is read, and give the files."""
    repository, branch, prefix, options = target
    if not isinstance(source, Path):
        check_branch(repository, branch)
        yield _UploadFiles(iter(by_own_names(source)))
        return
    if not source.is_dir():
        raise NotFound(f"no such directory: {source}")
    check_branch(repository, branch)
    _check_outside(repository, source, names)
    opener = opener_below(os.fsencode(source), options.links)
    if not delete:
        yield _UploadFiles(files_of(source, names, options, left_out), opener)
        return
    with _Listing(source, options, left_out) as listing:
        surplus = _surplus(repository, branch, prefix, listing)
        yield _UploadFiles(iter(listing), opener, surplus, lambda: listing.absent(surplus, prefix))


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


def files_of(
    source: Path,
    names: Sequence[bytes] | None,
    options: UploadOptions,
    left_out: list[bytes] | None = None,
) -> Iterator[WalkedFile]:
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


class _UploadWalk:
    """The walk of an upload: the selected files, with the entries that the branch has.

    What becomes of a file is up to its subclass: `_StagedUpload` brings it in, `_UploadPlan` tells.

    Args:
        target: where they become objects.
        files: what is uploaded.
        writes: bring in and stage what is found; else only compare.
    """

    def __init__(self, target: _UploadTarget, files: _UploadFiles, *, writes: bool) -> None:
        repository, branch, self._prefix, self._options = target
        self._upload = Uploader(repository, branch, self._options, writes=writes)
        self._now = repository.lake.now
        self._files = files

    def _with_present(self, found: Iterator[WalkedFile]) -> Iterator[_Item]:
        """Yield the selected files with the entries that the branch has; record the problems."""
        while batch := list(islice(found, LOOK_AHEAD)):
            files = self._selected(batch)
            sizes = list(map(size_of, files))
            self._options.progress.expect(items=len(files), size=sum(sizes))
            yield from zip(files, self._present(files), sizes, strict=True)

    def _present(self, files: Sequence[WalkedFile]) -> list[bytes | None]:
        """Return the encoded entries that the branch has at the paths of files."""
        return self._upload.present([self._prefix + each.relative for each in files])

    def _selected(self, found: Sequence[WalkedFile]) -> list[WalkedFile]:
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

    def _problem_of(self, found: WalkedFile) -> str | None:
        try:
            check_path(self._prefix + found.relative)
        except UsageError as error:
            return error.message
        return None

    def _exclude(self, found: WalkedFile) -> None:
        raise NotImplementedError

    def _fail(self, found: WalkedFile, problem: str) -> None:
        raise NotImplementedError


class _StagedUpload(_UploadWalk):
    """An upload: several threads bring files in, which are staged in chunks."""

    def __init__(self, target: _UploadTarget, files: _UploadFiles, report: UploadReport) -> None:
        super().__init__(target, files, writes=True)
        self._is_local = is_local(target.repository.store.uri)
        self._chunk = CHUNK if self._is_local else BUCKET_CHUNK
        self._report = report
        self._budget = FailureBudget()
        self._lock = Lock()
        self._staging = Lock()
        self._pending: list[tuple[bytes, Ingested, bytes | None]] = []
        self._pending_bytes = 0

    def run(self) -> None:
        """Upload the files."""
        try:
            if self._is_local:
                self._move_locally()
            else:
                self._upload.workers.for_each(self._with_present(self._files.found), self._one)
        except BaseException:
            # Stage what arrived, so that the repeated command does not send it again.
            with suppress(LakeError):
                self._stage_pending()
            raise
        self._stage_pending(() if self._report.failures else self._files.absent())
        self._report.failures.sort()

    def _move_locally(self) -> None:
        # In a local namespace, threads with small files wait for the interpreter and for the
        # directory in which all of them create files: one is as fast as several.
        progress, small = self._options.progress, self._upload.ingest.small
        while batch := list(islice(self._files.found, LOOK_AHEAD)):
            files = self._selected(batch)
            progress.expect(items=len(files))
            large: list[_Item] = []
            count = size = 0
            for each, present in zip(files, self._present(files), strict=True):
                try:
                    expected = self._upload.expected(present)
                    done = small(each.path, expected=expected, opener=self._files.opener)
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

    def _exclude(self, _found: WalkedFile) -> None:
        self._report.excluded += 1

    def _fail(self, found: WalkedFile, problem: str) -> None:
        self._report.failures.append((found.path, problem))

    def _one(self, item: _Item) -> None:
        found, present, _ = item
        try:
            expected = self._upload.expected(present)
            ingested = self._upload.ingest.file(
                found.path, expected=expected, opener=self._files.opener
            )
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

    def _failed(self, found: WalkedFile, error: OSError | LakeError) -> None:
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


class _UploadPlan(_UploadWalk):
    """An upload that compares and writes nothing."""

    def __init__(self, target: _UploadTarget, files: _UploadFiles) -> None:
        super().__init__(target, files, writes=False)
        self._steps: list[tuple[bytes, PathStep]] = []

    def steps(self, left_out: list[bytes]) -> Iterator[PathStep]:
        """Yield what would be done with the files, a batch at a time.

        Args:
            left_out: names beside them that are not data, as far as the walk has come.
        """
        while batch := list(islice(self._files.found, LOOK_AHEAD)):
            self._upload.workers.for_each(self._with_present(iter(batch)), self._one)
            self._leave_out([name for name in left_out if name < batch[-1].relative])
            left_out[:] = [name for name in left_out if name > batch[-1].relative]
            steps, self._steps = self._steps, []
            yield from (step for _, step in sorted(steps))
        self._leave_out(left_out)
        yield from (step for _, step in sorted(self._steps))

    def _leave_out(self, names: Iterable[bytes]) -> None:
        self._steps += [
            (name, PathStep(PathAction.EXCLUDED, self._prefix + name)) for name in names
        ]

    def _add(self, action: PathAction, found: WalkedFile, size: int) -> None:
        self._steps.append((found.relative, PathStep(action, self._prefix + found.relative, size)))

    def _exclude(self, found: WalkedFile) -> None:
        self._add(PathAction.EXCLUDED, found, size_of(found))

    def _fail(self, found: WalkedFile, problem: str) -> None:
        self._steps.append((found.relative, PathStep(PathAction.FAILED, found.path, error=problem)))

    def _one(self, item: tuple[WalkedFile, bytes | None, int]) -> None:
        found, present, size = item
        try:
            is_there = present is not None and self._is_same(found, size, present)
        except OSError as error:
            self._fail(found, (error.strerror or str(error)).lower())
            return
        except (SpecialFile, FileChanged) as error:
            self._fail(found, error.message)
            return
        self._options.progress.advance(items=1)
        if present is None:
            self._add(PathAction.NEW, found, size)
        else:
            self._add(PathAction.UNCHANGED if is_there else PathAction.CHANGED, found, size)

    def _is_same(self, found: WalkedFile, size: int, present: bytes) -> bool:
        expected = self._upload.expected(present)
        if expected is None or expected.size != size:
            return False
        looked = self._upload.ingest.look(found.path, expected=expected, opener=self._files.opener)
        if looked.is_kept:
            return True
        entry = self._upload.entry(
            self._prefix + found.relative, looked, at=self._now(), has_mtime=True
        )
        return is_same(present, encode_entry(entry))


class _Listing:
    """The files of a directory, as one walk finds them, for what is sent and what is removed.

    They wait in a temporary file, because there may be millions. Use it as a context manager.

    Args:
        source: the directory.
        options: the options of the upload.
        left_out: gets the names that are not data.
    """

    def __init__(self, source: Path, options: UploadOptions, left_out: list[bytes]) -> None:
        self.source = source
        self._options = options
        self.takes = options.selection.takes
        self._file = TemporaryFile("w+", encoding="ascii")  # noqa: SIM115 - closed by `__exit__`
        for path, relative, problem in files_of(source, None, options, left_out):
            line = json.dumps([os.fsdecode(path), os.fsdecode(relative), problem])
            self._file.write(line + "\n")

    def __enter__(self) -> Self:
        """Return the listing itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Delete the temporary file."""
        self._file.close()

    def __iter__(self) -> Iterator[WalkedFile]:
        """Yield the files in byte order of their names; one iteration at a time."""
        self._file.seek(0)
        for line in self._file:
            path, relative, problem = json.loads(line)
            yield WalkedFile(os.fsencode(path), os.fsencode(relative), problem)

    def is_same_again(self) -> bool:
        """Walk the directory again, and return whether the same names are found."""
        again = (found.relative for found in files_of(self.source, None, self._options))
        names = (found.relative for found in self)
        return all(name == other for name, other in zip_longest(names, again))

    def absent(self, records: Iterable[tuple[bytes, bytes]], below: bytes) -> _Records:
        """Return the selected records of which the directory has no file.

        A file that the walk has missed, or that was made since, is found here.

        Args:
            records: paths and encoded entries.
            below: the prefix of the paths, which ends in a slash unless it is empty.
        """
        cut = len(below)
        return [(path, value) for path, value in records if self._lacks(path[cut:])]

    def _lacks(self, relative: bytes) -> bool:
        if not relative or is_own(relative) or not self.takes(relative):
            return False
        name = b"/" + relative.removesuffix(b"/")
        if os.path.normpath(b"." + name) != name[1:]:
            return True  # no file has such a name
        try:
            status = os.lstat(os.fsencode(self.source) + b"/" + relative)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return True
        except OSError as error:
            return error.errno == errno.ENAMETOOLONG  # else it may be there
        # A directory is no file of this name, but a marker of it stays.
        return stat.S_ISDIR(status.st_mode) and not relative.endswith(b"/")


def _surplus(repository: Repository, branch: str, below: bytes, listing: _Listing) -> _Records:
    """Return the selected objects below a prefix that the directory lacks."""
    names = (found.relative for found in listing)
    before = 0

    def counted(records: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        nonlocal before
        for record in records:
            before += listing.takes(record[0][len(below) :])
            yield record

    with open_view(repository, branch) as view:
        first = next(names, None)
        records = counted(view.scan(prefix=below))
        found = listing.absent(_without(records, len(below), first, names), below)
    if found and first is None:
        raise Refused(
            f"there is no file in {listing.source}, so everything would be deleted",
            hint="if that is meant: lakecli fs rm -r",
        )
    if is_much_less(before - len(found), before):
        _walk_again(repository, listing, f"{len(found):,} of {before:,} objects of the branch")
    return found


def _walk_again(repository: Repository, listing: _Listing, lacking: str) -> None:
    """Walk the directory again, because much of what the branch has was not found.

    Raises:
        Refused: the walks differ.
    """
    if not listing.is_same_again():
        raise Refused(
            f"{listing.source} lacks {lacking}, and a second walk found other files than the first",
            hint="nothing was staged; repeat it when the directory does not change",
        )
    repository.notify(
        Notice(
            f"{listing.source} lacks {lacking}; a second walk found the same",
            hint="if that is not meant, check the directory and undo the upload",
        )
    )


def _without(
    records: Iterator[tuple[bytes, bytes]],
    cut: int,
    name: bytes | None,
    names: Iterator[bytes],
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the records whose path, behind `cut`, is not among the names; both are in order."""
    for path, value in records:
        relative = path[cut:]
        while name is not None and name < relative:
            name = next(names, None)
        if name != relative:
            yield path, value
