"""Undo the change of one commit with a new commit."""

from collections.abc import Mapping
from textwrap import shorten

from lakecli.base.model import EMPTY_TREE, Commit
from lakecli.committed.decisions import UNDECIDED, Decisions
from lakecli.errors import Refused
from lakecli.repository.cherry_pick import apply_change, parent_of
from lakecli.repository.commit_attempts import MAX_ATTEMPTS, Draft, clean_attempt, kept_moving
from lakecli.repository.contract import Repository
from lakecli.repository.guard import claim_commit, claim_head
from lakecli.repository.lakefs.hooks import REVERT, notify_hooks
from lakecli.repository.reading.view import commit_at


def revert(
    repository: Repository,
    branch: str,
    ref: str,
    *,
    committer: str,
    parent_number: int | None = None,
    allow_empty: bool = False,
    decisions: Decisions = UNDECIDED,
    message: str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Commit:
    """Commit the reverse of a commit's change.

    Args:
        repository: the repository of the branch.
        branch: the branch on which the new commit is made.
        ref: the commit to revert.
        committer: the committer of the new commit.
        parent_number: the number, from 1, of the parent with which the commit is compared; required
            for a merge commit.
        allow_empty: commit even if nothing changes.
        decisions: which side conflicts take; the state before the commit is the source, and the
            branch is the destination.
        message: the commit message; ``None`` for ``Revert "SUBJECT" (ID)``.
        metadata: the metadata of the new commit.

    Raises:
        NotFound: no such branch, commit or parent.
        Refused: a merge commit without a parent number.
        DirtyBranch: the branch has uncommitted changes.
        MergeConflict: later commits have changed the same paths, and no decision is given.
        NothingToDo: the branch would stay as it is.
    """
    for _ in range(MAX_ATTEMPTS):
        attempt = clean_attempt(repository, branch, kind="revert", who=committer)
        with attempt.view() as view:
            picked = commit_at(repository, view.txn, ref)
            if len(picked.parents) > 1 and parent_number is None:
                raise Refused(
                    f"a merge commit has several parents to go back to: {picked.id}",
                    hint="say which: `parent_number=1` is the branch that was merged into",
                )
            head, before, after = claim_head(view), picked.metarange_id, EMPTY_TREE
            if picked.parents or parent_number is not None:
                number = 1 if parent_number is None else parent_number
                parent = parent_of(view, picked, number)
                after = claim_commit(view.txn, repository, parent).metarange_id
            tree = apply_change(
                view, before=before, after=after, allow_empty=allow_empty, decisions=decisions
            )
        said = _said(picked) if message is None else message
        commit = attempt.move(Draft(tree, [head], said, committer, metadata or {}))
        if commit is not None:
            notify_hooks(repository, REVERT, branch, tree)
            return commit
    raise kept_moving(branch)


def _said(picked: Commit) -> str:
    """Return the default message for a commit that reverts another commit."""
    subject = shorten(picked.message.partition("\n")[0], 72, placeholder="…")
    return f'Revert "{subject}" ({picked.id[:12]})' if subject else f"Revert {picked.id[:12]}"
