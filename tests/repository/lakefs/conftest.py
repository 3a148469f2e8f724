"""The namespace that a lakeFS server wrote, as a directory, and what that server said of it."""

from __future__ import annotations

import json
import os
import shutil
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from lakecli.repository.lakefs.dump import parse_manifest
from lakecli.repository.lakefs.restore import clone_from_lakefs
from tests.support.lakefs_files import live_expected, live_objects, wild_expected, write_wild

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.repository.contract import Repository
    from lakecli.repository.handle.lake import Lake
    from lakecli.repository.lakefs.dump import RefsManifest

MARKER = "_lakefs/dummy"


@cache
def _expected() -> dict[str, Any]:
    return live_expected()


@pytest.fixture
def expected() -> dict[str, Any]:
    return _expected()


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The namespace; lakeFS's local adapter keeps an object in the file of its name."""
    directory = tmp_path_factory.mktemp("lakefs") / "namespace"
    for key, data in live_objects().items():
        path = directory / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (directory / MARKER).write_text("this is dummy data")
    return directory


@pytest.fixture
def foreign(tmp_path: Path, template: Path) -> Path:
    """The namespace of one test; its files are links, and never written in place."""
    shutil.copytree(template, tmp_path / "foreign", copy_function=os.link)
    return tmp_path / "foreign"


@pytest.fixture
def manifest(expected: dict[str, Any]) -> RefsManifest:
    return parse_manifest(json.dumps(expected["refs_dump"]).encode())


@pytest.fixture
def borrowed(lake: Lake, foreign: Path, manifest: RefsManifest) -> Repository:
    return clone_from_lakefs(lake, str(foreign), "borrowed", manifest, range_entries=16).repository


class Wild(NamedTuple):
    """The namespace ``wild-1`` for one test.

    Attributes:
        directory: the namespace.
        expected: what the server said of it.
    """

    directory: Path
    expected: dict[str, Any]

    def manifest(self, number: int) -> RefsManifest:
        """Return one of the four dumps."""
        return parse_manifest(json.dumps(self.expected["dumps"][str(number)]["manifest"]).encode())

    def entry(self, commit_id: str, path: str) -> dict[str, Any]:
        """Return what the server said of a path."""
        found = (each for each in self.expected["entries"][commit_id] if each["path"] == path)
        return dict(next(found))


@cache
def _wild_expected() -> dict[str, Any]:
    return wild_expected()


@pytest.fixture(scope="session")
def wild_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wild")
    write_wild(directory)
    return directory / "wild"


@pytest.fixture
def wild(tmp_path: Path, wild_template: Path) -> Wild:
    """The namespace of one test; its files are links, and never written in place."""
    shutil.copytree(wild_template, tmp_path / "wild", copy_function=os.link)
    return Wild(tmp_path / "wild", _wild_expected())
