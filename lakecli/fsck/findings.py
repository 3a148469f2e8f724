"""The reports of `fsck` and its repair: findings, counts, defects, and unrecoverable losses."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lakecli.base.model import Commit, CommitId
from lakecli.refs.ref_store import RefStore
from lakecli.repository.reading.outside_counts import CountedPlace
from lakecli.repository.stored_objects import DamagedObject


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem that `fsck` found.

    Attributes:
        kind: ``repository``, ``ref``, ``commit``, ``pack``, ``metarange``, ``range``, ``entry``,
            ``data`` or ``external``.
        name: the ref, the commit ID or the object's key; for a ref in the bucket, its key.
        path: the path of the affected entry, if there is one.
        ref: a branch or tag that reaches the object, commit or ref.
        commit_id: the commit whose tree has the path; ``None`` for a staged path.
        size: the size of a data object in bytes, from its entry; ``None`` if unknown.
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
    """The numbers of checked objects; a check updates them while it runs.

    An object may be missing if only old commits that lakeFS made refer to it, because lakeFS's
    garbage collection deletes such objects.

    Attributes:
        refs: number of branches and tags checked.
        commits: number of commits checked.
        metaranges: number of metaranges checked.
        ranges: number of ranges checked.
        entries: number of entries checked.
        objects: number of data objects in the storage namespace.
        bytes_hashed: bytes read with --data or --sample.
        external: number of entries outside the storage namespace.
        external_asked: with --external, number of entries outside the storage namespace whose
            objects were checked.
        external_archived: with --external, number of checked objects outside the storage namespace
            that are archived, and must be restored before they can be read.
        expired: number of trees of old commits that garbage collection has deleted by retention
            rules.
        unverified: with --data, number of objects of lakeFS whose bytes do not match the recorded
            checksum; such objects may be undamaged.
        collected: number of missing objects that only old commits of lakeFS refer to.
        outside: places of objects outside the storage namespace.
    """

    refs: int = 0
    commits: int = 0
    metaranges: int = 0
    ranges: int = 0
    entries: int = 0
    objects: int = 0
    bytes_hashed: int = 0
    external: int = 0
    external_asked: int = 0
    external_archived: int = 0
    places: dict[str, int] = field(default_factory=dict)
    expired: int = 0
    unverified: int = 0
    collected: int = 0
    findings: int = 0
    damaged_refs: set[str] = field(default_factory=set)
    outside: Sequence[CountedPlace] = ()


MAX_AFFECTED: Final = 100
"""Maximum number of affected paths that are kept for one object."""


class Affected(NamedTuple):
    """A path whose entry needs a damaged or missing object; staged paths have no `commit_id`."""

    ref: str
    commit_id: CommitId | None
    path: bytes | None


@dataclass(slots=True)
class Defect(DamagedObject):
    """All findings about one object, commit or ref.

    Attributes:
        affected: paths that need the object, at most `MAX_AFFECTED`.
        count: the number of all paths that need the object.
    """

    affected: list[Affected] = field(default_factory=list)
    count: int = 0

    def add(self, finding: Finding) -> None:
        """Add a finding about this object: its size, and the path that needs the object."""
        if self.size is None:
            self.size = finding.size
        if finding.ref or finding.path is not None:
            self.count += 1
            if len(self.affected) < MAX_AFFECTED:
                self.affected.append(Affected(finding.ref, finding.commit_id, finding.path))


class Unrecoverable(NamedTuple):
    """An object, commit or ref that this clone cannot repair.

    Attributes:
        refs: branches and tags that need the object now.
        paths: some of the paths that need the object.
        path_count: the number of paths that need the object, as far as the number is known.
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
    """Counts of repairs and losses, updated during a repair, and the counts of the last check."""

    checked: FsckCounts = field(default_factory=FsckCounts)
    repaired: int = 0
    lost: int = 0


def problems_of_commit(refs: RefStore, commit: Commit) -> Iterator[str]:
    """Yield a text for each defect of a commit: parents, generation and ID."""
    for parent_id in commit.parents:
        parent = refs.find_commit(parent_id)
        if parent is None:
            yield f"its parent is missing: {parent_id}"
        elif parent.generation >= commit.generation:
            yield f"its generation {commit.generation} is not above its parents'"
    if (actual := commit.compute_id()) != commit.id:
        yield f"its fields make another ID: {actual}"
