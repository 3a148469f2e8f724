"""The directory of files with entries, in lakecli's cache: what they are named, and which stay.

A file is named by what it holds. It is not flushed to the disk, which would take as long as the
rest: the name also tells the start of the machine, so after a crash of the machine nobody reads
what may not be whole. On systems that do not tell their start, files are flushed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from blake3 import blake3

from lakecli.kv.sentinel import boot_id
from lakecli.spark.layout import KEPT, drop_unused

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path


class EntryCache(NamedTuple):
    """The files of entries of all repositories.

    Attributes:
        directory: of the files.
        limit: of all files together, in bytes; those of one call may take all of it.
        now: the time, in seconds since 1970.
    """

    directory: Path
    limit: int
    now: float

    def open(self) -> bool:
        """Make the directory; return whether files can be written there."""
        from lakecli.directories import make_private

        try:
            make_private(self.directory)
        except OSError:
            return False
        return os.access(self.directory, os.W_OK)

    def files(self, described: Iterable[str]) -> list[Path]:
        """Return the file for each description, which says all that is in it."""
        boot = boot_id()
        names = (blake3(b"%b %b" % (boot, text.encode())).hexdigest() for text in described)
        return [self.directory / f"{name}.parquet" for name in names]

    def use(self, file: Path) -> bool:
        """Return whether a file exists, and note that it is used."""
        with suppress(FileNotFoundError):
            os.utime(file, (self.now, self.now))
            return True
        return False

    def make_room(self, size: int, *, kept: Collection[Path], held: Collection[str] = ()) -> bool:
        """Delete files unused for a week, and those unused for longest, for new ones.

        Args:
            size: bytes of the new files.
            kept: files that are not deleted, whatever the limit.
            held: names of files that are not deleted, either.

        Returns:
            Whether there is room. There is not if held files are in the way; then only those unused
            for a week are deleted.
        """
        names = {file.name for file in kept}
        drop_unused(self.directory, self.now - KEPT.total_seconds(), kept={*held, *names})
        found = sorted(_sizes(self.directory))
        total = size + sum(bytes_ for _, bytes_, _ in found)
        stay = [(bytes_, name) for _, bytes_, name in found if name in names or name in held]
        least = size + sum(bytes_ for bytes_, _ in stay)
        if least > self.limit and any(name not in names for _, name in stay):
            return False
        for _, bytes_, name in found:
            if total <= self.limit:
                break
            if name not in names and name not in held:
                with suppress(OSError):
                    (self.directory / name).unlink()
                    total -= bytes_
        return True


def _sizes(directory: Path) -> Sequence[tuple[int, int, str]]:
    """Return when each file of a directory was used, its bytes, and its name."""
    found = []
    with os.scandir(directory) as files:
        for file in files:
            with suppress(FileNotFoundError):
                status = file.stat(follow_symlinks=False)
                found.append((status.st_mtime_ns, status.st_size, file.name))
    return found
