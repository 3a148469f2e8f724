"""Write files into a working directory: fetch them, make them durable together, rename them.

Files are first fetched into the incoming directory. A file is replaced or removed only if it is
still the file that the scan has seen, so a file that was written meanwhile is not lost. A directory
that does not exist yet is made by one rename, with all its files.
"""

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Final

from lakecli.errors import UsageError
from lakecli.repository.download import DownloadOptions
from lakecli.repository.transfer.destination import (
    ANOTHER_CASE,
    Destination,
    UnsafeName,
    has_name,
    remove_empty,
    translated,
)
from lakecli.repository.transfer.ignore_patterns import INCOMING
from lakecli.stores.local.batch import remove_all
from lakecli.stores.local.files import (
    FEW,
    closing,
    status_of,
    sync_file,
    sync_file_system,
    sync_names,
)
from lakecli.worktree.fetching import (
    AT_ONCE,
    OPEN_DIRECTORY,
    REFUSED,
    Expected,
    Fetcher,
    WantedFile,
    WriteReport,
    describe,
)
from lakecli.worktree.index import NO_DIGEST, FileState, TrackedFile, is_settled, state_of
from lakecli.worktree.linked_files import is_executable, make_executable
from lakecli.worktree.obstacles import A_DIRECTORY
from lakecli.worktree.scan import hash_file
from lakecli.worktree.worktree import Worktree, unseen_file

CHUNK: Final = 16_384
"""The largest number of files that are made durable together."""

CHUNK_BYTES: Final = 4 << 30
"""The largest number of bytes that are made durable together."""

_NOT_AS_A_WHOLE: Final = frozenset(
    {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EXDEV, errno.EPERM, *REFUSED}
)
"""Error codes if a directory's name is taken, or the file system cannot rename directories."""


class Writer:
    """Writes files into a working directory, and records them in its index.

    Args:
        worktree: the working directory; its index is changed, but not saved.
        keeps_bit: whether an executable file stays executable if its new object does not record the
            executable bit.

    Attributes:
        report: the result so far; `finish` completes it.
        published: the files that were moved to their final names.
    """

    def __init__(
        self, worktree: Worktree, options: DownloadOptions, *, keeps_bit: bool = False
    ) -> None:
        self._worktree = worktree
        self._keeps_bit = keeps_bit
        self._progress = options.progress
        self._root = os.fsencode(worktree.root)
        namespace = worktree.repository.store.uri
        self._open = partial(Destination, self._root, namespace=namespace)
        self._on_step: Callable[[str], None] = worktree.repository.lake.runtime.on_step
        self._added: list[WantedFile] = []
        self._waiting: list[WantedFile] = []
        self._size = 0
        self._kept: list[tuple[bytes, TrackedFile]] = []
        self._dropped: list[bytes] = []
        self._touched: set[bytes] = set()
        self.report = WriteReport(worktree.root)
        self._fetcher = Fetcher(worktree, options, self.report)
        self.published: list[WantedFile] = []

    # -- removing ----------------------------------------------------------------------------

    def remove(self, path: bytes, expected: Expected | FileState) -> None:
        """Remove a file, and the directories that it leaves empty."""
        self._dropped.append(path)
        if expected is Expected.ABSENT:
            return
        try:
            status = os.lstat(os.path.join(self._root, path))
        except (FileNotFoundError, NotADirectoryError):
            return
        if not self._is_expected(path, status, expected):
            self.report.kept.append(path)
            return
        with self._open() as destination:
            destination.delete(path)
        self._touched.add(path.rpartition(b"/")[0])
        self.report.removed += 1

    # -- writing -----------------------------------------------------------------------------

    def add(self, wanted: WantedFile) -> None:
        """Add a file to write; `finish` writes it if it was not written before."""
        self._added.append(wanted)
        if len(self._added) >= AT_ONCE:
            self._describe()

    def change(self, path: bytes, value: bytes | None, expected: Expected | FileState) -> None:
        """Add a file to write, given its encoded entry; ``None``: remove the file."""
        if value is None:
            self.remove(path, expected)
        else:
            self.add(WantedFile(path, value, expected))

    def _describe(self) -> None:
        """Read the entries of added files, and write the files if there are enough."""
        added, self._added = self._added, []
        failures = dict(describe(added))
        self.report.failures += [(each.path, reason) for each, reason in failures.items()]
        for wanted in added:
            if wanted not in failures:
                self._waiting.append(wanted)
                self._size += wanted.size
                if len(self._waiting) >= CHUNK or self._size >= CHUNK_BYTES:
                    self._write()

    def _write(self) -> None:
        """Fetch the waiting files, make them durable, and then move them to their final names."""
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
            with closing(os.open(incoming, OPEN_DIRECTORY)) as descriptor:
                with Destination(incoming) as destination:
                    fetched = self._fetcher.fetch_all(waiting, destination, descriptor)
                self._sync(fetched, descriptor)
                self._on_step("publish")
                self._publish_files(fetched, descriptor)
        self._sync_names()

    def finish(self) -> WriteReport:
        """Write the remaining files, record all files in the index, and return the report."""
        self._describe()
        self._write()
        if not self.report.failures:
            self._clear()
        # Only now, because each lookup in a changed index sorts the index again.
        index, at_ns = self._worktree.index, self._worktree.clock_ns()
        for path in self._dropped:
            index.drop(path)
        for path, unseen in self._kept:
            index.put(path, *unseen)
        for each in self.published:
            digest = NO_DIGEST if each.digest is None else bytes.fromhex(each.digest)
            state = each.state or FileState(0, each.size)
            is_sure = is_settled(state, at_ns=at_ns, is_own=True)
            index.put(each.path, state if is_sure else FileState(0, each.size), digest)
        self.report.downloaded = len(self.published)
        self.report.size = sum(each.size for each in self.published)
        return self.report

    def _clear(self) -> None:
        """Remove files that killed commands have fetched and that are no longer needed."""
        incoming = os.path.join(self._root, INCOMING)
        with suppress(OSError):
            with closing(os.open(incoming, OPEN_DIRECTORY)) as descriptor:
                remove_all(descriptor)
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
        """Move fetched files, which are grouped by directory, to their final names."""
        with self._open() as destination:
            for directory, group in groupby(fetched, key=attrgetter("directory")):
                self._on_step("publish directory")
                files = list(group)
                try:
                    with translated(os.path.join(self._root, directory)):
                        files = self._publish_together(directory, files, destination, incoming)
                        if files:
                            with destination.open_directory(directory) as descriptor:
                                for each in files:
                                    self._publish_file(each, descriptor, incoming)
                except UnsafeName as error:
                    # Without a cause, a component is not a directory. Otherwise the disk refuses
                    # a name.
                    report = self.report
                    stay = report.blocked if error.__cause__ is None else report.impossible
                    stay += [(each.path, error.message) for each in files]
                else:
                    self._touched.add(directory)

    def _publish_together(
        self, name: bytes, files: list[WantedFile], destination: Destination, incoming: int
    ) -> list[WantedFile]:
        """Rename a subdirectory of the incoming directory to `name`; return the files not in it.

        If a directory or file with this name exists, return all files.
        """
        place = next((each.place for each in files if each.place), b"")
        if not place:
            return files
        above, _, last = name.rpartition(b"/")
        with destination.open_directory(above) as directory:
            try:
                os.rename(place, last, src_dir_fd=incoming, dst_dir_fd=directory)
            except OSError as error:
                if error.errno not in _NOT_AS_A_WHOLE:
                    raise
                return files
        self.published += [each for each in files if each.state is not None]
        return [each for each in files if each.state is None]

    def _publish_file(self, wanted: WantedFile, directory: int, incoming: int) -> None:
        path, temporary = wanted.path, wanted.name
        name = wanted.file_name
        found = status_of(directory, name)
        if found is not None and stat.S_ISDIR(found.st_mode):
            if not remove_empty(name, directory):
                self.report.blocked.append((path, A_DIRECTORY))
                return
            found = None
        if found is not None and not self._is_expected(path, found, wanted.expected):
            if has_name(directory, name):
                self.report.kept.append(path)
                self._kept.append((path, unseen_file(wanted.entry)))
            else:
                self.report.impossible.append((path, ANOTHER_CASE))
            return
        if is_executable(wanted.entry) or (
            self._keeps_bit and _may_get_bit(found, temporary, incoming)
        ):
            make_executable(temporary, incoming)
        try:
            os.rename(temporary, name, src_dir_fd=incoming, dst_dir_fd=directory)
        except OSError as error:
            if error.errno not in {errno.EXDEV, *REFUSED}:
                raise
            reason = (error.strerror or str(error)).lower()
            self.report.impossible.append((path, reason))
            return
        wanted.state = state_of(os.stat(name, dir_fd=directory, follow_symlinks=False))
        self.published.append(wanted)

    def _is_expected(
        self, path: bytes, found: os.stat_result, expected: Expected | FileState
    ) -> bool:
        """Return whether the file at a path is still the file that the scan has seen."""
        if not stat.S_ISREG(found.st_mode) or expected is Expected.ABSENT:
            return False
        if isinstance(expected, FileState):
            return state_of(found) == expected
        tracked = self._worktree.index.find(path)
        if tracked is None or state_of(found) == tracked.state:
            return tracked is not None
        if tracked.digest == NO_DIGEST:
            # The scan compared only the time of the file, which cannot be compared again.
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
        for directory in tuple(touched):  # the directories above may be new, too
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
    """Return whether a file replaces an executable file and is not a hard link to an object."""
    if found is None or not found.st_mode & stat.S_IXUSR:
        return False
    return os.stat(temporary, dir_fd=incoming, follow_symlinks=False).st_nlink == 1
