from __future__ import annotations

import re
import subprocess
import sys
from contextlib import ExitStack
from datetime import timedelta
from io import BytesIO
from socket import socket
from time import sleep
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import pytest
import urllib3
from azure.storage.blob import BlobServiceClient
from hypothesis import given
from hypothesis import strategies as st

from lakecli.errors import IntegrityError, PermissionDenied, Unsupported, UsageError
from lakecli.stores.azure.names import decode_metadata, encode_metadata, in_byte_order
from lakecli.stores.azure.store import AzureStore
from lakecli.stores.capabilities import PART_SIZE, UploadNotFound, store_time
from lakecli.stores.contract import (
    ABSENT,
    ANY,
    Attributes,
    BucketNotFound,
    ConditionFailed,
    Match,
    ObjectNotFound,
    Version,
)
from lakecli.stores.registry import prepare_namespace
from lakecli.stores.streams import READ_SIZE
from tests.stores.contract import ODD_NAMES, PREFIXES, Chunked, ObjectStoreContract
from tests.stores.uploads_contract import CheckedPartsContract, part_of
from tests.support.azurite import ACCOUNT, KEY, connection_string, new_container
from tests.support.proxies import tampering

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakecli.stores.contract import Condition, ObjectStore

IMPOSSIBLE = ("back\\slash", "...")


@pytest.fixture
def container(azure_environment: pytest.MonkeyPatch, azurite: str) -> str:
    return new_container(azurite)


@pytest.fixture
def store(container: str) -> AzureStore:
    return AzureStore(ACCOUNT, container, "prefix")


class TestAzureStore(CheckedPartsContract, ObjectStoreContract):
    knows_dropped_uploads = False  # a blob accepts blocks of any name
    outlives_others = False
    odd_names = (
        *(name for name in ODD_NAMES if name not in IMPOSSIBLE),
        "\x7f",
        "n" * 500,
        "a//b",
        "new\nline",
        ".a/..b/c.d",
        "folder/",
        "folder//",
    )

    @pytest.mark.parametrize("length", [None, 3])
    def test_open_files_of_empty_blobs_hold_no_connections(
        self, store: AzureStore, length: int | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The SDK reads nothing of such an answer."""
        store.put("empty", b"", ANY)
        made: list[socket] = []
        connect = urllib3.util.connection.create_connection

        def recorded(*args: Any, **options: Any) -> socket:
            made.append(connect(*args, **options))
            return made[-1]

        monkeypatch.setattr(urllib3.util.connection, "create_connection", recorded)
        with ExitStack() as files:
            for _ in range(3):
                assert store.get("empty", length=length) == b""
                assert files.enter_context(store.open("empty")).read() == b""
            still_open = [each for each in made if each.fileno() != -1]
        assert made
        assert still_open == []

    @pytest.fixture(params=PREFIXES[::2])
    def make_store(
        self, request: pytest.FixtureRequest, container: str
    ) -> Callable[[], ObjectStore]:
        return lambda: AzureStore(ACCOUNT, container, request.param)

    @pytest.fixture
    def missing_store(self, container: str) -> ObjectStore:
        return AzureStore(ACCOUNT, f"{container}-missing", "some/prefix")

    @pytest.fixture
    def store(self, make_store: Callable[[], ObjectStore]) -> ObjectStore:
        return make_store()


# Streams in blocks


@pytest.mark.parametrize("size", [PART_SIZE, 2 * PART_SIZE + 3])
def test_large_streams_keep_their_condition(store: AzureStore, size: int) -> None:
    created = store.put("k", chunked(size), ABSENT, Attributes("a/b", {"x-y": "1"}))
    info = store.head("k")
    assert (info.size, info.content_type, info.metadata) == (size, "a/b", {"x-y": "1"})
    assert info.version == created
    with pytest.raises(ConditionFailed):
        store.put("k", chunked(size), ABSENT)
    replaced = store.put("k", chunked(size + 1), Match(created))
    with pytest.raises(ConditionFailed):
        store.put("k", chunked(size), Match(created))
    with pytest.raises(ConditionFailed):
        store.put("missing", chunked(size), Match(created))
    assert store.head("k").version == replaced
    assert store.head("k").size == size + 1


def test_a_large_body_in_memory_is_sent_in_blocks(
    store: AzureStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakecli.stores.azure.client.SINGLE_LIMIT", PART_SIZE)
    body = bytes(range(256)) * (PART_SIZE // 256) + b"end"
    store.put("k", body, ABSENT)
    assert store.get("k") == body
    store.put_new("k2", body)
    store.put_new("k2", b"other" + body)
    assert store.get("k2", start=-5) == body[-5:]


def test_a_stream_is_read_over_several_requests(store: AzureStore) -> None:
    pattern = bytes(range(256)) * 1_000
    for size in (READ_SIZE - 1, READ_SIZE, READ_SIZE + 1, 2 * READ_SIZE + 1):
        body = (pattern * (size // len(pattern) + 1))[:size]
        store.put("k", body, ANY)
        with store.open("k") as stream:
            assert stream.read(100) == body[:100]
            assert stream.read() == body[100:]
            assert stream.read(1) == b""
        assert store.get("k") == body
        assert store.get("k", start=1, length=size) == body[1:]


def test_a_condition_is_checked_again_at_the_end(store: AzureStore) -> None:
    first = store.put("k", b"1", ANY)
    conditions: tuple[tuple[str, Condition], ...] = (("new", ABSENT), ("k", Match(first)))
    for key, condition in conditions:
        stream = StagedConflict(store, key, b"faster")
        with pytest.raises(ConditionFailed):
            store.put(key, cast("BinaryIO", stream), condition)
        assert stream.is_overtaken
        assert store.get(key) == b"faster"


def test_two_uploads_of_one_object_do_not_mix(store: AzureStore) -> None:
    # Blocks of both exist until one list is committed, which drops the blocks of the other.
    other = b"\x01" * (2 * PART_SIZE)
    for condition in (ANY, ABSENT):
        stream = StagedConflict(store, f"k-{condition}", BytesIO(other))
        with pytest.raises(ConditionFailed):
            store.put(f"k-{condition}", cast("BinaryIO", stream), condition)
        assert stream.is_overtaken
        assert store.get(f"k-{condition}") == other


class StagedConflict(Chunked):
    """A body during whose sending another writer is faster."""

    def __init__(self, store: AzureStore, key: str, body: bytes | BytesIO) -> None:
        super().__init__(2 * PART_SIZE)
        self._store, self._key, self._body = store, key, body
        self.is_overtaken = False

    def read(self, size: int = -1) -> bytes:
        data = super().read(size)
        if not data and not self.is_overtaken:
            self.is_overtaken = True
            sleep(0.2)  # until the blocks in flight have arrived
            self._store.put(self._key, self._body, ANY)
        return data


def test_a_failed_upload_leaves_nothing(store: AzureStore) -> None:
    class Broken(Chunked):
        def read(self, size: int = -1) -> bytes:
            data = super().read(size)
            if not data:
                raise IntegrityError("changed while it was read")
            return data

    with pytest.raises(IntegrityError, match="changed while"):
        store.put("k", cast("BinaryIO", Broken(PART_SIZE + 1)), ANY)
    assert list(store.list()) == []
    with pytest.raises(ObjectNotFound):
        store.head("k")


def test_an_object_replaced_while_it_is_read_is_an_error(store: AzureStore) -> None:
    store.put("k", chunked(3 * READ_SIZE), ANY)
    with store.open("k") as stream:
        assert stream.read(10) == b"\x5a" * 10
        store.put("k", chunked(3 * READ_SIZE), ANY)
        with pytest.raises(ConditionFailed, match="replaced while it was read"):
            stream.read()


@pytest.mark.parametrize(
    "attributes",
    [
        Attributes("application/octet-stream"),
        Attributes("text/csv", {"q": "r"}),
        Attributes("a/b", {}, "gzip"),
    ],
)
def test_a_copy_from_elsewhere_has_its_own_attributes(
    store: AzureStore, attributes: Attributes
) -> None:
    store.put("k", b"x", ANY, Attributes("a/b", {"x": "y"}, "gzip"))
    assert store.copy_from(store, "k", "to", attributes)
    found = store.head("to")
    assert Attributes(found.content_type, found.metadata, found.content_encoding) == attributes
    assert found.md5 == store.head("k").md5
    assert store.copy_from(store, "k", "plain", Attributes())
    plain = store.head("plain")
    assert (plain.metadata, plain.content_encoding) == ({}, "")


# Uploads in parts


def test_a_dropped_upload_is_not_joined(store: AzureStore) -> None:
    uploads = store.uploads()
    upload, other = uploads.start("k"), uploads.start("k")
    part = part_of(uploads, "k", upload, 1, b"never")
    kept = part_of(uploads, "k", other, 1, b"kept")
    uploads.abort("k", upload)
    with pytest.raises(UploadNotFound):
        uploads.complete("k", upload, [part])
    assert [each.id for each in uploads.iter_unfinished()] == [other]
    with pytest.raises(UploadNotFound):
        uploads.complete("k", other, [kept._replace(number=2, tag=part.tag[:-1] + "x")])
    uploads.complete("k", other, [kept])
    assert store.get("k") == b"kept"
    uploads.abort("k", other)
    assert list(uploads.iter_unfinished()) == []


def test_an_upload_ignores_the_blocks_of_a_stream(store: AzureStore) -> None:
    class Broken(Chunked):
        def read(self, size: int = -1) -> bytes:
            data = super().read(size)
            if not data:
                raise IntegrityError("changed while it was read")
            return data

    with pytest.raises(IntegrityError):
        store.put("k", cast("BinaryIO", Broken(2 * PART_SIZE)), ANY)
    uploads = store.uploads()
    store.put("empty", b"", ANY)
    assert list(uploads.iter_unfinished()) == []
    upload = uploads.start("k")
    part = part_of(uploads, "k", upload, 1, b"x")
    assert list(uploads.parts("k", upload)) == [part._replace(crc32c=None)]
    assert [each.id for each in uploads.iter_unfinished()] == [upload]
    # Writing the object drops all blocks.
    store.put("k", chunked(PART_SIZE), ANY)
    with pytest.raises(UploadNotFound):
        list(uploads.parts("k", upload))
    with pytest.raises(UploadNotFound):
        uploads.complete("k", upload, [part])
    assert store.head("k").size == PART_SIZE


def test_the_last_sending_of_a_part_counts(store: AzureStore) -> None:
    uploads = store.uploads()
    upload = uploads.start("k")
    first = part_of(uploads, "k", upload, 1, b"first")
    sleep(1.1)  # the store gives times in seconds
    later = store.uploads()
    second = part_of(later, "k", upload, 1, b"again")
    assert first.tag != second.tag
    assert [each.tag for each in uploads.parts("k", upload)] == [second.tag]
    changed, (begun,) = uploads.changed_at("k", upload), uploads.iter_unfinished()
    assert changed is not None
    assert changed > begun.started_at
    uploads.complete("k", upload, [second])
    assert store.get("k") == b"again"


# Checksums


def test_a_part_damaged_in_transit_is_refused(
    container: str, azurite: str, azure_environment: pytest.MonkeyPatch
) -> None:
    with tampering(azurite, old=b"the very body", new=b"the VERY body") as url:
        azure_environment.setenv("AZURE_STORAGE_CONNECTION_STRING", connection_string(url))
        store = AzureStore(ACCOUNT, container)
        large = b"the very body" + b"\x5a" * PART_SIZE
        conditions: tuple[Condition, ...] = (ANY, ABSENT)
        for condition in conditions:
            # To the emulator a blob with uncommitted blocks exists.
            for key, body in (("small", b"the very body"), ("large", BytesIO(large))):
                with pytest.raises(IntegrityError, match="received other bytes than were sent"):
                    store.put(key, body, condition)
        assert list(store.list()) == []
        store.put("k", b"another body", ABSENT)


# Preparing a container


def test_preparing_needs_the_container(container: str) -> None:
    assert prepare_namespace(f"az://{ACCOUNT}/{container}/prefix") == ""
    with pytest.raises(BucketNotFound, match="missing"):
        prepare_namespace(f"az://{ACCOUNT}/{container}-missing/prefix")


def test_namespaces_of_one_container_do_not_see_each_other(container: str) -> None:
    def namespace(prefix: str) -> AzureStore:
        return AzureStore(ACCOUNT, container, prefix)

    one, nested, whole = namespace("a"), namespace("a/b"), namespace("")
    namespace("ab").put("k", b"", ANY)
    one.put("k", b"", ANY)
    nested.put("k", b"", ANY)
    assert [info.key for info in one.list()] == ["b/k", "k"]
    assert [info.key for info in nested.list()] == ["k"]
    assert [info.key for info in whole.list()] == ["a/b/k", "a/k", "ab/k"]
    root = f"az://{ACCOUNT}/{container}"
    assert (one.uri, whole.uri) == (f"{root}/a", root)


# What Azure cannot hold


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("back\\slash", "a backslash"),
        ("x/../y", "is . or .."),
        ("x/./y", "is . or .."),
        ("..", "is . or .."),
        ("\x01", "control characters"),
        ("carriage\rreturn", "control characters"),
        ("\ufffe", "control characters"),
        ("not-utf-8-\udcff", "not UTF-8"),
        ("n" * 1_024, "longer than"),
        ("", "needs a key"),
    ],
)
def test_impossible_keys_are_refused(store: AzureStore, key: str, said: str) -> None:
    calls: tuple[Callable[[str], object], ...] = (
        store.get,
        store.head,
        lambda key: store.put(key, b"", ANY),
        lambda key: store.copy("k", key),
        lambda key: store.delete([key]),
    )
    for call in calls:
        with pytest.raises(UsageError, match=said):
            call(key)


@pytest.mark.parametrize("key", ["...", "a./b", "file.", "a/file."])
def test_listed_names_that_end_in_dots_are_read_only(
    store: AzureStore, container: str, azurite: str, key: str
) -> None:
    service = BlobServiceClient.from_connection_string(connection_string(azurite))
    service.get_container_client(container).upload_blob(f"prefix/{key}", b"0123")
    assert [info.key for info in store.list()] == [key]
    assert store.head(key).size == 4
    assert store.get(key) == store.get_versioned(key)[0] == b"0123"
    assert (store.get(key, start=1, length=2), store.get(key, start=-1)) == (b"12", b"3")
    with store.open(key) as opened:
        assert opened.read() == b"0123"
    store.copy(key, "copied")
    assert store.get("copied") == b"0123"
    writes: tuple[Callable[[str], object], ...] = (
        lambda key: store.put(key, b"", ANY),
        lambda key: store.copy("copied", key),
        lambda key: store.delete([key]),
        lambda key: store.uploads().start(key),
    )
    for write in writes:
        with pytest.raises(UsageError, match="ends with a dot"):
            write(key)


def test_the_longest_key_is_accepted(store: AzureStore) -> None:
    key = "n" * (1_024 - len("prefix/"))
    store.put(key, b"1", ANY)
    assert [info.key for info in store.list()] == [key]


def test_metadata_keys_that_are_no_identifiers_are_kept(store: AzureStore) -> None:
    metadata = {"plain": "1", "x-y": "a b", "1st": "2", "Größe": "XL", "_x002d_": "3", "a_b": "4"}
    store.put("k", b"", ANY, Attributes(metadata=metadata))
    assert store.head("k").metadata == metadata
    for refused in ({"k": "blank "}, {"k": "ü"}, {"k": "a\nb"}, {"": "v"}):
        with pytest.raises(UsageError, match="this metadata"):
            store.put("k", b"", ANY, Attributes(metadata=refused))


@given(st.lists(st.text("aZ0_x-.é🎉 fF25d", max_size=12).filter(bool), unique=True, max_size=5))
def test_metadata_survives_a_round_trip(keys: list[str]) -> None:
    metadata = dict.fromkeys(keys, "v")
    encoded = encode_metadata(metadata)
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key) for key in encoded)
    assert decode_metadata(encoded) == metadata


def test_foreign_metadata_is_read_unchanged() -> None:
    found = {"_x110000_": "1", "_xFFFF_": "2", "ab_x12_": "3"}
    assert decode_metadata(found) == found


@given(st.lists(st.text("a/-\ud7ff\ue000\uffff\U0001f389", max_size=4), unique=True))
def test_utf16_order_becomes_byte_order(names: list[str]) -> None:
    names = [name for name in names if name]
    listed = sorted(names, key=lambda name: name.encode("utf-16-be"))
    ordered = in_byte_order(listed, str)
    assert list(ordered) == sorted(names, key=str.encode)


def test_a_listing_in_another_order_is_refused() -> None:
    listed = AzureStore("account", "container").in_order(["a/x", "a-b"], str)
    assert next(listed) == "a/x"
    with pytest.raises(Unsupported, match="byte order"):
        next(listed)


def test_an_empty_version_is_no_condition(store: AzureStore) -> None:
    with pytest.raises(ValueError, match="cannot be empty"):
        store.put("k", b"", Match(Version("")))


def test_a_container_has_no_files(store: AzureStore) -> None:
    assert store.local_path("k") is None


def test_nothing_is_loaded_before_the_first_request() -> None:
    script = (
        "import sys; from lakecli.stores.registry import open_store;"
        "store = open_store('az://account/container/prefix'); store.uri; store.batch();"
        "sys.exit(bool({'azure', 'requests'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


# Credentials


def test_the_account_key_alone_is_enough(
    container: str, azurite: str, azure_environment: pytest.MonkeyPatch
) -> None:
    azure_environment.delenv("AZURE_STORAGE_CONNECTION_STRING")
    azure_environment.setenv("AZURE_STORAGE_ACCOUNT", ACCOUNT)
    azure_environment.setenv("AZURE_STORAGE_KEY", KEY)
    azure_environment.setenv("AZURE_STORAGE_SERVICE_ENDPOINT", f"{azurite}/{ACCOUNT}/")
    store = AzureStore(ACCOUNT, container)
    store.put("k", b"1", ABSENT)
    assert store.get("k") == b"1"


def test_a_sas_token_alone_is_enough(
    container: str, azurite: str, azure_environment: pytest.MonkeyPatch
) -> None:
    from azure.storage.blob import generate_container_sas

    def use(permission: str) -> None:
        token = generate_container_sas(
            ACCOUNT,
            container,
            account_key=KEY,
            permission=permission,
            expiry="2999-01-01T00:00:00Z",
        )
        azure_environment.setenv("AZURE_STORAGE_SAS_TOKEN", f"?{token}")

    azure_environment.delenv("AZURE_STORAGE_CONNECTION_STRING")
    azure_environment.setenv("AZURE_STORAGE_SERVICE_ENDPOINT", f"{azurite}/{ACCOUNT}")
    use("rwdlac")
    store = AzureStore(ACCOUNT, container)
    store.put("k", b"1", ABSENT)
    store.copy("k", "l")
    assert [info.key for info in store.list()] == ["k", "l"]
    store.delete(["k", "missing"])
    assert [info.key for info in store.list()] == ["l"]
    use("rl")
    with pytest.raises(PermissionDenied) as raised:
        AzureStore(ACCOUNT, container).put("m", b"1", ABSENT)
    assert "not authorized to perform this operation" in raised.value.message


def test_a_wrong_key_is_refused(
    container: str, azurite: str, azure_environment: pytest.MonkeyPatch
) -> None:
    for key, said in (("Z3Vlc3NlZA==", "refused"), ("not base64!", "malformed")):
        text = connection_string(azurite, key=key)
        azure_environment.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
        with pytest.raises(PermissionDenied, match=said) as raised:
            AzureStore(ACCOUNT, container).get("k")
        assert key not in raised.value.message


def chunked(size: int) -> BinaryIO:
    return cast("BinaryIO", Chunked(size))


def test_responses_show_the_stores_clock(store: AzureStore) -> None:
    assert store_time(store) is None
    store.put("clock", b"", ANY)
    shown, modified = store_time(store), store.head("clock").modified_at
    assert shown is not None
    assert abs(shown - modified) < timedelta(minutes=1)


class _Requests:
    """A client that records the number of deletions in each request."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def delete(self, names: Sequence[str], versions: Sequence[object] = ()) -> list[object]:
        assert len(versions) in {0, len(names)}
        self.sizes.append(len(names))
        return []


def test_a_request_deletes_at_most_256_objects() -> None:
    """The emulator may accept more."""
    store, requests = AzureStore(ACCOUNT, "container"), _Requests()
    store._clients = [requests]  # type: ignore[list-item]
    store.delete(f"k{number}" for number in range(513))
    assert requests.sizes == [256, 256, 1]
    requests.sizes.clear()
    assert store.delete_matching((f"k{n}", Version("1")) for n in range(513)) == []
    assert requests.sizes == [256, 256, 1]
