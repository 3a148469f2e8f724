"""Import one part: merge the source's objects with the records of the branch, in any process.

`Merging` merges the objects with the records of the branch, and counts the changed paths.

The imported entries refer to the objects at their addresses. With ``--copy``, the bytes of the
objects are copied into the namespace, and the copies are named by their contents.
"""

import json
import os
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from operator import lt
from typing import BinaryIO, Final

from blake3 import blake3

from lakecli.base.content_types import content_type_of
from lakecli.base.layout import data_key
from lakecli.base.model import CLIENT_MTIME, Entry
from lakecli.committed.metaranges import Metarange
from lakecli.committed.tree_store import TreeStore
from lakecli.committed.values import Columns, encode_entry, encode_external, is_same
from lakecli.errors import IntegrityError, LakeError
from lakecli.imports import model
from lakecli.imports.address_checks import Addresses, Verifier, names_version, store_of
from lakecli.imports.dry_run import Lister
from lakecli.imports.sources import FilesSource
from lakecli.imports.tree_parts import EMPTY, BaseSlice, PartWriter, Records, Whole
from lakecli.repository.reading.addresses import split_address, split_pin
from lakecli.repository.reading.contents import with_attributes
from lakecli.repository.reading.recorded import PIECE
from lakecli.repository.transfer.ingest import Ingest, Ingested, look
from lakecli.repository.transfer.plan import PathAction
from lakecli.repository.transfer.walk import FileOpener, LinkPolicy
from lakecli.stores.read_only import at_version
from lakecli.stores.uri import is_local

SHOWN_DUPLICATES: Final = 100
"""Maximum number of repeated paths that one part lists."""

AT_ONCE: Final = 16
"""Number of objects that one part copies at a time."""

_open = threading.local()


def open_base(task: model.Task) -> tuple[TreeStore, Metarange]:
    """Return the repository's trees and the parsed base tree; a thread opens them only once."""
    key = task.location, task.base
    if getattr(_open, "key", None) != key:
        trees = task.location.trees()
        _open.found = trees, trees.metarange(task.base)
        _open.key = key
    found: tuple[TreeStore, Metarange] = _open.found
    return found


def import_item(
    task: model.Task,
    item: model.NumberedPart,
    *,
    tell: Callable[[int, int], None] = lambda _items, _size: None,
) -> model.ImportedPart | None:
    """Import one part; return ``None`` if the result of an earlier run is still valid.

    Args:
        tell: called from time to time with the number of objects done, and the number of bytes
            copied, since the last call.

    Raises:
        NotSorted: the source is not sorted by key.
        LakeError: the source or the namespace cannot be read or written.
    """
    part = item.part
    if item.known:
        hasher = blake3()
        for _ in _noted(part.source.rows(task, model.Failures()), hasher):
            pass
        if hasher.hexdigest() == item.known:
            return None
    failures, hasher = model.Failures(), blake3()
    rows = part.source.rows(task, failures)
    if part.is_live:
        rows = _noted(rows, hasher)
    result = import_rows(task, item, rows, failures, tell=tell)
    return replace(result, listed=hasher.hexdigest()) if part.is_live else result


def _noted(rows: Iterator[model.Rows], hasher: blake3) -> Iterator[model.Rows]:
    """Yield rows unchanged, and add them to the hash of all objects that a source lists."""
    for piece in rows:
        fields = [piece.sizes, piece.seconds, list(map(len, piece.keys))]
        hasher.update(json.dumps(fields).encode())
        hasher.update(b"".join(piece.keys))
        hasher.update(b" ".join(piece.checksums))
        hasher.update(b" ".join(piece.addresses))
        yield piece


def import_rows(
    task: model.Task,
    item: model.NumberedPart,
    rows: Iterator[model.Rows],
    failures: model.Failures,
    *,
    tell: Callable[[int, int], None] = lambda _items, _size: None,
) -> model.ImportedPart:
    """Import the objects of an interval of paths.

    Args:
        rows: the objects, sorted by key, read while they are imported; keys are relative to the
            prefix.
        failures: receives the failures that are found while `rows` is read, and the import's own.
        tell: see `import_item`.
    """
    part = item.part
    lister = None if task.listing is None else Lister(failures, task.listing, item.number)
    trees, base = open_base(task)
    written_before = trees.counts.ranges_written
    sink = PartWriter(trees, base) if task.writes else None
    records = BaseSlice(trees, base, part.low, part.high)
    merging = Merging(records, task.replaces, sink, lister)
    addresses = Addresses(task, failures)
    verifier = Verifier(task.choice, task.prefix, failures, task.location.account)
    copier = None
    if task.copies:
        source = part.source if isinstance(part.source, FilesSource) else None
        copier = Copier(task, failures, tell, source)
    duplicates: list[bytes] = []
    last: bytes | None = None
    prefix = task.prefix
    for piece in rows:
        merging.tally.archived += piece.archived
        if piece.keys:
            merging.list_before(prefix + piece.keys[0])
        chunk = model.check_paths(piece, prefix, failures) if piece.keys else piece
        chunk = _without_duplicates(chunk, last, prefix, duplicates) if chunk.keys else chunk
        if not chunk.keys:
            continue
        last = chunk.keys[-1]
        if prefix + chunk.keys[0] < part.low or (part.high and prefix + last >= part.high):
            raise model.NotSorted("the listing has a key outside of its interval")
        chunk = verifier.checked(addresses.checked(chunk))
        if copier is None:
            columns = chunk.addresses, chunk.sizes, chunk.checksums, chunk.seconds
            values = encode_external(Columns(*columns, chunk.content_types))
            tell(len(chunk), 0)
        else:
            chunk, values = copier.copy(chunk)
        if not chunk.keys:
            continue
        merging.tally.objects += len(chunk)
        merging.tally.size += sum(chunk.sizes)
        keys = [prefix + key for key in chunk.keys] if prefix else chunk.keys
        merging.add(keys, values)
    merging.keep_or_remove(None)
    merging.tally.archived += verifier.archived
    return model.ImportedPart(
        task.base,
        EMPTY if sink is None else sink.finish(),
        merging.tally,
        failures.count,
        tuple(failures.shown),
        tuple(duplicates),
        trees.counts.ranges_written - written_before,
        places=() if task.copies else tuple(sorted(addresses.places)),
        verified=verifier.count,
        steps=() if lister is None else lister.finish(),
    )


def _without_duplicates(
    rows: model.Rows, last: bytes | None, prefix: bytes, duplicates: list[bytes]
) -> model.Rows:
    """Leave out and record repeated keys; raise `NotSorted` if the keys are not in order."""
    keys = rows.keys
    if (last is None or last < keys[0]) and all(map(lt, keys, islice(keys, 1, None))):
        return rows
    kept = []
    for at, key in enumerate(keys):
        if last is None or key > last:
            kept.append(at)
            last = key
        elif key < last:
            raise model.NotSorted("the listing is not sorted by key")
        elif len(duplicates) < SHOWN_DUPLICATES and prefix + key not in duplicates[-1:]:
            duplicates.append(prefix + key)
    return rows.take(kept)


@dataclass
class Copier:
    """Copies objects, and encodes entries as if the objects had been uploaded.

    The bytes are durable before the encoded entries are returned.

    Args:
        failures: records the objects that cannot be copied.
        tell: called with 1 and the number of bytes for each copied object, by several threads.
        files: the files of a directory source, which are opened by the walk's rules for symbolic
            links; ``None`` for another kind of source.
    """

    _task: model.Task
    _failures: model.Failures
    _tell: Callable[[int, int], None]
    _files: FilesSource | None

    def copy(self, rows: model.Rows) -> tuple[model.Rows, list[bytes]]:
        """Copy objects; leave out objects that cannot be copied, and record why."""
        location, files = self._task.location, self._files
        ingest = Ingest(location.store(), location.guard()) if self._task.writes else None
        if files is None:  # the listing leaves out links that must not be followed
            opener = FileOpener(None, LinkPolicy.FOLLOW)
        else:
            opener = FileOpener(files.root, files.links)

        def copy_one(at: int) -> tuple[Ingested, Entry] | str:
            try:
                done = self._copy(ingest, opener, rows, at)
            except LakeError as error:
                return error.message
            except OSError as error:
                return (error.strerror or str(error)).lower()
            self._tell(1, done[0].size)
            return done

        with ThreadPoolExecutor(AT_ONCE) as pool:
            outcomes = list(pool.map(copy_one, range(len(rows))))
        if ingest is not None:
            ingest.flush([each[0] for each in outcomes if not isinstance(each, str)])
        bad = {at: each for at, each in enumerate(outcomes) if isinstance(each, str)}
        now, values = datetime.fromtimestamp(self._task.seconds, UTC), []
        for key, seconds, outcome in zip(rows.keys, rows.seconds, outcomes, strict=True):
            if isinstance(outcome, str):
                continue
            done, source = outcome
            kind = source.content_type or content_type_of(self._task.prefix + key)
            metadata = {CLIENT_MTIME: str(seconds), **source.metadata}
            entry = Entry(data_key(done.digest), done.size, done.digest, now, kind, metadata)
            values.append(encode_entry(entry))
        return self._failures.leave_out(rows, self._task.prefix, bad), values

    def _copy(
        self, ingest: Ingest | None, opener: FileOpener, rows: model.Rows, at: int
    ) -> tuple[Ingested, Entry]:
        """Copy one object, or in a dry run only read it; return the copy, and the original's entry.

        Raises:
            IntegrityError: the object has another size than the source says.
        """
        address = rows.addresses[at].decode("utf-8", "surrogateescape")
        plain, version_id = split_pin(address)
        uri, key = split_address(plain)
        given = rows.content_types[at].decode() if rows.content_types else ""
        found = Entry(address, rows.sizes[at], "", datetime.fromtimestamp(0, UTC), given)
        if is_local(uri):
            path = os.fsencode(f"{uri.removeprefix('local://').rstrip('/')}/{key}")
            with opener.open(path) as file:
                done = look(file) if ingest is None else ingest.file(file)
        else:
            store = at_version(store_of(uri, account=self._task.location.account), version_id)
            found = with_attributes(found, store, key)
            with store.open(key) as source:
                done = _read(source) if ingest is None else ingest.stream(source)
        if done.size != rows.sizes[at]:
            raise IntegrityError(f"it has {done.size} bytes instead of {rows.sizes[at]}")
        return done, found


def _read(source: BinaryIO) -> Ingested:
    hasher, size = blake3(), 0
    while piece := source.read(PIECE):
        hasher.update(piece)
        size += len(piece)
    return Ingested(hasher.hexdigest(), size)


@dataclass
class Merging:
    """Merges the source's objects with the records of the branch.

    Args:
        replaces: whether records that the source lacks are removed.
        sink: writes the resulting records; ``None`` in a dry run.
        lister: lists what would be done with each path.

    Attributes:
        tally: counts of the paths so far; the caller counts the source's objects.
    """

    _base: BaseSlice
    _replaces: bool
    _sink: PartWriter | None
    _lister: Lister | None
    tally: model.ImportTally = field(default_factory=model.ImportTally)

    def add(self, keys: list[bytes], values: list[bytes]) -> None:
        """Merge objects of the source, given by their paths in ascending order and their values."""
        start = 0
        while start < len(keys):
            self.keep_or_remove(keys[start])
            horizon = self._base.horizon(keys[start])
            end = len(keys) if horizon is None else bisect_left(keys, horizon, start)
            self._merge(keys[start:end], values[start:end])
            start = end

    def list_before(self, path: bytes) -> None:
        """List all paths before `path`, the first path of the source's next rows."""
        if self._lister is not None:
            self.keep_or_remove(path)
            self._lister.list_failures(before=path)

    def keep_or_remove(self, limit: bytes | None) -> None:
        """Keep or remove the records of the branch before a path; ``None``: all that are left."""
        sink = self._sink
        for piece in self._base.before(limit):
            if self._replaces:
                self.tally.removed += piece.records if isinstance(piece, Whole) else len(piece.keys)
                if self._lister is not None:
                    self._list_removed(self._lister, piece)
            elif isinstance(piece, Whole):
                if sink is not None:
                    sink.add_range(self._base, piece)
            elif sink is not None:
                sink.add(piece.keys, piece.values)

    def _list_removed(self, lister: Lister, piece: Whole | Records) -> None:
        for each in self._base.read(piece.position) if isinstance(piece, Whole) else [piece]:
            rows = zip(each.keys, each.values, strict=True)
            lister.add((key, PathAction.DELETED, value) for key, value in rows)

    def _merge(self, keys: list[bytes], values: list[bytes]) -> None:
        """Merge objects with the records of the branch at and between their paths."""
        present: dict[bytes, bytes] = {}
        for piece in self._base.before(keys[-1] + b"\0"):
            assert not isinstance(piece, Whole)  # the horizon lies within one range
            present.update(zip(piece.keys, piece.values, strict=True))
        if not present and self._lister is None:
            self.tally.added += len(keys)
        else:
            values = list(values)
            self._compare(keys, values, present)
            if present and not self._replaces:
                present.update(zip(keys, values, strict=True))
                keys = sorted(present)
                values = [present[key] for key in keys]
        if self._sink is not None:
            self._sink.add(keys, values)

    def _compare(self, keys: list[bytes], values: list[bytes], present: dict[bytes, bytes]) -> None:
        """Count and list the changes at the paths of objects, and the records to remove.

        Args:
            values: the values of the objects; for an unchanged object, the record of the branch
                replaces the value, to keep its times.
            present: the records of the branch; records at `keys` are removed.
        """
        tally, found = self.tally, []
        for at, key in enumerate(keys):
            old, new = present.pop(key, None), values[at]
            if old is None:
                action = PathAction.NEW
                tally.added += 1
            elif is_same(old, new):
                action = PathAction.UNCHANGED
                tally.unchanged += 1
                values[at] = old
            else:
                action = PathAction.CHANGED
                tally.changed += 1
                tally.unpinned += names_version(old) and not names_version(new)
            found.append((key, action, new))
        if self._replaces:
            tally.removed += len(present)
            found += ((key, PathAction.DELETED, value) for key, value in present.items())
        if self._lister is not None:
            self._lister.add(found)
