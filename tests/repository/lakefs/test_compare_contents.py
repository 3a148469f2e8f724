"""Conflicts of an MD5 and a BLAKE3: named as such, and decided by the bytes on request."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from lakecli.committed.conflicts import MergeConflict
from lakecli.errors import IntegrityError, NotFound
from lakecli.model import ChangeType, MergeStrategy
from lakecli.objectstore.base import ANY
from lakecli.objectstore.memory.store import MemoryStore
from lakecli.repository import branch
from lakecli.repository.cherry_pick import cherry_pick
from lakecli.repository.commit import commit
from lakecli.repository.core.read import PIECE
from lakecli.repository.core.same_bytes import SameBytes
from lakecli.repository.core.view import open_view
from lakecli.repository.diff import diff_refs, diff_uncommitted
from lakecli.repository.merge import MergeOptions, merge, preview
from lakecli.repository.pull import PullOptions, pull
from lakecli.repository.push import PushOptions, push
from lakecli.repository.revert import revert
from tests.support.clones import Clones
from tests.support.lakefs_entries import address_of, lakefs_value, stage_lakefs
from tests.support.lakes import entry_of, read, serve, stage

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.repository.core.lake import Repository

COMPARING = MergeOptions(committer="me", compare_contents=True)
PLAIN = MergeOptions(committer="me")


def put(repository: Repository, name: str, path: bytes, data: bytes | None, *, md5: bool) -> str:
    """Commit contents of a path, as lakeFS or as lakecli records them; return the commit."""
    if data is not None and md5:
        stage_lakefs(repository, name, {path: data})
    else:
        stage(repository, name, {path: data})
    return commit(repository, name, message="m", committer="c").id


class Case(NamedTuple):
    """Contents of a path on the three sides of a merge; capitals stand for an MD5.

    Attributes:
        sides: base, source and destination; ``-``: absent.
        plain: ``conflict``, ``unlike``: a conflict that may be none, or which side the path has.
        compared: the same with compared contents.
    """

    sides: str
    plain: str
    compared: str


CASES = [
    Case("-Aa", "unlike", "destination"),  # both made the same change
    Case("-aA", "unlike", "destination"),
    Case("bAa", "unlike", "destination"),
    Case("BAa", "unlike", "destination"),
    Case("Bab", "unlike", "source"),  # the destination recorded the base anew
    Case("bBA", "unlike", "destination"),  # the source did
    Case("AaB", "unlike", "destination"),
    Case("AaC", "unlike", "destination"),
    Case("CAb", "unlike", "conflict"),
    Case("-Ab", "unlike", "conflict"),
    Case("-AB", "conflict", "conflict"),
    Case("-ab", "conflict", "conflict"),
    Case("AB-", "conflict", "conflict"),
    Case("AaA", "source", "source"),  # the record of the only side that changed
    Case("aaA", "destination", "destination"),
    Case("-lA", "conflict", "conflict"),  # of another size
]


def contents(letter: str) -> bytes | None:
    if letter == "-":
        return None
    return b"longer" if letter == "l" else letter.lower().encode() * 5


def fork(repository: Repository, sides: str) -> dict[str, bytes | None]:
    """Make the sides of a merge of ``side`` into ``main``; return what they have at the path."""
    base, source, destination = list(sides)
    put(repository, "main", b"other", b"1", md5=False)
    if base != "-":
        put(repository, "main", b"p", contents(base), md5=base.isupper())
    branch.create(repository, "side", source="main")
    for name, now in (("side", source), ("main", destination)):
        if now != base:
            put(repository, name, b"p", contents(now), md5=now.isupper())
        put(repository, name, name.encode(), b"1", md5=False)
    return {"source": value(repository, "side"), "destination": value(repository, "main")}


def value(repository: Repository, ref: str) -> bytes | None:
    with open_view(repository, ref) as view:
        return view.find(b"p")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sides)
def test_merging(repository: Repository, case: Case) -> None:
    sides = fork(repository, case.sides)
    for options, outcome in ((PLAIN, case.plain), (COMPARING, case.compared)):
        with preview(repository, "side", "main", options) as changes:
            listed = {each.path: each for each in changes}
        is_conflict = outcome in {"conflict", "unlike"}
        if is_conflict:
            assert listed[b"p"].type is ChangeType.CONFLICT
            assert listed[b"p"].unlike_checksums == (outcome == "unlike")
            with pytest.raises(MergeConflict) as caught:
                merge(repository, "side", "main", options)
            assert caught.value.paths == (b"p",)
            assert caught.value.unlike_checksums == ((b"p",) if outcome == "unlike" else ())
            assert ("may be no conflict" in caught.value.message) == (outcome == "unlike")
            assert ("--compare-contents" in str(caught.value.hint)) == (outcome == "unlike")
            continue
        assert (b"p" in listed) == (outcome == "source")
        if options is PLAIN:
            continue
        merge(repository, "side", "main", options)
        assert value(repository, "main") == sides[outcome]
        assert b"side" in read(repository, "main")


@pytest.mark.parametrize("strategy", [MergeStrategy.SOURCE_WINS, MergeStrategy.DEST_WINS])
def test_a_strategy_decides_what_the_contents_do_not(
    repository: Repository, strategy: MergeStrategy
) -> None:
    same = fork(repository, "-Aa")["destination"]
    stage_lakefs(repository, "side", {b"q": b"one"})
    commit(repository, "side", message="m", committer="c")
    put(repository, "main", b"q", b"two", md5=False)
    options = MergeOptions(committer="me", compare_contents=True, strategy=strategy)
    merge(repository, "side", "main", options)
    assert value(repository, "main") == same
    with open_view(repository, "main") as view:
        entry = view.entry(b"q")
    assert len(entry.checksum) == (32 if strategy is MergeStrategy.SOURCE_WINS else 64)


def test_cherry_picking_and_reverting(repository: Repository) -> None:
    fork(repository, "-Aa")
    put(repository, "side", b"p", b"new contents", md5=False)
    branch.create(repository, "again", source="main")
    # main has the parent's contents under another checksum, so the pick brings the new ones.
    with pytest.raises(MergeConflict):
        cherry_pick(repository, "side", "main", committer="c")
    cherry_pick(repository, "side", "main", committer="c", compare_contents=True)
    assert value(repository, "main") == value(repository, "side")
    # Take back what side had before, on a branch that has the same contents with a BLAKE3.
    with pytest.raises(MergeConflict) as caught:
        revert(repository, "again", "side~2", committer="c")
    assert caught.value.unlike_checksums == (b"p",)
    revert(repository, "again", "side~2", committer="c", compare_contents=True)
    assert value(repository, "again") is None


def test_a_conflict_of_a_cherry_pick_says_what_helps(repository: Repository) -> None:
    fork(repository, "-Aa")
    with pytest.raises(MergeConflict) as caught:
        cherry_pick(repository, "side~1", "main", committer="c")
    assert caught.value.unlike_checksums == (b"p",)
    assert caught.value.hint == "compare the bytes of these: --compare-contents"


def test_pulling(tmp_path: Path) -> None:
    with Clones.make(tmp_path, "one", "two") as made:
        one, two = made.repositories
        put(one, "main", b"p", b"contents", md5=True)
        push(one, "main", options=PushOptions("me"))
        put(two, "main", b"p", b"contents", md5=False)
        mine = value(two, "main")
        for dry_run in (True, False):
            with pytest.raises(MergeConflict) as caught:
                pull(two, "main", PullOptions("me", dry_run=dry_run))
            assert caught.value.unlike_checksums == (b"p",)
            assert caught.value.hint == (
                "compare their bytes: lakecli pull lakefs://demo/main --compare-contents"
            )
        pull(two, "main", PullOptions("me", compare_contents=True, dry_run=True))
        pull(two, "main", PullOptions("me", compare_contents=True))
        assert value(two, "main") == mine


def paths(repository: Repository, *, two_way: bool, compare_contents: bool) -> list[bytes]:
    with diff_refs(
        repository, "main", "side", two_way=two_way, compare_contents=compare_contents
    ) as found:
        return [each.path for each in found]


@pytest.mark.parametrize("sides", ["-Aa", "aAa", "AAa", "bAa"])
def test_a_diff_leaves_out_equal_bytes(repository: Repository, sides: str) -> None:
    fork(repository, sides)
    for two_way, others in ((False, [b"side"]), (True, [b"main", b"side"])):
        plain = paths(repository, two_way=two_way, compare_contents=False)
        # Of a path that only main changed, a three-dot diff says nothing.
        assert (b"p" in plain) == (two_way or sides[0] != sides[1])
        assert paths(repository, two_way=two_way, compare_contents=True) == others


def test_a_diff_of_staged_changes_leaves_out_equal_bytes(repository: Repository) -> None:
    put(repository, "main", b"p", b"contents", md5=True)
    stage(repository, "main", {b"p": b"contents", b"q": b"1"})
    with diff_uncommitted(repository, "main") as found:
        assert [each.path for each in found] == [b"p", b"q"]
    with diff_uncommitted(repository, "main", compare_contents=True) as found:
        assert [each.path for each in found] == [b"q"]
    with diff_refs(repository, "main", "main$", two_way=True, compare_contents=True) as found:
        assert [each.path for each in found] == [b"q"]


class Reads(MemoryStore):
    """Notes what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[str] = []

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        self.keys.append(key)
        return super().get(key, start=start, length=length)


def test_each_object_of_a_conflict_is_read_once(repository: Repository) -> None:
    store = Reads()
    serve(repository, store)
    fork(repository, "-Aa")
    put(repository, "side", b"not in conflict", b"1", md5=True)
    merge(repository, "side", "main", COMPARING)
    theirs, ours = address_of(b"aaaaa"), entry_of(b"aaaaa").physical_address
    assert sorted(key for key in store.keys if key.startswith("data/")) == sorted([theirs, ours])


LARGE = bytes(range(256)) * (PIECE // 100)


@pytest.mark.parametrize(
    ("ours", "is_equal"),
    [
        (LARGE, True),
        (LARGE[:-1] + b"?", False),
        (b"?" + LARGE[1:], False),
        (b"", False),
    ],
)
def test_large_objects_are_compared_piece_by_piece(
    repository: Repository, ours: bytes, *, is_equal: bool
) -> None:
    put(repository, "main", b"p", LARGE, md5=True)
    theirs = value(repository, "main")
    put(repository, "main", b"p", ours, md5=False)
    mine = value(repository, "main")
    assert mine is not None
    assert theirs is not None
    assert SameBytes(repository)(b"p", mine, theirs) == is_equal
    assert SameBytes(repository)(b"p", theirs, mine) == is_equal


def test_an_object_that_is_gone_or_damaged_decides_nothing(repository: Repository) -> None:
    fork(repository, "-Aa")
    repository.store.put(address_of(b"aaaaa"), b"aaab?", ANY)
    value_of_equal = lakefs_value(b"bbbbb", address="data/x")
    repository.store.put("data/x", b"aaaaa", ANY)
    with pytest.raises(IntegrityError, match="damaged"):
        SameBytes(repository)(b"p", value_of_equal, value(repository, "main") or b"")
    repository.store.delete([address_of(b"aaaaa")])
    head = branch.show(repository, "main")
    with pytest.raises(NotFound, match="is gone"):
        merge(repository, "side", "main", COMPARING)
    assert branch.show(repository, "main") == head
