"""Undo, redo and restore: what they need, and how they treat the bucket."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from itertools import count
from random import Random
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.model import RefKind
from lakecli.committed.values import encode_entry
from lakecli.errors import AlreadyExists, LostRace, NotFound, NothingToDo, Refused
from lakecli.kv import operations as log
from lakecli.kv.local_store import Table
from lakecli.refs.ref_store import RefStore
from lakecli.repository import branch, repo, tag
from lakecli.repository.clone import clone
from lakecli.repository.commit import commit
from lakecli.repository.commit_attempts import seal
from lakecli.repository.diff import diff_uncommitted
from lakecli.repository.guard import Reclaimed
from lakecli.repository.handle import housekeeping
from lakecli.repository.handle.housekeeping import KEPT_FOR
from lakecli.repository.journal import operation_log
from lakecli.repository.pull import PullOptions, pull
from lakecli.repository.push import PushOptions, push, push_deletion
from lakecli.repository.sharing.fetch import fetch
from lakecli.repository.staged.stager import Stager
from lakecli.repository.undo.log import (
    find_operation,
    find_undo,
    iter_log,
    logged_repository,
    repository_at,
)
from lakecli.repository.undo.take_back import claim_operations
from lakecli.repository.undo.undo import redo, restore, undo
from lakecli.staging import area
from tests.support.clones import Clones, make_commit, position, synced
from tests.support.lakes import (
    Ticking,
    checksums,
    entry_of,
    let_pass,
    make_repository,
    open_lake,
    read,
    stage,
    unclaimed,
)
from tests.support.stores import get_branch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lakecli.base.model import CommitId, Difference
    from lakecli.kv.operations import Operation
    from lakecli.repository.contract import Repository
    from lakecli.repository.handle.lake import Lake

ME = PushOptions(who="Me <me@example.com>")
WHO = "Me <me@example.com>"


def head(repository: Repository, name: str = "main") -> CommitId:
    return branch.show(repository, name).commit_id


def uncommitted(repository: Repository) -> list[Difference]:
    with diff_uncommitted(repository, "main") as found:
        return list(found)


def kinds(repository: Repository) -> list[str]:
    return [each.operation.kind for each in iter_log(repository)]


class TestHere:
    def test_a_commit_after_an_undo_takes_the_restored_staging(
        self, repository: Repository
    ) -> None:
        stage(repository, "main", {b"a": b"1"})
        first = commit(repository, "main", message="wrong", committer="me")
        undo(repository)
        stage(repository, "main", {b"b": b"2"})
        second = commit(repository, "main", message="right", committer="me")
        assert second.parents == first.parents
        assert read(repository, "main@") == checksums({b"a": b"1", b"b": b"2"})
        undo(repository)
        undo(repository)
        undo(repository)
        assert read(repository, "main") == {}
        with pytest.raises(NothingToDo):
            commit(repository, "main", message="empty", committer="me")

    def test_tokens_count_as_started_on_the_current_head(self, repository: Repository) -> None:
        stage(repository, "main", {b"a": b"1"})
        before = head(repository)
        commit(repository, "main", message="first", committer="me")
        undo(repository)
        shown = branch.show(repository, "main")
        with repository.lake.kv.read() as txn:
            for token in (shown.staging_token, *shown.sealed_tokens):
                assert operation_log.started_on(txn, token) == before

    def test_a_long_command_continues_in_a_second_operation(self, repository: Repository) -> None:
        value = encode_entry(entry_of(b"x"))
        long = Stager(repository, "main")
        long.write(unclaimed([(b"1", value)]), kind="upload")
        long.write(unclaimed([(b"2", value)]), kind="upload")
        stage(repository, "main", {b"other": b"x"})
        long.write(unclaimed([(b"3", value)]), kind="upload")
        assert kinds(repository)[:3] == ["upload", "test", "upload"]
        newest, _, oldest = [each.operation for each in iter_log(repository)][:3]
        assert newest.metadata == {"continues": oldest.id.hex()}
        undo(repository)
        assert set(read(repository, "main")) == {b"1", b"2", b"other"}

    @pytest.mark.parametrize("between", ["commit", "reset", "rm", "nothing to commit"])
    def test_both_parts_of_a_long_command_are_undone_and_redone(
        self, repository: Repository, monkeypatch: pytest.MonkeyPatch, between: str
    ) -> None:
        """Another command runs between two transactions of one large `Stager.write`."""
        monkeypatch.setattr("lakecli.repository.staged.stager.BATCH", 2)
        stage(repository, "main", {b"1": b"old", b"5": b"old"})
        commit(repository, "main", message="before", committer="me")
        store, write = repository.lake.kv, repository.lake.kv.write
        states: list[tuple[dict[bytes, str], dict[bytes, str]]] = []
        first_part: list[str] = []

        def look() -> None:
            states.append((read(repository, "main"), read(repository, "main@")))

        def meddle() -> Any:
            """Run before the second transaction."""
            monkeypatch.setattr(store, "write", second)
            return write()

        def second() -> Any:
            monkeypatch.setattr(store, "write", write)
            first_part.append(next(iter_log(repository)).operation.id.hex())
            look()
            if between == "commit":
                commit(repository, "main", message="between", committer="me")
            elif between == "reset":
                branch.reset(repository, "main")
            elif between == "rm":
                stage(repository, "main", {b"1": None})
            else:
                branch.create(repository, "side", source="main")
                with suppress(NothingToDo):
                    commit(repository, "side", message="nothing", committer="me")
            look()
            return write()

        look()
        monkeypatch.setattr(store, "write", meddle)
        value = encode_entry(entry_of(b"new"))
        changes = unclaimed([(b"%d" % number, value) for number in range(1, 6)])
        Stager(repository, "main").write(changes, kind="upload")
        look()
        assert len(states) == 4
        for state in states[2::-1]:
            undo(repository)
            assert (read(repository, "main"), read(repository, "main@")) == state
        for state in states[1:]:
            redo(repository)
            assert (read(repository, "main"), read(repository, "main@")) == state
        restore(repository, first_part[0])
        assert (read(repository, "main"), read(repository, "main@")) == states[1]

    def test_a_running_commit_sees_what_was_undone(self, tmp_path: Path) -> None:
        """The staging is undone after the commit has sealed and built it."""
        built, undone = Event(), Event()

        def on_step(name: str) -> None:
            if name == "move" and not built.is_set():
                built.set()
                assert undone.wait(20)

        with open_lake(tmp_path, on_step=on_step) as lake:
            repository = make_repository(lake, tmp_path)
            stage(repository, "main", {b"kept": b"1"})
            stage(repository, "main", {b"undone": b"2"})

            def run() -> None:
                commit(repository, "main", message="late", committer="me")

            committing = Thread(target=run)
            committing.start()
            assert built.wait(20)
            undo(repository)
            undone.set()
            committing.join(20)
            assert read(repository, "main@") == checksums({b"kept": b"1"})

    def test_a_lost_race_undoes_nothing(self, tmp_path: Path) -> None:
        def on_step(name: str) -> None:
            if name == "undo here":
                branch.create(made[0], "other", source="main")

        made: list[Repository] = []
        with open_lake(tmp_path, on_step=on_step) as lake:
            made.append(make_repository(lake, tmp_path))
            branch.create(made[0], "dev", source="main")
            with pytest.raises(LostRace, match="meanwhile"):
                undo(made[0])
            assert {each.name for each in branch.iter_branches(made[0])} == {"dev", "main", "other"}

    def test_undo_refuses_a_ref_that_moved_since(self, repository: Repository) -> None:
        made = tag.create(repository, "v1", "main")
        with repository.lake.kv.write() as txn:
            RefStore(txn, repository.key).delete_tag(made.name)
        with pytest.raises(LostRace, match="tag v1 is no longer"):
            undo(repository)
        assert kinds(repository)[0] == "tag create"

    def test_undo_refuses_a_name_in_use(self, lake: Lake, tmp_path: Path) -> None:
        first = make_repository(lake, tmp_path)
        repo.delete(lake, "demo")
        repo.create(lake, "demo", str(tmp_path / "other"))
        with pytest.raises(AlreadyExists, match="another repository has the name"):
            undo(first)

    def test_undo_skips_operations_that_followed_the_bucket(self, repository: Repository) -> None:
        branch.create(repository, "dev", source="main")
        with repository.lake.kv.write() as txn:
            found = get_branch(RefStore(txn, repository.key), "main")
            change = operation_log.ref_change(found, found)
            operation_log.append(txn, repository, kind=log.FOLLOWED, refs=[change])
        assert undo(repository).operation.kind == "branch create"
        assert redo(repository).operation.kind == "branch create"


def work(repository: Repository, number: int) -> None:
    """Stage, commit, undo and redo at random, and lose races in between."""
    random = Random(number)
    for turn in range(12):
        with suppress(LostRace, NothingToDo, NotFound, AlreadyExists, Refused):
            match random.randrange(6):
                case 0 | 1:
                    long = Stager(repository, "main")
                    for part in range(3):
                        path = b"%d/%d" % (random.randrange(4), part)
                        change = path, encode_entry(entry_of(b"%d" % turn))
                        long.write(unclaimed([change]), kind="upload")
                case 2:
                    commit(repository, "main", message=f"{number}-{turn}", committer="me")
                case 3 | 4:
                    undo(repository)
                case _:
                    redo(repository)


def test_concurrent_operations_can_all_be_undone(tmp_path: Path) -> None:
    """Every state of the log can be read, and undoing all operations leads back."""
    with open_lake(tmp_path) as lake:
        repository = make_repository(lake, tmp_path)
        for number in range(60):  # more than all of them can undo
            tag.create(repository, f"v{number}", "main")
        first = head(repository)
        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(work, lake.repository("demo"), number) for number in range(4)]:
                done.result()
        for logged in iter_log(repository):
            if logged.operation.kind not in ("repo create", "tag create"):
                assert (
                    read(repository_at(repository, logged.operation.id.hex()), "main") is not None
                )
        present = read(repository, "main")
        count = 0
        while _next_kind(repository) != "tag create":
            undo(repository)
            count += 1
        assert (head(repository), read(repository, "main")) == (first, {})
        for _ in range(count):
            redo(repository)
        assert read(repository, "main") == present


def _next_kind(repository: Repository) -> str:
    """Return the kind of the operation that `undo` would take."""
    with repository.lake.kv.read() as txn:
        target = find_undo(txn, repository)
    assert target is not None
    return find_operation(repository, target.operation.hex()).operation.kind


@pytest.mark.parametrize("wanted", ["", "undo", "redo"])
def test_a_repository_comes_before_deleted_ones_of_its_name(tmp_path: Path, wanted: str) -> None:
    with open_lake(tmp_path) as lake:
        for number in range(2):
            made = repo.create(lake, "demo", str(tmp_path / f"deleted{number}"))
            undo(made)  # so there is something to redo in it
        present = make_repository(lake, tmp_path)
        assert logged_repository(lake, "demo", wanted=wanted).record == present.record
        for each in (made, present):
            newest = next(iter_log(each)).operation.id.hex()
            found = logged_repository(lake, "demo", wanted=wanted, operation=newest[:16])
            assert found.record == each.record
        found = logged_repository(lake, "demo", wanted=wanted, operation="no ID")
        assert found.record == present.record
        repo.delete(lake, "demo")
        if wanted != "redo":
            assert logged_repository(lake, "demo", wanted=wanted).record == present.record


def test_an_undo_that_owes_its_answer_comes_before_other_deleted_repositories(
    tmp_path: Path,
) -> None:
    class KilledError(BaseException):
        pass

    def kill(step: str) -> None:
        if step == "undo done":
            raise KilledError

    with open_lake(tmp_path) as lake:
        older = repo.create(lake, "demo", str(tmp_path / "older"))
        repo.delete(lake, "demo")
        newer = make_repository(lake, tmp_path)
        calm, lake.runtime = lake.runtime, lake.runtime._replace(on_step=kill)
        with pytest.raises(KilledError):
            undo(newer)
        lake.runtime = calm
        for found, is_completed in ((newer, True), (older, False)):
            wanted = logged_repository(lake, "demo", wanted="undo")
            assert wanted.record.uuid == found.record.uuid
            assert undo(wanted).is_completed == is_completed


@pytest.mark.parametrize("is_sealed", [False, True])
def test_what_was_unstaged_is_staged_again(repository: Repository, *, is_sealed: bool) -> None:
    stage(repository, "main", {b"a": b"1", b"b": b"2"})
    if is_sealed:
        seal(repository, "main")
    assert branch.reset_object(repository, "main", b"a") == 1
    assert read(repository, "main") == checksums({b"b": b"2"})
    assert undo(repository).operation.kind == "branch reset"
    assert read(repository, "main") == checksums({b"a": b"1", b"b": b"2"})


def test_records_deletions_and_their_absence_are_staged_again(repository: Repository) -> None:
    stage(repository, "main", {b"a": b"1", b"b": b"1"})
    commit(repository, "main", message="first", committer="me")
    before: dict[bytes, bytes | None] = {b"a": None, b"c": b"2"}
    stage(repository, "main", before)
    staged = uncommitted(repository)
    stage(repository, "main", {b"a": b"3", b"b": b"3", b"c": b"3"})
    undo(repository)
    assert uncommitted(repository) == staged
    assert read(repository, "main") == checksums({b"b": b"1", b"c": b"2"})


@pytest.mark.parametrize("is_staged", [False, True])
def test_an_undo_takes_nothing_that_the_operation_has_not_left(
    repository: Repository, *, is_staged: bool
) -> None:
    """Another version may stage without an operation; empty areas make no difference."""
    branch.create(repository, "dev", source="main")
    stage(repository, "dev", {b"a": b"1"})
    seal(repository, "dev")
    undo(repository)
    if not is_staged:
        undo(repository)
        with pytest.raises(NotFound):
            branch.show(repository, "dev")
        return
    shown = branch.show(repository, "dev")
    with repository.lake.kv.write() as txn:
        area.put_many(txn, shown.staging_token, unclaimed([(b"a", encode_entry(entry_of(b"a")))]))
    with pytest.raises(LostRace, match="branch dev is no longer what this operation left"):
        undo(repository)
    assert read(repository, "dev") == checksums({b"a": b"a"})


def test_the_bucket_is_asked_only_about_what_is_put_back(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Emptying a branch of staged records moves it to no commit."""
    stage(repository, "main", {b"a": b"1"})
    commit(repository, "main", message="first", committer="me")
    stage(repository, "main", {b"a": b"1"})
    with pytest.raises(NothingToDo):
        commit(repository, "main", message="again", committer="me")
    asked: list[CommitId] = []
    staged: list[list[tuple[bytes, bytes]]] = []
    monkeypatch.setattr(Reclaimed, "add_commit", lambda *given: asked.append(given[-1].id))
    monkeypatch.setattr(Reclaimed, "add_values", lambda *given: staged.append(list(given[-1])))
    for operation in [each.operation for each in iter_log(repository)]:
        claim_operations(repository, [operation])
        moves = [each for each in operation.refs if each.moves_commit]
        wanted = [each.commit_before for each in moves]
        assert asked == [each for each in wanted if each is not None], operation.kind
        asked.clear()
        paths = {path for path, _ in staged.pop()}
        assert paths == ({b"a"} if operation.kind == "commit" else set()), operation.kind
    before = head(repository)
    stage(repository, "main", {b"b": b"2"})
    commit(repository, "main", message="second", committer="me")
    tag.create(repository, "v1", "main")
    claim_operations(repository, [each.operation for each in iter_log(repository)][:2])
    assert asked == [before]  # nothing for the tag, which is deleted


class TestExpiry:
    def test_an_operation_can_be_undone_for_thirty_days(self, tmp_path: Path) -> None:
        clock = Ticking()
        with open_lake(tmp_path, clock=clock) as lake:
            repository = make_repository(lake, tmp_path)
            made = tag.create(repository, "v1", "main")
            first = next(iter(iter_log(repository))).operation.id.hex()
            clock.present += KEPT_FOR + timedelta(seconds=1)
            assert list(iter_log(repository)) == []
            with pytest.raises(NothingToDo):
                undo(repository)
            for ask in (find_operation, restore, repository_at):
                with pytest.raises(NotFound, match="no operation") as caught:
                    ask(repository, first)
                assert "30 days" in (caught.value.hint or "")
            assert tag.show(repository, "v1") == made

    def test_an_expired_operation_does_not_make_an_id_ambiguous(self, tmp_path: Path) -> None:
        clock, numbers = Ticking(), count()
        with open_lake(
            tmp_path, clock=clock, new_id=lambda: b"\x11" * 8 + next(numbers).to_bytes(8)
        ) as lake:
            repository = make_repository(lake, tmp_path)
            tag.create(repository, "v1", "main")
            clock.present += KEPT_FOR - timedelta(hours=1)
            tag.create(repository, "v2", "main")
            with pytest.raises(NotFound, match="several operations"):
                find_operation(repository, "1111")
            clock.present += timedelta(hours=2)
            assert find_operation(repository, "1111").operation.refs[0].name == "v2"

    def test_redo_data_is_kept_as_long_as_the_undo(self, tmp_path: Path) -> None:
        clock = Ticking()
        with open_lake(tmp_path, clock=clock) as lake:
            repository = make_repository(lake, tmp_path)
            branch.create(repository, "dev", source="main")
            stage(repository, "dev", {b"a": b"1"})
            commit(repository, "dev", message="first", committer="me")
            clock.present += timedelta(days=20)
            for _ in range(3):
                undo(repository)
            let_pass(repository, clock, timedelta(days=20))
            while housekeeping.tidy(repository):
                pass
            assert kinds(repository) == ["undo", "undo", "undo"]
            for _ in range(2):
                redo(repository)
            assert read(repository, "dev") == checksums({b"a": b"1"})
            redo(repository)
            assert read(repository, "dev@") == checksums({b"a": b"1"})
            undo(repository)
            assert (read(repository, "dev@"), len(read(repository, "dev"))) == ({}, 1)

    def test_expired_operations_leave_nothing(self, tmp_path: Path) -> None:
        clock = Ticking()
        with open_lake(tmp_path, clock=clock) as lake:
            repository = make_repository(lake, tmp_path)
            for _ in range(3):
                branch.create(repository, "dev", source="main")
                stage(repository, "dev", {b"a": b"1", b"b": b"2"})
                commit(repository, "dev", message="first", committer="me")
                for _ in range(3):
                    undo(repository)
                for _ in range(3):
                    redo(repository)
                branch.delete(repository, "dev")
            let_pass(repository, clock, KEPT_FOR + timedelta(days=2))
            while housekeeping.tidy(repository):
                pass
            with lake.kv.read() as txn:
                assert next(txn.scan(Table.STAGING), None) is None
                assert next(txn.scan(Table.IMAGES), None) is None
                kept = set(txn.scan_keys(Table.TOKENS))
                shown = get_branch(RefStore(txn, repository.key), "main")
                assert kept == {shown.staging_token, *shown.sealed_tokens}
                assert all(area.is_empty(txn, token) for token in shown.sealed_tokens)

    def test_a_deleted_repository_is_restored(self, tmp_path: Path) -> None:
        clock = Ticking()
        with open_lake(tmp_path, clock=clock) as lake:
            other = repo.create(lake, "other", str(tmp_path / "other"))
            deleted = make_repository(lake, tmp_path)
            stage(deleted, "main", {b"%d" % number: b"x" for number in range(100)})
            commit(deleted, "main", message="first", committer="me")
            stage(deleted, "main", {b"staged": b"x"})
            tag.create(deleted, "v1", "main")
            repo.delete(lake, "demo")
            clock.present += KEPT_FOR - timedelta(days=1)
            housekeeping.tidy(other)
            assert undo(logged_repository(lake, "demo", wanted="undo")).operation.kind
            assert len(read(deleted, "main")) == 101
            redo(logged_repository(lake, "demo", wanted="redo"))

            let_pass(other, clock, KEPT_FOR + timedelta(days=2))
            while housekeeping.tidy(other):
                pass
            with pytest.raises(NotFound):
                logged_repository(lake, "demo")
            with lake.kv.read() as txn:
                of_it = {table for table in Table for _ in txn.scan_keys(table, prefix=deleted.key)}
                assert of_it == {Table.COMMITS}
                for table in (Table.STAGING, Table.IMAGES):
                    assert next(txn.scan_keys(table), None) is None
                assert len(list(txn.scan_keys(Table.TOKENS))) == 1
            assert head(other)


@pytest.fixture
def clones(tmp_path: Path) -> Iterator[tuple[Repository, ...]]:
    with Clones.make(tmp_path, "one", "two") as made:
        yield made.repositories


class TestPushed:
    def test_undo_of_a_pushed_move_needs_remote(self, clones: tuple[Repository, ...]) -> None:
        one, two = clones
        first = make_commit(one, b"a")
        push(one, "main", options=ME)
        second = make_commit(one, b"b")
        push(one, "main", options=ME)
        with pytest.raises(Refused, match="this was pushed: branch main") as caught:
            undo(one)
        assert "undo it in the bucket too: `remote=True`" in (caught.value.hint or "")
        assert f"branch revert {one.uri}/main {second.id}" in (caught.value.hint or "")
        assert head(one) == second.id

        done = undo(one, remote=True, committer=WHO)
        assert [(each.name, each.before) for each in done.remote] == [("main", first.id)]
        assert head(one) == position(one) == first.id
        assert read(one, "main") == checksums({b"a": b"a", b"b": b"b"})
        fetch(two)
        assert position(two) == first.id
        redo(one)
        assert (head(one), position(one)) == (second.id, first.id)
        push(one, "main", options=ME)
        assert position(one) == second.id

    @pytest.mark.parametrize("restores", [False, True])
    def test_undo_refuses_a_move_pushed_after_its_check(
        self, clones: tuple[Repository, ...], monkeypatch: pytest.MonkeyPatch, *, restores: bool
    ) -> None:
        one, _ = clones
        kept = next(iter_log(one)).operation.id.hex()
        made = make_commit(one, b"a")

        def push_first(repository: Repository, taken: Sequence[Operation]) -> object:
            push(repository, "main", options=ME)
            return claim_operations(repository, taken)

        monkeypatch.setattr("lakecli.repository.undo.undo.claim_operations", push_first)
        with pytest.raises(LostRace, match="pushed meanwhile"):
            restore(one, kept) if restores else undo(one)
        assert head(one) == position(one) == made.id

    def test_undo_of_an_unpushed_move_needs_no_bucket(self, clones: tuple[Repository, ...]) -> None:
        one, _ = clones
        first = make_commit(one, b"a")
        push(one, "main", options=ME)
        make_commit(one, b"b")
        assert undo(one).remote == ()
        assert undo(one).operation.kind == "test"
        assert head(one) == first.id
        with pytest.raises(Refused):
            undo(one)

    def test_undo_refuses_a_ref_that_others_moved(self, clones: tuple[Repository, ...]) -> None:
        one, two = clones
        first = make_commit(one, b"a")
        push(one, "main", options=ME)
        pull(two, "main", options=PullOptions(committer=WHO))
        theirs = make_commit(two, b"b")
        push(two, "main", options=ME)
        for known in (False, True):
            if known:
                fetch(one)
            with pytest.raises(Refused, match="has moved on in the bucket") as caught:
                undo(one, remote=True, committer=WHO)
            assert "branch revert" in (caught.value.hint or "")
            assert head(one) == first.id
        assert position(one) == theirs.id

    def test_undo_of_a_pull_moves_only_the_local_branch(
        self, clones: tuple[Repository, ...]
    ) -> None:
        one, two = clones
        first = make_commit(one, b"a")
        push(one, "main", options=ME)
        before = head(two)
        pull(two, "main", options=PullOptions(committer=WHO))
        undo(two, remote=True, committer=WHO)
        assert (head(two), position(two)) == (before, first.id)

    def test_undo_deletes_a_branch_that_was_created_and_pushed(
        self, clones: tuple[Repository, ...]
    ) -> None:
        one, two = clones
        branch.create(one, "dev", source="main")
        push(one, "dev", options=ME)
        with pytest.raises(Refused, match="branch dev"):
            undo(one)
        undo(one, remote=True, committer=WHO)
        fetch(two)
        assert position(two, "dev") is None
        assert position(one, "dev") is None

    def test_undo_of_checking_out_a_shared_branch_leaves_the_bucket(
        self, clones: tuple[Repository, ...]
    ) -> None:
        """The branch existed in the bucket: undoing its creation here leaves it alone."""
        one, two = clones
        branch.create(one, "dev", source="main")
        push(one, "dev", options=ME)
        two.lake.runtime.clock.present += timedelta(hours=1)  # type: ignore[attr-defined]
        fetch(two)
        branch.create(two, "dev", source="main")
        undo(two, remote=True, committer=WHO)
        assert position(two, "dev") == head(one, "dev")

    def test_undo_restores_a_branch_whose_deletion_was_pushed(
        self, clones: tuple[Repository, ...]
    ) -> None:
        one, _ = clones
        branch.create(one, "dev", source="main")
        push(one, "dev", options=ME)
        branch.delete(one, "dev")
        undo(one)  # the bucket still has it
        redo(one)
        push_deletion(one, "dev", options=ME)
        with pytest.raises(Refused, match="branch dev"):
            undo(one)
        undo(one, remote=True, committer=WHO)
        assert position(one, "dev") == head(one, "dev")

    def test_undo_deletes_a_tag_that_was_pushed(self, clones: tuple[Repository, ...]) -> None:
        one, _ = clones
        made = tag.create(one, "v1", "main")
        push(one, "v1", options=ME)
        assert position(one, "v1", RefKind.TAG) == made.commit_id
        with pytest.raises(Refused, match="tag v1"):
            undo(one)
        undo(one, remote=True, committer=WHO)
        assert position(one, "v1", RefKind.TAG) is None

    def test_restore_moves_back_everything_that_was_pushed(
        self, clones: tuple[Repository, ...]
    ) -> None:
        one, _ = clones
        first = make_commit(one, b"a")
        push(one, "main", options=ME)
        kept = next(iter(iter_log(one))).operation
        make_commit(one, b"b")
        branch.create(one, "dev", source="main")
        push(one, "main", options=ME)
        push(one, "dev", options=ME)
        with pytest.raises(Refused, match="branch dev, branch main"):
            restore(one, kept.id.hex())
        restore(one, kept.id.hex(), remote=True, committer=WHO)
        assert (position(one), position(one, "dev"), head(one)) == (first.id, None, first.id)

    def test_undo_with_automatic_sync_moves_the_bucket_back(
        self, clones: tuple[Repository, ...]
    ) -> None:
        one, two = clones
        sharing = synced(one, "one")
        sharing.catch_up()
        before = head(one)
        made = make_commit(sharing.repository, b"a")
        sharing.finish()
        assert position(one) == made.id
        undo(sharing.repository, remote=True, committer=WHO)
        sharing.finish()
        fetch(two)
        assert (head(one), position(one)) == (before, before)
        redo(sharing.repository)
        sharing.finish()
        assert position(one) == made.id

    def test_a_clone_is_undone_and_made_again(
        self, clones: tuple[Repository, ...], tmp_path: Path
    ) -> None:
        one, two = clones
        made = make_commit(one, b"a")
        push(one, "main", options=ME)
        pull(two, "main", options=PullOptions(committer=WHO))
        branch.create(two, "mine", source="main")
        stage(two, "mine", {b"staged": b"1"})
        repo.delete(two.lake, "demo")
        again = clone(two.lake, str(tmp_path / "namespace"), "demo")
        assert [each.name for each in branch.iter_branches(again)] == ["main"]
        assert undo(logged_repository(two.lake, "demo", wanted="undo")).operation.kind == "clone"
        assert list(two.lake.repositories()) == []
        undo(logged_repository(two.lake, "demo", wanted="undo"))
        assert read(two, "mine") == checksums({b"a": b"a", b"staged": b"1"})
        assert head(two) == made.id
        with two.lake.kv.read() as txn:
            target = find_undo(txn, two)
        assert target is not None
        assert target.taken_back.kind == "test"
