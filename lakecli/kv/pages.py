"""Is the file of the local store whole? Asked without mapping it.

LMDB maps its file, and whoever touches a page behind the end of the file is killed by SIGBUS
without a word. So before it is opened, the two meta pages are read: the newer one says which page
is the last. Where the file is shorter, the pages that are in use are visited one by one: the last
ones may be free, and then LMDB need not have written them.

::

    page  number (8) ‖ 2 bytes ‖ flags (2) ‖ lower (2) ‖ upper (2), or pages of an overflow (4)
    meta  page header ‖ magic (4) ‖ version (4) ‖ address (8) ‖ map size (8)
          ‖ tree of free pages ‖ main tree ‖ last page (8) ‖ transaction (8)
    tree  page size (4) ‖ flags (2) ‖ depth (2) ‖ four counts (32) ‖ root (8)

All numbers are little-endian: LMDB writes them as the machine has them, and a store of another
kind of machine is none here.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from time import sleep
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DATA_FILE: Final = "data.mdb"

_MAGIC: Final = 0xBEEFC0DE
_VERSION: Final = 1
_HEADER: Final = struct.Struct("<QHHHH")
_META: Final = struct.Struct("<QHHHHIIQQ" + 2 * "IHHQQQQQ" + "QQ")
_BRANCH, _LEAF, _OVERFLOW, _META_PAGE = 1, 2, 4, 8
_KINDS: Final = _BRANCH | _LEAF | _OVERFLOW | _META_PAGE
_NODE: Final = struct.Struct("<HHHH")
_IS_LARGE: Final = 1
_NO_PAGE: Final = 2**64 - 1
_DEEPEST: Final = 32
_PAUSES: Final = (0.0, 0.02, 0.1)
"""Seconds before each look: pages that another process is writing may look torn."""


class _Meta(NamedTuple):
    page_size: int
    roots: tuple[int, int]
    last_page: int
    transaction: int


class _DamageError(Exception):
    """What is wrong; never leaves this module."""


def find_damage(directory: Path, *, every_page: bool) -> str | None:
    """Return what is wrong with a store's file, or ``None`` where nothing is, or there is none.

    Other processes may be writing meanwhile.

    Args:
        directory: of the store.
        every_page: look at all pages that are in use, not only whether the file is long enough.

    Raises:
        OSError: it cannot be read.
    """
    problem: str | None = None
    for pause in _PAUSES:
        if pause:
            sleep(pause)
        try:
            descriptor = os.open(directory / DATA_FILE, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            _check(descriptor, every_page=every_page)
        except _DamageError as error:
            problem = str(error)
        else:
            return None
        finally:
            os.close(descriptor)
    return problem


def is_empty(directory: Path) -> bool:
    """Tell whether a store has no file, or an empty one, which LMDB takes for a new store."""
    try:
        return (directory / DATA_FILE).stat().st_size == 0
    except FileNotFoundError:
        return True


def grow(descriptor: int, size: int) -> None:
    """Make a store's file at least so long: never shorter, whatever other processes do meanwhile.

    LMDB does not write pages that became free in the transaction which took them. Where these are
    the last ones, the file is shorter than it says, as if it had been cut.
    """
    if os.fstat(descriptor).st_size < size and hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, size - 1, 1)


def _check(descriptor: int, *, every_page: bool) -> None:
    first = os.pread(descriptor, _META.size, 0)
    if not first:
        return  # new: LMDB begins a store in an empty file
    metas = [_read_meta(first)]
    page_size = metas[0].page_size
    metas.append(_read_meta(os.pread(descriptor, _META.size, page_size)))
    newest = max(metas, key=lambda meta: meta.transaction)
    # After the metas: a file that grows meanwhile is only longer.
    size = os.fstat(descriptor).st_size
    needed = (newest.last_page + 1) * page_size
    if size >= needed and not every_page:
        return
    _Walk(descriptor, page_size, size).run(newest)
    with suppress(OSError):  # nothing in use is missing, so spare the next one the walk
        grow(descriptor, needed)


def _read_meta(data: bytes) -> _Meta:
    if len(data) < _META.size:
        raise _DamageError(f"{DATA_FILE} ends within its first pages")
    fields = _META.unpack(data)
    _, _, flags, _, _, magic, version, _, _ = fields[:9]
    if magic != _MAGIC or version != _VERSION or not flags & _META_PAGE:
        raise _DamageError(f"{DATA_FILE} does not begin like a store")
    free, main = fields[9:17], fields[17:25]
    page_size = free[0]
    if page_size not in {1 << shift for shift in range(9, 17)}:
        raise _DamageError(f"{DATA_FILE} names an impossible page size")
    return _Meta(page_size, (free[7], main[7]), fields[25], fields[26])


class _Walk:
    """Visits the pages of a store that are in use."""

    def __init__(self, descriptor: int, page_size: int, size: int) -> None:
        self._descriptor = descriptor
        self._page_size = page_size
        self._end = size // page_size

    def run(self, meta: _Meta) -> None:
        for root in meta.roots:
            if root != _NO_PAGE:
                self._visit(root)

    def _visit(self, root: int) -> None:
        pending = [(root, 0)]
        while pending:
            number, depth = pending.pop()
            if depth > _DEEPEST:
                raise _DamageError(f"{DATA_FILE} is tangled at page {number}")
            page = self._read(number)
            _, _, flags, lower, _ = _HEADER.unpack_from(page)
            kind = flags & _KINDS
            if kind == _BRANCH:
                pending += [(child, depth + 1) for child in _children(page, lower)]
            elif kind == _LEAF:
                for large in _large_values(page, lower):
                    self._check_large(large)
            else:
                raise _DamageError(f"page {number} of {DATA_FILE} makes no sense")

    def _read(self, number: int) -> bytes:
        if number >= self._end:
            raise _DamageError(f"{DATA_FILE} ends before page {number}, which is in use")
        page = os.pread(self._descriptor, self._page_size, number * self._page_size)
        if len(page) != self._page_size or _HEADER.unpack_from(page)[0] != number:
            raise _DamageError(f"page {number} of {DATA_FILE} is not what it should be")
        return page

    def _check_large(self, number: int) -> None:
        header = self._read(number)
        count = int.from_bytes(header[12:16], "little")
        if not header[10] & _OVERFLOW or number + count > self._end:
            raise _DamageError(f"{DATA_FILE} ends within the value at page {number}")


def _nodes(page: bytes, lower: int) -> Iterator[tuple[int, tuple[int, int, int, int]]]:
    """Yield the offset and the header of every node of a page."""
    if not _HEADER.size <= lower <= len(page):
        raise _DamageError(f"{DATA_FILE} holds a page that makes no sense")
    for (offset,) in struct.iter_unpack("<H", page[_HEADER.size : lower & ~1]):
        if not lower <= offset <= len(page) - _NODE.size:
            raise _DamageError(f"{DATA_FILE} holds a page that makes no sense")
        yield offset, _NODE.unpack_from(page, offset)


def _children(page: bytes, lower: int) -> Iterator[int]:
    for _, (low, high, flags, _) in _nodes(page, lower):
        yield low | high << 16 | flags << 32


def _large_values(page: bytes, lower: int) -> Iterator[int]:
    """Yield the first pages of the values that lie in pages of their own."""
    for offset, (_, _, flags, key_size) in _nodes(page, lower):
        if flags & _IS_LARGE:
            start = offset + _NODE.size + key_size
            yield int.from_bytes(page[start : start + 8], "little")
