"""Verify the bytes of an object in the namespace by the checksum that lakeFS recorded.

lakeFS records 32 hex digits for nearly every object, but not which of these values they are:

- for an upload in one piece: the MD5 of the bytes;
- for a multipart upload through its S3 gateway: the ETag of S3 without its ``-N``. This is the MD5
  of the MD5s of the parts; only the uploading program knows the size of the parts;
- for an upload by a presigned URL: the ETag of the bucket, which is not a digest of the bytes if
  the bucket encrypts with keys of its own (SSE-KMS, SSE-C).

So if one of the first two values, computed from the bytes, is the checksum, the bytes are those
that were uploaded. If neither is, that proves nothing: then only the size can be verified.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hashlib import _Hash

MIB: Final = 1 << 20
PART_SIZES: Final = tuple(MIB * size for size in (5, 8, 10, 15, 16, 32, 50, 64, 100, 128))
"""The part sizes that are tried: the defaults of aws, boto3, S3A, rclone, s3cmd, s3fs, Arrow, Trino
and EMRFS."""


class LakeFsHasher:
    """Computes all digests that lakeFS may have recorded for an object with these bytes.

    Args:
        size: the size of the object in bytes; only smaller part sizes are tried.
    """

    def __init__(self, size: int) -> None:
        self._whole = _new()
        self._parted = [PartedHasher(each, _new) for each in PART_SIZES if each < size]

    def update(self, data: bytes | memoryview, /) -> None:
        """Add bytes to the hashed data."""
        self._whole.update(data)
        for each in self._parted:
            each.update(data)

    def has(self, checksum: str) -> bool:
        """Return whether a checksum, with or without ``-N``, is a digest of all added bytes."""
        whole = self._whole.digest()
        # An upload in parts may have a single part, of any size.
        found = {whole.hex(), _new(whole).hexdigest(), *(each.hexdigest() for each in self._parted)}
        return checksum.partition("-")[0] in found


class PartedHasher:
    """Splits data into parts of one size, and hashes the concatenated digests of the parts.

    Empty data has no parts.

    Args:
        size: the size in bytes of all parts but the last one.
        new: creates a hasher.
    """

    def __init__(self, size: int, new: "Callable[[], _Hash]") -> None:
        self._size = self._left = size
        self._new = new
        self._part, self._parts = new(), new()

    def update(self, data: bytes | memoryview, /) -> None:
        """Add bytes to the hashed data."""
        view = memoryview(data)
        while len(view) > self._left:  # a full part ends only when more bytes follow
            self._part.update(view[: self._left])
            view = view[self._left :]
            self._parts.update(self._part.digest())
            self._part, self._left = self._new(), self._size
        self._part.update(view)
        self._left -= len(view)

    def hexdigest(self) -> str:
        """Return the digest of the concatenated digests of all parts."""
        parts = self._parts.copy()
        if self._left < self._size:
            parts.update(self._part.digest())
        return parts.hexdigest()


def _new(data: bytes = b"") -> "_Hash":
    from hashlib import md5  # takes milliseconds to import

    return md5(data, usedforsecurity=False)
