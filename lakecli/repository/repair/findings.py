"""What `fsck` reports: findings and counts."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakecli.base.model import CommitId


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem.

    Attributes:
        kind: ``repository``, ``ref``, ``commit``, ``pack``, ``metarange``, ``range``, ``entry``,
            ``data`` or ``external``.
        name: the ref, the commit ID or the object's key; for a ref in the bucket, its key.
        what: the problem, in one line.
        path: the path of the affected entry, if there is one.
        ref: a branch or tag that reaches it.
        commit_id: the commit whose tree holds the path; ``None`` for a staged path.
        size: bytes of a data object, as its entry says; ``None`` if unknown.
    """

    kind: str
    name: str
    what: str
    path: bytes | None = None
    ref: str = ""
    commit_id: CommitId | None = None
    size: int | None = None


@dataclass(slots=True)
class FsckCounts:
    """What was checked; updated while the check runs."""

    refs: int = 0
    commits: int = 0
    metaranges: int = 0
    ranges: int = 0
    entries: int = 0
    objects: int = 0
    bytes_hashed: int = 0
    external: int = 0
    external_asked: int = 0
    external_not_allowed: int = 0
    places: dict[str, int] = field(default_factory=dict)
    expired: int = 0
    """Trees of old commits that garbage collection has deleted by the retention rules."""
    findings: int = 0
    damaged_refs: set[str] = field(default_factory=set)
