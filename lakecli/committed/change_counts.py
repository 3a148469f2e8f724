"""Differences counted by prefix: how many paths, and how many bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lakecli.committed.values import decode_entry
from lakecli.model import ChangeType, Difference

DELIMITER = b"/"


class ChangeCounts:
    """The differences below one prefix.

    Attributes:
        prefix: of the paths, with its slash; ``b""`` for the top; ``None`` for all paths together.
        added: paths that only the right side has.
        removed: paths that only the left side has.
        changed: paths that both sides have.
        conflicts: paths in conflict, counted nowhere else.
        bytes_added: size of what was added.
        bytes_removed: size of what was removed.
        bytes_before: size on the left side of what changed.
        bytes_after: size on the right side of what changed.
    """

    __slots__ = (
        "added",
        "bytes_added",
        "bytes_after",
        "bytes_before",
        "bytes_removed",
        "changed",
        "conflicts",
        "prefix",
        "removed",
    )

    def __init__(self, prefix: bytes | None) -> None:
        self.prefix = prefix
        self.added = self.removed = self.changed = self.conflicts = 0
        self.bytes_added = self.bytes_removed = self.bytes_before = self.bytes_after = 0

    @property
    def paths(self) -> int:
        """Number of paths."""
        return self.added + self.removed + self.changed + self.conflicts

    def add(self, difference: Difference) -> None:
        """Count one path."""
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
    """Yield the counts of each prefix, and at the end those of all paths.

    A path counts for one prefix: its first directories, at most `depth` of them. The counts of a
    prefix come when all of its paths have been counted, so those below it come before.

    Args:
        differences: in path order.
        depth: how many directories a prefix has at most; 0 for the total only.
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


def prefix_of(path: bytes, depth: int) -> bytes:
    """Return the first directories of a path, at most `depth`, with a slash; ``b""`` for none."""
    parts = path.split(DELIMITER, depth)
    return path[: len(path) - len(parts.pop())] if parts else b""


def _size(value: bytes | None) -> int:
    return 0 if value is None else decode_entry(value).size
