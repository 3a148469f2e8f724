"""``undo`` and ``redo``, and ``op undo`` and ``op redo``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakecli.cli.operations import undone_lines, undone_record
from lakecli.repository.undo.claims import GONE

if TYPE_CHECKING:
    from lakecli.cli.context import Context
    from lakecli.kv.operations import Operation
    from lakecli.repository.undo.undo import Undone
    from lakecli.uri import LakeUri


def run_undo(context: Context, uri: LakeUri, *, remote: bool) -> None:
    """Undo the newest operation of a repository, and print it."""
    from lakecli.repository.undo.undo import undo

    repository = context.synced(context.logged_repository(uri, wanted="undo"))
    shared = remote or repository.syncs
    done = undo(repository, remote=shared, committer=context.committer() if shared else "")
    _answer(context, "Undone", done)
    if done.operation.kind == "repo create":
        context.out.note(
            f"its storage namespace still belongs to it; to restore it: lakecli redo {uri}"
        )


def run_redo(context: Context, uri: LakeUri) -> None:
    """Redo the last undone operation of a repository, and print it."""
    from lakecli.repository.undo.undo import redo

    repository = context.synced(context.logged_repository(uri, wanted="redo"))
    _answer(context, "Redone", redo(repository))


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
