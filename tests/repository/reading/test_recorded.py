"""Objects outside the namespace are read only as they were recorded."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from hashlib import md5
from typing import TYPE_CHECKING

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.model import Entry
from lakecli.errors import IntegrityError, LakeError, NotFound, PermissionDenied
from lakecli.repository.reading import recorded as recording
from lakecli.repository.reading.addresses import remember
from lakecli.repository.reading.contents import content_digest, read_located, read_object
from lakecli.repository.reading.recorded import PIECE, AsRecorded, Recorded, compare
from lakecli.stores.contract import ANY, ConditionFailed, Version, check_matching
from lakecli.stores.local.store import DirectoryStore
from tests.support.counting import CountingStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakecli.repository.contract import Repository
    from lakecli.stores.contract import ObjectInfo, ObjectStore
    from tests.support.memory_store import Stored

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = AT + timedelta(days=1)
OLD, NEW = b"old bytes", b"new bytes"
MD5 = md5(OLD).hexdigest()


class Bucket(CountingStore):
    """A bucket that counts its requests, and some of what servers get wrong.

    Attributes:
        etag: what HEAD says in place of the version.
        refuses_head: requests to describe an object are refused.
        is_mute: no answer has an ETag.
    """

    etag: str | None = None
    refuses_head = False
    is_mute = False

    def head(self, key: str) -> ObjectInfo:
        found = super().head(key)
        if self.refuses_head:
            raise PermissionDenied("no HEAD")
        if self.is_mute:
            return found._replace(version=Version(""), etag="")
        return found if self.etag is None else found._replace(etag=self.etag)

    def _find(self, key: str, matching: str = "") -> Stored:
        found = super()._find(key)
        check_matching(matching, key, "" if self.is_mute else found.info.version)
        return found


def bucket_of(data: bytes) -> tuple[Bucket, str]:
    """Return a bucket with an object, and what an import would record as its checksum."""
    bucket = Bucket()
    checksum = str(bucket.put("k", data, ANY))
    bucket.reset()
    return bucket, checksum


def object_of(store: ObjectStore, checksum: str, *, size: int = len(OLD)) -> AsRecorded:
    recorded = Recorded(f"{store.uri}/k", size, checksum, AT)
    return AsRecorded(store, recorded, "lakefs://demo", {})


def directory_of(path: Path, data: bytes, *, at: datetime = AT) -> DirectoryStore:
    (path / "k").write_bytes(data)
    os.utime(path / "k", (at.timestamp(), at.timestamp()))
    return DirectoryStore(str(path))


def opened(store: ObjectStore) -> bytes:
    with store.open("k") as file:
        return file.read()


WAYS: list[Callable[[ObjectStore], bytes]] = [
    lambda store: store.get("k"),
    lambda store: store.get("k", start=4, length=3),
    lambda store: store.get("k", start=-3),
    opened,
]
ways = pytest.mark.parametrize("read", WAYS)


@ways
def test_a_good_object_of_a_bucket_is_one_request(read: Callable[[ObjectStore], bytes]) -> None:
    bucket, checksum = bucket_of(OLD)
    assert read(object_of(bucket, checksum)) in {OLD, OLD[4:7], OLD[-3:]}
    assert bucket.counts == {"get": 1}


@ways
def test_another_object_is_not_read(read: Callable[[ObjectStore], bytes], tmp_path: Path) -> None:
    bucket, checksum = bucket_of(OLD)
    bucket.put("k", NEW, ANY)
    files = directory_of(tmp_path, NEW, at=LATER)
    for store, recorded in ((bucket, checksum), (files, blake3_of(OLD).hex()), (files, MD5)):
        with pytest.raises(IntegrityError, match="was changed since it was recorded") as caught:
            read(object_of(store, recorded))
        assert caught.value.hint is not None
        assert "`fsck lakefs://demo --external" in caught.value.hint


@ways
def test_a_missing_object_is_missing(read: Callable[[ObjectStore], bytes], tmp_path: Path) -> None:
    for store in (Bucket(), DirectoryStore(str(tmp_path))):
        with pytest.raises(NotFound, match="no such object"):
            read(object_of(store, MD5))


@ways
def test_a_checksum_that_is_no_etag_is_compared_once(read: Callable[[ObjectStore], bytes]) -> None:
    bucket, _ = bucket_of(OLD)
    found = object_of(bucket, MD5)
    read(found)
    assert bucket.counts == {"get": 3, "head": 1}  # refused, hashed, read
    bucket.reset()
    read(found)
    assert bucket.counts == {"get": 1}
    bucket.put("k", NEW, ANY)
    with pytest.raises(IntegrityError, match="was changed"):
        read(found)


@ways
def test_what_nobody_can_compare_is_not_called_unchanged(
    read: Callable[[ObjectStore], bytes],
) -> None:
    for checksum, fault in (("gone", "refuses_head"), ("v1", "is_mute"), (MD5, "is_mute")):
        bucket, _ = bucket_of(NEW)
        setattr(bucket, fault, True)
        with pytest.raises(IntegrityError, match="cannot be verified") as caught:
            read(object_of(bucket, checksum))
        assert "--copy" in str(caught.value.hint)


def test_a_refused_head_does_not_matter_to_a_good_object() -> None:
    bucket, checksum = bucket_of(OLD)
    bucket.refuses_head = True
    assert object_of(bucket, checksum).get("k") == OLD


@pytest.mark.parametrize("checksum", ["a\r\nx-evil: 1", "\udcff\u20ac", '""-gzip""', "x" * 5_000])
def test_an_entry_may_record_anything(checksum: str, tmp_path: Path) -> None:
    for store in (bucket_of(OLD)[0], directory_of(tmp_path, OLD, at=LATER)):
        with pytest.raises(IntegrityError):
            object_of(store, checksum).get("k")


# Files


@ways
def test_a_file_of_the_recorded_time_is_not_hashed(
    read: Callable[[ObjectStore], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []
    digest = recording._digest

    def noted(store: ObjectStore, key: str, checksum: str, tag: str) -> str:
        hashed.append(key)
        return digest(store, key, checksum, tag)

    monkeypatch.setattr(recording, "_digest", noted)
    found = object_of(directory_of(tmp_path, OLD), blake3_of(OLD).hex())
    read(found)
    assert hashed == []
    os.utime(tmp_path / "k", (LATER.timestamp(), LATER.timestamp()))
    for _ in range(3):  # it is hashed once, however many parts are read
        read(found)
    assert hashed == ["k"]


@ways
def test_the_file_that_is_read_is_the_one_that_was_compared(
    read: Callable[[ObjectStore], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compare_and_replace(*args: object) -> tuple[ObjectInfo, str | None]:
        found = compare(*args)  # type: ignore[arg-type]
        (tmp_path / "new").write_bytes(NEW)
        (tmp_path / "new").replace(tmp_path / "k")
        return found

    monkeypatch.setattr(recording, "compare", compare_and_replace)
    with pytest.raises(IntegrityError, match="was changed"):
        read(object_of(directory_of(tmp_path, OLD), blake3_of(OLD).hex()))


def test_a_part_of_a_file_is_not_that_of_a_file_written_to_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = directory_of(tmp_path, OLD)
    version = store.head("k").version
    read_range = "lakecli.stores.local.files.read_range"

    def write_and_read(descriptor: int, start: int, size: int) -> bytes:
        (tmp_path / "k").write_bytes(NEW)
        return os.pread(descriptor, size, start)

    monkeypatch.setattr(read_range, write_and_read)
    with pytest.raises(ConditionFailed):
        store.get("k", start=2, length=3, matching=version)


@pytest.mark.parametrize("size", [1, PIECE, PIECE + 1])
def test_all_bytes_of_a_file_are_hashed_while_they_are_read(tmp_path: Path, size: int) -> None:
    old = b"o" * size
    for recorded in (blake3_of(old).hex(), md5(old).hexdigest()):
        entry = Entry(f"local://{tmp_path}/k", size, recorded, AT)
        assert content_digest(entry) == recorded

        def read(store: ObjectStore, entry: Entry = entry) -> bytes:
            found = object_of(store, entry.checksum, size=size)
            return b"".join(read_located("lakefs://demo", found, "k", entry))

        # Whatever its time says, the digest decides.
        assert read(directory_of(tmp_path, old, at=LATER)) == old
        for other in (b"n" * size, b"o" * (size - 1), b"o" * (size + 1)):
            with pytest.raises(IntegrityError, match="was changed since it was recorded"):
                read(directory_of(tmp_path, other, at=AT))


def test_a_file_that_lakefs_wrote_has_no_digest_to_compare(
    repository: Repository, tmp_path: Path
) -> None:
    path = tmp_path / "elsewhere" / "data" / "gp0n1l7d77pn0cke6jjg" / "cg6p50nd77pn0cke6jk0"
    path.parent.mkdir(parents=True)
    path.write_bytes(NEW)
    remember(repository, [f"local://{tmp_path}/elsewhere"])
    entry = Entry(f"local://{path}", len(NEW), MD5, AT)
    assert b"".join(read_object(repository, entry)) == NEW
    with pytest.raises(IntegrityError):
        list(read_object(repository, entry._replace(size=1)))
    with pytest.raises(IntegrityError, match="was changed"):
        list(read_object(repository, entry._replace(checksum=blake3_of(OLD).hex())))


# Comparing


@pytest.mark.parametrize(
    ("checksum", "etag", "at", "problem"),
    [
        ("e-2", "e-2", LATER, None),
        ('"e-2"', "e-2", LATER, None),
        ('W/"e-2"', "e-2", LATER, None),
        ("e-2", 'W/"e-2-gzip"', LATER, None),
        ("e-2", "e-3", LATER, "it changed: its ETag"),
        (MD5, f"{MD5}-2", LATER, None),
        (MD5, f"{'0' * 32}-2", LATER, "it changed: its MD5"),
        ("e-2", "e-3", AT, "it changed: its ETag"),
        ("e-2", "", LATER, "it cannot be verified"),
        ("e-2", "", AT, None),
        (MD5, MD5, LATER, None),
        (MD5, "0" * 32, LATER, "it changed: its MD5"),
        (MD5, "e-2", LATER, "it changed: its MD5"),
        (MD5, "", LATER, "it cannot be verified"),
        (blake3_of(OLD).hex(), "", LATER, "it changed: its BLAKE3"),
        (blake3_of(NEW).hex(), "e-2", LATER, None),
        (md5(NEW).hexdigest(), "e-2", LATER, None),
        ("", "e-2", LATER, None),
    ],
)
def test_what_a_store_says_is_compared_with_what_was_recorded(
    checksum: str, etag: str, at: datetime, problem: str | None
) -> None:
    class Store(Bucket):
        def head(self, key: str) -> ObjectInfo:
            found = super().head(key)
            version = found.version if etag else Version("")
            return found._replace(etag=etag, version=version, modified_at=at)

        def _find(self, key: str, matching: str = "") -> Stored:
            del matching
            return super()._find(key)

    store = Store()
    store.put("k", NEW, ANY)
    found = compare(store, "k", Recorded("memory://k", len(NEW), checksum, AT))[1]
    assert found is None if problem is None else str(found).startswith(problem)
    shorter = compare(store, "k", Recorded("memory://k", 1, checksum, AT))[1]
    assert str(shorter) == "it changed: 9 bytes where the entry says 1"


def test_errors_of_any_other_kind_come_as_they_are() -> None:
    class Down(Bucket):
        def get(self, *_args: object, **_options: object) -> bytes:
            raise LakeError("down")

    with pytest.raises(LakeError, match="down"):
        object_of(Down(), "e").get("k")
