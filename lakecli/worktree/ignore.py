"""Which paths of a ref or files of a working directory lakecli leaves alone.

Paths come from a bucket and are not trusted. One that cannot be a file here is left out: it is
neither written nor ever taken for deleted. So is one that the selection of a sparse directory does
not take.

`.lakefsignore` has git's patterns and git's meaning: it counts for the files below its directory
that are not in the base yet; a deeper file has the last word, and within a file the last pattern
that matches.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, NamedTuple

from lakecli.errors import UsageError
from lakecli.repository.transfer.ignore_patterns import EVERYTHING, Patterns, Selection
from lakecli.repository.transfer.own_names import is_own
from lakecli.stores.local.directory import are_possible

MAX_SIZE: Final = 1 << 20
"""Bytes of a `.lakefsignore`, at most."""


IGNORE_FILE: Final = b".lakefsignore"


def is_possible(relative: bytes) -> bool:
    """Return whether a path can be a file below a working directory.

    A path that ends in a slash marks a directory in a bucket, and is no file.
    """
    return are_possible(relative.split(b"/")) and not is_own(relative)


class IgnoreMatch(NamedTuple):
    """The pattern that decides about a path.

    Attributes:
        file: the `.lakefsignore`, relative to the working directory.
        line: number of the pattern in it, from 1.
        pattern: the pattern as written.
        ignores: whether the path is ignored; if not, the pattern begins with ``!``.
    """

    file: bytes
    line: int
    pattern: str
    ignores: bool


class _Rules(NamedTuple):
    below: bytes
    lines: Sequence[str]
    patterns: Patterns


class Ignore:
    """The rules of `.lakefsignore` files, read while a directory is walked.

    Args:
        root: the working directory.
    """

    def __init__(self, root: bytes) -> None:
        self._root = root
        self._read: dict[bytes, _Rules | None] = {}

    def match(self, relative: bytes) -> IgnoreMatch | None:
        """Return the pattern that decides about a file, or ``None`` if none matches.

        Args:
            relative: the path of a file, or that of a directory with a slash at its end.
        """
        parents = relative.rstrip(b"/").split(b"/")[:-1]
        for depth in range(len(parents), -1, -1):
            below = b"".join(each + b"/" for each in parents[:depth])
            rules = self._rules(below)
            if rules is None:
                continue
            found = rules.patterns.match(os.fsdecode(relative[len(below) :]))
            if found is not None:
                index, ignores = found
                return IgnoreMatch(below + IGNORE_FILE, index + 1, rules.lines[index], ignores)
        return None

    def ignores(self, relative: bytes) -> bool:
        """Return whether a file that is not in the base is ignored."""
        found = self.match(relative)
        return found is not None and found.ignores

    def _rules(self, below: bytes) -> _Rules | None:
        if below not in self._read:
            self._read[below] = _load(os.path.join(self._root, below, IGNORE_FILE), below)
        return self._read[below]


def _load(file: bytes, below: bytes) -> _Rules | None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(file, flags)
    except OSError:
        return None  # absent in almost every directory; a link is not followed, as in git
    with os.fdopen(descriptor, "rb") as opened:
        try:
            data = opened.read(MAX_SIZE + 1)
        except OSError:
            return None
    shown = os.fsdecode(file)
    if len(data) > MAX_SIZE:
        raise UsageError(f"more than {MAX_SIZE:,} bytes of patterns: {shown}")
    lines = os.fsdecode(data).split("\n")
    try:
        return _Rules(below, lines, Patterns(lines))
    except UsageError as error:
        raise UsageError(f"{error.message}, in {shown}") from error


def selection_of(include: Sequence[str], exclude: Sequence[str]) -> Selection:
    """Return the selection of some patterns.

    Raises:
        UsageError: a pattern can match nothing.
    """
    return Selection(include, exclude) if include or exclude else EVERYTHING
