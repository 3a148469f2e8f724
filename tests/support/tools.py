"""What a test needs of the machine: it is skipped without, unless everything is required."""

from __future__ import annotations

import importlib.util
import os
import shutil
from typing import NoReturn

import pytest


def do_without(what: str) -> NoReturn:
    """Skip the test, for want of something.

    ``LAKECLI_REQUIRE_TOOLS`` in the environment makes it fail instead.
    """
    if os.environ.get("LAKECLI_REQUIRE_TOOLS"):
        pytest.fail(f"LAKECLI_REQUIRE_TOOLS is set, and there is no {what}")
    pytest.skip(f"there is no {what}")


def require_tool(name: str) -> str:
    """Return the path of a program; without it the test is skipped."""
    path = shutil.which(name)
    return do_without(name) if path is None else path


def require_package(name: str) -> None:
    """Skip the test without a package."""
    if importlib.util.find_spec(name) is None:
        do_without(f"package {name}")


linux_only = pytest.mark.skipif(
    "not hasattr(os, 'copy_file_range')", reason="about a call that only Linux has"
)
"""Leaves out a test elsewhere, and where ``--without-linux`` takes these calls away."""
