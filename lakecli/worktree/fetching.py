"""Fetching the objects of files into a directory of their own, verified, each file by itself.

The names there tell path and object: what a killed command has fetched is used by the next one.
"""

from __future__ import annotations

import os
from contextlib import suppress
from enum import Enum
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from blake3 import blake3

from lakecli.errors import (
    IntegrityError,
    LakeError,
    NotFound,
    PermissionDenied,
    Refused,
    Unreachable,
    UsageError,
)
from lakecli.identity import h
from lakecli.objectstore.base import BucketNotFound, ObjectNotFound
from lakecli.objectstore.local.files import write_all
from lakecli.objectstore.uri import is_local
from lakecli.repository.core.address import is_external, locate
from lakecli.repository.core.own_files import INCOMING
from lakecli.repository.core.read import damaged, digest_of, gone
from lakecli.repository.download import Download
from lakecli.repository.transfer.destination import Destination, NoRoom, State, translated
from lakecli.repository.transfer.ingest import SMALL
from lakecli.repository.transfer.parallel import FailureBudget
from lakecli.worktree.linking import LinkMode, digest_at, hard_link, reflink, unsupported
from lakecli.worktree.posix import is_executable

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.model import Entry
    from lakecli.repository.download import DownloadOptions
    from lakecli.worktree.index import FileState
    from lakecli.worktree.worktree import Worktree


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


Fetched: TypeAlias = tuple[Wanted, bytes]
"""A file to write, and its name while it is not complete."""


def _path_of(fetched: Fetched) -> bytes:
    return fetched[0].path


class Fetcher:
    """Fetches objects into the directory of incoming files.

    Args:
        worktree: the working directory.
        options: of the downloads.

    Attributes:
        failures: (path, reason) of objects that could not be fetched.
    """

    def __init__(self, worktree: Worktree, options: DownloadOptions) -> None:
        self._worktree = worktree
        self._progress = options.progress
        self._incoming = os.path.join(os.fsencode(worktree.root), INCOMING)
        self._download = Download(worktree.repository, options)
        self._can_reflink = True
        self._is_local = is_local(worktree.repository.store.uri)
        self._budget = FailureBudget()
        self._lock = Lock()
        self.failures: list[tuple[bytes, str]] = []

    def fetch_all(
        self, waiting: list[Wanted], incoming: Destination, descriptor: int
    ) -> list[Fetched]:
        """Fetch objects beside, and return the files in path order, each with its name there."""
        fetched: list[Fetched] = []
        present = set(os.listdir(descriptor))

        def fetch(wanted: Wanted) -> None:
            name = wanted.name
            if self._try(wanted, lambda: self._fetch(wanted, name, incoming, present)):
                fetched.append((wanted, name))

        if self._is_local:
            for number, wanted in enumerate(waiting):
                digest = digest_of(wanted.entry)
                # Nothing of a small or linked file is worth resuming.
                name = b"%d" % number
                if digest is not None and self._links(wanted.entry):
                    make = self._link
                elif digest is not None and wanted.entry.size <= SMALL:
                    make = self._copy
                else:
                    fetch(wanted)
                    continue
                if self._try(wanted, partial(make, wanted.entry, name, digest, descriptor)):
                    fetched.append((wanted, name))
        else:
            self._download.workers.for_each(waiting, fetch)
        fetched.sort(key=_path_of)
        return fetched

    def _fetch(self, wanted: Wanted, name: bytes, incoming: Destination, present: set[str]) -> None:
        """Fetch an object beside, unless an earlier command has."""
        entry = wanted.entry
        if os.fsdecode(name) in present:
            here = incoming.state_of(
                name, size=entry.size, digest=digest_of(entry), mtime=entry.file_mtime
            )
            if here is State.SAME:
                self._progress.advance(size=entry.size)
                return
        self._download.fetch(incoming, name, entry)

    def _links(self, entry: Entry) -> bool:
        """Return whether the file of an object in a directory is linked, not copied."""
        mode = self._worktree.linking
        if is_external(entry) or mode is LinkMode.COPY:
            return False
        if mode is LinkMode.HARDLINK:
            return not is_executable(entry)  # the mode is that of the object
        # Copying a small file takes no longer than sharing its blocks.
        return mode is LinkMode.REFLINK or (self._can_reflink and entry.size > SMALL)

    def _link(self, entry: Entry, name: bytes, digest: str, directory: int) -> None:
        """Link a file with its object, verified."""
        store, key = locate(self._worktree.repository, entry)
        source = store.local_path(key)
        if source is None:
            raise gone(self._worktree.repository, store, key)
        mode = self._worktree.linking
        with translated(os.path.join(self._incoming, name)):
            if mode is LinkMode.HARDLINK:
                hard_link(source, name, directory)
            elif not reflink(source, name, directory):
                if mode is LinkMode.REFLINK:
                    raise unsupported("reflinks", source)
                self._can_reflink = False
                with Destination(self._incoming) as incoming:
                    self._download.fetch(incoming, name, entry)
                return
            if digest_at(name, directory) != digest:
                os.unlink(name, dir_fd=directory)
                raise damaged(self._worktree.repository, store, key)
            if mode is not LinkMode.HARDLINK:  # the time is that of the object
                seconds = entry.file_mtime
                with suppress(OverflowError, OSError):
                    os.utime(name, (seconds, seconds), dir_fd=directory)
        self._progress.advance(size=entry.size)

    def _copy(self, entry: Entry, name: bytes, digest: str, directory: int) -> None:
        """Copy a small object of a local namespace beside, verified."""
        store, key = locate(self._worktree.repository, entry)
        try:
            data = store.get(key, start=0, length=entry.size + 1)
        except ObjectNotFound as error:
            raise gone(self._worktree.repository, store, key) from error
        if len(data) != entry.size or blake3(data).hexdigest() != digest:
            raise damaged(self._worktree.repository, store, key)
        seconds = entry.file_mtime
        shown = os.path.join(self._incoming, name)
        with translated(shown):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(name, flags, 0o666, dir_fd=directory)
            try:
                write_all(descriptor, data)
                with suppress(OverflowError, OSError):  # a time this disk cannot keep
                    os.utime(descriptor, (seconds, seconds))
            finally:
                os.close(descriptor)
        self._progress.advance(size=entry.size)

    def _try(self, wanted: Wanted, fetch: Callable[[], None]) -> bool:
        """Fetch an object; record its failure, if only this one may have failed."""
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
            self._fail(wanted.path, error)
            self._budget.failed(error)
            return False
        self._budget.succeeded()
        self._progress.advance(items=1)
        return True

    def _fail(self, path: bytes, error: LakeError) -> None:
        with self._lock:
            self.failures.append((path, error.message))
