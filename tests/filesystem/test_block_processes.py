"""Blocks and other processes: those that they start take part, others do not."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import fsspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakecli import blocks
from lakecli.errors import ErrorKind
from lakecli.filesystem import LakeFileSystem
from lakecli.filesystem.paths import LakeFileError
from lakecli.repository import branch
from lakecli.repository.commit import commit
from tests.filesystem.test_blocks import (
    MAIN,
    Failure,
    begun,
    check_nothing_is_left,
    fail,
    repository,
    state,
)
from tests.support.lakes import stage

if TYPE_CHECKING:
    from collections.abc import Callable


def _by_url(name: str) -> list[str]:
    with fsspec.open(f"{MAIN}/{name}", "w") as file:
        file.write(name)
    return list(LakeFileSystem().find(MAIN))


def _with_a_block(name: str) -> list[str]:
    fs = LakeFileSystem()
    with fs.committing(MAIN, name):
        fs.pipe(f"{MAIN}/{name}", b"")
    return list(fs.find(MAIN))


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_worker_processes_take_part_by_url(fs: LakeFileSystem, method: str) -> None:
    """Also in a block that begins after them; and out of blocks they write as anybody."""
    begun(fs)
    with ProcessPoolExecutor(1, multiprocessing.get_context(method)) as pool:
        with fs.committing(MAIN, "by workers"):
            assert "demo/main/one" in pool.submit(_by_url, "one").result()
            assert fs.exists(f"{MAIN}/one")
            with pytest.raises(LakeFileError, match="open in this process"):
                pool.submit(_with_a_block, "never").result()
        fail(fs, lambda: pool.submit(_by_url, "two").result())
        assert sorted(state("main")) == sorted(state()) == ["a", "d/b", "one"]
        pool.submit(_by_url, "three").result()
        assert sorted(state("main")) == ["a", "d/b", "one", "three"]
        assert sorted(state()) == ["a", "d/b", "one"]
        assert fs.commit(MAIN, "three")
        pool.submit(_with_a_block, "four").result()
    assert sorted(state()) == ["a", "d/b", "four", "one", "three"]


def _in_worker(fs: LakeFileSystem, number: int) -> list[str]:
    fs.pipe_file(f"{MAIN}/w/{number}", b"%d" % number)
    pickle.loads(pickle.dumps(fs)).pipe_file(f"{MAIN}/w/{number}/again", b"")
    fs.rm(f"{MAIN}/a" if number == 0 else f"{MAIN}/w/{number}/again")
    return [name for name in fs.find(MAIN) if name == "demo/main/a"]


@pytest.mark.parametrize("method", ["spawn", "fork"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_worker_processes_take_part_by_the_pickled_form(fs: LakeFileSystem, method: str) -> None:
    begun(fs)
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(2, context) as pool:
        with fs.committing(MAIN, "by workers"):
            assert pool.submit(_in_worker, fs, 0).result() == []
            assert pool.submit(_in_worker, fs, 1).result() == []
            assert fs.exists(f"{MAIN}/w/1")
            given = fs
            late = pickle.dumps(fs)
        assert state() == state("main") == {"d/b": b"2", "w/0": b"0", "w/1": b"1", "w/0/again": b""}
        fail(fs, lambda: pool.submit(_in_worker, fs, 2).result())
        assert pool.submit(_in_worker, given, 3).result() == []  # out of a block: staged at once
    assert state("main")["w/3"] == b"3"
    assert "w/2" not in state("main")
    with pytest.raises(LakeFileError, match="has ended") as caught:
        pickle.loads(late).pipe_file(f"{MAIN}/late", b"")
    assert caught.value.kind is ErrorKind.REFUSED
    with pytest.raises(LakeFileError, match="has ended"):
        pickle.loads(late).exists(f"{MAIN}/w/1")
    assert pickle.loads(pickle.dumps(fs)) is fs


def test_two_processes_with_blocks_on_one_branch(fs: LakeFileSystem) -> None:
    begun(fs)
    code = (
        "from lakecli.filesystem import LakeFileSystem\n"
        "fs = LakeFileSystem()\n"
        f"with fs.committing({MAIN!r}, 'theirs'):\n"
        f"    fs.pipe({MAIN + '/theirs'!r}, b'')\n"
        f"    assert not fs.exists({MAIN + '/mine'!r})\n"
    )
    with fs.committing(MAIN, "mine"):
        fs.pipe(f"{MAIN}/mine", b"")
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
        assert not fs.exists(f"{MAIN}/theirs")
    assert sorted(state()) == ["a", "d/b", "mine", "theirs"]


@pytest.mark.parametrize("end", ["pass", "raise SystemExit(0)"])
def test_a_process_that_is_forked_in_a_block_leaves_its_end_to_the_parent(
    fs: LakeFileSystem, end: str
) -> None:
    begun(fs)
    code = (
        "import os\n"
        "from lakecli.filesystem import LakeFileSystem\n"
        "fs = LakeFileSystem()\n"
        f"with fs.committing({MAIN!r}, 'once'):\n"
        "    child = os.fork()\n"
        f"    fs.pipe({MAIN!r} + ('/parent' if child else '/child'), b'')\n"
        "    if child:\n"
        "        assert os.waitpid(child, 0)[1] == 0\n"
        f"        assert fs.exists({MAIN + '/child'!r})\n"
        "    else:\n"
        f"        {end}\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert sorted(state()) == ["a", "child", "d/b", "parent"]


@pytest.mark.parametrize("mode", ["wb", "w"])
def test_a_file_that_is_open_at_the_end_of_python_is_written(fs: LakeFileSystem, mode: str) -> None:
    """Also one of a process that was forked from a process with an open file: by that one only."""
    code = (
        "import os\n"
        "from lakecli.filesystem import LakeFileSystem\n"
        "fs = LakeFileSystem()\n"
        f"file = fs.open({MAIN + '/left'!r}, {mode!r})\n"
        f"file.write({b'half'!r} if {mode!r} == 'wb' else 'half')\n"
        "if child := os.fork():\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        f"    assert not fs.exists({MAIN + '/left'!r})\n"
        f"    file.write({b', whole'!r} if {mode!r} == 'wb' else ', whole')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert fs.cat(f"{MAIN}/left") == b"half, whole"


PATHS = tuple(f"{directory}{name}" for directory in ("", "d/", "d/e/") for name in "abc")
ACTORS = ("same", "other instance", "by url", "thread", "worker")


def _act(fs: LakeFileSystem, what: str, root: str, path: str, value: str) -> object:
    """Do one thing on the branch; `value` is a text, or another path."""
    name = f"{root}/{path}"
    if what == "write":
        fs.pipe_file(name, value.encode())
    elif what == "open":
        with fs.open(name, "w") as file:
            file.write(value)
    elif what == "forget":
        fs.open(name, "wb").write(value.encode())  # closed when it is collected
    elif what == "remove":
        fs.rm(name)
    elif what == "move":
        fs.mv(name, f"{root}/{value}")
    elif what == "rename":
        fs.pipe_file(f"{root}/_tmp", value.encode())
        fs.mv(f"{root}/_tmp", name)
    elif what == "transaction":
        with fs.transaction:
            fs.pipe_file(name, b"of a transaction")
            fs.pipe_file(name, value.encode())
            assert fs.cat_file(name) == value.encode()
    return None


def _expect(model: dict[str, str], what: str, path: str, value: str) -> None:
    if what == "remove":
        del model[path]
    elif what == "move":
        model[value] = model.pop(path)
    else:
        model[path] = value


def _read_all(fs: LakeFileSystem, root: str) -> dict[str, str]:
    found = fs.find(root)
    listed = {path for path, _, files in fs.walk(root) for _ in files}
    assert bool(listed) is bool(found)
    lead = f"{root.removeprefix('lakefs://')}/"
    return {each.removeprefix(lead): fs.cat_file(each).decode() for each in found}


class _Actors:
    """Who works in a block: instances, a thread, and a process that has begun before it."""

    def __init__(self, fs: LakeFileSystem) -> None:
        self.fs = fs
        self._other = LakeFileSystem(skip_instance_cache=True)
        self._threads = ThreadPoolExecutor(1)
        self._processes = ProcessPoolExecutor(1, multiprocessing.get_context("fork"))
        self._processes.submit(os.getpid).result()

    def run(self, actor: str, task: Callable[..., object], *arguments: str) -> object:
        if actor == "worker":
            return self._processes.submit(task, self.fs, *arguments).result()
        if actor == "thread":
            url = fsspec.filesystem
            return self._threads.submit(lambda: task(url("lakefs"), *arguments)).result()
        if actor == "by url":
            return task(fsspec.url_to_fs("lakefs://demo/main")[0], *arguments)
        return task(self.fs if actor == "same" else self._other, *arguments)

    def close(self) -> None:
        self._threads.shutdown()
        self._processes.shutdown()


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(ACTORS),
        st.sampled_from(
            ["write", "open", "forget", "remove", "move", "rename", "transaction", "nest", "theirs"]
        ),
        st.sampled_from(PATHS),
        st.sampled_from(PATHS),
    ),
    max_size=14,
)


_SOME = st.sets(st.sampled_from(PATHS))


class _Outside(NamedTuple):
    """What another process does: it stages on the branch, and commits a part of that."""

    staged: dict[str, str]
    committed: dict[str, str]


@pytest.mark.parametrize("count", [12, pytest.param(300, marks=pytest.mark.nightly)])
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_block_commits_exactly_what_it_wrote_or_nothing(fs: LakeFileSystem, count: int) -> None:
    begun(fs)
    actors = _Actors(fs)
    numbers = itertools.count()

    @settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck))
    @given(steps=_STEPS, first=_SOME, staged=_SOME, end=st.sampled_from(ENDS))
    def check(
        steps: list[tuple[str, str, str, str]], first: set[str], staged: set[str], end: str
    ) -> None:
        name = f"b{next(numbers)}"
        root = f"lakefs://demo/{name}"
        with repository() as found:
            branch.create(found, name, source="main")
        fs.rm(root, recursive=True)
        fs.pipe({f"{root}/{path}": b"a" for path in first} | {f"{root}/kept": b""})
        fs.commit(root, "before")
        before = dict.fromkeys(first, "a") | {"kept": ""}
        fs.pipe({f"{root}/{path}": b"b" for path in staged} | {f"{root}/s": b"staged"})
        was = before | dict.fromkeys(staged, "b") | {"s": "staged"}
        now, touched, outside = dict(was), set[str](), _Outside({}, {})
        fails = end != "success"
        try:
            _run(actors, root, steps, now, touched, outside, end=end)
        except (Failure, ValueError):
            assert fails
            now, touched = was, set()
        else:
            assert not fails
        committed = {path: text for path, text in before.items() if path not in touched}
        committed |= {path: now[path] for path in touched if path in now}
        assert _read_all(fs, f"{root}@") == committed | outside.committed
        there = _read_all(LakeFileSystem(skip_instance_cache=True), root)
        assert there == now | outside.committed | outside.staged
        assert not blocks.workspaces(None)
        check_nothing_is_left()

    try:
        check()
    finally:
        actors.close()


ENDS = ("success", "failure", "open file")


def _run(  # noqa: PLR0917 - one scene
    actors: _Actors,
    root: str,
    steps: list[tuple[str, str, str, str]],
    model: dict[str, str],
    touched: set[str],
    outside: _Outside,
    *,
    end: str,
) -> None:
    fs = actors.fs
    with fs.committing(root, "the block", allow_empty=True):
        for actor, what, path, value in steps:
            if what == "theirs":
                _work_outside(root, path, value, outside)
            elif what == "nest":
                with pytest.raises(OSError, match="open in this process already"):
                    actors.run(actor, _nest, root)
            elif (what, path) != ("move", value) and (
                what not in {"remove", "move"} or path in model
            ):
                actors.run(actor, _act, what, root, path, value)
                _expect(model, what, path, value)
                touched.update((path, value) if what == "move" else (path,))
            assert actors.run(actor, _read_all, root) == model
        left = fs.open(f"{root}/left", "wb") if end == "open file" else None
        if end == "failure":
            raise Failure
    del left


def _nest(fs: LakeFileSystem, root: str) -> None:
    with fs.committing(root, "never"):
        pytest.fail("not reached")


def _work_outside(root: str, path: str, value: str, outside: _Outside) -> None:
    name, place = root.rpartition("/")[2], f"theirs/{path}"
    with repository() as found:
        stage(found, name, {place.encode(): value.encode()})
        outside.staged[place] = value
        if value.endswith("a"):
            paths = [place.encode()]
            commit(found, name, message="m", committer="c", paths=paths, allow_empty=True)
            outside.committed[place] = outside.staged.pop(place)
