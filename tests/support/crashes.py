"""Commands in a process of their own that kills itself at a named step.

A command is a function of a test module, called as ``command(lake, killer, *arguments)``. Its
process comes from a fork server that has imported the product once: the suite kills hundreds of
processes, and does not start a Python for each.

A step is named as the product names it to ``Runtime.on_step``; `Killer.watch` adds the writing
calls to the store, as ``before put_new`` and ``after put_new``. ``put 2`` is the second time that
step ``put`` is reached; ``put`` is the first.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections import Counter
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest

from lakecli.doctor import conditions
from lakecli.errors import LakeError
from tests.support.lakes import Numbered, Ticking, open_lake, serve, through

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerProcess
    from pathlib import Path

    from lakecli.repository.contract import Repository
    from lakecli.stores.contract import ObjectStore

STORE_CALLS = ("put", "put_new", "put_content", "put_contents", "flush", "spool", "adopt")
SECONDS = 120

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        __name__,
        "lakecli.stores.s3.store",
        "lakecli.gc.run",
        "lakecli.imports.job",
        "lakecli.repository.download_tree",
        "lakecli.repository.sharing.automatic",
        "lakecli.repository.upload",
        "pyarrow.parquet",
        "pytest",
    ]
)


class Outcome(NamedTuple):
    """How a command ended.

    Attributes:
        killed: its process killed itself at the step.
        answer: what the command returned, as text; ``kind: message`` where it raised an error.
        steps: every step that was reached, with its number (``put 2``).
    """

    killed: bool
    answer: str = ""
    steps: tuple[str, ...] = ()


class Killer:
    """Kills its process when a step is reached."""

    def __init__(self, step: str) -> None:
        self._step = step if step.rpartition(" ")[2].isdigit() else f"{step} 1"
        self._counts: Counter[str] = Counter()
        self._lock = Lock()
        self.steps: list[str] = []

    def __call__(self, step: str) -> None:
        """Note that a step is reached."""
        with self._lock:
            self._counts[step] += 1
            self.steps.append(f"{step} {self._counts[step]}")
            if self.steps[-1] == self._step:
                os.kill(os.getpid(), signal.SIGKILL)

    def watch(self, repository: Repository) -> None:
        """Make every writing call to the store two steps, before and after it."""
        serve(repository, watched(through(repository).store, self))


def watched(store: ObjectStore, killer: Killer) -> ObjectStore:
    """Return a store whose writing calls are two steps each, before and after."""
    return cast("ObjectStore", _Watched(store, killer))


class _Watched:
    """A store, or a batch of one, that tells a killer of its writing calls."""

    def __init__(self, inner: Any, killer: Killer) -> None:
        self._inner = inner
        self._killer = killer

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if name == "batch":
            return lambda: _Watched(value(), self._killer)
        if name not in STORE_CALLS:
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            self._killer(f"before {name}")
            result = value(*args, **kwargs)
            self._killer(f"after {name}")
            return result

        return call


class _Task(NamedTuple):
    command: Callable[..., object]
    home: Path
    arguments: tuple[object, ...]
    step: str
    seed: str
    clock: Callable[[], datetime]


class Running(NamedTuple):
    """A command at work."""

    process: ForkServerProcess
    answers: Connection

    def wait(self, *, seconds: float = SECONDS) -> Outcome:
        """Return how it ended.

        Raises:
            AssertionError: it takes too long, or failed in another way than with a `LakeError`.
        """
        with self.answers:
            try:
                answer = self.answers.recv() if self.answers.poll(seconds) else "it takes too long"
            except EOFError:
                answer = Outcome(killed=True)
        if isinstance(answer, str):
            self.process.kill()
        self.process.join()
        assert isinstance(answer, Outcome), answer
        assert self.process.exitcode == (-signal.SIGKILL if answer.killed else 0)
        return answer


def run(
    command: Callable[..., object],
    home: Path,
    *arguments: object,
    step: str = "never",
    seed: str = "",
    clock: Callable[[], datetime] | None = None,
) -> Outcome:
    """Run a command in a process of its own, and wait for its end.

    Args:
        command: a function of a module, called as ``command(lake, killer, *arguments)``.
        home: the directory of the lake that it works on.
        *arguments: what else it is called with; they are pickled.
        step: where it kills its process.
        seed: of the IDs that it makes.
        clock: pickled too; by default it ticks from `tests.support.lakes.START`.
    """
    return start(command, home, *arguments, step=step, seed=seed, clock=clock).wait()


def start(
    command: Callable[..., object],
    home: Path,
    *arguments: object,
    step: str = "never",
    seed: str = "",
    clock: Callable[[], datetime] | None = None,
) -> Running:
    """Start a command as `run` does, without waiting for it."""
    answers, sender = _CONTEXT.Pipe(duplex=False)
    task = _Task(command, home, arguments, step, seed, clock or Ticking())
    process = _CONTEXT.Process(target=_work, args=(sender, dict(os.environ), task))
    process.start()
    sender.close()
    return Running(process, answers)


def _work(sender: Connection, environ: dict[str, str], task: _Task) -> None:
    patch = pytest.MonkeyPatch()  # as `few_races` does for tests
    patch.setattr(conditions, "RACES", 1)
    patch.setattr(conditions, "WRITERS", 2)
    os.environ.clear()
    os.environ.update(environ)
    killer = Killer(task.step)
    new_id = Numbered(task.seed)
    try:
        with open_lake(task.home, clock=task.clock, new_id=new_id, on_step=killer) as lake:
            try:
                answer = task.command(lake, killer, *task.arguments)
            except LakeError as error:
                answer = f"{error.kind}: {error}"
        text = "" if answer is None else str(answer)
        sender.send(Outcome(killed=False, answer=text, steps=tuple(killer.steps)))
    except BaseException:
        sender.send(traceback.format_exc())
        raise
