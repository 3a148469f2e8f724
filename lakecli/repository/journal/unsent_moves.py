"""Notes of refs that moved here and still have to move in the bucket, and refs that are held.

With automatic sharing, every operation that moves a ref writes a note in the same transaction, with
the ref's commit before and after. Further moves of the ref, by any command, extend the note. The
extended note begins at the last known commit of the ref in the bucket, and ends at its present
commit here. `lakecli.repository.sharing.automatic.judge` decides whether the noted move may be
sent.

The note of a deletion also has a lease: the commit where this clone last saw the ref in the bucket.
A branch or tag that is deleted here is deleted in the bucket if it is still at this commit, as by
`git push --force-with-lease`. A fetch may have updated the recorded commit although nobody has
looked at the new commits. So the local branch must also contain the recorded commit: then the
deletion loses no commit that was not here. A local tag must be at the recorded commit.

Moves of refs that came from the bucket (clone, fetch, pull, sync) are never sent. The undo of such
a move is not sent, either. Instead the ref is held: the local ref does not follow the bucket until
the ref moves in the bucket again.

Each function that moves a ref here also updates its note, in the same transaction. It calls
`move_ref` or `note` if the ref moves here first, `drop_notes` if the bucket already has the
move, and `extend` for a commit that lands without automatic sharing. A new ref has no note to
delete.

::

    INTENTS  repository ‖ BLAKE3(unsent 00 kind 00 name)[:16] -> unsent, kind, name, operation,
                                                            before, after, by; replaces (renaming),
                                                            lease (deletion)
             repository ‖ BLAKE3(held 00 kind 00 name)[:16]   -> held, kind, name; held: the write
                                                            ID of the ref's last move in the bucket
"""

from collections.abc import Iterable, Iterator, Mapping
from shlex import quote
from typing import Any, Final

from lakecli.base.identity import blake3_of
from lakecli.base.model import Branch, CommitId, RefKind
from lakecli.errors import LostRace
from lakecli.kv.bucket import IntentStore, Tracked, UnsentMove
from lakecli.kv.local_store import ReadTransaction, WriteTransaction
from lakecli.kv.operations import FOLLOWED, Operation, RefChange
from lakecli.refs.graph import is_ancestor
from lakecli.repository.contract import Repository
from lakecli.repository.journal import operation_log
from lakecli.repository.journal.operation_log import Ref

LOCAL: Final = frozenset({"repo create", "repo delete", "clone", "fetch", "pull", FOLLOWED})
"""Kinds of operations that concern this machine only: their moves came from the bucket, or are
never sent there. A pull that merges is logged as a merge."""

RENAME: Final = "branch rename"
"""The kind of an operation that creates a branch with a new name and deletes the old one."""

_UNSENT: Final = "unsent"
_HELD: Final = "held"


def is_local(operation: Operation, change: RefChange) -> bool:
    """Return whether a change of a ref concerns this machine only, and is never sent."""
    return change.is_local or operation.kind in LOCAL


def move_ref(
    txn: WriteTransaction, repository: Repository, kind: str, before: Ref | None, after: Ref | None
) -> None:
    """Create, move or delete a ref on this machine, before it is moved in the bucket.

    The logged operation keeps the staging tokens of `before`, so that undoing it restores them.

    Args:
        kind: the kind of the operation.
        before: the ref as it is; ``None``: a new ref.
        after: the ref to write; ``None``: delete the ref.

    Raises:
        LostRace: `after` is ``None``, and the ref has commits in the bucket that this clone lacks.
    """
    change = operation_log.change_ref(txn, repository, before, after)
    sealed = before.tokens if isinstance(before, Branch) else ()
    operation = operation_log.append(txn, repository, kind=kind, refs=[change], sealed=sealed)
    note(txn, repository, operation)


def note(
    txn: WriteTransaction, repository: Repository, operation: Operation, *, is_undo: bool = False
) -> None:
    """Note the refs that an operation moves here first, in the transaction of the operation.

    Without automatic sharing, existing notes are extended and no note is created.

    Args:
        is_undo: whether the operation undoes moves. Then existing notes are extended, and notes
            are created only for new refs; the undo command itself notes how to reverse moves that
            the bucket already has.

    Raises:
        LostRace: the operation deletes a ref that has commits in the bucket which this clone lacks.
    """
    renamed = _renamed(txn, repository, operation)
    for change in operation.refs:
        before, after = change.commits
        if before == after:
            continue
        if change.is_local:
            drop_notes(txn, repository, [change])
            if repository.syncs:
                hold(txn, repository, change)
            continue
        starts = repository.syncs and (not is_undo or _is_new(txn, repository, change))
        if starts and after is None:
            check_deletion(txn, repository, change)
        noted = find_unsent(txn, repository, change.kind, change.name)
        if noted is None and starts:
            noted = UnsentMove(change.kind, change.name, operation.kind, before, before, ())
        if noted is not None:
            by = tuple(dict.fromkeys((*noted.by, *command_of(repository))))
            replaces = (renamed if before is None else "") or noted.replaces
            put(txn, repository, noted._replace(by=by, replaces=replaces))
        extend(txn, repository, change, operation.kind)


def extend(txn: WriteTransaction, repository: Repository, change: RefChange, kind: str) -> None:
    """Extend the note of a ref, if there is one, in the transaction that moves the ref here."""
    before, after = change.commits
    if before == after:
        return
    rows = IntentStore(txn, repository.key)
    rows.delete(_row(_HELD, change.kind, change.name))
    noted = find_unsent(txn, repository, change.kind, change.name)
    if noted is None:
        return
    lease = find_lease(txn, repository, change) if after is None else noted.lease
    if noted.after == before:
        before = noted.before
    if before == after:
        rows.delete(_row(_UNSENT, change.kind, change.name))
    else:
        extended = noted._replace(operation=kind, before=before, after=after, lease=lease)
        put(txn, repository, extended)


def drop_notes(txn: WriteTransaction, repository: Repository, changes: Iterable[RefChange]) -> None:
    """Delete the notes of refs that move here to their commits in the bucket.

    Call this in the transaction that moves the refs.
    """
    rows = IntentStore(txn, repository.key)
    for change in changes:
        if change.moves_commit:
            rows.delete(_row(_HELD, change.kind, change.name))
            rows.delete(_row(_UNSENT, change.kind, change.name))


def _is_new(txn: ReadTransaction, repository: Repository, change: RefChange) -> bool:
    """Return whether a change creates a ref that this clone has never seen in the bucket."""
    is_made = change.commit_before is None
    return is_made and repository.tracking(txn).find(change.kind, change.name) is None


def _renamed(txn: ReadTransaction, repository: Repository, operation: Operation) -> str:
    """Return the name that a branch has in the bucket if an operation renames it, or ``""``."""
    if operation.kind != RENAME:
        return ""
    (name,) = (each.name for each in operation.refs if each.after is None)
    found = find_unsent(txn, repository, RefKind.BRANCH, name)
    return found.replaces if found is not None and found.replaces else name


def put(txn: WriteTransaction, repository: Repository, move: UnsentMove) -> None:
    """Write a note; it replaces an earlier note of the same ref."""
    row = _row(_UNSENT, move.kind, move.name)
    IntentStore(txn, repository.key).put(row, {_UNSENT: True, **move._asdict()})


def iter_unsent(txn: ReadTransaction, repository: Repository) -> Iterator[UnsentMove]:
    """Yield the notes of a repository."""
    for _, fields in IntentStore(txn, repository.key).iter():
        if fields.get(_UNSENT):
            yield _load(fields)


def find_unsent(
    txn: ReadTransaction, repository: Repository, kind: RefKind, name: str
) -> UnsentMove | None:
    """Return the note of a ref, or ``None``."""
    fields = IntentStore(txn, repository.key).find(_row(_UNSENT, kind, name))
    return None if fields is None else _load(fields)


def is_held(txn: ReadTransaction, repository: Repository, tracked: Tracked) -> bool:
    """Return whether a ref is held: moved back here, and not moved in the bucket since then."""
    id_ = _row(_HELD, tracked.kind, tracked.name)
    fields = IntentStore(txn, repository.key).find(id_)
    return fields is not None and fields[_HELD] == tracked.write_id


def forget(txn: WriteTransaction, repository: Repository, move: UnsentMove) -> None:
    """Delete the note of a move that was sent or refused; keep later moves of the ref noted."""
    rows = IntentStore(txn, repository.key)
    present = find_unsent(txn, repository, move.kind, move.name)
    if present is None:
        return
    if (present.before, present.after) == (move.before, move.after):
        rows.delete(_row(_UNSENT, move.kind, move.name))
    elif present.before == move.before:
        put(txn, repository, present._replace(before=move.after, lease=None))


def forget_renaming(txn: WriteTransaction, repository: Repository, move: UnsentMove) -> None:
    """After the bucket refused a branch's new name, delete the note that deletes its old name."""
    if move.before is not None or not move.replaces:
        return
    rest = find_unsent(txn, repository, RefKind.BRANCH, move.replaces)
    if rest is not None and rest.after is None:
        IntentStore(txn, repository.key).delete(_row(_UNSENT, rest.kind, rest.name))


def renew_hold(txn: WriteTransaction, repository: Repository, kind: RefKind, name: str) -> None:
    """Keep a ref held although this clone itself has moved the ref in the bucket.

    Without this, the move would end the hold. `op restore` may move a ref further back here than in
    the bucket, where it undoes only this clone's own moves.
    """
    rows, id_ = IntentStore(txn, repository.key), _row(_HELD, kind, name)
    tracked = repository.tracking(txn).find(kind, name)
    fields = rows.find(id_)
    if fields is not None and tracked is not None:
        rows.put(id_, {**fields, _HELD: tracked.write_id})


def note_taken_back(
    txn: WriteTransaction, repository: Repository, move: UnsentMove
) -> UnsentMove | None:
    """If another process has undone a move here while it was being sent, note the reverse move.

    Undoing an unsent move deletes its note, since nothing is left to send. If the move was already
    being sent, it still reaches the bucket, where it must then be reversed.

    Returns:
        The note of the reverse move; ``None`` if the move was not undone here, or is noted already.
    """
    here = repository.refs(txn).position(move.kind, move.name)
    was_undone = here == move.before != move.after or (move.after is None and here is not None)
    is_noted = find_unsent(txn, repository, move.kind, move.name) is not None
    if is_noted or not was_undone:
        return None
    back = move._replace(operation="undo", before=move.after, after=here, lease=None)
    back = back._replace(by=command_of(repository))
    put(txn, repository, back)
    return back


def command_of(repository: Repository) -> tuple[str, ...]:
    """Return the ID of this command, for its notes; empty without automatic sharing."""
    return () if repository.mover is None else (repository.mover.command_id.hex(),)


def hold(txn: WriteTransaction, repository: Repository, change: RefChange) -> None:
    """Hold a ref at the commit that it was moved back to, until the ref moves in the bucket."""
    tracked = repository.tracking(txn).find(change.kind, change.name)
    if tracked is not None and tracked.commit_id != change.commit_after:
        fields = {_HELD: tracked.write_id, "kind": change.kind, "name": change.name}
        id_ = _row(_HELD, change.kind, change.name)
        IntentStore(txn, repository.key).put(id_, fields)


def _load(fields: Mapping[str, Any]) -> UnsentMove:
    texts = {name: fields[name] for name in ("name", "operation", "replaces")}
    ends = {name: fields[name] and CommitId(fields[name]) for name in ("before", "after", "lease")}
    return UnsentMove(RefKind(fields["kind"]), by=tuple(fields["by"]), **texts, **ends)


def _row(what: str, kind: RefKind, name: str) -> bytes:
    return blake3_of(f"{what}\0{kind}\0{name}".encode("utf-8", "surrogateescape"))[:16]


def find_lease(txn: ReadTransaction, repository: Repository, change: RefChange) -> CommitId | None:
    """Return the commit at which a ref may be deleted in the bucket; ``None``: do not delete it."""
    there, here = _there(txn, repository, change), change.commit_before
    if there is None or here is None:
        return None
    is_branch = change.kind is RefKind.BRANCH
    is_known = there == here or (is_branch and is_ancestor(repository.refs(txn), there, here))
    return there if is_known else None


def check_deletion(txn: ReadTransaction, repository: Repository, deletion: RefChange) -> None:
    """Refuse to delete a ref here if it could not be deleted in the bucket afterwards.

    Raises:
        LostRace: the ref cannot be deleted in the bucket; the error names its commit there.
    """
    there = _there(txn, repository, deletion)
    if there is None or find_lease(txn, repository, deletion) is not None:
        return
    noted = find_unsent(txn, repository, deletion.kind, deletion.name)
    if noted is not None and there in (noted.before, noted.lease):
        return
    name = deletion.name
    what = f"tag {name} is at {there} in the bucket, and elsewhere here"
    if deletion.kind is RefKind.BRANCH:
        what = f"the bucket has commits on {name} that are not here; it stands on {there}"
    raise LostRace(
        f"{what}; nothing was changed",
        hint="if nobody needs it, delete it in the bucket first: "
        f"`push --delete {quote(f'{repository.uri}/{name}')}`",
    )


def _there(txn: ReadTransaction, repository: Repository, deletion: RefChange) -> CommitId | None:
    return repository.tracking(txn).position(deletion.kind, deletion.name)
