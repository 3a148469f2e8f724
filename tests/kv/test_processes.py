"""Several processes on one store, killed processes, and processes with little memory or disk."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

from lakecli.errors import Unreachable
from lakecli.kv import lmdb_environment
from lakecli.kv.local_store import LocalStore, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKER = [sys.executable, str(Path(__file__).with_name("worker.py"))]
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
IN_A_NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]


def run(*arguments: object, wrapper: tuple[str, ...] = ()) -> list[str]:
    command = [*wrapper, *WORKER, *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.stderr == ""
    assert result.returncode == 0
    return result.stdout.splitlines()


@contextmanager
def started(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    command = [*WORKER, *map(str, arguments)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def stream(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


def wait_for(process: subprocess.Popen[str], word: str) -> None:
    assert stream(process.stdout).readline() == word + "\n"


def go_on(process: subprocess.Popen[str]) -> None:
    stream(process.stdin).write("\n")
    stream(process.stdin).flush()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with LocalStore.open(tmp_path) as store, store.write() as txn:
        txn.put(Table.BRANCHES, b"main", b"old")
    return tmp_path


def test_two_writers_and_a_reader_lose_and_tear_nothing(home: Path) -> None:
    with started("count", home, 300) as first, started("count", home, 300) as second:
        with LocalStore.open(home) as store:
            seen = 0
            while first.poll() is None or second.poll() is None:
                with store.read() as txn:
                    number = txn.get(Table.TOKENS, b"first")
                    assert txn.get(Table.TOKENS, b"second") == number
                    rows = sum(1 for _ in txn.scan_keys(Table.COMMITS))
                    assert rows == int(number or b"0") >= seen
                    seen = rows
                time.sleep(0.005)
        assert first.wait() == second.wait() == 0
    with LocalStore.open(home) as store, store.read() as txn:
        assert txn.get(Table.TOKENS, b"first") == b"600"
        assert sum(1 for _ in txn.scan(Table.COMMITS)) == 600


def test_only_a_writer_waits_for_a_writer(home: Path) -> None:
    with started("hold-write", home, 100) as other:
        wait_for(other, "inside")
        begun = time.monotonic()
        with LocalStore.open(home) as store:
            with store.read() as txn:
                assert txn.get(Table.BRANCHES, b"main") == b"old"
            assert time.monotonic() - begun < 1  # the other one stays inside until told
            go_on(other)
            with store.write() as writer:
                assert writer.get(Table.BRANCHES, b"main") == b"new"
        assert other.wait() == 0


def test_a_writer_waits_no_longer_than_the_other_ones_transaction(home: Path) -> None:
    with LocalStore.open(home) as store, started("hold-write", home, 10) as other:
        wait_for(other, "inside")
        go_on(other)
        told = time.monotonic()
        with store.write():
            waited = time.monotonic() - told
        assert waited < 2


@pytest.mark.parametrize("size", [1, 20_000])
def test_a_writer_killed_inside_leaves_the_old_state(home: Path, size: int) -> None:
    with started("hold-write", home, size) as other:
        wait_for(other, "inside")
        other.kill()
        other.wait()
    with LocalStore.open(home) as store, store.write() as txn:
        assert txn.get(Table.BRANCHES, b"main") == b"old"
        assert list(txn.scan(Table.STAGING)) == []
        txn.put(Table.BRANCHES, b"main", b"newer")
    with LocalStore.open(home) as store, store.read() as reader:
        assert reader.get(Table.BRANCHES, b"main") == b"newer"


def test_a_killed_writer_lets_go_of_those_who_wait(home: Path) -> None:
    with LocalStore.open(home) as store, started("hold-write", home, 1) as other:
        wait_for(other, "inside")
        other.kill()
        with store.write() as txn:
            assert txn.get(Table.BRANCHES, b"main") == b"old"


HOLD_PID = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR)
fcntl.lockf(descriptor, fcntl.LOCK_EX, 1, int(sys.argv[2]))
print("inside", flush=True)
sys.stdin.readline()
"""


@contextmanager
def user_of_the_same_pid(home: Path) -> Iterator[subprocess.Popen[str]]:
    """Lock what LMDB locks in a process of this ID, as one in another container does."""
    arguments = [sys.executable, "-c", HOLD_PID, str(home / "lock.mdb"), str(os.getpid())]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            wait_for(process, "inside")
            yield process
        finally:
            process.kill()


def test_a_process_of_the_same_id_is_waited_for(home: Path) -> None:
    with user_of_the_same_pid(home) as other:
        timer = threading.Timer(0.5, go_on, [other])
        timer.start()
        begun = time.monotonic()
        with LocalStore.open(home) as store, store.write() as txn:
            assert txn.get(Table.BRANCHES, b"main") == b"old"
        assert time.monotonic() - begun > 0.4
        timer.join()


def test_a_process_of_the_same_id_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 9 < sum(lmdb_environment._PAUSES) < 12
    monkeypatch.setattr(lmdb_environment, "_PAUSES", (0.01,))
    with user_of_the_same_pid(home):
        with pytest.raises(Unreachable, match=f"process with the ID {os.getpid()}, in") as raised:
            LocalStore.open(home)
        assert "--pid=host" in str(raised.value.hint)
    with LocalStore.open(home) as store, store.read() as txn:
        assert txn.get(Table.BRANCHES, b"main") == b"old"


@linux
def test_two_containers_with_equal_process_ids_take_turns(home: Path) -> None:
    container = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")
    if subprocess.run([*container, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no PID namespaces here")
    workers = [
        subprocess.Popen(
            [*container, *WORKER, "count", str(home), "20"], stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    for worker in workers:
        with worker:
            assert worker.communicate(timeout=60)[0] == ""
            assert worker.returncode == 0
    with LocalStore.open(home) as store, store.read() as txn:
        assert txn.get(Table.TOKENS, b"first") == b"80"


def test_killed_readers_are_cleared_at_the_next_opening(home: Path) -> None:
    """The first process to open a store makes the table of readers anew; this is the third."""
    with started("hold-read", home) as alive, started("hold-read", home) as killed:
        wait_for(alive, "inside")
        wait_for(killed, "inside")
        killed.kill()
        killed.wait()
        with LocalStore.open(home) as store:
            readers = store._environment._lmdb.readers().split()
        assert str(alive.pid) in readers
        assert str(killed.pid) not in readers


@linux
def test_opening_under_a_limit_of_address_space(home: Path) -> None:
    wrapper = ("sh", "-c", 'ulimit -v 4194304 && exec "$@"', "sh")
    assert run("put-and-get", home, wrapper=wrapper) == ["new"]
    assert run("limited-space", home, 400 << 20) == ["new"]


@linux
def test_no_address_space_at_all(home: Path) -> None:
    (line,) = run("limited-space", home, 32 << 20)
    assert line.startswith("unreachable: not enough memory or address space")


def test_a_process_with_a_small_map_is_outgrown(home: Path) -> None:
    with started("hold-small-map", home) as other:
        wait_for(other, "open")
        with LocalStore.open(home) as store, store.write() as txn:
            txn.put_sorted(Table.STAGING, [(b"%08d" % n, bytes(1000)) for n in range(5000)])
        go_on(other)
        line = stream(other.stdout).readline()
        assert line.startswith("unreachable: another process has grown the local store")


def test_a_write_that_the_disk_does_not_take_changes_nothing(home: Path) -> None:
    failure, value = run("limited-file", home, 1 << 20)
    assert failure.startswith("unreachable: ")
    assert str(home) in failure
    assert value == "old"


def on_a_disk_of(size: str, directory: Path) -> tuple[str, ...]:
    """Return the words before a command that give it a small disk at `directory`."""
    probe = [*IN_A_NAMESPACE, "true"]
    if shutil.which("unshare") is None or subprocess.run(probe, check=False).returncode:
        pytest.skip("no user namespaces here, so no small disk can be mounted")
    mount = f'mount -t tmpfs -o size={size} tmpfs "$0" && exec "$@"'
    return (*IN_A_NAMESPACE, "sh", "-c", mount, str(directory))


def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    failure, value = run("full-disk", tmp_path, wrapper=on_a_disk_of("1m", tmp_path))
    assert failure.startswith("unreachable: ")
    assert "local store" in failure
    assert value == ""


def test_a_disk_without_room_for_a_new_store(tmp_path: Path) -> None:
    (line,) = run("full-disk", tmp_path, wrapper=on_a_disk_of("16k", tmp_path))
    assert line == f"unreachable: no space left for the local store: {tmp_path}"


def test_a_store_is_not_used_across_a_fork(home: Path) -> None:
    *in_child, last = run("fork", home)
    assert len(in_child) == 3
    for line in in_child:
        assert line.startswith("unexpected: the local store was opened before this process")
    assert last == "parent done"
    with LocalStore.open(home) as store, store.read() as txn:
        assert txn.get(Table.BRANCHES, b"main") == b"new"
