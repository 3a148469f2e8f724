"""Callbacks before everything durable that a command does, and short cuts for thousands of runs."""

from __future__ import annotations

import functools
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from lakecli.cli.line import action, build, declare
from lakecli.kv import lmdb_environment
from lakecli.kv.local_store import LocalStore
from lakecli.repository.transfer.parallel import Workers
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

_RACE: Final = "race"
"""The pool whose threads must meet: they try out whether a store has conditional writes."""

_DURABLE: Final = ("put", "delete", "delete_matching", "copy")


class Hook:
    """Calls back before each write transaction of a local store and each write to the bucket."""

    def __init__(self) -> None:
        self._call: Callable[[str], None] | None = None

    @contextmanager
    def calling(self, call: Callable[[str], None] | None) -> Iterator[None]:
        """Call `call` within the block, instead of the callback set before."""
        before, self._call = self._call, call
        try:
            yield
        finally:
            self._call = before

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Watch all local stores and all buckets in memory."""
        for place, names in ((LocalStore, ("write",)), (MemoryStore, _DURABLE)):
            for name in names:
                monkeypatch.setattr(place, name, self._watched(getattr(place, name), name))

    def build_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Build each command's parser once, and look up the file system of a home only once."""
        monkeypatch.setattr(build, "build", functools.cache(build.build))
        monkeypatch.setattr(action, "Declaration", functools.cache(declare.Declaration))
        monkeypatch.setattr(lmdb_environment, "_refuse_network", lambda _directory: None)

    def use_one_thread(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the calling thread do what pools of threads would, so that steps have an order."""
        submit, prepare = ThreadPoolExecutor.submit, Workers.__init__

        def submit_here(pool: Any, work: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            if pool._thread_name_prefix == _RACE:
                return submit(pool, work, *args, **kwargs)
            future: Future[Any] = Future()
            try:
                future.set_result(work(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 — as a pool does
                future.set_exception(error)
            return future

        monkeypatch.setattr(ThreadPoolExecutor, "submit", submit_here)
        monkeypatch.setattr(Workers, "__init__", lambda workers, _count: prepare(workers, 1))

    def _watched(self, method: Callable[..., Any], name: str) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            if self._call is not None:
                self._call(f"<{name}>")
            return method(*args, **kwargs)

        return watched
