"""Selecting the objects of a recursive transfer, by patterns as in ``.gitignore``.

A pattern is matched against the path relative to the transferred directory. ``*`` and ``?`` do not
match a slash, ``**`` does. A pattern without a slash, except at its end, matches at any depth, any
other from the root. A pattern that matches a directory matches everything below it. The last
pattern that matches decides; ``!`` before a pattern reverses it. An object is selected if it is
included and not excluded. Without include patterns, every object is included.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from lakecli.errors import UsageError
from lakecli.repository.transfer.patterns import Patterns


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
        if self._include is None and self._exclude is None:
            return True
        path = os.fsdecode(relative)
        if self._include is not None and not self._include.takes(path):
            return False
        return self._exclude is None or not self._exclude.takes(path)


def _compiled(patterns: Sequence[str]) -> Patterns | None:
    if not patterns:
        return None
    for pattern in patterns:
        if len(pattern.splitlines()) != 1 or not Patterns([pattern]):
            raise UsageError(
                f"a pattern that matches nothing: {pattern!r}",
                hint="as in .gitignore: *.csv, /top/, **/raw/*; \\# for a leading #",
            )
    return Patterns(patterns)


EVERYTHING = Selection()
