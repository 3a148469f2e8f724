"""Counts of differences, by prefixes of their paths."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lakecli.base.model import ChangeType, Difference
from lakecli.committed.diff import prefix_of
from lakecli.committed.values import decode_entry


@dataclass
class ChangeCounts:
    """The numbers and sizes of the differences below one prefix.

    Attributes:
        prefix: the prefix, with a slash at its end; empty for paths without a directory; ``None``
            for the total, which is the last object.
        added: number of paths that only the right side has.
        removed: number of paths that only the left side has.
        changed: number of paths that differ between the two sides.
        conflicts: number of paths in conflict, which no other number includes.
        bytes_added: size of the added objects in bytes.
        bytes_removed: size of the removed objects in bytes.
        bytes_before: size of the changed objects on the left side in bytes.
        bytes_after: size of the changed objects on the right side in bytes.
    """

    prefix: bytes | None
    added: int = 0
    removed: int = 0
    changed: int = 0
    conflicts: int = 0
    bytes_added: int = 0
    bytes_removed: int = 0
    bytes_before: int = 0
    bytes_after: int = 0

    @property
    def paths(self) -> int:
        """Number of all differing paths."""
        return self.added + self.removed + self.changed + self.conflicts

    def add(self, difference: Difference) -> None:
        """Count a difference by its type, and add the sizes of its objects."""
        before, after = _size(difference.left), _size(difference.right)
        match difference.type:
            case ChangeType.ADDED:
                self.added += 1
                self.bytes_added += after
            case ChangeType.REMOVED:
                self.removed += 1
                self.bytes_removed += before
            case ChangeType.CHANGED:
                self.changed += 1
                self.bytes_before += before
                self.bytes_after += after
            case _:
                self.conflicts += 1


def count_changes(differences: Iterable[Difference], *, depth: int) -> Iterator[ChangeCounts]:
    """Yield the counts of the differences below each prefix, then the total.

    Each path is counted once, under the prefix of its first `depth` directories, or of all its
    directories if it has fewer. The counts of a prefix are yielded after its last path, so longer
    prefixes below it are yielded first.

    Args:
        differences: the differences of two trees, in path order.
    """
    total = ChangeCounts(None)
    open_counts: list[ChangeCounts] = []
    for difference in differences:
        total.add(difference)
        if not depth:
            continue
        prefix = prefix_of(difference.path, depth)
        while open_counts and not prefix.startswith(open_counts[-1].prefix or b""):
            yield open_counts.pop()
        if not open_counts or open_counts[-1].prefix != prefix:
            open_counts.append(ChangeCounts(prefix))
        open_counts[-1].add(difference)
    yield from reversed(open_counts)
    yield total


def _size(value: bytes | None) -> int:
    return 0 if value is None else decode_entry(value).size
