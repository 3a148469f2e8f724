"""A program on a pseudo-terminal, with keys to press and text to read."""

from __future__ import annotations

import os
import pty
import select
import signal
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType


class Terminal:
    """A program that runs on a terminal."""

    def __init__(self, argv: Sequence[str], environ: Mapping[str, str]) -> None:
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            os.execvpe(argv[0], list(argv), dict(environ))
        self.shown = ""

    def press(self, keys: str) -> None:
        """Send keys."""
        os.write(self._fd, keys.encode())

    def wait_for(self, text: str, *, seconds: float = 30) -> str:
        """Read until `text` appears after the text that was waited for last; return all of it."""
        end = time.monotonic() + seconds
        while text not in self.shown:
            ready, _, _ = select.select([self._fd], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise AssertionError(f"{text!r} did not appear in {self.shown!r}")
            try:
                self.shown += os.read(self._fd, 4096).decode("utf-8", "replace")
            except OSError as error:  # the other end is closed
                raise AssertionError(f"{text!r} did not appear in {self.shown!r}") from error
        before, _, self.shown = self.shown.partition(text)
        return before + text

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.close(self._fd)
        os.waitpid(self._pid, 0)
