"""Decides the conflicts of a merge: by a plan, by patterns of paths, or by a strategy.

`Decisions` chooses the source or the destination for each conflict, in path order. The plan's line
for the path comes first, then the last pattern that matches the path, then the strategy. A conflict
that none of them decides is left open, and then nothing is merged.

A conflict in the log of a table (Delta Lake's ``_delta_log/``, Iceberg's ``metadata/``) is left
open, too. Both sides have appended rows and recorded them in log files of the same name. Taking the
file of one side would remove the rows of the other side from the table. Only
`Decisions.table_logs` permits this.

A plan is a file of JSON lines, one for each conflict. `merge --conflicts` writes the file, and a
person or a program edits it: ``take`` names the side that wins. Each line has the identities of the
objects on both sides, so that a plan for other objects is refused. Each pass over the conflicts
reads the plan line by line, so a plan may have any number of lines.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
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
    """The side of a merge that wins a conflict."""

    SOURCE = "source"
    DESTINATION = "dest"


_Value = bytes | None
_Take = tuple[MergeSide, Sequence[Pattern]]

Decide = Callable[[bytes, _Value, _Value], MergeSide | None]
"""A function that returns the side that wins a conflict; ``None`` leaves the conflict open.

Its arguments are the path, and the values of the path in the source and in the destination.
"""

_WINNERS: Final = {
    MergeStrategy.SOURCE_WINS: MergeSide.SOURCE,
    MergeStrategy.DEST_WINS: MergeSide.DESTINATION,
}

_TABLE_LOG: Final = re.compile(
    rb"(?:^|/)(?:_delta_log/"
    rb"|metadata/(?:[^/]*\.metadata\.json(?:\.gz)?|[^/]*\.avro|version-hint\.text)\Z)"
)


def is_table_log(path: bytes) -> bool:
    """Return whether a path is a log file of a Delta Lake or Iceberg table."""
    return _TABLE_LOG.search(path) is not None


@dataclass(frozen=True, slots=True)
class Decisions:
    """The rules that decide the conflicts of a merge; paths without a conflict are not affected.

    Attributes:
        strategy: the strategy for conflicts that neither the plan nor a pattern decides.
        take: ``source:PATTERN`` or ``dest:PATTERN``, with patterns as in a ``.gitignore``. The last
            pattern that matches a path, or a directory above it, decides.
        plan: the path of a file that `merge --conflicts` wrote and the user has edited.
        table_logs: whether to decide conflicts in the logs of tables, too.

    Raises:
        UsageError: an element of `take` is malformed.
    """

    strategy: MergeStrategy = MergeStrategy.FAIL
    take: Sequence[str] = ()
    plan: Path | None = None
    table_logs: bool = False
    _takes: Sequence[_Take] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Parse the patterns of `take`; the last one comes first, because it wins."""
        object.__setattr__(self, "_takes", [_parse_take(each) for each in self.take][::-1])

    @contextmanager
    def begin(self, *, may_be_outdated: bool = False) -> Iterator[Decide]:
        """Yield a function that decides conflicts; call it for all conflicts, in path order.

        Args:
            may_be_outdated: whether to ignore outdated lines of the plan, and leave their conflicts
                to the other rules, instead of raising `OutdatedPlan`.

        Raises:
            NotFound: the file of the plan does not exist.
            PermissionDenied: the file of the plan cannot be read.
            UsageError: the plan is malformed.
            OutdatedPlan: lines of the plan do not match the conflicts of this pass; raised at its
                end.
        """
        with ExitStack() as stack:
            lines = self.plan and _read(stack.enter_context(_open(self.plan)), self.plan)
            plan = _Plan(lines or iter(()))

            def decide(path: bytes, source: _Value, destination: _Value) -> MergeSide | None:
                side = plan.choose(path, source, destination) or self._choose(path)
                return side if self.table_logs or not is_table_log(path) else None

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
    """A plan does not match the current conflicts; ``paths`` lists the first outdated paths."""


MAX_LISTED: Final = 1_000

MAX_LINE: Final = 1 << 20
"""Largest size of a line of a plan, in bytes."""

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
    """Reads a plan once, in step with the conflicts of a merge."""

    def __init__(self, lines: Iterator[tuple[bytes, dict[str, Any]]]) -> None:
        self._lines = lines
        self._next = next(lines, None)
        self._paths: list[bytes] = []
        self._count = 0
        self._first = ""

    def choose(self, path: bytes, source: _Value, destination: _Value) -> MergeSide | None:
        """Return the side that wins at a path; ``None`` if the plan does not decide the path."""
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
        """Read the rest of the plan; the paths of these lines are not in conflict any more.

        Raises:
            OutdatedPlan: a line of the plan did not match a conflict, unless `may_be_outdated`.
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
        """Move to the next line; with a `change`, record that the current line is outdated."""
        assert self._next is not None
        path = self._next[0]
        if change:
            self._first = self._first or f"{os.fsdecode(path)!r}: {change}"
            self._count += 1
            self._paths += [path] if self._count <= MAX_LISTED else []
        self._next = next(self._lines, None)


def _open(path: Path) -> BinaryIO:
    if not path.is_file():  # it is read several times, so it cannot be a pipe
        raise NotFound(f"no file {path}", hint="write one: `merge --conflicts FILE SOURCE BRANCH`")
    try:
        return path.open("rb")
    except OSError as error:
        raise PermissionDenied(f"cannot read {path}: {error.strerror}") from error


def _read(file: BinaryIO, name: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Yield the path and the fields of each line of a plan; check them, and that paths ascend."""
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
                f"line {number} of {name} is not a conflict as --conflicts writes it: {error}",
                hint="change only what `take` has: source, dest, or nothing",
            ) from error
        yield path, fields
        before = path
