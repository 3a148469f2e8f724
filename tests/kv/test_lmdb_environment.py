"""Whether a store may be opened: on a disk of this machine, and whole.

A file that was cut, emptied or overwritten causes an error that says so, never a SIGBUS.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, NoReturn

import lmdb
import pytest

from lakecli.errors import IntegrityError
from lakecli.kv import lmdb_environment
from lakecli.kv.lmdb_environment import DATA_FILE, find_damage, network_type
from lakecli.kv.local_store import LocalStore, Table
from lakecli.kv.sentinel import SENTINEL, Sentinel
from tests.support.tools import linux_only

if TYPE_CHECKING:
    from pathlib import Path

PAGE = 4096


def fill(directory: Path) -> None:
    """Make a store with branch pages, large values and free pages."""
    with LocalStore.open(directory) as store:
        for step in range(6):
            with store.write() as txn:
                txn.put_sorted(
                    Table.STAGING,
                    [(b"%016d%05d" % (step % 4, n), os.urandom(300)) for n in range(400)],
                )
                txn.put(Table.COMMITS, b"large-%d" % step, os.urandom(3 * PAGE))
                txn.delete_owned(Table.STAGING, b"%016d" % ((step + 2) % 4))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("whole")
    fill(directory)
    return directory


def copy(whole: Path, to: Path) -> Path:
    shutil.copytree(whole, to)
    return to


READ_ALL = textwrap.dedent("""
    import sys, os, shutil
    from pathlib import Path
    from lakecli.errors import IntegrityError
    from lakecli.kv import lmdb_environment
    from lakecli.kv.local_store import LocalStore, Table

    lmdb_environment._DAMAGE_PAUSES = (0.0,)

    def read_all(directory):
        with LocalStore.open(directory) as store:
            with store.read() as txn:
                records = sum(1 for table in Table for _ in txn.scan(table))
            with store.write() as txn:
                txn.put(Table.BRANCHES, b"main", bytes(100))
        return records

    whole, scratch, with_sentinel = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "True"
    for size in map(int, sys.argv[4:]):
        shutil.copytree(whole, scratch)
        if not with_sentinel:
            (scratch / "in-use").unlink()
        os.truncate(scratch / "data.mdb", size)
        print(size, end=" ", flush=True)
        try:
            print(read_all(scratch), flush=True)
        except IntegrityError as error:
            assert "`clone " in error.hint and "`fsck REPOSITORY --repair`" in error.hint
            print("damaged", flush=True)
        shutil.rmtree(scratch)
""")


@pytest.mark.parametrize("with_sentinel", [True, False])
def test_a_cut_file_never_kills_who_opens_it(
    whole: Path, tmp_path: Path, *, with_sentinel: bool
) -> None:
    size = (whole / DATA_FILE).stat().st_size
    draw = random.Random(7)
    sizes = {0, 1, 15, 151, 152, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE - 1, 2 * PAGE, size - 1, size}
    sizes |= {size - number * PAGE for number in range(1, 40)}
    while len(sizes) < 180:
        sizes.add(draw.randrange(size))
    ordered = sorted(sizes)
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            READ_ALL,
            whole,
            tmp_path / "s",
            str(with_sentinel),
            *map(str, ordered),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout[-80:], done.stderr[-2000:])
    told = {int(line.split()[0]): line.split()[1] for line in done.stdout.splitlines()}
    assert list(told) == ordered
    records = told.pop(size)
    assert int(records) > 500
    if not with_sentinel:
        assert (
            told.pop(0) == "1"
        )  # a new one, with its version: nothing tells that there was a store
    assert set(told.values()) == {"damaged"}


def test_a_store_that_was_emptied_is_not_a_new_one(whole: Path, tmp_path: Path) -> None:
    for name in ("gone", "empty"):
        directory = copy(whole, tmp_path / name)
        (directory / DATA_FILE).unlink()
        if name == "empty":
            (directory / DATA_FILE).touch()
        for _ in range(2):
            with pytest.raises(IntegrityError, match="missing or empty"):
                LocalStore.open(directory)


def test_a_crash_while_a_store_is_created_leaves_no_damage(tmp_path: Path) -> None:
    Sentinel(tmp_path).begin()
    with LocalStore.open(tmp_path):
        pass
    assert Sentinel(tmp_path).is_kept


@linux_only
def test_no_healthy_file_is_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was written and deleted, also if LMDB leaves the file shorter than it says."""
    monkeypatch.setattr(lmdb_environment, "_DAMAGE_PAUSES", (0.0,))
    draw = random.Random(3)
    shorter = 0
    for _ in range(8):
        directory = tmp_path / str(draw.random())
        directory.mkdir()
        with lmdb.open(str(directory), map_size=1 << 30) as env:
            for _ in range(40):
                with env.begin(write=True) as txn:
                    for _ in range(draw.randrange(60)):
                        key = b"%d" % draw.randrange(300)
                        if draw.random() < 0.5:
                            txn.delete(key)
                        else:
                            txn.put(key, bytes(draw.choice([0, 10, 900, 2_100, 5_000, 40_000])))
                    txn.put(b"passing", bytes(draw.choice([5_000, 90_000])))
                    txn.delete(b"passing")
                needed = (env.info()["last_pgno"] + 1) * PAGE
                is_short = (directory / DATA_FILE).stat().st_size < needed
                shorter += is_short
                assert (find_damage(directory, may_be_short=False) is None) != is_short
                assert find_damage(directory, may_be_short=True) is None
                assert (directory / DATA_FILE).stat().st_size >= needed
    assert shorter, "no file was shorter than it says"


@linux_only
def test_our_own_commits_leave_the_file_as_long_as_it_says(tmp_path: Path) -> None:
    with LocalStore.open(tmp_path) as store:
        for number in range(30):
            with store.write() as txn:
                for n in range(600):
                    txn.put(Table.STAGING, b"%05d" % n, bytes(500))
                txn.put(Table.COMMITS, b"passing", bytes(40_000 * number))
                txn.delete(Table.COMMITS, b"passing")
                for n in range(599 * (number < 25), -1, -1):
                    txn.delete(Table.STAGING, b"%05d" % n)
            last = store._environment._lmdb.info()["last_pgno"]
            assert (tmp_path / DATA_FILE).stat().st_size >= (last + 1) * PAGE


@linux_only
def test_a_file_that_a_full_disk_left_short_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with LocalStore.open(tmp_path) as store:
        with store.write() as txn:
            txn.put(Table.BRANCHES, b"main", b"kept")
            txn.put(Table.COMMITS, b"passing", bytes(90_000))
            txn.delete(Table.COMMITS, b"passing")
        os.truncate(tmp_path / DATA_FILE, store.usage()[0] - 4 * PAGE)  # free pages
        monkeypatch.setattr(os, "posix_fallocate", fail)
    monkeypatch.undo()
    with LocalStore.open(tmp_path) as store, store.read() as reading:
        assert reading.get(Table.BRANCHES, b"main") == b"kept"


@linux_only
def test_a_process_that_was_killed_may_leave_the_file_short(tmp_path: Path) -> None:
    """LMDB leaves out pages that one transaction allocates and frees; nobody has extended it."""
    with LocalStore.open(tmp_path) as store, store.write() as txn:
        txn.put(Table.BRANCHES, b"main", b"kept")
    with lmdb.open(str(tmp_path), max_dbs=64, map_size=1 << 30) as env:
        with env.begin(write=True) as txn:
            txn.put(b"passing", bytes(90_000))
            txn.delete(b"passing")
        needed = (env.info()["last_pgno"] + 1) * PAGE
    os.truncate(tmp_path / DATA_FILE, needed - 4 * PAGE)  # free pages
    with pytest.raises(IntegrityError, match=rf"bytes, of {needed:,}"):
        LocalStore.open(tmp_path)
    record = tmp_path / SENTINEL
    record.write_bytes(record.read_bytes().replace(b"closed", b"open"))
    with LocalStore.open(tmp_path) as store, store.read() as txn:
        assert txn.get(Table.BRANCHES, b"main") == b"kept"
    assert (tmp_path / DATA_FILE).stat().st_size >= needed


def test_the_error_for_damage_mentions_an_unclean_end(whole: Path, tmp_path: Path) -> None:
    directory = copy(whole, tmp_path / "store")
    record = directory / SENTINEL
    record.write_bytes(record.read_bytes().replace(b"closed", b"open"))
    os.truncate(directory / DATA_FILE, PAGE)
    for _ in range(2):
        with pytest.raises(IntegrityError, match=r"first pages; .* not closed after"):
            LocalStore.open(directory)


def test_the_sentinel_waits_for_the_last_user(tmp_path: Path) -> None:
    with LocalStore.open(tmp_path):
        other = Sentinel(tmp_path)
        assert not other.was_left_open
        other.close()
        assert (tmp_path / SENTINEL).read_bytes().split()[:2] == [b"kept", b"open"]
    assert (tmp_path / SENTINEL).read_bytes().split()[:2] == [b"kept", b"closed"]


LOCAL = b"/dev/vda / ext4 rw,relatime 0 0\n"


@pytest.mark.parametrize(
    ("directory", "mounts", "expected"),
    [
        (b"/home/ann", b"", None),
        (b"/home/ann/.local", b"srv:/home /home nfs4 rw 0 0\n", "nfs4"),
        (b"/home", b"srv:/home /home nfs rw 0 0\n", "nfs"),
        (b"/homes", b"srv:/home /home nfs rw 0 0\n", None),
        (b"/home/ann/x", b"srv:/h /home nfs rw 0 0\n/dev/sdb /home/ann ext4 rw 0 0\n", None),
        (b"/home/ann/x", b"/dev/sdb /home/ann ext4 rw 0 0\nsrv:/h /home nfs rw 0 0\n", None),
        (b"/mnt", b"srv:/a /mnt nfs rw 0 0\n/dev/sdb /mnt xfs rw 0 0\n", None),
        (b"/mnt", b"/dev/sdb /mnt xfs rw 0 0\nsrv:/a /mnt cifs rw 0 0\n", "cifs"),
        (b"/my files/x", b"srv:/a /my\\040files cifs rw 0 0\n", "cifs"),
        (b"/a\\b/x", b"srv:/a /a\\134b 9p rw 0 0\n", "9p"),
        (b"/mnt/bucket", b"rclone: /mnt/bucket fuse.rclone rw 0 0\n", "fuse.rclone"),
        (b"/mnt/disk", b"/dev/sdb /mnt/disk fuseblk rw 0 0\n", None),
        (b"/mnt/o", b"fuse-overlayfs /mnt/o fuse.fuse-overlayfs rw 0 0\n", None),
        (b"/mnt/\xff/x", b"srv:/a /mnt/\xff nfs4 rw 0 0\n", "nfs4"),
        (b"/mnt", b"short line\n\n", None),
    ],
)
def test_the_innermost_mount_decides(directory: bytes, mounts: bytes, expected: str | None) -> None:
    assert network_type(directory, LOCAL + mounts) == expected


def test_a_network_root_covers_everything() -> None:
    assert network_type(b"/anywhere", b"srv:/ / nfs4 rw 0 0\n") == "nfs4"
