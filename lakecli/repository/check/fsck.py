"""Checking that everything a repository's refs can reach is there and is what its name says.

Data objects first: one listing of ``data/`` (and with `hash_data` one reading of every byte) goes
into an index on disk. Then every ref, its commits, their metaranges and ranges, each once however
many commits share it; every entry in them is looked up in the index. What is staged is checked as
well. The bucket is read, never the cache.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from lakecli.committed.check import CheckedEntry, Problem, check_metarange, check_range
from lakecli.committed.values import decode_entry
from lakecli.errors import IntegrityError
from lakecli.layout import REPOSITORY, sstable_key
from lakecli.objectstore.base import ObjectNotFound
from lakecli.objectstore.capabilities import clear_temporaries
from lakecli.progress import NO_PROGRESS, Progress
from lakecli.refs.graph import iter_reached
from lakecli.refs.store import RefStore
from lakecli.repository.check.external import BATCH, Recorded, ask_all
from lakecli.repository.core import outside
from lakecli.repository.core.commit_record import describe_commit
from lakecli.repository.core.data_index import DataIndex
from lakecli.repository.core.namespace import owner_of
from lakecli.staging.area import TOMBSTONE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from lakecli.committed.metaranges import RangeRecord
    from lakecli.kv.env import ReadTransaction
    from lakecli.model import Branch, Commit, CommitId, MetarangeId, RangeId
    from lakecli.objectstore.base import ObjectInfo
    from lakecli.repository.core.data_index import Hashed
    from lakecli.repository.core.lake import Repository

MAX_REMEMBERED: Final = 100_000
"""Findings remembered so that none is told twice; after that many, some may be."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        kind: ``repository``, ``ref``, ``commit``, ``pack``, ``metarange``, ``range``, ``entry``,
            ``data`` or ``external``.
        name: the ref, the commit ID or the object's key; of a ref in the bucket, its key.
        what: is wrong, in one line.
        path: the object's path, where it is about one.
        ref: a branch or tag through which it was reached.
        commit_id: the commit whose tree holds it; ``None`` for what is staged.
        size: of a data object, as its entry says; ``None`` where none is known.
    """

    kind: str
    name: str
    what: str
    path: bytes | None = None
    ref: str = ""
    commit_id: CommitId | None = None
    size: int | None = None


class Sound(NamedTuple):
    """A range in which nothing is wrong.

    Attributes:
        entries: in it.
        outside: how many of them have their bytes in which places outside the namespace.
    """

    entries: int
    outside: Mapping[str, int]


class Bulk(Protocol):
    """What does the work that grows with the data, somewhere else."""

    def hash_objects(self, objects: Iterator[ObjectInfo]) -> Iterator[Hashed]:
        """Read data objects and compare them with their names, in any order."""

    def sound_ranges(
        self, records: Iterator[RangeRecord], index: DataIndex
    ) -> Mapping[RangeId, Sound]:
        """Return those of some ranges in which nothing is wrong; all others are looked at here."""


@dataclass(frozen=True, slots=True)
class Thoroughness:
    """How much is looked at.

    Attributes:
        hash_data: read data objects and compare their BLAKE3 with their names.
        sample: of the data objects, from 0 to 1; all by default.
        bulk: what does the work that grows with the data; this process by default.
        external: ask for every object outside the namespace, and compare it with its entry.
    """

    hash_data: bool = False
    sample: float = 1.0
    bulk: Bulk | None = None
    external: bool = False


@dataclass(slots=True)
class FsckCounts:
    """What was checked, updated while it runs."""

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
    findings: int = 0
    damaged_refs: set[str] = field(default_factory=set)


def fsck(
    repository: Repository,
    *,
    hash_data: bool = False,
    counts: FsckCounts | None = None,
    thoroughness: Thoroughness | None = None,
    progress: Progress = NO_PROGRESS,
) -> Iterator[Finding]:
    """Yield everything that is wrong with a repository, as it is noticed.

    Args:
        repository: to check.
        hash_data: read every data object and compare its BLAKE3 with its name.
        counts: updated while the check runs.
        thoroughness: what to look at, in place of `hash_data`.
        progress: counts the objects and bytes that are hashed.

    Raises:
        Unreachable: the store does not answer; what it holds is not known then.
    """
    clear_temporaries(repository.store)
    how = thoroughness or Thoroughness(hash_data=hash_data)
    checker = _Checker(repository, counts or FsckCounts(), how)
    with DataIndex() as index:
        found = index.fill(
            repository.store,
            hash_data=how.hash_data,
            progress=progress,
            hasher=None if how.bulk is None else how.bulk.hash_objects,
            takes=None
            if how.sample >= 1
            else _sampler(how.sample, repository.lake.random_number()),
        )
        damaged = dict(found)
        checker.counts.objects = index.count
        checker.counts.bytes_hashed = index.bytes_hashed
        with repository.lake.kv.read() as txn:
            yield from checker.check_claim()
            if how.bulk is not None and not how.external:
                checker.look_ahead(txn, how.bulk, index)
            yield from checker.check_refs(txn, index)
            yield from checker.check_external()
            yield from checker.check_shared(txn)
        # What a path refers to was told with that path.
        for key in sorted(damaged.keys() - checker.hurting):
            yield from checker.tell(Finding("data", key, damaged[key]))


def count_entries(repository: Repository) -> int | None:
    """Return how many entries the largest head has; ``None`` if one of the heads cannot be read.

    Only metaranges are read.
    """
    with repository.lake.kv.read() as txn:
        refs = RefStore(txn, repository.key)
        heads = {branch.commit_id for branch in refs.iter_branches()}
        trees = {commit.metarange_id for head in heads if (commit := refs.find_commit(head))}
    try:
        return max(
            (
                sum(each.count for each in repository.trees.metarange(tree).records())
                for tree in trees
            ),
            default=0,
        )
    except IntegrityError:
        return None


def _sampler(part: float, offset: float) -> Callable[[str], bool]:
    """Choose a part of all digests, another one for each offset."""
    return lambda digest: (int(digest[:12], 16) / 16**12 + offset) % 1 < part


class _Checker:
    def __init__(self, repository: Repository, counts: FsckCounts, how: Thoroughness) -> None:
        self._repository = repository
        self._how = how
        self._external: list[tuple[CheckedEntry, str, CommitId | None]] = []
        self._store = repository.store
        self.counts = counts
        self.hurting: set[str] = set()
        """Keys of data objects that some path misses."""
        self._told: set[tuple[str, str, bytes | None]] = set()
        self._commits: set[CommitId] = set()
        self._metaranges: set[MetarangeId] = set()
        self._ranges: set[RangeId] = set()
        self._sound: Mapping[RangeId, Sound] = {}

    def tell(self, finding: Finding) -> Iterator[Finding]:
        """Yield a finding unless it was told already."""
        identity = (finding.kind, finding.name, finding.path)
        if identity in self._told:
            return
        if len(self._told) < MAX_REMEMBERED:
            self._told.add(identity)
        self.counts.findings += 1
        if finding.ref:
            self.counts.damaged_refs.add(finding.ref)
        yield finding

    @cached_property
    def _expired(self) -> frozenset[str]:
        """The trees that were deleted on purpose; only asked for once one has a problem."""
        from lakecli.remote.collection import iter_expired

        return frozenset(iter_expired(self._store))

    def check_claim(self) -> Iterator[Finding]:
        """Check that the namespace is this repository's."""
        try:
            owner = owner_of(self._store)
        except IntegrityError as error:
            yield from self.tell(Finding("repository", REPOSITORY, error.message))
            return
        if owner is None:
            yield from self.tell(Finding("repository", REPOSITORY, "missing"))
        elif owner != self._repository.record.uuid:
            what = f"the namespace belongs to repository {owner}"
            yield from self.tell(Finding("repository", REPOSITORY, what))

    def look_ahead(self, txn: ReadTransaction, bulk: Bulk, index: DataIndex) -> None:
        """Have all ranges looked at, so that only those with something wrong are read here."""
        refs = RefStore(txn, self._repository.key)
        self._sound = bulk.sound_ranges(_all_ranges(self._repository, refs), index)

    def check_shared(self, txn: ReadTransaction) -> Iterator[Finding]:
        """Check the refs and the commit packs in the bucket."""
        from lakecli.repository.check.fsck_shared import check_shared

        for finding in check_shared(self._repository, txn):
            yield from self.tell(finding)

    def check_refs(self, txn: ReadTransaction, index: DataIndex) -> Iterator[Finding]:
        """Check what every branch and tag reaches: their own trees first, then the history."""
        refs = RefStore(txn, self._repository.key)
        heads: list[tuple[str, CommitId]] = []
        for branch in refs.iter_branches():
            heads.append((branch.name, branch.commit_id))
            yield from self._check_staging(txn, branch, index)
        heads += [(tag.name, tag.commit_id) for tag in refs.iter_tags()]
        self.counts.refs = len(heads)
        for name, commit_id in heads:
            if refs.find_commit(commit_id) is None:
                yield from self.tell(Finding("ref", name, f"its commit is missing: {commit_id}"))
        for name, commit_id in heads:
            yield from self._check_commit(refs, name, commit_id, index)
        for name, commit_id in heads:
            yield from self._check_history(refs, name, commit_id, index)

    def _check_history(
        self, refs: RefStore, name: str, head: CommitId, index: DataIndex
    ) -> Iterator[Finding]:
        waiting = [head]
        seen: set[CommitId] = set()
        while waiting:
            commit_id = waiting.pop()
            if commit_id in seen:
                continue
            seen.add(commit_id)
            already = commit_id in self._commits and commit_id != head
            commit = refs.find_commit(commit_id)
            if commit is None or already:
                continue
            yield from self._check_commit(refs, name, commit_id, index)
            waiting += commit.parents

    def _check_commit(
        self, refs: RefStore, name: str, commit_id: CommitId, index: DataIndex
    ) -> Iterator[Finding]:
        if commit_id in self._commits:
            return
        commit = refs.find_commit(commit_id)
        if commit is None:
            return
        self._commits.add(commit_id)
        self.counts.commits += 1
        for what in problems_of_commit(refs, commit):
            yield from self.tell(Finding("commit", commit_id, what, ref=name, commit_id=commit_id))
        yield from self._check_tree(name, commit, index)

    def _check_tree(self, name: str, commit: Commit, index: DataIndex) -> Iterator[Finding]:
        tree = commit.metarange_id
        if not tree or tree in self._metaranges:
            return
        self._metaranges.add(tree)
        self.counts.metaranges += 1
        records, problems = check_metarange(self._repository.trees, tree)
        if problems and tree in self._expired and self._is_gone(tree):
            return  # garbage collection let it go, as the retention rules say
        for problem in problems:
            yield from self.tell(_finding("metarange", problem, name, commit))
        for record in records:
            if record.id in self._ranges:
                continue
            self._ranges.add(record.id)
            self.counts.ranges += 1
            sound = self._sound.get(record.id)
            if sound is not None:
                self.counts.entries += sound.entries
                for place, objects in sound.outside.items():
                    self.counts.external += objects
                    outside.count(self.counts.places, place, objects)
                continue
            for item in check_range(self._repository.trees, record):
                if isinstance(item, Problem):
                    kind = "range" if item.path is None else "entry"
                    yield from self.tell(_finding(kind, item, name, commit))
                else:
                    yield from self._check_entry(item, name, commit.id, index)

    def _is_gone(self, tree: MetarangeId) -> bool:
        """Return whether the object is missing; one that is damaged did not expire."""
        try:
            self._store.head(sstable_key(tree))
        except ObjectNotFound:
            return True
        return False

    def _check_entry(
        self, entry: CheckedEntry, name: str, commit_id: CommitId | None, index: DataIndex
    ) -> Iterator[Finding]:
        self.counts.entries += 1
        if "://" in entry.physical_address:
            self.counts.external += 1
            outside.count(self.counts.places, outside.place_of(entry.physical_address))
            if self._how.external:
                self._external.append((entry, name, commit_id))
                if len(self._external) >= BATCH:
                    yield from self.check_external()
            return
        what = index.problem_of(entry.physical_address, entry.size)
        if what is not None:
            if len(self.hurting) < MAX_REMEMBERED:
                self.hurting.add(entry.physical_address)
            yield from self.tell(
                Finding(
                    "data", entry.physical_address, what, entry.path, name, commit_id, entry.size
                )
            )

    def check_external(self) -> Iterator[Finding]:
        """Ask for the objects outside the namespace that were met since the last time."""
        waiting, self._external = self._external, []
        recorded = [
            Recorded(entry.physical_address, entry.size, entry.checksum, entry.modified_at)
            for entry, _, _ in waiting
        ]
        answers = ask_all(self._repository.addresses, recorded, reads=self._how.hash_data)
        for (entry, name, commit_id), answer in zip(waiting, answers, strict=True):
            self.counts.external_asked += answer.asked
            self.counts.external_not_allowed += not answer.asked
            if answer.problem is not None:
                what, where = answer.problem, entry.physical_address
                yield from self.tell(
                    Finding("external", where, what, entry.path, name, commit_id, entry.size)
                )

    def _check_staging(
        self, txn: ReadTransaction, branch: Branch, index: DataIndex
    ) -> Iterator[Finding]:
        from lakecli.staging import area

        for token in (branch.staging_token, *branch.sealed_tokens):
            for path, value in area.scan(txn, token):
                if value == TOMBSTONE:
                    continue
                try:
                    entry = decode_entry(value)
                except IntegrityError as error:
                    yield from self.tell(
                        Finding("entry", branch.name, error.message, path, branch.name)
                    )
                    continue
                checked = CheckedEntry(
                    path, entry.physical_address, entry.size, entry.checksum, entry.modified_at
                )
                yield from self._check_entry(checked, branch.name, None, index)


def _all_ranges(repository: Repository, refs: RefStore) -> Iterator[RangeRecord]:
    """Yield every range that a ref reaches, each once; what cannot be read is passed over."""
    heads = [branch.commit_id for branch in refs.iter_branches()]
    heads += [tag.commit_id for tag in refs.iter_tags()]
    trees: set[MetarangeId] = set()
    ranges: set[RangeId] = set()
    for _, commit in iter_reached(refs, heads):
        if commit is None or commit.metarange_id in trees:
            continue
        trees.add(commit.metarange_id)
        for record in check_metarange(repository.trees, commit.metarange_id)[0]:
            if record.id not in ranges:
                ranges.add(record.id)
                yield record


def _finding(kind: str, problem: Problem, ref: str, commit: Commit) -> Finding:
    return Finding(kind, problem.key, problem.what, problem.path, ref, commit.id)


def problems_of_commit(refs: RefStore, commit: Commit) -> Iterable[str]:
    """Yield what is wrong with a commit's record."""
    parents = []
    for parent_id in commit.parents:
        parent = refs.find_commit(parent_id)
        if parent is None:
            yield f"its parent is missing: {parent_id}"
        else:
            parents.append(parent)
    if len(parents) == len(commit.parents):
        anew = describe_commit(
            parents=parents,
            metarange_id=commit.metarange_id,
            message=commit.message,
            committer=commit.committer,
            created_at=commit.created_at,
            metadata=commit.metadata,
        )
        if anew.id != commit.id:
            yield f"its fields make another ID: {anew.id}"
        if anew.generation > commit.generation:
            yield f"its generation {commit.generation} is not above its parents'"


def summarise(counts: FsckCounts) -> IntegrityError | None:
    """Return the error for a check that found something, or ``None``."""
    if not counts.findings:
        return None
    refs = ", ".join(sorted(counts.damaged_refs)[:10])
    where = f"; reached from {refs}" if refs else ""
    return IntegrityError(
        f"{counts.findings} problem{'s' if counts.findings > 1 else ''} found{where}",
        hint="upload the named paths again, or restore the named objects from a backup",
    )
