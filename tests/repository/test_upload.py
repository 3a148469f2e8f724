"""Uploading files, streams and directories to a branch."""

from __future__ import annotations

import io
import mmap
import os
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from blake3 import blake3

from lakecli import native
from lakecli.base.identity import blake3_of
from lakecli.base.layout import DATA, data_key
from lakecli.base.model import CLIENT_MTIME, MAX_PATH_SIZE
from lakecli.errors import NotFound, PermissionDenied, Refused, Unreachable, UsageError
from lakecli.fsck.check import fsck
from lakecli.kv.local_store import Table
from lakecli.repository import branch as branches
from lakecli.repository import upload_tree as module
from lakecli.repository.commit import commit
from lakecli.repository.diff import diff_uncommitted
from lakecli.repository.stat import stat
from lakecli.repository.transfer.ingest import SMALL, Ingest
from lakecli.repository.transfer.walk import FileChanged, FileOpener, LinkPolicy, OpenFile
from lakecli.repository.upload import UploadOptions, upload_file, upload_stream
from lakecli.repository.upload_tree import upload_tree
from lakecli.stores.contract import ANY
from tests.support.lakes import checksums, make_repository, open_lake, read, serve
from tests.support.memory_store import MemoryStore
from tests.support.recorded_progress import RecordedProgress

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.fsck.findings import Finding
    from lakecli.repository.contract import Repository

PLAIN = UploadOptions()
THREADS = UploadOptions(parallelism=4)


@pytest.fixture(params=["local", "bucket"])
def anywhere(request: pytest.FixtureRequest, repository: Repository) -> Repository:
    """A repository in a directory, and one in a bucket."""
    if request.param == "bucket":
        serve(repository, MemoryStore())
    return repository


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    for name, text in {"a.txt": "one", "b/c.csv": "two", "b/d": "", "e.txt": "one"}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def changes(repository: Repository, branch: str = "main") -> list[tuple[str, bytes]]:
    with diff_uncommitted(repository, branch) as differences:
        return [(each.type.value, each.path) for each in differences]


def test_a_file_is_uploaded(anywhere: Repository, source: Path) -> None:
    os.utime(source / "a.txt", (1, 1_600_000_000.9))
    options = UploadOptions(metadata={"who": "me"})
    entry = upload_file(anywhere, "main", b"x/a.txt", source=source / "a.txt", options=options)
    assert entry == stat(anywhere, "main", b"x/a.txt")
    assert entry.checksum == blake3_of(b"one").hex()
    assert entry.physical_address == data_key(entry.checksum)
    assert (entry.size, entry.content_type) == (3, "text/plain")
    assert entry.metadata == {"who": "me", CLIENT_MTIME: "1600000000"}
    assert anywhere.store.get(entry.physical_address) == b"one"
    assert changes(anywhere) == [("added", b"x/a.txt")]


def test_a_stream_has_no_modification_time(anywhere: Repository) -> None:
    data = b"0123456789" * 300_000
    entry = upload_stream(anywhere, "main", b"s", source=io.BytesIO(data), options=PLAIN)
    assert entry == stat(anywhere, "main", b"s")
    assert (entry.size, dict(entry.metadata)) == (len(data), {})
    assert anywhere.store.get(entry.physical_address) == data


def test_uploading_the_same_file_again_changes_nothing(anywhere: Repository, source: Path) -> None:
    def again(**options: Any) -> None:
        upload_file(
            anywhere, "main", b"a", source=source / "a.txt", options=UploadOptions(**options)
        )

    again()
    commit(anywhere, "main", message="first", committer="me")
    os.utime(source / "a.txt", (5, 5))
    again()
    upload_stream(anywhere, "main", b"a", source=io.BytesIO(b"one"), options=PLAIN)
    assert changes(anywhere) == []
    again(content_type="text/plain")
    assert changes(anywhere) == [("changed", b"a")]
    branches.reset(anywhere, "main")
    again(metadata={"k": "v"})
    assert changes(anywhere) == [("changed", b"a")]


def test_a_content_type_can_be_given_and_empty(anywhere: Repository, source: Path) -> None:
    for given, recorded in ((None, "text/plain"), ("", ""), ("image/png", "image/png")):
        entry = upload_file(
            anywhere,
            "main",
            b"a.txt",
            source=source / "a.txt",
            options=UploadOptions(content_type=given),
        )
        assert entry.content_type == recorded


def test_a_directory_is_uploaded(anywhere: Repository, source: Path) -> None:
    report = upload_tree(anywhere, "main", b"p", source=source, options=THREADS)
    assert (report.uploaded, report.unchanged, report.size, report.failures) == (4, 0, 9, [])
    expected = {b"p/a.txt": b"one", b"p/b/c.csv": b"two", b"p/b/d": b"", b"p/e.txt": b"one"}
    assert read(anywhere, "main") == checksums(expected)
    assert len(list(anywhere.store.list(DATA))) == 3
    (source / "a.txt").write_text("new")
    again = upload_tree(anywhere, "main", b"p/", source=source, options=THREADS)
    assert (again.uploaded, again.unchanged, again.size, again.failures) == (1, 3, 9, [])


def test_uploading_to_the_root_deletes_nothing(anywhere: Repository, source: Path) -> None:
    upload_stream(anywhere, "main", b"kept", source=io.BytesIO(b"kept"), options=PLAIN)
    upload_tree(anywhere, "main", b"", source=source, options=PLAIN)
    assert set(read(anywhere, "main")) == {b"kept", b"a.txt", b"b/c.csv", b"b/d", b"e.txt"}


@pytest.mark.parametrize("options", [PLAIN, THREADS])
def test_more_files_than_one_chunk_are_staged(
    anywhere: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: UploadOptions
) -> None:
    for name in ("CHUNK", "BUCKET_CHUNK", "LOOK_AHEAD"):
        monkeypatch.setattr(module, name, 7)
    root = tmp_path / "many"
    root.mkdir()
    expected = {}
    for number in range(60):
        (root / f"{number:02d}").write_text(str(number % 50))
        expected[b"%02d" % number] = b"%d" % (number % 50)
    report = upload_tree(anywhere, "main", b"", source=root, options=options)
    assert report.uploaded == 60
    assert read(anywhere, "main") == checksums(expected)


def test_uploading_a_directory_is_one_operation(anywhere: Repository, source: Path) -> None:
    from lakecli.kv import operations

    upload_tree(anywhere, "main", b"", source=source, options=PLAIN)
    upload_tree(anywhere, "main", b"", source=source, options=PLAIN)
    with anywhere.lake.kv.read() as txn:
        kinds = [each.kind for each in operations.iter_operations(txn, anywhere.key)]
    assert kinds.count("upload") == 1


def test_failures_are_listed_and_the_other_files_uploaded(
    anywhere: Repository, source: Path
) -> None:
    (source / "link").symlink_to("a.txt")
    os.mkfifo(source / "pipe")
    deep = "/".join("d" * 250 for _ in range(4))
    (source / deep).mkdir(parents=True)
    (source / deep / "f").write_text("fits")
    report = upload_tree(anywhere, "main", b"p" * 30, source=source, options=THREADS)
    assert (report.uploaded, report.size) == (4, 9)
    assert report.failures == sorted(report.failures)
    why = {os.path.basename(path): problem for path, problem in report.failures}
    assert why[b"link"] == "a symbolic link"
    assert why[b"pipe"].startswith("a special file")
    assert why[b"f"].startswith("path of 1036 bytes is too long")
    assert len(read(anywhere, "main")) == 4


@pytest.mark.parametrize(
    ("policy", "uploaded"), [(LinkPolicy.FOLLOW, 5), (LinkPolicy.SKIP, 4), (LinkPolicy.FAIL, 4)]
)
def test_symbolic_links_fail_or_are_followed_or_skipped(
    anywhere: Repository, source: Path, policy: LinkPolicy, uploaded: int
) -> None:
    (source / "link").symlink_to("a.txt")
    options = UploadOptions(links=policy)
    report = upload_tree(anywhere, "main", b"", source=source, options=options)
    assert report.uploaded == uploaded
    assert bool(report.failures) == (policy is LinkPolicy.FAIL)


def test_a_file_that_vanishes_or_changes_fails_alone(
    anywhere: Repository, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = FileOpener.open

    def open_file(self: FileOpener, path: bytes) -> OpenFile:
        if path.endswith(b"c.csv"):
            raise FileChanged("the file changed while it was read")
        if path.endswith(b"e.txt"):
            os.unlink(path)
        return real(self, path)

    monkeypatch.setattr(native, "core", lambda: None)  # it leaves such files to the others
    monkeypatch.setattr(FileOpener, "open", open_file)
    report = upload_tree(anywhere, "main", b"", source=source, options=PLAIN)
    assert [(os.path.basename(path), why) for path, why in report.failures] == [
        (b"c.csv", "the file changed while it was read"),
        (b"e.txt", "no such file or directory"),
    ]
    assert set(read(anywhere, "main")) == {b"a.txt", b"b/d"}


@pytest.mark.parametrize("path", [b"100%", b"a?b#c d", b"new\nline", b"\xff\xfe", "ünï".encode()])
def test_names_are_bytes(anywhere: Repository, tmp_path: Path, path: bytes) -> None:
    root = os.fsencode(tmp_path / "names")
    os.mkdir(root)
    with open(root + b"/" + path, "wb") as file:
        file.write(b"x")
    upload_tree(anywhere, "main", path, source=tmp_path / "names", options=PLAIN)
    assert read(anywhere, "main") == checksums({path + b"/" + path: b"x"})


def test_the_longest_path_is_accepted(anywhere: Repository, source: Path) -> None:
    path = b"p" * MAX_PATH_SIZE
    upload_file(anywhere, "main", path, source=source / "a.txt", options=PLAIN)
    assert list(read(anywhere, "main")) == [path]
    with pytest.raises(UsageError, match="too long"):
        upload_file(anywhere, "main", path + b"p", source=source / "a.txt", options=PLAIN)
    with pytest.raises(UsageError, match="empty"):
        upload_file(anywhere, "main", b"", source=source / "a.txt", options=PLAIN)


def test_a_source_that_cannot_be_uploaded_is_refused(anywhere: Repository, source: Path) -> None:
    os.mkfifo(source / "pipe")
    cases = [
        ("nope", NotFound, "no such file"),
        ("b", UsageError, "is a directory"),
        ("pipe", UsageError, "not a regular file"),
    ]
    for name, error, message in cases:
        with pytest.raises(error, match=message):
            upload_file(anywhere, "main", b"x", source=source / name, options=PLAIN)
    for name in ("nope", "a.txt"):
        with pytest.raises(NotFound, match="no such directory"):
            upload_tree(anywhere, "main", b"x", source=source / name, options=PLAIN)
    with pytest.raises(UsageError, match="not valid text"):
        upload_tree(
            anywhere,
            "main",
            b"",
            source=source,
            options=UploadOptions(metadata={"k": os.fsdecode(b"\xff")}),
        )
    assert read(anywhere, "main") == {}
    assert list(anywhere.store.list(DATA)) == []


def test_a_missing_branch_is_refused_before_a_byte_is_read(
    anywhere: Repository, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakecli.repository.upload.Ingest", None)
    with pytest.raises(NotFound, match="no branch 'nope'"):
        upload_tree(anywhere, "nope", b"", source=source, options=PLAIN)
    with pytest.raises(NotFound, match="no branch 'nope'"):
        upload_file(anywhere, "nope", b"a", source=source / "a.txt", options=PLAIN)
    with pytest.raises(NotFound, match="no branch 'nope'"):
        upload_stream(anywhere, "nope", b"a", source=io.BytesIO(b""), options=PLAIN)


def test_a_namespace_is_not_uploaded_into_itself(repository: Repository, tmp_path: Path) -> None:
    for source in (tmp_path, tmp_path / "namespace", tmp_path / "namespace" / ".." / "namespace"):
        with pytest.raises(Refused, match="lies in"):
            upload_tree(repository, "main", b"", source=source, options=PLAIN)


def test_files_beside_a_namespace_are_uploaded_by_name(
    repository: Repository, tmp_path: Path
) -> None:
    (tmp_path / "namespaces").write_text("beside")
    names = [b"namespaces"]
    report = upload_tree(
        repository, "main", b"", source=tmp_path, options=PLAIN, names=[b"namespaces"]
    )
    assert (report.uploaded, report.failures) == (1, [])
    assert (
        upload_tree(repository, "main", b"", source=tmp_path, options=PLAIN, names=[]).uploaded == 0
    )
    for source, inside in ((tmp_path, b"namespace/data/x"), (tmp_path / "namespace", b"data/x")):
        with pytest.raises(Refused, match="lies in"):
            upload_tree(
                repository, "main", b"", source=source, options=PLAIN, names=[*names, inside]
            )


@pytest.mark.parametrize("size", [5, SMALL, SMALL + 1, 2 * SMALL + 3])
@pytest.mark.parametrize("damaged_size", [0, 3, 3 * SMALL])
@pytest.mark.parametrize("how", ["file", "tree", "stream", "another path"])
def test_an_object_of_a_wrong_size_is_replaced(
    *,
    anywhere: Repository,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    damaged_size: int,
    how: str,
) -> None:
    monkeypatch.setattr("lakecli.repository.transfer.multipart_upload.PART_SIZE", SMALL)
    body = (b"0123456789" * (size // 10 + 1))[:size]
    source = tmp_path / "source"
    source.mkdir()
    (source / "a").write_bytes(body)
    options = UploadOptions()

    def upload(path: bytes = b"a") -> None:
        if how == "stream":
            upload_stream(anywhere, "main", path, source=io.BytesIO(body), options=options)
        elif how == "tree":
            upload_tree(anywhere, "main", b"", source=source, options=options)
        else:
            upload_file(anywhere, "main", path, source=source / "a", options=options)

    def damage() -> list[Finding]:
        return [each for each in fsck(anywhere, hash_data=True) if each.kind == "data"]

    upload()
    commit(anywhere, "main", message="a", committer="me")
    key = data_key(blake3_of(body).hex())
    anywhere.store.put(key, b"x" * damaged_size, ANY)
    assert len(damage()) == 1
    upload(b"b" if how == "another path" else b"a")
    assert anywhere.store.get(key) == body
    assert not damage()


@pytest.mark.parametrize("age", [2, 10, 29])
def test_a_mapped_page_that_was_written_lately_is_read_again(tmp_path: Path, age: int) -> None:
    """Writing through a mapped page that is dirty already does not change the file times."""
    clock = Moving()
    size = SMALL + 1
    path = tmp_path / "large"
    path.write_bytes(bytes(size))
    with (
        open_lake(tmp_path, clock=clock) as lake,
        path.open("r+b") as file,
        mmap.mmap(file.fileno(), 0) as mapped,
    ):
        repository = make_repository(lake, tmp_path)
        for body in (b"1" * size, b"2" * size, b"3" * size):
            mapped[:] = body
            clock.offset = path.stat().st_ctime - clock.real().timestamp() + age
            upload_file(repository, "main", b"a", source=path, options=PLAIN)
            assert stat(repository, "main", b"a").checksum == blake3_of(body).hex()


def test_the_age_of_a_file_counts_when_its_hashing_begins(tmp_path: Path) -> None:
    """An upload may take longer than a file must be old."""
    clock = Moving()

    def pass_by(_items: int) -> None:
        clock.offset = 3_600

    with open_lake(tmp_path, clock=clock) as lake:
        repository = make_repository(lake, tmp_path)
        (tmp_path / "large").write_bytes(bytes(SMALL + 1))
        options = UploadOptions(progress=RecordedProgress(pass_by))
        upload_file(repository, "main", b"a", source=tmp_path / "large", options=options)
        with lake.kv.read() as txn:
            assert not list(txn.scan(Table.FILE_HASHES))
        upload_file(repository, "main", b"b", source=tmp_path / "large", options=options)
        with lake.kv.read() as txn:
            assert list(txn.scan(Table.FILE_HASHES))


@pytest.mark.parametrize("year", [2300, 1600])
def test_distant_times_are_recorded(anywhere: Repository, tmp_path: Path, year: int) -> None:
    path = tmp_path / "tree" / "large"
    path.parent.mkdir()
    path.write_bytes(bytes(SMALL + 1))
    seconds = int(datetime(year, 1, 1, tzinfo=UTC).timestamp())
    os.utime(path, (seconds, seconds))
    kept = path.stat().st_mtime_ns // 10**9  # not every file system keeps such times
    for _ in range(2):
        report = upload_tree(anywhere, "main", b"", source=path.parent, options=PLAIN)
        assert not report.failures
    assert stat(anywhere, "main", b"large").metadata[CLIENT_MTIME] == str(kept)


class Moving:
    """The system's clock, shifted by an offset in seconds."""

    def __init__(self) -> None:
        self.offset = 0.0

    def __call__(self) -> datetime:
        return self.real() + timedelta(seconds=self.offset)

    def real(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251 - the times of files are the system's


class Failing(MemoryStore):
    """A bucket that fails for some writes."""

    def __init__(self, error: Exception, *, after: int, times: int = 1_000_000) -> None:
        super().__init__()
        self._error, self._after, self._left = error, after, times
        self._mutex = threading.Lock()

    def put_new(self, key: str, body: bytes) -> bool:
        with self._mutex:
            self._after -= 1
            fails = self._after < 0 and self._left > 0
            self._left -= fails
        if fails:
            raise self._error
        return super().put_new(key, body)


def many(tmp_path: Path, count: int = 100) -> Path:
    root = tmp_path / "many"
    root.mkdir()
    for number in range(count):
        (root / f"{number:03d}").write_text(str(number))
    return root


@pytest.mark.usefixtures("either_core")
def test_small_files_together_are_what_they_are_one_by_one(
    repository: Repository, tmp_path: Path
) -> None:
    """Also two with the same bytes, and bytes that the namespace has already, damaged."""
    source = many(tmp_path)
    (source / "below").mkdir()
    for name in ("below/7", "same"):
        (source / name).write_text("7")
    os.utime(source / "007", (5, 5))
    (source / "past").write_text("past")
    os.utime(source / "past", ns=(-1, -1))
    (source / "link").symlink_to("007")
    key = data_key(blake3(b"8").hexdigest())
    repository.store.put(key, b"damaged", ANY)
    progress = RecordedProgress()
    options = PLAIN._replace(progress=progress)
    report = upload_tree(repository, "main", b"", source=source, options=options)
    assert [path for path, _ in report.failures] == [os.fsencode(source / "link")]
    names = [os.fsencode(each.relative_to(source)) for each in source.rglob("*") if each.is_file()]
    names.remove(b"link")
    assert (report.uploaded, progress.items, progress.size) == (103, 103, report.size)
    assert read(repository, "main") == {
        name: blake3((source / os.fsdecode(name)).read_bytes()).hexdigest() for name in names
    }
    for path in names:
        entry = stat(repository, "main", path)
        status = (source / os.fsdecode(path)).stat()
        assert entry.metadata == {CLIENT_MTIME: str(status.st_mtime_ns // 10**9)}
        data = repository.store.get(entry.physical_address)
        assert data == (source / os.fsdecode(path)).read_bytes()


def test_single_objects_fail_alone(repository: Repository, tmp_path: Path) -> None:
    serve(repository, Failing(Unreachable("busy"), after=10, times=3))
    report = upload_tree(repository, "main", b"", source=many(tmp_path), options=PLAIN)
    assert [why for _, why in report.failures] == ["busy"] * 3
    assert report.uploaded == len(read(repository, "main")) == 97


@pytest.mark.parametrize("options", [PLAIN, THREADS])
@pytest.mark.parametrize("error", [Unreachable("down"), PermissionDenied("wrong key")])
def test_an_unreachable_store_ends_the_upload(
    repository: Repository, tmp_path: Path, options: UploadOptions, error: Exception
) -> None:
    serve(repository, Failing(error, after=0))
    with pytest.raises(type(error)) as raised:
        upload_tree(repository, "main", b"", source=many(tmp_path), options=options)
    assert raised.value is error
    assert read(repository, "main") == {}


def test_objects_that_arrived_before_the_end_are_staged(
    repository: Repository, tmp_path: Path
) -> None:
    source = many(tmp_path)
    serve(repository, Failing(Unreachable("down"), after=40))
    with pytest.raises(Unreachable):
        upload_tree(repository, "main", b"", source=source, options=PLAIN)
    assert len(read(repository, "main")) == 40
    assert [notice.message for notice in repository.notices] == ["40 objects are staged"]


def test_progress_counts_one_file_and_a_stream(anywhere: Repository, source: Path) -> None:
    for _ in range(2):  # the second time there is nothing to do
        progress = RecordedProgress()
        options = UploadOptions(progress=progress)
        upload_file(anywhere, "main", b"a", source=source / "a.txt", options=options)
        assert (progress.expected, progress.items, progress.size) == ([(1, 3)], 1, 3)
        progress = RecordedProgress()
        options = UploadOptions(progress=progress)
        upload_stream(anywhere, "main", b"b", source=io.BytesIO(b"four"), options=options)
        assert (progress.expected, progress.items, progress.size) == ([(1, 0)], 1, 4)


def test_progress_adds_up(anywhere: Repository, source: Path) -> None:
    (source / "large").write_bytes(b"0123456789" * 500_000)
    for _ in range(2):
        progress = RecordedProgress()
        options = UploadOptions(progress=progress)
        report = upload_tree(anywhere, "main", b"", source=source, options=options)
        assert (progress.size, progress.items) == (report.size, 5)


def test_a_flush_that_fails_stages_nothing(
    anywhere: Repository, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flush(*_: object) -> None:
        raise Unreachable("the disk is full")

    monkeypatch.setattr(Ingest, "flush", flush)
    with pytest.raises(Unreachable, match="the disk is full"):
        upload_tree(anywhere, "main", b"", source=source, options=PLAIN)
    assert read(anywhere, "main") == {}


def test_small_and_large_files_and_failures_of_one_directory(
    anywhere: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = many(tmp_path)
    (source / "1-large").write_bytes(os.urandom(SMALL + 1))
    (source / "2-empty").write_bytes(b"")
    (source / "3-link").symlink_to("0")
    os.mkfifo(source / "4-pipe")
    (source / "5-unreadable").write_bytes(b"x")
    real = FileOpener.open

    def open_file(self: FileOpener, path: bytes) -> OpenFile:
        if path.endswith(b"5-unreadable"):
            raise PermissionError(13, "Permission denied", path)
        return real(self, path)

    monkeypatch.setattr(native, "core", lambda: None)  # it leaves such files to the others
    monkeypatch.setattr(FileOpener, "open", open_file)
    progress = RecordedProgress()
    report = upload_tree(
        anywhere, "main", b"p", source=source, options=PLAIN._replace(progress=progress)
    )
    names = {os.fsencode(path.name): path for path in source.iterdir() if path.is_file()}
    expected = {
        b"p/" + name: blake3(path.read_bytes()).hexdigest()
        for name, path in names.items()
        if name not in {b"3-link", b"5-unreadable"}
    }
    assert read(anywhere, "main") == expected
    assert report.uploaded == len(expected)
    assert [os.path.basename(path) for path, _ in report.failures] == [
        b"3-link",
        b"4-pipe",
        b"5-unreadable",
    ]
    sizes = [path.stat().st_size for name, path in names.items() if b"p/" + name in expected]
    assert progress.size == report.size == sum(sizes)
