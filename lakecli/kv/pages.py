"""Checking that the file of the local store is whole, without mapping it.

LMDB maps its file, and SIGBUS kills a process that accesses a page beyond the end of the file. So
before the store is opened, the two meta pages are read: the newer one has the number of the last
page, and the file must reach to its end.

::

    page  number (8) ‖ 2 bytes ‖ flags (2) ‖ lower (2) ‖ upper (2)
    meta  page header ‖ magic (4) ‖ version (4) ‖ address (8) ‖ map size (8)
          ‖ tree of free pages ‖ main tree ‖ last page (8) ‖ transaction (8)
    tree  page size (4) ‖ flags (2) ‖ depth (2) ‖ four counts (32) ‖ root (8)

All numbers are little-endian. LMDB uses the machine's byte order; stores of big-endian machines are
not supported.
"""

from __future__ import annotations

import os
import struct
from time import sleep
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from lakecli.directories import StrPath

DATA_FILE: Final = "data.mdb"

_MAGIC: Final = 0xBEEFC0DE
_VERSION: Final = 1
_META: Final = struct.Struct("<QHHHHIIQQ" + 2 * "IHHQQQQQ" + "QQ")
_META_PAGE: Final = 8
_PAUSES: Final = (0.0, 0.02, 0.1)
"""Seconds before each attempt: pages that another process is writing may look damaged."""


class _Meta(NamedTuple):
    page_size: int
    last_page: int
    transaction: int


class _DamageError(Exception):
    """Damage of the file; used inside this module only."""


def find_damage(directory: StrPath, *, may_be_short: bool) -> str | None:
    """Return the damage of a store's file, or ``None`` if it is sound or absent.

    Other processes may be writing meanwhile.

    Args:
        directory: of the store.
        may_be_short: extend a file that is too short, instead of calling it damaged: a process that
            was killed may not have done that; see `grow`.

    Raises:
        OSError: the file cannot be read.
    """
    problem: str | None = None
    for pause in _PAUSES:
        if pause:
            sleep(pause)
        try:
            descriptor = os.open(f"{directory}/{DATA_FILE}", os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            _check(descriptor, may_be_short=may_be_short)
        except _DamageError as error:
            problem = str(error)
        else:
            return None
        finally:
            os.close(descriptor)
    return problem


def is_empty(directory: StrPath) -> bool:
    """Return whether a store has no file, or an empty one, which is a new store to LMDB."""
    try:
        return os.stat(f"{directory}/{DATA_FILE}").st_size == 0
    except FileNotFoundError:
        return True


def grow(descriptor: int, size: int) -> None:
    """Extend a store's file to `size` bytes; never shorten it, whatever other processes do.

    LMDB does not write pages that were allocated and freed in one transaction. If these are the
    last pages, the file is shorter than its meta page says, as if it had been truncated.
    """
    if os.fstat(descriptor).st_size < size and hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, size - 1, 1)


def _check(descriptor: int, *, may_be_short: bool) -> None:
    first = os.pread(descriptor, _META.size, 0)
    if not first:
        return  # new: LMDB creates a store in an empty file
    metas = [_read_meta(first)]
    page_size = metas[0].page_size
    metas.append(_read_meta(os.pread(descriptor, _META.size, page_size)))
    newest = max(metas, key=lambda meta: meta.transaction)
    # Read after the meta pages: the file can only have grown since.
    size = os.fstat(descriptor).st_size
    needed = (newest.last_page + 1) * page_size
    if size >= needed:
        return
    if not may_be_short:
        raise _DamageError(f"{DATA_FILE} has {size:,} bytes, of {needed:,}")
    grow(descriptor, needed)


def _read_meta(data: bytes) -> _Meta:
    if len(data) < _META.size:
        raise _DamageError(f"{DATA_FILE} ends within its first pages")
    fields = _META.unpack(data)
    _, _, flags, _, _, magic, version, _, _ = fields[:9]
    if magic != _MAGIC or version != _VERSION or not flags & _META_PAGE:
        raise _DamageError(f"{DATA_FILE} does not begin with a meta page")
    page_size = fields[9]
    if page_size not in {1 << shift for shift in range(9, 17)}:
        raise _DamageError(f"{DATA_FILE} has an impossible page size")
    return _Meta(page_size, fields[25], fields[26])
