"""What fsck reports, what was repaired, and what cannot be.

What `fsck` reports: findings and counts.

What was repaired, and what cannot be: the affected branches, tags and paths, and what to do.

Describe what cannot be repaired: the affected branches, tags and paths, and what to do.

Repair report.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lakecli.base.layout import REFS, SSTABLES
from lakecli.base.model import Commit, CommitId, MetarangeId
from lakecli.committed.scan import find
from lakecli.committed.values import decode_entry
from lakecli.errors import IntegrityError
from lakecli.kv.env import ReadTransaction
from lakecli.refs.ref_store import RefStore
from lakecli.repository.contract import Repository


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


def describe_losses(repository: Repository, damages: Iterable[Damage]) -> Iterator[Lost]:
    """Yield what is lost, with the refs and paths that need it now."""
    with repository.lake.kv.read() as txn:
        losses = _Losses(repository, txn, list(damages))
        yield from losses.describe()


class _Losses:
    def __init__(self, repository: Repository, txn: ReadTransaction, damages: list[Damage]) -> None:
        self._repository = repository
        self._refs = RefStore(txn, repository.key)
        self._damages = damages
        self._lost = {damage.name.removeprefix(SSTABLES) for damage in damages}
        self._heads: list[tuple[str, bool, CommitId, MetarangeId]] = []
        heads = [(branch.name, True, branch.commit_id) for branch in self._refs.iter_branches()]
        heads += [(tag.name, False, tag.commit_id) for tag in self._refs.iter_tags()]
        for name, is_branch, commit_id in heads:
            commit = self._refs.find_commit(commit_id)
            if commit is not None:
                self._heads.append((name, is_branch, commit_id, commit.metarange_id))

    def describe(self) -> Iterator[Lost]:
        for damage in self._damages:
            if damage.kind == "data":
                yield self._data(damage)
            elif damage.kind in {"range", "metarange"}:
                yield self._table(damage)
            else:
                yield self._other(damage)

    def _data(self, damage: Damage) -> Lost:
        paths = tuple(dict.fromkeys(each.path for each in damage.affected if each.path is not None))
        staged = {each.ref for each in damage.affected if each.commit_id is None and each.ref}
        now = [
            (name, is_branch, path)
            for name, is_branch, _, tree in self._heads
            for path in paths
            if self._address(tree, path) == damage.name
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
        elif damage.affected:
            advice = "only earlier commits need it, no branch or tag: nothing to do"
        else:
            advice = f"no ref of this clone needs it; if you have a file with these bytes: {again}"
        return Lost("data", damage.name, damage.what, refs, paths, damage.count, advice)

    def _table(self, damage: Damage) -> Lost:
        table_id = damage.name.removeprefix(SSTABLES)
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
        paths = tuple(each.path for each in damage.affected if each.path is not None)
        return Lost(damage.kind, damage.name, damage.what, tuple(refs), paths, count, advice)

    def _other(self, damage: Damage) -> Lost:
        uri = self._repository.uri
        refs = tuple(dict.fromkeys(each.ref for each in damage.affected if each.ref))
        if damage.kind == "pack" or (damage.kind == "commit" and "in no pack" in damage.what):
            advice = f"run this in a clone that has its commits: lakecli fsck {uri} --repair"
        elif damage.name.startswith(REFS):
            advice = f"run this in a clone that has seen it: lakecli fsck {uri} --repair"
        elif damage.kind in {"ref", "commit"}:
            advice = "run `lakecli push` in a clone that has the commit, then repeat this here"
        elif damage.kind == "entry":
            advice = "upload the path again, or delete it with lakecli fs rm"
        else:
            advice = "restore the object from a backup, or use the namespace's own repository"
        paths = tuple(each.path for each in damage.affected if each.path is not None)
        return Lost(damage.kind, damage.name, damage.what, refs, paths, damage.count, advice)

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
