"""Begin, commit and discard a workspace: private changes of a branch that become one commit.

A job begins a workspace on a branch, and reads and stages under the workspace's name, in any
process of this machine (`lakecli.repository.journal.workspaces`). The workspace shows the branch as
it was at the beginning, with its staged changes, and the job's own changes. At the end, exactly the
job's changes are committed on top of the branch's present head. If others have changed the same
paths meanwhile, committed or staged, nothing is committed. Changes that others stage on the branch
are not committed and stay staged, except staged changes that the commit replaces.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

from lakecli.base.model import Branch, Commit
from lakecli.committed.diff import diff
from lakecli.committed.values import is_same
from lakecli.committed.writer import apply
from lakecli.errors import ConflictError, NothingToDo
from lakecli.repository import commit_attempts
from lakecli.repository.commit import MAX_LISTED, counted_paths
from lakecli.repository.contract import Repository
from lakecli.repository.guard import claim_head
from lakecli.repository.journal import workspaces
from lakecli.repository.lakefs.hooks import COMMIT, notify_hooks
from lakecli.repository.policy.early import check_early
from lakecli.repository.reading.view import View, branch_at, view_of_branch
from lakecli.repository.staged.changes import iter_crossing
from lakecli.repository.staged.partial_commit import StagedPart, drop_copies
from lakecli.staging import area


class WorkspaceConflict(ConflictError):
    """Since a workspace was begun, others have changed the same paths on its branch."""


def begin(repository: Repository, branch: str, *, owner: str = "") -> str:
    """Begin a workspace on a branch, and return its name.

    Args:
        owner: an identifier of the job that begins the workspace, by which `find` finds it.

    Raises:
        NotFound: no such branch.
    """
    check_early(repository, branch)
    commit_attempts.seal(repository, branch)  # hides changes that are staged later
    with repository.lake.kv.write() as txn:
        return workspaces.begin(txn, repository, branch_at(repository, txn, branch), owner)


def find(repository: Repository, branch: str, owner: str) -> str | None:
    """Return the name of the workspace that an owner has begun on a branch, or ``None``."""
    with repository.lake.kv.read() as txn:
        return workspaces.find_of(txn, repository, branch, owner)


def watch(repository: Repository, name: str, prefixes: Iterable[bytes]) -> None:
    """Watch prefixes: the workspace cannot be committed if others have committed below them.

    Raises:
        WorkspaceEnded: the workspace was committed or discarded before.
    """
    with repository.lake.kv.write() as txn:
        workspaces.watch(txn, repository, name, prefixes)


def discard(repository: Repository, name: str) -> None:
    """Discard a workspace with its changes; later writes to it raise an error.

    Raises:
        WorkspaceEnded: the workspace was committed or discarded before.
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
    """Commit exactly the changes of a workspace; end the workspace, even after an error.

    Args:
        message: the message, stored as given.
        committer: the committer, stored as given.
        metadata: the user metadata, stored as given.
        allow_empty: commit even if nothing changed.

    Raises:
        WorkspaceEnded: the workspace was committed or discarded before.
        UsageError: message, committer or metadata are not UTF-8.
        NotFound: the branch is gone.
        WorkspaceConflict: others have changed the same paths of the branch.
        NothingToDo: there is no change.
        LostRace: others kept moving the branch.
    """
    branch = workspaces.parts_of(name)[0]
    repository.lake.runtime.on_step("seal")
    with repository.lake.kv.write() as txn:
        watched = workspaces.watched_of(txn, name)
        ended = workspaces.end(txn, repository, name)
    try:
        for _ in range(commit_attempts.MAX_ATTEMPTS):
            attempt = commit_attempts.attempt_on_top(
                repository, branch, kind="commit", who=committer
            )
            if _is_staged(repository, branch, ended):
                attempt = attempt._replace(branch=commit_attempts.seal(repository, branch))
            with attempt.sealed_view() as view:
                head = claim_head(view)
                mine = _Mine(view, ended)
                mine.check(watched)
                replaced = frozenset(mine.staged_too())
                tree = apply(repository.trees, head.metarange_id, mine.changes())
            if tree == head.metarange_id and not allow_empty:
                what = f"nothing to commit on {branch}: the block has changed nothing"
                raise NothingToDo(what, hint="allow_empty=True commits anyway")
            draft = commit_attempts.Draft(tree, [head], message, committer, metadata or {})
            made = attempt.move(draft, only=StagedPart(replaced))
            if made is not None:
                notify_hooks(repository, COMMIT, branch, tree)
                return made
        raise commit_attempts.kept_moving(branch)
    finally:
        drop_copies(repository, name=name, tokens=[ended.staging_token])


def _is_staged(repository: Repository, branch: str, ended: Branch) -> bool:
    """Return whether the branch has a staged change at a path of the workspace."""
    with repository.lake.kv.read() as txn:
        theirs = view_of_branch(repository, txn, branch)
        return not theirs.is_clean() and any(
            theirs.staged_at(path) is not None for path, _ in area.scan(txn, ended.staging_token)
        )


class _Mine:
    """The changes of a workspace, compared with the present state of its branch.

    Args:
        there: the head of the branch and its sealed changes, some of which the commit replaces.
        ended: the workspace, which accepts no more changes.
    """

    def __init__(self, there: View, ended: Branch) -> None:
        self._there = there
        repository, txn = there.repository, there.txn
        base = repository.refs(txn).get_commit(ended.commit_id)
        self._token = ended.staging_token
        self._seen = View(repository, txn, base, ended.sealed_tokens, ended.name)
        """The branch as it was when the workspace was begun."""

    def changes(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield the changes as (path, value), in path order; ``None`` for a removal."""
        found = area.scan(self._there.txn, self._token)
        return ((path, value or None) for path, value in found)

    def check(self, watched: Sequence[bytes]) -> None:
        """Raise an error if others have changed the same paths since the workspace was begun.

        Changes by others that the workspace repeats or has seen are allowed. Paths below a watched
        prefix are treated as if the workspace had changed them.

        Raises:
            WorkspaceConflict: others have changed the paths that the error lists.
        """
        there = self._there
        trees, base = there.repository.trees, self._seen.commit.metarange_id
        changes = partial(diff, trees, base, there.commit.metarange_id)
        crossing = iter_crossing(area.scan(there.txn, self._token), changes())
        committed = (path for path, value in crossing if not self._has_seen(path, value))
        below = (each.path for prefix in watched for each in changes(prefix=prefix))
        paths = sorted({*islice(committed, MAX_LISTED), *islice(below, MAX_LISTED)})
        uri = f"{there.repository.uri}/{there.name}"
        if paths:
            hint = f"nothing was committed; see what they did: `log {uri}`"
            raise _conflict(there, paths[:MAX_LISTED], "changed", hint)
        staged = (path for path, value in self.changes() if self._is_staged_otherwise(path, value))
        if paths := list(islice(staged, MAX_LISTED)):
            hint = f"nothing was committed; commit those, or discard them: `branch reset {uri}`"
            raise _conflict(there, paths, "staged", hint)

    def _has_seen(self, path: bytes, value: bytes | None) -> bool:
        return is_same(self._seen.find(path), value)

    def _is_staged_otherwise(self, path: bytes, value: bytes | None) -> bool:
        staged = self._there.staged_at(path)
        if staged is None or is_same(staged or None, value):
            return False
        is_as_committed = is_same(staged or None, self._there.find_committed(path))
        return not is_as_committed and not self._has_seen(path, staged or None)

    def staged_too(self) -> Iterator[bytes]:
        """Yield the workspace's paths that are also staged on the branch."""
        return (path for path, _ in self.changes() if self._there.staged_at(path) is not None)


def _conflict(there: View, paths: Sequence[bytes], what: str, hint: str) -> WorkspaceConflict:
    count = counted_paths(paths, "path", of=" of the block")
    message = f"conflict: {count} {what} on {there.name} by others meanwhile"
    return WorkspaceConflict(message, hint=hint, paths=paths)
