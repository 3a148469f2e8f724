"""Selecting the objects of a recursive transfer, by patterns as in ``.gitignore``.

A pattern is matched against the path relative to the transferred directory. ``*`` and ``?`` do not
match a slash, ``**`` does. A pattern without a slash, except at its end, matches at any depth, any
other from the root. A pattern that matches a directory matches everything below it. The last
pattern that matches decides; ``!`` before a pattern reverses it. An object is selected if it is
included and not excluded. Without include patterns, every object is included.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Self

from lakecli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pathspec import GitIgnoreSpec


class Selection:
    """Include and exclude patterns; safe to share between threads.

    Args:
        include: patterns of the objects to transfer; empty for all.
        exclude: patterns of objects to leave out of these.

    Raises:
        UsageError: a pattern can match nothing.
    """

    def __init__(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> None:
        self._include = _compiled(include)
        self._exclude = _compiled(exclude)

    def takes(self, relative: bytes) -> bool:
        """Return whether an object is selected, by its path below the root."""
        path = os.fsdecode(relative)
        if self._include is not None and not self._include.match_file(path):
            return False
        return self._exclude is None or not self._exclude.match_file(path)


def _compiled(patterns: Sequence[str]) -> GitIgnoreSpec | None:
    if not patterns:
        return None
    from pathspec import GitIgnoreSpec

    with warnings.catch_warnings():
        # pathspec puts "[[]" into a regular expression unescaped, and Python warns of it.
        warnings.simplefilter("ignore", FutureWarning)
        for pattern in patterns:
            try:
                compiled = GitIgnoreSpec.from_lines([pattern]).patterns
            except ValueError as error:
                raise UsageError(f"not a pattern: {pattern!r}") from error
            if len(pattern.splitlines()) != 1 or all(each.include is None for each in compiled):
                raise UsageError(
                    f"a pattern that matches nothing: {pattern!r}",
                    hint="as in .gitignore: *.csv, /top/, **/raw/*; \\# for a leading #",
                )
        return GitIgnoreSpec.from_lines(patterns)


EVERYTHING = Selection()


@dataclass(slots=True)
class Tally:
    """A number of objects, and the sum of their bytes."""

    count: int = 0
    size: int = 0

    def add(self, size: int) -> None:
        """Count one object."""
        self.count += 1
        self.size += size

    def join(self, other: Tally) -> None:
        """Add another tally."""
        self.count += other.count
        self.size += other.size


class Action(StrEnum):
    """What a transfer would do with one path, and the reason."""

    NEW = "new"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    EXCLUDED = "excluded"
    DELETED = "deleted"
    FAILED = "failed"


class Step(NamedTuple):
    """What a transfer would do with one path.

    Attributes:
        action: also the reason.
        path: of the object; of a file that cannot be uploaded or would be deleted, the path on
            disk.
        size: of the object, in bytes; of one that would be deleted, of what is there.
        error: why it would fail.
    """

    action: Action
    path: bytes
    size: int = 0
    error: str = ""


@dataclass(slots=True)
class Plan:
    """The totals of what a recursive transfer would do.

    Attributes:
        new: objects that do not exist at the destination.
        changed: objects that would replace another one.
        unchanged: objects that exist at the destination.
        excluded: objects that the selection leaves out.
        deleted: objects that would be deleted at the destination.
        failures: (path, reason) of objects that would fail, in path order.
    """

    new: Tally = field(default_factory=Tally)
    changed: Tally = field(default_factory=Tally)
    unchanged: Tally = field(default_factory=Tally)
    excluded: Tally = field(default_factory=Tally)
    deleted: Tally = field(default_factory=Tally)
    failures: list[tuple[bytes, str]] = field(default_factory=list)

    @classmethod
    def of(cls, steps: Iterable[Step]) -> Self:
        """Return the totals of all steps."""
        plan = cls()
        for _ in plan.counted(steps):
            pass
        return plan

    def counted(self, steps: Iterable[Step]) -> Iterator[Step]:
        """Yield steps unchanged, and count them."""
        tallies = {
            Action.NEW: self.new,
            Action.CHANGED: self.changed,
            Action.UNCHANGED: self.unchanged,
            Action.EXCLUDED: self.excluded,
            Action.DELETED: self.deleted,
        }
        for step in steps:
            if step.action is Action.FAILED:
                self.failures.append((step.path, step.error))
            else:
                tallies[step.action].add(step.size)
            yield step
