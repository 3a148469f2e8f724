"""Where a range ends: a function of the keys alone.

Let x be the first 8 bytes of ``h(key)``, little-endian, n the number of records since the last cut,
including the key's own, and N the repository's ``range_entries``. A range ends after a key if

- ``x mod N == 0``, or
- ``n >= N`` and ``x mod (N / 8) == 0``, or
- ``n == 4 N``.

The first clause alone gives ranges of N records on average, but some would be many times as long.
The second ends a long range soon, at keys where later versions of the tree also end a range. The
third is an upper bound. Trees in buckets depend on this rule: it must never change within a tree
version.
"""

import re

from lakecli.base.identity import DIGEST_SIZE
from lakecli.base.layout import MIN_RANGE_ENTRIES


def key_number(key_digest: bytes) -> int:
    """Return the number x of the splitting rule, given ``h(key)``."""
    return int.from_bytes(key_digest[:8], "little")


class Splitter:
    """The splitting rule of this module, for one value of N.

    Attributes:
        range_entries: N, a power of two of at least `MIN_RANGE_ENTRIES`.

    Raises:
        ValueError: `range_entries` is not a power of two, or too small.
    """

    __slots__ = ("_candidates", "range_entries")

    def __init__(self, range_entries: int) -> None:
        if range_entries < MIN_RANGE_ENTRIES or range_entries & (range_entries - 1):
            what = f"no power of two from {MIN_RANGE_ENTRIES}: {range_entries}"
            raise ValueError(f"range_entries is {what}")
        self.range_entries = range_entries
        # A cut by the value of x needs a multiple of N / 8: the lowest byte rules out nearly every
        # key.
        lowest = bytes(range(0, 256, min(range_entries // 8, 256)))
        self._candidates = re.compile(b"[%b]" % re.escape(lowest)).finditer

    def is_cut(self, key_digest: bytes, entries: int) -> bool:
        """Return whether a range ends after a key.

        Args:
            key_digest: ``h(key)``.
            entries: n of the rule, which includes the key's own record.
        """
        number = self.range_entries
        x = key_number(key_digest)
        is_late_cut = entries >= number and x % (number // 8) == 0
        return x % number == 0 or is_late_cut or entries == 4 * number

    def cuts(self, key_digests: bytes, entries: int) -> list[int]:
        """Return the positions of the keys after which a range ends, in order.

        Args:
            key_digests: ``h(key)`` of consecutive records, concatenated.
            entries: the number of records between the last cut and the first of these keys.
        """
        number = self.range_entries
        largest = 4 * number
        found: list[int] = []
        start = -entries
        for at in (each.start() for each in self._candidates(key_digests[::DIGEST_SIZE])):
            while at - start >= largest:
                start += largest
                found.append(start - 1)
            if self.is_cut(key_digests[at * DIGEST_SIZE : (at + 1) * DIGEST_SIZE], at - start + 1):
                start = at + 1
                found.append(at)
        while len(key_digests) // DIGEST_SIZE - start >= largest:
            start += largest
            found.append(start - 1)
        return found
