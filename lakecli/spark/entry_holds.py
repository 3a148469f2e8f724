"""Which files of entries the DataFrames of running programs may still read.

A program writes their names into a file of its own, which it keeps locked until it ends: Spark does
not tell when a DataFrame, or one made of it, is no longer used. A file that nobody keeps locked is
of a program that has ended.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_LOCK: Final = "lock"
_SUFFIX: Final = ".held"

_own: Final[dict[Path, int]] = {}
"""The open file of this process in each directory."""


class EntryHolds(NamedTuple):
    """The names that programs hold.

    Attributes:
        directory: of nothing else.
    """

    directory: Path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let no other program hold names, or delete files, meanwhile.

        Raises:
            OSError: the directory cannot be written.
        """
        from lakecli.directories import make_private

        make_private(self.directory)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self.directory / _LOCK, flags, 0o600)
        try:
            with suppress(OSError):  # the file system has no such locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def add(self, names: Iterable[str]) -> None:
        """Hold names until this program ends; call it while the directory is locked.

        Raises:
            OSError: the directory cannot be written.
        """
        descriptor = _own.get(self.directory)
        if descriptor is not None and not os.fstat(descriptor).st_nlink:
            os.close(_own.pop(self.directory))  # somebody has deleted the file
            descriptor = None
        if descriptor is None:
            descriptor, _ = tempfile.mkstemp(_SUFFIX, dir=self.directory)
            _own[self.directory] = descriptor
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_SH)
        with open(descriptor, "r+b", closefd=False) as file:
            file.seek(0)
            held = set(file.read().decode("ascii", "replace").split())
            new = dict.fromkeys(name for name in names if name not in held)
            file.write("".join(f"{name}\n" for name in new).encode())

    def names(self) -> set[str]:
        """Return all names that are held; call it while the directory is locked.

        Raises:
            OSError: the directory cannot be read.
        """
        found: set[str] = set()
        for path in self.directory.glob(f"*{_SUFFIX}"):
            with path.open("rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    found.update(file.read().decode("ascii", "replace").split())
                except OSError:  # nobody knows who has ended
                    continue
                else:
                    path.unlink(missing_ok=True)
        return found
