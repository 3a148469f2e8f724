"""Results of transfers: the report of a transfer, and the steps and totals of a dry run."""

from collections.abc import Callable
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

    def join(self, other: "ObjectTally") -> None:
        """Add another tally."""
        self.count += other.count
        self.size += other.size


@dataclass(slots=True)
class TransferReport:
    """What an upload or a download of many objects did.

    Attributes:
        size: total bytes of the objects.
        unchanged: number of objects that the target already had with the same contents, and on a
            branch with the same type and metadata.
        excluded: number of files or objects that the selection leaves out.
        left_out: what was left out because Git, lakecli or the system uses the name: for an upload,
            names of files below the directory; for a download, paths of objects.
        deleted: for an upload, number of objects whose deletion was staged because the directory
            has no such file; for a download, number of files that were deleted because the ref has
            no such object.
        failures: (path, reason), in path order; for an upload, the path is that of the file.
    """

    size: int = 0
    unchanged: int = 0
    excluded: int = 0
    left_out: list[bytes] = field(default_factory=list)
    deleted: int = 0
    failures: list[tuple[bytes, str]] = field(default_factory=list)


class PathAction(StrEnum):
    """What a transfer would do with one path: new and changed objects are transferred."""

    NEW = "new"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    EXCLUDED = "excluded"
    DELETED = "deleted"
    FAILED = "failed"


class PathStep(NamedTuple):
    """What a transfer would do with one path.

    Attributes:
        path: the path of the object; if a file cannot be uploaded or would be deleted, the path of
            the file on disk.
        size: the size in bytes of the object, or of the file or object that would be deleted.
    """

    action: PathAction
    path: bytes
    size: int = 0
    error: str = ""


Listed = Callable[[PathStep], None]
"""A callback that a dry run calls with the step that would be taken for each path."""


@dataclass(slots=True)
class PlanTotals:
    """The totals of what a recursive transfer would do.

    Attributes:
        tallies: the number and the total size of the objects, for each action except failures.
        failures: (path, reason) of objects that would fail, in path order.
    """

    tallies: dict[PathAction, ObjectTally] = field(
        default_factory=lambda: {
            action: ObjectTally() for action in PathAction if action is not PathAction.FAILED
        }
    )
    failures: list[tuple[bytes, str]] = field(default_factory=list)

    def count(self, step: PathStep) -> None:
        """Count a step."""
        if step.action is PathAction.FAILED:
            self.failures.append((step.path, step.error))
        else:
            self.tallies[step.action].add(step.size)
