"""Callbacks before everything durable that a command does, and short cuts for thousands of runs."""

from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from lakecli.cli import build
from lakecli.kv import environment
from lakecli.kv.env import LocalStore
from lakecli.objectstore.memory.store import MemoryStore

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
