"""Longer meetings than the matrix has time for: samples of them, as long as there is time.

- Three commands: the first is paused, the second is paused while the third runs to its end; then
  the second goes on, then the first.
- A clock that jumps: while a command is paused, the clock of its machine is set forward or back.
- A bucket that goes back in time: while a command is paused, the bucket is restored from a backup.

Three commands must leave what one of their serial orders leaves, or each ref and each path as some
order of some of them leaves it: commands over many paths leave alone what others change meanwhile,
and merges use the refs that they have read. The commit that a run makes on main depends on where
its branch began, so after a run only the paths of main are compared.
"""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import permutations
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakecli.cli.exit_codes import ExitCode
from tests.meetings.arguments import REPOSITORY
from tests.meetings.oracle import MAIN, REFUSED
from tests.meetings.outcomes import contents_of, refs
from tests.meetings.situations import SITUATIONS
from tests.meetings.world import MACHINES, NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

    from tests.meetings.hook import Hook
    from tests.meetings.matrix import Matrix
    from tests.meetings.world import Reply

JUMPS: Final = tuple(
    timedelta(days=days, hours=hours)
    for days, hours in ((-20_000, 0), (-40, 0), (0, -2), (0, 2), (40, 0), (20_000, 0))
)
DEFECTS: Final = frozenset((ExitCode.UNEXPECTED, ExitCode.USAGE))
"""What no command may answer, whatever happened."""

Line = tuple[str, ...]


class Command(NamedTuple):
    """A command line and whose it is."""

    machine: str
    line: Line

    def __str__(self) -> str:
        return f"{self.machine}: {' '.join(self.line)}"


class Three(NamedTuple):
    """Three commands that meet.

    Attributes:
        situation: where they begin, a key of `SITUATIONS`.
        sync: whether sharing is automatic.
        commands: the one that is paused, the one that is paused meanwhile, and the last.
        pauses: the steps before which the first two are paused.
    """

    situation: str
    sync: bool
    commands: tuple[Command, Command, Command]
    pauses: tuple[int, int]

    def __str__(self) -> str:
        mode = "auto" if self.sync else "manual"
        lines = "\n  ".join(map(str, self.commands))
        return f"{self.situation}, {mode}, pauses {self.pauses}:\n  {lines}"


class Longer:
    """Samples longer meetings.

    Args:
        matrix: runs commands, and knows what each does alone.
        hook: of the matrix.
        random: chooses.
    """

    def __init__(self, matrix: Matrix, hook: Hook, random: Random) -> None:
        self._matrix = matrix
        self._hook = hook
        self._random = random
        self._world = matrix.world
        self._backups: dict[str, list[dict[str, Any]]] = {}

    # -- three commands ----------------------------------------------------------------------

    def three_commands(self) -> str | None:
        """Let three commands meet; return what is wrong with the outcome."""
        situation, sync = self._situation()
        writers = self._matrix.writers(situation, sync=sync)
        lines = [self._random.choice(writers) for _ in range(3)]
        machines = ["ada", *(self._random.choice(MACHINES) for _ in range(2))]
        one, two, three = map(Command, machines, lines)
        return self.meet_three(situation, (one, two, three), sync=sync)

    def meet_three(
        self, situation: str, commands: tuple[Command, Command, Command], *, sync: bool
    ) -> str | None:
        """Let three commands meet at random pauses; return what is wrong with the outcome."""
        one, two, _ = commands
        pauses = (self._pause(situation, one, sync=sync), self._pause(situation, two, sync=sync))
        meeting = Three(situation, sync, commands, pauses)
        replies, state = self._meet(meeting)
        if problem := self._unwanted(replies):
            return f"{meeting}\n{problem}"
        if damage := self._matrix.damage():
            return f"{meeting}\n{damage}"
        return self._compare(meeting, replies, state)

    def _meet(self, meeting: Three) -> tuple[list[Reply], str]:
        self._matrix.begin(meeting.situation)
        replies: dict[int, Reply] = {}

        def run(number: int) -> None:
            steps = 0

            def pause(_name: str) -> None:
                nonlocal steps
                steps += 1
                if steps == meeting.pauses[number] + 1:
                    run(number + 1)

            machine, line = meeting.commands[number]
            call = pause if number < len(meeting.pauses) else None
            with self._hook.calling(call):
                replies[number] = self._matrix.run(
                    meeting.situation, line, machine, sync=meeting.sync, on_step=call
                )
            if number + 1 < len(meeting.commands) and number + 1 not in replies:
                run(number + 1)  # it has ended before it could be paused

        run(0)
        return [replies[each] for each in range(3)], self._matrix.settle(sync=meeting.sync)

    def _compare(self, meeting: Three, replies: list[Reply], state: str) -> str | None:
        """Compare an outcome with those of serial orders.

        The whole must be as one order of those that were not refused leaves it. Or each ref and
        each path is as an order of some of them leaves it.
        """
        done = [
            each
            for each, reply in zip(meeting.commands, replies, strict=True)
            if reply.exit_code not in REFUSED
        ]
        values = []
        for several in _orders(meeting.commands, done):
            order = self._matrix.in_order(
                meeting.situation, several, sync=meeting.sync
            ).outcome.state
            if order == state:
                return None
            values.append(_values(order))
        present = _values(state)
        has_run = any(each.line[0] == "run" for each in meeting.commands)
        wrong = [
            f"  {'/'.join(place)}: {present.get(place)!r} is in no serial order"
            for place in sorted(set(present).union(*values))
            if present.get(place) not in [tree.get(place) for tree in values]
            if not (has_run and "/".join(place).endswith("/demo/branches/main"))
            if not (has_run and place == ("bucket", MAIN))
        ]
        if not wrong:
            return None
        return "\n".join([str(meeting), *map(str, replies), *wrong])

    # -- clocks and backups ------------------------------------------------------------------

    def clock_jump(self) -> str | None:
        """Set a clock wrong while a command is paused; return what is wrong with the outcome."""
        situation, sync = self._situation()
        line = self._random.choice(self._matrix.writers(situation, sync=sync))
        command, by = Command("ada", line), self._random.choice(JUMPS)
        pause = self._pause(situation, command, sync=sync)
        told = f"{situation}, {'auto' if sync else 'manual'}: {command}, {by} at pause {pause}"
        solo = self._matrix.solo(situation, line, "ada", sync=sync)
        self._world.restore(solo.after)
        after = _shape(self._matrix.settle(sync=sync))
        self._matrix.begin(situation)
        before = _shape(self._matrix.settle(sync=sync))

        def jump() -> None:
            self._world.ahead["ada"] = by

        try:
            reply = self._interrupted(situation, command, pause, jump, sync=sync)
        finally:
            self._world.ahead.clear()
        found = _shape(self._matrix.settle(sync=sync))
        if problem := self._unwanted([reply]) or self._matrix.damage():
            return f"{told}\n{problem}"
        if found == after and reply.exit_code == solo.reply.exit_code:
            return self._goes_on(told)
        if found == before and reply.exit_code in REFUSED:
            return self._goes_on(told)
        return f"{told}\n{reply}\n  {found}\n  is neither {before}\n  nor {after}"

    def rollback(self) -> str | None:
        """Restore the bucket while a command is paused; return what is wrong then."""
        situation, sync = self._situation()
        line = self._random.choice(self._matrix.writers(situation, sync=sync))
        command = Command("ada", line)
        pause = self._pause(situation, command, sync=sync)
        number = self._random.randrange(len(self._backups_of(situation)))
        backup = self._backups_of(situation)[number]
        mode = "auto" if sync else "manual"
        told = f"{situation}, {mode}: {command}, backup {number} at pause {pause}"

        def restore() -> None:
            self._world.bucket.objects.clear()
            self._world.bucket.objects.update(backup)

        solo = self._matrix.solo(situation, line, "ada", sync=sync)
        reply = self._interrupted(situation, command, pause, restore, sync=sync)
        if problem := self._unwanted([reply]):
            return f"{told}\n{problem}"
        for each in ("status", "push", "fsck", "undo"):
            for machine in MACHINES:
                options = ["--all"] if each == "push" else []
                later = self._world(machine, [each, REPOSITORY, *options])
                if problem := self._unwanted([later]):
                    return f"{told}\n{reply}\n{machine}: {each}: {problem}"
        if solo.shares:
            return None  # what it had sent before is gone, and no command can know that
        clone = self._world("new", ["clone", NAMESPACE, REPOSITORY])
        check = self._world("new", ["fsck", REPOSITORY, "--data"])
        if clone.exit_code or check.exit_code:
            return f"{told}\n{reply}\na new clone: {clone}\n{check}"
        return None

    def _interrupted(
        self, situation: str, command: Command, pause: int, act: Any, *, sync: bool
    ) -> Reply:
        self._matrix.begin(situation)
        steps = 0

        def on_step(_name: str) -> None:
            nonlocal steps
            steps += 1
            if steps == pause + 1:
                act()

        with self._hook.calling(on_step):
            machine, line = command
            return self._matrix.run(situation, line, machine, sync=sync, on_step=on_step)

    def _goes_on(self, told: str) -> str | None:
        """Return what is wrong with the commands that come after, if anything is."""
        for each in (["status", REPOSITORY], ["op", "log", REPOSITORY], ["undo", REPOSITORY]):
            if problem := self._unwanted([self._world("ada", each)]):
                return f"{told}\nthen {' '.join(each)}: {problem}"
        return None

    # -- choices -----------------------------------------------------------------------------

    def _situation(self) -> tuple[str, bool]:
        return self._random.choice(list(SITUATIONS)), self._random.choice((False, True))

    def _pause(self, situation: str, command: Command, *, sync: bool) -> int:
        solo = self._matrix.solo(situation, command.line, command.machine, sync=sync)
        return self._random.randrange(len(solo.steps) or 1)

    def _backups_of(self, situation: str) -> list[dict[str, Any]]:
        """Return what the bucket held after each push of the history of a situation."""
        if situation not in self._backups:
            self._world.reset()
            kept = self._backups[situation] = []
            ok = self._world.ok

            def keep(machine: str, *argv: str, sync: bool = False) -> str:
                output = ok(machine, *argv, sync=sync)
                if argv[0] == "push":
                    kept.append(dict(self._world.bucket.objects))
                return output

            self._world.ok = keep  # type: ignore[method-assign]
            try:
                SITUATIONS[situation](self._world)
            finally:
                self._world.ok = ok  # type: ignore[method-assign]
        return self._backups[situation]

    @staticmethod
    def _unwanted(replies: Iterable[Reply]) -> str:
        return "\n".join(str(each) for each in replies if each.exit_code in DEFECTS)


def _orders(commands: tuple[Command, ...], done: list[Command]) -> list[tuple[Command, ...]]:
    """Return the orders of all commands, and of any of those that were not refused."""
    found = [*permutations(commands)]
    for count in range(len(done), 0, -1):
        found += permutations(done, count)
    return list(dict.fromkeys(found))


def _values(state: str) -> dict[tuple[str, ...], str]:
    """Return where each ref stands, and the checksum of each path."""
    return {**refs(state), **contents_of(state)}


def _shape(state: str) -> Any:
    """Return a state without commit IDs, which depend on the time."""
    seen = json.loads(state)
    for machine in MACHINES:
        for repository in seen[machine]["repositories"].values():
            for kind in ("branches", "tags"):
                repository[kind] = sorted(repository[kind])
    refs_there = seen["bucket"]["refs"]
    seen["bucket"]["refs"] = {name: commit is not None for name, commit in refs_there.items()}
    return seen
