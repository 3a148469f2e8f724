"""Call the hooks of this machine: functions that run before and after a branch moves.

`Repository.hooks` maps the name of a hook to its function::

    pre-commit   before a commit is made on a branch by commit, revert, cherry-pick or a workspace
    pre-merge    before a merge commit is made on a branch, also by pull or publish
    pre-push     before a branch or tag moves in the bucket
    post-commit, post-merge, post-push   after the commit was made, or the ref has moved

A hook is called with a dictionary that describes the move; see `ask`. A ``pre-`` hook raises an
error to refuse the move; then nothing moves, and staged changes stay staged. If somebody else moves
the branch first, the commit is built again, and the hook is called again with the new commit. While
a hook runs, no transaction and no lock is held, and the new commit can be read by its ID. An error
of a ``post-`` hook becomes a notice. If a hook moves branches, no hooks are called for these moves.

lakeFS has hooks of its own, which `lakecli.repository.lakefs.hooks` reports.
"""

from contextvars import ContextVar
from typing import Final

from lakecli.base.model import Commit
from lakecli.errors import HookFailed, NothingToDo
from lakecli.repository.contract import Repository

_is_within: Final[ContextVar[bool]] = ContextVar("_is_within", default=False)


def ask(repository: Repository, what: str, **event: object) -> None:
    """Call the ``pre-`` hook of a move; the hook raises an error to refuse the move.

    Args:
        what: ``commit``, ``merge`` or ``push``.
        event: fields for the hook, in addition to ``hook`` (its name) and ``repository`` (a URI).
            For a commit or merge: ``branch``; ``before``, the head of the branch; and ``commit``.
            For a push: ``kind``; ``ref``; and the ref's commits ``before`` and ``after``, each of
            which may be ``None``.
    """
    try:
        _call(repository, f"pre-{what}", event)
    except NothingToDo as error:  # callers would take it for "nothing to move"
        raise HookFailed(error.message, hint=error.hint) from error


def tell(repository: Repository, what: str, **event: object) -> None:
    """Call the ``post-`` hook of a move that was made, with the arguments of `ask`."""
    try:
        _call(repository, f"post-{what}", event)
    except Exception as error:  # noqa: BLE001 - the branch has moved already
        repository.notify(f"the hook post-{what} failed: {error}")


def _call(repository: Repository, name: str, event: dict[str, object]) -> None:
    hook = repository.hooks.get(name)
    if hook is not None and not repository.skips_hooks and not _is_within.get():
        token = _is_within.set(True)
        try:
            hook({"hook": name, "repository": repository.uri, **event})
        finally:
            _is_within.reset(token)


def offer(repository: Repository, commit: Commit) -> None:
    """Record a commit that no branch has yet, so that hooks and checks can read it by its ID."""
    with repository.lake.kv.write() as txn:
        repository.refs(txn).put_commit(commit)
