"""Uploading to a bucket and downloading from it, against rclone with the same parallelism.

Both talk to the same server: moto, whose conditional writes, parts and ranges are right. It is
written in Python and slower than a client, so the processor times say more than the ratio of
seconds does; rclone's own server, which is fast, knows neither conditions nor ranges.
"""

from __future__ import annotations

import random
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import pytest

from tests.benchmarks.claims import RCLONE
from tests.benchmarks.lake import MAIN
from tests.benchmarks.measure import KIB, LAKECLI, MIB, Machine, Usage, compare, processor_seconds
from tests.support.servers import ACCESS_KEY, SECRET_KEY, new_bucket

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

    from tests.benchmarks.claims import Report
    from tests.benchmarks.measure import Comparison

PARALLELISM = "16"
FILLED = 100
"""The round whose uploads are downloaded."""

MEASURED = 101
"""The round whose memory is measured."""


class Transfers(NamedTuple):
    """Files, a bucket, and two programs that move them."""

    machine: Machine
    bucket: str
    source: Path
    target: Path
    name: str

    def prepare(self, number: int) -> None:
        """Make a repository for a round."""
        self.machine.run(
            LAKECLI, "repo", "create", f"lakefs://{self._name(number)}", self._namespace(number)
        )

    def fill(self) -> Self:
        """Have both programs upload everything, so that there is something to download."""
        self.prepare(FILLED)
        self.upload(FILLED)
        self.rclone_up(FILLED)
        return self

    def upload(self, number: int) -> Usage:
        return self._lakecli("upload", self.source, f"lakefs://{self._name(number)}/{MAIN}/")

    def download(self, number: int) -> Usage:
        target = self.target / f"lakecli-{self.name}-{number}"
        return self._lakecli("download", f"lakefs://{self._name(FILLED)}/{MAIN}/", target)

    def rclone_up(self, number: int) -> Usage:
        return self._rclone(self.source, f"s3:{self.bucket}/rclone-{self.name}-{number}")

    def rclone_down(self, number: int) -> Usage:
        source = f"s3:{self.bucket}/rclone-{self.name}-{FILLED}"
        return self._rclone(source, self.target / f"rclone-{self.name}-{number}")

    def words(self, verb: str, number: int) -> list[str | Path]:
        """Return a command line, for what looks at it while it runs."""
        place = f"lakefs://{self._name(number)}/{MAIN}/"
        target = self.target / f"memory-{self.name}"
        ends: list[str | Path] = [self.source, place] if verb == "upload" else [place, target]
        return [LAKECLI, "fs", verb, "-r", *ends, "-p", PARALLELISM]

    def _lakecli(self, verb: str, source: str | Path, target: str | Path) -> Usage:
        return self.machine.run(LAKECLI, "fs", verb, "-r", source, target, "-p", PARALLELISM)

    def _rclone(self, source: str | Path, target: str | Path) -> Usage:
        transfers = ("--transfers", PARALLELISM, "--checkers", PARALLELISM)
        return self.machine.run(_rclone_program(), "copy", source, target, *transfers)

    def _name(self, number: int) -> str:
        return f"{self.name}-{number}"

    def _namespace(self, number: int) -> str:
        return f"s3://{self.bucket}/{self._name(number)}"


def _rclone_program() -> str:
    beside = Path(sys.executable).with_name("rclone")
    found = str(beside) if beside.exists() else shutil.which("rclone")
    assert found is not None, "no rclone on this machine"
    return found


@pytest.fixture(scope="module")
def bucket_machine(machine: Machine, moto_endpoint: str, scratch: Path) -> Machine:
    return Machine(
        machine.environ
        | {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_ENDPOINT_URL": moto_endpoint,
            "AWS_EC2_METADATA_DISABLED": "true",
            "RCLONE_CONFIG": str(scratch / "rclone.conf"),
            "RCLONE_CONFIG_S3_TYPE": "s3",
            "RCLONE_CONFIG_S3_PROVIDER": "Other",
            "RCLONE_CONFIG_S3_ACCESS_KEY_ID": ACCESS_KEY,
            "RCLONE_CONFIG_S3_SECRET_ACCESS_KEY": SECRET_KEY,
            "RCLONE_CONFIG_S3_ENDPOINT": moto_endpoint,
            "RCLONE_CONFIG_S3_FORCE_PATH_STYLE": "true",
        },
        scratch / "transfers-log",
    )


def _transfers(
    machine: Machine, endpoint: str, scratch: Path, *, name: str, files: int, size: int
) -> Transfers:
    source = scratch / f"{name}-source"
    source.mkdir()
    random_bytes = random.Random(size)
    for number in range(files):
        with (source / f"{number:06d}").open("wb") as file:
            for start in range(0, size, MIB):
                file.write(random_bytes.randbytes(min(MIB, size - start)))
    return Transfers(machine, new_bucket(endpoint), source, scratch, name)


def _check(report: Report, name: str, compared: Comparison) -> None:
    cpu = processor_seconds(compared.subject)
    of_rclone = processor_seconds(compared.baselines[RCLONE])
    report.check(f"{name}, processor", cpu / of_rclone, f"{cpu:.2f} s : {of_rclone:.2f} s")
    report.check(name, compared.ratio(RCLONE), compared.detail(RCLONE))


@pytest.fixture(scope="module")
def small(bucket_machine: Machine, moto_endpoint: str, scratch: Path) -> Transfers:
    return _transfers(
        bucket_machine, moto_endpoint, scratch, name="small-objects", files=1_000, size=64 * KIB
    )


@pytest.fixture(scope="module")
def large(bucket_machine: Machine, moto_endpoint: str, scratch: Path) -> Transfers:
    return _transfers(
        bucket_machine, moto_endpoint, scratch, name="large-objects", files=4, size=256 * MIB
    )


def test_small_objects_up(benchmark: BenchmarkFixture, report: Report, small: Transfers) -> None:
    compared = compare(
        benchmark,
        rounds=3,
        prepare=small.prepare,
        subject=small.upload,
        baselines={RCLONE: small.rclone_up},
    )
    _check(report, "1,000 objects up", compared)


def test_small_objects_down(benchmark: BenchmarkFixture, report: Report, small: Transfers) -> None:
    filled = small.fill()
    compared = compare(
        benchmark, rounds=5, subject=filled.download, baselines={RCLONE: filled.rclone_down}
    )
    _check(report, "1,000 objects down", compared)


def test_large_objects_up(benchmark: BenchmarkFixture, report: Report, large: Transfers) -> None:
    compared = compare(
        benchmark,
        rounds=2,  # the server keeps everything in memory
        prepare=large.prepare,
        subject=large.upload,
        baselines={RCLONE: large.rclone_up},
    )
    _check(report, "4 of 256 MiB up", compared)


def test_large_objects_down(benchmark: BenchmarkFixture, report: Report, large: Transfers) -> None:
    filled = large.fill()
    compared = compare(
        benchmark, rounds=4, subject=filled.download, baselines={RCLONE: filled.rclone_down}
    )
    _check(report, "4 of 256 MiB down", compared)


def test_memory(benchmark: BenchmarkFixture, report: Report, large: Transfers) -> None:
    large.prepare(MEASURED)
    for verb, name in (("upload", "up"), ("download", "down")):
        taken = large.machine.memory(*large.words(verb, MEASURED))
        report.check(f"4 of 256 MiB {name}, memory", taken.anonymous / MIB)
    benchmark.pedantic(lambda: None)  # type: ignore[no-untyped-call]
