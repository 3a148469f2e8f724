"""One command paused before a durable step, while another one runs from beginning to end.

The outcome must be one that the two commands have when they run one after the other, in either
order. Or one of them was refused with an error that says so, and left no trace. The outcome of a
serial order is not modelled; it is observed, in the same world.

Three kinds of outcome are neither, and promised nevertheless:

- A command that changes many paths leaves alone what somebody else stages on them meanwhile. So
  each path, not the whole, is as one of the orders has it.
- What is staged while a merge runs stays staged on top of it. If both changed a path, `commit`
  refuses and names it.
- `merge`, `tag create` and the like use the refs that they read as these stood at the beginning.
  `undo` takes back the newest operation of its own beginning. So each ref, not the whole, is as
  one of the two commands alone leaves it.

What two machines observe after they have synchronised depends only on their stores, their files,
the bucket and the time. So it is computed once for each fingerprint of these.
"""

from __future__ import annotations

import json
from itertools import takewhile
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.cli.exit_codes import ExitCode
from lakecli.progress import ignore_step
from tests.meetings.arguments import REPOSITORY, SPECIAL, command_lines, fill
from tests.meetings.observe import observe
from tests.meetings.outcomes import (
    Meeting,
    Outcome,
    agree,
    contents,
    explain,
    is_recursive,
    refs,
    same_codes,
    same_command,
    without_contents,
)
from tests.meetings.situations import SITUATIONS
from tests.meetings.world import MACHINES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.meetings.hook import Hook
    from tests.meetings.world import Machines, Reply, Snapshot

REFUSED: Final = frozenset(
    (
        ExitCode.CONFLICT,
        ExitCode.LOST_RACE,
        ExitCode.NOT_FOUND,
        ExitCode.REFUSED,
        ExitCode.NOTHING_TO_DO,
        ExitCode.UNREACHABLE,  # it waited for a sweep, which cannot go on before it has returned
    )
)
"""What a command that met another one may answer, if it left no trace."""

ALONE: Final = frozenset(("doctor",))
"""Commands that write only files of their own and remove them again."""

LOCAL: Final = frozenset(("config", "use", "repo", "gc", "push", "fetch", "pull", "clone"))
"""Commands that do not begin with automatic sharing."""


READERS: Final = (
    "merge",
    "cherry-pick",
    "branch create",
    "branch rename",
    "branch reset",
    "tag create",
)
"""Commands that make something of refs which they read long before they end."""


ONCE: Final = (tuple(SPECIAL["repo create"][0]), *map(tuple, SPECIAL["clone"][1:]))
"""Commands of which only one may report success: its user goes on with what it made."""


class Solo(NamedTuple):
    """What a command does when it runs alone.

    Attributes:
        reply: its answer.
        steps: the names of its announced and its durable steps, in order.
        writes: whether it changed anything.
        shares: whether it wrote to the bucket.
        looks: whether it read or wrote anything in the bucket.
        after: the state afterwards.
    """

    reply: Reply
    steps: tuple[str, ...]
    writes: bool
    shares: bool
    looks: bool
    after: Snapshot


class Matrix:
    """Runs meetings in one world, and each serial order once.

    Args:
        world: to run in.
        hook: installed.
    """

    def __init__(self, world: Machines, hook: Hook) -> None:
        self.world = world
        self._hook = hook
        self._beginnings: dict[str, Snapshot] = {}
        self._values: dict[tuple[str, str], dict[str, str]] = {}
        self._serial: dict[tuple[object, ...], Outcome] = {}
        self._solo: dict[tuple[object, ...], Solo] = {}
        self._observed: dict[tuple[bytes, bool], str] = {}
        self._damage: dict[tuple[bytes, bool], str] = {}
        self._ended = (b"", False)

    def forget(self) -> None:
        """Forget what commands do: the product has changed."""
        self._serial.clear()
        self._solo.clear()
        self._observed.clear()
        self._damage.clear()

    # -- commands ----------------------------------------------------------------------------

    def lines(self) -> Iterator[tuple[str, ...]]:
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

    def solo(self, situation: str, line: tuple[str, ...], machine: str, *, sync: bool) -> Solo:
        """Run a command alone, and record what it does."""
        key = (situation, line, machine, sync)
        if key not in self._solo:
            self.begin(situation)
            before, writes = self.world.fingerprint(), self.world.bucket.writes
            steps: list[str] = []
            reads = self._hook.reads
            with self._hook.calling(steps.append):
                reply = self.run(situation, line, machine, sync=sync, on_step=steps.append)
            shares = self.world.bucket.writes != writes
            looks = shares or self._hook.reads != reads
            changed = self.world.fingerprint() != before
            after = self.world.save()
            self._solo[key] = Solo(reply, tuple(steps), changed, shares, looks, after)
        return self._solo[key]

    def writers(self, situation: str, *, sync: bool) -> list[tuple[str, ...]]:
        """Return the command lines that change anything in a situation.

        Of those that only synchronise, as all do with automatic sharing, one stands for all.
        """

        def writes(line: tuple[str, ...], *, sync: bool) -> bool:
            return self.solo(situation, line, "ada", sync=sync).writes

        found = [line for line in self.lines() if line[0] not in ALONE and writes(line, sync=sync)]
        if sync:
            idle = [line for line in found if line[0] not in LOCAL and not writes(line, sync=False)]
            found = [line for line in found if line not in idle[1:]]
        return found

    def pauses(
        self, situation: str, line: tuple[str, ...], machine: str = "ada", *, sync: bool
    ) -> list[int]:
        """Return where to pause a command: at each announced step, and before each durable one.

        A durable step right after an announced one is the same place.
        """
        return self._pauses_of(self.solo(situation, line, machine, sync=sync).steps)

    @staticmethod
    def _pauses_of(steps: tuple[str, ...]) -> list[int]:
        return [
            number
            for number, step in enumerate(steps)
            if not (step.startswith("<") and number and not steps[number - 1].startswith("<"))
        ]

    def common_pauses(self, situation: str, *, sync: bool) -> int:
        """Return the number of pauses that all commands with automatic sharing begin with."""
        writers = [
            self.solo(situation, line, "ada", sync=sync).steps
            for line in self.writers(situation, sync=sync)
            if line[0] not in LOCAL
        ]
        shared = sum(
            1 for _ in takewhile(lambda steps: len(set(steps)) == 1, zip(*writers, strict=False))
        )
        return sum(number < shared for number in self._pauses_of(writers[0]))

    # -- meetings ----------------------------------------------------------------------------

    def problem(self, meeting: Meeting, step: int) -> str | None:
        """Let two commands meet at a step of the first; return what is wrong with the outcome."""
        met = self._meet(meeting, step)
        damage = self.damage()
        if damage:
            return f"{meeting}, pause {step}: {damage}"
        allowed: list[Outcome] = []
        for each in self._iter_allowed(meeting, met):
            if agree(met, each):
                return None
            allowed.append(each)
        if is_recursive(meeting) and self._agree_by_path(meeting, met, allowed):
            return None
        reads = " ".join(meeting.first).startswith(READERS)
        # A renaming deletes a branch: another command may report that it deleted it, too.
        reads = reads or meeting.second[:2] == ("branch", "rename")
        if reads and self._agree_by_ref(meeting, met):
            return None
        if any(agree(met, each, ignores_contents=True) for each in allowed) and self._is_conflict(
            meeting, step
        ):
            return None
        return explain(meeting, step, met, allowed)

    def _meet(self, meeting: Meeting, step: int) -> Outcome:
        self.begin(meeting.situation)
        second: list[Reply] = []
        count = 0

        def pause(_name: str) -> None:
            nonlocal count
            count += 1
            if count == step + 1:
                with self._hook.calling(None):
                    second.append(
                        self.run(
                            meeting.situation, meeting.second, meeting.machine, sync=meeting.sync
                        )
                    )

        with self._hook.calling(pause):
            first = self.run(
                meeting.situation, meeting.first, "ada", sync=meeting.sync, on_step=pause
            )
        (answer,) = second
        return Outcome(first, answer, self.settle(sync=meeting.sync))

    def _agree_by_path(self, meeting: Meeting, met: Outcome, allowed: list[Outcome]) -> bool:
        """Tell whether refs are as in one order, and each path as one or both commands leave it.

        A command leaves alone what the other one added after it had listed the paths.
        """
        mine = without_contents(met)
        if not any(same_codes(met, each) and mine == without_contents(each) for each in allowed):
            return False
        alone = [
            self._in_order(meeting, ((machine, line),))
            for machine, line in (("ada", meeting.first), (meeting.machine, meeting.second))
        ]
        found = [contents(each) for each in (*allowed, *alone)]
        present = contents(met)
        places = set(present).union(*found)
        return all(present.get(each) in [tree.get(each) for tree in found] for each in places)

    def _agree_by_ref(self, meeting: Meeting, met: Outcome) -> bool:
        """Tell whether each ref is as the command that moves it leaves it when it runs alone."""
        one, other = (
            self._in_order(meeting, (each,))
            for each in (("ada", meeting.first), (meeting.machine, meeting.second))
        )
        if not same_codes(met, Outcome(one.first, other.first, "")):
            return False
        present, *trees = (contents(each) for each in (met, one, other))
        if any(
            present.get(each) not in [tree.get(each) for tree in trees]
            for each in set(present).union(*trees)
        ):
            return False
        found, *alone = (refs(each.state) for each in (met, one, other))
        begin = refs(self._beginning(meeting.situation, sync=meeting.sync))
        if alone[1] == begin:
            return False  # the second one moves nothing that the first one reads
        for ref in set(begin).union(found, *alone):
            moved = [tree.get(ref) for tree in alone if tree.get(ref) != begin.get(ref)]
            ends = [(*moved, begin.get(ref))[0]]
            if same_command(meeting.second)[0] == "restore":
                # It takes back what it finds moved: of a renaming in the bucket, the first half.
                ends.append(begin.get(ref))
            # Both may move a ref to the same place, as a renaming and a deletion do.
            if len(set(moved)) > 1 or found.get(ref) not in ends:
                return False
        return True

    def _beginning(self, situation: str, *, sync: bool) -> str:
        self.begin(situation)
        return self.settle(sync=sync)

    def _is_conflict(self, meeting: Meeting, step: int) -> bool:
        """Tell whether `commit` refuses, as a conflict, what is staged after a meeting."""
        self._meet(meeting, step)
        self._synchronise(sync=meeting.sync)
        line = ["commit", f"{REPOSITORY}/main", "-m", "what was staged meanwhile"]
        codes = [
            self.world(machine, line, sync=meeting.sync).exit_code
            for machine in dict.fromkeys(("ada", meeting.machine))
        ]
        return ExitCode.CONFLICT in codes

    def _iter_allowed(self, meeting: Meeting, met: Outcome) -> Iterator[Outcome]:
        assert met.first is not None
        assert met.second is not None
        one, other = ("ada", meeting.first), (meeting.machine, meeting.second)
        straight = self._in_order(meeting, (one, other))
        swapped = self._in_order(meeting, (other, one))
        for each in (straight, Outcome(swapped.second, swapped.first, swapped.state)):
            yield each
            if met.second.exit_code == ExitCode.UNREACHABLE:
                # The change was made here; the next command sends it to the bucket.
                yield Outcome(each.first, met.second, each.state)
        if same_command(meeting.first) == same_command(meeting.second) not in ONCE:
            # Both commands ask for the same change: one made it, and both may report success.
            for command in (one, other):
                alone = self._in_order(meeting, (command,))
                yield Outcome(alone.first, alone.first, alone.state)
        if met.first.exit_code in REFUSED:
            alone = self._in_order(meeting, (other,))
            yield Outcome(met.first, alone.first, alone.state)
        if met.second.exit_code in REFUSED:
            alone = self._in_order(meeting, (one,))
            yield Outcome(alone.first, met.second, alone.state)

    def _in_order(
        self, meeting: Meeting, commands: tuple[tuple[str, tuple[str, ...]], ...]
    ) -> Outcome:
        return self.in_order(meeting.situation, commands, sync=meeting.sync)

    def in_order(
        self, situation: str, commands: tuple[tuple[str, tuple[str, ...]], ...], *, sync: bool
    ) -> Outcome:
        """Return the outcome of commands that run one after the other.

        Args:
            situation: where they begin.
            commands: machines and command lines.
            sync: whether sharing is automatic.

        Returns:
            The replies of the first and of the last, and the state afterwards.
        """
        key = (situation, sync, commands)
        if key not in self._serial:
            (machine, line), *others = commands
            solo = self.solo(situation, line, machine, sync=sync)
            self.world.restore(solo.after)
            second = None
            for machine, line in others:
                second = self.run(situation, line, machine, sync=sync)
            self._serial[key] = Outcome(solo.reply, second, self.settle(sync=sync))
        return self._serial[key]

    def settle(self, *, sync: bool) -> str:
        """Let both machines learn of each other's work, and return what they observe.

        Where the same was observed before, the world stays as it is.
        """
        self._ended = self.world.fingerprint(), sync
        if self._ended not in self._observed:
            self._synchronise(sync=sync)
            self._observed[self._ended] = json.dumps(observe(self.world), sort_keys=True)
        return self._observed[self._ended]

    def _synchronise(self, *, sync: bool) -> None:
        line = ["status", REPOSITORY] if sync else ["fetch", REPOSITORY]
        for machine in ("ada", "bob", "ada") if sync else MACHINES:
            self.world(machine, line, sync=sync)

    def damage(self) -> str:
        """Return what fsck finds after what ended last; run it once for each such state."""
        if self._ended not in self._damage:
            replies = (self.world(machine, ["fsck", REPOSITORY]) for machine in MACHINES)
            self._damage[self._ended] = "\n".join(
                f"fsck on {machine}: {reply}"
                for machine, reply in zip(MACHINES, replies, strict=True)
                if reply.exit_code not in (ExitCode.OK, ExitCode.NOT_FOUND)
            )
        return self._damage[self._ended]

    # -- the world ---------------------------------------------------------------------------

    def run(
        self,
        situation: str,
        line: tuple[str, ...],
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
        log = self.world.ok(machine, "op", "log", REPOSITORY, "--json").splitlines()
        entry = json.loads(self.world.ok(machine, "fs", "stat", f"{REPOSITORY}/main/a", "--json"))
        return {
            "operation": json.loads(log[1])["id"] if len(log) > 1 else "0" * 32,
            "object": entry["physical_address"],
            "checksum": entry["checksum"],
        }
