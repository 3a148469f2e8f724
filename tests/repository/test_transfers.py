"""Large files to and from a bucket: killed in the middle, and gone on with."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from lakecli.kv import transfers
from lakecli.objectstore.uploads import uploads_of
from lakecli.repository import repo
from tests.repository.transfer_worker import PART_SIZE
from tests.support.azurite import ACCOUNT, new_container
from tests.support.gcs import GcsServer, new_gcs_bucket
from tests.support.lakes import Numbered, checksums, open_lake, read
from tests.support.servers import new_bucket

if TYPE_CHECKING:
    from lakecli.repository.core.lake import Lake

PROJECT = Path(__file__).parents[2]
SIZES = {"large": 6 * PART_SIZE + 17, "other/large": 3 * PART_SIZE}


class Place(NamedTuple):
    """A repository in a bucket, and files to upload."""

    directory: Path
    contents: dict[bytes, bytes]

    def run(
        self, command: str, log: str, *, parallelism: int = 1, kill_after: int = 0
    ) -> subprocess.CompletedProcess[str]:
        module = "tests.repository.transfer_worker"
        return subprocess.run(
            [
                sys.executable,
                "-m",
                module,
                self.directory,
                command,
                str(parallelism),
                str(kill_after),
                self.directory / log,
            ],
            cwd=PROJECT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def parts(self, log: str, event: str) -> Counter[str]:
        """Count the parts of which a run said that they began, or ended."""
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
def test_an_upload_goes_on_after_a_kill(place: Place, parallelism: int) -> None:
    check_that_an_upload_goes_on(place, parallelism)


@pytest.mark.parametrize("parallelism", [1, 4])
def test_an_upload_to_google_goes_on_after_a_kill(google_place: Place, parallelism: int) -> None:
    check_that_an_upload_goes_on(google_place, parallelism)


@pytest.mark.parametrize("parallelism", [1, 4])
def test_an_upload_to_azure_goes_on_after_a_kill(azure_place: Place, parallelism: int) -> None:
    check_that_an_upload_goes_on(azure_place, parallelism)


def check_that_an_upload_goes_on(place: Place, parallelism: int) -> None:
    killed = place.run("upload", "first", parallelism=parallelism, kill_after=4)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with place.open() as lake, lake.kv.read() as txn:
        key = lake.repository("demo").key
        assert list(transfers.iterate(txn, key))
    again = place.run("upload", "second", parallelism=parallelism)
    assert again.returncode == 0, again.stderr

    arrived, sent = place.parts("first", "end"), place.parts("second", "begin")
    assert arrived.total() >= 4
    # What had arrived is not sent again; what was under way may be, one part a request.
    assert not arrived & sent
    begun = place.parts("first", "begin")
    assert (begun & sent).total() <= parallelism
    assert (arrived + sent).total() <= 10
    with place.open() as lake:
        repository = lake.repository("demo")
        assert read(repository, "main") == checksums(place.contents)
        for path, checksum in read(repository, "main").items():
            data_key = f"data/{checksum[:2]}/{checksum[2:]}"
            assert repository.store.get(data_key) == place.contents[path]
        uploads = uploads_of(repository.store)
        assert uploads is not None
        assert list(uploads.iter_unfinished()) == []
        with lake.kv.read() as txn:
            assert list(transfers.iterate(txn, repository.key)) == []


def test_nothing_is_sent_twice(place: Place) -> None:
    assert place.run("upload", "first", parallelism=3).returncode == 0
    assert place.parts("first", "begin").total() == 10
    assert place.run("upload", "second", parallelism=3).returncode == 0
    assert place.parts("second", "begin").total() == 0


def test_a_file_that_changed_after_the_kill_starts_anew(place: Place) -> None:
    killed = place.run("upload", "first", kill_after=4)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    changed = bytearray(place.contents[b"large"])
    changed[7] ^= 1
    (place.directory / "source/large").write_bytes(changed)
    again = place.run("upload", "second")
    assert again.returncode == 0, again.stderr
    assert place.parts("second", "begin").total() == 10
    with place.open() as lake:
        expected = place.contents | {b"large": bytes(changed)}
        assert read(lake.repository("demo"), "main") == checksums(expected)


def test_an_upload_that_the_server_forgot_starts_anew(place: Place) -> None:
    killed = place.run("upload", "first", kill_after=4)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with place.open() as lake:
        uploads = uploads_of(lake.repository("demo").store)
        assert uploads is not None
        for each in uploads.iter_unfinished():
            uploads.abort(each.key, each.id)
    again = place.run("upload", "second")
    assert again.returncode == 0, again.stderr
    assert place.parts("second", "begin").total() == 10
    with place.open() as lake:
        assert read(lake.repository("demo"), "main") == checksums(place.contents)


@pytest.mark.parametrize("parallelism", [1, 4])
def test_a_download_goes_on_after_a_kill(place: Place, parallelism: int) -> None:
    assert place.run("upload", "up", parallelism=4).returncode == 0
    killed = place.run("download", "first", parallelism=parallelism, kill_after=5)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    left = [path.name for path in (place.directory / "target").rglob(".lakecli-*.partial")]
    assert left
    again = place.run("download", "second", parallelism=parallelism)
    assert again.returncode == 0, again.stderr

    arrived, fetched = place.parts("first", "end"), place.parts("second", "begin")
    # The process is killed when a part has arrived, before it is written: one a request is lost.
    assert (arrived & fetched).total() <= parallelism
    assert arrived.total() + fetched.total() <= 10 + parallelism
    assert list((place.directory / "target").rglob(".lakecli-*")) == []
    assert files(place.directory / "target") == place.contents


def files(root: Path) -> dict[bytes, bytes]:
    return {
        os.fsencode(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }
