"""What objects take, against sums over plain dictionaries."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from lakecli.errors import NotFound, Unreachable
from lakecli.repository import branch, tag
from lakecli.repository.commit import commit
from lakecli.repository.du import du
from tests.support.disk import limit_databases
from tests.support.lakes import stage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakecli.repository.contract import Repository

Row = tuple[bytes | None, int, int, int, int]


def rows(repository: Repository, ref: str, prefix: bytes = b"", **how: int) -> list[Row]:
    with du(
        repository, ref, prefix, depth=how.get("depth", 1), shared=bool(how.get("shared"))
    ) as found:
        return [(u.prefix, u.objects, u.size, u.physical, u.shared) for u in found]


def expected(
    contents: Mapping[bytes, bytes], others: Mapping[bytes, bytes], prefix: bytes, depth: int
) -> set[Row]:
    base = prefix.rfind(b"/") + 1
    seen: set[bytes] = set()
    sums: dict[bytes | None, list[int]] = {None: [0, 0, 0, 0]}
    for path in sorted(contents):
        if not path.startswith(prefix):
            continue
        data = contents[path]
        parts = path[base:].split(b"/")[:-1][:depth]
        names = [
            path[:base] + b"".join(p + b"/" for p in parts[: n + 1]) for n in range(len(parts))
        ]
        physical = 0 if data in seen else len(data)
        shared = physical if data in others.values() else 0
        seen.add(data)
        for name in (None, *names):
            row = sums.setdefault(name, [0, 0, 0, 0])
            for at, number in enumerate((1, len(data), physical, shared)):
                row[at] += number
    return {(name, *numbers) for name, numbers in sums.items()}  # type: ignore[misc]


@pytest.mark.parametrize("seed", range(4))
def test_sums_are_those_of_a_dictionary(repository: Repository, seed: int) -> None:
    rng = random.Random(seed)
    paths = [
        b"/".join(rng.choices([b"a", b"b", b"c.", b"dd"], k=rng.randrange(1, 5))) for _ in range(60)
    ]
    contents = {path: b"x" * rng.randrange(20) for path in paths}
    others = {path: b"x" * rng.randrange(10) for path in paths[::3]}
    branch.create(repository, "other", source="main")
    stage(repository, "other", dict(others))
    commit(repository, "other", message="other", committer="me")
    stage(repository, "main", dict(contents))
    for depth in (0, 1, 2, 9):
        for prefix in (b"", b"a", b"a/", b"dd/a", b"nope"):
            found = rows(repository, "main", prefix, depth=depth, shared=1)
            assert found[-1][0] is None
            assert set(found) == expected(contents, others, prefix, depth)
            assert len(found) == len(set(found))
            plain = rows(repository, "main", prefix, depth=depth)
            assert plain == [(*row[:-1], 0) for row in found]
    assert rows(repository, "main@") == [(None, 0, 0, 0, 0)]


def test_tags_share_too_and_staged_changes_of_others_do_not(repository: Repository) -> None:
    stage(repository, "main", {b"a": b"12345", b"copy": b"12345", b"b": b"1"})
    commit(repository, "main", message="first", committer="me")
    assert rows(repository, "main", shared=1) == [(None, 3, 11, 6, 0)]
    assert rows(repository, "main@", shared=1) == [(None, 3, 11, 6, 0)]
    tag.create(repository, "v1", "main")
    assert rows(repository, "v1", shared=1) == [(None, 3, 11, 6, 6)]
    stage(repository, "main", {b"new": b"123"})
    assert rows(repository, "main", shared=1) == [(None, 4, 14, 9, 6)]
    branch.create(repository, "dev", source="v1")
    stage(repository, "dev", {b"new": b"123"})
    assert rows(repository, "main", shared=1) == [(None, 4, 14, 9, 6)]
    with pytest.raises(NotFound):
        rows(repository, "nope")


@pytest.mark.parametrize("pages", [1, 3])
def test_a_disk_without_space_is_reported(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, pages: int
) -> None:
    stage(repository, "main", {b"%d" % number: b"%d" % number for number in range(300)})
    limit_databases(monkeypatch, pages=pages)
    with pytest.raises(Unreachable, match="temporary files: database or disk is full"):
        rows(repository, "main")
