"""The checks of `fsck`, one method each; every commit, metarange and range is checked once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import Final

from lakecli.base.layout import REPOSITORY, data_digest, sstable_key
from lakecli.base.model import Branch, Commit, CommitId, MetarangeId, RangeId
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.committed.check import CheckedEntry, Problem, check_metarange, check_range
from lakecli.committed.metaranges import RangeRecord
from lakecli.committed.values import decode_entry
from lakecli.errors import IntegrityError
from lakecli.kv.env import ReadTransaction
from lakecli.refs.graph import iter_reached
from lakecli.refs.ref_store import RefStore
from lakecli.remote.collection import iter_expired
from lakecli.repository.data_index import ObjectIndex
from lakecli.fsck.shared import check_shared
from lakecli.repository.reading.recorded import BATCH, Contents, Recorded, ask_all, compare_contents
from lakecli.fsck.thoroughness import AheadIndex, Sound, Thoroughness
from lakecli.repository.contract import Repository
from lakecli.repository.reading import outside
from lakecli.repository.records.commits import problems_of_commit
from lakecli.repository.records.namespace import owner_of
from lakecli.fsck.findings import Finding, FsckCounts
from lakecli.staging import area
from lakecli.staging.area import TOMBSTONE
from lakecli.stores.contract import ObjectNotFound

MAX_REMEMBERED: Final = 100_000
"""Findings remembered so that none is reported twice; after that many, some may be."""


class Checker:
    """One run of `fsck` over one repository.

    Args:
        repository: the repository to check.
        counts: updated while the checks run.
        how: how much to check.
        progress: counts the entries that were checked.

    Attributes:
        damaged: keys of damaged data objects that some path refers to.
    """

    def __init__(
        self,
        repository: Repository,
        counts: FsckCounts,
        how: Thoroughness,
        *,
        progress: Progress = NO_PROGRESS,
    ) -> None:
        self._repository = repository
        self._progress = progress
        self._how = how
        self._external: list[tuple[CheckedEntry, str, CommitId | None]] = []
        self._store = repository.store
        self.counts = counts
        self.damaged: set[str] = set()
        self._reported: set[tuple[str, str, bytes | None]] = set()
        self._commits: set[CommitId] = set()
        self._metaranges: set[MetarangeId] = set()
        self._heads: set[MetarangeId] = set()
        self._ranges: set[RangeId] = set()
        self._ahead: AheadIndex | None = None
        self._compared: set[tuple[str, str]] = set()

    def report(self, finding: Finding) -> Iterator[Finding]:
        """Yield a finding, unless it was reported already."""
        identity = (finding.kind, finding.name, finding.path)
        if identity in self._reported:
            return
        if len(self._reported) < MAX_REMEMBERED:
            self._reported.add(identity)
        self.counts.findings += 1
        if finding.ref:
            self.counts.damaged_refs.add(finding.ref)
        yield finding

    @cached_property
    def _expired(self) -> frozenset[str]:
        """The trees that garbage collection has expired; read when one of history has a problem."""
        return frozenset(iter_expired(self._store))

    def check_claim(self) -> Iterator[Finding]:
        """Check that the namespace is this repository's; a borrowed one is lakeFS's."""
        if self._repository.record.is_borrowed:
            return
        try:
            owner = owner_of(self._store)
        except IntegrityError as error:
            yield from self.report(Finding("repository", REPOSITORY, error.message))
            return
        if owner is None:
            yield from self.report(Finding("repository", REPOSITORY, "missing"))
        elif owner != self._repository.record.uuid:
            what = f"the namespace belongs to repository {owner}"
            yield from self.report(Finding("repository", REPOSITORY, what))

    def look_ahead(self, txn: ReadTransaction, index: AheadIndex) -> None:
        """Check all ranges in bulk, so that only those with problems are read here."""
        refs = RefStore(txn, self._repository.key)
        index.look_ahead(_all_ranges(self._repository, refs), _all_staged(txn, refs))
        self._ahead = index

    def check_shared(self, txn: ReadTransaction) -> Iterator[Finding]:
        """Check the refs and the commit packs in the bucket."""
        for finding in check_shared(self._repository, txn, checked=self._heads):
            yield from self.report(finding)

    def check_refs(self, txn: ReadTransaction, index: ObjectIndex) -> Iterator[Finding]:
        """Check what every branch and tag reaches: their own trees first, then their history."""
        refs = RefStore(txn, self._repository.key)
        heads: list[tuple[str, CommitId]] = []
        for branch in refs.iter_branches():
            heads.append((branch.name, branch.commit_id))
            yield from self._check_staging(txn, branch, index)
        heads += [(tag.name, tag.commit_id) for tag in refs.iter_tags()]
        self.counts.refs = len(heads)
        for name, commit_id in heads:
            if (commit := refs.find_commit(commit_id)) is not None:
                self._heads.add(commit.metarange_id)
            else:
                yield from self.report(Finding("ref", name, f"its commit is missing: {commit_id}"))
        for name, commit_id in heads:
            yield from self._check_commit(refs, name, commit_id, index)
        for name, commit_id in heads:
            yield from self._check_history(refs, name, commit_id, index)

    def _check_history(
        self, refs: RefStore, name: str, head: CommitId, index: ObjectIndex
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
        self, refs: RefStore, name: str, commit_id: CommitId, index: ObjectIndex
    ) -> Iterator[Finding]:
        if commit_id in self._commits:
            return
        commit = refs.find_commit(commit_id)
        if commit is None:
            return
        self._commits.add(commit_id)
        self.counts.commits += 1
        for what in problems_of_commit(refs, commit):
            yield from self.report(
                Finding("commit", commit_id, what, ref=name, commit_id=commit_id)
            )
        yield from self._check_tree(name, commit, index)

    def _check_tree(self, name: str, commit: Commit, index: ObjectIndex) -> Iterator[Finding]:
        tree = commit.metarange_id
        if not tree or tree in self._metaranges:
            return
        self._metaranges.add(tree)
        self.counts.metaranges += 1
        records, problems = check_metarange(self._repository.trees, tree)
        if problems and self._has_expired(tree):
            self.counts.expired += 1
            return
        for problem in problems:
            yield from self.report(_finding("metarange", problem, name, commit))
        new = [record for record in records if record.id not in self._ranges]
        self._progress.expect(items=sum(record.count for record in new))
        for record in new:
            if record.id in self._ranges:
                continue
            self._ranges.add(record.id)
            self.counts.ranges += 1
            before = self.counts.entries
            sound = self._sound(record.id)
            if sound is not None:
                self.counts.entries += sound.entries
                for place, objects in sound.outside.items():
                    self.counts.external += objects
                    outside.count(self.counts.places, place, objects)
                self._progress.advance(items=sound.entries)
                continue
            for item in self._read(record):
                if isinstance(item, Problem):
                    kind = "range" if item.path is None else "entry"
                    yield from self.report(_finding(kind, item, name, commit))
                else:
                    yield from self._check_entry(item, name, commit.id, index)
            self._progress.advance(items=self.counts.entries - before)

    def _sound(self, range_id: RangeId) -> Sound | None:
        """Return what is known of a range that need not be read."""
        sound = None if self._ahead is None else self._ahead.sound(range_id)
        return None if sound and sound.outside and self._how.external else sound

    def _read(self, record: RangeRecord) -> Iterable[CheckedEntry | Problem]:
        items = check_range(self._repository.trees, record)
        return items if self._ahead is None else self._ahead.take_up(record.id, items)

    def _has_expired(self, tree: MetarangeId) -> bool:
        """Return whether garbage collection has deleted a tree by the retention rules.

        No rule lets go the tree of a branch or tag, and a damaged tree has not been deleted.
        """
        if tree in self._heads or tree not in self._expired:
            return False
        try:
            self._store.head(sstable_key(tree))
        except ObjectNotFound:
            return True
        return False

    def _check_entry(
        self, entry: CheckedEntry, name: str, commit_id: CommitId | None, index: ObjectIndex
    ) -> Iterator[Finding]:
        self.counts.entries += 1
        if "://" in entry.physical_address:
            self.counts.external += 1
            namespace = self._repository.record.storage_namespace
            place = outside.place_of_address(namespace, entry.physical_address)
            outside.count(self.counts.places, place)
            if self._how.external:
                self._external.append((entry, name, commit_id))
                if len(self._external) >= BATCH:
                    yield from self.check_external()
            return
        what = index.problem_of(entry.physical_address, entry.size)
        if what is None and self._how.compares:
            what = self._problem_of_contents(entry)
        if what is not None:
            if len(self.damaged) < MAX_REMEMBERED:
                self.damaged.add(entry.physical_address)
            yield from self.report(
                Finding(
                    "data", entry.physical_address, what, entry.path, name, commit_id, entry.size
                )
            )

    def _problem_of_contents(self, entry: CheckedEntry) -> str | None:
        """Compare an object of lakeFS with the MD5 that its entry records, once for each MD5."""
        key, checksum = entry.physical_address, entry.checksum
        if data_digest(key) is not None or (key, checksum) in self._compared:
            return None
        if len(self._compared) < MAX_REMEMBERED:
            self._compared.add((key, checksum))
        found = None if self._ahead is None else self._ahead.compared(key, checksum)
        if found is None:
            recorded = Contents(key, entry.size, checksum)
            found = compare_contents(self._repository, self._store, recorded)
            self.counts.bytes_hashed += found.size
        return found.what

    def check_external(self) -> Iterator[Finding]:
        """Check the objects outside the namespace that were found since the last call."""
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
                yield from self.report(
                    Finding("external", where, what, entry.path, name, commit_id, entry.size)
                )

    def _check_staging(
        self, txn: ReadTransaction, branch: Branch, index: ObjectIndex
    ) -> Iterator[Finding]:

        for token in (branch.staging_token, *branch.sealed_tokens):
            for path, value in area.scan(txn, token):
                if value == TOMBSTONE:
                    continue
                try:
                    entry = decode_entry(value)
                except IntegrityError as error:
                    yield from self.report(
                        Finding("entry", branch.name, error.message, path, branch.name)
                    )
                    continue
                checked = CheckedEntry(
                    path, entry.physical_address, entry.size, entry.checksum, entry.modified_at
                )
                yield from self._check_entry(checked, branch.name, None, index)


def _all_ranges(repository: Repository, refs: RefStore) -> Iterator[RangeRecord]:
    """Yield every range that a ref reaches, each once; skip metaranges that cannot be read."""
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


def _all_staged(txn: ReadTransaction, refs: RefStore) -> Iterator[Contents]:
    """Yield address, size and checksum of every staged entry that can be read."""
    for branch in refs.iter_branches():
        for token in (branch.staging_token, *branch.sealed_tokens):
            for _, value in area.scan(txn, token):
                with suppress(IntegrityError):
                    if value != TOMBSTONE:
                        entry = decode_entry(value)
                        yield Contents(entry.physical_address, entry.size, entry.checksum)


def _finding(kind: str, problem: Problem, ref: str, commit: Commit) -> Finding:
    return Finding(kind, problem.key, problem.what, problem.path, ref, commit.id)
