"""Bodies of every form are decoded and verified, however they are cut; damaged ones are refused."""

from __future__ import annotations

import tracemalloc
from base64 import b64encode
from datetime import UTC, datetime
from hashlib import md5, sha256
from io import BytesIO
from itertools import chain, repeat
from typing import TYPE_CHECKING

import pytest
from botocore.httpchecksum import AwsChunkedWrapper, Crc32Checksum
from hypothesis import given
from hypothesis import strategies as st

from lakecli.serving.s3.bodies import Body, stored_encoding
from lakecli.serving.s3.checksums import ALGORITHMS, encoded
from lakecli.serving.s3.errors import S3Error
from lakecli.serving.s3.signature import (
    SIGNED_CHUNKS,
    SIGNED_TRAILER,
    UNSIGNED_TRAILER,
    Signed,
    verify,
)
from lakecli.stores.s3.signing import UNSIGNED
from tests.serving.s3.signers import by_sdk, chunked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LIMIT = 1 << 20
DATA = bytes(range(256)) * 5
FORMS = (UNSIGNED_TRAILER, SIGNED_CHUNKS, SIGNED_TRAILER)


def signed_for(payload: str) -> Signed:
    return Signed(
        payload, "5eed" * 16, b"key", "20240229/r/s3/aws4_request", "20240229T120000Z",
    )  # fmt: skip


def checksum_of(algorithm: str, data: bytes) -> str:
    hasher = ALGORITHMS[algorithm]()
    hasher.update(data)
    return encoded(hasher.digest())


def decoded(
    payload: str, headers: Mapping[str, str], pieces: Sequence[bytes], *, limit: int = LIMIT
) -> tuple[bytes, Mapping[str, str]]:
    """Return what a body decodes to; unless the headers say another size, it is that of `DATA`."""
    name = "x-amz-decoded-content-length" if payload in FORMS else "content-length"
    body = Body(signed_for(payload), {name: str(len(DATA)), **headers}, limit=limit)
    return b"".join(body.read(pieces)), body.sums


def code_of(payload: str, headers: Mapping[str, str], *pieces: bytes, limit: int = LIMIT) -> str:
    with pytest.raises(S3Error) as caught:
        decoded(payload, headers, pieces, limit=limit)
    return caught.value.code


def in_form(
    form: str, data: bytes, *, size: int = 100, end: bytes = b"\r\n"
) -> tuple[dict[str, str], bytes]:
    """Return the headers and the bytes of a body in chunks."""
    has_trailer = form != SIGNED_CHUNKS
    trailers = {"x-amz-checksum-crc32": checksum_of("crc32", data)} if has_trailer else {}
    signed = signed_for(form) if form != UNSIGNED_TRAILER else None
    body = chunked(data, size, signed=signed, trailers=trailers, end=end)
    headers = {
        "content-length": str(len(body)),
        "x-amz-decoded-content-length": str(len(data)),
        **({"x-amz-trailer": "x-amz-checksum-crc32"} if has_trailer else {}),
    }
    return headers, body


def cut_at(body: bytes, places: Sequence[int]) -> list[bytes]:
    ends = sorted({place % (len(body) + 1) for place in places})
    return [body[start:end] for start, end in zip([0, *ends], [*ends, len(body)], strict=True)]


def test_plain_bodies() -> None:
    digest, length = sha256(DATA).hexdigest(), {"content-length": str(len(DATA))}
    assert decoded(digest, length, [DATA]) == (DATA, {})
    assert decoded(UNSIGNED, {}, [DATA, b""])[0] == DATA
    assert decoded(sha256().hexdigest(), {"content-length": "0"}, []) == (b"", {})
    assert code_of(digest, {}, DATA[1:] + b"x") == "XAmzContentSHA256Mismatch"
    assert code_of(digest, length, DATA + b"x") == "IncompleteBody"
    assert code_of(digest, length, DATA[1:]) == "IncompleteBody"


def test_md5() -> None:
    right = {"content-md5": b64encode(md5(DATA).digest()).decode()}
    assert decoded(UNSIGNED, right, [DATA])[1] == {}
    assert code_of(UNSIGNED, right, DATA[1:] + b"x") == "BadDigest"
    for wrong in ("", "!", "YQ=="):
        assert code_of(UNSIGNED, {"content-md5": wrong}) == "InvalidDigest"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_checksums_in_headers_and_trailers(algorithm: str) -> None:
    text = checksum_of(algorithm, DATA)
    name = f"x-amz-checksum-{algorithm}"
    assert decoded(UNSIGNED, {name: text}, [DATA])[1] == {algorithm: text}
    assert code_of(UNSIGNED, {name: text}, DATA[1:] + b"x") == "BadDigest"
    assert code_of(UNSIGNED, {name: text[1:]}, DATA) == "InvalidRequest"
    for form in (UNSIGNED_TRAILER, SIGNED_TRAILER):
        signed = signed_for(form) if form == SIGNED_TRAILER else None
        headers = {"x-amz-trailer": name.title()}
        right = chunked(DATA, 1000, signed=signed, trailers={name: text})
        assert decoded(form, headers, [right]) == (DATA, {algorithm: text})
        other = chunked(DATA, 1000, signed=signed, trailers={name: checksum_of(algorithm, b"")})
        assert code_of(form, headers, other) == "BadDigest"


def test_the_checksum_of_an_upload_is_not_that_of_the_document() -> None:
    document = b"<CompleteMultipartUpload/>"
    headers = {"x-amz-checksum-crc32": "AAAAAA==-3", "x-amz-checksum-type": "COMPOSITE"}
    headers["content-length"] = str(len(document))
    body = Body(signed_for(UNSIGNED), headers, limit=LIMIT, of_upload=True)
    assert list(body.read([document])) == [document]
    assert body.sums == {}
    assert code_of(UNSIGNED, headers) == "InvalidRequest"


@pytest.mark.parametrize("form", FORMS)
@given(
    data=st.binary(max_size=400),
    size=st.integers(1, 200),
    places=st.lists(st.integers(0, 2000), max_size=12),
    end=st.sampled_from([b"", b"\r\n", b"\r\n\r\n"]),
)
def test_however_a_body_is_cut(
    form: str, data: bytes, size: int, places: list[int], end: bytes
) -> None:
    headers, body = in_form(form, data, size=size, end=end)
    for pieces in ([body], cut_at(body, places), [bytes([byte]) for byte in body]):
        made, _ = decoded(form, headers, pieces)
        assert made == data


@pytest.mark.parametrize("form", FORMS)
@given(data=st.binary(min_size=1, max_size=300), place=st.integers(0, 5000), by=st.integers(1, 255))
def test_a_changed_byte_is_refused_or_says_the_same(
    form: str, data: bytes, place: int, by: int
) -> None:
    headers, body = in_form(form, data, size=64)
    place %= len(body)
    changed = body[:place] + bytes([body[place] ^ by]) + body[place + 1 :]
    try:
        made, _ = decoded(form, headers, [changed])
    except S3Error:
        return
    assert made == data  # another case of a digit or name, or another blank


@pytest.mark.parametrize("form", FORMS)
@given(data=st.binary(min_size=1, max_size=300), place=st.integers(0, 5000), more=st.binary())
def test_a_cut_or_longer_body_is_refused(form: str, data: bytes, place: int, more: bytes) -> None:
    headers, body = in_form(form, data, size=64)
    cut = body[: place % len(body)]
    if len(cut) < len(body) - 4:  # without what matters
        with pytest.raises(S3Error):
            decoded(form, headers, [cut])
    if more.strip(b"\r\n"):
        with pytest.raises(S3Error):
            decoded(form, headers, [body + more])


@given(st.sampled_from(FORMS), st.lists(st.binary(max_size=40), max_size=6))
def test_nonsense_is_refused(form: str, pieces: list[bytes]) -> None:
    with pytest.raises(S3Error):
        decoded(form, {"x-amz-decoded-content-length": "5"}, pieces)


def test_chunks_of_another_request_are_refused() -> None:
    signed = signed_for(SIGNED_CHUNKS)
    for other in (
        signed._replace(seed="0" * 64),
        signed._replace(key=b"other"),
        signed._replace(date="20240229T120001Z"),
        signed._replace(scope="20240229/x/s3/aws4_request"),
    ):
        assert (
            code_of(SIGNED_CHUNKS, {}, chunked(DATA, 99, signed=other)) == "SignatureDoesNotMatch"
        )
    assert code_of(SIGNED_CHUNKS, {}, chunked(DATA, 99)) == "SignatureDoesNotMatch"
    whole = chunked(DATA, 640, signed=signed)
    half = (len(whole) - len(chunked(b"", 1, signed=signed))) // 2
    first, second, last = whole[:half], whole[half : 2 * half], whole[2 * half :]
    for body in (second + first + last, first + last, first + first + second + last):
        assert code_of(SIGNED_CHUNKS, {}, body) == "SignatureDoesNotMatch"


def test_the_signature_follows_from_that_of_the_request() -> None:
    request = by_sdk("PUT", payload=SIGNED_CHUNKS, headers={"x-amz-decoded-content-length": "1280"})
    signed = request.verified()
    body = Body(signed, {"x-amz-decoded-content-length": "1280"}, limit=LIMIT)
    assert b"".join(body.read([chunked(DATA, 512, signed=signed)])) == DATA


def test_trailers_must_be_those_announced() -> None:
    name, text = "x-amz-checksum-crc32", checksum_of("crc32", DATA)
    announced = {"x-amz-trailer": name}
    whole = chunked(DATA, 500, trailers={name: text})
    assert code_of(UNSIGNED_TRAILER, {}, whole) == "MalformedTrailerError"
    assert code_of(UNSIGNED_TRAILER, announced, chunked(DATA, 500)) == "MalformedTrailerError"
    twice = whole.replace(
        b"\r\n" + name.encode(), b"\r\n" + name.encode() + b":x\r\n" + name.encode()
    )
    assert code_of(UNSIGNED_TRAILER, announced, twice) == "MalformedTrailerError"
    other = chunked(DATA, 500, trailers={name: text, "x-amz-meta-a": "b"})
    assert code_of(UNSIGNED_TRAILER, announced, other) == "MalformedTrailerError"
    blank = chunked(DATA, 500, trailers={name: text}, end=b"\r\n" * 40)
    assert code_of(UNSIGNED_TRAILER, announced, blank) == "MalformedTrailerError"
    assert code_of(UNSIGNED_TRAILER, {"x-amz-trailer": "x-amz-meta-a"}, whole) == "InvalidRequest"
    unsigned = chunked(DATA, 500, trailers={name: text, "x-amz-trailer-signature": "0" * 64})
    assert code_of(UNSIGNED_TRAILER, announced, unsigned) == "MalformedTrailerError"
    assert code_of(SIGNED_TRAILER, announced, whole) == "SignatureDoesNotMatch"
    signed = signed_for(SIGNED_TRAILER)
    without = (
        chunked(DATA, 500, signed=signed).removesuffix(b"\r\n") + f"{name}:{text}\r\n".encode()
    )
    assert code_of(SIGNED_TRAILER, announced, without) == "SignatureDoesNotMatch"


def test_lengths_that_lie() -> None:
    headers, body = in_form(UNSIGNED_TRAILER, DATA)
    for size in ("1279", "1281", "0"):
        lie = {**headers, "x-amz-decoded-content-length": size}
        assert code_of(UNSIGNED_TRAILER, lie, body) == "IncompleteBody"
    for size in ("-1", "1e3", "", "9" * 19, "\u0661"):
        lie = {**headers, "x-amz-decoded-content-length": size}
        assert code_of(UNSIGNED_TRAILER, lie, body) == "InvalidArgument"
    for first in (b"g\r\n", b"-5\r\n", b"0x5\r\n", b" \r\n", b"1" * 17 + b"\r\n", b"5;" * 1025):
        assert code_of(UNSIGNED_TRAILER, {}, first) == "IncompleteBody"
    assert code_of(UNSIGNED_TRAILER, {}, b"3\r\nabcd\r\n0\r\n\r\n") == "IncompleteBody"
    assert code_of(UNSIGNED_TRAILER, {}, b"5\r\nabcd\r\n0\r\n\r\n") == "IncompleteBody"


def test_chunks_need_their_length() -> None:
    for form in FORMS:
        with pytest.raises(S3Error, match="MissingContentLength") as caught:
            Body(signed_for(form), {"content-length": "9"}, limit=LIMIT)
        assert caught.value.status == 411


def test_limits_hold_whatever_is_announced() -> None:
    assert code_of(UNSIGNED, {"content-length": "11"}, limit=10) == "EntityTooLarge"
    decoded_length = {"x-amz-decoded-content-length": "11"}
    assert code_of(UNSIGNED_TRAILER, decoded_length, limit=10) == "EntityTooLarge"
    ten = {"x-amz-decoded-content-length": "10"}
    huge = b"ffffffffffffffff\r\n" + b"x" * 11
    assert code_of(UNSIGNED_TRAILER, ten, huge, limit=10) in {"EntityTooLarge", "IncompleteBody"}
    # The whole is longer than its limit, but not what it decodes to.
    headers, body = in_form(SIGNED_TRAILER, b"x" * 10, size=1)
    assert decoded(SIGNED_TRAILER, headers, [body], limit=10)[0] == b"x" * 10


def test_memory_is_bounded_by_what_arrives() -> None:
    size = 32 << 20
    headers = {"x-amz-decoded-content-length": str(size)}
    body = Body(signed_for(UNSIGNED_TRAILER), headers, limit=1 << 40)
    piece, count = b"x" * (1 << 16), size >> 16
    received = chain([f"{size:x}\r\n".encode()], repeat(piece, count), [b"\r\n0\r\n\r\n"])
    tracemalloc.start()
    assert all(found == piece for found in body.read(received))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 18


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_chunks_of_the_sdk(size: int) -> None:
    wrapper = AwsChunkedWrapper(
        BytesIO(DATA[:size]),
        checksum_cls=Crc32Checksum,
        checksum_name="x-amz-checksum-crc32",
        chunk_size=300,
    )
    headers = {"x-amz-trailer": "x-amz-checksum-crc32", "x-amz-decoded-content-length": str(size)}
    assert decoded(UNSIGNED_TRAILER, headers, [wrapper.read()])[0] == DATA[:size]


def test_stored_encoding() -> None:
    assert stored_encoding("aws-chunked") == ""
    assert stored_encoding("gzip,aws-chunked") == "gzip"
    assert stored_encoding("AWS-Chunked, gzip, br") == "gzip, br"
    assert stored_encoding("") == ""


@pytest.mark.parametrize(
    ("payload", "more", "seed", "signatures", "trailer"),
    [
        (
            SIGNED_CHUNKS,
            {"content-length": "66824"},
            "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
            (
                "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
                "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
                "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
            ),
            b"",
        ),
        (
            SIGNED_TRAILER,
            {"x-amz-trailer": "x-amz-checksum-crc32c"},
            "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e",
            (
                "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
                "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
                "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
            ),
            (
                b"x-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:"
                b"d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n"
            ),
        ),
    ],
)
def test_examples_of_amazons_documentation(
    payload: str, more: dict[str, str], seed: str, signatures: tuple[str, str, str], trailer: bytes
) -> None:
    headers = {
        "content-encoding": "aws-chunked",
        "host": "s3.amazonaws.com",
        "x-amz-content-sha256": payload,
        "x-amz-date": "20130524T000000Z",
        "x-amz-decoded-content-length": "66560",
        "x-amz-storage-class": "REDUCED_REDUNDANCY",
        **more,
    }
    authorization = (
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
        f"SignedHeaders={';'.join(sorted(headers))},Signature={seed}"
    )
    raw = [(name.encode(), text.encode()) for name, text in headers.items()]
    signed = verify(
        "PUT",
        b"/examplebucket/chunkObject.txt",
        b"",
        [*raw, (b"authorization", authorization.encode())],
        secret_of=lambda _: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        now=datetime(2013, 5, 24, tzinfo=UTC),
    )
    pieces = [b"a" * 65_536, b"a" * 1024, b""]
    framed = b"".join(
        f"{len(piece):x};chunk-signature={signature}\r\n".encode() + piece + b"\r\n" * bool(piece)
        for piece, signature in zip(pieces, signatures, strict=True)
    )
    body = Body(signed, headers, limit=LIMIT)
    assert b"".join(body.read([framed + trailer + b"\r\n"])) == b"a" * 66_560
