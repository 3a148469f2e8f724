"""Moving a clean branch with staged entries that change nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakecli.errors import ConflictError, DirtyBranch, NothingToDo
from lakecli.remote.refs import MoveOutcome
from lakecli.repository import branch
from lakecli.repository.cherry_pick import cherry_pick
from lakecli.repository.commit import commit
from lakecli.repository.journal.intents import finish_pending
from lakecli.repository.merge import MergeOptions, merge, preview
from lakecli.repository.pull import IncomingConflict, Pulling, PullOptions, pull
from lakecli.repository.push import PushOptions, push
from lakecli.repository.reading.view import view_of_branch
from lakecli.repository.revert import revert
from lakecli.repository.sharing.fetch import fetch
from lakecli.repository.staged import changes
from lakecli.repository.staged.changes import MAX_LISTED
from lakecli.repository.undo.undo import redo, restore, undo
from tests.support.clones import Clones, synced
from tests.support.lakes import checksums, make_repository, open_lake, read, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakecli.base.model import Commit
    from lakecli.repository.contract import Repository

BEFORE = {b"a": b"1", b"b": b"1", b"c": b"1"}
AFTER = {b"a": b"2", b"c": b"1", b"new": b"2"}
"""Changed, removed, left alone and added."""


def _merge(repository: Repository) -> Commit:
    return merge(repository, "side", "main", MergeOptions("me"))


def _cherry_pick(repository: Repository) -> Commit:
    return cherry_pick(repository, "side", "main", committer="me")


def _revert(repository: Repository) -> Commit:
    return revert(repository, "main", "main@", committer="me")


def _import(repository: Repository) -> Commit:
    from lakecli.engine.runner import LocalRunner
    from lakecli.imports.job import import_objects
    from lakecli.imports.report import ImportOptions
    from lakecli.imports.sources import DirectorySource
    from lakecli.repository.transfer.walk import LinkPolicy

    source = Path(repository.lake.home.cache).parent / "source"
    source.mkdir(exist_ok=True)
    for path, data in AFTER.items():
        (source / path.decode()).write_bytes(data)
    with LocalRunner() as runner:
        report = import_objects(
            repository,
            "main",
            None,
            source=DirectorySource(bytes(source), LinkPolicy.FAIL, set()),
            runner=runner,
            committer="me",
            options=ImportOptions(),
        )
    assert report.commit is not None
    return report.commit


MOVES = {"merge": _merge, "cherry-pick": _cherry_pick, "revert": _revert, "import": _import}


def prepare(repository: Repository, move: str = "merge") -> None:
    """Make a branch main that a move takes from `BEFORE` to `AFTER`."""
    first, second = (AFTER, BEFORE) if move == "revert" else (BEFORE, AFTER)
    stage(repository, "main", dict(first))
    commit(repository, "main", message="before", committer="me")
    if move != "revert":
        branch.create(repository, "side", source="main")
    name = "main" if move == "revert" else "side"
    stage(repository, name, dict.fromkeys(first))
    stage(repository, name, dict(second))
    commit(repository, name, message="after", committer="me")


def stage_no_ops(repository: Repository) -> None:
    """Remove everything and stage it again; stage something new and remove it again."""
    stage(repository, "main", dict.fromkeys(BEFORE))
    stage(repository, "main", {**BEFORE, b"new": b"0"})
    stage(repository, "main", {b"new": None})
    assert read(repository, "main") == read(repository, "main@") == checksums(BEFORE)


def staged(repository: Repository, name: str = "main") -> dict[bytes, bytes]:
    with repository.lake.kv.read() as txn:
        return dict(view_of_branch(repository, txn, name).staged())


@pytest.mark.parametrize("move", MOVES)
def test_changes_staged_before_a_move_have_no_effect_after_it(
    repository: Repository, move: str
) -> None:
    prepare(repository, move)
    stage_no_ops(repository)
    no_ops = staged(repository)
    MOVES[move](repository)

    assert not staged(repository)
    assert read(repository, "main") == read(repository, "main@") == checksums(AFTER)
    stage(repository, "main", {b"later": b"3"})
    commit(repository, "main", message="later", committer="me")
    assert read(repository, "main@") == checksums({**AFTER, b"later": b"3"})

    for _ in range(3):
        undo(repository)
    assert staged(repository) == no_ops
    assert read(repository, "main") == read(repository, "main@") == checksums(BEFORE)
    redo(repository)
    assert not staged(repository)
    assert read(repository, "main") == checksums(AFTER)


def test_changes_staged_during_a_move_stay_staged(tmp_path: Path) -> None:
    writes = [b"late"]

    def write_once(step: str) -> None:
        if step == "build" and writes:
            stage(repository, "main", {writes.pop(): b"1"})

    with open_lake(tmp_path) as lake:
        repository = make_repository(lake, tmp_path)
        prepare(repository)
        stage_no_ops(repository)
        lake.runtime = lake.runtime._replace(on_step=write_once)
        _merge(repository)
        assert list(staged(repository)) == [b"late"]
        assert read(repository, "main@") == checksums(AFTER)
        assert read(repository, "main") == checksums({**AFTER, b"late": b"1"})


def test_a_change_staged_between_check_and_seal_is_not_lost(tmp_path: Path) -> None:
    changes = [b"a"]

    def change_once(step: str) -> None:
        if step == "seal" and changes:
            stage(repository, "main", {changes.pop(): b"mine"})

    with open_lake(tmp_path) as lake:
        repository = make_repository(lake, tmp_path)
        prepare(repository)
        stage_no_ops(repository)
        lake.runtime = lake.runtime._replace(on_step=change_once)
        with pytest.raises(DirtyBranch):
            _merge(repository)
        assert read(repository, "main@") == checksums(BEFORE)
        assert read(repository, "main") == checksums({**BEFORE, b"a": b"mine"})


def test_a_refused_move_seals_nothing(repository: Repository) -> None:
    prepare(repository)
    stage(repository, "main", {b"a": b"mine"})
    before = branch.show(repository, "main")
    with pytest.raises(DirtyBranch):
        _merge(repository)
    assert branch.show(repository, "main") == before


def test_a_move_over_changes_sealed_by_a_killed_commit_is_refused(tmp_path: Path) -> None:
    def killed(step: str) -> None:
        if step == "move":
            raise KeyboardInterrupt

    with open_lake(tmp_path) as lake:
        repository = make_repository(lake, tmp_path)
        prepare(repository)
        stage(repository, "main", {b"a": b"mine"})
        calm = lake.runtime
        lake.runtime = calm._replace(on_step=killed)
        with pytest.raises(KeyboardInterrupt):
            commit(repository, "main", message="killed", committer="me")
        lake.runtime = calm
        assert branch.show(repository, "main").sealed_tokens
        for move in (_merge, _cherry_pick):
            with pytest.raises(DirtyBranch, match=r"has an uncommitted change$") as raised:
                move(repository)
            assert raised.value.paths == (b"a",)
        assert read(repository, "main") == checksums({**BEFORE, b"a": b"mine"})
        commit(repository, "main", message="again", committer="me")
        assert read(repository, "main@") == checksums({**BEFORE, b"a": b"mine"})


def test_uncommitted_changes_are_listed_up_to_a_limit(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(repository)
    monkeypatch.setattr(changes, "MAX_LISTED", 3)
    stage(repository, "main", {b"a": b"mine", b"b": None, b"c": b"1", b"z": b"1"})
    for refused in (_merge, _cherry_pick, _preview):
        with pytest.raises(DirtyBranch, match="has 3 uncommitted changes") as raised:
            refused(repository)
        assert raised.value.paths == (b"a", b"b", b"z")
    monkeypatch.undo()
    many = {b"many/%05d" % number: b"1" for number in range(MAX_LISTED)}
    stage(repository, "main", many)
    with pytest.raises(DirtyBranch, match="has more than 1,000 uncommitted changes") as raised:
        _merge(repository)
    assert len(raised.value.paths) == MAX_LISTED


def _preview(repository: Repository) -> None:
    with preview(repository, "side", "main", MergeOptions("me")):
        pass


def test_a_commit_without_changes_changes_nothing(repository: Repository) -> None:
    prepare(repository)
    stage_no_ops(repository)
    stage(repository, "main", {b"x": b"1"})
    undo(repository)  # so that there is something to redo
    logged, before, no_ops = _log(repository), branch.show(repository, "main"), staged(repository)
    assert no_ops
    for paths in ((), (b"a",), (b"none",)):
        with pytest.raises(NothingToDo):
            commit(repository, "main", message="none", committer="me", paths=paths)
        assert (_log(repository), branch.show(repository, "main")) == (logged, before)
        assert staged(repository) == no_ops
    redo(repository)
    assert read(repository, "main")[b"x"]
    undo(repository)
    assert staged(repository) == no_ops
    with pytest.raises(NothingToDo):
        commit(repository, "main", message="none", committer="me")
    stage(repository, "main", {b"z": b"1"})
    made = commit(repository, "main", message="z", committer="me")
    assert branch.show(repository, "main").commit_id == made.id
    assert not staged(repository)


def test_what_is_staged_while_nothing_is_committed_stays(tmp_path: Path) -> None:
    def stage_once(step: str) -> None:
        if step == "unseal" and not _has_staged(repository, b"late"):
            stage(repository, "main", {b"late": b"1"})

    with open_lake(tmp_path) as lake:
        repository = make_repository(lake, tmp_path)
        prepare(repository)
        stage_no_ops(repository)
        lake.runtime = lake.runtime._replace(on_step=stage_once)
        with pytest.raises(NothingToDo):
            commit(repository, "main", message="none", committer="me")
        assert branch.show(repository, "main").sealed_tokens
        commit(repository, "main", message="late", committer="me")
        assert read(repository, "main@")[b"late"]
        assert not staged(repository)
        assert not branch.show(repository, "main").sealed_tokens


@pytest.mark.parametrize("sync", [False, True], ids=["manual", "auto"])
def test_commit_refuses_a_change_staged_while_a_merge_changed_its_path(
    tmp_path: Path, *, sync: bool
) -> None:
    def stage_once(step: str) -> None:
        if step == "build" and not _has_staged(repository, b"a"):
            stage(repository, "main", {b"a": b"staged meanwhile", b"d": b"by nobody else"})

    with Clones.make(tmp_path, "ada") as clones:
        (repository,) = clones.repositories
        prepare(repository)
        sharing = synced(repository, "ada") if sync else None
        lake = repository.lake
        lake.runtime = lake.runtime._replace(on_step=stage_once)
        head = _merge(repository if sharing is None else sharing.repository)
        if sharing is not None:
            sharing.finish()
        lake.runtime = lake.runtime._replace(on_step=lambda _name: None)
        with pytest.raises(ConflictError) as refused:
            commit(repository, "main", message="over the merge", committer="me")
        assert refused.value.paths == (b"a",)
        assert branch.show(repository, "main").commit_id == head.id


def test_a_change_left_by_an_undo_meanwhile_is_committed(tmp_path: Path) -> None:
    undone: list[bytes] = []

    def undo_once(step: str) -> None:
        if step == "unseal" and not undone:
            undone.append(b"a")
            undo(repository)

    with open_lake(tmp_path) as lake:
        repository = make_repository(lake, tmp_path)
        prepare(repository)
        stage(repository, "main", {b"a": None})
        stage(repository, "main", {b"a": b"1"})
        lake.runtime = lake.runtime._replace(on_step=undo_once)
        commit(repository, "main", message="without a", committer="me")
        assert undone
        assert read(repository, "main@") == checksums({b"b": b"1", b"c": b"1"})


def test_changes_sealed_by_another_commit_meanwhile_are_not_discarded(tmp_path: Path) -> None:
    steps: list[str] = []

    def seal_other_changes(step: str) -> None:
        steps.append(step)
        if step == "unseal":
            _merge(repository)
            stage(repository, "main", {b"late": b"1"})
            with pytest.raises(KeyboardInterrupt):
                commit(repository, "main", message="killed", committer="me")
        elif step == "build" and steps.count("seal") > 1 and _has_staged(repository, b"late"):
            raise KeyboardInterrupt

    with open_lake(tmp_path) as lake:
        repository = make_repository(lake, tmp_path)
        prepare(repository)
        stage_no_ops(repository)
        lake.runtime = lake.runtime._replace(on_step=seal_other_changes)
        with pytest.raises(
            KeyboardInterrupt
        ):  # it continues with the tokens that the other one sealed
            commit(repository, "main", message="none", committer="me")
        assert branch.show(repository, "main").sealed_tokens
        assert read(repository, "main") == checksums({**AFTER, b"late": b"1"})


def test_staged_changes_that_change_nothing_are_looked_at_once(tmp_path: Path) -> None:
    steps: list[str] = []
    with open_lake(tmp_path) as lake:
        repository = make_repository(lake, tmp_path)
        prepare(repository)
        stage_no_ops(repository)
        lake.runtime = lake.runtime._replace(on_step=steps.append)
        with pytest.raises(NothingToDo):
            commit(repository, "main", message="none", committer="me")
    assert (steps.count("build"), steps.count("unseal")) == (1, 1)


def _has_staged(repository: Repository, path: bytes) -> bool:
    return path in staged(repository)


def test_a_commit_with_nothing_staged_logs_no_operation(repository: Repository) -> None:
    prepare(repository)
    before = len(_log(repository))
    with pytest.raises(NothingToDo):
        commit(repository, "main", message="none", committer="me")
    assert len(_log(repository)) == before


def _log(repository: Repository) -> list[str]:
    from lakecli.repository.undo.log import iter_log

    return [logged.operation.kind for logged in iter_log(repository)]


def test_a_path_restored_over_a_sealed_change_is_no_change(tmp_path: Path) -> None:
    def killed(step: str) -> None:
        if step == "move":
            raise KeyboardInterrupt

    with open_lake(tmp_path) as lake:
        repository = make_repository(lake, tmp_path)
        prepare(repository)
        stage(repository, "main", {b"a": b"mine"})
        calm = lake.runtime
        lake.runtime = calm._replace(on_step=killed)
        with pytest.raises(KeyboardInterrupt):
            commit(repository, "main", message="killed", committer="me")
        lake.runtime = calm
        assert branch.reset_object(repository, "main", b"a") == 1
        _merge(repository)
        assert not staged(repository)
        assert read(repository, "main") == checksums(AFTER)


def test_a_reset_path_is_not_in_the_running_commit(tmp_path: Path) -> None:
    resets = [b"a"]

    def reset_once(step: str) -> None:
        if step == "move" and resets:
            branch.reset_object(repository, "main", resets.pop())

    with open_lake(tmp_path) as lake:
        repository = make_repository(lake, tmp_path)
        prepare(repository)
        stage(repository, "main", {b"a": b"mine", b"c": b"3"})
        lake.runtime = lake.runtime._replace(on_step=reset_once)
        commit(repository, "main", message="c", committer="me")
        assert read(repository, "main") == checksums({**BEFORE, b"c": b"3"})
        assert read(repository, "main@") == checksums({**BEFORE, b"c": b"3"})


# -- shared through the bucket -----------------------------------------------------------------


@pytest.fixture
def clones(tmp_path: Path) -> Iterator[tuple[Repository, ...]]:
    with Clones.make(tmp_path, "ada", "bob") as made:
        yield made.repositories


def share(repository: Repository) -> None:
    """Push and fetch everything, as a command under ``sync = auto`` does."""
    shared(repository, lambda _: None)


def shared(repository: Repository, act: Callable[[Repository], object]) -> None:
    """Do something as a command under ``sync = auto``."""
    sharing = synced(repository, "somebody")
    sharing.catch_up()
    act(sharing.repository)
    sharing.finish()


def test_a_shared_merge_removes_staged_entries_without_changes(
    clones: tuple[Repository, ...],
) -> None:
    ada, bob = clones
    shared(ada, prepare)
    stage_no_ops(ada)
    shared(ada, _merge)
    assert not staged(ada)
    assert read(ada, "main") == checksums(AFTER)
    shared(bob, lambda _: None)
    assert read(bob, "main") == checksums(AFTER)


def test_the_command_after_a_killed_merge_removes_staged_entries_without_changes(
    clones: tuple[Repository, ...],
) -> None:
    ada, _ = clones
    shared(ada, prepare)
    stage_no_ops(ada)

    steps: list[str] = []

    def killed(step: str) -> None:
        steps.append(step)
        if step == "track" and "put" in steps:
            raise KeyboardInterrupt

    calm = ada.lake.runtime
    ada.lake.runtime = calm._replace(on_step=killed)
    with pytest.raises(KeyboardInterrupt):
        shared(ada, _merge)
    ada.lake.runtime = calm
    assert staged(ada)
    (finished,) = finish_pending(ada)
    assert finished.state is MoveOutcome.APPLIED
    assert not staged(ada)
    assert read(ada, "main") == read(ada, "main@") == checksums(AFTER)


@pytest.mark.parametrize("changes", [{}, {b"mine": b"1"}], ids=["clean", "dirty"])
def test_a_branch_that_follows_drops_staged_entries_without_changes(
    clones: tuple[Repository, ...], changes: dict[bytes, bytes]
) -> None:
    ada, bob = clones
    shared(ada, prepare)
    shared(bob, stage_no_ops)
    stage(bob, "main", dict(changes))
    before = staged(bob)
    shared(ada, _merge)
    shared(bob, lambda _: None)

    assert read(bob, "main@") == checksums(AFTER)
    assert read(bob, "main") == checksums({**AFTER, **changes})
    if changes:
        commit(bob, "main", message="mine", committer="me")
        assert read(bob, "main@") == checksums({**AFTER, **changes})
        undo(bob)
    restore(bob, _kinds(bob)["test"])  # the state after the last staging, before the fetch
    assert staged(bob) == before
    assert read(bob, "main@") == checksums(BEFORE)


def _kinds(repository: Repository) -> dict[str, str]:
    """Return the newest operation of each kind."""
    from lakecli.repository.undo.log import iter_log

    found: dict[str, str] = {}
    for logged in iter_log(repository):
        found.setdefault(logged.operation.kind, logged.operation.id.hex())
    return found


def test_a_change_staged_while_a_branch_is_about_to_follow_stays(
    clones: tuple[Repository, ...],
) -> None:
    ada, bob = clones
    shared(ada, prepare)
    shared(bob, stage_no_ops)
    shared(ada, _merge)
    late = [b"a"]

    def stage_once(step: str) -> None:
        if step == "unstage" and late:
            stage(bob, "main", {late.pop(): b"mine"})

    bob.lake.runtime = bob.lake.runtime._replace(on_step=stage_once)
    shared(bob, lambda _: None)
    assert not late
    assert read(bob, "main@") == checksums(AFTER)
    assert read(bob, "main") == checksums({**AFTER, b"a": b"mine"})


def test_a_commit_that_is_pushed_while_a_branch_is_about_to_follow_stays(
    clones: tuple[Repository, ...],
) -> None:
    ada, bob = clones
    shared(ada, prepare)
    shared(bob, stage_no_ops)
    shared(ada, _merge)
    late = [b"late"]

    def commit_late(repository: Repository, path: bytes) -> None:
        stage(repository, "main", {path: b"mine"})
        commit(repository, "main", message="late", committer="me")

    def commit_once(step: str) -> None:
        if step == "unstage" and late:
            path = late.pop()
            shared(bob, lambda repository: commit_late(repository, path))

    bob.lake.runtime = bob.lake.runtime._replace(on_step=commit_once)
    shared(bob, lambda _: None)
    assert not late
    shared(ada, lambda _: None)
    for clone in clones:
        assert read(clone, "main@") == checksums({**AFTER, b"late": b"mine"})


def test_undo_after_following_restores_only_the_staging(clones: tuple[Repository, ...]) -> None:
    ada, bob = clones
    shared(ada, prepare)
    shared(bob, lambda _: None)
    stage(bob, "main", {b"a": None})
    stage(bob, "main", {b"a": b"1"})
    shared(ada, _merge)
    shared(bob, lambda _: None)
    assert read(bob, "main") == checksums(AFTER)
    undo(bob)  # of the second staging; the removal stays
    assert read(bob, "main") == checksums({b"c": b"1", b"new": b"2"})
    undo(bob)
    assert read(bob, "main") == checksums(AFTER)
    assert not staged(bob)


def test_entries_sealed_by_a_killed_commit_are_dropped_too(clones: tuple[Repository, ...]) -> None:
    ada, bob = clones
    shared(ada, prepare)
    shared(bob, stage_no_ops)

    def killed(step: str) -> None:
        if step == "build":
            raise KeyboardInterrupt

    calm = bob.lake.runtime
    bob.lake.runtime = calm._replace(on_step=killed)
    with pytest.raises(KeyboardInterrupt):
        commit(bob, "main", message="killed", committer="me")
    bob.lake.runtime = calm
    assert branch.show(bob, "main").sealed_tokens
    shared(ada, _merge)
    shared(bob, lambda _: None)
    assert read(bob, "main") == checksums(AFTER)


def test_a_fast_forward_pull_drops_staged_entries_without_changes(
    clones: tuple[Repository, ...],
) -> None:
    ada, bob = clones
    me = PushOptions("me")
    prepare(ada)
    push(ada, "main", options=me)
    pull(bob, "main", PullOptions("me"))
    stage_no_ops(bob)
    stage(bob, "main", {b"mine": b"1"})
    _merge(ada)
    push(ada, "main", options=me)
    fetch(bob)
    planned = pull(bob, "main", PullOptions("me", dry_run=True))
    assert planned.state is Pulling.FAST_FORWARD
    assert len(staged(bob)) == len(BEFORE) + 2
    pull(bob, "main", PullOptions("me"))
    assert list(staged(bob)) == [b"c", b"mine"]  # "c" is equal in both heads
    assert read(bob, "main") == checksums({**AFTER, b"mine": b"1"})


def test_a_fast_forward_pull_refuses_a_staged_change(clones: tuple[Repository, ...]) -> None:
    ada, bob = clones
    me = PushOptions("me")
    prepare(ada)
    push(ada, "main", options=me)
    pull(bob, "main", PullOptions("me"))
    stage_no_ops(bob)
    stage(bob, "main", {b"a": b"mine"})
    _merge(ada)
    push(ada, "main", options=me)
    with pytest.raises(IncomingConflict) as raised:
        pull(bob, "main", PullOptions("me"))
    assert raised.value.paths == (b"a",)
    assert read(bob, "main@") == checksums(BEFORE)
    assert read(bob, "main") == checksums({**BEFORE, b"a": b"mine"})
