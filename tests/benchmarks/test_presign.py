"""Signing URLs of everything below a prefix, and of one object, on namespaces in three clouds.

The servers receive requests when the repositories are created, and none while URLs are signed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.benchmarks import dataset
from tests.benchmarks.claims import RSA, STAT
from tests.benchmarks.lake import MAIN, Large
from tests.benchmarks.measure import (
    LAKECLI,
    MIB,
    Machine,
    compare,
    processor_seconds,
    repeat,
    seconds,
)
from tests.support.azurite import ACCOUNT, connection_string, new_container
from tests.support.gcs import new_gcs_bucket
from tests.support.servers import ACCESS_KEY, SECRET_KEY, new_bucket

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

    from tests.benchmarks.claims import Report
    from tests.benchmarks.lake import Place
    from tests.benchmarks.measure import Usage

OBJECTS = 10_000
ROUNDS = 5
STAT_ROUNDS = 21


class Cloud(NamedTuple):
    """A machine with credentials, and a repository in a bucket with everything committed."""

    machine: Machine
    uri: str


def _namespace(request: pytest.FixtureRequest, name: str) -> tuple[str, dict[str, str]]:
    """Return a namespace for a repository, and the environment that a machine needs to use it."""
    if name == "S3":
        endpoint = request.getfixturevalue("moto_endpoint")
        return f"s3://{new_bucket(endpoint)}/lake", {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_EC2_METADATA_DISABLED": "true",
        }
    if name == "GCS":
        server = request.getfixturevalue("gcs_server")
        return f"gs://{new_gcs_bucket(server)}/lake", {
            "STORAGE_EMULATOR_HOST": server.url,
            "GOOGLE_APPLICATION_CREDENTIALS": str(server.key_file),
        }
    url = request.getfixturevalue("azurite")
    return f"az://{ACCOUNT}/{new_container(url)}/lake", {
        "AZURE_STORAGE_CONNECTION_STRING": connection_string(url)
    }


@pytest.fixture(scope="module", params=["S3", "GCS", "Azure"])
def cloud(
    request: pytest.FixtureRequest, machine: Machine, place: Place, scratch: Path
) -> tuple[str, Cloud]:
    """The name of a cloud, and a repository there."""
    namespace, environ = _namespace(request, request.param)
    in_cloud = Machine(machine.environ | environ, scratch / "presign-log")
    large = Large(place, f"presign-{request.param.lower()}", OBJECTS)
    in_cloud.run(LAKECLI, "repo", "create", large.uri, namespace)
    large.stage_all()
    in_cloud.run(LAKECLI, "commit", f"{large.uri}/{MAIN}", "-m", "Everything")
    return request.param, Cloud(in_cloud, large.uri)


def test_handoff(
    benchmark: BenchmarkFixture, report: Report, scratch: Path, cloud: tuple[str, Cloud]
) -> None:
    name, (machine, uri) = cloud
    files = ("--manifest", scratch / "links.json", "--script", scratch / "get.sh")
    command = (LAKECLI, "fs", "presign", "-r", f"{uri}/{MAIN}/", "--expires", "1h", *files)
    usages: list[Usage] = []
    limit = _signatures_of_openssl() if name == "GCS" else 0.0
    repeat(benchmark, lambda: usages.append(machine.run(*command)), rounds=ROUNDS, warmup_rounds=1)
    if name == "S3":
        report.check("presign of 10,000, memory", machine.memory(*command).anonymous / MIB)
    taken = f"processor {processor_seconds(usages[1:]):.2f} s"
    report.check(f"presign of 10,000, {name}", seconds(usages[1:]), taken)
    if name == "GCS":
        limit = median([limit, _signatures_of_openssl()])  # before and after
        rate = OBJECTS / seconds(usages[1:])
        detail = f"{rate:,.0f}/s : {limit:,.0f}/s, {RSA}; {taken}"
        report.check("presign of 10,000, GCS, rate", rate / limit, detail)


def _signatures_of_openssl() -> float:
    """Return how many signatures a second OpenSSL makes on all cores together."""
    program = shutil.which("openssl")
    assert program is not None, "no openssl on this machine"
    cores = str(len(os.sched_getaffinity(0)))
    words = [program, "speed", "-elapsed", "-seconds", "2", "-multi", cores, "rsa2048"]
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    # rsa 2048 bits 0.000238s 0.000014s   4198.4  70878.1
    return float(shown.splitlines()[-1].split()[-2])


def test_stat(benchmark: BenchmarkFixture, report: Report, cloud: tuple[str, Cloud]) -> None:
    name, (machine, uri) = cloud
    if name != "S3":
        pytest.skip("what is claimed is claimed of S3")
    path = f"{uri}/{MAIN}/{dataset.key_of(OBJECTS // 2).decode()}"
    compared = compare(
        benchmark,
        rounds=STAT_ROUNDS,
        subject=lambda _: machine.run(LAKECLI, "fs", "stat", "--pre-sign", path),
        baselines={STAT: lambda _: machine.run(LAKECLI, "fs", "stat", path)},
    )
    report.check("fs stat --pre-sign", compared.ratio(STAT), compared.detail(STAT))
