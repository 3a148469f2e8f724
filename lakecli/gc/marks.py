"""The lists of condemned objects, stored in the bucket so that any machine can continue.

::

    _lakecli/gc/marks/<epoch>-<id>/data-<prefix>   data objects: 32 bytes of digest, 8 of size each
    _lakecli/gc/marks/<epoch>-<id>/data-lakefs-…   those of lakeFS: the digest is that of the name
    _lakecli/gc/marks/<epoch>-<id>/others          all other keys, one JSON object a line
    _lakecli/gc/marks/<epoch>-<id>/summary         their numbers by branch and tag, see `report`

The lists name candidates only: the sweep itself finds out what is in use. Anybody who can write to
the bucket can write a list, so each is validated and must be older than the grace period.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Final

from lakecli.base.layout import GC
from lakecli.base.parsing import parse_json_object
from lakecli.errors import IntegrityError
from lakecli.gc.data_objects import DIGEST, RECORD, split
from lakecli.gc.report import KINDS, MAX_SUMMARY_SIZE, Doomed, Summary, dump_summary, parse_summary
from lakecli.remote.collection import EXPIRED, MAX_EXPIRED_SIZE, read_expired
from lakecli.stores.contract import ANY, ObjectNotFound

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore

MARKS: Final = GC + "marks/"

MAX_OTHERS_SIZE: Final = 256 << 20
"""Bytes of the list of other keys, at most; the next collection condemns the rest."""

MAX_PART_SIZE: Final = 1 << 30
"""Bytes of a list of data objects, at most: 27 million in each of 256 parts."""

_DATA: Final = "data-"
_PART: Final = re.compile(r"[0-9a-f]{2}|all|lakefs-[0-9a-z]{3,20}")
_MAX_LINE: Final = 16 << 10
_MAX_OBJECT: Final = 1 << 50


class LostMarks(IntegrityError):
    """A list of condemned objects is missing or damaged."""

    def __init__(self, key: str, why: str = "it is missing") -> None:
        super().__init__(
            f"the list of condemned objects is missing or damaged: {key}: {why}",
            hint="undo the condemnation: lakecli gc undo lakefs://REPOSITORY",
        )


class Marks:
    """The lists of one condemnation.

    Args:
        store: the namespace.
        name: ``<epoch>-<id>``.
    """

    def __init__(self, store: ObjectStore, name: str) -> None:
        self._store = store
        self.name = name
        self.prefix = f"{MARKS}{name}/"

    def put_data(self, part: str, records: bytes) -> None:
        """Write the condemned data objects of one part of the listing."""
        self._put(_DATA + part, records)

    def put_others(self, doomed: Iterable[Doomed]) -> None:
        """Write all other condemned objects."""
        lines, size = [], 0
        for each in doomed:
            fields = {"key": each.key, "size": each.size, "kind": each.kind}
            line = json.dumps(fields, separators=(",", ":")) + "\n"
            size += len(line)
            if size > MAX_OTHERS_SIZE:
                break
            lines.append(line)
        self._put("others", "".join(lines).encode("ascii"))

    def put_summary(self, summary: Summary) -> None:
        """Write what is condemned, by branch and tag."""
        self._put("summary", dump_summary(summary))

    def summary(self) -> Summary | None:
        """Return what is condemned, by branch and tag; ``None`` if it is not known.

        Earlier versions wrote none. Nothing depends on it, so a damaged one stops nobody.
        """
        try:
            return parse_summary(self._get("summary", MAX_SUMMARY_SIZE))
        except LostMarks:
            return None

    def newest(self) -> datetime:
        """Return when the newest of the lists was written, by the bucket's clock.

        Raises:
            LostMarks: there are none.
        """
        dates = [info.modified_at for info in self._store.list(self.prefix)]
        if not dates:
            raise LostMarks(self.prefix)
        return max(dates)

    def data_parts(self) -> list[str]:
        """Return the names of the parts of data objects."""
        start = self.prefix + _DATA
        names = [info.key.removeprefix(start) for info in self._store.list(start)]
        return [name for name in names if _PART.fullmatch(name)]

    def data(self, part: str) -> bytes:
        """Return the records of a part, ascending.

        Raises:
            LostMarks: the list is missing or damaged.
        """
        records = self._get(_DATA + part, MAX_PART_SIZE)
        lead = bytes.fromhex(part) if len(part) == len("00") else b""
        last = b""
        for record in split(records):
            digest = record[:DIGEST]
            if len(record) != RECORD or digest <= last or not digest.startswith(lead):
                raise LostMarks(self.prefix + _DATA + part, "its records are out of order")
            last = digest
        return records

    def others(self) -> list[Doomed]:
        """Return all other condemned objects.

        Raises:
            LostMarks: the list is missing, or a line of it is damaged.
        """
        found = []
        for line in self._get("others", MAX_OTHERS_SIZE).splitlines():
            try:
                found.append(_parse_doomed(line))
            except (KeyError, TypeError, ValueError) as error:
                raise LostMarks(self.prefix + "others", f"line {len(found) + 1}") from error
        return found

    def delete(self) -> None:
        """Delete the lists."""
        self._store.delete([info.key for info in self._store.list(self.prefix)])

    def _put(self, name: str, body: bytes) -> None:
        self._store.put(self.prefix + name, body, ANY)

    def _get(self, name: str, limit: int) -> bytes:
        try:
            data = self._store.get(self.prefix + name, start=0, length=limit + 1)
        except ObjectNotFound:
            raise LostMarks(self.prefix + name) from None
        if len(data) > limit:
            raise LostMarks(self.prefix + name, f"more than {limit} bytes")
        return data


def _parse_doomed(line: bytes) -> Doomed:
    fields = parse_json_object(line, max_size=_MAX_LINE)
    key, size, kind = fields["key"], fields["size"], fields["kind"]
    if not isinstance(key, str) or type(size) is not int or not 0 <= size < _MAX_OBJECT:
        raise ValueError("a key or a size is none")
    if kind not in KINDS or not key.startswith(KINDS[kind][0]):
        raise ValueError(f"a key of another kind than {kind!r}")
    return Doomed(key, size, kind)


def add_expired(store: ObjectStore, epoch: int, trees: Iterable[str]) -> None:
    """Record metaranges that are about to be deleted because no retained commit has them.

    Earlier records of the epoch stay: a sweep may continue an interrupted one.
    """
    key = f"{EXPIRED}{epoch}"
    noted = set(read_expired(store, key))
    new = set(trees) - noted
    for info in store.list(f"{key}-"):
        new.difference_update(read_expired(store, info.key))
    if not new:
        return
    body = _pack_ids(new | noted)
    if len(body) > MAX_EXPIRED_SIZE:
        key, body = f"{key}-{min(new)}", _pack_ids(new)
    store.put(key, body, ANY)


def _pack_ids(ids: Iterable[str]) -> bytes:
    """Return hex IDs as 32 bytes each, in ascending order."""
    return b"".join(bytes.fromhex(each) for each in sorted(ids))
