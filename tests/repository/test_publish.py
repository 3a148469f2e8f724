"""Publishing: a branch gets the very tree that was checked, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakecli.errors import CheckFailed, DirtyBranch, HookFailed, LostRace, NothingToDo
from lakecli.kv.operations import iter_operations
from lakecli.remote.attestations import iter_attestations
from lakecli.repository import branch
from lakecli.repository import check as checks
from lakecli.repository.check import CheckedCommit, TreeCheck, approve, check_ref, iter_statements
from lakecli.repository.commit import commit
from lakecli.repository.log import show_commit
from lakecli.repository.merge import MergeOptions, merge
from lakecli.repository.publish import publish
from lakecli.repository.pull import PullOptions, pull
from lakecli.repository.push import PushOptions, push
from lakecli.stores.contract import NotAllowed
from tests.support.clones import Clones, auto, here, make_commit, there
from tests.support.lakes import checksums, read, stage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository

ME = MergeOptions("Me <me@example.com>")
WHO = ME.committer


@pytest.fixture(params=["manual", "auto"])
def clones(
    tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[tuple[Repository, Repository]]:
    """Two clones, whose branch ``main`` is in the bucket; the first shares by itself, or not."""
    with Clones.make(tmp_path, "one", "two") as made:
        one, two = made.repositories
        make_commit(one, b"a")
        push(one, "main", options=PushOptions(WHO))
        pull(two, "main", PullOptions(WHO))
        for each in (one, two):
            branch.create(each, "load", source="main")
        make_commit(one, b"new", "load")
        if request.param == "manual":
            yield one, two
        else:
            with auto(one) as (sharing, _):
                yield sharing, two


def reads(seen: list[dict[bytes, str]], *, verdict: bool = True) -> TreeCheck:
    def run(candidate: CheckedCommit) -> bool:
        seen.append(read(candidate.repository, candidate.commit.id))
        return verdict

    return TreeCheck(run)


def test_the_checked_tree_is_published(clones: tuple[Repository, Repository]) -> None:
    one, _ = clones
    seen: list[dict[bytes, str]] = []
    made = publish(one, "load", "main", ME, [reads(seen)])
    assert here(one) == there(one) == made.id
    assert seen == [read(one, "main")] == [checksums({b"a": b"a", b"new": b"new"})]


def test_without_a_right_to_state_checks_one_still_publishes(
    clones: tuple[Repository, Repository], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = clones

    def refuse(*_: object, **__: object) -> None:
        raise NotAllowed("AccessDenied")

    monkeypatch.setattr(checks, "write_attestation", refuse)
    passes = TreeCheck(lambda _: True, "schema")
    made = publish(one, "load", "main", ME, [passes])
    assert here(one) == there(one) == made.id
    assert "that check schema passed is not stated" in one.notices[-1].message
    with pytest.raises(NotAllowed):
        check_ref(one, "main", passes, who=WHO)


def test_a_failed_check_moves_nothing(clones: tuple[Repository, Repository]) -> None:
    one, _ = clones
    before = here(one)
    seen: list[dict[bytes, str]] = []

    def fails(_candidate: CheckedCommit) -> None:
        raise AssertionError("no")

    with pytest.raises(CheckFailed):
        publish(one, "load", "main", ME, [reads(seen, verdict=False)])
    with pytest.raises(AssertionError, match="no"):
        publish(one, "load", "main", ME, [reads(seen), TreeCheck(fails, "schema"), reads(seen)])

    def has_nothing(_candidate: CheckedCommit) -> None:
        raise NothingToDo("nothing")

    with pytest.raises(CheckFailed, match="nothing"):
        publish(one, "load", "main", ME, [TreeCheck(has_nothing)])
    assert here(one) == there(one) == before
    assert len(seen) == 2


def test_a_lost_race_is_checked_again(clones: tuple[Repository, Repository]) -> None:
    one, two = clones
    trees: list[str] = []

    def others_publish(candidate: CheckedCommit) -> None:
        trees.append(candidate.commit.metarange_id)
        if len(trees) < 3:
            make_commit(two, b"other %d" % len(trees))
            push(two, "main", options=PushOptions(WHO))

    made = publish(one, "load", "main", ME, [TreeCheck(others_publish)])
    assert len(set(trees)) == 3
    assert made.metarange_id == trees[-1]
    assert here(one) == there(one) == made.id
    assert {b"new", b"other 1", b"other 2"} < read(one, "main").keys()


def test_a_tree_that_has_passed_is_not_checked_again(clones: tuple[Repository, Repository]) -> None:
    one, two = clones
    seen: list[dict[bytes, str]] = []

    def others_move(_candidate: CheckedCommit) -> None:
        commit(two, "main", message="empty", committer=WHO, allow_empty=True)
        push(two, "main", options=PushOptions(WHO))

    made = publish(one, "load", "main", ME, [reads(seen), TreeCheck(others_move)])
    assert len(seen) == 1
    assert here(one) == there(one) == made.id


def test_only_the_destination_follows_the_bucket(clones: tuple[Repository, Repository]) -> None:
    one, two = clones
    make_commit(two, b"other", "load")
    make_commit(two, b"more")
    for name in ("load", "main"):
        push(two, name, options=PushOptions(WHO))
    before = here(one, "load")
    publish(one, "load", "main", ME)
    assert here(one, "load") == before
    assert {b"new", b"more"} < read(one, "main").keys()


def test_what_cannot_be_published_is_refused(clones: tuple[Repository, Repository]) -> None:
    one, two = clones
    with pytest.raises(NothingToDo):
        publish(one, "main", "main", ME)
    stage(one, "main", {b"dirty": b"1"})
    with pytest.raises(DirtyBranch):
        publish(one, "load", "main", ME)
    branch.reset(one, "main")
    own, one.mover = one.mover, None
    make_commit(one, b"mine")
    one.mover = own
    make_commit(two, b"theirs")
    push(two, "main", options=PushOptions(WHO))
    if one.mover is not None:
        one.mover.catch_up(one)
    seen: list[dict[bytes, str]] = []
    with pytest.raises(LostRace, match="diverged"):
        publish(one, "load", "main", ME, [reads(seen)])
    assert not seen


def test_a_named_check_is_stated_of_the_tree(clones: tuple[Repository, Repository]) -> None:
    one, two = clones
    publish(
        one, "load", "main", ME, [TreeCheck(lambda _: None, "schema"), TreeCheck(lambda _: None)]
    )
    tree = show_commit(one, "main").metarange_id
    (found,) = iter_attestations(two.store, tree)
    assert (found.kind, found.name, found.who, found.prefix) == ("check", "schema", WHO, "")
    # The same tree by another way.
    pull(two, "main", PullOptions(WHO))
    branch.create(two, "again", source="main~1")
    make_commit(two, b"new", "again")
    assert [each.name for each in iter_statements(two, "again")] == ["schema"]


def test_a_check_of_a_prefix_holds_while_its_entries_do(repository: Repository) -> None:
    stage(repository, "main", {b"raw/a": b"1", b"raw/b": b"2", b"other": b"1"})
    commit(repository, "main", message="m", committer=WHO)
    schema = TreeCheck(lambda candidate: candidate.prefix == "raw/", "schema")
    made = check_ref(repository, "main", schema, who=WHO, prefix="raw/")
    assert made is not None
    assert made.subject != made.tree

    def stated(prefix: str = "raw/") -> list[str]:
        return [each.name for each in iter_statements(repository, "main", prefix=prefix)]

    assert stated() == ["schema"]
    assert stated("") == stated("raw") == stated("raw/a") == []
    make_commit(repository, b"elsewhere")
    assert stated() == ["schema"]
    make_commit(repository, b"raw/c")
    assert stated() == []


def test_an_approval_is_of_the_tree_that_a_merge_gives(
    clones: tuple[Repository, Repository],
) -> None:
    one, two = clones
    made = approve(one, "load", "main", who=WHO)
    assert made.tree == show_commit(one, "load").metarange_id
    assert not one.notices
    make_commit(two, b"other")
    stage(two, "load", {b"new": b"new"})
    commit(two, "load", message="m", committer=WHO)
    assert [each.name for each in iter_statements(two, "load")] == ["main"]
    approve(two, "load", "main", who=WHO)
    assert "merge gives another tree" in two.notices[0].message
    approve(two, "load", "v1", who=WHO)
    assert len(two.notices) == 1


def hooked(repository: Repository, *names: str) -> list[dict[str, Any]]:
    called: list[dict[str, Any]] = []
    for name in names:
        repository.hooks[name] = lambda event: called.append(dict(event))
    return called


def test_hooks_are_called(clones: tuple[Repository, Repository]) -> None:
    one, _ = clones
    names = [f"{when}-{what}" for when in ("pre", "post") for what in ("commit", "merge", "push")]
    called = hooked(one, *names)
    made = publish(one, "load", "main", ME)
    assert [each["hook"] for each in called] == ["pre-merge", "pre-push", "post-push", "post-merge"]
    assert called[0]["commit"] == made
    assert called[0]["branch"] == "main"
    assert (called[1]["ref"], called[1]["after"]) == ("main", made.id)
    called.clear()
    own = make_commit(one, b"more", "load")
    names = [each["hook"] for each in called]
    assert [name for name in names if "push" not in name] == ["pre-commit", "post-commit"]
    assert called[0]["commit"] == own


@pytest.mark.parametrize("name", ["pre-merge", "pre-push"])
def test_a_hook_refuses(clones: tuple[Repository, Repository], name: str) -> None:
    one, _ = clones
    before = here(one)

    def refuse(_event: object) -> None:
        raise NothingToDo("not today")

    one.hooks[name] = refuse
    with pytest.raises(HookFailed, match="not today"):
        publish(one, "load", "main", ME)
    assert here(one) == there(one) == before
    one.skips_hooks = True
    publish(one, "load", "main", ME)
    with one.lake.kv.read() as txn:
        operation = next(iter(iter_operations(txn, one.key)))
    assert operation.metadata["no_verify"] == "true"


def test_a_refused_commit_stays_staged_and_a_late_error_is_a_notice(repository: Repository) -> None:
    seen: list[dict[bytes, str]] = []

    def refuse(event: Any) -> None:
        seen.append(read(repository, event["commit"].id))
        raise HookFailed("no")

    def too_late(_event: object) -> None:
        raise RuntimeError("late")

    repository.hooks["pre-commit"] = refuse
    stage(repository, "main", {b"a": b"1", b"b": b"2"})
    for options in ({}, {"paths": [b"a"]}):
        with pytest.raises(HookFailed):
            commit(repository, "main", message="m", committer="me", **options)  # type: ignore[arg-type]
    assert seen == [checksums({b"a": b"1", b"b": b"2"}), checksums({b"a": b"1"})]
    assert read(repository, "main") == seen[0]
    assert read(repository, "main@") == {}
    repository.hooks = {"post-commit": too_late}
    commit(repository, "main", message="m", committer="me")
    assert "post-commit failed: late" in repository.notices[0].message


def test_a_hook_that_moves_branches_does_not_call_itself(repository: Repository) -> None:
    branch.create(repository, "side", source="main")
    calls: list[object] = []

    def hook(event: object) -> None:
        calls.append(event)
        make_commit(repository, b"side %d" % len(calls), "side")
        merge(repository, "side", "main", ME) if len(calls) == 1 else None

    repository.hooks["pre-commit"] = repository.hooks["pre-merge"] = hook
    stage(repository, "side", {b"a": b"1"})
    branch.create(repository, "own", source="main")
    make_commit(repository, b"own", "own")
    assert len(calls) == 1
    assert b"side 1" in read(repository, "main")
