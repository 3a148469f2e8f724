"""One command paused before a durable step, while another one runs from beginning to end.

Most meetings need not take place. If nothing that the first command has read or written before its
pause matters to the second one, the outcome is that of the second command before the first. If
nothing that comes after the pause does, it is that of the second after the first. And a pause has
the outcome of an earlier one if nothing in between matters. What matters is recorded, never listed:
see `accesses`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from lakecli.cli.exit_codes import ExitCode
from tests.meetings.accesses import Accesses
from tests.meetings.arguments import REPOSITORY
from tests.meetings.oracle import Oracle
from tests.meetings.outcomes import Meeting, Outcome
from tests.meetings.serial import Serial

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.meetings.hook import Hook
    from tests.meetings.recorder import Recorder
    from tests.meetings.world import Machines, Reply


class Met(NamedTuple):
    """What came of a meeting.

    Attributes:
        outcome: the replies and the state afterwards.
        second: what the second command read and wrote.
        damage: what fsck found afterwards.
    """

    outcome: Outcome
    second: Accesses
    damage: str


class Pause(NamedTuple):
    """A pause of a first command, and what has the same outcome for a reason that was recorded.

    Attributes:
        step: before which step.
        like: an earlier pause.
        is_first: the first command before the second one, or after it.
    """

    step: int
    like: int = -1
    is_first: bool | None = None


class Matrix(Serial):
    """Runs meetings in one world.

    Args:
        world: to run in.
        hook: installed.
        recorder: installed.
    """

    def __init__(self, world: Machines, hook: Hook, recorder: Recorder) -> None:
        super().__init__(world, hook, recorder)
        self._oracle = Oracle(self)
        self.count = 0
        """Meetings that took place."""

    def problems(self, meeting: Meeting) -> Iterator[str]:
        """Let two commands meet at every pause at which it matters; yield what is wrong."""
        for pause, met in self.meet_everywhere(meeting):
            if met is None:
                continue
            is_conflict = partial(self._is_conflict, meeting, pause.step)
            problem: str | None = met.damage and f"{meeting}, pause {pause.step}: {met.damage}"
            problem = problem or self._oracle.judge(meeting, pause.step, met.outcome, is_conflict)
            if problem:
                yield problem

    def meet_everywhere(self, meeting: Meeting) -> Iterator[tuple[Pause, Met | None]]:
        """Yield every pause with what came of the meeting, or ``None`` where that is known."""
        one, other = meeting.commands
        first = self.solo(meeting.situation, meeting.first, "ada", sync=meeting.sync)
        machine, line = other
        alone = self.solo(meeting.situation, line, machine, sync=meeting.sync).accesses
        last: Pause | None = None
        met: Met | None = None
        for step in range(len(first.steps)):
            if not first.until(step).conflict(alone):
                yield Pause(step, is_first=False), None
                continue
            after = self.in_order(meeting.situation, (one, other), sync=meeting.sync).last
            if not first.since(step).conflict(after):
                yield Pause(step, is_first=True), None
                continue
            if met and last and not first.between(last.step, step).conflict(met.second):
                yield Pause(step, like=last.step), None
                continue
            last, met = Pause(step), self.meet(meeting, step)
            yield last, met

    def outcome_of(self, meeting: Meeting, pause: Pause) -> Outcome:
        """Return the outcome of a pause that equals a serial order."""
        assert pause.is_first is not None
        one, other = meeting.commands
        order = (one, other) if pause.is_first else (other, one)
        outcome = self.in_order(meeting.situation, order, sync=meeting.sync).outcome
        if pause.is_first:
            return outcome
        return Outcome(outcome.second, outcome.first, outcome.state)

    def meet(self, meeting: Meeting, step: int) -> Met:
        """Let two commands meet at a step of the first."""
        self.count += 1
        outcome, accesses = self._meet(meeting, step)
        outcome = outcome._replace(state=self.settle(sync=meeting.sync))
        return Met(outcome, accesses, self.damage())

    def _meet(self, meeting: Meeting, step: int) -> tuple[Outcome, Accesses]:
        self.begin(meeting.situation)
        second: list[tuple[Reply, Accesses]] = []
        count = 0

        def run_second() -> None:
            with self.hook.calling(None), self.recorder.recording() as found:
                reply = self.run(
                    meeting.situation, meeting.second, meeting.machine, sync=meeting.sync
                )
            second.append((reply, Accesses(found)))

        def pause(_name: str) -> None:
            nonlocal count
            count += 1
            if count == step + 1:
                run_second()

        with self.hook.calling(pause):
            first = self.run(
                meeting.situation, meeting.first, "ada", sync=meeting.sync, on_step=pause
            )
        if not second and meeting.first[0] == "annotate":
            run_second()  # answers that are kept by now may have saved it this step
        ((reply, accesses),) = second
        return Outcome(first, reply, ""), accesses

    def _is_conflict(self, meeting: Meeting, step: int) -> bool:
        """Tell whether `commit` refuses, as a conflict, what is staged after a meeting."""
        self._meet(meeting, step)
        self.synchronise(sync=meeting.sync)
        line = ["commit", f"{REPOSITORY}/main", "-m", "what was staged meanwhile"]
        codes = [
            self.world(machine, line, sync=meeting.sync).exit_code
            for machine in dict.fromkeys(("ada", meeting.machine))
        ]
        return ExitCode.CONFLICT in codes
