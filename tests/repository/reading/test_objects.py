"""Reading objects: stat, listing, contents, presigned URLs."""

from __future__ import annotations

import io
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.base.identity import blake3_of
from lakecli.base.layout import data_key
from lakecli.base.model import Entry
from lakecli.committed.scan import ListedObject, ListedPrefix
from lakecli.committed.values import encode_entry
from lakecli.errors import IntegrityError, NotFound, Unreachable, Unsupported
from lakecli.repository.commit import commit
from lakecli.repository.handoff.links import presign_entry
from lakecli.repository.ls import ls
from lakecli.repository.reading import contents as reading
from lakecli.repository.reading.addresses import remember
from lakecli.repository.reading.contents import read_object, with_attributes
from lakecli.repository.reading.recorded import PIECE
from lakecli.repository.stat import stat
from lakecli.repository.upload import UploadOptions, upload_stream
from lakecli.stores.contract import ANY, Attributes, plain_encoding
from lakecli.stores.presigned_urls import PresignedUrl, PresignRequest
from tests.support.lakes import entry_of, make_repository, open_lake, serve, stage, through
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.repository.contract import Repository


NOW = datetime(2026, 3, 1, tzinfo=UTC)


def listed(repository: Repository, ref: str = "main", **options: Any) -> list[tuple[str, bytes]]:
    names = {ListedObject: "object", ListedPrefix: "prefix"}
    with ls(repository, ref, **{"prefix": b"", **options}) as found:
        return [(names[type(item)], item.path) for item in found]


def upload(repository: Repository, path: bytes, data: bytes) -> Entry:
    options = UploadOptions()
    return upload_stream(repository, "main", path, source=io.BytesIO(data), options=options)


@pytest.mark.parametrize(
    ("kind", "encoding", "recorded"),
    [
        ("text/csv; charset=utf-8", "gzip", ("text/csv; charset=utf-8", "gzip")),
        ("application/octet-stream", "", ("", "")),
        ("binary/octet-stream", "br, gzip", ("", "br, gzip")),
        ("", "", ("", "")),
        ("text/csv\r\nX-Evil: 1", "gzip\r\nX-Evil: 1", ("", "")),
        ("t" * 256, "g" * 33, ("", "")),
        ("text/\udcff", "\udcff", ("", "")),
    ],
)
def test_what_a_store_says_of_outside_bytes_is_recorded_if_it_is_well_formed(
    kind: str, encoding: str, recorded: tuple[str, str]
) -> None:
    store = MemoryStore()
    store.put("k", b"1", ANY, Attributes(kind, content_encoding=plain_encoding(encoding)))
    entry = Entry("s3://outside/k", 1, "etag", NOW)
    found = with_attributes(entry, store, "k")
    assert (found.content_type, found.content_encoding) == recorded
    assert encode_entry(found)
    own = entry._replace(content_type="own/type", metadata={"content-encoding": "zstd", "k": "v"})
    assert with_attributes(own, store, "missing") == own
    assert with_attributes(entry, store, "missing") == entry
    half = entry._replace(metadata={"content-encoding": "zstd"})
    assert with_attributes(half, store, "k").content_encoding == "zstd"
    inside = entry_of(b"1")._replace(content_type="")
    assert with_attributes(inside, store, "k") == inside


def test_stat_sees_staging_of_a_plain_branch_only(repository: Repository) -> None:
    stage(repository, "main", {b"a": b"old", b"b": b"there"})
    commit(repository, "main", message="first", committer="me")
    stage(repository, "main", {b"a": b"new", b"b": None})
    assert stat(repository, "main", b"a").checksum == entry_of(b"new").checksum
    assert stat(repository, "main$", b"a").checksum == entry_of(b"new").checksum
    assert stat(repository, "main@", b"a").checksum == entry_of(b"old").checksum
    assert stat(repository, "main@", b"b").size == 5
    with pytest.raises(NotFound, match="no object at lakefs://demo/main/b"):
        stat(repository, "main", b"b")


def test_stat_of_a_prefix_hints_at_ls(repository: Repository) -> None:
    stage(repository, "main", {b"dir/a": b"1"})
    cases = {
        b"dir": "list what is below it: `fs ls lakefs://demo/main/dir/`",
        b"dir/": "list what is below it: `fs ls lakefs://demo/main/dir/`",
        b"dir/b": "list what is there: `fs ls lakefs://demo/main/dir/`",
        b"di": "list what is there: `fs ls lakefs://demo/main/`",
    }
    for path, hint in cases.items():
        with pytest.raises(NotFound) as raised:
            stat(repository, "main", path)
        assert raised.value.hint == hint


def test_a_listing_without_objects_does_not_look_into_the_namespace(
    repository: Repository, tmp_path: Path
) -> None:
    """It may lie on a disk that is not mounted."""
    (tmp_path / "namespace").rename(tmp_path / "elsewhere")
    assert listed(through(repository)) == []


def test_a_listing_groups_by_directory(repository: Repository) -> None:
    stage(repository, "main", dict.fromkeys((b"a", b"d/1", b"d/2", b"d-x", b"e/f/g"), b"x"))
    commit(repository, "main", message="first", committer="me")
    stage(repository, "main", {b"a": None, b"d/3": b"x", b"z": b"x"})
    assert listed(repository) == [
        ("object", path) for path in (b"d-x", b"d/1", b"d/2", b"d/3", b"e/f/g", b"z")
    ]
    slashed = [("object", b"d-x"), ("prefix", b"d/"), ("prefix", b"e/"), ("object", b"z")]
    assert listed(repository, delimiter=b"/") == slashed
    assert listed(repository, delimiter=b"/", after=b"d-x") == slashed[1:]
    assert listed(repository, delimiter=b"/", after=b"d/") == slashed[2:]
    assert listed(repository, prefix=b"d", delimiter=b"/") == slashed[:2]
    assert listed(repository, "main@", prefix=b"d/") == [("object", b"d/1"), ("object", b"d/2")]
    assert listed(repository, prefix=b"nope") == []
    with pytest.raises(NotFound):
        listed(repository, "nope")


PATHS = st.text("ab/", min_size=1, max_size=5).map(str.encode)


@given(st.sets(PATHS), st.sets(PATHS), st.text("ab/", max_size=3).map(str.encode))
def test_a_listing_agrees_with_all_paths(
    tmp_path_factory: pytest.TempPathFactory, first: set[bytes], then: set[bytes], prefix: bytes
) -> None:
    directory = tmp_path_factory.mktemp("lake")
    with open_lake(directory) as lake:
        repository = make_repository(lake, directory)
        if first:
            stage(repository, "main", dict.fromkeys(first, b"x"))
            commit(repository, "main", message="first", committer="me")
        stage(repository, "main", {path: None if path in first else b"y" for path in then})
        expected = sorted(path for path in first ^ then if path.startswith(prefix))
        assert listed(repository, prefix=prefix) == [("object", path) for path in expected]
        collapsed: dict[bytes, str] = {}
        for path in expected:
            head, slash, _ = path[len(prefix) :].partition(b"/")
            collapsed[prefix + head + slash] = "prefix" if slash else "object"
        found = listed(repository, prefix=prefix, delimiter=b"/")
        assert found == [(kind, path) for path, kind in sorted(collapsed.items())]


@pytest.mark.parametrize("size", [0, 1, PIECE, 3 * PIECE + 1])
def test_an_object_is_read(repository: Repository, size: int) -> None:
    data = b"x" * size
    entry = upload(repository, b"x", data)
    pieces = list(read_object(repository, entry))
    assert b"".join(pieces) == data
    assert max(map(len, pieces), default=0) <= PIECE


def test_damage_is_reported_at_the_end_of_reading(repository: Repository) -> None:
    data = b"x" * (2 * PIECE)
    entry = upload(repository, b"x", data)
    repository.store.put(entry.physical_address, data[:-1] + b"y", ANY)
    seen: list[bytes] = []
    with pytest.raises(IntegrityError, match="damaged"):
        seen.extend(read_object(repository, entry))
    assert sum(map(len, seen)) == len(data)


class Counting(MemoryStore):
    """A bucket that counts the bytes that it hands out."""

    count = 0

    def open(self, key: str, *, matching: str = "") -> BinaryIO:
        stream, store = super().open(key, matching=matching), self

        class Stream(io.RawIOBase):
            def read(self, size: int = -1) -> bytes:
                data = stream.read(size)
                store.count += len(data)
                return data

        return Stream()  # type: ignore[return-value]

    def get(
        self, key: str, *, start: int = 0, length: int | None = None, matching: str = ""
    ) -> bytes:
        data = super().get(key, start=start, length=length, matching=matching)
        self.count += len(data)
        return data


@pytest.mark.parametrize("size", [0, 1, 2 * PIECE])
def test_of_an_object_that_has_grown_no_more_is_read_than_its_entry_says(
    repository: Repository, size: int
) -> None:
    store = Counting()
    serve(repository, store)
    entry = upload(repository, b"x", b"x" * size)
    store.put(entry.physical_address, b"x" * (8 * PIECE), ANY)
    store.count = 0
    seen: list[bytes] = []
    with pytest.raises(IntegrityError, match="damaged"):
        seen.extend(read_object(repository, entry))
    assert sum(map(len, seen)) <= size
    assert store.count <= size + PIECE


def test_an_external_file_with_an_etag_is_checked_by_size_and_time(
    repository: Repository, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_bytes(b"12345")
    at = datetime(2026, 1, 1, tzinfo=UTC)
    os.utime(tmp_path / "elsewhere" / "file", (at.timestamp(), at.timestamp()))
    address = f"local://{tmp_path}/elsewhere/file"
    remember(repository, [f"local://{tmp_path}/elsewhere"])
    assert b"".join(read_object(repository, Entry(address, 5, "an-etag", at))) == b"12345"
    with pytest.raises(IntegrityError):
        list(read_object(repository, Entry(address, 6, "an-etag", at)))
    with pytest.raises(NotFound, match="gone"):
        list(read_object(repository, Entry(address + "2", 5, "an-etag", at)))
    with pytest.raises(IntegrityError, match="cannot be verified"):
        list(read_object(repository, Entry(address, 5, "an-etag", at + timedelta(1))))


class Breaking(MemoryStore):
    """A bucket whose connection breaks after some bytes of a stream."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after
        self.ranges: list[int] = []

    def open(self, key: str, *, matching: str = "") -> BinaryIO:
        stream, after = super().open(key, matching=matching), self.after

        class Stream(io.RawIOBase):
            def read(self, size: int = -1) -> bytes:
                if stream.tell() >= after:
                    raise Unreachable("broken")
                return stream.read(min(size, after - stream.tell()))

        return Stream()  # type: ignore[return-value]

    def get(
        self, key: str, *, start: int = 0, length: int | None = None, matching: str = ""
    ) -> bytes:
        self.ranges.append(start)
        return super().get(key, start=start, length=length, matching=matching)


def test_reading_resumes_after_a_broken_connection(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "RANGE", 100_000)
    data = b"0123456789" * 200_000  # a single piece is read by one call
    store = Breaking(after=123_456)
    serve(repository, store)
    entry = upload(repository, b"x", data)
    store.ranges.clear()  # uploading reads the state of garbage collection
    assert b"".join(read_object(repository, entry)) == data
    assert store.ranges[0] == 123_456


def test_a_failed_connection_is_an_error(repository: Repository) -> None:
    store = Breaking(after=0)
    serve(repository, store)
    entry = upload(repository, b"x", b"data" * PIECE)
    store.ranges.clear()  # as above
    with pytest.raises(Unreachable):
        list(read_object(repository, entry))
    assert store.ranges == []


class Signing(MemoryStore):
    """A bucket that signs URLs and records the requests."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[tuple[str, PresignRequest]] = []

    def presign(self, key: str, request: PresignRequest, *, now: datetime) -> PresignedUrl:
        self.requests.append((key, request))
        return PresignedUrl("https://signed", now + request.expires_in)


def test_a_presigned_url_sets_type_and_file_name(repository: Repository) -> None:
    store = Signing()
    serve(repository, store)
    upload(repository, b"reports/2026.csv", b"a,b")
    entry = stat(repository, "main", b"reports/2026.csv")
    url = presign_entry(repository, entry, b"reports/2026.csv", expires_in=timedelta(hours=2))
    assert url.url == "https://signed"
    ((key, request),) = store.requests
    assert key == data_key(blake3_of(b"a,b").hex())
    assert (request.method, request.expires_in) == ("GET", timedelta(hours=2))
    assert (request.content_type, request.file_name) == ("text/csv", "2026.csv")


def test_a_directory_cannot_presign(repository: Repository) -> None:
    entry = upload(repository, b"x", b"data")
    with pytest.raises(Unsupported, match="cannot presign"):
        presign_entry(repository, entry, b"x", expires_in=timedelta(hours=2))
