"""Undo operations in one transaction: restore refs, and the recorded values of staged paths.

Refs and staging must still be as the operation left them. Empty staging areas are not compared,
because a commit without changes seals an area and opens an empty one.

Another process may be committing the branch: it has built the commit from the sealed areas, and has
not moved the branch yet. If undoing an operation writes to one of these areas, it also adds an
empty area below them. Then the other process detects that the areas have changed, and builds its
commit again from the current staging.

**Automatic steps.** Before a branch follows the bucket, staged records that equal its head are
removed (`lakecli.repository.staged.changes`), together with records of the same paths in older
staging areas. The user did not do this, so undo ignores these steps. But if an operation had
replaced an older record by a record that equals the head, undoing the operation must stage the
older record again. Then the staging area is recorded as started on the head before the step,
because the older record was staged before the branch followed the bucket.

**Claims.** Other clones do not know this clone's operation log, so they treat objects to which only
the log refers as garbage. Before an undo, redo or restore uses such objects again, it claims those
that are still in the bucket. Missing objects are not an error; the operation records their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakecli.base.model import Branch, CommitId, RefKind, StagingToken, Tag
from lakecli.errors import AlreadyExists, LostRace
from lakecli.kv import operations as log
from lakecli.kv.local_store import ReadTransaction, WriteTransaction
from lakecli.kv.operations import FOLLOWED, Operation, RefChange, StagingChange
from lakecli.refs.ref_store import ref_fields, ref_of
from lakecli.repository.contract import Repository
from lakecli.repository.guard import Reclaimed, unless_away
from lakecli.repository.handle import lake as lakes
from lakecli.repository.journal import operation_log, unsent_moves
from lakecli.repository.journal.intents import check_none_sent, check_none_taken_back
from lakecli.repository.undo.log import REDOES, UNDOES, iter_logged
from lakecli.staging import area

if TYPE_CHECKING:
    Fields = Mapping[str, Any] | None


class PassedOver(NamedTuple):
    """An automatic step that moved a branch, or unstaged records.

    Attributes:
        turned: older operations that were undone or redone after the step. For the paths that these
            operations wrote, the step was undone with them.
    """

    operation: Operation
    turned: tuple[Operation, ...]


def find_passed_over(
    txn: ReadTransaction, repository: Repository, operation: Operation
) -> list[PassedOver]:
    """Return the automatic steps after an operation, newest first."""
    found = []
    turned: set[str] = set()
    for newer, _ in iter_logged(txn, repository):
        if newer.id == operation.id:
            break
        concerned = newer.metadata.get(UNDOES) or newer.metadata.get(REDOES)
        if concerned is not None:
            turned ^= {concerned}
            continue
        turned.discard(newer.id.hex())
        if newer.kind == FOLLOWED:
            older = (log.find(txn, repository.key, bytes.fromhex(each)) for each in turned)
            found.append(PassedOver(newer, tuple(each for each in older if each is not None)))
    return found


def iter_unstaged(
    txn: ReadTransaction, step: PassedOver, operation: Operation, change: StagingChange
) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield (path, record) for each path that an operation wrote and a later step unstaged.

    Paths that were written by an operation of `step.turned` are left out.

    Args:
        operation: the operation that is to be undone or redone; it is older than the step.
        change: the change of the staging area by the step.
    """
    for path, image in log.iter_images(txn, step.operation.id, change.token):
        if _wrote(txn, operation, change.branch, path) and not any(
            _wrote(txn, each, change.branch, path) for each in step.turned
        ):
            yield path, image


def _wrote(txn: ReadTransaction, operation: Operation, branch: str, path: bytes) -> bool:
    staged = (each for each in operation.staging if each.branch == branch)
    return any(log.has_image(txn, operation.id, each.token, path) for each in staged)


GONE: Final = "gone"
"""The metadata key of an operation for the number of restored objects and trees that are gone."""


def claim_operations(repository: Repository, operations: Sequence[Operation]) -> Reclaimed:
    """Claim the objects that a repository would use again if operations were undone.

    If there are no such objects, the bucket is not read. If the bucket cannot be read, nothing is
    claimed.

    Args:
        operations: the operations, newest first.

    Raises:
        Swept: garbage collection has just deleted some of the objects.
        SweepRunning: garbage collection is deleting objects, and did not end in time.
    """
    claims = Reclaimed(repository)
    with unless_away(), repository.lake.kv.read() as txn:
        put_back: dict[tuple[RefKind, str], RefChange] = {}
        for operation in operations:
            put_back |= {(change.kind, change.name): change for change in operation.refs}
        refs = repository.refs(txn)
        for change in put_back.values():
            fields = change.before
            if fields is None or "commit_id" not in fields:
                continue
            commit = refs.find_commit(CommitId(fields["commit_id"]))
            if commit is not None and fields["commit_id"] != (change.after or {}).get("commit_id"):
                claims.add_commit(txn, commit)
        # Tokens that branches have now need no claims: restoring them changes nothing.
        in_use = {token for each in refs.iter_branches() for token in each.tokens}
        claims.add_values(_staged(txn, operations, put_back.values(), in_use))
    return claims


def _staged(
    txn: ReadTransaction,
    operations: Iterable[Operation],
    changes: Iterable[RefChange],
    in_use: set[StagingToken],
) -> Iterator[tuple[bytes, bytes]]:
    """Yield (path, value) of the records that would be staged again if operations were undone."""
    for operation in operations:
        for staged in operation.staging:
            for path, image in log.iter_images(txn, operation.id, staged.token):
                if image is not None:
                    yield path, image
    for change in changes:
        for token in _stack(change.before) if change.kind is RefKind.BRANCH else ():
            if token not in in_use:
                yield from area.scan(txn, token)


_BATCH: Final = 1024


class TakeBack:
    """Undoes operations, newest first, and appends one operation with all changes.

    Args:
        claims: the result of `claim_operations` for the operations.
    """

    def __init__(self, txn: WriteTransaction, repository: Repository, claims: Reclaimed) -> None:
        self._txn = txn
        self._claims = claims
        self._repository = repository
        self._refs = repository.refs(txn)
        self._id = repository.lake.runtime.new_id()
        self._changes: dict[tuple[str, str], RefChange] = {}
        self._staging: dict[StagingChange, None] = {}
        self._local: set[tuple[str, str]] = set()

    def take_back(self, operation: Operation, passed_over: Sequence[PassedOver] = ()) -> None:
        """Restore refs and staging to their state before an operation; undo newer operations first.

        Args:
            passed_over: newer automatic steps that were not undone, newest first.

        Raises:
            LostRace: refs or staging are no longer as the operation left them.
            AlreadyExists: the name of a repository that would be restored is taken.
            CommitUnderWay: another process is sending a commit to the bucket that was built from
                the staged changes to be restored.
        """
        for change in operation.refs:
            self._check(change)
        restored = [
            (staged, iter_unstaged(self._txn, step, operation, staged))
            for step in passed_over
            for staged in step.operation.staging
        ]
        restored += [
            (staged, log.iter_images(self._txn, operation.id, staged.token))
            for staged in operation.staging
        ]
        for staged, images in restored:
            self._restore(staged, images)
            self._forget_heads(staged, passed_over)
        for change in reversed(operation.refs):
            self._put(change)
            if unsent_moves.is_local(operation, change) and change.moves_commit:
                self._local.add((change.kind, change.name))
        for staged in dict.fromkeys(staged for staged, _ in restored if staged in self._staging):
            self._outdate_commits(staged)

    def append(self, *, kind: str, metadata: Mapping[str, str], is_undo: bool = True) -> Operation:
        """Append one operation with all undone changes; `take_back` can undo it, too.

        If clone, fetch, pull or sync had moved a ref, the ref is moved back on this machine only.

        Args:
            is_undo: whether the operation is an undo; a redo is pushed like any new operation.

        Raises:
            CommitUnderWay: another process is pushing the commits that were undone.
        """
        for moved in self._changes.values():
            if not moved.moves_commit:
                continue
            to = moved.commit_after
            check_none_taken_back(self._txn, self._repository, moved.kind, moved.name, to=to)
        # A branch with different tokens counts as changed, even if all its staging areas are empty:
        # older operations wrote to these areas.
        changed = [(key, each) for key, each in self._changes.items() if each.before != each.after]
        changes = [each._replace(is_local=key in self._local) for key, each in changed]
        operation = operation_log.append(
            self._txn,
            self._repository,
            kind=kind,
            refs=changes,
            staging=list(self._staging),
            sealed=[token for change in changes for token in _tokens_given_up(change)],
            metadata={**metadata, **({GONE: str(gone)} if (gone := self._claims.gone) else {})},
            id=self._id,
        )
        unsent_moves.note(self._txn, self._repository, operation, is_undo=is_undo)
        return operation

    @property
    def has_changed(self) -> bool:
        """Whether refs or staging differ from their state before the first operation was undone."""
        refs = self._changes.values()
        if any(self._essence(r.kind, r.before) != self._essence(r.kind, r.after) for r in refs):
            return True
        for token in (StagingToken(change.token) for change in self._staging):
            images = log.iter_images(self._txn, self._id, token)
            if any(area.get(self._txn, token, path) != image for path, image in images):
                return True
        return False

    # -- staging -----------------------------------------------------------------------------

    def _restore(self, change: StagingChange, images: Iterator[tuple[bytes, bytes | None]]) -> None:
        """Restore the recorded values of staged paths, and record their present values."""
        token = StagingToken(change.token)
        while batch := list(islice(images, _BATCH)):
            self._staging[change] = None
            log.save_images(self._txn, self._id, token, [path for path, _ in batch])
            for path, image in batch:
                if image is None:
                    area.remove(self._txn, token, path)
            value = self._claims.value
            images_left = [(path, value(image)) for path, image in batch if image is not None]
            area.put_many(self._txn, token, images_left)

    def _forget_heads(self, change: StagingChange, passed_over: Sequence[PassedOver]) -> None:
        """Record that a staging area began at the head that its branch had before some steps.

        Args:
            change: the branch and the token of the staging area.
            passed_over: automatic steps, such as fetches, that have moved the branch since.
        """
        for step in passed_over:
            for moved in step.operation.refs:
                before, after = moved.commits
                is_its_branch = (moved.kind, moved.name) == (RefKind.BRANCH, change.branch)
                if is_its_branch and before is not None and after is not None:
                    token = StagingToken(change.token)
                    operation_log.move_token_on(self._txn, token, before, since=after)

    def _outdate_commits(self, change: StagingChange) -> None:
        branch = self._refs.find_branch(change.branch)
        if branch is None or change.token not in branch.sealed_tokens:
            return
        check_none_sent(self._txn, self._repository, branch.name)
        outdated = operation_log.outdate(self._txn, self._repository, branch)
        self._refs.put_branch(outdated)
        self._note(operation_log.ref_change(branch, outdated))

    # -- refs --------------------------------------------------------------------------------

    def _check(self, change: RefChange) -> None:
        """Raise an error if the present state of a ref is not what an operation left.

        Raises:
            LostRace: the states differ.
            AlreadyExists: another repository has the name now.
        """
        left = self._essence(change.kind, change.after)
        if self._essence(change.kind, self._find(change)) != left:
            what = f"{change.kind} {change.name} is no longer what this operation left"
            raise LostRace(what, hint=f"see what was done since: `op log {self._repository.uri}`")

    def _find(self, change: RefChange) -> Fields:
        if change.kind is not RefKind.REPOSITORY:
            find = self._refs.find_branch if change.kind is RefKind.BRANCH else self._refs.find_tag
            found: Branch | Tag | None = find(change.name)
            return found and ref_fields(found)
        record = lakes.find_repository(self._txn, change.name)
        if record is None:
            return None
        if record.uuid != self._repository.record.uuid:
            what = f"another repository has the name {change.name} now: {record.storage_namespace}"
            hint = f"delete that one here first: `repo delete lakefs://{change.name}`"
            raise AlreadyExists(what, hint=hint)
        return lakes.record_fields(record)

    def _essence(self, kind: str, fields: Fields) -> object:
        """Return the part of a ref's record that must be as the operation left it."""
        if fields is None:
            return None
        if kind is RefKind.REPOSITORY:
            return fields["uuid"]
        if kind is RefKind.TAG:
            return fields["commit_id"]
        holding = [token for token in _stack(fields) if not area.is_empty(self._txn, token)]
        return fields["commit_id"], holding

    def _put(self, change: RefChange) -> None:
        """Restore the state of a ref before a change."""
        kind, name, present, wanted = change.kind, change.name, self._find(change), change.before
        if kind is RefKind.BRANCH:
            check_none_sent(self._txn, self._repository, name)
        if kind is not RefKind.REPOSITORY:
            before, after = ref_of(kind, name, present), ref_of(kind, name, wanted)
            operation_log.change_ref(self._txn, self._repository, before, after)
            if isinstance(before, Branch) and isinstance(after, Branch):
                operation_log.follow_head(self._txn, after, since=before.commit_id)
        elif wanted is not None:
            lakes.put_repository(self._txn, lakes.record_of(wanted))
        elif present is not None:
            lakes.delete_repository(self._txn, lakes.record_of(present))
        self._note(RefChange(kind, name, before=present, after=wanted))

    def _note(self, change: RefChange) -> None:
        """Record a change of a ref, merged with earlier changes of the same ref."""
        key = (change.kind, change.name)
        first = self._changes.get(key, change)
        self._changes[key] = RefChange(*key, before=first.before, after=change.after)


def _tokens_given_up(change: RefChange) -> tuple[StagingToken, ...]:
    """Return the staging tokens that a branch had and no longer has."""
    if change.kind is not RefKind.BRANCH:
        return ()
    kept = _stack(change.after)
    return tuple(token for token in _stack(change.before) if token not in kept)


def _stack(fields: Fields) -> tuple[StagingToken, ...]:
    """Return the staging tokens of a branch, newest first."""
    texts = [] if fields is None else [fields["staging_token"], *fields["sealed_tokens"]]
    return tuple(StagingToken(bytes.fromhex(text)) for text in texts)
