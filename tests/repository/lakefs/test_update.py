"""Newer commits of lakeFS come into a repository that has the older ones, again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.layout import sstable_key
from lakecli.base.model import CommitId, MergeStrategy, MetarangeId, RefKind
from lakecli.base.progress import NO_PROGRESS
from lakecli.committed.decisions import Decisions
from lakecli.errors import IntegrityError, NotFound, Refused
from lakecli.fsck.check import fsck
from lakecli.refs.graph import is_ancestor
from lakecli.refs.ref_store import RefStore
from lakecli.remote.refs import find_ref
from lakecli.repository import branch, tag
from lakecli.repository.clone import clone, clone_known
from lakecli.repository.commit import commit
from lakecli.repository.lakefs.kept_dumps import DUMPS, iter_kept
from lakecli.repository.lakefs.restore import RefState, Restored, clone_from_lakefs, update_refs
from lakecli.repository.merge import MergeOptions, merge
from lakecli.repository.push import PushOptions, push_all, push_deletion
from lakecli.repository.reading.view import open_view
from lakecli.repository.refs_dump import refs_dump
from lakecli.repository.undo.undo import redo, undo
from tests.repository.lakefs.test_restore import files, refs_of
from tests.support.clones import auto, machine
from tests.support.lakefs_server import LakeFs
from tests.support.lakes import open_lake, stage

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.repository.contract import Repository
    from lakecli.repository.handle.lake import Lake
    from lakecli.repository.lakefs.dump import RefsManifest

OPTIONS = PushOptions("me")


@pytest.fixture
def taken(lake: Lake, foreign: Path, manifest: RefsManifest) -> Repository:
    made = clone_from_lakefs(
        lake, str(foreign), "taken", manifest, take_over=True, range_entries=16
    ).repository
    push_all(made, OPTIONS)
    return made


@pytest.fixture
def server(taken: Repository, manifest: RefsManifest) -> LakeFs:
    return LakeFs(taken.trees, manifest)


@pytest.fixture
def trees(expected: dict[str, Any]) -> list[MetarangeId]:
    """Trees that lakeFS has written, for its next commits."""
    found = {each["meta_range_id"] for each in expected["commits"].values()}
    return [MetarangeId(each) for each in sorted(found) if each]


def work(repository: Repository, name: str, path: bytes) -> CommitId:
    stage(repository, name, {path: path})
    return commit(repository, name, message=path.decode(), committer="me").id


def states(updated: Restored) -> dict[str, RefState]:
    return {each.name: each.change for each in updated.updated}


def head(repository: Repository, name: str) -> CommitId:
    return branch.show(repository, name).commit_id


def reaches(repository: Repository, name: str, commit_id: CommitId) -> bool:
    with repository.lake.kv.read() as txn:
        return is_ancestor(RefStore(txn, repository.key), commit_id, head(repository, name))


def test_three_circles_with_work_on_both_sides(
    taken: Repository, server: LakeFs, trees: list[MetarangeId], tmp_path: Path
) -> None:
    for circle in range(3):
        work(taken, "main", b"ours/%d" % circle)
        branch.create(taken, f"ours-{circle}", source="main")
        push_all(taken, OPTIONS)
        server.restore(refs_dump(taken).manifest)  # there
        assert (server.branches, server.tags) == refs_of(taken)
        on_main = [server.commit("main", each) for each in trees[2 * circle : 2 * circle + 2]]
        on_dev = server.commit("dev", trees[-1 - circle])
        server.branches[f"theirs-{circle}"] = server.tags[f"t{circle}"] = on_main[0]
        mine = work(taken, "dev", b"dev/%d" % circle)  # and meanwhile here
        updated = update_refs(taken, server.dump())  # and back
        assert updated.commits == 3
        assert states(updated) == {
            "main": RefState.MOVED,
            "lakefs:dev": RefState.DIVERGED,
            f"theirs-{circle}": RefState.NEW,
            f"t{circle}": RefState.NEW,
        }
        assert head(taken, "main") == on_main[1]
        assert (head(taken, "dev"), head(taken, "lakefs:dev")) == (mine, on_dev)
        assert states(update_refs(taken, server.dump())) == {"lakefs:dev": RefState.DIVERGED}
        options = MergeOptions("me", decisions=Decisions(MergeStrategy.DEST_WINS), allow_empty=True)
        merge(taken, "lakefs:dev", "dev", options)
        branch.delete(taken, "lakefs:dev")
        assert reaches(taken, "dev", on_dev)
        assert update_refs(taken, server.dump()).updated == ()
        push_all(taken, OPTIONS)
        assert list(fsck(taken)) == []
    with machine(tmp_path / "elsewhere", "two") as lake:
        other = clone(lake, taken.record.storage_namespace, "other")
        assert refs_of(other) == refs_of(taken)
        assert all(reaches(other, "main", each) for each in on_main)
        assert list(fsck(other)) == []


def test_tags_are_taken_as_fetch_takes_them(
    taken: Repository, server: LakeFs, trees: list[MetarangeId]
) -> None:
    name, was = next(iter(server.tags.items()))
    new = server.commit("main", trees[0])
    server.tags |= {name: new, "new": new, "ours": new}
    branch.create(taken, "ours", source="main")
    updated = update_refs(taken, server.dump())
    assert {each: states(updated)[each] for each in (name, "new", "ours")} == {
        name: RefState.DIFFERS,
        "new": RefState.NEW,
        "ours": RefState.DIFFERS,
    }
    assert refs_of(taken)[1] | {name: was, "new": new} == refs_of(taken)[1]
    assert "ours" not in refs_of(taken)[1]


def test_a_branch_aside_follows_until_it_has_commits_of_its_own(
    taken: Repository, server: LakeFs, trees: list[MetarangeId]
) -> None:
    work(taken, "main", b"ours")
    tag.create(taken, "lakefs:feat", "main")
    work(taken, "feat", b"ours too")
    server.commit("feat", trees[0])
    first = server.commit("main", trees[0])
    updated = update_refs(taken, server.dump())
    assert states(updated) == {"lakefs:feat": RefState.DIFFERS, "lakefs:main": RefState.DIVERGED}
    assert head(taken, "lakefs:main") == first
    second = server.commit("main", trees[1])
    assert update_refs(taken, server.dump()).commits == 1
    assert head(taken, "lakefs:main") == second
    own = work(taken, "lakefs:main", b"on top")
    assert "lakefs:main" not in states(update_refs(taken, server.dump()))
    server.commit("main", trees[2])
    updated = update_refs(taken, server.dump())
    assert states(updated)["lakefs:main"] is RefState.DIFFERS
    assert head(taken, "lakefs:main") == own


def test_uncommitted_changes_stay_and_do_not_undo_what_came(
    taken: Repository, server: LakeFs, trees: list[MetarangeId]
) -> None:
    with open_view(taken, "main") as view:
        path, value = next(iter(view.scan()))
    stage(taken, "main", {b"mine": b"mine"})
    new = server.commit("main", next(each for each in trees if each != trees[0]))
    update_refs(taken, server.dump())
    assert head(taken, "main") == new
    made = commit(taken, "main", message="m", committer="me")
    assert made.parents == (new,)
    with open_view(taken, "main") as view:
        now = {key for key, _ in view.scan()}
    assert b"mine" in now
    assert path is not None
    assert value


def test_an_update_is_one_operation_that_undo_takes_back(
    taken: Repository, server: LakeFs, trees: list[MetarangeId]
) -> None:
    work(taken, "dev", b"ours")
    before = refs_of(taken)
    new = server.commit("main", trees[0])
    server.commit("dev", trees[1])
    server.tags["new"] = new
    update_refs(taken, server.dump())
    after = refs_of(taken)
    assert after != before
    undo(taken)
    assert refs_of(taken) == before
    redo(taken)
    assert refs_of(taken) == after
    undo(taken)
    assert set(states(update_refs(taken, server.dump()))) == {"main", "lakefs:dev", "new"}
    assert refs_of(taken) == after


def test_where_sharing_is_automatic_an_update_is_pushed_and_its_undo_too(
    taken: Repository, server: LakeFs, trees: list[MetarangeId]
) -> None:
    was, new = head(taken, "main"), server.commit("main", trees[0])
    with auto(taken) as (repository, _):
        update_refs(repository, server.dump())
    assert there(taken, "main") == new
    with auto(taken) as (repository, _):
        undo(repository, remote=True)
    assert there(taken, "main") == was


def there(repository: Repository, name: str) -> CommitId | None:
    found = find_ref(repository.store, RefKind.BRANCH, name)
    return None if found is None else found.commit_id


@pytest.mark.parametrize("step", ["commits", "restore", "keep-dump"])
def test_an_update_that_is_killed_is_finished_by_the_same_call(
    taken: Repository, server: LakeFs, trees: list[MetarangeId], step: str
) -> None:
    before = refs_of(taken)
    new = server.commit("main", trees[0])
    dump = server.dump()
    lake = taken.lake

    def stop(name: str) -> None:
        if name == step:
            raise KeyboardInterrupt

    runtime = lake.runtime
    lake.runtime = runtime._replace(on_step=stop)
    with pytest.raises(KeyboardInterrupt):
        update_refs(taken, dump)
    lake.runtime = runtime
    assert not list(taken.store.list(DUMPS))
    assert (refs_of(taken) == before) is (step != "keep-dump")
    update_refs(taken, dump)
    assert head(taken, "main") == new
    for _ in range(2):
        update_refs(taken, dump)
        (kept,) = iter_kept(taken.store, lake.runtime.now())
        assert (kept.by_lakefs, kept.lists) == (True, dump[:3])
    assert list(fsck(taken)) == []


def test_a_dump_that_lacks_something_changes_nothing(
    taken: Repository, server: LakeFs, foreign: Path, trees: list[MetarangeId]
) -> None:
    before = refs_of(taken)
    server.commit("main", MetarangeId("ab" * 32))
    with pytest.raises(IntegrityError, match="lacks the trees of 1 commits"):
        update_refs(taken, server.dump())
    with pytest.raises(NotFound, match="no refs dump"):
        update_refs(taken, None)
    assert refs_of(taken) == before
    assert not list(taken.store.list(DUMPS))


def test_trees_of_known_commits_may_have_been_collected(
    taken: Repository, server: LakeFs, foreign: Path, trees: list[MetarangeId]
) -> None:
    heads = {server.commits[each].metarange_id for each in server.branches.values()}
    old = next(each for each in trees if each not in heads)
    new = server.commit("main", next(iter(heads)))
    (foreign / sstable_key(old)).unlink()
    update_refs(taken, server.dump())
    assert head(taken, "main") == new


def test_a_borrowed_namespace_is_updated_without_writing_to_it(
    borrowed: Repository,
    foreign: Path,
    manifest: RefsManifest,
    trees: list[MetarangeId],
    lake: Lake,
) -> None:
    uri = borrowed.record.storage_namespace
    writer = LakeFs(lake.repository("borrowed").trees, manifest)
    new = writer.commit("main", trees[0])
    dump = writer.dump()
    before = files(foreign)
    found = clone_known(lake, uri, "borrowed", take_over=False, progress=NO_PROGRESS)
    assert found is not None
    assert states(update_refs(found[0], dump)) == {"main": RefState.MOVED}
    assert head(borrowed, "main") == new
    assert files(foreign) == before
    with pytest.raises(Refused, match="belongs to lakeFS") as caught:
        clone_known(lake, uri, "borrowed", take_over=True, progress=NO_PROGRESS)
    assert caught.value.hint is not None
    assert caught.value.hint.endswith(": `repo delete lakefs://borrowed`")
    assert clone_known(lake, uri, "again", take_over=False, progress=NO_PROGRESS) is None


def test_another_machine_clones_what_is_in_the_bucket_and_takes_what_lakefs_has(
    taken: Repository, server: LakeFs, trees: list[MetarangeId], tmp_path: Path
) -> None:
    ours = work(taken, "feat", b"ours")
    push_all(taken, OPTIONS)
    new = server.commit("main", trees[0])
    with open_lake(tmp_path / "b") as other:
        uri = taken.record.storage_namespace
        found = clone_known(other, uri, "theirs", take_over=False, progress=NO_PROGRESS)
        assert found is not None
        repository, made = found
        assert made is not None
        assert update_refs(repository, server.dump()).commits == 1
        assert (head(repository, "main"), head(repository, "feat")) == (new, ours)
        push_all(repository, OPTIONS)
    assert there(taken, "main") == new


def test_a_repository_that_was_never_pushed_is_filled(
    taken: Repository, server: LakeFs, tmp_path: Path
) -> None:
    for name in refs_of(taken)[0]:
        if name != "main":
            push_deletion(taken, name, options=OPTIONS)
    (tmp_path / "foreign" / "_lakecli" / "refs" / "branches" / "main").unlink()
    with open_lake(tmp_path / "b") as other:
        repository = clone(other, taken.record.storage_namespace, "empty")
        update_refs(repository, server.dump())
        assert refs_of(repository)[0] == server.branches
