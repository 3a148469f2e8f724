"""Bring newer commits of lakeFS into a repository that has the older ones: a second way back.

A dump of lakeFS is taken as a fetch takes the bucket, except that branches move:

- A branch that has no commits of its own is fast-forwarded; uncommitted changes stay on it, and
  committing them finds conflicts.
- A branch that has diverged stays. lakeFS's is made beside it, as ``lakefs:NAME``, which follows
  the next dumps. No branch of lakeFS has a colon in its name.
- New branches and tags are made. A tag that differs is reported and stays. What the dump lacks
  stays.

Commits are written first. All refs move in one transaction, as one operation, which `undo` takes
back and automatic sharing sends. The dump is recorded last: what lakeFS wrote later is known to be
in no dump then (`lakecli.repository.lakefs.kept_dumps`). Repeating an interrupted update finishes
it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from lakecli.base.model import Branch, CommitId, RefKind, Tag
from lakecli.kv.local_store import ReadTransaction, WriteTransaction
from lakecli.kv.operations import RefChange
from lakecli.refs.graph import is_ancestor
from lakecli.refs.names import is_branch_name
from lakecli.refs.ref_store import RefStore
from lakecli.repository.contract import Repository
from lakecli.repository.guard import claim_trees
from lakecli.repository.journal import operation_log, staging_tokens, unsent_moves
from lakecli.repository.journal.intents import check_none_sent, when_none_under_way
from lakecli.repository.journal.staging_tokens import follow_head
from lakecli.repository.lakefs.dump import Dump, LeftOut, RefsManifest
from lakecli.repository.lakefs.kept_dumps import iter_kept, keep_dump
from lakecli.repository.lakefs.restore import needed_manifest, verified
from lakecli.repository.moving.transaction import initial_commit
from lakecli.repository.staged.changes import unstage_unchanged

ASIDE: Final = "lakefs:"
"""Begins the name of a branch of lakeFS that has diverged from the one here."""


class RefState(StrEnum):
    """What became of a ref of a dump."""

    NEW = "new"
    MOVED = "moved"
    DIVERGED = "diverged"
    """Both sides have commits of their own; the one of lakeFS has a name of its own here."""
    DIFFERS = "differs"
    """Another ref of this name stays here."""


class RefMove(NamedTuple):
    """A ref of a dump that is not as it was here.

    Attributes:
        kind: a branch or a tag.
        name: its name here; of a branch that has diverged, the name of its own.
        before: where it stood here; ``None``: it did not exist.
        after: where it stands in lakeFS.
        change: what became of it.
    """

    kind: RefKind
    name: str
    before: CommitId | None
    after: CommitId
    change: RefState


class Updated(NamedTuple):
    """What an update brought.

    Attributes:
        repository: that was updated.
        updated: refs that moved, or that differ, branches first, by name.
        branches: number of branches in the dump.
        tags: number of tags in the dump.
        commits: number of commits that were new here.
        left_out: refs of the dump whose names lakecli does not allow.
    """

    repository: Repository
    updated: tuple[RefMove, ...]
    branches: int
    tags: int
    commits: int
    left_out: tuple[LeftOut, ...]


def update_refs(repository: Repository, manifest: RefsManifest | None) -> Updated:
    """Bring the commits, branches and tags of a newer dump of a repository's own namespace.

    Args:
        repository: may have commits of its own, and uncommitted changes.
        manifest: ``None``: the one that a lakeFS server left in the namespace.

    Raises:
        NotFound: the namespace holds no manifest.
        BadDump: the dump is incomplete, damaged or forged.
        IntegrityError: the namespace lacks the tree of a new commit.
        Gone, Swept: garbage collection deletes or has deleted a tree of the dump.
        CommitUnderWay: another process is sending a commit of a branch that is to move.
    """
    lake = repository.lake
    manifest = manifest or needed_manifest(repository.store)
    with lake.kv.read() as txn:
        known = {commit.id for commit in RefStore(txn, repository.key).iter_commits()}
    dump = verified(repository, manifest, known=known)
    new = [commit for commit in dump.commits.values() if commit.id not in known]
    with lake.kv.read() as txn:
        moved = _heads_of_moves(txn, repository, dump)
    # The lists too, since the record of the dump refers to them.
    trees = {commit.metarange_id for commit in new} | set(manifest[:3])
    claim_trees(repository, trees | {dump.commits[each].metarange_id for each in moved})
    lake.runtime.on_step("commits")
    with lake.kv.write() as writing:
        refs = RefStore(writing, repository.key)
        for commit in new:
            refs.put_commit(commit)
    for name, there in dump.branches.items():
        with lake.kv.read() as txn:
            is_behind = _is_behind(txn, repository, name, there)
        if is_behind:
            unstage_unchanged(repository, name, there)

    def act() -> tuple[RefMove, ...]:
        lake.runtime.on_step("restore")
        with lake.kv.write() as txn:
            return _Update(txn, repository).run(dump)

    updated = when_none_under_way(repository, act)
    if not repository.record.is_borrowed:
        _record(repository, manifest)
    counts = len(dump.branches), len(dump.tags), len(new)
    return Updated(repository, updated, *counts, dump.left_out)


def _heads_of_moves(txn: ReadTransaction, repository: Repository, dump: Dump) -> set[CommitId]:
    """Return the commits to which refs may move or be made."""
    refs = RefStore(txn, repository.key)
    named = [(RefKind.BRANCH, *each) for each in dump.branches.items()]
    named += [(RefKind.TAG, *each) for each in dump.tags.items()]
    return {there for kind, name, there in named if refs.position(kind, name) != there}


def _is_behind(txn: ReadTransaction, repository: Repository, name: str, there: CommitId) -> bool:
    refs = RefStore(txn, repository.key)
    here = refs.find_branch(name)
    return here is not None and is_ancestor(refs, here.commit_id, there)


def _record(repository: Repository, manifest: RefsManifest) -> None:
    """Record that a dump of lakeFS came in, unless that is recorded."""
    lake = repository.lake
    lake.runtime.on_step("keep-dump")
    kept = (each for each in iter_kept(repository.store, lake.now()) if each.by_lakefs)
    if all(each.manifest[:3] != manifest[:3] for each in kept):
        record_id = lake.runtime.new_id().hex()
        keep_dump(repository.store, manifest, record_id, by_lakefs=True)


class _Update:
    """One transaction that moves refs.

    Args:
        txn: the transaction.
        repository: the repository of the refs.
    """

    def __init__(self, txn: WriteTransaction, repository: Repository) -> None:
        self._txn = txn
        self._repository = repository
        self._refs = RefStore(txn, repository.key)
        self._first = initial_commit(repository.record.created_at).id
        self._changes: list[RefChange] = []
        self._moves: list[RefMove] = []

    def run(self, dump: Dump) -> tuple[RefMove, ...]:
        """Move what has to move, in one operation; return what is not as it was here."""
        for name, there in dump.branches.items():
            self._update_branch(name, there)
        for name, there in dump.tags.items():
            self._update_tag(Tag(name, there))
        if self._changes:
            operation_log.append(
                self._txn, self._repository, kind="refs-restore", refs=self._changes
            )
        return tuple(self._moves)

    def _update_branch(self, name: str, there: CommitId) -> None:
        here = self._refs.find_branch(name)
        if here is None or self._leads_to(here, there):
            self._move(name, here, there, RefState.NEW if here is None else RefState.MOVED)
        elif not is_ancestor(self._refs, there, here.commit_id):
            self._put_aside(name, there)

    def _put_aside(self, name: str, there: CommitId) -> None:
        """Make or move the branch that has what lakeFS has on a branch that has diverged."""
        aside = ASIDE + name
        here = self._refs.find_branch(aside)
        if not is_branch_name(aside):
            self._report(RefKind.BRANCH, name, here, there, RefState.DIFFERS)
        elif here is None or here.commit_id == there or self._leads_to(here, there):
            self._move(aside, here, there, RefState.DIVERGED)
        elif not is_ancestor(self._refs, there, here.commit_id):
            self._report(RefKind.BRANCH, aside, here, there, RefState.DIFFERS)

    def _leads_to(self, here: Branch, there: CommitId) -> bool:
        """Return whether a branch has no commits of its own, and lakeFS has more."""
        if here.commit_id == there:
            return False
        return here.commit_id == self._first or is_ancestor(self._refs, here.commit_id, there)

    def _move(self, name: str, here: Branch | None, there: CommitId, change: RefState) -> None:
        """Move or make a branch, unless it is there, or a tag has its name."""
        if here is None:
            if self._refs.find_tag(name) is not None:
                self._report(RefKind.BRANCH, name, None, there, RefState.DIFFERS)
                return
            token = staging_tokens.start(self._txn, self._repository, name, there)
            after = Branch(name, there, token)
        else:
            after = here._replace(commit_id=there)
        self._report(RefKind.BRANCH, name, here, there, change)
        if after == here:
            return
        if here is not None:
            check_none_sent(self._txn, self._repository, name)
            follow_head(self._txn, here, after, has_seen=False)
        self._refs.put_branch(after)
        self._changes.append(operation_log.branch_change(here, after))

    def _update_tag(self, tag: Tag) -> None:
        here = self._refs.find_tag(tag.name)
        if here == tag:
            return
        is_free = here is None and self._refs.find_branch(tag.name) is None
        # A tag that was deleted here, which is still to be sent, does not come back.
        is_noted = unsent_moves.find_unsent(self._txn, self._repository, RefKind.TAG, tag.name)
        if not is_free or is_noted is not None:
            self._report(RefKind.TAG, tag.name, here, tag.commit_id, RefState.DIFFERS)
            return
        self._report(RefKind.TAG, tag.name, None, tag.commit_id, RefState.NEW)
        self._refs.put_tag(tag)
        self._changes.append(operation_log.tag_change(None, tag))

    def _report(
        self,
        kind: RefKind,
        name: str,
        here: Branch | Tag | None,
        there: CommitId,
        change: RefState,
    ) -> None:
        before = None if here is None else here.commit_id
        self._moves.append(RefMove(kind, name, before, there, change))
