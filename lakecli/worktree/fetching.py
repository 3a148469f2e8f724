"""Fetching the objects of files into a directory of their own, verified, each file by itself.

Names there tell path and object, so the next command uses what a killed one has fetched from a
bucket. From a namespace that is a directory, small files are copied, and others are linked where
that works: neither is worth resuming.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from functools import partial
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
from lakecli.worktree.index import FileState
from lakecli.worktree.linking import LinkMode, digest_at, hard_link, reflink, unsupported
from lakecli.worktree.names import is_executable
from lakecli.worktree.worktree import Worktree

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Expected(Enum):
    """What is at a path, as far as the scan knows."""

    ABSENT = "absent"
    BASE = "base"


class WantedFile(NamedTuple):
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


def directory_of(wanted: WantedFile) -> bytes:
    """Return the directory of a file, relative to the working directory."""
    return wanted.path.rpartition(b"/")[0]


def _place_of(wanted: WantedFile) -> tuple[bytes, bytes]:
    directory, _, name = wanted.path.rpartition(b"/")
    return directory, name


class _Incoming(NamedTuple):
    """The directory of incoming files, and the names that it had at first."""

    destination: Destination
    descriptor: int
    present: set[str]

    def remove(self, name: bytes) -> None:
        """Remove what a killed command has left under a name; it may be a link to an object."""
        if os.fsdecode(name) in self.present:
            os.unlink(name, dir_fd=self.descriptor)


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
        self, waiting: list[WantedFile], incoming: Destination, descriptor: int
    ) -> list[WantedFile]:
        """Fetch objects beside; return those that were fetched, one directory after the other."""
        waiting.sort(key=_place_of)
        place = _Incoming(incoming, descriptor, set(os.listdir(descriptor)))
        fetched: list[WantedFile] = []

        def fetch(wanted: WantedFile) -> None:
            if self._try(wanted, partial(self._method(wanted.entry), wanted, place)):
                fetched.append(wanted)

        if self._is_local:
            for each in waiting:
                fetch(each)
            return fetched
        self._download.workers.for_each(waiting, fetch)
        fetched.sort(key=_place_of)
        return fetched

    def _method(self, entry: Entry) -> Callable[[WantedFile, _Incoming], None]:
        """Return how an object is fetched."""
        if not self._is_local or digest_of(entry) is None:
            return self._fetch
        if self._links(entry):
            return self._link
        return self._copy if entry.size <= SMALL else self._fetch

    def _fetch(self, wanted: WantedFile, place: _Incoming) -> None:
        """Fetch an object beside, unless an earlier command has."""
        entry, name = wanted.entry, wanted.name
        if os.fsdecode(name) in place.present:
            here = place.destination.state_of(
                name, size=entry.size, digest=digest_of(entry), mtime=entry.file_mtime
            )
            if here is FileComparison.SAME:
                self._progress.advance(items=1, size=entry.size)
                return
        self._download.fetch(place.destination, name, entry)
        self._progress.advance(items=1)

    def _links(self, entry: Entry) -> bool:
        """Return whether the file of an object in a directory is linked, not copied."""
        mode = self._worktree.linking
        if mode is LinkMode.COPY:
            return False
        if mode is LinkMode.HARDLINK:
            return not is_executable(entry)  # the mode is that of the object
        # Copying a small file takes no longer than sharing its blocks.
        return mode is LinkMode.REFLINK or (self._can_reflink and entry.size > SMALL)

    def _link(self, wanted: WantedFile, place: _Incoming) -> None:
        """Link a file with its object, verified."""
        entry, name, directory = wanted.entry, wanted.name, place.descriptor
        store, key = locate(self._worktree.repository, entry)
        path = store.local_path(key)
        if path is None:
            raise gone(self._worktree.repository, store, key)
        source = Path(path)
        mode = self._worktree.linking
        with translated(os.path.join(self._incoming, name)):
            place.remove(name)
            if mode is LinkMode.HARDLINK:
                hard_link(source, name, directory)
            elif not reflink(source, name, directory):
                if mode is LinkMode.REFLINK:
                    raise unsupported("reflinks", source)
                self._can_reflink = False
                self._fetch(wanted, place)
                return
            if digest_at(name, directory) != digest_of(entry):
                os.unlink(name, dir_fd=directory)
                raise damaged(self._worktree.repository, store, key)
            if mode is not LinkMode.HARDLINK:  # the time is that of the object
                seconds = entry.file_mtime
                with suppress(OverflowError, OSError):
                    os.utime(name, (seconds, seconds), dir_fd=directory)
        self._progress.advance(items=1, size=entry.size)

    def _copy(self, wanted: WantedFile, place: _Incoming) -> None:
        """Copy a small object of a local namespace beside, verified."""
        entry, name = wanted.entry, wanted.name
        store, key = locate(self._worktree.repository, entry)
        try:
            data = store.get(key, start=0, length=entry.size + 1)
        except ObjectNotFound as error:
            raise gone(self._worktree.repository, store, key) from error
        if len(data) != entry.size or blake3(data).hexdigest() != digest_of(entry):
            raise damaged(self._worktree.repository, store, key)
        seconds = entry.file_mtime
        with translated(os.path.join(self._incoming, name)):
            place.remove(name)
            descriptor = os.open(name, _NEW, 0o666, dir_fd=place.descriptor)
            try:
                write_all(descriptor, data)
                with suppress(OverflowError, OSError):  # a time this disk cannot keep
                    os.utime(descriptor, (seconds, seconds))
            finally:
                os.close(descriptor)
        self._progress.advance(items=1, size=entry.size)

    def _try(self, wanted: WantedFile, fetch: Callable[[], None]) -> bool:
        """Fetch an object; record its failure, if only this one may have failed.

        Returns:
            Whether it was fetched.
        """
        entry = wanted.entry
        try:
            fetch()
        except NoRoom:
            raise
        except (NotFound, IntegrityError, UsageError, Refused) as error:
            if isinstance(error, BucketNotFound) and not is_external(entry):
                raise
            self._fail(wanted.path, error)
            return False
        except (PermissionDenied, Unreachable) as error:
            self.was_refused = True
            self._fail(wanted.path, error)
            self._budget.failed(error)
            return False
        self._budget.succeeded()
        return True

    def _fail(self, path: bytes, error: LakeError) -> None:
        with self._lock:
            self.failures.append((path, error.message))
