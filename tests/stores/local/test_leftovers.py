"""Removing temporary files of killed processes, and never those of running ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from lakecli.stores.capabilities import clear_temporaries
from lakecli.stores.contract import ANY
from lakecli.stores.local.store import DirectoryStore
from tests.support.disk import open_below
from tests.support.memory_store import MemoryStore

AT_WORK = textwrap.dedent("""
    import io, sys
    from lakecli.stores.contract import ANY
    from lakecli.stores.local.store import DirectoryStore

    class Waiting:
        def read(self, size):
            print("inside", flush=True)
            sys.stdin.readline()
            return b""

    store = DirectoryStore(sys.argv[1])
    batch = store.batch()
    batch.put_content("data/00/small", b"small")
    batch.put_new("table", b"table")
    temporary, stream = batch.spool()
    with stream:
        stream.write(b"large")
    batch.adopt("data/00/large", temporary)
    store.put("whole", Waiting(), ANY)
    batch.flush()
    print("done", flush=True)
""")


def temporaries(root: Path) -> list[Path]:
    return [path for path in (root / "_lakecli" / "tmp").rglob("*") if path.name != "lock"]


def make_old(root: Path, hours: float = 25) -> None:
    """Make all temporary files look untouched for some time."""
    for path in temporaries(root):
        old = path.stat().st_mtime - hours * 3_600
        os.utime(path, (old, old))


def start(root: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", AT_WORK, str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "inside\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    with process:
        process.send_signal(signal.SIGKILL)


def test_files_of_a_killed_process_are_removed_after_a_day(tmp_path: Path) -> None:
    store = DirectoryStore(str(tmp_path))
    kill(start(tmp_path))
    before = temporaries(tmp_path)
    assert len([path for path in before if path.is_file()]) == 4
    clear_temporaries(store)
    make_old(tmp_path, 23.9)
    clear_temporaries(store)
    assert temporaries(tmp_path) == before
    make_old(tmp_path, 0.2)
    clear_temporaries(store)
    assert temporaries(tmp_path) == []
    assert list(store.list()) == []


def test_a_running_process_keeps_its_files_however_old_they_are(tmp_path: Path) -> None:
    store = DirectoryStore(str(tmp_path))
    with start(tmp_path) as process:
        make_old(tmp_path, 24 * 365)
        clear_temporaries(store)
        out, _ = process.communicate("\n")
        assert out == "done\n"
    assert [info.key for info in store.list()] == [
        "data/00/large",
        "data/00/small",
        "table",
        "whole",
    ]
    assert temporaries(tmp_path) == []


def test_this_process_keeps_its_files(tmp_path: Path) -> None:
    store = DirectoryStore(str(tmp_path))
    batch = store.batch()
    batch.put_content("data/00/small", b"small")
    temporary, stream = batch.spool()
    with stream:
        stream.write(b"large")
    make_old(tmp_path)
    clear_temporaries(store)
    clear_temporaries(DirectoryStore(str(tmp_path)))
    batch.adopt("data/00/large", temporary)
    batch.flush()
    assert len(list(store.list())) == 2
    assert temporaries(tmp_path) == []


def test_a_file_that_was_written_lately_keeps_its_directory(tmp_path: Path) -> None:
    """The newest time of its files decides where nobody holds a lock."""
    directory = tmp_path / "_lakecli" / "tmp" / "18e-1-0"
    (directory / "0").mkdir(parents=True)
    (directory / "0" / "k").write_bytes(b"1")
    make_old(tmp_path)
    os.utime(directory / "0")
    before = open_below(tmp_path)
    clear_temporaries(DirectoryStore(str(tmp_path)))
    assert (directory / "0" / "k").exists()
    make_old(tmp_path)
    clear_temporaries(DirectoryStore(str(tmp_path)))
    assert temporaries(tmp_path) == []
    assert open_below(tmp_path) == before


def test_a_directory_is_removed_with_all_its_files(tmp_path: Path) -> None:
    directory = tmp_path / "_lakecli" / "tmp" / "18e-1-0"
    for name in ("0/a", "0/b", "1/a", "c", "d", "e"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(b"1")
    make_old(tmp_path)
    clear_temporaries(DirectoryStore(str(tmp_path)))
    assert temporaries(tmp_path) == []


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    """The lock stays, links are not followed, and foreign files are left alone."""
    root, canary = tmp_path / "namespace", tmp_path / "canary"
    root.mkdir()
    canary.mkdir()
    (canary / "file").touch()
    store = DirectoryStore(str(root))
    store.put("k", b"1", ANY)
    own = root / "_lakecli" / "tmp"
    (own / "link").symlink_to(canary)
    (own / "dir").mkdir()
    (own / "dir" / "link").symlink_to(canary)
    os.mkfifo(own / "pipe")
    store.delete(["missing"])  # creates the lock
    for path in (own / "dir" / "link", own / "link", own / "dir", own / "pipe", own / "lock"):
        os.utime(path, (1, 1), follow_symlinks=False)
    clear_temporaries(store)
    assert sorted(path.name for path in own.iterdir()) == ["link", "lock", "pipe"]
    assert (canary / "file").exists()
    assert store.get("k") == b"1"


def test_a_store_without_temporary_files_has_nothing_to_clear(tmp_path: Path) -> None:
    for store in (MemoryStore(), DirectoryStore(str(tmp_path)), DirectoryStore(f"{tmp_path}/none")):
        clear_temporaries(store)
    assert list(tmp_path.iterdir()) == []
