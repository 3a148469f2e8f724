"""The moves of branches and tags, read from the bucket and from the operation log of this clone.

The moves of a shared ref are in the bucket. This clone keeps the moves that it has read, and reads
older moves only when they are needed. The clone's own moves come from its operation log: unpushed
moves after the newest shared move, moves before the first shared move, and all moves of a ref that
was never shared. Moves that were pushed together count as one move, because other clones see only
one.

`find_past_ref` resolves the braces of a ref expression, such as ``main@{1}``, to a former commit of
the branch or tag.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import islice
from shlex import quote
from typing import Final, NamedTuple

from lakecli.base.model import NAMED_KINDS, CommitId, RefKind
from lakecli.errors import NotFound, UsageError
from lakecli.kv.local_store import ReadTransaction, WriteTransaction
from lakecli.kv.operations import FOLLOWED, Operation, iter_operations
from lakecli.refs.expression import Modifier, RefExpression, parse_when
from lakecli.refs.names import is_ref_name
from lakecli.refs.ref_store import RefStore, get_commit
from lakecli.refs.resolve import PastRef, RefReader, resolve_base
from lakecli.remote.ref_records import RecordedMove
from lakecli.remote.refs import find_ref, iter_moves
from lakecli.repository.journal.tracking import iter_known_moves, put_known_moves
from lakecli.repository.readable import Refs

_MAKE_NO_COMMIT: Final = frozenset(
    {"repo create", "branch create", "tag create", "clone", "fetch", "pull", FOLLOWED}
    | {"undo", "redo", "op restore"}
)
"""Kinds of operations that create no commit: they move refs to existing commits."""

_READ_AHEAD: Final = 64
"""The number of moves that are read from the bucket and kept in the local store at a time."""

_MISDATED: Final = 64
"""A search by date ends after this many operations in a row with earlier dates; the dates of fewer
operations may be wrong."""


class LoggedMove(NamedTuple):
    """One move of a ref.

    Attributes:
        before: commit before the move; ``None`` if the move created the ref.
        after: commit after the move; ``None`` if the move deleted the ref.
        at: time of the move, by the clock of the machine that made the move.
        who: name and e-mail address of the user; empty if unknown.
        why: the command: push, commit, ….
        shared: whether the ref was moved in the bucket, too.
    """

    before: CommitId | None
    after: CommitId | None
    at: datetime
    who: str
    why: str
    shared: bool


class Past:
    """The moves of a repository's refs, as of one transaction."""

    def __init__(self, repository: Refs, txn: ReadTransaction) -> None:
        self._repository = repository
        self._txn = txn

    @property
    def now(self) -> datetime:
        """The present time."""
        return self._repository.lake.runtime.now()

    def find_kind(self, name: str) -> RefKind | None:
        """Return the kind of a ref that this clone saw in the bucket, or ``None``.

        If both a branch and a tag have the name, the branch is preferred.
        """
        tracking = self._repository.tracking(self._txn)
        for kind in NAMED_KINDS:
            if is_ref_name(kind, name) and tracking.find(kind, name) is not None:
                return kind
        return None

    def find_upstream(self, kind: RefKind, name: str) -> CommitId | None:
        """Return a ref's commit in the bucket, as this clone last read it, or ``None``."""
        return self._repository.tracking(self._txn).position(kind, name)

    def iter_moves(self, kind: RefKind, name: str) -> Iterator[LoggedMove]:
        """Yield the moves of a ref, newest first.

        Raises:
            Unreachable: older moves are in the bucket, but the store does not answer.
        """
        shared = self._iter_shared(kind, name)
        if self._txn.is_past:  # omit moves after the last operation of the past state
            latest = next(iter_operations(self._txn, self._repository.key), None)
            shared = (move for move in shared if latest is None or move.at <= latest.at)
        first = next(shared, None)
        if first is None:
            yield from self._iter_own(kind, name)
            return
        newest = _logged(first)
        own = _after(newest, list(self._iter_own(kind, name, since=newest.at)))
        if not own or own[-1].before != newest.after:
            own = _dated_wrong(newest, list(self._iter_own(kind, name))) or own
        yield from own
        oldest = first
        for older in shared:
            yield _logged(oldest)
            oldest = older
        if oldest.sequence > 1:
            yield _logged(oldest)
            return
        yield from _first(oldest, list(islice(self._iter_own(kind, name), len(own), None)))

    def _iter_shared(self, kind: RefKind, name: str) -> Iterator[RecordedMove]:
        """Yield a ref's moves in the bucket, newest first; only moves not kept here are read."""
        last = None
        for move in iter_known_moves(self._txn, self._repository, kind, name):
            if last is not None and move.sequence != last - 1:
                break  # moves are missing: the ref moved several times between two fetches
            last = move.sequence
            yield move
        tracked = self._repository.tracking(self._txn).find(kind, name)
        if tracked is None or last == 1:
            return
        yield from self._read_older(kind, name, tracked.sequence + 1 if last is None else last)

    def _read_older(self, kind: RefKind, name: str, sequence: int) -> Iterator[RecordedMove]:
        """Read a ref's moves before a sequence number from the bucket; keep and yield them."""
        ref = find_ref(self._repository.store, kind, name)
        if ref is None:
            return
        moves = iter_moves(self._repository.store, ref)
        older = (move for move in moves if move.sequence < sequence)
        while batch := list(islice(older, _READ_AHEAD)):
            self._keep(kind, name, batch)
            yield from batch

    def _keep(self, kind: RefKind, name: str, moves: list[RecordedMove]) -> None:
        kv = self._repository.lake.kv
        may_write = not kv.read_only and not isinstance(self._txn, WriteTransaction)
        if may_write and not self._txn.is_past:
            with kv.write() as txn:
                put_known_moves(txn, self._repository, kind, name, moves)

    def _iter_own(
        self, kind: RefKind, name: str, *, since: datetime | None = None
    ) -> Iterator[LoggedMove]:
        """Yield this clone's moves of a ref from its operation log, newest first."""
        refs = self._repository.refs(self._txn)
        operations: Iterable[Operation] = iter_operations(self._txn, self._repository.key)
        if since is not None:
            operations = _since(since, operations)
        for operation in operations:
            for change in reversed(operation.refs):  # staging does not move a ref
                before, after = change.commits
                if (change.kind, change.name) == (kind, name) and before != after:
                    who = _who(refs, before, after, operation.kind)
                    yield LoggedMove(before, after, operation.at, who, operation.kind, shared=False)


def _since(since: datetime, operations: Iterable[Operation]) -> Iterator[Operation]:
    """Yield operations, newest first, back to a time.

    A wrong clock may have dated some operations too early. So a run of fewer than `_MISDATED`
    operations with earlier dates does not end the search.
    """
    older: list[Operation] = []
    for operation in operations:
        older.append(operation)
        if operation.at >= since:
            yield from older
            older.clear()
        elif len(older) == _MISDATED:
            return


def _after(newest: LoggedMove, own: list[LoggedMove]) -> list[LoggedMove]:
    """Return this clone's moves after the newest shared move.

    A pushed move can be dated a little before or after its push. So moves are matched by their
    commits: the first later move starts at the commit that was pushed.

    Args:
        own: this clone's moves since the date of the newest shared move, newest first.
    """
    for position in reversed(range(len(own))):
        if own[position].before == newest.after:
            return own[: position + 1]
    if own and own[0].after == newest.after:
        return []
    return [move for move in own if move.at > newest.at]


def _dated_wrong(newest: LoggedMove, own: list[LoggedMove]) -> list[LoggedMove]:
    """Return this clone's moves after the newest shared move, if they have earlier dates.

    This happens if this machine's clock was wrong.

    Args:
        own: all moves of this clone, newest first.
    """
    is_wrong = False
    for position, move in enumerate(own[:_MISDATED]):
        is_wrong = is_wrong or any(move.at < older.at for older in own[position:])
        if move.after == newest.after:
            return []
        if move.before == newest.after:
            return own[: position + 1] if is_wrong else []
    return []


def _first(first: RecordedMove, own: list[LoggedMove]) -> list[LoggedMove]:
    """Return the first shared move and this clone's moves before it.

    The first push of a ref and the local move to the same commit are one move, with the local date.

    Args:
        own: this clone's moves, newest first.
    """
    earlier = [move for move in own if move.at <= first.at]
    if earlier and earlier[0].after == first.after:
        return [earlier[0]._replace(shared=True), *earlier[1:]]
    if own and own[0].after == first.after:
        return [_logged(first), *own[1:]]  # even if the dates are wrong
    return [_logged(first), *earlier]


def _who(refs: RefStore, before: CommitId | None, after: CommitId | None, why: str) -> str:
    """Return the committer of the commit that a move created, or ``""`` if it created none."""
    if after is None or why in _MAKE_NO_COMMIT:
        return ""
    commit = refs.find_commit(after)
    return commit.committer if commit is not None and before in commit.parents else ""


def _logged(move: RecordedMove) -> LoggedMove:
    return LoggedMove(move.before, move.after, move.at, move.who, move.why, shared=True)


def find_past_ref(expression: RefExpression, reader: RefReader, past: Past) -> PastRef:
    """Resolve an expression up to its first braces: the part ``main@{1}`` of ``main@{1}~2``.

    Args:
        expression: an expression that begins with a base and braces.

    Raises:
        NotFound: no such branch or tag, or it did not exist at that time.
        UsageError: the base is a commit, or the date in the braces is malformed.
    """
    branch, commit_id = None, None
    seen = past.find_kind(expression.base)
    try:
        found, name, branch, commit_id = resolve_base(expression, reader)
    except NotFound:
        if seen is None:
            raise
        found, name = seen, expression.base
    if found is RefKind.COMMIT and seen is not None:
        found, name, commit_id = seen, expression.base, None
    modifier = expression.modifiers[0]
    if found is RefKind.COMMIT:
        use = f"{modifier.text!r} is for branches and tags, which move"
        what = f"{str(expression)!r}: {use}, and {expression.base!r} is a commit"
        raise UsageError(what, hint=f"leave it out: {expression.base}")
    stood = PAST[modifier.symbol](past, _Ref(found, name, str(expression)), modifier)
    commit = reader.find_commit(stood)
    if commit is None:
        what = f"{str(expression)!r} is commit {stood}, which this clone does not have"
        raise NotFound(what, hint="get what the bucket has: `fetch`")
    base = commit if commit_id is None else get_commit(reader, commit_id)
    return PastRef(found, name, branch, base.id, commit)


class _Ref(NamedTuple):
    """The branch or tag before the braces of an expression; shown as ``branch main``."""

    kind: RefKind
    name: str
    expression: str

    def __str__(self) -> str:
        return f"{self.kind.value} {self.name}"


def _stood_at(past: Past, ref: _Ref, modifier: Modifier) -> CommitId:
    """Return the commit that a ref pointed to at a time."""
    when = parse_when(modifier.within, past.now)
    earliest = None
    for move in past.iter_moves(ref.kind, ref.name):
        if move.at <= when:
            if move.after is None:
                gone = f"was not there at {_shown(when)}, deleted at {_shown(move.at)}"
                raise NotFound(f"{ref.expression!r}: {ref} {gone}")
            return move.after
        earliest = move
    if earliest is None:
        raise _never_moved(ref)
    raise NotFound(
        f"{ref.expression!r}: {ref} goes back to {_shown(earliest.at)}, and not to {_shown(when)}",
        hint=f"where it stood first: {ref.name}@{{{_shown(earliest.at)}}}",
    )


def _stood_before(past: Past, ref: _Ref, modifier: Modifier) -> CommitId:
    """Return the commit that a ref pointed to before its last n moves."""
    count, stood = 0, None
    for count, move in enumerate(past.iter_moves(ref.kind, ref.name), 1):
        if count > modifier.number:
            stood = move.after
            break
        stood = move.before  # after the loop: the commit before the oldest known move
    if not count:
        raise _never_moved(ref)
    if count < modifier.number or (count == modifier.number and stood is None):
        times = "1 time" if count == 1 else f"{count} times"
        raise NotFound(f"{ref.expression!r}: {ref} has moved {times}, as far as is known")
    if stood is None:
        raise NotFound(f"{ref.expression!r}: {ref} was not there, it had been deleted")
    return stood


def _upstream(past: Past, ref: _Ref, _modifier: Modifier) -> CommitId:
    """Return the commit that a ref had in the bucket when this clone last read it."""
    commit_id = past.find_upstream(ref.kind, ref.name)
    if commit_id is None:
        what = f"{ref.expression!r}: {ref} is not in the bucket, as far as this clone knows"
        hint = f"look there: `fetch REPOSITORY`; or `push REPOSITORY/{quote(ref.name)}`"
        raise NotFound(what, hint=hint)
    return commit_id


def _never_moved(ref: _Ref) -> NotFound:
    return NotFound(f"{ref.expression!r}: nothing is known of how {ref} moved")


def _shown(when: datetime) -> str:
    return f"{when:%Y-%m-%dT%H:%M:%SZ}"


PAST: dict[str, Callable[[Past, _Ref, Modifier], CommitId]] = {
    "@{upstream}": _upstream,
    "@{n}": _stood_before,
    "@{date}": _stood_at,
}
"""For each kind of braces, the function that finds the former commit of a branch or tag."""
