"""A directory of files that a program could load from where it runs, each of which says so.

An object may have any name. So whoever downloads objects may stand beside a module of every name,
a repository of Git, an installation of Spark, and a program of every name.
"""

from __future__ import annotations

import shlex
import sys
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Final

PROGRAMS: Final = (
    "awk", "b3sum", "bash", "basename", "cat", "curl", "dirname", "env", "find", "git", "head",
    "java", "less", "ls", "nice", "ps", "python", "python3", "rm", "sed", "sh", "spark-class",
    "spark-submit", "stat", "tail", "uname", "vi",
)  # fmt: skip
MODULES: Final = ("__main__", "lakecli", "sitecustomize", "usercustomize")
SETTINGS: Final = {
    ".hotspotrc": "canary", ".spark-env.sh": "canary",
    "core-site.xml": "canary", "hive-site.xml": "canary", "log4j2.properties": "canary",
    "log4j2.xml": "canary", "metrics.properties": "canary", "spark-defaults.conf": "spark.master x",
    "conf/spark-defaults.conf": "spark.master x", "jars/canary.jar": "canary",
    "HEAD": "ref: refs/heads/main\n", "objects/x": "", "refs/x": "",
    "config": "[core]\nbare = true\n[user]\nname = canary\nemail = canary@example.com\n",
}  # fmt: skip
"""Files that no program runs: of Java, of Spark, and of a bare repository."""


def plant(directory: Path, marker: Path) -> None:
    """Put a file for each name that an interpreter could load into a directory.

    Args:
        directory: must exist.
        marker: the file to which each of them, if it is executed, adds its name.
    """
    for name in {*sys.stdlib_module_names, *packages_distributions(), *MODULES}:
        if name.isidentifier():
            text = (
                f"open({str(marker)!r}, 'a').write({name!r} + '\\n')\nraise ImportError('canary')\n"
            )
            (directory / f"{name}.py").write_text(text)
    for place in ("", "bin/"):
        for name in PROGRAMS:
            text = f"#!/bin/sh\necho {place}{name} >>{shlex.quote(str(marker))}\nexit 1\n"
            _write(directory / place / name, text, mode=0o755)
    for name in ("spark-env.sh", "conf/spark-env.sh"):
        _write(directory / name, f"echo {name} >>{shlex.quote(str(marker))}\n", mode=0o755)
    for name, text in SETTINGS.items():
        _write(directory / name, text)


def _write(file: Path, text: str, *, mode: int = 0o644) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    file.chmod(mode)
