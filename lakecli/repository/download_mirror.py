"""Downloading a directory, and deleting from the disk what the ref lacks."""

from __future__ import annotations

import os
import stat
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from lakecli.base.model import Entry
from lakecli.base.uri import as_directory
from lakecli.errors import LakeError, Refused
from lakecli.repository.core.lake import Repository
from lakecli.repository.core.own_files import is_own
from lakecli.repository.core.places import real_path, remembered
from lakecli.repository.core.view import View, open_view
from lakecli.repository.core.walk import LinkPolicy, walk
from lakecli.repository.download import DownloadOptions, DownloadReport, TreeDownload
from lakecli.repository.download_plan import TreePlan
from lakecli.repository.transfer.destination import Destination, UnsafeName
from lakecli.repository.transfer.plan import Action, Step
from lakecli.repository.transfer.readers import FileState
from lakecli.stores.uri import is_local


class MirrorOptions(NamedTuple):
    """Which files stay.

    Attributes:
        keeps: tells of a file, by its name below the directory, whether it is never deleted.
        max_delete: refuse to delete more files than this.
    """

    keeps: Callable[[bytes], bool]
    max_delete: int | None = None


def download_mirror(
    repository: Repository,
    ref: str,
    prefix: bytes,
    *,
    target: Path,
    options: DownloadOptions,
    mirror: MirrorOptions,
) -> DownloadReport:
    """Download as `download_tree` does, then delete the other files of the directory.

    If an object fails, nothing is deleted. A file that is in the way of an object is deleted before
    that object is downloaded, after all others. Files that the selection leaves out stay, and so do
    files that change meanwhile, special files, and whatever is outside the directory: symbolic
    links are deleted themselves and never followed.

    Args:
        repository: the repository.
        ref: a ref expression.
        prefix: the directory of the ref.
        target: the directory to write to.
        options: of the download.
        mirror: which files stay.

    Raises:
        NotFound: the ref does not exist, or there is nothing below the prefix.
        Refused: too many files would be deleted, the prefix has no object, or the directory holds
            files that a repository needs; nothing is written.
        UsageError: `target` cannot be a directory.
    """
    below = as_directory(prefix)
    _check_unneeded(repository, target)
    with open_view(repository, ref) as view, Destination(os.fsencode(target)) as destination:
        surplus = _Surplus.of(view, below, target, options, mirror)
        count = len(surplus.files)
        if mirror.max_delete is not None and count > mirror.max_delete:
            raise Refused(
                f"{count:,} files would be deleted, more than {mirror.max_delete:,}",
                hint="list them: --dry-run",
            )
        download = _Mirror(repository, options, surplus, len(below))
        download.report.failures += surplus.failures
        download.fetch_all(destination, download.records(view, ref, below), len(below))
        if not download.report.failures:
            download.delete(destination, view, below)
    download.report.failures.sort()
    return download.report


def plan_download_mirror(
    repository: Repository,
    ref: str,
    prefix: bytes,
    *,
    target: Path,
    options: DownloadOptions,
    mirror: MirrorOptions,
) -> Iterator[Step]:
    """Yield what `download_mirror` would do; the deletions come last.

    Raises:
        NotFound: the ref does not exist, or there is nothing below the prefix.
        Refused: the prefix has no object, or the directory holds files that a repository needs.
        UsageError: `target` cannot be a directory.
    """
    below = as_directory(prefix)
    _check_unneeded(repository, target)
    with open_view(repository, ref) as view, Destination(os.fsencode(target)) as destination:
        surplus = _Surplus.of(view, below, target, options, mirror)
        plan = _MirrorPlan(repository, options, surplus, len(below))
        failed = bool(surplus.failures)
        for path, why in surplus.failures:
            yield Step(Action.FAILED, path, error=why)
        for step in plan.steps(destination, plan.records(view, ref, below), len(below)):
            failed = failed or step.action is Action.FAILED
            yield step
        if not failed:
            for name, seen in surplus.files:
                file = target / os.fsdecode(name)
                yield Step(Action.DELETED, os.fsencode(file), seen.size)


class _Surplus(NamedTuple):
    """The files of a directory that the ref lacks.

    Attributes:
        files: names below the directory, ascending, and what was seen there.
        failures: directories that cannot be read, and why.
    """

    files: list[tuple[bytes, FileState]]
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
        objects = _Objects(name for name in names if name and not name.endswith(b"/"))
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
                found.files.append((name, FileState.of(status)))
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


class _Objects:
    """The names of objects, which are asked for in ascending order."""

    def __init__(self, names: Iterable[bytes]) -> None:
        self._names = iter(names)
        self._next = next(self._names, None)
        self.any = self._next is not None

    def has(self, name: bytes) -> bool:
        """Tell whether an object has this name."""
        while self._next is not None and self._next < name:
            self._next = next(self._names, None)
        return self._next == name


class _Mirror(TreeDownload):
    """A recursive download; objects with a surplus file in their way are left for later."""

    def __init__(
        self, repository: Repository, options: DownloadOptions, surplus: _Surplus, below: int
    ) -> None:
        super().__init__(repository, options)
        self._surplus = surplus
        self._below = below
        self._blocked: list[bytes] = []
        self._is_cleared = False

    def _fail(self, path: bytes, error: LakeError) -> None:
        is_blocked = isinstance(error, UnsafeName) and self._surplus.blocks(path[self._below :])
        if is_blocked and not self._is_cleared:
            self._blocked.append(path)
        else:
            super()._fail(path, error)

    def delete(self, destination: Destination, view: View, below: bytes) -> None:
        """Delete the surplus files, then download the objects that they were in the way of."""
        for name, seen in self._surplus.files:
            try:
                self.report.deleted += destination.delete(
                    name, seen=seen, keeps=lambda each: view.find(below + each + b"/") is not None
                )
            except LakeError as error:
                self.report.failures.append((below + name, error.message))
        self._is_cleared = True
        values = ((path, view.find(path)) for path in sorted(self._blocked))
        records = ((path, value) for path, value in values if value is not None)
        self.fetch_all(destination, records, len(below))


class _MirrorPlan(TreePlan):
    """A plan in which surplus files are in nobody's way, because they will be deleted."""

    def __init__(
        self,
        repository: Repository,
        options: DownloadOptions,
        surplus: _Surplus,
        below: int,
    ) -> None:
        super().__init__(repository, options)
        self._surplus = surplus
        self._below = below

    def _refuse(self, path: bytes, entry: Entry, error: UnsafeName) -> None:
        if self._surplus.blocks(path[self._below :]):
            self._steps.append(Step(Action.NEW, path, entry.size))
        else:
            super()._refuse(path, entry, error)


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
