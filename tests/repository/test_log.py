"""Logs by path: which commits they show, and what they read for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakecli.repository.log import LogOptions, log
from tests.support.counting import CountingStore
from tests.support.histories import grow
from tests.support.lakes import make_repository, open_lake, through

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lakecli.base.model import Commit
    from lakecli.repository.contract import Repository

PATHS = 2_000
COMMITS = 200
RARE = 20


def path_of(number: int) -> bytes:
    return b"t/%05d" % number


def found(
    repository: Repository, *, objects: Sequence[bytes] = (), prefixes: Sequence[bytes] = ()
) -> list[Commit]:
    with log(repository, "main", LogOptions(objects=objects, prefixes=prefixes)) as commits:
        return list(commits)


def test_a_log_by_path_opens_only_ranges_that_differ_where_it_looks(tmp_path: Path) -> None:
    store = CountingStore()
    with open_lake(tmp_path) as lake:
        repository = through(make_repository(lake, tmp_path), store)
        first = {path_of(number): b"0" for number in range(PATHS)}
        # Every commit changes the far end of the tree; every 20th one changes the watched path too.
        changes = [
            {path_of(PATHS - 1): b"%d" % number}
            | ({path_of(7): b"%d" % number} if number % RARE == 0 else {})
            for number in range(1, COMMITS + 1)
        ]
        made = grow(repository, [first, *changes])
        expected = [made[0], *(made[number] for number in range(RARE, COMMITS + 1, RARE))][::-1]
        for options in ({"objects": [path_of(7)]}, {"prefixes": [path_of(7)]}):
            fresh = through(repository, store)
            fresh.lake.home = lake.home._replace(cache=tmp_path / str(options))
            store.reset()
            assert found(fresh, **options) == expected
            counts = fresh.trees.counts
            assert counts.metaranges_opened == COMMITS + 1
            changed = COMMITS // RARE
            assert changed <= counts.ranges_opened <= 2 * (changed + 1)
            assert store.counts["get"] <= counts.metaranges_opened + 2 * counts.ranges_opened


def test_a_log_by_path_shows_every_kind_of_change_once(repository: Repository) -> None:
    made = grow(
        repository,
        [
            {b"a": b"1", b"a/b": b"1"},
            {b"z": b"1"},
            {b"a": b"2"},
            {b"a": None},
            {b"a/b": b"2", b"aa": b"1"},
        ],
    )
    assert found(repository, objects=[b"a"]) == [made[3], made[2], made[0]]
    assert found(repository, prefixes=[b"a/"]) == [made[4], made[0]]
    assert found(repository, prefixes=[b"a"]) == [made[4], made[3], made[2], made[0]]
    assert found(repository, objects=[b"a", b"z"], prefixes=[b"a/"]) == made[::-1]
    assert found(repository, objects=[b"nope"]) == []
