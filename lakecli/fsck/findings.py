"""What `fsck` reports: findings, counts, and what cannot be repaired.

Of what cannot be repaired, the affected branches, tags and paths are described, and what to do.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lakecli.base.layout import REFS, SSTABLES
from lakecli.base.model import Commit, CommitId, MetarangeId
from lakecli.committed.points import find
from lakecli.committed.values import decode_entry
from lakecli.errors import IntegrityError
from lakecli.kv.local_store import ReadTransaction
from lakecli.refs.ref_store import RefStore
from lakecli.repository.contract import Repository
from lakecli.repository.stored_objects import DamagedObject


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
    places: dict[str, int] = field(default_factory=dict)
    expired: int = 0
    """Trees of old commits that garbage collection has deleted by the retention rules."""
    findings: int = 0
    damaged_refs: set[str] = field(default_factory=set)


MAX_AFFECTED: Final = 100
"""Paths remembered for one object."""


class Affected(NamedTuple):
    """A path that needs an object; `commit_id` is ``None`` for an uncommitted one."""

    ref: str
    commit_id: CommitId | None
    path: bytes | None


@dataclass(slots=True)
class Defect(DamagedObject):
    """All findings about one object, commit or ref.

    Attributes:
        affected: paths that need it, at most `MAX_AFFECTED`.
        count: the number of all such paths.
    """

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


class Unrecoverable(NamedTuple):
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


def describe_losses(repository: Repository, defects: Iterable[Defect]) -> Iterator[Unrecoverable]:
    """Yield what is lost, with the refs and paths that need it now."""
    with repository.lake.kv.read() as txn:
        losses = _Losses(repository, txn, list(defects))
        yield from losses.describe()


class _Losses:
    def __init__(self, repository: Repository, txn: ReadTransaction, defects: list[Defect]) -> None:
        self._repository = repository
        self._refs = RefStore(txn, repository.key)
        self._defects = defects
        self._lost = {defect.name.removeprefix(SSTABLES) for defect in defects}
        self._heads: list[tuple[str, bool, CommitId, MetarangeId]] = []
        heads = [(branch.name, True, branch.commit_id) for branch in self._refs.iter_branches()]
        heads += [(tag.name, False, tag.commit_id) for tag in self._refs.iter_tags()]
        for name, is_branch, commit_id in heads:
            commit = self._refs.find_commit(commit_id)
            if commit is not None:
                self._heads.append((name, is_branch, commit_id, commit.metarange_id))

    def describe(self) -> Iterator[Unrecoverable]:
        for defect in self._defects:
            if defect.kind == "data":
                yield self._data(defect)
            elif defect.kind in {"range", "metarange"}:
                yield self._table(defect)
            else:
                yield self._other(defect)

    def _data(self, defect: Defect) -> Unrecoverable:
        paths = tuple(dict.fromkeys(each.path for each in defect.affected if each.path is not None))
        staged = {each.ref for each in defect.affected if each.commit_id is None and each.ref}
        now = [
            (name, is_branch, path)
            for name, is_branch, _, tree in self._heads
            for path in paths
            if self._address(tree, path) == defect.name
        ]
        refs = tuple(dict.fromkeys([*sorted(staged), *(name for name, _, _ in now)]))
        again = f"lakecli fsck {self._repository.uri} --data --repair --from DIRECTORY"
        on_branch = next(((name, path) for name, is_branch, path in now if is_branch), None)
        if on_branch is not None:
            name, path = on_branch
            advice = (
                f"if you have a file with these bytes: {again}; else delete it: "
                f"lakecli fs rm {self._repository.uri}/{name}/{os.fsdecode(path)}"
            )
        elif staged:
            branch = min(staged)
            shown = os.fsdecode(paths[0])
            advice = (
                f"upload it again, or drop the uncommitted change: "
                f"lakecli branch reset {self._repository.uri}/{branch} --object {shown}"
            )
        elif refs:
            advice = f"if you have a file with these bytes: {again}"
        elif defect.affected:
            advice = "only earlier commits need it, no branch or tag: nothing to do"
        else:
            advice = f"no ref of this clone needs it; if you have a file with these bytes: {again}"
        return Unrecoverable("data", defect.name, defect.what, refs, paths, defect.count, advice)

    def _table(self, defect: Defect) -> Unrecoverable:
        table_id = defect.name.removeprefix(SSTABLES)
        refs = []
        count = 0
        for name, _, _, tree in self._heads:
            if tree == table_id:
                refs.append(name)
                continue
            record = self._record(tree, table_id)
            if record is not None:
                refs.append(name)
                count = record
        hint = f"if there is another copy of the namespace: lakecli fsck {self._repository.uri} "
        advice = hint + "--repair --from URI"
        sound = self._last_sound(refs)
        if sound is not None:
            advice += (
                f"; else continue from the last complete commit: lakecli branch create "
                f"{self._repository.uri}/rescued -s {self._repository.uri}/{sound}"
            )
        paths = tuple(each.path for each in defect.affected if each.path is not None)
        return Unrecoverable(
            defect.kind, defect.name, defect.what, tuple(refs), paths, count, advice
        )

    def _other(self, defect: Defect) -> Unrecoverable:
        uri = self._repository.uri
        refs = tuple(dict.fromkeys(each.ref for each in defect.affected if each.ref))
        if defect.kind == "pack" or (defect.kind == "commit" and "in no pack" in defect.what):
            advice = f"run this in a clone that has its commits: lakecli fsck {uri} --repair"
        elif defect.name.startswith(REFS):
            advice = f"run this in a clone that has seen it: lakecli fsck {uri} --repair"
        elif defect.kind in {"ref", "commit"}:
            advice = "run `lakecli push` in a clone that has the commit, then repeat this here"
        elif defect.kind == "entry":
            advice = "upload the path again, or delete it with lakecli fs rm"
        else:
            advice = "restore the object from a backup, or use the namespace's own repository"
        paths = tuple(each.path for each in defect.affected if each.path is not None)
        return Unrecoverable(
            defect.kind, defect.name, defect.what, refs, paths, defect.count, advice
        )

    def _address(self, tree: MetarangeId, path: bytes) -> str | None:
        try:
            value = find(self._repository.trees, tree, path)
            return None if value is None else decode_entry(value).physical_address
        except IntegrityError:
            return None

    def _record(self, tree: MetarangeId, range_id: str) -> int | None:
        """Return the number of entries of a range, or ``None`` if the tree does not have it."""
        try:
            records = self._repository.trees.metarange(tree).records()
            return next((each.count for each in records if each.id == range_id), None)
        except IntegrityError:
            return None

    def _last_sound(self, refs: Collection[str]) -> CommitId | None:
        """Return the newest first-parent ancestor of the first ref whose tree can be read."""
        start = next((head for name, _, head, _ in self._heads if name in refs), None)
        commit = None if start is None else self._refs.find_commit(start)
        while commit is not None:
            if self._is_sound(commit):
                return commit.id
            commit = self._refs.find_commit(commit.parents[0]) if commit.parents else None
        return None

    def _is_sound(self, commit: Commit) -> bool:
        if commit.metarange_id in self._lost:
            return False
        try:
            records = self._repository.trees.metarange(commit.metarange_id).records()
            return not any(record.id in self._lost for record in records)
        except IntegrityError:
            return False


def problems_of_commit(refs: RefStore, commit: Commit) -> Iterator[str]:
    """Yield the defects of a commit's record."""
    for parent_id in commit.parents:
        parent = refs.find_commit(parent_id)
        if parent is None:
            yield f"its parent is missing: {parent_id}"
        elif parent.generation >= commit.generation:
            yield f"its generation {commit.generation} is not above its parents'"
    if (actual := commit.compute_id()) != commit.id:
        yield f"its fields make another ID: {actual}"
