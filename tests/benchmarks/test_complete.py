"""What runs at a TAB, at a million objects, against the interpreter's own start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.committed.encode import encode_entry
from lakecli.model import EMPTY_TREE
from lakecli.repository.core.transaction import Draft, commit_clean
from tests.benchmarks import dataset
from tests.benchmarks.claims import START
from tests.benchmarks.lake import MAIN
from tests.benchmarks.measure import LAKECLI, PYTHON, compare
from tests.support.lakes import entry_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_benchmark.fixture import BenchmarkFixture

    from lakecli.repository.core.view import View
    from tests.benchmarks.claims import Report
    from tests.benchmarks.lake import Large, Place
    from tests.benchmarks.measure import Machine

ROUNDS = 21
DIRECTORIES = 200
IN_DIRECTORY = 5_000

COMMANDS = {
    "completion of branches": ("branch", f"million/{MAIN[:2]}"),
    "completion of paths": (
        "path",
        f"million/{MAIN}/{dataset.directory(dataset.HOURS_IN_TABLE).decode().partition('dt=')[0]}",
    ),
    "completion of paths, many directories": ("path", f"wide/{MAIN}/"),
}


@pytest.fixture(scope="module")
def wide(place: Place) -> None:
    """A repository of a million entries, each directory in ranges of its own."""
    place.create("wide")
    value = encode_entry(entry_of(b"x"))

    def entries() -> Iterator[tuple[bytes, bytes]]:
        for directory in range(DIRECTORIES):
            for number in range(IN_DIRECTORY):
                yield b"%04d/part-%08d.parquet" % (directory, number), value

    def build(view: View) -> Draft:
        from lakecli.committed.apply import apply
        from lakecli.repository.core.commit_gate import claim_head

        applied = apply(view.repository.trees, EMPTY_TREE, entries())
        return Draft(
            metarange_id=applied.metarange_id,
            parents=[claim_head(view)],
            message="Everything",
            committer="benchmark",
            created_at=view.repository.lake.now(),
            metadata={},
        )

    with place.open() as lake:
        commit_clean(lake.repository("wide"), MAIN, build, kind="commit")


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("name", COMMANDS)
def test_completion(
    benchmark: BenchmarkFixture, report: Report, machine: Machine, million: Large, name: str
) -> None:
    assert million.name == "million"
    kind, typed = COMMANDS[name]
    compared = compare(
        benchmark,
        rounds=ROUNDS,
        subject=lambda _: machine.run(LAKECLI, "__complete", kind, f"lakefs://{typed}"),
        baselines={START: lambda _: machine.run(PYTHON, "-c", "pass")},
    )
    report.check(name, compared.cpu_ratio(START), compared.detail(START))
