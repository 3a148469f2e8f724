"""Writes to branches: joined, conditional, named in the operation log, and undone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from copy import copy
from errno import EIO
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from blake3 import blake3

from lakecli.base.layout import INCOMING, data_key
from lakecli.base.model import Entry
from lakecli.committed.values import decode_entry, encode_entry
from lakecli.errors import LakeError, LostRace, NotFound, Unreachable, UsageError
from lakecli.remote import gc_protocol
from lakecli.remote.gc_protocol import Phase, look, move
from lakecli.repository.contract import Repository
from lakecli.repository.handle.lake import Lake
from lakecli.repository.reading.contents import read_object
from lakecli.repository.reading.reader import open_reader
from lakecli.repository.undo import undo
from lakecli.repository.undo.log import iter_log
from lakecli.serving import writes
from lakecli.serving.writes import BranchWriter, Client, Deposited, PathChange
from lakecli.staging.area import TOMBSTONE
from lakecli.stores.local import files as local_files
from lakecli.stores.local.files import SyncError
from tests.support import lakes
from tests.support.collection import make_state
from tests.support.memory_store import MemoryStore

AWS = Client("s3", "aws-cli")
DUCKDB = Client("s3", "duckdb")


class Seconds:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with lakes.open_lake(tmp_path) as lake:
        yield lakes.make_repository(lake, tmp_path)


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


def acting(repository: Repository) -> Callable[[str], Repository]:
    """Return what makes handles for one client, as `Served` does."""

    def act(command: str) -> Repository:
        handle = copy(repository)
        lake = repository.lake
        handle.lake = Lake(lake.home, lake.kv, lake.runtime._replace(command=command))
        return handle

    return act


@pytest.fixture
def writer(repository: Repository, seconds: Seconds) -> BranchWriter:
    return BranchWriter(acting(repository), "main", elapsed=seconds)


def entry_of(deposited: Deposited, repository: Repository) -> bytes:
    return encode_entry(
        Entry(deposited.address, deposited.size, deposited.digest, repository.lake.runtime.now())
    )


def put(
    writer: BranchWriter,
    repository: Repository,
    path: bytes,
    data: bytes,
    client: Client = AWS,
    *,
    if_absent: bool = False,
) -> bytes | LakeError | None:
    deposited = writer.deposit([data])

    def decide(present: bytes | None) -> bytes:
        if if_absent and present is not None:
            raise LostRace("it is there")
        return entry_of(deposited, repository)

    (outcome,) = writer.apply(
        [PathChange(path, decide, deposited)], client=client, action="PutObject"
    )
    return outcome


def read(repository: Repository, path: bytes) -> bytes:
    with open_reader(repository, "main") as reader:
        return b"".join(read_object(repository, reader.stat(path)))


def paths(repository: Repository) -> list[bytes]:
    with open_reader(repository, "main") as reader:
        return [path for path, _ in reader.iter()]


def commands(repository: Repository) -> list[str]:
    found = (each.operation.command for each in iter_log(repository))
    return [each for each in found if each != "test"]


def test_a_written_object_is_staged_and_can_be_read(
    writer: BranchWriter, repository: Repository
) -> None:
    outcome = put(writer, repository, b"a/b", b"contents")
    assert isinstance(outcome, bytes)
    assert decode_entry(outcome).size == 8
    assert read(repository, b"a/b") == b"contents"


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, (1 << 20) + 1, (9 << 20) + 3])
@pytest.mark.parametrize("is_whole", [True, False])
def test_objects_of_every_size_come_whole_or_in_pieces(
    writer: BranchWriter, repository: Repository, size: int, *, is_whole: bool
) -> None:
    data = bytes(range(251)) * (size // 251 + 1)
    data = data[:size]
    pieces = (data[at : at + 100_000] for at in range(0, size, 100_000))
    deposited = writer.deposit([data] if is_whole else pieces)
    assert deposited.size == size
    (outcome,) = writer.apply(
        [PathChange(b"x", lambda _: entry_of(deposited, repository), deposited)],
        client=AWS,
        action="PutObject",
    )
    assert isinstance(outcome, bytes)
    assert read(repository, b"x") == data


def test_a_large_object_of_a_bucket_is_written_once_to_the_name_of_its_digest(
    repository: Repository, seconds: Seconds
) -> None:
    store = MemoryStore()
    there = lakes.through(repository, store)
    writer = BranchWriter(acting(there), "main", elapsed=seconds)
    data = b"0123456789abcdef" * ((9 << 20) // 16)
    deposited = writer.deposit(data[at : at + 100_000] for at in range(0, len(data), 100_000))
    assert store.get(deposited.address) == data
    assert list(store.list(INCOMING)) == []
    small = writer.deposit(iter([b"small"]))
    assert store.get(small.address) == b"small"


def test_a_small_object_is_written_after_a_sweep_that_may_delete_it(
    repository: Repository, seconds: Seconds, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    there = lakes.through(repository, store)
    writer = BranchWriter(acting(there), "main", elapsed=seconds)
    data = b"small"
    move(store, look(store), make_state(Phase.SWEEPING))

    def end_sweep(*_: object) -> None:
        store.delete([data_key(blake3(data).hexdigest())])
        move(store, look(store), make_state(Phase.IDLE))

    monkeypatch.setattr(gc_protocol, "wait_for_sweep", end_sweep)
    deposited = writer.deposit([data])
    change = PathChange(b"a", lambda _: entry_of(deposited, there), deposited)
    writer.apply_one(change, client=AWS, action="PutObject")
    assert store.get(deposited.address) == data


def test_an_object_that_breaks_off_leaves_nothing(
    writer: BranchWriter, repository: Repository, tmp_path: Path
) -> None:
    def broken() -> Iterator[bytes]:
        yield b"x" * (3 << 20)
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        writer.deposit(broken())
    put(writer, repository, b"a", b"1")
    left = [each for each in (tmp_path / "namespace/_lakecli/tmp").rglob("*") if each.is_file()]
    assert [each.name for each in left if each.name != "lock"] == []
    assert paths(repository) == [b"a"]


def test_a_condition_that_fails_fails_alone(writer: BranchWriter, repository: Repository) -> None:
    put(writer, repository, b"b", b"old")
    new = writer.deposit([b"new"])

    def refuse(_: bytes | None) -> bytes:
        raise LostRace("not this one")

    first, second, third, fourth = writer.apply(
        [
            PathChange(b"a", lambda _: entry_of(new, repository), new),
            PathChange(b"b", refuse, new),
            PathChange(b"", lambda _: entry_of(new, repository), new),
            PathChange(b"c", lambda _: None),
        ],
        client=AWS,
        action="DeleteObjects",
    )
    assert isinstance(first, bytes)
    assert isinstance(second, LostRace)
    assert isinstance(third, UsageError)
    assert fourth is None
    assert paths(repository) == [b"a", b"b"]
    assert read(repository, b"b") == b"old"


def test_changes_of_one_path_see_each_other(writer: BranchWriter, repository: Repository) -> None:
    seen: list[bytes | None] = []
    data = writer.deposit([b"1"])
    value = entry_of(data, repository)

    def note(answer: bytes | None) -> Callable[[bytes | None], bytes | None]:
        def decide(present: bytes | None) -> bytes | None:
            seen.append(present)
            return answer

        return decide

    outcomes = writer.apply(
        [
            PathChange(b"a", note(value), data),
            PathChange(b"a", note(TOMBSTONE)),
            PathChange(b"a", note(None)),
        ],
        client=AWS,
        action="x",
    )
    assert seen == [None, value, None]
    assert outcomes == [value, None, None]
    assert paths(repository) == []
    assert commands(repository) == []  # nothing was changed


def test_a_deletion_of_what_is_absent_changes_nothing(
    writer: BranchWriter, repository: Repository
) -> None:
    assert writer.apply(
        [PathChange(b"a", lambda _: TOMBSTONE)], client=AWS, action="DeleteObject"
    ) == [None]
    assert commands(repository) == []


def test_of_many_that_create_one_path_one_succeeds(
    writer: BranchWriter, repository: Repository
) -> None:
    """Also against a second writer, which shares no lock with the first, as another process."""
    other = BranchWriter(acting(repository), "main", elapsed=Seconds())
    outcomes: list[object] = []
    start = threading.Barrier(16)

    def create(number: int) -> None:
        start.wait()
        mine = (writer, other)[number % 2]
        client = Client("s3", f"client-{number % 3}")
        outcomes.append(put(mine, repository, b"x", b"%d" % number, client, if_absent=True))

    threads = [threading.Thread(target=create, args=(number,)) for number in range(16)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sum(isinstance(each, bytes) for each in outcomes) == 1
    assert sum(isinstance(each, LostRace) for each in outcomes) == 15
    (created,) = (each for each in outcomes if isinstance(each, bytes))
    with open_reader(repository, "main") as reader:
        assert reader.stat(b"x") == decode_entry(created)


def test_what_waits_is_made_together(
    writer: BranchWriter, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one group is made, others wait, and are then made by one thread."""
    groups: list[int] = []
    entered, leave = threading.Event(), threading.Event()
    make = writer._make

    def slow(requests: Any) -> None:
        groups.append(len(requests))
        if len(groups) == 1:
            entered.set()
            leave.wait(10)
        make(requests)

    monkeypatch.setattr(writer, "_make", slow)
    threads = [
        threading.Thread(target=put, args=(writer, repository, b"%d" % number, b"same"))
        for number in range(8)
    ]
    threads[0].start()
    assert entered.wait(10)
    for each in threads[1:]:
        each.start()
    while len(writer._waiting) < 7:
        threading.Event().wait(0.01)
    leave.set()
    for each in threads:
        each.join()
    assert groups == [1, 7]
    assert len(paths(repository)) == 8
    assert commands(repository) == ["s3: PutObject by aws-cli"]


def test_requests_without_a_pause_are_one_operation(
    writer: BranchWriter, repository: Repository, seconds: Seconds
) -> None:
    for number in range(3):
        put(writer, repository, b"%d" % number, b"x")
        seconds.now += writes.PAUSE / 2
    assert commands(repository) == ["s3: PutObject by aws-cli"]
    seconds.now += writes.PAUSE
    put(writer, repository, b"later", b"x")
    assert commands(repository) == ["s3: PutObject by aws-cli"] * 2
    undo.undo(repository)
    assert paths(repository) == [b"0", b"1", b"2"]
    undo.undo(repository)
    assert paths(repository) == []


def test_each_client_has_its_own_operation_in_the_order_of_the_writes(
    writer: BranchWriter, repository: Repository
) -> None:
    put(writer, repository, b"a", b"1")
    put(writer, repository, b"a", b"2", DUCKDB)
    put(writer, repository, b"a", b"3")
    assert commands(repository) == [
        "s3: PutObject by aws-cli",
        "s3: PutObject by duckdb",
        "s3: PutObject by aws-cli",
    ]
    undo.undo(repository)
    assert read(repository, b"a") == b"2"


def test_few_clients_are_remembered(
    writer: BranchWriter, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writes, "MOST_CLIENTS", 2)
    for number in range(5):
        put(writer, repository, b"%d" % number, b"x", Client("s3", f"c{number}"))
    assert [client.name for client in writer._operations] == ["c3", "c4"]


@pytest.mark.parametrize("size", [1, 2 << 20])
def test_an_object_that_may_be_lost_is_not_deposited(
    writer: BranchWriter, repository: Repository, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(local_files, "sync_file", Mock(side_effect=SyncError(EIO, "lost")))
        with pytest.raises(Unreachable, match="lost"):
            put(writer, repository, b"a", b"x" * size)
    assert paths(repository) == []
    put(writer, repository, b"a", b"x" * size)
    assert paths(repository) == [b"a"]


def test_a_mistake_in_a_condition_reaches_all_that_wait(
    writer: BranchWriter, repository: Repository
) -> None:
    def wrong(_: bytes | None) -> bytes:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        writer.apply([PathChange(b"a", wrong)], client=AWS, action="x")
    put(writer, repository, b"a", b"1")  # the next ones go on
    assert paths(repository) == [b"a"]


def test_a_branch_that_is_gone_is_not_found(repository: Repository, seconds: Seconds) -> None:
    writer = BranchWriter(acting(repository), "gone", elapsed=seconds)
    with pytest.raises(NotFound, match="no branch"):
        put(writer, repository, b"a", b"1")


def test_a_copy_claims_the_object(
    writer: BranchWriter, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = put(writer, repository, b"a", b"1")
    assert isinstance(value, bytes)
    claimed: list[object] = []
    monkeypatch.setattr(writes, "claim_values", lambda _repository, values: claimed.extend(values))
    writer.apply([PathChange(b"b", lambda _: value)], client=AWS, action="CopyObject")
    assert claimed == [(b"b", value)]
    assert paths(repository) == [b"a", b"b"]
