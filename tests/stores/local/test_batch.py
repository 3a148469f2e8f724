"""Batches of small files in a directory, which move whole directories or single files."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from lakecli import native
from lakecli.errors import Refused, Unreachable, Unsupported, UsageError
from lakecli.stores.contract import ANY
from lakecli.stores.local.batch import LocalBatch
from lakecli.stores.local.files import FEW, write_all
from lakecli.stores.local.store import DirectoryStore

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.native import Core


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    (tmp_path / "namespace").mkdir()
    return DirectoryStore(str(tmp_path / "namespace"))


def contents(store: DirectoryStore) -> dict[str, bytes]:
    return {info.key: store.get(info.key) for info in store.list()}


def leftovers(tmp_path: Path) -> set[str]:
    found = (tmp_path / "namespace/_lakecli/tmp").iterdir()
    return {path.name for path in found} - {"lock"}


@pytest.mark.parametrize("count", [5, 3 * FEW])
def test_files_are_published_into_new_and_existing_directories(
    store: DirectoryStore, tmp_path: Path, count: int
) -> None:
    store.put("data/00/there", b"before", ANY)
    store.put("data/01/0", b"before", ANY)
    batch = store.batch()
    expected = {f"data/{n % 4:02}/{n}": b"%d" % n for n in range(count)} | {"top": b"1"}
    for key, body in expected.items():
        batch.put_new(key, body)
    batch.put_new("data/01/0", b"after")
    batch.flush()
    assert contents(store) == expected | {"data/00/there": b"before", "data/01/0": b"before"}
    assert leftovers(tmp_path) == set()
    batch.put_new("data/02/later", b"2")
    batch.flush()
    assert store.get("data/02/later") == b"2"
    assert leftovers(tmp_path) == set()


def test_directories_follow_the_umask(store: DirectoryStore, tmp_path: Path) -> None:
    batch = store.batch()
    batch.put_new("new/dir/file", b"1")
    (unfinished,) = leftovers(tmp_path)
    assert (tmp_path / "namespace/_lakecli/tmp" / unfinished).stat().st_mode & 0o777 == 0o700
    batch.flush()
    (tmp_path / "plain").mkdir()
    usual = (tmp_path / "plain").stat().st_mode
    assert (tmp_path / "namespace/new/dir").stat().st_mode == usual


def test_one_key_can_be_written_twice(store: DirectoryStore, tmp_path: Path) -> None:
    batch = store.batch()
    for body in (b"first", b"second", b"third"):
        batch.put_new("data/00/k", body)
    batch.flush()
    assert contents(store) == {"data/00/k": b"first"}
    assert leftovers(tmp_path) == set()


def test_many_contents_are_written_together(
    store: DirectoryStore, tmp_path: Path, core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left may be written by itself, or waits already."""
    monkeypatch.setattr(native, "core", lambda: core)
    store.put("data/00/a", b"first", ANY)
    store.put("data/00/b", b"damaged", ANY)
    batch = store.batch()
    assert isinstance(batch, LocalBatch)
    keys = ["data/00/a", "data/00/b", "data/01/c", "data/01/c"]
    bodies = [b"first", b"second", b"third", b"third"]
    assert batch.put_contents(keys, bodies) == [True, True, True, False]
    batch.put_content("data/01/c", b"third")
    monkeypatch.setattr(native, "core", lambda: None)
    assert batch.put_contents(["data/02/d"], [b"fourth"]) == [False]
    assert contents(store) == {"data/00/a": b"first", "data/00/b": b"damaged"}
    batch.flush()
    assert contents(store) == {"data/00/a": b"first", "data/00/b": b"second", "data/01/c": b"third"}
    assert leftovers(tmp_path) == set()


def test_the_second_write_of_a_key_counts_if_the_first_failed(
    store: DirectoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = store.batch()
    writing, written = threading.Event(), threading.Event()
    real = write_all

    def fails_late(descriptor: int, body: bytes) -> None:
        if writing.is_set():  # the second write
            return real(descriptor, body)
        writing.set()
        assert written.wait(20)
        real(descriptor, body[:1])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lakecli.stores.local.files.write_all", fails_late)
    failures: list[Exception] = []

    def first() -> None:
        try:
            batch.put_new("data/00/k", b"body")
        except Unreachable as error:
            failures.append(error)

    threads = [threading.Thread(target=first)]
    threads[0].start()
    assert writing.wait(20)
    threads.append(threading.Thread(target=batch.put_new, args=("data/00/k", b"body")))
    threads[1].start()
    written.set()
    for thread in threads:
        thread.join()
    assert len(failures) == 1
    batch.flush()
    assert contents(store) == {"data/00/k": b"body"}
    assert leftovers(tmp_path) == set()


def test_a_flush_waits_for_files_that_are_being_written(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = store.batch()
    batch.put_new("data/00/a", b"done")
    writing, go_on = threading.Event(), threading.Event()
    real = write_all

    def slowly(descriptor: int, body: bytes) -> None:
        real(descriptor, body[:2])
        writing.set()
        assert go_on.wait(20)
        real(descriptor, body[2:])

    monkeypatch.setattr("lakecli.stores.local.files.write_all", slowly)
    threads = [threading.Thread(target=batch.put_new, args=("data/00/b", b"slow"))]
    threads[0].start()
    assert writing.wait(20)
    threads.append(threading.Thread(target=batch.flush))
    threads[1].start()
    threads[1].join(0.2)
    assert contents(store) == {}
    go_on.set()
    for thread in threads:
        thread.join(20)
    assert contents(store) == {"data/00/a": b"done", "data/00/b": b"slow"}


def test_threads_write_while_others_flush(store: DirectoryStore, tmp_path: Path) -> None:
    batch = store.batch()

    def put(first: int) -> None:
        for number in range(first, 400, 4):
            batch.put_new(f"data/{number % 5}/{number % 300}", b"%d" % (number % 300))
            if number % 50 == first:
                batch.flush()

    threads = [threading.Thread(target=put, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    batch.flush()
    found = contents(store)
    assert set(found.values()) == {b"%d" % number for number in range(300)}
    assert all(key.endswith("/" + body.decode()) for key, body in found.items())
    assert leftovers(tmp_path) == set()


def test_unpublished_files_survive_an_error(
    store: DirectoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = store.batch()
    for number in range(6):
        batch.put_new(f"data/{number}/k", b"1")
    real = os.rename
    calls = 0

    def rename(*arguments: object, **options: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise OSError(5, "Input/output error")
        real(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(Unreachable):
        batch.flush()
    assert len(contents(store)) == 3
    batch.flush()
    assert len(contents(store)) == 6
    assert leftovers(tmp_path) == set()


def test_many_files_are_written_to_disk_before_the_flush(
    store: DirectoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()

    def fails(_descriptor: int) -> None:
        begun.set()
        raise OSError(5, "Input/output error")

    batch = store.batch()
    monkeypatch.setattr("lakecli.stores.local.batch.EARLY", 3)
    with monkeypatch.context() as patched:
        patched.setattr("lakecli.stores.local.files.sync_file_system", fails)
        batch.put_new("data/00/0", b"0")
        batch.put_new("data/00/1", b"1")
        assert not begun.is_set()
        batch.put_new("data/00/2", b"2")
        assert begun.wait(20)
    assert contents(store) == {}
    batch.flush()  # which syncs the files itself
    assert contents(store) == {f"data/00/{number}": b"%d" % number for number in range(3)}
    assert leftovers(tmp_path) == set()


def test_an_obstacle_is_reported(store: DirectoryStore, tmp_path: Path) -> None:
    root = tmp_path / "namespace"
    (tmp_path / "outside").mkdir()
    (root / "data").mkdir()
    (root / "data/00").write_text("a file")
    (root / "data/01").symlink_to(tmp_path / "outside")
    (root / "data/02/k").mkdir(parents=True)
    for number, error in enumerate((Unsupported, Refused, Unsupported)):
        batch = store.batch()
        batch.put_new(f"data/{number:02}/k", b"1")
        with pytest.raises(error):
            batch.flush()
    assert list((tmp_path / "outside").iterdir()) == []


def test_an_empty_directory_is_no_obstacle(store: DirectoryStore, tmp_path: Path) -> None:
    (tmp_path / "namespace/data/00").mkdir(parents=True)
    batch = store.batch()
    batch.put_new("data/00/k", b"1")
    batch.flush()
    assert contents(store) == {"data/00/k": b"1"}


def test_a_dropped_batch_leaves_nothing(store: DirectoryStore, tmp_path: Path) -> None:
    batch = store.batch()
    for number in range(5):
        batch.put_new(f"data/{number % 2}/{number}", b"1")
    assert leftovers(tmp_path)
    del batch
    assert leftovers(tmp_path) == set()
    assert contents(store) == {}


def test_a_file_that_could_not_be_written_is_never_published(
    store: DirectoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = store.batch()
    batch.put_new("data/00/a", b"whole")

    def full(descriptor: int, body: bytes) -> None:
        write_all(descriptor, body[:1])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("lakecli.stores.local.files.write_all", full)
        with pytest.raises(Unreachable):
            batch.put_new("data/00/b", b"broken")
    batch.put_new("data/00/c", b"whole")
    batch.flush()
    assert contents(store) == {"data/00/a": b"whole", "data/00/c": b"whole"}
    batch.put_new("data/00/b", b"whole")
    batch.flush()
    assert contents(store) == dict.fromkeys(("data/00/a", "data/00/b", "data/00/c"), b"whole")
    assert leftovers(tmp_path) == set()


def test_names_are_checked_also_in_directories_that_are_known(store: DirectoryStore) -> None:
    batch = store.batch()
    batch.put_content("data/00/good", b"1")
    for key in ("data/00/", "data/00/..", "data/00/.", "data/00/a\0b", "data/00/" + "x" * 256):
        with pytest.raises(UsageError):
            batch.put_content(key, b"1")
    batch.put_content("_lakecli/other", b"1")
    for key in ("_lakecli/tmp", "_lakecli/tmp/x"):
        with pytest.raises(UsageError, match="reserved"):
            batch.put_content(key, b"1")
    batch.flush()
    assert set(contents(store)) == {"data/00/good", "_lakecli/other"}
