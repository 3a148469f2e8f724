"""A bucket that notes every write, and the connections of clones to it, which fail as planned."""

from __future__ import annotations

from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TypeVar

from lakecli.errors import Unreachable
from lakecli.stores.contract import ABSENT, PLAIN, Attributes, ConditionFailed, Match
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lakecli.stores.contract import Condition, ObjectInfo, Version
    from tests.support.memory_store import MemoryBucket

T = TypeVar("T")
PREFIX = "ns/"
LATE = 2
"""Requests after which a late one arrives."""

NEVER = 1 << 30


class Killed(BaseException):
    """The process of a command was killed."""


class Kind(StrEnum):
    """A kind of request."""

    READ = "read"
    WRITE = "write"
    CREATION = "create-only write"
    """Of an object whose name determines its contents, so that the adapter may repeat it."""
    CONDITIONAL = "conditional write"
    DELETE = "delete"


class Fault(StrEnum):
    """What happens to a request."""

    NONE = "none"
    NOT_SENT = "not sent"
    """It does not arrive, and the command learns that there was no answer."""
    LOST = "reply lost"
    """It takes effect, and the command learns that there was no answer."""
    LATE = "late"
    """There is no answer; it arrives after `LATE` more requests."""
    LAST = "last"
    """There is no answer; it arrives when the command has ended."""
    CONFLICT = "conflict"
    """The store refuses it because of another request, although the condition holds."""
    REPEATED = "repeated"
    """It takes effect, its reply is lost, and its repetition by the client is refused."""
    CUT = "cut"
    """It takes effect, and no later request of the command has an answer."""
    MUTE = "mute"
    """No later write of the command has an answer; all arrive when it has ended."""
    KILLED = "killed before"
    KILLED_AFTER = "killed after"


TAKE_EFFECT = (Fault.NONE, Fault.LOST, Fault.REPEATED, Fault.CUT, Fault.KILLED_AFTER)
_WRITES = (Fault.NOT_SENT, Fault.LOST, Fault.LAST, Fault.KILLED_AFTER)
_MOVES = (Fault.KILLED, Fault.LATE, Fault.CONFLICT, Fault.REPEATED, Fault.CUT, Fault.MUTE)
FAULTS: dict[Kind, tuple[Fault, ...]] = {
    Kind.READ: (Fault.NOT_SENT,),
    Kind.WRITE: _WRITES,
    Kind.CREATION: (*_WRITES, Fault.REPEATED),
    Kind.CONDITIONAL: (*_WRITES, *_MOVES),
    Kind.DELETE: (Fault.NOT_SENT, Fault.LOST, Fault.LATE, Fault.KILLED_AFTER),
}
"""The faults of each kind of request. A deletion that arrives after the sweep's end would do harm
on S3, so the sweep bounds how long it may take, see `lakecli.gc.state`."""


class Write(NamedTuple):
    """A write that took effect.

    Attributes:
        key: of the object.
        before: the former contents; ``None``: it was absent.
        after: the new contents; ``None``: it was deleted.
        compared: whether the request required the former contents, or absence.
    """

    key: str
    before: bytes | None
    after: bytes | None
    compared: bool


class Wire:
    """What lies between the clones and the bucket.

    Args:
        bucket: the bucket.
        on_write: called with each write that took effect.

    Attributes:
        kinds: of the requests of the watched clone.
    """

    def __init__(self, bucket: MemoryBucket, on_write: Callable[[Write], None]) -> None:
        self.bucket = bucket
        self.on_write = on_write
        self.kinds: list[Kind] = []
        self._is_cut = self._is_dead = self._is_mute = False
        self._watched = ""
        self._at, self._fault = 0, Fault.NONE
        self._meanwhile: Callable[[], None] = lambda: None
        self._late: list[tuple[int, Callable[[], object]]] = []

    def watch(self, who: str, at: int, fault: Fault, meanwhile: Callable[[], None]) -> None:
        """Plan a fault.

        Args:
            who: the clone.
            at: the number of its request, from 1; 0: none.
            fault: what happens to it.
            meanwhile: what another clone does before the sender learns the answer.
        """
        self._watched, self._at, self._fault, self._meanwhile = who, at, fault, meanwhile
        self.kinds = []

    def end(self) -> None:
        """Stop watching; everything that is late arrives."""
        self._watched = ""
        while self._late:
            self._deliver(self._late.pop(0)[1])

    def request(self, who: str, kind: Kind, act: Callable[[], T]) -> T:
        """Carry out a request, or let it fail."""
        due = [late for count, late in self._late if count <= 1]
        self._late = [(count - 1, late) for count, late in self._late if count > 1]
        for late in due:
            self._deliver(late)
        if who != self._watched:
            return act()
        if self._is_dead:
            raise Killed  # what runs while the exception passes is not part of the command
        if self._is_cut:
            raise Unreachable("no connection", hint="wait")
        if self._is_mute and kind is not Kind.READ:
            self._late.append((NEVER, act))
            raise Unreachable("no answer", hint="wait")
        self.kinds.append(kind)
        if len(self.kinds) != self._at:
            return act()
        return self._fail(act)

    def _fail(self, act: Callable[[], T]) -> T:
        fault, watched = self._fault, self._watched
        self._watched = ""  # what the other clone does is not counted
        answers: list[T] = []
        try:
            if fault in TAKE_EFFECT:
                answers.append(act())  # where the store refuses it, there is no fault
            elif fault in (Fault.LATE, Fault.LAST, Fault.MUTE):
                self._late.append((LATE if fault is Fault.LATE else NEVER, act))
        finally:
            self._meanwhile()
            self._watched = watched
        if fault is Fault.NONE:
            return answers[0]
        if fault in (Fault.KILLED, Fault.KILLED_AFTER):
            self._is_dead = True
            raise Killed
        if fault in (Fault.CONFLICT, Fault.REPEATED):
            raise ConditionFailed(fault)
        self._is_cut = fault is Fault.CUT
        self._is_mute = fault is Fault.MUTE
        raise Unreachable("no answer", hint="wait")

    def _deliver(self, act: Callable[[], object]) -> None:
        with suppress(ConditionFailed):
            act()


class Line(MemoryStore):
    """The connection of one clone to the bucket; deletions have no conditions, as S3 has none.

    Args:
        wire: that it goes through.
        who: the clone.
    """

    delete_matching = None  # type: ignore[assignment]

    def __init__(self, wire: Wire, who: str) -> None:
        super().__init__(wire.bucket, PREFIX)
        self._wire = wire
        self._who = who

    def get(
        self, key: str, *, start: int = 0, length: int | None = None, matching: str = ""
    ) -> bytes:
        get = super().get
        return self._read(lambda: get(key, start=start, length=length, matching=matching))

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        return self._read(lambda: super(Line, self).get_versioned(key, length=length))

    def open(self, key: str, *, matching: str = "") -> BinaryIO:
        return self._read(lambda: super(Line, self).open(key))

    def head(self, key: str) -> ObjectInfo:
        return self._read(lambda: super(Line, self).head(key))

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        return self._read(lambda: iter([*super(Line, self).list(prefix, after=after)]))

    def put(
        self, key: str, body: bytes | BinaryIO, condition: Condition, attributes: Attributes = PLAIN
    ) -> Version:
        compared = condition == ABSENT or isinstance(condition, Match)
        kind = Kind.CONDITIONAL if compared else Kind.WRITE
        return self._put(kind, key, body, condition, attributes)

    def put_new(self, key: str, body: bytes) -> bool:
        try:
            self._put(Kind.CREATION, key, body, ABSENT)
        except ConditionFailed:
            return False
        return True

    def _put(
        self,
        kind: Kind,
        key: str,
        body: bytes | BinaryIO,
        condition: Condition,
        attributes: Attributes = PLAIN,
    ) -> Version:
        data = body if isinstance(body, bytes) else body.read()

        def act() -> Version:
            before = self._contents(key)
            version = super(Line, self).put(key, data, condition, attributes)
            self._wire.on_write(Write(key, before, data, compared=kind is not Kind.WRITE))
            return version

        return self._wire.request(self._who, kind, act)

    def copy(self, source: str, key: str) -> None:
        def act() -> None:
            before = self._contents(key)
            super(Line, self).copy(source, key)
            self._wire.on_write(Write(key, before, self._contents(key), compared=False))

        self._wire.request(self._who, Kind.WRITE, act)

    def delete(self, keys: Iterable[str]) -> None:
        listed = [*keys]

        def act() -> None:
            for key in listed:
                before = self._contents(key)
                super(Line, self).delete([key])
                self._wire.on_write(Write(key, before, None, compared=False))

        if listed:
            self._wire.request(self._who, Kind.DELETE, act)

    def _read(self, act: Callable[[], T]) -> T:
        return self._wire.request(self._who, Kind.READ, act)

    def _contents(self, key: str) -> bytes | None:
        stored = self._wire.bucket.objects.get(PREFIX + key)
        return None if stored is None else stored.body
