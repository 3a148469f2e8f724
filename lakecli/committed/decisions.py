"""What decides the conflicts of a merge: a plan, patterns of paths, or a strategy for all of them.

`Decisions` chooses the source or the destination for one conflict after the other, in path order:
first by what a plan has for its path, then by the last pattern that matches, then by the strategy.
A conflict for which none of them has an answer is left open, and then nothing is merged.

A conflict in the log of a table (Delta Lake's ``_delta_log/``, Iceberg's ``metadata/``) is left
open, too. Each side has appended rows and recorded them there under the same name: with the file of
one side, the rows of the other one are in no version of the table any more. Only
`Decisions.table_logs` allows that.

A plan is a file of JSON lines, one for each conflict, which `merge --conflicts` writes and a person
or a program edits: ``take`` says which side wins. The identities of the objects on both sides are
in it, so that a plan for other objects is refused. It is read once from its beginning to its end
for each pass over the conflicts, a line at a time, so it may have any number of them.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, Final

from lakecli.base.git_patterns import Pattern, parse
from lakecli.base.model import MAX_PATH_SIZE, MergeStrategy
from lakecli.base.validation import Invalid, Record, choice, nullable, or_empty, text
from lakecli.committed.values import identity_of
from lakecli.errors import ConflictError, NotFound, PermissionDenied, UsageError


class MergeSide(StrEnum):
    """A side of a merge, which a conflict takes."""

    SOURCE = "source"
    DESTINATION = "dest"


_Value = bytes | None
_Take = tuple[MergeSide, Sequence[Pattern]]

Decide = Callable[[bytes, _Value, _Value], MergeSide | None]
"""Chooses a side for a path, by the values of source and destination; ``None`` leaves it open."""

_WINNERS: Final = {
    MergeStrategy.SOURCE_WINS: MergeSide.SOURCE,
    MergeStrategy.DEST_WINS: MergeSide.DESTINATION,
}

_TABLE_LOG: Final = re.compile(
    rb"(?:^|/)(?:_delta_log/"
    rb"|metadata/(?:[^/]*\.metadata\.json(?:\.gz)?|[^/]*\.avro|version-hint\.text)\Z)"
)


def is_table_log(path: bytes) -> bool:
    """Return whether a path is that of a file in the log of a table, of Delta Lake or Iceberg."""
    return _TABLE_LOG.search(path) is not None


@dataclass(frozen=True, slots=True)
class Decisions:
    """What decides conflicts; it decides nothing else.

    Attributes:
        strategy: the side that wins where neither a plan nor a pattern has an answer.
        take: ``source:PATTERN`` or ``dest:PATTERN``, with patterns as in a ``.gitignore``; the last
            one that matches a path, or a directory above it, counts.
        plan: a file that `merge --conflicts` wrote and that was edited since.
        table_logs: decide conflicts in logs of tables, too.

    Raises:
        UsageError: an element of `take` is malformed.
    """

    strategy: MergeStrategy = MergeStrategy.FAIL
    take: Sequence[str] = ()
    plan: Path | None = None
    table_logs: bool = False
    _takes: Sequence[_Take] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Read the patterns."""
        object.__setattr__(self, "_takes", [_parse_take(each) for each in self.take][::-1])

    @contextmanager
    def begin(self, *, may_be_outdated: bool = False) -> Iterator[Decide]:
        """Open one pass over all conflicts; they must be asked about in path order.

        Args:
            may_be_outdated: leave conflicts open where the plan does not hold any more, and raise
                no `OutdatedPlan`.

        Raises:
            NotFound: there is no such plan.
            UsageError: the plan is malformed.
            OutdatedPlan: the plan was made for other conflicts than those of this pass.
        """
        if self.plan is None:
            yield lambda path, _source, _destination: self._allowed(path, self._choose(path))
            return
        with _open(self.plan) as file:
            plan = _Plan(_read(file, self.plan))

            def decide(path: bytes, source: _Value, destination: _Value) -> MergeSide | None:
                planned = plan.choose(path, source, destination)
                return self._allowed(path, planned or self._choose(path))

            yield decide
            plan.finish(may_be_outdated=may_be_outdated)

    def _choose(self, path: bytes) -> MergeSide | None:
        components = path.split(b"/")
        levels = (1 << len(components)) - 1
        for side, patterns in self._takes:
            for pattern in patterns:
                wanted = levels >> 1 if pattern.is_directory else levels
                if wanted and pattern.levels(components, wanted):
                    return side
        return _WINNERS.get(self.strategy)

    def _allowed(self, path: bytes, side: MergeSide | None) -> MergeSide | None:
        return side if self.table_logs or not is_table_log(path) else None


UNDECIDED: Final = Decisions()


def _parse_take(take: str) -> _Take:
    side, _, pattern = take.partition(":")
    patterns = [] if "\n" in pattern else parse(0, os.fsencode(pattern))
    if side not in list(MergeSide) or not patterns or not patterns[0].takes:
        raise UsageError(
            f"neither source:PATTERN nor dest:PATTERN: {take!r}",
            hint="patterns are as in .gitignore, without !: the last one that matches counts; "
            "`take=source:raw/` `take='dest:*.csv'`",
        )
    return MergeSide(side), patterns


class OutdatedPlan(ConflictError):
    """A plan names other objects than those in conflict now; ``paths`` lists the first ones."""


MAX_LISTED: Final = 1_000

MAX_LINE: Final = 1 << 20
"""Bytes in a line of a plan, at most."""

_OBJECT: Final = Record({"identity": text(256)})
_LINE: Final = Record(
    {
        "take": or_empty(choice(*MergeSide)),
        "path": text(MAX_PATH_SIZE, min_size=1, has_nul=True),
        "source": nullable(_OBJECT.read),
        "dest": nullable(_OBJECT.read),
    }
)


class _Plan:
    """One pass through a plan, beside the conflicts."""

    def __init__(self, lines: Iterator[tuple[bytes, dict[str, Any]]]) -> None:
        self._lines = lines
        self._next = next(lines, None)
        self._paths: list[bytes] = []
        self._count = 0
        self._first = ""

    def choose(self, path: bytes, source: _Value, destination: _Value) -> MergeSide | None:
        """Return the side that wins at a path; ``None`` if the plan does not say."""
        while self._next is not None and self._next[0] < path:
            self._advance("is in conflict no more")
        if self._next is None or self._next[0] != path:
            return None
        line = self._next[1]
        changes = []
        for side, value in ((MergeSide.SOURCE, source), (MergeSide.DESTINATION, destination)):
            now = None if value is None else identity_of(value).hex()
            planned = line[side] and line[side]["identity"]
            if now != planned:
                what = "another object" if now and planned else "an object" if now else "no object"
                changes.append(f"the {side.name.lower()} has {what} now")
        self._advance(" and ".join(changes))
        return MergeSide(line["take"]) if line["take"] and not changes else None

    def finish(self, *, may_be_outdated: bool) -> None:
        """Read the rest of the plan.

        Raises:
            OutdatedPlan: the plan does not hold for the conflicts of this pass.
        """
        while self._next is not None:
            self._advance("is in conflict no more")
        if self._count and not may_be_outdated:
            paths = "1 path" if self._count == 1 else f"{self._count:,} paths"
            raise OutdatedPlan(
                f"the plan does not hold any more for {paths}: {self._first}",
                hint="write a new plan that keeps what still holds, and edit it: "
                "`conflicts=NEW-FILE`",
                paths=self._paths,
            )

    def _advance(self, change: str) -> None:
        """Go on to the next line, after noting what has changed at this one."""
        assert self._next is not None
        path = self._next[0]
        if change:
            self._first = self._first or f"{os.fsdecode(path)!r}: {change}"
            self._count += 1
            self._paths += [path] if self._count <= MAX_LISTED else []
        self._next = next(self._lines, None)


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    if not path.is_file():  # it is read several times, so it cannot be a pipe
        raise NotFound(f"no file {path}", hint="write one: `merge --conflicts FILE SOURCE BRANCH`")
    try:
        file = path.open("rb")
    except OSError as error:
        raise PermissionDenied(f"cannot read {path}: {error.strerror}") from error
    with file:
        yield file


def _read(file: BinaryIO, name: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Yield the path and the fields of each line, checked; the paths ascend."""
    before = b""
    for number in count(1):
        line = file.readline(MAX_LINE + 1)
        if not line:
            return
        try:
            if len(line) > MAX_LINE:
                raise Invalid(f"more than {MAX_LINE:,} bytes")
            if not line.strip():
                continue
            fields = _LINE.read(json.loads(line.decode("utf-8-sig")))
            path = os.fsencode(fields["path"])
            if path <= before:
                raise Invalid("its path is not after that of the line before")
        except (ValueError, RecursionError) as error:
            raise UsageError(
                f"line {number} of {name} is no conflict as --conflicts writes it: {error}",
                hint="change only what `take` has: source, dest, or nothing",
            ) from error
        yield path, fields
        before = path
