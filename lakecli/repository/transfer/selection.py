"""Which objects of a recursive transfer are meant, by patterns as ``.gitignore`` has them.

Patterns are matched against the path relative to what is transferred. ``*`` and ``?`` stop at a
slash, ``**`` does not. A pattern without a slash, but for one at its end, matches at any depth,
any other from the root; one that matches a directory, or ends in a slash, means all below it. Of
several the last one that matches counts, and ``!`` before a pattern takes back what those before
it matched. What is included and not excluded is meant; without an include, everything is included.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakecli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pathspec import GitIgnoreSpec


class Selection:
    """Patterns of what to transfer; safe to share between threads.

    Args:
        include: patterns of what is meant; none means everything.
        exclude: patterns of what is not meant all the same.

    Raises:
        UsageError: a pattern that can match nothing.
    """

    def __init__(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> None:
        self._include = _compiled(include)
        self._exclude = _compiled(exclude)

    def takes(self, relative: bytes) -> bool:
        """Tell whether an object is meant, by its path below the root."""
        path = os.fsdecode(relative)
        if self._include is not None and not self._include.match_file(path):
            return False
        return self._exclude is None or not self._exclude.match_file(path)


def _compiled(patterns: Sequence[str]) -> GitIgnoreSpec | None:
    if not patterns:
        return None
    from pathspec import GitIgnoreSpec

    with warnings.catch_warnings():
        # The library hands "[[]" to a regular expression as it is, which Python warns of.
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
    """How many objects, and how many bytes."""

    count: int = 0
    size: int = 0

    def add(self, size: int) -> None:
        """Count one object."""
        self.count += 1
        self.size += size

    def join(self, other: Tally) -> None:
        """Count those of another tally too."""
        self.count += other.count
        self.size += other.size


@dataclass(slots=True)
class Plan:
    """What a recursive transfer would do.

    Attributes:
        new: objects that are not there yet.
        changed: objects that would replace another one.
        unchanged: objects that are there already.
        excluded: objects that patterns leave out.
        failures: (path, why) of what would fail, in path order.
    """

    new: Tally = field(default_factory=Tally)
    changed: Tally = field(default_factory=Tally)
    unchanged: Tally = field(default_factory=Tally)
    excluded: Tally = field(default_factory=Tally)
    failures: list[tuple[bytes, str]] = field(default_factory=list)
