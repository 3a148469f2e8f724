"""Our own client of S3 against obstore, a client in Rust: whole objects of 64 KiB, 16 at a time.

The server is rclone's, the fastest of those that the tests start, so that clients count. It ignores
conditions; each request of both clients has the same ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.claims import OBSTORE
from tests.benchmarks.measure import KIB, PYTHON, Machine, Usage, compare
from tests.support.servers import ACCESS_KEY, SECRET_KEY, new_bucket

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

    from tests.benchmarks.claims import Report

ROUNDS = 3


def test_small_objects(
    benchmark: BenchmarkFixture,
    report: Report,
    machine: Machine,
    rclone_endpoint: str,
    scratch: Path,
) -> None:
    client_machine = Machine(
        machine.environ
        | {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_ENDPOINT_URL": rclone_endpoint,
            "AWS_EC2_METADATA_DISABLED": "true",
            "PYTHONPATH": str(Path(__file__).parents[2]),
        },
        scratch / "clients-log",
    )
    bucket = new_bucket(rclone_endpoint)

    def moving(client: str, verb: str) -> Callable[[int], Usage]:
        def move(number: int) -> Usage:
            uri = f"s3://{bucket}/{client}-{number}"
            words = (client, verb, uri, "1000", str(64 * KIB))
            return client_machine.run(PYTHON, "-m", "tests.benchmarks.object_clients", *words)

        return move

    usages: dict[str, list[Usage]] = {"obstore, down": [], "lakecli, down": []}

    def up_and_down(client: str) -> Callable[[int], Usage]:
        up, down = moving(client, "up"), moving(client, "down")

        def both(number: int) -> Usage:
            usage = up(number)
            usages[f"{client}, down"].append(down(number))
            return usage

        return both

    ups = compare(
        benchmark,
        rounds=ROUNDS,
        subject=up_and_down("lakecli"),
        baselines={OBSTORE: up_and_down("obstore")},
    )
    downs = type(ups)(
        usages["lakecli, down"][-ROUNDS:], {OBSTORE: usages["obstore, down"][-ROUNDS:]}
    )
    for verb, compared in (("up", ups), ("down", downs)):
        name, detail = f"S3 client, 1,000 objects {verb}", compared.detail(OBSTORE)
        report.check(f"{name}, processor", compared.cpu_ratio(OBSTORE), detail)
        report.check(name, compared.ratio(OBSTORE), detail)
