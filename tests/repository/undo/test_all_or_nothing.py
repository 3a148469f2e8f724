"""``undo`` and ``op restore`` of what was pushed: here and in the bucket, or nowhere.

Another process of the machine, or another machine, acts before each step; or the process is killed
there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from lakecli.base.model import RefKind
from lakecli.errors import LostRace, NotFound, NothingToDo, Refused, Unreachable
from lakecli.remote.refs import find_ref
from lakecli.repository import branch
from lakecli.repository.handle.lake import LocalRepository
from lakecli.repository.pull import PullOptions, pull
from lakecli.repository.push import PushOptions, push
from lakecli.repository.sharing.fetch import fetch
from lakecli.repository.undo import remote_undo
from lakecli.repository.undo.log import iter_log
from lakecli.repository.undo.undo import redo, restore, undo
from tests.support.clones import Clones, make_commit, synced
from tests.support.lakes import read, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakecli.kv.operations import Operation
    from lakecli.repository.contract import Repository
    from lakecli.repository.sharing.automatic import Sent
    from lakecli.repository.undo.pushed_refs import PushedRef

ME: Final = PushOptions("ada <ada@example.com>")


class State(NamedTuple):
    """Where main stands here and in the bucket, and the paths that it has here."""

    here: str
    there: str | None
    paths: set[bytes]


class KilledError(BaseException):
    """The process was killed."""


MODES: Final = ("auto", "manual")


@pytest.fixture(params=MODES)
def is_auto(request: pytest.FixtureRequest) -> bool:
    """Tell whether sharing is automatic."""
    return str(request.param) == "auto"


@pytest.fixture
def clones(tmp_path: Path, *, is_auto: bool) -> Iterator[tuple[Repository, Repository]]:
    """Two clones; the first has pushed a commit of a, and one of b."""
    with Clones.make(tmp_path, "one", "two") as made:
        one, two = made.repositories
        for path in (b"a", b"b"):
            make_commit(begin(one, is_auto=is_auto), path)
            if not is_auto:
                push(one, "main", options=ME)
        yield one, two


def begin(repository: Repository, *, is_auto: bool) -> Repository:
    """Return a handle as another command of the machine gets it."""
    if not is_auto:
        return LocalRepository(repository.lake, repository.record)
    sharing = synced(repository, "one")
    sharing.catch_up()
    return sharing.repository


def state(repository: Repository) -> State:
    ref = find_ref(repository.store, RefKind.BRANCH, "main")
    here = branch.show(repository, "main").commit_id
    there = None if ref is None else ref.commit_id
    return State(here, there, set(read(repository, "main")))


def at_step(repository: Repository, step: str, act: Callable[[], object]) -> Callable[[], bool]:
    """Act once before a step; return what tells whether it was reached."""
    runtime = repository.lake.runtime
    pending = [step]

    def on_step(name: str) -> None:
        if pending and name == step:
            pending.clear()
            repository.lake.runtime = runtime
            act()

    repository.lake.runtime = runtime._replace(on_step=on_step)

    def end() -> bool:
        repository.lake.runtime = runtime
        return not pending

    return end


def take_back(repository: Repository, how: str) -> None:
    if how == "undo":
        undo(repository, remote=True, committer="me")
        return
    first = [each.operation for each in iter_log(repository) if each.operation.kind == "commit"][1]
    restore(repository, first.id.hex(), remote=True, committer="me")


AT: Final = [
    *(("undo", f"undo {step}") for step in ("here", "there", "done")),
    *(("undo", step) for step in ("intent", "put", "track")),
    *(("op restore", step) for step in ("op restore here", "op restore there", "track")),
]


@pytest.mark.parametrize(("how", "step"), AT)
def test_what_is_staged_meanwhile_leaves_all_undone_or_nothing(
    clones: tuple[Repository, Repository], how: str, step: str, *, is_auto: bool
) -> None:
    one, _ = clones
    before = state(one)
    command = begin(one, is_auto=is_auto)

    def act() -> None:
        stage(begin(one, is_auto=is_auto), "main", {b"c": b"c"})

    end = at_step(one, step, act)
    try:
        take_back(command, how)
        is_done = True
    except LostRace:
        is_done = False
    assert end()
    for _ in range(2):
        after = state(one)
        assert after.here == after.there
        assert (after.here != before.here) == is_done
        # `op restore` takes back what b was staged with, too.
        kept = {b"a", b"b", b"c"} if how == "undo" or not is_done else {b"a", b"c"}
        assert after.paths == kept
        begin(one, is_auto=is_auto)
    assert is_done == (step != f"{how} here")


@pytest.mark.parametrize(("how", "step"), AT)
def test_what_another_machine_pushes_meanwhile_leaves_nothing_undone(
    clones: tuple[Repository, Repository], how: str, step: str, *, is_auto: bool
) -> None:
    one, two = clones
    pull(two, "main", options=PullOptions(committer="two"))
    make_commit(two, b"d")
    before = state(one)
    command = begin(one, is_auto=is_auto)
    end = at_step(one, step, lambda: push(two, "main", options=PushOptions("two")))
    if step in ("track", "undo done"):
        take_back(command, how)  # it was first, and the push is refused
        return
    with pytest.raises(Refused, match="branch main has moved on in the bucket since"):
        take_back(command, how)
    assert end()
    after = state(one)
    assert (after.here, after.paths) == (before.here, before.paths)
    assert after.there == state(two).here
    begin(one, is_auto=is_auto)
    assert state(one).paths == (before.paths | {b"d"} if is_auto else before.paths)


@pytest.mark.parametrize(("how", "step"), AT)
def test_what_was_killed_is_completed_by_the_next_command(
    clones: tuple[Repository, Repository], how: str, step: str, *, is_auto: bool
) -> None:
    """With automatic sharing by any command; without it, by the same one."""
    one, _ = clones
    before = state(one)

    def kill() -> None:
        raise KilledError

    command = begin(one, is_auto=is_auto)
    end = at_step(one, step, kill)
    with pytest.raises(KilledError):
        take_back(command, how)
    assert end()
    was_begun = step != f"{how} here"
    command = begin(one, is_auto=is_auto)
    if not is_auto and step != "undo done":
        take_back(command, how)
        was_begun = True
    after = state(one)
    assert after.here == after.there
    assert (after.here != before.here) == was_begun
    assert b"b" in after.paths or how == "op restore"
    command = begin(one, is_auto=is_auto)
    if was_begun and how == "undo":
        redo(command)
        assert state(one).here == before.here


AGAIN: Final = [
    *((how, step, is_auto) for how, step in AT for is_auto in MODES),
    *(("op restore", "op restore done", is_auto) for is_auto in MODES),
    *(("redo", step, "auto") for step in ("redo here", "redo done", "intent", "put", "track")),
]


def redo_and_send(repository: Repository) -> None:
    sharing = synced(repository, "one")
    sharing.catch_up()
    redo(sharing.repository)
    sharing.finish()


@pytest.mark.parametrize(("how", "step", "is_auto"), AGAIN, indirect=["is_auto"])
def test_what_was_killed_and_is_repeated_is_done_once(
    clones: tuple[Repository, Repository], how: str, step: str, *, is_auto: bool
) -> None:
    """There is more to undo and to redo, which stays as it is."""
    one, _ = clones
    if how == "redo":
        for _ in range(3):  # the commit of b, its upload, and the commit of a
            undo(begin(one, is_auto=is_auto), remote=True, committer="me")
    before = state(one)

    def kill() -> None:
        raise KilledError

    def act() -> None:
        if how == "redo":
            redo_and_send(one)
        else:
            take_back(begin(one, is_auto=is_auto), how)

    end = at_step(one, step, kill)
    with pytest.raises(KilledError):
        act()
    assert end()
    act()
    after = state(one)
    assert after.here == after.there != before.here
    assert after.paths == ({b"a", b"b"} if how == "undo" else {b"a"})
    undone = [each.operation.kind for each in iter_log(one) if each.undone]
    assert undone.count("commit") == (0 if how == "op restore" else 1)
    if how == "op restore":
        with pytest.raises(NothingToDo):
            act()
    else:
        act()
        assert state(one).paths == {b"a"} ^ ({b"b"} if how == "redo" else set())


@pytest.mark.parametrize("is_auto", ["manual"], indirect=True)
def test_what_was_killed_on_its_way_to_the_bucket_is_completed_there_only(
    clones: tuple[Repository, Repository],
) -> None:
    one, _ = clones

    def kill() -> None:
        raise KilledError

    before = state(one)
    end = at_step(one, "undo there", kill)
    with pytest.raises(KilledError):
        undo(one, remote=True, committer="me")
    assert end()
    undone = [each.undone for each in iter_log(one)]
    for _ in range(2):
        with pytest.raises(Refused, match="interrupted; it has not moved main in the bucket"):
            undo(one)
    assert [each.undone for each in iter_log(one)] == undone
    assert state(one).there == before.there
    done = undo(one, remote=True, committer="me")
    assert done.is_completed
    assert [each.name for each in done.remote] == ["main"]
    assert state(one).here == state(one).there != before.there


@pytest.mark.parametrize("is_auto", ["auto"], indirect=True)
def test_what_was_killed_and_is_refused_since_undoes_nothing_else(
    clones: tuple[Repository, Repository],
) -> None:
    one, two = clones

    def kill() -> None:
        raise KilledError

    end = at_step(one, "undo there", kill)
    with pytest.raises(KilledError):
        take_back(begin(one, is_auto=True), "undo")
    assert end()
    pull(two, "main", options=PullOptions(committer="two"))
    theirs = make_commit(two, b"d").id
    push(two, "main", options=PushOptions("two"))
    before = [each.operation.kind for each in iter_log(one) if each.undone]
    with pytest.raises(LostRace, match="main was moved here, not in the bucket"):
        take_back(begin(one, is_auto=True), "undo")
    assert state(one).here == state(one).there == theirs
    assert [each.operation.kind for each in iter_log(one) if each.undone] == before
    before = [each.operation.kind for each in iter_log(one) if each.undone]
    take_back(begin(one, is_auto=True), "undo")
    assert [each.operation.kind for each in iter_log(one) if each.undone] != before


def test_a_bucket_that_does_not_answer_leaves_nothing_undone(
    clones: tuple[Repository, Repository], *, is_auto: bool
) -> None:
    one, _ = clones
    before = state(one)

    def fail() -> None:
        raise Unreachable("no answer", hint="wait")

    end = at_step(one, "pack", fail)
    with pytest.raises(Unreachable):
        take_back(begin(one, is_auto=is_auto), "undo")
    assert end()
    assert state(one) == before
    take_back(begin(one, is_auto=is_auto), "undo")
    assert state(one).here == state(one).there != before.here


@pytest.mark.parametrize("step", ["undo there", "put", "track"])
def test_a_redo_meanwhile_leaves_the_commit_where_it_was(
    clones: tuple[Repository, Repository], step: str, *, is_auto: bool
) -> None:
    one, _ = clones
    before = state(one)

    def act() -> None:
        sharing = synced(one, "other")
        if is_auto:
            sharing.catch_up()
            redo(sharing.repository)
            sharing.finish()
        else:
            redo(begin(one, is_auto=False))

    command = begin(one, is_auto=is_auto)
    end = at_step(one, step, act)
    take_back(command, "undo")
    assert end()
    begin(one, is_auto=is_auto)
    after = state(one)
    assert after.here == before.here
    assert after.there == before.there or not is_auto


def test_several_refs_go_back_and_one_that_moved_on_stays(
    clones: tuple[Repository, Repository], *, is_auto: bool
) -> None:
    """The first one decides; what the bucket refuses later is named."""
    one, two = clones
    kept = next(iter_log(one)).operation.id.hex()
    sharing = synced(one, "one")
    make_commit(begin(one, is_auto=is_auto), b"c")
    branch.create(sharing.repository, "dev", source="main")
    if is_auto:
        sharing.finish()
    else:
        push(one, "main", options=ME)
        push(one, "dev", options=ME)
    fetch(two)
    branch.create(two, "dev", source=branch.show(one, "dev").commit_id)
    theirs = make_commit(two, b"d", "dev").id

    def act() -> None:
        push(two, "dev", options=PushOptions("two"))

    command = begin(one, is_auto=is_auto)
    end = at_step(one, "track", act)  # of main; dev is deleted after it
    with pytest.raises(LostRace, match="branch dev was deleted here, not in the bucket"):
        restore(command, kept, remote=True, committer="me")
    assert end()
    after = state(one)
    assert after.here == after.there
    found = find_ref(one.store, RefKind.BRANCH, "dev")
    assert found is not None
    assert found.commit_id == theirs
    begin(one, is_auto=is_auto)
    if is_auto:
        assert branch.show(one, "dev").commit_id == theirs


def test_a_bucket_that_does_not_answer_about_a_later_ref_keeps_the_first_one_undone(
    clones: tuple[Repository, Repository], monkeypatch: pytest.MonkeyPatch, *, is_auto: bool
) -> None:
    one, _ = clones
    kept = next(iter_log(one)).operation.id.hex()
    before = state(one)
    sharing = synced(one, "one")
    make_commit(begin(one, is_auto=is_auto), b"c")
    branch.create(sharing.repository, "dev", source="main")
    if is_auto:
        sharing.finish()
    else:
        push(one, "main", options=ME)
        push(one, "dev", options=ME)
    assert state(one) != before
    real = remote_undo._send

    def send(repository: Repository, appended: Operation, pushed: PushedRef, *rest: Any) -> Sent:
        if pushed.name == "dev":
            raise Unreachable("no answer")
        return real(repository, appended, pushed, *rest)

    command = begin(one, is_auto=is_auto)
    with monkeypatch.context() as patch:
        patch.setattr(remote_undo, "_send", send)
        with pytest.raises(Unreachable, match="branch dev moved here, not yet in the bucket"):
            restore(command, kept, remote=True, committer="me")
    assert state(one) == before
    with pytest.raises(NotFound):
        branch.show(one, "dev")
    assert find_ref(one.store, RefKind.BRANCH, "dev") is not None
    # The next one completes it.
    if is_auto:
        begin(one, is_auto=is_auto)
    else:
        restore(begin(one, is_auto=False), kept, remote=True, committer="me")
    gone = find_ref(one.store, RefKind.BRANCH, "dev")
    assert gone is not None
    assert gone.commit_id is None
    assert state(one) == before


@pytest.mark.parametrize("how", ["undo", "op restore"])
def test_what_takes_this_back_again_moves_the_bucket_forward_too(
    clones: tuple[Repository, Repository], how: str, *, is_auto: bool
) -> None:
    one, _ = clones
    before = state(one)
    made = next(each.operation for each in iter_log(one) if each.operation.kind == "commit")
    take_back(begin(one, is_auto=is_auto), "op restore" if how == "undo" else "undo")
    command = begin(one, is_auto=is_auto)
    if how == "undo":
        undo(command, remote=True, committer="me")
    else:
        restore(command, made.id.hex(), remote=True, committer="me")
    for _ in range(2):
        assert state(one) == before
        begin(one, is_auto=is_auto)


@pytest.mark.parametrize("is_auto", ["manual"], indirect=True)
def test_what_takes_this_back_again_stays_here_without_remote(
    clones: tuple[Repository, Repository],
) -> None:
    one, _ = clones
    before = state(one)
    take_back(one, "op restore")
    there = state(one).there
    undo(one)
    assert state(one) == before._replace(there=there)
