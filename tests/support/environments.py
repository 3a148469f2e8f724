"""Python environments for Spark's executors that are not the one of the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

import pyspark

import lakecli
from tests.support.tools import require_tool

NEEDED: Final = (
    "blake3", "cramjam", "google-crc32c", "lmdb", "numpy", "pyarrow", "tomlkit",
)  # fmt: skip
"""Distributions that parts import where the namespace is a directory."""


def make_environment(directory: Path) -> Path:
    """Make an environment without anything in it; return its Python."""
    venv.create(directory, symlinks=True)
    return directory / "bin/python"


def pack_environment(directory: Path) -> Path:
    """Make an environment that has lakecli, and pack it as users do.

    The packages are those of the tests, copied, so that no test needs a package index.
    """
    python = make_environment(directory / "packed")
    site = next((directory / "packed/lib").glob("python*/site-packages"))
    for name in NEEDED:
        for file in distribution(name).files or ():
            source = Path(str(file.locate()))
            if ".." in file.parts or not source.is_file():
                continue
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            _link(source, target)
    package = Path(lakecli.__file__).parent
    shutil.copytree(package, site / "lakecli", ignore=shutil.ignore_patterns("__pycache__"))
    archive = directory / "environment.tar.gz"  # with .tar, Spark loses permissions
    # The console script beside this Python, as that of the shell may be another environment's.
    tool = require_tool(str(Path(sys.executable).with_name("venv-pack")))
    subprocess.run(
        [tool, "-q", "--compress-level", "0", "-p", python.parents[1], "-o", archive],
        check=True,
        timeout=120,
    )
    return archive


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # on another file system
        shutil.copyfile(source, target)


def spark_home(directory: Path) -> Path:
    """Return a Spark whose workers keep their files in a directory, not in the installation."""
    for entry in Path(pyspark.__file__).parent.iterdir():
        (directory / entry.name).symlink_to(entry)
    return directory
