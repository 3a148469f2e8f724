"""``--copy``: copy the bytes of a source into the namespace, named by their contents."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, BinaryIO, Final

from blake3 import blake3

from lakecli.base.layout import data_key
from lakecli.base.model import CLIENT_MTIME, Entry
from lakecli.committed.encode import encode_entry
from lakecli.engine.store_location import open_by_uri
from lakecli.errors import IntegrityError, LakeError
from lakecli.imports.addresses import Addresses
from lakecli.imports.rows import Failures, Rows
from lakecli.repository.contract import ObjectGuard
from lakecli.repository.reading.addresses import split_address, split_pin
from lakecli.repository.transfer.content_types import content_type_of
from lakecli.repository.transfer.ingest import Ingest, Ingested
from lakecli.repository.transfer.readers import PIECE
from lakecli.stores.uri import is_local
from lakecli.stores.wrappers import at_version

if TYPE_CHECKING:
    from lakecli.imports.part import Task
    from lakecli.stores.contract import ObjectStore

AT_ONCE: Final = 16
"""Objects that one part copies at a time."""


class Copier:
    """Copies objects, and encodes the entries that an upload of them would record.

    The bytes are durable before the encoded entries are returned.

    Args:
        task: shared by all parts.
        failures: receives those that cannot be copied.
        tell: called with 1 and the bytes of each object that was copied, by several threads.
        opener: opens files of this machine, as `os.open` does.

    Attributes:
        places: empty, as no object stays outside the namespace.
        verified: 0, as all objects are read.
    """

    places: frozenset[str] = frozenset()
    verified: int = 0

    def __init__(
        self,
        task: Task,
        failures: Failures,
        tell: Callable[[int, int], None],
        opener: Callable[[bytes, int], int] = os.open,
    ) -> None:
        self._tell = tell
        self._opener = opener
        self._task = task
        self._failures = failures
        self._addresses = Addresses(task, failures)

    def __call__(self, rows: Rows) -> tuple[Rows, list[bytes]]:
        """Copy objects; leave out those that fail, and record why."""
        rows = self._addresses.checked(rows)
        location, writes = self._task.location, self._task.writes
        ingest = make_ingest(location.store(), guard=location.guard() if writes else None)

        def copy(at: int) -> Ingested | str:
            try:
                done = self._copy(ingest, rows, at)
            except LakeError as error:
                return error.message
            except OSError as error:
                return (error.strerror or str(error)).lower()
            self._tell(1, done.size)
            return done

        with ThreadPoolExecutor(AT_ONCE) as pool:
            outcomes = list(pool.map(copy, range(len(rows))))
        if writes:
            ingest.flush()
            ingest.claim([each for each in outcomes if not isinstance(each, str)])
        kept, values = [], []
        for at, outcome in enumerate(outcomes):
            path = self._task.prefix + rows.keys[at]
            if isinstance(outcome, str):
                self._failures.add(path, outcome)
                continue
            given = rows.content_types[at].decode() if rows.content_types else ""
            kept.append(at)
            values.append(
                encode_entry(
                    Entry(
                        data_key(outcome.digest),
                        outcome.size,
                        outcome.digest,
                        datetime.fromtimestamp(self._task.seconds, UTC),
                        given or content_type_of(path),
                        {CLIENT_MTIME: str(rows.seconds[at])},
                    )
                )
            )
        return (rows if len(kept) == len(rows) else rows.take(kept)), values

    def _copy(self, ingest: Ingest, rows: Rows, at: int) -> Ingested:
        """Copy one object, or only read it.

        Raises:
            IntegrityError: its size is not the one in the source.
        """
        writes = self._task.writes
        address = rows.addresses[at].decode("utf-8", "surrogateescape")
        plain, version_id = split_pin(address)
        uri, key = split_address(plain)
        if is_local(uri):
            path = os.fsencode(f"{uri.removeprefix('local://').rstrip('/')}/{key}")
            bring_in = ingest.file if writes else ingest.look
            done = bring_in(path, opener=self._opener)
        else:
            store = _store_of(uri, account=self._task.location.account)
            with at_version(store, version_id).open(key) as source:
                done = ingest.stream(source) if writes else _read(source)
        if done.size != rows.sizes[at]:
            raise IntegrityError(f"it has {done.size} bytes instead of {rows.sizes[at]}")
        return done


def make_ingest(store: ObjectStore, *, guard: ObjectGuard | None = None) -> Ingest:
    """Return an ingest into a namespace that looks up no earlier hashes.

    It follows symbolic links: the listing leaves out those that must not be followed.
    """
    return Ingest(store, follow=True, guard=guard)


def _read(source: BinaryIO) -> Ingested:
    hasher, size = blake3(), 0
    while piece := source.read(PIECE):
        hasher.update(piece)
        size += len(piece)
    return Ingested(hasher.hexdigest(), size, 0)


_store_of = lru_cache(maxsize=16)(open_by_uri)
