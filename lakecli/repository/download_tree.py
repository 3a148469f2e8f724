"""Download all objects below a directory, or only the objects that a list names.

`_TreeDownload` compares each object with its file, and decides what to do with the path. In a dry
run, the decision is only listed. With `deletes`, files that have no object at the ref are deleted
at the end.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter, itemgetter
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

from lakecli import errors
from lakecli.base.model import Entry
from lakecli.base.uri import as_directory
from lakecli.committed.values import decode_entry
from lakecli.repository.contract import Repository
from lakecli.repository.download import DEFAULTS, Downloader, DownloadOptions
from lakecli.repository.reading.addresses import is_external, real_path, remembered
from lakecli.repository.reading.contents import content_digest
from lakecli.repository.reading.view import View, no_such_path, open_view
from lakecli.repository.transfer import destination as destinations
from lakecli.repository.transfer.destination import Destination, FileStamp
from lakecli.repository.transfer.ignore_patterns import is_own
from lakecli.repository.transfer.parallel import FailureBudget
from lakecli.repository.transfer.plan import Listed, PathAction, PathStep, TransferReport
from lakecli.repository.transfer.walk import AscendingNames, LinkPolicy, walk
from lakecli.stores.contract import BucketNotFound
from lakecli.stores.streams import batches
from lakecli.stores.uri import is_local

_OF_ONE_OBJECT: Final = (errors.NotFound, errors.IntegrityError, errors.UsageError, errors.Refused)

LOOK_AHEAD: Final = 1_024
"""Number of objects that are reported to the progress together."""


@dataclass(slots=True)
class DownloadReport(TransferReport):
    """The result of a recursive download; `size` counts the bytes of the written objects."""

    downloaded: int = 0


def download_tree(
    repository: Repository,
    ref: str,
    prefix: bytes,
    *,
    target: Path,
    options: DownloadOptions = DEFAULTS,
    names: Sequence[bytes] | None = None,
    listed: Listed | None = None,
) -> DownloadReport:
    """Download every object below a directory; report objects that fail, and download the rest.

    A directory marker (an empty object whose path ends in a slash) becomes a directory. Nothing is
    written outside `target`, or into the repository's namespace, whatever the paths of the objects
    are and whatever symbolic links are in `target`.

    With `options.deletes`, files of the directory that have no object are deleted afterwards,
    unless an object fails. If a file is in the way of an object, the file is deleted first, and the
    object is downloaded after all others. These files are kept: files that the selection leaves
    out, files that change meanwhile, special files, and everything outside the directory. A
    symbolic link is deleted, not followed.

    Args:
        repository: the repository.
        ref: a ref expression.
        prefix: the directory.
        target: the directory to which files are written.
        options: how to download.
        names: names of objects relative to the prefix; ``None`` for all.
        listed: if given, the call is a dry run: nothing is written, the report stays empty, and
            `listed` is called with each step that would be taken, in path order, deletions last. A
            file that has the size of its object is read and compared.

    Raises:
        NotFound: the ref does not exist, or there is nothing below the prefix.
        Refused: too many files would be deleted; or files would be deleted although the prefix has
            no object; or the directory contains files that a repository needs. Nothing is written.
        UsageError: `target` cannot be a directory, or is in the namespace of the repository.
    """
    if options.deletes is not None:
        _check_unneeded(repository, target)
    below = as_directory(prefix)
    place = Destination(os.fsencode(target), namespace=repository.store.uri)
    with open_view(repository, ref) as view, place as destination:
        surplus = _Surplus.of(view, below, target, options)
        count = len(surplus.files)
        if listed is None and options.max_delete is not None and count > options.max_delete:
            what = f"{count:,} files would be deleted, more than {options.max_delete:,}"
            raise errors.Refused(what, hint="list them: `listed=LIST.append`")
        download = _TreeDownload(view, below, destination, surplus, options=options, listed=listed)
        return download.run(names, target)


class _TreeDownload:
    """Downloads objects and deletes surplus files; in a dry run, only lists these steps.

    Args:
        below: the directory whose objects are downloaded; their names are relative to it.
        surplus: the files that are deleted.
        listed: given in a dry run, which changes nothing.
    """

    def __init__(
        self,
        view: View,
        below: bytes,
        destination: Destination,
        surplus: _Surplus,
        *,
        options: DownloadOptions,
        listed: Listed | None,
    ) -> None:
        self._view = view
        self._below = below
        self._destination = destination
        self._options = options
        self._listed = listed
        self._steps: list[PathStep] = []
        """Steps that a dry run has not listed yet."""
        self._report = DownloadReport()
        self._download = Downloader(view.repository, options)
        self._workers = self._download.workers
        self._surplus = surplus
        self._waiting: list[tuple[bytes, Entry]] = []
        """Objects whose paths are blocked by surplus files."""
        self._budget = FailureBudget()
        self._has_failed = False
        self._lock = Lock()

    def run(self, names: Sequence[bytes] | None, target: Path) -> DownloadReport:
        """Download all objects, or those with the given names, then delete the surplus files.

        Nothing is deleted if anything has failed. Objects whose paths are blocked by surplus files
        are downloaded last.

        Args:
            target: the directory of the surplus files.

        Raises:
            NotFound: there is nothing below the directory.
        """
        for path, reason in self._surplus.failures:
            self._fail(path, reason)
        records = self._records() if names is None else self._named(names)
        if self._listed is None:
            self._workers.for_each(self._selected(records), self._one)
        else:
            for batch in batches(records, LOOK_AHEAD):
                self._workers.for_each(self._selected(batch), self._one)
                self._list_steps(self._listed)
        if self._surplus.files and not self._has_failed:
            self._delete(target)
        if self._listed is not None:
            self._list_steps(self._listed)
        self._report.failures.sort()
        return self._report

    def _list_steps(self, listed: Listed) -> None:
        """List the steps of a dry run since the last call, in path order."""
        for step in sorted(self._steps, key=attrgetter("path")):
            listed(step)
        self._steps.clear()

    def _records(self) -> Iterator[tuple[bytes, bytes]]:
        records = self._view.scan(prefix=self._below)
        first = next(records, None)
        if first is None:
            raise self._no_such(self._below)
        return chain([first], records)

    def _named(self, names: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        for name in names:
            path = self._below + name
            value = self._view.find(path)
            if value is None:
                self._fail(path, self._no_such(path).message)
            else:
                yield path, value

    def _no_such(self, path: bytes) -> errors.NotFound:
        return no_such_path(self._view.repository, self._view.name, path)

    def _delete(self, target: Path) -> None:
        """Delete unchanged files and emptied directories; then download the blocked objects."""

        def keeps(directory: bytes) -> bool:
            return self._view.find(self._below + directory + b"/") is not None

        for name, seen in self._surplus.files:
            if self._listed is not None:
                path = os.fsencode(target / os.fsdecode(name))
                self._steps.append(PathStep(PathAction.DELETED, path, seen.size))
                continue
            try:
                self._report.deleted += self._destination.delete(name, seen=seen, keeps=keeps)
            except errors.LakeError as error:
                self._report.failures.append((self._below + name, error.message))
        self._surplus = _Surplus([], [])
        self._workers.for_each(sorted(self._waiting, key=itemgetter(0)), self._one)

    def _selected(self, records: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, Entry]]:
        """Yield the selected objects; report their number and size to the progress in batches."""
        selection, below = self._options.selection, len(self._below)
        for batch in batches(records, LOOK_AHEAD):
            selected = []
            for path, value in batch:
                if is_own(path[below:]):
                    self._record(PathStep(PathAction.EXCLUDED, path))
                    continue
                try:
                    entry = decode_entry(value)
                except errors.IntegrityError as error:
                    self._fail(path, error.message)
                    continue
                if selection.takes(path[below:]):
                    selected.append((path, entry))
                else:
                    self._record(PathStep(PathAction.EXCLUDED, path, entry.size))
            size = sum(entry.size for _, entry in selected)
            self._options.progress.expect(items=len(selected), size=size)
            yield from selected

    def _one(self, item: tuple[bytes, Entry]) -> None:
        """Download or list one object; record an error that concerns only this object."""
        path, entry = item
        name = path[len(self._below) :]
        try:
            if destinations.is_marker(name, entry.size):
                if name and self._listed is None:
                    self._destination.make_directory(name[:-1])
            else:
                self._write_unless_there(path, name, entry)
        except destinations.ENDS_ALL:
            raise
        except (destinations.UnwritableFile, *_OF_ONE_OBJECT) as error:
            # Without the namespace's own bucket, every object fails; another bucket affects few.
            if isinstance(error, BucketNotFound) and not is_external(entry):
                raise
            if isinstance(error, destinations.UnsafeName) and self._surplus.blocks(name):
                self._put_off(item)
            else:
                self._fail(path, error.message)
        except (errors.PermissionDenied, errors.Unreachable) as error:
            self._fail(path, error.message)
            if self._budget.failed(error):
                raise
        else:
            self._options.progress.advance(items=1)

    def _write_unless_there(self, path: bytes, name: bytes, entry: Entry) -> None:
        action = self._destination.state_of(
            name,
            size=entry.size,
            digest=content_digest(entry),
            mtime=entry.file_mtime if self._listed is None else None,
            check=self._workers.check,
        )
        if action is not PathAction.UNCHANGED:
            if self._listed is None:
                self._download.fetch(self._destination, name, entry)
            self._budget.succeeded()
        self._record(PathStep(action, path, entry.size))

    def _put_off(self, item: tuple[bytes, Entry]) -> None:
        """Postpone an object until the file in its way has been deleted."""
        if self._listed is None:
            self._waiting.append(item)
        else:
            self._record(PathStep(PathAction.NEW, item[0], item[1].size))

    def _fail(self, path: bytes, reason: str) -> None:
        self._has_failed = True
        self._record(PathStep(PathAction.FAILED, path, error=reason))

    def _record(self, step: PathStep) -> None:
        """Count what was done with an object; in a dry run, list what would be done."""
        report = self._report
        with self._lock:
            if self._listed is not None:
                self._steps.append(step)
            elif step.action is PathAction.UNCHANGED:
                self._options.progress.advance(size=step.size)
                report.unchanged += 1
            elif step.action is PathAction.FAILED:
                report.failures.append((step.path, step.error))
            elif step.action is not PathAction.EXCLUDED:
                report.downloaded += 1
                report.size += step.size
            elif is_own(step.path[len(self._below) :]):
                report.left_out.append(step.path)
            else:
                report.excluded += 1


class _Surplus(NamedTuple):
    """The files of a directory that have no object at the ref.

    Attributes:
        files: names relative to the directory, ascending, and the stamp of each file.
        failures: directories that cannot be read, and why.
    """

    files: list[tuple[bytes, FileStamp]]
    failures: list[tuple[bytes, str]]

    @classmethod
    def of(cls, view: View, below: bytes, target: Path, options: DownloadOptions) -> _Surplus:
        """Return the files of a directory that have no object below a prefix of a view.

        Raises:
            Refused: everything would be deleted.
        """
        found = cls([], [])
        if options.deletes is None or not target.is_dir():
            return found
        names = (path[len(below) :] for path, _ in view.scan(prefix=below))
        objects = AscendingNames(name for name in names if name and not name.endswith(b"/"))
        for each in walk(os.fsencode(target), LinkPolicy.FAIL):
            name = each.relative
            if is_own(name) or objects.has(name) or not options.deletes(name):
                continue
            if not options.selection.takes(name):
                continue
            with suppress(FileNotFoundError):
                status = os.lstat(each.path)
                if stat.S_ISDIR(status.st_mode):
                    found.failures.append((each.path, each.problem or "cannot be read"))
                elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                    found.files.append((name, FileStamp.of(status)))
        if found.files and not objects.any:
            raise errors.Refused(
                f"there is no object below {view.repository.uri}/{view.name}/{os.fsdecode(below)}, "
                "so everything would be deleted",
                hint=f"if that is meant: rm -r {target}",
            )
        return found

    def blocks(self, name: bytes) -> bool:
        """Return whether one of the files is in the way of an object: above or below its path."""
        above = (name[:at] for at, byte in enumerate(name) if byte == ord("/"))
        is_below = self._has(name + b"/", name + b"0")  # "0" is the byte after the slash
        return is_below or any(self._has(each, each) for each in above)

    def _has(self, first: bytes, last: bytes) -> bool:
        at = bisect_left(self.files, first, key=itemgetter(0))
        return any(name == first or name < last for name, _ in self.files[at : at + 1])


def _check_unneeded(repository: Repository, target: Path) -> None:
    """Raise an error if deletions in a directory could hit files that a repository needs.

    Raises:
        Refused: the directory contains, or is in, the storage namespace of a repository of this
            machine, a directory from which a repository has imported in place, or lakecli's home.
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
            raise errors.Refused(
                f"{target} holds or lies in {what}, from which nothing may be deleted: {place}",
                hint="download to another directory",
            )
