"""Comparing a manifest with the present: what has ended, and what is no longer the same."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from lakecli.committed.values import decode_entry
from lakecli.errors import Refused
from lakecli.repository.core.view import open_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime, timedelta

    from lakecli.repository.core.lake import Repository
    from lakecli.repository.core.view import View
    from lakecli.repository.handoff.manifest import Item, Source


class State(StrEnum):
    """What became of an object since the manifest was written."""

    SAME = "same"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Checked:
    """One object of a manifest.

    Attributes:
        state: by size and checksum, at the ref as it was typed.
        expires_at: when its URL ends or ended.
        left: how long that is from now; negative where it is over.
    """

    path: bytes
    state: State
    expires_at: datetime
    left: timedelta

    @property
    def is_expired(self) -> bool:
        """Whether the URL has ended."""
        return self.left.total_seconds() <= 0

    @property
    def is_fine(self) -> bool:
        """Whether the URL still works, and gives what the ref has."""
        return self.state is State.SAME and not self.is_expired


def check(
    repository: Repository, source: Source, items: Iterable[Item], *, now: datetime
) -> Iterator[Checked]:
    """Yield what became of each object, in the manifest's order; no store is asked.

    Raises:
        Refused: the manifest is of another repository that has the same name.
        NotFound: the ref is gone.
    """
    if source.uuid != repository.record.uuid:
        raise Refused(
            f"the manifest is of another repository than {repository.uri}",
            hint="check it on the machine where it was written",
        )
    with open_view(repository, source.ref) as view:
        for item in items:
            yield Checked(item.path, _state(view, item), item.expires_at, item.expires_at - now)


def _state(view: View, item: Item) -> State:
    value = view.find(item.path)
    if value is None:
        return State.REMOVED
    entry = decode_entry(value)
    is_same = (entry.checksum, entry.size) == (item.checksum, item.size)
    return State.SAME if is_same else State.CHANGED
