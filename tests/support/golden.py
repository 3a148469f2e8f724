"""Runs of the command line, and their golden outputs.

    def test_branch_list(cli: Cli, golden: Golden) -> None:
        cli.ok("repo", "create", "lakefs://demo", f"local://{cli.directory}")
        golden("branch_list", cli("branch", "list", "lakefs://demo"))

compares command, exit code, stdout and stderr with ``tests/cli/golden/branch_list.txt``;
``pytest --update-golden`` writes the file. What differs from run to run is put into a normal form
first. Equal IDs get equal numbers, so that a golden file still shows whose parent is whose.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.cli.context import Environment
from lakecli.cli.exit_codes import ExitCode
from lakecli.cli.run import run
from tests.support.schemas import check_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

GOLDEN = Path(__file__).parent.parent / "cli" / "golden"
START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)

_IDS = re.compile(r"data/[0-9a-f]{2}/[0-9a-f]{62}|\b[0-9a-f]{64}\b|\b[0-9a-f]{32}\b")
_ID_NAMES = {32: "UUID", 64: "ID", 70: "OBJECT"}
_PATTERNS = (
    (re.compile(r"https?://[^\s\"]+\?[^\s\"]+"), "<PRESIGNED URL>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<TIME>"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4} \w+"), "<DATE>"),
    (re.compile(r"\btimestamp: \d+"), "timestamp: <TIMESTAMP>"),
)


@dataclass(frozen=True)
class Result:
    """The outcome of one run."""

    argv: tuple[str, ...]
    exit_code: int
    stdout_bytes: bytes
    stderr: str

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode("utf-8", "surrogateescape")

    @property
    def lines(self) -> list[str]:
        return self.stdout.splitlines()

    @property
    def json(self) -> Any:
        """The one object on stdout."""
        (record,) = self.json_lines
        return record

    @property
    def json_lines(self) -> list[Any]:
        """The objects on stdout, one a line."""
        return [json.loads(line) for line in self.lines]

    @property
    def error(self) -> dict[str, Any]:
        """The error object on the last line of stderr, after ``--json``."""
        error: dict[str, Any] = json.loads(self.stderr.splitlines()[-1])["error"]
        return error


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@contextmanager
def _no_endpoint() -> Iterator[None]:
    """Let `lakecli serve` end when it has started, unless a test has put something in its place."""
    try:
        from lakecli.serving import server
    except ImportError:  # of which a test says that it is missing
        yield
        return

    def run_until_stopped(endpoint: Any) -> bool:
        endpoint._bound.close()
        endpoint._started()
        return True

    with pytest.MonkeyPatch.context() as patch:
        if isinstance(server.Endpoint, type):
            patch.setattr(server.Endpoint, "run_until_stopped", run_until_stopped)
        yield


class Cli:
    """Runs the command line in one home.

    Attributes:
        directory: for files and storage namespaces of a test.
        now: the clock; it goes on by one second with every run.
        on_result: called after each run, if it is set.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.now = START
        self.on_result: Callable[[Result], None] | None = None
        self._ids = 0

    def __call__(
        self,
        *argv: str | Path,
        stdin: str | bytes = b"",
        terminal: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> Result:
        """Run a command in this process; with `terminal` the three streams are a terminal."""
        self.now += timedelta(seconds=1)
        kind = _Terminal if terminal else io.TextIOWrapper
        out, err = io.BytesIO(), io.BytesIO()
        given = stdin.encode() if isinstance(stdin, str) else stdin
        streams = (
            kind(io.BytesIO(given), encoding="utf-8"),
            kind(out, encoding="utf-8", errors="surrogateescape"),
            kind(err, encoding="utf-8", errors="surrogateescape"),
        )
        args = tuple(map(str, argv))
        environ = {**os.environ, "LAKECLI_PAGER": "", **(env or {})}
        with _no_endpoint() if "serve" in args[:1] else nullcontext():
            code = run(
                args, Environment(environ, *streams, now=lambda: self.now, new_id=self._new_id)
            )
        for stream in streams[1:]:
            stream.flush()
        stderr = err.getvalue().decode("utf-8", "surrogateescape")
        result = Result(args, int(code), out.getvalue(), stderr)
        if "--json" in args and "--help" not in args:
            done = result.exit_code in (ExitCode.OK, ExitCode.DIFFERENCES)
            check_answer(args, result.json_lines, whole=done)
        if self.on_result is not None:
            self.on_result(result)
        return result

    def as_a_person(self, argv: Sequence[str]) -> Result:
        """Run what a test did not ask for: on a terminal, at the time of the last run."""
        now, ids, told = self.now, self._ids, self.on_result
        self.on_result = None
        try:
            stdin = "lakefs://demo/main\n" if "--stdin" in argv else "y\n"
            return self(*argv, terminal=True, stdin=stdin)
        finally:
            self.now, self._ids, self.on_result = now, ids, told

    def ok(self, *argv: str | Path, stdin: str | bytes = b"") -> Result:
        """Run a command in this process that must succeed."""
        result = self(*argv, stdin=stdin)
        assert result.exit_code == 0, result
        return result

    def process(
        self, *argv: str | Path, stdin: bytes = b"", env: Mapping[str, str] | None = None
    ) -> Result:
        """Run a command as a process of its own, with the real clock."""
        args = tuple(map(str, argv))
        done = subprocess.run(
            [sys.executable, "-m", "lakecli", *args],
            input=stdin,
            capture_output=True,
            check=False,
            env={**os.environ, **(env or {})},
        )
        stderr = done.stderr.decode("utf-8", "surrogateescape")
        return Result(args, done.returncode, done.stdout, stderr)

    def _new_id(self) -> bytes:
        self._ids += 1
        return hashlib.blake2b(self._ids.to_bytes(16), digest_size=16).digest()


class Golden:
    """Compares runs with a file, or writes it."""

    def __init__(self, places: Mapping[str, str], *, update: bool) -> None:
        self._places = places
        self._update = update

    def __call__(self, name: str, *results: Result) -> None:
        """Compare the results, in their order, with the golden file `name`."""
        file = GOLDEN / f"{name}.txt"
        actual = normalise(render(results), self._places)
        if self._update:
            file.parent.mkdir(exist_ok=True)
            file.write_text(actual, encoding="utf-8")
            return
        if not file.exists():
            pytest.fail(f"no {file}; write it: pytest --update-golden\n\n{actual}")
        assert actual == file.read_text(encoding="utf-8")


def render(results: Sequence[Result]) -> str:
    """Return runs as text."""
    parts = []
    for result in results:
        parts.append(f"$ lakecli {shlex.join(result.argv)}\nexit {result.exit_code}\n")
        for name, text in (("stdout", result.stdout), ("stderr", result.stderr)):
            if text:
                end = "" if text.endswith("\n") else "\n\\ no newline at the end\n"
                visible = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
                parts.append(f"--- {name}\n{visible}{end}")
        parts.append("\n")
    return "".join(parts)


def normalise(text: str, places: Mapping[str, str]) -> str:
    """Replace text that differs between two runs: paths, URLs, times and IDs."""
    for place in sorted(places, key=len, reverse=True):
        text = text.replace(place, places[place])
    for pattern, name in _PATTERNS:
        text = pattern.sub(name, text)
    numbers: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        kind = _ID_NAMES[len(match[0])]
        seen = sum(name.startswith(f"<{kind} ") for name in numbers.values())
        return numbers.setdefault(match[0], f"<{kind} {seen + 1}>")

    return _IDS.sub(number, text)
