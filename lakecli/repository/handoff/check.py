"""Compare a manifest with the present: which URLs have expired, and which objects have changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import tee

from lakecli.base.model import Entry
from lakecli.errors import Refused
from lakecli.repository.core.lake import Repository
from lakecli.repository.handoff.manifest import Item, Source


class State(StrEnum):
    """The state of an object since the manifest was written."""

    SAME = "same"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Checked:
    """One object of a manifest.

    Attributes:
        path: its path.
        state: by size and checksum, at the ref as it was typed.
        expires_at: when its URL expires or expired.
        left: the time until then; negative if it has expired.
    """

    path: bytes
    state: State
    expires_at: datetime
    left: timedelta

    @property
    def is_expired(self) -> bool:
        """Whether the URL has expired."""
        return self.left.total_seconds() <= 0

    @property
    def is_fine(self) -> bool:
        """Whether the URL is valid, and the object is the one at the ref."""
        return self.state is State.SAME and not self.is_expired


def check(
    repository: Repository, source: Source, items: Iterable[Item], *, now: datetime
) -> Iterator[Checked]:
    """Yield the state of each object, in the manifest's order; no store is read.

    Raises:
        Refused: the manifest is of another repository that has the same name.
        NotFound: the ref is gone.
    """
    if source.uuid != repository.record.uuid:
        raise Refused(
            f"the manifest is of another repository than {repository.uri}",
            hint="check it on the machine where it was written",
        )
    listed, asked = tee(items)
    with repository.reader(source.ref) as reader:
        present = reader.stat_many(item.path for item in asked)
        for item, entry in zip(listed, present, strict=True):
            yield Checked(item.path, _state(entry, item), item.expires_at, item.expires_at - now)


def _state(entry: Entry | None, item: Item) -> State:
    if entry is None:
        return State.REMOVED
    is_same = (entry.checksum, entry.size) == (item.checksum, item.size)
    return State.SAME if is_same else State.CHANGED
