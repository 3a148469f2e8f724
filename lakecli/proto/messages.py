"""The messages inside lakeFS's ranges, metaranges and refs dumps.

They are lakeFS's ``catalog.Entry``, ``committed.RangeData`` and ``graveler.CommitData``. The fields
are numbered in their order, from 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from lakecli.proto.codec import BYTES, INT32, INT64, TEXT, UINT64, Message

TIMESTAMP: Final = Message(seconds=INT64, nanos=INT32)

PAIR: Final = Message(key=TEXT, value=TEXT)
"""An item of a ``map<string, string>``, which on the wire is a repeated message."""

ENTRY: Final = Message(
    address=TEXT,  # relative to the storage namespace, or a full URI
    last_modified=TIMESTAMP,
    size=INT64,
    e_tag=TEXT,  # the checksum
    metadata=[PAIR],  # sorted by key when we write
    address_type=INT32,  # 0 deprecated, 1 relative, 2 full
    content_type=TEXT,
)

RANGE_DATA: Final = Message(
    min_key=BYTES,
    max_key=BYTES,
    estimated_size=UINT64,  # in bytes; we write the exact size of the file
    count=INT64,
)

COMMIT_DATA: Final = Message(
    id=TEXT,
    committer=TEXT,
    message=TEXT,
    creation_date=TIMESTAMP,
    meta_range_id=TEXT,
    metadata=[PAIR],
    parents=[TEXT],
    version=INT32,  # 1: the main parent is the first; 0: the last
    generation=INT32,
)

BRANCH_DATA: Final = Message(id=TEXT, commit_id=TEXT)  # lakeFS has more; dumps set only these
TAG_DATA: Final = Message(id=TEXT, commit_id=TEXT)


def pairs_of(items: Mapping[str, str]) -> list[dict[str, str]]:
    """Return a map as lakecli writes it, sorted by the bytes of its keys.

    Raises:
        UnicodeEncodeError: a key is not UTF-8.
    """
    return [{"key": key, "value": items[key]} for key in sorted(items, key=str.encode)]


def map_of(pairs: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return pairs as a map; of several with the same key, the last one wins."""
    return {pair["key"]: pair["value"] for pair in pairs}


def seconds_of(timestamp: Mapping[str, Any] | None) -> int:
    """Return the unix seconds of a timestamp, 0 if it is absent."""
    return timestamp["seconds"] if timestamp else 0
