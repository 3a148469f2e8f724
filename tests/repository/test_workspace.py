"""Work on a branch that nobody sees before it is one commit."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lakecli.base.identity import blake3_of
from lakecli.errors import NotFound, NothingToDo, Refused, UsageError
from lakecli.gc.roots import iter_staged
from lakecli.kv.local_store import Table
from lakecli.kv.operations import iter_operations
from lakecli.repository import branch, workspace
from lakecli.repository.commit import StagedConflict, commit
from lakecli.repository.cp import cp
from lakecli.repository.handle import housekeeping
from lakecli.repository.journal.workspaces import KEPT_FOR, WorkspaceEnded, find_of, is_workspace
from lakecli.repository.push import PushOptions, push
from lakecli.repository.undo.undo import redo, undo
from lakecli.repository.upload import UploadOptions, upload_file
from lakecli.repository.upload_tree import upload_tree
from lakecli.repository.workspace import WorkspaceConflict
from tests.repository.staged.test_partial_commit import unowned
from tests.repository.staged.test_staged_conflicts import others_push
from tests.support.clones import Clones, synced
from tests.support.lakes import (
    Ticking,
    checksums,
    let_pass,
    make_repository,
    open_lake,
    read,
    stage,
    through,
)

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.base.model import Commit
    from lakecli.repository.contract import Repository

FIRST = {b"a": b"1", b"b": b"1"}


@pytest.fixture
def started(repository: Repository) -> Repository:
    """A repository whose branch main has a commit."""
    return begin_with(repository, FIRST)


def begin_with(repository: Repository, contents: dict[bytes, bytes]) -> Repository:
    stage(repository, "main", dict(contents))
    commit(repository, "main", message="first", committer="Ada")
    return repository


def commit_of(repository: Repository, name: str) -> Commit:
    return workspace.commit(repository, name, message="all", committer="Ada")


def test_a_workspace_reads_as_the_branch_with_its_changes(started: Repository) -> None:
    stage(started, "main", {b"staged": b"1"})
    name = workspace.begin(started, "main")
    stage(started, "main", {b"later": b"1"})
    assert is_workspace(name)
    assert read(started, name) == checksums({**FIRST, b"staged": b"1"})
    stage(started, name, {b"a": b"2", b"b": None, b"c": b"3"})
    assert read(started, name) == checksums({b"a": b"2", b"c": b"3", b"staged": b"1"})
    branch.reset_object(started, "main", b"later")
    assert read(started, "main") == checksums({**FIRST, b"staged": b"1"})
    assert [each.name for each in branch.iter_branches(started)] == ["main"]
    made = commit_of(started, name)
    assert made.message == "all"
    assert read(started, "main@") == checksums({b"a": b"2", b"c": b"3"})
    assert read(started, "main") == checksums({b"a": b"2", b"c": b"3", b"staged": b"1"})
    assert unowned(started) == set()
    for act in (workspace.discard, commit_of, read):
        with pytest.raises(WorkspaceEnded):
            act(started, name)
    with pytest.raises(WorkspaceEnded):
        stage(started, name, {b"late": b"1"})


def test_its_name_is_that_of_no_branch(started: Repository) -> None:
    """So that no command that moves branches takes it for one."""
    name = workspace.begin(started, "main")
    for act in (
        lambda: commit(started, name, message="m", committer="c"),
        lambda: branch.delete(started, name),
        lambda: branch.reset(started, name),
        lambda: push(started, name, options=PushOptions(who="c")),
    ):
        with pytest.raises(NotFound):
            act()
    with pytest.raises(UsageError):
        branch.create(started, name, source="main")
    with started.lake.kv.read() as txn:
        token = branch.show(started, "main").staging_token
        assert find_of(txn, started, "main", "another owner") is None
    with pytest.raises(Refused):
        read(started, f"main*{token.hex()}")
    with pytest.raises(Refused):
        read(started, f"side*{name[5:]}")


@pytest.mark.parametrize("staged", [b"0", b"1", b"2"])
def test_the_commit_is_one_operation(started: Repository, staged: bytes) -> None:
    """It takes what it replaces off what was staged before, whatever that was."""
    stage(started, "main", {b"a": staged, b"kept": b"1"})
    before = read(started, "main")
    name = workspace.begin(started, "main")
    stage(started, name, {b"a": b"2"})
    stage(started, name, {b"c": b"3"})
    commit_of(started, name)
    after = checksums({b"a": b"2", b"b": b"1", b"c": b"3", b"kept": b"1"})
    assert read(started, "main") == after
    assert read(started, "main@") == checksums({b"a": b"2", b"b": b"1", b"c": b"3"})
    with started.lake.kv.read() as txn:
        kinds = [each.kind for each in iter_operations(txn, started.key)]
    assert kinds == ["commit", "test", "commit", "test", "repo create"]
    undo(started)
    assert (read(started, "main@"), read(started, "main")) == (checksums(FIRST), before)
    redo(started)
    assert read(started, "main") == after
    commit(started, "main", message="kept", committer="Ada")
    assert read(started, "main@") == after
    assert unowned(started) == set()


@pytest.mark.parametrize("is_staged", [False, True])
@pytest.mark.parametrize("how", ["one", "tree", "copy"])
def test_what_is_written_as_it_was_is_written(
    started: Repository, tmp_path: Path, how: str, *, is_staged: bool
) -> None:
    """So what was only staged is committed, and what others change meanwhile is a conflict."""
    stage(started, "main", {b"d/a": b"same"})
    if not is_staged:
        commit(started, "main", message="same", committer="Ada")
    source = tmp_path / "source"
    source.mkdir()
    (source / "a").write_bytes(b"same")
    name = workspace.begin(started, "main")
    options = UploadOptions(content_type="text/plain")
    if how == "one":
        upload_file(started, name, b"d/a", source=source / "a", options=options)
    elif how == "tree":
        upload_tree(started, name, b"d/", source=source, options=options)
    else:
        cp(started, source_ref="main", source=b"d/a", branch=name, path=b"d/a2")
        cp(started, source_ref=name, source=b"d/a2", branch=name, path=b"d/a")
    if is_staged:
        commit_of(started, name)
        assert read(started, "main@")[b"d/a"] == checksums({b"a": b"same"})[b"a"]
        return
    others_push(started, {b"d/a": b"theirs"})
    with pytest.raises(WorkspaceConflict):
        commit_of(started, name)


def test_what_was_staged_may_be_committed_or_discarded_meanwhile(started: Repository) -> None:
    """The workspace has seen it, so replacing it is no conflict; it still reads the same."""
    for number, how in enumerate(("committed", "a part", "discarded", "deleted")):
        value = b"staged %d" % number
        stage(started, "main", {b"a": value, b"s": value})
        name = workspace.begin(started, "main")
        stage(started, name, {b"a": value + b" mine"})
        if how == "discarded":
            branch.reset(started, "main")
        elif how == "deleted":
            branch.reset_prefix(started, "main", b"")
        else:
            paths = [b"a"] if how == "a part" else []
            commit(started, "main", message=how, committer="Ada", paths=paths)
        assert read(started, name)[b"s"] == checksums({b"s": value})[b"s"], how
        commit_of(started, name)
        for ref in ("main@", "main"):
            expected = checksums({b"a": value + b" mine"})
            assert read(started, ref)[b"a"] == expected[b"a"], how
    stage(started, "main", {b"a": b"staged"})
    name = workspace.begin(started, "main")
    stage(started, name, {b"a": b"mine"})
    stage(started, "main", {b"a": b"again"})
    commit(started, "main", message="again", committer="Ada")
    with pytest.raises(WorkspaceConflict, match="changed on main"):
        commit_of(started, name)


@pytest.mark.parametrize("how", ["commit", "reset", "undo", "stage", "delete", "rename"])
def test_what_others_do_to_the_branch_meanwhile(started: Repository, how: str) -> None:
    branch.create(started, "work", source="main")
    if how in {"reset", "undo"}:
        stage(started, "work", {b"x": b"1"})
        commit(started, "work", message="x", committer="Ada")
    name = workspace.begin(started, "work")
    stage(started, name, {b"a": b"2"})
    if how == "commit":
        stage(started, "work", {b"x": b"2"})
        commit(started, "work", message="x", committer="Ada")
    elif how == "reset":
        branch.reset(started, "work", to="work~1")
    elif how == "undo":
        undo(started)
    elif how == "stage":
        stage(started, "work", {b"x": b"staged"})
    elif how == "delete":
        branch.delete(started, "work")
    else:
        branch.rename(started, "work", "renamed")
    if how in {"delete", "rename"}:
        with pytest.raises(NotFound):
            commit_of(started, name)
    else:
        commit_of(started, name)
        more = {"commit": {b"x": b"2"}}.get(how, {})
        assert read(started, "work@") == checksums({**FIRST, b"a": b"2", **more})
    # What was staged when undo gave the commit back is staged again, and stays.
    if how in {"stage", "undo"}:
        staged = {"stage": b"staged", "undo": b"1"}[how]
        assert read(started, "work")[b"x"] == checksums({b"x": staged})[b"x"]
    assert unowned_but_branches(started) == set()


def unowned_but_branches(repository: Repository) -> set[bytes]:
    found = unowned(repository)
    for each in branch.iter_branches(repository):
        found -= {each.staging_token, *each.sealed_tokens}
    with repository.lake.kv.read() as txn:
        for operation in iter_operations(txn, repository.key):
            found -= {bytes(change.token) for change in operation.staging}
            for change in operation.refs:
                for fields in (change.before, change.after):
                    if fields is not None and "staging_token" in fields:
                        found.discard(bytes.fromhex(fields["staging_token"]))
    return found


@pytest.mark.parametrize("theirs", [b"2", None])
@pytest.mark.parametrize("mine", [b"3", None])
def test_paths_that_both_changed_are_a_conflict(
    started: Repository, mine: bytes | None, theirs: bytes | None
) -> None:
    name = workspace.begin(started, "main")
    stage(started, name, {b"a": mine, b"c": b"3"})
    others_push(started, {b"a": theirs, b"b": b"2"})
    if mine is theirs is None:
        commit_of(started, name)
        assert read(started, "main@") == checksums({b"b": b"2", b"c": b"3"})
        return
    with pytest.raises(WorkspaceConflict, match="changed on main") as caught:
        commit_of(started, name)
    assert caught.value.paths == (b"a",)
    assert b"c" not in read(started, "main")
    assert unowned(started) == set()


def test_nobody_else_may_change_what_is_watched(started: Repository) -> None:
    stage(started, "main", {b"d/x": b"1"})
    commit(started, "main", message="second", committer="Ada")
    for path, is_conflict in ((b"d/y", True), (b"e", False), (b"d0", False)):
        name = workspace.begin(started, "main")
        stage(started, name, {b"d/x": path})
        workspace.watch(started, name, [b"d/"])
        workspace.watch(started, name, [b"f/"])
        others_push(started, {path: b"theirs"})
        if not is_conflict:
            commit_of(started, name)
            continue
        with pytest.raises(WorkspaceConflict) as caught:
            commit_of(started, name)
        assert caught.value.paths == (b"d/y",)
    with pytest.raises(WorkspaceEnded):
        workspace.watch(started, name, [b"g/"])


def test_paths_that_others_have_staged_are_a_conflict(started: Repository) -> None:
    name = workspace.begin(started, "main")
    stage(started, name, {b"a": b"2", b"b": b"2", b"same": b"1"})
    stage(started, "main", {b"a": b"before", b"same": b"1", b"b": None})
    with pytest.raises(WorkspaceConflict, match="2 paths of the block were staged") as caught:
        commit_of(started, name)
    assert caught.value.paths == (b"a", b"b")
    assert read(started, "main") == checksums({b"a": b"before", b"same": b"1"})


def test_what_is_staged_while_the_commit_is_built_is_a_conflict_of_its_own_commit(
    tmp_path: Path,
) -> None:
    armed = False

    def on_step(step: str) -> None:
        nonlocal armed
        if armed and step == "move":
            armed = False
            stage(repository, "main", {b"a": b"theirs"})

    with open_lake(tmp_path, on_step=on_step) as lake:
        repository = begin_with(make_repository(lake, tmp_path), FIRST)
        name = workspace.begin(repository, "main")
        stage(repository, name, {b"a": b"mine"})
        armed = True
        commit_of(repository, name)
        assert not armed
        assert read(repository, "main@")[b"a"] == checksums({b"a": b"mine"})[b"a"]
        with pytest.raises(StagedConflict):
            commit(repository, "main", message="theirs", committer="they")


def test_another_commit_meanwhile_is_built_upon(tmp_path: Path) -> None:
    armed: list[str] = []

    def on_step(step: str) -> None:
        if armed and step == armed[0]:
            armed.clear()
            others_push(repository, {b"b": b"theirs, at " + step.encode()})

    with open_lake(tmp_path, on_step=on_step) as lake:
        repository = begin_with(make_repository(lake, tmp_path), FIRST)
        for number, step in enumerate(("seal", "build", "move")):
            name = workspace.begin(repository, "main")
            stage(repository, name, {b"a": b"%d" % number, b"c": step.encode()})
            armed.append(step)
            commit_of(repository, name)
            assert not armed
            theirs = b"theirs, at " + step.encode()
            expected = {b"a": b"%d" % number, b"b": theirs, b"c": step.encode()}
            assert read(repository, "main@") == checksums(expected)


def test_a_write_that_comes_late_is_refused_or_committed(tmp_path: Path) -> None:
    late: list[bytes] = []

    def on_step(step: str) -> None:
        if name:
            path = step.encode()
            try:
                stage(repository, name, {path: b"1"})
            except WorkspaceEnded:
                return
            late.append(path)

    name = ""
    with open_lake(tmp_path, on_step=on_step) as lake:
        repository = begin_with(make_repository(lake, tmp_path), FIRST)
        name = workspace.begin(repository, "main")
        commit_of(repository, name)
        assert late == [b"seal"]
        assert read(repository, "main@") == checksums({**FIRST, b"seal": b"1"})


def test_without_a_change_there_is_no_commit(started: Repository) -> None:
    name = workspace.begin(started, "main")
    stage(started, name, {b"a": b"1", b"none": None})
    with pytest.raises(NothingToDo):
        commit_of(started, name)
    name = workspace.begin(started, "main")
    made = workspace.commit(started, name, message="empty", committer="Ada", allow_empty=True)
    assert branch.show(started, "main").commit_id == made.id
    assert unowned(started) == set()


@pytest.mark.parametrize("step", ["seal", "build", "leave", "move", "tidy"])
def test_a_crash_at_any_step_leaves_all_or_nothing(tmp_path: Path, step: str) -> None:
    armed = False

    def on_step(name: str) -> None:
        if armed and name == step:
            raise KeyboardInterrupt

    with open_lake(tmp_path, on_step=on_step) as lake:
        repository = begin_with(make_repository(lake, tmp_path), FIRST)
        stage(repository, "main", {b"a": b"2", b"s": b"1"})
        name = workspace.begin(repository, "main")
        stage(repository, name, {b"a": b"3", b"c": b"3"})
        armed = True
        with pytest.raises(KeyboardInterrupt):
            commit_of(repository, name)
        armed = False
        again = through(repository)
        lands = step == "tidy"
        expected = {**FIRST, b"a": b"3", b"c": b"3"} if lands else FIRST
        assert read(again, "main@") == checksums(expected)
        staged = {b"s": b"1"} if lands else {b"s": b"1", b"a": b"2"}
        assert read(again, "main") == checksums({**expected, **staged})
        with suppress(WorkspaceEnded):
            workspace.discard(again, name)


def test_what_a_killed_job_leaves_is_deleted_after_a_week(tmp_path: Path) -> None:
    clock = Ticking()
    with open_lake(tmp_path, clock=clock) as lake:
        repository = begin_with(make_repository(lake, tmp_path), FIRST)
        name = workspace.begin(repository, "main")
        stage(repository, name, {b"c": b"3"})
        let_pass(repository, clock, KEPT_FOR - timedelta(days=2))
        stage(repository, name, {b"d": b"4"})  # it is alive
        let_pass(repository, clock, KEPT_FOR - timedelta(days=2))
        housekeeping.tidy(repository)
        assert read(repository, name) == checksums({**FIRST, b"c": b"3", b"d": b"4"})
        let_pass(repository, clock, timedelta(days=2))
        housekeeping.tidy(repository)
        assert unowned(repository) == set()
        with pytest.raises(WorkspaceEnded):
            commit_of(repository, name)
        with lake.kv.read() as txn:
            assert list(txn.scan(Table.META, prefix=b"copy/")) == []


def test_what_is_in_a_workspace_is_in_use(started: Repository) -> None:
    name = workspace.begin(started, "main")
    stage(started, name, {b"c": b"in a workspace"})
    found = b"".join(iter_staged(started, started.lake.runtime.now()))
    assert blake3_of(b"in a workspace") in found
    workspace.discard(started, name)
    found = b"".join(iter_staged(started, started.lake.runtime.now()))
    assert blake3_of(b"in a workspace") not in found


def test_automatic_sync_sends_the_commit_and_nothing_else(tmp_path: Path) -> None:
    with Clones.make(tmp_path, "ada", "bob") as clones:
        ada, bob = clones.repositories
        stage(ada, "main", {b"staged": b"ada"})
        handle = synced(ada, "ada")
        name = workspace.begin(handle.repository, "main")
        stage(ada, name, {b"a": b"ada"})
        # Bob is faster, with another path.
        theirs = synced(bob, "bob")
        stage(bob, "main", {b"b": b"bob"})
        commit(theirs.repository, "main", message="bob's", committer="Bob")
        theirs.finish()
        commit_of(handle.repository, name)
        handle.finish()
        synced(bob, "bob").catch_up()
        assert read(bob, "main") == checksums({b"a": b"ada", b"b": b"bob"})
        assert read(ada, "main") == checksums({b"a": b"ada", b"b": b"bob", b"staged": b"ada"})
        # Then with the same one.
        name = workspace.begin(handle.repository, "main")
        stage(ada, name, {b"a": b"again"})
        stage(bob, "main", {b"a": b"bob"})
        commit(theirs.repository, "main", message="bob's", committer="Bob")
        theirs.finish()
        with pytest.raises(WorkspaceConflict):
            commit_of(handle.repository, name)
        assert unowned(ada) == set()
        # With what was staged here before, which it replaces, and what stays.
        stage(ada, "main", {b"c": b"staged"})
        name = workspace.begin(handle.repository, "main")
        stage(ada, name, {b"c": b"ada"})
        stage(bob, "main", {b"b": b"again"})
        commit(theirs.repository, "main", message="bob's", committer="Bob")
        theirs.finish()
        commit_of(handle.repository, name)
        handle.finish()
        synced(bob, "bob").catch_up()
        expected = {b"a": b"bob", b"b": b"again", b"c": b"ada"}
        assert read(bob, "main") == checksums(expected)
        assert read(ada, "main") == checksums({**expected, b"staged": b"ada"})
        assert unowned(ada) == set()
