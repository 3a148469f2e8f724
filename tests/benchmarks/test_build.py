"""Building a tree from a million staged entries, as ``lakecli commit`` does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.benchmarks.lake import MAIN, Large
from tests.benchmarks.measure import LAKECLI, MIB, processor_seconds, repeat, seconds

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

    from tests.benchmarks.claims import Report
    from tests.benchmarks.lake import Place
    from tests.benchmarks.measure import Machine, Usage

ROUNDS = 3
COUNT = 1_000_000


def test_build(benchmark: BenchmarkFixture, report: Report, machine: Machine, place: Place) -> None:
    numbers = iter(range(ROUNDS))
    taken: list[Usage] = []

    def stage(name: str) -> Large:
        large = Large(place, name, COUNT)
        large.create()
        large.stage_all()
        return large

    def set_up() -> tuple[tuple[object, ...], dict[str, object]]:
        return (stage(f"build-{next(numbers)}"),), {}

    def build(large: Large) -> None:
        taken.append(machine.run(LAKECLI, "commit", f"{large.uri}/{MAIN}", "-m", "Everything"))

    repeat(benchmark, build, rounds=ROUNDS, set_up=set_up)
    large = stage("build-memory")
    memory = machine.memory(LAKECLI, "commit", f"{large.uri}/{MAIN}", "-m", "Everything")
    detail = f"RssAnon; VmHWM {memory.resident / MIB:.0f} MiB, with the mapped store"
    report.check("build, memory", memory.anonymous / MIB, detail)
    rate = COUNT / processor_seconds(taken)
    report.check("build", rate, f"{COUNT / seconds(taken):,.0f}/s by the wall clock")
