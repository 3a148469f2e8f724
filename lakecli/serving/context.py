"""The objects that all surfaces share, and the threads in which their handlers run."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar, TypeVarTuple

from starlette.requests import Request

from lakecli.opening import default_committer
from lakecli.serving.access import EndpointAccess
from lakecli.serving.served import Served
from lakecli.serving.writes import Client

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

THREADS: Final = 40
"""The maximum number of requests that use repositories at the same time; others wait."""

MOST_STREAMS: Final = 64
"""The maximum number of concurrent slow requests: large uploads, and parts being joined."""

THREAD_NAME: Final = "serve"
"""The prefix of the names of all threads in which handlers run."""

_UNNAMED: Final = "unknown"
_LONGEST_NAME: Final = 40


class Options(NamedTuple):
    """The options of an endpoint.

    Attributes:
        url: the endpoint's own URL, without a trailing slash.
        hosts: the host names, in lower case, that a ``Host`` header may have; if empty, any.
        redirect: whether clients that follow redirects are sent to the bucket for an object's data.
    """

    url: str = "http://127.0.0.1:8000"
    hosts: frozenset[str] = frozenset()
    redirect: bool = False


@dataclass(frozen=True)
class ServingContext:
    """The objects that the handlers of all surfaces use.

    Attributes:
        clock: returns the present time, an aware UTC datetime.
        committer: returns the committer of new commits.
        threads: the threads in which handlers run; a thread is started when it is first needed.
        slow_threads: the threads for requests that take long or wait for their client.
    """

    served: Served
    access: EndpointAccess
    clock: Callable[[], datetime]
    options: Options
    committer: Callable[[], str] = default_committer
    threads: ThreadPoolExecutor = field(
        default_factory=partial(ThreadPoolExecutor, THREADS, THREAD_NAME)
    )
    slow_threads: ThreadPoolExecutor = field(
        default_factory=partial(ThreadPoolExecutor, MOST_STREAMS, f"{THREAD_NAME}-slow")
    )
    _owned: dict[Callable[[], Any], Any] = field(default_factory=dict)

    def own(self, kind: Callable[[], T]) -> T:
        """Return the endpoint's only instance of a class; the first call creates it."""
        found: T | None = self._owned.get(kind)
        # Threads that create an instance at the same time all get the same one.
        return self._owned.setdefault(kind, kind()) if found is None else found

    async def in_thread(
        self, function: Callable[[*Ts], T], /, *args: *Ts, is_slow: bool = False
    ) -> T:
        """Call a function in a thread, and return its result.

        If the request is cancelled meanwhile, the function still runs to its end.
        """
        threads = self.slow_threads if is_slow else self.threads
        return await asyncio.get_running_loop().run_in_executor(threads, function, *args)


def client_of(request: Request, surface: str) -> Client:
    """Return the client of a request, named by the first word of its ``User-Agent``."""
    agent = request.headers.get("user-agent", "").split("/", 1)[0].split(" ", 1)[0]
    name = "".join(each for each in agent if each.isascii() and (each.isalnum() or each in "-._"))
    return Client(surface, name[:_LONGEST_NAME] or _UNNAMED)


async def ahead(read: Callable[[], Awaitable[bytes | None]]) -> AsyncGenerator[bytes]:
    """Yield pieces; while the caller uses a piece, the next piece is already being read.

    Args:
        read: reads the next piece; ``None`` after the last piece.
    """
    reading = asyncio.ensure_future(read())
    try:
        while (piece := await reading) is not None:
            reading = asyncio.ensure_future(read())
            yield piece
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


def pieces_of(body: AsyncIterator[bytes]) -> Iterator[bytes]:
    """Return an iterator that yields the pieces of a body to a thread as they arrive.

    Call this function in the event loop, and use the iterator in another thread.
    """
    loop = asyncio.get_running_loop()

    async def following() -> bytes | None:
        return await anext(body, None)

    def awaited() -> bytes | None:
        return asyncio.run_coroutine_threadsafe(following(), loop).result()

    return filter(None, iter(awaited, None))
