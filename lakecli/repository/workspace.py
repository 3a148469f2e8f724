"""Work on a branch that nobody sees before it is one commit: begin, commit or discard a workspace.

A job begins a workspace on a branch and reads and stages by its name, in any process of this
machine (`lakecli.repository.journal.workspaces`). It sees the branch as it was committed when the
workspace was begun, and its own changes. Then exactly these changes are committed on top of the
head as it is by then; if others have changed the same paths, committed or staged, nothing is. What
others stage on the branch is neither seen nor committed, and stays staged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final

from lakecli.base.model import Branch, Commit
from lakecli.committed.diff import diff
from lakecli.committed.values import is_same
from lakecli.committed.writer import apply
from lakecli.errors import ConflictError, NothingToDo
from lakecli.refs.ref_store import RefStore
from lakecli.repository.commit_attempts import MAX_ATTEMPTS, Draft, attempt_on_top, kept_moving
from lakecli.repository.contract import Notice, Repository
from lakecli.repository.guard import claim_head
from lakecli.repository.journal import workspaces
from lakecli.repository.lakefs.hooks import COMMIT, notify_hooks
from lakecli.repository.reading.view import View, branch_at, view_of_branch
from lakecli.repository.staged.changes import iter_crossing, unstage_equal
from lakecli.repository.staged.partial_commit import drop_copies
from lakecli.staging import area

MAX_LISTED: Final = 1_000
"""Conflicting paths that an error lists, at most."""


class WorkspaceConflict(ConflictError):
    """Others have changed paths of a workspace on its branch since it was begun."""


def begin(repository: Repository, branch: str, *, owner: str = "") -> str:
    """Begin a workspace on a branch, and return its name.

    If the branch has staged changes, a notice says that they do not count.

    Args:
        repository: the repository of the branch.
        branch: the name of the branch.
        owner: who has begun it, for `find`.

    Raises:
        NotFound: no such branch.
    """
    with repository.lake.kv.write() as txn:
        found = branch_at(repository, txn, branch)
        name = workspaces.begin(txn, repository, found, owner)
        is_clean = area.is_clean(txn, found)
    if not is_clean:
        uri = f"{repository.uri}/{branch}"
        repository.notify(
            Notice(
                f"{branch} has uncommitted changes; the block neither sees nor commits them",
                f"look: lakecli diff {uri}",
            )
        )
    return name


def find(repository: Repository, branch: str, owner: str) -> str | None:
    """Return a workspace on a branch that this owner has begun, or ``None``."""
    with repository.lake.kv.read() as txn:
        return workspaces.find_of(txn, repository, branch, owner)


def watch(repository: Repository, name: str, prefixes: Iterable[bytes]) -> None:
    """Let the commit of a workspace be a conflict if others have committed below these prefixes.

    Raises:
        WorkspaceEnded: it was committed or discarded before.
    """
    with repository.lake.kv.write() as txn:
        workspaces.watch(txn, repository, name, prefixes)


def discard(repository: Repository, name: str) -> None:
    """Discard a workspace with its changes; whoever still writes to it is refused.

    Raises:
        WorkspaceEnded: it was committed or discarded before.
    """
    with repository.lake.kv.write() as txn:
        found = workspaces.end(txn, repository, name)
    drop_copies(repository, name=name, tokens=[found.staging_token])


def commit(
    repository: Repository,
    name: str,
    *,
    message: str,
    committer: str,
    metadata: Mapping[str, str] | None = None,
    allow_empty: bool = False,
) -> Commit:
    """Commit what was staged in a workspace, exactly that, and end it; after an error it is gone.

    Args:
        repository: the repository of the workspace.
        name: of the workspace.
        message: stored as given.
        committer: stored as given.
        metadata: stored as given.
        allow_empty: commit even if nothing changed.

    Raises:
        WorkspaceEnded: it was committed or discarded before.
        UsageError: message, committer or metadata are not UTF-8.
        NotFound: the branch is gone.
        WorkspaceConflict: others have changed the same paths of the branch.
        NothingToDo: there is no change.
        LostRace: the branch kept moving.
    """
    branch = workspaces.parts_of(name)[0]
    repository.lake.runtime.on_step("seal")
    with repository.lake.kv.write() as txn:
        watched = workspaces.watched_of(txn, name)
        ended = workspaces.end(txn, repository, name)
    try:
        for _ in range(MAX_ATTEMPTS):
            attempt = attempt_on_top(repository, branch, kind="commit")
            with attempt.view() as view:
                head = claim_head(view)
                mine = View(repository, view.txn, view.commit, (ended.staging_token,), branch)
                _check(mine, ended, watched)
                changes = ((path, value or None) for path, value in mine.staged())
                tree = apply(repository.trees, head.metarange_id, changes)
            if tree == head.metarange_id and not allow_empty:
                raise NothingToDo(
                    f"nothing to commit on {branch}: the block has changed nothing",
                    hint="allow_empty=True commits all the same",
                )
            unstage_equal(repository, branch, tree)
            made = attempt.move(Draft(tree, [head], message, committer, metadata or {}))
            if made is not None:
                notify_hooks(repository, COMMIT, branch, tree)
                return made
        raise kept_moving(branch)
    finally:
        drop_copies(repository, name=name, tokens=[ended.staging_token])


def _check(mine: View, ended: Branch, watched: Sequence[bytes]) -> None:
    """Refuse changes of paths that others have changed too: since the base, or by staging them.

    Those below a watched prefix count as if they were changed here.

    Raises:
        WorkspaceConflict: naming the paths.
    """
    repository, txn = mine.repository, mine.txn
    base = RefStore(txn, repository.key).get_commit(ended.commit_id).metarange_id
    changes = partial(diff, repository.trees, base, mine.commit.metarange_id)
    crossing = (path for path, _ in iter_crossing(mine.staged(), changes()))
    below = (each.path for prefix in watched for each in changes(prefix=prefix))
    committed = sorted({*islice(crossing, MAX_LISTED), *islice(below, MAX_LISTED)})[:MAX_LISTED]
    if committed:
        raise _conflict(mine, committed, "changed")
    staged = list(islice(_staged_otherwise(mine), MAX_LISTED))
    if staged:
        raise _conflict(mine, staged, "staged")


def _staged_otherwise(mine: View) -> Iterator[bytes]:
    """Yield the paths that are staged on the branch otherwise than here, and not as committed."""
    theirs = view_of_branch(mine.repository, mine.txn, mine.name)
    if all(area.is_empty(mine.txn, token) for token in theirs.tokens):
        return
    for path, value in mine.staged():
        staged = theirs.staged_at(path)
        if staged is None or is_same(staged or None, value or None):
            continue
        if not is_same(staged or None, mine.find_committed(path)):
            yield path


def _conflict(mine: View, paths: Sequence[bytes], what: str) -> WorkspaceConflict:
    uri = f"{mine.repository.uri}/{mine.name}"
    count = f"{len(paths)}{' or more' if len(paths) == MAX_LISTED else ''} paths of the block were"
    hints = {
        "changed": f"nothing was committed; see what they did: lakecli log {uri}",
        "staged": "nothing was committed; commit those, or discard them: "
        f"lakecli branch reset {uri}",
    }
    return WorkspaceConflict(
        f"conflict: {'a path of the block was' if len(paths) == 1 else count} {what} on "
        f"{mine.name} by others meanwhile, or before",
        hint=hints[what],
        paths=paths,
    )
