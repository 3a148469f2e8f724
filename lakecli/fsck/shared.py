"""Check what clones share in the bucket: ref objects and commit packs.

Every ref object must be valid, and its commit must be in a pack together with all its ancestors.
Its tree must exist, whatever garbage collection has deleted.
So must every commit that this clone believes to be in a pack, since a push leaves it out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from lakecli.base.ids import PackId
from lakecli.base.layout import pack_key, ref_key
from lakecli.base.model import CommitId, MetarangeId
from lakecli.committed.check import check_metarange
from lakecli.errors import IntegrityError
from lakecli.fsck.findings import Finding
from lakecli.kv.bucket import PackedStore, TrackingStore
from lakecli.kv.local_store import ReadTransaction
from lakecli.refs.ref_store import RefStore
from lakecli.remote.packs import read_new_packs
from lakecli.remote.ref_records import InvalidRecord
from lakecli.remote.refs import find_ref, iter_refs
from lakecli.repository.contract import Repository
from lakecli.stores.contract import ObjectStore


def check_shared(
    repository: Repository, txn: ReadTransaction, *, checked: Collection[MetarangeId]
) -> Iterator[Finding]:
    """Yield the problems of the refs and the packs in the bucket.

    Args:
        repository: the repository to check.
        txn: of the local store.
        checked: trees that were checked as those of heads.
    """
    store = repository.store
    heads: list[tuple[str, str, CommitId]] = []
    seen: set[str] = set()
    for listed in iter_refs(store):
        key = ref_key(listed.kind, listed.name)
        seen.add(key)
        try:
            ref = find_ref(store, listed.kind, listed.name)
        except IntegrityError as error:
            yield Finding("ref", key, error.message, ref=listed.name)
            continue
        if ref is not None and ref.commit_id is not None:
            heads.append((key, listed.name, ref.commit_id))
    for tracked in TrackingStore(txn, repository.key).iter():
        key = ref_key(tracked.kind, tracked.name)
        if key not in seen and find_ref(store, tracked.kind, tracked.name) is None:
            yield Finding(
                "ref", key, "missing; a deleted ref leaves an object behind", ref=tracked.name
            )
    # After the refs: a push writes the commits before it moves the ref.
    packs = read_packs(store)
    for pack in packs.bad:
        yield Finding("pack", pack_key(pack.name), pack.what)
    for each in packs.bad_commits:
        yield Finding("pack", each.key, each.what)
    yield from _check_reached(packs, heads)
    yield from _check_trees(repository, packs, heads, set(checked))
    yield from _check_believed(repository, txn, packs)


def _check_reached(packs: Packs, heads: list[tuple[str, str, CommitId]]) -> Iterator[Finding]:
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
    repository: Repository,
    packs: Packs,
    heads: list[tuple[str, str, CommitId]],
    checked: set[MetarangeId],
) -> Iterator[Finding]:
    """Check that the trees of heads exist; what they list is checked for refs of this clone."""
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
    """Compare the bucket with what this clone remembers of it."""
    bad = {pack.name for pack in packs.bad}
    for pack_id, believed in sorted(believed_packs(repository, txn).items()):
        count = len(believed - packs.parents.keys())
        if count and pack_id not in bad:
            commits = "1 commit" if count == 1 else f"{count} commits"
            yield Finding("pack", pack_key(pack_id), f"missing, with {commits} of this clone")


def believed_packs(repository: Repository, txn: ReadTransaction) -> dict[PackId, set[CommitId]]:
    """Return the packs and the commits that this clone believes to be in them."""
    known = PackedStore(txn, repository.key)
    believed: dict[PackId, set[CommitId]] = {}
    for commit in RefStore(txn, repository.key).iter_commits():
        pack_id = known.find_pack(commit.id)
        if pack_id is not None:
            believed.setdefault(pack_id, set()).add(commit.id)
    return believed


class Packs(NamedTuple):
    """The commit packs of a bucket.

    Attributes:
        parents: the parents of every commit in a readable pack.
        trees: the trees of these commits.
        bad: the packs that cannot be read.
        replaced: IDs of packs of which a readable pack has all commits.
        bad_commits: records in readable packs that are not valid commits.
    """

    parents: dict[CommitId, tuple[CommitId, ...]]
    trees: dict[CommitId, MetarangeId]
    bad: list[InvalidRecord]
    replaced: set[str]
    bad_commits: list[InvalidRecord]


def read_packs(store: ObjectStore) -> Packs:
    """Read every pack that no other pack replaces."""
    parents: dict[CommitId, tuple[CommitId, ...]] = {}
    trees: dict[CommitId, MetarangeId] = {}
    damaged: list[InvalidRecord] = []
    replaced: set[str] = set()
    bad_commits: list[InvalidRecord] = []
    for pack in read_new_packs(store, (), on_damage=damaged.append):
        parents |= {commit.id: commit.parents for commit in pack.commits}
        trees |= {commit.id: commit.metarange_id for commit in pack.commits}
        replaced.update(pack.replaces)
        bad_commits += pack.bad
    return Packs(parents, trees, damaged, replaced, bad_commits)
