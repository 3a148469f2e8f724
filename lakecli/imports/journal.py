"""The results of finished parts on disk, so that a killed import continues.

Each import has a directory, named by a digest of everything that it depends on except its parts.
Each part has a file, named by a digest of its interval and its source. The file is written
atomically, once the part's ranges are durable. It has a line of JSON, then all records,
concatenated.
"""

from __future__ import annotations

import json
import os
import shutil
from array import array
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Final

from blake3 import blake3

from lakecli.base.directories import make_private
from lakecli.errors import LostRace
from lakecli.imports.task import ImportedPart, ImportFailure, ImportPart, ImportTally, digest_of
from lakecli.imports.tree_parts import Cut

KEPT_FOR: Final = 12 * 3_600
"""Seconds after which a finished part is imported again.

Nothing refers to its ranges until the import is committed, so garbage collection may delete them
after its grace period, which is at least a day.
"""

_FORMAT: Final = 3
_CHECK_SIZE: Final = 32


class JournalGone(LostRace):
    """Another process ran the same import at the same time, and has finished."""

    def __init__(self) -> None:
        super().__init__(
            "another process has just finished the same import; this one committed nothing",
            hint="run the command again to see what is left to import",
        )


class Journal:
    """The finished parts of one import.

    Args:
        directory: directory of all imports.
        identity: everything that the import depends on, as JSON values.
    """

    def __init__(self, directory: Path, identity: Sequence[object]) -> None:
        self._all = directory
        self.directory = directory / digest_of([_FORMAT, *identity])
        self._oldest = 0.0

    def open(self, now: datetime) -> None:
        """Create the directory, and delete those of abandoned imports."""
        self._oldest = now.timestamp() - KEPT_FOR
        make_private(self._all)
        for other in self._all.iterdir():
            if other != self.directory and not self._is_fresh(other):
                shutil.rmtree(other, ignore_errors=True)
        make_private(self.directory)

    def _is_fresh(self, path: Path) -> bool:
        try:
            return path.stat().st_mtime >= self._oldest
        except OSError:
            return False

    def put(self, part: ImportPart, result: ImportedPart) -> Path:
        """Record the result of a part, and return its file.

        Raises:
            JournalGone: another process finished the same import meanwhile.
        """
        path = self.path(part)
        data = pack_result(result)
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            fresh.write_bytes(blake3(data).digest() + data)
            fresh.replace(path)
        except FileNotFoundError:
            raise JournalGone from None
        return path

    def path(self, part: ImportPart) -> Path:
        """Return the path of a part's file, which may not exist."""
        ends = None if part.high is None else part.high.hex()
        return self.directory / digest_of([part.low.hex(), ends, part.source.identity()])

    def read(self, path: Path) -> ImportedPart | None:
        """Return the result in a file; ``None`` if it is missing, old or damaged."""
        if not self._is_fresh(path):
            return None
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        check, body = data[:_CHECK_SIZE], data[_CHECK_SIZE:]
        if blake3(body).digest() != check:
            return None
        return unpack_result(body)

    def get(self, path: Path) -> ImportedPart:
        """Return the result in the file of a finished part.

        Raises:
            JournalGone: another process finished the same import meanwhile.
        """
        found = self.read(path)
        if found is None:
            raise JournalGone
        return found

    def close(self) -> None:
        """Delete the journal of the import."""
        shutil.rmtree(self.directory, ignore_errors=True)


def pack_result(result: ImportedPart) -> bytes:
    """Return a result as bytes, without the steps of a dry run, whose results nobody keeps."""
    pieces: list[bytes] = []
    sizes = []
    for column in result.cut:
        lengths = array("Q", map(len, column)).tobytes()
        pieces += (lengths, *column)
        sizes.append([len(column), len(lengths) + sum(map(len, column))])
    header = {
        "columns": sizes,
        "tally": asdict(result.tally),
        "failed": result.failed,
        "failures": [[os.fsdecode(failure.path), failure.why] for failure in result.failures],
        "duplicates": [os.fsdecode(path) for path in result.duplicates],
        "ranges_written": result.ranges_written,
        "listed": result.listed,
        "places": result.places,
        "verified": result.verified,
    }
    return b"".join([json.dumps(header).encode(), b"\n", *pieces])


def unpack_result(data: bytes) -> ImportedPart:
    """Return the result that `pack_result` encoded."""
    line, _, body = data.partition(b"\n")
    header = json.loads(line)
    columns = []
    at = 0
    for count, size in header["columns"]:
        lengths = array("Q", body[at : at + 8 * count])
        start = at + 8 * count
        column = []
        for length in lengths:
            column.append(body[start : start + length])
            start += length
        columns.append(column)
        at += size
    return ImportedPart(
        Cut(*columns),
        ImportTally(**header["tally"]),
        failed=header["failed"],
        failures=tuple(ImportFailure(os.fsencode(path), why) for path, why in header["failures"]),
        duplicates=tuple(map(os.fsencode, header["duplicates"])),
        ranges_written=header["ranges_written"],
        listed=header["listed"],
        places=tuple(header["places"]),
        verified=header["verified"],
    )
