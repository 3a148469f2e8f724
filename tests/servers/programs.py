"""Programs of servers, fetched by the package managers of their languages and kept between runs.

Each is fetched once into `lakecli-tests/servers/` in the cache directory.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support.azurite import cache_folder, locked
from tests.support.tools import do_without, require_tool

LIMIT = 1_800.0
"""Seconds that a build may take."""

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>tests</groupId><artifactId>tests</artifactId><version>1</version><dependencies>
{}
</dependencies></project>
"""
_DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)


def _fetch(
    name: str, fetch: Callable[[Path], Sequence[str | Path]], environment: dict[str, str]
) -> Path:
    """Return the directory `name` of the cache; a command fills it the first time."""
    servers = cache_folder() / "servers"
    servers.mkdir(exist_ok=True)
    folder = servers / name
    with locked(servers / f"{name}.lock"):
        if not folder.exists():
            partial = servers / f"{name}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            ended = subprocess.run(
                fetch(partial),
                cwd=partial,
                env=os.environ | environment,
                capture_output=True,
                text=True,
                timeout=LIMIT,
                check=False,
            )
            if ended.returncode:
                do_without(f"{name}: {(ended.stderr or ended.stdout)[-500:]}")
            partial.rename(folder)
    return folder


def from_go(package: str, version: str) -> str:
    """Return the path of a program in Go."""
    go = require_tool("go")
    name = package.rsplit("/", 1)[-1]

    def fetch(_: Path) -> Sequence[str | Path]:
        return (go, "install", f"{package}@{version}")

    folder = cache_folder() / "servers" / f"{name}-{version}.partial"
    return str(_fetch(f"{name}-{version}", fetch, {"GOBIN": str(folder)}) / name)


def from_lakefs(program: str, version: str) -> str:
    """Return the path of lakeFS, or of lakectl.

    Go does not install a program of a module that replaces another one, so it is built where the
    module is.
    """
    go = require_tool("go")

    def fetch(partial: Path) -> Sequence[str | Path]:
        download = (go, "mod", "download", "-json", f"github.com/treeverse/lakefs@{version}")
        found = subprocess.run(
            download, cwd=partial, capture_output=True, timeout=LIMIT, check=True
        )
        folder = json.loads(found.stdout)["Dir"]
        return (go, "-C", folder, "build", "-o", partial / program, f"./cmd/{program}")

    return str(_fetch(f"{program}-{version}", fetch, {}) / program)


def from_cargo(crate: str, version: str, *options: str) -> str:
    """Return the path of a program in Rust."""
    cargo = require_tool("cargo")

    def fetch(partial: Path) -> Sequence[str | Path]:
        return (cargo, "install", "-q", "--root", partial, f"{crate}@{version}", *options)

    return str(_fetch(f"{crate}-{version}", fetch, {}) / "bin" / crate)


def from_maven(*artifacts: tuple[str, str, str]) -> Sequence[str]:
    """Return the command of Java with a class path; the first artifact is the server."""
    java, maven = require_tool("java"), require_tool("mvn")

    def fetch(partial: Path) -> Sequence[str | Path]:
        dependencies = "\n".join(_DEPENDENCY.format(*each) for each in artifacts)
        (partial / "pom.xml").write_text(_POM.format(dependencies))
        return (maven, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib")

    _, name, version = artifacts[0]
    folder = _fetch(f"{name}-{version}", fetch, {})
    return (java, "-Xmx384m", "-cp", f"{folder}/lib/*")
