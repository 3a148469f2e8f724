"""Decide which files a transfer leaves out: by patterns, and by names that are never data.

The patterns of a `.lakefsignore`, of ``--include`` and of ``--exclude`` match exactly as in a
``.gitignore``; a test compares the results with Git. Patterns may come from a namespace that others
write to, so they are not trusted. The library pathspec differs from Git, and takes minutes to match
a line such as ``*?*?*?*?*?*?*?*?*?*?b`` with one long name, so ``local status`` would not end. In
this module, the time of a match is bounded by the length of the path times the length of the
pattern. One regular expression matches the last component of every path that any pattern can match,
so most files are ruled out quickly.

`Patterns` is a list of patterns; `Selection` chooses the objects of a recursive transfer. `Ignore`
reads the `.lakefsignore` of a directory and of the directories above it. A `.lakefsignore` applies
to files that are not in the base commit yet. A deeper `.lakefsignore` has precedence; within one
`.lakefsignore`, the last matching pattern decides.

A pattern is matched against the path relative to the transferred directory. ``*``, ``?`` and
``[…]`` do not match a slash, ``**/`` does. A pattern without a slash, except at its end, matches at
any depth; any other pattern is anchored at the root. The directories of a path are matched first,
from the top: everything below a matching directory matches, even if another pattern negates it. If
several patterns match the same directory or file, the last one decides; ``!`` negates a pattern.
An object is selected if it is included and not excluded. Include patterns work as in a sparse
checkout of Git: the object itself is matched first, then the directories above it. Without include
patterns, all objects are included.

The files of Git, of lakecli itself, and of the system are never data. `is_own` recognises their
names in directories of users. If an object could be downloaded as a file of ``.git``, it could run
commands with the reader's next ``git status``; if files of ``.git`` could be uploaded, their tokens
would leak. So all code that writes files of a namespace into a directory, or reads a directory for
a namespace, calls `is_own`. File systems accept other spellings of these names, which Git lists:
upper case, invisible characters, dots and blanks at the end, the name of an NTFS stream, and the
short names of Windows.
"""

import os
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from lakecli.base.git_patterns import Pattern, names_of, parse
from lakecli.base.visibility import IGNORABLE
from lakecli.errors import UsageError

IGNORE_FILE: Final = b".lakefsignore"

MAX_FILE_SIZE: Final = 1 << 20
"""The maximum size of a `.lakefsignore` in bytes."""

MAX_PATTERNS: Final = 10_000
_MAX_REMEMBERED: Final = 10_000
"""The maximum number of directories in the cache."""


class _Rules(NamedTuple):
    """The patterns of one directory.

    Attributes:
        depth: the number of path components above the directory.
        patterns: the patterns, the last one first.
        names: two tests of a path's last component: whether a file with this name can match any of
            the patterns, and whether a directory with this name can.
    """

    depth: int
    patterns: Sequence[Pattern]
    names: tuple[Callable[[bytes], object], Callable[[bytes], object]]


_Found = tuple[_Rules, Pattern]


def _decide(rules: Iterable[_Rules], path: bytes, *, above: bool) -> _Found | None:
    """Return the pattern that decides about a path, with its rules, or ``None``.

    Args:
        rules: the patterns of each directory, the deepest directory first.
        path: the path of a file; or the path of a directory, with a slash at its end.
        above: match the directories above the path, too. If false, the caller knows that no pattern
            selects any of these directories.
    """
    is_directory = path.endswith(b"/")
    if not above:
        name = path.removesuffix(b"/").rpartition(b"/")[2]
        rules = [each for each in rules if each.names[is_directory](name)]
        if not rules:
            return None
    components = path.removesuffix(b"/").split(b"/")
    last = 1 << (len(components) - 1)
    undecided = 2 * last - 1 if above else last
    taken, final = None, None
    for each in rules:
        for pattern in each.patterns:
            wanted = undecided & ~last if pattern.is_directory and not is_directory else undecided
            if not wanted >> each.depth:
                continue
            found = pattern.levels(components[each.depth :], wanted >> each.depth) << each.depth
            if not found:
                continue
            undecided &= ~found
            if found & last:
                final = each, pattern
            if pattern.takes:
                taken = each, pattern
                undecided &= (found & -found) - 1  # this decides about everything below, too
            if not undecided:
                return taken or final
    return taken or final


class _Memory:
    """A cache: for each directory, the pattern that selects it, or else the rules for its files."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[_Found | None, Sequence[_Rules]]] = {}

    def decide(self, path: bytes, rules: Callable[[bytes], Iterable[_Rules]]) -> _Found | None:
        """Return the pattern that decides about a path, with its rules, or ``None``.

        Args:
            rules: returns the rules for a path, the rules of the deepest directory first.
        """
        parent = path.removesuffix(b"/").rpartition(b"/")[0]
        known = self._known
        if parent not in known:
            found = _decide(rules(parent), parent + b"/", above=True) if parent else None
            if len(known) >= _MAX_REMEMBERED:
                known = self._known = {}
            taken = found if found is not None and found[1].takes else None
            known[parent] = taken, () if taken else [*rules(path)]
        taken, below = known[parent]
        return taken or _decide(below, path, above=False)


class Patterns:
    """A list of patterns; the last one that matches decides. Safe to share between threads.

    Args:
        lines: the patterns. Comments, empty lines, and lines that Git cannot read match nothing.

    Raises:
        UsageError: there are too many patterns, or a pattern is too long.
    """

    def __init__(self, lines: Iterable[bytes]) -> None:
        patterns: list[Pattern] = []
        for index, line in enumerate(lines):
            patterns += parse(index, line)
            if len(patterns) > MAX_PATTERNS:
                raise UsageError(f"more than {MAX_PATTERNS:,} patterns")
        of_files = names_of(each for each in patterns if not each.is_directory)
        self.rules: Final = _Rules(0, patterns[::-1], (of_files, names_of(patterns)))
        self._memory: Final = _Memory()

    def __len__(self) -> int:
        """Return the number of patterns that can match something."""
        return len(self.rules.patterns)

    def takes(self, path: bytes) -> bool:
        """Return whether the patterns select a path.

        Args:
            path: the path of a file; or the path of a directory, with a slash at its end.
        """
        found = self._memory.decide(path, lambda _: (self.rules,))
        return found is not None and found[1].takes

    def includes(self, path: bytes) -> bool:
        """Return whether include patterns select a path, as in a sparse checkout of Git.

        The path itself is matched first, then the directories above it, from the bottom.
        """
        is_directory = path.endswith(b"/")
        components = path.removesuffix(b"/").split(b"/")
        last = 1 << (len(components) - 1)
        wanted, taken = 2 * last - 1, False
        for pattern in self.rules.patterns:
            asked = wanted & ~last if pattern.is_directory and not is_directory else wanted
            levels = pattern.levels(components, asked) if asked else 0
            if levels:
                taken = pattern.takes
                wanted &= -1 << levels.bit_length()
        return taken


class Selection:
    """Include and exclude patterns; safe to share between threads.

    Args:
        include: patterns of the objects to transfer; empty for all.

    Raises:
        UsageError: a pattern cannot match anything.
    """

    def __init__(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> None:
        self._include = _compiled(include) if include else None
        self._exclude = _compiled(exclude) if exclude else None

    def takes(self, relative: bytes) -> bool:
        """Return whether an object is selected.

        Args:
            relative: the path of the object below the root.
        """
        if self._include is not None and not self._include.includes(relative):
            return False
        return self._exclude is None or not self._exclude.takes(relative)


def _compiled(patterns: Sequence[str]) -> Patterns:
    lines = [os.fsencode(pattern) for pattern in patterns]
    for line in lines:
        if b"\n" in line or not Patterns([line]):
            hint = "as in .gitignore: *.csv, /top/, **/raw/*; \\# for a leading #"
            raise UsageError(f"a pattern that matches nothing: {os.fsdecode(line)!r}", hint=hint)
    return Patterns(lines)


EVERYTHING = Selection()


class IgnoreMatch(NamedTuple):
    """The pattern of a `.lakefsignore` that decides about a path.

    Attributes:
        file: the `.lakefsignore`, relative to the working directory.
        ignores: whether the path is ignored; false if the pattern begins with ``!``.
    """

    file: bytes
    line: int
    pattern: str
    ignores: bool


class Ignore:
    """The rules of `.lakefsignore` files, read while a directory is walked."""

    def __init__(self, root: bytes) -> None:
        self._root = root
        self._read: dict[bytes, tuple[Sequence[bytes], Patterns] | None] = {}
        """The lines and patterns of the `.lakefsignore` of each directory."""
        self._memory = _Memory()

    def match(self, relative: bytes) -> IgnoreMatch | None:
        """Return the pattern that decides about a file, or ``None`` if none matches.

        Args:
            relative: the path of a file; or the path of a directory, with a slash at its end.
        """
        found = self._memory.decide(relative, self._rules)
        if found is None:
            return None
        rules, pattern = found
        below = b"".join(each + b"/" for each in relative.split(b"/")[: rules.depth])
        file = self._read[below]
        assert file is not None
        line = os.fsdecode(file[0][pattern.line])
        return IgnoreMatch(below + IGNORE_FILE, pattern.line + 1, line, pattern.takes)

    def ignores(self, relative: bytes) -> bool:
        """Return whether a file that is not in the base is ignored."""
        found = self._memory.decide(relative, self._rules)
        return found is not None and found[1].takes

    def _rules(self, path: bytes) -> Iterator[_Rules]:
        """Yield the rules for a path, the rules of the deepest directory first."""
        parents = path.removesuffix(b"/").split(b"/")[:-1]
        for depth in range(len(parents), -1, -1):
            below = b"".join(each + b"/" for each in parents[:depth])
            if below not in self._read:
                self._read[below] = _load(os.path.join(self._root, below, IGNORE_FILE))
            file = self._read[below]
            if file is not None:
                yield file[1].rules._replace(depth=depth)


def _load(file: bytes) -> tuple[Sequence[bytes], Patterns] | None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(file, flags)
    except OSError:
        return None  # absent in almost every directory; Git does not follow a link, either
    with os.fdopen(descriptor, "rb") as opened:
        try:
            data = opened.read(MAX_FILE_SIZE + 1)
        except OSError:
            return None
    shown = os.fsdecode(file)
    if len(data) > MAX_FILE_SIZE:
        raise UsageError(f"more than {MAX_FILE_SIZE:,} bytes of patterns: {shown}")
    lines = [line.removesuffix(b"\r") for line in data.removeprefix(BOM_UTF8).split(b"\n")]
    try:
        return lines, Patterns(lines)
    except UsageError as error:
        raise UsageError(f"{error.message}, in {shown}") from error


INCOMING: Final = b".lakecli-incoming"
"""The subdirectory of a working directory for files that are not complete yet."""

LEFT_OUT: Final = "Git, lakecli or the system itself uses a file of this name"
"""The reason why an object with a reserved name is left out."""

_OWN: Final = re.compile(
    rb"(?:^|[/\\])"
    rb"(?:\.git|git~[1-9]|\.lakefs_ref\.yaml|lakefs~[1-9]\.yam|\.lakecli[^/\\:]*|\.ds_store)"
    rb"[ .]*(?:[/\\:]|\Z)",
    re.IGNORECASE,
)


def is_own(relative: bytes) -> bool:
    """Return whether a path has a component with a reserved name, and so is never transferred.

    Args:
        relative: the path of a file or directory, or a single name.
    """
    if not relative.isascii():  # compared as case-insensitive HFS+ and ext4 do
        from unicodedata import normalize

        text = re.sub(IGNORABLE, "", relative.decode("utf-8", "surrogateescape"))
        relative = normalize("NFD", text).casefold().encode("utf-8", "surrogateescape")
    return _OWN.search(relative) is not None
