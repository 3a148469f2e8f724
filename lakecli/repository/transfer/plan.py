"""What a recursive transfer would do: a step for each path, and the totals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


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
        tallies: the objects of each action but failures.
        failures: (path, reason) of objects that would fail, in path order.
    """

    tallies: dict[PathAction, ObjectTally] = field(
        default_factory=lambda: {
            action: ObjectTally() for action in PathAction if action is not PathAction.FAILED
        }
    )
    failures: list[tuple[bytes, str]] = field(default_factory=list)

    def counted(self, steps: Iterable[PathStep]) -> Iterator[PathStep]:
        """Yield steps unchanged, and count them."""
        for step in steps:
            if step.action is PathAction.FAILED:
                self.failures.append((step.path, step.error))
            else:
                self.tallies[step.action].add(step.size)
            yield step
