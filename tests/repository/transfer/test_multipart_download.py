"""Fetching in parts: repeated parts, refused objects and leftover files."""

from __future__ import annotations

import fcntl
import io
import os
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.layout import data_key
from lakecli.base.retry import PARTS, RetryPolicy
from lakecli.errors import IntegrityError, NotFound, PermissionDenied, Unreachable, Unsupported
from lakecli.repository.download import Downloader, DownloadOptions, download_object
from lakecli.repository.download_tree import download_tree
from lakecli.repository.reading.view import open_view
from lakecli.repository.transfer.destination import Destination, NoRoom, UnsafeName
from lakecli.repository.transfer.multipart_download import PartFetcher
from lakecli.repository.transfer.parallel import Workers
from lakecli.repository.transfer.plan import PathAction
from lakecli.repository.upload import UploadOptions, upload_stream
from lakecli.stores.contract import ANY
from tests.support.lakes import serve
from tests.support.memory_store import MemoryStore
from tests.support.recorded_progress import RecordedProgress

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakecli.repository.contract import Repository

PART = 1 << 16
DATA = os.urandom(6 * PART + 9)
KEY = data_key(blake3_of(DATA).hex())
OPTIONS = DownloadOptions(parallelism=3, part_size=PART)
ONE = DownloadOptions(part_size=PART)


class Store(MemoryStore):
    """Streams parts through a hook, which may shorten them or fail."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[int] = []
        self.hook: Callable[[int, bytes], bytes] = lambda _number, data: data

    def open_range(self, key: str, *, start: int, length: int) -> BinaryIO:
        number = start // PART
        self.fetched.append(number)
        return io.BytesIO(self.hook(number, self.get(key, start=start, length=length)))


@pytest.fixture(autouse=True)
def no_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "lakecli.repository.transfer.parallel.PARTS", RetryPolicy(PARTS.attempts, 0.001)
    )


@pytest.fixture
def store(repository: Repository) -> Store:
    made = Store()
    serve(repository, made)
    upload_stream(repository, "main", b"sub/x", source=io.BytesIO(DATA), options=UploadOptions())
    return made


def fail_at(number: int, error: Exception, *, times: int = 1000) -> Callable[[int, bytes], bytes]:
    left = [times]

    def hook(part: int, data: bytes) -> bytes:
        if part == number and left[0]:
            left[0] -= 1
            raise error
        return data

    return hook


def fetch(repository: Repository, target: Path, options: DownloadOptions = OPTIONS) -> None:
    download_object(repository, "main", b"sub/x", target=target / "x", options=options)


def partials(target: Path) -> list[Path]:
    return list(target.rglob(".lakecli-*"))


def test_every_part_is_fetched_once(repository: Repository, store: Store, tmp_path: Path) -> None:
    progress = RecordedProgress()
    fetch(repository, tmp_path / "t", DownloadOptions(3, part_size=PART, progress=progress))
    assert (tmp_path / "t/x").read_bytes() == DATA
    assert sorted(store.fetched) == list(range(7))
    assert progress.size == len(DATA)
    assert partials(tmp_path / "t") == []


def test_a_part_that_fails_for_a_moment_is_repeated(
    repository: Repository, store: Store, tmp_path: Path
) -> None:
    cut = [2]

    def hook(number: int, data: bytes) -> bytes:
        if number == 3 and cut[0]:
            cut[0] -= 1
            return data[:100]
        return data

    store.hook = hook
    fetch(repository, tmp_path)
    assert store.fetched.count(3) == 3
    assert (tmp_path / "x").read_bytes() == DATA


def test_a_part_that_keeps_failing_leaves_the_other_parts(
    repository: Repository, store: Store, tmp_path: Path
) -> None:
    store.hook = fail_at(5, Unreachable("answered 503"))
    with pytest.raises(Unreachable, match="503"):
        fetch(repository, tmp_path, ONE)
    assert store.fetched.count(5) == PARTS.attempts
    assert not (tmp_path / "x").exists()
    assert len(partials(tmp_path)) == 1
    store.fetched.clear()
    store.hook = lambda _number, data: data
    fetch(repository, tmp_path, ONE)
    assert store.fetched == [5, 6]
    assert (tmp_path / "x").read_bytes() == DATA
    assert partials(tmp_path) == []


def test_a_refused_part_is_not_repeated(
    repository: Repository, store: Store, tmp_path: Path
) -> None:
    store.hook = fail_at(0, PermissionDenied("no"))
    with pytest.raises(PermissionDenied):
        fetch(repository, tmp_path, ONE)
    assert store.fetched == [0]
    assert partials(tmp_path) == []  # there is nothing in it


def test_a_part_ends_if_another_thread_has_failed(
    repository: Repository, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(_: Workers) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Workers, "check", check)
    with pytest.raises(KeyboardInterrupt):
        fetch(repository, tmp_path, ONE)
    assert store.fetched == [0]


def test_a_damaged_partial_file_starts_over(
    repository: Repository, store: Store, tmp_path: Path
) -> None:
    store.hook = fail_at(5, Unreachable("cut off"))
    with pytest.raises(Unreachable):
        fetch(repository, tmp_path, ONE)
    (partial,) = partials(tmp_path)
    with partial.open("r+b") as file:
        file.seek(PART)
        file.write(b"damage")
    store.fetched.clear()
    store.hook = lambda _number, data: data
    fetch(repository, tmp_path, ONE)
    assert store.fetched == [5, 6, *range(7)]
    assert (tmp_path / "x").read_bytes() == DATA


def test_a_truncated_partial_file_starts_over(
    repository: Repository, store: Store, tmp_path: Path
) -> None:
    store.hook = fail_at(5, Unreachable("cut off"))
    with pytest.raises(Unreachable):
        fetch(repository, tmp_path, ONE)
    (partial,) = partials(tmp_path)
    os.truncate(partial, PART)
    store.hook = lambda _number, data: data
    fetch(repository, tmp_path, ONE)
    assert (tmp_path / "x").read_bytes() == DATA


def test_a_damaged_object_is_not_written(
    repository: Repository, store: Store, tmp_path: Path
) -> None:
    for instead in (DATA[:-1] + b"!", DATA + b"more", DATA[:-5]):
        store.put(KEY, instead, ANY)
        with pytest.raises(IntegrityError, match="damaged"):
            fetch(repository, tmp_path)
        assert list(tmp_path.glob("x")) == partials(tmp_path) == []
    store.delete([KEY])
    with pytest.raises(NotFound, match="gone"):
        fetch(repository, tmp_path)


def test_a_server_without_ranges_sends_the_whole_object(
    repository: Repository, store: Store, tmp_path: Path
) -> None:
    store.hook = fail_at(0, Unsupported("answered 200"))
    fetch(repository, tmp_path, ONE)
    assert (tmp_path / "x").read_bytes() == DATA
    assert partials(tmp_path) == []


def test_two_threads_find_out_at_once_that_a_server_has_no_ranges(
    repository: Repository, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    downloader = Downloader(repository, ONE)

    def takes(*_: object) -> bool:
        downloader._fetcher = None  # as another thread does
        return True

    monkeypatch.setattr(PartFetcher, "takes", takes)
    store.hook = fail_at(0, Unsupported("answered 200"))
    with open_view(repository, "main") as view:
        entry = view.entry(b"sub/x")
    with Destination(os.fsencode(tmp_path)) as destination:
        downloader.fetch(destination, b"x", entry)
    assert (tmp_path / "x").read_bytes() == DATA


def test_a_full_disk_ends_the_download(
    repository: Repository, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Any = os.pwrite

    def pwrite(descriptor: int, data: bytes, position: int) -> int:
        if position >= 4 * PART and len(data) > 1:
            raise OSError(28, "No space left on device")
        return int(real(descriptor, data, position))

    upload_stream(
        repository, "main", b"sub/a", source=io.BytesIO(b"small"), options=UploadOptions()
    )
    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(NoRoom, match="no space left"):
        download_tree(repository, "main", b"", target=tmp_path / "t", options=ONE)
    assert (tmp_path / "t/sub/a").read_bytes() == b"small"
    monkeypatch.undo()
    store.fetched.clear()
    download_tree(repository, "main", b"", target=tmp_path / "t", options=ONE)
    assert store.fetched == [4, 5, 6]
    assert (tmp_path / "t/sub/x").read_bytes() == DATA


def test_two_processes_do_not_share_a_partial_file(
    repository: Repository, store: Store, tmp_path: Path
) -> None:
    store.hook = fail_at(5, Unreachable("cut off"))
    with pytest.raises(Unreachable):
        fetch(repository, tmp_path, ONE)
    (partial,) = partials(tmp_path)
    store.hook = lambda _number, data: data
    with partial.open("r+b") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        store.fetched.clear()
        fetch(repository, tmp_path, ONE)
    assert store.fetched == list(range(7))
    assert partials(tmp_path) == [partial]


@pytest.mark.parametrize("trap", ["link", "hard link", "directory", "pipe"])
def test_a_trap_under_the_name_of_the_partial_file_is_not_used(
    repository: Repository, store: Store, tmp_path: Path, trap: str
) -> None:
    store.hook = fail_at(5, Unreachable("cut off"))
    with pytest.raises(Unreachable):
        fetch(repository, tmp_path / "t", ONE)
    (partial,) = partials(tmp_path / "t")
    partial.unlink()
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    if trap == "link":
        partial.symlink_to(victim)
    elif trap == "hard link":
        partial.hardlink_to(victim)
    elif trap == "pipe":
        os.mkfifo(partial)
    else:
        partial.mkdir()
    store.hook = lambda _number, data: data
    fetch(repository, tmp_path / "t", ONE)
    assert (tmp_path / "t/x").read_bytes() == DATA
    assert victim.read_bytes() == b"precious"


def test_unchanged_files_are_not_fetched(
    repository: Repository, store: Store, tmp_path: Path
) -> None:
    download_tree(repository, "main", b"", target=tmp_path / "t", options=OPTIONS)
    os.utime(tmp_path / "t/sub/x", (5, 5))
    store.fetched.clear()
    report = download_tree(repository, "main", b"", target=tmp_path / "t", options=OPTIONS)
    assert (report.downloaded, report.unchanged, store.fetched) == (0, 1, [])
    assert (tmp_path / "t/sub/x").stat().st_mtime != 5
    (tmp_path / "t/sub/x").write_bytes(b"!" + DATA[1:])
    report = download_tree(repository, "main", b"", target=tmp_path / "t", options=OPTIONS)
    assert (report.downloaded, report.unchanged) == (1, 0)
    assert (tmp_path / "t/sub/x").read_bytes() == DATA


def test_the_state_of_a_destination_is_found(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"data")
    (tmp_path / "link").symlink_to("f")
    (tmp_path / "d").mkdir()
    digest = blake3_of(b"data").hex()
    with Destination(os.fsencode(tmp_path)) as destination:
        for name, size, known, expected in [
            (b"f", 4, digest, PathAction.UNCHANGED),
            (b"f", 5, digest, PathAction.CHANGED),
            (b"f", 4, blake3_of(b"atad").hex(), PathAction.CHANGED),
            (b"f", 4, None, PathAction.CHANGED),
            (b"link", 4, digest, PathAction.CHANGED),
            (b"d", 4, digest, PathAction.CHANGED),
            (b"none", 4, digest, PathAction.NEW),
            (b"none/at/all", 4, digest, PathAction.NEW),
        ]:
            assert destination.state_of(name, size=size, digest=known) is expected, name
        for name in (b"link/x", b"f/x", b"../f"):
            with pytest.raises(UnsafeName):
                destination.state_of(name, size=4, digest=digest)
    with Destination(os.fsencode(tmp_path / "new")) as destination:
        assert destination.state_of(b"a/b", size=1, digest=None) is PathAction.NEW
    assert not (tmp_path / "new").exists()


def test_one_request_fetches_several_parts(
    repository: Repository, store: Store, tmp_path: Path
) -> None:
    data = os.urandom(18 * PART)
    upload_stream(repository, "main", b"sub/x", source=io.BytesIO(data), options=UploadOptions())

    def cut(number: int, body: bytes) -> bytes:
        return body[: 2 * PART + 7] if store.fetched.count(number) == 1 else body

    store.hook = cut
    fetch(repository, tmp_path, ONE)
    # Spans of four parts; two parts of each arrive before it is cut off, and stay.
    assert store.fetched == [0, 2, 4, 6, 8, 10, 12, 14, 16]
    assert (tmp_path / "x").read_bytes() == data
