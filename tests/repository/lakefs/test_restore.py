"""A repository made of a refs dump reads as the lakeFS server that wrote the dump said."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.layout import sstable_key
from lakecli.base.model import RefKind
from lakecli.base.progress import NO_PROGRESS
from lakecli.committed.values import decode_entry
from lakecli.errors import (
    AlreadyExists,
    IntegrityError,
    NotFound,
    PermissionDenied,
    Refused,
    UsageError,
)
from lakecli.fsck.check import fsck
from lakecli.fsck.findings import FsckCounts
from lakecli.refs.history import iter_log
from lakecli.refs.ref_store import RefStore
from lakecli.remote.refs import find_ref
from lakecli.repository import repo
from lakecli.repository.clone import clone_known
from lakecli.repository.commit import commit
from lakecli.repository.commit_attempts import initial_commit
from lakecli.repository.diff import diff_refs
from lakecli.repository.guard import GcGuard, Gone, claim_trees
from lakecli.repository.handle.lake import Lake, iter_repositories
from lakecli.repository.handle.namespace import NamespaceTaken, origin_of
from lakecli.repository.lakefs.dump import (
    BadDump,
    LeftOut,
    format_manifest,
    parse_manifest,
    read_dump,
)
from lakecli.repository.lakefs.kept_dumps import find_take_over
from lakecli.repository.lakefs.restore import clone_from_lakefs, restore_refs
from lakecli.repository.log import LogOptions, log
from lakecli.repository.push import PushOptions, push
from lakecli.repository.reading.contents import read_object
from lakecli.repository.reading.view import open_view
from lakecli.repository.refs_dump import refs_dump, write_dump
from lakecli.repository.sharing.fetch import fetch
from lakecli.repository.undo.undo import redo, undo
from tests.support.clones import machine, synced
from tests.support.lakefs_files import log_children_first
from tests.support.lakes import Numbered, open_lake, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from lakecli.base.model import CommitId, Entry
    from lakecli.repository.contract import Repository
    from lakecli.repository.lakefs.dump import RefsManifest


def files(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def refs_of(repository: Repository) -> tuple[dict[str, CommitId], dict[str, CommitId]]:
    with repository.lake.kv.read() as txn:
        refs = RefStore(txn, repository.key)
        return (
            {branch.name: branch.commit_id for branch in refs.iter_branches()},
            {tag.name: tag.commit_id for tag in refs.iter_tags()},
        )


def test_every_ref_commit_and_log_is_as_the_server_said(
    borrowed: Repository, expected: dict[str, Any]
) -> None:
    branches, tags = refs_of(borrowed)
    assert branches == expected["branches"]
    assert tags == expected["tags"]
    assert borrowed.record.default_branch == "main"
    with borrowed.lake.kv.read() as txn:
        refs = RefStore(txn, borrowed.key)
        assert {commit.id for commit in refs.iter_commits()} == set(expected["commits"])
        for ref, said in expected["log"].items():
            found = [commit.id for commit in iter_log(refs, said[0])]
            assert found == log_children_first(expected, ref), ref
        for commit in refs.iter_commits():
            said = expected["commits"][commit.id]
            assert list(commit.parents) == said["parents"]
            assert commit.generation == said["generation"]
            assert commit.compute_id() == commit.id
    roots = [each["creation_date"] for each in expected["commits"].values() if not each["parents"]]
    assert borrowed.record.created_at.timestamp() == min(roots)


def test_every_entry_of_every_ref_is_as_the_server_said(
    borrowed: Repository, expected: dict[str, Any]
) -> None:
    for ref, entries in expected["entries"].items():
        with open_view(borrowed, ref) as view:
            found = [(os.fsdecode(path), decode_entry(value)) for path, value in view.scan()]
        assert [path for path, _ in found] == [each["path"] for each in entries]
        assert [entry.checksum for _, entry in found] == [each["checksum"] for each in entries]


def test_every_difference_and_log_is_as_the_server_said(
    borrowed: Repository, expected: dict[str, Any]
) -> None:
    compared = 0
    for left, right, kind, changes in expected["diffs"]:
        with diff_refs(borrowed, left, right, two_way=kind != "three_dot") as found:
            assert [[each.type.value, os.fsdecode(each.path)] for each in found] == changes
        compared += len(changes)
    assert compared > 10_000
    for ref in expected["log"]:
        with log(borrowed, ref, LogOptions()) as commits:
            assert [commit.id for commit in commits] == log_children_first(expected, ref), ref


def test_nothing_is_written_to_a_borrowed_namespace(
    lake: Lake, foreign: Path, manifest: RefsManifest
) -> None:
    before = files(foreign)
    made = clone_from_lakefs(lake, str(foreign), "borrowed", manifest, range_entries=16)
    assert list(fsck(made.repository)) == []
    assert files(foreign) == before


def an_object(repository: Repository) -> Entry:
    """Return an entry whose object a lakeFS server uploaded whole."""
    with open_view(repository, "main") as view:
        entries = [decode_entry(value) for _, value in view.scan()]
    return next(
        entry
        for entry in entries
        if entry.size and len(entry.checksum) == 32 and "://" not in entry.physical_address
    )


def replace_file(path: Path, data: bytes) -> None:
    path.unlink()  # it is a link to a file that other tests read
    path.write_bytes(data)


def test_fsck_compares_the_objects_of_lakefs_with_their_checksums(
    borrowed: Repository, foreign: Path
) -> None:
    counts = FsckCounts()
    assert list(fsck(borrowed, hash_data=True, counts=counts)) == []
    assert counts.bytes_hashed > 0
    assert counts.unverified == 0
    entry = an_object(borrowed)
    path = foreign / entry.physical_address
    replace_file(path, bytes(entry.size))
    assert list(fsck(borrowed)) == []
    # The object may have been uploaded in parts, or encrypted by the bucket: its checksum proves no
    # damage.
    counts = FsckCounts()
    assert list(fsck(borrowed, hash_data=True, counts=counts)) == []
    assert counts.unverified == 1
    assert b"".join(read_object(borrowed, entry)) == bytes(entry.size)
    replace_file(path, bytes(entry.size + 1))
    with pytest.raises(IntegrityError, match="damaged"):
        list(read_object(borrowed, entry))
    assert {each.what for each in fsck(borrowed)} == {
        f"{entry.size + 1} bytes where the entry says {entry.size}"
    }
    path.unlink()
    assert {each.what for each in fsck(borrowed)} == {"missing"}


def test_commits_on_a_borrowed_namespace_stay_on_this_machine(
    borrowed: Repository, foreign: Path
) -> None:
    before = files(foreign)
    branch_head = refs_of(borrowed)[0]["main"]
    stage(borrowed, "main", {b"new": b"contents", b"a/new": b"others"})
    made = commit(borrowed, "main", message="on top", committer="c")
    assert made.parents == (branch_head,)
    with open_view(borrowed, "main") as view:
        found = view.find(b"new")
    assert found is not None
    assert b"".join(read_object(borrowed, decode_entry(found))) == b"contents"
    assert list(fsck(borrowed, hash_data=True)) == []
    assert files(foreign) == before
    with pytest.raises(Refused, match="belongs to lakeFS") as pushed:
        push(borrowed, "main", options=PushOptions("me"))
    with pytest.raises(Refused, match="belongs to lakeFS"):
        fetch(borrowed)
    with pytest.raises(Refused, match="belongs to lakeFS") as dumped:
        refs_dump(borrowed)
    for error in (pushed.value, dumped.value):
        assert error.hint is not None
        assert error.hint.endswith(f"with `take_over=True`: `repo delete {borrowed.uri}`")


def test_the_manifest_in_the_namespace_is_found(
    lake: Lake, foreign: Path, manifest: RefsManifest
) -> None:
    with pytest.raises(NotFound, match="no refs dump"):
        clone_from_lakefs(lake, str(foreign), "borrowed", None, range_entries=16)
    (foreign / "_lakefs/refs_manifest.json").write_bytes(format_manifest(manifest))
    made = clone_from_lakefs(lake, str(foreign), "borrowed", None, range_entries=16)
    assert made.branches == 4


def test_the_wrapper_of_the_support_script_names_the_default_branch(
    lake: Lake, foreign: Path, manifest: RefsManifest
) -> None:
    wrapped = {
        "repository": {"name": "x", "storage_namespace": "local://x", "default_branch": "dev"},
        "refs": json.loads(format_manifest(manifest)),
    }
    read = parse_manifest(json.dumps(wrapped).encode())
    made = clone_from_lakefs(lake, str(foreign), "borrowed", read, range_entries=16)
    assert made.repository.record.default_branch == "dev"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"refs": {}}', '{"commits_meta_range_id": "../x"}', '{"refs": [1]}']
)
def test_a_text_that_is_no_manifest_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not the manifest of a refs dump"):
        parse_manifest(text.encode())


@pytest.mark.parametrize("missing", ["commits", "branches", "tags"])
def test_a_dump_with_a_missing_list_leaves_nothing_behind(
    lake: Lake, foreign: Path, manifest: RefsManifest, missing: str
) -> None:
    (foreign / "_lakefs" / getattr(manifest, missing)).unlink()
    with pytest.raises(BadDump):
        clone_from_lakefs(lake, str(foreign), "borrowed", manifest, range_entries=16)
    with lake.kv.read() as txn:
        assert list(iter_repositories(txn)) == []


def test_lists_that_changed_places_are_refused(
    lake: Lake, foreign: Path, manifest: RefsManifest
) -> None:
    swapped = manifest._replace(commits=manifest.branches)
    with pytest.raises(BadDump, match="does not list commit records"):
        clone_from_lakefs(lake, str(foreign), "borrowed", swapped, range_entries=16)


def test_a_tree_of_objects_is_no_list(
    lake: Lake, foreign: Path, manifest: RefsManifest, expected: dict[str, Any]
) -> None:
    tree = next(c["meta_range_id"] for c in expected["commits"].values() if c["meta_range_id"])
    with pytest.raises(BadDump, match="does not list commit records"):
        clone_from_lakefs(
            lake, str(foreign), "borrowed", manifest._replace(commits=tree), range_entries=16
        )


def test_a_missing_tree_of_a_commit_is_named(
    lake: Lake, foreign: Path, manifest: RefsManifest, expected: dict[str, Any]
) -> None:
    tree = next(c["meta_range_id"] for c in expected["commits"].values() if c["meta_range_id"])
    (foreign / "_lakefs" / tree).unlink()
    with pytest.raises(IntegrityError, match=tree):
        clone_from_lakefs(lake, str(foreign), "borrowed", manifest, range_entries=16)


def test_a_default_branch_that_the_dump_lacks_is_refused(
    lake: Lake, foreign: Path, manifest: RefsManifest
) -> None:
    with pytest.raises(NotFound, match="branch 'trunk'; its branches: dev, feat"):
        clone_from_lakefs(
            lake, str(foreign), "borrowed", manifest, default_branch="trunk", range_entries=16
        )


def test_a_namespace_is_cloned_once(borrowed: Repository, manifest: RefsManifest) -> None:
    with pytest.raises(AlreadyExists):
        clone_from_lakefs(
            borrowed.lake, borrowed.record.storage_namespace, "again", manifest, range_entries=16
        )


def test_taking_over_claims_the_namespace_with_its_origin(
    lake: Lake, foreign: Path, manifest: RefsManifest
) -> None:
    made = clone_from_lakefs(
        lake, str(foreign), "taken", manifest, take_over=True, range_entries=16
    )
    claim = json.loads((foreign / "_lakecli/repository.json").read_bytes())
    assert claim["uuid"] == made.repository.record.uuid
    assert claim["origin"]["commits_meta_range_id"] == manifest.commits
    assert not made.repository.record.is_borrowed
    repo.delete(lake, "taken")
    with pytest.raises(Refused, match="is a repository of lakecli already"):
        clone_from_lakefs(lake, str(foreign), "again", manifest, range_entries=16)


def test_a_dump_goes_out_and_comes_in_with_equal_ids(
    lake: Lake, foreign: Path, manifest: RefsManifest, expected: dict[str, Any]
) -> None:
    taken = clone_from_lakefs(
        lake, str(foreign), "taken", manifest, take_over=True, range_entries=16
    ).repository
    branches, tags = refs_of(taken)
    with lake.kv.read() as txn:
        commits = list(RefStore(txn, taken.key).iter_commits())
    written = write_dump(
        taken.trees, commits=commits, branches=branches, tags=tags, default_branch="main"
    )
    (foreign / "_lakecli/repository.json").unlink()
    repo.delete(lake, "taken")
    again = clone_from_lakefs(lake, str(foreign), "again", written, range_entries=16).repository
    assert refs_of(again) == (branches, tags)
    with lake.kv.read() as txn:
        assert list(RefStore(txn, again.key).iter_commits()) == commits


def test_refs_are_restored_into_an_empty_repository_only(
    repository: Repository, borrowed: Repository
) -> None:
    with repository.lake.kv.read() as txn:
        commits = [
            commit for commit in RefStore(txn, borrowed.key).iter_commits() if not commit.parents
        ]
    written = write_dump(
        repository.trees,
        commits=commits,
        branches={"main": commits[0].id, "dev": commits[0].id},
        tags={},
        default_branch="main",
    )
    assert restore_refs(repository, written).branches == 2
    assert refs_of(repository)[0] == {"main": commits[0].id, "dev": commits[0].id}
    with pytest.raises(Refused, match="is not empty"):
        restore_refs(repository, written)


def test_the_redo_of_a_restore_is_shared_as_the_restore_would_have_been(
    repository: Repository, borrowed: Repository
) -> None:
    """Nobody ever pushed the default branch, which the restore had moved with sync = manual."""
    with repository.lake.kv.read() as txn:
        (first,) = (
            commit for commit in RefStore(txn, borrowed.key).iter_commits() if not commit.parents
        )
    written = write_dump(
        repository.trees,
        commits=[first],
        branches={"main": first.id},
        tags={},
        default_branch="main",
    )
    restore_refs(repository, written)
    for act in (undo, redo):
        sharing = synced(repository, "me")
        sharing.catch_up()
        act(sharing.repository)
        sharing.finish()
    ref = find_ref(repository.store, RefKind.BRANCH, "main")
    assert ref is not None
    assert ref.commit_id == first.id


def test_a_take_over_that_was_interrupted_is_finished_by_the_same_call(
    tmp_path: Path, foreign: Path, manifest: RefsManifest
) -> None:
    def stop(name: str) -> None:
        if name == "register":
            raise KeyboardInterrupt

    with open_lake(tmp_path / "a", on_step=stop) as lake, pytest.raises(KeyboardInterrupt):
        clone_from_lakefs(lake, str(foreign), "x", manifest, take_over=True, range_entries=16)
    claim = json.loads((foreign / "_lakecli/repository.json").read_bytes())
    with open_lake(tmp_path / "b") as other, pytest.raises(Refused):
        clone_from_lakefs(other, str(foreign), "x", manifest, take_over=True, range_entries=16)
    with open_lake(tmp_path / "a") as lake:
        made = clone_from_lakefs(
            lake, str(foreign), "x", manifest, take_over=True, range_entries=16
        ).repository
        assert made.record.uuid == claim["uuid"]
        assert refs_of(made)[0]


def test_a_namespace_is_not_borrowed_while_this_machine_takes_it_over(
    tmp_path: Path, foreign: Path, manifest: RefsManifest
) -> None:
    def stop(name: str) -> None:
        if name == "claim":
            raise KeyboardInterrupt

    with open_lake(tmp_path / "a", on_step=stop) as lake, pytest.raises(KeyboardInterrupt):
        clone_from_lakefs(lake, str(foreign), "x", manifest, take_over=True, range_entries=16)
    with open_lake(tmp_path / "a") as lake:
        with pytest.raises(Refused, match="this machine is taking over"):
            clone_from_lakefs(lake, str(foreign), "x", manifest, range_entries=16)
        made = clone_from_lakefs(
            lake, str(foreign), "x", manifest, take_over=True, range_entries=16
        )
        assert not made.repository.record.is_borrowed


def test_a_second_take_over_on_one_machine_does_not_lose_the_first_one(
    tmp_path: Path, foreign: Path, manifest: RefsManifest
) -> None:
    """The second one begins before the first one has claimed; then the first one is killed."""

    def second(name: str) -> None:
        if name == "claim":
            with pytest.raises(KeyboardInterrupt):
                clone_from_lakefs(
                    through(stop_at("claim")),
                    str(foreign),
                    "y",
                    manifest,
                    take_over=True,
                    range_entries=16,
                )
        if name == "register":
            raise KeyboardInterrupt

    def stop_at(step: str) -> Callable[[str], None]:
        def stop(name: str) -> None:
            if name == step:
                raise KeyboardInterrupt

        return stop

    with open_lake(tmp_path / "a", new_id=Numbered("a"), on_step=second) as lake:

        def through(on_step: Callable[[str], None]) -> Lake:
            return Lake(lake.home, lake.kv, lake.runtime._replace(on_step=on_step))

        with pytest.raises(KeyboardInterrupt):
            clone_from_lakefs(lake, str(foreign), "x", manifest, take_over=True, range_entries=16)
        claim = json.loads((foreign / "_lakecli/repository.json").read_bytes())
        made = clone_from_lakefs(
            through(lambda _name: None),
            str(foreign),
            "x",
            manifest,
            take_over=True,
            range_entries=16,
        )
        assert made.repository.record.uuid == claim["uuid"]


def test_a_namespace_is_borrowed_after_a_creation_that_lakefs_refused(
    lake: Lake, foreign: Path, manifest: RefsManifest
) -> None:
    with pytest.raises(NamespaceTaken, match="belongs to a lakeFS repository"):
        repo.create(lake, "x", str(foreign))
    made = clone_from_lakefs(lake, str(foreign), "x", manifest, range_entries=16)
    assert made.repository.record.is_borrowed


def test_a_namespace_is_cloned_after_a_take_over_that_another_machine_won(
    lake: Lake, tmp_path: Path, foreign: Path, manifest: RefsManifest
) -> None:
    pending = ["claim"]

    def on_step(name: str) -> None:
        if name in pending:
            pending.clear()
            with machine(tmp_path, "faster") as faster:
                clone_from_lakefs(
                    faster, str(foreign), "x", manifest, take_over=True, range_entries=16
                )

    lake.runtime = lake.runtime._replace(on_step=on_step)
    with pytest.raises(NamespaceTaken):
        clone_from_lakefs(lake, str(foreign), "x", manifest, take_over=True, range_entries=16)
    assert clone_known(lake, str(foreign), "x", take_over=False, progress=NO_PROGRESS) is not None


def test_a_take_over_is_dated_by_the_clock_of_the_bucket(
    lake: Lake, foreign: Path, manifest: RefsManifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another clock, garbage collection would take the namespace for a copy."""
    there = lake.runtime.now() + timedelta(days=3, microseconds=5)
    monkeypatch.setattr("lakecli.repository.lakefs.restore.store_time", lambda _: there)
    made = clone_from_lakefs(lake, str(foreign), "x", manifest, take_over=True, range_entries=16)
    origin = origin_of(made.repository.store)
    assert origin is not None
    assert origin["recorded_at"] == there.isoformat()
    assert find_take_over(made.repository.store) is not None


def test_a_take_over_that_is_not_permitted_leaves_the_namespace_to_borrow(
    lake: Lake, foreign: Path, manifest: RefsManifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionDenied("read-only")

    monkeypatch.setattr("lakecli.repository.handle.namespace.take_over", refuse)
    with pytest.raises(PermissionDenied):
        clone_from_lakefs(lake, str(foreign), "x", manifest, take_over=True, range_entries=16)
    made = clone_from_lakefs(lake, str(foreign), "x", manifest, range_entries=16)
    assert made.repository.record.is_borrowed


def test_a_clone_that_fails_leaves_no_directory(
    lake: Lake, foreign: Path, manifest: RefsManifest
) -> None:
    (foreign / "_lakefs" / manifest.tags).unlink()
    with pytest.raises(BadDump):
        clone_from_lakefs(lake, str(foreign), "x", manifest, range_entries=16)
    assert not Path(lake.home.store).with_name("objects").exists()


def test_a_tag_with_the_name_of_a_branch_and_an_odd_date_do_no_harm(repository: Repository) -> None:
    first = initial_commit(datetime(1901, 1, 1, tzinfo=UTC))
    written = write_dump(
        repository.trees,
        commits=[first],
        branches={"main": first.id},
        tags={"main": first.id, "v1": first.id},
        default_branch="main",
    )
    dump = read_dump(repository.trees, written)
    assert dump.created_at is None
    assert (dict(dump.tags), dump.left_out) == (
        {"v1": first.id},
        (LeftOut(RefKind.TAG, "main", first.id),),
    )


def test_restored_trees_are_claimed_from_garbage_collection(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage(repository, "main", {b"a": b"1"})
    made = commit(repository, "main", message="m", committer="c")
    with repository.lake.kv.read() as txn:
        commits = sorted(RefStore(txn, repository.key).iter_commits(), key=lambda each: each.id)
    written = write_dump(
        repository.trees,
        commits=commits,
        branches={"main": made.id},
        tags={},
        default_branch="main",
    )
    claimed: list[str] = []

    def claim(_guard: GcGuard, keys: Collection[str]) -> Mapping[str, int]:
        claimed.extend(keys)
        return dict.fromkeys(keys, 1)

    monkeypatch.setattr(GcGuard, "begin", lambda _guard: True)
    monkeypatch.setattr(GcGuard, "claim", claim)
    undo(repository)  # the commit
    undo(repository)  # what was staged
    claimed.clear()
    restore_refs(repository, written)
    assert sstable_key(made.metarange_id) in claimed
    monkeypatch.setattr(GcGuard, "claim", lambda _guard, _keys: {})
    with pytest.raises(Gone, match="trees are no longer in"):
        claim_trees(repository, [made.metarange_id])
