"""Checksums of S3: CRC32, CRC32C, CRC64NVME, SHA-1 and SHA-256, of objects and of their parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol


class Hasher(Protocol):
    """A checksum that is computed piece by piece."""

    def update(self, data: bytes, /) -> object:
        """Take the next bytes."""

    def digest(self) -> bytes:
        """Return the checksum of the bytes taken so far."""


PREFIX: Final = "x-amz-checksum-"
ALGORITHMS: Final[dict[str, Callable[[], Hasher]]] = {}
"""By the names that follow `PREFIX` in a header, in lower case."""


def named(name: str) -> str:
    """Return the algorithm that a client names, in any case; raise `S3Error`: InvalidRequest."""
    raise NotImplementedError


def sent(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the checksums in headers, base64 by algorithm; raise `S3Error`: InvalidRequest."""
    raise NotImplementedError


def headers_of(checksums: Mapping[str, str], request: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that answer a GET or HEAD with the checksums of the whole object.

    There are none unless the client asks (``x-amz-checksum-mode``), and none if it asks for a
    range: clients compare the checksum with the bytes that they got.
    """
    raise NotImplementedError


def composite(algorithm: str, parts: Sequence[str]) -> str:
    """Return the checksum of an object from those of its parts: the checksum of checksums."""
    raise NotImplementedError


def joined(algorithm: str, parts: Iterable[tuple[str, int]]) -> str:
    """Return the CRC of a whole object from the CRCs and sizes of its parts, base64."""
    raise NotImplementedError
