"""Commit the staged changes of a branch, or only some of them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Final

from lakecli.base.model import Commit, MergeStrategy
from lakecli.committed.writer import apply
from lakecli.errors import ConflictError, NothingToDo
from lakecli.repository import commit_attempts
from lakecli.repository.contract import Repository
from lakecli.repository.guard import claim_head
from lakecli.repository.lakefs.hooks import COMMIT, notify_hooks
from lakecli.repository.reading.view import View
from lakecli.repository.staged.changes import iter_staged_conflicts
from lakecli.repository.staged.partial_commit import StagedPart

MAX_LISTED: Final = 1_000
"""Maximum number of conflicting paths that an error lists."""


class StagedConflict(ConflictError):
    """After paths were staged, others committed different changes of these paths on the branch."""


def commit(
    repository: Repository,
    branch: str,
    *,
    message: str,
    committer: str,
    metadata: Mapping[str, str] | None = None,
    allow_empty: bool = False,
    created_at: datetime | None = None,
    strategy: MergeStrategy = MergeStrategy.FAIL,
    paths: Collection[bytes] = (),
    prefixes: Collection[bytes] = (),
) -> Commit:
    """Commit the staged changes of a branch, or only some of them, atomically.

    Staging the same contents again does not count as a change. Changes that are staged during the
    commit stay staged.

    Args:
        message: the commit message, stored as given.
        committer: the committer, stored as given.
        metadata: the user metadata, stored as given.
        allow_empty: commit even if nothing changed.
        created_at: the commit's date; ``None``: now.
        strategy: decides paths whose staged change conflicts with a newer commit that came with a
            pull or an automatic fetch: ``source-wins`` takes the staged change, ``dest-wins`` the
            committed change.
        paths: commit only objects with one of these paths, or below one of them as a directory.
        prefixes: commit only paths that begin with one of these prefixes. With neither `paths` nor
            `prefixes`, everything is committed; otherwise all other changes stay staged.

    Raises:
        UsageError: message, committer or metadata are not UTF-8.
        StagedConflict: staged changes conflict with newer commits, and no strategy decides.
        NotFound: no such branch.
        NothingToDo: there is no change.
        LostRace: another commit contains the staged changes.
    """
    only = StagedPart.of(paths, prefixes) if paths or prefixes else None
    attempt: commit_attempts.Attempt | None = None
    for _ in range(commit_attempts.MAX_ATTEMPTS):
        attempt = commit_attempts.staged_attempt(repository, branch, last=attempt, who=committer)
        with attempt.sealed_view() as view:
            head = claim_head(view)
            changes = _changes(view, branch, strategy, only)
            tree = apply(repository.trees, view.commit.metarange_id, changes)
        if tree == head.metarange_id and not allow_empty:
            if not attempt.unseal():
                continue  # the branch has changed
            uri, what = f"{repository.uri}/{branch}", f"nothing to commit on {branch}"
            if only is None:
                raise NothingToDo(what, hint=f"stage something: `fs upload FILE {uri}/PATH`")
            hint = f"list what is staged: `diff {uri}`"
            raise NothingToDo(f"{what} at these paths", hint=hint)
        draft = commit_attempts.Draft(tree, [head], message, committer, metadata or {}, created_at)
        made = attempt.move(draft, only=only)
        if made is not None:
            notify_hooks(repository, COMMIT, branch, tree)
            return made
    raise commit_attempts.kept_moving(branch)


def _changes(
    view: View, branch: str, strategy: MergeStrategy, only: StagedPart | None
) -> Iterator[tuple[bytes, bytes | None]]:
    """Return the changes to commit as (path, value), in path order; ``None`` for a removal."""
    changes = (
        (path, value or None)  # b"": a tombstone
        for path, value in view.staged()
        if only is None or only.has(path)
    )
    if strategy == MergeStrategy.SOURCE_WINS:
        return changes
    conflicts = (each for each in iter_staged_conflicts(view) if only is None or only.has(each[0]))
    if strategy == MergeStrategy.DEST_WINS:
        return _without(changes, conflicts)
    paths = [path for path, _ in islice(conflicts, MAX_LISTED)]
    if paths:
        uri = f"{view.repository.uri}/{branch}"
        raise StagedConflict(
            f"conflict: {counted_paths(paths)} changed on {branch} by others since",
            hint=f"look: `log {uri}`; then stage them as they should be, or commit with "
            "`strategy=source-wins` (what is staged) or `strategy=dest-wins` (what is there)",
            paths=paths,
        )
    return changes


def counted_paths(paths: Sequence[bytes], what: str = "staged path", *, of: str = "") -> str:
    """Return the beginning of a sentence about conflicting paths, such as ``2 staged paths were``.

    Args:
        paths: the paths, at most `MAX_LISTED`; `MAX_LISTED` paths count as that many or more.
        what: the name of one of the paths, without an article.
        of: an addition such as `` of main``.
    """
    if len(paths) == 1:
        return f"a {what}{of} was"
    return f"{len(paths)}{' or more' if len(paths) == MAX_LISTED else ''} {what}s{of} were"


def _without(
    changes: Iterator[tuple[bytes, bytes | None]], left_out: Iterator[tuple[bytes, bytes | None]]
) -> Iterator[tuple[bytes, bytes | None]]:
    skipped, _ = next(left_out, (None, None))
    for path, value in changes:
        while skipped is not None and skipped < path:
            skipped, _ = next(left_out, (None, None))
        if path != skipped:
            yield path, value
