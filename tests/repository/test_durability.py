"""Acknowledged writes survive a power cut: the order of writes, syncs, names and staging."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.layout import data_key
from lakecli.committed.values import decode_entry
from lakecli.engine.runner import LocalRunner
from lakecli.fsck.check import fsck
from lakecli.imports.job import import_objects
from lakecli.imports.report import ImportOptions
from lakecli.imports.sources import DirectorySource
from lakecli.kv.local_store import LocalStore as Kv
from lakecli.repository import branch, merge, repo, tag
from lakecli.repository.commit import commit
from lakecli.repository.merge import MergeOptions
from lakecli.repository.push import PushOptions, push_all
from lakecli.repository.transfer.ingest import SMALL
from lakecli.repository.transfer.walk import LinkPolicy
from lakecli.repository.upload import UploadOptions, deposit, upload_file, upload_stream
from lakecli.repository.upload_tree import upload_tree
from lakecli.stores.contract import ABSENT, ANY, Match
from lakecli.stores.local.files import FEW
from lakecli.stores.local.store import DirectoryStore
from tests.support.disk import Disk, after_each_commit

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.repository.contract import Repository
    from lakecli.repository.handle.lake import Lake

OPTIONS = UploadOptions()
COUNTS = [1, 2, 3, FEW, FEW + 1, 100]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    directory = tmp_path / "namespace"
    directory.mkdir(exist_ok=True)
    return directory


# The store itself


def test_every_put_is_durable_when_it_returns(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = DirectoryStore(str(root))
    disk = Disk(root, monkeypatch)
    version = store.put("a/b/c/new", b"1", ABSENT)
    disk.check("created in new directories")
    version = store.put("a/b/c/new", b"2", Match(version))
    disk.check("replaced")
    store.put("a/b/d/stream", io.BytesIO(bytes(3 << 20)), ANY)
    disk.check("a stream")
    assert store.put_new("a/e/new", b"1")
    disk.check("put_new")
    store.copy("a/b/c/new", "f/g/copy")
    disk.check("copied")


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", ["put_new", "put_content", "spool", "all", "damaged"])
@pytest.mark.parametrize("there", [True, False])
def test_every_flush_makes_all_files_durable(
    *, root: Path, monkeypatch: pytest.MonkeyPatch, count: int, kind: str, there: bool
) -> None:
    store = DirectoryStore(str(root))
    if there:
        for number in range(4):
            store.put(f"data/0{number}/there", b"", ANY)
    if kind == "damaged":
        for number in range(count):
            store.put(f"data/0{number % 4}/{number}", b"", ANY)
    disk = Disk(root, monkeypatch)
    batch = store.batch()
    for number in range(count):
        key = f"data/0{number % 4}/{number}"
        if kind == "put_new" or (kind == "all" and number % 3 == 0):
            batch.put_new(key, b"1" * number)
        elif kind in {"put_content", "damaged"} or (kind == "all" and number % 3 == 1):
            batch.put_content(key, b"body")
        else:
            temporary, stream = batch.spool()
            with stream:
                stream.write(b"2" * number)
            batch.adopt(key, temporary)
    batch.flush()
    disk.check(f"{count} files flushed")
    assert len(list(store.list())) == count + 4 * there
    # A new name in a directory whose name is durable.
    batch.put_new("data/00/later", b"later")
    batch.flush()
    disk.check("another flush")


def test_nothing_is_visible_before_its_contents_are_durable(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise another process could refer to an object that a power cut loses."""
    import os

    store = DirectoryStore(str(root))
    disk = Disk(root, monkeypatch)
    checked = []

    def then_check(name: str) -> None:
        real: Callable[..., None] = getattr(os, name)

        def call(*args: object, **where: object) -> None:
            real(*args, **where)
            losses = [each for each in disk.losses() if each.startswith("the contents")]
            assert not losses, losses
            checked.append(name)

        monkeypatch.setattr(os, name, call)

    then_check("link")
    then_check("rename")
    for count in COUNTS:
        batch = store.batch()
        for number in range(count):
            batch.put_content(f"data/{count}/{number}", b"1")
            temporary, stream = batch.spool()
            with stream:
                stream.write(b"2")
            batch.adopt(f"spools/{count}/{number}", temporary)
        batch.flush()
    store.put("a", b"1", ABSENT)
    store.put("a", b"2", ANY)
    assert set(checked) == {"link", "rename"}


# All ways to acknowledge a write


def test_staging_and_refs_refer_only_to_durable_objects(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, source = tmp_path / "namespace", tmp_path / "source"
    root.mkdir()
    disk = Disk(root, monkeypatch)
    repository = repo.create(lake, "demo", str(root), range_entries=16)
    disk.check("repo create")

    def check() -> None:
        disk.check("a transaction of the local store")
        missing = [each for each in fsck(repository) if each.kind in {"data", "range", "metarange"}]
        assert missing == []

    commits = after_each_commit(monkeypatch, check)
    for what, act in actions(repository, source).items():
        before = len(commits)
        act()
        disk.check(what)
        assert len(commits) > before, f"{what} writes nothing"
    assert list(fsck(repository, hash_data=True)) == []


def actions(repository: Repository, source: Path) -> dict[str, Callable[[], object]]:
    """Return the commands that acknowledge writes, in an order in which they can run."""
    for number in range(40):
        path = source / f"{number % 5}" / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(number))
    (source / "large").write_bytes(bytes(3 * SMALL))
    few = source / "3"
    larger = SMALL + 5

    def stream(path: bytes, size: int) -> object:
        body = io.BytesIO(path * (size // len(path)))
        return upload_stream(repository, "main", path, source=body, options=OPTIONS)

    def store_commit(name: str, message: str) -> object:
        return commit(repository, name, message=message, committer="me")

    def merge_side() -> object:
        stream(b"m", 30)
        store_commit("main", "main")
        upload_file(repository, "side", b"s", source=few / "3.txt", options=OPTIONS)
        store_commit("side", "side")
        return merge.merge(repository, "side", "main", MergeOptions(committer="me"))

    def deposit_one() -> None:
        body = io.BytesIO(b"nowhere else")
        entry = decode_entry(deposit(repository, "main", b"d", source=body, options=OPTIONS))
        assert repository.store.head(entry.physical_address).size == entry.size
        stream(b"e", larger)

    def import_all(path: bytes, *, copies: bool) -> None:
        outside = source.with_name(path.decode())
        outside.mkdir()
        for number in range(300):
            (outside / f"{number}").write_bytes(path * number)
        report = import_objects(
            repository,
            "main",
            path,
            source=DirectorySource(bytes(outside), LinkPolicy.FAIL, set()),
            runner=LocalRunner(),
            committer="me",
            options=ImportOptions(copies=copies),
        )
        assert report.ranges_written

    return {
        "upload of a small file": lambda: upload_file(
            repository, "main", b"small", source=few / "8.txt", options=OPTIONS
        ),
        "upload of a large file": lambda: upload_file(
            repository, "main", b"large", source=source / "large", options=OPTIONS
        ),
        "upload of a small stream": lambda: stream(b"a", 100),
        "upload of a large stream": lambda: stream(b"b", larger),
        "upload of a few files": lambda: upload_tree(
            repository, "main", b"few", source=few, options=OPTIONS
        ),
        "upload of many files": lambda: upload_tree(
            repository, "main", b"many", source=source, options=OPTIONS
        ),
        "the first commit": lambda: store_commit("main", "first"),
        "branch create": lambda: branch.create(repository, "side", source="main"),
        "tag create": lambda: tag.create(repository, "v1", "main"),
        "merge": merge_side,
        "push": lambda: push_all(repository, PushOptions(who="me")),
        "import": lambda: import_all(b"imported", copies=False),
        "import of copies": lambda: import_all(b"copied", copies=True),
        "deposit": deposit_one,
        "push again": lambda: (
            store_commit("main", "again"),
            push_all(repository, PushOptions(who="me")),
        ),
    }


@pytest.mark.parametrize("how", ["put_new", "file", "large file", "tree", "many"])
def test_an_upload_syncs_what_another_process_has_not_yet(
    repository: Repository, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """An object that is present is durable before anything refers to it."""
    source = tmp_path / "source"
    source.mkdir()
    size = SMALL + 1 if how == "large file" else 10
    count = FEW + 5 if how == "many" else 1
    bodies = [b"%d" % (number % 10) * (size + number) for number in range(count)]
    for number, body in enumerate(bodies):
        (source / f"{number}").write_bytes(body)
    namespace = root
    if how == "large file":  # its digest is remembered
        upload_file(repository, "main", b"first", source=source / "0", options=OPTIONS)
        (namespace / data_key(blake3_of(bodies[0]).hex())).unlink()
    disk = Disk(namespace, monkeypatch)
    for body in bodies:
        path = namespace / data_key(blake3_of(body).hex())
        Path(path.parent.parent).mkdir(exist_ok=True)
        if not path.parent.is_dir():
            os.mkdir(path.parent)  # noqa: PTH102 - seen by `Disk`
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
        os.write(descriptor, body)
        os.close(descriptor)
    assert disk.losses()
    checked = after_each_commit(monkeypatch, lambda: disk.check(how))
    if how == "put_new":
        assert not repository.store.put_new(data_key(blake3_of(bodies[0]).hex()), bodies[0])
        disk.check(how)
        return
    if "file" in how:
        upload_file(repository, "main", b"a", source=source / "0", options=OPTIONS)
    else:
        upload_tree(repository, "main", b"a", source=source, options=OPTIONS)
    assert checked


# The local store


def test_the_local_store_syncs_what_it_commits(tmp_path: Path) -> None:
    with Kv.open(tmp_path) as store:
        flags = store._environment._lmdb.flags()
    assert {name: flags[name] for name in ("sync", "metasync", "writemap", "map_async")} == {
        "sync": True,
        "metasync": True,
        "writemap": False,
        "map_async": False,
    }
