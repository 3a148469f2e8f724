"""Several threads that work on one iterable, and when they stop."""

from __future__ import annotations

import threading
import time

import pytest

from lakecli.errors import NotFound, PermissionDenied, Unreachable
from lakecli.repository.transfer.parallel import MAX_FAILURES, FailureBudget, Workers


@pytest.mark.parametrize("count", [1, 2, 7])
def test_every_item_is_worked_on_once(count: int) -> None:
    seen: list[int] = []
    Workers(count).for_each(range(500), seen.append)
    assert sorted(seen) == list(range(500))
    if count == 1:
        assert seen == list(range(500))


def test_one_worker_runs_in_the_calling_thread() -> None:
    threads = set()
    Workers(1).for_each(range(3), lambda _: threads.add(threading.get_ident()))
    assert threads == {threading.get_ident()}


def test_items_are_worked_on_concurrently() -> None:
    barrier = threading.Barrier(4, timeout=20)
    waited: list[int] = []
    Workers(4).for_each(range(4), lambda _: waited.append(barrier.wait()))
    assert sorted(waited) == [0, 1, 2, 3]


def test_fewer_threads_do_the_work_where_no_more_can_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start, started, threads = threading.Thread.start, list[threading.Thread](), set[int]()

    def limited(thread: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    barrier = threading.Barrier(2, timeout=20)

    def work(_: int) -> None:
        threads.add(threading.get_ident())
        barrier.wait()

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", limited)
        Workers(4).for_each(range(6), work)
    assert len(threads) == 2
    assert not started[0].is_alive()


@pytest.mark.parametrize("count", [1, 4])
def test_the_first_error_is_raised(count: int) -> None:
    done: list[int] = []

    def work(item: int) -> None:
        if item == 3:
            raise NotFound("three")
        done.append(item)

    workers = Workers(count)
    with pytest.raises(NotFound, match="three"):
        workers.for_each(range(10_000), work)
    assert len(done) < 5_000
    workers.for_each([5], done.append)  # workers can be reused
    assert done[-1] == 5


@pytest.mark.parametrize("count", [1, 4])
def test_an_error_of_the_iterable_is_raised(count: int) -> None:
    def items() -> object:
        yield 1
        raise NotFound("no more")

    with pytest.raises(NotFound, match="no more"):
        Workers(count).for_each(items(), lambda _: None)  # type: ignore[arg-type]


def test_other_workers_stop_at_their_next_check() -> None:
    workers = Workers(2)
    started = threading.Event()
    checks = 0

    def work(item: int) -> None:
        nonlocal checks
        if item == 0:
            started.wait(20)
            raise NotFound("stop")
        started.set()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            workers.check()
            checks += 1
            time.sleep(0.001)
        pytest.fail("nobody stopped it")

    with pytest.raises(NotFound, match="stop"):
        workers.for_each(range(2), work)
    assert checks


def test_an_interrupt_reaches_the_caller() -> None:
    def work(item: int) -> None:
        if item == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Workers(3).for_each(range(100), work)


def test_the_failure_budget_is_used_up_if_nothing_ever_succeeded() -> None:
    assert FailureBudget().failed(Unreachable("down"))


def test_the_failure_budget_allows_single_failures() -> None:
    patience = FailureBudget()
    for _ in range(100):
        patience.succeeded()
        for _ in range(MAX_FAILURES - 1):
            assert not patience.failed(PermissionDenied("not this one"))
    assert patience.failed(PermissionDenied("none of these"))


def test_the_failure_budget_ignores_errors_of_one_object() -> None:
    patience = FailureBudget()
    for _ in range(1_000):
        assert not patience.failed(NotFound("gone"))
    # Nothing was counted, neither as a failure nor as a success.
    assert patience.failed(Unreachable("down"))
