"""How the files of a working directory differ from its base.

The scan walks the directory once. A file whose state is in the index is not read. Other files of
the base are compared by size, then by their bytes. Files that are not in the base are not read.
"""

import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, NamedTuple

from lakecli.base.directories import LINK_FILE
from lakecli.base.model import ChangeType
from lakecli.repository.reading.contents import hash_rest
from lakecli.repository.transfer.ignore_patterns import Ignore, Selection, is_own
from lakecli.repository.transfer.walk import OPEN_DIRECTORY, LinkPolicy, open_below
from lakecli.stores.local.directory import is_possible_path
from lakecli.stores.local.files import closing
from lakecli.worktree import index as indexes

_Above = frozenset[tuple[int, int]]
"""Device and inode of each directory above a directory."""

_Directory = tuple[bytes, _Above]
"""The path of a directory, and the directories above it."""

_Files = dict[bytes, os.DirEntry[str]]
"""The files of a directory, by name."""

_STATE_OF: Final = attrgetter("st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")
"""Return the fields of a `FileState` from a ``stat`` result, without a loop in Python."""

_OPEN: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


def is_possible(relative: bytes) -> bool:
    """Return whether a path can be a file below a working directory.

    Paths come from a bucket and are not trusted. A path that cannot be a file here is left out: it
    is never written, and never counts as deleted. A path that ends in a slash marks a directory in
    a bucket, and is not a file.
    """
    return is_possible_path(relative) and not is_own(relative)


class LocalChange(NamedTuple):
    """A file that differs from the base.

    Attributes:
        type: added, removed or changed.
        state: the state of the file; ``None`` if it was removed.
        digest: the BLAKE3 of its bytes, 64 hex digits; ``""`` if it was not read.
    """

    type: ChangeType
    state: indexes.FileState | None
    digest: str = ""


class ScanProblem(NamedTuple):
    """A file or directory that is not compared and does not count as deleted, and the reason."""

    path: bytes
    reason: str


@dataclass(slots=True, eq=False)
class Scan:
    """The result of walking a working directory.

    Attributes:
        changes: the changes by path, relative to the working directory.
        problems: the problems, in path order.
    """

    changes: dict[bytes, LocalChange] = field(default_factory=dict)
    problems: list[ScanProblem] = field(default_factory=list)


@dataclass(eq=False)
class Scanner:
    """Walks a working directory to find how its files differ from the base.

    Attributes:
        index: the index of the base; the states of files that were read are recorded in it.
        left_out: paths that cannot be files here.
        is_same: returns whether a file has the bytes of the base, if the index lacks the digest.
    """

    root: bytes
    index: indexes.Index
    ignore: Ignore
    selection: Selection
    left_out: Collection[bytes]
    links: LinkPolicy
    clock_ns: Callable[[], int]
    is_same: Callable[[bytes, os.stat_result], bool]
    _found: Scan = field(default_factory=Scan)
    _tracked_directories: set[bytes] = field(default_factory=set)
    _skipped: list[bytes] = field(default_factory=list)

    def run(self) -> Scan:
        """Walk the directory, and return its differences from the base."""
        self.index.settle()
        blocks = self.index.blocks
        parents = {b""}
        for directory in blocks:
            above = directory
            while above not in parents:
                parents.add(above)
                above = above.rpartition(b"/")[0]
        self._tracked_directories = parents
        visited: set[bytes] = set()
        waiting: list[_Directory] = [(b"", frozenset())]
        while waiting:
            directory, seen = waiting.pop()
            below = self._visit(directory, seen)
            if below is not None:
                visited.add(directory)
                waiting += below
        for directory, block in blocks.items():
            if directory not in visited and not is_below(directory, self._skipped):
                lead = directory + b"/"
                for name in block.names:
                    self._found.changes[lead + name] = LocalChange(ChangeType.REMOVED, None)
        self._found.changes = dict(sorted(self._found.changes.items()))
        self._found.problems.sort()
        return self._found

    def _visit(self, directory: bytes, above: _Above) -> list[_Directory] | None:
        """Compare the files of one directory; return its subdirectories.

        Returns:
            The subdirectories; ``None`` if the directory was skipped or removed.
        """
        try:
            # Files are described relative to the opened directory: the kernel walks no path.
            descriptor = open_below(self.root, directory, OPEN_DIRECTORY, follow=self._follows)
        except OSError as error:
            # A subdirectory that was removed meanwhile is not skipped: its files count as removed.
            # If links are followed, only the target of a link may be gone.
            is_removed = isinstance(error, FileNotFoundError) and directory and not self._follows
            if not is_removed:
                self._skip(directory, error)
            return None
        with closing(descriptor):
            return self._visit_opened(directory, descriptor, above)

    def _visit_opened(
        self, directory: bytes, descriptor: int, above: _Above
    ) -> list[_Directory] | None:
        lead = directory + b"/" if directory else b""
        try:
            with os.scandir(descriptor) as listing:
                entries = list(listing)
            if self._follows:
                status = os.fstat(descriptor)
                here = (status.st_dev, status.st_ino)
                if here in above:
                    self._skip(directory, "a symbolic link that leads back into itself")
                    return None
                above |= {here}
        except OSError as error:
            self._skip(directory, error)
            return None
        files, names_below = self._sorted(lead, entries)
        if files.pop(LINK_FILE, None) is not None and directory:
            self._skipped.append(directory)  # a working directory of its own
            return None
        block = self.index.blocks.get(directory)
        if block is None or not _is_unchanged(block, files):
            self._compare(lead, block, files)
        return [(path, above) for path in names_below if not self._leaves_alone(path)]

    def _sorted(self, lead: bytes, entries: list[os.DirEntry[str]]) -> tuple[_Files, list[bytes]]:
        """Return the files of a directory by name, and the paths of the directories in it."""
        files = {}
        below = []
        # All names are encoded at once, which is faster; no name has a NUL.
        names = os.fsencode("\0".join([entry.name for entry in entries])).split(b"\0")
        for name, entry in zip(names, entries, strict=False):  # no entries give one empty name
            kind = "file" if entry.is_file(follow_symlinks=False) else self._kind(entry)
            if kind == "file":
                files[name] = entry
            elif kind == "directory":
                below.append(lead + name)
            else:
                self._skipped.append(lead + name)
                self._report(lead + name, name, kind)
        return files, below

    def _leaves_alone(self, directory: bytes) -> bool:
        """Return whether a directory is skipped: it is ignored, or belongs to lakecli or Git."""
        if is_own(directory.rpartition(b"/")[2]):
            return True
        return directory not in self._tracked_directories and self.ignore.ignores(directory + b"/")

    def _compare(
        self,
        lead: bytes,
        block: indexes.TrackedDirectory | None,
        files: dict[bytes, os.DirEntry[str]],
    ) -> None:
        tracked = {} if block is None else {name: at for at, name in enumerate(block.names)}
        for name in sorted(files):
            path = lead + name
            position = tracked.pop(name, None)
            if position is None and not self._is_new(path, name):
                continue
            try:
                found = files[name].stat(follow_symlinks=self._follows)
            except OSError:
                self._lost(path)
                continue
            state = indexes.state_of(found)
            if position is None or block is None:
                self._found.changes[path] = LocalChange(ChangeType.ADDED, state)
            elif state != block.at(position).state:
                self._look(path, block, position, found)
        for name in tracked:
            if not is_below(lead + name, self._skipped):
                self._found.changes[lead + name] = LocalChange(ChangeType.REMOVED, None)

    def _is_new(self, path: bytes, name: bytes) -> bool:
        """Return whether a file that is not in the base counts as added."""
        if is_own(name) or path in self.left_out or not self.selection.takes(path):
            return False
        return is_possible(path) and not self.ignore.ignores(path)

    def _look(
        self, path: bytes, block: indexes.TrackedDirectory, position: int, found: os.stat_result
    ) -> None:
        """Compare a tracked file whose state differs from its state in the index."""
        tracked = block.at(position)
        if tracked.digest != indexes.NO_DIGEST and found.st_size != tracked.state.size:
            self._found.changes[path] = LocalChange(ChangeType.CHANGED, indexes.state_of(found))
            return
        at_ns = self.clock_ns()
        try:
            if tracked.digest == indexes.NO_DIGEST:
                digest, is_same = "", self.is_same(path, found)
            else:
                digest, found = hash_file(self.root, path, follow=self._follows)
                is_same = digest == tracked.digest.hex()
        except OSError as error:
            self._add_problem(path, error)
            return
        state = indexes.state_of(found)
        if not is_same:
            self._found.changes[path] = LocalChange(ChangeType.CHANGED, state, digest)
        elif indexes.is_settled(state, at_ns=at_ns):
            self.index.see(block, position, state)

    @property
    def _follows(self) -> bool:
        return self.links is LinkPolicy.FOLLOW

    def _lost(self, path: bytes) -> None:
        """Record that the state of a listed file could not be read, or that it was removed."""
        try:
            os.stat(os.path.join(self.root, path), follow_symlinks=False)
        except FileNotFoundError:
            if self.index.find(path) is not None:
                self._found.changes[path] = LocalChange(ChangeType.REMOVED, None)
        except OSError as error:
            self._add_problem(path, error)

    def _kind(self, entry: os.DirEntry[str]) -> str:
        """Return the kind of an entry that is not a regular file."""
        try:
            if self._follows and entry.is_file(follow_symlinks=True):
                return "file"
            if entry.is_dir(follow_symlinks=self._follows):
                return "directory"
            is_link = entry.is_symlink()
        except OSError:
            is_link = True
        if not is_link:
            return "a special file (pipe, socket or device)"
        return "a broken symbolic link" if self._follows else "a symbolic link"

    def _report(self, path: bytes, name: bytes, kind: str) -> None:
        """Report a link or special file as a problem, unless it is to be skipped or is ignored."""
        is_ours = self.index.find(path) is not None or path in self._tracked_directories
        if self.links is not LinkPolicy.SKIP and (is_ours or self._is_new(path, name)):
            self._add_problem(path, kind)

    def _skip(self, directory: bytes, reason: OSError | str) -> None:
        self._skipped.append(directory)
        self._add_problem(directory, reason)

    def _add_problem(self, path: bytes, reason: OSError | str) -> None:
        if isinstance(reason, OSError):
            reason = (reason.strerror or str(reason)).lower()
        self._found.problems.append(ScanProblem(path, reason))


def _is_unchanged(block: indexes.TrackedDirectory, files: Mapping[bytes, os.DirEntry[str]]) -> bool:
    """Return whether a directory has exactly the base's names, all files in their recorded states.

    A symbolic link that is followed never counts as being in its recorded state.
    """
    if len(files) != len(block.names):
        return False
    try:
        found = [_STATE_OF(files[name].stat(follow_symlinks=False)) for name in block.names]
    except (KeyError, OSError):
        return False
    return found == list(indexes.STATES.iter_unpack(block.records))


def is_below(path: bytes, places: Iterable[bytes]) -> bool:
    """Return whether a path is one of `places`, or is below one of them.

    Args:
        places: files and directories; a slash at the end names a directory only, and ``b""`` is
            the directory that contains all paths.
    """
    return any(
        not place or path == place or path.startswith(place.rstrip(b"/") + b"/") for place in places
    )


def hash_file(root: bytes, relative: bytes, *, follow: bool) -> tuple[str, os.stat_result]:
    """Return the BLAKE3 of a file, 64 hex digits, and its state before it was read.

    Raises:
        OSError: the file cannot be read, or is not a regular file.
    """
    with closing(open_below(root, relative, _OPEN, follow=follow)) as descriptor:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "not a regular file")
        return hash_rest(descriptor), status
