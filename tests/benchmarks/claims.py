"""What lakecli claims about speed and memory: the one table of limits, and what was measured.

Most limits are ratios to something measured in the same run, or sizes; neither depends on the
machine. Rates do: they are meant for one core of a server of 2023, and count processor time, so
that whatever else runs there does not count.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class Bound(StrEnum):
    """On which side of the limit a figure must be."""

    AT_MOST = "<="
    BELOW = "<"
    AT_LEAST = ">="


SLACK: Final = 1.5
"""How much worse than its limit a row may be on a loaded machine."""

SIZES: Final = frozenset(("MiB", "MB", "KiB/commit", "B/entry", "reads"))
"""Units that do not depend on what else a machine does."""


class Claim(NamedTuple):
    """One row.

    Attributes:
        limit: in `unit`.
        unit: ``x`` for a ratio.
        against: what a ratio is to; ``""`` if it is none.
    """

    bound: Bound
    limit: float
    unit: str
    against: str = ""

    def holds(self, figure: float) -> bool:
        """Whether a figure is within the limit."""
        if self.bound is Bound.AT_LEAST:
            return figure >= self.limit
        return figure < self.limit if self.bound is Bound.BELOW else figure <= self.limit

    def loaded(self) -> Claim:
        """Return the claim of a loaded machine: `SLACK` times the limit, unless it is a size."""
        if self.unit in SIZES:
            return self
        factor = 1 / SLACK if self.bound is Bound.AT_LEAST else SLACK
        return self._replace(limit=self.limit * factor)


START: Final = "python -c pass"
LIST: Final = "lakecli branch list"
STAT: Final = "lakecli fs stat"
COPY: Final = "cp -r + sync"
STATUS: Final = "git status"
COMMIT: Final = "git commit -a"
START_AND_COPY: Final = "lakecli branch list + cp + sync FILE"
RCLONE: Final = "rclone copy"
SPARK_PARQUET: Final = "Spark on the same rows in Parquet"
SPARK_FILES: Final = "Spark on the same files"
LOCAL: Final = "--engine local"
PROTOBUF: Final = "protobuf"
RSA: Final = "openssl speed rsa2048"
OBSTORE: Final = "obstore"
LMDB: Final = "LMDB, one transaction"
ONE_MILLION: Final = "the same ratio at one million"

CLAIMS: Final = {
    # Starting up, on a small repository.
    "start of version": Claim(Bound.AT_MOST, 2.5, "x", START),
    "start of branch list": Claim(Bound.AT_MOST, 4, "x", START),
    "start of log": Claim(Bound.AT_MOST, 4, "x", START),
    "start of rev-parse": Claim(Bound.AT_MOST, 4, "x", START),
    "start of status": Claim(Bound.AT_MOST, 4, "x", START),
    "start of fs ls": Claim(Bound.AT_MOST, 4, "x", START),
    "start of fs stat": Claim(Bound.AT_MOST, 4, "x", START),
    # A TAB at a million objects: 150 ms where Python takes 13 to start.
    "completion of branches": Claim(Bound.AT_MOST, 5, "x", START),
    "completion of paths": Claim(Bound.AT_MOST, 8, "x", START),
    "completion of paths, many directories": Claim(Bound.AT_MOST, 10, "x", START),
    "branch list, memory": Claim(Bound.BELOW, 64, "MiB"),
    "log, memory": Claim(Bound.BELOW, 64, "MiB"),
    # Uploading a directory to a local namespace and committing it.
    "10,000 files of 4 KiB": Claim(Bound.AT_MOST, 2.5, "x", COPY),
    "10,000 files of 4 KiB, git": Claim(Bound.BELOW, 0.4, "x", "git add + git commit"),
    "10,000 files of 4 KiB in memory, a file": Claim(Bound.AT_MOST, 45, "µs"),
    "4 files of 256 MiB": Claim(Bound.AT_MOST, 1.3, "x", COPY),
    # Processor time, against a start and writing the bytes. lakectl needs 36 to 40 ms, without its
    # server, where Python starts in 13.
    "upload of one file": Claim(Bound.AT_MOST, 1.2, "x", START_AND_COPY),
    # A directory linked with a ref.
    "checkout of 10,000 files": Claim(Bound.AT_MOST, 2.5, "x", COPY),
    # Processor time, because Git describes files in several threads. Memory is VmHWM.
    "local status of 100,000 files": Claim(Bound.AT_MOST, 2, "x", STATUS),
    "local status of 100,000 files, memory": Claim(Bound.BELOW, 150, "MiB"),
    "local commit of one of 100,000 files": Claim(Bound.AT_MOST, 3, "x", COMMIT),
    "local commit of one of 100,000 files, memory": Claim(Bound.BELOW, 150, "MiB"),
    "local status of a million files, memory": Claim(Bound.BELOW, 400, "MiB"),
    # Building a tree from one million staged entries.
    "build": Claim(Bound.AT_LEAST, 150_000, "entries/s"),
    "build, memory": Claim(Bound.BELOW, 300, "MiB"),
    # Importing two million objects from a manifest without moving them. On Spark, of two cores,
    # processor time of all its processes counts, divided by two.
    "import in order": Claim(Bound.AT_LEAST, 200_000, "objects/s"),
    "import in order, memory": Claim(Bound.BELOW, 400, "MiB"),
    "import in order, Spark": Claim(Bound.AT_LEAST, 350_000, "objects/s"),
    "import mixed up, Spark": Claim(Bound.AT_LEAST, 350_000, "objects/s"),
    "import on Spark, memory": Claim(Bound.BELOW, 1536, "MiB"),
    # Three million objects by both engines in turn, without the start of Spark. Processor time, as
    # by the wall clock Spark has two cores and one process has one.
    "import on Spark, processor": Claim(Bound.AT_MOST, 1.2, "x", LOCAL),
    # Whole processes at one million entries.
    "commit of one change": Claim(Bound.AT_MOST, 2.5, "x", LIST),
    "commit of one change, processor": Claim(Bound.AT_MOST, 1.5, "x", LIST),
    "commit of one change, written": Claim(Bound.BELOW, 5, "MB"),
    "diff of two commits": Claim(Bound.AT_MOST, 1.5, "x", LIST),
    "fs stat": Claim(Bound.AT_MOST, 1.5, "x", LIST),
    "fs ls, one page": Claim(Bound.AT_MOST, 1.5, "x", LIST),
    "merge of one change each": Claim(Bound.AT_MOST, 3, "x", LIST),
    "commit of one change, memory": Claim(Bound.BELOW, 100, "MiB"),
    "diff of two commits, memory": Claim(Bound.BELOW, 100, "MiB"),
    "merge of one change each, memory": Claim(Bound.BELOW, 100, "MiB"),
    # The same at ten million: how much the ratio may grow.
    "commit of one change, 10M": Claim(Bound.AT_MOST, 1.2, "x", ONE_MILLION),
    "commit of one change, 10M, start": Claim(Bound.AT_MOST, 1.5, "x", LIST),
    "commit of one change, 10M, written": Claim(Bound.BELOW, 5, "MB"),
    "diff of two commits, 10M": Claim(Bound.AT_MOST, 1.2, "x", ONE_MILLION),
    "fs stat, 10M": Claim(Bound.AT_MOST, 1.2, "x", ONE_MILLION),
    "fs ls, one page, 10M": Claim(Bound.AT_MOST, 1.2, "x", ONE_MILLION),
    "merge of one change each, 10M": Claim(Bound.AT_MOST, 1.2, "x", ONE_MILLION),
    "commit of one change, 10M, memory": Claim(Bound.BELOW, 100, "MiB"),
    "diff of two commits, 10M, memory": Claim(Bound.BELOW, 100, "MiB"),
    "merge of one change each, 10M, memory": Claim(Bound.BELOW, 100, "MiB"),
    # To a bucket and back, 16 at a time: S3 as moto serves it.
    "1,000 objects up": Claim(Bound.AT_MOST, 1.3, "x", RCLONE),
    "1,000 objects up, processor": Claim(Bound.AT_MOST, 2, "x", RCLONE),
    "1,000 objects down": Claim(Bound.AT_MOST, 1.3, "x", RCLONE),
    "1,000 objects down, processor": Claim(Bound.AT_MOST, 2, "x", RCLONE),
    "4 of 256 MiB up": Claim(Bound.AT_MOST, 1.2, "x", RCLONE),
    "4 of 256 MiB up, processor": Claim(Bound.AT_MOST, 2, "x", RCLONE),
    "4 of 256 MiB up, memory": Claim(Bound.BELOW, 250, "MiB"),
    "4 of 256 MiB down": Claim(Bound.AT_MOST, 1.2, "x", RCLONE),
    "4 of 256 MiB down, processor": Claim(Bound.AT_MOST, 2, "x", RCLONE),
    "4 of 256 MiB down, memory": Claim(Bound.BELOW, 250, "MiB"),
    # Our own client of S3 against obstore, which is written in Rust; starting both included. The
    # server is radosgw; where that is not installed, rclone shows the processor time.
    "S3 client, 1,000 objects up": Claim(Bound.AT_MOST, 1.15, "x", OBSTORE),
    "S3 client, 1,000 objects up, processor": Claim(Bound.AT_MOST, 1.6, "x", OBSTORE),
    "S3 client, 1,000 objects down": Claim(Bound.AT_MOST, 1.15, "x", OBSTORE),
    "S3 client, 1,000 objects down, processor": Claim(Bound.AT_MOST, 1.6, "x", OBSTORE),
    # The SDK signs the parts of large objects with SHA-256, and sends a CRC32 of each.
    "S3 client, 4 of 256 MiB up, processor": Claim(Bound.AT_MOST, 3, "x", OBSTORE),
    "S3 client, 4 of 256 MiB down, processor": Claim(Bound.AT_MOST, 1.6, "x", OBSTORE),
    "S3 client, rclone, up, processor": Claim(Bound.AT_MOST, 1.6, "x", OBSTORE),
    "S3 client, rclone, down, processor": Claim(Bound.AT_MOST, 1.6, "x", OBSTORE),
    # Handing over 10,000 objects, a manifest and a script, everything included.
    "presign of 10,000, S3": Claim(Bound.BELOW, 3, "s"),
    "presign of 10,000, GCS": Claim(Bound.BELOW, 5, "s"),
    "presign of 10,000, Azure": Claim(Bound.BELOW, 3, "s"),
    # Signatures a second of the whole command, on all cores.
    "presign of 10,000, GCS, rate": Claim(Bound.AT_LEAST, 0.85, "x", RSA),
    "presign of 10,000, memory": Claim(Bound.BELOW, 100, "MiB"),
    "fs stat --pre-sign": Claim(Bound.AT_MOST, 1.5, "x", STAT),
    # Entries as a DataFrame, two million of them, on two cores.
    "aggregate of entries": Claim(Bound.AT_MOST, 4, "x", SPARK_PARQUET),
    "aggregate of entries, path and size": Claim(Bound.AT_MOST, 4, "x", SPARK_PARQUET),
    # All columns of a table of eight million rows in one Parquet file, on two cores.
    "aggregate of a table, native": Claim(Bound.AT_MOST, 1.3, "x", SPARK_FILES),
    "aggregate of a table, fetched": Claim(Bound.AT_MOST, 1.8, "x", SPARK_FILES),
    "aggregate of a table, memory of a worker": Claim(Bound.BELOW, 300, "MiB"),
    # In and out of lakeFS with 10,000 commits; the clone has a million entries. Processor time.
    "clone of a lakeFS dump": Claim(Bound.BELOW, 2, "s"),
    "clone of a lakeFS dump, memory": Claim(Bound.BELOW, 3, "KiB/commit"),
    "refs-dump of 10,000 commits": Claim(Bound.BELOW, 1, "s"),
    # Garbage collection, marking 20 commits of 500,000 entries that share most ranges.
    "gc mark": Claim(Bound.AT_LEAST, 250_000, "entries/s"),
    "gc mark, reads of a range": Claim(Bound.AT_MOST, 1, "reads"),
    # Encoding and decoding of entries, against the same work by protobuf's C code.
    "encode_entry": Claim(Bound.AT_MOST, 0.6, "x", PROTOBUF),
    "decode_entry": Claim(Bound.AT_MOST, 0.85, "x", PROTOBUF),
    "encode_entry, rate": Claim(Bound.AT_LEAST, 300_000, "entries/s"),
    "decode_entry, rate": Claim(Bound.AT_LEAST, 300_000, "entries/s"),
    "columns to values": Claim(Bound.AT_LEAST, 600_000, "values/s"),
    # Listing 200,000 entries of a million, and the difference of a million, as whole processes.
    "fs ls -r": Claim(Bound.AT_LEAST, 120_000, "entries/s"),
    "fs ls -r --json": Claim(Bound.AT_LEAST, 80_000, "entries/s"),
    "diff of everything": Claim(Bound.AT_LEAST, 120_000, "paths/s"),
    "diff of everything --json": Claim(Bound.AT_LEAST, 80_000, "paths/s"),
    # Reads in one process, at one million entries or ten: values of a tree, then entries of a ref.
    "point reads": Claim(Bound.AT_LEAST, 200_000, "reads/s"),
    "point reads, 1,000 at a time": Claim(Bound.AT_LEAST, 500_000, "reads/s"),
    "point reads, 1,000 sorted at a time": Claim(Bound.AT_LEAST, 500_000, "reads/s"),
    # Two processes, and ten million, after all was read into memory in the background.
    "point reads, 1,000 at a time, two processes": Claim(Bound.AT_LEAST, 1_000_000, "reads/s"),
    "fill of memory": Claim(Bound.AT_LEAST, 500_000, "entries/s"),
    "fill of memory, memory": Claim(Bound.BELOW, 520, "B/entry"),
    "point reads, 10M": Claim(Bound.AT_LEAST, 200_000, "reads/s"),
    "point reads, 1,000 at a time, 10M": Claim(Bound.AT_LEAST, 500_000, "reads/s"),
    "point reads, 1,000 sorted at a time, 10M": Claim(Bound.AT_LEAST, 500_000, "reads/s"),
    "point reads, 10M, LMDB": Claim(Bound.AT_LEAST, 0.85, "x", LMDB),
    "point reads, 1,000 at a time, 10M, LMDB": Claim(Bound.AT_LEAST, 0.85, "x", LMDB),
    "point reads, 1,000 sorted at a time, 10M, LMDB": Claim(Bound.AT_LEAST, 0.85, "x", LMDB),
    "stat, ref resolved each time": Claim(Bound.AT_LEAST, 20_000, "reads/s"),
    "stat by a reader": Claim(Bound.AT_LEAST, 60_000, "reads/s"),
}


class Row(NamedTuple):
    """A claim, its name and its measured figure; `detail` says how it was computed."""

    claim: Claim
    name: str
    figure: float
    detail: str

    def __str__(self) -> str:
        verdict = "ok" if self.claim.holds(self.figure) else "FAILED"
        return (
            f"{verdict:6}  {self.name:38} {self.figure:>11,.2f} {self.claim.unit:9}"
            f" ({self.claim.bound} {self.claim.limit:,g})  {self.detail}"
        )


class Report:
    """Every figure of a run, shown at its end.

    A test measures all its rows before it fails for one of them.

    Args:
        is_loaded: whether the machine is kept busy meanwhile, and rows may be `SLACK` times worse.

    Attributes:
        rows: figures of claims.
        notes: what else was measured, and what could not be.
    """

    def __init__(self, *, is_loaded: bool = False) -> None:
        self.is_loaded = is_loaded
        self.rows: list[Row] = []
        self.notes: list[str] = []

    def check(self, name: str, figure: float, detail: str = "") -> None:
        """Record the figure of a claim; if the claim does not hold, the test fails at its end."""
        claim = CLAIMS[name].loaded() if self.is_loaded else CLAIMS[name]
        self.rows.append(Row(claim, name, figure, detail))

    def note(self, text: str) -> None:
        """Record what no claim is about."""
        self.notes.append(text)

    def failed_since(self, count: int) -> list[Row]:
        """Return the rows after the first `count` whose claims do not hold."""
        return [row for row in self.rows[count:] if not row.claim.holds(row.figure)]
