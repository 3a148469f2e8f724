"""Revert and cherry-pick: one commit's change taken back from, or repeated on, a branch.

Both are three-way merges without a strategy. Reverting C merges its parent with C as the base;
cherry-picking C merges C with its parent as the base.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakecli.errors import NotFound, NothingToDo, Refused, UsageError
from lakecli.model import EMPTY_TREE, MergeStrategy
from lakecli.refs.store import RefStore
from lakecli.repository.core.commit_record import CHERRY_PICK_COMMITTER, CHERRY_PICK_ORIGIN
from lakecli.repository.core.gate import claim_commit, claim_head
from lakecli.repository.core.transaction import Draft, commit_clean
from lakecli.repository.core.view import commit_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakecli.model import Commit, MetarangeId
    from lakecli.repository.core.lake import Repository
    from lakecli.repository.core.view import View


def _parent(repository: Repository, view: View, picked: Commit, number: int) -> Commit:
    """Return the 1-based parent of a commit."""
    if number < 1:
        raise UsageError(f"parent number must be 1 or more, not {number}")
    if number > len(picked.parents):
        count = len(picked.parents)
        raise NotFound(
            f"no parent {number} of a commit with {count} parent{'s' * (count != 1)}: {picked.id}"
        )
    return RefStore(view.txn, repository.key).get_commit(picked.parents[number - 1])


def _combine(
    repository: Repository, view: View, *, base: MetarangeId, source: MetarangeId, allow_empty: bool
) -> MetarangeId:
    from lakecli.committed.merge import MergeConflict
    from lakecli.committed.merge import merge as merge_trees

    head = view.commit.metarange_id
    try:
        merged = merge_trees(
            repository.trees,
            base=base,
            source=source,
            destination=head,
            strategy=MergeStrategy.FAIL,
        )
    except MergeConflict as conflict:
        conflict.hint = (
            f"{view.name} has other changes of these paths, which would be lost: change them there "
            f"by hand; see who made them: lakecli log --objects PATH {repository.uri}/{view.name}"
        )
        raise
    if merged.metarange_id == head and not allow_empty:
        raise NothingToDo(
            f"no effect on {view.name}: it is as it would be already",
            hint="record it all the same: --allow-empty-commit",
        )
    return merged.metarange_id


def revert(
    repository: Repository,
    branch: str,
    ref: str,
    *,
    committer: str,
    parent_number: int | None = None,
    allow_empty: bool = False,
    message: str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Commit:
    """Commit the opposite of what a commit changed.

    Args:
        repository: whose branch.
        branch: its name.
        ref: the commit to take back, as typed: it goes into the message.
        committer: of the new commit.
        parent_number: relative to which parent, from 1; needed for a merge commit.
        allow_empty: commit even if nothing changes.
        message: ``None`` for ``Revert REF``.
        metadata: of the new commit.

    Raises:
        NotFound: no such branch, commit or parent.
        Refused: a merge commit without a parent number.
        DirtyBranch: the branch has uncommitted changes.
        MergeConflict: later changes of the same paths stand in the way.
        NothingToDo: the branch would stay as it is.
    """

    def build(view: View) -> Draft:
        picked = commit_at(repository, view.txn, ref)
        if len(picked.parents) > 1 and parent_number is None:
            raise Refused(
                f"a merge commit has several parents to go back to: {picked.id}",
                hint="say which: --parent-number 1 is the branch that was merged into",
            )
        head, before = claim_head(view), EMPTY_TREE
        if picked.parents or parent_number is not None:
            number = 1 if parent_number is None else parent_number
            parent = _parent(repository, view, picked, number)
            before = claim_commit(view.txn, repository, parent).metarange_id
        tree = _combine(
            repository, view, base=picked.metarange_id, source=before, allow_empty=allow_empty
        )
        return Draft(
            metarange_id=tree,
            parents=[head],
            message=f"Revert {ref}" if message is None else message,
            committer=committer,
            created_at=repository.lake.now(),
            metadata=metadata or {},
        )

    return commit_clean(repository, branch, build, kind="revert")


def cherry_pick(
    repository: Repository,
    ref: str,
    branch: str,
    *,
    committer: str,
    parent_number: int | None = None,
    allow_empty: bool = False,
) -> Commit:
    """Repeat on a branch what a commit changed, keeping its message and metadata.

    Args:
        repository: whose branch.
        ref: the commit to repeat.
        branch: where.
        committer: of the new commit; the old one is kept in its metadata.
        parent_number: relative to which parent, from 1; the first by default.
        allow_empty: commit even if nothing changes.

    Raises:
        NotFound: no such branch, commit or parent; the initial commit has none.
        DirtyBranch: the branch has uncommitted changes.
        MergeConflict: the branch changed the same paths differently.
        NothingToDo: the branch would stay as it is.
    """

    def build(view: View) -> Draft:
        picked = commit_at(repository, view.txn, ref)
        number = 1 if parent_number is None else parent_number
        parent = _parent(repository, view, picked, number)
        head = claim_head(view)
        tree = _combine(
            repository,
            view,
            base=parent.metarange_id,
            source=claim_commit(view.txn, repository, picked).metarange_id,
            allow_empty=allow_empty,
        )
        origin = {CHERRY_PICK_ORIGIN: picked.id, CHERRY_PICK_COMMITTER: picked.committer}
        return Draft(
            metarange_id=tree,
            parents=[head],
            message=picked.message,
            committer=committer,
            created_at=repository.lake.now(),
            metadata={**picked.metadata, **origin},
        )

    return commit_clean(repository, branch, build, kind="cherry-pick")
