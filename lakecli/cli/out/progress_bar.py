"""The progress bar on a terminal, drawn by Rich; imported only if stderr is a terminal."""

from typing import Final, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.text import Text

from lakecli.cli.out.progress import CountingProgress
from lakecli.cli.out.text import human_size

REDRAW: Final = 0.05
"""The minimum time, in seconds, between two updates of the bar."""


class BarProgress(CountingProgress):
    """A progress bar, which counts bytes if sizes are known, else objects; removed at the end."""

    def __init__(self, verb: str, stderr: TextIO, *, items: int | None) -> None:
        super().__init__(items=items)
        self._next = self._clock()
        # Rich would redirect stdout into its console, which is stderr here; lines of text go
        # through `write` instead.
        self._rich = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[counts]}"),
            TimeRemainingColumn(),
            console=Console(file=stderr),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._rich.add_task(verb, total=items, counts="")

    def __enter__(self) -> Self:
        """Show the bar."""
        self._rich.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Show the last counts, and remove the bar."""
        with self._lock:
            self._next = now = self._clock()
            self._show(now)
        self._rich.stop()

    def expect(self, *, items: int = 0, size: int = 0, parts: int = 0) -> None:
        """Add to the totals, and redraw."""
        super().expect(items=items, size=size, parts=parts)
        with self._lock:
            self._show(self._clock())

    def write(self, text: str) -> None:
        """Write lines of text above the bar."""
        self._rich.console.print(Text.from_ansi(text.removesuffix("\n")), soft_wrap=True)

    def _show(self, now: float) -> None:
        if now < self._next:
            return
        self._next = now + REDRAW
        counts = self._done("/")
        if self._bytes.total or self._bytes.done:
            counts += f", {human_size(self._bytes.done)}"
        counts += self._speed()
        shown = self._measure()
        self._rich.update(
            self._task, total=shown.total or None, completed=shown.done, counts=counts
        )
