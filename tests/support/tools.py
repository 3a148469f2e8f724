"""Programs that a test runs: it is skipped without them, unless they are required."""

from __future__ import annotations

import importlib.util
import os
import shutil

import pytest


def require_tool(name: str) -> str:
    """Return the path of a program; without it the test is skipped.

    ``LAKECLI_REQUIRE_TOOLS`` in the environment makes it fail instead.
    """
    path = shutil.which(name)
    if path is None:
        if os.environ.get("LAKECLI_REQUIRE_TOOLS"):
            pytest.fail(f"LAKECLI_REQUIRE_TOOLS is set, and there is no {name}")
        pytest.skip(f"there is no {name}")
    return path


def require_package(name: str) -> None:
    """Skip the test without a package, as `require_tool` does without a program."""
    if importlib.util.find_spec(name) is None:
        if os.environ.get("LAKECLI_REQUIRE_TOOLS"):
            pytest.fail(f"LAKECLI_REQUIRE_TOOLS is set, and there is no package {name}")
        pytest.skip(f"there is no package {name}")
