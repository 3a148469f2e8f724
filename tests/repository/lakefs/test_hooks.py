"""Hooks that lakeFS ran are named where they would have run; elsewhere nothing is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.base.model import Commit
from lakecli.repository.branch import create
from lakecli.repository.cherry_pick import cherry_pick
from lakecli.repository.clone import clone as clone_bucket
from lakecli.repository.commit import commit
from lakecli.repository.lakefs.hooks import ActionFile, action_files, branch_with_actions
from lakecli.repository.log import show_commit
from lakecli.repository.merge import MergeOptions, merge
from lakecli.repository.push import PushOptions, push_all
from lakecli.repository.repo import delete
from lakecli.repository.revert import revert
from tests.repository.lakefs.test_wild import clone
from tests.support.lakes import stage

if TYPE_CHECKING:
    from lakecli.repository.contract import Repository
    from lakecli.repository.handle.lake import Lake
    from tests.repository.lakefs.conftest import Wild

GATE = "_lakefs_actions/gate.yaml"


def told(repository: Repository) -> list[str]:
    """Return the notices about hooks, and clear all."""
    found = [each.message for each in repository.notices if "hooks" in each.message]
    repository.notices.clear()
    return [each.rpartition(": ")[2] for each in found]


def change(repository: Repository, branch: str, path: bytes, data: bytes = b"x") -> Commit:
    stage(repository, branch, {path: data})
    return commit(repository, branch, message="m", committer="c")


def test_a_merge_onto_a_guarded_branch_is_told(lake: Lake, wild: Wild) -> None:
    borrowed = clone(lake, wild, 1)
    merge(borrowed, "waiting", "main", MergeOptions("c"))
    assert told(borrowed) == [GATE]
    change(borrowed, "waiting", b"new")
    assert told(borrowed) == []  # the hook is about merges
    merge(borrowed, "main", "waiting", MergeOptions("c", allow_empty=True))
    assert told(borrowed) == []  # and about main


def test_every_clone_is_told(lake: Lake, wild: Wild) -> None:
    taken = clone(lake, wild, 1, take_over=True)
    found = branch_with_actions(taken)
    assert found == ("main", [ActionFile(GATE, {"pre-merge": ("main",)})])
    push_all(taken, PushOptions("me"))
    delete(lake, "wild")
    other = clone_bucket(lake, str(wild.directory), "other")
    assert branch_with_actions(other) == found
    merge(other, "waiting", "main", MergeOptions("c"))
    assert told(other) == [GATE]


ON = {
    "commit": "pre-commit:",
    "cherry-pick": "post-cherry-pick: {branches: [ma*]}",
    "revert": "pre-revert: {branches: [dev, main]}",
    "another branch": "pre-commit: {branches: [dev]}",
}


@pytest.mark.parametrize(
    ("event", "moves"),
    [
        ("commit", ["commit"]),
        ("cherry-pick", ["cherry-pick"]),
        ("revert", ["revert"]),
        ("another branch", []),
    ],
)
def test_each_event_is_told_where_it_would_happen(
    lake: Lake, wild: Wild, event: str, moves: list[str]
) -> None:
    borrowed = clone(lake, wild, 1)
    create(borrowed, "topic", source="main")
    text = f"name: x\non: {{{ON[event].rstrip(':')}}}\nhooks: []\n".encode()
    change(borrowed, "main", b"_lakefs_actions/x.yaml", text)
    told(borrowed)
    picked = change(borrowed, "topic", b"topic")
    told(borrowed)
    found = []
    made = change(borrowed, "main", b"new")
    found += ["commit"] * ("_lakefs_actions/x.yaml" in told(borrowed))
    cherry_pick(borrowed, picked.id, "main", committer="c")
    found += ["cherry-pick"] * ("_lakefs_actions/x.yaml" in told(borrowed))
    revert(borrowed, "main", made.id, committer="c")
    found += ["revert"] * ("_lakefs_actions/x.yaml" in told(borrowed))
    assert found == moves


@pytest.mark.parametrize(
    "text", [b"\xff", b"on: [", b"x" * (65 << 10), b"[]"], ids=["bytes", "cut", "large", "list"]
)
def test_a_file_that_cannot_be_read_counts(lake: Lake, wild: Wild, text: bytes) -> None:
    borrowed = clone(lake, wild, 1)
    stage(borrowed, "lake", {b"_lakefs_actions/x.yml": text, b"_lakefs_actions/README": b""})
    commit(borrowed, "lake", message="m", committer="c")
    assert told(borrowed) == ["_lakefs_actions/x.yml"]


@pytest.mark.parametrize("text", [b"", b"on: 1", b"on: {pre-merge: 1}", b"name: x"])
def test_a_file_of_another_form_has_no_hook_of_a_branch(
    lake: Lake, wild: Wild, text: bytes
) -> None:
    borrowed = clone(lake, wild, 1)
    made = change(borrowed, "lake", b"_lakefs_actions/x.yml", text)
    assert told(borrowed) == []
    (found,) = action_files(borrowed, show_commit(borrowed, made.id).metarange_id)
    assert found.concerns(["pre-merge"], "any") == (b"pre-merge" in text)


def test_a_repository_that_lakefs_never_had_is_not_looked_at(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakecli.repository.lakefs.hooks.scan", None)
    change(repository, "main", GATE.encode(), b"on: {pre-commit: }")
    create(repository, "dev", source="main")
    change(repository, "dev", b"new")
    merge(repository, "dev", "main", MergeOptions("c"))
    assert told(repository) == []
    assert branch_with_actions(repository) is None
