"""Checksums of S3, of pieces, of parts and of whole objects."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli import native
from lakecli.serving.s3 import checksums
from lakecli.serving.s3.checksums import ALGORITHMS, named, sent
from lakecli.serving.s3.errors import S3Error

EXAMPLE = b"123456789"


def digest_of(algorithm: str, *pieces: bytes) -> bytes:
    hasher = ALGORITHMS[algorithm]()
    for piece in pieces:
        hasher.update(piece)
    return hasher.digest()


def of(algorithm: str, data: bytes) -> str:
    return checksums.encoded(digest_of(algorithm, data))


@pytest.mark.parametrize(
    ("algorithm", "check"),
    [("crc32", "cbf43926"), ("crc32c", "e3069283"), ("crc64nvme", "ae8b14860a799888")],
)
def test_check_values_of_the_catalogue(
    algorithm: str, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert digest_of(algorithm, EXAMPLE).hex() == check
    monkeypatch.setattr(native, "core", lambda: None)
    assert digest_of(algorithm, EXAMPLE[:4], EXAMPLE[4:]).hex() == check


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(pieces=st.lists(st.binary(max_size=30), max_size=5))
def test_pieces_have_the_checksum_of_the_whole(algorithm: str, pieces: list[bytes]) -> None:
    assert digest_of(algorithm, *pieces) == digest_of(algorithm, b"".join(pieces))


def test_names() -> None:
    assert named(" CRC64NVME ") == "crc64nvme"
    for name in ("", "md5", "crc64", "x" * 99):
        with pytest.raises(S3Error) as caught:
            named(name)
        assert caught.value.code == "InvalidRequest"


def test_headers_of_a_request() -> None:
    text = of("crc32", b"a")
    request = {
        "x-amz-checksum-crc32": f" {text}",
        "x-amz-checksum-algorithm": "CRC32",
        "x-amz-checksum-mode": "ENABLED",
        "x-amz-checksum-type": "FULL_OBJECT",
        "x-amz-sdk-checksum-algorithm": "CRC32",
    }
    assert sent(request) == {"crc32": text}
    of_checksums = {"x-amz-checksum-crc32": f"{text}-10000"}
    for wrong in (of_checksums, {"x-amz-checksum-md5": text}, {"x-amz-checksum-sha1": text}):
        with pytest.raises(S3Error) as caught:
            sent(wrong)
        assert caught.value.code == "InvalidRequest"
    two = {"x-amz-checksum-crc32": text, "x-amz-checksum-crc32c": text}
    with pytest.raises(S3Error, match="Only one"):
        sent(two)
