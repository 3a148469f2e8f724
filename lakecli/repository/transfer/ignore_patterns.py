"""Which files are left out: by patterns, and by names that are never data.

The patterns of a `.lakefsignore`, of ``--include`` and of ``--exclude`` are as in ``.gitignore``,
and may come from a namespace that others write to. With the library pathspec a line such as
``*?*?*?*?*?*?*?*?*?*?b`` takes minutes for one long name, and ``local status`` would not end. Here
a match takes time that grows with the path times the pattern.

`Patterns` is a list of them; `Selection` chooses the objects of a recursive transfer. `Ignore`
reads the `.lakefsignore` of a directory and of those above, which mean what they mean to git: they
count for files that are not in the base yet; a deeper file has the last word, and within a file the
last pattern that matches.

A pattern is matched against the path relative to the transferred directory. ``*`` and ``?`` do not
match a slash, ``**`` does. A pattern without a slash, except at its end, matches at any depth, any
other from the root. A pattern that matches a directory matches everything below it. The last
pattern that matches decides; ``!`` before a pattern reverses it. An object is selected if it is
included and not excluded. Without include patterns, every object is included.

A pattern becomes a regular expression in which nothing is tried twice. What stands between two
``*`` of a component is searched from the left in an atomic group: if anything matches, the first
occurrence does, since the next ``*`` takes whatever follows. The same holds for the components
between two ``**``, and a component is an atomic group itself, because no ``*`` leaves it. So each
group moves on along the path, and never goes back behind what an earlier one has found.

Never data are the files of Git, of lakecli itself, and of the system. `is_own` knows them in
directories of users. A namespace that could write ``.git`` would run commands on the machines of
its readers, with the next ``git status``; one that could read it would get their tokens. So
`is_own` is asked by all that writes files of a namespace into a directory, or reads a directory for
one. File systems take other names for these, too, and Git lists which: in upper case, with
characters that are not shown, with dots and blanks at the end, with the name of a stream of NTFS,
and by the short names of Windows.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from lakecli.base.visibility import IGNORABLE
from lakecli.errors import UsageError

IGNORE_FILE: Final = b".lakefsignore"

MAX_FILE_SIZE: Final = 1 << 20
"""Bytes of a `.lakefsignore`, at most."""

_END: Final = "\\Z"
MAX_PATTERNS: Final = 10_000
MAX_SIZE: Final = 4096
"""Characters of a pattern, at most."""


class Patterns:
    """A list of patterns, of which the last one that matches decides; one for files before others.

    Args:
        lines: the patterns; comments and empty lines match nothing.

    Raises:
        UsageError: there are too many, or one is too long or ends in a lone backslash.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._patterns: list[tuple[int, bool, re.Pattern[str]]] = []
        for index, line in enumerate(lines):
            translated = _translate(line)
            if translated is None:
                continue
            if len(self._patterns) == MAX_PATTERNS:
                raise UsageError(f"more than {MAX_PATTERNS:,} patterns")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # of "[[]", which is meant so
                try:
                    compiled = re.compile(translated[1], re.DOTALL)
                except re.error:
                    continue  # such as [z-a], which matches nothing in Git either
            self._patterns.append((index, translated[0], compiled))
        self._patterns.reverse()

    def __len__(self) -> int:
        """Return the number of patterns that can match something."""
        return len(self._patterns)

    def match(self, path: str) -> tuple[int, bool] | None:
        """Return the index of the line that decides, and whether it takes the path; or ``None``."""
        found = None
        for index, takes, pattern in self._patterns:
            matched = pattern.match(path)
            if matched is None:
                continue
            if matched.group("below") is None:
                return index, takes
            if found is None:
                found = index, takes
        return found

    def takes(self, path: str) -> bool:
        """Return whether a path is taken."""
        found = self.match(path)
        return found is not None and found[1]


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
            data = opened.read(MAX_FILE_SIZE + 1)
        except OSError:
            return None
    shown = os.fsdecode(file)
    if len(data) > MAX_FILE_SIZE:
        raise UsageError(f"more than {MAX_FILE_SIZE:,} bytes of patterns: {shown}")
    lines = os.fsdecode(data).split("\n")
    try:
        return _Rules(below, lines, Patterns(lines))
    except UsageError as error:
        raise UsageError(f"{error.message}, in {shown}") from error


def _translate(line: str) -> tuple[bool, str] | None:
    """Return whether a pattern takes what it matches, and a regular expression; or ``None``."""
    text = line if line.endswith("\\ ") else line.rstrip()
    if not text or text.startswith("#") or text == "/":
        return None
    if len(text) > MAX_SIZE:
        raise UsageError(f"a pattern of more than {MAX_SIZE:,} characters: {text[:40]!r}…")
    takes = not text.startswith("!")
    components = text.removeprefix("!").split("/")
    is_directory = len(components) > 1 and not components[-1]
    if is_directory:
        components.pop()
    if components and not components[0]:
        del components[0]
    elif len(components) == 1:
        components.insert(0, "**")
    if not components or not all(components):
        return None
    has_all_below = components[-1] == "**"
    while components and components[-1] == "**":
        components.pop()
    try:
        if has_all_below or is_directory:
            return takes, _below(components, is_marked=is_directory)
        return takes, f"{_path(components, _END)}|{_path(components, '/')}(?P<below>)"
    except _Unclosed:
        return None


def _below(components: list[str], *, is_marked: bool) -> str:
    """Return the regular expression of what is below a path; of everything without components."""
    mark = "(?P<below>)" if is_marked else "(?P<below>(?!))?"
    if components:
        return _path(components, "/") + mark
    return f"[^/]*/{mark}" if is_marked else mark


class _Unclosed(Exception):
    """A bracket that is not closed: such a pattern matches nothing."""


def _path(components: list[str], end: str) -> str:
    """Return the regular expression of components, the last of which is not ``**``."""
    regex = ""
    run: list[str] = []
    is_free = False
    for each in [*components, None]:
        if each is not None and each != "**":
            run.append(_component(each))
            continue
        if run:
            body = "/".join(run) + (end if each is None else "/")
            regex += f"(?>(?:[^/]*+/)*?{body})" if is_free else f"(?>{body})"
        run, is_free = [], True
    return regex


def _component(text: str) -> str:
    """Return the regular expression of one component."""
    if text == "*":
        return "[^/]++"
    pieces = [""]
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "*":
            pieces.append("")
        elif char == "?":
            pieces[-1] += "[^/]"
        elif char == "[":
            stop = at + (text[at : at + 1] in {"!", "^"} and 1)
            stop = text.find("]", stop + (text[stop : stop + 1] == "]"))
            if stop == -1:
                raise _Unclosed
            inside = text[at:stop]
            lead = "^" if inside[:1] in {"!", "^"} else ""
            pieces[-1] += f"[{lead}{inside[len(lead) :]}]".replace("\\", "\\\\")
            at = stop + 1
        elif char == "\\":
            if at == len(text):
                raise UsageError(f"a pattern ends in a lone backslash: {text!r}")
            pieces[-1] += re.escape(text[at])
            at += 1
        else:
            pieces[-1] += re.escape(char)
    first, *rest = pieces
    if not rest:
        return first
    middle = "".join(f"(?>[^/]*?{each})" for each in rest[:-1] if each)
    return f"(?>{first}{middle}[^/]*{rest[-1]}(?=/|\\Z))"


LINK_FILE: Final = b".lakefs_ref.yaml"
"""Links a directory with a path of a ref."""

INCOMING: Final = b".lakecli-incoming"
"""The directory, in a working directory, of files that are not complete yet."""

LEFT_OUT: Final = "Git, lakecli or the system itself uses a file of this name"
"""Why an object with such a name is left out."""

_OWN: Final = re.compile(
    rb"(?:^|[/\\])"
    rb"(?:\.git|git~[1-9]|\.lakefs_ref\.yaml|lakefs~[1-9]\.yam|\.lakecli[^/\\:]*|\.ds_store)"
    rb"[ .]*(?:[/\\:]|\Z)",
    re.IGNORECASE,
)


def is_own(relative: bytes) -> bool:
    """Return whether a file is never transferred, because of its name or a directory above it.

    Args:
        relative: the path of a file or directory, or a single name.
    """
    if not relative.isascii():
        relative = _folded(relative)
    return _OWN.search(relative) is not None


def _folded(relative: bytes) -> bytes:
    """Return a path as HFS+ and ext4 compare it where they ignore case and what is not shown."""
    from unicodedata import normalize

    text = re.sub(IGNORABLE, "", relative.decode("utf-8", "surrogateescape"))
    return normalize("NFD", text).casefold().encode("utf-8", "surrogateescape")
