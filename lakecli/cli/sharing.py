"""Shared by clone, fetch, pull, push and status: refs in the bucket as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from lakecli.base.model import CommitId
from lakecli.cli.out.answers import pick
from lakecli.cli.out.answers import sharing as answers
from lakecli.cli.out.text import one_line
from lakecli.refs.names import is_full_commit_id
from lakecli.repository.pending.intents import finish_pending
from lakecli.repository.reading.view import commit_at
from lakecli.repository.records.ref_changes import Finished, State

if TYPE_CHECKING:
    from lakecli.base.uri import LakeUri
    from lakecli.cli.context import Context
    from lakecli.repository.clone import Cloned
    from lakecli.repository.contract import Repository
    from lakecli.repository.lakefs.restore import Restored
    from lakecli.repository.lakefs.update import Updated
    from lakecli.repository.push import Lease, Pushed
    from lakecli.repository.records.ref_changes import CaughtUp
    from lakecli.repository.sharing.fetch import RefUpdate
    from lakecli.repository.status import Distance

UP_TO_DATE: Final = "everything up to date"

_SHOWN: Final = 12
"""Digits of a commit ID in a line."""


def ref_of(uri: LakeUri, repository: Repository) -> str:
    """Return the branch or tag that a URI names, else the default branch."""
    return repository.record.default_branch if uri.ref is None else uri.ref


def read_lease(repository: Repository, text: str | None) -> Lease | None:
    """Return the lease that an option asks for; a commit that is not here is taken as typed."""
    from lakecli.repository.push import Lease

    if text is None:
        return None
    if not text:
        return Lease()
    if is_full_commit_id(text):
        return Lease(CommitId(text.lower()))
    with repository.lake.kv.read() as txn:
        return Lease(commit_at(repository, txn, text).id)


def finish_interrupted(context: Context, repository: Repository) -> list[Finished]:
    """Finish what an interrupted command left, and show what became of it."""
    finished = finish_pending(repository)
    _tell(context, finished)
    return finished


def tell_caught_up(context: Context, caught_up: CaughtUp) -> None:
    """Tell what became of that which earlier commands left, where sharing is automatic."""
    _tell(context, caught_up.finished)
    for error in caught_up.unsent:
        context.out.warn(error.message)
        if error.hint is not None:
            context.out.hint(error.hint)


def _tell(context: Context, finished: Sequence[Finished]) -> None:

    for each in finished:
        show = context.out.warn if each.state is State.LOST else context.out.note
        show(each.text())


def short(commit_id: CommitId | None) -> str:
    """Return the beginning of a commit ID, for a line that people read."""
    return "" if commit_id is None else commit_id[:_SHOWN]


def show_clone(
    context: Context,
    made: Cloned | Restored | Updated,
    *,
    source: str,
    left_out: Sequence[answers.RefUpdate],
    warnings: Iterable[str],
    damaged: Sequence[answers.Damage] = (),
    updated: Sequence[answers.RefUpdate] = (),
) -> None:
    """Report a new clone, and ask about the places outside its namespace that it needs.

    Args:
        context: of the command.
        made: the clone.
        source: what it was cloned from, before the storage namespace.
        left_out: the refs that it lacks, for ``--json``.
        warnings: the same, for people.
        damaged: the records that were left out.
        updated: the refs that a newer dump of lakeFS moved.
    """
    from lakecli.cli.outside import ask_about_outside, place_records

    record = made.repository.record
    outside = ask_about_outside(context, made.repository)
    for line in warnings:
        context.out.warn(f"left out: {line}")
    context.keep(made.repository)
    context.out.emit(
        pick(
            answers.Cloned,
            made,
            record,
            repository=made.repository.uri,
            left_out=left_out,
            damaged=damaged,
            outside=place_records(outside),
            updated=updated,
        ),
        text=lambda: [
            f"Repository: {made.repository.uri}",
            f"Cloned from {source}{one_line(record.storage_namespace)}:",
            f"branches: {made.branches}",
            f"tags: {made.tags}",
            f"commits: {made.commits}",
            f"default branch: {record.default_branch}",
        ],
    )


def update_lines(updates: tuple[RefUpdate, ...]) -> Iterator[str]:
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


def pushed_line(pushed: Pushed, *, dry_run: bool) -> str:
    """Return the line of a ref that was pushed, or would be."""
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


def distance_text(distance: Distance) -> str:
    """Return how far a branch is ahead of and behind the bucket, in words."""
    if distance.upstream is None:
        return "deleted in the bucket" if distance.is_deleted else "never pushed"
    parts = [
        f"{word} {count}"
        for word, count in (("ahead", distance.ahead), ("behind", distance.behind))
        if count
    ]
    return ", ".join(parts) or "up to date"
