"""Our own client of S3 against obstore, a client in Rust: whole objects of 64 KiB, 16 at a time.

The claims are about radosgw, a server in C++ that checks signatures and honours conditions. Behind
rclone, which is written in Go and ignores conditions, processor time is compared, too, since it is
there wherever these tests are. Both clients send the same requests about small objects.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.benchmarks.claims import OBSTORE
from tests.benchmarks.measure import KIB, MIB, PYTHON, Comparison, Machine, Usage, repeat
from tests.benchmarks.radosgw import INSTALL, missing_programs, radosgw
from tests.support.servers import ACCESS_KEY, SECRET_KEY, new_bucket
from tests.support.tools import do_without

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_benchmark.fixture import BenchmarkFixture

    from tests.benchmarks.claims import Report

ROUNDS = 10
LARGE_ROUNDS = 4
CLIENTS = ("lakecli", "obstore")
VERBS = ("up", "down")


class Transfers(NamedTuple):
    """Objects that both clients upload and download, in a bucket of their own.

    Attributes:
        machine: with the settings of the server.
        bucket: its name.
        objects: how many.
        size: of each, in bytes.
    """

    machine: Machine
    bucket: str
    objects: int
    size: int

    def run(self, client: str, verb: str, number: int) -> Usage:
        """Move the objects of a round, or delete them."""
        uri = f"s3://{self.bucket}/{client}-{number}"
        words = (client, verb, uri, str(self.objects), str(self.size))
        return self.machine.run(PYTHON, "-m", "tests.benchmarks.object_clients", *words)

    def compare(self, benchmark: BenchmarkFixture, rounds: int) -> list[Comparison]:
        """Return the cost of uploads and that of downloads.

        Clients take turns at being first in a round. A round begins with the deletion of what the
        one before has left, since the server may keep all in memory.
        """
        usages: dict[tuple[str, str], list[Usage]] = {
            (client, verb): [] for client in CLIENTS for verb in VERBS
        }
        numbers = iter(range(1 + rounds))

        def clear() -> tuple[tuple[object, ...], dict[str, object]]:
            number = next(numbers)
            if number:
                for client in CLIENTS:
                    self.run(client, "rm", number - 1)
            return (number,), {}

        def move(number: int) -> None:
            for client in CLIENTS if number % 2 else reversed(CLIENTS):
                for verb in VERBS:
                    usages[client, verb].append(self.run(client, verb, number))

        repeat(benchmark, move, rounds=rounds, warmup_rounds=1, set_up=clear)
        return [
            Comparison(usages["lakecli", verb][1:], {OBSTORE: usages["obstore", verb][1:]})
            for verb in VERBS
        ]


@pytest.fixture(scope="module")
def radosgw_endpoint(tmp_path_factory: pytest.TempPathFactory, report: Report) -> Iterator[str]:
    """URL of a radosgw that accepts only `ACCESS_KEY` and `SECRET_KEY`."""
    if missing_programs():
        missing = ", ".join(missing_programs())
        report.note(f"S3 client: NOT measured behind radosgw, for want of {missing}: {INSTALL}")
        do_without(missing)
    with radosgw(tmp_path_factory.mktemp("radosgw"), ACCESS_KEY, SECRET_KEY) as url:
        yield url


@pytest.fixture
def transfers(machine: Machine, scratch: Path) -> Callable[[str, int, int], Transfers]:
    """Return what makes transfers: of a server's URL, and the count and size of objects."""

    def make(endpoint: str, count: int, size: int) -> Transfers:
        environ = machine.environ | {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_EC2_METADATA_DISABLED": "true",
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }
        clients = Machine(environ, scratch / "clients-log")
        return Transfers(clients, new_bucket(endpoint), count, size)

    return make


def note(report: Report, what: str, compared: Comparison) -> None:
    """Record both ratios, which no claim is about."""
    detail = compared.detail(OBSTORE)
    ratios = f"{compared.ratio(OBSTORE):.2f} x, processor {compared.cpu_ratio(OBSTORE):.2f} x"
    report.note(f"S3 client, {what}: {ratios}  {detail}")


def test_small_objects(
    benchmark: BenchmarkFixture,
    report: Report,
    radosgw_endpoint: str,
    transfers: Callable[[str, int, int], Transfers],
) -> None:
    compared = transfers(radosgw_endpoint, 1_000, 64 * KIB).compare(benchmark, ROUNDS)
    for verb, moved in zip(VERBS, compared, strict=True):
        name, detail = f"S3 client, 1,000 objects {verb}", moved.detail(OBSTORE)
        report.check(f"{name}, processor", moved.cpu_ratio(OBSTORE), detail)
        report.check(name, moved.ratio(OBSTORE), detail)


def test_small_objects_behind_rclone(
    benchmark: BenchmarkFixture,
    report: Report,
    rclone_endpoint: str,
    transfers: Callable[[str, int, int], Transfers],
) -> None:
    compared = transfers(rclone_endpoint, 1_000, 64 * KIB).compare(benchmark, ROUNDS)
    for verb, moved in zip(VERBS, compared, strict=True):
        ratio, detail = moved.cpu_ratio(OBSTORE), moved.detail(OBSTORE)
        report.check(f"S3 client, rclone, {verb}, processor", ratio, detail)
        note(report, f"rclone, 1,000 objects {verb}", moved)


def test_large_objects(
    benchmark: BenchmarkFixture,
    report: Report,
    radosgw_endpoint: str,
    transfers: Callable[[str, int, int], Transfers],
) -> None:
    compared = transfers(radosgw_endpoint, 4, 256 * MIB).compare(benchmark, LARGE_ROUNDS)
    for verb, moved in zip(VERBS, compared, strict=True):
        name, detail = f"S3 client, 4 of 256 MiB {verb}", moved.detail(OBSTORE)
        report.check(f"{name}, processor", moved.cpu_ratio(OBSTORE), detail)
        note(report, f"4 of 256 MiB {verb}", moved)
