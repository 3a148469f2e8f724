"""Writing files into a working directory: beside, made durable together, then renamed.

`Fetcher` fetches objects into a directory of their own, verified. Names there tell path and object,
so the next command uses what a killed one has fetched from a bucket. From a namespace that is a
directory, small files are copied, and others are linked where that works.

`Writer` gives them their names. A file is replaced or removed only if it still is what the scan has
seen, so nothing that is written meanwhile is lost.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from lakecli.base.identity import h
from lakecli.base.model import Entry
from lakecli.errors import (
    IntegrityError,
    NotFound,
    PermissionDenied,
    Refused,
    Unreachable,
    UsageError,
)
from lakecli.repository.download import Downloader, DownloadOptions
from lakecli.repository.reading.addresses import is_external
from lakecli.repository.reading.contents import damaged, digest_of, gone, read_small
from lakecli.repository.reading.recorded import locate
from lakecli.repository.transfer.destination import (
    ANOTHER_CASE,
    ENDS_ALL,
    Destination,
    FileComparison,
    UnsafeName,
    has_name,
    remove_empty,
    translated,
)
from lakecli.repository.transfer.ignore_patterns import INCOMING
from lakecli.repository.transfer.ingest import SMALL
from lakecli.repository.transfer.parallel import FailureBudget
from lakecli.stores.contract import BucketNotFound
from lakecli.stores.local.files import closing, sync_file, sync_file_system, sync_names, write_all
from lakecli.stores.local.store import DirectoryStore
from lakecli.stores.uri import is_local
from lakecli.worktree.index import NO_DIGEST, FileState, is_settled, state_of
from lakecli.worktree.linked_files import (
    digest_at,
    hard_link,
    is_executable,
    make_executable,
    reflink,
    unsupported,
)
from lakecli.worktree.obstacles import A_DIRECTORY
from lakecli.worktree.scan import hash_file
from lakecli.worktree.worktree import LinkMode, Worktree, unseen_file

CHUNK: Final = 16_384
"""Files that become durable together."""

CHUNK_BYTES: Final = 4 << 30
"""Bytes that become durable together, if they are reached first."""

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

FEW: Final = 32
"""Files that are synced one by one, at most; see `lakecli.stores.local.batch`."""


class Expected(Enum):
    """What is at a path, as far as the scan knows."""

    ABSENT = "absent"
    BASE = "base"


class WantedFile:
    """A file to write.

    Attributes:
        path: relative to the working directory.
        entry: its object.
        expected: what it replaces; a state: the file that has it.
        directory: of the path.
        file_name: of the path.
        digest: the BLAKE3 of its bytes, where the address of its object says it.
        name: of the file while it is not complete.
    """

    __slots__ = ("digest", "directory", "entry", "expected", "file_name", "name", "path")

    def __init__(self, path: bytes, entry: Entry, expected: Expected | FileState) -> None:
        self.path = path
        self.directory, _, self.file_name = path.rpartition(b"/")
        self.entry = entry
        self.expected = expected
        self.digest = digest_of(entry)
        text = f"{entry.physical_address} {entry.size} {entry.checksum} "
        self.name = h(text.encode("utf-8", "surrogateescape") + path)[:16].hex().encode("ascii")


_PLACE_OF: Final = attrgetter("directory", "file_name")


@dataclass(slots=True)
class WriteReport:
    """What was done.

    Attributes:
        directory: the working directory.
        downloaded: the number of files written.
        removed: the number of files removed.
        size: bytes of the files written.
        kept: paths of files that changed meanwhile, or were not known; they are as they were.
        blocked: (path, reason) of objects with another file or directory in their way.
        impossible: (path, reason) of objects that cannot be files here.
        failures: (path, reason) of objects that could not be fetched.
        can_repeat: whether the store has refused some of these, or did not answer, so that a
            repetition may fetch them.
    """

    directory: Path
    downloaded: int = 0
    removed: int = 0
    size: int = 0
    kept: list[bytes] = field(default_factory=list)
    blocked: list[tuple[bytes, str]] = field(default_factory=list)
    impossible: list[tuple[bytes, str]] = field(default_factory=list)
    failures: list[tuple[bytes, str]] = field(default_factory=list)
    can_repeat: bool = False


class Writer:
    """Writes files into a working directory, and records them in its index.

    Args:
        worktree: the working directory; its index is changed, not saved.
        options: of the downloads.
        keeps_bit: a file stays executable if it was, even if its object does not say so.
    """

    def __init__(
        self, worktree: Worktree, options: DownloadOptions, *, keeps_bit: bool = False
    ) -> None:
        self._worktree = worktree
        self._keeps_bit = keeps_bit
        self._progress = options.progress
        self._root = os.fsencode(worktree.root)
        self._on_step: Callable[[str], None] = worktree.repository.lake.runtime.on_step
        self._waiting: list[WantedFile] = []
        self._size = 0
        self._states: list[tuple[bytes, FileState, bytes]] = []
        self._dropped: list[bytes] = []
        self._touched: set[bytes] = set()
        self.report = WriteReport(worktree.root)
        self._fetcher = Fetcher(worktree, options, self.report)
        self.published: list[WantedFile] = []

    # -- removing ----------------------------------------------------------------------------

    def remove(self, path: bytes, expected: Expected | FileState) -> None:
        """Remove a file, and the directories that it leaves empty."""
        self._dropped.append(path)
        if expected is not Expected.ABSENT:
            try:
                status = os.lstat(os.path.join(self._root, path))
            except (FileNotFoundError, NotADirectoryError):
                status = None
            if status is not None:
                if not self._is_expected(path, status, expected):
                    self.report.kept.append(path)
                    return
                with Destination(self._root) as destination:
                    destination.delete(path)
                self._touched.add(path.rpartition(b"/")[0])
                self.report.removed += 1

    # -- writing -----------------------------------------------------------------------------

    def add(self, wanted: WantedFile) -> None:
        """Write a file, at the latest with the next `flush`."""
        self._waiting.append(wanted)
        self._size += wanted.entry.size
        if len(self._waiting) >= CHUNK or self._size >= CHUNK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Make everything so far durable, then visible."""
        waiting, self._waiting = self._waiting, []
        size, self._size = self._size, 0
        if waiting:
            self._on_step("fetch")
            self._progress.expect(items=len(waiting), size=size)
            incoming = os.path.join(self._root, INCOMING)
            with suppress(FileExistsError):
                os.mkdir(incoming, 0o700)
            if not stat.S_ISDIR(os.lstat(incoming).st_mode):
                raise UsageError(f"not a directory: {os.fsdecode(incoming)}", hint="remove it")
            with closing(os.open(incoming, _DIRECTORY)) as descriptor:
                with Destination(incoming) as destination:
                    fetched = self._fetcher.fetch_all(waiting, destination, descriptor)
                self._sync(fetched, descriptor)
                self._on_step("publish")
                self._publish_files(fetched, descriptor)
        self._sync_names()

    def finish(self) -> WriteReport:
        """Write what is left, record the files in the index, and return what was done."""
        self.flush()
        if not self.report.failures:
            self._clear()
        # Only now: looking something up in an index that was changed sorts it anew.
        index, at_ns = self._worktree.index, self._worktree.clock_ns()
        for path in self._dropped:
            index.drop(path)
        for path, state, digest in self._states:
            is_sure = is_settled(state, at_ns=at_ns, is_own=True)
            index.put(path, state if is_sure else FileState(0, state.size), digest)
        return self.report

    def _clear(self) -> None:
        """Remove what killed commands have fetched and nobody wants any more."""
        incoming = os.path.join(self._root, INCOMING)
        with suppress(OSError):
            with closing(os.open(incoming, _DIRECTORY)) as descriptor:
                for name in os.listdir(descriptor):
                    os.unlink(name, dir_fd=descriptor)
            os.rmdir(incoming)

    def _sync(self, fetched: list[WantedFile], directory: int) -> None:
        """Make fetched files durable."""
        if len(fetched) > FEW:
            sync_file_system(directory)
            return
        for each in fetched:
            flags = os.O_RDONLY | os.O_NOFOLLOW
            with closing(os.open(each.name, flags, dir_fd=directory)) as descriptor:
                sync_file(descriptor)

    def _publish_files(self, fetched: list[WantedFile], incoming: int) -> None:
        """Give fetched files their names; they come one directory after the other."""
        with Destination(self._root) as destination:
            for directory, group in groupby(fetched, key=attrgetter("directory")):
                self._on_step("publish directory")
                files = list(group)
                try:
                    with (
                        translated(os.path.join(self._root, directory)),
                        destination.open_directory(directory) as descriptor,
                    ):
                        for each in files:
                            self._publish_file(each, descriptor, incoming)
                except UnsafeName as error:
                    # Without a cause, a component is no directory; else the disk refuses a name.
                    report = self.report
                    stay = report.blocked if error.__cause__ is None else report.impossible
                    stay += [(each.path, error.message) for each in files]
                else:
                    self._touched.add(directory)

    def _publish_file(self, wanted: WantedFile, directory: int, incoming: int) -> None:
        path, entry, temporary = wanted.path, wanted.entry, wanted.name
        name = wanted.file_name
        try:
            found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            found = None
        if found is not None and stat.S_ISDIR(found.st_mode):
            if not remove_empty(name, directory):
                self.report.blocked.append((path, A_DIRECTORY))
                return
            found = None
        if found is not None and not self._is_expected(path, found, wanted.expected):
            if has_name(directory, name):
                self.report.kept.append(path)
                self._states.append((path, *unseen_file(entry)))
            else:
                self.report.impossible.append((path, ANOTHER_CASE))
            return
        if is_executable(entry) or (self._keeps_bit and _may_get_bit(found, temporary, incoming)):
            make_executable(temporary, dir_fd=incoming)
        try:
            os.rename(temporary, name, src_dir_fd=incoming, dst_dir_fd=directory)
        except OSError as error:
            if error.errno not in {errno.EXDEV, errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ}:
                raise
            reason = (error.strerror or str(error)).lower()
            self.report.impossible.append((path, reason))
            return
        state = state_of(os.stat(name, dir_fd=directory, follow_symlinks=False))
        digest = NO_DIGEST if wanted.digest is None else bytes.fromhex(wanted.digest)
        self._states.append((path, state, digest))
        self.published.append(wanted)
        self.report.downloaded += 1
        self.report.size += entry.size

    def _is_expected(
        self, path: bytes, found: os.stat_result, expected: Expected | FileState
    ) -> bool:
        """Return whether the file at a path is what the scan has seen there."""
        if not stat.S_ISREG(found.st_mode) or expected is Expected.ABSENT:
            return False
        if isinstance(expected, FileState):
            return state_of(found) == expected
        tracked = self._worktree.index.find(path)
        if tracked is None or state_of(found) == tracked.state:
            return tracked is not None
        if tracked.digest == NO_DIGEST:
            # Its time has decided in the scan, which nothing can repeat.
            return not tracked.state.inode
        try:
            return hash_file(self._root, path, follow=False)[0] == tracked.digest.hex()
        except OSError:
            return False

    def _sync_names(self) -> None:
        """Make the names of written and removed files durable."""
        touched, self._touched = self._touched, set()
        if not touched:
            return
        for directory in tuple(touched):  # those above may be new, too
            names = directory.split(b"/")
            touched.update(b"/".join(names[:count]) for count in range(len(names)))
        with closing(os.open(self._root, os.O_RDONLY | os.O_DIRECTORY)) as root:
            if len(touched) > FEW:
                sync_file_system(root)
                return
            flags = os.O_RDONLY | os.O_DIRECTORY
            for directory in touched:
                with (
                    suppress(FileNotFoundError, NotADirectoryError),
                    closing(os.open(directory or b".", flags, dir_fd=root)) as descriptor,
                ):
                    sync_names(descriptor)


def _may_get_bit(found: os.stat_result | None, temporary: bytes, incoming: int) -> bool:
    """Return whether a file takes the place of an executable one, and is no link to an object."""
    if found is None or not found.st_mode & stat.S_IXUSR:
        return False
    return os.stat(temporary, dir_fd=incoming, follow_symlinks=False).st_nlink == 1


class _Incoming(NamedTuple):
    """The directory of incoming files, and the names that it had at first."""

    destination: Destination
    descriptor: int
    present: set[str]

    def remove(self, name: bytes) -> None:
        """Remove what a killed command has left under a name; it may be a link to an object."""
        if os.fsdecode(name) in self.present:
            os.unlink(name, dir_fd=self.descriptor)


class Fetcher:
    """Fetches objects into the directory of incoming files.

    Args:
        worktree: the working directory.
        options: of the downloads.
        report: gets the failures.
    """

    def __init__(self, worktree: Worktree, options: DownloadOptions, report: WriteReport) -> None:
        self._worktree = worktree
        self._progress = options.progress
        self._incoming = os.path.join(os.fsencode(worktree.root), INCOMING)
        self._download = Downloader(worktree.repository, options)
        self._can_reflink = True
        self._store = worktree.repository.store
        self._is_local = is_local(self._store.uri)
        self._budget = FailureBudget()
        self._report = report

    def fetch_all(
        self, waiting: list[WantedFile], incoming: Destination, descriptor: int
    ) -> list[WantedFile]:
        """Fetch objects beside; return those that were fetched, one directory after the other."""
        place = _Incoming(incoming, descriptor, set(os.listdir(descriptor)))
        fetched: list[WantedFile] = []

        def fetch(wanted: WantedFile) -> None:
            if self._try(wanted, place):
                fetched.append(wanted)

        store = self._worktree.repository.store
        if self._is_local and isinstance(store, DirectoryStore):
            waiting.sort(key=lambda each: each.entry.physical_address)
            with store.reading_in_order() as self._store:
                for each in waiting:
                    fetch(each)
        else:
            waiting.sort(key=_PLACE_OF)
            self._download.workers.for_each(waiting, fetch)
        fetched.sort(key=_PLACE_OF)
        return fetched

    def _bring(self, wanted: WantedFile, place: _Incoming) -> None:
        """Link, copy or fetch an object beside, as its size and its namespace allow."""
        if not self._is_local or wanted.digest is None:
            self._fetch(wanted, place)
        elif self._links(wanted.entry):
            self._link(wanted, place)
        elif wanted.entry.size <= SMALL:
            self._copy(wanted, place)
        else:
            self._fetch(wanted, place)

    def _fetch(self, wanted: WantedFile, place: _Incoming) -> None:
        """Fetch an object beside, unless an earlier command has."""
        entry, name = wanted.entry, wanted.name
        if os.fsdecode(name) in place.present:
            here = place.destination.state_of(
                name, size=entry.size, digest=wanted.digest, mtime=entry.file_mtime
            )
            if here is FileComparison.SAME:
                self._progress.advance(items=1, size=entry.size)
                return
        self._download.fetch(place.destination, name, entry)
        self._progress.advance(items=1)

    def _links(self, entry: Entry) -> bool:
        """Return whether the file of an object in a directory is linked, not copied."""
        mode = self._worktree.linking
        if mode is LinkMode.COPY:
            return False
        if mode is LinkMode.HARDLINK:
            return not is_executable(entry)  # the mode is that of the object
        # Copying a small file takes no longer than sharing its blocks.
        return mode is LinkMode.REFLINK or (self._can_reflink and entry.size > SMALL)

    def _link(self, wanted: WantedFile, place: _Incoming) -> None:
        """Link a file with its object, verified."""
        entry, name, directory = wanted.entry, wanted.name, place.descriptor
        store, key = locate(self._worktree.repository, entry)
        path = store.local_path(key)
        if path is None:
            raise gone(self._worktree.repository.uri, store, key)
        source = Path(path)
        mode = self._worktree.linking
        with translated(os.path.join(self._incoming, name)):
            place.remove(name)
            if mode is LinkMode.HARDLINK:
                hard_link(source, name, directory)
            elif not reflink(source, name, directory):
                if mode is LinkMode.REFLINK:
                    raise unsupported("reflinks", source)
                self._can_reflink = False
                self._fetch(wanted, place)
                return
            if digest_at(name, directory) != wanted.digest:
                os.unlink(name, dir_fd=directory)
                raise damaged(self._worktree.repository.uri, store, key)
            if mode is not LinkMode.HARDLINK:  # the time is that of the object
                seconds = entry.file_mtime
                with suppress(OverflowError, OSError):
                    os.utime(name, (seconds, seconds), dir_fd=directory)
        self._progress.advance(items=1, size=entry.size)

    def _copy(self, wanted: WantedFile, place: _Incoming) -> None:
        """Copy a small object of a local namespace beside, verified."""
        entry, name = wanted.entry, wanted.name
        uri, key = self._worktree.repository.uri, entry.physical_address
        data = read_small(uri, self._store, key, size=entry.size, digest=wanted.digest)
        seconds = entry.file_mtime
        with translated(os.path.join(self._incoming, name)):
            place.remove(name)
            with closing(os.open(name, _NEW, 0o666, dir_fd=place.descriptor)) as descriptor:
                write_all(descriptor, data)
                with suppress(OverflowError, OSError):  # a time this disk cannot keep
                    os.utime(descriptor, (seconds, seconds))
        self._progress.advance(items=1, size=entry.size)

    def _try(self, wanted: WantedFile, place: _Incoming) -> bool:
        """Fetch an object; record its failure, if only this one may have failed.

        Returns:
            Whether it was fetched.
        """
        try:
            self._bring(wanted, place)
        except ENDS_ALL:
            raise
        except (NotFound, IntegrityError, UsageError, Refused) as error:
            if isinstance(error, BucketNotFound) and not is_external(wanted.entry):
                raise
            self._report.failures.append((wanted.path, error.message))
            return False
        except (PermissionDenied, Unreachable) as error:
            self._report.can_repeat = True
            self._report.failures.append((wanted.path, error.message))
            if self._budget.failed(error):
                raise
            return False
        self._budget.succeeded()
        return True
