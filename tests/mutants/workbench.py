"""A copy of the project, and the processes that run tests in it, with and without mutants."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Self

from tests.mutants.forking import FAILED_TO_RUN
from tests.mutants.hot import replacements
from tests.mutants.suites import PROJECT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.mutants.suites import Suite

OPTIONS = ("-q", "-x", "-s", "--no-header", "--tb=line", "--assert=plain", "-p", "no:cacheprovider")
SEED = "--hypothesis-seed=0"
SOUND_SECONDS = 1800
"""How long all tests of a suite may take without a mutant."""

LEAST_SECONDS = 30.0
SLOWER = 5
"""A test may take this many times as long as without a mutant, and `LEAST_SECONDS` in any case.
After that the mutant is killed: most of those that change a loop never end."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of one run of tests.

    Attributes:
        passed: whether all tests passed, so that the mutant survived.
        seconds: how long the run took.
        output: of pytest.
    """

    passed: bool
    seconds: float
    output: str


class Workbench:
    """A copy of the project's files, tracked and untracked, and a process that runs tests in it.

    Args:
        directory: for the copy and for temporary files.
    """

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
        self.output = directory / "output.txt"
        self.result = directory / "result.json"
        self.temporary = directory / "temporary"
        self._touched = 0
        command = [sys.executable, "-m", "compileall", "-q", "lakecli", "tests"]
        subprocess.run(command, cwd=self.root, check=True)
        # Everything is compiled now; the bytecode of a mutant must not be written.
        self._environment = dict(os.environ, PYTHONPATH=str(self.root), PYTHONDONTWRITEBYTECODE="1")
        self._bare = self.start("-m", "tests.mutants.forking")

    def start(self, *arguments: str) -> Process:
        """Start Python with these arguments in the copy."""
        return Process(arguments, self.root, self._environment)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bare.close()

    def run(self, tests: Sequence[str], *, seconds: float, limit: float = 0) -> Trial:
        """Import lakecli and the tests anew, and run tests up to the first failure.

        Args:
            tests: files below ``tests``, or names of single tests in them.
            seconds: how long all of them may take; after that, they have failed.
            limit: how many seconds each of them may take; 0 for the limit of every run of pytest.
        """
        shutil.rmtree(self.temporary, ignore_errors=True)
        arguments = [*OPTIONS, SEED, f"--basetemp={self.temporary}"]
        if limit:
            arguments.append(f"--timeout={limit}")
        begun = time.monotonic()
        code = self._bare.ask(
            arguments=[*arguments, *(f"tests/{test}" for test in tests)],
            seconds=seconds,
            output=str(self.output),
        )
        return self.trial(code, begun)

    def trial(self, code: int | None, begun: float) -> Trial:
        """Return the result of a run that began at `begun` and ended with the exit code `code`."""
        output = self.output.read_text(errors="replace")
        return Trial(code == 0, time.monotonic() - begun, output)

    def mutate(
        self, module: str, code: str, tests: Sequence[str], *, seconds: float, limit: float = 0
    ) -> Trial:
        """Run tests as `run` does, with the module's text replaced by `code`."""
        with self.mutated(module, code):
            return self.run(tests, seconds=seconds, limit=limit)

    def mutated(self, module: str, code: str) -> Mutated:
        """Return a context manager that replaces a module's text by `code`."""
        self._touched += 1
        return Mutated(self.root / "lakecli" / module, code, self._touched)


class Mutated:
    """A context manager that replaces the text of a module, and restores it.

    Args:
        path: of the module.
        code: the other text.
        touched: seconds to add to the file's modification time, different for each replacement:
            Python ignores bytecode that was compiled from a file with another time.
    """

    def __init__(self, path: Path, code: str, touched: int) -> None:
        self._path, self._code, self._touched = path, code, touched

    def __enter__(self) -> None:
        self._original, self._status = self._path.read_bytes(), self._path.stat()
        self._path.write_text(self._code)
        os.utime(self._path, (self._status.st_atime, self._status.st_mtime + self._touched))

    def __exit__(self, *_: object) -> None:
        self._path.write_bytes(self._original)
        os.utime(self._path, ns=(self._status.st_atime_ns, self._status.st_mtime_ns))


class Process:
    """A Python process that reads requests and writes answers, each a line of JSON.

    Args:
        arguments: of the interpreter.
        root: the working directory.
        environment: the environment variables.
    """

    def __init__(self, arguments: Sequence[str], root: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=root,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests: IO[str] = self._process.stdin
        self._replies: IO[str] = self._process.stdout

    def ask(self, **request: object) -> Any:
        """Send a request with these fields, and return the answer."""
        self._requests.write(json.dumps(request) + "\n")
        self._requests.flush()
        return self.answer()

    def answer(self) -> Any:
        """Wait for the next answer, and return it."""
        return json.loads(self._replies.readline())

    def close(self) -> None:
        self._requests.close()
        self._process.wait()
        self._replies.close()


class Runner:
    """Run the tests of a suite against mutants.

    First, all tests run once without a mutant, to record the lines of the suite's modules that
    each one runs, its duration, and whether it starts a process. For a mutant inside a function,
    only the tests that run the changed statement run, and those that start processes, because lines
    are not recorded there. For a mutant outside of functions, all run: tests and other modules may
    use a constant without running a line of its module.

    The order is by the chance to detect the mutant soon: tests that run the changed line come
    first, then those that detected other mutants of the module, then short ones.

    Args:
        bench: the copy of the project.
        suite: the suite.
        least: how many seconds every test may take with a mutant.

    Attributes:
        tests: the names of the tests, as pytest has them.
    """

    def __init__(self, bench: Workbench, suite: Suite, *, least: float = LEAST_SECONDS) -> None:
        self._bench, self._suite, self._least = bench, suite, least
        arguments = [*OPTIONS, SEED, f"--basetemp={bench.temporary}"]
        files = [f"tests/{test}" for test in suite.tests]
        serving = ("-m", "tests.mutants.serving", str(bench.output))
        self._process = bench.start(*serving, *arguments, *files)
        found = self._process.answer()
        assert found is not None, bench.output.read_text()
        self.tests: list[str] = found
        self._seconds: dict[str, float] = {}
        self._lines: dict[str, dict[str, set[int]]] = {}
        self._starting: set[str] = set()
        self._kills: Counter[tuple[str, str]] = Counter()
        self._trace()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.close()

    def _trace(self) -> None:
        shutil.rmtree(self._bench.temporary, ignore_errors=True)
        modules = {str(self._path(module)): module for module in self._suite.modules}
        code, used = self._process.ask(
            tests=self.tests,
            traced=list(modules),
            seconds=SOUND_SECONDS,
            result=str(self._bench.result),
        )
        assert code == 0, f"fails without a mutant:\n{self._bench.output.read_text()}"
        for test, (seconds, lines, starts_process) in used.items():
            self._seconds[test] = seconds
            if starts_process:
                self._starting.add(test)
            of_test = self._lines[test] = {}
            for path, line in lines:
                of_test.setdefault(modules[path], set()).add(line)

    def is_used(self, module: str) -> bool:
        """Return whether a test of the suite runs a line of a module."""
        return any(module in of_test for of_test in self._lines.values())

    def try_mutant(self, module: str, number: int, code: str) -> Trial | None:
        """Run the tests that may detect a mutant, up to the first that does.

        Args:
            module: its path below ``lakecli``.
            number: the number of the changed line.
            code: the text of the mutant.

        Returns:
            The result; ``None`` if the mutant is not valid Python or has the same bytecode.
        """
        path = self._path(module)
        before = path.read_text()
        try:
            codes = replacements(str(path), before, code)
        except SyntaxError:
            return None
        tests = self._selected(module, number, is_inside=codes is not None)
        seconds = 20 + 3 * sum(self._seconds[test] for test in tests)
        if codes == {}:
            return None
        if not tests:
            return Trial(passed=True, seconds=0, output="no test runs the statement")
        if codes is None:
            names = [test.removeprefix("tests/") for test in tests]
            limit = max(self._limit(test) for test in tests)
            return self._bench.mutate(module, code, names, seconds=seconds + 60, limit=limit)
        shutil.rmtree(self._bench.temporary, ignore_errors=True)
        begun = time.monotonic()
        with self._bench.mutated(module, code):
            status, killer = self._process.ask(
                tests=tests,
                limits=[self._limit(test) for test in tests],
                path=str(path),
                before=before,
                after=code,
                seconds=seconds,
                result=str(self._bench.result),
            )
        assert status != FAILED_TO_RUN, self._bench.output.read_text()
        if killer is not None:
            self._kills[module, killer] += 1
        return self._bench.trial(status, begun)

    def _limit(self, test: str) -> float:
        return max(self._least, SLOWER * self._seconds[test])

    def _selected(self, module: str, number: int, *, is_inside: bool) -> list[str]:
        """Return the tests that may detect a mutant, in the order to run them."""
        lines = statement_at(self._path(module).read_text(), number) if is_inside else None
        selected = []
        for test in self.tests:
            used = self._lines[test].get(module, set())
            is_in_reach = lines is None or not used.isdisjoint(lines)
            if is_in_reach or test in self._starting:
                hits = (number in used) + bool(used)
                cost = self._seconds[test] / (1 + 5 * self._kills[module, test])
                selected.append((-hits, cost, test))
        return [test for _, _, test in sorted(selected)]

    def _path(self, module: str) -> Path:
        return self._bench.root / "lakecli" / module


def statement_at(text: str, number: int) -> range | None:
    """Return the lines of the statement at a line; of one with a body, only its head.

    Returns:
        ``None`` if it is outside all functions.
    """
    node: ast.AST = ast.parse(text)
    is_inside = False
    found = range(0)
    while inner := next((each for each in _parts(node) if number in _lines(each)), None):
        body = getattr(inner, "body", None)
        found = _lines(inner)
        if isinstance(body, list) and body:
            found = range(found.start, max(_lines(body[0]).start, found.start + 1))
        if number in found:
            break
        is_inside = is_inside or isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)
        node = inner
    return found if is_inside else None


def _parts(node: ast.AST) -> Iterator[ast.stmt | ast.excepthandler]:
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.stmt | ast.excepthandler):
            yield each


def _lines(node: ast.stmt | ast.excepthandler) -> range:
    assert node.end_lineno is not None
    decorators = getattr(node, "decorator_list", ())
    return range(min([node.lineno, *(each.lineno for each in decorators)]), node.end_lineno + 1)
