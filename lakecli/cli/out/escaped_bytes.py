"""Documents for programs that are written to a terminal: their control characters are escaped."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import BinaryIO

from lakecli.cli.out.text import harmless


class EscapedBytes:
    """What a document needs of a file: UTF-8 that is written to it reaches a terminal escaped.

    Args:
        target: the terminal.
    """

    def __init__(self, target: BinaryIO) -> None:
        self._target = target
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._held = ""

    def write(self, data: bytes) -> int:
        """Write bytes; a line may end as on Windows, as those of CSV do."""
        text = self._held + self._decoder.decode(data)
        self._held = "\r" if text.endswith("\r") else ""
        shown = harmless(text.removesuffix(self._held).replace("\r\n", "\n"))
        self._target.write(shown.encode())
        return len(data)

    def writelines(self, parts: Iterable[bytes]) -> None:
        """Write bytes piece by piece."""
        for part in parts:
            self.write(part)
