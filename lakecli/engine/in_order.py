"""Results of parts in the order of the parts.

Parts finish in any order. Results that come early wait in memory or, beyond a limit, in a file that
is gone when the process ends.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import Final, Self

WAITING_SIZE: Final = 64 << 20
"""Bytes of results that wait in memory for earlier parts; more wait in a file."""


class InOrder:
    """Yields numbered results in the order of their numbers, whatever order they come in."""

    def __init__(self) -> None:
        self._next = 0
        self._waiting: dict[int, tuple[int, int]] = {}
        """Position and size in the file, by number."""
        self._file = tempfile.SpooledTemporaryFile(WAITING_SIZE)  # noqa: SIM115 - see __exit__

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def ready(self, number: int, data: bytes) -> Iterator[bytes]:
        """Add a result; yield the results that are next, as far as they are there."""
        if number != self._next:
            self._waiting[number] = self._file.seek(0, os.SEEK_END), len(data)
            self._file.write(data)
            return
        self._next += 1
        yield data
        while self._next in self._waiting:
            start, size = self._waiting.pop(self._next)
            self._file.seek(start)
            self._next += 1
            yield self._file.read(size)
