"""One command paused before something it does for good, while another one runs from end to end.

The outcome has to be one that the two could have had one after the other, in either order; or one
of them may have been turned away with an error that says so, and then nothing of it may be left.
What each serial order comes to is not modelled but run, in the same world.

Two kinds of outcome are neither, and promised all the same:

- A command that changes many paths leaves alone what somebody else staged of them meanwhile. So
  each path, not the whole, is as one of the orders has it.
- What is staged while a merge runs stays staged on top of it. If both changed a path, `commit`
  refuses and names it.
"""

from __future__ import annotations

import functools
import json
import re
import threading
import time
from contextlib import contextmanager
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from lakecli.cli import build
from lakecli.cli.exit_codes import ExitCode
from lakecli.kv.env import LocalStore
from lakecli.objectstore.memory.store import MemoryStore
from lakecli.repository.core.gc_guard import GcGuard
from lakecli.repository.sharing import publish
from tests.meetings.arguments import REPOSITORY, command_lines, fill
from tests.meetings.observe import observe
from tests.meetings.situations import SITUATIONS
from tests.meetings.world import MACHINES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

    from tests.meetings.world import Machines, Reply, Saved

TURNED_AWAY: Final = frozenset(
    (
        ExitCode.CONFLICT,
        ExitCode.LOST_RACE,
        ExitCode.NOT_FOUND,
        ExitCode.REFUSED,
        ExitCode.NOTHING_TO_DO,
        ExitCode.UNREACHABLE,  # it waited for a sweep, which cannot go on before it has returned
    )
)
"""What a command may answer that met another one, if nothing of it is left."""

ALONE: Final = frozenset(("doctor",))
"""Commands that write only what they take away again, under names of their own."""

LOCAL: Final = frozenset(("config", "repo", "gc", "push", "fetch", "pull", "clone"))
"""Commands that do not begin with sharing by itself."""

_DURABLE: Final = ("put", "delete", "copy")
_IDS: Final = re.compile(r"[0-9a-f]{64}|[0-9a-f]{32}|\b[0-9a-f]{12}\b|\b[0-9a-f]{8}\b")


class Meeting(NamedTuple):
    """One cell of the matrix.

    Attributes:
        situation: where both begin, a key of `SITUATIONS`.
        sync: whether sharing is automatic.
        first: the command line that is paused, on Ada's machine.
        second: the one that runs meanwhile.
        machine: where the second one runs.
    """

    situation: str
    sync: bool
    first: tuple[str, ...]
    second: tuple[str, ...]
    machine: str

    def __str__(self) -> str:
        mode = "auto" if self.sync else "manual"
        first, second = " ".join(self.first), " ".join(self.second)
        return f"{self.situation}, {mode}: {first} | {self.machine}: {second}"


class Outcome(NamedTuple):
    """What two commands came to."""

    first: Reply | None
    second: Reply | None
    state: str


class Solo(NamedTuple):
    """What a command does when it is alone.

    Attributes:
        reply: its answer.
        steps: the names of what it announces and does for good, in order.
        writes: whether anything was different afterwards.
        shares: whether anything was written to the bucket.
    """

    reply: Reply
    steps: tuple[str, ...]
    writes: bool
    shares: bool


class Matrix:
    """Runs meetings in one world; everything that a serial order comes to is run once.

    Args:
        world: to run in.
        hook: see `hooked`.
    """

    def __init__(self, world: Machines, hook: Hook) -> None:
        self.world = world
        self._hook = hook
        self._saved: dict[str, Saved] = {}
        self._values: dict[tuple[str, str], dict[str, str]] = {}
        self._serial: dict[tuple[object, ...], Outcome] = {}
        self._solo: dict[tuple[object, ...], Solo] = {}
        self._sound: set[str] = set()

    # -- commands ----------------------------------------------------------------------------

    def lines(self) -> Iterator[tuple[str, ...]]:
        """Yield a command line for each way that each command is called."""
        for lines in command_lines().values():
            yield from map(tuple, lines)

    def begin(self, situation: str) -> None:
        """Put the world to where a situation begins."""
        if situation not in self._saved:
            self._clear()
            SITUATIONS[situation](self.world)
            for machine in MACHINES:
                self._values[situation, machine] = self._places(machine)
            self._saved[situation] = self.world.save()
        self.world.restore(self._saved[situation])

    def solo(self, situation: str, line: tuple[str, ...], machine: str, *, sync: bool) -> Solo:
        """Run a command alone, and write down what it does."""
        key = (situation, line, machine, sync)
        if key not in self._solo:
            self.begin(situation)
            before, writes = self._raw(), self.world.bucket.writes
            steps: list[str] = []
            with self._hook.calling(steps.append):
                reply = self._run(situation, line, machine, sync=sync, on_step=steps.append)
            self._solo[key] = Solo(
                reply, tuple(steps), self._raw() != before, self.world.bucket.writes != writes
            )
        return self._solo[key]

    def writers(self, situation: str, *, sync: bool) -> list[tuple[str, ...]]:
        """Return the command lines that change anything in a situation."""
        return [
            line
            for line in self.lines()
            if line[0] not in ALONE and self.solo(situation, line, "ada", sync=sync).writes
        ]

    def pauses(self, situation: str, line: tuple[str, ...], *, sync: bool) -> list[int]:
        """Return where to pause a command: at all it announces, and before what is not announced.

        What is done for good right after a step was announced is the same place.
        """
        return self._at(self.solo(situation, line, "ada", sync=sync).steps)

    @staticmethod
    def _at(steps: tuple[str, ...]) -> list[int]:
        return [
            number
            for number, step in enumerate(steps)
            if not (step.startswith("<") and number and not steps[number - 1].startswith("<"))
        ]

    def common(self, situation: str, *, sync: bool) -> int:
        """Return how many pauses at the beginning all writing commands have in common."""
        writers = [
            self.solo(situation, line, "ada", sync=sync).steps
            for line in self.writers(situation, sync=sync)
            if line[0] not in LOCAL
        ]
        shared = sum(
            1 for _ in takewhile(lambda steps: len(set(steps)) == 1, zip(*writers, strict=False))
        )
        return sum(number < shared for number in self._at(writers[0]))

    # -- meetings ----------------------------------------------------------------------------

    def problem(self, meeting: Meeting, step: int) -> str | None:
        """Let two commands meet at a step of the first; return what is wrong with the outcome."""
        self.begin(meeting.situation)
        met = self._meet(meeting, step)
        allowed = list(self._allowed(meeting, met))
        if not (
            any(_agree(met, each) for each in allowed)
            or (_is_recursive(meeting) and self._agree_path_by_path(meeting, met, allowed))
            or (
                any(_agree(met, each, ignores_contents=True) for each in allowed)
                and self._is_conflict(meeting, step)
            )
        ):
            return _explain(meeting, met, allowed)
        if met.state not in self._sound:
            for machine in MACHINES:
                reply = self.world(machine, ["fsck", REPOSITORY])
                if reply.exit_code not in (ExitCode.OK, ExitCode.NOT_FOUND):
                    return f"{meeting}: fsck on {machine}: {reply}"
            self._sound.add(met.state)
        return None

    def _meet(self, meeting: Meeting, step: int) -> Outcome:
        second: list[Reply] = []
        count = 0

        def pause(_name: str) -> None:
            nonlocal count
            count += 1
            if count == step + 1:
                with self._hook.calling(None):
                    second.append(
                        self._run(
                            meeting.situation, meeting.second, meeting.machine, sync=meeting.sync
                        )
                    )

        with self._hook.calling(pause):
            first = self._run(
                meeting.situation, meeting.first, "ada", sync=meeting.sync, on_step=pause
            )
        (answer,) = second
        return Outcome(first, answer, self._settled(sync=meeting.sync))

    def _agree_path_by_path(self, meeting: Meeting, met: Outcome, allowed: list[Outcome]) -> bool:
        """Whether refs are as in one order, and each path as an order or one alone has it.

        A command leaves alone what the other brought after it had looked which paths there are.
        """
        mine = _without_contents(met)
        if not any(_same_codes(met, each) and mine == _without_contents(each) for each in allowed):
            return False
        alone = [
            self._in_order(meeting, ((machine, line),))
            for machine, line in (("ada", meeting.first), (meeting.machine, meeting.second))
        ]
        found = [_contents(each) for each in (*allowed, *alone)]
        contents = _contents(met)
        places = set(contents).union(*found)
        return all(contents.get(each) in [tree.get(each) for tree in found] for each in places)

    def _is_conflict(self, meeting: Meeting, step: int) -> bool:
        """Whether committing what is staged after a meeting is refused as a conflict."""
        self.begin(meeting.situation)
        self._meet(meeting, step)
        line = ["commit", f"{REPOSITORY}/main", "-m", "what was staged meanwhile"]
        codes = [
            self.world(machine, line, sync=meeting.sync).exit_code
            for machine in dict.fromkeys(("ada", meeting.machine))
        ]
        return ExitCode.CONFLICT in codes

    def _allowed(self, meeting: Meeting, met: Outcome) -> Iterator[Outcome]:
        assert met.first is not None
        assert met.second is not None
        one, other = ("ada", meeting.first), (meeting.machine, meeting.second)
        yield self._in_order(meeting, (one, other))
        swapped = self._in_order(meeting, (other, one))
        yield Outcome(swapped.second, swapped.first, swapped.state)
        if _same_command(meeting.first) == _same_command(meeting.second):
            # Both asked for the same: one of them did it, and both may say that it is done.
            for each in (one, other):
                alone = self._in_order(meeting, (each,))
                yield Outcome(alone.first, alone.first, alone.state)
        if met.first.exit_code in TURNED_AWAY:
            alone = self._in_order(meeting, (other,))
            yield Outcome(met.first, alone.first, alone.state)
        if met.second.exit_code in TURNED_AWAY:
            alone = self._in_order(meeting, (one,))
            yield Outcome(alone.first, met.second, alone.state)

    def _in_order(
        self, meeting: Meeting, commands: tuple[tuple[str, tuple[str, ...]], ...]
    ) -> Outcome:
        key = (meeting.situation, meeting.sync, commands)
        if key not in self._serial:
            self.begin(meeting.situation)
            replies = [
                self._run(meeting.situation, line, machine, sync=meeting.sync)
                for machine, line in commands
            ]
            second = replies[1] if len(replies) > 1 else None
            self._serial[key] = Outcome(replies[0], second, self._settled(sync=meeting.sync))
        return self._serial[key]

    def _settled(self, *, sync: bool) -> str:
        """Let both machines learn of each other, and return what is to be seen."""
        line = ["status", REPOSITORY] if sync else ["fetch", REPOSITORY]
        for machine in ("ada", "bob", "ada") if sync else MACHINES:
            self.world(machine, line, sync=sync)
        return json.dumps(observe(self.world), sort_keys=True)

    # -- the world ---------------------------------------------------------------------------

    def _run(
        self,
        situation: str,
        line: tuple[str, ...],
        machine: str,
        *,
        sync: bool,
        on_step: Callable[[str], None] = lambda _name: None,
    ) -> Reply:
        values = {**self._values[situation, machine], "files": str(self.world.files(machine))}
        return self.world(machine, fill(list(line), values), sync=sync, on_step=on_step)

    def _places(self, machine: str) -> dict[str, str]:
        """Return what command lines call by name and only this world knows."""
        log = self.world.ok(machine, "op", "log", REPOSITORY, "--json").splitlines()
        entry = json.loads(self.world.ok(machine, "fs", "stat", f"{REPOSITORY}/main/a", "--json"))
        return {
            "operation": json.loads(log[1])["id"] if len(log) > 1 else "0" * 32,
            "object": entry["physical_address"],
            "checksum": entry["checksum"],
        }

    def _clear(self) -> None:
        import shutil

        shutil.rmtree(self.world.live, ignore_errors=True)
        self.world.live.mkdir(parents=True)
        self.world.reset()

    def _raw(self) -> object:
        homes = {}
        for machine in MACHINES:
            with LocalStore.open(self.world.home(machine) / "store") as store, store.read() as txn:
                homes[machine] = (
                    dict(txn.everything()) if hasattr(txn, "everything") else _dump(txn)
                )
        files = {
            path: path.read_bytes()
            for path in self.world.live.rglob("*")
            if path.is_file() and "store" not in path.parts and "cache" not in path.parts
        }
        return homes, files, self.world.bucket.writes


def _dump(txn: Any) -> dict[bytes, bytes]:
    from lakecli.kv.env import Table

    return {
        table + key: value
        for table in Table
        if table is not Table.FILE_HASHES
        for key, value in txn.scan(table)
    }


class Hook:
    """Calls back before a write transaction of the local store and before a write to the bucket."""

    def __init__(self) -> None:
        self._call: Callable[[str], None] | None = None

    @contextmanager
    def calling(self, call: Callable[[str], None] | None) -> Iterator[None]:
        """Call this instead of what was called before, within the block."""
        before, self._call = self._call, call
        try:
            yield
        finally:
            self._call = before

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Watch all local stores and all buckets in memory."""
        for place, names in ((LocalStore, ("write",)), (MemoryStore, _DURABLE)):
            for name in names:
                monkeypatch.setattr(place, name, self._watched(getattr(place, name), name))

    def build_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Build each command once: a process that runs one need not, but here are thousands."""
        monkeypatch.setattr(build, "build", functools.cache(build.build))

    def skip_waiting(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let no command wait for one that cannot go on meanwhile.

        Threads of other tests (Spark's gateway has one that polls) go on sleeping: without its
        pauses such a thread would take most of the processor.
        """
        sleep = time.sleep

        def no_sleep(seconds: float) -> None:
            if threading.current_thread() is not threading.main_thread():
                sleep(seconds)

        monkeypatch.setattr(time, "sleep", no_sleep)
        monkeypatch.setattr(publish, "sleep", no_sleep)
        monkeypatch.setitem(cast("Any", GcGuard.__init__).__kwdefaults__, "sleep", no_sleep)

    def _watched(self, method: Callable[..., Any], name: str) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            if self._call is not None:
                self._call(f"<{name}>")
            return method(*args, **kwargs)

        return watched


def _agree(met: Outcome, allowed: Outcome, *, ignores_contents: bool = False) -> bool:
    if not _same_codes(met, allowed):
        return False
    if met.state == allowed.state:
        return True
    return ignores_contents and _without_contents(met) == _without_contents(allowed)


def _same_codes(met: Outcome, allowed: Outcome) -> bool:
    return all(
        mine is not None and theirs is not None and mine.exit_code == theirs.exit_code
        for mine, theirs in ((met.first, allowed.first), (met.second, allowed.second))
    )


def _without_contents(outcome: Outcome) -> Any:
    state = json.loads(outcome.state)
    for machine in MACHINES:
        for repository in state[machine]["repositories"].values():
            del repository["contents"]
    return state


def _contents(outcome: Outcome) -> dict[tuple[str, ...], str]:
    """Return what each path of each branch holds."""
    state = json.loads(outcome.state)
    return {
        (machine, name, branch, path): checksum
        for machine in MACHINES
        for name, repository in state[machine]["repositories"].items()
        for branch, tree in repository["contents"].items()
        for path, checksum in tree.items()
    }


def _same_command(line: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command line by the shorter of its names: `redo` is `op redo`."""
    return line[1:] if line[0] == "op" else line


def _is_recursive(meeting: Meeting) -> bool:
    return "-r" in (*meeting.first, *meeting.second)


def _explain(meeting: Meeting, met: Outcome, allowed: list[Outcome]) -> str:
    lines = [str(meeting), f"  {met.first}", f"  {met.second}"]
    for each in allowed:
        lines.append(f"  instead of {each.first} {each.second}")
        lines += [
            f"    {line}"
            for line in _differences("", json.loads(met.state), json.loads(each.state))
        ]
    return "\n".join(lines)


def _differences(where: str, met: Any, allowed: Any) -> Iterator[str]:
    if isinstance(met, dict) and isinstance(allowed, dict):
        for key in sorted(met.keys() | allowed.keys()):
            yield from _differences(f"{where}/{key}", met.get(key), allowed.get(key))
    elif met != allowed:
        yield f"{where}: {met!r} is not {allowed!r}"
