"""Python environments of their own, for packages that do not fit the tests' own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.azurite import locked
from tests.support.tools import do_without


def own_environment(downloads: Path, name: str, *packages: str) -> Path:
    """Return the directory of a Python environment with these packages."""
    folder = downloads / name
    with locked(downloads / f"{name}.lock"):
        if not (folder / "ready").exists():
            uv = beside_python("uv")
            python = folder / "bin/python"
            run(os.environ, uv, "venv", "-q", "--clear", "--python", sys.executable, folder)
            run(os.environ, uv, "pip", "install", "-q", "--python", python, *packages)
            (folder / "ready").touch()
    return folder


def packages_apart(downloads: Path, name: str, package: str) -> Path:
    """Return a directory for PYTHONPATH with a package that needs others than the tests have."""
    folder = downloads / name
    with locked(downloads / f"{name}.lock"):
        if not (folder / "ready").exists():
            pip = (sys.executable, "-m", "pip", "install", "-q", "--upgrade", "--target", folder)
            run(os.environ, *pip, package)
            (folder / "ready").touch()
    return folder


def beside_python(name: str) -> str:
    """Return the path of a program of this environment."""
    path = Path(sys.executable).with_name(name)
    return str(path) if path.exists() else do_without(name)


def run(environment: Mapping[str, str], *command: str | Path, **more: Any) -> str:
    """Run a program; return what it says."""
    done = subprocess.run(
        command,
        env=dict(environment),
        capture_output=True,
        text=True,
        errors="replace",
        timeout=600,
        check=False,
        **more,
    )
    assert not done.returncode, f"{command}:\n{done.stdout[-2_000:]}{done.stderr[-4_000:]}"
    said: str = done.stdout
    return said
