"""A bucket with faults, and writers that run in an order that the test sets."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from threading import Semaphore, Thread
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from lakecli.errors import PermissionDenied, Unreachable, Unresponsive
from lakecli.stores.contract import ABSENT, PLAIN, Attributes, BucketNotFound, ConditionFailed
from tests.support.memory_store import MemoryBucket, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lakecli.errors import LakeError
    from lakecli.stores.contract import Condition, ObjectInfo, Version

ANSWERS: dict[str, Callable[[], LakeError]] = {
    "409": lambda: ConditionFailed("409 ConditionalRequestConflict"),
    "412": lambda: ConditionFailed("412 PreconditionFailed"),
    "404": lambda: BucketNotFound("404 for a PUT"),
    "500": lambda: Unreachable("500 InternalError"),
    "timeout": lambda: Unreachable("no answer"),
    "slow": lambda: Unresponsive("did not answer in time"),
    "403": lambda: PermissionDenied("403 AccessDenied"),
}
AMBIGUOUS = ("409", "412", "404", "500", "timeout")


class Fault(NamedTuple):
    """A fault of one request.

    Attributes:
        answer: of `ANSWERS`.
        effect: of a PUT: ``no``, ``done``, or ``later``: the request is under way, and arrives
            after some further requests of any writer.
    """

    answer: str
    effect: str = "no"

    def error(self) -> LakeError:
        """Return the error that an adapter raises for the answer."""
        return ANSWERS[self.answer]()


@dataclass
class Wire:
    """The requests that are under way to a bucket, from all stores of a test."""

    late: list[tuple[int, Callable[[], object]]] = field(default_factory=list)

    def send(self, delay: int, request: Callable[[], object]) -> None:
        """Let a request arrive after `delay` others."""
        self.late.append((delay, request))

    def tick(self) -> None:
        """Count one request, and deliver those that are due."""
        due = [request for delay, request in self.late if delay <= 0]
        self.late = [(delay - 1, request) for delay, request in self.late if delay > 0]
        for request in due:
            with suppress(ConditionFailed):
                request()

    def deliver(self) -> None:
        """Deliver everything."""
        while self.late:
            self.tick()


class TroubledStore(MemoryStore):
    """A store that asks the test for the fault of each request.

    Args:
        bucket: shared by all stores of a test.
        wire: shared by all stores of a test.
        plan: gets the kind of a request: ``get``, ``put``, ``list``.
    """

    def __init__(
        self, bucket: MemoryBucket, wire: Wire, plan: Callable[[str], Fault | None]
    ) -> None:
        super().__init__(bucket, "ns/")
        self._wire = wire
        self._plan = plan

    def get(
        self, key: str, *, start: int = 0, length: int | None = None, matching: str = ""
    ) -> bytes:
        self._ask("get")
        return super().get(key, start=start, length=length, matching=matching)

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        self._ask("get")
        return super().get_versioned(key, length=length)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        self._ask("list")
        return super().list(prefix, after=after)

    def put(
        self, key: str, body: bytes | BinaryIO, condition: Condition, attributes: Attributes = PLAIN
    ) -> Version:
        def send() -> Version:
            return super(TroubledStore, self).put(key, body, condition, attributes)

        self._wire.tick()
        fault = self._plan("put")
        if fault is None:
            return send()
        if fault.effect == "done":
            with suppress(ConditionFailed):
                send()
        elif fault.effect == "later":
            assert fault.answer in {"500", "timeout"}, "a store that answers has decided"
            self._wire.send(2, send)
        raise fault.error()

    def put_new(self, key: str, body: bytes) -> bool:
        try:
            self.put(key, body, ABSENT)
        except ConditionFailed:
            return False
        return True

    def _ask(self, kind: str) -> None:
        self._wire.tick()
        fault = self._plan(kind)
        if fault is not None:
            raise fault.error()


class Turns:
    """Threads of which exactly one runs at a time, in an order that the test sets."""

    def __init__(self, order: Sequence[int]) -> None:
        self._order = iter(order)
        self._waiting: dict[int, Semaphore] = {}
        self._mine = Semaphore(0)
        self.errors: list[BaseException] = []

    def run(self, writers: Sequence[Callable[[Callable[[], None]], None]]) -> None:
        """Run writers to their ends; each calls its argument where another one may continue."""
        threads = []
        for number, writer in enumerate(writers):
            turn = self._waiting[number] = Semaphore(0)
            threads.append(Thread(target=self._run, args=(number, turn, writer), daemon=True))
        for thread in threads:
            thread.start()
        while self._waiting:
            ready = sorted(self._waiting)
            self._waiting[ready[next(self._order, 0) % len(ready)]].release()
            self._mine.acquire()
        for thread in threads:
            thread.join()
        if self.errors:
            raise self.errors[0]

    def _run(
        self, number: int, turn: Semaphore, writer: Callable[[Callable[[], None]], None]
    ) -> None:
        def switch() -> None:
            self._mine.release()
            turn.acquire()

        turn.acquire()
        try:
            writer(switch)
        except BaseException as error:  # noqa: BLE001 - raised where the test sees it
            self.errors.append(error)
        finally:
            del self._waiting[number]
            self._mine.release()
