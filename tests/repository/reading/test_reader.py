"""Readers: many entries of one ref, as it was when the reader was opened."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread, Timer
from threading import enumerate as enumerate_threads
from typing import TYPE_CHECKING

import lmdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.committed.point_reads import PointReader
from lakecli.errors import LakeError, NotFound
from lakecli.kv.local_store import Table
from lakecli.repository.commit import commit
from lakecli.repository.handle.lake import LocalRepository
from lakecli.repository.reading import reader as readers
from lakecli.repository.reading.reader import open_reader
from lakecli.repository.reading.view import View
from tests.support.lakes import entry_of, make_repository, open_lake, stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.repository.contract import Repository

OLD = {b"%04d" % number: b"old %d" % number for number in range(0, 3_000, 2)}
CHANGED = {b"0000": None, b"0001": b"new", b"0002": b"newer", b"9999": b"last"}


@pytest.fixture
def filled(repository: LocalRepository) -> Repository:
    stage(repository, "main", OLD)
    commit(repository, "main", message="old", committer="me")
    return repository


def checksum(data: bytes | None) -> str | None:
    return None if data is None else entry_of(data).checksum


def test_a_reader_answers_for_one_path(filled: LocalRepository) -> None:
    with open_reader(filled, "main") as reader:
        assert reader.stat("0002") == reader.stat(b"0002") == entry_of(OLD[b"0002"])
        assert reader.exists("0002")
        assert not reader.exists("0001")
        with pytest.raises(NotFound, match="no object at lakefs://demo/main/0001"):
            reader.stat("0001")
        assert not reader.has_changes


@pytest.mark.parametrize("staged", [{}, CHANGED], ids=["clean", "staged"])
def test_many_answers_come_in_the_order_of_the_paths(
    filled: LocalRepository, staged: dict[bytes, bytes | None]
) -> None:
    expected: dict[bytes, bytes | None] = dict(OLD)
    if staged:
        stage(filled, "main", staged)
        expected |= staged
    paths = [b"%04d" % (number * 7 % 3_000) for number in range(4_000)] + [b"9999", b"", b"x"]
    with open_reader(filled, "main") as reader:
        assert reader.has_changes == bool(staged)
        found = [entry and entry.checksum for entry in reader.stat_many(iter(paths))]
        listed = {path: entry.checksum for path, entry in reader.iter()}
        part = [path for path, _ in reader.iter(prefix="00", start="0050")]
    assert found == [checksum(expected.get(path)) for path in paths]
    assert listed == {path: checksum(data) for path, data in expected.items() if data is not None}
    assert part == [path for path in sorted(listed) if path.startswith(b"00") and path >= b"0050"]


@pytest.mark.parametrize("staged", [{}, CHANGED], ids=["clean", "staged"])
def test_a_reader_does_not_see_later_changes(
    filled: LocalRepository, staged: dict[bytes, bytes | None]
) -> None:
    if staged:
        stage(filled, "main", staged)
    before = {**OLD, **staged}
    with open_reader(filled, "main") as reader:
        stage(filled, "main", {b"0001": b"later", b"0004": None})
        commit(filled, "main", message="later", committer="me")
        assert [entry and entry.checksum for entry in reader.stat_many(["0001", "0004"])] == [
            checksum(before.get(b"0001")),
            checksum(before[b"0004"]),
        ]
    with open_reader(filled, "main") as reader:
        assert reader.stat("0001").checksum == checksum(b"later")


def test_a_clean_reader_holds_no_transaction(filled: LocalRepository) -> None:
    with open_reader(filled, "main") as reader:
        assert len(list(reader.iter())) == len(OLD)
        with pytest.raises(lmdb.Error):
            reader._view.txn.get(Table.META, b"x")
    stage(filled, "main", CHANGED)
    with open_reader(filled, "main") as reader:
        assert reader._view.txn.get(Table.META, b"x") is None


@pytest.mark.parametrize("staged", [{}, CHANGED], ids=["clean", "staged"])
def test_threads_share_a_reader(
    filled: LocalRepository, staged: dict[bytes, bytes | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "BATCH", 7)
    expected: dict[bytes, bytes | None] = dict(OLD)
    if staged:
        stage(filled, "main", staged)
        expected |= staged
    there = sorted(path for path, data in expected.items() if data is not None)

    def read(number: int) -> None:
        paths = [b"%04d" % ((number + step) * 11 % 3_000) for step in range(300)]
        found = [entry and entry.checksum for entry in reader.stat_many(paths)]
        assert found == [checksum(expected.get(path)) for path in paths]
        for path in paths[:20]:
            assert reader.exists(path) == (expected.get(path) is not None)
        if number % 3 == 0:
            assert [path for path, _ in reader.iter()] == there

    with open_reader(filled, "main") as reader, ThreadPoolExecutor(8) as pool:
        for _ in pool.map(read, range(24)):
            pass


@pytest.mark.parametrize("staged", [{}, CHANGED], ids=["clean", "staged"])
def test_entries_can_be_read_into_memory_in_the_background(
    filled: LocalRepository, staged: dict[bytes, bytes | None]
) -> None:
    """Afterwards no file is read; what is not committed is seen all the same."""
    expected: dict[bytes, bytes | None] = {**OLD, **staged}
    if staged:
        stage(filled, "main", staged)
    paths = sorted(expected)
    for fill, is_all in (("", True), (b"00", False)):
        filled.forget_trees()
        with open_reader(filled, "main", fill=fill) as reader:
            assert reader.wait_filled()
            before = dict(filled.trees.reads)
            asked = [path for path in paths if is_all or path.startswith(b"00")]
            found = [entry and entry.checksum for entry in reader.stat_many(asked)]
            assert found == [checksum(expected[path]) for path in asked]
            assert filled.trees.reads["disk"] == before["disk"]
            assert filled.trees.reads["memory"] > before["memory"]


def test_closing_a_reader_ends_its_thread(filled: LocalRepository) -> None:
    def fills() -> list[str]:
        return [each.name for each in enumerate_threads() if each.name == "lakecli-fill"]

    with open_reader(filled, "main") as reader:
        assert fills() == []
        assert not reader.wait_filled()
    with pytest.raises(ValueError, match="mine"), open_reader(filled, "main", fill="") as reader:
        raise ValueError("mine")
    assert fills() == []


@pytest.mark.parametrize("staged", [{}, CHANGED], ids=["clean", "staged"])
def test_a_closed_reader_answers_nothing(
    filled: LocalRepository, staged: dict[bytes, bytes | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "BATCH", 7)
    if staged:
        stage(filled, "main", staged)
    with open_reader(filled, "main") as reader:
        begun, many = reader.iter(), reader.stat_many(["0004"] * 20)
        next(begun)
        next(many)
    questions: list[Callable[[], object]] = [
        lambda: reader.stat("0004"),
        lambda: reader.find("0004"),
        lambda: reader.exists("0004"),
        lambda: list(reader.stat_many(["0004"])),
        lambda: list(reader.iter()),
        lambda: list(begun),
        lambda: list(many),
    ]
    for question in questions:
        with pytest.raises(LakeError, match="the reader is closed"):
            question()
    assert reader.commit.id


def test_closing_a_reader_waits_for_the_thread_that_reads_the_staging_area(
    filled: LocalRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To end a transaction of LMDB while another thread reads by it may crash the process."""
    stage(filled, "main", CHANGED)
    reads, goes_on = Event(), Event()
    answers: list[bool] = []

    def slow(view: View, paths: list[bytes]) -> list[bytes | None]:
        reads.set()
        assert goes_on.wait(10)
        return find_many(view, paths)

    find_many = View.find_many
    monkeypatch.setattr(View, "find_many", slow)
    with open_reader(filled, "main") as reader:
        asking = Thread(target=lambda: answers.append(reader.exists("0001")))
        asking.start()
        assert reads.wait(10)
        Timer(0.05, goes_on.set).start()
    assert goes_on.is_set()
    asking.join()
    assert answers == [True]


def test_a_reader_tells_that_the_memory_did_not_suffice(filled: LocalRepository) -> None:
    filled.trees.kept[PointReader] = PointReader(filled.trees, blocks_limit=1)
    with open_reader(filled, "main", fill="") as reader:
        assert not reader.wait_filled(60)
        assert reader.stat("0002") == entry_of(OLD[b"0002"])


PATHS = st.binary(min_size=1, max_size=3)


@given(
    committed=st.dictionaries(PATHS, st.binary(max_size=2), max_size=20),
    staged=st.dictionaries(PATHS, st.none() | st.binary(max_size=2), max_size=6),
    asked=st.lists(PATHS, max_size=20),
)
def test_a_reader_agrees_with_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory,
    committed: dict[bytes, bytes],
    staged: dict[bytes, bytes | None],
    asked: list[bytes],
) -> None:
    directory = tmp_path_factory.mktemp("reader")
    with open_lake(directory) as lake:
        repository = make_repository(lake, directory)
        if committed:
            stage(repository, "main", committed)
            commit(repository, "main", message="m", committer="me")
        if staged:
            stage(repository, "main", staged)
        expected: dict[bytes, bytes | None] = {**committed, **staged}
        with open_reader(repository, "main") as reader:
            assert [each and each.checksum for each in reader.stat_many(asked)] == [
                checksum(expected.get(path)) for path in asked
            ]
            assert [path for path, _ in reader.iter()] == sorted(
                path for path, data in expected.items() if data is not None
            )
