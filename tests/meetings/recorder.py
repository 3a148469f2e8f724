"""Recording of what commands read and write: local stores, buckets in memory, and files."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakecli.kv.local_store import ReadTransaction, WriteTransaction
from tests.meetings.accesses import AFTER_ALL, Access
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pytest

CHANGED: Final = ("before", "after")
"""Stands for the values of something whose bytes are not compared."""

_READS: Final = ("os.scandir", "os.listdir")
_WRITES: Final = {
    "os.rename": (0, 1),
    "os.link": (0, 1),
    "os.symlink": (0, 1),
    "os.remove": (0,),
    "os.rmdir": (0,),
    "os.mkdir": (0,),
    "os.truncate": (0,),
    "os.utime": (0,),
    "os.chmod": (0,),
    "fcntl.flock": (0,),
}
"""Audit events that change files, and which of their arguments are paths or descriptors."""

_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_recorders: list[Recorder] = []
"""Whom the audit hook of this process informs: one can never be removed."""


class Recorder:
    """Records accesses while `recording` is entered.

    The cache of trees is left out: its files are named by their contents, so it makes no difference
    whether it or the bucket answers.

    Args:
        directory: below which files matter.
    """

    def __init__(self, directory: Path) -> None:
        self._within = os.fsencode(directory) + b"/"
        self._found: list[Access] | None = None
        self._position: Callable[[], int] = int

    @contextmanager
    def recording(self, position: Callable[[], int] = int) -> Iterator[list[Access]]:
        """Record within the block.

        Args:
            position: returns how many steps the command has reached.
        """
        before = self._found, self._position
        found: list[Access] = []
        self._found, self._position = found, position
        try:
            yield found
        finally:
            self._found, self._position = before

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Watch all local stores, buckets in memory and files."""
        self._watch_stores(monkeypatch)
        self._watch_buckets(monkeypatch)
        if not _recorders:
            sys.addaudithook(_inform)
        _recorders[:] = [self]

    def _note(self, space: str, key: bytes, end: bytes | None = None) -> None:
        if self._found is not None:
            self._found.append(Access(self._position(), space, key, end))

    # -- local stores ------------------------------------------------------------------------

    def _watch_stores(self, patch: pytest.MonkeyPatch) -> None:
        enter, leave = ReadTransaction.__enter__, WriteTransaction.__exit__
        read = _Reading

        def begin(txn: Any) -> Any:
            enter(txn)
            txn.record = None
            if self._found is not None:
                # The directory of a machine is that above the one with the store.
                machine = txn._environment.directory.parents[1].name
                txn.record = _Record(txn._txn, self._found, self._position(), machine)
            return txn

        def end(txn: Any, kind: Any, error: BaseException | None, traceback: Any) -> None:
            if txn.record is not None and error is None:
                txn.record.end()
            leave(txn, kind, error, traceback)

        patch.setattr(ReadTransaction, "__enter__", begin)
        patch.setattr(WriteTransaction, "__exit__", end)
        for cls, names in (
            (ReadTransaction, ("get", "scan_batches", "scan_keys", "scan_reverse")),
            (WriteTransaction, ("put", "put_new", "put_sorted", "delete", "delete_owned")),
        ):
            for name in names:
                patch.setattr(cls, name, getattr(read, name)(getattr(cls, name)))

    # -- buckets -----------------------------------------------------------------------------

    def _watch_buckets(self, patch: pytest.MonkeyPatch) -> None:
        find, list_, uploads = MemoryStore._find, MemoryStore.list, MemoryStore.uploads

        def found(store: Any, key: str, *args: Any) -> Any:
            self._note("bucket", os.fsencode(store._prefix + key))
            return find(store, key, *args)

        def listed(store: Any, prefix: str = "", *, after: str = "") -> Iterator[Any]:
            first = os.fsencode(store._prefix + prefix)
            start = max(first, os.fsencode(store._prefix + after))
            self._note("bucket", start, first + AFTER_ALL)
            yield from list_(store, prefix, after=after)

        def parts(store: Any) -> Any:
            self._note_change("uploads", b"", *CHANGED)
            return uploads(store)

        patch.setattr(MemoryStore, "_find", found)
        patch.setattr(MemoryStore, "list", listed)
        patch.setattr(MemoryStore, "uploads", parts)
        patch.setattr(MemoryStore, "put", self._written(MemoryStore.put, lambda key: [key]))
        patch.setattr(MemoryStore, "delete", self._written(MemoryStore.delete, list))
        patch.setattr(
            MemoryStore,
            "delete_matching",
            self._written(MemoryStore.delete_matching, lambda pairs: [key for key, _ in pairs]),
        )
        copy = MemoryStore.copy

        def copied(store: Any, source: str, key: str) -> None:
            self._written(lambda each, _key: copy(each, source, key), lambda key: [key])(store, key)

        patch.setattr(MemoryStore, "copy", copied)

    def _written(
        self, method: Callable[..., Any], keys_of: Callable[[Any], Iterable[str]]
    ) -> Callable[..., Any]:
        def written(store: Any, what: Any, *args: Any, **kwargs: Any) -> Any:
            if self._found is None:
                return method(store, what, *args, **kwargs)
            what = what if isinstance(what, str) else list(what)
            keys = [store._prefix + key for key in keys_of(what)]
            objects = store._bucket.objects
            before = [objects.get(key) for key in keys]
            try:
                return method(store, what, *args, **kwargs)
            finally:
                for key, old in zip(keys, before, strict=True):
                    self._note_change("bucket", os.fsencode(key), old, objects.get(key))

        return written

    def _note_change(self, space: str, key: bytes, before: object, after: object) -> None:
        if self._found is not None:
            self._found.append(Access(self._position(), space, key, None, (before, after)))

    # -- files -------------------------------------------------------------------------------

    def note_event(self, event: str, args: tuple[Any, ...]) -> None:
        """Note an audit event of Python."""
        if self._found is None:
            return
        if event == "open":
            path, _mode, flags = args
            if flags & _WRITING and not isinstance(path, int):
                self._note_file(path)
            else:
                self._note_file(path, below=bool(flags & os.O_DIRECTORY), changes=False)
        elif event in _READS:
            self._note_file(args[0], below=True, changes=False)
        elif event in _WRITES:
            for number in _WRITES[event]:
                self._note_file(args[number])

    def _note_file(self, path: Any, *, below: bool = False, changes: bool = True) -> None:
        if isinstance(path, int):
            try:
                path = Path(f"/proc/self/fd/{path}").readlink()
            except OSError:
                return
        name = os.fsencode(os.curdir if path is None else path)
        if not name.startswith(b"/"):
            # Relative to a directory that the event does not name: it may be any file.
            name, below = self._within, True
        if not name.startswith(self._within) or {b"store", b"cache"} & set(name.split(b"/")):
            return
        if below:
            self._note("files", name, name + AFTER_ALL)
        if changes:
            self._note_change("files", name, *CHANGED)


def _inform(event: str, args: tuple[Any, ...]) -> None:
    for each in _recorders:
        each.note_event(event, args)


class _Record:
    """What one transaction of a local store reads and writes."""

    def __init__(self, txn: Any, found: list[Access], position: int, machine: str) -> None:
        self._txn = txn
        self._found = found
        self._position = position
        self._machine = machine
        self._before: dict[bytes, bytes | None] = {}

    def read(self, key: bytes, end: bytes | None = None) -> None:
        self._found.append(Access(self._position, self._machine, key, end))

    def write(self, key: bytes) -> None:
        if key not in self._before:
            self._before[key] = self._txn.get(key)

    def end(self) -> None:
        for key, before in self._before.items():
            change = before, self._txn.get(key)
            self._found.append(Access(self._position, self._machine, key, None, change))


class _Reading:
    """The methods of transactions, each recording before or after the original."""

    @staticmethod
    def get(method: Any) -> Any:
        def get(txn: Any, table: bytes, key: bytes) -> Any:
            if txn.record is not None:
                txn.record.read(table + key)
            return method(txn, table, key)

        return get

    @staticmethod
    def scan_batches(method: Any) -> Any:
        def scan_batches(
            txn: Any, table: bytes, *, prefix: bytes = b"", start: bytes = b"", cut: int = 0
        ) -> Iterator[Any]:
            first = last = table + max(start, prefix)
            try:
                for batch in method(txn, table, prefix=prefix, start=start):
                    last = table + batch[-1][0] if batch else last
                    yield [(key[cut:], value) for key, value in batch]
                last = table + prefix + AFTER_ALL
            finally:
                if txn.record is not None:
                    txn.record.read(first, last)

        return scan_batches

    @staticmethod
    def scan_keys(method: Any) -> Any:
        def scan_keys(
            txn: Any, table: bytes, *, prefix: bytes = b"", start: bytes = b""
        ) -> Iterator[bytes]:
            first = last = table + max(start, prefix)
            try:
                for key in method(txn, table, prefix=prefix, start=start):
                    last = table + key
                    yield key
                last = table + prefix + AFTER_ALL
            finally:
                if txn.record is not None:
                    txn.record.read(first, last)

        return scan_keys

    @staticmethod
    def scan_reverse(method: Any) -> Any:
        def scan_reverse(
            txn: Any, table: bytes, *, prefix: bytes = b""
        ) -> Iterator[tuple[bytes, bytes]]:
            first = last = table + prefix + AFTER_ALL
            try:
                for key, value in method(txn, table, prefix=prefix):
                    first = table + key
                    yield key, value
                first = table + prefix
            finally:
                if txn.record is not None:
                    txn.record.read(first, last)

        return scan_reverse

    @staticmethod
    def put(method: Any) -> Any:
        def put(txn: Any, table: bytes, key: bytes, value: bytes) -> Any:
            if txn.record is not None:
                txn.record.write(table + key)
            return method(txn, table, key, value)

        return put

    put_new = put

    @staticmethod
    def put_sorted(method: Any) -> Any:
        def put_sorted(
            txn: Any,
            table: bytes,
            items: Iterable[tuple[bytes, bytes]],
            *,
            prefix: bytes = b"",
            overwrite: bool = True,
        ) -> None:
            items = list(items)
            if txn.record is not None:
                for key, _ in items:
                    txn.record.write(table + prefix + key)
            method(txn, table, items, prefix=prefix, overwrite=overwrite)

        return put_sorted

    @staticmethod
    def delete(method: Any) -> Any:
        def delete(txn: Any, table: bytes, key: bytes) -> Any:
            if txn.record is not None:
                txn.record.write(table + key)
            return method(txn, table, key)

        return delete

    @staticmethod
    def delete_owned(method: Any) -> Any:
        def delete_owned(txn: Any, table: bytes, owner: bytes, *, limit: int | None = None) -> Any:
            if txn.record is not None:
                txn.record.read(table + owner, table + owner + AFTER_ALL)
                for key in txn.scan_keys(table, prefix=owner):
                    txn.record.write(table + key)
            return method(txn, table, owner, limit=limit)

        return delete_owned
