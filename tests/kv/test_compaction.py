"""The unused space of a store goes back to the disk, and nobody loses anything by that."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import lmdb
import pytest

from lakecli.errors import Refused, Unreachable
from lakecli.kv import compaction
from lakecli.kv.compaction import compact
from lakecli.kv.lmdb_environment import DATA_FILE, rewritten
from lakecli.kv.local_store import LocalStore, Table
from lakecli.kv.sentinel import SENTINEL, Sentinel
from tests.kv.test_processes import WORKER, go_on, started, wait_for
from tests.support.tools import linux_only

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 2_000


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a store of which most is unused."""
    with LocalStore.open(tmp_path) as store:
        for owner in (b"0" * 16, b"1" * 16):
            with store.write() as txn:
                rows = [(b"%08d" % number, bytes(200)) for number in range(ROWS)]
                txn.put_paths(Table.IMAGES, owner, rows)
        with store.write() as txn:
            txn.drop_paths(Table.IMAGES, b"0" * 16, limit=None)
            txn.put(Table.BRANCHES, b"main", b"old")
    return tmp_path


def rows_of(home: Path) -> int:
    with LocalStore.open(home) as store, store.read() as txn:
        assert txn.get(Table.BRANCHES, b"main") == b"old"
        return sum(1 for _ in txn.scan_keys(Table.IMAGES))


def test_a_compacted_store_has_the_same_records_in_less_space(home: Path) -> None:
    (home / DATA_FILE).chmod(0o640)
    before, after = compact(home)
    assert after == (home / DATA_FILE).stat().st_size < before * 0.6
    assert (home / DATA_FILE).stat().st_mode & 0o777 == 0o640
    assert rows_of(home) == ROWS
    with LocalStore.open(home) as store, store.write() as txn:
        txn.put(Table.TAGS, b"v1", b"new")
    assert compact(home)[1] <= after + (1 << 14)
    assert sorted(each.name for each in home.iterdir()) == [DATA_FILE, SENTINEL, "lock.mdb"]
    assert (home / SENTINEL).read_bytes().split() == [b"kept", b"closed"]


def test_a_new_store_can_be_compacted(tmp_path: Path) -> None:
    LocalStore.open(tmp_path / "new").close()
    compact(tmp_path / "new")
    with LocalStore.open(tmp_path / "new") as store, store.read() as txn:
        assert txn.get(Table.BRANCHES, b"main") is None


@pytest.mark.parametrize("hold", ["hold-read", "hold-write 10", "hold-small-map"])
def test_a_store_that_another_process_has_open_is_left_alone(home: Path, hold: str) -> None:
    word, *size = hold.split()
    body = (home / DATA_FILE).read_bytes()
    with started(word, home, *size) as process:
        wait_for(process, "open" if word == "hold-small-map" else "inside")
        with pytest.raises(Refused, match="the local store is in use") as told:
            compact(home)
        assert told.value.hint is not None
        go_on(process)
        assert process.wait(10) == 0
    assert (home / DATA_FILE).read_bytes()[: len(body)] == body or word == "hold-write"
    compact(home)


def test_a_store_that_this_process_has_open_is_left_alone(home: Path) -> None:
    with LocalStore.open(home) as store:
        with pytest.raises(Refused, match="the local store is in use"):
            compact(home)
        with store.write() as txn:  # its locks are those that it had
            txn.put(Table.TAGS, b"v1", b"new")
        with started("hold-read", home) as process:
            wait_for(process, "inside")
            go_on(process)


OLDER = """
import lmdb, sys
print("began", flush=True)
with lmdb.open(sys.argv[1], max_readers=510, map_size=1 << 30) as env:
    with env.begin(write=True) as txn:
        txn.put(b"bolder", b"1")
    with env.begin() as txn:
        print(txn.get(b"bmain").decode(), txn.stat()["entries"], flush=True)
"""
"""What a version that does not know of compaction does once it has waited for the sentinel."""


def test_who_opens_a_store_meanwhile_waits_and_has_the_new_one(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = compaction._copy
    waiting: list[subprocess.Popen[str]] = []

    def copy_slowly(*given: object) -> None:
        copy(*given)  # type: ignore[arg-type]
        for command in ([sys.executable, "-c", OLDER], [*WORKER, "count"]):
            code = [*command, str(home), "3"]
            waiting.append(subprocess.Popen(code, stdout=subprocess.PIPE, text=True))
        assert waiting[0].stdout is not None
        assert waiting[0].stdout.readline() == "began\n"
        time.sleep(0.2)
        assert [each.poll() for each in waiting] == [None, None]

    monkeypatch.setattr(compaction, "_copy", copy_slowly)
    monkeypatch.setattr("lakecli.kv.sentinel._PATIENCE", 0.0)
    compact(home)
    branch, entries = waiting[0].communicate(timeout=20)[0].split()
    assert (branch, int(entries) > ROWS) == ("old", True)
    waiting[1].communicate(timeout=20)
    assert [each.returncode for each in waiting] == [0, 0]
    with LocalStore.open(home) as store, store.read() as txn:
        assert txn.get(Table.BRANCHES, b"older") == b"1"
        assert txn.get(Table.TOKENS, b"first") == b"3"


PATIENT = """
import sys
from lakecli.kv import sentinel
from lakecli.kv.local_store import LocalStore
sentinel._PATIENCE = 0.0
print("began", flush=True)
LocalStore.open(sys.argv[1]).close()
"""


@linux_only
def test_the_path_of_a_store_may_have_any_bytes(home: Path) -> None:
    moved = home.rename(os.fsdecode(os.fsencode(home) + b"\xff"))
    before, after = compact(moved)
    assert after < before
    assert rows_of(moved) == ROWS


def test_a_full_disk_does_not_make_a_store_look_damaged(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed process may leave the file short, and then compaction must extend it."""
    record = home / SENTINEL
    record.write_bytes(record.read_bytes().replace(b"closed", b"open  "))
    os.truncate(home / DATA_FILE, (home / DATA_FILE).stat().st_size - 1)

    def fail(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "posix_fallocate", fail, raising=False)
        with pytest.raises(Unreachable, match="no space left"):
            compact(home)
    assert rows_of(home) == ROWS


def test_the_sentinel_makes_others_wait_however_long_it_takes(home: Path) -> None:
    """There they can be interrupted, which they cannot be inside of LMDB."""
    sentinel = Sentinel(home)
    sentinel.begin_rewrite()
    with subprocess.Popen(
        [sys.executable, "-c", PATIENT, str(home)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "began\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.2)
        sentinel.close()
        assert process.wait(10) == 0


KILLED = """
import os, signal, sys
from pathlib import Path
from lakecli.kv import compaction
step, home = sys.argv[1:]
def die(*_given, **_options):
    os.kill(os.getpid(), signal.SIGKILL)
if step == "copied":
    Path.rename = die
elif step == "renamed":
    compaction.lmdb_environment.open_map = die
else:
    compaction.os.fsync = die
compaction.compact(home)
"""


@pytest.mark.parametrize("step", ["copying", "copied", "renamed"])
def test_a_killed_compaction_leaves_a_whole_store(home: Path, step: str) -> None:
    result = subprocess.run([sys.executable, "-c", KILLED, step, str(home)], check=False)
    assert result.returncode == -9
    assert Path(rewritten(home)).exists() == (step != "renamed")
    assert rows_of(home) == ROWS
    assert not Path(rewritten(home)).exists()
    with LocalStore.open(home) as store, store.write() as txn:
        txn.put(Table.TAGS, b"v1", b"new")
    assert compact(home)[1] > 0
    assert rows_of(home) == ROWS


def _no_space(*_: object, **__: object) -> NoReturn:
    raise OSError(28, "No space left on device")


def _bad_copy(*_: object, **__: object) -> NoReturn:
    raise lmdb.CorruptedError("a page is missing")


@pytest.mark.parametrize("failure", [_no_space, _bad_copy])
def test_a_failed_compaction_changes_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch, failure: Callable[..., NoReturn]
) -> None:
    body = (home / DATA_FILE).read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("lakecli.kv.compaction.os.fsync", failure)
        with pytest.raises(Exception, match=r"no space left|is damaged") as told:
            compact(home)
    assert isinstance(told.value, Unreachable) == (failure is _no_space)
    assert (home / DATA_FILE).read_bytes() == body
    assert sorted(each.name for each in home.iterdir()) == [DATA_FILE, SENTINEL, "lock.mdb"]
    assert rows_of(home) == ROWS
