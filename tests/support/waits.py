"""Waits for a bucket that end at once."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lakecli.base.retry import Retries
from lakecli.doctor import checks
from lakecli.repository import guard, runtime

if TYPE_CHECKING:
    import pytest


def skip_waits(patch: pytest.MonkeyPatch) -> None:
    """Make every wait of the main thread end at once.

    Other threads still sleep: Spark's gateway, which earlier tests leave behind, polls, and would
    use a whole processor.
    """
    sleep = time.sleep

    def skip(seconds: float) -> None:
        if threading.current_thread() is not threading.main_thread():
            sleep(seconds)

    for cls in (runtime.Runtime, Retries):
        with suppress(TypeError):  # there is no such field
            cls(_nothing=None)  # type: ignore[call-arg] # compiles its constructor
        function = cls.__new__
        defaults: tuple[Any, ...] = function.__defaults__ or ()
        assert any(each is sleep for each in defaults)
        replaced = tuple(skip if each is sleep else each for each in defaults)
        patch.setattr(function, "__defaults__", replaced)
    keywords = guard.GcGuard.__init__.__kwdefaults__
    assert keywords is not None
    patch.setitem(keywords, "sleep", skip)
    patch.setattr(time, "sleep", skip)
    for module in (checks, guard):
        patch.setattr(module, "sleep", skip, raising=False)
