"""Reading versions of objects: one contract for every store with versions."""

from __future__ import annotations

import urllib.request
from contextlib import ExitStack
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import pytest

from lakecli.cli.context import system_now
from lakecli.errors import LakeError, Unsupported
from lakecli.stores.azure.store import AzureStore
from lakecli.stores.capabilities import versions_of
from lakecli.stores.contract import ANY, ObjectNotFound
from lakecli.stores.gs.store import GsStore
from lakecli.stores.local.store import DirectoryStore
from lakecli.stores.presigned_urls import PresignRequest
from lakecli.stores.read_only import at_version
from lakecli.stores.s3.store import S3Store
from tests.support.azure_versions import CONTAINER, versioned_azure
from tests.support.azurite import ACCOUNT
from tests.support.gcs import new_gcs_bucket
from tests.support.memory_store import MemoryBucket, MemoryStore
from tests.support.servers import new_bucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakecli.stores.contract import ObjectStore
    from tests.support.gcs import GcsServer


class Make(Protocol):
    def __call__(self, *, keeps: bool) -> ObjectStore: ...


@pytest.fixture(params=["s3", "s3 without a prefix", "gs", "az", "memory"])
def make(
    request: pytest.FixtureRequest, aws_environment: pytest.MonkeyPatch, moto_endpoint: str
) -> Iterator[Make]:
    """Makes stores in buckets with and without versioning."""
    with ExitStack() as stack:
        yield _make(stack, request, aws_environment, moto_endpoint)


def _make(
    stack: ExitStack, request: pytest.FixtureRequest, environment: pytest.MonkeyPatch, endpoint: str
) -> Make:
    if request.param == "az":

        def make_azure(*, keeps: bool) -> AzureStore:
            text, _ = stack.enter_context(versioned_azure(keeps_versions=keeps))
            environment.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
            store = AzureStore(ACCOUNT, CONTAINER, "some/pre fix")
            store.access()  # the credentials of this server
            return store

        return make_azure
    if request.param == "memory":
        return lambda *, keeps: MemoryStore(MemoryBucket(keeps_versions=keeps), "some/")
    if request.param == "gs":
        request.getfixturevalue("gcs_environment")
        server: GcsServer = request.getfixturevalue("gcs_server")
        return lambda *, keeps: GsStore(new_gcs_bucket(server, keeps_versions=keeps), "some/pre")
    environment.setenv("AWS_ENDPOINT_URL", endpoint)
    prefix = "some/pre fix" if request.param == "s3" else ""
    return lambda *, keeps: S3Store(new_bucket(endpoint, keeps_versions=keeps), prefix)


@pytest.fixture
def store(make: Make) -> ObjectStore:
    return make(keeps=True)


def listed(store: ObjectStore, after: str = "") -> dict[str, str]:
    return {info.key: version for info, version in versions_of(store).list_versions(after=after)}


def test_a_version_never_changes(store: ObjectStore) -> None:
    store.put("k", b"first!", ANY)
    before = store.head("k")
    first = listed(store)["k"]
    store.put("k", b"2nd", ANY)
    second = listed(store)["k"]
    store.delete(["k"])
    assert listed(store) == {}
    old = at_version(store, first)
    assert old.uri == store.uri
    assert old.get("k") == b"first!"
    assert old.get("k", start=2) == b"rst!"
    assert old.get("k", start=1, length=3) == b"irs"
    assert old.get("k", start=-2) == b"t!"
    assert old.get("k", start=6) == b""
    assert old.get("k", start=1, length=0) == b""
    with old.open("k") as source:
        assert source.read() == b"first!"
    assert (old.head("k").size, old.head("k").etag) == (6, before.etag)
    assert at_version(store, second).get("k") == b"2nd"


def test_without_a_version_the_store_itself_is_read(store: ObjectStore) -> None:
    assert at_version(store, "") is store


def test_a_version_of_another_object_is_not_found(store: ObjectStore) -> None:
    store.put("a", b"1", ANY)
    store.put("b", b"2", ANY)
    old = at_version(store, listed(store)["a"])
    for read in (old.get, old.head, old.open):
        with pytest.raises(ObjectNotFound):
            read("b")


def test_current_versions_are_listed_in_order(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakecli.stores.s3.reading.PAGE_SIZE", 4)
    names = [f"{letter}/{number}" for letter in "aeé" for number in range(3)]
    for _ in range(2):
        for name in reversed(names):
            store.put(name, name.encode(), ANY)
    store.put("z", b"", ANY)
    store.delete(["z", "e/1"])
    expected = [name for name in names if name != "e/1"]
    assert list(listed(store)) == expected
    for after, following in pairwise(expected):
        # Also after a text that is no key, where servers list in different order.
        assert next(iter(listed(store, after + "!"))) == following
        assert next(iter(listed(store, after))) == following
    assert [info for info, _ in versions_of(store).list_versions()] == list(store.list())
    for name, version in listed(store).items():
        assert at_version(store, version).get(name) == name.encode()


def test_a_bucket_without_versioning_is_reported(make: Make) -> None:
    for keeps in (True, False):
        store = make(keeps=keeps)
        store.put("k", b"", ANY)  # on Azure only objects show it
        if keeps:
            versions_of(store).check_versions()
        else:
            with pytest.raises(Unsupported, match="keeps no versions"):
                versions_of(store).check_versions()


def test_versions_are_read_only(store: ObjectStore) -> None:
    old = at_version(store, "v1")
    request = PresignRequest("PUT", timedelta(hours=1))
    attempts: list[Callable[[], object]] = [
        lambda: old.put("k", b"", ANY),
        lambda: old.put_new("k", b""),
        lambda: old.delete(["k"]),
        lambda: old.copy("k", "l"),
        old.list,
        old.batch,
        lambda: old.presign("k", request, now=system_now()),
    ]
    for attempt in attempts:
        with pytest.raises(Unsupported):
            attempt()
    assert list(store.list()) == []
    assert old.local_path("k") is None


def test_a_directory_has_no_versions(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="only buckets") as caught:
        at_version(DirectoryStore(str(tmp_path)), "v1")
    assert caught.value.hint == (
        "copy the bytes into the repository: `import --from SOURCE --to PATH --copy`"
    )


@pytest.mark.parametrize("key", ["plain", "o d+d/é?versionId=x"])
def test_a_signed_url_reads_the_version(store: ObjectStore, key: str) -> None:
    if isinstance(store, MemoryStore):
        return  # the store has no URLs
    store.put(key, b"first", ANY)
    old = at_version(store, listed(store)[key])
    store.put(key, b"second", ANY)
    signed = old.presign(key, PresignRequest("GET", timedelta(hours=1)), now=system_now())
    with urllib.request.urlopen(signed.url) as answer:
        assert answer.read() == b"first"


def test_the_signature_equals_that_of_the_sdk(
    aws_environment: pytest.MonkeyPatch, moto_endpoint: str
) -> None:
    from botocore.config import Config
    from botocore.session import Session

    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    store = S3Store("bucket")
    now = system_now()
    signed = at_version(store, "a.b_c~d-E").presign(
        "k/e y", PresignRequest("GET", timedelta(hours=1)), now=now
    )
    client = Session().create_client(
        "s3",
        region_name="us-east-1",
        endpoint_url=moto_endpoint,
        config=Config(s3={"addressing_style": "path"}, signature_version="s3v4"),
    )
    theirs = client.generate_presigned_url(
        "get_object",
        Params={"Bucket": "bucket", "Key": "k/e y", "VersionId": "a.b_c~d-E"},
        ExpiresIn=3600,
    )
    mine, other = (dict(_query(url)) for url in (signed.url, theirs))
    if mine["X-Amz-Date"] == other["X-Amz-Date"]:  # else a second passed between the two
        assert mine == other
    assert mine.keys() == other.keys()


def _query(url: str) -> list[tuple[str, str]]:
    from urllib.parse import parse_qsl, urlsplit

    return parse_qsl(urlsplit(url).query, strict_parsing=True)


def test_errors_about_versions_are_translated(store: ObjectStore) -> None:
    store.put("k", b"1", ANY)
    with pytest.raises(LakeError):
        at_version(store, "no.such.version").get("k")
