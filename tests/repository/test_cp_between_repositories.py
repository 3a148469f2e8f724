"""Copying and moving objects between repositories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.layout import data_key
from lakecli.base.model import Entry
from lakecli.committed.values import decode_entry
from lakecli.errors import IntegrityError, NotFound, PermissionDenied, UsageError
from lakecli.repository import cp_between_repositories, repo
from lakecli.repository.commit import commit
from lakecli.repository.cp_between_repositories import RepositoryPath, cp_across, cp_tree_across
from lakecli.repository.reading.addresses import OutsideAddress, remember, remembered
from lakecli.repository.reading.contents import read_object
from lakecli.repository.reading.view import open_view
from lakecli.repository.staged import stager
from lakecli.repository.staged.stager import NewAttributes, remove_unchanged
from lakecli.repository.undo.undo import undo
from lakecli.stores.contract import ANY, Attributes
from lakecli.stores.registry import open_store
from lakecli.stores.streams import PieceReader
from tests.support.lakes import START, checksums, entry_of, read, stage, stage_entries
from tests.support.memory_store import BUCKETS, MemoryBucket
from tests.support.recorded_progress import RecordedProgress

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.repository.contract import Repository
    from lakecli.repository.handle.lake import Lake
    from lakecli.stores.contract import ObjectStore

LARGE = b"0123456789abcdef" * (2 << 16)
TREE = {b"d/a": b"1", b"d/b/c": b"2", b"d/large": LARGE, b"z": b"5"}
MOVED = {b"to/a": b"1", b"to/b/c": b"2", b"to/large": LARGE}


@pytest.fixture
def source(repository: Repository) -> Repository:
    """A branch with half of `TREE` committed, and half of it staged."""
    stage(repository, "main", {path: TREE[path] for path in (b"d/a", b"d/large")})
    commit(repository, "main", message="first", committer="me")
    stage(repository, "main", {path: TREE[path] for path in (b"d/b/c", b"z")})
    return repository


@pytest.fixture
def target(lake: Lake, tmp_path: Path) -> Repository:
    return repo.create(lake, "other", str(tmp_path / "other"), range_entries=16)


def entry_at(repository: Repository, path: bytes) -> Entry:
    with open_view(repository, "main") as view:
        return view.entry(path)


def content(repository: Repository, path: bytes) -> bytes:
    return b"".join(read_object(repository, entry_at(repository, path)))


def test_copy_a_directory(source: Repository, target: Repository) -> None:
    progress = RecordedProgress()
    report = cp_tree_across(
        RepositoryPath(source, "main", b"d"),
        RepositoryPath(target, "main", b"to"),
        parallelism=2,
        progress=progress,
    )
    assert (report.objects, report.copied_by_store, report.failures) == (3, 0, [])
    assert read(target, "main") == checksums(MOVED)
    assert {path: content(target, path) for path in MOVED} == MOVED
    assert read(source, "main") == checksums(TREE)
    commit(target, "main", message="copied", committer="me")
    again = cp_tree_across(
        RepositoryPath(source, "main", b"d/"), RepositoryPath(target, "main", b"to/")
    )
    assert again.objects == 3  # which are there already, so that this is nothing to undo
    undo(target)
    undo(target)
    assert read(target, "main") == {}


def test_a_copy_is_the_same_entry(source: Repository, target: Repository) -> None:
    entry = entry_of(b"1")._replace(content_type="text/own", metadata={"k": "v"})
    stage_entries(source, "main", {b"e": entry})
    cp_across(RepositoryPath(source, "main", b"e"), RepositoryPath(target, "main", b"f"))
    assert entry_at(target, b"f") == entry
    changed = NewAttributes("text/new", {"n": "2"})
    cp_across(
        RepositoryPath(source, "main", b"e"),
        RepositoryPath(target, "main", b"f"),
        attributes=changed,
    )
    assert entry_at(target, b"f") == entry._replace(content_type="text/new", metadata={"n": "2"})


def test_a_copy_of_outside_bytes_is_served_as_they_were(
    source: Repository, target: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are below the target's namespace, so the target gets them."""
    monkeypatch.setitem(BUCKETS, "copied", MemoryBucket())
    outside = open_store("memory://copied/lake/in")
    version = outside.put("a", b"zipped", ANY, Attributes("text/x", content_encoding="gzip"))
    own = repo.create(target.lake, "in-memory", "memory://copied/lake", range_entries=16)
    remember(source, [outside.uri])
    stage_entries(source, "main", {b"e": Entry(f"{outside.uri}/a", 6, str(version), START)})
    cp_across(RepositoryPath(source, "main", b"e"), RepositoryPath(own, "main", b"f"))
    entry = entry_at(own, b"f")
    assert entry.physical_address == data_key(blake3_of(b"zipped").hex())
    assert (entry.content_type, entry.content_encoding) == ("text/x", "gzip")


def test_what_the_target_has_is_not_read(source: Repository, target: Repository) -> None:
    target.store.put(entry_of(LARGE).physical_address, LARGE, ANY)
    source.store.delete([entry_of(LARGE).physical_address])
    cp_across(RepositoryPath(source, "main", b"d/large"), RepositoryPath(target, "main", b"x"))
    assert content(target, b"x") == LARGE


def test_objects_that_fail_are_reported(source: Repository, target: Repository) -> None:
    source.store.put(entry_of(LARGE).physical_address, LARGE[:-1] + b"!", ANY)
    source.store.delete([entry_of(b"1").physical_address])
    places = RepositoryPath(source, "main", b"d"), RepositoryPath(target, "main", b"to")
    for moves in (False, True):
        report = cp_tree_across(*places, moves=moves)
        assert [path for path, _ in report.failures] == [b"d/a", b"d/large"]
        assert read(target, "main") == checksums({b"to/b/c": b"2"})
    assert read(source, "main") == checksums(TREE)
    digest = entry_of(LARGE).physical_address
    assert digest not in {info.key for info in target.store.list()}
    with pytest.raises(IntegrityError, match="damaged"):
        cp_across(
            RepositoryPath(source, "main", b"d/large"),
            RepositoryPath(target, "main", b"x"),
            moves=True,
        )
    with pytest.raises(NotFound, match="gone"):
        cp_across(RepositoryPath(source, "main", b"d/a"), RepositoryPath(target, "main", b"x"))
    assert read(source, "main") == checksums(TREE)


def test_move(source: Repository, target: Repository) -> None:
    cp_across(
        RepositoryPath(source, "main", b"z"), RepositoryPath(target, "main", b"new"), moves=True
    )
    report = cp_tree_across(
        RepositoryPath(source, "main", b"d"), RepositoryPath(target, "main", b"to"), moves=True
    )
    assert report.objects == 3
    assert read(source, "main") == {}
    assert read(target, "main") == checksums({**MOVED, b"new": b"5"})
    undo(source)
    assert read(source, "main") == checksums({path: TREE[path] for path in TREE if path != b"z"})
    assert set(read(target, "main")) == {*MOVED, b"new"}
    undo(target)
    undo(source)
    assert read(source, "main") == checksums(TREE)
    assert read(target, "main") == checksums({b"new": b"5"})


def test_a_crash_before_the_removal_leaves_both(
    source: Repository, target: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> int:
        raise KeyboardInterrupt

    places = RepositoryPath(source, "main", b"d"), RepositoryPath(target, "main", b"to")
    with monkeypatch.context() as patched:
        patched.setattr(stager, "remove_unchanged", crash)
        with pytest.raises(KeyboardInterrupt):
            cp_tree_across(*places, moves=True)
    assert read(source, "main") == checksums(TREE)
    assert read(target, "main") == checksums(MOVED)
    cp_tree_across(*places, moves=True)
    assert read(source, "main") == checksums({b"z": b"5"})
    assert read(target, "main") == checksums(MOVED)


def test_what_is_uploaded_meanwhile_stays(
    source: Repository, target: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove(*args: Any) -> int:
        stage(source, "main", {b"d/a": b"changed", b"d/new": b"new"})
        return remove_unchanged(*args)

    monkeypatch.setattr(stager, "remove_unchanged", remove)
    cp_tree_across(
        RepositoryPath(source, "main", b"d"), RepositoryPath(target, "main", b"to"), moves=True
    )
    left = {b"d/a": b"changed", b"d/new": b"new", b"z": b"5"}
    assert read(source, "main") == checksums(left)
    assert read(target, "main") == checksums(MOVED)


def test_the_store_copies_where_it_can(
    source: Repository, target: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copy(store: ObjectStore, key: str, to: ObjectStore, to_key: str) -> bool:
        to.put(to_key, store.get(key), ANY)
        return True

    monkeypatch.setattr(cp_between_repositories, "can_copy", lambda *_: True)
    monkeypatch.setattr(cp_between_repositories, "copy_across", copy)
    monkeypatch.setattr("lakecli.repository.reading.contents.read_object", None)  # none is read
    source.store.put(entry_of(b"2").physical_address, b"longer", ANY)
    source.store.delete([entry_of(b"1").physical_address])
    report = cp_tree_across(
        RepositoryPath(source, "main", b"d"), RepositoryPath(target, "main", b"to")
    )
    assert (report.objects, report.copied_by_store) == (1, 1)
    assert [path for path, _ in report.failures] == [b"d/a", b"d/b/c"]
    assert content(target, b"to/large") == LARGE


@pytest.mark.parametrize("answer", [False, None])
def test_what_the_store_does_not_copy_is_read(
    source: Repository, target: Repository, monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    def copy(*_: object) -> object:
        if answer is None:
            raise PermissionDenied("no")
        return answer

    monkeypatch.setattr(cp_between_repositories, "can_copy", lambda *_: True)
    monkeypatch.setattr(cp_between_repositories, "copy_across", copy)
    report = cp_tree_across(
        RepositoryPath(source, "main", b"d"), RepositoryPath(target, "main", b"to")
    )
    assert (report.objects, report.copied_by_store) == (3, 0)
    assert read(target, "main") == checksums(MOVED)


def test_objects_outside_stay_there(source: Repository, target: Repository, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "x").write_bytes(b"raw")
    address = f"local://{tmp_path}/raw/x"
    entry = entry_of(b"raw")._replace(physical_address=address)
    stage_entries(source, "main", {b"x": entry})
    places = RepositoryPath(source, "main", b"x"), RepositoryPath(target, "main", b"x")
    with pytest.raises(OutsideAddress):  # somebody else has named it
        cp_across(*places)
    remember(source, [f"local://{tmp_path}/raw"])
    cp_across(*places)
    assert entry_at(target, b"x") == entry
    assert content(target, b"x") == b"raw"
    with target.lake.kv.read() as txn:
        assert remembered(txn, target) == (f"local://{tmp_path}/raw",)


def test_objects_in_the_target_namespace_become_its_own(
    source: Repository, target: Repository, tmp_path: Path
) -> None:
    (tmp_path / "other" / "raw").write_bytes(b"raw")
    remember(source, [f"local://{tmp_path}/other"])
    entry = entry_of(b"raw")._replace(physical_address=f"local://{tmp_path}/other/raw")
    stage_entries(source, "main", {b"x": entry})
    cp_across(RepositoryPath(source, "main", b"x"), RepositoryPath(target, "main", b"x"))
    assert entry_at(target, b"x").physical_address == data_key(blake3_of(b"raw").hex())
    assert content(target, b"x") == b"raw"


def test_objects_with_other_names_get_ours(source: Repository, target: Repository) -> None:
    """As those of lakeFS: they are read, and their size is compared."""
    from hashlib import md5

    checksum = md5(LARGE, usedforsecurity=False).hexdigest()
    entry = entry_of(LARGE)._replace(
        physical_address="data/gk3/ca1", checksum=checksum, content_type="x/y", metadata={"k": "v"}
    )
    source.store.put(entry.physical_address, LARGE, ANY)
    stage_entries(source, "main", {b"x": entry})
    cp_across(RepositoryPath(source, "main", b"x"), RepositoryPath(target, "main", b"x"))
    made = entry_at(target, b"x")
    assert made == entry._replace(
        physical_address=data_key(blake3_of(LARGE).hex()), checksum=blake3_of(LARGE).hex()
    )
    source.store.put(entry.physical_address, LARGE + b"!", ANY)
    with pytest.raises(IntegrityError, match="damaged"):
        cp_across(RepositoryPath(source, "main", b"x"), RepositoryPath(target, "main", b"y"))
    with open_view(target, "main") as view:
        assert {path: decode_entry(value).checksum for path, value in view.scan()} == {
            b"x": blake3_of(LARGE).hex()
        }


def test_what_cannot_be_copied_stages_nothing(source: Repository, target: Repository) -> None:
    long = RepositoryPath(target, "main", b"x" * 1_022)
    with pytest.raises(UsageError):
        cp_tree_across(RepositoryPath(source, "main", b"d"), long)
    with pytest.raises(NotFound, match="no object"):
        cp_tree_across(
            RepositoryPath(source, "main", b"nope"), RepositoryPath(target, "main", b"to")
        )
    with pytest.raises(NotFound, match="no branch"):
        cp_tree_across(
            RepositoryPath(source, "main", b"d"), RepositoryPath(target, "nope", b"to"), moves=True
        )
    with pytest.raises(NotFound, match="no branch"):
        cp_across(
            RepositoryPath(source, "main@", b"d/a"),
            RepositoryPath(target, "main", b"to"),
            moves=True,
        )
    assert read(target, "main") == {}
    assert read(source, "main") == checksums(TREE)


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_a_stream_of_pieces_holds_back_the_last_one(size: int) -> None:
    def broken() -> object:
        yield from (b"ab", b"", b"cde", b"f")
        raise IntegrityError("wrong")

    whole = PieceReader(iter([b"ab", b"", b"cde", b"f"]))
    assert b"".join(iter(lambda: whole.read(size), b"")) == b"abcdef"
    reader = PieceReader(broken())  # type: ignore[arg-type]
    seen: list[bytes] = []
    with pytest.raises(IntegrityError):
        seen += iter(lambda: reader.read(size), b"")
    assert b"f" not in b"".join(seen)
    assert PieceReader(iter([b"ab", b"c"])).read() == b"abc"
