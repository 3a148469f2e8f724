"""Bringing files into a namespace: what is sent, and files that change meanwhile."""

from __future__ import annotations

import errno
import io
import os
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

import pytest
from blake3 import blake3

from lakecli.base.identity import blake3_of
from lakecli.base.layout import DATA, data_key
from lakecli.errors import PermissionDenied, Unreachable
from lakecli.repository.guard import GcGuard
from lakecli.repository.transfer.ingest import SMALL, ExpectedObject, Ingest, Ingested, look
from lakecli.repository.transfer.parallel import Workers
from lakecli.repository.transfer.walk import FileChanged, FileOpener, LinkPolicy, SpecialFile
from lakecli.stores.contract import ANY
from lakecli.stores.local.store import DirectoryStore
from tests.support.lakes import make_repository, open_lake, serve
from tests.support.memory_store import MemoryStore
from tests.support.recorded_progress import RecordedProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository
    from lakecli.stores.contract import ObjectStore

LARGE = SMALL + 12_345
SIZES = [0, 1, 4096, SMALL, SMALL + 1, 3 * SMALL + 7]


@pytest.fixture(params=["local", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "bucket":
        return MemoryStore()
    (tmp_path / "namespace").mkdir()
    return DirectoryStore(str(tmp_path / "namespace"))


@pytest.fixture
def later(store: ObjectStore, tmp_path: Path) -> Iterator[Repository]:
    """A repository at a later time, when the files that a test writes are remembered."""
    with open_lake(tmp_path, clock=lambda: datetime(2100, 1, 1, tzinfo=UTC)) as lake:
        repository = make_repository(lake, tmp_path / "other")
        serve(repository, store)
        yield repository


def contents(size: int) -> bytes:
    return (b"%d" % size * (size // 2 + 1))[:size]


def digest(data: bytes) -> str:
    return blake3_of(data).hex()


def keys(store: ObjectStore) -> set[str]:
    return {info.key for info in store.list()}


@pytest.fixture
def file(tmp_path: Path) -> Callable[[bytes], bytes]:
    """Writes a file and returns its path."""

    def write(data: bytes) -> bytes:
        path = tmp_path / "file"
        path.write_bytes(data)
        return os.fsencode(path)

    return write


def bring(
    ingest: Ingest,
    path: bytes,
    *,
    expected: ExpectedObject | None = None,
    links: LinkPolicy = LinkPolicy.FAIL,
) -> Ingested:
    """Open a file and bring it in."""
    with FileOpener(None, links).open(path) as opened:
        return ingest.file(opened, expected=expected)


class Writes:
    """A store that counts written objects."""

    def __init__(self, inner: ObjectStore) -> None:
        self.inner = inner
        self.names: list[str] = []

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.inner, name)
        if name == "batch":
            return lambda: Writes(value())
        if name in ("put", "put_new", "put_content", "spool"):
            self.names.append(name)
        return value


@pytest.mark.parametrize("size", SIZES)
def test_a_file_of_any_size_is_stored(
    store: ObjectStore, file: Callable[[bytes], bytes], size: int
) -> None:
    data = contents(size)
    path = file(data)
    os.utime(path, (1_700_000_000, 1_600_000_000))
    progress = RecordedProgress()
    bringing = Ingest(store, GcGuard(store), progress=progress)
    ingested = bring(bringing, path)
    bringing.flush()
    assert (ingested.digest, ingested.size) == (digest(data), size)
    assert ingested.mtime == 1_600_000_000
    assert store.get(data_key(ingested.digest)) == data
    assert progress.size == size


@pytest.mark.parametrize("size", SIZES)
def test_a_stream_of_any_size_is_stored(store: ObjectStore, size: int) -> None:
    data = contents(size)

    class Dribble(io.RawIOBase):
        """Return fewer bytes than requested, as a pipe does."""

        def __init__(self) -> None:
            self._left = data

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            piece, self._left = self._left[:65_536], self._left[65_536:]
            buffer[: len(piece)] = piece
            return len(piece)

    bringing = Ingest(store, GcGuard(store))
    ingested = bringing.stream(Dribble())  # type: ignore[arg-type]
    bringing.flush()
    assert (ingested.digest, ingested.size, ingested.mtime) == (digest(data), size, 0)
    assert store.get(data_key(ingested.digest)) == data


def test_a_stream_that_pauses_is_not_stored(store: ObjectStore) -> None:
    class Paused(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes | None:  # type: ignore[override]
            return super().read(size) or None

    with pytest.raises(BlockingIOError):
        Ingest(store, GcGuard(store)).stream(Paused(bytes(LARGE)))
    assert list(store.list(DATA)) == []


def test_a_stream_that_fills_the_disk_names_the_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def writelines(self, _: object) -> None:
            raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", Full)
    store = MemoryStore()
    with pytest.raises(Unreachable, match="no space left for temporary files in /") as raised:
        Ingest(store, GcGuard(store)).stream(io.BytesIO(bytes(LARGE)))
    assert "TMPDIR" in str(raised.value.hint)


@pytest.mark.parametrize("size", [10, LARGE])
def test_nothing_is_visible_under_its_name_before_it_is_whole(
    tmp_path: Path, file: Callable[[bytes], bytes], size: int
) -> None:
    (tmp_path / "namespace").mkdir()
    store = DirectoryStore(str(tmp_path / "namespace"))
    bringing = Ingest(store, GcGuard(store))
    bring(bringing, file(contents(size)))
    assert keys(store) == set()
    bringing.flush()
    assert keys(store) == {data_key(digest(contents(size)))}


@pytest.mark.parametrize("size", [10, LARGE])
def test_an_expected_object_that_exists_is_not_written(
    store: ObjectStore, file: Callable[[bytes], bytes], size: int
) -> None:
    path = file(contents(size))
    first = Ingest(store, GcGuard(store))
    bring(first, path)
    first.flush()
    counting = Writes(store)
    again = Ingest(counting, GcGuard(store))
    expected = ExpectedObject(digest(contents(size)), size)
    assert bring(again, path, expected=expected).digest == expected.digest
    again.flush()
    assert counting.names == []


class Claims:
    """A guard that notes what is claimed."""

    def __init__(self, *, collects: bool) -> None:
        self._collects = collects
        self.settled: list[tuple[Collection[str], Collection[str]]] = []

    def begin(self) -> bool:
        return self._collects

    def settle(
        self, *, found: Collection[str], written: Collection[str], whole: bool = False
    ) -> None:
        assert not whole
        self.settled.append((found, written))

    def claim(self, keys: Collection[str]) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("collects", [False, True])
def test_a_flush_claims_objects_as_found_that_may_have_been_there(
    store: ObjectStore, file: Callable[[bytes], bytes], *, collects: bool
) -> None:
    there, new = data_key(digest(b"there")), data_key(digest(b"new"))
    store.put(there, b"there", ANY)
    guard = Claims(collects=collects)
    bringing = Ingest(store, guard)
    bringing.flush([bring(bringing, file(each)) for each in (b"there", b"new")])
    if collects or isinstance(store, MemoryStore):
        assert guard.settled == [({there}, {new})]
    else:
        assert guard.settled == [({there, new}, set())]  # nobody has looked


def test_an_object_that_was_written_before_the_last_flush_is_claimed_as_found(
    store: ObjectStore, file: Callable[[bytes], bytes]
) -> None:
    first, second = data_key(digest(b"first")), data_key(digest(b"second"))
    guard = Claims(collects=True)
    bringing = Ingest(store, guard)
    waiting, flushed = (bring(bringing, file(each)) for each in (b"first", b"second"))
    bringing.flush([flushed])
    bringing.flush([waiting])
    assert guard.settled == [(set(), {second}), ({first}, set())]


@pytest.mark.parametrize("size", [10, LARGE])
def test_an_expected_object_that_is_lost_is_written(
    store: ObjectStore, file: Callable[[bytes], bytes], size: int
) -> None:
    data = contents(size)
    bringing = Ingest(store, GcGuard(store))
    bring(bringing, file(data), expected=ExpectedObject(digest(data), size))
    bringing.flush()
    assert store.get(data_key(digest(data))) == data


@pytest.mark.parametrize("size", [10, LARGE])
def test_a_writer_without_read_permission_can_write(
    file: Callable[[bytes], bytes], size: int
) -> None:
    class WriteOnly(MemoryStore):
        def head(self, key: str) -> NoReturn:
            raise PermissionDenied("not yours to know")

    data, store = contents(size), WriteOnly()
    bringing = Ingest(store, GcGuard(store))
    bring(bringing, file(data), expected=ExpectedObject(digest(data), size))
    bringing.flush()
    assert store.get(data_key(digest(data))) == data


@pytest.mark.parametrize("size", [10, LARGE])
def test_a_file_other_than_expected_is_written(
    store: ObjectStore, file: Callable[[bytes], bytes], size: int
) -> None:
    data = contents(size)
    bringing = Ingest(store, GcGuard(store))
    bring(bringing, file(data), expected=ExpectedObject(digest(b"other"), size))
    bringing.flush()
    assert store.get(data_key(digest(data))) == data


def test_a_large_file_is_hashed_only_once(
    store: ObjectStore,
    later: Repository,
    file: Callable[[bytes], bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = file(contents(LARGE))
    first = Ingest(store, GcGuard(store), repository=later)
    ingested = bring(first, path)
    assert ingested.size == LARGE
    first.flush([ingested])

    def hashes_again(*_: object) -> None:
        pytest.fail("read again")

    monkeypatch.setattr("lakecli.repository.transfer.ingest.blake3", hashes_again)
    assert bring(Ingest(store, GcGuard(store), repository=later), path).digest == digest(
        contents(LARGE)
    )


def test_a_large_file_is_sent_again_if_its_object_is_gone(
    store: ObjectStore, later: Repository, file: Callable[[bytes], bytes]
) -> None:
    path = file(contents(LARGE))
    key = data_key(digest(contents(LARGE)))
    for _ in range(2):
        bringing = Ingest(store, GcGuard(store), repository=later)
        ingested = bring(bringing, path)
        bringing.flush([ingested])
        assert store.head(key).size == LARGE
        store.delete([key])


@pytest.mark.parametrize("size", [100, LARGE])
@pytest.mark.parametrize("change", ["append", "truncate", "rewrite"])
def test_a_file_that_changes_while_it_is_read_is_refused(
    store: ObjectStore,
    file: Callable[[bytes], bytes],
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    change: str,
) -> None:
    path = file(contents(size))
    os.utime(path, (1_600_000_000, 1_600_000_000))
    real = blake3
    changed = False

    def change_it(*arguments: Any) -> Any:
        nonlocal changed
        if not changed:
            changed = True
            with open(path, "r+b") as opened:
                if change == "append":
                    opened.seek(0, os.SEEK_END)
                    opened.write(b"more")
                elif change == "truncate":
                    opened.truncate(size // 2)
                else:
                    opened.write(b"XXXX")
        return real(*arguments)

    monkeypatch.setattr("lakecli.repository.transfer.ingest.blake3", change_it)
    bringing = Ingest(store, GcGuard(store))
    with pytest.raises(FileChanged):
        bring(bringing, path)
    assert changed


def test_work_on_a_large_file_ends_if_another_thread_has_failed(
    store: ObjectStore, file: Callable[[bytes], bytes]
) -> None:
    class Stopping(Workers):
        def check(self) -> None:
            raise KeyboardInterrupt

    path = file(contents(LARGE))
    bringing = Ingest(store, GcGuard(store))
    bringing.workers = Stopping(2)
    expected = ExpectedObject(digest(contents(LARGE)), LARGE)
    looking = partial(look, workers=bringing.workers)
    for work in (bringing.file, looking, partial(bringing.file, expected=expected)):
        with pytest.raises(KeyboardInterrupt), FileOpener(None, LinkPolicy.FAIL).open(path) as each:
            work(each)
    with pytest.raises(KeyboardInterrupt):
        bringing.known(iter([contents(LARGE)]), digest(contents(LARGE)), LARGE)
    assert not keys(store)


def test_a_directory_a_pipe_and_a_link_are_refused(store: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"there")
    (tmp_path / "link").symlink_to("target")
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(SpecialFile):
            bring(Ingest(store, GcGuard(store)), os.fsencode(tmp_path / name))
    with pytest.raises(OSError, match="symbolic links"):
        bring(Ingest(store, GcGuard(store)), os.fsencode(tmp_path / "link"))
    followed = bring(
        Ingest(store, GcGuard(store)), os.fsencode(tmp_path / "link"), links=LinkPolicy.FOLLOW
    )
    assert followed.digest == digest(b"there")


def test_a_full_disk_is_reported_as_an_error_of_the_namespace(
    tmp_path: Path, file: Callable[[bytes], bytes]
) -> None:
    (tmp_path / "namespace").mkdir()
    store = DirectoryStore(str(tmp_path / "namespace"))

    class Full:
        """A batch on a full disk."""

        def spool(self) -> tuple[str, BinaryIO]:
            return "name", open("/dev/full", "wb", buffering=0)

        def discard(self, temporary: str) -> None:
            assert temporary == "name"

    bringing = Ingest(store, GcGuard(store))
    bringing._batch = Full()  # type: ignore[assignment]
    with pytest.raises(Unreachable, match="no space left on device"):
        bring(bringing, file(contents(LARGE)))
