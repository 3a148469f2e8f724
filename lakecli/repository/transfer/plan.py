"""What a recursive transfer would do: a step for each path, and the totals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Self


@dataclass(slots=True)
class ObjectTally:
    """A number of objects, and the sum of their bytes."""

    count: int = 0
    size: int = 0

    def add(self, size: int) -> None:
        """Count one object."""
        self.count += 1
        self.size += size

    def join(self, other: ObjectTally) -> None:
        """Add another tally."""
        self.count += other.count
        self.size += other.size


class PathAction(StrEnum):
    """What a transfer would do with one path, and the reason."""

    NEW = "new"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    EXCLUDED = "excluded"
    DELETED = "deleted"
    FAILED = "failed"


class PathStep(NamedTuple):
    """What a transfer would do with one path.

    Attributes:
        action: also the reason.
        path: of the object; of a file that cannot be uploaded or would be deleted, the path on
            disk.
        size: of the object, in bytes; of one that would be deleted, of what is there.
        error: why it would fail.
    """

    action: PathAction
    path: bytes
    size: int = 0
    error: str = ""


@dataclass(slots=True)
class PlanTotals:
    """The totals of what a recursive transfer would do.

    Attributes:
        new: objects that do not exist at the destination.
        changed: objects that would replace another one.
        unchanged: objects that exist at the destination.
        excluded: objects that the selection leaves out.
        deleted: objects that would be deleted at the destination.
        failures: (path, reason) of objects that would fail, in path order.
    """

    new: ObjectTally = field(default_factory=ObjectTally)
    changed: ObjectTally = field(default_factory=ObjectTally)
    unchanged: ObjectTally = field(default_factory=ObjectTally)
    excluded: ObjectTally = field(default_factory=ObjectTally)
    deleted: ObjectTally = field(default_factory=ObjectTally)
    failures: list[tuple[bytes, str]] = field(default_factory=list)

    @classmethod
    def of(cls, steps: Iterable[PathStep]) -> Self:
        """Return the totals of all steps."""
        plan = cls()
        for _ in plan.counted(steps):
            pass
        return plan

    def counted(self, steps: Iterable[PathStep]) -> Iterator[PathStep]:
        """Yield steps unchanged, and count them."""
        tallies = {
            PathAction.NEW: self.new,
            PathAction.CHANGED: self.changed,
            PathAction.UNCHANGED: self.unchanged,
            PathAction.EXCLUDED: self.excluded,
            PathAction.DELETED: self.deleted,
        }
        for step in steps:
            if step.action is PathAction.FAILED:
                self.failures.append((step.path, step.error))
            else:
                tallies[step.action].add(step.size)
            yield step
