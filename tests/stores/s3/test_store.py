from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO, Self, cast

import pytest

from lakecli.errors import IntegrityError, PermissionDenied, Refused, Unsupported, UsageError
from lakecli.stores.capabilities import PART_SIZE, store_time
from lakecli.stores.contract import (
    ABSENT,
    ANY,
    Attributes,
    BucketNotFound,
    ConditionFailed,
    Match,
    Version,
)
from lakecli.stores.registry import prepare_namespace
from lakecli.stores.s3.store import S3Store
from lakecli.stores.streams import parts_of
from tests.stores.contract import ODD_NAMES, PREFIXES, Chunked, ObjectStoreContract
from tests.stores.uploads_contract import UploadsContract
from tests.support.servers import Answer, StubServer, new_bucket

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakecli.stores.contract import ObjectStore


@pytest.fixture
def bucket(aws_environment: pytest.MonkeyPatch, moto_endpoint: str) -> str:
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    return new_bucket(moto_endpoint)


@pytest.fixture
def store(bucket: str) -> S3Store:
    return S3Store(bucket, "prefix")


class TestS3Store(UploadsContract, ObjectStoreContract):
    odd_names = (*ODD_NAMES, "\x01\x7f", "n" * 500)
    has_matching_deletes = False  # two writes of the same bytes have the same ETag
    knows_dropped_uploads = False  # moto answers 500
    many = 110

    @pytest.fixture(autouse=True)
    def small_pages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("lakecli.stores.s3.reading.PAGE_SIZE", 25)

    @pytest.fixture(params=[*PREFIXES[::2], pytest.param(PREFIXES[1], marks=pytest.mark.nightly)])
    def make_store(self, request: pytest.FixtureRequest, bucket: str) -> Callable[[], ObjectStore]:
        return lambda: S3Store(bucket, request.param)

    @pytest.fixture
    def missing_store(self, bucket: str) -> ObjectStore:
        return S3Store(f"{bucket}-missing", "some/prefix")

    @pytest.fixture
    def store(self, make_store: Callable[[], ObjectStore]) -> ObjectStore:
        return make_store()


# Streams in parts


def test_large_streams_keep_their_condition(store: S3Store) -> None:
    size = 2 * PART_SIZE + 3
    for seekable in (True, False):
        key = f"large-{seekable}"
        created = store.put(key, body_of(size, seekable=seekable), ABSENT, Attributes("a/b"))
        assert (store.head(key).size, store.head(key).content_type) == (size, "a/b")
        with pytest.raises(ConditionFailed):
            store.put(key, body_of(size, seekable=seekable), ABSENT)
        replaced = store.put(key, body_of(size + 1, seekable=seekable), Match(created))
        with pytest.raises(ConditionFailed):
            store.put(key, body_of(size, seekable=seekable), Match(created))
        with pytest.raises(ConditionFailed):
            store.put("missing", body_of(size, seekable=seekable), Match(created))
        assert store.head(key).version == replaced
        assert store.head(key).size == size + 1


def test_the_condition_is_checked_again_when_parts_are_joined(store: S3Store) -> None:
    class StagedConflict(Chunked):
        """A body during whose sending another writer is faster."""

        is_overtaken = False

        def read(self, size: int = -1) -> bytes:
            data = super().read(size)
            if not data and not self.is_overtaken:
                self.is_overtaken = True
                store.put("k", b"faster", ANY)
            return data

    stream = StagedConflict(PART_SIZE + 1)
    with pytest.raises(ConditionFailed):
        store.put("k", cast("BinaryIO", stream), ABSENT)
    assert stream.is_overtaken
    assert store.get("k") == b"faster"


def test_a_failed_upload_is_aborted(store: S3Store, bucket: str) -> None:
    class Broken(Chunked):
        def read(self, size: int = -1) -> bytes:
            data = super().read(size)
            if not data:
                raise IntegrityError("changed while it was read")
            return data

    with pytest.raises(IntegrityError, match="changed while"):
        store.put("k", cast("BinaryIO", Broken(PART_SIZE + 1)), ANY)
    assert list(store.list()) == []
    assert "Uploads" not in store._connection.client().list_multipart_uploads(Bucket=bucket)


def test_objects_above_the_limit_are_copied_in_parts(
    store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A test has neither time nor disk for objects above 5 GiB.
    body = bytes(range(256)) * 25_000
    store.put("from", body, ANY, Attributes("a/b", {"k": "v"}))
    monkeypatch.setattr("lakecli.stores.s3.uploads.SINGLE_LIMIT", len(body) - 1)
    monkeypatch.setattr("lakecli.stores.s3.uploads.COPY_PART_SIZE", 5 << 20)
    from botocore.exceptions import ClientError

    def refuse(**_: object) -> None:
        answer = {
            "Error": {"Code": "InvalidRequest", "Message": "larger than the maximum"},
            "ResponseMetadata": {"HTTPStatusCode": 400},
        }
        raise ClientError(answer, "CopyObject")

    monkeypatch.setattr(store._connection.client(), "copy_object", refuse)
    store.copy("from", "to")
    assert store.get("to") == body
    assert store.head("to").content_type == "a/b"
    assert store.head("to").metadata == {"k": "v"}
    assert "-" in store.head("to").etag
    monkeypatch.setattr("lakecli.stores.s3.uploads.SINGLE_LIMIT", len(body))
    with pytest.raises(Refused, match="InvalidRequest"):
        store.copy("from", "to2")


def test_parts_grow_to_stay_below_ten_thousand() -> None:
    class Endless:
        def __init__(self) -> None:
            self.asked: list[int] = []

        def read(self, size: int) -> _Sized:
            self.asked.append(size)
            return _Sized(size)

    class _Sized(bytes):
        """Claims any length, without contents."""

        size: int

        def __new__(cls, size: int) -> Self:
            made = super().__new__(cls)
            made.size = size
            return made

        def __len__(self) -> int:
            return self.size

    stream = Endless()
    parts = parts_of(b"first", cast("BinaryIO", stream))
    for _ in range(10_000):
        next(parts)
    assert stream.asked[:998] == [PART_SIZE] * 998
    assert sum(stream.asked) > 5 << 40
    assert all(size <= 5 << 30 for size in stream.asked)


# Preparing a bucket


def test_the_region_is_learned_from_the_bucket(aws_environment: pytest.MonkeyPatch) -> None:
    told = Answer(headers={"x-amz-bucket-region": "eu-central-1"})
    with StubServer(told) as server:
        aws_environment.setenv("AWS_ENDPOINT_URL", server.url)
        assert prepare_namespace("s3://bucket/prefix") == "eu-central-1"
        store = S3Store("bucket")
        assert store._connection.region == ""
        assert store.prepare() == "eu-central-1"
        assert store._connection.region == "eu-central-1"
        assert store.get("k") == b""
        assert "/eu-central-1/s3/" in server.requests[-1].headers["Authorization"]
        # A server other than AWS may use any name for its region.
        aws_environment.setenv("AWS_DEFAULT_REGION", "chosen-1")
        assert S3Store("bucket").prepare() == "chosen-1"
        assert S3Store("bucket", region="explicit-1").prepare() == "explicit-1"


def test_the_region_is_learned_without_list_permission(aws_environment: pytest.MonkeyPatch) -> None:
    told = Answer(403, headers={"x-amz-bucket-region": "eu-central-1"})
    with StubServer(told) as server:
        aws_environment.setenv("AWS_ENDPOINT_URL", server.url)
        assert S3Store("bucket").prepare() == "eu-central-1"
        server.answers = [Answer(403)]
        with pytest.raises(PermissionDenied):
            S3Store("bucket").prepare()


def test_preparing_needs_the_bucket(bucket: str) -> None:
    assert prepare_namespace(f"s3://{bucket}/prefix")
    with pytest.raises(BucketNotFound, match="missing"):
        prepare_namespace(f"s3://{bucket}-missing/prefix")


def test_the_aws_configuration_file_is_read(
    aws_environment: pytest.MonkeyPatch, tmp_path: Path, moto_endpoint: str
) -> None:
    file = tmp_path / "config"
    file.write_text(
        f"""
        [profile here]
        region = eu-west-3
        services = local
        [services local]
        s3 =
            endpoint_url = {moto_endpoint}
        [profile plain]
        endpoint_url = http://plain.example:9000
        s3 =
            addressing_style = virtual
        [profile broken]
        services = nowhere
        """.replace("\n        ", "\n")
    )
    aws_environment.setenv("AWS_CONFIG_FILE", str(file))
    aws_environment.setenv("AWS_PROFILE", "here")
    bucket = new_bucket(moto_endpoint)
    store = S3Store(bucket)
    store.put("k", b"1", ANY)
    assert store.get("k") == b"1"
    assert store._connection.config.region == "eu-west-3"
    aws_environment.setenv("AWS_PROFILE", "plain")
    config = S3Store(bucket)._connection.config
    assert config.object_url("b", "k") == "http://b.plain.example:9000/k"
    aws_environment.setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
    assert S3Store(bucket)._connection.config.endpoint == ""
    aws_environment.setenv("AWS_PROFILE", "missing")
    with pytest.raises(PermissionDenied, match="missing") as raised:
        S3Store(bucket).get("k")
    assert "AWS_PROFILE" in str(raised.value.hint)


# Impossible keys


def test_keys_that_are_not_utf8_are_refused(store: S3Store) -> None:
    for call in (store.get, store.head, lambda key: store.put(key, b"", ANY)):
        with pytest.raises(UsageError, match="not UTF-8"):
            call("not-utf-8-\udcff")
    with pytest.raises(UsageError, match="needs a key"):
        store.put("", b"", ANY)


def test_an_empty_version_is_no_condition(store: S3Store) -> None:
    with pytest.raises(ValueError, match="cannot be empty"):
        store.put("k", b"", Match(Version("")))


@pytest.mark.parametrize(
    ("status", "problem"),
    [("", "was never enabled"), ("Enabled", ""), ("Suspended", "is suspended")],
)
def test_only_a_bucket_with_versioning_keeps_versions(
    store: S3Store, status: str, problem: str
) -> None:
    if status:
        store._connection.client().put_bucket_versioning(
            Bucket=store.bucket, VersioningConfiguration={"Status": status}
        )
    if not problem:
        store.check_versions()
    else:
        with pytest.raises(Unsupported, match=problem):
            store.check_versions()


def test_a_bucket_has_no_files(store: S3Store) -> None:
    assert store.local_path("k") is None


def test_namespaces_of_one_bucket_do_not_see_each_other(bucket: str) -> None:
    one, nested, whole = S3Store(bucket, "a"), S3Store(bucket, "a/b"), S3Store(bucket)
    S3Store(bucket, "ab").put("k", b"", ANY)
    one.put("k", b"", ANY)
    nested.put("k", b"", ANY)
    assert [info.key for info in one.list()] == ["b/k", "k"]
    assert [info.key for info in nested.list()] == ["k"]
    assert [info.key for info in whole.list()] == ["a/b/k", "a/k", "ab/k"]
    assert (one.uri, whole.uri) == (f"s3://{bucket}/a", f"s3://{bucket}")


def test_a_key_with_a_newline_is_kept(
    aws_environment: pytest.MonkeyPatch, rclone_endpoint: str
) -> None:
    # moto answers 404 for it.
    aws_environment.setenv("AWS_ENDPOINT_URL", rclone_endpoint)
    store = S3Store(new_bucket(rclone_endpoint), "p")
    store.put("new\nline", b"1", ANY)
    assert [info.key for info in store.list()] == ["new\nline"]
    assert store.get("new\nline") == b"1"
    store.delete(["new\nline"])
    assert list(store.list()) == []


def test_an_answer_to_a_range_must_be_partial(
    aws_environment: pytest.MonkeyPatch, rclone_endpoint: str
) -> None:
    aws_environment.setenv("AWS_ENDPOINT_URL", rclone_endpoint)
    store = S3Store(new_bucket(rclone_endpoint))
    store.put("k", b"0123456789", ANY)
    assert store.get("k") == b"0123456789"
    with pytest.raises(Unsupported, match="with that part"):
        store.get("k", start=2, length=3)


def test_nothing_is_loaded_before_the_first_request() -> None:
    script = (
        "import sys; from lakecli.stores.registry import open_store;"
        "store = open_store('s3://bucket/prefix'); store.uri; store.batch();"
        "sys.exit('botocore' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def body_of(size: int, *, seekable: bool) -> BinaryIO:
    return BytesIO(b"\x5a" * size) if seekable else cast("BinaryIO", Chunked(size))


def test_responses_show_the_stores_clock(store: S3Store) -> None:
    assert store_time(store) is None
    store.put("clock", b"", ANY)
    shown, modified = store_time(store), store.head("clock").modified_at
    assert shown is not None
    assert abs(shown - modified) < timedelta(minutes=1)


def test_a_key_that_is_not_among_the_versions_is_described_unless_it_is_gone(
    store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = store.put("k", b"1", ABSENT)
    listed = list(store.list())
    monkeypatch.setattr(store, "_versions_page", lambda *_, **__: ([], None))
    monkeypatch.setattr(store, "list", lambda **_: iter(listed))
    assert [info.version for info, _ in store.list_versions()] == [version]
    store.delete(["k"])
    assert list(store.list_versions()) == []
