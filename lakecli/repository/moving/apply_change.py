"""Apply one commit's change to a branch: what `cherry_pick` and `revert` have in common.

Both are three-way merges without a strategy. Cherry-picking C merges C with its parent as the
base; reverting C merges its parent with C as the base.
"""

from __future__ import annotations

from lakecli.base.model import Commit, MergeStrategy, MetarangeId
from lakecli.committed.merge import merge
from lakecli.committed.threeway import MergeConflict
from lakecli.errors import NotFound, NothingToDo, UsageError
from lakecli.refs.ref_store import RefStore
from lakecli.repository.reading.view import View


def parent_of(view: View, commit: Commit, number: int) -> Commit:
    """Return a parent of a commit by its number, from 1.

    Raises:
        UsageError: the number is less than 1.
        NotFound: the commit has fewer parents.
    """
    count = len(commit.parents)
    if number < 1:
        raise UsageError(f"parent number must be 1 or more, not {number}")
    if number > count:
        raise NotFound(
            f"no parent {number} of a commit with {count} parent{'s' * (count != 1)}: {commit.id}"
        )
    return RefStore(view.txn, view.repository.key).get_commit(commit.parents[number - 1])


def apply_change(
    view: View,
    *,
    before: MetarangeId,
    after: MetarangeId,
    allow_empty: bool,
) -> MetarangeId:
    """Return the tree of a branch with the change from one tree to another applied to it.

    Args:
        view: the branch.
        before: the tree before the change.
        after: the tree after it.
        allow_empty: return the tree of the branch if it stays the same.

    Raises:
        MergeConflict: the branch has other changes of the same paths.
        NothingToDo: the tree would stay the same, and `allow_empty` is not set.
    """
    head = view.commit.metarange_id
    try:
        merged = merge(
            view.repository.trees,
            base=before,
            source=after,
            destination=head,
            strategy=MergeStrategy.FAIL,
        )
    except MergeConflict as conflict:
        uri = f"{view.repository.uri}/{view.name}"
        conflict.hint = (
            f"{view.name} has other changes of these paths, which would be lost: change them there "
            f"by hand; see who made them: lakecli log --objects PATH {uri}"
        )
        raise
    if merged.metarange_id == head and not allow_empty:
        raise NothingToDo(
            f"no effect on {view.name}: it already has this content",
            hint="record the commit anyway: --allow-empty-commit",
        )
    return merged.metarange_id
