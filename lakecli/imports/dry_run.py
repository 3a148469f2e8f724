"""List what a dry run of an import would do with each path.

Parts finish in any order. If a source turns out not to be sorted, it is read again. So each part
writes its paths, in order, to a file on the driver's disk, and the files are read when all parts
are done. If the parts run on other machines, they return their paths in pieces instead, and the
driver writes the pieces to the file of the part. Large pieces are written to the namespace first;
see `lakecli.engine.scratch`.
"""

import json
import os
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from lakecli.committed.values import decode_entry
from lakecli.engine.scratch import Scratch, keep_value, take_value
from lakecli.imports.model import DryRunOutput, Failures
from lakecli.repository.transfer.plan import PathAction, PathStep

PIECE_STEPS: Final = 16_384
"""Number of paths that a part keeps in memory."""

_path_of: Final = attrgetter("path")


class Lister:
    """Lists the paths of one part in order, including those of objects that fail."""

    def __init__(self, failures: Failures, listing: DryRunOutput, number: int) -> None:
        self._scratch = listing.scratch
        self._file = part_file(listing.directory, number) if listing.directory else ""
        if self._file:
            Path(self._file).write_bytes(b"")  # discard the list of an earlier attempt
        self._failed: list[PathStep] = []
        self._held: list[PathStep] = []
        self._pieces: list[Any] = []
        failures.on_failure = self._fail

    def add(self, found: Iterable[tuple[bytes, PathAction, bytes]]) -> None:
        """List some paths, all of which sort after the paths listed before.

        Args:
            found: (path, action, encoded entry) of each path; the entry has the size.
        """
        for path, action, value in sorted(found):
            self.list_failures(before=path)
            self._write(PathStep(action, path, decode_entry(value).size))

    def list_failures(self, *, before: bytes | None) -> None:
        """List the failures at paths that sort before a path; ``None``: all failures."""
        failed = self._failed
        count = len(failed) if before is None else bisect_left(failed, before, key=_path_of)
        for step in failed[:count]:
            self._write(step)
        del failed[:count]

    def finish(self) -> tuple[Any, ...]:
        """List the remaining failures; without a file, return the listed paths in pieces."""
        self.list_failures(before=None)
        self._end_piece()
        return tuple(self._pieces)

    def _fail(self, path: bytes, why: str) -> None:
        insort(self._failed, PathStep(PathAction.FAILED, path, error=why), key=_path_of)

    def _write(self, step: PathStep) -> None:
        self._held.append(step)
        if len(self._held) >= PIECE_STEPS:
            self._end_piece()

    def _end_piece(self) -> None:
        if self._file:
            with Path(self._file).open("a", encoding="ascii") as file:
                file.writelines(map(_line, self._held))
        elif self._held:
            self._pieces.append(keep_value(self._scratch, self._held))
        self._held = []


def part_file(directory: str, number: int) -> str:
    """Return the name of the file of a part."""
    return f"{directory}/{number:012}"


def take_pieces(pieces: Iterable[Any], place: str, number: int, scratch: Scratch | None) -> None:
    """Write the pieces of a part to its file; raise `IntegrityError` if one is lost or damaged."""
    with Path(part_file(place, number)).open("w", encoding="ascii") as file:
        for piece in pieces:
            file.writelines(map(_line, take_value(scratch, piece)))


def iter_steps(directory: Path) -> Iterator[PathStep]:
    """Yield the listed paths of all parts, in the order of the parts."""
    for path in sorted(directory.iterdir()):
        with path.open(encoding="ascii") as file:
            for line in file:
                action, name, size, error = json.loads(line)
                yield PathStep(PathAction(action), os.fsencode(name), size, error)


def _line(step: PathStep) -> str:
    """Return a path with its action and size as a line of JSON."""
    return json.dumps([step.action, os.fsdecode(step.path), step.size, step.error]) + "\n"
