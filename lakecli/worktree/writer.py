"""Writing files into a working directory: beside, made durable together, then renamed.

Objects are fetched into a directory of their own by `lakecli.worktree.fetching`. A file is replaced
or removed only if it still is what the scan has seen, so nothing that is written meanwhile is lost.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Final

from lakecli.base.model import Entry
from lakecli.errors import UsageError
from lakecli.repository.download import DownloadOptions
from lakecli.repository.reading.contents import digest_of
from lakecli.repository.transfer.destination import Destination, UnsafeName, translated
from lakecli.repository.transfer.selection import INCOMING
from lakecli.stores.local.files import sync_file, sync_file_system, sync_names
from lakecli.worktree.fetching import Expected, Fetcher, WantedFile, directory_of
from lakecli.worktree.index import NO_DIGEST, FileState, is_settled, state_of
from lakecli.worktree.names import is_executable, make_executable
from lakecli.worktree.scan import hash_file
from lakecli.worktree.worktree import Worktree

CHUNK: Final = 16_384
"""Files that become durable together."""

CHUNK_BYTES: Final = 4 << 30
"""Bytes that become durable together, if they are reached first."""

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

FEW: Final = 32
"""Files that are synced one by one, at most; see `lakecli.stores.local.batch`."""


@dataclass(slots=True)
class WriteReport:
    """What was done.

    Attributes:
        directory: the working directory.
        downloaded: the number of files written.
        removed: the number of files removed.
        size: bytes of the files written.
        kept: paths of files that changed meanwhile, or were not known; they are as they were.
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
        self._fetcher = Fetcher(worktree, options)
        self._on_step: Callable[[str], None] = worktree.repository.lake.runtime.on_step
        self._waiting: list[WantedFile] = []
        self._size = 0
        self._states: list[tuple[bytes, FileState, bytes]] = []
        self._dropped: list[bytes] = []
        self._touched: set[bytes] = set()
        self.report = WriteReport(worktree.root)
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
            descriptor = os.open(incoming, _DIRECTORY)
            try:
                with Destination(incoming) as destination:
                    fetched = self._fetcher.fetch_all(waiting, destination, descriptor)
                self.report.failures += self._fetcher.failures
                self._fetcher.failures.clear()
                self.report.can_repeat |= self._fetcher.was_refused
                self._sync([each.name for each in fetched], descriptor)
                self._on_step("publish")
                self._publish(fetched, descriptor)
            finally:
                os.close(descriptor)
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
            descriptor = os.open(incoming, _DIRECTORY)
            try:
                for name in os.listdir(descriptor):
                    os.unlink(name, dir_fd=descriptor)
            finally:
                os.close(descriptor)
            os.rmdir(incoming)

    def _sync(self, names: list[bytes], directory: int) -> None:
        """Make fetched files durable."""
        if len(names) > FEW:
            sync_file_system(directory)
            return
        for name in names:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=directory)
            try:
                sync_file(descriptor)
            finally:
                os.close(descriptor)

    def _publish(self, fetched: list[WantedFile], incoming: int) -> None:
        """Give fetched files their names; they come one directory after the other."""
        with Destination(self._root) as destination:
            for directory, group in groupby(fetched, key=directory_of):
                self._on_step("publish directory")
                files = list(group)
                try:
                    with (
                        translated(os.path.join(self._root, directory)),
                        destination.open_directory(directory) as descriptor,
                    ):
                        for each in files:
                            self._publish_one(each, descriptor, incoming)
                except UnsafeName as error:
                    self.report.impossible += [(each.path, error.message) for each in files]
                else:
                    self._touched.add(directory)

    def _publish_one(self, wanted: WantedFile, directory: int, incoming: int) -> None:
        path, entry, temporary = wanted.path, wanted.entry, wanted.name
        name = path.rpartition(b"/")[2]
        try:
            found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            found = None
        if found is not None and stat.S_ISDIR(found.st_mode):
            self.report.impossible.append((path, "a directory has this name"))
            return
        if found is not None and not self._is_expected(path, found, wanted.expected):
            with os.scandir(directory) as listing:
                is_named_so = any(os.fsencode(each.name) == name for each in listing)
            if is_named_so:
                self.report.kept.append(path)
                self._states.append((path, *self._record_of(entry)))
            else:
                reason = "a file has this name, but for upper and lower case"
                self.report.impossible.append((path, reason))
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
        self._states.append((path, state, self._record_of(entry)[1]))
        self.published.append(wanted)
        self.report.downloaded += 1
        self.report.size += entry.size

    def _record_of(self, entry: Entry) -> tuple[FileState, bytes]:
        digest = digest_of(entry)
        return FileState(0, entry.size), NO_DIGEST if digest is None else bytes.fromhex(digest)

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
        root = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if len(touched) > FEW:
                sync_file_system(root)
                return
            for directory in touched:
                with suppress(FileNotFoundError, NotADirectoryError):
                    descriptor = os.open(
                        directory or b".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=root
                    )
                    try:
                        sync_names(descriptor)
                    finally:
                        os.close(descriptor)
        finally:
            os.close(root)


def _may_get_bit(found: os.stat_result | None, temporary: bytes, incoming: int) -> bool:
    """Return whether a file takes the place of an executable one, and is no link to an object."""
    if found is None or not found.st_mode & stat.S_IXUSR:
        return False
    return os.stat(temporary, dir_fd=incoming, follow_symlinks=False).st_nlink == 1
