"""The peer of imports and listings: protobuf's own classes encode and decode the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyarrow import parquet

from lakecli.committed.values import decode_value
from tests.proto.oracle import message_class

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_OUTSIDE = 2
"""The type of an address that is a URI."""


def encoded(listing: Path) -> Iterator[bytes]:
    """Read the rows of a listing in Parquet, and yield the message of each."""
    message = message_class("Entry")
    for batch in parquet.ParquetFile(listing).iter_batches():
        for row in batch.to_pylist():
            yield message(
                address=row["physical_address"],
                last_modified={"seconds": row["mtime"]},
                size=row["size"],
                e_tag=row["checksum"],
                address_type=_OUTSIDE,
            ).SerializeToString()


def messages(values: Iterable[bytes]) -> list[bytes]:
    """Return the messages in the values of entries."""
    return [decode_value(value)[1] for value in values]


def decode(encoded_messages: Iterable[bytes]) -> None:
    """Decode messages, and read each of their fields."""
    message = message_class("Entry")
    for data in encoded_messages:
        entry = message.FromString(data)
        entry.address, entry.size, entry.e_tag, entry.content_type  # noqa: B018
        entry.last_modified.seconds  # noqa: B018
        dict.fromkeys(pair.key for pair in entry.metadata)
