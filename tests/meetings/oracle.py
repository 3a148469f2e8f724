"""Which outcomes of two commands that meet are as promised.

The outcome must be one that the two commands have when they run one after the other, in either
order. Or one of them was refused with an error that says so, and left no trace. The outcome of a
serial order is not modelled; it is observed, in the same world.

Some kinds of outcome are neither, and promised nevertheless:

- A command that changes many paths leaves alone what somebody else stages on them meanwhile. So
  each path, not the whole, is as one of the orders has it.
- What is staged while a merge, a block or a write of Spark runs stays staged on top of it. If both
  changed a path, `commit` refuses and names it.
- `merge`, `publish`, `tag create` and the like use the refs that they read as these stood at the
  beginning. `undo` takes back the newest operation of its own beginning, and `op restore` leaves
  alone what another machine makes after that. So each ref, not the whole, is as one of the two
  commands alone leaves it.
- A command that moves a branch or a tag here, and then in the bucket, may be refused there. It says
  so, and what it did here stays here, or is put back: see `lakecli help remotes`. So here it is as
  one of the two commands alone leaves it, and everywhere else as the other one does.
- `undo` may take back what a command did here that was still to send it. That command is refused.
- A command may send what another one on its machine has noted. Then it reports, too, what the
  bucket refused of it.
- A branch that is renamed has two names in the bucket for a moment. Another machine that undoes or
  restores then may take back one of the two moves. So each of these two branches, not both, is as
  in one of the orders.
- `op restore` takes back all that came after an operation, so the deletion of the repository that
  it met, too.
- A run merges a branch which began where its destination stood at its beginning. So each path is as
  the run or the other command leaves it, and refs, but for the commit of the destination, are as in
  one order. The branch of the run may have been pushed and deleted. Who undoes on its machine takes
  back a part of it: then each ref and each path is as before, or as one or both commands leave it.
- Who deletes or renames a branch that another machine has just deleted or renamed is told nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lakecli.cli.exit_codes import ExitCode
from tests.meetings.arguments import BLOCK_WRITE, JOB_BRANCH, REPOSITORY, SPARK_WRITE, SPECIAL
from tests.meetings.outcomes import (
    Meeting,
    Outcome,
    agree,
    contents,
    contents_of,
    explain,
    is_recursive,
    refs,
    same_codes,
    same_command,
    without_contents,
)
from tests.meetings.world import MACHINES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.meetings.serial import Command, Serial

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

READERS: Final = ("merge", "publish", "cherry-pick", "branch create", "tag create")
"""Commands that make something of refs which they read long before they end."""

DELETE: Final = ("branch", "delete")
RENAME: Final = ("branch", "rename")

MAIN: Final = "demo/_lakecli/refs/branches/main"
"""The ref in the bucket that runs move."""

_JOB_REF: Final = f"demo/_lakecli/refs/branches/{JOB_BRANCH}"

REPO_DELETE: Final = ("repo", "delete")
RENAMED: Final = {"dev", "renamed"}
"""The two names of the branch that is renamed."""

LOCAL_FIRST: Final = (
    *((kind, verb) for kind in ("branch", "tag") for verb in ("create", "delete")),
    ("branch", "rename"),
    ("branch", "reset"),
)
"""Commands that move a ref here before they move it in the bucket."""

MERGES: Final = {tuple(SPECIAL[word][0][:3]) for word in ("merge", "publish")}
"""Commands that make the same commit of the same refs in the same second."""

ONCE: Final = (tuple(SPECIAL["repo create"][0]), *map(tuple, SPECIAL["clone"][1:]))
"""Commands of which only one may report success: its user goes on with what it made."""


class Oracle:
    """Judges outcomes by what the commands do one after the other.

    Args:
        serial: runs them.
    """

    def __init__(self, serial: Serial) -> None:
        self._serial = serial

    def judge(
        self, meeting: Meeting, step: int, met: Outcome, is_conflict: Callable[[], bool]
    ) -> str | None:
        """Return what is wrong with an outcome.

        Args:
            meeting: of two commands.
            step: at which the first one was paused.
            met: the outcome.
            is_conflict: tells whether `commit` refuses, as a conflict, what is staged afterwards.
        """
        allowed: list[Outcome] = []
        equal = [met, *_reported_by_the_second(met)]
        for each in self._iter_allowed(meeting, met):
            if any(agree(outcome, each) for outcome in equal):
                return None
            allowed.append(each)
        if self._agree_in_part(meeting, met, allowed):
            return None
        if any(agree(met, each, ignores_contents=True) for each in allowed) and is_conflict():
            return None
        if self._is_staged_on_top(meeting, met, is_conflict):
            return None
        return explain(meeting, step, met, allowed)

    def _agree_in_part(self, meeting: Meeting, met: Outcome, allowed: list[Outcome]) -> bool:
        restores = same_command(meeting.first)[0] == "restore" and meeting.machine != "ada"
        reads = restores or " ".join(meeting.first).startswith(READERS)
        return (
            (is_recursive(meeting) and self._agree_by_path(meeting, met, allowed))
            or (reads and self._agree_by_ref(meeting, met))
            or (_takes_a_renaming_back(meeting) and _agree_but_for_renamed(met, allowed))
            or (
                "run" in (meeting.first[0], meeting.second[0])
                and self._agrees_as_run(meeting, met, allowed)
            )
            or self._was_refused_in_the_bucket(meeting, met)
            or self._was_undone(meeting, met)
        )

    def _agree_by_path(self, meeting: Meeting, met: Outcome, allowed: list[Outcome]) -> bool:
        """Tell whether refs are as in one order, and each path as one or both commands leave it.

        A command leaves alone what the other one added after it had listed the paths.
        """
        has_run = "run" in (meeting.first[0], meeting.second[0])
        state = _but_for_runs if has_run else without_contents
        mine = state(met)
        if not any(same_codes(met, each) and mine == state(each) for each in allowed):
            return False
        alone = [self._in_order(meeting, each) for each in meeting.commands]
        found = [contents(each) for each in (*allowed, *alone)]
        present = contents(met)
        places = set(present).union(*found)
        return all(present.get(each) in [tree.get(each) for tree in found] for each in places)

    def _agrees_as_run(self, meeting: Meeting, met: Outcome, allowed: list[Outcome]) -> bool:
        if same_command(meeting.second)[0] not in ("undo", "redo", "restore"):
            return self._agree_by_path(meeting, met, allowed)
        begin = Outcome(None, None, self._serial.beginning(meeting.situation, sync=meeting.sync))
        alone = [self._in_order(meeting, each) for each in meeting.commands]
        found = [_places(each) for each in (begin, *alone, *allowed)]
        present = _places(met)
        return all(
            present.get(each) in [tree.get(each) for tree in found]
            for each in set(present).union(*found)
        )

    def _agree_by_ref(self, meeting: Meeting, met: Outcome) -> bool:
        """Tell whether each ref is as the command that moves it leaves it when it runs alone."""
        one, other = (self._in_order(meeting, each) for each in meeting.commands)
        if not same_codes(met, Outcome(one.first, other.first, "")):
            return False
        present, *trees = (contents(each) for each in (met, one, other))
        if any(
            present.get(each) not in [tree.get(each) for tree in trees]
            for each in set(present).union(*trees)
        ):
            return False
        found, *alone = (refs(each.state) for each in (met, one, other))
        begin = refs(self._serial.beginning(meeting.situation, sync=meeting.sync))
        if alone[1] == begin:
            return False  # the second one moves nothing that the first one reads
        for ref in set(begin).union(found, *alone):
            moved = [tree.get(ref) for tree in alone if tree.get(ref) != begin.get(ref)]
            if len(moved) > 1 or found.get(ref) != (*moved, begin.get(ref))[0]:
                return False
        return True

    def _is_staged_on_top(
        self, meeting: Meeting, met: Outcome, is_conflict: Callable[[], bool]
    ) -> bool:
        """Tell whether something was staged while Spark or a block replaced a table, and is on top.

        Afterwards these refuse to write, or the path is gone that is to be staged: no order has
        the same replies.
        """
        if meeting.first not in {SPARK_WRITE, BLOCK_WRITE} or meeting.machine != "ada":
            return False
        one, other = (self._in_order(meeting, each) for each in meeting.commands)
        if not same_codes(met, Outcome(one.first, other.first, "")):
            return False
        if without_contents(met) != without_contents(one):
            return False
        begin = contents_of(self._serial.beginning(meeting.situation, sync=meeting.sync))
        found, table, staged = (contents(each) for each in (met, one, other))
        places = set(begin).union(found, table, staged)
        if any(found.get(each) not in (table.get(each), staged.get(each)) for each in places):
            return False
        replaced = [each for each in places if table.get(each) != begin.get(each)]
        return all(found.get(each) == table.get(each) for each in replaced) or is_conflict()

    def _was_refused_in_the_bucket(self, meeting: Meeting, met: Outcome) -> bool:
        """Tell whether a command did here what it does alone, and nothing in the bucket."""
        for refused, reply, others in ((0, met.first, met.second), (1, met.second, met.first)):
            if reply is None or reply.exit_code != ExitCode.LOST_RACE:
                continue
            mine, theirs = meeting.commands[refused], meeting.commands[1 - refused]
            if mine[1][:2] not in LOCAL_FIRST:
                continue
            alone, other = (self._in_order(meeting, each) for each in (mine, theirs))
            if others is None or other.first is None or others.exit_code != other.first.exit_code:
                continue
            found, here, there = (_places(each) for each in (met, alone, other))
            if all(
                found.get(place) == there.get(place)
                or (place[0] == mine[0] and found.get(place) in _ends(place, found, here))
                for place in set(found).union(here, there)
            ):
                return True
        return False

    def _was_undone(self, meeting: Meeting, met: Outcome) -> bool:
        """Tell whether the first command was refused because the second one took it back."""
        assert met.first is not None
        return (
            same_command(meeting.second)[0] == "undo"
            and met.first.exit_code == ExitCode.LOST_RACE
            and met.state == self._serial.beginning(meeting.situation, sync=meeting.sync)
        )

    def _iter_allowed(self, meeting: Meeting, met: Outcome) -> Iterator[Outcome]:
        assert met.first is not None
        assert met.second is not None
        one, other = meeting.commands
        straight = self._in_order(meeting, one, other)
        for is_swapped in (False, True):
            each = straight
            if is_swapped:
                late = self._in_order(meeting, other, one)
                each = Outcome(late.second, late.first, late.state)
            yield each
            if met.second.exit_code == ExitCode.UNREACHABLE:
                # The change was made here; the next command sends it to the bucket.
                yield Outcome(each.first, met.second, each.state)
        if {meeting.first[:2], meeting.second[:2]} == {DELETE, RENAME} and meeting.machine != "ada":
            swapped = self._in_order(meeting, other, one)
            yield Outcome(met.first, swapped.first, swapped.state)
            yield Outcome(straight.first, met.second, straight.state)
        if meeting.first[0] in ("publish", "run") and not meeting.sync:
            # Its branch follows the bucket first, as by a pull; the other one may see that.
            pull = one[0], ("pull", f"{REPOSITORY}/main")
            last = self._in_order(meeting, pull, other, one)
            between = self._in_order(meeting, pull, other)
            yield Outcome(last.second, between.second, last.state)
        yield from self._iter_same_change(meeting)
        if (same_command(meeting.first)[0], meeting.second[:2]) == ("restore", REPO_DELETE):
            # It takes back whatever came after its operation, so also the deletion.
            alone = self._in_order(meeting, one)
            yield Outcome(alone.first, self._in_order(meeting, other).first, alone.state)
        refused = REFUSED | ({ExitCode.JOB} if meeting.first[0] == "run" else set())
        if meeting.first == meeting.second:
            refused |= {ExitCode.PARTIAL}  # the other one has done the rest
        if met.first.exit_code in refused:
            alone = self._in_order(meeting, other)
            yield Outcome(met.first, alone.first, alone.state)
        if met.second.exit_code in refused:
            alone = self._in_order(meeting, one)
            yield Outcome(alone.first, met.second, alone.state)

    def _iter_same_change(self, meeting: Meeting) -> Iterator[Outcome]:
        """Yield what two commands that ask for the same change may report: both, success."""
        first, second = same_command(meeting.first), same_command(meeting.second)
        alone = [self._in_order(meeting, each) for each in meeting.commands]
        if first == second not in ONCE or {first[:3], second[:3]} == MERGES:
            for each in alone:
                yield Outcome(each.first, each.first, each.state)
        elif {first[0], second[0]} == {"redo", "restore"} and alone[0].state == alone[1].state:
            # Each brings the same tag back, by the log of its own machine.
            yield Outcome(alone[0].first, alone[1].first, alone[0].state)

    def _in_order(self, meeting: Meeting, *commands: Command) -> Outcome:
        return self._serial.in_order(meeting.situation, commands, sync=meeting.sync).outcome


def _places(outcome: Outcome) -> dict[tuple[str, ...], str]:
    """Return where each ref stands, and the checksum of each path."""
    return {**refs(outcome.state), **contents(outcome)}


def _but_for_runs(outcome: Outcome) -> Any:
    """Return the state without contents and commits of main, the destination of runs.

    It says whether Ada's main is that of the bucket. A deleted branch of a run is left out.
    """
    state = without_contents(outcome)
    found = state["bucket"]["refs"]
    main = found.pop(MAIN, None)
    if found.get(_JOB_REF, "") is None:
        del found[_JOB_REF]
    heads = [each["branches"] for who in MACHINES for each in [_demo_of(state, who)] if each]
    state["is shared"] = bool(heads) and heads[0].get("main") == main
    for each in heads:
        each.pop("main", None)
    return state


def _demo_of(state: Any, machine: str) -> Any:
    return state[machine]["repositories"].get("demo")


def _takes_a_renaming_back(meeting: Meeting) -> bool:
    """Tell whether one machine renames a branch in the bucket that the other one takes back."""
    lines = meeting.first, meeting.second
    return (
        meeting.sync
        and meeting.machine != "ada"
        and any(line[:2] == RENAME for line in lines)
        and any(same_command(line)[0] in ("undo", "restore") for line in lines)
    )


def _agree_but_for_renamed(met: Outcome, allowed: list[Outcome]) -> bool:
    """Tell whether an outcome is as in one order, but for the two names of a renamed branch.

    Each of these is as in one of the orders with the same replies.
    """
    found = _places(met)
    orders = [_places(each) for each in allowed if same_codes(met, each)]
    places = set(found).union(*orders)
    renamed = {place for place in places if _branch_of(place) in RENAMED}
    others = places - renamed
    return any(all(found.get(each) == tree.get(each) for each in others) for tree in orders) and (
        all(found.get(each) in [tree.get(each) for tree in orders] for each in renamed)
    )


def _branch_of(place: tuple[str, ...]) -> str:
    """Return the name of the branch of a place: of a ref, or of a path on a branch."""
    if place[0] == "bucket":
        return place[1].rpartition("/")[2]
    return place[3] if place[2] == "branches" else place[2]


def _ends(
    place: tuple[str, ...], found: dict[tuple[str, ...], str], alone: dict[tuple[str, ...], str]
) -> list[str | None]:
    """Return what a place on the machine of a refused command may hold.

    That is what the command alone leaves. Or a branch has gone, as it has in the bucket.
    """
    _machine, repository, *rest = place
    branch = rest[1] if rest[0] == "branches" else rest[0]
    there = "bucket", f"{repository}/_lakecli/refs/branches/{branch}"
    return [alone.get(place), *([] if found.get(there) else [None])]


def _reported_by_the_second(met: Outcome) -> list[Outcome]:
    """Return an outcome as it were if the first command had reported what the second one did."""
    first, second = met.first, met.second
    if first is None or second is None or "not in the bucket" not in second.stderr:
        return []
    return [met._replace(first=first._replace(exit_code=int(ExitCode.LOST_RACE)))]
