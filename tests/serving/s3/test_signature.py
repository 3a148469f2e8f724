"""Signatures of the AWS SDK are verified; whatever else a client signs or leaves out is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from lakecli.serving.reading import query_of
from lakecli.serving.s3.errors import S3Error
from lakecli.serving.s3.signature import verify
from lakecli.stores.presigned_urls import PresignRequest
from lakecli.stores.s3.settings import AccessKeys
from lakecli.stores.s3.signing import UNSIGNED, S3Signer
from tests.serving.s3.signers import (
    EMPTY,
    ENDPOINT,
    REGION,
    SECRETS,
    Request,
    _received,
    by_sdk,
    by_url,
)

if TYPE_CHECKING:
    from collections.abc import Callable

KEYS = AccessKeys("LAKE", SECRETS["LAKE"], "")
PLAIN = quote("/sales/main@{yesterday}/d é/a+b=c%2Fd", safe="/~")


def code_of(request: Request, **options: object) -> str:
    """Return the code with which a request is refused."""
    with pytest.raises(S3Error) as caught:
        request.verified(**options)  # type: ignore[arg-type]
    error = caught.value
    assert SECRETS["LAKE"] not in str(error)
    return error.code


@pytest.mark.parametrize(
    ("method", "target", "headers"),
    [
        ("GET", "/", {}),
        ("GET", "/sales?list-type=2&prefix=main%2Fa%20b%2F&delimiter=%2F", {}),
        ("GET", "/sales?uploads", {}),
        ("HEAD", PLAIN, {"Range": "bytes=0-1"}),
        ("GET", "/sales/main/a%2Fb//c/./../d", {}),
        ("PUT", "/sales/main/a", {"Content-Type": "text/csv", "x-amz-meta-a": "two  blanks "}),
        ("PUT", "/sales/main/a", {"x-amz-copy-source": "/sales/main/b%20c"}),
        ("POST", "/sales?delete", {"Content-MD5": "1B2M2Y8AsgTpgAmY7PhCfg=="}),
        ("PUT", "/sales/main/a?partNumber=2&uploadId=x%2B%2F%3D", {}),
    ],
)
def test_requests_of_the_sdk(method: str, target: str, headers: dict[str, str]) -> None:
    request = by_sdk(method, target, headers)
    signed = request.verified()
    assert signed.payload == EMPTY
    assert signed.scope == f"{signed.date[:8]}/{REGION}/s3/aws4_request"
    assert request.header("authorization").endswith(signed.seed)
    assert signed.date == request.header("x-amz-date")
    assert by_url(method, target, headers).verified().payload == UNSIGNED


def test_the_general_signer_of_the_sdk() -> None:
    made = AWSRequest("PUT", f"{ENDPOINT}/sales/a", headers={"x-amz-content-sha256": EMPTY})
    SigV4Auth(Credentials("LAKE", SECRETS["LAKE"]), "s3", REGION).add_auth(made)
    request = _received("PUT", made.url, made.headers.items(), made.context["timestamp"])
    assert request.verified().payload == EMPTY


def test_our_own_client() -> None:
    now = datetime(2024, 2, 29, 12, tzinfo=UTC)
    signer, host = S3Signer(KEYS, REGION), {"host": "localhost:1"}
    query = "prefix=a%20b"
    headers = signer.headers("GET", PLAIN, query, host, payload=EMPTY, now=now.timestamp())
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    request = Request("GET", PLAIN.encode(), b"prefix=a%20b", raw, now)
    assert request.verified()
    asked = PresignRequest("GET", timedelta(hours=1), content_type="text/plain")
    url = signer.url(asked, f"http://localhost:1{PLAIN}", now).url
    sent = url.partition("?")[2].encode()
    presigned = Request("GET", PLAIN.encode(), sent, [(b"host", b"localhost:1")], now)
    assert presigned.verified().payload == UNSIGNED
    assert ("response-content-type", "text/plain") in query_of(sent)


segments = st.text(st.characters(codec="utf-8", exclude_characters="/"), max_size=6)


@given(st.lists(segments, max_size=4), st.dictionaries(segments, segments, max_size=3))
def test_any_name_however_it_is_encoded(names: list[str], parameters: dict[str, str]) -> None:
    path = "/sales/" + "/".join(names)
    query = "&".join(f"{quote(a, safe='')}={quote(b, safe='')}" for a, b in parameters.items())
    request = by_sdk("GET", f"{quote(path, safe='/~')}?{query}")
    assert request.verified()
    # A proxy or a client may encode more than it signs, or write %2f for %2F.
    encoded = "".join(f"%{byte:02x}" if byte != 0x2F else "/" for byte in path.encode())
    other = request._replace(path=encoded.encode(), query=request.query.replace(b"%20", b"+"))
    assert other.verified()
    assert code_of(request._replace(path=request.path + b"x")) == "SignatureDoesNotMatch"
    assert code_of(request._replace(query=request.query + b"&x=1")) == "SignatureDoesNotMatch"


def test_repeated_parameters_and_headers() -> None:
    headers = {"x-amz-meta-a": "1,2"}
    request = by_sdk("GET", "/sales?b=2&b=1&a&a=0", headers)
    rest = [pair for pair in request.headers if pair[0] != b"x-amz-meta-a"]
    twice = [(b"x-amz-meta-a", b" 1 "), (b"X-Amz-Meta-A", b"2")]
    assert request._replace(headers=rest + twice).verified()
    assert request._replace(query=b"a=0&b=1&a=&b=2&").verified()
    assert code_of(request._replace(query=b"b=2&b=1&a=0")) == "SignatureDoesNotMatch"
    assert code_of(request._replace(headers=rest + twice[::-1])) == "SignatureDoesNotMatch"


def cut(request: Request) -> Request:
    return request.having("authorization", request.header("authorization")[:-1])


def forged(request: Request) -> Request:
    text = request.header("authorization")
    return request.having("authorization", text[:-1] + ("0" if text[-1] != "0" else "1"))


def unlisted(request: Request) -> Request:
    """Return the request whose SignedHeaders lack the host."""
    return request.having("authorization", request.header("authorization").replace("host;", ""))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (cut, "AuthorizationHeaderMalformed"),
        (forged, "SignatureDoesNotMatch"),
        (unlisted, "SignatureDoesNotMatch"),
        (lambda it: it.having("host", "evil.example"), "SignatureDoesNotMatch"),
        (lambda it: it.having("host", None), "SignatureDoesNotMatch"),
        (lambda it: it.having("host", ""), "SignatureDoesNotMatch"),
        (lambda it: it.having("x-amz-content-sha256", "0" * 64), "SignatureDoesNotMatch"),
        (lambda it: it.having("x-amz-content-sha256", "short"), "InvalidArgument"),
        (lambda it: it.having("x-amz-content-sha256", None), "InvalidRequest"),
        (lambda it: it.having("x-amz-meta-more", "1"), "AccessDenied"),
        (lambda it: it.having("x-amz-date", None), "AccessDenied"),
        (
            lambda it: it.having("x-amz-date", f"{it.header('x-amz-date')[:8]}T990000Z"),
            "AccessDenied",
        ),
        (lambda it: it.having("x-amz-date", "20000101T000000Z"), "AuthorizationHeaderMalformed"),
        (lambda it: it.having("authorization", None), "AccessDenied"),
        (lambda it: it.having("authorization", "AWS LAKE:abc="), "InvalidRequest"),
        (lambda it: it.having("authorization", "Bearer x"), "InvalidRequest"),
        (
            lambda it: it.having("authorization", "AWS4-HMAC-SHA256 "),
            "AuthorizationHeaderMalformed",
        ),
        (lambda it: it._replace(method="DELETE"), "SignatureDoesNotMatch"),
        (lambda it: it._replace(path=b"/sales/main/../a"), "SignatureDoesNotMatch"),
        (lambda it: it._replace(path=b"/sales/main/a.csv%00"), "SignatureDoesNotMatch"),
        (lambda it: it._replace(path=b"/" + b"k" * 1025), "SignatureDoesNotMatch"),
        (lambda it: it._replace(query=b"X-Amz-Signature=0"), "InvalidArgument"),
    ],
)
def test_changed_requests_are_refused(change: Callable[[Request], Request], code: str) -> None:
    assert code_of(change(by_sdk())) == code


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("/s3/", "/ec2/", "AuthorizationHeaderMalformed"),
        ("/aws4_request", "/aws4", "AuthorizationHeaderMalformed"),
        (REGION, "../x", "AuthorizationHeaderMalformed"),
        (REGION, "eu-west-1", "SignatureDoesNotMatch"),
        ("LAKE/", "OTHER/", "InvalidAccessKeyId"),
        ("LAKE/", "", "AuthorizationHeaderMalformed"),
        ("SignedHeaders=host", "SignedHeaders=host;host", "SignatureDoesNotMatch"),
        ("Credential=", "Credential=x, Credential=", "AuthorizationHeaderMalformed"),
        ("Signature=", "Signature=Z", "AuthorizationHeaderMalformed"),
        ("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256", "InvalidRequest"),
    ],
)
def test_changed_authorization_is_refused(old: str, new: str, code: str) -> None:
    request = by_sdk()
    text = request.header("authorization").replace(old, new, 1)
    assert code_of(request.having("authorization", text)) == code


def test_other_keys_are_refused_and_other_regions_are_not() -> None:
    assert code_of(by_sdk(access_key="OTHER")) == "InvalidAccessKeyId"
    assert code_of(by_sdk(secret="guess")) == "SignatureDoesNotMatch"
    elsewhere = by_sdk(region="eu-central-1")
    assert elsewhere.verified().scope.split("/")[1] == "eu-central-1"


@pytest.mark.parametrize(
    ("minutes", "is_refused"), [(-16, True), (-14, False), (14, False), (16, True)]
)
def test_clocks_may_differ_by_a_quarter_of_an_hour(minutes: int, *, is_refused: bool) -> None:
    request = by_sdk()
    now = request.now + timedelta(minutes=minutes)
    if is_refused:
        assert code_of(request, now=now) == "RequestTimeTooSkewed"
    else:
        assert request.verified(now=now)


def test_presigned_urls_expire() -> None:
    request = by_url(expires=60)
    assert request.verified(now=request.now + timedelta(seconds=60))
    assert request.verified(now=request.now - timedelta(minutes=14))
    assert code_of(request, now=request.now + timedelta(seconds=61)) == "AccessDenied"
    assert code_of(request, now=request.now - timedelta(minutes=16)) == "RequestTimeTooSkewed"
    assert by_url(expires=7 * 86_400).verified()
    for expires in (0, -1, 7 * 86_400 + 1):
        assert code_of(by_url(expires=expires)) == "AuthorizationQueryParametersError"


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("X-Amz-Expires=600", "X-Amz-Expires=601", "SignatureDoesNotMatch"),
        ("X-Amz-Expires=600", "", "AuthorizationQueryParametersError"),
        ("X-Amz-Expires=600", "X-Amz-Expires=6e2", "AuthorizationQueryParametersError"),
        ("X-Amz-Expires=600", "X-Amz-Expires=", "AuthorizationQueryParametersError"),
        ("X-Amz-Date=", "X-Amz-Date=2&X-Amz-Date=", "AuthorizationQueryParametersError"),
        ("X-Amz-Signature=", "X-Amz-Other=", "AuthorizationQueryParametersError"),
        ("X-Amz-Algorithm=AWS4-HMAC-SHA256", "X-Amz-Algorithm=RSA", "InvalidRequest"),
        ("SignedHeaders=host", "SignedHeaders=range", "SignatureDoesNotMatch"),
        (
            "X-Amz-Signature=",
            "X-Amz-Content-Sha256=STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD&X-Amz-Signature=",
            "InvalidArgument",
        ),
    ],
)
def test_changed_presigned_urls_are_refused(old: str, new: str, code: str) -> None:
    request = by_url()
    assert (
        code_of(request._replace(query=request.query.replace(old.encode(), new.encode()))) == code
    )


def test_a_presigned_url_is_for_one_method_object_and_set_of_headers() -> None:
    request = by_url("PUT", headers={"Content-Type": "text/csv"})
    assert request.having("range", "bytes=0-0").verified()
    assert code_of(request._replace(method="HEAD")) == "SignatureDoesNotMatch"
    assert code_of(request._replace(path=b"/sales/main/b.csv")) == "SignatureDoesNotMatch"
    assert code_of(request.having("content-type", "text/html")) == "SignatureDoesNotMatch"
    assert code_of(request.having("content-type", None)) == "SignatureDoesNotMatch"
    assert code_of(request.having("x-amz-acl", "public-read")) == "AccessDenied"
    assert code_of(request.having("authorization", "Basic x")) == "InvalidArgument"


def test_signature_version_2_is_answered_with_what_to_set() -> None:
    request = Request(
        "GET", b"/sales/a", b"AWSAccessKeyId=LAKE&Signature=a%3D&Expires=9", [(b"host", b"x")],
        datetime(2024, 1, 1, tzinfo=UTC),
    )  # fmt: skip
    with pytest.raises(S3Error, match=r"signature_version='s3v4'") as caught:
        request.verified()
    assert caught.value.status == 400


@given(
    st.binary(max_size=40),
    st.binary(max_size=80),
    st.lists(st.tuples(st.sampled_from([b"host", b"authorization", b"x-amz-date"]), st.binary())),
)
def test_nonsense_is_refused(path: bytes, query: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    now = datetime(2024, 1, 1, tzinfo=UTC)
    with pytest.raises(S3Error):
        verify("GET", path, query, headers, secret_of=SECRETS.get, now=now)


@given(st.integers(0, 200), st.binary(min_size=1, max_size=1))
def test_no_changed_byte_of_the_authorization_passes(position: int, byte: bytes) -> None:
    request = by_sdk("PUT", payload=sha256(b"x").hexdigest())
    text = request.header("authorization").encode()
    position %= len(text)
    changed = text[:position] + byte + text[position + 1 :]
    headers = [pair for pair in request.headers if pair[0] != b"authorization"]
    other = request._replace(headers=[*headers, (b"authorization", changed)])
    if changed.split() != text.split():
        with pytest.raises(S3Error):
            other.verified()
