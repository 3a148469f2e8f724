"""Creates many files with two syncs: first of the contents, then of the names."""

from __future__ import annotations

import os
import weakref
from collections.abc import Collection, Sequence
from contextlib import suppress
from itertools import groupby
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO

from lakecli.stores.contract import key_bytes
from lakecli.stores.local.directory import TEMPORARY, RootDirectory, are_possible, split_key
from lakecli.stores.local.files import (
    FEW,
    SyncError,
    sync_file,
    sync_file_system,
    sync_names,
    sync_published,
    write_all,
)
from lakecli.stores.local.staging_dirs import StagingDirs

if TYPE_CHECKING:
    from threading import Condition


class LocalBatch:
    """A batch on a directory; see `contract.WriteBatch`.

    Files are written to temporary names without a sync. `flush` syncs them all at once, gives them
    their final names and syncs the names, so a crash leaves only temporaries and whole objects.
    """

    def __init__(self, files: RootDirectory) -> None:
        self._files = files
        with files.translated("temporary files"):
            self._temporaries = files.open_directory(TEMPORARY, create=True)
        self._lock = Lock()
        self._idle: Condition | None = None
        """What a flush waits for, if it waits."""
        self._flushing = Lock()
        self._open_dirs: dict[bool, StagingDirs] = {}
        """The staging directories of `put_new`, and (``True``) of `put_content`, for writing."""
        self._unpublished_dirs: list[StagingDirs] = []
        """All staging directories that are not published."""
        self._pending: list[tuple[list[bytes], str, bool]] = []
        """Components of the key, temporary file, and whether the key determines the contents."""
        self._own: list[tuple[str, int]] = []
        """Name and descriptor of the directory of spools, if there is one."""
        self._unpublished: set[str] = set()
        self._parents: dict[str, bytes] = {}
        """Directories of keys that files can have."""
        weakref.finalize(
            self,
            _clean_up,
            os.getpid(),
            self._temporaries,
            own=self._own,
            unpublished=self._unpublished,
            all_dirs=self._unpublished_dirs,
        )

    def put_new(self, key: str, body: bytes) -> None:
        """Write `body` to a temporary file."""
        self._put(key, body, is_content=False)

    def put_content(self, key: str, body: bytes) -> None:
        """Write `body` to a temporary file that replaces an object of another size."""
        self._put(key, body, is_content=True)

    def _put(self, key: str, body: bytes, *, is_content: bool) -> None:
        above, _, last = key.rpartition("/")
        parent, name = self._parents.get(above), key_bytes(last)
        if parent is None or not are_possible((name,)):
            parent = b"/".join(split_key(key)[:-1])
            if b"/" in parent:  # else the key may be that of the directory of temporaries
                self._parents[above] = parent
        try:
            # Here rather than in functions: each call costs as much as a system call.
            with self._lock:
                staging_dirs = self._open_dirs.get(is_content) or self._open(is_content=is_content)
                staging_dirs.writers += 1
            try:
                is_new = staging_dirs.write(parent, name, body)
            finally:
                with self._lock:
                    staging_dirs.writers -= 1
                    if self._idle is not None and not staging_dirs.writers:
                        self._idle.notify_all()
            if not is_new:  # the first writer may yet fail, so this body is written as well
                self._write(split_key(key), body, is_content=is_content)
        except OSError as error:
            raise self._files.translate(error, key) from error

    def _open(self, *, is_content: bool) -> StagingDirs:
        """Open the staging directories of one kind; the caller holds the lock."""
        opened = StagingDirs(self._files, self._temporaries, is_content=is_content)
        self._open_dirs[is_content] = opened
        self._unpublished_dirs.append(opened)
        return opened

    def _condition(self) -> Condition:
        from threading import Condition

        return Condition(self._lock)

    def _write(self, names: list[bytes], body: bytes, *, is_content: bool) -> None:
        temporary, descriptor = self._create()
        try:
            write_all(descriptor, body)
        finally:
            os.close(descriptor)
        with self._lock:
            self._pending.append((names, temporary, is_content))

    def spool(self) -> tuple[str, BinaryIO]:
        """Open a temporary file."""
        with self._files.translated("temporary files"):
            temporary, descriptor = self._create()
        return temporary, os.fdopen(descriptor, "wb")

    def adopt(self, key: str, temporary: str) -> None:
        """Give a closed spool its final key."""
        if temporary not in self._unpublished:
            raise ValueError(f"not a spool of this batch: {temporary!r}")
        names = split_key(key)
        with self._lock:
            self._pending.append((names, temporary, True))

    def flush(self) -> Collection[str]:
        """Make everything written so far durable, then visible, then durably visible.

        After an error, unpublished files are kept for another flush. After a failed sync they are
        dropped, because the next sync could succeed although data was lost.
        """
        with self._flushing:
            with self._lock:
                pending, self._pending = self._pending, []
                self._open_dirs.clear()
                all_dirs = list(self._unpublished_dirs)
                while any(staging_dirs.writers for staging_dirs in all_dirs):
                    self._idle = self._idle or self._condition()
                    self._idle.wait()
            count = len(pending) + sum(staging_dirs.count for staging_dirs in all_dirs)
            if not count:
                return ()
            pending.sort()
            try:
                with self._files.translated("new objects"):
                    self._sync_content([temporary for _, temporary, _ in pending], all_dirs, count)
                    self._publish(pending, all_dirs, count)
            except BaseException as error:
                left = [item for item in pending if item[1] in self._unpublished]
                if isinstance(error.__cause__, SyncError):
                    self._drop([temporary for _, temporary, _ in left], all_dirs)
                else:
                    with self._lock:
                        self._pending += left
                raise
            finally:
                self._leave_spools()
            return ()

    def _drop(self, temporaries: Sequence[str], all_dirs: Sequence[StagingDirs]) -> None:
        """Remove unpublished files."""
        for staging_dirs in all_dirs:
            if staging_dirs in self._unpublished_dirs:
                self._unpublished_dirs.remove(staging_dirs)
                staging_dirs.remove()
        for temporary in temporaries:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=self._spools)
            self._unpublished.discard(temporary)

    @property
    def _spools(self) -> int:
        """The descriptor of the directory of spools."""
        return self._own[0][1]

    def _create(self) -> tuple[str, int]:
        with self._lock:
            if not self._own:
                self._own.append(self._files.open_temporary_directory(self._temporaries))
            temporary, descriptor = self._files.create_temporary(self._spools)
            self._unpublished.add(temporary)
        return temporary, descriptor

    def _leave_spools(self) -> None:
        """Remove the directory of spools if it is empty."""
        with self._lock:
            if self._own and not self._unpublished:
                _remove_directory(self._temporaries, *self._own.pop())

    def _sync_content(
        self, temporaries: list[str], all_dirs: Sequence[StagingDirs], count: int
    ) -> None:
        if count > FEW:
            sync_file_system(self._temporaries)
            return
        for staging_dirs in all_dirs:
            staging_dirs.sync_content()
        for temporary in temporaries:
            descriptor = os.open(temporary, os.O_RDONLY, dir_fd=self._spools)
            try:
                sync_file(descriptor)
            finally:
                os.close(descriptor)

    def _publish(
        self,
        pending: Sequence[tuple[list[bytes], str, bool]],
        all_dirs: Sequence[StagingDirs],
        count: int,
    ) -> None:
        few = count <= FEW
        for staging_dirs in all_dirs:
            staging_dirs.publish(sync=few)
            self._unpublished_dirs.remove(staging_dirs)
            staging_dirs.remove()
        for directory, items in groupby(pending, key=lambda item: item[0][:-1]):
            with self._files.opened(directory, create=True, sync=few) as parent:
                for names, temporary, is_content in items:
                    is_published = self._files.publish(
                        self._temporaries,
                        temporary,
                        parent,
                        names[-1],
                        source=self._spools,
                        is_content=is_content,
                    )
                    self._unpublished.discard(temporary)
                    if few and not is_published:
                        sync_published(self._files.root, os.fsdecode(b"/".join(names)))
                if few:
                    sync_names(parent)
        if not few:
            sync_file_system(self._temporaries)


def _clean_up(
    owner: int,
    temporaries: int,
    *,
    own: Sequence[tuple[str, int]],
    unpublished: set[str],
    all_dirs: Sequence[StagingDirs],
) -> None:
    """Remove the unpublished files of a dropped batch."""
    if os.getpid() != owner:
        return  # a forked child; the files are its parent's
    for staging_dirs in all_dirs:
        staging_dirs.remove()
    for name, descriptor in own:
        for temporary in unpublished:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=descriptor)
        _remove_directory(temporaries, name, descriptor)
    os.close(temporaries)


def _remove_directory(temporaries: int, name: str, descriptor: int) -> None:
    os.close(descriptor)
    with suppress(OSError):
        os.rmdir(name, dir_fd=temporaries)
