"""The compiled core of this checkout, and tests that run with and without it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from lakecli import native
from tests.support.tools import do_without

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from lakecli.native import Core

PROJECT = Path(__file__).parents[2]


def loaded(name: str, path: Path) -> ModuleType:
    """Import a module from a file."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compiled(directory: Path, *options: str) -> Path:
    """Compile the core into a directory; without a C compiler the test is skipped."""
    builder = loaded("build_core", PROJECT / ".ci" / "build_core.py")
    try:
        return cast("Path", builder.build(directory, *options))
    except builder.NotCompiled as failure:
        if ".c" in str(failure):
            raise
        do_without(f"C compiler: {failure}")


@pytest.fixture(scope="session")
def core(tmp_path_factory: pytest.TempPathFactory) -> Core:
    """The core as this checkout compiles it, installed or not."""
    path = compiled(tmp_path_factory.mktemp("core"))
    return cast("Core", loaded("lakecli.native._core", path))


@pytest.fixture(scope="module", params=["twins", "compiled"])
def either_core(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run the tests of a module twice: with Python's functions, and with those in C."""
    found = request.getfixturevalue("core") if request.param == "compiled" else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "core", lambda: found)
        yield
