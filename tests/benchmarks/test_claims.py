"""What a row's limit is, on a quiet machine and on a loaded one."""

from __future__ import annotations

from tests.benchmarks.claims import CLAIMS, Report


def test_a_row_is_held_against_its_limit() -> None:
    report = Report()
    report.check("start of version", 2.5)
    report.check("start of version", 2.51)
    report.check("import in order", 199_999)
    assert [row.figure for row in report.failed_since(0)] == [2.51, 199_999]


def test_on_a_loaded_machine_times_may_be_worse_but_sizes_may_not() -> None:
    report = Report(is_loaded=True)
    report.check("start of version", 3.75)
    report.check("import in order", 134_000)
    assert report.failed_since(0) == []
    report.check("start of version", 3.76)
    report.check("import in order", 133_000)
    report.check("branch list, memory", 64)
    report.check("commit of one change, written", 5)
    assert len(report.failed_since(2)) == 4


def test_every_size_is_known_to_be_one() -> None:
    for name, claim in CLAIMS.items():
        is_size = name.endswith((", memory", ", written", "of a worker", "reads of a range"))
        assert (claim.loaded() == claim) == is_size, name
