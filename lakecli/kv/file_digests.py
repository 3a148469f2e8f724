"""Digests of files on this machine, kept so that an unchanged file is not read again.

::

    FILE_HASHES  paths under device ‖ 8 zero bytes -> inode ‖ size ‖ mtime ‖ ctime ‖ digest

There is one record per path; numbers are 8 bytes, big-endian. A digest is valid only while the
file's inode, size and times are all unchanged.
"""

import struct
from collections.abc import Container, Iterable, Iterator
from typing import Final, NamedTuple

from lakecli.kv.local_store import ReadTransaction, Table, WriteTransaction

MINIMUM_AGE_NS: Final = 30_000_000_000
"""A file is recorded only if it last changed this many nanoseconds before its hashing, or earlier.

A change shortly after another one may leave the file's times as they are, because the times have a
limited resolution. If a program changes a mapped page, the times change only when the page is
written back, up to 30 seconds later.
"""

_OWNER: Final = struct.Struct(">Q8x")
_FILE: Final = struct.Struct(">QQqq")
_LARGEST_TIME: Final = 2**63 - 1
"""The latest recordable time, in unix nanoseconds: the year 2262."""


class FileKey(NamedTuple):
    """The state of a local file, from ``stat``.

    Attributes:
        path: the absolute path.
        size: the size in bytes.
        mtime_ns: last change of the contents, in unix nanoseconds.
        ctime_ns: last change of the inode, in unix nanoseconds.
    """

    device: int
    inode: int
    path: bytes
    size: int
    mtime_ns: int
    ctime_ns: int


def find_digest(txn: ReadTransaction, key: FileKey) -> str | None:
    """Return the BLAKE3 of a file in this state as 64 hex digits, or ``None``."""
    if not _has_record(key):
        return None
    value = txn.get_path(Table.FILE_HASHES, _OWNER.pack(key.device), key.path)
    if value is None or not value.startswith(_state(key)):
        return None
    return value[_FILE.size :].hex()


def find_files(txn: ReadTransaction, digests: Container[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the digest and the path of every recorded file with one of these digests.

    All records are read. The files may have changed since they were recorded.
    """
    owner: bytes | None = next(_owners(txn, b""), None)
    while owner is not None:
        for path, value in txn.scan_paths(Table.FILE_HASHES, owner):
            digest = value[_FILE.size :].hex()
            if digest in digests:
                yield digest, path
        (device,) = _OWNER.unpack(owner)
        owner = next(_owners(txn, _OWNER.pack(device + 1)), None)


def _owners(txn: ReadTransaction, start: bytes) -> Iterator[bytes]:
    """Yield the owner of each device's paths; skip the owners of the rests of long paths."""
    for key in txn.scan_keys(Table.FILE_HASHES, start=start):
        if key[8:16] == bytes(8):
            yield key[:16]


def remember_digests(txn: WriteTransaction, items: Iterable[tuple[FileKey, str, int]]) -> int:
    """Record digests of files, and return how many were recorded.

    Args:
        items: files, their digests, and the start of the hashing in unix nanoseconds. A file is
            not recorded if it changed after the start, or less than `MINIMUM_AGE_NS` before it.
    """
    by_device: dict[int, dict[bytes, bytes]] = {}
    for key, digest, hashed_at_ns in items:
        is_old = max(key.mtime_ns, key.ctime_ns) <= hashed_at_ns - MINIMUM_AGE_NS
        if is_old and _has_record(key):
            records = by_device.setdefault(key.device, {})
            records[key.path] = _state(key) + bytes.fromhex(digest)
    for device, records in by_device.items():
        txn.put_paths(Table.FILE_HASHES, _OWNER.pack(device), sorted(records.items()))
    return sum(map(len, by_device.values()))


def _has_record(key: FileKey) -> bool:
    return max(map(abs, (key.mtime_ns, key.ctime_ns))) <= _LARGEST_TIME


def _state(key: FileKey) -> bytes:
    return _FILE.pack(key.inode, key.size, key.mtime_ns, key.ctime_ns)
