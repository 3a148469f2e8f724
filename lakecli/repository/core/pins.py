"""Pinned addresses: the address of one version of an object outside the namespace.

An address is a URI. With ``?versionId=ID`` at its end it names one version of the object, and not
the current one::

    s3://bucket/key                  the current object
    s3://bucket/key?versionId=ID     one version of it
    s3://bucket/key?versionId=a?versionId=     the current object of the key "key?versionId=a"

The form is the same for all schemes. An ID has letters, digits and ``._~-``, 1,024 at most. If a
key itself ends like a pinned address, an empty ID follows it, so every address has one meaning.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from lakecli.errors import UsageError

MARK: Final = "?versionId="

_MARK: Final = MARK.encode()
_ID: Final = r"[A-Za-z0-9._~-]{0,1024}"
# Compiled on first use: most addresses have no mark.
_PINNED: Final = rf"\?versionId=({_ID})\Z"
_PINNED_BYTES: Final = _PINNED.encode()


class Pin(NamedTuple):
    """The parts of an address.

    Attributes:
        uri: of the object, with the key as it is in the store.
        version_id: of the version that it names; ``""`` for the current object.
    """

    uri: str
    version_id: str


def pinned(uri: str, version_id: str) -> str:
    """Return the address of one version of the object at a URI.

    Raises:
        UsageError: the ID is empty, or has characters that no ID in an address may have.
    """
    if not version_id or not re.fullmatch(_ID, version_id):
        raise UsageError(f"not a version ID that an address can hold: {version_id!r}")
    return f"{uri}{MARK}{version_id}"


def pinned_bytes(uri: bytes, version_id: str) -> bytes:
    """Return what `pinned` does, as bytes.

    Raises:
        UsageError: as `pinned`.
    """
    return uri + pinned("", version_id).encode()


def unpinned(uri: str) -> str:
    """Return the address of the current object at a URI."""
    return uri + MARK if MARK in uri and re.search(_PINNED, uri) else uri


def unpinned_bytes(uri: bytes) -> bytes:
    """Return what `unpinned` does, as bytes."""
    return uri + _MARK if _MARK in uri and re.search(_PINNED_BYTES, uri) else uri


def split_pin(address: str) -> Pin:
    """Split an address into its parts."""
    found = re.search(_PINNED, address) if MARK in address else None
    return Pin(address, "") if found is None else Pin(address[: found.start()], found[1])


def is_pinned(address: str) -> bool:
    """Return whether an address names one version of an object outside the namespace."""
    return "://" in address and bool(split_pin(address).version_id)
