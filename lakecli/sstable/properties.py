"""The properties block, read by lakecli, lakeFS and RocksDB's tools."""

from __future__ import annotations

from collections.abc import Mapping

from lakecli.proto.varint import encode_varint
from lakecli.sstable.block import encode_pairs
from lakecli.sstable.format import (
    INDEX_PARTITIONS,
    INDEX_SINGLE_LEVEL,
    INDEX_TWO_LEVEL,
    INDEX_TYPE,
)

_ONE_RESTART = 2**31 - 1

_FIXED = {
    "rocksdb.block.based.table.prefix.filtering": b"0",
    "rocksdb.block.based.table.whole.key.filtering": b"0",
    "rocksdb.column.family.id": encode_varint(2**31 - 1),
    "rocksdb.comparator": b"leveldb.BytewiseComparator",
    "rocksdb.compression": b"Snappy",
    "rocksdb.compression_options": (
        b"window_bits=-14; level=32767; strategy=0; max_dict_bytes=0; zstd_max_train_bytes=0; "
        b"enabled=0; "
    ),
    "rocksdb.creation.time": b"\0",
    "rocksdb.deleted.keys": b"\0",
    "rocksdb.external_sst_file.global_seqno": bytes(8),
    "rocksdb.external_sst_file.version": (2).to_bytes(4, "little"),
    "rocksdb.filter.size": b"\0",
    "rocksdb.fixed.key.length": b"\0",
    "rocksdb.format.version": b"\0",
    "rocksdb.index.key.is.user.key": b"\0",
    "rocksdb.index.value.is.delta.encoded": b"\0",
    "rocksdb.merge.operands": b"\0",
    "rocksdb.merge.operator": b"pebble.concatenate",
    "rocksdb.num.range-deletions": b"\0",
    "rocksdb.oldest.key.time": b"\0",
    "rocksdb.prefix.extractor.name": b"nullptr",
    "rocksdb.property.collectors": b"[static]",
}
"""Properties that lakeFS's writer gives every table, and its readers expect."""


def encode_properties(user: Mapping[str, bytes], numbers: Mapping[str, int]) -> bytes:
    """Encode the properties block.

    Args:
        user: properties without the format's own prefix, by name.
        numbers: the format's own counts and sizes, by name.
    """
    index_type = INDEX_TWO_LEVEL if INDEX_PARTITIONS in numbers else INDEX_SINGLE_LEVEL
    merged = {
        **_FIXED,
        **user,
        **{name: encode_varint(number) for name, number in numbers.items()},
        INDEX_TYPE: index_type.to_bytes(4, "little"),
    }
    pairs = sorted((name.encode("utf-8", "surrogateescape"), merged[name]) for name in merged)
    return encode_pairs(pairs, restart_interval=_ONE_RESTART)
