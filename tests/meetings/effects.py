"""What each operation of a person's log staged or unstaged, so that undoing it can be predicted.

An operation's ID, and which one an undo concerns, are taken from the log. What that operation did
to the staging areas is known from the command that appended it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.errors import NotFound
from lakecli.kv.operations import iter_operations
from lakecli.repository.undo.log import REDOES, UNDOES, logged_repository
from lakecli.repository.undo.take_back import GONE
from lakecli.repository.undo.undo import RESTORES
from tests.meetings.model import Staged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakecli.kv.operations import Operation
    from lakecli.repository.handle.lake import Lake

Areas = dict[str, Staged]
"""What is staged, by branch."""

ABSENT: Final = "nothing is staged"
AUTOMATIC: Final = ("sync", "push")
"""Kinds of operations that no user asked for, or that change nothing here."""


class Change(NamedTuple):
    """A path of a staging area, before and after an operation; `ABSENT`: not staged."""

    before: str | None
    after: str | None


Effect = dict[tuple[str, str], Change]
"""Changes by branch and path."""


def effect_of(before: Mapping[str, Staged], after: Mapping[str, Staged]) -> Effect:
    """Return how staging areas differ."""
    found = {}
    for branch in before.keys() | after.keys():
        mine, theirs = before.get(branch, {}), after.get(branch, {})
        for path in mine.keys() | theirs.keys():
            change = Change(mine.get(path, ABSENT), theirs.get(path, ABSENT))
            if change.before != change.after:
                found[branch, path] = change
    return found


class Effects:
    """The operations of one person's log that were seen, each with its effect."""

    def __init__(self) -> None:
        self._seen = 0
        self._known: dict[bytes, Effect | None] = {}
        self._last: dict[bytes, bytes] = {}
        """The last undo or redo of each operation that was undone or redone."""

    def new_operations(self, lake: Lake) -> list[Operation]:
        """Return the operations that were appended since the last call, oldest first."""
        found = [each for each in _log(lake) if each.sequence > self._seen]
        if found:
            self._seen = found[0].sequence
        return found[::-1]

    def record(self, operations: Sequence[Operation], effects: Sequence[Effect] | None) -> None:
        """Record the effects of operations that were appended; ``None``: nobody knows them.

        Where there are more operations than effects, nobody knows which has which.
        """
        mine = [each for each in operations if each.kind not in AUTOMATIC]
        is_known = effects is not None and len(effects) == len(mine)
        for number, each in enumerate(mine):
            self._known[each.id] = effects[number] if effects is not None and is_known else None

    def record_following(self, operations: Sequence[Operation], effect: Effect) -> None:
        """Record what following the bucket took off the staging areas.

        Or hid: what is staged as the new head has it is no change any more, but is one again where
        the old head is restored.
        """
        for each in operations:
            if each.kind == "sync" and (each.staging or each.refs):
                self._known[each.id] = effect
                return

    def predict(self, lake: Lake, operations: Sequence[Operation], areas: Areas) -> bool:
        """Change staging areas as an undo, redo or op restore must; return whether it is known.

        Args:
            lake: of the person.
            operations: what the command appended.
            areas: what was staged before, by branch.
        """
        if not operations:
            return False
        made = operations[-1]
        if GONE in made.metadata:
            self._last.update(
                (bytes.fromhex(made.metadata[key]), made.id)
                for key in (UNDOES, REDOES)
                if key in made.metadata
            )
            return False  # some of it was collected, and is not staged again
        for key in (UNDOES, REDOES):
            if key in made.metadata:
                concerned = bytes.fromhex(made.metadata[key])
                reversed_ = self._last.get(concerned, concerned)
                self._last[concerned] = made.id
                return self._put(areas, reversed_)
        kept = bytes.fromhex(made.metadata[RESTORES])
        is_known = True
        for each in _log(lake):
            if each.id == kept:
                return is_known
            is_silent = each.kind in AUTOMATIC and each.id not in self._known
            if each.sequence < made.sequence and not is_silent:
                is_known &= self._put(areas, each.id)
        raise AssertionError(f"operation {kept.hex()} is not in the log")

    def _put(self, areas: Areas, id_: bytes) -> bool:
        """Put back what was staged before an operation; return whether that is known."""
        effect = self._known.get(id_)
        if effect is None:
            return False
        for (branch, path), change in effect.items():
            staged = areas.setdefault(branch, {})
            if change.before == ABSENT:
                staged.pop(path, None)
            else:
                staged[path] = change.before
        return True


def _log(lake: Lake) -> list[Operation]:
    """Return all operations, newest first; also those of a clone that was undone."""
    try:
        repository = logged_repository(lake, "demo")
    except NotFound:
        return []
    with lake.kv.read() as txn:
        return list(iter_operations(txn, repository.key))
