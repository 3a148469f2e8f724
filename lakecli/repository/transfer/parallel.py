"""Work on many objects in several threads, which all stop if one of them fails."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Condition, Event, Lock, Thread
from typing import Any, Final, TypeVar

from lakecli.base.retry import PARTS, Retries
from lakecli.errors import PermissionDenied, Unreachable, is_interrupt

T = TypeVar("T")

MAX_FAILURES: Final = 8
"""The number of consecutive unreachable objects after which the command ends."""

MEMORY: Final = 128 << 20
"""The largest number of bytes of objects that one command has in memory at a time."""

_END: Final = object()


class _StoppedError(Exception):
    """Another thread has failed, so this one ends."""


class _TaskSource:
    """An iterator from which workers take work: all items, or the tasks of one large item."""

    __slots__ = ("drawing", "errors", "is_open", "running", "tasks", "work")

    def __init__(self, tasks: Iterable[Any], work: Callable[[Any], object]) -> None:
        self.tasks = iter(tasks)
        self.work = work
        self.drawing = Lock()
        self.running = 0
        self.is_open = True
        self.errors: list[BaseException] = []


class Workers:
    """Threads that work on the items of one iterable.

    A worker with a large item can split it into tasks: a free worker does such a task before it
    takes the next item. So at most `count` items and tasks run at a time, and no thread is idle
    while another one has a large item.

    Args:
        count: the number of threads; if it is 1, everything runs in the calling thread.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._items: _TaskSource | None = None
        self._shares: list[_TaskSource] = []
        self._stop = Event()
        """Set when the threads have to end."""
        self._changed = Condition()
        """Guards the shared state; not held while an iterator is read, which may take long."""

    def for_each(self, items: Iterable[T], work: Callable[[T], object]) -> None:
        """Call `work` with every item, in several threads.

        The threads take the items one after the other. The first error of `work` or of the iterable
        is raised to the caller: no further item is taken, and running calls end at their next
        `check`.
        """
        self._stop.clear()
        self._items = source = _TaskSource(items, work)
        helpers: list[Thread] = []
        try:
            with suppress(RuntimeError):  # a limit of this machine: fewer threads do the work
                for number in range(1, self._count):
                    name = f"worker-{number}"
                    helper = Thread(target=self._run, args=(source,), name=name, daemon=True)
                    helper.start()
                    helpers.append(helper)
            self._run(source)
            for helper in helpers:
                helper.join()
        finally:
            self._halt()  # after an interrupt, threads may still run
            for helper in helpers:
                helper.join()
            self._items = None
            self._stop.clear()
        if source.errors:
            raise next(filter(is_interrupt, source.errors), source.errors[0])

    def share(self, tasks: Iterable[T], work: Callable[[T], object]) -> None:
        """Call `work` with every task of a large item, in this thread and all free threads.

        After the first error no further task is started. The error is raised to the caller once the
        running tasks have ended.
        """
        if self._items is None:
            self.for_each(tasks, work)
            return
        share = _TaskSource(tasks, work)
        with self._changed:
            self._shares.append(share)
            self._changed.notify_all()
        while self._step(share):
            pass
        self._wait_for(share)
        if share.errors:
            raise share.errors[0]
        self.check()

    def check(self) -> None:
        """Raise an error if another call of `work` has failed; call this often."""
        if self._items is not None and self._stop.is_set():
            raise _StoppedError

    def pause(self, seconds: float) -> None:
        """Wait; raise an error if another call of `work` fails meanwhile."""
        self._stop.wait(seconds)
        self.check()

    def _run(self, items: _TaskSource) -> None:
        try:
            while source := self._find_open(items):
                self._step(source)
        except BaseException as error:  # noqa: BLE001 - `for_each` raises it
            self._fail(items, error)

    def _find_open(self, items: _TaskSource) -> _TaskSource | None:
        """Return a source with work, shared tasks first; wait while more tasks may be shared."""
        with self._changed:
            while not self._stop.is_set():
                for source in (*self._shares, items):
                    if source.is_open:
                        return source
                if not items.running:
                    break
                self._changed.wait()
        return None

    def _step(self, source: _TaskSource) -> bool:
        """Do one task of a source; return ``False`` if the source had no more tasks."""
        try:
            with source.drawing:
                is_over = self._stop.is_set() or not source.is_open
                task = _END if is_over else next(source.tasks, _END)
                if task is _END:
                    source.is_open = False
                    return False
                with self._changed:
                    source.running += 1
        except BaseException as error:  # noqa: BLE001 - `for_each` or `share` raises it
            self._fail(source, error)
            return False
        try:
            source.work(task)
        except BaseException as error:  # noqa: BLE001 - `for_each` or `share` raises it
            self._fail(source, error)
        finally:
            with self._changed:
                source.running -= 1
                self._changed.notify_all()
        return True

    def _fail(self, source: _TaskSource, error: BaseException) -> None:
        source.is_open = False
        source.errors.append(error)
        if source is self._items:
            self._halt()  # other threads stop only now, so their errors are appended later

    def _wait_for(self, share: _TaskSource) -> None:
        """Wait for running tasks, because they use files and buffers that the caller will close."""
        interrupt: KeyboardInterrupt | None = None
        with self._changed:
            share.is_open = False
            while share.running:
                try:
                    self._changed.wait()
                except KeyboardInterrupt as error:
                    interrupt = error
                    self._stop.set()
            self._shares.remove(share)
        if interrupt is not None:
            raise interrupt

    def _halt(self) -> None:
        self._stop.set()
        with self._changed:
            self._changed.notify_all()


def part_retries(workers: Workers, random: Callable[[], float]) -> Retries:
    """Return the retry policy for parts of an object; it stops waiting when a worker fails."""
    return Retries(PARTS, sleep=workers.pause, random=random)


class Memory:
    """A limit on the number of bytes that all threads together have in memory."""

    def __init__(self, size: int = MEMORY) -> None:
        self._left = self._size = size
        self._changed = Condition()

    @contextmanager
    def held(self, size: int) -> Iterator[None]:
        """Reserve `size` bytes, but at most the limit, for the block; wait until they are free."""
        size = min(size, self._size)
        with self._changed:
            self._changed.wait_for(lambda: self._left >= size)
            self._left -= size
        try:
            yield
        finally:
            with self._changed:
                self._left += size
                self._changed.notify_all()


class FailureBudget:
    """Counts failures to decide whether the store is unreachable, or only single objects are."""

    def __init__(self) -> None:
        self._in_a_row = 0
        self._has_succeeded = False

    def succeeded(self) -> None:
        """Count a transferred object."""
        self._in_a_row = 0
        self._has_succeeded = True

    def failed(self, error: Exception) -> bool:
        """Count an object that was not transferred; return whether the store is unreachable."""
        if not isinstance(error, Unreachable | PermissionDenied):
            return False
        self._in_a_row += 1
        return not self._has_succeeded or self._in_a_row >= MAX_FAILURES
