"""`committing` and `transaction`: what is written within is one commit, or nothing; and is seen."""

from __future__ import annotations

import gc
import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import TYPE_CHECKING, Any

import fsspec
import pandas as pd
import pytest

from lakecli import blocks
from lakecli.errors import ErrorKind
from lakecli.filesystem import LakeFileSystem, lakes
from lakecli.filesystem.paths import LakeFileError
from lakecli.kv.local_store import Table
from lakecli.kv.operations import iter_operations
from lakecli.refs.ref_store import RefStore
from lakecli.repository import branch, workspace
from lakecli.repository.commit import commit
from lakecli.repository.journal import operation_log
from tests.support.lakes import stage

if TYPE_CHECKING:
    from collections.abc import Callable

MAIN = "lakefs://demo/main"


class Failure(Exception):
    """What the job in a block raises."""


def repository() -> Any:
    return lakes.repository(lakes.home_of(None), "demo")


def state(ref: str = "main@") -> dict[str, bytes]:
    """What another process sees."""
    fs = LakeFileSystem(skip_instance_cache=True)
    lead = f"demo/{ref}/"
    return {path.removeprefix(lead): fs.cat_file(path) for path in fs.find(lead)}


def check_nothing_is_left() -> None:
    """Nothing of any block is in the local store."""
    with repository() as found, found.lake.kv.read() as txn:
        assert not list(operation_log.iter_copies(txn, found))
        tokens = {token for token, _ in txn.scan(Table.TOKENS)}
        owned = {key[:16] for key, _ in txn.scan(Table.STAGING)}
        for each in RefStore(txn, found.key).iter_branches():
            tokens -= {each.staging_token, *each.sealed_tokens}
        for operation in iter_operations(txn, found.key):
            tokens -= {*operation.sealed}
    assert owned.isdisjoint(tokens)


def fail(fs: LakeFileSystem, work: Callable[[], object]) -> None:
    """Run a block that fails at its end."""

    def job() -> None:
        with fs.committing(MAIN, "never"):
            work()
            raise Failure

    with pytest.raises(Failure):
        job()
    check_nothing_is_left()


def begun(fs: LakeFileSystem) -> None:
    fs.pipe({f"{MAIN}/a": b"1", f"{MAIN}/d/b": b"2"})
    fs.commit(MAIN, "first")


def test_a_block_sees_what_it_wrote(fs: LakeFileSystem) -> None:
    begun(fs)
    with fs.committing(MAIN, "all"):
        fs.pipe(f"{MAIN}/new", b"3")
        fs.rm(f"{MAIN}/a")
        fs.mv(f"{MAIN}/d/b", f"{MAIN}/d/c")
        assert fs.find(MAIN) == ["demo/main/d/c", "demo/main/new"]
        assert fs.ls(f"{MAIN}/d", detail=False) == ["demo/main/d/c"]
        assert fs.glob(f"{MAIN}/*") == ["demo/main/d", "demo/main/new"]
        assert (fs.exists(f"{MAIN}/new"), fs.exists(f"{MAIN}/a")) == (True, False)
        assert fs.info(f"{MAIN}/new")["name"] == "demo/main/new"
        assert fs.cat(f"{MAIN}/new") == fs.cat("demo/main$/new") == b"3"
        assert sorted(state()) == ["a", "d/b"]  # of the commit, by its own expression
        fs.pipe(f"{MAIN}/_tmp", b"4")
        fs.mv(f"{MAIN}/_tmp", f"{MAIN}/new")
    assert state() == state("main") == {"d/c": b"2", "new": b"4"}
    check_nothing_is_left()


def test_after_an_error_nothing_is_left(fs: LakeFileSystem) -> None:
    begun(fs)
    before = state("main")

    def work() -> None:
        fs.pipe(f"{MAIN}/new", b"3")
        fs.rm(MAIN, recursive=True)
        assert fs.find(MAIN) == []

    fail(fs, work)
    assert state("main") == state() == before


@pytest.mark.parametrize("fails", [False, True])
def test_other_instances_and_threads_take_part(fs: LakeFileSystem, *, fails: bool) -> None:
    begun(fs)

    def work() -> None:
        pd.DataFrame({"a": [1]}).to_csv(f"{MAIN}/by-url.csv", index=False)
        with fsspec.open(f"{MAIN}/text", "w") as file:
            file.write("t")
        other = LakeFileSystem(skip_instance_cache=True)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda n: other.pipe_file(f"{MAIN}/t/{n}", b"%d" % n), range(8)))
        thread = Thread(target=lambda: fsspec.filesystem("lakefs").rm(f"{MAIN}/a"))
        thread.start()
        thread.join()
        assert list(pd.read_csv(f"{MAIN}/by-url.csv")["a"]) == [1]
        assert not fs.exists(f"{MAIN}/a")

    if fails:
        fail(fs, work)
        assert state("main") == {"a": b"1", "d/b": b"2"}
    else:
        with fs.committing(MAIN, "all"):
            work()
        assert sorted(state()) == sorted(
            ["by-url.csv", "d/b", "text", *(f"t/{n}" for n in range(8))]
        )
        assert state("main") == state()
        check_nothing_is_left()


def test_a_second_block_on_a_branch_is_refused(fs: LakeFileSystem) -> None:
    begun(fs)
    refused: list[Any] = []

    def commit_it(system: LakeFileSystem) -> None:
        with (
            pytest.raises(LakeFileError, match="open in this process already") as caught,
            system.committing(MAIN, "inner"),
        ):
            pytest.fail("not reached")
        refused.append(caught.value.kind)

    with fs.committing(MAIN, "outer"):
        fs.pipe(f"{MAIN}/before", b"")
        commit_it(fs)
        thread = Thread(target=commit_it, args=(LakeFileSystem(skip_instance_cache=True),))
        thread.start()
        thread.join()
        commit_it(pickle.loads(pickle.dumps(fs)))
        with pytest.raises(LakeFileError, match="open in this process already"):
            fs.commit(MAIN, "inner")
        with repository() as found:
            branch.create(found, "side", source="main")
        with fs.committing("lakefs://demo/side", "another branch"):
            fs.pipe("lakefs://demo/side/s", b"")
        fs.pipe(f"{MAIN}/after", b"")
    assert refused == [ErrorKind.REFUSED] * 3
    assert sorted(state()) == ["a", "after", "before", "d/b"]
    assert sorted(state("side@")) == ["a", "d/b", "s"]

    def nested() -> None:
        fs.pipe(f"{MAIN}/before", b"changed")
        commit_it(fs)
        fs.pipe(f"{MAIN}/after", b"changed")

    fail(fs, nested)
    assert state("main")["before"] == state("main")["after"] == b""


def test_what_was_and_is_staged_by_others_stays_staged(fs: LakeFileSystem) -> None:
    begun(fs)
    fs.pipe({f"{MAIN}/staged": b"before", f"{MAIN}/tmp": b"t", f"{MAIN}/a": b"before"})
    with fs.committing(MAIN, "one"):
        assert fs.cat(f"{MAIN}/staged") == fs.cat(f"{MAIN}/a") == b"before"
        fs.pipe(f"{MAIN}/mine", b"")
        with repository() as found:  # as another process
            stage(found, "main", {b"meanwhile": b"theirs", b"d/b": None})
        assert not fs.exists(f"{MAIN}/meanwhile")
        assert fs.exists(f"{MAIN}/d/b")
        fs.mv(f"{MAIN}/tmp", f"{MAIN}/moved")
        fs.pipe(f"{MAIN}/a", b"mine")
    assert state() == {"a": b"mine", "d/b": b"2", "mine": b"", "moved": b"t"}
    after = {"a": b"mine", "mine": b"", "moved": b"t", "staged": b"before", "meanwhile": b"theirs"}
    assert state("main") == after
    check_nothing_is_left()
    assert fs.commit(MAIN, "theirs").message == "theirs"
    assert state() == after


@pytest.mark.parametrize("how", ["committed", "staged"])
def test_paths_that_others_changed_are_a_conflict(fs: LakeFileSystem, how: str) -> None:
    begun(fs)

    def work() -> None:
        with fs.committing(MAIN, "mine"):
            fs.pipe(f"{MAIN}/a", b"mine")
            fs.pipe(f"{MAIN}/new", b"mine")
            with repository() as found:
                stage(found, "main", {b"a": b"theirs", b"other": b"theirs"})
                if how == "committed":
                    commit(found, "main", message="theirs", committer="t")

    with pytest.raises(LakeFileError, match="conflict") as caught:
        work()
    assert caught.value.kind is ErrorKind.CONFLICT
    assert "new" not in state("main")
    assert state("main")["a"] == b"theirs"
    check_nothing_is_left()


def test_it_is_committed_on_top_of_what_others_committed(fs: LakeFileSystem) -> None:
    begun(fs)
    with fs.committing(MAIN, "mine"):
        fs.pipe(f"{MAIN}/a", b"mine")
        with repository() as found:
            stage(found, "main", {b"other": b"theirs", b"d/b": None})
            theirs = commit(found, "main", message="theirs", committer="t")
        assert fs.cat(f"{MAIN}/d/b") == b"2"  # as when the block began
    assert state() == state("main") == {"a": b"mine", "other": b"theirs"}
    with repository() as found, found.lake.kv.read() as txn:
        head = RefStore(txn, found.key).get_commit(branch.show(found, "main").commit_id)
    assert head.parents == (theirs.id,)


def test_staged_as_it_was_committed_does_not_hide_the_commit(fs: LakeFileSystem) -> None:
    begun(fs)
    fs.pipe({f"{MAIN}/a": b"other", f"{MAIN}/d/b": b"2"})
    fs.pipe(f"{MAIN}/a", b"1")
    with fs.committing(MAIN, "mine"):
        fs.pipe(f"{MAIN}/a", b"mine")
    assert state("main") == state() == {"a": b"mine", "d/b": b"2"}


def test_a_block_that_changes_nothing(fs: LakeFileSystem) -> None:
    begun(fs)

    def again(*, allow_empty: bool = False) -> None:
        with fs.committing(MAIN, "again", allow_empty=allow_empty):
            fs.pipe(f"{MAIN}/a", b"1")
            fs.pipe(f"{MAIN}/tmp", b"1")
            fs.rm(f"{MAIN}/tmp")

    with pytest.raises(LakeFileError, match="nothing to commit") as caught:
        again()
    assert caught.value.kind is ErrorKind.NOTHING_TO_DO
    with repository() as found:
        before = branch.show(found, "main").commit_id
        again(allow_empty=True)
        assert branch.show(found, "main").commit_id != before
    assert fs.commit(MAIN, "empty", allow_empty=True).message == "empty"
    check_nothing_is_left()


@pytest.mark.parametrize("ref", ["none", "main~0", "main@"])
def test_a_block_needs_a_branch(fs: LakeFileSystem, ref: str) -> None:
    begun(fs)
    with pytest.raises(FileNotFoundError), fs.committing(f"lakefs://demo/{ref}", "never"):
        pytest.fail("not reached")
    assert fs.find(MAIN)


@pytest.mark.parametrize("mode", ["wb", "w"])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_a_file_that_nobody_closed_is_written_when_collected(
    fs: LakeFileSystem, mode: str, compression: str | None
) -> None:
    data: Any = b"x" if "b" in mode else "x"
    with fs.committing(MAIN, "in a block"):
        fs.open(f"{MAIN}/in", mode, compression=compression).write(data)
        gc.collect()
    fs.open(f"{MAIN}/out", mode, compression=compression).write(data)
    with fs.transaction:
        fs.open(f"{MAIN}/tx", mode, compression=compression).write(data)
        gc.collect()
    for name in ("in", "out", "tx"):
        with fs.open(f"{MAIN}/{name}", "rb", compression=compression) as file:
            assert file.read() == b"x"
    assert sorted(state()) == ["in"]


def test_a_file_that_is_open_at_the_end_of_its_block_is_an_error(fs: LakeFileSystem) -> None:
    begun(fs)
    left: list[Any] = []

    def leave_open() -> None:
        fs.pipe(f"{MAIN}/closed", b"")
        left.append(fs.open(f"{MAIN}/left", "wb"))
        left[-1].write(b"x")

    def job() -> None:
        with fs.committing(MAIN, "never"):
            leave_open()

    with pytest.raises(
        ValueError, match="file not closed when its block ended, or not written: demo/main/left"
    ):
        job()
    check_nothing_is_left()
    fail(fs, leave_open)
    for file in left:
        file.write(b"x")
        file.close()
    assert state("main") == {"a": b"1", "d/b": b"2"}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_file_that_nobody_closed_and_that_could_not_be_written_is_an_error(
    fs: LakeFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python shows the error, and goes on."""
    begun(fs)

    def deposit(*_: object, **__: object) -> None:
        raise Failure

    def job() -> None:
        with fs.committing(MAIN, "never"):
            fs.pipe(f"{MAIN}/written", b"")
            with monkeypatch.context() as patch:
                patch.setattr("lakecli.filesystem.files.deposit", deposit)
                fs.open(f"{MAIN}/lost", "wb").write(b"x")
                gc.collect()

    with pytest.raises(ValueError, match="or not written: demo/main/lost"):
        job()
    assert state() == state("main") == {"a": b"1", "d/b": b"2"}


def test_a_write_that_is_under_way_when_the_block_ends_is_refused(
    fs: LakeFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(fs)
    with fs.committing(MAIN, "mine"):
        fs.pipe(f"{MAIN}/mine", b"")
        place = fs._writable(f"{MAIN}/late")
    monkeypatch.setattr(fs, "_writable", lambda _path: place)
    with pytest.raises(LakeFileError, match="has ended"):
        fs.pipe_file(f"{MAIN}/late", b"")
    assert sorted(state("main")) == ["a", "d/b", "mine"]


def test_a_transaction_is_of_one_instance_and_sees_itself(fs: LakeFileSystem) -> None:
    begun(fs)
    other = LakeFileSystem(skip_instance_cache=True)
    with fs.transaction:
        fs.pipe(f"{MAIN}/new", b"3")
        fs.rm(f"{MAIN}/a")
        fs.pipe(f"{MAIN}/d/b", b"changed")
        fs.rm(f"{MAIN}/d/b")
        fs.pipe(f"{MAIN}/tmp", b"4")
        fs.mv(f"{MAIN}/tmp", f"{MAIN}/moved")
        with ThreadPoolExecutor(1) as pool:
            pool.submit(fs.pipe_file, f"{MAIN}/thread", b"5").result()
        assert fs.find(MAIN) == [f"demo/main/{name}" for name in ("moved", "new", "thread")]
        assert fs.cat(f"{MAIN}/moved") == b"4"
        assert not fs.exists(f"{MAIN}/a")
        assert other.find(MAIN) == ["demo/main/a", "demo/main/d/b"]
        with pytest.raises(TypeError, match="in a transaction"):
            pickle.dumps(fs)
    assert state("main") == {"moved": b"4", "new": b"3", "thread": b"5"}


def test_transactions_of_one_instance_do_not_nest(fs: LakeFileSystem) -> None:
    begun(fs)

    def nested() -> None:
        with fs.transaction:
            fs.pipe(f"{MAIN}/before", b"")
            with pytest.raises(ValueError, match="has begun already"), fs.transaction:
                pytest.fail("not reached")
            with pytest.raises(ValueError, match="has begun already"):
                fs.start_transaction()
            inner = fs.committing(MAIN, "never")
            with pytest.raises(ValueError, match="within a transaction"):
                inner.__enter__()
            fs.pipe(f"{MAIN}/after", b"")

    nested()
    assert sorted(state("main")) == ["a", "after", "before", "d/b"]
    fs.start_transaction()
    fs.pipe(f"{MAIN}/third", b"")
    assert "third" not in state("main")
    fs.end_transaction()
    assert "third" in state("main")


def test_a_transaction_within_a_block_belongs_to_it(fs: LakeFileSystem) -> None:
    begun(fs)

    def fail_within() -> None:
        with fs.transaction:
            fs.pipe(f"{MAIN}/never", b"")
            raise Failure

    with fs.committing(MAIN, "all"):
        with fs.transaction:
            fs.pipe(f"{MAIN}/tx", b"")
        with pytest.raises(Failure):
            fail_within()
    assert sorted(state()) == ["a", "d/b", "tx"]


def test_a_block_ends_once(fs: LakeFileSystem) -> None:
    """A process that was forked within a block would end it a second time."""
    begun(fs)

    def job() -> None:
        with fs.committing(MAIN, "second"):
            fs.pipe(f"{MAIN}/mine", b"")
            (name,) = blocks.workspaces(None).values()
            with repository() as found:
                workspace.commit(found, name, message="first", committer="c")
            with pytest.raises(LakeFileError, match="has ended"):
                fs.exists(f"{MAIN}/mine")

    with pytest.raises(LakeFileError, match="has ended"):
        job()
    assert sorted(state()) == ["a", "d/b", "mine"]
