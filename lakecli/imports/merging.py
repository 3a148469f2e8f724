"""Merging the objects of a source with the records of the branch, and counting what changes."""

from __future__ import annotations

from bisect import bisect_left

from lakecli.committed.values import is_same
from lakecli.imports.dry_run import Lister
from lakecli.imports.task import ImportTally
from lakecli.imports.tree_parts import BaseSlice, PartWriter, Records, Whole
from lakecli.repository.transfer.plan import PathAction


class Merging:
    """Merges the source's objects with the records of the branch.

    Args:
        base: the records of the branch.
        replaces: whether records that the source lacks are removed.
        sink: gets the result; ``None`` in a dry run.
        lister: lists what would be done with each path.

    Attributes:
        tally: counts of the paths so far; the caller counts the source's objects.
    """

    def __init__(
        self,
        base: BaseSlice,
        *,
        replaces: bool,
        sink: PartWriter | None,
        lister: Lister | None = None,
    ) -> None:
        self._replaces = replaces
        self._base = base
        self._sink = sink
        self._lister = lister
        self.tally = ImportTally()

    def add(self, keys: list[bytes], values: list[bytes]) -> None:
        """Add objects of the source."""
        start = 0
        while start < len(keys):
            self._pass(keys[start])
            horizon = self._base.horizon(keys[start])
            end = len(keys) if horizon is None else bisect_left(keys, horizon, start)
            self._merge(keys[start:end], values[start:end])
            start = end

    def finish(self) -> None:
        """Keep or remove the records of the branch after the source's last object."""
        self._pass(None)

    def list_before(self, path: bytes) -> None:
        """List everything before a path, after which the source's next objects are."""
        if self._lister is not None:
            self._pass(path)
            self._lister.list_failures(before=path)

    def _pass(self, limit: bytes | None) -> None:
        """Keep or remove the records of the branch before a path."""
        sink = self._sink
        for piece in self._base.before(limit):
            if self._replaces:
                self.tally.removed += piece.records if isinstance(piece, Whole) else len(piece.keys)
                if self._lister is not None:
                    self._list_removed(self._lister, piece)
            elif sink is None:
                continue
            elif isinstance(piece, Whole):
                sink.add_range(self._base, piece)
            else:
                sink.add(piece.keys, piece.values)

    def _list_removed(self, lister: Lister, piece: Whole | Records) -> None:
        found = self._base.read(piece.position) if isinstance(piece, Whole) else [piece]
        for each in found:
            rows = zip(each.keys, each.values, strict=True)
            lister.add((key, PathAction.DELETED, value) for key, value in rows)

    def _merge(self, keys: list[bytes], values: list[bytes]) -> None:
        """Merge objects with the single records of the branch between them."""
        present: dict[bytes, bytes] = {}
        for piece in self._base.before(keys[-1] + b"\0"):
            assert not isinstance(piece, Whole)  # the horizon lies within one range
            present.update(zip(piece.keys, piece.values, strict=True))
        if self._lister is not None:
            self._list_merged(self._lister, keys, values, present)
        tally = self.tally
        if not present:
            tally.added += len(keys)
        else:
            values = list(values)
            for at, key in enumerate(keys):
                old = present.pop(key, None)
                if old is None:
                    tally.added += 1
                elif is_same(old, values[at]):
                    tally.unchanged += 1
                    values[at] = old  # the record is kept as it is, times included
                else:
                    tally.changed += 1
            if self._replaces:
                tally.removed += len(present)
            elif present:
                present.update(zip(keys, values, strict=True))
                keys = sorted(present)
                values = [present[key] for key in keys]
        if self._sink is not None:
            self._sink.add(keys, values)

    def _list_merged(
        self, lister: Lister, keys: list[bytes], values: list[bytes], present: dict[bytes, bytes]
    ) -> None:
        """List objects of the source, and the records of the branch between them."""
        found = []
        for key, value in zip(keys, values, strict=True):
            old = present.get(key)
            action = PathAction.NEW if old is None else PathAction.CHANGED
            if old is not None and is_same(old, value):
                action = PathAction.UNCHANGED
            found.append((key, action, value))
        if self._replaces:
            gone = present.keys() - keys
            found += ((key, PathAction.DELETED, present[key]) for key in gone)
        lister.add(found)
