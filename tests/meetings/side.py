"""A repository of each person's own, and what is carried between it and the shared one.

Its namespace is in the same bucket, so that the store copies the objects. Nobody shares it, so what
is staged there is all that it holds, and the model predicts it. Each repository has a log of its
own: an undo takes back the part of a move that concerns it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakecli.base.layout import data_key
from lakecli.cli.exit_codes import ExitCode
from lakecli.committed.values import decode_entry
from lakecli.repository.reading.view import open_view
from lakecli.repository.undo.log import REDOES, UNDOES, iter_log
from tests.meetings.arguments import OUTSIDE, REPOSITORY, SIDE
from tests.meetings.model import LOG_KEPT, PEOPLE, Staged, Tree, shown
from tests.meetings.team import Team, checksum_of
from tests.meetings.world import BUCKET

if TYPE_CHECKING:
    from datetime import datetime

    from lakecli.kv.operations import Operation
    from tests.meetings.world import Machines

Effect = dict[str, tuple[str | None, str | None]]
"""What was at each path before and after an operation."""

_UNDO: Final = 0
_REDO: Final = 1


class TeamWithSides(Team):
    """A team whose people carry objects between repositories.

    Args:
        world: with an empty bucket.
    """

    def __init__(self, world: Machines) -> None:
        super().__init__(world)
        self.sides: dict[str, Tree] = {}
        """What each person's own repository holds, of those who have one."""
        self._effects: dict[bytes, Effect] = {}
        self._seen: dict[str, set[bytes]] = {person: set() for person in PEOPLE}
        self.undoable: dict[str, list[int]] = {person: [0, 0] for person in PEOPLE}
        """How many operations can be undone there, and redone."""
        self._carried_at: dict[str, datetime] = {}
        """When a person's own repository changed for the first time."""

    def carry_out(
        self, person: str, branch: str, path: str, to: str, *, moves: bool, sync: bool
    ) -> None:
        """Copy or move a path of the shared repository to a person's own."""
        carried: list[str] = []

        def stages() -> tuple[str, Staged]:
            carried.append(self.contents_of(person, branch)[path])
            return branch, {path: None} if moves else {}

        self._create_side(person, sync=sync)
        places = (f"{REPOSITORY}/{branch}/{path}", f"{SIDE}/main/{to}")
        self.run(person, "fs", "mv" if moves else "cp", *places, sync=sync, stages=stages)
        after = dict(self.sides[person])
        after.update((to, each) for each in carried)
        self._compare_side(person, after)

    def carry_in(
        self, person: str, path: str, branch: str, to: str, *, moves: bool, sync: bool
    ) -> None:
        """Copy or move a path of a person's own repository to the shared one."""
        after = dict(self.sides[person])
        carried = after.pop(path) if moves else after[path]
        places = (f"{SIDE}/main/{path}", f"{REPOSITORY}/{branch}/{to}")
        reply = self.run(
            person,
            *("fs", "mv" if moves else "cp", *places),
            sync=sync,
            stages=lambda: (branch, {to: carried}),
        )
        self._compare_side(person, after if reply.exit_code == ExitCode.OK else self.sides[person])

    def take_back_side(self, person: str, verb: str, *, sync: bool) -> None:
        """Undo or redo an operation of a person's own repository; nothing moves in the other."""
        reply = self.run(person, verb, SIDE, sync=sync)
        if reply.exit_code != ExitCode.OK:
            assert self.world.now - self._carried_at[person] >= LOG_KEPT, self.story()
            self.undoable[person] = [0, 0]
            return
        made = next(each for each in self._new_operations(person) if _concerned(each) is not None)
        concerned = _concerned(made)
        assert concerned is not None
        after: dict[str, str | None] = dict(self.sides[person])
        for path, (old, new) in self._effects[concerned].items():
            after[path] = old if verb == "undo" else new
        self._check_side(person, {path: each for path, each in after.items() if each is not None})
        taken, given = (_UNDO, _REDO) if verb == "undo" else (_REDO, _UNDO)
        self.undoable[person][taken] -= 1
        self.undoable[person][given] += 1

    def check_from_scratch(self) -> None:
        """Check the bucket as the team does, and that no own repository lacks anything."""
        super().check_from_scratch()
        for person in self.sides:
            reply = self.world(person, ["fsck", SIDE, "--data"])
            assert reply.exit_code == ExitCode.OK, f"{reply}\n{self.story()}"

    def _create_side(self, person: str, *, sync: bool) -> None:
        if person not in self.sides:
            place = f"memory://{BUCKET}/side-{person}"
            self.run(person, "repo", "create", SIDE, place, "--range-entries", "16", sync=sync)
            self.sides[person] = {}
            self._new_operations(person)

    def _compare_side(self, person: str, after: Tree) -> None:
        """Compare a person's own repository with what it should hold after a command."""
        before = self.sides[person]
        paths = before.keys() | after.keys()
        effect = {path: (before.get(path), after.get(path)) for path in paths}
        for each in self._new_operations(person):
            if each.kind in {"cp", "mv"}:
                self._effects[each.id] = effect
                self._carried_at.setdefault(person, self.world.now)
                self.undoable[person][_UNDO] += 1
                self.undoable[person][_REDO] = 0
        self._check_side(person, after)

    def _check_side(self, person: str, expected: Tree) -> None:
        with self.open_lake(person) as lake, open_view(lake.repository("side"), "main") as view:
            found = {path.decode(): shown(decode_entry(value)) for path, value in view.scan()}
        assert found == expected, f"{person}'s own: {found} is not {expected}\n{self.story()}"
        for each in {each.split()[0] for each in found.values()} - {checksum_of(OUTSIDE)}:
            key = f"side-{person}/{data_key(each)}"
            assert key in self.world.bucket.objects, f"{key} is missing\n{self.story()}"
        self.sides[person] = found

    def _new_operations(self, person: str) -> list[Operation]:
        """Return the operations that were appended to the log of a person's own repository."""
        with self.open_lake(person) as lake:
            found = [each.operation for each in iter_log(lake.repository("side"))]
        fresh = [each for each in found if each.id not in self._seen[person]]
        self._seen[person].update(each.id for each in fresh)
        return fresh


def _concerned(operation: Operation) -> bytes | None:
    """Return the ID of the operation that one has undone or redone."""
    for key in (UNDOES, REDOES):
        if key in operation.metadata:
            return bytes.fromhex(operation.metadata[key])
    return None
