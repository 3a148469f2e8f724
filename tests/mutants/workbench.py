"""A copy of the project in which mutants are tried."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from tests.mutants.suites import PROJECT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

OPTIONS = ("-q", "-x", "--no-header", "--tb=line", "--assert=plain", "-p", "no:cacheprovider")
SEED = "--hypothesis-seed=0"


@dataclass(frozen=True, slots=True)
class Trial:
    """How the tests went.

    Attributes:
        passed: whether all passed: the mutant survived.
        seconds: how long they took.
        output: what pytest said.
    """

    passed: bool
    seconds: float
    output: str


class Workbench:
    """A copy of the tracked and new files, and the process that runs tests in it."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "project"
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=PROJECT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split("\0")
        for name in filter(None, listed):
            if (PROJECT / name).is_file():
                target = self.root / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(PROJECT / name, target)
        self._output = directory / "output.txt"
        self._temporary = directory / "temporary"
        self._touched = 0
        command = [sys.executable, "-m", "compileall", "-q", "lakecli", "tests"]
        subprocess.run(command, cwd=self.root, check=True)
        # What a mutant compiles to must not stay: everything else is compiled already.
        environment = dict(os.environ, PYTHONPATH=str(self.root), PYTHONDONTWRITEBYTECODE="1")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.mutants.forking"],
            cwd=self.root,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def run(self, tests: Sequence[str], *, seconds: float) -> Trial:
        """Run tests up to the first that fails; what does not end in time has failed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        shutil.rmtree(self._temporary, ignore_errors=True)
        arguments = [*OPTIONS, SEED, f"--basetemp={self._temporary}"]
        request = {
            "arguments": [*arguments, *(f"tests/{test}" for test in tests)],
            "seconds": seconds,
            "output": str(self._output),
        }
        begun = time.monotonic()
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        code = json.loads(self._process.stdout.readline())
        output = self._output.read_text(errors="replace")
        return Trial(code == 0, time.monotonic() - begun, output)

    def mutate(self, module: str, code: str, tests: Sequence[str], *, seconds: float) -> Trial:
        """Run tests with another text of a module."""
        path = self.root / "lakecli" / module
        original, status = path.read_bytes(), path.stat()
        self._touched += 1
        try:
            path.write_text(code)
            os.utime(path, (status.st_atime, status.st_mtime + self._touched))
            return self.run(tests, seconds=seconds)
        finally:
            path.write_bytes(original)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
