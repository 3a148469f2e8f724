"""What every surface is given, and how its handlers leave the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, ParamSpec, TypeVar

from lakecli.opening import default_committer
from lakecli.serving.access import EndpointAccess
from lakecli.serving.served import Served
from lakecli.serving.writes import Client

if TYPE_CHECKING:
    from starlette.requests import Request

P = ParamSpec("P")
T = TypeVar("T")

THREADS: Final = 40
"""The most requests that read or write a repository at the same time; others wait."""

THREAD_NAME: Final = "serve"
"""The beginning of the names of those threads."""

_UNNAMED: Final = "unknown"
_LONGEST_NAME: Final = 40


class Options(NamedTuple):
    """The options of an endpoint.

    Attributes:
        url: the endpoint's own URL, without a trailing slash.
        hosts: the host names, in lower case, that a request may have in its ``Host`` header; empty:
            any.
        region: the region that the endpoint says it has.
        redirect: whether clients that can follow it get the bytes from the bucket itself.
    """

    url: str = "http://127.0.0.1:8000"
    hosts: frozenset[str] = frozenset()
    region: str = "us-east-1"
    redirect: bool = False


@dataclass(frozen=True)
class ServingContext:
    """What the handlers of all surfaces are given.

    Attributes:
        clock: returns the present time, an aware UTC datetime.
        committer: returns the committer of new commits.
        threads: the threads in which handlers work; they are started when they are needed.
    """

    served: Served
    access: EndpointAccess
    clock: Callable[[], datetime]
    options: Options
    committer: Callable[[], str] = default_committer
    threads: ThreadPoolExecutor = field(
        default_factory=partial(ThreadPoolExecutor, THREADS, THREAD_NAME)
    )
    _owned: dict[Callable[[], Any], Any] = field(default_factory=dict)

    def own(self, kind: Callable[[], T]) -> T:
        """Return the one object of a class that this endpoint has, until it stops."""
        found: T | None = self._owned.get(kind)
        # Threads that make it at the same time get the same one.
        return self._owned.setdefault(kind, kind()) if found is None else found

    async def in_thread(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in a thread, and return its result.

        If the request is cancelled meanwhile, the thread goes on to the end of the function.
        """
        called = partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self.threads, called)


def client_of(request: Request, surface: str) -> Client:
    """Return the client of a request."""
    agent = request.headers.get("user-agent", "").split("/", 1)[0].split(" ", 1)[0]
    name = "".join(each for each in agent if each.isascii() and (each.isalnum() or each in "-._"))
    return Client(surface, name[:_LONGEST_NAME] or _UNNAMED)


def pieces_of(body: AsyncIterator[bytes]) -> Iterator[bytes]:
    """Return an iterator for a thread over what arrives in the event loop; call it there."""
    loop = asyncio.get_running_loop()

    async def following() -> bytes | None:
        return await anext(body, None)

    def awaited() -> bytes | None:
        return asyncio.run_coroutine_threadsafe(following(), loop).result()

    return filter(None, iter(awaited, None))
