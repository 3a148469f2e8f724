"""Uploads and downloads of large files that are killed half way, and resumed."""

from __future__ import annotations

import os
import random
from collections import Counter
from io import BytesIO
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from lakecli.kv import unfinished_uploads
from lakecli.repository import repo
from lakecli.repository.download import DownloadOptions
from lakecli.repository.download_tree import download_tree
from lakecli.repository.upload import UploadOptions
from lakecli.repository.upload_tree import upload_tree
from lakecli.stores.capabilities import uploads_of
from tests.support import crashes
from tests.support.azurite import ACCOUNT, new_container
from tests.support.gcs import GcsServer, new_gcs_bucket
from tests.support.lakes import Numbered, checksums, open_lake, read, serve, through
from tests.support.servers import new_bucket

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakecli.repository.handle.lake import Lake
    from lakecli.stores.contract import ObjectStore
    from tests.support.crashes import Killer, Outcome

PART_SIZE = 5 << 20
SIZES = {"large": 6 * PART_SIZE + 17, "other/large": 5 * PART_SIZE}


class Watch:
    """Logs each part that begins and ends: ``begin KEY NUMBER``, ``end KEY NUMBER``.

    The end of a part is a step of the killer.
    """

    def __init__(self, log: Path, killer: Killer) -> None:
        self._log = log.open("a", buffering=1)
        self._killer = killer
        self._lock = Lock()

    def part(self, key: str, number: int, move: Callable[[], Any]) -> Any:
        with self._lock:
            self._log.write(f"begin {key} {number}\n")
        moved = move()
        with self._lock:
            self._log.write(f"end {key} {number}\n")
            self._killer("part ended")
        return moved


class WatchedUploads:
    def __init__(self, inner: Any, watch: Watch) -> None:
        self._inner = inner
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def put_part(self, key: str, upload: str, number: int, body: Any, *, crc32c: int) -> Any:
        return self._watch.part(
            key, number, lambda: self._inner.put_part(key, upload, number, body, crc32c=crc32c)
        )


class WatchedStore:
    def __init__(self, inner: ObjectStore, watch: Watch) -> None:
        self._inner = inner
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def uploads(self) -> WatchedUploads:
        inner: Any = self._inner
        return WatchedUploads(inner.uploads(), self._watch)

    def open_range(self, key: str, *, start: int, length: int) -> BytesIO:
        def read() -> bytes:
            inner: Any = self._inner
            with inner.open_range(key, start=start, length=length) as stream:
                return b"".join(iter(lambda: stream.read(1 << 20), b""))

        return BytesIO(self._watch.part(key, start // PART_SIZE + 1, read))


def do(lake: Lake, killer: Killer, command: str, log: Path, parallelism: int) -> None:
    directory = log.parent
    repository = lake.repository("demo")
    serve(repository, WatchedStore(through(repository).store, Watch(log, killer)))
    if command == "upload":
        upload = UploadOptions(parallelism=parallelism)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("lakecli.repository.transfer.multipart_upload.PART_SIZE", PART_SIZE)
            report = upload_tree(
                repository, "main", b"", source=directory / "source", options=upload
            )
        assert not report.failures, report.failures
    else:
        download = DownloadOptions(parallelism=parallelism, part_size=PART_SIZE)
        fetched = download_tree(
            repository, "main", b"", target=directory / "target", options=download
        )
        assert not fetched.failures, fetched.failures


class Place(NamedTuple):
    """A repository in a bucket, and files to upload."""

    directory: Path
    contents: dict[bytes, bytes]

    def run(self, command: str, log: str, *, parallelism: int = 1, kill_after: int = 0) -> Outcome:
        """Run a transfer, killed once `kill_after` parts have ended."""
        return crashes.run(
            do,
            self.directory,
            command,
            self.directory / log,
            parallelism,
            step=f"part ended {kill_after}",
            seed=log,
        )

    def parts(self, log: str, event: str) -> Counter[str]:
        """Count the parts that began, or ended, in the run of that log."""
        lines = (self.directory / log).read_text().splitlines()
        return Counter(line.removeprefix(f"{event} ") for line in lines if line.startswith(event))

    def open(self) -> Lake:
        return open_lake(self.directory, new_id=Numbered("look"))


def new_place(tmp_path: Path, namespace: str) -> Place:
    contents = {}
    for name, size in SIZES.items():
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = random.Random(name).randbytes(size)
        path.write_bytes(data)
        contents[os.fsencode(name)] = data
    with open_lake(tmp_path) as lake:
        repo.create(lake, "demo", namespace, range_entries=16)
    return Place(tmp_path, contents)


@pytest.fixture
def place(tmp_path: Path, aws_environment: pytest.MonkeyPatch, moto_endpoint: str) -> Place:
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    return new_place(tmp_path, f"s3://{new_bucket(moto_endpoint)}/prefix")


@pytest.fixture
def google_place(
    tmp_path: Path, gcs_environment: pytest.MonkeyPatch, gcs_server: GcsServer
) -> Place:
    del gcs_environment
    return new_place(tmp_path, f"gs://{new_gcs_bucket(gcs_server)}/prefix")


@pytest.fixture
def azure_place(tmp_path: Path, azure_environment: pytest.MonkeyPatch, azurite: str) -> Place:
    del azure_environment
    return new_place(tmp_path, f"az://{ACCOUNT}/{new_container(azurite)}/prefix")


@pytest.mark.parametrize("parallelism", [1, 4])
def test_a_killed_upload_to_s3_resumes(place: Place, parallelism: int) -> None:
    check_that_a_killed_upload_resumes(place, parallelism)


@pytest.mark.parametrize("parallelism", [1, 4])
def test_a_killed_upload_to_gcs_resumes(google_place: Place, parallelism: int) -> None:
    check_that_a_killed_upload_resumes(google_place, parallelism)


@pytest.mark.parametrize("parallelism", [1, 4])
def test_a_killed_upload_to_azure_resumes(azure_place: Place, parallelism: int) -> None:
    check_that_a_killed_upload_resumes(azure_place, parallelism)


def check_that_a_killed_upload_resumes(place: Place, parallelism: int) -> None:
    # Fewer parts than any file has: an upload whose end is under way is not resumed.
    assert place.run("upload", "first", parallelism=parallelism, kill_after=4).killed
    with place.open() as lake, lake.kv.read() as txn:
        key = lake.repository("demo").key
        assert list(unfinished_uploads.iter_transfers(txn, key))
    assert not place.run("upload", "second", parallelism=parallelism).killed

    arrived, sent = place.parts("first", "end"), place.parts("second", "begin")
    assert arrived.total() >= 4
    # Parts that arrived are not sent again. Of those in flight, each request may repeat one.
    assert not arrived & sent
    begun = place.parts("first", "begin")
    assert (begun & sent).total() <= parallelism
    assert (arrived + sent).total() <= 12
    with place.open() as lake:
        repository = lake.repository("demo")
        assert read(repository, "main") == checksums(place.contents)
        for path, checksum in read(repository, "main").items():
            data_key = f"data/{checksum[:2]}/{checksum[2:]}"
            assert repository.store.get(data_key) == place.contents[path]
        uploads = uploads_of(repository.store)
        assert uploads is not None
        # One that was begun, but not recorded yet, is left to `drop_leftovers`.
        recorded = {part.split()[0] for part in begun}
        assert all(each.key not in recorded for each in uploads.iter_unfinished())
        with lake.kv.read() as txn:
            assert list(unfinished_uploads.iter_transfers(txn, repository.key)) == []


def test_a_repeated_upload_sends_no_part(place: Place) -> None:
    assert not place.run("upload", "first", parallelism=3).killed
    assert place.parts("first", "begin").total() == 12
    assert not place.run("upload", "second", parallelism=3).killed
    assert place.parts("second", "begin").total() == 0


def test_an_upload_of_a_file_changed_since_the_kill_starts_over(place: Place) -> None:
    assert place.run("upload", "first", kill_after=4).killed
    changed = bytearray(place.contents[b"large"])
    changed[7] ^= 1
    (place.directory / "source/large").write_bytes(changed)
    assert not place.run("upload", "second").killed
    assert place.parts("second", "begin").total() == 12
    with place.open() as lake:
        expected = place.contents | {b"large": bytes(changed)}
        assert read(lake.repository("demo"), "main") == checksums(expected)


def test_an_upload_that_the_server_has_dropped_starts_over(place: Place) -> None:
    assert place.run("upload", "first", kill_after=4).killed
    with place.open() as lake:
        uploads = uploads_of(lake.repository("demo").store)
        assert uploads is not None
        for each in uploads.iter_unfinished():
            uploads.abort(each.key, each.id)
    assert not place.run("upload", "second").killed
    assert place.parts("second", "begin").total() == 12
    with place.open() as lake:
        assert read(lake.repository("demo"), "main") == checksums(place.contents)


@pytest.mark.parametrize("parallelism", [1, 4])
def test_a_killed_download_resumes(place: Place, parallelism: int) -> None:
    assert not place.run("upload", "up", parallelism=4).killed
    assert place.run("download", "first", parallelism=parallelism, kill_after=5).killed
    left = [path.name for path in (place.directory / "target").rglob(".lakecli-*.partial")]
    assert left
    assert not place.run("download", "second", parallelism=parallelism).killed

    arrived, fetched = place.parts("first", "end"), place.parts("second", "begin")
    # The kill comes before the part that arrived is written: each request may lose one.
    assert (arrived & fetched).total() <= parallelism
    assert arrived.total() + fetched.total() <= 12 + parallelism
    assert list((place.directory / "target").rglob(".lakecli-*")) == []
    assert files(place.directory / "target") == place.contents


def files(root: Path) -> dict[bytes, bytes]:
    return {
        os.fsencode(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }
