"""What this clone needs: where its refs stand and stood, and what is or was staged."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.ids import CommitId, WriteId
from lakecli.base.model import RefKind, StagingToken
from lakecli.committed.values import encode_entry
from lakecli.gc.live_set import DigestSet
from lakecli.gc.roots import OwnPosition, iter_staged, own_positions
from lakecli.gc.state import RECORD
from lakecli.kv.operations import RefChange, StagingChange
from lakecli.refs.ref_store import RefStore
from lakecli.remote.refs import Intent
from lakecli.repository import branch, tag
from lakecli.repository.commit import commit
from lakecli.repository.commit_attempts import seal
from lakecli.repository.journal import intents, operation_log
from lakecli.repository.journal.intents import Begun
from lakecli.staging import area
from lakecli.staging.area import ClaimedValue
from tests.support.lakes import START, entry_of, make_repository, open_lake, stage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with open_lake(tmp_path) as lake:
        yield make_repository(lake, tmp_path)


def positions(repository: Repository) -> set[OwnPosition]:
    with repository.lake.kv.read() as txn:
        return set(own_positions(txn, repository, repository.lake.runtime.now()))


def live(repository: Repository, *contents: bytes) -> set[bytes]:
    """Return which of these contents are in use."""
    records = b"".join(digest + bytes(8) for digest in sorted(map(blake3_of, contents)))
    with closing(DigestSet()) as found:
        for digests in iter_staged(repository, repository.lake.runtime.now()):
            found.add(digests)
        unused = found.without(records)
    assert len(unused) % RECORD == 0
    return {each for each in contents if blake3_of(each) not in unused}


def test_positions_are_those_of_branches_by_name_and_of_tags(repository: Repository) -> None:
    first = branch.show(repository, "main").commit_id
    stage(repository, "main", {b"a": b"1"})
    second = commit(repository, "main", message="second", committer="me").id
    tag.create(repository, "kept", "main")
    tag.create(repository, "gone", "main~1")
    tag.delete(repository, "gone")
    branch.create(repository, "side", source="main~1")
    branch.delete(repository, "side")
    assert positions(repository) == {
        OwnPosition(first, "main"),
        OwnPosition(second, "main"),
        OwnPosition(second, ""),
        OwnPosition(first, ""),
        OwnPosition(first, "side"),
    }


def test_whatever_was_staged_and_could_be_restored_is_in_use(repository: Repository) -> None:
    branch.create(repository, "side", source="main")
    stage(repository, "side", {b"a": b"sealed on a deleted branch"})
    seal(repository, "side")
    stage(repository, "side", {b"b": b"staged on a deleted branch"})
    branch.delete(repository, "side")
    tag.create(repository, "v1", "main")
    stage(repository, "main", {b"a": b"overwritten"})
    stage(repository, "main", {b"a": b"sealed", b"c": None})
    seal(repository, "main")
    stage(repository, "main", {b"b": b"staged"})
    contents = (
        b"sealed on a deleted branch",
        b"staged on a deleted branch",
        b"overwritten",
        b"sealed",
        b"staged",
    )
    assert live(repository, *contents, b"never seen") == set(contents)


@pytest.mark.parametrize(
    "named",
    ["branch", "sealed of a branch", "before", "sealed before", "after", "staging", "sealed"],
)
def test_whatever_area_a_branch_or_an_operation_names_is_in_use(
    repository: Repository, named: str
) -> None:
    token, empty = StagingToken(b"\x5a" * 16), StagingToken(b"\xa5" * 16)
    fields = {"staging_token": token.hex(), "sealed_tokens": []}
    sealed = {"staging_token": empty.hex(), "sealed_tokens": [token.hex()]}
    change = RefChange(
        RefKind.BRANCH,
        "gone",
        before={"before": fields, "sealed before": sealed}.get(named),
        after=fields if named == "after" else None,
    )
    main = branch.show(repository, "main")
    with repository.lake.kv.write() as txn:
        area.put_many(txn, token, [(b"a", ClaimedValue(encode_entry(entry_of(b"left"))))])
        if named == "branch":
            RefStore(txn, repository.key).put_branch(main._replace(staging_token=token))
        if named == "sealed of a branch":
            RefStore(txn, repository.key).put_branch(main._replace(sealed_tokens=(token,)))
        operation_log.append(
            txn,
            repository,
            kind="test",
            refs=[change],
            staging=[StagingChange("gone", token)] if named == "staging" else (),
            sealed=[token] if named == "sealed" else (),
        )
    assert live(repository, b"left", b"never seen") == {b"left"}


def test_both_ends_of_a_move_that_was_begun_are_positions(repository: Repository) -> None:
    at = branch.show(repository, "main").commit_id
    before, after, created = (CommitId(digit * 64) for digit in "123")

    def begin(digit: str, before: CommitId | None, after: CommitId | None) -> Begun:
        write_id = WriteId(digit * 32)
        intent = Intent(RefKind.BRANCH, digit, write_id, before, after, "me", START, "push")
        return Begun(intent, None)

    with repository.lake.kv.write() as txn:
        for each in (begin("1", before, after), begin("2", None, created), begin("3", at, None)):
            intents.write_down(txn, repository, each)
    begun = {OwnPosition(each, "") for each in (before, after, created, at)}
    assert positions(repository) == {OwnPosition(at, "main"), *begun}
