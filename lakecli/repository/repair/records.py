"""Repair report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lakecli.base.model import CommitId
from lakecli.repository.core.findings import Finding, FsckCounts

MAX_AFFECTED: Final = 100
"""Paths remembered for one object."""


class Affected(NamedTuple):
    """A path that needs an object; `commit_id` is ``None`` for an uncommitted one."""

    ref: str
    commit_id: CommitId | None
    path: bytes | None


@dataclass(slots=True)
class Damage:
    """All findings about one object, commit or ref.

    Attributes:
        kind: the kind of the findings.
        name: the name of the findings.
        what: the problem, in one line.
        size: bytes of a data object, if an entry says it.
        affected: paths that need it, at most `MAX_AFFECTED`.
        count: the number of all such paths.
    """

    kind: str
    name: str
    what: str
    size: int | None = None
    affected: list[Affected] = field(default_factory=list)
    count: int = 0

    def add(self, finding: Finding) -> None:
        """Add a finding."""
        if self.size is None:
            self.size = finding.size
        if finding.ref or finding.path is not None:
            self.count += 1
            if len(self.affected) < MAX_AFFECTED:
                self.affected.append(Affected(finding.ref, finding.commit_id, finding.path))


class Repaired(NamedTuple):
    """One repair that was made, or in a dry run would be.

    Attributes:
        kind: the kind of a finding, or ``cache``.
        name: the name of a finding; for a table in the cache, its ID.
        how: how it was repaired, in a few words.
    """

    kind: str
    name: str
    how: str


class Lost(NamedTuple):
    """Something that this clone cannot repair.

    Attributes:
        kind: the kind of a finding.
        name: the name of a finding.
        what: the problem, in one line.
        refs: branches and tags that need it now.
        paths: some of the paths that need it.
        path_count: the number of these paths, as far as it is known.
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
    """What a repair did, updated while it runs; `checked` counts the last check."""

    checked: FsckCounts = field(default_factory=FsckCounts)
    repaired: int = 0
    lost: int = 0
