"""Commit IDs and resolution as lakeFS's own unit tests have them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from lakecli.base.identity import commit_id
from lakecli.base.model import CommitId
from lakecli.errors import ErrorKind, LakeError
from lakecli.refs.expression import parse_expression
from lakecli.refs.history import iter_log
from lakecli.refs.resolve import resolve
from tests.support.graphs import FakeRefs, build

ZERO_TIME = -62135596800  # Go's time.Time{}
INITIAL_1699999999 = "23bc2f08dc3827df1ad2c087f5f5dada9a5a25b74e4b7437339d5ab4fb7e781f"

CHAIN_AT = datetime(2020, 12, 1, 15, tzinfo=UTC)
# The chain of resolve_ref_test.go, newest first. lakeFS's test means to date them a minute apart,
# but drops the sum: all are of one second.
CHAIN = [
    "6ededfa12763c5eeb6ce48e5d5d505c33383e4a7e599f55764c0753cb196e244",
    "a8fcc52c74a09642e0f3ec5997f49ce4f7c73d6c74c03c13143b7fe19a3f156b",
    "1e471f2170d8f99e093186f7e9195ec340d5f4560df234dd1201dd749fd71f8f",
    "7217e786dab7c42985c3268b680ff1ac5b45c3ee83d8578b5e63b3f1079ce753",
    "d0a251a277ac1bc977a0e35efad1284ab69eeb3635165661d4cf62ed9b9029f5",
    "59f72f2fbc8291857d5b6788ad2a698121d0f2735df41c3bf582c3193f44f148",
    "a5ee924bba14751f3573caf52a50a44bb5909e658d5017f323c8d826b74cfc6a",
    "b99c85a0dfbd5caf950d1874c8968ceeb4773c53d088ef9358bd7d3b175f5c4b",
    "d02cdab99549019edf83ebc2c33a6fd65052a113845c11158fdedae3f5855bcb",
    "3bf45fcce06016398758d69046b7492a99a1c60f281b0695761c8d1b18c68106",
    "474cc3b19124b04a230ff743aee56d91f4c275c3b6ae18b8d2abb90a236c7fa2",
    "41f8200d4edd82befe47514dc79c3eb11f79e3b8e6e31e7b73de459a88b20975",
    "d706a40d808c819a4e15a8f9c733c243c3a159f701355952fd92375c575fc1f2",
    "d6f64d7d9d379ba8878d5f867a0dd0cd01f93c50152e7c2e03d783bb3801d31a",
    "085d9c8a83aedc8c2e6c160fe98a00b2470a0432fc75c7372324e2c72bded7df",
    "8ac7ccae8718d49bc38a7a50ef05e0ac698aa5f05daac00dff8f7c94373013e6",
    "967889b77f6ada86683cdbbbba6e5542f760974f9dbfeb7813337e9455aafa50",
    "d58c3e63162be1cc8f902277cd3515bc2faf226a1a2048e9f0f2c7fc544c94c7",
    "8ad89e3856f90f3af080747f487363eeaff42cafa4ab0536d2a985d0ae362089",
    "fac53a04432b2e6e7185f3ac8314a874c556b2557adf3aa8d5b1df985cf96566",
]


def _initial_commit_id(created_at: int) -> str:
    return commit_id(
        committer="",
        message="Repository created",
        metarange_id="",
        created_at=created_at,
        metadata={},
        parents=[],
    )


def test_commit_id_with_two_parents_and_no_time() -> None:
    found = commit_id(
        committer="user1",
        message="message1",
        metarange_id="deadbeef123",
        created_at=ZERO_TIME,
        metadata={"foo": "bar"},
        parents=["deadbeef1", "deadbeef12"],
    )
    assert found == "2277b5abd2d3ba6b4d35c48a0e358b0c4bcf5cd6d891c67437fb4c4af0d2fd4b"


def test_commit_id_of_initial_commits() -> None:
    assert _initial_commit_id(0) == (
        "b8dc41c283f83ac786b14c93871c017df5d3662d615213fab433f3226a10714c"
    )
    assert _initial_commit_id(1699999999) == INITIAL_1699999999


def test_commit_id_of_a_child() -> None:
    found = commit_id(
        committer="alice",
        message="first",
        metarange_id="7b3e293227e59d3500d20d80c2736df6a4cd6d4576c2b91b4ad3165a0a0b129b",
        created_at=1700000010,
        metadata={"k": "v"},
        parents=[INITIAL_1699999999],
    )
    assert found == "69c913c5d3b25b15c5fafdd981b88f1b360ebb21a6acae9525f37c9bdc75c415"


def _chain(step: timedelta) -> list[CommitId]:
    ids: list[CommitId] = []
    for number in range(len(CHAIN)):
        ids.append(
            CommitId(
                commit_id(
                    committer="user1",
                    message="message1",
                    metarange_id="deadbeef123",
                    created_at=int((CHAIN_AT + number * step).timestamp()),
                    metadata={"foo": "bar"},
                    parents=ids[-1:],
                )
            )
        )
    return ids


def test_the_chain_of_lakefs() -> None:
    assert _chain(timedelta())[::-1] == CHAIN
    assert _chain(timedelta(minutes=1))[-1] != CHAIN[0]


@pytest.fixture
def refs() -> FakeRefs:
    """The refs that lakeFS's test makes; numbers count back from the newest commit."""
    ids = _chain(timedelta())
    parents = {new: [old] for old, new in pairwise(ids)}
    refs = build({ids[0]: [], **parents}, dict.fromkeys(ids, CHAIN_AT))
    log = ids[::-1]
    refs.add_branch("main", log[-1])
    refs.add_branch("branch1", log[3])
    refs.add_branch("branch2", log[16])
    refs.add_branch(log[10][:6], log[14])
    refs.add_tag("v1.0", log[9])
    refs.add_tag(log[6][:10], log[8])
    return refs


def test_the_log_within_one_second(refs: FakeRefs) -> None:
    assert [commit.id for commit in iter_log(refs, CommitId(CHAIN[0]))] == CHAIN


@pytest.mark.parametrize(
    ("text", "number", "staging"),
    [
        ("branch1", 3, True),
        ("branch1@", 3, False),
        ("main$", 19, True),
        ("main@", 19, False),
        ("v1.0", 9, False),
        (CHAIN[11], 11, False),
        (CHAIN[11][:5], 11, False),
        (CHAIN[10][:6], 14, True),  # a branch comes before a prefix
        (CHAIN[6][:10], 8, False),  # a tag does too
        (CHAIN[3] + "~2", 5, False),
        ("branch1~2", 5, False),
        (CHAIN[11] + "~2", 13, False),
        (CHAIN[11][:5] + "~2", 13, False),
    ],
)
def test_resolves(refs: FakeRefs, text: str, number: int, *, staging: bool) -> None:
    found = resolve(parse_expression(text), refs)
    assert found.commit.id == CHAIN[number]
    assert found.staging == staging


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("branch3", ErrorKind.NOT_FOUND),
        ("branch1@1", ErrorKind.USAGE),
        ("branch1@^", ErrorKind.USAGE),
        ("branch1^@", ErrorKind.USAGE),
        ("v1.bad", ErrorKind.NOT_FOUND),
        ("a", ErrorKind.NOT_FOUND),  # the beginning of two
        ("66666", ErrorKind.NOT_FOUND),
        (CHAIN[11] + "~200", ErrorKind.NOT_FOUND),
        (CHAIN[11] + "^-1", ErrorKind.USAGE),  # crashes the server of lakeFS
    ],
)
def test_does_not_resolve(refs: FakeRefs, text: str, kind: ErrorKind) -> None:
    with pytest.raises(LakeError) as caught:
        resolve(parse_expression(text), refs)
    assert caught.value.kind == kind
