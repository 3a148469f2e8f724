"""Read the entries of many objects of one ref; the ref is resolved only once.

::

    with lakecli.open("lakefs://sales") as sales, sales.reader("main") as reader:
        entry = reader.stat("2026/orders.parquet")
        for path, found in zip(paths, reader.stat_many(paths)):
            …
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from itertools import islice
from threading import Lock
from types import MappingProxyType
from typing import Final

from lakecli.base.model import Commit, Entry
from lakecli.committed.point_reads import Fill, kept_reader
from lakecli.committed.values import decode_entry
from lakecli.errors import LakeError
from lakecli.repository.contract import Repository
from lakecli.repository.reading.view import View, open_view
from lakecli.staging import area

BATCH: Final = 1_000
"""The number of paths that `Reader.stat_many` looks up at a time."""


class Reader:
    """Reads entries of a ref as it was when the reader was opened; `Repository.reader` opens one.

    Later commits and uploads do not change the results. Threads may share a reader: the tree of a
    commit never changes, and one thread at a time reads the staging area. An iterator that a reader
    returns belongs to one thread. Close a reader soon: while a reader of a branch with uncommitted
    changes is open, the local store cannot reuse the space of records deleted meanwhile. After
    closing, the reader and its unfinished iterators raise `LakeError`.

    A path is text, or bytes if it is not UTF-8.

    Args:
        filling: reads committed entries into memory, if requested.

    Attributes:
        commit: the commit that the ref names.
        has_changes: whether there are uncommitted changes on top of the commit.
    """

    def __init__(self, view: View, filling: Fill | None = None) -> None:
        self._filling = filling
        # The transaction sees no later writes, so an area that is empty now stays empty.
        tokens = tuple(each for each in view.tokens if not area.is_empty(view.txn, each))
        self._view = view._replace(tokens=tokens)
        self._is_closed = False
        self.has_changes = bool(tokens or view.above)
        # The staging area belongs to one thread at a time; a committed tree never changes.
        self._turn: AbstractContextManager[object] = Lock() if self.has_changes else nullcontext()
        self.commit: Commit = view.commit

    def stat(self, path: bytes | str) -> Entry:
        """Return the entry at a path.

        Raises:
            NotFound: there is no object at the path.
        """
        key = os.fsencode(path)
        with self._turn:
            self._check_open()
            return self._view.entry(key)

    def find(self, path: bytes | str) -> Entry | None:
        """Return the entry at a path, or ``None``."""
        (value,) = self._values([os.fsencode(path)])
        return None if value is None else decode_entry(value)

    def exists(self, path: bytes | str) -> bool:
        """Return whether there is an object at a path."""
        return self._values([os.fsencode(path)])[0] is not None

    def stat_many(self, paths: Iterable[bytes | str]) -> Iterator[Entry | None]:
        """Yield the entry at each path, or ``None``, in the order of the paths.

        Paths are looked up `BATCH` at a time: the first entry is yielded after `BATCH` paths, or
        all of them, have been read from `paths`.
        """
        todo = iter(paths)
        while batch := [os.fsencode(path) for path in islice(todo, BATCH)]:
            for value in self._values(batch):
                yield None if value is None else decode_entry(value)

    def iter(
        self, *, prefix: bytes | str = b"", start: bytes | str = b""
    ) -> Iterator[tuple[bytes, Entry]]:
        """Yield (path, entry) in path order.

        Args:
            prefix: yield only paths that begin with this text, which need not end at a slash.
            start: yield only paths at or after this path.
        """
        with self._turn:
            self._check_open()
            found = self._view.scan(prefix=os.fsencode(prefix), start=os.fsencode(start))
        if self.has_changes:
            found = self._one_at_a_time(found)
        for path, value in found:
            yield path, decode_entry(value)
            self._check_open()

    def close(self) -> None:
        """Close the reader; first wait for the thread, if any, that is reading the staging area."""
        with self._turn:
            self._is_closed = True

    def wait_filled(self, timeout: float | None = None) -> bool:
        """Wait until the thread that reads entries into memory ends.

        The reader can be used before that.

        Returns:
            ``True`` if all committed entries whose paths begin with ``fill`` are in memory.
            ``False`` if ``cache.memory`` has no room for them, if the timeout expired, or if the
            reader was opened without ``fill``.

        Raises:
            IntegrityError: a part of the tree is missing or damaged.
            Unreachable, PermissionDenied, …: the bucket could not be read.
        """
        return self._filling is not None and self._filling.wait(timeout)

    def _check_open(self) -> None:
        if self._is_closed:
            raise LakeError("the reader is closed")

    def _values(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the encoded value of each path; staged values hide committed ones."""
        with self._turn:
            self._check_open()
            return self._view.find_many(keys)

    def _one_at_a_time(self, found: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        """Yield the items of an iterator over the staging area; one thread at a time reads it."""
        while True:
            with self._turn:
                self._check_open()
                batch = list(islice(found, BATCH))
            if not batch:
                return
            yield from batch


@contextmanager
def open_reader(
    repository: Repository,
    ref: str,
    *,
    fill: bytes | str | None = None,
    above: Mapping[bytes, bytes] = MappingProxyType({}),
) -> Iterator[Reader]:
    """Open a reader; see `Repository.reader`, and `open_view` for `above`."""
    with ExitStack() as stack, ExitStack() as transaction:
        view = transaction.enter_context(open_view(repository, ref, above=above))
        filling = None
        if fill is not None:
            points, tree = kept_reader(repository.trees), view.commit.metarange_id
            filling = Fill(points, tree, prefix=os.fsencode(fill))
            stack.callback(filling.close)
        reader = Reader(view, filling)
        if not reader.has_changes:
            transaction.close()
        try:
            yield reader
        finally:
            reader.close()  # before the transaction that it reads from ends
