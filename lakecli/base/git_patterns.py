"""Parse a pattern of a ``.gitignore`` as Git does, and match it in bounded time.

A pattern is parsed into a list of components, each a regular expression for one component of a
path. A set of positions in this list records where ``**`` allows any number of further path
components. A path is matched in one pass over its components; the pass keeps the set of pattern
components that may match next. Matching one component needs no backtracking: the text between two
``*`` is searched from the left in an atomic group. The first occurrence is always the right one,
because the next ``*`` matches everything after it.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from lakecli.errors import UsageError

MAX_SIZE: Final = 4096
"""The maximum size of a pattern in bytes."""


class Pattern(NamedTuple):
    """A parsed pattern; an ambiguous line yields several patterns.

    Attributes:
        line: the number of the line.
        takes: true if matching paths are selected; false if they are excluded again (``!``).
        is_directory: whether only directories match.
        tests: pairs of a function that tests one path component, and the bit set of the pattern's
            positions to which the test applies.
        free: the bit set of the positions before which any number of path components may come.
        end: the bit after the last position.
        name: the regular expression of the last component.
    """

    line: int
    takes: bool
    is_directory: bool
    tests: Sequence[tuple[Callable[[bytes], object], int]]
    free: int
    end: int
    name: bytes

    def levels(self, components: Sequence[bytes], wanted: int) -> int:
        """Return which levels of a path (itself and the directories above) match, as a bit set.

        Args:
            components: the components of the path.
            wanted: the paths to match, as a bit set; bit N is the path that ends with component N.

        Returns:
            The bits of `wanted` whose paths match.
        """
        first = 0
        if self.free == 1 and self.end == 1 << 1:  # no slash: only the last component matters
            first = (wanted & -wanted).bit_length() - 1
        found, next_ones = 0, 1
        for level in range(first, wanted.bit_length()):
            component = components[level]
            passed = 0
            for test, positions in self.tests:
                if positions & next_ones and test(component):
                    passed |= positions
            next_ones = (next_ones & passed) << 1 | next_ones & self.free
            if next_ones & self.end:
                next_ones ^= self.end
                found |= 1 << level
            if not next_ones:
                break
        return found & wanted


def names_of(patterns: Iterable[Pattern]) -> Callable[[bytes], object]:
    """Return a function that tells from a path's last component whether any pattern can match."""
    names = dict.fromkeys(each.name for each in patterns)
    return re.compile(b"|".join(names) or b"(?!)", re.DOTALL).fullmatch


_WILDCARD: Final = re.compile(rb"[*?\[\\]")
_ANY_DIRECTORIES: Final = re.compile(rb"\*\*+(\\?/|\Z)")
_TOKEN: Final = re.compile(rb"(?P<bracket>\[)|(?P<slash>\\?/)|\\.|[^\\]", re.DOTALL)
_STAR: Final = b"*"
_WILDCARDS: Final = {b"*": _STAR, b"?": b"."}

_CLASSES: Final = {
    b"alnum": rb"0-9A-Za-z",
    b"alpha": rb"A-Za-z",
    b"blank": rb" \t",
    b"cntrl": rb"\x00-\x1f\x7f",
    b"digit": rb"0-9",
    b"graph": rb"!-~",
    b"lower": rb"a-z",
    b"print": rb" -~",
    b"punct": rb"!-/:-@\[-`{-~",
    b"space": rb" \t\n\r",
    b"upper": rb"A-Z",
    b"xdigit": rb"0-9A-Fa-f",
}
"""The bytes of named classes in Git: ASCII only, and no vertical tab or form feed."""


class _MatchesNothing(Exception):
    """The pattern matches nothing in Git."""


def parse(number: int, line: bytes) -> list[Pattern]:
    """Return the patterns of a line: none, one, or several if the line is ambiguous."""
    line = line.partition(b"\0")[0]
    text = line.rstrip(b" ")
    if len(text) < len(line) and (len(text) - len(text.rstrip(b"\\"))) % 2:
        text += b" "
    if text.startswith(b"#"):
        return []
    if len(text) > MAX_SIZE:
        raise UsageError(f"a pattern of more than {MAX_SIZE:,} bytes: {os.fsdecode(text[:40])!r}…")
    takes = not text.startswith(b"!")
    text = text.removeprefix(b"!")
    is_directory = text.endswith(b"/")
    text = text.removesuffix(b"/")
    found = []
    for way in _ways(text) if b"/" in text else [b"**/" + text]:
        try:
            components, free = _components(way)
        except _MatchesNothing:
            continue
        positions: dict[bytes, int] = {}
        for position, regex in enumerate(components):
            positions[regex] = positions.get(regex, 0) | 1 << position
        tests = [(re.compile(key, re.DOTALL).fullmatch, bits) for key, bits in positions.items()]
        end = 1 << len(components)
        found.append(Pattern(number, takes, is_directory, tests, free, end, components[-1]))
    return found


def _ways(text: bytes) -> Iterator[bytes]:
    """Yield patterns that together match the paths that Git matches for a pattern with a slash.

    Git compares the bytes before the first wildcard, and then matches the rest as a separate
    pattern: for ``foo**/bar``, the rest ``**/bar`` is matched like the pattern ``**/bar``.
    """
    text = text.removeprefix(b"/")
    literal = _WILDCARD.split(text, 1)[0]
    rest = text[len(literal) :]
    while literal and not literal.endswith(b"/") and (stars := _ANY_DIRECTORIES.match(rest)):
        rest = rest[stars.end() :]
        if not stars[1]:
            yield literal + b"*"
            rest = b"*"
        if rest:
            yield literal + b"*/**/" + rest
        if stars[1] != b"/":
            return
    yield literal + rest


def _components(text: bytes) -> tuple[list[bytes], int]:
    """Return the regular expressions of a pattern's components, and its free positions.

    Any number of path components may precede a free position. The positions are a bit set.
    """
    found: list[bytes] = []
    free = at = 0
    tokens: list[bytes] = []

    def end() -> None:
        if not tokens:
            raise _MatchesNothing  # no path has an empty component
        found.append(_regex(tokens))
        tokens.clear()

    while at < len(text):
        stars = None if tokens else _ANY_DIRECTORIES.match(text, at)
        if stars is not None:
            at = stars.end()
            found += [_regex([_STAR])] if stars[1] == b"\\/" else []
            free |= 1 << len(found)
            tokens += [] if stars[1] else [_STAR]
            continue
        token = _TOKEN.match(text, at)
        if token is None:
            raise _MatchesNothing  # a lone backslash at the end
        at, kind = token.end(), token.lastgroup
        if kind == "slash":
            end()
        elif kind == "bracket":
            regex, at = _class(text, at)
            tokens.append(regex)
        else:
            tokens.append(_WILDCARDS.get(token[0]) or re.escape(token[0][-1:]))
    end()
    return found, free


def _regex(tokens: list[bytes]) -> bytes:
    """Return the regular expression of one component."""
    pieces = [b""]
    for token in tokens:
        if token == _STAR:
            pieces.append(b"")
        else:
            pieces[-1] += token
    first, *rest = pieces
    if not rest:
        return first
    return first + b"".join(b"(?>.*?%b)" % each for each in rest[:-1] if each) + b".*" + rest[-1]


def _class(text: bytes, at: int) -> tuple[bytes, int]:
    """Return the regex of a bracket expression and its end, as Git's ``wildmatch`` reads it.

    Args:
        at: the position after the opening bracket.

    Returns:
        The regular expression, and the position after the closing bracket.
    """
    is_negated = text[at : at + 1] in {b"!", b"^"}
    at += is_negated
    members = [b"[^" if is_negated else b"["]
    before = None
    """The previous byte, if a range can begin with it."""
    is_first = True
    while is_first or text[at : at + 1] != b"]":
        is_first = False
        char, after = text[at : at + 1], text[at + 1 : at + 2]
        if char == b"-" and before is not None and after not in {b"", b"]"}:
            at += 1 + (after == b"\\")
            last = _byte(text, at)
            if before <= last:
                members.append(b"\\x%02x-\\x%02x" % (before, last))
            before = None
        elif char == b"[" and after == b":" and (name := _class_name(text, at + 2)) is not None:
            if name not in _CLASSES:
                raise _MatchesNothing
            members.append(_CLASSES[name])
            at += len(name) + 3
            before = None
        else:
            at += char == b"\\"
            before = _byte(text, at)
            members.append(b"\\x%02x" % before)
        at += 1
    return b"".join(members) + b"]", at + 1


def _byte(text: bytes, at: int) -> int:
    if at >= len(text):
        raise _MatchesNothing  # the bracket is not closed
    return text[at]


def _class_name(text: bytes, at: int) -> bytes | None:
    """Return the name of a class like ``[:alpha:]`` at a position; ``None`` if there is none."""
    end = text.find(b"]", at)
    if end == -1:
        raise _MatchesNothing
    return text[at : end - 1] if end > at and text[end - 1 : end] == b":" else None
