"""Many new files made durable by two syncs: the content first, then the names."""

from __future__ import annotations

import os
import weakref
from contextlib import suppress
from itertools import groupby
from threading import Condition, Lock
from typing import TYPE_CHECKING, BinaryIO, cast

from lakecli.objectstore.local.directory import (
    TEMPORARY,
    object_status,
    split_key,
    sync_file,
    sync_file_system,
    sync_names,
    write_all,
)
from lakecli.objectstore.local.nursery import Nursery
from lakecli.objectstore.spool import Spool

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lakecli.objectstore.local.directory import Directory

FEW = 32
"""Up to so many files or directories are synced one by one.

One sync of the file system costs less than a thousand syncs of files, but it also waits for
whatever other programs have just written there.
"""


class LocalBatch:
    """A batch on a directory; see `base.Batch`.

    Files are written without a sync into a directory of temporaries. `flush` syncs them all at
    once, gives them their final names and syncs the names, so that a crash at any moment leaves
    temporaries and whole objects, nothing else.
    """

    def __init__(self, files: Directory) -> None:
        self._files = files
        with files.translated("temporary files"):
            self._temporaries = files.open_directory(TEMPORARY, create=True)
        self._lock = Lock()
        self._idle = Condition(self._lock)
        self._flushing = Lock()
        self._nursery: Nursery | None = None
        self._nurseries: list[Nursery] = []
        """All that are not published yet, the one that is written to at the end."""
        self._pending: list[tuple[list[bytes], str]] = []
        self._unpublished: set[str] = set()
        weakref.finalize(
            self, _clean_up, os.getpid(), self._temporaries, self._unpublished, self._nurseries
        )

    def put_new(self, key: str, body: bytes) -> None:
        """Write `body` to a temporary file."""
        names = split_key(key)
        with self._files.translated(key):
            nursery = self._enter()
            try:
                is_new = nursery.write(b"/".join(names[:-1]), names[-1], body)
            finally:
                self._leave(nursery)
            if not is_new:  # the other one may yet fail, so this is written as well
                self._write(names, body)

    def _enter(self) -> Nursery:
        with self._lock:
            if self._nursery is None:
                self._nursery = Nursery(self._files, self._temporaries)
                self._nurseries.append(self._nursery)
            self._nursery.writers += 1
            return self._nursery

    def _leave(self, nursery: Nursery) -> None:
        with self._lock:
            nursery.writers -= 1
            if not nursery.writers and nursery is not self._nursery:
                self._idle.notify_all()

    def _write(self, names: list[bytes], body: bytes) -> None:
        temporary, descriptor = self._create()
        try:
            write_all(descriptor, body)
        finally:
            os.close(descriptor)
        with self._lock:
            self._pending.append((names, temporary))

    def spool(self) -> tuple[str, BinaryIO]:
        """Open a temporary file."""
        with self._files.translated("temporary files"):
            temporary, descriptor = self._create()
        return temporary, cast("BinaryIO", Spool(descriptor))

    def adopt(self, key: str, temporary: str) -> None:
        """Give a closed spool its final key."""
        if temporary not in self._unpublished:
            raise ValueError(f"not a spool of this batch: {temporary!r}")
        names = split_key(key)
        with self._lock:
            self._pending.append((names, temporary))

    def flush(self) -> Collection[str]:
        """Make everything so far durable, then visible, then durably visible.

        After an error, what was not yet published is kept for another flush.
        """
        with self._flushing:
            with self._lock:
                pending, self._pending = self._pending, []
                self._nursery = None
                nurseries = list(self._nurseries)
                while any(nursery.writers for nursery in nurseries):
                    self._idle.wait()
            count = len(pending) + sum(nursery.count for nursery in nurseries)
            if not count:
                return ()
            pending.sort()
            try:
                with self._files.translated("new objects"):
                    self._sync_content([temporary for _, temporary in pending], nurseries, count)
                    self._publish(pending, nurseries, count)
            except BaseException:
                with self._lock:
                    self._pending += [item for item in pending if item[1] in self._unpublished]
                raise
            return ()

    def _create(self) -> tuple[str, int]:
        temporary, descriptor = self._files.create_temporary(self._temporaries)
        self._unpublished.add(temporary)
        return temporary, descriptor

    def _sync_content(
        self, temporaries: list[str], nurseries: Sequence[Nursery], count: int
    ) -> None:
        if count > FEW:
            sync_file_system(self._temporaries)
            return
        for nursery in nurseries:
            nursery.sync_content()
        for temporary in temporaries:
            descriptor = os.open(temporary, os.O_RDONLY, dir_fd=self._temporaries)
            try:
                sync_file(descriptor)
            finally:
                os.close(descriptor)

    def _publish(
        self,
        pending: Sequence[tuple[list[bytes], str]],
        nurseries: Sequence[Nursery],
        count: int,
    ) -> None:
        few = count <= FEW
        for nursery in nurseries:
            nursery.publish(sync=few)
            self._nurseries.remove(nursery)
            nursery.remove()
        for directory, items in groupby(pending, key=lambda item: item[0][:-1]):
            with self._files.opened(directory, create=True, sync=few) as parent:
                for names, temporary in items:
                    try:
                        self._files.publish_new(self._temporaries, temporary, parent, names[-1])
                    except FileExistsError:
                        object_status(parent, names[-1])  # raises where it is no object
                        os.unlink(temporary, dir_fd=self._temporaries)
                    self._unpublished.discard(temporary)
                if few:
                    sync_names(parent)
        if not few:
            sync_file_system(self._temporaries)


def _clean_up(
    owner: int, temporaries: int, unpublished: set[str], nurseries: Sequence[Nursery]
) -> None:
    """Remove what a dropped batch never published."""
    if os.getpid() != owner:
        return  # a forked child; the files are its parent's
    for nursery in nurseries:
        nursery.remove()
    for temporary in unpublished:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=temporaries)
    os.close(temporaries)
