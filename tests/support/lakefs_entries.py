"""Entries as lakeFS writes them: an MD5, nanoseconds, an identity of lakeFS."""

from __future__ import annotations

from hashlib import md5, sha256
from typing import TYPE_CHECKING, Final

from lakecli.base.identity import frame_int, frame_map, frame_str
from lakecli.committed.values import encode_value
from lakecli.proto.messages import ENTRY, pairs_of
from lakecli.repository.staged.stager import Stager
from lakecli.stores.contract import ANY
from tests.support.lakes import unclaimed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakecli.repository.contract import Repository

UNKNOWN_FIELD: Final = b"\x7a\x05later"
"""Field 15 of an entry, which no lakeFS has."""

SECONDS: Final = 1_795_311_274
NANOSECONDS: Final = 123_456_789


def md5_of(contents: bytes) -> str:
    return md5(contents, usedforsecurity=False).hexdigest()


def address_of(contents: bytes) -> str:
    """Return an address in the form of lakeFS, unlike any other of these contents."""
    return f"data/g{md5_of(contents)[:18]}/{md5_of(contents)[12:]}"


def lakefs_value(
    contents: bytes,
    *,
    address: str | None = None,
    checksum: str | None = None,
    content_type: str = "application/octet-stream",
    metadata: Mapping[str, str] | None = None,
    more: bytes = UNKNOWN_FIELD,
) -> bytes:
    """Return the encoded entry of an object that lakeFS uploaded.

    Args:
        contents: the bytes of the object.
        address: where they are; by default an address of lakeFS in the namespace.
        checksum: by default their MD5.
        content_type: may be empty.
        metadata: of the object.
        more: fields after those that lakecli knows.
    """
    checksum = md5_of(contents) if checksum is None else checksum
    address = address_of(contents) if address is None else address
    message = ENTRY.encode(
        {
            "address": address,
            "last_modified": {"seconds": SECONDS, "nanos": NANOSECONDS},
            "size": len(contents),
            "e_tag": checksum,
            "metadata": pairs_of(metadata or {}),
            "address_type": 2 if "://" in address else 1,
            "content_type": content_type,
        }
    )
    hashed = frame_int(len(contents)) + frame_str(checksum) + frame_map(metadata or {})
    if content_type:
        hashed += frame_str(content_type)
    return encode_value(sha256(hashed).digest(), message + more)


def stage_lakefs(
    repository: Repository, branch: str, objects: Mapping[bytes, bytes]
) -> dict[bytes, bytes]:
    """Put objects where lakeFS would, stage their entries, and return these by path.

    Args:
        repository: whose namespace.
        branch: to stage on.
        objects: contents by path.
    """
    for data in objects.values():
        repository.store.put(address_of(data), data, ANY)
    values = {path: lakefs_value(data) for path, data in objects.items()}
    stage_values(repository, branch, values)
    return values


def stage_values(repository: Repository, branch: str, values: Mapping[bytes, bytes]) -> None:
    """Stage encoded entries as they are; their objects may not exist."""
    Stager(repository, branch).write(unclaimed(sorted(values.items())), kind="test")
