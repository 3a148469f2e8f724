"""Signing URLs of everything below a prefix, against the SDK of the cloud.

The servers receive requests when the repositories are created, and none while URLs are signed.
lakecli writes a manifest and a script with the URLs, too.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.benchmarks.claims import BOTOCORE, CLAIMS, GOOGLE
from tests.benchmarks.lake import MAIN, Large
from tests.benchmarks.measure import LAKECLI, PYTHON, Machine, compare, seconds
from tests.support.azurite import ACCOUNT, connection_string, new_container
from tests.support.gcs import new_gcs_bucket
from tests.support.servers import ACCESS_KEY, SECRET_KEY, new_bucket

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

    from tests.benchmarks.claims import Report
    from tests.benchmarks.lake import Place
    from tests.benchmarks.measure import Usage

ROUNDS = 5


class Cloud(NamedTuple):
    """Where a repository is.

    Attributes:
        scheme: of its namespace.
        bucket: behind the scheme.
        environ: what a program needs to sign.
        peers: the SDK, by the name of what the claim is against; none for Azure.
    """

    scheme: str
    bucket: str
    environ: dict[str, str]
    peers: dict[str, str]


def _cloud(request: pytest.FixtureRequest, name: str) -> Cloud:
    if name == "S3":
        endpoint = request.getfixturevalue("moto_endpoint")
        environ = {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        return Cloud("s3", new_bucket(endpoint), environ, {BOTOCORE: "botocore"})
    if name == "GCS":
        server = request.getfixturevalue("gcs_server")
        environ = {
            "STORAGE_EMULATOR_HOST": server.url,
            "GOOGLE_APPLICATION_CREDENTIALS": str(server.key_file),
        }
        return Cloud("gs", new_gcs_bucket(server), environ, {GOOGLE: "google"})
    url = request.getfixturevalue("azurite")
    environ = {"AZURE_STORAGE_CONNECTION_STRING": connection_string(url)}
    return Cloud("az", f"{ACCOUNT}/{new_container(url)}", environ, {})


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["S3", "GCS", "Azure"])
def test_presign(  # noqa: PLR0917 - fixtures
    benchmark: BenchmarkFixture,
    report: Report,
    machine: Machine,
    place: Place,
    scratch: Path,
    objects: int,
    request: pytest.FixtureRequest,
    *,
    name: str,
) -> None:
    cloud, count = _cloud(request, name), objects // 100
    environ = machine.environ | cloud.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    in_cloud = Machine(environ, scratch / "presign-log")
    large = Large(place, f"presign-{name.lower()}", count)
    in_cloud.run(LAKECLI, "repo", "create", large.uri, f"{cloud.scheme}://{cloud.bucket}/lake")
    large.stage_all()
    in_cloud.run(LAKECLI, "commit", f"{large.uri}/{MAIN}", "-m", "Everything")
    files = ("--manifest", scratch / "links.json", "--script", scratch / "get.sh")
    command = (LAKECLI, "fs", "presign", "-r", f"{large.uri}/{MAIN}/", "--expires", "1h", *files)

    def sign(sdk: str, _number: int) -> Usage:
        words = ("-m", "tests.benchmarks.signers", sdk, cloud.bucket, str(count))
        return in_cloud.run(PYTHON, *words)

    compared = compare(
        benchmark,
        rounds=ROUNDS,
        subject=lambda _: in_cloud.run(*command),
        baselines={against: partial(sign, sdk) for against, sdk in cloud.peers.items()},
    )
    claim = f"presign of 10,000, {name}"
    if claim in CLAIMS:
        report.check(claim, compared)
    else:
        report.note(f"{claim}: {seconds(compared.subject):.2f} s")
