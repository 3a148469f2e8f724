"""Apply the change of one commit to a branch."""

from __future__ import annotations

from lakecli.base.model import Commit
from lakecli.repository.contract import Repository
from lakecli.repository.guard import claim_commit, claim_head
from lakecli.repository.moving.apply_change import apply_change, parent_of
from lakecli.repository.moving.transaction import Draft, commit_clean
from lakecli.repository.reading.view import View, commit_at
from lakecli.repository.records.commits import CHERRY_PICK_COMMITTER, CHERRY_PICK_ORIGIN


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
        parent = parent_of(view, picked, number)
        head = claim_head(view)
        tree = apply_change(
            view,
            before=parent.metarange_id,
            after=claim_commit(view.txn, repository, picked).metarange_id,
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
