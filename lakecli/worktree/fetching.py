"""Fetching the objects of files into a directory of their own, verified, each file by itself.

Names there tell path and object, so the next command uses what a killed one has fetched. Small
files of a local namespace are not worth that. If their directory is missing in the working
directory, they have their final names in a new one beside, which takes its place as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from functools import partial
from itertools import count, groupby
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

from blake3 import blake3

from lakecli.base.identity import h
from lakecli.base.model import Entry
from lakecli.errors import (
    IntegrityError,
    LakeError,
    NotFound,
    PermissionDenied,
    Refused,
    Unreachable,
    UsageError,
)
from lakecli.repository.download import Downloader, DownloadOptions
from lakecli.repository.reading.addresses import is_external, locate
from lakecli.repository.reading.contents import damaged, digest_of, gone
from lakecli.repository.transfer.destination import Destination, FileComparison, NoRoom, translated
from lakecli.repository.transfer.ingest import SMALL
from lakecli.repository.transfer.parallel import FailureBudget
from lakecli.repository.transfer.selection import INCOMING
from lakecli.stores.contract import BucketNotFound, ObjectNotFound
from lakecli.stores.local.files import write_all
from lakecli.stores.uri import is_local
from lakecli.worktree.index import FileState, state_of
from lakecli.worktree.linking import LinkMode, digest_at, hard_link, reflink, unsupported
from lakecli.worktree.names import is_executable, make_executable
from lakecli.worktree.worktree import Worktree

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Expected(Enum):
    """What is at a path, as far as the scan knows."""

    ABSENT = "absent"
    BASE = "base"


class Wanted(NamedTuple):
    """A file to write.

    Attributes:
        path: relative to the working directory.
        entry: its object.
        expected: what it replaces; a state: the file that has it.
    """

    path: bytes
    entry: Entry
    expected: Expected | FileState

    @property
    def name(self) -> bytes:
        """The name of the file while it is not complete."""
        entry = self.entry
        text = f"{entry.physical_address} {entry.size} {entry.checksum} ".encode(
            "utf-8", "surrogateescape"
        )
        return h(text + self.path)[:16].hex().encode("ascii")


class Fetched(NamedTuple):
    """A file that was fetched beside.

    Attributes:
        wanted: the file to write.
        name: its name among the incoming files.
        state: its state, if it is in a directory that can take its place as a whole.
    """

    wanted: Wanted
    name: bytes
    state: FileState | None = None


def directory_of(wanted: Wanted) -> bytes:
    """Return the directory of a file, relative to the working directory."""
    return wanted.path.rpartition(b"/")[0]


def _place_of(wanted: Wanted) -> tuple[bytes, bytes]:
    directory, _, name = wanted.path.rpartition(b"/")
    return directory, name


class _Incoming(NamedTuple):
    """The directory of incoming files, and the names that it had at first."""

    destination: Destination
    descriptor: int
    present: set[str]


class _Beside(NamedTuple):
    """An open directory among the incoming files, which can take its place as a whole."""

    name: bytes
    descriptor: int


class Fetcher:
    """Fetches objects into the directory of incoming files.

    Args:
        worktree: the working directory.
        options: of the downloads.

    Attributes:
        failures: (path, reason) of objects that could not be fetched.
        was_refused: whether the store has refused one of them, or did not answer.
    """

    def __init__(self, worktree: Worktree, options: DownloadOptions) -> None:
        self._worktree = worktree
        self._progress = options.progress
        self._root = os.fsencode(worktree.root)
        self._incoming = os.path.join(self._root, INCOMING)
        self._download = Downloader(worktree.repository, options)
        self._can_reflink = True
        self._is_local = is_local(worktree.repository.store.uri)
        self._budget = FailureBudget()
        self._lock = Lock()
        self.failures: list[tuple[bytes, str]] = []
        self.was_refused = False

    def fetch_all(
        self, waiting: list[Wanted], incoming: Destination, descriptor: int
    ) -> list[Fetched]:
        """Fetch objects beside; return their files, one directory after the other."""
        waiting.sort(key=_place_of)
        place = _Incoming(incoming, descriptor, set(os.listdir(descriptor)))
        if self._is_local:
            return list(self._fetch_local(waiting, place))
        fetched: list[Fetched] = []

        def fetch(wanted: Wanted) -> None:
            if found := self._try(wanted, partial(self._fetch, wanted, place)):
                fetched.append(found)

        self._download.workers.for_each(waiting, fetch)
        fetched.sort(key=lambda each: _place_of(each.wanted))
        return fetched

    def _fetch_local(self, waiting: list[Wanted], place: _Incoming) -> Iterator[Fetched]:
        """Fetch objects of a namespace on this machine; nothing small is worth resuming."""
        numbers = count()
        for directory, files in groupby(waiting, key=directory_of):
            with self._beside(directory, b"new-%d" % next(numbers), place) as beside:
                for wanted in files:
                    entry, name = wanted.entry, b"%d" % next(numbers)
                    digest = digest_of(entry)
                    if digest is not None and self._links(entry):
                        fetch = partial(self._link, wanted, name, digest, place)
                    elif digest is not None and entry.size <= SMALL:
                        fetch = partial(self._copy, wanted, name, digest, place, beside)
                    else:
                        fetch = partial(self._fetch, wanted, place)
                    if found := self._try(wanted, fetch):
                        yield found

    @contextmanager
    def _beside(self, directory: bytes, name: bytes, place: _Incoming) -> Iterator[_Beside | None]:
        """Make a directory beside, if the working directory has none yet of this name."""
        descriptor = None
        if not os.path.lexists(os.path.join(self._root, directory)):
            with suppress(OSError):
                os.mkdir(name, dir_fd=place.descriptor)
                descriptor = os.open(name, _DIRECTORY, dir_fd=place.descriptor)
        try:
            yield None if descriptor is None else _Beside(name, descriptor)
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _fetch(self, wanted: Wanted, place: _Incoming) -> Fetched:
        """Fetch an object beside, unless an earlier command has."""
        entry, name = wanted.entry, wanted.name
        if os.fsdecode(name) in place.present:
            here = place.destination.state_of(
                name, size=entry.size, digest=digest_of(entry), mtime=entry.file_mtime
            )
            if here is FileComparison.SAME:
                self._progress.advance(items=1, size=entry.size)
                return Fetched(wanted, name)
        self._download.fetch(place.destination, name, entry)
        self._progress.advance(items=1)
        return Fetched(wanted, name)

    def _links(self, entry: Entry) -> bool:
        """Return whether the file of an object in a directory is linked, not copied."""
        mode = self._worktree.linking
        if mode is LinkMode.COPY:
            return False
        if mode is LinkMode.HARDLINK:
            return not is_executable(entry)  # the mode is that of the object
        # Copying a small file takes no longer than sharing its blocks.
        return mode is LinkMode.REFLINK or (self._can_reflink and entry.size > SMALL)

    def _link(self, wanted: Wanted, name: bytes, digest: str, place: _Incoming) -> Fetched:
        """Link a file with its object, verified."""
        entry, directory = wanted.entry, place.descriptor
        store, key = locate(self._worktree.repository, entry)
        path = store.local_path(key)
        if path is None:
            raise gone(self._worktree.repository, store, key)
        source = Path(path)
        mode = self._worktree.linking
        with translated(os.path.join(self._incoming, name)):
            if mode is LinkMode.HARDLINK:
                hard_link(source, name, directory)
            elif not reflink(source, name, directory):
                if mode is LinkMode.REFLINK:
                    raise unsupported("reflinks", source)
                self._can_reflink = False
                return self._fetch(wanted, place)
            if digest_at(name, directory) != digest:
                os.unlink(name, dir_fd=directory)
                raise damaged(self._worktree.repository, store, key)
            if mode is not LinkMode.HARDLINK:  # the time is that of the object
                seconds = entry.file_mtime
                with suppress(OverflowError, OSError):
                    os.utime(name, (seconds, seconds), dir_fd=directory)
        self._progress.advance(items=1, size=entry.size)
        return Fetched(wanted, name)

    def _copy(
        self, wanted: Wanted, name: bytes, digest: str, place: _Incoming, beside: _Beside | None
    ) -> Fetched:
        """Copy a small object of a local namespace beside, verified."""
        entry = wanted.entry
        store, key = locate(self._worktree.repository, entry)
        try:
            data = store.get(key, start=0, length=entry.size + 1)
        except ObjectNotFound as error:
            raise gone(self._worktree.repository, store, key) from error
        if len(data) != entry.size or blake3(data).hexdigest() != digest:
            raise damaged(self._worktree.repository, store, key)
        seconds = entry.file_mtime
        with translated(os.path.join(self._incoming, name)):
            descriptor = None
            if beside is not None:
                final = wanted.path.rpartition(b"/")[2]
                # A disk may refuse the name, or take it for that of another file.
                with suppress(OSError):
                    descriptor = os.open(final, _WRITE | os.O_EXCL, 0o666, dir_fd=beside.descriptor)
                    name = beside.name + b"/" + final
            is_beside = descriptor is not None
            if descriptor is None:
                descriptor = os.open(name, _WRITE | os.O_TRUNC, 0o666, dir_fd=place.descriptor)
            try:
                write_all(descriptor, data)
                with suppress(OverflowError, OSError):  # a time this disk cannot keep
                    os.utime(descriptor, (seconds, seconds))
                if is_executable(entry):
                    make_executable(descriptor)
                state = state_of(os.fstat(descriptor)) if is_beside else None
            except BaseException:
                os.unlink(name, dir_fd=place.descriptor)
                raise
            finally:
                os.close(descriptor)
        self._progress.advance(items=1, size=entry.size)
        return Fetched(wanted, name, state)

    def _try(self, wanted: Wanted, fetch: Callable[[], Fetched]) -> Fetched | None:
        """Fetch an object; record its failure, if only this one may have failed."""
        entry = wanted.entry
        try:
            fetched = fetch()
        except NoRoom:
            raise
        except (NotFound, IntegrityError, UsageError, Refused) as error:
            if isinstance(error, BucketNotFound) and not is_external(entry):
                raise
            self._fail(wanted.path, error)
            return None
        except (PermissionDenied, Unreachable) as error:
            self.was_refused = True
            self._fail(wanted.path, error)
            self._budget.failed(error)
            return None
        self._budget.succeeded()
        return fetched

    def _fail(self, path: bytes, error: LakeError) -> None:
        with self._lock:
            self.failures.append((path, error.message))
