from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakecli.home import home_paths
from lakecli.repository.lake import Home, Lake, Surroundings
from lakecli.spark import register
from tests.support.lakes import Numbered, Ticking, make_repository

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakecli.repository.lake import Repository


def open_home(home: Path) -> Lake:
    """Open the lake of a home as `lakecli.open` does, with a clock and IDs that repeat."""
    paths = home_paths(home)
    return Lake.open(
        Home(paths.store, paths.cache), Surroundings(Ticking(), Numbered(str(home)), "test")
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
