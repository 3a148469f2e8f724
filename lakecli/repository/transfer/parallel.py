"""Work on many objects in several threads, which all stop if one of them fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Condition, Event, Lock, Thread
from typing import Any, Final, TypeVar

from lakecli.base.progress import Progress
from lakecli.base.retry import PARTS, Retries
from lakecli.errors import LakeError, PermissionDenied, Unreachable, is_interrupt

T = TypeVar("T")

MAX_FAILURES: Final = 8
"""Objects in a row that cannot be reached before the command ends."""

MEMORY: Final = 128 << 20
"""Bytes of objects that one command holds in memory at a time."""

_END: Final = object()


class _StoppedError(Exception):
    """Another thread has failed, so this one ends."""


class _Share:
    """Tasks that one worker shares with the others."""

    __slots__ = ("error", "is_open", "running", "tasks", "work")

    def __init__(self, tasks: Iterator[Any], work: Callable[[Any], object]) -> None:
        self.tasks = tasks
        self.work = work
        self.running = 0
        self.is_open = True
        self.error: BaseException | None = None


class Workers:
    """Threads that work on the items of one iterable.

    A worker with a large item can share the tasks of that item: a free worker does such a task
    before it takes the next item. So at most `count` things run at a time, whatever the sizes.

    Args:
        count: number of threads; with one, everything runs in the calling thread.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._errors: list[BaseException] = []
        self._drawing = Lock()
        self._shares: list[_Share] = []
        self._busy = 0
        self._is_running = False
        self._stop = Event()
        """Set when the threads have to end."""
        self._changed = Condition()
        """Guards what the threads share."""

    def for_each(self, items: Iterable[T], work: Callable[[T], object]) -> None:
        """Call `work` with every item, in several threads.

        Items are drawn one after the other, by any of the threads. The first error of `work` or
        of the iterable is raised here: no further item is drawn, and running calls end at their
        next `check`.
        """
        self._errors.clear()
        self._stop.clear()
        self._is_running = True
        source = iter(items)
        helpers = [
            Thread(target=self._run, args=(source, work), name=f"worker-{number}", daemon=True)
            for number in range(1, self._count)
        ]
        for helper in helpers:
            helper.start()
        try:
            self._run(source, work)
            for helper in helpers:
                helper.join()
        finally:
            self._halt()  # an interrupt may end the waiting
            for helper in helpers:
                helper.join()
            self._is_running = False
            self._stop.clear()
        if self._errors:
            raise next(filter(is_interrupt, self._errors), self._errors[0])

    def share(self, tasks: Iterable[T], work: Callable[[T], object]) -> None:
        """Call `work` with every task of the current item, in this thread and all free ones.

        Tasks are drawn under a lock, so drawing one must be quick. The first error ends the
        drawing, and is raised here once the running tasks have ended.
        """
        if not self._is_running:
            self.for_each(tasks, work)
            return
        share = _Share(iter(tasks), work)
        with self._changed:
            self._shares.append(share)
            self._changed.notify_all()
        while self._step(share):
            pass
        self._wait_for(share)
        if share.error is not None:
            raise share.error

    def check(self) -> None:
        """End the current call of `work` if another one has failed; to be called often."""
        if self._is_running and self._stop.is_set():
            raise _StoppedError

    def pause(self, seconds: float) -> None:
        """Wait, but end the current call of `work` if another one fails."""
        self._stop.wait(seconds)
        self.check()

    def _run(self, items: Iterator[T], work: Callable[[T], object]) -> None:
        try:
            while not self._stop.is_set():
                if self._help():
                    continue
                item = self._draw(items)
                if item is _END:
                    if not self._wait_for_a_share():
                        return
                    continue
                try:
                    work(item)
                finally:
                    with self._changed:
                        self._busy -= 1
                        self._changed.notify_all()
        except _StoppedError:
            return
        except BaseException as error:  # noqa: BLE001 - `for_each` raises it
            self._errors.append(error)
            self._halt()

    def _draw(self, items: Iterator[Any]) -> Any:  # noqa: ANN401 - an item, or `_END`
        with self._drawing:
            if self._stop.is_set():
                return _END
            item = next(items, _END)
            if item is not _END:
                with self._changed:
                    self._busy += 1
        return item

    def _help(self) -> bool:
        """Do a task that another worker shares; return whether there was one."""
        with self._changed:
            share = next((share for share in self._shares if share.is_open), None)
        return share is not None and (self._step(share) or True)

    def _step(self, share: _Share) -> bool:
        """Do one task of a share; return whether there was one."""
        with self._changed:
            if not share.is_open or self._stop.is_set():
                share.is_open = False
                return False
            try:
                task = next(share.tasks, _END)
            except BaseException as error:
                self._end(share, error)
                raise
            if task is _END:
                share.is_open = False
                return False
            share.running += 1
        try:
            share.work(task)
        except BaseException as error:  # noqa: BLE001 - `share` raises it
            with self._changed:
                self._end(share, error)
        finally:
            with self._changed:
                share.running -= 1
                self._changed.notify_all()
        return True

    def _end(self, share: _Share, error: BaseException) -> None:
        share.is_open = False
        if share.error is None:
            share.error = error

    def _wait_for(self, share: _Share) -> None:
        """Wait for running tasks, because they use what the caller will close."""
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
        if share.error is None:
            self.check()

    def _wait_for_a_share(self) -> bool:
        """Wait for shared tasks; return ``False`` once no worker can share any."""
        with self._changed:
            while not self._stop.is_set():
                if any(share.is_open for share in self._shares):
                    return True
                if not self._busy:
                    return False
                self._changed.wait()
        return False

    def _halt(self) -> None:
        self._stop.set()
        with self._changed:
            self._changed.notify_all()


class CheckedProgress(Progress):
    """Passes progress on, and ends the call of `Workers.check` that reports it after a failure."""

    def __init__(self, progress: Progress, workers: Workers) -> None:
        self._progress = progress
        self._workers = workers

    def expect(self, *, items: int = 0, size: int = 0, parts: int = 0) -> None:
        """Pass the totals on."""
        self._progress.expect(items=items, size=size, parts=parts)

    def advance(self, *, items: int = 0, size: int = 0, parts: int = 0) -> None:
        """Pass finished objects and bytes on, unless another worker has failed."""
        self._workers.check()
        self._progress.advance(items=items, size=size, parts=parts)


def part_retries(workers: Workers, random: Callable[[], float]) -> Retries:
    """Return how often a part of an object is sent or fetched; the waits end when `workers` do."""
    return Retries(PARTS, sleep=workers.pause, random=random)


class Memory:
    """A limit on the bytes that are held at a time; safe to share between threads."""

    def __init__(self, size: int = MEMORY) -> None:
        self._left = self._size = size
        self._changed = Condition()

    @contextmanager
    def held(self, size: int) -> Iterator[None]:
        """Hold `size` bytes, at most the limit, once so many are free."""
        size = min(size, self._size)
        with self._changed:
            self._changed.wait_for(lambda: self._left >= size)
            self._left -= size
        try:
            yield
        finally:
            self._give_back(size)

    @contextmanager
    def held_if_free(self, size: int) -> Iterator[bool]:
        """Hold `size` bytes if so many are free now; give whether they are."""
        with self._changed:
            is_held = self._left >= size
            if is_held:
                self._left -= size
        try:
            yield is_held
        finally:
            if is_held:
                self._give_back(size)

    def _give_back(self, size: int) -> None:
        with self._changed:
            self._left += size
            self._changed.notify_all()


@contextmanager
def beside(action: Callable[[], object]) -> Iterator[None]:
    """Run an action in a thread of its own during a ``with`` block, and wait for its end.

    An error of the action is raised at the end of a block that has none itself.
    """
    errors: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if errors:
        raise errors[0]


class FailureBudget:
    """Distinguishes objects that cannot be reached from a store that cannot."""

    def __init__(self) -> None:
        self._in_a_row = 0
        self._has_succeeded = False

    def succeeded(self) -> None:
        """Count a transferred object."""
        self._in_a_row = 0
        self._has_succeeded = True

    def failed(self, error: LakeError) -> None:
        """Count an object that was not transferred.

        Raises:
            LakeError: `error` itself, if the store is unreachable.
        """
        if not isinstance(error, Unreachable | PermissionDenied):
            return
        self._in_a_row += 1
        if not self._has_succeeded or self._in_a_row >= MAX_FAILURES:
            raise error
