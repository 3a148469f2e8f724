"""``lakecli status``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakecli.cli.context import Context
from lakecli.cli.params import AtOp, RepositoryOrBranchUri

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from lakecli.model import CommitId
    from lakecli.repository.core.lake import Repository
    from lakecli.repository.core.pending import Finished
    from lakecli.repository.status import BranchStatus


def status(context: Context, branch: RepositoryOrBranchUri, *, at_op: AtOp = "") -> None:
    """Show how branches differ from the bucket's, and what is not committed on them.

    Of one branch, or of all. The bucket is not asked, unless sync is auto: it is compared with
    where it stood at the last fetch, pull or push. Uncommitted changes are this clone's own: nobody
    else sees them, and a push does not take them along.

    Examples:
        lakecli status lakefs://demo
        lakecli status lakefs://demo/main --json
    """
    from lakecli.cli.records import ref_record
    from lakecli.cli.sharing import move_record
    from lakecli.repository import status as states

    repository = context.synced_repository(branch, at_op=at_op)
    pending = [] if at_op else _finish(context, repository)
    if not at_op:
        states.notify_rollback(repository)
    found = list(states.status(repository, branch.ref))
    fetched_at = states.last_fetched(repository)
    missing = list(states.only_in_bucket(repository)) if branch.ref is None else []
    context.out.emit(
        {
            "repository": repository.uri,
            "storage_namespace": repository.record.storage_namespace,
            "fetched_at": fetched_at,
            "branches": [_record(each) for each in found],
            "only_in_bucket": [ref_record(name, commit_id) for name, commit_id in missing],
            "pending": [move_record(each) for each in pending],
        },
        text=lambda: _lines(found, missing, fetched_at, now=context.now()),
    )


def _finish(context: Context, repository: Repository) -> list[Finished]:
    from lakecli.cli.sharing import finish_interrupted
    from lakecli.errors import Unreachable

    try:
        return finish_interrupted(context, repository)
    except Unreachable as error:
        context.out.warn(f"cannot find out what became of an interrupted push: {error.message}")
        return []


def _record(branch: BranchStatus) -> dict[str, object]:
    return {
        "name": branch.name,
        "commit_id": branch.commit_id,
        "upstream": branch.distance.upstream,
        "ahead": branch.distance.ahead,
        "behind": branch.distance.behind,
        "added": branch.added,
        "changed": branch.changed,
        "removed": branch.removed,
    }


def _lines(
    branches: Sequence[BranchStatus],
    missing: Sequence[tuple[str, CommitId]],
    fetched_at: datetime | None,
    *,
    now: datetime,
) -> Iterator[str]:
    from lakecli.cli.progress import human_seconds
    from lakecli.cli.sharing import distance_text

    if fetched_at is None:
        yield "The bucket was never fetched."
    else:
        age = max(0, int((now - fetched_at).total_seconds()))
        yield f"The bucket was last fetched {human_seconds(age)} ago."
    uncommitted = False
    for branch in branches:
        distance = branch.distance
        told = [
            distance_text(
                distance.upstream, distance.ahead, distance.behind, is_deleted=distance.is_deleted
            )
        ]
        counts = {
            "added": branch.added,
            "changed": branch.changed,
            "removed": branch.removed,
        }
        staged = [f"{count} {what}" for what, count in counts.items() if count]
        if staged:
            uncommitted = True
            told.append(f"uncommitted: {', '.join(staged)}")
        yield f"{branch.name}: {'; '.join(told)}"
    for name, _ in missing:
        yield f"{name}: only in the bucket"
    if uncommitted:
        yield "Uncommitted changes are of this clone alone."
