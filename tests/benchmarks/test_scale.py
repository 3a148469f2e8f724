"""Commands on synthetic trees whose cost must depend on the change and not on the tree.

The namespace is a local directory. `tests.benchmarks.scale` measures the same commands, and more,
on repositories that are really imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from lakecli.repository.commit_attempts import clean_attempt
from lakecli.repository.guard import claim_head
from tests.benchmarks import trees
from tests.benchmarks.lake import MAIN
from tests.benchmarks.measure import repeat
from tests.benchmarks.scale import Tree, check_commands, commands

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

    from tests.benchmarks.claims import Report
    from tests.benchmarks.lake import Place
    from tests.benchmarks.measure import Machine, Usage

ROUNDS: Final = 5
MILLIONS: Final = {"a hundred million": 100, "a billion": 1_000}


def synthetic(place: Place, name: str, objects: int) -> Tree:
    """Create a repository with a synthetic tree."""
    uri = place.create(name)
    with place.open() as lake, lake.repository(name) as repository:
        attempt = clean_attempt(repository, MAIN, kind="commit")
        with attempt.view() as view:
            head = claim_head(view)
        attempt.move(trees.build(repository, objects)._replace(parents=[head]))
    return Tree(uri, lambda place, number: trees.key_of(2 * place, 97 * number).decode())


@pytest.mark.timeout(900)
@pytest.mark.parametrize("size", MILLIONS)
def test_commands(  # noqa: PLR0917 - fixtures
    benchmark: BenchmarkFixture,
    report: Report,
    machine: Machine,
    place: Place,
    scratch: Path,
    objects: int,
    size: str,
) -> None:
    name = size.replace(" ", "-")
    small = synthetic(place, f"beside-{name}", objects)
    large = synthetic(place, name, MILLIONS[size] * objects)
    (file := scratch / "one-object").write_bytes(bytes(1_000))
    numbers = iter(range(1 + ROUNDS))

    def both() -> tuple[dict[str, Usage], ...]:
        number = next(numbers)
        return tuple(commands(machine, each, number, file) for each in (small, large))

    taken = [both()]  # fills caches
    repeat(benchmark, lambda: taken.append(both()), rounds=ROUNDS)
    check_commands(report, size, *zip(*taken[1:], strict=True))
