"""``undo`` and ``redo``, and ``op undo`` and ``op redo``."""

from __future__ import annotations

from functools import partial
from typing import Final

from lakecli.base.uri import LakeUri
from lakecli.cli.context import Context
from lakecli.cli.operations import undone_lines, undone_record
from lakecli.cli.out.text import quote_path
from lakecli.cli.worktrees import downloads
from lakecli.kv.operations import Operation
from lakecli.repository.contract import Repository
from lakecli.repository.undo.apply import GONE
from lakecli.repository.undo.log import REDO, UNDO, UNDOES, iter_log, redo_target
from lakecli.repository.undo.undo import Undone, complete, redo, undo
from lakecli.worktree.keep import check_directory, is_unfinished, overwrite_again, restore_kept
from lakecli.worktree.writer import WriteReport

DIRECTORY: Final = "directory"
"""`lakecli.worktree.keep.DIRECTORY`, which most undos need not import."""

_COMPLETED: Final = "the {} before was interrupted; it is complete now"


def run_undo(context: Context, uri: LakeUri, *, remote: bool) -> None:
    """Undo the newest operation of a repository, and print it."""
    repository = context.synced(context.logged_repository(uri, wanted="undo"), restores=True)
    if _has_finished(context, repository):
        return
    shared = remote or repository.syncs
    committer = context.committer() if shared else ""
    done = undo(repository, remote=shared, committer=committer, check=partial(_check, repository))
    if done.is_completed:
        context.out.note(_COMPLETED.format("undo"))
    _answer(context, "Undone", done)
    if DIRECTORY in done.operation.metadata and not done.is_completed:
        _bring_back(context, repository, done.operation)
    if done.operation.kind == "repo create":
        context.out.note(
            f"its storage namespace still belongs to it; to restore it: lakecli redo {uri}"
        )


def _check(repository: Repository, operation: Operation) -> None:
    """Refuse to undo what a command has overwritten in a directory that is not found."""
    if DIRECTORY in operation.metadata:
        check_directory(repository, operation)


def _has_finished(context: Context, repository: Repository) -> bool:
    """Bring the rest of the files back if the last undo was interrupted; tell whether it was."""
    operation = redo_target(repository)
    if operation is None or DIRECTORY not in operation.metadata:
        return False

    if not is_unfinished(repository, operation):
        return False
    written = _bring_back(context, repository, operation)
    id_ = operation.id.hex()
    appended = next(
        each.operation
        for each in iter_log(repository)
        if each.operation.metadata.get(UNDOES) == id_
    )
    complete(repository, UNDO, remote=False)  # its answer is this one
    if not written.can_repeat:
        context.out.note(_COMPLETED.format("undo"))
    _answer(context, "Undone", Undone(operation, appended))
    return True


def run_redo(context: Context, uri: LakeUri) -> None:
    """Redo the last undone operation of a repository, and print it."""
    repository = context.synced(context.logged_repository(uri, wanted="redo"), restores=True)
    if (done := complete(repository, REDO, remote=repository.syncs)) is not None:
        context.out.note(_COMPLETED.format("redo"))
        _answer(context, "Redone", done)
        return
    operation = redo_target(repository)
    if operation is not None and DIRECTORY in operation.metadata:
        _overwrite_again(context, repository, operation)
    _answer(context, "Redone", redo(repository))


def _overwrite_again(context: Context, repository: Repository, operation: Operation) -> None:
    """Overwrite the files again that undo has brought back."""
    written = overwrite_again(repository, operation, downloads(context, repository, None))
    if written is None:
        context.out.warn(
            f"{operation.metadata[DIRECTORY]} is at another commit, or not linked with "
            f"{repository.uri} any more: no file was overwritten there"
        )
        return
    count = written.downloaded + written.removed
    files = "a file was" if count == 1 else f"{count} files were"
    context.out.note(f"{files} overwritten or removed in {written.directory}")
    _warn_of_rest(context, written, "overwrite")


def _bring_back(context: Context, repository: Repository, operation: Operation) -> WriteReport:
    """Write the files back that a command on a working directory had overwritten.

    Raises:
        DirectoryGone: the directory is not found.
    """
    written = restore_kept(repository, operation, downloads(context, repository, None))
    assert written is not None, "the operation has kept files"
    files = "a file is" if written.downloaded == 1 else f"{written.downloaded} files are"
    context.out.note(f"{files} back in {written.directory}")
    _warn_of_rest(context, written, "bring back")
    if written.can_repeat:
        context.out.note(f"to bring back the rest: lakecli undo {repository.uri}")
    return written


def _warn_of_rest(context: Context, written: WriteReport, verb: str) -> None:
    for path in written.kept:
        context.out.warn(f"{quote_path(path)} has changed since, and stays as it is")
    for path, why in [*written.impossible, *written.failures]:
        context.out.warn(f"cannot {verb} {quote_path(path)}: {why}")


def _answer(context: Context, word: str, done: Undone) -> None:
    context.out.emit(lambda: undone_record(done), text=lambda: undone_lines(word, done))
    warn_of_gone(context, done.appended)


def warn_of_gone(context: Context, appended: Operation) -> None:
    """Warn if garbage collection has deleted objects that an operation restored."""
    gone = appended.metadata.get(GONE)
    if gone is not None:
        context.out.warn(
            f"garbage collection has deleted {gone} of the restored objects and lists of paths; "
            "upload these objects again before you push"
        )
