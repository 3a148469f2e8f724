"""Apply the change of one commit to a branch.

Cherry-pick and revert are three-way merges into the branch. Cherry-picking C merges C, with the
parent of C as the base. Reverting C merges the parent, with C as the base. So in decisions about
conflicts, the source is C or, for a revert, its parent; the destination is the branch.
"""

from typing import Final

from lakecli.base.model import Commit, MetarangeId
from lakecli.committed.decisions import UNDECIDED, Decisions
from lakecli.committed.merge import merge
from lakecli.committed.merge_base import MergeBase
from lakecli.errors import NotFound, NothingToDo, UsageError
from lakecli.repository.commit_attempts import MAX_ATTEMPTS, Draft, clean_attempt, kept_moving
from lakecli.repository.contract import Repository
from lakecli.repository.guard import claim_commit, claim_head
from lakecli.repository.lakefs.hooks import CHERRY_PICK, notify_hooks
from lakecli.repository.reading.view import View, commit_at

CHERRY_PICK_ORIGIN: Final = "cherry-pick-origin"
CHERRY_PICK_COMMITTER: Final = "cherry-pick-committer"


def cherry_pick(
    repository: Repository,
    ref: str,
    branch: str,
    *,
    committer: str,
    parent_number: int | None = None,
    allow_empty: bool = False,
    decisions: Decisions = UNDECIDED,
) -> Commit:
    """Apply the change of a commit to a branch, keeping the commit's message and metadata.

    Args:
        committer: the committer of the new commit, whose metadata records the original committer.
        parent_number: the number, from 1, of the parent with which the commit is compared; the
            first by default.
        allow_empty: commit even if nothing changes.
        decisions: which side conflicts take; the commit is the source, and the branch is the
            destination.

    Raises:
        NotFound: no such branch, commit or parent; the initial commit has no parent.
        DirtyBranch: the branch has uncommitted changes.
        MergeConflict: the branch changed the same paths differently, and no decision is given.
        NothingToDo: the branch would stay as it is.
    """
    number = 1 if parent_number is None else parent_number
    for _ in range(MAX_ATTEMPTS):
        attempt = clean_attempt(repository, branch, kind="cherry-pick", who=committer)
        with attempt.view() as view:
            picked = commit_at(repository, view.txn, ref)
            before = parent_of(view, picked, number).metarange_id
            head = claim_head(view)
            after = claim_commit(view.txn, repository, picked).metarange_id
            tree = apply_change(
                view, before=before, after=after, allow_empty=allow_empty, decisions=decisions
            )
        origin = {CHERRY_PICK_ORIGIN: picked.id, CHERRY_PICK_COMMITTER: picked.committer}
        draft = Draft(tree, [head], picked.message, committer, {**picked.metadata, **origin})
        commit = attempt.move(draft)
        if commit is not None:
            notify_hooks(repository, CHERRY_PICK, branch, tree)
            return commit
    raise kept_moving(branch)


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
    return view.repository.refs(view.txn).get_commit(commit.parents[number - 1])


def apply_change(
    view: View, *, before: MetarangeId, after: MetarangeId, allow_empty: bool, decisions: Decisions
) -> MetarangeId:
    """Return the tree of a branch with the change from one tree to another applied to it.

    Args:
        allow_empty: if the change has no effect, return the tree of the branch.

    Raises:
        MergeConflict: the branch has different changes of the same paths.
        NothingToDo: the tree would stay the same, and `allow_empty` is not set.
    """
    head = view.commit.metarange_id
    trees = view.repository.trees
    uri = f"{view.repository.uri}/{view.name}"
    hint = (
        f"{view.name} has other changes of these paths, which would be lost: change them there "
        "by hand, or choose: `take=source:PATTERN` or `take=dest:PATTERN`; see who made them: "
        f"`log --objects PATH {uri}`"
    )
    base = MergeBase.of(before)
    merged = merge(trees, base=base, source=after, destination=head, decisions=decisions, hint=hint)
    if merged == head and not allow_empty:
        hint = "record the commit anyway: `allow_empty=True`"
        raise NothingToDo(f"no effect on {view.name}: it already has this content", hint=hint)
    return merged
