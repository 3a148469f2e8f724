"""Blocks and other processes: those that they start take part, others do not."""

from __future__ import annotations

import multiprocessing
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import fsspec
import pytest

from lakecli.errors import ErrorKind
from lakecli.filesystem import LakeFileSystem
from lakecli.filesystem.paths import LakeFileError
from tests.filesystem.test_blocks import MAIN, begun, fail, state


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
