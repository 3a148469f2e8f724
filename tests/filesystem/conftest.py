"""A repository on this machine, and the file system on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.filesystem import LakeFileSystem, lakes
from lakecli.repository import repo

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def demo(tmp_path: Path, home: Path) -> Iterator[Path]:
    """The repository ``demo``, with an empty branch ``main``; its namespace."""
    del home
    LakeFileSystem.clear_instance_cache()
    namespace = tmp_path / "namespace"
    with lakes.lake(lakes.home_of(None)) as held:
        repo.create(held.lake, "demo", str(namespace), range_entries=16)
    yield namespace
    LakeFileSystem.clear_instance_cache()
    lakes.close_unused()
    assert not lakes._open_lakes, "somebody did not give a lake back"


@pytest.fixture
def fs() -> LakeFileSystem:
    return LakeFileSystem(committer="Ada <ada@example.com>")
