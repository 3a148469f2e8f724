"""Compare the bytes of two entries whose checksums cannot be compared: ``--compare-contents``."""

from __future__ import annotations

from lakecli.committed.conflicts import have_unlike_checksums
from lakecli.committed.lru_cache import LruCache
from lakecli.committed.values import decode_entry
from lakecli.repository.core.read import read_object
from lakecli.typed import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.repository.core.lake import Repository

_REMEMBERED: Final = 1 << 20
"""Results that are kept."""


class SameBytes:
    """Tells whether the objects of two entries have the same bytes, whatever types they have.

    Only entries of one size are read, one of which has an MD5 and the other a BLAKE3; two objects
    at a time, a piece of each, up to the first difference. A merge that compares a path twice reads
    it once.

    Args:
        repository: whose entries.
    """

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._known: LruCache[tuple[str, str], bool] = LruCache(_REMEMBERED)

    def __call__(self, path: bytes, left: bytes, right: bytes) -> bool:
        """Return whether the objects of two encoded entries have the same bytes.

        Raises:
            NotFound: an object is missing.
            IntegrityError: an object is damaged.
            OutsideAddress: an object lies where this user has not allowed to read.
        """
        del path
        if not have_unlike_checksums(left, right):
            return False
        entries = decode_entry(left), decode_entry(right)
        addresses = entries[0].physical_address, entries[1].physical_address
        known = self._known.get(addresses)
        if known is None:
            known = _are_equal(*(read_object(self._repository, each) for each in entries))
            self._known.put(addresses, known, 1)
        return known


def _are_equal(one: Iterator[bytes], other: Iterator[bytes]) -> bool:
    """Return whether two streams have the same bytes, however these are cut into pieces."""
    ours = theirs = b""
    while True:
        ours = ours or next(one, b"")
        theirs = theirs or next(other, b"")
        size = min(len(ours), len(theirs))
        if not size:
            return not ours and not theirs
        if ours[:size] != theirs[:size]:
            return False
        ours, theirs = ours[size:], theirs[size:]
