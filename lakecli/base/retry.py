"""Retries: how often an operation is tried again, and how long to wait before each attempt.

Tenacity could do this, but loading it would make every command on a bucket slower: ``fs cat`` of an
object in S3 would take a sixth longer.

Every wait for a store follows one of the policies below. The wait before repetition `n` is a random
fraction of a delay that doubles each time ("full jitter"), so clients that a busy store refused at
the same time do not all retry at the same time. The SDKs repeat their requests by the policy
`REQUESTS`.
"""

import random
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeVar

from lakecli.errors import Unreachable, Unresponsive

T = TypeVar("T")

_MAX_DOUBLINGS: Final = 32


class RetryPolicy(NamedTuple):
    """How often to try an operation, and how long to wait between attempts.

    Attributes:
        attempts: largest number of attempts, the first one included.
        first_delay: longest wait before the second attempt, in seconds; it doubles with each
            further attempt.
        longest_delay: longest wait before any attempt, in seconds.
        time_limit: seconds after the start of the first attempt; no attempt begins later.
    """

    attempts: int
    first_delay: float = 0.2
    longest_delay: float = 20.0
    time_limit: float = float("inf")

    def delay(self, repetition: int, random: float) -> float:
        """Return the seconds to wait before a repetition.

        Args:
            repetition: number of the repetition, counted from 0.
            random: a random number from 0 to 1.
        """
        doubled = self.first_delay * float(2 ** min(repetition, _MAX_DOUBLINGS))
        return random * min(self.longest_delay, doubled)


REQUESTS: Final = RetryPolicy(attempts=5)
"""For one request to a store; ``AWS_MAX_ATTEMPTS`` and AWS's profiles may set another number."""

PARTS: Final = RetryPolicy(attempts=8)
"""For one part of a large object, whose requests the SDK does not repeat."""

REF_MOVES: Final = RetryPolicy(attempts=64)
"""For the conditional write that moves a ref while other clients write to the same ref."""

CLAIMS: Final = RetryPolicy(attempts=7)
"""For the conditional write that claims a namespace, while its result is unknown."""

SWEEPS: Final = RetryPolicy(attempts=1_000, first_delay=1.0, longest_delay=10.0, time_limit=600.0)
"""For waiting until a sweep of garbage collection ends."""

DRIVERS: Final = RetryPolicy(attempts=4, first_delay=2.0)
"""For a step of Spark's driver, in addition to the retries of the step's requests.

The number of attempts is Spark's own default for tasks.
"""

COPIES: Final = RetryPolicy(attempts=1_000, longest_delay=4.0, time_limit=600.0)
"""For waiting until the store has finished a copy."""


class Retries(NamedTuple):
    """A policy, with the clock, the sleep function and the random numbers that it uses.

    Attributes:
        sleep: a function that waits for a number of seconds.
        random: a function that returns a number from 0 to 1.
        monotonic: a function that returns the seconds of a monotonic clock.
    """

    policy: RetryPolicy
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random
    monotonic: Callable[[], float] = time.monotonic

    def pause(self, repetition: int) -> float:
        """Wait before a repetition, counted from 0; return the seconds waited."""
        seconds = self.policy.delay(repetition, self.random())
        self.sleep(seconds)
        return seconds

    def attempts(self) -> Iterator[int]:
        """Yield the number of each attempt, from 0; wait before each attempt except the first."""
        begun, slept = self.monotonic(), 0.0
        for number in range(self.policy.attempts):
            if number:
                slept += self.pause(number - 1)
            yield number
            # The clock may stand still while the machine is asleep, or in a test, so also count the
            # time slept.
            if max(self.monotonic() - begun, slept) >= self.policy.time_limit:
                return

    def call(self, attempt: Callable[[], T]) -> T:
        """Call `attempt` until it succeeds in reaching the store, and return its result.

        Raises:
            Unreachable: the last attempt failed too, or two attempts in a row were too slow.
        """
        error: Unreachable | None = None
        for _ in self.attempts():
            try:
                return attempt()
            except Unreachable as failed:
                if isinstance(failed, Unresponsive) and isinstance(error, Unresponsive):
                    raise
                error = failed
        assert error is not None  # a policy has at least one attempt
        raise error
