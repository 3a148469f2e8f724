"""``lakecli op``, ``undo`` and ``redo``: the operation log, undo and redo."""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, TypedDict

from lakecli.base.model import RefKind
from lakecli.cli.commands.moved_refs import bring_along
from lakecli.cli.context import Context
from lakecli.cli.out.records import answers, fields_of
from lakecli.cli.out.text import human_size, local_date, one_line, quote_path, short_age
from lakecli.cli.params import Amount, HereRepositoryUri, OperationId, Remote, RepositoryUri, Yes
from lakecli.cli.parsers import repository_here
from lakecli.errors import Refused
from lakecli.kv.compaction import alone, compact
from lakecli.kv.operations import POLICY, Operation, RefChange
from lakecli.repository.contract import Repository
from lakecli.repository.download import DownloadOptions
from lakecli.repository.handle.housekeeping import drain
from lakecli.repository.journal.unsent_moves import LOCAL
from lakecli.repository.undo import log
from lakecli.repository.undo import undo as undoing
from lakecli.repository.undo.pushed_refs import RESET
from lakecli.repository.undo.take_back import GONE
from lakecli.worktree import kept_for_undo
from lakecli.worktree.commit import LOCAL_COMMIT
from lakecli.worktree.fetching import WriteReport

_COMPLETED: Final = "the {} before was interrupted; it is complete now"

_SHOWN_CHANGES: Final = 3


class StagedPathJson(TypedDict):
    """A path that an operation staged.

    Attributes:
        before: what was staged at the path before the operation: nothing, object or deletion.
    """

    branch: str
    path: bytes | str
    before: str


class OperationShownJson(TypedDict):
    """An operation with the paths that it staged.

    The other fields are those of `LoggedOperation`.

    Attributes:
        paths: staged paths, at most the number that --amount gives.
    """

    paths: Sequence[StagedPathJson]


class CompactedJson(TypedDict):
    """The result of compacting the local store.

    Attributes:
        store: the directory of the store.
        before: size of the store's file before, in bytes.
        after: size of the store's file now, in bytes.
    """

    store: Path
    before: int
    after: int


@answers(undoing.Undone)
def undo(context: Context, repository: HereRepositoryUri = None, *, remote: Remote = False) -> None:
    """Undo the last operation on a repository.

    An operation is whatever a command changed: a commit, a merge, an upload, a deleted branch with
    its uncommitted changes, even a deleted repository. Run undo again to undo the operation before
    it, and redo to redo an undone operation. `lakecli op log` lists the operations of the last 30
    days.

    A pushed branch or tag stays as it is in the bucket. With --remote, or with automatic sync (the
    setting sync, lakecli help remotes), it moves back in the bucket, too. Commits that others
    pushed are never removed from a branch in the bucket. If somebody has moved the branch or tag
    since, nothing is undone. While another process is pushing it, undo is refused. Undoing a clone,
    fetch or pull affects this machine only, so --remote is refused then.

    If undo or redo runs in a linked directory and moves its branch, the directory is updated, too;
    files that were committed from the directory become uncommitted changes again.

    An interrupted undo is completed by the next undo, which then undoes nothing else.

    Files that restore, checkout or `local pull --force` had overwritten are restored in their
    directory, even if the directory was renamed. If the directory is not found, nothing is undone:
    move it back to its path first.

    Examples:
        lakecli undo
        lakecli undo lakefs://demo
        lakecli undo lakefs://demo --remote
        lakecli op log lakefs://demo
    """
    uri = repository_here(repository, context)
    opened = context.logged_repository(uri, wanted="undo", syncs=True)
    if _has_finished(context, opened):
        return
    shared = remote or opened.syncs
    committer = context.committer() if shared else ""
    done = undoing.undo(
        opened, remote=shared, committer=committer, check=partial(_check_undo, opened, remote)
    )
    if done.is_completed:
        context.out.note(_COMPLETED.format("undo"))
    _answer(context, "Undone", done)
    if kept_for_undo.DIRECTORY in done.operation.metadata and not done.is_completed:
        _bring_back(context, opened, done.operation)
    stays = done.operation.kind == LOCAL_COMMIT
    _bring_along(context, opened, done.appended, stays=stays, takes_back=True)
    if done.operation.kind == "repo create":
        context.out.note(
            f"its storage namespace still belongs to it; to restore it: lakecli redo {uri}"
        )


@answers(undoing.Undone)
def redo(context: Context, repository: HereRepositoryUri = None) -> None:
    """Redo the last undone operation.

    Each redo redoes one undone operation, until another command changes the repository. Nothing
    moves in the bucket; use push for that, unless automatic sync is on. Rules that `lakecli policy
    set` had set are set again, for all clones. Files of a linked directory that the operation had
    overwritten are overwritten again, unless they have changed since the undo. An interrupted redo
    is completed by the next redo, which then redoes nothing else.

    Examples:
        lakecli redo lakefs://demo
    """
    uri = repository_here(repository, context)
    opened = context.logged_repository(uri, wanted="redo", syncs=True)
    if (done := undoing.complete(opened, log.REDO, remote=opened.syncs)) is not None:
        context.out.note(_COMPLETED.format("redo"))
        _answer(context, "Redone", done)
        return
    operation = log.redo_target(opened)
    if operation is not None and kept_for_undo.DIRECTORY in operation.metadata:
        _overwrite_again(context, opened, operation)
    is_policy = operation is not None and POLICY in operation.metadata
    done = undoing.redo(opened, committer=context.committer() if is_policy else "")
    _answer(context, "Redone", done)
    _bring_along(context, opened, done.appended, stays=done.operation.kind == RESET)


@answers(undoing.Undone)
def op_undo(context: Context, repository: RepositoryUri, *, remote: Remote = False) -> None:
    """Undo the last operation on a repository; the same as lakecli undo.

    Examples:
        lakecli op undo lakefs://demo
    """
    undo(context, repository, remote=remote)


@answers(undoing.Undone)
def op_redo(context: Context, repository: RepositoryUri) -> None:
    """Redo the last undone operation; the same as lakecli redo.

    Examples:
        lakecli op redo lakefs://demo
    """
    redo(context, repository)


@answers(log.LoggedOperation, each=True)
def op_log(context: Context, repository: HereRepositoryUri = None, *, amount: Amount = 100) -> None:
    """Show the operation log of a repository, newest operation first.

    Each operation is listed with its ID, time, kind, changes and command line; on a terminal, these
    are shortened unless --no-trunc is given. Operations are kept for 30 days on the machine that
    ran them. The log of a deleted repository is kept under its name.

    REPOSITORY defaults to that of the linked directory, or else to the default set by `lakecli
    use`.

    Examples:
        lakecli op log
        lakecli op log lakefs://demo
        lakecli op log lakefs://demo --amount 5 --json
    """
    found = log.iter_log(context.logged_repository(repository_here(repository, context)))
    is_short = context.out.terminal and not context.out.whole

    def row(item: log.LoggedOperation) -> tuple[str, ...]:
        operation = item.operation
        kind = operation.kind + (" (undone)" if item.undone else "")
        return (
            operation.hex_id[: log.SHORT_ID],
            short_age(operation.at, context.now()) if is_short else local_date(operation.at),
            *([] if is_short else [kind]),
            changes_line(operation, with_ids=not is_short),
            _with_kind(item) if is_short else one_line(operation.command),
        )

    context.out.table(
        ("Operation", "Time", *([] if is_short else ["Kind"]), "Changes", "Command"),
        context.out.page(found, amount=amount),
        row=row,
        kept=("Changes", "Command"),
    )


def _with_kind(item: log.LoggedOperation) -> str:
    """Return the command line of an operation; if it lacks the kind, put the kind before it."""
    kind, command = item.operation.kind, one_line(item.operation.command)
    said = command if kind in command else f"{kind}: {command}".rstrip(": ")
    said = _LONG_MESSAGE.sub(r"\1…'", said)
    return f"undone: {said}" if item.undone else said


_LONG_MESSAGE: Final = re.compile(r"( (?:-m|--message) '[^']{24})[^']{2,}'")


@answers(OperationShownJson)
def op_show(
    context: Context, repository: RepositoryUri, operation: OperationId, *, amount: Amount = 100
) -> None:
    """Show one operation: what it changed, and the state before.

    Branches and tags are shown with their commits before and after, and staged paths with what was
    staged there before.

    Examples:
        lakecli op show lakefs://demo 4f0c21aa83de
        lakecli op show lakefs://demo 4f0c --amount 0 --json
    """
    opened = context.logged_repository(repository, operation=operation)
    logged = log.find_operation(opened, operation)
    words = {None: "nothing", b"": "deletion"}
    staged = (
        StagedPathJson(branch=branch, path=path, before=words.get(before, "object"))
        for branch, path, before in log.staged_paths(opened, logged.operation)
    )
    paths = list(islice(staged, amount if amount > 0 else None))

    def text() -> Iterator[str]:
        yield from operation_lines(logged.operation, undone=logged.undone)
        if paths:
            yield ""
            yield "Staged paths, with what was staged there before"
        for each in paths:
            yield f"  {each['branch']}  {quote_path(each['path'])}  {each['before']}"

    context.out.emit(fields_of(logged) | {"paths": paths}, text=text)
    if next(staged, None) is not None:
        context.out.hint("for more paths run with --amount 0")


@answers(CompactedJson)
def op_compact(context: Context) -> None:
    """Return the space of expired operations to the disk.

    What is needed to undo an operation is kept for 30 days. Later commands delete expired data bit
    by bit and use its space again, but the local store (the file store/data.mdb in the home) does
    not get smaller. This command deletes all expired data of all repositories on this machine, and
    writes a new store without unused space. Until the end, the old store stays on the disk, too.

    The command is refused while another process, such as a Python session, has the store open.
    Commands that start meanwhile wait. If the command is killed, the old store stays.

    Examples:
        lakecli op compact
        lakecli op compact --json
    """
    store = context.home.store
    with alone(store):
        pass  # refuse before anything is deleted
    drain(context.lake())
    context.close()
    before, after = compact(store)
    context.out.emit(
        CompactedJson(store=Path(store), before=before, after=after),
        text=lambda: [f"{quote_path(store)}: {human_size(before)} -> {human_size(after)}"],
    )


@answers(log.LoggedOperation)
def op_restore(
    context: Context,
    repository: RepositoryUri,
    operation: OperationId,
    *,
    remote: Remote = False,
    yes: Yes = False,
) -> None:
    """Restore a repository to its state right after an operation.

    Branches, tags and uncommitted changes are restored, and the repository itself if it was deleted
    or created since. This is one operation, which a single undo reverses. To look at that state
    first, give --at-op to a command that reads.

    Examples:
        lakecli log lakefs://demo/main --at-op 4f0c21aa83de
        lakecli op restore lakefs://demo 4f0c21aa83de
        lakecli op restore lakefs://demo 4f0c -y
    """
    opened = context.logged_repository(repository, operation=operation, syncs=True)
    wanted = log.find_operation(opened, operation).operation
    context.confirm(
        f"restore {repository} to its state after operation {wanted.hex_id[:12]}", yes=yes
    )
    shared = remote or opened.syncs
    who = context.committer() if shared else ""
    done = undoing.restore(opened, wanted.hex_id, remote=shared, committer=who)
    context.out.emit(
        log.LoggedOperation(done, undone=False),
        text=lambda: [
            f"Restored {repository} to its state after operation {wanted.hex_id[:12]}",
            f"Changed: {changes_line(done)}",
        ],
    )
    warn_of_gone(context, done)
    _bring_along(context, opened, done, stays=True)


def _check_undo(repository: Repository, remote: bool, operation: Operation) -> None:
    """Refuse an undo that is not possible.

    Raises:
        DirectoryGone: the operation overwrote files of a directory that does not exist any more.
        Refused: `remote` is true, but the operation moved nothing in the bucket.
    """
    kept_for_undo.check_directory(repository, operation)
    if remote and operation.kind in LOCAL:
        uri, kind = repository.uri, operation.kind
        raise Refused(
            f"nothing of yours to undo in the bucket: the last operation here is {kind}",
            hint="take back what others have pushed by another commit: lakecli branch revert "
            f"{uri}/BRANCH COMMIT; or undo {kind} on this machine: lakecli undo {uri}",
        )


def _bring_along(
    context: Context, opened: Repository, done: Operation, *, stays: bool, takes_back: bool = False
) -> None:
    """Update the linked directory if an undo, redo or restore has moved its branch.

    Args:
        done: the new operation: the undo, redo or restore.
        stays: see `moved_refs.bring_along`.
        takes_back: see `moved_refs.bring_along`.
    """
    if opened.is_here():
        for change in done.refs:
            if change.moves_commit and change.after is not None:
                bring_along(context, opened, change.name, stays=stays, takes_back=takes_back)


def _has_finished(context: Context, repository: Repository) -> bool:
    """If the last undo was interrupted, restore the remaining files; return whether it was."""
    operation = log.redo_target(repository)
    if operation is None or kept_for_undo.DIRECTORY not in operation.metadata:
        return False
    if not kept_for_undo.is_unfinished(repository, operation):
        return False
    written = _bring_back(context, repository, operation)
    id_ = operation.hex_id
    appended = next(
        each.operation
        for each in log.iter_log(repository)
        if each.operation.metadata.get(log.UNDOES) == id_
    )
    undoing.complete(repository, log.UNDO, remote=False)  # `_answer` below reports it
    if not written.can_repeat:
        context.out.note(_COMPLETED.format("undo"))
    _answer(context, "Undone", undoing.Undone(operation, appended))
    return True


def _overwrite_again(context: Context, repository: Repository, operation: Operation) -> None:
    """As part of a redo, overwrite the files in a working directory that an undo restored."""
    options = DownloadOptions(parallelism=context.parallelism(repository, None))
    written = kept_for_undo.overwrite_again(repository, operation, options)
    if written is None:
        context.out.warn(
            f"{operation.metadata[kept_for_undo.DIRECTORY]} is at another commit, or not linked "
            f"with {repository.uri} any more: no file was overwritten there"
        )
        return
    count = written.downloaded + written.removed
    files = "a file was" if count == 1 else f"{count} files were"
    context.out.note(f"{files} overwritten or removed in {written.directory}")
    _warn_of_rest(context, written, "overwrite")


def _bring_back(context: Context, repository: Repository, operation: Operation) -> WriteReport:
    """Restore the files that a command on a working directory overwrote.

    Raises:
        DirectoryGone: the working directory does not exist any more.
    """
    options = DownloadOptions(parallelism=context.parallelism(repository, None))
    written = kept_for_undo.restore_kept(repository, operation, options)
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
    for path, why in [*written.blocked, *written.impossible, *written.failures]:
        context.out.warn(f"cannot {verb} {quote_path(path)}: {why}")


def _answer(context: Context, word: str, done: undoing.Undone) -> None:
    context.out.emit(done, text=lambda: undone_lines(word, done))
    warn_of_gone(context, done.appended)


def warn_of_gone(context: Context, appended: Operation) -> None:
    """Warn if an operation restored references to objects that garbage collection has deleted."""
    gone = appended.metadata.get(GONE)
    if gone is not None:
        context.out.warn(
            f"garbage collection has deleted {gone} of the restored objects and lists of paths; "
            "upload these objects again before you push"
        )


def changes_line(operation: Operation, *, with_ids: bool = True) -> str:
    """Return a line with the changes of an operation; `with_ids` adds commit IDs."""
    said = [_change_text(change, with_ids=with_ids) for change in operation.refs]
    # The staging area of a working directory is where its overwritten files are kept.
    said += [
        f"{'files' if ' ' in change.branch else 'staging'} of {change.branch}"
        for change in operation.staging
    ]
    said += [f"policy {each}" for key, each in operation.metadata.items() if key == POLICY]
    said = list(dict.fromkeys(said))
    if not said:
        ref = operation.metadata.get("ref")
        return "nothing here" if ref is None else f"bucket: {one_line(ref)}"
    more = len(said) - _SHOWN_CHANGES
    return "; ".join(said[:_SHOWN_CHANGES]) + (f"; and {more} more" if more > 0 else "")


def _change_text(change: RefChange, *, with_ids: bool) -> str:
    before, after = change.position_before, change.position_after
    named = f"{change.kind} {change.name}"
    if before is None or after is None:
        return f"+ {named}" if before is None else f"- {named}"
    if before == after:
        return f"staging of {change.name}"
    if not with_ids:
        return named
    return f"{named} {before[: log.SHORT_ID]} → {after[: log.SHORT_ID]}"


def operation_lines(operation: Operation, *, undone: bool) -> Iterator[str]:
    """Yield the lines that ``op show`` prints for an operation, except its staged paths."""
    yield f"Operation: {operation.hex_id}"
    yield f"Time:      {local_date(operation.at)}"
    yield f"Kind:      {operation.kind}"
    if operation.command:
        yield f"Command:   {one_line(operation.command)}"
    if undone:
        yield "Undone:    yes"
    metadata = dict(operation.metadata)
    if "ref" in metadata:  # a move in the bucket
        yield f"Ref:       {metadata.pop('kind', '')} {one_line(metadata.pop('ref'))}"
        for name in ("before", "after"):
            yield f"{name.capitalize() + ':':<10} {metadata.pop(name, '') or '-'}"
    for name in sorted(metadata):
        yield f"{name.capitalize() + ':':<10} {one_line(metadata[name])}"
    for change in operation.refs:
        before, after = change.position_before, change.position_after
        yield ""
        yield f"{change.kind.capitalize()} {change.name}"
        yield f"  before: {before or '-'}"
        yield f"  after:  {after or '-'}"
        if change.kind is RefKind.BRANCH and before == after:
            yield "  only its uncommitted changes changed"


def undone_lines(word: str, done: undoing.Undone) -> Iterator[str]:
    """Yield the lines about an undo or redo; `word` is "Undone" or "Redone"."""
    operation = done.operation
    yield f"{word} operation {operation.hex_id[: log.SHORT_ID]}: {operation.kind}"
    if operation.command:
        yield f"Command: {one_line(operation.command)}"
    yield f"Changed: {changes_line(done.appended)}"
    for each in done.remote:
        yield f"Moved back in the bucket: {each.kind} {each.name}"
