from __future__ import annotations

import os
import resource
import subprocess
import sys
import textwrap
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lmdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.errors import IntegrityError, LakeError, PermissionDenied, Refused, Unreachable
from lakecli.kv import lmdb_environment, local_store
from lakecli.kv.local_store import MAX_KEY_SIZE, LocalStore, Table, WriteTransaction
from lakecli.kv.sentinel import SENTINEL, Sentinel
from tests.support.disk import open_below
from tests.support.stores import scratch
from tests.support.tools import linux_only

if TYPE_CHECKING:
    from types import FrameType

SCHEMA_KEY = b"schema"
keys = st.binary(min_size=1, max_size=6)
owners = st.binary(max_size=2).map(lambda tail: tail.rjust(16, b"o"))
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")


def put_one(directory: Path, value: bytes) -> None:
    with LocalStore.open(directory) as store, store.write() as txn:
        txn.put(Table.BRANCHES, b"main", value)


def put_much(store: LocalStore) -> None:
    with store.write() as txn:
        txn.put(Table.BRANCHES, b"main", b"new")
        txn.put_sorted(Table.STAGING, [(b"%d" % n, bytes(1000)) for n in range(1000)])


def read_one(directory: Path) -> bytes | None:
    with LocalStore.open(directory) as store, store.read() as txn:
        return txn.get(Table.BRANCHES, b"main")


def test_the_secret_of_a_store_is_its_own_and_stays(tmp_path: Path) -> None:
    """A store that an older version wrote has none before it is written again."""
    secrets: list[bytes | None] = []
    for name in ("one", "other", "one"):
        with LocalStore.open(tmp_path / name) as store:
            if name != "one" or not secrets:
                assert store.secret() is None
            with store.write():
                pass
            secrets.append(store.secret())
    one, other, again = secrets
    assert one is not None
    assert len(one) == 32
    assert one == again != other


@linux_only
@linux
def test_the_lock_file_of_a_new_store_is_allocated(tmp_path: Path) -> None:
    """LMDB maps it sparse; on a full disk, the first access would kill the process."""
    put_one(tmp_path / "home", b"1")
    status = (tmp_path / "home" / "lock.mdb").stat()
    assert status.st_blocks * 512 >= status.st_size > 0


def test_a_lock_file_that_is_in_use_is_not_allocated_again(tmp_path: Path) -> None:
    put_one(tmp_path, b"1")
    before = (tmp_path / "lock.mdb").read_bytes()
    lmdb_environment.allocate_lock_file(tmp_path)
    assert (tmp_path / "lock.mdb").read_bytes() == before


@pytest.mark.parametrize("writes", [False, True])
def test_a_fork_does_not_use_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, writes: bool
) -> None:
    with LocalStore.open(tmp_path) as store:
        monkeypatch.setattr("os.getpid", lambda: 1)
        with pytest.raises(LakeError, match="before this process was forked"), suppress(OSError):
            store.write().__enter__() if writes else store.read().__enter__()
        monkeypatch.undo()
        made_before = store.write() if writes else store.read()
        monkeypatch.setattr("os.getpid", lambda: 1)
        with pytest.raises(LakeError, match="before this process was forked"):
            made_before.__enter__()
        monkeypatch.undo()


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (resource.RLIM_INFINITY, [16, 8, 4, 2, 1]),
        (16, [16, 4, 2, 1]),
        (1 << 20, [16, 8, 4, 2, 1]),
        (2, [16]),
    ],
)
def test_maps_are_tried_from_the_largest_down(
    monkeypatch: pytest.MonkeyPatch, limit: int, expected: list[int]
) -> None:
    unit = lmdb_environment.SMALLEST_MAP_SIZE
    soft = limit if limit == resource.RLIM_INFINITY else limit * unit
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (soft, resource.RLIM_INFINITY))
    assert [size / unit for size in lmdb_environment._map_sizes(16 * unit)] == expected


def test_maps_consist_of_whole_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = lmdb_environment.SMALLEST_MAP_SIZE
    limit = 4 * (2 * unit + 5 * 1024 + 1)
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (limit, limit))
    assert list(lmdb_environment._map_sizes(16 * unit))[1:] == [2 * unit + 4096, unit]


@linux
def test_a_store_opens_without_a_table_of_mounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lmdb_environment, "MOUNT_TABLE", str(tmp_path / "absent"))
    put_one(tmp_path / "home", b"1")
    assert read_one(tmp_path / "home") == b"1"


def test_the_names_of_a_new_store_are_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    sync = os.fsync

    def record(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    home = tmp_path / "a" / "b" / "home"
    put_one(home, b"1")
    assert {path.stat().st_ino for path in (home, home.parent, home.parent.parent, tmp_path)} == (
        synced
    )
    synced.clear()
    put_one(home, b"2")
    assert synced == set()


def test_a_closed_store_leaves_no_descriptor(tmp_path: Path) -> None:
    with LocalStore.open(tmp_path):
        assert open_below(tmp_path) != []
    assert open_below(tmp_path) == []
    put_one(tmp_path, b"1")
    assert open_below(tmp_path) == []


@pytest.mark.parametrize("failure", ["InvalidError", "DiskError", "BadRslotError"])
def test_what_lmdb_cannot_open_is_an_error_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise getattr(lmdb, failure)("it cannot")

    with monkeypatch.context() as patched:
        patched.setattr(lmdb, "open", fail)
        with pytest.raises(LakeError, match=str(tmp_path)):
            LocalStore.open(tmp_path)
    put_one(tmp_path, b"1")
    assert read_one(tmp_path) == b"1"


@pytest.mark.parametrize("was_left_open", [False, True])
def test_a_failed_opening_keeps_the_record_of_the_last_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, was_left_open: bool
) -> None:
    put_one(tmp_path, b"1")
    record = tmp_path / SENTINEL
    if was_left_open:
        record.write_bytes(record.read_bytes().replace(b"closed", b"open"))

    def fail(*_: object, **__: object) -> None:
        raise lmdb.DiskError("it cannot")

    with monkeypatch.context() as patched:
        patched.setattr(lmdb, "open", fail)
        with pytest.raises(LakeError) as kept:  # with the frames that hold the sentinel
            LocalStore.open(tmp_path)
    found = Sentinel(tmp_path)
    found.close(cleanly=False)
    assert found.was_left_open == was_left_open
    assert str(tmp_path) in kept.value.message


class TestTransactions:
    def test_writes_are_there_after_reopening(self, tmp_path: Path) -> None:
        put_one(tmp_path / "new" / "home", b"1")
        assert read_one(tmp_path / "new" / "home") == b"1"

    def test_a_block_that_raises_changes_nothing(self, store: LocalStore) -> None:
        with store.write() as txn:
            txn.put(Table.TAGS, b"v1", b"old")
        with suppress(ZeroDivisionError), store.write() as txn:
            txn.put(Table.TAGS, b"v1", b"new")
            _ = 1 / 0
        with store.read() as txn:
            assert txn.get(Table.TAGS, b"v1") == b"old"

    def test_a_reader_sees_one_moment(self, store: LocalStore) -> None:
        with store.read() as before:
            with store.write() as txn:
                txn.put(Table.TOKENS, b"t", b"1")
            assert before.get(Table.TOKENS, b"t") is None
        with store.read() as after:
            assert after.get(Table.TOKENS, b"t") == b"1"

    def test_a_writer_sees_its_own_changes(self, store: LocalStore) -> None:
        with scratch(store) as txn:
            txn.put(Table.COMMITS, b"k", b"v")
            assert list(txn.scan(Table.COMMITS)) == [(b"k", b"v")]

    def test_put_new_keeps_what_is_there(self, store: LocalStore) -> None:
        with scratch(store) as txn:
            assert txn.put_new(Table.COMMITS, b"k", b"1")
            assert not txn.put_new(Table.COMMITS, b"k", b"2")
            assert txn.get(Table.COMMITS, b"k") == b"1"

    def test_delete_says_whether_there_was_anything(self, store: LocalStore) -> None:
        with scratch(store) as txn:
            txn.put(Table.COMMITS, b"k", b"")
            assert txn.delete(Table.COMMITS, b"k")
            assert not txn.delete(Table.COMMITS, b"k")

    def test_tables_do_not_mix(self, store: LocalStore) -> None:
        with scratch(store) as txn:
            for table in Table:
                txn.put(table, b"same key", table.name.encode())
            for table in Table:
                assert txn.get(table, b"same key") == table.name.encode()
                assert dict(txn.scan(table))[b"same key"] == table.name.encode()

    def test_table_values_are_the_stored_format(self) -> None:
        stored = {table.name: bytes(table) for table in Table}
        assert stored == {
            "META": b"m",
            "REPOSITORIES": b"r",
            "BRANCHES": b"b",
            "TAGS": b"t",
            "COMMITS": b"c",
            "STAGING": b"s",
            "TOKENS": b"k",
            "OPERATIONS": b"o",
            "IMAGES": b"i",
            "FILE_HASHES": b"f",
            "TRANSFERS": b"x",
            "TRACKING": b"u",
            "REFLOG": b"l",
            "INTENTS": b"v",
            "PACKED": b"p",
        }

    def test_the_longest_key_fits(self, store: LocalStore) -> None:
        with scratch(store) as txn:
            txn.put(Table.COMMITS, b"k" * MAX_KEY_SIZE, b"v")
            assert txn.get(Table.COMMITS, b"k" * MAX_KEY_SIZE) == b"v"

    def test_a_key_too_long_is_an_error_of_ours(self, store: LocalStore) -> None:
        with pytest.raises(LakeError, match="local store"), store.write() as txn:
            txn.put(Table.COMMITS, b"k" * (MAX_KEY_SIZE + 1), b"v")

    def test_a_scan_after_the_transaction_is_an_error(self, store: LocalStore) -> None:
        with store.write() as txn:
            txn.put_sorted(Table.FILE_HASHES, [(b"%04d" % n, b"") for n in range(100)])
        with store.read() as reader:
            records = reader.scan(Table.FILE_HASHES)
            next(records)
        with pytest.raises(lmdb.Error, match="closed"):
            list(records)


class TestScans:
    @given(
        present=st.dictionaries(keys, st.binary(max_size=3), max_size=40),
        prefix=st.binary(max_size=2),
        start=st.binary(max_size=4),
    )
    def test_scans_agree_with_a_dict(
        self, store: LocalStore, present: dict[bytes, bytes], prefix: bytes, start: bytes
    ) -> None:
        expected = sorted(
            item for item in present.items() if item[0].startswith(prefix) and item[0] >= start
        )
        with scratch(store) as txn:
            # Neighbours of the table, which no scan of it may touch.
            txn.put(Table.REPOSITORIES, b"\xff", b"")
            txn.put(Table.TAGS, b"\0", b"")
            txn.put_sorted(Table.STAGING, sorted(present.items()))
            found = list(txn.scan(Table.STAGING, prefix=prefix, start=start))
            assert found == expected
            found_keys = list(txn.scan_keys(Table.STAGING, prefix=prefix, start=start))
            assert found_keys == [key for key, _ in expected]
            under = sorted(item for item in present.items() if item[0].startswith(prefix))
            assert list(txn.scan_reverse(Table.STAGING, prefix=prefix)) == under[::-1]

    @given(
        present=st.sets(st.tuples(owners, keys), max_size=30),
        owner=owners,
        limit=st.none() | st.integers(0, 30),
    )
    def test_delete_owned_deletes_the_first_of_them(
        self, store: LocalStore, present: set[tuple[bytes, bytes]], owner: bytes, limit: int | None
    ) -> None:
        rows = {each + key for each, key in present}
        gone = set(sorted(row for row in rows if row.startswith(owner))[:limit])
        with scratch(store) as txn:
            txn.put(Table.TAGS, b"a", b"")
            txn.put_sorted(Table.STAGING, [(row, b"") for row in sorted(rows)])
            assert txn.delete_owned(Table.STAGING, owner, limit=limit) == len(gone)
            assert set(txn.scan_keys(Table.STAGING)) == rows - gone
            assert txn.get(Table.TAGS, b"a") == b""

    @pytest.mark.parametrize("owner", [b"", b"o", b"o" * 15, b"o" * 17])
    def test_delete_owned_takes_no_prefix_of_several_owners(
        self, store: LocalStore, owner: bytes
    ) -> None:
        with scratch(store) as txn:
            txn.put(Table.STAGING, b"o" * 16, b"")
            with pytest.raises(IntegrityError) as caught:
                txn.delete_owned(Table.STAGING, owner)
            assert caught.value.hint
            assert txn.get(Table.STAGING, b"o" * 16) == b""

    def test_a_long_scan_crosses_its_batches(self, store: LocalStore) -> None:
        records = [(b"%06d" % number, b"%d" % number) for number in range(5_000)]
        with scratch(store) as txn:
            txn.put_sorted(Table.STAGING, records)
            assert list(txn.scan(Table.STAGING)) == records
            batches = list(txn.scan_batches(Table.STAGING, cut=2))
            assert [record for batch in batches for record in batch] == [
                (key[2:], value) for key, value in records
            ]
            assert len(batches[0]) < len(batches[-2]) == 1024

    def test_put_sorted_may_keep_what_is_there(self, store: LocalStore) -> None:
        with scratch(store) as txn:
            txn.put(Table.STAGING, b"pb", b"old")
            new = [(b"a", b"new"), (b"b", b"new")]
            txn.put_sorted(Table.STAGING, new, prefix=b"p", overwrite=False)
            assert list(txn.scan(Table.STAGING)) == [(b"pa", b"new"), (b"pb", b"old")]


class TestSchema:
    def test_a_store_from_the_future_is_refused(self, tmp_path: Path) -> None:
        with LocalStore.open(tmp_path) as store, store.write() as txn:
            txn.put(Table.META, SCHEMA_KEY, b"2")
        with pytest.raises(Refused, match="written by a newer lakecli") as caught:
            LocalStore.open(tmp_path)
        assert "upgrade" in (caught.value.hint or "")
        assert str(tmp_path) in caught.value.message

    def test_an_upgrade_meanwhile_is_seen_by_the_next_transaction(self, tmp_path: Path) -> None:
        with LocalStore.open(tmp_path) as store:
            with store.write() as txn:
                txn.put(Table.META, SCHEMA_KEY, b"2")
            with pytest.raises(Refused, match="newer"), store.read():
                pass
            with pytest.raises(Refused, match="newer"), store.write():
                pass

    def test_a_refused_transaction_is_over(self, tmp_path: Path) -> None:
        """Whoever keeps the error, and with it the frames that raised it, keeps no lock."""
        with LocalStore.open(tmp_path) as store:
            with store.write() as txn:
                txn.put(Table.META, SCHEMA_KEY, b"2")
            with pytest.raises(Refused) as kept:
                store.write().__enter__()
            with store._environment._lmdb.begin(write=True) as other:
                other.put(bytes(Table.META) + SCHEMA_KEY, b"1")
            with store.write() as txn:
                txn.put(Table.TAGS, b"v1", b"")
            assert kept.value.hint

    def test_a_refused_store_is_closed(self, tmp_path: Path) -> None:
        with LocalStore.open(tmp_path) as store, store.write() as txn:
            txn.put(Table.META, SCHEMA_KEY, b"2")
        kept = []
        for _ in range(2):  # LMDB opens a file once in a process
            with pytest.raises(Refused, match="newer") as caught:
                LocalStore.open(tmp_path)
            kept.append(caught)

    def test_a_new_store_keeps_the_version_that_another_process_gives_it(
        self, tmp_path: Path
    ) -> None:
        class Overtaken:
            """Another process is faster with the first write transaction."""

            def __init__(self, real: lmdb.Environment) -> None:
                self.begin_real = real.begin

            def begin(self, *, write: bool = False) -> lmdb.Transaction[bytes]:
                if write:
                    with self.begin_real(write=True) as other:
                        other.put(bytes(Table.META) + SCHEMA_KEY, b"2")
                return self.begin_real(write=write)

        with LocalStore.open(tmp_path) as store:
            real = store._environment._lmdb
            with real.begin(write=True) as txn:
                txn.delete(bytes(Table.META) + SCHEMA_KEY)
            store._environment._lmdb = Overtaken(real)  # type: ignore[assignment]
            try:
                with pytest.raises(Refused, match="newer"):
                    store._environment.prepare()
            finally:
                store._environment._lmdb = real

    def test_a_store_without_a_version_is_damaged(self, tmp_path: Path) -> None:
        with LocalStore.open(tmp_path) as store, store.write() as txn:
            txn.put(Table.TAGS, b"v1", b"")
            txn.delete(Table.META, SCHEMA_KEY)
        with pytest.raises(IntegrityError, match="damaged"):
            LocalStore.open(tmp_path)


class TestHandles:
    def test_handles_of_one_directory_share_the_environment(self, tmp_path: Path) -> None:
        link = tmp_path / "link"
        link.symlink_to(tmp_path / "home")
        with LocalStore.open(tmp_path / "home") as first:
            with LocalStore.open(link) as second, second.write() as txn:
                txn.put(Table.BRANCHES, b"main", b"1")
            with first.read() as reader:
                assert reader.get(Table.BRANCHES, b"main") == b"1"

    def test_closing_twice_does_not_close_the_others(self, tmp_path: Path) -> None:
        first = LocalStore.open(tmp_path)
        with LocalStore.open(tmp_path) as second:
            first.close()
            first.close()
            with second.read() as txn:
                assert txn.get(Table.BRANCHES, b"main") is None

    def test_a_closed_store_says_so(self, tmp_path: Path) -> None:
        store = LocalStore.open(tmp_path)
        store.close()
        with pytest.raises(LakeError, match="closed"):
            store.read()

    def test_a_write_inside_a_write_is_refused_not_waited_for(self, store: LocalStore) -> None:
        with pytest.raises(LakeError, match="inside another"), store.write(), store.write():
            pass
        with store.write() as txn:  # and the store goes on
            assert isinstance(txn, WriteTransaction)

    @pytest.mark.parametrize("method", ["__enter__", "__exit__"])
    def test_an_interrupt_leaves_no_writer(self, store: LocalStore, method: str) -> None:
        """It may come before each line of them: in a notebook the process goes on."""
        lines = set()

        def interrupt(frame: FrameType, event: str, _argument: object) -> Any:
            code = frame.f_code
            if not (code.co_name == method and code.co_filename == local_store.__file__):
                return interrupt if event == "call" else None
            frame.f_trace_lines = True
            if event == "line" and frame.f_lineno not in lines:
                lines.add(frame.f_lineno)
                raise KeyboardInterrupt
            return interrupt

        def write(key: bytes) -> None:
            with store.write() as txn:
                txn.put(Table.META, key, b"")

        interrupts, before = 0, sys.gettrace()
        while interrupts == len(lines):
            sys.settrace(interrupt)
            try:
                write(b"a")
                break
            except KeyboardInterrupt:
                interrupts += 1
            finally:
                sys.settrace(before)
            write(b"b")
        assert interrupts == len(lines) > 2

    def test_threads_write_in_turn(self, store: LocalStore) -> None:
        def add() -> None:
            for _ in range(20):
                with store.write() as txn:
                    count = int(txn.get(Table.TRANSFERS, b"count") or b"0")
                    txn.put(Table.TRANSFERS, b"count", b"%d" % (count + 1))

        threads = [threading.Thread(target=add) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with store.read() as txn:
            assert txn.get(Table.TRANSFERS, b"count") == b"80"


class TestPlaces:
    @pytest.mark.parametrize("below", ["", "home"])
    def test_a_file_in_place_of_the_directory(self, tmp_path: Path, below: str) -> None:
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(PermissionDenied, match="file") as caught:
            LocalStore.open(tmp_path / "file" / below)
        assert "LAKECLI_HOME" in (caught.value.hint or "")

    @linux
    def test_a_directory_that_cannot_be_made(self) -> None:
        with pytest.raises(PermissionDenied, match="/proc/self/lakecli"):
            LocalStore.open(Path("/proc/self/lakecli/home"))

    @linux_only
    @linux
    def test_a_network_file_system(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        table = tmp_path / "mounts"
        table.write_text(f"/dev/vda / ext4 rw 0 0\nserver:/home {tmp_path} nfs4 rw 0 0\n")
        monkeypatch.setattr(lmdb_environment, "MOUNT_TABLE", str(table))
        with pytest.raises(Refused, match=r"network file system \(nfs4\)") as caught:
            LocalStore.open(tmp_path / "home")
        assert "LAKECLI_HOME" in (caught.value.hint or "")
        with LocalStore.open(tmp_path / "temporary", durable=False) as store:
            with store.write() as txn:
                txn.put(Table.BRANCHES, b"main", b"1")
            with store.read() as seen:
                assert seen.get(Table.BRANCHES, b"main") == b"1"

    def test_a_file_that_is_not_a_store_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "data.mdb").write_bytes(b"something else\n" * 1000)
        with pytest.raises(IntegrityError, match="damaged") as caught:
            LocalStore.open(tmp_path)
        assert str(tmp_path) in caught.value.message
        assert (tmp_path / "data.mdb").read_bytes() == b"something else\n" * 1000

    def test_a_map_too_large_for_any_machine_becomes_smaller(self, tmp_path: Path) -> None:
        with LocalStore.open(tmp_path, map_size=1 << 50) as store:
            with store.write() as txn:
                txn.put(Table.BRANCHES, b"main", b"1")
            with store.read() as seen:
                assert seen.get(Table.BRANCHES, b"main") == b"1"

    def test_the_store_is_private(self, tmp_path: Path) -> None:
        put_one(tmp_path / "home", b"1")
        assert (tmp_path / "home").stat().st_mode & 0o077 == 0
        for file in (tmp_path / "home").iterdir():
            assert file.stat().st_mode & 0o077 == 0


class TestRoom:
    def test_a_full_map_changes_nothing_and_goes_on(self, tmp_path: Path) -> None:
        put_one(tmp_path, b"old")
        with LocalStore.open(tmp_path, map_size=1 << 18) as store:
            with pytest.raises(Unreachable, match="memory map") as caught:
                put_much(store)
            assert str(tmp_path) in caught.value.message
            with store.write() as txn:
                assert txn.get(Table.BRANCHES, b"main") == b"old"
                txn.put(Table.BRANCHES, b"main", b"newer")
        assert read_one(tmp_path) == b"newer"

    def test_a_map_smaller_than_the_data_still_opens(self, tmp_path: Path) -> None:
        with LocalStore.open(tmp_path) as store, store.write() as txn:
            txn.put_sorted(Table.STAGING, [(b"%04d" % n, bytes(1000)) for n in range(5000)])
        with LocalStore.open(tmp_path, map_size=1 << 20) as store, store.read() as txn:
            assert sum(1 for _ in txn.scan_keys(Table.STAGING)) == 5000


def test_nothing_slow_is_imported_before_a_store_is_opened() -> None:
    code = """
        import sys
        import lakecli.kv.local_store
        loaded = {"json", "blake3", "resource", "google.protobuf"} & set(sys.modules)
        print(*sorted(loaded))
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == ""


def test_what_is_committed_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[lmdb.Environment] = []
    open_lmdb = lmdb.open

    def record(*args: Any, **options: Any) -> lmdb.Environment:
        opened.append(open_lmdb(*args, **options))
        return opened[-1]

    monkeypatch.setattr(lmdb, "open", record)
    with LocalStore.open(tmp_path):
        assert opened
        for env in opened:
            flags = env.flags()
            assert (flags["sync"], flags["metasync"], flags["map_async"]) == (True, True, False)


def test_usage_grows_with_what_is_written(tmp_path: Path) -> None:
    with LocalStore.open(tmp_path, map_size=1 << 26) as store:
        before, size = store.usage()
        with store.write() as txn:
            txn.put(Table.META, b"large", bytes(1 << 20))
        after, size_after = store.usage()
    assert size == size_after == 1 << 26
    assert 0 < before < after == (tmp_path / "data.mdb").stat().st_size
    assert after <= size
    assert after - before >= 1 << 20
