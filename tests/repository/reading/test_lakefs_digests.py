"""The digests that lakeFS may have recorded of bytes."""

from __future__ import annotations

from hashlib import md5

import pytest

from lakecli.repository.reading.lakefs_digests import PART_SIZES, LakeFsHasher

SIZE = (12 << 20) + 1
DATA = bytes(range(256)) * (SIZE // 256) + b"x"


def digest(data: bytes) -> str:
    return md5(data, usedforsecurity=False).hexdigest()


def etag(data: bytes, part: int) -> str:
    """Return the ETag of an upload in parts, without the number of parts."""
    parts = [data[at : at + part] for at in range(0, len(data), part)]
    return digest(b"".join(bytes.fromhex(digest(each)) for each in parts))


def hasher(data: bytes, *, piece: int = 1 << 20) -> LakeFsHasher:
    made = LakeFsHasher(len(data))
    for at in range(0, len(data), piece):
        made.update(data[at : at + piece])
    return made


@pytest.mark.parametrize("piece", [(1 << 20) - 7, 3 << 20, SIZE])
def test_digests_of_parts_of_usual_sizes(piece: int) -> None:
    made = hasher(DATA, piece=piece)
    assert made.has(digest(DATA))
    for size in PART_SIZES:
        assert made.has(etag(DATA, size)), size
    assert made.has(etag(DATA, 5 << 20) + "-3")
    assert not made.has(etag(DATA, 7 << 20))
    assert not made.has(digest(DATA[1:]))
    assert not made.has("")


@pytest.mark.parametrize("size", [0, 1, 5 << 20, 10 << 20, (10 << 20) + 1])
def test_the_last_part_may_be_full(size: int) -> None:
    data = DATA[:size]
    made = hasher(data)
    assert made.has(digest(data))
    for part in (5 << 20, 8 << 20):
        assert made.has(etag(data, part))


def test_an_upload_in_one_part_of_any_size() -> None:
    assert hasher(b"abc").has(digest(bytes.fromhex(digest(b"abc"))))
