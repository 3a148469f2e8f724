"""Branches that undo or op restore has put behind the bucket stay there until they move in it.

With automatic sharing, a branch without changes of its own follows the bucket. One that was just
taken back would follow at once, and the undo, which reported success, would be undone. That is of
moves in the bucket that the machine knows: restoring a deleted repository asks the bucket nothing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lakecli.base.layout import ref_key
from lakecli.base.model import RefKind
from lakecli.repository.undo.log import RESTORE, UNDO
from tests.meetings.losses import PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakecli.kv.operations import Operation
    from tests.meetings.world import Machines


class Held:
    """The branches that stay where an undo has put them.

    Args:
        world: whose bucket.
        history: returns all commits that some commits reach.
        known: returns the write ID of the last move of a branch in the bucket that somebody's
            machine knows.
    """

    def __init__(
        self,
        world: Machines,
        history: Callable[[set[str]], set[str]],
        known: Callable[[str, str], str],
    ) -> None:
        self._world = world
        self._history = history
        self._known = known
        self._held: dict[tuple[str, str], str] = {}

    def forget(self) -> None:
        """Expect nothing of branches that were taken back before."""
        self._held.clear()

    def note(self, who: str, operations: Sequence[Operation], *, sync: bool) -> list[str]:
        """Note what a command moved; return the branches that must not have followed the bucket.

        Args:
            who: ran it.
            operations: what it appended to the log, oldest first.
            sync: whether sharing was automatic.
        """
        wrong = []
        for each in operations:
            for change in each.refs:
                before, after = change.commit_before, change.commit_after
                if change.kind is not RefKind.BRANCH or before == after:
                    continue
                there = self._there(change.name)
                held = self._held.pop((who, change.name), None)
                if each.kind == "sync" and held is not None and held == there.get("write_id"):
                    wrong.append(change.name)
                takes_back = sync and each.kind in {UNDO, RESTORE}
                if (
                    takes_back
                    and self._is_behind(before, after, there.get("commit_id"))
                    and self._known(who, change.name) == there["write_id"]
                ):
                    self._held[who, change.name] = there["write_id"]
        return wrong

    def _is_behind(self, before: str | None, here: str | None, there: str | None) -> bool:
        """Tell whether a branch is behind the bucket, which has of it what was taken back."""
        if before is None or here is None or there is None or there == here:
            return False
        has_it = before in self._history({there}) or there in self._history({before})
        return has_it and here in self._history({there})

    def _there(self, branch: str) -> dict[str, Any]:
        """Return the record of a branch in the bucket."""
        stored = self._world.bucket.objects.get(PREFIX + ref_key(RefKind.BRANCH, branch))
        return {} if stored is None else dict(json.loads(stored.body))
