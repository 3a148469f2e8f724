"""Sending in parts: repeated parts, refused files and abandoned uploads."""

from __future__ import annotations

import io
import os
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.layout import data_key
from lakecli.base.progress import NO_PROGRESS
from lakecli.base.retry import PARTS, RetryPolicy
from lakecli.errors import PermissionDenied, Unreachable, Unsupported
from lakecli.kv import unfinished_uploads
from lakecli.repository.reading.recorded import PIECE
from lakecli.repository.transfer import multipart_upload
from lakecli.repository.transfer.ingest import SMALL, Digests
from lakecli.repository.transfer.multipart_upload import Section, SectionReader, Sender
from lakecli.repository.transfer.parallel import Workers
from lakecli.repository.transfer.walk import FileChanged
from lakecli.repository.upload import UploadOptions, upload_file, upload_stream
from lakecli.repository.upload_tree import upload_tree
from lakecli.stores.capabilities import MAX_PARTS, PART_SIZE, UploadNotFound, part_size_of
from lakecli.stores.contract import ANY
from lakecli.stores.responses import ServerDate
from tests.support.lakes import checksums, read, serve
from tests.support.memory_store import MemoryBucket, MemoryStore, MemoryUploads
from tests.support.recorded_progress import RecordedProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository
    from lakecli.stores.capabilities import UploadedPart, UploadId

SMALL_PART = 1 << 18
SIZE = 9 * SMALL_PART + 5
OPTIONS = UploadOptions(parallelism=3)
PATCHED = "lakecli.repository.transfer.multipart_upload.PART_SIZE"


class Uploads(MemoryUploads):
    """Calls a hook before each part, and counts the parts."""

    def __init__(self, store: MemoryStore, bucket: MemoryBucket) -> None:
        super().__init__(store, bucket, "")
        self.before: Callable[[int], None] = lambda _number: None
        self.sent: list[int] = []
        self.streams = 0
        self.at_once = self.most_at_once = 0
        self._counting = threading.Lock()

    def put_part(
        self, key: str, upload: Any, number: int, body: Any, *, crc32c: int
    ) -> UploadedPart:
        with self._counting:
            self.sent.append(number)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            self.streams += not isinstance(body, bytes)
        try:
            self.before(number)
            return super().put_part(key, upload, number, body, crc32c=crc32c)
        finally:
            with self._counting:
                self.at_once -= 1


class Bucket(MemoryStore):
    def __init__(self) -> None:
        self.bucket = MemoryBucket(clock=lambda: self.time)
        self.time = datetime(2026, 3, 1, tzinfo=UTC)
        super().__init__(self.bucket)
        self.parts = Uploads(self, self.bucket)

    def uploads(self) -> Uploads:
        return self.parts


@pytest.fixture
def store(repository: Repository) -> Bucket:
    made = Bucket()
    serve(repository, made)
    return made


@pytest.fixture(autouse=True)
def small_parts_and_no_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PATCHED, SMALL_PART)
    monkeypatch.setattr(
        "lakecli.repository.transfer.parallel.PARTS", RetryPolicy(PARTS.attempts, 0.001)
    )


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    root.mkdir()
    (root / "large").write_bytes(os.urandom(SIZE))
    return root


def upload(repository: Repository, source: Path, options: UploadOptions = OPTIONS) -> str:
    """Upload the large file, and return its checksum."""
    return upload_file(
        repository, "main", b"large", source=source / "large", options=options
    ).checksum


def begun(repository: Repository) -> list[unfinished_uploads.UnfinishedTransfer]:
    with repository.lake.kv.read() as txn:
        return list(unfinished_uploads.iter_transfers(txn, repository.key))


def fail_at(number: int, error: Exception, *, times: int = 1000) -> Callable[[int], None]:
    left = [times]

    def before(part: int) -> None:
        if part == number and left[0]:
            left[0] -= 1
            raise error

    return before


def test_parts_are_sent_concurrently(repository: Repository, store: Bucket, source: Path) -> None:
    store.parts.before = lambda _number: time.sleep(0.02)
    progress = RecordedProgress()
    options = UploadOptions(parallelism=3, progress=progress)
    checksum = upload(repository, source, options)
    assert store.get(data_key(checksum)) == (source / "large").read_bytes()
    assert sorted(store.parts.sent) == list(range(1, 11))
    assert store.parts.most_at_once == 3
    assert progress.size == SIZE
    assert begun(repository) == []


def test_without_uploads_in_parts_a_file_is_one_stream(
    repository: Repository, store: Bucket, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def start(key: str) -> UploadId:
        tried.append(key)
        raise Unsupported("has no uploads in parts")

    monkeypatch.setattr(store.parts, "start", start)
    for number in range(3):
        (source / f"{number}").write_bytes(os.urandom(SIZE))
    progress = RecordedProgress()
    options = UploadOptions(parallelism=1, progress=progress)
    assert upload_tree(repository, "main", b"", source=source, options=options).uploaded == 4
    expected = {os.fsencode(path.name): path.read_bytes() for path in source.iterdir()}
    assert read(repository, "main") == checksums(expected)
    assert {store.get(data_key(blake3_of(data).hex())) for data in expected.values()} == {
        *expected.values()
    }
    assert len(tried) == 1
    assert progress.size == 4 * SIZE
    assert begun(repository) == []


def test_a_stream_that_fits_into_a_part_is_one_request(
    repository: Repository, store: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PATCHED, PART_SIZE)
    data = os.urandom(SMALL + 1)
    assert len(data) < PART_SIZE
    options = UploadOptions()
    entry = upload_stream(repository, "main", b"a", source=io.BytesIO(data), options=options)
    assert store.get(entry.physical_address) == data
    assert store.parts.sent == []


def test_files_and_parts_share_one_limit(
    repository: Repository, store: Bucket, source: Path
) -> None:
    for number in range(4):
        (source / f"{number}").write_bytes(os.urandom(SIZE))
    store.parts.before = lambda _number: time.sleep(0.005)
    report = upload_tree(repository, "main", b"", source=source, options=OPTIONS)
    assert report.uploaded == 5
    assert store.parts.most_at_once == 3
    expected = {os.fsencode(path.name): path.read_bytes() for path in source.iterdir()}
    assert read(repository, "main") == checksums(expected)


def test_the_same_contents_at_once_are_sent_once(
    repository: Repository, store: Bucket, source: Path
) -> None:
    (source / "again").write_bytes((source / "large").read_bytes())
    report = upload_tree(repository, "main", b"", source=source, options=OPTIONS)
    assert report.uploaded == 2
    assert len(store.parts.sent) == 10


def test_a_part_that_fails_for_a_moment_is_repeated(
    repository: Repository, store: Bucket, source: Path
) -> None:
    store.parts.before = fail_at(4, Unreachable("answered 503"), times=PARTS.attempts - 1)
    checksum = upload(repository, source)
    assert store.parts.sent.count(4) == PARTS.attempts
    assert blake3_of(store.get(data_key(checksum))).hex() == checksum


def test_a_part_that_keeps_failing_leaves_the_other_parts(
    repository: Repository, store: Bucket, source: Path
) -> None:
    store.parts.before = fail_at(9, Unreachable("answered 503"))
    with pytest.raises(Unreachable, match="503"):
        upload(repository, source)
    assert store.parts.sent.count(9) == PARTS.attempts
    assert len(begun(repository)) == 1
    arrived = {number for number in store.parts.sent if number != 9}
    store.parts.sent.clear()
    store.parts.before = lambda _number: None
    upload(repository, source)
    assert set(store.parts.sent).isdisjoint(arrived)
    assert begun(repository) == []


def test_a_refused_part_is_not_repeated(
    repository: Repository, store: Bucket, source: Path
) -> None:
    store.parts.before = fail_at(2, PermissionDenied("no"))
    with pytest.raises(PermissionDenied):
        upload(repository, source)
    assert store.parts.sent.count(2) == 1


def test_an_upload_of_a_changed_file_is_never_completed(
    repository: Repository, store: Bucket, source: Path
) -> None:
    def change(number: int) -> None:
        if number == 3:
            with (source / "large").open("r+b") as file:
                file.seek(8 * SMALL_PART)
                file.write(b"changed")

    store.parts.before = change
    with pytest.raises(FileChanged, match="while it was"):
        upload(repository, source, UploadOptions())
    assert list(store.list()) == []
    assert list(store.parts.iter_unfinished()) == []
    assert begun(repository) == []


def test_a_change_in_a_part_that_was_sent_is_noticed(
    repository: Repository, store: Bucket, source: Path
) -> None:
    def change(number: int) -> None:
        if number == 10:
            with (source / "large").open("r+b") as file:
                file.write(b"changed")

    store.parts.before = change
    with pytest.raises(FileChanged):
        upload(repository, source, UploadOptions())
    assert list(store.list()) == []


def test_an_upload_that_the_store_drops_starts_over_once(
    repository: Repository, store: Bucket, source: Path
) -> None:
    def forget(number: int) -> None:
        if number == 5 and store.parts.sent.count(5) == 1:
            store.bucket.uploads.clear()

    store.parts.before = forget
    checksum = upload(repository, source, UploadOptions())
    assert blake3_of(store.get(data_key(checksum))).hex() == checksum
    store.delete([data_key(checksum)])
    store.parts.before = fail_at(1, UploadNotFound("gone"))
    with pytest.raises(Unreachable, match="lost parts"):
        upload(repository, source, UploadOptions())


def test_an_upload_that_ends_while_it_is_resumed_is_not_sent_again(
    repository: Repository, store: Bucket, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.parts.before = fail_at(8, Unreachable("cut off"))
    with pytest.raises(Unreachable):
        upload(repository, source)
    store.parts.sent.clear()

    def parts(key: str, _upload: UploadId) -> Iterator[UploadedPart]:
        store.put(key, (source / "large").read_bytes(), ANY)
        raise UploadNotFound("it was completed just now")

    monkeypatch.setattr(store.parts, "parts", parts)
    checksum = upload(repository, source)
    assert store.parts.sent == []
    assert blake3_of(store.get(data_key(checksum))).hex() == checksum
    assert begun(repository) == []


def test_damaged_parts_are_sent_again(repository: Repository, store: Bucket, source: Path) -> None:
    store.parts.before = fail_at(8, Unreachable("cut off"))
    with pytest.raises(Unreachable):
        upload(repository, source, UploadOptions())
    (unfinished,) = store.bucket.uploads.values()
    unfinished.parts[2] = b"\0" * SMALL_PART
    unfinished.parts[3] = unfinished.parts[3][:-1]
    store.parts.sent.clear()
    store.parts.before = lambda _number: None
    checksum = upload(repository, source, UploadOptions())
    assert store.parts.sent == [2, 3, 8, 9, 10]
    assert blake3_of(store.get(data_key(checksum))).hex() == checksum


@pytest.mark.parametrize("tells_checksums", [True, False])
@pytest.mark.parametrize(("before", "after"), [(8, 11), (11, 8)])
def test_another_part_size_starts_over(
    *,
    repository: Repository,
    store: Bucket,
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
    tells_checksums: bool,
    before: int,
    after: int,
) -> None:
    """Parts of one number and one size may hold other bytes: of 8 and 11 units, the second."""
    unit = 1 << 17
    (source / "large").write_bytes(os.urandom(19 * unit))
    if not tells_checksums:
        listed = Uploads.parts

        def without(self: Uploads, key: str, upload: Any) -> Iterator[UploadedPart]:
            return (part._replace(crc32c=None) for part in listed(self, key, upload))

        monkeypatch.setattr(Uploads, "parts", without)
    store.parts.before = fail_at(3 if before == 8 else 1, Unreachable("cut off"))
    monkeypatch.setattr(PATCHED, before * unit)
    with pytest.raises(Unreachable):
        upload(repository, source, UploadOptions())
    ((first, unfinished),) = store.bucket.uploads.items()
    assert [each.upload for each in begun(repository)] == [first]
    store.parts.sent.clear()
    store.parts.before = lambda _number: None
    monkeypatch.setattr(PATCHED, after * unit)
    checksum = upload(repository, source, UploadOptions())
    assert store.get(data_key(checksum)) == (source / "large").read_bytes()
    assert blake3_of(store.get(data_key(checksum))).hex() == checksum
    assert store.parts.sent == ([1, 2] if after == 11 else [1, 2, 3])
    assert begun(repository) == []
    # The parts of the first run are now an abandoned upload.
    assert set(store.bucket.uploads) == {first}
    assert unfinished.parts.keys() <= {1, 2}


def test_parts_are_streamed(repository: Repository, store: Bucket, source: Path) -> None:
    store.parts.before = fail_at(4, Unreachable("answered 503"), times=1)
    checksum = upload(repository, source)
    assert store.parts.streams == 11
    assert blake3_of(store.get(data_key(checksum))).hex() == checksum


# Abandoned uploads


def drop_leftovers(repository: Repository, store: Bucket) -> int:
    """Abort abandoned uploads, and return how many."""
    before = len(list(store.parts.iter_unfinished()))
    multipart_upload.drop_leftovers(repository, store.parts)
    return before - len(list(store.parts.iter_unfinished()))


def test_abandoned_uploads_are_aborted(repository: Repository, store: Bucket, source: Path) -> None:
    now = repository.lake.runtime.now()
    store.time = now - timedelta(days=8)
    orphan, other = data_key("ab" * 32), "elsewhere/k"
    store.parts.start(orphan)
    store.parts.start(other)
    store.parts.start("data/not-ours")
    store.parts.before = fail_at(8, Unreachable("cut off"))
    with pytest.raises(Unreachable):
        upload(repository, source)
    store.time = now
    alive = store.parts.start(data_key("cd" * 32))
    assert drop_leftovers(repository, store) == 2  # the orphan, and ours that was never resumed
    assert {each.key for each in store.parts.iter_unfinished()} == {
        other,
        "data/not-ours",
        data_key("cd" * 32),
    }
    assert any(each.id == alive for each in store.parts.iter_unfinished())


def test_active_uploads_are_left_alone(repository: Repository, store: Bucket, source: Path) -> None:
    now = repository.lake.runtime.now()
    store.time = now - timedelta(days=3)
    store.parts.before = fail_at(8, Unreachable("cut off"))
    with pytest.raises(Unreachable):
        upload(repository, source)
    somebodys = data_key("ab" * 32)
    slow = store.parts.start(somebodys)
    store.time = now - timedelta(hours=3)
    store.parts.put_part(somebodys, slow, 20, b"", crc32c=0)
    assert drop_leftovers(repository, store) == 0
    assert len(begun(repository)) == 1


def test_abandoned_uploads_are_searched_once_a_day(
    repository: Repository, store: Bucket, source: Path
) -> None:
    upload(repository, source)  # searches at its end
    store.time = repository.lake.runtime.now() - timedelta(days=3)
    store.parts.start(data_key("ab" * 32))
    assert drop_leftovers(repository, store) == 0
    clock: Any = repository.lake.runtime.clock
    clock.present += timedelta(days=1)
    assert drop_leftovers(repository, store) == 1


def test_a_clock_that_is_ahead_aborts_no_active_upload(
    repository: Repository, store: Bucket
) -> None:
    store.time = repository.lake.runtime.now()
    store.parts.start(data_key("ab" * 32))
    date = ServerDate(clock=lambda: 0.0)
    date.note(format_datetime(store.time, usegmt=True))
    store.server_date = date  # type: ignore[attr-defined]
    clock: Any = repository.lake.runtime.clock
    clock.present += timedelta(days=9)
    assert drop_leftovers(repository, store) == 0


# Reading


def test_a_part_reads_like_a_file(tmp_path: Path) -> None:
    data = os.urandom(3 * PIECE + 7)
    (tmp_path / "f").write_bytes(b"before" + data + b"after")
    section = Section(1, 6, len(data), blake3_of(data), 0)
    with (tmp_path / "f").open("rb") as file:
        reader = SectionReader(file.fileno(), section, Workers(1), NO_PROGRESS)
        for _ in range(2):
            assert reader.seek(0, os.SEEK_END) == len(data)
            assert reader.read(10) == b""
            assert reader.seek(0) == 0
            assert b"".join(iter(lambda: reader.read(300_000), b"")) == data
            assert reader.tell() == len(data)
        reader.seek(0)
        assert reader.read() == data
        wrong = Section(1, 6, len(data), blake3_of(b"other"), 0)
        with pytest.raises(FileChanged):
            SectionReader(file.fileno(), wrong, Workers(1), NO_PROGRESS).read()
        long = Section(1, 6, len(data) + 100, blake3_of(data), 0)
        with pytest.raises(FileChanged):
            SectionReader(file.fileno(), long, Workers(1), NO_PROGRESS).read()


def test_the_first_reading_refuses_another_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PATCHED, 64)
    (tmp_path / "f").write_bytes(b"x" * 100)
    sender: Any = SimpleNamespace(workers=Workers(1), progress=NO_PROGRESS)
    for size in (99, 101):
        with (tmp_path / "f").open("rb") as file, pytest.raises(FileChanged):
            Sender.read(sender, file, size, Digests(None))


def test_both_readings_end_if_another_thread_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PATCHED, 64)

    class Stopping(Workers):
        def check(self) -> None:
            raise KeyboardInterrupt

    data = b"x" * 100
    (tmp_path / "f").write_bytes(data)
    workers = Stopping(2)
    sender: Any = SimpleNamespace(workers=workers, progress=NO_PROGRESS)
    with (tmp_path / "f").open("rb") as file:
        with pytest.raises(KeyboardInterrupt):
            Sender.read(sender, file, len(data), Digests(None))
        section = Section(1, 0, len(data), blake3_of(data), 0)
        with pytest.raises(KeyboardInterrupt):
            SectionReader(file.fileno(), section, workers, NO_PROGRESS).read()


def test_parts_grow_with_the_object() -> None:
    assert part_size_of(0) == part_size_of(PART_SIZE * MAX_PARTS) == PART_SIZE
    assert part_size_of(PART_SIZE * MAX_PARTS + 1) == 2 * PART_SIZE
    assert part_size_of(5 << 40) * MAX_PARTS >= 5 << 40
    assert part_size_of(5 << 40) <= 5 << 30
