"""Runs: all that a job has written is published, or nothing of it."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakecli.errors import AlreadyExists, CheckFailed, DirtyBranch, LostRace, NotFound, Refused
from lakecli.kv.local_store import Table
from lakecli.repository import branch
from lakecli.repository.check import TreeCheck
from lakecli.repository.push import PushOptions, push, push_all
from lakecli.repository.run import Keep, RunOptions, Stage, abort, find, iter_runs, resume, running
from lakecli.repository.undo.undo import undo
from tests.support.clones import auto, here, make_commit, there
from tests.support.lakes import checksums, read, stage, through

if TYPE_CHECKING:
    from lakecli.repository.contract import Repository

WHO = "Me <me@example.com>"
MAIN = RunOptions("main", WHO)
NIGHTLY = RunOptions("main", WHO, branch="nightly")
NEW = {b"raw/%03d" % number: b"new" for number in range(40)}


def branches_of(repository: Repository) -> list[str]:
    return [each.name for each in branch.iter_branches(repository)]


def run(repository: Repository, options: RunOptions = MAIN, *checks: TreeCheck) -> None:
    """Run a job that commits a part of what it writes itself."""
    with running(repository, options, checks) as job:
        some = dict(list(NEW.items())[:20])
        stage(repository, job.name, some)
        stage(repository, job.name, NEW)


@pytest.fixture
def shared(repository: Repository) -> Repository:
    make_commit(repository, b"a")
    push(repository, "main", options=PushOptions(WHO))
    return repository


def test_a_run_publishes_what_it_staged(shared: Repository) -> None:
    run(shared)
    assert read(shared, "main") == checksums({b"a": b"a"} | NEW)
    assert here(shared) == there(shared)
    assert branches_of(shared) == ["main"]
    assert list(iter_runs(shared)) == []


def test_processes_that_list_runs_do_not_disturb_each_other_or_an_end(shared: Repository) -> None:
    with running(shared, MAIN._replace(keep=Keep.ALWAYS)) as job:
        stage(shared, job.name, NEW)
    (path,) = Path(os.fspath(shared.lake.home.store), "runs").iterdir()
    with path.open("rb") as looker:
        fcntl.flock(looker, fcntl.LOCK_SH)
        (found,) = iter_runs(shared)
        assert not found.is_running
        with pytest.raises(LostRace, match="other processes look at the run"):
            abort(through(shared, sleep=lambda _: None), job.name)
        waits: list[float] = []

        def leave(seconds: float) -> None:
            waits.append(seconds)
            fcntl.flock(looker, fcntl.LOCK_UN)

        abort(through(shared, sleep=leave), job.name)
    assert len(waits) == 1
    assert list(iter_runs(shared)) == []


def test_a_run_of_a_newer_version_is_read(shared: Repository) -> None:
    with running(shared, MAIN._replace(keep=Keep.ALWAYS)) as job:
        stage(shared, job.name, NEW)
    with shared.lake.kv.write() as txn:
        ((key, row),) = txn.scan(Table.META, prefix=b"run/")
        txn.put(Table.META, key, json.dumps(json.loads(row) | {"new": 1}).encode())
    assert [each.branch for each in iter_runs(shared)] == [job.name]


def test_a_killed_run_does_not_claim_the_branch_of_somebody_else(
    shared: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    branch.create(shared, "nightly", source="main")
    with monkeypatch.context() as patch:
        patch.setattr("lakecli.repository.run._forget", lambda *_: None)
        with pytest.raises(AlreadyExists):
            run(shared, NIGHTLY)
    with pytest.raises(AlreadyExists):
        run(shared, NIGHTLY)
    assert branches_of(shared) == ["main", "nightly"]


def test_a_branch_that_cannot_be_removed_does_not_hide_why_the_job_failed(
    shared: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise LostRace("a commit is under way")

    options = MAIN._replace(keep=Keep.NEVER)
    with monkeypatch.context() as patch:
        patch.setattr(branch, "delete", refuse)
        with pytest.raises(ZeroDivisionError), running(shared, options):
            1 / 0  # noqa: B018
    run(shared, options)
    assert branches_of(shared) == ["main"]


@pytest.mark.parametrize("renames", [False, True])
def test_a_run_ends_with_its_branch(shared: Repository, *, renames: bool) -> None:
    """Later, somebody makes a branch of the same name, which is not that of the run."""
    with pytest.raises(CheckFailed):
        run(shared, NIGHTLY, TreeCheck(lambda _: False, "schema"))
    if renames:
        branch.rename(shared, "nightly", "kept")
    else:
        branch.delete(shared, "nightly")
    branch.create(shared, "nightly", source="main")
    assert list(iter_runs(shared)) == []
    with pytest.raises(AlreadyExists):
        run(shared, NIGHTLY)
    pushed = {each.name for each in push_all(shared, PushOptions(WHO)).pushed}
    assert pushed == {"main", "nightly"} | ({"kept"} if renames else set())


@pytest.mark.parametrize("follows", [False, True])
def test_a_run_ends_with_a_branch_that_undo_or_the_bucket_deletes(
    shared: Repository, *, follows: bool
) -> None:
    with pytest.raises(CheckFailed):
        run(shared, NIGHTLY, TreeCheck(lambda _: False, "schema"))
    if follows:
        with shared.lake.kv.write() as txn:
            shared.refs(txn).delete_branch("nightly")
    while "nightly" in branches_of(shared):
        undo(shared)
    assert list(iter_runs(shared)) == []
    branch.create(shared, "nightly", source="main")
    with pytest.raises(AlreadyExists):
        run(shared, NIGHTLY)


@pytest.mark.parametrize("keep", Keep)
def test_a_run_whose_branch_is_deleted_meanwhile_leaves_a_later_branch_of_its_name(
    shared: Repository, keep: Keep
) -> None:
    def replace_branch() -> None:
        with running(shared, NIGHTLY._replace(keep=keep)) as job:
            branch.delete(shared, job.name)
            branch.create(shared, job.name, source="main")
            stage(shared, job.name, {b"mine": b"mine"})

    with pytest.raises(NotFound, match="the branch of the run was deleted meanwhile"):
        replace_branch()
    assert list(iter_runs(shared)) == []
    assert read(shared, "nightly") == checksums({b"a": b"a", b"mine": b"mine"})
    assert read(shared, "main") == checksums({b"a": b"a"})
    with pytest.raises(AlreadyExists):
        run(shared, NIGHTLY)


def test_no_new_data_is_a_success(shared: Repository) -> None:
    before = here(shared)
    with running(shared, MAIN) as job:
        stage(shared, job.name, {b"a": b"a"})
    assert job.commit is None
    assert here(shared) == before
    assert branches_of(shared) == ["main"]


def test_a_run_says_what_it_is(shared: Repository) -> None:
    with running(shared, MAIN._replace(job=("load", "--all"), keep=Keep.ALWAYS)) as job:
        assert str(job) == f"lakefs://demo/{job.name}"
        (found,) = iter_runs(shared)
        assert found == job.run._replace(is_running=True)
        assert (found.stage, found.job) == (Stage.JOB, ("load", "--all"))
        for refused in (resume, abort):
            with pytest.raises(LostRace, match="under way"):
                refused(shared, job.name)
        make_commit(shared, b"own", job.name)
    assert job.commit is not None
    assert job.commit.metadata["lakecli.run"] == job.run.id
    assert find(shared, job.name).stage == Stage.PUBLISHED
    assert resume(shared, job.name).commit is None
    abort(shared, job.name)
    assert branches_of(shared) == ["main"]
    with pytest.raises(NotFound, match="no run"):
        abort(shared, job.name)
    assert list((shared.lake.home.store / "runs").iterdir()) == []  # type: ignore[operator]


@pytest.mark.parametrize("keep", Keep)
def test_a_failed_job_publishes_nothing(shared: Repository, keep: Keep) -> None:
    before = here(shared)

    def fail(name: str) -> None:
        stage(shared, name, NEW)
        raise RuntimeError("broken")

    with (
        pytest.raises(RuntimeError, match="broken"),
        running(shared, NIGHTLY._replace(keep=keep)) as job,
    ):
        fail(job.name)
    assert here(shared) == there(shared) == before
    assert branches_of(shared) == (["main"] if keep is Keep.NEVER else ["main", "nightly"])
    if keep is not Keep.NEVER:
        assert find(shared, "nightly").failure == "broken"
        with pytest.raises(Refused, match="did not end well"):
            resume(shared, "nightly")
    run(shared, NIGHTLY)  # the same line tomorrow
    assert read(shared, "main") == checksums({b"a": b"a"} | NEW)
    assert branches_of(shared) == ["main"]


def test_a_failed_check_can_be_mended(shared: Repository) -> None:
    before = here(shared)
    with pytest.raises(CheckFailed) as failed:
        run(shared, NIGHTLY, TreeCheck(lambda _: False, "schema"))
    assert failed.value.hint == "its data is kept: `diff lakefs://demo/nightly`"
    assert here(shared) == there(shared) == before
    assert find(shared, "nightly").stage == Stage.PUBLISH
    stage(shared, "nightly", {b"mended": b"1"})
    assert resume(shared, "nightly", [TreeCheck(lambda _: True)]).commit is not None
    assert read(shared, "main") == checksums({b"a": b"a", b"mended": b"1"} | NEW)
    assert branches_of(shared) == ["main"]


def test_a_branch_of_somebody_else_is_refused(shared: Repository) -> None:
    branch.create(shared, "nightly", source="main")
    with pytest.raises(AlreadyExists):
        run(shared, NIGHTLY)
    assert list(iter_runs(shared)) == []
    with pytest.raises(NotFound, match="no branch 'gone'"):
        run(shared, MAIN._replace(destination="gone"))
    branch.delete(shared, "nightly")
    stage(shared, "main", {b"dirty": b"1"})
    with pytest.raises(DirtyBranch):
        run(shared)
    branch.reset(shared, "main")
    with running(shared, NIGHTLY), pytest.raises(LostRace, match="under way"):
        run(shared, NIGHTLY)
    assert branches_of(shared) == ["main"]


def test_with_automatic_sharing_the_branch_stays_here(shared: Repository) -> None:
    with auto(shared) as (sharing, _):
        with running(sharing, MAIN) as job:
            stage(sharing, job.name, NEW)
        with running(sharing, NIGHTLY) as pushing:
            make_commit(sharing, b"own", pushing.name)
            assert there(sharing, pushing.name) is not None
    assert there(shared, job.name) is None
    assert there(shared, "nightly") is None
    assert here(shared) == there(shared)
    assert branches_of(shared) == ["main"]


def test_a_push_of_all_refs_leaves_out_branches_of_runs(shared: Repository) -> None:
    with running(shared, NIGHTLY) as job:
        make_commit(shared, b"own", job.name)
        push_all(shared, PushOptions(WHO))
        assert there(shared, job.name) is None
    assert here(shared) == there(shared)
