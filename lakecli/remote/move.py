"""Moving a ref in the bucket: one protocol, and the only code that writes ref objects.

A move has a random write ID, which the caller writes down before the first request and every
repetition keeps. The ref object holds its last moves and the reflog the older ones, each with its
write ID. The move itself is one conditional PUT that no SDK repeats: over exactly the version that
was read, or create-only. Whatever the answer is, other than plain success, the ref is read back:

- the write ID is among its moves: applied, whoever moved the ref since;
- it stands elsewhere than where the move was to start: lost. Requests that are still under way
  cannot change that, for the version they require is gone for good;
- neither: it is tried again, after a random pause.

A ref object is never deleted, so neither a version nor its absence ever comes back.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from lakecli.errors import LakeError, NotFound, OutcomeUnknown, Unreachable
from lakecli.layout import ref_key
from lakecli.objectstore.base import ABSENT, ConditionFailed, Match, Version
from lakecli.progress import ignore_step
from lakecli.remote.ref_records import MAX_MOVES, Move, RemoteRef, dump_ref
from lakecli.remote.reflog import iter_moves, spill
from lakecli.remote.refs import find_ref

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from lakecli.ids import CommitId, PackId, WriteId
    from lakecli.objectstore.base import ObjectStore
    from lakecli.retry import Retries

__all__ = ["Intent", "Outcome", "OutcomeUnknown", "Result", "apply", "look_up"]


class Intent(NamedTuple):
    """One move that shall be made, once; written down before `apply` sends anything.

    Attributes:
        kind: ``branch`` or ``tag``.
        name: of the ref.
        write_id: random, 32 hex digits; kept by every repetition of this very move.
        before: where the ref has to stand; ``None``: nowhere, it is not there or deleted.
        after: where it shall go; ``None``: it is deleted.
        who: ``Name <email>``.
        at: when, whole seconds.
        why: what was done: ``push``, ``undo``, …
        pack: the commit pack that was written for it; ``""`` if none was.
        since: the ref's sequence number when this was decided, or any lower one: the move cannot
            be among those up to it, so nobody needs to look there.
    """

    kind: str
    name: str
    write_id: WriteId
    before: CommitId | None
    after: CommitId | None
    who: str
    at: datetime
    why: str
    pack: PackId | Literal[""] = ""
    since: int = 0


class Outcome(StrEnum):
    """What became of a move."""

    APPLIED = "applied"
    LOST = "lost"


class Result(NamedTuple):
    """What became of a move, and the ref as it stands now (``None``: there never was one)."""

    outcome: Outcome
    ref: RemoteRef | None


READS: Final = 8
"""Reads in a row that may fail after a PUT was sent; then its outcome is unknown."""


def apply(
    store: ObjectStore,
    intent: Intent,
    *,
    retries: Retries,
    reads: int = READS,
    on_step: Callable[[str], None] = ignore_step,
) -> Result:
    """Move a ref by compare-and-set; safe to repeat, with the same intent, after any failure.

    Args:
        store: of the namespace.
        intent: the move.
        retries: how often to send the conditional PUT, and how long to wait before reads and PUTs.
        reads: that fail in a row after a PUT was sent, until its outcome counts as unknown.
        on_step: told the name of each step before it is taken: ``read``, ``spill``, ``put``,
            ``pause``.

    Returns:
        ``APPLIED`` if the move is among the ref's, by this call or an earlier one, whatever moved
        the ref since. ``LOST`` if the ref does not stand on `Intent.before` and this move can
        never come to be; the ref may stand on `Intent.after` even so, moved there by others.

    Raises:
        OutcomeUnknown: something was sent, and it cannot be found out what became of it.
        Unreachable: the store does not answer; this call has not made the move, nor will anything
            that it sent. Of an earlier call with the same intent that says nothing.
        PermissionDenied: likewise, it does not let us.
        NotOurs: likewise, the object in the ref's place is no ref object of ours.
    """
    return _Attempt(store, intent, retries, reads, on_step).run()


def look_up(store: ObjectStore, intent: Intent) -> Result | None:
    """Find out what became of a move that an interrupted command had begun.

    Returns:
        ``APPLIED`` or ``LOST`` as `apply` does; ``None`` if the ref still stands where the move
        was to start. A request that is still under way may yet make it: `apply` settles it.

    Raises:
        Unreachable: the store does not answer.
        NotOurs: the object in the ref's place is no ref object of ours.
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
        reads: int,
        on_step: Callable[[str], None],
    ) -> None:
        self._store = store
        self._intent = intent
        self._retries = retries
        self._reads = reads
        self._on_step = on_step
        self._since = intent.since
        self._seen = 0
        self._is_sent = False
        # Versions over which a PUT was sent that nobody answered: it may take effect for as long
        # as the ref has such a version, and never once it has another.
        self._unanswered: set[Version | None] = set()
        self._error: LakeError | None = None

    def run(self) -> Result:
        """Read, judge and write in turns."""
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
            "though nobody else moved it",
            hint="wait and repeat the command; lakecli doctor tells what the store can do",
        ) from self._error

    def _look(self) -> tuple[RemoteRef | None, Result | None]:
        """Return the ref as it stands, and what that says about the move.

        Before anything was sent, one try is enough: the store's adapter has made several.
        """
        for number in range(self._reads):
            if number:
                self._pause(number - 1)
            self._on_step("read")
            try:
                ref = find_ref(self._store, self._intent.kind, self._intent.name)
                sequence = 0 if ref is None else ref.sequence
                if sequence < self._seen:
                    continue  # an older one than was read before: it says nothing
                result = _judge(self._store, self._intent, ref, since=self._since)
            except LakeError as error:
                if not self._is_sent:
                    raise
                self._error = error
                if not isinstance(error, Unreachable | ConditionFailed):
                    break
                continue
            self._seen = sequence
            self._since = max(self._since, sequence)  # it is not among the moves up to here
            return ref, result
        raise self._unknown() from self._error

    def _put(self, ref: RemoteRef | None) -> Result | None:
        """Write the ref where it is to go; ``None``, and `_error`, if that may have failed."""
        intent = self._intent
        new = _moved(ref, intent)
        try:
            if len(new.moves) > MAX_MOVES:
                self._on_step("spill")
                new = replace(new, moves=spill(self._store, intent.kind, intent.name, new.moves))
        except LakeError as error:
            if not self._is_sent:
                raise
            self._error = error
            return None
        self._on_step("put")
        self._is_sent = True
        version = self._version_of(ref)
        try:
            written = self._store.put(
                ref_key(intent.kind, intent.name),
                dump_ref(new),
                ABSENT if version is None else Match(version),
                content_type="application/json",
            )
        except LakeError as error:
            self._error = error
            if isinstance(error, Unreachable):
                self._unanswered.add(version)
            return None
        return Result(Outcome.APPLIED, replace(new, version=written))

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
            f"{self._what} may have moved in the bucket or not{reason}",
            hint="the next command finds out: repeat it when the store answers again",
        )


def _judge(
    store: ObjectStore, intent: Intent, ref: RemoteRef | None, *, since: int
) -> Result | None:
    """Return what became of a move, or ``None`` if the ref stands where it was to start."""
    if ref is not None and _is_among(store, intent, ref, since=since):
        return Result(Outcome.APPLIED, ref)
    position = None if ref is None else ref.commit_id
    return None if position == intent.before else Result(Outcome.LOST, ref)


def _is_among(store: ObjectStore, intent: Intent, ref: RemoteRef, *, since: int) -> bool:
    if ref.write_id == intent.write_id:
        return True
    if ref.sequence <= since:
        return False
    for move in iter_moves(store, ref):
        if move.sequence <= since:
            break
        if move.write_id == intent.write_id:
            return True
    return False


def _moved(ref: RemoteRef | None, intent: Intent) -> RemoteRef:
    """Return the ref after a move, all its moves included; of no version yet."""
    sequence = (0 if ref is None else ref.sequence) + 1
    move = Move(
        sequence=sequence,
        write_id=intent.write_id,
        before=intent.before,
        after=intent.after,
        who=intent.who,
        at=intent.at,
        why=intent.why,
        pack=intent.pack,
    )
    return RemoteRef(
        kind=intent.kind,
        name=intent.name,
        commit_id=intent.after,
        sequence=sequence,
        write_id=intent.write_id,
        moves=(move, *(() if ref is None else ref.moves)),
        version=Version(""),
        extra={} if ref is None else ref.extra,
    )
