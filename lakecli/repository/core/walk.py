"""Walk a directory that is to be uploaded."""

from __future__ import annotations

import os
import stat
from enum import StrEnum

from lakecli.errors import UsageError
from lakecli.named_tuple import NamedTuple
from lakecli.repository.core.own_files import is_own
from lakecli.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path


class LinkPolicy(StrEnum):
    """How to treat symbolic links and special files below an uploaded directory."""

    FAIL = "fail"
    FOLLOW = "follow"
    SKIP = "skip"


class Found(NamedTuple):
    """A file below the root: its path on disk, its relative name, and why it cannot be read."""

    path: bytes
    relative: bytes
    problem: str | None = None


class _Directory(NamedTuple):
    path: bytes
    relative: bytes
    above: frozenset[tuple[int, int]]
    """Device and inode of each directory above this one."""


def walk(root: bytes, policy: LinkPolicy) -> Iterator[Found]:
    """Yield every regular file below a directory, in byte order of the relative names.

    Symbolic links and special files are yielded with a problem, left out, or followed, as the
    policy says; sockets, pipes and devices are never followed. A directory that cannot be read is a
    problem, and so is a link that leads to one of its own parents. A directory whose name is not
    that of data (`is_own`) is yielded like a file, and not entered.
    """
    # A stack of what remains to be yielded, since directories may nest deeper than Python recurses.
    waiting: list[Iterator[Found | _Directory]] = [iter([_Directory(root, b"", frozenset())])]
    while waiting:
        item = next(waiting[-1], None)
        if item is None:
            waiting.pop()
        elif isinstance(item, Found):
            yield item
        else:
            waiting.append(_list(item, policy))


def named(root: bytes, names: Iterable[bytes], policy: LinkPolicy) -> Iterator[Found]:
    """Yield the files of some relative names below a directory, in the order of the names.

    A name that is no file, or leaves the directory, is yielded with a problem. Symbolic links and
    special files are treated as by `walk`, also those above a file.
    """
    for name in names:
        path = os.path.join(root, name)
        problem, is_special = _problem_of(root, name, follow=policy is LinkPolicy.FOLLOW)
        if not (is_special and policy is LinkPolicy.SKIP):
            yield Found(path, name, problem)


def _problem_of(root: bytes, name: bytes, *, follow: bool) -> tuple[str | None, bool]:
    """Return why a name cannot be uploaded, and whether that is a matter of the policy."""
    parts = name.split(b"/")
    if any(part in (b"", b".", b"..") for part in parts):
        return "not a relative name without '.' and '..'", False
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


def by_own_names(sources: Sequence[Path]) -> list[Found]:
    """Return files with their own names, in the order of these.

    Raises:
        UsageError: two have the same name.
    """
    found: dict[bytes, Found] = {}
    for source in sources:
        name = os.fsencode(source.name)
        path = os.path.realpath(os.fsencode(source))
        if name in found:
            raise UsageError(
                f"two files have the name {source.name!r}", hint="upload them one by one"
            )
        problem = "is a directory; upload it by itself with -r" if source.is_dir() else None
        found[name] = Found(path, name, problem)
    return [found[name] for name in sorted(found)]


def _list(directory: _Directory, policy: LinkPolicy) -> Iterator[Found | _Directory]:
    path, prefix, above = directory
    try:
        status = os.stat(path)
        with os.scandir(path) as listing:
            entries = list(listing)
    except OSError as error:
        yield Found(path, prefix, (error.strerror or str(error)).lower())
        return
    here = (status.st_dev, status.st_ino)
    if here in above:
        yield Found(path, prefix, "a symbolic link that leads back into itself")
        return
    above |= {here}
    follow = policy is LinkPolicy.FOLLOW
    kinds = [(_kind(entry, follow=follow), entry) for entry in entries]
    # A directory sorts as its contents do, by the name with the slash.
    kinds.sort(key=lambda item: item[1].name + b"/" if item[0] == "directory" else item[1].name)
    lead = prefix + b"/" if prefix else b""
    for kind, entry in kinds:
        if kind == "file":
            yield Found(entry.path, lead + entry.name)
        elif kind == "directory" and is_own(entry.name):
            yield Found(entry.path, lead + entry.name, "is a directory")
        elif kind == "directory":
            yield _Directory(entry.path, lead + entry.name, above)
        elif policy is not LinkPolicy.SKIP:
            yield Found(entry.path, lead + entry.name, f"a {kind}")


def _kind(entry: os.DirEntry[bytes], *, follow: bool) -> str:
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


def size_of(found: Found) -> int:
    """Return the size of a file in bytes; 0 if it is unknown."""
    try:
        return os.stat(found.path).st_size
    except OSError:
        return 0
