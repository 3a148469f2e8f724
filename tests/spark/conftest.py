from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.repository import repo
from lakecli.repository.handle.lake import Lake
from lakecli.repository.runtime import Home, Runtime
from lakecli.settings.home import home_paths
from lakecli.spark import register
from tests.support.lakes import Numbered, Ticking, make_repository
from tests.support.servers import new_bucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository


def open_home(home: Path | None) -> Lake:
    """Open the lake of a home as `lakecli.open` does, with a clock and IDs that repeat."""
    paths = home_paths(home, os.environ)
    return Lake.open(
        Home(paths.store, paths.cache), Runtime(Ticking(), Numbered(str(home)), "test")
    )


@pytest.fixture
def lake(home: Path) -> Iterator[Lake]:
    with open_home(home) as lake:
        yield lake


@pytest.fixture
def repository(lake: Lake, tmp_path: Path) -> Repository:
    """A repository called demo, in a directory, with small ranges."""
    return make_repository(lake, tmp_path)


@pytest.fixture
def load(spark: Any, home: Path) -> Callable[..., Any]:
    """The data source, with its options as keywords."""
    register(spark, home=home)

    def load(uri: str, **options: Any) -> Any:
        return spark.read.format("lakefs").options(**options).load(uri)

    return load


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.nightly)])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Repository:
    """A repository called demo, in a directory and in a bucket."""
    if request.param == "local":
        return make_repository(request.getfixturevalue("lake"), tmp_path)
    repository: Repository = request.getfixturevalue("in_bucket")
    return repository


@pytest.fixture
def in_bucket(
    lake: Lake,
    moto_endpoint: str,
    aws_environment: pytest.MonkeyPatch,
    spark_environment: Callable[[str, str], None],
) -> Repository:
    """A repository called demo in a bucket that executors can reach."""
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    for name, value in os.environ.items():
        if name.startswith("AWS_"):
            spark_environment(name, value)
    return repo.create(lake, "demo", f"s3://{new_bucket(moto_endpoint)}/lake", range_entries=16)
