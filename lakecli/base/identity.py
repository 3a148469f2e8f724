"""Digests that name and identify records: BLAKE3, and lakeFS's typed framing.

The framing ("ident") precedes every value with a one-byte tag and writes every length as a
framed int64, so that no two different streams of fields can produce the same bytes:

    ===== ============ =====================================================
    tag   type         bytes
    ===== ============ =====================================================
    0     bytes        00, int64(len), data
    1     string       01, int64(len), UTF-8
    2     int64        02, 08, 8 bytes big-endian
    3     string list  03, int64(n), then string(item) each
    4     string map   04, int64(n), then string(k) string(v) by key bytes
    5     embedded     05, then bytes(identity of the embedded object)
    ===== ============ =====================================================

The int64 of a length includes its own ``02 08`` prefix. Source: lakeFS ``pkg/ident``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final

from blake3 import blake3

DIGEST_SIZE = 32

_MD5_DIGITS: Final = 32
_HEX: Final = "0123456789abcdef"


class Evidence(Enum):
    """What a recorded checksum proves about an object, according to the form of the checksum.

    Attributes:
        BLAKE3: a digest of the bytes: different bytes have a different digest. A store may use
            ETags of the same form, so a checksum is first compared with the ETag that the store
            reports.
        MD5: an MD5 of the bytes, or an ETag of the same form, which lakeFS records for multipart
            uploads and S3 reports for encrypted objects. If the bytes have this MD5, they are the
            recorded bytes. A different MD5 proves nothing, because the checksum may be such an
            ETag, unless the store reports MD5s or keeps plain files.
        ETAG: an ETag that the store reported. Only the store can say whether the object has
            changed.
        NONE: nothing was recorded.
    """

    BLAKE3 = "BLAKE3"
    MD5 = "MD5"
    ETAG = "ETag"
    NONE = "nothing"


def evidence_of(checksum: str) -> Evidence:
    """Return what a checksum proves about an object, judging by the form of the checksum."""
    if is_md5(checksum):
        return Evidence.MD5
    if len(checksum) == 2 * DIGEST_SIZE and not checksum.strip(_HEX):
        return Evidence.BLAKE3
    return Evidence.ETAG if checksum else Evidence.NONE


def blake3_of(data: bytes) -> bytes:
    """Return the 32-byte BLAKE3-256 digest of `data`."""
    return blake3(data).digest()


def hashes(texts: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """Yield `blake3_of` of each text.

    All texts share one hasher, since creating a hasher takes longer than hashing a short text.
    """
    hasher = blake3()
    update, digest, reset = hasher.update, hasher.digest, hasher.reset
    for text in texts:
        update(text)
        yield digest()
        reset()


def is_md5(checksum: str) -> bool:
    """Return whether a checksum has the form of an MD5, which lakeFS and many stores record."""
    return len(checksum) == _MD5_DIGITS and not checksum.strip(_HEX)


def frame_int(value: int) -> bytes:
    """Frame a signed 64-bit integer."""
    return b"\x02\x08" + value.to_bytes(8, "big", signed=True)


def frame_str(value: str) -> bytes:
    """Frame a string as UTF-8; surrogates become the undecodable bytes that they represent."""
    data = value.encode("utf-8", "surrogateescape")
    return b"\x01" + frame_int(len(data)) + data


def frame_list(items: Sequence[str]) -> bytes:
    """Frame a list of strings."""
    return b"\x03" + frame_int(len(items)) + b"".join(map(frame_str, items))


def frame_map(items: Mapping[str, str]) -> bytes:
    """Frame a string map, ordered by the bytes of its keys."""
    ordered = sorted(items, key=lambda key: key.encode("utf-8", "surrogateescape"))
    body = b"".join(frame_str(key) + frame_str(items[key]) for key in ordered)
    return b"\x04" + frame_int(len(ordered)) + body


def frame_embedded(identity: bytes) -> bytes:
    """Frame another object's identity, as raw bytes."""
    return b"\x05\x00" + frame_int(len(identity)) + identity


def record_id(key: bytes, identity: bytes) -> bytes:
    """Return ``BLAKE3(BLAKE3(key) ‖ BLAKE3(identity))``, the ID of one record, for `tree_id`."""
    return blake3(blake3(key).digest() + blake3(identity).digest()).digest()


def tree_id(record_ids: Iterable[bytes]) -> str:
    """Return the hex ID of a range or metarange: the BLAKE3 of its record IDs in key order."""
    return blake3(b"".join(record_ids)).hexdigest()


def entry_identity(
    *, size: int, checksum: str, metadata: Mapping[str, str], content_type: str, address: str
) -> bytes:
    """Return the identity of an entry: two entries are the same if their identities are equal.

    Args:
        metadata: user metadata, without the ``::lakefs::`` keys.
        address: the physical address, or ``""`` if it is the content address of the checksum.
            With ``""``, uploading the same bytes again is never a change.
    """
    return blake3_of(
        frame_str("lakecli:entry:1")
        + frame_int(size)
        + frame_str(checksum)
        + frame_map(metadata)
        + frame_str(content_type)
        + frame_str(address)
    )


def commit_id(
    *,
    committer: str,
    message: str,
    metarange_id: str,
    created_at: int,
    metadata: Mapping[str, str],
    parents: Sequence[str],
) -> str:
    """Return the commit ID that a lakeFS server computes for the same fields.

    Args:
        metarange_id: ``""`` is the empty tree.
        created_at: unix seconds.
        parents: commit IDs, first parent first.
    """
    from hashlib import sha256  # loads OpenSSL, which takes longer than many commands

    return sha256(
        frame_str("commit:v1")
        + frame_str(committer)
        + frame_str(message)
        + frame_str(metarange_id)
        + frame_int(created_at)
        + frame_map(metadata)
        + frame_embedded(sha256(frame_list(parents)).digest())
    ).hexdigest()
