"""A namespace as people have it, ``wild-1``, is read as the lakeFS server said."""

from __future__ import annotations

import os
from hashlib import md5, sha256
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.model import RefKind
from lakecli.committed.values import decode_entry
from lakecli.errors import NotFound
from lakecli.refs.history import iter_log
from lakecli.refs.ref_store import RefStore
from lakecli.repository.commit import commit
from lakecli.repository.lakefs.dump import LeftOut, Reason, read_dump
from lakecli.repository.lakefs.restore import clone_from_lakefs
from lakecli.repository.push import PushOptions, push_all
from lakecli.repository.reading.contents import read_object
from lakecli.repository.reading.view import open_view
from lakecli.repository.refs_dump import Loss, refs_dump
from lakecli.repository.repo import delete
from tests.repository.lakefs.test_restore import files, refs_of
from tests.support.lakefs_files import log_children_first
from tests.support.lakes import stage

if TYPE_CHECKING:
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
            recorded = wild.expected["commits"][id_]
            assert each.message == recorded["message"]
            assert dict(each.metadata) == (recorded["metadata"] or {})
            assert list(each.parents) == recorded["parents"]
            assert each.generation == recorded["generation"]
            assert each.compute_id() == id_
        for head in {*branches.values(), *tags.values()}:
            log = [each.id for each in iter_log(refs, head)]
            assert log == log_children_first(wild.expected, head)


def test_the_dumps_together_have_every_commit(lake: Lake, wild: Wild) -> None:
    trees = clone(lake, wild, 1).trees
    found: set[CommitId] = set()
    for number in DUMPS:
        found |= read_dump(trees, wild.manifest(number)).commits.keys()
    assert found == set(wild.expected["commits"])


def test_entries_and_bytes_of_every_commit_are_as_the_server_said(
    lake: Lake, wild: Wild
) -> None:
    borrowed = clone(lake, wild, 4)
    with borrowed.lake.kv.read() as txn:
        commits = {each.id for each in RefStore(txn, borrowed.key).iter_commits()}
    assert len(commits) == len(wild.expected["commits"])
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
    made = clone_from_lakefs(
        lake, str(wild.directory), "wild", wild.manifest(4), range_entries=16
    )
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
    """A dump that lakecli writes of a take-over has what lakeFS's had, but for the broken branch."""
    taken = clone(lake, wild, 4, take_over=True)
    push_all(taken, PushOptions("me"))
    ours = read_dump(taken.trees, refs_dump(taken, leave_out=[Loss.NAMES]).manifest)
    theirs = read_dump(taken.trees, wild.manifest(4))
    assert (ours.commits, ours.branches, ours.tags) == theirs[:3]
