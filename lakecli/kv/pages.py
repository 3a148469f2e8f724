"""Checking the file of the local store for damage, without mapping it.

LMDB maps its file, and SIGBUS kills a process that accesses a page beyond the end of the file. So
before the store is opened, the two meta pages are read: the newer one has the number of the last
page. If the file is shorter, the pages in use are visited one by one: LMDB need not have written
free pages at the end.

::

    page  number (8) ‖ 2 bytes ‖ flags (2) ‖ lower (2) ‖ upper (2), or pages of an overflow (4)
    meta  page header ‖ magic (4) ‖ version (4) ‖ address (8) ‖ map size (8)
          ‖ tree of free pages ‖ main tree ‖ last page (8) ‖ transaction (8)
    tree  page size (4) ‖ flags (2) ‖ depth (2) ‖ four counts (32) ‖ root (8)

All numbers are little-endian. LMDB uses the machine's byte order; stores of big-endian machines are
not supported.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from time import sleep

from lakecli.named_tuple import NamedTuple
from lakecli.typed import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.directories import StrPath

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
"""Seconds before each attempt: pages that another process is writing may look damaged."""


class _Meta(NamedTuple):
    page_size: int
    roots: tuple[int, int]
    last_page: int
    transaction: int


class _DamageError(Exception):
    """Damage of the file; used inside this module only."""


def find_damage(directory: StrPath, *, every_page: bool) -> str | None:
    """Return the damage of a store's file, or ``None`` if it is sound or absent.

    Other processes may be writing meanwhile.

    Args:
        directory: of the store.
        every_page: check all pages in use, not only whether the file is long enough.

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
            _check(descriptor, every_page=every_page)
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


def _check(descriptor: int, *, every_page: bool) -> None:
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
    if size >= needed and not every_page:
        return
    _Walk(descriptor, page_size, size).run(newest)
    with suppress(OSError):  # no page in use is missing: the next process need not walk again
        grow(descriptor, needed)


def _read_meta(data: bytes) -> _Meta:
    if len(data) < _META.size:
        raise _DamageError(f"{DATA_FILE} ends within its first pages")
    fields = _META.unpack(data)
    _, _, flags, _, _, magic, version, _, _ = fields[:9]
    if magic != _MAGIC or version != _VERSION or not flags & _META_PAGE:
        raise _DamageError(f"{DATA_FILE} does not begin with a meta page")
    free, main = fields[9:17], fields[17:25]
    page_size = free[0]
    if page_size not in {1 << shift for shift in range(9, 17)}:
        raise _DamageError(f"{DATA_FILE} has an impossible page size")
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
                raise _DamageError(f"{DATA_FILE} is nested too deeply at page {number}")
            page = self._read(number)
            _, _, flags, lower, _ = _HEADER.unpack_from(page)
            kind = flags & _KINDS
            if kind == _BRANCH:
                pending += [(child, depth + 1) for child in _children(page, lower)]
            elif kind == _LEAF:
                for large in _large_values(page, lower):
                    self._check_large(large)
            else:
                raise _DamageError(f"page {number} of {DATA_FILE} is of an unknown kind")

    def _read(self, number: int) -> bytes:
        if number >= self._end:
            raise _DamageError(f"{DATA_FILE} ends before page {number}, which is in use")
        page = os.pread(self._descriptor, self._page_size, number * self._page_size)
        if len(page) != self._page_size or _HEADER.unpack_from(page)[0] != number:
            raise _DamageError(f"page {number} of {DATA_FILE} has another number")
        return page

    def _check_large(self, number: int) -> None:
        header = self._read(number)
        count = int.from_bytes(header[12:16], "little")
        if not header[10] & _OVERFLOW or number + count > self._end:
            raise _DamageError(f"{DATA_FILE} ends within the value at page {number}")


def _nodes(page: bytes, lower: int) -> Iterator[tuple[int, tuple[int, int, int, int]]]:
    """Yield the offset and the header of every node of a page."""
    if not _HEADER.size <= lower <= len(page):
        raise _DamageError(f"{DATA_FILE} has a page with invalid offsets")
    for (offset,) in struct.iter_unpack("<H", page[_HEADER.size : lower & ~1]):
        if not lower <= offset <= len(page) - _NODE.size:
            raise _DamageError(f"{DATA_FILE} has a page with invalid offsets")
        yield offset, _NODE.unpack_from(page, offset)


def _children(page: bytes, lower: int) -> Iterator[int]:
    for _, (low, high, flags, _) in _nodes(page, lower):
        yield low | high << 16 | flags << 32


def _large_values(page: bytes, lower: int) -> Iterator[int]:
    """Yield the first page of each value that is stored in separate pages."""
    for offset, (_, _, flags, key_size) in _nodes(page, lower):
        if flags & _IS_LARGE:
            start = offset + _NODE.size + key_size
            yield int.from_bytes(page[start : start + 8], "little")
