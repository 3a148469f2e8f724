"""The contents of a disk after a power cut, computed from the calls of a program.

Until it is synced, a file may lose what was written to it, and a directory the names that were
given in it. `Disk` notes who writes, names and syncs below a directory, by inode, in this process.
`open_below` lists what this process has open there.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakecli.stores.local import files

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


class Disk:
    """The disk below a directory, whose present state counts as durable.

    Attributes:
        root: of what is looked at.
        written: inodes of files that hold bytes which no sync has made durable.
        named: directories, by inode, with the names given in them since their last sync.
        log: the calls in their order, for messages of failing tests.
    """

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.written: set[int] = set()
        self.named: dict[int, set[bytes]] = {}
        self.log: list[str] = []
        self._real = {name: getattr(os, name) for name in _CALLS}
        for name in _CALLS:
            monkeypatch.setattr(os, name, getattr(self, f"_{name}"))
        real_sync: Callable[[int], None] = files.sync_file_system

        def sync_all(descriptor: int) -> None:
            real_sync(descriptor)
            self.log.append("syncfs")
            self.written.clear()
            self.named.clear()

        monkeypatch.setattr(files, "sync_file_system", sync_all)

    def losses(self) -> list[str]:
        """Return the visible objects that a power cut could lose."""
        lost = []
        for place, _, names in os.walk(self.root):
            if place.endswith("_lakecli/tmp"):
                continue
            inode = Path(place).stat().st_ino
            pending = self.named.get(inode, set())
            lost += [f"the name {place}/{os.fsdecode(name)}" for name in sorted(pending)]
            for name in names:
                path = f"{place}/{name}"
                if Path(path).stat().st_ino in self.written:
                    lost.append(f"the contents of {path}")
        return [each for each in lost if "/_lakecli/tmp" not in each]

    def check(self, when: str) -> None:
        """Fail if a power cut now could lose an object."""
        losses = self.losses()
        assert not losses, (when, losses, self.log[-30:])

    def _name(self, name: Any, directory: int | None) -> None:
        path = os.fsencode(name)
        if directory is None:
            whole = Path(os.fsdecode(path)).absolute()
            inode, name = whole.parent.stat().st_ino, os.fsencode(whole.name)
        else:
            inode = os.fstat(directory).st_ino
            assert b"/" not in path or path.count(b"/") == 1
            if b"/" in path:  # a file in a staging directory
                above, path = path.split(b"/")
                inode = os.stat(above, dir_fd=directory).st_ino
            name = path
        self.named.setdefault(inode, set()).add(bytes(name))
        self.log.append(f"name {name!r} in {inode}")

    def _open(self, path: Any, flags: int, *args: Any, dir_fd: int | None = None) -> int:
        descriptor: int = self._real["open"](path, flags, *args, dir_fd=dir_fd)
        if flags & os.O_EXCL:
            self._name(path, dir_fd)
        return descriptor

    def _write(self, descriptor: int, data: Any) -> int:
        self.written.add(os.fstat(descriptor).st_ino)
        self.log.append(f"write {os.fstat(descriptor).st_ino}")
        count: int = self._real["write"](descriptor, data)
        return count

    def _copy_file_range(self, source: int, target: int, *args: Any) -> int:
        self.written.add(os.fstat(target).st_ino)
        count: int = self._real["copy_file_range"](source, target, *args)
        return count

    def _fsync(self, descriptor: int) -> None:
        self._real["fsync"](descriptor)
        inode = os.fstat(descriptor).st_ino
        self.log.append(f"fsync {inode}")
        self.written.discard(inode)
        self.named.pop(inode, None)

    def _mkdir(self, path: Any, *args: Any, dir_fd: int | None = None) -> None:
        self._real["mkdir"](path, *args, dir_fd=dir_fd)
        self._name(path, dir_fd)

    def _rename(self, source: Any, target: Any, **where: Any) -> None:
        self._real["rename"](source, target, **where)
        self._name(target, where.get("dst_dir_fd"))

    def _link(self, source: Any, target: Any, **where: Any) -> None:
        self._real["link"](source, target, **where)
        self._name(target, where.get("dst_dir_fd"))


def open_below(root: Path) -> list[str]:
    """Return what this process has open at or below a directory: a path for each descriptor.

    Descriptors of anything else are not counted: other tests' threads open and close theirs. Linux
    also names what was deleted meanwhile; elsewhere only what still has a name is found.
    """
    paths = {}
    for path in (root, *root.rglob("*")):
        status = path.lstat()
        paths[status.st_dev, status.st_ino] = os.fspath(path)
    found = []
    for descriptor in Path("/dev/fd").iterdir():
        with suppress(OSError):
            status = os.fstat(int(descriptor.name))
            path_of = paths.get((status.st_dev, status.st_ino), "")
            if not path_of and descriptor.is_symlink():
                path_of = os.fspath(descriptor.readlink())
            found.append(path_of)
    return sorted(path for path in found if f"{path}/".startswith(f"{root}/"))


_CALLS = ("open", "write", "copy_file_range", "fsync", "mkdir", "rename", "link")


def after_each_commit(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> list[int]:
    """Call `act` after each transaction of a local store; return the growing list of results."""
    from lakecli.kv.lmdb_environment import LmdbEnvironment

    real = LmdbEnvironment.commit
    commits: list[int] = []

    def commit(self: LmdbEnvironment, txn: Any) -> None:
        real(self, txn)
        commits.append(len(commits))
        act()

    monkeypatch.setattr(LmdbEnvironment, "commit", commit)
    return commits


def limit_databases(monkeypatch: pytest.MonkeyPatch, *, pages: int) -> None:
    """Let each SQLite database that is opened from now on have only so many pages."""
    connect = sqlite3.connect

    def limited(*args: Any, **options: Any) -> sqlite3.Connection:
        database: sqlite3.Connection = connect(*args, **options)
        database.execute(f"PRAGMA max_page_count = {pages}")
        return database

    monkeypatch.setattr(sqlite3, "connect", limited)
