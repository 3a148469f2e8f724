"""A namespace as people have it, ``wild-1``, is read as the lakeFS server said."""

from __future__ import annotations

import json
import os
from hashlib import md5, sha256
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.model import RefKind
from lakecli.committed.values import decode_entry
from lakecli.errors import NotFound
from lakecli.fsck.check import fsck
from lakecli.fsck.findings import FsckCounts
from lakecli.refs.history import iter_log
from lakecli.refs.ref_store import RefStore
from lakecli.repository.branch import reset
from lakecli.repository.cherry_pick import cherry_pick
from lakecli.repository.clone import clone as clone_bucket
from lakecli.repository.commit import commit
from lakecli.repository.download_tree import download_tree
from lakecli.repository.lakefs.dump import LeftOut, Reason, read_dump
from lakecli.repository.lakefs.restore import RefState, Restored, clone_from_lakefs, update_refs
from lakecli.repository.merge import MergeOptions, merge
from lakecli.repository.push import PushOptions, push, push_all
from lakecli.repository.reading import lakefs_digests
from lakecli.repository.reading.contents import read_object
from lakecli.repository.reading.view import open_view
from lakecli.repository.refs_dump import Loss, refs_dump
from lakecli.repository.repo import delete
from lakecli.repository.sharing.references import NotInBucket
from lakecli.repository.undo import log as operation_log
from lakecli.repository.upload import UploadOptions
from lakecli.repository.upload_tree import upload_tree
from tests.repository.lakefs.test_restore import files, refs_of
from tests.support.lakefs_entries import stage_values
from tests.support.lakes import open_lake, stage

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.base.model import CommitId
    from lakecli.repository.contract import Repository
    from lakecli.repository.handle.lake import Lake
    from tests.repository.lakefs.conftest import Wild

DUMPS = (1, 2, 3, 4)


def clone(lake: Lake, wild: Wild, number: int, *, take_over: bool = False) -> Repository:
    return clone_from_lakefs(
        lake,
        str(wild.directory),
        "wild",
        wild.manifest(number),
        take_over=take_over,
        range_entries=16,
    ).repository


@pytest.fixture(params=DUMPS)
def borrowed(request: pytest.FixtureRequest, lake: Lake, wild: Wild) -> Repository:
    return clone(lake, wild, request.param)


def dump_of(wild: Wild, repository: Repository) -> dict[str, Any]:
    """Return what the server said of the dump that a repository was made of."""
    branches = refs_of(repository)[0]
    found = (
        each
        for number, each in wild.expected["dumps"].items()
        if branches.items() <= each["branches"].items()
        and each["branches"].keys() - branches.keys()
        == set(wild.expected["states"]["broken"][number])
    )
    return dict(next(found))


def test_refs_commits_and_logs_are_as_the_server_said(borrowed: Repository, wild: Wild) -> None:
    said = dump_of(wild, borrowed)
    branches, tags = refs_of(borrowed)
    assert tags == said["tags"]
    with borrowed.lake.kv.read() as txn:
        refs = RefStore(txn, borrowed.key)
        commits = {each.id: each for each in refs.iter_commits()}
        for id_, each in commits.items():
            recorded = wild.expected["commits"].get(id_)
            if recorded is None:
                continue  # of a transaction whose branch is deleted: no ref reaches it
            assert each.message == recorded["message"]
            assert dict(each.metadata) == (recorded["metadata"] or {})
            assert list(each.parents) == recorded["parents"]
            assert each.generation == recorded["generation"]
            assert each.compute_id() == id_
        reached = {each.id for head in branches.values() for each in iter_log(refs, head)}
        assert reached <= wild.expected["commits"].keys()
        for head in {*branches.values(), *tags.values()}:
            log = [each.id for each in iter_log(refs, head)]
            assert log == wild.expected["logs"][head]


def test_the_dumps_together_have_every_commit(lake: Lake, wild: Wild) -> None:
    trees = clone(lake, wild, 1).trees
    found: set[CommitId] = set()
    for number in DUMPS:
        found |= read_dump(trees, wild.manifest(number)).commits.keys()
    assert found > wild.expected["commits"].keys()
    # delta-rs deletes the branches of its transactions; no ref reaches their commits.
    assert len(found) == len(wild.expected["commits"]) + 2


def test_entries_and_bytes_of_every_commit_are_as_the_server_said(lake: Lake, wild: Wild) -> None:
    borrowed = clone(lake, wild, 4)
    with borrowed.lake.kv.read() as txn:
        commits = {each.id for each in RefStore(txn, borrowed.key).iter_commits()}
    assert commits > wild.expected["commits"].keys()
    digests: dict[str, str] = {}
    gone: set[str] = set()
    for id_, said in wild.expected["entries"].items():
        with open_view(borrowed, id_) as view:
            found = [(os.fsdecode(path), decode_entry(value)) for path, value in view.scan()]
        assert [path for path, _ in found] == [each["path"] for each in said]
        for (_, entry), each in zip(found, said, strict=True):
            assert entry.size == each["size_bytes"]
            assert entry.checksum == each["checksum"]
            assert entry.content_type == each["content_type"]
            assert dict(entry.metadata) == (each["metadata"] or {})
            assert int(entry.modified_at.timestamp()) == each["mtime"]
            assert entry.physical_address == each["physical_address"]
            if each["sha256"] == "gone":
                with pytest.raises(NotFound, match="the data object is gone"):
                    list(read_object(borrowed, entry))
                gone.add(entry.physical_address)
                continue
            if entry.physical_address not in digests:
                data = b"".join(read_object(borrowed, entry))
                digests[entry.physical_address] = sha256(data).hexdigest()
                is_md5 = md5(data, usedforsecurity=False).hexdigest() == entry.checksum
                assert is_md5 == each["checksum_is_md5"]
            assert digests[entry.physical_address] == each["sha256"]
    assert gone == set(wild.expected["states"]["gone_addresses"])


def test_a_branch_whose_commit_is_missing_is_left_out_and_named(lake: Lake, wild: Wild) -> None:
    made = clone_from_lakefs(lake, str(wild.directory), "wild", wild.manifest(4), range_entries=16)
    said = wild.expected["dumps"]["4"]["branches"]
    (name,) = wild.expected["states"]["broken"]["4"]
    assert made.left_out == (LeftOut(RefKind.BRANCH, name, said[name], Reason.NO_COMMIT),)
    assert refs_of(made.repository)[0] == {n: said[n] for n in said if n != name}


def test_a_broken_default_branch_is_named(lake: Lake, wild: Wild) -> None:
    with pytest.raises(NotFound, match="'hot' was left out, at 4af74575"):
        clone_from_lakefs(
            lake,
            str(wild.directory),
            "wild",
            wild.manifest(4),
            default_branch="hot",
            range_entries=16,
        )


def checked(repository: Repository) -> FsckCounts:
    """Return the counts of a check of all bytes that finds no problem."""
    counts = FsckCounts()
    assert list(fsck(repository, hash_data=True, counts=counts)) == []
    return counts


def test_objects_uploaded_in_parts_are_verified_by_usual_sizes_of_parts(
    lake: Lake, wild: Wild, monkeypatch: pytest.MonkeyPatch
) -> None:
    borrowed = clone(lake, wild, 3)
    counts = checked(borrowed)
    assert counts.unverified == 0
    assert counts.bytes_hashed > 24 << 20
    monkeypatch.setattr(lakefs_digests, "PART_SIZES", ())
    assert checked(borrowed).unverified == len(wild.expected["states"]["multipart"])


def test_a_download_and_an_upload_of_the_same_change_nothing(
    lake: Lake, wild: Wild, tmp_path: Path
) -> None:
    borrowed = clone(lake, wild, 3)
    target = tmp_path / "copy"
    assert download_tree(borrowed, "main", b"parts/", target=target).downloaded == 2
    assert download_tree(borrowed, "main", b"parts/", target=target).unchanged == 2
    report = upload_tree(borrowed, "main", b"parts/", source=target, options=UploadOptions())
    assert (report.uploaded, report.unchanged) == (0, 2)


def test_an_upload_over_an_object_in_parts_of_an_unusual_size_replaces_it(
    lake: Lake, wild: Wild, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lakefs_digests, "PART_SIZES", ())
    borrowed = clone(lake, wild, 3)
    target = tmp_path / "copy"
    for _ in range(2):  # of the second one, nothing tells that the file is the same
        assert download_tree(borrowed, "main", b"parts/", target=target).downloaded == 2
    report = upload_tree(borrowed, "main", b"parts/", source=target, options=UploadOptions())
    assert (report.uploaded, report.unchanged) == (2, 0)
    assert checked(borrowed).unverified == 2


def test_what_only_earlier_commits_need_is_counted(lake: Lake, wild: Wild) -> None:
    taken = clone(lake, wild, 3, take_over=True)
    gone = wild.expected["states"]["gone_addresses"]
    assert checked(taken).collected == len(gone)
    push_all(taken, PushOptions("me"))
    assert any(
        "that only earlier commits need are not in" in each.message for each in taken.notices
    )
    refs_dump(taken)
    delete(lake, "wild")
    other = clone_bucket(lake, str(wild.directory), "other")
    assert checked(other).collected == len(gone)


def test_what_a_head_needs_is_required(lake: Lake, wild: Wild) -> None:
    """What was collected is brought back: a push of it is refused, and a check fails."""
    taken = clone(lake, wild, 3, take_over=True)
    push_all(taken, PushOptions("me"))
    first_load = wild.expected["states"]["gone_commits"][0]
    with open_view(taken, first_load) as view:
        values = {path: value for path, value in view.scan() if path.startswith(b"daily/s")}
    stage_values(taken, "main", values)
    commit(taken, "main", message="brought back", committer="c")
    with pytest.raises(NotInBucket, match="the bytes of"):
        push(taken, "main", options=PushOptions("me"))
    counts = FsckCounts()
    found = list(fsck(taken, counts=counts))
    assert {each.what for each in found} == {"missing"}
    assert {each.ref for each in found} == {"main"}
    assert counts.collected + len({each.name for each in found}) == len(
        wild.expected["states"]["gone_addresses"]
    )


def test_a_namespace_that_lakefs_never_had_misses_every_object(
    lake: Lake, wild: Wild, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = clone(lake, wild, 3, take_over=True)
    claim = wild.directory / "_lakecli/repository.json"
    fields = json.loads(claim.read_bytes())
    del fields["origin"]
    claim.write_bytes(json.dumps(fields).encode())
    found = {each.name for each in fsck(taken)}
    assert found == set(wild.expected["states"]["gone_addresses"])
    failed = push_all(taken, PushOptions("me")).failed
    assert {type(each.error) for each in failed} == {NotInBucket}


@pytest.mark.parametrize("number", DUMPS)
def test_full_circle(lake: Lake, wild: Wild, number: int) -> None:
    """Take it over, commit, push, dump: a second clone of that dump has all of it."""
    before = files(wild.directory)
    taken = clone(lake, wild, number, take_over=True)
    branches, tags = refs_of(taken)
    stage(taken, "main", {b"daily/new": b"by lakecli"})
    made = commit(taken, "main", message="on top", committer="c")
    push_all(taken, PushOptions("me"))
    written = refs_dump(taken)
    assert not written.lost
    after = files(wild.directory)
    assert {name: after[name] for name in before} == before
    (wild.directory / "_lakecli/repository.json").unlink()
    delete(lake, "wild")
    again = clone_from_lakefs(
        lake, str(wild.directory), "again", written.manifest, range_entries=16
    ).repository
    assert refs_of(again) == ({**branches, "main": made.id}, tags)
    with again.lake.kv.read() as txn:
        commits = {each.id for each in RefStore(txn, again.key).iter_commits()}
    assert commits == read_dump(again.trees, wild.manifest(number)).commits.keys() | {made.id}
    with open_view(again, "main") as view:
        paths = {os.fsdecode(path) for path, _ in view.scan()}
    head = wild.expected["dumps"][str(number)]["branches"]["main"]
    assert paths == {each["path"] for each in wild.expected["entries"][head]} | {"daily/new"}


def test_nothing_is_lost_by_a_dump(lake: Lake, wild: Wild) -> None:
    """A dump by lakecli has what that of lakeFS had, but for the broken branch."""
    taken = clone(lake, wild, 4, take_over=True)
    push_all(taken, PushOptions("me"))
    ours = read_dump(taken.trees, refs_dump(taken, leave_out=[Loss.NAMES]).manifest)
    theirs = read_dump(taken.trees, wild.manifest(4))
    assert (ours.commits, ours.branches, ours.tags) == theirs[:3]


def operations(repository: Repository) -> list[bytes]:
    return [each.operation.id for each in operation_log.iter_log(repository)]


def states(updated: Restored) -> dict[str, RefState]:
    return {each.name: each.change for each in updated.updated}


def test_a_branch_that_lakefs_moved_back_is_reported_and_stays(lake: Lake, wild: Wild) -> None:
    borrowed = clone(lake, wild, 1)
    moved = wild.expected["states"]["moved_back"]
    back = update_refs(borrowed, wild.manifest(2))
    assert states(back) == {"dev": RefState.MOVED_BACK, "main": RefState.MOVED}
    (outcome,) = (each for each in back.updated if each.name == "dev")
    assert (outcome.before, outcome.after) == (moved["bad_load"], moved["now_at"])
    assert refs_of(borrowed)[0]["dev"] == moved["bad_load"]
    # It goes on there, and so has diverged: nothing here is lakecli's, so nothing is merged.
    assert states(update_refs(borrowed, wild.manifest(3))) == {"dev": RefState.MOVED_BACK}
    reset(borrowed, "dev", to=moved["now_at"])
    assert states(update_refs(borrowed, wild.manifest(3))) == {"dev": RefState.MOVED}
    assert update_refs(borrowed, wild.manifest(3)).updated == ()


def test_an_older_dump_moves_nothing_back(lake: Lake, wild: Wild) -> None:
    borrowed = clone(lake, wild, 3)
    stage(borrowed, "main", {b"new": b"by lakecli"})
    commit(borrowed, "main", message="mine", committer="c")
    assert states(update_refs(borrowed, wild.manifest(2))) == {}


@pytest.mark.parametrize("take_over", [False, True], ids=["borrowed", "taken"])
@pytest.mark.parametrize(("seen", "number"), [(2, 1), (3, 1), (3, 2), (4, 1), (4, 3)])
def test_of_an_older_dump_nothing_is_taken(
    lake: Lake, wild: Wild, seen: int, number: int, *, take_over: bool
) -> None:
    """In dump 1 stands a bad load on dev, which lakeFS has taken back since."""
    cloned = clone(lake, wild, seen, take_over=take_over)
    stage(cloned, "main", {b"new": b"by lakecli"})
    commit(cloned, "main", message="mine", committer="c")
    before, logged = refs_of(cloned), operations(cloned)
    older = update_refs(cloned, wild.manifest(number))
    assert (older.is_older, older.updated, older.commits) == (True, (), 0)
    assert (refs_of(cloned), operations(cloned)) == (before, logged)
    again = update_refs(cloned, wild.manifest(seen))
    assert (again.is_older, again.updated) == (False, ())
    if seen < 4:
        assert not update_refs(cloned, wild.manifest(4)).is_older
    assert update_refs(cloned, wild.manifest(seen)).is_older == (seen < 4)


def test_another_clone_knows_by_the_namespace_that_a_dump_is_older(
    lake: Lake, wild: Wild, tmp_path: Path
) -> None:
    taken = clone(lake, wild, 2, take_over=True)
    update_refs(taken, wild.manifest(4))
    push_all(taken, PushOptions("me"))
    with open_lake(tmp_path / "elsewhere") as other:
        cloned = clone_bucket(other, taken.record.storage_namespace, "wild")
        before = refs_of(cloned)
        assert update_refs(cloned, wild.manifest(1)).is_older
        assert refs_of(cloned) == before


def test_commits_on_what_lakefs_took_back_are_carried_over(lake: Lake, wild: Wild) -> None:
    borrowed = clone(lake, wild, 1)
    made = []
    for name in (b"one", b"two"):
        stage(borrowed, "dev", {name: name})
        made.append(commit(borrowed, "dev", message=name.decode(), committer="c").id)
    back = update_refs(borrowed, wild.manifest(2))
    assert states(back) == {"lakefs:dev": RefState.REBASED, "main": RefState.MOVED}
    assert back.updated[0].own == made[0]
    assert refs_of(borrowed)[0]["dev"] == made[1]
    # Without commits of its own, the branch beside it follows the next dump.
    again = update_refs(borrowed, wild.manifest(3))
    said = wild.expected["dumps"]["3"]["branches"]["dev"]
    assert states(again) == {"lakefs:dev": RefState.REBASED}
    assert refs_of(borrowed)[0]["lakefs:dev"] == said
    for each in made:
        cherry_pick(borrowed, each, "lakefs:dev", committer="c")
    with open_view(borrowed, "lakefs:dev") as view:
        paths = [path for path, _ in view.scan()]
    assert {b"one", b"two"} <= set(paths)
    reset(borrowed, "dev", to="lakefs:dev")
    assert update_refs(borrowed, wild.manifest(3)).updated == ()


def test_a_merge_of_a_branch_of_lakefs_is_no_move_back(lake: Lake, wild: Wild) -> None:
    borrowed = clone(lake, wild, 3)
    merge(borrowed, "waiting", "main", MergeOptions("c"))
    assert update_refs(borrowed, wild.manifest(3)).updated == ()
