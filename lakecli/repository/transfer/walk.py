"""Find the files to upload: walk a directory, open files, and detect that a file changed."""

import os
import stat
import threading
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from lakecli import native
from lakecli.errors import LakeError, LostRace, UsageError
from lakecli.repository.transfer.ignore_patterns import is_own

if TYPE_CHECKING:
    from pathlib import Path

OPEN_DIRECTORY: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY

_OPEN_FILE: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK

_version: Final = attrgetter("st_mtime_ns", "st_ctime_ns", "st_size")


class FileChanged(LostRace):
    """The file was written to while it was read; nothing was recorded."""


def has_changed(descriptor: int, before: os.stat_result) -> bool:
    """Return whether an open file has changed since its status was read."""
    return _version(os.fstat(descriptor)) != _version(before)


def changed(what: str) -> FileChanged:
    """Return the error for a file that changed while it was read or sent.

    Args:
        what: the past participle for the message, such as ``read``.
    """
    return FileChanged(f"the file changed while it was {what}", hint="upload it again")


SmallFile = tuple[bytes, int]
"""The bytes of a file, and its modification time in unix seconds."""


class LinkPolicy(StrEnum):
    """How to treat symbolic links and special files below an uploaded directory."""

    FAIL = "fail"
    FOLLOW = "follow"
    SKIP = "skip"


class WalkedFile(NamedTuple):
    """A file below the root.

    Attributes:
        path: the path on disk.
        relative: the name relative to the root.
        problem: why the file cannot be uploaded; ``None`` if it can.
    """

    path: bytes
    relative: bytes
    problem: str | None = None


class _Directory(NamedTuple):
    path: bytes
    relative: bytes
    above: frozenset[tuple[int, int]]
    """Device and inode of each directory above this directory."""


def walk(root: bytes, policy: LinkPolicy) -> Iterator[WalkedFile]:
    """Yield every regular file below a directory, in byte order of the relative names.

    The policy decides whether symbolic links are yielded with a problem, followed, or left out.
    Sockets, pipes and devices are yielded with a problem, or left out with `LinkPolicy.SKIP`. A
    directory that cannot be read, and a link to a directory above itself, are yielded with a
    problem. A directory with a reserved name (`is_own`) is yielded like a file, and not entered.
    """
    # A stack of what remains to be yielded, since directories may nest deeper than Python recurses.
    waiting: list[Iterator[WalkedFile | _Directory]] = [iter([_Directory(root, b"", frozenset())])]
    while waiting:
        item = next(waiting[-1], None)
        if item is None:
            waiting.pop()
        elif isinstance(item, WalkedFile):
            yield item
        else:
            waiting.append(_list(item, policy))


def named(root: bytes, names: Iterable[bytes], policy: LinkPolicy) -> Iterator[WalkedFile]:
    """Yield the files with the given relative names below a directory, in the given order.

    A name that is not a file, or leads out of the directory, is yielded with a problem. Symbolic
    links and special files are treated as by `walk`, including links in the directories above a
    file.
    """
    for name in names:
        path = os.path.join(root, name)
        problem, is_special = _problem_of(root, name, follow=policy is LinkPolicy.FOLLOW)
        if not (is_special and policy is LinkPolicy.SKIP):
            yield WalkedFile(path, name, problem)


def _problem_of(root: bytes, name: bytes, *, follow: bool) -> tuple[str | None, bool]:
    """Return why a name cannot be uploaded, or ``None``, and whether the link policy matters."""
    parts = name.split(b"/")
    if any(part in (b"", b".", b"..") or b"\0" in part for part in parts):
        return "not a relative name without '.', '..' and NUL", False
    path = root
    try:
        for part in parts:
            path = os.path.join(path, part)
            status = os.stat(path, follow_symlinks=follow)
            if stat.S_ISLNK(status.st_mode):
                return "a symbolic link", True
    except OSError as error:
        return (error.strerror or str(error)).lower(), False
    if stat.S_ISREG(status.st_mode):
        return None, False
    if stat.S_ISDIR(status.st_mode):
        return "is a directory", False
    return "a special file (pipe, socket or device)", True


def by_own_names(sources: "Sequence[Path]") -> list[WalkedFile]:
    """Return files, named by the last component of their paths and sorted by name."""
    found: dict[bytes, WalkedFile] = {}
    for source in sources:
        name = os.fsencode(source.name)
        path = os.path.realpath(os.fsencode(source))
        if name in found:
            hint = "upload them one by one"
            raise UsageError(f"two files have the name {source.name!r}", hint=hint)
        problem = "is a directory; upload it by itself with -r" if source.is_dir() else None
        found[name] = WalkedFile(path, name, problem)
    return [found[name] for name in sorted(found)]


def open_below(root: bytes, relative: bytes, flags: int, *, follow: bool = False) -> int:
    """Open a file or directory below a root.

    Args:
        root: the root, which may be a link itself.
        follow: follow symbolic links below the root.

    Raises:
        OSError: the file cannot be opened; ``ELOOP`` or ``ENOTDIR`` if a link is in the way.
    """
    if follow or not relative:
        return os.open(os.path.join(root, relative), flags)
    *directories, name = relative.split(b"/")
    current = os.open(root, OPEN_DIRECTORY)
    try:
        for each in directories:
            above = current
            current = os.open(each, OPEN_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
            os.close(above)
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=current)
    finally:
        os.close(current)


class SpecialFile(LakeError):
    """The path is not a regular file; it may be a symbolic link that the policy does not follow."""


class OpenFile:
    """A regular file, open for reading; leaving `with` closes it and checks that it is unchanged.

    Attributes:
        status: the status of the file when the object was made.

    Raises:
        SpecialFile: the path is not a regular file.
        FileChanged: raised at the end of the block, if the file was written to meanwhile.
    """

    __slots__ = ("descriptor", "path", "status")

    def __init__(self, path: bytes, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor
        self.status = os.fstat(descriptor)
        if not stat.S_ISREG(self.status.st_mode):
            os.close(self.descriptor)
            raise SpecialFile("not a regular file")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None and has_changed(self.descriptor, self.status):
                raise changed("read")
        finally:
            os.close(self.descriptor)


class FileOpener:
    """Opens files for reading, such as those that `walk` and `named` yield.

    Between the walk and the reading, another process may replace a directory by a link. Unless the
    policy is to follow links, a file below such a link is not opened. Each thread keeps the
    directory of its latest file open, because the next file is usually in the same directory.

    Args:
        root: the directory of the files. ``None``: links in the directories above a file are
            followed.
    """

    def __init__(self, root: bytes | None, policy: LinkPolicy) -> None:
        follows = policy is LinkPolicy.FOLLOW
        self._flags = _OPEN_FILE if follows else _OPEN_FILE | os.O_NOFOLLOW
        self._lead = None if follows or root is None else os.path.join(root, b"")
        self._mine = threading.local()

    def open(self, path: bytes) -> OpenFile:
        """Open a file.

        Raises:
            OSError: the file cannot be opened; ``ELOOP`` or ``ENOTDIR`` if a link is in the way.
            SpecialFile: the path is not a regular file.
        """
        if self._lead is None:
            return OpenFile(path, os.open(path, self._flags))
        directory, _, name = path.removeprefix(self._lead).rpartition(b"/")
        return OpenFile(path, os.open(name, self._flags, dir_fd=self._hold(self._lead, directory)))

    def read_small(self, files: Sequence[WalkedFile], limit: int) -> list[SmallFile | None]:
        """Return the contents of many small files below the root.

        Returns:
            For each file its contents and time; ``None`` if the file must be opened separately, for
            example because it changed while it was read.
        """
        core, root = native.core(), self._lead
        if core is None or root is None:
            return [None] * len(files)
        found: list[SmallFile | None] = []
        split = (each.relative.rpartition(b"/") for each in files)
        for directory, group in groupby(split, key=itemgetter(0)):
            names = [name for _, _, name in group]
            try:
                found += core.read_files(self._hold(root, directory), names, limit)
            except OSError:
                found += [None] * len(names)
        return found

    def _hold(self, root: bytes, directory: bytes) -> int:
        """Return the descriptor of a directory; keep it open for the next files."""
        held: HeldDirectory | None = getattr(self._mine, "held", None)
        if held is None or held.relative != directory:
            descriptor = open_below(root, directory, OPEN_DIRECTORY)
            held = self._mine.held = HeldDirectory(directory, descriptor)
        return held.descriptor


class HeldDirectory:
    """An open directory, which is closed when no code refers to this object any more."""

    descriptor = -1

    def __init__(self, relative: bytes, descriptor: int) -> None:
        self.relative = relative
        self.descriptor = descriptor

    def __del__(self) -> None:
        """Close the directory, unless an interrupt ended the constructor."""
        if self.descriptor >= 0:
            os.close(self.descriptor)


def _list(directory: _Directory, policy: LinkPolicy) -> Iterator[WalkedFile | _Directory]:
    path, prefix, above = directory
    root = path[: len(path) - len(prefix)]
    follow = policy is LinkPolicy.FOLLOW
    try:
        # Another process may have put a link in the place of a directory that was listed.
        descriptor = open_below(root, prefix, OPEN_DIRECTORY, follow=follow)
        try:
            status = os.fstat(descriptor)
            with os.scandir(descriptor) as listing:
                kinds = [(_kind(each, follow=follow), os.fsencode(each.name)) for each in listing]
        finally:
            os.close(descriptor)
    except OSError as error:
        yield WalkedFile(path, prefix, (error.strerror or str(error)).lower())
        return
    here = (status.st_dev, status.st_ino)
    if here in above:
        yield WalkedFile(path, prefix, "a symbolic link that leads back into itself")
        return
    above |= {here}
    # A directory sorts by its name and a slash, because the names of its files begin with these.
    kinds.sort(key=lambda item: item[1] + b"/" if item[0] == "directory" else item[1])
    parent, lead = os.path.join(path, b""), prefix + b"/" if prefix else b""
    for kind, name in kinds:
        file, relative = parent + name, lead + name
        if kind == "file":
            yield WalkedFile(file, relative)
        elif kind == "directory" and is_own(name):
            yield WalkedFile(file, relative, "is a directory")
        elif kind == "directory":
            yield _Directory(file, relative, above)
        elif policy is not LinkPolicy.SKIP:
            yield WalkedFile(file, relative, f"a {kind}")


def _kind(entry: os.DirEntry[str], *, follow: bool) -> str:
    try:
        if entry.is_file(follow_symlinks=follow):
            return "file"
        if entry.is_dir(follow_symlinks=follow):
            return "directory"
        if entry.is_symlink():
            return "broken symbolic link" if follow else "symbolic link"
    except OSError as error:  # a link to itself, or through a directory that we may not read
        return f"symbolic link that cannot be followed ({(error.strerror or str(error)).lower()})"
    return "special file (pipe, socket or device)"


class AscendingNames:
    """Looks up names in a sorted iterable, which is read only as far as needed."""

    def __init__(self, names: Iterable[bytes]) -> None:
        self._names = iter(names)
        self._next = next(self._names, None)
        self.any = self._next is not None

    def has(self, name: bytes) -> bool:
        """Return whether the iterable has a name; call this with names in ascending order."""
        while self._next is not None and self._next < name:
            self._next = next(self._names, None)
        return self._next == name


def size_of(found: WalkedFile) -> int:
    """Return the size of a file in bytes; 0 if it is unknown."""
    try:
        return os.stat(found.path).st_size
    except OSError:
        return 0
