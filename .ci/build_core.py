#!/usr/bin/env python3
"""Compile lakecli/native/*.c to an extension module of Python's limited API.

`python .ci/build_core.py` compiles it in place, which is needed after each change of the files.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
PACKAGE = PROJECT / "lakecli" / "native"
NAME = "_core.abi3.so"
LIMITED_API = 0x030B0000
"""Python 3.11, the oldest that lakecli supports."""

OPTIONS = ("-std=c99", "-O3", "-Wall", "-Wextra", "-Werror=implicit-function-declaration")


def compiler() -> list[str]:
    """Return the words that call the compiler: that of ``CC``, of Python's own build, or ``cc``."""
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    words = shlex.split(sysconfig.get_config_var("CC") or "cc")
    return words if shutil.which(words[0]) else ["cc"]


def sources(package: Path = PACKAGE) -> list[Path]:
    """Return the files of the core, headers included."""
    return sorted([*package.glob("*.c"), *package.glob("*.h")])


def digest_of(files: list[Path]) -> str:
    """Return a digest of the names and the contents of files."""
    digest = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        digest.update(f"{file.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


class NotCompiled(Exception):
    """There is no compiler, or it failed."""


def build(directory: Path = PACKAGE, *options: str) -> Path:
    """Compile the core, and return the module's path.

    Args:
        directory: of the module; an older one there is replaced, or removed on failure.
        options: more options of the compiler.

    Raises:
        NotCompiled: there is no compiler, or it failed.
    """
    target = directory / NAME
    target.unlink(missing_ok=True)
    files = sources(PACKAGE)
    called = compiler()
    unfinished = target.with_suffix(".part")
    includes = {sysconfig.get_path(name) for name in ("include", "platinclude")}
    command = [
        *(*called, *OPTIONS, *options, "-fPIC", "-shared"),
        *(f"-DPy_LIMITED_API={LIMITED_API:#x}", f'-DSOURCE="{digest_of(files)}"'),
        *(f"-I{path}" for path in sorted(includes)),
        *(str(file) for file in files if file.suffix == ".c"),
        *("-o", str(unfinished)),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NotCompiled(f"{command[0]}: {error.strerror}") from None
    if done.returncode:
        unfinished.unlink(missing_ok=True)
        raise NotCompiled(f"{shlex.join(command)}\n{done.stderr}")
    unfinished.replace(target)
    return target


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{build()}\n")
    except NotCompiled as failure:
        raise SystemExit(f"lakecli/native was not compiled: {failure}") from None
