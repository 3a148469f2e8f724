"""Import one part: merge the source's objects with the records of the branch, in any process.

Objects stay where they are, or with ``--copy`` their bytes are copied into the namespace, named by
their contents.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from operator import lt
from typing import Any, BinaryIO, Final

from blake3 import blake3

from lakecli.base.content_types import content_type_of
from lakecli.base.layout import data_key
from lakecli.base.model import CLIENT_MTIME, Entry
from lakecli.committed.metaranges import NO_RANGES, Metarange
from lakecli.committed.tree_store import TreeStore
from lakecli.committed.values import Columns, encode_entry, encode_external
from lakecli.errors import IntegrityError, LakeError
from lakecli.imports.addresses import Addresses, Verifier, store_of
from lakecli.imports.dry_run import Lister
from lakecli.imports.merging import Merging
from lakecli.imports.task import (
    Failures,
    ImportedPart,
    ImportPart,
    NotSorted,
    NumberedPart,
    PartSource,
    Rows,
    Task,
    Walked,
    check_paths,
)
from lakecli.imports.tree_parts import EMPTY, BaseSlice, PartWriter
from lakecli.repository.contract import ObjectGuard
from lakecli.repository.reading.addresses import split_address, split_pin
from lakecli.repository.transfer.ingest import PIECE, Ingest, Ingested
from lakecli.stores.contract import ObjectStore
from lakecli.stores.uri import is_local
from lakecli.stores.wrappers import at_version

SHOWN_DUPLICATES: Final = 100

AT_ONCE: Final = 16
"""Objects that one part copies at a time."""


_open = threading.local()


def open_base(task: Task) -> tuple[TreeStore, Metarange]:
    """Return the trees of the repository, and the base, opened once per thread."""
    key = task.location, task.base
    if getattr(_open, "key", None) != key:
        trees = task.location.trees()
        _open.found = trees, trees.metarange(task.base) if task.base else NO_RANGES
        _open.key = key
    found: tuple[TreeStore, Metarange] = _open.found
    return found


def tell_nobody(_items: int, _size: int) -> None:
    """Keep to oneself what a part has done so far."""


def import_item(
    task: Task, item: NumberedPart, *, tell: Callable[[int, int], None] = tell_nobody
) -> ImportedPart | None:
    """Import one part; return ``None`` if the result of an earlier run still holds.

    Args:
        task: shared by all parts.
        item: the part.
        tell: called with numbers of objects that are done, and of their bytes that were copied.

    Raises:
        NotSorted: the source is not sorted by key.
        LakeError: the source or the namespace cannot be read or written.
    """
    part = item.part
    if item.known:
        said = ListingDigest()
        for _ in said.noted(part.source.rows(task, Failures())):
            pass
        if said.digest() == item.known:
            return None
    failures = Failures()
    rows = part.source.rows(task, failures)
    if task.listing is not None:
        lister = Lister(failures, task.listing, item.number)
        return import_rows(task, part, rows, failures, lister=lister, tell=tell)
    if not part.is_live:
        return import_rows(task, part, rows, failures, tell=tell)
    said = ListingDigest()
    result = import_rows(task, part, said.noted(rows), failures, tell=tell)
    return replace(result, listed=said.digest())


class ListingDigest:
    """A digest of a source's objects, computed while they pass."""

    def __init__(self) -> None:
        self._hasher = blake3()

    def noted(self, rows: Iterator[Rows]) -> Iterator[Rows]:
        """Yield rows unchanged, and add them to the digest."""
        for piece in rows:
            fields = [piece.sizes, piece.seconds, list(map(len, piece.keys))]
            self._hasher.update(json.dumps(fields).encode())
            self._hasher.update(b"".join(piece.keys))
            self._hasher.update(b" ".join(piece.checksums))
            self._hasher.update(b" ".join(piece.addresses))
            yield piece

    def digest(self) -> str:
        """Return the digest of all rows so far."""
        return self._hasher.hexdigest()


def import_rows(
    task: Task,
    part: ImportPart,
    rows: Iterator[Rows],
    failures: Failures,
    *,
    lister: Lister | None = None,
    tell: Callable[[int, int], None] = tell_nobody,
) -> ImportedPart:
    """Import the objects of an interval of paths.

    Args:
        task: shared by all parts.
        part: the interval.
        rows: the objects, sorted by key; keys are relative to the prefix.
        failures: failures that `rows` has recorded; the import adds its own.
        lister: lists what would be done with each path; made for `failures`.
        tell: see `import_item`.
    """
    trees, base = open_base(task)
    written_before = trees.counts.ranges_written
    sink = PartWriter(trees, base) if task.writes else None
    merging = Merging(
        BaseSlice(trees, base, low=part.low, high=part.high),
        replaces=task.replaces,
        sink=sink,
        lister=lister,
    )
    encode = _encoder(task, part.source, failures, tell)
    duplicates: list[bytes] = []
    last: bytes | None = None
    prefix = task.prefix
    for piece in rows:
        if piece.keys:
            merging.list_before(prefix + piece.keys[0])
        chunk = check_paths(piece, prefix, failures) if piece.keys else piece
        if not chunk.keys:
            continue
        chunk = _without_duplicates(chunk, last, prefix, duplicates)
        if not chunk.keys:
            continue
        last = chunk.keys[-1]
        chunk, values = encode(chunk)
        if not chunk.keys:
            continue
        if not task.copies:
            tell(len(chunk), 0)
        merging.tally.objects += len(chunk)
        merging.tally.size += sum(chunk.sizes)
        keys = [prefix + key for key in chunk.keys] if prefix else chunk.keys
        merging.add(keys, values)
    merging.finish()
    return ImportedPart(
        EMPTY if sink is None else sink.finish(),
        merging.tally,
        failures.count,
        tuple(failures.shown),
        tuple(duplicates),
        trees.counts.ranges_written - written_before,
        places=tuple(sorted(encode.places)),
        verified=encode.verified,
        steps=() if lister is None else lister.finish(),
    )


def _without_duplicates(
    rows: Rows, last: bytes | None, prefix: bytes, duplicates: list[bytes]
) -> Rows:
    """Leave out keys that came before, and record the first of these.

    Raises:
        NotSorted: the keys are not in ascending order.
    """
    keys = rows.keys
    if (last is None or last < keys[0]) and all(map(lt, keys, islice(keys, 1, None))):
        return rows
    kept = []
    for at, key in enumerate(keys):
        if last is None or key > last:
            kept.append(at)
            last = key
        elif key < last:
            raise NotSorted("the listing is not sorted by key")
        elif len(duplicates) < SHOWN_DUPLICATES and prefix + key not in duplicates[-1:]:
            duplicates.append(prefix + key)
    return rows.take(kept)


class _Encoder:
    """Encodes entries of objects that stay where they are."""

    def __init__(self, task: Task, failures: Failures) -> None:
        self._addresses = Addresses(task, failures)
        self._verifier = Verifier(task.choice, task.prefix, failures, task.location.account)

    @property
    def verified(self) -> int:
        """Number of objects that were verified where they are."""
        return self._verifier.count

    @property
    def places(self) -> set[str]:
        """Buckets and directories outside the namespace with the objects."""
        return self._addresses.places

    def __call__(self, rows: Rows) -> tuple[Rows, list[bytes]]:
        rows = self._verifier.checked(self._addresses.checked(rows))
        columns = Columns(
            rows.addresses, rows.sizes, rows.checksums, rows.seconds, rows.content_types
        )
        return rows, encode_external(columns)


def _encoder(
    task: Task, source: PartSource, failures: Failures, tell: Callable[[int, int], None]
) -> Any:  # noqa: ANN401
    if task.copies:
        opener = source.opener() if isinstance(source, Walked) else os.open
        return Copier(task, failures, tell, opener)
    return _Encoder(task, failures)


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
            store = store_of(uri, account=self._task.location.account)
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
    return Ingested(hasher.hexdigest(), size)
