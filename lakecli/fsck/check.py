"""Check that everything a repository's refs reach is in the bucket and matches its name.

Data objects come first: a listing of ``data/`` is stored in an index on disk. With `hash_data`, the
contents of the objects are read, too. Then every ref, its commits, their metaranges and their
ranges are checked, each only once, however many commits share it. Every entry, including staged
entries, is looked up in the index. Everything is read from the bucket, not from the cache.

Last come the ref objects and commit packs that clones share in the bucket. Every ref object must be
valid. Its commit must be in a pack, and so must all ancestors of the commit. The commit's tree must
exist, whatever garbage collection has deleted. If this clone has recorded that a commit is in a
pack, the commit must be in a pack, since a push does not upload the commit again.

On Spark there is no index on disk: all references are compared with the listing in one join, and
this process reads only the ranges with problems again. So the findings and their order are the same
as without Spark.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from lakecli.base import ids, layout
from lakecli.base.model import Branch, Commit, CommitId, MetarangeId, RangeId
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.committed import metaranges, values
from lakecli.committed.check import CheckedEntry, Problem, check_metarange, check_range
from lakecli.doctor.evidence import read_evidence
from lakecli.engine.runner import LocalRunner, Runner
from lakecli.errors import IntegrityError, Refused
from lakecli.fsck.findings import Finding, FsckCounts, problems_of_commit
from lakecli.fsck.hashing import UNVERIFIED, Hashing, LakeFsContents, compare_contents, hash_objects
from lakecli.fsck.index import JoinedIndex, open_index
from lakecli.kv.bucket import PackedStore
from lakecli.kv.local_store import ReadTransaction
from lakecli.refs.graph import iter_reached
from lakecli.remote import gc_protocol, ref_records
from lakecli.remote.packs import DamagedPack, read_new_packs
from lakecli.remote.policy import read_policy
from lakecli.remote.refs import find_ref, iter_refs
from lakecli.repository.contract import Repository
from lakecli.repository.handle.namespace import origin_of, owner_of
from lakecli.repository.policy.rules import rules_of
from lakecli.repository.reading.addresses import Trust, trust_of
from lakecli.repository.reading.contents import BATCH, ask_all
from lakecli.repository.reading.outside_counts import count_place, place_of_address
from lakecli.repository.reading.recorded import Recorded
from lakecli.repository.stored_objects import MISSING, DataIndex
from lakecli.staging import area
from lakecli.staging.area import TOMBSTONE
from lakecli.stores import capabilities, contract

MAX_REMEMBERED: Final = 100_000
"""Maximum number of findings, and of objects, that are remembered to avoid duplicates.

Further findings may be reported twice.
"""


def fsck(
    repository: Repository,
    *,
    hash_data: bool = False,
    sample: float = 1.0,
    external: bool = False,
    runner: Runner | None = None,
    counts: FsckCounts | None = None,
    progress: Progress = NO_PROGRESS,
) -> Iterator[Finding]:
    """Yield the problems of a repository as they are found.

    Args:
        hash_data: read data objects and compare their BLAKE3 digests with their names.
        sample: the share of the data objects to read, from 0 to 1.
        external: request every object outside the namespace and compare it with its entry.
        runner: does the work that grows with the data; ``None`` for this process, which does one
            part at a time.
        counts: updated with the numbers of checked objects.
        progress: shows the number and size of hashed objects; without `hash_data`, the number of
            checked entries.

    Raises:
        Unreachable: the store does not answer.
    """
    capabilities.clear_temporaries(repository.store)
    counts = counts or FsckCounts()
    runner = runner or LocalRunner()
    compares = hash_data and sample >= 1
    offset = repository.lake.runtime.random_number()
    # Without `hash_data` the objects are listed, but none is read.
    hashing = Hashing(runner.location_of(repository), sample if hash_data else 0.0, offset)
    with open_index(repository, runner, compares=compares, progress=progress) as index:
        if isinstance(index, DataIndex):
            read = hash_objects(runner, hashing, index.fill(), progress)
        else:
            read = index.hash_objects(hashing) if hash_data else iter(())
        for hashed in read:
            counts.bytes_hashed += hashed.size
            if hashed.what is not None:
                index.damaged[hashed.key] = hashed.what
        reads_external = hash_data if external else None
        shown = NO_PROGRESS if hash_data else progress
        with repository.lake.kv.read() as txn:
            checker = _Checker(repository, txn, index, counts, reads_external, compares, shown)
            yield from checker.report(checker.check_claim())
            if isinstance(index, JoinedIndex):
                ranges, staged = checker.iter_ranges(), checker.iter_contents()
                counts.bytes_hashed += index.look_ahead(ranges, staged)
            counts.objects = index.count
            yield from checker.report(checker.check_refs())
            yield from checker.report(checker.check_external())
            yield from checker.report(check_shared(repository, txn, checked=checker.heads))
        # Damaged objects that a path refers to were reported with that path.
        others = sorted(index.damaged.keys() - checker.damaged)
        yield from checker.report(Finding("data", key, index.damaged[key]) for key in others)


def summarise(counts: FsckCounts) -> IntegrityError | None:
    """Return the error for a check that found problems; ``None`` if there are none."""
    if not counts.findings:
        return None
    refs = ", ".join(sorted(counts.damaged_refs)[:10])
    where = f"; reached from {refs}" if refs else ""
    what = f"{counts.findings} problem{'s' if counts.findings > 1 else ''} found{where}"
    hint = "upload the named paths again, or restore the named objects from a backup"
    return IntegrityError(what, hint=hint)


@dataclass
class _Checker:
    """One check of one repository; each commit, metarange and range is checked once.

    Args:
        _reads_external: whether to hash objects outside the namespace where necessary, even if
            their times are unchanged; ``None`` to leave such objects out of the check.

    Attributes:
        damaged: keys of damaged data objects that some path refers to.
        heads: trees of the commits that branches and tags point to.
    """

    _repository: Repository
    _txn: ReadTransaction
    _index: DataIndex | JoinedIndex
    _counts: FsckCounts
    _reads_external: bool | None
    _compares: bool
    _progress: Progress

    def __post_init__(self) -> None:
        self._store = self._repository.store
        self._refs = self._repository.refs(self._txn)
        self._ahead = self._index if isinstance(self._index, JoinedIndex) else None
        self._external: list[tuple[CheckedEntry, str, CommitId | None]] = []
        self.damaged: set[str] = set()
        self._reported: set[tuple[str, str, bytes | None]] = set()
        self._commits: set[CommitId] = set()
        self._metaranges: set[MetarangeId] = set()
        self.heads: set[MetarangeId] = set()
        self._ranges: set[RangeId] = set()
        self._compared: set[tuple[str, str]] = set()
        self._head_commits: set[CommitId] = set()
        self._collected: set[str] = set()

    def report(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Yield and count the findings that were not reported before."""
        for finding in findings:
            identity = (finding.kind, finding.name, finding.path)
            if identity in self._reported:
                continue
            if len(self._reported) < MAX_REMEMBERED:
                self._reported.add(identity)
            self._counts.findings += 1
            if finding.ref:
                self._counts.damaged_refs.add(finding.ref)
            yield finding

    def check_claim(self) -> Iterator[Finding]:
        """Check that the namespace is this repository's own, unless it is borrowed from lakeFS."""
        if self._repository.record.is_borrowed:
            return
        try:
            owner = owner_of(self._store)
        except IntegrityError as error:
            yield Finding("repository", layout.REPOSITORY, error.message)
            return
        if owner != self._repository.record.uuid:
            what = f"the namespace belongs to repository {owner}" if owner else "missing"
            yield Finding("repository", layout.REPOSITORY, what)
        try:
            with suppress(Refused):  # a newer lakecli wrote the object
                read_evidence(self._store)
        except IntegrityError as error:
            yield Finding("repository", layout.SHARING, error.message)

    def iter_ranges(self) -> Iterator[metaranges.RangeRecord]:
        """Yield every range that a ref reaches, each once; skip metaranges that cannot be read."""
        heads = [commit_id for _, _, commit_id in self._refs.iter_refs()]
        commits = (commit for _, commit in iter_reached(self._refs, heads) if commit is not None)
        ranges: set[RangeId] = set()
        for tree in dict.fromkeys(commit.metarange_id for commit in commits):
            for record in check_metarange(self._repository.trees, tree)[0]:
                if record.id not in ranges:
                    ranges.add(record.id)
                    yield record

    def iter_contents(self) -> Iterator[LakeFsContents]:
        """Yield the address, size and checksum of every staged entry that can be read."""
        for branch in self._refs.iter_branches():
            for _, value in self._iter_staged(branch):
                with suppress(IntegrityError):
                    entry = values.decode_entry(value)
                    yield LakeFsContents(entry.physical_address, entry.size, entry.checksum)

    def _iter_staged(self, branch: Branch) -> Iterator[tuple[bytes, bytes]]:
        """Yield the path and the value of each entry that a branch has staged; skip deletions."""
        for token in branch.tokens:
            for path, value in area.scan(self._txn, token):
                if value != TOMBSTONE:
                    yield path, value

    def check_refs(self) -> Iterator[Finding]:
        """Check everything that branches and tags reach: first the trees of heads, then history."""
        for branch in self._refs.iter_branches():
            yield from self._check_staging(branch)
        heads: list[tuple[str, Commit]] = []
        for _, name, commit_id in self._refs.iter_refs():
            self._counts.refs += 1
            if (commit := self._refs.find_commit(commit_id)) is not None:
                heads.append((name, commit))
                self.heads.add(commit.metarange_id)
                self._head_commits.add(commit.id)
            else:
                yield Finding("ref", name, f"its commit is missing: {commit_id}")
        for name, commit in heads:
            if commit.id not in self._commits:
                yield from self._check_commit(name, commit)
        for name, commit in heads:
            yield from self._check_history(name, commit)

    def _check_staging(self, branch: Branch) -> Iterator[Finding]:
        for path, value in self._iter_staged(branch):
            try:
                entry = values.decode_entry(value)
            except IntegrityError as error:
                yield Finding("entry", branch.name, error.message, path, branch.name)
                continue
            yield from self._check_entry(CheckedEntry(path, *entry[:4]), branch.name, None)

    def _check_history(self, name: str, head: Commit) -> Iterator[Finding]:
        """Check those ancestors of a head that were not checked before."""
        waiting = list(head.parents)
        while waiting:
            commit_id = waiting.pop()
            if commit_id in self._commits:
                continue
            if (commit := self._refs.find_commit(commit_id)) is not None:
                yield from self._check_commit(name, commit)
                waiting += commit.parents

    def _check_commit(self, name: str, commit: Commit) -> Iterator[Finding]:
        self._commits.add(commit.id)
        self._counts.commits += 1
        for what in problems_of_commit(self._refs, commit):
            yield Finding("commit", commit.id, what, ref=name, commit_id=commit.id)
        yield from self._check_tree(name, commit)

    def _check_tree(self, name: str, commit: Commit) -> Iterator[Finding]:
        tree = commit.metarange_id
        if not tree or tree in self._metaranges:
            return
        self._metaranges.add(tree)
        self._counts.metaranges += 1
        records, problems = check_metarange(self._repository.trees, tree)
        if problems and self._has_expired(tree):
            self._counts.expired += 1
            return
        for problem in problems:
            yield _finding("metarange", problem, name, commit)
        new = [record for record in records if record.id not in self._ranges]
        self._progress.expect(items=sum(record.count for record in new))
        for record in new:
            if record.id in self._ranges:
                continue
            self._ranges.add(record.id)
            self._counts.ranges += 1
            before = self._counts.entries
            sound = None if self._ahead is None else self._ahead.sound(record.id)
            if sound and not (sound.outside and self._reads_external is not None):
                self._counts.entries += sound.entries
                for place, objects in sound.outside.items():
                    self._counts.external += objects
                    count_place(self._counts.places, place, objects)
            else:
                items = check_range(self._repository.trees, record)
                for item in items if self._ahead is None else self._ahead.take_up(record.id, items):
                    if isinstance(item, Problem):
                        kind = "range" if item.path is None else "entry"
                        yield _finding(kind, item, name, commit)
                    else:
                        yield from self._check_entry(item, name, commit.id)
            self._progress.advance(items=self._counts.entries - before)

    def _has_expired(self, tree: MetarangeId) -> bool:
        """Return whether garbage collection has deleted a tree by the retention rules.

        Retention rules never delete the tree of the commit that a branch or tag points to. If the
        tree still exists, it was not deleted, only damaged.
        """
        if tree in self.heads or tree not in self._expired:
            return False
        return not contract.exists(self._store, layout.sstable_key(tree))

    @cached_property
    def _expired(self) -> frozenset[str]:
        """The trees that garbage collection has deleted; only read if a tree has a problem."""
        return frozenset(gc_protocol.iter_expired(self._store))

    def _check_entry(
        self, entry: CheckedEntry, name: str, commit_id: CommitId | None
    ) -> Iterator[Finding]:
        address = entry.physical_address
        self._counts.entries += 1
        if "://" in address:
            self._counts.external += 1
            count_place(self._counts.places, place_of_address(self._trust, address))
            if self._reads_external is not None:
                self._external.append((entry, name, commit_id))
                if len(self._external) >= BATCH:
                    yield from self.check_external()
            return
        what = self._index.problem_of(address, entry.size)
        if what == MISSING and self._is_collected(address, commit_id):
            return
        if what is None and self._compares:
            what = self._problem_of_contents(entry)
        if what is not None:
            if len(self.damaged) < MAX_REMEMBERED:
                self.damaged.add(address)
            yield Finding("data", address, what, entry.path, name, commit_id, entry.size)

    @cached_property
    def _trust(self) -> Trust:
        return trust_of(self._repository)

    def _is_collected(self, address: str, commit_id: CommitId | None) -> bool:
        """Return whether lakeFS's garbage collection may have deleted a missing object; count it.

        This is possible only if lakeFS used the namespace, and no branch, tag or staged change
        needs the object. The refs and staged changes that need it are known already, because heads
        and staged changes are checked first.
        """
        is_needed = commit_id is None or commit_id in self._head_commits or address in self.damaged
        if is_needed or not self._is_of_lakefs:
            return False
        if address not in self._collected:
            self._counts.collected += 1
            if len(self._collected) < MAX_REMEMBERED:
                self._collected.add(address)
        return True

    @cached_property
    def _is_of_lakefs(self) -> bool:
        """Whether lakeFS uses or used the namespace, so its garbage collection may have run."""
        with suppress(IntegrityError):  # `check_claim` reports it
            return self._repository.record.is_borrowed or origin_of(self._store) is not None
        return False

    def _problem_of_contents(self, entry: CheckedEntry) -> str | None:
        """Compare an object of lakeFS with the checksum in its entry, once for each checksum."""
        key, checksum = entry.physical_address, entry.checksum
        if layout.data_digest(key) is not None or (key, checksum) in self._compared:
            return None
        if len(self._compared) < MAX_REMEMBERED:
            self._compared.add((key, checksum))
        found = None if self._ahead is None else self._ahead.compared(key, checksum)
        if found is None:
            recorded = LakeFsContents(key, entry.size, checksum)
            found = compare_contents(self._repository.uri, self._store, recorded)
            self._counts.bytes_hashed += found.size
        if found.what == UNVERIFIED:
            self._counts.unverified += 1
            return None
        return found.what

    def check_external(self) -> Iterator[Finding]:
        """Check the objects outside the namespace that were found since the last call."""
        waiting, self._external = self._external, []
        recorded = [Recorded(*entry[1:]) for entry, _, _ in waiting]
        checks = ask_all(self._repository.addresses, recorded, reads=bool(self._reads_external))
        for (entry, name, commit_id), check in zip(waiting, checks, strict=True):
            self._counts.external_asked += check.asked
            self._counts.external_archived += check.archived
            if check.problem is not None:
                place = entry.path, name, commit_id, entry.size
                yield Finding("external", entry.physical_address, check.problem, *place)


def _finding(kind: str, problem: Problem, ref: str, commit: Commit) -> Finding:
    return Finding(kind, problem.key, problem.what, problem.path, ref, commit.id)


Head = tuple[str, str, CommitId]
"""The key and the name of a ref in the bucket, and its commit."""


def check_shared(
    repository: Repository, txn: ReadTransaction, *, checked: Collection[MetarangeId]
) -> Iterator[Finding]:
    """Yield the problems of objects that clones share in the bucket: policy, refs and packs.

    Args:
        checked: trees of this clone's heads, which were checked before.
    """
    store = repository.store
    try:
        rules_of(read_policy(store))
    except IntegrityError as error:
        yield Finding("repository", layout.POLICY, error.message)
    heads: list[Head] = []
    seen: set[str] = set()
    for listed in iter_refs(store):
        key = layout.ref_key(listed.kind, listed.name)
        seen.add(key)
        try:
            ref = find_ref(store, listed.kind, listed.name)
        except IntegrityError as error:
            yield Finding("ref", key, error.message, ref=listed.name)
            continue
        if ref is not None and ref.commit_id is not None:
            heads.append((key, listed.name, ref.commit_id))
    for tracked in repository.tracking(txn).iter():
        key = layout.ref_key(tracked.kind, tracked.name)
        if key not in seen and find_ref(store, tracked.kind, tracked.name) is None:
            what = "missing; a deleted ref leaves an object behind"
            yield Finding("ref", key, what, ref=tracked.name)
    # Read the packs after the refs: a push writes the commits before it moves the ref.
    packs = read_packs(store)
    for pack in packs.bad:
        yield Finding("pack", layout.pack_key(pack.name), pack.what)
    for each in packs.bad_commits:
        yield Finding("pack", each.key, each.what)
    yield from _check_reached(packs, heads)
    yield from _check_trees(repository, packs, heads, set(checked))
    yield from _check_believed(repository, txn, packs)


def _check_reached(packs: Packs, heads: list[Head]) -> Iterator[Finding]:
    seen: set[CommitId] = set()
    for key, name, head in heads:
        if head not in packs.parents:
            yield Finding("ref", key, f"its commit is in no pack: {head}", ref=name)
            continue
        waiting = [head]
        while waiting:
            commit_id = waiting.pop()
            if commit_id in seen:
                continue
            seen.add(commit_id)
            for parent in packs.parents[commit_id]:
                if parent in packs.parents:
                    waiting.append(parent)
                else:
                    what = f"its parent is in no pack: {parent}"
                    yield Finding("commit", commit_id, what, ref=name, commit_id=commit_id)


def _check_trees(
    repository: Repository, packs: Packs, heads: list[Head], checked: set[MetarangeId]
) -> Iterator[Finding]:
    """Check the metaranges of heads in the bucket that are not heads of this clone."""
    for _, name, head in heads:
        tree = packs.trees.get(head)
        if not tree or tree in checked:
            continue
        checked.add(tree)
        for problem in check_metarange(repository.trees, tree)[1]:
            yield Finding("metarange", problem.key, problem.what, ref=name, commit_id=head)


def _check_believed(
    repository: Repository, txn: ReadTransaction, packs: Packs
) -> Iterator[Finding]:
    """Check that the bucket's packs have all commits that this clone has recorded as packed."""
    bad = {pack.name for pack in packs.bad}
    for pack_id, believed in sorted(believed_packs(repository, txn).items()):
        count = len(believed - packs.parents.keys())
        if count and pack_id not in bad:
            what = f"missing, with {count} commit{'s' * (count > 1)} of this clone"
            yield Finding("pack", layout.pack_key(pack_id), what)


def believed_packs(repository: Repository, txn: ReadTransaction) -> dict[ids.PackId, set[CommitId]]:
    """Return the packs that this clone has recorded, each with the commits recorded for it."""
    known = PackedStore(txn, repository.key)
    believed: defaultdict[ids.PackId, set[CommitId]] = defaultdict(set)
    for commit in repository.refs(txn).iter_commits():
        pack_id = known.find_pack(commit.id)
        if pack_id is not None:
            believed[pack_id].add(commit.id)
    return believed


class Packs(NamedTuple):
    """The commit packs of a bucket.

    Attributes:
        parents: the parents of every commit in a readable pack.
        trees: the tree of every commit in a readable pack.
        bad: the packs that cannot be read.
        replaced: IDs of the packs that readable packs replace.
        bad_commits: records in readable packs that are not valid commits.
    """

    parents: dict[CommitId, tuple[CommitId, ...]]
    trees: dict[CommitId, MetarangeId]
    bad: list[ref_records.InvalidRecord]
    replaced: set[str]
    bad_commits: list[ref_records.InvalidRecord]


def read_packs(store: contract.ObjectStore) -> Packs:
    """Read every pack that no other pack replaces."""
    found = Packs({}, {}, [], set(), [])
    for pack in read_new_packs(store, ()):
        if isinstance(pack, DamagedPack):
            found.bad.extend(pack.bad)
            continue
        found.parents.update((commit.id, commit.parents) for commit in pack.commits)
        found.trees.update((commit.id, commit.metarange_id) for commit in pack.commits)
        found.replaced.update(pack.replaces)
        found.bad_commits.extend(pack.bad)
    return found
