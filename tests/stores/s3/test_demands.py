"""What buckets demand of requests: encryption, a payer, no signature; and ETags that are no MD5.

moto takes no conditions of bucket policies into account, so proxies refuse what S3 would refuse.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import md5
from io import BytesIO
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest
import urllib3
from botocore.exceptions import ClientError
from google_crc32c import value as crc32c

from lakecli.base.model import Demand
from lakecli.errors import PermissionDenied, Refused, Unsupported
from lakecli.stores.capabilities import PART_SIZE, access_of
from lakecli.stores.contract import ABSENT, ANY, Attributes, Match
from lakecli.stores.presigned_urls import PresignRequest
from lakecli.stores.s3 import uploads
from lakecli.stores.s3.store import S3Store
from tests.support.proxies import Forwarded, forwarding, like_kms
from tests.support.servers import demanding, new_bucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SSE = "x-amz-server-side-encryption"
KEY = "arn:aws:kms:eu-west-1:111122223333:key/k"
NOW = datetime.now(UTC)  # noqa: TID251 - signatures are checked by servers, if not by moto
HOUR = timedelta(hours=1)
ENCRYPTED = ((Demand.S3_SSE, "aws:kms"), (Demand.S3_KMS_KEY, KEY), (Demand.S3_BUCKET_KEY, "true"))


def unencrypted(request: Forwarded) -> str:
    """Refuse what a bucket refuses whose policy demands SSE-KMS; and headers in wrong places."""
    query = parse_qs(urlsplit(request.path).query, keep_blank_values=True)
    is_form = request.headers.get("content-type", "").startswith("multipart/form-data")
    begins = (request.method == "PUT" and "partNumber" not in query) or "uploads" in query
    if is_form:
        fields = (f'"{SSE}"'.encode(), b"aws:kms", KEY.encode())
        return "" if all(field in request.body for field in fields) else "no encryption"
    if begins and request.method != "GET":
        wanted = {SSE: "aws:kms", f"{SSE}-aws-kms-key-id": KEY, f"{SSE}-bucket-key-enabled": "true"}
        return "" if wanted.items() <= request.headers.items() else "no encryption"
    return "encryption in a wrong request" if SSE in request.headers else ""


def unpaid(request: Forwarded) -> str:
    """Refuse a request that does not say that the requester pays."""
    query = parse_qs(urlsplit(request.path).query)
    said = request.headers.get("x-amz-request-payer") or query.get("x-amz-request-payer", [""])[0]
    is_field = b'"x-amz-request-payer"\r\n\r\nrequester' in request.body
    return "" if said == "requester" or is_field else "Access Denied"


def signed(request: Forwarded) -> str:
    """Refuse a request with a signature, and each that changes something."""
    if request.method not in {"GET", "HEAD"}:
        return "it is no request to read"
    return "it is signed" if "authorization" in request.headers else ""


@contextmanager
def bucket_behind(
    endpoint: str, environment: pytest.MonkeyPatch, refuse: Callable[[Forwarded], str]
) -> Iterator[str]:
    bucket = new_bucket(endpoint)
    S3Store(bucket).put("old", b"old", ANY)
    with forwarding(endpoint, refuse=refuse) as url:
        environment.setenv("AWS_ENDPOINT_URL", url)
        yield bucket


def write_in_every_way(store: S3Store, source: S3Store) -> None:
    """Write objects by each kind of request."""
    large = b"x" * (PART_SIZE + 1)
    assert store.put_new("direct", b"1")
    assert store.put_new("by the SDK", b"1")
    version = store.put("small", b"2", ABSENT, Attributes("text/csv", {"a": "b"}))
    store.put("small", b"3", Match(version))
    store.put("small", BytesIO(b"4"), ANY)
    store.put("stream", BytesIO(large), ANY)
    parts = store.uploads()
    upload = parts.start("parts")
    parts.complete("parts", upload, [parts.put_part("parts", upload, 1, b"5", crc32c=crc32c(b"5"))])
    store.copy("small", "copied")
    assert store.copy_from(source, "old", "from elsewhere", Attributes("text/plain"))
    assert store.head("small").metadata == {}
    sent = urllib3.PoolManager()
    link = store.presign("sent", PresignRequest("PUT", HOUR, "text/plain"), now=NOW)
    assert sent.request("PUT", link.url, body=b"6", headers=dict(link.headers)).status == 200
    form = store.presign("form", PresignRequest("PUT", HOUR, max_size=9), now=NOW)
    file = ("file", ("name", b"7"))
    assert sent.request("POST", form.url, fields=[*form.fields.items(), file]).status < 300
    link = store.presign("stream", PresignRequest("GET", HOUR), now=NOW)
    assert sent.request("GET", link.url).data == large
    found = {info.key: store.get(info.key) for info in store.list()}
    assert found["stream"] == large
    assert found["from elsewhere"] == b"old"
    assert found["sent"] + found["form"] + found["parts"] + found["copied"] == b"6754"
    store.delete(["sent", "form"])
    assert [each.key for each in parts.iter_unfinished()] == []


@pytest.fixture
def source(moto_endpoint: str, aws_environment: pytest.MonkeyPatch) -> str:
    """Return the name of a bucket with an object."""
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    bucket = new_bucket(moto_endpoint)
    S3Store(bucket).put("old", b"old", ANY)
    return bucket


def test_each_way_of_writing_asks_for_the_encryption(
    moto_endpoint: str, aws_environment: pytest.MonkeyPatch, source: str
) -> None:
    with bucket_behind(moto_endpoint, aws_environment, _passing(source, unencrypted)) as bucket:
        account = demanding(*ENCRYPTED, bucket=f"s3://{bucket}")
        write_in_every_way(S3Store(bucket, account=account), S3Store(source, account=account))
        with pytest.raises(PermissionDenied, match="no encryption"):
            S3Store(bucket).put("k", b"", ANY)


def test_each_request_says_who_pays(
    moto_endpoint: str, aws_environment: pytest.MonkeyPatch, source: str
) -> None:
    with bucket_behind(moto_endpoint, aws_environment, _passing(source, unpaid)) as bucket:
        account = demanding((Demand.S3_PAYER, "true"), bucket=f"s3://{bucket}")
        write_in_every_way(S3Store(bucket, account=account), S3Store(source, account=account))
        with pytest.raises(PermissionDenied):
            S3Store(bucket).get("old")
        aws_environment.setenv("AWS_REQUEST_PAYER", "requester")
        assert S3Store(bucket).get("old") == b"old"
        no = demanding((Demand.S3_PAYER, "false"), bucket=f"s3://{bucket}")
        with pytest.raises(PermissionDenied):
            S3Store(bucket, account=no).get("old")


def _passing(bucket: str, refuse: Callable[[Forwarded], str]) -> Callable[[Forwarded], str]:
    """Return a rule that does not count for one bucket."""
    return lambda request: "" if request.path.startswith(f"/{bucket}") else refuse(request)


@pytest.mark.parametrize("in_parts", [False, True])
def test_a_copy_of_what_you_pay_for_says_so(
    moto_endpoint: str,
    aws_environment: pytest.MonkeyPatch,
    source: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    in_parts: bool,
) -> None:
    def refuse(request: Forwarded) -> str:
        reads = "x-amz-copy-source" in request.headers or request.method in {"GET", "HEAD"}
        return unpaid(request) if reads and source in str(request) else ""

    def too_large(**_: object) -> None:
        answer = {"Error": {}, "ResponseMetadata": {"HTTPStatusCode": 400}}
        raise ClientError(answer, "CopyObject")

    with forwarding(moto_endpoint, refuse=refuse) as url:
        aws_environment.setenv("AWS_ENDPOINT_URL", url)
        pays = demanding((Demand.S3_PAYER, "true"), bucket=f"s3://{source}")
        target = S3Store(new_bucket(moto_endpoint), account=pays)
        if in_parts:
            monkeypatch.setattr(uploads, "SINGLE_LIMIT", 2)
            monkeypatch.setattr(target._connection.client(), "copy_object", too_large)
        assert target.copy_from(S3Store(source, account=pays), "old", "new", Attributes("a/b"))
        assert target.get("new") == b"old"
        with pytest.raises((PermissionDenied, Refused)):
            target.copy_from(S3Store(source), "old", "new", Attributes("a/b"))


def test_a_public_bucket_is_read_without_credentials(
    moto_endpoint: str, aws_environment: pytest.MonkeyPatch, source: str
) -> None:
    bucket = source
    S3Store(bucket)._connection.client().put_object_acl(Bucket=bucket, Key="old", ACL="public-read")
    with forwarding(moto_endpoint, refuse=signed) as url:
        aws_environment.setenv("AWS_ENDPOINT_URL", url)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            aws_environment.delenv(name)
        aws_environment.setenv("HOME", "/nonexistent")
        store = S3Store(bucket, account=demanding((Demand.S3_ANONYMOUS, "true")))
        assert store.prepare()
        assert [info.key for info in store.list()] == ["old"]
        assert store.get("old") == store.open("old").read() == b"old"
        assert store.get_versioned("old")[1] == store.head("old").version
        access = access_of(store)
        assert access is not None
        assert (access.kind, access.source) == ("no credentials", "s3.anonymous")
        for write in (
            lambda: store.put("k", b"", ANY),
            lambda: store.put_new("k", b""),
            lambda: store.delete(["old"]),
            lambda: store.copy("old", "k"),
            lambda: store.uploads().start("k"),
        ):
            with pytest.raises(
                PermissionDenied, match="read without credentials, nothing"
            ) as error:
                write()
            assert "s3.anonymous" in (error.value.hint or "")
        with pytest.raises(Unsupported, match="cannot presign") as refusal:
            store.presign("old", PresignRequest("GET", HOUR), now=NOW)
        assert f"/{bucket}/old" in (refusal.value.hint or "")
        with pytest.raises(PermissionDenied, match="no credentials"):
            S3Store(bucket).get("old")
        aws_environment.setenv("AWS_NO_SIGN_REQUEST", "YES")
        by_variable = S3Store(bucket)
        assert by_variable.get("old") == b"old"
        assert by_variable.access().source == "AWS_NO_SIGN_REQUEST"
        with pytest.raises(PermissionDenied) as error:
            by_variable.delete(["old"])
        assert (error.value.hint or "").endswith("change AWS_NO_SIGN_REQUEST")


def test_an_algorithm_of_s3_has_no_key() -> None:
    account = demanding((Demand.S3_KMS_KEY, KEY), (Demand.S3_BUCKET_KEY, "true"))
    with_kms = S3Store("b", account=account)._connection.demands.of_writes
    assert with_kms[SSE] == "aws:kms"
    changed = account._replace(demands=(*account.demands, (Demand.S3_SSE, "s3://b", "AES256")))
    assert S3Store("b", account=changed)._connection.demands.of_writes == {SSE: "AES256"}
    assert S3Store("c", account=changed)._connection.demands.of_writes == with_kms


def test_an_etag_that_is_no_md5_is_compared_as_it_is(
    moto_endpoint: str, aws_environment: pytest.MonkeyPatch
) -> None:
    bucket = new_bucket(moto_endpoint)
    with forwarding(moto_endpoint, tags=like_kms) as url:
        aws_environment.setenv("AWS_ENDPOINT_URL", url)
        store = S3Store(bucket)
        version = store.put("k", b"first", ABSENT)
        assert version == md5(b"first").hexdigest()[::-1]
        assert store.put("k", b"second", Match(version)) == store.head("k").version
        assert [info.etag for info in store.list()] == [store.head("k").etag]
        store.put("parts", BytesIO(b"x" * (2 * PART_SIZE)), ANY)
        assert store.get("k", matching=store.head("k").etag) == b"second"


def test_what_is_demanded_is_signed(
    rclone_endpoint: str, aws_environment: pytest.MonkeyPatch
) -> None:
    """rclone verifies signatures, and has no forms."""
    aws_environment.setenv("AWS_ENDPOINT_URL", rclone_endpoint)
    account = demanding(*ENCRYPTED, (Demand.S3_PAYER, "true"))
    store = S3Store(new_bucket(rclone_endpoint), account=account)
    assert store.put_new("direct", b"1")
    store.put("by the SDK", b"2", ANY)
    sent = urllib3.PoolManager()
    link = store.presign("sent", PresignRequest("PUT", HOUR), now=NOW)
    assert sent.request("PUT", link.url, body=b"3").status == 403
    assert sent.request("PUT", link.url, body=b"3", headers=dict(link.headers)).status == 200
    link = store.presign("sent", PresignRequest("GET", HOUR), now=NOW)
    assert "x-amz-request-payer=requester" in link.url
    assert sent.request("GET", link.url).data == store.get("sent") == b"3"
    unpaid_url = link.url.replace("&x-amz-request-payer=requester", "")
    assert sent.request("GET", unpaid_url).status == 403
