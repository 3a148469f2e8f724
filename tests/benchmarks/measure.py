"""Measuring whole processes against each other, and saying what came out.

Both sides of a comparison run in the same minute, in turn (A B A B …), and medians are compared:
machines drift, and other programs run beside a benchmark. What is measured, of one process from
its start until it is reaped:

- seconds: by the wall clock, what somebody who waits for the command sees;
- processor seconds: those of the process and of its children that have ended;
- anonymous memory: the largest ``RssAnon`` of ``/proc/PID/status``, looked at every millisecond
  while the process runs. It is what the process itself needs: pages of files, such as those of
  the memory-mapped local store, are the system's to take away, and do not count;
- resident memory: the last ``VmHWM`` seen, which the kernel keeps itself and which does count
  them.

The looking costs a processor, so memory and time are never measured in the same run. Nothing is
deleted while times are taken: after a deletion file systems are slow for minutes.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from tests.conftest import SCRUBBED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytest_benchmark.fixture import BenchmarkFixture

T = TypeVar("T")

KIB: Final = 1 << 10
MIB: Final = 1 << 20

PYTHON: Final = sys.executable
LAKECLI: Final = str(Path(sysconfig.get_path("scripts"), "lakecli"))
"""The installed program."""

_LOOK_EVERY: Final = 0.001
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """The cost of some work: wall seconds and processor seconds."""

    seconds: float
    cpu: float

    def __add__(self, other: Usage) -> Usage:
        """Return the cost of two works, one after the other."""
        return Usage(self.seconds + other.seconds, self.cpu + other.cpu)

    def each(self, count: int) -> Usage:
        """Return the cost of one of so many rows."""
        return Usage(self.seconds / count, self.cpu / count)


@dataclass(frozen=True, slots=True)
class Memory:
    """The peak memory of a process, in bytes."""

    anonymous: int
    resident: int


def environment(scratch: Path, home: Path) -> dict[str, str]:
    """Return the environment of programs that are measured.

    Args:
        scratch: their home directory.
        home: lakecli's.
    """
    kept = {
        name: text
        for name, text in os.environ.items()
        # Without compiled modules, for one, every start would take three times as long.
        if not name.startswith((*SCRUBBED, "PYTHON")) or name == "PYTHONPATH"
    }
    return kept | {
        "HOME": str(scratch),
        "LAKECLI_HOME": str(home),
        "LAKECLI_USER_NAME": "Ada",
        "LAKECLI_USER_EMAIL": "ada@example.org",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Ada",
        "GIT_AUTHOR_EMAIL": "ada@example.org",
        "GIT_COMMITTER_NAME": "Ada",
        "GIT_COMMITTER_EMAIL": "ada@example.org",
        "TZ": "UTC",
    }


class Machine:
    """Runs programs in an environment of their own.

    Args:
        environ: of every program.
        log: file that receives their output.
    """

    def __init__(self, environ: Mapping[str, str], log: Path) -> None:
        self.environ = dict(environ)
        self._log = log

    def run(self, *argv: str | Path) -> Usage:
        """Run a program to its end.

        Raises:
            AssertionError: it failed.
        """
        start = time.perf_counter()
        pid = self._start(argv)
        _, status, usage = os.wait4(pid, 0)
        seconds = time.perf_counter() - start
        self._check(argv, status)
        return Usage(seconds, usage.ru_utime + usage.ru_stime)

    def memory(self, *argv: str | Path) -> Memory:
        """Run a program to its end, and watch its memory.

        Raises:
            AssertionError: it failed.
        """
        pid = self._start(argv)
        status_file = Path(f"/proc/{pid}/status")
        anonymous = resident = 0
        while True:
            done, status, _ = os.wait4(pid, os.WNOHANG)
            if done:
                break
            for line in status_file.read_text(encoding="utf-8").splitlines():
                if line.startswith("RssAnon:"):
                    anonymous = max(anonymous, int(line.split()[1]))
                elif line.startswith("VmHWM:"):
                    resident = max(resident, int(line.split()[1]))
            time.sleep(_LOOK_EVERY)
        self._check(argv, status)
        assert anonymous, "the process was gone before it could be looked at"
        return Memory(anonymous * KIB, resident * KIB)

    def _start(self, argv: Sequence[str | Path]) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        return os.posix_spawn(
            argv[0],
            [os.fspath(word) for word in argv],
            self.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, self._log, flags, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
        )

    def _check(self, argv: Sequence[str | Path], status: int) -> None:
        code = os.waitstatus_to_exitcode(status)
        said = self._log.read_text(encoding="utf-8", errors="replace")[-2_000:]
        assert code == 0, f"exit code {code} of {' '.join(map(str, argv))}\n{said}"


class Comparison(NamedTuple):
    """The cost of a subject in each round, and of each of its baselines in the same round."""

    subject: list[Usage]
    baselines: Mapping[str, list[Usage]]

    def ratio(self, name: str) -> float:
        """Return the ratio of the subject's median to a baseline's."""
        return seconds(self.subject) / seconds(self.baselines[name])

    def cpu_ratio(self, name: str) -> float:
        """Return the ratio of the subject's median processor time to a baseline's."""
        return processor_seconds(self.subject) / processor_seconds(self.baselines[name])

    def detail(self, name: str) -> str:
        """Return a text that says how the ratio was computed."""
        ours, theirs = self.subject, self.baselines[name]
        return (
            f"{seconds(ours):.4g} s : {seconds(theirs):.4g} s, processor "
            f"{processor_seconds(ours):.4g} s : {processor_seconds(theirs):.4g} s, {name}"
        )


def seconds(usages: Iterable[Usage]) -> float:
    """Return the median of the times."""
    return median(usage.seconds for usage in usages)


def processor_seconds(usages: Iterable[Usage]) -> float:
    """Return the median of the processor times."""
    return median(usage.cpu for usage in usages)


def timed(work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> Usage:
    """Return the cost of work in this process; `clock` tells processor seconds."""
    start, before = time.perf_counter(), clock()
    work()
    return Usage(time.perf_counter() - start, clock() - before)


def family_seconds() -> float:
    """Return the processor seconds of this process and its descendants."""
    known: dict[int, tuple[int, float]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # the process has ended
            continue
        known[int(entry.name)] = int(fields[1]), sum(map(int, fields[11:15])) / _TICKS
    total, waiting = 0.0, [os.getpid()]
    while waiting:
        pid = waiting.pop()
        total += known[pid][1]
        waiting += [child for child, (parent, _) in known.items() if parent == pid]
    return total


def repeat(
    benchmark: BenchmarkFixture,
    action: Callable[..., T],
    *,
    rounds: int,
    warmup_rounds: int = 0,
    set_up: Callable[[], tuple[tuple[object, ...], dict[str, object]]] | None = None,
) -> T:
    """Run an action several times, each with the arguments that `set_up` makes for it.

    Returns:
        What the last round returned.
    """
    result: T = benchmark.pedantic(  # type: ignore[no-untyped-call]
        action, setup=set_up, rounds=rounds, warmup_rounds=warmup_rounds
    )
    return result


def compare(
    benchmark: BenchmarkFixture,
    *,
    rounds: int,
    subject: Callable[[int], Usage],
    baselines: Mapping[str, Callable[[int], Usage]],
    prepare: Callable[[int], object] = lambda _number: None,
) -> Comparison:
    """Run baselines and subject in turn; a round is prepared before any of them runs.

    A first round, number 0, is not counted: it fills caches and compiles modules. Every callback
    gets the number of its round.
    """
    numbers = iter(range(1 + rounds))
    usages = Comparison([], {name: [] for name in baselines})

    def set_up() -> tuple[tuple[object, ...], dict[str, object]]:
        number = next(numbers)
        prepare(number)
        for name, baseline in baselines.items():
            usages.baselines[name].append(baseline(number))
        return (number,), {}

    def run(number: int) -> None:
        usages.subject.append(subject(number))

    repeat(benchmark, run, rounds=rounds, warmup_rounds=1, set_up=set_up)
    return Comparison(
        usages.subject[-rounds:],
        {name: taken[-rounds:] for name, taken in usages.baselines.items()},
    )
