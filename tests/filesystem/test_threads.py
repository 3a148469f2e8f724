"""One file system, many threads, several refs: every answer is for the requested ref."""

from __future__ import annotations

import random
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING

import pytest

from lakecli.filesystem import LakeFileSystem, lakes
from lakecli.repository import branch
from lakecli.repository.rm import rm_trees

if TYPE_CHECKING:
    from collections.abc import Iterator

THREADS = 8
PATHS = [f"d{number % 7}/{number:03d}" for number in range(300)]


@pytest.fixture
def sizes(fs: LakeFileSystem) -> dict[str, dict[str, int]]:
    """The size of every path on two branches, whose trees have other ranges."""
    fs.pipe({f"lakefs://demo/main/{path}": b"m" * at for at, path in enumerate(PATHS)})
    fs.commit("lakefs://demo/main", "main")
    with lakes.repository(lakes.home_of(None), "demo") as repository:
        branch.create(repository, "side", source="main")
        rm_trees(repository, "side", [b"d3"])
    kept = {path: at + 1000 for at, path in enumerate(PATHS) if not path.startswith("d3/")}
    fs.pipe({f"lakefs://demo/side/{path}": b"s" * size for path, size in kept.items()})
    fs.commit("lakefs://demo/side", "side")
    return {"main": {path: at for at, path in enumerate(PATHS)}, "side": kept}


@pytest.fixture(autouse=True)
def switching() -> Iterator[None]:
    """Let threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_info_and_find_answer_for_their_ref(
    fs: LakeFileSystem, sizes: dict[str, dict[str, int]]
) -> None:
    lakes.close_unused()  # so that all threads begin with nothing read
    begin = Barrier(THREADS)

    def look(number: int) -> int:
        numbers = random.Random(number)
        begin.wait()
        for turn in range(500):
            ref = ("main", "side")[numbers.randrange(2)]
            path = numbers.choice(PATHS)
            name, size = f"demo/{ref}/{path}", sizes[ref].get(path)
            if size is None:
                assert not fs.exists(name)
            else:
                assert fs.info(name)["size"] == size
            if turn % 50 == number:
                found = fs.find(f"demo/{ref}/d{number}", detail=True)
                assert {each: info["size"] for each, info in found.items()} == {
                    f"demo/{ref}/{each}": size
                    for each, size in sizes[ref].items()
                    if each.startswith(f"d{number}/")
                }
        return number

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(look, range(THREADS))) == list(range(THREADS))


def test_threads_that_write_lose_nothing(fs: LakeFileSystem) -> None:
    """Each thread writes to its own branch, then all to one, with commits in between."""
    with lakes.repository(lakes.home_of(None), "demo") as repository:
        for number in range(4):
            branch.create(repository, f"b{number}", source="main")

    def write(number: int) -> None:
        for turn in range(5):
            fs.pipe_file(f"lakefs://demo/b{number}/{turn}", b"%d %d" % (number, turn))
            fs.pipe_file(f"lakefs://demo/main/{number}/{turn}", b"%d %d" % (number, turn))
            fs.commit(f"lakefs://demo/b{number}", f"{turn}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    fs.commit("lakefs://demo/main", "all")
    for number in range(4):
        for turn in range(5):
            expected = b"%d %d" % (number, turn)
            assert fs.cat_file(f"demo/b{number}@/{turn}") == expected
            assert fs.cat_file(f"demo/main@/{number}/{turn}") == expected
