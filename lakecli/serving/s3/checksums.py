"""Checksums of S3: CRC32, CRC32C, CRC64NVME, SHA-1 and SHA-256, of objects and of their parts.

Headers and documents have checksums in base64. CRC64NVME is the default of the AWS CLI; none of
lakecli's dependencies computes it, so the compiled core does.
"""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from hashlib import sha1, sha256
from typing import Final, Protocol

import google_crc32c

from lakecli import native
from lakecli.serving.s3.errors import S3Error


class ChecksumHasher(Protocol):
    """A checksum that is computed piece by piece."""

    def update(self, data: bytes, /) -> object:
        """Take the next bytes."""

    def digest(self) -> bytes:
        """Return the checksum of the bytes taken so far."""


_CRC64_POLYNOMIAL: Final = 0x9A6C9329AC4BC9B5
_ALL_ONES: Final = (1 << 64) - 1


@lru_cache(1)
def _crc64_table() -> list[int]:
    table = list(range(256))
    for _ in range(8):
        table = [each >> 1 ^ (_CRC64_POLYNOMIAL if each & 1 else 0) for each in table]
    return table


def python_crc64nvme(data: bytes, crc: int) -> int:
    """Return the CRC64NVME of all bytes so far, in Python instead of in the compiled core.

    Args:
        data: the next bytes.
        crc: the CRC64NVME of the bytes before `data`; 0 if there are none.
    """
    table = _crc64_table()
    crc ^= _ALL_ONES
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ _ALL_ONES


def _crc64nvme(data: bytes, crc: int) -> int:
    core = native.core()
    return core.crc64nvme(data, crc) if core is not None else python_crc64nvme(data, crc)


class _CrcHasher:
    """A CRC that is computed piece by piece.

    Args:
        size: the size of the CRC in bytes.
        extend: returns the CRC continued over more bytes, from these bytes and the CRC so far.
    """

    def __init__(self, size: int, extend: Callable[[bytes, int], int]) -> None:
        self._size = size
        self._extend = extend
        self._value = 0

    def update(self, data: bytes, /) -> None:
        self._value = self._extend(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(self._size)


PREFIX: Final = "x-amz-checksum-"

ALGORITHMS: Final[Mapping[str, Callable[[], ChecksumHasher]]] = {
    "crc32": partial(_CrcHasher, 4, zlib.crc32),
    "crc32c": partial(_CrcHasher, 4, lambda data, crc: int(google_crc32c.extend(crc, data))),
    "crc64nvme": partial(_CrcHasher, 8, _crc64nvme),
    "sha1": partial(sha1, usedforsecurity=False),
    "sha256": sha256,
}
"""Constructors of hashers by the algorithm's name, as it follows `PREFIX` in a header."""

_SIZES: Final = {name: len(hasher().digest()) for name, hasher in ALGORITHMS.items()}
_OTHER: Final = frozenset({f"{PREFIX}algorithm", f"{PREFIX}mode", f"{PREFIX}type"})


def named(name: str) -> str:
    """Return the key in `ALGORITHMS` for a name that a client sent in any case.

    Raises:
        S3Error: InvalidRequest; the algorithm is unknown.
    """
    found = name.strip().lower()
    if found not in ALGORITHMS:
        known = ", ".join(each.upper() for each in ALGORITHMS)
        raise S3Error("InvalidRequest", f"The checksum algorithm must be one of {known}.")
    return found


def checked(algorithm: str, text: str) -> str:
    """Return a checksum that a client sent, in canonical base64.

    Args:
        algorithm: a key of `ALGORITHMS`.
        text: the checksum as the client sent it.

    Raises:
        S3Error: InvalidRequest; the checksum is malformed.
    """
    digest = decoded(text.strip())
    if len(digest) != _SIZES[algorithm]:
        what = "the checksum of all bytes in base64"
        raise S3Error("InvalidRequest", f"The value of {PREFIX}{algorithm} is not {what}.")
    return encoded(digest)


def sent(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the checksum in headers, in base64, by its algorithm.

    Raises:
        S3Error: InvalidRequest; a checksum is malformed, or there are several.
    """
    found = {
        named(name.removeprefix(PREFIX)): text
        for name, text in headers.items()
        if name.startswith(PREFIX) and name not in _OTHER
    }
    sums = {name: checked(name, text) for name, text in found.items()}
    if len(sums) > 1:
        raise S3Error("InvalidRequest", "Only one x-amz-checksum- header may be sent.")
    return sums


def encoded(digest: bytes) -> str:
    """Return a digest in base64."""
    return b64encode(digest).decode()


def decoded(text: str) -> bytes:
    """Return a digest in base64 as bytes; ``b""`` if it is malformed."""
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return b""
