"""What repairing tells."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.repository.core.findings import FsckCounts

if TYPE_CHECKING:
    from lakecli.model import CommitId
    from lakecli.repository.core.findings import Finding

MAX_HURTS: Final = 100
"""Paths remembered of one object."""


class Hurt(NamedTuple):
    """A path that needs an object; `commit_id` is ``None`` for what is uncommitted."""

    ref: str
    commit_id: CommitId | None
    path: bytes | None


@dataclass(slots=True)
class Damage:
    """All findings about one thing.

    Attributes:
        kind: as in a finding.
        name: likewise.
        what: is wrong.
        size: of a data object, in bytes, where an entry says it.
        hurts: `MAX_HURTS` at most.
        count: of all that it hurts.
    """

    kind: str
    name: str
    what: str
    size: int | None = None
    hurts: list[Hurt] = field(default_factory=list)
    count: int = 0

    def add(self, finding: Finding) -> None:
        """Take a finding in."""
        if self.size is None:
            self.size = finding.size
        if finding.ref or finding.path is not None:
            self.count += 1
            if len(self.hurts) < MAX_HURTS:
                self.hurts.append(Hurt(finding.ref, finding.commit_id, finding.path))


class Repaired(NamedTuple):
    """One thing that was mended, or in a dry run would be.

    Attributes:
        kind: as in a finding, or ``cache``.
        name: likewise; of a table in the cache, its ID.
        how: in a few words.
    """

    kind: str
    name: str
    how: str


class Lost(NamedTuple):
    """What cannot be mended from here.

    Attributes:
        kind: as in a finding.
        name: likewise.
        what: is wrong.
        refs: branches and tags that it hurts as they are now.
        paths: that it hurts, some of them.
        path_count: of the paths, as far as that is known.
        advice: what to do.
    """

    kind: str
    name: str
    what: str
    refs: tuple[str, ...]
    paths: tuple[bytes, ...]
    path_count: int
    advice: str


@dataclass(slots=True)
class RepairCounts:
    """What a repair did, updated while it runs; `checked` is of the last check."""

    checked: FsckCounts = field(default_factory=FsckCounts)
    repaired: int = 0
    lost: int = 0
