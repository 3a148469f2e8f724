"""How often something is tried again, and how long it waits."""

from __future__ import annotations

import pytest

from lakecli.base import retry
from lakecli.base.retry import REF_MOVES, Retries, RetryPolicy
from lakecli.errors import PermissionDenied, Unreachable, Unresponsive

POLICIES = [value for value in vars(retry).values() if isinstance(value, RetryPolicy)]


def test_delays_double_up_to_the_longest() -> None:
    policy = RetryPolicy(9, first_delay=0.5, longest_delay=3.0)
    assert [policy.delay(number, 1.0) for number in (0, 1, 2, 3, 10_000)] == [0.5, 1, 2, 3, 3]
    assert policy.delay(1, 0.25) == 0.25


def test_attempts_end_at_their_number() -> None:
    slept: list[float] = []
    retries = Retries(RetryPolicy(3), sleep=slept.append, random=lambda: 1.0)
    assert list(retries.attempts()) == [0, 1, 2]
    assert slept == [0.2, 0.4]


@pytest.mark.parametrize("stands", [False, True])
def test_attempts_end_at_the_time_limit(*, stands: bool) -> None:
    """Also by a clock that stands still, which counts no sleep."""
    seconds = [100.0]

    def sleep(waited: float) -> None:
        if not stands:
            seconds[0] += waited

    policy = RetryPolicy(1_000, first_delay=1.0, longest_delay=4.0, time_limit=12.0)
    retries = Retries(policy, sleep=sleep, random=lambda: 1.0, monotonic=lambda: seconds[0])
    assert list(retries.attempts()) == [0, 1, 2, 3, 4, 5]  # after 0, 1, 3, 7, 11 and 15 seconds


def test_slow_attempts_count_towards_the_time_limit() -> None:
    seconds = iter([0.0, 5.0, 11.0])
    policy = RetryPolicy(1_000, time_limit=10.0)
    retries = Retries(policy, sleep=lambda _: None, monotonic=lambda: next(seconds))
    assert list(retries.attempts()) == [0, 1]


def test_only_an_unreachable_store_is_asked_again() -> None:
    retries = Retries(RetryPolicy(3), sleep=lambda _: None)
    answers: list[Exception] = [Unreachable("busy"), PermissionDenied("no"), Unreachable("busy")]

    def ask() -> None:
        raise answers.pop(0)

    with pytest.raises(PermissionDenied):
        retries.call(ask)
    assert len(answers) == 1


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_is_bounded(policy: RetryPolicy) -> None:
    waits = sum(policy.delay(number, 1.0) for number in range(policy.attempts - 1))
    assert min(waits, policy.time_limit) <= 20 * 60


def test_a_store_that_is_too_slow_is_asked_twice() -> None:
    calls = []

    def attempt() -> None:
        calls.append(1)
        raise Unresponsive("slow")

    with pytest.raises(Unresponsive):
        Retries(REF_MOVES, sleep=lambda _: None, random=lambda: 0.0).call(attempt)
    assert len(calls) == 2
