"""Downloading objects to files, verified, with the modification times of the uploaded files.

`download_object` writes one file. `download_tree` compares what a ref has below a directory with
the files there, and writes those that differ; `plan_download` makes the same walk and only tells
what would be done. A mirror also deletes the files that the ref lacks.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

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
from lakecli.repository.contract import Repository
from lakecli.repository.reading.addresses import is_external, real_path, remembered
from lakecli.repository.reading.contents import content_digest, read_object
from lakecli.repository.reading.view import View, no_such_path, open_view
from lakecli.repository.transfer.destination import (
    Destination,
    FileComparison,
    FileStamp,
    NoRoom,
    UnsafeName,
    UnwritableFile,
)
from lakecli.repository.transfer.ignore_patterns import EVERYTHING, Selection
from lakecli.repository.transfer.own_names import is_own
from lakecli.repository.transfer.parallel import (
    CheckedProgress,
    FailureBudget,
    Workers,
    part_retries,
)
from lakecli.repository.transfer.plan import PathAction, PathStep
from lakecli.repository.transfer.walk import AscendingNames, LinkPolicy, walk
from lakecli.stores.capabilities import PART_SIZE
from lakecli.stores.contract import BucketNotFound
from lakecli.stores.uri import is_local

LOOK_AHEAD: Final = 1_024
"""Objects that are announced to the progress together."""


_ACTIONS: Final = {
    FileComparison.MISSING: PathAction.NEW,
    FileComparison.SAME: PathAction.UNCHANGED,
    FileComparison.DIFFERENT: PathAction.CHANGED,
}


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


class MirrorOptions(NamedTuple):
    """Which files stay.

    Attributes:
        keeps: tells of a file, by its name below the directory, whether it is never deleted.
        max_delete: refuse to delete more files than this.
    """

    keeps: Callable[[bytes], bool]
    max_delete: int | None = None


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
    entry, target = _find_target(repository, ref, path, target)
    with Destination(os.fsencode(target.parent)) as destination:
        Downloader(repository, options).fetch(destination, os.fsencode(target.name), entry)
    return entry


def plan_object(repository: Repository, ref: str, path: bytes, *, target: Path) -> PathStep:
    """Return what `download_object` would find at the file that it writes.

    A file of the size of the object is read and compared.

    Raises:
        NotFound: the ref or the path does not exist.
        UsageError: `target` cannot be a file.
    """
    entry, target = _find_target(repository, ref, path, target)
    with Destination(os.fsencode(target.parent)) as destination:
        state = destination.state_of(
            os.fsencode(target.name), size=entry.size, digest=content_digest(entry)
        )
    return PathStep(_ACTIONS[state], path, entry.size)


def _find_target(repository: Repository, ref: str, path: bytes, target: Path) -> tuple[Entry, Path]:
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
    mirror: MirrorOptions | None = None,
) -> DownloadReport:
    """Download every object below a directory; report those that fail, and write the others.

    A directory marker (a path that ends in a slash) becomes a directory. Nothing is written outside
    `target`, whatever the paths are and whatever symbolic links it holds.

    With `mirror`, the other files of the directory are deleted afterwards, unless an object fails.
    A file that is in the way of an object is deleted before that object is downloaded, after all
    others. Files that the selection leaves out stay, and so do files that change meanwhile, special
    files, and whatever is outside the directory: symbolic links are deleted themselves and never
    followed.

    Args:
        repository: the repository.
        ref: a ref expression.
        prefix: the directory.
        target: the directory to write to.
        options: of the download.
        names: of the objects below the prefix, if not all are meant.
        mirror: delete other files, and which of them stay.

    Raises:
        NotFound: the ref does not exist, or there is nothing below the prefix.
        Refused: of a mirror: too many files would be deleted, the prefix has no object, or the
            directory holds files that a repository needs; nothing is written.
        UsageError: `target` cannot be a directory.
    """
    below = as_directory(prefix)
    opened = _opened(repository, ref, below, target, options=options, mirror=mirror)
    with opened as (view, destination, surplus):
        count = len(surplus.files)
        if mirror is not None and mirror.max_delete is not None and count > mirror.max_delete:
            raise Refused(
                f"{count:,} files would be deleted, more than {mirror.max_delete:,}",
                hint="list them: --dry-run",
            )
        download = TreeDownloader(repository, options, below, surplus)
        download.fetch_all(destination, download.records(view, ref, names))
        if surplus.files and not download.report.failures:
            download.delete(destination, view)
    download.report.failures.sort()
    return download.report


def plan_download(
    repository: Repository,
    ref: str,
    prefix: bytes,
    *,
    target: Path,
    options: DownloadOptions = _DEFAULTS,
    names: Sequence[bytes] | None = None,
    mirror: MirrorOptions | None = None,
) -> Iterator[PathStep]:
    """Yield what `download_tree` would do, in path order, without fetching or writing.

    A file of the size of its object is read and compared. The deletions come last.

    Raises:
        NotFound: the ref does not exist, or there is nothing below the prefix.
        Refused: as `download_tree`, but for the number of files.
        UsageError: `target` cannot be a directory.
    """
    below = as_directory(prefix)
    opened = _opened(repository, ref, below, target, options=options, mirror=mirror)
    with opened as (view, destination, surplus):
        plan = _DownloadPlan(repository, options, below, surplus)
        failed = False
        for step in plan.steps(destination, plan.records(view, ref, names)):
            failed = failed or step.action is PathAction.FAILED
            yield step
        for name, seen in () if failed else surplus.files:
            yield PathStep(PathAction.DELETED, os.fsencode(target / os.fsdecode(name)), seen.size)


@contextmanager
def _opened(
    repository: Repository,
    ref: str,
    below: bytes,
    target: Path,
    *,
    options: DownloadOptions,
    mirror: MirrorOptions | None,
) -> Iterator[tuple[View, Destination, _Surplus]]:
    """Open a ref and the directory to write to, and find the files that a mirror deletes."""
    if mirror is not None:
        _check_unneeded(repository, target)
    with open_view(repository, ref) as view, Destination(os.fsencode(target)) as destination:
        surplus = _Surplus([], [])
        if mirror is not None:
            surplus = _Surplus.of(view, below, target, options, mirror)
        yield view, destination, surplus


class Downloader:
    """One download command; fetches objects to files. Safe to share between threads."""

    def __init__(self, repository: Repository, options: DownloadOptions) -> None:
        self._repository = repository
        self._options = options
        self.workers = Workers(options.parallelism)

        self._fetcher = None
        if not is_local(repository.store.uri):
            from lakecli.repository.transfer.multipart import PartFetcher

            self._fetcher = PartFetcher(
                repository,
                workers=self.workers,
                retries=part_retries(self.workers, repository.lake.runtime.random_number),
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


class TreeDownloader(Downloader):
    """A recursive download by several threads.

    Args:
        repository: of the objects.
        options: of the download.
        below: the directory whose objects are downloaded; their names begin behind it.
        surplus: files that will be deleted; objects with one in their way are left for later.
    """

    def __init__(
        self, repository: Repository, options: DownloadOptions, below: bytes, surplus: _Surplus
    ) -> None:
        super().__init__(repository, options)
        self.report = DownloadReport(failures=list(surplus.failures))
        self._below = below
        self._surplus = surplus
        self._blocked: list[bytes] = []
        self._budget = FailureBudget()
        self._lock = Lock()

    def records(
        self, view: View, ref: str, names: Sequence[bytes] | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Return the objects below the directory, or those of some names; record absent names.

        Raises:
            NotFound: there is nothing below the directory.
        """
        if names is not None:
            return self._named(view, ref, names)
        records = view.scan(prefix=self._below)
        first = next(records, None)
        if first is None:
            raise no_such_path(self._repository, ref, self._below)
        return chain([first], records)

    def _named(self, view: View, ref: str, names: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Yield the objects of some names; record those that do not exist."""
        for name in names:
            path = self._below + name
            value = view.find(path)
            if value is None:
                self._fail(path, no_such_path(self._repository, ref, path))
            else:
                yield path, value

    def fetch_all(self, destination: Destination, records: Iterator[tuple[bytes, bytes]]) -> None:
        """Download objects."""
        self.workers.for_each(
            self._selected(records), lambda item: self._one(destination, item[0], item[1])
        )

    def delete(self, destination: Destination, view: View) -> None:
        """Delete the surplus files, then download the objects that they were in the way of."""
        for name, seen in self._surplus.files:
            try:
                self.report.deleted += destination.delete(
                    name,
                    seen=seen,
                    keeps=lambda each: view.find(self._below + each + b"/") is not None,
                )
            except LakeError as error:
                self.report.failures.append((self._below + name, error.message))
        self._surplus = _Surplus([], [])
        values = ((path, view.find(path)) for path in sorted(self._blocked))
        self.fetch_all(destination, ((path, value) for path, value in values if value is not None))

    def _selected(self, records: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, Entry]]:
        """Yield the selected objects, and announce them to the progress in batches."""
        selection, below = self._options.selection, len(self._below)
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

    def _one(self, destination: Destination, path: bytes, entry: Entry) -> None:
        """Write one object, or compare it; an error that concerns only this object is recorded."""
        name = path[len(self._below) :]
        try:
            if not name or name.endswith(b"/"):
                if name:
                    self._make_directory(destination, name[:-1])
                return
            state = destination.state_of(
                name,
                size=entry.size,
                digest=content_digest(entry),
                mtime=self._time_of(entry),
                check=self.workers.check,
            )
            self._bring(destination, name, entry, state)
        except NoRoom:
            raise
        except (UnwritableFile, NotFound, IntegrityError, UsageError, Refused) as error:
            # Without the namespace all objects fail; without a bucket outside it only some.
            if isinstance(error, BucketNotFound) and not is_external(entry):
                raise
            if isinstance(error, UnsafeName) and self._surplus.blocks(name):
                self._wait(path, entry)
            else:
                self._fail(path, error)
        except (PermissionDenied, Unreachable) as error:
            self._fail(path, error)
            self._budget.failed(error)
        else:
            self._options.progress.advance(items=1)

    def _make_directory(self, destination: Destination, name: bytes) -> None:
        destination.make_directory(name)

    def _time_of(self, entry: Entry) -> int | None:
        """Return the time that a file gets which is the same as an object."""
        return entry.file_mtime

    def _bring(
        self, destination: Destination, name: bytes, entry: Entry, state: FileComparison
    ) -> None:
        """Write an object, unless the file is the same."""
        if state is FileComparison.SAME:
            self._options.progress.advance(size=entry.size)
            with self._lock:
                self.report.unchanged += 1
            return
        size = self.fetch(destination, name, entry)
        self._budget.succeeded()
        with self._lock:
            self.report.downloaded += 1
            self.report.size += size

    def _wait(self, path: bytes, _entry: Entry) -> None:
        """Leave an object for later that has a surplus file in its way."""
        self._blocked.append(path)

    def _fail(self, path: bytes, error: LakeError) -> None:
        self.report.failures.append((path, error.message))


class _DownloadPlan(TreeDownloader):
    """A recursive download that compares and writes nothing."""

    def __init__(
        self, repository: Repository, options: DownloadOptions, below: bytes, surplus: _Surplus
    ) -> None:
        super().__init__(repository, options, below, surplus)
        failures = surplus.failures
        self._steps = [PathStep(PathAction.FAILED, path, error=why) for path, why in failures]

    def steps(
        self, destination: Destination, records: Iterator[tuple[bytes, bytes]]
    ) -> Iterator[PathStep]:
        """Yield what `fetch_all` would do, a batch at a time."""
        while True:
            batch = list(islice(records, LOOK_AHEAD))
            self.fetch_all(destination, iter(batch))
            steps, self._steps = self._steps, []  # names without an object are in it, too
            yield from sorted(steps, key=lambda step: step.path)
            if not batch:
                return

    def _step(self, action: PathAction, path: bytes, size: int = 0, error: str = "") -> None:
        self._steps.append(PathStep(action, path, size, error))

    def _leave_out(self, path: bytes) -> None:
        self._step(PathAction.EXCLUDED, path)

    def _exclude(self, path: bytes, entry: Entry) -> None:
        self._step(PathAction.EXCLUDED, path, entry.size)

    def _fail(self, path: bytes, error: LakeError) -> None:
        self._step(PathAction.FAILED, path, error=error.message)

    def _make_directory(self, destination: Destination, name: bytes) -> None:
        pass

    def _time_of(self, _entry: Entry) -> int | None:
        return None

    def _bring(
        self, _destination: Destination, name: bytes, entry: Entry, state: FileComparison
    ) -> None:
        self._step(_ACTIONS[state], self._below + name, entry.size)

    def _wait(self, path: bytes, entry: Entry) -> None:
        self._step(PathAction.NEW, path, entry.size)


class _Surplus(NamedTuple):
    """The files of a directory that the ref lacks.

    Attributes:
        files: names below the directory, ascending, and what was seen there.
        failures: directories that cannot be read, and why.
    """

    files: list[tuple[bytes, FileStamp]]
    failures: list[tuple[bytes, str]]

    @classmethod
    def of(
        cls,
        view: View,
        below: bytes,
        target: Path,
        options: DownloadOptions,
        mirror: MirrorOptions,
    ) -> _Surplus:
        """Compare a directory with what a view has below a prefix.

        Raises:
            Refused: everything would be deleted.
        """
        found = cls([], [])
        if not target.is_dir():
            return found
        names = (path[len(below) :] for path, _ in view.scan(prefix=below))
        objects = AscendingNames(name for name in names if name and not name.endswith(b"/"))
        for each in walk(os.fsencode(target), LinkPolicy.FAIL):
            name = each.relative
            if is_own(name) or objects.has(name) or mirror.keeps(name):
                continue
            if not options.selection.takes(name):
                continue
            try:
                status = os.lstat(each.path)
            except FileNotFoundError:
                continue
            if stat.S_ISDIR(status.st_mode):
                found.failures.append((each.path, each.problem or "cannot be read"))
            elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                found.files.append((name, FileStamp.of(status)))
        if found.files and not objects.any:
            raise Refused(
                f"there is no object below {view.repository.uri}/{view.name}/{os.fsdecode(below)}, "
                "so everything would be deleted",
                hint=f"if that is meant: rm -r {target}",
            )
        return found

    def blocks(self, name: bytes) -> bool:
        """Tell whether one of the files is in the way of an object."""
        at = name.find(b"/")
        while at != -1:
            if self._has(name[:at], name[:at]):
                return True
            at = name.find(b"/", at + 1)
        return self._has(name + b"/", name + b"0")  # the byte after the slash

    def _has(self, first: bytes, last: bytes) -> bool:
        at = bisect_left(self.files, first, key=lambda item: item[0])
        if at == len(self.files):
            return False
        return self.files[at][0] == first or self.files[at][0] < last


def _check_unneeded(repository: Repository, target: Path) -> None:
    """Refuse to delete below a directory that holds, or lies in, what a repository needs.

    Raises:
        Refused: the storage namespace of a repository of this machine, a directory that one has
            imported from without copying, or the home of lakecli.
    """
    lake = repository.lake
    needed = [(str(lake.home.store), "the local store"), (str(lake.home.cache), "the cache")]
    for record in lake.repositories():
        with lake.kv.read() as txn:
            sources = remembered(txn, lake.repository(record.name))
        places = [(record.storage_namespace, f"the storage namespace of {record.name}")]
        places += [(each, f"a source of {record.name}, imported in place") for each in sources]
        needed += [(real_path(place), what) for place, what in places if is_local(place)]
    root = os.path.realpath(target)
    for place, what in needed:
        real = os.path.realpath(place)
        if os.path.commonpath([root, real]) in (root, real):
            raise Refused(
                f"{target} holds or lies in {what}, from which nothing may be deleted: {place}",
                hint="download to another directory",
            )
