"""Callbacks before everything durable that a command does, and short cuts for thousands of runs."""

from __future__ import annotations

import functools
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from lakecli.cli import build
from lakecli.kv import environment
from lakecli.kv.env import LocalStore
from lakecli.objectstore.memory.store import MemoryStore
from lakecli.repository.core.gc_guard import GcGuard
from lakecli.repository.sharing import publish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

_DURABLE: Final = ("put", "delete", "delete_matching", "copy")
_READS: Final = ("get", "get_versioned", "open", "head", "list")


class Hook:
    """Calls back before each write transaction of a local store and each write to the bucket.

    Attributes:
        reads: how often a bucket was read.
    """

    def __init__(self) -> None:
        self.reads = 0
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
        for name in _READS:
            monkeypatch.setattr(MemoryStore, name, self._counted(getattr(MemoryStore, name)))

    def build_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Build each command's parser once, and look up the file system of a home only once."""
        monkeypatch.setattr(build, "build", functools.cache(build.build))
        monkeypatch.setattr(environment, "_refuse_network", lambda _directory: None)

    def skip_waiting(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Skip waits in the main thread: the paused command cannot go on while another waits.

        Other threads still sleep: Spark's gateway polls, and would use a whole processor.
        """
        sleep = time.sleep

        def no_sleep(seconds: float) -> None:
            if threading.current_thread() is not threading.main_thread():
                sleep(seconds)

        monkeypatch.setattr(time, "sleep", no_sleep)
        monkeypatch.setattr(publish, "sleep", no_sleep)
        monkeypatch.setitem(cast("Any", GcGuard.__init__).__kwdefaults__, "sleep", no_sleep)

    def _counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.reads += 1
            return method(*args, **kwargs)

        return counted

    def _watched(self, method: Callable[..., Any], name: str) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            if self._call is not None:
                self._call(f"<{name}>")
            return method(*args, **kwargs)

        return watched
