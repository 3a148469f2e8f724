"""What commands on a tree of a hundred million objects read, write and ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.benchmarks import trees

if TYPE_CHECKING:
    from pathlib import Path

MB = 1_000_000


def test_commands_on_a_hundred_million_objects_move_few_bytes(tmp_path: Path) -> None:
    found = dict(trees.costs(100_000_000, tmp_path))
    # The metarange, the directory of one range, and one block of it.
    assert found["stat, first"].requests == 3
    assert found["stat, first"].read < 2 * MB
    assert found["stat, again"].requests == 0
    # Reads a range; writes it, and the metarange of 17,000 ranges.
    assert found["commit of 1"].requests == 3
    assert found["commit of 1"].written < 3 * MB
    assert found["commit of 4 places"].requests == 8
    assert found["diff of a commit"].requests == 0
    assert found["merge"].requests == 2
    assert found["fetch"].requests == 5
    assert found["clone"].requests == 6
    assert found["fetch"].read + found["clone"].read < MB / 10
