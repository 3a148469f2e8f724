"""The object whose contents an upload expects, and the digests that recognise them.

lakecli names its own objects by their BLAKE3. Of an object that lakeFS uploaded whole only the MD5
is known, which its entry records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from blake3 import blake3

from lakecli.base.identity import is_md5
from lakecli.base.ids import DataDigest


class Expected(NamedTuple):
    """The object that a branch has where a file is uploaded.

    Attributes:
        digest: the BLAKE3 of its bytes in 64 hex digits, or their MD5 in 32.
        size: in bytes.
        exists: says whether the object of an MD5 is in its store, with this size.
    """

    digest: str
    size: int
    exists: Callable[[], bool] = lambda: False

    @property
    def md5(self) -> str:
        """The MD5, or ``""`` if the BLAKE3 is known."""
        return self.digest if is_md5(self.digest) else ""

    def is_blake3(self, digest: str, size: int) -> bool:
        """Return whether this is the object of a BLAKE3."""
        return (self.digest, self.size) == (digest, size)


def needs_md5(expected: Expected | None, size: int | None) -> bool:
    """Return whether the MD5 of contents of a size must be computed; ``None``: any size."""
    return expected is not None and bool(expected.md5) and size in {None, expected.size}


class Digests:
    """Computes the BLAKE3 of contents, and their MD5 if an object is expected by it.

    Args:
        expected: the object whose contents are expected.
        size: of the contents, in bytes, if it is known: the MD5 is not computed in vain.
    """

    def __init__(self, expected: Expected | None, size: int | None = None) -> None:
        self._blake3 = blake3()
        self._expected = expected
        self._size = 0
        self._md5 = None
        if needs_md5(expected, size):
            from hashlib import md5  # takes milliseconds to import

            self._md5 = md5(usedforsecurity=False)

    def update(self, data: bytes | memoryview) -> None:
        """Add bytes."""
        self._size += len(data)
        self._blake3.update(data)
        if self._md5 is not None:
            self._md5.update(data)

    def hexdigest(self) -> DataDigest:
        """Return the BLAKE3."""
        return DataDigest(self._blake3.hexdigest())

    def are_expected(self) -> bool:
        """Return whether the contents are those expected by their MD5, and their object exists."""
        expected = self._expected
        return (
            self._md5 is not None
            and expected is not None
            and (self._md5.hexdigest(), self._size) == (expected.md5, expected.size)
            and expected.exists()
        )
