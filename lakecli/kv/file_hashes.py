"""A cache of local files' digests, so that an unchanged file is not read again.

::

    FILE_HASHES  paths under device ‖ 8 zero bytes -> inode ‖ size ‖ mtime ‖ ctime ‖ digest

One record per path; numbers are 8 bytes, big-endian. A digest counts only if all of them are what
they were.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lakecli.kv import paths
from lakecli.kv.env import Table

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from lakecli.kv.env import ReadTransaction, WriteTransaction

MINIMUM_AGE_NS: Final = 2_000_000_000
"""A file changed again within the resolution of its times would look the same: too young."""

_OWNER: Final = struct.Struct(">Q8x")
_FILE: Final = struct.Struct(">QQqq")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKey:
    """A state of a local file, as ``stat`` tells it.

    Attributes:
        path: absolute.
        size: in bytes.
        mtime_ns: when its contents changed last, in unix nanoseconds.
        ctime_ns: when its inode changed last, likewise.
    """

    device: int
    inode: int
    path: bytes
    size: int
    mtime_ns: int
    ctime_ns: int


def find(txn: ReadTransaction, key: FileKey) -> str | None:
    """Return the BLAKE3 of a file in this state as 64 hex digits, or ``None``."""
    value = paths.get(txn, Table.FILE_HASHES, _OWNER.pack(key.device), key.path)
    if value is None or not value.startswith(_state(key)):
        return None
    return value[_FILE.size :].hex()


def find_files(txn: ReadTransaction, digests: Container[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the digest and the path of every file that had one of these digests once.

    All that is remembered is looked through, and whether a file still is what it was is not asked.
    """
    owner: bytes | None = next(_owners(txn, b""), None)
    while owner is not None:
        for path, value in paths.scan(txn, Table.FILE_HASHES, owner):
            digest = value[_FILE.size :].hex()
            if digest in digests:
                yield digest, path
        (device,) = _OWNER.unpack(owner)
        owner = next(_owners(txn, _OWNER.pack(device + 1)), None)


def _owners(txn: ReadTransaction, start: bytes) -> Iterator[bytes]:
    """Yield what records of a device begin with; those that continue long paths are left out."""
    for key in txn.scan_keys(Table.FILE_HASHES, start=start):
        if key[8:16] == bytes(8):
            yield key[:16]


def remember_many(
    txn: WriteTransaction, items: Iterable[tuple[FileKey, str]], *, now_ns: int
) -> int:
    """Remember digests of files; return of how many.

    Files whose times are less than `MINIMUM_AGE_NS` before `now_ns` (unix nanoseconds), or after
    it, are left out.
    """
    by_device: dict[int, dict[bytes, bytes]] = {}
    latest = now_ns - MINIMUM_AGE_NS
    for key, digest in items:
        if max(key.mtime_ns, key.ctime_ns) <= latest:
            records = by_device.setdefault(key.device, {})
            records[key.path] = _state(key) + bytes.fromhex(digest)
    for device, records in by_device.items():
        paths.put_many(txn, Table.FILE_HASHES, _OWNER.pack(device), sorted(records.items()))
    return sum(map(len, by_device.values()))


def _state(key: FileKey) -> bytes:
    return _FILE.pack(key.inode, key.size, key.mtime_ns, key.ctime_ns)
