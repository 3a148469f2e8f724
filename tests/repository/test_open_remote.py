"""A repository that is read in its bucket, without a clone: what it shows, costs and refuses."""

from __future__ import annotations

import gc
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakecli
from lakecli.base import layout
from lakecli.base.model import RefKind
from lakecli.errors import IntegrityError, LakeError, NotFound, Refused, Unreachable
from lakecli.refs.ref_store import DamagedHistory
from lakecli.remote import packs
from lakecli.remote.packs import list_packs, read_pack
from lakecli.repository import branch, tag
from lakecli.repository.clone import clone
from lakecli.repository.commit import commit
from lakecli.repository.diff import diff_refs
from lakecli.repository.handle.lake import LocalRepository
from lakecli.repository.log import LogOptions, log, rev_parse
from lakecli.repository.open_remote import open_remote
from lakecli.repository.push import PushOptions, push
from lakecli.repository.reading.contents import read_object
from lakecli.repository.reflog import iter_reflog
from lakecli.repository.runtime import Home, Runtime
from lakecli.repository.stat import stat
from lakecli.repository.upload import UploadOptions, upload_file
from lakecli.stores.contract import ANY
from lakecli.stores.presigned_urls import PresignRequest
from tests.support.clones import RANGE_ENTRIES, machine, make_commit
from tests.support.counting import CountingStore
from tests.support.lakes import Numbered, Ticking
from tests.support.memory_store import MemoryBucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakecli.repository.contract import Repository

ME = PushOptions(who="Me <me@example.com>")
NAMESPACE = "memory://bucket/ns"


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(MemoryBucket())


@pytest.fixture
def writer(tmp_path: Path, store: CountingStore) -> Iterator[Repository]:
    """A clone that has pushed three commits of main and a tag, each with its own push."""
    from lakecli.repository import repo

    lake = machine(tmp_path, "writer")
    lake.runtime = lake.runtime._replace(
        open_store=lambda _uri, _region: store, prepare_namespace=lambda _uri: ""
    )
    with lake:
        made = repo.create(lake, "demo", NAMESPACE, range_entries=RANGE_ENTRIES)
        for path in (b"a", b"b", b"c"):
            make_commit(made, path)
            push(made, "main", options=ME)
        tag.create(made, "v1", "main~1")
        push(made, "v1", options=ME)
        yield made


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "reader"


def opened(home: Path, store: CountingStore) -> LocalRepository:
    """Open the repository as on a machine that has never seen it."""
    runtime = Runtime(
        Ticking(),
        Numbered("reader"),
        "test",
        open_store=lambda _uri, _region: store,
        prepare_namespace=lambda _uri: "",
    )
    store.reset()
    return open_remote(Home(home / "store", home / "cache"), runtime, NAMESPACE)


def requests(store: CountingStore) -> list[str]:
    """Return what each request was for."""
    parts = [key.split("/") for _, key in store.keys]
    return [each[each[0] == "_lakecli"] for each in parts]


def contents(repository: Repository, ref: str, path: bytes) -> bytes:
    return b"".join(read_object(repository, stat(repository, ref, path)))


def commits(repository: Repository, ref: str) -> list[str]:
    with log(repository, ref, LogOptions()) as found:
        return [each.message for each in found]


@pytest.mark.usefixtures("writer")
def test_a_first_read_takes_few_requests_and_a_second_one_fewer(
    home: Path, store: CountingStore
) -> None:
    assert contents(opened(home, store), "main", b"a") == b"a"
    # The metarange, and its range, which is small.
    first = ["repository.json", "refs", "commits", "_lakefs", "_lakefs", "data"]
    assert requests(store) == first
    assert contents(opened(home, store), "main", b"a") == b"a"
    assert requests(store) == ["repository.json", "refs", "commits", "data"]


@pytest.mark.parametrize("pushes", [1, 100, pytest.param(1_000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("merges_packs", [True, False])
def test_the_first_read_takes_few_requests_however_long_the_history_is(
    writer: Repository,
    home: Path,
    store: CountingStore,
    monkeypatch: pytest.MonkeyPatch,
    pushes: int,
    *,
    merges_packs: bool,
) -> None:
    if not merges_packs:
        monkeypatch.setattr(packs, "choose_replaced", lambda *_: [])
    for number in range(pushes):
        if number in (0, pushes // 2):
            branch.create(writer, f"at-{number}", source="main")
            push(writer, f"at-{number}", options=ME)
        make_commit(writer, b"%06d" % number)
        push(writer, "main", options=ME)
    assert first_read(home / "0", store, "main") == 6
    if merges_packs:  # branches that stayed where they were while packs were merged
        idle = ("at-0", f"at-{pushes // 2}", "v1")
        assert max(first_read(home / name, store, name) for name in idle) <= 10
        listed = [read_pack(store, info.id) for info in list_packs(store)]
        replaced = {each for pack in listed for each in pack.replaces}
        store.delete(map(layout.pack_key, replaced))  # as garbage collection does
        assert max(first_read(home / f"{name}-2", store, name) for name in idle) <= 10
        assert first_read(home / "1", store, "main") == 6


def first_read(home: Path, store: CountingStore, ref: str) -> int:
    """Return the requests of a machine that has never seen the repository for an object."""
    with opened(home, store) as reader:
        assert contents(reader, ref, b"a") == b"a"
    return len(store.keys)


@pytest.mark.usefixtures("writer")
def test_history_takes_few_listings_of_the_packs(home: Path, store: CountingStore) -> None:
    reader = opened(home, store)
    assert commits(reader, "main") == ["c", "b", "a", "Repository created"]
    assert store.counts["list"] <= 2
    assert [each.name for each in branch.iter_branches(reader)] == ["main"]
    assert store.counts["list"] <= 3
    again = opened(home, store)
    assert commits(again, "v1") == ["b", "a", "Repository created"]
    assert store.counts["list"] <= 2


def test_it_shows_what_a_clone_shows(
    writer: Repository, home: Path, store: CountingStore, tmp_path: Path
) -> None:
    branch.create(writer, "side", source="v1")
    make_commit(writer, b"s", "side")
    push(writer, "side", options=ME)
    push(writer, "v1", options=ME)
    lake = machine(tmp_path, "other")
    lake.runtime = writer.lake.runtime
    with lake:
        cloned = clone(lake, NAMESPACE, "cloned")
        reader = opened(home, store)
        expressions = ("main", "main@", "main~2", "v1^", "side", "main@{1}", "main@{upstream}")
        for expression in (*expressions, rev_parse(cloned, "main").commit.id[:9]):
            assert rev_parse(reader, expression).commit == rev_parse(cloned, expression).commit
        assert list(tag.iter_tags(reader)) == list(tag.iter_tags(cloned))
        assert [each.commit_id for each in branch.iter_branches(reader)] == [
            each.commit_id for each in branch.iter_branches(cloned)
        ]
        with diff_refs(reader, "main", "side") as here, diff_refs(cloned, "main", "side") as there:
            assert list(here) == list(there)
        assert list(iter_reflog(reader, "main")) == [
            move for move in iter_reflog(cloned, "main") if move.shared
        ]
    with pytest.raises(NotFound):
        rev_parse(reader, "absent")
    with pytest.raises(NotFound):
        rev_parse(reader, "f" * 64)


@pytest.mark.usefixtures("writer")
def test_nothing_is_left_but_the_cache(home: Path, store: CountingStore) -> None:
    before = {info.key: info.version for info in store.list()}
    with opened(home, store) as reader:
        commits(reader, "main@{2}")
        contents(reader, "main", b"c")
    assert {info.key: info.version for info in store.list()} == before
    assert [each.name for each in home.iterdir()] == ["cache"]
    assert store.counts.keys() <= {"get", "list", "head"}


@pytest.mark.usefixtures("writer")
def test_its_store_is_removed(
    home: Path, store: CountingStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    with opened(home, store) as reader:
        assert commits(reader, "main")
        assert len(list(temporary.iterdir())) == 1
    assert list(temporary.iterdir()) == []
    with pytest.raises(LakeError, match="closed"):
        commits(reader, "main")
    forgotten = opened(home, store)
    assert commits(forgotten, "main")
    del forgotten
    gc.collect()
    assert list(temporary.iterdir()) == []


@pytest.mark.usefixtures("writer")
def test_a_temporary_directory_that_cannot_be_made_is_reported(
    home: Path, store: CountingStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    with pytest.raises(Unreachable, match="temporary directory") as failed:
        opened(home, store)
    assert "TMPDIR" in (failed.value.hint or "")


@pytest.mark.usefixtures("writer")
def test_a_forked_child_leaves_the_store_to_its_parent(home: Path, store: CountingStore) -> None:
    with opened(home, store) as reader:
        child = os.fork()
        if not child:
            reader.lake.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        directory = Path(reader.lake.kv.usable().directory)
        assert directory.is_dir()
        assert commits(reader, "main")


@pytest.mark.usefixtures("writer")
def test_threads_share_a_handle_and_fetch_each_ref_once(home: Path, store: CountingStore) -> None:
    refs = ["main", "v1", "main~1", "main@{1}"] * 4
    with opened(home, store) as reader, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda ref: rev_parse(reader, ref).commit.message, refs))
    assert found == ["c", "b", "b", "b"] * 4
    keys = [key for kind, key in store.keys if kind == "get" and "/refs/" in key]
    assert len(keys) == len(set(keys))


@pytest.mark.usefixtures("writer")
def test_a_pack_that_is_listed_late_is_found_by_the_moves_of_its_ref(
    home: Path, store: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = store.list
    monkeypatch.setattr(
        store,
        "list",
        lambda prefix="", **options: iter(()) if prefix == layout.COMMITS else listing(prefix),
    )
    assert commits(opened(home, store), "main") == ["c", "b", "a", "Repository created"]


def test_a_repository_that_was_never_pushed_has_its_default_branch(
    home: Path, store: CountingStore, tmp_path: Path
) -> None:
    from lakecli.repository import repo

    lake = machine(tmp_path, "writer")
    lake.runtime = lake.runtime._replace(
        open_store=lambda _uri, _region: store, prepare_namespace=lambda _uri: ""
    )
    with lake:
        made = repo.create(lake, "demo", NAMESPACE)
        assert commits(opened(home, store), "main") == ["Repository created"]
        reader = opened(home, store)
        assert [each.commit_id for each in branch.iter_branches(reader)] == [
            rev_parse(made, "main").commit.id
        ]


def test_every_verb_that_writes_is_refused(
    writer: Repository, home: Path, store: CountingStore, tmp_path: Path
) -> None:
    reader = opened(home, store)
    file = tmp_path / "file"
    file.write_bytes(b"new")
    upload = UploadOptions()
    verbs: dict[str, Callable[[], object]] = {
        "commit": lambda: commit(reader, "main", message="m", committer="me"),
        "upload": lambda: upload_file(reader, "main", b"new", source=file, options=upload),
        "branch": lambda: branch.create(reader, "new", source="main"),
        "tag": lambda: tag.create(reader, "new", "main"),
        "delete": lambda: branch.delete(reader, "side"),
        "put": lambda: reader.store.put("data/x", b"", ANY),
        "URL": lambda: reader.store.presign(
            "x", PresignRequest("PUT", timedelta(minutes=1)), now=reader.lake.runtime.now()
        ),
    }
    branch.create(writer, "side", source="main")
    push(writer, "side", options=ME)
    before = {info.key: info.version for info in store.list()}
    for name, verb in verbs.items():
        with pytest.raises(Refused, match="without a clone") as refused:
            verb()
        assert refused.value.hint == (
            f"clone it, and change the clone: `clone {NAMESPACE} lakefs://NAME`"
        ), name
    assert {info.key: info.version for info in store.list()} == before


@pytest.mark.usefixtures("writer")
def test_a_ref_whose_commits_could_not_be_read_is_read_again(
    home: Path, store: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, get = opened(home, store), store.get

    def fails(key: str, **options: Any) -> bytes:
        monkeypatch.setattr(store, "get", get)
        raise Unreachable(f"the store does not answer: {key}")

    monkeypatch.setattr(store, "get", fails)
    with pytest.raises(Unreachable):
        commits(reader, "main")
    assert commits(reader, "main") == ["c", "b", "a", "Repository created"]
    assert [each.name for each in branch.iter_branches(reader)] == ["main"]


def test_a_handle_shows_one_state(writer: Repository, home: Path, store: CountingStore) -> None:
    reader = opened(home, store)
    first = rev_parse(reader, "main").commit.id
    make_commit(writer, b"d")
    push(writer, "main", options=ME)
    assert rev_parse(reader, "main").commit.id == first
    assert rev_parse(opened(home, store), "main").commit == rev_parse(writer, "main").commit


def test_a_deleted_branch_is_gone_and_a_merged_pack_is_found(
    writer: Repository, home: Path, store: CountingStore
) -> None:
    from lakecli.repository.push import push_deletion

    branch.create(writer, "old", source="main")
    push(writer, "old", options=ME)
    push_deletion(writer, "old", options=ME)
    for number in range(10):  # eight packs become one
        make_commit(writer, b"%d" % number)
        push(writer, "main", options=ME)
    replaced = [each for info in list_packs(store) for each in read_pack(store, info.id).replaces]
    assert len(replaced) >= 7
    store.delete(map(layout.pack_key, replaced))  # as garbage collection does
    reader = opened(home, store)
    assert commits(reader, "main") == commits(writer, "main")
    with pytest.raises(NotFound):
        rev_parse(reader, "old")


def test_what_the_bucket_holds_is_validated(
    writer: Repository, home: Path, store: CountingStore
) -> None:
    key = layout.ref_key(RefKind.BRANCH, "main")
    sound = store.get(key)
    other = store.get(layout.ref_key(RefKind.TAG, "v1"))
    for forged in (b"{}", b"\xff", b"[" * 100_000, other, sound + b" " * layout.MAX_REF_SIZE):
        store.put(key, forged, ANY)
        with pytest.raises(IntegrityError):
            rev_parse(opened(home, store), "main")
        reader = opened(home, store)
        assert list(branch.iter_branches(reader)) == []
        assert [notice.message for notice in reader.notices] == [reader.notices[0].message]
        assert "left out branch 'main'" in reader.notices[0].message
    store.put(key, sound, ANY)
    for info in list(store.list(layout.COMMITS)):
        store.put(info.key, b"no pack", ANY)
    reader = opened(home / "fresh", store)
    with pytest.raises(DamagedHistory):
        rev_parse(reader, "main")
    assert "left out pack" in reader.notices[0].message


def test_a_damaged_file_of_the_cache_is_replaced(
    writer: Repository, home: Path, store: CountingStore
) -> None:
    commits(opened(home, store), "main")
    packs = [file for file in (home / "cache").rglob("*") if file.is_file()]
    for file in packs:
        file.write_bytes(b"damaged")
    assert commits(opened(home, store), "main") == commits(writer, "main")


def test_a_namespace_without_a_repository_is_not_found(home: Path, store: CountingStore) -> None:
    with pytest.raises(NotFound, match="no repository in memory://bucket/ns"):
        opened(home, store)
    store.put(layout.LAKEFS_MARKER, layout.LAKEFS_MARKER_BODY, ANY)
    with pytest.raises(Refused, match="belongs to a lakeFS repository"):
        opened(home, store)


def test_the_library_opens_a_directory(tmp_path: Path) -> None:
    from lakecli.repository import repo

    with machine(tmp_path, "one") as lake:
        made = repo.create(lake, "demo", str(tmp_path / "ns"), range_entries=RANGE_ENTRIES)
        make_commit(made, b"a")
        push(made, "main", options=ME)
    home = tmp_path / "home"
    with lakecli.open_remote(str(tmp_path / "ns"), home=home) as demo, demo.reader("main") as found:
        entry = found.find(b"a")
        assert entry is not None
        assert b"".join(read_object(demo, entry)) == b"a"
        assert demo.at("main~1", "a@b") == f"local://{tmp_path}/ns@main~1/a@b"
    assert not (home / "store").exists()
