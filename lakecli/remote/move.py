"""Moving a ref in the bucket; no other code writes ref objects.

A move has a random write ID, which the caller records before the first request and which every
repetition keeps. The ref object holds the last moves and the reflog the older ones, each with its
write ID. The move itself is one conditional PUT that no SDK repeats: over exactly the version that
was read, or create-only. After any answer but plain success, the ref is read back:

- Its moves include the write ID: the move was applied, even if others moved the ref since.
- It does not stand at the commit where the move starts: the move is lost. Requests still under way
  cannot change that, because the version they require never comes back.
- Otherwise the move is tried again, after a random pause.

A ref object is never deleted, so neither a version nor the object's absence ever comes back.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from lakecli.base.ids import CommitId, PackId, WriteId
from lakecli.base.layout import ref_key
from lakecli.base.model import NO_METADATA, RefKind
from lakecli.base.progress import ignore_step
from lakecli.base.retry import Retries
from lakecli.errors import LakeError, NotFound, OutcomeUnknown, Unreachable
from lakecli.remote.ref_records import MAX_MOVES, RecordedMove, RemoteRef, dump_ref
from lakecli.remote.refs import find_ref, iter_moves, spill
from lakecli.stores.contract import ABSENT, JSON, ConditionFailed, Match, Version

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore


class Intent(NamedTuple):
    """A move to make once; the caller records it before `apply` sends anything.

    Attributes:
        kind: a branch or a tag.
        name: of the ref.
        write_id: random, 32 hex digits; every repetition of this move keeps it.
        before: the commit the ref must point at; ``None`` if it must be absent or deleted.
        after: the new commit; ``None`` to delete the ref.
        who: ``Name <email>``.
        at: when, whole seconds.
        why: the command: ``push``, ``undo``, …
        pack: a commit pack that has the new commit; ``""`` if none is known.
        since: the ref's sequence number when the move was decided, or any lower one; the move is
            searched only among later ones.
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
    """It is not made yet, and may be; `apply` never returns this."""


class Result(NamedTuple):
    """The outcome of a move, and the ref as it is now (``None`` if it never existed)."""

    outcome: MoveOutcome
    ref: RemoteRef | None


class Outdated(Exception):
    """Raised by `on_step` at ``put``: the move must not be sent, or not again."""


READS: Final = 8
"""Failed reads in a row after a PUT was sent until its outcome counts as unknown."""


def apply(
    store: ObjectStore,
    intent: Intent,
    *,
    retries: Retries,
    on_step: Callable[[str], None] = ignore_step,
) -> Result:
    """Move a ref by compare-and-set; safe to repeat, with the same intent, after any failure.

    Args:
        store: of the namespace.
        intent: the move.
        retries: how often to send the conditional PUT, and how long to wait before reads and PUTs.
        on_step: called with the name of each step before it begins: ``read``, ``spill``, ``put``,
            ``pause``. Before ``put`` it may raise `Outdated`.

    Returns:
        ``APPLIED`` if the ref's moves include this one, made by this call or an earlier one, even
        if others moved the ref since. ``LOST`` if the ref does not point at `Intent.before` and
        this move can never happen; others may have moved the ref to `Intent.after`.

    Raises:
        Outdated: as `on_step` raised it, if no request of this call can move the ref any more.
        OutcomeUnknown: a request was sent, and its outcome cannot be determined.
        Unreachable: the store does not answer. No request of this call has moved the ref or will
            move it; nothing is known about earlier calls with the same intent.
        PermissionDenied: the store refuses access; the rest is as for `Unreachable`.
        NotOurs: the object is not a ref that lakecli wrote; the rest is as for `Unreachable`.
    """
    return _Attempt(store, intent, retries, on_step).run()


def look_up(store: ObjectStore, intent: Intent) -> Result | None:
    """Determine the outcome of a move that an interrupted command began.

    Returns:
        ``APPLIED`` or ``LOST`` as `apply` does; ``None`` if the ref still is at `Intent.before`. A
        request still under way may yet make the move; only `apply` decides it.

    Raises:
        Unreachable: the store does not answer.
        NotOurs: the object is not a ref that lakecli wrote.
    """
    ref = find_ref(store, intent.kind, intent.name)
    return _judge(store, intent, ref, since=intent.since)


class _Attempt:
    """One call of `apply`."""

    def __init__(
        self,
        store: ObjectStore,
        intent: Intent,
        retries: Retries,
        on_step: Callable[[str], None],
    ) -> None:
        self._store = store
        self._intent = intent
        self._retries = retries
        self._on_step = on_step
        self._since = intent.since
        self._seen = 0
        self._is_sent = False
        # Versions for which a PUT was sent and not answered: it may take effect as long as the ref
        # has that version, and never afterwards.
        self._unanswered: set[Version | None] = set()
        self._error: LakeError | None = None

    def run(self) -> Result:
        """Read the ref, judge the outcome and write, until the outcome is known."""
        for number in range(self._retries.policy.attempts):
            if number:
                self._pause(number - 1)
            ref, result = self._look()
            result = result or self._put(ref)
            if result is None:
                ref, result = self._look()
            if result is not None:
                return result
            if not isinstance(self._error, Unreachable | ConditionFailed | NotFound):
                break
        assert self._error is not None
        if self._version_of(ref) in self._unanswered:
            raise self._unknown() from self._error
        if not isinstance(self._error, ConditionFailed):
            raise self._error
        raise Unreachable(
            f"the store refused {self._retries.policy.attempts} times to move {self._what}, "
            "although nobody else moved it",
            hint="wait and repeat the command; lakecli doctor tests what the store can do",
        ) from self._error

    def _look(self) -> tuple[RemoteRef | None, Result | None]:
        """Return the ref, and the outcome of the move if the ref determines it.

        Before anything was sent, one failure is enough: the store's adapter has retried already.
        """
        for number in range(READS):
            if number:
                self._pause(number - 1)
            self._on_step("read")
            try:
                ref = find_ref(self._store, self._intent.kind, self._intent.name)
                sequence = 0 if ref is None else ref.sequence
                if sequence < self._seen:
                    continue  # an outdated answer: a newer state was read before
                result = _judge(self._store, self._intent, ref, since=self._since)
            except LakeError as error:
                if not self._is_sent:
                    raise
                self._error = error
                if not isinstance(error, Unreachable | ConditionFailed):
                    break
                continue
            self._seen = sequence
            self._since = max(self._since, sequence)  # the move is not among these
            return ref, result
        raise self._unknown() from self._error

    def _put(self, ref: RemoteRef | None) -> Result | None:
        """Write the moved ref; return ``None`` and set `_error` if that may have failed."""
        intent = self._intent
        new = _moved(ref, intent)
        try:
            if len(new.moves) > MAX_MOVES:
                self._on_step("spill")
                kept = spill(self._store, intent.kind, intent.name, new.moves)
                new = new._replace(moves=kept)
        except LakeError as error:
            if not self._is_sent:
                raise
            self._error = error
            return None
        version = self._version_of(ref)
        try:
            self._on_step("put")
        except Outdated:
            if version in self._unanswered:
                raise self._unknown() from self._error
            raise
        self._is_sent = True
        try:
            written = self._store.put(
                ref_key(intent.kind, intent.name),
                dump_ref(new),
                ABSENT if version is None else Match(version),
                JSON,
            )
        except LakeError as error:
            self._error = error
            if isinstance(error, Unreachable):
                self._unanswered.add(version)
            return None
        return Result(MoveOutcome.APPLIED, new._replace(version=written))

    def _pause(self, number: int) -> None:
        self._on_step("pause")
        self._retries.pause(number)

    def _version_of(self, ref: RemoteRef | None) -> Version | None:
        return None if ref is None else ref.version

    @property
    def _what(self) -> str:
        return f"{self._intent.kind} {self._intent.name}"

    def _unknown(self) -> OutcomeUnknown:
        reason = f": {self._error.message}" if self._error else ""
        return OutcomeUnknown(
            f"it is unknown whether {self._what} moved in the bucket{reason}",
            hint="repeat the command when the store answers again",
        )


def _judge(
    store: ObjectStore, intent: Intent, ref: RemoteRef | None, *, since: int
) -> Result | None:
    """Return the outcome of a move, or ``None`` if the ref still points at `Intent.before`."""
    if ref is not None and _is_among(store, intent, ref, since=since):
        return Result(MoveOutcome.APPLIED, ref)
    position = None if ref is None else ref.commit_id
    return None if position == intent.before else Result(MoveOutcome.LOST, ref)


def _is_among(store: ObjectStore, intent: Intent, ref: RemoteRef, *, since: int) -> bool:
    if ref.write_id == intent.write_id:
        return True
    for move in iter_moves(store, ref):
        if move.sequence <= since:
            break
        if move.write_id == intent.write_id:
            return True
    return False


def _moved(ref: RemoteRef | None, intent: Intent) -> RemoteRef:
    """Return the ref after a move, with all its moves and without a version."""
    sequence = (0 if ref is None else ref.sequence) + 1
    _, _, write_id, before, after, who, at, why, pack, _ = intent
    move = RecordedMove(sequence, write_id, before, after, who, at, why, pack)
    return RemoteRef(
        kind=intent.kind,
        name=intent.name,
        commit_id=after,
        sequence=sequence,
        write_id=write_id,
        moves=(move, *(() if ref is None else ref.moves)),
        version=Version(""),
        extra=NO_METADATA if ref is None else ref.extra,
    )
