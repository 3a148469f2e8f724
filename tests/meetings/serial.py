"""Commands that run alone, or one after the other, each from the beginning of a situation once.

What two machines observe after they have synchronised depends only on their stores, their files,
the bucket and the time. So it is computed once for each fingerprint of these.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.base.layout import REFS
from lakecli.base.progress import ignore_step
from lakecli.cli.exit_codes import ExitCode
from lakecli.kv.local_store import Table
from tests.meetings.accesses import Accesses
from tests.meetings.arguments import REPOSITORY, command_lines, fill
from tests.meetings.observe import observe
from tests.meetings.outcomes import Outcome
from tests.meetings.situations import SITUATIONS
from tests.meetings.world import MACHINES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.meetings.accesses import Access
    from tests.meetings.hook import Hook
    from tests.meetings.recorder import Recorder
    from tests.meetings.world import Machines, Reply, Snapshot

ALONE: Final = frozenset(("doctor",))
"""Commands that write only files of their own and remove them again."""

LOCAL: Final = frozenset(("config", "use", "repo", "gc", "push", "fetch", "pull", "clone"))
"""Commands that do not begin with automatic sharing."""

MOVING: Final = (
    *(Table.REPOSITORIES, Table.BRANCHES, Table.TAGS, Table.TRACKING),
    *(Table.STAGING, Table.TOKENS, Table.OPERATIONS),
)
"""Tables of refs, of what is staged, and of the log."""

Line = tuple[str, ...]

Command = tuple[str, Line]
"""A machine and a command line."""


class Solo:
    """What a command does when it runs alone.

    Args:
        reply: its answer.
        steps: the names of its announced and its durable steps, in order.
        writes: whether it changed anything.
        after: the state afterwards.
        found: what it read and wrote, in order.
    """

    def __init__(
        self,
        reply: Reply,
        steps: Sequence[str],
        *,
        writes: bool,
        after: Snapshot,
        found: Sequence[Access],
    ) -> None:
        self.reply = reply
        self.steps = tuple(steps)
        self.writes = writes
        self.after = after
        self.found = found
        self._parts: dict[tuple[int, int], Accesses] = {}

    @cached_property
    def shares(self) -> bool:
        """Whether it changed the bucket."""
        return any(each.space == "bucket" and each.change is not None for each in self.found)

    @cached_property
    def moves(self) -> bool:
        """Whether it moved refs, changed what is staged, or recorded an operation."""
        return any(
            key[:1] in MOVING if space in MACHINES else f"/{REFS}".encode() in key
            for space, key in self.accesses.changed
        )

    @cached_property
    def accesses(self) -> Accesses:
        """Everything that it reads and writes."""
        return self.between(-1, len(self.steps))

    def until(self, pause: int) -> Accesses:
        """Return what it reads and writes before a pause."""
        return self.between(-1, pause)

    def since(self, pause: int) -> Accesses:
        """Return what it reads and writes after a pause."""
        return self.between(pause, len(self.steps))

    def between(self, pause: int, later: int) -> Accesses:
        """Return what it reads and writes after one pause and before a later one."""
        key = pause, later
        if key not in self._parts:
            self._parts[key] = Accesses(
                each for each in self.found if pause < each.position <= later
            )
        return self._parts[key]


class Ordered(NamedTuple):
    """What commands did that ran one after the other.

    Attributes:
        outcome: the replies of the first and of the last, and the state afterwards.
        last: what the last one read and wrote.
    """

    outcome: Outcome
    last: Accesses


class Serial:
    """Runs commands in one world, each serial order once.

    Args:
        world: to run in.
        hook: installed.
        recorder: installed.
    """

    def __init__(self, world: Machines, hook: Hook, recorder: Recorder) -> None:
        self.world = world
        self.hook = hook
        self.recorder = recorder
        self._beginnings: dict[str, Snapshot] = {}
        self._values: dict[tuple[str, str], dict[str, str]] = {}
        self._ordered: dict[tuple[str, bool, tuple[Command, ...]], Ordered] = {}
        self._solo: dict[tuple[str, Line, str, bool], Solo] = {}
        self._observed: dict[tuple[bytes, bool], str] = {}
        self._damage: dict[tuple[str, frozenset[str]], str] = {}
        self._ended = (b"", False)

    def forget(self) -> None:
        """Forget what commands do: the product has changed."""
        self._ordered.clear()
        self._solo.clear()
        self._observed.clear()
        self._damage.clear()

    def forget_command(self, line: Line) -> None:
        """Forget what one command does: it is carried out in another way from now on."""
        for alone in [key for key in self._solo if key[1] == line]:
            del self._solo[alone]
        for order in [key for key in self._ordered if any(line == each for _, each in key[2])]:
            del self._ordered[order]

    # -- alone -------------------------------------------------------------------------------

    def lines(self) -> Iterator[Line]:
        """Yield a command line for each way that each command is called."""
        for lines in command_lines().values():
            yield from map(tuple, lines)

    def begin(self, situation: str) -> None:
        """Restore the beginning of a situation."""
        if situation not in self._beginnings:
            self.world.reset()
            SITUATIONS[situation](self.world)
            for machine in MACHINES:
                self._values[situation, machine] = self._placeholders(machine)
            self._beginnings[situation] = self.world.save()
        self.world.restore(self._beginnings[situation])

    def beginning(self, situation: str, *, sync: bool) -> str:
        """Return what both machines observe if no command runs."""
        self.begin(situation)
        return self.settle(sync=sync)

    def solo(self, situation: str, line: Line, machine: str, *, sync: bool) -> Solo:
        """Run a command alone, and record what it does."""
        key = (situation, line, machine, sync)
        if key not in self._solo:
            self.begin(situation)
            before = self.world.fingerprint()
            steps: list[str] = []
            with (
                self.hook.calling(steps.append),
                self.recorder.recording(lambda: len(steps)) as found,
            ):
                reply = self.run(situation, line, machine, sync=sync, on_step=steps.append)
            changed = self.world.fingerprint() != before
            after = self.world.save()
            self._solo[key] = Solo(reply, steps, writes=changed, after=after, found=found)
        return self._solo[key]

    def writers(self, situation: str, *, sync: bool) -> list[Line]:
        """Return the command lines that change anything in a situation.

        Of those that only synchronise, as all do with automatic sharing, one stands for all.
        """

        def run(line: Line, *, sync: bool) -> Solo:
            return self.solo(situation, line, "ada", sync=sync)

        def is_idle(line: Line) -> bool:
            alone = run(line, sync=False)
            answers = {alone.reply.exit_code, run(line, sync=True).reply.exit_code}
            return line[0] not in LOCAL and not alone.writes and len(answers) == 1

        found = [each for each in self.lines() if each[0] not in ALONE]
        found = [each for each in found if run(each, sync=sync).writes]
        if sync:
            idle = [each for each in found if is_idle(each)]
            found = [each for each in found if each not in idle[1:]]
        return found

    # -- one after the other -----------------------------------------------------------------

    def in_order(self, situation: str, commands: tuple[Command, ...], *, sync: bool) -> Ordered:
        """Run commands one after the other.

        Args:
            situation: where they begin.
            commands: at least one.
            sync: whether sharing is automatic.
        """
        key = (situation, sync, commands)
        if key not in self._ordered:
            (machine, line), *others = commands
            solo = self.solo(situation, line, machine, sync=sync)
            self.world.restore(solo.after)
            second, last = None, solo.accesses
            for machine, line in others:
                with self.recorder.recording() as found:
                    second = self.run(situation, line, machine, sync=sync)
                last = Accesses(found)
            outcome = Outcome(solo.reply, second, self.settle(sync=sync))
            self._ordered[key] = Ordered(outcome, last)
        return self._ordered[key]

    def settle(self, *, sync: bool) -> str:
        """Let both machines learn of each other's work, and return what they observe.

        Where the same was observed before, the world stays as it is.
        """
        self._ended = self.world.fingerprint(), sync
        if self._ended not in self._observed:
            self.synchronise(sync=sync)
            self._observed[self._ended] = json.dumps(observe(self.world), sort_keys=True)
        return self._observed[self._ended]

    def synchronise(self, *, sync: bool) -> None:
        """Let both machines learn of each other's work."""
        line = ["status", REPOSITORY] if sync else ["fetch", REPOSITORY]
        for machine in ("ada", "bob", "ada") if sync else MACHINES:
            self.world(machine, line, sync=sync)

    def damage(self) -> str:
        """Return what fsck finds after what ended last.

        It is run once for each state that was observed, and the objects in the bucket.
        """
        key = self._observed[self._ended], self.world.keys_of_contents()
        if key not in self._damage:
            replies = (self.world(machine, ["fsck", REPOSITORY]) for machine in MACHINES)
            self._damage[key] = "\n".join(
                f"fsck on {machine}: {reply}"
                for machine, reply in zip(MACHINES, replies, strict=True)
                if reply.exit_code not in (ExitCode.OK, ExitCode.NOT_FOUND)
            )
        return self._damage[key]

    # -- the world ---------------------------------------------------------------------------

    def run(
        self,
        situation: str,
        line: Line,
        machine: str,
        *,
        sync: bool,
        on_step: Callable[[str], None] | None = None,
    ) -> Reply:
        """Run a command line, with the values of the situation put in."""
        values = {**self._values[situation, machine], "files": str(self.world.files(machine))}
        filled = fill(list(line), values)
        return self.world(machine, filled, sync=sync, on_step=on_step or ignore_step)

    def _placeholders(self, machine: str) -> dict[str, str]:
        """Return the values that only this world knows, for use in command lines."""
        lines = self.world.ok(machine, "op", "log", REPOSITORY, "--json").splitlines()
        log = [each for each in map(json.loads, lines) if each["kind"] != "push"]
        entry = json.loads(self.world.ok(machine, "fs", "stat", f"{REPOSITORY}/main/a", "--json"))
        return {
            "operation": log[1]["id"] if len(log) > 1 else "0" * 32,
            "object": entry["physical_address"],
            "checksum": entry["checksum"],
        }
