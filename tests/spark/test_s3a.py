"""Tables of a bucket that Spark reads itself, by the connector that is downloaded for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakecli.repository import repo
from lakecli.repository.commit import commit
from lakecli.repository.upload import UploadOptions
from lakecli.repository.upload_tree import upload_tree
from tests.support.azurite import cache_folder
from tests.support.servers import new_bucket

if TYPE_CHECKING:
    from lakecli.repository.handle.lake import Lake

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def packages() -> Path:
    """A directory that keeps the connector for later runs, found before tests replace HOME."""
    return cache_folder() / "ivy"


@pytest.mark.nightly
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(1800)
def test_spark_reads_a_bucket_by_s3a(  # noqa: PLR0917 - fixtures
    lake: Lake,
    home: Path,
    moto_endpoint: str,
    aws_environment: pytest.MonkeyPatch,
    packages: Path,
    tmp_path: Path,
) -> None:
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    namespace = f"s3://{new_bucket(moto_endpoint)}/lake"
    repository = repo.create(lake, "demo", namespace)
    for kind in (1, 2):
        file = tmp_path / "t" / f"kind={kind}" / "f.parquet"
        file.parent.mkdir(parents=True)
        pq.write_table(pa.table({"id": range(kind * 1_000, kind * 1_000 + 100)}), file)
    upload_tree(repository, "main", b"t", source=tmp_path / "t", options=UploadOptions())
    commit(repository, "main", message="Table", committer="test")

    (tmp_path / "spark").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.s3a_client", tmp_path / "spark", packages],
        cwd=ROOT,
        env={**os.environ, "LAKECLI_HOME": str(home), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    found = json.loads(done.stdout)
    assert len(found["files"]) == 2
    assert all(each.startswith("lakecli://") for each in found["files"])
    assert found["read at the end"] == found["read"] > 0
    assert len(found["native"]) == 200
    assert found["native"] == found["fetched"]
    assert found["where"] == [f"Row(id={number}, kind=2)" for number in range(2_000, 2_010)]
