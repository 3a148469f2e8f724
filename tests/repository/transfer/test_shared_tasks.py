"""Workers that share the tasks of one item, bounded memory, and retries."""

from __future__ import annotations

import threading
import time

import pytest

from lakecli.base.retry import PARTS, Retries
from lakecli.errors import PermissionDenied, Unreachable
from lakecli.repository.transfer.parallel import Memory, Workers


@pytest.mark.parametrize("count", [1, 2, 5])
def test_free_workers_do_shared_tasks(count: int) -> None:
    workers = Workers(count)
    done: list[tuple[int, int]] = []
    at_once: list[int] = []
    threads: set[int] = set()

    def task(pair: tuple[int, int]) -> None:
        at_once.append(1)
        threads.add(threading.get_ident())
        assert len(at_once) <= count
        time.sleep(0.001)
        done.append(pair)
        at_once.pop()

    def item(number: int) -> None:
        if number % 3 == 0:
            workers.share(((number, part) for part in range(20)), task)
            assert len([pair for pair in done if pair[0] == number]) == 20

    workers.for_each(range(9), item)
    assert sorted(done) == [(number, part) for number in (0, 3, 6) for part in range(20)]
    assert len(threads) <= count


def test_all_workers_share_the_last_item() -> None:
    workers = Workers(4)
    barrier = threading.Barrier(4, timeout=20)
    workers.for_each([None], lambda _: workers.share(range(4), lambda _: barrier.wait()))
    assert not barrier.broken


def test_tasks_can_be_shared_without_items() -> None:
    workers = Workers(3)
    done: list[int] = []
    workers.share(range(10), done.append)
    assert sorted(done) == list(range(10))
    workers.check()


def test_an_error_of_a_task_is_raised_in_its_item() -> None:
    workers = Workers(3)
    failed: list[int] = []
    done: list[int] = []

    def task(part: int) -> None:
        if part == 5:
            raise Unreachable("gone")

    def item(number: int) -> None:
        try:
            workers.share(range(10 if number == 2 else 5), task)
        except Unreachable:
            failed.append(number)
        else:
            done.append(number)

    workers.for_each(range(6), item)
    assert failed == [2]
    assert sorted(done) == [0, 1, 3, 4, 5]


def test_share_waits_for_running_tasks() -> None:
    workers = Workers(4)
    running: set[int] = set()

    def task(part: int) -> None:
        running.add(part)
        if part == 0:
            raise Unreachable("gone")
        time.sleep(0.05)
        running.discard(part)

    def item(_: int) -> None:
        with pytest.raises(Unreachable):
            workers.share(range(4), task)
        assert running == {0}

    workers.for_each([1], item)


def test_an_error_of_an_item_ends_the_shared_tasks_of_others() -> None:
    workers = Workers(2)
    parts: list[int] = []

    def task(part: int) -> None:
        parts.append(part)
        time.sleep(0.002)
        workers.check()

    def item(number: int) -> None:
        if number == 0:
            workers.share(range(100_000), task)
        else:
            raise PermissionDenied("no")

    def items() -> list[int]:
        return [1, 0]

    with pytest.raises(PermissionDenied):
        workers.for_each(items(), item)
    assert len(parts) < 100_000


def test_a_worker_waits_for_memory() -> None:
    memory = Memory(100)
    held: list[int] = []
    most: list[int] = []

    def hold(size: int) -> None:
        with memory.held(size):
            held.append(min(size, 100))
            most.append(sum(held))
            time.sleep(0.001)
            held.remove(min(size, 100))

    Workers(6).for_each([60, 50, 40, 1000, 10, 100] * 5, hold)
    assert max(most) <= 100


def test_retries_wait_longer_and_longer() -> None:
    waited: list[float] = []
    calls: list[int] = []

    def call() -> str:
        calls.append(1)
        if len(calls) < 5:
            raise Unreachable("busy")
        return "done"

    retries = Retries(PARTS, sleep=waited.append, random=lambda: 0.5)
    assert retries.call(call) == "done"
    assert waited == [PARTS.first_delay * 0.5 * factor for factor in (1, 2, 4, 8)]


def test_retries_end() -> None:
    calls: list[int] = []

    def busy() -> None:
        calls.append(1)
        raise Unreachable("busy")

    def refused() -> None:
        calls.append(1)
        raise PermissionDenied("no")

    retries = Retries(PARTS, sleep=lambda _: None, random=lambda: 1.0)
    with pytest.raises(Unreachable):
        retries.call(busy)
    assert len(calls) == PARTS.attempts
    with pytest.raises(PermissionDenied):
        retries.call(refused)
    assert len(calls) == PARTS.attempts + 1
