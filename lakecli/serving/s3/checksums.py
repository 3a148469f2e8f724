"""Checksums of S3: CRC32, CRC32C, CRC64NVME, SHA-1 and SHA-256, of objects and of their parts.

Headers and documents have checksums in base64. CRC64NVME is the default of the AWS CLI; none of
lakecli's dependencies computes it, so the compiled core does.
"""

import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
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
_OTHER: Final = frozenset({"algorithm", "mode", "type"})
_COUNT: Final = re.compile("[1-9][0-9]{0,4}", re.ASCII)


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


def checked(algorithm: str, text: str, *, of_upload: bool = False) -> str:
    """Return a checksum that a client sent, in canonical base64.

    Args:
        algorithm: a key of `ALGORITHMS`.
        text: the checksum as the client sent it.
        of_upload: whether the text may be a checksum of the parts' checksums; see `composite`.

    Raises:
        S3Error: InvalidRequest; the checksum is malformed.
    """
    whole, dash, count = text.strip().partition("-")
    digest = decoded(whole)
    is_sound = not dash or (of_upload and _COUNT.fullmatch(count) is not None)
    if len(digest) != _SIZES[algorithm] or not is_sound:
        raise S3Error("InvalidRequest", f"The value of {PREFIX}{algorithm} is invalid.")
    return encoded(digest) + dash + count


def sent(headers: Mapping[str, str], *, of_upload: bool = False) -> dict[str, str]:
    """Return the checksums in headers, in base64, by algorithm.

    Args:
        of_upload: whether the request is CompleteMultipartUpload: its checksums are those of the
            object, not of the body.

    Raises:
        S3Error: InvalidRequest; a checksum is malformed, or there are several.
    """
    found = ((name.removeprefix(PREFIX), name) for name in headers if name.startswith(PREFIX))
    sums = {
        named(algorithm): checked(algorithm, headers[name], of_upload=of_upload)
        for algorithm, name in found
        if algorithm not in _OTHER
    }
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


def composite(algorithm: str, parts: Sequence[str]) -> str:
    """Return the checksum of an object as the checksum of its parts' checksums."""
    hasher = ALGORITHMS[algorithm]()
    for part in parts:
        hasher.update(b64decode(part))
    return f"{encoded(hasher.digest())}-{len(parts)}"
