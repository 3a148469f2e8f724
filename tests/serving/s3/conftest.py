"""Endpoints of S3 for the tests of its operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.serving.s3.site import Site
from tests.support.memory_store import BUCKETS, MemoryBucket

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """An endpoint with an empty repository in a directory."""
    made = Site(tmp_path)
    yield made
    made.close()


@pytest.fixture(params=["directory", "bucket"])
def either(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Site]:
    """An endpoint with an empty repository, in a directory and in a bucket."""
    monkeypatch.setitem(BUCKETS, "served", MemoryBucket())
    made = Site(tmp_path, namespace="memory://served/demo" * (request.param == "bucket"))
    yield made
    made.close()
