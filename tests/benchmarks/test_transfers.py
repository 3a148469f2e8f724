"""Moving objects to S3 and back: commands against rclone, and our client against obstore.

Commands and rclone have the same parallelism, and talk to moto, whose conditional writes, parts and
ranges are right. It is written in Python and slower than a client, so the clients, of which
processor time is compared, talk to rclone's own server. That is fast, but ignores conditions.
"""

from __future__ import annotations

import random
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import pytest

from tests.benchmarks.claims import MILLION, OBSTORE, RCLONE
from tests.benchmarks.lake import MAIN
from tests.benchmarks.measure import KIB, LAKECLI, MIB, PYTHON, Machine, Usage, compare
from tests.support.servers import ACCESS_KEY, SECRET_KEY, new_bucket

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

    from tests.benchmarks.claims import Report

LARGE = 256 * MIB
PARALLELISM = "16"
FILLED = 100
"""The round whose uploads are downloaded."""


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


def credentials(endpoint: str) -> dict[str, str]:
    """Return the environment of a client of a server."""
    return {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@pytest.fixture(scope="module", params=["small-objects", "large-objects"])
def transfers(
    request: pytest.FixtureRequest,
    machine: Machine,
    moto_endpoint: str,
    scratch: Path,
    objects: int,
) -> Transfers:
    """1,000 files of 64 KiB, or 4 of 256 MiB."""
    small = objects // 1_000, 64 * KIB
    count, size = small if request.param == "small-objects" else (4, LARGE * objects // MILLION)
    source = scratch / f"{request.param}-source"
    source.mkdir()
    random_bytes = random.Random(size)
    for number in range(count):
        with (source / f"{number:06d}").open("wb") as file:
            for start in range(0, size, MIB):
                file.write(random_bytes.randbytes(min(MIB, size - start)))
    environ = {
        "RCLONE_CONFIG": str(scratch / "rclone.conf"),
        "RCLONE_CONFIG_S3_TYPE": "s3",
        "RCLONE_CONFIG_S3_PROVIDER": "Other",
        "RCLONE_CONFIG_S3_ACCESS_KEY_ID": ACCESS_KEY,
        "RCLONE_CONFIG_S3_SECRET_ACCESS_KEY": SECRET_KEY,
        "RCLONE_CONFIG_S3_ENDPOINT": moto_endpoint,
        "RCLONE_CONFIG_S3_FORCE_PATH_STYLE": "true",
    }
    in_bucket = Machine(
        machine.environ | credentials(moto_endpoint) | environ, scratch / "transfers-log"
    )
    return Transfers(in_bucket, new_bucket(moto_endpoint), source, scratch, request.param)


def test_up(benchmark: BenchmarkFixture, report: Report, transfers: Transfers) -> None:
    rounds = 2 if transfers.name == "large-objects" else 5  # the server keeps all in memory
    compared = compare(
        benchmark,
        rounds=rounds,
        prepare=transfers.prepare,
        subject=transfers.upload,
        baselines={RCLONE: transfers.rclone_up},
    )
    report.check("transfers to S3", compared, of=f"{transfers.name} up")


def test_down(benchmark: BenchmarkFixture, report: Report, transfers: Transfers) -> None:
    filled = transfers.fill()
    compared = compare(
        benchmark, rounds=4, subject=filled.download, baselines={RCLONE: filled.rclone_down}
    )
    report.check("transfers to S3", compared, of=f"{transfers.name} down")


@pytest.mark.parametrize("verb", ["up", "down"])
def test_clients(  # noqa: PLR0917 - fixtures
    benchmark: BenchmarkFixture,
    report: Report,
    machine: Machine,
    rclone_endpoint: str,
    scratch: Path,
    objects: int,
    *,
    verb: str,
) -> None:
    bucket, size = new_bucket(rclone_endpoint), str(64 * KIB)
    environ = machine.environ | credentials(rclone_endpoint)
    clients = Machine(
        environ | {"PYTHONPATH": str(Path(__file__).parents[2])}, scratch / "clients-log"
    )

    def run(client: str, direction: str, number: int = 0) -> Usage:
        words = (client, direction, f"s3://{bucket}/{client}-{number}", str(objects // 1_000), size)
        return clients.run(PYTHON, "-m", "tests.benchmarks.object_clients", *words)

    def move(client: str, number: int) -> Usage:
        return run(client, "up", number) if verb == "up" else run(client, "down")

    if verb == "down":
        run("lakecli", "up")
        run("obstore", "up")
    compared = compare(
        benchmark,
        rounds=5,
        subject=partial(move, "lakecli"),
        baselines={OBSTORE: partial(move, "obstore")},
    )
    report.check("small objects of S3", compared, of=verb)
