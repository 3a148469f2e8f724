"""What commands on a billion objects request, read and decode: as much as at a million."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.benchmarks import trees

if TYPE_CHECKING:
    from pathlib import Path

MB = 1_000_000
METARANGE = 16 * MB


def test_commands_cost_what_they_change(tmp_path: Path) -> None:
    small, large = (
        dict(trees.costs(objects, tmp_path / f"{objects}")) for objects in (MB, 1_000 * MB)
    )
    for name, cost in large.items():
        assert cost.requests == small[name].requests, name
        first = name == "stat, first"  # fetches the metarange, and verifies it
        assert abs(cost.read - small[name].read) < (METARANGE if first else MB / 10), name
        if not first:
            assert cost.decoded < 1.1 * small[name].decoded + 200, name
    # The metarange, the directory of one range, and one block of it; then the metarange is cached.
    assert [large[f"stat, {which}"].requests for which in ("first", "again")] == [3, 2]
    assert large["stat, again"].read < MB / 10
    # Reads a range; writes it, and the metarange of 172,000 ranges.
    assert large["commit of 1"].requests == 3
    assert large["commit of 1"].written < METARANGE + MB
    assert large["commit of 4 places"].requests == 8
    assert large["diff of a commit"].requests == 0
    assert large["merge"].requests == 2
    assert large["fetch"].requests == 5
    assert large["clone"].requests == 6
    assert large["fetch"].read + large["clone"].read < MB / 10
