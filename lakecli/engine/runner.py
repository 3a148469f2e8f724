"""Runners apply a function to the parts of a plan: the interface, and the in-process runner."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Self, TypeVar

P = TypeVar("P")
R = TypeVar("R")


class Runner(ABC):
    """Applies functions to parts. Close it, or use it as a context manager.

    Attributes:
        name: ``local`` or ``spark``.
        parallelism: number of parts that run at the same time.
    """

    name: str
    parallelism: int

    @abstractmethod
    def run(self, task: Callable[[P], R], parts: Iterable[P]) -> Iterator[tuple[P, R]]:
        """Yield (part, result) as parts finish, in any order; memory is bounded.

        Args:
            task: a module-level function, or a `functools.partial` of one. It must be idempotent:
                a part may run again after a failure, or twice at the same time.
            parts: small and picklable; taken from the iterable as runners become free.

        Raises:
            LakeError: a part failed in all attempts; the other parts are stopped.
        """

    def close(self) -> None:  # noqa: B027 - most have none
        """Release the runner's resources; safe to repeat."""

    def __enter__(self) -> Self:
        """Return the runner itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the runner."""
        self.close()


class LocalRunner(Runner):
    """Runs parts in this process: one by one, or on threads, which help with slow stores."""

    name = "local"

    def __init__(self, *, parallelism: int = 1) -> None:
        self.parallelism = parallelism

    def run(self, task: Callable[[P], R], parts: Iterable[P]) -> Iterator[tuple[P, R]]:
        """Yield (part, result) as parts finish; see `Runner.run`."""
        if self.parallelism == 1:
            for part in parts:
                yield part, task(part)
            return
        waiting: dict[Future[R], P] = {}
        finished: deque[Future[R]] = deque()
        with ThreadPoolExecutor(self.parallelism) as pool:
            try:
                for part in parts:
                    waiting[pool.submit(task, part)] = part
                    if len(waiting) >= 2 * self.parallelism:
                        finished += wait(waiting, return_when=FIRST_COMPLETED).done
                    while finished:
                        future = finished.popleft()
                        yield waiting.pop(future), future.result()
                while waiting:
                    for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                        yield waiting.pop(future), future.result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
