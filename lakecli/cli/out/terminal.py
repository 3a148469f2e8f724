"""The pager, which shows long answers on a terminal."""

import os
import shlex
from collections.abc import Mapping
from contextlib import suppress
from subprocess import PIPE, Popen
from typing import Final, TextIO, cast

_DEFAULT: Final = "less"
_NONE: Final = ("", "cat")


def find_pager(environ: Mapping[str, str]) -> str:
    """Return the command line of the pager; ``""`` to show output without a pager."""
    chosen = environ.get("LAKECLI_PAGER", environ.get("PAGER", _DEFAULT)).strip()
    is_dumb = environ.get("TERM", "") in {"", "dumb"}
    return "" if chosen in _NONE or is_dumb else chosen


class Pager:
    """A running pager, which shows the text that is written to `stream`.

    By default, ``less`` has the same options as in Git; ``LESS`` in the environment overrides them.
    With Git's options ``less`` shows colors, exits immediately if the text fits on the screen, and
    leaves the text on the screen.

    Raises:
        OSError, ValueError: the program does not exist, or the command line is malformed.
    """

    def __init__(self, command: str) -> None:
        environ = {"LESS": "FRX", **os.environ}
        words, lenient = shlex.split(command), "surrogateescape"  # -z writes paths unchanged
        self._process = Popen(words, stdin=PIPE, env=environ, encoding="utf-8", errors=lenient)
        self.stream = cast("TextIO", self._process.stdin)

    def finish(self) -> None:
        """Close the stream, and wait until the user has left the pager."""
        with suppress(BrokenPipeError):
            self.stream.close()
        while self._process.poll() is None:
            with suppress(KeyboardInterrupt):  # the pager handles interrupts itself
                self._process.wait()
