"""Files written into a working directory: fetched beside, made durable, renamed."""

from __future__ import annotations

import errno
import os
import stat
import threading
from hashlib import md5
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from lakecli import native
from lakecli.base.directories import make_private
from lakecli.base.uri import parse_path
from lakecli.committed.values import encode_entry
from lakecli.errors import PermissionDenied, Unreachable
from lakecli.repository.download import DownloadOptions
from lakecli.repository.reading.contents import read_small
from lakecli.repository.transfer.destination import IN_NAMESPACE
from lakecli.repository.transfer.ignore_patterns import EVERYTHING, INCOMING
from lakecli.repository.transfer.ingest import SMALL, TINY
from lakecli.repository.transfer.parallel import MAX_FAILURES
from lakecli.repository.transfer.walk import LinkPolicy
from lakecli.stores.contract import ANY, BucketNotFound
from lakecli.stores.local.files import write_all
from lakecli.worktree import create, fetching, linked_files, writer
from lakecli.worktree.checkout import restore
from lakecli.worktree.fetching import Expected, WantedFile
from lakecli.worktree.index import state_of
from lakecli.worktree.status import status
from lakecli.worktree.worktree import LinkMode
from tests.support.disk import Disk, open_below
from tests.support.lakes import entry_of, stage_entries
from tests.support.recorded_progress import RecordedProgress
from tests.support.tools import linux_only
from tests.support.worktrees import (
    DOWNLOADS,
    clone,
    commit_contents,
    commit_worktree,
    files,
    items,
    pull,
    reopen,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakecli.base.model import Entry
    from lakecli.errors import LakeError
    from lakecli.native import Core
    from lakecli.repository.contract import Repository

pytestmark = pytest.mark.usefixtures("either_core")

NEW = {"d/a": "1", "d/b": "2", "d/e/c": "3", "f/g/h": "4"}


@pytest.fixture
def root(repository: Repository, tmp_path: Path) -> Path:
    commit_contents(repository, {"a": "1"})
    clone(repository, tmp_path / "wd")
    commit_contents(repository, NEW)
    return tmp_path / "wd"


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Let something happen when all files are fetched and none is published."""

    def let(happen: Callable[[], object]) -> None:
        fetch_all = fetching.Fetcher.fetch_all

        def fetch(self: Any, *args: Any) -> Any:
            fetched = fetch_all(self, *args)
            happen()
            return fetched

        monkeypatch.setattr(fetching.Fetcher, "fetch_all", fetch)

    return let


def md5_entry(repository: Repository, contents: bytes, *, has_checksum: bool = True) -> Entry:
    """Put an object as lakeFS does, whose name does not tell its BLAKE3; return its entry."""
    digest = md5(contents, usedforsecurity=False).hexdigest()
    key = f"data/lakefs/{digest}"
    repository.store.put(key, contents, ANY)
    checksum = digest if has_checksum else f"{digest}-2"
    return entry_of(contents)._replace(physical_address=key, checksum=checksum)


def share(source: Path, name: bytes, directory: int) -> bool:
    """Copy a file, as `reflink` does where the disk can."""
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=directory)
    with os.fdopen(descriptor, "wb") as copy:
        copy.write(source.read_bytes())
    return True


def is_clean(repository: Repository, root: Path) -> bool:
    return items(reopen(repository, root)) == {} and not (root / ".lakecli-incoming").exists()


def test_the_states_of_its_files_are_recorded(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakecli.worktree.index.TICK_NS", 0)
    pull(reopen(repository, root))
    index = reopen(repository, root).index
    for path in map(os.fsencode, NEW):
        found = index.find(path)
        assert found is not None
        assert found.state == state_of((root / os.fsdecode(path)).stat())


def test_nothing_is_written_into_the_namespace(
    repository: Repository, root: Path, tmp_path: Path
) -> None:
    """`init` refuses such a directory, but the file that links it may have been moved."""
    (root / ".lakefs_ref.yaml").rename(tmp_path / ".lakefs_ref.yaml")
    writes = writer.Writer(reopen(repository, tmp_path), DOWNLOADS)
    paths = [b"namespace/_lakecli/x", b"namespace/new/y", b"new/z"]
    for path in paths:
        writes.add(WantedFile(path, encode_entry(entry_of(b"1")), Expected.ABSENT))
    report = writes.finish()
    assert [path for path, _ in report.blocked] == paths[:2]
    assert {reason.partition("' ")[2] for _, reason in report.blocked} == {IN_NAMESPACE}
    assert (tmp_path / "new" / "z").read_text() == "1"
    assert not (tmp_path / "namespace" / "new").exists()


def test_a_directory_that_is_made_meanwhile_keeps_its_files(
    repository: Repository, root: Path, meanwhile: Callable[[Callable[[], object]], None]
) -> None:
    def make() -> None:
        write(root, {"d/a": "mine", "d/mine": "mine"})
        assert stat.S_IMODE((root / ".lakecli-incoming").stat().st_mode) == 0o700

    meanwhile(make)
    brought = pull(reopen(repository, root))
    assert (brought.downloaded, brought.conflicts) == (3, [b"d/a"])
    assert files(root) == {"a": "1", **NEW, "d/a": "mine", "d/mine": "mine"}
    assert set(items(reopen(repository, root))) == {"d/a", "d/mine"}
    assert not (root / ".lakecli-incoming").exists()


@pytest.mark.parametrize("name", ["d", "f"])
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_nothing_is_written_through_a_link_in_its_place(
    repository: Repository,
    root: Path,
    meanwhile: Callable[[Callable[[], object]], None],
    name: str,
    when: str,
) -> None:
    outside = root.parent / "outside"
    outside.mkdir()

    def link() -> None:
        (root / name).symlink_to(outside)

    if when == "before":
        link()
    else:
        meanwhile(link)
    brought = pull(reopen(repository, root))
    left = sorted(path for path in NEW if path.startswith(name))
    assert [os.fsdecode(path) for path in brought.conflicts] == left
    assert (brought.blocked, brought.impossible) == (brought.conflicts, [])
    assert list(outside.iterdir()) == []
    assert brought.downloaded == len(NEW) - len(left)


def test_a_damaged_object_does_not_keep_its_directory_back(
    repository: Repository, root: Path
) -> None:
    address = entry_of(b"2").physical_address
    repository.store.put(address, b"wrong", ANY)
    brought = pull(reopen(repository, root))
    assert [path for path, _ in brought.failures] == [b"d/b"]
    assert files(root) == {"a": "1", **{path: text for path, text in NEW.items() if path != "d/b"}}
    repository.store.put(address, b"2", ANY)
    assert pull(reopen(repository, root)).failures == []
    assert files(root) == {"a": "1", **NEW}
    assert is_clean(repository, root)


def test_an_object_with_more_bytes_is_damaged(repository: Repository, root: Path) -> None:
    repository.store.put(entry_of(b"2").physical_address, b"2 and more", ANY)
    assert [path for path, _ in pull(reopen(repository, root)).failures] == [b"d/b"]


def test_a_directory_in_the_place_of_a_file_stays(repository: Repository, root: Path) -> None:
    commit_contents(repository, {"k": "5"})
    write(root, {"k/mine": "m"})
    brought = pull(reopen(repository, root))
    assert (brought.conflicts, brought.impossible) == ([b"k"], [])
    assert files(root) == {"a": "1", **NEW, "k/mine": "m"}


@pytest.mark.parametrize("error", [Unreachable("no answer"), PermissionDenied("not allowed")])
def test_a_store_that_answers_nothing_ends_it(
    repository: Repository, root: Path, error: LakeError, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = fetching.WriteReport(root)
    fetcher = fetching.Fetcher(reopen(repository, root), DOWNLOADS, report)

    def fetch(*_: object) -> NoReturn:
        raise error

    wanted = fetching.WantedFile(b"a", encode_entry(entry_of(b"1")), fetching.Expected.ABSENT)
    place: Any = None
    with monkeypatch.context() as patched:
        patched.setattr(fetcher, "_bring", fetch)
        with pytest.raises(type(error)):
            fetcher._try(wanted, place)
        assert (report.failures, report.can_repeat) == ([(b"a", error.message)], True)
        patched.setattr(fetcher, "_bring", lambda *_: None)
        assert fetcher._try(wanted, place)
        patched.setattr(fetcher, "_bring", fetch)
        assert not fetcher._try(wanted, place)


def test_objects_that_cannot_be_reached_among_others_fail_alone(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if more of them than end a command are left by what is copied together."""
    sizes = [TINY + 1 if at % 4 == 1 else 1 for at in range(8 * MAX_FAILURES)]
    commit_contents(repository, {f"n/{at}": f"c{at:0{size}}" for at, size in enumerate(sizes)})

    def refuse(*args: Any, size: int, **options: Any) -> bytes:
        if size > TINY:
            raise Unreachable("no answer")
        return read_small(*args, size=size, **options)

    monkeypatch.setattr(fetching, "read_small", refuse)
    brought = pull(reopen(repository, root))
    assert len(brought.failures) == 2 * MAX_FAILURES
    assert brought.downloaded == len(NEW) + 6 * MAX_FAILURES


def test_a_disk_without_reflinks_is_asked_once(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = {name: name * (SMALL + 1) for name in ("x", "y")}
    commit_contents(repository, contents)
    asked = []

    def refuse(source: Path, *_: object) -> bool:
        asked.append(source)
        return False

    monkeypatch.setattr(linked_files, "reflink", refuse)
    clone(repository, tmp_path / "wd")
    assert len(asked) == 1
    assert files(tmp_path / "wd") == contents


def test_half_a_file_never_arrives(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_half(descriptor: int, data: bytes) -> None:
        if data == b"2":
            raise OSError(errno.EINVAL, "invalid argument")
        write_all(descriptor, data)

    with monkeypatch.context() as patched:
        patched.setattr(native, "core", lambda: None)  # it leaves such a file to the others
        patched.setattr("lakecli.worktree.fetching.write_all", write_half)
        brought = pull(reopen(repository, root))
    assert [path for path, _ in brought.failures] == [b"d/b"]
    assert not (root / "d/b").exists()
    assert (root / "d/a").read_text() == "1"
    assert pull(reopen(repository, root)).downloaded == 1
    assert is_clean(repository, root)


def test_a_directory_of_several_chunks(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "CHUNK", 3)
    contents = {f"d/{number}": str(number) for number in range(8)}
    commit_contents(repository, contents)
    clone(repository, tmp_path / "wd")
    assert files(tmp_path / "wd") == contents
    assert is_clean(repository, tmp_path / "wd")


def test_a_chunk_ends_with_the_byte_that_fills_it(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch_all = fetching.Fetcher.fetch_all
    sizes = []

    def note(self: Any, waiting: Any, *args: Any) -> Any:
        sizes.append(len(waiting))
        return fetch_all(self, waiting, *args)

    monkeypatch.setattr(fetching.Fetcher, "fetch_all", note)
    monkeypatch.setattr(writer, "CHUNK_BYTES", 2)
    commit_contents(repository, {"z": "5"})
    pull(reopen(repository, root))
    assert sizes == [2, 2, 1]


def test_progress_counts_each_file_once(
    repository: Repository, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is copied, what is linked, and what an earlier command has fetched."""
    large = "x" * (SMALL + 1)
    commit_contents(repository, {**dict.fromkeys(NEW), "small": "s", "large": large})
    uri = parse_path("lakefs://demo/main/", allow_empty=True)
    monkeypatch.setattr(linked_files, "reflink", share)
    for linking in (LinkMode.AUTO, LinkMode.HARDLINK, LinkMode.COPY):
        if linking is LinkMode.COPY:
            monkeypatch.setattr(linked_files, "reflink", None)
        progress = RecordedProgress()
        options = DownloadOptions(progress=progress)
        create.clone(repository, uri, tmp_path / linking.value, options=options, linking=linking)
        size = 1 + 1 + len(large)
        assert (progress.expected, progress.items, progress.size) == ([(3, size)], 3, size)
    entry = entry_of(large.encode())
    monkeypatch.setattr(fetching, "is_local", lambda _uri: False)
    wanted = fetching.WantedFile(b"large", encode_entry(entry), fetching.Expected.ABSENT)
    write(root, {f".lakecli-incoming/{wanted.name.decode()}": large})
    os.utime(root / f".lakecli-incoming/{wanted.name.decode()}", (entry.file_mtime,) * 2)
    progress = RecordedProgress()
    found = writer.Writer(reopen(repository, root), DownloadOptions(progress=progress))
    found.add(wanted)
    monkeypatch.setattr(
        "lakecli.repository.download.Downloader.fetch", None
    )  # nothing is fetched again
    assert found.finish().downloaded == 1
    assert (progress.items, progress.size) == (1, len(large))


def test_what_is_fetched_is_durable_before_it_has_its_name(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_contents(repository, {"k/gone": "5", "k/stays": "6"})
    pull(reopen(repository, root))
    commit_contents(repository, {"k/gone": None, "a": "new", "n/x": "7", "n/y": "8"})
    done: list[object] = []

    def note(name: str) -> Callable[[int], None]:
        def synced(descriptor: int) -> None:
            status = os.fstat(descriptor)
            done.append((name, status.st_ino if stat.S_ISDIR(status.st_mode) else status.st_size))

        return synced

    rename = os.rename

    def renamed(old: Any, new: Any, **options: Any) -> None:
        rename(old, new, **options)
        done.append(("rename", new))

    monkeypatch.setattr(os, "rename", renamed)
    for name in ("sync_file", "sync_names", "sync_file_system"):
        monkeypatch.setattr(writer, name, note(name))
    pull(reopen(repository, root))
    inodes = [(root / path).stat().st_ino for path in ("", "k", "n")]
    assert sorted(map(str, done[:3])) == [
        "('sync_file', 1)",
        "('sync_file', 1)",
        "('sync_file', 3)",
    ]
    names = (b"a", b"x", b"y") if native.core() is None else (b"a", b"n")
    end = 3 + len(names)
    assert done[3:end] == [("rename", name) for name in names]
    assert sorted(map(str, done[end:])) == sorted(str(("sync_names", inode)) for inode in inodes)

    monkeypatch.setattr(writer, "FEW", 1)
    commit_contents(repository, {"a": "again", "k/stays": "again"})
    done.clear()
    pull(reopen(repository, root))
    assert [name for name, _ in done] == [  # type: ignore[misc,has-type]
        "sync_file_system",
        "rename",
        "rename",
        "sync_file_system",
    ]


def test_a_new_directory_gets_its_name_as_a_whole(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch, core: Core
) -> None:
    """What cannot be written together with the others, or is no tiny file, comes after it."""
    (root / "old").mkdir()
    contents = {"n/a": "5", "n/large": "x" * (TINY + 1), "n/o/x": "7", "n/z": "z", "old/b": "8"}
    commit_contents(repository, contents)
    renamed, rename, write_files = [], os.rename, core.write_files

    def note(old: Any, new: Any, **options: Any) -> None:
        renamed.append(new)
        rename(old, new, **options)

    def write_most(directory: int, names: list[bytes], *rest: Any) -> Any:
        return write_files(directory, [b"" if b"/a" in name else name for name in names], *rest)

    monkeypatch.setattr(os, "rename", note)
    with monkeypatch.context() as patched:
        patched.setattr(
            native, "core", lambda: SimpleNamespace(**{**vars(core), "write_files": write_most})
        )
        assert pull(reopen(repository, root)).downloaded == 9
    assert renamed == [b"d", b"a", b"e", b"g", b"n", b"a", b"large", b"o", b"b"]
    assert is_clean(repository, root)
    assert files(root) == {"a": "1", **NEW, **contents}


@pytest.mark.parametrize("left", ["directory-0/d/a", "directory-0/x", "directory-0"])
def test_what_a_killed_command_left_in_a_directory_is_removed(
    repository: Repository, root: Path, left: str
) -> None:
    write(root, {f".lakecli-incoming/{left}": "half"})
    assert set(items(reopen(repository, root))) == {*NEW}
    pull(reopen(repository, root))
    assert files(root) == {"a": "1", **NEW}
    assert is_clean(repository, root)


def test_no_file_stays_open(repository: Repository, root: Path) -> None:
    write(root, {"d/mine": "m"})
    (root / "link").symlink_to("d")
    os.utime(root / "a")
    pull(reopen(repository, root))
    assert not status(
        reopen(repository, root, LinkPolicy.FOLLOW), local=False, selection=EVERYTHING
    ).problems
    restore(reopen(repository, root), [b"a"], source=None, options=DOWNLOADS)
    assert open_below(root) == []


def test_a_file_that_changes_before_it_is_removed_stays(repository: Repository, root: Path) -> None:
    found = writer.Writer(reopen(repository, root), DOWNLOADS)
    write(root, {"a": "mine"})
    found.remove(b"a", fetching.Expected.BASE)
    found.remove(b"absent", fetching.Expected.BASE)
    found.remove(b"a/below", fetching.Expected.BASE)
    assert (found.finish().kept, found.report.removed) == ([b"a"], 0)
    assert files(root) == {"a": "mine"}


@pytest.mark.parametrize("number", [errno.EXDEV, errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ])
def test_a_name_that_a_disk_refuses_is_left_out(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    commit_contents(repository, {"z": "5"})
    rename = os.rename

    def refuse(old: Any, new: Any, **options: Any) -> None:
        if new == b"z":
            raise OSError(number, os.strerror(number))
        rename(old, new, **options)

    monkeypatch.setattr(os, "rename", refuse)
    brought = pull(reopen(repository, root))
    assert brought.impossible == [(b"z", os.strerror(number).lower())]
    assert brought.downloaded == 4


def test_a_file_that_cannot_be_read_any_more_is_kept(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_root: bytes, _relative: bytes, *, follow: bool) -> NoReturn:
        del follow
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(writer, "hash_file", refuse)
    commit_contents(repository, {"a": "theirs"})
    os.utime(root / "a")
    assert pull(reopen(repository, root)).conflicts == [b"a"]
    assert files(root)["a"] == "1"


@pytest.mark.usefixtures("settled")
def test_an_object_without_a_blake3_is_compared_by_its_md5(
    repository: Repository, root: Path
) -> None:
    stage_entries(repository, "main", {b"m": md5_entry(repository, b"first")})
    commit_contents(repository, {})
    pull(reopen(repository, root))
    assert is_clean(repository, root)
    os.utime(root / "m")
    assert is_clean(repository, root)
    write(root, {"m": "other"})
    assert set(items(reopen(repository, root))) == {"m"}
    write(root, {"m": "longer"})
    assert set(items(reopen(repository, root))) == {"m"}
    write(root, {"m": "first"})
    assert is_clean(repository, root)
    # A file in the state that was compared is replaced, and a link in its place is not.
    stage_entries(repository, "main", {b"m": md5_entry(repository, b"later")})
    commit_contents(repository, {})
    assert pull(reopen(repository, root)).conflicts == []
    assert files(root)["m"] == "later"
    (root / "m").rename(root.parent / "m")
    (root / "m").symlink_to("../m")
    commit_contents(repository, {"m": "last"})
    assert pull(reopen(repository, root)).conflicts == [b"m"]
    assert (root / "m").is_symlink()


@pytest.mark.usefixtures("unsettled")
def test_an_object_without_any_digest_is_compared_by_its_time(
    repository: Repository, root: Path
) -> None:
    entry = md5_entry(repository, b"first", has_checksum=False)
    stage_entries(repository, "main", {b"m": entry, b"n": entry})
    commit_contents(repository, {})
    pull(reopen(repository, root))
    assert is_clean(repository, root)
    for shift, is_same in ((0, True), (999_999_999, True), (10**9, False), (-1, False)):
        os.utime(root / "m", ns=(0, entry.file_mtime * 10**9 + shift))
        assert is_clean(repository, root) == is_same, shift
    os.utime(root / "m", (entry.file_mtime, entry.file_mtime))
    # A file in its place has decided by its time, and a link to one is not its file.
    (root / "n").rename(root.parent / "n")
    (root / "n").symlink_to("../n")
    commit_contents(repository, {"m": "last", "n": "last"})
    assert pull(reopen(repository, root)).conflicts == [b"n"]
    assert files(root)["m"] == "last"
    assert (root / "n").is_symlink()


def test_files_of_a_bucket_come_by_directory_whatever_arrives_first(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "is_local", lambda _uri: False)
    last_is_here = threading.Event()
    fetch = fetching.Fetcher._fetch
    fetched = []

    def in_turn(self: Any, wanted: Any, place: Any) -> Any:
        if wanted.path == b"f/g/h":
            last_is_here.set()
        assert last_is_here.wait(30)
        return fetch(self, wanted, place)

    fetch_all = fetching.Fetcher.fetch_all

    def note(self: Any, *args: Any) -> Any:
        fetched.extend(fetch_all(self, *args))
        return fetched

    monkeypatch.setattr(fetching.Fetcher, "_fetch", in_turn)
    monkeypatch.setattr(fetching.Fetcher, "fetch_all", note)
    worktree = reopen(repository, root)
    found = writer.Writer(worktree, DownloadOptions(parallelism=4))
    for path in sorted(NEW, reverse=True):
        entry = entry_of(NEW[path].encode())
        found.add(
            fetching.WantedFile(os.fsencode(path), encode_entry(entry), fetching.Expected.ABSENT)
        )
    assert found.finish().downloaded == 4
    assert [os.fsdecode(each.path) for each in fetched] == sorted(NEW)
    assert files(root) == {"a": "1", **NEW}


def test_a_failure_is_told_once_however_many_chunks_follow(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "CHUNK", 1)
    repository.store.put(entry_of(b"1").physical_address, b"wrong", ANY)
    brought = pull(reopen(repository, root))
    assert [path for path, _ in brought.failures] == [b"d/a"]
    assert brought.downloaded == 3


def test_a_file_of_another_spelling_is_not_the_users_file(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a disk that ignores the case of names, nothing is there to be kept or recorded."""
    write(root, {"README": "mine"})
    commit_contents(repository, {"readme": "theirs"})
    stat_of = os.stat

    def found(path: Any, **options: Any) -> os.stat_result:
        return stat_of(b"README" if path == b"readme" else path, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", found)
        brought = pull(reopen(repository, root))
        assert set(items(reopen(repository, root))) == {"README"}
    reason = "a file has this name, but for upper and lower case or the form of a letter"
    assert (brought.impossible, brought.conflicts) == ([(b"readme", reason)], [])


def test_modes_of_directories_and_files(repository: Repository, root: Path) -> None:
    before = os.umask(0o027)
    try:
        pull(reopen(repository, root))
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE((root / path).stat().st_mode) for path in ("d", "d/e", "f", "d/a")}
    assert modes == {"d": 0o750, "d/e": 0o750, "f": 0o750, "d/a": 0o640}


def test_the_group_comes_from_the_directory_above(repository: Repository, root: Path) -> None:
    (root / "f").mkdir()
    (root / "f").chmod(0o2775)
    pull(reopen(repository, root))
    assert (root / "f/g").stat().st_mode & stat.S_ISGID
    assert not (root / "d").stat().st_mode & stat.S_ISGID
    assert files(root) == {"a": "1", **NEW}


def test_what_a_killed_command_has_left_is_removed(repository: Repository, root: Path) -> None:
    write(root, {".lakecli-incoming/0123": "half"})
    pull(reopen(repository, root))
    assert files(root) == {"a": "1", **NEW}
    assert is_clean(repository, root)


def test_a_link_to_an_object_that_a_killed_command_has_left_is_not_written_to(
    repository: Repository, root: Path
) -> None:
    """Root may write to a read-only file, so a copy never takes the name of such a link."""
    (root / ".lakecli-incoming").mkdir()
    entry = entry_of(b"2")
    name = fetching.WantedFile(b"d/b", encode_entry(entry), fetching.Expected.ABSENT).name
    place = repository.store.local_path(entry.physical_address)
    assert place is not None
    os.link(place, root / ".lakecli-incoming" / os.fsdecode(name))
    pull(reopen(repository, root))
    assert files(root) == {"a": "1", **NEW}
    assert (root / "d/b").stat().st_nlink == 1


def test_copied_and_linked_files_have_the_times_of_their_objects(
    repository: Repository, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = "x" * (SMALL + 1)
    write(root, {"large": large, "small": "s"})
    for name in ("large", "small"):
        os.utime(root / name, (1_000_000_000, 1_000_000_000))
    (root / "large").chmod(0o755)
    commit_worktree(reopen(repository, root))

    monkeypatch.setattr(linked_files, "reflink", share)
    clone(repository, tmp_path / "other")
    for name in ("large", "small"):
        assert (tmp_path / "other" / name).stat().st_mtime == 1_000_000_000
        assert os.access(tmp_path / "other" / name, os.X_OK) == (name == "large")


def test_the_executable_bit_of_a_file_in_it(
    repository: Repository, root: Path, tmp_path: Path
) -> None:
    pull(reopen(repository, root))
    write(root, {"d/run.sh": "#!/bin/sh\n"})
    (root / "d/run.sh").chmod(0o755)
    commit_worktree(reopen(repository, root))
    clone(repository, tmp_path / "other")
    assert os.access(tmp_path / "other/d/run.sh", os.X_OK)
    assert not os.access(tmp_path / "other/d/a", os.X_OK)
    assert is_clean(repository, tmp_path / "other")


def test_a_file_that_was_touched_is_replaced(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state is not that of the index; its bytes are those of the base."""
    monkeypatch.setattr("lakecli.worktree.index.TICK_NS", 0)
    commit_contents(repository, {"a": "1", "b": "2"})
    clone(repository, tmp_path / "wd")
    for name in ("a", "b"):
        os.utime(tmp_path / "wd" / name)
    commit_contents(repository, {"a": "theirs", "b": None})
    brought = pull(reopen(repository, tmp_path / "wd"))
    assert (brought.conflicts, brought.downloaded, brought.removed) == ([], 1, 1)
    assert files(tmp_path / "wd") == {"a": "theirs"}


def test_a_missing_bucket_ends_it_if_it_is_that_of_the_repository(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that an imported object lies in concerns that object alone."""
    report = fetching.WriteReport(root)
    fetcher = fetching.Fetcher(reopen(repository, root), DOWNLOADS, report)

    def fetch(*_: object) -> NoReturn:
        raise BucketNotFound("no bucket")

    monkeypatch.setattr(fetcher, "_bring", fetch)
    place: Any = None
    wanted = fetching.WantedFile(b"a", encode_entry(entry_of(b"1")), fetching.Expected.ABSENT)
    with pytest.raises(BucketNotFound):
        fetcher._try(wanted, place)
    assert report.failures == []
    imported = wanted.entry._replace(physical_address="s3://elsewhere/1")
    assert not fetcher._try(
        fetching.WantedFile(b"a", encode_entry(imported), wanted.expected), place
    )
    assert report.failures == [(b"a", "no bucket")]


@linux_only
def test_the_names_of_all_new_directories_are_synced(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_contents(repository, {"x/y/z/a": "1"})
    disk = Disk(tmp_path, monkeypatch)
    clone(repository, tmp_path / "new" / "wd")
    lost = [each for each in disk.losses() if f"the name {tmp_path}/new" in each]
    assert [each for each in lost if INCOMING.decode() not in each] == []
    assert f"the name {tmp_path}/new" not in disk.losses()


@linux_only
def test_new_private_directories_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path, monkeypatch)
    make_private(tmp_path / "a" / "b")
    assert disk.losses() == []
