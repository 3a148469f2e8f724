"""What lakecli claims about speed and memory: the one table of limits, and what was measured.

Each limit is a ratio to another program that does the same work in the same run, so it does not
depend on the machine. Only the limit of memory is a size. Everything else that the benchmarks
measure is shown without a limit.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from tests.benchmarks.measure import Comparison, Memory

MILLION: Final = 1_000_000
"""Objects for which the claims are made."""

_MIB: Final = 1 << 20

SMALL_MEMORY: Final = 32 * _MIB
"""The `cache.memory` with which random reads are measured, which they may exceed by a fifth."""


class Kind(StrEnum):
    """What is compared."""

    TIME = "time"
    """What somebody waits for: the wall clock."""

    PROCESSOR = "processor time"
    """Of one process, whatever else the machine does meanwhile."""

    MEMORY = "memory"
    """Anonymous memory of a process, at its peak."""


class Claim(NamedTuple):
    """One row.

    Attributes:
        limit: a ratio; of memory, MiB.
        against: what the ratio is to.
        kind: what is compared.
    """

    limit: float
    against: str
    kind: Kind = Kind.TIME


START: Final = "python -c pass"
LIST: Final = "lakecli branch list"
COPY: Final = "cp -r + sync"
ADD: Final = "git add + git commit"
STATUS: Final = "git status"
COMMIT: Final = "git commit -a"
ONE_MILLION: Final = "the same at one million"
ONE_BASE: Final = "the same with one base"
RCLONE: Final = "rclone copy"
OBSTORE: Final = "obstore"
LMDB: Final = "LMDB, one transaction"
ENCODED: Final = "protobuf encoding the same rows"
DECODED: Final = "protobuf decoding the same rows"
MERGE: Final = "lakecli merge + lakecli push"
LOCAL: Final = "--engine local"
IMPORT: Final = "lakecli import"
BOTOCORE: Final = "botocore signing the same"
GOOGLE: Final = "google-cloud-storage signing the same"
SPARK: Final = "Spark on the same files"

CLAIMS: Final = {
    "start": Claim(4.5, START, Kind.PROCESSOR),
    "start of fs": Claim(5, START, Kind.PROCESSOR),
    "upload and commit of 10,000 files": Claim(1.9, COPY, Kind.PROCESSOR),
    "upload of one file": Claim(1.5, LIST, Kind.PROCESSOR),
    "upload of 4 large files": Claim(1.3, COPY),
    "commit of one change in a million": Claim(2.5, LIST),
    "publish of one change in a million": Claim(1.5, MERGE),
    "merge with two bases": Claim(2, ONE_BASE, Kind.PROCESSOR),
    "a hundred million": Claim(1.2, ONE_MILLION, Kind.PROCESSOR),
    "commit in a hundred million": Claim(1.25, ONE_MILLION, Kind.PROCESSOR),
    "diff and merge in a hundred million": Claim(1.3, ONE_MILLION, Kind.PROCESSOR),
    "a billion": Claim(2, ONE_MILLION, Kind.PROCESSOR),
    "commit in a billion": Claim(4, ONE_MILLION, Kind.PROCESSOR),
    "local status of 100,000 files": Claim(2.2, STATUS, Kind.PROCESSOR),  # Git has several threads
    "local commit of one of them": Claim(3, COMMIT, Kind.PROCESSOR),
    "checkout of 10,000 files": Claim(1.7, COPY, Kind.PROCESSOR),
    "transfers to S3": Claim(1.2, RCLONE),
    "small objects of S3": Claim(2.5, OBSTORE, Kind.PROCESSOR),
    "point reads at ten million": Claim(1 / 0.7, LMDB, Kind.PROCESSOR),  # 0.7 of its rate
    "random reads of 17,400 ranges": Claim(2.5, ONE_MILLION, Kind.PROCESSOR),
    "batches of random reads of 17,400 ranges": Claim(2, LMDB, Kind.PROCESSOR),  # 0.5 of its rate
    "import of a listing": Claim(1.75, ENCODED, Kind.PROCESSOR),
    "first push of an import": Claim(0.25, IMPORT, Kind.PROCESSOR),
    "import on Spark": Claim(1.3, LOCAL, Kind.PROCESSOR),
    "fs ls -r and diff of everything": Claim(1.2, DECODED, Kind.PROCESSOR),
    "manifest of everything": Claim(1.2, DECODED, Kind.PROCESSOR),
    "presign of 10,000, S3": Claim(0.5, BOTOCORE),
    "presign of 10,000, GCS": Claim(0.7, GOOGLE),
    "table by Spark": Claim(1.3, SPARK),
    "memory at a million": Claim(300, "", Kind.MEMORY),
    "memory of random reads": Claim(1.2 * SMALL_MEMORY / _MIB, "", Kind.MEMORY),
}


class Row(NamedTuple):
    """A measured figure of a claim; `detail` says how it was computed."""

    name: str
    claim: Claim
    figure: float
    detail: str

    @property
    def holds(self) -> bool:
        """Whether the figure is within the limit."""
        return self.figure <= self.claim.limit

    def __str__(self) -> str:
        verdict = "ok" if self.holds else "FAILED"
        unit = "MiB" if self.claim.kind is Kind.MEMORY else "x"
        return (
            f"{verdict:6}  {self.name:55} {self.figure:8,.2f} {unit:3}"
            f" (<= {self.claim.limit:.4g})  {self.detail}"
        )


class Report:
    """Every figure of a run, shown at its end.

    A test measures all its rows before it fails for one of them.

    Args:
        is_binding: whether a row that does not hold fails its test.

    Attributes:
        rows: figures of claims.
        notes: what was measured beside them.
    """

    def __init__(self, *, is_binding: bool = True) -> None:
        self.is_binding = is_binding
        self.rows: list[Row] = []
        self.notes: list[str] = []

    def check(self, claim: str, compared: Comparison, *, of: str = "") -> None:
        """Record the ratio of a claim; if the claim does not hold, the test fails at its end.

        Args:
            claim: its name in `CLAIMS`.
            compared: costs, of which a baseline has the name of what the claim is against.
            of: which of several works the claim is checked for.
        """
        row = CLAIMS[claim]
        ratio = compared.cpu_ratio if row.kind is Kind.PROCESSOR else compared.ratio
        detail = compared.detail(row.against)
        self.rows.append(Row(_named(claim, of), row, ratio(row.against), detail))

    def check_memory(self, of: str, memory: Memory, *, claim: str = "memory at a million") -> None:
        """Record the memory of an operation, by default a long one at a million objects."""
        detail = f"resident with mapped files {memory.resident / _MIB:,.0f} MiB"
        self.rows.append(Row(_named(claim, of), CLAIMS[claim], memory.anonymous / _MIB, detail))

    def note(self, text: str) -> None:
        """Record what no claim is about."""
        self.notes.append(text)

    def note_ratio(self, name: str, compared: Comparison, against: str) -> None:
        """Record a ratio that no claim is about."""
        ratios = f"{compared.ratio(against):.2f} x, processor {compared.cpu_ratio(against):.2f} x"
        self.note(f"{name}: {ratios}  {compared.detail(against)}")

    def failed_since(self, count: int) -> list[Row]:
        """Return the rows after the first `count` that fail a test."""
        return [row for row in self.rows[count:] if self.is_binding and not row.holds]


def _named(claim: str, of: str) -> str:
    return f"{claim}: {of}" if of else claim
