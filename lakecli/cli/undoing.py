"""``undo`` and ``redo``, and ``op undo`` and ``op redo``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakecli.cli.operations import undone_lines, undone_record
from lakecli.cli.text import quote_path
from lakecli.repository.undo.claims import GONE

DIRECTORY: Final = "directory"
"""`lakecli.worktree.keep.DIRECTORY`, which most undos need not import."""

if TYPE_CHECKING:
    from lakecli.cli.context import Context
    from lakecli.kv.operations import Operation
    from lakecli.repository.core.lake import Repository
    from lakecli.repository.undo.undo import Undone
    from lakecli.uri import LakeUri


def run_undo(context: Context, uri: LakeUri, *, remote: bool) -> None:
    """Undo the newest operation of a repository, and print it."""
    from lakecli.repository.undo.undo import undo

    repository = context.synced(context.logged_repository(uri, wanted="undo"))
    shared = remote or repository.syncs
    done = undo(repository, remote=shared, committer=context.committer() if shared else "")
    _answer(context, "Undone", done)
    if DIRECTORY in done.operation.metadata:
        _bring_back(context, repository, done.operation)
    if done.operation.kind == "repo create":
        context.out.note(
            f"its storage namespace still belongs to it; to restore it: lakecli redo {uri}"
        )


def run_redo(context: Context, uri: LakeUri) -> None:
    """Redo the last undone operation of a repository, and print it."""
    from lakecli.repository.undo.undo import redo

    repository = context.synced(context.logged_repository(uri, wanted="redo"))
    _answer(context, "Redone", redo(repository))


def _bring_back(context: Context, repository: Repository, operation: Operation) -> None:
    """Write the files back that a command on a working directory had overwritten."""
    from lakecli.cli.worktrees import downloads
    from lakecli.worktree.keep import restore_kept

    directory = operation.metadata[DIRECTORY]
    written = restore_kept(repository, operation, downloads(context, repository, None))
    if written is None:
        context.out.warn(f"{directory} is not linked with {repository.uri} any more: no file there")
        return
    files = "a file is" if written.downloaded == 1 else f"{written.downloaded} files are"
    context.out.note(f"{files} back in {directory}")
    for path in written.kept:
        context.out.warn(f"{quote_path(path)} has changed since, and stays as it is")
    for path, why in [*written.impossible, *written.failures]:
        context.out.warn(f"cannot bring back {quote_path(path)}: {why}")


def _answer(context: Context, word: str, done: Undone) -> None:
    context.out.emit(undone_record(done), text=lambda: undone_lines(word, done))
    warn_of_gone(context, done.appended)


def warn_of_gone(context: Context, appended: Operation) -> None:
    """Warn if garbage collection has deleted objects that an operation restored."""
    gone = appended.metadata.get(GONE)
    if gone is not None:
        context.out.warn(
            f"garbage collection has deleted {gone} of the restored objects and lists of paths; "
            "upload these objects again before you push"
        )
