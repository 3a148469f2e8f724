"""What Google's buckets demand of requests: a key, a project that pays, no credentials."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest
import urllib3
from google_crc32c import value as crc32c

from lakecli.base.model import Demand
from lakecli.errors import PermissionDenied, Unsupported
from lakecli.stores.capabilities import PART_SIZE, access_of
from lakecli.stores.contract import ABSENT, ANY, Attributes, Match, ObjectNotFound
from lakecli.stores.gs.store import GsStore
from lakecli.stores.presigned_urls import PresignRequest
from tests.support.gcs import GcsServer, new_gcs_bucket
from tests.support.proxies import Forwarded, forwarding
from tests.support.servers import Answer, StubServer, demanding

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = "projects/p/locations/eu/keyRings/r/cryptoKeys/k"
HOUR = timedelta(hours=1)


def query_of(request: Forwarded) -> dict[str, list[str]]:
    return parse_qs(urlsplit(request.path).query, keep_blank_values=True)


def without_key(request: Forwarded) -> str:
    """Refuse what begins an object and does not name the key."""
    query, path = query_of(request), urlsplit(request.path).path
    is_json = path.startswith(("/storage/", "/upload/"))
    if "rewriteTo" in path:
        found = query.get("destinationKmsKeyName")
    elif is_json and "upload_id" not in query and request.method == "POST":
        found = query.get("kmsKeyName")
    elif (not is_json and ("uploads" in query and request.method == "POST")) or (
        not is_json and request.method == "PUT" and "uploadId" not in query
    ):
        found = [request.headers.get("x-goog-encryption-kms-key-name", "")]
    else:
        return ""
    return "" if found == [KEY] else "no key"


def without_payer(request: Forwarded) -> str:
    """Refuse a request that names no project; a batch names it in each of its parts."""
    query = query_of(request)
    if request.path.startswith("/batch/"):
        parts = request.body.count(b"DELETE ")
        return "" if request.body.count(b"userProject=payer") == parts else "no payer"
    said = query.get("userProject", [request.headers.get("x-goog-user-project")])
    return "" if said == ["payer"] or "upload_id" in query else "no payer"


@pytest.mark.parametrize(
    ("refuse", "demand"),
    [(without_key, (Demand.GS_KMS_KEY, KEY)), (without_payer, (Demand.GS_PROJECT, "payer"))],
)
def test_each_way_of_writing_and_reading_meets_the_demand(
    gcs_environment: pytest.MonkeyPatch,
    gcs_server: GcsServer,
    refuse: Callable[[Forwarded], str],
    demand: tuple[Demand, str],
) -> None:
    bucket, other = new_gcs_bucket(gcs_server), new_gcs_bucket(gcs_server)
    GsStore(other).put("old", b"old", ANY)
    large = b"x" * (PART_SIZE + 1)
    with forwarding(gcs_server.url, refuse=refuse) as url:
        gcs_environment.setenv("STORAGE_EMULATOR_HOST", url)
        store, source = (GsStore(name, "", demanding(demand)) for name in (bucket, other))
        assert store.put_new("new", b"1")
        version = store.put("small", b"2", ABSENT, Attributes("text/csv", {"a": "b"}))
        store.put("small", b"3", Match(version))
        store.put("stream", BytesIO(large), ANY)
        uploads = store.uploads()
        upload = uploads.start("parts")
        part = uploads.put_part("parts", upload, 1, b"5", crc32c=crc32c(b"5"))
        assert [each.number for each in uploads.parts("parts", upload)] == [1]
        uploads.complete("parts", upload, [part])
        uploads.abort("parts", uploads.start("parts"))
        store.put("small", b"3", ANY, Attributes("text/csv", {"a": "b"}, "gzip"))
        store.copy("small", "copied")
        copied = store.head("copied")
        assert (copied.content_type, copied.metadata) == ("text/csv", {"a": "b"})
        assert copied.content_encoding == "gzip"
        assert store.copy_from(source, "old", "elsewhere", Attributes("text/plain"))
        now = datetime.now(UTC)  # noqa: TID251 - the server verifies signatures
        sent = urllib3.PoolManager()
        link = store.presign("sent", PresignRequest("PUT", HOUR, "text/plain"), now=now)
        answer = sent.request("PUT", link.url, body=b"6", headers=dict(link.headers))
        assert answer.status == 200, answer.data
        link = store.presign("stream", PresignRequest("GET", HOUR), now=now)
        assert sent.request("GET", link.url).data == large
        assert store.get("stream") == store.open("stream").read() == large
        assert store.get("small", start=-1) == store.get_versioned("copied")[0] == b"3"
        found = [info.key for info in store.list()]
        store.delete(found)
        assert not store.delete_matching([("gone", version)])
        with pytest.raises(PermissionDenied, match=r"no (key|payer)"):
            GsStore(bucket).put("k", b"", ANY)


def test_the_source_of_a_copy_may_be_what_you_pay_for(
    gcs_environment: pytest.MonkeyPatch, gcs_server: GcsServer
) -> None:
    source, target = new_gcs_bucket(gcs_server), GsStore(new_gcs_bucket(gcs_server))
    GsStore(source).put("old", b"old", ANY)

    def refuse(request: Forwarded) -> str:
        return without_payer(request) if source in request.path else ""

    with forwarding(gcs_server.url, refuse=refuse) as url:
        gcs_environment.setenv("STORAGE_EMULATOR_HOST", url)
        target = GsStore(target.bucket)
        paid = GsStore(source, "", demanding((Demand.GS_PROJECT, "payer"), bucket=f"gs://{source}"))
        assert target.copy_from(paid, "old", "new", Attributes("a/b"))
        assert target.get("new") == b"old"


def test_a_public_bucket_is_read_without_credentials(
    gcs_environment: pytest.MonkeyPatch, gcs_server: GcsServer
) -> None:
    bucket = new_gcs_bucket(gcs_server)
    GsStore(bucket).put("k", b"old", ANY)

    def refuse(request: Forwarded) -> str:
        return "" if request.method in {"GET", "HEAD"} else "a write"

    with forwarding(gcs_server.url, refuse=refuse) as url:
        gcs_environment.setenv("STORAGE_EMULATOR_HOST", url)
        store = GsStore(bucket, "", demanding((Demand.GS_ANONYMOUS, "true")))
        assert [info.key for info in store.list()] == ["k"]
        assert store.get("k") == store.open("k").read() == b"old"
        for write in (
            lambda: store.put("k", b"", ANY),
            lambda: store.put_new("k", b""),
            lambda: store.delete(["k"]),
            lambda: store.copy("k", "new"),
            lambda: store.uploads().start("k"),
        ):
            with pytest.raises(
                PermissionDenied, match="read without credentials, nothing"
            ) as error:
                write()
            assert "gs.anonymous" in (error.value.hint or "")
        with pytest.raises(Unsupported, match="cannot presign") as refusal:
            store.presign("k", PresignRequest("GET", HOUR), now=datetime(2026, 1, 1, tzinfo=UTC))
        assert f"{url}/{bucket}/k" in (refusal.value.hint or "")


def test_credentials_are_not_even_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent")
    store = GsStore("bucket", "", demanding((Demand.GS_ANONYMOUS, "true")))
    access = access_of(store)
    assert access is not None
    assert (access.kind, access.source) == ("no credentials", "gs.anonymous")
    with pytest.raises(PermissionDenied, match="nothing was written there"):
        store.put("k", b"", ANY)


@pytest.mark.parametrize(
    ("status", "text", "setting"),
    [
        (400, "Bucket is a requester pays bucket but no user project provided.", "gs.user-project"),
        (412, "constraints/gcp.restrictNonCmekServices violated for projects/p", "gs.kms-key"),
    ],
)
def test_a_demand_of_google_names_its_setting(
    monkeypatch: pytest.MonkeyPatch, status: int, text: str, setting: str
) -> None:
    body = f'{{"error": {{"code": {status}, "message": "{text}", "errors": []}}}}'
    with StubServer(Answer(status, body.encode())) as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        with pytest.raises(PermissionDenied) as error:
            GsStore("bucket").put("k", b"", ANY)
    assert text.rstrip(".") in error.value.message
    assert "add gs://bucket=" in (error.value.hint or "")
    assert (error.value.hint or "").endswith(f"to the setting {setting}")


def test_an_object_may_be_called_as_a_demand(
    gcs_environment: pytest.MonkeyPatch, gcs_server: GcsServer
) -> None:
    del gcs_environment
    with pytest.raises(ObjectNotFound):
        GsStore(new_gcs_bucket(gcs_server)).get("requester pays")
