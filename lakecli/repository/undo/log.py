"""Read the operation log, and find out which operations are undone, or would be undone next.

Undo and redo are operations themselves. Their metadata ``undoes`` or ``redoes`` is the ID of the
user's operation, even if it was undone and redone several times. The newest undo or redo of an
operation decides whether the operation is undone.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from lakecli.errors import NotFound, UsageError
from lakecli.kv import operations as log
from lakecli.kv.local_store import ReadTransaction
from lakecli.kv.operations import FOLLOWED, Operation, PastStore
from lakecli.repository.contract import OwnLake, Repository
from lakecli.repository.handle.housekeeping import KEPT_FOR, expired_through
from lakecli.repository.handle.lake import Lake, LocalRepository, find_repository, iter_forgotten
from lakecli.repository.undo import interrupted

UNDOES: Final = "undoes"
REDOES: Final = "redoes"

UNDO: Final = "undo"
REDO: Final = "redo"
RESTORE: Final = "op restore"

SHORT_ID: Final = 12
"""Number of digits of an ID that are shown."""

_MAX_CANDIDATES: Final = 10
_DIGITS: Final = frozenset("0123456789abcdef")


class LoggedOperation(NamedTuple):
    """An operation of the log.

    Attributes:
        undone: whether the operation is undone at present.
    """

    operation: Operation
    undone: bool


class UndoTarget(NamedTuple):
    """The operation that undo or redo would reverse.

    Attributes:
        operation: the ID of the user's operation.
        taken_back: the operation that is actually reversed: the user's operation, its last redo, or
            its undo.
    """

    operation: bytes
    taken_back: Operation


def changes_something(operation: Operation) -> bool:
    """Return whether an operation changed refs, staged paths, or the rules of the bucket."""
    return bool(operation.refs or operation.staging or log.POLICY in operation.metadata)


def is_passed_over(operation: Operation) -> bool:
    """Return whether undo and redo ignore an operation: it changed nothing, or was automatic."""
    if REDOES in operation.metadata:  # the redone operation was not ignored either
        return False
    return operation.kind == FOLLOWED or not changes_something(operation)


def iter_log(repository: Repository) -> Iterator[LoggedOperation]:
    """Yield the operations of a repository, newest first."""
    with repository.lake.kv.read() as txn:
        yield from iter_logged(txn, repository)


def iter_logged(txn: ReadTransaction, repository: Repository) -> Iterator[LoggedOperation]:
    """Yield the operations of a repository that are not expired, newest first."""
    now = repository.lake.runtime.now()
    expired = expired_through(txn, repository, now=now, cutoff=now - KEPT_FOR)
    undone: set[str] = set()
    redone: set[str] = set()
    for operation in log.iter_operations(txn, repository.key):
        if operation.sequence <= expired:
            return
        yield LoggedOperation(operation, operation.hex_id in undone)
        if UNDOES in operation.metadata and operation.metadata[UNDOES] not in redone:
            undone.add(operation.metadata[UNDOES])
        elif REDOES in operation.metadata and operation.metadata[REDOES] not in undone:
            redone.add(operation.metadata[REDOES])


def find_undo(txn: ReadTransaction, repository: Repository) -> UndoTarget | None:
    """Return the target of an undo: the newest operation that is not undone, or ``None``."""
    undone: set[str] = set()
    for operation, _ in iter_logged(txn, repository):
        if UNDOES in operation.metadata:
            undone.add(operation.metadata[UNDOES])
            continue
        concerned = operation.metadata.get(REDOES, operation.id.hex())
        if concerned not in undone and not is_passed_over(operation):
            return UndoTarget(bytes.fromhex(concerned), operation)
    return None


def find_redo(txn: ReadTransaction, repository: Repository) -> UndoTarget | None:
    """Return the target of a redo, the last undo; ``None`` if another operation came after it."""
    redone: set[str] = set()
    for operation, _ in iter_logged(txn, repository):
        if REDOES in operation.metadata:
            redone.add(operation.metadata[REDOES])
        elif UNDOES in operation.metadata:
            concerned = operation.metadata[UNDOES]
            if concerned not in redone:
                return UndoTarget(bytes.fromhex(concerned), operation)
        elif not is_passed_over(operation):
            return None
    return None


def redo_target(repository: Repository) -> Operation | None:
    """Return the operation that redo would redo; ``None`` if there is none, or if it is expired."""
    with repository.lake.kv.read() as txn:
        target = find_redo(txn, repository)
        return None if target is None else log.find(txn, repository.key, target.operation)


def find_operation(repository: Repository, prefix: str) -> LoggedOperation:
    """Return an operation by its ID or the beginning of the ID.

    Raises:
        UsageError: `prefix` is not made of hex digits.
        NotFound: no operation matches, several match, or the operation is expired.
    """
    wanted = prefix.lower()
    see = f"`op log {repository.uri}`"
    if not wanted or not _DIGITS.issuperset(wanted):
        raise UsageError(f"not the ID of an operation: {prefix!r}", hint=f"see them: {see}")
    with repository.lake.kv.read() as txn:
        found = list(islice(log.iter_ids(txn, repository.key, wanted), _MAX_CANDIDATES))
        logged = (each for each in iter_logged(txn, repository) if each.operation.id in found)
        matching = list(islice(logged, len(found)))  # expired operations are not among them
    if len(matching) == 1:
        return matching[0]
    if matching:
        lines = "\n".join(sorted(f"  {each.operation.hex_id}" for each in matching))
        hint = f"type more of one of them:\n{lines}"
        raise NotFound(f"several operations begin with {prefix!r}", hint=hint)
    hint = f"operations are kept for {KEPT_FOR.days} days; list them: {see}"
    raise NotFound(f"no operation {prefix} in {repository.uri}", hint=hint)


def repository_at(repository: Repository, operation: str) -> Repository:
    """Return a read-only handle of a repository in the state right after a logged operation.

    Args:
        repository: a result of `logged_repository`; it may be deleted.

    Raises:
        NotFound: no operation matches, the operation is expired, or the repository did not exist
            after it.
    """
    lake, found = repository.lake, find_operation(repository, operation).operation
    past = Lake(lake.home, PastStore(lake.kv, repository.key, found.id), lake.runtime)
    if not (then := LocalRepository(past, repository.record)).is_here():
        what = f"there was no repository {repository.name!r} after operation {operation}"
        raise NotFound(what, hint=f"see what was done: `op log {repository.uri}`")
    return then


def logged_repository(
    lake: OwnLake, name: str, *, wanted: str = "", operation: str = ""
) -> Repository:
    """Return the repository with a name, even if it was deleted, so that its log can be used.

    By default, this is the present repository with the name, or else the repository with the name
    that was deleted last.

    Args:
        wanted: ``undo`` or ``redo``: if there is no present repository, prefer a deleted repository
            that has something to undo or redo, or in which such a command was killed before it
            answered.
        operation: the ID of an operation, or its beginning: prefer the repository that has this
            operation.

    Raises:
        NotFound: this machine never had a repository of that name.
    """
    with lake.kv.read() as txn:
        present = find_repository(txn, name)
        found = [LocalRepository(lake, record) for record in iter_forgotten(txn, name)]
        if present is not None:
            found.insert(0, LocalRepository(lake, present))
        if not found:
            raise NotFound(f"no repository {name!r} on this machine", hint="list them: `repo list`")
        fitting = found
        if operation:
            fitting = [each for each in found if _has(txn, each, operation.lower())]
        elif present is None and wanted:
            find = find_undo if wanted == UNDO else find_redo
            fitting = [each for each in found if _owes_answer(txn, each, wanted)]
            fitting = fitting or [each for each in found if find(txn, each) is not None]
        return (fitting or found)[0]


def find_newest(txn: ReadTransaction, repository: Repository) -> Operation | None:
    """Return the newest operation that undo and redo do not ignore, or ``None``."""
    logged = (each.operation for each in iter_logged(txn, repository))
    return next((each for each in logged if not is_passed_over(each)), None)


def _owes_answer(txn: ReadTransaction, repository: Repository, kind: str) -> bool:
    """Return whether the newest operation is of a kind, and its answer was not printed yet."""
    if not interrupted.may_be_left(repository):
        return False
    newest = find_newest(txn, repository)
    return newest is not None and newest.kind == kind and interrupted.is_left(repository, newest.id)


def _has(txn: ReadTransaction, repository: Repository, prefix: str) -> bool:
    is_id = _DIGITS.issuperset(prefix)
    return is_id and next(log.iter_ids(txn, repository.key, prefix), None) is not None


def staged_paths(
    repository: Repository, operation: Operation
) -> Iterator[tuple[str, bytes, bytes | None]]:
    """Yield (branch, path, value staged before) for each path that an operation staged.

    The order is that of `Operation.staging`, then by path. The value is ``None`` if nothing was
    staged before, and ``b""`` if a deletion was staged.
    """
    with repository.lake.kv.read() as txn:
        for change in operation.staging:
            for path, image in log.iter_images(txn, operation.id, change.token):
                yield change.branch, path, image
