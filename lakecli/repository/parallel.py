"""Work on many objects from several threads, and stop them all where one cannot go on."""

from __future__ import annotations

from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Final, TypeVar

from lakecli.errors import LakeError, PermissionDenied, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")

DEFAULT_WORKERS: Final = 25
"""Objects moved at a time to or from a bucket: requests wait for the network, not for us."""

LOCAL_WORKERS: Final = 2
"""Likewise on this machine, where one thread hashes while the other one waits for the disk."""

MAX_FAILURES: Final = 8
"""So many objects in a row that could not be reached mean that nothing can be."""


class _StoppedError(Exception):
    """Another thread has given up, so this one need not finish."""


class Workers:
    """Threads that take turns at the items of one iterable.

    Args:
        count: how many; with one, everything happens in the calling thread.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = Lock()
        self._stop = Event()
        self._errors: list[BaseException] = []

    def for_each(self, items: Iterable[T], work: Callable[[T], None]) -> None:
        """Call `work` with every item, several at a time.

        The items are drawn one after the other, though not always by the same thread. The first
        error of `work`, or of the iterable, is raised here: no further item is drawn then, and
        calls that are under way end at their next `check`.
        """
        self._stop.clear()
        self._errors.clear()
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
            self._stop.set()  # an interrupt may come while we wait
            for helper in helpers:
                helper.join()
        if self._errors:
            raise self._errors[0]

    def check(self) -> None:
        """End the current call of `work` if another one has failed; for long ones to call often."""
        if self._stop.is_set():
            raise _StoppedError

    def _run(self, items: Iterator[T], work: Callable[[T], None]) -> None:
        try:
            while True:
                with self._lock:
                    if self._stop.is_set():
                        return
                    try:
                        item = next(items)
                    except StopIteration:
                        return
                work(item)
        except _StoppedError:
            return
        except BaseException as error:  # noqa: BLE001 - it is raised where the work was asked for
            self._errors.append(error)
            self._stop.set()


class Patience:
    """Tells a store that misses one object from a store that is gone."""

    def __init__(self) -> None:
        self._in_a_row = 0
        self._has_succeeded = False

    def succeeded(self) -> None:
        """Count an object that was moved."""
        self._in_a_row = 0
        self._has_succeeded = True

    def failed(self, error: LakeError) -> None:
        """Count an object that was not.

        Raises:
            LakeError: `error` itself, if there is no point in going on.
        """
        if not isinstance(error, Unreachable | PermissionDenied):
            return
        self._in_a_row += 1
        if not self._has_succeeded or self._in_a_row >= MAX_FAILURES:
            raise error
