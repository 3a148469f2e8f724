"""Outcomes of two commands, and when two of them agree."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.meetings.world import MACHINES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.meetings.world import Reply


class Meeting(NamedTuple):
    """One cell of the matrix.

    Attributes:
        situation: where both begin, a key of `SITUATIONS`.
        sync: whether sharing is automatic.
        first: the command line that is paused, on Ada's machine.
        second: the command line that runs during the pause.
        machine: where the second one runs.
    """

    situation: str
    sync: bool
    first: tuple[str, ...]
    second: tuple[str, ...]
    machine: str

    @property
    def commands(self) -> tuple[tuple[str, tuple[str, ...]], tuple[str, tuple[str, ...]]]:
        """Each command line with its machine."""
        return ("ada", self.first), (self.machine, self.second)

    def __str__(self) -> str:
        mode = "auto" if self.sync else "manual"
        first, second = " ".join(self.first), " ".join(self.second)
        return f"{self.situation}, {mode}: {first} | {self.machine}: {second}"


class Outcome(NamedTuple):
    """The replies of two commands, and what can be observed afterwards, as JSON."""

    first: Reply | None
    second: Reply | None
    state: str


def agree(met: Outcome, allowed: Outcome, *, ignores_contents: bool = False) -> bool:
    """Tell whether two outcomes have the same exit codes and the same state."""
    if not same_codes(met, allowed):
        return False
    if met.state == allowed.state:
        return True
    return ignores_contents and without_contents(met) == without_contents(allowed)


def same_codes(met: Outcome, allowed: Outcome) -> bool:
    """Tell whether both commands ended with the same exit codes."""
    return all(
        mine is not None and theirs is not None and mine.exit_code == theirs.exit_code
        for mine, theirs in ((met.first, allowed.first), (met.second, allowed.second))
    )


def without_contents(outcome: Outcome) -> Any:
    """Return the state without what the branches hold."""
    state = json.loads(outcome.state)
    for machine in MACHINES:
        for repository in state[machine]["repositories"].values():
            del repository["contents"]
    return state


def contents(outcome: Outcome) -> dict[tuple[str, ...], str]:
    """Return the checksum of each path of each branch on each machine."""
    return contents_of(outcome.state)


def contents_of(state: str) -> dict[tuple[str, ...], str]:
    """Return the checksum of each path of each branch on each machine."""
    seen = json.loads(state)
    return {
        (machine, name, branch, path): checksum
        for machine in MACHINES
        for name, repository in seen[machine]["repositories"].items()
        for branch, tree in repository["contents"].items()
        for path, checksum in tree.items()
    }


def refs(state: str) -> dict[tuple[str, ...], str]:
    """Return where each ref stands, on each machine and in the bucket."""
    seen = json.loads(state)
    found: dict[tuple[str, ...], str] = {}
    found |= {("bucket", name): commit for name, commit in seen["bucket"]["refs"].items()}
    for machine in MACHINES:
        for name, repository in seen[machine]["repositories"].items():
            for kind in ("branches", "tags"):
                for ref, commit in repository[kind].items():
                    found[machine, name, kind, ref] = commit
    return found


def same_command(line: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command line by the shorter of its names: `redo` is `op redo`."""
    return line[1:] if line[0] == "op" else line


def is_recursive(meeting: Meeting) -> bool:
    """Tell whether a command of the meeting changes many paths."""
    return not {"-r", "--arrived"}.isdisjoint((*meeting.first, *meeting.second))


def explain(meeting: Meeting, step: int, met: Outcome, allowed: list[Outcome]) -> str:
    """Return how an outcome differs from each allowed one."""
    lines = [f"{meeting}, pause {step}", f"  {met.first}", f"  {met.second}"]
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
