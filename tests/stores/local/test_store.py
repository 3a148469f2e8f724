from __future__ import annotations

import ctypes
import errno
import fcntl
import gc
import io
import os
import pwd
import signal
import stat
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, BinaryIO, cast

import pytest

from lakecli.errors import (
    LakeError,
    PermissionDenied,
    Refused,
    Unreachable,
    Unsupported,
    UsageError,
)
from lakecli.stores.contract import (
    ABSENT,
    ANY,
    BucketNotFound,
    ConditionFailed,
    Match,
    ObjectNotFound,
    exists,
)
from lakecli.stores.local import directory, files
from lakecli.stores.local.files import FEW
from lakecli.stores.local.store import DirectoryStore
from lakecli.stores.presigned_urls import PresignRequest
from lakecli.stores.registry import prepare_namespace
from tests.stores.contract import ODD_NAMES, ObjectStoreContract
from tests.support.disk import Disk, open_below
from tests.support.tools import linux_only

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.stores.contract import ObjectStore

TEMPORARY = "_lakecli/tmp"


class TestLocalStore(ObjectStoreContract):
    names_existing = False

    keeps_metadata = False
    odd_names = (*ODD_NAMES, "new\nline", "\x01\x7f", "not-utf-8-\udcff", "n" * 255)
    clashing = ("a", "a/b")  # together with a/b/c

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> Callable[[], ObjectStore]:
        return lambda: DirectoryStore(str(tmp_path))

    @pytest.fixture
    def missing_store(self, tmp_path: Path) -> ObjectStore:
        return DirectoryStore(str(tmp_path / "missing"))

    @pytest.fixture
    def store(self, make_store: Callable[[], ObjectStore]) -> ObjectStore:
        return make_store()

    @pytest.mark.parametrize("count", [1, 40])  # few are synced one by one, many at once
    def test_a_batch_replaces_content_of_another_size(
        self, store: DirectoryStore, count: int
    ) -> None:
        keys = [f"data/{number % 3:02}/{number}" for number in range(count)]
        bodies = (b"", b"who", b"whole and more", b"WHOLE")
        for key, body in zip(keys, cycle(bodies), strict=False):
            store.put(key, body, ANY)
        versions = {info.key: info.version for info in store.list()}
        batch = store.batch()
        for key in (*keys, "data/00/new", "data/zz/new"):
            batch.put_content(key, b"whole")
        batch.put_new("table", b"of any size")
        existing = set(batch.flush())
        same = set(keys[3::4])
        assert not existing
        for key in keys:
            assert store.get(key) == (b"WHOLE" if key in same else b"whole")
            assert (store.head(key).version == versions[key]) == (key in same)
        assert store.get("data/00/new") == store.get("data/zz/new") == b"whole"
        assert store.get("table") == b"of any size"

    def test_a_spooled_file_is_adopted(self, store: DirectoryStore) -> None:
        store.put("data/old", b"SPOOLED data/old", ANY)
        batch = store.batch()
        for key in ("data/new", "data/old", "data/new"):
            temporary, stream = batch.spool()
            with stream:
                stream.write(b"spooled ")
                stream.write(key.encode())
            batch.adopt(key, temporary)
        batch.flush()
        assert store.get("data/new") == b"spooled data/new"
        assert store.get("data/old") == b"SPOOLED data/old"
        assert [info.key for info in store.list()] == ["data/new", "data/old"]

    def test_a_spooled_file_is_discarded(self, store: DirectoryStore) -> None:
        batch = store.batch()
        temporary, stream = batch.spool()
        with stream:
            stream.write(b"half of it")
        batch.discard(temporary)
        batch.discard(temporary)  # once is enough
        batch.put_new("data/other", b"other")
        batch.flush()
        assert [info.key for info in store.list()] == ["data/other"]
        with pytest.raises(ValueError, match="not a spool"):
            batch.adopt("data/new", temporary)

    def test_adopting_replaces_content_of_another_size(self, store: DirectoryStore) -> None:
        bodies = {"data/short": b"wh", "data/same": b"WHOLE", "data/long": b"whole and more"}
        for key, body in bodies.items():
            store.put(key, body, ANY)
        batch = store.batch()
        for key in (*bodies, "data/new"):
            temporary, stream = batch.spool()
            with stream:
                stream.write(b"whole")
            batch.adopt(key, temporary)
        batch.flush()
        assert {info.key: store.get(info.key) for info in store.list()} == {
            "data/long": b"whole",
            "data/new": b"whole",
            "data/same": b"WHOLE",
            "data/short": b"whole",
        }


class TestLocalStoreWithoutHardLinks(TestLocalStore):
    """FAT and some network file systems."""

    @pytest.fixture(autouse=True)
    def no_hard_links(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise OSError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(str(tmp_path))


def leftovers(root: Path) -> list[str]:
    return [path.name for path in (root / TEMPORARY).glob("*") if path.name != "lock"]


# Staying below the root


BAD_KEYS = (
    *("", "/", "/etc/passwd", "a//b", "a/", ".", "..", "../x", "a/../../x", "a/./b"),
    *("a\0b", "n" * 256, "_lakecli/tmp", "_lakecli/tmp/x", "\ud800"),
)


@pytest.mark.parametrize("key", BAD_KEYS)
def test_keys_that_no_file_can_have_are_refused(store: DirectoryStore, key: str) -> None:
    calls: tuple[Callable[[], object], ...] = (
        lambda: store.get(key),
        lambda: store.open(key),
        lambda: store.head(key),
        lambda: store.put(key, b"", ANY),
        lambda: store.put(key, b"", ABSENT),
        lambda: store.delete([key]),
        lambda: store.copy("a", key),
        lambda: store.copy(key, "a"),
        lambda: store.batch().put_new(key, b""),
        lambda: store.local_path(key),
    )
    store.put("a", b"", ANY)
    for call in calls:
        with pytest.raises(UsageError):
            call()
    assert [info.key for info in store.list()] == ["a"]
    for prefix in ("../", "//", "a\0b/", f"{'n' * 256}/", "./a"):
        assert list(store.list(prefix)) == [], prefix


def test_symbolic_links_are_not_followed(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    root.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (root / "data").symlink_to(outside)
    (root / "file").symlink_to(outside / "secret")
    store = DirectoryStore(str(root))
    calls: tuple[Callable[[], object], ...] = (
        lambda: store.get("data/secret"),
        lambda: store.get("file"),
        lambda: store.head("data/secret"),
        lambda: store.head("file"),
        lambda: store.open("data/secret"),
        lambda: store.put("data/new", b"", ANY),
        lambda: store.put("data/new", b"", ABSENT),
        lambda: store.put("file", b"", ANY),
        lambda: store.put("file", b"", ABSENT),
        lambda: store.delete(["data/secret"]),
        lambda: store.delete(["file"]),
        lambda: store.local_path("data/secret"),
        lambda: store.local_path("file"),
        lambda: list(store.list("data/")),
    )
    for call in calls:
        with pytest.raises(Refused, match="symbolic link inside"):
            call()
    batch = store.batch()
    batch.put_new("data/new", b"")
    with pytest.raises(Refused, match="symbolic link inside"):
        batch.flush()
    assert list(store.list()) == []
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_bytes() == b"secret"


def test_temporary_files_do_not_follow_symbolic_links(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    root.mkdir()
    (root / "_lakecli").symlink_to(outside)
    store = DirectoryStore(str(root))
    for call in (lambda: store.put("k", b"", ANY), store.batch):
        with pytest.raises(Refused, match="symbolic link inside"):
            call()
    assert list(outside.iterdir()) == []


def test_the_root_may_be_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    store = DirectoryStore(str(tmp_path / "link"))
    store.put("a/b", b"1", ANY)
    assert (tmp_path / "real/a/b").read_bytes() == b"1"
    assert store.uri == f"local://{tmp_path}/link"


def test_special_files_are_not_objects(store: DirectoryStore, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert list(store.list()) == []
    before = open_below(tmp_path)
    with pytest.raises(ObjectNotFound):
        store.get("pipe")
    with pytest.raises(ObjectNotFound):
        store.head("pipe")
    assert open_below(tmp_path) == before


def test_a_directory_cannot_hold_an_object_below_another(store: DirectoryStore) -> None:
    store.put("a", b"", ANY)
    store.put("d/e", b"", ANY)
    for key in ("a/b", "d"):
        for condition in (ANY, ABSENT):
            with pytest.raises(Unsupported) as raised:
                store.put(key, b"", condition)
            assert "'a/b'" in str(raised.value.hint)
        batch = store.batch()
        batch.put_new(key, b"")
        with pytest.raises(Unsupported):
            batch.flush()
    assert [info.key for info in store.list()] == ["a", "d/e"]


# No partial objects


def test_a_failed_write_leaves_nothing(store: DirectoryStore, tmp_path: Path) -> None:
    class Broken:
        def read(self, _: int) -> bytes:
            raise RuntimeError

    for condition in (ANY, ABSENT):
        with pytest.raises(RuntimeError):
            store.put("a/k", Broken(), condition)  # type: ignore[arg-type]
    assert list(store.list()) == []
    assert leftovers(tmp_path) == []


def test_unfinished_files_are_never_listed(store: DirectoryStore, tmp_path: Path) -> None:
    batch = store.batch()
    batch.put_new("k", b"1")
    _, stream = batch.spool()
    with stream:
        stream.write(b"2")
    assert len(leftovers(tmp_path)) == 2
    for prefix in ("", "_", "_lakecli/", "_lakecli/tmp", "_lakecli/tmp/"):
        assert list(store.list(prefix)) == [], prefix
    batch.flush()
    assert [info.key for info in store.list()] == ["k"]


def test_a_dropped_batch_removes_its_temporary_files(store: DirectoryStore, tmp_path: Path) -> None:
    batch = store.batch()
    batch.put_new("published", b"1")
    batch.flush()
    batch.put_new("k", b"1")
    batch.spool()[1].close()
    assert len(leftovers(tmp_path)) == 2
    del batch
    gc.collect()
    assert leftovers(tmp_path) == []
    assert [info.key for info in store.list()] == ["published"]


def test_a_spool_is_adopted_once_and_by_its_own_batch(store: DirectoryStore) -> None:
    batch, other = store.batch(), store.batch()
    temporary, stream = batch.spool()
    stream.close()
    with pytest.raises(ValueError, match="not a spool"):
        other.adopt("k", temporary)
    with pytest.raises(ValueError, match="not a spool"):
        batch.adopt("k", "../../etc/passwd")
    batch.adopt("k", temporary)
    batch.flush()
    with pytest.raises(ValueError, match="not a spool"):
        batch.adopt("l", temporary)


def test_a_discarded_spool_leaves_no_file(store: DirectoryStore, tmp_path: Path) -> None:
    batch = store.batch()
    temporary, stream = batch.spool()
    with stream:
        stream.write(b"half of it")
    batch.discard(temporary)
    batch.discard("../../etc/passwd")
    assert not [each for each in tmp_path.rglob(temporary) if each.is_file()]
    batch.flush()


CRASHING = """
import os, sys
from lakecli.stores.contract import ABSENT, ANY, Match
from lakecli.stores.local.store import DirectoryStore

left = int(sys.argv[2])
def crashing(call):
    def wrapper(*args, **kwargs):
        global left
        if left == 0:
            os.kill(os.getpid(), 9)
        left -= 1
        return call(*args, **kwargs)
    return wrapper
for name in ("open", "write", "fsync", "mkdir", "link", "unlink", "rename", "utime"):
    setattr(os, name, crashing(getattr(os, name)))

store = DirectoryStore(sys.argv[1])
version = store.put("ref", b"new-new-new", ABSENT)
store.put("ref", b"newer-newer", Match(version))
batch = store.batch()
batch.put_new("data/00/small", b"small-small")
temporary, stream = batch.spool()
with stream:
    stream.write(b"spool-spool")
batch.adopt("data/01/spool", temporary)
batch.flush()
"""


def test_a_process_killed_at_any_step_leaves_whole_objects(tmp_path: Path) -> None:
    bodies = {
        "ref": {b"new-new-new", b"newer-newer"},
        "data/00/small": {b"small-small"},
        "data/01/spool": {b"spool-spool"},
    }
    survived: set[int] = set()
    for step in range(0, 200, 3):
        root = tmp_path / str(step)
        root.mkdir()
        done = subprocess.run([sys.executable, "-c", CRASHING, str(root), str(step)], check=False)
        store = DirectoryStore(str(root))
        found = {info.key: store.get(info.key) for info in store.list()}
        assert all(body in bodies[key] for key, body in found.items()), step
        survived.add(len(found))
        # Abandoned files do not hinder the next process.
        store.put("ref", b"again", ANY)
        if done.returncode == 0:
            assert found.keys() == bodies.keys()
            break
        assert done.returncode == -signal.SIGKILL
    else:
        pytest.fail("the script never ran to its end")
    assert survived == {0, 1, 2, 3}


def test_content_is_durable_before_names_and_names_before_success(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []

    def record(module: object, name: str) -> None:
        call = getattr(module, name)

        def wrapper(*args: object, **kwargs: object) -> object:
            events.append(name)
            return call(*args, **kwargs)

        monkeypatch.setattr(module, name, wrapper)

    store.put("data/00/x", b"", ANY)  # so that the directory exists
    for name in ("write", "link", "rename"):
        record(os, name)
    for module in (directory, files):
        for name in ("sync_file", "sync_names", "sync_file_system"):
            if hasattr(module, name):
                record(module, name)

    store.put("data/00/new", b"1", ABSENT)
    assert events == ["write", "sync_file", "link", "sync_names"]
    events.clear()
    store.put("data/00/new", b"2", ANY)
    assert events == ["write", "sync_file", "rename", "sync_names"]
    events.clear()
    batch = store.batch()
    batch.put_new("data/00/b1", b"1")
    batch.flush()
    assert events == ["write", "sync_file", "link", "sync_names"]
    events.clear()
    batch.put_new("data/01/b1", b"1")  # in a new directory, which is moved as a whole
    batch.flush()
    assert events == ["write", "sync_file", "rename", "sync_names", "sync_names"]
    events.clear()
    count = 3 * FEW
    for number in range(count):
        batch.put_new(f"data/{number}/many", b"1")
    batch.flush()
    assert events == [
        *["write"] * count,
        "sync_file_system",
        *["rename"] * count,
        "sync_file_system",
    ]


@pytest.mark.parametrize("kinds", [{"small"}, {"spooled"}, {"small", "spooled"}])
@pytest.mark.parametrize("count", [1, 2, FEW // 2])
def test_every_file_of_a_small_batch_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, kinds: set[str]
) -> None:
    root = tmp_path / "synced"
    root.mkdir()
    store = DirectoryStore(str(root))
    store.put("data/00/x", b"", ANY)
    synced: set[int] = set()
    sync = os.fsync

    def record(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    monkeypatch.delattr(fcntl, "F_FULLFSYNC", raising=False)
    batch = store.batch()
    for number in range(count):
        if "small" in kinds:
            batch.put_new(f"data/00/{number}", b"%d" % number)
        if "spooled" in kinds:
            temporary, spool = batch.spool()
            with spool:
                spool.write(b"%d" % number)
            batch.adopt(f"data/00/spooled-{number}", temporary)
    batch.flush()
    files = [*(root / "data/00").iterdir()]
    files.remove(root / "data/00/x")
    assert len(files) == len(kinds) * count
    assert {path.stat().st_ino for path in (*files, root / "data/00")} <= synced
    synced.clear()
    store.put("new/one/file", b"1", ANY)
    made = ("", "new", "new/one", "new/one/file")
    assert {(root / path).stat().st_ino for path in made} <= synced


def test_a_flush_that_failed_can_be_repeated(
    store: DirectoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = store.batch()
    for number in range(5):
        batch.put_new(f"k{number}", b"%d" % number)
    link, calls = os.link, []

    def full(source: str, *args: object, **kwargs: object) -> None:
        calls.append(source)
        if len(calls) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        link(source, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "link", full)
    with pytest.raises(Unreachable, match="no space left on the disk"):
        batch.flush()
    assert len(list(store.list())) == 2
    batch.flush()
    assert {info.key: store.get(info.key) for info in store.list()} == {
        f"k{number}": b"%d" % number for number in range(5)
    }
    assert leftovers(tmp_path) == []


class FailingDisk:
    """A sync that fails once and then succeeds, as a kernel reports write errors only once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, *, at: int) -> None:
        self.calls = 0

        def sync(descriptor: int) -> None:
            self.calls += 1
            if self.calls == at:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        if name == "fsync":
            monkeypatch.setattr(os, "fsync", sync)
            return

        def fail(descriptor: int) -> None:
            try:
                sync(descriptor)
            except OSError as error:
                raise files.SyncError(error.errno, error.strerror) from error

        monkeypatch.setattr(files, "sync_file_system", fail)


@linux_only
def test_a_directory_that_could_not_be_synced_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(root: Path) -> None:
        DirectoryStore(str(root)).prepare()
        DirectoryStore(str(root)).put("a/b/c", b"1", ANY)

    root = tmp_path / "above" / "root"
    for at in (1, 2, 3):
        with monkeypatch.context() as patched:
            disk = FailingDisk(patched, "fsync", at=at)
            with pytest.raises(Unreachable):
                write(root)
            assert disk.calls == at
    after = Disk(tmp_path, monkeypatch)
    write(root)
    after.check("made anew")


@pytest.mark.parametrize(("name", "count"), [("fsync", 3), ("sync_file_system", 40)])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_flush_after_a_failed_sync_publishes_nothing_of_it(
    *,
    store: DirectoryStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    count: int,
    at: int,
) -> None:
    store.put("data/00/there", b"", ANY)
    batch = store.batch()

    def write(kind: str) -> None:
        for number in range(count):
            batch.put_content(f"data/{kind}/{number}", b"1")
            temporary, stream = batch.spool()
            with stream:
                stream.write(b"2")
            batch.adopt(f"data/{kind}/spool-{number}", temporary)

    def keys() -> set[str]:
        return {info.key for info in store.list() if info.key != "data/00/there"}

    write("00")
    disk = FailingDisk(monkeypatch, name, at=at)
    if name == "sync_file_system" and at == 3:
        batch.flush()
        write("01")
    with pytest.raises(Unreachable, match="input/output error"):
        batch.flush()
    visible = keys()
    assert disk.calls == at
    batch.flush()
    assert keys() == visible, "what the failed sync lost may have been published"
    assert leftovers(tmp_path) == []
    write("02")
    batch.flush()
    assert len(keys()) == len(visible) + 2 * count


def test_versions_differ_even_if_the_clock_stands_still(tmp_path: Path) -> None:
    store = DirectoryStore(str(tmp_path), clock_ns=lambda: 10**18)
    versions = [store.put("k", b"%03d" % number, ANY) for number in range(20)]
    for number in range(20):
        versions.append(store.put("k", b"%03d" % number, Match(versions[-1])))
    assert len(set(versions)) == len(versions)


# Errors of the operating system


@pytest.mark.parametrize(
    ("number", "error", "said"),
    [
        (errno.EACCES, PermissionDenied, "permission denied"),
        (errno.EPERM, PermissionDenied, "not permitted"),
        (errno.EROFS, PermissionDenied, "read-only file system"),
        (errno.ENOSPC, Unreachable, "no space left"),
        (errno.EDQUOT, Unreachable, "no space left"),
        (errno.EIO, Unreachable, "input/output error"),
        (errno.ESTALE, Unreachable, "stale"),
        (errno.EMFILE, Unreachable, "too many open files"),
        (errno.EXDEV, Unsupported, "cross-device"),
    ],
)
def test_errors_of_the_operating_system_are_translated(
    *,
    store: DirectoryStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    error: type[LakeError],
    said: str,
) -> None:
    store.put("a/k", b"1", ANY)
    batch = store.batch()
    batch.put_new("a/l", b"2")

    def fail(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    calls: tuple[Callable[[], object], ...] = (
        lambda: store.get("a/k"),
        lambda: store.head("a/k"),
        lambda: store.put("a/k", b"", ANY),
        lambda: store.delete(["a/k"]),
        lambda: list(store.list()),
        lambda: batch.put_new("a/m", b""),
        batch.spool,
        batch.flush,
        store.batch,
    )
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", fail)
        for call in calls:
            with pytest.raises(error) as raised:
                call()
            assert said in raised.value.message.lower()
            assert "errno" not in raised.value.message.lower()
            assert str(tmp_path) in raised.value.message
            assert raised.value.hint
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", fail)
        with pytest.raises(error):
            store.put("a/k", b"2", ANY)
        with pytest.raises(error):
            batch.put_new("a/k", b"2")
    assert store.get("a/k") == b"1"


def test_a_read_only_disk_is_not_a_matter_of_modes(store: DirectoryStore) -> None:
    error = store._directory.translate(OSError(errno.EROFS, "Read-only file system"), "k")
    assert error.hint == "mount it writable, or name another directory"


def test_an_error_without_a_number_is_translated(store: DirectoryStore) -> None:
    with pytest.raises(Unreachable, match=r"^odd: k in "), store._directory.translated("k"):
        raise OSError("Odd")


def test_a_root_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in ("file", "file/below"):
        with pytest.raises(BucketNotFound, match="not a directory"):
            DirectoryStore(str(tmp_path / path)).get("k")


@pytest.mark.parametrize(
    ("umask", "file_mode", "directory_mode"), [(0o027, 0o640, 0o750), (0o000, 0o666, 0o777)]
)
def test_files_follow_the_umask(
    *, store: DirectoryStore, tmp_path: Path, umask: int, file_mode: int, directory_mode: int
) -> None:
    before = os.umask(umask)
    try:
        store.put("a/k", b"", ANY)
        batch = store.batch()
        batch.put_new("a/l", b"")
        batch.flush()
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / key).stat().st_mode) for key in ("a/k", "a/l", "a")]
    assert modes == [file_mode, file_mode, directory_mode]


def test_a_replacement_waits_for_the_lock_of_the_namespace(
    store: DirectoryStore, tmp_path: Path
) -> None:
    version = store.put("k", b"1", ABSENT)
    with store._directory.opened([b"_lakecli", b"tmp"]) as temporaries:
        with store._directory.locked(temporaries):
            writer = threading.Thread(target=store.put, args=("k", b"2", Match(version)))
            writer.start()
            writer.join(0.2)
            assert writer.is_alive()
            assert store.get("k") == b"1"
        writer.join(20)
    assert store.get("k") == b"2"


def test_preparing_a_namespace_makes_its_directory(tmp_path: Path) -> None:
    assert prepare_namespace(f"local://{tmp_path}/new/lake") == ""
    assert (tmp_path / "new/lake").is_dir()


def test_copy_works_without_kernel_support(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = bytes(range(256)) * 10_000
    store.put("from", body, ANY)

    def missing(*_: object) -> int:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(os, "copy_file_range", missing, raising=False)
    store.copy("from", "to")
    assert store.get("to") == body
    monkeypatch.delattr(os, "copy_file_range")
    store.copy("from", "to2")
    assert store.get("to2") == body


@linux_only
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_a_copy_that_a_disk_refuses_is_not_repeated(
    store: DirectoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    store.put("from", b"body", ANY)

    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "copy_file_range", fail)
    with pytest.raises(Unreachable):
        store.copy("from", "to")
    assert [info.key for info in store.list()] == ["from"]
    assert leftovers(tmp_path) == []


@linux_only
@pytest.mark.parametrize("size", [0, 1, 10, 11])
def test_a_copy_is_whole_however_little_the_kernel_copies_at_once(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    store.put("from", bytes(range(size)), ANY)
    copy = os.copy_file_range

    def copy_little(source: int, target: int, count: int) -> int:
        return copy(source, target, min(count, 5))

    monkeypatch.setattr(os, "copy_file_range", copy_little)
    store.copy("from", "to")
    assert store.get("to") == bytes(range(size))


@linux_only
def test_a_copy_goes_on_where_the_kernel_gave_up(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("from", bytes(range(100)), ANY)
    copy, calls = os.copy_file_range, []

    def copy_once(source: int, target: int, _count: int) -> int:
        calls.append(source)
        if len(calls) > 1:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return copy(source, target, 7)

    monkeypatch.setattr(os, "copy_file_range", copy_once)
    store.copy("from", "to")
    assert store.get("to") == bytes(range(100))


def test_every_prefix_of_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    missing = DirectoryStore(str(tmp_path / "missing"))
    for prefix in ("", "a/", "../", "_lakecli/tmp/"):
        with pytest.raises(BucketNotFound):
            list(missing.list(prefix))


def test_local_path_returns_the_file(store: DirectoryStore, tmp_path: Path) -> None:
    for key in ("a/b", "not-utf-8-\udcff/é"):
        store.put(key, b"here", ANY)
        path = store.local_path(key)
        assert path is not None
        assert Path(path).read_bytes() == b"here"
        assert Path(path).is_relative_to(tmp_path)


def test_local_path_looks_at_each_file_of_a_known_directory(
    store: DirectoryStore, tmp_path: Path
) -> None:
    for key in ("a/b", "a/c"):
        store.put(key, b"", ANY)
        assert store.local_path(key) is not None
    assert store.local_path("a/absent") is None
    (tmp_path / "a" / "b").unlink()
    (tmp_path / "a" / "b").symlink_to("c")
    with pytest.raises(Refused, match="symbolic link inside"):
        store.local_path("a/b")
    for key in ("a/..", "a/.", "a/", "a/b\0", f"a/{'n' * 256}"):
        with pytest.raises(UsageError):
            store.local_path(key)
    os.mkfifo(tmp_path / "a" / "pipe")
    assert store.local_path("a/pipe") is None


def test_local_path_never_leaves_the_root(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that begins with a slash is the path of a file outside, if it is joined to the root."""
    store.put("x", b"", ANY)
    path = store.local_path("x")
    assert path is not None
    status = os.lstat(path)
    monkeypatch.setattr(os, "lstat", lambda _: status)  # as if the root of the machine had a file
    with pytest.raises(UsageError, match="cannot hold an object of this key"):
        store.local_path("/x")


def test_a_directory_has_no_urls(store: DirectoryStore) -> None:
    request = PresignRequest("GET", timedelta(minutes=1))
    with pytest.raises(Unsupported, match="cannot presign") as raised:
        store.presign("k", request, now=datetime(2030, 1, 1, tzinfo=UTC))
    assert "fs download" in str(raised.value.hint)


def test_listing_ignores_files_that_vanish_meanwhile(store: DirectoryStore, tmp_path: Path) -> None:
    for key in ("a/1", "b/1", "c"):
        store.put(key, b"", ANY)
    listing = store.list()
    assert next(listing).key == "a/1"
    store.delete(["b/1", "c"])
    (tmp_path / "b").rmdir()
    assert list(listing) == []


def test_listing_left_early_closes_its_directories(store: DirectoryStore, tmp_path: Path) -> None:
    for key in ("a/b/c/1", "a/b/c/2"):
        store.put(key, b"", ANY)
    before = open_below(tmp_path)
    listing = store.list()
    next(listing)
    assert len(open_below(tmp_path)) > len(before)
    listing.close()  # type: ignore[attr-defined]
    assert open_below(tmp_path) == before


def test_no_descriptor_stays_open(store: DirectoryStore, tmp_path: Path) -> None:
    before = open_below(tmp_path)
    store.put("a/b", b"1", ANY)
    store.get("a/b")
    list(store.list())
    store.copy("a/b", "a/c")
    store.delete(["a/b"])
    for key in ("a/b", "x/y"):
        with pytest.raises(ObjectNotFound):
            store.get(key)
    store.get_versioned("a/c")
    store.head("a/c")
    store.renew("a/c")
    store.local_path("a/c")
    store.open("a/c").close()
    store.prune("a/")
    store._directory.check_root()
    batch = store.batch()
    for key in ("a/b", "new/b"):
        batch.put_new(key, b"2")
        batch.put_new(key, b"3")
    temporary, spool = batch.spool()
    spool.close()
    batch.adopt("a/d", temporary)
    batch.flush()
    batch.put_new("a/e", b"2")
    batch.spool()[1].close()
    del batch
    assert open_below(tmp_path) == before


def test_the_directories_above_a_new_root_are_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr("lakecli.base.directories.sync_directory", synced.append)
    before = open_below(tmp_path)
    root = tmp_path / "a" / "b" / "c"
    directory.RootDirectory(str(root), clock_ns=lambda: 0).make_root()
    assert root.is_dir()
    assert synced == [str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a" / "b")]
    synced.clear()
    directory.RootDirectory(str(root), clock_ns=lambda: 0).make_root()
    assert synced == []
    assert open_below(tmp_path) == before


@pytest.mark.parametrize("first", ["put", "put_new", "replace", "delete", "renew"])
def test_the_directory_that_temporaries_share_with_objects_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """Later objects find `_lakecli` there, and rely on it."""
    store = DirectoryStore(str(tmp_path))
    (tmp_path / "there").write_bytes(b"1")
    found = store.head("there")
    synced: list[str] = []
    sync = files.sync_names

    def sync_names(descriptor: int) -> None:
        synced.append(str(Path(f"/dev/fd/{descriptor}").readlink()))
        sync(descriptor)

    monkeypatch.setattr(files, "sync_names", sync_names)
    if first == "put":
        store.put("other", b"2", ANY)
    elif first == "put_new":
        store.batch().put_new("other", b"2")
    elif first == "replace":
        store.put("there", b"2", Match(found.version))
    elif first == "renew":
        store.renew("there")
    else:
        store.delete_matching([("there", found.version)])
    assert synced[:2] == [str(tmp_path), str(tmp_path / "_lakecli")]


@pytest.mark.parametrize("other", ["", "_lakecli/tmp/of-another", "_lakecli/repository.json"])
def test_directories_of_temporaries_are_removed_if_they_are_empty(
    tmp_path: Path, other: str
) -> None:
    store = DirectoryStore(str(tmp_path))
    store.put("a", b"1", ANY)
    if other:
        (tmp_path / other).write_bytes(b"")
    store._directory.remove_own()
    assert (tmp_path / "_lakecli").exists() == bool(other)
    assert (tmp_path / "a").exists()
    if other:
        assert (tmp_path / other).exists()


def test_an_end_of_a_file_is_read(store: DirectoryStore) -> None:
    store.put("a", b"0123456789", ANY)
    expected = {-1: b"9", -2: b"89", -10: b"0123456789", -11: b"0123456789"}
    assert {start: store.get("a", start=start) for start in expected} == expected


def test_a_condition_is_checked_again_once_the_body_is_written(
    store: DirectoryStore, tmp_path: Path
) -> None:
    """Another writer is faster, after the first check."""

    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            store.put("k", b"faster", ANY)
            return super().read(size)

    with pytest.raises(ConditionFailed, match="there already"):
        store.put("k", Slow(b"slow"), ABSENT)
    assert store.get("k") == b"faster"
    with pytest.raises(ConditionFailed, match="of another version"):
        store.put("k", Slow(b"slow"), Match(store.head("k").version))
    assert store.get("k") == b"faster"
    assert leftovers(tmp_path) == []


def test_a_batch_does_not_replace_the_directory_of_an_unfinished_write(
    store: DirectoryStore,
) -> None:
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            batch = store.batch()
            batch.put_new("data/ab/small", b"small")
            batch.flush()
            return super().read(size)

    store.put("data/ab/large", Slow(b"large"), ANY)
    assert store.get("data/ab/large") == b"large"
    assert store.get("data/ab/small") == b"small"


@pytest.mark.parametrize("read", [lambda file: file.read(1), lambda file: file.read()])
def test_a_disk_that_fails_while_an_object_is_read_is_an_error_of_ours(
    read: Callable[[BinaryIO], bytes],
) -> None:
    memory = Path("/proc/self/mem")  # its first page cannot be read
    if not memory.exists():
        pytest.skip("only Linux has this file")
    with (
        DirectoryStore("/proc/self").open("mem") as opened,
        pytest.raises(Unreachable, match="input/output error: mem in"),
    ):
        read(opened)


def test_an_object_that_is_changed_while_it_is_streamed_does_not_match(
    store: DirectoryStore, tmp_path: Path
) -> None:
    store.put("k", bytes(1 << 20), ANY)
    with store.open("k", matching=store.head("k").version) as opened:
        assert opened.read(1 << 19) == bytes(1 << 19)
        (tmp_path / "k").write_bytes(b"1" * (1 << 20))
        with pytest.raises(ConditionFailed):
            opened.read(1 << 19)


def test_a_stream_that_does_not_wait_is_not_cut_off(store: DirectoryStore) -> None:
    class Waiting(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(size) or cast("bytes", None)

    with pytest.raises(Unreachable, match="non-blocking"):
        store.put("k", Waiting(b"beginning"), ANY)
    assert not exists(store, "k")


def test_opening_a_directory_makes_none(tmp_path: Path) -> None:
    parent = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(FileNotFoundError):
            files.open_below(parent, b"absent", create=False, sync=True)
    finally:
        os.close(parent)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "is_lost"), [(errno.EIO, True), (errno.ENOSPC, True), (errno.EINVAL, False)]
)
def test_names_that_could_not_be_synced_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, *, is_lost: bool
) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        if is_lost:
            with pytest.raises(files.SyncError):
                files.sync_names(descriptor)
        else:  # the file system syncs no directories
            files.sync_names(descriptor)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("prefix", "removed"),
    [
        ("a/b/empty/", {"a/b/empty"}),
        ("a/b/empty", {"a/b/empty"}),
        ("empty/", {"empty"}),
        ("a/b/used/", set()),
        ("a/b/", set()),
        ("a/b/absent/", set()),
        ("absent/empty/", set()),
    ],
)
def test_prune_removes_the_one_directory_if_it_is_empty(
    store: DirectoryStore, tmp_path: Path, prefix: str, removed: set[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "a/b/empty").mkdir(parents=True)
    store.put("a/b/used/k", b"", ANY)
    store.prune(prefix)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_dir()}
    assert left == {"a", "a/b", "a/b/used", "a/b/empty", "empty"} - removed


def test_the_user_of_a_container_may_have_no_name(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert store.access().identity == pwd.getpwuid(os.geteuid()).pw_name

    def missing(user: int) -> object:
        raise KeyError(user)

    monkeypatch.setattr(pwd, "getpwuid", missing)
    assert store.access().identity == str(os.geteuid())


def test_times_are_those_of_the_clock_of_the_store(tmp_path: Path) -> None:
    """Those of the kernel have ticks, so two versions of an object could look the same."""
    now = 10**18
    store = DirectoryStore(str(tmp_path), clock_ns=lambda: now)
    for condition in (ABSENT, ANY):
        store.put(f"a/{condition}", b"1", condition)
    times = [path.stat().st_mtime_ns for path in (tmp_path / "a").iterdir()]
    assert times == [now, now]
    now += 7
    store.put("k", b"1", ANY)
    store.renew("k")
    assert (tmp_path / "k").stat().st_mtime_ns == now + 1
    store.put("k", b"2", ANY)
    assert (tmp_path / "k").stat().st_mtime_ns == now + 2


@pytest.mark.parametrize(("seconds", "year"), [(10**12, 9987), (-(10**12), 5)])
def test_a_file_may_have_any_time(seconds: int, year: int) -> None:
    status = os.stat_result(range(10), {"st_mtime_ns": seconds * 10**9})
    assert files.info_of("k", status).modified_at.year == year


def test_a_link_in_the_place_of_an_object_is_not_renewed(
    store: DirectoryStore, tmp_path: Path
) -> None:
    """Somebody puts it there after `renew` has looked."""
    store.put("k", b"1", ANY)
    (tmp_path / "other").write_bytes(b"")
    os.utime(tmp_path / "other", (1, 1))
    status = (tmp_path / "k").stat()
    (tmp_path / "k").unlink()
    (tmp_path / "k").symlink_to("other")
    with store._directory.opened([]) as root:
        store._directory.stamp_object(root, b"k", status)
    assert (tmp_path / "other").stat().st_mtime == 1


@pytest.mark.parametrize("key", ["k", "new/k"])
def test_a_new_object_is_published_when_the_one_in_its_place_vanishes(
    store: DirectoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """A collector deletes the present object between the link and the look at it."""
    batch = store.batch()
    temporary, spool = batch.spool()
    with spool:
        spool.write(b"body")
    batch.adopt(key, temporary)
    link, calls = os.link, []

    def exists_at_first(*args: object, **options: object) -> None:
        calls.append(args)
        if len(calls) == 1:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        link(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "link", exists_at_first)
    batch.flush()
    assert store.get(key) == b"body"
    assert leftovers(tmp_path) == []


def test_conditions_hold_for_the_object_of_the_whole_key(store: DirectoryStore) -> None:
    store.put("a", b"another", ANY)
    store.put("k/k/a", b"another", ANY)
    first = store.put("k/a/b", b"1", ABSENT)
    with pytest.raises(ConditionFailed, match="there already"):
        store.put("k/a/b", b"2", ABSENT)
    second = store.put("k/a/b", b"2", Match(first))
    with pytest.raises(ConditionFailed, match="of another version"):
        store.put("k/a/b", b"3", Match(first))
    assert (store.get("k/a/b"), store.head("k/a/b").version) == (b"2", second)
    with pytest.raises(ConditionFailed, match="not there"):
        store.put("k/a/c", b"1", Match(first))


def test_a_key_may_have_the_name_of_lakeclis_own_directory(store: DirectoryStore) -> None:
    with pytest.raises(ObjectNotFound):
        store.head("_lakecli")
    with pytest.raises(Unsupported):  # the put has made the directory for its temporary file
        store.put("_lakecli", b"", ANY)
    store.put("a/_lakecli/tmp/k", b"1", ANY)
    assert [info.key for info in store.list()] == ["a/_lakecli/tmp/k"]


def test_what_comes_after_a_missing_object_is_deleted(store: DirectoryStore) -> None:
    for key in ("a", "d/a"):
        store.put(key, b"1", ANY)
    store.delete(["absent", "a", "absent/k", "d/absent", "d/a"])
    assert list(store.list()) == []


def test_reading_makes_no_directory(store: DirectoryStore, tmp_path: Path) -> None:
    assert list(store.list("absent/directory/")) == []
    for call in (store.get, store.head, store.open, store.renew, store.get_versioned):
        with pytest.raises(ObjectNotFound):
            call("absent/directory/k")
    assert store.local_path("absent/directory/k") is None
    store.delete(["absent/directory/k"])
    store.prune("absent/directory/")
    assert {path.name for path in tmp_path.iterdir()} <= {"_lakecli"}


@linux_only
@pytest.mark.parametrize("result", [None, 0, -1])
def test_a_file_system_is_synced_by_what_the_platform_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: int | None
) -> None:
    """``syncfs`` of Linux, which returns 0 or -1, or else ``sync``."""
    synced: list[object] = []

    def syncfs(descriptor: int) -> int:
        assert result is not None
        synced.append(descriptor)
        ctypes.set_errno(errno.EIO if result else 0)
        return result

    library = SimpleNamespace() if result is None else SimpleNamespace(syncfs=syncfs)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: library)
    monkeypatch.setattr(os, "sync", lambda: synced.append("all"))
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        if result == -1:
            with pytest.raises(files.SyncError) as raised:
                files.sync_file_system(descriptor)
            assert raised.value.errno == errno.EIO
        else:
            files.sync_file_system(descriptor)
    finally:
        os.close(descriptor)
    assert synced == ["all" if result is None else descriptor]


def test_an_object_is_renewed_where_nothing_was_written_yet(tmp_path: Path) -> None:
    path = tmp_path / "data" / "k"
    path.parent.mkdir()
    path.write_bytes(b"1")
    os.utime(path, (0, 0))
    store = DirectoryStore(str(tmp_path))
    before = store.head("data/k")
    store.renew("data/k")
    after = store.head("data/k")
    assert after.modified_at > before.modified_at
    assert (after.version != before.version, store.get("data/k")) == (True, b"1")


@pytest.mark.parametrize("prefix", ["_lakecli/tmp/", "_lakecli/tmp/x", "_lakecli/tmp/x/y/"])
def test_temporary_files_are_never_listed(tmp_path: Path, prefix: str) -> None:
    path = tmp_path / "_lakecli" / "tmp" / "x" / "y" / "z"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"1")
    store = DirectoryStore(str(tmp_path))
    store.put("_lakecli/tm", b"1", ANY)
    assert [info.key for info in store.list("_lakecli/")] == ["_lakecli/tm"]
    assert [*store.list(prefix)] == []


@linux_only
def test_a_failed_sync_of_a_file_system_has_the_reason_of_the_system() -> None:
    with pytest.raises(files.SyncError) as raised:
        files.sync_file_system(-1)
    assert raised.value.errno == errno.EBADF


def test_an_interrupt_closes_no_directory_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may have got the same descriptor meanwhile."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    opened = directory.RootDirectory(str(tmp_path), clock_ns=time.time_ns)
    close, closed = os.close, []

    def interrupted(descriptor: int) -> None:
        close(descriptor)
        closed.append(descriptor)
        if len(closed) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "close", interrupted)
    with pytest.raises(KeyboardInterrupt):
        opened.open_directory([b"a", b"b"])
    assert len(closed) == len(set(closed)) == 2
