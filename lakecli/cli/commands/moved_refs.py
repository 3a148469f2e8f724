"""Functions shared by commands that move, push or compare refs."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from lakecli.base.model import CommitId
from lakecli.base.uri import LakeUri
from lakecli.cli.context import Context
from lakecli.cli.parsers import linked
from lakecli.errors import LakeError
from lakecli.refs.names import is_full_commit_id
from lakecli.repository.contract import FinishedMove, Repository
from lakecli.repository.log import show_commit

if TYPE_CHECKING:
    from lakecli.repository.push import PushLease, RefPush
    from lakecli.repository.sharing.fetch import RefUpdate
    from lakecli.repository.status import Distance

UP_TO_DATE: Final = "everything up to date"


def bring_along(
    context: Context,
    repository: Repository,
    branch: str,
    *,
    stays: bool = False,
    takes_back: bool = False,
) -> None:
    """After a branch has moved, check out its new commit in the current directory.

    Nothing happens unless the current directory is linked with the branch, or is in a directory
    that is linked with it.

    Args:
        stays: leave the files unchanged, and only print a note.
        takes_back: after a move to an earlier commit, as by an undo, also check out the earlier
            files; otherwise the files of the later commit become uncommitted changes.
    """
    try:
        found = linked(context)
    except LakeError:  # the user named no directory, so an unusable link is ignored
        return
    if found is None or (found[1].src.repository, found[1].ref) != (repository.name, branch):
        return
    from lakecli.cli.commands.worktrees import linking, try_to_follow
    from lakecli.worktree.worktree import Worktree

    worktree = Worktree(repository, *found, linking=linking(context, repository))
    try_to_follow(context, worktree, stays=stays, takes_back=takes_back)


_SHOWN: Final = 12
"""The number of digits of a commit ID that messages show."""


def ref_of(uri: LakeUri, repository: Repository) -> str:
    """Return the ref in a URI; if it has none, the default branch."""
    return repository.record.default_branch if uri.ref is None else uri.ref


def read_lease(repository: Repository, text: str | None) -> "PushLease | None":
    """Return the lease for the value of ``--force-with-lease``; ``None`` without the option.

    A full commit ID is not looked up, because the commit may be missing on this machine.
    """
    from lakecli.repository.push import PushLease

    if text is None:
        return None
    if not text:
        return PushLease()
    if is_full_commit_id(text):
        return PushLease(CommitId(text.lower()))
    return PushLease(show_commit(repository, text).id)


def finish_interrupted(context: Context, repository: Repository) -> list[FinishedMove]:
    """Finish the moves of refs that an interrupted command began, and print their outcome."""
    from lakecli.repository.journal.intents import finish_pending

    finished = finish_pending(repository)
    context.tell_finished(finished)
    return finished


def short(commit_id: CommitId | None) -> str:
    """Return the first 12 digits of a commit ID, for messages; ``""`` for ``None``."""
    return "" if commit_id is None else commit_id[:_SHOWN]


def update_lines(updates: "tuple[RefUpdate, ...]") -> Iterator[str]:
    """Yield one line for each ref that moved in the bucket."""
    from lakecli.repository.sharing.fetch import Change

    told = {
        Change.NEW: "new, at {after}",
        Change.MOVED: "{before} -> {after}",
        Change.FORCED: "{before} -> {after} (forced)",
        Change.DELETED: "deleted, was {before}",
        Change.WENT_BACK: "{before} -> {after} (the bucket was restored to an older state)",
        Change.INCOMPLETE: "at {after}, whose commits are not in the bucket yet; fetch again",
        Change.DIFFERS: "at {after}; a different one of this name on this machine stays",
    }
    for update in updates:
        after = short(update.after) or "not there"
        shown = told[update.change].format(before=short(update.before), after=after)
        yield f"{update.kind} {update.name}: {shown}"


def pushed_line(pushed: "RefPush", *, dry_run: bool) -> str:
    """Return the line about a ref that was pushed or, with `dry_run`, would be pushed."""
    from lakecli.repository.push import Pushing

    told = {
        Pushing.CREATED: "created at {after}",
        Pushing.UPDATED: "{before} -> {after}",
        Pushing.FORCED: "{before} -> {after} (forced)",
        Pushing.DELETED: "deleted, was {before}",
        Pushing.UP_TO_DATE: UP_TO_DATE,
        Pushing.BEHIND: "nothing to push; the bucket is ahead: {after}",
    }
    would = "would be " if dry_run and pushed.before != pushed.after else ""
    shown = told[pushed.state].format(before=short(pushed.before), after=short(pushed.after))
    return f"{pushed.kind} {pushed.name}: {would}{shown}"


def distance_text(distance: "Distance") -> str:
    """Return how far a branch is ahead of and behind the bucket, in words."""
    if distance.upstream is None:
        return "deleted in the bucket" if distance.is_deleted else "never pushed"
    parts = [
        f"{word} {count}"
        for word, count in (("ahead", distance.ahead), ("behind", distance.behind))
        if count
    ]
    return ", ".join(parts) or "up to date"
