"""Deleting index files of directories that are gone.

An index is a cache, so a deleted one costs reading the files of its directory once more. Still it
is kept where the directory may only be away: on a disk that is not mounted, for one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from lakecli.worktree.index import root_of

DIRECTORIES: Final = "directories"
"""The directory of the index files, beside the local store."""

_DAY_NS: Final = 24 * 3600 * 10**9

UNUSED_NS: Final = 90 * _DAY_NS
"""How long an index that nobody uses is kept, wherever its directory is."""


def note_use(file: Path, *, now_ns: int) -> None:
    """Record that an index is used, once a day, by the time of its file."""
    with suppress(OSError):
        if file.stat().st_mtime_ns < now_ns - _DAY_NS:
            os.utime(file, ns=(now_ns, now_ns))


def clear_unused(directory: Path, *, now_ns: int) -> None:
    """Delete the index files that nobody has used for 90 days."""
    for file, status in _files(directory):
        if status.st_mtime_ns < now_ns - UNUSED_NS:
            file.unlink(missing_ok=True)


def prune(directory: Path) -> list[bytes]:
    """Delete the index files of directories that are gone for certain, and return these.

    A directory is gone if its file system is mounted and has nothing, or another one, at its path.
    """
    pruned = []
    for file, _ in _files(directory):
        root = root_of(file)
        if root is not None and _is_gone(root, file.stem):
            file.unlink(missing_ok=True)
            pruned.append(root)
    return sorted(pruned)


def _files(directory: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for file in sorted(directory.glob("*.index")):
        with suppress(OSError):
            yield file, file.stat()


def _is_gone(root: bytes, name: str) -> bool:
    """Return whether a path is not the directory of a device and inode any more."""
    device, _, inode = name.partition("-")
    directory = Path(os.fsdecode(root))
    for place in (directory, *directory.parents):
        try:
            status = place.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return False
        is_same = place == directory and f"{status.st_ino:x}" == inode
        return f"{status.st_dev:x}" == device and not is_same
    return False
