"""The refs in the bucket and their moves: read, listed, and moved by compare-and-set.

The last moves of a ref are in its object, older moves in chunks beside it (the reflog). When a ref
object is full, its oldest moves are written to a chunk before the PUT that removes them from the
ref object. The chunk is named by the newest of its moves. The contents of the chunk depend only on
the ref object, so concurrent writers write the same chunk. The oldest move in a chunk determines
the name of the next older chunk, so reading needs no listing.

`RefMove` moves a ref; no other code writes ref objects. A move has a random write ID. The caller
records this ID before the first request, and every repetition uses the same ID. The moves in the
ref object and in the reflog have their write IDs. The move itself is one conditional PUT that no
SDK repeats: it replaces exactly the version that was read, or creates the object. Unless the PUT
plainly succeeds, the ref is read again:

- If its moves include the write ID, the move was applied, even if others moved the ref since.
- If the ref does not point to the commit where the move starts, the move is lost. Requests that may
  still arrive cannot change that, because the version they require never comes back.
- Otherwise the move is tried again, after a random pause.

A ref object is never deleted. So once the object exists it is never absent again, and no version of
it ever comes back.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import takewhile
from typing import Final, Literal, NamedTuple

from lakecli.base import layout
from lakecli.base.ids import CommitId, PackId, WriteId
from lakecli.base.model import RefKind
from lakecli.base.progress import ignore_step
from lakecli.base.retry import Retries
from lakecli.errors import LakeError, LostRace, NotFound, OutcomeUnknown, Unreachable, Unresponsive
from lakecli.remote import ref_records
from lakecli.remote.ref_records import MAX_MOVES, InvalidRecord, NotOurs, RecordedMove, RemoteRef
from lakecli.stores import contract
from lakecli.stores.capabilities import settle
from lakecli.stores.contract import ConditionFailed, Match, ObjectNotFound, ObjectStore, Version
from lakecli.stores.streams import batches

PARALLEL_READS: Final = 16
_READ_AHEAD: Final = 8 * PARALLEL_READS


class ListedRef(NamedTuple):
    """A ref in a listing; its version shows whether the ref has moved since it was last read."""

    kind: RefKind
    name: str
    version: Version


def find_ref(store: ObjectStore, kind: RefKind, name: str) -> RemoteRef | None:
    """Return a ref, even if it is deleted; ``None`` if it never existed."""
    key = layout.ref_key(kind, name)
    try:
        data, version = store.get_versioned(key, length=layout.MAX_REF_SIZE + 1)
    except ObjectNotFound:
        return None
    return ref_records.parse_ref(kind, name, data, version)


def sequence_of(ref: RemoteRef | None) -> int:
    """Return the number of a ref's last move; 0 if the ref does not exist."""
    return 0 if ref is None else ref.sequence


def iter_refs(store: ObjectStore) -> Iterator[ListedRef]:
    """Yield the refs, including deleted refs, in the order of their keys; skip other objects.

    One LIST request returns a thousand refs. A store's listing may lag behind, so the result may
    lack a ref that exists.
    """
    for info in store.list(layout.REFS):
        if (ref := layout.ref_of_key(info.key)) is not None:
            yield ListedRef(*ref, info.version)


def read_refs(store: ObjectStore, refs: Iterable[ListedRef]) -> Iterator[RemoteRef | InvalidRecord]:
    """Yield refs in the order of `refs`, each read with one GET; absent refs are left out.

    For a ref that is not valid, an `InvalidRecord` is yielded.
    """

    def read(listed: ListedRef) -> RemoteRef | InvalidRecord | None:
        try:
            return find_ref(store, listed.kind, listed.name)
        except NotOurs as error:
            key = layout.ref_key(listed.kind, listed.name)
            return InvalidRecord(listed.kind, listed.name, key, error.message)

    from concurrent.futures import ThreadPoolExecutor  # slow to import: it loads logging

    pool = ThreadPoolExecutor(PARALLEL_READS)
    try:
        for batch in batches(refs, _READ_AHEAD):
            yield from (found for found in pool.map(read, batch) if found is not None)
    finally:
        pool.shutdown(cancel_futures=True)


KEPT_MOVES: Final = MAX_MOVES // 2 + 1
"""Number of moves that stay in a ref object, the new one included, when a chunk is written."""


def spill(
    store: ObjectStore, kind: RefKind, name: str, moves: tuple[RecordedMove, ...]
) -> tuple[RecordedMove, ...]:
    """Return the moves that stay in the ref's object; write the other moves to the reflog.

    Args:
        moves: all moves, newest first.

    Raises:
        Unreachable: the chunk could not be written.
        NotOurs: the chunk exists, with other moves.
    """
    if len(moves) <= MAX_MOVES:
        return moves
    older = moves[KEPT_MOVES:]
    key = layout.reflog_key(kind, name, older[0].sequence)
    if not store.put_new(key, ref_records.dump_moves(older)):
        _check_spilled(store, key, older)
    return moves[:KEPT_MOVES]


def _check_spilled(store: ObjectStore, key: str, moves: tuple[RecordedMove, ...]) -> None:
    """Verify that a chunk which the store refused to write exists already, with the same moves.

    A store may also refuse a PUT because of a concurrent PUT that fails later; then no chunk
    exists.
    """
    try:
        found = ref_records.parse_moves(key, contract.get_bounded(store, key, layout.MAX_REF_SIZE))
    except ObjectNotFound as error:
        what = f"the store refuses to write {key}, although it does not exist"
        raise Unreachable(what, hint="wait and repeat the command") from error
    if found != moves:
        hint = "another program writes into this namespace: restore the object from a backup"
        raise NotOurs(f"{key} holds moves that do not belong there", hint=hint)


def iter_moves(store: ObjectStore, ref: RemoteRef) -> Iterator[RecordedMove]:
    """Yield all moves of a ref, newest first; the moves in the ref's object need no request.

    One GET reads 16 older moves. The iterator ends early if older chunks were deleted.
    """
    yield from ref.moves
    wanted = (ref.moves[-1].sequence if ref.moves else ref.sequence + 1) - 1
    while wanted > 0:
        moves = _read_chunk(store, ref, wanted)
        if not moves:
            return
        yield from moves
        wanted = moves[-1].sequence - 1


def find_move(store: ObjectStore, ref: RemoteRef, sequence: int) -> RecordedMove | None:
    """Return the move with the number `sequence`; ``None`` if its chunk is deleted or damaged.

    A move in the ref's object needs no request, an older move up to three.
    """
    moves = ref.moves
    if moves and sequence < moves[-1].sequence:
        try:
            moves = _read_chunk(store, ref, sequence)
        except (NotOurs, contract.TooLarge):
            return None
    return next((move for move in moves if move.sequence == sequence), None)


def _read_chunk(store: ObjectStore, ref: RemoteRef, newest: int) -> tuple[RecordedMove, ...]:
    """Return the moves of the chunk that begins with move `newest`; none if there is no chunk."""
    key = layout.reflog_key(ref.kind, ref.name, newest)
    data = contract.find_bounded(store, key, layout.MAX_REF_SIZE)
    if data is None:
        # Other versions may end chunks at other moves: the next chunk in the listing has this move.
        found = next(store.list(layout.reflog_prefix(ref.kind, ref.name), after=key), None)
        key = key if found is None else found.key
        data = None if found is None else contract.find_bounded(store, key, layout.MAX_REF_SIZE)
    if data is None:
        return ()
    moves = ref_records.parse_moves(key, data)
    if key != layout.reflog_key(ref.kind, ref.name, moves[0].sequence):
        hint = "it was copied or renamed in the bucket: move it back to its own key"
        raise NotOurs(f"{key} says that its newest move is number {moves[0].sequence}", hint=hint)
    return tuple([move for move in moves if move.sequence <= newest])


class Intent(NamedTuple):
    """A move to make once; the caller records the intent before `RefMove` sends anything.

    Attributes:
        kind: branch or tag.
        name: name of the branch or tag.
        write_id: random ID, 32 hex digits; every repetition of the move has the same ID.
        before: commit of the ref in the bucket before the move; null if the ref did not exist.
        after: new commit of the ref in the bucket; null to delete the ref.
        who: the committer who moves the ref, ``Name <email>``.
        at: the time of the move, in whole seconds.
        why: the command: ``push``, ``undo``, …
        pack: a commit pack that has the new commit; ``""`` if none is known.
        since: the ref's sequence number when the move was decided, or a lower number; only moves
            with greater numbers can be this move.
    """

    kind: RefKind
    name: str
    write_id: WriteId
    before: CommitId | None
    after: CommitId | None
    who: str
    at: datetime
    why: str
    pack: PackId | Literal[""] = ""
    since: int = 0


class MoveOutcome(StrEnum):
    """The outcome of a move."""

    APPLIED = "applied"
    LOST = "lost"
    OPEN = "open"
    """The move was not made yet and still may be made; a `RefMove` never ends with this outcome."""


class MoveResult(NamedTuple):
    """The outcome of a move, and the ref as last read, or ``None`` if it never existed."""

    outcome: MoveOutcome
    ref: RemoteRef | None


MOST_READS: Final = 8
"""Number of failed reads in a row, after a PUT, that make the outcome of the PUT unknown."""

MOST_SLOW: Final = 2
"""After this number of PUTs that timed out, no more PUTs are sent."""


def look_up_move(store: ObjectStore, intent: Intent) -> MoveResult | None:
    """Determine the outcome of a move that an interrupted command began.

    Returns:
        ``APPLIED`` or ``LOST`` as in `RefMove.outcome`; ``None`` if the ref still points to
        `Intent.before`. In that case a request that arrives later may still make the move; only
        `RefMove` can decide.

    Raises:
        Unreachable: the store does not answer.
        NotOurs: the object is not a ref that lakecli wrote.
    """
    ref = find_ref(store, intent.kind, intent.name)
    return _judge(store, intent, ref, since=intent.since)


@dataclass(eq=False)
class RefMove:
    """A move of a ref by compare-and-set; safe to repeat, with the same intent, after any failure.

    Send the move until its outcome is known::

        while (result := move.outcome()) is None:
            move.send()

    Args:
        seen: the ref, which the caller has just read; ``None`` if it does not exist.
        retries: how often to send the conditional PUT, and how long to wait before reads and PUTs.
        on_step: called with the name of each step before it begins: ``read``, ``spill``, ``put``,
            ``pause``.

    Attributes:
        seen: the ref that `send` replaces, as last read; ``None`` if the ref does not exist.
    """

    _store: ObjectStore
    _intent: Intent
    seen: RemoteRef | None
    _: KW_ONLY
    retries: Retries
    on_step: Callable[[str], None] = ignore_step
    _new: RemoteRef | None = field(default=None, init=False)
    _result: MoveResult | LakeError | None = field(default=None, init=False)
    _failures: int = field(default=0, init=False)
    _slow_failures: int = field(default=0, init=False)
    _unanswered: set[Version | None] = field(default_factory=set, init=False)
    """Versions that an unanswered PUT requires: the PUT may take effect as long as the ref has this
    version, and never afterwards."""
    _error: LakeError | None = field(default=None, init=False)

    def outcome(self) -> MoveResult | LakeError | None:
        """Return the outcome; after a failure the ref is read again.

        Returns:
            - ``None``: call `send` or `give_up` next.
            - ``APPLIED``: the ref's moves include this move, made by this `RefMove` or an earlier
              one, even if others moved the ref since.
            - ``LOST``: the ref does not point to `Intent.before`, and this move can never happen;
              others may have moved the ref to `Intent.after`. `LOST` is also the outcome of a move
              that was given up, once no request can move the ref any more.
            - An error: the store does not answer, or refuses. No request of this `RefMove` has
              moved the ref or will move it. Earlier requests with the same intent may have.

        Raises:
            OutcomeUnknown: a request was sent, and its outcome cannot be determined.
            Unreachable, NotOurs, …: the intent was sent earlier, and the older moves, which may
                include this move, cannot be read.
        """
        while self._result is None:
            if not self._failures:
                since = self._intent.since
                self._result = _judge(self._store, self._intent, self.seen, since=since)
            elif not self._look() and self._may_repeat():
                self._pause(self._failures - 1)
                self._look()
            if self._result is None and self._make_room():
                self.on_step("put")
                return None
        return self._result

    def send(self, *, policy: int = 0) -> None:
        """Write the ref with the new move; `outcome` reports a failure.

        Args:
            policy: the version number of the rules that allow the move; 0 if there are no rules.
        """
        assert self._new is not None
        if policy:
            last, *older = self._new.moves
            moves = (last._replace(policy=policy), *older)
            self._new = self._new._replace(moves=moves, policy=policy)
        key = layout.ref_key(self._intent.kind, self._intent.name)
        condition = contract.ABSENT if self._version is None else Match(self._version)
        try:
            body = ref_records.dump_ref(self._new)
            written = self._store.put(key, body, condition, contract.JSON)
        except LakeError as error:
            if isinstance(error, Unreachable):
                self._unanswered.add(self._version)
            self._fail(error)
        else:
            self._result = MoveResult(MoveOutcome.APPLIED, self._new._replace(version=written))

    def give_up(self, why: LakeError | None = None) -> None:
        """Send no more requests; the outcome becomes ``LOST``, or an error.

        Raises:
            OutcomeUnknown: a request that was sent before may still move the ref.
        """
        if self._version in self._unanswered:
            raise self._unknown() from self._error
        self._result = why or MoveResult(MoveOutcome.LOST, self.seen)

    def _look(self) -> bool:
        """Read the ref again, and set the outcome; return whether the outcome is known now."""
        since = sequence_of(self.seen)  # moves up to this number were checked before
        for number in range(MOST_READS):
            if number:
                self._pause(number - 1)
            self.on_step("read")
            try:
                ref = find_ref(self._store, self._intent.kind, self._intent.name)
                if sequence_of(ref) < since:
                    continue  # a stale response: a newer state of the ref was read before
                self._result = _judge(self._store, self._intent, ref, since=since)
            except LakeError as error:
                self._error = error
                may_pass = isinstance(error, Unreachable | ConditionFailed)
                if may_pass and not isinstance(error, Unresponsive):
                    continue
                break
            self.seen = ref
            return self._result is not None
        raise self._unknown() from self._error

    def _make_room(self) -> bool:
        """Prepare the ref to write: move its oldest moves to the reflog if it is full.

        Return whether that succeeded. Before the first PUT, a single failure is final: the store's
        adapter has retried already.
        """
        moved = _moved(self.seen, self._intent)
        try:
            if len(moved.moves) > MAX_MOVES:
                self.on_step("spill")
                kept = spill(self._store, moved.kind, moved.name, moved.moves)
                moved = moved._replace(moves=kept)
        except LakeError as error:
            if not self._failures:
                self._result = error
            self._fail(error)
            return False
        self._new = moved
        return True

    def _fail(self, error: LakeError) -> None:
        if isinstance(error, contract.NotAllowed):
            protected = f"the bucket's policy may protect {self._what}"
            error.hint = f"{protected}: let somebody who may move it merge"
        self._error = error
        self._failures += 1
        self._slow_failures += isinstance(error, Unresponsive)

    def _may_repeat(self) -> bool:
        """Return whether the move may be sent again; if not, the last error becomes the outcome."""
        assert self._error is not None
        attempts = self.retries.policy.attempts
        may_pass = isinstance(self._error, Unreachable | ConditionFailed | NotFound)
        if may_pass and self._failures < attempts and self._slow_failures < MOST_SLOW:
            return True
        if self._version in self._unanswered:
            raise self._unknown() from self._error
        self._result = self._error
        if isinstance(self._error, ConditionFailed):
            refused = f"the store refused {attempts} times to move {self._what}"
            hint = "repeat the command; to test what the store can do: `doctor REPOSITORY`"
            self._result = Unreachable(f"{refused}, although nobody else moved it", hint=hint)
            self._result.__cause__ = self._error
        return False

    def _pause(self, number: int) -> None:
        self.on_step("pause")
        self.retries.pause(number)

    @property
    def _version(self) -> Version | None:
        """The version of the ref that was read; the PUT requires this version."""
        return None if self.seen is None else self.seen.version

    @property
    def _what(self) -> str:
        return f"{self._intent.kind} {self._intent.name}"

    def _unknown(self) -> OutcomeUnknown:
        reason = f": {self._error.message}" if self._error else ""
        what = f"it is unknown whether {self._what} moved in the bucket{reason}"
        return OutcomeUnknown(what, hint="repeat the command when the store answers again")


def _judge(
    store: ObjectStore, intent: Intent, ref: RemoteRef | None, *, since: int
) -> MoveResult | None:
    """Return the outcome of a move, or ``None`` if the ref still points to `Intent.before`."""
    if ref is not None and _is_among(store, intent, ref, since=since):
        settle(store, layout.ref_key(intent.kind, intent.name))
        return MoveResult(MoveOutcome.APPLIED, ref)
    position = None if ref is None else ref.commit_id
    return None if position == intent.before else MoveResult(MoveOutcome.LOST, ref)


def _is_among(store: ObjectStore, intent: Intent, ref: RemoteRef, *, since: int) -> bool:
    if ref.write_id == intent.write_id:
        return True
    if ref.sequence <= since:
        return False
    newer = takewhile(lambda move: move.sequence > since, iter_moves(store, ref))
    return any(move.write_id == intent.write_id for move in newer)


def _moved(ref: RemoteRef | None, intent: Intent) -> RemoteRef:
    """Return the ref that a move results in, with all its moves and without a version."""
    sequence = sequence_of(ref) + 1
    kind, name, write_id, before, after, who, at, why, pack, _ = intent
    move = RecordedMove(sequence, write_id, before, after, who, at, why, pack)
    moved = RemoteRef(kind, name, after, sequence, write_id, (move,), Version(""))
    if ref is None:
        return moved
    return moved._replace(moves=(move, *ref.moves), extra=ref.extra, policy=ref.policy)


def stamp(store: ObjectStore, kind: RefKind, name: str, policy: int) -> None:
    """Record the number of new rules in a ref, without changing its commit or moves.

    This gives the ref's object a new version. So a concurrent move that was checked by older rules
    fails, and is checked again by the new rules.

    Raises:
        LostRace: others moved the ref during every attempt.
        Unreachable: the store does not answer.
    """
    for _ in range(MOST_READS):
        ref = find_ref(store, kind, name)
        if ref is None or ref.policy >= policy:
            return
        body = ref_records.dump_ref(ref._replace(policy=policy))
        with suppress(ConditionFailed):
            store.put(layout.ref_key(kind, name), body, Match(ref.version), contract.JSON)
            return
    raise LostRace(f"{kind} {name} moved {MOST_READS} times while it was read", hint="try again")
