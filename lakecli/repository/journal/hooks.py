"""Hooks of this machine: callables that are called before and after a branch moves.

`Repository.hooks` has them by name::

    pre-commit   a commit is about to be made on a branch: by commit, revert, cherry-pick, a block
    pre-merge    the same for a merge commit, also of a pull or publish
    pre-push     a branch or tag is about to move in the bucket
    post-commit, post-merge, post-push   it was made, or has moved

Each is called with a document, see `ask`. A ``pre-`` hook refuses by raising an error; then nothing
moves, and what was staged stays staged. It is asked again for the commit that is built after a lost
race. While it runs, no transaction and no lock is held, and the new commit can be read by its ID.
An error of a ``post-`` hook becomes a notice. A hook that itself moves branches calls no hooks.

These hooks are not lakeFS's, which `lakecli.repository.lakefs.hooks` reports.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from lakecli.base.model import Commit
from lakecli.errors import HookFailed, NothingToDo
from lakecli.repository.contract import Repository

_is_within: Final[ContextVar[bool]] = ContextVar("_is_within", default=False)


def ask(repository: Repository, what: str, **event: object) -> None:
    """Call the hook that may refuse a move.

    Args:
        what: ``commit``, ``merge`` or ``push``.
        event: the fields of the document besides the name of the hook and the URI of the
            repository. Of a commit or merge: ``branch``, its head ``before``, and ``commit``. Of a
            push: ``kind``, ``ref``, and the positions ``before`` and ``after``, which may be
            ``None``.
    """
    try:
        _call(repository, f"pre-{what}", event)
    except NothingToDo as error:  # which would read as nothing to move
        raise HookFailed(error.message, hint=error.hint) from error


def tell(repository: Repository, what: str, **event: object) -> None:
    """Call the hook that learns of a move that was made; arguments are those of `ask`."""
    try:
        _call(repository, f"post-{what}", event)
    except Exception as error:  # noqa: BLE001 - the branch has moved
        repository.notify(f"the hook post-{what} failed: {error}")


def _call(repository: Repository, name: str, event: dict[str, object]) -> None:
    hook = repository.hooks.get(name)
    if hook is not None and not repository.skips_hooks and not _is_within.get():
        with within_hook():
            hook({"hook": name, "repository": repository.uri, **event})


@contextmanager
def within_hook() -> Iterator[None]:
    """Let what this thread does in the block call no hooks."""
    token = _is_within.set(True)
    try:
        yield
    finally:
        _is_within.reset(token)


def offer(repository: Repository, commit: Commit) -> None:
    """Record a commit that no branch has yet, so that hooks and checks can read it by its ID."""
    with repository.lake.kv.write() as txn:
        repository.refs(txn).put_commit(commit)
