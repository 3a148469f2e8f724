"""What fails a test, and that the page on benchmarks lists every claim."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks.claims import CLAIMS, COPY, LIST, Report
from tests.benchmarks.measure import MIB, Comparison, Memory, Usage


def compared(against: str, *, seconds: float, cpu: float) -> Comparison:
    """Return costs of so many times a second, by the wall clock and by processor time."""
    return Comparison([Usage(seconds, cpu)], {against: [Usage(1, 1)]})


def test_a_row_is_held_against_its_limit_by_what_it_compares() -> None:
    report = Report()
    report.check("upload of 4 large files", compared(COPY, seconds=1.3, cpu=9))
    report.check("upload of 4 large files", compared(COPY, seconds=1.31, cpu=1))
    report.check("upload of one file", compared(LIST, seconds=9, cpu=1.5), of="small")
    report.check("upload of one file", compared(LIST, seconds=1, cpu=1.51), of="small")
    report.check_memory("gc run", Memory(300 * MIB, 999 * MIB))
    report.check_memory("gc run", Memory(301 * MIB, 301 * MIB))
    assert [row.figure for row in report.failed_since(0)] == [1.31, 1.51, 301]
    assert [row.figure for row in report.failed_since(4)] == [301]


def test_no_row_fails_with_another_number_of_objects() -> None:
    report = Report(is_binding=False)
    report.check("upload of 4 large files", compared(COPY, seconds=9, cpu=9))
    assert report.failed_since(0) == []
    assert "FAILED" in str(report.rows[0])


def test_the_page_has_each_claim_with_its_limit() -> None:
    page = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    for name, claim in CLAIMS.items():
        assert f"| {name} | {claim.against or '-'} | {claim.kind} | {claim.limit:.3g} |" in page
